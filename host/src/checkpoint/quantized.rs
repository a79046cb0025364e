//! Quantized weights in files: every copy as it is, and in the metadata what it is.

use std::collections::HashMap;

use safetensors::SafeTensors;

use super::check_byte_order;
use super::description::Description;
use super::save::SavedTensor;
use super::stored::{stored_dtype, tensor, view};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::tensor::{COLUMNWISE, QuantizedTensor, ROWWISE, SCALE, SourceShape, Tensor, TensorSpec};

/// What a file needs of quantized weights; see [`save_quantized`].
#[derive(Clone, Debug)]
pub struct SavedQuantized {
    /// The tensors with their names.
    pub tensors: Vec<(String, SavedTensor)>,
    /// The entry of the file's metadata, name and text, without which the tensors cannot be read.
    pub metadata: (String, String),
}

/// The names and bytes of quantized weights, packed, for a file; a prefix (`"layers.3.experts."`,
/// with its last dot) stands before the names. Waits for the stream.
///
/// ```text
/// name                                         what
/// weight.rowwise.data, .scale_inv, .amax       the rowwise copy, shaped as QuantizedSpec::copy
/// weight.columnwise.data, .scale_inv, .amax    the columnwise copy
/// weight.scale                                 QuantizedTensor::scale
/// ```
///
/// There are only those that the weights have: exact numbers have no `scale_inv`, only NVFP4 has an
/// `amax`, and what the copies share stands once, under the name of the rowwise one. The metadata's
/// entry `weight.quantized` says which format and copies these are. Discrete weights are saved one
/// by one, each under a prefix of its own, as [`QuantizedTensor::group`]s of packed ones can be.
///
/// ```
/// use grouped_linear::checkpoint::{self, safetensors};
/// use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
/// use grouped_linear::recipe::{Blocks, Format};
/// use grouped_linear::{
///     DType, Device, Direction, Form, GroupedTensor, QuantizedSpec, QuantizedTensor, SourceShape,
///     Tensor,
/// };
/// let stream = Device::cpu().stream()?;
/// let mut weights = QuantizedTensor::empty(&stream, QuantizedSpec {
///     groups: 2,
///     source: SourceShape::Weights { rows: 16, columns: 32 },
///     format: Format::fp8(DType::E4m3, Blocks::Tensor),
///     rowwise: Some(Form::Codes),
///     columnwise: Some(Form::Codes),
/// })?;
/// let ones = Tensor::from_f32(&stream, &[2, 16, 32], DType::Bf16, &[1.0; 1024])?;
/// let ones = GroupedTensor::packed(ones)?;
/// quantize(&stream, QuantizeArgs::new(QuantizeSource::Weights(&ones)), &mut weights)?;
///
/// let saved = checkpoint::save_quantized(&stream, &weights, "experts.")?;
/// let file = safetensors::serialize(saved.tensors, Some([saved.metadata].into()))?;
///
/// let (tensors, metadata) = (checkpoint::open(&file)?, checkpoint::metadata(&file)?);
/// assert_eq!(tensors.tensor("experts.weight.columnwise.data")?.shape(), [2, 32, 16]);
/// let again = checkpoint::load_quantized(&stream, &tensors, &metadata, "experts.")?;
/// assert_eq!(again.spec(), weights.spec());
/// let rowwise = again.copy(Direction::Rowwise).unwrap();
/// assert_eq!(rowwise.scale_inv.to_f32(&stream)?, [1.0 / 448.0; 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Tokens instead of weights; the stream belongs to another device; a failure of earlier work on
/// it.
pub fn save_quantized(
    stream: &Stream,
    weights: &QuantizedTensor,
    prefix: &str,
) -> Result<SavedQuantized> {
    check_byte_order()?;
    if let SourceShape::Tokens { .. } = weights.spec().source {
        return Err(Error::invalid(
            "checkpoint: quantized tokens were given, only weights are saved",
        ));
    }
    if weights.spec().source.rows() * weights.spec().source.columns() == 0 {
        return Err(Error::invalid("checkpoint: quantized weights without elements were given"));
    }
    let (spec, shared) = (weights.spec(), weights.shared());
    let description = Description { spec, shared, has_scale: weights.scale().is_some() };
    let parts = weights.parts().filter(|(_, part)| !part.is_empty());
    let tensors =
        parts.map(|(name, part)| Ok((part_name(prefix, name), SavedTensor::of(stream, part)?)));
    let metadata = (key(prefix), description.to_text());
    Ok(SavedQuantized { tensors: tensors.collect::<Result<_>>()?, metadata })
}

/// Quantized weights from the tensors whose names begin with `prefix`, in new memory, bit for bit:
/// for [`LayerRecipe::with_weights`](crate::LayerRecipe::with_weights), which refuses those of
/// another layer or recipe. `metadata` are those of the same file ([`metadata`](super::metadata)).
///
/// # Errors
/// The metadata do not describe quantized weights under the prefix; a tensor is missing, is one too
/// many, or has not the shape and type that the metadata say; out of memory.
pub fn load_quantized(
    stream: &Stream,
    tensors: &SafeTensors<'_>,
    metadata: &HashMap<String, String>,
    prefix: &str,
) -> Result<QuantizedTensor> {
    let stored = StoredQuantized::read(tensors, metadata, prefix)?;
    let Description { spec, shared, has_scale } = stored.description;
    QuantizedTensor::build(stream, spec, shared, has_scale, |name, part| {
        let mut part = part.empty(stream)?;
        part.write_bytes(stream, stored.bytes(name)?)?;
        Ok(part)
    })
}

/// Overwrites quantized weights, in the memory that they have, with the tensors whose names begin
/// with `prefix`: packed ones, or one [`QuantizedTensor::group`] of them.
///
/// # Errors
/// As [`load_quantized`]; the file's weights have another shape, format or other copies; then
/// nothing has been written. A driver failure, or a stream that records a graph; then some of it
/// may have been.
pub fn load_quantized_into(
    stream: &Stream,
    tensors: &SafeTensors<'_>,
    metadata: &HashMap<String, String>,
    prefix: &str,
    weights: &mut QuantizedTensor,
) -> Result<()> {
    let stored = StoredQuantized::read(tensors, metadata, prefix)?;
    let (got, want) = (stored.description.spec, weights.spec());
    if got != want {
        return Err(Error::invalid(format!(
            "checkpoint: the weights under the prefix {prefix:?} are {got:?}, {want:?} are needed"
        )));
    }
    weights.check_device("quantized weights", stream)?;
    let mut parts: Vec<(Tensor, &[u8])> = Vec::new();
    for (name, part) in weights.parts().filter(|(_, part)| !part.is_empty()) {
        parts.push((part.clone(), stored.bytes(name)?));
    }
    // What these weights hold once, the file may hold twice.
    let (own, file) = (weights.shared(), stored.description.shared);
    for (index, (own, file)) in
        [(own.data, file.data), (own.scale_inv, file.scale_inv), (own.amax, file.amax)]
            .into_iter()
            .enumerate()
    {
        let names = [ROWWISE[index], COLUMNWISE[index]];
        if own && !file && stored.bytes(names[0])? != stored.bytes(names[1])? {
            return Err(Error::invalid(format!(
                "checkpoint: {} and {} differ, but the copies of these weights share them; use \
                 load_quantized",
                part_name(prefix, names[0]),
                part_name(prefix, names[1])
            )));
        }
    }
    parts.into_iter().try_for_each(|(mut part, bytes)| part.write_bytes(stream, bytes))
}

/// Quantized weights as a file holds them, which fit what its metadata say.
struct StoredQuantized<'data> {
    prefix: String,
    description: Description,
    parts: Vec<(&'static str, &'data [u8])>,
}

impl<'data> StoredQuantized<'data> {
    fn read(
        tensors: &SafeTensors<'data>,
        metadata: &HashMap<String, String>,
        prefix: &str,
    ) -> Result<Self> {
        check_byte_order()?;
        let key = key(prefix);
        let Some(text) = metadata.get(&key) else {
            return Err(Error::invalid(format!(
                "checkpoint: metadata {key} are missing, without which no quantized weights can be \
                 read; the prefix is everything before weight, with its last dot"
            )));
        };
        let description = Description::of_text(&key, text)?;
        let wanted = description.parts();
        let mut parts = Vec::new();
        for (name, want) in &wanted {
            let full = part_name(prefix, name);
            if tensors.tensor(&full).is_err() {
                return Err(Error::invalid(format!(
                    "checkpoint: {full} is missing, although metadata {key} speak of it"
                )));
            }
            let view = view(tensors, &full)?;
            let TensorSpec { shape, dtype } = want;
            if view.shape() != shape {
                return Err(Error::shape(tensor(&full), view.shape(), format!("{shape:?}")));
            }
            if view.dtype() != stored_dtype(*dtype) {
                let want = stored_dtype(*dtype).to_string();
                return Err(Error::dtype(tensor(&full), view.dtype(), want));
            }
            parts.push((*name, view.data()));
        }
        let all = ROWWISE.into_iter().chain(COLUMNWISE).chain([SCALE]);
        let mut others = all.filter(|name| wanted.iter().all(|(own, _)| own != name));
        if let Some(full) = others
            .find_map(|name| Some(part_name(prefix, name)).filter(|n| tensors.tensor(n).is_ok()))
        {
            return Err(Error::invalid(format!(
                "checkpoint: {full} was found, of which metadata {key} say nothing"
            )));
        }
        Ok(Self { prefix: prefix.to_owned(), description, parts })
    }

    /// The bytes of a part, which the file may have under another name.
    fn bytes(&self, name: &'static str) -> Result<&'data [u8]> {
        let stands = self.description.name_of(name);
        let part = self.parts.iter().find(|(own, _)| *own == stands);
        part.map(|(_, bytes)| *bytes).ok_or_else(|| {
            Error::invalid(format!(
                "checkpoint: {} is missing, which these weights have",
                part_name(&self.prefix, name)
            ))
        })
    }
}

/// Where the metadata describe the weights of a layer.
pub(super) fn key(prefix: &str) -> String {
    format!("{prefix}weight.quantized")
}

fn part_name(prefix: &str, part: &str) -> String {
    format!("{prefix}weight.{part}")
}
