//! Breaking a place.

use super::find::is_integer;
use super::{Damage, Site};
use crate::module::{Body, Immediate, Instruction, Module, Opcode, Operand, Statement};

impl Site {
    /// The module with this one place broken. A site of another module changes nothing.
    #[must_use]
    pub fn apply(&self, module: &Module) -> Module {
        let mut module = module.clone();
        let body = module.functions.get_mut(self.function).and_then(|own| own.body.as_mut());
        if let Some(body) = body {
            self.apply_to(body);
        }
        module
    }

    fn apply_to(&self, body: &mut Body) {
        if self.damage == Damage::Removed {
            // The text keeps its order; the instruction is just not printed.
            body.statements.retain(|own| *own != Statement::Instruction(self.instruction));
            return;
        }
        let Some(instruction) = body.instructions.get_mut(self.instruction) else { return };
        match &self.damage {
            Damage::Removed => {}
            Damage::Satisfied => decide(instruction, true),
            Damage::Decided { says } => decide(instruction, *says),
            Damage::Number { operand, to, .. } => match instruction.operands.get_mut(*operand) {
                Some(Operand::Address(own)) => own.offset = *to as i64,
                Some(own) => *own = Operand::Immediate(Immediate::Signed(*to as i64)),
                None => {}
            },
            Damage::Predicate { operand, says } => {
                if let Some(own) = instruction.operands.get_mut(*operand) {
                    *own = Operand::Immediate(Immediate::Signed((*says).into()));
                }
            }
            Damage::Comparison { from, to } | Damage::Word { from, to } => {
                for word in &mut instruction.opcode.modifiers {
                    if word == from {
                        (*to).clone_into(word);
                    }
                }
            }
            Damage::Unbounded => {
                let ty = instruction.opcode.modifiers.iter().find(|word| is_integer(word));
                instruction.opcode = opcode("mov", &[ty.map_or("b32", String::as_str)]);
                instruction.operands.truncate(2);
            }
        }
    }
}

/// Gives the predicate that the instruction computes a value of its own.
fn decide(instruction: &mut Instruction, says: bool) {
    let target = instruction.operands.first().cloned();
    instruction.opcode = opcode("mov", &["pred"]);
    let value = Operand::Immediate(Immediate::Signed(says.into()));
    instruction.operands = target.into_iter().chain([value]).collect();
}

fn opcode(mnemonic: &str, modifiers: &[&str]) -> Opcode {
    let modifiers = modifiers.iter().map(|word| (*word).to_owned()).collect();
    Opcode { mnemonic: mnemonic.to_owned(), modifiers }
}
