//! The model: embeddings of the last bytes → blocks → logits of the next byte.

use std::hint::black_box;

use anyhow::{Result, ensure};

use super::args::{BYTES, Config};
use super::block::Block;
use super::data::Batch;
use super::embedding::Embedding;
use super::linear::{Bias, Engine, Linear, LinearShape, LinearTimes};
use super::loss::cross_entropy;
use super::memories::Memories;
use super::norm::Norm;
use super::parameter::Parameter;
use super::random::Random;

/// A mixture-of-experts byte language model.
pub struct Model {
    embedding: Embedding,
    input: Linear,
    blocks: Vec<Block>,
    norm: Norm,
    logits: Linear,
}

/// What one batch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Mean loss in nats per byte, without the load-balancing loss.
    pub loss: f64,
    /// Load-balancing loss, mean over the blocks; 1 is the best.
    pub balance: f64,
    /// Rows of each expert of each block.
    pub load: Vec<Vec<usize>>,
}

/// Whether gradients are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gradients {
    Wanted,
    Unwanted,
}

impl Model {
    /// A model whose weights follow from the seed.
    pub fn new(engine: &Engine, config: &Config) -> Result<Self> {
        ensure_room(config.weight_count())?;
        let mut random = Random::new(config.seed, 0);
        let hidden = config.hidden;
        let embedding = Embedding::new(config.embedding, &mut random);
        let input =
            LinearShape { groups: 1, inputs: config.context * config.embedding, outputs: hidden };
        let logits = LinearShape { groups: 1, inputs: hidden, outputs: BYTES };
        // Where bytes come in and probabilities go out, precision costs little and counts most.
        let ends = &engine.without_recipe();
        Ok(Self {
            embedding,
            input: Linear::new(ends, "input", input, Bias::Learned, 1.0, &mut random)?,
            blocks: (0..config.blocks)
                .map(|index| Block::new(engine, config, index, &mut random))
                .collect::<Result<_>>()?,
            norm: Norm::new("norm", hidden),
            logits: Linear::new(ends, "logits", logits, Bias::Learned, 0.2, &mut random)?,
        })
    }

    /// Loss of a batch; sets every parameter's gradient.
    pub fn train(&mut self, batch: &Batch) -> Result<Outcome> {
        self.pass(batch, Gradients::Wanted)
    }

    /// Loss of a batch.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<Outcome> {
        self.pass(batch, Gradients::Unwanted)
    }

    fn pass(&mut self, batch: &Batch, gradients: Gradients) -> Result<Outcome> {
        let rows = [batch.targets.len()];
        let embedded = self.embedding.forward(&batch.contexts);
        let (mut x, input) = self.input.forward(&embedded, &rows)?;
        let mut saved = Vec::with_capacity(self.blocks.len());
        for block in &mut self.blocks {
            let (y, kept) = block.forward(&x)?;
            saved.push(kept);
            x = y;
        }
        let (normed, norm) = self.norm.forward(&x);
        let (logits, last) = self.logits.forward(&normed, &rows)?;
        let loss = cross_entropy(&logits, &batch.targets, BYTES);

        let blocks = self.blocks.len().max(1) as f64;
        let outcome = Outcome {
            loss: loss.mean,
            balance: saved.iter().map(|kept| kept.routing.balance_loss()).sum::<f64>() / blocks,
            load: saved.iter().map(|kept| kept.routing.counts().to_vec()).collect(),
        };
        if gradients == Gradients::Wanted {
            let dnormed = self.logits.backward(last, &loss.dlogits)?;
            let mut dx = self.norm.backward(&norm, &dnormed);
            for (block, kept) in self.blocks.iter_mut().zip(saved).rev() {
                dx = block.backward(kept, &dx)?;
            }
            let dembedded = self.input.backward(input, &dx)?;
            self.embedding.backward(&batch.contexts, &dembedded);
        }
        Ok(outcome)
    }

    /// All parameters, in a fixed order.
    pub fn parameters(&mut self) -> Vec<&mut Parameter> {
        let mut parameters = vec![&mut self.embedding.table];
        parameters.extend(self.input.parameters());
        for block in &mut self.blocks {
            parameters.push(&mut block.norm.gain);
            parameters.extend(block.router.parameters());
            parameters.extend(block.up.parameters());
            parameters.extend(block.down.parameters());
        }
        parameters.push(&mut self.norm.gain);
        parameters.extend(self.logits.parameters());
        parameters
    }

    /// Number of weights.
    pub fn weight_count(&mut self) -> usize {
        self.parameters().iter().map(|parameter| parameter.values.len()).sum()
    }

    /// Rounds the master weights into the layers' tensors.
    pub fn upload(&mut self) -> Result<()> {
        self.linears().into_iter().try_for_each(|(_, linear)| linear.upload())
    }

    /// Ends a step: uploads the weights, and recipes make their next scales.
    pub fn end_step(&mut self) -> Result<()> {
        self.upload()?;
        Linear::end_step(self.linears().into_iter().map(|(_, linear)| linear).collect())
    }

    /// What the recipes of all layers remember from step to step.
    pub fn memories(&mut self) -> Result<Memories> {
        let mut memories = Memories::new();
        for (_, linear) in self.linears() {
            memories.append(&mut linear.memories()?);
        }
        Ok(memories)
    }

    /// Puts all recipes back to where [`Model::memories`] was called.
    pub fn restore(&mut self, memories: &Memories) -> Result<()> {
        self.linears().into_iter().try_for_each(|(_, linear)| linear.restore(memories))
    }

    /// Time of the layers, added up by their part in the model.
    pub fn times(&mut self) -> Vec<(&'static str, LinearTimes)> {
        let mut times: Vec<(&'static str, LinearTimes)> = Vec::new();
        for (part, linear) in self.linears() {
            match times.iter_mut().find(|(known, _)| *known == part) {
                Some((_, sum)) => *sum += linear.times(),
                None => times.push((part, linear.times())),
            }
        }
        times
    }

    /// Forgets the time of the calls so far.
    pub fn reset_times(&mut self) {
        self.linears().into_iter().for_each(|(_, linear)| linear.reset_times());
    }

    fn linears(&mut self) -> Vec<(&'static str, &mut Linear)> {
        let mut linears = vec![("input", &mut self.input)];
        for block in &mut self.blocks {
            linears.push(("router", &mut block.router));
            linears.push(("up", &mut block.up));
            linears.push(("down", &mut block.down));
        }
        linears.push(("logits", &mut self.logits));
        linears
    }
}

/// Refuses so many weights that there is no memory for them: a vector that gets none ends the
/// program.
fn ensure_room(weights: u64) -> Result<()> {
    let bytes = weights.saturating_mul(Parameter::BYTES as u64);
    let mut room = Vec::<u8>::new();
    let is_there = usize::try_from(bytes).is_ok_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    black_box(room); // else nothing is asked for, since nothing is kept there
    ensure!(
        is_there,
        "the model has {weights} weights; these, their gradients and AdamW's moments take {} GiB, \
         more than there is memory for; make --hidden, --expert-hidden, --experts or --blocks smaller",
        bytes >> 30
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use grouped_linear::{DType, Device};

    use clap::ValueEnum;

    use super::super::args::RecipeChoice;
    use super::super::args::tests::parse;
    use super::super::data::Text;
    use super::*;

    /// What of the recipes goes into a checkpoint, and whether a recipe that is given it goes on
    /// alike.
    #[test]
    fn what_recipes_remember_is_all_that_they_go_on_from() {
        let remembering = [RecipeChoice::Delayed, RecipeChoice::Nvfp4];
        for &recipe in RecipeChoice::value_variants() {
            let flags = ["--hidden=32", "--experts=3", "--context=4", "--embedding=8"];
            let config = Config { recipe, ..parse(&flags).config };
            let engine =
                Engine::new(&Device::cpu(), DType::Bf16, recipe.recipe(config.seed)).unwrap();
            let text = Text::new((0..=255).collect(), config.context, "test".into()).unwrap();
            let batch = text.batch(&(10..42).collect::<Vec<_>>());
            let mut model = Model::new(&engine, &config).unwrap();
            model.train(&batch).unwrap();
            model.end_step().unwrap();

            let memories = model.memories().unwrap();
            let bytes: usize = memories.values().map(|memory| memory.values.bytes().len()).sum();
            assert_eq!(config.memory_bytes(), bytes as u64, "{recipe:?}");
            assert_eq!(memories.is_empty(), !remembering.contains(&recipe), "{recipe:?}");
            let first = gradients(&mut model, &batch);
            model.end_step().unwrap();
            if remembering.contains(&recipe) {
                assert_ne!(model.memories().unwrap(), memories, "{recipe:?}");
                assert_ne!(gradients(&mut model, &batch), first, "{recipe:?}");
            }
            model.restore(&memories).unwrap();
            assert_eq!(model.memories().unwrap(), memories, "{recipe:?}");
            assert_eq!(gradients(&mut model, &batch), first, "{recipe:?}");
        }
    }

    fn gradients(model: &mut Model, batch: &Batch) -> Vec<Vec<f32>> {
        model.train(batch).unwrap();
        model.parameters().into_iter().map(|parameter| parameter.gradient.clone()).collect()
    }

    /// A small step along each parameter's gradient changes the loss by the gradient's square.
    #[test]
    fn gradients_of_every_parameter_match_finite_differences() {
        let config = parse(&[
            "--hidden=16",
            "--expert-hidden=24",
            "--experts=5",
            "--context=4",
            "--embedding=6",
            "--dtype=f32",
            "--balance=0.5",
        ])
        .config;
        let text: Vec<u8> = (0..400u32).map(|i| (i * i % 97) as u8).collect();
        let text = Text::new(text, config.context, "test".into()).unwrap();
        let batch = text.batch(&(10..42).collect::<Vec<_>>());
        let engine = Engine::new(&Device::cpu(), DType::F32, None).unwrap();
        let mut model = Model::new(&engine, &config).unwrap();
        assert_eq!(config.weight_count(), model.weight_count() as u64);
        model.train(&batch).unwrap();

        let count = model.parameters().len();
        for index in 0..count {
            let parameters = &mut model.parameters();
            let (start, slope) =
                (parameters[index].values.clone(), parameters[index].gradient.clone());
            let name = parameters[index].name.clone();
            let square: f64 = slope.iter().map(|&g| f64::from(g).powi(2)).sum();
            let step = 2e-3 / square.sqrt();
            let mut loss_at = |direction: f64| {
                let values = &mut model.parameters().swap_remove(index).values;
                for ((value, start), slope) in values.iter_mut().zip(&start).zip(&slope) {
                    *value = start + (direction * step) as f32 * slope;
                }
                model.upload().unwrap();
                let outcome = model.evaluate(&batch).unwrap();
                outcome.loss + 0.5 * outcome.balance
            };
            let quotient = (loss_at(1.0) - loss_at(-1.0)) / (2.0 * step);
            loss_at(0.0);
            assert!(
                (quotient - square).abs() < 0.02 * square + 1e-6,
                "{name}: difference quotient {quotient}, gradient {square}"
            );
        }
    }
}
