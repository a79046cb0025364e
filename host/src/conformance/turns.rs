//! Which cases an engine runs where there is no time for all: several architectures share most
//! kernels' sources, so those are run whole on one of them and by turns on the others.

use super::cases::Case;
use super::low_precision::{LowPrecisionCase, ProductCase};
use crate::recipe::Format;
use crate::tensor::Form;

/// Which kernels a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelsOf {
    /// Those whose sources every architecture shares.
    All,
    /// Products of 16-bit operands on an architecture's own tensor cores, and shared ones.
    Sixteen,
    /// Products of FP8 operands on them, and shared ones.
    Fp8,
    /// Products of MXFP8 and NVFP4 in codes, where tensor cores apply scales of blocks, and shared
    /// ones; other architectures refuse them.
    Micro,
}

impl KernelsOf {
    /// Those of a case.
    pub fn case(case: &Case) -> Self {
        if case.multiplies_on_tensor_cores() { Self::Sixteen } else { Self::All }
    }

    /// Those of a case in low precision.
    pub fn low_precision(case: &LowPrecisionCase) -> Self {
        match case {
            LowPrecisionCase::Quantize(_) | LowPrecisionCase::Steps(_) => Self::All,
            LowPrecisionCase::Product(ProductCase { a: Format::Fp8 { .. }, .. }) => Self::Fp8,
            LowPrecisionCase::Product(ProductCase { form: Form::Swizzled, .. }) => Self::Micro,
            // Exact numbers are multiplied in BF16.
            LowPrecisionCase::Product(_) => Self::Sixteen,
        }
    }
}

/// How many cases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns {
    /// One of so many cases of an architecture's own kernels.
    pub own: usize,
    /// One of so many cases of kernels that all share.
    pub shared: usize,
}

impl Turns {
    /// Every case.
    pub(super) const ALL: Self = Self { own: 1, shared: 1 };

    /// Whether the case with this number in its list has its turn.
    pub(super) fn takes(self, number: usize, kernels: KernelsOf) -> bool {
        let one_of = if kernels == KernelsOf::All { self.shared } else { self.own };
        number.is_multiple_of(one_of.max(1))
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use std::collections::HashSet;

    use grouped_linear_kernels::variants::{KERNELS, Kernel, Role};

    use super::super::cases::Operation;
    use super::super::{BLACKWELL_TURNS, low_precision_cases, selected_cases};
    use super::*;
    use crate::conformance::SCHEDULER_SEEDS;
    use crate::plan::{
        BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, Problem, ScaledGemmProblem,
        Target,
    };

    #[test]
    fn cases_are_told_apart_by_their_kernels() {
        let cases = selected_cases();
        let low = low_precision_cases();
        let all = cases.iter().map(KernelsOf::case).chain(low.iter().map(KernelsOf::low_precision));
        let all: Vec<KernelsOf> = all.collect();
        for kernels in [KernelsOf::All, KernelsOf::Sixteen, KernelsOf::Fp8, KernelsOf::Micro] {
            let count = all.iter().filter(|found| **found == kernels).count();
            println!("{kernels:?}: {count} of {}", all.len());
            assert!(count >= 50, "{kernels:?}: {count} of {}", all.len());
        }
        // A case that is refused runs nothing.
        for case in cases.iter().filter(|case| case.refusal(true).is_some()) {
            assert_eq!(KernelsOf::case(case), KernelsOf::All, "{case}");
        }
    }

    #[test]
    fn turns_meet_every_seed_of_the_scheduler() {
        let turns = BLACKWELL_TURNS;
        for (kernels, one_of) in [
            (KernelsOf::Sixteen, turns.own),
            (KernelsOf::Fp8, turns.own),
            (KernelsOf::Micro, turns.own),
            (KernelsOf::All, turns.shared),
        ] {
            let taken: Vec<usize> = (0..480).filter(|&n| turns.takes(n, kernels)).collect();
            assert_eq!(taken.len(), 480 / one_of);
            let seeds = taken.iter().map(|number| number % SCHEDULER_SEEDS.len());
            let seeds: HashSet<usize> = seeds.collect();
            assert_eq!(seeds.len(), SCHEDULER_SEEDS.len(), "{kernels:?}");
        }
        assert!((0..100).all(|number| Turns::ALL.takes(number, KernelsOf::All)));
    }

    /// Products of a case, as plans see them. Those of layers are left to the single operations.
    fn product(case: &Case) -> Option<Problem> {
        let pass = match case.operation {
            Operation::Fprop => Pass::Fprop,
            Operation::Dgrad => Pass::Dgrad,
            Operation::Wgrad => Pass::Wgrad,
            _ => return None,
        };
        let splits = case.rows.splits();
        let gemm = GemmProblem {
            pass,
            groups: splits.len(),
            rows: splits.iter().sum::<usize>() + case.tail,
            in_features: case.in_features,
            out_features: case.out_features,
            input: case.input,
            output: case.output,
            bias: BiasKind::None,
            kernel: KernelChoice::Auto,
        };
        case.multiplies_on_tensor_cores().then_some(gemm.into())
    }

    fn scaled_product(case: &LowPrecisionCase) -> Option<Problem> {
        let LowPrecisionCase::Product(case) = case else { return None };
        let splits = case.rows.splits();
        let scaled = ScaledGemmProblem {
            pass: case.pass,
            groups: splits.len(),
            rows: splits.iter().sum::<usize>() + case.tail,
            in_features: case.in_features,
            out_features: case.out_features,
            a: case.a,
            b: case.b,
            forms: [case.form; 2],
            accumulation: case.accumulation,
            output: case.output,
            bias: BiasKind::None,
            power_of_two_scales: true,
            kernel: KernelChoice::Auto,
        };
        Some(scaled.into())
    }

    /// The names of products on Blackwell's tensor cores that the cases do not run.
    fn left_out(turns: Turns) -> Vec<&'static str> {
        let gpu = Some(GpuTarget { compute_capability: (10, 0), multiprocessors: 4 });
        let cases = selected_cases();
        let low = low_precision_cases();
        let sixteen = cases.iter().enumerate().map(|(n, c)| (n, KernelsOf::case(c), product(c)));
        let low = low.iter().enumerate();
        let low = low.map(|(n, c)| (n, KernelsOf::low_precision(c), scaled_product(c)));
        let taken =
            sixteen.chain(low).filter(|(number, kernels, _)| turns.takes(*number, *kernels));
        let run: HashSet<&str> = taken
            .filter_map(|(.., problem)| Plan::new(problem?, Target { gpu }).ok()?.launch?.kernel)
            .filter_map(|kernel| kernel.row().ok())
            .map(|kernel| kernel.name)
            .collect();
        let products = |kernel: &&Kernel| matches!(kernel.role, Role::GemmSm100(_));
        KERNELS.iter().filter(products).map(|k| k.name).filter(|n| !run.contains(n)).collect()
    }

    #[test]
    fn every_product_of_blackwell_has_its_turn() {
        assert_eq!(left_out(Turns::ALL), [""; 0]);
        assert_eq!(left_out(BLACKWELL_TURNS), [""; 0]);
    }
}
