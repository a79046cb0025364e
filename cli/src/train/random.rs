//! SplitMix64: small, seedable, the same everywhere.

/// A seed for what has this name: another for another name, and for each name another for another
/// `seed`, since every byte permutes the seeds.
pub fn seed_of(seed: u64, name: &str) -> u64 {
    name.bytes().fold(seed, |seed, byte| Random::new(seed, byte.into()).next_u64())
}

/// A stream of pseudo-random numbers.
pub struct Random(u64);

impl Random {
    /// The stream of this seed and purpose; different purposes give unrelated streams.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed);
        Self(random.next_u64() ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0. The bias is below 2⁻³² for the ends used here.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// Uniform in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Normally distributed, mean 0, deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.uniform()).cos()) as f32
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            let chosen = self.below(end);
            items.swap(end - 1, chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut random = Random::new(1, 2);
        let numbers: Vec<f64> = (0..20_000).map(|_| f64::from(random.normal())).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let square = numbers.iter().map(|x| x * x).sum::<f64>() / numbers.len() as f64;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.03, "{mean} {square}");
    }

    #[test]
    fn every_name_and_every_seed_has_a_seed_of_its_own() {
        let names: Vec<String> = (0..256)
            .flat_map(|block| ["up", "down"].map(|part| format!("blocks.{block}.{part}")))
            .collect();
        let seeds: BTreeSet<u64> =
            (0..16).flat_map(|seed| names.iter().map(move |name| seed_of(seed, name))).collect();
        assert_eq!(seeds.len(), 16 * names.len());
        // The order of the bytes counts.
        assert_ne!(seed_of(1, "ab"), seed_of(1, "ba"));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(3, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
