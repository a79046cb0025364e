//! Who used which columns last: they are given back when everybody is known to be done with them.

use std::ops::Range;

use super::memory::SMALLEST;
use crate::race::Moment;

/// The pieces of tensor memory that some columns lie in, a bit for each; a piece is the smallest
/// allocation.
pub(super) fn pieces(columns: &Range<u32>) -> u16 {
    (0..u16::BITS)
        .filter(|_| !columns.is_empty())
        .filter(|piece| piece * SMALLEST < columns.end && columns.start < (piece + 1) * SMALLEST)
        .fold(0, |all, piece| all | 1 << piece)
}

/// A warp has waited for its loads or stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastUse {
    /// What they used.
    pub(super) pieces: u16,
    pub(super) warp: u32,
    pub(super) moment: Moment,
    /// The line of the wait.
    pub(super) line: u32,
}

/// The last waits of a block's warps, no piece twice of a warp.
#[derive(Debug, Default)]
pub(super) struct Uses(Vec<LastUse>);

impl Uses {
    /// A wait that comes after all others of its warp.
    pub(super) fn note(&mut self, own: LastUse) {
        if own.pieces == 0 {
            return;
        }
        self.remove(own.pieces, |other| other.warp == own.warp);
        self.0.push(own);
    }

    /// The last uses of some pieces.
    pub(super) fn of(&self, pieces: u16) -> impl Iterator<Item = &LastUse> {
        self.0.iter().filter(move |own| own.pieces & pieces != 0)
    }

    /// Pieces are free.
    pub(super) fn forget(&mut self, pieces: u16) {
        self.remove(pieces, |_| true);
    }

    fn remove(&mut self, pieces: u16, concerns: impl Fn(&LastUse) -> bool) {
        self.0.retain_mut(|own| {
            if concerns(own) {
                own.pieces &= !pieces;
            }
            own.pieces != 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn columns_lie_in_pieces() {
        for (columns, wanted) in [
            (0..1, 1),
            (31..33, 0b11),
            (32..64, 0b10),
            (0..512, 0xFFFF),
            (511..512, 0x8000),
            (5..5, 0),
        ] {
            assert_eq!(pieces(&columns), wanted, "{columns:?}");
        }
    }
}
