//! Between tensor memory and registers: `tcgen05.ld` and `tcgen05.st`.
//!
//! A load and the wait for it are one piece of assembly. Registers that are being loaded must not
//! be touched before the wait, and the compiler, which sees ordinary values, may copy values
//! wherever it likes: between two pieces of assembly it would be free to copy those that are not
//! there yet (it does so at the ends of loops). One piece gives it no place for that. What is lost
//! is work of the same warp during a load; other warps have that time.
//!
//! The operand lists need macros, since a template cannot be generic over their length.

use super::Address;
use super::sealed::Sealed;

/// Registers of `.32x32b`: register `i` of lane `t` is column `i` of lane `t` of the warp's 32.
/// Implemented by arrays of 1, 2, 4, … 128.
pub trait Window: Sized + Sealed {
    /// `tcgen05.ld.32x32b` and the wait.
    ///
    /// # Safety
    ///
    /// That of [`load_32x32b`].
    #[doc(hidden)]
    unsafe fn load(address: u32) -> Self;

    /// `tcgen05.st.32x32b`.
    ///
    /// # Safety
    ///
    /// That of [`store_32x32b`].
    #[doc(hidden)]
    unsafe fn store(&self, address: u32);
}

/// Registers of `.16x256b`, the fragment of warp-wide products: register `4 n + 2 h + j` of lane
/// `t` is column `8 n + 2 (t % 4) + j` of lane `t / 4 + 8 h` of 16. Implemented by arrays of 4, 8,
/// … 128.
pub trait Fragment: Sized + Sealed {
    /// `tcgen05.ld.16x256b` and the wait.
    ///
    /// # Safety
    ///
    /// That of [`load_16x256b`].
    #[doc(hidden)]
    unsafe fn load(address: u32) -> Self;

    /// `tcgen05.st.16x256b`.
    ///
    /// # Safety
    ///
    /// That of [`store_16x256b`].
    #[doc(hidden)]
    unsafe fn store(&self, address: u32);
}

/// Loads `N` columns of 32 lanes, one lane of tensor memory to each lane of the warp, and waits:
/// `tcgen05.ld.32x32b` and `tcgen05.wait::ld` (PTX manual, "TensorCore 5th Generation Instructions:
/// tcgen05.ld", "tcgen05.wait").
///
/// # Safety
///
/// All 32 lanes of the warp call it together with one address, whose lane is 32 times the warp's
/// index in its warpgroup; the columns are allocated, and what wrote them is complete and ordered
/// before ([`fence_after`](super::fence_after) behind the wait for its commit).
#[inline(always)]
pub unsafe fn load_32x32b<const N: usize>(address: Address) -> [u32; N]
where
    [u32; N]: Window,
{
    // SAFETY: the caller keeps the contract above.
    unsafe { Window::load(address.bits()) }
}

/// Stores `N` columns of 32 lanes, one lane of tensor memory from each lane of the warp:
/// `tcgen05.st.32x32b` (PTX manual, "TensorCore 5th Generation Instructions: tcgen05.st"). Complete
/// after [`wait_stores`].
///
/// # Safety
///
/// As [`load_32x32b`]; nobody else uses the columns meanwhile.
#[inline(always)]
pub unsafe fn store_32x32b<const N: usize>(address: Address, values: &[u32; N])
where
    [u32; N]: Window,
{
    // SAFETY: the caller keeps the contract above.
    unsafe { Window::store(values, address.bits()) }
}

/// Loads `2 N` columns of 16 lanes as a [`Fragment`], and waits: `tcgen05.ld.16x256b` and
/// `tcgen05.wait::ld` (PTX manual, "TensorCore 5th Generation Instructions: tcgen05.ld",
/// "tcgen05.wait").
///
/// # Safety
///
/// As [`load_32x32b`]; the address's lane is that or 16 more.
#[inline(always)]
pub unsafe fn load_16x256b<const N: usize>(address: Address) -> [u32; N]
where
    [u32; N]: Fragment,
{
    // SAFETY: the caller keeps the contract above.
    unsafe { Fragment::load(address.bits()) }
}

/// Stores `2 N` columns of 16 lanes from a [`Fragment`]: `tcgen05.st.16x256b` (PTX manual,
/// "TensorCore 5th Generation Instructions: tcgen05.st"). Complete after [`wait_stores`].
///
/// # Safety
///
/// As [`load_16x256b`]; nobody else uses the columns meanwhile.
#[inline(always)]
pub unsafe fn store_16x256b<const N: usize>(address: Address, values: &[u32; N])
where
    [u32; N]: Fragment,
{
    // SAFETY: the caller keeps the contract above.
    unsafe { Fragment::store(values, address.bits()) }
}

/// Waits until all stores of this thread to tensor memory are complete: `tcgen05.wait::st` (PTX
/// manual, "TensorCore 5th Generation Instructions: tcgen05.wait").
///
/// # Safety
///
/// All 32 lanes of the warp call it together.
#[inline(always)]
pub unsafe fn wait_stores() {
    // SAFETY: the caller brings the whole warp.
    unsafe { ptx!("tcgen05.wait::st.sync.aligned;", options(nostack)) }
}

/// `$trait` for as many registers as there are indices, 0 written apart.
macro_rules! registers {
    ($trait:ident, $shape:literal, $($index:literal)*) => {
        impl $trait for [u32; 1 $(+ { let _ = $index; 1 })*] {
            #[inline(always)]
            unsafe fn load(address: u32) -> Self {
                // SAFETY: zero is a value of integers. The assembly replaces all of them; an array
                // that a loop initialises would not stay in registers.
                let mut values: Self = unsafe { core::mem::zeroed() };
                // SAFETY: the caller keeps the contract of the function that calls this one.
                unsafe {
                    ptx!(
                        concat!(
                            "tcgen05.ld.sync.aligned.", $shape, ".b32 {{{0}",
                            $(", {", $index, "}",)*
                            "}}, [{address}];"
                        ),
                        "tcgen05.wait::ld.sync.aligned;",
                        out(reg32) values[0], $(out(reg32) values[$index],)*
                        address = in(reg32) address,
                        options(nostack)
                    )
                };
                values
            }

            #[inline(always)]
            unsafe fn store(&self, address: u32) {
                // SAFETY: the caller keeps the contract of the function that calls this one.
                unsafe {
                    ptx!(
                        concat!(
                            "tcgen05.st.sync.aligned.", $shape, ".b32 [{address}], {{{0}",
                            $(", {", $index, "}",)*
                            "}};"
                        ),
                        in(reg32) self[0], $(in(reg32) self[$index],)*
                        address = in(reg32) address,
                        options(nostack)
                    )
                }
            }
        }
    };
}

macro_rules! sealed {
    ($($count:literal)+) => {$(
        impl Sealed for [u32; $count] {}
    )+};
}

sealed!(1 2 4 8 16 32 64 128);

registers!(Window, "32x32b.x1",);
registers!(Window, "32x32b.x2", 1);
registers!(Window, "32x32b.x4", 1 2 3);
registers!(Window, "32x32b.x8", 1 2 3 4 5 6 7);
registers!(Window, "32x32b.x16", 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
registers!(
    Window, "32x32b.x32",
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);
registers!(
    Window, "32x32b.x64",
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
    62 63
);
registers!(
    Window, "32x32b.x128",
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
    62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90
    91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114
    115 116 117 118 119 120 121 122 123 124 125 126 127
);

registers!(Fragment, "16x256b.x1", 1 2 3);
registers!(Fragment, "16x256b.x2", 1 2 3 4 5 6 7);
registers!(Fragment, "16x256b.x4", 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
registers!(
    Fragment, "16x256b.x8",
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);
registers!(
    Fragment, "16x256b.x16",
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
    62 63
);
registers!(
    Fragment, "16x256b.x32",
    1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
    62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90
    91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114
    115 116 117 118 119 120 121 122 123 124 125 126 127
);
