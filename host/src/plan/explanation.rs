//! What a plan decided, and why, in words.

use std::fmt;

use super::choice::{Candidate, KernelChoice, Standing};
use super::cost::Cost;
use super::problem::{GemmProblem, Problem};
use super::{GpuTarget, LaunchPlan, Plan, PlannedKernel, Target, row};
use crate::error::Result;

/// What a plan decided, and why. It prints as a few lines.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// What is computed.
    pub problem: Problem,
    /// On what.
    pub target: Target,
    /// The kernels that could compute a product; none on the CPU, which has one way for each, nor
    /// of other operations, which have one kernel each.
    pub candidates: Vec<Weighed>,
    /// The decision, or why there is none.
    pub plan: Result<Plan>,
}

/// A candidate and what the model gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Weighed {
    /// The kernel.
    pub candidate: Candidate,
    /// Its entry point in the PTX.
    pub name: &'static str,
    /// What the product costs with it; none if it is refused.
    pub cost: Option<Cost>,
}

impl Plan {
    /// How `problem` would run on `target`, and why so: the same decision as [`Plan::new`], with
    /// the kernels that were candidates, what keeps some of them from it, and what the others cost.
    ///
    /// ```
    /// use grouped_linear::plan::{
    ///     BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Target,
    /// };
    /// use grouped_linear::DType;
    /// let problem = GemmProblem {
    ///     pass: Pass::Fprop,
    ///     groups: 8,
    ///     rows: 4096,
    ///     in_features: 512,
    ///     out_features: 1024,
    ///     input: DType::Bf16,
    ///     output: DType::Bf16,
    ///     bias: BiasKind::None,
    ///     kernel: KernelChoice::Auto,
    /// };
    /// let gpu = GpuTarget { compute_capability: (10, 0), multiprocessors: 148 };
    /// let explanation = Plan::explain(problem.into(), Target { gpu: Some(gpu) })?;
    /// assert!(explanation.to_string().contains("gemm_sm100_fprop_pair_bf16, the cheapest of 2"));
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// What leaves no candidates to look at: sizes out of range, element types that no kernel
    /// takes, a device without kernels, quantized operands in a form that it does not multiply. A
    /// kernel that was asked for and is not eligible, or features that leave none eligible, are in
    /// [`Explanation::plan`].
    pub fn explain(problem: Problem, target: Target) -> Result<Explanation> {
        problem.check()?;
        let candidates = match target.gpu {
            Some(gpu) => candidates(&problem, gpu)?,
            None => Vec::new(),
        };
        Ok(Explanation { problem, target, candidates, plan: Plan::new(problem, target) })
    }
}

fn candidates(problem: &Problem, gpu: GpuTarget) -> Result<Vec<Weighed>> {
    gpu.kernels()?;
    let contest = match problem {
        Problem::Gemm(gemm) => gemm.contest(gpu)?,
        Problem::ScaledGemm(scaled) => scaled.contest(gpu)?,
        _ => return Ok(Vec::new()),
    };
    let weigh = |candidate: Candidate| {
        let kernel = row(candidate.role)?;
        let cost = match candidate.standing {
            Standing::Refused(_) => None,
            Standing::Eligible | Standing::ByName => Some(Cost::of(&contest.problem, kernel)),
        };
        Ok(Weighed { candidate, name: kernel.name, cost })
    };
    contest.candidates().map(weigh).collect()
}

impl Explanation {
    fn product(&self) -> Option<GemmProblem> {
        match &self.problem {
            Problem::Gemm(gemm) => Some(*gemm),
            Problem::ScaledGemm(scaled) => Some(scaled.unscaled()),
            _ => None,
        }
    }

    /// Why the kernel is what it is.
    fn reason(&self, chosen: PlannedKernel) -> String {
        let standings = self.candidates.iter().map(|weighed| weighed.candidate.standing);
        let eligible = standings.filter(|standing| *standing == Standing::Eligible).count();
        let asked = self.product().map_or(KernelChoice::Auto, |product| product.kernel);
        let found = |weighed: &&Weighed| weighed.candidate.role == chosen.role;
        match self.candidates.iter().find(found) {
            Some(found) if found.candidate.choice == asked => {
                format!("asked for by name, KernelChoice::{asked:?}")
            }
            Some(_) if self.product().is_some_and(|product| product.rows == 0) => {
                "there are no token rows, so nothing is multiplied".to_owned()
            }
            Some(_) if eligible > 1 => format!("the cheapest of {eligible} that are eligible"),
            Some(_) => "the only one that is eligible".to_owned(),
            None => "the one kernel for it".to_owned(),
        }
    }

    fn write_launch(&self, f: &mut fmt::Formatter<'_>, launch: &LaunchPlan) -> fmt::Result {
        let (Some(chosen), Some(gpu)) = (launch.kernel, self.target.gpu) else {
            writeln!(f, "choice     no kernel, there is nothing to write")?;
            return write!(f, "workspace  {} bytes", launch.workspace.bytes);
        };
        let Ok(kernel) = chosen.row() else { return Err(fmt::Error) };
        let [x, y] = chosen.grid;
        writeln!(f, "choice     {}, {}", kernel.name, self.reason(chosen))?;
        if let Some(align) = launch.align {
            writeln!(f, "before     align, {} blocks", align.grid[0])?;
        }
        writeln!(
            f,
            "grid       {x} x {y} blocks of {} threads in clusters of {}, {} bytes of shared memory each",
            kernel.threads, kernel.cluster, kernel.shared_bytes
        )?;
        let tile = kernel.tile;
        write!(f, "tile       {} x {}", tile.m, tile.n)?;
        match self.product() {
            Some(product) => {
                let cost = Cost::of(&product, kernel);
                let workers = u64::from((x / kernel.cluster.max(1)).max(1));
                writeln!(f, ", {} stages of {}", cost.stages, tile.k)?;
                writeln!(
                    f,
                    "waves      {} of {workers} tiles at once, {} tiles if all groups are average",
                    cost.tiles.div_ceil(workers),
                    cost.tiles
                )?;
                let clocks = cost.clocks.div_ceil(u128::from(gpu.multiprocessors.max(1)));
                writeln!(f, "cost       {clocks} clocks of each multiprocessor")?;
            }
            None => writeln!(f)?,
        }
        write!(f, "workspace  {} bytes", launch.workspace.bytes)
    }
}

impl fmt::Display for Weighed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Candidate { choice, standing, .. } = self.candidate;
        write!(f, "{:<7} {:<44} ", choice.name(), self.name)?;
        let standing = match standing {
            Standing::Eligible => "eligible",
            Standing::ByName => "if asked for",
            Standing::Refused(obstacle) => return write!(f, "no: {obstacle}"),
        };
        let Some(Cost { tiles, blocks, stages, stage, ends, end, before, clocks }) = self.cost
        else {
            return write!(f, "{standing}");
        };
        write!(
            f,
            "{standing}: {clocks} clocks = {tiles} tiles x {blocks} blocks x {stages} stages x {stage}"
        )?;
        if end > 0 {
            write!(f, " + {ends} ends x {end}")?;
        }
        if before > 0 { write!(f, " + {before} before") } else { Ok(()) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.product() {
            Some(product) => {
                let GemmProblem { pass, groups, rows, in_features, out_features, .. } = product;
                let pass = format!("{pass:?}").to_lowercase();
                write!(f, "{pass}, {groups} groups, {rows} rows, {out_features} x {in_features}")?;
            }
            None => write!(f, "{:?}", self.problem)?,
        }
        match self.target.gpu {
            Some(GpuTarget { compute_capability: (major, minor), multiprocessors }) => writeln!(
                f,
                ", compute capability {major}.{minor}, {multiprocessors} multiprocessors"
            )?,
            None => writeln!(f, ", CPU")?,
        }
        for weighed in &self.candidates {
            writeln!(f, "candidate  {weighed}")?;
        }
        match &self.plan {
            Err(error) => write!(f, "choice     none: {error}"),
            Ok(Plan { launch: Some(launch), .. }) => self.write_launch(f, launch),
            Ok(Plan { launch: None, .. }) => {
                write!(f, "choice     the CPU reference, which has no kernels to choose from")
            }
        }
    }
}
