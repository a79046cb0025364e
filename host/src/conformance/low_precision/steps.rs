//! Ends of steps of delayed scaling, of many states at once: each as if it were alone on the CPU.

use std::fmt;

use super::super::data::Generator;
use crate::backend::{Device, Stream};
use crate::error::Result;
use crate::grouped_linear::DelayedState;
use crate::recipe::{AmaxChoice, DelayedScaling};
use crate::tensor::{DType, Tensor};

/// Ends of a few steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepsCase {
    /// How many states end them together.
    pub states: usize,
    /// What the flag on the device holds in the last step, if there is one.
    pub flag: Option<i32>,
}

impl fmt::Display for StepsCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, flag } = self;
        write!(f, "ends of steps of {states} states")?;
        flag.map_or(Ok(()), |flag| write!(f, ", flag {flag}"))
    }
}

/// The ends of steps that every GPU runs: 16 states have one launch, 40 have three.
pub fn steps_cases() -> Vec<StepsCase> {
    let plain = StepsCase { states: 40, flag: None };
    let mut cases = vec![plain];
    cases.extend([1, 15, 16, 17].map(|states| StepsCase { states, ..plain }));
    cases.extend([0, 1, 256, i32::MIN].map(|flag| StepsCase { states: 5, flag: Some(flag) }));
    cases
}

/// Steps; before the last there is no flag.
const STEPS: usize = 3;
/// Groups of the states, by turns.
const GROUPS: [usize; 5] = [3, 1, 70, 8, 2];
/// Steps that they remember, by turns: so that each of the eight lines which a thread reads at once
/// is the last in some, and one more than all threads read at once.
const HISTORY_LEN: [usize; 11] = [4, 1, 257, 2, 40, 70, 105, 135, 170, 200, 250];
/// Their margins, by turns.
const MARGINS: [i32; 3] = [0, 2, -3];

/// Ends the steps on `device`, and of each state alone on the CPU, and compares all bits.
///
/// # Errors
/// What is wrong, in words.
pub fn run(case: &StepsCase, device: &Device) -> std::result::Result<(), String> {
    let failed = |what| move |error| format!("{what} failed: {error}");
    let own = device.stream().and_then(|stream| end_steps(case, &stream, true));
    let alone = Device::cpu().stream().and_then(|stream| end_steps(case, &stream, false));
    let (own, alone) = (own.map_err(failed("the device"))?, alone.map_err(failed("the CPU"))?);
    for (state, (own, alone)) in own.iter().zip(&alone).enumerate() {
        for (what, own, alone) in
            [("history", &own.history, &alone.history), ("scale", &own.scale, &alone.scale)]
        {
            if let Some(at) = (0..alone.len()).find(|&at| own[at].to_bits() != alone[at].to_bits())
            {
                let (own, alone) = (own[at], alone[at]);
                return Err(format!("state {state}: {what}[{at}] is {own:e}, not {alone:e}"));
            }
        }
    }
    Ok(())
}

/// What a state holds in the end.
struct Held {
    history: Vec<f32>,
    scale: Vec<f32>,
}

fn end_steps(case: &StepsCase, stream: &Stream, together: bool) -> Result<Vec<Held>> {
    let mut states = Vec::new();
    for index in 0..case.states {
        let recipe = DelayedScaling {
            history_len: HISTORY_LEN[index % HISTORY_LEN.len()],
            margin: MARGINS[index % MARGINS.len()],
            choice: [AmaxChoice::Max, AmaxChoice::MostRecent][index / 2 % 2],
            ..Default::default()
        };
        let dtype = [DType::E4m3, DType::E5m2][index % 2];
        states.push(DelayedState::new(stream, recipe, GROUPS[index % GROUPS.len()], dtype)?);
    }
    let flag = case.flag.map(|flag| Tensor::from_slice(stream, &[1], &[flag])).transpose()?;
    let mut generator = Generator::new(case.states as u64);
    for step in 0..STEPS {
        for state in &states {
            let amaxes: Vec<f32> = (0..state.scale().len())
                .map(|_| match generator.next() % 8 {
                    0 => 0.0,
                    1 => f32::INFINITY,
                    2 => 1e-40,
                    _ => generator.value().abs(),
                })
                .collect();
            state.amax()?.write(stream, &amaxes)?;
        }
        let flag = flag.as_ref().filter(|_| step + 1 == STEPS);
        if together {
            DelayedState::update_all(stream, &mut states, flag)?;
            continue;
        }
        for state in &mut states {
            match flag {
                Some(flag) => state.update_unless(stream, flag)?,
                None => state.update(stream)?,
            }
        }
    }
    let held = |state: &DelayedState| {
        let history = state.history().to_f32(stream)?;
        Ok(Held { history, scale: state.scale().to_f32(stream)? })
    };
    states.iter().map(held).collect()
}
