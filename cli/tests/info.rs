//! The binary's `info --plan`, as a user calls it, and the document that shows what it prints.

use std::process::{Command, Output};

fn plan(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_grouped-linear"))
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .args(["info", "--plan"])
        .args(flags)
        .output()
        .expect("the binary can be started")
}

fn text(flags: &[&str]) -> String {
    let output = plan(flags);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Words behind `choice`, for each pass.
fn choices(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| Some(line.strip_prefix("choice")?.trim())).collect()
}

#[test]
fn each_pass_has_a_choice_and_a_reason() {
    let hopper = [
        "gemm_sm90_fprop_bf16, the cheapest of 2 that are eligible",
        "gemm_sm90_dgrad_bf16, the only one that is eligible",
        "gemm_sm90_wgrad_bf16, the only one that is eligible",
    ];
    assert_eq!(choices(&text(&[])), hopper);

    let blackwell = text(&["--target=sm_100a", "--pass=fprop,wgrad", "--recipe=mxfp8"]);
    let pair =
        |pass: &str| format!("gemm_sm100_mxfp8_{pass}_pair, the cheapest of 2 that are eligible");
    assert_eq!(choices(&blackwell), ["fprop", "wgrad"].map(pair));
    assert!(blackwell.contains("148 multiprocessors"), "{blackwell}");
    assert!(!blackwell.contains("dgrad"), "{blackwell}");
}

#[test]
fn kernels_are_asked_for_by_name_or_refused_with_the_reason() {
    for (flags, expected) in [
        (
            &["--kernel=simt"][..],
            "choice     gemm_simt_bf16, asked for by name, KernelChoice::Simt",
        ),
        (
            &["--kernel=pair"],
            "choice     none: KernelChoice::Pair was asked for: it is compiled for",
        ),
        (&["--in-features=60"], "choice     none: tensor copies need"),
        (&["--recipe=f32"], "choice     gemm_simt_f32, the only one"),
        (&["--recipe=f16", "--output=f32"], "gemm_sm90_fprop_f16"),
        (&["--recipe=fp8-fast"], "gemm_fp8_rows_tensor_fast_e4m3, the only one"),
        (&["--recipe=current"], "gemm_fp8_rows_tensor_fast_e4m3, the only one"),
        (&["--recipe=current", "--pass=wgrad"], "gemm_fp8_reduction_tensor_e5m2, the only one"),
        (&["--recipe=block"], "gemm_fp8_rows_vector_square_e4m3, the only one"),
        (&["--recipe=fp8-block"], "gemm_fp8_rows_vector_square_e4m3, the only one"),
        (&["--recipe=nvfp4"], "gemm_sm90_fprop_bf16, the cheapest of 2 that are eligible"),
        (&["--kernel=narrow"], "gemm_sm90_fprop_narrow_bf16, asked for by name"),
        (&["--rows=0"], "choice     no kernel, there is nothing to write"),
        (&["--rows=0", "--pass=wgrad"], "gemm_simt_bf16, there are no token rows"),
        (&["--target=cpu"], "choice     the CPU reference"),
        (
            &["--target=emulated:sm_100a", "--kernel=block"],
            "gemm_sm100_fprop_bf16, asked for by name",
        ),
        (&["--target=sm_100a", "--multiprocessors=1"], "on two multiprocessors, this GPU has one"),
    ] {
        let printed = text(flags);
        assert!(printed.contains(expected), "{flags:?}:\n{printed}");
    }
}

#[test]
fn what_cannot_be_planned_is_refused() {
    for (flags, reason) in [
        (&["--groups=0"][..], "0 groups were asked for"),
        (&["--recipe=bf8"], "there are f32, f16, bf16, current, delayed, block, mxfp8, nvfp4"),
        (&["--kernel=fast"], "there are auto, simt, block, narrow, pair"),
        (&["--target=sm_80"], "emulated:sm_100a, sm_90a and sm_100a are possible"),
        (&["--target=cuda:0"], "--target cuda:0 cannot be used"),
        (&["--target=cpu", "--multiprocessors=4"], "the CPU"),
        (&["--multiprocessors=0"], "at least one is needed"),
    ] {
        let output = plan(flags);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{flags:?}: {error}");
    }
    // Sizes mean nothing without --plan.
    let output = Command::new(env!("CARGO_BIN_EXE_grouped-linear"))
        .args(["info", "--rows=5"])
        .output()
        .expect("the binary can be started");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("--plan"), "{error}");
}

/// Every block of the document that begins with the command is what the command prints.
#[test]
fn the_document_shows_what_is_printed() {
    let document = include_str!("../../docs/performance-model.md");
    let mut shown = 0;
    for block in document.split("```text\n").skip(1) {
        let (block, _) = block.split_once("```").expect("a block ends");
        let (command, printed) = block.split_once('\n').expect("a command");
        if let Some(flags) = command.strip_prefix("$ grouped-linear info --plan") {
            assert_eq!(text(&flags.split_whitespace().collect::<Vec<_>>()), printed, "{command}");
            shown += 1;
        }
    }
    assert!(shown > 0);
}
