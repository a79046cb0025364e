//! Products of MXFP8 and NVFP4.

use grouped_linear::functional::{
    QuantizeArgs, QuantizeSource, QuantizedDgradArgs, QuantizedFpropArgs, QuantizedGemmOptions,
    QuantizedWgradArgs, quantize, quantized_dgrad, quantized_fprop, quantized_wgrad,
};
use grouped_linear::plan::{
    BiasKind, GpuTarget, KernelChoice, Pass, Plan, ScaledGemmProblem, Target,
};
use grouped_linear::recipe::{Accumulation, Format};
use grouped_linear::{
    DType, DeviceKind, Direction, Error, Form, ForwardOptions, GroupedLinear, LayerRecipe,
    QuantizedSpec, QuantizedTensor, Result, Splits, Stream, Tensor,
};

use super::small_blocks::{
    CODES, EXACT, MIXED, MXFP8, MXFP8_RECIPE, NVFP4, SCALED_ROWS, SWIZZLED, WIDE, WIDE_CONFIG,
    token_spec, weight_spec,
};
use super::{E4M3, K, UNSUPPORTED, grouped, zeros};
use crate::fitting::{GROUPS, ROWS};
use crate::{INVALID, Refusal};

/// What is multiplied, all in exact numbers unless a test replaces it.
struct Products {
    x: QuantizedTensor,
    dy: QuantizedTensor,
    weights: QuantizedTensor,
    splits: Splits,
}

/// Tokens of zeros, quantized.
fn tokens(stream: &Stream, spec: QuantizedSpec) -> Result<QuantizedTensor> {
    let (x, splits) = (zeros(stream, &[ROWS, spec.source.columns()])?, Splits::host(&[2, 3])?);
    let mut to = QuantizedTensor::empty(stream, spec)?;
    quantize(stream, QuantizeArgs::new(QuantizeSource::Tokens(&x, &splits)), &mut to)?;
    Ok(to)
}

fn weights(stream: &Stream, spec: QuantizedSpec) -> Result<QuantizedTensor> {
    let source = grouped(stream, &[GROUPS, WIDE, K])?;
    let mut to = QuantizedTensor::empty(stream, spec)?;
    quantize(stream, QuantizeArgs::new(QuantizeSource::Weights(&source)), &mut to)?;
    Ok(to)
}

impl Products {
    fn new(stream: &Stream, format: Format) -> Result<Self> {
        Self::of(stream, [format; 3], [EXACT; 3])
    }

    /// x, dy and weights.
    fn of(stream: &Stream, formats: [Format; 3], forms: [[Option<Form>; 2]; 3]) -> Result<Self> {
        Ok(Self {
            x: tokens(stream, token_spec(K, formats[0], forms[0]))?,
            dy: tokens(stream, token_spec(WIDE, formats[1], forms[1]))?,
            weights: weights(stream, weight_spec(formats[2], forms[2]))?,
            splits: Splits::host(&[2, 3])?,
        })
    }

    fn fprop(&self, stream: &Stream, accumulation: Accumulation) -> Result<()> {
        let Self { x, weights, splits, .. } = self;
        let options = QuantizedGemmOptions { accumulation, ..Default::default() };
        let (bias, bias_row_scales) = (None, None);
        let args = QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
        quantized_fprop(stream, &args, &mut zeros(stream, &[ROWS, WIDE])?)
    }

    fn dgrad(&self, stream: &Stream) -> Result<()> {
        let Self { dy, weights, splits, .. } = self;
        let args = QuantizedDgradArgs { dy, weights, splits, options: Default::default() };
        quantized_dgrad(stream, &args, &mut zeros(stream, &[ROWS, K])?)
    }

    fn wgrad(&self, stream: &Stream) -> Result<()> {
        let Self { dy, x, splits, .. } = self;
        let args = QuantizedWgradArgs { dy, x, splits, options: Default::default() };
        quantized_wgrad(stream, &args, &mut grouped(stream, &[GROUPS, WIDE, K])?)
    }

    fn run(&self, stream: &Stream, pass: Pass) -> Result<()> {
        match pass {
            Pass::Fprop => self.fprop(stream, PROMOTED),
            Pass::Dgrad => self.dgrad(stream),
            Pass::Wgrad => self.wgrad(stream),
        }
    }
}

const PROMOTED: Accumulation = Accumulation::Promoted;
const ROWWISE: [Option<Form>; 2] = [EXACT[0], None];

/// Plans a product that need not have operands.
fn plan(change: impl FnOnce(&mut ScaledGemmProblem)) -> Result<()> {
    let mut problem = ScaledGemmProblem {
        pass: Pass::Fprop,
        groups: GROUPS,
        rows: ROWS,
        in_features: K,
        out_features: WIDE,
        a: NVFP4,
        b: NVFP4,
        forms: [Form::Exact; 2],
        accumulation: PROMOTED,
        output: DType::Bf16,
        bias: BiasKind::None,
        power_of_two_scales: true,
        kernel: KernelChoice::Auto,
    };
    change(&mut problem);
    Plan::new(problem.into(), Target::CPU).map(drop)
}

pub(super) const PRODUCTS: &[Refusal] = &[
    ("MXFP8 by NVFP4", "quantize both to one format", UNSUPPORTED, |s| {
        Products::of(s, [MXFP8, MXFP8, NVFP4], [EXACT; 3])?.fprop(s, PROMOTED)
    }),
    ("NVFP4 by FP8", "quantize both to one format", UNSUPPORTED, |s| {
        Products::of(s, [NVFP4, NVFP4, E4M3], [EXACT, EXACT, CODES])?.dgrad(s)
    }),
    ("FP8 by MXFP8", "quantize both to one format", UNSUPPORTED, |s| {
        Products::of(s, [MXFP8, E4M3, MXFP8], [EXACT, CODES, EXACT])?.wgrad(s)
    }),
    ("MXFP8 with fast accumulation", "with fast accumulation", UNSUPPORTED, |s| {
        Products::new(s, MXFP8)?.fprop(s, Accumulation::Fast)
    }),
    ("NVFP4 with fast accumulation", "with fast accumulation", UNSUPPORTED, |s| {
        Products::new(s, NVFP4)?.fprop(s, Accumulation::Fast)
    }),
    ("mixed dy, x as it is", "one operand was transformed", UNSUPPORTED, |s| {
        Products::of(s, [NVFP4, Format::Nvfp4(MIXED), NVFP4], [EXACT; 3])?.wgrad(s)
    }),
    ("mixed x, dy as it is", "one operand was transformed", UNSUPPORTED, |s| {
        Products::of(s, [Format::Nvfp4(MIXED), NVFP4, NVFP4], [EXACT; 3])?.wgrad(s)
    }),
    ("mixed weights for dx", "the weights were transformed", UNSUPPORTED, |s| {
        Products::of(s, [NVFP4, NVFP4, Format::Nvfp4(MIXED)], [EXACT; 3])?.dgrad(s)
    }),
    ("dy with scaled rows", "is for the tokens of fprop", UNSUPPORTED, |s| {
        let formats = [NVFP4, Format::Nvfp4(SCALED_ROWS), NVFP4];
        Products::of(s, formats, [EXACT, ROWWISE, EXACT])?.dgrad(s)
    }),
    ("weights with scaled rows, planned", "is for the tokens of fprop", UNSUPPORTED, |_| {
        plan(|problem| problem.b = Format::Nvfp4(SCALED_ROWS))
    }),
    ("a dw of scaled rows, planned", "is for the tokens of fprop", UNSUPPORTED, |_| {
        plan(|problem| {
            problem.pass = Pass::Wgrad;
            problem.a = Format::Nvfp4(SCALED_ROWS);
        })
    }),
    ("MXFP8 of 48 columns, planned", "out_features is 48, MXFP8 needs", UNSUPPORTED, |_| {
        plan(|problem| {
            (problem.a, problem.b, problem.out_features) = (MXFP8, MXFP8, 48);
        })
    }),
    ("NVFP4 of 24 in_features, planned", "in_features is 24, NVFP4 needs", UNSUPPORTED, |_| {
        plan(|problem| problem.in_features = 24)
    }),
    ("no columnwise exact x for dw", "x: the columnwise copy is needed", INVALID, |s| {
        let own = Products::new(s, MXFP8)?;
        Products { x: own.x.only(Direction::Rowwise)?, ..own }.wgrad(s)
    }),
    ("y of integers, from NVFP4", "output: element type i32", INVALID, |s| {
        let Products { x, weights, splits, .. } = &Products::new(s, NVFP4)?;
        let (bias, bias_row_scales, options) = (None, None, Default::default());
        let args = QuantizedFpropArgs { x, weights, splits, bias, bias_row_scales, options };
        quantized_fprop(s, &args, &mut Tensor::zeros(s, &[ROWS, WIDE], DType::I32)?)
    }),
];

/// Codes beside exact numbers are multiplied by the CPU alone, whatever the GPU; the message names
/// the operand and what makes exact numbers.
pub(super) fn codes(engine: &str, stream: &Stream) {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    use Pass::{Dgrad, Fprop, Wgrad};
    for format in [MXFP8, NVFP4] {
        for form in [CODES, SWIZZLED] {
            for (pass, in_codes, name) in [
                (Fprop, [form, EXACT, EXACT], "x"),
                (Fprop, [EXACT, EXACT, form], "weights"),
                (Dgrad, [EXACT, form, EXACT], "dy"),
                (Dgrad, [EXACT, EXACT, form], "weights"),
                (Wgrad, [EXACT, form, EXACT], "dy"),
                (Wgrad, [form, EXACT, EXACT], "x"),
            ] {
                let what = format!("{engine}: {format}, {pass:?}, {name} in {form:?}");
                let own = Products::of(stream, [format; 3], in_codes).expect(&what);
                refused_on_gpus(own.run(stream, pass), gpu, name, &what);
                stream.synchronize().expect("a refused call leaves nothing behind");
            }
        }
    }
}

/// Both operands in codes are multiplied where tensor cores apply the scales of blocks, if those
/// are in the tiles that they read.
pub(super) fn both_in_codes(engine: &str, stream: &Stream) {
    use Pass::{Dgrad, Fprop, Wgrad};
    for (form, runs) in [(CODES, false), (SWIZZLED, true)] {
        let runs = runs && stream.device().target().gpu.is_some_and(is_blackwell);
        let runs = runs || stream.device().id().kind == DeviceKind::Cpu;
        for format in [MXFP8, NVFP4] {
            let own = Products::of(stream, [format; 3], [form; 3]).expect(engine);
            for (pass, name) in [(Fprop, "x"), (Dgrad, "dy"), (Wgrad, "dy")] {
                let what = format!("{engine}: {format}, {pass:?}, {form:?}");
                let Err(error) = own.run(stream, pass) else {
                    assert!(runs, "{what}: was not refused");
                    continue;
                };
                let message = error.to_string();
                assert!(!runs && error.is_unsupported(), "{what}: {message}");
                assert!(message.starts_with(&format!("{name}: ")), "{what}: {message}");
                let ways: &[&str] = if stream.device().target().gpu.is_some_and(is_blackwell) {
                    &["functional::swizzle"]
                } else {
                    &["functional::restore_exact", "capability 10.0", "multiples of 32"]
                };
                assert!(ways.iter().all(|way| message.contains(way)), "{what}: {message}");
            }
        }
    }
}

fn is_blackwell(gpu: GpuTarget) -> bool {
    gpu.compute_capability == (10, 0)
}

/// A layer with quantized weights in another form than its recipe's; y is not written where they
/// are refused.
pub(super) fn weights_in_another_form(engine: &str, stream: &Stream) {
    let gpu = stream.device().id().kind != DeviceKind::Cpu;
    let attempt = |forms, y: &mut Tensor| -> Result<()> {
        let layer =
            GroupedLinear::new(stream, WIDE_CONFIG, grouped(stream, &[GROUPS, WIDE, K])?, None)?;
        let quantized = weights(stream, weight_spec(MXFP8, forms))?;
        let recipe = LayerRecipe::new(stream, WIDE_CONFIG, MXFP8_RECIPE)?;
        let recipe = recipe.with_form(stream, Form::Exact)?.with_weights(quantized)?;
        let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
        let (x, splits) = (zeros(stream, &[ROWS, K])?, Splits::host(&[2, 4])?);
        layer.forward_into(stream, &x, &splits, options, y).map(drop)
    };
    let sevens = [7.0; ROWS * WIDE];
    for (forms, in_codes) in [(EXACT, false), (CODES, true), (SWIZZLED, true)] {
        let what = format!("{engine}: weights in {forms:?}");
        let shape = [ROWS, WIDE];
        let mut y = Tensor::from_f32(stream, &shape, DType::Bf16, &sevens).expect(&what);
        refused_on_gpus(attempt(forms, &mut y), gpu && in_codes, "weights", &what);
        let want = if gpu && in_codes { 7.0 } else { 0.0 };
        assert_eq!(y.to_f32(stream).expect(&what), [want; ROWS * WIDE], "{what}");
    }
}

fn refused_on_gpus(outcome: Result<()>, gpu: bool, name: &str, what: &str) {
    let Err(error) = outcome else {
        assert!(!gpu, "{what}: was not refused");
        return;
    };
    let message = error.to_string();
    assert!(gpu && Error::is_unsupported(&error), "{what}: {error:?}");
    assert!(message.starts_with(&format!("{name}: ")), "{what}: {message}");
    assert!(message.contains("functional::restore_exact"), "{what}: {message}");
}

/// What the table spoils.
pub(super) fn fitting(stream: &Stream) -> Result<()> {
    for format in [MXFP8, NVFP4, Format::Nvfp4(MIXED)] {
        // Weights are never mixed.
        let weights = if format == MXFP8 { MXFP8 } else { NVFP4 };
        let own = Products::of(stream, [format, format, weights], [EXACT; 3])?;
        for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
            own.run(stream, pass)?;
        }
    }
    let formats = [Format::Nvfp4(SCALED_ROWS), NVFP4, NVFP4];
    Products::of(stream, formats, [ROWWISE, EXACT, EXACT])?.fprop(stream, PROMOTED)?;
    plan(|_| ())
}
