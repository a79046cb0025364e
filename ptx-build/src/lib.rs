//! Compiles a Rust crate to PTX with rustc's own NVPTX backend, and checks the result.
//!
//! Nothing but a Rust compiler with its library source is needed: no CUDA toolkit, no LLVM
//! install, no PTX linker, and the crate that uses this one builds with stable Rust. `ptxas` and
//! `nvdisasm` are used only to check, by those who have them.
//!
//! The steps, in order:
//!
//! 1. [`Compiler::find`] looks for a compiler that can build `core` for the GPU.
//! 2. [`Module::compile`] runs it and completes the text with what rustc cannot express: launch
//!    bounds and the alignment of the parameter ([`finish`]).
//! 3. [`Ptxas::check`] assembles the text and reports registers, spills and remarks;
//!    [`entry_bodies`] and [`count`] count instructions, [`Nvdisasm`] shows those of the machine.
//! 4. [`fingerprint`] and [`Manifest`] record what shipped PTX was made from, so that a build
//!    script can tell whether it still fits the sources.
//!
//! The output depends on the sources, the features and the compiler, not on where the sources or
//! the target folder stand.
//!
//! # Example
//!
//! ```no_run
//! use std::path::Path;
//! use ptx_build::{Compiler, Entry, Module, Target};
//!
//! # fn main() -> Result<(), ptx_build::Error> {
//! let module = Module {
//!     name: "saxpy".into(),
//!     features: vec![],
//!     entries: vec![Entry {
//!         name: "saxpy".into(),
//!         threads: 256,
//!         blocks_per_multiprocessor: 1,
//!         cluster: 1,
//!         parameter_bytes: 32,
//!         parameter_align: 64,
//!     }],
//! };
//! let target = Target { cpu: "sm_90a", ptx: "ptx86" };
//! let compiler = Compiler::find()?;
//! let ptx = module.compile(&compiler, Path::new("kernels"), target, Path::new("target/ptx"))?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod compile;
mod compiler;
mod driver;
mod error;
mod fingerprint;
mod finish;
mod instructions;
mod manifest;
mod nvdisasm;
mod prune;
mod ptxas;
mod report;
mod text;
mod tool;

pub use compile::{Build, Module, Target, compile, flags};
pub use compiler::Compiler;
pub use driver::{Driver, minimum_driver};
pub use error::Error;
pub use fingerprint::{fingerprint, sha256};
pub use finish::{Entry, finish};
pub use instructions::{count, entry_bodies};
pub use manifest::{Manifest, ManifestModule, ManifestTarget};
pub use nvdisasm::{MachineCode, Nvdisasm};
pub use ptxas::{Assembled, Ptxas};
pub use report::{Function, Report};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
