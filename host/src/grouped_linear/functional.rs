//! The operations as pure functions over explicit arguments: what the layer is made of, and what an
//! autodiff engine drives.
//!
//! Shapes: `x [T, K]`, `dy [T, N]`, weights `[N, K]` per group, bias `[N]` per group, with
//! `T ≥ Σ m_g` rows of buffer. Outputs are the caller's (but those of [`split_quantize`]); rows at
//! and beyond `Σ m_g` keep what they held. Every function checks all it can on the host before it
//! launches anything.
//!
//! Operands of high precision are BF16, FP16 or FP32, both of one type. Outputs of 16-bit operands
//! are of any of the three, those of FP32 operands are FP32; a bias and its gradient are of any of
//! the three, whatever the operands are.

pub use super::composed::{QuantizeOptions, requantize, split_quantize};
pub use super::forms::{restore_exact, swizzle};
pub use super::movement::{DequantizeSink, dequantize, pad, unpad};
pub use super::quantized::{
    DbiasSink, QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs,
    QuantizedGemmOptions, QuantizedWgradArgs, amax, quantize, quantized_dgrad, quantized_fprop,
    quantized_wgrad,
};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{
    BiasKind, CastOperands, CastProblem, DbiasOperands, DbiasProblem, DscalesOperands,
    DscalesProblem, Factor, GemmOperands, GemmProblem, GroupedOperand, KernelChoice, Operands,
    Pass, Plan, Problem,
};
use crate::splits::Splits;
use crate::tensor::{DType, GroupedTensor, Tensor};

/// Factors of a product and the kernel that computes it: `D = alpha · A·B + beta · D`.
#[derive(Clone, Copy, Debug)]
pub struct GemmOptions<'a> {
    /// Factor of the product.
    pub alpha: Factor<'a>,
    /// Factor of what the output held before; 0 writes without reading it.
    pub beta: Factor<'a>,
    /// Which kernel.
    pub kernel: KernelChoice,
}

impl Default for GemmOptions<'_> {
    /// `D = A·B`, the best kernel.
    fn default() -> Self {
        Self { alpha: Factor::Value(1.0), beta: Factor::Value(0.0), kernel: KernelChoice::Auto }
    }
}

/// Whether a gradient replaces what its buffer held or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulate {
    /// Replace.
    Overwrite,
    /// Add.
    Add,
}

/// Arguments of [`fprop`].
#[derive(Clone, Copy, Debug)]
pub struct FpropArgs<'a> {
    /// Tokens, `[T, K]`.
    pub x: &'a Tensor,
    /// Weights, `[N, K]` per group, of the type of `x`.
    pub weights: &'a GroupedTensor,
    /// Rows per group.
    pub splits: &'a Splits,
    /// Bias, `[N]` per group.
    pub bias: Option<&'a GroupedTensor>,
    /// Factor of the bias for each token row, FP32, `[T]`; needs a bias.
    pub bias_row_scales: Option<&'a Tensor>,
    /// Factors and kernel.
    pub options: GemmOptions<'a>,
}

/// Arguments of [`dgrad`].
#[derive(Clone, Copy, Debug)]
pub struct DgradArgs<'a> {
    /// Gradient of the output, `[T, N]`.
    pub dy: &'a Tensor,
    /// Weights, `[N, K]` per group, of the type of `dy`.
    pub weights: &'a GroupedTensor,
    /// Rows per group.
    pub splits: &'a Splits,
    /// Factors and kernel.
    pub options: GemmOptions<'a>,
}

/// Arguments of [`wgrad`].
#[derive(Clone, Copy, Debug)]
pub struct WgradArgs<'a> {
    /// Gradient of the output, `[T, N]`.
    pub dy: &'a Tensor,
    /// Tokens, `[T, K]`, of the type of `dy`.
    pub x: &'a Tensor,
    /// Rows per group.
    pub splits: &'a Splits,
    /// Factors and kernel; `beta = 1` accumulates.
    pub options: GemmOptions<'a>,
}

/// Arguments of [`dbias`].
#[derive(Clone, Copy, Debug)]
pub struct DbiasArgs<'a> {
    /// Gradient of the output, `[T, N]`.
    pub dy: &'a Tensor,
    /// Rows per group.
    pub splits: &'a Splits,
    /// The factors that forward gave the bias, FP32, `[T]`.
    pub row_scales: Option<&'a Tensor>,
    /// Replace or add.
    pub accumulate: Accumulate,
}

/// Arguments of [`dscales`].
#[derive(Clone, Copy, Debug)]
pub struct DscalesArgs<'a> {
    /// Gradient of the output, `[T, N]`.
    pub dy: &'a Tensor,
    /// Bias, `[N]` per group.
    pub bias: &'a GroupedTensor,
    /// Rows per group.
    pub splits: &'a Splits,
}

/// Arguments of [`cast`].
#[derive(Clone, Copy, Debug)]
pub struct CastArgs<'a> {
    /// What is cast, FP32, packed or discrete.
    pub source: &'a GroupedTensor,
    /// A flag on the device, `i32`, `[1]`, read when the work runs: where it is not zero, nothing
    /// is written. So a graph can hold a cast that its replays skip.
    pub skip: Option<&'a Tensor>,
}

/// `Y_g = alpha · X_g · W_gᵀ (+ b_g, or + s_row · b_g) + beta · Y_g`, into `y [T, N]`.
///
/// ```
/// use grouped_linear::functional::{FpropArgs, GemmOptions, fprop};
/// use grouped_linear::{DType, Device, GroupedTensor, Splits, Tensor};
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[3, 2], DType::F32, &[1., 2., 3., 4., 5., 6.])?;
/// let w = Tensor::from_f32(&stream, &[2, 1, 2], DType::F32, &[1., 1., 10., 10.])?;
/// let mut y = Tensor::zeros(&stream, &[3, 1], DType::F32)?;
/// let args = FpropArgs {
///     x: &x,
///     weights: &GroupedTensor::packed(w)?,
///     splits: &Splits::host(&[1, 2])?,
///     bias: None,
///     bias_row_scales: None,
///     options: GemmOptions::default(),
/// };
/// fprop(&stream, &args, &mut y)?;
/// assert_eq!(y.to_f32(&stream)?, [3., 70., 110.]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Shapes, element types, devices or splits that do not fit; overlap of `y` with an input; row
/// scales without a bias; a device without a kernel for the type; on a GPU, features of BF16 or
/// FP16 that are no multiples of 8, unless [`KernelChoice::Simt`](crate::plan::KernelChoice::Simt)
/// is asked for; a driver failure.
pub fn fprop(stream: &Stream, args: &FpropArgs<'_>, y: &mut Tensor) -> Result<()> {
    let (rows, k) = matrix("x", args.x)?;
    let (n, _) = weight_features(args.weights)?;
    let groups = args.weights.groups();
    args.x.check_device("x", stream)?;
    check_weights(args.weights, (n, k), args.x.dtype(), stream)?;
    let bias = bias_kind(args.bias, args.bias_row_scales, (groups, n, rows), stream)?;
    let problem: Problem = GemmProblem {
        pass: Pass::Fprop,
        groups,
        rows,
        in_features: k,
        out_features: n,
        input: args.x.dtype(),
        output: y.dtype(),
        bias,
        kernel: args.options.kernel,
    }
    .into();
    let want = problem.output();
    y.check("y", &want.shape, want.dtype, stream)?;
    let operands = GemmOperands {
        a: args.x,
        b: GroupedOperand::Groups(args.weights),
        d: GroupedOperand::Rows(y),
        splits: args.splits,
        alpha: args.options.alpha,
        beta: args.options.beta,
        bias: args.bias,
        bias_row_scales: args.bias_row_scales,
    };
    run(stream, problem, &Operands::Gemm(operands), groups, rows)
}

/// `dX_g = alpha · dY_g · W_g + beta · dX_g`, into `dx [T, K]`.
///
/// # Errors
/// As [`fprop`].
pub fn dgrad(stream: &Stream, args: &DgradArgs<'_>, dx: &mut Tensor) -> Result<()> {
    let (rows, n) = matrix("dy", args.dy)?;
    let (_, k) = weight_features(args.weights)?;
    let groups = args.weights.groups();
    args.dy.check_device("dy", stream)?;
    check_weights(args.weights, (n, k), args.dy.dtype(), stream)?;
    let problem: Problem = GemmProblem {
        pass: Pass::Dgrad,
        groups,
        rows,
        in_features: k,
        out_features: n,
        input: args.dy.dtype(),
        output: dx.dtype(),
        bias: BiasKind::None,
        kernel: args.options.kernel,
    }
    .into();
    let want = problem.output();
    dx.check("dx", &want.shape, want.dtype, stream)?;
    let operands = GemmOperands {
        a: args.dy,
        b: GroupedOperand::Groups(args.weights),
        d: GroupedOperand::Rows(dx),
        splits: args.splits,
        alpha: args.options.alpha,
        beta: args.options.beta,
        bias: None,
        bias_row_scales: None,
    };
    run(stream, problem, &Operands::Gemm(operands), groups, rows)
}

/// `dW_g = alpha · dY_gᵀ · X_g + beta · dW_g`, into `dw [N, K]` per group. A group without rows
/// gets zeros, or `beta · dW_g`; with `beta = 1` its memory is not touched.
///
/// # Errors
/// As [`fprop`].
pub fn wgrad(stream: &Stream, args: &WgradArgs<'_>, dw: &mut GroupedTensor) -> Result<()> {
    let (rows, n) = matrix("dy", args.dy)?;
    let (x_rows, k) = matrix("x", args.x)?;
    if x_rows != rows {
        return Err(Error::shape("x", args.x.shape(), format!("[{rows}, in_features], as dy")));
    }
    if args.x.dtype() != args.dy.dtype() {
        return Err(Error::dtype("x", args.x.dtype(), format!("{}, as dy", args.dy.dtype())));
    }
    args.dy.check_device("dy", stream)?;
    args.x.check_device("x", stream)?;
    let groups = args.splits.groups();
    let problem: Problem = GemmProblem {
        pass: Pass::Wgrad,
        groups,
        rows,
        in_features: k,
        out_features: n,
        input: args.dy.dtype(),
        output: dw.dtype(),
        bias: BiasKind::None,
        kernel: args.options.kernel,
    }
    .into();
    dw.check_packed("dw", &problem.output(), stream)?;
    let operands = GemmOperands {
        a: args.dy,
        b: GroupedOperand::Rows(args.x),
        d: GroupedOperand::Groups(dw),
        splits: args.splits,
        alpha: args.options.alpha,
        beta: args.options.beta,
        bias: None,
        bias_row_scales: None,
    };
    run(stream, problem, &Operands::Gemm(operands), groups, rows)
}

/// `db_g[j] = Σ_rows dY[r, j] (· s_r)`, into `db [N]` per group, summed in FP32 in a fixed order.
///
/// # Errors
/// As [`fprop`].
pub fn dbias(stream: &Stream, args: &DbiasArgs<'_>, db: &mut GroupedTensor) -> Result<()> {
    let (rows, n) = matrix("dy", args.dy)?;
    let groups = args.splits.groups();
    args.dy.check_device("dy", stream)?;
    if let Some(scales) = args.row_scales {
        scales.check("row_scales", &[rows], DType::F32, stream)?;
    }
    let (input, output) = (args.dy.dtype(), db.dtype());
    let problem: Problem = DbiasProblem { groups, rows, out_features: n, input, output }.into();
    db.check_packed("db", &problem.output(), stream)?;
    let operands = DbiasOperands {
        dy: args.dy,
        row_scales: args.row_scales,
        db,
        splits: args.splits,
        accumulate: args.accumulate == Accumulate::Add,
    };
    run(stream, problem, &Operands::Dbias(operands), groups, rows)
}

/// `dscales[r] = Σ_j dY[r, j] · b_g(r)[j]`, into `dscales [T]` (FP32).
///
/// # Errors
/// As [`fprop`].
pub fn dscales(stream: &Stream, args: &DscalesArgs<'_>, dscales: &mut Tensor) -> Result<()> {
    let (rows, n) = matrix("dy", args.dy)?;
    let groups = args.bias.groups();
    args.dy.check_device("dy", stream)?;
    args.bias.check("bias", groups, &[n], stream)?;
    let (input, bias) = (args.dy.dtype(), args.bias.dtype());
    let problem: Problem = DscalesProblem { groups, rows, out_features: n, input, bias }.into();
    let want = problem.output();
    dscales.check("dscales", &want.shape, want.dtype, stream)?;
    let operands = DscalesOperands { dy: args.dy, bias: args.bias, dscales, splits: args.splits };
    run(stream, problem, &Operands::Dscales(operands), groups, rows)
}

/// `source` rounded to the type of `destination`, BF16 or FP16, to nearest, ties to even: too large
/// becomes infinite, NaN stays NaN. `destination` is `[groups, …]`, as `source` would be if packed.
///
/// ```
/// use grouped_linear::functional::{CastArgs, cast};
/// use grouped_linear::{DType, Device, GroupedTensor, Tensor};
/// let stream = Device::cpu().stream()?;
/// let master = Tensor::from_f32(&stream, &[2, 1, 2], DType::F32, &[1.001, -2.0, 0.3, 1e9])?;
/// let mut copy = Tensor::zeros(&stream, &[2, 1, 2], DType::F16)?;
/// let source = GroupedTensor::packed(master)?;
/// cast(&stream, &CastArgs { source: &source, skip: None }, &mut copy)?;
/// assert_eq!(copy.to_f32(&stream)?, [1.0009765625, -2.0, 0.30004883, f32::INFINITY]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Shapes, element types or devices that do not fit; more than 4096 discrete tensors; overlap of
/// `destination` with `source` or the flag; a device without kernels; a driver failure.
pub fn cast(stream: &Stream, args: &CastArgs<'_>, destination: &mut Tensor) -> Result<()> {
    let CastArgs { source, skip } = *args;
    let groups = source.groups();
    source.check_device("source", stream)?;
    let shape = [&[groups], source.shape()].concat();
    destination.check("destination", &shape, destination.dtype(), stream)?;
    if let Some(skip) = skip {
        skip.check("skip", &[1], DType::I32, stream)?;
    }
    let (parts, part_len) = match source.as_packed() {
        Some(packed) => (1, packed.len()),
        None => (groups, source.group_len()),
    };
    let (input, output) = (source.dtype(), destination.dtype());
    let problem = CastProblem { parts, part_len, input, output };
    let plan = Plan::new(problem.into(), stream.device().target())?;
    let operands = Operands::Cast(CastOperands { source, destination, skip });
    operands.check_memory()?;
    stream.queue().run(&plan, &operands)
}

pub(super) fn run(
    stream: &Stream,
    problem: Problem,
    operands: &Operands<'_>,
    groups: usize,
    rows: usize,
) -> Result<()> {
    let plan = Plan::new(problem, stream.device().target())?;
    operands.check(groups, rows, stream)?;
    stream.queue().run(&plan, operands)
}

pub(super) fn matrix(what: &'static str, tensor: &Tensor) -> Result<(usize, usize)> {
    match *tensor.shape() {
        [rows, columns] => Ok((rows, columns)),
        _ => Err(Error::shape(what, tensor.shape(), "[rows, features]")),
    }
}

fn weight_features(weights: &GroupedTensor) -> Result<(usize, usize)> {
    match *weights.shape() {
        [n, k] => Ok((n, k)),
        _ => Err(Error::shape("weights", weights.shape(), "[out_features, in_features] per group")),
    }
}

fn check_weights(
    weights: &GroupedTensor,
    (n, k): (usize, usize),
    dtype: DType,
    stream: &Stream,
) -> Result<()> {
    weights.check("weights", weights.groups(), &[n, k], stream)?;
    if weights.dtype() != dtype {
        return Err(Error::dtype("weights", weights.dtype(), format!("{dtype}, as the tokens")));
    }
    Ok(())
}

pub(super) fn bias_kind(
    bias: Option<&GroupedTensor>,
    row_scales: Option<&Tensor>,
    (groups, n, rows): (usize, usize, usize),
    stream: &Stream,
) -> Result<BiasKind> {
    let Some(bias) = bias else {
        return match row_scales {
            None => Ok(BiasKind::None),
            Some(_) => Err(Error::invalid(
                "bias_row_scales were given without a bias; pass a bias or leave them out",
            )),
        };
    };
    bias.check("bias", groups, &[n], stream)?;
    match row_scales {
        None => Ok(BiasKind::Add(bias.dtype())),
        Some(scales) => {
            scales.check("bias_row_scales", &[rows], DType::F32, stream)?;
            Ok(BiasKind::RowScaled(bias.dtype()))
        }
    }
}
