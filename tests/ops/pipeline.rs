//! What a pipeline computes, keeps, releases and plans.

use grouped_linear::ops::{
    BackwardArguments, ForwardArguments, Gradient, OpId, Selection, Sequential, Sink, StageKind,
    names,
};
use grouped_linear::plan::{Execution, Target};
use grouped_linear::{
    BackwardOptions, BiasUse, DType, ForwardOptions, GradSink, GroupedLinear, GroupedTensor,
    Result, Splits, Stream, Tensor, TensorSpec,
};

use crate::engines::Test;
use crate::relu::Relu;
use crate::{GROUPS, ROWS, layer, splits, tensor};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a pipeline computes what its layers compute", |e, s| same_as_layers(s).expect(e)),
    ("buffers are filled", |e, s| buffers(s).expect(e)),
    ("a delayed gradient, and weights that two layers share", |e, s| {
        delayed_and_shared(s).expect(e)
    }),
    ("frozen operations end backward", |e, s| frozen(s).expect(e)),
    ("calls of one signature share a plan", |e, s| plans(s).expect(e)),
    ("a plan needs no device", |e, s| inferred(s).expect(e)),
];

const K: usize = 8;
const H: usize = 16;
const N: usize = 24;

/// A layer with bias, relu, a layer without.
pub(crate) struct Mlp {
    pub(crate) up: GroupedLinear,
    pub(crate) down: GroupedLinear,
    pub(crate) pipeline: Sequential,
    pub(crate) ids: [OpId; 3],
}

impl Mlp {
    pub(crate) fn new(stream: &Stream) -> Result<Self> {
        let (up, down) = (layer(stream, (K, H), true, 1)?, layer(stream, (H, N), false, 3)?);
        let mut pipeline = Sequential::new();
        let ids = [pipeline.push(up.clone()), pipeline.push(Relu), pipeline.push(down.clone())];
        Ok(Self { up, down, pipeline, ids })
    }

    pub(crate) fn arguments<'a>(&self) -> ForwardArguments<'a> {
        let [up, _, down] = self.ids;
        ForwardArguments::new().splits(up, &splits()).splits(down, &splits())
    }

    pub(crate) fn x(stream: &Stream) -> Result<Tensor> {
        tensor(stream, &[ROWS, K], 7)
    }

    pub(crate) fn dy(stream: &Stream) -> Result<Tensor> {
        tensor(stream, &[ROWS, N], 8)
    }

    pub(crate) fn scales(stream: &Stream) -> Result<Tensor> {
        tensor(stream, &[ROWS], 9)
    }

    /// Output and all gradients by the layers themselves.
    pub(crate) fn by_hand(&self, stream: &Stream, scales: &Tensor) -> Result<Vec<Vec<f32>>> {
        let options =
            ForwardOptions { bias: BiasUse::RowScaled(scales), ..ForwardOptions::default() };
        let (h, saved_up) = self.up.forward(stream, &Self::x(stream)?, &splits(), options)?;
        let h = h.to_f32(stream)?;
        let active: Vec<f32> = h.iter().map(|h| h.max(0.0)).collect();
        let active = Tensor::from_slice(stream, &[ROWS, H], &active)?;
        let (y, saved_down) =
            self.down.forward(stream, &active, &splits(), ForwardOptions::default())?;
        let down = self.down.backward(stream, saved_down, &Self::dy(stream)?)?;
        let dh = down.dx.to_f32(stream)?;
        let dh: Vec<f32> =
            h.iter().zip(dh).map(|(&h, dh)| if h > 0.0 { dh } else { 0.0 }).collect();
        let dh = Tensor::from_slice(stream, &[ROWS, H], &dh)?;
        let up = self.up.backward(stream, saved_up, &dh)?;
        let packed = |grouped: Option<&GroupedTensor>| {
            grouped.and_then(GroupedTensor::as_packed).expect("packed").to_f32(stream)
        };
        Ok(vec![
            y.to_f32(stream)?,
            packed(Some(&down.dw))?,
            packed(Some(&up.dw))?,
            packed(up.db.as_ref())?,
            up.dscales.expect("row scales").to_f32(stream)?,
            up.dx.to_f32(stream)?,
        ])
    }

    /// The same by the pipeline.
    pub(crate) fn run(
        &self,
        stream: &Stream,
        forward: ForwardArguments<'_>,
        backward: BackwardArguments<'_>,
    ) -> Result<Vec<Vec<f32>>> {
        let [up, relu, down] = self.ids;
        let (y, saved) = self.pipeline.forward(stream, Self::x(stream)?, forward)?;
        let mut grads = self.pipeline.backward(stream, saved, Self::dy(stream)?, backward)?;
        let mut all = vec![y.to_f32(stream)?];
        for (op, name) in [
            (down, names::WEIGHTS),
            (up, names::WEIGHTS),
            (up, names::BIAS),
            (up, names::BIAS_ROW_SCALES),
            (up, names::X),
        ] {
            all.push(match grads.take(op, name).expect("a gradient of each") {
                Gradient::Tensor(tensor) => tensor.to_f32(stream)?,
                Gradient::Grouped(grouped) => {
                    grouped.as_packed().expect("packed").to_f32(stream)?
                }
                other => panic!("{name}: {other:?}"),
            });
        }
        assert!(grads.get(down, names::X).is_none(), "consumed by relu");
        assert!(grads.get(relu, names::X).is_none(), "consumed by the first layer");
        Ok(all)
    }
}

fn same_as_layers(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let scales = Mlp::scales(stream)?;
    let arguments = mlp.arguments().input(mlp.ids[0], names::BIAS_ROW_SCALES, scales.clone());
    let all = mlp.run(stream, arguments, BackwardArguments::new())?;
    assert_eq!(all, mlp.by_hand(stream, &scales)?);
    assert!(all.iter().all(|values| values.iter().any(|&value| value.abs() > 0.01)));
    Ok(())
}

fn zeros(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(stream, shape, DType::F32)
}

fn buffers(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let [up, relu, down] = mlp.ids;
    let scales = Mlp::scales(stream)?;
    let want = mlp.by_hand(stream, &scales)?;

    let (mut h, mut y) = (zeros(stream, &[ROWS, H])?, zeros(stream, &[ROWS, N])?);
    let (mut da, mut dh) = (zeros(stream, &[ROWS, H])?, zeros(stream, &[ROWS, H])?);
    let mut dx = zeros(stream, &[ROWS, K])?;
    let mut dscales = zeros(stream, &[ROWS])?;
    let mut dw = GroupedTensor::packed(tensor(stream, &[GROUPS, N, H], 11)?)?;
    let mut db = GroupedTensor::packed(tensor(stream, &[GROUPS, H], 12)?)?;
    let before = db.as_packed().expect("packed").to_f32(stream)?;
    let forward = mlp
        .arguments()
        .input(up, names::BIAS_ROW_SCALES, scales)
        .output(relu, &mut h)
        .output(down, &mut y);
    let backward = BackwardArguments::new()
        .sink(down, names::X, Sink::Into(&mut da))
        .sink(relu, names::X, Sink::Into(&mut dh))
        .sink(down, names::WEIGHTS, Sink::Overwrite(&mut dw))
        .sink(up, names::BIAS, Sink::Accumulate(&mut db))
        .sink(up, names::BIAS_ROW_SCALES, Sink::Into(&mut dscales))
        .sink(up, names::X, Sink::Into(&mut dx));
    let given = mlp.run(stream, forward, backward)?;

    let sum: Vec<f32> = before.iter().zip(&want[3]).map(|(before, db)| before + db).collect();
    let dw = dw.as_packed().expect("packed").to_f32(stream)?;
    let db = db.as_packed().expect("packed").to_f32(stream)?;
    assert_eq!((&y.to_f32(stream)?, &given[0]), (&want[0], &want[0]));
    assert_eq!((&dw, &given[1]), (&want[1], &want[1]));
    assert_eq!(db, given[3]);
    for (db, sum) in db.iter().zip(sum) {
        assert!((db - sum).abs() < 1e-5, "{db} and {sum}");
    }
    assert_eq!((&dscales.to_f32(stream)?, &given[4]), (&want[4], &want[4]));
    assert_eq!((&dx.to_f32(stream)?, &given[5]), (&want[5], &want[5]));
    let (h, da, dh) = (h.to_f32(stream)?, da.to_f32(stream)?, dh.to_f32(stream)?);
    assert!(h.iter().any(|&h| h > 0.0) && dh.iter().any(|&dh| dh != 0.0));
    let masked: Vec<f32> =
        h.iter().zip(da).map(|(&h, da)| if h > 0.0 { da } else { 0.0 }).collect();
    assert_eq!(dh, masked);
    Ok(())
}

/// Two layers over the same weights add their gradients in one buffer, the second of them later.
fn delayed_and_shared(stream: &Stream) -> Result<()> {
    let shared = layer(stream, (K, K), false, 1)?;
    let mut pipeline = Sequential::new();
    let [first, second] = [pipeline.push(shared.clone()), pipeline.push(shared.clone())];
    let arguments = || ForwardArguments::new().splits(first, &splits()).splits(second, &splits());
    let dy = tensor(stream, &[ROWS, K], 8)?;
    let run = |arguments_back: BackwardArguments<'_>| {
        let (_, saved) = pipeline.forward(stream, Mlp::x(stream)?, arguments())?;
        pipeline.backward(stream, saved, dy.clone(), arguments_back)
    };
    let mut sum = GroupedTensor::packed(tensor(stream, &[GROUPS, K, K], 13)?)?;
    let mut handle = sum.clone();
    let values = |grouped: &GroupedTensor| grouped.as_packed().expect("packed").to_f32(stream);

    // Backward runs the second layer first: it overwrites, and the first adds.
    run(BackwardArguments::new().sink(second, names::WEIGHTS, Sink::Overwrite(&mut sum)).sink(
        first,
        names::WEIGHTS,
        Sink::Accumulate(&mut handle),
    ))?;
    let at_once = values(&sum)?;

    let later = || BackwardArguments::new().sink(second, names::WEIGHTS, Sink::Later);
    let mut grads = run(later().sink(first, names::WEIGHTS, Sink::Overwrite(&mut sum)))?;
    let Some(Gradient::Pending(mut pending)) = grads.take(second, names::WEIGHTS) else {
        panic!("a pending gradient: {grads:?}");
    };
    assert_ne!(values(&sum)?, at_once);
    pending.run(stream, GradSink::Accumulate(&mut sum))?;
    for (later, now) in values(&sum)?.iter().zip(&at_once) {
        assert!((later - now).abs() < 1e-5, "{later} and {now}");
    }

    // What the first layer would wipe out.
    let refused = run(BackwardArguments::new()
        .sink(second, names::WEIGHTS, Sink::Accumulate(&mut sum))
        .sink(first, names::WEIGHTS, Sink::Overwrite(&mut handle)));
    let message = refused.expect_err("the first gradient would be lost").to_string();
    assert!(message.contains("overlaps"), "{message}");

    // As the layers do it.
    let (h, saved_first) =
        shared.forward(stream, &Mlp::x(stream)?, &splits(), ForwardOptions::default())?;
    let (_, saved_second) = shared.forward(stream, &h, &splits(), ForwardOptions::default())?;
    let into = |dw| BackwardOptions { dw: GradSink::Overwrite(dw).into(), ..Default::default() };
    let dx = shared.backward_with(stream, saved_second, &dy, into(&mut handle))?.dx;
    let add = GradSink::Accumulate(&mut sum).into();
    let options = BackwardOptions { dw: add, ..Default::default() };
    shared.backward_with(stream, saved_first, &dx.expect("dx"), options)?;
    assert_eq!(values(&sum)?, at_once);
    Ok(())
}

fn frozen(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let [up, relu, down] = mlp.ids;
    let arguments = mlp.arguments().needs(up, Selection::none());
    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments)?;
    let stages: Vec<_> = saved.plan().backward.iter().map(|stage| stage.kind).collect();
    assert_eq!(stages, [StageKind::Operation("grouped_linear")]);
    let dy = Mlp::dy(stream)?;
    let grads = mlp.pipeline.backward(stream, saved, dy.clone(), BackwardArguments::new())?;
    let names_of =
        |op| [names::X, names::WEIGHTS, names::BIAS].map(|name| grads.get(op, name).is_some());
    assert_eq!([up, relu, down].map(names_of), [[false; 3], [false; 3], [false, true, false]]);

    // The gradient of an inner x, for whoever wants it.
    let wanted = Selection::Only(vec![names::X]);
    let arguments = mlp.arguments().needs(up, Selection::none()).needs(down, wanted);
    let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments)?;
    let grads = mlp.pipeline.backward(stream, saved, dy, BackwardArguments::new())?;
    assert!(grads.get(down, names::WEIGHTS).is_none());
    let dx = grads.get(down, names::X).and_then(Gradient::tensor);
    assert_eq!(dx.expect("dx").shape(), [ROWS, H]);
    Ok(())
}

fn plans(stream: &Stream) -> Result<()> {
    let mut mlp = Mlp::new(stream)?;
    let [up, _, down] = mlp.ids;
    let run = |mlp: &Mlp, rows: usize, arguments| {
        let x = zeros(stream, &[rows, K])?;
        mlp.pipeline.forward(stream, x, arguments).map(drop)
    };
    assert_eq!(mlp.pipeline.plan_count(), 0);
    run(&mlp, ROWS, mlp.arguments())?;
    run(&mlp, ROWS, mlp.arguments())?;
    assert_eq!(mlp.pipeline.plan_count(), 1);
    // Values are no part of the signature: other splits, the same for both layers.
    let other = Splits::host(&[0, 1, 0])?;
    run(&mlp, ROWS, ForwardArguments::new().splits(up, &other).splits(down, &other))?;
    assert_eq!(mlp.pipeline.plan_count(), 1);

    let scales = Mlp::scales(stream)?;
    let (mut y, device) = (zeros(stream, &[ROWS, N])?, [2i32, 0, 3]);
    let device = Splits::device(Tensor::from_slice(stream, &[GROUPS], &device)?)?;
    run(&mlp, ROWS + 1, mlp.arguments())?;
    run(&mlp, ROWS, mlp.arguments().input(up, names::BIAS_ROW_SCALES, scales))?;
    run(&mlp, ROWS, mlp.arguments().output(down, &mut y))?;
    run(&mlp, ROWS, mlp.arguments().needs(up, Selection::none()))?;
    run(&mlp, ROWS, ForwardArguments::new().splits(up, &device).splits(down, &device))?;
    run(&mlp, ROWS, mlp.arguments().input(up, names::KERNEL, "simt"))?;
    run(&mlp, ROWS, mlp.arguments().splits(down, &other))?;
    assert_eq!(mlp.pipeline.plan_count(), 8);
    run(&mlp, ROWS, mlp.arguments())?;
    assert_eq!(mlp.pipeline.plan_count(), 8);

    // Of very many, the oldest has been forgotten.
    for rows in 10..60 {
        run(&mlp, rows, mlp.arguments())?;
    }
    run(&mlp, ROWS, mlp.arguments())?;
    assert_eq!(mlp.pipeline.plan_count(), 59);

    // A longer pipeline has other plans.
    mlp.pipeline.push(Relu);
    let (y, _saved) = mlp.pipeline.forward(stream, zeros(stream, &[ROWS, K])?, mlp.arguments())?;
    assert_eq!((y.shape(), mlp.pipeline.plan_count()), (&[ROWS, N][..], 60));
    Ok(())
}

/// What is inferred is what is given.
fn inferred(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let [up, _, down] = mlp.ids;
    let spec = |shape: &[usize]| TensorSpec { shape: shape.to_vec(), dtype: DType::F32 };
    let plan =
        mlp.pipeline.plan(Target::CPU, &spec(&[ROWS, K]), &mlp.arguments(), Execution::Eager)?;
    let outputs: Vec<_> = plan.specs.iter().map(|specs| specs.output.clone()).collect();
    assert_eq!(outputs, [spec(&[ROWS, H]), spec(&[ROWS, H]), spec(&[ROWS, N])]);
    assert_eq!(plan.specs[2].saved.get(names::X), Some(&spec(&[ROWS, H])));

    let (y, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, mlp.arguments())?;
    assert_eq!(TensorSpec::from(&y), outputs[2]);
    assert_eq!(*saved.plan(), plan);
    let grads = mlp.pipeline.backward(stream, saved, Mlp::dy(stream)?, BackwardArguments::new())?;
    for (index, op) in [(0, up), (2, down)] {
        for (name, inferred) in plan.specs[index].gradients.iter() {
            let given = match grads.get(op, name) {
                Some(Gradient::Tensor(tensor)) => tensor.into(),
                Some(Gradient::Grouped(grouped)) => grouped.as_packed().expect("packed").into(),
                _ if index == 2 && name == names::X => continue, // consumed
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(*inferred, given, "{name} of operation {index}");
        }
    }
    Ok(())
}
