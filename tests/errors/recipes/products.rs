//! Products of quantized tensors.

use grouped_linear::functional::{
    QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs, QuantizedGemmOptions,
    QuantizedWgradArgs, quantize, quantized_dgrad, quantized_fprop, quantized_wgrad,
};
use grouped_linear::plan::{BiasKind, GpuTarget, Pass, Plan, ScaledGemmProblem, Target};
use grouped_linear::recipe::{Accumulation, Format};
use grouped_linear::{
    DType, Direction, Factor, Form, GroupedTensor, KernelChoice, QuantizedSpec, QuantizedTensor,
    Result, SourceShape, Splits, Stream, Tensor,
};

use super::halfway::with_late;
use super::{
    BOTH, E4M3, E5M2, K, N, SQUARES, UNSUPPORTED, VECTORS, grouped, spec, tokens, weights, zeros,
};
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Refusal};

/// Fitting tokens in another number of groups.
fn in_groups(stream: &Stream, features: usize, groups: usize) -> Result<QuantizedTensor> {
    let source = SourceShape::Tokens { rows: ROWS, features };
    QuantizedTensor::empty(stream, QuantizedSpec { groups, ..spec(source, E4M3, BOTH) })
}

/// What is multiplied.
pub(super) struct Products {
    x: QuantizedTensor,
    dy: QuantizedTensor,
    weights: QuantizedTensor,
    splits: Splits,
}

impl Products {
    pub(super) fn new(stream: &Stream) -> Result<Self> {
        Self::of(stream, E4M3, E4M3, BOTH)
    }

    /// Tokens and weights in these formats, all with these copies.
    pub(super) fn of(
        stream: &Stream,
        side: Format,
        other: Format,
        copies: [bool; 2],
    ) -> Result<Self> {
        let mut own = Self {
            x: tokens(stream, K, side, copies)?,
            dy: tokens(stream, N, side, copies)?,
            weights: weights(stream, other, copies)?,
            splits: Splits::host(&[2, 3])?,
        };
        for (to, columns) in [(&mut own.x, K), (&mut own.dy, N)] {
            let x = zeros(stream, &[ROWS, columns])?;
            let source = QuantizeSource::Tokens(&x, &own.splits);
            quantize(stream, QuantizeArgs::new(source), to)?;
        }
        let source = grouped(stream, &[GROUPS, N, K])?;
        let args = QuantizeArgs::new(QuantizeSource::Weights(&source));
        quantize(stream, args, &mut own.weights)?;
        Ok(own)
    }

    pub(super) fn fprop(&self, stream: &Stream, accumulation: Accumulation) -> Result<()> {
        self.fprop_into(stream, accumulation, zeros(stream, &[ROWS, N])?)
    }

    fn fprop_into(&self, stream: &Stream, accumulation: Accumulation, mut y: Tensor) -> Result<()> {
        let Self { x, weights, splits, .. } = self;
        let options = QuantizedGemmOptions { accumulation, ..Default::default() };
        let (bias, bias_row_scales) = (None, None);
        let args = QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
        quantized_fprop(stream, &args, &mut y)
    }

    pub(super) fn dgrad(&self, stream: &Stream) -> Result<()> {
        let Self { dy, weights, splits, .. } = self;
        let args = QuantizedDgradArgs { dy, weights, splits, options: Default::default() };
        quantized_dgrad(stream, &args, &mut zeros(stream, &[ROWS, K])?)
    }

    pub(super) fn wgrad(&self, stream: &Stream) -> Result<()> {
        self.wgrad_into(stream, grouped(stream, &[GROUPS, N, K])?, Factor::Value(1.0))
    }

    pub(super) fn wgrad_into(
        &self,
        stream: &Stream,
        mut dw: GroupedTensor,
        alpha: Factor<'_>,
    ) -> Result<()> {
        let Self { dy, x, splits, .. } = self;
        let options = QuantizedGemmOptions { alpha, ..Default::default() };
        quantized_wgrad(stream, &QuantizedWgradArgs { dy, x, splits, options }, &mut dw)
    }
}

pub(super) const FAST: Accumulation = Accumulation::Fast;
pub(super) const PROMOTED: Accumulation = Accumulation::Promoted;

/// Plans a gradient of small weights of all groups that there can be.
pub(super) fn plan_wgrad(rows: usize) -> Result<()> {
    let problem = ScaledGemmProblem {
        pass: Pass::Wgrad,
        groups: 4096,
        rows,
        in_features: 16,
        out_features: 16,
        a: VECTORS,
        b: VECTORS,
        forms: [Form::Codes; 2],
        accumulation: PROMOTED,
        output: DType::F32,
        bias: BiasKind::None,
        power_of_two_scales: true,
        kernel: KernelChoice::Auto,
    };
    let gpu = Some(GpuTarget { compute_capability: (9, 0), multiprocessors: 132 });
    Plan::new(problem.into(), Target { gpu }).map(drop)
}

pub(super) const PRODUCTS: &[Refusal] = &[
    ("the readable kernel for codes", "takes no quantized operands", UNSUPPORTED, |s| {
        let Products { x, weights, splits, .. } = &Products::new(s)?;
        let options = QuantizedGemmOptions { kernel: KernelChoice::Simt, ..Default::default() };
        let (bias, bias_row_scales) = (None, None);
        let args = QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
        quantized_fprop(s, &args, &mut zeros(s, &[ROWS, N])?)
    }),
    ("weights as x", "x: weights were given, tokens are needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.weights.clone(), ..own }.fprop(s, FAST)
    }),
    ("tokens as weights", "weights: tokens were given", INVALID, |s| {
        let own = Products::new(s)?;
        Products { weights: own.x.clone(), ..own }.fprop(s, FAST)
    }),
    ("x as wide as y", "weights: shape [48, 32]", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.dy.clone(), ..own }.fprop(s, FAST)
    }),
    ("no rowwise x", "x: the rowwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.x.only(Direction::Columnwise)?, ..own }.fprop(s, FAST)
    }),
    ("no rowwise dy for dx", "dy: the rowwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { dy: own.dy.only(Direction::Columnwise)?, ..own }.dgrad(s)
    }),
    ("no columnwise weights for dx", "weights: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { weights: own.weights.only(Direction::Rowwise)?, ..own }.dgrad(s)
    }),
    ("no columnwise dy for dw", "dy: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { dy: own.dy.only(Direction::Rowwise)?, ..own }.wgrad(s)
    }),
    ("no columnwise x for dw", "x: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s)?;
        Products { x: own.x.only(Direction::Rowwise)?, ..own }.wgrad(s)
    }),
    ("blocks and one scale", "one operand has a scale for each group", UNSUPPORTED, |s| {
        Products::of(s, E4M3, SQUARES, BOTH)?.fprop(s, PROMOTED)
    }),
    ("one scale and blocks", "one operand has a scale for each group", UNSUPPORTED, |s| {
        Products::of(s, VECTORS, E4M3, BOTH)?.dgrad(s)
    }),
    ("squares by squares", "both operands have square blocks", UNSUPPORTED, |s| {
        Products::of(s, SQUARES, VECTORS, BOTH)?.wgrad(s)
    }),
    ("blocks with fast accumulation", "with fast accumulation", UNSUPPORTED, |s| {
        Products::of(s, VECTORS, SQUARES, BOTH)?.fprop(s, FAST)
    }),
    ("E5M2 on the right", "right operand: element type e5m2", INVALID, |s| {
        Products::of(s, E4M3, E5M2, BOTH)?.fprop(s, FAST)
    }),
    ("x of more rows than dy", "x: it has 7 rows in 2 groups, dy has 6", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS + 1, features: K };
        let x = QuantizedTensor::empty(s, spec(source, E4M3, BOTH))?;
        Products { x, ..Products::new(s)? }.wgrad(s)
    }),
    (
        "x of more groups than weights",
        "x: it was quantized for 3 groups, weights for 2",
        INVALID,
        |s| Products { x: in_groups(s, K, GROUPS + 1)?, ..Products::new(s)? }.fprop(s, FAST),
    ),
    (
        "x of fewer groups than weights",
        "x: it was quantized for 1 groups, weights for 2",
        INVALID,
        |s| Products { x: in_groups(s, K, GROUPS - 1)?, ..Products::new(s)? }.fprop(s, FAST),
    ),
    (
        "dy of more groups than weights",
        "dy: it was quantized for 3 groups, weights for 2",
        INVALID,
        |s| Products { dy: in_groups(s, N, GROUPS + 1)?, ..Products::new(s)? }.dgrad(s),
    ),
    ("x of more groups than dy", "x: it has 6 rows in 3 groups, dy has 6 in 2", INVALID, |s| {
        Products { x: in_groups(s, K, GROUPS + 1)?, ..Products::new(s)? }.wgrad(s)
    }),
    ("2^31 - 1 rows of FP8, before padding, planned", "2148003712 rows are", INVALID, |_| {
        plan_wgrad(i32::MAX as usize)
    }),
    ("y of integers, from FP8", "output: element type i32", INVALID, |s| {
        Products::new(s)?.fprop_into(s, FAST, Tensor::zeros(s, &[ROWS, N], DType::I32)?)
    }),
    ("y of too few rows, from FP8", "y: shape [5, 48]", INVALID, |s| {
        Products::new(s)?.fprop_into(s, FAST, zeros(s, &[ROWS - 1, N])?)
    }),
    ("transposed dw, from FP8", "dw: shape [32, 48]", INVALID, |s| {
        Products::new(s)?.wgrad_into(s, grouped(s, &[GROUPS, K, N])?, Factor::Value(1.0))
    }),
    ("alphas for more groups, in FP8", "alpha: shape [3]", INVALID, |s| {
        let (own, alpha) = (Products::new(s)?, Tensor::zeros(s, &[GROUPS + 1], DType::F32)?);
        own.wgrad_into(s, grouped(s, &[GROUPS, N, K])?, Factor::PerGroup(&alpha))
    }),
    ("splits for more groups, in FP8", "3 were given", INVALID, |s| {
        let own = Products::new(s)?;
        Products { splits: Splits::host(&[2, 3, 0])?, ..own }.fprop(s, FAST)
    }),
];

/// The blocks of X are aligned from where they lie, by a kernel that takes 16 bytes at once.
pub(super) fn misplaced(stream: &Stream) -> Result<()> {
    let hopper = stream.device().target().gpu.is_some_and(|gpu| gpu.compute_capability == (9, 0));
    if !hopper {
        return Ok(());
    }
    let own = Products::of(stream, VECTORS, VECTORS, BOTH)?;
    let late = with_late(stream, &own.x, Direction::Columnwise)?;
    for (x, refused) in [(&own.x, false), (&late, true)] {
        let (dy, splits, mut dw) = (&own.dy, &own.splits, grouped(stream, &[GROUPS, N, K])?);
        let options = QuantizedGemmOptions { kernel: KernelChoice::Aligned, ..Default::default() };
        let args = QuantizedWgradArgs { dy, x, splits, options };
        match quantized_wgrad(stream, &args, &mut dw) {
            Ok(()) => assert!(!refused, "late tokens were not refused"),
            Err(error) => {
                assert!(refused && error.is_invalid_argument(), "{error}");
                assert!(error.to_string().contains("multiples of 16"), "{error}");
            }
        }
        stream.synchronize()?;
    }
    Ok(())
}
