//! How long kernels should take, by arithmetic alone.
//!
//! A product's time is that of the busiest multiprocessor (its tiles, their stages and ends, in the
//! order in which the kernels walk), at the clock that the power limit leaves, added to the time of
//! device memory as [`fitted::OVERLAP`] says, and the edges of the kernels. A quantizer's time is
//! that of the bytes it moves. Where a number comes from stands beside it: in [`machine`], or in
//! [`fitted`] if it was fitted.

pub mod fitted;
pub mod kernel;
pub mod machine;
pub mod product;
pub mod quantize;

/// What a time is mostly made of, or which unit sets the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Products.
    TensorCore,
    /// Copies into shared memory and reads from it.
    SharedMemory,
    /// Copies from L2.
    L2,
    /// The ring is too short for the latency of copies.
    Latency,
    /// Scales on their way to sums.
    Promotion,
    /// Ends of tiles.
    Epilogue,
    /// Bytes of device memory.
    DeviceMemory,
    /// Instructions of threads.
    Instructions,
    /// Launches and set-up.
    Edges,
}

impl Bound {
    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TensorCore => "tensor core",
            Self::SharedMemory => "shared memory",
            Self::L2 => "L2",
            Self::Latency => "latency",
            Self::Promotion => "promotion",
            Self::Epilogue => "epilogue",
            Self::DeviceMemory => "device memory",
            Self::Instructions => "instructions",
            Self::Edges => "edges",
        }
    }
}

/// Seconds of `pointer_setup`: 4.5 µs for 8 groups, 5.6 µs for 128, measured (docs/benchmarks.md).
pub fn setup_seconds(groups: u64) -> f64 {
    4.5e-6 + (groups as f64 - 8.0) / 120.0 * 1.1e-6
}

#[cfg(test)]
mod tests {
    use grouped_linear::plan::{
        BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, Plan, QuantizeProblem, ScaleSource,
        Target,
    };
    use grouped_linear::recipe::{Blocks, Format, Mxfp8Scaling, Nvfp4Scaling, Role};
    use grouped_linear::{DType, Form, QuantizedSpec, Recipe, SourceShape};

    use super::kernel::{Arrangement, Kernel};
    use super::machine::{B200, H200};
    use super::quantize::{self as model, Copies, Quantizer};
    use crate::bench::RecipeChoice;
    use crate::bench::suite::Shape;
    use crate::info::quantized;

    const PRODUCT: GemmProblem = GemmProblem {
        pass: Pass::Fprop,
        groups: 4,
        rows: 8192,
        in_features: 4096,
        out_features: 2048,
        input: DType::Bf16,
        output: DType::Bf16,
        bias: BiasKind::None,
        kernel: KernelChoice::Auto,
    };

    /// The plan chooses by constants of its own, since the library has no model of times: they are
    /// the clocks that this model computes.
    #[test]
    fn the_library_chooses_by_the_same_clocks() {
        let hopper = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
        let blackwell = GpuTarget { compute_capability: (10, 0), multiprocessors: 148 };
        let mut compared = 0;
        for (gpu, machine, arrangement, choice) in [
            (hopper, &H200, Arrangement::Warpgroups, KernelChoice::Block),
            (blackwell, &B200, Arrangement::Block, KernelChoice::Block),
            (blackwell, &B200, Arrangement::Pair, KernelChoice::Pair),
        ] {
            for kernel in machine.kernels(arrangement == Arrangement::Block) {
                let kernel = Kernel { arrangement, ..kernel };
                for (wgrad, single) in [(false, false), (true, false), (true, true)] {
                    let target = Target { gpu: Some(gpu) };
                    let product = GemmProblem {
                        pass: if wgrad { Pass::Wgrad } else { Pass::Fprop },
                        output: if single { DType::F32 } else { DType::Bf16 },
                        ..PRODUCT
                    };
                    let problem = match RecipeChoice::of(kernel.numbers) {
                        RecipeChoice::Bf16 => product.into(),
                        recipe => quantized(recipe, product, target).into(),
                    };
                    let explanation = Plan::explain(problem, target).expect("a product");
                    let own =
                        explanation.candidates.iter().filter(|c| c.candidate.choice == choice);
                    let cost =
                        own.filter_map(|weighed| weighed.cost).next_back().expect("a candidate");
                    let stage = kernel.stage(machine, wgrad).clocks();
                    let what = format!("{kernel:?} {wgrad} {single}: {cost:?}");
                    assert_eq!(f64::from(cost.stage), stage.round(), "{what}");
                    assert_eq!(u64::from(cost.blocks), arrangement.blocks(), "{what}");
                    let end = kernel.end(machine, single).clocks;
                    assert_eq!(f64::from(cost.end), end.round(), "{what}");
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 36);
    }

    /// Which features a kernel takes is the library's decision.
    #[test]
    fn the_library_takes_the_same_features() {
        let sizes = [8, 16, 20, 24, 32, 48, 60, 64, 96];
        let features = sizes.iter().flat_map(|n| sizes.iter().map(move |k| [*n, *k]));
        let features: Vec<[usize; 2]> = features.collect();
        for (machine, compute_capability) in [(&H200, (9, 0)), (&B200, (10, 0))] {
            let gpu = GpuTarget { compute_capability, multiprocessors: machine.multiprocessors };
            let target = Target { gpu: Some(gpu) };
            for kernel in machine.kernels(false) {
                for (&[n, k], pass) in features
                    .iter()
                    .flat_map(|sizes| [Pass::Fprop, Pass::Dgrad, Pass::Wgrad].map(|p| (sizes, p)))
                {
                    let product = GemmProblem { pass, in_features: k, out_features: n, ..PRODUCT };
                    let (problem, form) = match RecipeChoice::of(kernel.numbers) {
                        RecipeChoice::Bf16 => (product.into(), Form::Codes),
                        recipe => {
                            let problem = quantized(recipe, product, target);
                            (problem.into(), problem.forms[0])
                        }
                    };
                    // Exact numbers are multiplied by the kernels of BF16.
                    let taken = form != Form::Exact && Plan::new(problem, target).is_ok();
                    let multiple = kernel.numbers.multiple() as usize;
                    let fits = n.is_multiple_of(multiple) && k.is_multiple_of(multiple);
                    assert_eq!(fits, taken, "{kernel:?} {pass:?} N {n} K {k}");
                }
            }
        }
        let fp8 = |blocks| Format::fp8(DType::E4m3, blocks);
        let [mxfp8, nvfp4] =
            [Recipe::Mxfp8(Mxfp8Scaling::default()), Recipe::Nvfp4(Nvfp4Scaling::default())]
                .map(|recipe| recipe.format(Role::Input));
        for (format, library) in [
            (model::Format::Vector, fp8(Blocks::Vector)),
            (model::Format::Square, fp8(Blocks::Square)),
            (model::Format::Group, fp8(Blocks::Tensor)),
            (model::Format::Mxfp8, mxfp8),
            (model::Format::Mxfp8Exact, mxfp8),
            (model::Format::Nvfp4Exact, nvfp4),
        ] {
            let quantizer = Quantizer { format, copies: Copies::Both };
            assert_eq!(quantizer.multiple(), library.multiple() as u64, "{format:?}");
        }
    }

    /// Which groups are small is the library's decision.
    #[test]
    fn the_library_reads_the_same_groups_once() {
        let quantizer = Quantizer { format: model::Format::Group, copies: Copies::Both };
        let form = Some(Form::Codes);
        let mut small = 0;
        for (machine, compute_capability) in [(&H200, (9, 0)), (&B200, (10, 0))] {
            let gpu = GpuTarget { compute_capability, multiprocessors: machine.multiprocessors };
            let shapes = [264, 265, 296, 297].map(|tiles| vec![128 * tiles; 3]);
            for splits in shapes.into_iter().chain([vec![1], vec![1 << 20], vec![0, 129 * 128]]) {
                let shape = Shape::unnamed(splits, 256, 128);
                let [rows, groups] = [shape.rows(), shape.groups()].map(|size| size as usize);
                let problem = QuantizeProblem {
                    destination: QuantizedSpec {
                        groups,
                        source: SourceShape::Tokens { rows, features: 128 },
                        format: Format::fp8(DType::E4m3, Blocks::Tensor),
                        rowwise: form,
                        columnwise: form,
                    },
                    input: DType::Bf16,
                    scales: ScaleSource::Own,
                    dbias: None,
                    four_over_six: None,
                    stochastic: false,
                };
                let plan = Plan::new(problem.into(), Target { gpu: Some(gpu) }).expect("a plan");
                let scales = plan.launch.and_then(|launch| launch.scales).expect("scales");
                let once = quantizer.reads_once(machine, &shape);
                assert_eq!(once, scales.amax.is_none(), "{} {:?}", machine.name, shape.splits);
                small += usize::from(once);
            }
        }
        assert_eq!(small, 3 + 5);
    }
}
