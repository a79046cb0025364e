//! Which products of quantized operands there are to run.

use std::fmt;

use super::super::cases::Layout;
use super::super::rows::RowPattern;
use super::nan::{NanIn, nan_cases};
use crate::plan::{KernelChoice, Pass, Target};
use crate::recipe::{
    Accumulation, BlockShape, Blocks, Format, Nvfp4Format, ScaleBound, Scope, Transform,
};
use crate::tensor::{DType, Form};

/// A product of quantized operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductCase {
    /// Which product.
    pub pass: Pass,
    /// Rows per group.
    pub rows: RowPattern,
    /// Rows of nobody.
    pub tail: usize,
    /// K.
    pub in_features: usize,
    /// N.
    pub out_features: usize,
    /// Of tokens, or of output gradients.
    pub a: Format,
    /// Of weights, or of tokens.
    pub b: Format,
    /// How both are stored.
    pub form: Form,
    /// How sums grow.
    pub accumulation: Accumulation,
    /// Type of the output.
    pub output: DType,
    /// Factors of the product and of what the output held.
    pub factors: (f32, f32),
    /// Whether each group has factors of its own, made of these.
    pub per_group: bool,
    /// Bias (fprop).
    pub bias: ProductBias,
    /// Whether blocks of NVFP4 choose between 6 and 4.
    pub four_over_six: bool,
    /// How the weights lay before they were gathered (fprop, dgrad), or how their gradients lie.
    pub weights: Layout,
    /// The scales of blocks.
    pub scales: DrawnScales,
    /// What of each operand is NaN.
    pub nan: NanIn,
    /// Which kernel.
    pub kernel: KernelChoice,
}

/// The bias of a product, its type, and how it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProductBias {
    /// None.
    #[default]
    None,
    /// It is added.
    Added(DType, Layout),
    /// It is added, times a factor of its row.
    RowScaled(DType, Layout),
}

impl ProductBias {
    /// In FP32 and packed.
    pub const ROW_SCALED: Self = Self::RowScaled(DType::F32, Layout::Packed);

    /// [`ProductBias::ROW_SCALED`] where a product can have a bias.
    pub fn in_fprop(pass: Pass) -> Self {
        if pass == Pass::Fprop { Self::ROW_SCALED } else { Self::None }
    }

    /// Its type, if there is one.
    pub(super) fn dtype(self) -> Option<DType> {
        match self {
            Self::None => None,
            Self::Added(dtype, _) | Self::RowScaled(dtype, _) => Some(dtype),
        }
    }
}

/// What scales the blocks of a drawn operand have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrawnScales {
    /// Any numbers.
    #[default]
    Any,
    /// Powers of two that differ by little, as a quantizer's do, with codes up to the format's
    /// largest.
    Near,
    /// One [`LineScales`] after the other.
    Mixed,
    /// As `Near`, but as `Low` in the last block of 128 lines, and in the first one of the next
    /// 128.
    Ends,
    /// As `Near`, but 2⁻³ in one block of a line, and in the one after it of the next line.
    Peaks,
}

/// What scales the blocks of a line have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineScales {
    /// Any numbers.
    Any,
    /// Powers of two, 2⁻⁷ and 2⁻⁸.
    Near,
    /// Powers of two from 1 to 2⁻¹².
    Far,
    /// 1 where all codes are zeros, in every second block or so, else as `Near`.
    Zeros,
    /// Zeros alone.
    AllZeros,
    /// As `Near`, with codes that do not use their format's range.
    SmallCodes,
    /// 1 and 2⁻², with codes of any size.
    Ones,
    /// A power of two that is out of range among others.
    Tiny,
    /// 2⁻⁷ and 2⁻¹⁶: too far from each other for one scale, each in range.
    Low,
}

impl LineScales {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Any,
        Self::Near,
        Self::Far,
        Self::Zeros,
        Self::AllZeros,
        Self::SmallCodes,
        Self::Ones,
        Self::Tiny,
        Self::Low,
    ];

    /// A block's scale, what its codes are multiplied by, and the largest of these, from a random
    /// number and one between -1 and 1.
    pub fn block(self, random: u64, value: f32) -> (f32, f32) {
        let power = |exponent: u64| 2f32.powi(-(exponent as i32));
        let (near, coin) = (power(7 + random % 2), random.is_multiple_of(2));
        match self {
            Self::Any => (0.25 + value.abs(), 1.0),
            Self::Near => (near, 1.0),
            Self::Far => (power(random % 13), 1.0),
            Self::Zeros => {
                if coin {
                    (1.0, 0.0)
                } else {
                    (power(7 + random / 2 % 2), 1.0)
                }
            }
            Self::AllZeros => (1.0, 0.0),
            Self::SmallCodes => (near, 1.0 / 64.0),
            Self::Ones => (if coin { 1.0 } else { 0.25 }, 1.0),
            Self::Tiny => (if coin { power(61) } else { power(7) }, 1.0),
            Self::Low => (if coin { power(16) } else { power(7) }, 1.0),
        }
    }
}

impl fmt::Display for ProductCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pass, rows, tail, in_features, out_features, a, b, accumulation, .. } = self;
        write!(f, "{pass:?} {rows:?} + {tail}, K {in_features}, N {out_features}, ")?;
        write!(f, "{a} x {b} {accumulation:?}")?;
        if self.form != Form::Codes {
            write!(f, ", {:?}", self.form)?;
        }
        write!(f, " to {}", self.output)?;
        if self.factors != (1.0, 0.0) {
            write!(f, ", factors {:?}", self.factors)?;
        }
        if self.per_group {
            write!(f, " per group")?;
        }
        match self.bias {
            ProductBias::None => {}
            ProductBias::ROW_SCALED => write!(f, ", bias")?,
            bias => write!(f, ", bias {bias:?}")?,
        }
        if self.weights == Layout::Discrete {
            write!(f, ", discrete weights")?;
        }
        if self.scales != DrawnScales::Any {
            write!(f, ", {:?} scales", self.scales)?;
        }
        if self.nan != NanIn::Nothing {
            write!(f, ", NaN in {:?}", self.nan)?;
        }
        if self.kernel != KernelChoice::Auto {
            write!(f, ", {}", self.kernel.name())?;
        }
        Ok(())
    }
}

impl ProductCase {
    /// Factors of the product and of what the output held: where each group has its own, one of
    /// three groups turns the signs, and one replaces what it held.
    pub(super) fn factors_of(&self, group: usize) -> (f32, f32) {
        let (alpha, beta) = self.factors;
        match (self.per_group, group % 3) {
            (false, _) | (true, 0) => (alpha, beta),
            (true, 1) => (-0.5 * alpha, -2.0 * beta),
            (true, _) => (2.0 * alpha, 0.0),
        }
    }

    /// Why a device must refuse the product, if it must.
    pub(super) fn refusal(&self, target: Target) -> Option<&'static str> {
        // Stated here anew: a library that took codes nowhere would refuse, and be believed.
        let fit = [self.in_features, self.out_features].iter().all(|own| own.is_multiple_of(32));
        let takes_codes = target.gpu.is_none_or(|gpu| gpu.compute_capability == (10, 0) && fit);
        let in_codes = self.form == Form::Swizzled;
        let aligns = self.kernel == KernelChoice::Aligned;
        // Without rows nothing is multiplied, and no operand is read.
        let multiplies = self.tail > 0 || self.rows.splits().iter().any(|&rows| rows > 0);
        if in_codes && multiplies && !takes_codes {
            return Some("codes are not multiplied by such tensor cores, or with such features");
        }
        let hopper = target.gpu.is_some_and(|gpu| gpu.compute_capability == (9, 0));
        // The CPU refuses all kernels of tensor cores, a GPU those that it has not.
        (aligns && !hopper && (multiplies || target.gpu.is_none()))
            .then_some("blocks are aligned on Hopper alone")
    }
}

/// The products that every engine runs.
pub fn product_cases() -> Vec<ProductCase> {
    use Accumulation::{Fast, Promoted};
    use Blocks::{Square, Vector};
    let format = Format::fp8;
    let mut cases = Vec::new();
    let whole = Blocks::Tensor;
    let scalings = [
        (whole, whole, Fast),
        (whole, whole, Promoted),
        (Vector, Square, Promoted),
        (Vector, Vector, Promoted),
        (Square, Vector, Promoted),
    ];
    for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
        for (a, b, accumulation) in scalings {
            let plain = ProductCase {
                pass,
                rows: RowPattern::Listed(&[65, 128, 97]),
                tail: 13,
                in_features: 272,
                out_features: 400,
                a: format(DType::E4m3, a),
                b: format(DType::E4m3, b),
                form: Form::Codes,
                accumulation,
                output: DType::Bf16,
                factors: (1.0, 0.0),
                per_group: false,
                bias: ProductBias::None,
                four_over_six: false,
                weights: Layout::Packed,
                scales: DrawnScales::Any,
                nan: NanIn::Nothing,
                kernel: KernelChoice::Auto,
            };
            let gradients = format(DType::E5m2, a);
            cases.push(ProductCase { output: DType::F32, ..plain });
            cases.push(ProductCase { a: gradients, rows: RowPattern::Edges, ..plain });
            cases.push(ProductCase {
                rows: RowPattern::EmptyMiddle,
                factors: (-0.75, 1.0),
                output: DType::F32,
                in_features: 144,
                out_features: 528,
                ..plain
            });
            let small = ProductCase { in_features: 16, out_features: 16, ..plain };
            cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
            cases.push(ProductCase { rows: RowPattern::Many, output: DType::F16, ..small });
            // A tile for each group, and seven steps along the reduction, so that every stage of a
            // block is used again: little work, for checkers that take a thousand times as long.
            let rows = if pass == Pass::Wgrad { &[784, 9] } else { &[70, 9] };
            let along = |own| if pass == own { 784 } else { 48 };
            cases.push(ProductCase {
                rows: RowPattern::Listed(rows),
                in_features: along(Pass::Fprop),
                out_features: along(Pass::Dgrad),
                tail: 3,
                ..plain
            });
            if pass == Pass::Fprop {
                cases.push(ProductCase { bias: ProductBias::ROW_SCALED, ..plain });
            }
            cases.push(ProductCase { weights: Layout::Discrete, ..plain });
        }
    }
    let tensor = format(DType::E4m3, whole);
    let none = ProductCase {
        pass: Pass::Wgrad,
        rows: RowPattern::AllEmpty,
        tail: 0,
        in_features: 32,
        out_features: 48,
        a: tensor,
        b: tensor,
        form: Form::Codes,
        accumulation: Promoted,
        output: DType::F32,
        factors: (1.0, 0.0),
        per_group: false,
        bias: ProductBias::None,
        four_over_six: false,
        weights: Layout::Packed,
        scales: DrawnScales::Any,
        nan: NanIn::Nothing,
        kernel: KernelChoice::Auto,
    };
    cases.extend([none, ProductCase { pass: Pass::Fprop, ..none }]);
    micro_cases(&none, &mut cases);
    arrangement_cases(&none, &mut cases);
    aligned_cases(&none, &mut cases);
    epilogue_cases(&none, &mut cases);
    micro_epilogue_cases(&none, &mut cases);
    nan_cases(&none, &mut cases);
    cases
}

/// What the cases above leave out of outputs, factors and biases, for every way to sum.
fn epilogue_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    use Accumulation::{Fast, Promoted};
    use Blocks::{Square, Tensor, Vector};
    use DType::{Bf16, E4m3, E5m2, F16, F32};
    let (discrete, packed) = (Layout::Discrete, Layout::Packed);
    let plain = ProductCase { rows: RowPattern::Listed(&[65, 0, 40]), tail: 5, ..*none };
    let plain = ProductCase { in_features: 80, out_features: 144, ..plain };
    let scaled = |a, b, accumulation| ProductCase {
        a: Format::fp8(E4m3, a),
        b: Format::fp8(E4m3, b),
        accumulation,
        ..plain
    };
    let scalings = [
        scaled(Tensor, Tensor, Fast),
        scaled(Tensor, Tensor, Promoted),
        scaled(Vector, Square, Promoted),
        scaled(Vector, Vector, Promoted),
        scaled(Square, Vector, Promoted),
    ];
    for (i, own) in scalings.into_iter().enumerate() {
        let gradients = ProductCase {
            a: match own.a {
                Format::Fp8 { blocks, .. } => Format::fp8(E5m2, blocks),
                other => other,
            },
            ..own
        };
        for (j, pass) in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad].into_iter().enumerate() {
            // Sums added to what 16 bits held.
            let output = [Bf16, F16][(i + j) % 2];
            let factors = [(1.0, 1.0), (-0.75, 0.5)][(i + j / 2) % 2];
            cases.push(ProductCase { pass, output, factors, ..own });
            // The second of three groups has no rows, and the third does not add to what it held.
            let output = [F32, Bf16, F16][(i + j) % 3];
            cases.push(ProductCase { pass, output, factors: (1.5, 1.0), per_group: true, ..own });
        }
        let (pass, factors) = (Pass::Wgrad, (1.0, 1.0));
        cases.push(ProductCase { pass, factors, ..gradients });
        let pass = [Pass::Dgrad, Pass::Wgrad][i % 2];
        cases.push(ProductCase { pass, output: F16, ..gradients });
        let bias = [
            ProductBias::Added(Bf16, packed),
            ProductBias::Added(F16, discrete),
            ProductBias::RowScaled(Bf16, discrete),
            ProductBias::Added(F32, discrete),
            ProductBias::RowScaled(F16, packed),
        ][i];
        let (pass, output) = (Pass::Fprop, [Bf16, F16, F32][i % 3]);
        cases.push(ProductCase { pass, output, bias, ..own });
    }
    let aligned = ProductCase { kernel: KernelChoice::Aligned, ..scaled(Vector, Vector, Promoted) };
    let aligned = ProductCase { scales: DrawnScales::Near, ..aligned };
    let gradients = ProductCase { a: Format::fp8(E5m2, Vector), ..aligned };
    cases.extend([
        ProductCase { output: Bf16, factors: (1.0, 1.0), ..aligned },
        ProductCase { factors: (1.5, 1.0), per_group: true, ..aligned },
        ProductCase { factors: (1.0, 1.0), ..gradients },
        ProductCase { output: F16, ..gradients },
    ]);
}

/// The same of MXFP8 and NVFP4, as exact numbers and in codes.
fn micro_epilogue_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    use DType::{Bf16, E4m3, E5m2, F16};
    let mxfp8 = |dtype| Format::Mxfp8 { dtype, blocks: BlockShape::Line };
    let lines = Nvfp4Format::LINES;
    let of_rows = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..lines });
    let squares = Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..lines });
    let lines = Format::Nvfp4(lines);
    let added = |dtype| ProductBias::Added(dtype, Layout::Discrete);
    let scaled = |dtype| ProductBias::RowScaled(dtype, Layout::Packed);
    let nothing = ProductBias::None;
    for (pass, a, b, output, bias) in [
        (Pass::Fprop, mxfp8(E4m3), mxfp8(E4m3), Bf16, added(Bf16)),
        (Pass::Dgrad, mxfp8(E5m2), mxfp8(E4m3), F16, nothing),
        (Pass::Wgrad, mxfp8(E5m2), mxfp8(E4m3), Bf16, nothing),
        (Pass::Fprop, lines, squares, F16, scaled(F16)),
        (Pass::Fprop, of_rows, squares, Bf16, scaled(Bf16)),
        (Pass::Fprop, of_rows, squares, F16, nothing),
        (Pass::Dgrad, lines, squares, Bf16, nothing),
        (Pass::Wgrad, lines, lines, F16, nothing),
    ] {
        let plain = ProductCase { pass, a, b, output, bias, tail: 5, ..*none };
        let plain = ProductCase { in_features: 96, out_features: 160, ..plain };
        let plain = ProductCase { rows: RowPattern::Listed(&[65, 0, 40]), ..plain };
        for form in [Form::Exact, Form::Swizzled] {
            cases.push(ProductCase { factors: (1.0, 1.0), form, ..plain });
            cases.push(ProductCase { factors: (1.5, 1.0), per_group: true, form, ..plain });
        }
    }
}

/// Wgrad of vectors whose scales are powers of two, by either of Hopper's kernels.
fn aligned_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    let vectors = |dtype| Format::fp8(dtype, Blocks::Vector);
    let (a, b) = (vectors(DType::E4m3), vectors(DType::E4m3));
    let kernel = KernelChoice::Aligned;
    let plain = ProductCase { a, b, kernel, tail: 13, ..*none };
    let plain = ProductCase { in_features: 272, out_features: 144, ..plain };
    // Factors in one half of a tile's columns, in the last group or the first, and in the first or
    // the last of a group's seventeen windows, sixteen of which are looked at in one go.
    let ends = ProductCase { scales: DrawnScales::Ends, ..plain };
    let halves = RowPattern::Listed(&[300, 9, 0, 784]);
    cases.push(ProductCase { rows: halves, in_features: 400, ..ends });
    let windows = RowPattern::Listed(&[16_484]);
    cases.push(ProductCase { rows: windows, in_features: 144, out_features: 16, ..ends });
    // The largest scale of a line in each block of a group.
    let peaks = ProductCase { scales: DrawnScales::Peaks, out_features: 16, ..plain };
    cases.push(ProductCase { rows: RowPattern::Listed(&[4400]), in_features: 48, ..peaks });
    for scales in [DrawnScales::Any, DrawnScales::Near, DrawnScales::Mixed] {
        let plain = ProductCase { scales, ..plain };
        // A group of more blocks than a window, groups that share one, and one in two windows.
        let long = ProductCase { rows: RowPattern::Listed(&[2300, 9, 0, 784]), ..plain };
        cases.push(ProductCase { in_features: 48, ..long });
        // Groups of some tens of blocks, most of which begin inside a window: so the miscompiled
        // loop was found on the GPU (docs/kernels.md), with features of which one kind of scales
        // has time.
        let in_features = if scales == DrawnScales::Mixed { 528 } else { 48 };
        cases.push(ProductCase {
            in_features,
            rows: RowPattern::Listed(&[4640, 2765, 3729, 4708, 3680, 4877, 3774, 4595]),
            tail: 0,
            ..plain
        });
        cases.push(ProductCase { a: vectors(DType::E5m2), rows: RowPattern::Edges, ..plain });
        cases.push(ProductCase {
            rows: RowPattern::EmptyMiddle,
            factors: (-0.75, 1.0),
            out_features: 528,
            ..plain
        });
        let small = ProductCase { in_features: 16, out_features: 16, ..plain };
        cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
        // The largest numbers of mixed scales are not FP16's.
        let output = if scales == DrawnScales::Mixed { DType::Bf16 } else { DType::F16 };
        cases.push(ProductCase { rows: RowPattern::Many, output, ..small });
        let half = ProductCase { rows: RowPattern::Listed(&[65, 128, 97]), ..plain };
        cases.push(ProductCase { weights: Layout::Discrete, output: DType::Bf16, ..half });
        cases.push(ProductCase { kernel: KernelChoice::Auto, ..half });
    }
}

/// What the cases above leave out of Blackwell's two ways to make a tile, or leave to chance where
/// an engine runs every second case: there are two for each kernel, one beside the other. Tokens
/// that are a pair's rows give one odd block 44 live rows and others none.
fn arrangement_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    use Accumulation::{Fast, Promoted};
    use Blocks::{Square, Tensor, Vector};
    use DType::{E4m3, E5m2};
    const PAIRS: RowPattern = RowPattern::Listed(&[300, 1]);
    const BLOCKS: RowPattern = RowPattern::Listed(&[40, 0, 9]);
    for (a, b, accumulation) in [
        (Tensor, Tensor, Fast),
        (Vector, Square, Promoted),
        (Vector, Vector, Promoted),
        (Square, Vector, Promoted),
    ] {
        let plain = ProductCase { accumulation, tail: 13, in_features: 144, ..*none };
        let plain = ProductCase { b: Format::fp8(E4m3, b), ..plain };
        for (dtype, rows) in [(E4m3, PAIRS), (E5m2, PAIRS), (E5m2, BLOCKS)] {
            let tokens = ProductCase { a: Format::fp8(dtype, a), rows, out_features: 144, ..plain };
            cases.push(ProductCase { pass: Pass::Fprop, ..tokens });
            cases.push(ProductCase { pass: Pass::Dgrad, output: DType::Bf16, ..tokens });
        }
        for (dtype, out_features) in [(E4m3, 144), (E5m2, 144), (E5m2, 112)] {
            let a = Format::fp8(dtype, a);
            let weights = ProductCase { a, rows: BLOCKS, out_features, ..plain };
            cases.push(weights);
            cases.push(ProductCase { output: DType::Bf16, ..weights });
        }
    }
}

/// Products of MXFP8 and NVFP4, as exact numbers and in codes.
fn micro_cases(none: &ProductCase, cases: &mut Vec<ProductCase>) {
    let mxfp8 = |blocks| Format::Mxfp8 { dtype: DType::E4m3, blocks };
    let gradients = Format::Mxfp8 { dtype: DType::E5m2, blocks: BlockShape::Line };
    let lines = Nvfp4Format::LINES;
    let of_rows = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..lines });
    let mixed = Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, ..lines });
    let squares = Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..lines });
    let chosen =
        |blocks| Format::Nvfp4(Nvfp4Format { blocks, bound: ScaleBound::Reduced, ..lines });
    let (lines, line, square) = (Format::Nvfp4(lines), BlockShape::Line, BlockShape::Square);
    for (pass, a, b, four_over_six) in [
        (Pass::Fprop, mxfp8(line), mxfp8(line), false),
        (Pass::Fprop, mxfp8(line), mxfp8(square), false),
        (Pass::Dgrad, gradients, mxfp8(line), false),
        (Pass::Wgrad, gradients, mxfp8(line), false),
        (Pass::Fprop, lines, squares, false),
        (Pass::Fprop, of_rows, squares, false),
        (Pass::Fprop, chosen(line), chosen(square), true),
        (Pass::Dgrad, mixed, squares, false),
        (Pass::Wgrad, mixed, mixed, false),
        (Pass::Wgrad, lines, lines, false),
    ] {
        let rows = RowPattern::Listed(&[65, 128, 97]);
        let (tail, accumulation) = (13, Accumulation::Promoted);
        let plain = ProductCase { pass, rows, tail, a, b, accumulation, four_over_six, ..*none };
        let plain = ProductCase { in_features: 288, out_features: 416, ..plain };
        block_scaled_cases(ProductCase { form: Form::Swizzled, ..plain }, cases);
        let plain = ProductCase { form: Form::Exact, ..plain };
        cases.push(plain);
        if a == of_rows {
            // Scales of rows in a pair's tiles.
            cases.push(ProductCase { rows: RowPattern::Listed(&[300, 1]), ..plain });
        }
        cases.push(ProductCase { weights: Layout::Discrete, ..plain });
        cases.push(ProductCase { rows: RowPattern::Edges, output: DType::Bf16, ..plain });
        cases.push(ProductCase {
            rows: RowPattern::EmptyMiddle,
            factors: (-0.75, 1.0),
            bias: ProductBias::in_fprop(pass),
            ..plain
        });
        let small = ProductCase { in_features: 32, out_features: 64, ..plain };
        cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
        cases.push(ProductCase { rows: RowPattern::Many, output: DType::F16, ..small });
    }
}

/// Products of codes whose tensor cores apply the scales of blocks.
fn block_scaled_cases(plain: ProductCase, cases: &mut Vec<ProductCase>) {
    let is_wgrad = plain.pass == Pass::Wgrad;
    // By blocks alone, then by pairs, of which one odd block has 44 live rows and others none.
    let blocks = ProductCase { rows: RowPattern::Listed(&[40, 0, 9]), out_features: 128, ..plain };
    let pairs = ProductCase { rows: RowPattern::Listed(&[300, 1]), output: DType::Bf16, ..plain };
    cases.extend([
        plain,
        blocks,
        pairs,
        ProductCase { weights: Layout::Discrete, output: DType::F16, ..pairs },
        ProductCase { rows: RowPattern::Edges, output: DType::Bf16, ..plain },
        ProductCase {
            rows: RowPattern::EmptyMiddle,
            factors: (-0.75, 1.0),
            bias: ProductBias::in_fprop(plain.pass),
            ..plain
        },
    ]);
    // Every place of the rings and of tensor memory is used again, along the reduction ...
    let (rows, along): (&[usize], _) = if is_wgrad { (&[1180, 9], 96) } else { (&[70, 9], 1184) };
    let deep = ProductCase { rows: RowPattern::Listed(rows), ..plain };
    cases.push(match plain.pass {
        Pass::Fprop => ProductCase { in_features: along, out_features: 96, ..deep },
        Pass::Dgrad => ProductCase { in_features: 96, out_features: along, ..deep },
        Pass::Wgrad => ProductCase { in_features: 288, out_features: along, ..deep },
    });
    // ... and by tile after tile, alone and in pairs.
    for rows in [&[130, 3, 257][..], &[70, 20, 40]] {
        let many = ProductCase { rows: RowPattern::Listed(rows), output: DType::Bf16, ..plain };
        cases.push(match plain.pass {
            Pass::Fprop => ProductCase { in_features: 32, out_features: 800, ..many },
            Pass::Dgrad => ProductCase { in_features: 800, out_features: 32, ..many },
            Pass::Wgrad if rows.len() == 3 && rows[0] == 130 => {
                ProductCase { in_features: 800, out_features: 320, ..many }
            }
            Pass::Wgrad => ProductCase { in_features: 800, out_features: 64, ..many },
        });
    }
    let small = ProductCase { in_features: 32, out_features: 64, ..plain };
    cases.push(ProductCase { rows: RowPattern::AllEmpty, tail: 3, ..small });
    cases.push(ProductCase { rows: RowPattern::Many, output: DType::F16, ..small });
    if plain.a.multiple() == 16 {
        // Lines that tensor copies cannot read in codes, but as exact numbers.
        let thin = ProductCase { in_features: 48, out_features: 80, ..plain };
        cases.extend([thin, ProductCase { form: Form::Exact, ..thin }]);
    }
}
