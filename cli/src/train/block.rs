//! A mixture-of-experts block: norm, router, experts, residual.

use anyhow::Result;
use grouped_linear::DType;

use super::args::Config;
use super::linear::{Bias, Engine, Linear, LinearSaved, LinearShape};
use super::norm::{Norm, NormSaved};
use super::random::Random;
use super::router::Routing;
use super::swiglu;

/// RMSNorm → router → experts (up, SwiGLU, down) → residual.
pub struct Block {
    /// Norm of the block's input.
    pub norm: Norm,
    /// Logits of the experts; one dense layer.
    pub router: Linear,
    /// Gate and value of each expert.
    pub up: Linear,
    /// Output of each expert.
    pub down: Linear,
    sizes: Config,
}

/// What backward needs of a forward call.
pub struct BlockSaved {
    norm: NormSaved,
    router: LinearSaved,
    up: LinearSaved,
    down: LinearSaved,
    gates: Vec<f32>,   // [tokens · top_k, 2 · expert width]
    outputs: Vec<f32>, // [tokens · top_k, hidden]
    /// Where the tokens went.
    pub routing: Routing,
}

impl Block {
    /// Block number `index`.
    pub fn new(
        engine: &Engine,
        config: &Config,
        index: usize,
        random: &mut Random,
    ) -> Result<Self> {
        let name = format!("blocks.{index}");
        let (hidden, width) = (config.hidden, config.expert_width());
        let router = LinearShape { groups: 1, inputs: hidden, outputs: config.router_columns() };
        let up = LinearShape { groups: config.experts, inputs: hidden, outputs: 2 * width };
        let down = LinearShape { groups: config.experts, inputs: width, outputs: hidden };
        // The residual stream keeps its size however many blocks add to it.
        let gain = 1.0 / ((2 * config.blocks) as f32).sqrt();
        let learned = Bias::Learned;
        // In a 16-bit type, experts tie, and a rounding decides where a token goes.
        let router_engine = engine.with_type(DType::F32);
        Ok(Self {
            norm: Norm::new(&format!("{name}.norm"), hidden),
            router: Linear::new(
                &router_engine,
                &format!("{name}.router"),
                router,
                Bias::None,
                0.2,
                random,
            )?,
            up: Linear::new(engine, &format!("{name}.up"), up, learned, 1.0, random)?,
            down: Linear::new(engine, &format!("{name}.down"), down, learned, gain, random)?,
            sizes: config.clone(),
        })
    }

    /// `[tokens, hidden]` from `x [tokens, hidden]`.
    pub fn forward(&mut self, x: &[f32]) -> Result<(Vec<f32>, BlockSaved)> {
        let Config { hidden, experts, top_k, .. } = self.sizes;
        let tokens = x.len() / hidden;
        let (normed, norm) = self.norm.forward(x);
        let (logits, router) = self.router.forward(&normed, &[tokens])?;
        let routing = Routing::new(&logits, self.sizes.router_columns(), experts, top_k);
        let copies = routing.permute(&normed, hidden);
        let (gates, up) = self.up.forward(&copies, routing.counts())?;
        let activated = swiglu::forward(&gates, self.sizes.expert_width());
        let (outputs, down) = self.down.forward(&activated, routing.counts())?;
        let y = routing.combine(&outputs, x, hidden);
        Ok((y, BlockSaved { norm, router, up, down, gates, outputs, routing }))
    }

    /// The gradient of `x` for that of `y`, load-balancing loss included.
    pub fn backward(&mut self, saved: BlockSaved, dy: &[f32]) -> Result<Vec<f32>> {
        let hidden = self.sizes.hidden;
        let routing = &saved.routing;
        let (doutputs, dweights) = routing.combine_backward(&saved.outputs, dy, hidden);
        let dactivated = self.down.backward(saved.down, &doutputs)?;
        let dgates = swiglu::backward(&saved.gates, &dactivated, self.sizes.expert_width());
        let dcopies = self.up.backward(saved.up, &dgates)?;
        let mut dnormed = routing.permute_backward(&dcopies, hidden);

        let coefficient = self.sizes.balance as f32 / self.sizes.blocks as f32;
        let dlogits = routing.backward(&dweights, coefficient);
        add(&mut dnormed, &self.router.backward(saved.router, &dlogits)?);

        let mut dx = self.norm.backward(&saved.norm, &dnormed);
        add(&mut dx, dy);
        Ok(dx)
    }
}

fn add(sum: &mut [f32], values: &[f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}
