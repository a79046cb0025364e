//! From a function of a [`Module`](crate::Module) to one that can be executed.

use super::form::{Form, Problem};
use super::kernels::Kinds;
use super::layout::{
    ModuleLayout, ParameterPlace, SharedLayout, SharedName, align_up, defined, function_address,
    place,
};
use super::operand::{File, Guard};
use super::parameters::{self, Places};
use super::rows::{Rows, Uses};
use super::{Code, Instruction, Origin, Touch};
use crate::arch::Arch;
use crate::machine::LoadError;
use crate::module::{
    Body, Function, FunctionKind, Module, Reference, RegisterGroup, ScalarType, StateSpace,
};
use crate::ops::{self, Operation};

/// What a function is lowered for.
#[derive(Clone, Copy)]
pub(super) struct Target<'m> {
    pub(super) module: &'m Module,
    pub(super) layout: &'m ModuleLayout,
    /// The shared memory of the kernel.
    pub(super) shared: &'m SharedLayout,
    /// For each function of the module its index in the kernel.
    pub(super) indices: &'m [Option<usize>],
}

/// A function being lowered.
pub(crate) struct Lowering<'m> {
    target: Target<'m>,
    index: usize,
    function: &'m Function,
    body: &'m Body,
    rows: Rows,
    uses: Uses,
    /// Registers that are destinations of the instruction, by their dense indices.
    written: Vec<u32>,
    /// Offset of each variable of the body in the frame, or among the parameter variables.
    variables: Vec<u64>,
    pub(super) parameters: Vec<ParameterPlace>,
    /// Offsets in the frame of the parameters whose address is taken.
    pub(super) copied: Vec<Option<u64>>,
    pub(super) returns: Vec<ParameterPlace>,
    local_bytes: u64,
    pub(super) parameter_bytes: u32,
    code: Vec<Instruction>,
    touches: Vec<(Vec<u32>, Vec<u32>)>,
    reads: Vec<u32>,
    writes: Vec<u32>,
    /// Rows of words that matrix instructions own while they run.
    owned: Vec<bool>,
    explicit_cluster: bool,
}

impl<'m> Lowering<'m> {
    /// Whether the module is for this architecture and whatever only that has.
    pub(super) fn is_for(&self, arch: Arch) -> bool {
        self.target.module.target.first().is_some_and(|name| name == arch.name())
    }

    /// The number of the architecture that the module is for: 100 for `sm_100a`.
    pub(super) fn generation(&self) -> u32 {
        let target = self.target.module.target.first().map_or("", String::as_str);
        let number =
            target.trim_start_matches("sm_").trim_end_matches(|own: char| own.is_alphabetic());
        number.parse().unwrap_or(0)
    }

    /// Whether the module is for an architecture from sm_100 on with the features of its family,
    /// `a` or `f`, which a plain target lacks.
    pub(super) fn has_family_features(&self) -> bool {
        let target = self.target.module.target.first();
        self.generation() >= 100 && target.is_some_and(|name| name.ends_with(['a', 'f']))
    }

    /// Whether the module is for an architecture with tensor memory: those of the family of
    /// sm_100 and its relatives, never a plain one.
    pub(super) fn has_tensor_memory(&self) -> bool {
        const TARGETS: [&str; 6] =
            ["sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f"];
        let target = self.target.module.target.first();
        target.is_some_and(|name| TARGETS.contains(&name.as_str()))
    }

    pub(super) fn new(
        target: Target<'m>,
        index: usize,
        function: &'m Function,
        body: &'m Body,
        rows: Rows,
    ) -> Result<Self, Problem> {
        let Places { returns, parameters, bytes } = parameters::place_all(function)?;
        let (mut parameter_bytes, mut local_bytes) = (u64::from(bytes), 0);
        let mut variables = Vec::with_capacity(body.variables.len());
        for variable in &body.variables {
            let end = match variable.space {
                StateSpace::Local => &mut local_bytes,
                StateSpace::Param => &mut parameter_bytes,
                StateSpace::Shared | StateSpace::Const | StateSpace::Global => {
                    variables.push(0);
                    continue;
                }
            };
            let (offset, next) = place(variable, *end)?;
            variables.push(offset);
            *end = next;
        }
        let parameter_bytes = parameters::check_calls(parameter_bytes)?;
        let copied = parameters::copied(function, body, &mut local_bytes);
        if local_bytes >= 1 << 31 {
            return Err("its variables are too large".to_owned());
        }
        Ok(Self {
            target,
            index,
            function,
            body,
            rows,
            uses: Uses::default(),
            written: Vec::new(),
            variables,
            parameters,
            returns,
            copied,
            local_bytes: align_up(local_bytes, 16),
            parameter_bytes,
            code: Vec::new(),
            touches: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            owned: Vec::new(),
            explicit_cluster: function
                .directives
                .iter()
                .any(|own| own.word == ".explicitcluster" || own.word == ".reqnctapercluster"),
        })
    }

    pub(super) fn run(mut self, text: &str, kinds: &mut Kinds) -> Result<(Code, Uses), LoadError> {
        let line = self.function.line;
        let other = |problem: Problem| {
            LoadError::unsupported(text, line, &self.function.name.clone(), &problem)
        };
        let beginning = Origin { line, location: None, kind: None };
        self.begin().map_err(other)?;
        let mut origins = vec![beginning; self.code.len()];
        let mut starts = Vec::with_capacity(self.body.instructions.len() + 1);
        for instruction in &self.body.instructions {
            starts.push(self.code.len() as u32);
            let refuse = |problem: &str| {
                let opcode = instruction.opcode.to_string();
                LoadError::unsupported(text, instruction.line, &opcode, problem)
            };
            let guard = match instruction.guard {
                None => Guard::Always,
                Some(guard) => match guard.predicate {
                    Reference::Register(index) => match self.register(index) {
                        Some((File::Predicate, row)) if guard.negated => Guard::Unless(row),
                        Some((File::Predicate, row)) => Guard::If(row),
                        _ => return Err(refuse("its guard is no predicate")),
                    },
                    _ => return Err(refuse("its guard is no predicate")),
                },
            };
            let before = self.code.len();
            let lowered = ops::lower(&mut Form::new(instruction, &mut self));
            lowered.map_err(|problem| refuse(&problem))?;
            self.uses.written.push(std::mem::take(&mut self.written));
            let kind = kinds.index(instruction.opcode.to_string());
            for own in &mut self.code[before..] {
                own.guard = guard;
            }
            let (line, location) = (instruction.line, instruction.location);
            let kind = Some(kind);
            origins.extend((before..self.code.len()).map(|at| Origin {
                line,
                location,
                kind: kind.filter(|_| at == before),
            }));
        }
        starts.push(self.code.len() as u32);
        // A function whose text ends without `ret` returns there.
        let before = self.code.len();
        self.emit_return().map_err(other)?;
        let kind = Some(kinds.index("ret".to_owned()));
        origins.extend((before..self.code.len()).map(|at| Origin {
            line,
            location: None,
            kind: kind.filter(|_| at == before),
        }));
        let labels: Vec<u32> = self
            .body
            .labels
            .iter()
            .map(|label| starts.get(label.instruction).copied().unwrap_or(0))
            .collect();
        for instruction in &mut self.code {
            instruction.operation.place_labels(&labels);
        }
        let owned = self.owned;
        let is_owned = |row: u32| owned.get(row as usize).copied().unwrap_or(false);
        let listed = |rows: Vec<u32>| -> Box<[u32]> {
            rows.into_iter().filter(|row| is_owned(*row)).collect()
        };
        let touches = self
            .touches
            .into_iter()
            .map(|(reads, writes)| Touch { reads: listed(reads), writes: listed(writes) })
            .collect();
        let mut uses = self.uses;
        uses.owned = (0..)
            .zip(&self.rows.of)
            .filter(|(_, (file, row))| *file == File::Word && is_owned(*row))
            .map(|(register, _)| register)
            .collect();
        let code = Code {
            name: self.function.name.clone(),
            instructions: self.code,
            origins,
            touches,
            registers: self.rows.counts,
            locations: self.body.locations.clone(),
            local_bytes: self.local_bytes,
            parameter_bytes: self.parameter_bytes,
            parameters: self.parameters,
            returns: self.returns,
        };
        Ok((code, uses))
    }

    pub(super) fn emit(&mut self, operation: Operation) {
        self.code.push(Instruction { guard: Guard::Always, operation });
        let touch = (std::mem::take(&mut self.reads), std::mem::take(&mut self.writes));
        self.touches.push(touch);
    }

    pub(super) fn module(&self) -> &'m Module {
        self.target.module
    }

    pub(super) fn function(&self) -> &'m Function {
        self.function
    }

    pub(super) fn body(&self) -> &'m Body {
        self.body
    }

    pub(super) fn note_read(&mut self, row: u32) {
        self.reads.push(row);
    }

    pub(super) fn note_write(&mut self, row: u32) {
        self.writes.push(row);
    }

    /// An instruction has a register, by its dense index, as its destination.
    pub(super) fn note_destination(&mut self, register: u32) {
        self.written.push(register);
    }

    /// A matrix instruction owns a row of words while it runs.
    pub(crate) fn own(&mut self, row: u32) {
        let index = row as usize;
        if self.owned.len() <= index {
            self.owned.resize(index + 1, false);
        }
        self.owned[index] = true;
    }

    pub(super) fn register(&self, index: u32) -> Option<(File, u32)> {
        self.rows.of.get(index as usize).copied()
    }

    /// The declared width of a register in bits; predicates have one.
    pub(super) fn register_bits(&self, index: u32) -> Option<u32> {
        Some(self.group(index)?.scalar.bits())
    }

    /// The name and the declared type of a register.
    pub(super) fn register_name(&self, index: u32) -> Option<(String, ScalarType)> {
        let (group, number) = self.body.register(index)?;
        let number = group.count.map_or_else(String::new, |_| number.to_string());
        Some((format!("{}{number}", group.name), group.scalar))
    }

    /// The elements of a register that is a vector.
    pub(super) fn register_elements(&self, index: u32) -> Option<u32> {
        self.group(index)?.vector.map(|length| length.length())
    }

    fn group(&self, index: u32) -> Option<&RegisterGroup> {
        let registers = self.body.registers.iter();
        registers
            .into_iter()
            .find(|own| (own.first..own.first.saturating_add(own.length())).contains(&index))
    }

    pub(crate) fn temporary(&mut self, file: File) -> u32 {
        let count = self.rows.counts.of_mut(file);
        *count += 1;
        *count - 1
    }

    pub(crate) fn is_entry(&self) -> bool {
        self.function.kind == FunctionKind::Entry
    }

    pub(super) fn is_explicit_cluster(&self) -> bool {
        self.explicit_cluster
    }

    pub(super) fn variable_address(&self, index: usize) -> Option<u64> {
        self.target.layout.addresses.get(index).copied().flatten()
    }

    /// The address of a variable of the function that lies in global or constant memory.
    pub(super) fn inner_address(&self, index: usize) -> Option<u64> {
        self.target.layout.inner.get(&(self.index, index)).copied()
    }

    /// The name of a variable of the module.
    pub(super) fn variable_name(&self, index: usize) -> &'m str {
        self.target.module.variables.get(index).map_or("", |own| &own.name)
    }

    pub(super) fn shared_variable(&self, index: usize) -> Option<u32> {
        self.target.shared.offsets.get(&SharedName::Module(index)).copied()
    }

    pub(super) fn shared_local(&self, index: usize) -> Option<u32> {
        self.target.shared.offsets.get(&SharedName::Function(self.index, index)).copied()
    }

    /// The state space of a variable or parameter.
    pub(super) fn space_of(&self, name: Reference) -> Option<StateSpace> {
        match name {
            Reference::Variable(index) => {
                self.target.module.variables.get(index).map(|own| own.space)
            }
            Reference::Local(index) => self.local_space(index),
            Reference::Parameter(_) | Reference::Return(_) => Some(StateSpace::Param),
            _ => None,
        }
    }

    pub(super) fn function_address(&self, index: usize) -> u64 {
        function_address(defined(self.target.module, index))
    }

    pub(super) fn local_space(&self, index: usize) -> Option<StateSpace> {
        self.body.variables.get(index).map(|own| own.space)
    }

    pub(super) fn frame_offset(&self, index: usize) -> Option<u64> {
        self.variables.get(index).copied()
    }

    /// The index of a function among those of the kernel.
    pub(crate) fn callee(&self, index: usize) -> Result<usize, Problem> {
        let index = defined(self.target.module, index);
        let found = self.target.indices.get(index).copied().flatten();
        found.ok_or_else(|| "it calls a function without a body".to_owned())
    }

    /// Where the module's constant variables lie in global memory: from, to.
    pub(crate) fn constant_ranges(&self) -> Box<[(u64, u64)]> {
        self.target.layout.constants.as_slice().into()
    }

    /// The labels of a `.branchtargets`.
    pub(crate) fn branch_targets(&self, index: usize) -> Option<&'m [usize]> {
        self.body.branch_targets.get(index).map(|own| own.labels.as_slice())
    }
}
