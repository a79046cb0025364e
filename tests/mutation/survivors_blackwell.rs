//! The mutants of the modules of Blackwell that nothing notices, and why that is right.

use crate::survivors::Survivors;

/// All of them.
pub const BLACKWELL: &[Survivors] = &[];
