//! Source files over the budget, and comments that are too wide.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::commands::{printed, read};

/// Lines that a file should not exceed.
const LINES: usize = 500;
/// Columns that a comment may have: rustfmt keeps code to as many, and leaves comments alone.
const COLUMNS: usize = 100;

/// Prints every Rust file over the budget, longest first, and every comment that is too wide.
pub fn run(root: &Path) -> Result<()> {
    let sources = sources(root)?;
    let mut long: Vec<(usize, &str)> = sources
        .iter()
        .map(|(name, text)| (text.lines().count(), name.as_str()))
        .filter(|&(lines, _)| lines > LINES)
        .collect();
    long.sort_by(|a, b| b.cmp(a));
    for (lines, name) in &long {
        println!("{lines:6} {name}");
    }
    println!("{} files over {LINES} lines", long.len());
    println!("{} comments over {COLUMNS} columns", print_wide(&sources));
    Ok(())
}

/// Refuses comments that are too wide.
pub fn check(root: &Path) -> Result<()> {
    let wide = print_wide(&sources(root)?);
    ensure!(wide == 0, "{wide} comments have more than {COLUMNS} columns");
    Ok(())
}

/// Names and texts of the workspace's Rust files.
fn sources(root: &Path) -> Result<Vec<(String, String)>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]);
    let names = printed(&mut git)?;
    let is_here = |name: &&str| root.join(name).is_file();
    names
        .lines()
        .filter(is_here)
        .map(|name| Ok((name.to_owned(), read(&root.join(name))?)))
        .collect()
}

/// Prints where comments are too wide, and counts them.
fn print_wide(sources: &[(String, String)]) -> usize {
    let mut count = 0;
    for (name, text) in sources {
        for line in wide_comments(text) {
            println!("{name}:{line}");
            count += 1;
        }
    }
    count
}

/// Numbers of the lines that are comments and too wide, but for rows of tables, which have to be
/// lines.
fn wide_comments(text: &str) -> impl Iterator<Item = usize> {
    let is_wide = |line: &str| {
        let is_comment = line.trim_start().starts_with("//");
        let is_row = line.trim_start().trim_start_matches(['/', '!']).starts_with(" |");
        is_comment && !is_row && line.chars().count() > COLUMNS
    };
    text.lines().enumerate().filter(move |(_, line)| is_wide(line)).map(|(index, _)| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_have_a_hundred_columns_and_code_is_left_to_rustfmt() {
        let filled = |mark: &str, columns| mark.to_owned() + &"×".repeat(columns - mark.len());
        for (mark, columns, is_wide) in [
            ("// ", 100, false),
            ("// ", 101, true),
            ("    /// ", 101, true),
            ("//! ", 101, true),
            ("//! | ", 101, false),
            ("    let text = ", 101, false),
        ] {
            let text = format!("fn f() {{\n{}\n}}\n", filled(mark, columns));
            let found: Vec<usize> = wide_comments(&text).collect();
            assert_eq!(found, if is_wide { vec![2] } else { vec![] }, "{mark:?}, {columns}");
        }
    }
}
