//! A run made by hand, and what becomes of it.

use super::*;

/// Two shapes, passes of BF16, a kernel of theirs alone, quantizers, their kernels alone, a layer
/// and its host time.
const RUN: &str = r#"{
  "format": 1, "date": "2026-11-22T20:15:00Z", "version": "0.1.0",
  "gpu": {"name": "NVIDIA H200", "driver": "580.1", "multiprocessors": 132,
    "before": {"clocks.sm": "1500 MHz", "power.draw": "300 W", "power.limit": "700 W", "temperature.gpu": "40"},
    "after": {"clocks.sm": "1400 MHz", "power.draw": "690 W", "temperature.gpu": "60"}},
  "peer": {"versions": {"torch": "2.11"}, "absent": {"deep_gemm": "no module"}},
  "settings": {"seed": 7, "rounds": 9, "warm_up": 3, "pause_us": 0, "in_a_row": null, "turns": true, "host_calls": 50, "peer_rest": "kernel", "peer_script": "other.py"},
  "shapes": [
    {"id": "s01", "distribution": "bal", "splits": [100, 100], "n": 64, "k": 32},
    {"id": "s02", "distribution": "one", "splits": [0, 100], "n": 64, "k": 32},
    {"id": "x01", "distribution": "bal", "splits": [1, 1], "n": 64, "k": 32}],
  "cases": [
    {"shape": "", "section": "copy", "task": "copy", "quantity": "gpu", "replay": false, "flops": 0, "bytes": 4e9,
     "times": [{"name": "driver", "ours": true, "replay": false, "us": 1000, "min": 990, "max": 1010},
               {"name": "torch", "ours": false, "replay": false, "us": 1100, "min": 990, "max": 1110}], "refused": [], "checks": []},
    {"shape": "s01", "section": "bf16", "task": "fprop", "quantity": "gpu", "replay": false, "flops": 8e8, "bytes": 0,
     "times": [{"name": "bf16", "ours": true, "replay": false, "us": 1, "min": 0.9, "max": 1.1},
               {"name": "torch_grouped", "ours": false, "replay": false, "us": 2, "min": 1.5, "max": 2.5},
               {"name": "cublas_loop", "ours": false, "replay": false, "us": 1.5, "min": 1.5, "max": 1.5},
               {"name": "dense", "ours": false, "replay": false, "us": 0.8, "min": 0.7, "max": 0.9}],
     "refused": [], "checks": [{"name": "bf16", "samples": 48, "worst": 0.002, "worst_limit": 0.004, "rms": 0.001, "rms_limit": 0.0025}]},
    {"shape": "s02", "section": "bf16", "task": "fprop", "quantity": "gpu", "replay": false, "flops": 4e8, "bytes": 0,
     "times": [{"name": "bf16", "ours": true, "replay": false, "us": 1, "min": 0.9, "max": 1.1},
               {"name": "torch_grouped", "ours": false, "replay": false, "us": 0.5, "min": 0.4, "max": 0.6}],
     "refused": [{"name": "dense", "reason": "out of <memory>"}], "checks": []},
    {"shape": "x01", "section": "bf16", "task": "fprop", "quantity": "gpu", "replay": false, "flops": 8e6, "bytes": 0,
     "times": [{"name": "bf16", "ours": true, "replay": false, "us": 1, "min": 0.9, "max": 1.1},
               {"name": "torch_grouped", "ours": false, "replay": false, "us": 8, "min": 7, "max": 9}], "refused": [], "checks": []},
    {"shape": "s01", "section": "bf16", "task": "dgrad", "quantity": "gpu", "replay": false, "flops": 8e8, "bytes": 0,
     "times": [{"name": "bf16", "ours": true, "replay": false, "us": 1, "min": 0.9, "max": 1.1},
               {"name": "torch_grouped", "ours": false, "replay": false, "us": 3, "min": 3, "max": 3}], "refused": [], "checks": []},
    {"shape": "s01", "section": "bf16", "task": "wgrad", "quantity": "gpu", "replay": false, "flops": 8e8, "bytes": 0,
     "times": [{"name": "bf16", "ours": true, "replay": false, "us": 1, "min": 0.9, "max": 1.1},
               {"name": "torch_grouped", "ours": false, "replay": false, "us": 4, "min": 4, "max": 4}], "refused": [], "checks": []},
    {"shape": "s01", "section": "bf16", "task": "wgrad", "quantity": "kernel", "replay": false, "flops": 8e8, "bytes": 0,
     "times": [{"name": "bf16", "ours": true, "replay": false, "us": 0.5, "min": 0.4, "max": 0.6},
               {"name": "torch_grouped", "ours": false, "replay": false, "us": 4, "min": 4, "max": 4}], "refused": [], "checks": []},
    {"shape": "s01", "section": "quantize", "task": "vector.row", "quantity": "gpu", "replay": false, "flops": 0, "bytes": 3e6,
     "times": [{"name": "ours", "ours": true, "replay": false, "us": 1, "min": 0.9, "max": 1.1}], "refused": [], "checks": []},
    {"shape": "s01", "section": "quantize", "task": "vector.row", "quantity": "kernel", "replay": false, "flops": 0, "bytes": 3e6,
     "times": [{"name": "ours", "ours": true, "replay": false, "us": 0.8, "min": 0.7, "max": 0.9},
               {"name": "copy", "ours": true, "replay": false, "us": 0.9, "min": 0.8, "max": 1}], "refused": [], "checks": []},
    {"shape": "s02", "section": "quantize", "task": "vector.row", "quantity": "kernel", "replay": false, "flops": 0, "bytes": 3e6,
     "times": [{"name": "copy", "ours": true, "replay": false, "us": 0.9, "min": 0.8, "max": 1}],
     "refused": [{"name": "ours", "reason": "out of memory"}], "checks": []},
    {"shape": "x01", "section": "quantize", "task": "vector.row", "quantity": "kernel", "replay": false, "flops": 0, "bytes": 3e6,
     "times": [{"name": "ours", "ours": true, "replay": false, "us": 1.5, "min": 1.4, "max": 1.6}],
     "refused": [{"name": "copy", "reason": "out of memory"}], "checks": []},
    {"shape": "s01", "section": "layer.block", "task": "layer", "quantity": "gpu", "replay": false, "flops": 2.4e9, "bytes": 0,
     "times": [{"name": "block", "ours": true, "replay": false, "us": 2, "min": 1.9, "max": 2.1},
               {"name": "bf16", "ours": true, "replay": false, "us": 4, "min": 3.9, "max": 4.1},
               {"name": "torch_grouped_bf16", "ours": false, "replay": false, "us": 5, "min": 4, "max": 6}], "refused": [], "checks": []},
    {"shape": "s01", "section": "layer.block", "task": "layer", "quantity": "host", "replay": false, "flops": 2.4e9, "bytes": 0,
     "times": [{"name": "block", "ours": true, "replay": false, "us": 12.34, "min": 11, "max": 13}], "refused": [], "checks": []},
    {"shape": "s01", "section": "layer.block", "task": "layer", "quantity": "gpu", "replay": true, "flops": 2.4e9, "bytes": 0,
     "times": [{"name": "block", "ours": true, "replay": false, "us": 2, "min": 2, "max": 2},
               {"name": "block", "ours": true, "replay": true, "us": 1, "min": 1, "max": 1},
               {"name": "bf16", "ours": true, "replay": false, "us": 4, "min": 4, "max": 4},
               {"name": "bf16", "ours": true, "replay": true, "us": 3.5, "min": 3.5, "max": 3.5},
               {"name": "torch_grouped_bf16", "ours": false, "replay": false, "us": 5, "min": 5, "max": 5},
               {"name": "torch_grouped_bf16", "ours": false, "replay": true, "us": 2.5, "min": 2.5, "max": 2.5}],
     "refused": [], "checks": []}],
  "failure": null
}"#;

fn run() -> Record {
    parse(RUN).expect("a run")
}

#[test]
fn tables_have_rates_ratios_and_reasons() {
    let Report { text, charts } = make(&[run()]).expect("a report");
    for line in [
        "### 2026-11-22 20:15:00, NVIDIA H200",
        "the card copied 4.00 TB/s.",
        "in a peer's rest a kernel waits, the peer is other.py",
        "Before and after: 1500 MHz and 1400 MHz (multiprocessors), 300 W and 690 W of 700 W, 40 and 60 °C.",
        "1 results were compared with FP64 in the same run; the one nearest to its limit (bf16) had 50 % of it.",
        "Not measured: deep_gemm (no module).",
        // 2 and 1/2; x01 does not count.
        "| Products in bf16, fprop | bf16 | torch_grouped | 1.000 | 0.500 (s02) | 2 of s01 to s12 |",
        "| Products in bf16, fprop | bf16 | dense | 0.800 | 0.800 (s01) | 1 of s01 to s12 |",
        "| Products in bf16, fprop | bf16 | cublas_loop | 1.500 | 1.500 (s01) | 1 of s01 to s12 |",
        // 1.5 on s01, where the loop is faster than the grouped product, and 1/2.
        "| Products in bf16, fprop | bf16 | best of its peers | 0.866 | 0.500 (s02) | 2 of s01 to s12 |",
        // (2 + 3 + 4) / 3.
        "| Products in bf16, fprop + dgrad + wgrad | bf16 | torch_grouped | 3.000 | 3.000 (s01) | 1 of s01 to s12 |",
        "| Layer in block, forward and backward | block | our bf16 | 2.000 | 2.000 (s01) | 1 of s01 to s12 |",
        "| s01 | bf16 | 800 (1.00, 0.90–1.10) | 400, **2.000** | 533, **1.500** | 1000, **0.800** |",
        "| s02 | bf16 | 400 (1.00, 0.90–1.10) | 800, **0.500** | – | – |",
        r"Without dense on s02: out of \<memory\>.",
        "#### Products in bf16, wgrad, our kernel alone beside whole calls",
        "| Products in bf16, wgrad, our kernel alone beside whole calls | bf16 | torch_grouped | 8.000 | 8.000 (s01) | 1 of s01 to s12 |",
        "| s01 | bf16 | 1600 (0.50, 0.40–0.60) | 200, **8.000** |",
        "#### Layer in block, forward and backward",
        "| s01 | block | 1200 (2.00, 1.90–2.10) | 480, **2.500** | 600, **2.000** |",
        "| s01 | bf16 | 600 (4.00, 3.90–4.10) | 480, **1.250** | – |",
        "#### Layer in block, forward and backward, host time",
        "| s01 | block | 12.3, 11.0–13.0 |",
        // Plain calls beside plain calls, replays beside replays.
        "| Layer in block, forward and backward, replayed | block | torch_grouped_bf16 | 2.500 | 2.500 (s01) | 1 of s01 to s12 |",
        "| Layer in block, forward and backward, replayed | block replay | torch_grouped_bf16 replay | 2.500 | 2.500 (s01) | 1 of s01 to s12 |",
        "| Layer in block, forward and backward, replayed | block replay | our bf16 replay | 3.500 | 3.500 (s01) | 1 of s01 to s12 |",
        "| s01 | block replay | 2400 (1.00, 1.00–1.00) | 960, **2.500** | 686, **3.500** |",
        "| s01 | bf16 replay | 686 (3.50, 3.50–3.50) | 960, **0.714** | – |",
        "#### Quantizers",
        "| vector.row | 0.750 |",
        // 3 MB in 0.8 µs, of 4 TB/s; the copy takes 0.9 µs. Without ours there is no share, without
        // the copy no ratio.
        "#### Quantize kernels alone",
        "Shares of the bandwidth of a copy of 2 GiB (4.00 TB/s), of all kernels but the set-up, ",
        "| vector.row | 0.938 (1.125) | – | 0.500 |",
        "Without copy on x01: out of memory.",
        "Without ours on s02: out of memory.",
    ] {
        assert!(text.lines().any(|own| own.contains(line)), "{line}\n{text}");
    }
    let replayed = text.lines().filter(|line| line.contains(", replayed |"));
    assert_eq!(replayed.clone().count(), 6, "two peers of our two, one of our two in BF16");
    assert!(!replayed.clone().any(|line| line.contains("best of its peers")), "there is one peer");
    let names: Vec<&str> = charts.keys().map(String::as_str).collect();
    let named = |name: &str| format!("2026-11-22T201500Z-{name}.svg");
    assert_eq!(names, [named("bf16-ratio"), named("layer-ratio"), named("roofline")]);
    for (name, chart) in &charts {
        assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"), "{name}");
        assert!(!chart.contains("NaN") && !chart.contains("inf"), "{name}: {chart}");
        assert!(text.contains(&format!("(bench/{name})")), "{name}");
    }
    assert_eq!(make(&[run()]).expect("a report"), Report { text, charts });
}

/// 2 · (2 · 32 + 2 · 64 · 32 + 2 · 64) bytes in 3 ns, of 4 TB/s.
#[test]
fn products_near_the_rate_of_a_copy_are_listed() {
    let mut run = run();
    let listed = |run: Record| {
        let text = make(&[run]).expect("a report").text;
        text.contains("| x01 | fprop | bf16 | 0.00 | 0.715 |")
    };
    assert!(!listed(run.clone()));
    let case = run.cases.iter_mut().find(|case| case.shape == "x01").expect("a case");
    case.times[0].us = 0.003;
    assert!(listed(run));
}

#[test]
fn the_rest_of_the_document_stays() {
    let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
    let once = replaced(&document, "new\n").expect("marks");
    assert_eq!(once, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
    assert_eq!(replaced(&once, "new\n").expect("marks"), once);
    for broken in ["no marks", BEGIN, &format!("{END}{BEGIN}"), &format!("{document}{document}")] {
        assert!(replaced(broken, "new").is_err(), "{broken}");
    }
}

#[test]
fn what_is_no_run_is_refused() {
    for (text, reason) in [
        ("[]", "no run of"),
        (r#"{"format": 2}"#, "format 2"),
        (r#"{"format": 1}"#, "missing field"),
        ("x", "expected value"),
    ] {
        let error = parse(text).expect_err("a refusal").to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    assert!(make(&[run(), run()]).is_err(), "two runs of one moment would share charts");
}

/// Written, it is found unchanged; changed, it is not.
#[test]
fn what_was_written_passes_the_check() {
    let root = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder).expect("a folder");
    commands::write(&root.join(DOCUMENT), &format!("text\n{BEGIN}\n{END}\n")).expect("written");
    assert!(check(&root, &[]).is_err(), "there is no run");
    commands::write(&folder.join("run.json"), RUN).expect("written");
    commands::write(&folder.join("stale.svg"), "<svg/>").expect("written");
    assert!(check(&root, &[]).is_err());
    write(&root, &[]).expect("a report");
    check(&root, &[]).expect("unchanged");
    assert!(!folder.join("stale.svg").exists());
    let chart = folder.join("2026-11-22T201500Z-roofline.svg");
    commands::write(&chart, "<svg/>").expect("written");
    let error = check(&root, &[]).expect_err("a changed chart").to_string();
    assert!(error.contains("roofline.svg"), "{error}");
    std::fs::remove_dir_all(&root).expect("removed");
}
