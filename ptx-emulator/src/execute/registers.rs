//! The registers of a warp in one function: a row of 32 lanes for each.

use crate::program::operand::{
    Any, Destination, File, Guard, Source32, Source64, Source128, SourcePredicate, Wide,
};
use crate::random::Random;

/// One 32-bit register of every lane.
pub(crate) type Words = [u32; 32];
/// One 64-bit register of every lane.
pub(crate) type Doubles = [u64; 32];
/// One 128-bit register of every lane.
pub(crate) type Quads = [u128; 32];

/// How many rows of each file a function needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegisterCounts {
    pub(crate) predicates: u32,
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) quads: u32,
}

impl RegisterCounts {
    /// How many rows a file has.
    pub(crate) fn of_mut(&mut self, file: File) -> &mut u32 {
        match file {
            File::Predicate => &mut self.predicates,
            File::Word => &mut self.words,
            File::Double => &mut self.doubles,
            File::Quad => &mut self.quads,
        }
    }
}

/// The register files. Rows are named by lowered code only, which stays within the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registers {
    predicates: Vec<u32>,
    words: Vec<Words>,
    doubles: Vec<Doubles>,
    quads: Vec<Quads>,
    /// The carry flag of each lane.
    carry: u32,
}

/// The lanes of a mask, lowest first.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros();
        rest &= rest - 1;
        Some(lane as usize)
    })
}

/// The lanes of a mask of which something holds. It is asked of all, which becomes vector code.
#[inline(always)]
pub(crate) fn select(mask: u32, holds: impl Fn(usize) -> bool) -> u32 {
    let mut found = 0;
    for lane in 0..32 {
        found |= u32::from(holds(lane)) << lane;
    }
    found & mask
}

/// All bits of a lane's word, or none: the mask of a select that the compiler can vectorise.
#[inline(always)]
fn selector(mask: u32, lane: usize) -> u32 {
    0u32.wrapping_sub((mask >> lane) & 1)
}

impl Registers {
    /// Registers hold anything at first: seeded noise, another in each, so that a read before a
    /// write is seen, be it of the difference of two.
    pub(crate) fn new(counts: RegisterCounts, random: &mut Random) -> Self {
        let noise = random.next();
        let word = |lane: u64| (noise.rotate_left(lane as u32) ^ 0x5A5A_A5A5) as u32;
        let words: Words = std::array::from_fn(|lane| word(lane as u64));
        let doubles: Doubles = std::array::from_fn(|lane| noise.rotate_left(lane as u32 + 7));
        let quads: Quads = [u128::from(noise) * 0x1_0001; 32];
        // An odd factor, so that no two rows have the same; a product for a row and an exclusive or
        // for its lanes, since a kernel's warps have hundreds of rows each.
        let of_row = |row: u32| u64::from(row).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            predicates: (0..counts.predicates)
                .map(|row| noise as u32 ^ of_row(row) as u32)
                .collect(),
            words: (0..counts.words)
                .map(|row| words.map(|word| word ^ of_row(row) as u32))
                .collect(),
            doubles: (0..counts.doubles)
                .map(|row| doubles.map(|double| double ^ of_row(row)))
                .collect(),
            quads: (0..counts.quads)
                .map(|row| quads.map(|quad| quad ^ u128::from(of_row(row))))
                .collect(),
            carry: (noise >> 32) as u32,
        }
    }

    /// The carry flags, one bit a lane.
    pub(crate) fn carry(&self) -> u32 {
        self.carry
    }

    /// Sets the carry flags of the lanes in `mask` to the bits of `values`.
    pub(crate) fn set_carry(&mut self, mask: u32, values: u32) {
        self.carry = (self.carry & !mask) | (values & mask);
    }

    /// The lanes an instruction is executed by, among those of a path.
    #[inline(always)]
    pub(crate) fn guarded(&self, guard: Guard, mask: u32) -> u32 {
        match guard {
            Guard::Always => mask,
            Guard::If(index) => mask & self.predicates[index as usize],
            Guard::Unless(index) => mask & !self.predicates[index as usize],
        }
    }

    #[inline(always)]
    pub(crate) fn words(&self, source: Source32) -> Words {
        match source {
            Source32::Register(index) => self.words[index as usize],
            Source32::Immediate(value) => [value; 32],
        }
    }

    #[inline(always)]
    pub(crate) fn doubles(&self, source: Source64) -> Doubles {
        match source {
            Source64::Register(index) => self.doubles[index as usize],
            Source64::Immediate(value) => [value; 32],
        }
    }

    pub(crate) fn quads(&self, source: Source128) -> Quads {
        match source {
            Source128::Register(index) => self.quads[index as usize],
            Source128::Immediate(value) => [value; 32],
        }
    }

    /// One bit a lane.
    #[inline(always)]
    pub(crate) fn predicate(&self, source: SourcePredicate) -> u32 {
        match source {
            SourcePredicate::Register(index) => self.predicates[index as usize],
            SourcePredicate::Negated(index) => !self.predicates[index as usize],
            SourcePredicate::Constant(value) => 0u32.wrapping_sub(value.into()),
        }
    }

    /// The low 64 bits of a source of any width.
    pub(crate) fn any(&self, source: Any) -> Doubles {
        match source {
            Any::Word(source) => self.words(source).map(u64::from),
            Any::Double(source) => self.doubles(source),
            Any::Quad(source) => self.quads(source).map(|value| value as u64),
        }
    }

    #[inline(always)]
    pub(crate) fn set_words(&mut self, destination: Destination, mask: u32, values: &Words) {
        let Some(index) = destination.0 else { return };
        let row = &mut self.words[index as usize];
        if mask == u32::MAX {
            *row = *values;
            return;
        }
        for lane in 0..32 {
            let select = selector(mask, lane);
            row[lane] = (row[lane] & !select) | (values[lane] & select);
        }
    }

    #[inline(always)]
    pub(crate) fn set_doubles(&mut self, destination: Destination, mask: u32, values: &Doubles) {
        let Some(index) = destination.0 else { return };
        let row = &mut self.doubles[index as usize];
        if mask == u32::MAX {
            *row = *values;
            return;
        }
        for lane in 0..32 {
            let select = 0u64.wrapping_sub(u64::from((mask >> lane) & 1));
            row[lane] = (row[lane] & !select) | (values[lane] & select);
        }
    }

    pub(crate) fn set_quads(&mut self, destination: Destination, mask: u32, values: &Quads) {
        let Some(index) = destination.0 else { return };
        let row = &mut self.quads[index as usize];
        for lane in lanes(mask) {
            row[lane] = values[lane];
        }
    }

    /// Sets the predicate of the lanes in `mask` to the bits of `values`.
    #[inline(always)]
    pub(crate) fn set_predicate(&mut self, destination: Destination, mask: u32, values: u32) {
        let Some(index) = destination.0 else { return };
        let row = &mut self.predicates[index as usize];
        *row = (*row & !mask) | (values & mask);
    }

    /// Stores values into a register of any width; the caller has extended their signs.
    pub(crate) fn set_wide(&mut self, destination: Wide, mask: u32, values: &Doubles) {
        match destination {
            Wide::Word(destination) => {
                self.set_words(destination, mask, &values.map(|value| value as u32));
            }
            Wide::Double(destination) => self.set_doubles(destination, mask, values),
            Wide::Quad(destination) => self.set_quads(destination, mask, &values.map(u128::from)),
        }
    }

    /// A row of words by its index, for matrix fragments.
    pub(crate) fn word_row(&self, index: u32) -> &Words {
        &self.words[index as usize]
    }

    /// A row of words by its index, for matrix fragments.
    pub(crate) fn word_row_mut(&mut self, index: u32) -> &mut Words {
        &mut self.words[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_registers_begin_alike() {
        let counts = RegisterCounts { predicates: 300, words: 300, doubles: 300, quads: 300 };
        let registers = Registers::new(counts, &mut Random::new(7));
        let differ = |rows: &mut Vec<u128>| {
            rows.sort_unstable();
            rows.windows(2).all(|pair| pair[0] != pair[1])
        };
        for lane in 0..32 {
            let of = |index: usize| {
                [
                    u128::from(registers.words[index][lane]),
                    u128::from(registers.doubles[index][lane]),
                    registers.quads[index][lane],
                ]
            };
            for file in 0..3 {
                assert!(differ(&mut (0..300).map(|index| of(index)[file]).collect()));
            }
        }
        assert!(differ(&mut registers.predicates.iter().map(|own| u128::from(*own)).collect()));
    }
}
