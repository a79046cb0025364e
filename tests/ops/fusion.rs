//! A rule that a program adds: layer, relu, layer in one stage.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grouped_linear::ops::{
    AnySaved, BackwardArguments, Decision, ForwardArguments, Function, FusedStage, FusionRule,
    Gradient, Gradients, Inputs, Kept, Passes, SavedState, Selection, SequencePass, Sequential,
    Sink, Sinks, StageKind, Window, names,
};
use grouped_linear::plan::Execution;
use grouped_linear::{DType, Error, GroupedLinear, Result, Saved, Splits, Stream, Tensor};

use crate::engines::Test;
use crate::pipeline::Mlp;
use crate::relu::{Output, Relu};
use crate::{ROWS, SPLITS};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a fusion of both passes gives the same results", |e, s| same(s, Passes::Both).expect(e)),
    ("a fusion of forward gives the same results", |e, s| same(s, Passes::Forward).expect(e)),
    ("a fusion of backward gives the same results", |e, s| same(s, Passes::Backward).expect(e)),
    ("a refused fusion falls to the operations", |e, s| refused(s).expect(e)),
    ("a fused backward that cannot fill a buffer falls to the operations", |e, s| {
        falls_back(s).expect(e)
    }),
    ("a fused forward keeps nothing for frozen operations", |e, s| frozen(s).expect(e)),
    ("a sink that asks for a new tensor stands in no fusion's way", |e, s| {
        new_tensors(s).expect(e)
    }),
    ("a stage that gives too little is refused, with its operation", |e, s| {
        too_little(s).expect(e)
    }),
    ("a stage refuses a buffer before the operations before it write", |e, s| picky(s).expect(e)),
    ("of two rules the first fuses, and the rest stays", |e, s| windows(s).expect(e)),
];

/// How often fused stages have run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<[AtomicUsize; 2]>);

impl Runs {
    pub(crate) fn get(&self) -> [usize; 2] {
        [&self.0[0], &self.0[1]].map(|runs| runs.load(Ordering::Relaxed))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) passes: Passes,
    pub(crate) takes_recipes: bool,
    pub(crate) runs: Runs,
}

impl FusionRule for Rule {
    fn name(&self) -> &'static str {
        "mlp"
    }

    fn length(&self) -> usize {
        3
    }

    fn takes_recipes(&self) -> bool {
        self.takes_recipes
    }

    fn fuse(&self, window: &Window<'_>) -> Decision {
        let [up, relu, down] = &window.operations[..] else { return Decision::NotMine };
        let functions = (
            up.downcast::<GroupedLinear>(),
            relu.downcast::<Relu>(),
            down.downcast::<GroupedLinear>(),
        );
        let (Some(up_layer), Some(_), Some(down_layer)) = functions else {
            return Decision::NotMine;
        };
        if up.splits_of != down.splits_of {
            return Decision::Refused("the layers have different splits".to_owned());
        }
        if self.passes == Passes::Backward && window.pass == SequencePass::Forward {
            return Decision::NotMine;
        }
        Decision::Fused(Arc::new(Fused {
            passes: self.passes,
            up: up_layer.clone(),
            down: down_layer.clone(),
            needs: [up.needs.clone(), relu.needs.clone(), down.needs.clone()],
            runs: self.runs.clone(),
        }))
    }
}

/// Both layers and what is between them; the activation never leaves the stage.
#[derive(Debug)]
struct Fused {
    passes: Passes,
    up: GroupedLinear,
    down: GroupedLinear,
    needs: [Selection; 3],
    runs: Runs,
}

/// What a stage for both passes keeps.
#[derive(Debug)]
struct Whole(Saved, Output, Saved);

impl SavedState for Whole {
    fn kept(&self) -> Kept<'_> {
        let mut all = Kept::default();
        for Kept { activations, parameters } in [self.0.kept(), self.1.kept(), self.2.kept()] {
            all.activations.extend(activations);
            all.parameters.extend(parameters);
        }
        all
    }
}

fn unpack<T: 'static>(saved: AnySaved) -> T {
    let saved: Box<dyn Any> = saved;
    *saved.downcast().expect("what the operation keeps")
}

impl FusedStage for Fused {
    fn passes(&self) -> Passes {
        self.passes
    }

    fn forward(
        &self,
        stream: &Stream,
        inputs: &[Inputs],
        output: &mut Tensor,
    ) -> Result<Vec<AnySaved>> {
        self.runs.0[0].fetch_add(1, Ordering::Relaxed);
        let rows = inputs[0].tensor(names::X)?.shape()[0];
        let shape = [rows, self.up.config().out_features];
        let mut h = Tensor::empty(stream, &shape, self.up.config().dtype)?;
        let [of_up, of_relu, of_down] = &self.needs;
        let up = self.up.forward_and_save(stream, &inputs[0], &mut h, of_up)?;
        let relu_inputs = Inputs::new().with(names::X, h.into());
        let mut active = Tensor::empty(stream, &shape, self.up.config().dtype)?;
        let relu = Relu.forward_and_save(stream, &relu_inputs, &mut active, of_relu)?;
        let down_inputs = inputs[2].clone().with(names::X, active.into());
        let down = self.down.forward_and_save(stream, &down_inputs, output, of_down)?;
        Ok(match self.passes {
            Passes::Both => vec![Box::new(Whole(up, relu, down)), Box::new(()), Box::new(())],
            _ => vec![Box::new(up), Box::new(relu), Box::new(down)],
        })
    }

    fn check_backward(
        &self,
        _stream: &Stream,
        saved: &[&AnySaved],
        _output_gradient: Option<&Tensor>,
        sinks: &mut [Sinks<'_>],
    ) -> Result<()> {
        assert_eq!((saved.len(), sinks.len()), (3, 3));
        match sinks[0].get(names::BIAS) {
            None => Ok(()),
            Some(_) => Err(Error::unsupported("the fused stage has no sink for the bias")),
        }
    }

    fn backward(
        &self,
        stream: &Stream,
        saved: Vec<AnySaved>,
        output_gradient: &Tensor,
        sinks: Vec<Sinks<'_>>,
    ) -> Result<Vec<Gradients>> {
        self.runs.0[1].fetch_add(1, Ordering::Relaxed);
        let mut saved = saved.into_iter();
        let mut next = || saved.next().expect("three");
        let Whole(up, relu, down) = match self.passes {
            Passes::Both => unpack(next()),
            _ => Whole(unpack(next()), unpack(next()), unpack(next())),
        };
        let [of_up, of_relu, of_down] =
            <[Sinks<'_>; 3]>::try_from(sinks).expect("one per operation");
        let inner = |gradients: &mut Gradients| match gradients.take(names::X) {
            Some(Gradient::Tensor(dx)) => dx,
            other => panic!("the gradient of x: {other:?}"),
        };
        let mut down = Function::backward(&self.down, stream, down, output_gradient, of_down)?;
        let mut relu = Relu.backward(stream, relu, &inner(&mut down), of_relu)?;
        let up = Function::backward(&self.up, stream, up, &inner(&mut relu), of_up)?;
        Ok(vec![up, relu, down])
    }
}

fn fusing(stream: &Stream, passes: Passes) -> Result<(Mlp, Runs)> {
    let (mut mlp, runs) = (Mlp::new(stream)?, Runs::default());
    mlp.pipeline.add_rule(Rule { passes, takes_recipes: false, runs: runs.clone() });
    Ok((mlp, runs))
}

fn scaled<'a>(mlp: &Mlp, stream: &Stream) -> Result<ForwardArguments<'a>> {
    Ok(mlp.arguments().input(mlp.ids[0], names::BIAS_ROW_SCALES, Mlp::scales(stream)?))
}

const OPERATION: StageKind = StageKind::Operation("grouped_linear");
const RELU: StageKind = StageKind::Operation("relu");
const FUSED: StageKind = StageKind::Fused("mlp");

/// Kinds of the stages of both passes of the next call.
fn stages(
    pipeline: &Sequential,
    stream: &Stream,
    arguments: &ForwardArguments<'_>,
) -> Result<[Vec<StageKind>; 2]> {
    let x = (&Mlp::x(stream)?).into();
    let plan = pipeline.plan(stream.device().target(), &x, arguments, Execution::Eager)?;
    Ok([plan.forward, plan.backward]
        .map(|stages| stages.into_iter().map(|stage| stage.kind).collect()))
}

fn same(stream: &Stream, passes: Passes) -> Result<()> {
    let (mlp, runs) = fusing(stream, passes)?;
    let (unfused, fused) = (vec![OPERATION, RELU, OPERATION], vec![FUSED]);
    let want = match passes {
        Passes::Both => ([fused.clone(), fused], [1, 1]),
        Passes::Forward => ([fused, unfused], [1, 0]),
        Passes::Backward => ([unfused, fused], [0, 1]),
    };
    assert_eq!(stages(&mlp.pipeline, stream, &scaled(&mlp, stream)?)?, want.0);
    let all = mlp.run(stream, scaled(&mlp, stream)?, BackwardArguments::new())?;
    assert_eq!(all, mlp.by_hand(stream, &Mlp::scales(stream)?)?);
    assert_eq!(runs.get(), want.1);
    assert_eq!(mlp.pipeline.plan_count(), 1);

    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, mlp.arguments())?;
    assert_eq!(saved.activation_bytes(), 4 * ROWS * (8 + 16));
    Ok(())
}

fn refused(stream: &Stream) -> Result<()> {
    let unfused = vec![OPERATION, RELU, OPERATION];
    let (mlp, runs) = fusing(stream, Passes::Both)?;
    let other = Splits::host(&[SPLITS[2], 0, SPLITS[0]])?;
    let arguments = || mlp.arguments().splits(mlp.ids[2], &other);
    let [forward, backward] = stages(&mlp.pipeline, stream, &arguments())?;
    assert_eq!([&forward, &backward], [&unfused; 2]);
    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments())?;
    let [refusal] = &saved.plan().refusals[..] else { panic!("{:?}", saved.plan()) };
    assert_eq!((refusal.rule, refusal.operations.clone()), ("mlp", 0..3));
    assert_eq!(refusal.reason, "the layers have different splits");
    let dy = Mlp::dy(stream)?;
    drop(mlp.pipeline.backward(stream, saved, dy, BackwardArguments::new())?);
    assert_eq!(runs.get(), [0, 0]);

    // Nor is a buffer between the operations left unwritten.
    let mut active = Tensor::zeros(stream, &[ROWS, 16], DType::F32)?;
    let arguments = scaled(&mlp, stream)?.output(mlp.ids[1], &mut active);
    let all = mlp.run(stream, arguments, BackwardArguments::new())?;
    assert_eq!(all, mlp.by_hand(stream, &Mlp::scales(stream)?)?);
    assert!(active.to_f32(stream)?.iter().any(|&value| value > 0.0));
    assert_eq!(runs.get(), [0, 0]);
    Ok(())
}

fn falls_back(stream: &Stream) -> Result<()> {
    // A stage for backward alone: the operations can take its place.
    let (mlp, runs) = fusing(stream, Passes::Backward)?;
    let want = mlp.by_hand(stream, &Mlp::scales(stream)?)?;
    let mut dh = Tensor::zeros(stream, &[ROWS, 16], DType::F32)?;
    let sinks = BackwardArguments::new().sink(mlp.ids[2], names::X, Sink::Into(&mut dh));
    assert_eq!(mlp.run(stream, scaled(&mlp, stream)?, sinks)?, want);
    assert!(dh.to_f32(stream)?.iter().any(|&dh| dh != 0.0));
    let sinks = BackwardArguments::new().sink(mlp.ids[0], names::BIAS, Sink::New);
    assert_eq!(mlp.run(stream, scaled(&mlp, stream)?, sinks)?, want);
    assert_eq!(runs.get(), [0, 0]);
    assert_eq!(mlp.run(stream, scaled(&mlp, stream)?, BackwardArguments::new())?, want);
    assert_eq!(runs.get(), [0, 1]);

    // A stage for both passes kept something of its own, so it must refuse.
    let (mlp, runs) = fusing(stream, Passes::Both)?;
    let sinks = BackwardArguments::new().sink(mlp.ids[2], names::X, Sink::Into(&mut dh));
    let error = mlp.run(stream, scaled(&mlp, stream)?, sinks).unwrap_err();
    assert!(error.is_unsupported(), "{error:?}");
    assert!(error.to_string().contains("the fusion mlp has no gradients of x between"), "{error}");
    assert_eq!(runs.get(), [1, 0]);
    Ok(())
}

fn frozen(stream: &Stream) -> Result<()> {
    let (mlp, runs) = fusing(stream, Passes::Forward)?;
    // The last layer alone wants a gradient, and needs its weights for it.
    let arguments = || mlp.arguments().needs(mlp.ids[0], Selection::none());
    let only_x = arguments().needs(mlp.ids[2], Selection::Only(vec![names::X]));
    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, only_x)?;
    assert_eq!((saved.activation_bytes(), runs.get()), (0, [1, 0]));
    let dy = Mlp::dy(stream)?;
    let grads = mlp.pipeline.backward(stream, saved, dy, BackwardArguments::new())?;
    assert!(grads.get(mlp.ids[2], names::X).is_some());
    // Its tokens are what it keeps beside.
    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments())?;
    assert_eq!(saved.activation_bytes(), 4 * ROWS * 16);
    Ok(())
}

fn new_tensors(stream: &Stream) -> Result<()> {
    for passes in [Passes::Both, Passes::Backward] {
        let (mlp, runs) = fusing(stream, passes)?;
        let want = mlp.by_hand(stream, &Mlp::scales(stream)?)?;
        let [_, relu, down] = mlp.ids;
        let sinks = BackwardArguments::new().sink(down, names::X, Sink::New);
        let sinks = sinks.sink(relu, names::X, Sink::New);
        assert_eq!(mlp.run(stream, scaled(&mlp, stream)?, sinks)?, want);
        assert_eq!(runs.get()[1], 1, "{passes:?}");
    }
    Ok(())
}

/// A stage for two relus whose forward or backward forgets the last one; it fills no buffers.
#[derive(Clone, Copy, Debug)]
struct Forgetful(Passes);

impl FusionRule for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn length(&self) -> usize {
        2
    }

    fn fuse(&self, window: &Window<'_>) -> Decision {
        if window.operations.iter().any(|operation| operation.kind != "relu") {
            return Decision::NotMine;
        }
        match (self.0, window.pass) {
            (Passes::Backward, SequencePass::Forward) => Decision::NotMine,
            _ => Decision::Fused(Arc::new(*self)),
        }
    }
}

impl FusedStage for Forgetful {
    fn passes(&self) -> Passes {
        self.0
    }

    fn check_forward(&self, _: &Stream, _: &[Inputs], output: Option<&Tensor>) -> Result<()> {
        match output {
            None => Ok(()),
            Some(_) => Err(Error::invalid("the stage fills no buffers")),
        }
    }

    fn forward(&self, _: &Stream, _: &[Inputs], _: &mut Tensor) -> Result<Vec<AnySaved>> {
        Ok(vec![Box::new(())])
    }

    fn check_backward(
        &self,
        _: &Stream,
        _: &[&AnySaved],
        _: Option<&Tensor>,
        _: &mut [Sinks<'_>],
    ) -> Result<()> {
        Ok(())
    }

    fn backward(
        &self,
        _: &Stream,
        _: Vec<AnySaved>,
        _: &Tensor,
        _: Vec<Sinks<'_>>,
    ) -> Result<Vec<Gradients>> {
        Ok(vec![Gradients::new()])
    }
}

fn too_little(stream: &Stream) -> Result<()> {
    for passes in [Passes::Forward, Passes::Backward] {
        let mut pipeline = Sequential::new();
        pipeline.push(Relu);
        pipeline.push(Relu);
        pipeline.add_rule(Forgetful(passes));
        let x = Mlp::x(stream)?;
        let error = match pipeline.forward(stream, x.clone(), ForwardArguments::new()) {
            Err(error) => error,
            Ok((_, saved)) => pipeline
                .backward(stream, saved, x, BackwardArguments::new())
                .expect_err("one of two"),
        };
        let want = "operation 0 (relu): a fused stage of 2 operations gave results for 1";
        assert!(error.to_string().starts_with(want), "{passes:?}: {error}");
    }
    Ok(())
}

fn picky(stream: &Stream) -> Result<()> {
    let mut pipeline = Sequential::new();
    let layer = pipeline.push(crate::layer(stream, (8, 16), true, 5)?);
    pipeline.push(Relu);
    let last = pipeline.push(Relu);
    pipeline.add_rule(Forgetful(Passes::Forward));
    let sevens = || Tensor::from_slice(stream, &[ROWS, 16], &[7.0f32; ROWS * 16]);
    let (mut h, mut y) = (sevens()?, sevens()?);
    let written = [h.clone(), y.clone()];
    let arguments = ForwardArguments::new().splits(layer, &crate::splits());
    let arguments = arguments.output(layer, &mut h).output(last, &mut y);
    let error = pipeline.forward(stream, Mlp::x(stream)?, arguments).unwrap_err();
    assert_eq!(error.to_string(), "operation 1 (relu): the stage fills no buffers");
    for tensor in written {
        assert_eq!(tensor.to_f32(stream)?, [7.0; ROWS * 16]);
    }
    Ok(())
}

fn windows(stream: &Stream) -> Result<()> {
    let (first, second) = (Runs::default(), Runs::default());
    let mut mlp = Mlp::new(stream)?;
    let [_, last] =
        [mlp.pipeline.push(Relu), mlp.pipeline.push(crate::layer(stream, (24, 8), true, 5)?)];
    mlp.pipeline.add_rule(Rule { passes: Passes::Both, takes_recipes: false, runs: first.clone() });
    mlp.pipeline.add_rule(Rule {
        passes: Passes::Both,
        takes_recipes: false,
        runs: second.clone(),
    });
    let arguments = || mlp.arguments().splits(last, &crate::splits());
    let [forward, backward] = stages(&mlp.pipeline, stream, &arguments())?;
    assert_eq!(forward, [FUSED, RELU, OPERATION]);
    assert_eq!(backward, [OPERATION, RELU, FUSED]);
    let (y, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments())?;
    let none = BackwardArguments::new();
    let grads = mlp.pipeline.backward(stream, saved, y, none)?;
    assert!(grads.get(mlp.ids[0], names::X).is_some() && grads.get(last, names::BIAS).is_some());
    assert_eq!((first.get(), second.get()), ([1, 1], [0, 0]));

    // Without the gradients of the first layer the window is the same, and backward still runs it.
    let arguments = || arguments().needs(mlp.ids[0], Selection::none());
    let [_, backward] = stages(&mlp.pipeline, stream, &arguments())?;
    assert_eq!(backward, [OPERATION, RELU, FUSED]);
    Ok(())
}
