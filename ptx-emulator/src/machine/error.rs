//! Why a module cannot be loaded or a kernel not be launched.

use std::fmt;

use super::MemoryError;
use crate::arch::Arch;
use crate::error::ParseError;
use crate::execute::report::Report;

/// A module cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(Box<Kind>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Parse(ParseError),
    Unsupported { line: u32, text: String, what: String, problem: String },
    Undefined(String),
    Initialiser { name: String, problem: String },
    Target { target: String, arch: Arch },
    Memory(MemoryError),
    Limit { what: String, bytes: u64, limit: u64 },
}

impl LoadError {
    pub(crate) fn unsupported(text: &str, line: u32, what: &str, problem: &str) -> Self {
        let index = (line as usize).saturating_sub(1);
        let text = text.lines().nth(index).unwrap_or_default().trim().to_owned();
        let (what, problem) = (what.to_owned(), problem.to_owned());
        Self(Box::new(Kind::Unsupported { line, text, what, problem }))
    }

    pub(crate) fn undefined(name: &str) -> Self {
        Self(Box::new(Kind::Undefined(name.to_owned())))
    }

    pub(crate) fn initialiser(name: &str, problem: &str) -> Self {
        let (name, problem) = (name.to_owned(), problem.to_owned());
        Self(Box::new(Kind::Initialiser { name, problem }))
    }

    /// What needs more bytes than a GPU has.
    pub(crate) fn limit(what: &str, bytes: u64, limit: u64) -> Self {
        Self(Box::new(Kind::Limit { what: what.to_owned(), bytes, limit }))
    }

    pub(crate) fn target(target: &str, arch: Arch) -> Self {
        Self(Box::new(Kind::Target { target: target.to_owned(), arch }))
    }

    /// The error of the parser, if the text is not PTX.
    #[must_use]
    pub fn parse_error(&self) -> Option<&ParseError> {
        match &*self.0 {
            Kind::Parse(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the text is PTX, but holds something this crate does not execute.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(&*self.0, Kind::Unsupported { .. })
    }

    /// The line of the text, from 1, if the error concerns one.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        match &*self.0 {
            Kind::Parse(error) => Some(error.line()),
            Kind::Unsupported { line, .. } => Some(*line),
            _ => None,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Parse(error) => error.fmt(f),
            Kind::Unsupported { line, text, what, problem } => {
                write!(f, "line {line}: `{what}` cannot be executed: {problem}\n  | {text}")
            }
            Kind::Undefined(name) => write!(f, "`{name}` is declared but not defined"),
            Kind::Initialiser { name, problem } => {
                write!(f, "`{name}` cannot be initialised: {problem}")
            }
            Kind::Target { target, arch } => {
                write!(f, "the module is for `{target}`, the machine is {arch}; ")?;
                match Arch::ALL.into_iter().find(|other| other.runs(target)) {
                    Some(other) => write!(f, "{other} runs it"),
                    None => f.write_str(
                        "sm_90a and sm_100a are emulated, which run modules for these and for \
                         older targets without a suffix",
                    ),
                }
            }
            Kind::Limit { what, bytes, limit } => {
                write!(f, "{what} have {bytes} bytes; at most {limit} are possible")
            }
            Kind::Memory(error) => write!(f, "no memory for the module's variables: {error}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Kind::Parse(error) => Some(error),
            Kind::Memory(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ParseError> for LoadError {
    fn from(error: ParseError) -> Self {
        Self(Box::new(Kind::Parse(error)))
    }
}

impl From<MemoryError> for LoadError {
    fn from(error: MemoryError) -> Self {
        Self(Box::new(Kind::Memory(error)))
    }
}

/// A kernel was not launched, or did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The kernel or its module is not loaded.
    #[error("the kernel is not loaded in this machine")]
    UnknownKernel,
    /// The launch configuration is not possible.
    #[error("the launch is refused: {0}")]
    Refused(String),
    /// A checker found something.
    #[error("{0}")]
    Report(Box<Report>),
}

impl LaunchError {
    /// What a checker found.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Report(report) => Some(report),
            _ => None,
        }
    }
}
