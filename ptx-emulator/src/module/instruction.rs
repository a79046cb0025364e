//! Instructions and their operands.
//!
//! The types are generic over what a name is: while parsing it is a piece of text, and in a
//! [`Module`](crate::Module) it is a resolved [`Reference`].

use std::fmt;

use super::types::Component;

/// What a name in an instruction or initialiser stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A register of the function, by its dense index.
    Register(u32),
    /// A special register, by its name.
    Special(&'static str),
    /// A place in the function: an index into `Body::labels`.
    Label(usize),
    /// A list of branch targets: an index into `Body::branch_targets`.
    BranchTargets(usize),
    /// A list of functions that a call may reach: an index into `Body::call_targets`.
    CallTargets(usize),
    /// The signature of an indirect call: an index into `Body::prototypes`.
    Prototype(usize),
    /// A variable declared in the function: an index into `Body::variables`.
    Local(usize),
    /// A parameter of the function: an index into `Function::parameters`.
    Parameter(usize),
    /// A return value of the function: an index into `Function::returns`.
    Return(usize),
    /// A variable of the module: an index into `Module::variables`.
    Variable(usize),
    /// A function of the module: an index into `Module::functions`.
    Function(usize),
}

/// A literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Immediate {
    /// An integer that fits the signed type, which is what PTX takes first.
    Signed(i64),
    /// An integer with `U`, or one too large for the signed type.
    Unsigned(u64),
    /// The bits of a single, from `0f…`.
    Single(u32),
    /// The bits of a double, from `0d…` or a decimal with a point or exponent.
    Double(u64),
}

impl fmt::Display for Immediate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}U"),
            Self::Single(bits) => write!(f, "0f{bits:08X}"),
            Self::Double(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base<N = Reference> {
    /// A register or a symbol.
    Name(N),
    /// A fixed address.
    Immediate(u64),
}

/// `[base+offset]`, or `[base, {…}]` for tensor maps and textures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address<N = Reference> {
    /// What the address starts from.
    pub base: Base<N>,
    /// Bytes added to it.
    pub offset: i64,
    /// What follows the base inside the brackets: coordinates, or a sampler and coordinates.
    pub coordinates: Vec<Operand<N>>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand<N = Reference> {
    /// A register, special register, label or symbol.
    Name(N),
    /// `!%p`: the opposite of a predicate.
    Not(N),
    /// `%tid.x`: an element of a vector.
    Component(N, Component),
    /// `symbol+4` outside brackets: the address, moved.
    Offset(N, i64),
    /// A literal.
    Immediate(Immediate),
    /// `_`: a result nobody wants.
    Sink,
    /// `%r|%p`: two destinations.
    Pair(Box<[Operand<N>; 2]>),
    /// `{…}`.
    Vector(Vec<Operand<N>>),
    /// `[…]`.
    Address(Address<N>),
    /// `(…)`: the results or arguments of a call.
    Arguments(Vec<Operand<N>>),
}

impl<N: Copy> Operand<N> {
    /// The same operand with every name replaced.
    ///
    /// # Errors
    ///
    /// The first that `replace` returns.
    pub fn replace_names<M, E>(
        &self,
        replace: &mut impl FnMut(N) -> Result<M, E>,
    ) -> Result<Operand<M>, E> {
        // The parser nests operands at most three deep, so this recursion is bounded.
        let list = |operands: &[Self], replace: &mut _| {
            let replaced = operands.iter().map(|operand| operand.replace_names(replace));
            replaced.collect::<Result<Vec<_>, E>>()
        };
        Ok(match self {
            Self::Name(name) => Operand::Name(replace(*name)?),
            Self::Not(name) => Operand::Not(replace(*name)?),
            Self::Component(name, component) => Operand::Component(replace(*name)?, *component),
            Self::Offset(name, offset) => Operand::Offset(replace(*name)?, *offset),
            Self::Immediate(immediate) => Operand::Immediate(*immediate),
            Self::Sink => Operand::Sink,
            Self::Pair(pair) => Operand::Pair(Box::new([
                pair[0].replace_names(replace)?,
                pair[1].replace_names(replace)?,
            ])),
            Self::Vector(elements) => Operand::Vector(list(elements, replace)?),
            Self::Arguments(operands) => Operand::Arguments(list(operands, replace)?),
            Self::Address(address) => Operand::Address(Address {
                base: match address.base {
                    Base::Name(name) => Base::Name(replace(name)?),
                    Base::Immediate(value) => Base::Immediate(value),
                },
                offset: address.offset,
                coordinates: list(&address.coordinates, replace)?,
            }),
        })
    }
}

/// `add.rn.f32` as `add` and `rn`, `f32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opcode {
    /// The word before the first dot.
    pub mnemonic: String,
    /// The words behind the dots, in order; `shared::cta` is one word.
    pub modifiers: Vec<String>,
}

impl Opcode {
    /// Whether a modifier is among those of the opcode; it is given without its dot.
    #[must_use]
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|own| own == modifier)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mnemonic)?;
        self.modifiers.iter().try_for_each(|modifier| write!(f, ".{modifier}"))
    }
}

/// `@%p` or `@!%p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<N = Reference> {
    /// The predicate register.
    pub predicate: N,
    /// Whether the instruction runs where the predicate is false.
    pub negated: bool,
}

/// A place in the source the PTX was compiled from, from `.loc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of a `.file`.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// Where this was inlined to, if the compiler says so.
    pub inlined_at: Option<Inlined>,
}

/// The `function_name …, inlined_at …` part of a `.loc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// The label in the debug sections where the inlined function's name is.
    pub name_label: String,
    /// Bytes behind that label.
    pub name_offset: u32,
    /// The number of a `.file`.
    pub file: u32,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction<N = Reference> {
    /// Who executes it; everyone if absent.
    pub guard: Option<Guard<N>>,
    /// What it does.
    pub opcode: Opcode,
    /// On what, destinations first.
    pub operands: Vec<Operand<N>>,
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// An index into `Body::locations`: the `.loc` that precedes it.
    pub location: Option<usize>,
}
