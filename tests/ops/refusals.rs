//! Arguments that a pipeline cannot take: refused before anything is written.

use grouped_linear::ops::{
    BackwardArguments, ForwardArguments, Selection, Sequential, Sink, names,
};
use grouped_linear::{
    Config, DType, Error, ForwardOptions, GroupedLinear, GroupedTensor, Result, Splits, Stream,
    Tensor,
};

use crate::engines::Test;
use crate::pipeline::Mlp;
use crate::{GROUPS, ROWS, layer, splits, tensor};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("arguments that forward cannot take are refused", |e, s| forward(s).expect(e)),
    ("operations that do not fit each other are refused", |e, s| operations(s).expect(e)),
    ("arguments that backward cannot take are refused", |e, s| backward(s).expect(e)),
    ("a refused backward writes nothing", |e, s| nothing_is_written(s).expect(e)),
    ("a gradient over another operation's memory is refused", |e, s| foreign_memory(s).expect(e)),
];

const SENTINEL: f32 = 7.0;

fn sevens(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    Tensor::from_slice(stream, shape, &vec![SENTINEL; shape.iter().product()])
}

/// What forward is given that it cannot take, with the message.
type Forward =
    (&'static str, for<'a> fn(&Mlp, ForwardArguments<'a>, &'a mut Spare) -> ForwardArguments<'a>);

/// Tensors to go wrong with.
struct Spare {
    rows: Tensor,  // [rows]
    x: Tensor,     // the pipeline's
    wide: Tensor,  // [rows, 16]
    whole: Tensor, // the first buffer's memory in the shape of the output
}

const FORWARD: &[Forward] = &[
    ("operation 2 (grouped_linear): there is no input bias_row_scales", |mlp, a, spare| {
        a.input(mlp.ids[2], names::BIAS_ROW_SCALES, spare.rows.clone())
    }),
    ("operation 1 (relu): there is no input splits; there are x", |mlp, a, _| {
        a.splits(mlp.ids[1], &splits())
    }),
    ("operation 0 (grouped_linear): there is no input slope", |mlp, a, _| {
        a.input(mlp.ids[0], "slope", "steep")
    }),
    (
        "operation 0 (grouped_linear): x flows through the pipeline and is no argument; leave",
        |mlp, a, spare| a.input(mlp.ids[0], names::X, spare.x.clone()),
    ),
    (
        "operation 0 (grouped_linear): splits must be splits, something else was given; check",
        |mlp, a, spare| a.input(mlp.ids[0], names::SPLITS, spare.x.clone()),
    ),
    (
        "operation 0 (grouped_linear): splits is needed: give splits as the input of this name",
        |mlp, _, _| ForwardArguments::new().splits(mlp.ids[2], &splits()),
    ),
    ("operation 2 (grouped_linear): splits: 2 were given", |mlp, a, _| {
        a.splits(mlp.ids[2], &Splits::host(&[2, 3]).unwrap())
    }),
    ("operation 2 (grouped_linear): splits: they add up to 6 rows", |mlp, a, _| {
        a.splits(mlp.ids[2], &Splits::host(&[2, 0, 4]).unwrap())
    }),
    ("operation 0 (grouped_linear): bias_row_scales: shape [5, 16]", |mlp, a, spare| {
        a.input(mlp.ids[0], names::BIAS_ROW_SCALES, spare.wide.clone())
    }),
    ("a bias that forward leaves to the caller", |mlp, a, spare| {
        a.input(mlp.ids[0], names::BIAS_ROW_SCALES, spare.rows.clone()).input(
            mlp.ids[0],
            names::BIAS_USE,
            "leave",
        )
    }),
    ("kernel: choose one of auto, simt", |mlp, a, _| a.input(mlp.ids[2], names::KERNEL, "fastest")),
    ("there is no gradient bias; there are x, weights", |mlp, a, _| {
        a.needs(mlp.ids[2], Selection::Only(vec![names::BIAS]))
    }),
    ("operation 2 (grouped_linear): output: shape [5, 16]", |mlp, a, spare| {
        a.output(mlp.ids[2], &mut spare.wide)
    }),
    ("a buffer for an output overlaps another", |mlp, a, spare| {
        let Spare { wide, whole, .. } = spare;
        a.output(mlp.ids[1], wide).output(mlp.ids[2], whole)
    }),
    ("an operation of another pipeline", |_, a, _| {
        let id = Sequential::new().push(crate::relu::Relu);
        a.needs(id, Selection::none())
    }),
];

fn forward(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let arena = sevens(stream, &[ROWS * 24])?;
    for (message, spoil) in FORWARD {
        let mut h = sevens(stream, &[ROWS, 16])?;
        let mut spare = Spare {
            rows: sevens(stream, &[ROWS])?,
            x: Mlp::x(stream)?,
            wide: arena.narrow(0, ROWS * 16)?.reshape(&[ROWS, 16])?,
            whole: arena.reshape(&[ROWS, 24])?,
        };
        let x = spare.x.clone();
        let arguments = mlp.arguments().output(mlp.ids[0], &mut h);
        let outcome = mlp.pipeline.forward(stream, x, spoil(&mlp, arguments, &mut spare));
        let error = outcome.err().unwrap_or_else(|| panic!("not refused: {message}"));
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(error.is_invalid_argument(), "{message}: {error:?}");
        assert_eq!(error.is_bad_splits(), message.contains("add up"), "{message}");
        for tensor in [&h, &arena] {
            let values = tensor.to_f32(stream)?;
            assert!(values.iter().all(|&value| value == SENTINEL), "{message}: was written");
        }
    }
    // A buffer for the output that is the input of the first operation.
    let mut pipeline = Sequential::new();
    let [first, last] = [(); 2].map(|()| pipeline.push(layer(stream, (8, 8), false, 1).unwrap()));
    let mut x = Mlp::x(stream)?;
    let (given, before) = (x.clone(), x.to_f32(stream)?);
    let arguments = ForwardArguments::new().splits(first, &splits()).splits(last, &splits());
    let error = pipeline.forward(stream, given, arguments.output(last, &mut x)).unwrap_err();
    assert!(error.to_string().contains("overlaps"), "{error}");
    assert_eq!(x.to_f32(stream)?, before);
    Ok(())
}

fn operations(stream: &Stream) -> Result<()> {
    let mut pipeline = Sequential::new();
    let error = pipeline.forward(stream, Mlp::x(stream)?, ForwardArguments::new()).unwrap_err();
    assert!(error.to_string().contains("no operations"), "{error}");

    let first = pipeline.push(layer(stream, (8, 16), false, 1)?);
    let second = pipeline.push(layer(stream, (24, 8), false, 1)?);
    let arguments = ForwardArguments::new().splits(first, &splits()).splits(second, &splits());
    let error = pipeline.forward(stream, Mlp::x(stream)?, arguments).unwrap_err();
    let message = "operation 1 (grouped_linear): x: shape [5, 16] was given, [rows, 24] is needed";
    assert_eq!(error.to_string(), message);
    assert_eq!(error.given_shape(), Some(&[5, 16][..]));
    assert_eq!(pipeline.plan_count(), 0, "what is refused is not kept");
    Ok(())
}

/// A sink that backward cannot fill, with the message.
type Backward = (
    &'static str,
    for<'a> fn(&Mlp, BackwardArguments<'a>, &'a mut Buffers) -> BackwardArguments<'a>,
);

struct Buffers {
    dx: Tensor, // of the first layer
    active: Tensor,
    half: Tensor,
    transposed: GroupedTensor,
    weights: GroupedTensor,
    bias: GroupedTensor,
}

const BACKWARD: &[Backward] = &[
    ("operation 0 (grouped_linear): dw: shape [8, 16]", |mlp, a, b| {
        a.sink(mlp.ids[0], names::WEIGHTS, Sink::Overwrite(&mut b.transposed))
    }),
    ("operation 2 (grouped_linear): there is no gradient bias", |mlp, a, b| {
        a.sink(mlp.ids[2], names::BIAS, Sink::Overwrite(&mut b.bias))
    }),
    ("forward was told that nobody wants it; leave the sink out, or ask", |mlp, a, b| {
        a.sink(mlp.ids[0], names::BIAS_ROW_SCALES, Sink::Into(&mut b.dx))
    }),
    (
        "operation 2 (grouped_linear): the gradient of x is needed now, by the operation before; give",
        |mlp, a, _| a.sink(mlp.ids[2], names::X, Sink::Skip),
    ),
    ("operation 2 (grouped_linear): x: shape [5, 8]", |mlp, a, b| {
        a.sink(mlp.ids[2], names::X, Sink::Into(&mut b.dx))
    }),
    ("operation 2 (grouped_linear): x: element type bf16", |mlp, a, b| {
        a.sink(mlp.ids[2], names::X, Sink::Into(&mut b.half))
    }),
    ("the gradient of x has a row per token", |mlp, a, _| {
        a.sink(mlp.ids[0], names::X, Sink::Later)
    }),
    ("the gradient of bias has a part per group", |mlp, a, _| {
        a.sink(mlp.ids[0], names::BIAS, Sink::Later)
    }),
    ("operation 1 (relu): relu fills new tensors", |mlp, a, b| {
        a.sink(mlp.ids[1], names::X, Sink::Overwrite(&mut b.weights))
    }),
    // The last layer alone would take the first: it is relu that keeps the tensor.
    ("overlaps", |mlp, a, b| a.sink(mlp.ids[2], names::X, Sink::Into(&mut b.active))),
    ("overlaps", |mlp, a, b| a.sink(mlp.ids[0], names::WEIGHTS, Sink::Accumulate(&mut b.weights))),
    ("an operation of another pipeline", |_, a, _| {
        a.sink(Sequential::new().push(crate::relu::Relu), names::X, Sink::New)
    }),
];

fn backward(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    for (message, spoil) in BACKWARD {
        let mut active = sevens(stream, &[ROWS, 16])?;
        let grouped = |shape: &[usize]| GroupedTensor::packed(sevens(stream, shape)?);
        let mut buffers = Buffers {
            dx: sevens(stream, &[ROWS, 8])?,
            active: active.clone(),
            half: Tensor::zeros(stream, &[ROWS, 16], DType::Bf16)?,
            transposed: grouped(&[GROUPS, 8, 16])?,
            weights: mlp.up.weights().clone(),
            bias: grouped(&[GROUPS, 24])?,
        };
        let arguments = mlp.arguments().output(mlp.ids[1], &mut active);
        let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments)?;
        let before = buffers.active.to_f32(stream)?;
        let arguments = spoil(&mlp, BackwardArguments::new(), &mut buffers);
        let outcome = mlp.pipeline.backward(stream, saved, Mlp::dy(stream)?, arguments);
        let error = outcome.err().unwrap_or_else(|| panic!("not refused: {message}"));
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(error.is_invalid_argument(), "{message}: {error:?}");
        assert_eq!(buffers.active.to_f32(stream)?, before, "{message}: was written");
    }
    Ok(())
}

/// Of another operation, the last layer knows neither the parameters nor the gradient.
fn foreign_memory(stream: &Stream) -> Result<()> {
    let config = Config { groups: GROUPS, in_features: 8, out_features: 8, dtype: DType::F32 };
    let arena = sevens(stream, &[GROUPS * 8 * 8])?;
    let bias = arena.narrow(0, GROUPS * 8)?.reshape(&[GROUPS, 8])?;
    let weights = GroupedTensor::packed(tensor(stream, &[GROUPS, 8, 8], 1)?)?;
    let first = GroupedLinear::new(stream, config, weights, Some(GroupedTensor::packed(bias)?))?;
    let mut pipeline = Sequential::new();
    let ids = [pipeline.push(first), pipeline.push(layer(stream, (8, 8), false, 2)?)];
    let dy = || tensor(stream, &[ROWS, 8], 3);
    let refused = |frozen: bool, sinks: BackwardArguments<'_>| -> Result<()> {
        let mut arguments =
            ForwardArguments::new().splits(ids[0], &splits()).splits(ids[1], &splits());
        if frozen {
            arguments = arguments.needs(ids[0], Selection::none());
        }
        let (_, saved) = pipeline.forward(stream, Mlp::x(stream)?, arguments)?;
        let error = pipeline.backward(stream, saved, dy()?, sinks).expect_err("foreign memory");
        assert!(error.to_string().contains("overlaps another buffer or an operand"), "{error}");
        assert!(error.to_string().contains("or a parameter"), "{error}");
        assert!(error.is_invalid_argument(), "{error:?}");
        assert!(arena.to_f32(stream)?.iter().all(|&value| value == SENTINEL), "was written");
        Ok(())
    };
    let over_bias = || GroupedTensor::packed(arena.reshape(&[GROUPS, 8, 8])?);
    for frozen in [false, true] {
        let mut dw = over_bias()?;
        let sink = Sink::Overwrite(&mut dw);
        refused(frozen, BackwardArguments::new().sink(ids[1], names::WEIGHTS, sink))?;
    }

    // Gradients of different parameters would add up.
    let main = GroupedTensor::packed(sevens(stream, &[GROUPS, 8, 8])?)?;
    for first_overwrites in [false, true] {
        let (mut one, mut other) = (main.clone(), main.clone());
        let one =
            if first_overwrites { Sink::Overwrite(&mut one) } else { Sink::Accumulate(&mut one) };
        let sinks = BackwardArguments::new().sink(ids[1], names::WEIGHTS, one);
        let other = Sink::Accumulate(&mut other);
        refused(false, sinks.sink(ids[0], names::WEIGHTS, other))?;
        let values = main.as_packed().expect("packed").to_f32(stream)?;
        assert!(values.iter().all(|&value| value == SENTINEL), "was written");
    }
    Ok(())
}

fn nothing_is_written(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, mlp.arguments())?;
    // The last layer's backward runs first, and its buffers fit.
    let mut dh = sevens(stream, &[ROWS, 16])?;
    let mut dw = GroupedTensor::packed(sevens(stream, &[GROUPS, 24, 16])?)?;
    let mut short = GroupedTensor::packed(sevens(stream, &[GROUPS, 15])?)?;
    let arguments = BackwardArguments::new()
        .sink(mlp.ids[2], names::X, Sink::Into(&mut dh))
        .sink(mlp.ids[2], names::WEIGHTS, Sink::Accumulate(&mut dw))
        .sink(mlp.ids[0], names::BIAS, Sink::Overwrite(&mut short));
    let error = mlp.pipeline.backward(stream, saved, Mlp::dy(stream)?, arguments).unwrap_err();
    assert!(error.to_string().contains("operation 0 (grouped_linear): db: shape [15]"), "{error}");
    for tensor in [&dh, dw.as_packed().expect("packed")] {
        assert!(tensor.to_f32(stream)?.iter().all(|&value| value == SENTINEL));
    }

    let refused = |outcome: Result<_>, message: &str| {
        let error: Error = outcome.map(drop::<grouped_linear::ops::SequenceGrads>).unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(error.is_invalid_argument(), "{error:?}");
    };
    let (dy, none) = (Mlp::dy(stream)?, BackwardArguments::new);
    let saved = |arguments| mlp.pipeline.forward(stream, Mlp::x(stream).unwrap(), arguments);
    let inference = ForwardArguments::without_gradients()
        .splits(mlp.ids[0], &splits())
        .splits(mlp.ids[2], &splits());
    let (_, kept_nothing) = saved(inference)?;
    refused(
        mlp.pipeline.backward(stream, kept_nothing, dy.clone(), none()),
        "nobody wants a gradient; ask for",
    );
    let (_, kept) = saved(mlp.arguments())?;
    let transposed = tensor(stream, &[24, ROWS], 1)?;
    refused(mlp.pipeline.backward(stream, kept, transposed, none()), "output_gradient: shape");
    let (_, kept) = saved(mlp.arguments())?;
    refused(
        Mlp::new(stream)?.pipeline.backward(stream, kept, dy, none()),
        "another pipeline kept; pass it to",
    );

    // An operation that forward has not seen.
    let mut longer = Sequential::new();
    longer.push(crate::relu::Relu);
    let x = Mlp::x(stream)?;
    let (y, kept) = longer.forward(stream, x, ForwardArguments::new())?;
    let late = longer.push(crate::relu::Relu);
    let sinks = none().sink(late, names::X, Sink::New);
    refused(longer.backward(stream, kept, y, sinks), "after forward ran; leave it out, or run");

    // The layers themselves work on.
    let (x, options) = (Mlp::x(stream)?, ForwardOptions::default());
    mlp.up.forward(stream, &x, &splits(), options).map(drop)
}
