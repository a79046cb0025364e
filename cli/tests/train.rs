//! The binary's `train`, `info` and `verify`, as a user calls them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use grouped_linear::{Device, KernelModule, kernel_source};
use safetensors::SafeTensors;
use serde_json::Value;

/// A run small enough for a test.
const TINY: &[&str] = &[
    "train",
    "--device=cpu",
    "--hidden=32",
    "--experts=4",
    "--context=4",
    "--embedding=8",
    "--batch=64",
    "--log-every=5",
    "--evaluate-every=10",
    "--input",
    "text.txt",
];

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grouped-linear"));
    command.args(arguments).current_dir(folder);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("the binary can be started")
}

fn train(folder: &Path, flags: &[&str]) -> Output {
    run(folder, &[TINY, flags].concat())
}

fn succeed(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn fail(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder_with_text() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text: String =
        (0..600).map(|i| format!("{} plus {} is {}.\n", i, i % 7, i + i % 7)).collect();
    fs::write(folder.path().join("text.txt"), text).expect("writing the text");
    folder
}

fn log(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a log")).expect("valid JSON")
}

/// Twenty steps at once, and in two parts; the logs of both. The first part ends with a look at the
/// held-out text that the straight run does not have.
fn straight_and_resumed(flags: &[&str]) -> [Value; 2] {
    let folder = folder_with_text();
    let at = |name: &str| folder.path().join(name);
    let part = |more: &[&str]| succeed(&train(folder.path(), &[flags, more].concat()));
    part(&["--steps=20", "--out=straight"]);
    part(&["--steps=20", "--stop-after=15", "--out=parts"]);
    part(&["--resume", "--out=parts"]);
    same_tensors(&at("straight/checkpoint.safetensors"), &at("parts/checkpoint.safetensors"));
    ["straight/log.json", "parts/log.json"].map(|name| log(&at(name)))
}

fn same_tensors(left: &Path, right: &Path) {
    let [left, right] = [left, right].map(|path| fs::read(path).unwrap());
    let [left, right] = [&left, &right].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
    assert!(left.len() > 30 && left.len() == right.len());
    for (name, tensor) in left.iter() {
        assert!(tensor == right.tensor(name).unwrap(), "{name} differs");
    }
}

#[test]
fn a_resumed_run_equals_one_that_was_never_interrupted() {
    for flags in [&[][..], &["--recipe=delayed"], &["--recipe=nvfp4"]] {
        let [straight, parts] = straight_and_resumed(flags);
        let column = |log: &Value, key: &str| -> Vec<Value> {
            log["steps"].as_array().unwrap().iter().map(|record| record[key].clone()).collect()
        };
        assert_eq!(column(&straight, "step"), [5, 10, 15, 20]);
        assert_eq!(column(&straight, "loss"), column(&parts, "loss"), "{flags:?}");
        assert_eq!(straight["summary"]["held_out_loss"], parts["summary"]["held_out_loss"]);
        assert_eq!(parts["resumed_from"], 15);
    }
}

/// The first step of each part loads the kernels, and is forgotten.
#[test]
fn a_resumed_run_on_the_emulated_gpu_equals_one_that_was_never_interrupted() {
    let folder = folder_with_text();
    let flags = ["--recipe=nvfp4", "--device=emulated:sm_90a", "--blocks=1", "--experts=2"];
    let flags = [&flags[..], &["--batch=32", "--held-out-bytes=16"]].concat();
    let part = |more: &[&str]| succeed(&train(folder.path(), &[&flags, more].concat()));
    part(&["--steps=2", "--out=straight"]);
    part(&["--steps=2", "--stop-after=1", "--out=parts"]);
    part(&["--resume", "--out=parts"]);
    let path = |out: &str| folder.path().join(out).join("checkpoint.safetensors");
    same_tensors(&path("straight"), &path("parts"));
}

#[test]
fn a_run_learns_and_leaves_its_files() {
    let folder = folder_with_text();
    let printed = succeed(&train(folder.path(), &["--steps=40", "--learning-rate=0.01"]));
    assert!(printed.contains("held-out loss") && printed.contains("bigram model's"), "{printed}");
    let out = folder.path().join("runs/default");
    let log = log(&out.join("log.json"));
    let losses: Vec<f64> =
        log["steps"].as_array().unwrap().iter().map(|r| r["loss"].as_f64().unwrap()).collect();
    assert!(losses[0] > 4.0 && losses[7] < 3.2, "{losses:?}");
    assert!(log["summary"]["grouped_linear"]["forward"].as_f64().unwrap() > 0.0);
    assert_eq!(&fs::read(out.join("loss.png")).unwrap()[1..4], b"PNG");

    // A second run keeps the first one's files.
    let files = ["checkpoint.safetensors", "log.json", "loss.png"];
    let first = files.map(|name| fs::read(out.join(name)).unwrap());
    succeed(&train(folder.path(), &["--steps=1", "--seed=2"]));
    assert_eq!(files.map(|name| fs::read(out.join(format!("{name}.old"))).unwrap()), first);
}

#[test]
fn a_run_goes_on_when_nobody_reads_what_it_prints() {
    let folder = folder_with_text();
    let mut child = command(folder.path(), &[TINY, &["--steps=5"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().expect("it ends").success());
    assert_eq!(log(&folder.path().join("runs/default/log.json"))["summary"]["steps"], 5);
}

#[test]
fn what_cannot_be_resumed_is_refused_and_kept() {
    let folder = folder_with_text();
    let path = folder.path().join("runs/default/checkpoint.safetensors");
    let refused = |flags: &[&str], reason: &str| {
        let before = fs::read(&path).ok();
        let error = fail(&train(folder.path(), &[&["--resume"], flags].concat()));
        assert!(error.contains(reason), "{flags:?}: {error}");
        assert_eq!(fs::read(&path).ok(), before, "{flags:?}");
    };
    refused(&[], "no checkpoint could be read");
    succeed(&train(folder.path(), &["--steps=2"]));
    refused(&[], "has 2 steps already and the run would stop at 2; pass a larger --steps");
    refused(&["--steps=4", "--stop-after=2"], "pass a larger --stop-after");
    refused(&["--steps=4", "--stop-after=5"], "lies behind the last step, 4");
    refused(&["--steps=4", "--hidden=64"], "--hidden 64 was given, but the checkpoint");
    fs::write(folder.path().join("other.txt"), "x".repeat(5000)).unwrap();
    refused(&["--steps=4", "--input", "other.txt"], "pass the same --input");

    let good = fs::read(&path).unwrap();
    let last = good.len() - 1;
    let flipped = |at: usize| {
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        damaged
    };
    // Of a setting, the lowest digit: still a number, but another one.
    let setting = |name: &str| {
        let text = format!("{name}\\\":");
        let start = good.windows(text.len()).position(|window| window == text.as_bytes());
        let value = start.expect("a setting in the header") + text.len();
        let digits = good[value..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        flipped(value + digits - 1)
    };
    for (bytes, reason) in [
        (flipped(last), "it is damaged"),
        (setting("step"), "it is damaged"),
        (setting("seed"), "it is damaged"),
        (setting("experts"), "it is damaged"),
        (good[..last].to_vec(), "not a whole safetensors file"),
        (b"something else".to_vec(), "not a whole safetensors file"),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(&["--steps=4"], reason);
    }
    fs::write(&path, good).unwrap();
    succeed(&train(folder.path(), &["--resume", "--steps=4"]));
}

#[test]
fn wrong_input_is_refused_with_the_reason() {
    let folder = folder_with_text();
    let huge = ["--hidden=32768", "--expert-hidden=32768", "--experts=4096"];
    let cases: [(&[&str], &str); 7] = [
        (&["--steps=0"], "it must be 1 or more"),
        (&["--steps=1", "--hidden=33"], "multiple of 8"),
        (&["--steps=1", "--input", "missing.txt"], "missing.txt"),
        (&["--steps=1", "--learning-rate", "-1"], "it must be a finite number, 0 or more"),
        (&["--steps=1", "--weight-decay=inf"], "it must be a finite number, 0 or more"),
        (&["--steps=3", "--learning-rate=1e30"], "It had written no checkpoint yet"),
        (&huge, "more than there is memory for"),
    ];
    for (flags, reason) in cases {
        let error = fail(&train(folder.path(), flags));
        assert!(error.contains(reason), "{flags:?}: {error}");
    }
}

/// A step's loss is that of the weights before its update, which is what a checkpoint keeps.
#[test]
fn a_run_whose_last_update_diverged_fails_and_keeps_the_checkpoint_before() {
    let folder = folder_with_text();
    let path = |out: &str| folder.path().join(out).join("checkpoint.safetensors");
    let diverged = |flags: &[&str], reasons: &[&str]| {
        let error = fail(&train(folder.path(), flags));
        assert!(reasons.iter().all(|reason| error.contains(reason)), "{flags:?}: {error}");
    };
    let advice = "the run diverged; start a new run with a lower --learning-rate";
    let nothing = format!("{advice}. It had written no checkpoint yet");
    let fast = ["--learning-rate=1e30", "--out=fast"];
    diverged(&[&fast[..], &["--steps=1"]].concat(), &["step 1: held-out loss", &nothing]);
    let infinite = ["--weight-decay=1e30", "--steps=2", "--checkpoint-every=1"];
    diverged(&[&fast[..], &infinite].concat(), &["step 1: ", "holds NaN or infinity", &nothing]);
    assert!(!path("fast").exists());

    // The first update is of half the rate of the second.
    let rates = ["--learning-rate=1000", "--weight-decay=1000", "--steps=40"];
    let flags = [&rates[..], &["--checkpoint-every=1"]].concat();
    let first = [&flags[..], &["--stop-after=1", "--out=good"]].concat();
    succeed(&train(folder.path(), &first));
    let kept = format!("{advice} and another --out. The checkpoint of step 1 is untouched\n");
    let both = [&flags[..], &["--stop-after=2", "--out=both"]].concat();
    diverged(&both, &["step 2: held-out loss NaN", &kept]);
    same_tensors(&path("good"), &path("both"));
    let before = fs::read(path("good")).unwrap();
    diverged(&["--resume", "--stop-after=2", "--out=good"], &["step 2: held-out loss NaN", &kept]);
    assert_eq!(fs::read(path("good")).unwrap(), before);
}

/// Where nothing has been looked at, the next step finds what the weights of a checkpoint give.
#[test]
fn a_checkpoint_that_a_run_diverges_from_is_named() {
    let folder = folder_with_text();
    let flags = ["--steps=40", "--learning-rate=1e10", "--checkpoint-every=1"];
    let error = fail(&train(folder.path(), &flags));
    assert!(error.contains("step 2: loss") && error.contains("gradient norm NaN"), "{error}");
    let kept = "The checkpoint of step 1 is untouched, but this is what its weights lead to";
    assert!(error.contains(kept), "{error}");
}

#[test]
fn the_held_out_text_is_looked_at_as_often_as_was_asked() {
    let folder = folder_with_text();
    let flags = ["--steps=7", "--log-every=4", "--evaluate-every=3"];
    succeed(&train(folder.path(), &flags));
    let log = log(&folder.path().join("runs/default/log.json"));
    let steps = log["steps"].as_array().unwrap().iter();
    let looks: Vec<_> = steps
        .map(|record| (record["step"].as_u64().unwrap(), record["held_out_loss"].is_number()))
        .collect();
    assert_eq!(looks, [(3, true), (4, false), (6, true), (7, true)]);
}

#[test]
fn check_fails_a_run_that_learned_nothing() {
    let folder = folder_with_text();
    let output = train(folder.path(), &["--steps=1", "--check"]);
    assert!(fail(&output).contains("not below the bigram model's"));
}

#[test]
fn a_step_on_the_emulated_gpu_is_a_step_on_the_cpu_to_rounding() {
    let folder = folder_with_text();
    let flags = ["--steps=2", "--hidden=16", "--experts=2", "--blocks=1", "--held-out-bytes=64"];
    let loss = |device: &str, out: &str| {
        let (device, out) = (format!("--device={device}"), format!("--out={out}"));
        succeed(&train(folder.path(), &[&flags[..], &[&device, &out]].concat()));
        let log = log(&folder.path().join(out.trim_start_matches("--out=")).join("log.json"));
        log["summary"]["held_out_loss"].as_f64().unwrap()
    };
    let (cpu, emulated) = (loss("cpu", "on-cpu"), loss("emulated:sm_90a", "emulated"));
    assert!((cpu - emulated).abs() < 0.01, "{cpu} on the CPU, {emulated} emulated");
}

#[test]
fn info_shows_what_the_library_knows() {
    let folder = tempfile::tempdir().unwrap();
    let printed = succeed(&run(folder.path(), &["info"]));
    let rows: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split_whitespace().collect()).collect();
    let expect = |row: &[&str]| {
        let found = rows.iter().any(|words| words.windows(row.len()).any(|part| part == row));
        assert!(found, "{row:?} is missing:\n{printed}");
    };
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let expect_text =
        |text: &str| expect(&words(text).iter().map(String::as_str).collect::<Vec<_>>());

    expect_text(&format!("grouped-linear {}", env!("CARGO_PKG_VERSION")));
    let threads = std::thread::available_parallelism().unwrap();
    expect_text(&format!("cpu CPU reference, {threads} threads"));
    match Device::cuda_count() {
        Err(error) => {
            assert!(error.is_no_driver(), "{error}");
            expect_text(&format!("gpu none: {error}"));
            expect_text("--device auto uses cpu");
        }
        Ok(count) => {
            let gpus: Vec<Device> = (0..count).filter_map(|gpu| Device::cuda(gpu).ok()).collect();
            for gpu in &gpus {
                expect_text(&format!("gpu {}: {},", gpu.id(), gpu.info().name));
            }
        }
    }

    for arch in ["sm_90a", "sm_100a"] {
        expect_text(&format!("4 multiprocessors; --device emulated:{arch}"));
    }
    let source = kernel_source();
    expect_text(&format!("compiler {}", source.compiler));
    assert_eq!(source.architectures.len(), 2);
    for architecture in &source.architectures {
        let (major, minor) = architecture.compute_capability;
        expect_text(&format!(
            "{}: GPUs of compute capability {major}.{minor} and no others, driver {} or newer",
            architecture.name, architecture.minimum_driver
        ));
    }
    assert!(!source.modules.is_empty());
    for KernelModule { name, target, bytes, origin, .. } in source.modules {
        expect_text(&format!("{name} {target} {bytes} {origin}"));
    }
}
