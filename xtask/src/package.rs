//! Packages the libraries as a registry would hold them, and builds and runs a crate that depends
//! on them from outside the workspace.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::commands::{self, cargo, fresh_dir, target_dir};

/// What is published.
const PACKAGES: [&str; 5] =
    ["grouped-linear", "grouped-linear-kernels", "ptx-std", "ptx-build", "ptx-emulator"];

/// What a package may weigh, compressed; registries refuse more.
const LIMIT_BYTES: u64 = 10 << 20;

/// The consumer's source.
const CONSUMER: &str = include_str!("../consumer/main.rs");

/// Packages, unpacks, builds and runs.
pub fn run(root: &Path) -> Result<()> {
    let target = target_dir(root);
    let version = env!("CARGO_PKG_VERSION");
    let archives = package(root, &target, version)?;

    let folder =
        std::env::temp_dir().join(format!("grouped-linear-consumer-{}", std::process::id()));
    fresh_dir(&folder)?;
    let result = consume(&folder, &archives, version);
    std::fs::remove_dir_all(&folder).context("removing the consumer")?;
    result
}

fn package(root: &Path, target: &Path, version: &str) -> Result<Vec<PathBuf>> {
    let mut command = cargo(root);
    // No verification here: the consumer builds them all.
    command
        .args(["package", "--allow-dirty", "--no-verify", "--quiet", "--target-dir"])
        .arg(target);
    for name in PACKAGES {
        command.args(["--package", name]);
    }
    commands::run(&mut command)?;
    let archives =
        PACKAGES.map(|name| target.join("package").join(format!("{name}-{version}.crate")));
    for archive in &archives {
        let bytes = archive.metadata().with_context(|| format!("{}", archive.display()))?.len();
        println!("{}: {bytes} bytes", archive.display());
        ensure!(bytes < LIMIT_BYTES, "{} exceeds {LIMIT_BYTES} bytes", archive.display());
    }
    Ok(archives.into())
}

fn consume(folder: &Path, archives: &[PathBuf], version: &str) -> Result<()> {
    for archive in archives {
        let mut tar = Command::new("tar");
        commands::run(tar.arg("-xzf").arg(archive).arg("-C").arg(folder))?;
    }
    std::fs::create_dir_all(folder.join("src"))?;
    commands::write(&folder.join("Cargo.toml"), &manifest(version))?;
    commands::write(&folder.join("src/main.rs"), CONSUMER)?;
    let mut command = cargo(folder);
    // The compiler found or not must make no difference: published crates compile no kernel.
    command.env("PTX_BUILD_RUSTC", "/nonexistent/rustc");
    // A target folder of its own: unpacked files all have the same old date, so cargo would take
    // what it built from an earlier archive for up to date.
    command.args(["run", "--quiet", "--target-dir"]).arg(folder.join("target"));
    commands::run(&mut command)
}

/// A package that depends on the library by version, and finds it in the unpacked archives.
fn manifest(version: &str) -> String {
    let mut text = format!(
        "[package]\nname = \"consumer\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ngrouped-linear = \"{version}\"\n\n[workspace]\n\n[patch.crates-io]\n"
    );
    for name in PACKAGES {
        let _ = writeln!(text, "{name} = {{ path = \"{name}-{version}\" }}");
    }
    text
}
