//! Graphs over a recipe's buffers: replays that come after what they read is gone, and forward and
//! backward in a graph each.

use grouped_linear::recipe::{BlockScaling, CurrentScaling, Recipe};
use grouped_linear::{
    BackwardPrecision, Captured, CapturedLayer, Device, GradSink, PendingWgrad, Saved, Stream,
};

use super::step::{Step, When, compare};
use super::variants::Variant;
use super::{SMALL, SMALL_SPLITS};
use crate::device::{Inputs, Layout, grouped_bits, tensor_bits, untouched};
use crate::{Check, Outcome};

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, recipe) in [
        ("current", Recipe::Current(CurrentScaling::default())),
        ("block", Recipe::Block(BlockScaling::default())),
    ] {
        for backward in [BackwardPrecision::Recipe, BackwardPrecision::Dequantized] {
            let variant = Variant { backward, ..Variant::new(name, recipe, Layout::Packed) };
            let name = format!("recipes: replays of what is gone are refused, {variant}");
            checks.push(Check::new(name, move |device| replays(device, &variant)));
            let name = format!("recipes: forward and backward in a graph each, {variant}");
            checks.push(Check::new(name, move |device| graph_each(device, &variant)));
        }
    }
    checks
}

/// A layer whose calls are recorded.
struct Recorded {
    step: Step,
    captured: CapturedLayer,
}

impl Recorded {
    fn forward(&mut self, stream: &Stream) -> grouped_linear::Result<(Saved, Captured)> {
        let mut outputs = self.step.outputs.share();
        let (options, Inputs { x, splits, .. }) = (self.step.forward_options(), &self.step.inputs);
        self.captured.forward_into(stream, x, splits, options, &mut outputs.y)
    }

    fn backward(
        &mut self,
        stream: &Stream,
        saved: &Saved,
    ) -> grouped_linear::Result<(PendingWgrad, Captured)> {
        let mut outputs = self.step.outputs.share();
        let options = self.step.backward_options(&mut outputs, When::Later);
        let dy = &self.step.inputs.dy;
        let (grads, did) = self.captured.backward_with(stream, saved, dy, options)?;
        Ok((grads.pending.expect("it was delayed"), did))
    }

    fn wgrad(
        &mut self,
        stream: &Stream,
        pending: &mut PendingWgrad,
    ) -> grouped_linear::Result<Captured> {
        let mut outputs = self.step.outputs.share();
        let sink = GradSink::Overwrite(&mut outputs.dw);
        Ok(self.captured.run_delayed(stream, pending, sink)?.1)
    }
}

/// One in a recipe's buffers, and one that allocates what it needs.
fn steps(stream: &Stream, variant: &Variant) -> grouped_linear::Result<(Step, Step)> {
    let mut step = Step::new(stream, variant, SMALL)?;
    let buffers = step.buffers(stream)?;
    step.recipe = step.recipe.with_buffers(buffers);
    Ok((step, Step::new(stream, variant, SMALL)?))
}

/// What was replayed last is right; what it has written over is refused, and nothing is written.
fn replays(device: &Device, variant: &Variant) -> Outcome {
    let stream = device.stream()?;
    let (step, mut eager) = steps(&stream, variant)?;
    let captured = CapturedLayer::new(step.inputs.layer.clone());
    let mut own = Recorded { step, captured };
    for (turn, splits) in SMALL_SPLITS.iter().enumerate() {
        let want = if turn == 0 { Captured::First } else { Captured::Replayed };
        // Backward of what an earlier call has recorded or replayed, and that a later one, replayed
        // or the layer's own, has written over.
        own.step.write(&stream, &SMALL_SPLITS[1], 70)?;
        let (gone, _) = own.forward(&stream)?;
        for step in [&mut own.step, &mut eager] {
            step.write(&stream, splits, 60 + turn as u64)?;
        }
        let (saved, _) = own.forward(&stream)?;
        refused("backward", own.backward(&stream, &gone))?;
        untouched("dx", &tensor_bits(&stream, &own.step.outputs.dx)?, SMALL.dtype)?;
        untouched("db", &grouped_bits(&stream, &own.step.outputs.db)?, SMALL.dtype)?;

        let (mut late, _) = own.backward(&stream, &saved)?;
        let (mut pending, did) = own.backward(&stream, &saved)?;
        if did != Captured::Replayed {
            return Err(format!("a second backward: {did:?}").into());
        }
        refused("the gradient of the weights", own.wgrad(&stream, &mut late))?;
        untouched("dw", &grouped_bits(&stream, &own.step.outputs.dw)?, SMALL.dtype)?;
        let did = own.wgrad(&stream, &mut pending)?;
        if late.has_run() || !pending.has_run() || did != want {
            return Err(format!("the gradient of the weights: {did:?}").into());
        }
        eager.microbatch(&stream)?;
        compare(&stream, &format!("turn {turn}"), &own.step.outputs, &eager.outputs)?;

        own.step.microbatch(&stream)?;
        refused("behind the layer's own call", own.backward(&stream, &saved))?;
    }
    Ok(stream.synchronize()?)
}

/// Calls count when they are recorded, so what follows in its graph is not refused.
fn graph_each(device: &Device, variant: &Variant) -> Outcome {
    let stream = device.stream()?;
    let (mut step, mut eager) = steps(&stream, variant)?;
    for step in [&mut step, &mut eager] {
        step.write(&stream, &SMALL_SPLITS[0], 60)?;
        step.microbatch(&stream)?;
    }
    let mut outputs = step.outputs.share();
    let Inputs { layer, x, dy, splits, .. } = &step.inputs;
    let (mut saved, mut pending) = (None, None);
    let forward = stream.capture(|stream| {
        let options = step.forward_options();
        saved = Some(layer.forward_into(stream, x, splits, options, &mut outputs.y)?);
        Ok(())
    })?;
    let saved = saved.ok_or("nothing was saved")?;
    let backward = stream.capture(|stream| {
        let options = step.backward_options(&mut outputs, When::Later);
        pending = layer.backward_with(stream, saved, dy, options)?.pending;
        Ok(())
    })?;
    let mut pending = pending.ok_or("no pending gradient")?;
    let wgrad = stream
        .capture(|stream| pending.run(stream, GradSink::Overwrite(&mut outputs.dw)).map(drop))?;
    for (turn, splits) in SMALL_SPLITS.iter().enumerate() {
        for step in [&mut step, &mut eager] {
            step.write(&stream, splits, 80 + turn as u64)?;
        }
        eager.microbatch(&stream)?;
        for graph in [&forward, &backward, &wgrad] {
            graph.launch(&stream)?;
        }
        compare(&stream, &format!("turn {turn}"), &step.outputs, &eager.outputs)?;
    }
    Ok(stream.synchronize()?)
}

fn refused<T>(what: &str, outcome: grouped_linear::Result<T>) -> Outcome {
    match outcome {
        Err(error) if error.is_invalid_argument() && error.to_string().contains("gone") => Ok(()),
        Err(error) => Err(format!("{what}: {error}").into()),
        Ok(_) => Err(format!("{what} was not refused").into()),
    }
}
