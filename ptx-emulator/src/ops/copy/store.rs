//! Copies from shared into global memory, which complete in bulk groups.

use super::engine::Issuer;
use super::load::plain;
use super::tensor::TensorBox;
use super::transfer::{Known, Reduction, copy_shared, note_shared_read, write_global};
use crate::execute::Outcome;
use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::ops::mbarrier::SharedPlace;
use crate::race::{Agent, AsyncAccess, Proxy, Role, Strength};
use crate::tensor_map::geometry::Run;
use crate::tensor_map::swizzle::Pattern;

/// Where the bytes go.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Global(u64, u32),
    Tensor(TensorBox),
}

impl Target {
    /// Bytes in shared memory.
    pub(super) fn bytes(&self) -> u32 {
        match self {
            Self::Global(_, bytes) => *bytes,
            Self::Tensor(own) => own.geometry.bytes(),
        }
    }

    /// Bytes from the first to the last of them in shared memory.
    pub(super) fn span(&self) -> u32 {
        match self {
            Self::Global(_, bytes) => *bytes,
            Self::Tensor(own) => own.geometry.span(),
        }
    }

    fn pattern(&self) -> Pattern {
        match self {
            Self::Global(..) => plain(),
            Self::Tensor(own) => own.geometry.pattern(),
        }
    }
}

/// A copy into global memory: it reads at one moment and writes at a later one.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) from: SharedPlace,
    pub(super) to: Target,
    pub(super) reduction: Reduction,
    /// The clock of its bulk group.
    pub(super) clock: u32,
    /// What has been read.
    pub(super) data: Option<Vec<u8>>,
}

impl Store {
    pub(super) fn is_reading(&self) -> bool {
        self.data.is_none()
    }

    /// Reads or writes. Returns itself if writing is left to be done.
    pub(super) fn perform(
        mut self,
        issuer: &Issuer,
        cluster: &mut Cluster,
        grid: &mut GridState,
    ) -> Outcome<Option<Self>> {
        let Some(data) = self.data.take() else {
            let access = self.known(issuer, Role::BulkRead, Strength::Weak).access(issuer);
            self.note_reads(cluster, grid, access.as_ref())?;
            let mut data = vec![0; self.to.bytes() as usize];
            copy_shared(cluster, self.from, self.to.pattern(), &mut data);
            self.data = Some(data);
            return Ok(Some(self));
        };
        let reduces = self.reduction.is_some();
        let strength = if reduces { Strength::Strong } else { Strength::Weak };
        let access = self.known(issuer, Role::BulkWrite, strength).access(issuer);
        grid.statistics.copied_bytes += u64::from(self.to.bytes());
        match &self.to {
            Target::Global(address, _) => {
                write_global(grid, access.as_ref(), *address, &data, self.reduction)?;
            }
            Target::Tensor(own) => own.write(grid, access.as_ref(), &data, self.reduction)?,
        }
        Ok(None)
    }

    fn known(&self, issuer: &Issuer, role: Role, strength: Strength) -> Known {
        let agent = Agent::warp(issuer.warp, role);
        let (lanes, clock) = (issuer.lanes, self.clock);
        Known { agent, lanes, clock, strength, proxy: Proxy::Async }
    }

    /// Records what is read. What lies outside of the tensor goes nowhere and may hold anything.
    fn note_reads(
        &self,
        cluster: &mut Cluster,
        grid: &mut GridState,
        access: Option<&AsyncAccess<'_>>,
    ) -> Outcome {
        let Target::Tensor(own) = &self.to else {
            return note_shared_read(cluster, grid, access, self.from, self.to.bytes());
        };
        let stretches = own.stretches()?;
        let pattern = own.geometry.pattern();
        if pattern.is_dense() && stretches.iter().all(|(_, _, global)| global.is_some()) {
            return note_shared_read(cluster, grid, access, self.from, self.to.bytes());
        }
        for (offset, length, global) in stretches {
            if global.is_none() {
                continue;
            }
            let run = Run { offset: offset as u32, bytes: length as u32, global };
            for piece in run.pieces(self.from.offset, pattern) {
                let place = SharedPlace { offset: piece.shared, ..self.from };
                note_shared_read(cluster, grid, access, place, piece.bytes)?;
            }
        }
        Ok(())
    }
}
