//! A parameter: master weights in FP32, their gradient and their moments.

use super::random::Random;

/// Whether weight decay applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// For matrices.
    Yes,
    /// For biases, gains and embeddings.
    No,
}

/// Master weights in FP32, their gradient and AdamW's moments.
pub struct Parameter {
    /// Name in the checkpoint.
    pub name: String,
    /// Shape in the checkpoint.
    pub shape: Vec<usize>,
    /// Whether weight decay applies.
    pub decay: Decay,
    /// The weights.
    pub values: Vec<f32>,
    /// Gradient of the last step.
    pub gradient: Vec<f32>,
    /// AdamW's mean of gradients.
    pub first_moment: Vec<f32>,
    /// AdamW's mean of squared gradients.
    pub second_moment: Vec<f32>,
}

impl Parameter {
    /// Bytes that each weight takes here.
    pub const BYTES: usize = 4 * size_of::<f32>();

    /// A parameter with these weights.
    pub fn new(name: String, shape: &[usize], decay: Decay, values: Vec<f32>) -> Self {
        let zeros = vec![0.0; values.len()];
        Self {
            name,
            shape: shape.to_vec(),
            decay,
            gradient: zeros.clone(),
            first_moment: zeros.clone(),
            second_moment: zeros,
            values,
        }
    }

    /// A parameter with every weight equal.
    pub fn constant(name: String, shape: &[usize], decay: Decay, value: f32) -> Self {
        Self::new(name, shape, decay, vec![value; shape.iter().product()])
    }

    /// A parameter with normally distributed weights.
    pub fn normal(
        name: String,
        shape: &[usize],
        decay: Decay,
        deviation: f32,
        random: &mut Random,
    ) -> Self {
        let count = shape.iter().product();
        let values = (0..count).map(|_| deviation * random.normal()).collect();
        Self::new(name, shape, decay, values)
    }
}
