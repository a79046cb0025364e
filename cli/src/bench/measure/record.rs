//! What a run of `bench` leaves behind, as JSON. `cargo xtask bench-report` compiles this file,
//! too, so that writer and reader cannot disagree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of the layout; readers refuse others.
pub const FORMAT: u32 = 1;

/// Name of the driver's copy of as many bytes as a quantizer's, which takes turns with its kernels.
pub const COPY: &str = "copy";

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// When the run began, in UTC.
    pub date: String,
    /// Version of this program.
    pub version: String,
    /// What it ran on.
    pub gpu: Gpu,
    /// What it ran beside; `None`: nothing, as was asked for.
    pub peer: Option<About>,
    /// How it was measured.
    pub settings: Settings,
    /// Sizes that the cases name.
    pub shapes: Vec<ShapeRecord>,
    /// In the order in which they ran.
    pub cases: Vec<CaseRecord>,
    /// What ended the run before its end, if something did.
    pub failure: Option<String>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// The maker's name.
    pub name: String,
    /// Version of the driver, as `nvidia-smi` says it.
    pub driver: Option<String>,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// What `nvidia-smi` says before the first case, by its own names.
    pub before: BTreeMap<String, String>,
    /// The same after the last case.
    pub after: BTreeMap<String, String>,
}

/// What a peer says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Versions, by name.
    pub versions: BTreeMap<String, String>,
    /// Libraries that it looked for and did not find, with the reason.
    #[serde(default)]
    pub absent: BTreeMap<String, String>,
}

/// How calls are timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Seed of splits and data.
    pub seed: u64,
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before them.
    pub warm_up: u32,
    /// Microseconds of rest before each call.
    pub pause_us: u64,
    /// Calls in a row that are timed together; `None`: single calls, with the L2 cache flushed.
    pub in_a_row: Option<u32>,
    /// Whether contenders take turns.
    pub turns: bool,
    /// Calls of which host time is the mean, at most.
    pub host_calls: u32,
    /// The kernel of products that was asked for; `None`: the library chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Who waits in a peer's rest; `None` without a rest or a peer.
    pub peer_rest: Option<Rest>,
    /// File name of another peer's script; `None`: the project's own, or no peer.
    pub peer_script: Option<String>,
}

/// How a peer rests before a call; L2 is flushed behind its rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    /// The host waits, as ours does.
    Host,
    /// A kernel waits.
    Kernel,
}

/// A grouped product's size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShapeRecord {
    /// Name in tables.
    pub id: String,
    /// How its rows were dealt out.
    pub distribution: String,
    /// Rows of each expert.
    pub splits: Vec<u64>,
    /// Features of the output.
    pub n: u64,
    /// Features of the input.
    pub k: u64,
}

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Microseconds on the GPU.
    Gpu,
    /// Microseconds that a call takes of the host, while the GPU is busy.
    Host,
    /// Microseconds of kernels of ours alone: of a product those that multiply and align, of a
    /// quantizer all but its set-up; of peers and of a copy, of whole calls.
    Kernel,
}

/// Contenders that took turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// Name of the shape; empty if it has none.
    pub shape: String,
    /// What operands belonged to: `bf16`, `fp8`, `mxfp8`, `nvfp4`, `quantize`, `layer.…`, `copy`.
    pub section: String,
    /// What was done: a pass, the name of a quantizer, `forward`, `layer`, `copy`.
    pub task: String,
    /// What the times are of.
    pub quantity: Quantity,
    /// Whether recorded graphs were replayed, beside plain calls.
    pub replay: bool,
    /// FLOPs of one call; 0 where bytes count.
    pub flops: f64,
    /// Bytes of one call that count; 0 where FLOPs do.
    pub bytes: f64,
    /// Times.
    pub times: Vec<Times>,
    /// Who could not take part.
    pub refused: Vec<Refused>,
    /// What the results of this library were compared with.
    pub checks: Vec<Check>,
}

/// Times of one contender, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Name.
    pub name: String,
    /// Whether it is of this library.
    pub ours: bool,
    /// Whether a recorded graph was replayed.
    pub replay: bool,
    /// Median.
    pub us: f64,
    /// Least.
    pub min: f64,
    /// Most.
    pub max: f64,
}

/// A contender that could not take part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// Name.
    pub name: String,
    /// What it said.
    pub reason: String,
}

/// Sampled elements of a result beside FP64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Contender, and which of its results if it has several.
    pub name: String,
    /// Elements.
    pub samples: usize,
    /// The largest error, in units of the element or of the root of its squared terms.
    pub worst: f64,
    /// What the largest error may be.
    pub worst_limit: f64,
    /// The root of the mean of squared errors.
    pub rms: f64,
    /// What that may be.
    pub rms_limit: f64,
}
