//! A product with random operands, and what it has to give.

use super::place::Placement;
use super::values::{self, Random, Type};
use crate::matrix::AccumulatorType;
use crate::matrix::tcgen05::{
    Group, Kind, LANES, Memory, Mma, MmaForm, Operands, ScaleVector, SharedRange,
};
use crate::matrix::wgmma::Scale;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) group: Group,
    pub(super) stationary: bool,
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) types: [Type; 2],
    pub(super) d: AccumulatorType,
    pub(super) across: [bool; 2],
    pub(super) swizzles: [u64; 2],
    pub(super) negated: [bool; 2],
    pub(super) a_in_tensor_memory: bool,
    pub(super) accumulate: bool,
    pub(super) shift: Option<u32>,
    pub(super) shift_a: bool,
    pub(super) saturate: bool,
    pub(super) disabled: [u128; 2],
    /// The number of factors, whether they are powers of two, and the first bytes of A's and B's.
    pub(super) scales: Option<(ScaleVector, bool, [u32; 2])>,
    /// The upper half of a layout that takes sixteen lanes of every quarter.
    pub(super) upper: bool,
}

impl Case {
    pub(super) fn new(kind: Kind, group: Group, m: u32, n: u32, ty: Type) -> Self {
        let d = if kind == Kind::I8 { AccumulatorType::S32 } else { AccumulatorType::F32 };
        let scales = match kind {
            Kind::Mxf8f6f4 => Some((ScaleVector::X1, true, [0, 0])),
            Kind::Mxf4 => Some((ScaleVector::X2, true, [0, 0])),
            Kind::Mxf4nvf4 => Some((ScaleVector::X4, false, [0, 0])),
            _ => None,
        };
        Self {
            kind,
            group,
            stationary: false,
            m,
            n,
            types: [ty; 2],
            d,
            across: [false; 2],
            swizzles: [2; 2],
            negated: [false; 2],
            a_in_tensor_memory: false,
            accumulate: true,
            shift: None,
            shift_a: false,
            saturate: false,
            disabled: [0; 2],
            scales,
            upper: false,
        }
    }

    pub(super) fn form(&self) -> MmaForm {
        MmaForm {
            kind: self.kind,
            group: self.group,
            scale_vector: self.scales.map(|(vector, ..)| vector),
            a_in_tensor_memory: self.a_in_tensor_memory,
            weight_stationary: self.stationary,
            masked: self.disabled != [0; 2],
            shift_a: self.shift_a,
            scale_input_d: self.shift,
        }
    }

    /// Tables 42 to 44 of the manual.
    pub(super) fn instruction(&self) -> u32 {
        let dense = matches!(self.kind, Kind::Mxf4 | Kind::Mxf4nvf4);
        let code = |ty: Type| match ty {
            Type::F16 | Type::U8 | Type::E4m3 => 0,
            Type::Bf16 | Type::S8 | Type::E5m2 => 1,
            Type::Tf32 => 2,
            Type::E2m3 => 3,
            Type::E3m2 => 4,
            Type::E2m1 => {
                if dense {
                    1
                } else {
                    5
                }
            }
        };
        let flags = |values: [bool; 2], first: u32| {
            u32::from(values[0]) << first | u32::from(values[1]) << (first + 1)
        };
        let common = code(self.types[0]) << 7
            | code(self.types[1]) << 10
            | flags(self.negated, 13)
            | flags(self.across, 15)
            | (self.n / 8) << 17
            | (self.m / 16) << 24;
        if let Some((_, is_ue8m0, [a, b])) = self.scales {
            return common | b << 4 | u32::from(is_ue8m0) << 23 | a << 29;
        }
        let d = match self.d {
            AccumulatorType::F16 => 0,
            AccumulatorType::F32 => 1,
            AccumulatorType::S32 => 2,
        };
        common | u32::from(self.saturate) << 3 | d << 4
    }

    /// The block, lanes and column that hold element (m, n) of D, from lane and column 0 on.
    fn place(&self, m: u32, n: u32) -> (usize, u32, u32) {
        let all = self.n;
        let (block, lane, column) = match (self.group, self.m, self.stationary) {
            (Group::Two, 256, _) => (m / 128, m % 128, n),
            (Group::Two, ..) => (m / 64, m % 64 + 64 * (n / (all / 2)), n % (all / 2)),
            (Group::One, 32, _) => (0, m + 32 * (n / (all / 4)), n % (all / 4)),
            (Group::One, 64, true) => (0, m + 64 * (n / (all / 2)), n % (all / 2)),
            (Group::One, 64, false) => (0, m % 16 + 32 * (m / 16) + self.lane(), n),
            (Group::One, ..) => (0, m, n),
        };
        (block as usize, lane, column)
    }

    /// The lane of D's address.
    fn lane(&self) -> u32 {
        if self.upper { 16 } else { 0 }
    }

    fn blocks(&self) -> usize {
        self.group.blocks()
    }
}

/// Memory full of noise.
#[derive(Clone)]
pub(super) struct World {
    pub(super) shared: [Vec<u8>; 2],
    pub(super) tensor: [Vec<[u32; LANES]>; 2],
}

impl World {
    /// Zeros.
    pub(super) fn empty() -> Self {
        let tensor = vec![[0; LANES]; 512];
        Self { shared: [vec![0; 0x30000], vec![0; 0x30000]], tensor: [tensor.clone(), tensor] }
    }

    fn new(random: &mut Random) -> Self {
        let mut shared = || (0..0x30000).map(|_| random.next() as u8).collect();
        let shared = [shared(), shared()];
        let mut tensor =
            || (0..512).map(|_| std::array::from_fn(|_| random.next())).collect::<Vec<_>>();
        Self { shared, tensor: [tensor(), tensor()] }
    }
}

impl Memory for World {
    fn shared(&self, block: usize) -> &[u8] {
        &self.shared[block]
    }

    fn column(&self, block: usize, column: u32) -> [u32; LANES] {
        self.tensor[block][column as usize]
    }

    fn set_column(&mut self, block: usize, column: u32, lanes: u128, words: &[u32; LANES]) {
        for (lane, word) in words.iter().enumerate() {
            if lanes >> lane & 1 == 1 {
                self.tensor[block][column as usize][lane] = *word;
            }
        }
    }
}

/// Cells of tensor memory: block, lane, column.
type Cell = (usize, u32, u32);

/// A case with its operands in memory, and the D that follows.
pub(super) struct Trial {
    pub(super) case: Case,
    pub(super) world: World,
    pub(super) operands: Operands,
    expected: BTreeMap<Cell, u32>,
    shared: [BTreeSet<usize>; 2],
    read: BTreeSet<Cell>,
}

impl Trial {
    pub(super) fn new(random: &mut Random, case: Case) -> Self {
        let k = case.kind.k() as usize;
        let [m, n] = [case.m, case.n];
        let mut trial = Self {
            case,
            world: World::new(random),
            operands: Operands {
                d: case.lane() << 16 | random.below(512 - n),
                a: 0,
                b: 0,
                instruction: case.instruction(),
                scales: [0; 2],
                accumulate: if case.accumulate { Scale::Accumulate } else { Scale::Overwrite },
                disabled: case.disabled,
            },
            expected: BTreeMap::new(),
            shared: [BTreeSet::new(), BTreeSet::new()],
            read: BTreeSet::new(),
        };
        let mut codes = |rows: u32, ty: Type| -> Vec<Vec<u32>> {
            (0..rows).map(|_| (0..k).map(|_| ty.random(random)).collect()).collect()
        };
        let [a, b] = [codes(m, case.types[0]), codes(n, case.types[1])];
        trial.operands.b = trial.place(random, 1, &b, 0x18000);
        trial.operands.a = if case.a_in_tensor_memory {
            trial.place_in_tensor_memory(random, &a)
        } else {
            trial.place(random, 0, &a, 0x4000)
        };
        let factors = trial.place_factors(random);
        let numbers = [0, 1].map(|operand| -> Vec<Vec<f64>> {
            let sign = if case.negated[operand] { -1.0 } else { 1.0 };
            let rows = (0..).zip([&a, &b][operand]);
            let number = |row: u32, k: usize, code: u32| {
                sign * case.types[operand].value(code) * factors(operand, row, k)
            };
            rows.map(|(row, codes)| {
                codes.iter().enumerate().map(|(k, code)| number(row, k, *code)).collect()
            })
            .collect()
        });
        let column = trial.operands.d & 0xFFFF;
        for row in 0..m {
            for n in 0..n {
                let (block, lane, offset) = case.place(row, n);
                if case.disabled[block] >> lane & 1 == 1 {
                    continue;
                }
                let cell = (block, lane, column + offset);
                let mut sum = 0.0;
                if case.accumulate {
                    trial.read.insert(cell);
                    let word = if case.d == AccumulatorType::F32 {
                        // Moderate, so that sums are exact.
                        (f64::from(random.next() as i32) / 2f64.powi(22)) as f32
                    } else {
                        f32::from_bits(random.next() & 0xFFFF_B7FF)
                    };
                    let word = word.to_bits();
                    trial.world.tensor[block][cell.2 as usize][lane as usize] = word;
                    let kept = values::of_accumulator(case.d, word);
                    sum = kept / 2f64.powi(case.shift.unwrap_or(0) as i32);
                }
                let products = numbers[0][row as usize].iter().zip(&numbers[1][n as usize]);
                sum += products.map(|(a, b)| a * b).sum::<f64>();
                trial.expected.insert(cell, values::rounded(case.d, case.saturate, sum));
            }
        }
        if case.shift_a {
            trial.expect_rows_to_move();
        }
        trial
    }

    /// Every lane gets what the next one has of A; each 32nd keeps its own.
    fn expect_rows_to_move(&mut self) {
        let first = self.operands.a as u32 & 0xFFFF;
        for block in 0..self.case.blocks() {
            for column in first..first + 8 {
                let lanes = (0..128).filter(|lane| lane % 32 < 31);
                let words = self.world.tensor[block][column as usize];
                let moved = lanes.map(|lane| ((block, lane, column), words[lane as usize + 1]));
                self.expected.extend(moved);
            }
        }
    }

    /// Replaces the integers that D begins with.
    pub(super) fn set_accumulators(&mut self, value: impl Fn(u32) -> i32) {
        let saturate = self.case.saturate;
        for (at, ((block, lane, column), expected)) in (0..).zip(&mut self.expected) {
            let word = &mut self.world.tensor[*block][*column as usize][*lane as usize];
            // Products are few enough for the difference not to wrap.
            let products = i64::from(expected.wrapping_sub(*word) as i32);
            *word = value(at) as u32;
            let sum = i64::from(value(at)) + products;
            *expected = values::rounded(AccumulatorType::S32, saturate, sum as f64);
        }
    }

    /// Puts A (0) or B (1) into the blocks' shared memories: a half each of a pair.
    fn place(
        &mut self,
        random: &mut Random,
        operand: usize,
        codes: &[Vec<u32>],
        base: usize,
    ) -> u64 {
        let case = self.case;
        let dense = matches!(case.kind, Kind::Mxf4 | Kind::Mxf4nvf4);
        let rows = codes.len() / case.blocks();
        let (ty, across) = (case.types[operand], case.across[operand]);
        let base = base + 1024 * random.below(4) as usize;
        let place = Placement::random(random, ty, across, case.swizzles[operand], rows, base);
        let memories = self.world.shared.iter_mut().zip(&mut self.shared);
        for ((shared, touched), codes) in memories.zip(codes.chunks(rows)) {
            touched.extend(place.write(shared, ty, dense, codes));
        }
        place.descriptor()
    }

    /// Puts A into the lanes of D, 32 bytes of K in eight columns.
    fn place_in_tensor_memory(&mut self, random: &mut Random, codes: &[Vec<u32>]) -> u64 {
        let case = self.case;
        // Columns that D does not have, scale factors have neither.
        let d = self.operands.d & 0xFFFF;
        let column = if d > 240 { random.below(200) } else { 496 + random.below(9) };
        for (m, codes) in (0..).zip(codes) {
            // The same lanes in every part of the columns.
            let lanes: BTreeSet<_> =
                (0..case.n).map(|n| case.place(m, n)).map(|place| (place.0, place.1)).collect();
            for (block, lane) in lanes {
                for (k, code) in (0..).zip(codes) {
                    let bits = match case.kind {
                        Kind::Mxf4 | Kind::Mxf4nvf4 => 4,
                        Kind::F16 => 16,
                        Kind::Tf32 => 32,
                        _ => 8,
                    };
                    let raised = bits == 8 && case.types[0] == Type::E2m1;
                    let code = if raised { code << 2 } else { *code };
                    let (first, mask) = (k * bits, u32::MAX >> (32 - bits));
                    let cell = (block, lane, column + first / 32);
                    let word = &mut self.world.tensor[block][cell.2 as usize][lane as usize];
                    *word &= !(mask << (first % 32));
                    *word |= code << (first % 32);
                    self.read.insert(cell);
                }
            }
        }
        u64::from(case.lane() << 16 | column)
    }

    /// Puts scale factors into tensor memory; gives that of a row and a k.
    fn place_factors(&mut self, random: &mut Random) -> impl Fn(usize, u32, usize) -> f64 + use<> {
        let case = self.case;
        let k = case.kind.k() as usize;
        let count = case.scales.map_or(1, |(vector, ..)| match vector {
            ScaleVector::X1 => 1,
            ScaleVector::X2 => 2,
            ScaleVector::X4 => 4,
        });
        let mut values = [vec![vec![1.0; count]; 256], vec![vec![1.0; count]; 256]];
        let d = self.operands.d & 0xFFFF;
        for operand in 0..2 {
            let Some((_, is_ue8m0, bytes)) = case.scales else { break };
            let column = (if d > 240 { 210 } else { 480 }) + 8 * operand as u32;
            // The two highest bits of the address do not count.
            self.operands.scales[operand] = column | random.below(4) << 30;
            let rows = [case.m, case.n][operand];
            for row in 0..rows {
                for (j, value) in values[operand][row as usize].iter_mut().enumerate() {
                    let code = if is_ue8m0 { 123 + random.below(9) } else { random.below(127) };
                    *value = values::scale(is_ue8m0, code as u8);
                    let byte = bytes[operand] + j as u32;
                    for (block, lane, offset) in self.copies(operand, row) {
                        let cell = (block, lane, column + offset);
                        let word = &mut self.world.tensor[block][cell.2 as usize][lane as usize];
                        *word &= !(0xFF << (8 * byte));
                        *word |= code << (8 * byte);
                        self.read.insert(cell);
                    }
                }
            }
        }
        move |operand, row, at| values[operand][row as usize][at / (k / count)]
    }

    /// Every place of a row's scale factors, from column 0 on.
    fn copies(&self, operand: usize, row: u32) -> Vec<Cell> {
        let case = self.case;
        let divided = case.group == Group::Two && case.m == 128;
        let per_block = case.m / case.blocks() as u32;
        let mut cells = Vec::new();
        for quarter in 0..4 {
            if operand == 0 {
                let (block, row) = ((row / per_block) as usize, row % per_block);
                cells.push((block, row % 32 + 32 * quarter, row / 32));
                continue;
            }
            for block in 0..case.blocks() {
                if !divided {
                    cells.push((block, row % 32 + 32 * quarter, row / 32));
                } else if row / (case.n / 2) == quarter / 2 {
                    let row = row % (case.n / 2);
                    cells.push((block, row % 32 + 32 * quarter, row / 32));
                }
            }
        }
        cells
    }

    /// Executes the product and compares all of tensor memory, and the footprint.
    pub(super) fn check(mut self) {
        let case = self.case;
        let mma =
            Mma::new(&case.form(), &self.operands).unwrap_or_else(|e| panic!("{e}: {case:?}"));
        assert_eq!(mma.shape(), (case.m, case.n, case.kind.k()));
        let before = self.world.tensor.clone();
        mma.execute(&mut self.world).unwrap_or_else(|error| panic!("{error}: {case:?}"));
        for (block, before) in before.iter().enumerate() {
            for (column, before) in (0..).zip(before) {
                for (lane, before) in (0..).zip(before) {
                    let found = self.world.tensor[block][column as usize][lane as usize];
                    let expected = *self.expected.get(&(block, lane, column)).unwrap_or(before);
                    // Both zeros are right.
                    let same = found == expected || (found | expected) << 1 == 0;
                    assert!(
                        same,
                        "block {block} lane {lane} column {column}: {found:#x} instead of \
                         {expected:#x}: {case:?}"
                    );
                }
            }
        }
        let footprint = mma.footprint();
        let shared = [0, 1].map(|block| {
            let own = footprint.shared.iter().filter(|range| range.block == block);
            own.flat_map(|range| range.start as usize..(range.start + range.bytes) as usize)
                .collect::<Vec<_>>()
        });
        for (found, expected) in shared.iter().zip(&self.shared) {
            // Every byte once.
            assert!(found.iter().eq(expected), "{case:?}");
        }
        assert!(
            footprint.shared.is_sorted_by_key(|range: &SharedRange| (range.block, range.start))
        );
        let cells = |cells: &[crate::matrix::tcgen05::Cells]| {
            let mut all = BTreeSet::new();
            for own in cells {
                for column in own.columns.clone() {
                    let lanes = (0..128).filter(|lane| own.lanes >> lane & 1 == 1);
                    all.extend(lanes.map(|lane| (own.block, lane, column)));
                }
            }
            all
        };
        assert_eq!(cells(&footprint.read), self.read, "{case:?}");
        assert!(cells(&footprint.written).iter().eq(self.expected.keys()), "{case:?}");
    }
}
