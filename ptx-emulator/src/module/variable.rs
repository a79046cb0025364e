//! Variables, parameters and what they start with.

use super::instruction::{Immediate, Reference};
use super::types::{Linkage, ScalarType, StateSpace, VectorLength};

/// What `.ptr` says about the memory a parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointee {
    /// Its space; generic if absent.
    pub space: Option<StateSpace>,
    /// Its alignment in bytes, if stated.
    pub align: Option<u32>,
}

/// A value in an initialiser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialiser<N = Reference> {
    /// A literal.
    Immediate(Immediate),
    /// The address of a symbol.
    Symbol {
        /// The symbol.
        name: N,
        /// Whether `generic(…)` turns it into a generic address.
        generic: bool,
        /// Bytes added to it.
        offset: i64,
        /// `0xFF00(…)`: which bits of the address are stored, shifted to the lowest place.
        mask: Option<u64>,
    },
    /// `{…}`. It may be shorter than the array; the rest is zero.
    List(Vec<Initialiser<N>>),
}

/// A variable or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<N = Reference> {
    /// Who can see it.
    pub linkage: Option<Linkage>,
    /// Where it lies.
    pub space: StateSpace,
    /// Its alignment in bytes, if stated.
    pub align: Option<u32>,
    /// The vector length of an element, if it is a vector.
    pub vector: Option<VectorLength>,
    /// The type of an element.
    pub scalar: ScalarType,
    /// What a parameter points to, if `.ptr` says so.
    pub pointee: Option<Pointee>,
    /// Whether `.attribute(.managed)` is given.
    pub managed: bool,
    /// The dense index of the register that a parameter `.reg` of a function with a body is; zero
    /// without a body.
    pub register: Option<u32>,
    /// Its name; `_` in a prototype.
    pub name: String,
    /// The lengths of the array, outermost first; none for a scalar. `None` is `[]`.
    pub lengths: Vec<Option<u64>>,
    /// What it starts with.
    pub initialiser: Option<Initialiser<N>>,
}

impl<N> Variable<N> {
    /// The size in bytes; absent for `[]` without values, for predicates, and beyond 64 bits.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        let elements = self.vector.map_or(1, VectorLength::length);
        let element = u64::from(self.scalar.bytes()?) * u64::from(elements);
        // The outermost length may be that of the list of values.
        let listed = match &self.initialiser {
            Some(Initialiser::List(values)) if !values.is_empty() => Some(values.len() as u64),
            _ => None,
        };
        let lengths = self.lengths.iter().enumerate();
        lengths.into_iter().try_fold(element, |bytes, (place, length)| {
            bytes.checked_mul(length.or(if place == 0 { listed } else { None })?)
        })
    }
}

impl<N: Copy> Initialiser<N> {
    /// The same initialiser with every name replaced. The parser bounds the nesting.
    pub(crate) fn replace_names<M, E>(
        &self,
        replace: &mut impl FnMut(N) -> Result<M, E>,
    ) -> Result<Initialiser<M>, E> {
        Ok(match self {
            Self::Immediate(immediate) => Initialiser::Immediate(*immediate),
            Self::Symbol { name, generic, offset, mask } => Initialiser::Symbol {
                name: replace(*name)?,
                generic: *generic,
                offset: *offset,
                mask: *mask,
            },
            Self::List(values) => Initialiser::List(
                values
                    .iter()
                    .map(|value| value.replace_names(replace))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }
}

impl<N: Copy> Variable<N> {
    /// The same variable with every name in its initialiser replaced.
    pub(crate) fn replace_names<M, E>(
        &self,
        replace: &mut impl FnMut(N) -> Result<M, E>,
    ) -> Result<Variable<M>, E> {
        let initialiser = match &self.initialiser {
            Some(initialiser) => Some(initialiser.replace_names(replace)?),
            None => None,
        };
        Ok(Variable {
            linkage: self.linkage,
            space: self.space,
            align: self.align,
            vector: self.vector,
            scalar: self.scalar,
            pointee: self.pointee,
            managed: self.managed,
            register: self.register,
            name: self.name.clone(),
            lengths: self.lengths.clone(),
            initialiser,
        })
    }
}
