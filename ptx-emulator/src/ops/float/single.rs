//! f32. What compilers emit most is computed for all 32 lanes at once, without branches.

use super::{Arithmetic, Function};
use crate::execute::registers::{Registers, Words, lanes};
use crate::numeric::minmax::{Extremum, MinMaxModifiers};
use crate::numeric::single::{self, CANONICAL_NAN, Inexact, canonical};
use crate::numeric::{Modifiers, Rounding, approx};
use crate::program::operand::Source32;

/// One f32 of every lane.
type Singles = [f32; 32];

const SIGN: u32 = 0x8000_0000;
const INFINITY: i32 = 0x7F80_0000;

/// The results of all lanes in `mask`; the others hold anything.
#[inline]
pub(super) fn compute(
    own: &Arithmetic,
    registers: &Registers,
    from: &[Source32; 3],
    mask: u32,
) -> Words {
    of(own, mask, |index| registers.words(from[index]))
}

/// The same for operands that are numbers already.
#[inline(always)]
pub(super) fn of(own: &Arithmetic, mask: u32, codes: impl Fn(usize) -> Words) -> Words {
    let modifiers = own.modifiers;
    let operand = |index: usize| -> Singles {
        let values = codes(index).map(f32::from_bits);
        if modifiers.flush { values.map(single::flush) } else { values }
    };
    let result =
        if own.rounding == Rounding::NearestEven { nearest(own.function, operand) } else { None };
    let mut result = match result {
        Some(result) => result,
        None => each(own, operand, mask),
    };
    if modifiers.flush && result.iter().any(|result| result.abs() == f32::MIN_POSITIVE) {
        flush_hidden(own, operand, &mut result);
    }
    finish(own, result).map(f32::to_bits)
}

/// Functions that are quick for a whole warp.
#[inline(always)]
fn nearest(function: Function, operand: impl Fn(usize) -> Singles) -> Option<Singles> {
    Some(match function {
        Function::Add => single::add_lanes(&operand(0), &operand(1)),
        Function::Subtract => two(&operand(0), &operand(1), |a, b| canonical(a - b)),
        Function::Multiply => single::multiply_lanes(&operand(0), &operand(1)),
        Function::Fused | Function::FusedInside => {
            single::fused_lanes(&operand(0), &operand(1), &operand(2))
        }
        Function::Divide => two(&operand(0), &operand(1), |a, b| canonical(a / b)),
        Function::Reciprocal => operand(0).map(|a| canonical(1.0 / a)),
        Function::SquareRoot => operand(0).map(|a| canonical(a.sqrt())),
        Function::Negate => operand(0).map(|a| f32::from_bits(a.to_bits() ^ SIGN)),
        Function::Absolute => operand(0).map(|a| f32::from_bits(a.to_bits() & !SIGN)),
        Function::Extremum(extremum, modifiers) => {
            extremum_lanes(extremum, modifiers, &operand(0), &operand(1))
        }
        Function::DivideApproximate | Function::DivideFull | Function::Approximate(_) => {
            return None;
        }
    })
}

#[inline(always)]
fn two(a: &Singles, b: &Singles, function: impl Fn(f32, f32) -> f32) -> Singles {
    std::array::from_fn(|lane| function(a[lane], b[lane]))
}

/// Functions that are computed one lane at a time.
fn each(own: &Arithmetic, operand: impl Fn(usize) -> Singles, mask: u32) -> Singles {
    let sources = own.function.sources();
    let a = operand(0);
    let b = if sources > 1 { operand(1) } else { a };
    let c = if sources > 2 { operand(2) } else { a };
    let mut results = [0.0; 32];
    for lane in lanes(mask) {
        results[lane] = one(own, [a[lane], b[lane], c[lane]]);
    }
    results
}

fn one(own: &Arithmetic, [a, b, c]: [f32; 3]) -> f32 {
    let rounding = own.rounding;
    match own.function {
        Function::Add => single::add(a, b, rounding),
        Function::Subtract => single::subtract(a, b, rounding),
        Function::Multiply => single::multiply(a, b, rounding),
        Function::Fused | Function::FusedInside => single::fused(a, b, c, rounding),
        Function::Divide => single::divide(a, b, rounding),
        Function::DivideApproximate => approx::divide(a, b, own.modifiers),
        Function::DivideFull => approx::divide_full(a, b, own.modifiers),
        Function::Reciprocal => single::reciprocal(a, rounding),
        Function::SquareRoot => single::square_root(a, rounding),
        Function::Negate => -a,
        Function::Absolute => a.abs(),
        Function::Extremum(extremum, modifiers) => {
            crate::numeric::minmax::single(extremum, a, b, modifiers)
        }
        Function::Approximate(function) => function.single(a, own.modifiers),
    }
}

/// Makes zeros of those smallest normal numbers that `.ftz` takes for subnormal.
fn flush_hidden(own: &Arithmetic, operand: impl Fn(usize) -> Singles, results: &mut Singles) {
    let (operation, places) = match own.function {
        Function::Multiply => (Inexact::Multiply, [0, 1, 1]),
        Function::Fused => (Inexact::Fused, [0, 1, 2]),
        Function::Divide => (Inexact::Divide, [0, 1, 1]),
        Function::Reciprocal => (Inexact::Divide, [0, 0, 0]),
        _ => return,
    };
    let mut operands = places.map(&operand);
    if own.function == Function::Reciprocal {
        operands[0] = [1.0; 32];
    }
    for (lane, result) in results.iter_mut().enumerate() {
        let values = [0, 1, 2].map(|place: usize| operands[place][lane]);
        if result.abs() == f32::MIN_POSITIVE && single::is_tiny(operation, values, own.rounding) {
            *result = 0f32.copysign(*result);
        }
    }
}

/// `.ftz` and `.sat` of results.
#[inline(always)]
fn finish(own: &Arithmetic, mut result: Singles) -> Singles {
    let Modifiers { flush, saturate, .. } = own.modifiers;
    if flush {
        result = result.map(single::flush);
    }
    if saturate { result.map(single::saturate) } else { result }
}

/// `min` and `max`: the same as [`crate::numeric::minmax::single`] for every lane.
#[inline(always)]
fn extremum_lanes(
    extremum: Extremum,
    modifiers: MinMaxModifiers,
    a: &Singles,
    b: &Singles,
) -> Singles {
    let sign_mask = if modifiers.xor_sign { SIGN } else { 0 };
    // The order is turned around for the smaller of two.
    let turn = if extremum == Extremum::Minimum { -1 } else { 0 };
    let any_nan = modifiers.propagate_nan;
    std::array::from_fn(|lane| {
        let (a, b) = (a[lane].to_bits(), b[lane].to_bits());
        let sign = (a ^ b) & sign_mask;
        let (a, b) = (a & !sign_mask, b & !sign_mask);
        let a_nan = (a & !SIGN) as i32 > INFINITY;
        let b_nan = (b & !SIGN) as i32 > INFINITY;
        let wanted = if ordered(a) ^ turn > ordered(b) ^ turn { a } else { b };
        let number = if b_nan { a } else { wanted };
        let number = if a_nan { b } else { number };
        let nan = (a_nan & b_nan) | (any_nan & (a_nan | b_nan));
        f32::from_bits(if nan { CANONICAL_NAN.to_bits() } else { sign | number })
    })
}

/// An integer that orders codes as their values, with -0 before +0.
#[inline(always)]
fn ordered(code: u32) -> i32 {
    let negative = ((code as i32) >> 31) as u32;
    (code ^ (negative >> 1)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::minmax;

    #[test]
    fn the_extrema_of_a_warp_are_those_of_its_lanes() {
        let codes = [
            0u32,
            SIGN,
            1,
            SIGN | 1,
            0x3F80_0000,
            0xBF80_0000,
            0x7F80_0000,
            0xFF80_0000,
            0x7F80_0001,
            0xFFC0_0000,
            0x7FFF_FFFF,
            0x0080_0000,
            0x8080_0000,
            0x7F7F_FFFF,
            0xFF7F_FFFF,
            0x4000_0000,
        ];
        let a: Singles = std::array::from_fn(|lane| f32::from_bits(codes[lane % codes.len()]));
        for shift in 0..codes.len() {
            let b: Singles =
                std::array::from_fn(|lane| f32::from_bits(codes[(lane + shift) % codes.len()]));
            for extremum in [Extremum::Minimum, Extremum::Maximum] {
                for flags in 0..4 {
                    let modifiers = MinMaxModifiers {
                        flush: false,
                        propagate_nan: flags & 1 != 0,
                        xor_sign: flags & 2 != 0,
                    };
                    let found = extremum_lanes(extremum, modifiers, &a, &b).map(f32::to_bits);
                    let wanted: Words = std::array::from_fn(|lane| {
                        minmax::single(extremum, a[lane], b[lane], modifiers).to_bits()
                    });
                    assert_eq!(found, wanted, "{extremum:?} {modifiers:?} {shift}");
                }
            }
        }
    }
}
