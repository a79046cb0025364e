//! One optimiser step of one layer: forward, loss gradient, backward, update in place.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU.

use grouped_linear::{
    Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Result, Splits, Tensor,
};

fn main() -> Result<()> {
    let device = Device::best_available();
    let stream = device.stream()?;
    println!("on {}: {}", device.id(), device.info().name);

    let (groups, k, n, rows) = (4, 64, 32, 96);
    let wave = |count: usize, step: f32| -> Vec<f32> {
        (0..count).map(|i| (i as f32 * step).sin() * 0.1).collect()
    };
    let mut weights =
        Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &wave(groups * n * k, 0.7))?;
    let bias = Tensor::zeros(&stream, &[groups, n], DType::Bf16)?;
    let layer = GroupedLinear::new(
        &stream,
        Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 },
        GroupedTensor::packed(weights.clone())?, // the layer sees updates of `weights`
        Some(GroupedTensor::packed(bias)?),
    )?;

    // The router's counts, in device memory: the host never reads them again. The buffer has room
    // for more rows than are live.
    let counts = Tensor::from_slice(&stream, &[groups], &[30i32, 0, 41, 9])?;
    let splits = Splits::device(counts)?;
    let x = Tensor::from_f32(&stream, &[rows, k], DType::Bf16, &wave(rows * k, 0.3))?;
    let live = 30 + 41 + 9;

    for step in 0..3 {
        // Loss: half the squared distance of every live output from 1, summed; shown per token.
        let (y, saved) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
        let dy: Vec<f32> = y.to_f32(&stream)?.iter().map(|y| y - 1.0).collect();
        let loss: f32 = dy[..live * n].iter().map(|d| 0.5 * d * d).sum::<f32>() / live as f32;
        println!("step {step}: loss {loss:.4}");

        let dy = Tensor::from_f32(&stream, &[rows, n], DType::Bf16, &dy)?;
        let grads = layer.backward(&stream, saved, &dy)?;
        let dw = grads.dw.as_packed().expect("packed, as new gradients are").to_f32(&stream)?;
        let updated: Vec<f32> =
            weights.to_f32(&stream)?.iter().zip(dw).map(|(w, dw)| w - 0.02 * dw).collect();
        weights.write_f32(&stream, &updated)?;
    }
    Ok(())
}
