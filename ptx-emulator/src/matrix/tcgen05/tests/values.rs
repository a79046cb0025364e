//! What codes mean, by the textbook formula, and what sums round to.

use crate::matrix::AccumulatorType;

/// A small generator of numbers (Marsaglia's xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    pub(super) fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }

    pub(super) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(super) fn one<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u32) as usize]
    }
}

/// Element types, with the codes of the instruction descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    E2m3,
    E3m2,
    E2m1,
    U8,
    S8,
}

impl Type {
    /// Bits of a code, and of these exponent and fraction; integers have neither.
    fn fields(self) -> (u32, u32, u32) {
        match self {
            Self::F16 => (16, 5, 10),
            Self::Bf16 => (16, 8, 7),
            Self::Tf32 => (32, 8, 10),
            Self::E4m3 => (8, 4, 3),
            Self::E5m2 => (8, 5, 2),
            Self::E2m3 => (6, 2, 3),
            Self::E3m2 => (6, 3, 2),
            Self::E2m1 => (4, 2, 1),
            Self::U8 | Self::S8 => (8, 0, 0),
        }
    }

    pub(super) fn bits(self) -> u32 {
        self.fields().0
    }

    /// The value of a code that is finite.
    pub(super) fn value(self, code: u32) -> f64 {
        match self {
            Self::U8 => f64::from(code),
            Self::S8 => f64::from(code as u8 as i8),
            // The low bits of a word of tf32 do not count.
            Self::Tf32 => float(code >> 13, 8, 10),
            _ => {
                let (_, exponent, fraction) = self.fields();
                float(code, exponent, fraction)
            }
        }
    }

    /// A random code; wide types stay within 2^-6 to 2^6, so that sums in `f64` are exact.
    pub(super) fn random(self, random: &mut Random) -> u32 {
        loop {
            let code = random.next() & (u32::MAX >> (32 - self.bits()));
            let value = self.value(code).abs();
            let narrow = matches!(self, Self::U8 | Self::S8) || self.bits() < 8;
            if narrow || (2f64.powi(-6)..64.0).contains(&value) {
                return code;
            }
            if code.is_multiple_of(16) {
                return 0;
            }
        }
    }
}

/// A finite number with a sign, IEEE bias and subnormal numbers.
fn float(code: u32, exponent_bits: u32, fraction_bits: u32) -> f64 {
    let sign = if code >> (exponent_bits + fraction_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let exponent = code >> fraction_bits & ((1 << exponent_bits) - 1);
    let fraction = f64::from(code & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    if exponent == 0 {
        return sign * fraction * 2f64.powi(1 - bias);
    }
    sign * (1.0 + fraction) * 2f64.powi(exponent as i32 - bias)
}

/// A scale factor that is not NaN.
pub(super) fn scale(is_ue8m0: bool, code: u8) -> f64 {
    if is_ue8m0 { 2f64.powi(i32::from(code) - 127) } else { float(code.into(), 4, 3) }
}

/// The value of a word of D.
pub(super) fn of_accumulator(kind: AccumulatorType, word: u32) -> f64 {
    match kind {
        AccumulatorType::F32 => f64::from(f32::from_bits(word)),
        AccumulatorType::F16 => Type::F16.value(word & 0xFFFF),
        AccumulatorType::S32 => f64::from(word as i32),
    }
}

/// The word of D for an exact sum.
pub(super) fn rounded(kind: AccumulatorType, saturate: bool, sum: f64) -> u32 {
    match kind {
        AccumulatorType::F32 => {
            let nearest = sum as f32;
            let beyond = f64::from(nearest).abs() > sum.abs();
            nearest.to_bits() - u32::from(beyond)
        }
        AccumulatorType::F16 => {
            let sign = if sum.is_sign_negative() { 0x8000 } else { 0 };
            let size = sum.abs();
            if size >= 65_520.0 {
                return sign | 0x7C00;
            }
            // The last code that is not larger, among those below infinity, which are in order.
            let codes: Vec<u32> = (0..0x7C00).collect();
            let below = codes.partition_point(|code| Type::F16.value(*code) <= size) as u32 - 1;
            let above = if below == 0x7BFF { 65_536.0 } else { Type::F16.value(below + 1) };
            let (down, up) = (size - Type::F16.value(below), above - size);
            let up = up < down || up == down && below % 2 == 1;
            sign | (below + u32::from(up))
        }
        AccumulatorType::S32 => {
            let sum = sum as i64;
            let limited = sum.clamp(i32::MIN.into(), i32::MAX.into());
            (if saturate { limited } else { sum }) as u32
        }
    }
}
