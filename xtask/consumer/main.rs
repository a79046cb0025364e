//! Uses the published form of `grouped-linear` as a stranger would: without the kernel sources.

use grouped_linear::{
    Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Result, Splits, Tensor,
};

fn main() -> Result<()> {
    let source = grouped_linear::kernel_source();
    for module in &source.modules {
        println!("{}/{}: {} bytes, {}", module.target, module.name, module.bytes, module.origin);
        assert_eq!(module.origin, "shipped", "a published crate compiles no kernel");
    }
    assert!(!source.modules.is_empty());

    // Expert g multiplies by g + 1; two rows for expert 0, none for 1, one for 2.
    let stream = Device::cpu().stream()?;
    let (groups, n, k) = (3, 8, 8);
    let identity = |scale: usize| (0..n * k).map(move |i| f32::from(i / k == i % k) * scale as f32);
    let weights: Vec<f32> = (1..=groups).flat_map(identity).collect();
    let weights = Tensor::from_f32(&stream, &[groups, n, k], DType::Bf16, &weights)?;
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };
    let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(weights)?, None)?;
    let x: Vec<f32> = (0..3 * k).map(|i| i as f32).collect();
    let x = Tensor::from_f32(&stream, &[3, k], DType::Bf16, &x)?;
    let splits = Splits::host(&[2, 0, 1])?;
    let (y, saved) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
    let y = y.to_f32(&stream)?;
    let want: Vec<f32> = (0..3 * k).map(|i| i as f32 * if i < 2 * k { 1.0 } else { 3.0 }).collect();
    assert_eq!(y, want);

    let dy = Tensor::from_f32(&stream, &[3, n], DType::Bf16, &vec![1.0; 3 * n])?;
    let grads = layer.backward(&stream, saved, &dy)?;
    assert_eq!(grads.dw.group(1)?.to_f32(&stream)?, vec![0.0; n * k]);
    println!("forward and backward agree with what was worked out by hand");
    Ok(())
}
