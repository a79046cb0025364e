//! Blocks: their scales, and their elements' codes.

use ptx_std::convert::bf16x2_to_f32;
use ptx_std::hint::{opaque, opaque_u64};

use super::super::e2m1::{Codes, Signs, dithered, numbers, pair_numbers};
use super::super::hadamard::{largest_of_pairs, transform};
use super::super::philox::{Random, RandomBits};
use super::super::scaling::{Scaling, round};
use super::super::source::{CHUNK, largest};
use super::super::unroll::{array4, array8, array16};
use super::shared::collect_line;
use super::work::Work;

/// A block's scale: its code, its value, and by what elements are multiplied.
#[derive(Clone, Copy)]
pub struct BlockScale {
    pub code: u32,
    pub scale: f32,
    pub factor: f32,
}

/// The scales of four blocks, and whether they are ordinary: then their numbers times their factors
/// are at most 6 · 17 / 16, as E4M3 rounds scales that are not subnormal, if the magnitudes are
/// those of numbers, or NaN. So nothing has to be limited.
#[inline(always)]
pub(super) fn block_scales(scaling: &Scaling, amax: [f32; 4]) -> ([BlockScale; 4], bool) {
    let (codes, scales) = round(array4(|i| scaling.block_scale(amax[i])));
    let factors = scaling.factors(scales);
    let block =
        |i| BlockScale { code: codes >> (8 * i) & 0xff, scale: scales[i], factor: factors[i] };
    // Each is 8 at least, the first that is not subnormal, and less than the largest, which
    // infinity gets, too. A sum of two bytes sets the highest bit, of which codes make no use.
    let (least, most) = (codes + 0x7878_7878, codes + 0x0202_0202);
    (array4(block), least & !most & 0x8080_8080 == 0x8080_8080)
}

/// The scale of one block.
#[inline(always)]
pub(super) fn block_scale(scaling: &Scaling, amax: f32) -> BlockScale {
    let (codes, [scale, ..]) = round([scaling.block_scale(amax); 4]);
    BlockScale { code: codes & 0xff, scale, factor: scaling.factor(scale) }
}

/// The random numbers of a copy, if it is rounded at random.
#[inline(always)]
pub(super) unsafe fn random(work: &Work<'_>, columnwise: bool) -> Option<Random> {
    let address = opaque_u64(work.args.random);
    // SAFETY: the launcher's contract.
    if address == 0 { None } else { Some(unsafe { Random::load(address, columnwise) }) }
}

/// The codes and signs of eight neighbours, none of them NaN.
#[inline(always)]
pub(super) fn encode(
    values: [f32; 8],
    factor: f32,
    random: Option<[RandomBits; 8]>,
) -> (Codes, Signs) {
    let codes = match random {
        Some(random) => Codes::dithered(dithered(values.map(|v| v * factor), random)),
        None => Codes::nearest(array8(|i| (values[i] * factor).abs().min(6.0))),
    };
    (codes, Signs::of(values))
}

/// What is quantized of a column, its upper and its lower eight rows, where NaN becomes infinite;
/// and the largest magnitude.
#[inline(always)]
pub(super) fn column_halves(work: &Work<'_>, values: [f32; 16]) -> ([[f32; 8]; 2], f32) {
    let halves = |v: [f32; 16]| [array8(|i| v[i]), array8(|i| v[i + 8])];
    let amax = |v: [f32; 16]| largest(array8(|i| v[i].abs().max(v[i + 8].abs())));
    if work.args.transform != 0 {
        let pairs = transform(values);
        (halves(widen(pairs.map(pair_numbers))), largest_of_pairs(pairs))
    } else {
        (halves(values).map(numbers), amax(values))
    }
}

/// The codes of a column, its upper and its lower eight rows, as they are stored.
#[inline(always)]
pub(super) fn encode_column(
    work: &Work<'_>,
    column: u32,
    [first, second]: [[f32; 8]; 2],
    block: &BlockScale,
    random: &Option<Random>,
) -> [u32; 2] {
    let number = work.transposed_index(column / 2 * 2) / u64::from(CHUNK);
    let bits = |half| random.map(|random| random.one_line(number + half, column));
    let low = encode(first, block.factor, bits(0));
    let high = encode(second, block.factor, bits(1));
    [low.0.signed(low.1), high.0.signed(high.1)]
}

/// Collects a column's codes and scale.
#[inline(always)]
pub(super) unsafe fn put_column(work: &Work<'_>, column: u32, codes: [u32; 2], block: &BlockScale) {
    // SAFETY: the block is this thread's.
    unsafe {
        work.column_collector().put(column, block.code);
        collect_line(work.column + column, work.band, codes);
    }
}

/// Eight elements times their block's factor.
#[inline(always)]
pub(super) fn scaled(words: [u32; 4], block: &BlockScale) -> [f32; 8] {
    array8(|i| bf16x2_to_f32(words[i / 2])[i % 2] * block.factor)
}

/// BF16 pairs as numbers.
#[inline(always)]
pub(super) fn widen(pairs: [u32; 8]) -> [f32; 16] {
    array16(|i| bf16x2_to_f32(pairs[i / 2])[i % 2])
}

/// 2, unknown to the compiler, which would write such a loop's body twice.
#[inline(always)]
pub(super) fn twice() -> u32 {
    opaque(2)
}
