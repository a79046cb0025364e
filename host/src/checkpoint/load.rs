//! From a file into a layer.

use safetensors::SafeTensors;

use super::names::{LayerNames, Part};
use super::stored::Stored;
use super::{Layouts, check_byte_order};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::grouped_linear::{Config, GroupedLinear, plan_forward};
use crate::tensor::{DType, GroupedTensor, ParamLayout};

/// Makes a layer from the tensors whose names begin with `prefix` (`"layers.3.experts."`, with its
/// last dot), in new memory of the layouts that are asked for.
///
/// The bias keeps the type that it has in the file. Other tensors of the file, with this prefix or
/// not, are of no concern.
///
/// ```
/// use grouped_linear::checkpoint::{self, Layouts, safetensors};
/// use grouped_linear::{Config, DType, Device, ParamLayout};
/// use safetensors::tensor::{Dtype, TensorView};
///
/// let ones = [0, 0, 0x80, 0x3f].repeat(6);
/// let weight = |name| Ok::<_, safetensors::SafeTensorError>((
///     name, TensorView::new(Dtype::F32, vec![2, 3], &ones)?,
/// ));
/// let file = safetensors::serialize([weight("moe.weight0")?, weight("moe.weight1")?], None)?;
///
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 2, in_features: 3, out_features: 2, dtype: DType::F32 };
/// let layouts = Layouts { weights: ParamLayout::Packed, bias: None };
/// let layer = checkpoint::load(&stream, &checkpoint::open(&file)?, "moe.", config, layouts)?;
/// assert_eq!(layer.weights().group(1)?.to_f32(&stream)?, [1.0; 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Tensors are missing, too many, named in both ways, or not of the shape and type that `config`
/// says; there is a bias but `layouts` has none, or the other way round; otherwise as
/// [`GroupedLinear::new`].
pub fn load(
    stream: &Stream,
    tensors: &SafeTensors<'_>,
    prefix: &str,
    config: Config,
    layouts: Layouts,
) -> Result<GroupedLinear> {
    let StoredLayer { weights, bias } =
        StoredLayer::read(tensors, prefix, &config, layouts.bias.is_some())?;
    let bias_dtype = bias.as_ref().map(Stored::float_dtype).transpose()?;
    // Before memory is asked for.
    plan_forward(&config, bias_dtype, stream)?;

    let weights = create(stream, &weights, layouts.weights, config.dtype)?;
    let bias = match (bias, layouts.bias, bias_dtype) {
        (Some(bias), Some(layout), Some(dtype)) => Some(create(stream, &bias, layout, dtype)?),
        _ => None,
    };
    GroupedLinear::new(stream, config, weights, bias)
}

/// Overwrites the parameters of a layer, in the memory and the layout that they have, with the
/// tensors whose names begin with `prefix`. The layer's handles, and the caller's, stay valid.
///
/// ```
/// use grouped_linear::checkpoint::{self, Naming, safetensors};
/// use grouped_linear::{Config, DType, Device, GroupedLinear, GroupedTensor, Tensor};
///
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 2, in_features: 2, out_features: 1, dtype: DType::F32 };
/// let mine = Tensor::from_slice(&stream, &[2, 1, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
/// let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(mine.clone())?, None)?;
/// let file = checkpoint::save(&stream, &layer, "", Naming::DISCRETE)?;
/// let file = safetensors::serialize(file, None)?;
///
/// mine.clone().fill_zero(&stream)?;
/// checkpoint::load_into(&stream, &checkpoint::open(&file)?, "", &layer)?;
/// assert_eq!(mine.to_f32(&stream)?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`load`], with the layer's sizes, types and layouts; then nothing has been written. A driver
/// failure, or a stream that records a graph; then some of it may have been.
pub fn load_into(
    stream: &Stream,
    tensors: &SafeTensors<'_>,
    prefix: &str,
    layer: &GroupedLinear,
) -> Result<()> {
    let StoredLayer { weights, bias } =
        StoredLayer::read(tensors, prefix, &layer.config(), layer.bias().is_some())?;
    layer.weights().check_device("weights", stream)?;
    let mut parameters = vec![(weights, layer.weights())];
    if let (Some(stored), Some(bias)) = (bias, layer.bias()) {
        bias.check_device("bias", stream)?;
        stored.check_dtype(bias.dtype())?;
        parameters.push((stored, bias));
    }
    for (stored, parameter) in &parameters {
        fill(stream, stored, parameter)?;
    }
    Ok(())
}

/// A layer's parameters in a file, which fit its configuration but for the type of the bias.
struct StoredLayer<'data> {
    weights: Stored<'data>,
    bias: Option<Stored<'data>>,
}

impl<'data> StoredLayer<'data> {
    fn read(
        tensors: &SafeTensors<'data>,
        prefix: &str,
        config: &Config,
        has_bias: bool,
    ) -> Result<Self> {
        check_byte_order()?;
        let &Config { groups, in_features, out_features, dtype } = config;
        let names = LayerNames::under(prefix, tensors.names());
        let weights = Stored::read(tensors, prefix, Part::Weights, &names.weights)?
            .ok_or_else(|| missing_weights(tensors, prefix))?;
        weights.check_shape(groups, &[out_features, in_features])?;
        weights.check_dtype(dtype)?;

        let bias = Stored::read(tensors, prefix, Part::Bias, &names.bias)?;
        match &bias {
            Some(bias) if has_bias => bias.check_shape(groups, &[out_features])?,
            Some(_) => {
                return Err(Error::invalid(format!(
                    "checkpoint: there is a bias under the prefix {prefix:?}, but the layer has none"
                )));
            }
            None if has_bias => return Err(missing(prefix, Part::Bias)),
            None => {}
        }
        Ok(Self { weights, bias })
    }
}

fn missing_weights(tensors: &SafeTensors<'_>, prefix: &str) -> Error {
    let quantized = format!("{prefix}weight.");
    if tensors.names().iter().any(|name| name.starts_with(&quantized)) {
        return Error::invalid(format!(
            "checkpoint: neither {prefix}weight nor {prefix}weight0 is there, but {quantized}… are: the \
             weights are quantized; read them with load_quantized"
        ));
    }
    missing(prefix, Part::Weights)
}

fn missing(prefix: &str, part: Part) -> Error {
    let stem = part.stem();
    Error::invalid(format!(
        "checkpoint: neither {prefix}{stem} nor {prefix}{stem}0 is there; \
         the prefix is everything before {stem}, with its last dot"
    ))
}

fn create(
    stream: &Stream,
    stored: &Stored<'_>,
    layout: ParamLayout,
    dtype: DType,
) -> Result<GroupedTensor> {
    let parameter = GroupedTensor::empty(stream, layout, stored.groups(), stored.shape(), dtype)?;
    fill(stream, stored, &parameter)?;
    Ok(parameter)
}

fn fill(stream: &Stream, stored: &Stored<'_>, parameter: &GroupedTensor) -> Result<()> {
    if let (Some(bytes), Some(tensor)) = (stored.as_packed(), parameter.as_packed()) {
        return tensor.clone().write_bytes(stream, bytes);
    }
    for (group, bytes) in stored.each()?.into_iter().enumerate() {
        parameter.group(group)?.write_bytes(stream, bytes)?;
    }
    Ok(())
}
