//! Branches, calls and ends.

use super::claims;
use crate::execute::registers::{lanes, select};
use crate::execute::report::{Fault, ReportKind};
use crate::execute::warp::Token;
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::module::{Operand, Reference};
use crate::ops::Operation;
use crate::program::operand::{Source32, Source64};
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

#[derive(Clone, Copy, Debug)]
enum Callee {
    /// A function of the kernel.
    Direct(usize),
    /// The function whose address a register holds.
    Indirect(Source64),
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
        "call" => Control::Call(Box::new(lower_call(form)?)),
        "ret" => Control::Return,
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

fn lower_call(form: &mut Form<'_, '_>) -> Result<Call, Problem> {
    let mut operands = (0..form.count()).map(|index| form.operand(index));
    let mut next = operands.next().ok_or("a function is missing")??;
    let mut results: &[Operand] = &[];
    if let Operand::Arguments(list) = next {
        results = list;
        next = operands.next().ok_or("a function is missing")??;
    }
    let function = next;
    let arguments: &[Operand] = match operands.next() {
        Some(Ok(Operand::Arguments(list))) => list,
        _ => &[],
    };
    drop(operands);
    let callee = match function {
        Operand::Name(Reference::Function(index)) => {
            Callee::Direct(form.lowering().callee(*index)?)
        }
        operand => Callee::Indirect(form.source64_of(operand, DataType::U64)?),
    };
    let mut places = |list: &[Operand]| {
        list.iter()
            .map(|own| match own {
                Operand::Name(name) => form
                    .lowering()
                    .call_parameter(*name)?
                    .ok_or_else(|| "arguments must be parameter variables".to_owned()),
                _ => Err("arguments must be parameter variables".to_owned()),
            })
            .collect::<Result<Vec<_>, Problem>>()
    };
    Ok(Call { callee, arguments: places(arguments)?, returns: places(results)? })
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
    let (index, mask) = match call.callee {
        Callee::Direct(index) => (index, context.mask),
        Callee::Indirect(source) => {
            let addresses = context.frame.registers.doubles(source);
            let first = context.mask.trailing_zeros() as usize;
            let address = addresses[first];
            let same = select(context.mask, |lane| addresses[lane] == address);
            let index = function_at(address)
                .and_then(|index| context.grid.function_indices.get(index).copied().flatten());
            let index = index.ok_or_else(|| {
                let text = format!("{address:#x} is not the address of a function of this kernel");
                Fault::at_lane(first, ReportKind::Operand(text))
            })?;
            (index, same)
        }
    };
    crate::execute::grid::check_depth(context.warp, context.frame)?;
    Ok((index, mask))
}
