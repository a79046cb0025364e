//! The log of a run: one JSON document, replaced as a whole.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::args::Config;
use super::data::TextIdentity;
use super::files;
use super::linear::LinearTimes;

/// What a run did, step by step, and how it ended.
#[derive(Serialize)]
pub struct Log {
    /// Name and version of the program.
    pub program: &'static str,
    /// Settings.
    pub config: Config,
    /// The text.
    pub text: TextIdentity,
    /// Where the text comes from.
    pub source: String,
    /// Where GroupedLinear runs.
    pub device: String,
    /// The step at which this session began.
    pub resumed_from: Option<usize>,
    /// Held-out loss of the bigram model, nats per byte.
    pub bigram_loss: f64,
    /// One record per `--log-every` steps.
    pub steps: Vec<Record>,
    /// How the run ended.
    pub summary: Option<Summary>,
}

/// One record of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Steps done.
    pub step: usize,
    /// Mean loss since the record before, nats per byte.
    pub loss: f64,
    /// Mean load-balancing loss since then; 1 is the best.
    pub balance: f64,
    /// Learning rate of the last step.
    pub learning_rate: f32,
    /// Norm of the last step's gradient, before it was limited.
    pub gradient_norm: f64,
    /// Predictions per second of training time.
    pub tokens_per_second: f64,
    /// Load of the least used expert since the record before, as a part of its block's mean.
    pub least_load: f64,
    /// Loss on part of the held-out text, where it was looked at.
    pub held_out_loss: Option<f64>,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Steps done.
    pub steps: usize,
    /// Loss on the held-out text, nats per byte.
    pub held_out_loss: f64,
    /// Bytes that it was measured on.
    pub held_out_bytes: usize,
    /// The bigram model's loss on the same bytes.
    pub bigram_loss: f64,
    /// Whether the model is better.
    pub below_bigram: bool,
    /// Rows of each expert of each block, on the held-out text.
    pub load: Vec<Vec<usize>>,
    /// The least load, as a part of its block's mean.
    pub least_load: f64,
    /// Whether an expert has a quarter of the mean or less.
    pub starved: bool,
    /// Seconds of this session, without the kernels' loading.
    pub seconds: f64,
    /// Seconds that loading the kernels and a first, discarded step took.
    pub warm_up_seconds: f64,
    /// Time of all GroupedLinear calls of this session.
    pub grouped_linear: LinearTimes,
    /// The same by the layer's part in the model.
    pub by_layer: BTreeMap<&'static str, LinearTimes>,
}

impl Log {
    /// Replaces the log at `path`.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::replace(path, &serde_json::to_vec_pretty(self)?)
    }
}

/// The records up to `step` of an earlier session's log; none where it cannot be read, since a run
/// needs its checkpoint alone.
pub fn earlier_records(path: &Path, step: usize) -> Vec<Record> {
    #[derive(Deserialize)]
    struct Earlier {
        steps: Vec<Record>,
    }
    let read = || -> Result<Earlier> {
        let bytes = std::fs::read(path).context("reading")?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    match read() {
        Ok(mut earlier) => {
            earlier.steps.retain(|record| record.step <= step);
            earlier.steps
        }
        Err(error) => {
            note!("note: the log {} starts anew ({error:#})", path.display());
            Vec::new()
        }
    }
}
