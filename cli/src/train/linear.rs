//! Every linear layer of the model, and the only file that calls library operations: master weights
//! in FP32 on the host, a rounded copy in a [`GroupedLinear`] on the device, and the time of each
//! call.

use std::ops::AddAssign;
use std::time::Duration;

use anyhow::{Context, Result};
use grouped_linear::recipe::Nvfp4Scaling;
use grouped_linear::{
    Config, DType, Device, DeviceKind, Event, ForwardOptions, GroupedLinear, GroupedTensor,
    LayerRecipe, Recipe, Saved, Splits, Stream, Tensor,
};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use serde::Serialize;

use super::memories::{self, Memories};
use super::parameter::{Decay, Parameter};
use super::random::{Random, seed_of};

/// Elements that one thread converts at a time.
const CHUNK: usize = 1 << 14;

/// Where layers run and in which type.
#[derive(Clone)]
pub struct Engine {
    stream: Stream,
    dtype: DType,
    recipe: Option<Recipe>,
}

impl Engine {
    /// Layers of type `dtype`, which may follow a recipe, on a stream of their own.
    pub fn new(device: &Device, dtype: DType, recipe: Option<Recipe>) -> Result<Self> {
        let stream = device.stream().context("making a stream")?;
        Ok(Self { stream, dtype, recipe })
    }

    /// The same stream for layers of another type without a recipe.
    pub fn with_type(&self, dtype: DType) -> Self {
        Self { stream: self.stream.clone(), dtype, recipe: None }
    }

    /// The same for layers without a recipe.
    pub fn without_recipe(&self) -> Self {
        self.with_type(self.dtype)
    }

    /// Name of the device, for people.
    pub fn device_name(&self) -> String {
        let device = self.stream.device();
        format!("{} ({})", device.id(), device.info().name)
    }

    /// Whether the first call of each layer loads kernels.
    pub fn loads_kernels(&self) -> bool {
        self.stream.device().id().kind != DeviceKind::Cpu
    }

    fn tensor(&self, shape: &[usize], values: &[f32]) -> Result<HostTensor> {
        let values = match self.dtype {
            DType::F32 => HostValues::F32(values.to_vec()),
            _ => HostValues::Bf16(round(values)),
        };
        Ok(HostTensor { shape: shape.to_vec(), values })
    }

    fn read(&self, tensor: &Tensor) -> Result<HostValues> {
        Ok(match tensor.dtype() {
            DType::F32 => HostValues::F32(tensor.to_vec(&self.stream)?),
            _ => HostValues::Bf16(tensor.to_vec(&self.stream)?),
        })
    }
}

/// Values in the layers' type, on the host.
enum HostValues {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
}

impl HostValues {
    fn into_f32(self) -> Vec<f32> {
        match self {
            Self::F32(values) => values,
            Self::Bf16(values) => {
                let mut wide = vec![0.0; values.len()];
                wide.par_chunks_mut(CHUNK)
                    .zip(values.par_chunks(CHUNK))
                    .for_each(|(wide, values)| values.convert_to_f32_slice(wide));
                wide
            }
        }
    }
}

fn round(values: &[f32]) -> Vec<bf16> {
    let mut rounded = vec![bf16::ZERO; values.len()];
    rounded
        .par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK))
        .for_each(|(rounded, values)| rounded.convert_from_f32_slice(values));
    rounded
}

struct HostTensor {
    shape: Vec<usize>,
    values: HostValues,
}

impl HostTensor {
    fn upload(&self, stream: &Stream) -> Result<Tensor> {
        Ok(match &self.values {
            HostValues::F32(values) => Tensor::from_slice(stream, &self.shape, values)?,
            HostValues::Bf16(values) => Tensor::from_slice(stream, &self.shape, values)?,
        })
    }

    fn write(&self, stream: &Stream, tensor: &mut Tensor) -> Result<()> {
        match &self.values {
            HostValues::F32(values) => tensor.write(stream, values)?,
            HostValues::Bf16(values) => tensor.write(stream, values)?,
        }
        Ok(())
    }
}

/// Time on the device's clock, in seconds; on the CPU that is the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinearTimes {
    /// Forward calls.
    pub forward_calls: u64,
    /// Backward calls.
    pub backward_calls: u64,
    /// `GroupedLinear::forward`: fprop.
    pub forward: f64,
    /// `GroupedLinear::backward`: dgrad, wgrad and, with a bias, dbias.
    pub backward: f64,
    /// Copies of activations, gradients and weights to the device.
    pub upload: f64,
    /// Copies of results and gradients to the host.
    pub download: f64,
}

impl LinearTimes {
    /// Time inside GroupedLinear, without copies.
    pub fn compute(&self) -> f64 {
        self.forward + self.backward
    }
}

impl AddAssign for LinearTimes {
    fn add_assign(&mut self, other: Self) {
        self.forward_calls += other.forward_calls;
        self.backward_calls += other.backward_calls;
        self.forward += other.forward;
        self.backward += other.backward;
        self.upload += other.upload;
        self.download += other.download;
    }
}

/// Sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub struct LinearShape {
    /// Experts; 1 for a dense layer.
    pub groups: usize,
    /// Features of a row of the input.
    pub inputs: usize,
    /// Features of a row of the output.
    pub outputs: usize,
}

/// Whether a layer has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// One vector per expert, zeros at first.
    Learned,
    /// None.
    None,
}

/// A linear layer per expert: parameters on the host, the product on the device.
pub struct Linear {
    /// `[groups, outputs, inputs]`.
    pub weight: Parameter,
    /// `[groups, outputs]`.
    pub bias: Option<Parameter>,
    name: String,
    engine: Engine,
    shape: LinearShape,
    layer: GroupedLinear,
    recipe: Option<LayerRecipe>,
    device_weight: Tensor,
    device_bias: Option<Tensor>,
    times: LinearTimes,
}

/// What [`Linear::backward`] needs of a forward call.
pub struct LinearSaved(Saved);

impl Linear {
    /// A layer with normally distributed weights; `gain` 1 keeps the size of a row.
    pub fn new(
        engine: &Engine,
        name: &str,
        shape: LinearShape,
        bias: Bias,
        gain: f32,
        random: &mut Random,
    ) -> Result<Self> {
        let LinearShape { groups, inputs, outputs } = shape;
        let deviation = gain / (inputs as f32).sqrt();
        let sizes = [groups, outputs, inputs];
        let name_of = |part: &str| format!("{name}.{part}");
        let weight = Parameter::normal(name_of("weight"), &sizes, Decay::Yes, deviation, random);
        let bias = (bias == Bias::Learned)
            .then(|| Parameter::constant(name_of("bias"), &sizes[..2], Decay::No, 0.0));

        let stream = &engine.stream;
        let device_weight = engine.tensor(&weight.shape, &weight.values)?.upload(stream)?;
        let device_bias = match &bias {
            Some(bias) => Some(Tensor::from_slice(stream, &bias.shape, &bias.values)?),
            None => None,
        };
        let config =
            Config { groups, in_features: inputs, out_features: outputs, dtype: engine.dtype };
        let layer = GroupedLinear::new(
            stream,
            config,
            GroupedTensor::packed(device_weight.clone())?,
            device_bias.clone().map(GroupedTensor::packed).transpose()?,
        )
        .with_context(|| format!("making layer {name}"))?;
        let recipe = engine.recipe.map(|recipe| own_numbers(recipe, name));
        let recipe = recipe.map(|recipe| LayerRecipe::new(stream, config, recipe));
        let recipe = recipe.transpose().with_context(|| format!("the recipe of layer {name}"))?;
        Ok(Self {
            weight,
            bias,
            name: name.to_owned(),
            engine: engine.clone(),
            shape,
            layer,
            recipe,
            device_weight,
            device_bias,
            times: LinearTimes::default(),
        })
    }

    /// `[rows, outputs]` for `x [rows, inputs]`, of which expert g owns `splits[g]` rows in turn.
    pub fn forward(&mut self, x: &[f32], splits: &[usize]) -> Result<(Vec<f32>, LinearSaved)> {
        let stream = &self.engine.stream;
        let splits = Splits::host(splits)?;
        let x = self.engine.tensor(&[x.len() / self.shape.inputs, self.shape.inputs], x)?;

        let start = stream.record()?;
        let x = x.upload(stream)?;
        let uploaded = stream.record()?;
        let options = ForwardOptions { recipe: self.recipe.as_ref(), ..ForwardOptions::default() };
        let (y, saved) = self.layer.forward(stream, &x, &splits, options)?;
        let computed = stream.record()?;
        let y = self.engine.read(&y)?;
        let downloaded = stream.record()?;

        let [upload, compute, download] = laps([&start, &uploaded, &computed, &downloaded])?;
        self.times.forward_calls += 1;
        self.times.upload += upload;
        self.times.forward += compute;
        self.times.download += download;
        Ok((y.into_f32(), LinearSaved(saved)))
    }

    /// The gradient of `x` for that of `y`; sets the parameters' gradients.
    pub fn backward(&mut self, saved: LinearSaved, dy: &[f32]) -> Result<Vec<f32>> {
        let stream = &self.engine.stream;
        let dy = self.engine.tensor(&[dy.len() / self.shape.outputs, self.shape.outputs], dy)?;

        let start = stream.record()?;
        let dy = dy.upload(stream)?;
        let uploaded = stream.record()?;
        let gradients = self.layer.backward(stream, saved.0, &dy)?;
        let computed = stream.record()?;
        let dx = self.engine.read(&gradients.dx)?;
        let dw = gradients.dw.as_packed().context("gradients of packed weights are packed")?;
        let dw = self.engine.read(dw)?;
        let db = match gradients.db.as_ref().and_then(GroupedTensor::as_packed) {
            Some(db) => Some(self.engine.read(db)?),
            None => None,
        };
        let downloaded = stream.record()?;

        let [upload, compute, download] = laps([&start, &uploaded, &computed, &downloaded])?;
        self.times.backward_calls += 1;
        self.times.upload += upload;
        self.times.backward += compute;
        self.times.download += download;
        self.weight.gradient = dw.into_f32();
        if let (Some(bias), Some(db)) = (&mut self.bias, db) {
            bias.gradient = db.into_f32();
        }
        Ok(dx.into_f32())
    }

    /// Rounds the master weights into the layer's tensors.
    pub fn upload(&mut self) -> Result<()> {
        let stream = &self.engine.stream;
        let weight = self.engine.tensor(&self.weight.shape, &self.weight.values)?;
        let start = stream.record()?;
        weight.write(stream, &mut self.device_weight)?;
        if let (Some(bias), Some(tensor)) = (&self.bias, &mut self.device_bias) {
            tensor.write(stream, &bias.values)?;
        }
        let written = stream.record()?;
        self.times.upload += start.elapsed_until(&written)?.as_secs_f64();
        Ok(())
    }

    /// Ends a step of layers that share an engine: recipes make their next scales.
    pub fn end_step(linears: Vec<&mut Self>) -> Result<()> {
        let Some(stream) = linears.first().map(|linear| linear.engine.stream.clone()) else {
            return Ok(());
        };
        let recipes = linears.into_iter().filter_map(|linear| linear.recipe.as_mut());
        Ok(LayerRecipe::update_all(&stream, recipes, None)?)
    }

    /// What the recipe remembers from step to step.
    pub fn memories(&self) -> Result<Memories> {
        match &self.recipe {
            Some(recipe) => memories::of_layer(&self.engine.stream, &self.name, recipe),
            None => Ok(Memories::new()),
        }
    }

    /// Puts the recipe back to where [`Linear::memories`] was called.
    pub fn restore(&mut self, memories: &Memories) -> Result<()> {
        match &self.recipe {
            Some(recipe) => memories::restore(&self.engine.stream, &self.name, recipe, memories),
            None => Ok(()),
        }
    }

    /// The parameters, weight first.
    pub fn parameters(&mut self) -> impl Iterator<Item = &mut Parameter> {
        std::iter::once(&mut self.weight).chain(&mut self.bias)
    }

    /// Time of all calls since the last [`Linear::reset_times`].
    pub fn times(&self) -> LinearTimes {
        self.times
    }

    /// Forgets the time of the calls so far.
    pub fn reset_times(&mut self) {
        self.times = LinearTimes::default();
    }
}

/// The recipe with random numbers of the layer's own: layers that rounded with the same ones would
/// err alike.
fn own_numbers(recipe: Recipe, name: &str) -> Recipe {
    match recipe {
        Recipe::Nvfp4(nvfp4) => {
            Recipe::Nvfp4(Nvfp4Scaling { seed: seed_of(nvfp4.seed, name), ..nvfp4 })
        }
        other => other,
    }
}

/// Seconds between events that follow each other.
fn laps(events: [&Event; 4]) -> Result<[f64; 3]> {
    let lap = |index: usize| -> Result<f64> {
        let elapsed: Duration = events[index].elapsed_until(events[index + 1])?;
        Ok(elapsed.as_secs_f64())
    };
    Ok([lap(0)?, lap(1)?, lap(2)?])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::args::RecipeChoice;
    use super::*;

    fn linear(name: &str, recipe: RecipeChoice, seed: u64) -> Linear {
        let engine = Engine::new(&Device::cpu(), DType::Bf16, recipe.recipe(seed)).unwrap();
        let shape = LinearShape { groups: 2, inputs: 32, outputs: 64 };
        let mut random = Random::new(1, 0);
        Linear::new(&engine, name, shape, Bias::Learned, 1.0, &mut random).unwrap()
    }

    #[test]
    fn every_layer_rounds_with_random_numbers_of_its_own_and_has_the_weights_it_had() {
        let state = |name: &str, seed: u64| {
            let linear = linear(name, RecipeChoice::Nvfp4, seed);
            let random = linear.recipe.as_ref().unwrap().random().unwrap();
            random.read(&linear.engine.stream).unwrap()
        };
        assert_eq!(state("up", 1), state("up", 1));
        assert_eq!([state("up", 1).1, state("down", 1).1], [0, 0]);
        let seeds = [state("up", 1).0, state("down", 1).0, state("up", 2).0, state("down", 2).0];
        let distinct: BTreeSet<u64> = seeds.into();
        assert_eq!(distinct.len(), seeds.len(), "{seeds:?}");

        let plain = linear("up", RecipeChoice::None, 1).weight.values;
        assert_eq!(linear("down", RecipeChoice::Nvfp4, 2).weight.values, plain);
    }
}
