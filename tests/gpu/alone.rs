//! An expert does not notice its neighbours: a launch for all experts gives the bits that a launch
//! for each of them gives.

use grouped_linear::{DType, Device, KernelChoice, Result, Stream};

use crate::device::{Inputs, Layout, Outputs, run_all};
use crate::host::{Host, RESULTS, Sizes, equal_bits};
use crate::{Check, Outcome};

/// Rows that end at every place of a tile, and none.
const SPLITS: [usize; 6] = [70, 0, 133, 1, 64, 128];
const TAIL: usize = 3;

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for dtype in [DType::Bf16, DType::F16, DType::F32] {
        for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
            let name = format!("alone: one launch per expert, {dtype} {kernel:?}");
            let check = Check::new(name, move |device| one_by_one(device, dtype, kernel));
            checks.push(check.emulated_if(dtype == DType::Bf16));
        }
    }
    checks
}

fn one_by_one(device: &Device, dtype: DType, kernel: KernelChoice) -> Outcome {
    let stream = device.stream()?;
    let rows = SPLITS.iter().sum::<usize>() + TAIL;
    let sizes = Sizes { groups: SPLITS.len(), rows, k: 136, n: 264, dtype };
    // Sums of real numbers depend on the order in which they are taken.
    let host = Host::real(sizes, &SPLITS, 17);
    let together = bits(&stream, &host, kernel)?;
    let offsets = host.offsets();
    for group in 0..SPLITS.len() {
        let alone = bits(&stream, &one(&host, group), kernel)?;
        let Sizes { k, n, .. } = sizes;
        let [first, end] = [offsets[group], offsets[group + 1]];
        let parts = [
            first * n..end * n,
            first * k..end * k,
            group * n * k..(group + 1) * n * k,
            group * n..(group + 1) * n,
            first..end,
        ];
        for (i, part) in parts.into_iter().enumerate() {
            let what = format!("{} of expert {group}, together and alone", RESULTS[i]);
            equal_bits(&what, &together[i][part], &alone[i])?;
        }
    }
    Ok(())
}

/// The bits of all results.
fn bits(stream: &Stream, host: &Host, kernel: KernelChoice) -> Result<[Vec<u32>; 5]> {
    let inputs = Inputs::of(stream, host, Layout::Packed, DType::I64)?;
    let mut outputs = Outputs::new(stream, host.sizes, Layout::Packed)?;
    run_all(stream, &inputs, &mut outputs, kernel)?;
    stream.synchronize()?;
    outputs.bits(stream)
}

/// The problem of one expert.
fn one(host: &Host, group: usize) -> Host {
    let Sizes { k, n, .. } = host.sizes;
    let offsets = host.offsets();
    let [first, end] = [offsets[group], offsets[group + 1]];
    Host {
        sizes: Sizes { groups: 1, rows: end - first, ..host.sizes },
        splits: vec![end - first],
        x: host.x[first * k..end * k].to_vec(),
        dy: host.dy[first * n..end * n].to_vec(),
        weights: host.weights[group * n * k..(group + 1) * n * k].to_vec(),
        bias: host.bias[group * n..(group + 1) * n].to_vec(),
        row_scales: host.row_scales[first..end].to_vec(),
    }
}
