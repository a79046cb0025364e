//! `st.async` and `red.async`: registers go into the shared memory of a block of the cluster and
//! complete on an mbarrier there (PTX ISA 9.1, 9.7.9.12 and 9.7.13.7).

use super::bulk::{check_barrier, check_same_block};
use super::engine::{Work, issue as issue_work};
use super::load::{Load, Source};
use crate::execute::registers::lanes;
use crate::execute::{Context, Outcome};
use crate::ops::Operation;
use crate::ops::access::{Space, addresses};
use crate::ops::copy::Copy;
use crate::ops::mbarrier::{SharedPlace, Wanted};
use crate::program::operand::{Address, Any};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::Proxy;
use crate::tensor_map::TensorDataType;
use crate::tensor_map::reduce::ReduceOp;

/// `st.async` or `red.async`.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    space: Space,
    to: Address,
    values: Box<[Any]>,
    /// Bytes of each value: 4 or 8.
    element: u32,
    barrier: Address,
    reduction: Option<(ReduceOp, TensorDataType)>,
}

/// Lowers `st.async` and `red.async`.
pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let reduces = form.mnemonic() == "red";
    form.take("async");
    if reduces {
        if !form.take("relaxed") || !form.take("cluster") {
            return Err("`.relaxed.cluster` is missing".to_owned());
        }
    } else {
        form.take("weak");
    }
    let space = match form.take("shared::cluster") {
        true => Space::SharedCluster,
        false => Space::Generic,
    };
    if !form.take("mbarrier::complete_tx::bytes") {
        return Err("`.mbarrier::complete_tx::bytes` is missing".to_owned());
    }
    let op = match reduces {
        true => Some(form.take_with(ReduceOp::from_name).ok_or("an operation is missing")?),
        false => None,
    };
    let length = match reduces {
        true => 1,
        false => form.take_one(&[("v2", 2), ("v4", 4)]).unwrap_or(1),
    };
    let data_type = form.take_type()?;
    form.finish()?;
    form.expect(3)?;
    let element = data_type.bytes();
    if !matches!(element, 4 | 8) || element * length > 16 {
        return Err(format!("{length} values of {element} bytes"));
    }
    let reduction = match op {
        Some(op) => Some((op, shared_type(op, data_type)?)),
        None => None,
    };
    let to = space.address(form, 0)?;
    let elements = form.elements(1)?;
    if elements.len() != length as usize {
        return Err(format!("a vector of {length} elements is wanted"));
    }
    let values =
        elements.iter().map(|own| form.any_of(own, data_type)).collect::<Result<_, Problem>>()?;
    let barrier = space.address(form, 2)?;
    let remote = Remote { space, to, values, element, barrier, reduction };
    form.emit(Operation::Copy(Box::new(Copy::Remote(remote))));
    Ok(())
}

/// The type of a reduction into shared memory, which has fewer than global memory.
pub(super) fn shared_type(op: ReduceOp, data_type: DataType) -> Result<TensorDataType, Problem> {
    use ReduceOp::{Add, And, Dec, Inc, Max, Min, Or, Xor};
    match (op, data_type) {
        (Add | Min | Max | Inc | Dec, DataType::U32) => Ok(TensorDataType::U32),
        (Add | Min | Max, DataType::S32) => Ok(TensorDataType::I32),
        // Sums wrap, so their sign does not matter.
        (Add, DataType::U64 | DataType::S64) => Ok(TensorDataType::U64),
        (And | Or | Xor, DataType::B32) => Ok(TensorDataType::U32),
        _ => Err(format!("`.{}` of this type does not reduce into shared memory", op.name())),
    }
}

/// Issues the stores of the executing lanes.
pub(super) fn issue(own: &Remote, context: &mut Context<'_>) -> Outcome {
    let targets = addresses(own.to, context);
    let barriers = addresses(own.barrier, context);
    let element = own.element as usize;
    let bytes = own.element * own.values.len() as u32;
    let mut data = [[0u8; 16]; 32];
    for (index, value) in own.values.iter().enumerate() {
        let values = context.frame.registers.any(*value);
        for (data, value) in data.iter_mut().zip(values) {
            let places = data.iter_mut().skip(index * element).take(element);
            for (place, byte) in places.zip(value.to_le_bytes()) {
                *place = byte;
            }
        }
    }
    let size = u64::from(bytes);
    let wanted = Wanted { access: "asynchronous store", bytes: size, alignment: size };
    let of_barrier = Wanted { bytes: 8, alignment: 8, ..wanted };
    for lane in lanes(context.mask) {
        let find = |context: &Context<'_>, address, wanted| {
            SharedPlace::find(context.cluster, context.rank, own.space, (lane, address), wanted)
        };
        let to = find(context, targets[lane], wanted)?;
        let barrier = find(context, barriers[lane], of_barrier)?;
        let ranks = check_same_block(lane, to, barrier)?;
        check_barrier(context, lane, barrier)?;
        let load = Load {
            parity: None,
            source: Source::Immediate(data[lane], bytes),
            to: to.offset,
            ranks,
            barrier: barrier.offset,
            reduction: own.reduction,
            proxy: Proxy::Generic,
        };
        issue_work(context, 1 << lane, Work::Load(Box::new(load)));
    }
    Ok(())
}
