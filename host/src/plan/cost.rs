//! What a kernel costs a product, in clocks: the model by which a kernel is chosen.
//!
//! It is that of docs/performance-model.md, without what cannot tell kernels of one GPU apart
//! (clock, device memory, edges of a launch), and without rounds: how tokens are split the host
//! need not know, so every group has the rows of the average one, and a round more or less would be
//! made up. The constants of Hopper are counted or fitted; **those of Blackwell are assumptions**.

use grouped_linear_kernels::abi::quantize::Blocks;
use grouped_linear_kernels::abi::scaled::Accumulation;
use grouped_linear_kernels::variants::{Fp8Gemm, Kernel, Role, Sm90Gemm, Sm100Gemm, Sm100Product};

use super::problem::GemmProblem;
use crate::tensor::DType;

/// What the model gives a kernel for a product, if every group has the rows of the average one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cost {
    /// Output tiles.
    pub tiles: u64,
    /// Blocks that make one, each on a multiprocessor.
    pub blocks: u32,
    /// Stages of a tile's reduction.
    pub stages: u64,
    /// Clocks of a stage.
    pub stage: u32,
    /// Parts of tiles that have rows: a block without any has no end.
    pub ends: u64,
    /// Clocks from the last product of a block's part to the first of the next, whether products of
    /// another tile hide them or not.
    pub end: u32,
    /// Clocks of all multiprocessors together before the product: of blocks that are aligned.
    pub before: u64,
    /// Clocks of all multiprocessors together:
    /// `tiles · blocks · stages · stage + ends · end + before`.
    pub clocks: u128,
}

/// The readable kernel's tiles of 64 × 64 × 16, ends included: 8.02 TFLOP/s on 132 multiprocessors
/// (docs/benchmarks.md, "The ladder"), at 1.98 GHz, since it does not need the card's power.
const SIMT_STAGE: u32 = 4270;
/// 128 × 256 × 128 bytes on Hopper: what the tensor core takes, and shared memory, too.
const SM90_STAGE: u32 = 1024;
/// 128 × 240 × 128 bytes: shared memory, since all 48 KiB are copied, and 76 are read; the tensor
/// core takes 960. Measured are 0.94 to 0.96 of a wide tile's time (docs/performance.md).
const SM90_NARROW: u32 = 992;
/// The same where both warpgroups read both operands: shared memory is the bound.
const SM90_PROMOTED: u32 = 1152;
/// With scales of squares on one side: 32 wavefronts and 67 clocks more.
const SM90_SQUARES: u32 = 1251;
/// With scales of rows and columns: 32 + 512 wavefronts.
const SM90_VECTORS: u32 = 1763;
/// With scales of rows, and of columns at the end of a tile.
const SM90_ALIGNED: u32 = SM90_SQUARES;
/// Bytes that all of Hopper's multiprocessors together copy in as many clocks as they are: what is
/// read and written to align blocks.
const SM90_COPIED: u64 = 20;
/// Clocks of all of them for one launch more and the latencies of a short kernel, 10 µs.
const SM90_LAUNCH: u64 = 2_000_000;
/// What a tile of aligned blocks takes more with 16 bits: whether its halves have factors is looked
/// up, and its sums are multiplied by the scales of columns. Fitted, as the next is, to what was
/// faster with 4, 8, 16 and 32 stages (docs/performance.md).
const SM90_ALIGNED_END: u32 = 3000;
/// The same with 32 bits.
const SM90_ALIGNED_SINGLE_END: u32 = 3300;
/// Rows of a tile that a block of Blackwell's makes.
const SM100_ROWS: u32 = 128;
/// Columns of a tile; each block of a pair copies half.
const SM100_COLUMNS: u32 = 256;
/// Clocks of shared memory for 128 bytes of a row or column, copied and read once, on Blackwell.
const SM100_LINE: u32 = 2;
/// Copies and reads of MXFP8's scales of 128 + 256 lines of 128 elements: 1536 bytes.
const MXFP8_SCALES: u32 = 24;
/// Those of NVFP4's, of 256 elements: 6144 bytes.
const NVFP4_SCALES: u32 = 96;
/// The end of a tile's part of 128 × 256 with 16 bits.
const SIXTEEN_END: u32 = 3250;
/// With 32 bits, read and written.
const SINGLE_END: u32 = 14_901;
/// What reading its sums from tensor memory adds.
const TENSOR_MEMORY: u32 = 256;

impl Cost {
    /// The cost of a product of these sizes with a kernel of the table.
    pub(super) fn of(problem: &GemmProblem, kernel: &Kernel) -> Self {
        let average = problem.rows.div_ceil(problem.groups.max(1)) as u64;
        let (m, n, k) = problem.extents();
        let m = m.map_or(average, |m| m as u64);
        let k = k.map_or(average, |k| k as u64);
        let (tile, blocks) = (kernel.tile, kernel.cluster.max(1));
        let lines = problem.groups as u64 * (n as u64).div_ceil(u64::from(tile.n));
        let tiles = lines * m.div_ceil(u64::from(tile.m));
        let ends = lines * m.div_ceil(u64::from(tile.m / blocks));
        let stages = k.div_ceil(u64::from(tile.k));
        let (stage, end) = (stage_clocks(kernel.role), end_clocks(kernel.role, problem.output));
        // Sizes whose product has more than 64 bits are legal.
        let products =
            u128::from(tiles) * u128::from(blocks) * u128::from(stages) * u128::from(stage);
        let before = before_clocks(kernel.role, problem);
        let clocks = products + u128::from(ends) * u128::from(end) + u128::from(before);
        Self { tiles, blocks, stages, stage, ends, end, before, clocks }
    }
}

/// Clocks of a stage of a product's kernel.
fn stage_clocks(role: Role) -> u32 {
    match role {
        Role::GemmSimt(_) => SIMT_STAGE,
        Role::GemmFp8(Fp8Gemm { aligned: true, .. }) => SM90_ALIGNED,
        Role::GemmFp8(Fp8Gemm { scaling, .. }) => {
            match (scaling.accumulation, scaling.a, scaling.b) {
                (Accumulation::Fast, ..) => SM90_STAGE,
                (_, Blocks::Tensor, Blocks::Tensor) => SM90_PROMOTED,
                (_, Blocks::Vector, Blocks::Vector) => SM90_VECTORS,
                _ => SM90_SQUARES,
            }
        }
        Role::GemmSm100(Sm100Gemm { product, pair }) => {
            let columns = if pair { SM100_COLUMNS / 2 } else { SM100_COLUMNS };
            let scales = match product {
                // What promotion adds to blocks of FP8 is not modelled, as in
                // docs/performance-model.md.
                Sm100Product::Sixteen(..) | Sm100Product::Fp8(_) => 0,
                Sm100Product::Mxfp8(_) => MXFP8_SCALES,
                Sm100Product::Nvfp4(_) => NVFP4_SCALES,
            };
            SM100_LINE * (SM100_ROWS + columns) + scales
        }
        Role::GemmSm90(Sm90Gemm { narrow: true, .. }) => SM90_NARROW,
        // GemmSm90 of whole tiles; no other is a product's.
        _ => SM90_STAGE,
    }
}

/// Clocks of all multiprocessors together before a product's kernel.
fn before_clocks(role: Role, problem: &GemmProblem) -> u64 {
    match role {
        Role::GemmFp8(Fp8Gemm { aligned: true, .. }) => {
            let codes = problem.rows as u64 * problem.in_features as u64;
            SM90_LAUNCH + 2 * codes / SM90_COPIED
        }
        _ => 0,
    }
}

/// Clocks of the end of one block's part of a tile.
fn end_clocks(role: Role, output: DType) -> u32 {
    let stored = if output == DType::F32 { SINGLE_END } else { SIXTEEN_END };
    match role {
        Role::GemmSimt(_) => 0,
        Role::GemmSm100(_) => stored + TENSOR_MEMORY,
        Role::GemmFp8(Fp8Gemm { aligned: true, .. }) if output == DType::F32 => {
            stored + SM90_ALIGNED_SINGLE_END
        }
        Role::GemmFp8(Fp8Gemm { aligned: true, .. }) => stored + SM90_ALIGNED_END,
        _ => stored,
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::KernelChoice;
    use super::super::problem::{BiasKind, Pass};
    use super::super::row;
    use super::*;
    use grouped_linear_kernels::abi::ElementType;

    const PROBLEM: GemmProblem = GemmProblem {
        pass: Pass::Fprop,
        groups: 2,
        rows: 2 * 129,
        in_features: 128,
        out_features: 264,
        input: DType::Bf16,
        output: DType::Bf16,
        bias: BiasKind::None,
        kernel: KernelChoice::Auto,
    };

    fn cost(problem: GemmProblem, role: Role) -> [u128; 7] {
        let cost = Cost::of(&problem, row(role).expect("a row of the kernel table"));
        let Cost { tiles, blocks, stages, stage, ends, end, clocks, .. } = cost;
        [tiles.into(), blocks.into(), stages.into(), stage.into(), ends.into(), end.into(), clocks]
    }

    fn sm90(pass: Pass, narrow: bool) -> Role {
        Role::GemmSm90(Sm90Gemm { pass, element: ElementType::Bf16, narrow })
    }

    /// Two groups of 129 rows, two tiles wide, and two of Hopper's stages deep.
    #[test]
    fn costs_by_hand() {
        let sm100 = |pair| {
            let product = Sm100Product::Sixteen(Pass::Fprop, ElementType::Bf16);
            Role::GemmSm100(Sm100Gemm { product, pair })
        };
        for (role, by_hand) in [
            (sm90(Pass::Fprop, false), [8, 1, 2, 1024, 8, 3250, 42_384]),
            (sm90(Pass::Fprop, true), [8, 1, 2, 992, 8, 3250, 41_872]),
            (sm100(false), [8, 1, 2, 768, 8, 3506, 40_336]),
            (sm100(true), [4, 2, 2, 512, 8, 3506, 36_240]),
            // 3 × 5 tiles of each group, eight stages each.
            (Role::GemmSimt(ElementType::Bf16), [30, 1, 8, 4270, 30, 0, 1_024_800]),
        ] {
            assert_eq!(cost(PROBLEM, role), by_hand, "{role:?}");
        }
        // The gradient of the weights: 264 × 128 for each group, from the 129 rows of the average
        // one.
        let wgrad = GemmProblem { pass: Pass::Wgrad, output: DType::F32, ..PROBLEM };
        let role = sm90(Pass::Wgrad, false);
        assert_eq!(cost(wgrad, role), [6, 1, 3, 1024, 6, 14_901, 107_838]);
    }

    #[test]
    fn the_largest_sizes_have_a_cost() {
        let most = i32::MAX as usize;
        let largest = GemmProblem {
            groups: 4096,
            rows: most,
            in_features: most,
            out_features: most,
            ..PROBLEM
        };
        for pass in [Pass::Fprop, Pass::Wgrad] {
            let role = sm90(pass, false);
            let problem = GemmProblem { pass, ..largest };
            assert!(cost(problem, role)[6] > u128::from(u64::MAX), "{pass:?}");
        }
    }
}
