//! Runs the compiler on a kernel crate.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::Compiler;
use crate::error::{Error, Kind, file};
use crate::fingerprint::sha256;
use crate::finish::{Entry, finish};
use crate::prune::prune;
use crate::text;

/// The target triple of rustc's PTX backend.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Variables that survive although they start with `CARGO_`: where cargo keeps and fetches crates.
const KEPT_PREFIXES: [&str; 5] =
    ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];

/// Functions that the driver itself defines.
const DRIVER_FUNCTIONS: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// What the PTX is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// GPU architecture, as `-Ctarget-cpu` takes it: `sm_90a`, or `sm_100a`.
    pub cpu: &'static str,
    /// PTX version, as `-Ctarget-feature` takes it: `ptx86` is PTX 8.6, which is enough for
    /// `sm_90a`; `ptx87` for `sm_100a`.
    pub ptx: &'static str,
}

/// A part of a kernel crate that becomes one PTX file: some features, and the entry points that
/// they switch on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name of the module, for files and messages.
    pub name: String,
    /// Cargo features of the kernel crate.
    pub features: Vec<String>,
    /// Every entry point of the module.
    pub entries: Vec<Entry>,
}

impl Module {
    /// Compiles the module of the crate in `crate_dir` and completes it with [`finish`].
    ///
    /// # Errors
    ///
    /// Those of [`compile`] and [`finish`].
    pub fn compile(
        &self,
        compiler: &Compiler,
        crate_dir: &Path,
        target: Target,
        target_dir: &Path,
    ) -> Result<String, Error> {
        let build = Build { crate_dir, features: &self.features, target, target_dir };
        finish(&compile(compiler, &build)?, &self.entries)
    }
}

/// One run of the compiler.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The folder of the crate's `Cargo.toml`. Its library target is compiled; it may depend on
    /// other crates, whose functions must be generic or `#[inline]`.
    pub crate_dir: &'a Path,
    /// Cargo features to switch on; default features are off.
    pub features: &'a [String],
    /// What the PTX is for.
    pub target: Target,
    /// A target folder of its own: never that of a cargo which is running, whose lock it would
    /// wait for without end. Keep it to make the next build fast.
    pub target_dir: &'a Path,
}

/// The rustc flags of a target, without those that only hide paths.
pub fn flags(target: Target) -> Vec<String> {
    vec![
        format!("-Ctarget-cpu={}", target.cpu),
        format!("-Ctarget-feature=+{}", target.ptx),
        "-Zunstable-options".into(),
        "-Cpanic=immediate-abort".into(),
    ]
}

/// Compiles a crate to PTX: the compiler's text, without what no entry point uses.
/// [`Module::compile`] is what most want.
///
/// # Errors
///
/// If the compiler does not run or refuses the crate; if the PTX is for another target, calls
/// functions that it does not define, or contains a path of this machine.
pub fn compile(compiler: &Compiler, build: &Build<'_>) -> Result<String, Error> {
    let crate_dir = absolute(build.crate_dir)?;
    let target_dir = own_target_dir(&absolute(build.target_dir)?, &crate_dir);
    let output = output_path(&target_dir, build);
    let folder = output.parent().unwrap_or(&target_dir);
    std::fs::create_dir_all(folder).map_err(file(folder))?;

    run(&mut command(compiler, build, &crate_dir, &target_dir, &output), build)?;
    if !output.is_file() {
        return Err(Kind::NoOutput { crate_dir, expected: output, target_dir }.into());
    }
    let ptx = prune(&std::fs::read_to_string(&output).map_err(file(&output))?);
    check_target(&ptx, build.target)?;
    check_externals(&ptx)?;
    check_paths(&ptx, &[&crate_dir, &target_dir])?;
    Ok(ptx)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(file(path))
}

/// A folder for each place that a crate is built from: cargo tells two checkouts in one target
/// folder apart by the times of their files alone, and would take the output of one for the
/// other's.
fn own_target_dir(target_dir: &Path, crate_dir: &Path) -> PathBuf {
    let place = sha256(crate_dir.to_string_lossy().as_bytes());
    target_dir.join(&place[..12])
}

/// One file for each target and set of features, so that each is kept while others are built.
fn output_path(target_dir: &Path, build: &Build<'_>) -> PathBuf {
    let crate_name = build.crate_dir.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{crate_name}-{}.s", build.features.join("+"));
    target_dir.join("ptx").join(build.target.cpu).join(build.target.ptx).join(name)
}

fn command(
    compiler: &Compiler,
    build: &Build<'_>,
    crate_dir: &Path,
    target_dir: &Path,
    output: &Path,
) -> Command {
    let mut command = Command::new(compiler.cargo());
    command.current_dir(crate_dir);
    command.args(["rustc", "--lib", "--release", "--no-default-features", "-Zbuild-std=core"]);
    command.args(["--target", TRIPLE]).arg("--target-dir").arg(target_dir);
    command.arg("-Zprofile-rustflags");
    for name in ["core", "compiler_builtins"] {
        command
            .arg("--config")
            .arg(format!("profile.release.package.{name}.rustflags={UNOPTIMIZED}"));
    }
    if !build.features.is_empty() {
        command.arg("--features").arg(build.features.join(","));
    }
    let mut emit = std::ffi::OsString::from("--emit=asm=");
    emit.push(output);
    command.arg("--").arg(emit);

    scrub(&mut command);
    command.env("RUSTC", compiler.rustc()).env("RUSTC_BOOTSTRAP", "1");
    // Empty, not absent: that also overrides a wrapper in the user's cargo configuration.
    command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    command.env("CARGO_ENCODED_RUSTFLAGS", encoded_flags(compiler, build.target, crate_dir));
    for (key, value) in PROFILE {
        command.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
    }
    command.env("CARGO_INCREMENTAL", "0").env("CARGO_TERM_COLOR", "never");
    command
}

/// The release profile, stated whole so that no workspace's own profile changes the result.
const PROFILE: [(&str, &str); 7] = [
    ("OPT_LEVEL", "3"),
    ("CODEGEN_UNITS", "1"),
    ("DEBUG", "0"),
    ("DEBUG_ASSERTIONS", "false"),
    ("OVERFLOW_CHECKS", "false"),
    ("LTO", "off"),
    ("STRIP", "none"),
];

/// Flags of the library's crates. What a kernel takes from them is generic or inlined, so it is
/// optimized with the kernel; machine code of their own is of no use here, and to optimize it would
/// be a third of a first build.
const UNOPTIMIZED: &str = r#"["-Cno-prepopulate-passes"]"#;

/// Removes what an outer cargo sets for its own build and would leak into ours. Inherited
/// `CARGO_ENCODED_RUSTFLAGS`, for one, would replace our flags without a word.
fn scrub(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        let cargo = name.starts_with("CARGO") && !KEPT_PREFIXES.iter().any(|p| name.starts_with(p));
        let rust = name.starts_with("RUSTC") || name.starts_with("RUSTDOC");
        let flags = ["RUSTFLAGS", "MAKEFLAGS", "MFLAGS", "TARGET", "HOST"].contains(&&*name);
        if cargo || rust || flags {
            command.env_remove(&key);
        }
    }
}

/// The flags as cargo passes them on, with the paths of this machine replaced by fixed names.
fn encoded_flags(compiler: &Compiler, target: Target, crate_dir: &Path) -> std::ffi::OsString {
    let library = compiler.sysroot().join("lib/rustlib/src/rust");
    let mut remaps = vec![(library, "/rustc"), (crate_dir.to_owned(), "/kernels")];
    if let Some(parent) = crate_dir.parent().filter(|parent| parent.parent().is_some()) {
        // The last flag that matches wins, so the wider prefix comes first.
        remaps.insert(0, (parent.to_owned(), "/workspace"));
    }
    let mut encoded = std::ffi::OsString::from(flags(target).join("\x1f"));
    for (path, name) in remaps {
        encoded.push("\x1f--remap-path-prefix=");
        encoded.push(path);
        encoded.push(format!("={name}"));
    }
    encoded
}

fn run(command: &mut Command, build: &Build<'_>) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| Kind::Run { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let crate_dir = build.crate_dir.to_owned();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Kind::Compile { crate_dir, cpu: build.target.cpu.into(), output: text }.into())
}

/// The flags may be lost on their way through cargo; the result says what was really built.
fn check_target(ptx: &str, target: Target) -> Result<(), Error> {
    let found = ptx.lines().find_map(|line| line.strip_prefix(".target ")).unwrap_or("nothing");
    if found.trim() == target.cpu {
        return Ok(());
    }
    Err(Kind::WrongTarget { asked: target.cpu.into(), found: found.trim().into() }.into())
}

fn check_externals(ptx: &str) -> Result<(), Error> {
    for declaration in ptx.split(".extern .func").skip(1) {
        let name = text::function_name(declaration);
        if !DRIVER_FUNCTIONS.contains(&name) {
            return Err(Kind::External { name: name.into() }.into());
        }
    }
    Ok(())
}

fn check_paths(ptx: &str, paths: &[&Path]) -> Result<(), Error> {
    let found = paths.iter().map(|path| path.to_string_lossy()).find(|path| ptx.contains(&**path));
    found.map_or(Ok(()), |path| Err(Kind::MachinePath { path: path.into_owned() }.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SM_90A: Target = Target { cpu: "sm_90a", ptx: "ptx86" };

    #[test]
    fn another_target_is_refused() {
        assert!(check_target(".version 8.6\n.target sm_90a\n", SM_90A).is_ok());
        let error = check_target(".version 6.0\n.target sm_30\n", SM_90A).unwrap_err();
        assert_eq!(
            error.to_string(),
            "asked for PTX for sm_90a, the compiler wrote `.target sm_30`"
        );
        assert!(check_target(".target sm_90\n", SM_90A).is_err());
        let blackwell = Target { cpu: "sm_100a", ptx: "ptx87" };
        assert_eq!(flags(blackwell)[..2], ["-Ctarget-cpu=sm_100a", "-Ctarget-feature=+ptx87"]);
        assert!(check_target(".version 8.7\n.target sm_100a\n", blackwell).is_ok());
        assert!(check_target(".version 8.7\n.target sm_100\n", blackwell).is_err());
    }

    #[test]
    fn undefined_functions_are_refused_and_those_of_the_driver_are_not() {
        let printf = ".extern .func  (.param .b32 func_retval0) vprintf\n(\n.param .b64 a\n);\n";
        assert!(check_externals(printf).is_ok());
        let other = format!("{printf}.extern .func _RNvCs1_3foo3bar\n(\n.param .b64 a\n)\n;");
        let error = check_externals(&other).unwrap_err().to_string();
        assert!(error.starts_with("the PTX calls _RNvCs1_3foo3bar,"), "{error}");
        assert!(check_externals(".extern .shared .align 1024 .b8 shared[];").is_ok());
    }

    #[test]
    fn paths_of_the_machine_are_refused() {
        let home = Path::new("/home/someone/kernels");
        assert!(check_paths("// nothing\n", &[home]).is_ok());
        assert!(check_paths(".file 1 \"/home/someone/kernels/src/lib.rs\"", &[home]).is_err());
    }

    #[test]
    fn two_checkouts_share_no_target_folder() {
        let target = Path::new("/t");
        let here = own_target_dir(target, Path::new("/here/kernels"));
        assert_ne!(here, own_target_dir(target, Path::new("/there/kernels")));
        assert_eq!(here.parent(), Some(target));
    }

    #[test]
    fn each_set_of_features_has_a_file_of_its_own() {
        let one = ["a".to_owned()];
        let both = ["a".to_owned(), "b".to_owned()];
        let build = |features| Build {
            crate_dir: Path::new("/k/saxpy"),
            features,
            target: SM_90A,
            target_dir: Path::new("/t"),
        };
        let root = Path::new("/t");
        assert_eq!(output_path(root, &build(&one)), root.join("ptx/sm_90a/ptx86/saxpy-a.s"));
        assert_ne!(output_path(root, &build(&one)), output_path(root, &build(&both)));
    }
}
