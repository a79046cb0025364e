//! `cvt.rs`: numbers of f32 that random bits round up or down.
//!
//! Bits of the number that are cut off and random ones are added; the result is rounded away from
//! zero if that carries. For f16 there are 13 random bits and for bf16 16, as many as are cut off
//! from normal numbers. Smaller types lose more bits than the 16 there are for them; that those
//! meet the highest ones, and that a number below the normal ones is treated alike, the manual
//! does not say. Its text, but not its drawing, was there to tell which bits are for which number.

use super::Convert;
use super::lower::check_literal;
use crate::arch::Arch;
use crate::execute::registers::{Words, lanes};
use crate::module::Operand;
use crate::numeric::convert::{FloatResult, float_to_float};
use crate::numeric::format::{F32, Format};
use crate::numeric::half::HalfFormat;
use crate::numeric::small::SmallFormat;
use crate::numeric::{RandomBits, Rounding};
use crate::ops::Operation;
use crate::program::operand::{Source32, Wide};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// What the numbers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Two numbers.
    Half(HalfFormat),
    /// Four numbers.
    Small(SmallFormat),
}

impl Target {
    fn format(self) -> &'static Format {
        match self {
            Self::Half(format) => format.format(),
            Self::Small(format) => format.format(),
        }
    }

    /// How far two numbers of the result are apart, in bits.
    fn distance(self) -> u32 {
        match self {
            Self::Half(_) => 16,
            Self::Small(format) => format.pair_bits(),
        }
    }

    /// The random bits for source `index`.
    fn random(self, word: u32, index: usize) -> RandomBits {
        let (upper, lower) = (word >> 16, word & 0xFFFF);
        let is_high = match self {
            Self::Half(_) => index == 0,
            Self::Small(_) => index < 2,
        };
        let bits = match (self, is_high) {
            // Bytes of both halves: the upper ones for the first two numbers.
            (Self::Small(SmallFormat::E2m1), true) => upper & 0xFF00 | lower >> 8,
            (Self::Small(SmallFormat::E2m1), false) => (upper & 0xFF) << 8 | lower & 0xFF,
            (_, true) => upper,
            (_, false) => lower,
        };
        let width = if self == Self::Half(HalfFormat::F16) { 13 } else { 16 };
        RandomBits { bits: bits & ((1 << width) - 1), width }
    }
}

/// A conversion of two or four numbers, the first of which becomes the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stochastic {
    pub(super) target: Target,
    pub(super) relu: bool,
    pub(super) saturate_finite: bool,
}

/// The registers of a [`Stochastic`].
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(super) to: Wide,
    pub(super) from: Vec<Source32>,
    pub(super) random: Source32,
}

impl Stochastic {
    /// The results of all lanes in `mask`.
    pub(super) fn compute(self, sources: &[Words], random: &Words, mask: u32) -> Words {
        let mut results = [0; 32];
        for lane in lanes(mask) {
            for (index, source) in sources.iter().enumerate() {
                let one = self.one(source[lane], self.target.random(random[lane], index));
                results[lane] = results[lane] << self.target.distance() | one;
            }
        }
        results
    }

    fn one(self, value: u32, random: RandomBits) -> u32 {
        let Self { target, relu, saturate_finite } = self;
        let rounding = Rounding::Stochastic(random);
        let result = FloatResult { relu, saturate_finite, ..FloatResult::rounded(rounding) };
        float_to_float(u64::from(value), &F32, target.format(), result) as u32
    }
}

/// `.rs`: pairs of 16 bits, and fours of fewer.
pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    // Not even the family of sm_100 has it.
    if !form.is_for(Arch::Sm100a) {
        return Err("`.rs` needs the target sm_100a".to_owned());
    }
    form.take("rs");
    let relu = form.take("relu");
    let saturate_finite = form.take("satfinite");
    let targets = [
        ("f16x2", Target::Half(HalfFormat::F16)),
        ("bf16x2", Target::Half(HalfFormat::Bf16)),
        ("e4m3x4", Target::Small(SmallFormat::E4m3)),
        ("e5m2x4", Target::Small(SmallFormat::E5m2)),
        ("e2m3x4", Target::Small(SmallFormat::E2m3)),
        ("e3m2x4", Target::Small(SmallFormat::E3m2)),
        ("e2m1x4", Target::Small(SmallFormat::E2m1)),
    ];
    let target = form.take_one(&targets).ok_or("`.rs` rounds to no such type")?;
    if !form.take("f32") {
        return Err("`.rs` rounds from `.f32` only".to_owned());
    }
    let is_small = matches!(target, Target::Small(_));
    if is_small && !saturate_finite {
        return Err("`.satfinite` is needed here".to_owned());
    }
    form.finish()?;
    form.expect(if is_small { 3 } else { 4 })?;
    let sources: Vec<_> = if is_small {
        form.vector(1)?.iter().cloned().collect()
    } else {
        vec![form.operand(1)?.clone(), form.operand(2)?.clone()]
    };
    if is_small && sources.len() != 4 {
        return Err(format!("a vector of four is wanted, not of {}", sources.len()));
    }
    let mut from = Vec::new();
    for source in &sources {
        check_literal(source, DataType::F32)?;
        from.push(form.source32_of(source, DataType::F32)?);
    }
    let random = form.count() - 1;
    if matches!(form.operand(random)?, Operand::Immediate(_)) {
        return Err("the random bits are a register, not a literal".to_owned());
    }
    let random = form.source32(random, DataType::U32)?;
    let to = match target {
        Target::Half(HalfFormat::F16) => form.wide(0, DataType::F16x2)?,
        Target::Half(HalfFormat::Bf16) => Wide::Word(form.destination(0, DataType::Bf16x2)?),
        Target::Small(SmallFormat::E2m1) => Wide::Word(form.destination(0, DataType::B16)?),
        Target::Small(_) => Wide::Word(form.destination(0, DataType::B32)?),
    };
    let stochastic = Stochastic { target, relu, saturate_finite };
    let operands = Box::new(Operands { to, from, random });
    form.emit(Operation::Convert(Convert::Stochastic(stochastic, operands)));
    Ok(())
}
