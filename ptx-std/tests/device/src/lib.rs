//! One entry point for each group of functions that need `sm_100a`, with all of them in it. These
//! make no sense to run: the text is looked at and assembled. With the feature `compute` there are
//! others in their place, which compute something, and with `arithmetic` one that needs no
//! `sm_100a`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]
// Entry points of a test, called by nobody: the contracts of what they call are not kept.
#![allow(clippy::missing_safety_doc, missing_docs)]

#[cfg(feature = "arithmetic")]
mod arithmetic;
#[cfg(feature = "compute")]
mod compute;
#[cfg(not(any(feature = "arithmetic", feature = "compute")))]
mod kernels;
#[cfg(not(any(feature = "arithmetic", feature = "compute")))]
mod products;
