//! Where outputs are written: in the caller's memory, in the rows that count, and nowhere else.

use grouped_linear::conformance::Generator;
use grouped_linear::{
    BackwardOptions, BiasUse, Config, DType, ForwardOptions, GradSink, GroupedLinear,
    GroupedTensor, ParamLayout, Result, RowSink, Splits, Stream, Tensor,
};
use half::bf16;

use crate::engines::Test;
use crate::exact::{K, LAYOUTS, Model, N, Numbers, read, same};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("outputs are written in place, inside a larger arena", |e, s| in_place(s).expect(e)),
    ("one group, packed or discrete", |e, s| one_group(s).expect(e)),
    ("empty experts at the end, and no rows at all", |e, s| empty_experts(s).expect(e)),
    ("more than 64 experts in every operation", |e, s| many_experts(s).expect(e)),
    ("the bias is added before the one rounding", |e, s| one_rounding(s).expect(e)),
    ("two runs give the same bits", |e, s| same_bits(s).expect(e)),
];

/// Elements of an arena before and after the part that is lent; a multiple of 16 bytes.
const AROUND: usize = 8;
/// What an arena holds; no result is as large.
const SENTINEL: f32 = 1024.0;

/// A tensor in the middle of a larger one.
struct Lent {
    arena: Tensor,
    view: Tensor,
}

impl Lent {
    fn new(stream: &Stream, shape: &[usize], dtype: DType) -> Result<Self> {
        let count: usize = shape.iter().product();
        let length = count + 2 * AROUND;
        let arena = Tensor::from_f32(stream, &[length], dtype, &vec![SENTINEL; length])?;
        let view = arena.narrow(AROUND, count)?.reshape(shape)?;
        Ok(Self { arena, view })
    }

    /// The arena must hold `want` where the view starts, sentinels elsewhere; and `handle`, if
    /// there is one, must be the view.
    fn check(
        &self,
        stream: &Stream,
        what: &str,
        want: &[f32],
        handle: Option<&Tensor>,
    ) -> Result<()> {
        let got = self.arena.to_f32(stream)?;
        let (before, rest) = got.split_at(AROUND);
        let (written, after) = rest.split_at(want.len());
        same(what, written, want);
        let mut others = before.iter().chain(after);
        assert!(others.all(|&value| value == SENTINEL), "{what}: more was written");
        if let Some(handle) = handle {
            self.arena.clone().fill_zero(stream)?;
            let read = handle.to_f32(stream)?;
            assert!(read.iter().all(|&value| value == 0.0), "{what}: the handle is a copy");
        }
        Ok(())
    }
}

fn in_place(stream: &Stream) -> Result<()> {
    for dtype in [DType::Bf16, DType::F32] {
        for tail in [0, 3] {
            let what = |name: &str| format!("{name} in {dtype}, tail {tail}");
            let numbers = Numbers::new(&[2, 0, 5], tail, 21);
            let model = Model::new(stream, &numbers, dtype, ParamLayout::Packed)?;
            let rows = numbers.rows;
            let mut y = Lent::new(stream, &[rows, N], dtype)?;
            let mut dx = Lent::new(stream, &[rows, K], dtype)?;
            let mut dscales = Lent::new(stream, &[rows], DType::F32)?;
            let (x, splits) = (&model.x, &model.splits);
            let plain = ForwardOptions::default();
            drop(model.layer.forward_into(stream, x, splits, plain, &mut y.view)?);
            y.check(stream, &what("y"), &numbers.y(), None)?;

            let (_, saved) = model.layer.forward(stream, x, splits, model.row_scaled())?;
            let options = BackwardOptions {
                dx: RowSink::Into(&mut dx.view),
                dscales: RowSink::Into(&mut dscales.view),
                ..BackwardOptions::default()
            };
            let grads = model.layer.backward_with(stream, saved, &model.dy, options)?;
            dx.check(stream, &what("dx"), &numbers.dx(), grads.dx.as_ref())?;
            let handle = grads.dscales.as_ref();
            dscales.check(stream, &what("dscales"), &numbers.dscales(), handle)?;
        }
    }
    Ok(())
}

/// Every result of forward and backward in new tensors, and of `numbers`.
fn check_step(
    stream: &Stream,
    what: &str,
    numbers: &Numbers,
    dtype: DType,
    layout: ParamLayout,
) -> Result<()> {
    let model = Model::new(stream, numbers, dtype, layout)?;
    let live = |tensor: &Tensor, columns: usize| -> Result<Vec<f32>> {
        Ok(tensor.to_f32(stream)?.into_iter().take(numbers.live_rows() * columns).collect())
    };
    let (y, saved) = model.forward(stream)?;
    same(format!("{what}: y"), &live(&y, N)?, &numbers.y());
    let grads = model.layer.backward(stream, saved, &model.dy)?;
    same(format!("{what}: dx"), &live(&grads.dx, K)?, &numbers.dx());
    same(format!("{what}: dw"), &read(stream, &grads.dw)?, &numbers.dw());
    same(format!("{what}: db"), &read(stream, &grads.db.expect("a bias"))?, &numbers.db());
    let options = model.row_scaled();
    let (_, saved) = model.layer.forward(stream, &model.x, &model.splits, options)?;
    let dscales = model.layer.backward(stream, saved, &model.dy)?.dscales.expect("row scales");
    same(format!("{what}: dscales"), &live(&dscales, 1)?, &numbers.dscales());
    Ok(())
}

fn one_group(stream: &Stream) -> Result<()> {
    let numbers = Numbers::new(&[9], 1, 22);
    for (layout, dtype) in LAYOUTS.into_iter().flat_map(|l| [(l, DType::Bf16), (l, DType::F32)]) {
        check_step(stream, &format!("{layout:?} {dtype}"), &numbers, dtype, layout)?;
    }
    Ok(())
}

/// With tokens up to the very end of the buffer, and with none. Outputs of experts without rows are
/// zeros where they replace something, and what they were where they add to it.
fn empty_experts(stream: &Stream) -> Result<()> {
    for (layout, splits) in LAYOUTS.into_iter().flat_map(|l| [(l, [3, 0, 0]), (l, [0, 0, 0])]) {
        let what = format!("{layout:?} {splits:?}");
        let numbers = Numbers::new(&splits, 0, 23);
        check_step(stream, &what, &numbers, DType::Bf16, layout)?;
        let model = Model::new(stream, &numbers, DType::Bf16, layout)?;
        for (before, number) in [(f32::NAN, 0), (2.0, 1)] {
            let part = |shape: &[usize]| {
                let values = vec![before; 3 * shape.iter().product::<usize>()];
                GroupedTensor::from_f32(stream, layout, 3, shape, DType::F32, &values)
            };
            let (mut dw, mut db) = (part(&[N, K])?, part(&[N])?);
            let options = BackwardOptions {
                dw: GradSink::microbatch(&mut dw, number).into(),
                db: Some(GradSink::microbatch(&mut db, number)),
                ..BackwardOptions::default()
            };
            model.step(stream, options)?;
            let kept = if number == 0 { 0.0 } else { before };
            let want = |gradient: Vec<f32>| -> Vec<f32> {
                gradient.into_iter().map(|value| value + kept).collect()
            };
            same(
                format!("{what}: dw, microbatch {number}"),
                &read(stream, &dw)?,
                &want(numbers.dw()),
            );
            same(
                format!("{what}: db, microbatch {number}"),
                &read(stream, &db)?,
                &want(numbers.db()),
            );
        }
    }
    Ok(())
}

fn many_experts(stream: &Stream) -> Result<()> {
    let splits: Vec<usize> = (0..70).map(|group| group % 3).collect();
    let numbers = Numbers::new(&splits, 1, 24);
    for layout in LAYOUTS {
        check_step(stream, &format!("{layout:?}"), &numbers, DType::Bf16, layout)?;
    }
    Ok(())
}

/// The product lies in the middle between two BF16 numbers; the bias lifts it over. Rounded before,
/// it would go down and stay there.
fn one_rounding(stream: &Stream) -> Result<()> {
    const STEP: f32 = 1.0 / 128.0; // from 1 to the next BF16 number
    let (rows, k) = (3, 8);
    let config = Config { groups: 1, in_features: k, out_features: N, dtype: DType::Bf16 };
    let columns = |first: f32, second: f32| {
        let mut values = vec![0.0; k];
        (values[0], values[1]) = (first, second);
        values
    };
    let x = columns(1.0, STEP / 2.0).repeat(rows);
    let weights = Tensor::from_f32(stream, &[1, N, k], DType::Bf16, &columns(1.0, 1.0).repeat(N))?;
    let weights = GroupedTensor::packed(weights)?;
    let bias =
        GroupedTensor::packed(Tensor::from_f32(stream, &[1, N], DType::Bf16, &[STEP / 4.0; N])?)?;
    let layer = GroupedLinear::new(stream, config, weights, Some(bias))?;
    let x = Tensor::from_f32(stream, &[rows, k], DType::Bf16, &x)?;
    let twice = Tensor::from_slice(stream, &[rows], &[2.0f32; 3])?;
    for bias in [BiasUse::Add, BiasUse::RowScaled(&twice)] {
        let options = ForwardOptions { bias, ..ForwardOptions::default() };
        let (y, _) = layer.forward(stream, &x, &Splits::host(&[rows])?, options)?;
        let y: Vec<f32> = y.to_vec::<bf16>(stream)?.into_iter().map(bf16::to_f32).collect();
        same(format!("{bias:?}"), &y, &vec![1.0 + STEP; rows * N]);
    }
    Ok(())
}

/// Sums whose last bits depend on the order of their terms. Each launch of the emulated GPU takes
/// its blocks and warps in another order.
fn same_bits(stream: &Stream) -> Result<()> {
    let mut numbers = Numbers::new(&[300, 0, 70], 1, 25);
    let mut generator = Generator::new(26);
    for values in [&mut numbers.x, &mut numbers.dy, &mut numbers.bias, &mut numbers.row_scales] {
        let live = values.iter_mut().filter(|value| !value.is_nan());
        live.for_each(|value| *value = generator.value());
    }
    let model = Model::new(stream, &numbers, DType::Bf16, ParamLayout::Packed)?;
    let live = numbers.live_rows();
    let run = || -> Result<Vec<Vec<u32>>> {
        let part = |shape: &[usize]| {
            let values = vec![0.0; 3 * shape.iter().product::<usize>()];
            GroupedTensor::from_f32(stream, ParamLayout::Packed, 3, shape, DType::F32, &values)
        };
        let (mut dw, mut db) = (part(&[N, K])?, part(&[N])?);
        let options = model.row_scaled();
        let (y, saved) = model.layer.forward(stream, &model.x, &model.splits, options)?;
        let options = BackwardOptions {
            dw: GradSink::Accumulate(&mut dw).into(),
            db: Some(GradSink::Accumulate(&mut db)),
            ..BackwardOptions::default()
        };
        let grads = model.layer.backward_with(stream, saved, &model.dy, options)?;
        let dscales = grads.dscales.expect("row scales").to_f32(stream)?;
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
        Ok(vec![
            bits(&y.to_f32(stream)?[..live * N]),
            bits(&read(stream, &dw)?),
            bits(&read(stream, &db)?),
            bits(&dscales[..live]),
        ])
    };
    let first = run()?;
    for _ in 0..3 {
        assert!(run()? == first, "two runs differ");
    }
    Ok(())
}
