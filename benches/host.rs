//! Host cost of a plan and of a forward call, and the speed of the CPU reference.

// The macros of criterion make public functions without documentation.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use grouped_linear::plan::{BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Target};
use grouped_linear::{
    Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Result, Splits, Stream,
    Tensor,
};

/// A plan for a GPU is plain arithmetic, so every machine can measure it.
fn plan(criterion: &mut Criterion) {
    let problem = GemmProblem {
        pass: Pass::Fprop,
        groups: 64,
        rows: 32768,
        in_features: 2048,
        out_features: 2048,
        input: DType::Bf16,
        output: DType::Bf16,
        bias: BiasKind::None,
        kernel: KernelChoice::Auto,
    };
    let gpu = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
    let target = Target { gpu: Some(gpu) };
    criterion.bench_function("plan", |bencher| {
        bencher.iter(|| Plan::new(black_box(problem).into(), target));
    });
}

/// A layer, its input, output and splits.
struct Call {
    stream: Stream,
    layer: GroupedLinear,
    x: Tensor,
    y: Tensor,
    splits: Splits,
}

impl Call {
    fn new(device: &Device, config: Config, rows: usize) -> Result<Self> {
        let stream = device.stream()?;
        let Config { groups, in_features: k, out_features: n, dtype } = config;
        let values = |count: usize| -> Vec<f32> {
            (0..count).map(|i| ((i * 2_654_435_761) % 2048) as f32 / 1024.0 - 1.0).collect()
        };
        let w = Tensor::from_f32(&stream, &[groups, n, k], dtype, &values(groups * n * k))?;
        let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(w)?, None)?;
        let counts = vec![(rows / groups) as i64; groups];
        Ok(Self {
            layer,
            x: Tensor::from_f32(&stream, &[rows, k], dtype, &values(rows * k))?,
            y: Tensor::zeros(&stream, &[rows, n], dtype)?,
            splits: Splits::device(Tensor::from_slice(&stream, &[groups], &counts)?)?,
            stream,
        })
    }

    fn forward(&mut self) -> Result<()> {
        let options = ForwardOptions::default();
        let saved =
            self.layer.forward_into(&self.stream, &self.x, &self.splits, options, &mut self.y)?;
        drop(saved);
        Ok(())
    }
}

/// Host time of a forward call into the caller's buffer: the GPU is never waited for inside the
/// measured batches, and each batch is short enough for the launch queue.
fn forward_host_cost(criterion: &mut Criterion) {
    let Ok(device) = Device::cuda(0) else {
        return println!("forward_host_cost: skipped: no CUDA device");
    };
    let config = Config { groups: 8, in_features: 256, out_features: 256, dtype: DType::Bf16 };
    let mut call = Call::new(&device, config, 1024).expect("operands");
    criterion.bench_function("forward_host_cost", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let batch = left.min(100);
                let start = Instant::now();
                for _ in 0..batch {
                    call.forward().expect("forward");
                }
                total += start.elapsed();
                call.stream.synchronize().expect("synchronize");
                left -= batch;
            }
            total
        });
    });
}

fn reference_forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reference_forward");
    let (rows, k, n) = (1024, 256, 256);
    group.throughput(Throughput::Elements((2 * rows * k * n) as u64));
    for dtype in [DType::F32, DType::Bf16] {
        let config = Config { groups: 8, in_features: k, out_features: n, dtype };
        let mut call = Call::new(&Device::cpu(), config, rows).expect("operands");
        group.bench_function(dtype.to_string(), |bencher| {
            bencher.iter(|| call.forward().expect("forward"));
        });
    }
    group.finish();
}

criterion_group!(benches, plan, forward_host_cost, reference_forward);
criterion_main!(benches);
