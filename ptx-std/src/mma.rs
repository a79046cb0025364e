//! Matrix products by one warp, operands in registers: `ldmatrix`, `mma.sync`, `stmatrix`.
//!
//! The unit of exchange with shared memory is an 8 × 8 tile of 16-bit elements. Lanes `8 j` to `8 j
//! + 7` give the addresses of the rows of tile `j`, 16 aligned bytes each; after the load lane `l`
//! holds in register `j` the elements `(row l / 4, columns 2 (l % 4) and + 1)` of tile `j`, low
//! half first. With `.trans` rows and columns change places.
//!
//! For `m16n8k16`, with `g = lane / 4` and `t = lane % 4`:
//!
//! ```text
//!   A: a[0] (g, 2t..)  a[1] (g+8, 2t..)  a[2] (g, 2t+8..)  a[3] (g+8, 2t+8..)     row, k
//!   B: b[0] k = 2t..   b[1] k = 2t+8..   column g
//!   C: c[0], c[1] (g, 2t..)   c[2], c[3] (g+8, 2t..)                              row, column
//! ```
//!
//! Products of 16-bit operands are summed in binary32.

/// Loads four 8 × 8 tiles: `ldmatrix.sync.aligned.m8n8.x4.shared.b16` (PTX manual, "Warp Level
/// Matrix Instructions: ldmatrix").
///
/// # Safety
///
/// All lanes of the warp call it together; `row` is the shared address of 16 aligned bytes.
#[inline(always)]
pub unsafe fn load_matrix_x4(row: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller brings the whole warp and vouches for the addresses.
    unsafe {
        ptx!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{a}, {b}, {c}, {d}}}, [{row}];",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            row = in(reg32) row,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Loads four 8 × 8 tiles, each transposed: `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16` (PTX
/// manual, "Warp Level Matrix Instructions: ldmatrix").
///
/// # Safety
///
/// As [`load_matrix_x4`].
#[inline(always)]
pub unsafe fn load_matrix_x4_transposed(row: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller brings the whole warp and vouches for the addresses.
    unsafe {
        ptx!(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{a}, {b}, {c}, {d}}}, [{row}];",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            row = in(reg32) row,
            options(readonly, nostack, preserves_flags)
        )
    };
    [a, b, c, d]
}

/// Stores four 8 × 8 tiles: `stmatrix.sync.aligned.m8n8.x4.shared.b16` (PTX manual, "Warp Level
/// Matrix Instructions: stmatrix").
///
/// # Safety
///
/// All lanes of the warp call it together; `row` is the shared address of 16 aligned bytes that
/// belong to the warp for now.
#[inline(always)]
pub unsafe fn store_matrix_x4(row: u32, tiles: [u32; 4]) {
    let [a, b, c, d] = tiles;
    // SAFETY: the caller brings the whole warp and vouches for the addresses.
    unsafe {
        ptx!(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{row}], {{{a}, {b}, {c}, {d}}};",
            row = in(reg32) row,
            a = in(reg32) a,
            b = in(reg32) b,
            c = in(reg32) c,
            d = in(reg32) d,
            options(nostack)
        )
    }
}

/// `c + a · b` of bfloat16 operands, 16 × 8 × 16:
/// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32` (PTX manual, "Warp Level Matrix
/// Instructions: mma").
///
/// # Safety
///
/// All lanes of the warp call it together.
#[inline(always)]
pub unsafe fn m16n8k16_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let [mut d0, mut d1, mut d2, mut d3] = c;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{d0}, {d1}, {d2}, {d3}}}, \
             {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{d0}, {d1}, {d2}, {d3}}};",
            d0 = inout(reg32) d0,
            d1 = inout(reg32) d1,
            d2 = inout(reg32) d2,
            d3 = inout(reg32) d3,
            a0 = in(reg32) a[0],
            a1 = in(reg32) a[1],
            a2 = in(reg32) a[2],
            a3 = in(reg32) a[3],
            b0 = in(reg32) b[0],
            b1 = in(reg32) b[1],
            options(nomem, nostack, preserves_flags)
        )
    };
    [d0, d1, d2, d3]
}

/// `c + a · b` of binary16 operands, 16 × 8 × 16:
/// `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32` (PTX manual, "Warp Level Matrix
/// Instructions: mma").
///
/// # Safety
///
/// All lanes of the warp call it together.
#[inline(always)]
pub unsafe fn m16n8k16_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let [mut d0, mut d1, mut d2, mut d3] = c;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        ptx!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d0}, {d1}, {d2}, {d3}}}, \
             {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{d0}, {d1}, {d2}, {d3}}};",
            d0 = inout(reg32) d0,
            d1 = inout(reg32) d1,
            d2 = inout(reg32) d2,
            d3 = inout(reg32) d3,
            a0 = in(reg32) a[0],
            a1 = in(reg32) a[1],
            a2 = in(reg32) a[2],
            a3 = in(reg32) a[3],
            b0 = in(reg32) b[0],
            b1 = in(reg32) b[1],
            options(nomem, nostack, preserves_flags)
        )
    };
    [d0, d1, d2, d3]
}
