//! Random operands.

use grouped_linear::{DType, Result, Stream, Tensor};
use half::bf16;

/// Normal values. Sixteen million are drawn and repeated: enough that no two tiles in flight agree.
pub fn random(stream: &Stream, shape: &[usize], seed: u64, scale: f32) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let mut generator = SplitMix(seed);
    let block: Vec<bf16> = (0..count.min((16 << 20) + 4099))
        .map(|_| bf16::from_f32(generator.normal() * scale))
        .collect();
    let tensor = Tensor::empty(stream, &[count], DType::Bf16)?;
    let mut start = 0;
    while start < count {
        let length = block.len().min(count - start);
        tensor.narrow(start, length)?.write(stream, &block[..length])?;
        start += length;
    }
    tensor.reshape(shape)
}

/// splitmix64.
pub struct SplitMix(pub u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn uniform(&mut self) -> f32 {
        ((self.next() >> 40) as f32 + 0.5) / (1u64 << 24) as f32
    }

    /// Box–Muller.
    fn normal(&mut self) -> f32 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
    }
}
