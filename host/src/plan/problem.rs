//! What is computed, without any pointer.

pub use grouped_linear_kernels::abi::Pass;
use grouped_linear_kernels::abi::quantize;
use grouped_linear_kernels::variants::{Kernel, Role, Sm90Gemm, Sm100Product};

use super::choice::{Contest, KernelChoice};
use super::{
    AmaxProblem, DequantizeProblem, GpuTarget, MAX_GROUPS, PadProblem, QuantizeProblem,
    ScaledGemmProblem, SwizzleProblem, UpdateScalesProblem,
};
use crate::error::{Error, Result};
use crate::tensor::{DType, Direction, TensorSpec};

/// What is added to every output row of fprop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BiasKind {
    /// Nothing.
    None,
    /// `b_g`, of this type.
    Add(DType),
    /// `s_row · b_g`, `b` of this type, `s` FP32.
    RowScaled(DType),
}

/// A grouped product: `D_g = alpha_g · A_g · B_g + beta_g · D_g (+ bias)`, accumulated in FP32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmProblem {
    /// Which product.
    pub pass: Pass,
    /// Number of groups (experts), G.
    pub groups: usize,
    /// Rows of the token buffer, T ≥ Σ m_g.
    pub rows: usize,
    /// K.
    pub in_features: usize,
    /// N.
    pub out_features: usize,
    /// Type of both operands: BF16, FP16 or FP32.
    pub input: DType,
    /// Type of the output: of 16-bit operands any of the three, of FP32 ones FP32.
    pub output: DType,
    /// Bias of the epilogue (fprop only).
    pub bias: BiasKind,
    /// Which kernel.
    pub kernel: KernelChoice,
}

/// `db_g[j] = Σ_rows dY[r, j] (· s_r)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DbiasProblem {
    /// Number of groups.
    pub groups: usize,
    /// Rows of the token buffer.
    pub rows: usize,
    /// N.
    pub out_features: usize,
    /// Type of dY.
    pub input: DType,
    /// Type of db.
    pub output: DType,
}

/// `dscales[r] = Σ_j dY[r, j] · b_g(r)[j]`, FP32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DscalesProblem {
    /// Number of groups.
    pub groups: usize,
    /// Rows of the token buffer.
    pub rows: usize,
    /// N.
    pub out_features: usize,
    /// Type of dY.
    pub input: DType,
    /// Type of the bias.
    pub bias: DType,
}

/// FP32 to a 16-bit type, rounded to nearest, ties to even; of weights, say. The source lies in one
/// part if it is packed, else in one per group; the result in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CastProblem {
    /// Tensors that the source lies in.
    pub parts: usize,
    /// Elements of each.
    pub part_len: usize,
    /// Type of the source: FP32.
    pub input: DType,
    /// Type of the result: BF16 or FP16.
    pub output: DType,
}

/// Any operation that a [`Plan`](super::Plan) can describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// A grouped product.
    Gemm(GemmProblem),
    /// The gradient of the bias.
    Dbias(DbiasProblem),
    /// The gradient of the row scales of the bias.
    Dscales(DscalesProblem),
    /// A change of type.
    Cast(CastProblem),
    /// The largest magnitudes of groups.
    Amax(AmaxProblem),
    /// Quantization.
    Quantize(QuantizeProblem),
    /// A grouped product of quantized operands.
    ScaledGemm(ScaledGemmProblem),
    /// The next scales of delayed scaling.
    UpdateScales(UpdateScalesProblem),
    /// The way back from quantization.
    Dequantize(DequantizeProblem),
    /// Block scales in another order.
    Swizzle(SwizzleProblem),
    /// Groups padded, or not any more.
    Pad(PadProblem),
}

impl From<GemmProblem> for Problem {
    fn from(problem: GemmProblem) -> Self {
        Self::Gemm(problem)
    }
}

impl From<AmaxProblem> for Problem {
    fn from(problem: AmaxProblem) -> Self {
        Self::Amax(problem)
    }
}

impl From<QuantizeProblem> for Problem {
    fn from(problem: QuantizeProblem) -> Self {
        Self::Quantize(problem)
    }
}

impl From<DequantizeProblem> for Problem {
    fn from(problem: DequantizeProblem) -> Self {
        Self::Dequantize(problem)
    }
}

impl From<SwizzleProblem> for Problem {
    fn from(problem: SwizzleProblem) -> Self {
        Self::Swizzle(problem)
    }
}

impl From<PadProblem> for Problem {
    fn from(problem: PadProblem) -> Self {
        Self::Pad(problem)
    }
}

impl From<UpdateScalesProblem> for Problem {
    fn from(problem: UpdateScalesProblem) -> Self {
        Self::UpdateScales(problem)
    }
}

impl From<ScaledGemmProblem> for Problem {
    fn from(problem: ScaledGemmProblem) -> Self {
        Self::ScaledGemm(problem)
    }
}

impl From<DbiasProblem> for Problem {
    fn from(problem: DbiasProblem) -> Self {
        Self::Dbias(problem)
    }
}

impl From<DscalesProblem> for Problem {
    fn from(problem: DscalesProblem) -> Self {
        Self::Dscales(problem)
    }
}

impl From<CastProblem> for Problem {
    fn from(problem: CastProblem) -> Self {
        Self::Cast(problem)
    }
}

impl Problem {
    /// Shape and type of the result: what operations with splits check their outputs against.
    /// Results with a part per group are given as packed. That of a cast is a row for each part
    /// that is cast, whatever shapes the parts have.
    ///
    /// ```
    /// use grouped_linear::plan::{DbiasProblem, Problem};
    /// use grouped_linear::{DType, TensorSpec};
    /// let (input, output) = (DType::Bf16, DType::F32);
    /// let dbias = DbiasProblem { groups: 3, rows: 100, out_features: 8, input, output };
    /// let spec = Problem::from(dbias).output();
    /// assert_eq!(spec, TensorSpec { shape: vec![3, 8], dtype: DType::F32 });
    /// ```
    pub fn output(&self) -> TensorSpec {
        let (shape, dtype) = match self {
            Self::Gemm(gemm) => (gemm.output_shape(), gemm.output),
            Self::ScaledGemm(scaled) => (scaled.unscaled().output_shape(), scaled.output),
            Self::Dbias(dbias) => (vec![dbias.groups, dbias.out_features], dbias.output),
            Self::Dscales(dscales) => (vec![dscales.rows], DType::F32),
            Self::Cast(cast) => (vec![cast.parts, cast.part_len], cast.output),
            Self::Amax(amax) => (vec![amax.groups], DType::F32),
            Self::UpdateScales(update) => (vec![update.histories, update.groups], DType::F32),
            Self::Dequantize(dequantize) => return dequantize.output(),
            Self::Swizzle(swizzle) => return swizzle.output(),
            Self::Pad(pad) => (vec![pad.output_rows(), pad.columns], pad.dtype),
            // The data of one copy; QuantizedSpec has the shapes of all tensors.
            Self::Quantize(quantize) => {
                let spec = quantize.destination;
                let rowwise = spec.has(Direction::Rowwise);
                let direction = if rowwise { Direction::Rowwise } else { Direction::Columnwise };
                return spec.copy(direction).data;
            }
        };
        TensorSpec { shape, dtype }
    }

    /// What no engine takes.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Gemm(gemm) => gemm.check(),
            Self::Dbias(dbias) => {
                check_sizes(dbias.groups, dbias.rows, &[("out_features", dbias.out_features)])?;
                check_float("dy", dbias.input)?;
                check_float("db", dbias.output)
            }
            Self::Dscales(dscales) => {
                check_sizes(
                    dscales.groups,
                    dscales.rows,
                    &[("out_features", dscales.out_features)],
                )?;
                check_float("dy", dscales.input)?;
                check_float("bias", dscales.bias)
            }
            Self::Cast(cast) => cast.check(),
            Self::Amax(amax) => amax.check(),
            Self::Quantize(quantize) => quantize.check(),
            Self::ScaledGemm(scaled) => scaled.check(),
            Self::UpdateScales(update) => update.check(),
            Self::Dequantize(dequantize) => dequantize.check(),
            Self::Swizzle(swizzle) => swizzle.check(),
            Self::Pad(pad) => pad.check(),
        }
    }
}

impl Problem {
    /// Refuses, where there is no GPU, a kernel that only a GPU has.
    pub(super) fn check_on_cpu(&self) -> Result<()> {
        let asked = match self {
            Self::Gemm(gemm) => gemm.kernel,
            Self::ScaledGemm(scaled) => scaled.kernel,
            _ => KernelChoice::Auto,
        };
        match asked {
            KernelChoice::Auto | KernelChoice::Simt => Ok(()),
            KernelChoice::Block
            | KernelChoice::Narrow
            | KernelChoice::Pair
            | KernelChoice::Aligned => Err(Error::unsupported(format!(
                "KernelChoice::{asked:?} was asked for: the CPU has no tensor cores; use \
                     KernelChoice::Auto or Simt",
            ))),
        }
    }
}

impl GemmProblem {
    /// Rows, columns and reduction of one group's product; `None` is the group's own row count.
    pub(crate) fn extents(&self) -> (Option<usize>, usize, Option<usize>) {
        let (k, n) = (self.in_features, self.out_features);
        match self.pass {
            Pass::Fprop => (None, n, Some(k)),
            Pass::Dgrad => (None, k, Some(n)),
            Pass::Wgrad => (Some(n), k, None),
        }
    }

    fn output_shape(&self) -> Vec<usize> {
        let Self { pass, groups, rows, in_features, out_features, .. } = *self;
        match pass {
            Pass::Fprop => vec![rows, out_features],
            Pass::Dgrad => vec![rows, in_features],
            Pass::Wgrad => vec![groups, out_features, in_features],
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let features = [("in_features", self.in_features), ("out_features", self.out_features)];
        check_sizes(self.groups, self.rows, &features)?;
        check_float("operands", self.input)?;
        check_float("output", self.output)?;
        if self.input == DType::F32 && self.output != DType::F32 {
            return Err(Error::dtype("output", self.output, "f32 for operands in f32"));
        }
        match self.bias {
            BiasKind::None => Ok(()),
            BiasKind::Add(dtype) | BiasKind::RowScaled(dtype) if self.pass == Pass::Fprop => {
                check_float("bias", dtype)
            }
            _ => Err(Error::invalid("a bias belongs to fprop, not to dgrad or wgrad")),
        }
    }

    /// The kernel that computes the product on a GPU.
    pub(super) fn choose(&self, gpu: GpuTarget) -> Result<&'static Kernel> {
        self.contest(gpu)?.choose()
    }

    /// The kernels that could compute it.
    pub(super) fn contest(&self, gpu: GpuTarget) -> Result<Contest> {
        let Self { pass, input, .. } = *self;
        let element = input
            .element_type()
            .ok_or_else(|| Error::dtype("operands", input, "a floating-point type"))?;
        let sixteen = input != DType::F32;
        Ok(Contest {
            problem: *self,
            gpu,
            element,
            quantized: false,
            sm90: sixteen.then_some(Role::GemmSm90(Sm90Gemm { pass, element, narrow: false })),
            narrow: (sixteen && pass == Pass::Fprop).then_some(Role::GemmSm90(Sm90Gemm {
                pass,
                element,
                narrow: true,
            })),
            aligned: None,
            sm100: sixteen.then_some(Sm100Product::Sixteen(pass, element)),
        })
    }
}

impl CastProblem {
    fn check(&self) -> Result<()> {
        let Self { parts, input, output, .. } = *self;
        if parts == 0 || parts > MAX_GROUPS {
            return Err(Error::invalid(format!(
                "a cast of {parts} tensors was asked for, 1 to {MAX_GROUPS} are possible; pack them"
            )));
        }
        if input != DType::F32 {
            return Err(Error::dtype("source", input, "f32"));
        }
        if !matches!(output, DType::Bf16 | DType::F16) {
            return Err(Error::dtype("destination", output, "bf16 or f16"));
        }
        Ok(())
    }

    /// The kernel that casts on a GPU.
    pub(super) fn role(&self) -> Result<Role> {
        self.output
            .element_type()
            .map(Role::Cast)
            .ok_or_else(|| Error::dtype("destination", self.output, "bf16 or f16"))
    }
}

/// Coordinates of tensor copies are signed 32-bit numbers.
pub(crate) const LARGEST_COORDINATE: usize = i32::MAX as usize;

/// The most rows that groups with `rows` tokens in all can take when each is padded to 128, as the
/// kernels count them; `usize::MAX` of more than 32 bits count.
pub(crate) fn padded_rows(rows: usize, groups: usize) -> usize {
    let counts = u32::try_from(rows).ok().zip(u32::try_from(groups).ok());
    let padded = counts.map(|(rows, groups)| quantize::padded_rows(rows.into(), groups));
    padded.and_then(|padded| padded.try_into().ok()).unwrap_or(usize::MAX)
}

/// Refuses groups that have more rows when each is padded than a coordinate can say.
pub(crate) fn check_padded_rows(padded: usize) -> Result<()> {
    if padded > LARGEST_COORDINATE {
        return Err(Error::invalid(format!(
            "{padded} rows are needed with every group padded, at most {LARGEST_COORDINATE} are \
             possible"
        )));
    }
    Ok(())
}

pub(crate) fn check_sizes(groups: usize, rows: usize, features: &[(&str, usize)]) -> Result<()> {
    if groups == 0 || groups > MAX_GROUPS {
        return Err(Error::invalid(format!(
            "{groups} groups were asked for, 1 to {} are possible",
            MAX_GROUPS
        )));
    }
    let limit = LARGEST_COORDINATE;
    if rows > limit {
        return Err(Error::invalid(format!(
            "{rows} rows were given, at most {limit} are possible"
        )));
    }
    for &(name, value) in features {
        if value == 0 || value > limit {
            return Err(Error::invalid(format!("{name} is {value}, 1 to {limit} are possible")));
        }
    }
    Ok(())
}

pub(super) fn check_float(what: &'static str, dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::dtype(what, dtype, "bf16, f16 or f32"))
}
