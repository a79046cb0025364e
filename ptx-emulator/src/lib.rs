//! PTX on the CPU.
//!
//! A [`Machine`] loads PTX, holds memory and launches kernels, and reports what is wrong with them.
//! The README shows a kernel from its text to its result; the program `ptx-run` (feature `cli`)
//! does the same for a description in TOML.
//!
//! **What executes.** The scalar, vector, warp and atomic instructions of `sm_90a` in all state
//! spaces, calls, clusters with distributed shared memory, barriers, mbarriers, fences,
//! asynchronous copies with and without tensor maps, `ldmatrix` and its relatives, dense `mma.sync`
//! and `wgmma`. [`Arch::Sm100a`] runs what all targets have and what it has alone: tensor memory
//! with the dense `tcgen05` instructions, cluster launch control, arithmetic of pairs of f32, and
//! conversions of 4, 6 and 8 bits. Whatever is not known is refused by [`Machine::load`], by name
//! and line; the README lists what that is.
//!
//! **The order of events is seeded.** Warps take turns of random length in a random order; copies,
//! `wgmma` and `tcgen05` happen at random moments between their issue and the wait for them. Equal
//! seeds ([`Options::seed`]) give equal runs; another seed gives another order, so a missing wait
//! shows up as a wrong result or a report under some seed.
//!
//! **Checkers.** A kernel ends with a [`Report`] at the first of these, which [`ReportKind`] names:
//!
//! - an access that is out of bounds or not aligned, in any space;
//! - a read of shared or tensor memory that nobody has written;
//! - a data race, between threads or with an asynchronous copy, `wgmma` or `tcgen05`, whether or
//!   not it did harm in this order of events, and a missing proxy fence;
//! - a register that an unfinished `wgmma` or `tcgen05.ld` owns, read or written;
//! - tensor memory that is not allocated, out of a warp's reach, or not given back;
//! - a barrier, mbarrier or `setmaxnreg` used against its rules, an mbarrier that other
//!   instructions touch;
//! - shared memory of a block of the cluster that may not have started or has exited, and a block
//!   that ends without having waited for a copy into its own;
//! - `ld.global.nc` of what the kernel has written;
//! - a deadlock, with what every warp waits for, or more instructions than
//!   [`Options::instruction_limit`];
//! - `trap`, and operands for which an instruction is not defined.
//!
//! A report names the line of the PTX, the thread, and the line of the source where the PTX has
//! `.loc` lines. The race checker never reports accesses that are ordered, but may miss a race: of
//! several unordered readers of a byte it keeps one, of the writers the last, it ignores scopes,
//! and a store of the value that another one has just stored there is none.
//!
//! **What is not modelled**: time, caches, writes that some threads see later than others, and
//! launches that overlap.
//!
//! # Parsing only
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

pub use arch::{Arch, UnknownArch};
pub use error::{NameKind, ParseError, Reason};
pub use execute::report::{Report, ReportKind};
pub use machine::{
    Checks, Executions, Fp8Accumulation, KernelId, KernelInfo, LaunchConfig, LaunchError,
    LoadError, Machine, MemoryError, ModuleId, Options, ParameterInfo, Parameters, Place, Scalar,
    SharedModule, SourceLine, Statistics,
};
pub use module::Module;
pub use tensor_map::{TensorMap, TiledMap};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
