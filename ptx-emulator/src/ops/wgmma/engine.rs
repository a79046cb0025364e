//! What the tensor cores do: perform the products of each warpgroup in the order of their issue.

use super::SourceA;
use super::queue::{Issue, Operands, Product, Queue, WARPS};
use crate::execute::Outcome;
use crate::execute::block::{Block, Cluster};
use crate::execute::grid::{EngineFault, GridState};
use crate::execute::registers::Registers;
use crate::execute::report::{Fault, ReportKind};
use crate::matrix::wgmma::{Scale, Source, Wgmma};
use crate::matrix::{MatrixError, Row};
use crate::ops::access::race_fault;
use crate::ops::mbarrier::SharedPlace;
use crate::race::{Agent, AsyncAccess, Proxy, Role, Strength};

/// The tensor cores of a block.
#[derive(Debug, Default)]
pub(crate) struct BlockState {
    queues: Vec<Queue>,
    /// When the next product is due.
    next: Option<u64>,
    /// Accumulators while they are computed, kept to be used again.
    rows: Vec<Row>,
    chunks: Vec<u32>,
}

impl BlockState {
    /// A warp issues its next product, which is performed at `due` if it is the last of the four.
    pub(super) fn issue(
        &mut self,
        warp: usize,
        operands: Operands,
        issue: Issue,
        due: u64,
    ) -> Outcome {
        let group = warp / WARPS;
        if self.queues.len() <= group {
            self.queues.resize_with(group + 1, Queue::default);
        }
        self.queues[group].issue(warp % WARPS, operands, issue, due)?;
        self.update_next();
        Ok(())
    }

    fn update_next(&mut self) {
        self.next = self.queues.iter().filter_map(Queue::next_due).min();
    }
}

/// Whether a product is due.
#[inline]
pub(crate) fn has_due(cluster: &Cluster, now: u64) -> bool {
    cluster.blocks.iter().any(|block| block.matrix.next.is_some_and(|next| next <= now))
}

/// When the next product is due.
pub(crate) fn next_due(cluster: &Cluster) -> Option<u64> {
    cluster.blocks.iter().filter_map(|block| block.matrix.next).min()
}

/// Performs all products that are due, while no warp of the cluster runs. Returns whether there
/// were any.
pub(crate) fn perform_due(
    cluster: &mut Cluster,
    grid: &mut GridState,
) -> Result<bool, EngineFault> {
    let mut performed = false;
    for block in &mut cluster.blocks {
        if block.matrix.next.is_none_or(|next| next > grid.now) {
            continue;
        }
        for group in 0..block.matrix.queues.len() {
            while let Some(product) = block.matrix.queues[group].take_due(grid.now) {
                perform(block, group * WARPS, &product, grid)?;
                performed = true;
                grid.progress += 1;
            }
        }
        block.matrix.update_next();
    }
    Ok(performed)
}

fn perform(
    block: &mut Block,
    first: usize,
    product: &Product,
    grid: &mut GridState,
) -> Result<(), EngineFault> {
    let mut rows = std::mem::take(&mut block.matrix.rows);
    let mut chunks = std::mem::take(&mut block.matrix.chunks);
    let result = multiply(block, first, product, grid, &mut rows)
        .and_then(|()| note_reads(block, product, grid, &mut chunks))
        .and_then(|()| write_back(block, first, product, &rows));
    block.matrix.rows = rows;
    block.matrix.chunks = chunks;
    result.map_err(|(warp, fault)| EngineFault {
        // A warp issues it as a whole.
        fault: Fault { lane: None, ..fault },
        line: product.issues[warp].as_ref().map_or(0, |issue| issue.line),
        block: block.index,
        warp: (first + warp) as u32,
        lanes: u32::MAX,
    })
}

/// A fault and the warp of the warpgroup it concerns.
type Result4<T = ()> = Result<T, (usize, Fault)>;

fn matrix_fault(product: &Product, wgmma: &Wgmma, error: &MatrixError) -> (usize, Fault) {
    let MatrixError::OutsideShared { offset, length } = error else {
        return (0, Fault::operand(error.to_string()));
    };
    let Operands { a, b, .. } = product.operands;
    let mut chunks = Vec::new();
    let is_b = wgmma.footprint_b(b, &mut chunks).is_ok() && chunks.contains(offset);
    let (name, descriptor) = match a {
        Some(a) if !is_b => ("A", a),
        _ => ("B", b),
    };
    let kind = ReportKind::OutOfBounds {
        access: "wgmma read",
        space: "shared",
        address: u64::from(*offset),
        bytes: 16,
        hint: format!(
            "; the descriptor of {name}, {descriptor:#018x}, leads there, and the block has up to \
             {length:#x}"
        ),
    };
    (0, kind.into())
}

/// The four warps' parts of a product.
fn issues(product: &Product) -> impl Iterator<Item = (usize, &Issue)> {
    product.issues.iter().enumerate().filter_map(|(warp, issue)| Some((warp, issue.as_ref()?)))
}

fn registers<'b>(
    block: &'b mut Block,
    first: usize,
    (warp, issue): (usize, &Issue),
) -> Result4<&'b mut Registers> {
    let slot = block.warps.get_mut(first + warp).and_then(Option::as_mut);
    let frame = slot.and_then(|own| own.frames.get_mut(issue.frame)?.as_mut());
    let missing = || (warp, Fault::synchronisation("a warp left while its wgmma was running"));
    frame.map(|own| &mut own.registers).ok_or_else(missing)
}

/// Computes the accumulators of all four warps.
fn multiply(
    block: &mut Block,
    first: usize,
    product: &Product,
    grid: &mut GridState,
    rows: &mut Vec<Row>,
) -> Result4 {
    let Some((_, issue)) = issues(product).next() else { return Ok(()) };
    let wgmma = issue.multiply.wgmma;
    let count = wgmma.accumulator_registers();
    rows.resize(WARPS * count, [0; 32]);
    let mut fragments = [[[0; 32]; 4]; WARPS];
    for (warp, issue) in issues(product) {
        let registers = registers(block, first, (warp, issue))?;
        if product.operands.scale == Scale::Accumulate {
            let own = &mut rows[warp * count..(warp + 1) * count];
            for (to, row) in own.iter_mut().zip(&issue.multiply.accumulators) {
                *to = *registers.word_row(*row);
            }
        }
        if let SourceA::Registers(own) = issue.multiply.a {
            fragments[warp] = own.map(|row| *registers.word_row(row));
        }
    }
    let a = match product.operands.a {
        Some(descriptor) => Source::Shared(descriptor),
        None => Source::Registers(&fragments),
    };
    let (b, scale) = (product.operands.b, product.operands.scale);
    wgmma
        .execute(a, b, scale, &block.shared, rows, grid.fp8_accumulation)
        .map_err(|error| matrix_fault(product, &wgmma, &error))?;
    let (m, n, k) = wgmma.form().shape;
    grid.statistics.multiply_adds += u64::from(m) * u64::from(n) * u64::from(k);
    Ok(())
}

/// Records what the four warps have read of shared memory: each its rows of A and all of B.
fn note_reads(
    block: &mut Block,
    product: &Product,
    grid: &mut GridState,
    chunks: &mut Vec<u32>,
) -> Result4 {
    let Some((_, issue)) = issues(product).next() else { return Ok(()) };
    if issue.origin.is_none() {
        return Ok(());
    }
    let wgmma = issue.multiply.wgmma;
    let base = SharedPlace { rank: block.rank as usize, offset: 0 }.address();
    let failed = |error| matrix_fault(product, &wgmma, &error);
    chunks.clear();
    wgmma.footprint_b(product.operands.b, chunks).map_err(failed)?;
    let b = ranges(chunks);
    for (warp, issue) in issues(product) {
        let Some(origin) = &issue.origin else { continue };
        let access = AsyncAccess {
            origin,
            agent: Agent::warp(issue.warp, Role::Wgmma),
            lanes: u32::MAX,
            clock: issue.clock,
            strength: Strength::Weak,
            proxy: Proxy::Async,
            site: issue.line,
        };
        chunks.clear();
        if let Some(descriptor) = product.operands.a {
            wgmma.footprint_a(descriptor, warp as u32, chunks).map_err(failed)?;
        }
        let all = ranges(chunks).into_iter().chain(b.iter().copied());
        grid.races
            .async_read_all(&mut block.shadow, &access, all)
            .map_err(|report| (warp, race_fault(&grid.races, &report, "shared", base)))?;
    }
    Ok(())
}

/// Start and length of the runs that chunks of 16 bytes make.
fn ranges(chunks: &mut [u32]) -> Vec<(u64, u64)> {
    chunks.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for chunk in chunks {
        let start = u64::from(*chunk);
        match ranges.last_mut() {
            Some((first, length)) if start < *first + *length => {
                *length = (start + 16 - *first).max(*length);
            }
            Some((first, length)) if start == *first + *length => *length += 16,
            _ => ranges.push((start, 16)),
        }
    }
    ranges
}

fn write_back(block: &mut Block, first: usize, product: &Product, rows: &[Row]) -> Result4 {
    for (warp, issue) in issues(product) {
        let count = issue.multiply.accumulators.len();
        let registers = registers(block, first, (warp, issue))?;
        let own = rows.iter().skip(warp * count);
        for (row, values) in issue.multiply.accumulators.iter().zip(own) {
            *registers.word_row_mut(*row) = *values;
        }
        if let Some(warp) = block.warps.get_mut(first + warp).and_then(Option::as_mut) {
            warp.matrix.note_performed();
        }
    }
    Ok(())
}
