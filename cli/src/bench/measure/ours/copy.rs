//! A copy of 2 GiB by the driver, for the bandwidth that quantizers are held against.

use anyhow::Result;
use grouped_linear::{DType, Stream, Tensor};

use super::Work;
use crate::bench::measure::record::Check;
use crate::bench::measure::task::{COPY_BYTES, Task};

/// Both buffers.
pub struct Copy {
    source: Tensor,
    target: Tensor,
}

impl Copy {
    /// Allocates them.
    pub fn new(stream: &Stream) -> grouped_linear::Result<Self> {
        let buffer = || Tensor::zeros(stream, &[COPY_BYTES as usize], DType::U8);
        Ok(Self { source: buffer()?, target: buffer()? })
    }
}

impl Work for Copy {
    fn contenders(&self, _task: Task) -> Vec<String> {
        vec!["driver".to_owned()]
    }

    fn open(&mut self, _stream: &Stream, _task: Task) -> grouped_linear::Result<()> {
        Ok(())
    }

    fn run(&mut self, stream: &Stream, _task: Task, _name: &str) -> grouped_linear::Result<()> {
        self.target.copy_from(stream, &self.source)
    }

    fn clear(&mut self, _stream: &Stream, _task: Task) -> grouped_linear::Result<u32> {
        Ok(0)
    }

    fn compare(&self, _stream: &Stream, _task: Task, _name: &str) -> Result<Vec<Check>> {
        Ok(Vec::new()) // the driver's, not ours
    }
}
