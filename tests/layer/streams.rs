//! Two streams of one device, each with its own scratch memory and its own failures.

use std::thread;

use grouped_linear::{DType, Device, ParamLayout, Result, Stream};

use crate::engines::Test;
use crate::exact::{K, Model, N, Numbers, read, same};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("two streams by turns do not disturb each other", |e, s| by_turns(s).expect(e)),
    ("two streams on two threads do not disturb each other", |e, s| {
        on_threads(s.device()).expect(e);
    }),
];

/// Steps of each stream.
const STEPS: u64 = 3;

/// One forward and backward of a problem that the number picks, read afterwards.
fn step(stream: &Stream, number: u64) -> Result<()> {
    let splits = [[3, 0, 5], [0, 9, 1], [40, 0, 0], [1, 1, 130]][(number % 4) as usize];
    let numbers = Numbers::new(&splits, 1, 40 + number);
    let model = Model::new(stream, &numbers, DType::Bf16, ParamLayout::Discrete)?;
    let (y, saved) = model.forward(stream)?;
    let grads = model.layer.backward(stream, saved, &model.dy)?;
    let live = numbers.live_rows();
    same(format!("y of step {number}"), &y.to_f32(stream)?[..live * N], &numbers.y());
    same(format!("dx of step {number}"), &grads.dx.to_f32(stream)?[..live * K], &numbers.dx());
    same(format!("dw of step {number}"), &read(stream, &grads.dw)?, &numbers.dw());
    let db = grads.db.expect("a bias");
    same(format!("db of step {number}"), &read(stream, &db)?, &numbers.db());
    Ok(())
}

/// Launches of one between those of the other, before either is waited for.
fn by_turns(stream: &Stream) -> Result<()> {
    let other = stream.device().stream()?;
    let numbers = [Numbers::new(&[3, 0, 5], 1, 51), Numbers::new(&[0, 9, 1], 0, 52)];
    let streams = [stream, &other];
    let model = |index: usize| {
        Model::new(streams[index], &numbers[index], DType::Bf16, ParamLayout::Packed)
    };
    let models = [model(0)?, model(1)?];
    let (y0, saved0) = models[0].forward(stream)?;
    let (y1, saved1) = models[1].forward(&other)?;
    let grads1 = models[1].layer.backward(&other, saved1, &models[1].dy)?;
    let grads0 = models[0].layer.backward(stream, saved0, &models[0].dy)?;
    for (index, (y, grads)) in [(y0, grads0), (y1, grads1)].into_iter().enumerate() {
        let (stream, numbers) = (streams[index], &numbers[index]);
        let live = numbers.live_rows();
        same(format!("y of stream {index}"), &y.to_f32(stream)?[..live * N], &numbers.y());
        let dx = grads.dx.to_f32(stream)?;
        same(format!("dx of stream {index}"), &dx[..live * K], &numbers.dx());
        same(format!("dw of stream {index}"), &read(stream, &grads.dw)?, &numbers.dw());
        let db = grads.db.expect("a bias");
        same(format!("db of stream {index}"), &read(stream, &db)?, &numbers.db());
    }
    Ok(())
}

fn on_threads(device: &Device) -> Result<()> {
    let run = |first: u64| -> Result<()> {
        let stream = device.stream()?;
        (0..STEPS).try_for_each(|number| step(&stream, first + number))
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| run(2));
        let here = run(0);
        here.and(other.join().expect("the other thread failed"))
    })
}
