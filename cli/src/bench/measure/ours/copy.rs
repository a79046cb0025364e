//! A copy by the driver, for the bandwidth that quantizers are held against.

use anyhow::Result;
use grouped_linear::{DType, Stream, Tensor};

use super::Work;
use crate::bench::measure::record::{Check, Quantity};
use crate::bench::measure::task::Task;

/// Both buffers.
pub struct Copy {
    /// As long as the other.
    pub source: Tensor,
    target: Tensor,
}

impl Copy {
    /// Allocates them. So many bytes are read and written, half of them each.
    pub fn new(stream: &Stream, bytes: f64) -> grouped_linear::Result<Self> {
        let buffer = || Tensor::zeros(stream, &[(bytes / 2.0) as usize], DType::U8);
        Ok(Self { source: buffer()?, target: buffer()? })
    }
}

impl Work for Copy {
    fn contenders(&self, _task: Task, _quantity: Quantity) -> Vec<String> {
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
