//! A layer whose calls are recorded in graphs and replayed.

mod signature;

use std::fmt;

use self::signature::{Part, Signature, Way, difference};
use super::backward::wanted;
use super::delayed::PendingWgrad;
use super::forward::CallSpec;
use super::infer::unrecordable;
use super::low_precision::LayerRecipe;
use super::saved::{Saved, Tokens};
use super::sink::{GradSink, RowSink, Wgrad};
use super::{BackwardOptions, BiasUse, ForwardOptions, GroupedLinear, SelectedGrads};
use crate::backend::{Graph, Stream};
use crate::error::{Error, Result};
use crate::plan::Execution;
use crate::splits::Splits;
use crate::tensor::{GroupedTensor, Tensor};

/// A layer that records its forward, its backward and its delayed gradients of weights in a graph
/// each, and replays them: one launch a call, whatever the calls consist of.
///
/// A graph has buffers and sizes in it; only what lies *in* the buffers (tokens, splits, gradients)
/// may change. So each call compares what it is given with what was recorded. Where a buffer, a
/// shape or an option is another one, the call runs as it would without graphs, and is recorded
/// anew for the calls that follow; the answer says so ([`Captured`]). What the layer's own call
/// would refuse, a replay refuses, too, before anything is launched. Each call computes once,
/// recorded or replayed, so accumulating sinks add once. Buffers that alternate want a
/// `CapturedLayer` each; clones of the layer share their parameters.
///
/// All outputs are the caller's, and splits are in device memory: nothing can be allocated in a
/// graph. The graphs keep what they read and write until they are replaced or dropped. While a
/// stream records ([`Stream::capture`]), every call is refused: graphs are not made or launched in
/// another.
///
/// ```
/// # #[cfg(feature = "emulator")] {
/// use grouped_linear::*;
/// let stream = Device::emulated(Arch::Sm90a)?.stream()?;
/// let config = Config { groups: 2, in_features: 8, out_features: 8, dtype: DType::Bf16 };
/// let ones = Tensor::from_f32(&stream, &[2, 8, 8], DType::Bf16, &[1.0; 128])?;
/// let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(ones)?, None)?;
/// let x = Tensor::from_f32(&stream, &[3, 8], DType::Bf16, &[1.0; 24])?;
/// let mut y = Tensor::zeros(&stream, &[3, 8], DType::Bf16)?;
/// let mut counts = Tensor::from_slice(&stream, &[2], &[1i64, 2])?;
/// let splits = Splits::device(counts.clone())?;
///
/// let mut captured = CapturedLayer::new(layer);
/// let options = ForwardOptions::default();
/// let (_, first) = captured.forward_into(&stream, &x, &splits, options, &mut y)?;
/// counts.write(&stream, &[3i64, 0])?;
/// let (_, second) = captured.forward_into(&stream, &x, &splits, options, &mut y)?;
/// assert_eq!((first, second), (Captured::First, Captured::Replayed));
/// assert_eq!(y.to_f32(&stream)?, [8.0; 24]);
/// # }
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Debug)]
pub struct CapturedLayer {
    layer: GroupedLinear,
    forward: Option<Recording<(Tensor, Saved)>>,
    backward: Option<Recording<SelectedGrads>>,
    wgrad: Option<Recording<GroupedTensor>>,
}

/// What a call of a [`CapturedLayer`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// It launched the recorded graph.
    Replayed,
    /// It ran without a graph and was recorded: there was no recording.
    First,
    /// It ran without a graph and was recorded anew, since this differs from the recording.
    Changed(&'static str),
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replayed => f.write_str("replayed"),
            Self::First => f.write_str("recorded"),
            Self::Changed(what) => write!(f, "recorded anew: {what} differs"),
        }
    }
}

/// A graph, what it was recorded for, and handles to what it computes.
#[derive(Debug)]
struct Recording<T> {
    signature: Signature,
    graph: Graph,
    result: T,
}

impl CapturedLayer {
    /// Records nothing yet.
    pub fn new(layer: GroupedLinear) -> Self {
        Self { layer, forward: None, backward: None, wgrad: None }
    }

    /// The layer.
    pub fn layer(&self) -> &GroupedLinear {
        &self.layer
    }

    /// As [`GroupedLinear::forward_into`].
    ///
    /// # Errors
    /// As [`GroupedLinear::forward_into`] and [`GroupedLinear::unsupported_reason`] in a graph.
    /// Where `y` has been computed and the recording has failed, the error says so
    /// ([`Error::is_not_recorded`]).
    pub fn forward_into(
        &mut self,
        stream: &Stream,
        x: &Tensor,
        splits: &Splits,
        options: ForwardOptions<'_>,
        y: &mut Tensor,
    ) -> Result<(Saved, Captured)> {
        let row_scales = match options.bias {
            BiasUse::RowScaled(scales) => Some(scales),
            BiasUse::Add | BiasUse::Leave => None,
        };
        let CallSpec { bias, needs, kernel } = (&options).into();
        let signature = vec![
            ("x", Part::tensor(Some(x))),
            ("splits", Part::tensor(splits.device_tensor())),
            ("row_scales", Part::tensor(row_scales)),
            ("y", Part::tensor(Some(y))),
            ("the use of the bias", Part::Bias(bias)),
            ("needs", Part::Needs(needs)),
            ("kernel", Part::Kernel(kernel)),
            ("the recipe", Part::recipe(options.recipe)),
        ];
        // Forward refuses nothing that is not in the signature.
        let mut contents = None;
        let begin = || {
            contents = options.recipe.and_then(|recipe| recipe.note_forward(needs.dw));
            Ok(())
        };
        if let Some(((_, saved), captured)) = replay(&self.forward, &signature, stream, begin)? {
            return Ok((saved.again(contents), captured));
        }
        let rows = x.shape().first().copied().unwrap_or(0);
        let target = stream.device().target();
        if let Some(why) =
            self.layer.unsupported_reason(target, rows, splits, &options, Execution::Captured)
        {
            return Err(Error::unsupported(why));
        }
        let layer = &self.layer;
        let ((_, saved), captured) = record(&mut self.forward, signature, stream, |stream| {
            let saved = layer.forward_into(stream, x, splits, options, y)?;
            Ok((y.clone(), saved))
        })?;
        Ok((saved.clone(), captured))
    }

    /// As [`GroupedLinear::backward_with`]; every gradient goes into a buffer, is skipped, or (that
    /// of the weights) is delayed, for [`CapturedLayer::run_delayed`].
    ///
    /// # Errors
    /// As [`GroupedLinear::backward_with`]; a gradient that would be a new tensor. Where gradients
    /// have been computed, and added to what accumulates, and the recording has failed, the error
    /// says so ([`Error::is_not_recorded`]).
    pub fn backward_with(
        &mut self,
        stream: &Stream,
        saved: &Saved,
        dy: &Tensor,
        mut options: BackwardOptions<'_>,
    ) -> Result<(SelectedGrads, Captured)> {
        let Saved {
            config, rows, needs, x, weights, bias, bias_row_scales, splits, kernel, ..
        } = saved;
        refuse_new(&options, saved)?;
        let (dw_way, dw) = match &options.dw {
            Wgrad::Now(sink) => (Way::of(sink), sink.buffer()),
            Wgrad::Delayed => (Way::Delayed, None),
            Wgrad::Skip => (Way::Skip, None),
        };
        let db = options.db.as_ref();
        let signature = vec![
            ("the layer that saved", Part::Sizes(*config, *rows)),
            ("dy", Part::tensor(Some(dy))),
            ("x", Part::tensors(x.iter().flat_map(Tokens::tensors))),
            ("weights", Part::weights(weights.as_ref())),
            ("bias", Part::groups(bias.as_ref())),
            ("row_scales", Part::tensor(bias_row_scales.as_ref())),
            ("splits", Part::tensor(splits.device_tensor())),
            ("dx", Part::tensor(options.dx.buffer())),
            ("dw", Part::groups(dw)),
            ("the sink of dw", Part::Sink(dw_way)),
            ("db", Part::groups(db.and_then(GradSink::buffer))),
            ("the sink of db", Part::Sink(db.map_or(Way::Skip, Way::of))),
            ("dscales", Part::tensor(options.dscales.buffer())),
            ("needs", Part::Needs(*needs)),
            ("kernel", Part::Kernel(*kernel)),
            ("the recipe", Part::recipe(saved.recipe.as_ref().or(saved.restore.as_ref()))),
        ];
        // No kernel reads what is left, and no gradient may lie over it; what has been kept may be
        // gone. All else that is refused is in the signature: what differs is not replayed, but
        // called, which refuses it.
        let wanted = wanted(saved, &options);
        let mut contents = [None, None];
        let begin = || {
            match (&saved.left, wanted) {
                (Some(_), _) => self.layer.check_sinks(stream, saved, Some(dy), &options)?,
                (None, [_, true]) => saved.check_contents()?,
                (None, [_, false]) => {}
            }
            contents = saved.note_backward(wanted);
            Ok(())
        };
        if let Some((grads, captured)) = replay(&self.backward, &signature, stream, begin)? {
            let mut grads = again(grads);
            grads.pending = grads.pending.map(|pending| match &saved.left {
                Some(_) => pending.in_buffers(contents).beside(self.layer.unkept(saved)),
                None => pending.in_buffers(contents),
            });
            return Ok((grads, captured));
        }
        let memory = saved.recipe.as_ref().or(saved.restore.as_ref());
        let memory = memory.filter(|_| wanted.contains(&true));
        refuse_unrecordable(stream, splits, memory)?;
        let layer = &self.layer;
        let (grads, captured) = record(&mut self.backward, signature, stream, |stream| {
            layer.backward_with(stream, saved.clone(), dy, options.reborrow())
        })?;
        Ok((again(grads), captured))
    }

    /// As [`PendingWgrad::run`], into a buffer.
    ///
    /// # Errors
    /// As [`PendingWgrad::run`]; [`GradSink::New`]. Where the gradient has been computed, so that
    /// `pending` has run, and the recording has failed, the error says so
    /// ([`Error::is_not_recorded`]).
    pub fn run_delayed(
        &mut self,
        stream: &Stream,
        pending: &mut PendingWgrad,
        mut sink: GradSink<'_>,
    ) -> Result<(GroupedTensor, Captured)> {
        if matches!(sink, GradSink::New) {
            return Err(needs_buffer("dw"));
        }
        let operands = pending.operands()?;
        let (dy, x, splits) = operands.tensors();
        let signature = vec![
            ("dy", Part::tensors(dy)),
            ("x", Part::tensors(x)),
            ("splits", Part::tensor(splits)),
            ("dw", Part::groups(sink.buffer())),
            ("the sink of dw", Part::Sink(Way::of(&sink))),
            ("kernel", Part::Kernel(operands.kernel())),
            ("the recipe", Part::Product(operands.rules())),
        ];
        let begin = || pending.check(&sink);
        if let Some((dw, captured)) = replay(&self.wgrad, &signature, stream, begin)? {
            pending.release();
            return Ok((dw.clone(), captured));
        }
        refuse_unrecordable(stream, operands.splits(), None)?;
        let mut again = pending.again();
        let mut first = true;
        let (dw, captured) = record(&mut self.wgrad, signature, stream, |stream| {
            let pending = if first { &mut *pending } else { &mut again };
            first = false;
            pending.run(stream, sink.reborrow())
        })?;
        Ok((dw.clone(), captured))
    }
}

/// The same gradients, of another run of the graph.
fn again(grads: &SelectedGrads) -> SelectedGrads {
    SelectedGrads {
        dx: grads.dx.clone(),
        dw: grads.dw.clone(),
        pending: grads.pending.as_ref().map(PendingWgrad::again),
        db: grads.db.clone(),
        dscales: grads.dscales.clone(),
    }
}

/// Launches the graph if it was recorded for this; before that, `begin` refuses what is in the way
/// and notes what will be written.
fn replay<'a, T>(
    recording: &'a Option<Recording<T>>,
    signature: &Signature,
    stream: &Stream,
    begin: impl FnOnce() -> Result<()>,
) -> Result<Option<(&'a T, Captured)>> {
    refuse_capture(stream)?;
    match recording {
        Some(recording) if recording.signature == *signature => {
            begin()?;
            recording.graph.launch(stream)?;
            Ok(Some((&recording.result, Captured::Replayed)))
        }
        _ => Ok(None),
    }
}

/// Does the work and, for the calls to come, records it.
fn record<'a, T>(
    slot: &'a mut Option<Recording<T>>,
    signature: Signature,
    stream: &Stream,
    mut work: impl FnMut(&Stream) -> Result<T>,
) -> Result<(&'a T, Captured)> {
    refuse_capture(stream)?;
    // Loads the kernels and sizes the scratch memory, neither of which can be recorded.
    drop(work(stream)?);
    let changed = slot.take().map(|old| difference(&old.signature, &signature));
    let mut result = None;
    let graph = stream.capture(|stream| {
        result = Some(work(stream)?);
        Ok(())
    });
    let graph = graph.map_err(Error::not_recorded)?;
    let Some(result) = result else {
        return Err(Error::invalid("nothing was recorded").not_recorded());
    };
    let recording = slot.insert(Recording { signature, graph, result });
    Ok((&recording.result, changed.map_or(Captured::First, Captured::Changed)))
}

/// Refuses a stream that is recording: a graph of ours can be neither made nor launched there.
fn refuse_capture(stream: &Stream) -> Result<()> {
    if !stream.queue().is_capturing() {
        return Ok(());
    }
    Err(Error::unsupported(
        "a CapturedLayer makes graphs of its own and cannot be recorded in another; record the \
         layer's own calls there",
    ))
}

/// Refuses, before anything is computed, what [`record`] could not record then.
fn refuse_unrecordable(
    stream: &Stream,
    splits: &Splits,
    recipe: Option<&LayerRecipe>,
) -> Result<()> {
    let (target, host_splits) = (stream.device().target(), splits.counts().is_some());
    match unrecordable(target, host_splits, recipe.map(LayerRecipe::spec)) {
        Some(why) => Err(Error::unsupported(why)),
        None => Ok(()),
    }
}

fn needs_buffer(gradient: &str) -> Error {
    Error::unsupported(format!(
        "{gradient} would be a new tensor, and nothing can be allocated in a graph; give a buffer, \
         or skip it"
    ))
}

/// Refuses gradients that would be allocated.
fn refuse_new(options: &BackwardOptions<'_>, saved: &Saved) -> Result<()> {
    let new = [
        ("dx", saved.weights.is_some() && matches!(options.dx, RowSink::New)),
        ("dw", saved.x.is_some() && matches!(options.dw, Wgrad::Now(GradSink::New))),
        ("db", saved.needs.db && matches!(options.db, Some(GradSink::New))),
        ("dscales", saved.bias.is_some() && matches!(options.dscales, RowSink::New)),
    ];
    new.into_iter()
        .find(|(_, new)| *new)
        .map_or(Ok(()), |(gradient, _)| Err(needs_buffer(gradient)))
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;
    use crate::backend::Device;
    use crate::tensor::DType;

    /// Whoever adds to a gradient must know whether to ask again.
    #[test]
    fn what_is_computed_but_not_recorded_says_so() -> Result<()> {
        let stream = Device::emulated(ptx_emulator::Arch::Sm90a)?.stream()?;
        let mut slot: Option<Recording<Tensor>> = None;
        // Not in a graph; elsewhere it is done.
        let allocate = |stream: &Stream| Tensor::zeros(stream, &[8], DType::F32);
        let mut runs = 0;
        let outcome = record(&mut slot, Signature::new(), &stream, |stream| {
            runs += 1;
            allocate(stream)
        });
        let error = outcome.map(drop).expect_err("nothing can be allocated in a graph");
        assert_eq!(runs, 2);
        assert!(error.is_not_recorded() && !error.is_unsupported(), "{error:?}");
        assert!(
            error.to_string().starts_with("what was asked for is computed, but not"),
            "{error}"
        );

        let in_pipeline = error.in_operation(1, "captured");
        assert!(in_pipeline.is_not_recorded() && !in_pipeline.is_unsupported());

        let refused = |_: &Stream| Err(Error::invalid("refused"));
        let error = record(&mut slot, Signature::new(), &stream, refused).map(drop).unwrap_err();
        assert!(!error.is_not_recorded() && error.is_invalid_argument(), "{error:?}");
        assert!(slot.is_none());
        Ok(())
    }
}
