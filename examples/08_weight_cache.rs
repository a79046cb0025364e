//! Training with master weights in FP32 and products in BF16: the copies that the products read are
//! made once per step of the optimiser, whatever the number of microbatches.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU.

use grouped_linear::{
    BackwardOptions, CastWeights, Config, DType, Device, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, Refresh, Result, RowSink, Splits, Tensor, WeightCache,
};

fn main() -> Result<()> {
    let stream = Device::best_available().stream()?;
    let (groups, k, n, rows) = (2, 16, 8, 8);
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };

    let master = vec![0.1; groups * n * k];
    let mut master = Tensor::from_f32(&stream, &[groups, n, k], DType::F32, &master)?;
    let parameters = GroupedTensor::packed(master.clone())?;
    let mut cache = WeightCache::new(&stream, CastWeights { config })?;
    // The layer reads the copies; it is built once.
    let layer = GroupedLinear::new(&stream, config, cache.weights().clone(), None)?;
    let main_grad = Tensor::empty(&stream, &[groups, n, k], DType::F32)?;
    let mut sink = GroupedTensor::packed(main_grad.clone())?;

    let x = Tensor::from_f32(&stream, &[rows, k], DType::Bf16, &vec![0.5; rows * k])?;
    let mut casts = 0;
    for step in 0..3 {
        for (microbatch, splits) in [[3, 5], [8, 0]].iter().enumerate() {
            // The version is the step: the second microbatch finds the copies as they must be.
            if cache.refresh(&stream, &parameters, step)? == Refresh::Launched {
                casts += 1;
            }
            let options = ForwardOptions::default();
            let (y, saved) = layer.forward(&stream, &x, &Splits::host(splits)?, options)?;
            println!("step {step}, microbatch {microbatch}: y[0] = {}", y.to_f32(&stream)?[0]);
            // The loss is half the square of every output.
            let options = BackwardOptions {
                dx: RowSink::Skip,
                dw: GradSink::microbatch(&mut sink, microbatch).into(),
                ..Default::default()
            };
            layer.backward_with(&stream, saved, &y, options)?;
        }
        // The optimiser works in FP32; steps that BF16 would lose add up.
        let gradient = main_grad.to_f32(&stream)?;
        let weights = master.to_f32(&stream)?;
        let updated: Vec<f32> = weights.iter().zip(gradient).map(|(w, g)| w - 0.002 * g).collect();
        master.write_f32(&stream, &updated)?;
    }
    println!("{casts} casts for 6 microbatches");
    Ok(())
}
