//! Number formats of quantized tensors.

use std::fmt;

use grouped_linear_kernels::abi::mx::{MXFP8_BLOCK, NVFP4_BLOCK};
pub use grouped_linear_kernels::abi::quantize::Blocks;

use crate::error::{Error, Result};
pub use crate::numerics::scale::ScaleBound;
pub use crate::reference::quantize::BlockShape;
pub use crate::reference::quantize::nvfp4::{ErrorMeasure, Scope, Transform};
use crate::tensor::DType;

/// Number format of a quantized tensor, and what shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// FP8 with FP32 scales.
    Fp8 {
        /// E4M3 or E5M2.
        dtype: DType,
        /// What shares a scale.
        blocks: Blocks,
    },
    /// FP8 with a power of two (E8M0) for every 32 neighbours, or 32 × 32 elements.
    ///
    /// OCP Microscaling Formats (MX) specification 1.0, section 5.2.
    Mxfp8 {
        /// E4M3 or E5M2.
        dtype: DType,
        /// What shares a scale.
        blocks: BlockShape,
    },
    /// FP4 (E2M1) with an E4M3 scale for every 16 neighbours, or 16 × 16 elements, and an FP32 one
    /// above it.
    Nvfp4(Nvfp4Format),
}

/// What the numbers of an NVFP4 tensor stand for. An element's value is its number times its
/// block's scale times `amax / (6 · bound)` of its group or row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nvfp4Format {
    /// What shares an E4M3 scale.
    pub blocks: BlockShape,
    /// What shares an FP32 scale.
    pub scope: Scope,
    /// The largest block scale.
    pub bound: ScaleBound,
    /// What the columnwise copy was made of. Weights with [`Transform::Hadamard`] can be quantized,
    /// but have no product that reads this copy.
    pub transform: Transform,
}

impl Nvfp4Format {
    /// Lines of 16, one FP32 scale for each group, all of E4M3, nothing transformed.
    pub const LINES: Self = Self {
        blocks: BlockShape::Line,
        scope: Scope::Group,
        bound: ScaleBound::Full,
        transform: Transform::None,
    };

    /// By what amax is multiplied to restore a number times its block's scale: `1 / (6 · bound)`.
    pub(crate) fn amax_factor(&self) -> f32 {
        1.0 / (self.bound.value() * 6.0)
    }

    fn check(&self) -> Result<()> {
        let line = self.blocks == BlockShape::Line;
        if self.transform == Transform::Hadamard && !line {
            return Err(Error::unsupported(
                "NVFP4: the Hadamard transform was asked for with square blocks, it needs lines",
            ));
        }
        if self.scope == Scope::Row && (self.transform == Transform::Hadamard || !line) {
            return Err(Error::unsupported(
                "NVFP4: a scale for each row needs blocks that are lines and no transform",
            ));
        }
        Ok(())
    }
}

impl Format {
    /// FP8 with FP32 scales.
    pub const fn fp8(dtype: DType, blocks: Blocks) -> Self {
        Self::Fp8 { dtype, blocks }
    }

    /// Type of the codes: E4M3 or E5M2, or U8 where a byte has two of FP4.
    pub const fn dtype(&self) -> DType {
        match *self {
            Self::Fp8 { dtype, .. } | Self::Mxfp8 { dtype, .. } => dtype,
            Self::Nvfp4(_) => DType::U8,
        }
    }

    /// What the features of a tensor, and the rows of weights, must be multiples of.
    pub const fn multiple(&self) -> usize {
        match self {
            // Tensor copies need pitches of 16 bytes.
            Self::Fp8 { .. } => 16,
            Self::Mxfp8 { .. } => MXFP8_BLOCK as usize,
            Self::Nvfp4(_) => NVFP4_BLOCK as usize,
        }
    }

    /// Whether a group has one scale, which both copies share.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Fp8 { blocks: Blocks::Tensor, .. })
    }

    /// Whether block scales are bytes and BF16 holds the numbers exactly.
    pub(crate) fn is_micro(&self) -> bool {
        !matches!(self, Self::Fp8 { .. })
    }

    /// Refuses what no tensor can have.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Fp8 { dtype, .. } | Self::Mxfp8 { dtype, .. } if !dtype.is_fp8() => {
                Err(Error::dtype("quantized tensor", *dtype, "e4m3 or e5m2"))
            }
            Self::Fp8 { .. } | Self::Mxfp8 { .. } => Ok(()),
            Self::Nvfp4(nvfp4) => nvfp4.check(),
        }
    }

    /// Refuses features that no tensor of the format can have.
    pub(crate) fn check_multiple(&self, name: &str, value: usize) -> Result<()> {
        let multiple = self.multiple();
        if value.is_multiple_of(multiple) {
            return Ok(());
        }
        let (format, reason) = match self {
            Self::Fp8 { .. } => ("FP8", "tensor copies take lines of whole 16 bytes"),
            Self::Mxfp8 { .. } => ("MXFP8", "so many neighbours share a scale"),
            Self::Nvfp4(_) => ("NVFP4", "so many neighbours share a scale"),
        };
        Err(Error::unsupported(format!(
            "{name} is {value}, {format} needs a multiple of {multiple} ({reason}); pad the features"
        )))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fp8 { dtype, blocks } => match blocks {
                Blocks::Tensor => write!(f, "{dtype}, one scale per group"),
                Blocks::Vector => write!(f, "{dtype}, 1 x 128"),
                Blocks::Square => write!(f, "{dtype}, 128 x 128"),
            },
            Self::Mxfp8 { dtype, blocks } => write!(f, "MXFP8 {dtype}, {}", size(*blocks, 32)),
            Self::Nvfp4(Nvfp4Format { blocks, scope, bound, transform }) => {
                write!(f, "NVFP4 {}", size(*blocks, 16))?;
                if *scope == Scope::Row {
                    f.write_str(", scaled by rows")?;
                }
                if *bound == ScaleBound::Reduced {
                    f.write_str(", bound 256")?;
                }
                if *transform == Transform::Hadamard {
                    f.write_str(", transformed")?;
                }
                Ok(())
            }
        }
    }
}

fn size(blocks: BlockShape, side: usize) -> String {
    match blocks {
        BlockShape::Line => format!("1 x {side}"),
        BlockShape::Square => format!("{side} x {side}"),
    }
}
