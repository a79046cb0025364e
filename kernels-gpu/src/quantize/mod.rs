//! High-precision tensors to what the products read and back, one folder per family of recipes.
//!
//! All kernels here take the address of a flag in device memory: where it is set, the launch writes
//! nothing. A graph that quantizes can so be replayed without doing it anew. (Those that pad rows
//! or align blocks know no such flag.)

pub mod cast;
pub mod fp8;
pub mod mx;
pub mod pad;
