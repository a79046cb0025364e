//! The inputs: a fixed generator, and the values at which arithmetic turns.

use crate::cases::Column;

/// Splitmix64, seeded by the name of the row.
pub struct Random(u64);

impl Random {
    pub fn of(name: &str) -> Self {
        // The 64-bit FNV-1a hash.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        Self(name.bytes().fold(0xCBF2_9CE4_8422_2325, hash))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn pick(&mut self, values: &[u64]) -> u64 {
        values[self.below(values.len())]
    }

    /// Uniform in -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
}

impl Format {
    pub const fn bytes(self) -> usize {
        match self {
            Self::E4m3 | Self::E5m2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    pub const fn mantissa(self) -> u32 {
        match self {
            Self::E5m2 => 2,
            Self::E4m3 => 3,
            Self::Bf16 => 7,
            Self::F16 => 10,
            Self::F32 => 23,
            Self::F64 => 52,
        }
    }

    const fn exponent(self) -> u32 {
        self.bytes() as u32 * 8 - 1 - self.mantissa()
    }

    pub const fn bias(self) -> i32 {
        (1 << (self.exponent() - 1)) - 1
    }

    /// The value of a pattern; E4M3 has no infinities.
    pub fn value(self, bits: u64) -> f64 {
        let mantissa = bits & ((1 << self.mantissa()) - 1);
        let exponent = (bits >> self.mantissa()) & ((1 << self.exponent()) - 1);
        let top = (1 << self.exponent()) - 1;
        let sign = if bits >> (self.bytes() * 8 - 1) & 1 == 1 { -1.0 } else { 1.0 };
        if self == Self::F64 {
            return f64::from_bits(bits);
        }
        if self == Self::E4m3 && exponent == top && mantissa == 7 {
            return f64::NAN;
        }
        if self != Self::E4m3 && exponent == top {
            return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN };
        }
        let (fraction, power) = match exponent {
            0 => (mantissa, 1 - self.bias()),
            _ => (mantissa | 1 << self.mantissa(), exponent as i32 - self.bias()),
        };
        sign * fraction as f64 * 2f64.powi(power - self.mantissa() as i32)
    }

    /// The pattern of a small number that the format holds exactly, or is truncated to.
    pub fn pattern(self, value: f64) -> u64 {
        let bits = value.to_bits();
        if self == Self::F64 {
            return bits;
        }
        let sign = (bits >> 63) << (self.bytes() * 8 - 1);
        let exponent = ((bits >> 52) & 0x7FF) as i32 - 1023 + self.bias();
        if value == 0.0 || exponent <= 0 {
            return sign;
        }
        let mantissa = (bits & ((1 << 52) - 1)) >> (52 - self.mantissa());
        sign | (exponent as u64) << self.mantissa() | mantissa
    }

    /// Zeros, ones, extremes, subnormals, infinities, NaN, neighbours of one, halves, integers.
    pub fn specials(self) -> Vec<u64> {
        let sign = 1_u64 << (self.bytes() * 8 - 1);
        let unit = 1_u64 << self.mantissa();
        let one = (self.bias() as u64) << self.mantissa();
        let infinity = ((1_u64 << self.exponent()) - 1) << self.mantissa();
        let positive = [
            0,
            1,
            unit - 1,
            unit,
            unit + 1,
            unit * 2,
            one,
            one + 1,
            one - 1,
            one + unit / 2,
            one - unit,
            one - unit * 2,
            one + unit,
            one + unit + unit / 4,
            infinity - 1,
            infinity - unit,
            infinity,
            infinity | (unit / 2),
            infinity | (unit / 2) | 5,
        ];
        positive.iter().flat_map(|&bits| [bits, bits | sign]).collect()
    }

    /// Any pattern, or (three times in four) one within a few powers of two of one.
    pub fn random(self, random: &mut Random) -> u64 {
        let bits = random.next();
        let all = if self.bytes() == 8 { u64::MAX } else { (1 << (self.bytes() * 8)) - 1 };
        if random.below(4) == 0 {
            return bits & all;
        }
        let exponent = (self.bias() + random.below(7) as i32 - 3) as u64;
        let kept = bits & (((1 << self.mantissa()) - 1) | (1 << (self.bytes() * 8 - 1)));
        kept | exponent << self.mantissa()
    }
}

/// Operands of a floating-point form: special values in the first three quarters.
pub fn floats(name: &str, format: Format, operands: usize, count: usize) -> Vec<Column> {
    let specials = format.specials();
    columns(name, format.bytes(), operands, count, &specials, |random| format.random(random))
}

/// Pairs of 16-bit values in 32 bits.
pub fn packed(name: &str, format: Format, operands: usize, count: usize) -> Vec<Column> {
    let (low, high) = (floats(name, format, operands, count), format.specials());
    let mut random = Random::of(&format!("{name} high"));
    let pair = |column: Column| {
        let values = column.values.into_iter().map(|value| {
            let other =
                if random.below(2) == 0 { random.pick(&high) } else { format.random(&mut random) };
            other << 16 | value
        });
        Column::new(4, values.collect())
    };
    low.into_iter().map(pair).collect()
}

/// Operands of an integer form of `bits` bits.
pub fn integers(name: &str, bits: u32, operands: usize, count: usize) -> Vec<Column> {
    let all = u64::MAX >> (64 - bits);
    let sign = 1_u64 << (bits - 1);
    let specials: Vec<u64> = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        u64::from(bits) - 1,
        u64::from(bits),
        sign,
        sign - 1,
        sign + 1,
        all,
        all - 1,
        0x5555_5555_5555_5555 & all,
        0xF0F0_A5A5_8001_7FFE & all,
    ]
    .to_vec();
    columns(name, bits as usize / 8, operands, count, &specials, |random| {
        let shift = if random.below(3) == 0 { random.below(bits as usize) } else { 0 };
        (random.next() & all) >> shift
    })
}

/// Small numbers for shift amounts, positions, lengths and selectors, some too large.
pub fn amounts(name: &str, bytes: usize, count: usize, specials: &[u64]) -> Column {
    let mut random = Random::of(&format!("{name} amounts"));
    Column::new(bytes, (0..count).map(|_| random.pick(specials)).collect())
}

fn columns(
    name: &str,
    bytes: usize,
    operands: usize,
    count: usize,
    specials: &[u64],
    any: impl Fn(&mut Random) -> u64,
) -> Vec<Column> {
    let mut random = Random::of(name);
    let mut columns: Vec<Column> = (0..operands).map(|_| Column::new(bytes, Vec::new())).collect();
    for row in 0..count {
        for (operand, column) in columns.iter_mut().enumerate() {
            let special = row < count * 3 / 4 && (operands == 1 || random.below(8) != 0);
            let value = match (special, operands) {
                (true, 1) if row < specials.len() => specials[row],
                (true, 2) if operand == 0 => specials[row % specials.len()],
                (true, 2..) => random.pick(specials),
                _ => any(&mut random),
            };
            column.values.push(value);
        }
    }
    columns
}
