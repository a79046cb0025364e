//! Flags of `train`, and the part of them that determines the numbers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use grouped_linear::plan::MAX_GROUPS;
use grouped_linear::recipe::{
    BlockScaling, CurrentScaling, DelayedScaling, Mxfp8Scaling, Nvfp4Scaling, Role,
};
use grouped_linear::{DType, Recipe};
use serde::{Deserialize, Serialize};

use crate::device::DeviceChoice;

/// Flags of `train`.
#[derive(Args, Clone, Debug)]
pub struct TrainArgs {
    /// Everything that determines the numbers.
    #[command(flatten)]
    pub config: Config,
    /// Text to learn from, in this order; by default the project's own documentation and sources.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub input: Vec<PathBuf>,
    /// Folder for the checkpoint, the log and the loss curve.
    #[arg(long, value_name = "FOLDER", default_value = "runs/default")]
    pub out: PathBuf,
    /// Continue from the checkpoint in the folder, with its settings. A flag that contradicts them
    /// is refused, but --steps, which may be another; the same --input must be given again.
    #[arg(long)]
    pub resume: bool,
    /// Where GroupedLinear runs.
    #[arg(long, value_enum, default_value = "auto")]
    pub device: DeviceChoice,
    /// Steps between two records of the log.
    #[arg(long, default_value_t = 20, value_parser = at_least_one)]
    pub log_every: usize,
    /// Steps between two looks at the held-out text, each of which is a record of the log.
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    pub evaluate_every: usize,
    /// Most bytes of the held-out text to measure at the end; they are spread evenly over it.
    #[arg(long, value_name = "COUNT", default_value_t = 65536, value_parser = at_least_one)]
    pub held_out_bytes: usize,
    /// Steps between two checkpoints.
    #[arg(long, default_value_t = 500, value_parser = at_least_one)]
    pub checkpoint_every: usize,
    /// Stop at this step, as an interruption would, with the schedule still made for --steps.
    #[arg(long, value_name = "STEP", value_parser = at_least_one)]
    pub stop_after: Option<usize>,
    /// Fail unless the held-out loss is below the bigram model's and no expert is starved.
    #[arg(long)]
    pub check: bool,
    /// Names of the settings of `config` that the command line gave.
    #[arg(skip)]
    pub explicit: BTreeSet<String>,
}

/// Everything that determines the numbers of a run, apart from the text.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Width of the residual stream.
    #[arg(long, default_value_t = 128, value_parser = at_least_one)]
    pub hidden: usize,
    /// Width between the two layers of an expert; by default twice --hidden.
    #[arg(long, value_parser = at_least_one)]
    pub expert_hidden: Option<usize>,
    /// Experts of a block.
    #[arg(long, default_value_t = 8, value_parser = at_least_one)]
    pub experts: usize,
    /// Experts that each token is sent to.
    #[arg(long, default_value_t = 2, value_parser = at_least_one)]
    pub top_k: usize,
    /// Mixture-of-experts blocks.
    #[arg(long, default_value_t = 2)]
    pub blocks: usize,
    /// Bytes that the model sees.
    #[arg(long, default_value_t = 16, value_parser = at_least_one)]
    pub context: usize,
    /// Width of the embedding of one byte.
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub embedding: usize,
    /// Predictions of one step.
    #[arg(long, default_value_t = 512, value_parser = at_least_one)]
    pub batch: usize,
    /// Steps of the whole run; the learning rate's schedule ends here.
    #[arg(long, default_value_t = 1600, value_parser = at_least_one)]
    pub steps: usize,
    /// Type of the operands of GroupedLinear.
    #[arg(long, value_enum, default_value = "bf16")]
    pub dtype: ComputeType,
    /// Low precision of the experts' layers.
    #[arg(long, value_enum, default_value = "none")]
    #[serde(default)]
    pub recipe: RecipeChoice,
    /// Seed of weights and batches.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Highest learning rate; by default 0.003 at width 128, and in inverse proportion to --hidden.
    #[arg(long, allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// Weight decay of matrices.
    #[arg(long, default_value_t = 0.01, allow_negative_numbers = true)]
    pub weight_decay: f64,
    /// Weight of the load-balancing loss.
    #[arg(long, default_value_t = 0.05, allow_negative_numbers = true)]
    pub balance: f64,
}

/// Value of `--dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ComputeType {
    /// bfloat16.
    Bf16,
    /// IEEE binary32.
    F32,
}

/// Value of `--recipe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RecipeChoice {
    /// The type of `--dtype`.
    #[default]
    None,
    /// FP8, one scale per expert, of the tensor itself.
    Current,
    /// FP8, one scale per expert, of the last steps.
    Delayed,
    /// FP8, a scale for every 128 neighbours or 128 x 128 weights.
    Block,
    /// FP8, a power of two for every 32 neighbours.
    Mxfp8,
    /// FP4, a scale for every 16 neighbours or 16 x 16 weights, and one per expert.
    Nvfp4,
}

impl RecipeChoice {
    /// The recipe, if there is one; `seed` is that of its random numbers.
    pub fn recipe(self, seed: u64) -> Option<Recipe> {
        match self {
            Self::None => None,
            Self::Current => Some(Recipe::Current(CurrentScaling::default())),
            Self::Delayed => Some(Recipe::Delayed(DelayedScaling::default())),
            Self::Block => Some(Recipe::Block(BlockScaling::default())),
            Self::Mxfp8 => Some(Recipe::Mxfp8(Mxfp8Scaling::default())),
            Self::Nvfp4 => Some(Recipe::Nvfp4(Nvfp4Scaling { seed, ..Nvfp4Scaling::default() })),
        }
    }

    /// Bytes that a layer remembers from step to step.
    fn memory_bytes(self, experts: u64) -> u64 {
        match self.recipe(0) {
            // Of tokens, weights and gradients: a history and a scale.
            Some(Recipe::Delayed(delayed)) => {
                3 * (delayed.history_len as u64 + 1) * experts * size_of::<f32>() as u64
            }
            // Seed and offset.
            Some(Recipe::Nvfp4(nvfp4)) if nvfp4.stochastic_gradients => 2 * size_of::<i64>() as u64,
            _ => 0,
        }
    }

    /// What features are multiples of.
    fn feature_multiple(self) -> usize {
        let multiple = |recipe: Recipe| recipe.format(Role::Input).multiple();
        self.recipe(0).map_or(FEATURE_MULTIPLE, multiple)
    }
}

impl From<ComputeType> for DType {
    fn from(compute: ComputeType) -> Self {
        match compute {
            ComputeType::Bf16 => Self::Bf16,
            ComputeType::F32 => Self::F32,
        }
    }
}

/// Width at which the default learning rate was chosen.
const BASE_HIDDEN: usize = 128;
/// Default learning rate at that width.
const BASE_LEARNING_RATE: f64 = 3e-3;

/// The largest value of any size: products of four of them stay within 64 bits.
const LARGEST_SIZE: usize = 1 << 15;

/// Different bytes.
pub const BYTES: usize = 256;

/// Kernels that copy tiles need features in multiples of this.
pub const FEATURE_MULTIPLE: usize = 8;

impl TrainArgs {
    /// Notes which settings the command line gave, so that resuming can tell them from defaults.
    pub fn note_explicit(&mut self, given: &ArgMatches) {
        self.explicit = given
            .ids()
            .map(|id| id.as_str())
            .filter(|id| given.value_source(id) == Some(ValueSource::CommandLine))
            .map(str::to_owned)
            .collect();
    }

    /// The settings of a checkpoint, where the command line does not contradict them. `--steps` may
    /// change: that lengthens or shortens the run.
    pub fn resumed_config(&self, checkpoint: &Config) -> Result<Config> {
        let given = as_map(&self.config.clone().resolved())?;
        let kept = as_map(checkpoint)?;
        for (name, value) in &given {
            if name != "steps" && self.explicit.contains(name) && kept.get(name) != Some(value) {
                let flag = name.replace('_', "-");
                let kept = &kept[name];
                bail!(
                    "--{flag} {value} was given, but the checkpoint was made with {kept}; \
                     leave the flag out, or start a new run with another --out"
                );
            }
        }
        let mut config = checkpoint.clone();
        if self.explicit.contains("steps") {
            config.steps = self.config.steps;
        }
        Ok(config)
    }
}

fn as_map(config: &Config) -> Result<serde_json::Map<String, serde_json::Value>> {
    match serde_json::to_value(config)? {
        serde_json::Value::Object(map) => Ok(map),
        other => bail!("settings are no JSON object but {other}"),
    }
}

impl Config {
    /// The settings with every default filled in.
    pub fn resolved(mut self) -> Self {
        self.expert_hidden = Some(self.expert_width());
        self.learning_rate = Some(self.peak_learning_rate());
        self
    }

    /// Highest learning rate. Steps of wider layers must be smaller, since more of them add up.
    pub fn peak_learning_rate(&self) -> f64 {
        let scale = BASE_HIDDEN as f64 / self.hidden as f64;
        self.learning_rate.unwrap_or(BASE_LEARNING_RATE * scale)
    }

    /// Width between the two layers of an expert.
    pub fn expert_width(&self) -> usize {
        self.expert_hidden.unwrap_or(self.hidden.saturating_mul(2))
    }

    /// Columns of the router: the experts, up to a multiple that every engine takes.
    pub fn router_columns(&self) -> usize {
        self.experts.next_multiple_of(FEATURE_MULTIPLE)
    }

    /// Number of weights of the model. The settings must be valid: then the products fit 64 bits.
    pub fn weight_count(&self) -> u64 {
        let [hidden, width, experts] =
            [self.hidden, self.expert_width(), self.experts].map(|size| size as u64);
        let [context, embedding, blocks] =
            [self.context, self.embedding, self.blocks].map(|size| size as u64);
        let layer = |inputs: u64, outputs: u64| outputs * (inputs + 1); // with its bias
        let router = hidden * self.router_columns() as u64; // without one
        let experts = experts * (layer(hidden, 2 * width) + layer(width, hidden));
        let (ends, bytes) = (layer(context * embedding, hidden) + hidden, BYTES as u64);
        bytes * embedding + ends + layer(hidden, bytes) + blocks * (hidden + router + experts)
    }

    /// Bytes that recipes remember from step to step. The settings must be valid.
    pub fn memory_bytes(&self) -> u64 {
        // Up and down.
        2 * self.blocks as u64 * self.recipe.memory_bytes(self.experts as u64)
    }

    /// Refuses settings that no run can have.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("hidden", self.hidden),
            ("expert-hidden", self.expert_width()),
            ("experts", self.experts),
            ("top-k", self.top_k),
            ("context", self.context),
            ("embedding", self.embedding),
            ("batch", self.batch),
        ];
        for (name, size) in sizes {
            ensure!(
                (1..=LARGEST_SIZE).contains(&size),
                "--{name} {size}: it must lie between 1 and {LARGEST_SIZE}"
            );
        }
        ensure!(
            self.experts <= MAX_GROUPS,
            "--experts {}: a grouped product takes at most {MAX_GROUPS}",
            self.experts
        );
        ensure!(self.blocks <= 256, "--blocks {}: at most 256", self.blocks);
        ensure!(self.steps > 0, "--steps 0: at least one step is needed");
        ensure!(
            self.top_k <= self.experts,
            "--top-k {}: a token cannot go to more than the {} experts there are",
            self.top_k,
            self.experts
        );
        // The layer of the input has no recipe.
        let (own, plain) = (self.recipe.feature_multiple(), FEATURE_MULTIPLE);
        let multiples = [
            ("--hidden", self.hidden, own),
            ("--expert-hidden", self.expert_width(), own),
            ("--context times --embedding", self.context.saturating_mul(self.embedding), plain),
        ];
        for (name, size, multiple) in multiples {
            ensure!(
                size.is_multiple_of(multiple),
                "{name} is {size}; it must be a multiple of {multiple}, as its kernels need it"
            );
        }
        let rates = [
            ("learning-rate", self.peak_learning_rate()),
            ("weight-decay", self.weight_decay),
            ("balance", self.balance),
        ];
        for (name, rate) in rates {
            ensure!(
                rate.is_finite() && rate >= 0.0,
                "--{name} {rate}: it must be a finite number, 0 or more"
            );
            ensure!(
                (rate as f32).is_finite(),
                "--{name} {rate:e}: it must be at most {:e}, since it is used in 32 bits",
                f32::MAX
            );
        }
        Ok(())
    }
}

fn at_least_one(text: &str) -> Result<usize> {
    let value: usize = text.parse().context("a whole number is needed")?;
    ensure!(value > 0, "it must be 1 or more");
    Ok(value)
}

#[cfg(test)]
pub mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Harness {
        #[command(flatten)]
        train: TrainArgs,
    }

    /// The flags as the command line would give them.
    pub fn parse(flags: &[&str]) -> TrainArgs {
        use clap::{CommandFactory, FromArgMatches};
        let matches = Harness::command().get_matches_from([&["train"], flags].concat());
        let mut args = Harness::from_arg_matches(&matches).expect("flags of a test").train;
        args.note_explicit(&matches);
        args
    }

    #[test]
    fn defaults_are_valid() {
        parse(&[]).config.validate().unwrap();
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let cases: [(&[&str], &str); 11] = [
            (&["--experts", "4097"], "--experts 4097: a grouped product takes at most 4096"),
            (&["--hidden", "100"], "--hidden is 100; it must be a multiple of 8"),
            (
                &["--hidden", "120", "--recipe", "block"],
                "--hidden is 120; it must be a multiple of 16",
            ),
            (
                &["--hidden", "112", "--recipe", "mxfp8"],
                "--hidden is 112; it must be a multiple of 32",
            ),
            (&["--top-k", "9"], "more than the 8 experts"),
            (&["--context", "3", "--embedding", "3"], "--context times --embedding is 9"),
            (&["--learning-rate=-1"], "--learning-rate -1"),
            (&["--learning-rate=1e39"], "--learning-rate 1e39: it must be at most 3.4028235e38"),
            (&["--weight-decay=3.5e38"], "--weight-decay 3.5e38: it must be at most"),
            (&["--balance=1e300"], "--balance 1e300: it must be at most"),
            (&["--batch", "99999"], "between 1 and 32768"),
        ];
        for (flags, reason) in cases {
            let message = parse(flags).config.validate().unwrap_err().to_string();
            assert!(message.contains(reason), "{flags:?}: {message}");
        }
    }

    #[test]
    fn the_largest_rates_of_32_bits_are_taken() {
        let largest = f32::MAX.to_string();
        for name in ["--learning-rate", "--weight-decay", "--balance"] {
            parse(&[name, &largest]).config.validate().unwrap();
        }
    }

    /// The layer of the input has no recipe: 24 features are no multiple of 32.
    #[test]
    fn a_recipe_asks_its_own_layers_alone() {
        let flags = ["--recipe", "mxfp8", "--context", "3", "--embedding", "8"];
        parse(&flags).config.validate().unwrap();
    }

    #[test]
    fn resuming_keeps_the_checkpoint_and_refuses_contradictions() {
        let checkpoint = parse(&["--hidden", "64", "--steps", "10"]).config.resolved();
        let resumed = parse(&["--steps", "20"]).resumed_config(&checkpoint).unwrap();
        assert_eq!((resumed.hidden, resumed.steps), (64, 20));
        let same = ["--hidden", "64", "--expert-hidden", "128", "--balance", "0.05"];
        assert!(parse(&same).resumed_config(&checkpoint).is_ok());
        let error = parse(&["--hidden", "128"]).resumed_config(&checkpoint).unwrap_err();
        assert!(error.to_string().contains("--hidden 128"), "{error}");
    }
}
