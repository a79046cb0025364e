//! Numbers of a run: rates, ratios, means.

use super::record::{CaseRecord, Quantity, Record, ShapeRecord, Times};

impl ShapeRecord {
    /// Rows of all experts.
    pub fn rows(&self) -> u64 {
        self.splits.iter().sum()
    }

    /// Experts that have rows.
    pub fn live(&self) -> u64 {
        self.splits.iter().filter(|&&rows| rows != 0).count() as u64
    }

    /// Whether means are taken over it: s01 to s12.
    pub fn counts(&self) -> bool {
        self.id.len() == 3 && self.id.starts_with('s')
    }
}

/// Cases that one table shows: the same over several shapes.
pub struct Table<'a> {
    /// Any of them.
    pub first: &'a CaseRecord,
    /// With their shapes, in the order of the run.
    pub cases: Vec<(&'a ShapeRecord, &'a CaseRecord)>,
}

impl<'a> Table<'a> {
    /// The run's cases with a shape, by section, task, quantity and replay, in the order of the first
    /// shape.
    pub fn all(record: &'a Record) -> Vec<Self> {
        let mut tables: Vec<Self> = Vec::new();
        let key = |case: &CaseRecord| {
            (case.section.clone(), case.task.clone(), case.quantity, case.replay)
        };
        for case in &record.cases {
            let Some(shape) = record.shapes.iter().find(|shape| shape.id == case.shape) else {
                continue;
            };
            match tables.iter_mut().find(|table| key(table.first) == key(case)) {
                Some(table) => table.cases.push((shape, case)),
                None => tables.push(Self { first: case, cases: vec![(shape, case)] }),
            }
        }
        tables
    }

    /// Names of contenders on one side, in the order in which they first appear.
    pub fn names(&self, ours: bool) -> Vec<&'a str> {
        let mut names = Vec::new();
        for times in self.cases.iter().flat_map(|(_, case)| &case.times) {
            if times.ours == ours && !names.contains(&times.name.as_str()) {
                names.push(times.name.as_str());
            }
        }
        names
    }

    /// How many times as fast `ours` is as `peer`, for each shape that has both.
    pub fn ratios(&self, ours: &str, peer: &str) -> Vec<(&'a ShapeRecord, f64)> {
        let ratio = |(shape, case): &(&'a ShapeRecord, &'a CaseRecord)| {
            Some((*shape, of(case, peer, false)?.us / of(case, ours, true)?.us))
        };
        self.cases.iter().filter_map(ratio).collect()
    }

    /// Geometric mean of [`Self::ratios`] over s01 to s12, with the number of shapes it has.
    pub fn mean(&self, ours: &str, peer: &str) -> Option<(f64, usize)> {
        let ratios = self.ratios(ours, peer);
        let logs: Vec<f64> = ratios
            .iter()
            .filter(|(shape, _)| shape.counts())
            .map(|(_, ratio)| ratio.ln())
            .collect();
        let count = logs.len();
        (count > 0).then(|| ((logs.iter().sum::<f64>() / count as f64).exp(), count))
    }
}

/// A contender's times in a case.
pub fn of<'a>(case: &'a CaseRecord, name: &str, ours: bool) -> Option<&'a Times> {
    case.times.iter().find(|times| times.ours == ours && times.name == name)
}

/// TFLOP/s, or TB/s where bytes count; `None` where neither does.
pub fn rate(case: &CaseRecord, us: f64) -> Option<f64> {
    let work = if case.flops > 0.0 { case.flops } else { case.bytes };
    (case.quantity == Quantity::Gpu && work > 0.0).then(|| work / us / 1e6)
}

/// TB/s of the fastest copy of the run.
pub fn copy_rate(record: &Record) -> Option<f64> {
    let case = record.cases.iter().find(|case| case.section == "copy")?;
    let rates = case.times.iter().filter_map(|times| rate(case, times.us));
    rates.max_by(f64::total_cmp)
}

/// Bytes that a product must move: operands once, the result once, or in and out of what it is added
/// to.
pub fn product_bytes(shape: &ShapeRecord, section: &str, task: &str) -> Option<f64> {
    let [rows, n, k, live, groups] =
        [shape.rows(), shape.n, shape.k, shape.live(), shape.splits.len() as u64]
            .map(|number| number as f64);
    let operand = match section {
        "bf16" => 2.0,
        "fp8" => 1.0,
        _ => return None,
    };
    Some(match task {
        "fprop" => operand * (rows * k + live * n * k) + 2.0 * rows * n,
        "dgrad" => operand * (rows * n + live * n * k) + 2.0 * rows * k,
        "wgrad" => operand * rows * (n + k) + 2.0 * groups * n * k,
        "accumulate" => operand * rows * (n + k) + 8.0 * live * n * k,
        _ => return None,
    })
}
