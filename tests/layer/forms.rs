//! Layers that follow a recipe, by how what is quantized is stored: restored for backward,
//! quantized beforehand, and in other forms.

use grouped_linear::functional::{
    DequantizeSink, QuantizeArgs, QuantizeSource, dequantize, quantize,
};
use grouped_linear::recipe::{
    BlockScaling, Blocks, CurrentScaling, Format, Nvfp4Scaling, Recipe, Role, Scope,
};
use grouped_linear::{
    BackwardPrecision, BiasUse, DType, Direction, Form, ForwardOptions, GroupedLinear,
    GroupedTensor, LayerRecipe, Needs, QuantizedCopy, QuantizedSpec, QuantizedTensor,
    RecipeBuffers, Result, SavePolicy, SourceShape, Stream, Tensor,
};

use crate::engines::Test;
use crate::exact::{read, same};
use crate::recipes::{
    GROUPS, K, LIVE, Model, N, NAMES, ROWS, distance, recipes, rewind, same_results,
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes: backward on restored operands", |e, s| dequantized(s).expect(e)),
    ("recipes: scales of squares may start anywhere", |e, s| late_scales(s).expect(e)),
    ("recipes: tokens quantized beforehand", |e, s| prequantized(s).expect(e)),
    ("recipes: tokens quantized beforehand, without backward", |e, s| inference(s).expect(e)),
    ("recipes: forms of small blocks", |e, s| forms(s).expect(e)),
];

/// The gradients are those of a plain layer with the weights, and of the tokens, that forward's
/// products read, rounded to the layer's type. The tokens and the weights themselves are gone.
fn dequantized(stream: &Stream) -> Result<()> {
    for dtype in [DType::Bf16, DType::F32] {
        // One recipe of each kind for the other type, which takes other kernels to the same places.
        let kinds = ["current", "block", "mxfp8", "nvfp4"];
        let wanted = |name: &str| dtype == DType::Bf16 || kinds.contains(&name);
        for (name, recipe) in recipes().into_iter().filter(|(name, _)| wanted(name)) {
            let mut model = Model::new(stream, dtype, 11)?;
            let own = model.recipe(stream, recipe)?;
            let own = own.with_backward(BackwardPrecision::Dequantized)?;
            let buffers = RecipeBuffers::new(stream, &own, ROWS)?;
            let with_buffers = own.clone().with_buffers(buffers);
            let plain = model.step(stream, BiasUse::Add, None)?;
            let got = model.step(stream, BiasUse::Add, Some(&own))?;
            let again = model.step(stream, BiasUse::Add, Some(&with_buffers))?;
            same_results(&format!("{name}, {dtype}: buffers"), &again, &got);
            let limit = if matches!(recipe, Recipe::Nvfp4(_)) { 0.2 } else { 0.05 };
            for index in [1, 2] {
                let error = distance(&got[index], &plain[index]);
                assert!((1e-3..limit).contains(&error), "{name}: {}: {error}", NAMES[index]);
            }
            same(format!("{name}: db"), &got[3], &plain[3]);

            let options = ForwardOptions { recipe: Some(&own), ..ForwardOptions::default() };
            let specs = model.layer.infer(ROWS, &options);
            let kept = specs.saved_quantized_x.expect("kept quantized");
            assert!(kept.has(Direction::Rowwise) && !kept.has(Direction::Columnwise));
            let (_, saved) = model.forward(stream, BiasUse::Add, Some(&own))?;
            let scale = if matches!(kept.format, Format::Fp8 { blocks: Blocks::Tensor, .. }) {
                GROUPS * 4
            } else {
                0
            };
            let want = kept.copy(Direction::Rowwise).byte_len() + scale;
            assert_eq!(saved.bytes().activations, want, "{name}, {dtype}");

            // What the products read.
            let (x, w) = restored_operands(stream, &model, &own)?;
            model.x = x;
            let layer = GroupedLinear::new(stream, model.config, w, model.layer.bias().cloned())?;
            model.layer = layer;
            let want = model.step(stream, BiasUse::Add, None)?;
            for index in [1, 2] {
                let what = format!("{name}, {dtype}: {}", NAMES[index]);
                match recipe {
                    // Codes have two factors, exact numbers one that was rounded from both.
                    Recipe::Nvfp4(_) => {
                        let error = distance(&got[index], &want[index]);
                        assert!(error < 1e-4, "{what}: {error}");
                    }
                    _ => same(what, &got[index], &want[index]),
                }
            }
        }
    }
    Ok(())
}

/// Products, and what restores their operands for backward, take the scales of squares one by one.
fn late_scales(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 15)?;
    let weights = BlockScaling::default();
    let tokens = BlockScaling { weight: Blocks::Vector, input: Blocks::Square, ..weights };
    for (name, recipe) in [("square weights", weights), ("square tokens", tokens)] {
        let own = model.recipe(stream, Recipe::Block(recipe))?;
        let own = own.with_backward(BackwardPrecision::Dequantized)?;
        let (x, w) = quantized_operands(stream, &model, &own)?;
        let step = |x: &QuantizedTensor, w: QuantizedTensor| -> Result<[Vec<f32>; 3]> {
            let own = own.clone().with_weights(w)?;
            let options = ForwardOptions { recipe: Some(&own), ..ForwardOptions::default() };
            let (y, saved) = model.layer.forward_prequantized(stream, x, &model.splits, options)?;
            let grads = model.layer.backward(stream, saved, &model.dy)?;
            let [y, dx] = [y, grads.dx].map(|tensor| tensor.to_f32(stream));
            Ok([y?[..LIVE * N].to_vec(), dx?[..LIVE * K].to_vec(), read(stream, &grads.dw)?])
        };
        let want = step(&x, w.clone())?;
        let got = match name {
            "square weights" => step(&x, with_late_scales(stream, &w)?)?,
            _ => step(&with_late_scales(stream, &x)?, w)?,
        };
        for ((got, want), what) in got.iter().zip(&want).zip(NAMES) {
            same(format!("{name}: {what}"), got, want);
        }
    }
    Ok(())
}

/// The same rowwise copy with scales that start one element late.
fn with_late_scales(stream: &Stream, own: &QuantizedTensor) -> Result<QuantizedTensor> {
    let QuantizedCopy { data, scale_inv, amax } =
        own.copy(Direction::Rowwise).expect("rowwise").clone();
    let arena = Tensor::zeros(stream, &[scale_inv.len() + 1], scale_inv.dtype())?;
    let mut late = arena.narrow(1, scale_inv.len())?.reshape(scale_inv.shape())?;
    late.copy_from(stream, &scale_inv)?;
    let copy = QuantizedCopy { data, scale_inv: late, amax };
    QuantizedTensor::from_copies(stream, own.spec(), Some(copy), None)
}

/// Tokens and weights, quantized by the recipe and restored in the layer's type.
fn restored_operands(
    stream: &Stream,
    model: &Model,
    own: &LayerRecipe,
) -> Result<(Tensor, GroupedTensor)> {
    let (tokens, weights) = quantized_operands(stream, model, own)?;
    let mut x = Tensor::zeros(stream, &[ROWS, K], model.config.dtype)?;
    let sink = DequantizeSink::Tokens(&mut x, &model.splits);
    dequantize(stream, &tokens, Direction::Rowwise, sink)?;
    let w = Tensor::zeros(stream, &[GROUPS, N, K], model.config.dtype)?;
    let mut w = GroupedTensor::packed(w)?;
    dequantize(stream, &weights, Direction::Rowwise, DequantizeSink::Weights(&mut w))?;
    Ok((x, w))
}

/// Tokens and weights, quantized by the recipe, rowwise and in codes.
fn quantized_operands(
    stream: &Stream,
    model: &Model,
    own: &LayerRecipe,
) -> Result<(QuantizedTensor, QuantizedTensor)> {
    let recipe = own.recipe();
    let delayed = own.delayed();
    let spec = |role, source| QuantizedSpec {
        groups: GROUPS,
        source,
        format: recipe.format(role),
        rowwise: Some(Form::Codes),
        columnwise: None,
    };
    let args = |role, delayed, source| QuantizeArgs {
        scale: recipe.scale_rule(),
        four_over_six: recipe.four_over_six(role).map(|choice| choice.error),
        delayed,
        ..QuantizeArgs::new(source)
    };
    let tokens = spec(Role::Input, SourceShape::Tokens { rows: ROWS, features: K });
    let mut tokens = QuantizedTensor::empty(stream, tokens)?;
    let source = QuantizeSource::Tokens(&model.x, &model.splits);
    quantize(stream, args(Role::Input, delayed.map(|own| &own.input), source), &mut tokens)?;
    let weights = spec(Role::Weight, SourceShape::Weights { rows: N, columns: K });
    let mut weights = QuantizedTensor::empty(stream, weights)?;
    let source = QuantizeSource::Weights(model.layer.weights());
    quantize(stream, args(Role::Weight, delayed.map(|own| &own.weight), source), &mut weights)?;
    Ok((tokens, weights))
}

/// The tokens as the recipe has them, in these copies.
fn tokens(
    stream: &Stream,
    model: &Model,
    own: &LayerRecipe,
    copies: [bool; 2],
) -> Result<QuantizedTensor> {
    let recipe = own.recipe();
    let format = recipe.format(Role::Input);
    let form = match format {
        Format::Fp8 { .. } => Form::Codes,
        _ => own.form(),
    };
    let source = SourceShape::Tokens { rows: ROWS, features: K };
    let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(form));
    let spec = QuantizedSpec { groups: GROUPS, source, format, rowwise, columnwise };
    let mut x = QuantizedTensor::empty(stream, spec)?;
    let args = QuantizeArgs {
        scale: recipe.scale_rule(),
        four_over_six: recipe.four_over_six(Role::Input).map(|choice| choice.error),
        ..QuantizeArgs::new(QuantizeSource::Tokens(&model.x, &model.splits))
    };
    quantize(stream, args, &mut x)?;
    Ok(x)
}

/// As if forward had quantized them.
fn prequantized(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 12)?;
    for (name, recipe) in recipes() {
        let own = model.recipe(stream, recipe)?;
        if own.delayed().is_some() {
            continue;
        }
        let want = model.step(stream, BiasUse::Add, Some(&own))?;
        let x = tokens(stream, &model, &own, [true, true])?;
        rewind(stream, Some(&own))?;
        let options = ForwardOptions { recipe: Some(&own), ..ForwardOptions::default() };
        let (y, saved) = model.layer.forward_prequantized(stream, &x, &model.splits, options)?;
        let grads = model.layer.backward(stream, saved, &model.dy)?;
        let live = |tensor: &Tensor, columns: usize| -> Result<Vec<f32>> {
            Ok(tensor.to_f32(stream)?[..LIVE * columns].to_vec())
        };
        same(format!("{name}: y"), &live(&y, N)?, &want[0]);
        same(format!("{name}: dx"), &live(&grads.dx, K)?, &want[1]);
        same(format!("{name}: dw"), &read(stream, &grads.dw)?, &want[2]);
    }
    Ok(())
}

/// Where no gradient needs the tokens, whatever backward would have read of them is no matter.
fn inference(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 14)?;
    let scaled_rows = Nvfp4Scaling { input: Scope::Row, ..Nvfp4Scaling::default() };
    let current = Recipe::Current(CurrentScaling::default());
    let rows = model.recipe(stream, Recipe::Nvfp4(scaled_rows))?;
    let current = model.recipe(stream, current)?;
    let original = current.clone().with_save(SavePolicy::Original)?;
    let high = current.with_backward(BackwardPrecision::High)?;
    let frozen = Needs { dx: true, dw: false, db: true, dscales: true };
    let nothing = Needs { dx: false, db: false, dscales: false, ..frozen };
    for (name, own) in [("scaled rows", rows), ("original", original), ("high", high)] {
        let x = tokens(stream, &model, &own, [true, false])?;
        let (want, _) = model.forward(stream, BiasUse::Add, Some(&own))?;
        for needs in [nothing, frozen] {
            let options = ForwardOptions { recipe: Some(&own), needs, ..ForwardOptions::default() };
            let (y, saved) =
                model.layer.forward_prequantized(stream, &x, &model.splits, options)?;
            let [got, want] = [&y, &want].map(|tensor| tensor.to_f32(stream));
            same(format!("{name}: y"), &got?[..LIVE * N], &want?[..LIVE * N]);
            assert_eq!(saved.bytes().activations, 0, "{name}, {needs:?}");
        }
    }
    Ok(())
}

/// Codes and exact numbers stand for the same values, so that layers differ by the order of sums at
/// most; a form that the device has no products for is refused.
fn forms(stream: &Stream) -> Result<()> {
    let target = stream.device().target();
    let capability = target.gpu.map(|gpu| gpu.compute_capability);
    let model = Model::new(stream, DType::Bf16, 13)?;
    for (name, recipe) in recipes() {
        let micro = matches!(recipe, Recipe::Mxfp8(_) | Recipe::Nvfp4(_));
        let own = model.recipe(stream, recipe)?;
        if !micro {
            let same_as_ever = own.clone().with_form(stream, Form::Exact)?;
            let want = model.step(stream, BiasUse::Add, Some(&own))?;
            // Delayed scales move on.
            if own.delayed().is_none() {
                let got = model.step(stream, BiasUse::Add, Some(&same_as_ever))?;
                same_results(name, &got, &want);
            }
            continue;
        }
        let default = if capability == Some((10, 0)) { Form::Swizzled } else { Form::Exact };
        assert_eq!(own.form(), default, "{name}");
        let exact = own.clone().with_form(stream, Form::Exact)?;
        let want = model.step(stream, BiasUse::Add, Some(&exact))?;
        for (form, runs) in [
            (Form::Codes, capability.is_none()),
            (Form::Swizzled, capability.is_none_or(|own| own == (10, 0))),
        ] {
            let codes = own.clone().with_form(stream, form);
            if !runs {
                let error = codes.expect_err("no such products");
                assert!(error.is_unsupported(), "{name}, {form:?}: {error}");
                continue;
            }
            let codes = codes?;
            let got = model.step(stream, BiasUse::Add, Some(&codes))?;
            for index in 0..3 {
                let error = distance(&got[index], &want[index]);
                // Some sums are rounded to the other neighbour in BF16.
                assert!(error < 1e-3, "{name}, {form:?}: {}: {error}", NAMES[index]);
            }
        }
    }
    Ok(())
}
