//! Quantizers alone.

use anyhow::Result;
use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::ScaleRule;
use grouped_linear::{Direction, QuantizedSpec, QuantizedTensor, SourceShape, Stream};

use super::Work;
use super::base::Base;
use super::check::{Errors, Limits, Read};
use super::products::not_open;
use super::quantized::{restored_tokens, restored_weights};
use crate::bench::measure::quantizer::{Copies, Kind, Quantizer, Source};
use crate::bench::measure::record::Check;
use crate::bench::measure::task::Task;

/// Rows that are restored and compared.
const LINES: usize = 8;

/// Over the operands of a shape.
pub struct Quantizers {
    base: Base,
    destination: Option<QuantizedTensor>,
}

impl Quantizers {
    /// Nothing is allocated before a quantizer is opened.
    pub fn new(base: Base) -> Self {
        Self { base, destination: None }
    }

    fn compare(
        &self,
        stream: &Stream,
        quantizer: Quantizer,
        direction: Direction,
        quantized: &QuantizedTensor,
    ) -> Result<Check> {
        let base = &self.base;
        let (wanted, restored) = match quantizer.source {
            Source::W => {
                let group = base.groups() / 2;
                (base.w(stream, group)?, restored_weights(stream, quantized, direction, group)?)
            }
            Source::X | Source::Dy => {
                let tensor = restored_tokens(stream, base, quantized, direction)?;
                let step = (base.rows() / LINES).max(1);
                let (mut wanted, mut restored) = (Vec::new(), Vec::new());
                for row in (step / 2..base.rows()).step_by(step) {
                    let source = if quantizer.source == Source::X { &base.x } else { &base.dy };
                    wanted.extend(source.index(row)?.to_f32(stream)?);
                    restored.extend(tensor.index(row)?.to_f32(stream)?);
                }
                (wanted, restored)
            }
        };
        // In units of the root of the mean square, since errors are random and not each small.
        let squares: f64 = wanted.iter().map(|&value| f64::from(value).powi(2)).sum();
        let scale = (squares / wanted.len().max(1) as f64).sqrt();
        let mut errors = Errors::default();
        for (&want, &got) in wanted.iter().zip(&restored) {
            errors.push(f64::from(got), f64::from(want), scale);
        }
        let name = format!("{} {}", quantizer.name(), direction_name(direction));
        Ok(errors.check(name, limits(quantizer)))
    }
}

/// E4M3 keeps 4 bits of an element (off by 1/16 at most, 2.7 % on average), E5M2 3, E2M1 2.
fn limits(quantizer: Quantizer) -> Limits {
    match (quantizer.kind, quantizer.source) {
        (Kind::Nvfp4(_) | Kind::Hadamard(_), _) => Limits { worst: 1.5, rms: 0.15 },
        (Kind::Group, Source::Dy) => Limits { worst: 1.0, rms: 0.08 },
        _ => Limits { worst: 0.5, rms: 0.04 },
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Rowwise => "rowwise",
        Direction::Columnwise => "columnwise",
    }
}

impl Work for Quantizers {
    fn contenders(&self, _task: Task) -> Vec<String> {
        vec!["ours".to_owned()]
    }

    fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()> {
        let Task::Quantize(quantizer) = task else { return Err(not_open()) };
        self.destination = None; // what was there goes first
        let base = &self.base;
        let tokens = |features| SourceShape::Tokens { rows: base.rows(), features };
        let form = Some(quantizer.form());
        let spec = QuantizedSpec {
            groups: base.groups(),
            source: match quantizer.source {
                Source::X => tokens(base.k()),
                Source::Dy => tokens(base.n()),
                Source::W => SourceShape::Weights { rows: base.n(), columns: base.k() },
            },
            format: quantizer.format(),
            rowwise: form.filter(|_| quantizer.copies != Copies::Column),
            columnwise: form.filter(|_| quantizer.copies != Copies::Row),
        };
        self.destination = Some(QuantizedTensor::empty(stream, spec)?);
        Ok(())
    }

    fn run(&mut self, stream: &Stream, task: Task, _name: &str) -> grouped_linear::Result<()> {
        let (Task::Quantize(quantizer), Some(destination)) = (task, &mut self.destination) else {
            return Err(not_open());
        };
        let source = match quantizer.source {
            Source::X => QuantizeSource::Tokens(&self.base.x, &self.base.splits),
            Source::Dy => QuantizeSource::Tokens(&self.base.dy, &self.base.splits),
            Source::W => QuantizeSource::Weights(&self.base.w),
        };
        // As the recipes have it: scales of blocks are powers of two, one of a group is not.
        let power_of_two = matches!(quantizer.kind, Kind::Vector | Kind::Square);
        let scale = ScaleRule { power_of_two, epsilon: 0.0 };
        quantize(stream, QuantizeArgs { scale, ..QuantizeArgs::new(source) }, destination)
    }

    fn clear(&mut self, stream: &Stream, _task: Task) -> grouped_linear::Result<u32> {
        // Zeros are as far from numbers as a comparison can be.
        let Some(destination) = &self.destination else { return Err(not_open()) };
        for direction in destination.directions() {
            if let Some(copy) = destination.copy(direction) {
                copy.data.clone().fill_zero(stream)?;
            }
        }
        Ok(1)
    }

    fn compare(&self, stream: &Stream, task: Task, _name: &str) -> Result<Vec<Check>> {
        let (Task::Quantize(quantizer), Some(destination)) = (task, &self.destination) else {
            return Err(not_open().into());
        };
        let mut checks = Vec::new();
        for direction in destination.directions() {
            // A copy that was mixed along the tokens has no way back.
            let mixed = matches!(quantizer.kind, Kind::Hadamard(_));
            if !(mixed && direction == Direction::Columnwise) {
                checks.push(self.compare(stream, quantizer, direction, destination)?);
            }
        }
        Ok(checks)
    }
}
