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

    /// As tables have it.
    fn name(self) -> &'static str {
        self.product().map_or("quantize", Pass::name)
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

    /// Whether its tensors are made by the quantizer of that name.
    fn uses(self, quantizer: &str) -> bool {
        self.quantizers().iter().any(|beginning| quantizer.starts_with(beginning))
    }

    /// Whether the model has kernels of it for a pass.
    fn has(self, machine: &Machine, pass: PassChoice) -> bool {
        match pass.product() {
            Some(pass) => {
                let mut kernels = machine.kernels(false).into_iter();
                kernels.any(|kernel| Self::of(kernel.numbers) == self && multiplies(kernel, pass))
            }
            None => quantizers(machine).any(|(name, _)| self.uses(name)),
        }
    }
}

/// Whether a kernel is for a pass: fast sums are for fprop alone.
fn multiplies(kernel: Kernel, pass: Pass) -> bool {
    kernel.numbers != Numbers::Fp8Fast || pass == Pass::Fprop
}

/// The quantizers that the model has of a machine, with their names.
fn quantizers(machine: &Machine) -> impl Iterator<Item = &'static (&'static str, Quantizer)> {
    QUANTIZERS.iter().filter(|(_, quantizer)| quantizer.is_for(machine))
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
            None => bail!("{}", missing(args, machine, &[recipe], Some(absence(machine, recipe)))),
        }
    }
    Ok(kernels)
}

/// Why there is no product of a recipe.
fn absence(machine: &Machine, recipe: RecipeChoice) -> &'static str {
    match (machine.generation, recipe) {
        (Generation::Blackwell, RecipeChoice::Fp8Block) => {
            "how its sums are promoted from tensor memory is not modelled"
        }
        (Generation::Blackwell, _) => "the tensor cores there sum in FP32; use `fp8-tensor`",
        (Generation::Hopper, _) => {
            "its operands are multiplied in BF16 there; `--pass quantize` has its quantizers"
        }
    }
}

/// Which kernels the flags ask for that the model lacks, and the recipes that it has instead for each
/// of the passes named.
fn missing(
    args: &BenchArgs,
    machine: &Machine,
    recipes: &[RecipeChoice],
    why: Option<&str>,
) -> String {
    let lacks = |pass: &PassChoice| !recipes.iter().any(|recipe| recipe.has(machine, *pass));
    let passes: Vec<PassChoice> = args.pass.iter().copied().filter(lacks).collect();
    let kernel = match passes[..] {
        [] => "product".to_owned(),
        _ => format!("`{}` kernel", joined(&passes, PassChoice::name, "` or `")),
    };
    let mut flags = format!("`--recipe {}`", joined(&args.recipe, RecipeChoice::name, ","));
    if !args.pass.is_empty() {
        flags += &format!(" with `--pass {}`", joined(&args.pass, PassChoice::name, ","));
    }
    let others = passes.iter().map(|&pass| {
        let mut others = RecipeChoice::value_variants().to_vec();
        others.retain(|recipe| recipe.has(machine, pass));
        let others = joined(&others, RecipeChoice::name, ", ");
        format!("`--pass {}` has the recipes {others}", pass.name())
    });
    let reasons: Vec<String> = why.map(str::to_owned).into_iter().chain(others).collect();
    let recipes = joined(recipes, RecipeChoice::name, "` or `");
    let reasons = reasons.join("; ");
    format!("the model has no {kernel} of `{recipes}` on {} ({flags}): {reasons}", machine.name)
}

fn joined<T: Copy>(choices: &[T], name: fn(T) -> &'static str, between: &str) -> String {
    choices.iter().map(|choice| name(*choice)).collect::<Vec<_>>().join(between)
}

fn rows(args: &BenchArgs, machine: &Machine, kernels: &[Kernel]) -> Result<Vec<Row>> {
    let wants = |pass: PassChoice| args.pass.is_empty() || args.pass.contains(&pass);
    let mut rows = Vec::new();
    for shape in wanted_shapes(args)? {
        for kernel in kernels {
            for pass in PassChoice::value_variants().iter().copied().filter(|pass| wants(*pass)) {
                let Some(pass) = pass.product() else { continue };
                if multiplies(*kernel, pass) {
                    rows.push(product_row(machine, *kernel, pass, &shape));
                }
            }
        }
        if wants(PassChoice::Quantize) {
            rows.extend(quantizer_rows(args, machine, &shape));
        }
    }
    ensure!(!rows.is_empty(), "{}", missing(args, machine, &args.recipe, None));
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
    let wants =
        |name: &str| args.recipe.is_empty() || args.recipe.iter().any(|recipe| recipe.uses(name));
    let mut rows = Vec::new();
    for (name, quantizer) in quantizers(machine).filter(|(name, _)| wants(name)) {
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
            (&["--errors", "--device=b200"], "nothing of this was measured"),
        ] {
            let error = predictions(&args(flags)).unwrap_err().to_string();
            assert!(error.contains(reason), "{flags:?}: {error}");
        }
    }

    #[test]
    fn a_missing_kernel_is_named_with_the_recipes_that_its_pass_has() {
        for (flags, message) in [
            (
                &["--recipe=fp8-fast", "--pass=dgrad"][..],
                "the model has no `dgrad` kernel of `fp8-fast` on h200 (`--recipe fp8-fast` with \
                 `--pass dgrad`): `--pass dgrad` has the recipes bf16, fp8-tensor, fp8-block",
            ),
            (
                &["--recipe=mxfp8,bf16", "--pass=fprop,quantize"],
                "the model has no `fprop` kernel of `mxfp8` on h200 (`--recipe mxfp8,bf16` with \
                 `--pass fprop,quantize`): its operands are multiplied in BF16 there; `--pass \
                 quantize` has its quantizers; `--pass fprop` has the recipes bf16, fp8-fast, \
                 fp8-tensor, fp8-block",
            ),
            (
                &["--recipe=bf16,nvfp4", "--pass=quantize", "--device=b200"],
                "the model has no `quantize` kernel of `bf16` or `nvfp4` on b200 (`--recipe \
                 bf16,nvfp4` with `--pass quantize`): `--pass quantize` has the recipes fp8-fast, \
                 fp8-tensor, mxfp8",
            ),
            (
                &["--recipe=nvfp4"],
                "the model has no product of `nvfp4` on h200 (`--recipe nvfp4`): its operands are \
                 multiplied in BF16 there; `--pass quantize` has its quantizers",
            ),
        ] {
            assert_eq!(predictions(&args(flags)).unwrap_err().to_string(), message);
        }
    }

    /// What is predicted of a recipe and a pass is what messages list; all else is refused.
    #[test]
    fn recipes_that_messages_list_are_predicted() {
        let mut refused = 0;
        for device in MachineChoice::value_variants() {
            for recipe in RecipeChoice::value_variants() {
                for pass in PassChoice::value_variants() {
                    let args = BenchArgs {
                        device: *device,
                        recipe: vec![*recipe],
                        pass: vec![*pass],
                        ..args(&["--shape=s01"])
                    };
                    let listed = recipe.has(device.machine(), *pass);
                    assert_eq!(predictions(&args).is_ok(), listed, "{args:?}");
                    refused += usize::from(!listed);
                }
            }
        }
        // H200: fast sums of three passes, four of MXFP8 and NVFP4 each, quantizers of BF16. B200:
        // four of fast and of block-scaled sums each, quantizers of blocks, of NVFP4 and of BF16.
        assert_eq!(refused, 3 + 4 + 4 + 1 + 4 + 4 + 3);
    }
}
