//! `info --plan`: which kernel computes a product, and why.

use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use grouped_linear::plan::{
    BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Problem, ScaledGemmProblem, Target,
};
use grouped_linear::recipe::{
    Accumulation, BlockScaling, CurrentScaling, Format, Mxfp8Scaling, Nvfp4Scaling, Role,
};
use grouped_linear::{Arch, DType, Device, Recipe};

use crate::bench::{RecipeChoice, RecipeName, kernel};

/// Flags of `info --plan`.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// Print which kernel computes a product, which others could, and what decides between them.
    /// Nothing runs, and no GPU is needed.
    #[arg(long)]
    pub plan: bool,
    /// Experts.
    #[arg(long, default_value_t = 8, requires = "plan")]
    groups: usize,
    /// Rows of the token buffer, of all experts together.
    #[arg(long, default_value_t = 32_768, requires = "plan")]
    rows: usize,
    /// Features of the input, K.
    #[arg(long, default_value_t = 7168, requires = "plan")]
    in_features: usize,
    /// Features of the output, N.
    #[arg(long, default_value_t = 4096, requires = "plan")]
    out_features: usize,
    /// Passes; all if none is named.
    #[arg(long, value_enum, value_delimiter = ',', requires = "plan")]
    pass: Vec<PassName>,
    /// What is multiplied: f32, f16, or a recipe of `bench`: bf16, current, delayed, block, mxfp8,
    /// nvfp4; or fp8-fast or fp8-tensor, of which current has the first in fprop and the other in
    /// the gradients.
    #[arg(long, default_value = "bf16", requires = "plan")]
    recipe: Operands,
    /// Type of the result: f32, f16 or bf16. Of FP32 operands it is f32.
    #[arg(long, requires = "plan")]
    output: Option<Output>,
    /// The kernel, by name: auto, simt, block, narrow, pair or aligned.
    #[arg(long, default_value = "auto", value_parser = kernel, requires = "plan")]
    kernel: KernelChoice,
    /// For which device: cpu, cuda:0, emulated:sm_90a, emulated:sm_100a, or sm_90a or sm_100a for a
    /// GPU that need not be here, an H200 with 132 or a B200 with 148 multiprocessors.
    #[arg(long, default_value = "sm_90a", requires = "plan")]
    target: TargetChoice,
    /// Another number of multiprocessors.
    #[arg(long, requires = "plan")]
    multiprocessors: Option<u32>,
}

/// Value of `--pass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PassName {
    /// Y = X · Wᵀ.
    Fprop,
    /// dX = dY · W.
    Dgrad,
    /// dW = dYᵀ · X.
    Wgrad,
}

/// Value of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// FP32.
    F32,
    /// FP16.
    F16,
    /// BF16.
    Bf16,
}

/// Value of `--recipe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    Plain(DType),
    Quantized(RecipeName),
}

impl FromStr for Operands {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::Plain(DType::F32)),
            "f16" => Ok(Self::Plain(DType::F16)),
            _ => match RecipeName::from_str(text, false) {
                Ok(RecipeName::Bf16) => Ok(Self::Plain(DType::Bf16)),
                Ok(recipe) => Ok(Self::Quantized(recipe)),
                Err(_) => {
                    let recipes = RecipeName::value_variants().iter().map(|recipe| recipe.name());
                    let names: Vec<&str> = ["f32", "f16"].into_iter().chain(recipes).collect();
                    Err(format!("there are {}", names.join(", ")))
                }
            },
        }
    }
}

/// Value of `--target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetChoice {
    /// A device that is opened.
    Cpu,
    Cuda(u32),
    Emulated(Arch),
    /// A GPU that need not be here.
    Typical(Arch),
}

impl FromStr for TargetChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let arch = |name: &str| Arch::ALL.into_iter().find(|arch| arch.to_string() == name);
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let found = match kind {
            "cpu" if rest.is_empty() => Some(Self::Cpu),
            "cuda" if text == "cuda" => Some(Self::Cuda(0)),
            "cuda" => rest.parse().ok().map(Self::Cuda),
            "emulated" => arch(rest).map(Self::Emulated),
            _ => arch(text).map(Self::Typical),
        };
        found.ok_or_else(|| {
            "cpu, cuda:0, emulated:sm_90a, emulated:sm_100a, sm_90a and sm_100a are possible"
                .to_owned()
        })
    }
}

impl TargetChoice {
    fn target(self) -> Result<Target> {
        let typical = |compute_capability, multiprocessors| Target {
            gpu: Some(GpuTarget { compute_capability, multiprocessors }),
        };
        Ok(match self {
            Self::Cpu => Target::CPU,
            Self::Cuda(ordinal) => {
                let cannot = || format!("--target cuda:{ordinal} cannot be used");
                Device::cuda(ordinal).with_context(cannot)?.target()
            }
            Self::Emulated(arch) => {
                let cannot = || format!("--target emulated:{arch} cannot be used");
                Device::emulated(arch).with_context(cannot)?.target()
            }
            Self::Typical(Arch::Sm90a) => typical((9, 0), 132),
            Self::Typical(Arch::Sm100a) => typical((10, 0), 148),
            Self::Typical(arch) => bail!("--target {arch}: name a device that is here"),
        })
    }
}

impl PlanArgs {
    /// The explanations, one for each pass, with an empty line between two.
    pub fn explain(&self) -> Result<String> {
        let mut target = self.target.target()?;
        match (self.multiprocessors, &mut target.gpu) {
            (None, _) => {}
            (Some(0), _) => bail!("--multiprocessors is 0, at least one is needed"),
            (Some(count), Some(gpu)) => gpu.multiprocessors = count,
            (Some(_), None) => bail!("--multiprocessors was given for the CPU, which has none"),
        }
        let named =
            |pass: Pass, name| (self.pass.is_empty() || self.pass.contains(&name)).then_some(pass);
        let passes = [
            named(Pass::Fprop, PassName::Fprop),
            named(Pass::Dgrad, PassName::Dgrad),
            named(Pass::Wgrad, PassName::Wgrad),
        ];
        let explain = |pass| Ok(Plan::explain(self.problem(pass, target), target)?.to_string());
        let explained: Result<Vec<String>> = passes.into_iter().flatten().map(explain).collect();
        Ok(explained?.join("\n\n"))
    }

    fn problem(&self, pass: Pass, target: Target) -> Problem {
        let Self { groups, rows, in_features, out_features, kernel, .. } = *self;
        let bias = BiasKind::None;
        let wanted = self.output.map(|output| match output {
            Output::F32 => DType::F32,
            Output::F16 => DType::F16,
            Output::Bf16 => DType::Bf16,
        });
        let input = match self.recipe {
            Operands::Plain(dtype) => dtype,
            Operands::Quantized(_) => DType::Bf16,
        };
        let output = wanted.unwrap_or(input);
        let product = GemmProblem {
            pass,
            groups,
            rows,
            in_features,
            out_features,
            input,
            output,
            bias,
            kernel,
        };
        match self.recipe {
            Operands::Plain(_) => product.into(),
            Operands::Quantized(name) => {
                // Where a recipe has two kernels, as `current` has, the first is that of fprop.
                let kernels = name.kernels();
                let last = kernels.len() - 1;
                let choice = kernels[if pass == Pass::Fprop { 0 } else { last }];
                quantized(choice, product, target).into()
            }
        }
    }
}

/// A product of operands that are quantized as a recipe of `bench` says, and stored as a layer
/// would.
pub fn quantized(choice: RecipeChoice, product: GemmProblem, target: Target) -> ScaledGemmProblem {
    let GemmProblem { pass, groups, rows, in_features, out_features, .. } = product;
    let (a, b) = formats(choice, pass);
    let features = [in_features, out_features];
    ScaledGemmProblem {
        pass,
        groups,
        rows,
        in_features,
        out_features,
        a,
        b,
        forms: [a, b].map(|format| target.form(format, features)),
        accumulation: match choice {
            RecipeChoice::Fp8Fast => Accumulation::Fast,
            _ => Accumulation::Promoted,
        },
        output: product.output,
        bias: product.bias,
        power_of_two_scales: true,
        kernel: product.kernel,
    }
}

/// What a pass multiplies in a recipe of `bench`.
fn formats(choice: RecipeChoice, pass: Pass) -> (Format, Format) {
    let recipe = match choice {
        RecipeChoice::Fp8Block => Recipe::Block(BlockScaling::default()),
        RecipeChoice::Mxfp8 => Recipe::Mxfp8(Mxfp8Scaling::default()),
        RecipeChoice::Nvfp4 => Recipe::Nvfp4(Nvfp4Scaling::default()),
        RecipeChoice::Bf16 | RecipeChoice::Fp8Fast | RecipeChoice::Fp8Tensor => {
            Recipe::Current(CurrentScaling::default())
        }
    };
    let (a, b) = match pass {
        Pass::Fprop => (Role::Input, Role::Weight),
        Pass::Dgrad => (Role::GradOutput, Role::Weight),
        Pass::Wgrad => (Role::GradOutput, Role::Input),
    };
    (recipe.format(a), recipe.format(b))
}
