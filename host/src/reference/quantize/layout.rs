//! Where the rows of groups lie in the source and in the copies.

use grouped_linear_kernels::abi::quantize::{ROW_BLOCK, padded_rows};

use super::Direction;
use crate::error::{Error, Result};
use crate::plan::MAX_GROUPS;

/// Rows to which the groups of tokens are padded.
pub(super) const PADDING: usize = ROW_BLOCK as usize;

/// How the values of a source are divided into groups.
///
/// ```
/// use grouped_linear::numerics::Direction;
/// use grouped_linear::reference::quantize::Layout;
/// let tokens = Layout::tokens(&[0, 100, 130], 200, 64)?; // 100 and 30 rows of 200
/// assert_eq!(tokens.data_len(Direction::Rowwise), 200 * 64);
/// // Transposed, the lines have room for any two groups whose rows add up to 200.
/// assert_eq!(tokens.transposed_pitch(), 384);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    kind: Kind,
    columns: usize,
    groups: Vec<GroupRows>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Groups share the lines of transposed copies.
    Tokens { rows: usize, padded_rows: usize },
    /// Every group has lines of its own.
    Weights { rows: usize },
}

/// The rows of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupRows {
    /// The first row in the source.
    pub first: usize,
    /// Number of rows.
    pub rows: usize,
    /// The first row where every group before is padded to [`PADDING`].
    pub padded_first: usize,
    /// The first element on the lines of a transposed copy.
    pub line_first: usize,
    /// Elements on those lines that belong to the group; those at and beyond `rows` are zeros.
    pub line_length: usize,
}

impl GroupRows {
    /// Number of rows, padded.
    pub(super) fn padded_rows(&self) -> usize {
        self.rows.next_multiple_of(PADDING)
    }
}

impl Layout {
    /// Tokens `[rows, columns]`: group `g` owns rows `row_offsets[g]..row_offsets[g + 1]`.
    ///
    /// # Errors
    /// Offsets that do not ascend, or end beyond `rows`; sizes beyond memory.
    pub fn tokens(row_offsets: &[usize], rows: usize, columns: usize) -> Result<Self> {
        let ascending = row_offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let (Some(&live_rows), true) = (row_offsets.last(), ascending) else {
            return Err(Error::invalid("row_offsets: groups + 1 ascending numbers are needed"));
        };
        if live_rows > rows {
            return Err(Error::invalid(format!(
                "row_offsets: the groups end at row {live_rows}, but the source has {rows} rows"
            )));
        }
        let count = row_offsets.len() - 1;
        let most_padded = count.checked_mul(PADDING).and_then(|pad| pad.checked_add(rows));
        check_size(most_padded.and_then(|padded| padded.checked_add(PADDING)), columns)?;
        let groups = u32::try_from(count).map_err(|_| too_large())?;
        let padded_rows = padded_rows(rows as u64, groups) as usize;
        let mut padded_first = 0;
        let groups = row_offsets.windows(2).map(|pair| {
            let mut group = GroupRows {
                first: pair[0],
                rows: pair[1] - pair[0],
                padded_first,
                line_first: padded_first,
                line_length: 0,
            };
            group.line_length = group.padded_rows();
            padded_first += group.line_length;
            group
        });
        let groups = groups.collect();
        Ok(Self { kind: Kind::Tokens { rows, padded_rows }, columns, groups })
    }

    /// Weights `[groups, rows, columns]`.
    ///
    /// # Errors
    /// More groups than [`MAX_GROUPS`]; sizes beyond memory.
    pub fn weights(groups: usize, rows: usize, columns: usize) -> Result<Self> {
        let padded = rows.checked_next_multiple_of(PADDING).ok_or_else(too_large)?;
        check_size(padded.checked_mul(groups), columns)?;
        if groups > MAX_GROUPS {
            return Err(Error::invalid(format!(
                "{groups} groups of weights were asked for, at most {MAX_GROUPS} are possible"
            )));
        }
        let group = |group| GroupRows {
            first: group * rows,
            rows,
            padded_first: group * padded,
            line_first: 0,
            line_length: rows,
        };
        let groups = (0..groups).map(group).collect();
        Ok(Self { kind: Kind::Weights { rows }, columns, groups })
    }

    /// Elements of the source and of a copy that is not transposed.
    pub fn source_len(&self) -> usize {
        self.rows() * self.columns
    }

    /// Elements of the data of an FP8 or FP4 copy whose columnwise form is transposed; FP4 has half
    /// as many bytes.
    pub fn data_len(&self, direction: Direction) -> usize {
        match direction {
            Direction::Rowwise => self.source_len(),
            Direction::Columnwise => {
                let parts = self.rows_of_every_group().map_or(1, |_| self.groups.len());
                self.columns * self.transposed_pitch() * parts
            }
        }
    }

    /// Elements of a line of a transposed copy: from one column of the source to the next.
    pub fn transposed_pitch(&self) -> usize {
        match self.kind {
            Kind::Tokens { padded_rows, .. } => padded_rows,
            Kind::Weights { rows } => rows,
        }
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The rows of the source that belong to each group.
    pub(crate) fn group_rows(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.groups.iter().map(|group| group.first..group.first + group.rows)
    }

    /// Rows of the source, whether a group has them or not.
    pub(super) fn rows(&self) -> usize {
        match self.kind {
            Kind::Tokens { rows, .. } => rows,
            Kind::Weights { rows } => rows * self.groups.len(),
        }
    }

    /// Rows of all groups, padded: of tokens, of any groups with as many rows in all.
    pub(super) fn padded_rows(&self) -> usize {
        match self.kind {
            Kind::Tokens { padded_rows, .. } => padded_rows,
            Kind::Weights { rows } => rows.next_multiple_of(PADDING) * self.groups.len(),
        }
    }

    /// Columns of the source.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Whether every group has scales, and transposed lines, of its own; then its number of rows.
    pub(super) fn rows_of_every_group(&self) -> Option<usize> {
        match self.kind {
            Kind::Tokens { .. } => None,
            Kind::Weights { rows } => Some(rows),
        }
    }

    /// All groups.
    pub(super) fn groups(&self) -> &[GroupRows] {
        &self.groups
    }

    /// Rows that belong to groups; those of tokens may begin after the first row of the source.
    pub(super) fn live_rows(&self) -> std::ops::Range<usize> {
        let first = self.groups.first().map_or(0, |group| group.first);
        first..self.groups.last().map_or(0, |group| group.first + group.rows)
    }

    /// The group of a live row.
    pub(super) fn group_of_row(&self, row: usize) -> usize {
        self.groups.partition_point(|group| group.first <= row) - 1
    }

    /// The groups that share the lines of a transposed copy, part by part.
    pub(super) fn parts(&self) -> impl ExactSizeIterator<Item = &[GroupRows]> {
        let groups_of_part = match self.kind {
            Kind::Tokens { .. } => self.groups.len(),
            Kind::Weights { .. } => 1,
        };
        self.groups.chunks(groups_of_part.max(1))
    }

    /// The same places for a source whose groups have their rows rounded up to a multiple of
    /// `multiple`, which divides [`PADDING`], one group after the other.
    pub(super) fn with_rows_rounded_up(&self, multiple: usize) -> Self {
        let mut layout = self.clone();
        let mut first = 0;
        for group in &mut layout.groups {
            group.rows = group.rows.next_multiple_of(multiple);
            group.first = first;
            first += group.rows;
        }
        layout.kind = match self.kind {
            Kind::Tokens { padded_rows, .. } => Kind::Tokens { rows: first, padded_rows },
            Kind::Weights { rows } => Kind::Weights { rows: rows.next_multiple_of(multiple) },
        };
        layout
    }
}

/// The largest array has padded rows and padded columns.
fn check_size(padded_rows: Option<usize>, columns: usize) -> Result<()> {
    let padded_columns = columns.checked_next_multiple_of(PADDING);
    let elements = padded_rows.zip(padded_columns).and_then(|(r, c)| r.checked_mul(c.max(1)));
    match elements {
        Some(elements) if elements <= isize::MAX as usize => Ok(()),
        _ => Err(too_large()),
    }
}

fn too_large() -> Error {
    Error::invalid("the source to quantize: its size is beyond any memory; check rows and columns")
}
