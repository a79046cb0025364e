//! Lets contenders take turns.
//!
//! A card at its power limit has another clock from moment to moment, and the clock of a call
//! depends on what ran before it. So all contenders of a case are timed in one run, in turns, and
//! in its turn each is called twice: the second call, which runs behind its own load, counts.

use anyhow::{Context, Result, bail};

use super::engine::{Answer, Call, Contenders, Engine};
use super::record::{Check, Quantity, Refused, Times};
use super::task::{CasePlan, Pace};

/// How often contenders are called.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before them.
    pub warm_up: u32,
    /// Who is called after whom.
    pub order: Order,
    /// How a call is timed.
    pub pace: Pace,
}

/// Who is called after whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In each round every contender has its turn.
    InTurns,
    /// Each contender has all its rounds in a row.
    OneByOne,
}

/// What became of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Times of those that took part.
    pub times: Vec<Times>,
    /// The others.
    pub refused: Vec<Refused>,
    /// Comparisons with FP64.
    pub checks: Vec<Check>,
}

/// One of those that are compared: an engine, and whether it is this library.
pub struct Side<'a> {
    /// Who answers.
    pub engine: &'a mut dyn Engine,
    /// Whether it is this library.
    pub ours: bool,
}

impl Check {
    /// Whether the result is right. Errors that are no numbers are not.
    pub fn passes(&self) -> bool {
        self.worst <= self.worst_limit && self.rms <= self.rms_limit && self.samples > 0
    }
}

struct Contender {
    side: usize,
    name: String,
    replay: bool,
    times: Vec<f64>,
    refusal: Option<String>,
}

impl Contender {
    /// As messages have it.
    fn label(&self) -> String {
        if self.replay { format!("{} replay", self.name) } else { self.name.clone() }
    }
}

/// Checks and times one case. An error is a contender's that was wrong, or an engine's that broke.
pub fn run(sides: &mut [Side<'_>], case: CasePlan, turns: Turns) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut contenders = enlist(sides, case, &mut outcome)?;
    for contender in &mut contenders {
        if sides[contender.side].ours {
            check(sides, case, contender, &mut outcome)?;
        }
    }
    let all = turns.warm_up + turns.rounds;
    if turns.order == Order::InTurns {
        for turn in 0..all {
            for contender in &mut contenders {
                take_turn(sides, case, contender, (turns, turn))?;
            }
        }
    } else {
        for contender in &mut contenders {
            for turn in 0..all {
                take_turn(sides, case, contender, (turns, turn))?;
            }
        }
    }
    for contender in contenders {
        let ours = sides[contender.side].ours;
        match contender.refusal {
            Some(ref reason) => {
                let (name, reason) = (contender.label(), reason.clone());
                outcome.refused.push(Refused { name, reason });
            }
            None => outcome.times.push(summary(contender, ours)?),
        }
    }
    Ok(outcome)
}

fn enlist(sides: &mut [Side<'_>], case: CasePlan, outcome: &mut Outcome) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    let replays: &[bool] = if case.replay { &[false, true] } else { &[false] };
    for (side, Side { engine, .. }) in sides.iter_mut().enumerate() {
        let Contenders { names, absent } = engine.contenders(case.task, case.quantity)?;
        outcome.refused.extend(absent);
        for name in names {
            for &replay in replays {
                let (times, refusal) = (Vec::new(), None);
                contenders.push(Contender { side, name: name.clone(), replay, times, refusal });
            }
        }
    }
    Ok(contenders)
}

fn check(
    sides: &mut [Side<'_>],
    case: CasePlan,
    contender: &mut Contender,
    outcome: &mut Outcome,
) -> Result<()> {
    let (name, replay) = (contender.name.as_str(), contender.replay);
    let call = Call { task: case.task, contender: name, replay, quantity: case.quantity };
    let engine = &mut sides[contender.side].engine;
    match engine.check(call).with_context(|| format!("checking {}", contender.label()))? {
        Answer::Refused(reason) => contender.refusal = Some(reason),
        Answer::Done(checks) => {
            for mut check in checks {
                if replay {
                    check.name += " replay";
                }
                let passes = check.passes();
                let (name, worst, rms) = (check.name.clone(), check.worst, check.rms);
                let limits = (check.worst_limit, check.rms_limit);
                outcome.checks.push(check);
                if !passes {
                    bail!(
                        "{name} is wrong: its largest error is {worst:.2e} where {:.2e} is \
                         possible, the root of the mean of squares {rms:.2e} where {:.2e} is",
                        limits.0,
                        limits.1
                    );
                }
            }
        }
    }
    Ok(())
}

/// Calls a contender in its turn.
fn take_turn(
    sides: &mut [Side<'_>],
    case: CasePlan,
    contender: &mut Contender,
    (turns, turn): (Turns, u32),
) -> Result<()> {
    // One by one, what ran before is the contender itself.
    let before = u32::from(turns.order == Order::InTurns && case.quantity != Quantity::Host);
    let engine = &mut sides[contender.side].engine;
    for call_number in 0..=before {
        if contender.refusal.is_some() {
            return Ok(());
        }
        let (name, replay) = (contender.name.as_str(), contender.replay);
        let call = Call { task: case.task, contender: name, replay, quantity: case.quantity };
        let answer = engine
            .time(call, turns.pace)
            .with_context(|| format!("timing {}", contender.label()))?;
        match answer {
            Answer::Refused(reason) => contender.refusal = Some(reason),
            Answer::Done(us) if call_number == before && turn >= turns.warm_up => {
                contender.times.push(us);
            }
            Answer::Done(_) => {}
        }
    }
    Ok(())
}

fn summary(contender: Contender, ours: bool) -> Result<Times> {
    let Contender { name, replay, mut times, .. } = contender;
    times.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (times.first(), times.last()) else {
        bail!("{name} was never timed: no round counts");
    };
    let upper = times.len() / 2;
    let lower = (times.len() - 1) / 2;
    Ok(Times { name, ours, replay, us: (times[lower] + times[upper]) / 2.0, min, max })
}
