//! What flags choose from.

use clap::ValueEnum;
use grouped_linear::plan::KernelChoice;

use super::model::kernel::{Kernel, Numbers};
use super::model::machine::{MACHINES, Machine};
use super::model::product::Pass;
use super::model::quantize::{QUANTIZERS, Quantizer};

/// Value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MachineChoice {
    /// H200 SXM, with the kernels that the project has.
    H200,
    /// B200: predictions from assumptions, nothing is measured.
    B200,
}

impl MachineChoice {
    pub fn machine(self) -> &'static Machine {
        let [h200, b200] = &MACHINES;
        match self {
            Self::H200 => h200,
            Self::B200 => b200,
        }
    }
}

/// Value of `--kernel`: a kernel's name.
pub fn kernel(text: &str) -> Result<KernelChoice, String> {
    let named = |choice: &KernelChoice| choice.name() == text;
    let names = KernelChoice::ALL.map(KernelChoice::name).join(", ");
    KernelChoice::ALL.into_iter().find(named).ok_or_else(|| format!("there are {names}"))
}

/// Value of `--pass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PassChoice {
    /// Y = X · Wᵀ.
    Fprop,
    /// dX = dY · W.
    Dgrad,
    /// dW = dYᵀ · X.
    Wgrad,
    /// The same, added to an FP32 gradient.
    Accumulate,
    /// Quantization of X, or of W in squares.
    Quantize,
}

impl PassChoice {
    /// The product; `None` for quantizers.
    pub fn product(self) -> Option<Pass> {
        match self {
            Self::Fprop => Some(Pass::Fprop),
            Self::Dgrad => Some(Pass::Dgrad),
            Self::Wgrad => Some(Pass::Wgrad),
            Self::Accumulate => Some(Pass::Accumulate),
            Self::Quantize => None,
        }
    }

    /// As tables have it.
    pub fn name(self) -> &'static str {
        self.product().map_or("quantize", Pass::name)
    }
}

/// Value of `--recipe`: a recipe, by the word that `train` has for it, or some of its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecipeName {
    /// BF16; `none`, too.
    #[value(alias = "none")]
    Bf16,
    /// FP8 with a scale per expert, of the tensor itself: `fp8-fast` and `fp8-tensor`.
    Current,
    /// FP8 with a scale per expert, of earlier steps: multiplied by the same kernels.
    Delayed,
    /// FP8 with scales per block; `fp8-block`, too.
    #[value(alias = "fp8-block")]
    Block,
    /// MXFP8.
    Mxfp8,
    /// NVFP4.
    Nvfp4,
    /// FP8 with a scale per expert, sums in the tensor core: fprop.
    Fp8Fast,
    /// FP8 with a scale per expert, sums in FP32: the gradients.
    Fp8Tensor,
}

impl RecipeName {
    /// What its kernels multiply.
    pub fn kernels(self) -> &'static [RecipeChoice] {
        match self {
            Self::Bf16 => &[RecipeChoice::Bf16],
            Self::Current | Self::Delayed => &[RecipeChoice::Fp8Fast, RecipeChoice::Fp8Tensor],
            Self::Block => &[RecipeChoice::Fp8Block],
            Self::Mxfp8 => &[RecipeChoice::Mxfp8],
            Self::Nvfp4 => &[RecipeChoice::Nvfp4],
            Self::Fp8Fast => &[RecipeChoice::Fp8Fast],
            Self::Fp8Tensor => &[RecipeChoice::Fp8Tensor],
        }
    }

    /// As flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Current => "current",
            Self::Delayed => "delayed",
            Self::Block => "block",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
            Self::Fp8Fast => "fp8-fast",
            Self::Fp8Tensor => "fp8-tensor",
        }
    }
}

/// Whether kernels that multiply so were asked for by these words; by none all are.
pub fn are_asked_for(kernels: RecipeChoice, recipes: &[RecipeName]) -> bool {
    recipes.is_empty() || recipes.iter().any(|name| name.kernels().contains(&kernels))
}

/// What kernels multiply, and how they add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecipeChoice {
    /// BF16.
    Bf16,
    /// FP8 with a scale per expert, sums in the tensor core.
    Fp8Fast,
    /// FP8 with a scale per expert.
    Fp8Tensor,
    /// FP8 with scales per block.
    Fp8Block,
    /// MXFP8.
    Mxfp8,
    /// NVFP4.
    Nvfp4,
}

impl RecipeChoice {
    pub fn of(numbers: Numbers) -> Self {
        match numbers {
            Numbers::Bf16 => Self::Bf16,
            Numbers::Fp8Fast => Self::Fp8Fast,
            Numbers::Fp8Tensor => Self::Fp8Tensor,
            Numbers::Fp8Block => Self::Fp8Block,
            Numbers::Mxfp8 => Self::Mxfp8,
            Numbers::Nvfp4 => Self::Nvfp4,
        }
    }

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8Fast => "fp8-fast",
            Self::Fp8Tensor => "fp8-tensor",
            Self::Fp8Block => "fp8-block",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }

    /// What names of its quantizers begin with.
    pub fn quantizers(self) -> &'static [&'static str] {
        match self {
            Self::Bf16 => &[],
            Self::Fp8Fast | Self::Fp8Tensor => &["group."],
            Self::Fp8Block => &["vector.", "square."],
            Self::Mxfp8 => &["mxfp8.", "mxfp8-exact."],
            Self::Nvfp4 => &["nvfp4-exact."],
        }
    }

    /// Whether its tensors are made by the quantizer of that name.
    pub fn uses(self, quantizer: &str) -> bool {
        self.quantizers().iter().any(|beginning| quantizer.starts_with(beginning))
    }

    /// Whether it is for a pass: fast sums are for fprop alone, as recipes use them.
    pub fn multiplies(self, pass: Pass) -> bool {
        self != Self::Fp8Fast || pass == Pass::Fprop
    }

    /// Whether the model has kernels of it for a pass.
    pub fn has(self, machine: &Machine, pass: PassChoice) -> bool {
        match pass.product() {
            Some(pass) => {
                let mut kernels = machine.kernels(false).into_iter();
                kernels.any(|kernel| Self::of(kernel.numbers) == self && multiplies(kernel, pass))
            }
            None => quantizers(machine).any(|(name, _)| self.uses(name)),
        }
    }
}

/// Whether a kernel is for a pass.
pub fn multiplies(kernel: Kernel, pass: Pass) -> bool {
    RecipeChoice::of(kernel.numbers).multiplies(pass)
}

/// The quantizers that the model has of a machine, with their names.
pub fn quantizers(machine: &Machine) -> impl Iterator<Item = &'static (&'static str, Quantizer)> {
    QUANTIZERS.iter().filter(|(_, quantizer)| quantizer.is_for(machine))
}

/// Value of `--tile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TileChoice {
    /// 256 × 256 by two blocks.
    Pair,
    /// 128 × 256 by one block.
    Block,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<T: ValueEnum + 'static>() -> impl Iterator<Item = String> {
        let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_owned())
    }

    #[test]
    fn recipes_have_one_word_everywhere() {
        for word in words::<crate::train::RecipeChoice>() {
            let here = RecipeName::from_str(&word, false).expect(&word);
            assert!(here.name() == word || word == "none", "{word} is {here:?}");
        }
        // What tables call the kernels can be asked for, too.
        for kernels in RecipeChoice::value_variants() {
            let name = kernels.name();
            let word = RecipeName::from_str(name, false).expect(name);
            assert_eq!(word.kernels(), [*kernels]);
        }
        let names = RecipeName::value_variants().iter().map(|word| word.name());
        assert!(words::<RecipeName>().eq(names));
    }
}
