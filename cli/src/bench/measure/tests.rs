//! The conductor over the CPU as an engine, over engines made for a test, and over peers that are
//! scripts.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser as _, ValueEnum as _};
use grouped_linear::plan::KernelChoice;
use grouped_linear::{Arch, Device};

use super::conductor::{self, Order, Outcome, Side, Turns};
use super::engine::{Answer, Call, Contenders, Engine};
use super::ours::Ours;
use super::peer::{Peer, SCRIPT};
use super::record::{Check, Quantity, Record, Refused, Rest};
use super::task::{CasePlan, LayerKind, Level, Pace, Section, Task, Wanted};
use super::{Run, new_record};
use crate::bench::BenchArgs;
use crate::bench::choices::{PassChoice, RecipeChoice, RecipeName};
use crate::bench::model::product::Pass;
use crate::bench::suite::{OwnShape, SEED, Shape};

const TURNS: Turns =
    Turns { rounds: 3, warm_up: 1, order: Order::InTurns, pace: Pace::Single(Duration::ZERO) };
const ALL: [RecipeChoice; 6] = [
    RecipeChoice::Bf16,
    RecipeChoice::Fp8Fast,
    RecipeChoice::Fp8Tensor,
    RecipeChoice::Fp8Block,
    RecipeChoice::Mxfp8,
    RecipeChoice::Nvfp4,
];
const FPROP: CasePlan =
    CasePlan { task: Task::Product(Pass::Fprop), quantity: Quantity::Gpu, replay: false };

fn shape(text: &str) -> Shape {
    text.parse::<OwnShape>().unwrap().shape(0, SEED).unwrap()
}

fn everything() -> Vec<(Section, Vec<CasePlan>)> {
    Wanted { levels: &[], passes: &[], recipes: &[] }.plan()
}

/// Every section and task, compared with FP64 and timed, on the CPU; it records no graphs.
#[test]
fn the_cpu_can_be_an_engine() {
    let mut ours = Ours::new(&Device::cpu(), 5, &ALL, 0).unwrap();
    let shape = shape("5,150,128,64,70:0:1:30:49");
    let (mut timed, mut refused) = (0, 0);
    for (section, cases) in everything() {
        assert_eq!(ours.prepare(section, &shape).unwrap(), Answer::Done(()), "{section:?}");
        for case in cases {
            let mut sides = [Side { engine: &mut ours, ours: true }];
            let pace = match case.quantity {
                Quantity::Gpu | Quantity::Kernel => Pace::InARow(1),
                Quantity::Host => Pace::Host(1),
            };
            let turns = Turns { rounds: 1, warm_up: 0, order: Order::OneByOne, pace };
            let outcome = conductor::run(&mut sides, case, turns)
                .unwrap_or_else(|error| panic!("{section:?} {case:?}: {error:#}"));
            let mixed = case.task.name().starts_with("hadamard") && outcome.checks.is_empty();
            assert!(!outcome.checks.is_empty() || mixed, "{case:?}");
            assert!(outcome.times.iter().all(|times| times.us > 0.0 && times.ours));
            let reason = match case.quantity {
                Quantity::Kernel => "only a GPU (Device::cuda) has a clock",
                Quantity::Gpu | Quantity::Host => "cannot record",
            };
            for refusal in &outcome.refused {
                assert!(case.replay || case.quantity == Quantity::Kernel, "{refusal:?}");
                assert!(refusal.reason.contains(reason), "{refusal:?}");
            }
            timed += outcome.times.len();
            refused += outcome.refused.len();
        }
    }
    // Products: 4 of BF16, 9 of FP8, 8 of the others, each twice, for the host's time; those of
    // three passes again, beside replays; no kernel alone; 42 quantizers, and 42 copies of as many
    // bytes; a forward of one layer alone and of eight beside BF16, a layer of nine beside BF16 or
    // products, each for two quantities, plain and beside replays.
    let (products, replayed) = (4 + 9 + 8, 3 + 7 + 6);
    let timed_products = 2 * products + 2 * replayed;
    let layers = 17 + 18;
    let refusals = products + 42 + 2 * replayed + layers * 2;
    assert_eq!((timed, refused), (timed_products + 2 * 42 + layers * 4, refusals));
}

/// Graphs are recorded and replayed, and kernels compared with FP64, on an emulated GPU.
#[test]
fn an_emulated_gpu_can_be_an_engine() {
    let device = Device::emulated(Arch::Sm90a).unwrap();
    let mut ours = Ours::new(&device, 5, &ALL, 4096).unwrap();
    let shape = shape("3,40,128,64,33:0:7");
    let sections = [
        (Section::Fp8, Task::Product(Pass::Accumulate), 2),
        (Section::Bf16, Task::Product(Pass::Wgrad), 2),
        (Section::Layer(LayerKind::Bf16), Task::Layer, 4),
        (Section::Layer(LayerKind::Block), Task::Forward, 4),
        (Section::Layer(LayerKind::Delayed), Task::Layer, 4),
        (Section::Layer(LayerKind::CurrentCached), Task::Layer, 4),
    ];
    for (section, task, timed) in sections {
        assert_eq!(ours.prepare(section, &shape).unwrap(), Answer::Done(()), "{section:?}");
        let replay = task != Task::Product(Pass::Accumulate);
        let case = CasePlan { task, quantity: Quantity::Gpu, replay };
        let turns = Turns { rounds: 1, warm_up: 0, ..TURNS };
        let mut sides = [Side { engine: &mut ours, ours: true }];
        let outcome = conductor::run(&mut sides, case, turns)
            .unwrap_or_else(|error| panic!("{section:?}: {error:#}"));
        assert_eq!((outcome.times.len(), outcome.refused.len()), (timed, 0), "{section:?}");
        let replays = outcome.times.iter().filter(|times| times.replay).count();
        assert_eq!(replays, if case.replay { timed / 2 } else { 0 });
        let checks = outcome.checks.iter();
        let replays = checks.filter(|check| check.name.ends_with(" replay")).count();
        assert_eq!(2 * replays, if case.replay { outcome.checks.len() } else { 0 });
    }
}

/// A kernel that was asked for multiplies what it can, and refuses the rest with a reason.
#[test]
fn a_kernel_can_be_asked_for() {
    let device = Device::emulated(Arch::Sm90a).unwrap();
    let shape = shape("3,40,128,64,33:0:7");
    let product = Task::Product;
    for (kernel, task, section, timed) in [
        (KernelChoice::Aligned, product(Pass::Wgrad), Section::Fp8, &["fp8-block"][..]),
        (KernelChoice::Aligned, product(Pass::Fprop), Section::Fp8, &[]),
        (KernelChoice::Simt, product(Pass::Accumulate), Section::Bf16, &["bf16"]),
        (KernelChoice::Pair, product(Pass::Dgrad), Section::Bf16, &[]),
        (KernelChoice::Pair, Task::Layer, Section::Layer(LayerKind::Bf16), &[]),
    ] {
        let mut ours = Ours::new(&device, 5, &ALL, 0).unwrap().with_kernel(kernel);
        assert_eq!(ours.prepare(section, &shape).unwrap(), Answer::Done(()), "{section:?}");
        let case = CasePlan { task, ..FPROP };
        let turns = Turns { rounds: 1, warm_up: 0, ..TURNS };
        let mut sides = [Side { engine: &mut ours, ours: true }];
        let outcome = conductor::run(&mut sides, case, turns)
            .unwrap_or_else(|error| panic!("{kernel:?} {task:?}: {error:#}"));
        let names: Vec<_> = outcome.times.iter().map(|times| times.name.as_str()).collect();
        assert_eq!(names, timed, "{kernel:?} {task:?}");
        assert!(!outcome.refused.is_empty() || section == Section::Bf16 && !timed.is_empty());
        for refusal in &outcome.refused {
            assert!(refusal.reason.contains("was asked for"), "{refusal:?}");
        }
    }
}

/// Products and quantizers have kernels that are timed alone, those that level product times whole.
#[test]
fn kernels_alone_are_those_of_products_and_quantizers() {
    type Plan = Vec<(Section, Vec<CasePlan>)>;
    let all: (&[PassChoice], &[RecipeName]) = (PassChoice::value_variants(), &[]);
    for ((passes, recipes), names) in [
        (all, &["bf16", "fp8", "mxfp8", "nvfp4", "quantize"][..]),
        ((&[PassChoice::Quantize], &[]), &["quantize"]),
        ((&[PassChoice::Fprop], &[]), &["bf16", "fp8", "mxfp8", "nvfp4"]),
        ((all.0, &[RecipeName::Block]), &["fp8", "quantize"]),
        ((all.0, &[RecipeName::Bf16]), &["bf16"]),
    ] {
        let of = |level| Wanted { levels: &[level], passes, recipes }.plan();
        let whole = |case: &CasePlan| {
            assert!(case.quantity == Quantity::Kernel && !case.replay, "{case:?}");
            CasePlan { quantity: Quantity::Gpu, ..*case }
        };
        let plan: Plan = of(Level::Kernel)
            .iter()
            .map(|(section, cases)| (*section, cases.iter().map(whole).collect()))
            .collect();
        assert_eq!(plan, of(Level::Product));
        assert_eq!(plan.iter().map(|(section, _)| section.name()).collect::<Vec<_>>(), names);
    }
}

/// A layer has several passes together; none of them is measured alone.
#[test]
fn layers_are_not_measured_where_passes_are_named() {
    for level in [&[][..], &[Level::Host], &[Level::Replay, Level::Product]] {
        let of = |passes| Wanted { levels: level, passes, recipes: &[] }.plan();
        let layers = |plan: &[(Section, Vec<CasePlan>)]| {
            plan.iter().filter(|(section, _)| matches!(section, Section::Layer(_))).count()
        };
        assert_eq!(layers(&of(&[])), LayerKind::ALL.len(), "{level:?}");
        let plan = of(&[PassChoice::Fprop]);
        assert_eq!(layers(&plan), 0, "{level:?}");
        assert!(!plan.is_empty(), "{level:?}");
        for case in plan.iter().flat_map(|(_, cases)| cases) {
            assert_eq!(case.task, Task::Product(Pass::Fprop), "{level:?}");
        }
    }
}

#[test]
fn a_recipe_that_was_not_asked_for_is_not_run() {
    let shape = shape("2,40,32,32,bal");
    let mut ours = Ours::new(&Device::cpu(), 5, &[RecipeChoice::Fp8Block], 0).unwrap();
    ours.prepare(Section::Fp8, &shape).unwrap();
    let Contenders { names, .. } = ours.contenders(FPROP.task, Quantity::Gpu).unwrap();
    assert_eq!(names, ["fp8-block"]);
    let current = ["layer.current", "layer.current-cached"];
    for (recipe, layers) in [
        (RecipeName::Block, &["layer.block", "layer.block-cached"][..]),
        (RecipeName::Current, &current),
        (RecipeName::Delayed, &["layer.delayed"]),
        (RecipeName::Fp8Tensor, &["layer.current", "layer.current-cached", "layer.delayed"]),
    ] {
        let plan = Wanted { levels: &[], passes: &[], recipes: &[recipe] }.plan();
        let sections: Vec<String> = plan.iter().map(|(section, _)| section.name()).collect();
        assert_eq!(sections, [&["fp8", "quantize"], layers].concat(), "{recipe:?}");
    }
}

/// An engine whose contenders take as long as their place in a list says, and which notes who was
/// called.
#[derive(Default)]
struct Scripted {
    names: Vec<&'static str>,
    us: f64,
    worst: f64,
    calls: Vec<String>,
    refuses_at: Option<usize>,
}

impl Engine for Scripted {
    fn prepare(&mut self, _section: Section, _shape: &Shape) -> Result<Answer<()>> {
        Ok(Answer::Done(()))
    }

    fn contenders(&mut self, _task: Task, _quantity: Quantity) -> Result<Contenders> {
        let (name, reason) = ("absent".to_owned(), "not installed".to_owned());
        let names = self.names.iter().map(|name| (*name).to_owned()).collect();
        Ok(Contenders { names, absent: vec![Refused { name, reason }] })
    }

    fn check(&mut self, call: Call<'_>) -> Result<Answer<Vec<Check>>> {
        let name = call.contender.to_owned();
        let (worst_limit, rms_limit, rms) = (0.5, 0.5, 0.0);
        let worst = self.worst;
        Ok(Answer::Done(vec![Check { name, samples: 1, worst, worst_limit, rms, rms_limit }]))
    }

    fn time(&mut self, call: Call<'_>, _pace: Pace) -> Result<Answer<f64>> {
        self.calls.push(call.contender.to_owned());
        if self.refuses_at == Some(self.calls.len()) {
            return Ok(Answer::Refused("no more".to_owned()));
        }
        self.us += 1.0;
        Ok(Answer::Done(self.us))
    }
}

#[test]
fn contenders_take_turns_and_the_second_call_counts() {
    let mut ours = Scripted { names: vec!["a", "b"], ..Scripted::default() };
    let mut other = Scripted { names: vec!["c"], us: 100.0, ..Scripted::default() };
    let mut sides =
        [Side { engine: &mut ours, ours: true }, Side { engine: &mut other, ours: false }];
    let outcome = conductor::run(&mut sides, FPROP, TURNS).unwrap();
    let times: Vec<_> =
        outcome.times.iter().map(|t| (t.name.as_str(), t.ours, t.us, t.min, t.max)).collect();
    // Calls of a and b count on: a is called as the 1st, 2nd, 5th, 6th, 9th, …, of which the 6th,
    // 10th and 14th count; the round before them does not.
    assert_eq!(
        times,
        [
            ("a", true, 10.0, 6.0, 14.0),
            ("b", true, 12.0, 8.0, 16.0),
            ("c", false, 106.0, 104.0, 108.0)
        ]
    );
    assert_eq!(outcome.checks.len(), 2);
    assert_eq!(outcome.refused.len(), 2);
    assert_eq!(outcome.refused[0].reason, "not installed");
    assert_eq!(ours.calls.concat(), "aabb".repeat(4));

    let mut alone = Scripted { names: vec!["a", "b"], ..Scripted::default() };
    let mut sides = [Side { engine: &mut alone, ours: true }];
    conductor::run(&mut sides, FPROP, Turns { order: Order::OneByOne, ..TURNS }).unwrap();
    assert_eq!(alone.calls.concat(), "aaaabbbb");
}

#[test]
fn a_contender_that_refuses_is_left_out_with_its_reason() {
    let mut ours = Scripted { names: vec!["a", "b"], refuses_at: Some(5), ..Scripted::default() };
    let mut sides = [Side { engine: &mut ours, ours: true }];
    let outcome = conductor::run(&mut sides, FPROP, TURNS).unwrap();
    assert_eq!(outcome.times.iter().map(|times| times.name.as_str()).collect::<String>(), "b");
    assert!(
        outcome.refused.iter().any(|r| (r.name.as_str(), r.reason.as_str()) == ("a", "no more"))
    );
    assert_eq!(ours.calls.concat(), "aabbabbbbbb");
}

#[test]
fn a_wrong_result_ends_the_run_with_its_name() {
    for worst in [0.6, f64::NAN, f64::INFINITY] {
        let mut ours = Scripted { names: vec!["a", "b"], worst, ..Scripted::default() };
        let mut sides = [Side { engine: &mut ours, ours: true }];
        let error = conductor::run(&mut sides, FPROP, TURNS).unwrap_err().to_string();
        assert!(error.starts_with("a is wrong"), "{error}");
        assert!(ours.calls.is_empty());
    }
    // Nobody's results are judged but ours.
    let mut peer = Scripted { names: vec!["a"], worst: 0.6, ..Scripted::default() };
    let mut sides = [Side { engine: &mut peer, ours: false }];
    assert!(conductor::run(&mut sides, FPROP, TURNS).unwrap().checks.is_empty());
}

#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    args: BenchArgs,
}

/// What was measured before a failure is written, and why there is no more.
#[test]
fn a_run_is_written_whole_and_broken() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.json");
    let path = out.to_str().unwrap();
    let flags = ["bench", "--out", path, "--own=2,40,64,32,10:30", "--own=1,8,64,32,bal"];
    let flags = [&flags[..], &["--rounds=2", "--seed=9", "--recipe=bf16,mxfp8"]].concat();
    let args = CommandLine::parse_from(&flags).args;
    let shapes = args.shapes().unwrap();
    let wanted = Wanted { levels: &[Level::Product], passes: &[], recipes: &[RecipeName::Bf16] };
    let read =
        || -> Record { serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap() };
    let device = Device::cpu();
    let record = new_record(&args, &device, None, &shapes);
    let mut run = Run { args: &args.measure, record };
    let mut ours = Ours::new(&device, 9, &ALL, 0).unwrap();
    let mut sides = [Side { engine: &mut ours, ours: true }];
    let outcome = run.all(&mut sides, &shapes, &wanted.plan());
    run.end(outcome).unwrap();
    let record = read();
    let cases: Vec<_> =
        record.cases.iter().map(|case| (case.shape.as_str(), case.task.as_str())).collect();
    let passes = ["fprop", "dgrad", "wgrad", "accumulate"];
    let expected: Vec<_> =
        ["own1", "own2"].into_iter().flat_map(|id| passes.map(|pass| (id, pass))).collect();
    assert_eq!(cases, expected);
    assert_eq!(record.shapes[0].splits, [10, 30]);
    assert_eq!((record.settings.seed, record.settings.rounds), (9, 2));
    assert!(record.failure.is_none() && record.cases[0].flops == 2.0 * 40.0 * 64.0 * 32.0);
    assert!(record.settings.peer_rest.is_none() && record.settings.peer_script.is_none());

    let mut wrong = Scripted { names: vec!["bf16"], worst: 0.6, ..Scripted::default() };
    let mut sides = [Side { engine: &mut wrong, ours: true }];
    let mut run = Run { args: &args.measure, record };
    let outcome = run.all(&mut sides, &shapes, &wanted.plan());
    let error = format!("{:#}", run.end(outcome).unwrap_err());
    assert!(error.starts_with("own1 bf16 fprop: bf16 is wrong"), "{error}");
    assert_eq!((read().failure, read().cases.len()), (Some(error), 8));
}

/// A peer that answers lines by their kind.
fn shell_peer(time: &str) -> Result<Peer> {
    let script = format!(
        r#"while read -r line; do case $line in
            *'"do":"hello"'*) echo '{{"about": {{"versions": {{"torch": "9"}}, "absent": {{"x": "no"}}}}}}';;
            *'"do":"prepare"'*) echo '{{"ok": true}}';;
            *'"do":"list"'*) echo '{{"names": ["p", "q"], "absent": {{"r": "not here"}}}}';;
            *'"contender":"q"'*) echo '{{"refused": "q cannot"}}';;
            *'"do":"time"'*) {time};;
            *) echo '{{"error": "what?"}}';;
        esac; done"#
    );
    Peer::start(Command::new("sh").arg("-c").arg(script), Rest::Host)
}

#[test]
fn a_peer_answers_over_its_pipe() {
    let mut peer = shell_peer(r#"echo '{"us": 12.5}'"#).unwrap();
    let about = peer.hello(1).unwrap();
    assert_eq!((about.versions["torch"].as_str(), about.absent["x"].as_str()), ("9", "no"));
    assert_eq!(peer.prepare(Section::Bf16, &shape("2,4,8,8,bal")).unwrap(), Answer::Done(()));
    let mut ours = Scripted { names: vec!["a"], ..Scripted::default() };
    let mut sides =
        [Side { engine: &mut ours, ours: true }, Side { engine: &mut peer, ours: false }];
    let outcome = conductor::run(&mut sides, FPROP, TURNS).unwrap();
    let names: Vec<&str> = outcome.times.iter().map(|times| times.name.as_str()).collect();
    assert_eq!(names, ["a", "p"]);
    assert_eq!(outcome.times[1].us, 12.5);
    let reasons: Vec<&str> = outcome.refused.iter().map(|own| own.reason.as_str()).collect();
    assert_eq!(reasons, ["not installed", "not here", "q cannot"]);
}

#[test]
fn answers_that_are_none_end_the_run() {
    for (time, reason) in [
        (r#"echo '{"error": "the GPU is gone"}'"#, "the GPU is gone"),
        ("echo twelve", "`twelve` is no answer"),
        (r#"echo '{"us": 0}'"#, "without a time"),
        (r#"echo '{"ok": true}'"#, "without a time"),
        (r#"echo '{"use": 12.5}'"#, "unknown field"),
        ("exit 3", "the peer ended (exit status: 3)"),
    ] {
        let mut peer = shell_peer(time).unwrap();
        let mut sides = [Side { engine: &mut peer, ours: false }];
        let error = format!("{:#}", conductor::run(&mut sides, FPROP, TURNS).unwrap_err());
        assert!(error.starts_with("timing p") && error.contains(reason), "{time}: {error}");
    }
    let missing = Peer::start(&mut Command::new("/nonexistent/python"), Rest::Host);
    assert!(format!("{:#}", missing.err().unwrap()).contains("could not start"));
}

/// The script of the project over a module that says yes to everything in place of torch.
fn python_peer(folder: &Path) -> Result<Peer> {
    let mut command = Command::new("python3");
    command.args(["-u", "-c", SCRIPT]).env("PYTHONPATH", folder);
    Peer::start(&mut command, Rest::Host)
}

/// `Mock` takes every call, so this finds what is wrong with the script itself.
const FAKE_TORCH: &str = r#"
import os
import sys
from unittest.mock import MagicMock

class Tensor(MagicMock):
    def split(self, parts):
        return [Tensor() for _ in range(len(parts) if isinstance(parts, list) else 1)]
    def __getitem__(self, key):
        return Tensor()
    def numel(self):
        return 64

torch = MagicMock(name="torch")
torch.__version__ = "0.fake"
torch.version.cuda = "0.0"
torch.cuda.Event.return_value.elapsed_time.return_value = 0.25
torch.linalg.vector_norm.return_value = 1.0
torch.dist.return_value = float(os.environ.get("DISTANCE", "0.005"))
torch.empty.side_effect = torch.randn.side_effect = lambda *a, **k: Tensor()
torch.ones.side_effect = torch.zeros.side_effect = torch.empty.side_effect
def refuse(*a, **k):
    raise RuntimeError("mm is out\nof order")
torch.addmm.side_effect = refuse
sys.modules["torch"] = torch
"#;

#[test]
fn the_script_of_the_project_answers_all_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("torch.py"), FAKE_TORCH).unwrap();
    let mut peer = python_peer(folder.path()).unwrap();
    let about = peer.hello(SEED).unwrap();
    assert_eq!(about.versions["torch"], "0.fake");
    for name in ["deep_gemm", "transformer_engine", "cublas_grouped"] {
        assert!(about.absent.contains_key(name), "{about:?}");
    }
    let shape = shape("3,40,32,16,24:0:16");
    let copy = CasePlan { task: Task::Copy, ..FPROP };
    let mut plan = everything();
    plan.push((Section::Copy, vec![copy]));
    let mut timed = 0;
    let mut refusals = Vec::new();
    for (section, cases) in plan {
        assert_eq!(peer.prepare(section, &shape).unwrap(), Answer::Done(()), "{section:?}");
        for case in cases {
            let pace = match case.quantity {
                Quantity::Gpu | Quantity::Kernel => Pace::Single(Duration::from_micros(10)),
                Quantity::Host => Pace::Host(3),
            };
            let turns = Turns { rounds: 1, warm_up: 0, order: Order::InTurns, pace };
            let mut sides = [Side { engine: &mut peer, ours: false }];
            let outcome = conductor::run(&mut sides, case, turns).unwrap();
            if case.quantity != Quantity::Host {
                assert!(outcome.times.iter().all(|times| times.us == 250.0));
            }
            timed += outcome.times.len();
            refusals.extend(outcome.refused);
        }
    }
    // BF16: grouped, loop and dense in three passes and, overwriting, in the fourth; FP8: grouped
    // and dense, fast and not, where grouped products of 24 and 16 rows are refused in two passes;
    // MXFP8 and NVFP4: grouped. Layers: grouped, in nine sections, two tasks, two quantities, plain
    // and beside replays. Products of three passes again, plain and replayed, and of all beside
    // kernels. A copy.
    let (products, replayed) = (4 * 3 + 4 * 4 - 2 * 2 + 2 * 4, 3 * 3 + 3 * 4 - 2 + 2 * 3);
    assert_eq!(timed, 3 * products + 2 * 2 * replayed + 9 * 2 * 2 * 3 + 1);
    // The loop that adds is refused by the module itself.
    let reasons: Vec<&str> = refusals.iter().map(|own| own.reason.as_str()).collect();
    assert!(reasons.contains(&"RuntimeError: mm is out"), "{refusals:?}");
    assert!(reasons.iter().any(|reason| reason.contains("multiple of 16")), "{refusals:?}");
}

/// A product that differs from torch's grouped one is refused; a mistake of the script ends the
/// run.
#[test]
fn the_script_tells_wrong_results_and_its_own_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("torch.py"), FAKE_TORCH).unwrap();
    for (distance, timed, refused) in [("0.005", 3, 0), ("0.02", 2, 1), ("nan", 2, 1)] {
        let mut command = Command::new("python3");
        command.args(["-u", "-c", SCRIPT]).env("PYTHONPATH", folder.path());
        let mut peer = Peer::start(command.env("DISTANCE", distance), Rest::Host).unwrap();
        peer.hello(SEED).unwrap();
        peer.prepare(Section::Bf16, &shape("2,32,32,16,bal")).unwrap();
        let mut sides = [Side { engine: &mut peer, ours: false }];
        let Outcome { times, refused: reasons, .. } =
            conductor::run(&mut sides, FPROP, TURNS).unwrap();
        assert_eq!((times.len(), reasons.len()), (timed, refused), "{distance}: {reasons:?}");
        for Refused { name, reason } in &reasons {
            assert!(name == "cublas_loop" && reason.contains("is wrong"), "{name}: {reason}");
        }
        let nobody =
            Call { task: FPROP.task, contender: "nobody", replay: false, quantity: Quantity::Gpu };
        let error = peer.time(nobody, TURNS.pace).unwrap_err();
        assert!(format!("{error:#}").contains("a mistake in the peer's script"), "{error:#}");
    }
}

#[test]
fn without_torch_the_script_says_so() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("torch.py"), "raise ImportError('no torch here')").unwrap();
    let error = python_peer(folder.path()).unwrap().hello(1).unwrap_err();
    assert!(format!("{error:#}").contains("torch cannot be imported: no torch here"), "{error:#}");
}
