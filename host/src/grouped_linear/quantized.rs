//! Functional forms in low precision: quantize, and products of quantized tensors.

use super::delayed_state::DelayedState;
use super::functional::{Accumulate, bias_kind, matrix, run};
use super::random::RandomState;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::gemm::scaled::directions;
use crate::plan::{
    AmaxOperands, AmaxProblem, BiasKind, Factor, GroupedOperand, KernelChoice, Operands, Pass,
    Plan, Problem, QuantizeOperands, QuantizeProblem, ScaleSource, ScaledGemmOperands,
    ScaledGemmProblem,
};
use crate::recipe::{Accumulation, ErrorMeasure, Format, ScaleRule};
use crate::splits::Splits;
use crate::tensor::{
    DType, GroupedTensor, QuantizedCopy, QuantizedTensor, SourceShape, Tensor, missing_copy,
};

/// What is quantized.
#[derive(Clone, Copy, Debug)]
pub enum QuantizeSource<'a> {
    /// Tokens or their gradients, `[T, features]`, and the rows of each group.
    Tokens(&'a Tensor, &'a Splits),
    /// A matrix per group, packed or discrete.
    Weights(&'a GroupedTensor),
}

/// Where the sums of the columns over each group's rows go, while a gradient is quantized: they are
/// those of the source, in FP32 and in a fixed order.
#[derive(Debug)]
pub struct DbiasSink<'a> {
    /// `[N]` per group.
    pub db: &'a mut GroupedTensor,
    /// Replace or add.
    pub accumulate: Accumulate,
}

/// Arguments of [`quantize`].
#[derive(Debug)]
pub struct QuantizeArgs<'a> {
    /// What is quantized.
    pub source: QuantizeSource<'a>,
    /// How scales follow from magnitudes: of FP8, without a history.
    pub scale: ScaleRule,
    /// The history that gives the scales instead (delayed scaling).
    pub delayed: Option<&'a DelayedState>,
    /// Largest magnitudes of the groups from elsewhere, FP32, `[G]`, from which scales follow as
    /// they would from the source's own: say those of a tensor that several devices have a part of,
    /// found by [`amax`] and reduced over them. Larger elements saturate; NaNs and negative numbers
    /// count as 0. FP8 with one scale per group and without a history; NVFP4 with scales of groups
    /// and without transformed columns. No read of the source is spent on magnitudes. They lie
    /// apart from the destination, whose own (NVFP4) are written.
    pub amax: Option<&'a Tensor>,
    /// A flag on the device, `i32`, `[1]`, read when the work runs: where it is not zero, nothing
    /// is written, neither copies and scales nor the history, the gradient of the bias or the
    /// random state.
    pub skip: Option<&'a Tensor>,
    /// The gradient of the bias, of tokens.
    pub dbias: Option<DbiasSink<'a>>,
    /// NVFP4: blocks map their largest magnitude to 6 or to 4, by this error; `None`: to 6.
    pub four_over_six: Option<ErrorMeasure>,
    /// NVFP4: elements are rounded at random, with numbers drawn from this state.
    pub random: Option<&'a RandomState>,
}

impl<'a> QuantizeArgs<'a> {
    /// The source with scales of its own, unrounded, and nothing else.
    pub fn new(source: QuantizeSource<'a>) -> Self {
        Self {
            source,
            scale: ScaleRule::default(),
            delayed: None,
            amax: None,
            skip: None,
            dbias: None,
            four_over_six: None,
            random: None,
        }
    }
}

/// Quantizes `source` into the copies that `destination` has, in most cases all from one read of
/// it (and another where a group has one scale, or one above those of its blocks, whose magnitude
/// must be found first: the group is large, and nobody gives it).
///
/// FP8: an element becomes the number of the format nearest to it times its block's scale (ties to
/// even, saturating), with `scale = max / amax` of the block. A block whose largest magnitude is
/// zero (with no epsilon) or infinite has a scale of one. MXFP8 and NVFP4: see [`mxfp8_exponent`]
/// and [`TensorScale`]. Rows at and beyond `Σ m_g` are not read, and nothing is written for them.
///
/// [`mxfp8_exponent`]: crate::numerics::scale::mxfp8_exponent
/// [`TensorScale`]: crate::numerics::scale::TensorScale
///
/// ```
/// use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
/// use grouped_linear::recipe::{Blocks, Format};
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[3, 16], DType::Bf16, &[0.5; 48])?;
/// let splits = Splits::host(&[1, 2])?;
/// let mut quantized = QuantizedTensor::empty(&stream, QuantizedSpec {
///     groups: 2,
///     source: SourceShape::Tokens { rows: 3, features: 16 },
///     format: Format::fp8(DType::E4m3, Blocks::Tensor),
///     rowwise: Some(Form::Codes),
///     columnwise: None,
/// })?;
/// let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
/// quantize(&stream, args, &mut quantized)?;
/// let rowwise = quantized.copy(Direction::Rowwise).unwrap();
/// assert_eq!(rowwise.scale_inv.to_f32(&stream)?, [0.5 / 448.0; 2]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Shapes, types or devices that do not fit; a negative or infinite epsilon, or any scale rule
/// where a history or the format has its own; what a format cannot combine
/// ([`Nvfp4Scaling`](crate::recipe::Nvfp4Scaling)); magnitudes that are given beside a history, or
/// that scales do not follow from; scales over memory that was given from outside
/// ([`QuantizedTensor::from_copies`]) where a group has one scale; overlap of what is written; a
/// device without kernels; a driver failure.
pub fn quantize(
    stream: &Stream,
    args: QuantizeArgs<'_>,
    destination: &mut QuantizedTensor,
) -> Result<()> {
    check_quantize(stream, args, destination, |plan, operands| stream.queue().run(plan, operands))
}

/// Finds the largest magnitude of each group, from which [`quantize`] makes scales, into `amax`,
/// FP32, `[G]`: NaNs do not count, a group without elements has 0. Rows at and beyond `Σ m_g` are
/// not read. Features are a multiple of 16. Where the flag `skip` (`i32`, `[1]`, on the device) is
/// not zero, nothing is written.
///
/// With [`QuantizeArgs::amax`], for a tensor of which every device has a part; without a device of
/// your own to reduce it:
///
/// ```
/// use grouped_linear::functional::{QuantizeArgs, QuantizeSource, amax, quantize};
/// use grouped_linear::recipe::{Blocks, Format};
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let x = Tensor::from_f32(&stream, &[3, 16], DType::Bf16, &[0.5; 48])?;
/// let splits = Splits::host(&[1, 2])?;
/// let source = QuantizeSource::Tokens(&x, &splits);
/// let mut largest = Tensor::zeros(&stream, &[2], DType::F32)?;
/// amax(&stream, source, None, &mut largest)?;
/// assert_eq!(largest.to_f32(&stream)?, [0.5; 2]);
/// // … here the other devices' magnitudes would join …
/// largest.write(&stream, &[2.0f32, 1.0])?;
/// let mut quantized = QuantizedTensor::empty(&stream, QuantizedSpec {
///     groups: 2,
///     source: SourceShape::Tokens { rows: 3, features: 16 },
///     format: Format::fp8(DType::E4m3, Blocks::Tensor),
///     rowwise: Some(Form::Codes),
///     columnwise: None,
/// })?;
/// let args = QuantizeArgs { amax: Some(&largest), ..QuantizeArgs::new(source) };
/// quantize(&stream, args, &mut quantized)?;
/// let rowwise = quantized.copy(Direction::Rowwise).unwrap();
/// assert_eq!(rowwise.scale_inv.to_f32(&stream)?, [2.0 / 448.0, 1.0 / 448.0]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Errors
/// Shapes, types or devices that do not fit; features that are no multiple of 16; overlap of `amax`
/// with what is read; a device without kernels; a driver failure.
pub fn amax(
    stream: &Stream,
    source: QuantizeSource<'_>,
    skip: Option<&Tensor>,
    amax: &mut Tensor,
) -> Result<()> {
    let (groups, shape, rows) = match &source {
        QuantizeSource::Tokens(tensor, splits) => {
            let (rows, features) = matrix("source", tensor)?;
            (splits.groups(), SourceShape::Tokens { rows, features }, rows)
        }
        QuantizeSource::Weights(weights) => {
            let &[rows, columns] = weights.shape() else {
                return Err(Error::shape("source", weights.shape(), "[rows, columns] per group"));
            };
            (weights.groups(), SourceShape::Weights { rows, columns }, 0)
        }
    };
    let (source, splits, input) = check_source(stream, &source, groups, shape)?;
    amax.check("amax", &[groups], DType::F32, stream)?;
    if let Some(skip) = skip {
        skip.check("skip", &[1], DType::I32, stream)?;
    }
    let problem = AmaxProblem { groups, source: shape, input };
    let operands = AmaxOperands { source, splits, skip, amax };
    run(stream, problem.into(), &Operands::Amax(operands), groups, rows)
}

/// Checks a quantization, as [`quantize`] does, and hands it on.
pub(super) fn check_quantize(
    stream: &Stream,
    args: QuantizeArgs<'_>,
    destination: &QuantizedTensor,
    then: impl FnOnce(&Plan, &Operands<'_>) -> Result<()>,
) -> Result<()> {
    let QuantizeArgs { source, scale, delayed, amax, skip, dbias, four_over_six, random } = args;
    let spec = destination.spec();
    let (operand, splits, input) = check_source(stream, &source, spec.groups, spec.source)?;
    destination.check_device("destination", stream)?;
    destination.check_shared("destination")?;
    check_scale(scale, spec.format, delayed)?;
    if let Some(skip) = skip {
        skip.check("skip", &[1], DType::I32, stream)?;
    }
    if spec.format.is_whole() && delayed.is_none() && destination.scale().is_none() {
        return Err(Error::invalid(
            "destination: it has no memory for scales; make it with QuantizedTensor::empty",
        ));
    }
    if let Some(random) = random {
        random.tensor().check_device("random state", stream)?;
    }
    if let Some(delayed) = delayed {
        delayed.check(stream, spec.groups, spec.format)?;
    }
    let (db, accumulate_db) = match dbias {
        Some(DbiasSink { db, accumulate }) => (Some(&*db), accumulate == Accumulate::Add),
        None => (None, false),
    };
    if let Some(db) = db {
        db.check("db", spec.groups, &[spec.source.columns()], stream)?;
    }
    if let Some(amax) = amax {
        amax.check("amax", &[spec.groups], DType::F32, stream)?;
    }
    let scales = match (delayed, amax) {
        (Some(_), None) => ScaleSource::Given,
        (None, Some(_)) => ScaleSource::Amax,
        (None, None) => ScaleSource::Own,
        (Some(_), Some(_)) => {
            return Err(Error::invalid(
                "amax: magnitudes were given and a history, whose scales are those of earlier \
                 steps; give one of the two",
            ));
        }
    };
    let dbias = db.map(GroupedTensor::dtype);
    let stochastic = random.is_some();
    let problem =
        QuantizeProblem { destination: spec, input, scales, dbias, four_over_six, stochastic };
    let history = delayed.map(DelayedState::operands);
    let operands = QuantizeOperands {
        source: operand,
        splits,
        destination,
        history,
        amax,
        rule: scale,
        skip,
        db,
        accumulate_db,
        random: random.map(RandomState::tensor),
    };
    let rows = match spec.source {
        SourceShape::Tokens { rows, .. } => rows,
        SourceShape::Weights { .. } => 0,
    };
    let plan = Plan::new(problem.into(), stream.device().target())?;
    let operands = Operands::Quantize(operands);
    operands.check(spec.groups, rows, stream)?;
    then(&plan, &operands)
}

/// Refuses a rule that no scale can follow, or that would be ignored.
fn check_scale(scale: ScaleRule, format: Format, delayed: Option<&DelayedState>) -> Result<()> {
    scale.check("scale")?;
    if scale == ScaleRule::default() {
        return Ok(());
    }
    let owner = match delayed {
        Some(_) => "the history".to_owned(),
        None if format.is_micro() => format.to_string(),
        None => return Ok(()),
    };
    Err(Error::unsupported(format!(
        "scale: {scale:?} was asked for, but {owner} has a rule of its own; use ScaleRule::default()"
    )))
}

fn check_source<'a>(
    stream: &Stream,
    source: &QuantizeSource<'a>,
    groups: usize,
    shape: SourceShape,
) -> Result<(GroupedOperand<'a>, Option<&'a Splits>, DType)> {
    match (source, shape) {
        (QuantizeSource::Tokens(tensor, splits), SourceShape::Tokens { rows, features }) => {
            tensor.check("source", &[rows, features], tensor.dtype(), stream)?;
            Ok((GroupedOperand::Rows(tensor), Some(splits), tensor.dtype()))
        }
        (QuantizeSource::Weights(weights), SourceShape::Weights { rows, columns }) => {
            weights.check("source", groups, &[rows, columns], stream)?;
            Ok((GroupedOperand::Groups(weights), None, weights.dtype()))
        }
        (QuantizeSource::Tokens(..), _) => Err(Error::invalid(
            "tokens were given, the destination is for weights; use SourceShape::Tokens",
        )),
        (QuantizeSource::Weights(_), _) => Err(Error::invalid(
            "weights were given, the destination is for tokens; use SourceShape::Weights",
        )),
    }
}

/// Factors of a product of quantized tensors, how its sums grow, and the kernel that computes it.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedGemmOptions<'a> {
    /// Factor of the product.
    pub alpha: Factor<'a>,
    /// Factor of what the output held before; 0 writes without reading it.
    pub beta: Factor<'a>,
    /// How sums grow; those of blocks are always promoted.
    pub accumulation: Accumulation,
    /// Whether the FP32 scales of blocks are powers of two ([`ScaleRule::power_of_two`]), as far as
    /// is known: a tensor does not say. [`KernelChoice::Auto`] goes by it, and any are multiplied,
    /// others than was said some percent slower.
    pub power_of_two_scales: bool,
    /// Which kernel, of those that take the operands as they are stored.
    pub kernel: KernelChoice,
}

impl Default for QuantizedGemmOptions<'_> {
    /// `D = A·B`, promoted, of scales of blocks that are powers of two, as recipes make them unless
    /// asked otherwise.
    fn default() -> Self {
        let (alpha, beta) = (Factor::Value(1.0), Factor::Value(0.0));
        let (accumulation, kernel) = (Accumulation::Promoted, KernelChoice::Auto);
        Self { alpha, beta, accumulation, power_of_two_scales: true, kernel }
    }
}

/// Arguments of [`quantized_fprop`].
#[derive(Clone, Copy, Debug)]
pub struct QuantizedFpropArgs<'a> {
    /// Tokens, `[T, K]`, rowwise.
    pub x: &'a QuantizedTensor,
    /// Weights, `[N, K]` per group, rowwise.
    pub weights: &'a QuantizedTensor,
    /// Rows per group.
    pub splits: &'a Splits,
    /// Bias, `[N]` per group.
    pub bias: Option<&'a GroupedTensor>,
    /// Factor of the bias for each token row, FP32, `[T]`; needs a bias.
    pub bias_row_scales: Option<&'a Tensor>,
    /// Factors, accumulation and kernel.
    pub options: QuantizedGemmOptions<'a>,
}

/// Arguments of [`quantized_dgrad`].
#[derive(Clone, Copy, Debug)]
pub struct QuantizedDgradArgs<'a> {
    /// Gradient of the output, `[T, N]`, rowwise.
    pub dy: &'a QuantizedTensor,
    /// Weights, `[N, K]` per group, columnwise.
    pub weights: &'a QuantizedTensor,
    /// Rows per group.
    pub splits: &'a Splits,
    /// Factors, accumulation and kernel.
    pub options: QuantizedGemmOptions<'a>,
}

/// Arguments of [`quantized_wgrad`].
#[derive(Clone, Copy, Debug)]
pub struct QuantizedWgradArgs<'a> {
    /// Gradient of the output, `[T, N]`, columnwise.
    pub dy: &'a QuantizedTensor,
    /// Tokens, `[T, K]`, columnwise.
    pub x: &'a QuantizedTensor,
    /// Rows per group, those that both were quantized with.
    pub splits: &'a Splits,
    /// Factors, accumulation of sums and kernel; `beta = 1` accumulates into the output.
    pub options: QuantizedGemmOptions<'a>,
}

/// `Y_g = alpha · X_g · W_gᵀ (+ b_g, or + s_row · b_g) + beta · Y_g`, into `y [T, N]` of BF16, FP16
/// or FP32.
///
/// # Errors
/// Shapes, groups, formats, devices or splits that do not fit; a copy that was not made; overlap of
/// `y` with an input; a device without a kernel for the formats; a driver failure.
pub fn quantized_fprop(
    stream: &Stream,
    args: &QuantizedFpropArgs<'_>,
    y: &mut Tensor,
) -> Result<()> {
    let (rows, k) = token_features("x", args.x)?;
    let (groups, n, _) = weight_features(args.weights, None, Some(k))?;
    let bias = bias_kind(args.bias, args.bias_row_scales, (groups, n, rows), stream)?;
    let sides = Sides { a: ("x", args.x), b: ("weights", args.weights) };
    let sizes = (groups, rows);
    let output = (y.dtype(), bias);
    let problem = sides.problem(Pass::Fprop, sizes, (n, k), args.options, output);
    let want = Problem::from(problem).output();
    y.check("y", &want.shape, want.dtype, stream)?;
    let d = GroupedOperand::Rows(y);
    let addends = (args.bias, args.bias_row_scales);
    sides.run(stream, problem, d, args.splits, args.options, addends)
}

/// `dX_g = alpha · dY_g · W_g + beta · dX_g`, into `dx [T, K]` of BF16, FP16 or FP32.
///
/// # Errors
/// As [`quantized_fprop`].
pub fn quantized_dgrad(
    stream: &Stream,
    args: &QuantizedDgradArgs<'_>,
    dx: &mut Tensor,
) -> Result<()> {
    let (rows, n) = token_features("dy", args.dy)?;
    let (groups, _, k) = weight_features(args.weights, Some(n), None)?;
    let sides = Sides { a: ("dy", args.dy), b: ("weights", args.weights) };
    let sizes = (groups, rows);
    let output = (dx.dtype(), BiasKind::None);
    let problem = sides.problem(Pass::Dgrad, sizes, (n, k), args.options, output);
    let want = Problem::from(problem).output();
    dx.check("dx", &want.shape, want.dtype, stream)?;
    let d = GroupedOperand::Rows(dx);
    sides.run(stream, problem, d, args.splits, args.options, (None, None))
}

/// `dW_g = alpha · dY_gᵀ · X_g + beta · dW_g`, into `dw [N, K]` per group, of BF16, FP16 or FP32,
/// written once. A group without rows gets zeros, or `beta · dW_g`; with `beta = 1` its memory is
/// not touched.
///
/// # Errors
/// As [`quantized_fprop`].
pub fn quantized_wgrad(
    stream: &Stream,
    args: &QuantizedWgradArgs<'_>,
    dw: &mut GroupedTensor,
) -> Result<()> {
    let (rows, n) = token_features("dy", args.dy)?;
    let (x_rows, k) = token_features("x", args.x)?;
    if x_rows != rows || args.x.spec().groups != args.dy.spec().groups {
        return Err(Error::invalid(format!(
            "x: it has {x_rows} rows in {} groups, dy has {rows} in {}",
            args.x.spec().groups,
            args.dy.spec().groups
        )));
    }
    let groups = args.dy.spec().groups;
    let sides = Sides { a: ("dy", args.dy), b: ("x", args.x) };
    let sizes = (groups, rows);
    let output = (dw.dtype(), BiasKind::None);
    let problem = sides.problem(Pass::Wgrad, sizes, (n, k), args.options, output);
    dw.check_packed("dw", &Problem::from(problem).output(), stream)?;
    let d = GroupedOperand::Groups(dw);
    sides.run(stream, problem, d, args.splits, args.options, (None, None))
}

/// The operands of a product, with their names.
pub(super) struct Sides<'a> {
    pub(super) a: (&'static str, &'a QuantizedTensor),
    pub(super) b: (&'static str, &'a QuantizedTensor),
}

impl<'a> Sides<'a> {
    pub(super) fn problem(
        &self,
        pass: Pass,
        (groups, rows): (usize, usize),
        (out_features, in_features): (usize, usize),
        options: QuantizedGemmOptions<'_>,
        (output, bias): (DType, BiasKind),
    ) -> ScaledGemmProblem {
        let (a, b) = (self.a.1.spec(), self.b.1.spec());
        let (a_direction, b_direction) = directions(pass);
        ScaledGemmProblem {
            pass,
            groups,
            rows,
            in_features,
            out_features,
            a: a.format,
            b: b.format,
            // A copy that is missing is reported when the product is run.
            forms: [a.form(a_direction), b.form(b_direction)].map(Option::unwrap_or_default),
            accumulation: options.accumulation,
            output,
            bias,
            power_of_two_scales: options.power_of_two_scales,
            kernel: options.kernel,
        }
    }

    fn run(
        &self,
        stream: &Stream,
        problem: ScaledGemmProblem,
        d: GroupedOperand<'_>,
        splits: &Splits,
        options: QuantizedGemmOptions<'_>,
        (bias, bias_row_scales): (Option<&GroupedTensor>, Option<&Tensor>),
    ) -> Result<()> {
        let [a, b] = [self.a, self.b].map(|(_, tensor)| tensor.spec().groups);
        if a != b {
            let (a_name, b_name) = (self.a.0, self.b.0);
            return Err(Error::invalid(format!(
                "{a_name}: it was quantized for {a} groups, {b_name} for {b}; both need the groups of \
                 the product"
            )));
        }
        let directions = directions(problem.pass);
        let copy = |(name, tensor): (&'static str, &'a QuantizedTensor), direction| {
            tensor.check_device(name, stream)?;
            tensor.copy(direction).ok_or_else(|| missing_copy(name, direction))
        };
        let a: &QuantizedCopy = copy(self.a, directions.0)?;
        let b: &QuantizedCopy = copy(self.b, directions.1)?;
        let operands = Operands::ScaledGemm(ScaledGemmOperands {
            a,
            a_spec: self.a.1.spec(),
            b,
            b_spec: self.b.1.spec(),
            d,
            splits,
            alpha: options.alpha,
            beta: options.beta,
            bias,
            bias_row_scales,
        });
        run(stream, problem.into(), &operands, problem.groups, problem.rows)
    }
}

fn token_features(what: &'static str, tensor: &QuantizedTensor) -> Result<(usize, usize)> {
    match tensor.spec().source {
        SourceShape::Tokens { rows, features } => Ok((rows, features)),
        SourceShape::Weights { .. } => {
            Err(Error::invalid(format!("{what}: weights were given, tokens are needed")))
        }
    }
}

/// Groups, N and K of weights that must have those given.
fn weight_features(
    weights: &QuantizedTensor,
    n: Option<usize>,
    k: Option<usize>,
) -> Result<(usize, usize, usize)> {
    let spec = weights.spec();
    let SourceShape::Weights { rows, columns } = spec.source else {
        return Err(Error::invalid("weights: tokens were given, a matrix per group is needed"));
    };
    let want = [n.unwrap_or(rows), k.unwrap_or(columns)];
    if want != [rows, columns] {
        return Err(Error::shape("weights", &[rows, columns], format!("{want:?} per group")));
    }
    Ok((spec.groups, rows, columns))
}
