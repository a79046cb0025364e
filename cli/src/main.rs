//! The command line of `grouped-linear`: train a mixture-of-experts language model, verify the
//! engines against each other, measure kernels beside their peers or predict how long they take,
//! and say what was found on this machine.

#[macro_use]
mod output;

mod bench;
mod device;
mod info;
mod train;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// The linear layer of a mixture-of-experts model, forward and backward, with GPU kernels in Rust.
#[derive(Parser)]
#[command(name = "grouped-linear", version, args_override_self = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a mixture-of-experts byte language model on text.
    Train(Box<train::TrainArgs>),
    /// Say what was found: driver, GPUs, real and emulated, kernels and the compiler that made
    /// them. With --plan, which kernel computes a product, and why.
    Info(info::PlanArgs),
    /// Run the conformance cases on every engine present.
    Verify(verify::VerifyArgs),
    /// Measure kernels and layers beside their peers on a GPU, or predict how long kernels take.
    Bench(Box<bench::BenchArgs>),
}

fn main() -> ExitCode {
    let matches = CommandLine::command().get_matches();
    let CommandLine { mut command } =
        CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let (Command::Train(args), Some(("train", given))) = (&mut command, matches.subcommand()) {
        args.note_explicit(given);
    }
    let outcome = match &command {
        Command::Train(args) => train::run(args),
        Command::Info(args) => info::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Bench(args) => bench::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
