//! Every example runs, with or without a GPU, and has something to say.

use std::path::Path;
use std::process::Command;

#[test]
fn examples_run() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(sources)
        .expect("the folder of examples")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(!names.is_empty(), "there are examples");

    // Tests lie in `deps`, beside the folder of examples.
    let test = std::env::current_exe().expect("this test's path");
    let built = test.parent().and_then(Path::parent).expect("a folder of builds").join("examples");
    for (number, name) in names.iter().enumerate() {
        assert!(
            name.starts_with(&format!("{:02}_", number + 1)),
            "{name} is not number {}",
            number + 1
        );
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
