//! MXFP8 and NVFP4 kernels on the emulator, byte for byte against the quantizers of the reference:
//! every copy, in every form that a launch can ask for, with checkers on. What no launch may touch
//! is filled with a pattern before it, and compared after it.

mod bench;
mod mxfp8;
mod nvfp4;
mod shape;

use half::bf16;

/// Compares bytes, and says where the first difference is.
pub fn assert_bytes(what: &str, got: &[u8], want: &[u8]) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    if let Some(at) = (0..got.len()).find(|&i| got[i] != want[i]) {
        let count = (0..got.len()).filter(|&i| got[i] != want[i]).count();
        panic!(
            "{what}: byte {at} of {} is {:#04x}, {:#04x} is wanted; {count} differ",
            got.len(),
            got[at],
            want[at]
        );
    }
}

/// Compares BF16 numbers by their bits, NaNs as one.
pub fn assert_bf16(what: &str, got: &[u8], want: &[bf16]) {
    assert_eq!(got.len(), 2 * want.len(), "{what}: length");
    for (i, want) in want.iter().enumerate() {
        let got = bf16::from_le_bytes([got[2 * i], got[2 * i + 1]]);
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "{what}: element {i} is {got:?}, {want:?} is wanted");
    }
}
