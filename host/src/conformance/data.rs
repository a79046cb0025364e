//! Deterministic data, exactly representable in the type that the tensors will have.

use half::{bf16, f16};

use crate::tensor::DType;

/// splitmix64.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator whose seed is drawn from a name (FNV-1a).
    pub fn named(name: &str) -> Self {
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "an endless generator is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// About normal, mean 0, deviation 0.58, between -2 and 2: the sum of four uniform values.
    pub fn value(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        sum as f32 / 65536.0 - 2.0
    }

    /// `count` values of type `dtype`.
    pub fn values(&mut self, count: usize, dtype: DType) -> Vec<f32> {
        (0..count).map(|_| round(self.value(), dtype)).collect()
    }
}

/// The value as the type holds it.
pub(super) fn round(value: f32, dtype: DType) -> f32 {
    match dtype {
        DType::Bf16 => bf16::from_f32(value).to_f32(),
        DType::F16 => f16::from_f32(value).to_f32(),
        _ => value,
    }
}
