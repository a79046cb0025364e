//! What is refused, on every engine: what the host can see at once, what only the device knows at
//! the next synchronisation (`device.rs`). Either way nothing is written. `docs/errors.md` lists
//! what must be refused and names the tests.
//!
//! Every test is a trial per engine. Without a GPU its trials are shown as ignored, with the
//! reason.

mod backward;
mod cache;
#[cfg(feature = "safetensors")]
mod checkpoint;
mod device;
mod elsewhere;
#[path = "../engines.rs"]
mod engines;
mod fitting;
mod layer;
#[path = "../other_device.rs"]
mod other_device;
mod recipes;
mod views;

use std::process::ExitCode;

use grouped_linear::functional::{self, DgradArgs, FpropArgs, GemmOptions, WgradArgs};
use grouped_linear::plan::{BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Target};
use grouped_linear::{
    DType, DeviceKind, Error, Factor, GroupedTensor, ParamLayout, Result, Splits, Stream, Tensor,
};
use libtest_mimic::{Arguments, Trial};

use crate::engines::{Test, on_blackwell, on_engines};
use crate::fitting::{Fitting, GROUPS, K, N, ROWS, floats, packed};

/// A question that the error must answer with yes.
type Question = fn(&Error) -> bool;

/// An attempt, a part of the message that it must give, and the kind of the error.
type Refusal = (&'static str, &'static str, Question, fn(&Stream) -> Result<()>);

const INVALID: Question = Error::is_invalid_argument;
const UNSUPPORTED: Question = Error::is_unsupported;

/// Attempts fprop with changed arguments and an output of the given shape.
fn fprop(
    stream: &Stream,
    shape: &[usize],
    dtype: DType,
    change: impl for<'a> FnOnce(&mut FpropArgs<'a>, &'a Fitting) -> Result<()>,
) -> Result<()> {
    let fitting = Fitting::new(stream)?;
    let mut args = fitting.fprop();
    change(&mut args, &fitting)?;
    functional::fprop(stream, &args, &mut Tensor::zeros(stream, shape, dtype)?)
}

/// Attempts fprop with one operand replaced.
fn fprop_with(stream: &Stream, change: impl FnOnce(&mut Fitting) -> Result<()>) -> Result<()> {
    let mut fitting = Fitting::new(stream)?;
    change(&mut fitting)?;
    let y = [fitting.x.shape()[0], fitting.weights.shape()[0]];
    functional::fprop(stream, &fitting.fprop(), &mut floats(stream, &y)?)
}

const SHAPES_AND_TYPES: &[Refusal] = &[
    ("y has the wrong shape", "y: shape [6, 8]", INVALID, |s| {
        fprop(s, &[ROWS, K], DType::F32, |_, _| Ok(()))
    }),
    ("y holds integers", "output: element type i32", INVALID, |s| {
        fprop(s, &[ROWS, N], DType::I32, |_, _| Ok(()))
    }),
    ("FP32 operands, BF16 result", "f32 for operands in f32", INVALID, |s| {
        fprop(s, &[ROWS, N], DType::Bf16, |_, _| Ok(()))
    }),
    ("x is a vector", "x: shape [8]", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.x = floats(s, &[8])?;
            fitting.weights = packed(s, &[GROUPS, N, K])?;
            Ok(())
        })
    }),
    ("weights have other in_features", "weights: shape [16, 9]", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.weights = packed(s, &[GROUPS, N, K + 1])?;
            Ok(())
        })
    }),
    ("weights have another type", "weights: element type bf16", INVALID, |s| {
        fprop_with(s, |fitting| {
            let weights = Tensor::zeros(s, &[GROUPS, N, K], DType::Bf16)?;
            fitting.weights = GroupedTensor::packed(weights)?;
            Ok(())
        })
    }),
    ("weights are vectors", "weights: shape [16]", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.weights = packed(s, &[GROUPS, N])?;
            Ok(())
        })
    }),
    ("bias of other length", "bias: shape [15]", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.bias = packed(s, &[GROUPS, N - 1])?;
            Ok(())
        })
    }),
    ("bias for more groups", "bias: 3 groups", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.bias = packed(s, &[GROUPS + 1, N])?;
            Ok(())
        })
    }),
    ("bias of integers", "bias: element type i64", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.bias = GroupedTensor::packed(Tensor::zeros(s, &[GROUPS, N], DType::I64)?)?;
            Ok(())
        })
    }),
    ("row scales without a bias", "without a bias", INVALID, |s| {
        let scales = floats(s, &[ROWS])?;
        let fitting = Fitting::new(s)?;
        let args = FpropArgs { bias: None, bias_row_scales: Some(&scales), ..fitting.fprop() };
        functional::fprop(s, &args, &mut floats(s, &[ROWS, N])?)
    }),
    ("too few row scales", "bias_row_scales: shape [5]", INVALID, |s| {
        let scales = floats(s, &[ROWS - 1])?;
        let fitting = Fitting::new(s)?;
        let args = FpropArgs { bias_row_scales: Some(&scales), ..fitting.fprop() };
        functional::fprop(s, &args, &mut floats(s, &[ROWS, N])?)
    }),
    ("row scales in BF16", "bias_row_scales: element type bf16", INVALID, |s| {
        let scales = Tensor::zeros(s, &[ROWS], DType::Bf16)?;
        let fitting = Fitting::new(s)?;
        let args = FpropArgs { bias_row_scales: Some(&scales), ..fitting.fprop() };
        functional::fprop(s, &args, &mut floats(s, &[ROWS, N])?)
    }),
    ("alphas for more groups", "alpha: shape [3]", INVALID, |s| {
        let alpha = floats(s, &[GROUPS + 1])?;
        let options = GemmOptions { alpha: Factor::PerGroup(&alpha), ..GemmOptions::default() };
        let fitting = Fitting::new(s)?;
        let args = DgradArgs { options, ..fitting.dgrad() };
        functional::dgrad(s, &args, &mut floats(s, &[ROWS, K])?)
    }),
    ("betas in BF16", "beta: element type bf16", INVALID, |s| {
        let beta = Tensor::zeros(s, &[GROUPS], DType::Bf16)?;
        let options = GemmOptions { beta: Factor::PerGroup(&beta), ..GemmOptions::default() };
        let fitting = Fitting::new(s)?;
        let args = WgradArgs { options, ..fitting.wgrad() };
        functional::wgrad(s, &args, &mut packed(s, &[GROUPS, N, K])?)
    }),
    ("dx has the wrong shape", "dx: shape [6, 16]", INVALID, |s| {
        let fitting = Fitting::new(s)?;
        functional::dgrad(s, &fitting.dgrad(), &mut floats(s, &[ROWS, N])?)
    }),
    ("wgrad: x has fewer rows than dy", "x: shape [5, 8]", INVALID, |s| {
        let fitting = Fitting { x: floats(s, &[ROWS - 1, K])?, ..Fitting::new(s)? };
        functional::wgrad(s, &fitting.wgrad(), &mut packed(s, &[GROUPS, N, K])?)
    }),
    ("wgrad: x has another type than dy", "x: element type f16", INVALID, |s| {
        let x = Tensor::zeros(s, &[ROWS, K], DType::F16)?;
        let fitting = Fitting { x, ..Fitting::new(s)? };
        functional::wgrad(s, &fitting.wgrad(), &mut packed(s, &[GROUPS, N, K])?)
    }),
    ("wgrad: dw is transposed", "dw: shape [8, 16]", INVALID, |s| {
        let fitting = Fitting::new(s)?;
        functional::wgrad(s, &fitting.wgrad(), &mut packed(s, &[GROUPS, K, N])?)
    }),
    ("dbias: db for fewer groups", "db: 1 groups", INVALID, |s| {
        let fitting = Fitting::new(s)?;
        functional::dbias(s, &fitting.dbias(), &mut packed(s, &[1, N])?)
    }),
    ("dscales in BF16", "dscales: element type bf16", INVALID, |s| {
        let fitting = Fitting::new(s)?;
        let mut dscales = Tensor::zeros(s, &[ROWS], DType::Bf16)?;
        functional::dscales(s, &fitting.dscales(), &mut dscales)
    }),
];

const SIZES: &[Refusal] = &[
    ("splits for fewer groups", "splits: 1 were given", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.splits = Splits::host(&[4])?;
            Ok(())
        })
    }),
    (
        "more rows than the buffer",
        "7 rows, but the token buffer has 6",
        Error::is_bad_splits,
        |s| {
            fprop_with(s, |fitting| {
                fitting.splits = Splits::host(&[3, 4])?;
                Ok(())
            })
        },
    ),
    ("splits that overflow", "2^63", INVALID, |_| Splits::host(&[usize::MAX, 1]).map(drop)),
    ("no in_features", "in_features is 0", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.x = floats(s, &[ROWS, 0])?;
            fitting.weights = packed(s, &[GROUPS, N, 0])?;
            Ok(())
        })
    }),
    ("no out_features", "out_features is 0", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.weights = packed(s, &[GROUPS, 0, K])?;
            fitting.bias = packed(s, &[GROUPS, 0])?;
            Ok(())
        })
    }),
    ("no groups", "0 groups", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.weights = packed(s, &[0, N, K])?;
            fitting.bias = packed(s, &[0, N])?;
            fitting.splits = Splits::host(&[])?;
            Ok(())
        })
    }),
    ("4097 groups", "4097 groups were asked for, 1 to 4096", INVALID, |s| {
        fprop_with(s, |fitting| {
            fitting.weights = packed(s, &[4097, N, K])?;
            fitting.bias = packed(s, &[4097, N])?;
            fitting.splits = Splits::host(&[0; 4097])?;
            Ok(())
        })
    }),
    ("a bias on dgrad", "a bias belongs to fprop", INVALID, |s| {
        let bias = BiasKind::Add(DType::Bf16);
        let problem = GemmProblem { bias, ..PRODUCT };
        Plan::new(problem.into(), s.device().target()).map(drop)
    }),
    ("an older GPU", "this GPU has 8.0", Error::is_unsupported, |_| plan(PRODUCT, (8, 0))),
    ("a newer GPU", "this GPU has 10.3", Error::is_unsupported, |_| plan(PRODUCT, (10, 3))),
    ("features that tensor copies cannot take", "multiples of 8", Error::is_unsupported, |_| {
        plan(GemmProblem { out_features: N + 1, ..PRODUCT }, (9, 0))
    }),
    ("pairs on Hopper", "compiled for compute capability 10.0", UNSUPPORTED, |_| {
        plan(GemmProblem { kernel: KernelChoice::Pair, ..PRODUCT }, (9, 0))
    }),
    ("narrow tiles of wgrad", "narrow tiles are for fprop", UNSUPPORTED, |_| {
        let (pass, kernel) = (Pass::Wgrad, KernelChoice::Narrow);
        plan(GemmProblem { pass, kernel, ..PRODUCT }, (9, 0))
    }),
    ("tensor cores for FP32", "tensor cores take no operands in f32", UNSUPPORTED, |_| {
        let (input, output, kernel) = (DType::F32, DType::F32, KernelChoice::Block);
        plan(GemmProblem { input, output, kernel, ..PRODUCT }, (9, 0))
    }),
    ("tensor cores on the CPU", "the CPU has no tensor cores", UNSUPPORTED, |_| {
        let problem = GemmProblem { kernel: KernelChoice::Block, ..PRODUCT };
        Plan::new(problem.into(), Target::CPU).map(drop)
    }),
    ("fprop in pairs that the device does not have", "Pair was asked for", UNSUPPORTED, |s| {
        let options = GemmOptions { kernel: KernelChoice::Pair, ..GemmOptions::default() };
        let fitting = Fitting::new(s)?;
        let args = FpropArgs { options, ..fitting.fprop() };
        functional::fprop(s, &args, &mut floats(s, &[ROWS, N])?)
    }),
    ("more tiles than a launch counts", "split the groups", Error::is_unsupported, |_| {
        let (in_features, out_features) = (1 << 24, 1 << 24);
        let pass = Pass::Wgrad;
        plan(GemmProblem { pass, groups: 4096, in_features, out_features, ..PRODUCT }, (9, 0))
    }),
    (
        "more rows of all gradients than a tensor copy counts",
        "2148007936 rows",
        UNSUPPORTED,
        |_| {
            let (groups, in_features, out_features) = (4096, 8, 524_416);
            let output = DType::Bf16;
            let problem = GemmProblem { pass: Pass::Wgrad, groups, in_features, ..PRODUCT };
            plan(GemmProblem { out_features, output, ..problem }, (9, 0))
        },
    ),
    (
        "as many in FP32, on Blackwell",
        "tensor copies of their gradient in f32",
        UNSUPPORTED,
        |_| {
            let (groups, in_features, out_features) = (4096, 8, 1 << 20);
            let problem = GemmProblem { pass: Pass::Wgrad, groups, in_features, ..PRODUCT };
            plan(GemmProblem { out_features, output: DType::F32, ..problem }, (10, 0))
        },
    ),
    ("2^31 rows", "2147483648 rows were given", INVALID, |_| {
        plan(GemmProblem { rows: 1 << 31, ..PRODUCT }, (9, 0))
    }),
    ("2^31 in_features", "in_features is 2147483648", INVALID, |_| {
        plan(GemmProblem { in_features: 1 << 31, ..PRODUCT }, (9, 0))
    }),
];

const PRODUCT: GemmProblem = GemmProblem {
    pass: Pass::Dgrad,
    groups: GROUPS,
    rows: ROWS,
    in_features: K,
    out_features: N,
    input: DType::Bf16,
    output: DType::Bf16,
    bias: BiasKind::None,
    kernel: KernelChoice::Auto,
};

/// Plans for a GPU that need not be here.
fn plan(problem: GemmProblem, compute_capability: (u32, u32)) -> Result<()> {
    let gpu = Some(GpuTarget { compute_capability, multiprocessors: 132 });
    Plan::new(problem.into(), Target { gpu }).map(drop)
}

const MEMORY: &[Refusal] = &[
    ("y is x", "the output overlaps an input", INVALID, |s| {
        let fitting = Fitting { weights: packed(s, &[GROUPS, K, K])?, ..Fitting::new(s)? };
        let args = FpropArgs { bias: None, ..fitting.fprop() };
        functional::fprop(s, &args, &mut fitting.x.clone())
    }),
    ("y is a piece of x", "the output overlaps an input", INVALID, |s| {
        let arena = floats(s, &[2 * ROWS, K])?;
        let fitting = Fitting {
            x: arena.narrow(0, ROWS)?,
            weights: packed(s, &[GROUPS, K, K])?,
            ..Fitting::new(s)?
        };
        let args = FpropArgs { bias: None, ..fitting.fprop() };
        functional::fprop(s, &args, &mut arena.narrow(ROWS - 1, ROWS)?)
    }),
    ("y is the factors", "the output overlaps an input", INVALID, |s| {
        let y = floats(s, &[ROWS, N])?;
        let alpha = y.index(0)?.narrow(0, GROUPS)?;
        let fitting = Fitting::new(s)?;
        let options = GemmOptions { alpha: Factor::PerGroup(&alpha), ..GemmOptions::default() };
        functional::fprop(s, &FpropArgs { options, ..fitting.fprop() }, &mut y.clone())
    }),
    ("db is dy", "the output overlaps an input", INVALID, |s| {
        let fitting = Fitting::new(s)?;
        let mut db = GroupedTensor::packed(fitting.dy.narrow(0, GROUPS)?)?;
        functional::dbias(s, &fitting.dbias(), &mut db)
    }),
    ("two dw are one", "discrete outputs overlap", INVALID, |s| {
        let fitting = Fitting::new(s)?;
        let one = floats(s, &[N, K])?;
        let mut dw = GroupedTensor::discrete(s, vec![one.clone(), one])?;
        functional::wgrad(s, &fitting.wgrad(), &mut dw)
    }),
    ("a packed vector", "packed tensor: shape [4]", INVALID, |s| packed(s, &[4]).map(drop)),
    ("no discrete tensors", "none were given", INVALID, |s| {
        GroupedTensor::discrete(s, Vec::new()).map(drop)
    }),
    ("discrete tensors of different shapes", "discrete tensor: shape [4, 2]", INVALID, |s| {
        GroupedTensor::discrete(s, vec![floats(s, &[2, 4])?, floats(s, &[4, 2])?]).map(drop)
    }),
    ("more discrete tensors than groups can be", "4097 were asked for", INVALID, |s| {
        GroupedTensor::empty(s, ParamLayout::Discrete, 4097, &[0], DType::F32).map(drop)
    }),
    ("no discrete groups", "none were given", INVALID, |s| {
        GroupedTensor::zeros(s, ParamLayout::Discrete, 0, &[2], DType::F32).map(drop)
    }),
    ("packed scalars", "packed tensor: shape [3]", INVALID, |s| {
        GroupedTensor::zeros(s, ParamLayout::Packed, 3, &[], DType::F32).map(drop)
    }),
    ("values for fewer groups", "a shape of 4 elements", INVALID, |s| {
        GroupedTensor::from_slice(s, ParamLayout::Discrete, 3, &[2], &[1.0f32; 4]).map(drop)
    }),
    ("values for more groups", "a shape of 8 elements", INVALID, |s| {
        let values = [1.0; 8];
        GroupedTensor::from_f32(s, ParamLayout::Packed, 3, &[2], DType::Bf16, &values).map(drop)
    }),
    ("groups of more bytes than addresses", "fewer than 2^63 bytes", INVALID, |s| {
        GroupedTensor::from_f32(s, ParamLayout::Packed, usize::MAX, &[8], DType::F32, &[]).map(drop)
    }),
    ("floats into integers", "a floating-point type", INVALID, |s| {
        let values = [1.0; 6];
        GroupedTensor::from_f32(s, ParamLayout::Discrete, 3, &[2], DType::I32, &values).map(drop)
    }),
    ("group out of range", "first dimension", INVALID, |s| {
        packed(s, &[GROUPS, N])?.group(GROUPS).map(drop)
    }),
    ("a matrix of splits", "splits: shape [2, 2]", INVALID, |s| {
        Splits::device(Tensor::zeros(s, &[2, 2], DType::I32)?).map(drop)
    }),
    ("splits in FP32", "splits: element type f32", INVALID, |s| {
        Splits::device(floats(s, &[2])?).map(drop)
    }),
    ("fewer values than elements", "a shape of 5 elements", INVALID, |s| {
        Tensor::from_slice(s, &[2, 3], &[0.0f32; 5]).map(drop)
    }),
    ("values of another type", "values: element type f32", INVALID, |s| {
        Tensor::zeros(s, &[2], DType::Bf16)?.write(s, &[0.0f32; 2])
    }),
    ("integers as floats", "a floating-point type", INVALID, |s| {
        Tensor::zeros(s, &[2], DType::I32)?.to_f32(s).map(drop)
    }),
    ("narrow beyond the end", "entries 2..2+2", INVALID, |s| {
        floats(s, &[3, 2])?.narrow(2, 2).map(drop)
    }),
    ("narrow that overflows", "were asked for", INVALID, |s| {
        floats(s, &[3, 2])?.narrow(1, usize::MAX).map(drop)
    }),
    ("narrow without a dimension", "at least one dimension", INVALID, |s| {
        floats(s, &[])?.narrow(0, 0).map(drop)
    }),
    ("an empty tensor whose rows overflow", "fewer than 2^63 bytes", INVALID, |s| {
        floats(s, &[0, usize::MAX, 2])?.narrow(0, 0).map(drop)
    }),
    ("reshape to another size", "a shape of 6 elements", INVALID, |s| {
        floats(s, &[3, 2])?.reshape(&[7]).map(drop)
    }),
    ("copy of another shape", "source: shape [3]", INVALID, |s| {
        floats(s, &[2])?.copy_from(s, &floats(s, &[3])?)
    }),
    ("copy onto itself, one entry on", "source and destination overlap", INVALID, |s| {
        let rows = floats(s, &[9, 2])?;
        rows.narrow(0, 8)?.copy_from(s, &rows.narrow(1, 8)?)
    }),
    ("more bytes than addresses", "fewer than 2^63 bytes", INVALID, |s| {
        Tensor::empty(s, &[usize::MAX, 2], DType::F32).map(drop)
    }),
    ("more bytes than memory", "out of memory", Error::is_out_of_memory, |s| {
        Tensor::empty(s, &[1 << 58], DType::F32).map(drop)
    }),
];

fn refused(table: &[Refusal], engine: &str, stream: &Stream) {
    for (name, part, question, attempt) in table {
        match attempt(stream) {
            Ok(()) => panic!("{engine}: {name}: was not refused"),
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains(part), "{engine}: {name}: {message}");
                assert!(question(&error), "{engine}: {name}: wrong kind: {error:?}");
            }
        }
        stream.synchronize().expect("a refused call leaves nothing behind");
    }
}

const TESTS: &[(&str, Test)] = &[
    ("wrong shapes and types are refused", |e, s| refused(SHAPES_AND_TYPES, e, s)),
    ("wrong sizes are refused", |e, s| refused(SIZES, e, s)),
    ("wrong memory is refused", |e, s| refused(MEMORY, e, s)),
    #[cfg(feature = "safetensors")]
    ("files that do not hold the layer are refused", |e, s| refused(checkpoint::CHECKPOINTS, e, s)),
    #[cfg(feature = "safetensors")]
    ("files that do not hold quantized weights are refused", |e, s| {
        refused(checkpoint::QUANTIZED, e, s)
    }),
    #[cfg(feature = "safetensors")]
    ("files that hold it are not refused", |engine, s| {
        checkpoint::files_that_fit(s).expect(engine)
    }),
    ("kernels are not timed where nothing can time them", |engine, s| untimed(s).expect(engine)),
    ("arguments that fit are not refused", |engine, s| arguments_that_fit(s).expect(engine)),
];

/// On a GPU, in a capture; nothing is run.
fn untimed(stream: &Stream) -> Result<()> {
    let refused = |stream: &Stream, part: &str| {
        let error = stream.kernel_times(|_| panic!("nothing must run")).expect_err("no clock");
        assert!(error.is_unsupported() && error.to_string().contains(part), "{error}");
    };
    if stream.device().id().kind != DeviceKind::Cuda {
        refused(stream, "only a GPU (Device::cuda) has a clock");
        return Ok(());
    }
    let mut y = floats(stream, &[ROWS, N])?;
    let fitting = Fitting::new(stream)?;
    functional::fprop(stream, &fitting.fprop(), &mut y)?;
    stream.synchronize()?;
    stream.capture(|stream| {
        refused(stream, "the time of a kernel cannot be recorded in a graph");
        y.fill_zero(stream)
    })?;
    Ok(())
}

/// Otherwise the tables above might refuse for a reason that they do not name.
fn arguments_that_fit(stream: &Stream) -> Result<()> {
    fprop(stream, &[ROWS, N], DType::F32, |_, _| Ok(()))?;
    fprop_with(stream, |_| Ok(()))?;
    let fitting = Fitting::new(stream)?;
    functional::dgrad(stream, &fitting.dgrad(), &mut floats(stream, &[ROWS, K])?)?;
    functional::wgrad(stream, &fitting.wgrad(), &mut packed(stream, &[GROUPS, N, K])?)?;
    functional::dbias(stream, &fitting.dbias(), &mut packed(stream, &[GROUPS, N])?)?;
    functional::dscales(stream, &fitting.dscales(), &mut floats(stream, &[ROWS])?)?;
    stream.synchronize()
}

fn the_cpu_cannot_record_graphs() -> Result<()> {
    let stream = grouped_linear::Device::cpu().stream()?;
    let error = stream.capture(|_| Ok(())).unwrap_err();
    assert!(error.is_unsupported(), "{error:?}");
    assert!(error.to_string().contains("call the operations again"), "{error}");
    Ok(())
}

fn main() -> ExitCode {
    let mut trials = on_engines(
        &[
            TESTS,
            layer::TESTS,
            backward::TESTS,
            cache::TESTS,
            device::TESTS,
            elsewhere::TESTS,
            recipes::TESTS,
            views::TESTS,
        ]
        .concat(),
    );
    trials.extend(on_blackwell(recipes::ON_BLACKWELL));
    trials.push(Trial::test("cpu: it says that it cannot record graphs", || {
        Ok(the_cpu_cannot_record_graphs()?)
    }));
    trials.push(Trial::test("strides that are not contiguous are refused", || {
        views::strides_are_looked_at();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
