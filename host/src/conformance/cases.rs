//! The table: what varies, and which combinations are run.

use std::fmt;

use super::data::Generator;
use super::layer_cases::{self, LayerUse};
use super::pairwise;
use super::rows::RowPattern;
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

    /// About how long the emulated GPU takes, in products of tensor cores; to choose cases by. An
    /// expert's rows, and features, count as whole tiles, and a product of one thread as eight.
    pub(super) fn work(&self) -> usize {
        const TILE: usize = 64;
        let tiles = |count: usize| count.next_multiple_of(TILE);
        let passes = match self.operation {
            Operation::Fprop | Operation::Dgrad | Operation::Wgrad => 1,
            Operation::Layer => 3,
            Operation::Dbias | Operation::Dscales => 0,
        };
        let rows: usize = self.rows.splits().into_iter().map(tiles).sum();
        let threads = if self.multiplies_on_tensor_cores() { 1 } else { 8 };
        let work = passes * threads * rows * tiles(self.in_features) * tiles(self.out_features);
        // What every case takes, whatever it multiplies.
        work + (128 << 20)
    }

    /// Tensor copies need multiples of 8.
    fn gpu_refusal(&self) -> Option<&'static str> {
        (self.asks_for_tensor_cores() && self.is_ragged())
            .then_some("features are no multiples of 8")
    }

    /// Whether a GPU computes products of the case on tensor cores.
    pub(super) fn multiplies_on_tensor_cores(&self) -> bool {
        self.asks_for_tensor_cores() && !self.is_ragged()
    }

    fn asks_for_tensor_cores(&self) -> bool {
        let product = !matches!(self.operation, Operation::Dbias | Operation::Dscales);
        let copies = product && self.input != DType::F32 && self.kernel != KernelChoice::Simt;
        copies && self.rows.splits().iter().sum::<usize>() + self.tail > 0
    }

    fn is_ragged(&self) -> bool {
        !self.in_features.is_multiple_of(8) || !self.out_features.is_multiple_of(8)
    }

    /// Sets what the operation does not use to the plain value, so that names do not lie.
    pub(super) fn normalised(mut self) -> Self {
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
                self.layer = self.layer.normalised(self.bias);
                if self.layer.captured && self.splits == SplitSource::Host {
                    self.splits = SplitSource::DeviceI64;
                }
            }
        }
        self
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

pub(super) const TAILS: &[usize] = &[0, 1, 130];
pub(super) const LAYOUTS: &[Layout] = &[Layout::Packed, Layout::Discrete];
const BIASES: &[BiasCase] =
    &[BiasCase::None, BiasCase::Add, BiasCase::AddF32, BiasCase::RowScaled, BiasCase::RowScaledF32];
const FACTORS: &[Factors] =
    &[Factors::Plain, Factors::Scaled, Factors::Accumulate, Factors::PerGroup];
pub(super) const SPLITS: &[SplitSource] =
    &[SplitSource::Host, SplitSource::DeviceI32, SplitSource::DeviceI64];
pub(super) const KERNELS: &[KernelChoice] = &[KernelChoice::Auto, KernelChoice::Simt];

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
    let rows = match (operation, ROWS[values[1]]) {
        (Operation::Layer, RowPattern::VeryMany) => layer_cases::MANY_EXPERTS,
        (_, rows) => rows,
    };
    Case {
        operation,
        input,
        output,
        rows,
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

/// A case that asks for nothing special; what is listed varies it.
const PLAIN: Case = Case {
    operation: Operation::Fprop,
    input: DType::Bf16,
    output: DType::Bf16,
    rows: RowPattern::AllEmpty,
    tail: 0,
    in_features: 64,
    out_features: 24,
    layout: Layout::Packed,
    bias: BiasCase::None,
    factors: Factors::Plain,
    splits: SplitSource::DeviceI64,
    kernel: KernelChoice::Auto,
    layer: LayerUse::PLAIN,
};

/// Buffers without rows, listed rather than drawn. Nothing is multiplied, and yet outputs with a
/// part per expert are written: zeros, or beta times what they held.
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
            Case { operation, layout, bias: BiasCase::RowScaled, factors, splits, ..PLAIN }
                .normalised()
        })
    })
}

/// Gradients of weights whose features are whole blocks of 64, listed rather than drawn: Hopper's
/// kernel reads all blocks of a stage in one box then. The last tile of 192 rows and that of 320
/// columns have fewer blocks than a box.
fn cases_of_whole_blocks() -> impl Iterator<Item = Case> {
    let types = [(DType::Bf16, DType::Bf16), (DType::F16, DType::F32)].into_iter();
    let types = types.flat_map(|types| [(320, 192), (64, 64)].map(|features| (types, features)));
    types.flat_map(|((input, output), (in_features, out_features))| {
        [(RowPattern::Edges, 130), (RowPattern::EmptyMiddle, 0)].map(|(rows, tail)| Case {
            operation: Operation::Wgrad,
            input,
            output,
            rows,
            tail,
            in_features,
            out_features,
            ..PLAIN
        })
    })
}

/// Products of 49 stages, listed rather than drawn: Hopper's copies hold back in long ones. Its
/// kernels of fprop with tiles of 256 columns and of 240, and of dgrad.
fn cases_of_long_products() -> impl Iterator<Item = Case> {
    use DType::{Bf16, F16};
    use Operation::{Dgrad, Fprop};
    const REDUCTION: usize = 3080;
    let products = [
        (Fprop, Bf16, [REDUCTION, 256]),
        (Fprop, F16, [REDUCTION, 256]),
        (Fprop, Bf16, [REDUCTION, 480]),
        (Fprop, F16, [REDUCTION, 480]),
        (Dgrad, Bf16, [264, REDUCTION]),
        (Dgrad, F16, [264, REDUCTION]),
    ];
    products.into_iter().map(|(operation, input, [in_features, out_features])| Case {
        operation,
        input,
        output: input,
        rows: RowPattern::Listed(&[130, 0, 70]),
        tail: 1,
        in_features,
        out_features,
        ..PLAIN
    })
}

/// Very many experts, listed rather than drawn: beyond 64, where lists of fixed length end, in both
/// layouts.
fn cases_of_many_experts() -> impl Iterator<Item = Case> {
    use Operation::{Dbias, Dgrad, Dscales, Fprop, Layer, Wgrad};
    let operations = [Fprop, Dgrad, Wgrad, Dbias, Dscales, Layer].into_iter();
    let operations =
        operations.flat_map(|operation| LAYOUTS.iter().map(move |&layout| (operation, layout)));
    operations.map(|(operation, layout)| {
        let rows = match operation {
            Layer => layer_cases::MANY_EXPERTS,
            _ => RowPattern::VeryMany,
        };
        let bias = BiasCase::RowScaled;
        Case { operation, rows, layout, bias, ..PLAIN }.normalised()
    })
}

/// What is listed, of operations.
fn listed() -> impl Iterator<Item = Case> {
    let products = cases_of_whole_blocks().chain(cases_of_long_products());
    cases_without_rows().chain(products).chain(cases_of_many_experts())
}

/// A selection in which every two values of different axes meet, for operations and for layers,
/// buffers without rows, gradients of whole blocks of features, long products, and very many
/// experts.
pub fn selected_cases() -> Vec<Case> {
    let cases = pairwise::select(&AXES, SEED, |values| case(values).work());
    let cases = cases.into_iter().map(|values| case(&values));
    unique(cases.chain(layer_cases::selected()).chain(listed()))
}

/// Every combination of operation, types, rows, features and kernel, and every combination of what
/// can be asked of a layer; the remaining axes are drawn. Then the cases that [`selected_cases`]
/// lists.
pub fn all_cases() -> Vec<Case> {
    let cases = crossed(&AXES, &CROSSED).into_iter().map(|values| case(&values));
    let layers = layer_cases::crossed_completely();
    unique(cases.chain(layers).chain(listed()))
}

/// Every combination of the values of `complete` axes; the values of the others are drawn.
pub(super) fn crossed(axes: &[usize], complete: &[usize]) -> Vec<Vec<usize>> {
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
    use crate::plan::{BiasKind, GemmProblem, GpuTarget, Pass, Plan, Target};
    use grouped_linear_kernels::abi::ElementType;
    use grouped_linear_kernels::variants::{Role, Sm90Gemm};

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

    /// Those of Hopper that hold back, in either type: wide and narrow tiles of fprop, and dgrad.
    #[test]
    fn long_products_reach_each_kernel_of_16_bits() -> crate::Result<()> {
        let gpu = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
        let role = |case: Case| {
            let problem = GemmProblem {
                pass: if case.operation == Operation::Fprop { Pass::Fprop } else { Pass::Dgrad },
                groups: case.rows.splits().len(),
                rows: case.rows.splits().iter().sum::<usize>() + case.tail,
                in_features: case.in_features,
                out_features: case.out_features,
                input: case.input,
                output: case.output,
                bias: BiasKind::None,
                kernel: case.kernel,
            };
            let plan = Plan::new(problem.into(), Target { gpu: Some(gpu) })?;
            Ok(plan.launch.and_then(|launch| launch.kernel).map(|kernel| kernel.role))
        };
        let roles = cases_of_long_products().map(role).collect::<crate::Result<Vec<_>>>()?;
        let types = [ElementType::Bf16, ElementType::F16];
        let expected = [(Pass::Fprop, false), (Pass::Fprop, true), (Pass::Dgrad, false)]
            .into_iter()
            .flat_map(|(pass, narrow)| types.map(|element| Sm90Gemm { pass, element, narrow }));
        assert_eq!(roles, expected.map(|gemm| Some(Role::GemmSm90(gemm))).collect::<Vec<_>>());
        Ok(())
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
}
