//! Quantized tensors: FP8 data with its scales, for one or both directions of reduction.

use std::sync::Arc;

use grouped_linear_kernels::abi::quantize::{BlockScales, ScaleLayout, padded_rows};

use super::{DType, Tensor, TensorSpec};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::numerics::Direction;
use crate::plan::MAX_GROUPS;
use crate::recipe::{Blocks, Format};

/// What a quantized tensor was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceShape {
    /// Tokens or their gradients, `[rows, features]`, whose rows belong to groups by splits.
    Tokens {
        /// T.
        rows: usize,
        /// K or N.
        features: usize,
    },
    /// A matrix per group, `[groups, rows, columns]`.
    Weights {
        /// N.
        rows: usize,
        /// K.
        columns: usize,
    },
}

impl SourceShape {
    /// Length of a row.
    pub fn columns(&self) -> usize {
        match *self {
            Self::Tokens { features, .. } => features,
            Self::Weights { columns, .. } => columns,
        }
    }
}

/// Shape and format of a quantized tensor, and which copies it has. The *rowwise* copy is scaled
/// along the rows, which is what fprop and dgrad reduce tokens over, the *columnwise* one along the
/// columns; both are made from the high-precision source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizedSpec {
    /// Number of groups.
    pub groups: usize,
    /// What is quantized.
    pub source: SourceShape,
    /// To what.
    pub format: Format,
    /// Whether there is a rowwise copy.
    pub rowwise: bool,
    /// Whether there is a columnwise copy.
    pub columnwise: bool,
}

/// The shapes of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySpec {
    /// The data, one byte an element.
    pub data: TensorSpec,
    /// `scale_inv`, FP32.
    pub scale_inv: TensorSpec,
}

impl QuantizedSpec {
    /// Rows that the tokens can take with every group padded to 128; of weights, the rows of one.
    pub fn padded_rows(&self) -> usize {
        match self.source {
            SourceShape::Tokens { rows, .. } => {
                padded_rows(rows as u64, self.groups as u32) as usize
            }
            SourceShape::Weights { rows, .. } => rows,
        }
    }

    /// Shapes of a copy.
    ///
    /// | copy | data | 1 × 128 scales | 128 × 128 scales |
    /// | --- | --- | --- | --- |
    /// | tokens, rowwise | `[T, C]` | `[⌈C/128⌉, T↑4]` | `[Tp/128, ⌈C/128⌉↑4]` |
    /// | tokens, columnwise | `[C, Tp]` | `[Tp/128, C↑4]` | `[⌈C/128⌉, (Tp/128)↑4]` |
    /// | weights, rowwise | `[G, N, K]` | `[G, ⌈K/128⌉, N↑4]` | `[G, ⌈N/128⌉, ⌈K/128⌉↑4]` |
    /// | weights, columnwise | `[G, K, N]` | `[G, ⌈N/128⌉, K↑4]` | `[G, ⌈K/128⌉, ⌈N/128⌉↑4]` |
    ///
    /// `Tp` is [`QuantizedSpec::padded_rows`], `↑4` rounds up to a multiple of 4. With one scale per
    /// group the scales are `[G]`, and both copies share them.
    pub fn copy(&self, direction: Direction) -> CopySpec {
        let (groups, padded) = (self.groups, self.padded_rows());
        let data = match (self.source, direction) {
            (SourceShape::Tokens { rows, features }, Direction::Rowwise) => vec![rows, features],
            (SourceShape::Tokens { features, .. }, Direction::Columnwise) => vec![features, padded],
            (SourceShape::Weights { rows, columns }, Direction::Rowwise) => {
                vec![groups, rows, columns]
            }
            (SourceShape::Weights { rows, columns }, Direction::Columnwise) => {
                vec![groups, columns, rows]
            }
        };
        let scales = self.scales(direction);
        let matrix = [scales.outer as usize, scales.pitch as usize];
        let scale_inv = match (self.format.blocks, self.source) {
            (Blocks::Tensor, _) => vec![groups],
            (_, SourceShape::Tokens { .. }) => matrix.to_vec(),
            (_, SourceShape::Weights { .. }) => [&[groups], &matrix[..]].concat(),
        };
        CopySpec {
            data: TensorSpec { shape: data, dtype: self.format.dtype },
            scale_inv: TensorSpec { shape: scale_inv, dtype: DType::F32 },
        }
    }

    /// The matrix of scales of a copy, of one group for weights.
    pub(crate) fn scales(&self, direction: Direction) -> BlockScales {
        let (blocks, padded) = (self.format.blocks, self.padded_rows() as u64);
        let columns = self.source.columns() as u64;
        let rows = match self.source {
            SourceShape::Tokens { rows, .. } | SourceShape::Weights { rows, .. } => rows as u64,
        };
        match direction {
            Direction::Rowwise => BlockScales::rowwise(blocks, rows, padded, columns),
            Direction::Columnwise => BlockScales::columnwise(blocks, padded, columns),
        }
    }

    /// How the kernels find the scales of a copy.
    pub(crate) fn scale_layout(&self, direction: Direction) -> ScaleLayout {
        let scales = self.scales(direction);
        let group_pitch = match self.source {
            SourceShape::Tokens { .. } => 0,
            SourceShape::Weights { .. } => scales.elements(),
        };
        ScaleLayout { pitch: scales.pitch, group_pitch }
    }

    /// Whether there is such a copy.
    pub fn has(&self, direction: Direction) -> bool {
        match direction {
            Direction::Rowwise => self.rowwise,
            Direction::Columnwise => self.columnwise,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.groups == 0 || self.groups > MAX_GROUPS {
            return Err(Error::invalid(format!(
                "quantized tensor: {} groups were asked for, 1 to {MAX_GROUPS} are possible",
                self.groups
            )));
        }
        if !self.format.dtype.is_fp8() {
            return Err(Error::dtype("quantized tensor", self.format.dtype, "e4m3 or e5m2"));
        }
        if !(self.rowwise || self.columnwise) {
            return Err(Error::invalid(
                "quantized tensor: neither copy was asked for; set rowwise or columnwise",
            ));
        }
        Ok(())
    }
}

/// One copy: data and scales.
#[derive(Clone, Debug)]
pub struct QuantizedCopy {
    /// One byte an element, in the shape of [`QuantizedSpec::copy`].
    pub data: Tensor,
    /// FP32: an element's value is its number times the `scale_inv` of its block.
    pub scale_inv: Tensor,
}

/// An FP8 tensor with its scales. Clones are handles to the same memory.
///
/// ```
/// use grouped_linear::recipe::{Blocks, Format};
/// use grouped_linear::{DType, Device, Direction, QuantizedSpec, QuantizedTensor, SourceShape};
/// let stream = Device::cpu().stream()?;
/// let spec = QuantizedSpec {
///     groups: 3,
///     source: SourceShape::Tokens { rows: 290, features: 256 },
///     format: Format { dtype: DType::E4m3, blocks: Blocks::Vector },
///     rowwise: true,
///     columnwise: true,
/// };
/// let quantized = QuantizedTensor::empty(&stream, spec)?;
/// let rowwise = quantized.copy(Direction::Rowwise).unwrap();
/// assert_eq!(rowwise.data.shape(), [290, 256]);
/// assert_eq!(rowwise.scale_inv.shape(), [2, 292]);
/// let columnwise = quantized.copy(Direction::Columnwise).unwrap();
/// assert_eq!(columnwise.data.shape(), [256, 640]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizedTensor(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    spec: QuantizedSpec,
    rowwise: Option<QuantizedCopy>,
    columnwise: Option<QuantizedCopy>,
    /// `f32[groups]`, what elements were multiplied by; for one scale per group.
    scale: Option<Tensor>,
}

impl QuantizedTensor {
    /// New memory with unspecified contents.
    ///
    /// # Errors
    /// No groups or more than 4096, a format that is not FP8, no copy; out of memory.
    pub fn empty(stream: &Stream, spec: QuantizedSpec) -> Result<Self> {
        spec.check()?;
        let per_group = |_| Tensor::empty(stream, &[spec.groups], DType::F32);
        let whole = spec.format.blocks == Blocks::Tensor;
        let scale = whole.then_some(()).map(per_group).transpose()?;
        let scale_inv = whole.then_some(()).map(per_group).transpose()?;
        let copy = |direction| -> Result<Option<QuantizedCopy>> {
            if !spec.has(direction) {
                return Ok(None);
            }
            let shapes = spec.copy(direction);
            let data = shapes.data.empty(stream)?;
            let scale_inv = match &scale_inv {
                Some(shared) => shared.clone(),
                None => shapes.scale_inv.empty(stream)?,
            };
            Ok(Some(QuantizedCopy { data, scale_inv }))
        };
        let (rowwise, columnwise) = (copy(Direction::Rowwise)?, copy(Direction::Columnwise)?);
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale })))
    }

    /// A quantized tensor over memory that exists, say of another library: `spec` says which copies
    /// there are, and their tensors must have the shapes of [`QuantizedSpec::copy`].
    ///
    /// # Errors
    /// A copy that `spec` has is missing, or one too many is given; shapes, types or devices do not
    /// fit.
    pub fn from_copies(
        stream: &Stream,
        spec: QuantizedSpec,
        rowwise: Option<QuantizedCopy>,
        columnwise: Option<QuantizedCopy>,
    ) -> Result<Self> {
        spec.check()?;
        for (direction, copy, name) in [
            (Direction::Rowwise, &rowwise, ["rowwise data", "rowwise scale_inv"]),
            (Direction::Columnwise, &columnwise, ["columnwise data", "columnwise scale_inv"]),
        ] {
            if copy.is_some() != spec.has(direction) {
                return Err(Error::invalid(format!(
                    "quantized tensor: the {} is {}, unlike its spec says",
                    name[0],
                    if copy.is_some() { "given" } else { "missing" },
                )));
            }
            let Some(copy) = copy else { continue };
            let want = spec.copy(direction);
            copy.data.check(name[0], &want.data.shape, want.data.dtype, stream)?;
            copy.scale_inv.check(name[1], &want.scale_inv.shape, DType::F32, stream)?;
        }
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale: None })))
    }

    /// Shape and format.
    pub fn spec(&self) -> QuantizedSpec {
        self.0.spec
    }

    /// One copy, if there is one.
    pub fn copy(&self, direction: Direction) -> Option<&QuantizedCopy> {
        match direction {
            Direction::Rowwise => self.0.rowwise.as_ref(),
            Direction::Columnwise => self.0.columnwise.as_ref(),
        }
    }

    /// The directions that there are copies of.
    pub fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        let spec = self.spec();
        [Direction::Rowwise, Direction::Columnwise].into_iter().filter(move |own| spec.has(*own))
    }

    /// A handle that has one copy only, so that the memory of the other can go.
    ///
    /// # Errors
    /// There is no such copy.
    pub fn only(&self, direction: Direction) -> Result<Self> {
        let Some(copy) = self.copy(direction).cloned() else {
            return Err(missing_copy("quantized tensor", direction));
        };
        let (rowwise, columnwise) = match direction {
            Direction::Rowwise => (Some(copy), None),
            Direction::Columnwise => (None, Some(copy)),
        };
        let spec = QuantizedSpec {
            rowwise: rowwise.is_some(),
            columnwise: columnwise.is_some(),
            ..self.spec()
        };
        let scale = self.0.scale.clone();
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale })))
    }

    /// Bytes of data and scales.
    pub fn byte_len(&self) -> usize {
        self.tensors().map(Tensor::byte_len).sum()
    }

    /// What elements were multiplied by, `f32[groups]`, where each group has one scale.
    pub fn scale(&self) -> Option<&Tensor> {
        self.0.scale.as_ref()
    }

    /// Every tensor once: copies with one scale per group share theirs.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let Parts { spec, rowwise, columnwise, scale } = &*self.0;
        let shared = spec.format.blocks == Blocks::Tensor && rowwise.is_some();
        let columnwise = columnwise.iter().flat_map(move |copy| {
            std::iter::once(&copy.data).chain((!shared).then_some(&copy.scale_inv))
        });
        let rowwise = rowwise.iter().flat_map(|copy| [&copy.data, &copy.scale_inv]);
        rowwise.chain(columnwise).chain(scale)
    }

    pub(crate) fn check_device(&self, what: &'static str, stream: &Stream) -> Result<()> {
        self.tensors().try_for_each(|tensor| tensor.check_device(what, stream))
    }
}

/// A product asks for a copy that was not made.
pub(crate) fn missing_copy(what: &'static str, direction: Direction) -> Error {
    let name = match direction {
        Direction::Rowwise => "rowwise",
        Direction::Columnwise => "columnwise",
    };
    Error::invalid(format!("{what}: the {name} copy is needed, it was not made; quantize with it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Device;

    const SPEC: QuantizedSpec = QuantizedSpec {
        groups: 3,
        source: SourceShape::Tokens { rows: 290, features: 144 },
        format: Format { dtype: DType::E5m2, blocks: Blocks::Tensor },
        rowwise: true,
        columnwise: true,
    };

    #[test]
    fn shapes_follow_the_table() {
        use Direction::{Columnwise, Rowwise};
        let weights = SourceShape::Weights { rows: 200, columns: 144 };
        let tokens = SPEC.source;
        // In three groups, each padded to 128, 290 rows take five blocks at most: 2 + 144 + 144, say.
        let table = [
            (tokens, Blocks::Tensor, Rowwise, vec![290, 144], vec![3]),
            (tokens, Blocks::Tensor, Columnwise, vec![144, 640], vec![3]),
            (tokens, Blocks::Vector, Rowwise, vec![290, 144], vec![2, 292]),
            (tokens, Blocks::Vector, Columnwise, vec![144, 640], vec![5, 144]),
            (tokens, Blocks::Square, Rowwise, vec![290, 144], vec![5, 4]),
            (tokens, Blocks::Square, Columnwise, vec![144, 640], vec![2, 8]),
            (weights, Blocks::Tensor, Columnwise, vec![3, 144, 200], vec![3]),
            (weights, Blocks::Vector, Rowwise, vec![3, 200, 144], vec![3, 2, 200]),
            (weights, Blocks::Vector, Columnwise, vec![3, 144, 200], vec![3, 2, 144]),
            (weights, Blocks::Square, Rowwise, vec![3, 200, 144], vec![3, 2, 4]),
            (weights, Blocks::Square, Columnwise, vec![3, 144, 200], vec![3, 2, 4]),
        ];
        for (source, blocks, direction, data, scales) in table {
            let format = Format { blocks, ..SPEC.format };
            let copy = QuantizedSpec { source, format, ..SPEC }.copy(direction);
            assert_eq!((copy.data.shape, copy.scale_inv.shape), (data, scales), "{direction:?}");
        }
    }

    #[test]
    fn one_scale_per_group_is_shared() -> Result<()> {
        let stream = Device::cpu().stream()?;
        let tensor = QuantizedTensor::empty(&stream, SPEC)?;
        let bytes = 290 * 144 + 144 * 640 + 2 * 4 * 3;
        assert_eq!(tensor.byte_len(), bytes);
        let rowwise = tensor.only(Direction::Rowwise)?;
        assert!(rowwise.copy(Direction::Columnwise).is_none());
        assert!(rowwise.only(Direction::Columnwise).is_err());
        Ok(())
    }

    #[test]
    fn copies_that_do_not_fit_are_refused() -> Result<()> {
        let stream = Device::cpu().stream()?;
        let both = QuantizedTensor::empty(&stream, SPEC)?;
        let copies = || (both.0.rowwise.clone(), both.0.columnwise.clone());
        let (rowwise, columnwise) = copies();
        assert!(QuantizedTensor::from_copies(&stream, SPEC, rowwise, columnwise).is_ok());
        let refused = |spec, rowwise, columnwise, part: &str| {
            let error = QuantizedTensor::from_copies(&stream, spec, rowwise, columnwise);
            let text = error.expect_err(part).to_string();
            assert!(text.contains(part), "{text}");
        };
        let (rowwise, columnwise) = copies();
        refused(SPEC, rowwise.clone(), None, "columnwise data is missing");
        let only = QuantizedSpec { columnwise: false, ..SPEC };
        refused(only, rowwise.clone(), columnwise.clone(), "columnwise data is given");
        refused(QuantizedSpec { groups: 0, ..SPEC }, None, None, "0 groups");
        let neither = QuantizedSpec { rowwise: false, ..only };
        refused(neither, None, None, "neither copy");
        let format = Format { dtype: DType::Bf16, ..SPEC.format };
        refused(QuantizedSpec { format, ..SPEC }, rowwise.clone(), columnwise.clone(), "bf16");
        refused(SPEC, columnwise, rowwise, "rowwise data");
        Ok(())
    }
}
