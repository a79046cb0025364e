//! High-precision weights to what the products read, one file per family of recipes.
//!
//! All kernels here take the address of a flag in device memory: where it is set, the launch writes
//! nothing. A graph that quantizes can so be replayed without doing it anew.

pub mod cast;
