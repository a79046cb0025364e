//! Operands as the executor sees them: which file, which row, or which constant.

/// The kinds of register of a function. 16-bit and 8-bit registers share the rows of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Predicate,
    Word,
    Double,
    Quad,
}

impl File {
    /// Whose rows hold values of so many bits that are no predicates.
    pub(crate) fn of_bits(bits: u32) -> Self {
        match bits {
            0..=32 => Self::Word,
            33..=64 => Self::Double,
            _ => Self::Quad,
        }
    }
}

/// A source of up to 32 bits; narrower ones are in the low bits, the rest is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source32 {
    Register(u32),
    Immediate(u32),
}

/// A source of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source64 {
    Register(u32),
    Immediate(u64),
}

/// A source of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source128 {
    Register(u32),
    Immediate(u128),
}

/// A source predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourcePredicate {
    Register(u32),
    Negated(u32),
    Constant(bool),
}

/// A destination: the row of a register file, or nothing for `_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination(pub(crate) Option<u32>);

/// A destination whose register may be wider than the value, as in `ld` and `cvt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wide {
    Word(Destination),
    Double(Destination),
    Quad(Destination),
}

impl Wide {
    /// A destination in a file; predicates have their own.
    pub(crate) fn of(file: File, destination: Destination) -> Self {
        match file {
            File::Predicate | File::Word => Self::Word(destination),
            File::Double => Self::Double(destination),
            File::Quad => Self::Quad(destination),
        }
    }
}

/// A source whose register may be wider than what is read, as in `st` and `cvt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Any {
    Word(Source32),
    Double(Source64),
    Quad(Source128),
}

impl Any {
    /// A row of a file as a source; predicates have their own.
    pub(crate) fn register(file: File, row: u32) -> Self {
        match file {
            File::Predicate | File::Word => Self::Word(Source32::Register(row)),
            File::Double => Self::Double(Source64::Register(row)),
            File::Quad => Self::Quad(Source128::Register(row)),
        }
    }
}

/// An address: a base and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: AddressBase,
    pub(crate) offset: i64,
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressBase {
    /// A 32-bit register: shared memory.
    Word(u32),
    /// A 64-bit register.
    Double(u32),
    /// A fixed address: of a symbol, already in the space of the instruction.
    Constant(u64),
    /// A variable in shared memory, by its offset in the block's; which block's, the executing
    /// thread knows.
    Shared(u32),
    /// A variable of the executing function in local memory, by its offset in the frame.
    Frame(u64),
    /// A parameter variable of the executing function, by its offset in the frame's parameters.
    Parameter(u64),
}

/// When an instruction is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Always,
    If(u32),
    Unless(u32),
}
