//! Why a text is not PTX this crate understands, and where.

use std::fmt;

/// The longest part of a line that an error prints; generated lines can be very long.
const WINDOW: usize = 160;

/// A text could not be parsed. Prints its reason, the line and a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    line: u32,
    column: u32,
    text: String,
    reason: Reason,
}

/// What kind of name a text uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A register, or a special register: the name starts with `%`.
    Register,
    /// A label of an instruction, of `.branchtargets` or of `.callprototype`.
    Label,
    /// A variable, a parameter or a function, or a register whose name has no `%`.
    Symbol,
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Register => "register",
            Self::Label => "label",
            Self::Symbol => "symbol",
        })
    }
}

/// What is wrong at the place a [`ParseError`] names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The grammar wants something else.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What would have been right.
        expected: String,
        /// The token that stands there.
        found: String,
    },
    /// A character that PTX does not use.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A comment or a string without an end.
    #[error("this {0} does not end")]
    Unterminated(&'static str),
    /// A dot or `::` without a word behind it.
    #[error("expected a word of letters, digits and `_` after `.` or `::`")]
    Modifier,
    /// A number that is no literal, or does not fit.
    #[error("`{text}` is not a valid literal: {problem}")]
    Literal {
        /// The literal.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A directive this crate does not know.
    #[error("unknown directive `{0}`")]
    Directive(String),
    /// A name nothing declares here.
    #[error("unknown {kind} `{name}`")]
    Unknown {
        /// What the name would have to be.
        kind: NameKind,
        /// The name.
        name: String,
    },
    /// A name declared twice in one scope.
    #[error("`{0}` is declared twice in this scope")]
    Duplicate(String),
    /// A name of another kind than the place needs.
    #[error("`{name}` is not {wanted}")]
    Kind {
        /// The name.
        name: String,
        /// What the place needs.
        wanted: &'static str,
    },
    /// Something beyond what this crate accepts, so that its memory stays bounded.
    #[error("more than {limit} {what}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How many are accepted.
        limit: u64,
    },
}

impl ParseError {
    /// An error at a byte of a text; positions beyond the text mean its end.
    pub(crate) fn at(text: &str, offset: usize, reason: Reason) -> Self {
        let offset = text.floor_char_boundary_or_end(offset);
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[offset..].find('\n').map_or(text.len(), |length| offset + length);
        Self {
            line: (before.matches('\n').count() + 1) as u32,
            column: (text[start..offset].chars().count() + 1) as u32,
            text: text[start..end].trim_end_matches('\r').to_owned(),
            reason,
        }
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column in characters, from 1; one past the line's end where something is missing there.
    #[must_use]
    pub fn column(&self) -> u32 {
        self.column
    }

    /// The whole line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

/// `str::floor_char_boundary` is newer than the oldest compiler this crate supports.
trait Boundary {
    fn floor_char_boundary_or_end(&self, offset: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_or_end(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.len());
        while !self.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A long line is shown from a little before the place.
        let column = self.column as usize - 1;
        let skipped = column.saturating_sub(WINDOW / 2);
        let shown: String = self.text.chars().skip(skipped).take(WINDOW).collect();
        // Tabs are repeated, so that the caret stands right however wide they are.
        let padding: String = shown
            .chars()
            .take(column - skipped)
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let missing = (column - skipped).saturating_sub(shown.chars().count());
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.reason)?;
        writeln!(f, "  | {shown}")?;
        write!(f, "  | {padding}{}^", " ".repeat(missing))
    }
}

impl std::error::Error for ParseError {}
