//! Quantized tensors as the kernels see them: how their data and scales lie, and the arguments of
//! the kernels that make them.
//!
//! The rows of a group are counted twice. Its *tokens* lie one after another, so a group may begin
//! at any row. What is scaled or transposed along the tokens is *padded*: there a group begins at a
//! multiple of [`ROW_BLOCK`], and the group table holds both offsets.

/// Rows of a scaled block along the tokens, and what groups are padded to where they are
/// transposed.
pub const ROW_BLOCK: u32 = 128;
/// Columns of a scaled block along the features.
pub const COLUMN_BLOCK: u32 = 128;
/// Scales of FP8 blocks come in runs of this many, 16 bytes, as tensor copies need.
pub const SCALE_RUN: u32 = 4;

/// The most rows that groups with `rows` tokens in all can take when each is padded to
/// [`ROW_BLOCK`]: a multiple of it.
pub const fn padded_rows(rows: u64, groups: u32) -> u64 {
    let block = ROW_BLOCK as u64;
    let not_empty = if rows < groups as u64 { rows } else { groups as u64 };
    (rows + (block - 1) * not_empty) / block * block
}

/// Which blocks share a scale.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blocks {
    /// All elements of a group.
    Tensor = 0,
    /// 128 neighbours along the reduction.
    Vector = 1,
    /// 128 × 128 elements.
    Square = 2,
}

/// A matrix of scales: `scale(i, j)` lies at element `group · group_pitch + i · pitch + j`, where
/// `j` is contiguous.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct ScaleLayout {
    /// Elements from one `i` to the next.
    pub pitch: u64,
    /// Elements from one group to the next; 0 where all groups share one matrix, as tokens do.
    pub group_pitch: u64,
}

/// How the scales of a copy lie. `rows` and `columns` are those of the source: of one group for
/// weights; of tokens, all of them.
///
/// | copy | blocks | `i` | `j` |
/// | --- | --- | --- | --- |
/// | rowwise | vector | column / 128 | row (of tokens: the token) |
/// | rowwise | square | row / 128 (padded) | column / 128 |
/// | columnwise | vector | row / 128 (padded) | column |
/// | columnwise | square | column / 128 | row / 128 (padded) |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockScales {
    /// Number of `i`.
    pub outer: u64,
    /// Number of `j`, rounded up to [`SCALE_RUN`]: the pitch.
    pub pitch: u64,
}

impl BlockScales {
    /// Scales of the rowwise copy, which runs along the columns.
    pub const fn rowwise(blocks: Blocks, rows: u64, padded_rows: u64, columns: u64) -> Self {
        let column_blocks = columns.div_ceil(COLUMN_BLOCK as u64);
        match blocks {
            Blocks::Tensor => Self { outer: 1, pitch: 1 },
            Blocks::Vector => Self::new(column_blocks, rows),
            Blocks::Square => Self::new(padded_rows.div_ceil(ROW_BLOCK as u64), column_blocks),
        }
    }

    /// Scales of the columnwise copy, which runs along the rows.
    pub const fn columnwise(blocks: Blocks, padded_rows: u64, columns: u64) -> Self {
        let row_blocks = padded_rows.div_ceil(ROW_BLOCK as u64);
        match blocks {
            Blocks::Tensor => Self { outer: 1, pitch: 1 },
            Blocks::Vector => Self::new(row_blocks, columns),
            Blocks::Square => Self::new(columns.div_ceil(COLUMN_BLOCK as u64), row_blocks),
        }
    }

    const fn new(outer: u64, inner: u64) -> Self {
        Self { outer, pitch: inner.next_multiple_of(SCALE_RUN as u64) }
    }

    /// Elements of the matrix.
    pub const fn elements(&self) -> u64 {
        self.outer * self.pitch
    }
}

/// One copy of a quantized tensor, as a quantize kernel writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct QuantizedCopy {
    /// Device address of the data; 0: this copy is not made.
    pub data: u64,
    /// Device address of `f32` scale_inv. That of [`Blocks::Tensor`] is written by the kernels that
    /// find the scale themselves, and is no business of the others.
    pub scale_inv: u64,
    /// How the scales lie.
    pub scales: ScaleLayout,
    /// Elements from one line of the data to the next: rows of the rowwise copy, columns of the
    /// columnwise copy, which is transposed.
    pub pitch: u64,
    /// Elements of the data from one group to the next; 0 where the groups' rows share the lines.
    pub group_pitch: u64,
}

/// Blocks of the kernels from FP32 to FP8 that a multiprocessor holds at once.
pub const QUANTIZE_BLOCKS: u32 = 3;

/// Arguments of the FP8 quantize kernels: a source of BF16, FP16 or FP32 into one or two copies.
///
/// With a group table the source is tokens, `[rows, columns]`, and the table comes from a set-up
/// with `tile_m` = [`ROW_BLOCK`], `tile_n` = [`COLUMN_BLOCK`] and `row_align` = [`ROW_BLOCK`], so
/// that its tile prefix counts blocks. Without one it is weights, `[groups, rows, columns]`.
///
/// The addresses of sources and data, their pitches and the columns are multiples of 16; so are the
/// rows of weights of which a columnwise copy is made.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct QuantizeArgs {
    /// Device address of the group table; 0: every group has `rows` rows.
    pub table: u64,
    /// Device address of the source; 0: see `source_array`.
    pub source: u64,
    /// Device address of `u64[groups]`, addresses of discrete sources; 0: use `source`.
    pub source_array: u64,
    /// Device address of a `u32`; where it is not zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// Device address of the scales `f32[groups]` that elements are multiplied by
    /// ([`Blocks::Tensor`] alone).
    pub scale: u64,
    /// Device address of `f32[tiles]`: the largest magnitude of each tile, in which NaNs do not
    /// count, for [`ScaleArgs`]; the tiles of a group are in no particular order. 0: not wanted.
    pub amax_partial: u64,
    /// Device address of `f32[row tiles, columns]`, the columns' sums over the rows of a tile, for
    /// `dbias_reduce`; 0: not wanted.
    pub dbias_partial: u64,
    /// The copy that runs along the columns.
    pub rowwise: QuantizedCopy,
    /// The copy that runs along the rows, transposed.
    pub columnwise: QuantizedCopy,
    /// Number of groups.
    pub groups: u32,
    /// Rows of every group, where there is no table.
    pub rows: u32,
    /// Columns of the source.
    pub columns: u32,
    /// [`ElementType`](super::ElementType) of the source.
    pub source_type: u32,
    /// [`ElementType`](super::ElementType) of the data: E4M3 or E5M2.
    pub format: u32,
    /// 1: scales of blocks are rounded down to powers of two.
    pub power_of_two: u32,
    /// Magnitudes below it count as it (blocks).
    pub epsilon: f32,
    /// Zero.
    pub reserved: u32,
    /// Device address of what blocks tell each other, [`Progress`]: current scaling that reads the
    /// source once. 0: magnitudes are known, or not wanted.
    pub progress: u64,
}

/// What the blocks of `quantize_current_rows`, `quantize_current_columns` and
/// `quantize_nvfp4_squares_once` tell each other, in scratch memory that `group_scales` clears for
/// them: offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// `[u32; 2]` of each group: the bits of the largest magnitude so far, and how many of the
    /// group's tiles have been measured.
    pub groups: usize,
    /// `u32` of each tile: the tile that its block measured before, to be read again after it.
    pub earlier: usize,
    /// Size of all.
    pub bytes: usize,
}

impl Progress {
    /// Where the number of tiles lies that blocks have taken, `u32`: apart from all else, since
    /// every block asks for it all the time.
    pub const TAKEN: usize = 0;

    /// The layout for so many groups and tiles.
    pub const fn layout(groups: usize, tiles: usize) -> Self {
        let first = 128;
        let earlier = first + 8 * groups;
        Self { groups: first, earlier, bytes: earlier + 4 * tiles }
    }
}

/// Arguments of `group_scales`, one block for each group, which does one of three things:
///
/// - with a progress, it is cleared, and groups without tiles get their scales (quantizers that
///   read the source once; NVFP4's take weights, of which every group has tiles);
/// - without a history, scales from the largest magnitudes of the group's tiles (current scaling);
/// - with a history, the largest of them into the first line of the history, unless what it holds
///   is larger, and the scales, which are those that were quantized with, and their inverses to
///   where the result keeps them (delayed scaling).
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct ScaleArgs {
    /// Device address of the group table, which says whether the splits are bad; 0: none.
    pub table: u64,
    /// Device address of `f32[tiles]`, the largest magnitude of each tile; 0: none.
    pub amax_partial: u64,
    /// Device address of a `u32`; where it is not zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// Device address of `f32[groups]`; read, not written, where magnitudes go into a history.
    pub scale: u64,
    /// Device address of `f32[groups]`, which gets a copy of the scales where they are read; 0:
    /// none.
    pub kept_scale: u64,
    /// Device address of `f32[groups]`.
    pub scale_inv: u64,
    /// Device address of `f32[groups]`, this step's line of a history; 0: none.
    pub history: u64,
    /// Number of groups.
    pub groups: u32,
    /// Tiles of every group; 0, where there is a table: those of its prefix.
    pub tiles: u32,
    /// Largest magnitude of the format.
    pub format_max: f32,
    /// Magnitudes below it count as it.
    pub epsilon: f32,
    /// 1: scales are rounded down to powers of two.
    pub power_of_two: u32,
    /// Zero.
    pub reserved: [u32; 3],
    /// Device address of the [`Progress`] to be cleared; 0: none.
    pub progress: u64,
}

/// Histories that one launch of `update_scales` takes.
pub const HISTORIES: usize = 16;
/// Groups of a history that one of its blocks has: memory moves as many numbers at once.
pub const HISTORY_GROUPS: u32 = 8;

/// Arguments of `update_scales`, a block for every [`HISTORY_GROUPS`] of each history, which ends a
/// step of delayed scaling: the next scales from the history, which then moves on. Its second line,
/// the oldest, goes, the others move up, the last becomes this step's, and the first zero.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct UpdateScalesArgs {
    /// The histories: as many as the grid has lines of blocks.
    pub histories: [History; HISTORIES],
    /// Device address of a `u32`; where it is not zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// Zero.
    pub reserved: u64,
}

/// What delayed scaling remembers of a tensor, and how it makes scales of it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct History {
    /// Device address of `f32[len, groups]`: this step, then earlier ones, the oldest first.
    pub amax: u64,
    /// Device address of `f32[groups]`; a scale stays where there is no magnitude to go by.
    pub scale: u64,
    /// Device address of `f32[groups]`.
    pub scale_inv: u64,
    /// Number of groups; blocks beyond do nothing.
    pub groups: u32,
    /// Entries of a group.
    pub len: u32,
    /// Largest magnitude of the format.
    pub format_max: f32,
    /// 1: the newest entry decides; 0: the largest.
    pub most_recent: u32,
    /// The scale is divided by `2^margin`.
    pub margin: i32,
    /// Zero.
    pub reserved: u32,
}

/// Arguments of `dequantize`: a copy of FP8 back to the shape of its source, BF16, FP16 or FP32.
/// What the source had is what the destination has; the table is the one of [`QuantizeArgs`].
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct DequantizeArgs {
    /// Device address of the group table; 0: every group has `rows` rows.
    pub table: u64,
    /// Device address of the result; 0: see `destination_array`.
    pub destination: u64,
    /// Device address of `u64[groups]`, addresses of discrete results; 0: use `destination`.
    pub destination_array: u64,
    /// Device address of a `u32`; where it is not zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// The copy; its `scale_inv` is read for all [`Blocks`], `f32[groups]` for [`Blocks::Tensor`].
    pub copy: QuantizedCopy,
    /// Number of groups.
    pub groups: u32,
    /// Rows of every group, where there is no table.
    pub rows: u32,
    /// Columns of the source.
    pub columns: u32,
    /// [`Blocks`] as an integer.
    pub blocks: u32,
    /// 1: it is the columnwise copy; 0: the rowwise one.
    pub columnwise: u32,
    /// [`ElementType`](super::ElementType) of the data: E4M3 or E5M2.
    pub format: u32,
    /// [`ElementType`](super::ElementType) of the result.
    pub destination_type: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<ScaleLayout>() == 16);
const _: () = assert!(size_of::<QuantizedCopy>() == 48);
const _: () = assert!(size_of::<QuantizeArgs>() == 192);
const _: () = assert!(size_of::<ScaleArgs>() == 96);
const _: () = assert!(size_of::<History>() == 48);
const _: () = assert!(size_of::<UpdateScalesArgs>() == 784);
const _: () = assert!(size_of::<DequantizeArgs>() == 112);
