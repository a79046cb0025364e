//! What is said beforehand, of shapes, memory and refusals, against what happens.

use grouped_linear::plan::Execution;
use grouped_linear::recipe::{CurrentScaling, Recipe};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, BiasUse, Config, DType, DeviceKind, ForwardOptions,
    GroupedLinear, GroupedTensor, KernelChoice, LayerRecipe, LayerSpecs, Needs, ParamLayout,
    RecipeBuffers, Result, SavedBytes, Splits, Stream, Tensor, TensorSpec,
};

use crate::engines::Test;
use crate::exact::{K, Model, N, Numbers};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("what is inferred is given, what nobody needs is not kept", |e, s| inferred(s).expect(e)),
    ("an unsupported layer says so beforehand", |e, s| unsupported(s).expect(e)),
    ("recipes: an unsupported backward says so beforehand", |e, s| mixed(s).expect(e)),
    ("recipes: what does not fit the layer says so beforehand", |e, s| misfits(s).expect(e)),
];

const SPLITS: [usize; 3] = [2, 0, 4];

/// Every choice of gradients.
fn all_needs() -> impl Iterator<Item = Needs> {
    (0..16).map(|bits| {
        let bit = |number: u32| bits & (1 << number) != 0;
        Needs { dx: bit(0), dw: bit(1), db: bit(2), dscales: bit(3) }
    })
}

fn inferred(stream: &Stream) -> Result<()> {
    let numbers = Numbers::new(&SPLITS, 1, 31);
    let with_bias = Model::new(stream, &numbers, DType::Bf16, ParamLayout::Packed)?;
    let (config, weights) = (with_bias.layer.config(), with_bias.layer.weights().clone());
    let without = GroupedLinear::new(stream, config, weights, None)?;
    let without = Model::of(stream, without, &numbers)?;
    for needs in all_needs() {
        let scaled = BiasUse::RowScaled(&with_bias.row_scales);
        for (model, bias) in [
            (&with_bias, BiasUse::Add),
            (&with_bias, scaled),
            (&with_bias, BiasUse::Leave),
            (&without, BiasUse::Add),
            (&without, BiasUse::Leave),
        ] {
            let options = ForwardOptions { bias, needs, ..ForwardOptions::default() };
            check(stream, model, options, numbers.rows)?;
        }
    }
    Ok(())
}

fn check(stream: &Stream, model: &Model, options: ForwardOptions<'_>, rows: usize) -> Result<()> {
    let Model { layer, x, dy, splits, .. } = model;
    let ForwardOptions { bias, needs, .. } = options;
    let what = format!("{bias:?} of {}, {needs:?}", layer.bias().is_some());
    let has_bias = layer.bias().is_some() && !matches!(bias, BiasUse::Leave);
    let row_scaled = has_bias && matches!(bias, BiasUse::RowScaled(_));
    let (y, saved) = layer.forward(stream, x, splits, options)?;

    // In BF16, except for the row scales.
    let (groups, when) =
        (SPLITS.len(), |wanted: bool, bytes: usize| if wanted { bytes } else { 0 });
    let activations = when(needs.dw, rows * K * 2) + when(needs.db && row_scaled, rows * 4);
    let weights = when(needs.dx, groups * N * K * 2);
    let parameters = weights + when(needs.dscales && row_scaled, groups * N * 2);
    let kept = SavedBytes { activations, parameters, splits: 0 };
    assert_eq!(saved.bytes(), kept, "{what}");

    let grads = layer.backward_with(stream, saved, dy, BackwardOptions::default())?;
    let tensor = |tensor: &Option<Tensor>| tensor.as_ref().map(TensorSpec::from);
    let packed = |own: &Option<GroupedTensor>| {
        own.as_ref().map(|own| TensorSpec::from(own.as_packed().expect("packed")))
    };
    let given = [
        Some(TensorSpec::from(&y)),
        tensor(&grads.dx),
        packed(&grads.dw),
        packed(&grads.db),
        tensor(&grads.dscales),
    ];
    let specs = layer.infer(rows, &options);
    let LayerSpecs { dx, dw, db, dscales, .. } = specs.clone();
    assert_eq!(given, [Some(specs.y), dx, dw, db, dscales], "{what}");
    let exist = given.map(|spec| spec.is_some());
    let (db, dscales) = (needs.db && has_bias, needs.dscales && row_scaled);
    assert_eq!(exist, [true, needs.dx, needs.dw, db, dscales], "{what}");
    let saved =
        [specs.saved_x, specs.saved_row_scales].map(|spec| spec.map_or(0, |s| s.byte_len()));
    assert_eq!(saved.iter().sum::<usize>(), activations, "{what}");
    Ok(())
}

/// The reason is the message of the refusal, and there is none where nothing is refused.
fn unsupported(stream: &Stream) -> Result<()> {
    let (rows, gpu) = (6, stream.device().id().kind != DeviceKind::Cpu);
    let host = Splits::host(&SPLITS)?;
    let device = Splits::device(Tensor::from_slice(stream, &[3], &[2i64, 0, 4])?)?;
    for (dtype, n, kernel) in [
        (DType::Bf16, 16, KernelChoice::Auto),
        (DType::Bf16, 15, KernelChoice::Auto),
        (DType::Bf16, 15, KernelChoice::Simt),
        (DType::F32, 15, KernelChoice::Auto),
    ] {
        let config = Config { groups: 3, in_features: K, out_features: n, dtype };
        let weights = GroupedTensor::packed(Tensor::zeros(stream, &[3, n, K], dtype)?)?;
        let layer = GroupedLinear::new(stream, config, weights, None)?;
        let (x, mut y) =
            (Tensor::zeros(stream, &[rows, K], dtype)?, Tensor::zeros(stream, &[rows, n], dtype)?);
        let options = ForwardOptions { kernel, ..ForwardOptions::default() };
        let ragged = gpu && dtype != DType::F32 && n == 15 && kernel == KernelChoice::Auto;
        for splits in [&host, &device] {
            let what = format!("{dtype} {n} {kernel:?} {splits:?}");
            let target = stream.device().target();
            let why =
                |execution| layer.unsupported_reason(target, rows, splits, &options, execution);
            let (eager, captured) = (why(Execution::Eager), why(Execution::Captured));
            let mut forward =
                |stream: &Stream| layer.forward_into(stream, &x, splits, options, &mut y).map(drop);
            let outcome = forward(stream).map_err(|error| error.to_string());
            assert_eq!(eager.is_some(), ragged, "{what}");
            assert_eq!(eager, outcome.err(), "{what}");
            let recorded = stream.capture(forward);
            let refused = !gpu || splits.counts().is_some() || ragged;
            assert_eq!((captured.is_some(), recorded.is_err()), (refused, refused), "{what}");
            assert!(recorded.err().is_none_or(|error| error.is_unsupported()), "{what}");
        }
    }
    Ok(())
}

/// An FP32 layer: tensor cores take its quantized operands, and not those that it has itself. The
/// reason is that of the first product that would be refused.
fn mixed(stream: &Stream) -> Result<()> {
    let (rows, k, n) = (6, 32, 48);
    let config = Config { groups: 3, in_features: k, out_features: n, dtype: DType::F32 };
    let zeros = |shape: &[usize]| Tensor::zeros(stream, shape, DType::F32);
    let weights = GroupedTensor::packed(zeros(&[3, n, k])?)?;
    let layer = GroupedLinear::new(stream, config, weights, None)?;
    let (x, dy, splits) = (zeros(&[rows, k])?, zeros(&[rows, n])?, Splits::host(&SPLITS)?);
    let own = LayerRecipe::new(stream, config, Recipe::Current(CurrentScaling::default()))?;
    let target = stream.device().target();
    for backward in
        [BackwardPrecision::Recipe, BackwardPrecision::High, BackwardPrecision::Dequantized]
    {
        let own = own.clone().with_backward(backward)?;
        for (kernel, needs) in [KernelChoice::Auto, KernelChoice::Block]
            .into_iter()
            .flat_map(|kernel| all_needs().map(move |needs| (kernel, needs)))
        {
            let what = format!("{backward:?}, {kernel:?}, {needs:?}");
            let options =
                ForwardOptions { recipe: Some(&own), needs, kernel, ..ForwardOptions::default() };
            let why = layer.unsupported_reason(target, rows, &splits, &options, Execution::Eager);
            let outcome = layer.forward(stream, &x, &splits, options).and_then(|(_, saved)| {
                layer.backward_with(stream, saved, &dy, BackwardOptions::default())
            });
            assert_eq!(why, outcome.err().map(|error| error.to_string()), "{what}");
            let plain = backward != BackwardPrecision::Recipe && (needs.dx || needs.dw);
            let refused = kernel == KernelChoice::Block && (target.gpu.is_none() || plain);
            assert_eq!(why.is_some(), refused, "{what}: {why:?}");
        }
    }
    Ok(())
}

/// A recipe of another layer, and buffers without room for a part of a call.
fn misfits(stream: &Stream) -> Result<()> {
    let (rows, k, n, dtype) = (6, 32, 48, DType::Bf16);
    let config = Config { groups: 3, in_features: k, out_features: n, dtype };
    let zeros = |shape: &[usize]| Tensor::zeros(stream, shape, dtype);
    let weights = GroupedTensor::packed(zeros(&[3, n, k])?)?;
    let layer = GroupedLinear::new(stream, config, weights, None)?;
    let (x, splits) = (zeros(&[rows, k])?, Splits::host(&SPLITS)?);
    let recipe =
        |config| LayerRecipe::new(stream, config, Recipe::Current(CurrentScaling::default()));
    let with_buffers = |made_for: LayerRecipe, rows, backward| -> Result<LayerRecipe> {
        let buffers = RecipeBuffers::new(stream, &made_for, rows)?;
        Ok(made_for.with_backward(backward)?.with_buffers(buffers))
    };
    let own = recipe(config)?;
    let high = own.clone().with_backward(BackwardPrecision::High)?;
    let [dequantized, same] = [BackwardPrecision::Dequantized, BackwardPrecision::Recipe];
    for (what, recipe, part) in [
        ("itself", with_buffers(own.clone(), rows, same)?, None),
        ("another layer", recipe(Config { groups: 2, ..config })?, Some("recipe")),
        ("fewer rows", with_buffers(own.clone(), rows - 1, same)?, Some("made for 5 token rows")),
        ("no gradients", with_buffers(high.clone(), rows, same)?, Some("no room for all copies")),
        ("nothing restored", with_buffers(high, rows, dequantized)?, Some("the restored tokens")),
    ] {
        let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
        let target = stream.device().target();
        let why = layer.unsupported_reason(target, rows, &splits, &options, Execution::Eager);
        let outcome = layer.forward(stream, &x, &splits, options).map(drop);
        assert_eq!(why, outcome.err().map(|error| error.to_string()), "{what}");
        let says = |part: &str| why.as_ref().is_some_and(|why| why.contains(part));
        assert!(part.map_or(why.is_none(), says), "{what}: {why:?}");
    }
    Ok(())
}
