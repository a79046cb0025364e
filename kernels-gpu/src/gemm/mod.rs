//! Grouped products `D_g = alpha_g · A_g · B_g + beta_g · D_g (+ bias)`.
//!
//! All kernels are persistent: a block makes one tile after the other of all groups' tiles. They
//! share [`scheduler`], which says where a tile is, and [`epilogue`], which says what becomes of a
//! finished sum. Between the two stands one main loop per architecture:
//!
//! * [`simt`]: readable, any type, any size, any alignment;
//! * [`sm90`]: tensor copies and wgmma;
//! * [`sm100`]: tensor copies and tcgen05.
//!
//! The two of tensor cores also share [`task`], by which the warp that copies tells the others what
//! comes next, and the sizes of [`shape`]; [`product`]
//! names what they multiply, [`scales`] brings the scales of FP8 to their sums.

pub mod element;
pub mod epilogue;
pub mod former;
pub mod product;
pub mod scales;
pub mod scheduler;
pub mod shape;
pub mod simt;
pub mod sm100;
pub mod sm90;
pub mod task;
