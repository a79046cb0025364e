//! SwiGLU: `silu(gate) · value`.

use rayon::prelude::*;

/// `h [rows, width]` from `u [rows, 2·width]`, whose rows hold the gate, then the value.
pub fn forward(u: &[f32], width: usize) -> Vec<f32> {
    let mut h = vec![0.0; u.len() / 2];
    h.par_chunks_exact_mut(width).zip(u.par_chunks_exact(2 * width)).for_each(|(h, u)| {
        let (gate, value) = u.split_at(width);
        for column in 0..width {
            h[column] = gate[column] * sigmoid(gate[column]) * value[column];
        }
    });
    h
}

/// The gradient of `u` for that of `h`.
pub fn backward(u: &[f32], dh: &[f32], width: usize) -> Vec<f32> {
    let mut du = vec![0.0; u.len()];
    du.par_chunks_exact_mut(2 * width)
        .zip(u.par_chunks_exact(2 * width))
        .zip(dh.par_chunks_exact(width))
        .for_each(|((du, u), dh)| {
            let ((gate, value), (dgate, dvalue)) = (u.split_at(width), du.split_at_mut(width));
            for column in 0..width {
                let open = sigmoid(gate[column]);
                let slope = open * (1.0 + gate[column] * (1.0 - open));
                dgate[column] = dh[column] * value[column] * slope;
                dvalue[column] = dh[column] * gate[column] * open;
            }
        });
    du
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::super::check::{check_gradient, weighted_sum, weights};
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        let (rows, width) = (3, 5);
        let u = weights(rows * 2 * width, 1);
        let dh = weights(rows * width, 2);
        let du = backward(&u, &dh, width);
        check_gradient(&u, &du, |u| weighted_sum(&forward(u, width), &dh));
    }

    #[test]
    fn extremes_stay_finite() {
        let u = [-200.0, 200.0, 3.0, 3.0];
        assert!(forward(&u, 2).iter().all(|h| h.is_finite()));
        assert!(backward(&u, &[1.0, 1.0], 2).iter().all(|du| du.is_finite()));
    }
}
