//! The history of delayed scaling.

use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::numerics::scale::scale_inverse;
use crate::plan::{HistoryOperands, Operands, Plan, UpdateScalesOperands, UpdateScalesProblem};
use crate::recipe::{Blocks, DelayedScaling, Format};
use crate::tensor::{DType, Tensor};

/// What delayed scaling remembers of one tensor: for each group a scale and the largest magnitudes of
/// the last steps. Clones are handles to the same memory.
///
/// A quantization uses the scale as it is and notes the magnitudes; [`DelayedState::update`] makes the
/// next scale of them, once a step. Between the two, [`DelayedState::amax`] may be reduced (maximum)
/// over the ranks that share the tensor. All of it can be recorded in a graph.
///
/// Formulas: TransformerEngine's delayed scaling; `scale = max / (amax · 2^margin)`, unchanged where
/// `amax` is zero or not finite.
#[derive(Clone, Debug)]
pub struct DelayedState {
    recipe: DelayedScaling,
    dtype: DType,
    /// `f32[history_len, groups]`; the first line is this step's.
    history: Tensor,
    /// `f32[groups]`.
    scale: Tensor,
    /// `f32[groups]`.
    scale_inv: Tensor,
}

impl DelayedState {
    /// A state without memories: scales are one.
    ///
    /// # Errors
    /// A history without entries, a margin beyond ±126; no groups or more than 4096; a type that is
    /// neither E4M3 nor E5M2; out of memory; work is being recorded.
    pub fn new(
        stream: &Stream,
        recipe: DelayedScaling,
        groups: usize,
        dtype: DType,
    ) -> Result<Self> {
        crate::recipe::Recipe::Delayed(recipe).check()?;
        let history_len = recipe.history_len;
        let update = UpdateScalesProblem { groups, history_len, format: dtype };
        Plan::new(update.into(), stream.device().target())?;
        let ones = vec![1.0f32; groups];
        Ok(Self {
            recipe,
            dtype,
            history: Tensor::zeros(stream, &[history_len, groups], DType::F32)?,
            scale: Tensor::from_slice(stream, &[groups], &ones)?,
            scale_inv: Tensor::from_slice(stream, &[groups], &ones)?,
        })
    }

    /// Largest magnitudes, `f32[history_len, groups]`: the first line is that of the step that is under
    /// way, then those of earlier steps follow, the oldest first.
    pub fn history(&self) -> &Tensor {
        &self.history
    }

    /// This step's magnitudes so far, `f32[groups]`: what ranks reduce.
    ///
    /// # Errors
    /// None in a state that [`DelayedState::new`] made.
    pub fn amax(&self) -> Result<Tensor> {
        self.history.index(0)
    }

    /// The scales, `f32[groups]`.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }

    /// Ends the step: the next scales follow from the history, which moves on by one.
    ///
    /// # Errors
    /// A stream of another device; a driver failure.
    pub fn update(&mut self, stream: &Stream) -> Result<()> {
        self.run_update(stream, None)
    }

    /// Ends the step, as [`DelayedState::update`] does, unless the flag `skip` (`i32`, `[1]`, on the
    /// device) is not zero when the work runs: then the state stays as it is. A graph whose
    /// quantizations a flag skips ends its step under the same flag, and no step that was none enters
    /// the history.
    ///
    /// # Errors
    /// A flag of another shape, type or device; a stream of another device; a driver failure.
    pub fn update_unless(&mut self, stream: &Stream, skip: &Tensor) -> Result<()> {
        skip.check("skip", &[1], DType::I32, stream)?;
        self.run_update(stream, Some(skip))
    }

    fn run_update(&self, stream: &Stream, skip: Option<&Tensor>) -> Result<()> {
        self.history.check_device("delayed state", stream)?;
        let problem = UpdateScalesProblem {
            groups: self.scale.len(),
            history_len: self.recipe.history_len,
            format: self.dtype,
        };
        let plan = Plan::new(problem.into(), stream.device().target())?;
        let operands = UpdateScalesOperands {
            history: self.operands(),
            choice: self.recipe.choice,
            margin: self.recipe.margin,
            skip,
        };
        let operands = Operands::UpdateScales(operands);
        operands.check_memory()?;
        stream.queue().run(&plan, &operands)
    }

    /// Puts the state where another one was, whose [`history`](Self::history) and
    /// [`scale`](Self::scale) these are, say that of a checkpoint: what follows is the same to the bit.
    /// All handles see it.
    ///
    /// ```
    /// use grouped_linear::recipe::DelayedScaling;
    /// use grouped_linear::{DType, DelayedState, Device};
    /// let stream = Device::cpu().stream()?;
    /// let recipe = DelayedScaling { history_len: 2, ..DelayedScaling::default() };
    /// let mut state = DelayedState::new(&stream, recipe, 1, DType::E4m3)?;
    /// state.restore(&stream, &[3.5, 1.75], &[64.0])?;
    /// state.update(&stream)?;
    /// assert_eq!(state.scale().to_f32(&stream)?, [448.0 / 3.5]);
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not as many values as history and scales have; a magnitude below zero; a scale that is not above
    /// zero and finite; a stream of another device, or one that records a graph; then nothing has been
    /// written. A driver failure.
    pub fn restore(&mut self, stream: &Stream, history: &[f32], scale: &[f32]) -> Result<()> {
        self.history.check_device("delayed state", stream)?;
        for (what, values, tensor) in
            [("history", history, &self.history), ("scales", scale, &self.scale)]
        {
            if values.len() != tensor.len() {
                return Err(Error::invalid(format!(
                    "delayed state: {what} of {} values were given, {:?} are needed",
                    values.len(),
                    tensor.shape()
                )));
            }
        }
        // Infinity and NaN are what a tensor that held them leaves behind; scales do not follow them.
        if let Some(amax) = history.iter().find(|amax| amax.is_sign_negative()) {
            return Err(Error::invalid(format!(
                "delayed state: the history has {amax}; magnitudes are not below zero"
            )));
        }
        if let Some(scale) = scale.iter().find(|&&scale| !(scale > 0.0 && scale.is_finite())) {
            return Err(Error::invalid(format!(
                "delayed state: a scale is {scale}; scales are above zero and finite"
            )));
        }
        let inverse: Vec<f32> = scale.iter().map(|&scale| scale_inverse(scale)).collect();
        self.history.write(stream, history)?;
        self.scale.write(stream, scale)?;
        self.scale_inv.write(stream, &inverse)
    }

    pub(super) fn operands(&self) -> HistoryOperands<'_> {
        HistoryOperands { history: &self.history, scale: &self.scale, scale_inv: &self.scale_inv }
    }

    pub(super) fn check(&self, stream: &Stream, groups: usize, format: Format) -> Result<()> {
        let own = Format::fp8(self.dtype, Blocks::Tensor);
        if format != own {
            return Err(Error::invalid(format!(
                "delayed state: it was made for {own}; {format} was asked for"
            )));
        }
        self.scale.check("delayed state", &[groups], DType::F32, stream)
    }
}
