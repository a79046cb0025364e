//! Rows per expert.

use super::cases::SEED;
use super::data::Generator;

/// Rows per expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowPattern {
    /// One expert, one row.
    One,
    /// One expert, one row more than a tile.
    OneExpert,
    /// The first expert has no rows.
    EmptyFirst,
    /// The middle expert has no rows.
    EmptyMiddle,
    /// The last expert has no rows.
    EmptyLast,
    /// No expert has rows.
    AllEmpty,
    /// One of four experts has all rows.
    Giant,
    /// Four experts of about equal size.
    Even,
    /// Eight experts around the edges of tiles.
    Edges,
    /// 64 experts with 0 to 40 rows.
    Many,
    /// 300 experts with 0 to 5 rows.
    VeryMany,
    /// These numbers of rows; not drawn for the table.
    Listed(&'static [usize]),
    /// So many experts with 0 to 2 rows.
    Drawn(usize),
    /// So many experts, of which one in about sixteen has rows, 1 to 3; not drawn for the table.
    Sparse(usize),
}

impl RowPattern {
    /// The splits.
    pub fn splits(self) -> Vec<usize> {
        let drawn = |groups: usize, limit: u64| {
            let mut generator = Generator::new(SEED ^ groups as u64);
            (0..groups).map(|_| (generator.next() % (limit + 1)) as usize).collect()
        };
        match self {
            Self::One => vec![1],
            Self::OneExpert => vec![129],
            Self::EmptyFirst => vec![0, 65, 64],
            Self::EmptyMiddle => vec![64, 0, 63],
            Self::EmptyLast => vec![127, 1, 0],
            Self::AllEmpty => vec![0; 4],
            Self::Giant => vec![0, 0, 513, 0],
            Self::Even => vec![256, 255, 257, 256],
            Self::Edges => vec![1, 63, 64, 65, 0, 127, 128, 129],
            Self::Many => drawn(64, 40),
            Self::VeryMany => drawn(300, 5),
            Self::Listed(splits) => splits.to_vec(),
            Self::Drawn(groups) => drawn(groups, 2),
            Self::Sparse(groups) => {
                drawn(groups, 50).into_iter().map(|rows| rows.saturating_sub(47)).collect()
            }
        }
    }
}
