//! RMSNorm.

use rayon::prelude::*;

use super::parameter::{Decay, Parameter};

const EPSILON: f32 = 1e-6;

/// Rows whose contributions to the gain's gradient are summed together; a fixed number, so that the
/// sum does not depend on the number of threads.
const ROWS: usize = 64;

/// Scales each row to a mean square of 1, then by a learned gain per column.
pub struct Norm {
    /// The gain, `[width]`.
    pub gain: Parameter,
}

/// What backward needs of a forward call.
pub struct NormSaved {
    x: Vec<f32>,       // [rows, width]
    inverse: Vec<f32>, // [rows], 1 / root mean square
}

impl Norm {
    /// A norm whose gains are 1.
    pub fn new(name: &str, width: usize) -> Self {
        Self { gain: Parameter::constant(format!("{name}.gain"), &[width], Decay::No, 1.0) }
    }

    /// `y = x / rms(x) · gain`, `[rows, width]`.
    pub fn forward(&self, x: &[f32]) -> (Vec<f32>, NormSaved) {
        let gain = &self.gain.values;
        let width = gain.len();
        let inverse: Vec<f32> = x
            .par_chunks_exact(width)
            .map(|row| {
                let square: f32 = row.iter().map(|value| value * value).sum();
                1.0 / (square / width as f32 + EPSILON).sqrt()
            })
            .collect();
        let mut y = vec![0.0; x.len()];
        y.par_chunks_exact_mut(width).zip(x.par_chunks_exact(width)).zip(&inverse).for_each(
            |((y, x), inverse)| {
                for column in 0..width {
                    y[column] = x[column] * inverse * gain[column];
                }
            },
        );
        (y, NormSaved { x: x.to_vec(), inverse })
    }

    /// The gradient of `x` for that of `y`; sets the gain's gradient.
    pub fn backward(&mut self, saved: &NormSaved, dy: &[f32]) -> Vec<f32> {
        let gain = &self.gain.values;
        let width = gain.len();
        let mut dx = vec![0.0; dy.len()];
        let partial: Vec<Vec<f32>> = dx
            .par_chunks_mut(ROWS * width)
            .zip(dy.par_chunks(ROWS * width))
            .zip(saved.x.par_chunks(ROWS * width))
            .zip(saved.inverse.par_chunks(ROWS))
            .map(|(((dx, dy), x), inverse)| {
                let mut dgain = vec![0.0; width];
                let rows = dx.chunks_exact_mut(width).zip(dy.chunks_exact(width));
                for ((row, &inverse), x) in rows.zip(inverse).zip(x.chunks_exact(width)) {
                    backward_row(row.0, row.1, x, inverse, gain, &mut dgain);
                }
                dgain
            })
            .collect();
        self.gain.gradient.fill(0.0);
        for part in &partial {
            self.gain.gradient.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        dx
    }
}

fn backward_row(
    dx: &mut [f32],
    dy: &[f32],
    x: &[f32],
    inverse: f32,
    gain: &[f32],
    dgain: &mut [f32],
) {
    let width = x.len();
    let mut projection = 0.0;
    for column in 0..width {
        dgain[column] += dy[column] * x[column] * inverse;
        projection += dy[column] * gain[column] * x[column];
    }
    let pull = projection * inverse * inverse * inverse / width as f32;
    for column in 0..width {
        dx[column] = inverse * gain[column] * dy[column] - pull * x[column];
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{check_gradient, weighted_sum, weights};
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        let (rows, width) = (5, 8);
        let x = weights(rows * width, 1);
        let dy = weights(rows * width, 2);
        let mut norm = Norm::new("test", width);
        norm.gain.values = weights(width, 3);
        let (_, saved) = norm.forward(&x);
        let dx = norm.backward(&saved, &dy);
        check_gradient(&x, &dx, |x| weighted_sum(&norm.forward(x).0, &dy));

        let (gain, dgain) = (norm.gain.values.clone(), norm.gain.gradient.clone());
        check_gradient(&gain, &dgain, |gain| {
            norm.gain.values = gain.to_vec();
            weighted_sum(&norm.forward(&x).0, &dy)
        });
    }
}
