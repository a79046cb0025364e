//! Two streams at once: the same bits as one after the other, memory that outlives its last handle,
//! and order where events ask for it.

use grouped_linear::functional::{DgradArgs, FpropArgs, GemmOptions, dgrad, fprop};
use grouped_linear::{
    BiasUse, DType, Device, Event, Factor, ForwardOptions, Grads, GroupedTensor, KernelChoice,
    Result, Splits, Stream, Tensor,
};

use crate::device::{Inputs, Layout, Outputs, grouped_bits, run_all, tensor_bits, write_groups};
use crate::host::{Host, RESULTS, Sizes, equal_bits};
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 5, rows: 2000, k: 264, n: 520, dtype: DType::Bf16 };

/// Steps use these in turn.
const SPLITS: &[[usize; 5]] = &[
    [400, 400, 400, 400, 400],
    [0, 1000, 129, 0, 500],
    [1, 2, 3, 4, 5],
    [0, 0, 2000, 0, 0],
    [0, 0, 0, 0, 0],
    [700, 64, 65, 1100, 71],
    [255, 257, 0, 511, 0],
];

const STEPS: usize = 50;

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("streams: two, filled by one thread", |device| two_streams(device, false)),
        Check::new("streams: two, filled by two threads", |device| two_streams(device, true)),
        Check::new("streams: two graphs at once", two_graphs),
        Check::new("streams: what is dropped is kept for the other stream", dropped_while_used),
        Check::new("streams: events order a chain", chain),
        Check::new("streams: splits of one stream on another", host_splits_on_two_streams),
    ]
}

/// Inputs for every entry of [`SPLITS`], ready for all streams.
fn problems(stream: &Stream) -> Result<Vec<Inputs>> {
    let all: Result<Vec<Inputs>> = SPLITS
        .iter()
        .enumerate()
        .map(|(i, splits)| {
            let layout = if i % 2 == 0 { Layout::Packed } else { Layout::Discrete };
            let counts = if i % 3 == 0 { DType::I32 } else { DType::I64 };
            Inputs::of(stream, &Host::real(SIZES, splits, 400 + i as u64), layout, counts)
        })
        .collect();
    stream.synchronize()?;
    all
}

/// Forward and backward of the layer into new tensors.
fn step(stream: &Stream, inputs: &Inputs) -> Result<(Tensor, Grads)> {
    let Inputs { layer, x, dy, row_scales, splits, .. } = inputs;
    let options =
        ForwardOptions { bias: BiasUse::RowScaled(row_scales), ..ForwardOptions::default() };
    let (y, saved) = layer.forward(stream, x, splits, options)?;
    Ok((y, layer.backward(stream, saved, dy)?))
}

/// The bits of the live rows of all results of a step.
fn step_bits(stream: &Stream, which: usize, (y, grads): &(Tensor, Grads)) -> Result<Vec<Vec<u32>>> {
    let live: usize = SPLITS[which].iter().sum();
    let mut bits = vec![
        tensor_bits(stream, &y.narrow(0, live)?)?,
        tensor_bits(stream, &grads.dx.narrow(0, live)?)?,
        grouped_bits(stream, &grads.dw)?,
    ];
    if let (Some(db), Some(dscales)) = (&grads.db, &grads.dscales) {
        bits.push(grouped_bits(stream, db)?);
        bits.push(tensor_bits(stream, &dscales.narrow(0, live)?)?);
    }
    Ok(bits)
}

fn two_streams(device: &Device, two_threads: bool) -> Outcome {
    let streams = [device.stream()?, device.stream()?];
    let problems = problems(&streams[0])?;
    let mut serial = Vec::new();
    for (which, inputs) in problems.iter().enumerate() {
        serial.push(step_bits(&streams[0], which, &step(&streams[0], inputs)?)?);
    }

    // The streams run through the problems with different strides.
    let which = |stream: usize, step: usize| (step * (stream + 1) + stream) % SPLITS.len();
    // Every third result is dropped at once, while the device still writes it, so that memory moves
    // from one step to another all the time.
    let keeps = |step: usize| step % 3 != 2;
    let run = |index: usize, steps: std::ops::Range<usize>| -> Result<Vec<_>> {
        let mut kept = Vec::new();
        for number in steps {
            let which = which(index, number);
            let results = step(&streams[index], &problems[which])?;
            if keeps(number) {
                kept.push((which, results));
            }
        }
        Ok(kept)
    };
    let results = if two_threads {
        std::thread::scope(|scope| {
            let threads = [0, 1].map(|index| scope.spawn(move || run_steps(&run, index)));
            threads.map(|thread| thread.join().expect("the thread does not panic"))
        })
    } else {
        let mut results = [Ok(Vec::new()), Ok(Vec::new())];
        for number in 0..STEPS {
            for (index, results) in results.iter_mut().enumerate() {
                if let Ok(kept) = results {
                    match run(index, number..number + 1) {
                        Ok(more) => kept.extend(more),
                        Err(error) => *results = Err(error),
                    }
                }
            }
        }
        results
    };
    for (index, results) in results.into_iter().enumerate() {
        for (number, (which, results)) in results?.into_iter().enumerate() {
            let bits = step_bits(&streams[index], which, &results)?;
            for (i, result) in RESULTS.iter().enumerate() {
                let what = format!("stream {index}, kept result {number}, {result}");
                equal_bits(&what, &bits[i], &serial[which][i])?;
            }
        }
    }
    Ok(())
}

/// All steps of one stream.
fn run_steps<T>(run: &impl Fn(usize, std::ops::Range<usize>) -> T, index: usize) -> T {
    run(index, 0..STEPS)
}

/// Graphs have scratch memory and status blocks of their own, so two may run at once, beside eager
/// work.
fn two_graphs(device: &Device) -> Outcome {
    let streams = [device.stream()?, device.stream()?];
    let third = device.stream()?;
    let problems = problems(&streams[0])?;
    let mut serial = Vec::new();
    let (mut graphs, mut outputs) = (Vec::new(), Vec::new());
    for (stream, inputs) in streams.iter().zip(&problems) {
        let mut results = Outputs::new(stream, SIZES, Layout::Packed)?;
        run_all(stream, inputs, &mut results, KernelChoice::Auto)?;
        serial.push(results.bits(stream)?);
        graphs.push(stream.capture(|s| run_all(s, inputs, &mut results, KernelChoice::Auto))?);
        results.poison(stream)?;
        outputs.push(results);
    }
    let mut beside = Outputs::new(&third, SIZES, Layout::Packed)?;
    for _ in 0..STEPS {
        for (graph, stream) in graphs.iter().zip(&streams) {
            graph.launch(stream)?;
        }
        run_all(&third, &problems[5], &mut beside, KernelChoice::Auto)?;
    }
    third.synchronize()?;
    for (i, stream) in streams.iter().enumerate() {
        let bits = outputs[i].bits(stream)?;
        for (result, name) in RESULTS.iter().enumerate() {
            equal_bits(&format!("graph {i}: {name}"), &bits[result], &serial[i][result])?;
        }
    }
    Ok(())
}

/// Everything that stream B reads is allocated on A and dropped before B has come to it. A then
/// takes memory of the same sizes and overwrites it.
fn dropped_while_used(device: &Device) -> Outcome {
    let (a, b) = (device.stream()?, device.stream()?);
    let problems = problems(&a)?;
    let mut outputs = Vec::new();
    let mut expected = Vec::new();
    for inputs in &problems {
        let mut results = Outputs::new(&b, SIZES, Layout::Packed)?;
        run_all(&b, inputs, &mut results, KernelChoice::Auto)?;
        expected.push(results.bits(&b)?);
        results.poison(&b)?;
        outputs.push(results);
    }
    b.synchronize()?;
    let mut ballast = Tensor::empty(&b, &[1 << 30], DType::Bf16)?;
    let nan = vec![f32::NAN; SIZES.rows * SIZES.n];
    for turn in 0..3 {
        for (which, results) in outputs.iter_mut().enumerate() {
            let copy = copy_of(&a, &problems[which], (which + turn) % 2 == 0)?;
            b.wait(&a.record()?)?;
            // Two gigabytes of zeros keep B busy for half a millisecond: it is behind A.
            ballast.fill_zero(&b)?;
            run_all(&b, &copy, results, KernelChoice::Auto)?;
            drop(copy);
            let shapes: [&[usize]; 4] = [
                &[SIZES.rows, SIZES.k],
                &[SIZES.rows, SIZES.n],
                &[SIZES.groups, SIZES.n, SIZES.k],
                &[SIZES.n, SIZES.k],
            ];
            for shape in shapes {
                let count: usize = shape.iter().product();
                let mut other = Tensor::empty(&a, shape, SIZES.dtype)?;
                other.write_f32(&a, &nan.repeat(count.div_ceil(nan.len()))[..count])?;
            }
            let mut other = Tensor::empty(&a, &[SIZES.groups], DType::I64)?;
            other.write(&a, &[-7i64; SIZES.groups])?;
        }
        for (which, results) in outputs.iter().enumerate() {
            let bits = results.bits(&b)?;
            for (i, name) in RESULTS.iter().enumerate() {
                let what = format!("turn {turn}, problem {which}: {name}");
                equal_bits(&what, &bits[i], &expected[which][i])?;
            }
            results.poison(&b)?;
        }
        // The next turn's copies must not wait for the poison by chance.
        b.synchronize()?;
    }
    Ok(())
}

/// The same problem in new tensors of the stream.
fn copy_of(stream: &Stream, inputs: &Inputs, discrete: bool) -> Result<Inputs> {
    let layout = if discrete { Layout::Discrete } else { Layout::Packed };
    let mut copy = Inputs::new(stream, SIZES, layout, inputs.counts.dtype())?;
    copy.x.copy_from(stream, &inputs.x)?;
    copy.dy.copy_from(stream, &inputs.dy)?;
    copy.row_scales.copy_from(stream, &inputs.row_scales)?;
    copy.counts.copy_from(stream, &inputs.counts)?;
    let pairs = [(copy.layer.weights(), inputs.layer.weights())]
        .into_iter()
        .chain(copy.layer.bias().zip(inputs.layer.bias()));
    for (to, from) in pairs {
        for group in 0..SIZES.groups {
            to.group(group)?.copy_from(stream, &from.group(group)?)?;
        }
    }
    Ok(copy)
}

/// Fprop on one stream and dgrad on the other pass two buffers to and fro; every step reads what
/// the other stream wrote just before.
fn chain(device: &Device) -> Outcome {
    const ROWS: usize = 4096;
    const FEATURES: usize = 1024;
    let streams = [device.stream()?, device.stream()?];
    let sizes = Sizes { groups: 2, rows: ROWS, k: FEATURES, n: FEATURES, dtype: DType::Bf16 };
    let host = Host::real(sizes, &[1500, 2500], 77);
    let home = &streams[0];
    let weights = Tensor::empty(home, &[2, FEATURES, FEATURES], DType::Bf16)?;
    let weights = GroupedTensor::packed(weights)?;
    write_groups(home, &weights, &host.weights)?;
    let splits = Splits::device(Tensor::from_slice(home, &[2], &[1500i32, 2500])?)?;
    let mut x = Tensor::empty(home, &[ROWS, FEATURES], DType::Bf16)?;
    let mut y = Tensor::zeros(home, &[ROWS, FEATURES], DType::Bf16)?;
    // The largest singular value of such weights is about 2 · 0.58 · √FEATURES: neither growth nor
    // decay.
    let alpha = 1.0 / (2.0 * 0.58 * (FEATURES as f32).sqrt());
    let options = GemmOptions { alpha: Factor::Value(alpha), ..GemmOptions::default() };

    let mut run = |streams: [&Stream; 2]| -> Result<Vec<u32>> {
        x.write_f32(home, &host.x)?;
        y.fill_zero(home)?;
        let mut done: Event = home.record()?;
        for _ in 0..STEPS {
            let [first, second] = streams;
            first.wait(&done)?;
            let args = FpropArgs {
                x: &x,
                weights: &weights,
                splits: &splits,
                bias: None,
                bias_row_scales: None,
                options,
            };
            fprop(first, &args, &mut y)?;
            second.wait(&first.record()?)?;
            let args = DgradArgs { dy: &y, weights: &weights, splits: &splits, options };
            dgrad(second, &args, &mut x)?;
            done = second.record()?;
        }
        home.wait(&done)?;
        tensor_bits(home, &x.narrow(0, 4000)?)
    };
    let serial = run([&streams[0], &streams[0]])?;
    if serial.iter().all(|&bits| bits & 0x7fff == 0) {
        return Err("the chain decays to nothing, so it shows nothing".into());
    }
    for turn in 0..3 {
        let chained = run([&streams[0], &streams[1]])?;
        equal_bits(&format!("turn {turn}: two streams against one"), &chained, &serial)?;
    }
    Ok(())
}

/// Host splits are uploaded once per stream, by whichever comes first.
fn host_splits_on_two_streams(device: &Device) -> Outcome {
    let streams = [device.stream()?, device.stream()?];
    let problems = problems(&streams[0])?;
    for (which, inputs) in problems.iter().enumerate() {
        let splits = Splits::host(&SPLITS[which])?;
        let want = tensor_bits(&streams[0], &step(&streams[0], inputs)?.1.dx)?;
        let live = SPLITS[which].iter().sum::<usize>() * SIZES.k;
        for stream in [&streams[0], &streams[1], &device.stream()?] {
            let mut dx = Tensor::empty(stream, &[SIZES.rows, SIZES.k], SIZES.dtype)?;
            let (weights, options) = (inputs.layer.weights(), GemmOptions::default());
            let args = DgradArgs { dy: &inputs.dy, weights, splits: &splits, options };
            dgrad(stream, &args, &mut dx)?;
            let got = tensor_bits(stream, &dx)?;
            equal_bits(&format!("problem {which}"), &got[..live], &want[..live])?;
        }
    }
    Ok(())
}
