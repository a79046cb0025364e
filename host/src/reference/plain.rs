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

use super::convert::zeros;
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

    /// The group of a row that belongs to some group.
    pub(crate) fn of_row(&self, row: usize) -> usize {
        self.row_offsets.partition_point(|&offset| offset <= row) - 1
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
    check_length("x", x.len(), &[groups.live_rows(), k])?;
    check_length("w", w.len(), &[groups.count(), n, k])?;
    check_length("y", y.len(), &[groups.live_rows(), n])?;
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
    check_length("dy", dy.len(), &[groups.live_rows(), n])?;
    check_length("w", w.len(), &[groups.count(), n, k])?;
    check_length("dx", dx.len(), &[groups.live_rows(), k])?;
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
    check_length("dy", dy.len(), &[groups.live_rows(), n])?;
    check_length("x", x.len(), &[groups.live_rows(), k])?;
    check_length("dw", dw.len(), &[groups.count(), n, k])?;
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
    check_length("dy", dy.len(), &[groups.live_rows(), n])?;
    if let Some(scales) = row_scales {
        check_length("row_scales", scales.len(), &[groups.live_rows()])?;
    }
    check_length("db", db.len(), &[groups.count(), n])?;
    // Without groups, n may be any number.
    let mut segment_sum = zeros(n.min(db.len()))?;
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
    check_length("dy", dy.len(), &[groups.live_rows(), n])?;
    check_length("bias", bias.len(), &[groups.count(), n])?;
    check_length("dscales", dscales.len(), &[groups.live_rows()])?;
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

/// After it, the product of the first factors, however many, can be computed without a check.
fn check_length(what: &'static str, got: usize, shape: &[usize]) -> Result<()> {
    let needed = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    if needed.is_some_and(|needed| got >= needed) {
        return Ok(());
    }
    let needed = needed.map_or("more than there are addresses".to_owned(), |n| n.to_string());
    Err(Error::invalid(format!("{what}: {got} elements were given, {needed} are needed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation; slices of no more than eight elements never suffice, and nothing may panic.
    fn refused(groups: &Groups<'_>) {
        let (a, mut d) = ([0.0f64; 8], [0.0f64; 8]);
        let outcomes = [
            fprop(groups, &a, &a, &mut d),
            dgrad(groups, &a, &a, &mut d),
            wgrad(groups, &a, &a, &mut d),
            dbias(groups, &a, Some(&a), &mut d),
            dscales(groups, &a, &a, &mut d),
        ];
        for outcome in outcomes {
            assert!(outcome.is_err_and(|error| error.is_invalid_argument()), "{groups:?}");
        }
    }

    #[test]
    fn products_beyond_the_addresses_are_refused() {
        let (half, most) = (1usize << 63, usize::MAX);
        for row_offsets in [&[0, half][..], &[0, most], &[half, most], &[0, 1, most], &[0, 9]] {
            for features in [1, 2, 8, half, most] {
                let (out_features, in_features) = (features, features);
                refused(&Groups { row_offsets, out_features, in_features });
            }
        }
        // The weights, bias or their gradients are too large although there are no rows.
        for out_features in [9, half, most] {
            let groups = Groups { row_offsets: &[0, 0, 0], out_features, in_features: 0 };
            let error = fprop::<f64>(&groups, &[], &[], &mut []);
            assert_eq!(error.is_err(), out_features > 9, "{out_features}");
            assert!(dbias::<f64>(&groups, &[], None, &mut [0.0; 8]).is_err());
            assert!(dscales::<f64>(&groups, &[], &[0.0; 8], &mut []).is_err());
        }
    }

    #[test]
    fn without_groups_features_may_be_any_number() {
        let n = usize::MAX;
        let groups = Groups { row_offsets: &[0], out_features: n, in_features: 1 };
        fprop::<f64>(&groups, &[], &[], &mut []).unwrap();
        dbias::<f64>(&groups, &[], None, &mut []).unwrap();
        dscales::<f64>(&groups, &[], &[], &mut []).unwrap();
    }
}
