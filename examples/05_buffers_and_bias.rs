//! Outputs in the caller's memory, a bias with a factor for each row, a bias that is left to the
//! caller, and what a forward call keeps for backward.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU.

use grouped_linear::{
    BackwardOptions, BiasUse, Config, DType, Device, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, Needs, ParamLayout, Result, RowSink, Splits, Tensor, Wgrad,
};

fn main() -> Result<()> {
    let stream = Device::best_available().stream()?;
    let (groups, k, n) = (2, 8, 16);
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
    let (layout, ones) = (ParamLayout::Packed, vec![1.0; groups * n * k]);
    let weights = GroupedTensor::from_f32(&stream, layout, groups, &[n, k], DType::Bf16, &ones)?;
    let ones = &ones[..groups * n];
    let bias = GroupedTensor::from_f32(&stream, layout, groups, &[n], DType::Bf16, ones)?;
    let layer = GroupedLinear::new(&stream, config, weights, Some(bias))?;

    // Buffers with room for eight rows, of which the routing fills five. The rest is not touched.
    let (capacity, splits) = (8, Splits::host(&[2, 3])?);
    let x = Tensor::from_f32(&stream, &[capacity, k], DType::Bf16, &vec![1.0; capacity * k])?;
    let mut y = Tensor::from_f32(&stream, &[capacity, n], DType::Bf16, &vec![-7.0; capacity * n])?;
    let router = Tensor::from_slice(&stream, &[capacity], &[0.5f32, 1., 2., 3., 4., 0., 0., 0.])?;

    let options = ForwardOptions { bias: BiasUse::RowScaled(&router), ..Default::default() };
    let specs = layer.infer(capacity, &options);
    let saved = layer.forward_into(&stream, &x, &splits, options, &mut y)?;
    let column: Vec<f32> = y.to_f32(&stream)?.iter().step_by(n).copied().collect();
    println!("first column of y: {column:?}");
    println!("y is {:?}; kept for backward: {:?}", specs.y, saved.bytes());

    // dx in place, dscales in a new tensor, no gradient of the weights.
    let mut dx = Tensor::zeros(&stream, &[capacity, k], DType::Bf16)?;
    let options = BackwardOptions {
        dx: RowSink::Into(&mut dx),
        dw: Wgrad::Skip,
        db: Some(GradSink::New),
        dscales: RowSink::New,
    };
    let grads = layer.backward_with(&stream, saved, &y, options)?;
    if let Some(dscales) = grads.dscales {
        println!("dscales of the live rows: {:?}", &dscales.to_f32(&stream)?[..5]);
    }

    // Frozen weights keep no tokens; a bias that is left alone is the caller's to add.
    let needs = Needs { dw: false, ..Needs::default() };
    let options = ForwardOptions { bias: BiasUse::Leave, needs, ..Default::default() };
    let (y, saved) = layer.forward(&stream, &x, &splits, options)?;
    let bias = layer.bias().expect("the layer has one").group(0)?.to_f32(&stream)?[0];
    println!("y[0] = {} + {bias}; kept now: {:?}", y.to_f32(&stream)?[0], saved.bytes());
    Ok(())
}
