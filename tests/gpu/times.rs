//! Kernels that are timed one by one.

use std::time::Duration;

use grouped_linear::functional::{DbiasArgs, FpropArgs, GemmOptions, dbias, fprop};
use grouped_linear::plan::KernelRole;
use grouped_linear::{Accumulate, DType, Device, Error, KernelChoice, Stream};

use crate::device::{Inputs, Layout, Outputs, run_all};
use crate::host::{Host, RESULTS, Sizes, equal_bits};
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 4, rows: 8192, k: 2048, n: 2048, dtype: DType::Bf16 };
const SPLITS: [usize; 4] = [4096, 0, 2000, 2000];

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("times: the kernels of operations, in their order", operations),
        Check::new("times: the same bits as untimed", same_bits),
        Check::new("times: what is refused leaves the stream as it was", refused),
    ]
}

fn inputs(stream: &Stream) -> grouped_linear::Result<(Inputs, Outputs)> {
    let inputs = Inputs::of(stream, &Host::real(SIZES, &SPLITS, 31), Layout::Packed, DType::I64)?;
    Ok((inputs, Outputs::new(stream, SIZES, Layout::Packed)?))
}

/// A product of 69 GFLOP takes no GPU less than 30 µs, and its set-up less than that.
fn operations(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let (inputs, mut outputs) = inputs(&stream)?;
    let Inputs { layer, x, dy, splits, .. } = &inputs;
    let mut run = |stream: &Stream| {
        let options = GemmOptions::default();
        let (bias, bias_row_scales) = (None, None);
        let weights = layer.weights();
        let args = FpropArgs { x, weights, splits, bias, bias_row_scales, options };
        fprop(stream, &args, &mut outputs.y)?;
        let (row_scales, accumulate) = (None, Accumulate::Overwrite);
        dbias(stream, &DbiasArgs { dy, splits, row_scales, accumulate }, &mut outputs.db)
    };
    run(&stream)?;
    let start = stream.record()?;
    let times = stream.kernel_times(run)?;
    let whole = start.elapsed_until(&stream.record()?)?;
    let roles: Vec<KernelRole> = times.iter().map(|kernel| kernel.role).collect();
    let product = match times.get(1).map(|kernel| (kernel.name, kernel.role)) {
        Some((name, role @ (KernelRole::GemmSm90(..) | KernelRole::GemmSm100(_))))
            if name.contains("fprop") =>
        {
            role
        }
        other => return Err(format!("the second kernel is {other:?}").into()),
    };
    let (setup, partial, reduce) =
        (KernelRole::PointerSetup, KernelRole::DbiasPartial, KernelRole::DbiasReduce);
    if roles != [setup, product, setup, partial, reduce] {
        return Err(format!("{times:?}").into());
    }
    let sum: Duration = times.iter().map(|kernel| kernel.time).sum();
    let long = times[1].time >= Duration::from_micros(30) && times[0].time < times[1].time;
    if !long || sum > whole || times.iter().any(|kernel| kernel.time.is_zero()) {
        return Err(format!("{whole:?} for {times:?}").into());
    }
    Ok(())
}

fn same_bits(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let (inputs, mut outputs) = inputs(&stream)?;
    run_all(&stream, &inputs, &mut outputs, KernelChoice::Auto)?;
    let want = outputs.bits(&stream)?;
    let (_, mut timed) = self::inputs(&stream)?;
    stream.kernel_times(|stream| run_all(stream, &inputs, &mut timed, KernelChoice::Auto))?;
    for (name, (got, want)) in RESULTS.iter().zip(timed.bits(&stream)?.iter().zip(&want)) {
        equal_bits(name, got, want)?;
    }
    Ok(())
}

fn refused(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let (inputs, mut outputs) = inputs(&stream)?;
    run_all(&stream, &inputs, &mut outputs, KernelChoice::Auto)?;
    stream.synchronize()?;
    let graph = stream.capture(|s| run_all(s, &inputs, &mut outputs, KernelChoice::Auto))?;
    type Work<'a> = &'a dyn Fn(&Stream) -> grouped_linear::Result<()>;
    let nothing: Work<'_> = &|_| Ok(());
    let works: [(&str, Work<'_>); 4] = [
        ("a capture while", &|s| s.capture(nothing).map(drop)),
        ("the replay of a graph while", &|s| graph.launch(s)),
        ("timed already", &|s| s.kernel_times(nothing).map(drop)),
        ("of the caller", &|_| Err(Error::unsupported("of the caller"))),
    ];
    for (part, work) in works {
        match stream.kernel_times(work) {
            Err(error) if error.to_string().contains(part) => {}
            other => return Err(format!("{part}: {other:?}").into()),
        }
        // Nothing is timed any more.
        graph.launch(&stream)?;
        stream.synchronize()?;
    }
    let error = stream.capture(|s| s.kernel_times(nothing).map(drop)).err();
    if !error.is_some_and(|error| error.to_string().contains("cannot be recorded in a graph")) {
        return Err("kernels were timed in a capture".into());
    }
    Ok(())
}
