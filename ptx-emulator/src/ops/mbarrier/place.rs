//! Places in the shared memory of the blocks of a cluster.

use crate::execute::block::Cluster;
use crate::execute::check_alignment;
use crate::execute::report::{Fault, ReportKind};
use crate::machine::window::{self, Window};
use crate::ops::access::{self, Space};

/// A place in the shared memory of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedPlace {
    /// The rank of the block in its cluster.
    pub(crate) rank: usize,
    /// Bytes from the start of the block's shared memory.
    pub(crate) offset: u32,
}

/// What is wanted of a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// What is done there, for reports.
    pub(crate) access: &'static str,
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
}

impl SharedPlace {
    /// The address in the window of the cluster.
    pub(crate) fn address(self) -> u64 {
        self.rank as u64 * u64::from(window::BLOCK_SHARED) + u64::from(self.offset)
    }

    /// Where an address of a lane lies. Generic addresses must lie in the window of shared memory,
    /// and those of `shared::cta` in the block `own`.
    pub(crate) fn find(
        cluster: &Cluster,
        own: usize,
        space: Space,
        (lane, address): (usize, u64),
        wanted: Wanted,
    ) -> Result<Self, Fault> {
        let at_lane = |kind| Fault::at_lane(lane, kind);
        let Wanted { access: name, bytes, alignment } = wanted;
        let outside = |space, address, hint| {
            at_lane(ReportKind::OutOfBounds { access: name, space, address, bytes, hint })
        };
        let local = match space {
            Space::Generic if window::window(address) == Window::Shared => address - window::SHARED,
            Space::Generic => {
                return Err(outside("shared", address, "; it is in another window".to_owned()));
            }
            _ => address,
        };
        check_alignment(name, "shared", local, alignment).map_err(at_lane)?;
        let size = u64::from(window::BLOCK_SHARED);
        let (rank, offset) = (local / size, local % size);
        let block = usize::try_from(rank).ok().and_then(|rank| cluster.blocks.get(rank));
        let Some(block) = block else {
            return Err(outside("shared", local, access::no_block(local)));
        };
        if space == Space::Shared && rank != own as u64 {
            let hint = format!("; it belongs to block {rank} of the cluster, not to {own}");
            return Err(outside("shared::cta", local, hint));
        }
        if let Some(hint) = block.absence().filter(|_| rank != own as u64) {
            return Err(outside("shared", local, hint));
        }
        let (begin, end) = (u64::from(window::RESERVED_SHARED), block.shared.len() as u64);
        if offset < begin || offset.saturating_add(bytes) > end {
            let hint = format!("; the block has {begin:#x} to {end:#x}");
            return Err(outside("shared", local, hint));
        }
        Ok(Self { rank: rank as usize, offset: offset as u32 })
    }
}
