//! Puts release test and bench binaries and the CLI into one folder, to be run on a machine that
//! has a GPU and no Rust.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::commands::{self, cargo, fresh_dir, printed};

/// What the folder may weigh.
const LIMIT_BYTES: u64 = 60 << 20;

/// One executable that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Executable {
    path: PathBuf,
    /// `lib`, `bin`, `test`, `bench`.
    kind: String,
    target: String,
}

/// Fills `bundle/`.
pub fn run(root: &Path) -> Result<()> {
    // The command line's tests start its binary by its path here, so they stay here.
    let library =
        ["--workspace", "--exclude", "xtask", "--exclude", "grouped-linear-cli", "--no-run"];
    let tests = build(root, &[&["test", "--release"][..], &library[..]].concat())?;
    let benches = build(root, &[&["bench"][..], &library[..]].concat())?;
    let programs =
        build(root, &["build", "--release", "--bins", "--package", "grouped-linear-cli"])?;

    let mut named = Vec::new();
    for executable in tests {
        named.push((test_name(&executable), executable));
    }
    for executable in benches.into_iter().filter(|executable| executable.kind == "bench") {
        named.push((format!("bench-{}", executable.target), executable));
    }
    for executable in programs {
        named.push((executable.target.clone(), executable));
    }
    fill(root, &root.join("bundle"), &named)
}

/// Runs a build and lists the executables that it made, stripped by the compiler.
fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Executable>> {
    let mut command = cargo(root);
    command.args(arguments).arg("--message-format=json-render-diagnostics");
    command.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    Ok(printed(&mut command)?.lines().filter_map(parse_artifact).collect())
}

/// An executable out of one of cargo's JSON messages.
fn parse_artifact(message: &str) -> Option<Executable> {
    if !message.contains(r#""reason":"compiler-artifact""#) {
        return None;
    }
    let path = string_after(message, r#""executable":""#)?;
    let (_, target) = message.split_once(r#""target":{"#)?;
    Some(Executable {
        path: path.replace(r"\\", r"\").into(),
        kind: string_after(target, r#""kind":[""#)?.into(),
        target: string_after(target, r#""name":""#)?.into(),
    })
}

/// What stands between `start` and the next quotation mark.
fn string_after<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split('"').next()
}

fn test_name(executable: &Executable) -> String {
    match executable.kind.as_str() {
        "test" => format!("test-{}", executable.target),
        kind => format!("test-{kind}-{}", executable.target),
    }
}

fn fill(root: &Path, bundle: &Path, named: &[(String, Executable)]) -> Result<()> {
    fresh_dir(bundle)?;
    let mut manifest = String::new();
    for (name, executable) in named {
        let to = bundle.join(name);
        ensure!(!to.exists(), "two executables are called {name}");
        std::fs::copy(&executable.path, &to)
            .with_context(|| format!("copying {}", executable.path.display()))?;
        let bytes = to.metadata()?.len();
        let _ = writeln!(manifest, "{name}\t{}\t{}\t{bytes}", executable.kind, executable.target);
    }
    copy_fixtures(&root.join("tests"), &bundle.join("tests"))?;
    commands::write(
        &bundle.join("MANIFEST.tsv"),
        &format!("file\tkind\ttarget\tbytes\n{manifest}"),
    )?;
    let readme = "Run any file from inside this folder, such as ./test-conformance; MANIFEST.tsv \
                  says which is which.\n";
    commands::write(&bundle.join("README"), readme)?;
    let total = folder_bytes(bundle)?;
    print!("{manifest}");
    println!("{} MiB in {}", total >> 20, bundle.display());
    ensure!(total <= LIMIT_BYTES, "the bundle has {total} bytes, the limit is {LIMIT_BYTES}");
    Ok(())
}

/// Copies all but Rust sources: what tests read at run time, at the same relative path.
fn copy_fixtures(from: &Path, to: &Path) -> Result<()> {
    for item in std::fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = item?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_fixtures(&path, &target)?;
        } else if path.extension().is_none_or(|extension| extension != "rs") {
            std::fs::create_dir_all(to)?;
            std::fs::copy(&path, &target).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for item in std::fs::read_dir(folder)? {
        let path = item?.path();
        total += if path.is_dir() { folder_bytes(&path)? } else { path.metadata()?.len() };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_is_read_from_cargos_message() {
        let message = r#"{"reason":"compiler-artifact","package_id":"path+file:///w#a@0.1.0","manifest_path":"/w/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"conformance","src_path":"/w/t.rs"},"profile":{"test":true},"features":[],"filenames":["/t/conformance-1"],"executable":"/t/conformance-1","fresh":true}"#;
        let expected = Executable {
            path: "/t/conformance-1".into(),
            kind: "test".into(),
            target: "conformance".into(),
        };
        assert_eq!(parse_artifact(message), Some(expected));
        let library = message.replace(r#""executable":"/t/conformance-1""#, r#""executable":null"#);
        assert_eq!(parse_artifact(&library), None);
    }
}
