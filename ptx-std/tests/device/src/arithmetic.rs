//! Functions of registers that are executed, one for each thread.

use ptx_std::convert::{max_magnitude_bf16x2, max_magnitude_f16x2, max_magnitude_or_nan_bf16x2};
use ptx_std::convert_small::{
    abs, fma_saturated, fma_upward, max_bf16x2, max_f16x2, min_bf16x2, min_f16x2, multiply_bf16x2,
    multiply_wide, permute_bytes, subtract_bf16x2,
};
use ptx_std::{memory, thread};

/// Each thread reads its operation's number and three operands from `from`, and writes the result
/// to `to`.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn arithmetic(from: u64, to: u64) {
    let index = u64::from(thread::thread_index());
    // SAFETY: both arrays have a place for each thread.
    unsafe {
        let word = |i: u64| memory::load_u32(from + 16 * index + 4 * i);
        let [operation, a, b, c] = [word(0), word(1), word(2), word(3)];
        let [x, y, z] = [a, b, c].map(f32::from_bits);
        let result = match operation {
            0 => fma_upward(x, y, z).to_bits(),
            1 => abs(x).to_bits(),
            2 => fma_saturated(x, y, z).to_bits(),
            3 => max_magnitude_bf16x2(a, b),
            4 => max_magnitude_f16x2(a, b),
            5 => max_bf16x2(a, b),
            6 => min_bf16x2(a, b),
            7 => max_f16x2(a, b),
            8 => min_f16x2(a, b),
            9 => multiply_bf16x2(a, b),
            10 => permute_bytes(a, b, c),
            11 => multiply_wide(a, b)[0],
            12 => multiply_wide(a, b)[1],
            13 => max_magnitude_or_nan_bf16x2(a, b),
            _ => subtract_bf16x2(a, b),
        };
        memory::store_u32(to + 4 * index, result);
    }
}
