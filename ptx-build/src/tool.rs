//! Finds NVIDIA's programs, and runs them. They are used to check, never to build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Kind, file};

/// Prints where Python's packages keep the program that it is given, newest CUDA first.
const PYTHON_LOCATE: &str = "\
import glob, os, site, sys
roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
for root in roots:
    for folder in ('nvidia/cu*/bin', 'nvidia/cuda_*/bin'):
        for path in sorted(glob.glob(os.path.join(root, folder, sys.argv[1])), reverse=True):
            print(path)
";

/// A program that is looked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Its name on PATH.
    pub program: &'static str,
    /// The variable that may hold its path.
    pub variable: &'static str,
    /// The PyPI package that has it.
    pub package: &'static str,
}

/// A program that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    path: PathBuf,
    version: String,
}

impl Tool {
    /// The first that runs of: the one that the variable names; the one on PATH; the one in the
    /// package.
    pub fn find(wanted: &'static Wanted) -> Result<Self, Error> {
        if let Some(path) = std::env::var_os(wanted.variable).filter(|path| !path.is_empty()) {
            return Self::at(Path::new(&path));
        }
        let mut candidates = vec![PathBuf::from(wanted.program)];
        let locate = ["-c", PYTHON_LOCATE, wanted.program];
        if let Ok(listed) = printed(Command::new("python3").args(locate)) {
            candidates.extend(listed.lines().map(PathBuf::from));
        }
        let found = candidates.iter().find_map(|path| Self::at(path).ok());
        found.ok_or_else(|| Kind::NoTool { wanted }.into())
    }

    /// The one at a path.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let banner = printed(Command::new(path).arg("--version"))?;
        let version = parse_version(&banner).ok_or_else(|| Kind::Failed {
            program: path.display().to_string(),
            output: banner.clone(),
        })?;
        Ok(Self { path: path.to_owned(), version })
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn command(&self) -> Command {
        Command::new(&self.path)
    }
}

/// `13.5.37` of `Cuda compilation tools, release 13.5, V13.5.37`.
fn parse_version(banner: &str) -> Option<String> {
    let (_, after) = banner.split_once(", V")?;
    after.split_whitespace().next().map(str::to_owned)
}

/// What a command prints, if it succeeds.
pub(crate) fn printed(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(source) => return Err(Kind::Run { program, source }.into()),
    };
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Kind::Failed { program, output }.into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A folder that goes away with the value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ptx-build-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(file(&path))?;
        Ok(Self(path))
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over files in the temporary folder do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_full_one() {
        let banner = "Cuda compilation tools, release 13.5, V13.5.37\nBuild cuda_13.5.r13.5/x\n";
        assert_eq!(parse_version(banner).as_deref(), Some("13.5.37"));
        assert_eq!(parse_version("something else"), None);
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let error = Tool::at(Path::new("/nonexistent/ptxas")).unwrap_err().to_string();
        assert!(error.starts_with("could not run /nonexistent/ptxas"), "{error}");
    }

    #[test]
    fn a_program_that_is_nowhere_is_an_error_that_says_what_to_install() {
        static NOWHERE: Wanted = Wanted {
            program: "no-such-program",
            variable: "NO_SUCH_PROGRAM",
            package: "no-such-package",
        };
        let error = Tool::find(&NOWHERE).unwrap_err().to_string();
        assert!(error.contains("pip install no-such-package"), "{error}");
        assert!(error.contains("NO_SUCH_PROGRAM"), "{error}");
    }
}
