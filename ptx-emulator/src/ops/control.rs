//! Branches, calls and ends.

use super::claims;
use crate::execute::registers::{lanes, select};
use crate::execute::report::{Fault, ReportKind};
use crate::execute::warp::Token;
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::module::{Operand, Reference, Variable};
use crate::ops::Operation;
use crate::ops::memory::parameters;
use crate::program::operand::{File, Source32, Source64, Wide};
use crate::program::parameters::{Signature, scalar};
use crate::program::types::DataType;
use crate::program::{Code, Form, ParameterPlace, Problem, function_at};

/// An instruction that decides where threads go on.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    /// To a label; a position once the function is complete.
    Branch(u32),
    /// To the label that an index chooses.
    Indexed(Source32, Box<[u32]>),
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    /// Not before so many nanoseconds, about.
    Sleep(Source32),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    callee: Callee,
    /// Parameter variables of the caller, in the order of the arguments.
    pub(crate) arguments: Vec<ParameterPlace>,
    /// Parameter variables of the caller, in the order of the results.
    pub(crate) returns: Vec<ParameterPlace>,
}

#[derive(Clone, Debug)]
enum Callee {
    /// A function of the kernel.
    Direct(usize),
    /// The function whose address a register holds: one of some of the kernel, if they are listed.
    Indirect(Source64, Option<Box<[usize]>>),
}

impl Control {
    pub(super) fn place_labels(&mut self, positions: &[u32]) {
        let position = |label: u32| positions.get(label as usize).copied().unwrap_or(0);
        match self {
            Self::Branch(label) => *label = position(*label),
            Self::Indexed(_, labels) => labels.iter_mut().for_each(|own| *own = position(*own)),
            _ => {}
        }
    }
}

/// Lowers control flow.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    // `.uni` promises what is observed anyway.
    form.take("uni");
    let operation = match form.mnemonic() {
        "bra" => match form.operand(0)? {
            Operand::Name(Reference::Label(label)) => Control::Branch(*label as u32),
            _ => return Err("a label is wanted".to_owned()),
        },
        "brx" => {
            if !form.take("idx") {
                return Err("`.idx` is missing".to_owned());
            }
            let index = form.source32(0, DataType::U32)?;
            let Operand::Name(Reference::BranchTargets(list)) = form.operand(1)? else {
                return Err("a list of branch targets is wanted".to_owned());
            };
            let labels = form.lowering().branch_targets(*list).unwrap_or_default();
            Control::Indexed(index, labels.iter().map(|label| *label as u32).collect())
        }
        "call" => return lower_call(form),
        "ret" => {
            form.finish()?;
            return form.lowering().emit_return();
        }
        "exit" => Control::Exit,
        "nanosleep" => {
            form.take("u32");
            Control::Sleep(form.source32(0, DataType::U32)?)
        }
        _ => Control::Trap,
    };
    form.finish()?;
    form.emit(Operation::Control(operation));
    Ok(())
}

/// What the text of a call says.
struct CallText<'f> {
    results: &'f [Operand],
    function: &'f Operand,
    arguments: &'f [Operand],
    /// A prototype or a list of targets.
    targets: Option<&'f Operand>,
}

fn call_text<'f>(form: &Form<'f, '_>) -> Result<CallText<'f>, Problem> {
    let mut next = 0;
    let list = |form: &Form<'f, '_>, next: &mut usize| match form.operand(*next) {
        Ok(Operand::Arguments(list)) => {
            *next += 1;
            list.as_slice()
        }
        _ => &[],
    };
    let results = list(form, &mut next);
    let function = form.operand(next)?;
    next += 1;
    let arguments = list(form, &mut next);
    let targets = form.operand(next).ok();
    next += usize::from(targets.is_some());
    form.expect(next)?;
    Ok(CallText { results, function, arguments, targets })
}

/// Lowers a call: values among the arguments go into parameter variables before it, and results
/// into registers behind it.
fn lower_call(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let text = call_text(form)?;
    form.finish()?;
    let (callee, named) = match text.function {
        Operand::Name(name @ Reference::Function(index)) => {
            (Callee::Direct(form.lowering().callee(*index)?), Some(*name))
        }
        operand => {
            let named = match text.targets {
                Some(Operand::Name(name)) => Some(*name),
                _ => None,
            };
            let address = form.source64_of(operand, DataType::U64)?;
            (Callee::Indirect(address, named.and_then(|name| listed(form, name))), named)
        }
    };
    let signatures = named.map(|name| form.lowering().signatures(name)).unwrap_or_default();
    let (first, others) =
        signatures.split_first().ok_or("a prototype or a list of targets is missing")?;
    let Signature { returns, parameters, .. } = *first;
    check_counts(&text, *first)?;
    for other in others {
        check_like(form, &text, *first, *other).map_err(|problem| {
            format!("`{}` is called like `{}`: {problem}", other.name, first.name)
        })?;
    }
    let mut arguments = Vec::with_capacity(parameters.len());
    for (own, parameter) in text.arguments.iter().zip(parameters) {
        if let Some(place) = variable_place(form, own, parameter)? {
            arguments.push(place);
            continue;
        }
        let ty = scalar(parameter)?;
        let value = form.exact_of(own, ty)?;
        let place = form.lowering().reserve_parameter(ty.bytes())?;
        form.emit(parameters::store(place.offset, ty, value));
        arguments.push(place);
    }
    let mut results = Vec::with_capacity(returns.len());
    let mut fetched = Vec::new();
    for (own, result) in text.results.iter().zip(returns) {
        if let Some(place) = variable_place(form, own, result)? {
            results.push(place);
            continue;
        }
        let ty = scalar(result)?;
        let place = form.lowering().reserve_parameter(ty.bytes())?;
        results.push(place);
        if *own != Operand::Sink {
            fetched.push((own, ty, place));
        }
    }
    let call = Call { callee, arguments, returns: results };
    form.emit(Operation::Control(Control::Call(Box::new(call))));
    for (own, ty, place) in fetched {
        let to = form.destination_of(own, ty)?;
        let to = Wide::of(File::of_bits(ty.bits()), to);
        form.emit(parameters::load(place.offset, ty, to));
    }
    Ok(())
}

/// The functions of the kernel that a list of targets names. Those of which nobody has the address
/// are none of it.
fn listed(form: &mut Form<'_, '_>, name: Reference) -> Option<Box<[usize]>> {
    let lowering = form.lowering();
    matches!(name, Reference::CallTargets(_)).then(|| {
        let targets = lowering.targets(name).iter();
        targets.filter_map(|index| lowering.callee(*index).ok()).collect()
    })
}

fn check_counts(text: &CallText<'_>, signature: Signature<'_>) -> Result<(), Problem> {
    let (results, arguments) = (signature.returns.len(), signature.parameters.len());
    if (results, arguments) == (text.results.len(), text.arguments.len()) {
        return Ok(());
    }
    Err(format!("the function has {results} results and {arguments} arguments"))
}

/// A call must be one of every target in its list. It is lowered for the first one.
fn check_like(
    form: &mut Form<'_, '_>,
    text: &CallText<'_>,
    first: Signature<'_>,
    other: Signature<'_>,
) -> Result<(), Problem> {
    check_counts(text, other)?;
    let operands = text.arguments.iter().chain(text.results);
    let own = first.parameters.iter().chain(first.returns);
    let others = other.parameters.iter().chain(other.returns);
    for (operand, (own, other)) in operands.zip(own.zip(others)) {
        if variable_place(form, operand, other)?.is_none() {
            form.check_exact(operand, scalar(other)?)?;
        }
        if let (Some(own), Some(other)) = (own.bytes(), other.bytes())
            && own != other
        {
            return Err(format!("an argument or a result of {other} bytes, not of {own}"));
        }
    }
    Ok(())
}

/// The place of an argument that is a parameter variable.
fn variable_place(
    form: &mut Form<'_, '_>,
    operand: &Operand,
    formal: &Variable,
) -> Result<Option<ParameterPlace>, Problem> {
    let Operand::Name(name) = operand else { return Ok(None) };
    let place = form.lowering().call_parameter(*name)?;
    match (place, formal.bytes()) {
        (Some(place), Some(bytes)) if u64::from(place.bytes) != bytes => {
            Err(format!("an argument of {} bytes where {bytes} are wanted", place.bytes))
        }
        _ => Ok(place),
    }
}

/// The call that stands at a position.
pub(crate) fn call_at(code: &Code, position: u32) -> Option<&Call> {
    match &code.instructions.get(position as usize)?.operation {
        Operation::Control(Control::Call(call)) => Some(call),
        _ => None,
    }
}

/// Parameter variables of all lanes of a frame: bytes, bytes a lane, and the places of some.
type Parameters<'a> = (&'a [u8], u32, &'a [ParameterPlace]);
/// The same, to be written.
type ParametersMut<'a> = (&'a mut [u8], u32, &'a [ParameterPlace]);

/// Copies parameter variables of some lanes from one frame to another, pair by pair.
pub(crate) fn copy_parameters(from: Parameters<'_>, to: ParametersMut<'_>, mask: u32) {
    let (source, source_stride, source_places) = from;
    let (target, target_stride, target_places) = to;
    for (own, other) in source_places.iter().zip(target_places) {
        let bytes = own.bytes.min(other.bytes) as usize;
        for lane in lanes(mask) {
            let start = lane * source_stride as usize + own.offset as usize;
            let end = lane * target_stride as usize + other.offset as usize;
            let pair = (source.get(start..start + bytes), target.get_mut(end..end + bytes));
            if let (Some(source), Some(target)) = pair {
                target.copy_from_slice(source);
            }
        }
    }
}

/// Executes control flow.
pub(crate) fn execute(control: &Control, context: &mut Context<'_>) -> Outcome<Flow> {
    Ok(match control {
        Control::Branch(target) => Flow::Jump(*target),
        Control::Indexed(index, targets) => {
            let indices = context.frame.registers.words(*index);
            let mut parts: Vec<(u32, u32)> = Vec::new();
            for lane in lanes(context.mask) {
                let target = targets.get(indices[lane] as usize).copied();
                let target = target.ok_or_else(|| {
                    let count = targets.len();
                    let text = format!("branch index {} of {count} targets", indices[lane]);
                    Fault::at_lane(lane, ReportKind::Operand(text))
                })?;
                match parts.iter_mut().find(|(own, _)| *own == target) {
                    Some((_, mask)) => *mask |= 1 << lane,
                    None => parts.push((target, 1 << lane)),
                }
            }
            match parts.as_slice() {
                [(target, _)] => Flow::Jump(*target),
                _ => Flow::Split(parts),
            }
        }
        Control::Call(call) => {
            let (function, lanes) = callee(call, context)?;
            Flow::Call(function, lanes)
        }
        Control::Return => {
            if context.frame.caller.is_none() {
                claims::check_exit(context)?;
            }
            Flow::Return
        }
        Control::Exit => {
            claims::check_exit(context)?;
            Flow::Exit
        }
        Control::Trap => {
            let lane = context.mask.trailing_zeros() as usize;
            return Err(Fault::at_lane(lane, ReportKind::Trap));
        }
        Control::Sleep(duration) => {
            let now = context.grid.now;
            let values = context.frame.registers.words(*duration);
            match context.token {
                Some(Token::Since(until)) if now >= until => Flow::Yield,
                Some(Token::Since(until)) => {
                    Flow::Wait(Wait::Until(until), Some(Token::Since(until)))
                }
                _ => {
                    let longest = lanes(context.mask).map(|lane| values[lane]).max().unwrap_or(0);
                    // A turn of a warp stands for some tens of nanoseconds.
                    let until = now + u64::from(longest / 32).min(1 << 16);
                    Flow::Wait(Wait::Until(until), Some(Token::Since(until)))
                }
            }
        }
    })
}

/// The function that the first lane calls, and the lanes that call the same one.
fn callee(call: &Call, context: &mut Context<'_>) -> Outcome<(usize, u32)> {
    let (index, mask) = match &call.callee {
        Callee::Direct(index) => (*index, context.mask),
        Callee::Indirect(source, targets) => {
            let addresses = context.frame.registers.doubles(*source);
            let first = context.mask.trailing_zeros() as usize;
            let address = addresses[first];
            let same = select(context.mask, |lane| addresses[lane] == address);
            let index = function_at(address)
                .and_then(|index| context.grid.function_indices.get(index).copied().flatten());
            let index = index.ok_or_else(|| {
                let text = format!("{address:#x} is not the address of a function of this kernel");
                Fault::at_lane(first, ReportKind::Operand(text))
            })?;
            if targets.as_ref().is_some_and(|targets| !targets.contains(&index)) {
                let text = format!(
                    "{address:#x} is the address of a function that the call's list of targets \
                     does not name"
                );
                return Err(Fault::at_lane(first, ReportKind::Operand(text)));
            }
            (index, same)
        }
    };
    crate::execute::grid::check_depth(context.warp, context.frame)?;
    Ok((index, mask))
}
