//! Weights that are quantized between optimiser steps.

use super::super::quantized::{QuantizeArgs, QuantizeSource, quantize};
use super::super::weight_cache::Prepare;
use super::LayerRecipe;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{Plan, QuantizeProblem, ScaleSource};
use crate::recipe::Role;
use crate::tensor::{DType, GroupedTensor, QuantizedTensor, Tensor};

/// Quantizes master weights, packed or discrete, for the products of a layer: what a
/// [`WeightCache`](crate::WeightCache) holds between optimiser steps, for
/// [`LayerRecipe::with_weights`]. With delayed scaling the history notes their magnitudes when they are
/// quantized, and the copies keep the scale of that moment.
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
        let destination = self.recipe.spec(Role::Weight, 0, [true, true]);
        let four_over_six = self.recipe.recipe.four_over_six(Role::Weight);
        let four_over_six = four_over_six.map(|choice| choice.error);
        let plain = QuantizeProblem::new(destination, self.master);
        let scales = match self.recipe.delayed {
            Some(_) => ScaleSource::Given,
            None => ScaleSource::Own,
        };
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
