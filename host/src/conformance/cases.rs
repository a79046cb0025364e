//! The table: what varies, and which combinations are run.

use std::fmt;

use super::data::Generator;
use super::pairwise;
use crate::plan::KernelChoice;
use crate::tensor::DType;

/// Seed of the selection; printed by the test harness. The data of a case depend on its name alone.
pub const SEED: u64 = 20_261_121;

/// What a case computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `Y_g = X_g · W_gᵀ`.
    Fprop,
    /// `dX_g = dY_g · W_g`.
    Dgrad,
    /// `dW_g = dY_gᵀ · X_g`.
    Wgrad,
    /// Column sums of dY.
    Dbias,
    /// Row products of dY and the bias.
    Dscales,
    /// The layer's forward and backward.
    Layer,
}

/// Where parameters and their gradients lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One tensor.
    Packed,
    /// A tensor per expert.
    Discrete,
}

/// Where the splits lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitSource {
    /// Known to the host.
    Host,
    /// `i32` on the device.
    DeviceI32,
    /// `i64` on the device.
    DeviceI64,
}

/// Factors of the product and of what the output held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Factors {
    /// alpha 1, beta 0.
    Plain,
    /// alpha -0.75, beta 0.
    Scaled,
    /// alpha 1, beta 1.
    Accumulate,
    /// Different alphas and betas per group in device memory, zeros among both.
    PerGroup,
}

/// The bias of a case. Its type is the input's, or FP32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BiasCase {
    /// No bias.
    None,
    /// `b_g` of the input's type.
    Add,
    /// `b_g` in FP32.
    AddF32,
    /// `s_row · b_g`, `b` of the input's type.
    RowScaled,
    /// `s_row · b_g`, `b` in FP32.
    RowScaledF32,
    /// The layer has a bias, and forward leaves it to the caller.
    Left,
}

/// Where a layer's gradients of parameters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SinkCase {
    /// New tensors.
    New,
    /// The caller's, overwritten.
    Overwrite,
    /// The caller's, added to.
    Accumulate,
    /// The caller's in FP32, added to.
    AccumulateF32,
}

impl SinkCase {
    /// Whether gradients are added to what their buffers hold.
    pub fn accumulates(self) -> bool {
        matches!(self, Self::Accumulate | Self::AccumulateF32)
    }

    /// Type of the gradient of a parameter.
    pub(super) fn dtype(self, parameter: DType) -> DType {
        if self == Self::AccumulateF32 { DType::F32 } else { parameter }
    }
}

/// What is asked of a layer beside forward and backward in new tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerUse {
    /// Where biases lie, if not where weights do.
    pub other_bias_layout: bool,
    /// Where gradients of parameters go.
    pub sink: SinkCase,
    /// Whether the gradient of the weights is computed after backward.
    pub delayed: bool,
    /// Whether y, dx and dscales are the caller's.
    pub buffers: bool,
    /// Whether forward, backward and the delayed gradient are replayed from graphs, with other
    /// splits before the case's own.
    pub captured: bool,
}

impl LayerUse {
    /// Nothing.
    pub const PLAIN: Self = Self {
        other_bias_layout: false,
        sink: SinkCase::New,
        delayed: false,
        buffers: false,
        captured: false,
    };
}

/// Rows per expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowPattern {
    /// One expert, one row.
    One,
    /// One expert, one row more than a tile.
    OneExpert,
    /// The first expert has no rows.
    EmptyFirst,
    /// The middle expert has no rows.
    EmptyMiddle,
    /// The last expert has no rows.
    EmptyLast,
    /// No expert has rows.
    AllEmpty,
    /// One of four experts has all rows.
    Giant,
    /// Four experts of about equal size.
    Even,
    /// Eight experts around the edges of tiles.
    Edges,
    /// 64 experts with 0 to 40 rows.
    Many,
    /// 300 experts with 0 to 5 rows.
    VeryMany,
    /// These numbers of rows; not drawn for the table.
    Listed(&'static [usize]),
    /// So many experts with 0 to 2 rows.
    Drawn(usize),
    /// So many experts, of which one in about sixteen has rows, 1 to 3; not drawn for the table.
    Sparse(usize),
}

impl RowPattern {
    /// The splits.
    pub fn splits(self) -> Vec<usize> {
        let drawn = |groups: usize, limit: u64| {
            let mut generator = Generator::new(SEED ^ groups as u64);
            (0..groups).map(|_| (generator.next() % (limit + 1)) as usize).collect()
        };
        match self {
            Self::One => vec![1],
            Self::OneExpert => vec![129],
            Self::EmptyFirst => vec![0, 65, 64],
            Self::EmptyMiddle => vec![64, 0, 63],
            Self::EmptyLast => vec![127, 1, 0],
            Self::AllEmpty => vec![0; 4],
            Self::Giant => vec![0, 0, 513, 0],
            Self::Even => vec![256, 255, 257, 256],
            Self::Edges => vec![1, 63, 64, 65, 0, 127, 128, 129],
            Self::Many => drawn(64, 40),
            Self::VeryMany => drawn(300, 5),
            Self::Listed(splits) => splits.to_vec(),
            Self::Drawn(groups) => drawn(groups, 2),
            Self::Sparse(groups) => {
                drawn(groups, 50).into_iter().map(|rows| rows.saturating_sub(47)).collect()
            }
        }
    }
}

/// One behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// What is computed.
    pub operation: Operation,
    /// Type of the operands.
    pub input: DType,
    /// Type of the result.
    pub output: DType,
    /// Rows per expert.
    pub rows: RowPattern,
    /// Rows of the buffer that belong to no expert.
    pub tail: usize,
    /// K.
    pub in_features: usize,
    /// N.
    pub out_features: usize,
    /// Where parameters lie.
    pub layout: Layout,
    /// Bias.
    pub bias: BiasCase,
    /// Factors.
    pub factors: Factors,
    /// Where the splits lie.
    pub splits: SplitSource,
    /// Kernel.
    pub kernel: KernelChoice,
    /// What is asked of a layer.
    pub layer: LayerUse,
}

impl fmt::Display for Case {
    /// The name of the case, from which its data are drawn.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} {}->{} {:?}+{} k={} n={} {:?} bias={:?} {:?} splits={:?} {:?}",
            self.operation,
            self.input,
            self.output,
            self.rows,
            self.tail,
            self.in_features,
            self.out_features,
            self.layout,
            self.bias,
            self.factors,
            self.splits,
            self.kernel,
        )?;
        if self.operation != Operation::Layer {
            return Ok(());
        }
        let LayerUse { other_bias_layout, sink, delayed, buffers, captured } = self.layer;
        write!(f, " {sink:?}")?;
        let words = [
            (other_bias_layout, "other-bias-layout"),
            (delayed, "delayed"),
            (buffers, "buffers"),
            (captured, "captured"),
        ];
        for (_, word) in words.iter().filter(|(said, _)| *said) {
            write!(f, " {word}")?;
        }
        Ok(())
    }
}

impl Case {
    /// Type of the bias.
    pub fn bias_type(&self) -> DType {
        match self.bias {
            BiasCase::AddF32 | BiasCase::RowScaledF32 => DType::F32,
            _ => self.input,
        }
    }

    /// Where biases and their gradients lie.
    pub fn bias_layout(&self) -> Layout {
        match (self.layout, self.layer.other_bias_layout) {
            (Layout::Packed, false) | (Layout::Discrete, true) => Layout::Packed,
            (Layout::Discrete, false) | (Layout::Packed, true) => Layout::Discrete,
        }
    }

    /// Whether the bias has a factor per row.
    pub fn row_scaled(&self) -> bool {
        matches!(self.bias, BiasCase::RowScaled | BiasCase::RowScaledF32)
    }

    /// Why the engine, a GPU or the CPU, must refuse the case, if it must.
    pub fn refusal(&self, gpu: bool) -> Option<&'static str> {
        if gpu {
            return self.gpu_refusal();
        }
        self.layer.captured.then_some("the CPU records no graphs")
    }

    /// Tensor copies need multiples of 8.
    fn gpu_refusal(&self) -> Option<&'static str> {
        let product = !matches!(self.operation, Operation::Dbias | Operation::Dscales);
        let copies = product && self.input != DType::F32 && self.kernel == KernelChoice::Auto;
        let rows = self.rows.splits().iter().sum::<usize>() + self.tail;
        let ragged = !self.in_features.is_multiple_of(8) || !self.out_features.is_multiple_of(8);
        (copies && rows > 0 && ragged).then_some("features are no multiples of 8")
    }

    /// Sets what the operation does not use to the plain value, so that names do not lie.
    fn normalised(mut self) -> Self {
        match self.operation {
            Operation::Fprop => {}
            Operation::Dgrad | Operation::Wgrad => self.bias = BiasCase::None,
            Operation::Dbias => {
                self.factors = match self.factors {
                    Factors::Accumulate | Factors::PerGroup => Factors::Accumulate,
                    Factors::Plain | Factors::Scaled => Factors::Plain,
                };
                self.bias = if self.row_scaled() { BiasCase::RowScaled } else { BiasCase::Add };
                self.kernel = KernelChoice::Auto;
            }
            Operation::Dscales => {
                self.factors = Factors::Plain;
                self.bias = if self.bias_type() == self.input {
                    BiasCase::RowScaled
                } else {
                    BiasCase::RowScaledF32
                };
                self.kernel = KernelChoice::Auto;
                self.output = DType::F32;
            }
            Operation::Layer => {
                self.factors = Factors::Plain;
                self.layer = self.layer_use();
                if self.layer.captured && self.splits == SplitSource::Host {
                    self.splits = SplitSource::DeviceI64;
                }
            }
        }
        self
    }
}

impl Case {
    /// Nothing is allocated in a graph, so there all outputs are the caller's.
    fn layer_use(&self) -> LayerUse {
        let mut uses = self.layer;
        if uses.captured {
            uses.buffers = true;
            if uses.sink == SinkCase::New {
                uses.sink = SinkCase::Overwrite;
            }
        }
        uses.other_bias_layout &= self.bias != BiasCase::None;
        uses
    }
}

/// Operations with the types of operands and results.
const PRODUCTS: &[(Operation, DType, DType)] = {
    use DType::{Bf16, F16, F32};
    use Operation::{Dbias, Dgrad, Dscales, Fprop, Layer, Wgrad};
    &[
        (Fprop, Bf16, Bf16),
        (Fprop, Bf16, F16),
        (Fprop, Bf16, F32),
        (Fprop, F16, F16),
        (Fprop, F16, F32),
        (Fprop, F32, F32),
        (Dgrad, Bf16, Bf16),
        (Dgrad, Bf16, F32),
        (Dgrad, F16, Bf16),
        (Dgrad, F16, F16),
        (Dgrad, F16, F32),
        (Dgrad, F32, F32),
        (Wgrad, Bf16, Bf16),
        (Wgrad, Bf16, F32),
        (Wgrad, F16, F16),
        (Wgrad, F16, F32),
        (Wgrad, F32, F32),
        (Dbias, Bf16, Bf16),
        (Dbias, Bf16, F32),
        (Dbias, F16, F16),
        (Dbias, F32, F32),
        (Dbias, F32, Bf16),
        (Dscales, Bf16, F32),
        (Dscales, F16, F32),
        (Dscales, F32, F32),
        (Layer, Bf16, Bf16),
        (Layer, F16, F16),
        (Layer, F32, F32),
    ]
};

/// K and N: block edges first, then sizes that no tensor copy takes.
const FEATURES: &[(usize, usize)] = &[
    (8, 520),
    (16, 8),
    (24, 64),
    (64, 24),
    (72, 136),
    (136, 72),
    (256, 264),
    (264, 256),
    (520, 16),
    (7, 33),
    (33, 129),
    (129, 1),
];

const ROWS: &[RowPattern] = &[
    RowPattern::One,
    RowPattern::OneExpert,
    RowPattern::EmptyFirst,
    RowPattern::EmptyMiddle,
    RowPattern::EmptyLast,
    RowPattern::AllEmpty,
    RowPattern::Giant,
    RowPattern::Even,
    RowPattern::Edges,
    RowPattern::Many,
    RowPattern::VeryMany,
];

const TAILS: &[usize] = &[0, 1, 130];
const LAYOUTS: &[Layout] = &[Layout::Packed, Layout::Discrete];
const BIASES: &[BiasCase] =
    &[BiasCase::None, BiasCase::Add, BiasCase::AddF32, BiasCase::RowScaled, BiasCase::RowScaledF32];
const FACTORS: &[Factors] =
    &[Factors::Plain, Factors::Scaled, Factors::Accumulate, Factors::PerGroup];
const SPLITS: &[SplitSource] = &[SplitSource::Host, SplitSource::DeviceI32, SplitSource::DeviceI64];
const KERNELS: &[KernelChoice] = &[KernelChoice::Auto, KernelChoice::Simt];

/// Number of values of each axis, in the order in which [`case`] takes them.
const AXES: [usize; 9] = [
    PRODUCTS.len(),
    ROWS.len(),
    FEATURES.len(),
    TAILS.len(),
    LAYOUTS.len(),
    BIASES.len(),
    FACTORS.len(),
    SPLITS.len(),
    KERNELS.len(),
];

/// Axes that [`all_cases`] crosses completely: products, rows, features and kernels.
const CROSSED: [usize; 4] = [0, 1, 2, 8];

fn case(values: &[usize]) -> Case {
    let (operation, input, output) = PRODUCTS[values[0]];
    let (in_features, out_features) = FEATURES[values[2]];
    Case {
        operation,
        input,
        output,
        rows: ROWS[values[1]],
        tail: TAILS[values[3]],
        in_features,
        out_features,
        layout: LAYOUTS[values[4]],
        bias: BIASES[values[5]],
        factors: FACTORS[values[6]],
        splits: SPLITS[values[7]],
        kernel: KERNELS[values[8]],
        layer: LayerUse::PLAIN,
    }
    .normalised()
}

/// Buffers without rows, listed rather than drawn. Nothing is multiplied, and yet outputs with a part
/// per expert are written: zeros, or beta times what they held.
fn cases_without_rows() -> impl Iterator<Item = Case> {
    use Operation::{Dbias, Dgrad, Dscales, Fprop, Layer, Wgrad};
    let operations = [Fprop, Dgrad, Wgrad, Dbias, Dscales, Layer].into_iter();
    let axes = LAYOUTS
        .iter()
        .flat_map(|&layout| [Factors::Plain, Factors::PerGroup].map(|factors| (layout, factors)));
    let axes = axes.flat_map(|(layout, factors)| {
        [SplitSource::Host, SplitSource::DeviceI64].map(|splits| (layout, factors, splits))
    });
    operations.flat_map(move |operation| {
        axes.clone().map(move |(layout, factors, splits)| {
            Case {
                operation,
                input: DType::Bf16,
                output: DType::Bf16,
                rows: RowPattern::AllEmpty,
                tail: 0,
                in_features: 64,
                out_features: 24,
                layout,
                bias: BiasCase::RowScaled,
                factors,
                splits,
                kernel: KernelChoice::Auto,
                layer: LayerUse::PLAIN,
            }
            .normalised()
        })
    })
}

const LAYER_TYPES: &[DType] = &[DType::Bf16, DType::F16, DType::F32];
const LAYER_BIASES: &[BiasCase] = &[
    BiasCase::None,
    BiasCase::Add,
    BiasCase::AddF32,
    BiasCase::RowScaled,
    BiasCase::RowScaledF32,
    BiasCase::Left,
];
const SINKS: &[SinkCase] =
    &[SinkCase::New, SinkCase::Overwrite, SinkCase::Accumulate, SinkCase::AccumulateF32];
const LAYER_FEATURES: &[(usize, usize)] = &[(64, 24), (136, 72), (16, 8), (33, 129)];
/// As [`ROWS`], but of very many experts fewer: a layer case is ten times the work of another.
const LAYER_ROWS: &[RowPattern] = &[
    RowPattern::One,
    RowPattern::OneExpert,
    RowPattern::EmptyFirst,
    RowPattern::EmptyMiddle,
    RowPattern::EmptyLast,
    RowPattern::AllEmpty,
    RowPattern::Giant,
    RowPattern::Even,
    RowPattern::Edges,
    RowPattern::Many,
    RowPattern::Drawn(130),
];
const SWITCH: usize = 2;

/// Number of values of each axis of a layer case, in the order in which [`layer_case`] takes them.
const LAYER_AXES: [usize; 13] = [
    LAYER_TYPES.len(),
    LAYOUTS.len(),
    SWITCH, // biases lie elsewhere
    LAYER_BIASES.len(),
    SINKS.len(),
    SWITCH, // delayed
    SWITCH, // buffers
    SWITCH, // captured
    SPLITS.len(),
    LAYER_ROWS.len(),
    LAYER_FEATURES.len(),
    TAILS.len(),
    KERNELS.len(),
];

/// The first axes of a layer, which [`all_cases`] crosses completely.
const LAYER_CROSSED: usize = 9;

fn layer_case(values: &[usize]) -> Case {
    let (in_features, out_features) = LAYER_FEATURES[values[10]];
    Case {
        operation: Operation::Layer,
        input: LAYER_TYPES[values[0]],
        output: LAYER_TYPES[values[0]],
        rows: LAYER_ROWS[values[9]],
        tail: TAILS[values[11]],
        in_features,
        out_features,
        layout: LAYOUTS[values[1]],
        bias: LAYER_BIASES[values[3]],
        factors: Factors::Plain,
        splits: SPLITS[values[8]],
        kernel: KERNELS[values[12]],
        layer: LayerUse {
            other_bias_layout: values[2] == 1,
            sink: SINKS[values[4]],
            delayed: values[5] == 1,
            buffers: values[6] == 1,
            captured: values[7] == 1,
        },
    }
    .normalised()
}

/// A selection in which every two values of different axes meet, for operations and for layers, and
/// buffers without rows.
pub fn selected_cases() -> Vec<Case> {
    let operations = pairwise::select(&AXES, SEED);
    let layers = pairwise::select(&LAYER_AXES, SEED);
    let cases = operations.iter().map(|values| case(values));
    let layers = layers.iter().map(|values| layer_case(values));
    unique(cases.chain(cases_without_rows()).chain(layers))
}

/// Every combination of operation, types, rows, features and kernel, and every combination of what
/// can be asked of a layer; the remaining axes are drawn. Then the cases that [`selected_cases`]
/// lists.
pub fn all_cases() -> Vec<Case> {
    let layer_axes: Vec<usize> = (0..LAYER_CROSSED).collect();
    let cases = crossed(&AXES, &CROSSED).into_iter().map(|values| case(&values));
    let layers = crossed(&LAYER_AXES, &layer_axes).into_iter().map(|values| layer_case(&values));
    unique(cases.chain(cases_without_rows()).chain(layers))
}

/// Every combination of the values of `complete` axes; the values of the others are drawn.
fn crossed(axes: &[usize], complete: &[usize]) -> Vec<Vec<usize>> {
    let mut generator = Generator::new(SEED);
    let combinations: usize = complete.iter().map(|&axis| axes[axis]).product();
    let values = (0..combinations).map(|mut index| {
        let mut values: Vec<usize> =
            axes.iter().map(|&count| (generator.next() % count as u64) as usize).collect();
        for &axis in complete {
            values[axis] = index % axes[axis];
            index /= axes[axis];
        }
        values
    });
    values.collect()
}

fn unique(cases: impl Iterator<Item = Case>) -> Vec<Case> {
    let mut seen = std::collections::HashSet::new();
    cases.filter(|case| seen.insert(*case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_without_rows_are_never_left_to_chance() {
        for cases in [selected_cases(), all_cases()] {
            let has = |operation, layout, factors| {
                cases.iter().any(|case| {
                    let rows = case.rows.splits().iter().sum::<usize>() + case.tail;
                    let plain = case.input == DType::Bf16 && case.kernel == KernelChoice::Auto;
                    let same = (case.operation, case.layout, case.factors);
                    rows == 0 && plain && same == (operation, layout, factors)
                })
            };
            for &layout in LAYOUTS {
                for operation in [Operation::Fprop, Operation::Dgrad, Operation::Wgrad] {
                    assert!(has(operation, layout, Factors::PerGroup), "{operation:?} {layout:?}");
                    assert!(has(operation, layout, Factors::Plain), "{operation:?} {layout:?}");
                }
                assert!(has(Operation::Dbias, layout, Factors::Accumulate), "{layout:?}");
                assert!(has(Operation::Dbias, layout, Factors::Plain), "{layout:?}");
                assert!(has(Operation::Dscales, layout, Factors::Plain), "{layout:?}");
                assert!(has(Operation::Layer, layout, Factors::Plain), "{layout:?}");
            }
        }
    }
    /// Experts beyond 64 are where lists of fixed length end.
    #[test]
    fn every_operation_has_more_than_64_experts_in_both_layouts() {
        let cases = selected_cases();
        for operation in [
            Operation::Fprop,
            Operation::Dgrad,
            Operation::Wgrad,
            Operation::Dbias,
            Operation::Dscales,
            Operation::Layer,
        ] {
            for &layout in LAYOUTS {
                let many = |case: &Case| {
                    let same = (case.operation, case.layout) == (operation, layout);
                    same && case.rows.splits().len() > 64
                };
                assert!(cases.iter().any(many), "{operation:?} {layout:?}");
            }
        }
    }

    /// Normalising a case must not undo the pairs that were selected.
    #[test]
    fn what_is_asked_of_a_layer_meets_everything_else() {
        type Asked = (&'static str, fn(&Case) -> bool);
        const USES: [Asked; 5] = [
            ("delayed", |case| case.layer.delayed),
            ("captured", |case| case.layer.captured),
            ("in buffers", |case| case.layer.buffers),
            ("overwriting", |case| case.layer.sink == SinkCase::Overwrite),
            ("accumulating in FP32", |case| case.layer.sink == SinkCase::AccumulateF32),
        ];
        const OTHERS: [Asked; 11] = [
            ("packed", |case| case.layout == Layout::Packed),
            ("discrete", |case| case.layout == Layout::Discrete),
            ("with biases elsewhere", |case| case.layer.other_bias_layout),
            ("without bias", |case| case.bias == BiasCase::None),
            ("with a bias", |case| case.bias == BiasCase::Add),
            ("row-scaled", Case::row_scaled),
            ("leaving the bias", |case| case.bias == BiasCase::Left),
            ("in BF16", |case| case.input == DType::Bf16),
            ("in FP16", |case| case.input == DType::F16),
            ("in FP32", |case| case.input == DType::F32),
            ("without rows", |case| case.rows == RowPattern::AllEmpty),
        ];
        let cases = selected_cases();
        let meet = |(what, asked): Asked, (other, also): Asked| {
            let layers = cases.iter().filter(|case| case.operation == Operation::Layer);
            let found = layers.filter(|case| asked(case) && also(case)).count();
            assert!(found > 0, "no layer is {what} and {other}");
        };
        for (number, &asked) in USES.iter().enumerate() {
            OTHERS.iter().for_each(|&other| meet(asked, other));
            // No sink does both.
            let others = USES[number + 1..].iter().filter(|_| number < 3);
            others.for_each(|&other| meet(asked, other));
        }
    }
}
