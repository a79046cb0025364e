//! Embeddings of the last bytes, one after the other in a row.

use rayon::prelude::*;

use super::args::BYTES;
use super::parameter::{Decay, Parameter};
use super::random::Random;

/// A vector for each byte. A row of the output holds the vectors of all bytes of the context, so
/// the layer that follows gives each place of the context its own weights.
pub struct Embedding {
    /// `[256, width]`.
    pub table: Parameter,
    width: usize,
}

impl Embedding {
    /// A table of normally distributed vectors.
    pub fn new(width: usize, random: &mut Random) -> Self {
        let name = "embedding.table".to_owned();
        Self { table: Parameter::normal(name, &[BYTES, width], Decay::No, 1.0, random), width }
    }

    /// `[rows, context · width]` for `contexts [rows, context]`.
    pub fn forward(&self, contexts: &[u8]) -> Vec<f32> {
        let mut x = vec![0.0; contexts.len() * self.width];
        x.par_chunks_exact_mut(self.width).zip(contexts).for_each(|(x, &byte)| {
            x.copy_from_slice(self.row(&self.table.values, byte));
        });
        x
    }

    /// Sets the table's gradient; one thread sums in the order of the rows.
    pub fn backward(&mut self, contexts: &[u8], dx: &[f32]) {
        self.table.gradient.fill(0.0);
        for (&byte, dx) in contexts.iter().zip(dx.chunks_exact(self.width)) {
            let start = usize::from(byte) * self.width;
            let gradient = &mut self.table.gradient[start..start + self.width];
            gradient.iter_mut().zip(dx).for_each(|(sum, value)| *sum += value);
        }
    }

    fn row<'a>(&self, table: &'a [f32], byte: u8) -> &'a [f32] {
        &table[usize::from(byte) * self.width..][..self.width]
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{check_gradient, weighted_sum, weights};
    use super::*;

    #[test]
    fn gradients_match_finite_differences() {
        let mut embedding = Embedding::new(2, &mut Random::new(1, 1));
        let contexts = [9, 9, 200, 0, 9, 255];
        let dx = weights(contexts.len() * 2, 2);
        embedding.backward(&contexts, &dx);
        let (table, gradient) = (embedding.table.values.clone(), embedding.table.gradient.clone());
        check_gradient(&table, &gradient, |table| {
            embedding.table.values = table.to_vec();
            weighted_sum(&embedding.forward(&contexts), &dx)
        });
    }
}
