//! Breaks the shipped kernels, one place at a time, and asserts that the emulated GPU notices: a
//! wrong result or a report, under some seed of the scheduler. See `docs/mutation.md`.
//!
//! `cargo test --test mutation` runs a sample, `cargo test --release --test mutation --
//! --include-ignored` every mutant, and a word after that only those whose names have it.
//! Comparisons that are off by one run only if asked for, by the word `edge`; many of them cannot
//! be noticed, so they are counted and never fail. `GROUPED_LINEAR_MUTANTS=200` before it runs so
//! many of each module, drawn at random.

mod bad_splits;
mod biased;
mod biased_fp8;
mod blackwell;
mod companions;
mod low_precision;
mod machines;
mod mutant;
mod padding;
mod products;
mod scaling;
mod scenarios;
mod segments;
mod survivors;
mod survivors_blackwell;
mod survivors_blackwell_fp8;
mod survivors_blackwell_micro;
mod survivors_fp8;
mod survivors_fp8_blocks;
mod survivors_quantizers;
mod tables;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ptx_emulator::Module;
use ptx_emulator::mutation::{Purpose, sites};

use crate::mutant::{Family, Mutant, SEEDS, Verdict};

/// The shipped modules, each a family of kernels, and the kernels that the sample is taken from;
/// none: from all. The modules of low precision have the same kernel for many types, and those of
/// Blackwell for one block and for two. Its other modules are compiled from the sources of
/// Hopper's.
const MODULES: &[(&str, &str, &[&str])] = &[
    ("gemm_bf16", include_str!("../../host/ptx/sm_90a/gemm_bf16.ptx"), &[]),
    ("gemm_f16", include_str!("../../host/ptx/sm_90a/gemm_f16.ptx"), &[]),
    ("gemm_bf16_narrow", include_str!("../../host/ptx/sm_90a/gemm_bf16_narrow.ptx"), &[]),
    ("gemm_f16_narrow", include_str!("../../host/ptx/sm_90a/gemm_f16_narrow.ptx"), &[]),
    (
        "gemm_fp8_aligned",
        include_str!("../../host/ptx/sm_90a/gemm_fp8_aligned.ptx"),
        &["align", "gemm_fp8_reduction_vector_aligned_e4m3"],
    ),
    (
        "gemm_fp8_block",
        include_str!("../../host/ptx/sm_90a/gemm_fp8_block.ptx"),
        &["gemm_fp8_reduction_vector_vector_e5m2"],
    ),
    (
        "gemm_fp8_block_mixed",
        include_str!("../../host/ptx/sm_90a/gemm_fp8_block_mixed.ptx"),
        &["gemm_fp8_rows_square_vector_e4m3"],
    ),
    (
        "gemm_fp8_tensor",
        include_str!("../../host/ptx/sm_90a/gemm_fp8_tensor.ptx"),
        &["gemm_fp8_rows_tensor_fast_e4m3"],
    ),
    (
        "gemm_sm100_bf16",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_bf16.ptx"),
        &["gemm_sm100_wgrad_pair_bf16"],
    ),
    (
        "gemm_sm100_f16",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_f16.ptx"),
        &["gemm_sm100_dgrad_f16"],
    ),
    (
        "gemm_sm100_fp8_block",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_fp8_block.ptx"),
        &["gemm_sm100_fp8_reduction_vector_vector_e5m2"],
    ),
    (
        "gemm_sm100_fp8_block_mixed",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_fp8_block_mixed.ptx"),
        &["gemm_sm100_fp8_rows_square_vector_pair_e4m3"],
    ),
    (
        "gemm_sm100_fp8_tensor",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_fp8_tensor.ptx"),
        &["gemm_sm100_fp8_rows_tensor_pair_e4m3"],
    ),
    (
        "gemm_sm100_mxfp8",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_mxfp8.ptx"),
        &["gemm_sm100_mxfp8_wgrad"],
    ),
    (
        "gemm_sm100_nvfp4",
        include_str!("../../host/ptx/sm_100a/gemm_sm100_nvfp4.ptx"),
        &["gemm_sm100_nvfp4_fprop_pair"],
    ),
    ("pad", include_str!("../../host/ptx/sm_90a/pad.ptx"), &["pad_rows"]),
    ("quantize", include_str!("../../host/ptx/sm_90a/quantize.ptx"), &[]),
    (
        "quantize_fp8",
        include_str!("../../host/ptx/sm_90a/quantize_fp8.ptx"),
        &["group_scales", "update_scales"],
    ),
    (
        "quantize_fp8_columns",
        include_str!("../../host/ptx/sm_90a/quantize_fp8_columns.ptx"),
        &["quantize_vector_columns"],
    ),
    (
        "quantize_fp8_current",
        include_str!("../../host/ptx/sm_90a/quantize_fp8_current.ptx"),
        &["quantize_current_columns"],
    ),
    (
        "quantize_fp8_rows",
        include_str!("../../host/ptx/sm_90a/quantize_fp8_rows.ptx"),
        &["quantize_square_rows"],
    ),
    (
        "quantize_mxfp8",
        include_str!("../../host/ptx/sm_90a/quantize_mxfp8.ptx"),
        &["quantize_mxfp8_bf16"],
    ),
    (
        "quantize_nvfp4",
        include_str!("../../host/ptx/sm_90a/quantize_nvfp4.ptx"),
        &["quantize_nvfp4_squares_bf16"],
    ),
    (
        "quantize_nvfp4_lines",
        include_str!("../../host/ptx/sm_90a/quantize_nvfp4_lines.ptx"),
        &["quantize_nvfp4_lines_bf16", "quantize_nvfp4_exact_bf16"],
    ),
    (
        "quantize_nvfp4_once",
        include_str!("../../host/ptx/sm_90a/quantize_nvfp4_once.ptx"),
        &["quantize_nvfp4_squares_once"],
    ),
    (
        "quantize_nvfp4_general",
        include_str!("../../host/ptx/sm_90a/quantize_nvfp4_general.ptx"),
        &["quantize_nvfp4_general_f16"],
    ),
    ("reduce", include_str!("../../host/ptx/sm_90a/reduce.ptx"), &[]),
    ("setup", include_str!("../../host/ptx/sm_90a/setup.ptx"), &[]),
    ("simt", include_str!("../../host/ptx/sm_90a/simt.ptx"), &[]),
];

/// Of each purpose in each family the sample has this many mutants, if there are as many.
const SAMPLE: usize = 4;

/// What became of the mutants of one purpose in one family.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sites: usize,
    reported: usize,
    wrong: usize,
    traffic: usize,
    refused: usize,
    listed: usize,
    unlisted: usize,
}

type Tallies = BTreeMap<(&'static str, Purpose), Tally>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let whole = arguments.include_ignored || arguments.ignored;
    let edges = arguments.filter.as_ref().is_some_and(|filter| filter.contains("edge"));
    let tallies = Arc::new(Mutex::new(Tallies::new()));
    let mut trials = Vec::new();
    let mut unsampled = 0;
    let random = std::env::var("GROUPED_LINEAR_MUTANTS").ok().and_then(|count| count.parse().ok());
    for &(name, text, sampled) in MODULES {
        let module = match Module::parse(text) {
            Ok(module) => Arc::new(module),
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        };
        let family = Arc::new(Family { name, module });
        let is_sampled_from = |kernel: &str| sampled.is_empty() || sampled.contains(&kernel);
        trials.extend(unbroken(&family, whole, is_sampled_from));
        let mut seen: BTreeMap<Purpose, Vec<Mutant>> = BTreeMap::new();
        for site in sites(&family.module) {
            if site.purpose == Purpose::Edge && !edges {
                continue;
            }
            let mutant = Mutant { family: family.clone(), site };
            seen.entry(mutant.site.purpose).or_default().push(mutant);
        }
        let drawn = random.filter(|_| whole).map(|count| drawn(seen.values().flatten(), count));
        for mutants in seen.into_values() {
            let is_noticeable =
                |mutant: &Mutant| mutant.reason().is_none() && is_sampled_from(&mutant.site.name);
            let noticeable = mutants.iter().filter(|mutant| is_noticeable(mutant)).count();
            let mut index = 0;
            for mutant in mutants {
                if drawn.as_ref().is_some_and(|drawn| !drawn.contains(&mutant.to_string())) {
                    unsampled += 1;
                    continue;
                }
                let sampled = is_noticeable(&mutant) && is_sampled(index, noticeable);
                index += usize::from(is_noticeable(&mutant));
                if !sampled && !whole {
                    unsampled += 1;
                    continue;
                }
                let tallies = tallies.clone();
                let name = mutant.to_string();
                let run = move || broken(&mutant, &tallies);
                trials.push(Trial::ignorable_test(name, run).with_ignored_flag(!sampled));
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    print(&lock(&tallies));
    if unsampled > 0 {
        println!("{unsampled} more mutants run with --include-ignored");
    }
    conclusion.exit_code()
}

/// So many mutants at random, the same at every run of a build: the first ones in the order of a
/// hash of their names.
fn drawn<'a>(mutants: impl Iterator<Item = &'a Mutant>, count: usize) -> BTreeSet<String> {
    let hashed = mutants.map(|mutant| {
        let name = mutant.to_string();
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        (hasher.finish(), name)
    });
    let hashed: BTreeMap<u64, String> = hashed.collect();
    hashed.into_values().take(count).collect()
}

/// Evenly spread, the same at every run.
fn is_sampled(index: usize, count: usize) -> bool {
    let size = SAMPLE.min(count);
    (0..size).any(|sample| index == (2 * sample + 1) * count / (2 * size))
}

/// Kernels that nobody broke must pass, or what is said of mutants is void. With the sample they
/// run under one seed.
fn unbroken(
    family: &Arc<Family>,
    whole: bool,
    is_sampled_from: impl Fn(&str) -> bool,
) -> Vec<Trial> {
    let seeds = if whole { SEEDS } else { &SEEDS[..1] };
    let kernels = family.module.entries().map(|entry| entry.name.clone());
    let kernels = kernels.filter(|kernel| whole || is_sampled_from(kernel));
    kernels
        .map(|kernel| {
            let family = family.clone();
            let name = format!("{}: `{kernel}` as it is", family.name);
            Trial::test(name, move || match family.judge(&kernel, &family.module, seeds)? {
                Verdict::Silent => Ok(()),
                Verdict::Noticed { how, .. } => Err(how.into()),
            })
        })
        .collect()
}

/// A mutant must be noticed, or be listed with the reason why it cannot be.
fn broken(mutant: &Mutant, tallies: &Mutex<Tallies>) -> Result<Completion, Failed> {
    let verdict = mutant.judge()?;
    let reason = mutant.reason();
    let mut tallies = lock(tallies);
    let tally = tallies.entry((mutant.family.name, mutant.site.purpose)).or_default();
    tally.sites += 1;
    match (verdict, reason) {
        (Verdict::Silent, Some(reason)) => {
            tally.listed += 1;
            Ok(Completion::ignored_with(format!("harmless: {reason}")))
        }
        (Verdict::Silent, None) if mutant.site.purpose == Purpose::Edge => {
            tally.unlisted += 1;
            Ok(Completion::ignored_with("survives, as many edges must"))
        }
        (Verdict::Silent, None) => {
            tally.unlisted += 1;
            drop(tallies);
            let reached = if mutant.is_reached()? { "is executed" } else { "is never executed" };
            Err(format!("SURVIVED: nothing notices it; the instruction {reached}").into())
        }
        (Verdict::Noticed { how, kind }, reason) => {
            match kind {
                mutant::Kind::Wrong => tally.wrong += 1,
                mutant::Kind::Traffic => tally.traffic += 1,
                mutant::Kind::Reported => tally.reported += 1,
                mutant::Kind::Refused => tally.refused += 1,
            }
            match reason {
                Some(_) => Err(format!("is listed as harmless, but was noticed: {how}").into()),
                None => Ok(Completion::Completed),
            }
        }
    }
}

fn lock(tallies: &Mutex<Tallies>) -> MutexGuard<'_, Tallies> {
    tallies.lock().unwrap_or_else(PoisonError::into_inner)
}

fn print(tallies: &Tallies) {
    if tallies.is_empty() {
        return;
    }
    println!(
        "| family | kind | mutants | reported | wrong result | other traffic | refused | harmless | missed |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut sum = Tally::default();
    for ((family, purpose), tally) in tallies {
        let Tally { sites, reported, wrong, traffic, refused, listed, unlisted } = *tally;
        println!(
            "| {family} | {purpose} | {sites} | {reported} | {wrong} | {traffic} | {refused} | \
             {listed} | {unlisted} |"
        );
        sum.sites += sites;
        sum.reported += reported;
        sum.wrong += wrong;
        sum.traffic += traffic;
        sum.refused += refused;
        sum.listed += listed;
        sum.unlisted += unlisted;
    }
    let noticed = sum.reported + sum.wrong + sum.traffic + sum.refused;
    println!(
        "{noticed} of {} mutants were noticed ({:.1} %), {} are listed as harmless, {} were missed",
        sum.sites,
        100.0 * noticed as f64 / sum.sites as f64,
        sum.listed,
        sum.unlisted
    );
}
