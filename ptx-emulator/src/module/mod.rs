//! A module as plain data.

mod function;
mod instruction;
mod print;
mod types;
mod variable;

pub use function::{
    Body, BranchTargets, CallTargets, Directive, Function, FunctionKind, Label, Prototype,
    RegisterGroup, Statement,
};
pub use instruction::{
    Address, Base, Guard, Immediate, Inlined, Instruction, Location, Opcode, Operand, Reference,
};
pub use types::{Component, Linkage, ScalarType, StateSpace, VectorLength};
pub use variable::{Initialiser, Pointee, Variable};

/// The number after `.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Before the point.
    pub major: u32,
    /// After the point.
    pub minor: u32,
}

/// A `.file`: what the first number of a `.loc` stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its number.
    pub number: u32,
    /// Its path.
    pub path: String,
    /// Its time stamp and size, if stated.
    pub stamp: Option<(u64, u64)>,
}

/// Something at the top level of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// An index into [`Module::variables`].
    Variable(usize),
    /// An index into [`Module::functions`].
    Function(usize),
    /// An index into [`Module::files`].
    File(usize),
    /// An index into [`Module::pragmas`].
    Pragma(usize),
}

/// A PTX module. Its `Display` is PTX text again, without comments and debug sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The version of the language.
    pub version: Version,
    /// The words after `.target`: an architecture, and options such as `debug`.
    pub target: Vec<String>,
    /// 32 or 64, if stated.
    pub address_size: Option<u32>,
    /// What stands at the top level, in order.
    pub items: Vec<Item>,
    /// Variables of the module.
    pub variables: Vec<Variable>,
    /// Entries and functions. One that is declared and then defined is here twice, and
    /// references lead to the definition.
    pub functions: Vec<Function>,
    /// Source files.
    pub files: Vec<SourceFile>,
    /// What `.pragma` says at the top level, between the quotes.
    pub pragmas: Vec<String>,
}

impl Module {
    /// The entries with a body, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Function> {
        self.functions
            .iter()
            .filter(|function| function.kind == FunctionKind::Entry && function.body.is_some())
    }

    /// Sets every line number to zero, so that modules can be compared whatever their layout.
    pub fn forget_lines(&mut self) {
        for function in &mut self.functions {
            function.line = 0;
            for instruction in function.body.iter_mut().flat_map(|body| &mut body.instructions) {
                instruction.line = 0;
            }
        }
    }
}
