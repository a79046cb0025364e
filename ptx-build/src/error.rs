//! The error of every operation in this crate.

use std::path::PathBuf;

use crate::nvdisasm::NVDISASM;
use crate::ptxas::PTXAS;
use crate::tool::Wanted;

/// How to get a compiler that can build kernels.
const INSTALL_COMPILER: &str = "\
Install one of:
  Debian:  apt-get install --no-install-recommends rustc-web rust-web-src
  rustup:  rustup toolchain install nightly --component rust-src
or set PTX_BUILD_RUSTC to a rustc that has its library source (rust-src).";

/// What was asked, what failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Kind>);

impl Error {
    /// No compiler on this machine can build kernels; the message says what to install.
    pub fn is_no_compiler(&self) -> bool {
        matches!(*self.0, Kind::NoCompiler { .. })
    }

    /// No `ptxas` was found; the message says what to install.
    pub fn is_no_ptxas(&self) -> bool {
        self.lacks(&PTXAS)
    }

    /// No `nvdisasm` was found; the message says what to install.
    pub fn is_no_nvdisasm(&self) -> bool {
        self.lacks(&NVDISASM)
    }

    fn lacks(&self, wanted: &Wanted) -> bool {
        matches!(*self.0, Kind::NoTool { wanted: found } if found.program == wanted.program)
    }

    /// The compiler ran and refused the kernel crate; the message holds its diagnostics.
    pub fn is_compile(&self) -> bool {
        matches!(*self.0, Kind::Compile { .. })
    }

    /// `ptxas` ran and refused the text; the message holds its diagnostics.
    pub fn is_assemble(&self) -> bool {
        matches!(*self.0, Kind::Assemble { .. })
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error(
        "no Rust compiler that can build GPU kernels was found. Looked at:\n{tried}\n{}",
        INSTALL_COMPILER
    )]
    NoCompiler { tried: String },

    #[error("{path} cannot build GPU kernels: {reason}.\n{}", INSTALL_COMPILER)]
    UnfitCompiler { path: PathBuf, reason: String },

    #[error(
        "no {program} was found (looked at the variable {variable}, PATH and Python's packages). \
         Install it from PyPI (python3 -m pip install {package}) or with the CUDA toolkit, or set \
         {variable} to its path.",
        program = .wanted.program,
        variable = .wanted.variable,
        package = .wanted.package
    )]
    NoTool { wanted: &'static Wanted },

    #[error("could not run {program}: {source}")]
    Run { program: String, source: std::io::Error },

    #[error("{program} failed:\n{output}")]
    Failed { program: String, output: String },

    #[error("compiling {crate_dir} for {cpu} failed:\n{output}")]
    Compile { crate_dir: PathBuf, cpu: String, output: String },

    #[error(
        "compiling {crate_dir} left no PTX at {expected}; delete the target folder {target_dir} \
         and build again"
    )]
    NoOutput { crate_dir: PathBuf, expected: PathBuf, target_dir: PathBuf },

    #[error("asked for PTX for {asked}, the compiler wrote `.target {found}`")]
    WrongTarget { asked: String, found: String },

    #[error(
        "the PTX calls {name}, which it does not define: PTX is not linked, so every function \
         of another crate must be generic or `#[inline]`"
    )]
    External { name: String },

    #[error("the PTX contains the path {path}, so it would differ from machine to machine")]
    MachinePath { path: String },

    #[error("the table of kernels names entry point {name}, the PTX does not define it")]
    MissingEntry { name: String },

    #[error("the PTX defines entry point {name}, the table of kernels does not name it")]
    UnknownEntry { name: String },

    #[error("entry point {name} has a {directive} already; launch bounds come from the table")]
    BoundsPresent { name: String, directive: &'static str },

    #[error("entry point {name} is not in the form the compiler is known to write: {reason}")]
    EntryForm { name: String, reason: String },

    #[error("the parameter of {name} has {found} bytes in the PTX and {asked} in the table")]
    ParameterSize { name: String, asked: usize, found: usize },

    #[error("ptxas for {cpu} refused the text:\n{output}")]
    Assemble { cpu: String, output: String },

    #[error("ptxas reported in a form that is not known: {line}")]
    ReportForm { line: String },

    #[error("could not read or write {path}: {source}")]
    File { path: PathBuf, source: std::io::Error },

    #[error("line {line} of the manifest is not understood: {text}")]
    ManifestForm { line: usize, text: String },

    #[error("the manifest does not state {key}")]
    ManifestKey { key: &'static str },
}

/// Names the file in an input or output error.
pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Kind::File { path: path.to_owned(), source }.into()
}
