//! Builds the shipped PTX, and checks that it is what the sources give.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use ptx_build::{Compiler, Manifest, ManifestModule, Ptxas, fingerprint, sha256};

use crate::commands::{self, fresh_dir, read, target_dir};
use crate::recipe;

const HEADING: &str = "\
What the PTX files beside this one were made from.
Written by `cargo xtask kernels`; compared by `cargo xtask kernels --check`.";

/// One built module.
struct Built {
    target: &'static str,
    cpu_and_name: String,
    name: String,
    text: String,
}

/// Where the PTX is shipped.
pub fn folder(root: &Path) -> PathBuf {
    root.join("host/ptx")
}

/// The PTX file of a module.
pub fn path(root: &Path, target: &str, name: &str) -> PathBuf {
    folder(root).join(target).join(format!("{name}.ptx"))
}

/// Rebuilds the shipped PTX and its manifest.
pub fn write(root: &Path) -> Result<()> {
    let compiler = Compiler::find()?;
    println!("compiling with {} ({})", compiler.version(), compiler.rustc().display());
    let built = build(root, &compiler)?;
    for shipped in recipe::TARGETS {
        fresh_dir(&folder(root).join(shipped.target.cpu))?;
    }
    for module in &built {
        commands::write(&path(root, module.target, &module.name), &module.text)?;
        println!("{}: {} bytes", module.cpu_and_name, module.text.len());
    }
    let manifest = manifest(root, &compiler, &built)?;
    commands::write(&folder(root).join("manifest.toml"), &manifest.to_toml(HEADING))
}

/// Rebuilds the PTX and compares it with what is shipped: byte for byte if the compiler is that of
/// the manifest; with another compiler it can only be assembled.
pub fn check(root: &Path) -> Result<()> {
    let shipped = Manifest::parse(&read(&folder(root).join("manifest.toml"))?)?;
    let sources = fingerprint(root, recipe::SOURCES)?;
    ensure!(
        sources == shipped.sources,
        "the kernel sources have changed since the PTX was built; run `cargo xtask kernels`"
    );
    check_files(root, &shipped)?;
    let compiler = Compiler::find()?;
    let built = build(root, &compiler)?;
    let fresh = manifest(root, &compiler, &built)?;
    if compiler.version() != shipped.compiler {
        return check_other_compiler(&compiler, &shipped, &built);
    }
    compare(root, &built)?;
    ensure!(
        fresh == shipped,
        "host/ptx/manifest.toml is not what `cargo xtask kernels` would write; run it"
    );
    println!("{} modules are byte for byte what {} gives", built.len(), compiler.version());
    Ok(())
}

/// Every file of the manifest is there and unchanged.
fn check_files(root: &Path, shipped: &Manifest) -> Result<()> {
    for module in &shipped.modules {
        let file = path(root, &module.target, &module.name);
        ensure!(
            sha256(read(&file)?.as_bytes()) == module.sha256,
            "{} is not the file that the manifest names; run `cargo xtask kernels`",
            file.display()
        );
    }
    Ok(())
}

fn check_other_compiler(compiler: &Compiler, shipped: &Manifest, built: &[Built]) -> Result<()> {
    println!("the shipped PTX was built with rustc {}", shipped.compiler);
    println!("the compiler found here is rustc {}", compiler.version());
    println!("so the bytes are NOT compared; what this compiler writes is assembled only:");
    let ptxas = Ptxas::find()?;
    for module in built {
        ptxas.check(&module.text, module.target)?;
        println!("  {} assembles with ptxas {}", module.cpu_and_name, ptxas.version());
    }
    Ok(())
}

/// Compares the fresh text of every module with the shipped one.
fn compare(root: &Path, built: &[Built]) -> Result<()> {
    let rebuilt = target_dir(root).join("ptx-check");
    for module in built {
        let shipped = path(root, module.target, &module.name);
        if read(&shipped)? == module.text {
            continue;
        }
        std::fs::create_dir_all(&rebuilt)?;
        let fresh = rebuilt.join(format!("{}-{}.ptx", module.target, module.name));
        commands::write(&fresh, &module.text)?;
        bail!("{} differs from what was built now, {}", shipped.display(), fresh.display());
    }
    Ok(())
}

fn build(root: &Path, compiler: &Compiler) -> Result<Vec<Built>> {
    let texts = recipe::compile_all(compiler, root, &target_dir(root).join("ptx"))?;
    let built = texts.into_iter().map(|(target, name, text)| Built {
        target: target.cpu,
        cpu_and_name: format!("{}/{name}", target.cpu),
        name,
        text,
    });
    Ok(built.collect())
}

fn manifest(root: &Path, compiler: &Compiler, built: &[Built]) -> Result<Manifest> {
    let targets = recipe::manifest_targets().context("no driver is known for a PTX version")?;
    let modules = built.iter().map(|module| ManifestModule {
        target: module.target.into(),
        name: module.name.clone(),
        sha256: sha256(module.text.as_bytes()),
    });
    Ok(Manifest {
        sources: fingerprint(root, recipe::SOURCES)?,
        compiler: compiler.version().into(),
        targets,
        modules: modules.collect(),
    })
}
