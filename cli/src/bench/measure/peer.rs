//! A peer in a process of its own, asked over a pipe: a line of JSON a request, one an answer.
//!
//! | request | answer |
//! | --- | --- |
//! | `{"do": "hello", "seed"}` | `{"about": {"versions", "absent"}}` |
//! | `{"do": "prepare", "section", "shape"}` | `{"ok": true}` |
//! | `{"do": "list", "task", "quantity"}` | `{"names": […], "absent": {name: reason}}` |
//! | `{"do": "time", "task", "contender", "replay", "pace"}` | `{"us": number}` |
//!
//! Any may be answered by `{"refused": reason}`, which leaves a contender or a section out, or by
//! `{"error": message}`, which ends the run. `pace` is `{"single": {"pause_us", "asleep"}}`,
//! `{"in_a_row": calls}` or `{"host": calls}`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::Deserialize;
use serde_json::{Value, json};

use super::engine::{Answer, Call, Contenders, Engine};
use super::record::{About, Check, Quantity, Refused, Rest};
use super::task::{Pace, Section, Task};
use crate::bench::suite::Shape;

/// The peer of the project: torch, and what it finds beside it.
pub const SCRIPT: &str = include_str!("peer.py");

impl ValueEnum for Rest {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Host, Self::Kernel]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Host => PossibleValue::new("host").help("The host waits, as ours does"),
            Self::Kernel => PossibleValue::new("kernel").help("A kernel waits"),
        })
    }
}

/// A running peer.
pub struct Peer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    rest: Rest,
}

/// An answer as it comes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Reply {
    about: Option<About>,
    ok: Option<bool>,
    names: Option<Vec<String>>,
    absent: BTreeMap<String, String>,
    us: Option<f64>,
    refused: Option<String>,
    error: Option<String>,
}

impl Peer {
    /// Starts a peer; its messages for people pass through.
    pub fn start(command: &mut Command, rest: Rest) -> Result<Self> {
        let shown = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("`{shown}` has no pipes");
        };
        let answers = BufReader::new(answers);
        Ok(Self { child, requests: Some(requests), answers, rest })
    }

    /// What it is made of.
    pub fn hello(&mut self, seed: u64) -> Result<About> {
        match self.ask(&json!({"do": "hello", "seed": seed}))? {
            Answer::Done(Reply { about: Some(about), .. }) => Ok(about),
            Answer::Done(_) => bail!("the peer did not say what it is"),
            Answer::Refused(reason) => bail!("the peer cannot take part: {reason}"),
        }
    }

    fn ask(&mut self, request: &Value) -> Result<Answer<Reply>> {
        let asked = || format!("asking the peer for {request}");
        let line = self.exchange(request).with_context(asked)?;
        let reply: Reply = serde_json::from_str(&line)
            .map_err(|error| anyhow!("`{}` is no answer: {error}", line.trim_end()))
            .with_context(asked)?;
        match reply {
            Reply { error: Some(message), .. } => Err(anyhow!(message)).with_context(asked),
            Reply { refused: Some(reason), .. } => Ok(Answer::Refused(reason)),
            reply => Ok(Answer::Done(reply)),
        }
    }

    fn exchange(&mut self, request: &Value) -> Result<String> {
        let requests = self.requests.as_mut().context("the pipe is closed")?;
        let sent = writeln!(requests, "{request}").and_then(|()| requests.flush());
        let mut line = String::new();
        if sent.is_err() || self.answers.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("the peer ended ({status})");
        }
        Ok(line)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A peer ends when nobody can ask it any more; one that does not is ended.
        drop(self.requests.take());
        for _ in 0..50 {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(std::time::Duration::from_millis(100)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Engine for Peer {
    fn prepare(&mut self, section: Section, shape: &Shape) -> Result<Answer<()>> {
        let Shape { id, splits, n, k, .. } = shape;
        let shape = json!({"id": id, "splits": splits, "n": n, "k": k});
        let request = json!({"do": "prepare", "section": section.name(), "shape": shape});
        match self.ask(&request)? {
            Answer::Done(Reply { ok: Some(true), .. }) => Ok(Answer::Done(())),
            Answer::Done(_) => bail!("the peer did not say whether its operands are ready"),
            Answer::Refused(reason) => Ok(Answer::Refused(reason)),
        }
    }

    fn contenders(&mut self, task: Task, quantity: Quantity) -> Result<Contenders> {
        // A peer has no kernels that this program could tell apart, so its whole calls are timed.
        let quantity = if quantity == Quantity::Kernel { Quantity::Gpu } else { quantity };
        let request = json!({"do": "list", "task": task.name(), "quantity": quantity});
        match self.ask(&request)? {
            Answer::Done(Reply { names: Some(names), absent, .. }) => {
                let refused = |(name, reason)| Refused { name, reason };
                Ok(Contenders { names, absent: absent.into_iter().map(refused).collect() })
            }
            Answer::Done(_) => bail!("the peer did not say who takes part"),
            Answer::Refused(reason) => {
                let absent = vec![Refused { name: "peer".to_owned(), reason }];
                Ok(Contenders { names: Vec::new(), absent })
            }
        }
    }

    fn check(&mut self, _call: Call<'_>) -> Result<Answer<Vec<Check>>> {
        Ok(Answer::Done(Vec::new()))
    }

    fn time(&mut self, call: Call<'_>, pace: Pace) -> Result<Answer<f64>> {
        let pace = match pace {
            Pace::Single(pause) => {
                let asleep = if self.rest == Rest::Kernel { "kernel" } else { "host" };
                json!({"single": {"pause_us": pause.as_micros() as u64, "asleep": asleep}})
            }
            Pace::InARow(calls) => json!({"in_a_row": calls}),
            Pace::Host(calls) => json!({"host": calls}),
        };
        let Call { task, contender, replay, .. } = call;
        let request = json!({
            "do": "time", "task": task.name(), "contender": contender, "replay": replay,
            "pace": pace,
        });
        match self.ask(&request)? {
            Answer::Done(Reply { us: Some(us), .. }) if us.is_finite() && us > 0.0 => {
                Ok(Answer::Done(us))
            }
            Answer::Done(_) => bail!("the peer answered {request} without a time"),
            Answer::Refused(reason) => Ok(Answer::Refused(reason)),
        }
    }
}
