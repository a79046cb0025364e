//! Predictions as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::choices::RecipeChoice;
use super::model::Bound;
use super::model::fitted::{PRODUCT_SHAPES, QUANTIZER_SHAPES};
use super::model::kernel::Kernel;
use super::model::machine::{Generation, Machine};
use super::model::product::Prediction;

/// One kernel over one shape.
pub struct Row {
    /// Name of the shape.
    pub shape: String,
    /// Name of the pass.
    pub pass: &'static str,
    /// Name of the product's numbers, or of the quantizer.
    pub kernel: &'static str,
    /// Predicted.
    pub seconds: f64,
    /// FLOPs of a product, or bytes that count of a quantizer.
    pub work: f64,
    /// What sets the pace.
    pub bound: Bound,
    /// Measured, if it was.
    pub measured_seconds: Option<f64>,
    /// The rest of a product's prediction.
    pub product: Option<Prediction>,
}

impl Row {
    /// Work a second, in units of 10¹²: TFLOP/s or TB/s.
    fn rate(&self) -> f64 {
        self.work / self.seconds / 1e12
    }

    /// Predicted time in measured ones.
    fn ratio(&self) -> Option<f64> {
        Some(self.seconds / self.measured_seconds?)
    }
}

/// What a reader must know of the machine's numbers.
fn heading(machine: &Machine) -> &'static str {
    match machine.generation {
        Generation::Hopper => "H200: predicted by the model, beside what was measured.",
        Generation::Blackwell => "B200: predicted from assumptions. NOTHING HERE IS MEASURED.",
    }
}

/// A line for each row. The last column is the predicted time in measured ones.
pub fn rows_table(machine: &Machine, rows: &[Row]) -> String {
    let mut text = format!("{}\n", heading(machine));
    let _ = writeln!(
        text,
        "{:<6}{:<11}{:<20}{:>12}{:>14}  {:<14}{:>12}{:>7}",
        "shape", "pass", "kernel", "predicted", "rate", "bound", "measured", "ratio"
    );
    for row in rows {
        let time = |seconds: f64| format!("{:.0} us", seconds * 1e6);
        let rate = match row.product {
            Some(_) => format!("{:.0} TFLOP/s", row.rate()),
            None => format!("{:.2} TB/s", row.rate()),
        };
        let _ = writeln!(
            text,
            "{:<6}{:<11}{:<20}{:>12}{rate:>14}  {:<14}{:>12}{:>7}",
            row.shape,
            row.pass,
            row.kernel,
            time(row.seconds),
            row.bound.name(),
            row.measured_seconds.map_or("-".to_owned(), time),
            row.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
        );
    }
    text
}

/// An array with an object for each row.
pub fn json(machine: &Machine, rows: &[Row]) -> Result<String> {
    let basis = match machine.generation {
        Generation::Hopper => "model checked against measurements",
        Generation::Blackwell => "assumptions",
    };
    let values: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut value = json!({
                "device": machine.name,
                "basis": basis,
                "shape": row.shape,
                "pass": row.pass,
                "kernel": row.kernel,
                "predicted_us": row.seconds * 1e6,
                "bound": row.bound.name(),
                "measured_us": row.measured_seconds.map(|seconds| seconds * 1e6),
                "predicted_over_measured": row.ratio(),
            });
            let rate = if row.product.is_some() { "tflops" } else { "tb_per_s" };
            value[rate] = json!(row.rate());
            if let Some(product) = &row.product {
                value["clocks"] = json!(product.clocks);
                value["clock_ghz"] = json!(product.clock / 1e9);
                value["memory_us"] = json!(product.memory_seconds * 1e6);
                value["tiles"] = json!(product.tiles);
                value["rounds"] = json!(product.rounds);
                value["balance"] = json!(product.balance);
            }
            value
        })
        .collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&values)?))
}

/// What a stage and the end of a tile cost. Bytes are those of one multiprocessor.
pub fn kernels_table(machine: &Machine, kernels: &[Kernel]) -> String {
    let mut text = format!("{}\n", heading(machine));
    for kernel in kernels {
        let arrangement = kernel.arrangement;
        let _ = writeln!(
            text,
            "{}: tiles of {} x 256 by {} block{}, {} stages of {} deep, {} columns of tensor \
             memory",
            RecipeChoice::of(kernel.numbers).name(),
            arrangement.rows(),
            arrangement.blocks(),
            if arrangement.blocks() == 1 { "" } else { "s" },
            kernel.ring(),
            kernel.numbers.depth(),
            arrangement.tensor_memory_columns()
        );
        let stage = kernel.stage(machine, false);
        let covered = stage.clocks() * (kernel.ring() - 1) as f64;
        let _ = writeln!(
            text,
            "  stage, bytes    copied {}, read by the tensor core {}, scales {}, sums {}",
            stage.copied, stage.read, stage.scales, stage.sums
        );
        let _ = writeln!(
            text,
            "  stage, clocks   multiply {:.0}, shared memory {:.0}, L2 {:.0}, scales {:.0} \
             (wgrad {:.0}): {:.0} (wgrad {:.0})",
            stage.multiply,
            stage.shared,
            stage.l2,
            stage.promotion,
            kernel.stage(machine, true).promotion,
            stage.clocks(),
            kernel.stage(machine, true).clocks()
        );
        let _ = writeln!(
            text,
            "  copies          {covered:.0} clocks covered by the ring, {:.0} needed, {} bytes in \
             flight",
            machine.copy_latency,
            stage.copied * (kernel.ring() - 1)
        );
        for (name, accumulates) in [("16-bit", false), ("FP32 +=", true)] {
            let end = kernel.end(machine, accumulates);
            let hidden = if arrangement.hides_ends() {
                let stages = end.hiding_stages(&stage);
                format!("hidden behind {stages} stages or more")
            } else {
                "not hidden".to_owned()
            };
            let _ = writeln!(
                text,
                "  end, {name:<8}   {:.0} clocks, {hidden}; {} bytes from tensor memory",
                end.clocks, end.tensor_memory
            );
        }
    }
    text
}

/// How far predictions are from measured times, for each pass and kernel.
pub fn errors_table(machine: &Machine, rows: &[Row]) -> Result<String> {
    let mut ratios: BTreeMap<(&str, &str), Vec<(f64, &str)>> = BTreeMap::new();
    for row in rows {
        if let Some(ratio) = row.ratio() {
            ratios.entry((row.pass, row.kernel)).or_default().push((ratio, row.shape.as_str()));
        }
    }
    ensure!(
        !ratios.is_empty(),
        "none of these shapes, passes and recipes was measured on {} with this seed; --errors \
         alone shows what was",
        machine.name
    );
    let mut text = format!(
        "{:<11}{:<20}{:>7}{:>10}{:>16}{:>16}\n",
        "pass", "kernel", "shapes", "median", "lowest", "highest"
    );
    for ((pass, kernel), mut ratios) in ratios {
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let place = |(ratio, shape): (f64, &str)| format!("{ratio:.3} ({shape})");
        let [Some(first), Some(last)] = [ratios.first(), ratios.last()] else { continue };
        let _ = writeln!(
            text,
            "{pass:<11}{kernel:<20}{:>7}{:>10.3}{:>16}{:>16}",
            ratios.len(),
            median(&ratios),
            place(*first),
            place(*last)
        );
    }
    let _ = writeln!(
        text,
        "\n{:<45}{:>6}{:>9}{:>10}{:>8}",
        "errors", "rows", "median", "9 of 10", "all"
    );
    let sets = [
        "products of the shapes fitted to",
        "products of the other shapes",
        "quantizers of the shapes fitted to",
        "quantizers of the other shapes",
    ];
    for (name, errors) in sets.iter().zip(Errors::of(rows)).filter(|(_, errors)| errors.rows != 0) {
        let percent = |error: f64| format!("{:.1} %", 100.0 * error);
        let _ = writeln!(
            text,
            "{name:<45}{:>6}{:>9}{:>10}{:>8}",
            errors.rows,
            percent(errors.median),
            percent(errors.most),
            percent(errors.all)
        );
    }
    Ok(text)
}

/// How far predicted times are from measured ones, in parts of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Rows that were measured.
    pub rows: usize,
    /// Half of the errors are no larger.
    pub median: f64,
    /// Nine of ten are no larger.
    pub most: f64,
    /// None is larger.
    pub all: f64,
}

impl Errors {
    /// Those of products and quantizers, of the shapes that constants were fitted to and of the
    /// others: products, other products, quantizers, other quantizers.
    pub fn of(rows: &[Row]) -> [Self; 4] {
        let mut errors = [const { Vec::new() }; 4];
        for row in rows {
            let Some(ratio) = row.ratio() else { continue };
            let (set, shapes) =
                if row.product.is_some() { (0, PRODUCT_SHAPES) } else { (2, QUANTIZER_SHAPES) };
            let set = set + usize::from(!shapes.contains(&row.shape.as_str()));
            errors[set].push((ratio - 1.0).abs());
        }
        errors.map(Self::from_errors)
    }

    fn from_errors(mut errors: Vec<f64>) -> Self {
        errors.sort_by(f64::total_cmp);
        let share = |share: f64| {
            let place = (share * errors.len() as f64).ceil() as usize;
            errors.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { rows: errors.len(), median: share(0.5), most: share(0.9), all: share(1.0) }
    }
}

fn median(sorted: &[(f64, &str)]) -> f64 {
    let at = |i: usize| sorted.get(i).map_or(f64::NAN, |(ratio, _)| *ratio);
    (at((sorted.len().max(1) - 1) / 2) + at(sorted.len() / 2)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_by_rank() {
        let errors = Errors::from_errors((1..=10).rev().map(|i| f64::from(i) / 100.0).collect());
        assert_eq!(errors, Errors { rows: 10, median: 0.05, most: 0.09, all: 0.1 });
        assert_eq!(Errors::from_errors(Vec::new()).all, 0.0);
        let of = |ratios: &[f64]| median(&ratios.iter().map(|&r| (r, "")).collect::<Vec<_>>());
        assert_eq!((of(&[1.0, 2.0, 4.0]), of(&[1.0, 2.0])), (2.0, 1.5));
    }
}
