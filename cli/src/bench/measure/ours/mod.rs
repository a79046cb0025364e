//! This library as an engine.

mod base;
mod check;
mod copy;
mod fill;
mod layers;
mod products;
mod quantized;
mod quantizers;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use grouped_linear::plan::{KernelChoice, KernelRole};
use grouped_linear::{DType, Device, Error, Graph, KernelTime, Stream, Tensor};

use self::base::{Base, Data};
pub use self::fill::repeat;
use self::quantized::Sets;
use super::engine::{Answer, Call, Contenders, Engine};
use super::record::{COPY, Check, Quantity};
use super::task::{Pace, Section, Task};
use crate::bench::choices::RecipeChoice;
use crate::bench::model::product::Pass;
use crate::bench::suite::Shape;

/// Bytes that are written to empty the L2 cache: this takes a GPU longer than the host needs to
/// queue a call, so that no launch latency is timed.
pub const FLUSH_BYTES: usize = 512 << 20;

/// What the GPU may take for calls of which the host's time is measured.
const HOST_TIME: Duration = Duration::from_millis(20);
/// Calls that are timed however long they take.
const LEAST_HOST_CALLS: u32 = 5;

/// What a section can do.
trait Work {
    /// Contenders of a task.
    fn contenders(&self, task: Task, quantity: Quantity) -> Vec<String>;

    /// Memory for what the task writes, and whatever else it needs before its first call.
    fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()>;

    /// Adds one call to the stream.
    fn run(&mut self, stream: &Stream, task: Task, contender: &str) -> grouped_linear::Result<()>;

    /// Makes memory of results ready for a comparison; how many calls it is then made after.
    fn clear(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<u32>;

    /// Compares what those calls computed with FP64.
    fn compare(&self, stream: &Stream, task: Task, contender: &str) -> Result<Vec<Check>>;
}

/// This library on a device.
pub struct Ours {
    stream: Stream,
    flush: Option<Tensor>,
    data: Data,
    /// The last shape's operands, which its sections share.
    base: Option<Base>,
    work: Option<Box<dyn Work>>,
    task: Option<Task>,
    /// Those of the task that have been replayed.
    graphs: Vec<Recorded>,
    recipes: Vec<RecipeChoice>,
    kernel: KernelChoice,
}

/// A contender's graph.
struct Recorded {
    contender: String,
    graph: Graph,
}

impl Ours {
    /// The library on `device`, which runs what multiplies with one of `recipes`.
    /// Data depend on `seed` alone. An L2 cache is emptied by writing `flush_bytes`.
    pub fn new(
        device: &Device,
        seed: u64,
        recipes: &[RecipeChoice],
        flush_bytes: usize,
    ) -> Result<Self> {
        let stream = device.stream()?;
        let flush = match flush_bytes {
            0 => None,
            bytes => Some(Tensor::empty(&stream, &[bytes], DType::U8)?),
        };
        let (data, recipes) = (Data::new(seed), recipes.to_vec());
        let (base, work, task, graphs) = (None, None, None, Vec::new());
        let kernel = KernelChoice::Auto;
        Ok(Self { stream, flush, data, base, work, task, graphs, recipes, kernel })
    }

    /// The same with another kernel of products than the library's choice.
    pub fn with_kernel(self, kernel: KernelChoice) -> Self {
        Self { kernel, ..self }
    }

    fn build(&mut self, section: Section, shape: &Shape) -> Result<Box<dyn Work>, Error> {
        match section {
            Section::Copy => {
                self.base = None; // it takes no part
                Ok(Box::new(copy::Copy::new(&self.stream, Task::Copy.bytes(shape))?))
            }
            Section::Bf16 => Ok(Box::new(products::Bf16::new(self.base(shape)?, self.kernel))),
            Section::Fp8 => self.quantized(shape, quantized::FP8),
            Section::Mxfp8 => self.quantized(shape, quantized::MXFP8),
            Section::Nvfp4 => self.quantized(shape, quantized::NVFP4),
            Section::Quantize => Ok(Box::new(quantizers::Quantizers::new(self.base(shape)?))),
            Section::Layer(kind) => {
                let (base, with_bf16) =
                    (self.base(shape)?, self.recipes.contains(&RecipeChoice::Bf16));
                Ok(Box::new(layers::Layers::new(&self.stream, base, kind, self.kernel, with_bf16)?))
            }
        }
    }

    fn quantized(&mut self, shape: &Shape, sets: Sets) -> Result<Box<dyn Work>, Error> {
        let base = self.base(shape)?;
        Ok(Box::new(quantized::Quantized::new(
            &self.stream,
            base,
            sets,
            &self.recipes,
            self.kernel,
        )?))
    }

    /// The shape's operands, those of the section before if it had the same shape.
    fn base(&mut self, shape: &Shape) -> Result<Base, Error> {
        let base = match self.base.take() {
            Some(base) if base.shape == *shape => base,
            former => {
                drop(former); // before the next is made
                Base::new(&self.stream, &mut self.data, shape)?
            }
        };
        Ok(self.base.insert(base).clone())
    }

    /// Multiplies for so long, until the clock of the GPU is the sustained one.
    pub fn warm(&mut self, time: Duration) -> Result<()> {
        let (shape, task) = (Shape::unnamed(vec![8192], 8192, 8192), Task::Product(Pass::Fprop));
        let base = Base::new(&self.stream, &mut self.data, &shape)?;
        let mut work = products::Bf16::new(base, KernelChoice::Auto);
        work.open(&self.stream, task)?;
        let start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..20 {
                work.run(&self.stream, task, "bf16")?;
            }
            self.stream.synchronize()?;
        }
        Ok(())
    }

    /// The section's work, with memory for the task.
    fn open(&mut self, task: Task) -> Result<&mut Box<dyn Work>, Fault> {
        let Some(work) = &mut self.work else {
            return Err(Fault::Other(anyhow::anyhow!("no operands are ready")));
        };
        if self.task != Some(task) {
            self.graphs.clear();
            self.task = None;
            work.open(&self.stream, task)?;
            self.task = Some(task);
        }
        Ok(work)
    }

    fn call(&mut self, call: Call<'_>, pace: Pace) -> Result<f64, Fault> {
        let Call { task, contender, replay, quantity } = call;
        self.open(task)?;
        if replay {
            self.record(task, contender)?;
        }
        let Self { stream, flush, work: Some(work), graphs, .. } = self else {
            return Err(Fault::Other(anyhow::anyhow!("no operands are ready")));
        };
        let graph = graphs.iter().find(|own| replay && own.contender == contender);
        let mut once = || match graph {
            Some(Recorded { graph, .. }) => graph.launch(stream),
            None => work.run(stream, task, contender),
        };
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        // A copy has no kernels of ours; it is all that its call does.
        let kernels_alone = quantity == Quantity::Kernel && contender != COPY;
        match pace {
            Pace::Single(pause) => {
                if !pause.is_zero() {
                    stream.synchronize()?;
                    std::thread::sleep(pause);
                }
                if let Some(flush) = flush {
                    flush.fill_zero(stream)?;
                }
                if kernels_alone {
                    return Ok(us(counting(task, &stream.kernel_times(|_| once())?)?));
                }
                let start = stream.record()?;
                once()?;
                let end = stream.record()?;
                stream.synchronize()?;
                Ok(us(start.elapsed_until(&end)?))
            }
            Pace::InARow(calls) if kernels_alone => {
                let times = stream.kernel_times(|_| (0..calls).try_for_each(|_| once()))?;
                Ok(us(counting(task, &times)?) / f64::from(calls))
            }
            Pace::InARow(calls) => {
                let start = stream.record()?;
                for _ in 0..calls {
                    once()?;
                }
                let end = stream.record()?;
                stream.synchronize()?;
                Ok(us(start.elapsed_until(&end)?) / f64::from(calls))
            }
            Pace::Host(calls) => {
                let start = stream.record()?;
                once()?;
                let end = stream.record()?;
                stream.synchronize()?;
                // A few milliseconds are enough: the GPU has to work through all calls.
                let fit = HOST_TIME.as_secs_f64() / start.elapsed_until(&end)?.as_secs_f64();
                let calls = calls.min((fit as u32).max(LEAST_HOST_CALLS));
                let start = Instant::now();
                for _ in 0..calls {
                    once()?;
                }
                let time = start.elapsed();
                stream.synchronize()?;
                Ok(us(time) / f64::from(calls))
            }
        }
    }

    /// Clears results and runs the call, or its graph, as often as the comparison wants.
    fn run_to_compare(&mut self, call: Call<'_>) -> Result<(), Fault> {
        let Call { task, contender, replay, .. } = call;
        self.open(task)?;
        if replay {
            self.record(task, contender)?;
        }
        let Self { stream, work: Some(work), graphs, .. } = self else {
            return Err(Fault::Other(anyhow::anyhow!("no operands are ready")));
        };
        let graph = graphs.iter().find(|own| replay && own.contender == contender);
        for _ in 0..work.clear(stream, task)? {
            match graph {
                Some(Recorded { graph, .. }) => graph.launch(stream)?,
                None => work.run(stream, task, contender)?,
            }
        }
        stream.synchronize()?;
        Ok(())
    }

    /// Records a call, unless the contender has a graph.
    fn record(&mut self, task: Task, contender: &str) -> Result<(), Fault> {
        let known = |recorded: &Recorded| recorded.contender == contender;
        if self.graphs.iter().any(known) {
            return Ok(());
        }
        let Some(work) = &mut self.work else { return Ok(()) };
        // Modules are loaded and scratch memory has its size behind a plain call.
        work.run(&self.stream, task, contender)?;
        self.stream.synchronize()?;
        let graph = self.stream.capture(|stream| work.run(stream, task, contender))?;
        self.graphs.push(Recorded { contender: contender.to_owned(), graph });
        Ok(())
    }
}

impl Engine for Ours {
    fn prepare(&mut self, section: Section, shape: &Shape) -> Result<Answer<()>> {
        // Former operands go first, so that two sections never lie in memory together.
        self.graphs.clear();
        (self.task, self.work) = (None, None);
        match self.build(section, shape) {
            Ok(work) => {
                self.work = Some(work);
                self.stream.synchronize()?;
                Ok(Answer::Done(()))
            }
            Err(error) => refusal(error.into()),
        }
    }

    fn contenders(&mut self, task: Task, quantity: Quantity) -> Result<Contenders> {
        let work = self.work.as_ref().context("no operands are ready")?;
        Ok(Contenders { names: work.contenders(task, quantity), absent: Vec::new() })
    }

    fn check(&mut self, call: Call<'_>) -> Result<Answer<Vec<Check>>> {
        if let Err(fault) = self.run_to_compare(call) {
            return refusal(fault);
        }
        let work = self.work.as_ref().context("no operands are ready")?;
        match work.compare(&self.stream, call.task, call.contender) {
            Ok(checks) => Ok(Answer::Done(checks)),
            // What has no memory for its comparison is not timed either.
            Err(error) => refusal(match error.downcast::<Error>() {
                Ok(error) => Fault::Library(error),
                Err(error) => Fault::Other(error),
            }),
        }
    }

    fn time(&mut self, call: Call<'_>, pace: Pace) -> Result<Answer<f64>> {
        match self.call(call, pace) {
            Ok(us) => Ok(Answer::Done(us)),
            Err(error) => refusal(error),
        }
    }
}

/// What those of the kernels take that count.
fn counting(task: Task, times: &[KernelTime]) -> Result<Duration, Fault> {
    let counted = times.iter().filter(|kernel| counts(task, kernel.role));
    let time: Duration = counted.map(|kernel| kernel.time).sum();
    match time.is_zero() {
        true => Err(Fault::Other(anyhow::anyhow!("no kernel counts: {times:?}"))),
        false => Ok(time),
    }
}

/// Whether a kernel is the task itself: of a quantizer all but its set-up are, of a product the one
/// that multiplies, and the one that aligns an operand for it.
fn counts(task: Task, role: KernelRole) -> bool {
    match task {
        Task::Quantize(_) => role != KernelRole::PointerSetup,
        _ => matches!(
            role,
            KernelRole::GemmSimt(_)
                | KernelRole::GemmSm90(..)
                | KernelRole::Align
                | KernelRole::GemmFp8(_)
                | KernelRole::GemmSm100(_)
        ),
    }
}

/// Why something did not run.
enum Fault {
    /// The library said so.
    Library(Error),
    /// Something else.
    Other(anyhow::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

/// What the library cannot do, or has no memory for, is recorded; all else is a failure.
fn refusal<T>(fault: Fault) -> Result<Answer<T>> {
    match fault {
        Fault::Library(error) if error.is_unsupported() || error.is_out_of_memory() => {
            Ok(Answer::Refused(error.to_string()))
        }
        Fault::Library(error) => Err(error.into()),
        Fault::Other(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::quantizer;

    #[test]
    fn kernels_that_count_are_not_the_set_up() {
        let quantize = quantizer::all().map(Task::Quantize).next().unwrap();
        let product = Task::Product(Pass::Wgrad);
        for (role, of_quantizer) in [
            (KernelRole::PointerSetup, false),
            (KernelRole::AmaxTiles, true),
            (KernelRole::GroupScales, true),
            (KernelRole::Nvfp4RowAmax, true),
            (KernelRole::Nvfp4GroupAmax, true),
        ] {
            assert_eq!(counts(quantize, role), of_quantizer, "{role:?}");
            assert!(!counts(product, role), "{role:?}");
        }
    }
}
