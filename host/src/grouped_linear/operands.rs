//! What backward multiplies: plain tensors, or quantized ones where forward followed a recipe.

use super::functional::{
    Accumulate, DbiasSink, DgradArgs, QuantizeArgs, QuantizeSource, QuantizedDgradArgs,
    QuantizedGemmOptions, QuantizedWgradArgs, WgradArgs, dgrad, quantize, quantized_dgrad,
    quantized_wgrad,
};
use super::low_precision::{Contents, LayerRecipe};
use super::saved::{Saved, Tokens, Weights};
use super::sink::gemm_options;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::gemm::{Placed, check_outputs, check_placed, scaled};
use crate::plan::{Factor, KernelChoice, Pass, Plan};
use crate::recipe::{Accumulation, Format, Role};
use crate::splits::Splits;
use crate::tensor::{Direction, GroupedTensor, QuantizedTensor, Tensor};

/// The gradient of the output, as products read it.
#[derive(Debug)]
pub(super) enum OutputGradient<'a> {
    Plain(&'a Tensor),
    Quantized(QuantizedTensor, &'a LayerRecipe),
}

impl<'a> OutputGradient<'a> {
    /// Quantizes `dy`, whose rows go by the splits, into the copies that `quantized` has; the
    /// gradient of the bias is summed on the way.
    pub(super) fn quantized(
        stream: &Stream,
        recipe: &'a LayerRecipe,
        (dy, splits): (&Tensor, &Splits),
        mut quantized: QuantizedTensor,
        dbias: Option<DbiasSink<'_>>,
    ) -> Result<Self> {
        let args = recipe.args(Role::GradOutput, QuantizeSource::Tokens(dy, splits));
        quantize(stream, QuantizeArgs { dbias, ..args }, &mut quantized)?;
        Ok(Self::Quantized(quantized, recipe))
    }

    /// The gradient of the tokens.
    pub(super) fn dgrad(
        &self,
        stream: &Stream,
        weights: &Weights,
        splits: &Splits,
        kernel: KernelChoice,
        dx: &mut Tensor,
    ) -> Result<()> {
        match (self, weights) {
            (Self::Plain(dy), Weights::Plain(weights)) => {
                let options = gemm_options(kernel, Accumulate::Overwrite);
                dgrad(stream, &DgradArgs { dy, weights, splits, options }, dx)
            }
            (Self::Quantized(dy, recipe), Weights::Quantized(weights)) => {
                let options = quantized_options(recipe, Pass::Dgrad, kernel);
                quantized_dgrad(stream, &QuantizedDgradArgs { dy, weights, splits, options }, dx)
            }
            _ => Err(mixed()),
        }
    }
}

/// Refuses a product of backward that its launch would refuse, for its kernel or for where the
/// operands and `outputs` that exist already lie.
pub(super) fn check_product(
    stream: &Stream,
    saved: &Saved,
    pass: Pass,
    dy: Option<&Tensor>,
    outputs: &[Tensor],
) -> Result<()> {
    let output = outputs.first().map_or(saved.config.dtype, Tensor::dtype);
    let plan = Plan::new(saved.product(pass, output), stream.device().target())?;
    check_outputs(&plan, outputs)?;
    let (x, weights) = match pass {
        Pass::Wgrad => (saved.x.as_ref(), None),
        Pass::Fprop | Pass::Dgrad => (None, saved.weights.as_ref()),
    };
    if let Some(recipe) = &saved.recipe {
        let b = match (x, weights) {
            (Some(Tokens::Quantized(own)), _) | (_, Some(Weights::Quantized(own))) => Some(own),
            _ => None,
        };
        scaled::check_placed(&plan, &scaled::Placed { b, ..Default::default() })?;
        let copies = [pass == Pass::Dgrad, pass == Pass::Wgrad];
        let check = |dy| recipe.check_placed(stream, Role::GradOutput, dy, copies);
        return dy.map_or(Ok(()), check);
    }
    let weights = match weights {
        Some(Weights::Plain(weights)) => Some(weights),
        Some(Weights::Quantized(_)) | None => None,
    };
    check_placed(&plan, &Placed { tokens: dy, weights, ..Placed::default() })?;
    if let Some(Tokens::Plain(x)) = x {
        check_placed(&plan, &Placed { tokens: Some(x), ..Placed::default() })?;
    }
    Ok(())
}

/// What the gradient of the weights is computed from.
#[derive(Clone, Debug)]
pub(super) struct WgradOperands {
    factors: Factors,
    splits: Splits,
    /// What of them lies in a recipe's buffers.
    contents: [Option<Contents>; 2],
}

#[derive(Clone, Debug)]
enum Factors {
    Plain { x: Tensor, dy: Tensor, kernel: KernelChoice },
    Quantized { x: QuantizedTensor, dy: QuantizedTensor, options: QuantizedGemmOptions<'static> },
}

impl WgradOperands {
    pub(super) fn new(
        x: Tokens,
        dy: &OutputGradient<'_>,
        splits: Splits,
        kernel: KernelChoice,
    ) -> Result<Self> {
        let factors = match (x, dy) {
            (Tokens::Plain(x), OutputGradient::Plain(dy)) => {
                Factors::Plain { x, dy: (*dy).clone(), kernel }
            }
            (Tokens::Quantized(x), OutputGradient::Quantized(dy, recipe)) => {
                let dy = dy.only(Direction::Columnwise)?;
                let options = quantized_options(recipe, Pass::Wgrad, kernel);
                Factors::Quantized { x, dy, options }
            }
            _ => return Err(mixed()),
        };
        Ok(Self { factors, splits, contents: [None, None] })
    }

    /// The same, of which this lies in a recipe's buffers.
    pub(super) fn in_buffers(self, contents: [Option<Contents>; 2]) -> Self {
        Self { contents, ..self }
    }

    /// Refuses operands that are gone.
    pub(super) fn check_contents(&self) -> Result<()> {
        self.contents.iter().flatten().try_for_each(Contents::check_pending)
    }

    /// Computes the gradient into `dw`.
    pub(super) fn compute(
        &self,
        stream: &Stream,
        accumulate: Accumulate,
        dw: &mut GroupedTensor,
    ) -> Result<()> {
        let splits = &self.splits;
        match &self.factors {
            Factors::Plain { x, dy, kernel } => {
                let options = gemm_options(*kernel, accumulate);
                super::functional::wgrad(stream, &WgradArgs { dy, x, splits, options }, dw)
            }
            Factors::Quantized { x, dy, options } => {
                let beta = match accumulate {
                    Accumulate::Overwrite => 0.0,
                    Accumulate::Add => 1.0,
                };
                let options = QuantizedGemmOptions { beta: Factor::Value(beta), ..*options };
                quantized_wgrad(stream, &QuantizedWgradArgs { dy, x, splits, options }, dw)
            }
        }
    }

    /// Tensors of the output gradient, of the tokens, and the splits on the device.
    pub(super) fn tensors(&self) -> (Vec<&Tensor>, Vec<&Tensor>, Option<&Tensor>) {
        let (dy, x) = match &self.factors {
            Factors::Plain { x, dy, .. } => (vec![dy], vec![x]),
            Factors::Quantized { x, dy, .. } => (dy.tensors().collect(), x.tensors().collect()),
        };
        (dy, x, self.splits.device_tensor())
    }

    pub(super) fn splits(&self) -> &Splits {
        &self.splits
    }

    /// Which kernel computes it.
    pub(super) fn kernel(&self) -> KernelChoice {
        match &self.factors {
            Factors::Plain { kernel, .. } => *kernel,
            Factors::Quantized { options, .. } => options.kernel,
        }
    }

    /// How the numbers of quantized operands are read, and how their sums grow.
    pub(super) fn rules(&self) -> Option<ProductRules> {
        match &self.factors {
            Factors::Plain { .. } => None,
            Factors::Quantized { x, dy, options } => Some(ProductRules {
                formats: [dy, x].map(|own| own.spec().format),
                accumulation: options.accumulation,
                power_of_two_scales: options.power_of_two_scales,
            }),
        }
    }

    /// Bytes that it keeps.
    pub(super) fn byte_len(&self) -> usize {
        let (dy, x, splits) = self.tensors();
        dy.into_iter().chain(x).chain(splits).map(Tensor::byte_len).sum()
    }
}

/// How quantized operands are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProductRules {
    formats: [Format; 2],
    accumulation: Accumulation,
    power_of_two_scales: bool,
}

/// How a layer that follows `recipe` multiplies.
pub(super) fn quantized_options(
    recipe: &LayerRecipe,
    pass: Pass,
    kernel: KernelChoice,
) -> QuantizedGemmOptions<'static> {
    let recipe = recipe.recipe();
    QuantizedGemmOptions {
        accumulation: recipe.accumulation(pass),
        power_of_two_scales: recipe.scale_rule().power_of_two,
        kernel,
        ..QuantizedGemmOptions::default()
    }
}

fn mixed() -> Error {
    Error::invalid("forward and backward follow different recipes; pass what this forward saved")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Device;
    use crate::grouped_linear::Config;
    use crate::grouped_linear::quantized::Sides;
    use crate::plan::BiasKind;
    use crate::recipe::{BlockScaling, CurrentScaling, Recipe, ScaleRule, Sums};
    use crate::tensor::DType;

    /// Or the plan, which says what a layer can compute, would speak of other kernels than run.
    #[test]
    fn what_is_multiplied_is_what_was_planned() -> Result<()> {
        use Accumulation::{Fast, Promoted};
        let stream = Device::cpu().stream()?;
        let config = Config { groups: 2, in_features: 32, out_features: 16, dtype: DType::F32 };
        let (rows, kernel, output) = (3, KernelChoice::Auto, (DType::F32, BiasKind::None));
        for power_of_two in [true, false] {
            let scale = ScaleRule { power_of_two, epsilon: 0.0 };
            let current = CurrentScaling { scale, ..CurrentScaling::default() };
            let sums = Sums { wgrad: Fast, ..Sums::default() };
            for (recipe, accumulation) in [
                (Recipe::Block(BlockScaling { scale, ..BlockScaling::default() }), Promoted),
                (Recipe::Current(current), Promoted),
                (Recipe::Current(CurrentScaling { sums, ..current }), Fast),
            ] {
                let recipe = LayerRecipe::new(&stream, config, recipe)?;
                let dy = recipe.spec().tensor(Role::GradOutput, rows, [true, true]);
                let dy = OutputGradient::Quantized(QuantizedTensor::empty(&stream, dy)?, &recipe);
                let x = QuantizedTensor::empty(
                    &stream,
                    recipe.spec().tensor(Role::Input, rows, [false, true]),
                )?;
                let splits = Splits::host(&[1, 2])?;
                let operands = WgradOperands::new(Tokens::Quantized(x), &dy, splits, kernel)?;
                let Factors::Quantized { x, dy, options } = &operands.factors else {
                    return Err(mixed());
                };
                let sides = Sides { a: ("dy", dy), b: ("x", x) };
                let got = sides.problem(Pass::Wgrad, (2, rows), (16, 32), *options, output);
                assert_eq!(got, recipe.spec().product(Pass::Wgrad, rows, output, kernel));
                assert_eq!(got.power_of_two_scales, power_of_two);
                assert_eq!(got.accumulation, accumulation);
            }
        }
        Ok(())
    }
}
