//! A module as PTX text.

use std::fmt::{self, Display, Formatter};

use super::{
    Address, Base, Body, Function, FunctionKind, Initialiser, Instruction, Item, Location, Module,
    Operand, Prototype, Reference, Statement, Variable,
};

/// Writes a list with commas.
fn list<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    mut write: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    Ok(())
}

/// Where references of a function are looked up.
#[derive(Clone, Copy)]
struct Names<'a> {
    module: &'a Module,
    function: Option<&'a Function>,
    body: Option<&'a Body>,
}

impl Names<'_> {
    /// Writes a name. Modules can be built by hand, and an index that leads nowhere prints as a
    /// word that does not parse.
    fn name(&self, f: &mut Formatter<'_>, reference: Reference) -> fmt::Result {
        let function = self.function;
        let variable = |variable: &Variable| variable.name.clone();
        let name = match reference {
            Reference::Special(name) => Some(name.to_owned()),
            Reference::Register(index) => self.body.and_then(|body| {
                let (group, number) = body.register(index)?;
                Some(match group.count {
                    Some(_) => format!("{}{number}", group.name),
                    None => group.name.clone(),
                })
            }),
            Reference::Label(index) => {
                self.body.and_then(|body| Some(body.labels.get(index)?.name.clone()))
            }
            Reference::BranchTargets(index) => {
                self.body.and_then(|body| Some(body.branch_targets.get(index)?.name.clone()))
            }
            Reference::CallTargets(index) => {
                self.body.and_then(|body| Some(body.call_targets.get(index)?.name.clone()))
            }
            Reference::Prototype(index) => {
                self.body.and_then(|body| Some(body.prototypes.get(index)?.name.clone()))
            }
            Reference::Local(index) => {
                self.body.and_then(|body| body.variables.get(index).map(variable))
            }
            Reference::Parameter(index) => {
                function.and_then(|function| function.parameters.get(index).map(variable))
            }
            Reference::Return(index) => {
                function.and_then(|function| function.returns.get(index).map(variable))
            }
            Reference::Variable(index) => self.module.variables.get(index).map(variable),
            Reference::Function(index) => {
                self.module.functions.get(index).map(|function| function.name.clone())
            }
        };
        f.write_str(name.as_deref().unwrap_or("<nowhere>"))
    }

    fn address(&self, f: &mut Formatter<'_>, address: &Address) -> fmt::Result {
        f.write_str("[")?;
        match address.base {
            Base::Name(reference) => self.name(f, reference)?,
            Base::Immediate(value) => write!(f, "{value}")?,
        }
        if address.offset != 0 {
            write!(f, "+{}", address.offset)?;
        }
        for operand in &address.coordinates {
            f.write_str(", ")?;
            self.operand(f, operand)?;
        }
        f.write_str("]")
    }

    fn operand(&self, f: &mut Formatter<'_>, operand: &Operand) -> fmt::Result {
        match operand {
            Operand::Name(reference) => self.name(f, *reference),
            Operand::Not(reference) => {
                f.write_str("!")?;
                self.name(f, *reference)
            }
            Operand::Component(reference, component) => {
                self.name(f, *reference)?;
                write!(f, "{component}")
            }
            Operand::Offset(reference, offset) => {
                self.name(f, *reference)?;
                write!(f, "+{offset}")
            }
            Operand::Immediate(immediate) => write!(f, "{immediate}"),
            Operand::Sink => f.write_str("_"),
            Operand::Pair(pair) => {
                self.operand(f, &pair[0])?;
                f.write_str("|")?;
                self.operand(f, &pair[1])
            }
            Operand::Vector(elements) => {
                f.write_str("{")?;
                list(f, elements, |f, element| self.operand(f, element))?;
                f.write_str("}")
            }
            Operand::Arguments(operands) => {
                f.write_str("(")?;
                list(f, operands, |f, operand| self.operand(f, operand))?;
                f.write_str(")")
            }
            Operand::Address(address) => self.address(f, address),
        }
    }

    fn instruction(&self, f: &mut Formatter<'_>, instruction: &Instruction) -> fmt::Result {
        if let Some(guard) = instruction.guard {
            f.write_str(if guard.negated { "@!" } else { "@" })?;
            self.name(f, guard.predicate)?;
            f.write_str(" ")?;
        }
        write!(f, "{}", instruction.opcode)?;
        if !instruction.operands.is_empty() {
            f.write_str(" ")?;
            list(f, &instruction.operands, |f, operand| self.operand(f, operand))?;
        }
        f.write_str(";\n")
    }

    fn initialiser(&self, f: &mut Formatter<'_>, initialiser: &Initialiser) -> fmt::Result {
        match initialiser {
            Initialiser::Immediate(immediate) => write!(f, "{immediate}"),
            Initialiser::List(values) => {
                f.write_str("{")?;
                list(f, values, |f, value| self.initialiser(f, value))?;
                f.write_str("}")
            }
            Initialiser::Symbol { name, generic, offset, mask } => {
                if let Some(mask) = mask {
                    write!(f, "0x{mask:X}(")?;
                }
                f.write_str(if *generic { "generic(" } else { "" })?;
                self.name(f, *name)?;
                f.write_str(if *generic { ")" } else { "" })?;
                if *offset != 0 {
                    write!(f, "+{offset}")?;
                }
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
        }
    }

    fn variable(&self, f: &mut Formatter<'_>, variable: &Variable) -> fmt::Result {
        if let Some(linkage) = variable.linkage {
            write!(f, "{linkage} ")?;
        }
        match variable.register {
            Some(_) => f.write_str(".reg")?,
            None => write!(f, "{}", variable.space)?,
        }
        if variable.managed {
            f.write_str(" .attribute(.managed)")?;
        }
        if let Some(align) = variable.align {
            write!(f, " .align {align}")?;
        }
        if let Some(vector) = variable.vector {
            write!(f, " {vector}")?;
        }
        write!(f, " {}", variable.scalar)?;
        if let Some(pointee) = variable.pointee {
            f.write_str(" .ptr")?;
            if let Some(space) = pointee.space {
                write!(f, " {space}")?;
            }
            if let Some(align) = pointee.align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", variable.name)?;
        for length in &variable.lengths {
            match length {
                Some(length) => write!(f, "[{length}]")?,
                None => f.write_str("[]")?,
            }
        }
        if let Some(initialiser) = &variable.initialiser {
            f.write_str(" = ")?;
            self.initialiser(f, initialiser)?;
        }
        Ok(())
    }

    fn parameters(&self, f: &mut Formatter<'_>, parameters: &[Variable]) -> fmt::Result {
        f.write_str("(")?;
        list(f, parameters, |f, parameter| self.variable(f, parameter))?;
        f.write_str(")")
    }

    fn prototype(&self, f: &mut Formatter<'_>, prototype: &Prototype) -> fmt::Result {
        write!(f, "{}: .callprototype ", prototype.name)?;
        self.parameters(f, &prototype.returns)?;
        f.write_str(" _ ")?;
        self.parameters(f, &prototype.parameters)?;
        f.write_str(if prototype.noreturn { " .noreturn;\n" } else { ";\n" })
    }

    fn statement(&self, f: &mut Formatter<'_>, body: &Body, statement: &Statement) -> fmt::Result {
        match statement {
            Statement::Instruction(index) => match body.instructions.get(*index) {
                Some(instruction) => self.instruction(f, instruction),
                None => Ok(()),
            },
            Statement::Label(index) => {
                self.name(f, Reference::Label(*index))?;
                f.write_str(":\n")
            }
            Statement::Registers(index) => {
                let Some(group) = body.registers.get(*index) else { return Ok(()) };
                f.write_str(".reg ")?;
                if let Some(vector) = group.vector {
                    write!(f, "{vector} ")?;
                }
                write!(f, "{} {}", group.scalar, group.name)?;
                match group.count {
                    Some(count) => writeln!(f, "<{count}>;"),
                    None => f.write_str(";\n"),
                }
            }
            Statement::Variable(index) => match body.variables.get(*index) {
                Some(variable) => {
                    self.variable(f, variable)?;
                    f.write_str(";\n")
                }
                None => Ok(()),
            },
            Statement::Location(index) => match body.locations.get(*index) {
                Some(location) => write!(f, "{location}"),
                None => Ok(()),
            },
            Statement::BranchTargets(index) => {
                let Some(targets) = body.branch_targets.get(*index) else { return Ok(()) };
                write!(f, "{}: .branchtargets ", targets.name)?;
                list(f, &targets.labels, |f, label| self.name(f, Reference::Label(*label)))?;
                f.write_str(";\n")
            }
            Statement::CallTargets(index) => {
                let Some(targets) = body.call_targets.get(*index) else { return Ok(()) };
                write!(f, "{}: .calltargets ", targets.name)?;
                list(f, &targets.functions, |f, index| self.name(f, Reference::Function(*index)))?;
                f.write_str(";\n")
            }
            Statement::Prototype(index) => match body.prototypes.get(*index) {
                Some(prototype) => self.prototype(f, prototype),
                None => Ok(()),
            },
            Statement::Pragma(text) => writeln!(f, ".pragma \"{text}\";"),
            Statement::Open => f.write_str("{\n"),
            Statement::Close => f.write_str("}\n"),
        }
    }

    fn function(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        if let Some(linkage) = function.linkage {
            write!(f, "{linkage} ")?;
        }
        f.write_str(match function.kind {
            FunctionKind::Entry => ".entry ",
            FunctionKind::Device => ".func ",
        })?;
        if !function.returns.is_empty() {
            self.parameters(f, &function.returns)?;
            f.write_str(" ")?;
        }
        write!(f, "{}", function.name)?;
        self.parameters(f, &function.parameters)?;
        for directive in &function.directives {
            write!(f, "\n{} ", directive.word)?;
            list(f, &directive.values, |f, value| write!(f, "{value}"))?;
        }
        for pragma in &function.pragmas {
            write!(f, "\n.pragma \"{pragma}\";")?;
        }
        let Some(body) = &function.body else { return f.write_str(";\n") };
        f.write_str("\n{\n")?;
        for statement in &body.statements {
            self.statement(f, body, statement)?;
        }
        f.write_str("}\n")
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".loc {} {} {}", self.file, self.line, self.column)?;
        if let Some(at) = &self.inlined_at {
            write!(f, ", function_name {}", at.name_label)?;
            if at.name_offset != 0 {
                write!(f, "+{}", at.name_offset)?;
            }
            write!(f, ", inlined_at {} {} {}", at.file, at.line, at.column)?;
        }
        f.write_str("\n")
    }
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".version {}.{}\n.target ", self.version.major, self.version.minor)?;
        list(f, &self.target, |f, word| f.write_str(word))?;
        f.write_str("\n")?;
        if let Some(size) = self.address_size {
            writeln!(f, ".address_size {size}")?;
        }
        for item in &self.items {
            let names = Names { module: self, function: None, body: None };
            match item {
                Item::Variable(index) => {
                    if let Some(variable) = self.variables.get(*index) {
                        names.variable(f, variable)?;
                        f.write_str(";\n")?;
                    }
                }
                Item::Function(index) => {
                    if let Some(function) = self.functions.get(*index) {
                        let body = function.body.as_ref();
                        Names { module: self, function: Some(function), body }
                            .function(f, function)?;
                    }
                }
                Item::Pragma(index) => {
                    if let Some(pragma) = self.pragmas.get(*index) {
                        writeln!(f, ".pragma \"{pragma}\";")?;
                    }
                }
                Item::File(index) => {
                    let Some(file) = self.files.get(*index) else { continue };
                    write!(f, ".file {} \"{}\"", file.number, file.path)?;
                    if let Some((time, size)) = file.stamp {
                        write!(f, ", {time}, {size}")?;
                    }
                    f.write_str("\n")?;
                }
            }
        }
        Ok(())
    }
}
