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
    /// What the PTX is for.
    pub targets: Vec<ManifestTarget>,
    /// One for each PTX file.
    pub modules: Vec<ManifestModule>,
}

/// One architecture that there is PTX for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestTarget {
    /// GPU architecture.
    pub cpu: String,
    /// Flags of the compiler.
    pub flags: String,
    /// The first driver that loads the PTX.
    pub minimum_driver: String,
    /// The same as `cuDriverGetVersion` reports it.
    pub minimum_cuda: u32,
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
        let _ = writeln!(text, "sources = \"{}\"", self.sources);
        let _ = writeln!(text, "compiler = \"{}\"", self.compiler);
        for target in &self.targets {
            let ManifestTarget { cpu, flags, minimum_driver, minimum_cuda } = target;
            let _ = write!(text, "\n[[target]]\ncpu = \"{cpu}\"\nflags = \"{flags}\"\n");
            let _ = writeln!(text, "minimum_driver = \"{minimum_driver}\"");
            let _ = writeln!(text, "minimum_cuda = {minimum_cuda}");
        }
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
            } else if line == "[[target]]" && manifest.modules.is_empty() {
                manifest.targets.push(ManifestTarget::default());
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
            let target = self.targets.last_mut().filter(|_| self.modules.is_empty())?;
            target.minimum_cuda = value.parse().ok()?;
            return Some(());
        }
        let value = value.strip_prefix('"')?.strip_suffix('"')?.to_owned();
        *self.text_field(key)? = value;
        Some(())
    }

    fn text_field(&mut self, key: &str) -> Option<&mut String> {
        Some(match (key, self.targets.last_mut(), self.modules.last_mut()) {
            ("sources", None, None) => &mut self.sources,
            ("compiler", None, None) => &mut self.compiler,
            ("cpu", Some(target), None) => &mut target.cpu,
            ("flags", Some(target), None) => &mut target.flags,
            ("minimum_driver", Some(target), None) => &mut target.minimum_driver,
            ("target", _, Some(module)) => &mut module.target,
            ("name", _, Some(module)) => &mut module.name,
            ("sha256", _, Some(module)) => &mut module.sha256,
            _ => return None,
        })
    }

    fn complete(self) -> Result<Self, Error> {
        let mut required = vec![("sources", &self.sources), ("compiler", &self.compiler)];
        for target in &self.targets {
            required.push(("cpu", &target.cpu));
            required.push(("flags", &target.flags));
            required.push(("minimum_driver", &target.minimum_driver));
        }
        for module in &self.modules {
            required.push(("target", &module.target));
            required.push(("name", &module.name));
            required.push(("sha256", &module.sha256));
        }
        let missing = required.iter().find(|(_, value)| value.is_empty());
        if let Some((key, _)) = missing {
            return Err(Kind::ManifestKey { key }.into());
        }
        if self.targets.iter().any(|target| target.minimum_cuda == 0) {
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

[[target]]
cpu = \"sm_90a\"
flags = \"-Ctarget-cpu=sm_90a\"
minimum_driver = \"565 (CUDA 12.7)\"
minimum_cuda = 12070

[[target]]
cpu = \"sm_100a\"
flags = \"-Ctarget-cpu=sm_100a\"
minimum_driver = \"570 (CUDA 12.8)\"
minimum_cuda = 12080

[[module]]
target = \"sm_90a\"
name = \"setup\"
sha256 = \"bb\"

[[module]]
target = \"sm_100a\"
name = \"reduce\"
sha256 = \"cc\"
";

    #[test]
    fn what_is_written_is_read_back() {
        let manifest = Manifest::parse(TOML).unwrap();
        assert_eq!(manifest.compiler, "1.96.0 (ac68faa20), LLVM 22.1.8");
        let drivers: Vec<u32> = manifest.targets.iter().map(|target| target.minimum_cuda).collect();
        assert_eq!(drivers, [12_070, 12_080]);
        let last = &manifest.modules[1];
        assert_eq!((last.name.as_str(), last.target.as_str()), ("reduce", "sm_100a"));
        assert_eq!(manifest.to_toml("Written by a tool."), TOML);
    }

    #[test]
    fn damage_is_reported_with_its_line_or_key() {
        let unknown = TOML.replace("sources = ", "source = ");
        let error = Manifest::parse(&unknown).unwrap_err().to_string();
        assert_eq!(error, "line 2 of the manifest is not understood: source = \"aa\"");
        let misplaced = format!("{TOML}minimum_cuda = 1\n");
        let error = Manifest::parse(&misplaced).unwrap_err().to_string();
        assert!(error.ends_with("is not understood: minimum_cuda = 1"), "{error}");
        for (line, key) in [
            ("sha256 = \"cc\"\n", "sha256"),
            ("minimum_cuda = 12080\n", "minimum_cuda"),
            ("flags = \"-Ctarget-cpu=sm_100a\"\n", "flags"),
        ] {
            let error = Manifest::parse(&TOML.replace(line, "")).unwrap_err().to_string();
            assert_eq!(error, format!("the manifest does not state {key}"));
        }
    }
}
