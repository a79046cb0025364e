//! Breaks the shipped kernels, one place at a time, and asserts that the emulated GPU notices: a
//! wrong result or a report, under some seed of the scheduler. See `docs/mutation.md`.
//!
//! `cargo test --test mutation` runs a sample, `cargo test --release --test mutation --
//! --include-ignored` every mutant, and a word after that only those whose names have it.
//! Comparisons that are off by one run only if asked for, by the word `edge`; many of them cannot
//! be noticed, so they are counted and never fail.

mod bad_splits;
mod biased;
mod mutant;
mod scenarios;
mod segments;
mod survivors;
mod tables;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ptx_emulator::Module;
use ptx_emulator::mutation::{Purpose, sites};

use crate::mutant::{Family, Mutant, SEEDS, Verdict};

/// The shipped modules. Each is a family of kernels.
const MODULES: &[(&str, &str)] = &[
    ("gemm_bf16", include_str!("../../host/ptx/sm_90a/gemm_bf16.ptx")),
    ("gemm_f16", include_str!("../../host/ptx/sm_90a/gemm_f16.ptx")),
    ("quantize", include_str!("../../host/ptx/sm_90a/quantize.ptx")),
    ("reduce", include_str!("../../host/ptx/sm_90a/reduce.ptx")),
    ("setup", include_str!("../../host/ptx/sm_90a/setup.ptx")),
    ("simt", include_str!("../../host/ptx/sm_90a/simt.ptx")),
];

/// Of each purpose in each family the sample has this many mutants, if there are as many.
const SAMPLE: usize = 4;

/// What became of the mutants of one purpose in one family.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sites: usize,
    reported: usize,
    wrong: usize,
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
    for &(name, text) in MODULES {
        let module = match Module::parse(text) {
            Ok(module) => Arc::new(module),
            Err(error) => {
                eprintln!("{name}: {error}");
                return ExitCode::FAILURE;
            }
        };
        let family = Arc::new(Family { name, module });
        trials.extend(unbroken(&family, whole));
        let mut seen: BTreeMap<Purpose, Vec<Mutant>> = BTreeMap::new();
        for site in sites(&family.module) {
            if site.purpose == Purpose::Edge && !edges {
                continue;
            }
            let mutant = Mutant { family: family.clone(), site };
            seen.entry(mutant.site.purpose).or_default().push(mutant);
        }
        for mutants in seen.into_values() {
            let noticeable = mutants.iter().filter(|mutant| mutant.reason().is_none()).count();
            let mut index = 0;
            for mutant in mutants {
                let sampled = mutant.reason().is_none() && is_sampled(index, noticeable);
                index += usize::from(mutant.reason().is_none());
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

/// Evenly spread, the same at every run.
fn is_sampled(index: usize, count: usize) -> bool {
    let size = SAMPLE.min(count);
    (0..size).any(|sample| index == (2 * sample + 1) * count / (2 * size))
}

/// Kernels that nobody broke must pass, or what is said of mutants is void. With the sample they
/// run under one seed.
fn unbroken(family: &Arc<Family>, whole: bool) -> Vec<Trial> {
    let seeds = if whole { SEEDS } else { &SEEDS[..1] };
    let kernels = family.module.entries().map(|entry| entry.name.clone());
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
    println!("| family | kind | mutants | reported | wrong result | refused | harmless | missed |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut sum = Tally::default();
    for ((family, purpose), tally) in tallies {
        let Tally { sites, reported, wrong, refused, listed, unlisted } = *tally;
        println!(
            "| {family} | {purpose} | {sites} | {reported} | {wrong} | {refused} | {listed} | \
             {unlisted} |"
        );
        sum.sites += sites;
        sum.reported += reported;
        sum.wrong += wrong;
        sum.refused += refused;
        sum.listed += listed;
        sum.unlisted += unlisted;
    }
    let noticed = sum.reported + sum.wrong + sum.refused;
    println!(
        "{noticed} of {} mutants were noticed ({:.1} %), {} are listed as harmless, {} were missed",
        sum.sites,
        100.0 * noticed as f64 / sum.sites as f64,
        sum.listed,
        sum.unlisted
    );
}
