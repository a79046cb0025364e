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

/// Moves `path`, where it exists, to a name of its own that is returned.
pub fn set_aside(path: &Path) -> Result<Option<PathBuf>> {
    if !path.exists() {
        return Ok(None);
    }
    let mut free = with_suffix(path, ".old");
    for number in 2.. {
        if !free.exists() {
            break;
        }
        free = with_suffix(path, &format!(".old{number}"));
    }
    fs::rename(path, &free).with_context(|| format!("moving {} aside", path.display()))?;
    Ok(Some(free))
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
        let path = folder.path().join("file");
        assert_eq!(set_aside(&path).unwrap(), None);
        for content in ["a", "b", "c"] {
            fs::write(&path, content).unwrap();
            set_aside(&path).unwrap();
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("file.old"), read("file.old2")), ("a".into(), "b".into()));
        assert_eq!((read("file.old3"), path.exists()), ("c".into(), false));
    }
}
