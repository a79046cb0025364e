//! How `bench` measures, as its flags say, and as the record has it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use grouped_linear::plan::KernelChoice;

use super::conductor::{Order, Turns};
use super::peer::SCRIPT;
use super::record::{Quantity, Rest, Settings};
use super::task::{Level, Pace};
use crate::bench::choices::{self, PassChoice};

/// What is measured, how often, with which rests, and beside whom.
#[derive(Args, Clone, Debug)]
#[group(conflicts_with = "model")]
pub struct MeasureArgs {
    /// What is measured; everything if nothing is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub level: Vec<Level>,
    /// Rounds that count; in each, every contender of a case has its turn.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Rounds before them.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    warm_up: u32,
    /// Microseconds of rest before each call, so that a card at its power limit cools down.
    #[arg(long, value_name = "US", default_value_t = 0)]
    pause: u64,
    /// Who waits in a peer's rest; needs `--pause`. (Ours is always the host's.)
    #[arg(long, value_enum, default_value = "host")]
    pub peer_rest: Rest,
    /// Time so many calls in a row, without flushing L2 between them, instead of single ones.
    #[arg(long, value_name = "CALLS", conflicts_with = "pause")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    r#loop: Option<u32>,
    /// Each contender has all its rounds in a row, instead of taking turns with the others.
    #[arg(long)]
    one_by_one: bool,
    /// Calls of which host time is the mean; fewer, 5 at least, where these take the GPU over 20
    /// ms.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    host_calls: u32,
    /// Kernel for every product, layers' included, by name: auto, simt, block, narrow, pair or
    /// aligned. A product that it cannot compute is refused.
    #[arg(long, default_value = "auto", value_parser = choices::kernel)]
    pub kernel: KernelChoice,
    /// Write what was measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Measure without a peer.
    #[arg(long)]
    pub no_peer: bool,
    /// The Python that has torch.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Another peer: a script for that Python, which answers as ours does.
    #[arg(long, value_name = "SCRIPT", conflicts_with = "no_peer")]
    peer: Option<PathBuf>,
}

impl MeasureArgs {
    /// Refuses flags that mean nothing together.
    pub fn check(&self, passes: &[PassChoice]) -> Result<()> {
        ensure!(
            self.peer_rest == Rest::Host || self.pause > 0,
            "`--peer-rest kernel` needs `--pause`, which is how long the kernel waits"
        );
        let layers = self.level.iter().any(|level| matches!(level, Level::Forward | Level::Layer));
        ensure!(
            passes.is_empty() || !layers,
            "`--pass` chooses products and quantizers, and the levels `forward` and `layer` are of \
             layers, of which no pass is measured alone; leave `--pass` or these levels out"
        );
        Ok(())
    }

    /// What starts the peer.
    pub fn peer_command(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.arg("-u"); // answers leave at once
        match &self.peer {
            Some(script) => command.arg(script),
            None => command.arg("-c").arg(SCRIPT),
        };
        command
    }

    /// How a quantity is measured.
    pub fn turns(&self, quantity: Quantity) -> Turns {
        let pace = match (quantity, self.r#loop) {
            (Quantity::Host, _) => Pace::Host(self.host_calls),
            (Quantity::Gpu | Quantity::Kernel, Some(calls)) => Pace::InARow(calls),
            (Quantity::Gpu | Quantity::Kernel, None) => {
                Pace::Single(Duration::from_micros(self.pause))
            }
        };
        let &Self { rounds, warm_up, one_by_one, .. } = self;
        let order = if one_by_one { Order::OneByOne } else { Order::InTurns };
        Turns { rounds, warm_up, order, pace }
    }

    /// As the record has them.
    pub fn settings(&self, seed: u64) -> Settings {
        Settings {
            seed,
            rounds: self.rounds,
            warm_up: self.warm_up,
            pause_us: self.pause,
            in_a_row: self.r#loop,
            turns: !self.one_by_one,
            host_calls: self.host_calls,
            kernel: (self.kernel != KernelChoice::Auto).then(|| self.kernel.name().to_owned()),
            peer_rest: (!self.no_peer && self.pause > 0).then_some(self.peer_rest),
            peer_script: self.peer.as_ref().map(|script| {
                script.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }),
        }
    }
}
