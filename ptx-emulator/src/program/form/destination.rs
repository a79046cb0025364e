//! Operands as destinations.

use super::{Form, Problem};
use crate::module::{Operand, Reference, ScalarType};
use crate::program::fit;
use crate::program::operand::{Destination, File, Wide};
use crate::program::types::DataType;

impl Form<'_, '_> {
    /// A destination register for a value of a type.
    pub(crate) fn destination_of(
        &mut self,
        operand: &Operand,
        ty: DataType,
    ) -> Result<Destination, Problem> {
        self.checked_destination(operand, ty, fit::fits)
    }

    fn checked_destination(
        &mut self,
        operand: &Operand,
        ty: DataType,
        fits: fn(ScalarType, DataType) -> bool,
    ) -> Result<Destination, Problem> {
        if *operand == Operand::Sink {
            return Ok(Destination(None));
        }
        let found = self.register(operand);
        let (file, row) = found.ok_or("a register is wanted as destination")?;
        self.check_fit(operand, ty, fits)?;
        if file == File::Word {
            self.lowering.note_write(row);
        }
        if let Operand::Name(Reference::Register(register)) = operand {
            self.lowering.note_destination(*register);
        }
        Ok(Destination(Some(row)))
    }

    /// Operand `index` as a destination of a type.
    pub(crate) fn destination(
        &mut self,
        index: usize,
        ty: DataType,
    ) -> Result<Destination, Problem> {
        self.destination_of(self.operand(index)?, ty)
    }

    /// Operand `index` as a destination predicate.
    pub(crate) fn destination_predicate(&mut self, index: usize) -> Result<Destination, Problem> {
        self.destination(index, DataType::Predicate)
    }

    /// A destination whose register may be wider than the value.
    pub(crate) fn wide_of(&mut self, operand: &Operand, ty: DataType) -> Result<Wide, Problem> {
        let destination = self.checked_destination(operand, ty, fit::holds)?;
        let file = self.register(operand).map(|(file, _)| file);
        Ok(Wide::of(file.unwrap_or(File::of_bits(ty.bits())), destination))
    }

    /// Operand `index` as a destination whose register may be wider than the value.
    pub(crate) fn wide(&mut self, index: usize, ty: DataType) -> Result<Wide, Problem> {
        self.wide_of(self.operand(index)?, ty)
    }
}
