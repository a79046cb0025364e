//! Grouped products `D_g = alpha_g · A_g · B_g + beta_g · D_g (+ bias)`.
//!
//! All kernels are persistent: a block takes every so many-th tile of all groups' tiles. They share
//! [`scheduler`], which says which tile comes next, and [`epilogue`], which says what becomes of a
//! finished sum. Between the two stands one main loop per architecture:
//!
//! * [`simt`]: readable, any type, any size, any alignment;
//! * [`sm90`]: tensor copies and wgmma.

pub mod element;
pub mod epilogue;
pub mod scheduler;
pub mod simt;
pub mod sm90;
