//! A layer recorded in graphs and replayed with other splits, which the host never reads.
//!
//! Runs on the first GPU, if there are kernels for it, else on an emulated one (the CPU alone
//! records no graphs). Needs the feature `emulator`, a default one.

use grouped_linear::{
    Arch, BackwardOptions, CapturedLayer, Config, DType, Device, DeviceKind, ForwardOptions,
    GradSink, GroupedLinear, GroupedTensor, Result, RowSink, Splits, Tensor,
};

fn main() -> Result<()> {
    let device = match Device::best_available() {
        device if device.id().kind == DeviceKind::Cpu => Device::emulated(Arch::Sm90a)?,
        device => device,
    };
    let stream = device.stream()?;
    let (groups, k, n, rows) = (3, 16, 8, 12);
    let weights: Vec<f32> = (0..groups * n * k).map(|i| (i / (n * k) + 1) as f32).collect();
    let weights = Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &weights)?;
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
    let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(weights)?, None)?;

    // Everything that a graph reads and writes stays where it is.
    let x = Tensor::from_f32(&stream, &[rows, k], DType::Bf16, &vec![1.0; rows * k])?;
    let mut counts = Tensor::from_slice(&stream, &[groups], &[4i64, 4, 4])?;
    let splits = Splits::device(counts.clone())?;
    let mut y = Tensor::zeros(&stream, &[rows, n], DType::Bf16)?;
    let mut dx = Tensor::zeros(&stream, &[rows, k], DType::Bf16)?;
    let mut main_grad =
        GroupedTensor::packed(Tensor::zeros(&stream, &[groups, n, k], DType::F32)?)?;

    // The helper records each call when it comes for the first time, and when something moved.
    let mut captured = CapturedLayer::new(layer.clone());
    for new_counts in [[4i64, 4, 4], [12, 0, 0], [0, 0, 12], [1, 10, 1]] {
        counts.write(&stream, &new_counts)?;
        let options = ForwardOptions::default();
        let (saved, forward) = captured.forward_into(&stream, &x, &splits, options, &mut y)?;
        let options = BackwardOptions {
            dx: RowSink::Into(&mut dx),
            dw: GradSink::Accumulate(&mut main_grad).into(),
            ..BackwardOptions::default()
        };
        let (_, backward) = captured.backward_with(&stream, &saved, &y, options)?;
        let first: Vec<f32> = y.to_f32(&stream)?.iter().step_by(n).copied().collect();
        println!("splits {new_counts:?}: {forward}, {backward}; first column {first:?}");
    }

    // By hand: run once, so that kernels are loaded and scratch memory has its size; then record.
    let mut forward = || -> Result<()> {
        drop(layer.forward_into(&stream, &x, &splits, ForwardOptions::default(), &mut y)?);
        Ok(())
    };
    forward()?;
    let graph = stream.capture(|_| forward())?;
    counts.write(&stream, &[5i64, 5, 2])?;
    graph.launch(&stream)?;
    println!("replayed by hand: y[0] = {}", y.to_f32(&stream)?[0]);
    Ok(())
}
