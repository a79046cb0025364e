//! What documents say of the sources, looked up in the sources.

use std::fs;
use std::path::Path;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// Path and text of every Rust source below a folder.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut sources = Vec::new();
    let directory = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    for entry in directory.expect("a folder of the repository").flatten() {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            sources.extend(self::sources(&path));
        } else if path.ends_with(".rs") {
            let text = read(&path).expect("a source");
            sources.push((path, text));
        }
    }
    sources
}

/// What a cell of a table names.
#[derive(Debug, PartialEq)]
enum Mention<'a> {
    /// `so`.
    Code(&'a str),
    /// *so*.
    Test(&'a str),
}

/// Code spans and emphasised words, in order.
fn mentions(cell: &str) -> Vec<Mention<'_>> {
    let mut mentions = Vec::new();
    let mut rest = cell;
    while let Some(start) = rest.find(['`', '*']) {
        let (mark, inside) = rest[start..].split_at(1);
        let Some(end) = inside.find(mark) else { break };
        let text = &inside[..end];
        mentions.push(if mark == "`" { Mention::Code(text) } else { Mention::Test(text) });
        rest = &inside[end + 1..];
    }
    mentions
}

fn is_identifier(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Whether an item of this name is defined in a text.
fn defines(text: &str, name: &str) -> bool {
    ["struct", "enum", "fn", "type", "trait", "const", "mod"].iter().any(|kind| {
        text.match_indices(&format!("{kind} {name}")).any(|(start, found)| {
            !text[start + found.len()..]
                .starts_with(|letter: char| is_identifier(&letter.to_string()))
        })
    })
}

/// What is wrong with the answer of a row; `library` is all its sources.
fn complaint(answer: &str, library: &str) -> Option<String> {
    let mut file: Option<(&str, String)> = None;
    let (mut tests, mut items) = (0, 0);
    for mention in mentions(answer) {
        match mention {
            Mention::Code(path) if path.contains('/') => {
                let Some(text) = read(path) else { return Some(format!("there is no {path}")) };
                file = Some((path, text));
            }
            Mention::Code(name) => {
                if !is_identifier(name) || !defines(library, name) {
                    return Some(format!("the library defines no {name}"));
                }
                items += 1;
            }
            Mention::Test(name) => {
                let Some((path, text)) = &file else {
                    return Some(format!("no file is named before {name}"));
                };
                if !text.contains(&format!("\"{name}\"")) && !text.contains(&format!("fn {name}("))
                {
                    return Some(format!("{path} has no test \"{name}\""));
                }
                tests += 1;
            }
        }
    }
    let answered = tests > 0
        || items > 0 && answer.starts_with("Cannot be expressed")
        || answer.starts_with("Later, with ")
        || answer.starts_with("Does not arise");
    (!answered).then(|| "neither a test nor a reason".to_owned())
}

/// Both cells of the rows of all tables of two columns, without their headings.
fn rows(document: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = document.lines().collect();
    let mut rows = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let heading = lines.get(number + 1).is_some_and(|next| next.starts_with("| ---"));
        let row = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |"));
        if let (Some(row), false) = (row.filter(|row| !row.starts_with("---")), heading) {
            rows.push(row.split_once(" | ").expect("two columns"));
        }
    }
    rows
}

/// The library and its kernels.
fn library_sources() -> Vec<(String, String)> {
    [sources("host/src"), sources("kernels-gpu/src")].concat()
}

fn library() -> String {
    library_sources().into_iter().map(|(_, text)| text).collect()
}

#[test]
fn every_test_that_is_named_exists() {
    let (document, library) = (read("docs/errors.md").expect("the document"), library());
    let rows = rows(&document);
    let complaints: Vec<String> = rows
        .iter()
        .filter_map(|(mistake, answer)| {
            Some(format!("{mistake}: {}", complaint(answer, &library)?))
        })
        .collect();
    assert!(complaints.is_empty(), "docs/errors.md:\n{}", complaints.join("\n"));
    let tested = rows.iter().filter(|(_, answer)| answer.contains(".rs`")).count();
    assert!(tested > 60, "only {tested} rows were found that name tests");
}

#[test]
fn wrong_answers_are_noticed() {
    let library = library();
    for (answer, part) in [
        ("`tests/errors/main.rs`: *y is x*, *no such test*", "has no test \"no such test\""),
        ("`tests/errors/nothing.rs`: *y is x*", "there is no tests/errors/nothing.rs"),
        ("*y is x*", "no file is named"),
        ("Cannot be expressed: `NoSuchType`", "defines no NoSuchType"),
        ("Cannot be expressed: `Grad`", "defines no Grad"),
        ("Cannot be expressed: somehow", "neither"),
        ("It is refused.", "neither"),
    ] {
        let complaint = complaint(answer, &library).unwrap_or_default();
        assert!(complaint.contains(part), "{answer}: {complaint}");
    }
    for answer in ["`tests/errors/main.rs`: *y is x*", "Cannot be expressed: `Grads`"] {
        assert_eq!(complaint(answer, &library), None);
    }
    let table = "| a | b |\n| --- | --- |\n| first | *x* |\ntext\n| second | `y` |";
    assert_eq!(rows(table), [("first", "*x*"), ("second", "`y`")]);
}

/// So none can change what it computes.
#[test]
fn the_library_reads_no_environment_variable() {
    let sources = library_sources();
    assert!(sources.len() > 50, "the sources were not found");
    for (path, text) in sources {
        for call in ["env::var", "env::vars", "getenv", "option_env!"] {
            assert!(!text.contains(call), "{path} calls {call}");
        }
    }
}
