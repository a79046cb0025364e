//! Layers over small integers. All sums are exact in every element type, whatever their order, so
//! that results are compared to the bit with plain loops.

use std::fmt::Display;

use grouped_linear::conformance::Generator;
use grouped_linear::{
    BackwardOptions, BiasUse, Config, DType, ForwardOptions, GroupedLinear, GroupedTensor,
    ParamLayout, Result, Saved, SelectedGrads, Splits, Stream, Tensor,
};

/// K; a multiple of 8, so that 16-bit types take the tensor-core kernels.
pub(crate) const K: usize = 24;
/// N.
pub(crate) const N: usize = 16;

/// Where parameters and their gradients lie.
pub(crate) const LAYOUTS: [ParamLayout; 2] = [ParamLayout::Packed, ParamLayout::Discrete];

/// Numbers of one forward and backward, on the host.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) splits: Vec<usize>,
    pub(crate) rows: usize,
    pub(crate) x: Vec<f32>,          // [rows, K]
    pub(crate) dy: Vec<f32>,         // [rows, N]
    pub(crate) weights: Vec<f32>,    // [groups, N, K]
    pub(crate) bias: Vec<f32>,       // [groups, N]
    pub(crate) row_scales: Vec<f32>, // [rows]
}

impl Numbers {
    /// Values from -1 to 1; NaN in the `tail` rows that belong to no group.
    pub(crate) fn new(splits: &[usize], tail: usize, seed: u64) -> Self {
        let mut generator = Generator::new(seed);
        let mut values = |count: usize| -> Vec<f32> {
            (0..count).map(|_| (generator.next() % 3) as f32 - 1.0).collect()
        };
        let live: usize = splits.iter().sum();
        let mut rows = |columns: usize| {
            let mut values = values(live * columns);
            values.resize((live + tail) * columns, f32::NAN);
            values
        };
        let (x, dy, row_scales) = (rows(K), rows(N), rows(1));
        let (weights, bias) = (values(splits.len() * N * K), values(splits.len() * N));
        Self { splits: splits.to_vec(), rows: live + tail, x, dy, weights, bias, row_scales }
    }

    /// Other tokens and other splits for the same parameters.
    pub(crate) fn others(&self, splits: &[usize], tail: usize, seed: u64) -> Self {
        let Self { weights, bias, .. } = self.clone();
        Self { weights, bias, ..Self::new(splits, tail, seed) }
    }

    pub(crate) fn groups(&self) -> usize {
        self.splits.len()
    }

    pub(crate) fn live_rows(&self) -> usize {
        self.splits.iter().sum()
    }

    /// The group of every row that has one.
    fn group_of_rows(&self) -> Vec<usize> {
        let groups = self.splits.iter().enumerate();
        groups.flat_map(|(group, &rows)| std::iter::repeat_n(group, rows)).collect()
    }

    /// The live rows of y, with the bias.
    pub(crate) fn y(&self) -> Vec<f32> {
        let mut y = Vec::new();
        for (row, group) in self.group_of_rows().into_iter().enumerate() {
            for n in 0..N {
                let weights = &self.weights[(group * N + n) * K..][..K];
                let products = self.x[row * K..][..K].iter().zip(weights).map(|(x, w)| x * w);
                y.push(products.sum::<f32>() + self.bias[group * N + n]);
            }
        }
        y
    }

    /// The live rows of dx.
    pub(crate) fn dx(&self) -> Vec<f32> {
        let mut dx = vec![0.0; self.live_rows() * K];
        for (row, group) in self.group_of_rows().into_iter().enumerate() {
            for n in 0..N {
                for k in 0..K {
                    dx[row * K + k] += self.dy[row * N + n] * self.weights[(group * N + n) * K + k];
                }
            }
        }
        dx
    }

    pub(crate) fn dw(&self) -> Vec<f32> {
        let mut dw = vec![0.0; self.groups() * N * K];
        for (row, group) in self.group_of_rows().into_iter().enumerate() {
            for n in 0..N {
                for k in 0..K {
                    dw[(group * N + n) * K + k] += self.dy[row * N + n] * self.x[row * K + k];
                }
            }
        }
        dw
    }

    /// Without row scales.
    pub(crate) fn db(&self) -> Vec<f32> {
        let mut db = vec![0.0; self.groups() * N];
        for (row, group) in self.group_of_rows().into_iter().enumerate() {
            for n in 0..N {
                db[group * N + n] += self.dy[row * N + n];
            }
        }
        db
    }

    /// The live rows of the gradient of the row scales.
    pub(crate) fn dscales(&self) -> Vec<f32> {
        let products = self.group_of_rows().into_iter().enumerate().map(|(row, group)| {
            let (dy, bias) = (&self.dy[row * N..][..N], &self.bias[group * N..][..N]);
            dy.iter().zip(bias).map(|(dy, b)| dy * b).sum()
        });
        products.collect()
    }
}

/// The numbers on a device, and a layer with their parameters.
pub(crate) struct Model {
    pub(crate) layer: GroupedLinear,
    pub(crate) x: Tensor,
    pub(crate) dy: Tensor,
    pub(crate) row_scales: Tensor,
    pub(crate) splits: Splits,
}

impl Model {
    pub(crate) fn new(
        stream: &Stream,
        numbers: &Numbers,
        dtype: DType,
        layout: ParamLayout,
    ) -> Result<Self> {
        let groups = numbers.groups();
        let config = Config { groups, in_features: K, out_features: N, dtype };
        let parameter = |shape: &[usize], values: &[f32]| {
            GroupedTensor::from_f32(stream, layout, groups, shape, dtype, values)
        };
        let (weights, bias) =
            (parameter(&[N, K], &numbers.weights)?, parameter(&[N], &numbers.bias)?);
        let layer = GroupedLinear::new(stream, config, weights, Some(bias))?;
        Self::of(stream, layer, numbers)
    }

    /// Other tokens for a layer that exists.
    pub(crate) fn of(stream: &Stream, layer: GroupedLinear, numbers: &Numbers) -> Result<Self> {
        let (rows, dtype) = (numbers.rows, layer.config().dtype);
        Ok(Self {
            layer,
            x: Tensor::from_f32(stream, &[rows, K], dtype, &numbers.x)?,
            dy: Tensor::from_f32(stream, &[rows, N], dtype, &numbers.dy)?,
            row_scales: Tensor::from_slice(stream, &[rows], &numbers.row_scales)?,
            splits: Splits::host(&numbers.splits)?,
        })
    }

    /// Forward with a plain bias.
    pub(crate) fn forward(&self, stream: &Stream) -> Result<(Tensor, Saved)> {
        self.layer.forward(stream, &self.x, &self.splits, ForwardOptions::default())
    }

    /// What makes forward scale the rows of the bias.
    pub(crate) fn row_scaled(&self) -> ForwardOptions<'_> {
        ForwardOptions { bias: BiasUse::RowScaled(&self.row_scales), ..ForwardOptions::default() }
    }

    /// Forward with a plain bias, and what `options` ask of backward.
    pub(crate) fn step(
        &self,
        stream: &Stream,
        options: BackwardOptions<'_>,
    ) -> Result<SelectedGrads> {
        let (_, saved) = self.forward(stream)?;
        self.layer.backward_with(stream, saved, &self.dy, options)
    }
}

/// All elements, group after group.
pub(crate) fn read(stream: &Stream, grouped: &GroupedTensor) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    for group in 0..grouped.groups() {
        values.extend(grouped.group(group)?.to_f32(stream)?);
    }
    Ok(values)
}

/// Element by element.
pub(crate) fn sum(parts: &[Vec<f32>]) -> Vec<f32> {
    let add = |total: Vec<f32>, part: &Vec<f32>| -> Vec<f32> {
        total.iter().zip(part).map(|(a, b)| a + b).collect()
    };
    parts[1..].iter().fold(parts[0].clone(), add)
}

/// Both must hold the same values; shows the first that differs, not all.
#[track_caller]
pub(crate) fn same(what: impl Display, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}: number of elements");
    if let Some(index) = (0..got.len()).find(|&index| got[index] != want[index]) {
        panic!("{what}: element {index} is {}, {} is right", got[index], want[index]);
    }
}
