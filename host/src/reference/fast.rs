//! The products on all cores: ndarray's blocked FP32 product on pieces of the output.
//!
//! ndarray wraps `matrixmultiply`, whose packed micro-kernels take any strides, in a safe
//! interface, so transposes cost no copy. The output is cut along its rows and columns only, never
//! along the reduction: every element is one sum in an order that depends on nothing but the length
//! of the reduction. So results are bit-equal from run to run, for any number of threads, and
//! between a grouped product and one product per group.
//!
//! rayon's global pool, the library's one global state beside the driver table, spreads the pieces:
//! starting threads anew would cost more than many a product of a small expert.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use super::convert::zeros;
use super::plain::{self, Groups};
use crate::error::{Error, Result};
use crate::plan::Pass;

/// Largest piece of the output, rows and columns: packed operands stay in the second-level cache.
const PIECE: (usize, usize) = (256, 512);

/// Smallest side of a piece: below, packing the operands costs more than a thread gains.
const SMALLEST_SIDE: usize = 64;

/// Pieces per thread that level out experts of different sizes.
const PIECES_PER_THREAD: usize = 4;

/// One product `d = a · b` of views.
struct Piece<'a> {
    a: ArrayView2<'a, f32>,    // [m, k]
    b: ArrayView2<'a, f32>,    // [k, n]
    d: ArrayViewMut2<'a, f32>, // [m, n]
}

/// `D_g = A_g · B_g` for every group.
///
/// `a` is X (fprop) or dY; `b` is W (fprop, dgrad) or X (wgrad). `d` is `[live rows, n]` (fprop),
/// `[live rows, k]` (dgrad) or `[groups, n, k]` (wgrad) and holds zeros.
pub(super) fn products(
    pass: Pass,
    groups: &Groups<'_>,
    a: &[f32],
    b: &[f32],
    d: &mut [f32],
) -> Result<()> {
    let size = piece_size(pass, groups, rayon::current_num_threads());
    let mut pieces = Vec::new();
    for product in group_products(pass, groups, a, b, d)? {
        cut(product, size, &mut pieces);
    }
    pieces.into_par_iter().for_each(|Piece { a, b, mut d }| {
        general_mat_mul(1.0, &a, &b, 0.0, &mut d);
    });
    Ok(())
}

/// db of every group, `[groups, n]`.
pub(super) fn dbias(
    groups: &Groups<'_>,
    dy: &[f32],
    row_scales: Option<&[f32]>,
) -> Result<Vec<f32>> {
    let n = groups.out_features;
    let segments: Vec<_> = (0..groups.count())
        .flat_map(|group| plain::segments(groups.rows(group)).map(move |segment| (group, segment)))
        .collect();
    let mut partial = zeros(segments.len() * n)?;
    partial.par_chunks_mut(n).zip(&segments).for_each(|(sum, (_, segment))| {
        plain::sum_rows(segment.clone(), n, dy, row_scales, sum);
    });
    let mut db = zeros(groups.count() * n)?;
    for (sum, (group, _)) in partial.chunks(n).zip(&segments) {
        plain::add_to(&mut db[group * n..][..n], sum);
    }
    Ok(db)
}

/// dscales of every live row; `bias` is `[groups, n]`.
pub(super) fn dscales(groups: &Groups<'_>, dy: &[f32], bias: &[f32]) -> Result<Vec<f32>> {
    let n = groups.out_features;
    let mut dscales = zeros(groups.live_rows())?;
    dscales.par_iter_mut().zip(dy.par_chunks(n)).enumerate().for_each(|(row, (scale, dy))| {
        *scale = plain::dot(dy, &bias[groups.of_row(row) * n..][..n]);
    });
    Ok(dscales)
}

/// One product per group that has something to compute.
fn group_products<'a>(
    pass: Pass,
    groups: &Groups<'_>,
    a: &'a [f32],
    b: &'a [f32],
    mut d: &'a mut [f32],
) -> Result<Vec<Piece<'a>>> {
    let (n, k) = (groups.out_features, groups.in_features);
    let mut products = Vec::with_capacity(groups.count());
    for group in 0..groups.count() {
        let rows = groups.rows(group);
        let m = rows.len();
        let weight = group * n * k;
        let (a, b, shape) = match pass {
            Pass::Fprop => {
                (view(a, rows.start * k, (m, k))?, view(b, weight, (n, k))?.reversed_axes(), (m, n))
            }
            Pass::Dgrad => (view(a, rows.start * n, (m, n))?, view(b, weight, (n, k))?, (m, k)),
            Pass::Wgrad => (
                view(a, rows.start * n, (m, n))?.reversed_axes(),
                view(b, rows.start * k, (m, k))?,
                (n, k),
            ),
        };
        let (d_group, rest) =
            d.split_at_mut_checked(shape.0 * shape.1).ok_or_else(|| too_short("output"))?;
        d = rest;
        if m > 0 {
            let d = ArrayViewMut2::from_shape(shape, d_group).map_err(|_| too_short("output"))?;
            products.push(Piece { a, b, d });
        }
    }
    Ok(products)
}

/// Cuts a product into pieces of at most `size` rows and columns.
fn cut<'a>(product: Piece<'a>, size: (usize, usize), pieces: &mut Vec<Piece<'a>>) {
    let Piece { a, b, mut d } = product;
    let mut column = 0;
    while d.ncols() > 0 {
        let columns = size.1.min(d.ncols());
        let (mut strip, rest) = d.split_at(Axis(1), columns);
        d = rest;
        let b_strip = b.split_at(Axis(1), column).1.split_at(Axis(1), columns).0;
        column += columns;
        let mut row = 0;
        while strip.nrows() > 0 {
            let rows = size.0.min(strip.nrows());
            let (d, rest) = strip.split_at(Axis(0), rows);
            strip = rest;
            let a = a.split_at(Axis(0), row).1.split_at(Axis(0), rows).0;
            row += rows;
            pieces.push(Piece { a, b: b_strip, d });
        }
    }
}

/// Size of a piece that gives every thread a few of them, where the output is large enough.
fn piece_size(pass: Pass, groups: &Groups<'_>, threads: usize) -> (usize, usize) {
    let (n, k) = (groups.out_features, groups.in_features);
    let shapes = (0..groups.count()).map(|group| match (groups.rows(group).len(), pass) {
        (m, Pass::Fprop) => (m, n),
        (m, Pass::Dgrad) => (m, k),
        (0, Pass::Wgrad) => (0, 0),
        (_, Pass::Wgrad) => (n, k),
    });
    let mut size = PIECE;
    loop {
        let pieces: usize =
            shapes.clone().map(|(m, n)| m.div_ceil(size.0) * n.div_ceil(size.1)).sum();
        let larger = if size.0 >= size.1 { &mut size.0 } else { &mut size.1 };
        if pieces >= threads * PIECES_PER_THREAD || *larger <= SMALLEST_SIDE {
            return size;
        }
        *larger /= 2;
    }
}

fn view(values: &[f32], start: usize, shape: (usize, usize)) -> Result<ArrayView2<'_, f32>> {
    let values = values.get(start..).ok_or_else(|| too_short("operand"))?;
    ArrayView2::from_shape(shape, &values[..values.len().min(shape.0 * shape.1)])
        .map_err(|_| too_short("operand"))
}

fn too_short(what: &str) -> Error {
    Error::invalid(format!("the {what} has fewer elements than the groups need"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    /// The element order of a sum must not depend on how the output is cut: the number of threads
    /// decides the cut.
    #[test]
    fn cuts_do_not_change_a_bit() {
        let (n, k) = (200, 333);
        let groups = Groups { row_offsets: &[0, 1, 1, 300, 363], out_features: n, in_features: k };
        for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
            let (x, dy) = (values(363 * k, 1), values(363 * n, 2));
            let w = values(4 * n * k, 3);
            let (a, b, d_len) = match pass {
                Pass::Fprop => (&x, &w, 363 * n),
                Pass::Dgrad => (&dy, &w, 363 * k),
                Pass::Wgrad => (&dy, &x, 4 * n * k),
            };
            let mut whole = vec![0.0; d_len];
            for Piece { a, b, mut d } in group_products(pass, &groups, a, b, &mut whole).unwrap() {
                general_mat_mul(1.0, &a, &b, 0.0, &mut d);
            }
            for size in [(64, 64), (100, 7), (1, 512)] {
                let mut cut_up = vec![0.0; d_len];
                let mut pieces = Vec::new();
                for product in group_products(pass, &groups, a, b, &mut cut_up).unwrap() {
                    cut(product, size, &mut pieces);
                }
                for Piece { a, b, mut d } in pieces {
                    general_mat_mul(1.0, &a, &b, 0.0, &mut d);
                }
                assert_eq!(whole, cut_up, "{pass:?} cut to {size:?}");
            }
        }
    }

    #[test]
    fn one_large_group_keeps_all_threads_busy() {
        let groups = Groups { row_offsets: &[0, 1024], out_features: 1024, in_features: 64 };
        let (rows, columns) = piece_size(Pass::Fprop, &groups, 16);
        assert!((1024 / rows) * (1024 / columns) >= 64, "{rows} x {columns}");
        assert_eq!(piece_size(Pass::Fprop, &groups, 1), PIECE);
    }
}
