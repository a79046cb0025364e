//! `tensormap.replace` and `tensormap.cp_fenceproxy` (PTX ISA 9.1, 9.7.9.28).

use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::ops::Operation;
use crate::ops::access::{Access, Effect, Space, addresses, visit};
use crate::ops::copy::Copy;
use crate::program::operand::{Address, Any};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::Strength;
use crate::tensor_map::replace::{ReplaceField, replace};

/// Bytes of a tensor map.
const BYTES: u32 = 128;
/// The alignment of tensor maps.
const ALIGNMENT: u32 = 64;

/// `tensormap.replace`.
#[derive(Clone, Debug)]
pub(crate) struct Replace {
    field: ReplaceField,
    map: (Space, Address),
    ordinal: Option<u32>,
    value: Any,
}

/// `tensormap.cp_fenceproxy`: a map goes from shared to global memory and is released.
#[derive(Clone, Debug)]
pub(crate) struct Publish {
    to: Address,
    from: Address,
}

/// Lowers `tensormap`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let operation = if form.take("replace") {
        Copy::Replace(lower_replace(form)?)
    } else if form.take("cp_fenceproxy") {
        Copy::Publish(lower_publish(form)?)
    } else {
        return Err("`replace` or `cp_fenceproxy` is missing".to_owned());
    };
    form.emit(Operation::Copy(Box::new(operation)));
    Ok(())
}

fn lower_replace(form: &mut Form<'_, '_>) -> Result<Replace, Problem> {
    if !form.take("tile") || !form.take("b1024") {
        return Err("`.tile` and `.b1024` are missing".to_owned());
    }
    let field = form.take_with(ReplaceField::from_name).ok_or("a field is missing")?;
    let space = form.take_one(&[("global", Space::Global), ("shared::cta", Space::Shared)]);
    let space = space.unwrap_or(Space::Generic);
    let data_type = form.take_type()?;
    form.finish()?;
    if data_type.bits() != field.bits() {
        return Err(format!("`.{}` has {} bits", field.name(), field.bits()));
    }
    let is_newer = form.has_family_features();
    if field == ReplaceField::SwizzleAtomicity && !is_newer {
        return Err("`.swizzle_atomicity` needs the target sm_100a or sm_100f".to_owned());
    }
    let ordinal = match form.count() {
        3 => Some(u32::try_from(form.constant(1)?).map_err(|_| "a negative ordinal")?),
        _ => None,
    };
    let value = 1 + usize::from(ordinal.is_some());
    form.expect(value + 1)?;
    match (field.has_entries(), ordinal) {
        (true, None) => return Err(format!("`.{}` needs an ordinal", field.name())),
        (false, Some(_)) => return Err(format!("`.{}` has no ordinal", field.name())),
        (true, Some(5..)) => return Err("an ordinal is 0 to 4".to_owned()),
        _ => {}
    }
    if let Some(last) = field.last_immediate(is_newer) {
        let number = form.constant(value)?;
        if u64::try_from(number).ok().is_none_or(|number| number > last) {
            return Err(format!("`.{}` is 0 to {last}, not {number}", field.name()));
        }
    }
    let map = (space, space.address(form, 0)?);
    let value = match field.bits() {
        64 => Any::Double(form.source64(value, DataType::B64)?),
        _ => Any::Word(form.source32(value, DataType::B32)?),
    };
    Ok(Replace { field, map, ordinal, value })
}

fn lower_publish(form: &mut Form<'_, '_>) -> Result<Publish, Problem> {
    let wanted = ["global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"];
    if let Some(missing) = wanted.into_iter().find(|word| !form.take(word)) {
        return Err(format!("`.{missing}` is missing"));
    }
    form.take_one(&[("cta", ()), ("cluster", ()), ("gpu", ()), ("sys", ())]);
    form.finish()?;
    form.expect(3)?;
    if form.constant(2)? != i64::from(BYTES) {
        return Err(format!("the size is {BYTES}"));
    }
    Ok(Publish { to: Space::Global.address(form, 0)?, from: Space::Shared.address(form, 1)? })
}

/// Replaces a field in the maps that the lanes name.
pub(super) fn replace_fields(own: &Replace, context: &mut Context<'_>) -> Outcome {
    let places = addresses(own.map.1, context);
    let values = context.frame.registers.any(own.value);
    let name = "tensormap.replace";
    let access = Access { space: own.map.0, name, bytes: BYTES, alignment: ALIGNMENT };
    visit(context, access, &places, context.mask, |region| {
        region.note(Effect::Read, Strength::Weak)?;
        region.note(Effect::Write, Strength::Weak)?;
        for lane in lanes(region.mask) {
            let Ok(bytes) = region.lane_mut(lane).try_into() else { continue };
            replace(bytes, own.field, own.ordinal, values[lane])
                .map_err(|error| Fault::at_lane(lane, ReportKind::Operand(error.to_string())))?;
        }
        Ok(())
    })
}

/// The whole warp copies one map and releases it.
pub(super) fn publish(own: &Publish, context: &mut Context<'_>) -> Outcome<Flow> {
    if !context.is_aligned() {
        return Ok(Flow::Wait(Wait::Lanes(context.warp.live), None));
    }
    let (targets, sources) = (addresses(own.to, context), addresses(own.from, context));
    let first = context.mask.trailing_zeros() as usize;
    let alike = |lane: usize| targets[lane] == targets[first] && sources[lane] == sources[first];
    if let Some(lane) = lanes(context.mask).find(|lane| !alike(*lane)) {
        let text = "lanes of a warp publish different tensor maps in one instruction".to_owned();
        return Err(Fault::at_lane(lane, ReportKind::Operand(text)));
    }
    let (warp, mask) = (context.warp.id, context.mask);
    context.grid.races.warp_barrier(warp, mask);
    let name = "tensormap.cp_fenceproxy";
    let access = Access { space: Space::Shared, name, bytes: BYTES, alignment: ALIGNMENT };
    let mut map = [0; BYTES as usize];
    visit(context, access, &sources, 1 << first, |region| {
        region.note(Effect::Read, Strength::Weak)?;
        map.copy_from_slice(region.lane(first));
        Ok(())
    })?;
    let access = Access { space: Space::Global, ..access };
    visit(context, access, &targets, 1 << first, |region| {
        region.note(Effect::Write, Strength::Strong)?;
        region.lane_mut(first).copy_from_slice(&map);
        Ok(())
    })?;
    context.grid.races.warp_barrier(warp, mask);
    context.grid.races.fence(warp, mask);
    context.grid.progress += 1;
    Ok(Flow::Next)
}
