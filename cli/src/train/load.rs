//! How evenly the experts are used.

/// Rows of each expert of each block, added up over batches.
#[derive(Clone, Debug, Default)]
pub struct Load(Vec<Vec<usize>>);

/// An expert with this part of its block's mean, or less, is starved.
pub const STARVED: f64 = 0.25;

impl Load {
    /// Adds the rows of one batch.
    pub fn add(&mut self, batch: &[Vec<usize>]) {
        if self.0.is_empty() {
            self.0 = batch.to_vec();
            return;
        }
        for (sums, counts) in self.0.iter_mut().zip(batch) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    /// Rows of each expert of each block.
    pub fn rows(&self) -> &[Vec<usize>] {
        &self.0
    }

    /// The least load as a part of its block's mean; 1 without blocks.
    pub fn least(&self) -> f64 {
        self.0.iter().map(|block| extreme(block, f64::min)).fold(1.0, f64::min)
    }

    /// The greatest load as a part of its block's mean; 1 without blocks.
    pub fn greatest(&self) -> f64 {
        self.0.iter().map(|block| extreme(block, f64::max)).fold(1.0, f64::max)
    }
}

fn extreme(block: &[usize], choose: fn(f64, f64) -> f64) -> f64 {
    let total: usize = block.iter().sum();
    let mean = total.max(1) as f64 / block.len() as f64;
    block.iter().map(|&rows| rows as f64 / mean).reduce(choose).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_parts_of_their_block_s_mean() {
        let mut load = Load::default();
        load.add(&[vec![1, 3], vec![2, 2]]);
        load.add(&[vec![1, 3], vec![2, 2]]);
        assert_eq!(load.rows(), [vec![2, 6], vec![4, 4]]);
        assert_eq!((load.least(), load.greatest()), (0.5, 1.5));
        assert_eq!(Load::default().least(), 1.0);
    }
}
