//! The gradient of the weights, computed after backward.

use std::collections::VecDeque;

use super::Config;
use super::low_precision::Contents;
use super::operands::WgradOperands;
use super::sink::GradSink;
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{Overlaps, Unkept};
use crate::tensor::GroupedTensor;

/// A gradient of the weights that is still to be computed: it owns what it reads, and needs neither
/// the layer nor the weights. With [`RecipeBuffers`](crate::RecipeBuffers) it reads what lies in
/// them, so another forward or backward in the same buffers comes after it has run; where one has
/// written over what it reads, it is refused.
///
/// ```
/// # use grouped_linear::*;
/// # let stream = Device::cpu().stream()?;
/// # let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::Bf16 };
/// # let weights = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::Bf16)?)?;
/// # let layer = GroupedLinear::new(&stream, config, weights, None)?;
/// # let x = Tensor::from_f32(&stream, &[3, 8], DType::Bf16, &[1.0; 24])?;
/// # let dy = Tensor::from_f32(&stream, &[3, 4], DType::Bf16, &[1.0; 12])?;
/// # let splits = Splits::host(&[1, 2])?;
/// # let (_, saved) = layer.forward(&stream, &x, &splits, ForwardOptions::default())?;
/// let options = BackwardOptions { dw: Wgrad::Delayed, ..Default::default() };
/// let grads = layer.backward_with(&stream, saved, &dy, options)?;
/// let mut pending = grads.pending.expect("it was asked for");
/// // … the gradient of the tokens goes on its way first …
/// let mut main_grad = GroupedTensor::packed(Tensor::zeros(&stream, &[2, 4, 8], DType::F32)?)?;
/// pending.run(&stream, GradSink::Accumulate(&mut main_grad))?;
/// assert_eq!(main_grad.group(1)?.to_f32(&stream)?, [2.0; 32]);
/// assert!(pending.run(&stream, GradSink::New).is_err()); // it has run
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the weights get no gradient until it runs; drop it explicitly where none is wanted"]
pub struct PendingWgrad {
    config: Config,
    operands: Option<WgradOperands>,
    /// What it does not read, and must not be written over: the layer's parameters and such.
    unkept: Unkept,
}

impl PendingWgrad {
    pub(super) fn new(config: Config, operands: WgradOperands, unkept: Unkept) -> Self {
        Self { config, operands: Some(operands), unkept }
    }

    /// Computes the gradient and releases the operands. If it is refused, nothing is released and
    /// it can be run again, into another sink.
    ///
    /// Inside [`Stream::capture`] the work is recorded, and the graph keeps the operands; give it a
    /// buffer there, since nothing can be allocated. It has run then, even if the capture fails
    /// later.
    ///
    /// # Errors
    /// It has run; another forward or backward has written over what it reads in
    /// [`RecipeBuffers`](crate::RecipeBuffers); the sink does not fit, or overlaps an operand or
    /// what of the layer's parameters and its recipe's memory has not been freed; out of memory; a
    /// driver failure.
    pub fn run(&mut self, stream: &Stream, sink: GradSink<'_>) -> Result<GroupedTensor> {
        let operands = self.operands()?;
        self.check(&sink)?;
        let (mut dw, accumulate) = sink.open(stream, &self.config.weights())?;
        operands.compute(stream, accumulate, &mut dw)?;
        self.release();
        Ok(dw)
    }

    /// Refuses operands that are gone, and a buffer that lies over what it does not read; the
    /// product sees to what it reads.
    pub(super) fn check(&self, sink: &GradSink<'_>) -> Result<()> {
        self.operands()?.check_contents()?;
        let Some(dw) = sink.buffer() else { return Ok(()) };
        let mut overlaps = Overlaps::default();
        overlaps.read_unkept(&self.unkept);
        overlaps.write(dw.tensors());
        overlaps.check()
    }

    /// What it reads; an error once that is released.
    pub(super) fn operands(&self) -> Result<&WgradOperands> {
        self.operands.as_ref().ok_or_else(|| {
            Error::invalid(
                "this gradient of the weights has been computed; each backward gives one to compute",
            )
        })
    }

    /// It has been computed.
    pub(super) fn release(&mut self) {
        self.operands = None;
    }

    /// The same gradient, to be computed once more.
    pub(super) fn again(&self) -> Self {
        Self { operands: self.operands.clone(), unkept: self.unkept.clone(), ..*self }
    }

    /// The same of what has been put into a recipe's buffers anew.
    pub(super) fn in_buffers(self, contents: [Option<Contents>; 2]) -> Self {
        Self { operands: self.operands.map(|own| own.in_buffers(contents)), ..self }
    }

    /// The same beside other memory that it must not be written over.
    pub(super) fn beside(self, unkept: Unkept) -> Self {
        Self { unkept, ..self }
    }

    /// Whether [`PendingWgrad::run`] has succeeded.
    pub fn has_run(&self) -> bool {
        self.operands.is_none()
    }

    /// Bytes of the tokens, the output gradient and the splits that it keeps; 0 once it has run.
    pub fn bytes(&self) -> usize {
        self.operands.as_ref().map_or(0, WgradOperands::byte_len)
    }
}

/// Gradients of weights that are still to be computed, first in, first out: what a pipeline
/// schedule fills in backward and empties in its bubbles.
#[derive(Debug, Default)]
pub struct WgradStore(VecDeque<PendingWgrad>);

impl WgradStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one at the end. One that has run is dropped.
    pub fn push(&mut self, pending: PendingWgrad) {
        if !pending.has_run() {
            self.0.push_back(pending);
        }
    }

    /// Computes the oldest and removes it. If it is refused, it stays the oldest.
    ///
    /// # Errors
    /// The store is empty; otherwise as [`PendingWgrad::run`].
    pub fn run_next(&mut self, stream: &Stream, sink: GradSink<'_>) -> Result<GroupedTensor> {
        let Some(oldest) = self.0.front_mut() else {
            return Err(Error::invalid("no gradient of weights is left to compute"));
        };
        let dw = oldest.run(stream, sink)?;
        self.0.pop_front();
        Ok(dw)
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that they keep.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(PendingWgrad::bytes).sum()
    }
}

impl Extend<PendingWgrad> for WgradStore {
    fn extend<T: IntoIterator<Item = PendingWgrad>>(&mut self, pending: T) {
        pending.into_iter().for_each(|one| self.push(one));
    }
}
