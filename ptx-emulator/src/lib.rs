//! PTX on the CPU.
//!
//! A [`Machine`] loads PTX, holds memory and launches kernels; checkers report what is wrong with
//! them. **Not every instruction executes yet**: `mbarrier`, asynchronous copies and matrix products
//! are refused by [`Machine::load`], by name and line. Their maths exists as tested modules that no
//! instruction calls yet.
//!
//! [`Module::parse`] reads a text and resolves every name: registers to dense indices, labels to
//! instructions, symbols to what they name. Blocks in braces, which inline assembly brings, have
//! registers and labels of their own. What is not PTX as this crate knows it is a [`ParseError`]
//! with line, column and the line's text. Parsing never panics, whatever the text, and its memory
//! is bounded by a multiple of the text's length.
//!
//! ```
//! use ptx_emulator::Module;
//!
//! let text = "
//! .version 8.6
//! .target sm_90a
//! .address_size 64
//! .visible .entry store(.param .u64 out)
//! {
//!     .reg .b64 %rd<2>;
//!     ld.param.b64 %rd1, [out];
//!     st.global.b32 [%rd1+4], 7;
//!     ret;
//! }";
//! let module = Module::parse(text)?;
//! let store = module.entries().next().unwrap();
//! let body = store.body.as_ref().unwrap();
//! assert_eq!(body.instructions.len(), 3);
//! assert_eq!(body.instructions[1].opcode.to_string(), "st.global.b32");
//!
//! let error = Module::parse(&text.replace("[%rd1", "[%rd9")).unwrap_err();
//! assert_eq!((error.line(), error.column()), (9, 20));
//! # Ok::<(), ptx_emulator::ParseError>(())
//! ```
#![forbid(unsafe_code)]

mod arch;
mod error;
mod execute;
mod lexer;
mod machine;
mod matrix;
pub mod module;
pub mod mutation;
mod numeric;
mod ops;
mod parse;
mod program;
mod race;
mod random;
pub mod tensor_map;

pub use arch::Arch;
pub use error::{NameKind, ParseError, Reason};
pub use execute::report::{Report, ReportKind};
pub use machine::{
    Checks, Executions, Fp8Accumulation, KernelId, KernelInfo, LaunchConfig, LaunchError,
    LoadError, Machine, MemoryError, ModuleId, Options, Place, SourceLine, Statistics,
};
pub use module::Module;
pub use tensor_map::{TensorMap, TiledMap};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
