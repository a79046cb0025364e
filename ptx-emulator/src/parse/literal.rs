//! The value of a number's text.

use crate::module::Immediate;

/// The value of a literal without its sign.
pub(super) fn literal(text: &str) -> Result<Immediate, &'static str> {
    let lower = text.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0f") {
        let bits = float_bits(digits, 8).ok_or("0f needs exactly eight hexadecimal digits")?;
        return Ok(Immediate::Single(bits as u32));
    }
    if let Some(digits) = lower.strip_prefix("0d") {
        let bits = float_bits(digits, 16).ok_or("0d needs exactly sixteen hexadecimal digits")?;
        return Ok(Immediate::Double(bits));
    }
    let hexadecimal = lower.starts_with("0x");
    if !hexadecimal && (lower.contains('.') || lower.contains('e')) {
        // Rust reads the same decimals as C, but also words such as `inf`, which start otherwise.
        let value: f64 = lower.parse().map_err(|_| "it is no decimal float")?;
        return Ok(Immediate::Double(value.to_bits()));
    }
    integer(text)
}

fn float_bits(digits: &str, length: usize) -> Option<u64> {
    let digits = Some(digits).filter(|digits| digits.len() == length)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    u64::from_str_radix(digits, 16).ok()
}

fn integer(text: &str) -> Result<Immediate, &'static str> {
    let (digits, unsigned) = match text.strip_suffix('U') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let prefixed = |lower, upper| digits.strip_prefix(lower).or(digits.strip_prefix(upper));
    let (digits, radix) = if let Some(digits) = prefixed("0x", "0X") {
        (digits, 16)
    } else if let Some(digits) = prefixed("0b", "0B") {
        (digits, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (&digits[1..], 8)
    } else {
        (digits, 10)
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err("a digit does not belong to its base");
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| "it does not fit 64 bits")?;
    Ok(match i64::try_from(value) {
        Ok(value) if !unsigned => Immediate::Signed(value),
        _ => Immediate::Unsigned(value),
    })
}

/// The value of a literal behind a minus sign.
pub(super) fn negative(immediate: Immediate) -> Result<Immediate, &'static str> {
    const LEAST: u64 = 1 << 63;
    Ok(match immediate {
        Immediate::Signed(value) => Immediate::Signed(-value),
        Immediate::Unsigned(LEAST) => Immediate::Signed(i64::MIN),
        Immediate::Unsigned(value) if value < LEAST => Immediate::Unsigned(value.wrapping_neg()),
        Immediate::Unsigned(_) => return Err("its negative does not fit 64 bits"),
        Immediate::Single(bits) => Immediate::Single(bits ^ 1 << 31),
        Immediate::Double(bits) => Immediate::Double(bits ^ 1 << 63),
    })
}
