//! Quantizers alone.

use anyhow::Result;
use grouped_linear::functional::{QuantizeArgs, QuantizeSource, amax, quantize};
use grouped_linear::recipe::ScaleRule;
use grouped_linear::{
    DType, Direction, QuantizedSpec, QuantizedTensor, RandomState, SourceShape, Stream, Tensor,
};

use super::Work;
use super::base::Base;
use super::check::{Errors, Limits, Read};
use super::copy::Copy;
use super::products::not_open;
use super::quantized::{restored_tokens, restored_weights};
use crate::bench::measure::quantizer::{Kind, Quantizer, Source};
use crate::bench::measure::record::{COPY, Check, Quantity};
use crate::bench::measure::task::Task;
use crate::bench::model::quantize::Copies;

/// Rows that are restored and compared.
const LINES: usize = 8;

/// Over the operands of a shape.
pub struct Quantizers {
    base: Base,
    destination: Option<QuantizedTensor>,
    random: Option<RandomState>,
    /// Magnitudes that are given.
    amax: Option<Tensor>,
    copy: Option<Copy>,
}

impl Quantizers {
    /// Nothing is allocated before a quantizer is opened.
    pub fn new(base: Base) -> Self {
        Self { base, destination: None, random: None, amax: None, copy: None }
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

/// E4M3 keeps 4 bits of an element (off by 1/16 at most, 2.7 % on average), E5M2 3, E2M1 2. At
/// random the neighbour further away is taken, too.
fn limits(quantizer: Quantizer) -> Limits {
    match (quantizer.kind, quantizer.source) {
        (Kind::Hadamard(_), Source::Dy) => Limits { worst: 2.0, rms: 0.2 },
        (Kind::Nvfp4(_) | Kind::Hadamard(_), _) => Limits { worst: 1.5, rms: 0.15 },
        (Kind::Group, Source::Dy) => Limits { worst: 1.0, rms: 0.08 },
        _ => Limits { worst: 0.5, rms: 0.04 },
    }
}

fn source(base: &Base, quantizer: Quantizer) -> QuantizeSource<'_> {
    match quantizer.source {
        Source::X => QuantizeSource::Tokens(&base.x, &base.splits),
        Source::Dy => QuantizeSource::Tokens(&base.dy, &base.splits),
        Source::W => QuantizeSource::Weights(&base.w),
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Rowwise => "rowwise",
        Direction::Columnwise => "columnwise",
    }
}

impl Work for Quantizers {
    fn contenders(&self, _task: Task, quantity: Quantity) -> Vec<String> {
        let names: &[&str] = if quantity == Quantity::Kernel { &["ours", COPY] } else { &["ours"] };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()> {
        let Task::Quantize(quantizer) = task else { return Err(not_open()) };
        (self.destination, self.copy) = (None, None); // what was there goes first
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
        self.random = quantizer.is_random().then(|| RandomState::new(stream, 0)).transpose()?;
        self.amax = None;
        if quantizer.given {
            let mut found = Tensor::empty(stream, &[base.groups()], DType::F32)?;
            amax(stream, source(base, quantizer), None, &mut found)?;
            self.amax = Some(found);
        }
        Ok(())
    }

    fn run(&mut self, stream: &Stream, task: Task, name: &str) -> grouped_linear::Result<()> {
        if name == COPY {
            let copy = match &mut self.copy {
                Some(copy) => copy,
                none => none.insert(Copy::new(stream, task.bytes(&self.base.shape))?),
            };
            return copy.run(stream, task, name);
        }
        let (Task::Quantize(quantizer), Some(destination)) = (task, &mut self.destination) else {
            return Err(not_open());
        };
        let source = source(&self.base, quantizer);
        // As the recipes have it: scales of blocks are powers of two, one of a group is not.
        let power_of_two = matches!(quantizer.kind, Kind::Vector | Kind::Square);
        let scale = ScaleRule { power_of_two, epsilon: 0.0 };
        let (random, amax) = (self.random.as_ref(), self.amax.as_ref());
        let args = QuantizeArgs { scale, random, amax, ..QuantizeArgs::new(source) };
        quantize(stream, args, destination)
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

    fn compare(&self, stream: &Stream, task: Task, name: &str) -> Result<Vec<Check>> {
        if name == COPY {
            return Ok(Vec::new()); // the driver's, not ours
        }
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

#[cfg(test)]
mod tests {
    use grouped_linear::Device;

    use super::super::base::Data;
    use super::*;
    use crate::bench::measure::quantizer;
    use crate::bench::suite::{OwnShape, SEED};

    /// Half of its bytes are read, half are written.
    #[test]
    fn kernels_alone_stand_beside_a_copy_of_as_many_bytes() {
        let shape = "3,40,128,64,33:0:7".parse::<OwnShape>().unwrap().shape(0, SEED).unwrap();
        let stream = Device::cpu().stream().unwrap();
        let base = Base::new(&stream, &mut Data::new(5), &shape).unwrap();
        let mut quantizers = Quantizers::new(base);
        for task in quantizer::all().map(Task::Quantize) {
            assert_eq!(quantizers.contenders(task, Quantity::Gpu), ["ours"]);
            assert_eq!(quantizers.contenders(task, Quantity::Kernel), ["ours", COPY]);
            quantizers.open(&stream, task).unwrap();
            assert!(quantizers.copy.is_none(), "{}: only where it takes part", task.name());
            quantizers.run(&stream, task, COPY).unwrap();
            let length = quantizers.copy.as_ref().unwrap().source.shape()[0];
            assert_eq!(2.0 * length as f64, task.bytes(&shape), "{}", task.name());
        }
    }
}
