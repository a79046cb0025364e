//! Discrete weights whose tensor maps lie where other maps lay a moment ago: copies must not use
//! what the descriptor cache still keeps of those.

use grouped_linear::functional::{FpropArgs, GemmOptions, fprop};
use grouped_linear::{DType, Device, GroupedTensor, Splits, Tensor};

use crate::{Check, Outcome};

/// Experts, with one token each but the last, which has none.
const GROUPS: usize = 5;
const N: usize = 24;
const K: usize = 64;

pub fn checks() -> Vec<Check> {
    let check = |name, rounds| Check::new(name, move |device| maps_change_places(device, rounds));
    vec![
        check("maps: memory of discrete weights is used again", 4000),
        check("maps: memory of discrete weights is used again, a few times", 5).emulated_if(true),
    ]
}

/// Every round has weights of its own, at other addresses than the round before.
fn maps_change_places(device: &Device, rounds: usize) -> Outcome {
    let stream = device.stream()?;
    let splits = Splits::host(&[1, 1, 1, 1, 0])?;
    let x = Tensor::from_f32(&stream, &[GROUPS, K], DType::Bf16, &[1.0; GROUPS * K])?;
    let mut kept = Vec::new();
    for round in 0..rounds {
        let number = |group: usize| ((round * GROUPS + group) % 251) as f32;
        let weights = (0..GROUPS).map(|group| {
            let values = if group + 1 == GROUPS { f32::NAN } else { number(group) };
            Tensor::from_f32(&stream, &[N, K], DType::Bf16, &[values; N * K])
        });
        let weights = weights.collect::<Result<Vec<_>, _>>()?;
        // Some stay, so that the next ones cannot lie in the same places.
        kept.extend(weights.iter().skip(round % GROUPS).cloned());
        if kept.len() > 40 {
            kept.drain(..23 + round % 7);
        }
        let weights = &GroupedTensor::discrete(&stream, weights)?;
        let mut y = Tensor::from_f32(&stream, &[GROUPS, N], DType::F32, &[f32::NAN; GROUPS * N])?;
        let (x, splits, options) = (&x, &splits, GemmOptions::default());
        let args = FpropArgs { x, weights, splits, bias: None, bias_row_scales: None, options };
        fprop(&stream, &args, &mut y)?;
        let y = y.to_f32(&stream)?;
        for (index, &value) in y[..(GROUPS - 1) * N].iter().enumerate() {
            let want = K as f32 * number(index / N);
            if value != want {
                return Err(format!(
                    "round {round}: expert {} gives {value} instead of {want}",
                    index / N
                )
                .into());
            }
        }
    }
    Ok(())
}
