//! What the lanes of a warp do together: `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`.
//!
//! All but `activemask` wait until every lane of their mask that has not exited has come. They
//! exchange values, but order no accesses to memory.

use crate::execute::registers::{Doubles, Words, lanes, select};
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::numeric::minmax::{Extremum, MinMaxModifiers, single};
use crate::ops::Operation;
use crate::program::operand::{Any, Destination, Source32, SourcePredicate};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// An instruction of a warp.
#[derive(Clone, Debug)]
pub(crate) enum Collective {
    /// `activemask`: the lanes that execute the instruction.
    Active(Destination),
    /// Of the lanes of a mask.
    Together(Box<Together>),
}

/// What the lanes of a mask do together.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    mask: Source32,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Shuffle(Shuffle),
    /// `vote` with a predicate as result.
    Vote(Vote, Destination, SourcePredicate),
    /// `vote.ballot`.
    Ballot(Destination, SourcePredicate),
    /// `match.any`: the lanes with the same value.
    MatchAny(Destination, Any),
    /// `match.all`: all lanes if they have the same value, and whether they have.
    MatchAll(Destination, Destination, Any),
    Reduce(Reduction, Destination, Source32),
    /// `elect`: a lane, and whether it is the executing one.
    Elect(Destination, Destination),
}

#[derive(Clone, Debug)]
struct Shuffle {
    mode: Mode,
    to: Destination,
    /// Whether the lane that was asked for is in range.
    in_range: Destination,
    value: Source32,
    amount: Source32,
    /// Clamp in bits 0 to 4, segment mask in bits 8 to 12.
    control: Source32,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug)]
enum Vote {
    All,
    Any,
    Uniform,
}

#[derive(Clone, Copy, Debug)]
enum Reduction {
    Add,
    And,
    Or,
    Xor,
    MinimumUnsigned,
    MaximumUnsigned,
    MinimumSigned,
    MaximumSigned,
    /// `min` and `max` of f32: the operation, `.abs`, `.NaN`. Only sm_100a has them.
    Float(Extremum, bool, bool),
}

const NOWHERE: Destination = Destination(None);

/// Lowers the collective instructions.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    let mnemonic = form.mnemonic();
    if mnemonic == "activemask" {
        form.take("b32");
        form.finish()?;
        form.expect(1)?;
        let to = form.destination(0, DataType::B32)?;
        form.emit(Operation::Collective(Collective::Active(to)));
        return Ok(());
    }
    if !form.take("sync") {
        return Err("the form without `.sync` is not supported".to_owned());
    }
    let action = match mnemonic {
        "shfl" => lower_shuffle(form)?,
        "vote" => lower_vote(form)?,
        "match" => lower_match(form)?,
        "redux" => lower_reduction(form)?,
        _ => {
            form.finish()?;
            form.expect(2)?;
            let (to, elected) = lower_pair(form)?;
            Action::Elect(to, elected)
        }
    };
    let mask = form.source32(form.count() - 1, DataType::B32)?;
    form.emit(Operation::Collective(Collective::Together(Box::new(Together { mask, action }))));
    Ok(())
}

/// The destination `word|predicate`, of which the second may be absent.
fn lower_pair(form: &mut Form<'_, '_>) -> Result<(Destination, Destination), Problem> {
    let (word, predicate) = form.pair(0)?;
    let word = form.destination_of(word, DataType::B32)?;
    let predicate = match predicate {
        Some(own) => form.destination_of(own, DataType::Predicate)?,
        None => NOWHERE,
    };
    Ok((word, predicate))
}

fn lower_shuffle(form: &mut Form<'_, '_>) -> Result<Action, Problem> {
    let mode = form.take_one(&[
        ("up", Mode::Up),
        ("down", Mode::Down),
        ("bfly", Mode::Butterfly),
        ("idx", Mode::Index),
    ]);
    let mode = mode.ok_or("a mode is missing")?;
    take_only(form, DataType::B32)?;
    form.expect(5)?;
    let (to, in_range) = lower_pair(form)?;
    Ok(Action::Shuffle(Shuffle {
        mode,
        to,
        in_range,
        value: form.source32(1, DataType::B32)?,
        amount: form.source32(2, DataType::B32)?,
        control: form.source32(3, DataType::B32)?,
    }))
}

/// The type must be this one, and nothing else may be said.
fn take_only(form: &mut Form<'_, '_>, wanted: DataType) -> Result<(), Problem> {
    if form.take_type()? != wanted {
        return Err("this type is not supported here".to_owned());
    }
    form.finish()
}

fn lower_vote(form: &mut Form<'_, '_>) -> Result<Action, Problem> {
    let modes = [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform)];
    let Some(mode) = form.take_one(&modes) else {
        if !form.take("ballot") {
            return Err("a mode is missing".to_owned());
        }
        take_only(form, DataType::B32)?;
        form.expect(3)?;
        return Ok(Action::Ballot(form.destination(0, DataType::B32)?, form.predicate(1)?));
    };
    take_only(form, DataType::Predicate)?;
    form.expect(3)?;
    Ok(Action::Vote(mode, form.destination_predicate(0)?, form.predicate(1)?))
}

fn lower_match(form: &mut Form<'_, '_>) -> Result<Action, Problem> {
    let all = form.take("all");
    if !all && !form.take("any") {
        return Err("a mode is missing".to_owned());
    }
    let ty = form.take_type()?;
    form.finish()?;
    form.expect(3)?;
    let source = match ty {
        DataType::B32 => Any::Word(form.source32(1, ty)?),
        DataType::B64 => Any::Double(form.source64(1, ty)?),
        _ => return Err("this type is not supported here".to_owned()),
    };
    if all {
        let (to, equal) = lower_pair(form)?;
        return Ok(Action::MatchAll(to, equal, source));
    }
    Ok(Action::MatchAny(form.destination(0, DataType::B32)?, source))
}

fn lower_reduction(form: &mut Form<'_, '_>) -> Result<Action, Problem> {
    use DataType::{B32, F32, S32, U32};
    let name = form.take_with(|word| {
        ["add", "and", "or", "xor", "min", "max"].into_iter().find(|own| *own == word)
    });
    let name = name.ok_or("an operation is missing")?;
    let magnitude = form.take("abs");
    let propagates = form.take("NaN");
    let ty = form.take_type()?;
    form.finish()?;
    form.expect(3)?;
    if ty == F32 && !form.has_family_features() {
        return Err("`redux` of `.f32` needs the target sm_100a or sm_100f".to_owned());
    }
    let reduction = match (name, ty) {
        ("min", F32) => Reduction::Float(Extremum::Minimum, magnitude, propagates),
        ("max", F32) => Reduction::Float(Extremum::Maximum, magnitude, propagates),
        _ if magnitude || propagates => {
            return Err("`.abs` and `.NaN` are for `.f32` only".to_owned());
        }
        ("add", U32 | S32) => Reduction::Add,
        ("and", B32) => Reduction::And,
        ("or", B32) => Reduction::Or,
        ("xor", B32) => Reduction::Xor,
        ("min", U32) => Reduction::MinimumUnsigned,
        ("max", U32) => Reduction::MaximumUnsigned,
        ("min", S32) => Reduction::MinimumSigned,
        ("max", S32) => Reduction::MaximumSigned,
        _ => return Err(format!("`.{name}` does not have this type")),
    };
    Ok(Action::Reduce(reduction, form.destination(0, ty)?, form.source32(1, ty)?))
}

/// Lanes that name the same mask, group after group.
#[derive(Clone)]
pub(super) struct Groups {
    masks: Words,
    rest: u32,
}

impl Iterator for Groups {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.rest == 0 {
            return None;
        }
        let wanted = self.masks[self.rest.trailing_zeros() as usize];
        let same = self.rest & equal_lanes(&self.masks, wanted);
        self.rest &= !same;
        Some(same)
    }
}

/// The lanes whose word is this one.
#[inline]
fn equal_lanes(words: &Words, value: u32) -> u32 {
    select(u32::MAX, |lane| words[lane] == value)
}

/// Whether all lanes of the masks are here.
pub(super) enum Gathered {
    Here(Groups),
    /// These lanes must come together first.
    Missing(u32),
}

/// Lanes with different masks may come together; each mask is then a group of its own.
pub(super) fn gather(mask: Source32, context: &Context<'_>) -> Outcome<Gathered> {
    let masks = context.frame.registers.words(mask);
    let groups = Groups { masks, rest: context.mask };
    let mut missing = 0;
    for group in groups.clone() {
        let wanted = masks[group.trailing_zeros() as usize];
        if group & !wanted != 0 {
            let lane = (group & !wanted).trailing_zeros() as usize;
            let text = format!("lane {lane} is not in the mask {wanted:#010x} it executes with");
            return Err(Fault::at_lane(lane, ReportKind::Synchronisation(text)));
        }
        let wanted = wanted & context.warp.live;
        let absent = wanted & !group;
        if absent & context.mask != 0 {
            let lane = (absent & context.mask).trailing_zeros() as usize;
            return Err(Fault::synchronisation(format!(
                "lane {lane} is in the mask {wanted:#010x} of other lanes and comes with {:#010x}",
                masks[lane]
            )));
        }
        if absent != 0 {
            missing |= wanted;
        }
    }
    Ok(if missing == 0 { Gathered::Here(groups) } else { Gathered::Missing(missing) })
}

/// Executes a collective instruction.
pub(crate) fn execute(own: &Collective, context: &mut Context<'_>) -> Outcome<Flow> {
    let mask = context.mask;
    let own = match own {
        Collective::Active(to) => {
            context.frame.registers.set_words(*to, mask, &[mask; 32]);
            return Ok(Flow::Next);
        }
        Collective::Together(own) => own,
    };
    let groups = match gather(own.mask, context)? {
        Gathered::Here(groups) => groups,
        Gathered::Missing(lanes) => return Ok(Flow::Wait(Wait::Lanes(lanes), None)),
    };
    let registers = &mut context.frame.registers;
    match &own.action {
        Action::Shuffle(own) => return shuffle(own, groups, context),
        Action::Vote(vote, to, from) => {
            let values = registers.predicate(*from);
            let holds = |group: u32| match vote {
                Vote::All => values & group == group,
                Vote::Any => values & group != 0,
                Vote::Uniform => values & group == 0 || values & group == group,
            };
            let holding = groups.filter(|group| holds(*group)).fold(0, |all, group| all | group);
            registers.set_predicate(*to, mask, holding);
        }
        Action::Ballot(to, from) => {
            let values = registers.predicate(*from);
            for group in groups {
                registers.set_words(*to, group, &[values & group; 32]);
            }
        }
        Action::MatchAny(to, from) => {
            let values = registers.any(*from);
            let mut result = [0; 32];
            groups.for_each(|group| match_any(&values, group, &mut result));
            registers.set_words(*to, mask, &result);
        }
        Action::MatchAll(to, equal, from) => {
            let values = registers.any(*from);
            for group in groups {
                let first = values[group.trailing_zeros() as usize];
                let same = lanes(group).all(|lane| values[lane] == first);
                let found = if same { group } else { 0 };
                registers.set_words(*to, group, &[found; 32]);
                registers.set_predicate(*equal, group, found);
            }
        }
        Action::Reduce(reduction, to, from) => {
            let values = registers.words(*from);
            for group in groups {
                registers.set_words(*to, group, &[reduce(*reduction, &values, group); 32]);
            }
        }
        Action::Elect(to, elected) => {
            for group in groups {
                let first = group.trailing_zeros();
                registers.set_words(*to, group, &[first; 32]);
                registers.set_predicate(*elected, group, 1 << first);
            }
        }
    }
    Ok(Flow::Next)
}

fn match_any(values: &Doubles, group: u32, result: &mut Words) {
    let mut rest = group;
    while rest != 0 {
        let wanted = values[rest.trailing_zeros() as usize];
        let same = select(rest, |lane| values[lane] == wanted);
        lanes(same).for_each(|lane| result[lane] = same);
        rest &= !same;
    }
}

fn reduce(reduction: Reduction, values: &Words, group: u32) -> u32 {
    let signed = |own: u32| own as i32;
    let combine = |a: u32, b: u32| match reduction {
        Reduction::Add => a.wrapping_add(b),
        Reduction::And => a & b,
        Reduction::Or => a | b,
        Reduction::Xor => a ^ b,
        Reduction::MinimumUnsigned => a.min(b),
        Reduction::MaximumUnsigned => a.max(b),
        Reduction::MinimumSigned => signed(a).min(signed(b)) as u32,
        Reduction::MaximumSigned => signed(a).max(signed(b)) as u32,
        Reduction::Float(extremum, magnitude, propagate_nan) => {
            let modifiers = MinMaxModifiers { propagate_nan, ..MinMaxModifiers::default() };
            let value = |own: u32| {
                let own = f32::from_bits(own);
                if magnitude { own.abs() } else { own }
            };
            single(extremum, value(a), value(b), modifiers).to_bits()
        }
    };
    let first = values[group.trailing_zeros() as usize];
    // The first twice changes only sums; it also makes a single NaN canonical and `.abs` apply.
    match reduction {
        Reduction::Float(..) => lanes(group).fold(first, |all, lane| combine(all, values[lane])),
        _ => lanes(group & (group - 1)).fold(first, |all, lane| combine(all, values[lane])),
    }
}

/// The lane each lane reads, and the lanes whose wish was in range ("shfl.sync" in the PTX
/// manual).
#[inline(always)]
fn sources(
    amounts: &Words,
    controls: &Words,
    // From lane, amount, first lane of the segment and segment mask to the wanted lane.
    wish: impl Fn(i32, i32, i32, i32) -> i32,
    in_range: impl Fn(i32, i32) -> bool,
) -> (Words, u32) {
    let (mut from, mut valid) = ([0; 32], 0);
    for lane in 0..32 {
        let own = lane as i32;
        let clamp = (controls[lane] & 31) as i32;
        let segment = (controls[lane] >> 8 & 31) as i32;
        let last = own & segment | clamp & !segment;
        let wanted = wish(own, (amounts[lane] & 31) as i32, own & segment, segment);
        let inside = in_range(wanted, last);
        from[lane] = if inside { wanted } else { own } as u32;
        valid |= u32::from(inside) << lane;
    }
    (from, valid)
}

fn shuffle(own: &Shuffle, groups: Groups, context: &mut Context<'_>) -> Outcome<Flow> {
    let registers = &mut context.frame.registers;
    let values = registers.words(own.value);
    let (amounts, controls) = (registers.words(own.amount), registers.words(own.control));
    let at_most = |wanted: i32, last: i32| wanted <= last;
    let (from, valid) = match own.mode {
        Mode::Up => {
            let wish = |lane, amount, _, _| lane - amount;
            sources(&amounts, &controls, wish, |wanted, last| wanted >= last)
        }
        Mode::Down => {
            let wish = |lane, amount, _, _| lane + amount;
            sources(&amounts, &controls, wish, at_most)
        }
        Mode::Butterfly => {
            let wish = |lane, amount, _, _| lane ^ amount;
            sources(&amounts, &controls, wish, at_most)
        }
        Mode::Index => {
            let wish = |_, amount: i32, first, segment: i32| first | amount & !segment;
            sources(&amounts, &controls, wish, at_most)
        }
    };
    for group in groups {
        let wrong = lanes(group).find(|lane| group >> (from[*lane] & 31) & 1 == 0);
        if let Some(lane) = wrong {
            let text = format!(
                "lane {lane} reads from lane {}, which does not take part: {group:#010x} do",
                from[lane]
            );
            return Err(Fault::at_lane(lane, ReportKind::Operand(text)));
        }
    }
    let result = std::array::from_fn(|lane| values[(from[lane] & 31) as usize]);
    registers.set_words(own.to, context.mask, &result);
    registers.set_predicate(own.in_range, context.mask, valid);
    Ok(Flow::Next)
}
