//! An independent check of conversions: the nearest code is searched among the values of all codes.

/// A format under test.
pub(super) struct Check {
    /// FP32 to code.
    pub code: fn(f32) -> u8,
    /// Code to value.
    pub value: fn(u8) -> f32,
    /// The largest finite positive code.
    pub largest: u8,
    /// The code of every NaN, if there is one.
    pub nan: Option<u8>,
    /// The bit that is the sign.
    pub sign: u8,
}

impl Check {
    /// The code by the definition: the nearest finite value; of two, the one with the even code.
    fn search(&self, value: f32) -> u8 {
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        let magnitude = f64::from(value.abs()).min(f64::from((self.value)(self.largest)));
        let distance = |code: u8| (f64::from((self.value)(code)) - magnitude).abs();
        let nearest = (0..=self.largest).min_by(|&left, &right| {
            distance(left).total_cmp(&distance(right)).then((left % 2).cmp(&(right % 2)))
        });
        nearest.expect("codes") | sign
    }

    fn compare(&self, value: f32) {
        assert_eq!((self.code)(value), self.search(value), "{value:e} ({:#x})", value.to_bits());
        assert_eq!((self.code)(-value), self.search(-value), "{:e}", -value);
    }

    /// Every code, every midpoint between two codes, and their FP32 neighbours; the ends of the
    /// range and what lies beyond.
    pub(super) fn boundaries(&self) {
        for code in 0..=self.largest {
            let value = (self.value)(code);
            let next = if code < self.largest { (self.value)(code + 1) } else { value * 1.125 };
            for center in [value, value + (next - value) / 2.0] {
                for value in [center.next_down(), center, center.next_up()] {
                    self.compare(value.max(0.0));
                }
            }
        }
        let beyond = [f32::MIN_POSITIVE, f32::from_bits(1), 1e30, f32::MAX, f32::INFINITY];
        beyond.into_iter().for_each(|value| self.compare(value));
        if let Some(nan) = self.nan {
            for value in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
                assert_eq!((self.code)(value), nan);
            }
        }
    }

    pub(super) fn many_values(&self) {
        many_values().for_each(|value| self.compare(value));
    }
}

/// Positive and negative values of every magnitude: all BF16 numbers, among which every midpoint
/// between two codes is, and others spread over the bit patterns.
pub(super) fn many_values() -> impl Iterator<Item = f32> {
    let spread = (0..u32::MAX).step_by(65_521);
    (0..=0xffffu32).map(|bits| bits << 16).chain(spread).map(f32::from_bits).filter(|v| !v.is_nan())
}
