//! The formulas as loops, over FP32 or FP64 numbers: what every engine is compared with.
//!
//! Matrices are row-major slices. Group `g` owns rows `row_offsets[g]..row_offsets[g + 1]` of the
//! token matrices, which may have more rows than that; those are neither read nor written. Every
//! element is one sum in ascending order of the reduction index, rounded at each step to the type
//! of the arguments.
//!
//! ```
//! use grouped_linear::reference::plain::{Groups, fprop};
//! // Two experts with one row each, and one row that belongs to no expert.
//! let groups = Groups { row_offsets: &[0, 1, 2], out_features: 1, in_features: 2 };
//! let x = [1.0, 2.0, 3.0, 4.0, f64::NAN, f64::NAN]; // [rows, k]
//! let w = [1.0, 1.0, 10.0, 10.0]; // [groups, n, k]
//! let mut y = [0.0; 3]; // [rows, n]
//! fprop(&groups, &x, &w, &mut y)?;
//! assert_eq!(y, [3.0, 70.0, 0.0]);
//! # Ok::<(), grouped_linear::Error>(())
//! ```

use std::ops::{Add, Mul, Range};

use grouped_linear_kernels::abi::DBIAS_SEGMENT_ROWS;

use crate::error::{Error, Result};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// FP32 or FP64.
pub trait Real: Copy + Default + Add<Output = Self> + Mul<Output = Self> + sealed::Sealed {}

impl Real for f32 {}
impl Real for f64 {}

/// Which rows belong to which group, and the features.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// First row of each group, then the number of live rows; ascending, `groups + 1` entries.
    pub row_offsets: &'a [usize],
    /// N.
    pub out_features: usize,
    /// K; not used by [`dbias`] and [`dscales`].
    pub in_features: usize,
}

impl Groups<'_> {
    /// Number of groups.
    pub fn count(&self) -> usize {
        self.row_offsets.len().saturating_sub(1)
    }

    /// The rows of one group.
    pub(crate) fn rows(&self, group: usize) -> Range<usize> {
        self.row_offsets[group]..self.row_offsets[group + 1]
    }

    /// Rows that belong to some group.
    pub(crate) fn live_rows(&self) -> usize {
        self.row_offsets.last().copied().unwrap_or(0)
    }

    fn check_offsets(&self) -> Result<()> {
        if self.row_offsets.is_empty() || self.row_offsets.windows(2).any(|pair| pair[0] > pair[1])
        {
            return Err(Error::invalid("row_offsets: groups + 1 ascending numbers are needed"));
        }
        Ok(())
    }
}

/// `Y_g = X_g · W_gᵀ`: `x` `[rows, k]`, `w` `[groups, n, k]`, `y` `[rows, n]`.
///
/// # Errors
/// Row offsets that do not ascend; a slice that is too short.
pub fn fprop<T: Real>(groups: &Groups<'_>, x: &[T], w: &[T], y: &mut [T]) -> Result<()> {
    let (n, k) = (groups.out_features, groups.in_features);
    groups.check_offsets()?;
    check_length("x", x.len(), groups.live_rows() * k)?;
    check_length("w", w.len(), groups.count() * n * k)?;
    check_length("y", y.len(), groups.live_rows() * n)?;
    for group in 0..groups.count() {
        for row in groups.rows(group) {
            let x_row = &x[row * k..][..k];
            for column in 0..n {
                let w_row = &w[(group * n + column) * k..][..k];
                y[row * n + column] = dot(x_row, w_row);
            }
        }
    }
    Ok(())
}

/// `dX_g = dY_g · W_g`: `dy` `[rows, n]`, `w` `[groups, n, k]`, `dx` `[rows, k]`.
///
/// # Errors
/// Row offsets that do not ascend; a slice that is too short.
pub fn dgrad<T: Real>(groups: &Groups<'_>, dy: &[T], w: &[T], dx: &mut [T]) -> Result<()> {
    let (n, k) = (groups.out_features, groups.in_features);
    groups.check_offsets()?;
    check_length("dy", dy.len(), groups.live_rows() * n)?;
    check_length("w", w.len(), groups.count() * n * k)?;
    check_length("dx", dx.len(), groups.live_rows() * k)?;
    for group in 0..groups.count() {
        for row in groups.rows(group) {
            let dx_row = &mut dx[row * k..][..k];
            dx_row.fill(T::default());
            for feature in 0..n {
                let w_row = &w[(group * n + feature) * k..][..k];
                add_scaled(dx_row, dy[row * n + feature], w_row);
            }
        }
    }
    Ok(())
}

/// `dW_g = dY_gᵀ · X_g`: `dy` `[rows, n]`, `x` `[rows, k]`, `dw` `[groups, n, k]`.
///
/// # Errors
/// Row offsets that do not ascend; a slice that is too short.
pub fn wgrad<T: Real>(groups: &Groups<'_>, dy: &[T], x: &[T], dw: &mut [T]) -> Result<()> {
    let (n, k) = (groups.out_features, groups.in_features);
    groups.check_offsets()?;
    check_length("dy", dy.len(), groups.live_rows() * n)?;
    check_length("x", x.len(), groups.live_rows() * k)?;
    check_length("dw", dw.len(), groups.count() * n * k)?;
    for group in 0..groups.count() {
        let dw_group = &mut dw[group * n * k..][..n * k];
        dw_group.fill(T::default());
        for row in groups.rows(group) {
            let x_row = &x[row * k..][..k];
            for feature in 0..n {
                let dw_row = &mut dw_group[feature * k..][..k];
                add_scaled(dw_row, dy[row * n + feature], x_row);
            }
        }
    }
    Ok(())
}

/// `db_g[j] = Σ_rows dY[r, j] (· s_r)`: `dy` `[rows, n]`, `row_scales` `[rows]`,
/// `db` `[groups, n]`.
///
/// Segments of 128 rows are summed first and then added in order, as on the GPU: in FP32, one long
/// sum over the rows of a large expert would lose digits.
///
/// # Errors
/// Row offsets that do not ascend; a slice that is too short.
pub fn dbias<T: Real>(
    groups: &Groups<'_>,
    dy: &[T],
    row_scales: Option<&[T]>,
    db: &mut [T],
) -> Result<()> {
    let n = groups.out_features;
    groups.check_offsets()?;
    check_length("dy", dy.len(), groups.live_rows() * n)?;
    if let Some(scales) = row_scales {
        check_length("row_scales", scales.len(), groups.live_rows())?;
    }
    check_length("db", db.len(), groups.count() * n)?;
    let mut segment_sum = vec![T::default(); n];
    for group in 0..groups.count() {
        let db_group = &mut db[group * n..][..n];
        db_group.fill(T::default());
        for segment in segments(groups.rows(group)) {
            sum_rows(segment, n, dy, row_scales, &mut segment_sum);
            add_to(db_group, &segment_sum);
        }
    }
    Ok(())
}

/// `dscales[r] = Σ_j dY[r, j] · b_g(r)[j]`: `dy` `[rows, n]`, `bias` `[groups, n]`,
/// `dscales` `[rows]`.
///
/// # Errors
/// Row offsets that do not ascend; a slice that is too short.
pub fn dscales<T: Real>(
    groups: &Groups<'_>,
    dy: &[T],
    bias: &[T],
    dscales: &mut [T],
) -> Result<()> {
    let n = groups.out_features;
    groups.check_offsets()?;
    check_length("dy", dy.len(), groups.live_rows() * n)?;
    check_length("bias", bias.len(), groups.count() * n)?;
    check_length("dscales", dscales.len(), groups.live_rows())?;
    for group in 0..groups.count() {
        for row in groups.rows(group) {
            dscales[row] = dot(&dy[row * n..][..n], &bias[group * n..][..n]);
        }
    }
    Ok(())
}

/// The segments of a group's rows that [`dbias`] sums first.
pub(super) fn segments(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let length = DBIAS_SEGMENT_ROWS as usize;
    rows.clone().step_by(length).map(move |start| start..rows.end.min(start + length))
}

/// The sum of a segment's rows, in order.
pub(super) fn sum_rows<T: Real>(
    segment: Range<usize>,
    n: usize,
    dy: &[T],
    row_scales: Option<&[T]>,
    sum: &mut [T],
) {
    sum.fill(T::default());
    for row in segment {
        let dy_row = &dy[row * n..][..n];
        match row_scales {
            Some(scales) => add_scaled(sum, scales[row], dy_row),
            None => add_to(sum, dy_row),
        }
    }
}

pub(super) fn add_to<T: Real>(sums: &mut [T], values: &[T]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = *sum + value;
    }
}

pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::default(), |sum, (&a, &b)| sum + a * b)
}

fn add_scaled<T: Real>(sums: &mut [T], factor: T, values: &[T]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = *sum + factor * value;
    }
}

fn check_length(what: &'static str, got: usize, needed: usize) -> Result<()> {
    if got >= needed {
        return Ok(());
    }
    Err(Error::invalid(format!("{what}: {got} elements were given, {needed} are needed")))
}
