//! What to tell the compiler, or not.

/// The same value, about which the compiler knows nothing: `mov.b32` (PTX manual, "Data Movement
/// and Conversion Instructions: mov").
///
/// What is computed from it is computed where it stands, not moved to before a loop or a branch,
/// where it would hold registers that are needed meanwhile.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    let same: u32;
    // SAFETY: copies a register.
    unsafe {
        ptx!(
            "mov.b32 {same}, {value};",
            same = out(reg32) same,
            value = in(reg32) value,
            options(nomem, nostack, preserves_flags)
        )
    };
    same
}

/// As [`opaque`], of eight bytes: `mov.b64`. A condition made from the result is asked where it
/// stands, so that no loop is written twice for its answers.
#[inline(always)]
pub fn opaque_u64(value: u64) -> u64 {
    let same: u64;
    // SAFETY: copies a register.
    unsafe {
        ptx!(
            "mov.b64 {same}, {value};",
            same = out(reg64) same,
            value = in(reg64) value,
            options(nomem, nostack, preserves_flags)
        )
    };
    same
}
