//! Data of a case and what must come out, in FP64.

use super::cases::{BiasCase, Case, Factors, Operation};
use super::data::{Generator, round};
use crate::error::Result;
use crate::reference::plain::{self, Groups};
use crate::tensor::DType;

/// What an output held where its rows belong to no expert.
const SENTINEL: f32 = 777.0;

/// Host copies of everything a case reads. What must not influence a result is NaN: the rows of no
/// expert, and the parameters of experts without rows.
pub(super) struct Inputs {
    pub splits: Vec<usize>,
    pub offsets: Vec<usize>,
    pub rows: usize,
    pub x: Vec<f32>,
    pub dy: Vec<f32>,
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
    pub row_scales: Vec<f32>,
    pub alpha: Vec<f32>,
    pub beta: Vec<f32>,
}

/// A result: FP64 values, and the sums of the absolute values of their terms.
pub(super) struct Expected {
    pub values: Vec<f64>,
    pub magnitude: Vec<f64>,
}

impl Inputs {
    pub(super) fn new(case: &Case, generator: &mut Generator) -> Self {
        let splits = case.rows.splits();
        let mut offsets = vec![0];
        for split in &splits {
            offsets.push(offsets[offsets.len() - 1] + split);
        }
        let (groups, live) = (splits.len(), offsets[splits.len()]);
        let rows = live + case.tail;
        let (n, k) = (case.out_features, case.in_features);
        let mut tokens = |columns: usize, dtype: DType| {
            let mut values = generator.values(live * columns, dtype);
            values.resize(rows * columns, f32::NAN);
            values
        };
        let (x, dy) = (tokens(k, case.input), tokens(n, case.input));
        let row_scales = tokens(1, DType::F32);
        let mut parameters = |length: usize, dtype: DType| -> Vec<f32> {
            let parts = splits.iter().map(|&split| match split {
                0 => vec![f32::NAN; length],
                _ => generator.values(length, dtype),
            });
            parts.flatten().collect()
        };
        let weights = parameters(n * k, case.input);
        let bias = parameters(n, case.bias_type());
        // Cycles of different lengths, so that every alpha meets every beta.
        let (alpha, beta) = match case.factors {
            Factors::Plain => (vec![1.0; groups], vec![0.0; groups]),
            Factors::Scaled => (vec![-0.75; groups], vec![0.0; groups]),
            Factors::Accumulate => (vec![1.0; groups], vec![1.0; groups]),
            Factors::PerGroup => (
                (0..groups).map(|group| [1.0, 0.5, -2.0, 0.0, 1.25][group % 5]).collect(),
                (0..groups).map(|group| [1.0, 0.0, -0.5][group % 3]).collect(),
            ),
        };
        Self { splits, offsets, rows, x, dy, weights, bias, row_scales, alpha, beta }
    }

    pub(super) fn groups(&self) -> usize {
        self.splits.len()
    }

    pub(super) fn live_rows(&self) -> usize {
        self.offsets[self.groups()]
    }

    /// What a `[rows, columns]` output holds before: old values where they count, NaN where they
    /// must be overwritten, a sentinel in rows that must not be touched.
    pub(super) fn rows_before(
        &self,
        columns: usize,
        dtype: DType,
        generator: &mut Generator,
    ) -> Vec<f32> {
        let mut before = Vec::with_capacity(self.rows * columns);
        for (group, &split) in self.splits.iter().enumerate() {
            before.extend(self.old(group, split * columns, dtype, generator));
        }
        before.resize(self.rows * columns, round(SENTINEL, dtype));
        before
    }

    /// As [`Inputs::rows_before`], for an output with one part per group. A layer that
    /// `accumulates` adds to all of it.
    pub(super) fn groups_before(
        &self,
        length: usize,
        dtype: DType,
        accumulates: bool,
        generator: &mut Generator,
    ) -> Vec<f32> {
        if accumulates {
            return generator.values(self.groups() * length, dtype);
        }
        (0..self.groups()).flat_map(|group| self.old(group, length, dtype, generator)).collect()
    }

    fn old(&self, group: usize, count: usize, dtype: DType, generator: &mut Generator) -> Vec<f32> {
        match self.beta[group] {
            0.0 => vec![f32::NAN; count],
            _ => generator.values(count, dtype),
        }
    }

    fn groups_of<'a>(&'a self, case: &Case) -> Groups<'a> {
        Groups {
            row_offsets: &self.offsets,
            out_features: case.out_features,
            in_features: case.in_features,
        }
    }

    /// The group that owns a live row.
    pub(super) fn group_of_row(&self, row: usize) -> usize {
        self.offsets.partition_point(|&offset| offset <= row) - 1
    }
}

/// What `operation` must give; `before` is what its output held, to which a layer may add.
pub(super) fn expected(
    case: &Case,
    operation: Operation,
    inputs: &Inputs,
    before: &[f32],
    accumulates: bool,
) -> Result<Expected> {
    let before = (before, accumulates);
    let values = sums(case, operation, inputs, before, f64::from)?;
    let magnitude = sums(case, operation, inputs, before, |value| f64::from(value).abs())?;
    Ok(Expected { values, magnitude })
}

/// The formulas, on what `convert` makes of every number.
fn sums(
    case: &Case,
    operation: Operation,
    inputs: &Inputs,
    (before, accumulates): (&[f32], bool),
    convert: impl Fn(f32) -> f64 + Copy,
) -> Result<Vec<f64>> {
    let (n, k) = (case.out_features, case.in_features);
    let live = inputs.live_rows();
    let groups = inputs.groups_of(case);
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&v| convert(v)).collect() };
    let scales = wide(&inputs.row_scales);
    let mut d;
    let columns = match operation {
        Operation::Fprop | Operation::Layer => {
            d = vec![0.0; live * n];
            plain::fprop(&groups, &wide(&inputs.x), &wide(&inputs.weights), &mut d)?;
            n
        }
        Operation::Dgrad => {
            d = vec![0.0; live * k];
            plain::dgrad(&groups, &wide(&inputs.dy), &wide(&inputs.weights), &mut d)?;
            k
        }
        Operation::Wgrad => {
            d = vec![0.0; inputs.groups() * n * k];
            plain::wgrad(&groups, &wide(&inputs.dy), &wide(&inputs.x), &mut d)?;
            n * k
        }
        Operation::Dbias => {
            d = vec![0.0; inputs.groups() * n];
            let scales = case.row_scaled().then_some(&scales[..]);
            plain::dbias(&groups, &wide(&inputs.dy), scales, &mut d)?;
            n
        }
        Operation::Dscales => {
            d = vec![0.0; live];
            plain::dscales(&groups, &wide(&inputs.dy), &wide(&inputs.bias), &mut d)?;
            1
        }
    };
    let follows_rows = !matches!(operation, Operation::Wgrad | Operation::Dbias);
    let has_bias =
        operation == Operation::Fprop && !matches!(case.bias, BiasCase::None | BiasCase::Left);
    for (part, d) in d.chunks_mut(columns).enumerate() {
        let group = if follows_rows { inputs.group_of_row(part) } else { part };
        let alpha = convert(inputs.alpha[group]);
        let beta = if accumulates { 1.0 } else { convert(inputs.beta[group]) };
        for (column, value) in d.iter_mut().enumerate() {
            *value *= alpha;
            if has_bias {
                let scale = if case.row_scaled() { scales[part] } else { 1.0 };
                *value += scale * convert(inputs.bias[group * n + column]);
            }
            if beta != 0.0 {
                *value += beta * convert(before[part * columns + column]);
            }
        }
    }
    Ok(d)
}
