//! Two numbers of eight bits or fewer to two of bf16, times two powers of two.

use super::Convert;
use super::lower::{check_blackwell, narrow_pair, small_pair};
use crate::execute::registers::Words;
use crate::module::Operand;
use crate::numeric::Rounding;
use crate::numeric::convert::FloatResult;
use crate::numeric::small::SmallFormat;
use crate::ops::Operation;
use crate::program::operand::{Any, Destination, Source32};
use crate::program::types::DataType;
use crate::program::{Form, Problem};

/// The code of one as a scale factor.
const ONE: u32 = 0x7F;

/// `cvt.rn.bf16x2`, with `.scaled::n2::ue8m0` or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scaled {
    pub(super) from: SmallFormat,
    pub(super) result: FloatResult,
}

/// The registers of a [`Scaled`].
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(super) to: Destination,
    pub(super) from: Any,
    /// Two factors of eight bits, the lower one for the lower number.
    pub(super) scale: Option<Source32>,
}

impl Scaled {
    /// The results of all lanes; without scale factors they are one.
    pub(super) fn compute(self, values: &Words, scales: Option<&Words>) -> Words {
        let bits = self.from.pair_bits();
        let field = (1 << bits) - 1;
        std::array::from_fn(|lane| {
            let scale = scales.map_or(ONE << 8 | ONE, |scales| scales[lane]);
            let one = |code: u32, scale: u32| {
                u32::from(self.from.decode_to_bf16((code & field) as u8, scale as u8, self.result))
            };
            one(values[lane] >> bits, scale >> 8) << 16 | one(values[lane], scale)
        })
    }
}

/// From pairs of fewer than 16 bits to bf16, with scale factors or without.
pub(super) fn lower(form: &mut Form<'_, '_>, from: DataType) -> Result<(), Problem> {
    check_blackwell(form)?;
    let Some(format) = small_pair(from).or(narrow_pair(form, from)?) else {
        return Err("there is no conversion between these types".to_owned());
    };
    if !form.take("rn") {
        return Err("the rounding `.rn` is missing".to_owned());
    }
    let mut result = FloatResult::rounded(Rounding::NearestEven);
    result.relu = form.take("relu");
    result.saturate_finite = form.take("satfinite");
    let has_scale = form.take("scaled::n2::ue8m0");
    form.finish()?;
    form.expect(if has_scale { 3 } else { 2 })?;
    let scale = match form.operand(if has_scale { 2 } else { 1 })? {
        Operand::Immediate(_) => return Err("a register is wanted, not a literal".to_owned()),
        _ if has_scale => Some(form.source32(2, DataType::B16)?),
        _ => None,
    };
    let operands =
        Operands { to: form.destination(0, DataType::Bf16x2)?, from: form.any(1, from)?, scale };
    let scaled = Scaled { from: format, result };
    form.emit(Operation::Convert(Convert::Scaled(scaled, Box::new(operands))));
    Ok(())
}
