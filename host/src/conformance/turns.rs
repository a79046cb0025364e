//! Which cases an engine runs where there is no time for all: several architectures share most
//! kernels' sources, so those are run whole on one of them and by turns on the others.

use grouped_linear_kernels::variants::{KERNELS, Role, Sm100Gemm, Sm100Product};

use super::cases::Case;
use super::low_precision::{LowPrecisionCase, ProductCase};
use crate::plan::KernelTarget;
use crate::recipe::Format;

/// Which kernels a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelsOf {
    /// Those whose sources every architecture shares.
    All,
    /// Products of 16-bit operands on an architecture's own tensor cores, and shared ones.
    Sixteen,
    /// Products of FP8 operands on them, and shared ones.
    Fp8,
}

impl KernelsOf {
    /// Those of a case.
    pub fn case(case: &Case) -> Self {
        if case.multiplies_on_tensor_cores() { Self::Sixteen } else { Self::All }
    }

    /// Those of a case in low precision.
    pub fn low_precision(case: &LowPrecisionCase) -> Self {
        match case {
            LowPrecisionCase::Quantize(_) => Self::All,
            LowPrecisionCase::Product(ProductCase { a: Format::Fp8 { .. }, .. }) => Self::Fp8,
            // MXFP8 and NVFP4 are multiplied as exact numbers in BF16.
            LowPrecisionCase::Product(_) => Self::Sixteen,
        }
    }

    /// Whether the kernel table has such kernels for an architecture.
    pub(super) fn are_compiled(self, target: KernelTarget) -> bool {
        let is_one = |role: Role| match self {
            Self::All => true,
            Self::Sixteen => matches!(
                role,
                Role::GemmSm90(..)
                    | Role::GemmSm100(Sm100Gemm { product: Sm100Product::Sixteen(..), .. })
            ),
            Self::Fp8 => matches!(
                role,
                Role::GemmFp8(_) | Role::GemmSm100(Sm100Gemm { product: Sm100Product::Fp8(_), .. })
            ),
        };
        KERNELS.iter().any(|kernel| kernel.runs_on(target) && is_one(kernel.role))
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

#[cfg(test)]
mod tests {
    use super::super::{low_precision_cases, selected_cases};
    use super::*;
    use crate::conformance::SCHEDULER_SEEDS;

    #[test]
    fn cases_are_told_apart_by_their_kernels() {
        let cases = selected_cases();
        let low = low_precision_cases();
        let all = cases.iter().map(KernelsOf::case).chain(low.iter().map(KernelsOf::low_precision));
        let all: Vec<KernelsOf> = all.collect();
        for kernels in [KernelsOf::All, KernelsOf::Sixteen, KernelsOf::Fp8] {
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
    fn every_architecture_has_every_kind_of_kernel() {
        for target in KernelTarget::ALL {
            for kernels in [KernelsOf::All, KernelsOf::Sixteen, KernelsOf::Fp8] {
                assert!(kernels.are_compiled(target), "{target:?} {kernels:?}");
            }
        }
    }

    #[test]
    fn turns_meet_every_seed_of_the_scheduler() {
        let turns = Turns { own: 2, shared: 16 };
        for (kernels, one_of) in
            [(KernelsOf::Sixteen, 2), (KernelsOf::Fp8, 2), (KernelsOf::All, 16)]
        {
            let taken: Vec<usize> = (0..400).filter(|&n| turns.takes(n, kernels)).collect();
            assert_eq!(taken.len(), 400 / one_of);
            let seeds = taken.iter().map(|number| number % SCHEDULER_SEEDS.len());
            let seeds: std::collections::HashSet<usize> = seeds.collect();
            assert_eq!(seeds.len(), SCHEDULER_SEEDS.len(), "{kernels:?}");
        }
        assert!((0..100).all(|number| Turns::ALL.takes(number, KernelsOf::All)));
    }
}
