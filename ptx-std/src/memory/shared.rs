//! The block's shared memory, by address in the `.shared` window.

/// Declares the dynamic shared memory of the kernels of this crate; call it once, at module level,
/// in the crate that is compiled to PTX (PTX manual, "State Spaces: Shared State Space", `.extern
/// .shared`). Declares nothing off the device.
#[macro_export]
macro_rules! declare_shared_memory {
    () => {
        #[cfg(target_arch = "nvptx64")]
        ::core::arch::global_asm!(".extern .shared .align 1024 .b8 ptx_std_shared[];");
    };
}

/// Address of the first byte of the block's dynamic shared memory, aligned to 1024 bytes.
///
/// # Safety
///
/// The program must contain [`declare_shared_memory!`](crate::declare_shared_memory).
#[inline(always)]
pub unsafe fn shared_base() -> u32 {
    let address: u32;
    // SAFETY: the caller has declared the symbol.
    unsafe {
        ptx!(
            "mov.u32 {address}, ptx_std_shared;",
            address = out(reg32) address,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
    address
}

/// Loads a byte: `ld.shared.b8` (PTX manual, "Data Movement and Conversion Instructions: ld").
///
/// # Safety
///
/// The byte at `address` is shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_u8(address: u32) -> u8 {
    let value: u16;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.b8 {value}, [{address}];",
            value = out(reg16) value,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value as u8
}

/// Loads four bytes: `ld.shared.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_u32(address: u32) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads eight bytes: `ld.shared.b64` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_u64(address: u32) -> u64 {
    let value: u64;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.b64 {value}, [{address}];",
            value = out(reg64) value,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads a binary32: `ld.shared.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_f32(address: u32) -> f32 {
    let value: f32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads 8 bytes as two words: `ld.shared.v2.u32` (PTX manual, "Data Movement and Conversion
/// Instructions: ld").
///
/// # Safety
///
/// The 8 bytes at `address` are the block's and initialised; the address is a multiple of 8.
#[inline(always)]
pub unsafe fn load_shared_u32x2(address: u32) -> [u32; 2] {
    let (a, b): (u32, u32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.v2.u32 {{{a}, {b}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            address = in(reg32) address,
            options(nostack)
        )
    };
    [a, b]
}

/// Loads sixteen bytes: `ld.shared.v4.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: ld").
///
/// # Safety
///
/// The 16 aligned bytes at `address` are shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_u32x4(address: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Loads two binary32: `ld.shared.v2.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: ld").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_f32x2(address: u32) -> [f32; 2] {
    let (a, b): (f32, f32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.v2.b32 {{{a}, {b}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b]
}

/// Loads four binary32: `ld.shared.v4.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: ld").
///
/// # Safety
///
/// The 16 aligned bytes at `address` are shared memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_shared_f32x4(address: u32) -> [f32; 4] {
    let (a, b, c, d): (f32, f32, f32, f32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.shared.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            address = in(reg32) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Stores four bytes: `st.shared.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are shared memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_shared_u32(address: u32, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.shared.b32 [{address}], {value};",
            address = in(reg32) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Stores eight bytes: `st.shared.b64` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are shared memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_shared_u64(address: u32, value: u64) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.shared.b64 [{address}], {value};",
            address = in(reg32) address,
            value = in(reg64) value,
            options(nostack)
        )
    }
}

/// Stores a binary32: `st.shared.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are shared memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_shared_f32(address: u32, value: f32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.shared.b32 [{address}], {value};",
            address = in(reg32) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Stores two binary32: `st.shared.v2.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are shared memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_shared_f32x2(address: u32, [a, b]: [f32; 2]) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.shared.v2.b32 [{address}], {{{a}, {b}}};",
            address = in(reg32) address,
            a = in(reg32) a,
            b = in(reg32) b,
            options(nostack)
        )
    }
}

/// Stores sixteen bytes: `st.shared.v4.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The 16 aligned bytes at `address` are shared memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_shared_u32x4(address: u32, value: [u32; 4]) {
    let [a, b, c, d] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.shared.v4.b32 [{address}], {{{a}, {b}, {c}, {d}}};",
            address = in(reg32) address,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            d = in(reg32) d,
            options(nostack)
        )
    }
}
