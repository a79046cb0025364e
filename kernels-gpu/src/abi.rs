//! Argument structs and launch facts, compiled on both sides: the host fills these structs, the
//! kernels read them. Every size is asserted, so the two sides cannot disagree.
//!
//! All device addresses are plain `u64`; zero means "absent" where a field says so.

pub mod mx;
pub mod pad;
pub mod quantize;
pub mod scaled;

/// Rows of a segment in the dbias reduction: `dbias_partial` sums one segment of one group, and
/// `dbias_reduce` adds the segments of a group in order, so the result does not depend on timing.
pub const DBIAS_SEGMENT_ROWS: u32 = 128;

/// The most groups that one launch accepts.
pub const MAX_GROUPS: u32 = 4096;

/// Which product a grouped GEMM computes. `T` tokens, `N` out features, `K` in features.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// `Y_g = X_g · W_gᵀ`: `[m_g, N] = [m_g, K] · [N, K]ᵀ`.
    Fprop = 0,
    /// `dX_g = dY_g · W_g`: `[m_g, K] = [m_g, N] · [N, K]`.
    Dgrad = 1,
    /// `dW_g = dY_gᵀ · X_g`: `[N, K] = [m_g, N]ᵀ · [m_g, K]`.
    Wgrad = 2,
}

/// Element type of a tensor that a kernel reads or writes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// bfloat16.
    Bf16 = 0,
    /// IEEE binary16.
    F16 = 1,
    /// IEEE binary32.
    F32 = 2,
    /// FP8 with 4 exponent and 3 mantissa bits, without infinities.
    E4m3 = 3,
    /// FP8 with 5 exponent and 2 mantissa bits.
    E5m2 = 4,
}

/// Which dimension of the product is the number of rows of the group.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ragged {
    /// The rows of the output (fprop, dgrad).
    Rows = 0,
    /// The reduction (wgrad).
    Reduction = 1,
}

/// What the set-up kernel found wrong with the splits; `code` of [`Status`].
pub mod status {
    /// All splits are valid.
    pub const OK: u32 = 0;
    /// `splits[group] = value` is negative.
    pub const NEGATIVE_SPLIT: u32 = 1;
    /// The splits add up to `value` rows, more than the buffer's `rows`.
    pub const TOO_MANY_ROWS: u32 = 2;
}

/// The verdict of the set-up kernel on the splits. While `code` is not [`status::OK`], every launch
/// that reads the same group table writes nothing.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Status {
    /// One of the constants in [`status`].
    pub code: u32,
    /// The first offending group (`NEGATIVE_SPLIT`), else 0.
    pub group: u32,
    /// The offending split, or the sum of the splits.
    pub value: i64,
    /// Rows of the token buffer.
    pub rows: i64,
    /// In a group table, as `u32`: output tiles that blocks have claimed. In a sticky status:
    /// whether a set-up is writing it. A set-up leaves zero.
    pub taken: u64,
}

/// Where the per-group operand of a product lies. The address of group `g` is `array[g]` if `array`
/// is set, else `base + offset[g] · element_bytes`, with
/// `offset[g] = row_offset[g] · row_elements + g · group_elements`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Operand {
    /// Device address of the first element.
    pub base: u64,
    /// Device address of `u64[groups]`, one address per group; 0: use `base`.
    pub array: u64,
    /// Elements from one token row to the next; 0 where the operand does not follow the rows.
    pub row_elements: u64,
    /// Elements from one group to the next; 0 where the operand follows the rows.
    pub group_elements: u64,
    /// Bytes per element.
    pub element_bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// One FP32 factor per group: `array[g]` if `array` is set, else `value` for all.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct Scalars {
    /// Device address of `f32[groups]`; 0: use `value`.
    pub array: u64,
    /// The factor of every group.
    pub value: f32,
    /// Zero.
    pub reserved: u32,
}

/// Arguments of `pointer_setup`: one block turns the splits into the group table.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct SetupArgs {
    /// Device address of the group table, laid out by [`GroupTable::layout`].
    pub table: u64,
    /// Device address of the splits, `i32[groups]` or `i64[groups]`.
    pub splits: u64,
    /// Address of a [`Status`] that keeps the first error until the host clears it; 0: none.
    pub sticky_status: u64,
    /// Rows of the token buffer, T.
    pub rows: i64,
    /// Left operand.
    pub a: Operand,
    /// Right operand.
    pub b: Operand,
    /// Output.
    pub d: Operand,
    /// Factor of the product.
    pub alpha: Scalars,
    /// Factor of what the output held before; 0 writes without reading.
    pub beta: Scalars,
    /// Device address of `f32[groups]`, a factor of each group of the left operand: its product
    /// with `a_scale_factor`, rounded to FP32, multiplies alpha; 0: one.
    pub a_scale_inv: u64,
    /// The same for the right operand.
    pub b_scale_inv: u64,
    /// Number of groups, 1 to [`MAX_GROUPS`].
    pub groups: u32,
    /// Bytes of one split: 4 or 8.
    pub split_bytes: u32,
    /// [`Ragged`] as an integer.
    pub ragged: u32,
    /// Rows of the output; ignored where they are ragged.
    pub m: u32,
    /// Columns of the output.
    pub n: u32,
    /// Length of the reduction; ignored where it is ragged.
    pub k: u32,
    /// Rows of an output tile of the launch that reads the table.
    pub tile_m: u32,
    /// Columns of an output tile of the launch that reads the table.
    pub tile_n: u32,
    /// What the padded rows of a group are a multiple of; not zero.
    pub row_align: u32,
    /// 1: the operands of a ragged reduction lie padded, so that the table's `row_offsets` are its
    /// `padded_offsets`, and `k` and the operands' places count padded rows, too; a group without
    /// rows has no padding. 0 elsewhere.
    pub padded_reduction: u32,
    /// What `a_scale_inv` is multiplied by: 1 for factors as they are; not read where there are
    /// none.
    pub a_scale_factor: f32,
    /// The same for the right operand.
    pub b_scale_factor: f32,
    /// Of a ragged reduction: for how many blocks groups are put in order, those with most rows
    /// first, if a block gets few tiles; 0: groups stay in their own order.
    pub workers: u32,
    /// Zero; keeps the size a multiple of the alignment.
    pub reserved: u32,
}

/// A 128-byte tensor map as the driver encodes it.
#[repr(C, align(16))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct TensorMap(pub [u64; 16]);

impl core::fmt::Debug for TensorMap {
    #[inline] // Not emitted on the device, where nothing calls it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TensorMap(opaque)")
    }
}

/// Arguments of every grouped GEMM, `simt` and tensor-core alike:
/// `D_g = alpha_g · A_g · B_g + beta_g · D_g (+ bias)`, where alpha may have a factor for each
/// token row.
///
/// The kernel build aligns the parameter to 64 bytes, as tensor maps must be.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct GemmArgs {
    /// Tensor map of the left operand (tensor-core kernels only).
    pub a_map: TensorMap,
    /// Tensor map of the right operand (tensor-core kernels only); for weights it is
    /// three-dimensional (contiguous features, rows, groups).
    pub b_map: TensorMap,
    /// Tensor map of the output, two-dimensional (columns, rows of all groups), in boxes of
    /// [`SM90_D_BOX_ROWS`] or [`SM100_D_BOX_ROWS`] rows of 128 bytes; see `has_d_map` and
    /// `lends_stages`.
    pub d_map: TensorMap,
    /// Device address of `TensorMap[groups]`, one map per discrete weight; 0: use `b_map`.
    pub b_maps: u64,
    /// Device address of the group table, written by `pointer_setup`.
    pub table: u64,
    /// Device address of the bias: `[groups, n]` if packed; 0: see `bias_array`.
    pub bias: u64,
    /// Device address of `u64[groups]`, addresses of discrete biases `[n]`; 0: use `bias`.
    /// Both zero: no bias.
    pub bias_array: u64,
    /// Device address of `f32[rows]`, one factor of the bias per token row; 0: one.
    pub bias_row_scales: u64,
    /// Elements from one output row of `A` to the next (`simt` only).
    pub a_row_stride: u64,
    /// Elements from one reduction index of `A` to the next (`simt` only).
    pub a_reduction_stride: u64,
    /// Elements from one output column of `B` to the next (`simt` only).
    pub b_column_stride: u64,
    /// Elements from one reduction index of `B` to the next (`simt` only).
    pub b_reduction_stride: u64,
    /// Number of groups.
    pub groups: u32,
    /// [`Ragged`] as an integer.
    pub ragged: u32,
    /// Rows of the output of every group; 0 where they are ragged.
    pub m: u32,
    /// Columns of the output; its rows are contiguous.
    pub n: u32,
    /// Length of the reduction of every group; 0 where it is ragged.
    pub k: u32,
    /// [`ElementType`] of the output.
    pub d_type: u32,
    /// [`ElementType`] of the bias.
    pub bias_type: u32,
    /// What `row_scales` is multiplied by; not read where there are none.
    pub row_scale_factor: f32,
    /// Device address of `f32[rows]`, one factor of the product per token row: alpha is multiplied
    /// by `row_scales[r] · row_scale_factor`, rounded to FP32. 0: one. Kernels of FP8 operands, and
    /// those whose output rows are not ragged, do not read it.
    pub row_scales: u64,
    /// Whether there is a `d_map` (1) or none (0), as of discrete outputs (tensor-core kernels
    /// only).
    pub has_d_map: u32,
    /// Whether the maps of both operands of a ragged reduction are three-dimensional (1): 64
    /// features, tokens, blocks of 64 features. A box then has all blocks of a stage, which are
    /// copies of their own otherwise (0). Only the wgmma kernels know it.
    pub has_feature_blocks: u32,
    /// Whether sums of a ragged reduction go through stages of the ring (1): `d_map` is
    /// three-dimensional (columns, rows, groups), in boxes of [`SM90_LENT_BOX_ROWS`] rows of 128
    /// bytes, the output is FP32, and there is no bias. Only the wgmma kernels know it.
    pub lends_stages: u32,
    /// Zero; keeps the size a multiple of the alignment.
    pub reserved: u32,
}

/// Rows of a box of the output on Hopper: those that a warp has of wgmma's accumulators.
pub const SM90_D_BOX_ROWS: u32 = 16;
/// Rows of a box of the output on Hopper, where it goes through stages of the ring: half of a
/// tile's.
pub const SM90_LENT_BOX_ROWS: u32 = 64;
/// Rows of a box of the output on Blackwell.
pub const SM100_D_BOX_ROWS: u32 = 8;

/// Arguments of `dbias_partial` and `dbias_reduce`: `db_g[j] = Σ_rows dY[r, j] · s_r`.
///
/// The group table must come from a set-up with `tile_m` = [`DBIAS_SEGMENT_ROWS`], so that its tile
/// prefix counts segments; that of `dbias_partial` has one tile column. A quantize kernel leaves
/// partial sums, too, and its table has more.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct DbiasArgs {
    /// Device address of the group table.
    pub table: u64,
    /// Device address of dY, `[rows, n]`.
    pub dy: u64,
    /// Device address of `f32[rows]`; 0: one.
    pub row_scales: u64,
    /// Device address of the partial sums, `f32[segments, n]`.
    pub partial: u64,
    /// Device address of db, `[groups, n]` if packed; 0: see `db_array`.
    pub db: u64,
    /// Device address of `u64[groups]`, addresses of discrete dbiases `[n]`; 0: use `db`.
    pub db_array: u64,
    /// Number of groups.
    pub groups: u32,
    /// Out features.
    pub n: u32,
    /// [`ElementType`] of dY.
    pub dy_type: u32,
    /// [`ElementType`] of db.
    pub db_type: u32,
    /// 1: add to what db held; 0: overwrite.
    pub accumulate: u32,
    /// Tile columns of the set-up that wrote the table: its prefix counts each segment so many
    /// times.
    pub tile_columns: u32,
    /// Device address of a `u32`; where it is not zero, `dbias_reduce` writes nothing. 0: none.
    pub skip: u64,
}

/// Arguments of `dscales`: `dscales[r] = Σ_j dY[r, j] · b_g(r)[j]`, one warp per live row.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct DscalesArgs {
    /// Device address of the group table.
    pub table: u64,
    /// Device address of dY, `[rows, n]`.
    pub dy: u64,
    /// Device address of the bias, `[groups, n]` if packed; 0: see `bias_array`.
    pub bias: u64,
    /// Device address of `u64[groups]`, addresses of discrete biases; 0: use `bias`.
    pub bias_array: u64,
    /// Device address of the result, `f32[rows]`; rows past the last group are not written.
    pub dscales: u64,
    /// Number of groups.
    pub groups: u32,
    /// Out features.
    pub n: u32,
    /// [`ElementType`] of dY.
    pub dy_type: u32,
    /// [`ElementType`] of the bias.
    pub bias_type: u32,
    /// Zero.
    pub reserved: u64,
}

/// Arguments of `cast_bf16` and `cast_f16`: FP32 to a 16-bit type. The source lies in one part or
/// in several of one length, the result in one piece.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct CastArgs {
    /// Device address of the source, `f32[parts, part_len]`; 0: see `source_array`.
    pub source: u64,
    /// Device address of `u64[parts]`, addresses of the parts `f32[part_len]`; 0: use `source`.
    pub source_array: u64,
    /// Device address of the result, `[parts, part_len]`.
    pub destination: u64,
    /// Device address of 4 bytes; where they are not all zero, the launch writes nothing. 0: none.
    pub skip: u64,
    /// Elements of each part.
    pub part_len: u64,
    /// Zero.
    pub reserved: u64,
}

/// Byte offsets of the arrays in the group table. This one function states the layout: the
/// allocator, the set-up kernel and the kernels that read the table all call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTable {
    /// [`Status`].
    pub status: usize,
    /// `i64[groups + 1]`: first row of each group; the last entry is the number of live rows.
    /// Padded rows where the set-up's `padded_reduction` is 1.
    pub row_offsets: usize,
    /// `i64[groups + 1]`: first padded row of each group, where the rows of every group are rounded
    /// up to the set-up's `row_align`; the last entry is their number.
    pub padded_offsets: usize,
    /// `u64[groups]`: address of the left operand.
    pub a_pointers: usize,
    /// `u64[groups]`: address of the right operand.
    pub b_pointers: usize,
    /// `u64[groups]`: address of the output.
    pub d_pointers: usize,
    /// `i64[groups]`: element offset of the left operand (0 for operands given as an array).
    pub a_offsets: usize,
    /// `i64[groups]`: element offset of the right operand.
    pub b_offsets: usize,
    /// `i64[groups]`: element offset of the output.
    pub d_offsets: usize,
    /// `i32[groups]`: rows of the output.
    pub m: usize,
    /// `i32[groups]`: columns of the output.
    pub n: usize,
    /// `i32[groups]`: length of the reduction.
    pub k: usize,
    /// `f32[groups]`: factor of the product.
    pub alpha: usize,
    /// `f32[groups]`: factor of the former output.
    pub beta: usize,
    /// `u32[groups + 1]`: output tiles before each group, in the order below; all zero when the
    /// splits are invalid.
    pub tile_prefix: usize,
    /// `u32[groups]`: the groups in the order in which their tiles are numbered, which is their own
    /// unless the set-up's `workers` say otherwise.
    pub order: usize,
    /// Size of the table, a multiple of 16.
    pub bytes: usize,
}

impl GroupTable {
    /// The layout for `groups` groups. Eight-byte arrays come first, so nothing needs padding but
    /// the end; the status stands at offset 0.
    pub const fn layout(groups: u32) -> Self {
        let g = groups as usize;
        let row_offsets = size_of::<Status>();
        let padded_offsets = row_offsets + 8 * (g + 1);
        let a_pointers = padded_offsets + 8 * (g + 1);
        let b_pointers = a_pointers + 8 * g;
        let d_pointers = b_pointers + 8 * g;
        let a_offsets = d_pointers + 8 * g;
        let b_offsets = a_offsets + 8 * g;
        let d_offsets = b_offsets + 8 * g;
        let m = d_offsets + 8 * g;
        let n = m + 4 * g;
        let k = n + 4 * g;
        let alpha = k + 4 * g;
        let beta = alpha + 4 * g;
        let tile_prefix = beta + 4 * g;
        let order = tile_prefix + 4 * (g + 1);
        let bytes = (order + 4 * g).next_multiple_of(16);
        Self {
            status: 0,
            row_offsets,
            padded_offsets,
            a_pointers,
            b_pointers,
            d_pointers,
            a_offsets,
            b_offsets,
            d_offsets,
            m,
            n,
            k,
            alpha,
            beta,
            tile_prefix,
            order,
            bytes,
        }
    }
}

const _: () = assert!(size_of::<Status>() == 32);
const _: () = assert!(size_of::<Operand>() == 40);
const _: () = assert!(size_of::<Scalars>() == 16);
const _: () = assert!(size_of::<SetupArgs>() == 256);
const _: () = assert!(size_of::<TensorMap>() == 128);
const _: () = assert!(size_of::<GemmArgs>() == 512);
const _: () = assert!(size_of::<DbiasArgs>() == 80);
const _: () = assert!(size_of::<DscalesArgs>() == 64);
const _: () = assert!(size_of::<CastArgs>() == 48);
