//! Tokens, weights and output gradients: quantized, restored, or quantized by someone else and
//! checked.

use super::super::Config;
use super::super::movement::{DequantizeSink, dequantize};
use super::super::quantized::{QuantizeArgs, QuantizeSource, quantize};
use super::{LayerRecipe, RecipeBuffers};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::gemm::scaled;
use crate::plan::{BiasKind, DequantizeProblem, KernelChoice, Pass, Plan, Target};
use crate::quantize::{check_aligned, check_restored, check_source};
use crate::recipe::Role;
use crate::splits::Splits;
use crate::tensor::{Direction, GroupedTensor, QuantizedTensor, Tensor, missing_copy};

impl LayerRecipe {
    /// Quantizes tokens or output gradients; those of a bias may be summed on the way.
    pub(in crate::grouped_linear) fn args<'a>(
        &'a self,
        role: Role,
        source: QuantizeSource<'a>,
    ) -> QuantizeArgs<'a> {
        let delayed = self.delayed.as_ref().map(|states| states.of(role));
        let recipe = self.recipe();
        let scale = recipe.scale_rule();
        let four_over_six = recipe.four_over_six(role).map(|choice| choice.error);
        let random = self.random.as_ref().filter(|_| recipe.is_stochastic(role));
        QuantizeArgs { scale, delayed, four_over_six, random, ..QuantizeArgs::new(source) }
    }

    pub(in crate::grouped_linear) fn tokens(
        &self,
        stream: &Stream,
        role: Role,
        x: &Tensor,
        splits: &Splits,
        copies: [bool; 2],
    ) -> Result<QuantizedTensor> {
        let mut quantized = self.open(stream, role, x.shape()[0], copies)?;
        self.quantize(stream, role, QuantizeSource::Tokens(x, splits), &mut quantized)?;
        Ok(quantized)
    }

    pub(in crate::grouped_linear) fn quantize(
        &self,
        stream: &Stream,
        role: Role,
        source: QuantizeSource<'_>,
        to: &mut QuantizedTensor,
    ) -> Result<()> {
        quantize(stream, self.args(role, source), to)
    }

    /// Refuses tokens that were quantized by someone else in another way than forward would, or
    /// without a copy that it reads or, for the gradient of the weights (`dw`), backward.
    pub(in crate::grouped_linear) fn check_tokens(
        &self,
        x: &QuantizedTensor,
        dw: bool,
        target: Target,
    ) -> Result<()> {
        let got = x.spec();
        let columnwise = self.spec.columnwise_tokens(dw);
        let want = self.spec.tensor(Role::Input, got.source.rows(), [true, columnwise]);
        if (got.groups, got.source, got.format) != (want.groups, want.source, want.format) {
            return Err(Error::invalid(format!(
                "x: {:?} in {} groups of {} were given, {:?} in {} groups of {} are needed",
                got.source, got.groups, got.format, want.source, want.groups, want.format
            )));
        }
        for direction in want.directions() {
            self.spec.check_operand("x", got, direction, target)?;
        }
        if dw && self.spec.kept_tokens().is_none() {
            return Err(Error::unsupported(
                "x: quantized tokens were given, and backward needs them as they were; keep the \
                 quantized copy (SavePolicy::Quantized), restore it (BackwardPrecision::Dequantized), \
                 or leave out the gradient of the weights (Needs::dw)",
            ));
        }
        Ok(())
    }

    /// Refuses weights that were given without a copy that forward reads, or (`columnwise`)
    /// backward; where none were given, the layer's `own`, if they cannot be quantized where they
    /// lie.
    pub(in crate::grouped_linear) fn check_weights(
        &self,
        stream: &Stream,
        own: &GroupedTensor,
        columnwise: bool,
    ) -> Result<()> {
        let target = stream.device().target();
        let Some(weights) = &self.weights else {
            own.check_device("weights", stream)?;
            let plan =
                Plan::new(self.spec.quantization(Role::Weight, 0, [true, columnwise]), target)?;
            return check_source(&plan, own.tensors());
        };
        weights.check_device("weights", stream)?;
        self.spec.check_given_weights(columnwise, target)
    }

    /// Refuses tokens or output gradients that lie where their quantization into these copies could
    /// not read them. A plan is made only where it matters which kernel reads.
    pub(in crate::grouped_linear) fn check_placed(
        &self,
        stream: &Stream,
        role: Role,
        source: &Tensor,
        copies: [bool; 2],
    ) -> Result<()> {
        if check_aligned([source].into_iter()).is_ok() {
            return Ok(());
        }
        let problem = self.spec.quantization(role, source.shape()[0], copies);
        let plan = Plan::new(problem, stream.device().target())?;
        check_source(&plan, std::slice::from_ref(source))
    }

    /// Refuses tokens (the operand of wgrad) or weights (of dgrad) that were quantized by someone
    /// else and that backward, which would multiply by them or restore them, cannot read where they
    /// lie.
    pub(in crate::grouped_linear) fn check_kept<'a>(
        &self,
        target: Target,
        (rows, kernel): (usize, KernelChoice),
        kept: impl IntoIterator<Item = (Pass, &'a QuantizedTensor)>,
    ) -> Result<()> {
        let output = self.spec.config.dtype;
        for (pass, operand) in kept {
            // A plan is made only where it matters which kernel reads.
            if self.spec.in_backward()
                && scaled::check_copy(operand, Direction::Columnwise).is_err()
            {
                let product = self.spec.product(pass, rows, (output, BiasKind::None), kernel);
                // A kernel that the gradient does not have is for backward to refuse.
                if let Ok(plan) = Plan::new(product.into(), target) {
                    let placed = scaled::Placed { b: Some(operand), ..Default::default() };
                    scaled::check_placed(&plan, &placed)?;
                }
            }
            if self.spec.dequantizes() {
                let (source, direction) = (operand.spec(), Direction::Rowwise);
                let problem = DequantizeProblem { source, direction, output, exact: false };
                let copy = operand.copy(direction);
                let copy = copy.ok_or_else(|| missing_copy("quantized tensor", direction))?;
                check_restored(&Plan::new(problem.into(), target)?, copy, &[])?;
            }
        }
        Ok(())
    }

    /// Restores the tokens that forward kept.
    pub(in crate::grouped_linear) fn restore_tokens(
        &self,
        stream: &Stream,
        x: &QuantizedTensor,
        splits: &Splits,
    ) -> Result<Tensor> {
        let Config { in_features, dtype, .. } = self.spec.config;
        let mut restored = match self.buffers.as_ref().and_then(RecipeBuffers::restored) {
            Some((tokens, _)) => tokens.clone(),
            None => Tensor::empty(stream, &[x.spec().source.rows(), in_features], dtype)?,
        };
        let sink = DequantizeSink::Tokens(&mut restored, splits);
        dequantize(stream, x, Direction::Rowwise, sink)?;
        Ok(restored)
    }

    /// Restores the weights that forward kept.
    pub(in crate::grouped_linear) fn restore_weights(
        &self,
        stream: &Stream,
        weights: &QuantizedTensor,
    ) -> Result<GroupedTensor> {
        let Config { groups, in_features, out_features, dtype } = self.spec.config;
        let restored = match self.buffers.as_ref().and_then(RecipeBuffers::restored) {
            Some((_, weights)) => weights.clone(),
            None => Tensor::empty(stream, &[groups, out_features, in_features], dtype)?,
        };
        let mut restored = GroupedTensor::packed(restored)?;
        dequantize(stream, weights, Direction::Rowwise, DequantizeSink::Weights(&mut restored))?;
        Ok(restored)
    }
}
