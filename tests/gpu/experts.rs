//! Quantized weights of which each expert has a tensor, gathered in a graph: every replay follows
//! what the experts hold then.

use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::{BlockShape, Blocks, Format, Nvfp4Format};
use grouped_linear::{
    DType, Device, Direction, Form, GroupedTensor, QuantizedSpec, QuantizedTensor, Result,
    SourceShape, Stream, Tensor,
};

use crate::device::tensor_bits;
use crate::host::equal_bits;
use crate::{Check, Outcome};

const GROUPS: usize = 3;
const N: usize = 64;
const K: usize = 96;

pub fn checks() -> Vec<Check> {
    let squares = Nvfp4Format { blocks: BlockShape::Square, ..Nvfp4Format::LINES };
    let formats = [
        ("one scale", Format::fp8(DType::E4m3, Blocks::Tensor), Form::Codes),
        ("squares", Format::fp8(DType::E4m3, Blocks::Square), Form::Codes),
        ("NVFP4", Format::Nvfp4(squares), Form::Exact),
    ];
    let check = |(name, format, form)| {
        let run = move |device: &Device| gathered(device, format, form);
        Check::new(format!("experts: gathered in a graph, {name}"), run).emulated_if(true)
    };
    formats.map(check).into()
}

fn gathered(device: &Device, format: Format, form: Form) -> Outcome {
    let stream = device.stream()?;
    let source = SourceShape::Weights { rows: N, columns: K };
    let (rowwise, columnwise) = (Some(form), Some(form));
    let spec = QuantizedSpec { groups: 1, source, format, rowwise, columnwise };
    let experts = (0..GROUPS).map(|_| QuantizedTensor::empty(&stream, spec));
    let mut experts = experts.collect::<Result<Vec<_>>>()?;
    let mut packed = QuantizedTensor::gather(&stream, &experts)?;
    let graph = stream.capture(|s| packed.gather_from(s, &experts))?;
    for turn in 0..3 {
        for (number, expert) in experts.iter_mut().enumerate() {
            fill(&stream, (1 + GROUPS * turn + number) as f32, expert)?;
        }
        graph.launch(&stream)?;
        for (number, expert) in experts.iter().enumerate() {
            let what = format!("turn {turn}, expert {number}");
            let group = packed.group(number)?;
            equal_bits(&what, &bits(&stream, &group)?, &bits(&stream, expert)?)?;
        }
    }
    Ok(())
}

/// Weights of one expert that differ from one another, and with the factor.
fn fill(stream: &Stream, factor: f32, to: &mut QuantizedTensor) -> Result<()> {
    let values: Vec<f32> = (0..N * K).map(|i| factor * ((i % 23) as f32 - 11.0)).collect();
    let weights = Tensor::from_f32(stream, &[1, N, K], DType::F32, &values)?;
    let weights = GroupedTensor::packed(weights)?;
    quantize(stream, QuantizeArgs::new(QuantizeSource::Weights(&weights)), to)
}

/// Data, scales and magnitudes of both copies, where something is written.
fn bits(stream: &Stream, tensor: &QuantizedTensor) -> Result<Vec<u32>> {
    let mut bits = Vec::new();
    for copy in [Direction::Rowwise, Direction::Columnwise].map(|own| tensor.copy(own)) {
        let copy = copy.expect("both copies");
        bits.extend(match copy.data.dtype() {
            DType::Bf16 => tensor_bits(stream, &copy.data)?,
            _ => copy.data.to_f32(stream)?.into_iter().map(f32::to_bits).collect(),
        });
        if copy.scale_inv.dtype() == DType::F32 {
            // Behind the first scales of squares is padding that no one writes.
            let scales = copy.scale_inv.to_f32(stream)?;
            bits.push(scales[0].to_bits());
        }
        if let Some(amax) = &copy.amax {
            bits.extend(amax.to_f32(stream)?.into_iter().map(f32::to_bits));
        }
    }
    Ok(bits)
}
