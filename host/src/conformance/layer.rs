//! Forward and backward of a layer with all that can be asked of them: sinks, delay, buffers,
//! graphs.

use super::cases::{BiasCase, Case, Operation};
use super::data::Generator;
use super::layer_cases::SinkCase;
use super::oracle::Inputs;
use super::run::{Operands, Output, grouped, output, read_bits, read_groups_bits};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::grouped_linear::{
    BackwardOptions, BiasUse, Config, ForwardOptions, GradSink, GroupedLinear, RowSink, Saved,
    SelectedGrads, Wgrad,
};
use crate::splits::Splits;
use crate::tensor::{DType, GroupedTensor, Tensor};

/// A tensor of the caller and what it holds before.
struct Buffer<T> {
    tensor: T,
    before: Vec<f32>,
}

/// The caller's tensors; `None` where the layer makes its own or gives nothing.
#[derive(Default)]
struct Buffers {
    y: Option<Buffer<Tensor>>,
    dx: Option<Buffer<Tensor>>,
    dw: Option<Buffer<GroupedTensor>>,
    db: Option<Buffer<GroupedTensor>>,
    dscales: Option<Buffer<Tensor>>,
}

/// One layer case on one stream.
struct Run<'a> {
    case: &'a Case,
    operands: &'a Operands,
    layer: GroupedLinear,
    buffers: Buffers,
}

/// Computes the case once, in a graph if `captured`.
pub(super) fn outputs(
    case: &Case,
    inputs: &Inputs,
    operands: &Operands,
    stream: &Stream,
    generator: &mut Generator,
    captured: bool,
) -> Result<Vec<Output>> {
    let (groups, n, k) = (inputs.groups(), case.out_features, case.in_features);
    let config = Config { groups, in_features: k, out_features: n, dtype: case.input };
    let bias = (case.bias != BiasCase::None).then(|| operands.bias.clone());
    let layer = GroupedLinear::new(stream, config, operands.weights.clone(), bias)?;
    let buffers = Buffers::new(case, inputs, stream, generator)?;
    let mut run = Run { case, operands, layer, buffers };
    let (y, grads) = if captured { run.replayed(inputs, stream)? } else { run.eager(stream)? };
    run.read(stream, &y, &grads)
}

impl Run<'_> {
    fn forward_options(&self) -> ForwardOptions<'_> {
        let bias = match self.case.bias {
            BiasCase::Left => BiasUse::Leave,
            _ if self.case.row_scaled() => BiasUse::RowScaled(&self.operands.row_scales),
            _ => BiasUse::Add,
        };
        ForwardOptions { bias, kernel: self.case.kernel, ..ForwardOptions::default() }
    }

    fn forward(&self, stream: &Stream) -> Result<(Tensor, Saved)> {
        let Operands { x, splits, .. } = self.operands;
        let options = self.forward_options();
        match &self.buffers.y {
            None => self.layer.forward(stream, x, splits, options),
            Some(buffer) => {
                let mut y = buffer.tensor.clone();
                let saved = self.layer.forward_into(stream, x, splits, options, &mut y)?;
                Ok((y, saved))
            }
        }
    }

    fn backward(&mut self, stream: &Stream, saved: Saved) -> Result<SelectedGrads> {
        let Buffers { dx, dw, db, dscales, .. } = &mut self.buffers;
        let sink = self.case.layer.sink;
        let options = BackwardOptions {
            dx: row_sink(dx),
            dw: match self.case.layer.delayed {
                true => Wgrad::Delayed,
                false => Wgrad::Now(sink_into(sink, dw)),
            },
            db: Some(sink_into(sink, db)),
            dscales: row_sink(dscales),
        };
        self.layer.backward_with(stream, saved, &self.operands.dy, options)
    }

    /// The delayed gradient of the weights, if there is one.
    fn finish(&mut self, stream: &Stream, grads: &mut SelectedGrads) -> Result<()> {
        let Some(mut pending) = grads.pending.take() else { return Ok(()) };
        let sink = sink_into(self.case.layer.sink, &mut self.buffers.dw);
        grads.dw = Some(pending.run(stream, sink)?);
        match pending.run(stream, GradSink::New) {
            Err(error) if error.is_invalid_argument() && pending.bytes() == 0 => Ok(()),
            _ => Err(Error::invalid("a delayed gradient must run once, and keep nothing then")),
        }
    }

    fn eager(&mut self, stream: &Stream) -> Result<(Tensor, SelectedGrads)> {
        let (y, saved) = self.forward(stream)?;
        let mut grads = self.backward(stream, saved)?;
        self.finish(stream, &mut grads)?;
        Ok((y, grads))
    }

    /// Forward, backward and the delayed gradient in a graph each, replayed with other splits
    /// before the case's own.
    fn replayed(&mut self, inputs: &Inputs, stream: &Stream) -> Result<(Tensor, SelectedGrads)> {
        // Loads the kernels and sizes the scratch memory.
        self.eager(stream)?;
        let mut forward = None;
        let first = stream.capture(|stream| {
            forward = Some(self.forward(stream)?);
            Ok(())
        })?;
        let Some((y, saved)) = forward else { return Err(Error::invalid("nothing was recorded")) };
        let mut grads = SelectedGrads::default();
        let second = stream.capture(|stream| {
            grads = self.backward(stream, saved)?;
            Ok(())
        })?;
        let third = match grads.pending {
            None => None,
            Some(_) => Some(stream.capture(|stream| self.finish(stream, &mut grads))?),
        };
        for turn in [1, 2, 0] {
            self.turn_splits(inputs, stream, turn)?;
            self.buffers.fill(stream)?;
            for graph in [&first, &second].into_iter().chain(&third) {
                graph.launch(stream)?;
            }
        }
        Ok((y, grads))
    }

    /// Writes the case's splits into the splits on the device, turned by some groups.
    fn turn_splits(&self, inputs: &Inputs, stream: &Stream, turn: usize) -> Result<()> {
        let mut counts = inputs.splits.clone();
        let turn = turn % counts.len().max(1);
        counts.rotate_left(turn);
        write_splits(&self.operands.splits, stream, &counts)
    }

    fn read(&self, stream: &Stream, y: &Tensor, grads: &SelectedGrads) -> Result<Vec<Output>> {
        let case = self.case;
        let Buffers { y: own_y, dx, dw, db, dscales } = &self.buffers;
        let accumulates = case.layer.sink.accumulates();
        let mut outputs = Vec::new();
        let mut rows =
            |operation, tensor: &Tensor, buffer: &Option<Buffer<Tensor>>| -> Result<()> {
                let before = buffer.as_ref().map(|own| own.before.clone());
                let read = read_bits(stream, tensor)?;
                outputs.push(output(operation, tensor.dtype(), before, read, false));
                Ok(())
            };
        let missing = || Error::invalid("backward gave a gradient too few or too many");
        let expected = |exists: bool, wanted: bool| {
            if exists == wanted { Ok(()) } else { Err(missing()) }
        };
        let has_db = !matches!(case.bias, BiasCase::None | BiasCase::Left);
        expected(grads.db.is_some(), has_db)?;
        expected(grads.dscales.is_some(), case.row_scaled())?;
        rows(Operation::Fprop, y, own_y)?;
        rows(Operation::Dgrad, grads.dx.as_ref().ok_or_else(missing)?, dx)?;
        if let Some(gradient) = &grads.dscales {
            rows(Operation::Dscales, gradient, dscales)?;
        }
        let mut groups = |operation, tensor: &GroupedTensor, buffer: &Option<Buffer<_>>| {
            let before = buffer.as_ref().map(|own: &Buffer<GroupedTensor>| own.before.clone());
            let read = read_groups_bits(stream, tensor)?;
            outputs.push(output(operation, tensor.dtype(), before, read, accumulates));
            Ok::<_, Error>(())
        };
        groups(Operation::Wgrad, grads.dw.as_ref().ok_or_else(missing)?, dw)?;
        if let Some(gradient) = &grads.db {
            groups(Operation::Dbias, gradient, db)?;
        }
        Ok(outputs)
    }
}

impl Buffers {
    fn new(
        case: &Case,
        inputs: &Inputs,
        stream: &Stream,
        generator: &mut Generator,
    ) -> Result<Self> {
        let (groups, n, k) = (inputs.groups(), case.out_features, case.in_features);
        let uses = case.layer;
        let mut buffers = Self::default();
        if uses.buffers {
            let mut rows = |columns: usize, shape: &[usize], dtype| -> Result<_> {
                let before = inputs.rows_before(columns, dtype, generator);
                let tensor = Tensor::from_f32(stream, shape, dtype, &before)?;
                Ok(Some(Buffer { tensor, before }))
            };
            buffers.y = rows(n, &[inputs.rows, n], case.output)?;
            buffers.dx = rows(k, &[inputs.rows, k], case.output)?;
            if case.row_scaled() {
                buffers.dscales = rows(1, &[inputs.rows], DType::F32)?;
            }
        }
        if uses.sink != SinkCase::New {
            let accumulates = uses.sink.accumulates();
            let mut parts = |layout, shape: &[usize], dtype| -> Result<_> {
                let length = shape[1..].iter().product();
                let before = inputs.groups_before(length, dtype, accumulates, generator);
                let tensor = grouped(layout, stream, shape, dtype, &before)?;
                Ok(Some(Buffer { tensor, before }))
            };
            buffers.dw = parts(case.layout, &[groups, n, k], uses.sink.dtype(case.input))?;
            if !matches!(case.bias, BiasCase::None | BiasCase::Left) {
                let dtype = uses.sink.dtype(case.bias_type());
                buffers.db = parts(case.bias_layout(), &[groups, n], dtype)?;
            }
        }
        Ok(buffers)
    }

    /// Writes again what they held before.
    fn fill(&mut self, stream: &Stream) -> Result<()> {
        for own in [&mut self.y, &mut self.dx, &mut self.dscales].into_iter().flatten() {
            own.tensor.write_f32(stream, &own.before)?;
        }
        for own in [&mut self.dw, &mut self.db].into_iter().flatten() {
            let length = own.before.len() / own.tensor.groups().max(1);
            for (group, before) in own.before.chunks(length.max(1)).enumerate() {
                own.tensor.group(group)?.write_f32(stream, before)?;
            }
        }
        Ok(())
    }
}

fn row_sink(buffer: &mut Option<Buffer<Tensor>>) -> RowSink<'_> {
    match buffer {
        Some(buffer) => RowSink::Into(&mut buffer.tensor),
        None => RowSink::New,
    }
}

fn sink_into(sink: SinkCase, buffer: &mut Option<Buffer<GroupedTensor>>) -> GradSink<'_> {
    let Some(Buffer { tensor, .. }) = buffer else { return GradSink::New };
    GradSink::microbatch(tensor, usize::from(sink.accumulates()))
}

/// Overwrites splits in device memory.
fn write_splits(splits: &Splits, stream: &Stream, counts: &[usize]) -> Result<()> {
    let Some(tensor) = splits.device_tensor() else {
        return Err(Error::invalid("splits of the host cannot be replaced"));
    };
    let mut tensor = tensor.clone();
    match tensor.dtype() {
        DType::I32 => {
            let counts: Vec<i32> = counts.iter().map(|&count| count as i32).collect();
            tensor.write(stream, &counts)
        }
        _ => {
            let counts: Vec<i64> = counts.iter().map(|&count| count as i64).collect();
            tensor.write(stream, &counts)
        }
    }
}
