//! Memory by address: dynamic shared memory, wide and read-only accesses to global memory, copies
//! that a thread does not wait for, atomics.
//!
//! Why not plain Rust pointers? They work, but they are *generic*: the hardware must find out which
//! memory they name. The functions here say it (`ld.shared`, `ld.global`), offer the 16-byte
//! accesses that `core` has no type for, and the read-only road (`ld.global.nc`) past the coherence
//! checks.
//!
//! Dynamic shared memory is what the launch adds to a block. Its symbol is declared once per
//! program by [`declare_shared_memory!`](crate::declare_shared_memory), aligned to 1024 bytes as
//! 128-byte swizzled tiles need it; [`shared_base`] is its address.

mod asynchronous;
mod conditional;
mod global;
mod narrow;
mod shared;
mod system;

pub use asynchronous::*;
pub use conditional::*;
pub use global::*;
pub use narrow::*;
pub use shared::*;
pub use system::*;
