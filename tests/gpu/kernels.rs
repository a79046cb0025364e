//! The readable kernel and the tensor-core kernels, held against each other and against themselves.

use grouped_linear::conformance::{Generator, Location, compare};
use grouped_linear::functional::{
    DgradArgs, FpropArgs, GemmOptions, WgradArgs, dgrad, fprop, wgrad,
};
use grouped_linear::plan::Pass;
use grouped_linear::reference::plain::{self, Groups};
use grouped_linear::{
    DType, Device, Factor, GroupedTensor, KernelChoice, Result, Splits, Stream, Tensor,
};

use crate::device::{Inputs, Layout, Outputs, run_all, tensor_bits};
use crate::host::{Host, RESULTS, Sizes, bits, equal_bits, equal_values, rounded, value};
use crate::{Check, Outcome};

const SPLITS: [usize; 3] = [70, 0, 133];
const LIVE: usize = 203;
const ROWS: usize = LIVE + 5;
const GROUPS: usize = SPLITS.len();
/// The feature that is not swept.
const OTHER: usize = 72;
/// Columns of the output: edges of 16-byte stores, of slabs, and of tiles.
const COLUMNS: &[usize] = &[8, 24, 136, 264, 520];
const INPUTS: &[DType] = &[DType::Bf16, DType::F16];
const TYPES: &[DType] = &[DType::Bf16, DType::F16, DType::F32];
const BETAS: &[f32] = &[0.0, 1.0, 0.5];
const RUNS: usize = 20;

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for &input in INPUTS {
        for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
            for &columns in COLUMNS {
                let name = format!("kernels: epilogues of {pass:?} {input}, {columns} columns");
                let check = Check::new(name, move |device| epilogues(device, pass, input, columns));
                checks.push(check.emulated_if(input == DType::Bf16 && columns == 24));
            }
        }
        for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
            let name = format!("kernels: {RUNS} runs agree, {input} {kernel:?}");
            checks.push(Check::new(name, move |device| runs_agree(device, input, kernel)));
        }
    }
    checks
}

/// One epilogue.
#[derive(Clone, Copy, Debug)]
struct Epilogue {
    output: DType,
    /// Type of the bias, and whether it has a factor per row.
    bias: Option<(DType, bool)>,
    beta: f32,
}

/// Every output type with every bias and every beta.
fn all_epilogues(pass: Pass) -> Vec<Epilogue> {
    let mut biases = vec![None];
    if pass == Pass::Fprop {
        biases.extend(TYPES.iter().flat_map(|&dtype| [Some((dtype, false)), Some((dtype, true))]));
    }
    let mut all = Vec::new();
    for &output in TYPES {
        for &bias in &biases {
            all.extend(BETAS.iter().map(|&beta| Epilogue { output, bias, beta }));
        }
    }
    all
}

/// A product whose epilogue is still open.
struct Product {
    pass: Pass,
    columns: usize,
    a: Tensor,
    /// Weights, or X for wgrad.
    b: Tensor,
    splits: Splits,
    row_scales: Vec<f32>,
    /// FP64 sums, and the sums of the absolute values of their terms.
    sums: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Product {
    fn new(stream: &Stream, pass: Pass, input: DType, columns: usize, exact: bool) -> Result<Self> {
        let sizes = match pass {
            Pass::Fprop => Sizes { groups: GROUPS, rows: ROWS, k: OTHER, n: columns, dtype: input },
            _ => Sizes { groups: GROUPS, rows: ROWS, k: columns, n: OTHER, dtype: input },
        };
        let new = if exact { Host::exact } else { Host::real };
        let host = new(sizes, &SPLITS, columns as u64);
        let tensor =
            |shape: &[usize], values: &[f32]| Tensor::from_f32(stream, shape, input, values);
        let x = tensor(&[ROWS, sizes.k], &host.x)?;
        let dy = tensor(&[ROWS, sizes.n], &host.dy)?;
        let weights = tensor(&[GROUPS, sizes.n, sizes.k], &host.weights)?;
        // The numbers that the tensors hold, after rounding.
        let wide = |values: &[f32], map: fn(f64) -> f64| -> Vec<f64> {
            let held = values.iter().map(|&v| f64::from(value(bits(v, input), input)));
            held.map(map).collect()
        };
        let offsets = host.offsets();
        let groups = Groups { row_offsets: &offsets, out_features: sizes.n, in_features: sizes.k };
        let sum = |map: fn(f64) -> f64| -> Result<Vec<f64>> {
            let (x, dy, w) = (wide(&host.x, map), wide(&host.dy, map), wide(&host.weights, map));
            let mut d =
                vec![0.0; if pass == Pass::Wgrad { GROUPS * OTHER } else { LIVE } * columns];
            match pass {
                Pass::Fprop => plain::fprop(&groups, &x, &w, &mut d)?,
                Pass::Dgrad => plain::dgrad(&groups, &dy, &w, &mut d)?,
                Pass::Wgrad => plain::wgrad(&groups, &dy, &x, &mut d)?,
            }
            Ok(d)
        };
        let (sums, magnitudes) = (sum(|v| v)?, sum(f64::abs)?);
        let (a, b) = match pass {
            Pass::Fprop => (x, weights),
            Pass::Dgrad => (dy, weights),
            Pass::Wgrad => (dy, x),
        };
        let counts = SPLITS.map(|split| split as i32);
        let splits = Splits::device(Tensor::from_slice(stream, &[GROUPS], &counts)?)?;
        let row_scales = host.row_scales;
        Ok(Self { pass, columns, a, b, splits, row_scales, sums, magnitudes })
    }

    fn group_of(&self, index: usize) -> usize {
        match self.pass {
            Pass::Wgrad => index / (OTHER * self.columns),
            _ if index / self.columns < SPLITS[0] => 0,
            _ => 2,
        }
    }

    /// What the output holds before: drawn where beta reads it, else NaN.
    fn before(&self, epilogue: &Epilogue, generator: &mut Generator, exact: bool) -> Vec<f32> {
        let count = if self.pass == Pass::Wgrad { self.sums.len() } else { ROWS * self.columns };
        (0..count)
            .map(|_| {
                let drawn = draw(generator, epilogue.output, exact);
                if epilogue.beta == 0.0 { f32::NAN } else { drawn }
            })
            .collect()
    }

    /// The output's bits after one call.
    fn run(
        &self,
        stream: &Stream,
        epilogue: &Epilogue,
        kernel: KernelChoice,
        before: &[f32],
        bias: &[f32],
    ) -> Result<Vec<u32>> {
        let beta = Factor::Value(epilogue.beta);
        let options = GemmOptions { beta, kernel, ..GemmOptions::default() };
        let (columns, splits) = (self.columns, &self.splits);
        let shape: &[usize] = match self.pass {
            Pass::Wgrad => &[GROUPS, OTHER, columns],
            _ => &[ROWS, columns],
        };
        let mut d = Tensor::from_f32(stream, shape, epilogue.output, before)?;
        match self.pass {
            Pass::Fprop => {
                let scales = Tensor::from_slice(stream, &[ROWS], &self.row_scales)?;
                let bias = match epilogue.bias {
                    None => None,
                    Some((dtype, _)) => Some(GroupedTensor::packed(Tensor::from_f32(
                        stream,
                        &[GROUPS, columns],
                        dtype,
                        bias,
                    )?)?),
                };
                let scaled = epilogue.bias.is_some_and(|(_, scaled)| scaled);
                let args = FpropArgs {
                    x: &self.a,
                    weights: &GroupedTensor::packed(self.b.clone())?,
                    splits,
                    bias: bias.as_ref(),
                    bias_row_scales: scaled.then_some(&scales),
                    options,
                };
                fprop(stream, &args, &mut d)?;
            }
            Pass::Dgrad => {
                let weights = &GroupedTensor::packed(self.b.clone())?;
                dgrad(stream, &DgradArgs { dy: &self.a, weights, splits, options }, &mut d)?;
            }
            Pass::Wgrad => {
                let args = WgradArgs { dy: &self.a, x: &self.b, splits, options };
                wgrad(stream, &args, &mut GroupedTensor::packed(d.clone())?)?;
            }
        }
        tensor_bits(stream, &d)
    }

    /// The FP64 values of the live elements, and the sums of the absolute values of their terms.
    fn expected(&self, epilogue: &Epilogue, before: &[f32], bias: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let both = (0..self.sums.len()).map(|index| {
            let (row, column) = (index / self.columns, index % self.columns);
            let bias = epilogue.bias.map_or(0.0, |(_, scaled)| {
                let scale = if scaled { self.row_scales[row] } else { 1.0 };
                f64::from(scale) * f64::from(bias[self.group_of(index) * self.columns + column])
            });
            // Not read where beta is 0.
            let former = match epilogue.beta {
                0.0 => 0.0,
                beta => f64::from(beta) * f64::from(before[index]),
            };
            let magnitude = self.magnitudes[index] + bias.abs() + former.abs();
            (self.sums[index] + bias + former, magnitude)
        });
        both.unzip()
    }
}

/// A number that the type holds exactly.
fn draw(generator: &mut Generator, dtype: DType, exact: bool) -> f32 {
    let drawn = if exact { crate::host::small(generator) } else { generator.value() };
    value(bits(drawn, dtype), dtype)
}

/// Exact numbers: both kernels give the known bits. Real ones: both are close to FP64.
fn epilogues(device: &Device, pass: Pass, input: DType, columns: usize) -> Outcome {
    let stream = device.stream()?;
    for exact in [true, false] {
        let product = Product::new(&stream, pass, input, columns, exact)?;
        let mut generator = Generator::new(columns as u64 + 1);
        for epilogue in all_epilogues(pass) {
            let before = product.before(&epilogue, &mut generator, exact);
            let bias_type = epilogue.bias.map_or(DType::F32, |(dtype, _)| dtype);
            let bias: Vec<f32> =
                (0..GROUPS * columns).map(|_| draw(&mut generator, bias_type, exact)).collect();
            let (want, magnitude) = product.expected(&epilogue, &before, &bias);
            let dtype = epilogue.output;
            let held: Vec<u32> = before.iter().map(|&value| bits(value, dtype)).collect();
            for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
                let what = format!("{epilogue:?} {kernel:?}");
                let got = product.run(&stream, &epilogue, kernel, &before, &bias)?;
                let (live, tail) = got.split_at(want.len());
                equal_bits(&format!("{what}, past the last group"), tail, &held[live.len()..])?;
                if exact {
                    equal_values(&what, dtype, live, &rounded(&want, dtype))?;
                    continue;
                }
                let live: Vec<f32> = live.iter().map(|&bits| value(bits, dtype)).collect();
                compare(&what, dtype, &live, &want, &magnitude, &|index| Location {
                    expert: product.group_of(index),
                    row: index / columns,
                    column: index % columns,
                })?;
            }
        }
    }
    Ok(())
}

/// A result that changes from run to run is a race. A second stream keeps the device busy, so that
/// blocks come and go in another order each time.
fn runs_agree(device: &Device, dtype: DType, kernel: KernelChoice) -> Outcome {
    let (stream, beside) = (device.stream()?, device.stream()?);
    let sizes = Sizes { groups: 8, rows: 8192, k: 1024, n: 1032, dtype };
    let splits = [1000, 1, 0, 3000, 129, 1500, 63, 2400];
    let host = Host::real(sizes, &splits, 900);
    let inputs = Inputs::of(&stream, &host, Layout::Packed, DType::I64)?;
    stream.synchronize()?;
    let mut outputs = Outputs::new(&stream, sizes, Layout::Packed)?;
    let mut others = Outputs::new(&beside, sizes, Layout::Packed)?;
    run_all(&stream, &inputs, &mut outputs, kernel)?;
    let first = outputs.bits(&stream)?;
    for run in 1..RUNS {
        outputs.poison(&stream)?;
        others.poison(&beside)?;
        run_all(&beside, &inputs, &mut others, kernel)?;
        run_all(&stream, &inputs, &mut outputs, kernel)?;
        let (own, other) = (outputs.bits(&stream)?, others.bits(&beside)?);
        for (i, result) in RESULTS.iter().enumerate() {
            equal_bits(&format!("run {run}: {result}"), &own[i], &first[i])?;
            equal_bits(&format!("run {run}, other stream: {result}"), &other[i], &first[i])?;
        }
    }
    Ok(())
}
