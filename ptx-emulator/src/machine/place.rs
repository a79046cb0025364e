//! A place in a launch: the instruction and who executes it.

use std::fmt;

/// A line of the source the PTX was compiled from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLine {
    /// The file, as `.file` gives it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 where the compiler states none.
    pub column: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// An instruction and the threads that execute it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The function.
    pub function: String,
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// That line.
    pub text: String,
    /// The line of the source, where the PTX has debug lines.
    pub source: Option<SourceLine>,
    /// The block in the grid.
    pub block: [u32; 3],
    /// The warp in the block.
    pub warp: u32,
    /// The thread in the block, if the report concerns one.
    pub thread: Option<[u32; 3]>,
    /// The lanes that execute the instruction together, one bit each.
    pub lanes: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "  block ({x}, {y}, {z}), warp {}", self.warp)?;
        match self.thread {
            Some([x, y, z]) => write!(f, ", thread ({x}, {y}, {z})")?,
            None => write!(f, ", lanes {:#010x}", self.lanes)?,
        }
        write!(f, "\n  PTX line {} in `{}`: {}", self.line, self.function, self.text.trim())?;
        match &self.source {
            Some(source) => write!(f, "\n  source {source}"),
            None => Ok(()),
        }
    }
}
