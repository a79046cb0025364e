//! `bench`: how fast kernels are beside their peers, measured on a GPU, and how fast they should be
//! (`--model`).

mod choices;
mod measure;
mod measured;
mod model;
mod predict;
mod report;
mod splits;
mod suite;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::choices::{MachineChoice, PassChoice, TileChoice};
pub use self::choices::{RecipeChoice, RecipeName, kernel};
use self::suite::{OwnShape, SEED, Shape};

/// Flags of `bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Predict times with the analytic model (docs/performance-model.md); nothing runs on a GPU.
    #[arg(long)]
    model: bool,
    /// Shapes, by name (s01 to s12, x01 to x04, and m1 to m6, with a `z` behind for Zipf splits);
    /// all of s and x if none is named.
    #[arg(long, value_delimiter = ',')]
    shape: Vec<String>,
    /// A shape of your own, beside those named. DIST is how rows are dealt out: bal, jit, zipf:S,
    /// empty:E:S, one, or the rows of each expert, such as 4096:0:28672.
    #[arg(long, value_name = "GROUPS,ROWS,N,K,DIST")]
    own: Vec<OwnShape>,
    /// Seed of the splits and, where something is measured, of the data.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// The GPU that is predicted.
    #[arg(long, value_enum, default_value = "h200", requires = "model")]
    device: MachineChoice,
    /// Passes; all if none is named, and layers, which have several together.
    #[arg(long, value_enum, value_delimiter = ',')]
    pass: Vec<PassChoice>,
    /// Recipes, as `train` names them, or kernels of theirs; all that the GPU has if none is named.
    /// Of quantizers those that recipes with these kernels use.
    #[arg(long, value_enum, value_delimiter = ',')]
    recipe: Vec<RecipeName>,
    /// How a tile is made on Blackwell.
    #[arg(long, value_enum, default_value = "pair", requires = "model")]
    tile: TileChoice,
    /// Print what a stage and the end of a tile cost each kernel, instead of shapes.
    #[arg(long, requires = "model")]
    #[arg(conflicts_with_all = ["json", "errors", "shape", "own", "seed", "pass"])]
    stages: bool,
    /// Print how far predictions are from measured times, instead of shapes.
    #[arg(long, requires = "model", conflicts_with = "json")]
    errors: bool,
    /// Print JSON.
    #[arg(long, requires = "model")]
    json: bool,
    #[command(flatten, next_help_heading = "Measuring, on a GPU")]
    measure: measure::MeasureArgs,
}

/// Measures, or prints predictions.
pub fn run(args: &BenchArgs) -> Result<()> {
    if args.model {
        say!("{}", predict::predictions(args)?.trim_end());
        return Ok(());
    }
    measure::run(args)
}

impl BenchArgs {
    /// The shapes that were asked for, the user's own ones last.
    fn shapes(&self) -> Result<Vec<Shape>> {
        let suite = suite::suite(self.seed)?;
        let mut shapes = Vec::new();
        if self.shape.is_empty() && self.own.is_empty() {
            return Ok(suite);
        }
        let layers = suite::layers()?;
        for (place, id) in self.shape.iter().enumerate() {
            if self.shape[..place].contains(id) {
                continue; // named twice
            }
            match suite.iter().chain(&layers).find(|shape| shape.id == *id) {
                Some(shape) => shapes.push(shape.clone()),
                None => bail!(
                    "there is no shape `{id}`: there are s01 to s12, x01 to x04, m1 to m6 and m1z \
                     to m6z"
                ),
            }
        }
        for (number, own) in (0..).zip(&self.own) {
            shapes.push(own.shape(number, self.seed)?);
        }
        Ok(shapes)
    }

    /// What the kernels multiply that were asked for.
    fn wanted_recipes(&self) -> Vec<RecipeChoice> {
        let all = RecipeChoice::value_variants().iter().copied();
        all.filter(|own| choices::are_asked_for(*own, &self.recipe)).collect()
    }
}
