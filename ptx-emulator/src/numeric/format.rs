//! Binary floating-point formats: unpacking a code and rounding to one.

use super::Rounding;

/// A binary format with a sign bit on top, a biased exponent and a fraction, in this order, and
/// with subnormal numbers. Codes lie in the low bits of a `u64`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the significand, the implicit one included.
    pub(crate) precision: u32,
    /// The power of two of the smallest normal number.
    pub(crate) minimum_exponent: i32,
    /// The position of the sign bit.
    pub(crate) sign_position: u32,
    /// The code of the largest finite number.
    pub(crate) maximum: u64,
    /// The code of plus infinity, which directly follows `maximum`, where the format has one.
    pub(crate) infinity: Option<u64>,
    /// The code that a NaN becomes. Formats without NaN have their largest number here, which is
    /// what the conversions of PTX make of a NaN (PTX ISA, `cvt`, `.satfinite`).
    pub(crate) canonical_nan: u64,
}

/// IEEE binary64.
pub(crate) const F64: Format = Format {
    precision: 53,
    minimum_exponent: -1022,
    sign_position: 63,
    maximum: 0x7FEF_FFFF_FFFF_FFFF,
    infinity: Some(0x7FF0_0000_0000_0000),
    canonical_nan: 0xFFF8_0000_0000_0000,
};

/// IEEE binary32.
pub(crate) const F32: Format = Format {
    precision: 24,
    minimum_exponent: -126,
    sign_position: 31,
    maximum: 0x7F7F_FFFF,
    infinity: Some(0x7F80_0000),
    canonical_nan: 0x7FFF_FFFF,
};

/// IEEE binary16.
pub(crate) const F16: Format = Format {
    precision: 11,
    minimum_exponent: -14,
    sign_position: 15,
    maximum: 0x7BFF,
    infinity: Some(0x7C00),
    canonical_nan: 0x7FFF,
};

/// The upper half of binary32.
pub(crate) const BF16: Format = Format {
    precision: 8,
    minimum_exponent: -126,
    sign_position: 15,
    maximum: 0x7F7F,
    infinity: Some(0x7F80),
    canonical_nan: 0x7FFF,
};

/// The upper 19 bits of binary32, here in the low bits; `small` moves them to their place.
pub(crate) const TF32: Format = Format {
    precision: 11,
    minimum_exponent: -126,
    sign_position: 18,
    maximum: 0x3_FBFF,
    infinity: Some(0x3_FC00),
    canonical_nan: 0x3_FFFF,
};

/// Four bits of exponent, three of fraction, no infinity, one NaN of each sign.
pub(crate) const E4M3: Format = Format {
    precision: 4,
    minimum_exponent: -6,
    sign_position: 7,
    maximum: 0x7E,
    infinity: None,
    canonical_nan: 0x7F,
};

/// Five bits of exponent, two of fraction, IEEE infinities and NaNs.
pub(crate) const E5M2: Format = Format {
    precision: 3,
    minimum_exponent: -14,
    sign_position: 7,
    maximum: 0x7B,
    infinity: Some(0x7C),
    canonical_nan: 0x7F,
};

/// Two bits of exponent, one of fraction, finite numbers only.
pub(crate) const E2M1: Format = Format {
    precision: 2,
    minimum_exponent: 0,
    sign_position: 3,
    maximum: 0x7,
    infinity: None,
    canonical_nan: 0x7,
};

/// Two bits of exponent, three of fraction, finite numbers only.
pub(crate) const E2M3: Format = Format {
    precision: 4,
    minimum_exponent: 0,
    sign_position: 5,
    maximum: 0x1F,
    infinity: None,
    canonical_nan: 0x1F,
};

/// Three bits of exponent, two of fraction, finite numbers only.
pub(crate) const E3M2: Format = Format {
    precision: 3,
    minimum_exponent: -2,
    sign_position: 5,
    maximum: 0x1F,
    infinity: None,
    canonical_nan: 0x1F,
};

/// A number taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// The sign, which zeros and infinities have too.
    pub(crate) negative: bool,
    /// The rest.
    pub(crate) magnitude: Magnitude,
}

/// The absolute value of a [`Number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magnitude {
    /// Zero.
    Zero,
    /// `significand` times two to the `exponent`; the significand is not zero. A lowest bit that is
    /// set may also stand for any amount strictly between its two even neighbours ("rounded to
    /// odd"), provided that the significand has two bits more than the format it is rounded to.
    Finite {
        /// An integer, not normalised.
        significand: u128,
        /// The power of two of the significand's lowest bit.
        exponent: i32,
    },
    /// Infinity.
    Infinite,
    /// Not a number, whatever the payload.
    NotANumber,
}

/// What becomes of a number beyond the largest one of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// IEEE 754: infinity, or the largest number where the rounding does not reach infinity.
    Infinity,
    /// `.satfinite`: the largest number, for infinities too.
    Finite,
}

impl Number {
    /// The number of an integer's absolute value and sign. Zero is +0.
    pub(crate) fn integer(negative: bool, value: u64) -> Self {
        if value == 0 {
            return Self { negative: false, magnitude: Magnitude::Zero };
        }
        let magnitude = Magnitude::Finite { significand: u128::from(value), exponent: 0 };
        Self { negative, magnitude }
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }
}

impl Format {
    /// The bit of the sign.
    pub(crate) fn sign_bit(&self) -> u64 {
        1 << self.sign_position
    }

    /// The bits of a code without its sign.
    pub(crate) fn magnitude_bits(&self, code: u64) -> u64 {
        code & (self.sign_bit() - 1)
    }

    /// The code of the smallest normal number; codes of smaller magnitude are subnormal or zero.
    pub(crate) fn smallest_normal(&self) -> u64 {
        1 << (self.precision - 1)
    }

    /// Whether a code is a NaN.
    pub(crate) fn is_nan(&self, code: u64) -> bool {
        self.magnitude_bits(code) > self.infinity.unwrap_or(self.maximum)
    }

    /// The code with a subnormal magnitude replaced by zero, the sign kept.
    pub(crate) fn flushed(&self, code: u64) -> u64 {
        if self.magnitude_bits(code) < self.smallest_normal() {
            return code & self.sign_bit();
        }
        code
    }

    /// As [`round`](Self::round), but a number that stays below the smallest normal one when it is
    /// rounded to the format's precision becomes a zero of its sign.
    ///
    /// So a number just below the smallest normal one that rounds up only because subnormal
    /// numbers have fewer digits is zero. The manual's `.ftz` leaves it open; an H200 does this.
    pub(crate) fn round_flushed(
        &self,
        number: Number,
        rounding: Rounding,
        overflow: Overflow,
    ) -> u64 {
        let code = self.round(number, rounding, overflow);
        if self.magnitude_bits(code) > self.smallest_normal() {
            return code;
        }
        // Two steps below this format's smallest exponent, where digits are lost further down.
        let wider = Self { minimum_exponent: self.minimum_exponent - 2, ..*self };
        let wide = wider.magnitude_bits(wider.round(number, rounding, Overflow::Infinity));
        if wide < 3 * self.smallest_normal() { code & self.sign_bit() } else { code }
    }

    /// Takes a code apart. Bits above the sign are ignored.
    pub(crate) fn unpack(&self, code: u64) -> Number {
        let negative = code & self.sign_bit() != 0;
        let bits = self.magnitude_bits(code);
        Number { negative, magnitude: self.unpack_magnitude(bits) }
    }

    fn unpack_magnitude(&self, bits: u64) -> Magnitude {
        if bits == 0 {
            return Magnitude::Zero;
        }
        if Some(bits) == self.infinity {
            return Magnitude::Infinite;
        }
        if bits > self.maximum {
            return Magnitude::NotANumber;
        }
        let implicit = self.smallest_normal();
        let lowest = self.minimum_exponent - (self.precision as i32 - 1);
        let biased = (bits >> (self.precision - 1)) as i32;
        let fraction = bits & (implicit - 1);
        if biased == 0 {
            return Magnitude::Finite { significand: u128::from(fraction), exponent: lowest };
        }
        let significand = u128::from(fraction | implicit);
        Magnitude::Finite { significand, exponent: lowest + biased - 1 }
    }

    /// Rounds a number to the format, once.
    ///
    /// NaN becomes the canonical NaN. A format without infinity overflows to its NaN, or, when it
    /// has none, to its largest number.
    pub(crate) fn round(&self, number: Number, rounding: Rounding, overflow: Overflow) -> u64 {
        let sign = if number.negative { self.sign_bit() } else { 0 };
        match number.magnitude {
            Magnitude::NotANumber => self.canonical_nan,
            Magnitude::Zero => sign,
            Magnitude::Infinite => sign | self.beyond(overflow),
            Magnitude::Finite { significand, exponent } => {
                let (significand, exponent) = narrow(significand, exponent);
                match self.round_magnitude(number.negative, significand, exponent, rounding) {
                    Some(bits) => sign | bits,
                    None if stops_at_maximum(number.negative, rounding) => sign | self.maximum,
                    None => sign | self.beyond(overflow),
                }
            }
        }
    }

    fn beyond(&self, overflow: Overflow) -> u64 {
        match overflow {
            Overflow::Infinity => self.infinity.unwrap_or(self.canonical_nan),
            Overflow::Finite => self.maximum,
        }
    }

    /// The code of a non-zero magnitude, or nothing beyond the largest finite number.
    fn round_magnitude(
        &self,
        negative: bool,
        significand: u64,
        exponent: i32,
        rounding: Rounding,
    ) -> Option<u64> {
        let fraction_bits = self.precision as i32 - 1;
        let top = exponent + 63 - significand.leading_zeros() as i32;
        // The bias cancels: the largest finite code's exponent field counts from the smallest one.
        let steps = (top - self.minimum_exponent).max(0);
        if steps > (self.maximum >> fraction_bits) as i32 {
            return None;
        }
        let lowest = self.minimum_exponent + steps - fraction_bits;
        let kept = shift_and_round(negative, significand, lowest - exponent, rounding);
        // A significand that rounds up to the next power of two carries into the exponent field,
        // and a subnormal one to the smallest normal number, without further ado: the implicit
        // bit of a normal number is the one that `steps` leaves out of the field.
        let bits = ((steps as u64) << fraction_bits) + kept;
        (bits <= self.maximum).then_some(bits)
    }
}

/// The top 64 bits of a significand, the lowest of them set when any bit below it was.
fn narrow(significand: u128, exponent: i32) -> (u64, i32) {
    let excess = 64u32.saturating_sub(significand.leading_zeros());
    let kept = (significand >> excess) as u64;
    let lost = significand & ((1u128 << excess) - 1) != 0;
    (kept | u64::from(lost), exponent + excess as i32)
}

/// Whether an overflow in this direction gives the largest finite number (IEEE 754, 7.4).
fn stops_at_maximum(negative: bool, rounding: Rounding) -> bool {
    match rounding {
        Rounding::NearestEven | Rounding::NearestAway | Rounding::Stochastic(_) => false,
        Rounding::Zero => true,
        Rounding::Down => !negative,
        Rounding::Up => negative,
    }
}

/// `magnitude` divided by two to the `shift`, as an integer; a negative shift is exact and must
/// not lose bits. `negative` is the sign of the number, which directed rounding depends on.
pub(crate) fn shift_and_round(
    negative: bool,
    magnitude: u64,
    shift: i32,
    rounding: Rounding,
) -> u64 {
    if shift <= 0 {
        return magnitude.checked_shl(shift.unsigned_abs()).unwrap_or(0);
    }
    let (kept, remainder, half) = match shift {
        1..=63 => {
            let kept = magnitude >> shift;
            (kept, magnitude - (kept << shift), 1 << (shift - 1))
        }
        64 => (0, magnitude, 1 << 63),
        // Less than half of the last place, and more than nothing unless the magnitude is zero.
        _ => (0, u64::from(magnitude != 0), 2),
    };
    let up = match rounding {
        Rounding::NearestEven => remainder > half || (remainder == half && kept & 1 == 1),
        Rounding::NearestAway => remainder >= half,
        Rounding::Zero => false,
        Rounding::Down => negative && remainder != 0,
        Rounding::Up => !negative && remainder != 0,
        Rounding::Stochastic(random) => random.carry(magnitude, shift.unsigned_abs()),
    };
    kept + u64::from(up)
}
