//! When memory goes: what a gradient does not need goes with the caller's own handles. What only
//! addresses tell of memory, and when it comes.

use std::sync::{Arc, Weak};

use super::{
    BackwardOptions, BiasUse, Config, ForwardOptions, GradSink, GroupedLinear, Needs, Saved, Wgrad,
    WgradStore,
};
#[cfg(feature = "emulator")]
use super::{Captured, CapturedLayer, LayerRecipe, PendingWgrad, RowSink, saved::Tokens};
use crate::backend::{Device, Stream};
use crate::error::Result;
use crate::splits::Splits;
use crate::tensor::{DType, DeviceMemory, GroupedTensor, HostMemory, Memory, Tensor};

const CONFIG: Config = Config { groups: 2, in_features: 16, out_features: 8, dtype: DType::Bf16 };
const ROWS: usize = 5;

/// Watches an allocation without holding it.
enum Watch {
    Host(Weak<HostMemory>),
    Device(Weak<dyn DeviceMemory>),
}

impl Watch {
    fn new(tensor: &Tensor) -> Self {
        match tensor.memory() {
            Memory::Host(memory) => Self::Host(Arc::downgrade(memory)),
            Memory::Device(memory) => Self::Device(Arc::downgrade(memory)),
        }
    }

    fn lives(&self) -> bool {
        match self {
            Self::Host(memory) => memory.strong_count() > 0,
            Self::Device(memory) => memory.strong_count() > 0,
        }
    }
}

/// Allocations of one step.
struct Watches {
    x: Watch,
    dy: Watch,
    row_scales: Watch,
    weights: Watch,
    bias: Watch,
    splits: Watch,
}

/// A step of which the caller holds nothing any more but what backward needs.
struct Step {
    saved: Saved,
    dy: Tensor,
    layer: GroupedLinear,
    watches: Watches,
}

fn step(stream: &Stream, row_scaled: bool, needs: Needs) -> Result<Step> {
    let Config { groups, in_features: k, out_features: n, dtype } = CONFIG;
    let weights = Tensor::zeros(stream, &[groups, n, k], dtype)?;
    let bias = Tensor::zeros(stream, &[groups, n], dtype)?;
    let x = Tensor::zeros(stream, &[ROWS, k], dtype)?;
    let dy = Tensor::zeros(stream, &[ROWS, n], dtype)?;
    let row_scales = Tensor::zeros(stream, &[ROWS], DType::F32)?;
    let counts = Tensor::from_slice(stream, &[groups], &[1i64, 3])?;
    let watches = Watches {
        x: Watch::new(&x),
        dy: Watch::new(&dy),
        row_scales: Watch::new(&row_scales),
        weights: Watch::new(&weights),
        bias: Watch::new(&bias),
        splits: Watch::new(&counts),
    };
    let bias = GroupedTensor::packed(bias)?;
    let layer = GroupedLinear::new(stream, CONFIG, GroupedTensor::packed(weights)?, Some(bias))?;
    let scaled = if row_scaled { BiasUse::RowScaled(&row_scales) } else { BiasUse::Add };
    let options = ForwardOptions { bias: scaled, needs, ..ForwardOptions::default() };
    let (_, saved) = layer.forward(stream, &x, &Splits::device(counts)?, options)?;
    stream.synchronize()?;
    Ok(Step { saved, dy, layer, watches })
}

fn streams() -> Result<Vec<Stream>> {
    let cpu = Device::cpu().stream()?;
    #[cfg(feature = "emulator")]
    let streams = vec![cpu, Device::emulated(ptx_emulator::Arch::Sm90a)?.stream()?];
    #[cfg(not(feature = "emulator"))]
    let streams = vec![cpu];
    Ok(streams)
}

#[test]
fn what_no_gradient_needs_goes_after_forward() -> Result<()> {
    for stream in &streams()? {
        for (bits, row_scaled) in (0..16).flat_map(|bits| [(bits, false), (bits, true)]) {
            let bit = |number: u32| bits & (1 << number) != 0;
            let needs = Needs { dx: bit(0), dw: bit(1), db: bit(2), dscales: bit(3) };
            let Step { saved, layer, watches, .. } = step(stream, row_scaled, needs)?;
            assert!(watches.weights.lives() && watches.bias.lives());
            drop(layer);
            let Watches { x, row_scales, weights, bias, splits, .. } = watches;
            let lives = [&x, &row_scales, &weights, &bias].map(Watch::lives);
            let want = [needs.dw, row_scaled && needs.db, needs.dx, row_scaled && needs.dscales];
            assert_eq!(lives, want, "x, row scales, weights, bias: {needs:?} {row_scaled}");
            drop(saved);
            assert!(![x, row_scales, weights, bias, splits].iter().any(Watch::lives), "{needs:?}");
        }
    }
    Ok(())
}

/// Gradients hold none of what they were computed from.
#[test]
fn operands_go_with_backward() -> Result<()> {
    for stream in &streams()? {
        let Step { saved, dy, layer, watches } = step(stream, true, Needs::default())?;
        let grads = layer.backward(stream, saved, &dy)?;
        stream.synchronize()?;
        drop((dy, layer));
        let Watches { x, dy, row_scales, weights, bias, splits } = watches;
        let lives = [x, dy, row_scales, weights, bias, splits].map(|watch| watch.lives());
        assert_eq!(lives, [false; 6], "x, dy, row scales, weights, bias, splits");
        drop(grads);
    }
    Ok(())
}

#[test]
fn a_delayed_gradient_keeps_what_it_reads_until_it_has_run() -> Result<()> {
    for stream in &streams()? {
        for run in [true, false] {
            let Step { saved, dy, layer, watches } = step(stream, true, Needs::default())?;
            let options = BackwardOptions { dw: Wgrad::Delayed, ..BackwardOptions::default() };
            let grads = layer.backward_with(stream, saved, &dy, options)?;
            drop((dy, layer));
            let Some(mut pending) = grads.pending else { panic!("it was asked for") };
            let Watches { x, dy, row_scales, weights, bias, splits } = watches;
            assert_eq!([&x, &dy, &splits].map(Watch::lives), [true; 3]);
            assert_eq!([&row_scales, &weights, &bias].map(Watch::lives), [false; 3]);
            if run {
                pending.run(stream, GradSink::New)?;
                stream.synchronize()?;
                assert_eq!([&x, &dy, &splits].map(Watch::lives), [false; 3], "it has run");
            }
            drop(pending);
            assert_eq!([x, dy, splits].map(|watch| watch.lives()), [false; 3]);
        }
    }
    Ok(())
}

#[test]
fn a_store_keeps_only_what_has_not_run() -> Result<()> {
    for stream in &streams()? {
        let mut store = WgradStore::new();
        let mut tokens = Vec::new();
        for _ in 0..3 {
            let Step { saved, dy, layer, watches } = step(stream, false, Needs::default())?;
            let options = BackwardOptions { dw: Wgrad::Delayed, ..BackwardOptions::default() };
            store.extend(layer.backward_with(stream, saved, &dy, options)?.pending);
            tokens.push(watches.x);
        }
        for ran in 0..3 {
            let lives: Vec<bool> = tokens.iter().map(Watch::lives).collect();
            assert_eq!(lives, (0..3).map(|number| number >= ran).collect::<Vec<_>>());
            store.run_next(stream, GradSink::New)?;
            stream.synchronize()?;
        }
        assert!(!tokens.iter().any(Watch::lives));
    }
    Ok(())
}

/// One call of each kind on a device of its own, as on every other such device.
#[cfg(feature = "emulator")]
struct Twin {
    stream: Stream,
    layer: GroupedLinear,
    x: Tensor,
    dy: Tensor,
    y: Tensor,
    dw: GroupedTensor,
    splits: Splits,
}

#[cfg(feature = "emulator")]
impl Twin {
    fn new(value: f32) -> Result<Self> {
        let Config { groups, in_features: k, out_features: n, dtype } = CONFIG;
        let stream = Device::emulated(ptx_emulator::Arch::Sm90a)?.stream()?;
        let filled = |shape: &[usize], value: f32| {
            let values = vec![value; shape.iter().product()];
            Tensor::from_f32(&stream, shape, dtype, &values)
        };
        let weights = GroupedTensor::packed(filled(&[groups, n, k], value)?)?;
        Ok(Self {
            layer: GroupedLinear::new(&stream, CONFIG, weights, None)?,
            x: filled(&[ROWS, k], 1.0)?,
            dy: filled(&[ROWS, n], value)?,
            y: filled(&[ROWS, n], -1.0)?,
            dw: GroupedTensor::packed(filled(&[groups, n, k], -1.0)?)?,
            splits: Splits::device(Tensor::from_slice(&stream, &[groups], &[2i64, 3])?)?,
            stream,
        })
    }

    /// A gradient of the weights to compute, of another layer's call.
    fn pending(&self) -> Result<PendingWgrad> {
        let Self { stream, layer, x, dy, splits, .. } = self;
        let (_, saved) = layer.forward(stream, x, splits, ForwardOptions::default())?;
        let options = BackwardOptions { dw: Wgrad::Delayed, ..BackwardOptions::default() };
        let grads = layer.backward_with(stream, saved, dy, options)?;
        Ok(grads.pending.expect("it was asked for"))
    }
}

/// Emulated GPUs give out the same addresses, each of memory of its own.
#[cfg(feature = "emulator")]
#[test]
fn a_graph_of_one_device_is_not_replayed_for_another() -> Result<()> {
    let (mut own, mut other) = (Twin::new(1.0)?, Twin::new(2.0)?);
    for (own, other) in [(&own.x, &other.x), (&own.y, &other.y), (&own.dy, &other.dy)] {
        assert_eq!(own.address(), other.address());
    }
    assert_eq!(own.dw.addresses(), other.dw.addresses());
    let mut captured = CapturedLayer::new(own.layer.clone());
    let options = ForwardOptions::default();
    let Twin { stream, x, splits, y, .. } = &mut own;
    for want in [Captured::First, Captured::Replayed] {
        let (_, did) = captured.forward_into(stream, x, splits, options, y)?;
        assert_eq!(did, want);
    }
    y.fill_zero(stream)?;
    let Twin { x, splits, y: other_y, .. } = &mut other;
    let error = captured.forward_into(stream, x, splits, options, other_y).map(drop).unwrap_err();
    assert!(error.to_string().contains("x lies on"), "{error}");
    assert_eq!(y.to_f32(stream)?, [0.0; ROWS * CONFIG.out_features], "the graph was replayed");

    // What is delayed knows no layer, so that of another device is computed, and recorded.
    for (twin, sum, calls) in [
        (&mut own, [2.0, 3.0], [Captured::First, Captured::Replayed]),
        (&mut other, [4.0, 6.0], [Captured::Changed("dy"), Captured::Replayed]),
    ] {
        for want in calls {
            let mut pending = twin.pending()?;
            let Twin { stream, dw, .. } = &mut *twin;
            let sink = GradSink::Overwrite(dw);
            let (_, did) = captured.run_delayed(stream, &mut pending, sink)?;
            assert_eq!(did, want);
            for (group, sum) in sum.into_iter().enumerate() {
                let dw = dw.group(group)?.to_f32(stream)?;
                assert_eq!(dw, [sum; CONFIG.in_features * CONFIG.out_features]);
            }
        }
    }
    Ok(())
}

/// Wgrad of aligned blocks needs more scratch memory than all before it. The layer is large, since
/// small ones have another kernel; nothing of it is computed, unless the output gradient is
/// quantized before that memory exists.
#[cfg(feature = "emulator")]
#[test]
fn scratch_memory_of_wgrad_is_there_before_the_bias_is_summed() -> Result<()> {
    use crate::plan::{Pass, Plan};
    use crate::recipe::{BlockScaling, Recipe, Role};
    use crate::tensor::QuantizedTensor;
    use crate::{Arch, EmulatorOptions};

    const ROWS: usize = 4096;
    const SIZE: usize = 3072;
    let mut options = EmulatorOptions::new(Arch::Sm90a);
    options.memory_bytes = Some(256 << 20);
    let stream = Device::emulated_with(options)?.stream()?;
    let config = Config { groups: 1, in_features: SIZE, out_features: SIZE, dtype: DType::Bf16 };
    let recipe = LayerRecipe::new(&stream, config, Recipe::Block(BlockScaling::default()))?;
    let zeros =
        |shape: &[usize], dtype| GroupedTensor::packed(Tensor::zeros(&stream, shape, dtype)?);
    let (weights, bias) = (zeros(&[1, SIZE, SIZE], DType::Bf16)?, zeros(&[1, SIZE], DType::Bf16)?);
    let layer = GroupedLinear::new(&stream, config, weights, Some(bias))?;
    let splits = Splits::host(&[ROWS])?;
    let x = Tensor::zeros(&stream, &[ROWS, SIZE], DType::Bf16)?;
    let mut dy = Tensor::empty(&stream, &[ROWS, SIZE], DType::Bf16)?;
    dy.write(&stream, &vec![half::bf16::ONE; ROWS * SIZE])?;
    let mut db = zeros(&[1, SIZE], DType::F32)?;

    let needs = Needs { dx: false, ..Needs::default() };
    let mut saved = layer.keep(&x, &splits, ForwardOptions { needs, ..ForwardOptions::default() });
    let quantized = recipe.spec().tensor(Role::Input, ROWS, [false, true]);
    saved.x = Some(Tokens::Quantized(QuantizedTensor::empty(&stream, quantized)?));
    saved.recipe = Some(recipe.clone());
    let plan = Plan::new(saved.product(Pass::Wgrad, DType::Bf16), stream.device().target())?;
    assert!(plan.launch.as_ref().is_some_and(|launch| launch.align.is_some()));

    // Room for all but that: dW, the columnwise codes of dY with their scales, and a MiB.
    let dy_bytes = ROWS * SIZE + 4 * (ROWS / 128) * SIZE;
    let room = Tensor::empty(&stream, &[2 * SIZE * SIZE + dy_bytes + (1 << 20)], DType::U8)?;
    let mut taken = Vec::new();
    for size in (0..=27).rev().map(|power| 1 << power) {
        while let Ok(tensor) = Tensor::empty(&stream, &[size], DType::U8) {
            taken.push(tensor);
        }
    }
    drop(room);
    let options = BackwardOptions {
        dx: RowSink::Skip,
        db: Some(GradSink::Accumulate(&mut db)),
        ..BackwardOptions::default()
    };
    let outcome = layer.backward_with(&stream, saved, &dy, options);
    let error = outcome.expect_err("no memory for the aligned codes").to_string();
    drop(taken);
    let wanted = format!("out of memory: {} bytes", plan.scratch_bytes());
    assert!(error.starts_with(&wanted), "{error}");
    assert_eq!(db.group(0)?.to_f32(&stream)?, [0.0; SIZE]);
    Ok(())
}

/// Memory that ran out behind its checks may have run out behind its first launch, too.
#[cfg(feature = "emulator")]
#[test]
fn a_forward_that_fails_behind_its_checks_counts() -> Result<()> {
    use super::RecipeBuffers;
    use crate::recipe::{CurrentScaling, Recipe};
    use crate::{Arch, EmulatorOptions};

    let mut options = EmulatorOptions::new(Arch::Sm90a);
    options.memory_bytes = Some(32 << 20);
    let device = Device::emulated_with(options)?;
    let stream = device.stream()?;
    let config = Config { in_features: 32, out_features: 16, ..CONFIG };
    let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 16, 32], DType::Bf16)?)?;
    let layer = GroupedLinear::new(&stream, config, weights, None)?;
    let recipe = LayerRecipe::new(&stream, config, Recipe::Current(CurrentScaling::default()))?;
    let buffers = RecipeBuffers::new(&stream, &recipe, ROWS)?;
    let recipe = recipe.with_buffers(buffers);
    let x = Tensor::zeros(&stream, &[ROWS, 32], DType::Bf16)?;
    let mut y = Tensor::zeros(&stream, &[ROWS, 16], DType::Bf16)?;
    let (splits, dy) = (Splits::host(&[2, 3])?, y.clone());
    let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
    let saved = layer.forward_into(&stream, &x, &splits, options, &mut y)?;

    // A stream without scratch memory, for which there is no room.
    let other = device.stream()?;
    let mut taken = Vec::new();
    for size in (0..=25).rev().map(|power| 1 << power) {
        while let Ok(tensor) = Tensor::empty(&stream, &[size], DType::U8) {
            taken.push(tensor);
        }
    }
    let error = layer.forward_into(&other, &x, &splits, options, &mut y).map(drop);
    let error = error.expect_err("no scratch memory").to_string();
    assert!(error.starts_with("out of memory"), "{error}");
    drop(taken);
    let error = layer.backward(&stream, saved, &dy).expect_err("they may be gone").to_string();
    assert!(error.starts_with("the tokens that forward kept are gone"), "{error}");

    let saved = layer.forward_into(&other, &x, &splits, options, &mut y)?;
    layer.backward(&other, saved, &dy).map(drop)
}

/// Splits on the host have copies on the device, of which those of the streams that asked last
/// stay.
#[cfg(feature = "emulator")]
#[test]
fn copies_of_splits_live_until_operations_are_handed_over() -> Result<()> {
    use super::functional::{FpropArgs, GemmOptions, fprop};
    let device = Device::emulated(crate::Arch::Sm90a)?;
    let one = device.stream()?;
    let Config { groups, in_features: k, out_features: n, dtype } = CONFIG;
    let x = Tensor::from_f32(&one, &[ROWS, k], dtype, &[1.0; ROWS * 16])?;
    let weights = Tensor::from_f32(&one, &[groups, n, k], dtype, &[0.5; 2 * 8 * 16])?;
    let weights = GroupedTensor::packed(weights)?;
    let splits = Splits::host(&[2, 3])?;
    let product = |stream: &Stream| -> Result<Tensor> {
        let (bias, bias_row_scales, options) = (None, None, GemmOptions::default());
        let (x, weights, splits) = (&x, &weights, &splits);
        let args = FpropArgs { x, weights, splits, bias, bias_row_scales, options };
        let mut y = Tensor::zeros(&one, &[ROWS, n], dtype)?;
        fprop(stream, &args, &mut y)?;
        Ok(y)
    };
    let others = [(); 8].map(|()| device.stream());
    let mut y = None;
    one.together(|| {
        y = Some(product(&one)?);
        others.into_iter().try_for_each(|other| product(&other?).map(drop))
    })?;
    assert_eq!(y.map(|y| y.to_f32(&one)).transpose()?, Some(vec![8.0; ROWS * 8]));
    Ok(())
}
