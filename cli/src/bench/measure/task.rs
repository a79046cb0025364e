//! What is measured: sections, which have operands of their own, and tasks over them.

use std::time::Duration;

use super::super::choices::{PassChoice, RecipeChoice, RecipeName, are_asked_for};
use super::super::model::product::Pass;
use super::super::suite::Shape;
use super::quantizer::{self, Quantizer};
use super::record::Quantity;

/// Operands that are in memory together. One section at a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Two buffers of 2 GiB.
    Copy,
    /// Products in BF16.
    Bf16,
    /// Products in FP8.
    Fp8,
    /// Products in MXFP8.
    Mxfp8,
    /// Products in NVFP4.
    Nvfp4,
    /// Quantizers.
    Quantize,
    /// A layer with a recipe.
    Layer(LayerKind),
}

/// The recipe of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// None.
    Bf16,
    /// One scale per expert.
    Current,
    /// The same, with weights that were quantized before, as in all microbatches but a step's
    /// first.
    CurrentCached,
    /// One scale per expert, of earlier steps. Every call ends a step.
    Delayed,
    /// A scale per block.
    Block,
    /// The same, with weights that were quantized before.
    BlockCached,
    /// MXFP8.
    Mxfp8,
    /// MXFP8 with squares of weights, whose exact numbers are the same both ways.
    Mxfp8Square,
    /// NVFP4.
    Nvfp4,
}

impl LayerKind {
    /// All, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::Bf16,
        Self::Current,
        Self::CurrentCached,
        Self::Delayed,
        Self::Block,
        Self::BlockCached,
        Self::Mxfp8,
        Self::Mxfp8Square,
        Self::Nvfp4,
    ];

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Current => "current",
            Self::CurrentCached => "current-cached",
            Self::Delayed => "delayed",
            Self::Block => "block",
            Self::BlockCached => "block-cached",
            Self::Mxfp8 => "mxfp8",
            Self::Mxfp8Square => "mxfp8-square",
            Self::Nvfp4 => "nvfp4",
        }
    }

    /// Whether weights are quantized once, before what is timed.
    pub fn keeps_weights(self) -> bool {
        matches!(self, Self::CurrentCached | Self::BlockCached)
    }

    /// The words of `--recipe` that ask for it: its own, and those of the kernels that it
    /// multiplies with.
    pub fn recipes(self) -> &'static [RecipeName] {
        use RecipeName::{Fp8Fast, Fp8Tensor};
        match self {
            Self::Bf16 => &[RecipeName::Bf16],
            Self::Current | Self::CurrentCached => &[RecipeName::Current, Fp8Fast, Fp8Tensor],
            Self::Delayed => &[RecipeName::Delayed, Fp8Fast, Fp8Tensor],
            Self::Block | Self::BlockCached => &[RecipeName::Block],
            Self::Mxfp8 | Self::Mxfp8Square => &[RecipeName::Mxfp8],
            Self::Nvfp4 => &[RecipeName::Nvfp4],
        }
    }
}

impl Section {
    /// As the peer and the record have it.
    pub fn name(self) -> String {
        let name = match self {
            Self::Copy => "copy",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
            Self::Quantize => "quantize",
            Self::Layer(kind) => return format!("layer.{}", kind.name()),
        };
        name.to_owned()
    }

    /// Products of this library that the section has for a pass.
    fn products(self, pass: Pass) -> Vec<RecipeChoice> {
        use RecipeChoice::{Fp8Block, Fp8Fast, Fp8Tensor};
        let all: &[RecipeChoice] = match self {
            Self::Bf16 => &[RecipeChoice::Bf16],
            Self::Fp8 => &[Fp8Fast, Fp8Tensor, Fp8Block],
            Self::Mxfp8 => &[RecipeChoice::Mxfp8],
            Self::Nvfp4 => &[RecipeChoice::Nvfp4],
            Self::Copy | Self::Quantize | Self::Layer(_) => &[],
        };
        all.iter().copied().filter(|recipe| recipe.multiplies(pass)).collect()
    }
}

/// What is done with the operands of a section.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Task {
    /// A copy of 2 GiB.
    Copy,
    /// A grouped product.
    Product(Pass),
    /// Quantization.
    Quantize(Quantizer),
    /// A layer's forward.
    Forward,
    /// A layer's forward and backward.
    Layer,
}

/// Bytes of the copy.
pub const COPY_BYTES: u64 = 2 << 30;

impl Task {
    /// As the peer and the record have it.
    pub fn name(self) -> String {
        match self {
            Self::Copy => "copy".to_owned(),
            Self::Product(pass) => pass.name().to_owned(),
            Self::Quantize(quantizer) => quantizer.name(),
            Self::Forward => "forward".to_owned(),
            Self::Layer => "layer".to_owned(),
        }
    }

    /// FLOPs that count.
    pub fn flops(self, shape: &Shape) -> f64 {
        match self {
            Self::Copy | Self::Quantize(_) => 0.0,
            Self::Product(_) | Self::Forward => shape.flops(),
            Self::Layer => 3.0 * shape.flops(),
        }
    }

    /// Bytes that count.
    pub fn bytes(self, shape: &Shape) -> f64 {
        match self {
            Self::Copy => 2.0 * COPY_BYTES as f64,
            Self::Quantize(quantizer) => quantizer.bytes(shape),
            Self::Product(_) | Self::Forward | Self::Layer => 0.0,
        }
    }
}

/// How a call is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A single call behind a flush of the L2 cache, after a rest.
    Single(Duration),
    /// So many calls in a row, of which the mean counts.
    InARow(u32),
    /// The host's time for a call, the mean of so many, while the GPU is busy.
    Host(u32),
}

/// One case of a section.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CasePlan {
    /// What is done.
    pub task: Task,
    /// What is measured.
    pub quantity: Quantity,
    /// Whether graphs are replayed beside plain calls.
    pub replay: bool,
}

/// What the flags ask for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Levels; all if there is none.
    pub levels: &'a [Level],
    /// Passes; all, and layers, if there is none.
    pub passes: &'a [PassChoice],
    /// Recipes; all if there is none.
    pub recipes: &'a [RecipeName],
}

/// What a part of a run measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// Products and quantizers of operands that are ready, as whole operations with their set-up.
    Product,
    /// Kernels alone, without set-up: of products those that multiply and align, beside peers'
    /// whole calls; of quantizers all, beside a copy of as many bytes.
    Kernel,
    /// A layer's forward.
    Forward,
    /// A layer's forward and backward; weights are quantized in every call, those of
    /// `current-cached` and `block-cached` once before.
    Layer,
    /// What calls take of the host.
    Host,
    /// Recorded graphs of layers and of products that overwrite, replayed, beside plain calls.
    Replay,
}

impl Wanted<'_> {
    fn level(&self, level: Level) -> bool {
        self.levels.is_empty() || self.levels.contains(&level)
    }

    fn pass(&self, pass: PassChoice) -> bool {
        self.passes.is_empty() || self.passes.contains(&pass)
    }

    /// Whether one of these kernels was asked for, or a recipe that has it.
    fn any(&self, recipes: &[RecipeChoice]) -> bool {
        recipes.iter().any(|recipe| are_asked_for(*recipe, self.recipes))
    }

    /// Sections with their cases, in the order in which they run; none is empty.
    pub fn plan(&self) -> Vec<(Section, Vec<CasePlan>)> {
        let products = [Section::Bf16, Section::Fp8, Section::Mxfp8, Section::Nvfp4];
        let mut plan: Vec<_> =
            products.into_iter().map(|section| (section, self.products(section))).collect();
        plan.push((Section::Quantize, self.quantizers()));
        for kind in LayerKind::ALL {
            plan.push((Section::Layer(kind), self.layers(kind)));
        }
        plan.retain(|(_, cases)| !cases.is_empty());
        plan
    }

    fn products(&self, section: Section) -> Vec<CasePlan> {
        let passes = [
            (PassChoice::Fprop, Pass::Fprop),
            (PassChoice::Dgrad, Pass::Dgrad),
            (PassChoice::Wgrad, Pass::Wgrad),
            (PassChoice::Accumulate, Pass::Accumulate),
        ];
        let mut cases = Vec::new();
        for (choice, pass) in passes {
            if !self.pass(choice) || !self.any(&section.products(pass)) {
                continue;
            }
            let case = |quantity, replay| CasePlan { task: Task::Product(pass), quantity, replay };
            if self.level(Level::Product) {
                cases.push(case(Quantity::Gpu, false));
            }
            if self.level(Level::Kernel) {
                cases.push(case(Quantity::Kernel, false));
            }
            if self.level(Level::Host) {
                cases.push(case(Quantity::Host, false));
            }
            if self.level(Level::Replay) && pass != Pass::Accumulate {
                cases.extend([case(Quantity::Gpu, true), case(Quantity::Host, true)]);
            }
        }
        cases
    }

    fn quantizers(&self) -> Vec<CasePlan> {
        let mut cases = Vec::new();
        if !self.pass(PassChoice::Quantize) {
            return cases;
        }
        for own in quantizer::all().filter(|quantizer| self.any(quantizer.recipes())) {
            let case = |quantity| CasePlan { task: Task::Quantize(own), quantity, replay: false };
            if self.level(Level::Product) {
                cases.push(case(Quantity::Gpu));
            }
            if self.level(Level::Kernel) {
                cases.push(case(Quantity::Kernel));
            }
        }
        cases
    }

    fn layers(&self, kind: LayerKind) -> Vec<CasePlan> {
        let mut cases = Vec::new();
        let asked_for = |name| self.recipes.contains(name);
        let recipe = self.recipes.is_empty() || kind.recipes().iter().any(asked_for);
        // A layer has several passes together.
        if !(recipe && self.passes.is_empty()) {
            return cases;
        }
        for (level, task) in [(Level::Forward, Task::Forward), (Level::Layer, Task::Layer)] {
            let case = |quantity, replay| CasePlan { task, quantity, replay };
            if self.level(level) {
                cases.push(case(Quantity::Gpu, false));
            }
            if self.level(Level::Host) {
                cases.push(case(Quantity::Host, false));
            }
            if self.level(Level::Replay) {
                cases.extend([case(Quantity::Gpu, true), case(Quantity::Host, true)]);
            }
        }
        cases
    }
}
