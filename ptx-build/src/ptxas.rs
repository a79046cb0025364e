//! Runs `ptxas`, NVIDIA's assembler.

use std::path::Path;

use crate::error::{Error, Kind, file};
use crate::report::Report;
use crate::tool::{Scratch, Tool, Wanted};

pub(crate) static PTXAS: Wanted =
    Wanted { program: "ptxas", variable: "PTXAS", package: "nvidia-cuda-nvcc" };

/// An assembler that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas(Tool);

/// A module that ptxas has assembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// What ptxas said of it.
    pub report: Report,
    /// The machine code: a cubin, which is an ELF file.
    pub cubin: Vec<u8>,
}

impl Ptxas {
    /// The first that runs of: the variable `PTXAS`; `ptxas` on PATH; the one in Python's package
    /// nvidia-cuda-nvcc.
    ///
    /// # Errors
    ///
    /// If `PTXAS` is set and does not run, or if there is none; the message says what to install.
    pub fn find() -> Result<Self, Error> {
        Tool::find(&PTXAS).map(Self)
    }

    /// The assembler at a path.
    ///
    /// # Errors
    ///
    /// If it does not run or does not say its version.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Tool::at(path).map(Self)
    }

    /// Its version: `13.5.37`.
    pub fn version(&self) -> &str {
        self.0.version()
    }

    /// Assembles the text for an architecture (`sm_90a`) and returns what ptxas says of it.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble).
    pub fn check(&self, ptx: &str, cpu: &str) -> Result<Report, Error> {
        self.assemble(ptx, cpu).map(|assembled| assembled.report)
    }

    /// Assembles the text for an architecture (`sm_90a`).
    ///
    /// # Errors
    ///
    /// If ptxas does not run or refuses the text.
    pub fn assemble(&self, ptx: &str, cpu: &str) -> Result<Assembled, Error> {
        let folder = Scratch::new()?;
        let (source, target) = (folder.file("module.ptx"), folder.file("module.cubin"));
        std::fs::write(&source, ptx).map_err(file(&source))?;
        let mut command = self.0.command();
        command.args(["-arch", cpu, "-v", "-o"]).arg(&target).arg(&source);
        let program = command.get_program().to_string_lossy().into_owned();
        let output = command.output().map_err(|source| Kind::Run { program, source })?;
        let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            return Err(Kind::Assemble { cpu: cpu.into(), output: text }.into());
        }
        let cubin = std::fs::read(&target).map_err(file(&target))?;
        Ok(Assembled { report: Report::parse(&text)?, cubin })
    }
}
