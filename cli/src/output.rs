//! Lines for whoever reads them. One who stops reading, as `head` does, ends no run: the standard
//! library's `println!` would.

use std::fmt;
use std::io::{self, Write};

/// A line on standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(std::io::stdout(), format_args!($($text)*)) };
}

/// A line on standard error.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::line(std::io::stderr(), format_args!($($text)*)) };
}

/// Writes a line.
///
/// # Panics
///
/// If it cannot be written though somebody reads, for instance on a full disk.
pub fn line(mut to: impl Write, text: fmt::Arguments) {
    match writeln!(to, "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        outcome => outcome.expect("a line of output is written"),
    }
}
