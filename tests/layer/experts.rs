//! Weights that are quantized already, a tensor for each expert: the same bits as in one tensor.

use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::{Format, Recipe, Role};
use grouped_linear::{
    BackwardPrecision, BiasUse, DType, Direction, Form, GroupedTensor, QuantizedCopy,
    QuantizedSpec, QuantizedTensor, Result, SourceShape, Stream, Tensor,
};

use crate::engines::Test;
use crate::recipes::{GROUPS, K, Model, N, recipes, same_results};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("experts: quantized apart, in a layer", |e, s| in_a_layer(s).expect(e)),
    ("experts: quantized apart, to the bit", |e, s| gathered(s).expect(e)),
    ("experts: copies that are held apart stay apart", |e, s| held_apart(s).expect(e)),
    #[cfg(feature = "safetensors")]
    ("experts: quantized weights in files", |e, s| in_files(s).expect(e)),
];

/// What products of the format read.
fn form(format: Format) -> Form {
    match format {
        Format::Fp8 { .. } => Form::Codes,
        _ => Form::Exact,
    }
}

/// Memory for the weights of `groups` experts, all zeros: what pads scales is not always written.
fn blank(
    stream: &Stream,
    groups: usize,
    format: Format,
    copies: [Option<Form>; 2],
) -> Result<QuantizedTensor> {
    let [rowwise, columnwise] = copies;
    let source = SourceShape::Weights { rows: N, columns: K };
    let spec = QuantizedSpec { groups, source, format, rowwise, columnwise };
    let blank = QuantizedTensor::empty(stream, spec)?;
    for copy in blank.directions().filter_map(|own| blank.copy(own)) {
        for part in [Some(&copy.data), Some(&copy.scale_inv), copy.amax.as_ref()] {
            part.map_or(Ok(()), |part| part.clone().fill_zero(stream))?;
        }
    }
    Ok(blank)
}

/// Quantizes weights as the recipe does, but never with delayed scales.
fn fill(
    stream: &Stream,
    recipe: &Recipe,
    weights: &GroupedTensor,
    to: &mut QuantizedTensor,
) -> Result<()> {
    let args = QuantizeArgs::new(QuantizeSource::Weights(weights));
    let four_over_six = recipe.four_over_six(Role::Weight).map(|choice| choice.error);
    quantize(stream, QuantizeArgs { scale: recipe.scale_rule(), four_over_six, ..args }, to)
}

/// The weights of one expert, packed.
fn alone(weights: &GroupedTensor, expert: usize) -> Result<GroupedTensor> {
    GroupedTensor::packed(weights.as_packed().expect("packed").narrow(expert, 1)?)
}

/// Each expert quantized into memory of its own.
fn apart(
    stream: &Stream,
    recipe: &Recipe,
    weights: &GroupedTensor,
    copies: [Option<Form>; 2],
) -> Result<Vec<QuantizedTensor>> {
    let each = (0..GROUPS).map(|expert| {
        let mut own = blank(stream, 1, recipe.format(Role::Weight), copies)?;
        fill(stream, recipe, &alone(weights, expert)?, &mut own)?;
        Ok(own)
    });
    each.collect()
}

/// The bytes of every part.
pub(crate) fn bits(stream: &Stream, tensor: &QuantizedTensor) -> Result<Vec<Vec<u32>>> {
    let copies = tensor.directions().filter_map(|direction| tensor.copy(direction));
    let parts = copies.flat_map(|QuantizedCopy { data, scale_inv, amax }| {
        [Some(data), Some(scale_inv), amax.as_ref()]
    });
    let read = |part: &Tensor| {
        Ok(match part.dtype() {
            DType::U8 => part.to_vec::<u8>(stream)?.into_iter().map(u32::from).collect(),
            _ => part.to_f32(stream)?.into_iter().map(f32::to_bits).collect(),
        })
    };
    parts.flatten().chain(tensor.scale()).map(read).collect()
}

fn in_a_layer(stream: &Stream) -> Result<()> {
    for dtype in [DType::Bf16, DType::F32] {
        // One recipe of each kind for the other type, which takes other kernels to the same places.
        let kinds = ["current", "block", "mxfp8", "nvfp4"];
        let wanted = |name: &str| dtype == DType::Bf16 || kinds.contains(&name);
        for (name, recipe) in recipes().into_iter().filter(|(name, _)| wanted(name)) {
            let mut model = Model::new(stream, dtype, 20)?;
            let format = recipe.format(Role::Weight);
            let (own, copies) = (model.recipe(stream, recipe)?, [Some(form(format)); 2]);
            let weights = model.layer.weights().clone();
            let experts = apart(stream, &recipe, &weights, copies)?;
            let mut packed = blank(stream, GROUPS, format, copies)?;
            fill(stream, &recipe, &weights, &mut packed)?;
            weights.as_packed().expect("packed").clone().fill_zero(stream)?;

            let want = own.clone().with_weights(packed)?;
            let want = model.step(stream, BiasUse::Add, Some(&want))?;
            assert!(want[0].iter().any(|&y| y != 0.0) && want[1].iter().any(|&dx| dx != 0.0));
            let discrete = own.clone().with_discrete_weights(stream, &experts)?;
            // They were copied.
            for part in experts.iter().flat_map(|own| own.copy(Direction::Rowwise)) {
                part.data.clone().fill_zero(stream)?;
            }
            drop(experts);
            let got = model.step(stream, BiasUse::Add, Some(&discrete))?;
            same_results(&format!("{name}, {dtype}"), &got, &want);

            // One copy is enough where backward restores it.
            if dtype != DType::Bf16 || !kinds.contains(&name) {
                continue;
            }
            model = Model::new(stream, dtype, 20)?;
            let rowwise = [copies[0], None];
            let experts = apart(stream, &recipe, model.layer.weights(), rowwise)?;
            let own = own.with_backward(BackwardPrecision::Dequantized)?;
            let mut packed = blank(stream, GROUPS, format, rowwise)?;
            fill(stream, &recipe, model.layer.weights(), &mut packed)?;
            let want = own.clone().with_weights(packed)?;
            let want = model.step(stream, BiasUse::Add, Some(&want))?;
            let discrete = own.with_discrete_weights(stream, &experts)?;
            let got = model.step(stream, BiasUse::Add, Some(&discrete))?;
            same_results(&format!("{name}, {dtype}, restored"), &got, &want);
        }
    }
    Ok(())
}

/// Every form; gathered, refilled, and quantized where the packed weights lie.
fn gathered(stream: &Stream) -> Result<()> {
    let (first, second) =
        (Model::new(stream, DType::Bf16, 21)?, Model::new(stream, DType::F32, 22)?);
    for (name, recipe) in recipes() {
        let format = recipe.format(Role::Weight);
        let micro = form(format) == Form::Exact;
        let forms: &[Form] = match micro {
            true => &[Form::Codes, Form::Swizzled, Form::Exact],
            false => &[Form::Codes],
        };
        let both = forms.iter().map(|&form| [Some(form); 2]);
        let one = [[Some(Form::Codes), None], [None, Some(Form::Codes)]];
        let mixed = micro.then_some([Some(Form::Exact), Some(Form::Codes)]);
        for copies in both.chain(one).chain(mixed) {
            let what = format!("{name}, {copies:?}");
            let whole = |model: &Model| -> Result<_> {
                let mut packed = blank(stream, GROUPS, format, copies)?;
                fill(stream, &recipe, model.layer.weights(), &mut packed)?;
                bits(stream, &packed)
            };
            let (want, after) = (whole(&first)?, whole(&second)?);
            assert!(want != after, "{what}: other weights, the same bits");

            let experts = apart(stream, &recipe, first.layer.weights(), copies)?;
            let mut packed = QuantizedTensor::gather(stream, &experts)?;
            assert_eq!(packed.spec().groups, GROUPS, "{what}");
            assert!(bits(stream, &packed)? == want, "{what}: gathered");
            let each: usize = experts.iter().map(QuantizedTensor::byte_len).sum();
            assert_eq!(packed.byte_len(), each, "{what}: what copies share is copied once");

            let experts = apart(stream, &recipe, second.layer.weights(), copies)?;
            packed.gather_from(stream, &experts)?;
            assert!(bits(stream, &packed)? == after, "{what}: gathered again");

            for expert in 0..GROUPS {
                let (weights, mut group) = (first.layer.weights(), packed.group(expert)?);
                fill(stream, &recipe, &alone(weights, expert)?, &mut group)?;
            }
            assert!(bits(stream, &packed)? == want, "{what}: quantized in place");
            // Views are experts like others.
            let views: Vec<_> = (0..GROUPS).map(|g| packed.group(g)).collect::<Result<_>>()?;
            let again = QuantizedTensor::gather(stream, &views)?;
            assert!(bits(stream, &again)? == want, "{what}: gathered from views");
        }
    }
    Ok(())
}

/// Memory from outside may have a scale for each copy, and these may differ.
fn held_apart(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 23)?;
    let (_, recipe) = recipes()[0];
    let format = recipe.format(Role::Weight);
    let shared = apart(stream, &recipe, model.layer.weights(), [Some(Form::Codes); 2])?;
    let split = |own: &QuantizedTensor| -> Result<_> {
        let rowwise = own.copy(Direction::Rowwise).cloned();
        let mut columnwise = own.copy(Direction::Columnwise).expect("both").clone();
        columnwise.scale_inv = Tensor::from_f32(stream, &[1], DType::F32, &[3.0])?;
        QuantizedTensor::from_copies(stream, own.spec(), rowwise, Some(columnwise))
    };
    let experts = shared.iter().map(split).collect::<Result<Vec<_>>>()?;
    let gathered = QuantizedTensor::gather(stream, &experts)?;
    let scales = |direction| {
        gathered.copy(direction).expect("both").scale_inv.to_f32(stream).expect("scales")
    };
    assert_eq!(scales(Direction::Columnwise), [3.0; GROUPS]);
    let want = QuantizedTensor::gather(stream, &shared)?;
    let want = want.copy(Direction::Rowwise).expect("both").scale_inv.to_f32(stream)?;
    assert_eq!(scales(Direction::Rowwise), want);
    // What the copies of the destination hold once cannot be two things.
    let mut destination = blank(stream, GROUPS, format, [Some(Form::Codes); 2])?;
    let error = destination.gather_from(stream, &experts).expect_err("two scales into one");
    assert!(error.is_invalid_argument() && error.to_string().contains("scale_inv"), "{error}");
    Ok(())
}

/// A layer that has nothing but a file of its quantized weights, or one of each expert.
#[cfg(feature = "safetensors")]
fn in_files(stream: &Stream) -> Result<()> {
    use grouped_linear::checkpoint::{
        SavedTensor, load_quantized, load_quantized_into, metadata, open, safetensors,
        save_quantized,
    };
    for (name, recipe) in recipes() {
        let model = Model::new(stream, DType::Bf16, 24)?;
        let format = recipe.format(Role::Weight);
        let copies = [Some(form(format)); 2];
        let mut packed = blank(stream, GROUPS, format, copies)?;
        fill(stream, &recipe, model.layer.weights(), &mut packed)?;
        let (mut tensors, mut entries) = (Vec::<(String, SavedTensor)>::new(), Vec::new());
        let prefixes = ["all.", "experts.0.", "experts.1.", "experts.2."];
        for (index, prefix) in prefixes.into_iter().enumerate() {
            let weights = match index {
                0 => packed.clone(),
                _ => packed.group(index - 1)?,
            };
            let saved = save_quantized(stream, &weights, prefix)?;
            tensors.extend(saved.tensors);
            entries.push(saved.metadata);
        }
        let file = safetensors::serialize(tensors, Some(entries.into_iter().collect()));
        let file = file.expect("a file");
        let want = bits(stream, &packed)?;
        let own = model.recipe(stream, recipe)?;
        let results = own.clone().with_weights(packed)?;
        let results = model.step(stream, BiasUse::Add, Some(&results))?;
        model.layer.weights().as_packed().expect("packed").clone().fill_zero(stream)?;

        let (tensors, metadata) = (open(&file)?, metadata(&file)?);
        let whole = load_quantized(stream, &tensors, &metadata, prefixes[0])?;
        assert!(bits(stream, &whole)? == want, "{name}: loaded");
        let mut experts = Vec::new();
        let one_by_one = blank(stream, GROUPS, format, copies)?;
        for (expert, prefix) in prefixes[1..].iter().enumerate() {
            experts.push(load_quantized(stream, &tensors, &metadata, prefix)?);
            let mut group = one_by_one.group(expert)?;
            load_quantized_into(stream, &tensors, &metadata, prefix, &mut group)?;
        }
        assert!(bits(stream, &one_by_one)? == want, "{name}: loaded one by one");
        for weights in [whole, one_by_one, QuantizedTensor::gather(stream, &experts)?] {
            let loaded = own.clone().with_weights(weights)?;
            let got = model.step(stream, BiasUse::Add, Some(&loaded))?;
            same_results(name, &got, &results);
        }
    }
    Ok(())
}
