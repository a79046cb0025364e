//! Finds a compiler that can build kernels.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::error::{Error, Kind};

/// The first release that knows `-Cpanic=immediate-abort`.
const MINIMUM_RELEASE: (u32, u32) = (1, 92);

/// Where Debian puts its compiler, which comes with matching library source.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// A rustc with its library source, and a cargo to drive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    rustc: PathBuf,
    cargo: PathBuf,
    sysroot: PathBuf,
    version: String,
}

impl Compiler {
    /// The first that fits of: the variable `PTX_BUILD_RUSTC`; `/usr/bin/rustc`; the `rustc` on
    /// PATH; rustup's nightly. To fit, a compiler must have its library source and be recent.
    ///
    /// # Errors
    ///
    /// If `PTX_BUILD_RUSTC` is set and does not fit, or if none fits; the message lists what was
    /// looked at, and what to install.
    pub fn find() -> Result<Self, Error> {
        if let Some(path) = std::env::var_os("PTX_BUILD_RUSTC").filter(|path| !path.is_empty()) {
            return Self::at(Path::new(&path));
        }
        let mut tried = Vec::new();
        for candidate in candidates() {
            match probe(&candidate) {
                Ok(compiler) => return Ok(compiler),
                Err(reason) => tried.push(format!("  {}: {reason}", candidate.display())),
            }
        }
        Err(Kind::NoCompiler { tried: tried.join("\n") }.into())
    }

    /// The compiler at a path.
    ///
    /// # Errors
    ///
    /// If it does not run, is too old, or has no library source.
    pub fn at(rustc: &Path) -> Result<Self, Error> {
        probe(rustc).map_err(|reason| Kind::UnfitCompiler { path: rustc.into(), reason }.into())
    }

    /// The rustc itself, never a rustup proxy if rustup's own path could be found.
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// The cargo that drives it: the one beside it if the two match, else the one that runs us.
    pub fn cargo(&self) -> &Path {
        &self.cargo
    }

    /// Release, commit and LLVM version: `1.96.0 (ac68faa20), LLVM 22.1.8`. Equal versions
    /// produce equal PTX from equal sources.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn sysroot(&self) -> &Path {
        &self.sysroot
    }
}

/// What `find` looks at, in order.
fn candidates() -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(SYSTEM_RUSTC), PathBuf::from("rustc")];
    let mut rustup = Command::new("rustup");
    rustup.args(["which", "--toolchain", "nightly", "rustc"]).env("RUSTUP_AUTO_INSTALL", "0");
    if let Ok(nightly) = printed(&mut rustup) {
        paths.push(nightly.into());
    }
    paths
}

/// Describes the compiler at a path, or says why it cannot build kernels.
fn probe(rustc: &Path) -> Result<Compiler, String> {
    let verbose = printed(Command::new(rustc).arg("-vV"))?;
    let facts = VersionFacts::parse(&verbose).ok_or("`rustc -vV` prints no release and LLVM")?;
    if facts.number().is_none_or(|number| number < MINIMUM_RELEASE) {
        let (major, minor) = MINIMUM_RELEASE;
        return Err(format!("release {} is older than {major}.{minor}", facts.release));
    }
    let sysroot = PathBuf::from(printed(Command::new(rustc).args(["--print", "sysroot"]))?);
    let library = sysroot.join("lib/rustlib/src/rust/library");
    if !library.join("core/src/lib.rs").is_file() {
        return Err(format!("no library source (rust-src) at {}", library.display()));
    }
    let own = sysroot.join("bin/rustc");
    let rustc = if own.is_file() { own } else { rustc.to_owned() };
    let cargo = cargo_for(&sysroot, &facts);
    Ok(Compiler { rustc, cargo, sysroot, version: facts.version() })
}

/// The cargo of the same release beside rustc, else the one that runs us, else that on PATH.
fn cargo_for(sysroot: &Path, facts: &VersionFacts) -> PathBuf {
    let beside = sysroot.join("bin/cargo");
    let release = format!("cargo {} ", facts.release);
    match printed(Command::new(&beside).arg("-V")) {
        Ok(version) if version.starts_with(&release) => beside,
        _ => std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from),
    }
}

/// What `rustc -vV` states.
#[derive(Debug, PartialEq, Eq)]
struct VersionFacts {
    release: String,
    commit: String,
    llvm: String,
}

impl VersionFacts {
    fn parse(verbose: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = verbose.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned())
        };
        let commit = field("commit-hash:").unwrap_or_default().chars().take(9).collect();
        Some(Self { release: field("release:")?, commit, llvm: field("LLVM version:")? })
    }

    fn number(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    fn version(&self) -> String {
        format!("{} ({}), LLVM {}", self.release, self.commit, self.llvm)
    }
}

/// What a command prints, trimmed, if it succeeds; else why not.
fn printed(command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| error.to_string())?;
    if !status.success() {
        let stderr = String::from_utf8_lossy(&stderr);
        return Err(format!("{status}: {}", stderr.lines().next().unwrap_or("no message")));
    }
    Ok(String::from_utf8_lossy(&stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERBOSE: &str = "\
rustc 1.97.0-nightly (e50aa6fba 2026-05-19)
binary: rustc
commit-hash: e50aa6fba4e63ab34c72bf9acfd2c307c1155d1a
commit-date: 2026-05-19
host: x86_64-unknown-linux-gnu
release: 1.97.0-nightly
LLVM version: 22.1.4
";

    #[test]
    fn version_names_release_commit_and_llvm() {
        let facts = VersionFacts::parse(VERBOSE).unwrap();
        assert_eq!(facts.version(), "1.97.0-nightly (e50aa6fba), LLVM 22.1.4");
        assert_eq!(facts.number(), Some((1, 97)));
    }

    #[test]
    fn a_compiler_that_does_not_exist_is_refused_with_advice() {
        let error = Compiler::at(Path::new("/nonexistent/rustc")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/rustc cannot build GPU kernels"), "{error}");
        assert!(error.contains("apt-get install --no-install-recommends rustc-web rust-web-src"));
        assert!(error.contains("rustup toolchain install nightly --component rust-src"));
    }
}
