//! Casts on every engine, to the bit.

use std::fmt;

use half::{bf16, f16};

use super::cases::Layout;
use super::data::Generator;
use crate::backend::{Device, Stream};
use crate::error::Result;
use crate::functional::{CastArgs, cast};
use crate::tensor::{DType, GroupedTensor, Tensor};

/// A cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CastCase {
    /// Where the source lies.
    pub source: Layout,
    /// Groups.
    pub groups: usize,
    /// Elements of a group.
    pub group_len: usize,
    /// Type of the result.
    pub output: DType,
    /// What the flag on the device holds, if there is one.
    pub flag: Option<i32>,
    /// Elements by which source and result begin behind an address that suits wide accesses.
    pub shift: (usize, usize),
}

impl fmt::Display for CastCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, groups, group_len, output, flag, shift } = self;
        write!(f, "cast {groups} x {group_len} {source:?} f32 to {output}")?;
        if let Some(flag) = flag {
            write!(f, ", flag {flag}")?;
        }
        if *shift != (0, 0) {
            write!(f, ", shifted by {} and {}", shift.0, shift.1)?;
        }
        Ok(())
    }
}

/// The casts that every engine runs.
pub fn cast_cases() -> Vec<CastCase> {
    let mut cases = Vec::new();
    for output in [DType::Bf16, DType::F16] {
        let plain = CastCase {
            source: Layout::Packed,
            groups: 1,
            group_len: 4097,
            output,
            flag: None,
            shift: (0, 0),
        };
        let discrete = CastCase { source: Layout::Discrete, groups: 3, ..plain };
        cases.push(plain);
        // Of discrete sources of such lengths, some results begin between wide accesses.
        for group_len in [4097, 1, 7, 8, 0] {
            cases.push(CastCase { group_len, ..discrete });
            cases.push(CastCase { group_len, groups: 3, ..plain });
        }
        cases.extend([4096, 7, 1].map(|group_len| CastCase { group_len, ..plain }));
        for shift in [(1, 0), (0, 1), (3, 7)] {
            cases.push(CastCase { group_len: 77, shift, ..plain });
            cases.push(CastCase { group_len: 64, shift, ..discrete });
        }
        for flag in [0, 1, 256, i32::MIN] {
            cases.push(CastCase { group_len: 45, flag: Some(flag), ..discrete });
            cases.push(CastCase { group_len: 4097, flag: Some(flag), ..plain });
        }
        cases.push(CastCase { groups: 0, ..plain });
        // More than the blocks of a small device convert at once.
        cases.push(CastCase { groups: 2, group_len: 35_001, ..plain });
        cases.push(CastCase { groups: 2, group_len: 70_001, ..discrete });
    }
    cases
}

/// Casts once on `device` and compares every bit of the result and of what lies around it.
///
/// # Errors
/// What is wrong, in words.
pub fn run_cast(case: &CastCase, device: &Device) -> Result<(), String> {
    let CastCase { groups, group_len, output, flag, .. } = *case;
    let values = source(case);
    let got = device.stream().and_then(|stream| run(case, &stream, &values));
    let got = got.map_err(|error| format!("failed: {error}"))?;
    let skipped = flag.is_some_and(|flag| flag != 0);
    let (before, rest) = got.split_at(RESULT_GUARD + case.shift.1);
    let (result, after) = rest.split_at(groups * group_len);
    if let Some(&bits) = before.iter().chain(after).find(|&&bits| bits != HELD) {
        return Err(format!("{bits:#06x} was written beside the result"));
    }
    for (index, (&value, &bits)) in values.iter().zip(result).enumerate() {
        let wrong = match skipped {
            true => bits != HELD,
            false => !is_cast(value, bits, output),
        };
        if wrong {
            return Err(format!(
                "element {index}, {value:e} ({:#010x}), became {bits:#06x}",
                value.to_bits()
            ));
        }
    }
    Ok(())
}

/// What result and surroundings hold before.
const HELD: u16 = 0x5a5a;
/// Elements before the result, 16 bytes, and as many behind it.
const RESULT_GUARD: usize = 8;
/// Elements before each part of the source, 16 bytes, and as many behind it.
const SOURCE_GUARD: usize = 4;

/// The bits of everything that might have been written.
fn run(case: &CastCase, stream: &Stream, values: &[f32]) -> Result<Vec<u16>> {
    let CastCase { groups, group_len, output, flag, shift, .. } = *case;
    let part = |values: &[f32]| -> Result<Tensor> {
        let start = SOURCE_GUARD + shift.0;
        // Casts of these are neither what is held nor what is expected.
        let mut arena = vec![0.001f32; start + values.len() + SOURCE_GUARD];
        arena[start..start + values.len()].copy_from_slice(values);
        Tensor::from_slice(stream, &[arena.len()], &arena)?.narrow(start, values.len())
    };
    let source = match case.source {
        Layout::Packed => GroupedTensor::packed(part(values)?.reshape(&[groups, group_len])?)?,
        Layout::Discrete => {
            let parts = (0..groups).map(|group| part(&values[group * group_len..][..group_len]));
            GroupedTensor::discrete(stream, parts.collect::<Result<Vec<_>>>()?)?
        }
    };
    let start = RESULT_GUARD + shift.1;
    let count = groups * group_len;
    let held = vec![HELD; start + count + RESULT_GUARD];
    let arena = match output {
        DType::Bf16 => Tensor::from_slice::<bf16>(stream, &[held.len()], &of_bits(&held))?,
        _ => Tensor::from_slice::<f16>(stream, &[held.len()], &of_bits(&held))?,
    };
    let mut destination = arena.narrow(start, count)?.reshape(&[groups, group_len])?;
    let flag = flag.map(|flag| Tensor::from_slice(stream, &[1], &[flag])).transpose()?;
    cast(stream, &CastArgs { source: &source, skip: flag.as_ref() }, &mut destination)?;
    match output {
        DType::Bf16 => Ok(bits_of(&arena.to_vec::<bf16>(stream)?)),
        _ => Ok(bits_of(&arena.to_vec::<f16>(stream)?)),
    }
}

fn of_bits<T: bytemuck::Pod>(bits: &[u16]) -> Vec<T> {
    bytemuck::cast_slice(bits).to_vec()
}

fn bits_of<T: bytemuck::Pod>(values: &[T]) -> Vec<u16> {
    bytemuck::cast_slice(values).to_vec()
}

/// Numbers whose casts were worked out by hand, NaNs, and any bits at all.
fn source(case: &CastCase) -> Vec<f32> {
    let mut generator = Generator::named(&case.to_string());
    let count = case.groups * case.group_len;
    (0..count)
        .map(|_| {
            let drawn = generator.next();
            let choice = (drawn >> 32) as usize;
            f32::from_bits(match choice % 4 {
                0 => drawn as u32,
                1 => NANS[choice / 4 % NANS.len()],
                _ => KNOWN[choice / 4 % KNOWN.len()].0,
            })
        })
        .collect()
}

fn is_cast(value: f32, bits: u16, output: DType) -> bool {
    let known = KNOWN.iter().find(|known| known.0 == value.to_bits());
    let (want, is_nan) = match output {
        DType::Bf16 => {
            let by_hand = known.map(|known| known.1);
            (by_hand.unwrap_or(bf16::from_f32(value).to_bits()), bf16::from_bits(bits).is_nan())
        }
        _ => {
            let by_hand = known.map(|known| known.2);
            (by_hand.unwrap_or(f16::from_f32(value).to_bits()), f16::from_bits(bits).is_nan())
        }
    };
    // Which NaN a NaN becomes, the engines do not agree on.
    if value.is_nan() { is_nan } else { bits == want }
}

/// Quiet and signalling ones; of the last two a cut would make infinities.
const NANS: [u32; 5] = [0x7fc0_0000, 0xffc0_0000, 0x7fff_ffff, 0x7f80_0001, 0xff80_1000];

/// Bits in FP32, BF16 and FP16.
const KNOWN: &[(u32, u16, u16)] = &[
    // Zeros, one, infinities.
    (0x0000_0000, 0x0000, 0x0000),
    (0x8000_0000, 0x8000, 0x8000),
    (0x3f80_0000, 0x3f80, 0x3c00),
    (0x7f80_0000, 0x7f80, 0x7c00),
    (0xff80_0000, 0xff80, 0xfc00),
    // Halfway in BF16, down and up to the even neighbour, and just beyond.
    (0x3f80_8000, 0x3f80, 0x3c04),
    (0x3f81_8000, 0x3f82, 0x3c0c),
    (0x3f80_8001, 0x3f81, 0x3c04),
    // Halfway in FP16, down and up to the even neighbour, and just beyond.
    (0x3f80_1000, 0x3f80, 0x3c00),
    (0x3f80_3000, 0x3f80, 0x3c02),
    (0xbf80_1001, 0xbf80, 0xbc01),
    // The largest of FP16, the last to become it, the first too large.
    (0x477f_e000, 0x4780, 0x7bff),
    (0x477f_efff, 0x4780, 0x7bff),
    (0x477f_f000, 0x4780, 0x7c00),
    (0xc77f_f000, 0xc780, 0xfc00),
    // The last to become the largest of BF16, the first too large, the largest of all.
    (0x7f7f_7fff, 0x7f7f, 0x7c00),
    (0x7f7f_8000, 0x7f80, 0x7c00),
    (0x7f7f_ffff, 0x7f80, 0x7c00),
    // Subnormal in FP32 and in BF16.
    (0x0000_0001, 0x0000, 0x0000),
    (0x0000_8000, 0x0000, 0x0000),
    (0x0000_8001, 0x0001, 0x0000),
    (0x0001_8000, 0x0002, 0x0000),
    (0x8000_8001, 0x8001, 0x8000),
    (0x007f_ffff, 0x0080, 0x0000),
    // Subnormal in FP16: half the smallest, just more, the smallest, one and a half of it.
    (0x3300_0000, 0x3300, 0x0000),
    (0x3300_0001, 0x3300, 0x0001),
    (0x3380_0000, 0x3380, 0x0001),
    (0x33c0_0000, 0x33c0, 0x0002),
    // The largest subnormal of FP16, halfway to the smallest normal number, and that one.
    (0x387f_c000, 0x3880, 0x03ff),
    (0x387f_e000, 0x3880, 0x0400),
    (0x3880_0000, 0x3880, 0x0400),
];
