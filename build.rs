//! Decides which PTX the library embeds, and writes it down for `host/src/ptx.rs`.
//!
//! - Kernel sources absent (a published crate): the shipped PTX.
//! - Kernel sources equal to those the shipped PTX was made from: the same.
//! - Kernel sources changed: PTX compiled from them, if a kernel compiler is found; else the build
//!   fails with one message that says what to install.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ptx_build::{Compiler, Manifest, ManifestTarget, fingerprint};

#[path = "host/ptx/recipe.rs"]
mod recipe;

/// One module of the generated table.
struct Embedded {
    target: String,
    name: String,
    path: PathBuf,
    origin: &'static str,
}

/// What the generated file states.
struct Choice {
    modules: Vec<Embedded>,
    compiler: String,
    targets: Vec<ManifestTarget>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let shipped = root.join("host/ptx");
    let manifest_path = shipped.join("manifest.toml");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", manifest_path.display());
    println!("cargo::rerun-if-env-changed=PTX_BUILD_RUSTC");

    let manifest = match std::fs::read_to_string(&manifest_path) {
        Ok(text) => Some(Manifest::parse(&text)?),
        Err(_) => None, // Before the first `cargo xtask kernels` nothing is shipped.
    };
    let sources = current_sources(&root)?;
    let choice = match (manifest, sources) {
        (Some(manifest), None) => use_shipped(&shipped, manifest),
        (Some(manifest), Some(sources)) if sources == manifest.sources => {
            use_shipped(&shipped, manifest)
        }
        (_, Some(_)) => compile_changed(&root, &out)?,
        (None, None) => return Err("neither kernel sources nor shipped PTX are here".into()),
    };
    std::fs::write(out.join("ptx_modules.rs"), generated(&choice))?;
    Ok(())
}

/// The fingerprint of the kernel sources, or `None` in a published crate, which has none.
fn current_sources(root: &Path) -> Result<Option<String>, ptx_build::Error> {
    if !recipe::SOURCES.iter().all(|path| root.join(path).exists()) {
        return Ok(None);
    }
    for path in recipe::SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    fingerprint(root, recipe::SOURCES).map(Some)
}

fn use_shipped(shipped: &Path, manifest: Manifest) -> Choice {
    let modules = manifest.modules.into_iter().map(|module| {
        let path = shipped.join(&module.target).join(format!("{}.ptx", module.name));
        println!("cargo::rerun-if-changed={}", path.display());
        Embedded { target: module.target, name: module.name, path, origin: "shipped" }
    });
    Choice { modules: modules.collect(), compiler: manifest.compiler, targets: manifest.targets }
}

fn compile_changed(root: &Path, out: &Path) -> Result<Choice, Box<dyn Error>> {
    let changed = |error: ptx_build::Error| {
        format!("the kernel sources differ from those the shipped PTX was made from, and {error}")
    };
    let compiler = Compiler::find().map_err(changed)?;
    let target_dir = out.join("ptx-target");
    let texts = recipe::compile_all(&compiler, root, &target_dir).map_err(changed)?;
    let mut modules = Vec::new();
    for (target, name, text) in texts {
        let path = out.join(format!("{}-{name}.ptx", target.cpu));
        std::fs::write(&path, text)?;
        let target = target.cpu.to_owned();
        modules.push(Embedded { target, name, path, origin: "compiled from changed sources" });
    }
    let targets = recipe::manifest_targets().ok_or("no driver is known for a PTX version")?;
    Ok(Choice { modules, compiler: compiler.version().to_owned(), targets })
}

fn generated(choice: &Choice) -> String {
    let mut text = String::from("pub(crate) static MODULES: &[EmbeddedModule] = &[\n");
    for Embedded { target, name, path, origin } in &choice.modules {
        let _ = writeln!(
            text,
            "    EmbeddedModule {{ target: {target:?}, name: {name:?}, \
             ptx: include_str!({path:?}), origin: {origin:?} }},"
        );
    }
    let _ = writeln!(text, "];\npub(crate) static TARGETS: &[EmbeddedTarget] = &[");
    for ManifestTarget { cpu, minimum_driver, minimum_cuda, .. } in &choice.targets {
        let _ = writeln!(
            text,
            "    EmbeddedTarget {{ name: {cpu:?}, minimum_driver: {minimum_driver:?}, \
             minimum_cuda: {minimum_cuda} }},"
        );
    }
    let _ = writeln!(text, "];");
    let _ = writeln!(text, "pub(crate) const KERNEL_COMPILER: &str = {:?};", choice.compiler);
    text
}
