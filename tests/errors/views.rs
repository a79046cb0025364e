//! Views that start between two multiples of 16 bytes: tensor copies refuse them by name,
//! everything else takes them. And strides of other libraries.

use grouped_linear::functional::{FpropArgs, GemmOptions, fprop, wgrad};
use grouped_linear::interop::check_strides;
use grouped_linear::{
    BackwardOptions, Config, DType, DeviceKind, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, KernelChoice, Result, RowSink, Splits, Stream, Tensor, WgradArgs,
};

use crate::engines::Test;
use crate::fitting::{GROUPS, K, N, ROWS};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("operands between 16 bytes are refused by tensor copies only", misplaced_operands),
    ("a misplaced main_grad is refused before dx is written", misplaced_gradient),
];

/// The operand that starts one element late, and a part of the refusal.
const MISPLACED: &[(&str, &str)] = &[
    ("x", "multiples of 16"),
    ("packed weights", "multiples of 16"),
    ("discrete weights", "discrete weights must each start at a multiple of 16"),
    ("bias", "the bias must start at a multiple of two elements"),
    ("y", "the output must start at a multiple of 16 bytes"),
    ("dw", "the output must start at a multiple of 16 bytes"),
];

/// `shape` inside an arena of sevens, `late` elements after its start.
fn inside(stream: &Stream, shape: &[usize], late: usize) -> Result<(Tensor, Tensor)> {
    let count: usize = shape.iter().product();
    let arena = Tensor::from_f32(stream, &[count + 16], DType::Bf16, &vec![7.0; count + 16])?;
    let view = arena.narrow(late, count)?.reshape(shape)?;
    Ok((arena, view))
}

/// Sums of sevens with one operand misplaced: the outcome, and what the output's arena holds.
fn attempt(stream: &Stream, misplaced: &str, kernel: KernelChoice) -> Result<(Result<()>, Tensor)> {
    let late = |name: &str| usize::from(name == misplaced);
    let view = |shape: &[usize], name: &str| -> Result<Tensor> {
        Ok(inside(stream, shape, late(name))?.1)
    };
    let x = view(&[ROWS, K], "x")?;
    let weights = if misplaced == "discrete weights" {
        let each = [view(&[N, K], "")?, view(&[N, K], misplaced)?];
        GroupedTensor::discrete(stream, each.to_vec())?
    } else {
        GroupedTensor::packed(view(&[GROUPS, N, K], "packed weights")?)?
    };
    let bias = GroupedTensor::packed(view(&[GROUPS, N], "bias")?)?;
    let splits = Splits::host(&[2, 4])?;
    let options = GemmOptions { kernel, ..GemmOptions::default() };
    if misplaced == "dw" {
        let dy = view(&[ROWS, N], "dy")?;
        let (arena, dw) = inside(stream, &[GROUPS, N, K], 1)?;
        let args = WgradArgs { dy: &dy, x: &x, splits: &splits, options };
        return Ok((wgrad(stream, &args, &mut GroupedTensor::packed(dw)?), arena));
    }
    let (arena, mut y) = inside(stream, &[ROWS, N], late("y"))?;
    let args = FpropArgs {
        x: &x,
        weights: &weights,
        splits: &splits,
        bias: Some(&bias),
        bias_row_scales: None,
        options,
    };
    Ok((fprop(stream, &args, &mut y), arena))
}

fn misplaced_operands(engine: &str, stream: &Stream) {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    for &(name, part) in MISPLACED {
        for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
            let what = format!("{engine}: {name}, {kernel:?}");
            let (outcome, arena) = attempt(stream, name, kernel).expect(&what);
            let values = arena.to_f32(stream).expect(&what);
            let refused = gpu && kernel == KernelChoice::Auto;
            match outcome {
                Ok(()) => assert!(!refused, "{what}: was not refused"),
                Err(error) => {
                    assert!(refused && error.is_invalid_argument(), "{what}: {error:?}");
                    assert!(error.to_string().contains(part), "{what}: {error}");
                    assert!(values.iter().all(|&value| value == 7.0), "{what}: {values:?}");
                    continue;
                }
            }
            let (late, count) = (usize::from(name == "y" || name == "dw"), values.len() - 16);
            let written = &values[late..late + count];
            if name == "dw" {
                // Two rows of group 0, four of group 1, each 7 · 7.
                assert!(written[..N * K].iter().all(|&value| value == 98.0), "{what}");
                assert!(written[N * K..].iter().all(|&value| value == 196.0), "{what}");
            } else {
                // K · 7 · 7 + 7 in BF16.
                assert!(written.iter().all(|&value| value == 400.0), "{what}: {written:?}");
            }
            let mut around = values[..late].iter().chain(&values[late + count..]);
            assert!(around.all(|&value| value == 7.0), "{what}: neighbours were written");
        }
    }
}

/// The gradient of the tokens comes first, so it would be there already.
fn misplaced_gradient(engine: &str, stream: &Stream) {
    let outcome = || -> Result<()> {
        let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::Bf16 };
        let weights = GroupedTensor::packed(inside(stream, &[GROUPS, N, K], 0)?.1)?;
        let layer = GroupedLinear::new(stream, config, weights, None)?;
        let (x, splits) = (inside(stream, &[ROWS, K], 0)?.1, Splits::host(&[2, 4])?);
        let (_, saved) = layer.forward(stream, &x, &splits, ForwardOptions::default())?;
        let (dy, (arena, mut dx)) =
            (inside(stream, &[ROWS, N], 0)?.1, inside(stream, &[ROWS, K], 0)?);
        let mut dw = GroupedTensor::packed(inside(stream, &[GROUPS, N, K], 1)?.1)?;
        let (dx, dw) = (RowSink::Into(&mut dx), GradSink::Accumulate(&mut dw).into());
        let options = BackwardOptions { dx, dw, ..Default::default() };
        let outcome = layer.backward_with(stream, saved, &dy, options);
        let untouched = arena.to_f32(stream)?.iter().all(|&value| value == 7.0);
        let gpu = stream.device().id().kind != DeviceKind::Cpu;
        assert_eq!((outcome.is_err(), untouched), (gpu, gpu), "{engine}: {outcome:?}");
        Ok(())
    };
    outcome().expect(engine);
}

/// Shapes and strides in elements that are taken.
const CONTIGUOUS: &[(&[usize], &[isize])] = &[
    (&[], &[]),
    (&[7], &[1]),
    (&[4, 16, 8], &[128, 8, 1]),
    // A length of 1 is never stepped over.
    (&[1, 16, 8], &[-5, 8, 1]),
    (&[16, 1, 1], &[1, 99, 0]),
    (&[1], &[0]),
    // Nothing is ever read.
    (&[4, 0, 8], &[1, 2, 3]),
    (&[0], &[-1]),
    // 2³³ elements.
    (&[1 << 20, 1 << 13], &[1 << 13, 1]),
];

/// Shapes and strides that are refused, and the strides that the message asks for.
const STRIDED: &[(&[usize], &[isize], &str)] = &[
    // Transposed.
    (&[4, 8, 16], &[128, 1, 8], "[128, 16, 1]"),
    // The columns of a wider buffer.
    (&[16, 8], &[12, 1], "[8, 1]"),
    // Every second group.
    (&[2, 16, 8], &[256, 8, 1], "[128, 8, 1]"),
    // Padded rows of one group.
    (&[1, 16, 8], &[160, 10, 1], "[128, 8, 1]"),
    // One row for all.
    (&[16, 8], &[0, 1], "[8, 1]"),
    // Backwards.
    (&[8], &[-1], "[1]"),
    // Every second element.
    (&[8], &[2], "[1]"),
    // Too few and too many.
    (&[16, 8], &[1], "[8, 1]"),
    (&[16], &[1, 1], "[1]"),
    (&[0, 4], &[1], "[4, 1]"),
];

pub(crate) fn strides_are_looked_at() {
    for (shape, strides) in CONTIGUOUS {
        check_strides(shape, strides).unwrap_or_else(|error| panic!("{error}"));
    }
    for &(shape, strides, want) in STRIDED {
        let error = check_strides(shape, strides).expect_err("not contiguous");
        assert!(error.is_invalid_argument(), "{error:?}");
        assert_eq!((error.given_shape(), error.given_strides()), (Some(shape), Some(strides)));
        let message = error.to_string();
        for part in [&format!("{shape:?}"), &format!("{strides:?}"), want, "make the buffer"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }
    let error = check_strides(&[usize::MAX, 2], &[2, 1]).expect_err("too large");
    assert!(error.to_string().contains("fewer than 2^63"), "{error}");
}
