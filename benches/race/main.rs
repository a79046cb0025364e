//! Times single GPU operations on request, so that another program can alternate with it in one
//! run: `race.py` drives it over a pipe, in lock step with its own measurements.
//!
//! Requests, one per line on standard input, each answered with one line:
//!
//! ```text
//! shape T N K m_0,m_1,…   allocate and fill operands     → ok
//! time fprop|dgrad|wgrad|wgrad_f32                       → microseconds of one call, L2 flushed
//! check fprop|dgrad|wgrad                                → worst relative error of sampled elements
//! low T N K m_0,m_1,…                                    → ok, for what follows
//! time_low NAME                                          → the same, in low precision
//! alone NAME PAUSE CALLS                                 → microseconds of CALLS calls, each behind
//!                                                          a pause of PAUSE microseconds
//! loop NAME CALLS                                        → microseconds a call of CALLS in a row
//! ```
//!
//! Names in low precision: `quantize.{tensor,vector}.{row,column,both}` (of X),
//! `quantize.square.both` (of W), `quantize.{mxfp8,nvfp4,hadamard}.{row,column,both}.{codes,exact}` (of
//! X), `quantize_{dy,w}.{tensor,block}` (both copies, as layers make them),
//! `{fprop,dgrad,wgrad}.{fast,tensor,block}` (products alone), `wgrad_f32.block`,
//! `layer.{bf16,current,block,mxfp8,nvfp4}` (forward and backward with everything).

mod low_precision;
mod random;

use std::io::{BufRead, Write};
use std::time::Duration;

use grouped_linear::functional::{
    DgradArgs, FpropArgs, GemmOptions, WgradArgs, dgrad, fprop, wgrad,
};
use grouped_linear::{DType, Device, Error, Factor, GroupedTensor, Result, Splits, Stream, Tensor};

use self::low_precision::LowPrecision;
use self::random::{SplitMix, random};

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        // `cargo bench` and `cargo test --benches` start this program on machines without a GPU
        // too.
        Err(error) => return println!("race: skipped: {error}"),
    };
    if let Err(error) = serve(&device) {
        println!("error {error}");
    }
}

fn serve(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut flush = Tensor::empty(&stream, &[256 << 20], DType::Bf16)?;
    let mut race: Option<Race> = None;
    let mut low: Option<LowPrecision> = None;
    for line in std::io::stdin().lock().lines().map_while(|line| line.ok()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match (words.as_slice(), &mut race) {
            (["shape", t, n, k, splits], _) => {
                drop((race.take(), low.take())); // free the former operands first
                race = Some(Race::new(&stream, t, n, k, splits)?);
                "ok".to_string()
            }
            (["time", pass], Some(race)) => {
                format!("{:.3}", race.time(&stream, pass, &mut flush)?)
            }
            (["low", t, n, k, splits], _) => {
                drop((race.take(), low.take()));
                low = Some(LowPrecision::new(&stream, t, n, k, splits)?);
                "ok".to_string()
            }
            (["time_low", name], _) => match &mut low {
                Some(low) => format!("{:.3}", timed(&stream, &mut flush, |s| low.run(s, name))?),
                None => "error no shape".to_string(),
            },
            (["alone", name, pause, calls], _) => match &mut low {
                Some(low) => alone(&stream, low, name, number(pause), number(calls), &mut flush)?,
                None => "error no shape".to_string(),
            },
            (["loop", name, calls], _) => match &mut low {
                Some(low) => format!("{:.3}", in_a_row(&stream, low, name, number(calls))?),
                None => "error no shape".to_string(),
            },
            (["check", pass], Some(race)) => format!("{:.3e}", race.check(&stream, pass)?),
            _ => format!("error unknown request: {line}"),
        };
        println!("{answer}");
        // The other side waits for the answer; a closed pipe ends the loop at the next read.
        let _ = std::io::stdout().flush();
    }
    Ok(())
}

/// Microseconds of one call on the GPU.
fn timed(
    stream: &Stream,
    flush: &mut Tensor,
    call: impl FnOnce(&Stream) -> Result<()>,
) -> Result<f64> {
    // Writing half a gigabyte empties the L2 cache, and takes the GPU longer than the host needs to
    // queue the call, so that no launch latency is timed.
    flush.fill_zero(stream)?;
    let start = stream.record()?;
    call(stream)?;
    let end = stream.record()?;
    stream.synchronize()?;
    Ok(start.elapsed_until(&end)?.as_secs_f64() * 1e6)
}

/// Times of single calls, each after the GPU has been idle for `pause` microseconds; three that warm
/// up come first and do not count.
fn alone(
    stream: &Stream,
    low: &mut LowPrecision,
    name: &str,
    pause: usize,
    calls: usize,
    flush: &mut Tensor,
) -> Result<String> {
    let mut times = Vec::new();
    for call in 0..calls + 3 {
        std::thread::sleep(Duration::from_micros(pause as u64));
        let time = timed(stream, flush, |stream| low.run(stream, name))?;
        if call >= 3 {
            times.push(format!("{time:.3}"));
        }
    }
    Ok(times.join(" "))
}

/// Microseconds a call of `calls` calls without a pause between them, after three that warm up.
fn in_a_row(stream: &Stream, low: &mut LowPrecision, name: &str, calls: usize) -> Result<f64> {
    for _ in 0..3 {
        low.run(stream, name)?;
    }
    let start = stream.record()?;
    for _ in 0..calls {
        low.run(stream, name)?;
    }
    let end = stream.record()?;
    stream.synchronize()?;
    Ok(start.elapsed_until(&end)?.as_secs_f64() * 1e6 / calls as f64)
}

struct Race {
    splits: Splits,
    offsets: Vec<usize>,
    x: Tensor,
    dy: Tensor,
    w: GroupedTensor,
    y: Tensor,
    dx: Tensor,
    dw: GroupedTensor,
    dw_f32: GroupedTensor,
}

impl Race {
    fn new(stream: &Stream, t: &str, n: &str, k: &str, splits: &str) -> Result<Self> {
        let (t, n, k) = (number(t), number(n), number(k));
        let counts: Vec<usize> = splits.split(',').map(number).collect();
        let groups = counts.len();
        let mut offsets = vec![0];
        offsets.extend(counts.iter().scan(0, |sum, m| {
            *sum += m;
            Some(*sum)
        }));
        let on_device: Vec<i64> = counts.iter().map(|&m| m as i64).collect();
        let w = random(stream, &[groups, n, k], 2, (k as f32).powf(-0.5))?;
        Ok(Self {
            splits: Splits::device(Tensor::from_slice(stream, &[groups], &on_device)?)?,
            offsets,
            x: random(stream, &[t, k], 1, 1.0)?,
            dy: random(stream, &[t, n], 3, 1.0)?,
            w: GroupedTensor::packed(w)?,
            y: Tensor::zeros(stream, &[t, n], DType::Bf16)?,
            dx: Tensor::zeros(stream, &[t, k], DType::Bf16)?,
            dw: GroupedTensor::packed(Tensor::zeros(stream, &[groups, n, k], DType::Bf16)?)?,
            dw_f32: GroupedTensor::packed(Tensor::zeros(stream, &[groups, n, k], DType::F32)?)?,
        })
    }

    fn run(&mut self, stream: &Stream, pass: &str) -> Result<()> {
        let options = GemmOptions::default();
        let (x, dy, weights, splits) = (&self.x, &self.dy, &self.w, &self.splits);
        match pass {
            "fprop" => {
                let args =
                    FpropArgs { x, weights, splits, bias: None, bias_row_scales: None, options };
                fprop(stream, &args, &mut self.y)
            }
            "dgrad" => dgrad(stream, &DgradArgs { dy, weights, splits, options }, &mut self.dx),
            "wgrad" => wgrad(stream, &WgradArgs { dy, x, splits, options }, &mut self.dw),
            _ => {
                let options = GemmOptions { beta: Factor::Value(1.0), ..options };
                wgrad(stream, &WgradArgs { dy, x, splits, options }, &mut self.dw_f32)
            }
        }
    }

    fn time(&mut self, stream: &Stream, pass: &str, flush: &mut Tensor) -> Result<f64> {
        timed(stream, flush, |stream| self.run(stream, pass))
    }

    /// Computes sampled elements in FP64 from what the device holds.
    fn check(&mut self, stream: &Stream, pass: &str) -> Result<f64> {
        let (n, k) = (self.dy.shape()[1], self.x.shape()[1]);
        // A sample of wgrad reads all rows of a group.
        let samples = if pass == "wgrad" { 4 } else { 48 };
        self.run(stream, pass)?;
        let mut worst = 0f64;
        let mut random = SplitMix(7);
        for _ in 0..samples {
            let group = self.non_empty_group(random.below(self.offsets.len() - 1));
            let (start, end) = (self.offsets[group], self.offsets[group + 1]);
            let row = start + random.below(end - start);
            let w = self.w.group(group)?;
            let (got, want) = match pass {
                "fprop" => {
                    let column = random.below(n);
                    let x = row_of(stream, &self.x, row)?;
                    let w = row_of(stream, &w, column)?;
                    (row_of(stream, &self.y, row)?[column], dot(&x, &w))
                }
                "dgrad" => {
                    let column = random.below(k);
                    let dy = row_of(stream, &self.dy, row)?;
                    let w: Vec<f64> =
                        w.to_f32(stream)?.chunks(k).map(|r| f64::from(r[column])).collect();
                    (row_of(stream, &self.dx, row)?[column], dot(&dy, &w))
                }
                _ => {
                    let (i, j) = (random.below(n), random.below(k));
                    let column = |tensor: &Tensor, index: usize| -> Result<Vec<f64>> {
                        let width = tensor.shape()[1];
                        let rows = tensor.narrow(start, end - start)?.to_f32(stream)?;
                        Ok(rows.chunks(width).map(|r| f64::from(r[index])).collect())
                    };
                    let want = dot(&column(&self.dy, i)?, &column(&self.x, j)?);
                    (row_of(stream, &self.dw.group(group)?, i)?[j], want)
                }
            };
            let scale = want.0.abs().max(want.1.sqrt());
            worst = worst.max((got - want.0).abs() / scale);
        }
        Ok(worst)
    }

    fn non_empty_group(&self, from: usize) -> usize {
        let groups = self.offsets.len() - 1;
        (0..groups)
            .map(|step| (from + step) % groups)
            .find(|&group| self.offsets[group + 1] > self.offsets[group])
            .unwrap_or(0)
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or(0)
}

/// The product and the sum of its squared terms, which is the scale of its rounding.
fn dot(a: &[f64], b: &[f64]) -> (f64, f64) {
    a.iter()
        .zip(b)
        .fold((0.0, 0.0), |(sum, squares), (a, b)| (sum + a * b, squares + (a * b) * (a * b)))
}

fn row_of(stream: &Stream, tensor: &Tensor, row: usize) -> Result<Vec<f64>, Error> {
    Ok(tensor.index(row)?.to_f32(stream)?.into_iter().map(f64::from).collect())
}
