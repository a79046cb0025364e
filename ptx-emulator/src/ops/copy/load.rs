//! Copies into shared memory that complete on mbarriers.

use super::cancel;
use super::engine::Issuer;
use super::tensor::TensorBox;
use super::transfer::{Known, Reduction, copy_shared, note_shared_read, read_global, write_shared};
use crate::execute::Outcome;
use crate::execute::block::Cluster;
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::Fault;
use crate::ops::mbarrier::{self, SharedPlace};
use crate::race::{AsyncAccess, Proxy, Strength};
use crate::tensor_map::Swizzle;
use crate::tensor_map::swizzle::Pattern;

/// Where the bytes come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Global(u64, u32),
    Shared(SharedPlace, u32),
    Tensor(TensorBox),
    /// Registers.
    Immediate([u8; 16], u32),
    /// The response to `clusterlaunchcontrol.try_cancel`.
    Cluster,
}

impl Source {
    /// Bytes that arrive.
    pub(super) fn bytes(&self) -> u32 {
        match self {
            Self::Global(_, bytes) | Self::Shared(_, bytes) | Self::Immediate(_, bytes) => *bytes,
            Self::Tensor(own) => own.geometry.bytes(),
            Self::Cluster => cancel::BYTES,
        }
    }

    /// Bytes from the first to the last of them in shared memory.
    pub(super) fn span(&self) -> u32 {
        match self {
            Self::Tensor(own) => own.geometry.span(),
            _ => self.bytes(),
        }
    }

    /// How they are permuted in shared memory.
    fn pattern(&self) -> Pattern {
        match self {
            Self::Tensor(own) => own.geometry.pattern(),
            _ => plain(),
        }
    }
}

/// No swizzle.
pub(super) fn plain() -> Pattern {
    const PLAIN: Pattern = match Pattern::new(Swizzle::None) {
        Some(pattern) => pattern,
        None => panic!("no swizzle is a pattern"),
    };
    PLAIN
}

/// A copy into the shared memory of one block or several.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) source: Source,
    /// Offset in each destination.
    pub(super) to: u32,
    /// Ranks of the destinations, a bit each.
    pub(super) ranks: u32,
    /// Offset of the mbarrier in the block that has it.
    pub(super) barrier: u32,
    /// With `.cta_group::2`, which block of each destination's pair has the mbarrier: that of even
    /// rank (0) or of odd (1). Else each destination has one (PTX manual, "Data Movement and
    /// Conversion Instructions: cp.async.bulk.tensor").
    pub(super) parity: Option<usize>,
    pub(super) reduction: Reduction,
    pub(super) proxy: Proxy,
}

impl Load {
    /// What it is, for reports.
    pub(super) fn name(&self) -> &'static str {
        match self.source {
            Source::Tensor(_) => "tensor copy",
            Source::Immediate(..) => "asynchronous store",
            Source::Cluster => "clusterlaunchcontrol.try_cancel",
            Source::Global(..) | Source::Shared(..) => "bulk copy",
        }
    }

    /// Whether it goes to the shared memory of a block.
    pub(super) fn goes_to(&self, rank: usize) -> bool {
        self.ranks.checked_shr(rank as u32).unwrap_or(0) & 1 != 0
    }

    /// The mbarrier on which the copy to a block completes.
    pub(super) fn barrier_of(&self, rank: usize) -> SharedPlace {
        let rank = self.parity.map_or(rank, |parity| rank & !1 | parity);
        SharedPlace { rank, offset: self.barrier }
    }

    /// Whether it writes a byte of shared memory; what lies between the rows of a box counts too.
    pub(super) fn covers(&self, place: SharedPlace) -> bool {
        let offset = place.offset.checked_sub(self.to);
        self.goes_to(place.rank) && offset.is_some_and(|offset| offset < self.source.span())
    }

    pub(super) fn perform(
        self,
        issuer: &Issuer,
        cluster: &mut Cluster,
        grid: &mut GridState,
    ) -> Outcome {
        let bytes = self.source.bytes();
        let pattern = self.source.pattern();
        let mut data: Option<Vec<u8>> = None;
        for rank in lanes(self.ranks) {
            let barrier = self.barrier_of(rank);
            let known = self.known(issuer, cluster, barrier)?;
            let data = match &mut data {
                Some(data) => data,
                None => {
                    // The source is read through the same proxy, but plainly.
                    let reader = Known { strength: Strength::Weak, ..known };
                    let access = reader.access(issuer);
                    data.insert(self.read(cluster, grid, access.as_ref())?)
                }
            };
            let access = known.access(issuer);
            let place = SharedPlace { rank, offset: self.to };
            let content = (data.as_slice(), pattern);
            write_shared(cluster, grid, access.as_ref(), place, content, self.reduction)?;
            grid.statistics.copied_bytes += u64::from(bytes);
            if bytes != 0 && !issuer.origins.is_empty() {
                cluster.blocks[rank].landed.note(&known, issuer);
            }
            let lane = issuer.lanes.trailing_zeros() as usize & 31;
            let block = cluster.blocks.get_mut(barrier.rank);
            let found = block.ok_or_else(|| "its block does not exist".to_owned());
            let found = found.and_then(|block| block.mbarriers.get(barrier.offset));
            found
                .and_then(|barrier| barrier.transact(-i64::from(bytes)))
                .map_err(|problem| self.complaint(lane, barrier, &problem))?;
        }
        Ok(())
    }

    fn complaint(&self, lane: usize, barrier: SharedPlace, problem: &str) -> Fault {
        let bytes = self.source.bytes();
        let problem = format!("a copy of {bytes} bytes that completes on it: {problem}");
        mbarrier::fault(lane, barrier, &problem)
    }

    /// Under whose clock the copy becomes known: the mbarrier's, in its phase.
    fn known(
        &self,
        issuer: &Issuer,
        cluster: &mut Cluster,
        barrier: SharedPlace,
    ) -> Outcome<Known> {
        let lane = issuer.lanes.trailing_zeros() as usize & 31;
        let missing = |problem: String| self.complaint(lane, barrier, &problem);
        let block = cluster.blocks.get_mut(barrier.rank);
        let block = block.ok_or_else(|| missing("its block does not exist".to_owned()))?;
        let (agent, clock) = block.mbarriers.get(barrier.offset).map_err(missing)?.agent();
        let strength = if self.reduction.is_some() { Strength::Strong } else { Strength::Weak };
        Ok(Known { agent, lanes: u32::MAX, clock, strength, proxy: self.proxy })
    }

    fn read(
        &self,
        cluster: &mut Cluster,
        grid: &mut GridState,
        access: Option<&AsyncAccess<'_>>,
    ) -> Outcome<Vec<u8>> {
        let mut data = vec![0; self.source.bytes() as usize];
        match &self.source {
            Source::Tensor(own) => return own.read(grid, access),
            Source::Global(address, _) => read_global(grid, access, *address, &mut data)?,
            Source::Shared(place, bytes) => {
                note_shared_read(cluster, grid, access, *place, *bytes)?;
                copy_shared(cluster, *place, plain(), &mut data);
            }
            Source::Cluster => data = cancel::response(grid).to_vec(),
            Source::Immediate(value, _) => {
                for (place, byte) in data.iter_mut().zip(value) {
                    *place = *byte;
                }
            }
        }
        Ok(data)
    }
}
