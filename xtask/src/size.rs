//! Prints the source files over the budget.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::commands::{printed, read};

/// Lines that a file should not exceed.
const BUDGET: usize = 500;

/// Prints every Rust file over the budget, longest first.
pub fn run(root: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]);
    let mut long = Vec::new();
    for name in printed(&mut git)?.lines() {
        let path = root.join(name);
        let lines = if path.is_file() { read(&path)?.lines().count() } else { 0 };
        if lines > BUDGET {
            long.push((lines, name.to_owned()));
        }
    }
    long.sort_by(|a, b| b.cmp(a));
    for (lines, name) in &long {
        println!("{lines:6} {name}");
    }
    println!("{} files over {BUDGET} lines", long.len());
    Ok(())
}
