//! Weights that are quantized between optimiser steps.

use super::super::quantized::{QuantizeArgs, QuantizeSource, quantize};
use super::super::weight_cache::Prepare;
use super::LayerRecipe;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{Plan, QuantizeProblem};
use crate::recipe::Role;
use crate::tensor::{DType, GroupedTensor, QuantizedTensor, Tensor};

/// Quantizes master weights, packed or discrete, for the products of a layer: what a
/// [`WeightCache`](crate::WeightCache) holds between optimiser steps, for
/// [`LayerRecipe::with_weights`]. With delayed scaling the history notes their magnitudes when they
/// are quantized, and the copies keep the scale of that moment.
///
/// The recipe comes first, then the cache, then the recipe with the cache's weights; before the
/// first forward the cache is refreshed.
///
/// ```
/// use grouped_linear::recipe::BlockScaling;
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 2, in_features: 32, out_features: 16, dtype: DType::Bf16 };
/// let recipe = LayerRecipe::new(&stream, config, Recipe::Block(BlockScaling::default()))?;
/// let prepare = QuantizeWeights { recipe: recipe.clone(), master: DType::F32 };
/// let mut cache = WeightCache::new(&stream, prepare)?;
/// let recipe = recipe.with_weights(cache.prepared().clone())?;
///
/// let master = Tensor::from_f32(&stream, &[2, 16, 32], DType::F32, &[0.5; 1024])?;
/// let version = 0; // another one after every step of the optimiser
/// cache.refresh(&stream, &GroupedTensor::packed(master)?, version)?;
///
/// // The layer's own weights are not read.
/// let own = GroupedTensor::zeros(&stream, ParamLayout::Packed, 2, &[16, 32], DType::Bf16)?;
/// let layer = GroupedLinear::new(&stream, config, own, None)?;
/// let x = Tensor::from_f32(&stream, &[2, 32], DType::Bf16, &[1.0; 64])?;
/// let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
/// let (y, _) = layer.forward(&stream, &x, &Splits::host(&[1, 1])?, options)?;
/// assert_eq!(y.to_f32(&stream)?, [16.0; 32]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizeWeights {
    /// The recipe of the layer that reads them.
    pub recipe: LayerRecipe,
    /// Type of the master weights.
    pub master: DType,
}

impl Prepare for QuantizeWeights {
    type Prepared = QuantizedTensor;

    fn allocate(&self, stream: &Stream) -> Result<QuantizedTensor> {
        let destination = self.recipe.spec.tensor(Role::Weight, 0, [true, true]);
        let four_over_six = self.recipe.recipe().four_over_six(Role::Weight);
        let four_over_six = four_over_six.map(|choice| choice.error);
        let plain = QuantizeProblem::new(destination, self.master);
        let scales = self.recipe.spec.scale_source();
        let problem = QuantizeProblem { four_over_six, scales, ..plain };
        Plan::new(problem.into(), stream.device().target())?;
        QuantizedTensor::empty(stream, destination)
    }

    fn fill(
        &self,
        stream: &Stream,
        master: &GroupedTensor,
        skip: &Tensor,
        prepared: &mut QuantizedTensor,
    ) -> Result<()> {
        if master.dtype() != self.master {
            return Err(Error::dtype("master weights", master.dtype(), self.master.to_string()));
        }
        let source = QuantizeSource::Weights(master);
        let args = self.recipe.args(Role::Weight, source);
        quantize(stream, QuantizeArgs { skip: Some(skip), ..args }, prepared)
    }
}
