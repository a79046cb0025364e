//! Gradients of several microbatches added up in FP32, the weights' computed after the tokens' have
//! gone on their way, as a pipeline schedule does.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU.

use grouped_linear::{
    BackwardOptions, Config, DType, Device, ForwardOptions, GradSink, GroupedLinear, GroupedTensor,
    Result, RowSink, Splits, Tensor, Wgrad, WgradStore,
};

fn main() -> Result<()> {
    let stream = Device::best_available().stream()?;
    let (groups, k, n, rows) = (3, 16, 8, 12);
    let weights = vec![0.25; groups * n * k];
    let weights = Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &weights)?;
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
    let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(weights)?, None)?;

    // Held in FP32 from microbatch to microbatch; what the last step left is overwritten.
    let main_grad = vec![99.0; groups * n * k];
    let main_grad = Tensor::from_f32(&stream, &[groups, n, k], DType::F32, &main_grad)?;
    let mut main_grad = GroupedTensor::packed(main_grad)?;
    let mut dx = Tensor::zeros(&stream, &[rows, k], DType::Bf16)?;
    let mut later = WgradStore::new();

    for splits in [[4, 4, 4], [12, 0, 0]] {
        let x = Tensor::from_f32(&stream, &[rows, k], DType::Bf16, &vec![1.0; rows * k])?;
        let splits = Splits::host(&splits)?;
        let (y, saved) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
        println!("kept for backward: {} bytes of tokens", saved.bytes().activations);
        let options = BackwardOptions {
            dx: RowSink::Into(&mut dx),
            dw: Wgrad::Delayed,
            ..Default::default()
        };
        let grads = layer.backward_with(&stream, saved, &y, options)?;
        later.extend(grads.pending);
    }

    println!("later: {} gradients, {} bytes kept", later.len(), later.bytes());
    for microbatch in 0.. {
        if later.is_empty() {
            break;
        }
        later.run_next(&stream, GradSink::microbatch(&mut main_grad, microbatch))?;
    }
    for group in 0..groups {
        let gradient = main_grad.group(group)?.to_f32(&stream)?;
        println!("group {group}: gradient of the first weight {}", gradient[0]);
    }
    Ok(())
}
