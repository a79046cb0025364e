//! Cross entropy of byte predictions.

use rayon::prelude::*;

/// Loss of a batch and where it comes from.
pub struct Loss {
    /// Mean loss in nats per byte.
    pub mean: f64,
    /// Gradient of the mean, `[rows, columns]`.
    pub dlogits: Vec<f32>,
}

/// Mean cross entropy of `logits [rows, columns]` for the bytes that came, and its gradient.
pub fn cross_entropy(logits: &[f32], targets: &[u8], columns: usize) -> Loss {
    let share = 1.0 / targets.len() as f32;
    let mut dlogits = vec![0.0; logits.len()];
    let losses: Vec<f64> = dlogits
        .par_chunks_exact_mut(columns)
        .zip(logits.par_chunks_exact(columns))
        .zip(targets)
        .map(|((gradient, logits), &target)| {
            let target = usize::from(target);
            let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            let mut sum = 0.0;
            for (exponential, logit) in gradient.iter_mut().zip(logits) {
                *exponential = (logit - largest).exp();
                sum += *exponential;
            }
            gradient.iter_mut().for_each(|value| *value *= share / sum);
            gradient[target] -= share;
            f64::from(sum.ln() + largest - logits[target])
        })
        .collect();
    Loss { mean: losses.iter().sum::<f64>() / targets.len() as f64, dlogits }
}

#[cfg(test)]
mod tests {
    use super::super::check::{check_gradient, weights};
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        let (columns, targets) = (11, [3u8, 0, 10]);
        let logits = weights(columns * targets.len(), 1);
        let loss = cross_entropy(&logits, &targets, columns);
        check_gradient(&logits, &loss.dlogits, |x| cross_entropy(x, &targets, columns).mean);
    }

    #[test]
    fn equal_logits_cost_the_logarithm_of_their_number() {
        let loss = cross_entropy(&[5.0; 512], &[1, 2], 256);
        assert!((loss.mean - 256f64.ln()).abs() < 1e-5);
    }
}
