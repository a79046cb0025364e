//! The text of the table: lines of `#`, then one line a case: its name, a tab, and the output in
//! hexadecimal, or `!` and why there is none, or (for long outputs that must agree bit for bit)
//! `=`, a hash and the length.

use crate::cases::{Case, Compare};

/// Longer outputs are hashed where they must agree bit for bit.
const LONGEST: usize = 600;

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8)).collect()
}

/// What stands behind the name.
pub fn entry(case: &Case, output: &[u8]) -> String {
    if matches!(case.compare, Compare::Bits) && output.len() > LONGEST {
        return format!("={:016x} {}", hash(output), output.len());
    }
    hex(output)
}

fn hash(bytes: &[u8]) -> u64 {
    // Eight bytes at a time through the finaliser of splitmix64.
    bytes.chunks(8).fold(bytes.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mut value = (hash ^ u64::from_le_bytes(word)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    })
}

/// Whether an output agrees with what stands in the table.
pub fn agrees(case: &Case, truth: &str, output: &[u8]) -> Result<(), String> {
    if let Some(reason) = truth.strip_prefix('!') {
        return Err(format!("the table has no output: {reason}"));
    }
    if truth.starts_with('=') {
        let found = entry(case, output);
        return if found == truth { Ok(()) } else { Err(format!("hash {found}, not {truth}")) };
    }
    let expected = bytes(truth).ok_or("the table's line is not hexadecimal")?;
    if expected.len() != output.len() {
        return Err(format!("{} bytes, not {}", output.len(), expected.len()));
    }
    let format = match case.compare {
        Compare::Bits => {
            return match expected.iter().zip(output).position(|(expected, found)| expected != found)
            {
                None => Ok(()),
                Some(at) => Err(differs(at, 16, &expected, output)),
            };
        }
        Compare::Exact(format) | Compare::Near { format, .. } => format,
    };
    let width = format.bytes();
    for at in (0..output.len()).step_by(width) {
        let pattern = |bytes: &[u8]| {
            let mut word = [0; 8];
            let value = bytes.get(at..at + width).unwrap_or(&bytes[at..]);
            word[..value.len()].copy_from_slice(value);
            u64::from_le_bytes(word)
        };
        let (expected_bits, found_bits) = (pattern(&expected), pattern(output));
        let (expected_value, found) = (format.value(expected_bits), format.value(found_bits));
        let close = match case.compare {
            Compare::Near { relative, absolute, .. } if expected_value.is_finite() => {
                let error = (expected_value - found).abs();
                error <= expected_value.abs() * relative + absolute
            }
            _ => false,
        };
        let both_nan = expected_value.is_nan() && found.is_nan();
        if expected_bits != found_bits && !both_nan && !close {
            return Err(format!(
                "{found:e} instead of {expected_value:e}; {}",
                differs(at, width, &expected, output)
            ));
        }
    }
    Ok(())
}

fn differs(at: usize, width: usize, expected: &[u8], found: &[u8]) -> String {
    let at = at / width * width;
    let part = |bytes: &[u8]| hex(&bytes[at..bytes.len().min(at + width)]);
    format!("at byte {at}: {} instead of {}", part(found), part(expected))
}
