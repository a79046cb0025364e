//! The operations without a layer: explicit arguments, factors, and what is known before anything
//! runs. This is what a framework with its own parameters and its own tape calls.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU.

use grouped_linear::functional::{
    Accumulate, DbiasArgs, DgradArgs, FpropArgs, GemmOptions, WgradArgs, dbias, dgrad, fprop, wgrad,
};
use grouped_linear::plan::{
    BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Problem, Target,
};
use grouped_linear::{DType, Device, Factor, GroupedTensor, Result, Splits, Tensor};

fn main() -> Result<()> {
    let (groups, rows, k, n) = (2, 5, 8, 16);

    // Shapes, and whether a GPU takes the sizes, are known without a GPU and without a tensor.
    let product = |pass, bias| -> Problem {
        let (input, output, kernel) = (DType::Bf16, DType::Bf16, KernelChoice::Auto);
        let (in_features, out_features) = (k, n);
        GemmProblem { pass, groups, rows, in_features, out_features, input, output, bias, kernel }
            .into()
    };
    let forward = product(Pass::Fprop, BiasKind::Add(DType::Bf16));
    let hopper = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
    let plan = Plan::new(forward, Target { gpu: Some(hopper) })?;
    println!("y will be {:?}; on a GPU: {:?}", forward.output(), plan.launch);

    let stream = Device::best_available().stream()?;
    let ones = |shape: &[usize]| {
        Tensor::from_f32(&stream, shape, DType::Bf16, &vec![1.0; shape.iter().product()])
    };
    let (x, weights) = (ones(&[rows, k])?, GroupedTensor::packed(ones(&[groups, n, k])?)?);
    let bias = GroupedTensor::packed(ones(&[groups, n])?)?;
    let splits = Splits::host(&[2, 3])?;

    // Y = alpha X Wᵀ + b, with a factor for each group in device memory.
    let alpha = Tensor::from_slice(&stream, &[groups], &[0.5f32, 2.0])?;
    let options = GemmOptions { alpha: Factor::PerGroup(&alpha), ..GemmOptions::default() };
    let mut y = forward.output().empty(&stream)?;
    let args = FpropArgs {
        x: &x,
        weights: &weights,
        splits: &splits,
        bias: Some(&bias),
        bias_row_scales: None,
        options,
    };
    fprop(&stream, &args, &mut y)?;
    let first: Vec<f32> = y.to_f32(&stream)?.iter().step_by(n).copied().collect();
    println!("first column of y: {first:?}"); // 0.5 * 8 + 1, 2 * 8 + 1

    // The gradients, for dY = Y; the same alpha, since the product had it.
    let mut dx = product(Pass::Dgrad, BiasKind::None).output().empty(&stream)?;
    dgrad(&stream, &DgradArgs { dy: &y, weights: &weights, splits: &splits, options }, &mut dx)?;
    let dw = product(Pass::Wgrad, BiasKind::None).output().empty(&stream)?;
    let mut dw = GroupedTensor::packed(dw)?;
    wgrad(&stream, &WgradArgs { dy: &y, x: &x, splits: &splits, options }, &mut dw)?;
    let mut db = GroupedTensor::packed(Tensor::empty(&stream, &[groups, n], DType::F32)?)?;
    let accumulate = Accumulate::Overwrite;
    let args = DbiasArgs { dy: &y, splits: &splits, row_scales: None, accumulate };
    dbias(&stream, &args, &mut db)?;
    println!("dx[0] = {}", dx.to_f32(&stream)?[0]);
    for group in 0..groups {
        let (dw, db) = (dw.group(group)?.to_f32(&stream)?, db.group(group)?.to_f32(&stream)?);
        println!("group {group}: dw[0] = {}, db[0] = {}", dw[0], db[0]);
    }
    Ok(())
}
