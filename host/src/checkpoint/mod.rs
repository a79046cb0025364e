//! A layer's parameters in safetensors files, under either naming, into and out of either layout.
//!
//! A file names a layer's weights in one of two ways, and its bias, independently, too:
//!
//! ```text
//! naming     weights                                bias
//! packed     weight                     [G, N, K]   bias                   [G, N]
//! discrete   weight0 … weight{G-1}      [N, K]      bias0 … bias{G-1}      [N]
//! ```
//!
//! Before these names stands a prefix, which may be empty: `layers.3.experts.weight0`. The names
//! are those of NVIDIA TransformerEngine's grouped linear layer, so its checkpoints are read and
//! written. What the file names has nothing to do with how the layer holds its parameters: whatever
//! the file has is loaded into whatever layout is asked for, and saved the other way round.
//! Everything is copied bit for bit and nothing is cast.
//!
//! - [`load`] makes a layer; [`load_into`] fills one that exists, over memory of whatever origin.
//! - [`save`] gives the tensors of a layer to [`safetensors::serialize`] or, with less memory,
//!   [`safetensors::serialize_to_file`].
//! - [`convert`] rewrites a whole file under the other naming; it needs no device.
//! - [`save_quantized`] and [`load_quantized`] are for weights that are quantized already: data,
//!   scales and magnitudes of each copy as they are, and in the file's [`metadata`] what they are.
//!
//! ```
//! use grouped_linear::checkpoint::{self, Layouts, Naming, safetensors};
//! use grouped_linear::{Config, DType, Device, GroupedLinear, GroupedTensor, ParamLayout};
//!
//! let stream = Device::cpu().stream()?;
//! let config = Config { groups: 3, in_features: 2, out_features: 1, dtype: DType::F32 };
//! let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0f32];
//! let weights =
//!     GroupedTensor::from_slice(&stream, ParamLayout::Packed, 3, &[1, 2], &values)?;
//! let layer = GroupedLinear::new(&stream, config, weights, None)?;
//!
//! let tensors = checkpoint::save(&stream, &layer, "experts.", Naming::DISCRETE)?;
//! let file = safetensors::serialize(tensors, None)?;
//!
//! let tensors = checkpoint::open(&file)?;
//! assert_eq!(tensors.tensor("experts.weight2")?.shape(), [1, 2]);
//! let layouts = Layouts { weights: ParamLayout::Packed, bias: None };
//! let again = checkpoint::load(&stream, &tensors, "experts.", config, layouts)?;
//! assert_eq!(again.weights().group(2)?.to_f32(&stream)?, [5.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod convert;
mod description;
mod load;
mod names;
mod quantized;
mod save;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

/// The crate whose types stand in this module's functions.
pub use safetensors;
use safetensors::SafeTensors;
use safetensors::tensor::Metadata;

pub use self::convert::{Conversion, convert};
pub use self::load::{load, load_into};
pub use self::quantized::{SavedQuantized, load_quantized, load_quantized_into, save_quantized};
pub use self::save::{SavedTensor, save};
use self::stored::broken;
use crate::error::{Error, Result};
use crate::tensor::ParamLayout;

/// How a file names parameters: in one tensor, or in one for each expert.
///
/// ```
/// use grouped_linear::{ParamLayout, checkpoint::Naming};
/// let mixed = Naming { bias: ParamLayout::Packed, ..Naming::DISCRETE };
/// assert_eq!(mixed.weights, ParamLayout::Discrete); // weight0, weight1, …, and one bias
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Naming {
    /// Packed: `weight`; discrete: `weight0`, `weight1`, …
    pub weights: ParamLayout,
    /// Packed: `bias`; discrete: `bias0`, `bias1`, …; of no meaning where there is no bias.
    pub bias: ParamLayout,
}

impl Naming {
    /// `weight` and `bias`.
    pub const PACKED: Self = Self { weights: ParamLayout::Packed, bias: ParamLayout::Packed };
    /// `weight0`, `weight1`, … and `bias0`, `bias1`, …
    pub const DISCRETE: Self = Self { weights: ParamLayout::Discrete, bias: ParamLayout::Discrete };
}

/// How a loaded layer holds its parameters, whatever their names in the file.
///
/// ```
/// use grouped_linear::{ParamLayout, checkpoint::Layouts};
/// let layouts = Layouts { weights: ParamLayout::Packed, bias: Some(ParamLayout::Discrete) };
/// assert_ne!(layouts.bias, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layouts {
    /// Layout of the weights.
    pub weights: ParamLayout,
    /// Layout of the bias; `None` for a layer without one.
    pub bias: Option<ParamLayout>,
}

/// Looks into the bytes of a safetensors file, as [`SafeTensors::deserialize`] does, but with this
/// crate's error, and without a panic where sizes in a damaged header add up to more than 2⁶⁴.
///
/// ```
/// use grouped_linear::checkpoint;
/// let error = checkpoint::open(b"something else").unwrap_err();
/// assert!(error.to_string().contains("not a whole safetensors file"));
/// ```
///
/// # Errors
/// The bytes are not a safetensors file, or not all of it.
pub fn open(bytes: &[u8]) -> Result<SafeTensors<'_>> {
    check_sizes(bytes)?;
    SafeTensors::deserialize(bytes).map_err(broken)
}

/// The metadata of a safetensors file that belong to no tensor, by name: where [`save_quantized`]
/// says what its tensors are.
///
/// ```
/// use grouped_linear::checkpoint::{self, safetensors::serialize};
/// let nothing: [(&str, checkpoint::SavedTensor); 0] = [];
/// let file = serialize(nothing, Some([("step".to_owned(), "7".to_owned())].into()))?;
/// assert_eq!(checkpoint::metadata(&file)?["step"], "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The bytes are not a safetensors file, or not all of it.
pub fn metadata(file: &[u8]) -> Result<HashMap<String, String>> {
    open(file)?;
    Ok(metadata_of(file)?.unwrap_or_default())
}

/// The metadata, where the file has any, be they empty.
fn metadata_of(bytes: &[u8]) -> Result<Option<HashMap<String, String>>> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    Ok(header.metadata().clone())
}

/// Refuses a header that asks for more bytes than there are. safetensors finds all other faults,
/// but adds the sizes of the header and of the tensors without a check.
fn check_sizes(bytes: &[u8]) -> Result<()> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(()) };
    let header = usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|n| rest.get(..n));
    let Some(Ok(header)) = header.map(serde_json::from_slice::<Metadata>) else { return Ok(()) };
    if header.data_len() > bytes.len() {
        let (needed, given) = (header.data_len(), bytes.len());
        return Err(broken(format!("its tensors have {needed} bytes, {given} bytes are here")));
    }
    Ok(())
}

/// Files hold the lowest byte first, and elements are copied as they are.
fn check_byte_order() -> Result<()> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    Err(Error::unsupported(
        "checkpoint: tensors are loaded and saved on little-endian machines only",
    ))
}
