//! Carries out a plan on tensors in host memory.
//!
//! Inputs are read into FP32, results are computed in memory of their own and stored last: an
//! output may be another view of the allocation that holds an input.

use rayon::prelude::*;

use super::convert::{read, read_flag, read_groups, read_splits, write, write_groups, zeros};
use super::plain::{self, Groups};
use super::{fast, low_precision};
use crate::error::{Error, Kind, Result};
use crate::plan::{
    CastOperands, DbiasOperands, DbiasProblem, DscalesOperands, DscalesProblem, Factor,
    GemmOperands, GemmProblem, GroupedOperand, KernelChoice, Operands, Pass, Plan, Problem,
};
use crate::splits::Splits;
use crate::tensor::{GroupedTensor, Tensor};

/// Output rows that one thread finishes at a time.
const EPILOGUE_ROWS: usize = 32;

/// Carries out `plan`. Splits that are wrong are returned as an error of which
/// [`Error::is_bad_splits`] is true; then nothing was written.
pub(crate) fn execute(plan: &Plan, operands: &Operands<'_>) -> Result<()> {
    match (&plan.problem, operands) {
        (Problem::Gemm(problem), Operands::Gemm(operands)) => gemm(problem, operands),
        (Problem::Dbias(problem), Operands::Dbias(operands)) => dbias(problem, operands),
        (Problem::Dscales(problem), Operands::Dscales(operands)) => dscales(problem, operands),
        (Problem::Cast(_), Operands::Cast(operands)) => cast(operands),
        (Problem::Amax(problem), Operands::Amax(operands)) => {
            low_precision::amax(problem, operands)
        }
        (Problem::Quantize(problem), Operands::Quantize(operands)) => {
            low_precision::quantize(problem, operands)
        }
        (Problem::ScaledGemm(problem), Operands::ScaledGemm(operands)) => {
            low_precision::scaled_gemm(problem, operands)
        }
        (Problem::Dequantize(problem), Operands::Dequantize(operands)) => {
            low_precision::dequantize(problem, operands)
        }
        (Problem::Swizzle(problem), Operands::Swizzle(operands)) => {
            low_precision::swizzle(problem, operands)
        }
        (Problem::Pad(problem), Operands::Pad(operands)) => low_precision::pad(problem, operands),
        (Problem::UpdateScales(_), Operands::UpdateScales(operands)) => {
            low_precision::update_scales(operands)
        }
        _ => Err(Error::invalid("the operands belong to another operation than the plan")),
    }
}

fn gemm(problem: &GemmProblem, operands: &GemmOperands<'_>) -> Result<()> {
    let offsets = row_offsets(operands.splits, problem.rows)?;
    let groups = Groups {
        row_offsets: &offsets,
        out_features: problem.out_features,
        in_features: problem.in_features,
    };
    let (n, k) = (groups.out_features, groups.in_features);
    let (live, weights) = (groups.live_rows(), groups.count() * n * k);
    let (a_len, b_rows, d_len, d_columns) = match problem.pass {
        Pass::Fprop => (live * k, 0, live * n, n),
        Pass::Dgrad => (live * n, 0, live * k, k),
        Pass::Wgrad => (live * n, live * k, weights, k),
    };
    let a = read(operands.a, a_len)?;
    let b = match operands.b {
        GroupedOperand::Rows(tensor) => read(tensor, b_rows)?,
        GroupedOperand::Groups(tensor) => {
            read_groups(tensor, |group| !groups.rows(group).is_empty())?
        }
    };
    let mut d = zeros(d_len)?;
    multiply(problem, &groups, &a, &b, &mut d)?;
    let addends = Addends {
        d: operands.d,
        alpha: operands.alpha,
        beta: operands.beta,
        bias: operands.bias,
        bias_row_scales: operands.bias_row_scales,
    };
    epilogue(problem, &addends, &groups, d_columns, &mut d)?;
    match operands.d {
        GroupedOperand::Rows(tensor) => write(tensor, &d),
        GroupedOperand::Groups(tensor) => write_groups(tensor, &d),
    }
}

/// The product alone, of operands in the order of their sources.
pub(super) fn multiply(
    problem: &GemmProblem,
    groups: &Groups<'_>,
    a: &[f32],
    b: &[f32],
    d: &mut [f32],
) -> Result<()> {
    match (problem.kernel, problem.pass) {
        // Tensor cores are refused where there are none, by the plan.
        (
            KernelChoice::Auto
            | KernelChoice::Block
            | KernelChoice::Narrow
            | KernelChoice::Pair
            | KernelChoice::Aligned,
            pass,
        ) => fast::products(pass, groups, a, b, d),
        // The choice of the readable kernel means the readable loops here.
        (KernelChoice::Simt, Pass::Fprop) => plain::fprop(groups, a, b, d),
        (KernelChoice::Simt, Pass::Dgrad) => plain::dgrad(groups, a, b, d),
        (KernelChoice::Simt, Pass::Wgrad) => plain::wgrad(groups, a, b, d),
    }
}

/// What an epilogue makes of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addends<'a> {
    /// The output, for what it held before.
    pub d: GroupedOperand<'a>,
    pub alpha: Factor<'a>,
    pub beta: Factor<'a>,
    pub bias: Option<&'a GroupedTensor>,
    pub bias_row_scales: Option<&'a Tensor>,
}

/// `D = alpha · D (+ s_row · bias) + beta · D_old`, with one rounding when it is stored.
pub(super) fn epilogue(
    problem: &GemmProblem,
    operands: &Addends<'_>,
    groups: &Groups<'_>,
    columns: usize,
    d: &mut [f32],
) -> Result<()> {
    let alpha = factors(operands.alpha, groups.count())?;
    let beta = factors(operands.beta, groups.count())?;
    let adds_nothing = operands.bias.is_none() && beta.iter().all(|&beta| beta == 0.0);
    if adds_nothing && alpha.iter().all(|&alpha| alpha == 1.0) {
        return Ok(());
    }
    let bias = operands
        .bias
        .map(|bias| read_groups(bias, |group| !groups.rows(group).is_empty()))
        .transpose()?;
    let row_scales =
        operands.bias_row_scales.map(|scales| read(scales, groups.live_rows())).transpose()?;
    let old = former_output(operands, groups, &beta, d.len())?;

    let finish = |row: usize, d: &mut [f32]| {
        // Rows of D are token rows of the group, or the rows of its dW.
        let group = match problem.pass {
            Pass::Wgrad => row / groups.out_features,
            Pass::Fprop | Pass::Dgrad => groups.of_row(row),
        };
        // A gradient that nothing is added to keeps every bit, the signs of its zeros, too.
        let is_kept = problem.pass == Pass::Wgrad && groups.rows(group).is_empty();
        if let Some(old) = old.as_ref().filter(|_| is_kept && beta[group] == 1.0) {
            d.copy_from_slice(&old[row * columns..][..columns]);
            return;
        }
        for value in d.iter_mut() {
            *value *= alpha[group];
        }
        if let Some(bias) = &bias {
            let scale = row_scales.as_ref().map_or(1.0, |scales| scales[row]);
            for (value, &bias) in d.iter_mut().zip(&bias[group * columns..][..columns]) {
                *value += scale * bias;
            }
        }
        // What the output held is not looked at when beta is 0: it may be NaN.
        if let Some(old) = old.as_ref().filter(|_| beta[group] != 0.0) {
            for (value, &old) in d.iter_mut().zip(&old[row * columns..][..columns]) {
                *value += beta[group] * old;
            }
        }
    };
    d.par_chunks_mut(EPILOGUE_ROWS * columns).enumerate().for_each(|(block, d)| {
        for (row, d) in d.chunks_mut(columns).enumerate() {
            finish(block * EPILOGUE_ROWS + row, d);
        }
    });
    Ok(())
}

/// What the output held, where some group asks for it.
fn former_output(
    operands: &Addends<'_>,
    groups: &Groups<'_>,
    beta: &[f32],
    length: usize,
) -> Result<Option<Vec<f32>>> {
    if beta.iter().all(|&beta| beta == 0.0) || groups.count() == 0 {
        return Ok(None);
    }
    Ok(Some(match operands.d {
        GroupedOperand::Rows(tensor) => read(tensor, length)?,
        GroupedOperand::Groups(tensor) => read_groups(tensor, |group| beta[group] != 0.0)?,
    }))
}

fn dbias(problem: &DbiasProblem, operands: &DbiasOperands<'_>) -> Result<()> {
    let offsets = row_offsets(operands.splits, problem.rows)?;
    let groups =
        Groups { row_offsets: &offsets, out_features: problem.out_features, in_features: 0 };
    let dy = read(operands.dy, groups.live_rows() * groups.out_features)?;
    let row_scales =
        operands.row_scales.map(|scales| read(scales, groups.live_rows())).transpose()?;
    let mut db = fast::dbias(&groups, &dy, row_scales.as_deref())?;
    if operands.accumulate {
        add_to_groups(&mut db, operands.db)?;
    }
    write_groups(operands.db, &db)
}

/// Adds what the groups hold to `values`.
pub(super) fn add_to_groups(values: &mut [f32], groups: &GroupedTensor) -> Result<()> {
    plain::add_to(values, &read_all(groups)?);
    Ok(())
}

fn dscales(problem: &DscalesProblem, operands: &DscalesOperands<'_>) -> Result<()> {
    let offsets = row_offsets(operands.splits, problem.rows)?;
    let groups =
        Groups { row_offsets: &offsets, out_features: problem.out_features, in_features: 0 };
    let dy = read(operands.dy, groups.live_rows() * groups.out_features)?;
    let bias = read_all(operands.bias)?;
    write(operands.dscales, &fast::dscales(&groups, &dy, &bias)?)
}

/// Group by group, so that the memory of one is enough.
fn cast(operands: &CastOperands<'_>) -> Result<()> {
    if operands.skip.map(read_flag).transpose()?.is_some_and(|flag| flag != 0) {
        return Ok(());
    }
    for group in 0..operands.source.groups() {
        let values = read(&operands.source.group(group)?, operands.source.group_len())?;
        write(&operands.destination.index(group)?, &values)?;
    }
    Ok(())
}

fn read_all(tensor: &GroupedTensor) -> Result<Vec<f32>> {
    read_groups(tensor, |_| true)
}

fn factors(factor: Factor<'_>, groups: usize) -> Result<Vec<f32>> {
    match factor {
        Factor::Value(value) => Ok(vec![value; groups]),
        Factor::PerGroup(tensor) => read(tensor, groups),
    }
}

/// First row of each group, then the number of live rows; checked as the set-up kernel does it.
pub(super) fn row_offsets(splits: &Splits, rows: usize) -> Result<Vec<usize>> {
    let counts = read_splits(splits)?;
    if let Some((group, &value)) = counts.iter().enumerate().find(|&(_, &count)| count < 0) {
        return Err(Kind::NegativeSplit { group: group as u32, value }.into());
    }
    let total = counts.iter().fold(0i64, |sum, &count| sum.saturating_add(count));
    if total > rows as i64 {
        return Err(Kind::TooManyRows { value: total, rows: rows as i64 }.into());
    }
    let mut offsets = Vec::with_capacity(counts.len() + 1);
    offsets.push(0);
    for count in counts {
        offsets.push(offsets[offsets.len() - 1] + count as usize);
    }
    Ok(offsets)
}
