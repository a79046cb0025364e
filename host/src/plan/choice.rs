//! Which kernel computes a product on a GPU: the candidates of the kernel table, whether each may,
//! and the choice among them.

use std::fmt;

use grouped_linear_kernels::abi::ElementType;
use grouped_linear_kernels::variants::{Kernel, Role, Sm100Gemm, Sm100Product};

use super::cost::Cost;
use super::problem::GemmProblem;
use super::target::{GpuTarget, KernelTarget, capability};
use super::{KernelRole, row, tensor_cores};
use crate::error::{Error, Result};

/// Which kernel computes a product. One that is not eligible is an error of the plan, before
/// anything is launched. Where there are no token rows nothing is multiplied, whatever was asked
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelChoice {
    /// The cheapest of those that are eligible ([`Plan::explain`](super::Plan::explain) prints
    /// them): tensor cores, for FP32 the readable kernel.
    #[default]
    Auto,
    /// The readable kernel without tensor cores: any features, any type but quantized ones, slow.
    Simt,
    /// Tensor cores, a tile of 128 × 256 by one block: Hopper's kernel, or one of Blackwell's.
    Block,
    /// Tensor cores, a tile of 128 × 240 by one block: Hopper's other kernel of fprop, of 16-bit
    /// operands, for features that fill such tiles better.
    Narrow,
    /// Tensor cores, a tile of 256 × 256 by two blocks of a cluster: Blackwell's other kernel.
    Pair,
    /// Tensor cores, of codes in FP8 whose blocks have been brought to one scale for each feature
    /// of X: Hopper's other kernel of wgrad where both operands have vectors of 128, with one
    /// before it that aligns X into scratch memory (docs/numerics.md says what that changes).
    Aligned,
}

impl KernelChoice {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Simt, Self::Block, Self::Narrow, Self::Pair, Self::Aligned];

    /// Its name, as [`ops`](crate::ops) and the command line have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Simt => "simt",
            Self::Block => "block",
            Self::Narrow => "narrow",
            Self::Pair => "pair",
            Self::Aligned => "aligned",
        }
    }
}

/// A kernel that could compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Candidate {
    /// How it is asked for. One of each architecture may have the same name.
    pub choice: KernelChoice,
    /// The row of the kernel table.
    pub role: KernelRole,
    /// Whether it may compute the product.
    pub standing: Standing,
}

/// Whether a kernel may compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// It may, and [`KernelChoice::Auto`] takes the cheapest of these.
    Eligible,
    /// It may if it is asked for by name. So stands the readable kernel where tensor cores take the
    /// type: where they are eligible it is some 70 times slower (docs/benchmarks.md, "The ladder"),
    /// and where they are not, an error tells how to make them so, which a slow product would not.
    /// So stand narrow tiles, too, where the output is one tile wide anyway: they save nothing but
    /// zeros, and aligned blocks where scales are known not to be powers of two: there is nothing
    /// to align.
    ByName,
    /// It may not.
    Refused(Obstacle),
}

/// Why a kernel may not compute a product. [`Display`](fmt::Display) says it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Obstacle {
    /// It is compiled for another architecture.
    Architecture {
        /// Compute capability that it is compiled for.
        needs: (u32, u32),
        /// That of the GPU.
        has: (u32, u32),
    },
    /// Two blocks make a tile on two multiprocessors, and the GPU has one.
    OneMultiprocessor,
    /// There are no token rows, so nothing for a tensor copy to describe, and nothing to multiply.
    NoRows,
    /// Lines of the tensors are no multiples of 16 bytes.
    Features {
        /// K.
        in_features: usize,
        /// N.
        out_features: usize,
    },
    /// The kernel reads no quantized operands.
    Quantized,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture { needs, has } => write!(
                f,
                "it is compiled for compute capability {}.{}, this GPU has {}.{}",
                needs.0, needs.1, has.0, has.1
            ),
            Self::OneMultiprocessor => {
                write!(f, "two blocks make a tile on two multiprocessors, this GPU has one")
            }
            Self::NoRows => write!(f, "without token rows there is nothing to copy or multiply"),
            Self::Features { in_features: k, out_features: n } => write!(
                f,
                "tensor copies need in_features and out_features that are multiples of 8, {k} and \
                 {n} were given"
            ),
            Self::Quantized => write!(f, "the readable kernel takes no quantized operands"),
        }
    }
}

/// Columns of a tile that is not narrow.
const TILE_COLUMNS: usize = 256;

/// A product and the GPU for which a kernel is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contest {
    /// Shape of the product, and the kernel that is asked for.
    pub(super) problem: GemmProblem,
    pub(super) gpu: GpuTarget,
    /// Type that the readable kernel would read.
    pub(super) element: ElementType,
    /// Whether the operands have scales.
    pub(super) quantized: bool,
    /// Hopper's kernel of tensor cores, if it has one for these operands.
    pub(super) sm90: Option<Role>,
    /// Its kernel of narrow tiles.
    pub(super) narrow: Option<Role>,
    /// Its kernel of aligned blocks, and whether they can be aligned as far as is known.
    pub(super) aligned: Option<(Role, bool)>,
    /// What Blackwell's kernels of tensor cores would multiply, if they take these operands.
    pub(super) sm100: Option<Sm100Product>,
}

impl Contest {
    /// The kernels of the table that could compute the product, of either architecture.
    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let simt = Candidate {
            choice: KernelChoice::Simt,
            role: Role::GemmSimt(self.element),
            standing: self.readable(),
        };
        let sm90 = self.sm90.map(|role| Candidate {
            choice: KernelChoice::Block,
            role,
            standing: self.tensor_cores(KernelTarget::Sm90a, 1),
        });
        let narrow = self.narrow.map(|role| Candidate {
            choice: KernelChoice::Narrow,
            role,
            standing: self.narrow_tiles(),
        });
        let aligned = self.aligned.map(|(role, can_be)| Candidate {
            choice: KernelChoice::Aligned,
            role,
            standing: match self.tensor_cores(KernelTarget::Sm90a, 1) {
                Standing::Eligible if !can_be => Standing::ByName,
                standing => standing,
            },
        });
        let sm100 = |pair| {
            self.sm100.map(|product| Candidate {
                choice: if pair { KernelChoice::Pair } else { KernelChoice::Block },
                role: Role::GemmSm100(Sm100Gemm { product, pair }),
                standing: self.tensor_cores(KernelTarget::Sm100a, if pair { 2 } else { 1 }),
            })
        };
        [Some(simt), sm90, narrow, aligned, sm100(false), sm100(true)].into_iter().flatten()
    }

    /// The readable kernel runs on every GPU. Without rows it writes what beta and wgrad leave to
    /// write.
    fn readable(&self) -> Standing {
        if self.problem.rows == 0 || !self.takes_operands() {
            Standing::Eligible
        } else if self.quantized {
            Standing::Refused(Obstacle::Quantized)
        } else {
            Standing::ByName
        }
    }

    /// Whether tensor cores of either architecture take these operands.
    fn takes_operands(&self) -> bool {
        self.sm90.is_some() || self.sm100.is_some()
    }

    fn tensor_cores(&self, target: KernelTarget, blocks: u32) -> Standing {
        let GemmProblem { rows, in_features, out_features, .. } = self.problem;
        let (needs, has) = (capability(target), self.gpu.compute_capability);
        let fit = |features: usize| features.is_multiple_of(tensor_cores::FEATURES);
        let obstacle = if needs != has {
            Obstacle::Architecture { needs, has }
        } else if self.gpu.multiprocessors < blocks {
            Obstacle::OneMultiprocessor
        } else if rows == 0 {
            Obstacle::NoRows
        } else if !fit(in_features) || !fit(out_features) {
            Obstacle::Features { in_features, out_features }
        } else {
            return Standing::Eligible;
        };
        Standing::Refused(obstacle)
    }

    fn narrow_tiles(&self) -> Standing {
        let (_, columns, _) = self.problem.extents();
        match self.tensor_cores(KernelTarget::Sm90a, 1) {
            Standing::Eligible if columns <= TILE_COLUMNS => Standing::ByName,
            standing => standing,
        }
    }

    /// The kernel that computes the product: the one that was asked for, else the cheapest that is
    /// eligible. Nothing is allocated, unless it fails.
    pub(super) fn choose(&self) -> Result<&'static Kernel> {
        match self.problem.kernel {
            KernelChoice::Auto => self.cheapest(),
            asked => self.asked(asked),
        }
    }

    fn cheapest(&self) -> Result<&'static Kernel> {
        let mut best: Option<(&'static Kernel, Option<Cost>)> = None;
        for candidate in self.candidates().filter(|c| c.standing == Standing::Eligible) {
            let kernel = row(candidate.role)?;
            best = Some(match best {
                // Where there is nothing to compare, no cost is needed.
                None => (kernel, None),
                Some((former, cost)) => {
                    let former_cost = cost.unwrap_or_else(|| Cost::of(&self.problem, former));
                    let cost = Cost::of(&self.problem, kernel);
                    match cost.clocks < former_cost.clocks {
                        true => (kernel, Some(cost)),
                        false => (former, Some(former_cost)),
                    }
                }
            });
        }
        best.map(|(kernel, _)| kernel).ok_or_else(|| self.none_eligible())
    }

    fn none_eligible(&self) -> Error {
        let features = self.candidates().find_map(|candidate| match candidate.standing {
            Standing::Refused(obstacle @ Obstacle::Features { .. }) => Some(obstacle),
            _ => None,
        });
        Error::unsupported(match features {
            Some(obstacle) => format!("{obstacle}; pad them, or ask for KernelChoice::Simt"),
            None => format!("no kernel is compiled for {:?}", self.problem),
        })
    }

    fn asked(&self, asked: KernelChoice) -> Result<&'static Kernel> {
        let mut obstacle = None;
        for candidate in self.candidates().filter(|candidate| candidate.choice == asked) {
            match candidate.standing {
                Standing::Eligible | Standing::ByName => return row(candidate.role),
                // Nothing is multiplied, so there is no choice to respect.
                Standing::Refused(Obstacle::NoRows) => return row(Role::GemmSimt(self.element)),
                Standing::Refused(found) => match (obstacle, found) {
                    (Some(_), Obstacle::Architecture { .. }) => {}
                    _ => obstacle = Some(found),
                },
            }
        }
        Err(Error::unsupported(match obstacle {
            Some(obstacle) => format!(
                "KernelChoice::{asked:?} was asked for: {obstacle}; KernelChoice::Auto takes what \
                 there is"
            ),
            None if asked == KernelChoice::Narrow && self.takes_operands() => format!(
                "KernelChoice::{asked:?} was asked for: narrow tiles are for fprop of 16-bit \
                 operands; KernelChoice::Auto takes what there is"
            ),
            None if asked == KernelChoice::Aligned => format!(
                "KernelChoice::{asked:?} was asked for: blocks are aligned in wgrad of FP8 operands that \
                 both have vectors of 128; KernelChoice::Auto takes what there is"
            ),
            None => format!(
                "KernelChoice::{asked:?} was asked for: tensor cores take no operands in {}; use \
                 KernelChoice::Auto or Simt",
                self.problem.input
            ),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grouped_linear_kernels::variants::Sm90Gemm;

    use crate::plan::{BiasKind, Pass, Plan, ScaledGemmProblem, Target};
    use crate::recipe::{Accumulation, BlockShape, Blocks, Format, Nvfp4Format};
    use crate::tensor::{DType, Form};

    const HOPPER: GpuTarget = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
    const BLACKWELL: GpuTarget = GpuTarget { compute_capability: (10, 0), multiprocessors: 148 };

    const PRODUCT: GemmProblem = GemmProblem {
        pass: Pass::Fprop,
        groups: 4,
        rows: 513,
        in_features: 64,
        out_features: 136,
        input: DType::Bf16,
        output: DType::F32,
        bias: BiasKind::None,
        kernel: KernelChoice::Auto,
    };

    fn scaled(problem: GemmProblem, format: Format) -> ScaledGemmProblem {
        let GemmProblem { pass, groups, rows, in_features, out_features, output, .. } = problem;
        let form = if format.is_micro() { Form::Swizzled } else { Form::Codes };
        ScaledGemmProblem {
            pass,
            groups,
            rows,
            in_features,
            out_features,
            a: format,
            b: format,
            forms: [form; 2],
            accumulation: Accumulation::Promoted,
            output,
            bias: BiasKind::None,
            power_of_two_scales: true,
            kernel: problem.kernel,
        }
    }

    /// Whether Blackwell's kernel is one of pairs.
    fn is_pair(kernel: &Kernel) -> bool {
        matches!(kernel.role, Role::GemmSm100(Sm100Gemm { pair: true, .. }))
    }

    /// The rule that the costs come to, for all that Blackwell multiplies: a pair where the average
    /// group has rows for both blocks, more than 128.
    #[test]
    fn pairs_are_cheaper_with_rows_for_both_blocks() -> Result<()> {
        let formats = [
            Format::fp8(DType::E4m3, Blocks::Tensor),
            Format::fp8(DType::E4m3, Blocks::Vector),
            Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line },
            Format::Nvfp4(Nvfp4Format::LINES),
        ];
        let sizes = [32, 64, 96, 128, 160, 256, 288, 384, 416, 640, 672, 1152, 4096, 7168];
        let rows = [1, 127, 128, 129, 256, 257, 384, 385, 512, 513, 640, 641, 8192, 32768, 1 << 30];
        for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
            for (groups, rows) in [1, 2, 3, 128].into_iter().flat_map(|g| rows.map(|r| (g, r))) {
                for (n, k) in sizes.into_iter().flat_map(|n| sizes.map(|k| (n, k))) {
                    let output = if k % 128 == 0 { DType::F32 } else { DType::Bf16 };
                    let (in_features, out_features) = (k, n);
                    let problem = GemmProblem {
                        pass,
                        groups,
                        rows,
                        in_features,
                        out_features,
                        output,
                        ..PRODUCT
                    };
                    let pair = match pass {
                        Pass::Fprop | Pass::Dgrad => rows > groups * 128,
                        Pass::Wgrad => n > 128,
                    };
                    assert_eq!(is_pair(problem.choose(BLACKWELL)?), pair, "{problem:?}");
                    for format in formats {
                        let problem = scaled(problem, format);
                        assert_eq!(is_pair(problem.choose(BLACKWELL)?), pair, "{problem:?}");
                    }
                }
            }
        }
        Ok(())
    }

    /// Narrow tiles where there are no more of them than of wide ones, and the output is more than
    /// one wide.
    #[test]
    fn narrow_tiles_are_cheaper_where_they_are_no_more() -> Result<()> {
        for out_features in (8..=8192).step_by(8) {
            let problem = GemmProblem { out_features, ..PRODUCT };
            let narrow = out_features > TILE_COLUMNS
                && out_features.div_ceil(240) == out_features.div_ceil(TILE_COLUMNS);
            let role = sm90_fprop(narrow);
            assert_eq!(problem.choose(HOPPER)?.role, role, "{out_features}");
            // MXFP8 and NVFP4 are multiplied as exact numbers in BF16.
            if out_features % 32 == 0 {
                let format = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
                let exact =
                    ScaledGemmProblem { forms: [Form::Exact; 2], ..scaled(problem, format) };
                assert_eq!(exact.choose(HOPPER)?.role, role, "{out_features}");
            }
        }
        Ok(())
    }

    /// Of codes, and of FP8, there are none on either architecture.
    #[test]
    fn narrow_tiles_of_codes_are_refused_for_what_they_are() {
        let out_features = 480;
        let narrow = GemmProblem { out_features, kernel: KernelChoice::Narrow, ..PRODUCT };
        let micro = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
        let fp8 = Format::fp8(DType::E4m3, Blocks::Tensor);
        for (format, gpu) in [(micro, BLACKWELL), (fp8, BLACKWELL), (fp8, HOPPER)] {
            let error = scaled(narrow, format).choose(gpu).expect_err("narrow").to_string();
            let part = "narrow tiles are for fprop of 16-bit operands";
            assert!(error.contains(part), "{format}: {error}");
        }
    }

    fn sm90_fprop(narrow: bool) -> Role {
        Role::GemmSm90(Sm90Gemm { pass: Pass::Fprop, element: ElementType::Bf16, narrow })
    }

    #[test]
    fn blocks_are_aligned_where_that_is_cheaper() -> Result<()> {
        let vectors = Format::fp8(DType::E4m3, Blocks::Vector);
        let (pass, output) = (Pass::Wgrad, DType::Bf16);
        // Each that is measured (docs/performance.md), and some that are not.
        let wgrad = |groups, rows, out_features, in_features| {
            let problem =
                GemmProblem { pass, groups, rows, in_features, out_features, output, ..PRODUCT };
            scaled(problem, vectors)
        };
        let (plain, aligned) =
            ("gemm_fp8_reduction_vector_vector_e4m3", "gemm_fp8_reduction_vector_aligned_e4m3");
        let large = wgrad(8, 32768, 4096, 7168);
        let any = ScaledGemmProblem { power_of_two_scales: false, ..large };
        let asked = |kernel, problem| ScaledGemmProblem { kernel, ..problem };
        for (problem, name) in [
            (large, aligned),
            (any, plain),
            (asked(KernelChoice::Block, large), plain),
            (asked(KernelChoice::Aligned, any), aligned),
            (wgrad(256, 262_144, 4096, 6144), aligned),
            (ScaledGemmProblem { output: DType::F32, ..wgrad(256, 262_144, 4096, 6144) }, plain),
            (ScaledGemmProblem { output: DType::F32, ..large }, aligned),
            (wgrad(16, 32768, 2048, 768), plain),
            // Tiles of few stages, few tiles for each column, little work.
            (wgrad(128, 65536, 1536, 2048), plain),
            (wgrad(8, 32768, 256, 7168), plain),
            (wgrad(1, 2048, 512, 512), plain),
        ] {
            let kernel = problem.choose(HOPPER)?;
            assert_eq!(kernel.name, name, "{problem:?}");
        }
        let error = asked(KernelChoice::Aligned, large).choose(BLACKWELL).expect_err("Blackwell");
        assert!(error.to_string().contains("compiled for compute capability 9.0"), "{error}");
        let squares = Format::fp8(DType::E4m3, Blocks::Square);
        let square = asked(KernelChoice::Aligned, ScaledGemmProblem { b: squares, ..large });
        let error = square.choose(HOPPER).expect_err("squares").to_string();
        assert!(error.contains("blocks are aligned in wgrad of FP8 operands"), "{error}");
        Ok(())
    }

    /// The launch that aligns is planned with the memory that it writes.
    #[test]
    fn aligned_copies_have_scratch_memory() -> Result<()> {
        let vectors = Format::fp8(DType::E4m3, Blocks::Vector);
        let problem = GemmProblem {
            pass: Pass::Wgrad,
            groups: 2,
            rows: 1300,
            in_features: 144,
            out_features: 64,
            kernel: KernelChoice::Aligned,
            ..PRODUCT
        };
        let plan = Plan::new(scaled(problem, vectors).into(), Target { gpu: Some(HOPPER) })?;
        let launch = plan.launch.expect("a GPU");
        // 1536 padded tokens are two windows, 144 columns two strips.
        let align = launch.align.expect("aligned");
        assert_eq!((align.role, align.grid), (Role::Align, [4, 1]));
        // Codes, 12 blocks' factors, scales of lines, two strips of 12 blocks' runs.
        let bytes = [1536 * 144, 4 * 12 * 144, 2 * 144, 4 * 2 * 16];
        let bytes: usize = bytes.map(|bytes: usize| bytes.next_multiple_of(256)).iter().sum();
        let found = launch.workspace.bytes - launch.workspace.aligned;
        assert_eq!(found.next_multiple_of(256), bytes);
        Ok(())
    }

    #[test]
    fn what_is_asked_for_by_name_is_taken_or_refused_with_a_reason() {
        use KernelChoice::{Auto, Block, Narrow, Pair, Simt};
        let ragged = GemmProblem { out_features: 2880, ..PRODUCT };
        let dgrad = GemmProblem { pass: Pass::Dgrad, in_features: 2880, ..ragged };
        let alone = GpuTarget { multiprocessors: 1, ..BLACKWELL };
        let odd = GemmProblem { in_features: 60, ..PRODUCT };
        let none = GemmProblem { rows: 0, ..PRODUCT };
        let single = GemmProblem { input: DType::F32, ..PRODUCT };
        for (problem, gpu, asked, expected) in [
            (PRODUCT, HOPPER, Auto, Ok("gemm_sm90_fprop_bf16")),
            (PRODUCT, HOPPER, Simt, Ok("gemm_simt_bf16")),
            (PRODUCT, HOPPER, Block, Ok("gemm_sm90_fprop_bf16")),
            (PRODUCT, HOPPER, Pair, Err("compiled for compute capability 10.0, this GPU has 9.0")),
            (PRODUCT, HOPPER, Narrow, Ok("gemm_sm90_fprop_narrow_bf16")),
            (ragged, HOPPER, Auto, Ok("gemm_sm90_fprop_narrow_bf16")),
            (ragged, HOPPER, Block, Ok("gemm_sm90_fprop_bf16")),
            (ragged, BLACKWELL, Narrow, Err("compiled for compute capability 9.0")),
            (dgrad, HOPPER, Auto, Ok("gemm_sm90_dgrad_bf16")),
            (dgrad, HOPPER, Narrow, Err("narrow tiles are for fprop of 16-bit operands")),
            (PRODUCT, BLACKWELL, Auto, Ok("gemm_sm100_fprop_pair_bf16")),
            (PRODUCT, BLACKWELL, Simt, Ok("gemm_simt_bf16")),
            (PRODUCT, BLACKWELL, Block, Ok("gemm_sm100_fprop_bf16")),
            (PRODUCT, BLACKWELL, Pair, Ok("gemm_sm100_fprop_pair_bf16")),
            (PRODUCT, alone, Auto, Ok("gemm_sm100_fprop_bf16")),
            (PRODUCT, alone, Pair, Err("two multiprocessors, this GPU has one")),
            (odd, HOPPER, Auto, Err("multiples of 8, 60 and 136 were given; pad them")),
            (odd, BLACKWELL, Block, Err("Block was asked for: tensor copies need")),
            (odd, HOPPER, Block, Err("Block was asked for: tensor copies need")),
            (odd, HOPPER, Simt, Ok("gemm_simt_bf16")),
            (single, BLACKWELL, Auto, Ok("gemm_simt_f32")),
            (single, BLACKWELL, Pair, Err("tensor cores take no operands in f32")),
            (single, HOPPER, Narrow, Err("tensor cores take no operands in f32")),
            (none, HOPPER, Narrow, Ok("gemm_simt_bf16")),
            (none, HOPPER, Auto, Ok("gemm_simt_bf16")),
            (none, BLACKWELL, Block, Ok("gemm_simt_bf16")),
            (none, BLACKWELL, Pair, Ok("gemm_simt_bf16")),
            (none, HOPPER, Pair, Err("this GPU has 9.0")),
        ] {
            let problem = GemmProblem { kernel: asked, ..problem };
            match (problem.choose(gpu), expected) {
                (Ok(kernel), Ok(name)) => assert_eq!(kernel.name, name, "{problem:?} {gpu:?}"),
                (Err(error), Err(part)) => {
                    assert!(error.is_unsupported(), "{error}");
                    assert!(error.to_string().contains(part), "{error}");
                }
                (found, _) => panic!("{problem:?} {gpu:?}: {found:?}"),
            }
        }
    }

    /// Every kernel of tensor cores is asked for by one name on its GPU: no two candidates share
    /// one.
    #[test]
    fn names_are_unique_on_a_gpu() -> Result<()> {
        for gpu in [HOPPER, BLACKWELL] {
            let own = |c: &Candidate| {
                !matches!(c.standing, Standing::Refused(Obstacle::Architecture { .. }))
            };
            let names: Vec<_> = PRODUCT.contest(gpu)?.candidates().filter(own).collect();
            for (place, candidate) in names.iter().enumerate() {
                let same = |other: &Candidate| other.choice == candidate.choice;
                assert!(!names[..place].iter().any(same), "{names:?}");
                let problem = GemmProblem { kernel: candidate.choice, ..PRODUCT };
                assert_eq!(problem.choose(gpu)?.role, candidate.role);
            }
        }
        Ok(())
    }
}
