//! Which lanes and columns of tensor memory D and A occupy (PTX ISA 9.7.16.10.5).
//!
//! A in tensor memory has its rows in the lanes of D. Where those lanes divide the columns of D,
//! each part needs a copy of A: libraries make copies for 128 rows of two blocks, and that `.ws`
//! needs them too is inferred from its layouts.

use super::form::Group;

/// How the rows and columns of a block's part of D are spread over lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// 128 rows, row r in lane r (layouts A and D).
    Full,
    /// 64 rows, row r in lane r for the left half of the columns and in lane 64 + r for the right
    /// one (layouts B and E).
    Halves,
    /// 64 rows, sixteen in each quarter of the lanes, from lane 0 or 16 of the quarter on
    /// (layout F).
    Spread {
        /// 0 or 16.
        lane: u32,
    },
    /// 32 rows, row r in lane r for the first quarter of the columns, in lane 32 + r for the second
    /// one and so on (layout G).
    Quarters,
}

/// Eight neighbouring lanes and what they hold in every column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// The first lane.
    pub(super) lane: u32,
    /// The row of the block that is in that lane.
    pub(super) row: u32,
    /// The column of D that is in the first column of the layout.
    pub(super) first: u32,
}

impl Layout {
    /// The layout for an M of both blocks together that exists; `lane` is that of D's address.
    pub(super) fn new(m: u32, group: Group, weight_stationary: bool, lane: u32) -> Self {
        match (m, group, weight_stationary) {
            (32, ..) => Self::Quarters,
            (64, _, false) => Self::Spread { lane },
            (64, ..) | (128, Group::Two, _) => Self::Halves,
            _ => Self::Full,
        }
    }

    /// Whether D's address may have this lane.
    pub(super) fn begins_at(self, lane: u32) -> bool {
        lane == 0 || lane == 16 && matches!(self, Self::Spread { .. })
    }

    /// Rows of one block.
    pub(super) fn rows(self) -> u32 {
        match self {
            Self::Full => 128,
            Self::Halves | Self::Spread { .. } => 64,
            Self::Quarters => 32,
        }
    }

    /// Into how many parts the columns are divided.
    pub(super) fn parts(self) -> u32 {
        match self {
            Self::Full | Self::Spread { .. } => 1,
            Self::Halves => 2,
            Self::Quarters => 4,
        }
    }

    /// All units of a block for a D of n columns.
    pub(super) fn units(self, n: u32) -> impl Iterator<Item = Unit> + Clone {
        let (rows, parts) = (self.rows(), self.parts());
        (0..rows * parts).step_by(8).map(move |index| {
            let (row, part) = (index % rows, index / rows);
            let lane = match self {
                Self::Spread { lane } => row % 16 + row / 16 * 32 + lane,
                _ => index,
            };
            Unit { lane, row, first: part * (n / parts) }
        })
    }

    /// The lanes of all units.
    pub(super) fn lanes(self) -> u128 {
        self.units(8).fold(0, |lanes, unit| lanes | 0xFF << unit.lane)
    }
}
