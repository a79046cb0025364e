//! The device standard library for GPU kernels in Rust: thin, documented wrappers over PTX.
//!
//! rustc compiles `core` for `nvptx64-nvidia-cuda`, but `core` knows neither thread indices nor
//! barriers nor tensor cores. This crate adds them, one module per hardware unit, and nothing else:
//! no kernels, no launch code, no dependencies.
//!
//! | module | unit |
//! | --- | --- |
//! | [`thread`] | indices of threads, warps and blocks; exchange between the lanes of a warp |
//! | [`sync`] | block, named, warp and cluster barriers; fences; register budgets |
//! | [`mbarrier`] | barriers in shared memory that count threads and bytes |
//! | [`tma`] | bulk tensor copies between global and shared memory |
//! | [`cluster`] | ranks and addresses in a cluster, barriers of other blocks |
//! | [`launch_control`] | work taken over from clusters that have not started (Blackwell) |
//! | [`wgmma`] | matrix products by a warpgroup, operands in shared memory (Hopper) |
//! | [`tcgen05`] | matrix products with sums in tensor memory (Blackwell) |
//! | [`mma`] | matrix products by a warp, operands in registers |
//! | [`memory`] | shared memory by address, wide and read-only global accesses, asynchronous copies, atomics |
//! | [`convert`] | rounding between binary32 and the 16- and 8-bit formats; fused multiply-add |
//! | [`convert_small`] | FP8 to binary16, packed 16-bit arithmetic, bytes of registers |
//! | [`convert_blocks`] | E2M1 and UE8M0, the formats of block-scaled numbers (Blackwell) |
//! | [`hint`] | values about which the compiler knows nothing |
//!
//! # How a wrapper is made
//!
//! Each wrapper is one [`ptx!`] statement, which is [`core::arch::asm!`] on the device. A wrapper
//! that computes from its operands alone says `pure`; everything else may be neither removed nor
//! moved across another access to memory. All wrappers are `#[inline(always)]`: a kernel has no
//! calls.
//!
//! # On the host
//!
//! The crate also type-checks on any other target with stable Rust, so that `cargo doc`, clippy and
//! editors work on kernels. There every wrapper panics when called.
//!
//! # Addresses
//!
//! Global addresses are `u64`, as the host passes them. Shared memory is named by 32-bit addresses
//! in the `.shared` window, because the instructions for barriers, tensor copies and matrix
//! descriptors take those, and because the compiler then emits `ld.shared` and not the slower
//! generic load.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
// Off the device the operands of `ptx!` vanish.
#![cfg_attr(
    not(target_arch = "nvptx64"),
    allow(unused_variables, unused_mut, unused_assignments, unused_macros, unreachable_code)
)]

/// One piece of inline PTX: [`core::arch::asm!`] on the device, a panic elsewhere.
///
/// The crate that expands it on the device needs `#![feature(asm_experimental_arch)]`.
#[macro_export]
macro_rules! ptx {
    ($($operands:tt)*) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            ::core::arch::asm!($($operands)*)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $crate::device_only()
        }
    }};
}

/// Generic address of the first parameter of the kernel `$entry`, in whose body it must stand.
///
/// Tensor maps that travel by value inside a kernel's argument are used through this address;
/// taking a Rust reference instead would make the compiler copy the argument to the stack. `mov` of
/// a parameter's name and `cvta.param` (PTX manual, "Data Movement and Conversion Instructions:
/// cvta").
///
/// # Safety
///
/// Expands to inline assembly and needs an `unsafe` block; `$entry` must be the kernel's unmangled
/// name, and nothing may be written through the address.
#[macro_export]
macro_rules! param_address {
    ($entry:ident) => {{
        let address: u64;
        $crate::ptx!(
            concat!("mov.b64 {address}, ", stringify!($entry), "_param_0;"),
            "cvta.param.u64 {address}, {address};",
            address = out(reg64) address,
            options(pure, nomem, nostack, preserves_flags)
        );
        address
    }};
}

// The modules come after the macros, which they use by textual scope.
pub mod cluster;
pub mod convert;
pub mod convert_blocks;
pub mod convert_small;
pub mod hint;
pub mod launch_control;
pub mod mbarrier;
pub mod memory;
pub mod mma;
pub mod sync;
pub mod tcgen05;
pub mod thread;
pub mod tma;
pub mod wgmma;

/// What [`ptx!`] is off the device.
///
/// # Safety
///
/// None is needed: it panics. It is `unsafe` so that the blocks around [`ptx!`] are the same on
/// both sides.
#[doc(hidden)]
#[cold]
pub unsafe fn device_only() -> ! {
    panic!("this function is device code: it runs on a GPU only")
}
