//! The model to beat: each byte predicted from the one before it.

const BYTES: usize = 256;

/// A byte bigram model with Witten–Bell smoothing: what a byte's followers did not claim goes to
/// the plain byte frequencies, which are smoothed by adding one.
pub struct Bigram {
    pairs: Vec<u32>,       // [BYTES, BYTES]
    totals: Vec<f64>,      // [BYTES]
    followers: Vec<f64>,   // [BYTES], distinct ones
    frequencies: Vec<f64>, // [BYTES]
}

impl Bigram {
    /// Counts the pairs of a text.
    pub fn new(text: &[u8]) -> Self {
        let mut pairs = vec![0u32; BYTES * BYTES];
        let mut counts = vec![1.0f64; BYTES];
        for &byte in text {
            counts[usize::from(byte)] += 1.0;
        }
        for pair in text.windows(2) {
            pairs[usize::from(pair[0]) * BYTES + usize::from(pair[1])] += 1;
        }
        let sum: f64 = counts.iter().sum();
        let rows = || pairs.chunks_exact(BYTES);
        Self {
            totals: rows().map(|row| row.iter().map(|&count| f64::from(count)).sum()).collect(),
            followers: rows()
                .map(|row| row.iter().filter(|&&count| count > 0).count() as f64)
                .collect(),
            frequencies: counts.iter().map(|count| count / sum).collect(),
            pairs,
        }
    }

    /// Probability of `byte` after `before`.
    pub fn probability(&self, before: u8, byte: u8) -> f64 {
        let (before, byte) = (usize::from(before), usize::from(byte));
        let (total, followers) = (self.totals[before], self.followers[before]);
        if total == 0.0 {
            return self.frequencies[byte];
        }
        let seen = f64::from(self.pairs[before * BYTES + byte]);
        (seen + followers * self.frequencies[byte]) / (total + followers)
    }

    /// Mean loss in nats per byte at these positions, none of which is 0.
    pub fn loss(&self, text: &[u8], positions: &[usize]) -> f64 {
        let sum: f64 =
            positions.iter().map(|&at| -self.probability(text[at - 1], text[at]).ln()).sum();
        sum / positions.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_to_one() {
        let model = Bigram::new(b"abracadabra");
        for before in *b"abz" {
            let sum: f64 = (0..=255).map(|byte| model.probability(before, byte)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{before}: {sum}");
        }
    }

    #[test]
    fn a_predictable_text_has_a_small_loss() {
        let text = b"ab".repeat(500);
        let positions: Vec<usize> = (900..1000).collect();
        assert!(Bigram::new(&text[..900]).loss(&text, &positions) < 0.01);
    }
}
