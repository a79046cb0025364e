//! Memory that a later operation cannot use, between two multiples of 16 bytes or on another
//! device: refused before the first operation writes, and taken wherever it can be used.

use grouped_linear::ops::{BackwardArguments, ForwardArguments, OpId, Sequential, Sink, names};
use grouped_linear::{
    Config, DType, DeviceKind, GroupedLinear, GroupedTensor, Result, Stream, Tensor,
};

use crate::engines::Test;
use crate::relu::Relu;
use crate::{GROUPS, ROWS, splits};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("misplaced memory is refused before forward writes", |e, s| forward(s).expect(e)),
    ("misplaced memory is refused before backward writes", |e, s| backward(s).expect(e)),
    ("a layer on another device is refused before forward writes", |e, s| elsewhere(s).expect(e)),
];

const K: usize = 8;
const H: usize = 16;
const N: usize = 24;
const SENTINEL: f32 = 7.0;
const KERNELS: [&str; 2] = ["auto", "simt"];

/// What starts one element late, and a part of the refusal.
const FORWARD: &[(&str, &str)] = &[
    ("active", "operation 2 (grouped_linear): tensor copies need addresses"),
    ("packed weights", "operation 2 (grouped_linear): tensor copies need addresses"),
    ("discrete weights", "operation 2 (grouped_linear): discrete weights must each start"),
    ("bias", "operation 2 (grouped_linear): the bias must start"),
    ("y", "operation 2 (grouped_linear): the output must start at a multiple of 16 bytes"),
];

const BACKWARD: &[(&str, &str)] = &[
    ("dy", "operation 2 (grouped_linear): tensor copies need addresses"),
    ("da", "operation 2 (grouped_linear): the output must start at a multiple of 16 bytes"),
    ("dh", "operation 0 (grouped_linear): tensor copies need addresses"),
    ("dw", "operation 0 (grouped_linear): the output must start at a multiple of 16 bytes"),
    ("dx", "operation 0 (grouped_linear): the output must start at a multiple of 16 bytes"),
];

/// Sevens in BF16; those of the name that is misplaced start one element late.
struct Memory<'a> {
    stream: &'a Stream,
    misplaced: &'a str,
}

impl Memory<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let (count, late) = (shape.iter().product(), usize::from(name == self.misplaced));
        let sevens = vec![SENTINEL; count + late];
        let arena = Tensor::from_f32(self.stream, &[count + late], DType::Bf16, &sevens)?;
        arena.narrow(late, count)?.reshape(shape)
    }

    fn packed(&self, name: &str, shape: &[usize]) -> Result<GroupedTensor> {
        GroupedTensor::packed(self.tensor(name, shape)?)
    }

    fn discrete(&self, name: &str, shape: &[usize]) -> Result<GroupedTensor> {
        let each = (0..GROUPS).map(|_| self.tensor(name, shape)).collect::<Result<_>>()?;
        GroupedTensor::discrete(self.stream, each)
    }

    /// Layer, relu, layer.
    fn pipeline(&self) -> Result<(Sequential, [OpId; 3])> {
        let config =
            |k, n| Config { groups: GROUPS, in_features: k, out_features: n, dtype: DType::Bf16 };
        let weights = self.packed("", &[GROUPS, H, K])?;
        let up = GroupedLinear::new(self.stream, config(K, H), weights, None)?;
        let weights = match self.misplaced {
            "discrete weights" => self.discrete("discrete weights", &[N, H])?,
            _ => self.packed("packed weights", &[GROUPS, N, H])?,
        };
        let bias = self.packed("bias", &[GROUPS, N])?;
        let down = GroupedLinear::new(self.stream, config(H, N), weights, Some(bias))?;
        let mut pipeline = Sequential::new();
        let ids = [pipeline.push(up), pipeline.push(Relu), pipeline.push(down)];
        Ok((pipeline, ids))
    }

    /// An outcome is a refusal exactly where tensor copies are to read or write what is misplaced.
    fn judge(
        &self,
        kernel: &str,
        message: &str,
        outcome: Result<()>,
        written: &[&Tensor],
    ) -> Result<()> {
        let what = format!("{}, {kernel}", self.misplaced);
        let gpu = self.stream.device().id().kind != DeviceKind::Cpu;
        let refused = gpu && kernel == "auto";
        match outcome {
            Ok(()) => assert!(!refused, "{what}: was not refused"),
            Err(error) => {
                assert!(refused && error.is_invalid_argument(), "{what}: {error:?}");
                assert!(error.to_string().starts_with(message), "{what}: {error}");
            }
        }
        for tensor in written {
            let untouched = tensor.to_f32(self.stream)?.iter().all(|&value| value == SENTINEL);
            assert_eq!(untouched, refused, "{what}");
        }
        Ok(())
    }
}

fn arguments<'a>([up, _, down]: [OpId; 3], kernel: &'static str) -> ForwardArguments<'a> {
    let arguments = ForwardArguments::new().splits(up, &splits()).splits(down, &splits());
    arguments.input(up, names::KERNEL, kernel).input(down, names::KERNEL, kernel)
}

fn forward(stream: &Stream) -> Result<()> {
    for &(misplaced, message) in FORWARD {
        for kernel in KERNELS {
            let memory = Memory { stream, misplaced };
            let (pipeline, ids) = memory.pipeline()?;
            let mut h = memory.tensor("h", &[ROWS, H])?;
            let mut active = memory.tensor("active", &[ROWS, H])?;
            let mut y = memory.tensor("y", &[ROWS, N])?;
            let (h_again, active_again) = (h.clone(), active.clone());
            let arguments = arguments(ids, kernel)
                .output(ids[0], &mut h)
                .output(ids[1], &mut active)
                .output(ids[2], &mut y);
            let x = memory.tensor("x", &[ROWS, K])?;
            let outcome = pipeline.forward(stream, x, arguments).map(drop);
            memory.judge(kernel, message, outcome, &[&h_again, &active_again])?;
        }
    }
    Ok(())
}

fn backward(stream: &Stream) -> Result<()> {
    for &(misplaced, message) in BACKWARD {
        for kernel in KERNELS {
            let memory = Memory { stream, misplaced };
            let (pipeline, ids) = memory.pipeline()?;
            let x = memory.tensor("x", &[ROWS, K])?;
            let (_, saved) = pipeline.forward(stream, x, arguments(ids, kernel))?;
            let mut dw_last = memory.packed("dw of the last layer", &[GROUPS, N, H])?;
            let mut db = memory.packed("db", &[GROUPS, N])?;
            let mut da = memory.tensor("da", &[ROWS, H])?;
            let mut dh = memory.tensor("dh", &[ROWS, H])?;
            let mut dw = memory.packed("dw", &[GROUPS, H, K])?;
            let mut dx = memory.tensor("dx", &[ROWS, K])?;
            let written = [dw_last.clone(), db.clone()];
            let sinks = BackwardArguments::new()
                .sink(ids[2], names::WEIGHTS, Sink::Overwrite(&mut dw_last))
                .sink(ids[2], names::BIAS, Sink::Overwrite(&mut db))
                .sink(ids[2], names::X, Sink::Into(&mut da))
                .sink(ids[1], names::X, Sink::Into(&mut dh))
                .sink(ids[0], names::WEIGHTS, Sink::Overwrite(&mut dw))
                .sink(ids[0], names::X, Sink::Into(&mut dx));
            let dy = memory.tensor("dy", &[ROWS, N])?;
            let outcome = pipeline.backward(stream, saved, dy, sinks).map(drop);
            let written = written.each_ref().map(|one| one.as_packed().expect("packed"));
            memory.judge(kernel, message, outcome, &written)?;
        }
    }
    Ok(())
}

/// The first layer is here, the last one is not.
fn elsewhere(stream: &Stream) -> Result<()> {
    let Some(other) = crate::other_device::stream(stream) else { return Ok(()) };
    let mut pipeline = Sequential::new();
    let ids = [
        pipeline.push(crate::layer(stream, (K, H), false, 1)?),
        pipeline.push(crate::layer(&other, (H, N), false, 2)?),
    ];
    let mut h = Tensor::from_slice(stream, &[ROWS, H], &[SENTINEL; ROWS * H])?;
    let again = h.clone();
    let x = crate::tensor(stream, &[ROWS, K], 3)?;
    let arguments = ForwardArguments::new().splits(ids[0], &splits()).splits(ids[1], &splits());
    let error = pipeline.forward(stream, x, arguments.output(ids[0], &mut h)).unwrap_err();
    let start = "operation 1 (grouped_linear): weights lies on";
    assert!(error.to_string().starts_with(start), "{error}");
    assert!(again.to_f32(stream)?.iter().all(|&value| value == SENTINEL), "was written");
    Ok(())
}
