//! The router: which experts each token goes to, with what weight, and in which rows its copies
//! lie.

use rayon::prelude::*;

/// Where the tokens of a batch go.
pub struct Routing {
    experts: usize,
    top_k: usize,
    columns: usize,
    probabilities: Vec<f32>, // [tokens, experts], softmax over all experts
    chosen: Vec<usize>,      // [tokens, top_k], experts by falling probability
    weights: Vec<f32>,       // [tokens, top_k], probabilities of the chosen, adding up to 1
    rows: Vec<usize>,        // [tokens, top_k], row of each copy
    sources: Vec<usize>,     // [tokens · top_k], token of each row
    counts: Vec<usize>,      // [experts]
}

impl Routing {
    /// Sends each token to its `top_k` most probable experts; equal ones are taken in order.
    /// `logits [tokens, columns]`, of which the first `experts` columns count.
    pub fn new(logits: &[f32], columns: usize, experts: usize, top_k: usize) -> Self {
        let tokens = logits.len() / columns;
        let mut probabilities = vec![0.0; tokens * experts];
        let mut chosen = vec![0; tokens * top_k];
        let mut weights = vec![0.0; tokens * top_k];
        probabilities
            .par_chunks_exact_mut(experts)
            .zip(chosen.par_chunks_exact_mut(top_k))
            .zip(weights.par_chunks_exact_mut(top_k))
            .zip(logits.par_chunks_exact(columns))
            .for_each(|(((probabilities, chosen), weights), logits)| {
                softmax(&logits[..experts], probabilities);
                choose(probabilities, chosen);
                let sum: f32 = chosen.iter().map(|&expert| probabilities[expert]).sum();
                for (weight, &expert) in weights.iter_mut().zip(&*chosen) {
                    *weight = probabilities[expert] / sum;
                }
            });
        let (rows, sources, counts) = sort_by_expert(&chosen, experts, top_k);
        Self { experts, top_k, columns, probabilities, chosen, weights, rows, sources, counts }
    }

    /// Rows per expert.
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Copies each token `x [tokens, width]` to its rows `[tokens · top_k, width]`, sorted by
    /// expert.
    pub fn permute(&self, x: &[f32], width: usize) -> Vec<f32> {
        let mut permuted = vec![0.0; self.sources.len() * width];
        permuted.par_chunks_exact_mut(width).zip(&self.sources).for_each(|(row, &token)| {
            row.copy_from_slice(&x[token * width..][..width]);
        });
        permuted
    }

    /// The gradient of `x` of [`Routing::permute`]: each token's sum over its rows.
    pub fn permute_backward(&self, dpermuted: &[f32], width: usize) -> Vec<f32> {
        let mut dx = vec![0.0; self.sources.len() / self.top_k * width];
        self.each_token(&mut dx, width, |dx, row, _| {
            let copy = &dpermuted[row * width..][..width];
            dx.iter_mut().zip(copy).for_each(|(sum, value)| *sum += value);
        });
        dx
    }

    /// Adds the experts' outputs `[tokens · top_k, width]` to `residual [tokens, width]`, weighted.
    pub fn combine(&self, outputs: &[f32], residual: &[f32], width: usize) -> Vec<f32> {
        let mut y = residual.to_vec();
        self.each_token(&mut y, width, |y, row, weight| {
            let output = &outputs[row * width..][..width];
            y.iter_mut().zip(output).for_each(|(sum, value)| *sum += weight * value);
        });
        y
    }

    /// Gradients of [`Routing::combine`]: of the outputs, and of the weights `[tokens, top_k]`.
    pub fn combine_backward(
        &self,
        outputs: &[f32],
        dy: &[f32],
        width: usize,
    ) -> (Vec<f32>, Vec<f32>) {
        let mut weight_of_row = vec![0.0; self.sources.len()];
        for (&row, &weight) in self.rows.iter().zip(&self.weights) {
            weight_of_row[row] = weight;
        }
        let mut doutputs = vec![0.0; outputs.len()];
        doutputs.par_chunks_exact_mut(width).zip(&self.sources).zip(&weight_of_row).for_each(
            |((gradient, &token), weight)| {
                let dy = &dy[token * width..][..width];
                gradient.iter_mut().zip(dy).for_each(|(value, dy)| *value = weight * dy);
            },
        );
        let mut dweights = vec![0.0; self.rows.len()];
        dweights.par_iter_mut().zip(&self.rows).enumerate().for_each(|(slot, (gradient, &row))| {
            let dy = &dy[slot / self.top_k * width..][..width];
            *gradient = dy.iter().zip(&outputs[row * width..][..width]).map(|(a, b)| a * b).sum();
        });
        (doutputs, dweights)
    }

    /// The load-balancing loss: experts · Σ (share of rows · mean probability), 1 when balanced.
    pub fn balance_loss(&self) -> f64 {
        let tokens = (self.probabilities.len() / self.experts) as f64;
        let mut mean = vec![0.0f64; self.experts];
        for row in self.probabilities.chunks_exact(self.experts) {
            mean.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value) / tokens);
        }
        let shares = self.counts.iter().map(|&count| count as f64 / self.sources.len() as f64);
        self.experts as f64 * shares.zip(mean).map(|(share, mean)| share * mean).sum::<f64>()
    }

    /// The gradient of the logits for that of the weights, plus `coefficient` times that of the
    /// load-balancing loss, in which the shares of rows count as constant.
    pub fn backward(&self, dweights: &[f32], coefficient: f32) -> Vec<f32> {
        let tokens = self.probabilities.len() / self.experts;
        let factor = coefficient * self.experts as f32 / tokens as f32;
        let balance: Vec<f32> = self
            .counts
            .iter()
            .map(|&count| factor * count as f32 / self.sources.len() as f32)
            .collect();
        let mut dlogits = vec![0.0; tokens * self.columns];
        dlogits.par_chunks_exact_mut(self.columns).enumerate().for_each(|(token, dlogits)| {
            let slots = token * self.top_k..(token + 1) * self.top_k;
            let probabilities = &self.probabilities[token * self.experts..][..self.experts];
            let (chosen, weights) = (&self.chosen[slots.clone()], &self.weights[slots.clone()]);
            let dweights = &dweights[slots];
            let mut dprobabilities = balance.clone();
            let sum: f32 = chosen.iter().map(|&expert| probabilities[expert]).sum();
            let mean: f32 = dweights.iter().zip(weights).map(|(a, b)| a * b).sum();
            for (&expert, dweight) in chosen.iter().zip(dweights) {
                dprobabilities[expert] += (dweight - mean) / sum;
            }
            let pull: f32 = dprobabilities.iter().zip(probabilities).map(|(a, b)| a * b).sum();
            for expert in 0..self.experts {
                dlogits[expert] = probabilities[expert] * (dprobabilities[expert] - pull);
            }
        });
        dlogits
    }

    /// Calls `add` with each token's row of `into`, and the row and weight of each of its copies.
    fn each_token(
        &self,
        into: &mut [f32],
        width: usize,
        add: impl Fn(&mut [f32], usize, f32) + Sync,
    ) {
        into.par_chunks_exact_mut(width)
            .zip(self.rows.par_chunks_exact(self.top_k))
            .zip(self.weights.par_chunks_exact(self.top_k))
            .for_each(|((into, rows), weights)| {
                for (&row, &weight) in rows.iter().zip(weights) {
                    add(into, row, weight);
                }
            });
    }
}

fn softmax(logits: &[f32], probabilities: &mut [f32]) {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    for (probability, logit) in probabilities.iter_mut().zip(logits) {
        *probability = (logit - largest).exp();
    }
    let sum: f32 = probabilities.iter().sum();
    probabilities.iter_mut().for_each(|probability| *probability /= sum);
}

/// The largest probabilities, by falling size; the first of equal ones.
fn choose(probabilities: &[f32], chosen: &mut [usize]) {
    for slot in 0..chosen.len() {
        let (before, rest) = chosen.split_at_mut(slot);
        let mut best = None;
        for (expert, &probability) in probabilities.iter().enumerate() {
            let better = best.is_none_or(|(_, largest)| probability > largest);
            if better && !before.contains(&expert) {
                best = Some((expert, probability));
            }
        }
        rest[0] = best.map_or(0, |(expert, _)| expert);
    }
}

/// A stable counting sort of the copies by expert: row of each copy, token of each row, rows of
/// each expert.
fn sort_by_expert(
    chosen: &[usize],
    experts: usize,
    top_k: usize,
) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let mut counts = vec![0; experts];
    for &expert in chosen {
        counts[expert] += 1;
    }
    let mut next: Vec<usize> = counts
        .iter()
        .scan(0, |start, &count| {
            *start += count;
            Some(*start - count)
        })
        .collect();
    let mut sources = vec![0; chosen.len()];
    let mut rows = vec![0; chosen.len()];
    for (copy, &expert) in chosen.iter().enumerate() {
        rows[copy] = next[expert];
        sources[next[expert]] = copy / top_k;
        next[expert] += 1;
    }
    (rows, sources, counts)
}

#[cfg(test)]
mod tests {
    use super::super::check::{check_gradient, weighted_sum, weights};
    use super::*;

    const TOKENS: usize = 6;
    const COLUMNS: usize = 8;
    const EXPERTS: usize = 5;
    const TOP_K: usize = 2;
    const WIDTH: usize = 3;

    /// Logits whose two largest stand clear of the rest, so that a small step changes no choice.
    fn logits() -> Vec<f32> {
        let mut logits = weights(TOKENS * COLUMNS, 1);
        for token in 0..TOKENS {
            logits[token * COLUMNS + token % EXPERTS] += 8.0;
            logits[token * COLUMNS + (2 * token + 1) % EXPERTS] += 8.5;
        }
        logits
    }

    fn route(logits: &[f32]) -> Routing {
        Routing::new(logits, COLUMNS, EXPERTS, TOP_K)
    }

    #[test]
    fn rows_are_sorted_by_expert_and_hold_their_tokens() {
        let routing = route(&logits());
        let x: Vec<f32> = (0..TOKENS).flat_map(|token| [token as f32; WIDTH]).collect();
        let permuted = routing.permute(&x, WIDTH);
        let mut start = 0;
        for (expert, &count) in routing.counts().iter().enumerate() {
            for row in start..start + count {
                let token = permuted[row * WIDTH] as usize;
                assert!(routing.chosen[token * TOP_K..][..TOP_K].contains(&expert));
            }
            start += count;
        }
        assert_eq!(start, TOKENS * TOP_K);
        let back = routing.combine(&permuted, &vec![0.0; x.len()], WIDTH);
        assert!(back.iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn gradient_of_the_logits_matches_finite_differences() {
        let outputs = weights(TOKENS * TOP_K * WIDTH, 2);
        let (dy, residual) = (weights(TOKENS * WIDTH, 3), vec![0.0; TOKENS * WIDTH]);
        let logits = logits();
        let routing = route(&logits);
        let (_, dweights) = routing.combine_backward(&outputs, &dy, WIDTH);
        let dlogits = routing.backward(&dweights, 0.7);
        check_gradient(&logits, &dlogits, |logits| {
            let routing = route(logits);
            let y = routing.combine(&outputs, &residual, WIDTH);
            weighted_sum(&y, &dy) + f64::from(0.7f32) * routing.balance_loss()
        });
    }

    #[test]
    fn gradients_of_copies_match_finite_differences() {
        let routing = route(&logits());
        let (x, dcopies) = (weights(TOKENS * WIDTH, 2), weights(TOKENS * TOP_K * WIDTH, 3));
        let dx = routing.permute_backward(&dcopies, WIDTH);
        check_gradient(&x, &dx, |x| weighted_sum(&routing.permute(x, WIDTH), &dcopies));

        let (outputs, dy) = (weights(TOKENS * TOP_K * WIDTH, 4), weights(TOKENS * WIDTH, 5));
        let (doutputs, _) = routing.combine_backward(&outputs, &dy, WIDTH);
        let residual = vec![0.0; dy.len()];
        check_gradient(&outputs, &doutputs, |outputs| {
            weighted_sum(&routing.combine(outputs, &residual, WIDTH), &dy)
        });
    }

    #[test]
    fn equal_logits_are_balanced_in_probability_and_taken_in_order() {
        let routing = route(&[1.0; TOKENS * COLUMNS]);
        assert_eq!(routing.counts(), [6, 6, 0, 0, 0]);
        assert!((routing.balance_loss() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn not_a_number_does_not_panic() {
        let routing = route(&[f32::NAN; TOKENS * COLUMNS]);
        assert_eq!(routing.counts().iter().sum::<usize>(), TOKENS * TOP_K);
    }
}
