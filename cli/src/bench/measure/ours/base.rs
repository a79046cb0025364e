//! Operands of a shape, in BF16, which all its sections begin with.

use std::ops::Range;

use grouped_linear::{Config, DType, GroupedTensor, Result, Splits, Stream, Tensor};

use crate::bench::measure::random::Normals;
use crate::bench::suite::Shape;

/// Random numbers, drawn when they are first needed.
pub struct Data {
    seed: u64,
    drawn: Option<Drawn>,
}

struct Drawn {
    /// Numbers that were asked for.
    most: usize,
    x: Normals,
    dy: Normals,
    w: Normals,
}

impl Data {
    /// Numbers that follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: None }
    }

    /// Enough for tensors of up to so many elements.
    fn draw(&mut self, most: usize) -> &Drawn {
        let drawn = match self.drawn.take() {
            Some(drawn) if drawn.most >= most => drawn,
            _ => {
                let of = |number: u64| {
                    Normals::new(self.seed.wrapping_mul(3).wrapping_add(number), most)
                };
                Drawn { most, x: of(0), dy: of(1), w: of(2) }
            }
        };
        self.drawn.insert(drawn)
    }
}

/// Tokens, output gradients and weights. Clones are the same memory.
#[derive(Clone)]
pub struct Base {
    /// Their size.
    pub shape: Shape,
    /// Rows of each expert, on the device.
    pub splits: Splits,
    /// Where the rows of each expert begin, and the end.
    pub offsets: Vec<usize>,
    /// `[T, K]`.
    pub x: Tensor,
    /// `[T, N]`.
    pub dy: Tensor,
    /// `[N, K]` per expert.
    pub w: GroupedTensor,
}

impl Base {
    /// Activations and gradients of variance 1, weights of variance 1 / K.
    pub fn new(stream: &Stream, data: &mut Data, shape: &Shape) -> Result<Self> {
        let [groups, rows, n, k] =
            [shape.groups(), shape.rows(), shape.n, shape.k].map(|number| number as usize);
        let counts: Vec<i64> = shape.splits.iter().map(|&count| count as i64).collect();
        let mut offsets = vec![0];
        offsets.extend(shape.splits.iter().scan(0, |sum, &count| {
            *sum += count as usize;
            Some(*sum)
        }));
        let drawn = data.draw((rows * k).max(rows * n).max(groups * n * k));
        let w = drawn.w.tensor(stream, &[groups, n, k], (k as f32).powf(-0.5))?;
        Ok(Self {
            shape: shape.clone(),
            splits: Splits::device(Tensor::from_slice(stream, &[groups], &counts)?)?,
            offsets,
            x: drawn.x.tensor(stream, &[rows, k], 1.0)?,
            dy: drawn.dy.tensor(stream, &[rows, n], 1.0)?,
            w: GroupedTensor::packed(w)?,
        })
    }

    /// Experts.
    pub fn groups(&self) -> usize {
        self.shape.splits.len()
    }

    /// T.
    pub fn rows(&self) -> usize {
        self.x.shape()[0]
    }

    /// N.
    pub fn n(&self) -> usize {
        self.shape.n as usize
    }

    /// K.
    pub fn k(&self) -> usize {
        self.shape.k as usize
    }

    /// Rows of an expert.
    pub fn group_rows(&self, group: usize) -> Range<usize> {
        self.offsets[group]..self.offsets[group + 1]
    }

    /// A layer's description.
    pub fn config(&self) -> Config {
        let (in_features, out_features) = (self.k(), self.n());
        Config { groups: self.groups(), in_features, out_features, dtype: DType::Bf16 }
    }
}
