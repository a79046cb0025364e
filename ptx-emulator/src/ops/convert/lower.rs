//! Which modifiers a `cvt` takes between which types.

use super::general::General;
use super::integer::{Extension, Saturation};
use super::pack::{self, Pack};
use super::pair::{Pair, Scale};
use super::{Convert, One, scaled, stochastic};
use crate::module::{Immediate, Operand};
use crate::numeric::Rounding;
use crate::numeric::convert::{FloatResult, IntegerType};
use crate::numeric::format::{BF16, F16, F32, F64, Format, Overflow};
use crate::numeric::half::HalfFormat;
use crate::numeric::small::{SmallFormat, Tf32Modifiers};
use crate::ops::Operation;
use crate::program::operand::Source32;
use crate::program::types::DataType;
use crate::program::{Form, Problem};

const ROUNDINGS: [(&str, Rounding); 4] = [
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::Zero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

const INTEGRAL_ROUNDINGS: [(&str, Rounding); 4] = [
    ("rni", Rounding::NearestEven),
    ("rzi", Rounding::Zero),
    ("rmi", Rounding::Down),
    ("rpi", Rounding::Up),
];

const BLACKWELL: &str = "this conversion needs the target sm_100a or sm_100f";

/// One of the types between which all conversions exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer(IntegerType),
    F16,
    Bf16,
    F32,
    F64,
}

impl Kind {
    fn of(ty: DataType) -> Option<Self> {
        let integer = |bits, signed| Some(Self::Integer(IntegerType { bits, signed }));
        match ty {
            DataType::U8 => integer(8, false),
            DataType::U16 => integer(16, false),
            DataType::U32 => integer(32, false),
            DataType::U64 => integer(64, false),
            DataType::S8 => integer(8, true),
            DataType::S16 => integer(16, true),
            DataType::S32 => integer(32, true),
            DataType::S64 => integer(64, true),
            DataType::F16 => Some(Self::F16),
            DataType::Bf16 => Some(Self::Bf16),
            DataType::F32 => Some(Self::F32),
            DataType::F64 => Some(Self::F64),
            _ => None,
        }
    }

    fn format(self) -> Option<&'static Format> {
        match self {
            Self::Integer(_) => None,
            Self::F16 => Some(&F16),
            Self::Bf16 => Some(&BF16),
            Self::F32 => Some(&F32),
            Self::F64 => Some(&F64),
        }
    }

    fn half(self) -> Option<HalfFormat> {
        match self {
            Self::F16 => Some(HalfFormat::F16),
            Self::Bf16 => Some(HalfFormat::Bf16),
            _ => None,
        }
    }
}

pub(super) fn small_pair(ty: DataType) -> Option<SmallFormat> {
    match ty {
        DataType::E4m3x2 => Some(SmallFormat::E4m3),
        DataType::E5m2x2 => Some(SmallFormat::E5m2),
        _ => None,
    }
}

/// The pairs of four and six bits, which only the families from sm_100 on have.
pub(super) fn narrow_pair(
    form: &Form<'_, '_>,
    ty: DataType,
) -> Result<Option<SmallFormat>, Problem> {
    let format = match ty {
        DataType::E2m1x2 => SmallFormat::E2m1,
        DataType::E2m3x2 => SmallFormat::E2m3,
        DataType::E3m2x2 => SmallFormat::E3m2,
        _ => return Ok(None),
    };
    check_blackwell(form)?;
    Ok(Some(format))
}

pub(super) fn check_blackwell(form: &Form<'_, '_>) -> Result<(), Problem> {
    if form.has_family_features() { Ok(()) } else { Err(BLACKWELL.to_owned()) }
}

/// Two numbers of four bits are in a register of eight, which is the only one that fits.
fn check_width(form: &Form<'_, '_>, index: usize, ty: DataType) -> Result<(), Problem> {
    if ty == DataType::E2m1x2 && form.register_bits(index)? != 8 {
        return Err("`.e2m1x2` needs a register of type `.b8`".to_owned());
    }
    Ok(())
}

fn half_pair(ty: DataType) -> Option<HalfFormat> {
    match ty {
        DataType::F16x2 => Some(HalfFormat::F16),
        DataType::Bf16x2 => Some(HalfFormat::Bf16),
        _ => None,
    }
}

/// Lowers `cvt` and `cvt.pack`.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.take("pack") {
        return lower_pack(form);
    }
    if form.has("rs") {
        return stochastic::lower(form);
    }
    // The manual does not say to which code numbers below -1.984375 go.
    if form.has("s2f6x2") {
        return Err("conversions with `.s2f6x2` are not emulated".to_owned());
    }
    let (to, from) = (form.take_type()?, form.take_type()?);
    if let (Some(target), Some(source)) = (Kind::of(to), Kind::of(from)) {
        let one = between(form, target, source)?;
        return lower_one(form, one, to, from);
    }
    if from == DataType::F32 && to == DataType::Tf32 {
        let one = tf32(form)?;
        return lower_one(form, one, to, from);
    }
    if from == DataType::F32
        && let Some(pair) = pair(form, to)?
    {
        check_width(form, 0, to)?;
        return lower_pair(form, pair, [to, from]);
    }
    check_width(form, 0, to)?;
    check_width(form, 1, from)?;
    if to == DataType::Bf16x2 && from != DataType::Ue8m0x2 {
        return scaled::lower(form, from);
    }
    let one = pair_to_pair(form, to, from)?;
    lower_one(form, one, to, from)
}

fn lower_one(
    form: &mut Form<'_, '_>,
    one: One,
    to: DataType,
    from: DataType,
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(2)?;
    check_literal(form.operand(1)?, from)?;
    let source = form.any(1, from)?;
    let destination = form.wide(0, to)?;
    form.emit(Operation::Convert(Convert::One(one, destination, source)));
    Ok(())
}

fn lower_pair(
    form: &mut Form<'_, '_>,
    pair: Pair,
    [to, from]: [DataType; 2],
) -> Result<(), Problem> {
    form.finish()?;
    form.expect(3)?;
    for index in [1, 2] {
        check_literal(form.operand(index)?, from)?;
    }
    let sources = [form.source32(1, from)?, form.source32(2, from)?];
    let destination = form.destination(0, to)?;
    form.emit(Operation::Convert(Convert::Pair(pair, destination, sources)));
    Ok(())
}

/// The literal of a floating-point type is one of f32 or f64, and that of an integer an integer.
pub(super) fn check_literal(operand: &Operand, ty: DataType) -> Result<(), Problem> {
    let Operand::Immediate(literal) = operand else { return Ok(()) };
    let is_integer = matches!(literal, Immediate::Signed(_) | Immediate::Unsigned(_));
    let right = match ty {
        DataType::F32 | DataType::F64 => !is_integer,
        _ => is_integer && Kind::of(ty).is_some_and(|kind| kind.format().is_none()),
    };
    if right { Ok(()) } else { Err("a literal of another type".to_owned()) }
}

fn between(form: &mut Form<'_, '_>, to: Kind, from: Kind) -> Result<One, Problem> {
    match (to, from) {
        (Kind::Integer(to), Kind::Integer(from)) => integers(form, to, from),
        (Kind::Integer(_), Kind::Bf16) | (Kind::Bf16, Kind::Integer(_))
            if [to, from].iter().any(|kind| is_byte(*kind)) =>
        {
            Err("there is none between bf16 and 8 bits".to_owned())
        }
        (Kind::Integer(to), _) => to_integer(form, to, from),
        (_, Kind::Integer(from)) => from_integer(form, to, from),
        _ if to == from => same(form, to),
        _ => floats(form, to, from),
    }
}

fn is_byte(kind: Kind) -> bool {
    matches!(kind, Kind::Integer(IntegerType { bits: 8, .. }))
}

fn integers(form: &mut Form<'_, '_>, to: IntegerType, from: IntegerType) -> Result<One, Problem> {
    let extension = Extension { to, from, register_bits: form.register_bits(0)? };
    if !form.take("sat") {
        return Ok(One::Extend(extension));
    }
    let holds_all = if to.signed == from.signed {
        to.bits >= from.bits
    } else {
        to.signed && to.bits > from.bits
    };
    if holds_all {
        return Err("`.sat` where the result holds every value".to_owned());
    }
    Ok(One::Saturated(Saturation(extension)))
}

fn to_integer(form: &mut Form<'_, '_>, to: IntegerType, from: Kind) -> Result<One, Problem> {
    let rounding = form.take_one(&INTEGRAL_ROUNDINGS);
    let rounding = rounding.ok_or("one of `.rni`, `.rzi`, `.rmi` and `.rpi` is missing")?;
    let flush = from == Kind::F32 && form.take("ftz");
    // Results are limited to their type without `.sat` as well.
    if from != Kind::Bf16 {
        form.take("sat");
    }
    let register_bits = form.register_bits(0)?;
    // Subnormal numbers are truncated to zero with `.ftz` and without.
    if from == Kind::F32 && to.bits == 32 && register_bits == 32 && rounding == Rounding::Zero {
        return Ok(One::IntegerFromSingle { signed: to.signed });
    }
    let from = from.format().ok_or("a floating-point type is missing")?;
    let own = General::FloatToInteger { from, to, rounding, flush, register_bits };
    Ok(One::General(Box::new(own)))
}

fn from_integer(form: &mut Form<'_, '_>, to: Kind, from: IntegerType) -> Result<One, Problem> {
    let rounding = form.take_one(&ROUNDINGS);
    let rounding = rounding.ok_or("one of `.rn`, `.rz`, `.rm` and `.rp` is missing")?;
    let mut result = FloatResult::rounded(rounding);
    if to == Kind::F32 {
        // No integer becomes a subnormal number.
        form.take("ftz");
    }
    result.saturate = to != Kind::Bf16 && form.take("sat");
    let plain = FloatResult::rounded(Rounding::NearestEven);
    if to == Kind::F32 && from.bits <= 32 && result == plain {
        return Ok(One::SingleFromInteger(from));
    }
    let to = to.format().ok_or("a floating-point type is missing")?;
    Ok(One::General(Box::new(General::IntegerToFloat { from, to, result })))
}

/// Between equal types: rounding to integral values, `.ftz` and `.sat`.
fn same(form: &mut Form<'_, '_>, kind: Kind) -> Result<One, Problem> {
    let rounding = form.take_one(&INTEGRAL_ROUNDINGS);
    let mut result = FloatResult::rounded(rounding.unwrap_or(Rounding::NearestEven));
    result.flush = kind == Kind::F32 && form.take("ftz");
    result.saturate = kind != Kind::Bf16 && form.take("sat");
    let format = kind.format().ok_or("a floating-point type is missing")?;
    Ok(One::General(Box::new(match rounding {
        Some(_) => General::Integral { format, result },
        None => General::FloatToFloat { from: format, to: format, result },
    })))
}

fn floats(form: &mut Form<'_, '_>, to: Kind, from: Kind) -> Result<One, Problem> {
    let (Some(target), Some(source)) = (to.format(), from.format()) else {
        return Err("a floating-point type is missing".to_owned());
    };
    // Between the types of 16 bits the rounding is `.rn` unless another one is given.
    let narrower = target.precision < source.precision || (to, from) == (Kind::F16, Kind::Bf16);
    // Conversions from bf16 may name a rounding although they are exact.
    let rounding = if narrower || from == Kind::Bf16 { form.take_one(&ROUNDINGS) } else { None };
    let between_halves = to.half().is_some() && from.half().is_some();
    if narrower && rounding.is_none() && !between_halves {
        return Err("one of `.rn`, `.rz`, `.rm` and `.rp` is missing".to_owned());
    }
    let mut result = FloatResult::rounded(rounding.unwrap_or(Rounding::NearestEven));
    result.flush = [to, from].contains(&Kind::F32) && form.take("ftz");
    result.saturate = ![to, from].contains(&Kind::Bf16) && form.take("sat");
    let bare = !result.flush && !result.saturate;
    let directed = matches!(result.rounding, Rounding::Down | Rounding::Up);
    if to.half().is_some() && from == Kind::F32 && bare && !directed {
        result.relu = form.take("relu");
        result.saturate_finite = form.take("satfinite");
    }
    let quick = bare && !result.saturate_finite;
    match (to.half(), from.half()) {
        (Some(half), None)
            if quick && from == Kind::F32 && result.rounding == Rounding::NearestEven =>
        {
            Ok(One::HalfFromSingle(half, result.relu))
        }
        (None, Some(half)) if quick && to == Kind::F32 => Ok(One::SingleFromHalf(half)),
        _ => {
            let own = General::FloatToFloat { from: source, to: target, result };
            Ok(One::General(Box::new(own)))
        }
    }
}

fn tf32(form: &mut Form<'_, '_>) -> Result<One, Problem> {
    if form.take("rna") {
        let saturate_finite = form.take("satfinite");
        let modifiers = Tf32Modifiers { relu: false, saturate_finite };
        let own = General::Tf32 { rounding: Rounding::NearestAway, modifiers };
        return Ok(One::General(Box::new(own)));
    }
    let rounding = form.take_one(&ROUNDINGS[..2]);
    let rounding = rounding.ok_or("one of `.rna`, `.rn` and `.rz` is missing")?;
    let relu = form.take("relu");
    let saturate_finite = form.take("satfinite");
    if saturate_finite && form.generation() < 100 {
        return Err("`.satfinite` needs an architecture from sm_100 on here".to_owned());
    }
    let modifiers = Tf32Modifiers { relu, saturate_finite };
    Ok(One::General(Box::new(General::Tf32 { rounding, modifiers })))
}

/// Two f32 into one register; nothing for types that are no pairs.
fn pair(form: &mut Form<'_, '_>, to: DataType) -> Result<Option<Pair>, Problem> {
    let narrow = narrow_pair(form, to)?;
    if let Some(format) = small_pair(to).or(narrow) {
        take_small_rounding(form)?;
        return Ok(Some(Pair::Small { format, relu: form.take("relu") }));
    }
    if to == DataType::Ue8m0x2 {
        return Ok(Some(Pair::Scale(scale(form)?)));
    }
    let Some(format) = half_pair(to) else { return Ok(None) };
    let rounding = form.take_one(&ROUNDINGS[..2]).ok_or("`.rn` or `.rz` is missing")?;
    let mut result = FloatResult::rounded(rounding);
    result.relu = form.take("relu");
    result.saturate_finite = form.take("satfinite");
    Ok(Some(Pair::Half(format, result)))
}

/// How numbers become powers of two.
fn scale(form: &mut Form<'_, '_>) -> Result<Scale, Problem> {
    check_blackwell(form)?;
    let rounding = form.take_one(&[("rz", Rounding::Zero), ("rp", Rounding::Up)]);
    let rounding = rounding.ok_or("`.rz` or `.rp` is missing")?;
    let finite = form.take("satfinite");
    let overflow = if finite { Overflow::Finite } else { Overflow::Infinity };
    Ok(Scale { rounding, overflow })
}

/// `.rn.satfinite`, which conversions to eight bits must have.
fn take_small_rounding(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.take("rn") && form.take("satfinite") {
        return Ok(());
    }
    Err("`.rn` and `.satfinite` are needed here".to_owned())
}

/// Between pairs of 16 bits and of fewer.
fn pair_to_pair(form: &mut Form<'_, '_>, to: DataType, from: DataType) -> Result<One, Problem> {
    let narrow = narrow_pair(form, from)?;
    if let (DataType::F16x2, Some(from)) = (to, small_pair(from).or(narrow)) {
        if !form.take("rn") {
            return Err("the rounding `.rn` is missing".to_owned());
        }
        let relu = form.take("relu");
        return Ok(One::General(Box::new(General::HalfPair { from, relu })));
    }
    if let (Some(small), Some(half)) = (small_pair(to).or(narrow_pair(form, to)?), half_pair(from))
    {
        if (small_pair(to), half) != (Some(small), HalfFormat::F16) {
            check_blackwell(form)?;
            form.check_exact(form.operand(1)?, from)?;
        }
        take_small_rounding(form)?;
        let relu = form.take("relu");
        return Ok(One::General(Box::new(General::SmallPair { to: small, from: half, relu })));
    }
    if (to, from) == (DataType::Ue8m0x2, DataType::Bf16x2) {
        return Ok(One::General(Box::new(General::ScalePair(scale(form)?))));
    }
    if (to, from) == (DataType::Bf16x2, DataType::Ue8m0x2) {
        check_blackwell(form)?;
        if !form.take("rn") {
            return Err("the rounding `.rn` is missing".to_owned());
        }
        return Ok(One::General(Box::new(General::BrainPair)));
    }
    Err("there is no conversion between these types".to_owned())
}

fn lower_pack(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if !form.take("sat") {
        return Err("`.sat` is missing".to_owned());
    }
    let integer = |bits, signed| IntegerType { bits, signed };
    let narrow = [
        ("u2", integer(2, false)),
        ("s2", integer(2, true)),
        ("u4", integer(4, false)),
        ("s4", integer(4, true)),
        ("u8", integer(8, false)),
        ("s8", integer(8, true)),
    ];
    let (ty, has_third) = match form.take_one(&narrow) {
        Some(ty) => (ty, true),
        None => {
            let wide = [("u16", integer(16, false)), ("s16", integer(16, true))];
            (form.take_one(&wide).ok_or("a type of 2 to 16 bits is missing")?, false)
        }
    };
    if !form.take("s32") {
        return Err("the type of the sources must be `.s32`".to_owned());
    }
    if has_third && !form.take("b32") {
        return Err("the type `.b32` of the third source is missing".to_owned());
    }
    form.finish()?;
    form.expect(if has_third { 4 } else { 3 })?;
    let mut from = [Source32::Immediate(0); 3];
    from[0] = form.source32(1, DataType::S32)?;
    from[1] = form.source32(2, DataType::S32)?;
    if has_third {
        from[2] = form.source32(3, DataType::B32)?;
    }
    let to = form.destination(0, DataType::U32)?;
    let operands = Box::new(pack::Operands { to, from });
    form.emit(Operation::Convert(Convert::Pack(Pack(ty), operands)));
    Ok(())
}
