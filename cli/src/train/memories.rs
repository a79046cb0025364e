//! What recipes remember from step to step, on the host: histories and scales of delayed scaling,
//! and where random numbers go on. A checkpoint holds it, beside the parameters.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use grouped_linear::{DelayedState, DelayedStates, LayerRecipe, Stream, Tensor};

/// Tensors by their names in the checkpoint.
pub type Memories = BTreeMap<String, Memory>;

/// A tensor that a recipe remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Shape in the checkpoint.
    pub shape: Vec<usize>,
    /// The elements.
    pub values: Values,
}

/// Elements of either type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Magnitudes and scales.
    F32(Vec<f32>),
    /// Seed and offset of random numbers, the bits of which are those of `u64`.
    I64(Vec<i64>),
}

impl Values {
    /// The elements, lowest byte first.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::I64(values) => bytemuck::cast_slice(values),
        }
    }
}

/// What the recipe of the layer `name` remembers. Waits for the stream.
pub fn of_layer(stream: &Stream, name: &str, recipe: &LayerRecipe) -> Result<Memories> {
    let mut memories = Memories::new();
    let mut add = |name: String, tensor: &Tensor, values: Values| {
        memories.insert(name, Memory { shape: tensor.shape().to_vec(), values })
    };
    for (state_name, state) in states(name, recipe) {
        for (part, tensor) in [("history", state.history()), ("scale", state.scale())] {
            let values = Values::F32(tensor.to_vec(stream)?);
            add(format!("{state_name}.{part}"), tensor, values);
        }
    }
    if let Some(random) = recipe.random() {
        let values = Values::I64(random.tensor().to_vec(stream)?);
        add(random_name(name), random.tensor(), values);
    }
    Ok(memories)
}

/// Gives the recipe of the layer `name` what [`of_layer`] found.
pub fn restore(
    stream: &Stream,
    name: &str,
    recipe: &LayerRecipe,
    memories: &Memories,
) -> Result<()> {
    for (state_name, mut state) in states(name, recipe) {
        let [history, scale] =
            ["history", "scale"].map(|part| floats(memories, &format!("{state_name}.{part}")));
        state.restore(stream, history?, scale?).with_context(|| state_name)?;
    }
    if let Some(random) = recipe.random() {
        let name = random_name(name);
        let Some(Memory { values: Values::I64(values), .. }) = memories.get(&name) else {
            bail!("there are no 64-bit integers {name}");
        };
        let &[seed, offset] = values.as_slice() else {
            bail!("{name} has {} numbers, a seed and an offset are needed", values.len());
        };
        random.clone().restore(stream, seed as u64, offset as u64).with_context(|| name)?;
    }
    Ok(())
}

/// The states of a layer's delayed scales, with their names; handles to the recipe's own.
fn states(name: &str, recipe: &LayerRecipe) -> Vec<(String, DelayedState)> {
    let Some(DelayedStates { input, weight, grad_output }) = recipe.delayed().cloned() else {
        return Vec::new();
    };
    [("input", input), ("weight", weight), ("grad_output", grad_output)]
        .map(|(role, state)| (format!("{name}.delayed.{role}"), state))
        .into()
}

fn random_name(name: &str) -> String {
    format!("{name}.random")
}

fn floats<'a>(memories: &'a Memories, name: &str) -> Result<&'a [f32]> {
    match memories.get(name) {
        Some(Memory { values: Values::F32(values), .. }) => Ok(values),
        _ => bail!("there are no FP32 numbers {name}"),
    }
}
