//! The shapes of the benchmarks, those of published mixture-of-experts models, with their splits.
//!
//! Splits are made from integers and a few powers by a generator of its own, so that every run has the
//! same rows for each expert.

/// A grouped product's size.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Name in tables.
    pub id: &'static str,
    /// Rows of each expert.
    pub splits: Vec<u64>,
    /// Features of the output.
    pub n: u64,
    /// Features of the input.
    pub k: u64,
}

impl Shape {
    /// Rows of all experts.
    pub fn rows(&self) -> u64 {
        self.splits.iter().sum()
    }

    /// Experts.
    pub fn groups(&self) -> u64 {
        self.splits.len() as u64
    }

    /// Experts that have rows.
    pub fn live_groups(&self) -> u64 {
        self.splits.iter().filter(|rows| **rows != 0).count() as u64
    }

    /// FLOPs of one of its products; the three passes have equally many.
    pub fn flops(&self) -> f64 {
        2.0 * self.rows() as f64 * self.n as f64 * self.k as f64
    }

    /// Rows of all experts, each padded to a multiple of 128, as columnwise copies have them.
    pub fn padded_rows(&self) -> u64 {
        self.splits.iter().map(|rows| rows.next_multiple_of(128)).sum()
    }
}

/// How rows are dealt out to experts.
#[derive(Clone, Copy, Debug)]
enum Distribution {
    /// Equally.
    Balanced,
    /// Between 0.7 and 1.3 of the mean, before they are scaled to the sum.
    Jittered,
    /// As 1 / rank to this power, ranks dealt at random.
    Zipf(f64),
    /// The same, with so many experts left empty.
    Empty(usize, f64),
    /// All to one.
    One,
}

use Distribution::{Balanced, Empty, Jittered, One, Zipf};

/// Name, experts, rows, N, K and distribution.
const SUITE: &[(&str, usize, u64, u64, u64, Distribution)] = &[
    ("s01", 8, 32768, 4096, 7168, Balanced),
    ("s02", 8, 32768, 7168, 2048, Jittered),
    ("s03", 4, 32768, 4096, 7168, Zipf(0.5)),
    ("s04", 12, 24576, 4096, 7168, Empty(2, 1.0)),
    ("s05", 8, 16384, 28672, 4096, Jittered),
    ("s06", 2, 16384, 4096, 14336, Zipf(0.5)),
    ("s07", 128, 65536, 1536, 2048, Balanced),
    ("s08", 16, 32768, 2048, 768, Empty(2, 1.0)),
    ("s09", 16, 65536, 3072, 4096, Zipf(0.5)),
    ("s10", 16, 8192, 16384, 5120, Empty(4, 1.0)),
    ("s11", 32, 32768, 5760, 2880, Zipf(1.0)),
    ("s12", 256, 262_144, 4096, 6144, Balanced),
    ("x01", 32, 1024, 4096, 7168, Jittered),
    ("x02", 128, 65536, 1536, 2048, Zipf(1.0)),
    ("x03", 32, 16384, 2880, 2880, Empty(8, 1.2)),
    ("x04", 8, 32768, 4096, 7168, One),
];

/// Seed of the first shape's splits; each following one has the next number.
const SEED: u64 = 0x00C0_FFEE;

/// All shapes.
pub fn suite() -> Vec<Shape> {
    let with_seed = (SEED..).zip(SUITE);
    let shape = |(seed, &(id, groups, rows, n, k, distribution))| Shape {
        id,
        splits: splits(distribution, groups, rows, seed),
        n,
        k,
    };
    with_seed.map(shape).collect()
}

fn splits(distribution: Distribution, groups: usize, rows: u64, seed: u64) -> Vec<u64> {
    let mut random = SplitMix(seed);
    let zipf = |count: usize, power: f64| -> Vec<u64> {
        let weights: Vec<f64> = (0..count).map(|rank| (rank as f64 + 1.0).powf(-power)).collect();
        apportion(&weights, rows)
    };
    match distribution {
        Balanced => apportion(&vec![1.0; groups], rows),
        Jittered => {
            let weights: Vec<f64> = (0..groups).map(|_| (700 + random.below(601)) as f64).collect();
            apportion(&weights, rows)
        }
        Zipf(power) => random.shuffled(zipf(groups, power)),
        Empty(empty, power) => {
            let mut counts = zipf(groups - empty, power);
            counts.resize(groups, 0);
            random.shuffled(counts)
        }
        One => {
            let chosen = random.below(groups as u64) as usize;
            (0..groups).map(|group| if group == chosen { rows } else { 0 }).collect()
        }
    }
}

/// Whole numbers in the ratio of `weights` that add up to `total`: the largest remainders are rounded
/// up, of equal ones the first.
fn apportion(weights: &[f64], total: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| weight * total as f64 / sum).collect();
    let mut counts: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
    let mut order: Vec<usize> = (0..exact.len()).collect();
    let remainder = |i: usize| exact[i] - exact[i].floor();
    order.sort_by(|&i, &j| remainder(j).total_cmp(&remainder(i)));
    let missing = total - counts.iter().sum::<u64>();
    for &i in order.iter().take(missing as usize) {
        counts[i] += 1;
    }
    counts
}

/// The generator splitmix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn shuffled(&mut self, mut values: Vec<u64>) -> Vec<u64> {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits that the measured runs had.
    #[test]
    fn splits_are_those_of_the_measurements() {
        let table: &[(&str, &[u64])] = &[
            ("s01", &[4096; 8]),
            ("s02", &[4640, 2765, 3729, 4708, 3680, 4877, 3774, 4595]),
            ("s03", &[11768, 8321, 5884, 6795]),
            ("s04", &[2098, 2797, 0, 0, 839, 1199, 1678, 4195, 8391, 1398, 1049, 932]),
            ("s05", &[1533, 1931, 1997, 2126, 2629, 2171, 2072, 1925]),
            ("s06", &[9598, 6786]),
            (
                "s08",
                &[
                    2519, 10078, 3359, 0, 720, 1679, 775, 1260, 840, 916, 0, 1008, 1120, 5039,
                    1440, 2015,
                ],
            ),
            (
                "s09",
                &[
                    2539, 2628, 4015, 3477, 2965, 3717, 2728, 2839, 9834, 3278, 4398, 3110, 2459,
                    6954, 4917, 5678,
                ],
            ),
            ("s10", &[0, 660, 293, 220, 528, 377, 330, 2640, 0, 264, 1320, 880, 440, 0, 0, 240]),
        ];
        let suite = suite();
        for (id, splits) in table {
            let shape = suite.iter().find(|shape| shape.id == *id).expect("a shape of the suite");
            assert_eq!(shape.splits, *splits, "{id}");
        }
    }

    /// Experts, empty ones, most and fewest rows of one, tiles of 128 × 256 in fprop.
    #[test]
    fn the_other_splits_have_the_known_extremes() {
        let table = [
            ("s07", 128, 0, 512, 512, 3072),
            ("s11", 32, 0, 8074, 252, 6302),
            ("s12", 256, 0, 1024, 1024, 32768),
            ("x02", 128, 0, 12062, 94, 3420),
            ("x03", 32, 8, 5545, 122, 1704),
            ("x04", 8, 7, 32768, 32768, 4096),
        ];
        let suite = suite();
        for (id, groups, empty, most, fewest, tiles) in table {
            let shape = suite.iter().find(|shape| shape.id == id).expect("a shape of the suite");
            let live = || shape.splits.iter().filter(|rows| **rows != 0);
            let rows: u64 = shape.splits.iter().map(|rows| rows.div_ceil(128)).sum();
            let is = (
                shape.groups(),
                shape.groups() - shape.live_groups(),
                *live().max().unwrap(),
                *live().min().unwrap(),
                rows * shape.n.div_ceil(256),
            );
            assert_eq!(is, (groups, empty, most, fewest, tiles), "{id}");
        }
    }
}
