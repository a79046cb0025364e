//! From a file to a file under the other naming.

use std::borrow::Cow;
use std::collections::HashSet;

use safetensors::tensor::Dtype;
use safetensors::{SafeTensors, View};

use super::names::{LayerNames, Part};
use super::stored::Stored;
use super::{Naming, metadata_of, open};
use crate::error::{Error, Result};
use crate::tensor::ParamLayout;

/// What [`convert`] made; see its example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The new file.
    pub file: Vec<u8>,
    /// The prefixes of the layers that it holds under the naming asked for, sorted.
    pub layers: Vec<String>,
}

/// Rewrites a whole safetensors file so that its grouped linear layers are named as asked for.
///
/// A layer is a prefix, empty or with a dot at its end, under which there are `weight0`, … or a
/// `weight` of three dimensions; `select` is told each layer's prefix and says whether to convert
/// it. (A one-dimensional convolution has a `weight` of three dimensions, too. It is left alone if
/// its `bias` has one dimension; otherwise `select` must say so.) Every other tensor, every type,
/// every bit of the values and the metadata stay as they are. The tensors stand in the order in
/// which safetensors writes them; the metadata's entries, in any.
///
/// ```
/// use grouped_linear::checkpoint::{self, Naming, safetensors};
/// use safetensors::tensor::{Dtype, TensorView};
///
/// let weights: Vec<u8> = (0..6).collect();
/// let weights = TensorView::new(Dtype::U8, vec![3, 1, 2], &weights)?;
/// let file = safetensors::serialize([("experts.weight", weights)], None)?;
///
/// let converted = checkpoint::convert(&file, Naming::DISCRETE, |_| true)?;
/// assert_eq!(converted.layers, ["experts."]);
/// assert_eq!(checkpoint::open(&converted.file)?.tensor("experts.weight1")?.data(), [2, 3]);
///
/// let back = checkpoint::convert(&converted.file, Naming::PACKED, |_| true)?;
/// assert_eq!(back.file, file);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The bytes are not a whole safetensors file; a selected layer lacks an expert, is named in both
/// ways, or has experts of different shapes or types, or a bias that does not fit its weights.
pub fn convert(
    file: &[u8],
    naming: Naming,
    mut select: impl FnMut(&str) -> bool,
) -> Result<Conversion> {
    let tensors = open(file)?;
    let mut layers = LayerNames::all(tensors.names());
    layers.retain(|prefix, names| is_layer(&tensors, names) && select(prefix));

    let mut pieces = Vec::new();
    for (prefix, names) in &layers {
        let Some(weights) = Stored::read(&tensors, prefix, Part::Weights, &names.weights)? else {
            continue;
        };
        pieces.extend(rename(&weights, naming.weights)?);
        if let Some(bias) = Stored::read(&tensors, prefix, Part::Bias, &names.bias)? {
            bias.check_shape(weights.groups(), &weights.shape()[..1])?;
            pieces.extend(rename(&bias, naming.bias)?);
        }
    }
    let converted: HashSet<&str> = layers.values().flat_map(LayerNames::iter).collect();
    let others = tensors.iter().filter(|(name, _)| !converted.contains(name));
    pieces.extend(others.map(|(name, view)| {
        let (dtype, shape) = (view.dtype(), view.shape().to_vec());
        (name.to_owned(), Piece { dtype, shape, parts: vec![view.data()] })
    }));
    let file = safetensors::serialize(pieces, metadata_of(file)?)
        .map_err(|error| Error::invalid(format!("checkpoint: it cannot be written: {error}")))?;
    Ok(Conversion { file, layers: layers.keys().map(|&prefix| prefix.to_owned()).collect() })
}

fn is_layer(tensors: &SafeTensors<'_>, names: &LayerNames<'_>) -> bool {
    let rank = |name| tensors.tensor(name).map(|tensor| tensor.shape().len()).ok();
    if !names.weights.experts.is_empty() {
        return true;
    }
    names.weights.packed.and_then(rank) == Some(3) && names.bias.packed.and_then(rank) != Some(1)
}

/// A tensor of the new file: pieces of the old one, one after the other.
struct Piece<'data> {
    dtype: Dtype,
    shape: Vec<usize>,
    parts: Vec<&'data [u8]>,
}

fn rename<'data>(
    stored: &Stored<'data>,
    naming: ParamLayout,
) -> Result<Vec<(String, Piece<'data>)>> {
    let (prefix, stem, dtype) = (stored.prefix(), stored.part().stem(), stored.dtype());
    if naming == ParamLayout::Packed {
        let shape = [&[stored.groups()], stored.shape()].concat();
        let parts = match stored.as_packed() {
            Some(bytes) => vec![bytes],
            None => stored.each()?,
        };
        return Ok(vec![(format!("{prefix}{stem}"), Piece { dtype, shape, parts })]);
    }
    let pieces = stored.each()?.into_iter().enumerate().map(|(group, bytes)| {
        let shape = stored.shape().to_vec();
        (format!("{prefix}{stem}{group}"), Piece { dtype, shape, parts: vec![bytes] })
    });
    Ok(pieces.collect())
}

impl View for Piece<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match *self.parts {
            [whole] => Cow::Borrowed(whole),
            _ => Cow::Owned(self.parts.concat()),
        }
    }

    fn data_len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}
