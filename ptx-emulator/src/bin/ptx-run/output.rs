//! What is done with the buffers after the last launch.

use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;

use ptx_emulator::Machine;
use toml::Spanned;

use crate::buffers::{Buffers, Placed, read_file, repeat};
use crate::description::{Description, Dump, Expect, Print};
use crate::failure::{Failure, Result};
use crate::numbers::Type;

/// The most elements of an expectation that are named.
const NAMED: usize = 8;
/// Elements in a printed line.
const COLUMNS: usize = 8;

/// Prints a text. Nobody may be listening any more, as behind `head`.
pub fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All that the description says.
    Everything,
    /// Only expectations are checked.
    Expectations,
}

/// The buffers after the last launch.
pub struct Results<'r> {
    pub description: &'r Description,
    pub folder: &'r Path,
    pub machine: &'r Machine,
    pub buffers: &'r Buffers<'r>,
}

/// Some elements of a buffer.
struct Elements {
    dtype: Type,
    /// The index of the first.
    start: u64,
    bytes: Vec<u8>,
}

impl Results<'_> {
    /// Prints, writes files, and checks what is expected.
    pub fn put_out(&self, mode: Mode) -> Result {
        if mode == Mode::Everything {
            self.description.prints.iter().try_for_each(|print| self.print(print))?;
            self.description.dumps.iter().try_for_each(|dump| self.dump(dump))?;
        }
        let mut problems = String::new();
        for expect in &self.description.expectations {
            self.check(expect, &mut problems)?;
        }
        if problems.is_empty() { Ok(()) } else { Err(Failure::Unexpected(problems)) }
    }

    /// The bytes of a whole buffer.
    pub fn bytes(&self, buffer: &Placed) -> Result<Vec<u8>> {
        self.machine
            .read_values(buffer.address, buffer.bytes as usize)
            .map_err(|error| Failure::wrong(format!("buffer `{}`: {error}", buffer.name)))
    }

    fn elements(
        &self,
        name: &Spanned<String>,
        dtype: Option<Type>,
        range: Option<[u64; 2]>,
    ) -> Result<Elements> {
        let buffer = self.buffers.find(name)?;
        let dtype = dtype.unwrap_or(buffer.dtype);
        let size = dtype.bytes() as u64;
        let count = buffer.bytes / size;
        let [start, end] = range.unwrap_or([0, count]);
        if start > end || end > count {
            let text = format!("`{}` has {count} elements of {dtype}", buffer.name);
            return Err(self.description.wrong(name, format!("the range {start}..{end}: {text}")));
        }
        let bytes = self.bytes(buffer)?;
        let bytes = bytes[(start * size) as usize..(end * size) as usize].to_vec();
        Ok(Elements { dtype, start, bytes })
    }

    fn print(&self, print: &Print) -> Result {
        let elements = self.elements(&print.buffer, print.dtype, print.range)?;
        let Elements { dtype, start, bytes } = &elements;
        let mut text = format!("{}, {dtype}:\n", print.buffer.get_ref());
        let columns = print.columns.unwrap_or(COLUMNS).max(1);
        for (row, line) in bytes.chunks(columns.saturating_mul(dtype.bytes())).enumerate() {
            let _ = write!(text, "{:>8}:", start + (row * columns) as u64);
            for element in line.chunks(dtype.bytes()) {
                let _ = write!(text, " {}", dtype.decode(element));
            }
            text.push('\n');
        }
        say(&text);
        Ok(())
    }

    fn dump(&self, dump: &Dump) -> Result {
        let elements = self.elements(&dump.buffer, dump.dtype, dump.range)?;
        let path = self.folder.join(&dump.file);
        std::fs::write(&path, elements.bytes)
            .map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))
    }

    /// Adds what is not as expected to the problems.
    fn check(&self, expect: &Expect, problems: &mut String) -> Result {
        let found = self.elements(&expect.buffer, expect.dtype, expect.range)?;
        let wrong = |text: String| self.description.wrong(&expect.buffer, text);
        let Elements { dtype, start, bytes } = &found;
        let (size, count) = (dtype.bytes(), found.bytes.len() / dtype.bytes());
        let wanted = match (&expect.values, &expect.file, &expect.equals) {
            (Some(values), None, None) => repeat(*dtype, values, count).map_err(wrong)?,
            (None, Some(path), None) => read_file(&self.folder.join(path))?,
            (None, None, Some(other)) => {
                self.elements(other, Some(*dtype), Some([0, count as u64]))?.bytes
            }
            _ => {
                let text = "an expectation has one of `values`, `file` and `equals`";
                return Err(wrong(text.to_owned()));
            }
        };
        if wanted.len() != bytes.len() {
            let (given, needed) = (wanted.len(), bytes.len());
            return Err(wrong(format!("{given} bytes are expected of {needed}")));
        }
        let mut differing = 0;
        let mut list = String::new();
        for (index, (own, wanted)) in bytes.chunks(size).zip(wanted.chunks(size)).enumerate() {
            let (own, wanted) = (dtype.decode(own), dtype.decode(wanted));
            if own.agrees(wanted, expect.absolute, expect.relative) {
                continue;
            }
            differing += 1;
            if differing <= NAMED {
                let element = start + index as u64;
                let _ = write!(list, "\n  element {element} is {own}, expected {wanted}");
            }
        }
        if differing > 0 {
            let name = expect.buffer.get_ref();
            let text = format!("{differing} of {count} elements of `{name}` are not as expected");
            if !problems.is_empty() {
                problems.push('\n');
            }
            let _ = write!(problems, "{}{list}", self.description.at(&expect.buffer, text));
        }
        Ok(())
    }
}
