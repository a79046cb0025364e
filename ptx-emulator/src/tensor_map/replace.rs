//! `tensormap.replace`: one field of a tensor map is overwritten (PTX ISA 9.1, 9.7.9.28).

use super::encoding::{self, BYTES, Place};
use super::fields::TensorDataType;
use super::rules::MAX_RANK;

/// A field that `tensormap.replace` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReplaceField {
    /// The tensor's address; 64 bits.
    GlobalAddress,
    /// The number of dimensions less 1.
    Rank,
    /// An extent of the box.
    BoxDim,
    /// An extent of the tensor.
    GlobalDim,
    /// A stride in bytes; ordinal 0 is that of dimension 1; 64 bits.
    GlobalStride,
    /// An element stride.
    ElementStride,
    /// The data type in PTX's numbering.
    ElementType,
    /// The interleaving.
    InterleaveLayout,
    /// The swizzle without its atomicity.
    SwizzleMode,
    /// The chunks that the swizzle moves: 16, 32, 32 with flip or 64 bytes.
    SwizzleAtomicity,
    /// What is put outside of the tensor.
    FillMode,
}

/// A field could not be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// Bytes of somebody else.
    #[error("these 128 bytes are not a tensor map made by this crate's encoder")]
    NotATensorMap,
    /// A field of a list without saying which.
    #[error("tensormap.replace of {0} needs an ordinal")]
    OrdinalMissing(&'static str),
    /// An ordinal for a field that is no list.
    #[error("tensormap.replace of {0} has no ordinal")]
    OrdinalUnexpected(&'static str),
    /// An ordinal beyond the list.
    #[error("tensormap.replace of {field}: ordinal {ordinal}, at most {last} is possible")]
    Ordinal {
        /// The field's name.
        field: &'static str,
        /// The ordinal.
        ordinal: u32,
        /// The last one.
        last: usize,
    },
    /// An immediate that means nothing.
    #[error("tensormap.replace of {field}: value {value}, at most {last} is possible")]
    Value {
        /// The field's name.
        field: &'static str,
        /// The value.
        value: u64,
        /// The last one.
        last: u64,
    },
}

impl ReplaceField {
    /// Every field.
    pub(crate) const ALL: [Self; 11] = [
        Self::GlobalAddress,
        Self::Rank,
        Self::BoxDim,
        Self::GlobalDim,
        Self::GlobalStride,
        Self::ElementStride,
        Self::ElementType,
        Self::InterleaveLayout,
        Self::SwizzleMode,
        Self::SwizzleAtomicity,
        Self::FillMode,
    ];

    /// The name as a modifier of the instruction, without its dot.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GlobalAddress => "global_address",
            Self::Rank => "rank",
            Self::BoxDim => "box_dim",
            Self::GlobalDim => "global_dim",
            Self::GlobalStride => "global_stride",
            Self::ElementStride => "element_stride",
            Self::ElementType => "elemtype",
            Self::InterleaveLayout => "interleave_layout",
            Self::SwizzleMode => "swizzle_mode",
            Self::SwizzleAtomicity => "swizzle_atomicity",
            Self::FillMode => "fill_mode",
        }
    }

    /// The field of a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// The bits of the value: 32 or 64.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::GlobalAddress | Self::GlobalStride => 64,
            _ => 32,
        }
    }

    /// The entries of a field that is a list.
    const fn entries(self) -> Option<usize> {
        match self {
            Self::BoxDim | Self::GlobalDim | Self::ElementStride => Some(MAX_RANK),
            Self::GlobalStride => Some(MAX_RANK - 1),
            _ => None,
        }
    }

    /// Whether the field is a list, of which an ordinal names an entry.
    pub(crate) const fn has_entries(self) -> bool {
        self.entries().is_some()
    }

    /// The last value of a field that takes an immediate; architectures from sm_100 on have more
    /// types.
    pub(crate) const fn last_immediate(self, is_newer: bool) -> Option<u64> {
        match self {
            Self::ElementType => Some(if is_newer { 15 } else { 12 }),
            Self::InterleaveLayout => Some(2),
            Self::SwizzleMode | Self::SwizzleAtomicity => Some(3),
            Self::FillMode => Some(1),
            _ => None,
        }
    }

    const fn place(self) -> Place {
        match self {
            Self::GlobalAddress => encoding::ADDRESS,
            Self::Rank => encoding::LAST_DIMENSION,
            Self::BoxDim => encoding::TILE,
            Self::GlobalDim => encoding::EXTENTS,
            Self::GlobalStride => encoding::STRIDES,
            Self::ElementStride => encoding::ELEMENT_STRIDES,
            Self::ElementType => encoding::DATA_TYPE,
            Self::InterleaveLayout => encoding::INTERLEAVE,
            Self::SwizzleMode => encoding::SWIZZLE_MODE,
            Self::SwizzleAtomicity => encoding::SWIZZLE_ATOMICITY,
            Self::FillMode => encoding::FILL,
        }
    }
}

/// Overwrites one field. The map may break rules afterwards, because a kernel replaces several
/// fields one after the other; the rules are checked when a copy decodes the map. Zeros count as
/// a map whose fields are all zero: so kernels begin maps of their own.
pub(crate) fn replace(
    bytes: &mut [u8; BYTES],
    field: ReplaceField,
    ordinal: Option<u32>,
    value: u64,
) -> Result<(), ReplaceError> {
    if *bytes == [0; BYTES] {
        encoding::begin(bytes);
    }
    encoding::check_magic(bytes).map_err(|_| ReplaceError::NotATensorMap)?;
    let place = field.place().at(entry(field, ordinal)?);
    let value = if field.bits() == 32 { u64::from(value as u32) } else { value };
    let name = field.name();
    match field.last_immediate(true) {
        Some(last) if value > last => {
            return Err(ReplaceError::Value { field: name, value, last });
        }
        _ => {}
    }
    let stored = if field == ReplaceField::ElementType { driver_number(value) } else { value };
    place.write(bytes, stored);
    Ok(())
}

fn entry(field: ReplaceField, ordinal: Option<u32>) -> Result<usize, ReplaceError> {
    let name = field.name();
    match (field.entries(), ordinal) {
        (None, None) => Ok(0),
        (None, Some(_)) => Err(ReplaceError::OrdinalUnexpected(name)),
        (Some(_), None) => Err(ReplaceError::OrdinalMissing(name)),
        (Some(entries), Some(ordinal)) if ordinal as usize >= entries => {
            Err(ReplaceError::Ordinal { field: name, ordinal, last: entries - 1 })
        }
        (Some(_), Some(ordinal)) => Ok(ordinal as usize),
    }
}

/// PTX counts the floating-point types from 8 to 10 in another order than the driver.
fn driver_number(element_type: u64) -> u64 {
    let data_type = match element_type {
        8 => TensorDataType::F32Ftz,
        9 => TensorDataType::F64,
        10 => TensorDataType::Bf16,
        same => return same,
    };
    data_type.number().into()
}
