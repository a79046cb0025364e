//! Reads what `ptxas -v` prints.

use crate::error::{Error, Kind};

/// What ptxas said of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Entry points and the functions that they call, in the order of the output.
    pub functions: Vec<Function>,
    /// Warnings, and remarks that carry a code such as `(C7508)`: wgmma instructions serialised,
    /// waits injected, `setmaxnreg` ignored. Empty for a good module.
    pub remarks: Vec<String>,
}

/// Resources of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Name in the PTX.
    pub name: String,
    /// Registers per thread; `None` for a function that is called, which has its caller's.
    pub registers: Option<u32>,
    /// Bytes of local memory on the stack.
    pub stack_bytes: u32,
    /// Bytes of registers spilled, stores and loads together.
    pub spill_bytes: u32,
    /// Static shared memory.
    pub shared_bytes: u32,
}

impl Report {
    /// The entry point of a name.
    pub fn entry(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name && function.registers.is_some())
    }

    /// Reads the output of `ptxas -v`.
    ///
    /// # Errors
    ///
    /// If resources stand before any function, or a number is not one.
    pub fn parse(output: &str) -> Result<Self, Error> {
        let mut report = Self::default();
        let mut entry = None;
        for line in output.lines() {
            let unknown = || Error::from(Kind::ReportForm { line: line.into() });
            if let Some((_, rest)) = line.split_once("Compiling entry function '") {
                entry = rest.split('\'').next().map(str::to_owned);
            } else if let Some((_, name)) = line.split_once("Function properties for ") {
                let name = name.trim().to_owned();
                report.functions.push(Function { name, ..Function::default() });
            } else if line.contains("bytes stack frame") {
                let function = report.functions.last_mut().ok_or_else(unknown)?;
                function.stack_bytes = number_before(line, " bytes stack frame")?;
                function.spill_bytes = number_before(line, " bytes spill stores")?
                    + number_before(line, " bytes spill loads")?;
            } else if line.contains(": Used ") {
                let name = entry.take().ok_or_else(unknown)?;
                let found = report.functions.iter_mut().find(|function| function.name == name);
                let function = found.ok_or_else(unknown)?;
                function.registers = Some(number_before(line, " registers")?);
                if line.contains(" bytes smem") {
                    function.shared_bytes = number_before(line, " bytes smem")?;
                }
            } else if is_remark(line) {
                report.remarks.push(line.trim().into());
            }
        }
        Ok(report)
    }
}

fn is_remark(line: &str) -> bool {
    let code = line.split_once("(C").is_some_and(|(_, rest)| rest.starts_with(char::is_numeric));
    code || line.contains("warning")
}

fn number_before(line: &str, unit: &str) -> Result<u32, Error> {
    let number = line
        .split(unit)
        .next()
        .filter(|before| before.len() < line.len())
        .and_then(|before| before.rsplit([' ', ',', '\t']).next())
        .and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| Kind::ReportForm { line: line.into() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
ptxas info    : 16 bytes gmem
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored in function 'gemm'
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 5.287 ms
ptxas info    : Compiling entry function 'setup' for 'sm_90a'
ptxas info    : Function properties for setup
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
ptxas info    : Function properties for helper
    4 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
";

    #[test]
    fn resources_of_each_function_are_read() {
        let report = Report::parse(OUTPUT).unwrap();
        let gemm = Function {
            name: "gemm".into(),
            registers: Some(168),
            stack_bytes: 16,
            spill_bytes: 20,
            shared_bytes: 1024,
        };
        assert_eq!(report.entry("gemm"), Some(&gemm));
        let setup = report.entry("setup").unwrap();
        assert_eq!((setup.registers, setup.spill_bytes, setup.shared_bytes), (Some(30), 0, 0));
        assert_eq!(report.functions[2].name, "helper");
        assert_eq!(report.functions[2].stack_bytes, 4);
        assert_eq!(report.entry("helper"), None, "a function that is called is no entry point");
    }

    #[test]
    fn remarks_with_a_code_and_warnings_are_kept() {
        let warned = format!("{OUTPUT}ptxas warning : Value of threads per SM is out of range\n");
        let report = Report::parse(&warned).unwrap();
        assert_eq!(report.remarks.len(), 2);
        assert!(report.remarks[0].contains("(C7508)"));
        assert!(report.remarks[1].contains("out of range"));
    }

    #[test]
    fn an_unknown_form_is_an_error() {
        assert!(Report::parse("ptxas info    : Used 30 registers\n").is_err());
        let damaged = OUTPUT.replace("Used 168 registers", "Used many registers");
        assert!(Report::parse(&damaged).is_err());
    }
}
