//! The shapes of the benchmarks, those of published mixture-of-experts models, with their splits.

use std::borrow::Cow;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use super::splits::Distribution;
use super::splits::Distribution::{Balanced, Empty, Jittered, List, One, Zipf};

/// A grouped product's size.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Name in tables.
    pub id: String,
    /// How its rows were dealt out.
    pub distribution: String,
    /// Rows of each expert.
    pub splits: Vec<u64>,
    /// Features of the output.
    pub n: u64,
    /// Features of the input.
    pub k: u64,
}

impl Shape {
    /// One that no table shows.
    pub fn unnamed(splits: Vec<u64>, n: u64, k: u64) -> Self {
        Self { id: String::new(), distribution: String::new(), splits, n, k }
    }

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

/// Name, experts, rows, N, K and distribution.
type Row = (&'static str, usize, u64, u64, u64, Distribution);

/// Those that means are taken over (s), and extremes (x).
const SUITE: &[Row] = &[
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

/// Those that layers of TransformerEngine were timed with (docs/benchmarks.md); with a `z` behind
/// the name rows are dealt as 1 / rank in multiples of 128, and an eighth of the experts has none.
const LAYERS: &[Row] = &[
    ("m1", 8, 32768, 4096, 7168, Balanced),
    ("m2", 32, 32768, 4096, 7168, Balanced),
    ("m3", 64, 32768, 2048, 2048, Balanced),
    ("m4", 8, 16384, 14336, 4096, Balanced),
    ("m5", 8, 16384, 4096, 14336, Balanced),
    ("m6", 128, 32768, 1536, 2048, Balanced),
    ("m1z", 8, 32768, 4096, 7168, List(Cow::Borrowed(ZIPF_8))),
    ("m2z", 32, 32768, 4096, 7168, List(Cow::Borrowed(ZIPF_32))),
    ("m3z", 64, 32768, 2048, 2048, List(Cow::Borrowed(ZIPF_64))),
    ("m4z", 8, 16384, 14336, 4096, List(Cow::Borrowed(ZIPF_8_HALF))),
    ("m5z", 8, 16384, 4096, 14336, List(Cow::Borrowed(ZIPF_8_HALF))),
    ("m6z", 128, 32768, 1536, 2048, List(Cow::Borrowed(ZIPF_128))),
];

// Where the shapes with a `z` have their rows: drawn once, since a generator of another kind drew
// them.

/// 8 experts, 32768 rows.
const ZIPF_8: &[u64] = &[1792, 0, 4224, 2560, 12672, 3200, 6272, 2048];
/// 8 experts, 16384 rows.
const ZIPF_8_HALF: &[u64] = &[896, 0, 2048, 1280, 6400, 1536, 3200, 1024];
/// 32 experts, 32768 rows.
const ZIPF_32: &[u64] = &[
    0, 896, 384, 768, 0, 1408, 1024, 384, 8320, 512, 896, 512, 384, 384, 384, 640, 384, 256, 1152,
    512, 256, 384, 640, 2048, 512, 2816, 4224, 0, 640, 1664, 0, 384,
];
/// 64 experts, 32768 rows.
const ZIPF_64: &[u64] = &[
    640, 384, 512, 256, 128, 128, 384, 0, 128, 128, 7168, 384, 3584, 384, 768, 256, 640, 128, 128,
    128, 256, 256, 384, 256, 256, 256, 128, 0, 128, 128, 384, 128, 128, 0, 0, 128, 512, 896, 256,
    128, 128, 256, 128, 384, 0, 256, 256, 1152, 2432, 512, 256, 0, 128, 256, 1024, 256, 128, 1408,
    1792, 0, 256, 768, 0, 128,
];
/// 128 experts, 32768 rows.
const ZIPF_128: &[u64] = &[
    128, 128, 384, 128, 128, 128, 1536, 128, 128, 128, 0, 5504, 0, 128, 128, 128, 0, 128, 128,
    3072, 256, 128, 128, 128, 0, 0, 128, 128, 384, 256, 128, 128, 256, 128, 256, 128, 2048, 128,
    128, 0, 128, 512, 128, 128, 0, 0, 128, 128, 128, 0, 256, 256, 128, 128, 128, 128, 128, 128,
    128, 0, 128, 0, 0, 0, 128, 128, 128, 0, 128, 256, 0, 0, 0, 0, 128, 256, 0, 128, 384, 256, 128,
    128, 128, 0, 128, 384, 0, 128, 384, 128, 1024, 0, 0, 0, 0, 128, 0, 0, 0, 128, 256, 384, 128, 0,
    128, 128, 0, 256, 640, 128, 128, 512, 1280, 256, 128, 768, 128, 128, 512, 128, 0, 640, 896,
    128, 128, 256, 0, 128,
];

/// Seed of the first shape's splits; each following one has the next number. What docs show was
/// measured with it.
pub const SEED: u64 = 0x00C0_FFEE;

/// All shapes of the suite, with splits drawn from this seed.
pub fn suite(seed: u64) -> Result<Vec<Shape>> {
    shapes(SUITE, seed)
}

/// The shapes of layers; their splits do not depend on a seed.
pub fn layers() -> Result<Vec<Shape>> {
    shapes(LAYERS, SEED)
}

fn shapes(rows: &[Row], seed: u64) -> Result<Vec<Shape>> {
    let shape = |(number, (id, groups, rows, n, k, distribution)): (u64, &Row)| {
        Ok(Shape {
            id: (*id).to_owned(),
            distribution: distribution.to_string(),
            splits: distribution.deal(*groups, *rows, seed.wrapping_add(number))?,
            n: *n,
            k: *k,
        })
    };
    (0..).zip(rows).map(shape).collect()
}

/// Limits of shapes of the user's, beyond what a GPU of today has memory for, so that no count of
/// elements or bytes is cut off: experts, rows or features, elements of a tensor.
const MOST_GROUPS: u64 = 1 << 16;
const MOST_EXTENT: u64 = 1 << 31;
const MOST_ELEMENTS: u128 = 1 << 40;

/// A shape of the user's, `GROUPS,ROWS,N,K,DIST`; its splits are drawn when the seed is known.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnShape {
    groups: usize,
    rows: u64,
    n: u64,
    k: u64,
    distribution: Distribution,
}

impl FromStr for OwnShape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(',').collect();
        let [groups, rows, n, k, distribution] = parts[..] else {
            bail!("`{text}` is no shape: it is written GROUPS,ROWS,N,K,DIST");
        };
        let number = |what, text: &str, most: u64| -> Result<u64> {
            let number = text.parse().with_context(|| format!("{what} `{text}` is no number"))?;
            ensure!((1..=most).contains(&number), "{what} must be 1 to {most}, not {number}");
            Ok(number)
        };
        let own = Self {
            groups: usize::try_from(number("GROUPS", groups, MOST_GROUPS)?)?,
            rows: number("ROWS", rows, MOST_EXTENT)?,
            n: number("N", n, MOST_EXTENT)?,
            k: number("K", k, MOST_EXTENT)?,
            distribution: distribution.parse()?,
        };
        let [groups, rows, n, k] = [own.groups as u64, own.rows, own.n, own.k].map(u128::from);
        ensure!(
            (rows * n).max(rows * k).max(groups * n * k) <= MOST_ELEMENTS,
            "`{text}` has a tensor of more than 2^40 elements"
        );
        // What cannot be dealt out is a mistake on the command line, and said there.
        own.shape(0, SEED)?;
        Ok(own)
    }
}

impl OwnShape {
    /// The shape, with its splits; `number` counts the user's shapes from 0.
    pub fn shape(&self, number: u64, seed: u64) -> Result<Shape> {
        Ok(Shape {
            id: format!("own{}", number + 1),
            distribution: self.distribution.to_string(),
            splits: self.distribution.deal(self.groups, self.rows, seed.wrapping_add(number))?,
            n: self.n,
            k: self.k,
        })
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
        let suite = suite(SEED).expect("splits");
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
        let suite = suite(SEED).expect("splits");
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

    #[test]
    fn another_seed_deals_other_rows_in_the_same_way() {
        let [first, again, other] = [SEED, SEED, SEED + 100].map(|seed| suite(seed).unwrap());
        assert_eq!(first, again);
        for (first, other) in first.iter().zip(&other) {
            assert_eq!((first.rows(), first.groups()), (other.rows(), other.groups()));
            let sorted = |shape: &Shape| {
                let mut splits = shape.splits.clone();
                splits.sort_unstable();
                splits
            };
            // Only ±30 % draws other numbers; the rest deals the same ones to other experts.
            assert!(first.distribution == "jit" || sorted(first) == sorted(other), "{}", first.id);
        }
        assert!(first.iter().zip(&other).filter(|(a, b)| a != b).count() > 8);
    }

    #[test]
    fn layers_have_the_rows_that_were_measured() {
        let layers = layers().unwrap();
        let rows: Vec<u64> = layers.iter().map(Shape::rows).collect();
        assert_eq!(rows, [[32768, 32768, 32768, 16384, 16384, 32768]; 2].concat());
        let largest = |id: &str| {
            let shape = layers.iter().find(|shape| shape.id == id).unwrap();
            (shape.splits.iter().copied().max().unwrap(), shape.groups() - shape.live_groups())
        };
        assert_eq!(largest("m2z"), (8320, 4));
        assert_eq!(largest("m3z"), (7168, 8));
        assert_eq!(largest("m6z"), (5504, 32));
        assert!(layers.iter().flat_map(|shape| &shape.splits).all(|rows| rows % 128 == 0));
    }

    #[test]
    fn shapes_of_the_user_are_read() {
        let own: OwnShape = "4,100,64,32,zipf:1".parse().unwrap();
        let shape = own.shape(1, 7).unwrap();
        assert_eq!((shape.id.as_str(), shape.rows(), shape.n, shape.k), ("own2", 100, 64, 32));
        assert_eq!(shape, own.shape(1, 7).unwrap());
        assert_eq!(shape.distribution, "zipf:1");
        let list: OwnShape = "3,5,64,32,2:0:3".parse().unwrap();
        assert_eq!(list.shape(0, 1).unwrap().splits, [2, 0, 3]);
        for (text, reason) in [
            ("4,100,64,zipf:1", "GROUPS,ROWS,N,K,DIST"),
            ("x,100,64,32,bal", "GROUPS `x`"),
            ("4,100,0,32,bal", "N must be"),
            ("65537,100,64,32,bal", "GROUPS must be 1 to 65536"),
            ("4,4294967296,64,32,bal", "ROWS must be"),
            ("4,100,64,32,zipf:65", "power"),
            ("65536,100,2147483648,2147483648,bal", "2^40 elements"),
            ("4,100,64,32,normal", "`normal`"),
            ("4,100,64,32,empty:4:1", "without rows"),
            ("3,6,64,32,2:0:3", "5 rows"),
            ("2,5,64,32,2:0:3", "3 experts"),
        ] {
            let error = format!("{:#}", text.parse::<OwnShape>().unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
