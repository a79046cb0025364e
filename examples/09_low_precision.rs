//! Training in FP8 with delayed scaling: weights quantized once per step of the optimiser, calls
//! recorded in graphs, and a checkpoint from which another run goes on to the same bits.
//!
//! Runs on the first GPU, if there are kernels for it, else on an emulated one (the CPU alone
//! records no graphs). Needs the feature `emulator`, a default one.

use grouped_linear::recipe::DelayedScaling;
use grouped_linear::{
    Arch, BackwardOptions, CapturedLayer, Config, DType, DelayedState, Device, DeviceKind,
    ForwardOptions, GradSink, GroupedLinear, GroupedTensor, LayerRecipe, ParamLayout,
    QuantizeWeights, Recipe, RecipeBuffers, Result, RowSink, Splits, Stream, Tensor, WeightCache,
};

const CONFIG: Config = Config { groups: 2, in_features: 32, out_features: 16, dtype: DType::Bf16 };
const ROWS: usize = 8;

fn main() -> Result<()> {
    let device = match Device::best_available() {
        device if device.id().kind == DeviceKind::Cpu => Device::emulated(Arch::Sm90a)?,
        device => device,
    };
    let stream = device.stream()?;

    // Another recipe takes the same place, say Recipe::Block(BlockScaling::default()).
    let recipe = Recipe::Delayed(DelayedScaling { history_len: 16, ..Default::default() });
    let mut training = Training::new(&stream, recipe)?;
    let mut losses = Vec::new();
    for step in 0..4 {
        losses.push(training.step(&stream, step)?);
    }
    println!("losses {losses:?}");
    assert!(losses.is_sorted_by(|earlier, later| later < earlier), "the loss falls");

    // A run that is resumed has the weights and what the recipe remembers.
    let checkpoint = training.save(&stream)?;
    let mut resumed = Training::new(&stream, recipe)?;
    resumed.restore(&stream, &checkpoint)?;
    let (loss, again) = (training.step(&stream, 4)?, resumed.step(&stream, 4)?);
    println!("step 4: {loss}, resumed {again}");
    assert_eq!(loss.to_bits(), again.to_bits());
    assert_eq!(training.master.to_f32(&stream)?, resumed.master.to_f32(&stream)?);
    Ok(())
}

struct Training {
    layer: CapturedLayer,
    recipe: LayerRecipe,
    cache: WeightCache<QuantizeWeights>,
    /// The optimiser's weights and their gradient, FP32.
    master: Tensor,
    main_grad: Tensor,
    // What the graphs read and write stays where it is.
    x: Tensor,
    counts: Tensor,
    y: Tensor,
    dy: Tensor,
}

/// The weights; history and scales of each tensor that is quantized.
struct Checkpoint {
    weights: Vec<f32>,
    states: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Training {
    fn new(stream: &Stream, recipe: Recipe) -> Result<Self> {
        let Config { groups, in_features: k, out_features: n, dtype } = CONFIG;
        let recipe = LayerRecipe::new(stream, CONFIG, recipe)?;
        // Forward reads the cache's weights instead of the layer's own.
        let prepare = QuantizeWeights { recipe: recipe.clone(), master: DType::F32 };
        let cache = WeightCache::new(stream, prepare)?;
        let recipe = recipe.with_weights(cache.prepared().clone())?;
        // Memory for what forward and backward quantize, since a graph allocates nothing.
        let buffers = RecipeBuffers::new(stream, &recipe, ROWS)?;
        let recipe = recipe.with_buffers(buffers);

        let own = GroupedTensor::zeros(stream, ParamLayout::Packed, groups, &[n, k], dtype)?;
        let x: Vec<f32> = (0..ROWS * k).map(|i| ((i * i) as f32).sin()).collect();
        Ok(Self {
            layer: CapturedLayer::new(GroupedLinear::new(stream, CONFIG, own, None)?),
            recipe,
            cache,
            master: Tensor::from_f32(stream, &[groups, n, k], DType::F32, &[0.1; 2 * 16 * 32])?,
            main_grad: Tensor::empty(stream, &[groups, n, k], DType::F32)?,
            x: Tensor::from_f32(stream, &[ROWS, k], dtype, &x)?,
            counts: Tensor::zeros(stream, &[groups], DType::I64)?,
            y: Tensor::empty(stream, &[ROWS, n], dtype)?,
            dy: Tensor::empty(stream, &[ROWS, n], dtype)?,
        })
    }

    /// A step of the optimiser over two microbatches; gives the loss before it.
    fn step(&mut self, stream: &Stream, step: u64) -> Result<f32> {
        // Quantizes the weights, since the version has moved; before the first forward.
        let parameters = GroupedTensor::packed(self.master.clone())?;
        self.cache.refresh(stream, &parameters, step)?;

        let splits = Splits::device(self.counts.clone())?;
        let mut sink = GroupedTensor::packed(self.main_grad.clone())?;
        self.main_grad.fill_zero(stream)?;
        let mut loss = 0.0;
        for (microbatch, counts) in [[3i64, 5], [8, 0]].iter().enumerate() {
            self.counts.write(stream, counts)?;
            let options = ForwardOptions { recipe: Some(&self.recipe), ..Default::default() };
            let (saved, forward) =
                self.layer.forward_into(stream, &self.x, &splits, options, &mut self.y)?;

            // Half the square of the distance from 1.
            let dy: Vec<f32> = self.y.to_f32(stream)?.iter().map(|y| y - 1.0).collect();
            loss += dy.iter().map(|dy| 0.5 * dy * dy).sum::<f32>();
            self.dy.write_f32(stream, &dy)?;

            let options = BackwardOptions {
                dx: RowSink::Skip,
                dw: GradSink::Accumulate(&mut sink).into(),
                ..Default::default()
            };
            let (_, backward) = self.layer.backward_with(stream, &saved, &self.dy, options)?;
            println!("step {step}, microbatch {microbatch}: {forward}, {backward}");
        }

        let gradient = self.main_grad.to_f32(stream)?;
        let weights = self.master.to_f32(stream)?;
        let updated: Vec<f32> = weights.iter().zip(gradient).map(|(w, g)| w - 0.01 * g).collect();
        self.master.write_f32(stream, &updated)?;
        // Ends the step of delayed scaling, after its last backward: the next scales follow from
        // the magnitudes. Without it all scales stay 1.
        self.recipe.update(stream)?;
        Ok(loss)
    }

    fn save(&self, stream: &Stream) -> Result<Checkpoint> {
        let states = states(&self.recipe)
            .into_iter()
            .map(|state| Ok((state.history().to_f32(stream)?, state.scale().to_f32(stream)?)));
        Ok(Checkpoint {
            weights: self.master.to_f32(stream)?,
            states: states.collect::<Result<_>>()?,
        })
    }

    fn restore(&mut self, stream: &Stream, checkpoint: &Checkpoint) -> Result<()> {
        self.master.write_f32(stream, &checkpoint.weights)?;
        let states = states(&self.recipe);
        assert_eq!(states.len(), checkpoint.states.len(), "a checkpoint of another recipe");
        for (mut state, (history, scale)) in states.into_iter().zip(&checkpoint.states) {
            state.restore(stream, history, scale)?;
        }
        // The cache may hold copies of other weights under the same version.
        self.cache.forget();
        Ok(())
    }
}

/// What delayed scaling remembers of tokens, weights and output gradients. NVFP4 has the state of
/// its random numbers instead (`LayerRecipe::random`), the other recipes have none.
fn states(recipe: &LayerRecipe) -> Vec<DelayedState> {
    let states = recipe.delayed().map(|own| [&own.input, &own.weight, &own.grad_output]);
    states.into_iter().flatten().cloned().collect()
}
