//! One entry point for each group of functions that need `sm_100a`, with all of them in it.
//!
//! Nothing here makes sense to run: the text is looked at and assembled.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
// Entry points of a test, called by nobody: the contracts of what they call are not kept.
#![allow(clippy::missing_safety_doc, missing_docs)]

mod kernels;
mod products;
