//! Shapes of sources, their values, and the group table of tokens.

use grouped_linear::numerics::Direction;
use grouped_linear::numerics::philox::{Place, StochasticBits};
use grouped_linear::reference::quantize::Layout;
use grouped_linear_kernels::abi::mx::MxSource;
use grouped_linear_kernels::abi::quantize::padded_rows;
use grouped_linear_kernels::abi::{ElementType, GroupTable};
use half::{bf16, f16};

use super::bench::{Bench, UNTOUCHED};

/// A source.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Splits, and rows of the buffer.
    Tokens { splits: Vec<usize>, rows: usize, columns: usize },
    /// Groups, rows of each, and whether each lies by itself.
    Weights { groups: usize, rows: usize, columns: usize, discrete: bool },
}

impl Shape {
    pub fn tokens(splits: &[usize], spare: usize, columns: usize) -> Self {
        let rows = splits.iter().sum::<usize>() + spare;
        Self::Tokens { splits: splits.to_vec(), rows, columns }
    }

    pub fn weights(groups: usize, rows: usize, columns: usize) -> Self {
        Self::Weights { groups, rows, columns, discrete: groups > 1 }
    }

    pub fn columns(&self) -> usize {
        match *self {
            Self::Tokens { columns, .. } | Self::Weights { columns, .. } => columns,
        }
    }

    pub fn groups(&self) -> usize {
        match self {
            Self::Tokens { splits, .. } => splits.len(),
            Self::Weights { groups, .. } => *groups,
        }
    }

    /// Rows of the source.
    pub fn rows(&self) -> usize {
        match *self {
            Self::Tokens { rows, .. } => rows,
            Self::Weights { groups, rows, .. } => groups * rows,
        }
    }

    /// Rows that belong to groups.
    pub fn live_rows(&self) -> usize {
        match self {
            Self::Tokens { splits, .. } => splits.iter().sum(),
            Self::Weights { .. } => self.rows(),
        }
    }

    /// Rows of each group.
    pub fn group_rows(&self) -> Vec<usize> {
        match self {
            Self::Tokens { splits, .. } => splits.clone(),
            Self::Weights { groups, rows, .. } => vec![*rows; *groups],
        }
    }

    pub fn is_tokens(&self) -> bool {
        matches!(self, Self::Tokens { .. })
    }

    /// Rows of the columnwise exact copy of NVFP4.
    pub fn exact_rows(&self) -> usize {
        match self {
            Self::Tokens { splits, rows, .. } => {
                padded_rows(*rows as u64, splits.len() as u32) as usize
            }
            Self::Weights { .. } => self.rows(),
        }
    }

    pub fn layout(&self) -> Layout {
        let columns = self.columns();
        match self {
            Self::Tokens { splits, rows, .. } => {
                let mut offsets = vec![0];
                for split in splits {
                    offsets.push(offsets[offsets.len() - 1] + split);
                }
                Layout::tokens(&offsets, *rows, columns).unwrap()
            }
            Self::Weights { groups, rows, .. } => Layout::weights(*groups, *rows, columns).unwrap(),
        }
    }

    /// Where the code of a group's element is, in the order of memory.
    pub fn code(&self, direction: Direction, group: usize, row: usize, column: usize) -> usize {
        let [before, line, pitch, offset] = self.position(direction, group, row, column);
        (before + line) * pitch + offset
    }

    /// The same for random numbers.
    pub fn place(&self, direction: Direction, group: usize, row: usize, column: usize) -> Place {
        let [before, line, pitch, offset] = self.position(direction, group, row, column);
        Place::new(before, line, pitch, offset)
    }

    /// Lines before those of a group, the line of an element among them, elements of a line, and of
    /// that line those before the element.
    fn position(
        &self,
        direction: Direction,
        group: usize,
        row: usize,
        column: usize,
    ) -> [usize; 4] {
        let (columns, pitch) = (self.columns(), self.layout().transposed_pitch());
        let before = self.group_rows().into_iter().take(group);
        match direction {
            Direction::Rowwise => [before.sum(), row, columns, column],
            Direction::Columnwise if self.is_tokens() => {
                let padded = before.map(|rows| rows.next_multiple_of(128)).sum::<usize>();
                [0, column, pitch, padded + row]
            }
            Direction::Columnwise => [group * columns, column, pitch, row],
        }
    }

    /// Tiles of 128 × 128.
    pub fn tiles(&self) -> usize {
        self.group_rows().iter().map(|rows| rows.div_ceil(128) * self.columns().div_ceil(128)).sum()
    }

    /// Uploads values and the table.
    pub fn source(&self, bench: &mut Bench, values: &[f32], kind: ElementType) -> MxSource {
        let mut source = MxSource {
            groups: self.groups() as u32,
            columns: self.columns() as u32,
            ..MxSource::default()
        };
        match self {
            Self::Tokens { splits, .. } => {
                source.table = bench.upload(&table(splits, self.columns().div_ceil(128)));
                source.base = bench.upload(&bytes(values, kind));
                source.padded_rows = self.exact_rows() as u32;
            }
            Self::Weights { rows, columns, discrete, .. } => {
                source.rows = *rows as u32;
                if *discrete {
                    let parts = values.chunks(rows * columns);
                    let addresses: Vec<u64> =
                        parts.map(|part| bench.upload(&bytes(part, kind))).collect();
                    source.array = bench.upload(bytemuck::cast_slice(&addresses));
                } else {
                    source.base = bench.upload(&bytes(values, kind));
                }
            }
        }
        source
    }
}

/// The group table of valid splits.
fn table(splits: &[usize], tile_columns: usize) -> Vec<u8> {
    let layout = GroupTable::layout(splits.len() as u32);
    let mut table = vec![0u8; layout.bytes];
    let (mut row, mut padded, mut tile) = (0u64, 0u64, 0u32);
    for group in 0..=splits.len() {
        table[layout.row_offsets + 8 * group..][..8].copy_from_slice(&row.to_le_bytes());
        table[layout.padded_offsets + 8 * group..][..8].copy_from_slice(&padded.to_le_bytes());
        table[layout.tile_prefix + 4 * group..][..4].copy_from_slice(&tile.to_le_bytes());
        if let Some(&split) = splits.get(group) {
            row += split as u64;
            padded += split.next_multiple_of(128) as u64;
            tile += (split.div_ceil(128) * tile_columns) as u32;
        }
    }
    table
}

fn bytes(values: &[f32], kind: ElementType) -> Vec<u8> {
    match kind {
        ElementType::Bf16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
        ElementType::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

/// The splitmix generator.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From −1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// What a source holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Numbers around 1, with rows and columns of other magnitudes.
    Ordinary,
    /// Blocks of zeros, of subnormal numbers, with infinities, NaNs of either sign, the extremes of
    /// the exponent, and ties and their neighbours.
    Edges,
    /// Numbers of FP32 alone that have no quarter: in each band of sixteen rows the sum of the
    /// first two is a tie of BF16 or just above one, as the quarter of the second is rounded before
    /// the sum or not.
    Quarters,
    /// Numbers that are as far on their way between two of E2M1 as the bits of their element take
    /// to the further one, and their neighbours, in blocks and groups whose scales are 1.
    Ties(StochasticBits),
}

/// Values that the element type has exactly; those of no group are large or NaN.
pub fn values(shape: &Shape, kind: ElementType, contents: Contents, seed: u64) -> Vec<f32> {
    let mut rng = Rng(seed);
    let (rows, columns) = (shape.rows(), shape.columns());
    let mut values = vec![0.0; rows * columns];
    let places = shape.group_rows().into_iter().enumerate();
    let places: Vec<(usize, usize)> =
        places.flat_map(|(group, rows)| (0..rows).map(move |row| (group, row))).collect();
    for row in 0..rows {
        for column in 0..columns {
            let value = if row >= shape.live_rows() {
                if rng.next().is_multiple_of(3) { f32::NAN } else { 1e4 }
            } else {
                match contents {
                    Contents::Ordinary => {
                        let scale = (((row / 40) * 7 + (column / 48) * 5) % 9) as i32 - 4;
                        rng.unit() * 2f32.powi(scale)
                    }
                    Contents::Edges => edge(&mut rng, row / 16 * 31 + column / 16),
                    Contents::Quarters => match row % 16 {
                        0 => f32::from_bits(0x22_0004),
                        1 => f32::from_bits(2),
                        _ => 0.0,
                    },
                    Contents::Ties(bits) => {
                        let (group, row) = places[row];
                        let place = shape.place(bits.direction, group, row, column);
                        match (row, column) {
                            (0, 0) => 2688.0,
                            _ if (row + column) % 16 == 0 => 6.0,
                            _ => tie(&mut rng, bits.element(place), kind),
                        }
                    }
                }
            };
            values[row * columns + column] = round(value, kind);
        }
    }
    values
}

fn edge(rng: &mut Rng, block: usize) -> f32 {
    let pick = rng.next();
    let sign = if pick & 1 == 1 { -1.0 } else { 1.0 };
    let one_in = |n: u64| (pick >> 8).is_multiple_of(n);
    sign * match block % 13 {
        0 => 0.0,
        1 => f32::from_bits((pick >> 32) as u32 & 0x7f_ffff),
        2 if one_in(20) => f32::INFINITY,
        3 if one_in(10) => f32::NAN,
        4 => f32::NAN,
        5 => f32::MAX * rng.unit().abs(),
        6 => 1e-38 * rng.unit().abs(),
        7 => {
            let tie = [0.25_f32, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0][(pick >> 20) as usize % 8];
            [tie, tie, tie.next_down(), tie.next_up()][(pick >> 24) as usize % 4]
        }
        8 if one_in(30) => 448.0,
        8 => 449.0 * rng.unit().abs(),
        9 => 1e-30 * rng.unit().abs(),
        10 => 2f32.powi((pick >> 33) as i32 % 120 - 60),
        _ => rng.unit().abs(),
    }
}

/// A number from −6 to 6 that `random` just takes to its further neighbour, or that is next to it;
/// any other where the type has no such number.
fn tie(rng: &mut Rng, random: u16, kind: ElementType) -> f32 {
    let pick = rng.next();
    // The numbers of E2M1 and the ways between them.
    let ways = [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5), (1.5, 0.5), (2.0, 1.0), (3.0, 1.0), (4.0, 2.0)];
    let (start, step) = ways[if kind == ElementType::F32 { (pick >> 8) as usize % 7 } else { 0 }];
    let part = f32::from(u16::MAX - random) + 0.5;
    let tie: f32 = start + step * part / 65536.0;
    let magnitude = match kind {
        ElementType::F32 => [tie, tie.next_down(), tie.next_up()][(pick >> 16) as usize % 3],
        // Sixteen bits have the smallest ones alone.
        _ if round(tie, kind) == tie => tie,
        _ => 6.0 * rng.unit(),
    };
    if pick & 1 == 1 { -magnitude } else { magnitude }
}

/// The nearest number that the type has.
pub fn round(value: f32, kind: ElementType) -> f32 {
    match kind {
        ElementType::Bf16 => bf16::from_f32(value).to_f32(),
        ElementType::F16 => f16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// What the untouched memory of an element reads as.
pub fn untouched(kind: ElementType) -> f32 {
    let byte = UNTOUCHED;
    match kind {
        ElementType::Bf16 => bf16::from_le_bytes([byte; 2]).to_f32(),
        ElementType::F16 => f16::from_le_bytes([byte; 2]).to_f32(),
        _ => f32::from_le_bytes([byte; 4]),
    }
}

pub const KINDS: [(ElementType, &str); 3] =
    [(ElementType::Bf16, "bf16"), (ElementType::F16, "f16"), (ElementType::F32, "f32")];
