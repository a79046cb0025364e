//! Memory and streams that another library owns. This library plays the other one, too: what counts
//! is that both sides have nothing in common but raw handles.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grouped_linear::functional::{GemmOptions, WgradArgs, wgrad};
use grouped_linear::interop::{device_address, raw_stream, stream_from_raw, tensor_from_raw};
use grouped_linear::{
    DType, Device, GroupedLinear, GroupedTensor, KernelChoice, Result, Splits, Stream, Tensor,
};

use crate::device::{Inputs, Layout, Outputs, run_all, tensor_bits, untouched};
use crate::host::{Host, Sizes, equal_values};
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 3, rows: 200, k: 72, n: 136, dtype: DType::Bf16 };
const SPLITS: [usize; 3] = [65, 0, 130];

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("interop: all operands lent", lent_operands),
        Check::new("interop: addresses that cannot be", refused_addresses),
        Check::new("interop: views inside a lent block", views),
        Check::new("interop: an owner is kept until the work is done", owners),
        Check::new("interop: a lent stream", lent_stream),
        Check::new("interop: the default stream", default_stream),
        Check::new("interop: the lender captures", lender_captures),
    ]
}

/// The tensor once more, by its address alone.
fn lend(device: &Device, tensor: &Tensor) -> Result<Tensor> {
    let address = device_address(tensor).unwrap_or(0);
    lend_to(device, address, tensor.shape(), tensor.dtype(), Arc::new(tensor.clone()))
}

fn lend_to(
    device: &Device,
    address: u64,
    shape: &[usize],
    dtype: DType,
    owner: Arc<dyn Any + Send + Sync>,
) -> Result<Tensor> {
    // SAFETY: every caller gives an address inside a tensor that `owner` holds, with room for the
    // shape, and uses both sides on one stream; or it asserts that it is refused.
    unsafe { tensor_from_raw(device, address, shape, dtype, owner) }
}

/// The stream once more, by its handle alone.
fn lend_stream(device: &Device, stream: &Stream) -> Result<Stream> {
    let handle = raw_stream(stream).unwrap_or(0);
    // SAFETY: the clone keeps the stream alive.
    unsafe { stream_from_raw(device, handle, Arc::new(stream.clone())) }
}

fn lend_groups(device: &Device, stream: &Stream, of: &GroupedTensor) -> Result<GroupedTensor> {
    match of.as_packed() {
        Some(tensor) => GroupedTensor::packed(lend(device, tensor)?),
        None => {
            let each = (0..of.groups()).map(|group| lend(device, &of.group(group)?));
            GroupedTensor::discrete(stream, each.collect::<Result<_>>()?)
        }
    }
}

fn lend_inputs(device: &Device, stream: &Stream, of: &Inputs) -> Result<Inputs> {
    let weights = lend_groups(device, stream, of.layer.weights())?;
    let bias = of.layer.bias().map(|bias| lend_groups(device, stream, bias)).transpose()?;
    let counts = lend(device, &of.counts)?;
    Ok(Inputs {
        layer: GroupedLinear::new(stream, of.layer.config(), weights, bias)?,
        x: lend(device, &of.x)?,
        dy: lend(device, &of.dy)?,
        row_scales: lend(device, &of.row_scales)?,
        splits: Splits::device(counts.clone())?,
        counts,
    })
}

fn lend_outputs(device: &Device, stream: &Stream, of: &Outputs) -> Result<Outputs> {
    Ok(Outputs {
        y: lend(device, &of.y)?,
        dx: lend(device, &of.dx)?,
        dw: lend_groups(device, stream, &of.dw)?,
        db: lend_groups(device, stream, &of.db)?,
        dscales: lend(device, &of.dscales)?,
    })
}

fn lent_operands(device: &Device) -> Outcome {
    let stream = device.stream()?;
    for layout in [Layout::Packed, Layout::Discrete] {
        let host = Host::exact(SIZES, &SPLITS, 81);
        let inputs = Inputs::of(&stream, &host, layout, DType::I32)?;
        let outputs = Outputs::new(&stream, SIZES, layout)?;
        let lent = lend_inputs(device, &stream, &inputs)?;
        let mut lent_outputs = lend_outputs(device, &stream, &outputs)?;
        if device_address(&lent.x) != device_address(&inputs.x) {
            return Err("the address is not the one that was lent".into());
        }
        run_all(&stream, &lent, &mut lent_outputs, KernelChoice::Auto)?;
        drop((lent, lent_outputs));
        outputs.check(&stream, &host, &format!("{layout:?}"))?;

        // Writes go both ways.
        let other = Host::exact(SIZES, &[1, 100, 99], 82);
        lend_inputs(device, &stream, &inputs)?.write(&stream, &other)?;
        let mut outputs = outputs;
        outputs.poison(&stream)?;
        run_all(&stream, &inputs, &mut outputs, KernelChoice::Auto)?;
        outputs.check(&stream, &other, &format!("{layout:?}, written through the loan"))?;
    }
    Ok(())
}

fn refused_addresses(device: &Device) -> Outcome {
    let owner = Tensor::zeros(&device.stream()?, &[64], DType::Bf16)?;
    let address = device_address(&owner).unwrap_or(0);
    let cases: [(&str, u64, &[usize]); 5] = [
        ("null", 0, &[64]),
        ("odd", address + 1, &[1]),
        ("beyond the address space", u64::MAX - 1, &[64]),
        ("more elements than can be counted", address, &[usize::MAX, 2]),
        ("the same beside a zero", address, &[0, usize::MAX, 2]),
    ];
    for (what, address, shape) in cases {
        match lend_to(device, address, shape, DType::Bf16, Arc::new(owner.clone())) {
            Err(error) if error.is_invalid_argument() => {}
            Err(error) => return Err(format!("{what}: refused as something else: {error}").into()),
            Ok(_) => return Err(format!("{what}: was taken").into()),
        }
    }
    let nothing = lend_to(device, 0, &[0, 8], DType::Bf16, Arc::new(owner))?;
    if nothing.shape() != [0, 8] {
        return Err(format!("nothing has shape {:?}", nothing.shape()).into());
    }
    Ok(())
}

/// Views that start at 16-byte boundaries suit the tensor-core kernels; others are refused by name
/// or read by the readable kernel.
fn views(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let host = Host::exact(SIZES, &SPLITS, 83);
    let Sizes { groups, rows, k, n, dtype } = SIZES;
    let splits = Splits::host(&SPLITS)?;
    let (want, results) = (&host.expected()[2], groups * n * k);
    for (offset, fits) in [(0, true), (8, true), (8 * 13, true), (1, false), (4, false)] {
        let block = |count: usize| -> Result<(Tensor, Tensor)> {
            let block = Tensor::zeros(&stream, &[count + 256], dtype)?;
            let address = device_address(&block).unwrap_or(0) + 2 * offset as u64;
            let view = lend_to(device, address, &[count], dtype, Arc::new(block.clone()))?;
            Ok((block, view))
        };
        let ((_, x), (_, dy), (held, dw)) = (block(rows * k)?, block(rows * n)?, block(results)?);
        let (mut x, mut dy) = (x.reshape(&[rows, k])?, dy.reshape(&[rows, n])?);
        x.write_f32(&stream, &host.x)?;
        dy.write_f32(&stream, &host.dy)?;
        let dw = dw.reshape(&[groups, n, k])?;
        for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
            let what = format!("{kernel:?} at element {offset}");
            crate::device::poison_tensor(&stream, &held)?;
            let options = GemmOptions { kernel, ..GemmOptions::default() };
            let args = WgradArgs { dy: &dy, x: &x, splits: &splits, options };
            let outcome = wgrad(&stream, &args, &mut GroupedTensor::packed(dw.clone())?);
            let got = tensor_bits(&stream, &held)?;
            if kernel == KernelChoice::Auto && !fits {
                match outcome {
                    Err(error) if error.is_invalid_argument() => {}
                    outcome => return Err(format!("{what}: {outcome:?}").into()),
                }
                untouched(&what, &got, dtype)?;
                continue;
            }
            outcome?;
            equal_values(&what, dtype, &got[offset..offset + results], want)?;
            untouched(&format!("before {what}"), &got[..offset], dtype)?;
            untouched(&format!("behind {what}"), &got[offset + results..], dtype)?;
        }
    }
    Ok(())
}

/// The owner of lent memory goes after the work, and after the graphs, that use it.
fn owners(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let memory = Tensor::zeros(&stream, &[1 << 20], DType::F32)?;
    let address = device_address(&memory).unwrap_or(0);
    let owner = Arc::new(memory.clone());
    let lent = || lend_to(device, address, &[1 << 20], DType::F32, owner.clone());

    drop(lent()?);
    wait_for(&stream, "never used", || Arc::strong_count(&owner) == 1)?;

    let mut used = lent()?;
    used.fill_zero(&stream)?;
    drop(used);
    stream.synchronize()?;
    wait_for(&stream, "used eagerly", || Arc::strong_count(&owner) == 1)?;

    let mut recorded = lent()?;
    let graph = stream.capture(|s| recorded.fill_zero(s))?;
    drop(recorded);
    stream.synchronize()?;
    if Arc::strong_count(&owner) != 2 {
        return Err("the graph does not hold the owner".into());
    }
    memory.clone().write_f32(&stream, &vec![3.0; 1 << 20])?;
    graph.launch(&stream)?;
    drop(graph);
    if memory.to_f32(&stream)?.iter().any(|&value| value != 0.0) {
        return Err("the replay did not write".into());
    }
    wait_for(&stream, "held by a graph", || Arc::strong_count(&owner) == 1)
}

/// Owners are dropped by whichever thread next looks for finished work, as every synchronisation
/// does; so not at once.
fn wait_for(stream: &Stream, what: &str, condition: impl Fn() -> bool) -> Outcome {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(5) {
            return Err(format!("{what}: the owner is still held").into());
        }
        std::thread::sleep(Duration::from_millis(1));
        stream.synchronize()?;
    }
    Ok(())
}

/// Both sides add work to one stream, in the order of their calls.
fn lent_stream(device: &Device) -> Outcome {
    let lender = device.stream()?;
    let borrowed = lend_stream(device, &lender)?;
    if raw_stream(&borrowed) != raw_stream(&lender) {
        return Err("the handle is not the one that was lent".into());
    }
    let host = Host::exact(SIZES, &SPLITS, 84);
    let mut inputs = Inputs::of(&lender, &host, Layout::Discrete, DType::I64)?;
    let mut outputs = Outputs::new(&lender, SIZES, Layout::Packed)?;
    run_all(&borrowed, &inputs, &mut outputs, KernelChoice::Auto)?;
    outputs.check(&lender, &host, "eager")?;

    // Bad splits are told to the side that used them.
    outputs.poison(&lender)?;
    inputs.write_splits(&lender, &[-1, 2, 3])?;
    run_all(&borrowed, &inputs, &mut outputs, KernelChoice::Auto)?;
    lender.synchronize()?;
    match borrowed.synchronize() {
        Err(error) if error.is_bad_splits() => {}
        outcome => return Err(format!("bad splits: {outcome:?}").into()),
    }
    outputs.check_untouched(&lender, "bad splits")?;

    // A capture through the borrowed handle; the replay on the lender's.
    inputs.write(&lender, &host)?;
    let graph = borrowed.capture(|s| run_all(s, &inputs, &mut outputs, KernelChoice::Auto))?;
    outputs.check_untouched(&lender, "captured")?;
    graph.launch(&lender)?;
    outputs.check(&lender, &host, "replayed")?;
    drop((graph, borrowed));
    run_all(&lender, &inputs, &mut outputs, KernelChoice::Auto)?;
    outputs.check(&lender, &host, "after the loan")?;
    Ok(())
}

/// The legacy default stream is lent as 0.
fn default_stream(device: &Device) -> Outcome {
    // SAFETY: 0 is the legacy default stream.
    let stream = unsafe { stream_from_raw(device, 0, Arc::new(()))? };
    if raw_stream(&stream) != Some(0) {
        return Err("the handle is not 0".into());
    }
    let host = Host::exact(SIZES, &SPLITS, 85);
    let inputs = Inputs::of(&stream, &host, Layout::Packed, DType::I64)?;
    let mut outputs = Outputs::new(&stream, SIZES, Layout::Packed)?;
    run_all(&stream, &inputs, &mut outputs, KernelChoice::Auto)?;
    outputs.check(&stream, &host, "default stream")?;
    // It cannot be captured: an error of the driver, and a stream that still works.
    if stream.capture(|_| Ok(())).is_ok() {
        return Err("the driver captured the legacy default stream".into());
    }
    outputs.poison(&stream)?;
    run_all(&stream, &inputs, &mut outputs, KernelChoice::Auto)?;
    outputs.check(&stream, &host, "default stream, after a capture was refused")?;
    Ok(())
}

/// The other library captures the stream that it lent: launches are recorded, the rest is refused.
fn lender_captures(device: &Device) -> Outcome {
    let lender = device.stream()?;
    let borrowed = lend_stream(device, &lender)?;
    let host = Host::exact(SIZES, &SPLITS, 86);
    let inputs = Inputs::of(&borrowed, &host, Layout::Packed, DType::I64)?;
    let mut outputs = Outputs::new(&borrowed, SIZES, Layout::Packed)?;
    run_all(&borrowed, &inputs, &mut outputs, KernelChoice::Auto)?;
    outputs.poison(&borrowed)?;
    let graph = lender.capture(|_| {
        let refused = [
            Tensor::zeros(&borrowed, &[8], DType::F32).map(drop),
            borrowed.synchronize(),
            inputs.counts.to_vec::<i64>(&borrowed).map(drop),
            borrowed.record().map(drop),
            borrowed.capture(|_| Ok(())).map(drop),
        ];
        for (i, outcome) in refused.into_iter().enumerate() {
            match outcome {
                Err(error) if error.is_unsupported() => {}
                outcome => panic!("attempt {i} while the lender captures: {outcome:?}"),
            }
        }
        run_all(&borrowed, &inputs, &mut outputs, KernelChoice::Auto)
    })?;
    outputs.check_untouched(&borrowed, "captured")?;
    graph.launch(&lender)?;
    outputs.check(&lender, &host, "replayed")?;
    Ok(borrowed.synchronize()?)
}
