//! The tensors of one operation, checked against its problem before anything runs.

use super::Overlaps;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::recipe::{AmaxChoice, ScaleRule};
use crate::splits::Splits;
use crate::tensor::{
    DType, GroupedTensor, Memory, Parts, QuantizedCopy, QuantizedSpec, QuantizedTensor, Tensor,
};

/// A factor of a product: one for all groups, or one per group in device memory (FP32, `[groups]`).
#[derive(Clone, Copy, Debug)]
pub enum Factor<'a> {
    /// The same for every group.
    Value(f32),
    /// One per group; the host does not read it.
    PerGroup(&'a Tensor),
}

impl Factor<'_> {
    fn check(&self, what: &'static str, groups: usize, stream: &Stream) -> Result<()> {
        match self {
            Self::Value(_) => Ok(()),
            Self::PerGroup(tensor) => tensor.check(what, &[groups], DType::F32, stream),
        }
    }
}

/// An operand that either follows the token rows or has one part per group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupedOperand<'a> {
    /// `[rows, features]`.
    Rows(&'a Tensor),
    /// One matrix or vector per group.
    Groups(&'a GroupedTensor),
}

impl GroupedOperand<'_> {
    pub(crate) fn tensors(&self) -> &[Tensor] {
        match self {
            Self::Rows(tensor) => std::slice::from_ref(tensor),
            Self::Groups(grouped) => grouped.tensors(),
        }
    }
}

/// Operands of a grouped product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmOperands<'a> {
    /// X (fprop) or dY (dgrad, wgrad).
    pub a: &'a Tensor,
    /// Weights (fprop, dgrad) or X (wgrad).
    pub b: GroupedOperand<'a>,
    /// Y, dX or dW.
    pub d: GroupedOperand<'a>,
    pub splits: &'a Splits,
    pub alpha: Factor<'a>,
    pub beta: Factor<'a>,
    pub bias: Option<&'a GroupedTensor>,
    pub bias_row_scales: Option<&'a Tensor>,
}

/// Operands of dbias.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DbiasOperands<'a> {
    pub dy: &'a Tensor,
    pub row_scales: Option<&'a Tensor>,
    pub db: &'a GroupedTensor,
    pub splits: &'a Splits,
    pub accumulate: bool,
}

/// Operands of dscales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DscalesOperands<'a> {
    pub dy: &'a Tensor,
    pub bias: &'a GroupedTensor,
    pub dscales: &'a Tensor,
    pub splits: &'a Splits,
}

/// Operands of a cast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CastOperands<'a> {
    pub source: &'a GroupedTensor,
    pub destination: &'a Tensor,
    pub skip: Option<&'a Tensor>,
}

/// Operands of a search for the largest magnitudes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AmaxOperands<'a> {
    pub source: GroupedOperand<'a>,
    /// Of tokens.
    pub splits: Option<&'a Splits>,
    pub skip: Option<&'a Tensor>,
    /// `f32[groups]`.
    pub amax: &'a Tensor,
}

/// Operands of a quantization.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuantizeOperands<'a> {
    pub source: GroupedOperand<'a>,
    /// Of tokens.
    pub splits: Option<&'a Splits>,
    pub destination: &'a QuantizedTensor,
    /// Where delayed scales come from, and what learns the magnitudes.
    pub history: Option<HistoryOperands<'a>>,
    /// `f32[groups]`, where the magnitudes are given from which scales follow.
    pub amax: Option<&'a Tensor>,
    pub rule: ScaleRule,
    pub skip: Option<&'a Tensor>,
    pub db: Option<&'a GroupedTensor>,
    pub accumulate_db: bool,
    /// `i64[2]`, seed and offset, where elements are rounded at random; the work moves the offset
    /// on.
    pub random: Option<&'a Tensor>,
}

/// The state of delayed scaling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryOperands<'a> {
    /// `f32[history_len, groups]`.
    pub history: &'a Tensor,
    /// `f32[groups]`.
    pub scale: &'a Tensor,
    /// `f32[groups]`.
    pub scale_inv: &'a Tensor,
}

/// Operands of the update of histories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateScalesOperands<'a> {
    pub histories: &'a [HistoryUpdate<'a>],
    pub skip: Option<&'a Tensor>,
}

/// How the next scales follow from a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryUpdate<'a> {
    pub history: HistoryOperands<'a>,
    /// E4M3 or E5M2.
    pub format: DType,
    pub choice: AmaxChoice,
    pub margin: i32,
}

/// Operands of the way back from quantization.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DequantizeOperands<'a> {
    pub copy: &'a QuantizedCopy,
    pub spec: QuantizedSpec,
    /// Of tokens.
    pub splits: Option<&'a Splits>,
    pub destination: GroupedOperand<'a>,
}

/// Operands of a change of order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwizzleOperands<'a> {
    pub scales: &'a Tensor,
    /// Of tokens.
    pub splits: Option<&'a Splits>,
    pub destination: &'a Tensor,
}

/// Operands of padding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PadOperands<'a> {
    pub source: &'a Tensor,
    pub splits: &'a Splits,
    pub destination: &'a Tensor,
}

/// Operands of a grouped product of quantized tensors, each with the copy that runs along the
/// reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScaledGemmOperands<'a> {
    /// X (fprop) or dY (dgrad, wgrad).
    pub a: &'a QuantizedCopy,
    pub a_spec: QuantizedSpec,
    /// Weights (fprop, dgrad) or X (wgrad).
    pub b: &'a QuantizedCopy,
    pub b_spec: QuantizedSpec,
    /// Y, dX or dW.
    pub d: GroupedOperand<'a>,
    pub splits: &'a Splits,
    pub alpha: Factor<'a>,
    pub beta: Factor<'a>,
    pub bias: Option<&'a GroupedTensor>,
    pub bias_row_scales: Option<&'a Tensor>,
}

/// Operands of any operation; the variant matches the plan's problem.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operands<'a> {
    Gemm(GemmOperands<'a>),
    Dbias(DbiasOperands<'a>),
    Dscales(DscalesOperands<'a>),
    Cast(CastOperands<'a>),
    Amax(AmaxOperands<'a>),
    Quantize(QuantizeOperands<'a>),
    ScaledGemm(ScaledGemmOperands<'a>),
    UpdateScales(UpdateScalesOperands<'a>),
    Dequantize(DequantizeOperands<'a>),
    Swizzle(SwizzleOperands<'a>),
    Pad(PadOperands<'a>),
}

impl<'a> Operands<'a> {
    /// The splits, of an operation whose groups have rows.
    pub(crate) fn splits(&self) -> Option<&'a Splits> {
        match self {
            Self::Gemm(gemm) => Some(gemm.splits),
            Self::Dbias(dbias) => Some(dbias.splits),
            Self::Dscales(dscales) => Some(dscales.splits),
            Self::Cast(_) | Self::UpdateScales(_) => None,
            Self::Amax(amax) => amax.splits,
            Self::Quantize(quantize) => quantize.splits,
            Self::Dequantize(dequantize) => dequantize.splits,
            Self::Swizzle(swizzle) => swizzle.splits,
            Self::Pad(pad) => Some(pad.splits),
            Self::ScaledGemm(gemm) => Some(gemm.splits),
        }
    }

    /// Calls `visit` with every tensor that is only read.
    fn for_each_input(&self, visit: &mut dyn FnMut(&Tensor)) {
        let mut optional = |tensor: Option<&Tensor>| {
            if let Some(tensor) = tensor {
                visit(tensor);
            }
        };
        optional(self.splits().and_then(Splits::device_tensor));
        match self {
            Self::Gemm(gemm) => {
                optional(Some(gemm.a));
                gemm.b.tensors().iter().for_each(|tensor| optional(Some(tensor)));
                for factor in [gemm.alpha, gemm.beta] {
                    if let Factor::PerGroup(tensor) = factor {
                        optional(Some(tensor));
                    }
                }
                if let Some(bias) = gemm.bias {
                    bias.tensors().iter().for_each(|tensor| optional(Some(tensor)));
                }
                optional(gemm.bias_row_scales);
            }
            Self::Dbias(dbias) => {
                optional(Some(dbias.dy));
                optional(dbias.row_scales);
            }
            Self::Dscales(dscales) => {
                optional(Some(dscales.dy));
                dscales.bias.tensors().iter().for_each(|tensor| optional(Some(tensor)));
            }
            Self::Cast(cast) => {
                cast.source.tensors().iter().for_each(|tensor| optional(Some(tensor)));
                optional(cast.skip);
            }
            Self::Amax(amax) => {
                amax.source.tensors().iter().for_each(|tensor| optional(Some(tensor)));
                optional(amax.skip);
            }
            Self::Quantize(quantize) => {
                quantize.source.tensors().iter().for_each(|tensor| optional(Some(tensor)));
                optional(quantize.skip);
                optional(quantize.amax);
                optional(quantize.history.map(|history| history.scale));
            }
            Self::UpdateScales(update) => optional(update.skip),
            Self::Dequantize(dequantize) => {
                dequantize.copy.tensors().for_each(|tensor| optional(Some(tensor)));
            }
            Self::Swizzle(swizzle) => optional(Some(swizzle.scales)),
            Self::Pad(pad) => optional(Some(pad.source)),
            Self::ScaledGemm(gemm) => {
                let copies = [gemm.a, gemm.b].into_iter().flat_map(QuantizedCopy::tensors);
                copies.for_each(|tensor| optional(Some(tensor)));
                for factor in [gemm.alpha, gemm.beta] {
                    if let Factor::PerGroup(tensor) = factor {
                        optional(Some(tensor));
                    }
                }
                if let Some(bias) = gemm.bias {
                    bias.tensors().iter().for_each(|tensor| optional(Some(tensor)));
                }
                optional(gemm.bias_row_scales);
            }
        }
    }

    /// Calls `visit` with every tensor that is written.
    fn for_each_output(&self, visit: &mut dyn FnMut(&'a Tensor)) {
        match self {
            Self::Gemm(GemmOperands { d, .. })
            | Self::ScaledGemm(ScaledGemmOperands { d, .. })
            | Self::Dequantize(DequantizeOperands { destination: d, .. }) => match *d {
                GroupedOperand::Rows(tensor) => visit(tensor),
                GroupedOperand::Groups(grouped) => grouped.tensors().iter().for_each(visit),
            },
            Self::Swizzle(swizzle) => visit(swizzle.destination),
            Self::Pad(pad) => visit(pad.destination),
            Self::Dbias(dbias) => dbias.db.tensors().iter().for_each(visit),
            Self::Dscales(dscales) => visit(dscales.dscales),
            Self::Cast(cast) => visit(cast.destination),
            Self::Amax(amax) => visit(amax.amax),
            Self::Quantize(quantize) => {
                quantize.destination.tensors().for_each(&mut *visit);
                if let Some(history) = quantize.history {
                    visit(history.history);
                }
                quantize.random.into_iter().for_each(&mut *visit);
                let db = quantize.db.map_or(&[][..], GroupedTensor::tensors);
                db.iter().for_each(visit);
            }
            Self::UpdateScales(update) => update.histories.iter().for_each(|update| {
                let HistoryOperands { history, scale, scale_inv } = update.history;
                [history, scale, scale_inv].into_iter().for_each(&mut *visit);
            }),
        }
    }

    /// The checks that all operations share: splits, factors and overlap.
    pub(crate) fn check(&self, groups: usize, rows: usize, stream: &Stream) -> Result<()> {
        if let Some(splits) = self.splits() {
            splits.check(groups, rows, stream)?;
        }
        if let Self::Gemm(GemmOperands { alpha, beta, .. })
        | Self::ScaledGemm(ScaledGemmOperands { alpha, beta, .. }) = self
        {
            alpha.check("alpha", groups, stream)?;
            beta.check("beta", groups, stream)?;
        }
        self.check_memory()
    }

    /// Outputs must overlap neither inputs nor one another.
    pub(crate) fn check_memory(&self) -> Result<()> {
        let mut overlap = false;
        self.for_each_output(&mut |output| {
            self.for_each_input(&mut |input| overlap |= output.overlaps(input));
        });
        if overlap {
            return Err(Error::invalid("the output overlaps an input; give it memory of its own"));
        }
        self.check_outputs_apart()
    }

    /// Outputs must not overlap one another.
    fn check_outputs_apart(&self) -> Result<()> {
        let (mut overlaps, mut count) = (Overlaps::default(), 0);
        self.for_each_output(&mut |output| {
            overlaps.write([output]);
            count += 1;
        });
        if count < 2 || !overlaps.any() {
            return Ok(());
        }
        let what = match self {
            Self::Quantize(_) => "the parts of the quantized tensor and db",
            Self::UpdateScales(_) => "delayed states",
            _ => "discrete outputs",
        };
        Err(Error::invalid(format!("{what} overlap one another; give each memory of its own")))
    }

    /// Tells the memory of every operand that the queue uses it.
    pub(crate) fn note_use(&self, queue: u64) {
        let note = |tensor: &Tensor| {
            if let Memory::Device(memory) = tensor.memory() {
                memory.note_use(queue);
            }
        };
        self.for_each_input(&mut |tensor| note(tensor));
        self.for_each_output(&mut |tensor| note(tensor));
        self.for_each_grouped(&mut |grouped| {
            let Parts::Discrete(_, Some(table)) = grouped.parts() else { return };
            for memory in table.memories() {
                if let Memory::Device(memory) = memory {
                    memory.note_use(queue);
                }
            }
        });
    }

    fn for_each_grouped(&self, visit: &mut dyn FnMut(&GroupedTensor)) {
        let mut operand = |operand: &GroupedOperand<'_>| {
            if let GroupedOperand::Groups(grouped) = operand {
                visit(grouped);
            }
        };
        match self {
            Self::Gemm(gemm) => {
                operand(&gemm.b);
                operand(&gemm.d);
                gemm.bias.into_iter().for_each(visit);
            }
            Self::Dbias(dbias) => visit(dbias.db),
            Self::Dscales(dscales) => visit(dscales.bias),
            Self::Cast(cast) => visit(cast.source),
            Self::Amax(amax) => operand(&amax.source),
            Self::Quantize(quantize) => {
                operand(&quantize.source);
                quantize.db.into_iter().for_each(visit);
            }
            Self::ScaledGemm(gemm) => {
                operand(&gemm.d);
                gemm.bias.into_iter().for_each(visit);
            }
            Self::Dequantize(dequantize) => operand(&dequantize.destination),
            Self::UpdateScales(_) | Self::Swizzle(_) | Self::Pad(_) => {}
        }
    }
}

impl GroupedTensor {
    /// Base address and array address as the kernels take them: one of the two is zero.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        match self.parts() {
            Parts::Packed(tensor) => (tensor.address().unwrap_or(0), 0),
            Parts::Discrete(_, Some(table)) => (0, table.pointers.address()),
            Parts::Discrete(_, None) => (0, 0),
        }
    }
}
