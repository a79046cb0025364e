//! Memory that the host and other devices use at the same time: loads and stores. What reads and
//! writes in one is atomic for both sides only where the link between them has native atomics.

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
