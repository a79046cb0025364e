//! Gathers the project's documentation and sources into one text, so that `train` has something to
//! read wherever the binary runs.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What is read, relative to the workspace; a folder stands for its `.md` and `.rs` files.
const PLACES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs",
    "host",
    "kernels-gpu",
    "ptx-std",
    "ptx-build",
    "ptx-emulator",
    "cli",
    "xtask",
    "tests",
    "benches",
    "examples",
];

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let workspace = manifest.parent().unwrap_or(&manifest);
    let mut files = Vec::new();
    for place in PLACES {
        let path = workspace.join(place);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, &mut files)?;
        }
    }
    let mut text = Vec::new();
    for file in files {
        text.extend(fs::read(file)?);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("text.bin"), text)
}

/// Adds the text files at and below `path`, sorted by name. Build folders and hidden ones are left
/// out.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_file() {
        if path.extension().is_some_and(|extension| extension == "md" || extension == "rs") {
            files.push(path.to_path_buf());
        }
    } else if metadata.is_dir() {
        let mut entries =
            fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        for entry in entries {
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            if name != "target" && !name.starts_with('.') {
                collect(&entry, files)?;
            }
        }
    }
    Ok(())
}
