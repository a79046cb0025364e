//! What a layer refuses when it is made, and in forward and backward.

use grouped_linear::{
    BackwardOptions, BiasUse, Config, DType, Error, ForwardOptions, GroupedLinear, GroupedTensor,
    Result, Saved, Splits, Stream, Tensor, Wgrad,
};

use crate::engines::Test;
use crate::fitting::{GROUPS, K, N, ROWS, floats, packed};
use crate::{INVALID, Refusal, refused};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("what does not fit the layer is refused", |e, s| refused(LAYER, e, s))];

const LAYER: &[Refusal] = &[
    ("a layer without groups", "0 groups were asked for", INVALID, |s| {
        let config = Config { groups: 0, ..CONFIG };
        GroupedLinear::new(s, config, packed(s, &[0, N, K])?, None).map(drop)
    }),
    ("a layer without in_features", "in_features is 0", INVALID, |s| {
        let config = Config { in_features: 0, ..CONFIG };
        GroupedLinear::new(s, config, packed(s, &[GROUPS, N, 0])?, None).map(drop)
    }),
    ("a layer without out_features", "out_features is 0", INVALID, |s| {
        let config = Config { out_features: 0, ..CONFIG };
        GroupedLinear::new(s, config, packed(s, &[GROUPS, 0, K])?, None).map(drop)
    }),
    ("transposed weights for the layer", "weights: shape [8, 16]", INVALID, |s| {
        GroupedLinear::new(s, CONFIG, packed(s, &[GROUPS, K, N])?, None).map(drop)
    }),
    ("weights of another type than the layer", "weights: element type f16", INVALID, |s| {
        let weights = Tensor::zeros(s, &[GROUPS, N, K], DType::F16)?;
        GroupedLinear::new(s, CONFIG, GroupedTensor::packed(weights)?, None).map(drop)
    }),
    ("a bias of other length for the layer", "bias: shape [8]", INVALID, |s| {
        let bias = packed(s, &[GROUPS, K])?;
        GroupedLinear::new(s, CONFIG, packed(s, &[GROUPS, N, K])?, Some(bias)).map(drop)
    }),
    ("a bias of integers for the layer", "bias: element type i32", INVALID, |s| {
        let bias = GroupedTensor::packed(Tensor::zeros(s, &[GROUPS, N], DType::I32)?)?;
        GroupedLinear::new(s, CONFIG, packed(s, &[GROUPS, N, K])?, Some(bias)).map(drop)
    }),
    ("weights do not fit the layer", "weights: 2 groups", INVALID, |s| {
        let config = Config { groups: 3, ..CONFIG };
        GroupedLinear::new(s, config, packed(s, &[GROUPS, N, K])?, None).map(drop)
    }),
    ("a layer of 4097 groups", "4097 groups were asked for, 1 to 4096", INVALID, |s| {
        let config = Config { groups: 4097, ..CONFIG };
        GroupedLinear::new(s, config, packed(s, &[4097, N, K])?, None).map(drop)
    }),
    ("a layer of integers", "layer: element type i32", INVALID, |s| {
        let config = Config { dtype: DType::I32, ..CONFIG };
        GroupedLinear::new(s, config, packed(s, &[GROUPS, N, K])?, None).map(drop)
    }),
    ("x does not fit the layer", "x: shape [6, 9]", INVALID, |s| {
        let x = floats(s, &[ROWS, K + 1])?;
        layer(s)?.forward(s, &x, &Splits::host(&[1, 2])?, ForwardOptions::default()).map(drop)
    }),
    ("x of another type than the layer", "x: element type bf16", INVALID, |s| {
        let x = Tensor::zeros(s, &[ROWS, K], DType::Bf16)?;
        layer(s)?.forward(s, &x, &Splits::host(&[1, 2])?, ForwardOptions::default()).map(drop)
    }),
    ("more rows than the layer was given", "7 rows, but the token", Error::is_bad_splits, |s| {
        let x = floats(s, &[ROWS, K])?;
        layer(s)?.forward(s, &x, &Splits::host(&[4, 3])?, ForwardOptions::default()).map(drop)
    }),
    ("y of the layer has the width of x", "y: shape [6, 8]", INVALID, |s| {
        forward_into(s, floats(s, &[ROWS, K])?)
    }),
    ("y of the layer has too few rows", "y: shape [5, 16]", INVALID, |s| {
        forward_into(s, floats(s, &[ROWS - 1, N])?)
    }),
    ("y of the layer holds integers", "output: element type i64", INVALID, |s| {
        forward_into(s, Tensor::zeros(s, &[ROWS, N], DType::I64)?)
    }),
    ("y over a bias that is left for later", "overlap", INVALID, |s| {
        let mut y = floats(s, &[ROWS, N])?;
        let bias = y.reshape(&[ROWS * N])?.narrow(0, GROUPS * N)?.reshape(&[GROUPS, N])?;
        let bias = Some(GroupedTensor::packed(bias)?);
        let layer = GroupedLinear::new(s, CONFIG, packed(s, &[GROUPS, N, K])?, bias)?;
        let (x, splits) = (floats(s, &[ROWS, K])?, Splits::host(&[1, 2])?);
        let options = ForwardOptions { bias: BiasUse::Leave, ..ForwardOptions::default() };
        layer.forward_into(s, &x, &splits, options, &mut y).map(drop)
    }),
    ("splits do not fit the layer", "splits: 3 were given", INVALID, |s| {
        let x = floats(s, &[ROWS, K])?;
        layer(s)?.forward(s, &x, &Splits::host(&[1, 2, 0])?, ForwardOptions::default()).map(drop)
    }),
    ("dy does not fit forward", "dy: shape [5, 16]", INVALID, |s| {
        let layer = layer(s)?;
        let x = floats(s, &[ROWS, K])?;
        let options = ForwardOptions::default();
        let (_, saved) = layer.forward(s, &x, &Splits::host(&[1, 2])?, options)?;
        layer.backward(s, saved, &floats(s, &[ROWS - 1, N])?).map(drop)
    }),
    ("dy of another type than forward", "dy: element type f16", INVALID, |s| {
        let (layer, saved) = after_forward(s, None)?;
        layer.backward(s, saved, &Tensor::zeros(s, &[ROWS, N], DType::F16)?).map(drop)
    }),
    ("another layer saved, of other sizes", "comes from a layer of other sizes", INVALID, |s| {
        let (_, saved) = after_forward(s, None)?;
        let config = Config { groups: GROUPS + 1, ..CONFIG };
        let other = GroupedLinear::new(s, config, packed(s, &[GROUPS + 1, N, K])?, None)?;
        // The gradient of the tokens alone would fit, and be that of the other layer.
        let options = BackwardOptions { dw: Wgrad::Skip, ..BackwardOptions::default() };
        other.backward_with(s, saved, &floats(s, &[ROWS, N])?, options).map(drop)
    }),
    ("another layer saved, with a bias", "comes from a layer of other sizes", INVALID, |s| {
        let (_, saved) = after_forward(s, Some(packed(s, &[GROUPS, N])?))?;
        layer(s)?.backward(s, saved, &floats(s, &[ROWS, N])?).map(drop)
    }),
    ("captured, with splits that the host knows", "a graph", Error::is_unsupported, |s| {
        let (layer, x) = (layer(s)?, floats(s, &[ROWS, K])?);
        let (mut y, splits) = (floats(s, &[ROWS, N])?, Splits::host(&[1, 2])?);
        let options = ForwardOptions::default();
        // Once outside, so that everything else is ready to be recorded.
        drop(layer.forward_into(s, &x, &splits, options, &mut y)?);
        let record = |s: &Stream| layer.forward_into(s, &x, &splits, options, &mut y).map(drop);
        s.capture(record).map(drop)
    }),
];

const CONFIG: Config =
    Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::F32 };

fn forward_into(stream: &Stream, mut y: Tensor) -> Result<()> {
    let (x, splits) = (floats(stream, &[ROWS, K])?, Splits::host(&[1, 2])?);
    let options = ForwardOptions::default();
    layer(stream)?.forward_into(stream, &x, &splits, options, &mut y).map(drop)
}

fn after_forward(stream: &Stream, bias: Option<GroupedTensor>) -> Result<(GroupedLinear, Saved)> {
    let layer = GroupedLinear::new(stream, CONFIG, packed(stream, &[GROUPS, N, K])?, bias)?;
    let (x, splits) = (floats(stream, &[ROWS, K])?, Splits::host(&[1, 2])?);
    let (_, saved) = layer.forward(stream, &x, &splits, ForwardOptions::default())?;
    Ok((layer, saved))
}

fn layer(stream: &Stream) -> Result<GroupedLinear> {
    GroupedLinear::new(stream, CONFIG, packed(stream, &[GROUPS, N, K])?, None)
}
