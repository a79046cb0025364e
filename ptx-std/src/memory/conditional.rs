//! Accesses to global memory under a condition, `*_if`.
//!
//! A condition costs no branch: the instruction is predicated.

/// Loads four bytes that are constant if `condition` holds, else gives zero: `ld.global.nc.b32`
/// under a predicate (PTX manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// If `condition` holds, the 4 aligned bytes at `address` are global memory that nobody writes
/// while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u32_if(condition: bool, address: u64) -> u32 {
    let a: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "mov.b32 {a}, 0;",
            "@p ld.global.nc.b32 {a}, [{address}]; }}",
            a = out(reg32) a,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    a
}

/// Loads two binary32 that are constant if `condition` holds, else gives zero:
/// `ld.global.nc.v2.b32` under a predicate (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// If `condition` holds, the 8 aligned bytes at `address` are global memory that nobody writes
/// while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_f32x2_if(condition: bool, address: u64) -> [f32; 2] {
    let (a, b): (f32, f32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "@p ld.global.nc.v2.b32 {{{a}, {b}}}, [{address}]; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    [a, b]
}

/// Loads four bytes if `condition` holds, else gives zero: `ld.global.b32` under a predicate (PTX
/// manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// If `condition` holds, the 4 aligned bytes at `address` are global memory that no other thread
/// writes meanwhile.
#[inline(always)]
pub unsafe fn load_u32_if(condition: bool, address: u64) -> u32 {
    let a: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "mov.b32 {a}, 0;",
            "@p ld.global.b32 {a}, [{address}]; }}",
            a = out(reg32) a,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    a
}

/// Loads two binary32 if `condition` holds, else gives zero: `ld.global.v2.b32` under a predicate
/// (PTX manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// If `condition` holds, the 8 aligned bytes at `address` are global memory that no other thread
/// writes meanwhile.
#[inline(always)]
pub unsafe fn load_f32x2_if(condition: bool, address: u64) -> [f32; 2] {
    let (a, b): (f32, f32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "@p ld.global.v2.b32 {{{a}, {b}}}, [{address}]; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b]
}

/// Loads eight bytes if `condition` holds, else gives zeros: `ld.global.v2.b32` under a predicate
/// (PTX manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// If `condition` holds, the 8 aligned bytes at `address` are global memory that no other thread
/// writes meanwhile.
#[inline(always)]
pub unsafe fn load_u32x2_if(condition: bool, address: u64) -> [u32; 2] {
    let (a, b): (u32, u32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "mov.b32 {a}, 0;",
            "mov.b32 {b}, 0;",
            "@p ld.global.v2.b32 {{{a}, {b}}}, [{address}]; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b]
}

/// Loads sixteen bytes if `condition` holds, else gives zeros: `ld.global.v4.b32` under a predicate
/// (PTX manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// If `condition` holds, the 16 aligned bytes at `address` are global memory that no other thread
/// writes meanwhile.
#[inline(always)]
pub unsafe fn load_u32x4_if(condition: bool, address: u64) -> [u32; 4] {
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
            "@p ld.global.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}]; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Stores two binary32 if `condition` holds: `st.global.v2.b32` under a predicate (PTX manual,
/// "Data Movement and Conversion Instructions: st").
///
/// # Safety
///
/// If `condition` holds, the 8 aligned bytes at `address` are global memory that belongs to this
/// thread.
#[inline(always)]
pub unsafe fn store_f32x2_if(condition: bool, address: u64, value: [f32; 2]) {
    let [a, b] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "@p st.global.v2.b32 [{address}], {{{a}, {b}}}; }}",
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            a = in(reg32) a,
            b = in(reg32) b,
            options(nostack)
        )
    }
}

/// Stores sixteen bytes if `condition` holds: `st.global.v4.b32` under a predicate (PTX manual,
/// "Data Movement and Conversion Instructions: st").
///
/// # Safety
///
/// If `condition` holds, the 16 aligned bytes at `address` are global memory that belongs to this
/// thread.
#[inline(always)]
pub unsafe fn store_u32x4_if(condition: bool, address: u64, value: [u32; 4]) {
    let [a, b, c, d] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "@p st.global.v4.b32 [{address}], {{{a}, {b}, {c}, {d}}}; }}",
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            d = in(reg32) d,
            options(nostack)
        )
    }
}

/// Stores eight bytes if `condition` holds: `st.global.v2.b32` under a predicate (PTX manual, "Data
/// Movement and Conversion Instructions: st").
///
/// # Safety
///
/// If `condition` holds, the 8 aligned bytes at `address` are global memory that belongs to this
/// thread.
#[inline(always)]
pub unsafe fn store_u32x2_if(condition: bool, address: u64, value: [u32; 2]) {
    let [a, b] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "@p st.global.v2.b32 [{address}], {{{a}, {b}}}; }}",
            condition = in(reg32) u32::from(condition),
            address = in(reg64) address,
            a = in(reg32) a,
            b = in(reg32) b,
            options(nostack)
        )
    }
}

/// Stores four binary32 if `condition` holds: `st.global.v4.b32` under a predicate (PTX manual,
/// "Data Movement and Conversion Instructions: st").
///
/// # Safety
///
/// As [`store_u32x4_if`].
#[inline(always)]
pub unsafe fn store_f32x4_if(condition: bool, address: u64, value: [f32; 4]) {
    // SAFETY: the caller vouches for the address.
    unsafe { store_u32x4_if(condition, address, value.map(f32::to_bits)) }
}
