//! `pointer_setup`, launched without the library: what it writes for operands that are padded and
//! scaled, and in which order groups come, word for word.

use std::cmp::Reverse;

use bytemuck::{bytes_of, cast_slice};
use grouped_linear_kernels::abi::{GroupTable, Operand, Ragged, Scalars, SetupArgs, Status};
use grouped_linear_kernels::variants::{Role, kernel};
use ptx_emulator::LaunchConfig;

use crate::machines::loaded;

/// Rows of the groups, again and again: short of a multiple, none, one, and two multiples exactly.
const SPLITS: [i32; 5] = [5, 0, 1, 130, 96];
/// What groups are padded to.
const ALIGN: u64 = 48;
/// Output rows and columns of every group.
const M: u32 = 136;
const N: u32 = 24;
/// Tiles of it, of 128 × 16.
const TILES: u32 = 4;
/// Elements of a row of either operand.
const WIDTHS: [u64; 2] = [136, 24];
/// Where operands lie; nobody reads them.
const PLACES: [u64; 3] = [0x1_0000, 0x20_0000, 0x300_0000];
/// Factors of the product, and of both operands. All products of them are rounded.
const ALPHA: [f32; 5] = [0.3, -1.7, 2.9, 0.1, 7.3];
/// Factors of the former output: one group without rows stays as it was.
const BETA: [f32; 5] = [0.5, 1.0, 1.0, 0.0, 1.0];
const SCALES: [[f32; 5]; 2] = [[1.1, 3.3, 0.7, 5.9, 2.3], [0.9, 0.6, 1.3, 4.1, 3.7]];
/// What the operands' factors are multiplied by.
const FACTORS: [f32; 2] = [1.0 / 2688.0, 1.0 / 1536.0];

/// A set-up of a ragged reduction.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Whether the operands lie padded.
    pub padded: bool,
    /// Which operands have factors.
    pub scaled: [bool; 2],
    /// Number of groups.
    pub groups: usize,
    /// Whether former outputs have factors of their own, [`BETA`]; else all have 0.5.
    pub factors: bool,
    /// For how many blocks groups are put in order.
    pub workers: u32,
}

/// The most groups that are put in order by their rows, and the tiles of a block from which on they
/// are not.
const ORDERED: usize = 256;
const MANY_TILES: u32 = 16;

/// Elements of the `groups` groups, of five again and again.
fn repeated<T: Copy>(five: [T; 5], groups: usize) -> Vec<T> {
    five.into_iter().cycle().take(groups).collect()
}

/// A table as bytes, written as its layout says.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Element `group` of an array of 4-byte or 8-byte elements.
    fn word<T: bytemuck::NoUninit>(&mut self, array: usize, group: usize, value: T) {
        self.put(array + size_of::<T>() * group, bytes_of(&value));
    }
}

impl Tables {
    /// Runs it with the text of a module.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, text: &str, seed: u64) -> Result<(), String> {
        let own = kernel(Role::PointerSetup).ok_or("the table lacks pointer_setup")?;
        let (mut machine, id) = loaded(text, seed, own.name)?;
        let mut place = |bytes: &[u8]| {
            let address =
                machine.allocate(bytes.len() as u64).map_err(|error| error.to_string())?;
            machine.write(address, bytes).map_err(|error| error.to_string())?;
            Ok::<u64, String>(address)
        };

        let expected = self.expected();
        // The table's end is no word of anybody.
        let mut got = vec![0u8; expected.len()];
        let rows_operand = |i: usize| Operand {
            base: PLACES[i],
            row_elements: WIDTHS[i],
            element_bytes: 2,
            ..Operand::default()
        };
        let factors = |array| Scalars { array, ..Scalars::default() };
        let scale_inv = |operand: usize, place: &mut dyn FnMut(&[u8]) -> Result<u64, String>| {
            let factors = repeated(SCALES[operand], self.groups);
            if self.scaled[operand] { place(cast_slice(&factors)) } else { Ok(0) }
        };
        let args = SetupArgs {
            table: place(&got)?,
            splits: place(cast_slice(&repeated(SPLITS, self.groups)))?,
            rows: self.rows(),
            a: rows_operand(0),
            b: rows_operand(1),
            d: Operand {
                base: PLACES[2],
                group_elements: u64::from(M * N),
                element_bytes: 4,
                ..Operand::default()
            },
            alpha: factors(place(cast_slice(&repeated(ALPHA, self.groups)))?),
            beta: match self.factors {
                true => factors(place(cast_slice(&repeated(BETA, self.groups)))?),
                false => Scalars { value: 0.5, ..Scalars::default() },
            },
            a_scale_inv: scale_inv(0, &mut place)?,
            b_scale_inv: scale_inv(1, &mut place)?,
            groups: self.groups as u32,
            split_bytes: 4,
            ragged: Ragged::Reduction as u32,
            m: M,
            n: N,
            tile_m: 128,
            tile_n: 16,
            row_align: ALIGN as u32,
            padded_reduction: self.padded.into(),
            workers: self.workers,
            a_scale_factor: FACTORS[0],
            b_scale_factor: FACTORS[1],
            ..SetupArgs::default()
        };
        let config = LaunchConfig {
            grid: [1, 1, 1],
            block: [own.threads, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared_bytes: own.shared_bytes,
        };
        machine.launch(id, &config, bytes_of(&args)).map_err(|error| format!("failed: {error}"))?;
        machine.read(args.table, &mut got).map_err(|error| error.to_string())?;
        match (0..got.len()).find(|&at| got[at] != expected[at]) {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} of the table is wrong")),
        }
    }

    /// Rows of the buffer, some of them nobody's.
    fn rows(&self) -> i64 {
        repeated(SPLITS, self.groups).into_iter().map(i64::from).sum::<i64>() + 8
    }

    /// The table, from its definition.
    fn expected(&self) -> Vec<u8> {
        let layout = GroupTable::layout(self.groups as u32);
        let mut table = Writer { bytes: vec![0; layout.bytes] };
        table.put(layout.status, bytes_of(&Status { rows: self.rows(), ..Status::default() }));
        let splits = repeated(SPLITS, self.groups);
        let (mut live, mut padded) = (0, 0);
        for group in 0..=self.groups {
            let row = if self.padded { padded } else { live };
            table.word(layout.row_offsets, group, row);
            table.word(layout.padded_offsets, group, padded);
            let Some(&split) = splits.get(group) else { break };
            let padded_split = (split as u64).next_multiple_of(ALIGN);

            let gradient = group as u64 * u64::from(M * N);
            table.word(layout.a_pointers, group, PLACES[0] + 2 * WIDTHS[0] * row);
            table.word(layout.b_pointers, group, PLACES[1] + 2 * WIDTHS[1] * row);
            table.word(layout.d_pointers, group, PLACES[2] + 4 * gradient);
            table.word(layout.a_offsets, group, WIDTHS[0] * row);
            table.word(layout.b_offsets, group, WIDTHS[1] * row);
            table.word(layout.d_offsets, group, gradient);

            table.word(layout.m, group, M);
            table.word(layout.n, group, N);
            table.word(
                layout.k,
                group,
                if self.padded { padded_split as u32 } else { split as u32 },
            );
            let mut alpha = ALPHA[group % 5];
            for operand in 0..2 {
                if self.scaled[operand] && split != 0 {
                    let factor = SCALES[operand][group % 5] * FACTORS[operand];
                    alpha *= factor;
                }
            }
            table.word(layout.alpha, group, alpha);
            table.word(layout.beta, group, if self.factors { BETA[group % 5] } else { 0.5f32 });
            live += split as u64;
            padded += padded_split;
        }
        let mut order: Vec<usize> = (0..self.groups).collect();
        let all: u32 = order.iter().map(|&group| self.tiles(group)).sum();
        if self.groups <= ORDERED && all < MANY_TILES * self.workers {
            order.sort_by_key(|&group| (self.tiles(group) == 0, Reverse(splits[group])));
        }
        let mut tiles = 0;
        for (place, &group) in order.iter().enumerate() {
            table.word(layout.order, place, group as u32);
            table.word(layout.tile_prefix, place, tiles);
            tiles += self.tiles(group);
        }
        table.word(layout.tile_prefix, self.groups, tiles);
        table.bytes
    }

    /// Tiles of a group.
    fn tiles(&self, group: usize) -> u32 {
        let stays = self.factors && SPLITS[group % 5] == 0 && BETA[group % 5] == 1.0;
        if stays { 0 } else { TILES }
    }
}
