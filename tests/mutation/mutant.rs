//! A broken module, and whether somebody notices.

use std::fmt;
use std::sync::Arc;

use ptx_emulator::Module;
use ptx_emulator::module::{Instruction, Opcode};
use ptx_emulator::mutation::{Purpose, Site};

use crate::companions::only;
use crate::scenarios::{Scenario, of_kernel};
use crate::survivors::SURVIVORS;
use crate::survivors_blackwell;
use crate::survivors_fp8::FP8_TENSORS;
use crate::survivors_fp8_blocks::FP8_BLOCKS;
use crate::survivors_quantizers::QUANTIZERS;
use crate::traffic::{self, Traffic};

/// Seeds of the scheduler.
pub const SEEDS: &[u64] = &[1, 2, 3, 4, 5];

/// A shipped module.
pub struct Family {
    pub name: &'static str,
    pub module: Arc<Module>,
}

/// A place of a family that is broken.
pub struct Mutant {
    pub family: Arc<Family>,
    pub site: Site,
}

/// Who noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A checker of the emulator, or the launch.
    Reported,
    /// The comparison with what is right.
    Wrong,
    /// The comparison with what the unbroken kernel moves; the result is right.
    Traffic,
    /// The loader.
    Refused,
}

/// What came of running a module.
pub enum Verdict {
    /// All was right.
    Silent,
    /// Something was not.
    Noticed { how: String, kind: Kind },
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = if self.site.purpose == Purpose::Edge { " edge" } else { "" };
        write!(f, "{}{edge}: {}", self.family.name, self.site)
    }
}

impl Mutant {
    /// Runs the broken kernel until somebody notices.
    ///
    /// # Errors
    /// The kernel has no scenarios.
    pub fn judge(&self) -> Result<Verdict, String> {
        self.family.judge(&self.site.name, &self.site.apply(&self.family.module), SEEDS)
    }

    /// Why it is right that nobody notices, if the list says so.
    pub fn reason(&self) -> Option<&'static str> {
        let own = self.to_string();
        let mut groups = SURVIVORS.iter().chain(FP8_TENSORS).chain(FP8_BLOCKS).chain(QUANTIZERS);
        let group = groups.find(|group| group.mutants.contains(&own.as_str()));
        group.map(|group| group.reason).or_else(|| survivors_blackwell::reason(&self.site))
    }

    /// Whether the instruction is executed at all: one that traps in its place is noticed.
    ///
    /// # Errors
    /// The kernel has no scenarios.
    pub fn is_reached(&self) -> Result<bool, String> {
        let mut module = Module::clone(&self.family.module);
        let body = module.functions.get_mut(self.site.function).and_then(|own| own.body.as_mut());
        let instructions = body.map(|body| &mut body.instructions);
        if let Some(own) = instructions.and_then(|all| all.get_mut(self.site.instruction)) {
            let opcode = Opcode { mnemonic: "trap".to_owned(), modifiers: Vec::new() };
            *own = Instruction { guard: None, opcode, operands: Vec::new(), ..own.clone() };
        }
        // Other reports tell of what the instruction has not written.
        let verdict = self.family.judge(&self.site.name, &module, &SEEDS[..1])?;
        Ok(matches!(verdict, Verdict::Noticed { how, .. } if how.contains("executed `trap`")))
    }
}

impl Family {
    /// Runs all scenarios of a kernel with a version of the module, under some seeds, until
    /// something is wrong.
    ///
    /// # Errors
    /// The kernel has no scenarios, or one that launches a kernel that was left out.
    pub fn judge(&self, kernel: &str, module: &Module, seeds: &[u64]) -> Result<Verdict, String> {
        let text = only(kernel, module).to_string();
        let scenarios = of_kernel(kernel);
        if scenarios.is_empty() {
            return Err(format!("there are no scenarios for `{kernel}`"));
        }
        for &seed in seeds {
            for (number, scenario) in scenarios.iter().enumerate() {
                let outcome = scenario.run([self.name, kernel], &text, seed);
                let noticed = match outcome {
                    Err(text) => Some((kind_of(&text), text)),
                    Ok(Some(traffic)) if traffic::is_compared(kernel) => {
                        let expected = self.traffic(kernel, (number, scenario))?;
                        let differs = expected.filter(|own| *own != traffic);
                        differs.map(|own| (Kind::Traffic, format!("{traffic}; unbroken: {own}")))
                    }
                    Ok(_) => None,
                };
                if let Some((kind, text)) = noticed {
                    // Not a mutant's doing.
                    if text.contains("it has no kernel") {
                        return Err(format!(
                            "a scenario of `{kernel}` launches another one: {text}"
                        ));
                    }
                    let how = format!("seed {seed}, {scenario:?}: {text}");
                    return Ok(Verdict::Noticed { how, kind });
                }
            }
        }
        Ok(Verdict::Silent)
    }

    /// What the unbroken kernel moves in one of its scenarios.
    fn traffic(
        &self,
        kernel: &str,
        (number, scenario): (usize, &Scenario),
    ) -> Result<Option<Traffic>, String> {
        traffic::expected(kernel, number, || {
            let text = only(kernel, &self.module).to_string();
            scenario.run([self.name, kernel], &text, SEEDS[0])
        })
    }
}

fn kind_of(text: &str) -> Kind {
    if text.contains("the emulator refuses") {
        Kind::Refused
    } else if text.starts_with("failed: ") {
        Kind::Reported
    } else {
        Kind::Wrong
    }
}
