//! f64.

use super::{Arithmetic, Function};
use crate::execute::registers::{Doubles, Registers, lanes};
use crate::numeric::{double, minmax};
use crate::program::operand::Source64;

const SIGN: u64 = 1 << 63;

/// The results of all lanes in `mask`; the others hold anything.
pub(super) fn compute(
    own: &Arithmetic,
    registers: &Registers,
    from: &[Source64; 3],
    mask: u32,
) -> Doubles {
    let operands = from.map(|source| registers.doubles(source));
    let mut results = [0; 32];
    for lane in lanes(mask) {
        results[lane] = one(own, [operands[0][lane], operands[1][lane], operands[2][lane]]);
    }
    results
}

fn one(own: &Arithmetic, codes: [u64; 3]) -> u64 {
    let [a, b, c] = codes.map(f64::from_bits);
    let rounding = own.rounding;
    let result = match own.function {
        Function::Add => double::add(a, b, rounding),
        Function::Subtract => double::subtract(a, b, rounding),
        Function::Multiply => double::multiply(a, b, rounding),
        Function::Fused | Function::FusedInside => double::fused(a, b, c, rounding),
        Function::Divide | Function::DivideApproximate | Function::DivideFull => {
            double::divide(a, b, rounding)
        }
        Function::Reciprocal => double::reciprocal(a, rounding),
        Function::SquareRoot => double::square_root(a, rounding),
        Function::Negate => return codes[0] ^ SIGN,
        Function::Absolute => return codes[0] & !SIGN,
        Function::Extremum(extremum, _) => minmax::double(extremum, a, b),
        Function::Approximate(function) if own.modifiers.flush => function.double(a),
        // `rsqrt.approx.f64`, the only one without `.ftz`; the exact result is within its bound.
        Function::Approximate(_) => double::reciprocal(double::square_root(a, rounding), rounding),
    };
    result.to_bits()
}
