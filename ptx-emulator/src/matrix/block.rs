//! Blocks of 16 rows by 8 columns: the unit in which accumulators lie in registers.
//!
//! A block of `f32` or `s32` is four registers of a warp: register `2h + c` of lane `4g + t` holds
//! row `g + 8h`, column `2t + c` (PTX ISA 9.7.15.5.1.1 and 9.7.14.5.8). Inside a block the columns
//! are therefore kept with the even ones first, so that four neighbours are four neighbouring
//! lanes of one register.

use super::element::{ElementType, ROW_BYTES, f16_nearest, f16_value, words};
use super::{AccumulatorType, Row};

/// Sums of a block, `[row][place of the column]`.
pub(super) type Sums = [[f64; 8]; 16];

/// Bytes of the K slice, of rows of A or of columns of B.
pub(super) type Bytes<const ROWS: usize> = [[u8; ROW_BYTES]; ROWS];

/// How sums become `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// 24 significant bits.
    Single,
    /// 14 significant bits, as the FP8 accumulation of Hopper keeps them.
    Reduced,
}

/// Where a column stands inside a block.
pub(super) fn place(column: usize) -> usize {
    column / 2 + 4 * (column % 2)
}

/// Decoded rows of A.
pub(super) fn rows<const K: usize>(element: ElementType, bytes: &Bytes<16>) -> [[f32; K]; 16] {
    bytes.each_ref().map(|row| element.decode(row))
}

/// Decoded columns of B, `[k][place of the column]`.
pub(super) fn panel<const K: usize>(element: ElementType, bytes: &Bytes<8>) -> [[f32; 8]; K] {
    let mut panel = [[0.0; 8]; K];
    for (column, bytes) in bytes.iter().enumerate() {
        let place = place(column);
        let values: [f32; K] = element.decode(bytes);
        for (row, value) in panel.iter_mut().zip(values) {
            row[place] = value;
        }
    }
    panel
}

/// Decoded columns of B, in the order of their places.
pub(super) fn columns(element: ElementType, bytes: &Bytes<8>) -> [[f32; 32]; 8] {
    let mut columns = [[0.0; 32]; 8];
    for (column, bytes) in bytes.iter().enumerate() {
        columns[place(column)] = element.decode(bytes);
    }
    columns
}

/// The same numbers in double precision.
pub(super) fn widen<const N: usize, const M: usize>(values: &[[f32; N]; M]) -> [[f64; N]; M] {
    values.each_ref().map(|row| row.map(f64::from))
}

/// Adds `a * b` to the sums.
///
/// Products of all element types are exact in `f64` and K is 32 at most, so what the order of
/// the additions loses is below 2^-48 of the largest partial sum. Two rows at a time, because
/// their sums and a row of `b` fill the sixteen vector registers of the smallest x86-64.
pub(super) fn multiply<const K: usize>(a: &[[f64; K]; 16], b: &[[f64; 8]; K], sums: &mut Sums) {
    for (sums, a) in sums.as_chunks_mut::<2>().0.iter_mut().zip(a.as_chunks::<2>().0) {
        let [mut top, mut bottom] = *sums;
        for ((top_factor, bottom_factor), b) in a[0].iter().zip(&a[1]).zip(b) {
            for ((top, bottom), b) in top.iter_mut().zip(&mut bottom).zip(b) {
                *top += top_factor * b;
                *bottom += bottom_factor * b;
            }
        }
        *sums = [top, bottom];
    }
}

/// Adds, for every pair of a row and a column, the number of bits both have.
pub(super) fn count_common_bits(a: &Bytes<16>, b: &Bytes<8>, sums: &mut Sums) {
    for (sums, a) in sums.iter_mut().zip(a) {
        for (column, b) in b.iter().enumerate() {
            let common: u32 = words(a).zip(words(b)).map(|(a, b)| (a & b).count_ones()).sum();
            sums[place(column)] += f64::from(common);
        }
    }
}

/// What the registers of a block hold.
pub(super) fn load(kind: AccumulatorType, registers: &[Row]) -> Sums {
    match kind {
        AccumulatorType::F32 => unpack(registers, |word| f64::from(f32::from_bits(word))),
        AccumulatorType::S32 => unpack(registers, |word| f64::from(word as i32)),
        AccumulatorType::F16 => {
            let mut sums = [[0.0; 8]; 16];
            for (rows, register) in sums.as_chunks_mut::<8>().0.iter_mut().zip(registers) {
                for (row, lanes) in rows.iter_mut().zip(register.as_chunks::<4>().0) {
                    for (lane, word) in lanes.iter().enumerate() {
                        row[lane] = f64::from(f16_value(word & 0xFFFF));
                        row[lane + 4] = f64::from(f16_value(word >> 16));
                    }
                }
            }
            sums
        }
    }
}

fn unpack(registers: &[Row], value: impl Fn(u32) -> f64) -> Sums {
    let mut sums = [[0.0; 8]; 16];
    for (rows, pair) in sums.as_chunks_mut::<8>().0.iter_mut().zip(registers.as_chunks::<2>().0) {
        let lanes = pair[0].as_chunks::<4>().0.iter().zip(pair[1].as_chunks::<4>().0);
        for (row, (even, odd)) in rows.iter_mut().zip(lanes) {
            for lane in 0..4 {
                row[lane] = value(even[lane]);
                row[lane + 4] = value(odd[lane]);
            }
        }
    }
    sums
}

/// Rounds the sums of a block and puts them into its registers.
pub(super) fn store(
    kind: AccumulatorType,
    precision: Precision,
    saturate: bool,
    sums: &Sums,
    registers: &mut [Row],
) {
    match (kind, saturate) {
        (AccumulatorType::F32, _) => pack(sums, registers, |sum| single(sum, precision)),
        (AccumulatorType::S32, false) => pack(sums, registers, low_word),
        (AccumulatorType::S32, true) => pack(sums, registers, |sum| {
            low_word(sum.clamp(f64::from(i32::MIN), f64::from(i32::MAX)))
        }),
        (AccumulatorType::F16, _) => {
            for (rows, register) in sums.as_chunks::<8>().0.iter().zip(registers) {
                for (row, lanes) in rows.iter().zip(register.as_chunks_mut::<4>().0) {
                    for (lane, word) in lanes.iter_mut().enumerate() {
                        *word = f16_nearest(row[lane]) | f16_nearest(row[lane + 4]) << 16;
                    }
                }
            }
        }
    }
}

fn pack(sums: &Sums, registers: &mut [Row], word: impl Fn(f64) -> u32) {
    let pairs = registers.as_chunks_mut::<2>().0;
    for (rows, [even, odd]) in sums.as_chunks::<8>().0.iter().zip(pairs) {
        let lanes = even.as_chunks_mut::<4>().0.iter_mut().zip(odd.as_chunks_mut::<4>().0);
        for (row, (even, odd)) in rows.iter().zip(lanes) {
            for lane in 0..4 {
                even[lane] = word(row[lane]);
                odd[lane] = word(row[lane + 4]);
            }
        }
    }
}

/// The one place where a sum becomes the `f32` of an accumulator; NaN is 0x7FFFFFFF.
///
/// Rounds toward zero, as tensor cores were measured to do (Fasi and others, "Numerical behavior
/// of NVIDIA tensor cores", 2021, up to A100; the manual leaves it open, and Hopper is taken to
/// do the same). Magnitudes from 2^128 on are infinite. Subnormal results round to nearest.
pub(super) fn single(sum: f64, precision: Precision) -> u32 {
    let kept = match precision {
        Precision::Single => !0u64 << 29,
        Precision::Reduced => !0u64 << 39,
    };
    let rounded = f64::from_bits(sum.to_bits() & kept) as f32;
    if rounded.is_nan() { 0x7FFF_FFFF } else { rounded.to_bits() }
}

/// The low 32 bits of a whole number below 2^51, in two's complement.
///
/// Adding 1.5 * 2^52 brings them to the low end of the mantissa.
pub(super) fn low_word(sum: f64) -> u32 {
    (sum + 6_755_399_441_055_744.0).to_bits() as u32
}
