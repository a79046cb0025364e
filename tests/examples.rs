//! Every example whose features are on runs, with or without a GPU, and has something to say.

use std::path::Path;
use std::process::Command;

#[test]
fn examples_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(root.join("examples"))
        .expect("the folder of examples")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(!names.is_empty(), "there are examples");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let required = required_features(&manifest);
    for (name, _) in &required {
        assert!(names.contains(name), "Cargo.toml knows an example {name} that is not here");
    }

    // Tests lie in `deps`, beside the folder of examples.
    let test = std::env::current_exe().expect("this test's path");
    let built = test.parent().and_then(Path::parent).expect("a folder of builds").join("examples");
    for (number, name) in names.iter().enumerate() {
        assert!(
            name.starts_with(&format!("{:02}_", number + 1)),
            "{name} is not number {}",
            number + 1
        );
        let features = required.iter().filter(|(example, _)| example == name);
        if features.flat_map(|(_, features)| features).any(|feature| !is_on(feature)) {
            continue; // Cargo has not built it.
        }
        let program = built.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        let run = Command::new(&program).output().unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `cargo test` and `cargo build --examples` build it",
                program.display()
            )
        });
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{name}: {}\n{errors}", run.status);
        assert!(!run.stdout.is_empty(), "{name} prints nothing");
    }
}

/// The examples that the manifest names, with the features that they need.
fn required_features(manifest: &str) -> Vec<(String, Vec<String>)> {
    let strings = |line: &str| -> Vec<String> {
        line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let tables = manifest.split("[[example]]").skip(1).map(|rest| {
        let table = rest.split("\n[").next().unwrap_or(rest);
        let value = |key: &str| {
            let line = table.lines().find(|line| line.starts_with(key));
            line.map(strings).unwrap_or_default()
        };
        let [name] = &value("name")[..] else { panic!("an example without a name: {table}") };
        (name.clone(), value("required-features"))
    });
    tables.collect()
}

fn is_on(feature: &str) -> bool {
    match feature {
        "emulator" => cfg!(feature = "emulator"),
        "safetensors" => cfg!(feature = "safetensors"),
        other => panic!("an example needs the feature {other}, which this test does not know"),
    }
}
