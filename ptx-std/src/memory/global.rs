//! Global memory: `load_constant_*` by the read-only road, `load_*` and `store_*` by the ordinary
//! one, and wide accesses.

/// Loads a byte that is constant: `ld.global.nc.b8` (PTX manual, "Data Movement and Conversion
/// Instructions: ld.global.nc").
///
/// # Safety
///
/// The byte at `address` is global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u8(address: u64) -> u8 {
    let value: u16;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.b8 {value}, [{address}];",
            value = out(reg16) value,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    value as u8
}

/// Loads two bytes that are constant: `ld.global.nc.b16` (PTX manual, "Data Movement and
/// Conversion Instructions: ld.global.nc").
///
/// # Safety
///
/// The 2 aligned bytes at `address` are global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u16(address: u64) -> u16 {
    let value: u16;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.b16 {value}, [{address}];",
            value = out(reg16) value,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads four bytes that are constant: `ld.global.nc.b32` (PTX manual, "Data Movement and
/// Conversion Instructions: ld.global.nc").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u32(address: u64) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads eight bytes that are constant: `ld.global.nc.b64` (PTX manual, "Data Movement and
/// Conversion Instructions: ld.global.nc").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u64(address: u64) -> u64 {
    let value: u64;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.b64 {value}, [{address}];",
            value = out(reg64) value,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads a binary32 that is constant: `ld.global.nc.b32` (PTX manual, "Data Movement and
/// Conversion Instructions: ld.global.nc").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_f32(address: u64) -> f32 {
    let value: f32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads two binary32 that are constant: `ld.global.nc.v2.b32` (PTX manual, "Data Movement and
/// Conversion Instructions: ld.global.nc").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_f32x2(address: u64) -> [f32; 2] {
    let (a, b): (f32, f32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.v2.b32 {{{a}, {b}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    [a, b]
}

/// Loads sixteen bytes that are constant: `ld.global.nc.v4.b32` (PTX manual, "Data Movement and
/// Conversion Instructions: ld.global.nc").
///
/// # Safety
///
/// The 16 aligned bytes at `address` are global memory that nobody writes while the kernel runs.
#[inline(always)]
pub unsafe fn load_constant_u32x4(address: u64) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.nc.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            address = in(reg64) address,
            options(pure, readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Loads two bytes: `ld.global.b16` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// The 2 aligned bytes at `address` are global memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_u16(address: u64) -> u16 {
    let value: u16;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.b16 {value}, [{address}];",
            value = out(reg16) value,
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads four bytes: `ld.global.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_u32(address: u64) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads a binary32: `ld.global.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_f32(address: u64) -> f32 {
    let value: f32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.b32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    value
}

/// Loads two binary32: `ld.global.v2.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: ld").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are global memory that no other thread writes meanwhile.
#[inline(always)]
pub unsafe fn load_f32x2(address: u64) -> [f32; 2] {
    let (a, b): (f32, f32);
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.global.v2.b32 {{{a}, {b}}}, [{address}];",
            a = out(reg32) a,
            b = out(reg32) b,
            address = in(reg64) address,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b]
}

/// Stores a byte: `st.global.b8` (PTX manual, "Data Movement and Conversion Instructions: st").
///
/// # Safety
///
/// The byte at `address` is global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_u8(address: u64, value: u8) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.b8 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg16) u16::from(value),
            options(nostack)
        )
    }
}

/// Stores two bytes: `st.global.b16` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 2 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_u16(address: u64, value: u16) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.b16 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg16) value,
            options(nostack)
        )
    }
}

/// Stores four bytes: `st.global.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_u32(address: u64, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.b32 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Stores eight bytes: `st.global.b64` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_u64(address: u64, value: u64) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.b64 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg64) value,
            options(nostack)
        )
    }
}

/// Stores a binary32: `st.global.b32` (PTX manual, "Data Movement and Conversion Instructions:
/// st").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_f32(address: u64, value: f32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.b32 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Stores two binary32: `st.global.v2.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_f32x2(address: u64, value: [f32; 2]) {
    let [a, b] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.v2.b32 [{address}], {{{a}, {b}}};",
            address = in(reg64) address,
            a = in(reg32) a,
            b = in(reg32) b,
            options(nostack)
        )
    }
}

/// Stores eight bytes: `st.global.v2.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The 8 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_u32x2(address: u64, value: [u32; 2]) {
    let [a, b] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.v2.b32 [{address}], {{{a}, {b}}};",
            address = in(reg64) address,
            a = in(reg32) a,
            b = in(reg32) b,
            options(nostack)
        )
    }
}

/// Stores sixteen bytes: `st.global.v4.b32` (PTX manual, "Data Movement and Conversion
/// Instructions: st").
///
/// # Safety
///
/// The 16 aligned bytes at `address` are global memory that belongs to this thread for now.
#[inline(always)]
pub unsafe fn store_u32x4(address: u64, value: [u32; 4]) {
    let [a, b, c, d] = value;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "st.global.v4.b32 [{address}], {{{a}, {b}, {c}, {d}}};",
            address = in(reg64) address,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            d = in(reg32) d,
            options(nostack)
        )
    }
}

/// Adds `value` and returns what was there, in no order with other accesses:
/// `atom.relaxed.gpu.global.add.u32` (PTX manual, "Parallel Synchronization and Communication
/// Instructions: atom").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that can be read and written.
#[inline(always)]
pub unsafe fn fetch_add_u32(address: u64, value: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "atom.relaxed.gpu.global.add.u32 {old}, [{address}], {value};",
            old = out(reg32) old,
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    };
    old
}

/// Replaces `expected` by `desired` and returns what was there, for the threads of this device:
/// `atom.acq_rel.gpu.global.cas.b32` (PTX manual, "Parallel Synchronization and Communication
/// Instructions: atom").
///
/// `core`'s atomics work on the device too, but LLVM drops acquire and release from most of their
/// read-modify-write forms; where order matters, say it in PTX.
///
/// # Safety
///
/// The 4 aligned bytes at `address` can be read and written by this device.
#[inline(always)]
pub unsafe fn compare_exchange_u32(address: u64, expected: u32, desired: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "atom.acq_rel.gpu.global.cas.b32 {old}, [{address}], {expected}, {desired};",
            old = out(reg32) old,
            address = in(reg64) address,
            expected = in(reg32) expected,
            desired = in(reg32) desired,
            options(nostack)
        )
    };
    old
}

/// Raises the number at `address` to `value`, if that is larger, in no order with other accesses:
/// `red.relaxed.gpu.global.max.u32` (PTX manual, "Parallel Synchronization and Communication
/// Instructions: red").
///
/// # Safety
///
/// The 4 aligned bytes at `address` are global memory that can be read and written.
#[inline(always)]
pub unsafe fn reduce_max_u32(address: u64, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "red.relaxed.gpu.global.max.u32 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Adds `value`, after which all earlier accesses of this thread are visible to whoever acquires
/// the sum: `red.release.gpu.global.add.u32` (PTX manual, "Parallel Synchronization and
/// Communication Instructions: red").
///
/// # Safety
///
/// As [`reduce_max_u32`].
#[inline(always)]
pub unsafe fn reduce_add_release_u32(address: u64, value: u32) {
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "red.release.gpu.global.add.u32 [{address}], {value};",
            address = in(reg64) address,
            value = in(reg32) value,
            options(nostack)
        )
    }
}

/// Loads four bytes that other threads of the device may write meanwhile, and sees all that came
/// before what it finds was released: `ld.acquire.gpu.global.u32` (PTX manual, "Data Movement and
/// Conversion Instructions: ld").
///
/// # Safety
///
/// The 4 aligned bytes at `address` can be read.
#[inline(always)]
pub unsafe fn load_acquire_u32(address: u64) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.acquire.gpu.global.u32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(nostack)
        )
    };
    value
}

/// Loads four bytes that other threads of the device may write meanwhile, in no order with other
/// accesses: `ld.relaxed.gpu.global.u32` (PTX manual, "Data Movement and Conversion Instructions:
/// ld").
///
/// # Safety
///
/// As [`load_acquire_u32`].
#[inline(always)]
pub unsafe fn load_relaxed_u32(address: u64) -> u32 {
    let value: u32;
    // SAFETY: the caller vouches for the address.
    unsafe {
        ptx!(
            "ld.relaxed.gpu.global.u32 {value}, [{address}];",
            value = out(reg32) value,
            address = in(reg64) address,
            options(nostack)
        )
    };
    value
}
