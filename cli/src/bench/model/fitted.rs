//! The constants that are fitted to measured times, all of them. None belongs to one shape.
//!
//! They were fitted to some of the shapes and are checked on the others, which had no part in it.
//! Measured on one H200, driver 580.159.04, 2026-11-21 (BF16), 2026-11-24 (a scale for each group
//! where the source is read once) and 2026-11-22 (all else).

/// Shapes to whose products they were fitted.
pub const PRODUCT_SHAPES: &[&str] = &["s01", "s02", "s04", "s07", "s08", "s09"];
/// Shapes to whose quantizations they were fitted.
pub const QUANTIZER_SHAPES: &[&str] = &["s01", "s04", "s07", "s08"];

/// Share of clocks in which the tensor core multiplies FP8 at the clock's reference (counted).
pub const BUSY_AT_REFERENCE: f64 = 0.89;
/// What a clock costs without a product, in those of a busy tensor core.
pub const STILL: f64 = 0.2;
/// Energy of a clock of BF16 products, in those of FP8.
pub const BF16_ENERGY: f64 = 0.86;

/// Clocks between the last product of a tile and the next one's first, when plain 16-bit sums leave
/// through boxes in shared memory.
pub const TILE_END: f64 = 3250.0;
/// Bytes of an output that threads store, and of its former value, a clock and multiprocessor.
pub const THREAD_BYTES: f64 = 22.5;
/// Clocks that a stage waits for its scales, beside the wavefronts that read them: the mean of 83
/// and 51, which counters leave for scales of rows and squares, and of rows and columns.
pub const SCALE_WAIT: f64 = 67.0;
/// How time on the chip and time of device memory add up: the sum of their powers. With infinity
/// one would hide the other.
pub const OVERLAP: i32 = 4;

/// Seconds between set-up and the first product and from the last one to the end: launch, barriers,
/// first copies, last stores.
pub const PRODUCT_EDGES: f64 = 7.5e-6;
/// The same of a kernel that quantizes.
pub const QUANTIZE_EDGES: f64 = 6.5e-6;
/// Seconds of the further kernels of a quantization with a scale for each group.
pub const MORE_KERNELS: f64 = 8.0e-6;

/// Bytes of a second that a quantizer moves in those of a copy: rowwise, columnwise, both, squares.
pub const ROW_SHARE: f64 = 0.983;
/// See [`ROW_SHARE`].
pub const COLUMN_SHARE: f64 = 0.95;
/// See [`ROW_SHARE`].
pub const BOTH_SHARE: f64 = 0.915;
/// See [`ROW_SHARE`].
pub const SQUARE_SHARE: f64 = 0.941;
/// The same with a scale for each group, where the source is read once: blocks wait for each other.
pub const ONCE_ROW_SHARE: f64 = 0.797;
/// See [`ONCE_ROW_SHARE`].
pub const ONCE_COLUMN_SHARE: f64 = 0.778;
/// See [`ONCE_ROW_SHARE`].
pub const ONCE_BOTH_SHARE: f64 = 0.82;
/// What MXFP8's codes have of the shares of FP8.
pub const MXFP8_CODES: f64 = 0.997;
/// What MXFP8's exact numbers have of them.
pub const MXFP8_EXACT: f64 = 1.031;
/// Clocks of a multiprocessor for each element that becomes an exact number of NVFP4, rowwise;
/// these three are of the kernels of 2026-11-24, which had a launch for each copy.
pub const NVFP4_ROW: f64 = 0.262;
/// Those of a columnwise copy, transformed.
pub const NVFP4_COLUMN: f64 = 0.352;
/// Those of both.
pub const NVFP4_BOTH: f64 = 0.627;
