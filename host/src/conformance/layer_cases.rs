//! The part of the table that is about layers: what can be asked of one, and which combinations are
//! run.

use super::cases::{
    BiasCase, Case, Factors, KERNELS, LAYOUTS, Operation, SEED, SPLITS, TAILS, crossed,
};
use super::pairwise;
use super::rows::RowPattern;
use crate::tensor::DType;

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

    /// Without what the case does not use. Nothing is allocated in a graph, so there all outputs
    /// are the caller's.
    pub(super) fn normalised(mut self, bias: BiasCase) -> Self {
        if self.captured {
            self.buffers = true;
            if self.sink == SinkCase::New {
                self.sink = SinkCase::Overwrite;
            }
        }
        self.other_bias_layout &= bias != BiasCase::None;
        self
    }
}

const TYPES: &[DType] = &[DType::Bf16, DType::F16, DType::F32];
const BIASES: &[BiasCase] = &[
    BiasCase::None,
    BiasCase::Add,
    BiasCase::AddF32,
    BiasCase::RowScaled,
    BiasCase::RowScaledF32,
    BiasCase::Left,
];
const SINKS: &[SinkCase] =
    &[SinkCase::New, SinkCase::Overwrite, SinkCase::Accumulate, SinkCase::AccumulateF32];
const FEATURES: &[(usize, usize)] = &[(64, 24), (136, 72), (16, 8), (33, 129)];
/// A layer's very many experts, fewer than those of other cases: a layer case is ten times the work
/// of another.
pub(super) const MANY_EXPERTS: RowPattern = RowPattern::Drawn(130);
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
    MANY_EXPERTS,
];
const SWITCH: usize = 2;

/// Number of values of each axis, in the order in which [`case`] takes them.
const AXES: [usize; 13] = [
    TYPES.len(),
    LAYOUTS.len(),
    SWITCH, // biases lie elsewhere
    BIASES.len(),
    SINKS.len(),
    SWITCH, // delayed
    SWITCH, // buffers
    SWITCH, // captured
    SPLITS.len(),
    ROWS.len(),
    FEATURES.len(),
    TAILS.len(),
    KERNELS.len(),
];

/// The first axes, which [`crossed_completely`] crosses.
const CROSSED: usize = 9;

fn case(values: &[usize]) -> Case {
    let (in_features, out_features) = FEATURES[values[10]];
    Case {
        operation: Operation::Layer,
        input: TYPES[values[0]],
        output: TYPES[values[0]],
        rows: ROWS[values[9]],
        tail: TAILS[values[11]],
        in_features,
        out_features,
        layout: LAYOUTS[values[1]],
        bias: BIASES[values[3]],
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

/// A selection in which every two values of different axes meet.
pub(super) fn selected() -> impl Iterator<Item = Case> {
    let cases = pairwise::select(&AXES, SEED, |values| case(values).work());
    cases.into_iter().map(|values| case(&values))
}

/// Every combination of what can be asked of a layer; the remaining axes are drawn.
pub(super) fn crossed_completely() -> impl Iterator<Item = Case> {
    let complete: Vec<usize> = (0..CROSSED).collect();
    crossed(&AXES, &complete).into_iter().map(|values| case(&values))
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Layout, selected_cases};
    use super::*;

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
