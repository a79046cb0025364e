//! Functions and their bodies.

use super::instruction::{Instruction, Location};
use super::types::{Linkage, ScalarType, VectorLength};
use super::variable::Variable;

/// Who starts a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// The host: `.entry`.
    Entry,
    /// Other functions: `.func`.
    Device,
}

/// A directive between the parameters and the body, such as `.reqntid 128, 1, 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its word, with the dot.
    pub word: &'static str,
    /// Its numbers.
    pub values: Vec<u32>,
}

/// A function: declared only, or with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Who can see it.
    pub linkage: Option<Linkage>,
    /// Who starts it.
    pub kind: FunctionKind,
    /// Its name.
    pub name: String,
    /// What it returns.
    pub returns: Vec<Variable>,
    /// What it is given.
    pub parameters: Vec<Variable>,
    /// Launch bounds and the like.
    pub directives: Vec<Directive>,
    /// What `.pragma` says before the body, between the quotes.
    pub pragmas: Vec<String>,
    /// What it does; absent in a declaration.
    pub body: Option<Body>,
    /// The line of its name, from 1.
    pub line: u32,
}

/// Registers declared together: `%r<5>`, or one without a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterGroup {
    /// The name, or what precedes the number.
    pub name: String,
    /// How many there are; absent for a single register without a number.
    pub count: Option<u32>,
    /// The dense index of the first.
    pub first: u32,
    /// The declared vector length.
    pub vector: Option<VectorLength>,
    /// The declared type. Instructions bring their own; this one gives the width.
    pub scalar: ScalarType,
}

impl RegisterGroup {
    /// How many registers the group has.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.count.unwrap_or(1)
    }
}

/// A label of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name, which only its block knows.
    pub name: String,
    /// The instruction it stands before; the number of instructions if it stands at the end.
    pub instruction: usize,
}

/// `name: .branchtargets …;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTargets {
    /// Its name.
    pub name: String,
    /// Indices into [`Body::labels`].
    pub labels: Vec<usize>,
}

/// `name: .calltargets …;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTargets {
    /// Its name.
    pub name: String,
    /// Indices into `Module::functions`.
    pub functions: Vec<usize>,
}

/// `name: .callprototype …;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// Its name.
    pub name: String,
    /// What the function returns.
    pub returns: Vec<Variable>,
    /// What it is given.
    pub parameters: Vec<Variable>,
    /// Whether it never returns.
    pub noreturn: bool,
}

/// The text of a body in order. An interpreter needs only [`Body::instructions`]; this keeps
/// blocks and declarations, so that a module can be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// An index into [`Body::instructions`].
    Instruction(usize),
    /// An index into [`Body::labels`].
    Label(usize),
    /// An index into [`Body::registers`].
    Registers(usize),
    /// An index into [`Body::variables`].
    Variable(usize),
    /// An index into [`Body::locations`].
    Location(usize),
    /// An index into [`Body::branch_targets`].
    BranchTargets(usize),
    /// An index into [`Body::call_targets`].
    CallTargets(usize),
    /// An index into [`Body::prototypes`].
    Prototype(usize),
    /// `.pragma`, with the text between the quotes.
    Pragma(String),
    /// `{`: names declared from here on are forgotten at the matching [`Statement::Close`].
    Open,
    /// `}`.
    Close,
}

/// What a function does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// All instructions of all blocks, in order.
    pub instructions: Vec<Instruction>,
    /// The text in order.
    pub statements: Vec<Statement>,
    /// The registers of all blocks; a register that shadows another has an index of its own.
    pub registers: Vec<RegisterGroup>,
    /// How many registers there are.
    pub register_count: u32,
    /// Variables of all blocks, also those of calls.
    pub variables: Vec<Variable>,
    /// Labels of all blocks.
    pub labels: Vec<Label>,
    /// Lists for `brx.idx`.
    pub branch_targets: Vec<BranchTargets>,
    /// Lists for indirect calls.
    pub call_targets: Vec<CallTargets>,
    /// Signatures for indirect calls.
    pub prototypes: Vec<Prototype>,
    /// Source positions.
    pub locations: Vec<Location>,
}

impl Body {
    /// The group a register belongs to, and its number there.
    #[must_use]
    pub fn register(&self, index: u32) -> Option<(&RegisterGroup, u32)> {
        // The groups are in order of their first index; empty ones share it with their successor.
        let after = self.registers.partition_point(|group| group.first <= index);
        let group = self.registers.get(after.checked_sub(1)?)?;
        let number = index - group.first;
        (number < group.length()).then_some((group, number))
    }
}
