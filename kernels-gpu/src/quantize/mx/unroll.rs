//! Loops without an index at run time: registers have none, and an array that is indexed in a loop
//! which the compiler leaves as it is would lie in memory.

use ptx_std::hint::opaque_u64;

use crate::abi::mx::MxCopy;

/// A copy whose addresses the compiler takes to be others in each tile. Else it would ask but once
/// which parts are wanted, and write a loop over the tiles for each answer.
#[inline(always)]
pub fn anew(copy: &MxCopy) -> MxCopy {
    MxCopy {
        data: opaque_u64(copy.data),
        scales: opaque_u64(copy.scales),
        exact: opaque_u64(copy.exact),
        ..*copy
    }
}

/// Calls `f` with 0 to 3.
#[inline(always)]
pub fn each4(mut f: impl FnMut(usize)) {
    f(0);
    f(1);
    f(2);
    f(3);
}

/// Calls `f` with 0 to 7.
#[inline(always)]
pub fn each8(mut f: impl FnMut(usize)) {
    f(0);
    f(1);
    f(2);
    f(3);
    f(4);
    f(5);
    f(6);
    f(7);
}

/// Calls `f` with 0 to 15.
#[inline(always)]
pub fn each16(mut f: impl FnMut(usize)) {
    f(0);
    f(1);
    f(2);
    f(3);
    f(4);
    f(5);
    f(6);
    f(7);
    f(8);
    f(9);
    f(10);
    f(11);
    f(12);
    f(13);
    f(14);
    f(15);
}

/// What `f` makes of 0 to 3.
#[inline(always)]
pub fn array4<T>(mut f: impl FnMut(usize) -> T) -> [T; 4] {
    [f(0), f(1), f(2), f(3)]
}

/// What `f` makes of 0 to 7.
#[inline(always)]
pub fn array8<T>(mut f: impl FnMut(usize) -> T) -> [T; 8] {
    [f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)]
}

/// What `f` makes of 0 to 15.
#[inline(always)]
pub fn array16<T>(mut f: impl FnMut(usize) -> T) -> [T; 16] {
    [
        f(0),
        f(1),
        f(2),
        f(3),
        f(4),
        f(5),
        f(6),
        f(7),
        f(8),
        f(9),
        f(10),
        f(11),
        f(12),
        f(13),
        f(14),
        f(15),
    ]
}
