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
}

/// Whether a shape belongs to a set.
pub type Member = fn(&ShapeRecord) -> bool;

/// Shapes that means are taken over, by name.
pub const SETS: [(&str, Member); 3] = [
    ("s01 to s12", |shape| shape.id.len() == 3 && shape.id.starts_with('s')),
    ("m1 to m6", |shape| shape.id.len() == 2 && shape.id.starts_with('m')),
    ("m1z to m6z", |shape| shape.id.len() == 3 && shape.id.starts_with('m')),
];

/// A contender of a table: ours, or whom ours is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// Name.
    pub name: &'a str,
    /// Whether it is of this library.
    pub ours: bool,
    /// Whether its recorded graph was replayed. Only replays are compared with replays.
    pub replay: bool,
}

impl<'a> Who<'a> {
    fn of(times: &'a Times) -> Self {
        Self { name: &times.name, ours: times.ours, replay: times.replay }
    }

    /// Ours, as tables have it.
    pub fn label(self) -> String {
        if self.replay { format!("{} replay", self.name) } else { self.name.to_owned() }
    }

    /// The same beside ours.
    pub fn rival_label(self) -> String {
        if self.ours { format!("our {}", self.label()) } else { self.label() }
    }

    /// Whether it does the same work, and is not only a ceiling.
    pub fn is_peer(self) -> bool {
        !self.ours && !self.name.starts_with("dense")
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
    /// The run's cases with a shape, by section, task, quantity and replay, in the order of the
    /// first shape.
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

    fn contenders(&self, ours: bool) -> Vec<Who<'a>> {
        let mut all = Vec::new();
        for times in self.cases.iter().flat_map(|(_, case)| &case.times) {
            let who = Who::of(times);
            if times.ours == ours && !all.contains(&who) {
                all.push(who);
            }
        }
        all
    }

    /// Whether it has times on the GPU, of plain calls alone.
    pub fn is_plain(&self) -> bool {
        self.first.quantity == Quantity::Gpu && !self.first.replay
    }

    /// Contenders of ours, in the order in which they first appear.
    pub fn ours(&self) -> Vec<Who<'a>> {
        self.contenders(true).into_iter().filter(|who| who.name != PRODUCTS).collect()
    }

    /// Peers of one of ours, called as it was; of layers, our own one in BF16 and its products
    /// alone, too.
    pub fn rivals(&self, ours: Who<'_>) -> Vec<Who<'a>> {
        let layer = self.first.section.starts_with("layer.");
        let baseline = |who: &Who<'_>| {
            layer && who.name != ours.name && ["bf16", PRODUCTS].contains(&who.name)
        };
        let own = self.contenders(true).into_iter().filter(baseline);
        let all = self.contenders(false).into_iter().chain(own);
        all.filter(|who| who.replay == ours.replay).collect()
    }

    /// How many times as fast `ours` is as a rival, for each shape that has both.
    pub fn ratios(&self, ours: Who<'_>, rival: Who<'_>) -> Ratios<'a> {
        let ratio = |(shape, case): &(&'a ShapeRecord, &'a CaseRecord)| {
            Some((*shape, of(case, rival)?.us / of(case, ours)?.us))
        };
        self.cases.iter().filter_map(ratio).collect()
    }

    /// The same beside the fastest peer of each shape, if there are two at least.
    pub fn ratios_to_best(&self, ours: Who<'_>) -> Ratios<'a> {
        let mut ratios: Vec<Ratios<'a>> = Vec::new();
        for rival in self.rivals(ours).into_iter().filter(|rival| rival.is_peer()) {
            ratios.push(self.ratios(ours, rival));
        }
        if ratios.len() < 2 {
            return Vec::new();
        }
        let mut best: Ratios<'a> = Vec::new();
        for (shape, ratio) in ratios.into_iter().flatten() {
            match best.iter_mut().find(|(own, _)| own.id == shape.id) {
                Some((_, least)) => *least = least.min(ratio),
                None => best.push((shape, ratio)),
            }
        }
        best
    }
}

/// Three products alone, as a layer has them.
const PRODUCTS: &str = "products";

/// Ratios by shape.
pub type Ratios<'a> = Vec<(&'a ShapeRecord, f64)>;

/// Geometric mean and least of ratios.
pub struct Mean<'a> {
    /// The mean.
    pub mean: f64,
    /// The least, and where.
    pub least: (&'a ShapeRecord, f64),
    /// Shapes.
    pub count: usize,
}

/// Over the shapes of a set; `None` if there is none of them.
pub fn mean<'a>(ratios: &Ratios<'a>, member: Member) -> Option<Mean<'a>> {
    let chosen: Ratios<'a> = ratios.iter().copied().filter(|(shape, _)| member(shape)).collect();
    let least = *chosen.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let logs: f64 = chosen.iter().map(|(_, ratio)| ratio.ln()).sum();
    let count = chosen.len();
    Some(Mean { mean: (logs / count as f64).exp(), least, count })
}

/// How many times as fast ours is over fprop, dgrad and wgrad together.
pub fn ratios_of_three<'a>(tables: &[&Table<'a>], ours: Who<'_>, rival: Who<'_>) -> Ratios<'a> {
    let [Some(fprop), Some(dgrad), Some(wgrad)] = ["fprop", "dgrad", "wgrad"]
        .map(|task| tables.iter().find(|table| table.first.task == task))
    else {
        return Vec::new();
    };
    let mut ratios = Vec::new();
    for (shape, first) in &fprop.cases {
        let in_table = |table: &Table<'a>| {
            table.cases.iter().find(|(own, _)| own.id == shape.id).map(|(_, case)| *case)
        };
        let (Some(second), Some(third)) = (in_table(dgrad), in_table(wgrad)) else { continue };
        let sum = |who: Who<'_>| -> Option<f64> {
            [*first, second, third].iter().map(|case| Some(of(case, who)?.us)).sum()
        };
        if let (Some(own), Some(other)) = (sum(ours), sum(rival)) {
            ratios.push((*shape, other / own));
        }
    }
    ratios
}

/// A contender's times in a case.
pub fn of<'a>(case: &'a CaseRecord, who: Who<'_>) -> Option<&'a Times> {
    case.times.iter().find(|times| Who::of(times) == who)
}

/// TFLOP/s, or TB/s where bytes count; `None` where neither does.
pub fn rate(case: &CaseRecord, us: f64) -> Option<f64> {
    let work = if case.flops > 0.0 { case.flops } else { case.bytes };
    (case.quantity != Quantity::Host && work > 0.0).then(|| work / us / 1e6)
}

/// TB/s of the fastest copy of the run.
pub fn copy_rate(record: &Record) -> Option<f64> {
    let case = record.cases.iter().find(|case| case.section == "copy")?;
    let rates = case.times.iter().filter_map(|times| rate(case, times.us));
    rates.max_by(f64::total_cmp)
}

/// Bytes that a product must move: operands once, the result once, or in and out of what it is
/// added to.
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
