//! Wgrad of aligned blocks in a graph: how many blocks a group has, and which of them have factors,
//! the device finds out anew at every replay.

use grouped_linear::functional::{
    QuantizeArgs, QuantizeSource, QuantizedGemmOptions, QuantizedWgradArgs, quantize,
    quantized_wgrad,
};
use grouped_linear::plan::Factor;
use grouped_linear::recipe::{Blocks, Format, ScaleRule};
use grouped_linear::{
    DType, Device, Form, GroupedTensor, KernelChoice, QuantizedSpec, QuantizedTensor, Result,
    SourceShape, Stream,
};

use crate::device::{Inputs, Layout, grouped, grouped_bits, parts};
use crate::host::{Host, Sizes, bits, equal_bits, equal_values, value};
use crate::{Check, Outcome};

/// Splits of replays; the graph is captured with the first.
const SPLITS: &[[usize; 4]] =
    &[[175, 0, 129, 300], [0, 128, 64, 65], [1, 2, 700, 1], [0, 0, 0, 0], [200, 200, 200, 200]];

/// What `dw` holds where it is added to.
const BEFORE: f32 = 3.0;

pub fn checks() -> Vec<Check> {
    let of = |dtype, layout| {
        let name = format!("aligned: a graph with other splits, {dtype} {layout:?}");
        let check = move |device: &Device| other_splits(device, dtype, layout);
        Check::new(name, check).emulated_if(true)
    };
    vec![of(DType::Bf16, Layout::Packed), of(DType::F32, Layout::Discrete)]
}

/// Operands, what they are quantized to, and what is written: FP32 is added to.
struct Step {
    inputs: Inputs,
    x: QuantizedTensor,
    dy: QuantizedTensor,
    dw: GroupedTensor,
}

impl Step {
    fn new(stream: &Stream, sizes: Sizes, layout: Layout) -> Result<Self> {
        let Sizes { groups, rows, k, n, dtype } = sizes;
        let tokens = |features| {
            let source = SourceShape::Tokens { rows, features };
            let format = Format::fp8(DType::E4m3, Blocks::Vector);
            let columnwise = Some(Form::Codes);
            let spec = QuantizedSpec { groups, source, format, rowwise: None, columnwise };
            QuantizedTensor::empty(stream, spec)
        };
        let dw = grouped(stream, layout, &[groups, n, k], dtype)?;
        let inputs = Inputs::new(stream, sizes, layout, DType::I32)?;
        Ok(Self { inputs, x: tokens(k)?, dy: tokens(n)?, dw })
    }

    fn write(&mut self, stream: &Stream, host: &Host) -> Result<()> {
        self.inputs.write(stream, host)?;
        for mut part in parts(&self.dw)? {
            let before = vec![BEFORE; part.len()];
            part.write_f32(stream, &before)?;
        }
        Ok(())
    }

    fn run(&mut self, stream: &Stream) -> Result<()> {
        let Inputs { x, dy, splits, .. } = &self.inputs;
        let scale = ScaleRule { power_of_two: true, ..ScaleRule::default() };
        for (source, destination) in [(x, &mut self.x), (dy, &mut self.dy)] {
            let args = QuantizeArgs::new(QuantizeSource::Tokens(source, splits));
            quantize(stream, QuantizeArgs { scale, ..args }, destination)?;
        }
        let beta = Factor::Value(f32::from(self.dw.dtype() == DType::F32));
        let kernel = KernelChoice::Aligned;
        let options = QuantizedGemmOptions { beta, kernel, ..QuantizedGemmOptions::default() };
        let args = QuantizedWgradArgs { dy: &self.dy, x: &self.x, splits, options };
        quantized_wgrad(stream, &args, &mut self.dw)
    }
}

/// Exact numbers, whose quotients are exact as well, against the formula; others against an eager
/// call.
fn other_splits(device: &Device, dtype: DType, layout: Layout) -> Outcome {
    let stream = device.stream()?;
    let sizes = Sizes { groups: 4, rows: 800, k: 272, n: 144, dtype };
    let mut eager = Step::new(&stream, sizes, layout)?;
    let mut recorded = Step::new(&stream, sizes, layout)?;
    let first = Host::exact(sizes, &SPLITS[0], 70);
    for step in [&mut eager, &mut recorded] {
        step.write(&stream, &first)?;
        step.run(&stream)?;
    }
    let graph = stream.capture(|stream| recorded.run(stream))?;
    for (turn, splits) in SPLITS.iter().enumerate() {
        let seed = 80 + turn as u64;
        let exact = Host::exact(sizes, splits, seed);
        for (host, is_exact) in [(Host::real(sizes, splits, seed), false), (exact, true)] {
            for step in [&mut eager, &mut recorded] {
                step.write(&stream, &host)?;
            }
            graph.launch(&stream)?;
            eager.run(&stream)?;
            let got = grouped_bits(&stream, &recorded.dw)?;
            let what = format!("dw, replay with {splits:?}");
            equal_bits(&what, &got, &grouped_bits(&stream, &eager.dw)?)?;
            if is_exact {
                let [.., want, _, _] = host.expected();
                equal_values(&what, dtype, &got, &added(dtype, &want))?;
            }
        }
    }
    Ok(stream.synchronize()?)
}

/// With what was there before, if that is added to.
fn added(dtype: DType, sums: &[u32]) -> Vec<u32> {
    let before = if dtype == DType::F32 { BEFORE } else { 0.0 };
    sums.iter().map(|&sum| bits(value(sum, dtype) + before, dtype)).collect()
}
