//! Quantized weights of which each expert has a tensor.

use grouped_linear::recipe::{Format, Nvfp4Format};
use grouped_linear::{
    DType, Direction, Form, LayerRecipe, QuantizedCopy, QuantizedSpec, QuantizedTensor, Result,
    SourceShape, Stream, Tensor,
};

use super::layers::{current, forward};
use super::{BOTH, COLUMNWISE, E4M3, E5M2, K, N, ROWWISE, SQUARES, spec, tokens, weights};
use crate::fitting::GROUPS;
use crate::{INVALID, Refusal};

const MATRIX: SourceShape = SourceShape::Weights { rows: N, columns: K };

/// Weights of one expert, contents unspecified.
pub(crate) fn expert(
    stream: &Stream,
    source: SourceShape,
    format: Format,
    copies: [bool; 2],
) -> Result<QuantizedTensor> {
    QuantizedTensor::empty(stream, QuantizedSpec { groups: 1, ..spec(source, format, copies) })
}

/// As the current recipe has them.
fn fitting_experts(stream: &Stream) -> Result<Vec<QuantizedTensor>> {
    (0..GROUPS).map(|_| expert(stream, MATRIX, E4M3, BOTH)).collect()
}

/// Attempts to gather experts of which the last is another one.
fn gather(stream: &Stream, last: QuantizedTensor) -> Result<()> {
    let mut experts = fitting_experts(stream)?;
    experts[GROUPS - 1] = last;
    QuantizedTensor::gather(stream, &experts).map(drop)
}

/// Attempts to give a layer experts of another kind.
fn layer(stream: &Stream, source: SourceShape, format: Format, count: usize) -> Result<()> {
    let experts: Result<Vec<_>> =
        (0..count).map(|_| expert(stream, source, format, BOTH)).collect();
    current(stream)?.with_discrete_weights(stream, &experts?).map(drop)
}

/// A layer of experts with these copies, in forward.
fn attempt(stream: &Stream, copies: [bool; 2]) -> Result<()> {
    let experts: Result<Vec<_>> =
        (0..GROUPS).map(|_| expert(stream, MATRIX, E4M3, copies)).collect();
    forward(stream, &current(stream)?.with_discrete_weights(stream, &experts?)?)
}

/// Attempts to gather into packed weights of ones; what they held must stay.
fn gather_into(
    stream: &Stream,
    experts: impl FnOnce(&QuantizedTensor) -> Result<Vec<QuantizedTensor>>,
) -> Result<()> {
    let mut packed = weights(stream, E4M3, BOTH)?;
    let scale_inv = packed.copy(Direction::Rowwise).expect("rowwise").scale_inv.clone();
    scale_inv.clone().write_f32(stream, &[1.0; GROUPS])?;
    let refused = packed.gather_from(stream, &experts(&packed)?);
    assert_eq!(scale_inv.to_f32(stream)?, [1.0; GROUPS]);
    refused
}

/// The expert with its copies changed.
fn changed(
    stream: &Stream,
    own: &QuantizedTensor,
    change: impl Fn(&mut QuantizedCopy) -> Result<()>,
) -> Result<QuantizedTensor> {
    let copies = [Direction::Rowwise, Direction::Columnwise].map(|direction| {
        let mut copy = own.copy(direction).expect("both").clone();
        change(&mut copy).map(|()| copy)
    });
    let [rowwise, columnwise] = copies;
    QuantizedTensor::from_copies(stream, own.spec(), Some(rowwise?), Some(columnwise?))
}

pub(super) const EXPERTS: &[Refusal] = &[
    ("no experts, quantized", "none were given, one per expert", INVALID, |s| {
        QuantizedTensor::gather(s, &[]).map(drop)
    }),
    ("4097 experts, quantized", "4097 were given, 1 to 4096", INVALID, |s| {
        let one = expert(s, MATRIX, E4M3, BOTH)?;
        QuantizedTensor::gather(s, &vec![one; 4097]).map(drop)
    }),
    ("tokens among the experts", "expert 1 is Tokens", INVALID, |s| {
        gather(s, tokens(s, K, E4M3, BOTH)?)
    }),
    ("packed weights for an expert", "in 2 groups, one matrix is needed", INVALID, |s| {
        gather(s, weights(s, E4M3, BOTH)?)
    }),
    ("an expert of another recipe", "expert 1 is [48, 32] in e4m3, 128 x 128", INVALID, |s| {
        gather(s, expert(s, MATRIX, SQUARES, BOTH)?)
    }),
    ("an expert in E5M2", "expert 1 is [48, 32] in e5m2", INVALID, |s| {
        gather(s, expert(s, MATRIX, E5M2, BOTH)?)
    }),
    ("an expert in NVFP4", "expert 1 is [48, 32] in NVFP4", INVALID, |s| {
        let format = Format::Nvfp4(Nvfp4Format::LINES);
        gather(s, expert(s, MATRIX, format, BOTH)?)
    }),
    ("a transposed expert", "expert 1 is [32, 48] in", INVALID, |s| {
        gather(s, expert(s, SourceShape::Weights { rows: K, columns: N }, E4M3, BOTH)?)
    }),
    ("an expert without its columnwise copy", "(rowwise Codes, columnwise none)", INVALID, |s| {
        gather(s, expert(s, MATRIX, E4M3, ROWWISE)?)
    }),
    ("an expert in another form", "(rowwise Swizzled, columnwise Codes)", INVALID, |s| {
        let format = Format::Nvfp4(Nvfp4Format::LINES);
        let mut experts = vec![expert(s, MATRIX, format, BOTH)?];
        let spec = QuantizedSpec { rowwise: Some(Form::Swizzled), ..experts[0].spec() };
        experts.push(QuantizedTensor::empty(s, spec)?);
        QuantizedTensor::gather(s, &experts).map(drop)
    }),
    ("experts for more groups", "quantized weights: ", INVALID, |s| {
        layer(s, MATRIX, E4M3, GROUPS + 1)
    }),
    ("experts in blocks for one scale", "quantized weights: ", INVALID, |s| {
        layer(s, MATRIX, SQUARES, GROUPS)
    }),
    ("transposed experts", "quantized weights: ", INVALID, |s| {
        layer(s, SourceShape::Weights { rows: K, columns: N }, E4M3, GROUPS)
    }),
    ("experts without rowwise copies", "weights: the rowwise copy is needed", INVALID, |s| {
        attempt(s, COLUMNWISE)
    }),
    ("experts without columnwise copies", "weights: the columnwise copy is needed", INVALID, |s| {
        attempt(s, ROWWISE)
    }),
    ("experts gathered for more groups", "destination: it was made for", INVALID, |s| {
        gather_into(s, |_| {
            let mut experts = fitting_experts(s)?;
            experts.push(expert(s, MATRIX, E4M3, BOTH)?);
            Ok(experts)
        })
    }),
    ("experts gathered for another recipe", "destination: it was made for", INVALID, |s| {
        gather_into(s, |_| (0..GROUPS).map(|_| expert(s, MATRIX, E5M2, BOTH)).collect())
    }),
    ("experts gathered where they lie", "overlaps the destination", INVALID, |s| {
        gather_into(s, |packed| (0..GROUPS).map(|group| packed.group(group)).collect())
    }),
    ("an expert without the scale of the others", "expert 1 has no scale", INVALID, |s| {
        gather_into(s, |_| {
            let mut experts = fitting_experts(s)?;
            experts[1] = changed(s, &experts[1], |_| Ok(()))?;
            Ok(experts)
        })
    }),
    ("an expert with two scales into one", "expert 1 have scale_inv in memory", INVALID, |s| {
        gather_into(s, |_| {
            let mut experts = fitting_experts(s)?;
            experts[1] = changed(s, &experts[1], |copy| {
                copy.scale_inv = Tensor::zeros(s, &[1], DType::F32)?;
                Ok(())
            })?;
            Ok(experts)
        })
    }),
    ("a group of quantized tokens", "only weights have a part for each group", INVALID, |s| {
        tokens(s, K, E4M3, BOTH)?.group(0).map(drop)
    }),
    ("a group beyond the quantized weights", "group 2 was asked for, there are 2", INVALID, |s| {
        weights(s, E4M3, BOTH)?.group(GROUPS).map(drop)
    }),
];

/// What the table spoils.
pub(super) fn fitting(stream: &Stream) -> Result<()> {
    layer(stream, MATRIX, E4M3, GROUPS)?;
    attempt(stream, BOTH)?;
    let last = expert(stream, MATRIX, E4M3, BOTH)?;
    gather(stream, last)?;
    let experts = fitting_experts(stream)?;
    let mut packed = QuantizedTensor::gather(stream, &experts)?;
    packed.gather_from(stream, &experts)?;
    let recipe: LayerRecipe = current(stream)?.with_weights(packed)?;
    forward(stream, &recipe)
}
