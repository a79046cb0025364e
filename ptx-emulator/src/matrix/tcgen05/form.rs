//! What opcode and operand list of a `tcgen05.mma` say (PTX ISA 9.7.16.10.9).

use super::problem;
use crate::matrix::MatrixError;

/// `.kind`: the family of the element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `.kind::f16`: f16 and bf16, K = 16.
    F16,
    /// `.kind::tf32`, K = 8.
    Tf32,
    /// `.kind::f8f6f4`: floating point of eight bits and fewer, K = 32.
    F8f6f4,
    /// `.kind::i8`, K = 32.
    I8,
    /// `.kind::mxf8f6f4`: the types of f8f6f4 with scale factors, K = 32.
    Mxf8f6f4,
    /// `.kind::mxf4`: e2m1 with scale factors, K = 64.
    Mxf4,
    /// `.kind::mxf4nvf4`: the same with other scale factors as well, K = 64.
    Mxf4nvf4,
}

impl Kind {
    /// The word behind `.kind::`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Tf32 => "tf32",
            Self::F8f6f4 => "f8f6f4",
            Self::I8 => "i8",
            Self::Mxf8f6f4 => "mxf8f6f4",
            Self::Mxf4 => "mxf4",
            Self::Mxf4nvf4 => "mxf4nvf4",
        }
    }

    /// K of a dense product.
    pub(crate) fn k(self) -> u32 {
        match self {
            Self::F16 => 16,
            Self::Tf32 => 8,
            Self::F8f6f4 | Self::I8 | Self::Mxf8f6f4 => 32,
            Self::Mxf4 | Self::Mxf4nvf4 => 64,
        }
    }

    /// Whether there are scale factors.
    pub(crate) fn is_scaled(self) -> bool {
        matches!(self, Self::Mxf8f6f4 | Self::Mxf4 | Self::Mxf4nvf4)
    }

    /// Whether all elements have four bits, two of them in a byte.
    pub(super) fn is_dense_fp4(self) -> bool {
        matches!(self, Self::Mxf4 | Self::Mxf4nvf4)
    }
}

/// `.cta_group`: how many blocks share the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// `.cta_group::1`.
    One,
    /// `.cta_group::2`: each block has half of the rows of A, of the columns of B and of the rows
    /// of D.
    Two,
}

impl Group {
    /// The number of blocks.
    pub(crate) fn blocks(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// `.scale_vec`: how many scale factors a row of A has, and a column of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleVector {
    /// `.scale_vec::1X`; `.block32` of mxf8f6f4.
    X1,
    /// `.scale_vec::2X`; `.block32` of mxf4 and mxf4nvf4.
    X2,
    /// `.scale_vec::4X`, `.block16`.
    X4,
}

impl ScaleVector {
    /// The number of factors.
    pub(super) fn factors(self) -> usize {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
        }
    }
}

/// A `tcgen05.mma` as far as its text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MmaForm {
    /// `.kind`.
    pub(crate) kind: Kind,
    /// `.cta_group`.
    pub(crate) group: Group,
    /// The number of scale factors, exactly with the kinds that have some.
    pub(crate) scale_vector: Option<ScaleVector>,
    /// A comes from tensor memory.
    pub(crate) a_in_tensor_memory: bool,
    /// `.ws`.
    pub(crate) weight_stationary: bool,
    /// There is a `disable-output-lane` vector.
    pub(crate) masked: bool,
    /// `.ashift`: the rows of A move by one lane.
    pub(crate) shift_a: bool,
    /// `scale-input-d`: D is multiplied by two to the minus this.
    pub(crate) scale_input_d: Option<u32>,
}

impl MmaForm {
    /// Refuses what is wrong whatever the registers hold.
    pub(crate) fn check(&self) -> Result<(), MatrixError> {
        self.problem().map_or(Ok(()), |text| Err(problem(text)))
    }

    fn problem(&self) -> Option<String> {
        let kind = self.kind.word();
        let vectors: &[ScaleVector] = match self.kind {
            Kind::Mxf8f6f4 => &[ScaleVector::X1],
            Kind::Mxf4 => &[ScaleVector::X2],
            Kind::Mxf4nvf4 => &[ScaleVector::X2, ScaleVector::X4],
            _ => &[],
        };
        match self.scale_vector {
            Some(_) if vectors.is_empty() => {
                return Some(format!("`.kind::{kind}` has no scale factors"));
            }
            None if !vectors.is_empty() => {
                return Some(format!("`.kind::{kind}` needs a number of scale factors"));
            }
            Some(vector) if !vectors.contains(&vector) => {
                let count = vector.factors();
                return Some(format!("`.kind::{kind}` has no `.scale_vec::{count}X`"));
            }
            _ => {}
        }
        if self.shift_a {
            if self.weight_stationary {
                return Some("`.ws` has no `.ashift`".to_owned());
            }
            if self.kind.is_scaled() {
                return Some(format!("`.kind::{kind}` has no `.ashift`"));
            }
            if !self.a_in_tensor_memory {
                return Some("`.ashift` needs an A in tensor memory".to_owned());
            }
        }
        if self.weight_stationary {
            return self.problem_of_weight_stationary();
        }
        if self.masked && self.kind.is_scaled() {
            return Some(format!("`.kind::{kind}` takes no lanes to be left out"));
        }
        let shift = self.scale_input_d?;
        if !matches!(self.kind, Kind::F16 | Kind::Tf32) {
            return Some(format!("`.kind::{kind}` cannot scale D"));
        }
        (shift > 15).then(|| format!("D cannot be scaled by 2^-{shift}: 0 to 15"))
    }

    fn problem_of_weight_stationary(&self) -> Option<String> {
        let kind = self.kind.word();
        if self.kind.is_scaled() {
            return Some(format!("`.ws` has no `.kind::{kind}`"));
        }
        if self.group == Group::Two {
            return Some("`.ws` has no `.cta_group::2`".to_owned());
        }
        if self.masked {
            return Some("`.ws` takes no lanes to be left out".to_owned());
        }
        self.scale_input_d.map(|_| "`.ws` cannot scale D".to_owned())
    }
}
