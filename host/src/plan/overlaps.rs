//! Whether what several launches write overlaps anything else that they touch.

use crate::error::{Error, Result};
use crate::tensor::{Memory, Tensor};

/// Bytes of the operands of several launches.
#[derive(Debug, Default)]
pub(crate) struct Overlaps(Vec<Span>);

/// Ordered by memory, then by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    /// Tells allocations of the host apart; 0 for memory with a device address.
    memory: usize,
    start: u64,
    end: u64,
    written: bool,
}

impl Overlaps {
    /// Tensors that are only read; they may overlap one another.
    pub(crate) fn read<'a>(&mut self, tensors: impl IntoIterator<Item = &'a Tensor>) {
        self.0.extend(tensors.into_iter().map(|tensor| Span::new(tensor, false)));
    }

    /// Tensors that are written.
    pub(crate) fn write<'a>(&mut self, tensors: impl IntoIterator<Item = &'a Tensor>) {
        self.0.extend(tensors.into_iter().map(|tensor| Span::new(tensor, true)));
    }

    /// Refuses a written tensor that shares a byte with any other.
    pub(crate) fn check(mut self) -> Result<()> {
        self.0.retain(|span| span.start < span.end);
        self.0.sort_unstable();
        // How far spans reach that began earlier in the same memory: all, and the written ones.
        let (mut memory, mut reach, mut written_reach) = (0, 0, 0);
        for span in self.0 {
            if span.memory != memory {
                (memory, reach, written_reach) = (span.memory, 0, 0);
            }
            let earlier = if span.written { reach } else { written_reach };
            if span.start < earlier {
                return Err(Error::invalid(
                    "a gradient's buffer overlaps another buffer or an operand of backward or a \
                     parameter; give it memory of its own",
                ));
            }
            reach = reach.max(span.end);
            if span.written {
                written_reach = written_reach.max(span.end);
            }
        }
        Ok(())
    }
}

impl Span {
    fn new(tensor: &Tensor, written: bool) -> Self {
        let memory = match tensor.memory() {
            Memory::Host(memory) => std::sync::Arc::as_ptr(memory) as usize,
            Memory::Device(_) => 0,
        };
        let start = tensor.address().unwrap_or(tensor.byte_offset() as u64);
        Self { memory, start, end: start + tensor.byte_len() as u64, written }
    }
}
