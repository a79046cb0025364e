//! What is refused before a pipeline's first launch.

use super::arguments::OpForward;
use super::function::{AnySaved, Sink, Sinks, check_names};
use super::names::X;
use super::operation::Operation;
use super::plan::{Planned, Runner};
use super::value::{Inputs, Value};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::grouped_linear::LayerRecipe;
use crate::plan::{Overlaps, Unkept};
use crate::tensor::{GroupedTensor, Tensor};

/// Arguments whose specs fit: devices, splits that the host knows, buffers for outputs, and
/// overlaps.
pub(super) fn forward(
    stream: &Stream,
    operations: &[&dyn Operation],
    planned: &Planned,
    x: &Tensor,
    calls: &[OpForward<'_>],
) -> Result<()> {
    x.check_device("x", stream)?;
    // New tensors overlap nothing, so without buffers the many parts of parameters need no look.
    let writes = calls.iter().any(|call| call.output.is_some());
    let mut overlaps = Overlaps::default();
    overlaps.read([x]);
    let mut rows = x.shape().first().copied();
    for (index, (operation, call)) in operations.iter().zip(calls).enumerate() {
        let spec = &planned.plan.specs[index].output;
        let check = || {
            for (name, value) in call.inputs.iter() {
                match value {
                    Value::Tensor(tensor) => tensor.check_device(name, stream)?,
                    Value::Splits(splits) => {
                        splits.check(splits.groups(), rows.unwrap_or(0), stream)?;
                    }
                    Value::Recipe(recipe) => {
                        for tensor in recipe.memory() {
                            tensor.check_device(name, stream)?;
                        }
                    }
                    Value::Choice(_) => {}
                }
            }
            match &call.output {
                Some(output) => output.check("output", &spec.shape, spec.dtype, stream),
                None => Ok(()),
            }
        };
        check().map_err(|error| error.in_operation(index, operation.kind()))?;
        rows = spec.shape.first().copied();
        if !writes {
            continue;
        }
        for (_, value) in call.inputs.iter() {
            match value {
                Value::Tensor(tensor) => overlaps.read([tensor]),
                Value::Splits(splits) => overlaps.read(splits.device_tensor()),
                Value::Recipe(recipe) => overlaps.read(recipe.memory()),
                Value::Choice(_) => {}
            }
        }
        overlaps.read(operation.parameter_tensors());
        overlaps.write(call.output.as_deref());
    }
    overlaps.check().map_err(|_| {
        Error::invalid(
            "a buffer for an output overlaps another, or what the pipeline reads; give it memory of \
             its own",
        )
    })
}

/// Refuses to keep what backward needs in buffers of a recipe that a later operation writes.
pub(super) fn buffers(
    operations: &[&dyn Operation],
    planned: &Planned,
    calls: &[OpForward<'_>],
) -> Result<()> {
    let mut kept: Vec<&LayerRecipe> = Vec::new();
    for (index, (operation, call)) in operations.iter().zip(calls).enumerate() {
        let Some(recipe) = recipe_of(call).filter(|recipe| recipe.spec().has_buffers()) else {
            continue;
        };
        if !kept.is_empty() {
            let mut overlaps = Overlaps::default();
            overlaps.read(kept.iter().flat_map(|recipe| recipe.buffer_memory()));
            overlaps.write(recipe.buffer_memory());
            overlaps.check().map_err(|_| {
                let error = Error::invalid(
                    "its recipe's buffers hold what an earlier operation keeps for backward; give \
                     each RecipeBuffers of its own",
                );
                error.in_operation(index, operation.kind())
            })?;
        }
        if recipe.spec().keeps_in_buffers() && !planned.plan.specs[index].gradients.is_empty() {
            kept.push(recipe);
        }
    }
    Ok(())
}

/// The recipe of an operation.
pub(super) fn recipe_of<'a>(call: &'a OpForward<'_>) -> Option<&'a LayerRecipe> {
    call.inputs.iter().find_map(|(_, value)| match value {
        Value::Recipe(recipe) => Some(&**recipe),
        _ => None,
    })
}

/// Refuses memory that a stage could not use when its turn comes. Arguments fit, and `x` of the
/// first operation is among its inputs; those of others get their `x` where it is a buffer for an
/// output.
pub(super) fn placement(
    stream: &Stream,
    operations: &[&dyn Operation],
    planned: &Planned,
    calls: &mut [OpForward<'_>],
) -> Result<()> {
    for index in 1..calls.len() {
        if let Some(x) = calls[index - 1].output.as_deref().cloned() {
            calls[index].inputs.insert(X, x.into());
        }
    }
    for runner in &planned.forward {
        let first = runner.operations.start;
        let calls = &calls[runner.operations.clone()];
        let output = calls.last().and_then(|call| call.output.as_deref());
        let checked = match &runner.fused {
            Some((_, stage)) => {
                let inputs: Vec<Inputs> = calls.iter().map(|call| call.inputs.clone()).collect();
                stage.check_forward(stream, &inputs, output)
            }
            None => {
                let (specs, inputs) = (&planned.inputs[first], &calls[0].inputs);
                let needs = &planned.needs[first];
                operations[first].check_forward(stream, specs, inputs, output, needs)
            }
        };
        checked.map_err(|error| error.in_operation(first, operations[first].kind()))?;
    }
    Ok(())
}

/// Names and kinds of sinks, whatever they point to.
pub(super) fn sinks(
    stream: &Stream,
    operations: &[&dyn Operation],
    planned: &Planned,
    sinks: &[Sinks<'_>],
) -> Result<()> {
    for (index, (operation, sinks)) in operations.iter().zip(sinks).enumerate() {
        let specs = &planned.plan.specs[index].gradients;
        let check = || {
            check_names("gradient", sinks.names(), operation.gradients())?;
            for (name, sink) in sinks.iter() {
                let Some(spec) = specs.get(name) else {
                    return Err(Error::invalid(format!(
                        "the gradient of {name} is given a sink, but forward was told that nobody \
                         wants it; leave the sink out, or ask with ForwardArguments::needs"
                    )));
                };
                let consumed = name == X && consumed(planned, index);
                match sink {
                    Sink::Skip | Sink::Later if consumed => {
                        return Err(Error::invalid(
                            "the gradient of x is needed now, by the operation before; give it \
                             Sink::Into, or no sink",
                        ));
                    }
                    Sink::Into(tensor) if consumed => {
                        tensor.check(X, &spec.shape, spec.dtype, stream)?;
                    }
                    _ => {}
                }
            }
            Ok(())
        };
        check().map_err(|error| error.in_operation(index, operation.kind()))?;
    }
    Ok(())
}

/// Whether an operation before `index` reads the gradient of its x.
fn consumed(planned: &Planned, index: usize) -> bool {
    planned.plan.specs[..index].iter().any(|specs| !specs.gradients.is_empty())
}

/// In a graph every gradient needs a buffer.
pub(super) fn captured(
    operations: &[&dyn Operation],
    planned: &Planned,
    runners: &[Runner],
    sinks: &[Sinks<'_>],
) -> Result<()> {
    for runner in runners {
        for index in runner.operations.clone() {
            let inner = index > runner.operations.start;
            for name in planned.plan.specs[index].gradients.names() {
                let sink = sinks[index].get(name);
                if matches!(sink, None | Some(Sink::New)) && !(inner && name == X) {
                    let error = Error::unsupported(format!(
                        "nothing can be allocated while a graph is recorded; give the gradient of \
                         {name} a buffer with BackwardArguments::sink, or skip it"
                    ));
                    return Err(error.in_operation(index, operations[index].kind()));
                }
            }
        }
    }
    Ok(())
}

/// Buffers of gradients against each other, against all that backward reads and against parameters
/// and recipes of all operations, also of those that backward does not reach.
pub(super) fn overlaps(
    operations: &[&dyn Operation],
    saved: &[Option<AnySaved>],
    recipes: &Unkept,
    output_gradient: &Tensor,
    sinks: &[Sinks<'_>],
) -> Result<()> {
    let is_buffer = |sink: &Sink<'_>| !matches!(sink, Sink::New | Sink::Later | Sink::Skip);
    if !sinks.iter().flat_map(Sinks::iter).any(|(_, sink)| is_buffer(sink)) {
        return Ok(());
    }
    let mut overlaps = Overlaps::default();
    overlaps.read([output_gradient]);
    for saved in saved.iter().flatten() {
        let kept = saved.kept();
        overlaps.read(kept.activations.into_iter().chain(kept.parameters));
    }
    for operation in operations {
        overlaps.read(operation.parameter_tensors());
    }
    overlaps.read_unkept(recipes);
    // Backward runs the last operation first. What adds to a buffer that has been written must be
    // the gradient of the same parameter, which several operations share.
    let mut written: Vec<(Option<&GroupedTensor>, &GroupedTensor)> = Vec::new();
    for (operation, sinks) in operations.iter().zip(sinks).rev() {
        for (name, sink) in sinks.iter() {
            let (buffer, adds) = match sink {
                Sink::Into(tensor) => {
                    overlaps.write([&**tensor]);
                    continue;
                }
                Sink::Overwrite(buffer) => (buffer, false),
                Sink::Accumulate(buffer) => (buffer, true),
                Sink::New | Sink::Later | Sink::Skip => continue,
            };
            let parameter = operation.parameter(name);
            let shared = |&(other, into): &(Option<&GroupedTensor>, &GroupedTensor)| {
                same(into, buffer) && other.zip(parameter).is_some_and(|(a, b)| same(a, b))
            };
            if adds && written.iter().any(shared) {
                continue;
            }
            overlaps.write(buffer.tensors());
            written.push((parameter, buffer));
        }
    }
    overlaps.check().map_err(|_| {
        Error::invalid(
            "a gradient's buffer overlaps another buffer or an operand of backward, or a parameter; \
             give it memory of its own. Only gradients of a parameter that several operations share \
             may go into one buffer: that of the last operation first, then Sink::Accumulate",
        )
    })
}

fn same(a: &GroupedTensor, b: &GroupedTensor) -> bool {
    let (a, b) = (a.tensors(), b.tensors());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_as(b))
}
