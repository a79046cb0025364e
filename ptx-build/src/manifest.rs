//! What shipped PTX was made from, as a small TOML file.

use std::fmt::Write as _;

use crate::error::{Error, Kind};

/// What shipped PTX was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// [`fingerprint`](crate::fingerprint) of the kernel sources.
    pub sources: String,
    /// [`Compiler::version`](crate::Compiler::version) of the compiler.
    pub compiler: String,
    /// Flags of the compiler.
    pub flags: String,
    /// The first driver that loads all of it.
    pub minimum_driver: String,
    /// The same as `cuDriverGetVersion` reports it.
    pub minimum_cuda: u32,
    /// One for each PTX file.
    pub modules: Vec<ManifestModule>,
}

/// One PTX file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestModule {
    /// GPU architecture.
    pub target: String,
    /// Name of the module.
    pub name: String,
    /// SHA-256 of the file.
    pub sha256: String,
}

impl Manifest {
    /// The manifest as TOML, after `heading`, which is written as comment lines.
    pub fn to_toml(&self, heading: &str) -> String {
        let mut text = String::new();
        for line in heading.lines() {
            let _ = writeln!(text, "# {line}");
        }
        let pairs = [
            ("sources", &self.sources),
            ("compiler", &self.compiler),
            ("flags", &self.flags),
            ("minimum_driver", &self.minimum_driver),
        ];
        for (key, value) in pairs {
            let _ = writeln!(text, "{key} = \"{value}\"");
        }
        let _ = writeln!(text, "minimum_cuda = {}", self.minimum_cuda);
        for module in &self.modules {
            let _ = write!(text, "\n[[module]]\ntarget = \"{}\"\n", module.target);
            let _ = write!(text, "name = \"{}\"\nsha256 = \"{}\"\n", module.name, module.sha256);
        }
        text
    }

    /// Reads what [`to_toml`](Self::to_toml) writes; of TOML it knows no more than that.
    ///
    /// # Errors
    ///
    /// If a line is not understood, or a value is missing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut manifest = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line == "[[module]]" {
                manifest.modules.push(ManifestModule::default());
            } else if !line.is_empty() && !line.starts_with('#') {
                let unknown = || Kind::ManifestForm { line: index + 1, text: line.into() };
                manifest.read_pair(line).ok_or_else(unknown)?;
            }
        }
        manifest.complete()
    }

    fn read_pair(&mut self, line: &str) -> Option<()> {
        let (key, value) = line.split_once(" = ")?;
        if key == "minimum_cuda" {
            self.minimum_cuda = value.parse().ok()?;
            return Some(());
        }
        let value = value.strip_prefix('"')?.strip_suffix('"')?.to_owned();
        *self.text_field(key)? = value;
        Some(())
    }

    fn text_field(&mut self, key: &str) -> Option<&mut String> {
        Some(match (key, self.modules.last_mut()) {
            ("sources", None) => &mut self.sources,
            ("compiler", None) => &mut self.compiler,
            ("flags", None) => &mut self.flags,
            ("minimum_driver", None) => &mut self.minimum_driver,
            ("target", Some(module)) => &mut module.target,
            ("name", Some(module)) => &mut module.name,
            ("sha256", Some(module)) => &mut module.sha256,
            _ => return None,
        })
    }

    fn complete(self) -> Result<Self, Error> {
        let mut required = vec![
            ("sources", &self.sources),
            ("compiler", &self.compiler),
            ("flags", &self.flags),
            ("minimum_driver", &self.minimum_driver),
        ];
        for module in &self.modules {
            required.push(("target", &module.target));
            required.push(("name", &module.name));
            required.push(("sha256", &module.sha256));
        }
        let missing = required.iter().find(|(_, value)| value.is_empty());
        if let Some((key, _)) = missing {
            return Err(Kind::ManifestKey { key }.into());
        }
        if self.minimum_cuda == 0 {
            return Err(Kind::ManifestKey { key: "minimum_cuda" }.into());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "\
# Written by a tool.
sources = \"aa\"
compiler = \"1.96.0 (ac68faa20), LLVM 22.1.8\"
flags = \"-Ctarget-cpu=sm_90a\"
minimum_driver = \"565 (CUDA 12.7)\"
minimum_cuda = 12070

[[module]]
target = \"sm_90a\"
name = \"setup\"
sha256 = \"bb\"

[[module]]
target = \"sm_90a\"
name = \"reduce\"
sha256 = \"cc\"
";

    #[test]
    fn what_is_written_is_read_back() {
        let manifest = Manifest::parse(TOML).unwrap();
        assert_eq!(manifest.compiler, "1.96.0 (ac68faa20), LLVM 22.1.8");
        assert_eq!(manifest.minimum_cuda, 12_070);
        assert_eq!(manifest.modules[1].name, "reduce");
        assert_eq!(manifest.to_toml("Written by a tool."), TOML);
    }

    #[test]
    fn damage_is_reported_with_its_line_or_key() {
        let unknown = TOML.replace("sources = ", "source = ");
        let error = Manifest::parse(&unknown).unwrap_err().to_string();
        assert_eq!(error, "line 2 of the manifest is not understood: source = \"aa\"");
        let missing = TOML.replace("sha256 = \"cc\"\n", "");
        let error = Manifest::parse(&missing).unwrap_err().to_string();
        assert_eq!(error, "the manifest does not state sha256");
    }
}
