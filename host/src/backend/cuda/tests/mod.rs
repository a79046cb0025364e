//! Tests that need no GPU: the binding against another one (`abi`), the loader against wrong
//! libraries (`loader`), and the bookkeeping of streams, memory and graphs (`behaviour`), of
//! streams of other libraries (`lent`) and of kernels (`launches`) against a driver written in C
//! for the purpose. What the real driver does is for the conformance tests. All but the first need
//! a C compiler called `cc`, so they are there on Unix only.

mod abi;
#[cfg(unix)]
mod behaviour;
#[cfg(unix)]
mod fake;
#[cfg(unix)]
mod launches;
#[cfg(unix)]
mod lent;
#[cfg(unix)]
mod loader;
