//! Every operand, one after the other, on another device than the stream's.

use grouped_linear::functional::{
    DbiasArgs, DgradArgs, FpropArgs, GemmOptions, QuantizeArgs, QuantizeSource, dbias, dgrad,
    dscales, fprop, quantize, restore_exact, swizzle, wgrad,
};
use grouped_linear::recipe::{Format, Nvfp4Format, Nvfp4Scaling, Recipe};
use grouped_linear::{
    BackwardOptions, Config, DType, Factor, Form, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, LayerRecipe, QuantizedSpec, QuantizedTensor, RandomState, Result, RowSink,
    SourceShape, Splits, Stream, Tensor,
};

use crate::engines::Test;
use crate::fitting::{Fitting, GROUPS, K, N, ROWS, floats, packed};
use crate::{INVALID, other_device};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("operands on another device are refused by name", operands_are_refused),
    ("a layer on another device is refused by name", layers_are_refused),
    ("quantized tensors on another device are refused by name", |engine, stream| {
        strangers_are_refused(QUANTIZED, engine, stream);
    }),
];

/// The name that the message must give, and an attempt with that operand on the second stream's
/// device.
type Stranger = (&'static str, fn(&Stream, &Stream) -> Result<()>);

const OPERANDS: &[Stranger] = &[
    ("x", |s, other| {
        let fitting = Fitting { x: floats(other, &[ROWS, K])?, ..Fitting::new(s)? };
        fprop(s, &fitting.fprop(), &mut floats(s, &[ROWS, N])?)
    }),
    ("weights", |s, other| {
        let fitting = Fitting { weights: packed(other, &[GROUPS, N, K])?, ..Fitting::new(s)? };
        fprop(s, &fitting.fprop(), &mut floats(s, &[ROWS, N])?)
    }),
    ("weights", |s, other| {
        let each = [floats(other, &[N, K])?, floats(other, &[N, K])?];
        let weights = GroupedTensor::discrete(other, each.to_vec())?;
        let fitting = Fitting { weights, ..Fitting::new(s)? };
        dgrad(s, &fitting.dgrad(), &mut floats(s, &[ROWS, K])?)
    }),
    ("discrete tensor", |s, other| {
        GroupedTensor::discrete(s, vec![floats(s, &[N, K])?, floats(other, &[N, K])?]).map(drop)
    }),
    ("bias", |s, other| {
        let fitting = Fitting { bias: packed(other, &[GROUPS, N])?, ..Fitting::new(s)? };
        fprop(s, &fitting.fprop(), &mut floats(s, &[ROWS, N])?)
    }),
    ("bias_row_scales", |s, other| {
        let (fitting, scales) = (Fitting::new(s)?, floats(other, &[ROWS])?);
        let args = FpropArgs { bias_row_scales: Some(&scales), ..fitting.fprop() };
        fprop(s, &args, &mut floats(s, &[ROWS, N])?)
    }),
    ("splits", |s, other| {
        let splits = Splits::device(Tensor::from_slice(other, &[GROUPS], &[1i64, 2])?)?;
        let fitting = Fitting { splits, ..Fitting::new(s)? };
        fprop(s, &fitting.fprop(), &mut floats(s, &[ROWS, N])?)
    }),
    ("alpha", |s, other| {
        let (fitting, alpha) = (Fitting::new(s)?, floats(other, &[GROUPS])?);
        let options = GemmOptions { alpha: Factor::PerGroup(&alpha), ..GemmOptions::default() };
        let args = FpropArgs { options, ..fitting.fprop() };
        fprop(s, &args, &mut floats(s, &[ROWS, N])?)
    }),
    ("beta", |s, other| {
        let (fitting, beta) = (Fitting::new(s)?, floats(other, &[GROUPS])?);
        let options = GemmOptions { beta: Factor::PerGroup(&beta), ..GemmOptions::default() };
        let args = DgradArgs { options, ..fitting.dgrad() };
        dgrad(s, &args, &mut floats(s, &[ROWS, K])?)
    }),
    ("y", |s, other| fprop(s, &Fitting::new(s)?.fprop(), &mut floats(other, &[ROWS, N])?)),
    ("dy", |s, other| {
        let fitting = Fitting { dy: floats(other, &[ROWS, N])?, ..Fitting::new(s)? };
        wgrad(s, &fitting.wgrad(), &mut packed(s, &[GROUPS, N, K])?)
    }),
    ("dx", |s, other| dgrad(s, &Fitting::new(s)?.dgrad(), &mut floats(other, &[ROWS, K])?)),
    ("dw", |s, other| wgrad(s, &Fitting::new(s)?.wgrad(), &mut packed(other, &[GROUPS, N, K])?)),
    ("db", |s, other| dbias(s, &Fitting::new(s)?.dbias(), &mut packed(other, &[GROUPS, N])?)),
    ("row_scales", |s, other| {
        let (fitting, scales) = (Fitting::new(s)?, floats(other, &[ROWS])?);
        let args = DbiasArgs { row_scales: Some(&scales), ..fitting.dbias() };
        dbias(s, &args, &mut packed(s, &[GROUPS, N])?)
    }),
    ("dscales", |s, other| dscales(s, &Fitting::new(s)?.dscales(), &mut floats(other, &[ROWS])?)),
    ("source", |s, other| floats(s, &[ROWS])?.copy_from(s, &floats(other, &[ROWS])?)),
    ("tensor", |s, other| floats(other, &[ROWS])?.to_f32(s).map(drop)),
    ("tensor", |s, other| floats(other, &[ROWS])?.write(s, &[0.0f32; ROWS])),
];

const LAYERS: &[Stranger] = &[
    ("weights", |s, other| layer(s, other, s).map(drop)),
    ("bias", |s, other| layer(s, s, other).map(drop)),
    // The layer lies elsewhere as a whole, and so does its caller's x.
    ("x", |s, other| {
        let (x, splits) = (floats(other, &[ROWS, K])?, Splits::host(&[1, 2])?);
        layer(other, other, other)?.forward(s, &x, &splits, ForwardOptions::default()).map(drop)
    }),
    ("weights", |s, other| {
        let (x, splits) = (floats(s, &[ROWS, K])?, Splits::host(&[1, 2])?);
        layer(other, other, other)?.forward(s, &x, &splits, ForwardOptions::default()).map(drop)
    }),
    ("y", |s, other| {
        let (x, splits, mut y) = forward_operands(s, other)?;
        let options = ForwardOptions::default();
        layer(s, s, s)?.forward_into(s, &x, &splits, options, &mut y).map(drop)
    }),
    ("dx", |s, other| {
        let mut dx = floats(other, &[ROWS, K])?;
        backward(s, BackwardOptions { dx: RowSink::Into(&mut dx), ..Default::default() })
    }),
    ("dw", |s, other| {
        let mut dw = packed(other, &[GROUPS, N, K])?;
        let dw = GradSink::Accumulate(&mut dw).into();
        backward(s, BackwardOptions { dw, ..Default::default() })
    }),
    ("db", |s, other| {
        let mut db = packed(other, &[GROUPS, N])?;
        let db = Some(GradSink::Overwrite(&mut db));
        backward(s, BackwardOptions { db, ..Default::default() })
    }),
];

const QUANTIZED: &[Stranger] = &[
    ("random state", |s, other| quantize_tokens(s, &nvfp4(s, Form::Codes)?, s, other)),
    ("random state", |s, other| {
        let config = Config {
            groups: GROUPS,
            in_features: FEATURES,
            out_features: 2 * N,
            dtype: DType::Bf16,
        };
        let recipe = LayerRecipe::new(s, config, Recipe::Nvfp4(Nvfp4Scaling::default()))?;
        recipe.with_random(RandomState::new(other, 1)?).map(drop)
    }),
    ("source", |s, other| quantize_tokens(s, &nvfp4(s, Form::Codes)?, other, s)),
    ("destination", |s, other| quantize_tokens(s, &nvfp4(other, Form::Codes)?, s, s)),
    ("source", |s, other| {
        let mut exact = nvfp4(s, Form::Exact)?;
        restore_exact(s, &nvfp4(other, Form::Codes)?, Some(&splits()?), &mut exact)
    }),
    ("destination", |s, other| {
        let mut exact = nvfp4(other, Form::Exact)?;
        restore_exact(s, &nvfp4(s, Form::Codes)?, Some(&splits()?), &mut exact)
    }),
    ("source", |s, other| {
        let mut swizzled = nvfp4(s, Form::Swizzled)?;
        swizzle(s, &nvfp4(other, Form::Codes)?, Some(&splits()?), &mut swizzled)
    }),
    ("destination", |s, other| {
        let mut swizzled = nvfp4(other, Form::Swizzled)?;
        swizzle(s, &nvfp4(s, Form::Codes)?, Some(&splits()?), &mut swizzled)
    }),
    ("discrete quantized weights", |s, other| gather(s, other, s)),
    ("discrete quantized weights", |s, other| {
        QuantizedTensor::gather(s, &[weights(other, 1)?]).map(drop)
    }),
    ("destination", |s, other| gather(s, s, other)),
];

/// A gathering of experts of which the last lies elsewhere, or into memory that does.
fn gather(stream: &Stream, last: &Stream, destination: &Stream) -> Result<()> {
    let each = [stream, last].map(|own| weights(own, 1));
    let experts = each.into_iter().collect::<Result<Vec<_>>>()?;
    weights(destination, 2)?.gather_from(stream, &experts)
}

/// Weights, their contents unspecified.
fn weights(stream: &Stream, groups: usize) -> Result<QuantizedTensor> {
    let source = SourceShape::Weights { rows: FEATURES, columns: FEATURES };
    QuantizedTensor::empty(
        stream,
        QuantizedSpec { groups, source, ..nvfp4(stream, Form::Codes)?.spec() },
    )
}

/// Features that NVFP4 can have.
const FEATURES: usize = 2 * K;

fn splits() -> Result<Splits> {
    Splits::host(&[2, 3])
}

/// Tokens, their contents unspecified.
fn nvfp4(stream: &Stream, form: Form) -> Result<QuantizedTensor> {
    let spec = QuantizedSpec {
        groups: GROUPS,
        source: SourceShape::Tokens { rows: ROWS, features: FEATURES },
        format: Format::Nvfp4(Nvfp4Format::LINES),
        rowwise: Some(form),
        columnwise: Some(form),
    };
    QuantizedTensor::empty(stream, spec)
}

fn quantize_tokens(
    stream: &Stream,
    to: &QuantizedTensor,
    source: &Stream,
    random: &Stream,
) -> Result<()> {
    let (x, splits) = (floats(source, &[ROWS, FEATURES])?, splits()?);
    let random = RandomState::new(random, 1)?;
    let args = QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits));
    quantize(stream, QuantizeArgs { random: Some(&random), ..args }, &mut to.clone())
}

fn layer(stream: &Stream, weights: &Stream, bias: &Stream) -> Result<GroupedLinear> {
    let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::F32 };
    let bias = packed(bias, &[GROUPS, N])?;
    GroupedLinear::new(stream, config, packed(weights, &[GROUPS, N, K])?, Some(bias))
}

fn forward_operands(stream: &Stream, output: &Stream) -> Result<(Tensor, Splits, Tensor)> {
    Ok((floats(stream, &[ROWS, K])?, Splits::host(&[1, 2])?, floats(output, &[ROWS, N])?))
}

fn backward(stream: &Stream, options: BackwardOptions<'_>) -> Result<()> {
    let (x, splits, dy) = forward_operands(stream, stream)?;
    let layer = layer(stream, stream, stream)?;
    let (_, saved) = layer.forward(stream, &x, &splits, ForwardOptions::default())?;
    layer.backward_with(stream, saved, &dy, options).map(drop)
}

fn operands_are_refused(engine: &str, stream: &Stream) {
    strangers_are_refused(OPERANDS, engine, stream);
}

fn layers_are_refused(engine: &str, stream: &Stream) {
    strangers_are_refused(LAYERS, engine, stream);
}

fn strangers_are_refused(table: &[Stranger], engine: &str, stream: &Stream) {
    let Some(other) = other_device::stream(stream) else { return };
    for (number, (name, attempt)) in table.iter().enumerate() {
        let what = format!("{engine}: {name}, row {number}");
        let error = attempt(stream, &other).expect_err(&what);
        assert!(INVALID(&error), "{what}: wrong kind: {error:?}");
        let start = format!("{name} lies on ");
        assert!(error.to_string().starts_with(&start), "{what}: {error}");
        stream.synchronize().expect("a refused call leaves nothing behind");
    }
}
