//! One session of a run: from the flags and perhaps a checkpoint to the files it leaves.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, ensure};

use super::adamw;
use super::args::{Config, RecipeChoice, TrainArgs};
use super::bigram::Bigram;
use super::checkpoint::{self, Checkpoint, State};
use super::data::{Sampler, Text, TextIdentity};
use super::files;
use super::linear::{Engine, LinearTimes};
use super::load::{Load, STARVED};
use super::log::{Log, Record, Summary, earlier_records};
use super::model::{Model, Outcome};
use super::plot;
use super::progress::Progress;

/// Held-out bytes of a look in between.
const GLANCE: usize = 4096;

/// A run in progress.
pub struct Session<'a> {
    args: &'a TrainArgs,
    config: Config,
    text: Text,
    identity: TextIdentity,
    engine: Engine,
    model: Model,
    sampler: Sampler,
    bigram: Bigram,
    step: usize,
    /// The step to stop at.
    end: usize,
    /// Step of the checkpoint that lies in the folder.
    saved: Option<usize>,
    log: Log,
    since_record: Interval,
    started: Instant,
    warm_up: Duration,
}

/// What happened since the last record.
#[derive(Default)]
struct Interval {
    steps: usize,
    loss: f64,
    balance: f64,
    load: Load,
    gradient_norm: f64,
    time: Duration,
}

impl<'a> Session<'a> {
    /// A new run, or the continuation of one.
    pub fn open(args: &'a TrainArgs) -> Result<Self> {
        let path = checkpoint_path(args);
        let found = if args.resume { Some(Checkpoint::read(&path)?) } else { None };
        let config = match &found {
            Some(found) => args.resumed_config(&found.state.config)?,
            None => args.config.clone().resolved(),
        };
        config.validate()?;
        let text = Text::load(&args.input, config.context)?;
        let identity = text.identity();
        let recipe = config.recipe.recipe(config.seed);
        let engine = Engine::new(&args.device.open()?, config.dtype.into(), recipe)?;
        let mut model = Model::new(&engine, &config)?;
        let step = found.as_ref().map_or(0, |found| found.state.step);
        let end = end(args, &config)?;
        ensure!(
            step < end,
            "the checkpoint {} has {step} steps already and the run would stop at {end}; \
             pass a larger {}",
            path.display(),
            if end < config.steps { "--stop-after" } else { "--steps" }
        );
        fs::create_dir_all(&args.out)
            .with_context(|| format!("--out: making the folder {}", args.out.display()))?;
        match &found {
            Some(found) => {
                check_text(found.state.text, identity)?;
                let mut memories = model.memories()?;
                found.restore(&path, &mut model.parameters(), &mut memories)?;
                model.upload()?;
                model
                    .restore(&memories)
                    .with_context(|| format!("going on from the checkpoint {}", path.display()))?;
            }
            None => {
                let left = [path, log_path(args), curve_path(args)];
                for kept in files::set_aside(&left)? {
                    say!("what an earlier run left was kept as {}", kept.display());
                }
            }
        }
        let bigram = Bigram::new(text.training_bytes());
        let log = Log {
            program: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
            config: config.clone(),
            text: identity,
            source: text.source.clone(),
            device: engine.device_name(),
            resumed_from: args.resume.then_some(step),
            bigram_loss: bigram.loss(text.bytes(), &text.held_out_positions(args.held_out_bytes)),
            steps: if args.resume { earlier_records(&log_path(args), step) } else { Vec::new() },
            summary: None,
        };
        let sampler = Sampler::new(config.seed);
        Ok(Self {
            args,
            config,
            text,
            identity,
            engine,
            model,
            sampler,
            bigram,
            step,
            end,
            // What an earlier run left has been set aside.
            saved: args.resume.then_some(step),
            log,
            since_record: Interval::default(),
            started: Instant::now(),
            warm_up: Duration::ZERO,
        })
    }

    /// What is about to happen, for people.
    pub fn introduction(&mut self) -> String {
        let Config { hidden, blocks, experts, top_k, context, batch, .. } = self.config;
        format!(
            "text: {}, {} bytes, the last {} held out\n\
             model: {} weights; hidden size {hidden}, {blocks} blocks of {experts} experts \
             ({} wide, {top_k} per token), {context} bytes of context\n\
             run: steps {} to {}, {batch} tokens each, {:?}{} on {}",
            self.text.source,
            self.text.bytes().len(),
            self.text.held_out_len(),
            self.model.weight_count(),
            self.config.expert_width(),
            self.step,
            self.end,
            self.config.dtype,
            match self.config.recipe {
                RecipeChoice::None => String::new(),
                recipe => format!(" with recipe {recipe:?}"),
            },
            self.engine.device_name(),
        )
    }

    /// Takes all steps that are left.
    pub fn train(&mut self) -> Result<()> {
        self.warm_up()?;
        self.started = Instant::now();
        let progress = Progress::new(self.step, self.end);
        while self.step < self.end {
            let outcome = self.take_step()?;
            let interval = &self.since_record;
            let speed = interval.tokens_per_second(self.config.batch);
            progress.step(self.step, outcome.loss, speed, &interval.load);
            let last = self.step == self.end;
            let look = last || self.step.is_multiple_of(self.args.evaluate_every);
            let save = last || self.step.is_multiple_of(self.args.checkpoint_every);
            if look || save {
                self.check_parameters()?;
            }
            if look || self.step.is_multiple_of(self.args.log_every) {
                let record = self.record(look)?;
                progress.record(&record);
                self.log.steps.push(record);
                self.log.save(&log_path(self.args))?;
            }
            if save {
                self.save_checkpoint()?;
            }
        }
        progress.finish();
        Ok(())
    }

    /// On a GPU, a first step whose result is dropped: it loads the kernels, so that no time
    /// measured later contains that.
    fn warm_up(&mut self) -> Result<()> {
        if self.engine.loads_kernels() {
            let start = Instant::now();
            let batch = self.sampler.batch(&self.text, self.step, self.config.batch);
            let memories = self.model.memories()?;
            self.model.train(&batch)?;
            self.model.restore(&memories)?;
            self.model.reset_times();
            self.warm_up = start.elapsed();
        }
        Ok(())
    }

    fn take_step(&mut self) -> Result<Outcome> {
        let start = Instant::now();
        let batch = self.sampler.batch(&self.text, self.step, self.config.batch);
        let outcome = self.model.train(&batch)?;
        let norm = adamw::gradient_norm(&self.model.parameters());
        if !(outcome.loss.is_finite() && norm.is_finite()) {
            let what = format!("loss {}, gradient norm {norm}", outcome.loss);
            return Err(self.diverged(self.step + 1, &what));
        }
        adamw::update(&mut self.model.parameters(), &self.config, self.step, norm);
        self.model.end_step()?;
        self.step += 1;
        self.since_record.add(&outcome, norm, start.elapsed());
        Ok(outcome)
    }

    fn record(&mut self, look: bool) -> Result<Record> {
        let held_out_loss = if look {
            Some(self.evaluate_finite(GLANCE.min(self.args.held_out_bytes))?.0)
        } else {
            None
        };
        let interval = std::mem::take(&mut self.since_record);
        let steps = interval.steps.max(1) as f64;
        Ok(Record {
            step: self.step,
            loss: interval.loss / steps,
            balance: interval.balance / steps,
            learning_rate: adamw::learning_rate(&self.config, self.step - 1),
            gradient_norm: interval.gradient_norm,
            tokens_per_second: interval.tokens_per_second(self.config.batch),
            least_load: interval.load.least(),
            held_out_loss,
        })
    }

    fn save_checkpoint(&mut self) -> Result<()> {
        let state = State { step: self.step, config: self.config.clone(), text: self.identity };
        let memories = self.model.memories()?;
        checkpoint::save(&checkpoint_path(self.args), &state, &self.model.parameters(), &memories)?;
        self.saved = Some(self.step);
        Ok(())
    }

    /// Refuses weights and moments that no run could be resumed from.
    fn check_parameters(&mut self) -> Result<()> {
        match checkpoint::not_finite(&self.model.parameters()) {
            Some(name) => Err(self.diverged(self.step, &format!("{name} holds NaN or infinity"))),
            None => Ok(()),
        }
    }

    /// The error of a run whose numbers left the finite ones in this step.
    fn diverged(&self, step: usize, what: &str) -> Error {
        let advice = "start a new run with a lower --learning-rate";
        let advice = match self.saved {
            None => format!("{advice}. It had written no checkpoint yet"),
            Some(saved) => {
                // No step has been taken from it: its weights gave these numbers.
                let but =
                    if saved == self.step { ", but this is what its weights lead to" } else { "" };
                format!(
                    "{advice} and another --out. The checkpoint of step {saved} is untouched{but}"
                )
            }
        };
        anyhow!("step {step}: {what}: the run diverged; {advice}")
    }

    /// Loss on at most `most` held-out bytes, and where their tokens went. Recipes remember nothing
    /// of it, so that a run ends in the same numbers however often it is looked at.
    fn evaluate(&mut self, most: usize) -> Result<(f64, Load)> {
        let memories = self.model.memories()?;
        let positions = self.text.held_out_positions(most);
        let (mut sum, mut load) = (0.0, Load::default());
        for positions in positions.chunks(self.config.batch) {
            let outcome = self.model.evaluate(&self.text.batch(positions))?;
            sum += outcome.loss * positions.len() as f64;
            load.add(&outcome.load);
        }
        self.model.restore(&memories)?;
        Ok((sum / positions.len() as f64, load))
    }

    /// [`Session::evaluate`], but for a loss that is no finite number.
    fn evaluate_finite(&mut self, most: usize) -> Result<(f64, Load)> {
        let (loss, load) = self.evaluate(most)?;
        if !loss.is_finite() {
            return Err(self.diverged(self.step, &format!("held-out loss {loss}")));
        }
        Ok((loss, load))
    }

    /// Measures the held-out loss, completes the log and draws the curve.
    pub fn finish(&mut self) -> Result<Summary> {
        let (held_out_loss, load) = self.evaluate_finite(self.args.held_out_bytes)?;
        let positions = self.text.held_out_positions(self.args.held_out_bytes);
        let bigram_loss = self.bigram.loss(self.text.bytes(), &positions);
        let by_layer = self.model.times();
        let mut grouped_linear = LinearTimes::default();
        by_layer.iter().for_each(|(_, times)| grouped_linear += *times);
        let summary = Summary {
            steps: self.step,
            held_out_loss,
            held_out_bytes: positions.len(),
            bigram_loss,
            below_bigram: held_out_loss < bigram_loss,
            load: load.rows().to_vec(),
            least_load: load.least(),
            starved: load.least() <= STARVED,
            seconds: self.started.elapsed().as_secs_f64(),
            warm_up_seconds: self.warm_up.as_secs_f64(),
            grouped_linear,
            by_layer: by_layer.into_iter().collect(),
        };
        self.log.summary = Some(summary.clone());
        self.log.save(&log_path(self.args))?;
        plot::save(&curve_path(self.args), &self.log.steps, bigram_loss)?;
        Ok(summary)
    }
}

impl Interval {
    fn add(&mut self, outcome: &Outcome, gradient_norm: f64, time: Duration) {
        self.steps += 1;
        self.gradient_norm = gradient_norm;
        self.loss += outcome.loss;
        self.balance += outcome.balance;
        self.load.add(&outcome.load);
        self.time += time;
    }

    fn tokens_per_second(&self, batch: usize) -> f64 {
        (self.steps * batch) as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// The step to stop at.
fn end(args: &TrainArgs, config: &Config) -> Result<usize> {
    let (last, stop) = (config.steps, args.stop_after.unwrap_or(config.steps));
    ensure!(
        stop <= last,
        "--stop-after {stop} lies behind the last step, {last}; leave it out, or pass a larger \
         --steps"
    );
    Ok(stop)
}

fn checkpoint_path(args: &TrainArgs) -> PathBuf {
    args.out.join("checkpoint.safetensors")
}

fn log_path(args: &TrainArgs) -> PathBuf {
    args.out.join("log.json")
}

fn curve_path(args: &TrainArgs) -> PathBuf {
    args.out.join("loss.png")
}

fn check_text(trained: TextIdentity, now: TextIdentity) -> Result<()> {
    ensure!(
        trained == now,
        "the checkpoint learned from a text of {} bytes (checksum {:08x}), this one has {} \
         ({:08x}); pass the same --input, or start a new run with another --out",
        trained.bytes,
        trained.checksum,
        now.bytes,
        now.checksum
    );
    Ok(())
}
