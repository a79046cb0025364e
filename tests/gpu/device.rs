//! A problem's tensors on the device, and one call of every operation on them.

use grouped_linear::functional::{
    self, Accumulate, DbiasArgs, DgradArgs, DscalesArgs, GemmOptions, WgradArgs,
};
use grouped_linear::{
    BiasUse, Config, DType, ForwardOptions, GroupedLinear, GroupedTensor, KernelChoice, Result,
    Splits, Stream, Tensor,
};
use half::{bf16, f16};

use crate::host::{Host, Sizes, equal_bits, equal_values, poison};

/// Where parameters and their gradients lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Packed,
    Discrete,
}

/// What the operations read. The splits are in device memory.
pub struct Inputs {
    pub layer: GroupedLinear,
    pub x: Tensor,
    pub dy: Tensor,
    pub row_scales: Tensor,
    pub counts: Tensor,
    pub splits: Splits,
}

impl Inputs {
    /// Tensors of these sizes, contents unspecified; `counts` is the type of the splits.
    pub fn new(stream: &Stream, sizes: Sizes, layout: Layout, counts: DType) -> Result<Self> {
        let Sizes { groups, rows, k, n, dtype } = sizes;
        let config = Config { groups, in_features: k, out_features: n, dtype };
        let weights = grouped(stream, layout, &[groups, n, k], dtype)?;
        let bias = grouped(stream, layout, &[groups, n], dtype)?;
        let counts = Tensor::zeros(stream, &[groups], counts)?;
        Ok(Self {
            layer: GroupedLinear::new(stream, config, weights, Some(bias))?,
            x: Tensor::empty(stream, &[rows, k], dtype)?,
            dy: Tensor::empty(stream, &[rows, n], dtype)?,
            row_scales: Tensor::empty(stream, &[rows], DType::F32)?,
            splits: Splits::device(counts.clone())?,
            counts,
        })
    }

    /// Tensors that hold the problem.
    pub fn of(stream: &Stream, host: &Host, layout: Layout, counts: DType) -> Result<Self> {
        let mut inputs = Self::new(stream, host.sizes, layout, counts)?;
        inputs.write(stream, host)?;
        Ok(inputs)
    }

    /// Writes another problem of the same sizes into the same buffers.
    pub fn write(&mut self, stream: &Stream, host: &Host) -> Result<()> {
        self.x.write_f32(stream, &host.x)?;
        self.dy.write_f32(stream, &host.dy)?;
        self.row_scales.write_f32(stream, &host.row_scales)?;
        write_groups(stream, self.layer.weights(), &host.weights)?;
        if let Some(bias) = self.layer.bias() {
            write_groups(stream, bias, &host.bias)?;
        }
        let splits: Vec<i64> = host.splits.iter().map(|&split| split as i64).collect();
        self.write_splits(stream, &splits)
    }

    /// Writes any splits, good or bad.
    pub fn write_splits(&mut self, stream: &Stream, splits: &[i64]) -> Result<()> {
        match self.counts.dtype() {
            DType::I32 => {
                let splits: Vec<i32> = splits.iter().map(|&split| split as i32).collect();
                self.counts.write(stream, &splits)
            }
            _ => self.counts.write(stream, splits),
        }
    }
}

/// What the operations write.
pub struct Outputs {
    pub y: Tensor,
    pub dx: Tensor,
    pub dw: GroupedTensor,
    pub db: GroupedTensor,
    pub dscales: Tensor,
}

impl Outputs {
    /// Poisoned outputs.
    pub fn new(stream: &Stream, sizes: Sizes, layout: Layout) -> Result<Self> {
        Self::with_grads(stream, sizes, layout, sizes.dtype)
    }

    /// Poisoned outputs, gradients of parameters in the type `grads`.
    pub fn with_grads(stream: &Stream, sizes: Sizes, layout: Layout, grads: DType) -> Result<Self> {
        let Sizes { groups, rows, k, n, dtype } = sizes;
        let outputs = Self {
            y: Tensor::empty(stream, &[rows, n], dtype)?,
            dx: Tensor::empty(stream, &[rows, k], dtype)?,
            dw: grouped(stream, layout, &[groups, n, k], grads)?,
            db: grouped(stream, layout, &[groups, n], grads)?,
            dscales: Tensor::empty(stream, &[rows], DType::F32)?,
        };
        outputs.poison(stream)?;
        Ok(outputs)
    }

    /// Other handles to the same memory.
    pub fn share(&self) -> Self {
        Self {
            y: self.y.clone(),
            dx: self.dx.clone(),
            dw: self.dw.clone(),
            db: self.db.clone(),
            dscales: self.dscales.clone(),
        }
    }

    pub fn poison(&self, stream: &Stream) -> Result<()> {
        self.poison_rows(stream)?;
        self.poison_grads(stream)
    }

    /// Poisons what has a row for each token.
    pub fn poison_rows(&self, stream: &Stream) -> Result<()> {
        let tensors = [&self.y, &self.dx, &self.dscales];
        tensors.into_iter().try_for_each(|tensor| poison_tensor(stream, tensor))
    }

    /// Poisons the gradients of parameters.
    pub fn poison_grads(&self, stream: &Stream) -> Result<()> {
        let tensors = [parts(&self.dw)?, parts(&self.db)?].concat();
        tensors.iter().try_for_each(|tensor| poison_tensor(stream, tensor))
    }

    /// The bits of each of the [`RESULTS`](crate::host::RESULTS).
    pub fn bits(&self, stream: &Stream) -> Result<[Vec<u32>; 5]> {
        Ok([
            tensor_bits(stream, &self.y)?,
            tensor_bits(stream, &self.dx)?,
            grouped_bits(stream, &self.dw)?,
            grouped_bits(stream, &self.db)?,
            tensor_bits(stream, &self.dscales)?,
        ])
    }

    fn dtypes(&self) -> [DType; 5] {
        [self.y.dtype(), self.dx.dtype(), self.dw.dtype(), self.db.dtype(), DType::F32]
    }

    /// Checks that the outputs hold the exact results, and that nothing else was written.
    pub fn check(&self, stream: &Stream, host: &Host, what: &str) -> Result<(), String> {
        let got = self.bits(stream).map_err(|error| format!("{what}: {error}"))?;
        let names = crate::host::RESULTS;
        for (i, want) in host.expected().iter().enumerate() {
            let what = format!("{what}: {}", names[i]);
            let dtype = self.dtypes()[i];
            let (live, tail) = got[i].split_at(want.len());
            equal_values(&what, dtype, live, want)?;
            untouched(&format!("{what} past the last group"), tail, dtype)?;
        }
        Ok(())
    }

    /// Checks that nothing at all was written.
    pub fn check_untouched(&self, stream: &Stream, what: &str) -> Result<(), String> {
        let got = self.bits(stream).map_err(|error| format!("{what}: {error}"))?;
        for (i, got) in got.iter().enumerate() {
            let what = format!("{what}: {}", crate::host::RESULTS[i]);
            untouched(&what, got, self.dtypes()[i])?;
        }
        Ok(())
    }
}

/// Checks that elements are still poisoned.
pub fn untouched(what: &str, got: &[u32], dtype: DType) -> Result<(), String> {
    equal_bits(what, got, &vec![poison(dtype); got.len()])
}

/// Every operation once, into the caller's buffers; allocates nothing.
pub fn run_all(
    stream: &Stream,
    inputs: &Inputs,
    outputs: &mut Outputs,
    kernel: KernelChoice,
) -> Result<()> {
    let Inputs { layer, x, dy, row_scales, splits, .. } = inputs;
    let forward = ForwardOptions {
        bias: BiasUse::RowScaled(row_scales),
        kernel,
        ..ForwardOptions::default()
    };
    drop(layer.forward_into(stream, x, splits, forward, &mut outputs.y)?);
    let options = GemmOptions { kernel, ..GemmOptions::default() };
    let weights = layer.weights();
    functional::dgrad(stream, &DgradArgs { dy, weights, splits, options }, &mut outputs.dx)?;
    functional::wgrad(stream, &WgradArgs { dy, x, splits, options }, &mut outputs.dw)?;
    let (row_scales, accumulate) = (Some(row_scales), Accumulate::Overwrite);
    let args = DbiasArgs { dy, splits, row_scales, accumulate };
    functional::dbias(stream, &args, &mut outputs.db)?;
    match layer.bias() {
        Some(bias) => {
            let args = DscalesArgs { dy, bias, splits };
            functional::dscales(stream, &args, &mut outputs.dscales)
        }
        None => Ok(()),
    }
}

/// A parameter or gradient; `shape` starts with the number of groups.
pub fn grouped(
    stream: &Stream,
    layout: Layout,
    shape: &[usize],
    dtype: DType,
) -> Result<GroupedTensor> {
    match layout {
        Layout::Packed => GroupedTensor::packed(Tensor::empty(stream, shape, dtype)?),
        Layout::Discrete => {
            let each = (0..shape[0]).map(|_| Tensor::empty(stream, &shape[1..], dtype));
            GroupedTensor::discrete(stream, each.collect::<Result<_>>()?)
        }
    }
}

/// The tensors that hold the groups.
pub fn parts(grouped: &GroupedTensor) -> Result<Vec<Tensor>> {
    match grouped.as_packed() {
        Some(tensor) => Ok(vec![tensor.clone()]),
        None => (0..grouped.groups()).map(|group| grouped.group(group)).collect(),
    }
}

pub fn write_groups(stream: &Stream, grouped: &GroupedTensor, values: &[f32]) -> Result<()> {
    let mut rest = values;
    for mut part in parts(grouped)? {
        let (values, after) = rest.split_at(part.len());
        part.write_f32(stream, values)?;
        rest = after;
    }
    Ok(())
}

pub fn poison_tensor(stream: &Stream, tensor: &Tensor) -> Result<()> {
    let (mut tensor, count) = (tensor.clone(), tensor.len());
    let pattern = poison(tensor.dtype());
    match tensor.dtype() {
        DType::Bf16 => tensor.write(stream, &vec![bf16::from_bits(pattern as u16); count]),
        DType::F16 => tensor.write(stream, &vec![f16::from_bits(pattern as u16); count]),
        _ => tensor.write(stream, &vec![f32::from_bits(pattern); count]),
    }
}

/// The elements as the bits that lie in memory.
pub fn tensor_bits(stream: &Stream, tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(match tensor.dtype() {
        DType::Bf16 => {
            tensor.to_vec::<bf16>(stream)?.iter().map(|v| u32::from(v.to_bits())).collect()
        }
        DType::F16 => {
            tensor.to_vec::<f16>(stream)?.iter().map(|v| u32::from(v.to_bits())).collect()
        }
        _ => tensor.to_vec::<f32>(stream)?.iter().map(|v| v.to_bits()).collect(),
    })
}

pub fn grouped_bits(stream: &Stream, grouped: &GroupedTensor) -> Result<Vec<u32>> {
    let mut bits = Vec::new();
    for part in parts(grouped)? {
        bits.extend(tensor_bits(stream, &part)?);
    }
    Ok(bits)
}
