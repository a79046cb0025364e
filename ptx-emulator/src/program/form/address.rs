//! Operands as addresses, and the symbols in them.

use super::{Form, Problem};
use crate::module::{self, Base, Operand, Reference, StateSpace};
use crate::ops::Operation;
use crate::ops::special::Special;
use crate::program::fit;
use crate::program::operand::{Address, AddressBase, Destination, File};

/// What an operand that names a symbol, or a symbol with an offset, stands for.
pub(super) enum Symbol {
    /// A fixed address in the symbol's space.
    Constant(u64),
    /// An offset in the shared memory of the executing block.
    Shared(u32),
    /// An offset in the frame's local memory.
    Frame(u64),
}

impl<'f> Form<'f, '_> {
    /// The state space of the symbol that operand `index` is.
    pub(crate) fn symbol_of(&self, index: usize) -> Option<StateSpace> {
        match self.operand(index) {
            Ok(Operand::Name(name) | Operand::Offset(name, _)) => self.lowering.space_of(*name),
            _ => None,
        }
    }

    /// The state space of the symbol that operand `index` names between brackets.
    pub(crate) fn symbol_space(&self, index: usize) -> Option<StateSpace> {
        match self.operand(index) {
            Ok(Operand::Address(module::Address { base: Base::Name(name), .. })) => {
                self.lowering.space_of(*name)
            }
            _ => None,
        }
    }

    pub(super) fn symbol(&self, operand: &Operand) -> Result<Option<Symbol>, Problem> {
        let (name, offset) = match operand {
            Operand::Name(name) => (*name, 0),
            Operand::Offset(name, offset) => (*name, *offset),
            _ => return Ok(None),
        };
        let found = self.resolve(name, offset)?;
        if found.is_some() {
            self.only_for(&["mov", "cvta", "mapa", "getctarank"], "the address of a symbol")?;
        }
        Ok(found)
    }

    /// Some sources are for a few instructions; others want what these have put into a register.
    pub(super) fn only_for(&self, mnemonics: &[&str], source: &str) -> Result<(), Problem> {
        if mnemonics.contains(&self.mnemonic()) {
            return Ok(());
        }
        Err(format!("{source} is a source of `mov`, not of this"))
    }

    pub(super) fn resolve(&self, name: Reference, offset: i64) -> Result<Option<Symbol>, Problem> {
        let moved = |address: u64| address.wrapping_add_signed(offset);
        let shared = |found: Option<u32>| {
            let base = found.ok_or("a shared variable without a place")?;
            Ok::<_, Problem>(Symbol::Shared(base.wrapping_add(offset as u32)))
        };
        Ok(Some(match name {
            Reference::Variable(index) => match self.lowering.variable_address(index) {
                Some(address) => Symbol::Constant(moved(address)),
                None if self.lowering.space_of(name) == Some(StateSpace::Shared) => {
                    shared(self.lowering.shared_variable(index))?
                }
                None => {
                    let name = self.lowering.variable_name(index);
                    return Err(format!("`{name}` is declared but not defined"));
                }
            },
            Reference::Function(index) => Symbol::Constant(self.lowering.function_address(index)),
            Reference::Local(index) => match self.lowering.local_space(index) {
                Some(StateSpace::Shared) => shared(self.lowering.shared_local(index))?,
                Some(StateSpace::Local) => {
                    Symbol::Frame(moved(self.lowering.frame_offset(index).unwrap_or(0)))
                }
                Some(StateSpace::Global | StateSpace::Const) => {
                    let place = self.lowering.inner_address(index);
                    Symbol::Constant(moved(place.ok_or("a variable without a place")?))
                }
                _ => return Err("the address of a parameter variable cannot be taken".to_owned()),
            },
            Reference::Parameter(index) if self.lowering.is_entry() => {
                Symbol::Constant(moved(self.lowering.parameter(index)?.offset.into()))
            }
            Reference::Parameter(index) => match self.lowering.copied(index) {
                Some(place) => Symbol::Frame(moved(place)),
                None => return Err("a parameter without an address".to_owned()),
            },
            Reference::Return(_) => {
                return Err("the address of what a function returns is not supported".to_owned());
            }
            _ => return Ok(None),
        }))
    }

    /// The brackets of operand `index`, for coordinates.
    pub(crate) fn bracket(&self, index: usize) -> Result<&'f module::Address, Problem> {
        match self.operand(index)? {
            Operand::Address(address) => Ok(address),
            _ => Err(format!("operand {} must be an address in brackets", index + 1)),
        }
    }

    /// Operand `index` as an address. In the space of a shared or local variable the address is
    /// that of the space; a generic instruction that names such a variable is refused.
    pub(crate) fn address(
        &mut self,
        index: usize,
        space: Option<StateSpace>,
    ) -> Result<Address, Problem> {
        let address = self.bracket(index)?;
        self.address_of(address, space)
    }

    pub(crate) fn address_of(
        &mut self,
        address: &module::Address,
        space: Option<StateSpace>,
    ) -> Result<Address, Problem> {
        let offset = address.offset;
        let name = match address.base {
            Base::Immediate(value) => {
                return Ok(Address { base: AddressBase::Constant(value), offset });
            }
            Base::Name(name) => name,
        };
        if let Reference::Register(index) = name {
            if self.lowering.register_name(index).is_some_and(|(_, own)| fit::is_float(own)) {
                return Err("an address register holds no floating-point number".to_owned());
            }
            let base = match self.lowering.register(index) {
                Some((File::Word, row)) => {
                    self.lowering.note_read(row);
                    AddressBase::Word(row)
                }
                Some((File::Double, row)) => AddressBase::Double(row),
                _ => return Err("an address register has 32 or 64 bits".to_owned()),
            };
            return Ok(Address { base, offset });
        }
        if space == Some(StateSpace::Param)
            && let Some(place) = self.lowering.call_parameter(name)?
        {
            return Ok(Address { base: AddressBase::Parameter(place.offset.into()), offset });
        }
        let wrong = || "the symbol lies in another state space".to_owned();
        // Constants and parameters have no generic address that an instruction could name.
        let fits = match (space, self.lowering.space_of(name)) {
            (None, own) => !matches!(own, Some(StateSpace::Const | StateSpace::Param)),
            (wanted, own) => wanted == own || own.is_none(),
        };
        if !fits {
            return Err(wrong());
        }
        let base = match self.resolve(name, 0)? {
            Some(Symbol::Constant(value)) => AddressBase::Constant(value),
            Some(Symbol::Shared(value)) => match space {
                Some(StateSpace::Shared) => AddressBase::Shared(value),
                // A generic access by name: the address is completed at run time.
                None => {
                    let row = self.lowering.temporary(File::Double);
                    let special = Special::GenericShared(value);
                    self.emit(Operation::Special(special.into_double(Destination(Some(row)))));
                    AddressBase::Double(row)
                }
                _ => return Err(wrong()),
            },
            Some(Symbol::Frame(value)) => match space {
                Some(StateSpace::Local) => AddressBase::Frame(value),
                None => {
                    let row = self.lowering.temporary(File::Double);
                    let special = Special::GenericFrame(value);
                    self.emit(Operation::Special(special.into_double(Destination(Some(row)))));
                    AddressBase::Double(row)
                }
                _ => return Err(wrong()),
            },
            None => return Err("an address is wanted".to_owned()),
        };
        Ok(Address { base, offset })
    }
}
