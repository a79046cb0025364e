//! Random problems on the host, and what must come out of them, to the bit.
//!
//! The values are small integers, so every product and every sum is exact in FP32 in any order: the
//! only rounding is that to the output's type, and a right result has known bits. (How close sums
//! of arbitrary numbers come is what the conformance table measures.)

use grouped_linear::DType;
use grouped_linear::conformance::Generator;
use grouped_linear::reference::plain::{self, Groups};
use half::{bf16, f16};

/// What outputs hold before: a NaN that no kernel computes, so that elements which should have been
/// written, and elements which should not, both show.
pub fn poison(dtype: DType) -> u32 {
    match dtype {
        DType::Bf16 => 0x7fa5,
        DType::F16 => 0x7d5a,
        _ => 0x7fa5_a5a5,
    }
}

/// Sizes and types of a layer and its token buffer.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub groups: usize,
    /// Rows of the buffer, T.
    pub rows: usize,
    /// K.
    pub k: usize,
    /// N.
    pub n: usize,
    /// Of tokens, weights, and all results but `dscales`.
    pub dtype: DType,
}

/// Everything that a layer reads. What must not influence a result is NaN: rows of no group, and
/// parameters of groups without rows.
pub struct Host {
    pub sizes: Sizes,
    pub splits: Vec<usize>,
    pub x: Vec<f32>,
    pub dy: Vec<f32>,
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
    pub row_scales: Vec<f32>,
}

/// Names of the results, in the order of all arrays of results.
pub const RESULTS: [&str; 5] = ["y", "dx", "dw", "db", "dscales"];

/// One of ±1 and ±2: never zero, so that no element drops out of a sum.
pub fn small(generator: &mut Generator) -> f32 {
    [-2.0, -1.0, 1.0, 2.0][(generator.next() >> 62) as usize]
}

/// How a number is drawn.
pub type Draw = fn(&mut Generator) -> f32;

impl Host {
    /// A problem with exact results.
    pub fn exact(sizes: Sizes, splits: &[usize], seed: u64) -> Self {
        Self::drawn(sizes, splits, seed, small)
    }

    /// A problem whose results depend on the order of summation.
    pub fn real(sizes: Sizes, splits: &[usize], seed: u64) -> Self {
        Self::drawn(sizes, splits, seed, Generator::value)
    }

    fn drawn(sizes: Sizes, splits: &[usize], seed: u64, draw: Draw) -> Self {
        assert_eq!(splits.len(), sizes.groups, "one split per group");
        let live: usize = splits.iter().sum();
        let mut generator = Generator::new(seed);
        let mut tokens = |columns: usize| -> Vec<f32> {
            let dead = (sizes.rows - live) * columns;
            let values = (0..live * columns).map(|_| draw(&mut generator));
            values.chain(std::iter::repeat_n(f32::NAN, dead)).collect()
        };
        let (x, dy, row_scales) = (tokens(sizes.k), tokens(sizes.n), tokens(1));
        let mut parameters = |length: usize| -> Vec<f32> {
            let of_group = |&split: &usize| -> Vec<f32> {
                (0..length)
                    .map(|_| if split > 0 { draw(&mut generator) } else { f32::NAN })
                    .collect()
            };
            splits.iter().flat_map(of_group).collect()
        };
        let (weights, bias) = (parameters(sizes.n * sizes.k), parameters(sizes.n));
        Self { sizes, splits: splits.to_vec(), x, dy, weights, bias, row_scales }
    }

    /// Rows that belong to a group.
    pub fn live(&self) -> usize {
        self.splits.iter().sum()
    }

    /// First row of each group, then the number of live rows.
    pub fn offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for split in &self.splits {
            offsets.push(offsets[offsets.len() - 1] + split);
        }
        offsets
    }

    /// The bits of the live elements of each of the [`RESULTS`], for exact problems.
    pub fn expected(&self) -> [Vec<u32>; 5] {
        let Sizes { groups, k, n, dtype, .. } = self.sizes;
        let (live, offsets) = (self.live(), self.offsets());
        let shape = Groups { row_offsets: &offsets, out_features: n, in_features: k };
        let wide = |values: &[f32]| -> Vec<f64> { values.iter().copied().map(f64::from).collect() };
        let (x, dy, weights) = (wide(&self.x), wide(&self.dy), wide(&self.weights));
        let (bias, scales) = (wide(&self.bias), wide(&self.row_scales));
        let zeros = |count: usize| vec![0.0f64; count];
        let (mut y, mut dx) = (zeros(live * n), zeros(live * k));
        let (mut dw, mut db) = (zeros(groups * n * k), zeros(groups * n));
        let mut dscales = zeros(live);
        let fits = "the slices have the lengths of the shape";
        plain::fprop(&shape, &x, &weights, &mut y).expect(fits);
        plain::dgrad(&shape, &dy, &weights, &mut dx).expect(fits);
        plain::wgrad(&shape, &dy, &x, &mut dw).expect(fits);
        plain::dbias(&shape, &dy, Some(&scales), &mut db).expect(fits);
        plain::dscales(&shape, &dy, &bias, &mut dscales).expect(fits);
        for group in 0..groups {
            for row in offsets[group]..offsets[group + 1] {
                for column in 0..n {
                    y[row * n + column] += scales[row] * bias[group * n + column];
                }
            }
        }
        [
            rounded(&y, dtype),
            rounded(&dx, dtype),
            rounded(&dw, dtype),
            rounded(&db, dtype),
            rounded(&dscales, DType::F32),
        ]
    }
}

/// The bits of exact values after the one rounding.
pub fn rounded(values: &[f64], dtype: DType) -> Vec<u32> {
    values.iter().map(|&value| bits(value as f32, dtype)).collect()
}

/// The bits of a value in a type.
pub fn bits(value: f32, dtype: DType) -> u32 {
    match dtype {
        DType::Bf16 => u32::from(bf16::from_f32(value).to_bits()),
        DType::F16 => u32::from(f16::from_f32(value).to_bits()),
        _ => value.to_bits(),
    }
}

/// The value of bits.
pub fn value(bits: u32, dtype: DType) -> f32 {
    match dtype {
        DType::Bf16 => bf16::from_bits(bits as u16).to_f32(),
        DType::F16 => f16::from_bits(bits as u16).to_f32(),
        _ => f32::from_bits(bits),
    }
}

/// Compares exact results; zeros of either sign are equal, since a sum of nothing has no sign.
pub fn equal_values(what: &str, dtype: DType, got: &[u32], want: &[u32]) -> Result<(), String> {
    let same = |a: u32, b: u32| a == b || (value(a, dtype) == 0.0 && value(b, dtype) == 0.0);
    differing(what, got, want, same)
}

/// Compares to the bit.
pub fn equal_bits(what: &str, got: &[u32], want: &[u32]) -> Result<(), String> {
    differing(what, got, want, |a, b| a == b)
}

fn differing(
    what: &str,
    got: &[u32],
    want: &[u32],
    same: impl Fn(u32, u32) -> bool,
) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} elements instead of {}", got.len(), want.len()));
    }
    let wrong: Vec<usize> = (0..got.len()).filter(|&i| !same(got[i], want[i])).collect();
    let Some(&first) = wrong.first() else { return Ok(()) };
    Err(format!(
        "{what}: {} of {} elements differ; element {first} is {:#x} instead of {:#x}",
        wrong.len(),
        got.len(),
        got[first],
        want[first]
    ))
}
