//! `cast_bf16`, `cast_f16`: FP32 to a 16-bit type, rounded to nearest, ties to even.

use ptx_std::memory::{
    load_constant_f32, load_constant_u32, load_constant_u32x4, load_constant_u64, store_u32x4,
};
use ptx_std::thread::{block_index, block_index_y, grid_blocks, thread_index};

use crate::abi::CastArgs;
use crate::gemm::element::{Kind, TensorElement};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Elements that a thread converts at once: 16 bytes of the result.
const CHUNK: u32 = 8;
/// Elements that a block converts at once.
pub const TILE: u32 = CHUNK * THREADS;

/// Bytes of an element of the source.
const SOURCE_BYTES: u64 = 4;

/// Casts: block (x, y) takes tiles x, x + grid, … of part y.
///
/// # Safety
///
/// Blocks of [`THREADS`] threads, as many along y as there are parts; the addresses in `args` are
/// valid for what its fields describe.
#[inline(always)]
pub unsafe fn run<E: TensorElement>(args: &CastArgs, _args_address: u64) {
    // SAFETY: the launcher keeps the contract above; each thread has its own elements, all of them
    // below `part_len`.
    unsafe {
        // Leave everything as it is where the flag says so.
        if args.skip != 0 && load_constant_u32(args.skip) != 0 {
            return;
        }

        // Find the part.
        let part = u64::from(block_index_y());
        let source = if args.source_array != 0 {
            load_constant_u64(args.source_array + 8 * part)
        } else {
            args.source + SOURCE_BYTES * part * args.part_len
        };
        let destination = args.destination + E::BYTES * part * args.part_len;
        let aligned = (source | destination).is_multiple_of(16);

        // Convert, eight elements at a time where they are all there and aligned.
        let mut first = u64::from(block_index()) * u64::from(TILE)
            + u64::from(thread_index()) * u64::from(CHUNK);
        while first < args.part_len {
            let left = args.part_len - first;
            let (from, to) = (source + SOURCE_BYTES * first, destination + E::BYTES * first);
            if aligned && left >= u64::from(CHUNK) {
                cast_chunk::<E>(from, to);
            } else {
                cast_singly::<E>(from, to, left.min(u64::from(CHUNK)));
            }
            first += u64::from(grid_blocks()) * u64::from(TILE);
        }
    }
}

/// Converts eight elements between addresses that are multiples of 16.
#[inline(always)]
unsafe fn cast_chunk<E: TensorElement>(from: u64, to: u64) {
    // SAFETY: the caller vouches for the elements.
    unsafe {
        let [a, b, c, d] = load_constant_u32x4(from).map(f32::from_bits);
        let [e, f, g, h] = load_constant_u32x4(from + 16).map(f32::from_bits);
        let kind = Kind(E::KIND);
        let packed = [kind.pack([a, b]), kind.pack([c, d]), kind.pack([e, f]), kind.pack([g, h])];
        store_u32x4(to, packed);
    }
}

/// Converts `count` elements one by one.
#[inline(always)]
unsafe fn cast_singly<E: TensorElement>(from: u64, to: u64, count: u64) {
    let mut i = 0;
    while i < count {
        // SAFETY: the caller vouches for the elements.
        unsafe {
            let value = load_constant_f32(from + SOURCE_BYTES * i);
            Kind(E::KIND).store(to + E::BYTES * i, value);
        }
        i += 1;
    }
}
