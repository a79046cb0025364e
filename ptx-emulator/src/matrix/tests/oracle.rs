//! Matrices as codes, their values, and where a copy engine would leave them in shared memory.

use crate::matrix::{AccumulatorType, ElementType, Row};

/// A small generator of numbers (Marsaglia's xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    pub(super) fn flag(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

pub(super) fn bits(element: ElementType) -> usize {
    256 / element.per_row() as usize
}

/// The value of a code by the textbook formula: fraction over a power of two.
pub(super) fn value(element: ElementType, code: u32) -> f64 {
    let float = |exponent_bits: u32, mantissa_bits: u32, infinities: bool| {
        let sign = if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -1.0 } else { 1.0 };
        let exponent = (code >> mantissa_bits & ((1 << exponent_bits) - 1)) as i32;
        let fraction = f64::from(code & ((1 << mantissa_bits) - 1));
        let top = (1 << exponent_bits) - 1;
        let full = 2f64.powi(mantissa_bits as i32);
        let bias = top / 2;
        if exponent == top && infinities {
            return if fraction == 0.0 { sign * f64::INFINITY } else { f64::NAN };
        }
        if exponent == top && fraction == full - 1.0 {
            return f64::NAN;
        }
        if exponent == 0 {
            return sign * fraction / full * 2f64.powi(1 - bias);
        }
        sign * (1.0 + fraction / full) * 2f64.powi(exponent - bias)
    };
    match element {
        ElementType::Bf16 => float(8, 7, true),
        ElementType::F16 => float(5, 10, true),
        ElementType::Tf32 => {
            let kept = code >> 13;
            value_of_tf32(kept)
        }
        ElementType::E4m3 => float(4, 3, false),
        ElementType::E5m2 => float(5, 2, true),
        ElementType::S8 => f64::from(code) - if code >= 128 { 256.0 } else { 0.0 },
        ElementType::U8 | ElementType::B1 => f64::from(code),
    }
}

fn value_of_tf32(code: u32) -> f64 {
    // The exponents of bf16, with three more bits of fraction.
    let high = value(ElementType::Bf16, code >> 3);
    let unit = 2f64.powi((code >> 10 & 0xFF).max(1) as i32 - 127 - 10);
    let sign = if code >> 18 == 1 { -1.0 } else { 1.0 };
    high + sign * f64::from(code & 7) * unit
}

/// Codes `[mn][k]`.
pub(super) type Codes = Vec<Vec<u32>>;

/// Random codes of finite numbers; wide types stay within 2^-6 to 2^6, so that sums in `f64` are
/// exact, and contain zeros.
pub(super) fn random_codes(random: &mut Random, element: ElementType, mn: usize) -> Codes {
    let mask = u32::MAX >> (32 - bits(element));
    let mut code = || {
        loop {
            let code = random.next() & mask;
            let value = value(element, code).abs();
            let narrow = bits(element) <= 8;
            if value.is_finite() && (narrow || (2f64.powi(-6)..64.0).contains(&value)) {
                return code;
            }
            if code.is_multiple_of(16) {
                return 0;
            }
        }
    };
    (0..mn).map(|_| (0..element.per_row()).map(|_| code()).collect()).collect()
}

/// The 32 bytes of a row.
pub(super) fn row_bytes(element: ElementType, codes: &[u32]) -> Vec<u8> {
    let width = bits(element);
    if width == 1 {
        return codes
            .chunks(8)
            .map(|eight| eight.iter().rev().fold(0, |byte, bit| byte << 1 | *bit as u8))
            .collect();
    }
    codes.iter().flat_map(|code| code.to_le_bytes().into_iter().take(width / 8)).collect()
}

/// A tile in shared memory: its descriptor and the chunks it covers, by row (or column) group.
pub(super) struct Placed {
    pub(super) descriptor: u64,
    /// (first of the `mn` the chunk has to do with, its offset)
    pub(super) chunks: Vec<(usize, u32)>,
}

/// How a tile is to lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// Bytes of a swizzled row: 16 (no swizzle), 32, 64 or 128.
    pub(super) width: usize,
    /// K contiguous or not.
    pub(super) transposed: bool,
    /// A multiple of 1024.
    pub(super) base: usize,
    /// Which K slice of a larger tile this is.
    pub(super) slice: usize,
}

/// Where chunk `chunk` of row `row` of a box with rows of `width` bytes lies, as a swizzling copy
/// to a 1024-byte boundary leaves it.
fn box_chunk(width: usize, row: usize, chunk: usize) -> usize {
    let mixed = match width {
        128 => chunk ^ (row & 7),
        64 => chunk ^ (row >> 1 & 3),
        32 => chunk ^ (row >> 2 & 1),
        _ => chunk,
    };
    row * width + 16 * mixed
}

fn mode(width: usize) -> u64 {
    match width {
        128 => 1,
        64 => 2,
        32 => 3,
        _ => 0,
    }
}

fn descriptor(start: usize, leading: usize, stride: usize, width: usize) -> u64 {
    let field = |bytes: usize, shift: u32| (bytes as u64 >> 4) << shift;
    field(start, 0) | field(leading, 16) | field(stride, 32) | mode(width) << 62
}

/// Lays a matrix out in shared memory.
pub(super) fn place(
    shared: &mut [u8],
    element: ElementType,
    codes: &Codes,
    placement: Placement,
) -> Placed {
    if placement.transposed {
        return place_transposed(shared, codes, placement);
    }
    let Placement { width, base, slice, .. } = placement;
    let mut chunks = Vec::new();
    let groups = codes.len() / 8;
    for (row, codes) in codes.iter().enumerate() {
        for (half, bytes) in row_bytes(element, codes).chunks(16).enumerate() {
            let offset = match width {
                // All first halves, then, after a gap, all second halves.
                16 => base + row * 16 + half * (groups * 128 + 256),
                _ => base + box_chunk(width, row, 2 * (slice % (width / 32)) + half),
            };
            shared[offset..offset + 16].copy_from_slice(bytes);
            chunks.push((row, offset as u32));
        }
    }
    let descriptor = match width {
        16 => descriptor(base, groups * 128 + 256, 128, width),
        _ => descriptor(base + 32 * (slice % (width / 32)), 16, 8 * width, width),
    };
    Placed { descriptor, chunks }
}

/// Boxes of `width` bytes of MN by 64 rows of K, one after the other.
fn place_transposed(shared: &mut [u8], codes: &Codes, placement: Placement) -> Placed {
    let Placement { width, base, slice, .. } = placement;
    let per_box = width / 16;
    let mut chunks = Vec::new();
    for (index, eight) in codes.chunks(8).enumerate() {
        for k in 0..16 {
            let offset = match width {
                // Core matrices of 8 k by 8 mn; the two of k are neighbours.
                16 => base + index * 384 + k / 8 * 128 + k % 8 * 16,
                _ => {
                    let first = base + index / per_box * 64 * width;
                    first + box_chunk(width, 16 * (slice % 4) + k, index % per_box)
                }
            };
            for (element, row) in eight.iter().enumerate() {
                let bytes = (row[k] as u16).to_le_bytes();
                shared[offset + 2 * element..][..2].copy_from_slice(&bytes);
            }
            chunks.push((8 * index, offset as u32));
        }
    }
    let descriptor = match width {
        16 => descriptor(base, 128, 384, width),
        _ => descriptor(base + 16 * (slice % 4) * width, 64 * width, 8 * width, width),
    };
    Placed { descriptor, chunks }
}

/// A's registers for one warp from 16 rows, by the manual's table for the type.
pub(super) fn a_fragment(element: ElementType, rows: &[Vec<u32>], registers: usize) -> Vec<Row> {
    let per_word = 32 / bits(element);
    let word = |register: usize, lane: usize| {
        let row = &rows[lane / 4 + 8 * (register & 1)];
        (0..per_word).rev().fold(0u64, |word, index| {
            let k = match element {
                ElementType::Bf16 | ElementType::F16 => {
                    2 * (lane % 4) + 8 * (register >> 1) + index
                }
                ElementType::Tf32 => lane % 4 + 4 * (register >> 1),
                ElementType::B1 => 32 * (lane % 4) + 128 * (register >> 1) + index,
                _ => 4 * (lane % 4) + 16 * (register >> 1) + index,
            };
            word << bits(element) | u64::from(row[k])
        }) as u32
    };
    (0..registers).map(|register| std::array::from_fn(|lane| word(register, lane))).collect()
}

/// The accumulator of one element, as the registers of its warp hold it.
pub(super) fn accumulator(
    kind: AccumulatorType,
    registers: &[Row],
    row: usize,
    column: usize,
) -> u32 {
    let lane = 4 * (row % 8) + column % 8 / 2;
    let index = 4 * (column / 8) + 2 * (row / 8) + column % 2;
    match kind {
        AccumulatorType::F16 => registers[index / 2][lane] >> (16 * (index % 2)) & 0xFFFF,
        _ => registers[index][lane],
    }
}

/// The value of an accumulator's bits.
pub(super) fn accumulator_value(kind: AccumulatorType, bits: u32) -> f64 {
    match kind {
        AccumulatorType::F32 => f64::from(f32::from_bits(bits)),
        AccumulatorType::F16 => value(ElementType::F16, bits),
        AccumulatorType::S32 => f64::from(bits as i32),
    }
}

/// A random accumulator register; floats are moderate.
pub(super) fn random_accumulator(random: &mut Random, kind: AccumulatorType) -> Row {
    std::array::from_fn(|_| match kind {
        AccumulatorType::F32 => ((f64::from(random.next() as i32)) / 2f64.powi(22)) as f32,
        AccumulatorType::F16 => f32::from_bits(random.next() & 0xB7FF_B7FF),
        AccumulatorType::S32 => f32::from_bits((random.next() as i32 >> 4) as u32),
    })
    .map(f32::to_bits)
}

/// Checks the bits of a result whose exact value is known.
pub(super) fn check_result(
    kind: AccumulatorType,
    bits: u32,
    exact: f64,
    what: &dyn Fn() -> String,
) {
    match kind {
        AccumulatorType::F32 => {
            let nearest = exact as f32;
            let beyond = f64::from(nearest).abs() > exact.abs();
            let toward_zero = nearest.to_bits() - u32::from(beyond);
            assert_eq!(f32::from_bits(bits), f32::from_bits(toward_zero), "{exact}: {}", what());
        }
        AccumulatorType::F16 => {
            let result = value(ElementType::F16, bits);
            let below = value(ElementType::F16, bits & 0x8000 | (bits & 0x7FFF).saturating_sub(1));
            let unit = (result - below).abs();
            let overflows = result.is_infinite() && exact.abs() >= 65_520.0;
            let close = (result - exact).abs() <= unit;
            assert!(overflows && result.signum() == exact.signum() || close, "{exact}: {}", what());
        }
        AccumulatorType::S32 => {
            assert_eq!(i64::from(bits as i32), exact as i64, "{}", what());
        }
    }
}
