//! GPU time of every pass, measured with events: the tensor-core kernels beside the `simt` rung of
//! the ladder, and the reductions.

// The macros of criterion make public functions without documentation.
#![allow(missing_docs)]

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use grouped_linear::functional::{
    Accumulate, DbiasArgs, DgradArgs, FpropArgs, GemmOptions, WgradArgs, dbias, dgrad, fprop, wgrad,
};
use grouped_linear::{DType, Device, GroupedTensor, KernelChoice, Result, Splits, Stream, Tensor};

const GROUPS: usize = 8;
const ROWS: usize = 8192;
const FEATURES: usize = 2048; // in and out

struct Operands {
    x: Tensor,
    dy: Tensor,
    weights: GroupedTensor,
    splits: Splits,
    y: Tensor,
    dw: GroupedTensor,
    db: GroupedTensor,
}

impl Operands {
    fn new(stream: &Stream) -> Result<Self> {
        let random = |shape: &[usize]| {
            let count = shape.iter().product::<usize>() as u64;
            let values: Vec<f32> = (0..count)
                .map(|i| {
                    let bits = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    ((bits ^ (bits >> 29)) % 4096) as f32 / 2048.0 - 1.0
                })
                .collect();
            Tensor::from_f32(stream, shape, DType::Bf16, &values)
        };
        let square = [GROUPS, FEATURES, FEATURES];
        // Uneven on purpose: 512 rows less here, 512 more there.
        let counts: Vec<i32> = (0..GROUPS as i32).map(|g| 1024 + 512 * (g % 2 * 2 - 1)).collect();
        Ok(Self {
            x: random(&[ROWS, FEATURES])?,
            dy: random(&[ROWS, FEATURES])?,
            weights: GroupedTensor::packed(random(&square)?)?,
            splits: Splits::device(Tensor::from_slice(stream, &[GROUPS], &counts)?)?,
            y: Tensor::zeros(stream, &[ROWS, FEATURES], DType::Bf16)?,
            dw: GroupedTensor::packed(Tensor::zeros(stream, &square, DType::Bf16)?)?,
            db: GroupedTensor::packed(Tensor::zeros(stream, &[GROUPS, FEATURES], DType::Bf16)?)?,
        })
    }

    fn run(&mut self, stream: &Stream, pass: &str, kernel: KernelChoice) -> Result<()> {
        let options = GemmOptions { kernel, ..GemmOptions::default() };
        let (x, dy, weights, splits) = (&self.x, &self.dy, &self.weights, &self.splits);
        match pass {
            "fprop" => {
                let args =
                    FpropArgs { x, weights, splits, bias: None, bias_row_scales: None, options };
                fprop(stream, &args, &mut self.y)
            }
            "dgrad" => dgrad(stream, &DgradArgs { dy, weights, splits, options }, &mut self.y),
            "wgrad" => wgrad(stream, &WgradArgs { dy, x, splits, options }, &mut self.dw),
            _ => {
                let accumulate = Accumulate::Overwrite;
                let args = DbiasArgs { dy, splits, row_scales: None, accumulate };
                dbias(stream, &args, &mut self.db)
            }
        }
    }
}

fn kernels(criterion: &mut Criterion) {
    let Ok(device) = Device::cuda(0) else {
        return println!("kernels: skipped: no CUDA device");
    };
    let stream = device.stream().expect("stream");
    let mut operands = Operands::new(&stream).expect("operands");
    let mut group = criterion.benchmark_group("kernels");
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    let cases = [
        ("fprop", KernelChoice::Auto),
        ("dgrad", KernelChoice::Auto),
        ("wgrad", KernelChoice::Auto),
        ("fprop", KernelChoice::Simt),
        ("dgrad", KernelChoice::Simt),
        ("wgrad", KernelChoice::Simt),
        ("dbias", KernelChoice::Auto),
    ];
    for (pass, kernel) in cases {
        let work = if pass == "dbias" {
            Throughput::Bytes((ROWS * FEATURES * 2) as u64)
        } else {
            Throughput::Elements((2 * ROWS * FEATURES * FEATURES) as u64)
        };
        group.throughput(work);
        group.bench_function(format!("{pass}/{kernel:?}"), |bencher| {
            bencher.iter_custom(|iterations| {
                let mut measure = || -> Result<Duration> {
                    let start = stream.record()?;
                    for _ in 0..iterations {
                        operands.run(&stream, pass, kernel)?;
                    }
                    let end = stream.record()?;
                    stream.synchronize()?;
                    start.elapsed_until(&end)
                };
                measure().expect("measurement")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, kernels);
criterion_main!(benches);
