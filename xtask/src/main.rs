//! Developer commands of the workspace: `cargo xtask <command>`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

mod bench_report;
mod bundle;
mod commands;
mod facts;
mod kernels;
mod package;
mod size;

#[path = "../../host/ptx/recipe.rs"]
mod recipe;

const USAGE: &str = "\
cargo xtask <command>

  kernels          rebuild the shipped PTX and its manifest (host/ptx)
  kernels --check  rebuild into a temporary folder and compare with what is shipped
  facts            write the table of kernel facts (host/ptx/facts.md)
  facts --check    compare the table with what ptxas and the PTX say now
  bench-report [RUN.json…]          write the tables and charts of docs/benchmarks.md from runs of
                                    `grouped-linear bench --out`, by default those in docs/bench
  bench-report --check [RUN.json…]  compare them with what is there
  bundle           release test and bench binaries and the CLI, stripped, in bundle/
  package          package the libraries, build and run an outside consumer of them
  size             print the source files over 500 lines and the comments over 100 columns
  size --check     refuse comments over 100 columns";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root()?;
    match words[..] {
        ["kernels"] => kernels::write(&root),
        ["kernels", "--check"] => kernels::check(&root),
        ["facts"] => facts::write(&root),
        ["facts", "--check"] => facts::check(&root),
        ["bench-report", "--check", ref runs @ ..] => bench_report::check(&root, runs),
        ["bench-report", ref runs @ ..] => bench_report::write(&root, runs),
        ["bundle"] => bundle::run(&root),
        ["package"] => package::run(&root),
        ["size"] => size::run(&root),
        ["size", "--check"] => size::check(&root),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("`{}` is no command\n\n{USAGE}", words.join(" ")),
    }
}

/// The root of the workspace; this crate stands in a folder of it.
fn root() -> Result<PathBuf> {
    let own = std::env::var("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    PathBuf::from(own).parent().map(PathBuf::from).context("the workspace has no root folder")
}
