//! Operands as sources.

use super::address::Symbol;
use super::literal::{immediate32, immediate64};
use super::{Form, Problem};
use crate::module::{Immediate, Operand, Reference};
use crate::ops::Operation;
use crate::ops::special::Special;
use crate::program::fit;
use crate::program::operand::{
    Any, Destination, File, Source32, Source64, Source128, SourcePredicate,
};
use crate::program::types::DataType;

impl Form<'_, '_> {
    /// A special register becomes an instruction of its own that fills a temporary one.
    fn special32(&mut self, operand: &Operand) -> Result<Option<u32>, Problem> {
        let special = match operand {
            Operand::Name(Reference::Special(name)) => Special::word(name, None),
            Operand::Component(Reference::Special(name), component) => {
                Special::word(name, Some(*component))
            }
            _ => return Ok(None),
        };
        let special = special.ok_or_else(|| special_problem(operand))?;
        if special != Special::WarpSize {
            self.only_for(&["mov", "cvt"], "a special register")?;
        }
        let row = self.lowering.temporary(File::Word);
        self.emit(Operation::Special(special.into_word(Destination(Some(row)))));
        Ok(Some(row))
    }

    /// A source of up to 32 bits whose literals are of type `data_type`.
    pub(crate) fn source32_of(
        &mut self,
        operand: &Operand,
        data_type: DataType,
    ) -> Result<Source32, Problem> {
        if let Operand::Immediate(immediate) = operand {
            return Ok(Source32::Immediate(immediate32(*immediate, data_type)?));
        }
        if let Some((file, row)) = self.register(operand) {
            self.check_fit(operand, data_type, fit::fits)?;
            return self.word_row(file, row);
        }
        if let Some(row) = self.special32(operand)? {
            return Ok(Source32::Register(row));
        }
        match self.symbol(operand)? {
            Some(Symbol::Constant(address)) => Ok(Source32::Immediate(address as u32)),
            Some(symbol) => {
                let row = self.lowering.temporary(File::Word);
                let destination = Destination(Some(row));
                self.emit(Operation::Special(match symbol {
                    Symbol::Frame(offset) => Special::Frame(offset).into_word(destination),
                    Symbol::Shared(offset) => Special::Shared(offset).into_word(destination),
                    Symbol::Constant(_) => return Err("a constant".to_owned()),
                }));
                Ok(Source32::Register(row))
            }
            None => Err("a 32-bit source is wanted".to_owned()),
        }
    }

    /// Operand `index` as a source of up to 32 bits.
    pub(crate) fn source32(&mut self, index: usize, ty: DataType) -> Result<Source32, Problem> {
        let operand = self.operand(index)?;
        self.source32_of(operand, ty)
    }

    /// A source of 64 bits whose literals are of type `data_type`.
    pub(crate) fn source64_of(
        &mut self,
        operand: &Operand,
        data_type: DataType,
    ) -> Result<Source64, Problem> {
        if let Operand::Immediate(immediate) = operand {
            return Ok(Source64::Immediate(immediate64(*immediate, data_type)?));
        }
        if let Some((file, row)) = self.register(operand) {
            self.check_fit(operand, data_type, fit::fits)?;
            return match file {
                File::Double => Ok(Source64::Register(row)),
                _ => Err("a source register of another width".to_owned()),
            };
        }
        let special = match operand {
            Operand::Name(Reference::Special(name)) => {
                self.only_for(&["mov", "cvt"], "a special register")?;
                Some(Special::double(name).ok_or_else(|| special_problem(operand))?)
            }
            _ => None,
        };
        let special = match (special, self.symbol(operand)?) {
            (Some(special), _) => special,
            (None, Some(Symbol::Constant(address))) => return Ok(Source64::Immediate(address)),
            (None, Some(Symbol::Frame(offset))) => Special::Frame(offset),
            (None, Some(Symbol::Shared(offset))) => Special::Shared(offset),
            (None, None) => return Err("a 64-bit source is wanted".to_owned()),
        };
        let row = self.lowering.temporary(File::Double);
        self.emit(Operation::Special(special.into_double(Destination(Some(row)))));
        Ok(Source64::Register(row))
    }

    /// Operand `index` as a source of 64 bits.
    pub(crate) fn source64(&mut self, index: usize, ty: DataType) -> Result<Source64, Problem> {
        let operand = self.operand(index)?;
        self.source64_of(operand, ty)
    }

    /// Operand `index` as a source of 128 bits.
    pub(crate) fn source128(&mut self, index: usize) -> Result<Source128, Problem> {
        self.source128_of(self.operand(index)?)
    }

    fn source128_of(&self, operand: &Operand) -> Result<Source128, Problem> {
        match (operand, self.register(operand)) {
            (_, Some((File::Quad, row))) => Ok(Source128::Register(row)),
            (Operand::Immediate(value), None) => {
                Ok(Source128::Immediate(immediate64(*value, DataType::B64)?.into()))
            }
            _ => Err("a 128-bit source is wanted".to_owned()),
        }
    }

    /// A source whose register may be wider than the type.
    pub(crate) fn any_of(&mut self, operand: &Operand, ty: DataType) -> Result<Any, Problem> {
        if self.register(operand).is_some() {
            self.check_fit(operand, ty, fit::holds)?;
        }
        match self.register(operand) {
            Some((File::Predicate, _)) => Err("a predicate is no source here".to_owned()),
            Some((file, row)) => {
                if file == File::Word {
                    self.lowering.note_read(row);
                }
                Ok(Any::register(file, row))
            }
            None if ty.bits() <= 32 => Ok(Any::Word(self.source32_of(operand, ty)?)),
            None => Ok(Any::Double(self.source64_of(operand, ty)?)),
        }
    }

    /// A source of exactly the type.
    pub(crate) fn exact_of(&mut self, operand: &Operand, ty: DataType) -> Result<Any, Problem> {
        Ok(match ty.bits() {
            128 => Any::Quad(self.source128_of(operand)?),
            64 => Any::Double(self.source64_of(operand, ty)?),
            _ => Any::Word(self.source32_of(operand, ty)?),
        })
    }

    /// Operand `index` as a source whose register may be wider than the type.
    pub(crate) fn any(&mut self, index: usize, ty: DataType) -> Result<Any, Problem> {
        let operand = self.operand(index)?;
        self.any_of(operand, ty)
    }

    pub(crate) fn predicate_of(&self, operand: &Operand) -> Result<SourcePredicate, Problem> {
        match operand {
            Operand::Not(Reference::Register(index)) => match self.lowering.register(*index) {
                Some((File::Predicate, row)) => Ok(SourcePredicate::Negated(row)),
                _ => Err("a predicate is wanted".to_owned()),
            },
            Operand::Immediate(Immediate::Signed(value)) => {
                Ok(SourcePredicate::Constant(*value != 0))
            }
            Operand::Immediate(Immediate::Unsigned(value)) => {
                Ok(SourcePredicate::Constant(*value != 0))
            }
            // Launches without a cluster have one block a cluster; the register tells them apart.
            Operand::Name(Reference::Special("%is_explicit_cluster")) => {
                Ok(SourcePredicate::Constant(self.lowering.is_explicit_cluster()))
            }
            _ => match self.register(operand) {
                Some((File::Predicate, row)) => Ok(SourcePredicate::Register(row)),
                _ => Err("a predicate is wanted".to_owned()),
            },
        }
    }

    /// Operand `index` as a source predicate: `%p`, `!%p`, 0 or 1.
    pub(crate) fn predicate(&self, index: usize) -> Result<SourcePredicate, Problem> {
        self.predicate_of(self.operand(index)?)
    }

    /// The row of a register of words, which is read.
    fn word_row(&mut self, file: File, row: u32) -> Result<Source32, Problem> {
        if file != File::Word {
            return Err("a source register of another width".to_owned());
        }
        self.lowering.note_read(row);
        Ok(Source32::Register(row))
    }
}

/// The error that an instruction has no such special register.
fn special_problem(operand: &Operand) -> Problem {
    match operand {
        Operand::Name(Reference::Special(name)) => {
            format!("the special register `{name}` is not supported here")
        }
        Operand::Component(Reference::Special(name), component) => {
            format!("the special register `{name}{component}` is not supported here")
        }
        _ => "a special register is wanted".to_owned(),
    }
}
