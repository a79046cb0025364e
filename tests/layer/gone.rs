//! What forward or backward has put into a recipe's buffers for later, and another call has written
//! over: it is refused, and only then.

use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::{
    BlockScaling, CurrentScaling, Mxfp8Scaling, Nvfp4Scaling, Recipe, Role,
};
use grouped_linear::{
    BackwardOptions, BackwardPrecision, DType, DeviceKind, Error, ForwardOptions, GradSink,
    GroupedTensor, LayerRecipe, Needs, ParamLayout, PendingWgrad, QuantizedSpec, QuantizedTensor,
    RecipeBuffers, Result, RowSink, SavePolicy, Saved, SourceShape, Splits, Stream, Tensor, Wgrad,
};

use crate::engines::Test;
use crate::exact::{read, same};
use crate::recipes::{GROUPS, K, LIVE, Model, N, ROWS};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes: tokens that another call has written over", |e, s| written_over(s).expect(e)),
    ("recipes: tokens that no other call has written over", |e, s| left_alone(s).expect(e)),
    ("recipes: a delayed gradient of what is gone", |e, s| delayed(s).expect(e)),
];

/// What no refused call changes.
const HELD: f32 = 7.0;
const KEPT: [&str; 2] = ["the tokens that forward kept are gone", "before the next call in"];
const PENDING: [&str; 2] =
    ["what this gradient of the weights reads is gone", "before the next forward or backward in"];
const NO_DW: Needs = Needs { dx: true, dw: false, db: true, dscales: true };

/// Whether the two copies of tokens share their scales, too.
fn recipes() -> [(&'static str, Recipe, bool); 4] {
    let nvfp4 = Nvfp4Scaling { stochastic_gradients: false, ..Nvfp4Scaling::default() };
    [
        ("current", Recipe::Current(CurrentScaling::default()), true),
        ("block", Recipe::Block(BlockScaling::default()), false),
        ("mxfp8", Recipe::Mxfp8(Mxfp8Scaling::default()), false),
        ("nvfp4", Recipe::Nvfp4(nvfp4), false),
    ]
}

/// A layer, other tokens for it, and a recipe with buffers.
struct Case {
    model: Model,
    other: Tensor,
    recipe: LayerRecipe,
    /// The gradients of tokens and weights for the model's own tokens.
    want: [Vec<f32>; 2],
}

impl Case {
    fn new(
        stream: &Stream,
        recipe: Recipe,
        save: SavePolicy,
        backward: BackwardPrecision,
    ) -> Result<Self> {
        let model = Model::new(stream, DType::Bf16, 31)?;
        let other = Model::new(stream, DType::Bf16, 32)?.x;
        let recipe = model.recipe(stream, recipe)?.with_save(save)?.with_backward(backward)?;
        let buffers = RecipeBuffers::new(stream, &recipe, ROWS)?;
        let mut case = Self { model, other, recipe: recipe.clone(), want: Default::default() };
        let saved = case.first(stream)?;
        case.want = case.gradients(stream, saved)?;
        case.recipe = recipe.with_buffers(buffers);
        Ok(case)
    }

    fn forward(
        &self,
        stream: &Stream,
        x: &Tensor,
        recipe: &LayerRecipe,
        needs: Needs,
    ) -> Result<Saved> {
        let options = ForwardOptions { recipe: Some(recipe), needs, ..ForwardOptions::default() };
        Ok(self.model.layer.forward(stream, x, &self.model.splits, options)?.1)
    }

    fn first(&self, stream: &Stream) -> Result<Saved> {
        self.forward(stream, &self.model.x, &self.recipe, Needs::default())
    }

    fn second(&self, stream: &Stream, needs: Needs) -> Result<Saved> {
        self.forward(stream, &self.other, &self.recipe, needs)
    }

    fn gradients(&self, stream: &Stream, saved: Saved) -> Result<[Vec<f32>; 2]> {
        let grads = self.model.layer.backward(stream, saved, &self.model.dy)?;
        Ok([grads.dx.to_f32(stream)?[..LIVE * K].to_vec(), read(stream, &grads.dw)?])
    }

    #[track_caller]
    fn is_right(&self, stream: &Stream, what: &str, saved: Saved) -> Result<()> {
        let got = self.gradients(stream, saved)?;
        same(format!("{what}: dx"), &got[0], &self.want[0]);
        same(format!("{what}: dw"), &got[1], &self.want[1]);
        Ok(())
    }

    /// Nothing has been written, and what needs no tokens is computed all the same.
    #[track_caller]
    fn is_gone(&self, stream: &Stream, what: &str, saved: Saved) -> Result<()> {
        let Model { layer, dy, .. } = &self.model;
        let error = layer.backward(stream, saved.clone(), dy).expect_err(what);
        says(what, &error, KEPT);
        let mut dx = Tensor::from_f32(stream, &[ROWS, K], DType::Bf16, &[HELD; ROWS * K])?;
        let (mut dw, mut db) = (held(stream, &[N, K])?, held(stream, &[N])?);
        for later in [false, true] {
            let now = Wgrad::Now(GradSink::Accumulate(&mut dw));
            let options = BackwardOptions {
                dx: RowSink::Into(&mut dx),
                dw: if later { Wgrad::Delayed } else { now },
                db: Some(GradSink::Accumulate(&mut db)),
                dscales: RowSink::Skip,
            };
            let outcome = layer.backward_with(stream, saved.clone(), dy, options);
            says(what, &outcome.expect_err(what), KEPT);
        }
        let values = [dx.to_f32(stream)?, read(stream, &dw)?, read(stream, &db)?].concat();
        assert!(values.iter().all(|&value| value == HELD), "{what}: written");
        let options = BackwardOptions { dw: Wgrad::Skip, ..BackwardOptions::default() };
        let dx = layer.backward_with(stream, saved, dy, options)?.dx.expect(what);
        same(format!("{what}: dx"), &dx.to_f32(stream)?[..LIVE * K], &self.want[0]);
        Ok(())
    }

    /// The gradient of the weights for another `dy`, to be computed later.
    fn pending(&self, stream: &Stream, saved: &Saved, dy: &Tensor) -> Result<PendingWgrad> {
        let options = BackwardOptions { dw: Wgrad::Delayed, ..BackwardOptions::default() };
        let grads = self.model.layer.backward_with(stream, saved.clone(), dy, options)?;
        Ok(grads.pending.expect("it was asked for"))
    }

    /// Runs what comes between a backward and its delayed gradient, which is refused or right then.
    #[track_caller]
    fn delayed(
        &self,
        stream: &Stream,
        what: &str,
        between: impl FnOnce(&Saved) -> Result<()>,
        refused: bool,
    ) -> Result<()> {
        let saved = self.first(stream)?;
        let mut pending = self.pending(stream, &saved, &self.model.dy)?;
        between(&saved)?;
        if !refused {
            let dw = read(stream, &pending.run(stream, GradSink::New)?)?;
            same(format!("{what}: dw"), &dw, &self.want[1]);
            return Ok(());
        }
        let mut dw = held(stream, &[N, K])?;
        let error = pending.run(stream, GradSink::Accumulate(&mut dw)).expect_err(what);
        says(what, &error, PENDING);
        assert!(!pending.has_run() && pending.bytes() > 0, "{what}");
        assert!(read(stream, &dw)?.iter().all(|&value| value == HELD), "{what}: written");
        Ok(())
    }
}

fn held(stream: &Stream, shape: &[usize]) -> Result<GroupedTensor> {
    let values = vec![HELD; GROUPS * shape.iter().product::<usize>()];
    GroupedTensor::from_f32(stream, ParamLayout::Packed, GROUPS, shape, DType::F32, &values)
}

#[track_caller]
fn says(what: &str, error: &Error, parts: [&str; 2]) {
    let message = error.to_string();
    assert!(error.is_invalid_argument(), "{what}: {message}");
    for part in parts.into_iter().chain(["RecipeBuffers", "buffers of its own"]) {
        assert!(message.contains(part), "{what}: {message}");
    }
}

/// By forwards that share the buffers, be they of a clone of the recipe, or by a backward.
fn written_over(stream: &Stream) -> Result<()> {
    for (name, recipe, shares) in recipes() {
        for backward in [BackwardPrecision::Recipe, BackwardPrecision::Dequantized] {
            let what = format!("{name}, {backward:?}");
            let case = Case::new(stream, recipe, SavePolicy::Quantized, backward)?;
            let (first, second) = (case.first(stream)?, case.second(stream, Needs::default())?);
            case.is_gone(stream, &what, first.clone())?;
            // The second one's backward neither suffers nor brings the first one's tokens back.
            drop(case.gradients(stream, second)?);
            case.is_gone(stream, &what, first)?;

            // One that keeps nothing writes the rowwise copy all the same, and scales.
            let first = case.first(stream)?;
            let high = case.recipe.clone().with_backward(BackwardPrecision::High)?;
            drop(case.forward(stream, &case.other, &high, NO_DW)?);
            match shares || backward == BackwardPrecision::Dequantized {
                true => case.is_gone(stream, &what, first)?,
                false => case.is_right(stream, &what, first)?,
            }
        }
        let case = Case::new(stream, recipe, SavePolicy::Quantized, BackwardPrecision::Recipe)?;
        let original = case.recipe.clone().with_save(SavePolicy::Original)?;
        let second = case.forward(stream, &case.other, &original, Needs::default())?;
        let first = case.first(stream)?;
        // It quantizes its tokens again.
        drop(case.gradients(stream, second)?);
        case.is_gone(stream, name, first)?;
    }
    Ok(())
}

/// What is kept elsewhere, or not written by what comes between.
fn left_alone(stream: &Stream) -> Result<()> {
    for (name, recipe, _) in recipes() {
        // Tokens as they are.
        for (save, backward) in [
            (SavePolicy::Original, BackwardPrecision::Recipe),
            (SavePolicy::Quantized, BackwardPrecision::High),
        ] {
            let case = Case::new(stream, recipe, save, backward)?;
            let first = case.first(stream)?;
            let second = case.second(stream, Needs::default())?;
            drop(case.gradients(stream, second)?);
            case.is_right(stream, &format!("{name}, {save:?}, {backward:?}"), first)?;
        }
        for backward in [BackwardPrecision::Recipe, BackwardPrecision::Dequantized] {
            let what = format!("{name}, {backward:?}");
            let case = Case::new(stream, recipe, SavePolicy::Quantized, backward)?;
            let first = case.first(stream)?;
            // Several backwards of one forward.
            case.is_right(stream, &what, first.clone())?;
            case.is_right(stream, &what, first.clone())?;
            // In buffers of their own.
            let buffers = RecipeBuffers::new(stream, &case.recipe, ROWS)?;
            let other = case.recipe.clone().with_buffers(buffers);
            let second = case.forward(stream, &case.other, &other, Needs::default())?;
            drop(case.gradients(stream, second)?);
            case.is_right(stream, &what, first.clone())?;
            refused(stream, &case)?;
            case.is_right(stream, &what, first.clone())?;
            prequantized(stream, &case)?;
            case.is_right(stream, &what, first)?;
        }
    }
    Ok(())
}

/// Forwards that are refused before they write.
fn refused(stream: &Stream, case: &Case) -> Result<()> {
    let Model { layer, x, splits, .. } = &case.model;
    let options = ForwardOptions { recipe: Some(&case.recipe), ..ForwardOptions::default() };
    let fewer = x.narrow(0, ROWS - 1)?;
    assert!(layer.forward(stream, &fewer, splits, options).is_err(), "other rows");
    let more = Splits::host(&[ROWS, 1, 0])?;
    assert!(layer.forward(stream, x, &more, options).is_err(), "too many rows");
    if stream.device().id().kind == DeviceKind::Cpu {
        return Ok(());
    }
    let ones = Tensor::from_f32(stream, &[ROWS * K + 1], DType::Bf16, &[1.0; ROWS * K + 1])?;
    let misplaced = ones.narrow(1, ROWS * K)?.reshape(&[ROWS, K])?;
    assert!(layer.forward(stream, &misplaced, splits, options).is_err(), "misplaced");
    Ok(())
}

/// A forward of tokens that are quantized already.
fn prequantized(stream: &Stream, case: &Case) -> Result<()> {
    let Model { layer, splits, .. } = &case.model;
    let spec = QuantizedSpec {
        groups: GROUPS,
        source: SourceShape::Tokens { rows: ROWS, features: K },
        format: case.recipe.recipe().format(Role::Input),
        rowwise: Some(case.recipe.form()),
        columnwise: Some(case.recipe.form()),
    };
    let mut x = QuantizedTensor::empty(stream, spec)?;
    let source = QuantizeSource::Tokens(&case.other, splits);
    quantize(stream, QuantizeArgs::new(source), &mut x)?;
    let options = ForwardOptions { recipe: Some(&case.recipe), ..ForwardOptions::default() };
    layer.forward_prequantized(stream, &x, splits, options).map(drop)
}

/// It reads tokens and the output gradient, each where the recipe has put it.
fn delayed(stream: &Stream) -> Result<()> {
    use BackwardPrecision::{Dequantized, High, Recipe as Own};
    use SavePolicy::{Original, Quantized};
    for (name, recipe, shares) in recipes() {
        for (save, backward, forward, no_dw, again, dx_alone) in [
            // Refused behind another forward; one without the gradient of the weights; another
            // backward; one of the tokens alone.
            (Quantized, Own, true, shares, true, shares),
            (Original, Own, shares, shares, true, shares),
            // The restored tokens stay until others are restored.
            (Quantized, Dequantized, false, false, true, false),
            (Quantized, High, false, false, false, false),
        ] {
            let case = Case::new(stream, recipe, save, backward)?;
            let what = |between| format!("{name}, {save:?}, {backward:?}, {between}");
            let nothing = |_: &Saved| Ok(());
            case.delayed(stream, &what("nothing"), nothing, false)?;
            let second = |needs| {
                let case = &case;
                move |_: &Saved| case.second(stream, needs).map(drop)
            };
            case.delayed(stream, &what("forward"), second(Needs::default()), forward)?;
            case.delayed(stream, &what("forward for dx"), second(NO_DW), no_dw)?;
            let twice = Tensor::from_f32(stream, &[ROWS, N], DType::Bf16, &[0.5; ROWS * N])?;
            let between = |saved: &Saved| case.pending(stream, saved, &twice).map(drop);
            case.delayed(stream, &what("backward"), between, again)?;
            let between = |saved: &Saved| {
                let options = BackwardOptions { dw: Wgrad::Skip, ..BackwardOptions::default() };
                let saved = saved.clone();
                case.model.layer.backward_with(stream, saved, &twice, options).map(drop)
            };
            case.delayed(stream, &what("backward of dx"), between, dx_alone)?;
        }
    }
    Ok(())
}
