//! Host cost of a plan, of a forward call, of the driver's part in it and of a replay, and the
//! speed of the CPU reference.

// The macros of criterion make public functions without documentation.
#![allow(missing_docs)]

mod bare;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bare::Bare;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use grouped_linear::plan::{BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Target};
use grouped_linear::{
    CapturedLayer, Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Result,
    Splits, Stream, Tensor,
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
    // On Blackwell two kernels are weighed against each other.
    for (name, compute_capability, multiprocessors) in
        [("plan", (9, 0), 132), ("plan_blackwell", (10, 0), 148)]
    {
        let target = Target { gpu: Some(GpuTarget { compute_capability, multiprocessors }) };
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| Plan::new(black_box(problem).into(), target));
        });
    }
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

    fn forward(&mut self, stream: &Stream) -> Result<()> {
        let options = ForwardOptions::default();
        let saved = self.layer.forward_into(stream, &self.x, &self.splits, options, &mut self.y)?;
        drop(saved);
        Ok(())
    }
}

/// Calls of which the launch queue takes all without waiting.
const BATCH: u64 = 100;

/// Host time of work that the GPU is given: it is never waited for inside the measured batches.
fn host_time(criterion: &mut Criterion, name: &str, stream: &Stream, mut work: impl FnMut()) {
    criterion.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let batch = left.min(BATCH);
                let start = Instant::now();
                (0..batch).for_each(|_| work());
                total += start.elapsed();
                stream.synchronize().expect("synchronize");
                left -= batch;
            }
            total
        });
    });
}

/// A forward call into the caller's buffer, the driver's work in it without the call, the same as
/// plain launches, and its replay.
fn forward_host_cost(criterion: &mut Criterion) {
    let Ok(device) = Device::cuda(0) else {
        return println!("forward_host_cost: skipped: no CUDA device");
    };
    let config = Config { groups: 8, in_features: 256, out_features: 256, dtype: DType::Bf16 };
    let mut call = Call::new(&device, config, 1024).expect("operands");
    let stream = call.stream.clone();
    call.forward(&stream).expect("forward");

    host_time(criterion, "forward_host_cost", &stream, || call.forward(&stream).expect("forward"));

    let bare = Bare::record(&stream, |lent| call.forward(lent)).expect("recorded launches");
    println!("{} launches", bare.len());
    host_time(criterion, "driver_graph", &stream, || bare.launch_as_graph());
    host_time(criterion, "driver_launches", &stream, || bare.launch_each());

    let graph = stream.capture(|stream| call.forward(stream)).expect("graph");
    host_time(criterion, "replay_host_cost", &stream, || graph.launch(&stream).expect("replay"));

    let mut captured = CapturedLayer::new(call.layer.clone());
    host_time(criterion, "captured_layer_host_cost", &stream, || {
        let Call { x, y, splits, .. } = &mut call;
        let options = ForwardOptions::default();
        drop(captured.forward_into(&stream, x, splits, options, y).expect("replay"));
    });
}

fn reference_forward(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reference_forward");
    let (rows, k, n) = (1024, 256, 256);
    group.throughput(Throughput::Elements((2 * rows * k * n) as u64));
    for dtype in [DType::F32, DType::Bf16] {
        let config = Config { groups: 8, in_features: k, out_features: n, dtype };
        let mut call = Call::new(&Device::cpu(), config, rows).expect("operands");
        let stream = call.stream.clone();
        group.bench_function(dtype.to_string(), |bencher| {
            bencher.iter(|| call.forward(&stream).expect("forward"));
        });
    }
    group.finish();
}

criterion_group!(benches, plan, forward_host_cost, reference_forward);
criterion_main!(benches);
