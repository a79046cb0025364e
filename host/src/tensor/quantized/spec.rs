//! Shapes of quantized tensors.

use grouped_linear_kernels::abi::mx::{MXFP8_BLOCK, MxScales, NVFP4_BLOCK};
use grouped_linear_kernels::abi::quantize::{BlockScales, ScaleLayout};

use super::Shared;
use crate::error::{Error, Result};
use crate::numerics::Direction;
use crate::plan::{LARGEST_COORDINATE, MAX_GROUPS, check_padded_rows, check_sizes, padded_rows};
use crate::recipe::{BlockShape, Blocks, Format, Nvfp4Format, Scope, Transform};
use crate::tensor::{DType, TensorSpec};

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

    /// Rows of the tokens, or of the weights of one group.
    pub fn rows(&self) -> usize {
        match *self {
            Self::Tokens { rows, .. } | Self::Weights { rows, .. } => rows,
        }
    }

    /// Rows of each group, where all have as many: of weights.
    pub(crate) fn rows_of_every_group(&self) -> Option<usize> {
        match *self {
            Self::Tokens { .. } => None,
            Self::Weights { rows, .. } => Some(rows),
        }
    }

    /// What a row and, of weights, a column have, by name.
    pub(crate) fn features(&self) -> [(&'static str, usize); 2] {
        match *self {
            Self::Tokens { features, .. } => [("features", features); 2],
            Self::Weights { rows, columns } => [("out_features", rows), ("in_features", columns)],
        }
    }

    /// The source's dimensions.
    pub(crate) fn shape(&self, groups: usize) -> Vec<usize> {
        match *self {
            Self::Tokens { rows, features } => vec![rows, features],
            Self::Weights { rows, columns } => vec![groups, rows, columns],
        }
    }
}

/// How a copy is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Codes and their scales.
    #[default]
    Codes,
    /// Codes and their scales, those in the tiles of 128 × 4 that block-scaled tensor cores read
    /// (MXFP8 and NVFP4).
    Swizzled,
    /// Numbers times the scales of their blocks in BF16, which holds them exactly, so that 16-bit
    /// tensor cores multiply what the codes stand for (MXFP8 and NVFP4): two bytes an element, and
    /// no scales but those of groups or rows.
    ///
    /// The exceptions are numbers of MXFP8 outside of BF16's exponents: those that have bits below
    /// 2⁻¹³³ are rounded to a multiple of it (to nearest, ties to even), and those from 2¹²⁸ on,
    /// which FP32 does not hold either, are infinite.
    Exact,
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
    /// The rowwise copy, if there is one.
    pub rowwise: Option<Form>,
    /// The columnwise copy, if there is one.
    pub columnwise: Option<Form>,
}

/// The shapes of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySpec {
    /// Codes, one byte an element, of FP4 half a byte; or exact numbers.
    pub data: TensorSpec,
    /// `scale_inv` of blocks or groups, FP32, or a byte each in MXFP8 (E8M0) and NVFP4 (E4M3); of
    /// exact numbers there are none, and the shape is `[0]`.
    pub scale_inv: TensorSpec,
    /// NVFP4: largest magnitudes, FP32, of groups or rows.
    pub amax: Option<TensorSpec>,
}

impl CopySpec {
    /// Bytes of all parts; `usize::MAX` beyond the address space.
    pub fn byte_len(&self) -> usize {
        let parts = [&self.data, &self.scale_inv].into_iter().chain(&self.amax);
        parts.map(TensorSpec::byte_len).fold(0, usize::saturating_add)
    }
}

impl QuantizedSpec {
    /// Rows that the tokens can take with every group padded to 128; of weights, the rows of one.
    /// `usize::MAX` of more rows or groups than 32 bits count, which no tensor has.
    pub fn padded_rows(&self) -> usize {
        match self.source {
            SourceShape::Tokens { rows, .. } => padded_rows(rows, self.groups),
            SourceShape::Weights { rows, .. } => rows,
        }
    }

    /// Shapes of a copy in its form; of one that there is not, in codes.
    ///
    /// | FP8 copy | data | 1 × 128 scales | 128 × 128 scales |
    /// | --- | --- | --- | --- |
    /// | tokens, rowwise | `[T, C]` | `[⌈C/128⌉, T↑4]` | `[Tp/128, ⌈C/128⌉↑4]` |
    /// | tokens, columnwise | `[C, Tp]` | `[Tp/128, C↑4]` | `[⌈C/128⌉, (Tp/128)↑4]` |
    /// | weights, rowwise | `[G, N, K]` | `[G, ⌈K/128⌉, N↑4]` | `[G, ⌈N/128⌉, ⌈K/128⌉↑4]` |
    /// | weights, columnwise | `[G, K, N]` | `[G, ⌈N/128⌉, K↑4]` | `[G, ⌈K/128⌉, ⌈N/128⌉↑4]` |
    ///
    /// `Tp` is [`QuantizedSpec::padded_rows`], `↑4` rounds up to a multiple of 4. With one scale
    /// per group the scales are `[G]`, and both copies share them.
    ///
    /// | copy | MXFP8 data | MXFP8 scales | NVFP4 data | NVFP4 scales |
    /// | --- | --- | --- | --- | --- |
    /// | tokens, rowwise | `[T, C]` | `[Tp, (C/32)↑4]` | `[T, C/2]` | `[Tp, (C/16)↑4]` |
    /// | tokens, columnwise | `[T, C]` | `[Tp/32, C↑128]` | `[C, Tp/2]` | `[Tp/16, C↑128]` |
    /// | weights, rowwise | `[G, N, K]` | `[G, N↑128, (K/32)↑4]` | `[G, N, K/2]` | `[G, N↑128, (K/16)↑4]` |
    /// | weights, columnwise | `[G, N, K]` | `[G, N↑128/32, K↑128]` | `[G, K, N/2]` | `[G, K↑128, N↑128/16]` |
    ///
    /// Their scales are a matrix per group, one after another, each with its rows padded to 128;
    /// the columnwise ones of NVFP4 tokens are `[C↑128, padded rows / 16]` there. Exact numbers
    /// have the shape of the source, columnwise tokens of NVFP4 `[Tp, C]`. NVFP4's `amax` is `[G]`,
    /// or `[T]` where rows are scaled.
    ///
    /// What pads a group to 128 rows is zero where data has `Tp`, and so are swizzled scales that
    /// pad their matrix: products on a GPU read both, and a NaN there becomes one of the group's
    /// results. (NVFP4 that is transformed has numbers in the rows up to the next multiple of 16.)
    /// Other scales of padding are not read for a result, nor are rows of no group.
    ///
    /// Lengths that cannot be computed, of sizes that [`QuantizedTensor::empty`] refuses as too
    /// large, are `usize::MAX`.
    ///
    /// [`QuantizedTensor::empty`]: super::QuantizedTensor::empty
    pub fn copy(&self, direction: Direction) -> CopySpec {
        let form = self.form(direction).unwrap_or_default();
        let scale_inv = match form {
            Form::Exact => TensorSpec { shape: vec![0], dtype: DType::U8 },
            Form::Codes | Form::Swizzled => self.scale_inv(direction),
        };
        let amax = match self.format {
            Format::Nvfp4(Nvfp4Format { scope: Scope::Group, .. }) => Some(vec![self.groups]),
            Format::Nvfp4(Nvfp4Format { scope: Scope::Row, .. }) => Some(vec![self.source.rows()]),
            Format::Fp8 { .. } | Format::Mxfp8 { .. } => None,
        };
        let amax = amax.map(|shape| TensorSpec { shape, dtype: DType::F32 });
        CopySpec { data: self.data(direction, form), scale_inv, amax }
    }

    fn data(&self, direction: Direction, form: Form) -> TensorSpec {
        let (groups, padded, source) = (self.groups, self.padded_rows(), self.source);
        let (rows, columns) = (source.rows(), source.columns());
        let tokens = matches!(source, SourceShape::Tokens { .. });
        let columnwise = direction == Direction::Columnwise;
        let transposed = |rows, columns| match source {
            SourceShape::Tokens { .. } => vec![columns, rows],
            SourceShape::Weights { .. } => vec![groups, columns, rows],
        };
        let nvfp4 = matches!(self.format, Format::Nvfp4(_));
        if form == Form::Exact {
            let shape = match (nvfp4 && columnwise, tokens) {
                (true, true) => vec![padded, columns],
                _ => source.shape(groups),
            };
            return TensorSpec { shape, dtype: DType::Bf16 };
        }
        let lines = if tokens { padded } else { rows };
        let shape = match (self.format, direction) {
            (Format::Fp8 { .. }, Direction::Columnwise) => transposed(lines, columns),
            (Format::Nvfp4(_), Direction::Columnwise) => transposed(lines / 2, columns),
            (Format::Nvfp4(_), Direction::Rowwise) => {
                let mut shape = source.shape(groups);
                shape.pop();
                shape.push(columns / 2);
                shape
            }
            (Format::Fp8 { .. } | Format::Mxfp8 { .. }, _) => source.shape(groups),
        };
        TensorSpec { shape, dtype: self.format.dtype() }
    }

    fn scale_inv(&self, direction: Direction) -> TensorSpec {
        let groups = self.groups;
        let of_groups = |matrix: [usize; 2]| match self.source {
            SourceShape::Tokens { .. } => matrix.to_vec(),
            SourceShape::Weights { .. } => [&[groups], &matrix[..]].concat(),
        };
        if self.format.is_whole() {
            return TensorSpec { shape: vec![groups], dtype: DType::F32 };
        }
        if !self.is_countable() {
            let dtype = if self.format.is_micro() { DType::U8 } else { DType::F32 };
            return TensorSpec { shape: of_groups([usize::MAX; 2]), dtype };
        }
        let Some(block) = self.micro_block() else {
            let scales = self.scales(direction);
            let shape = of_groups([scales.outer as usize, scales.pitch as usize]);
            return TensorSpec { shape, dtype: DType::F32 };
        };
        let lines = self.padded_rows().next_multiple_of(128);
        let scales = self.micro_scales(direction);
        let bytes = scales.base(lines as u64) as usize;
        let weights = matches!(self.source, SourceShape::Weights { .. });
        let outer = match direction {
            Direction::Rowwise => lines,
            Direction::Columnwise if weights && block == NVFP4_BLOCK => {
                self.source.columns().next_multiple_of(128)
            }
            Direction::Columnwise => lines / block as usize,
        };
        let shape = of_groups([outer, bytes.checked_div(outer).unwrap_or(0)]);
        TensorSpec { shape, dtype: DType::U8 }
    }

    /// Whether the sizes are within those that kernels and tensor copies count, so that their
    /// products can be computed.
    fn is_countable(&self) -> bool {
        let longest = self.source.rows().max(self.source.columns());
        self.groups <= MAX_GROUPS && longest <= LARGEST_COORDINATE
    }

    /// Elements of a block whose scale is a byte.
    fn micro_block(&self) -> Option<u32> {
        match self.format {
            Format::Fp8 { .. } => None,
            Format::Mxfp8 { .. } => Some(MXFP8_BLOCK),
            Format::Nvfp4(_) => Some(NVFP4_BLOCK),
        }
    }

    fn micro_scales(&self, direction: Direction) -> MxScales {
        MxScales {
            block: self.micro_block().unwrap_or(MXFP8_BLOCK),
            columns: self.source.columns() as u32,
            columnwise: direction == Direction::Columnwise,
            swizzled: self.form(direction) == Some(Form::Swizzled),
        }
    }

    /// The blocks of FP32 scales.
    fn blocks(&self) -> Blocks {
        match self.format {
            Format::Fp8 { blocks, .. } => blocks,
            Format::Mxfp8 { .. } | Format::Nvfp4(_) => Blocks::Tensor,
        }
    }

    /// The matrix of FP32 scales of a copy, of one group for weights.
    pub(crate) fn scales(&self, direction: Direction) -> BlockScales {
        let (blocks, padded) = (self.blocks(), self.padded_rows() as u64);
        let (rows, columns) = (self.source.rows() as u64, self.source.columns() as u64);
        match direction {
            Direction::Rowwise => BlockScales::rowwise(blocks, rows, padded, columns),
            Direction::Columnwise => BlockScales::columnwise(blocks, padded, columns),
        }
    }

    /// How the kernels find the FP32 scales of a copy.
    pub(crate) fn scale_layout(&self, direction: Direction) -> ScaleLayout {
        let scales = self.scales(direction);
        let group_pitch = match self.source {
            SourceShape::Tokens { .. } => 0,
            SourceShape::Weights { .. } => scales.elements(),
        };
        ScaleLayout { pitch: scales.pitch, group_pitch }
    }

    /// The form of a copy, if there is one.
    pub fn form(&self, direction: Direction) -> Option<Form> {
        match direction {
            Direction::Rowwise => self.rowwise,
            Direction::Columnwise => self.columnwise,
        }
    }

    /// Whether there is such a copy.
    pub fn has(&self, direction: Direction) -> bool {
        self.form(direction).is_some()
    }

    /// The directions that there are copies of.
    pub fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        let spec = *self;
        [Direction::Rowwise, Direction::Columnwise].into_iter().filter(move |own| spec.has(*own))
    }

    /// Whether both copies are the same bytes: exact numbers of squares that lie as the source
    /// does.
    pub(crate) fn shares_data(&self) -> bool {
        let exact = self.rowwise == Some(Form::Exact) && self.columnwise == Some(Form::Exact);
        let tokens = matches!(self.source, SourceShape::Tokens { .. });
        exact
            && match self.format {
                Format::Fp8 { .. } => false,
                Format::Mxfp8 { blocks, .. } => blocks == BlockShape::Square,
                Format::Nvfp4(nvfp4) => nvfp4.blocks == BlockShape::Square && !tokens,
            }
    }

    /// Whether both copies are scaled from the same magnitudes of groups.
    pub(crate) fn shares_amax(&self) -> bool {
        match self.format {
            Format::Nvfp4(nvfp4) => nvfp4.transform == Transform::None,
            Format::Fp8 { .. } | Format::Mxfp8 { .. } => false,
        }
    }

    /// What the columnwise copy has from the rowwise one.
    pub(crate) fn shared(&self) -> Shared {
        let both = self.rowwise.is_some() && self.columnwise.is_some();
        Shared {
            data: both && self.shares_data(),
            scale_inv: both && self.format.is_whole(),
            amax: both && self.shares_amax(),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        // First of all: shapes are computed only of sizes that can be multiplied.
        self.check_sizes()?;
        self.format.check()?;
        for (name, value) in self.source.features() {
            self.format.check_multiple(name, value)?;
        }
        if !(self.has(Direction::Rowwise) || self.has(Direction::Columnwise)) {
            return Err(Error::invalid(
                "quantized tensor: neither copy was asked for; set rowwise or columnwise",
            ));
        }
        let forms = [self.rowwise, self.columnwise];
        let plain = forms.iter().flatten().all(|form| *form == Form::Codes);
        if !self.format.is_micro() && !plain {
            return Err(Error::unsupported(
                "quantized tensor: FP8 with FP32 scales has one form, Form::Codes",
            ));
        }
        match self.format {
            Format::Nvfp4(Nvfp4Format { scope: Scope::Row, .. })
                if self.columnwise.is_some() || self.source.rows_of_every_group().is_some() =>
            {
                Err(Error::unsupported(
                    "quantized tensor: a scale for each row was asked for, which rowwise copies of \
                     tokens can have",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Groups, rows and features that can be counted, whatever the format.
    pub(crate) fn check_sizes(&self) -> Result<()> {
        let tokens = match self.source {
            SourceShape::Tokens { rows, .. } => rows,
            SourceShape::Weights { .. } => 0,
        };
        check_sizes(self.groups, tokens, &self.source.features())?;
        check_padded_rows(self.padded_rows())
    }
}
