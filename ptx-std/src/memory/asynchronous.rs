//! Copies from global to shared memory that a thread starts and does not wait for: `cp.async`.
//!
//! A thread starts copies, closes them into a group ([`commit_copies`]), and later waits for all
//! but its newest groups ([`wait_copies`]). It may then read what *it* has copied; the others may
//! after a barrier of the block. (The bulk copies of [`crate::tma`] are one thread's for all.)

/// Starts the copy of 16 bytes to shared memory, or of zeros unless `exists`:
/// `cp.async.cg.shared.global.L2::128B` (PTX manual, "Data Movement and Conversion Instructions:
/// cp.async"; the instruction's predicate says when to ignore the source).
///
/// # Safety
///
/// The 16 aligned bytes at `destination` are shared memory that nobody uses until this thread has
/// waited for the copy; if `exists`, those at `source` are global memory that nobody writes
/// meanwhile.
#[inline(always)]
pub unsafe fn copy_async_16(destination: u32, source: u64, exists: bool) {
    // SAFETY: the caller vouches for the addresses.
    unsafe {
        ptx!(
            "{{ .reg .pred ignored;",
            "setp.eq.u32 ignored, {exists}, 0;",
            "cp.async.cg.shared.global.L2::128B [{destination}], [{source}], 16, ignored; }}",
            destination = in(reg32) destination,
            source = in(reg64) source,
            exists = in(reg32) u32::from(exists),
            options(nostack)
        )
    }
}

/// Closes the group of this thread's copies since the last: `cp.async.commit_group` (PTX manual,
/// "Data Movement and Conversion Instructions: cp.async.commit_group").
#[inline(always)]
pub fn commit_copies() {
    // SAFETY: no operands; names only this thread's copies.
    unsafe { ptx!("cp.async.commit_group;", options(nostack)) }
}

/// Waits until at most `PENDING` of this thread's newest groups are unfinished:
/// `cp.async.wait_group` (PTX manual, "Data Movement and Conversion Instructions:
/// cp.async.wait_group").
#[inline(always)]
pub fn wait_copies<const PENDING: u32>() {
    // SAFETY: waits only.
    unsafe { ptx!("cp.async.wait_group {pending};", pending = const PENDING, options(nostack)) }
}
