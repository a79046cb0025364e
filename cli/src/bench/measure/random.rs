//! Normal random operands.

use grouped_linear::{DType, Result, Stream, Tensor};
use half::bf16;
use rayon::prelude::*;

use super::ours::repeat;
use crate::bench::splits::SplitMix;

/// Values that are drawn; more are these again: enough that no two tiles in flight agree.
const DRAWN: usize = (16 << 20) + 4099;
/// Values of one generator.
const CHUNK: usize = 1 << 16;

/// Normal numbers, drawn once for all shapes.
pub struct Normals(Vec<f32>);

impl Normals {
    /// Up to so many of them; the same for the same seed.
    pub fn new(seed: u64, most: usize) -> Self {
        let mut values = vec![0.0f32; DRAWN.min(most)];
        values.par_chunks_mut(CHUNK).enumerate().for_each(|(number, chunk)| {
            let mut random = SplitMix(seed);
            // Each chunk has a generator that begins elsewhere.
            random.0 = random.0.wrapping_add((number as u64) << 40);
            for pair in chunk.chunks_mut(2) {
                let both = normal_pair(&mut random);
                pair.copy_from_slice(&both[..pair.len()]);
            }
        });
        Self(values)
    }

    /// A BF16 tensor of these numbers times `scale`.
    pub fn tensor(&self, stream: &Stream, shape: &[usize], scale: f32) -> Result<Tensor> {
        let count: usize = shape.iter().product();
        let tensor = Tensor::empty(stream, &[count], DType::Bf16)?;
        let first = count.min(self.0.len());
        let rounded: Vec<bf16> =
            self.0[..first].par_iter().map(|value| bf16::from_f32(value * scale)).collect();
        tensor.narrow(0, first)?.write(stream, &rounded)?;
        repeat(stream, &tensor, first)?;
        tensor.reshape(shape)
    }
}

/// Box–Muller.
fn normal_pair(random: &mut SplitMix) -> [f32; 2] {
    let mut uniform = || ((random.next() >> 40) as f32 + 0.5) / (1u64 << 24) as f32;
    let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f32::consts::TAU * uniform());
    [radius * angle.cos(), radius * angle.sin()]
}

#[cfg(test)]
mod tests {
    use grouped_linear::Device;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_normal_numbers() {
        let count = 3 * CHUNK + 5;
        let [first, again, other] = [1, 1, 2].map(|seed| Normals::new(seed, count).0);
        assert!(first == again && first != other);
        assert_eq!(first.len(), count);
        let mean = |of: &dyn Fn(f64) -> f64| {
            first.iter().map(|&v| of(f64::from(v))).sum::<f64>() / count as f64
        };
        assert!(mean(&|v| v).abs() < 0.01 && (mean(&|v| v * v) - 1.0).abs() < 0.02);
        assert!(first[..CHUNK] != first[CHUNK..2 * CHUNK]);
    }

    #[test]
    fn tensors_repeat_what_was_drawn() -> Result<()> {
        let stream = Device::cpu().stream()?;
        let tensor = Normals::new(7, 10).tensor(&stream, &[4, 6], 0.5)?;
        let values = tensor.to_f32(&stream)?;
        assert_eq!(values[..10], values[10..20]);
        assert_eq!(values[..4], values[20..]);
        Ok(())
    }
}
