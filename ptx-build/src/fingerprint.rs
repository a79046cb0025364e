//! SHA-256 of sources and texts.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, file};

/// SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 over the names and contents of files, in hexadecimal. `paths` are files or folders
/// (taken whole) below `root`. Neither their order, nor the place of `root`, nor how a checkout
/// ends its lines changes the result; a file's name and contents do.
///
/// # Errors
///
/// If a path does not exist or cannot be read.
pub fn fingerprint(root: &Path, paths: &[&str]) -> Result<String, Error> {
    let mut files = Vec::new();
    for path in paths {
        collect(&root.join(path), &mut files)?;
    }
    let mut named: Vec<(String, &PathBuf)> =
        files.iter().map(|path| (relative(root, path), path)).collect();
    named.sort();
    let mut hasher = Sha256::new();
    for (name, path) in named {
        let contents = unix_lines(std::fs::read(path).map_err(file(path))?);
        // Lengths keep "ab" + "c" apart from "a" + "bc".
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update((contents.len() as u64).to_le_bytes());
        hasher.update(&contents);
    }
    Ok(hex(&hasher.finalize()))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for item in std::fs::read_dir(path).map_err(file(path))? {
        collect(&item.map_err(file(path))?.path(), files)?;
    }
    Ok(())
}

/// The path below `root`, with `/` on every system.
fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn unix_lines(bytes: Vec<u8>) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        if byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            kept.push(byte);
        }
    }
    kept
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let unique = format!("ptx-build-test-{}-{name}", std::process::id());
            let root = std::env::temp_dir().join(unique);
            for (path, contents) in files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, contents).unwrap();
            }
            Self(root)
        }

        fn fingerprint(&self, paths: &[&str]) -> String {
            fingerprint(&self.0, paths).unwrap()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn sha256_of_abc_is_the_published_one() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }

    #[test]
    fn place_order_and_line_ends_do_not_matter() {
        let files = [("src/a.rs", "one\ntwo\n"), ("src/deep/b.rs", "three"), ("Cargo.toml", "x")];
        let here = Tree::new("here", &files);
        let crlf = [("src/a.rs", "one\r\ntwo\r\n"), files[1], files[2]];
        let there = Tree::new("there", &crlf);
        assert_eq!(
            here.fingerprint(&["src", "Cargo.toml"]),
            there.fingerprint(&["Cargo.toml", "src"])
        );
    }

    #[test]
    fn contents_and_names_matter() {
        let base = Tree::new("base", &[("src/a.rs", "one"), ("src/b.rs", "two")]);
        let edited = Tree::new("edited", &[("src/a.rs", "One"), ("src/b.rs", "two")]);
        let renamed = Tree::new("renamed", &[("src/a.rs", "one"), ("src/c.rs", "two")]);
        let moved = Tree::new("moved", &[("src/a.rs", "onet"), ("src/b.rs", "wo")]);
        let expected = base.fingerprint(&["src"]);
        for other in [edited, renamed, moved] {
            assert_ne!(other.fingerprint(&["src"]), expected);
        }
    }

    #[test]
    fn a_path_that_does_not_exist_is_an_error() {
        let error = fingerprint(Path::new("/nonexistent"), &["src"]).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/src"), "{error}");
    }
}
