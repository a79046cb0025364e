//! Kernels that are asked for by name.

use grouped_linear::plan::{BiasKind, GemmProblem, Pass, Plan, Problem};
use grouped_linear::{BiasUse, DType, Device, KernelChoice, Result, Stream};

use crate::engines::Test;
use crate::recipes::{GROUPS, K, LIVE, Model, N, NAMES, ROWS, distance, recipes};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("narrow tiles where they are asked for", |e, s| narrow_tiles(s).expect(e))];

pub(crate) const ON_BLACKWELL: &[(&str, Test)] = &[
    ("single blocks and pairs where they are asked for", |e, s| blocks_and_pairs(s).expect(e)),
    ("pairs with recipes", |e, s| with_recipes(s).expect(e)),
];

/// Entry points for BF16, in the order of passes.
const KERNELS: [(KernelChoice, [&str; 3]); 2] = [
    (
        KernelChoice::Block,
        ["gemm_sm100_fprop_bf16", "gemm_sm100_dgrad_bf16", "gemm_sm100_wgrad_bf16"],
    ),
    (
        KernelChoice::Pair,
        ["gemm_sm100_fprop_pair_bf16", "gemm_sm100_dgrad_pair_bf16", "gemm_sm100_wgrad_pair_bf16"],
    ),
];

fn product(pass: Pass, kernel: KernelChoice) -> Problem {
    let (input, output, bias) = (DType::Bf16, DType::Bf16, BiasKind::None);
    let (groups, rows, in_features, out_features) = (GROUPS, ROWS, K, N);
    let problem =
        GemmProblem { pass, groups, rows, in_features, out_features, input, output, bias, kernel };
    problem.into()
}

/// Every bit is that of wide tiles, since a sum is made in the same order.
fn narrow_tiles(stream: &Stream) -> Result<()> {
    let mut model = Model::new(stream, DType::Bf16, 20)?;
    let mut outputs = Vec::new();
    for (kernel, name) in [
        (KernelChoice::Block, "gemm_sm90_fprop_bf16"),
        (KernelChoice::Narrow, "gemm_sm90_fprop_narrow_bf16"),
    ] {
        model.kernel = kernel;
        let forward = model.forward(stream, BiasUse::Add, None);
        if stream.device().target().gpu.is_none() {
            let error = forward.expect_err("no tensor cores").to_string();
            assert!(error.contains("the CPU has no tensor cores"), "{error}");
            continue;
        }
        let explained = Plan::explain(product(Pass::Fprop, kernel), stream.device().target())?;
        let choice = format!("choice     {name}, asked for by name, KernelChoice::{kernel:?}");
        assert!(explained.to_string().contains(&choice), "{explained}");
        let (y, _) = forward?;
        outputs.push(y.to_f32(stream)?[..LIVE * N].to_vec());
    }
    assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}

/// The results are those of the CPU; the plan, which the launches follow, has the kernel's name.
fn blocks_and_pairs(stream: &Stream) -> Result<()> {
    let cpu = Device::cpu().stream()?;
    let want = Model::new(&cpu, DType::Bf16, 21)?.step(&cpu, BiasUse::Add, None)?;
    let mut model = Model::new(stream, DType::Bf16, 21)?;
    for (kernel, names) in KERNELS {
        for (pass, name) in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad].into_iter().zip(names) {
            let target = stream.device().target();
            let explained = Plan::explain(product(pass, kernel), target)?.to_string();
            let choice = format!("choice     {name}, asked for by name, KernelChoice::{kernel:?}");
            assert!(explained.contains(&choice), "{explained}");
        }
        model.kernel = kernel;
        near(&format!("{kernel:?}"), &model.step(stream, BiasUse::Add, None)?, &want);
    }
    Ok(())
}

/// Of these sizes no pair is chosen by itself.
fn with_recipes(stream: &Stream) -> Result<()> {
    let cpu = Device::cpu().stream()?;
    let kinds = ["current", "block", "mxfp8", "nvfp4"];
    for (name, recipe) in recipes().into_iter().filter(|(name, _)| kinds.contains(name)) {
        let model = Model::new(&cpu, DType::Bf16, 22)?;
        let want = model.step(&cpu, BiasUse::Add, Some(&model.recipe(&cpu, recipe)?))?;
        let mut model = Model::new(stream, DType::Bf16, 22)?;
        model.kernel = KernelChoice::Pair;
        let got = model.step(stream, BiasUse::Add, Some(&model.recipe(stream, recipe)?))?;
        near(name, &got, &want);
    }
    Ok(())
}

/// Sums in another order, rounded to BF16.
#[track_caller]
fn near(what: &str, got: &[Vec<f32>; 5], want: &[Vec<f32>; 5]) {
    for ((name, got), want) in NAMES.iter().zip(got).zip(want).take(4) {
        let error = distance(got, want);
        assert!(error < 4e-3, "{what}: {name}: {error}");
    }
}
