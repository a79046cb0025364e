//! Why a run fails, and the exit code for it.

use std::fmt;
use std::process::ExitCode;

use ptx_emulator::LoadError;

/// A result of this program.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// Why a run fails. The kinds are the exit codes.
#[derive(Debug)]
pub enum Failure {
    /// Expectations do not hold: 1.
    Unexpected(String),
    /// Something that the user wrote is wrong: 2.
    Wrong(String),
    /// The PTX cannot be loaded: 3.
    Load(String),
    /// A checker reports a kernel: 4.
    Report(String),
}

impl Failure {
    /// Something that the user wrote is wrong.
    pub fn wrong(text: impl Into<String>) -> Self {
        Self::Wrong(text.into())
    }

    /// The PTX of a file is refused.
    pub fn load(path: &std::path::Path, error: &LoadError) -> Self {
        Self::Load(format!("{}: {error}", path.display()))
    }

    /// The same without its text, which has been printed.
    pub fn told(self) -> Self {
        match self {
            Self::Unexpected(_) => Self::Unexpected(String::new()),
            Self::Wrong(_) => Self::Wrong(String::new()),
            Self::Load(_) => Self::Load(String::new()),
            Self::Report(_) => Self::Report(String::new()),
        }
    }

    /// Whether another seed may end otherwise.
    pub fn depends_on_seed(&self) -> bool {
        matches!(self, Self::Unexpected(_) | Self::Report(_))
    }

    /// What the program returns.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Unexpected(_) => 1,
            Self::Wrong(_) => 2,
            Self::Load(_) => 3,
            Self::Report(_) => 4,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(text) if !text.is_empty() => write!(f, "error: {text}"),
            Self::Unexpected(text) | Self::Wrong(text) | Self::Load(text) | Self::Report(text) => {
                f.write_str(text)
            }
        }
    }
}
