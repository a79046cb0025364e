//! The binary's `bench --model`, as a user calls it, and the document that shows its output.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_grouped-linear"))
        .arg("bench")
        .args(flags)
        .output()
        .expect("the binary can be started")
}

fn text(flags: &[&str]) -> String {
    let output = bench(flags);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(flags: &[&str]) -> Vec<Value> {
    let text = text(&[&["--model", "--json"], flags].concat());
    serde_json::from_str(&text).expect("an array")
}

#[test]
fn without_a_mode_it_says_which_there_is() {
    for flags in [&[][..], &["--json"], &["--shape=s01"]] {
        let output = bench(flags);
        assert!(!output.status.success() && output.stdout.is_empty());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("`--model`") && error.contains("cargo bench"), "{error}");
    }
}

#[test]
fn json_has_predictions_beside_measurements() {
    let flags = ["--shape=s01,x01", "--pass=fprop,quantize", "--recipe=bf16,fp8-block"];
    let rows = json(&flags);
    // Two products and four quantizers of blocks for each shape.
    assert_eq!(rows.len(), 2 * (2 + 4));
    let s01 = &rows[0];
    assert_eq!(
        (&s01["shape"], &s01["pass"], &s01["kernel"]),
        (&"s01".into(), &"fprop".into(), &"bf16".into())
    );
    assert_eq!((&s01["tiles"], &s01["rounds"]), (&4096.into(), &32.into()));
    let of = |row: &Value, key: &str| row[key].as_f64().expect("a number");
    // 768 TFLOP/s of 2 · 32768 · 4096 · 7168 FLOPs.
    assert!((of(s01, "measured_us") - 2505.4).abs() < 0.1);
    let ratio = of(s01, "predicted_us") / of(s01, "measured_us");
    assert!((of(s01, "predicted_over_measured") - ratio).abs() < 1e-12);
    let flops = 2.0 * 32768.0 * 4096.0 * 7168.0;
    assert!((of(s01, "tflops") - flops / of(s01, "predicted_us") / 1e6).abs() < 1e-6);
    for row in rows.iter().filter(|row| row["pass"] == "quantize") {
        assert!(row["tflops"].is_null() && of(row, "tb_per_s") > 0.0);
    }
}

/// No number of Blackwell is measured, and every form of output says so.
#[test]
fn predictions_of_blackwell_are_marked() {
    for row in json(&["--device=b200"]) {
        assert_eq!(row["basis"], "assumptions");
        assert!(row["measured_us"].is_null() && row["predicted_over_measured"].is_null());
    }
    for flags in [&["--model", "--device=b200"][..], &["--model", "--device=b200", "--stages"]] {
        assert!(
            text(flags)
                .lines()
                .next()
                .is_some_and(|line| line.contains("NOTHING HERE IS MEASURED"))
        );
    }
}

/// One block instead of two has more to copy for each product.
#[test]
fn tiles_of_one_block_are_slower() {
    let flags = ["--device=b200", "--shape=s01", "--pass=fprop", "--recipe=bf16"];
    let [pair, block] = ["--tile=pair", "--tile=block"].map(|tile| {
        let rows = json(&[&flags[..], &[tile]].concat());
        (rows[0]["predicted_us"].as_f64().expect("a number"), rows[0]["bound"].clone())
    });
    assert!(block.0 > 1.2 * pair.0);
    assert_eq!((pair.1, block.1), ("tensor core".into(), "shared memory".into()));
}

/// `docs/performance-model.md` shows commands with what they print.
#[test]
fn the_document_shows_what_is_printed() {
    let document = include_str!("../../docs/performance-model.md");
    let mut shown = 0;
    for block in document.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let Some((command, output)) = block.split_once('\n') else { continue };
        let Some(flags) = command.strip_prefix("$ grouped-linear bench ") else { continue };
        let flags: Vec<&str> = flags.split(' ').collect();
        assert_eq!(text(&flags), output, "{command}");
        shown += 1;
    }
    assert_eq!(shown, 6);
}
