//! `train`: a mixture-of-experts byte language model whose every linear layer is a GroupedLinear.

mod adamw;
mod args;
mod bigram;
mod block;
#[cfg(test)]
mod check;
mod checkpoint;
mod data;
mod embedding;
mod files;
mod linear;
mod load;
mod log;
mod loss;
mod memories;
mod model;
mod norm;
mod parameter;
mod plot;
mod progress;
mod random;
mod report;
mod router;
mod session;
mod swiglu;

use anyhow::{Result, ensure};

#[cfg(test)]
pub use self::args::RecipeChoice;
pub use self::args::TrainArgs;
use self::session::Session;

/// Trains, writes the checkpoint, the log and the loss curve, and prints how it went.
pub fn run(args: &TrainArgs) -> Result<()> {
    let mut session = Session::open(args)?;
    say!("{}", session.introduction());
    session.train()?;
    let summary = session.finish()?;
    say!("{}", report::text(&summary));
    say!("checkpoint, log and loss curve: {}", args.out.display());
    if args.check {
        ensure!(summary.below_bigram, "--check: the held-out loss is not below the bigram model's");
        ensure!(!summary.starved, "--check: an expert is starved");
    }
    Ok(())
}
