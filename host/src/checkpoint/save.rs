//! From a layer to what safetensors writes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use safetensors::View;
use safetensors::tensor::Dtype;

use super::names::Part;
use super::stored::stored_dtype;
use super::{Naming, check_byte_order};
use crate::backend::Stream;
use crate::error::Result;
use crate::grouped_linear::GroupedLinear;
use crate::tensor::{GroupedTensor, ParamLayout, Tensor};

/// A copy, in host memory, of a parameter or of one expert's, as [`safetensors::serialize`] takes
/// it. The experts of one parameter share their memory.
///
/// ```
/// use grouped_linear::checkpoint::{self, Naming, safetensors::View};
/// use grouped_linear::{Config, DType, Device, GroupedLinear, GroupedTensor, ParamLayout};
///
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 3, in_features: 2, out_features: 4, dtype: DType::Bf16 };
/// let weights = GroupedTensor::zeros(&stream, ParamLayout::Discrete, 3, &[4, 2], DType::Bf16)?;
/// let layer = GroupedLinear::new(&stream, config, weights, None)?;
/// let [(name, tensor)] = &*checkpoint::save(&stream, &layer, "moe.", Naming::PACKED)? else {
///     panic!("there is one parameter, in one tensor");
/// };
/// assert_eq!((&**name, tensor.shape(), tensor.data_len()), ("moe.weight", &[3, 4, 2][..], 48));
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SavedTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Arc<Vec<u8>>, // of all groups
    range: Range<usize>,
}

/// The names and values of a layer's parameters, for a file that names them so; a prefix
/// (`"layers.3.experts."`, with its last dot) stands before the names. Waits for the stream.
///
/// The values are held once, in host memory. [`safetensors::serialize_to_file`] writes them from
/// there; [`safetensors::serialize`] makes a second copy, the file.
///
/// ```
/// # fn save_all(
/// #     stream: &grouped_linear::Stream,
/// #     layers: &[grouped_linear::GroupedLinear],
/// #     path: &std::path::Path,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use grouped_linear::checkpoint::{self, Naming, safetensors};
/// let mut tensors = Vec::new();
/// for (number, layer) in layers.iter().enumerate() {
///     let prefix = format!("layers.{number}.experts.");
///     tensors.extend(checkpoint::save(stream, layer, &prefix, Naming::PACKED)?);
/// }
/// safetensors::serialize_to_file(tensors, None, path)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The stream belongs to another device; a failure of earlier work on it.
pub fn save(
    stream: &Stream,
    layer: &GroupedLinear,
    prefix: &str,
    naming: Naming,
) -> Result<Vec<(String, SavedTensor)>> {
    check_byte_order()?;
    let mut saved = save_part(stream, layer.weights(), prefix, Part::Weights, naming.weights)?;
    if let Some(bias) = layer.bias() {
        saved.extend(save_part(stream, bias, prefix, Part::Bias, naming.bias)?);
    }
    Ok(saved)
}

fn save_part(
    stream: &Stream,
    parameter: &GroupedTensor,
    prefix: &str,
    part: Part,
    naming: ParamLayout,
) -> Result<Vec<(String, SavedTensor)>> {
    let each = parameter.group_len() * parameter.dtype().bytes();
    let mut bytes = Vec::with_capacity(parameter.groups() * each);
    for tensor in parameter.tensors() {
        let start = bytes.len();
        bytes.resize(start + tensor.byte_len(), 0);
        tensor.read_bytes(stream, &mut bytes[start..])?;
    }
    let (bytes, dtype, stem) = (Arc::new(bytes), stored_dtype(parameter.dtype()), part.stem());
    if naming == ParamLayout::Packed {
        let shape = [&[parameter.groups()], parameter.shape()].concat();
        let range = 0..bytes.len();
        return Ok(vec![(format!("{prefix}{stem}"), SavedTensor { dtype, shape, bytes, range })]);
    }
    let saved = (0..parameter.groups()).map(|group| {
        let range = group * each..(group + 1) * each;
        let (shape, bytes) = (parameter.shape().to_vec(), bytes.clone());
        (format!("{prefix}{stem}{group}"), SavedTensor { dtype, shape, bytes, range })
    });
    Ok(saved.collect())
}

impl SavedTensor {
    /// A copy of a tensor. Waits for the stream.
    pub(super) fn of(stream: &Stream, tensor: &Tensor) -> Result<Self> {
        let mut bytes = vec![0; tensor.byte_len()];
        tensor.read_bytes(stream, &mut bytes)?;
        let (dtype, range) = (stored_dtype(tensor.dtype()), 0..bytes.len());
        Ok(Self { dtype, shape: tensor.shape().to_vec(), bytes: Arc::new(bytes), range })
    }
}

impl View for SavedTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes[self.range.clone()])
    }

    fn data_len(&self) -> usize {
        self.range.len()
    }
}
