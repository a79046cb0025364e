//! Backward: gradients of input, weights and bias.

use super::GroupedLinear;
use super::delayed::PendingWgrad;
use super::functional::{DbiasArgs, DbiasSink, DscalesArgs, dbias, dscales};
use super::low_precision::LayerRecipe;
use super::operands::{OutputGradient, WgradOperands, check_product};
use super::saved::{Saved, not_saved, operand};
use super::sink::{GradSink, RowSink, Wgrad};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::{Overlaps, Pass, Plan, Unkept};
use crate::recipe::Role;
use crate::tensor::{GroupedTensor, Tensor};

/// Gradients of one forward call.
#[derive(Clone, Debug)]
pub struct Grads {
    /// Of the input, `[T, K]`; rows at and beyond `Σ m_g` are unspecified.
    pub dx: Tensor,
    /// Of the weights, `[N, K]` per group, packed in one tensor; zeros for groups without rows.
    pub dw: GroupedTensor,
    /// Of the bias, `[N]` per group, packed; zeros for groups without rows. `None` where forward
    /// added no bias, or was told that its gradient is not needed.
    pub db: Option<GroupedTensor>,
    /// Of the bias row scales, FP32 `[T]`; rows at and beyond `Σ m_g` are unspecified. `None` where
    /// forward had none, or was told that their gradient is not needed.
    pub dscales: Option<Tensor>,
}

/// Which gradients backward computes, and where they go. By default: all that forward was told are
/// needed, in new tensors.
#[derive(Debug)]
pub struct BackwardOptions<'a> {
    /// Of the tokens, `[T, K]`, in any type that the pass can write; new ones have the layer's.
    pub dx: RowSink<'a>,
    /// Of the weights.
    pub dw: Wgrad<'a>,
    /// Of the bias; `None` computes none.
    pub db: Option<GradSink<'a>>,
    /// Of the row scales of the bias, FP32 `[T]`.
    pub dscales: RowSink<'a>,
}

impl Default for BackwardOptions<'_> {
    fn default() -> Self {
        let (dw, db) = (Wgrad::default(), Some(GradSink::New));
        Self { dx: RowSink::New, dw, db, dscales: RowSink::New }
    }
}

impl BackwardOptions<'_> {
    /// The same options, for a shorter time.
    pub(super) fn reborrow(&mut self) -> BackwardOptions<'_> {
        BackwardOptions {
            dx: self.dx.reborrow(),
            dw: match &mut self.dw {
                Wgrad::Now(sink) => Wgrad::Now(sink.reborrow()),
                Wgrad::Delayed => Wgrad::Delayed,
                Wgrad::Skip => Wgrad::Skip,
            },
            db: self.db.as_mut().map(GradSink::reborrow),
            dscales: self.dscales.reborrow(),
        }
    }
}

/// The gradients that [`BackwardOptions`] ask for. Where the caller gave a buffer, this is a handle
/// to it.
#[derive(Debug, Default)]
pub struct SelectedGrads {
    /// Of the tokens, `[T, K]`.
    pub dx: Option<Tensor>,
    /// Of the weights, `[N, K]` per group.
    pub dw: Option<GroupedTensor>,
    /// The gradient of the weights, still to be computed.
    pub pending: Option<PendingWgrad>,
    /// Of the bias, `[N]` per group.
    pub db: Option<GroupedTensor>,
    /// Of the row scales of the bias, FP32 `[T]`.
    pub dscales: Option<Tensor>,
}

impl GroupedLinear {
    /// Gradients for the output gradient `dy [T, N]`, in new tensors. Input and parameters are kept
    /// as handles, so they must still hold what forward saw.
    ///
    /// Discrete parameters get gradients that are views of one packed tensor
    /// ([`GroupedTensor::group`]).
    ///
    /// # Errors
    /// `dy` does not fit; forward was told that a gradient of the tokens or of the weights is not
    /// needed; a later call has written over the tokens in the recipe's
    /// [`RecipeBuffers`](crate::RecipeBuffers); out of memory; a driver failure.
    pub fn backward(&self, stream: &Stream, saved: Saved, dy: &Tensor) -> Result<Grads> {
        operand(&saved.weights, "dx")?;
        operand(&saved.x, "dw")?;
        let grads = self.backward_with(stream, saved, dy, BackwardOptions::default())?;
        let SelectedGrads { dx: Some(dx), dw: Some(dw), db, dscales, .. } = grads else {
            return Err(not_saved("dx or dw"));
        };
        Ok(Grads { dx, dw, db, dscales })
    }

    /// The gradients that `options` ask for. Shapes, types, devices, alignment and overlaps of all
    /// buffers, what forward saved, and the kernels of all products, delayed ones included, are
    /// checked before anything is written, histories and random states of a recipe among it.
    ///
    /// # Errors
    /// `dy` or a buffer does not fit, buffers overlap each other, what is read or a parameter; a
    /// gradient that forward was told is not needed goes into a buffer or shall be computed later;
    /// a pass does not have the kernel that forward was asked for; another layer saved; the
    /// gradient of the weights is asked for, and a later call has written over the tokens in the
    /// recipe's [`RecipeBuffers`](crate::RecipeBuffers); out of memory; a driver failure.
    pub fn backward_with(
        &self,
        stream: &Stream,
        saved: Saved,
        dy: &Tensor,
        options: BackwardOptions<'_>,
    ) -> Result<SelectedGrads> {
        let config = self.config;
        self.check_sinks(stream, &saved, Some(dy), &options)?;
        let (rows, mut grads) = (saved.rows, SelectedGrads::default());
        let mut options = options;

        // Before the first launch, since what is new may find no memory.
        let [dx, dw] = wanted(&saved, &options);
        let later = matches!(options.dw, Wgrad::Delayed);
        if dx {
            grads.dx = options.dx.open(stream, &config.input(rows))?;
        }
        let dw_sink = match options.dw {
            Wgrad::Now(sink) if dw => Some(sink.open(stream, &config.weights())?),
            _ => None,
        };
        if let Some(bias) = &saved.bias {
            let spec = config.dscales(rows, bias.dtype()).output();
            grads.dscales = options.dscales.open(stream, &spec)?;
        }
        let mut dbias_sink = None;
        let own = self.bias.as_ref().filter(|_| saved.needs.db);
        if let (Some(own), Some(sink)) = (own, options.db.take()) {
            let spec = config.dbias(rows, own.dtype()).output();
            let (db, accumulate) = sink.open(stream, &spec)?;
            grads.db = Some(db.clone());
            dbias_sink = Some((db, accumulate));
        }

        // Where a buffer that is given later may not lie, either.
        let unkept = later.then(|| self.unkept(&saved));
        // From here on what earlier calls have left in the recipe's buffers may be gone.
        let contents = saved.note_backward([dx, dw]);
        // What may find no memory, before histories, random states and sums move.
        let saved = saved.for_backward(stream, [dx, dw])?;
        let quantized = match &saved.recipe {
            Some(recipe) if dx || dw => {
                Some((recipe, recipe.open(stream, Role::GradOutput, rows, [dx, dw])?))
            }
            _ => None,
        };
        // What is quantized is read once, so that is where the gradient of the bias is summed.
        let fused = quantized.is_some() && saved.bias_row_scales.is_none();
        let (splits, kernel) = (&saved.splits, saved.kernel);
        // Outlives what is handed over at the end, which reads it.
        let mut gradient = OutputGradient::Plain(dy);
        stream.together(|| {
            if let Some((recipe, room)) = quantized {
                let on_the_way = dbias_sink.as_mut().filter(|_| fused);
                let on_the_way =
                    on_the_way.map(|(db, accumulate)| DbiasSink { db, accumulate: *accumulate });
                gradient =
                    OutputGradient::quantized(stream, recipe, (dy, splits), room, on_the_way)?;
            }
            stream.next_stage();
            if let (Some(weights), Some(dx)) = (&saved.weights, &mut grads.dx) {
                gradient.dgrad(stream, weights, splits, kernel, dx)?;
            }
            if let (false, Some((mut db, accumulate))) = (fused, dbias_sink) {
                let row_scales = saved.bias_row_scales.as_ref();
                dbias(stream, &DbiasArgs { dy, splits, row_scales, accumulate }, &mut db)?;
            }
            if let (Some(bias), Some(gradient)) = (&saved.bias, &mut grads.dscales) {
                dscales(stream, &DscalesArgs { dy, bias, splits }, gradient)?;
            }
            // Last, since it may need more scratch memory than all others.
            if let (true, Some(x)) = (dw, &saved.x) {
                let operands = WgradOperands::new(x.clone(), &gradient, splits.clone(), kernel)?;
                let operands = operands.in_buffers(contents);
                if let Some((mut dw, accumulate)) = dw_sink {
                    operands.compute(stream, accumulate, &mut dw)?;
                    grads.dw = Some(dw);
                }
                grads.pending = unkept.map(|unkept| PendingWgrad::new(config, operands, unkept));
            }
            Ok(())
        })?;
        Ok(grads)
    }

    /// What no gradient may be written over but activations: memory of the recipe, and parameters.
    /// Those that no gradient needs, too: one written over them would ruin the layer.
    fn to_be_left<'a>(&'a self, saved: &'a Saved) -> impl Iterator<Item = &'a Tensor> {
        let memory = saved.recipes().flat_map(LayerRecipe::memory);
        saved.parameters().into_iter().chain(self.parameters()).chain(memory)
    }

    /// The same, with what backward does not need, for as long as it exists.
    pub(super) fn unkept(&self, saved: &Saved) -> Unkept {
        saved.left.clone().unwrap_or_default().and(self.to_be_left(saved))
    }

    /// Refuses what would be refused half-way. Without `dy`, which does not exist yet, that it fits
    /// is for later to say.
    pub(crate) fn check_sinks(
        &self,
        stream: &Stream,
        saved: &Saved,
        dy: Option<&Tensor>,
        options: &BackwardOptions<'_>,
    ) -> Result<()> {
        check_origin(self, saved)?;
        let config = &self.config;
        if let Some(dy) = dy {
            let output = config.output(saved.rows);
            dy.check("dy", &output.shape, output.dtype, stream)?;
        }
        let mut overlaps = Overlaps::default();
        overlaps.read(dy);
        overlaps.read(saved.activations());
        overlaps.read(self.to_be_left(saved));
        saved.left.iter().for_each(|left| overlaps.read_unkept(left));

        if let RowSink::Into(dx) = &options.dx {
            operand(&saved.weights, "dx")?;
            let input = config.input(saved.rows);
            dx.check("dx", &input.shape, dx.dtype(), stream)?;
            overlaps.write([&**dx]);
        }
        match &options.dw {
            Wgrad::Now(sink) => {
                if let Some(dw) = sink.buffer() {
                    operand(&saved.x, "dw")?;
                    dw.check_packed("dw", &config.weights(), stream)?;
                    overlaps.write(dw.tensors());
                }
            }
            Wgrad::Delayed => operand(&saved.x, "dw").map(drop)?,
            Wgrad::Skip => {}
        }
        if let Some(db) = options.db.as_ref().and_then(GradSink::buffer) {
            if !saved.needs.db {
                return Err(not_saved("db"));
            }
            let problem = config.dbias(saved.rows, db.dtype());
            db.check_packed("db", &problem.output(), stream)?;
            Plan::new(problem, stream.device().target())?;
            overlaps.write(db.tensors());
        }
        if let RowSink::Into(gradient) = &options.dscales {
            let bias = operand(&saved.bias, "dscales")?;
            let want = config.dscales(saved.rows, bias.dtype()).output();
            gradient.check("dscales", &want.shape, want.dtype, stream)?;
            overlaps.write([&**gradient]);
        }
        overlaps.check()?;
        for tensor in saved.activations().into_iter().chain(saved.parameters()) {
            tensor.check_device("what forward saved", stream)?;
        }
        // Wherever they go, and whenever they are computed: when a product is launched, the output
        // gradient has been quantized, and the gradient of the bias summed.
        let [has_dx, has_dw] = wanted(saved, options);
        if has_dx {
            let dx = options.dx.buffer().map_or(&[][..], std::slice::from_ref);
            check_product(stream, saved, Pass::Dgrad, dy, dx)?;
        }
        if has_dw {
            saved.check_contents()?;
            let dw = match &options.dw {
                Wgrad::Now(sink) => sink.buffer().map_or(&[][..], GroupedTensor::tensors),
                Wgrad::Delayed | Wgrad::Skip => &[],
            };
            check_product(stream, saved, Pass::Wgrad, dy, dw)?;
        }
        Ok(())
    }
}

/// Whether there are gradients of the tokens and of the weights.
pub(super) fn wanted(saved: &Saved, options: &BackwardOptions<'_>) -> [bool; 2] {
    let dx = saved.weights.is_some() && !matches!(options.dx, RowSink::Skip);
    let dw = saved.x.is_some() && !matches!(options.dw, Wgrad::Skip);
    [dx, dw]
}

/// Refuses what another layer saved: gradients would have its shapes, or silently be left out.
fn check_origin(layer: &GroupedLinear, saved: &Saved) -> Result<()> {
    if saved.config == layer.config && (layer.bias.is_some() || !saved.needs.db) {
        return Ok(());
    }
    Err(Error::invalid(
        "what was saved for backward comes from a layer of other sizes, or with a bias; pass it to \
         the layer whose forward gave it",
    ))
}
