//! Whether what is written overlaps anything else that is touched.

use std::sync::Arc;

use crate::backend::DeviceId;
use crate::error::{Error, Result};
use crate::tensor::{Memory, Tensor, WeakMemory};

/// Bytes of operands, of one launch or of several.
#[derive(Debug, Default)]
pub(crate) struct Overlaps(Vec<Span>);

#[derive(Clone, Copy, Debug)]
struct Span {
    /// Kind and number of the device, and the allocation where addresses are offsets in it: starts
    /// of different spaces have nothing to do with one another.
    space: (u8, u32, usize),
    start: u64,
    end: u64,
    written: bool,
}

/// Where tensors lie that are not kept, for as long as their memory is.
#[derive(Clone, Debug)]
pub(crate) struct Unkept(Arc<[(Span, WeakMemory)]>);

impl Unkept {
    pub(crate) fn new<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Self {
        let place = |tensor: &Tensor| (Span::new(tensor, false), WeakMemory::of(tensor.memory()));
        Self(tensors.into_iter().map(place).collect())
    }

    /// These and others.
    pub(crate) fn and<'a>(&self, tensors: impl IntoIterator<Item = &'a Tensor>) -> Self {
        let Self(others) = Self::new(tensors);
        Self(self.0.iter().chain(&*others).cloned().collect())
    }
}

impl Default for Unkept {
    fn default() -> Self {
        Self::new([])
    }
}

impl Overlaps {
    /// Tensors that are only read; they may overlap one another.
    pub(crate) fn read<'a>(&mut self, tensors: impl IntoIterator<Item = &'a Tensor>) {
        self.0.extend(tensors.into_iter().map(|tensor| Span::new(tensor, false)));
    }

    /// The same of those that still exist. (Their memory, once freed, may be that of others.)
    pub(crate) fn read_unkept(&mut self, unkept: &Unkept) {
        self.0.extend(unkept.0.iter().filter(|(_, memory)| memory.lives()).map(|(span, _)| *span));
    }

    /// Tensors that are written.
    pub(crate) fn write<'a>(&mut self, tensors: impl IntoIterator<Item = &'a Tensor>) {
        self.0.extend(tensors.into_iter().map(|tensor| Span::new(tensor, true)));
    }

    /// Refuses a written tensor that shares a byte with any other.
    pub(crate) fn check(self) -> Result<()> {
        if !self.any() {
            return Ok(());
        }
        Err(Error::invalid(
            "a buffer to write overlaps another buffer or an operand or a parameter; give it memory \
             of its own",
        ))
    }

    /// Whether a written tensor shares a byte with any other.
    pub(crate) fn any(mut self) -> bool {
        self.0.retain(|span| span.start < span.end);
        self.0.sort_unstable_by_key(|span| (span.space, span.start));
        // How far spans reach that began earlier in the same space: all, and the written ones.
        let (mut space, mut reach, mut written_reach) = (None, 0, 0);
        for span in self.0 {
            if space != Some(span.space) {
                (space, reach, written_reach) = (Some(span.space), 0, 0);
            }
            let earlier = if span.written { reach } else { written_reach };
            if span.start < earlier {
                return true;
            }
            reach = reach.max(span.end);
            if span.written {
                written_reach = written_reach.max(span.end);
            }
        }
        false
    }
}

impl Span {
    fn new(tensor: &Tensor, written: bool) -> Self {
        let allocation = match tensor.memory() {
            Memory::Host(memory) => Arc::as_ptr(memory) as usize,
            Memory::Device(_) => 0,
        };
        let DeviceId { kind, ordinal } = tensor.device_id();
        let start = tensor.address().unwrap_or(tensor.byte_offset() as u64);
        let end = start + tensor.byte_len() as u64;
        Self { space: (kind as u8, ordinal, allocation), start, end, written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Device, Stream};
    use crate::tensor::DType;

    fn any(read: &[&Tensor], written: &[&Tensor]) -> bool {
        let mut overlaps = Overlaps::default();
        overlaps.read(read.iter().copied());
        overlaps.write(written.iter().copied());
        overlaps.any()
    }

    fn streams() -> Result<Vec<Stream>> {
        let cpu = Device::cpu();
        #[cfg(feature = "emulator")]
        let devices = [cpu, Device::emulated(ptx_emulator::Arch::Sm90a)?];
        #[cfg(not(feature = "emulator"))]
        let devices = [cpu];
        devices.iter().map(Device::stream).collect()
    }

    #[test]
    fn a_written_byte_is_nobody_elses() -> Result<()> {
        for stream in &streams()? {
            let whole = Tensor::zeros(stream, &[12], DType::F32)?;
            let apart = Tensor::zeros(stream, &[12], DType::F32)?;
            let part = |start, count| whole.narrow(start, count);
            let (first, middle, last) = (part(0, 4)?, part(4, 4)?, part(8, 4)?);
            assert!(!any(&[&first, &last], &[&middle, &apart]), "side by side");
            assert!(!any(&[&whole, &middle, &whole], &[&apart]), "reads overlap");
            assert!(!any(&[&whole], &[&part(4, 0)?]), "no bytes");
            assert!(any(&[&whole], &[&middle]));
            assert!(any(&[&middle], &[&whole]));
            assert!(any(&[], &[&whole, &last]));
            assert!(any(&[], &[&middle, &middle]));
            // Found behind what is shorter and began later.
            assert!(any(&[&last], &[&whole, &apart]));
            assert!(any(&[&first, &part(9, 1)?], &[&part(1, 11)?]));
        }
        Ok(())
    }

    #[test]
    fn what_is_not_kept_is_in_nobodys_way_once_it_is_gone() -> Result<()> {
        for stream in &streams()? {
            let whole = Tensor::zeros(stream, &[12], DType::F32)?;
            let (first, last) = (whole.narrow(0, 4)?, whole.narrow(8, 4)?);
            let unkept = Unkept::new([&first]);
            let overlapped_by = |written: &Tensor| {
                let mut overlaps = Overlaps::default();
                overlaps.read_unkept(&unkept);
                overlaps.write([written]);
                overlaps.any()
            };
            assert!(!overlapped_by(&last), "side by side");
            drop((whole, last));
            assert!(overlapped_by(&first));
            drop(first);
            // Its memory may be given out again.
            let mut overlaps = Overlaps::default();
            overlaps.read_unkept(&unkept);
            assert!(overlaps.0.is_empty());
        }
        Ok(())
    }

    /// Emulated GPUs give out the same addresses, each of memory of its own.
    #[cfg(feature = "emulator")]
    #[test]
    fn an_address_of_another_device_is_another_place() -> Result<()> {
        let make = || -> Result<Tensor> {
            let stream = Device::emulated(ptx_emulator::Arch::Sm90a)?.stream()?;
            Tensor::zeros(&stream, &[12], DType::F32)
        };
        let (one, other) = (make()?, make()?);
        assert_eq!(one.address(), other.address());
        assert!(!any(&[&one], &[&other]));
        assert!(!any(&[], &[&one, &other]));
        assert!(any(&[&one, &other], &[&other]));
        Ok(())
    }

    #[test]
    fn the_refusal_says_what_to_do() -> Result<()> {
        let tensor = Tensor::zeros(&Device::cpu().stream()?, &[1], DType::F32)?;
        let mut overlaps = Overlaps::default();
        overlaps.write([&tensor, &tensor]);
        let error = overlaps.check().unwrap_err();
        let text = error.to_string();
        assert!(error.is_invalid_argument(), "{text}");
        assert!(text.contains("overlaps another buffer or an operand"), "{text}");
        assert!(text.contains("give it memory of its own"), "{text}");
        // Forward passes and casts may be refused, too.
        for room in ["backward", "gradient"] {
            assert!(!text.contains(room), "{text}");
        }
        Ok(())
    }
}
