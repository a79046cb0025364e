//! MXFP8 and NVFP4 as the kernels see them: how data and scales lie, and the arguments of the
//! kernels that make and read them.
//!
//! A *block* shares a scale of one byte: 32 neighbours or 32 × 32 elements and a power of two
//! (E8M0) in MXFP8; 16 neighbours or 16 × 16 elements and an E4M3 number in NVFP4, whose groups (or
//! rows) have a scale in FP32 besides. Blocks along the rows begin at the first row of each group.
//!
//! # Exact copies
//!
//! The value of an element, without the FP32 scale of NVFP4, has at most 8 significant bits, so
//! BF16 holds it exactly and the tensor cores of Hopper multiply it exactly. The quantize kernels
//! write it on request, from the same read of the source.
//!
//! The exceptions are MXFP8 values outside BF16's exponents. Below 2⁻¹³³, the smallest subnormal
//! number, they are rounded to nearest even, which can touch blocks with an exponent below 3 (E4M3;
//! magnitudes up to 448 · 2⁻¹²⁵) or below 10 (E5M2; up to 57344 · 2⁻¹¹⁸). From 2¹²⁸ on they become
//! infinite, as they do in FP32; only blocks with an infinity in the source reach that.
//!
//! | copy | MXFP8 | NVFP4 |
//! | --- | --- | --- |
//! | data, rowwise | `[rows, columns]` | `[rows, columns / 2]` |
//! | data, columnwise | `[rows, columns]` | tokens `[columns, padded rows / 2]`, weights `[groups, columns, rows / 2]` |
//! | exact, rowwise | `[rows, columns]` | `[rows, columns]` |
//! | exact, columnwise | `[rows, columns]` | tokens `[padded rows, columns]`, weights `[groups, rows, columns]` |
//!
//! Both exact copies of squares have the same values; of weights one of them will do for every
//! product.
//!
//! *Padded rows* are those of [`padded_rows`](super::quantize::padded_rows); a group begins at its
//! padded offset there, and what follows its rows, up to the next multiple of 128, is zero.

use super::quantize::ROW_BLOCK;

/// Elements of a block of MXFP8, or on a side of it.
pub const MXFP8_BLOCK: u32 = 32;
/// Elements of a block of NVFP4, or on a side of it.
pub const NVFP4_BLOCK: u32 = 16;
/// Rows of a tile of scales: the scales of a group are padded to whole tiles.
pub const SCALE_TILE_ROWS: u32 = 128;
/// Scales of a tile along the reduction.
pub const SCALE_TILE_BLOCKS: u32 = 4;
/// Bytes of a tile of scales.
pub const SCALE_TILE_BYTES: u32 = SCALE_TILE_ROWS * SCALE_TILE_BLOCKS;
/// The largest block scale of NVFP4, if all of E4M3 is used.
pub const FULL_BOUND: f32 = 448.0;
/// The largest block scale of NVFP4 that leaves room for a scale larger by one half.
pub const REDUCED_BOUND: f32 = 256.0;

/// Where the scales of one copy lie. Each group has a matrix of its own, of whole tiles; its first
/// byte is [`MxScales::base`].
///
/// | copy | scale of | compact | swizzled, `i` and `j` |
/// | --- | --- | --- | --- |
/// | rowwise | (row, column block) | `[padded rows, (columns / block)₄]` | row, column block |
/// | columnwise, MXFP8 | (row block, column) | `[padded rows / 32, columns₁₂₈]` | column, row block |
/// | columnwise, NVFP4 | (row block, column) | `[columns₁₂₈, padded rows / 16]` | column, row block |
///
/// Padded rows are here the group's rows, rounded up to 128; an index means rounded up to a
/// multiple. Swizzled, scale `(i, j)` lies at `((i / 128) · tiles + j / 4) · 512 + i % 32 · 16 + i
/// % 128 / 32 · 4 + j % 4`, with `tiles` the number of tiles along `j`. Padding is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxScales {
    /// Elements of a block: [`MXFP8_BLOCK`] or [`NVFP4_BLOCK`].
    pub block: u32,
    /// Columns of the source.
    pub columns: u32,
    /// Whether the copy is the columnwise one.
    pub columnwise: bool,
    /// Whether the scales are swizzled.
    pub swizzled: bool,
}

impl MxScales {
    /// Scales for each padded row: what lies before a group is as many times that many bytes as
    /// rows are before it (rowwise), or as blocks of rows are (columnwise).
    const fn width(&self) -> u64 {
        if self.columnwise {
            self.columns.next_multiple_of(SCALE_TILE_ROWS) as u64
        } else {
            self.columns.div_ceil(self.block).next_multiple_of(SCALE_TILE_BLOCKS) as u64
        }
    }

    /// The first byte of a group's scales; `padded_row` is the number of rows of all groups before,
    /// each padded to 128. Of the number of all padded rows: the bytes of the array.
    #[inline(always)]
    pub const fn base(&self, padded_row: u64) -> u64 {
        let lines = if self.columnwise { padded_row / self.block as u64 } else { padded_row };
        lines * self.width()
    }

    /// Tiles along the reduction in the matrix of a group with `rows` rows.
    #[inline(always)]
    pub const fn tiles(&self, rows: u32) -> u32 {
        let blocks = if self.columnwise {
            rows.next_multiple_of(SCALE_TILE_ROWS) / self.block
        } else {
            self.columns.div_ceil(self.block)
        };
        blocks.div_ceil(SCALE_TILE_BLOCKS)
    }

    /// Bytes from one compact line of a group with `rows` rows to the next.
    #[inline(always)]
    pub const fn pitch(&self, rows: u32) -> u64 {
        if self.columnwise && self.block == NVFP4_BLOCK {
            (rows.next_multiple_of(SCALE_TILE_ROWS) / self.block) as u64
        } else {
            self.width()
        }
    }

    /// Offset in its group of the scale of row block `row` and column block `column`; the blocks of
    /// a rowwise copy are one row high, those of a columnwise copy one column wide.
    #[inline(always)]
    pub const fn offset(&self, row: u32, column: u32, rows: u32) -> u64 {
        let (i, j) = if self.columnwise { (column, row) } else { (row, column) };
        if self.swizzled {
            let tile = (i / SCALE_TILE_ROWS) as u64 * self.tiles(rows) as u64
                + (j / SCALE_TILE_BLOCKS) as u64;
            let inside = i % 32 * 16 + i % SCALE_TILE_ROWS / 32 * 4 + j % SCALE_TILE_BLOCKS;
            return tile * SCALE_TILE_BYTES as u64 + inside as u64;
        }
        let (line, place) =
            if self.columnwise && self.block == MXFP8_BLOCK { (j, i) } else { (i, j) };
        line as u64 * self.pitch(rows) + place as u64
    }
}

/// One copy of a tensor, as a quantize kernel writes it. Each part may be absent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct MxCopy {
    /// Device address of the codes; 0: not wanted.
    pub data: u64,
    /// Device address of the block scales, a byte each; 0: not wanted.
    pub scales: u64,
    /// Device address of the exact copy, BF16; 0: not wanted.
    pub exact: u64,
    /// 1: the scales are swizzled.
    pub swizzled: u32,
    /// Zero.
    pub reserved: u32,
}

impl MxCopy {
    /// Whether any part of it is wanted.
    #[inline(always)]
    pub const fn is_wanted(&self) -> bool {
        self.data != 0 || self.scales != 0 || self.exact != 0
    }

    /// Whether codes, or scales of theirs, are wanted.
    #[inline(always)]
    pub const fn is_in_codes(&self) -> bool {
        self.data | self.scales != 0
    }
}

/// The source of a quantize kernel. With a group table it is tokens, `[rows, columns]`, and the
/// table comes from a set-up with `tile_m`, `tile_n` and `row_align` 128, so that its tile prefix
/// counts tiles of 128 × 128. Without one it is weights, `[groups, rows, columns]`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct MxSource {
    /// Device address of the group table; 0: every group has `rows` rows.
    pub table: u64,
    /// Device address of the source; 0: see `array`.
    pub base: u64,
    /// Device address of `u64[groups]`, addresses of discrete sources; 0: use `base`.
    pub array: u64,
    /// Device address of a `u32`; where it is not zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// Number of groups.
    pub groups: u32,
    /// Rows of every group, where there is no table.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// With a table, rows of the token buffer, padded: see
    /// [`padded_rows`](super::quantize::padded_rows).
    pub padded_rows: u32,
}

impl MxSource {
    /// Tiles of 128 × 128 of every group of weights, along the columns and in all.
    #[inline(always)]
    pub const fn tile_columns(&self) -> u32 {
        self.columns.div_ceil(ROW_BLOCK)
    }

    /// Tiles of every group of weights.
    #[inline(always)]
    pub const fn tiles_of_group(&self) -> u32 {
        self.rows.div_ceil(ROW_BLOCK) * self.tile_columns()
    }
}

/// Arguments of the MXFP8 quantize kernels.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Mxfp8Args {
    /// What is quantized.
    pub source: MxSource,
    /// The copy whose blocks run along the columns.
    pub rowwise: MxCopy,
    /// The copy whose blocks run along the rows.
    pub columnwise: MxCopy,
    /// Device address of `f32[row tiles, columns]`, the columns' sums over the rows of a tile, for
    /// `dbias_reduce`; 0: not wanted.
    pub dbias_partial: u64,
    /// [`ElementType`](super::ElementType) of the data: E4M3 or E5M2.
    pub format: u32,
    /// 1: blocks are squares, and both copies have the same values.
    pub square: u32,
}

/// Arguments of `nvfp4_tile_amax`: the largest magnitude of each tile of the source.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Nvfp4TileAmaxArgs {
    /// What is measured.
    pub source: MxSource,
    /// Device address of `f32[tiles]`, of the source; 0: not wanted.
    pub plain: u64,
    /// Device address of `f32[tiles]`, of the source after the Hadamard transform along its rows;
    /// 0: not wanted.
    pub transformed: u64,
}

/// Arguments of `nvfp4_group_amax`: one block for each group reduces the magnitudes of its tiles.
///
/// The first block draws from the random state, too, so that whoever comes after it in the stream,
/// and before the next draw, rounds with numbers of their own.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Nvfp4GroupAmaxArgs {
    /// Device address of the group table, which says whether the splits are bad; 0: none.
    pub table: u64,
    /// Device address of a `u32`; where it is not zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// The source as it is.
    pub plain: Nvfp4Amax,
    /// The source after the transform.
    pub transformed: Nvfp4Amax,
    /// Device address of the random state, `u64` seed and `u64` offset; 0: none. The launch copies
    /// it to `drawn` and adds one to its offset.
    pub random_state: u64,
    /// Device address of `u64[2]`, the seed and the offset that the next quantize launch uses.
    pub drawn: u64,
    /// Number of groups.
    pub groups: u32,
    /// Tiles of every group; 0, where there is a table: those of its prefix.
    pub tiles: u32,
    /// Zero.
    pub reserved: u64,
}

/// The largest magnitudes of one form of the source.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Nvfp4Amax {
    /// Device address of `f32[tiles]`; 0: this form is not wanted.
    pub partial: u64,
    /// Device address of `f32[groups]`, the largest magnitude of each group.
    pub amax: u64,
    /// Device address of `f32[groups]`, by what the exact copy is multiplied to restore the source:
    /// amax / (6 · bound); 0: not wanted.
    pub scale_inv: u64,
    /// The largest block scale, [`FULL_BOUND`] or [`REDUCED_BOUND`].
    pub bound: f32,
    /// Zero.
    pub reserved: u32,
}

/// Arguments of `nvfp4_row_amax`: the largest magnitude of each row, one warp a row.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Nvfp4RowAmaxArgs {
    /// What is measured.
    pub source: MxSource,
    /// Device address of `f32[rows]`, the largest magnitudes; rows of no group are not written.
    pub amax: u64,
    /// Device address of `f32[rows]`, amax / (6 · bound); 0: not wanted.
    pub scale_inv: u64,
    /// The largest block scale.
    pub bound: f32,
    /// [`ElementType`](super::ElementType) of the source.
    pub source_type: u32,
    /// Zero.
    pub reserved: u64,
}

/// How NVFP4 picks a block's scale.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nvfp4Target {
    /// The block's largest magnitude is mapped to 6.
    Six = 0,
    /// To 6 or to 4, whichever makes the smaller sum of magnitudes of errors.
    FourOverSixAbsolute = 1,
    /// To 6 or to 4, whichever makes the smaller sum of squared errors.
    FourOverSixSquared = 2,
}

/// Which NVFP4 quantize kernel.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nvfp4Way {
    /// Blocks that are lines, mapped to 6, scaled by groups: BF16 alone, in codes.
    Lines = 0,
    /// Blocks that are squares, both copies.
    Squares = 1,
    /// Blocks that are lines, with all that can be asked for, both forms at once, too; slower.
    General = 2,
    /// As `Lines`, in exact numbers.
    ExactLines = 3,
    /// Blocks that are squares, of weights in BF16, mapped to 6, in exact numbers, with magnitudes
    /// that the kernel finds itself.
    SquaresOnce = 4,
}

impl Nvfp4Args {
    /// The kernel that does what the arguments ask for, with a source of this type.
    pub const fn way(&self, source: super::ElementType) -> Nvfp4Way {
        let bf16 = matches!(source, super::ElementType::Bf16);
        let of_groups = self.row_scaled == 0 && self.target == Nvfp4Target::Six as u32;
        let exact = self.rowwise.exact != 0 || self.columnwise.exact != 0;
        let in_codes = self.rowwise.is_in_codes() || self.columnwise.is_in_codes();
        match (bf16 && of_groups, exact, in_codes) {
            _ if self.progress != 0 => Nvfp4Way::SquaresOnce,
            _ if self.square != 0 => Nvfp4Way::Squares,
            (true, false, _) => Nvfp4Way::Lines,
            (true, true, false) => Nvfp4Way::ExactLines,
            _ => Nvfp4Way::General,
        }
    }
}

/// Arguments of the NVFP4 quantize kernels.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Nvfp4Args {
    /// What is quantized.
    pub source: MxSource,
    /// The copy whose blocks run along the columns.
    pub rowwise: MxCopy,
    /// The copy whose blocks run along the rows; its data is transposed.
    pub columnwise: MxCopy,
    /// Device address of `f32[groups]`, or of `f32[rows]` where `row_scaled`: the largest
    /// magnitudes from which the rowwise copy is scaled; of squares, both copies. With a
    /// `progress` the kernel finds and writes them, else it reads them.
    pub rowwise_amax: u64,
    /// Device address of `f32[groups]`: the largest magnitudes from which the columnwise copy is
    /// scaled, after the transform if there is one; not read of squares.
    pub columnwise_amax: u64,
    /// Device address of `u64[2]`, seed and offset; 0: round to nearest even. Else round at random:
    /// lines are paired, 0 with 1, 2 with 3, counted within a group. Eight neighbours of an even
    /// line and the eight beside them on the odd one share the block Philox4x32-7(key seed; counter
    /// `index / 8`, 64 bits, with the index of the even line's in the order of the copy's data,
    /// then the offset, 63 bits, then one bit that is set for the columnwise copy). The even line
    /// has the first two words; element `i` of a word's four uses its lowest 16 bits after a
    /// rotation by `8 · i` to the right.
    pub random: u64,
    /// Device address of `f32[row tiles, columns]`, the columns' sums over the rows of a tile, for
    /// `dbias_reduce`; 0: not wanted.
    pub dbias_partial: u64,
    /// The largest block scale of both copies.
    pub bound: f32,
    /// 1: blocks are squares, and both copies have the same values.
    pub square: u32,
    /// 1: the columnwise copy is made after the random Hadamard transform of 16 rows, rounded to
    /// BF16.
    pub transform: u32,
    /// 1: every row has a scale of its own (rowwise copies alone).
    pub row_scaled: u32,
    /// [`Nvfp4Target`] as an integer.
    pub target: u32,
    /// Zero.
    pub reserved: u32,
    /// Device address of what blocks tell each other,
    /// [`Progress`](super::quantize::Progress): squares whose source is read once. 0: magnitudes
    /// are known.
    pub progress: u64,
}

/// Arguments of `mxfp8_dequantize` and `nvfp4_dequantize`: one copy to BF16, FP16 or FP32. The
/// result of codes has the layout of the copy's exact form. Rows of no group are not written; the
/// padding of tokens that are padded becomes zeros (inside a block that has values, zeros times its
/// scale).
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct MxDequantizeArgs {
    /// The shape of what was quantized; addresses other than the table's and the flag's are not
    /// read.
    pub source: MxSource,
    /// The copy: codes and block scales, or, where `exact` is not 0, the exact numbers.
    pub copy: MxCopy,
    /// Device address of `f32[groups]`, or of `f32[rows]` where `row_scaled`: the largest
    /// magnitudes (NVFP4 alone). 0: the codes times their block scales alone, which is the exact
    /// copy.
    pub amax: u64,
    /// Device address of the result; 0: see `destination_array`.
    pub destination: u64,
    /// Device address of `u64[groups]`, addresses of discrete results; 0: use `destination`.
    pub destination_array: u64,
    /// [`ElementType`](super::ElementType) of the result.
    pub destination_type: u32,
    /// [`ElementType`](super::ElementType) of the data (MXFP8 alone).
    pub format: u32,
    /// 1: the copy is the columnwise one.
    pub columnwise: u32,
    /// 1: every row has a scale of its own (NVFP4, rowwise).
    pub row_scaled: u32,
    /// The largest block scale (NVFP4 alone).
    pub bound: f32,
    /// 1: the result of a columnwise copy of NVFP4 tokens lies as the source does, without padding.
    /// That of exact numbers always does.
    pub as_source: u32,
}

/// Arguments of `swizzle_scales`: the block scales of one copy from compact to swizzled order, or
/// back.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct SwizzleArgs {
    /// The shape of what was quantized; addresses other than the table's and the flag's are not
    /// read.
    pub source: MxSource,
    /// Device address of the scales.
    pub from: u64,
    /// Device address of the result, which does not overlap them.
    pub to: u64,
    /// [`MXFP8_BLOCK`] or [`NVFP4_BLOCK`].
    pub block: u32,
    /// 1: of the columnwise copy.
    pub columnwise: u32,
    /// 1: from compact to swizzled order; 0: back.
    pub swizzle: u32,
    /// Zero.
    pub reserved: u32,
    /// Zero; keeps the size a multiple of the alignment.
    pub reserved2: u64,
    /// Zero; keeps the size a multiple of the alignment.
    pub reserved3: u64,
}

const _: () = assert!(size_of::<MxCopy>() == 32);
const _: () = assert!(size_of::<MxSource>() == 48);
const _: () = assert!(size_of::<Mxfp8Args>() == 128);
const _: () = assert!(size_of::<Nvfp4TileAmaxArgs>() == 64);
const _: () = assert!(size_of::<Nvfp4Amax>() == 32);
const _: () = assert!(size_of::<Nvfp4GroupAmaxArgs>() == 112);
const _: () = assert!(size_of::<Nvfp4RowAmaxArgs>() == 80);
const _: () = assert!(size_of::<Nvfp4Args>() == 176);
const _: () = assert!(size_of::<MxDequantizeArgs>() == 128);
const _: () = assert!(size_of::<SwizzleArgs>() == 96);
