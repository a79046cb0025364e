//! What forward and backward compute in low precision, as problems of a plan.

use super::super::Config;
use super::RecipeSpec;
use crate::error::{Error, Result};
use crate::plan::{
    BiasKind, DequantizeProblem, KernelChoice, Pass, Plan, Problem, QuantizeProblem,
    ScaledGemmProblem, Target,
};
use crate::recipe::Role;
use crate::tensor::{DType, Direction, QuantizedSpec, SourceShape};

/// Why a recipe without buffers cannot be recorded.
pub(in crate::grouped_linear) const NO_BUFFERS_IN_GRAPH: &str = "a recipe's tensors would be new, and nothing can be allocated in a graph; give it memory with \
     LayerRecipe::with_buffers";

impl RecipeSpec {
    /// Shape and format of what the layer quantizes; `[rowwise, columnwise]`.
    pub(in crate::grouped_linear) fn tensor(
        &self,
        role: Role,
        rows: usize,
        copies: [bool; 2],
    ) -> QuantizedSpec {
        let Config { groups, in_features, out_features, .. } = self.config;
        let source = match role {
            Role::Input => SourceShape::Tokens { rows, features: in_features },
            Role::GradOutput => SourceShape::Tokens { rows, features: out_features },
            Role::Weight => SourceShape::Weights { rows: out_features, columns: in_features },
        };
        let format = self.recipe.format(role);
        let form = self.form;
        let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(form));
        QuantizedSpec { groups, source, format, rowwise, columnwise }
    }

    /// A product of the layer.
    pub(in crate::grouped_linear) fn product(
        &self,
        pass: Pass,
        rows: usize,
        (output, bias): (DType, BiasKind),
        kernel: KernelChoice,
    ) -> ScaledGemmProblem {
        let Config { groups, in_features, out_features, .. } = self.config;
        let (a, b) = match pass {
            Pass::Fprop => (Role::Input, Role::Weight),
            Pass::Dgrad => (Role::GradOutput, Role::Weight),
            Pass::Wgrad => (Role::GradOutput, Role::Input),
        };
        ScaledGemmProblem {
            pass,
            groups,
            rows,
            in_features,
            out_features,
            a: self.recipe.format(a),
            b: self.recipe.format(b),
            forms: [self.form; 2],
            accumulation: self.recipe.accumulation(pass),
            output,
            bias,
            power_of_two_scales: self.recipe.scale_rule().power_of_two,
            kernel,
        }
    }

    /// A quantization of the layer.
    pub(in crate::grouped_linear) fn quantization(
        &self,
        role: Role,
        rows: usize,
        copies: [bool; 2],
    ) -> Problem {
        let scales = self.scale_source();
        let four_over_six = self.recipe.four_over_six(role).map(|choice| choice.error);
        let stochastic = self.recipe.is_stochastic(role);
        let plain = QuantizeProblem::new(self.tensor(role, rows, copies), self.config.dtype);
        QuantizeProblem { scales, four_over_six, stochastic, ..plain }.into()
    }

    /// Everything that forward and backward compute in low precision, with outputs of the layer's
    /// type.
    pub(super) fn problems(
        &self,
        rows: usize,
        (dx, dw): (bool, bool),
        output: DType,
        kernel: KernelChoice,
    ) -> Vec<Problem> {
        let input = self.config.dtype;
        let quantize = |role, copies| self.quantization(role, rows, copies);
        let product =
            |pass| Problem::from(self.product(pass, rows, (output, BiasKind::None), kernel));
        let restored = [(Role::Input, dw), (Role::Weight, dx)];
        let (dx, dw) = (dx && self.in_backward(), dw && self.in_backward());
        let mut problems = vec![
            // First, since a refusal names the features: both, in_features and out_features.
            quantize(Role::Weight, [true, dx]),
            quantize(Role::Input, [true, dw]),
            product(Pass::Fprop),
        ];
        if self.dequantizes() {
            let restore = |role| -> Problem {
                let source = self.tensor(role, rows, [true, false]);
                let (direction, output) = (Direction::Rowwise, input);
                DequantizeProblem { source, direction, output, exact: false }.into()
            };
            problems
                .extend(restored.iter().filter(|(_, own)| *own).map(|(role, _)| restore(*role)));
        }
        if dx || dw {
            problems.push(quantize(Role::GradOutput, [dx, dw]));
        }
        problems.extend(dx.then(|| product(Pass::Dgrad)));
        problems.extend(dw.then(|| product(Pass::Wgrad)));
        problems
    }

    /// Refuses targets that cannot quantize or multiply what a layer has in low precision.
    pub(super) fn check_target(&self, target: Target) -> Result<()> {
        let problems = self.problems(1, (true, true), self.config.dtype, KernelChoice::Auto);
        problems.into_iter().try_for_each(|problem| Plan::new(problem, target).map(drop))
    }

    /// Why a layer cannot follow the recipe on `target`.
    pub(in crate::grouped_linear) fn unsupported_reason(
        &self,
        target: Target,
        rows: usize,
        (dx, dw): (bool, bool),
        kernel: KernelChoice,
    ) -> Option<String> {
        let problems = self.problems(rows, (dx, dw), self.config.dtype, kernel);
        let refused = problems.into_iter().find_map(|problem| Plan::new(problem, target).err());
        refused.map(|error| error.to_string())
    }

    /// Refuses layers and calls that the recipe was not made for.
    pub(in crate::grouped_linear) fn check_layer(
        &self,
        config: &Config,
        kernel: KernelChoice,
    ) -> Result<()> {
        if self.config != *config {
            return Err(Error::invalid(format!(
                "the recipe was made for a layer of {:?}, this one is {config:?}",
                self.config
            )));
        }
        if kernel == KernelChoice::Simt {
            return Err(Error::unsupported(
                "KernelChoice::Simt was asked for with a recipe; the readable kernel takes no quantized operands",
            ));
        }
        Ok(())
    }
}
