//! Names to references.

use std::collections::HashMap;

use super::Name;
use super::body::RawStatement;
use super::scope::{Scope, duplicate};
use super::special::special;
use super::top::{RawFunction, RawItem, RawModule};
use crate::error::{NameKind, ParseError, Reason};
use crate::module::{
    Body, BranchTargets, CallTargets, Function, Guard, Instruction, Item, Label, Linkage, Module,
    Operand, Reference, RegisterGroup, ScalarType, Statement, Variable,
};

/// How many registers a function may declare; the hardware has 255 for a thread.
const REGISTERS: u32 = 1 << 24;

type Symbols = HashMap<String, Reference>;

/// Resolves every name of a module.
pub(super) fn module(text: &str, raw: RawModule<'_>) -> Result<Module, ParseError> {
    let symbols = symbols(text, &raw.items)?;
    let mut module = Module {
        version: raw.version,
        target: raw.target,
        address_size: raw.address_size,
        items: Vec::new(),
        variables: Vec::new(),
        functions: Vec::new(),
        files: Vec::new(),
        pragmas: Vec::new(),
    };
    for item in raw.items {
        match item {
            RawItem::Variable(_, variable) => {
                let variable = variable.replace_names(&mut |name: Name<'_>| {
                    let found = symbols.get(name.text).copied();
                    found.ok_or_else(|| unknown(text, name, NameKind::Symbol))
                })?;
                module.items.push(Item::Variable(module.variables.len()));
                module.variables.push(variable);
            }
            RawItem::Function(function) => {
                let function = resolve_function(text, &symbols, *function)?;
                module.items.push(Item::Function(module.functions.len()));
                module.functions.push(function);
            }
            RawItem::Pragma(pragma) => {
                module.items.push(Item::Pragma(module.pragmas.len()));
                module.pragmas.push(pragma.to_owned());
            }
            RawItem::File(file) => {
                module.items.push(Item::File(module.files.len()));
                module.files.push(file);
            }
        }
    }
    Ok(module)
}

fn unknown(text: &str, name: Name<'_>, kind: NameKind) -> ParseError {
    ParseError::at(text, name.offset, Reason::Unknown { kind, name: name.text.to_owned() })
}

fn wrong_kind(text: &str, name: Name<'_>, wanted: &'static str) -> ParseError {
    ParseError::at(text, name.offset, Reason::Kind { name: name.text.to_owned(), wanted })
}

/// The symbols of a module. Declarations may come again; definitions may not.
fn symbols(text: &str, items: &[RawItem<'_>]) -> Result<Symbols, ParseError> {
    let mut symbols: HashMap<&str, (Reference, bool)> = HashMap::new();
    let (mut variables, mut functions) = (0, 0);
    for item in items {
        let (name, offset, reference, defined) = match item {
            RawItem::Variable(offset, variable) => {
                variables += 1;
                let defined = variable.linkage != Some(Linkage::Extern);
                (&*variable.name, *offset, Reference::Variable(variables - 1), defined)
            }
            RawItem::Function(function) => {
                let RawFunction { name, header, body, .. } = &**function;
                functions += 1;
                (&*header.name, name.offset, Reference::Function(functions - 1), body.is_some())
            }
            RawItem::File(_) | RawItem::Pragma(_) => continue,
        };
        if let Some((earlier, earlier_defined)) = symbols.get(name) {
            let same = std::mem::discriminant(earlier) == std::mem::discriminant(&reference);
            if !same || (defined && *earlier_defined) {
                return Err(duplicate(text, Name { text: name, offset }));
            }
            if !defined {
                continue;
            }
        }
        symbols.insert(name, (reference, defined));
    }
    Ok(symbols.into_iter().map(|(name, (reference, _))| (name.to_owned(), reference)).collect())
}

fn resolve_function(
    text: &str,
    symbols: &Symbols,
    raw: RawFunction<'_>,
) -> Result<Function, ParseError> {
    let mut function = raw.header;
    let Some(statements) = raw.body else { return Ok(function) };
    // Parameters are outside the outermost block, which may shadow them.
    let mut body = Body::default();
    let own = function.returns.iter_mut().chain(&mut function.parameters);
    own.for_each(|own| parameter_register(own, &mut body));
    let mut outside = Scope::default();
    let registers = |own: &Variable| own.register.map(Reference::Register);
    for (index, (own, offset)) in function.returns.iter().zip(&raw.offsets[0]).enumerate() {
        let name = Name { text: &own.name, offset: *offset };
        outside.declare(text, name, registers(own).unwrap_or(Reference::Return(index)))?;
    }
    for (index, (own, offset)) in function.parameters.iter().zip(&raw.offsets[1]).enumerate() {
        let name = Name { text: &own.name, offset: *offset };
        outside.declare(text, name, registers(own).unwrap_or(Reference::Parameter(index)))?;
    }
    let scopes = labels(text, &statements, &mut body)?;
    let resolver =
        Resolver { text, symbols, outside, scopes, open: vec![0], opened: 0, labels: 0, body };
    let body = resolver.statements(&statements)?;
    function.body = Some(body);
    Ok(function)
}

/// A parameter in a register is the first of the registers of the body that are not taken yet.
fn parameter_register(own: &mut Variable, body: &mut Body) {
    let Some(register) = &mut own.register else { return };
    *register = body.register_count;
    body.register_count += 1;
    body.registers.push(RegisterGroup {
        name: own.name.clone(),
        count: None,
        first: *register,
        vector: None,
        scalar: own.scalar,
    });
}

/// One scope for each block, in the order in which they open, with the block's labels: they can be
/// used before they stand.
fn labels<'a>(
    text: &str,
    statements: &[RawStatement<'a>],
    body: &mut Body,
) -> Result<Vec<Scope<'a>>, ParseError> {
    let mut scopes = vec![Scope::default()];
    let mut open = vec![0];
    let mut instructions = 0;
    let (mut branches, mut calls, mut prototypes) = (0, 0, 0);
    for statement in statements {
        let (name, reference) = match statement {
            RawStatement::Label(name) => {
                let label = Label { name: name.text.to_owned(), instruction: instructions };
                body.labels.push(label);
                (*name, Reference::Label(body.labels.len() - 1))
            }
            RawStatement::BranchTargets(name, _) => {
                branches += 1;
                (*name, Reference::BranchTargets(branches - 1))
            }
            RawStatement::CallTargets(name, _) => {
                calls += 1;
                (*name, Reference::CallTargets(calls - 1))
            }
            RawStatement::Prototype(name, _) => {
                prototypes += 1;
                (*name, Reference::Prototype(prototypes - 1))
            }
            RawStatement::Instruction(_) => {
                instructions += 1;
                continue;
            }
            RawStatement::Open => {
                open.push(scopes.len());
                scopes.push(Scope::default());
                continue;
            }
            RawStatement::Close => {
                open.pop();
                continue;
            }
            _ => continue,
        };
        if let Some(scope) = open.last().and_then(|index| scopes.get_mut(*index)) {
            scope.declare(text, name, reference)?;
        }
    }
    Ok(scopes)
}

struct Resolver<'s, 'a> {
    text: &'s str,
    symbols: &'s Symbols,
    outside: Scope<'s>,
    /// Every block of the function.
    scopes: Vec<Scope<'a>>,
    /// The blocks around the statement, outermost first: indices into `scopes`.
    open: Vec<usize>,
    /// The number of the block opened last.
    opened: usize,
    /// How many labels have been passed.
    labels: usize,
    body: Body,
}

impl<'a> Resolver<'_, 'a> {
    fn find(&self, name: Name<'_>, kind: NameKind) -> Result<Reference, ParseError> {
        let inner = self.open.iter().rev().filter_map(|index| self.scopes.get(*index));
        let found = inner
            .chain([&self.outside])
            .find_map(|scope| scope.find(name.text))
            .or_else(|| self.symbols.get(name.text).copied())
            .or_else(|| special(name.text).map(Reference::Special));
        found.ok_or_else(|| {
            let kind = match name.text.as_bytes().first() {
                Some(b'%') => NameKind::Register,
                Some(b'$') => NameKind::Label,
                _ => kind,
            };
            unknown(self.text, name, kind)
        })
    }

    fn declare(&mut self, name: Name<'a>, reference: Reference) -> Result<(), ParseError> {
        let innermost = self.open.last().and_then(|index| self.scopes.get_mut(*index));
        innermost.map_or(Ok(()), |scope| scope.declare(self.text, name, reference))
    }

    fn statements(mut self, statements: &'a [RawStatement<'a>]) -> Result<Body, ParseError> {
        for statement in statements {
            let resolved = self.statement(statement)?;
            self.body.statements.push(resolved);
        }
        Ok(self.body)
    }

    fn statement(&mut self, statement: &'a RawStatement<'a>) -> Result<Statement, ParseError> {
        Ok(match statement {
            RawStatement::Instruction(instruction) => {
                let instruction = self.instruction(instruction)?;
                self.body.instructions.push(instruction);
                Statement::Instruction(self.body.instructions.len() - 1)
            }
            RawStatement::Label(_) => {
                // The labels were collected in the same order.
                self.labels += 1;
                Statement::Label(self.labels - 1)
            }
            RawStatement::Registers(name, group) => {
                self.registers(*name, group)?;
                Statement::Registers(self.body.registers.len() - 1)
            }
            RawStatement::Variable(offset, variable) => {
                let resolved =
                    variable.replace_names(&mut |own| self.find(own, NameKind::Symbol))?;
                let index = self.body.variables.len();
                self.declare(
                    Name { text: &variable.name, offset: *offset },
                    Reference::Local(index),
                )?;
                self.body.variables.push(resolved);
                Statement::Variable(index)
            }
            RawStatement::Location(location) => {
                self.body.locations.push(location.clone());
                Statement::Location(self.body.locations.len() - 1)
            }
            RawStatement::BranchTargets(name, targets) => {
                let labels =
                    targets.iter().map(|target| self.label(*target)).collect::<Result<_, _>>()?;
                let targets = BranchTargets { name: name.text.to_owned(), labels };
                self.body.branch_targets.push(targets);
                Statement::BranchTargets(self.body.branch_targets.len() - 1)
            }
            RawStatement::CallTargets(name, targets) => {
                let functions = targets
                    .iter()
                    .map(|target| self.function(*target))
                    .collect::<Result<_, _>>()?;
                let targets = CallTargets { name: name.text.to_owned(), functions };
                self.body.call_targets.push(targets);
                Statement::CallTargets(self.body.call_targets.len() - 1)
            }
            RawStatement::Prototype(_, prototype) => {
                self.body.prototypes.push(prototype.clone());
                Statement::Prototype(self.body.prototypes.len() - 1)
            }
            RawStatement::Pragma(pragma) => Statement::Pragma((*pragma).to_owned()),
            RawStatement::Open => {
                self.opened += 1;
                self.open.push(self.opened);
                Statement::Open
            }
            RawStatement::Close => {
                self.open.pop();
                Statement::Close
            }
        })
    }

    fn registers(&mut self, name: Name<'a>, group: &RegisterGroup) -> Result<(), ParseError> {
        let first = self.body.register_count;
        let total = first.checked_add(group.length()).filter(|total| *total <= REGISTERS);
        self.body.register_count = total.ok_or_else(|| {
            let reason = Reason::Limit { what: "registers in a function", limit: REGISTERS.into() };
            ParseError::at(self.text, name.offset, reason)
        })?;
        match group.count {
            None => self.declare(name, Reference::Register(first))?,
            Some(count) => {
                if let Some(scope) = self.open.last().and_then(|index| self.scopes.get_mut(*index))
                {
                    scope.declare_group(self.text, name, first, count)?;
                }
            }
        }
        self.body.registers.push(RegisterGroup { first, ..group.clone() });
        Ok(())
    }

    fn label(&self, name: Name<'_>) -> Result<usize, ParseError> {
        match self.find(name, NameKind::Label)? {
            Reference::Label(index) => Ok(index),
            _ => Err(wrong_kind(self.text, name, "a label of an instruction")),
        }
    }

    fn function(&self, name: Name<'_>) -> Result<usize, ParseError> {
        match self.find(name, NameKind::Symbol)? {
            Reference::Function(index) => Ok(index),
            _ => Err(wrong_kind(self.text, name, "a function")),
        }
    }

    /// A predicate after `@` or `!`.
    fn predicate(&self, name: Name<'_>) -> Result<Reference, ParseError> {
        let reference = self.find(name, NameKind::Symbol)?;
        let scalar = match reference {
            Reference::Register(index) => self.body.register(index).map(|(group, _)| group.scalar),
            Reference::Special("%is_explicit_cluster") => Some(ScalarType::Pred),
            _ => None,
        };
        match scalar {
            Some(ScalarType::Pred) => Ok(reference),
            _ => Err(wrong_kind(self.text, name, "a predicate register")),
        }
    }

    /// Names whose place allows only one kind.
    fn check(&self, operand: &Operand<Name<'a>>) -> Result<(), ParseError> {
        match operand {
            Operand::Not(name) => self.predicate(*name).map(|_| ()),
            Operand::Offset(name, _) => match self.find(*name, NameKind::Symbol)? {
                Reference::Local(_)
                | Reference::Parameter(_)
                | Reference::Return(_)
                | Reference::Variable(_)
                | Reference::Function(_) => Ok(()),
                _ => {
                    Err(wrong_kind(self.text, *name, "a symbol, which `+` outside brackets needs"))
                }
            },
            Operand::Component(name, _) => {
                let vector = match self.find(*name, NameKind::Symbol)? {
                    Reference::Special(_) => true,
                    Reference::Register(index) => {
                        self.body.register(index).is_some_and(|(group, _)| group.vector.is_some())
                    }
                    _ => false,
                };
                let error = || wrong_kind(self.text, *name, "a vector, which `.x` needs");
                vector.then_some(()).ok_or_else(error)
            }
            Operand::Vector(list) | Operand::Arguments(list) => {
                list.iter().try_for_each(|operand| self.check(operand))
            }
            Operand::Address(address) => {
                address.coordinates.iter().try_for_each(|operand| self.check(operand))
            }
            Operand::Name(_) | Operand::Immediate(_) | Operand::Sink | Operand::Pair(_) => Ok(()),
        }
    }

    fn instruction(&self, raw: &Instruction<Name<'a>>) -> Result<Instruction, ParseError> {
        let guard = match raw.guard {
            Some(Guard { predicate, negated }) => {
                Some(Guard { predicate: self.predicate(predicate)?, negated })
            }
            None => None,
        };
        let branch = raw.opcode.mnemonic == "bra";
        let kind = if branch { NameKind::Label } else { NameKind::Symbol };
        let mut operands = Vec::with_capacity(raw.operands.len());
        for operand in &raw.operands {
            self.check(operand)?;
            if let (true, Operand::Name(name)) = (branch, operand) {
                self.label(*name)?;
            }
            operands.push(operand.replace_names(&mut |name| self.find(name, kind))?);
        }
        let opcode = raw.opcode.clone();
        Ok(Instruction { guard, opcode, operands, line: raw.line, location: raw.location })
    }
}
