//! Instructions that `device/` asks for, compiled as a user's crate would be: counted in its text,
//! or executed by the emulator.
//!
//! One program, so that one of its crates compiles while another does.

mod arithmetic;
mod blackwell;
mod blackwell_products;
