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
