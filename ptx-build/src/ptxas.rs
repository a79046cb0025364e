//! Finds and runs `ptxas`, NVIDIA's assembler. It is used to check, never to build.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Kind, file};
use crate::report::Report;

/// Prints where Python's package nvidia-cuda-nvcc keeps ptxas, newest CUDA first.
const PYTHON_LOCATE: &str = "\
import glob, os, site, sys
roots = site.getsitepackages() + [site.getusersitepackages()] + sys.path
for root in roots:
    for sub in ('nvidia/cu*/bin/ptxas', 'nvidia/cuda_nvcc/bin/ptxas'):
        for path in sorted(glob.glob(os.path.join(root, sub)), reverse=True):
            print(path)
";

/// An assembler that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    path: PathBuf,
    version: String,
}

impl Ptxas {
    /// The first that runs of: the variable `PTXAS`; `ptxas` on PATH; the one in Python's package
    /// nvidia-cuda-nvcc.
    ///
    /// # Errors
    ///
    /// If `PTXAS` is set and does not run, or if there is none; the message says what to install.
    pub fn find() -> Result<Self, Error> {
        if let Some(path) = std::env::var_os("PTXAS").filter(|path| !path.is_empty()) {
            return Self::at(Path::new(&path));
        }
        let mut candidates = vec![PathBuf::from("ptxas")];
        if let Ok(listed) = printed(Command::new("python3").args(["-c", PYTHON_LOCATE])) {
            candidates.extend(listed.lines().map(PathBuf::from));
        }
        candidates.iter().find_map(|path| Self::at(path).ok()).ok_or_else(|| Kind::NoPtxas.into())
    }

    /// The assembler at a path.
    ///
    /// # Errors
    ///
    /// If it does not run or does not say its version.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let banner = printed(Command::new(path).arg("--version"))?;
        let version = parse_version(&banner).ok_or_else(|| Kind::Failed {
            program: path.display().to_string(),
            output: banner.clone(),
        })?;
        Ok(Self { path: path.to_owned(), version })
    }

    /// Its version: `13.5.37`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Assembles the text for an architecture (`sm_90a`) and returns what ptxas says of it.
    ///
    /// # Errors
    ///
    /// If ptxas does not run or refuses the text.
    pub fn check(&self, ptx: &str, cpu: &str) -> Result<Report, Error> {
        let folder = Scratch::new()?;
        let source = folder.0.join("module.ptx");
        std::fs::write(&source, ptx).map_err(file(&source))?;
        let mut command = Command::new(&self.path);
        command.args(["-arch", cpu, "-v", "-o"]).arg(folder.0.join("module.cubin")).arg(&source);
        let output = command
            .output()
            .map_err(|source| Kind::Run { program: self.path.display().to_string(), source })?;
        let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            return Err(Kind::Assemble { cpu: cpu.into(), output: text }.into());
        }
        Report::parse(&text)
    }
}

/// `13.5.37` of `Cuda compilation tools, release 13.5, V13.5.37`.
fn parse_version(banner: &str) -> Option<String> {
    let (_, after) = banner.split_once(", V")?;
    after.split_whitespace().next().map(str::to_owned)
}

fn printed(command: &mut Command) -> Result<String, Error> {
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
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ptx-build-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(file(&path))?;
        Ok(Self(path))
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
    fn an_assembler_that_does_not_exist_is_an_error() {
        let error = Ptxas::at(Path::new("/nonexistent/ptxas")).unwrap_err().to_string();
        assert!(error.starts_with("could not run /nonexistent/ptxas"), "{error}");
    }
}
