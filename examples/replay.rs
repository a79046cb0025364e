//! Forward captured once in a graph and replayed with other splits, which the host never reads.
//!
//! Capture needs a GPU; without one the example says so and runs the same calls eagerly.

use grouped_linear::{
    Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Result, Splits, Tensor,
};

fn main() -> Result<()> {
    let stream = Device::best_available().stream()?;
    let (groups, k, n, rows) = (3, 16, 8, 12);
    let weights: Vec<f32> = (0..groups * n * k).map(|i| (i / (n * k) + 1) as f32).collect();
    let weights = Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &weights)?;
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
    let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(weights)?, None)?;

    let x = Tensor::from_f32(&stream, &[rows, k], DType::Bf16, &vec![1.0; rows * k])?;
    let mut y = Tensor::zeros(&stream, &[rows, n], DType::Bf16)?;
    let mut counts = Tensor::from_slice(&stream, &[groups], &[4i64, 4, 4])?;
    let splits = Splits::device(counts.clone())?;

    let forward = |y: &mut Tensor| -> Result<()> {
        drop(layer.forward_into(&stream, &x, &splits, ForwardOptions::default(), y)?);
        Ok(())
    };
    forward(&mut y)?; // loads the kernels, sizes the scratch memory
    let graph = match stream.capture(|_| forward(&mut y)) {
        Ok(graph) => Some(graph),
        Err(error) => {
            println!("running eagerly: {error}");
            None
        }
    };
    for splits in [[12i64, 0, 0], [0, 0, 12], [1, 10, 1]] {
        counts.write(&stream, &splits)?;
        match &graph {
            Some(graph) => graph.launch(&stream)?,
            None => forward(&mut y)?,
        }
        let first: Vec<f32> = y.to_f32(&stream)?.iter().step_by(n).copied().collect();
        println!("splits {splits:?}: first column {first:?}");
    }
    Ok(())
}
