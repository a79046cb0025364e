//! Each quantizer against loops that follow the rules element by element: which block an element is
//! in, what its block's largest magnitude is, and where the code and the scale lie.

mod float4;
mod float8;
mod limits;

use half::bf16;

use super::{Direction, Layout};
use crate::numerics::philox::Place;
use crate::numerics::scale::{Fp8ScaleRule, ScaleKind};

/// Rows of groups, rows of the buffer, and where the first group begins.
struct Tokens {
    splits: &'static [usize],
    first: usize,
    tail: usize,
}

/// Groups without rows, at the edges of blocks, and past several of them; rows before and after.
const TOKENS: [Tokens; 7] = [
    Tokens { splits: &[5], first: 0, tail: 0 },
    Tokens { splits: &[128, 256], first: 0, tail: 3 },
    Tokens { splits: &[0, 130, 0, 1, 45, 0], first: 0, tail: 20 },
    Tokens { splits: &[127, 16, 33, 129], first: 7, tail: 0 },
    Tokens { splits: &[0, 0], first: 0, tail: 9 },
    Tokens { splits: &[], first: 0, tail: 2 },
    Tokens { splits: &[], first: 0, tail: 130 },
];

/// Groups, and rows of each.
const WEIGHTS: [(usize, usize); 4] = [(1, 16), (3, 144), (2, 128), (0, 32)];

/// A source and what the rules say about its places, worked out on their own.
struct Source {
    layout: Layout,
    values: Vec<f32>,
    columns: usize,
    groups: Vec<Group>,
    /// Rows of the buffer.
    rows: usize,
    /// Padded rows for which tokens have room.
    padded_rows: usize,
    /// Rows of each group of weights.
    weights: Option<usize>,
}

#[derive(Clone, Copy)]
struct Group {
    first: usize,
    rows: usize,
    padded_first: usize,
}

impl Group {
    fn padded_rows(&self) -> usize {
        up(self.rows, 128)
    }
}

fn up(number: usize, multiple: usize) -> usize {
    number.div_ceil(multiple) * multiple
}

/// BF16 numbers of both signs and many magnitudes, with zeros among them; large ones are rare.
fn value(index: usize) -> f32 {
    let mut bits = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 29;
    bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 32;
    if bits.is_multiple_of(19) {
        return 0.0;
    }
    let exponent = (bits >> 8 & 7) as i32 - if bits.is_multiple_of(23) { -4 } else { 5 };
    let mantissa = 1.0 + (bits >> 16 & 127) as f32 / 128.0;
    let sign = if bits >> 40 & 1 == 1 { -1.0 } else { 1.0 };
    bf16::from_f32(sign * mantissa * 2f32.powi(exponent)).to_f32()
}

impl Source {
    fn tokens(tokens: &Tokens, columns: usize) -> Self {
        let mut offsets = vec![tokens.first];
        let mut groups = Vec::new();
        let mut padded_first = 0;
        for &rows in tokens.splits {
            let first = offsets[offsets.len() - 1];
            offsets.push(first + rows);
            groups.push(Group { first, rows, padded_first });
            padded_first += up(rows, 128);
        }
        let rows = offsets[offsets.len() - 1] + tokens.tail;
        let live = offsets[0]..offsets[offsets.len() - 1];
        // Rows of no group hold NaNs, which nothing may read.
        let value = |i: usize| if live.contains(&(i / columns)) { value(i) } else { f32::NAN };
        Self {
            layout: Layout::tokens(&offsets, rows, columns).unwrap(),
            values: (0..rows * columns).map(value).collect(),
            columns,
            rows,
            padded_rows: (rows + 127 * rows.min(tokens.splits.len())) / 128 * 128,
            groups,
            weights: None,
        }
    }

    fn weights((groups, rows): (usize, usize), columns: usize) -> Self {
        let group = |g| Group { first: g * rows, rows, padded_first: g * up(rows, 128) };
        Self {
            layout: Layout::weights(groups, rows, columns).unwrap(),
            values: (0..groups * rows * columns).map(value).collect(),
            columns,
            rows: groups * rows,
            padded_rows: groups * up(rows, 128),
            groups: (0..groups).map(group).collect(),
            weights: Some(rows),
        }
    }

    fn all(columns: &[usize]) -> Vec<Self> {
        let tokens = TOKENS.iter().flat_map(|t| columns.iter().map(|&k| Self::tokens(t, k)));
        let weights =
            WEIGHTS.iter().flat_map(|&w| columns.iter().map(move |&k| Self::weights(w, k)));
        tokens.chain(weights).collect()
    }

    fn at(&self, group: &Group, row: usize, column: usize) -> f32 {
        self.values[(group.first + row) * self.columns + column]
    }

    /// The largest magnitude of the block of an element; blocks have `rows` × `columns` elements.
    fn block_amax(
        &self,
        group: &Group,
        at: (usize, usize),
        (rows, columns): (usize, usize),
    ) -> f32 {
        let (first_row, first_column) = (at.0 / rows * rows, at.1 / columns * columns);
        let mut amax = 0f32;
        for row in first_row..(first_row + rows).min(group.rows) {
            for column in first_column..(first_column + columns).min(self.columns) {
                amax = amax.max(self.at(group, row, column).abs());
            }
        }
        amax
    }

    /// Elements of a transposed copy.
    fn transposed_len(&self) -> usize {
        match self.weights {
            None => self.columns * self.padded_rows,
            Some(_) => self.rows * self.columns,
        }
    }

    /// Where an element lies in a transposed copy; so does padding, whose rows are past the last.
    fn transposed(&self, index: usize, row: usize, column: usize) -> usize {
        match self.weights {
            None => column * self.padded_rows + self.groups[index].padded_first + row,
            Some(rows) => (index * self.columns + column) * rows + row,
        }
    }

    /// The same for random numbers.
    fn transposed_place(&self, index: usize, row: usize, column: usize) -> Place {
        match self.weights {
            None => {
                let row = self.groups[index].padded_first + row;
                Place::new(0, column, self.padded_rows, row)
            }
            Some(rows) => Place::new(index * self.columns, column, rows, row),
        }
    }

    /// The length of a group's part of a line of a transposed copy.
    fn line_length(&self, group: &Group) -> usize {
        self.weights.unwrap_or(group.padded_rows())
    }

    /// All elements: index of the group, row and column.
    fn elements(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let of_group = |(index, group): (usize, &Group)| {
            let columns = self.columns;
            (0..group.rows)
                .flat_map(move |row| (0..columns).map(move |column| (index, row, column)))
        };
        self.groups.iter().enumerate().flat_map(of_group)
    }
}

fn power_of_two_rule(max: f32) -> Fp8ScaleRule {
    Fp8ScaleRule::new(max, ScaleKind::PowerOfTwo)
}

fn directions() -> [Direction; 2] {
    [Direction::Rowwise, Direction::Columnwise]
}

/// An array that must come out as `want` says; `None` is what nobody may write.
#[track_caller]
fn assert_written<T: PartialEq + Copy + std::fmt::Debug>(
    what: &str,
    got: &[T],
    want: &[Option<T>],
    untouched: T,
) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(*got, want.unwrap_or(untouched), "{what}, element {index}");
    }
}
