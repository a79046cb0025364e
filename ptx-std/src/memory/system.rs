//! Memory that the host and other devices use at the same time.
/// Loads four bytes that another device or the host may write meanwhile:
/// `ld.relaxed.sys.global.b32` (PTX manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// The 4 aligned bytes at `address` can be read by this device.
#[inline(always)]
pub unsafe fn load_system_u32(address: u64) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.relaxed.sys.global.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(nostack)
        )
    };
    value
}

/// Stores four bytes, after which all earlier writes of this thread are visible to whoever acquires
/// them, the host included: `st.release.sys.global.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The 4 aligned bytes at `address` can be written by this device.
#[inline(always)]
pub unsafe fn store_system_release_u32(address: u64, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.release.sys.global.b32 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Replaces `expected` by `desired` and returns what was there: `atom.acq_rel.sys.global.cas.b32`
/// (PTX manual, "Parallel Synchronization and Communication Instructions: atom").
///
/// `core`'s atomics work on the device too, but LLVM drops acquire and release from most of their
/// read-modify-write forms; where order matters, say it in PTX.
///
/// # Safety
///
/// The 4 aligned bytes at `address` can be read and written by this device.
#[inline(always)]
pub unsafe fn compare_exchange_system_u32(address: u64, expected: u32, desired: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "atom.acq_rel.sys.global.cas.b32 {old}, [{address}], {expected}, {desired};",
            old = out(reg32) old,
            address = in(reg64) address,
            expected = in(reg32) expected,
            desired = in(reg32) desired,
            options(nostack)
        )
    };
    old
}
