//! Gradients of parameters that several backwards share: tied weights, microbatches, main_grads in
//! one flat buffer.

use grouped_linear::{
    BackwardOptions, DType, GradSink, GroupedTensor, ParamLayout, Result, SelectedGrads, Stream,
    Tensor,
};

use crate::engines::Test;
use crate::exact::{K, LAYOUTS, Model, N, Numbers, read, same, sum};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("two backwards of tied weights add up", |e, s| tied_weights(s).expect(e)),
    ("of three microbatches the first overwrites", |e, s| microbatches(s).expect(e)),
    ("a main_grad in FP32 keeps what BF16 would lose", |e, s| wide_main_grad(s).expect(e)),
    ("a gradient without tokens keeps every bit", |e, s| untouched(s).expect(e)),
    ("gradients go into buffers of every type", |e, s| other_types(s).expect(e)),
    ("overwrite writes the caller's buffer, all of it", |e, s| overwrite(s).expect(e)),
    ("main_grads lie in one flat buffer, neighbours untouched", |e, s| flat_buffer(s).expect(e)),
];

const SPLITS: [usize; 4] = [3, 0, 5, 1];

fn numbers() -> Numbers {
    Numbers::new(&SPLITS, 2, 1)
}

/// A buffer of NaN for a gradient, of this shape per group.
fn poisoned(
    stream: &Stream,
    layout: ParamLayout,
    shape: &[usize],
    dtype: DType,
) -> Result<GroupedTensor> {
    let (groups, count) = (SPLITS.len(), shape.iter().product::<usize>());
    GroupedTensor::from_f32(stream, layout, groups, shape, dtype, &vec![f32::NAN; groups * count])
}

fn sinks<'a>(dw: GradSink<'a>, db: GradSink<'a>) -> BackwardOptions<'a> {
    BackwardOptions { dw: dw.into(), db: Some(db), ..BackwardOptions::default() }
}

fn tied_weights(stream: &Stream) -> Result<()> {
    for layout in LAYOUTS {
        let first = numbers();
        let second = first.others(&[0, 4, 0, 2], 1, 2);
        let here = Model::new(stream, &first, DType::Bf16, layout)?;
        let there = Model::of(stream, here.layer.clone(), &second)?;
        let groups = SPLITS.len();
        let (before_w, before_b) = (vec![5.0; groups * N * K], vec![-3.0; groups * N]);
        let mut dw =
            GroupedTensor::from_f32(stream, layout, groups, &[N, K], DType::F32, &before_w)?;
        let mut db = GroupedTensor::from_f32(stream, layout, groups, &[N], DType::F32, &before_b)?;
        // Both uses come before either backward, as in a model.
        let (_, saved_here) = here.forward(stream)?;
        let (_, saved_there) = there.forward(stream)?;
        for (model, saved) in [(&there, saved_there), (&here, saved_here)] {
            let sinks = sinks(GradSink::Accumulate(&mut dw), GradSink::Accumulate(&mut db));
            model.layer.backward_with(stream, saved, &model.dy, sinks)?;
        }
        let (dw, db) = (read(stream, &dw)?, read(stream, &db)?);
        same(format!("dw, {layout:?}"), &dw, &sum(&[before_w, first.dw(), second.dw()]));
        same(format!("db, {layout:?}"), &db, &sum(&[before_b, first.db(), second.db()]));
    }
    Ok(())
}

fn microbatches(stream: &Stream) -> Result<()> {
    for layout in LAYOUTS {
        let first = numbers();
        let batches =
            [first.clone(), first.others(&[1, 1, 1, 1], 0, 3), first.others(&[0, 0, 9, 0], 0, 4)];
        let layer = Model::new(stream, &first, DType::Bf16, layout)?.layer;
        let nan = |shape| poisoned(stream, layout, shape, DType::F32);
        let (mut dw, mut db) = (nan(&[N, K])?, nan(&[N])?);
        // The second step must not see the first.
        for step in 0..2 {
            for (number, batch) in batches.iter().enumerate() {
                let dw = GradSink::microbatch(&mut dw, number);
                let db = GradSink::microbatch(&mut db, number);
                Model::of(stream, layer.clone(), batch)?.step(stream, sinks(dw, db))?;
            }
            let what = format!("{layout:?}, step {step}");
            same(&what, &read(stream, &dw)?, &sum(&batches.each_ref().map(Numbers::dw)));
            same(&what, &read(stream, &db)?, &sum(&batches.each_ref().map(Numbers::db)));
        }
    }
    Ok(())
}

/// BF16 has steps of 8 at 1000, so a sum that was BF16 on its way would show.
fn wide_main_grad(stream: &Stream) -> Result<()> {
    let (numbers, groups) = (numbers(), SPLITS.len());
    let model = Model::new(stream, &numbers, DType::Bf16, ParamLayout::Packed)?;
    let before = [vec![1000.5; groups * N * K], vec![2000.25; groups * N]];
    let grouped = |shape: &[usize], values| {
        GroupedTensor::from_f32(stream, ParamLayout::Packed, groups, shape, DType::F32, values)
    };
    let (mut dw, mut db) = (grouped(&[N, K], &before[0])?, grouped(&[N], &before[1])?);
    model.step(stream, sinks(GradSink::Accumulate(&mut dw), GradSink::Accumulate(&mut db)))?;
    same("dw", &read(stream, &dw)?, &sum(&[before[0].clone(), numbers.dw()]));
    same("db", &read(stream, &db)?, &sum(&[before[1].clone(), numbers.db()]));
    Ok(())
}

/// Not a zero that was added to, which has no sign.
fn untouched(stream: &Stream) -> Result<()> {
    let (numbers, groups) = (numbers(), SPLITS.len());
    let model = Model::new(stream, &numbers, DType::Bf16, ParamLayout::Packed)?;
    for (layout, dtype) in LAYOUTS.into_iter().flat_map(|l| [(l, DType::F32), (l, DType::Bf16)]) {
        let before = vec![-0.0; groups * N * K];
        let mut dw = GroupedTensor::from_f32(stream, layout, groups, &[N, K], dtype, &before)?;
        let options =
            BackwardOptions { dw: GradSink::Accumulate(&mut dw).into(), ..Default::default() };
        model.step(stream, options)?;
        let own = dw.group(1)?.to_f32(stream)?;
        let kept = own.iter().all(|value| value.to_bits() == (-0.0f32).to_bits());
        assert!(kept, "{layout:?}, {dtype:?}");
        same(format!("{layout:?}, {dtype:?}"), &read(stream, &dw)?, &numbers.dw());
    }
    Ok(())
}

fn other_types(stream: &Stream) -> Result<()> {
    let (numbers, groups) = (numbers(), SPLITS.len());
    for (layer, sink) in [
        (DType::Bf16, DType::Bf16),
        (DType::Bf16, DType::F16),
        (DType::Bf16, DType::F32),
        (DType::F16, DType::Bf16),
        (DType::F16, DType::F32),
        (DType::F32, DType::F32),
    ] {
        let what = format!("{layer} into {sink}");
        let model = Model::new(stream, &numbers, layer, ParamLayout::Packed)?;
        let mut dw = GroupedTensor::packed(Tensor::zeros(stream, &[groups, N, K], sink)?)?;
        let mut db = GroupedTensor::packed(Tensor::zeros(stream, &[groups, N], sink)?)?;
        for sinks in [
            sinks(GradSink::Overwrite(&mut dw.clone()), GradSink::Overwrite(&mut db.clone())),
            sinks(GradSink::Accumulate(&mut dw), GradSink::Accumulate(&mut db)),
        ] {
            let grads = model.step(stream, sinks)?;
            let types = [&grads.dw, &grads.db].map(|one| one.as_ref().map(GroupedTensor::dtype));
            assert_eq!(types, [Some(sink); 2], "{what}");
        }
        same(&what, &read(stream, &dw)?, &sum(&[numbers.dw(), numbers.dw()]));
        same(&what, &read(stream, &db)?, &sum(&[numbers.db(), numbers.db()]));
    }
    Ok(())
}

/// The handles that backward returns mean the caller's memory: what is written through one is read
/// through the other.
fn overwrite(stream: &Stream) -> Result<()> {
    let (numbers, groups) = (numbers(), SPLITS.len());
    for layout in LAYOUTS {
        let model = Model::new(stream, &numbers, DType::Bf16, layout)?;
        let nan = |shape| poisoned(stream, layout, shape, DType::Bf16);
        let (mut dw, mut db) = (nan(&[N, K])?, nan(&[N])?);
        let sinks = sinks(GradSink::Overwrite(&mut dw), GradSink::Overwrite(&mut db));
        let SelectedGrads { dw: Some(dw_again), db: Some(db_again), .. } =
            model.step(stream, sinks)?
        else {
            panic!("{layout:?}: backward gave no gradient");
        };
        // Zeros for group 1, which has no rows.
        same(format!("dw, {layout:?}"), &read(stream, &dw)?, &numbers.dw());
        same(format!("db, {layout:?}"), &read(stream, &db)?, &numbers.db());
        for (buffer, handle) in [(&dw, &dw_again), (&db, &db_again)] {
            for group in 0..groups {
                let mut part = buffer.group(group)?;
                part.write_f32(stream, &vec![group as f32; part.len()])?;
                let read = handle.group(group)?.to_f32(stream)?;
                assert!(read.iter().all(|&value| value == group as f32), "{layout:?}: a copy");
            }
        }
    }
    Ok(())
}

/// The gradients of all experts of two layouts in one buffer, as optimisers keep them: out of
/// order, with other things between them.
fn flat_buffer(stream: &Stream) -> Result<()> {
    const GAP: usize = 4; // elements; tensor-core kernels store 16 bytes at once
    let (numbers, groups) = (numbers(), SPLITS.len());
    let (dw_want, db_want) = (numbers.dw(), numbers.db());
    let count = GAP + 2 * groups * (N * K + GAP + N + GAP);
    let before: Vec<f32> = (0..count).map(|index| index as f32 + 0.5).collect();
    let flat = Tensor::from_slice(stream, &[count], &before)?;
    let mut want = before;
    let mut next = GAP;
    let mut place = |shape: &[usize], gradient: &[f32]| {
        let (start, length) = (next, gradient.len());
        next += length + GAP;
        want[start..next - GAP].iter_mut().zip(gradient).for_each(|(value, part)| *value += part);
        flat.narrow(start, length)?.reshape(shape)
    };

    let packed = [
        GroupedTensor::packed(place(&[groups, N, K], &dw_want)?)?,
        GroupedTensor::packed(place(&[groups, N], &db_want)?)?,
    ];
    // The last expert first, weights and bias of each side by side.
    let mut parts = Vec::new();
    for group in (0..groups).rev() {
        let (dw, db) = (&dw_want[group * N * K..][..N * K], &db_want[group * N..][..N]);
        parts.push((place(&[N, K], dw)?, place(&[N], db)?));
    }
    let (dw, db) = parts.into_iter().rev().unzip();
    let discrete = [GroupedTensor::discrete(stream, dw)?, GroupedTensor::discrete(stream, db)?];
    for ([mut dw, mut db], layout) in [packed, discrete].into_iter().zip(LAYOUTS) {
        let model = Model::new(stream, &numbers, DType::Bf16, layout)?;
        model.step(stream, sinks(GradSink::Accumulate(&mut dw), GradSink::Accumulate(&mut db)))?;
    }
    let got = flat.to_vec::<f32>(stream)?;
    let first = (0..count).find(|&index| got[index].to_bits() != want[index].to_bits());
    assert_eq!(first, None, "element {first:?} of the flat buffer");
    Ok(())
}
