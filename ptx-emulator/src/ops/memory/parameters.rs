//! Parameters that an instruction reads or writes beside what its text says: those of calls whose
//! arguments are values, those in registers, and those whose address is taken.

use super::{Load, Memory, Order, Store};
use crate::ops::Operation;
use crate::ops::access::{Access, Space};
use crate::program::ParameterPlace;
use crate::program::operand::{Address, AddressBase, Any, Destination, File, Wide};
use crate::program::types::DataType;

fn access(space: Space, name: &'static str, bytes: u32) -> Access {
    Access { space, name, bytes, alignment: bytes }
}

/// Writes a value into a parameter variable of the frame.
pub(crate) fn store(offset: u32, element: DataType, from: Any) -> Operation {
    let to = Address { base: AddressBase::Parameter(offset.into()), offset: 0 };
    let access = access(Space::Parameter, "store", element.bytes());
    let store = Store { access, order: Order::Weak, element, to, from: Box::new([from]) };
    Operation::Memory(Memory::Store(Box::new(store)))
}

/// Reads a value from a parameter variable of the frame.
pub(crate) fn load(offset: u32, element: DataType, to: Wide) -> Operation {
    let from = Address { base: AddressBase::Parameter(offset.into()), offset: 0 };
    let access = access(Space::Parameter, "load", element.bytes());
    let to = Box::new([(to, u64::MAX)]);
    let load = Load { access, order: Order::Weak, unchanging: false, element, to, from };
    Operation::Memory(Memory::Load(Box::new(load)))
}

/// Copies a parameter to local memory at an offset of the frame, through a register.
pub(crate) fn copy_to_local(
    place: ParameterPlace,
    local: u64,
    mut temporary: impl FnMut(File) -> u32,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut done = 0;
    while done < place.bytes {
        let (element, file) = match place.bytes - done {
            8.. if place.offset.is_multiple_of(8) && local.is_multiple_of(8) => {
                (DataType::B64, File::Double)
            }
            4.. if place.offset.is_multiple_of(4) && local.is_multiple_of(4) => {
                (DataType::B32, File::Word)
            }
            _ => (DataType::B8, File::Word),
        };
        let row = temporary(file);
        let (to, from) = (Wide::of(file, Destination(Some(row))), Any::register(file, row));
        operations.push(load(place.offset + done, element, to));
        let to = Address { base: AddressBase::Frame(local + u64::from(done)), offset: 0 };
        let access = access(Space::Local, "store", element.bytes());
        let store = Store { access, order: Order::Weak, element, to, from: Box::new([from]) };
        operations.push(Operation::Memory(Memory::Store(Box::new(store))));
        done += element.bytes();
    }
    operations
}
