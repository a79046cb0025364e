//! Device memory runs out politely, and comes back.

use grouped_linear::{DType, Device, KernelChoice, Result, Stream, Tensor};

use crate::device::{Inputs, Layout, Outputs, run_all};
use crate::host::{Host, Sizes};
use crate::{Check, Outcome};

const GIB: usize = 1 << 30;

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("memory: too much is refused", too_much),
        Check::new("memory: 1000 GiB, one after the other", |device| {
            let stream = device.stream()?;
            churn(&stream, 1000, |step| {
                let tensor = gigabytes(&stream, step)?;
                touch(&stream, &tensor)
            })
        }),
        Check::new("memory: 300 GiB, used on another stream", |device| {
            let (home, user) = (device.stream()?, device.stream()?);
            churn(&home, 300, |step| {
                let tensor = gigabytes(&home, step)?;
                user.wait(&home.record()?)?;
                touch(&user, &tensor)
            })
        }),
        Check::new("memory: 200 GiB, whose streams go first", |device| {
            let user = device.stream()?;
            churn(&user, 200, |step| {
                let home = device.stream()?;
                let tensor = gigabytes(&home, step)?;
                user.wait(&home.record()?)?;
                drop(home);
                touch(&user, &tensor)
            })
        }),
        Check::new("memory: forward and backward, 400 GiB of results", results),
    ]
}

/// A tensor of about a gibibyte, in sizes that change.
fn gigabytes(stream: &Stream, step: usize) -> Result<Tensor> {
    Tensor::empty(stream, &[[GIB, GIB * 3 / 4, GIB * 5 / 4][step % 3] / 2], DType::Bf16)
}

/// Work on both ends of the tensor.
fn touch(stream: &Stream, tensor: &Tensor) -> Result<()> {
    let count = tensor.len();
    tensor.narrow(0, 1024)?.fill_zero(stream)?;
    tensor.narrow(count - 1024, 1024)?.fill_zero(stream)
}

/// More than the device has, in steps that each give back what they took.
fn churn(stream: &Stream, steps: usize, step: impl Fn(usize) -> Result<()>) -> Outcome {
    for number in 0..steps {
        step(number).map_err(|error| format!("step {number}: {error}"))?;
    }
    stream.synchronize()?;
    works(stream)
}

/// A small problem with exact results.
fn works(stream: &Stream) -> Outcome {
    let sizes = Sizes { groups: 3, rows: 150, k: 72, n: 40, dtype: DType::Bf16 };
    let host = Host::exact(sizes, &[70, 0, 75], 5);
    let inputs = Inputs::of(stream, &host, Layout::Discrete, DType::I32)?;
    let mut outputs = Outputs::new(stream, sizes, Layout::Discrete)?;
    run_all(stream, &inputs, &mut outputs, KernelChoice::Auto)?;
    outputs.check(stream, &host, "afterwards")?;
    Ok(stream.synchronize()?)
}

fn too_much(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let Some(all) = device.info().memory_bytes else {
        return Err("a GPU says how much memory it has".into());
    };
    for bytes in [all as usize + GIB, 2 * all as usize, 10 << 40] {
        for attempt in 0..3 {
            let error = match Tensor::empty(&stream, &[bytes / 2], DType::Bf16) {
                Ok(_) => return Err(format!("{bytes} bytes of {all} were given").into()),
                Err(error) => error,
            };
            if !error.is_out_of_memory() || !error.to_string().contains(&bytes.to_string()) {
                return Err(format!("{bytes} bytes, attempt {attempt}: {error}").into());
            }
        }
        stream.synchronize()?;
        works(&stream)?;
    }
    works(&device.stream()?)
}

/// Outputs of 1 GiB a step, made and dropped by the layer itself.
fn results(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let sizes = Sizes { groups: 2, rows: 1 << 16, k: 8, n: 1 << 13, dtype: DType::Bf16 };
    let inputs = Inputs::new(&stream, sizes, Layout::Packed, DType::I64)?;
    for tensor in [&inputs.x, &inputs.dy, &inputs.row_scales] {
        tensor.clone().fill_zero(&stream)?;
    }
    let splits = grouped_linear::Splits::host(&[1 << 15, 1 << 15])?;
    for _ in 0..400 {
        let (y, saved) = inputs.layer.forward(&stream, &inputs.x, &splits, Default::default())?;
        // The output is used as its own gradient, and goes while the device reads it.
        drop(inputs.layer.backward(&stream, saved, &y)?);
    }
    stream.synchronize()?;
    works(&stream)
}
