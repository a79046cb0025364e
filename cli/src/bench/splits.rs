//! How rows are dealt out to experts.
//!
//! Splits are made from integers and a few powers by a generator of its own, so that every run has
//! the same rows for each expert.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

/// How rows are dealt out to experts.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
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
    /// These.
    List(Cow<'static, [u64]>),
}

/// The largest power of a distribution, either way.
const MOST_POWER: f64 = 64.0;

use Distribution::{Balanced, Empty, Jittered, List, One, Zipf};

impl FromStr for Distribution {
    type Err = anyhow::Error;

    /// `bal`, `jit`, `zipf:S`, `empty:E:S`, `one`, or the rows of each expert, `4096:0:28672`.
    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let list = || parts.iter().map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>();
        let parsed = match parts[..] {
            ["bal"] => Some(Balanced),
            ["jit"] => Some(Jittered),
            ["one"] => Some(One),
            ["zipf", power] => power.parse().ok().map(Zipf),
            ["empty", experts, power] => match (experts.parse(), power.parse()) {
                (Ok(experts), Ok(power)) => Some(Empty(experts, power)),
                _ => None,
            },
            _ => list().map(|counts| List(counts.into())),
        };
        match parsed {
            Some(Zipf(power) | Empty(_, power)) if !(-MOST_POWER..=MOST_POWER).contains(&power) => {
                bail!("`{text}` has no power of -{MOST_POWER} to {MOST_POWER}")
            }
            Some(distribution) => Ok(distribution),
            None => bail!(
                "`{text}` is no distribution: there are bal, jit, zipf:S, empty:E:S, one, and the \
                 rows of each expert such as 4096:0:28672"
            ),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Balanced => f.write_str("bal"),
            Jittered => f.write_str("jit"),
            Zipf(power) => write!(f, "zipf:{power}"),
            Empty(experts, power) => write!(f, "empty:{experts}:{power}"),
            One => f.write_str("one"),
            List(_) => f.write_str("list"),
        }
    }
}

impl Distribution {
    /// Rows of each expert.
    pub fn deal(&self, groups: usize, rows: u64, seed: u64) -> Result<Vec<u64>> {
        let mut random = SplitMix(seed);
        let counts = match self {
            Balanced => apportion(&vec![1.0; groups], rows),
            Jittered => {
                let mut weight = |_| (700 + random.below(601)) as f64;
                let weights: Vec<f64> = (0..groups).map(&mut weight).collect();
                apportion(&weights, rows)
            }
            Zipf(power) => random.shuffled(zipf(groups, *power, rows)),
            Empty(empty, power) => {
                let live = groups.saturating_sub(*empty);
                ensure!(live > 0, "{empty} of {groups} experts without rows leave none with rows");
                let mut counts = zipf(live, *power, rows);
                counts.resize(groups, 0);
                random.shuffled(counts)
            }
            One => {
                let chosen = random.below(groups as u64) as usize;
                (0..groups).map(|group| if group == chosen { rows } else { 0 }).collect()
            }
            List(counts) => {
                let sum = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
                ensure!(
                    counts.len() == groups && sum == Some(rows),
                    "the list has {} experts and {} rows, not {groups} and {rows}",
                    counts.len(),
                    sum.map_or("too many".to_owned(), |sum| sum.to_string())
                );
                counts.to_vec()
            }
        };
        let sum = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        ensure!(
            sum == Some(rows),
            "{rows} rows cannot be dealt out to {groups} experts as `{self}` says"
        );
        Ok(counts)
    }
}

fn zipf(count: usize, power: f64, rows: u64) -> Vec<u64> {
    // The largest weight is 1, so that their sum is a number.
    let first = if power < 0.0 { count as f64 } else { 1.0 };
    let weight = |rank| ((rank as f64 + 1.0) / first).powf(-power);
    let weights: Vec<f64> = (0..count).map(weight).collect();
    apportion(&weights, rows)
}

/// Whole numbers in the ratio of `weights` that add up to `total`: the largest remainders are
/// rounded up, of equal ones the first.
fn apportion(weights: &[f64], total: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| weight * total as f64 / sum).collect();
    let mut counts: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
    let mut order: Vec<usize> = (0..exact.len()).collect();
    let remainder = |i: usize| exact[i] - exact[i].floor();
    order.sort_by(|&i, &j| remainder(j).total_cmp(&remainder(i)));
    let dealt: u64 = counts.iter().fold(0, |sum, &count| sum.saturating_add(count));
    let missing = total.saturating_sub(dealt);
    for &i in order.iter().take(missing as usize) {
        counts[i] += 1;
    }
    counts
}

/// The generator splitmix64.
pub struct SplitMix(pub u64);

impl SplitMix {
    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn shuffled(&mut self, mut values: Vec<u64>) -> Vec<u64> {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
        values
    }
}
