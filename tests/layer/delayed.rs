//! Gradients of weights that are computed later: what backward gives at once, and what two of them
//! add up to.

use grouped_linear::{
    BackwardOptions, DType, GradSink, GroupedTensor, Needs, ParamLayout, Result, SelectedGrads,
    Stream, Tensor, Wgrad, WgradStore,
};

use crate::engines::Test;
use crate::exact::{K, LAYOUTS, Model, N, Numbers, read, same, sum};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("delay changes nothing but the time of dw", |e, s| all_but_dw(s).expect(e)),
    ("two delayed gradients of tied weights add up", |e, s| tied_weights(s).expect(e)),
    ("delayed gradients run first in, first out", |e, s| in_order(s).expect(e)),
    ("a delayed gradient needs no layer", |e, s| outlives_its_layer(s).expect(e)),
];

const SPLITS: [usize; 3] = [4, 0, 7];
const GROUPS: usize = SPLITS.len();
const DELAYED: BackwardOptions<'static> = BackwardOptions {
    dx: grouped_linear::RowSink::New,
    dw: Wgrad::Delayed,
    db: Some(GradSink::New),
    dscales: grouped_linear::RowSink::New,
};

/// With packed and discrete weights; the bias has its gradient from the backward itself.
fn all_but_dw(stream: &Stream) -> Result<()> {
    for (layout, dtype) in LAYOUTS.into_iter().flat_map(|l| [(l, DType::Bf16), (l, DType::F32)]) {
        let what = format!("{layout:?} {dtype}");
        let numbers = Numbers::new(&SPLITS, 1, 5);
        let model = Model::new(stream, &numbers, dtype, layout)?;
        let options = model.row_scaled();
        let (_, saved) = model.layer.forward(stream, &model.x, &model.splits, options)?;
        let grads = model.layer.backward_with(stream, saved.clone(), &model.dy, DELAYED)?;
        let whole = model.layer.backward(stream, saved, &model.dy)?;
        // No buffer that nobody has written is handed out for it.
        assert!(grads.dw.is_none(), "{what}");
        let live = |tensor: Option<&Tensor>, columns: usize| -> Result<Vec<f32>> {
            let values =
                tensor.map(|tensor| tensor.to_f32(stream)).transpose()?.unwrap_or_default();
            Ok(values.into_iter().take(numbers.live_rows() * columns).collect())
        };
        same(format!("dx, {what}"), &live(grads.dx.as_ref(), K)?, &numbers.dx());
        let dscales = live(grads.dscales.as_ref(), 1)?;
        same(format!("dscales, {what}"), &dscales, &numbers.dscales());
        let (now, later) = (whole.db.expect("a bias"), grads.db.expect("a bias"));
        same(format!("db, {what}"), &read(stream, &later)?, &read(stream, &now)?);
        let mut pending = grads.pending.expect("it was asked for");
        let dw = pending.run(stream, GradSink::New)?;
        same(format!("dw, {what}"), &read(stream, &dw)?, &numbers.dw());
        same(format!("dw at once, {what}"), &read(stream, &whole.dw)?, &numbers.dw());
    }
    Ok(())
}

/// An assignment instead of a sum would leave the second alone.
fn tied_weights(stream: &Stream) -> Result<()> {
    for layout in LAYOUTS {
        let first = Numbers::new(&SPLITS, 0, 6);
        let second = first.others(&[0, 6, 3], 2, 7);
        let here = Model::new(stream, &first, DType::Bf16, layout)?;
        let there = Model::of(stream, here.layer.clone(), &second)?;
        let before = vec![7.0; GROUPS * N * K];
        let mut main_grad =
            GroupedTensor::from_f32(stream, layout, GROUPS, &[N, K], DType::F32, &before)?;
        let mut store = WgradStore::new();
        for model in [&here, &there] {
            store.extend(model.step(stream, DELAYED)?.pending);
        }
        same("before its time", &read(stream, &main_grad)?, &before);
        store.run_next(stream, GradSink::Accumulate(&mut main_grad))?;
        store.run_next(stream, GradSink::Accumulate(&mut main_grad))?;
        assert!(store.is_empty());
        let want = sum(&[before, first.dw(), second.dw()]);
        same(format!("{layout:?}"), &read(stream, &main_grad)?, &want);
    }
    Ok(())
}

fn in_order(stream: &Stream) -> Result<()> {
    let first = Numbers::new(&SPLITS, 0, 8);
    let all = [first.clone(), first.others(&[1, 2, 3], 0, 9), first.others(&[0, 0, 0], 4, 10)];
    let layer = Model::new(stream, &first, DType::Bf16, ParamLayout::Packed)?.layer;
    let mut store = WgradStore::new();
    for numbers in &all {
        let model = Model::of(stream, layer.clone(), numbers)?;
        store.extend(model.step(stream, DELAYED)?.pending);
    }
    for numbers in &all {
        let dw = store.run_next(stream, GradSink::New)?;
        same("dw", &read(stream, &dw)?, &numbers.dw());
    }
    assert!(store.is_empty());
    Ok(())
}

/// Nor weights that are still what they were: it reads tokens and output gradient alone.
fn outlives_its_layer(stream: &Stream) -> Result<()> {
    let numbers = Numbers::new(&SPLITS, 0, 11);
    let model = Model::new(stream, &numbers, DType::Bf16, ParamLayout::Packed)?;
    let mut options = model.row_scaled();
    options.needs = Needs { dx: false, ..Needs::default() };
    let (_, saved) = model.layer.forward(stream, &model.x, &model.splits, options)?;
    let grads = model.layer.backward_with(stream, saved, &model.dy, DELAYED)?;
    let SelectedGrads { dx: None, dw: None, pending: Some(mut pending), .. } = grads else {
        panic!("gradients that were not asked for");
    };
    let mut weights = model.layer.weights().as_packed().expect("packed").clone();
    weights.fill_zero(stream)?;
    drop((model, weights));
    let zeros = Tensor::zeros(stream, &[GROUPS, N, K], DType::F32)?;
    let mut main_grad = GroupedTensor::packed(zeros)?;
    pending.run(stream, GradSink::Accumulate(&mut main_grad))?;
    same("dw", &read(stream, &main_grad)?, &numbers.dw());
    Ok(())
}
