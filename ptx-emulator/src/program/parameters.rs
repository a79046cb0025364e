//! What a function does with parameters beside its text: those in registers are fetched when it
//! begins and results put back when it returns, and those whose address is taken are copied to
//! local memory (PTX ISA, "Device Function Parameters").

use super::form::Problem;
use super::layout::{ParameterPlace, align_up, alignment, defined};
use super::lower::Lowering;
use super::operand::{Any, Destination, File, Wide};
use super::types::DataType;
use crate::module::{Body, Function, FunctionKind, Operand, Reference, StateSpace, Variable};
use crate::ops::Operation;
use crate::ops::control::Control;
use crate::ops::memory::parameters;

/// Where the parameters of a device function lie in local memory, if their address is taken.
pub(super) fn copied(function: &Function, body: &Body, local_bytes: &mut u64) -> Vec<Option<u64>> {
    let mut places = vec![None; function.parameters.len()];
    if function.kind == FunctionKind::Entry {
        return places;
    }
    for operand in body.instructions.iter().flat_map(|own| &own.operands) {
        let (Operand::Name(Reference::Parameter(index))
        | Operand::Offset(Reference::Parameter(index), _)) = operand
        else {
            continue;
        };
        let (Some(place), Some(variable)) =
            (places.get_mut(*index), function.parameters.get(*index))
        else {
            continue;
        };
        if place.is_none() {
            let offset = align_up(*local_bytes, alignment(variable));
            *local_bytes = offset.saturating_add(variable.bytes().unwrap_or(0));
            *place = Some(offset);
        }
    }
    places
}

/// The type of a scalar parameter.
pub(crate) fn scalar(variable: &Variable) -> Result<DataType, Problem> {
    let word = variable.scalar.word().trim_start_matches('.');
    match DataType::from_word(word)
        .filter(|_| variable.lengths.is_empty() && variable.vector.is_none())
    {
        Some(ty) => Ok(ty),
        None => Err("an argument for an array must be a parameter variable".to_owned()),
    }
}

impl<'m> Lowering<'m> {
    /// Where the copy of a parameter lies in the frame's local memory.
    pub(super) fn copied(&self, index: usize) -> Option<u64> {
        self.copied.get(index).copied().flatten()
    }

    /// A parameter variable of the frame for a value of so many bytes. Returns its offset.
    pub(crate) fn reserve_parameter(&mut self, bytes: u32) -> u32 {
        let offset = self.parameter_bytes.next_multiple_of(bytes.max(1));
        self.parameter_bytes = offset.saturating_add(bytes);
        offset
    }

    pub(super) fn parameter(&self, index: usize) -> Result<ParameterPlace, Problem> {
        self.parameters.get(index).copied().ok_or_else(|| "an unknown parameter".to_owned())
    }

    /// The place of a parameter variable that lives in the frame: those of calls, and the
    /// parameters and return values of device functions. Those of entries do not.
    pub(crate) fn call_parameter(
        &self,
        name: Reference,
    ) -> Result<Option<ParameterPlace>, Problem> {
        Ok(match name {
            Reference::Local(index) if self.local_space(index) == Some(StateSpace::Param) => {
                let bytes = self.body().variables.get(index).and_then(|own| own.bytes());
                let offset = self.frame_offset(index).unwrap_or(0) as u32;
                Some(ParameterPlace { offset, bytes: bytes.unwrap_or(0) as u32 })
            }
            Reference::Parameter(index) if !self.is_entry() => Some(self.parameter(index)?),
            Reference::Return(index) => self.returns.get(index).copied(),
            _ => None,
        })
    }

    /// What a call returns and takes, by the name of a function, a prototype or a list of targets.
    pub(crate) fn signature(&self, name: Reference) -> Option<(&'m [Variable], &'m [Variable])> {
        let module = self.module();
        let of = |index: usize| {
            let function = module.functions.get(defined(module, index))?;
            Some((function.returns.as_slice(), function.parameters.as_slice()))
        };
        match name {
            Reference::Function(index) => of(index),
            Reference::Prototype(index) => {
                let own = self.body().prototypes.get(index)?;
                Some((own.returns.as_slice(), own.parameters.as_slice()))
            }
            Reference::CallTargets(index) => {
                of(*self.body().call_targets.get(index)?.functions.first()?)
            }
            _ => None,
        }
    }

    /// Emits what happens before the first instruction.
    pub(super) fn begin(&mut self) -> Result<(), Problem> {
        let function = self.function();
        for (index, variable) in function.parameters.iter().enumerate() {
            let place = self.parameter(index)?;
            if let Some((file, row)) = variable.register.and_then(|own| self.register(own)) {
                if file == File::Word {
                    self.note_write(row);
                }
                let to = Wide::of(file, Destination(Some(row)));
                self.emit(parameters::load(place.offset, scalar(variable)?, to));
            }
            if let Some(local) = self.copied(index) {
                let operations =
                    parameters::copy_to_local(place, local, |file| self.temporary(file));
                operations.into_iter().for_each(|own| self.emit(own));
            }
        }
        Ok(())
    }

    /// Emits a return, with what is in registers put where the caller finds it.
    pub(crate) fn emit_return(&mut self) -> Result<(), Problem> {
        let function = self.function();
        for (index, variable) in function.returns.iter().enumerate() {
            let place = self.call_parameter(Reference::Return(index))?;
            let register = variable.register.and_then(|own| self.register(own));
            let (Some(ParameterPlace { offset, .. }), Some((file, row))) = (place, register) else {
                continue;
            };
            if file == File::Word {
                self.note_read(row);
            }
            let from = Any::register(file, row);
            self.emit(parameters::store(offset, scalar(variable)?, from));
        }
        self.emit(Operation::Control(Control::Return));
        Ok(())
    }
}
