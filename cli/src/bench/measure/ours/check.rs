//! Results beside FP64: sampled elements of a few experts, computed again from what the device
//! holds.

use std::ops::Range;

use anyhow::Result;
use grouped_linear::{GroupedTensor, Stream, Tensor};

use super::base::Base;
use crate::bench::measure::record::Check;
use crate::bench::model::product::Pass;
use crate::bench::splits::SplitMix;

/// Rows, and columns in each, that are sampled of an expert.
const LINES: usize = 4;

/// What a product reads, as numbers.
pub trait Read {
    /// Rows of X that the pass reads, `[rows, K]`.
    fn x(&self, stream: &Stream, rows: Range<usize>) -> Result<Vec<f32>>;

    /// Rows of dY, `[rows, N]`.
    fn dy(&self, stream: &Stream, rows: Range<usize>) -> Result<Vec<f32>>;

    /// The weights of an expert, `[N, K]`.
    fn w(&self, stream: &Stream, group: usize) -> Result<Vec<f32>>;
}

impl Read for Base {
    fn x(&self, stream: &Stream, rows: Range<usize>) -> Result<Vec<f32>> {
        Ok(self.x.narrow(rows.start, rows.len())?.to_f32(stream)?)
    }

    fn dy(&self, stream: &Stream, rows: Range<usize>) -> Result<Vec<f32>> {
        Ok(self.dy.narrow(rows.start, rows.len())?.to_f32(stream)?)
    }

    fn w(&self, stream: &Stream, group: usize) -> Result<Vec<f32>> {
        Ok(self.w.group(group)?.to_f32(stream)?)
    }
}

/// What a product wrote.
#[derive(Clone, Copy)]
pub enum Output<'a> {
    /// Y or dX.
    Rows(&'a Tensor),
    /// dW, so many times added up.
    Groups(&'a GroupedTensor, f64),
}

/// What errors may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest.
    pub worst: f64,
    /// The root of the mean of their squares.
    pub rms: f64,
}

/// Errors of sampled elements, each in units of the element, or of the root of the sum of its
/// squared terms where that is larger: the scale of rounding.
#[derive(Default)]
pub struct Errors(Vec<f64>);

impl Errors {
    /// Adds one.
    pub fn push(&mut self, got: f64, want: f64, scale: f64) {
        let error = (got - want).abs();
        self.0.push(if error == 0.0 { 0.0 } else { error / scale });
    }

    /// The comparison.
    pub fn check(&self, name: String, limits: Limits) -> Check {
        // Numbers that are none must not be lost in a maximum.
        let worst = self.0.iter().fold(0.0f64, |worst, &error| {
            if worst.is_nan() || error.is_nan() { f64::NAN } else { worst.max(error) }
        });
        let squares: f64 = self.0.iter().map(|error| error * error).sum();
        let samples = self.0.len();
        Check {
            name,
            samples,
            worst: finite(worst),
            worst_limit: limits.worst,
            rms: finite((squares / samples.max(1) as f64).sqrt()),
            rms_limit: limits.rms,
        }
    }
}

/// JSON has no word for what is not finite.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::MAX }
}

/// What comparing a product found.
pub struct Compared {
    /// Sampled elements of experts that have rows.
    errors: Errors,
    /// Gradients of an expert without rows, which are nothing but zero.
    empty: Option<Errors>,
}

impl Compared {
    /// The comparisons.
    pub fn checks(&self, name: &str, limits: Limits) -> Vec<Check> {
        let none = Limits { worst: 0.0, rms: 0.0 };
        let empty =
            self.empty.iter().map(|errors| errors.check(format!("{name} empty expert"), none));
        std::iter::once(self.errors.check(name.to_owned(), limits)).chain(empty).collect()
    }
}

/// Compares a pass with FP64 over what `read` says its operands are.
pub fn product(
    stream: &Stream,
    base: &Base,
    pass: Pass,
    read: &dyn Read,
    output: Output<'_>,
) -> Result<Compared> {
    let mut random = SplitMix(0x5EED);
    let mut errors = Errors::default();
    for group in sampled_groups(base, &mut random) {
        let rows = base.group_rows(group);
        let matrices = Matrices::read(stream, pass, read, (group, rows.clone()))?;
        let [lines, columns] = matrices.extent(base, rows.len());
        for _ in 0..LINES {
            let line = random.below(lines as u64) as usize;
            let got = match output {
                Output::Rows(tensor) => tensor.index(rows.start + line)?.to_f32(stream)?,
                Output::Groups(tensor, _) => tensor.group(group)?.index(line)?.to_f32(stream)?,
            };
            let times = if let Output::Groups(_, times) = output { times } else { 1.0 };
            for _ in 0..LINES {
                let column = random.below(columns as u64) as usize;
                let (sum, squares) = matrices.dot(base, line, column);
                let scale = times * sum.abs().max(squares.sqrt());
                errors.push(f64::from(got[column]), times * sum, scale);
            }
        }
    }
    let without_rows = (0..base.groups()).find(|&group| base.group_rows(group).is_empty());
    let empty = match (output, without_rows) {
        (Output::Groups(tensor, _), Some(group)) => {
            let mut errors = Errors::default();
            for _ in 0..LINES {
                let line = random.below(base.n() as u64) as usize;
                for value in tensor.group(group)?.index(line)?.to_f32(stream)? {
                    errors.push(f64::from(value), 0.0, 1.0);
                }
            }
            Some(errors)
        }
        _ => None,
    };
    Ok(Compared { errors, empty })
}

/// The largest expert, the smallest one that has rows, and another.
fn sampled_groups(base: &Base, random: &mut SplitMix) -> Vec<usize> {
    let mut live: Vec<usize> =
        (0..base.groups()).filter(|&group| !base.group_rows(group).is_empty()).collect();
    live.sort_by_key(|&group| (base.group_rows(group).len(), group));
    if live.len() > 3 {
        let between = 1 + random.below(live.len() as u64 - 2) as usize;
        live = vec![live[0], live[between], live[live.len() - 1]];
    }
    live
}

/// Both operands of an expert.
struct Matrices {
    pass: Pass,
    left: Vec<f32>,
    right: Vec<f32>,
}

impl Matrices {
    fn read(
        stream: &Stream,
        pass: Pass,
        read: &dyn Read,
        (group, rows): (usize, Range<usize>),
    ) -> Result<Self> {
        let (left, right) = match pass {
            Pass::Fprop => (read.x(stream, rows)?, read.w(stream, group)?),
            Pass::Dgrad => (read.dy(stream, rows)?, read.w(stream, group)?),
            Pass::Wgrad | Pass::Accumulate => {
                (read.dy(stream, rows.clone())?, read.x(stream, rows)?)
            }
        };
        Ok(Self { pass, left, right })
    }

    /// Lines and columns of the expert's result.
    fn extent(&self, base: &Base, rows: usize) -> [usize; 2] {
        match self.pass {
            Pass::Fprop => [rows, base.n()],
            Pass::Dgrad => [rows, base.k()],
            Pass::Wgrad | Pass::Accumulate => [base.n(), base.k()],
        }
    }

    /// An element, and the sum of its squared terms.
    fn dot(&self, base: &Base, line: usize, column: usize) -> (f64, f64) {
        let (n, k) = (base.n(), base.k());
        let (left, right) = (&self.left, &self.right);
        match self.pass {
            Pass::Fprop => sums(&left[line * k..][..k], &right[column * k..][..k]),
            Pass::Dgrad => sums(&left[line * n..][..n], right[column..].iter().step_by(k)),
            Pass::Wgrad | Pass::Accumulate => {
                let left = left[line..].iter().step_by(n);
                sums(left, right[column..].iter().step_by(k))
            }
        }
    }
}

fn sums<'a>(
    left: impl IntoIterator<Item = &'a f32>,
    right: impl IntoIterator<Item = &'a f32>,
) -> (f64, f64) {
    left.into_iter().zip(right).fold((0.0, 0.0), |(sum, squares), (&a, &b)| {
        let term = f64::from(a) * f64::from(b);
        (sum + term, squares + term * term)
    })
}
