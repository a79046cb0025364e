//! Runs `nvdisasm`, NVIDIA's disassembler, and reads what it prints.

use std::path::Path;

use crate::error::{Error, file};
use crate::tool::{Scratch, Tool, Wanted, printed};

pub(crate) static NVDISASM: Wanted =
    Wanted { program: "nvdisasm", variable: "NVDISASM", package: "nvidia-cuda-nvdisasm" };

/// A disassembler that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvdisasm(Tool);

/// Machine code of one function: an entry point, with what was inlined, or a function that is
/// called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCode {
    /// Name in the PTX.
    pub name: String,
    /// Instructions in the order of their addresses: `@!P0 BRA L_1`.
    pub instructions: Vec<String>,
}

impl MachineCode {
    /// The first word of each instruction, without a predicate: `HGMMA.64x256x16.F32.BF16`.
    pub fn opcodes(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.instructions.iter().map(|instruction| {
            let mut words = instruction.split_whitespace();
            words.find(|word| !word.starts_with('@')).unwrap_or_default()
        })
    }
}

impl Nvdisasm {
    /// The first that runs of: the variable `NVDISASM`; `nvdisasm` on PATH; the one in Python's
    /// package nvidia-cuda-nvdisasm.
    ///
    /// # Errors
    ///
    /// If `NVDISASM` is set and does not run, or if there is none; the message says what to
    /// install.
    pub fn find() -> Result<Self, Error> {
        Tool::find(&NVDISASM).map(Self)
    }

    /// The disassembler at a path.
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

    /// Every function of a [cubin](crate::Assembled::cubin).
    ///
    /// # Errors
    ///
    /// If nvdisasm does not run or does not take the file: it should not be older than the
    /// assembler.
    pub fn disassemble(&self, cubin: &[u8]) -> Result<Vec<MachineCode>, Error> {
        let folder = Scratch::new()?;
        let source = folder.file("module.cubin");
        std::fs::write(&source, cubin).map_err(file(&source))?;
        let listing = printed(self.0.command().arg("--print-code").arg(&source))?;
        Ok(parse(&listing))
    }
}

/// Reads a listing: a function begins with its section, an instruction with its address in a
/// comment.
fn parse(listing: &str) -> Vec<MachineCode> {
    let mut functions: Vec<MachineCode> = Vec::new();
    for line in listing.lines().map(str::trim) {
        if let Some((_, section)) = line.split_once(".section\t.text.") {
            let name = section.split(',').next().unwrap_or_default().to_owned();
            functions.push(MachineCode { name, ..MachineCode::default() });
        } else if let Some((_, instruction)) =
            line.split_once("*/").filter(|_| line.starts_with("/*"))
            && let Some(function) = functions.last_mut()
            && let Some((instruction, _)) = instruction.split_once(';')
        {
            function.instructions.push(instruction.trim().to_owned());
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
\t.target\tsm_90a

//--------------------- .text.gemm --------------------------
\t.section\t.text.gemm,\"ax\",@progbits
\t.align\t128
        .type           gemm,@function
gemm:
.text.gemm:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_1) ;
        /*0020*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24, gsb0 ;
.L_x_1:
        /*0030*/                   EXIT ;
\t.section\t.text.cast,\"ax\",@progbits
        /*0000*/                   EXIT ;
";

    #[test]
    fn functions_and_their_instructions_are_read() {
        let functions = parse(LISTING);
        assert_eq!(functions.len(), 2);
        assert_eq!(functions[0].name, "gemm");
        let opcodes: Vec<&str> = functions[0].opcodes().collect();
        assert_eq!(opcodes, ["LDC", "BRA", "HGMMA.64x256x16.F32.BF16", "EXIT"]);
        assert_eq!(functions[0].instructions[1], "@!P0 BRA `(.L_x_1)");
        let cast = MachineCode { name: "cast".into(), instructions: vec!["EXIT".into()] };
        assert_eq!(functions[1], cast);
    }
}
