//! The products of a warpgroup from their issue to their turn.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Multiply;
use crate::execute::Outcome;
use crate::execute::report::Fault;
use crate::matrix::wgmma::Scale;
use crate::race::{AsyncOrigin, WarpId};

/// Warps of a warpgroup.
pub(super) const WARPS: usize = 4;

/// What all warps of a warpgroup must give alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operands {
    /// The descriptor of A, unless A is in registers.
    pub(super) a: Option<u64>,
    pub(super) b: u64,
    pub(super) scale: Scale,
}

/// What one warp issued.
#[derive(Debug)]
pub(super) struct Issue {
    pub(super) multiply: Arc<Multiply>,
    /// The invocation whose registers are meant.
    pub(super) frame: usize,
    pub(super) line: u32,
    pub(super) warp: WarpId,
    /// Absent if accesses are not checked.
    pub(super) origin: Option<AsyncOrigin>,
    /// The clock at which its reads are known to have ended.
    pub(super) clock: u32,
}

/// A product some warps of a warpgroup have issued.
#[derive(Debug)]
pub(super) struct Product {
    pub(super) operands: Operands,
    pub(super) issues: [Option<Issue>; WARPS],
    /// When it is performed; known once all warps have issued it.
    due: Option<u64>,
}

/// The products of a warpgroup that have not been performed.
#[derive(Debug, Default)]
pub(super) struct Queue {
    products: VecDeque<Product>,
    /// How many have been performed.
    performed: u64,
    /// How many each warp has issued.
    issued: [u64; WARPS],
}

impl Queue {
    /// Warp `warp` of the warpgroup issues its next product, which is performed at `due` if it is
    /// the last of the four, but not before the product in front of it.
    pub(super) fn issue(
        &mut self,
        warp: usize,
        operands: Operands,
        issue: Issue,
        due: u64,
    ) -> Outcome {
        let index = self.issued[warp].saturating_sub(self.performed) as usize;
        if index >= self.products.len() {
            let product = Product { operands, issues: Default::default(), due: None };
            self.products.push_back(product);
        }
        let earliest = index.checked_sub(1).and_then(|last| self.products.get(last)?.due);
        let Some(product) = self.products.get_mut(index) else { return Ok(()) };
        if let Some(other) = product.issues.iter().flatten().next() {
            compare(&product.operands, other, &operands, &issue)?;
        }
        product.issues[warp] = Some(issue);
        self.issued[warp] += 1;
        if product.issues.iter().all(Option::is_some) {
            product.due = Some(due.max(earliest.unwrap_or(0)));
        }
        Ok(())
    }

    /// When the first product is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.products.front()?.due
    }

    /// Takes out the first product if it is due.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Product> {
        let due = self.products.front()?.due?;
        if due > now {
            return None;
        }
        self.performed += 1;
        self.products.pop_front()
    }
}

/// All warps must issue the same product.
fn compare(operands: &Operands, issue: &Issue, other: &Operands, second: &Issue) -> Outcome {
    let what = if issue.multiply.wgmma != second.multiply.wgmma {
        "another form of the instruction".to_owned()
    } else if operands.scale != other.scale {
        "another scale-d".to_owned()
    } else if operands.a != other.a {
        let [a, b] = [operands.a, other.a].map(Option::unwrap_or_default);
        format!("another descriptor of A, {b:#018x} and not {a:#018x}")
    } else if operands.b != other.b {
        format!("another descriptor of B, {:#018x} and not {:#018x}", other.b, operands.b)
    } else {
        return Ok(());
    };
    let line = issue.line;
    let text = format!("the warps of a warpgroup issue different products: {what} in line {line}");
    Err(Fault::synchronisation(text))
}
