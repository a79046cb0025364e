//! Files that are either the old ones or the new ones, whatever happens in between.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes `bytes` beside `path`, waits until they are on the disk, then renames over `path`.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let aside = with_suffix(path, ".tmp");
    write(&aside, bytes)
        .and_then(|()| fs::rename(&aside, path))
        .with_context(|| format!("writing {}; what was there before is untouched", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Moves those of `paths` that exist to names of their own, all with the same suffix, and returns
/// these names.
pub fn set_aside(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let taken = |suffix: &str| paths.iter().any(|path| with_suffix(path, suffix).exists());
    let mut suffix = ".old".to_owned();
    let mut number = 1;
    while taken(&suffix) {
        number += 1;
        suffix = format!(".old{number}");
    }
    let move_aside = |path: &PathBuf| {
        let free = with_suffix(path, &suffix);
        fs::rename(path, &free).with_context(|| format!("moving {} aside", path.display()))?;
        Ok(free)
    };
    paths.iter().filter(|path| path.exists()).map(move_aside).collect()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old").unwrap();
        // A folder in the way of the file beside makes the write fail.
        fs::create_dir(folder.path().join("file.tmp")).unwrap();
        let error = replace(&path, b"new").unwrap_err();
        assert!(error.to_string().contains("untouched"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn setting_aside_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        assert!(set_aside(&paths).unwrap().is_empty());
        // Of the second run one file is missing: its suffix is free for the other, but not taken.
        for (run, files) in [("1", &paths[..]), ("2", &paths[..1]), ("3", &paths[..])] {
            for path in files {
                fs::write(path, run).unwrap();
            }
            assert_eq!(set_aside(&paths).unwrap().len(), files.len());
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        let old =
            |name: &str| ["", ".old", ".old2", ".old3"].map(|end| read(&format!("{name}{end}")));
        let some = |run: &str| Some(run.to_owned());
        assert_eq!(old("a"), [None, some("1"), some("2"), some("3")]);
        assert_eq!(old("b"), [None, some("1"), None, some("3")]);
    }
}
