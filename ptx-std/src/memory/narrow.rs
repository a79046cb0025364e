//! Bytes, and predicated accesses of other widths than those of the neighbouring modules.

/// Loads sixteen bytes that are constant if `condition` holds, else gives zeros:
/// `ld.global.nc.v4.b32` under a predicate (PTX manual, "Data Movement and Conversion Instructions:
/// ld.global.nc").
///
/// # Safety
///
/// If `condition` holds, the 16 aligned bytes at `address` are global memory that nobody writes
/// while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u32x4_if(condition: bool, address: u64) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "mov.b32 {c}, 0;",
            "mov.b32 {d}, 0;",
            "@p ld.global.nc.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}]; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Loads a byte that is constant: `ld.global.nc.u8` (PTX manual, "Data Movement and Conversion
/// Instructions: ld.global.nc").
///
/// # Safety
///
/// The byte at `address` is global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_byte(address: u64) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.u8 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Stores four bytes if `condition` holds: `st.global.b32` under a predicate (PTX manual, "Data
/// Movement and Conversion Instructions: st").
///
/// # Safety
///
/// If `condition` holds, the 4 aligned bytes at `address` are global memory that belongs to this
/// thread.
#[inline(always)]
pub unsafe fn store_u32_if(condition: bool, address: u64, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "@p st.global.b32 [{address}], {value}; }}",
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Stores the lowest byte of `value`: `st.global.b8` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The byte at `address` is global memory that belongs to this thread.
#[inline(always)]
pub unsafe fn store_byte(address: u64, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.b8 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Stores the lowest byte of `value`: `st.shared.b8` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The byte at `address` is shared memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_shared_byte(address: u32, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.shared.b8 [{address}], {value};",
            address = in(reg32) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}
