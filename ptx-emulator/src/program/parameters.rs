//! What a function does with parameters beside its text: those in registers are fetched when it
//! begins and results put back when it returns, and those whose address is taken are copied to
//! local memory (PTX ISA, "Device Function Parameters").

use super::form::Problem;
use super::layout::{ParameterPlace, align_up, alignment, defined, place};
use super::lower::Lowering;
use super::operand::{Any, Destination, File, Wide};
use super::types::DataType;
use crate::execute::grid::LOCAL_BYTES;
use crate::module::{
    Body, Function, FunctionKind, Operand, Prototype, Reference, StateSpace, Variable,
};
use crate::ops::Operation;
use crate::ops::control::Control;
use crate::ops::memory::parameters;

/// Bytes of parameters a kernel can have (PTX ISA, "Kernel Function Parameters").
const KERNEL_BYTES: u64 = 32_764;

/// Where results and parameters of a function lie.
pub(super) struct Places {
    pub(super) returns: Vec<ParameterPlace>,
    pub(super) parameters: Vec<ParameterPlace>,
    /// Where they end.
    pub(super) bytes: u32,
}

/// Gives the results and parameters of a function places, one after another.
pub(super) fn place_all(function: &Function) -> Result<Places, Problem> {
    let mut places = Vec::with_capacity(function.returns.len() + function.parameters.len());
    let mut end = 0;
    for variable in function.returns.iter().chain(&function.parameters) {
        let (offset, next) = place(variable, end)?;
        places.push((offset, next - offset));
        end = next;
    }
    let what =
        if function.returns.is_empty() { "its parameters" } else { "its results and parameters" };
    let is_entry = function.kind == FunctionKind::Entry;
    let bytes = check(what, end, if is_entry { KERNEL_BYTES } else { LOCAL_BYTES })?;
    let mut places = places.into_iter();
    let narrow = |(offset, bytes)| ParameterPlace { offset: offset as u32, bytes: bytes as u32 };
    let returns = places.by_ref().take(function.returns.len()).map(narrow).collect();
    Ok(Places { returns, parameters: places.map(narrow).collect(), bytes })
}

/// The bytes of all parameter variables of a function, which lie where its local variables do.
pub(super) fn check_calls(bytes: u64) -> Result<u32, Problem> {
    check("its parameters, with those of its calls,", bytes, LOCAL_BYTES)
}

fn check(what: &str, bytes: u64, limit: u64) -> Result<u32, Problem> {
    match u32::try_from(bytes) {
        Ok(small) if bytes <= limit => Ok(small),
        _ => Err(format!("{what} have {bytes} bytes; at most {limit} are possible")),
    }
}

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

/// What a call returns and takes.
#[derive(Clone, Copy)]
pub(crate) struct Signature<'m> {
    pub(crate) name: &'m str,
    pub(crate) returns: &'m [Variable],
    pub(crate) parameters: &'m [Variable],
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

    /// A parameter variable of the frame for a value of so many bytes.
    pub(crate) fn reserve_parameter(&mut self, bytes: u32) -> Result<ParameterPlace, Problem> {
        let offset = align_up(self.parameter_bytes.into(), bytes.into());
        self.parameter_bytes = check_calls(offset.saturating_add(bytes.into()))?;
        Ok(ParameterPlace { offset: offset as u32, bytes })
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

    /// What calls return and take, by the name of a function, a prototype or a list of targets,
    /// which has one for each.
    pub(crate) fn signatures(&self, name: Reference) -> Vec<Signature<'m>> {
        let module = self.module();
        let of = |index: &usize| {
            let function = module.functions.get(defined(module, *index))?;
            let Function { name, returns, parameters, .. } = function;
            Some(Signature { name, returns, parameters })
        };
        match name {
            Reference::Function(index) => of(&index).into_iter().collect(),
            Reference::Prototype(index) => {
                let own = self.body().prototypes.get(index).into_iter();
                let signature = |own: &'m Prototype| {
                    let Prototype { name, returns, parameters, .. } = own;
                    Signature { name, returns, parameters }
                };
                own.map(signature).collect()
            }
            Reference::CallTargets(_) => self.targets(name).iter().filter_map(of).collect(),
            _ => Vec::new(),
        }
    }

    /// The functions of the module that a list of targets names.
    pub(crate) fn targets(&self, name: Reference) -> &'m [usize] {
        let Reference::CallTargets(index) = name else { return &[] };
        self.body().call_targets.get(index).map_or(&[], |own| &own.functions)
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
