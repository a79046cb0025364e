//! `bench --model`: times from arithmetic, beside what was measured.

use anyhow::{Result, bail, ensure};
use clap::ValueEnum;

use super::choices::{PassChoice, RecipeChoice, RecipeName, TileChoice, multiplies, quantizers};
use super::model::kernel::Kernel;
use super::model::machine::{Generation, Machine};
use super::model::product::{self, Pass};
use super::model::quantize::Quantizer;
use super::report::{Row, errors_table, json, kernels_table, rows_table};
use super::suite::{SEED, Shape};
use super::{BenchArgs, measured};

/// The text that `--model` prints.
pub fn predictions(args: &BenchArgs) -> Result<String> {
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
    let quantizers_only = args.pass == [PassChoice::Quantize];
    let mut kernels: Vec<Kernel> = Vec::new();
    for &recipe in &args.recipe {
        let is_own =
            |kernel: &&Kernel| recipe.kernels().contains(&RecipeChoice::of(kernel.numbers));
        if !quantizers_only && !all.iter().any(|kernel| is_own(&kernel)) {
            bail!("{}", missing(args, machine, &[recipe], Some(absence(machine, recipe))));
        }
        let new: Vec<Kernel> =
            all.iter().filter(is_own).filter(|own| !kernels.contains(own)).copied().collect();
        kernels.extend(new);
    }
    Ok(kernels)
}

/// Why there is no product of a recipe.
fn absence(machine: &Machine, recipe: RecipeName) -> &'static str {
    match (machine.generation, recipe) {
        (Generation::Blackwell, RecipeName::Block) => {
            "how its sums are promoted from tensor memory is not modelled"
        }
        (Generation::Blackwell, _) => "the tensor cores there sum in FP32; use `fp8-tensor`",
        (Generation::Hopper, _) => {
            "its operands are multiplied in BF16 there; `--pass quantize` has its quantizers"
        }
    }
}

/// Which kernels the flags ask for that the model lacks, and the recipes that it has instead for
/// each of the passes named.
fn missing(
    args: &BenchArgs,
    machine: &Machine,
    recipes: &[RecipeName],
    why: Option<&str>,
) -> String {
    let kernels = || recipes.iter().flat_map(|recipe| recipe.kernels());
    let lacks = |pass: &PassChoice| !kernels().any(|kernel| kernel.has(machine, *pass));
    let passes: Vec<PassChoice> = args.pass.iter().copied().filter(lacks).collect();
    let kernel = match passes[..] {
        [] => "product".to_owned(),
        _ => format!("`{}` kernel", joined(&passes, PassChoice::name, "` or `")),
    };
    let mut flags = format!("`--recipe {}`", joined(&args.recipe, RecipeName::name, ","));
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
    let recipes = joined(recipes, RecipeName::name, "` or `");
    let reasons = reasons.join("; ");
    format!("the model has no {kernel} of `{recipes}` on {} ({flags}): {reasons}", machine.name)
}

fn joined<T: Copy>(choices: &[T], name: fn(T) -> &'static str, between: &str) -> String {
    choices.iter().map(|choice| name(*choice)).collect::<Vec<_>>().join(between)
}

fn rows(args: &BenchArgs, machine: &Machine, kernels: &[Kernel]) -> Result<Vec<Row>> {
    let wants = |pass: PassChoice| args.pass.is_empty() || args.pass.contains(&pass);
    let mut rows = Vec::new();
    let known = args.seed == SEED; // measured were the splits of that seed
    for shape in args.shapes()? {
        for kernel in kernels {
            for pass in PassChoice::value_variants().iter().copied().filter(|pass| wants(*pass)) {
                let Some(pass) = pass.product() else { continue };
                if multiplies(*kernel, pass) {
                    check_product(machine, *kernel, &shape)?;
                    rows.push(product_row(machine, *kernel, pass, (&shape, known)));
                }
            }
        }
        if wants(PassChoice::Quantize) {
            rows.extend(quantizer_rows(args, machine, (&shape, known))?);
        }
    }
    ensure!(!rows.is_empty(), "{}", missing(args, machine, &args.recipe, None));
    Ok(rows)
}

/// Refuses features that the kernel does not take: another one would run, or none.
fn check_product(machine: &Machine, kernel: Kernel, shape: &Shape) -> Result<()> {
    let name = RecipeChoice::of(kernel.numbers).name();
    let what = format!("the `{name}` products on {}", machine.name);
    check_features(&what, kernel.numbers.multiple(), shape, &[shape.n, shape.k])
}

fn check_quantizer(name: &str, quantizer: Quantizer, shape: &Shape) -> Result<()> {
    let what = format!("the quantizer `{name}`");
    let features = if quantizer.is_of_weights() { vec![shape.n, shape.k] } else { vec![shape.k] };
    check_features(&what, quantizer.multiple(), shape, &features)
}

fn check_features(what: &str, multiple: u64, shape: &Shape, features: &[u64]) -> Result<()> {
    let Shape { id, n, k, .. } = shape;
    ensure!(
        features.iter().all(|size| size.is_multiple_of(multiple)),
        "{id} has N = {n} and K = {k}, and features of {what} are multiples of {multiple}; pad them, \
         or name what takes them with `--recipe` and `--pass`"
    );
    Ok(())
}

fn product_row(
    machine: &Machine,
    kernel: Kernel,
    pass: Pass,
    (shape, known): (&Shape, bool),
) -> Row {
    let name = RecipeChoice::of(kernel.numbers).name();
    let prediction = product::predict(machine, kernel, pass, shape);
    let rate = || measured::rate(machine, &shape.id, Some(pass), name);
    let measured_rate = if known { rate() } else { None };
    Row {
        shape: shape.id.clone(),
        pass: pass.name(),
        kernel: name,
        seconds: prediction.seconds,
        work: shape.flops(),
        bound: prediction.bound,
        measured_seconds: measured_rate.map(|tflops| shape.flops() / (tflops * 1e12)),
        product: Some(prediction),
    }
}

fn quantizer_rows(
    args: &BenchArgs,
    machine: &Machine,
    (shape, known): (&Shape, bool),
) -> Result<Vec<Row>> {
    let wants = |name: &str| args.wanted_recipes().iter().any(|recipe| recipe.uses(name));
    let mut rows = Vec::new();
    for (name, quantizer) in quantizers(machine).filter(|(name, _)| wants(name)) {
        check_quantizer(name, *quantizer, shape)?;
        let prediction = quantizer.predict(machine, shape);
        let work = prediction.counted_bytes as f64;
        let rate = || measured::rate(machine, &shape.id, None, name);
        let share = if known { rate() } else { None };
        rows.push(Row {
            shape: shape.id.clone(),
            pass: "quantize",
            kernel: name,
            seconds: prediction.seconds,
            work,
            bound: prediction.bound,
            measured_seconds: share.map(|share| work / (share * machine.copy_bandwidth)),
            product: None,
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::choices::MachineChoice;
    use super::super::report::Errors;
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
            (&["--recipe=block", "--device=b200"], "no product of `block` on b200"),
            (&["--tile=block"], "for Blackwell"),
            (&["--shape=s99"], "no shape `s99`"),
            (&["--errors", "--device=b200"], "was measured on b200"),
        ] {
            let error = predictions(&args(flags)).unwrap_err().to_string();
            assert!(error.contains(reason), "{flags:?}: {error}");
        }
    }

    #[test]
    fn features_that_no_kernel_takes_are_refused() {
        for (flags, reason) in [
            (
                &["--own=2,512,60,64,bal"][..],
                "own1 has N = 60 and K = 64, and features of the `bf16` products on h200 are \
                 multiples of 8; pad them",
            ),
            (&["--own=2,512,64,60,bal", "--recipe=bf16"], "the `bf16` products on h200"),
            (&["--own=2,512,64,24,bal"], "the `fp8-fast` products on h200"),
            (&["--own=2,512,48,64,bal", "--recipe=nvfp4", "--device=b200"], "multiples of 32"),
            (&["--shape=s01", "--own=2,512,64,40,bal", "--pass=quantize"], "`vector.row`"),
            (&["--own=2,512,40,64,bal", "--pass=quantize"], "`square.both`"),
            (&["--own=2,512,64,48,bal", "--pass=quantize"], "`mxfp8.row`"),
        ] {
            let error = predictions(&args(flags)).unwrap_err().to_string();
            assert!(error.contains(reason), "{flags:?}: {error}");
        }
        for flags in [
            &["--own=2,512,24,40,bal", "--recipe=bf16"][..],
            &["--own=2,512,48,80,bal", "--pass=fprop"],
            &["--own=2,512,40,64,bal", "--recipe=mxfp8", "--pass=quantize"],
        ] {
            let predicted = predictions(&args(flags));
            assert!(predicted.is_ok(), "{flags:?}: {predicted:?}");
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
            for recipe in RecipeName::value_variants() {
                for pass in PassChoice::value_variants() {
                    let args = BenchArgs {
                        device: *device,
                        recipe: vec![*recipe],
                        pass: vec![*pass],
                        ..args(&["--shape=s01"])
                    };
                    let mut kernels = recipe.kernels().iter();
                    let listed = kernels.any(|kernel| kernel.has(device.machine(), *pass));
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
