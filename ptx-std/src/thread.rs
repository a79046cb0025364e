//! Who am I: indices of threads, lanes, warps and blocks, and exchange between lanes.
//!
//! A grid is made of blocks, a block of warps, a warp of 32 lanes that share an instruction. Four
//! warps whose first index is a multiple of four form a *warpgroup*, the unit of [`crate::wgmma`].
//!
//! The warp-wide functions ([`ballot`], [`shuffle_xor`], …) name all 32 lanes, so the whole warp
//! must reach them together.

/// Lanes of a warp.
pub const WARP: u32 = 32;

/// Index of this thread in its block along x: `%tid.x` (PTX manual, "Special Registers: %tid").
#[inline(always)]
pub fn thread_index() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %tid.x;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Index of this block in the grid along x: `%ctaid.x` (PTX manual, "Special Registers: %ctaid").
#[inline(always)]
pub fn block_index() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %ctaid.x;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Index of this block in the grid along y: `%ctaid.y` (PTX manual, "Special Registers: %ctaid").
#[inline(always)]
pub fn block_index_y() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %ctaid.y;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Threads of a block along x: `%ntid.x` (PTX manual, "Special Registers: %ntid").
#[inline(always)]
pub fn block_threads() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %ntid.x;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Blocks of the grid along x: `%nctaid.x` (PTX manual, "Special Registers: %nctaid").
#[inline(always)]
pub fn grid_blocks() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %nctaid.x;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Blocks of the grid along y: `%nctaid.y` (PTX manual, "Special Registers: %nctaid").
#[inline(always)]
pub fn grid_blocks_y() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %nctaid.y;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Index of this thread in its warp: `%laneid` (PTX manual, "Special Registers: %laneid").
#[inline(always)]
pub fn lane_index() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe {
        ptx!("mov.u32 {r}, %laneid;", r = out(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    value
}

/// Index of this thread's warp in a one-dimensional block, the same register in every lane.
///
/// It is computed from `%tid.x`, since `%warpid` may change while a kernel runs, and broadcast from
/// lane 0 so that the assembler knows it to be uniform (`shfl.sync.idx`; PTX manual, "Data Movement
/// and Conversion Instructions: shfl.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn warp_index() -> u32 {
    // SAFETY: the caller brings the whole warp.
    unsafe { shuffle_index(thread_index() / WARP, 0) }
}

/// One bit per lane, set where `condition` holds: `vote.sync.ballot` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: vote.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn ballot(condition: bool) -> u32 {
    let mask: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "{{ .reg .pred p;",
            "setp.ne.u32 p, {condition}, 0;",
            "vote.sync.ballot.b32 {mask}, p, 0xffffffff; }}",
            mask = out(reg32) mask,
            condition = in(reg32) u32::from(condition),
            options(nomem, nostack, preserves_flags)
        )
    };
    mask
}

/// Lets the thread sleep for about so long, up to twice as long and at most for a millisecond:
/// `nanosleep` (PTX manual, "Control Flow Instructions: nanosleep").
#[inline(always)]
pub fn sleep(nanoseconds: u32) {
    // SAFETY: waits only.
    unsafe { ptx!("nanosleep.u32 {time};", time = in(reg32) nanoseconds, options(nomem, nostack)) }
}

/// `value` of lane `lane`: `shfl.sync.idx` (PTX manual, "Data Movement and Conversion Instructions:
/// shfl.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn shuffle_index(value: u32, lane: u32) -> u32 {
    let result: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "shfl.sync.idx.b32 {result}, {value}, {lane}, 31, 0xffffffff;",
            result = out(reg32) result,
            value = in(reg32) value,
            lane = in(reg32) lane,
            options(nomem, nostack, preserves_flags)
        )
    };
    result
}

/// `value` of the lane whose index differs in the bits of `mask`: `shfl.sync.bfly` (PTX manual,
/// "Data Movement and Conversion Instructions: shfl.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn shuffle_xor(value: u32, mask: u32) -> u32 {
    let result: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "shfl.sync.bfly.b32 {result}, {value}, {mask}, 31, 0xffffffff;",
            result = out(reg32) result,
            value = in(reg32) value,
            mask = in(reg32) mask,
            options(nomem, nostack, preserves_flags)
        )
    };
    result
}

/// `value` of the lane `distance` below, or the lane's own where there is none: `shfl.sync.up` (PTX
/// manual, "Data Movement and Conversion Instructions: shfl.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn shuffle_up(value: u32, distance: u32) -> u32 {
    let result: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "shfl.sync.up.b32 {result}, {value}, {distance}, 0, 0xffffffff;",
            result = out(reg32) result,
            value = in(reg32) value,
            distance = in(reg32) distance,
            options(nomem, nostack, preserves_flags)
        )
    };
    result
}

/// [`shuffle_xor`] of a binary32.
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn shuffle_xor_f32(value: f32, mask: u32) -> f32 {
    // SAFETY: the caller brings the whole warp.
    f32::from_bits(unsafe { shuffle_xor(value.to_bits(), mask) })
}

/// [`shuffle_up`] of a 64-bit integer, as two exchanges.
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn shuffle_up_i64(value: i64, distance: u32) -> i64 {
    // SAFETY: the caller brings the whole warp.
    let (low, high) =
        unsafe { (shuffle_up(value as u32, distance), shuffle_up((value >> 32) as u32, distance)) };
    (i64::from(high) << 32) | i64::from(low)
}

/// Smallest `value` of the warp, in every lane: `redux.sync.min.u32` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: redux.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn warp_min(value: u32) -> u32 {
    let result: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "redux.sync.min.u32 {result}, {value}, 0xffffffff;",
            result = out(reg32) result,
            value = in(reg32) value,
            options(nomem, nostack, preserves_flags)
        )
    };
    result
}

/// Largest `value` of the warp, in every lane: `redux.sync.max.u32` (PTX manual, "Parallel
/// Synchronization and Communication Instructions: redux.sync").
///
/// # Safety
///
/// All 32 lanes of the warp must call it together.
#[inline(always)]
pub unsafe fn warp_max(value: u32) -> u32 {
    let result: u32;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "redux.sync.max.u32 {result}, {value}, 0xffffffff;",
            result = out(reg32) result,
            value = in(reg32) value,
            options(nomem, nostack, preserves_flags)
        )
    };
    result
}
