//! The history of delayed scaling.

use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::numerics::scale::scale_inverse;
use crate::plan::{
    HistoryOperands, HistoryUpdate, Operands, Plan, UpdateScalesOperands, UpdateScalesProblem,
};
use crate::recipe::{Blocks, DelayedScaling, Format};
use crate::tensor::{DType, Tensor};

/// What delayed scaling remembers of one tensor: for each group a scale and the largest magnitudes
/// of the last steps. Clones are handles to the same memory.
///
/// A quantization uses the scale as it is and notes the magnitudes; [`DelayedState::update`] makes
/// the next scale of them, once a step. Between the two, [`DelayedState::amax`] may be reduced
/// (maximum) over the ranks that share the tensor. All of it can be recorded in a graph.
///
/// Formulas: TransformerEngine's delayed scaling; `scale = max / (amax · 2^margin)`, unchanged
/// where `amax` is zero or not finite.
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
    /// A history without entries or of more than 2²⁰ steps, a margin below -112 or above 126; no
    /// groups or more than 4096; a type that is neither E4M3 nor E5M2; out of memory; work is being
    /// recorded.
    pub fn new(
        stream: &Stream,
        recipe: DelayedScaling,
        groups: usize,
        dtype: DType,
    ) -> Result<Self> {
        crate::recipe::Recipe::Delayed(recipe).check()?;
        let history_len = recipe.history_len;
        if !dtype.is_fp8() {
            return Err(Error::dtype("delayed state", dtype, "e4m3 or e5m2"));
        }
        let update = UpdateScalesProblem { histories: 1, groups };
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

    /// Largest magnitudes, `f32[history_len, groups]`: the first line is that of the step that is
    /// under way, then those of earlier steps follow, the oldest first.
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
        Self::update_all(stream, [self], None)
    }

    /// Ends the step, as [`DelayedState::update`] does, unless the flag `skip` (`i32`, `[1]`, on
    /// the device) is not zero when the work runs: then the state stays as it is. A graph whose
    /// quantizations a flag skips ends its step under the same flag, and no step that was none
    /// enters the history.
    ///
    /// # Errors
    /// A flag of another shape, type or device; a stream of another device; a driver failure.
    pub fn update_unless(&mut self, stream: &Stream, skip: &Tensor) -> Result<()> {
        Self::update_all(stream, [self], Some(skip))
    }

    /// Ends the step of many states, those of a model: each as [`DelayedState::update`] does, or,
    /// with a flag, as [`DelayedState::update_unless`], with one launch for every
    /// [16](crate::plan::UpdateScalesProblem::MOST) of them.
    ///
    /// ```
    /// use grouped_linear::recipe::DelayedScaling;
    /// use grouped_linear::{DType, DelayedState, Device};
    /// let stream = Device::cpu().stream()?;
    /// let recipe = DelayedScaling::default();
    /// let mut states = [1, 64]
    ///     .map(|groups| DelayedState::new(&stream, recipe, groups, DType::E4m3).unwrap());
    /// states[0].amax()?.write(&stream, &[7.0f32])?;
    /// DelayedState::update_all(&stream, &mut states, None)?;
    /// assert_eq!(states[0].scale().to_f32(&stream)?, [64.0]); // 448 / 7
    ///
    /// // The same state twice would end two steps, or one, as it happens.
    /// let [state, _] = &mut states;
    /// let twice = [&mut state.clone(), state];
    /// let error = DelayedState::update_all(&stream, twice, None).unwrap_err();
    /// assert!(error.to_string().contains("delayed states overlap"), "{error}");
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// A state that is given twice, be it as a clone; a flag of another shape, type or device, or
    /// in a state's memory; a stream of another device: then nothing has been launched. A driver
    /// failure.
    pub fn update_all<'a>(
        stream: &Stream,
        states: impl IntoIterator<Item = &'a mut Self>,
        skip: Option<&Tensor>,
    ) -> Result<()> {
        let states: Vec<&Self> = states.into_iter().map(|state| &*state).collect();
        skip.map_or(Ok(()), |skip| skip.check("skip", &[1], DType::I32, stream))?;
        for state in &states {
            state.history.check_device("delayed state", stream)?;
        }
        let updates: Vec<HistoryUpdate<'_>> = states
            .iter()
            .map(|state| HistoryUpdate {
                history: state.operands(),
                format: state.dtype,
                choice: state.recipe.choice,
                margin: state.recipe.margin,
            })
            .collect();
        let operands = |histories| Operands::UpdateScales(UpdateScalesOperands { histories, skip });
        operands(&updates).check_memory()?;
        for part in updates.chunks(UpdateScalesProblem::MOST) {
            let groups = part.iter().map(|update| update.history.scale.len()).max();
            let problem =
                UpdateScalesProblem { histories: part.len(), groups: groups.unwrap_or_default() };
            let plan = Plan::new(problem.into(), stream.device().target())?;
            stream.queue().run(&plan, &operands(part))?;
        }
        Ok(())
    }

    /// Puts the state where another one was, whose [`history`](Self::history) and
    /// [`scale`](Self::scale) these are, say that of a checkpoint: what follows is the same to the
    /// bit. All handles see it.
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
    /// Not as many values as history and scales have; a magnitude with a sign; a scale below
    /// `f32::MIN_POSITIVE` or not finite; a stream of another device, or one that records a graph;
    /// then nothing has been written. A driver failure.
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
        // Infinity and NaN are what a tensor that held them leaves behind; scales do not follow
        // them. A sign, that of -0 or of a NaN, too, would make any of them the largest: kernels
        // compare bits.
        if let Some(amax) = history.iter().find(|amax| amax.is_sign_negative()) {
            return Err(Error::invalid(format!(
                "delayed state: the history has {amax}; magnitudes have no sign"
            )));
        }
        // The inverse of a smaller one would be infinite.
        let is_scale = |scale: f32| scale >= f32::MIN_POSITIVE && scale.is_finite();
        if let Some(scale) = scale.iter().find(|&&scale| !is_scale(scale)) {
            return Err(Error::invalid(format!(
                "delayed state: a scale is {scale}; scales are finite, and {:e} at least",
                f32::MIN_POSITIVE
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
