//! `bench`: how fast kernels should be. Its one mode so far is `--model`.

mod measured;
mod model;
mod report;
mod suite;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};

use self::model::kernel::{Kernel, Numbers};
use self::model::machine::{Generation, MACHINES, Machine};
use self::model::product::{self, Pass};
use self::model::quantize::{QUANTIZERS, Quantizer};
use self::report::{Row, errors_table, json, kernels_table, rows_table};
use self::suite::{Shape, suite};

/// Flags of `bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Predict times with the analytic model (docs/performance-model.md); nothing runs on a GPU.
    #[arg(long)]
    model: bool,
    /// Shapes, by name (s01 to s12, x01 to x04); all if none is named.
    #[arg(long, value_delimiter = ',')]
    shape: Vec<String>,
    /// The GPU that is predicted.
    #[arg(long, value_enum, default_value = "h200")]
    device: MachineChoice,
    /// Passes; all if none is named.
    #[arg(long, value_enum, value_delimiter = ',')]
    pass: Vec<PassChoice>,
    /// Kernels, by what they multiply; all that the GPU has if none is named. Of quantizers those
    /// that recipes with these kernels use.
    #[arg(long, value_enum, value_delimiter = ',')]
    recipe: Vec<RecipeChoice>,
    /// How a tile is made on Blackwell.
    #[arg(long, value_enum, default_value = "pair")]
    tile: TileChoice,
    /// Print what a stage and the end of a tile cost each kernel, instead of shapes.
    #[arg(long, conflicts_with_all = ["json", "errors"])]
    stages: bool,
    /// Print how far predictions are from measured times, instead of shapes.
    #[arg(long, conflicts_with = "json")]
    errors: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MachineChoice {
    /// H200 SXM, with the kernels that the project has.
    H200,
    /// B200: predictions from assumptions, nothing is measured.
    B200,
}

impl MachineChoice {
    fn machine(self) -> &'static Machine {
        let [h200, b200] = &MACHINES;
        match self {
            Self::H200 => h200,
            Self::B200 => b200,
        }
    }
}

/// Value of `--pass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PassChoice {
    /// Y = X · Wᵀ.
    Fprop,
    /// dX = dY · W.
    Dgrad,
    /// dW = dYᵀ · X.
    Wgrad,
    /// The same, added to an FP32 gradient.
    Accumulate,
    /// Quantization of X, or of W in squares.
    Quantize,
}

impl PassChoice {
    /// The product; `None` for quantizers.
    fn product(self) -> Option<Pass> {
        match self {
            Self::Fprop => Some(Pass::Fprop),
            Self::Dgrad => Some(Pass::Dgrad),
            Self::Wgrad => Some(Pass::Wgrad),
            Self::Accumulate => Some(Pass::Accumulate),
            Self::Quantize => None,
        }
    }
}

/// Value of `--recipe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RecipeChoice {
    /// BF16.
    Bf16,
    /// FP8 with a scale per expert, sums in the tensor core.
    Fp8Fast,
    /// FP8 with a scale per expert.
    Fp8Tensor,
    /// FP8 with scales per block.
    Fp8Block,
    /// MXFP8.
    Mxfp8,
    /// NVFP4.
    Nvfp4,
}

impl RecipeChoice {
    fn of(numbers: Numbers) -> Self {
        match numbers {
            Numbers::Bf16 => Self::Bf16,
            Numbers::Fp8Fast => Self::Fp8Fast,
            Numbers::Fp8Tensor => Self::Fp8Tensor,
            Numbers::Fp8Block => Self::Fp8Block,
            Numbers::Mxfp8 => Self::Mxfp8,
            Numbers::Nvfp4 => Self::Nvfp4,
        }
    }

    /// As tables have it.
    fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8Fast => "fp8-fast",
            Self::Fp8Tensor => "fp8-tensor",
            Self::Fp8Block => "fp8-block",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
        }
    }

    /// What names of its quantizers begin with.
    fn quantizers(self) -> &'static [&'static str] {
        match self {
            Self::Bf16 => &[],
            Self::Fp8Fast | Self::Fp8Tensor => &["group."],
            Self::Fp8Block => &["vector.", "square."],
            Self::Mxfp8 => &["mxfp8.", "mxfp8-exact."],
            Self::Nvfp4 => &["nvfp4-exact."],
        }
    }
}

/// Value of `--tile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TileChoice {
    /// 256 × 256 by two blocks.
    Pair,
    /// 128 × 256 by one block.
    Block,
}

/// Prints predictions.
pub fn run(args: &BenchArgs) -> Result<()> {
    ensure!(
        args.model,
        "`bench` has one mode, `--model`, which predicts times; to measure kernels on a GPU use \
         `cargo bench`"
    );
    print!("{}", predictions(args)?);
    Ok(())
}

fn predictions(args: &BenchArgs) -> Result<String> {
    let machine = args.device.machine();
    let block = args.tile == TileChoice::Block;
    ensure!(
        !block || machine.generation == Generation::Blackwell,
        "`--tile block` is for Blackwell: the kernels of {} make tiles in one way",
        machine.name
    );
    let kernels = wanted_kernels(args, machine, block)?;
    if args.stages {
        return Ok(kernels_table(machine, &kernels));
    }
    let rows = rows(args, machine, &kernels)?;
    if args.errors {
        return errors_table(machine, &rows);
    }
    if args.json { json(machine, &rows) } else { Ok(rows_table(machine, &rows)) }
}

/// The kernels whose products are predicted. Recipes that have no product of their own on the
/// machine are refused if products of theirs are asked for by name.
fn wanted_kernels(args: &BenchArgs, machine: &Machine, block: bool) -> Result<Vec<Kernel>> {
    let all = machine.kernels(block);
    if args.recipe.is_empty() {
        return Ok(all);
    }
    let quantizers_only = !args.stages && args.pass == [PassChoice::Quantize];
    let mut kernels = Vec::new();
    for &recipe in &args.recipe {
        match all.iter().find(|kernel| RecipeChoice::of(kernel.numbers) == recipe) {
            Some(kernel) => kernels.push(*kernel),
            None if quantizers_only => {}
            None => bail!("{}", absent(machine, recipe)),
        }
    }
    Ok(kernels)
}

/// Why there is no prediction of such a product.
fn absent(machine: &Machine, recipe: RecipeChoice) -> String {
    let instead = match (machine.generation, recipe) {
        (Generation::Blackwell, RecipeChoice::Fp8Block) => {
            return format!(
                "the model does not know how {} promotes sums of `fp8-block` from tensor memory",
                machine.name
            );
        }
        (Generation::Hopper, _) => {
            "it is multiplied in BF16 there; `--pass quantize` has its quantizers"
        }
        (Generation::Blackwell, _) => "its tensor cores sum in FP32; use `fp8-tensor`",
    };
    format!("{} has no product of `{}` of its own: {instead}", machine.name, recipe.name())
}

fn rows(args: &BenchArgs, machine: &Machine, kernels: &[Kernel]) -> Result<Vec<Row>> {
    let wants = |pass: PassChoice| args.pass.is_empty() || args.pass.contains(&pass);
    let mut rows = Vec::new();
    for shape in wanted_shapes(args)? {
        for kernel in kernels {
            for pass in PassChoice::value_variants().iter().copied().filter(|pass| wants(*pass)) {
                let Some(pass) = pass.product() else { continue };
                // Fast sums are for fprop alone.
                if kernel.numbers == Numbers::Fp8Fast && pass != Pass::Fprop {
                    continue;
                }
                rows.push(product_row(machine, *kernel, pass, &shape));
            }
        }
        if wants(PassChoice::Quantize) {
            rows.extend(quantizer_rows(args, machine, &shape));
        }
    }
    ensure!(!rows.is_empty(), "no kernel of {} is left by these flags", machine.name);
    Ok(rows)
}

fn wanted_shapes(args: &BenchArgs) -> Result<Vec<Shape>> {
    let all = suite();
    if args.shape.is_empty() {
        return Ok(all);
    }
    let find = |id: &String| match all.iter().find(|shape| shape.id == id) {
        Some(shape) => Ok(shape.clone()),
        None => bail!("there is no shape `{id}`: there are s01 to s12 and x01 to x04"),
    };
    args.shape.iter().map(find).collect()
}

fn product_row(machine: &Machine, kernel: Kernel, pass: Pass, shape: &Shape) -> Row {
    let name = RecipeChoice::of(kernel.numbers).name();
    let prediction = product::predict(machine, kernel, pass, shape);
    let measured_rate = measured::rate(machine, shape.id, Some(pass), name);
    Row {
        shape: shape.id,
        pass: pass.name(),
        kernel: name,
        seconds: prediction.seconds,
        work: shape.flops(),
        bound: prediction.bound,
        measured_seconds: measured_rate.map(|tflops| shape.flops() / (tflops * 1e12)),
        product: Some(prediction),
    }
}

fn quantizer_rows(args: &BenchArgs, machine: &Machine, shape: &Shape) -> Vec<Row> {
    let wants = |name: &str| {
        let of_recipe = |recipe: &RecipeChoice| {
            recipe.quantizers().iter().any(|beginning| name.starts_with(beginning))
        };
        args.recipe.is_empty() || args.recipe.iter().any(of_recipe)
    };
    let mut rows = Vec::new();
    let kept = |quantizer: &Quantizer| quantizer.is_for(machine);
    for (name, quantizer) in QUANTIZERS.iter().filter(|(name, q)| wants(name) && kept(q)) {
        let prediction = quantizer.predict(machine, shape);
        let work = prediction.counted_bytes as f64;
        let share = measured::rate(machine, shape.id, None, name);
        rows.push(Row {
            shape: shape.id,
            pass: "quantize",
            kernel: name,
            seconds: prediction.seconds,
            work,
            bound: prediction.bound,
            measured_seconds: share.map(|share| work / (share * machine.copy_bandwidth)),
            product: None,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::report::Errors;
    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn args(flags: &[&str]) -> BenchArgs {
        CommandLine::parse_from([&["bench", "--model"], flags].concat()).args
    }

    fn all_rows(flags: &[&str]) -> Vec<Row> {
        let args = args(flags);
        let machine = args.device.machine();
        rows(&args, machine, &wanted_kernels(&args, machine, false).unwrap()).unwrap()
    }

    /// How far predictions are from what was measured: shapes that had a part in the fit, and those
    /// that had none.
    #[test]
    fn predictions_are_near_measured_times() {
        let rows = all_rows(&[]);
        let [products, other_products, quantizers, other_quantizers] = Errors::of(&rows);
        // Rows, median, nine of ten, all.
        for (errors, rows, median, most, all) in [
            (products, 72, 0.015, 0.05, 0.09),
            (other_products, 40, 0.02, 0.125, 0.25),
            (quantizers, 60, 0.015, 0.05, 0.23),
            (other_quantizers, 30, 0.015, 0.045, 0.07),
        ] {
            assert_eq!(errors.rows, rows);
            assert!(errors.median < median && errors.most < most && errors.all < all, "{errors:?}");
        }
    }

    /// Every prediction of every machine is a time, at a clock that the card has, and no product is
    /// faster than its tensor cores at that clock or than device memory.
    #[test]
    fn predictions_keep_to_the_limits_of_the_machine() {
        for device in ["h200", "b200"] {
            let flags = ["--device", device];
            let machine = args(&flags).device.machine();
            let kernels = machine.kernels(false);
            for row in all_rows(&flags) {
                assert!(row.seconds.is_finite() && row.seconds > 0.0, "{}", row.shape);
                let Some(product) = row.product else { continue };
                assert!(product.clock <= machine.clock.most && product.clock > 1.2e9);
                assert!(row.seconds > product.memory_seconds);
                let kernel = kernels
                    .iter()
                    .find(|kernel| RecipeChoice::of(kernel.numbers).name() == row.kernel)
                    .unwrap();
                let flops = machine.bf16_flops * 16.0 / kernel.numbers.bits() as f64;
                let peak = f64::from(machine.multiprocessors) * flops * product.clock;
                assert!(row.work / row.seconds < peak, "{} {}", row.shape, row.kernel);
                assert!(product.balance > 0.0 && product.balance < 1.0 + 1e-9);
            }
        }
    }

    #[test]
    fn what_cannot_be_predicted_is_refused() {
        for (flags, reason) in [
            (&["--recipe=mxfp8"][..], "multiplied in BF16"),
            (&["--recipe=fp8-block", "--device=b200"], "from tensor memory"),
            (&["--recipe=fp8-fast", "--device=b200"], "use `fp8-tensor`"),
            (&["--tile=block"], "for Blackwell"),
            (&["--shape=s99"], "no shape `s99`"),
            (&["--recipe=bf16", "--pass=quantize"], "no kernel"),
            (&["--recipe=nvfp4", "--pass=quantize", "--device=b200"], "no kernel"),
            (&["--errors", "--device=b200"], "nothing of this was measured"),
        ] {
            let error = predictions(&args(flags)).unwrap_err().to_string();
            assert!(error.contains(reason), "{flags:?}: {error}");
        }
        assert!(predictions(&args(&["--recipe=mxfp8", "--pass=quantize"])).is_ok());
    }
}
