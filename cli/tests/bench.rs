//! The binary's `bench`, as a user calls it, and the document that shows what `--model` prints.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_grouped-linear"))
        .env("CUDA_VISIBLE_DEVICES", "-1")
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

/// A GPU that there is is hidden: with one, these flags measure.
#[test]
fn without_a_gpu_it_says_what_it_needs() {
    for flags in [
        &[][..],
        &["--shape=s01"],
        &["--own=2,64,32,32,zipf:1", "--level=product"],
        &["--level=kernel", "--pass=quantize"],
        &["--level=host", "--pass=fprop"],
        &["--level=forward,layer"],
    ] {
        let output = bench(flags);
        assert!(!output.status.success() && output.stdout.is_empty());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            error.contains("measures on a GPU") && error.contains("`bench --model`"),
            "{error}"
        );
    }
}

#[test]
fn flags_that_mean_nothing_together_are_refused() {
    for (flags, reason) in [
        (&["--json"][..], "--model"),
        (&["--device=b200"], "--model"),
        (&["--model", "--out=x.json"], "--out"),
        (&["--model", "--level=layer"], "--level"),
        (&["--model", "--rounds=3"], "--rounds"),
        (&["--model", "--no-peer"], "--no-peer"),
        (&["--model", "--stages", "--shape=s01"], "--shape"),
        (&["--model", "--stages", "--pass=wgrad"], "--pass"),
        (&["--loop=3", "--pause=5"], "--pause"),
        (&["--rounds=0"], "--rounds"),
        (&["--warm-up=0"], "--warm-up"),
        (&["--peer-rest=kernel"], "needs `--pause`"),
        (&["--level=layer", "--pass=fprop"], "`--pass` chooses products and quantizers"),
        (&["--level=product,forward", "--pass=fprop"], "leave `--pass` or these levels out"),
        (&["--own=2,64,32,32,normal"], "`normal` is no distribution"),
        (&["--own=2,64,32,32,1:2"], "not 2 and 64"),
        (&["--shape=s99"], "no shape `s99`"),
        (&["--level=product", "--pass=quantize", "--recipe=bf16"], "ask for nothing"),
    ] {
        let output = bench(flags);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{flags:?}: {error}");
    }
}

#[test]
fn the_help_says_when_weights_are_quantized() {
    let help = text(&["--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let cached = "weights are quantized in every call, those of `current-cached` and \
                  `block-cached` once before";
    assert!(help.contains(cached), "{help}");
}

/// Other splits are predicted; what was measured belongs to the suite's own.
#[test]
fn other_seeds_and_own_shapes_are_predicted() {
    let of = |flags: &[&str]| json(&[&["--pass=fprop", "--recipe=bf16"], flags].concat());
    let [suite, other] = ["--seed=12648430", "--seed=7"].map(|seed| of(&["--shape=s02", seed]));
    assert!(suite[0]["measured_us"].is_number() && other[0]["measured_us"].is_null());
    assert_ne!(suite[0]["predicted_us"], other[0]["predicted_us"]);
    let own = of(&["--own=8,32768,4096,7168,bal", "--shape=s01"]);
    assert_eq!((&own[0]["shape"], &own[1]["shape"]), (&"s01".into(), &"own1".into()));
    assert_eq!(own[0]["predicted_us"], own[1]["predicted_us"]);
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
