//! Finite differences, for the tests of every hand-written gradient.

use super::random::Random;

/// Numbers in the region where gradients are worth testing.
pub fn weights(count: usize, purpose: u64) -> Vec<f32> {
    let mut random = Random::new(7, purpose);
    (0..count).map(|_| random.normal()).collect()
}

/// Σ values·weights: turns a vector into a scalar whose gradient is `weights`.
pub fn weighted_sum(values: &[f32], weights: &[f32]) -> f64 {
    values.iter().zip(weights).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

/// Compares each element of `gradient` with a central difference of `function` at `x`.
pub fn check_gradient(x: &[f32], gradient: &[f32], mut function: impl FnMut(&[f32]) -> f64) {
    assert_eq!(x.len(), gradient.len());
    let largest = gradient.iter().fold(0.0f64, |largest, &g| largest.max(f64::from(g.abs())));
    for index in 0..x.len() {
        let mut moved = x.to_vec();
        moved[index] = x[index] + 1e-2;
        let (right, right_at) = (function(&moved), moved[index]);
        moved[index] = x[index] - 1e-2;
        let (left, left_at) = (function(&moved), moved[index]);
        let slope = (right - left) / f64::from(right_at - left_at);
        let error = (slope - f64::from(gradient[index])).abs();
        assert!(
            error < 2e-3 * (1.0 + largest),
            "element {index}: gradient {}, difference quotient {slope}",
            gradient[index]
        );
    }
}
