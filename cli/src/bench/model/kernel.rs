//! What a product's kernel moves and computes in one stage of its ring, and at the end of a tile.
//! All numbers are those of one multiprocessor.

use super::fitted::{BF16_ENERGY, SCALE_WAIT, THREAD_BYTES, TILE_END};
use super::machine::{Generation, Machine};

/// What is multiplied, and how sums grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// BF16.
    Bf16,
    /// FP8 with a scale per group, summed in the tensor core.
    Fp8Fast,
    /// The same, on Hopper with sums taken out of the tensor core after every stage.
    Fp8Tensor,
    /// FP8 with scales of 1 × 128 and 128 × 128 elements, summed likewise.
    Fp8Block,
    /// MXFP8, scaled by the tensor core.
    Mxfp8,
    /// NVFP4, scaled by the tensor core.
    Nvfp4,
}

impl Numbers {
    /// Bits of an element.
    pub fn bits(self) -> u64 {
        match self {
            Self::Bf16 => 16,
            Self::Fp8Fast | Self::Fp8Tensor | Self::Fp8Block | Self::Mxfp8 => 8,
            Self::Nvfp4 => 4,
        }
    }

    /// What N and K must be multiples of: tensor copies take lines of 16 bytes, of the output's 16
    /// bits, too, and FP4 only in lines of 32 elements; MXFP8 has whole blocks.
    pub fn multiple(self) -> u64 {
        match self {
            Self::Bf16 => 8,
            Self::Fp8Fast | Self::Fp8Tensor | Self::Fp8Block => 16,
            Self::Mxfp8 | Self::Nvfp4 => 32,
        }
    }

    /// Elements of the reduction in a stage, whose rows have 128 bytes.
    pub fn depth(self) -> u64 {
        128 * 8 / self.bits()
    }

    /// Bytes of scales for `elements`, those of a vector along the reduction where weights have
    /// squares: they are few.
    pub fn scale_bytes(self, elements: u64) -> u64 {
        match self {
            Self::Bf16 | Self::Fp8Fast | Self::Fp8Tensor => 0,
            Self::Fp8Block => elements / 128 * 4,
            Self::Mxfp8 => elements / 32,
            Self::Nvfp4 => elements / 16,
        }
    }

    /// Energy of a busy clock of the tensor core, in that of FP8. Assumed for FP4.
    pub fn energy(self) -> f64 {
        if self == Self::Bf16 { BF16_ENERGY } else { 1.0 }
    }

    /// Whether threads add the sums of each stage.
    fn is_promoted(self) -> bool {
        matches!(self, Self::Fp8Tensor | Self::Fp8Block)
    }
}

/// How a tile is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Hopper: 128 × 256, two warpgroups multiply and store.
    Warpgroups,
    /// Blackwell: 128 × 256 by one block; eight warps store, while the next tile is multiplied.
    Block,
    /// Blackwell: 256 × 256 by two blocks of a cluster, each with half the rows of either operand.
    Pair,
}

/// Columns of a tile.
pub const TILE_COLUMNS: u64 = 256;
/// Rows of a tile that one block has.
const BLOCK_ROWS: u64 = 128;
/// Bytes of a row of a stage.
const ROW_BYTES: u64 = 128;
/// Bytes of a 16-bit or 32-bit element.
const HALF: u64 = 2;
const SINGLE: u64 = 4;

impl Arrangement {
    /// Blocks that make one tile together, each on a multiprocessor of its own.
    pub fn blocks(self) -> u64 {
        if self == Self::Pair { 2 } else { 1 }
    }

    /// Rows of a tile.
    pub fn rows(self) -> u64 {
        BLOCK_ROWS * self.blocks()
    }

    /// Rows of the right operand, the columns of the tile, that one block has copied.
    fn right_rows(self) -> u64 {
        TILE_COLUMNS / self.blocks()
    }

    /// Whether a tile's end passes while the next tile is multiplied: its sums lie in one half of
    /// tensor memory, and the products go to the other.
    pub fn hides_ends(self) -> bool {
        self != Self::Warpgroups
    }

    /// Columns of tensor memory that hold sums: two tiles.
    pub fn tensor_memory_columns(self) -> u64 {
        if self.hides_ends() { 2 * TILE_COLUMNS } else { 0 }
    }
}

/// A product's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What it multiplies.
    pub numbers: Numbers,
    /// How it makes a tile.
    pub arrangement: Arrangement,
}

/// One stage of the reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Bytes that tensor copies bring.
    pub copied: u64,
    /// Bytes that the tensor core reads from shared memory.
    pub read: u64,
    /// Bytes of scales that it copies from there into tensor memory.
    pub scales: u64,
    /// Bytes of sums that it writes into tensor memory.
    pub sums: u64,
    /// Clocks of the tensor core.
    pub multiply: f64,
    /// Clocks of shared memory.
    pub shared: f64,
    /// Clocks of the way from L2.
    pub l2: f64,
    /// Clocks that the ring needs for a stage, if a copy takes the machine's latency.
    pub latency: f64,
    /// Clocks that reading scales and waiting for them adds.
    pub promotion: f64,
}

impl Stage {
    /// Clocks of a stage among many.
    pub fn clocks(&self) -> f64 {
        self.multiply.max(self.shared).max(self.l2).max(self.latency) + self.promotion
    }
}

/// What follows a tile's last product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// Bytes of tensor memory that warps read.
    pub tensor_memory: u64,
    /// Clocks of shared memory and the L1 cache that outputs, and former ones, pass through.
    pub shared: f64,
    /// Clocks until another tile's end can begin.
    pub clocks: f64,
}

impl End {
    /// Clocks of so many stages and of the output of another tile, which passes through shared
    /// memory meanwhile: what hides this end.
    pub fn hidden_by(&self, stage: &Stage, stages: u64) -> f64 {
        let stages = stages as f64;
        (stages * stage.clocks()).max(stages * stage.shared + self.shared)
    }

    /// The fewest stages that hide it.
    pub fn hiding_stages(&self, stage: &Stage) -> u64 {
        let by_stages = self.clocks / stage.clocks();
        let by_shared_memory = (self.clocks - self.shared) / stage.shared;
        by_stages.min(by_shared_memory).ceil() as u64
    }
}

/// Bytes of shared memory that a block may have, on either generation.
const SHARED_BYTES: u64 = 227 << 10;
/// Bytes of it that outputs, barriers and tasks take.
const BESIDE_THE_RING: u64 = (24 << 10) + 1024;

impl Kernel {
    /// Stages of the ring.
    pub fn ring(&self) -> u64 {
        let most = match (self.arrangement, self.numbers) {
            // Scales of vectors, in copies of their own, and room for the whole output.
            (Arrangement::Warpgroups, Numbers::Fp8Block) => 3,
            (Arrangement::Warpgroups | Arrangement::Block, _) => 4,
            (Arrangement::Pair, _) => 6,
        };
        most.min((SHARED_BYTES - BESIDE_THE_RING) / self.copied_in_a_stage())
    }

    /// Bytes that tensor copies bring in a stage.
    fn copied_in_a_stage(&self) -> u64 {
        (BLOCK_ROWS + self.arrangement.right_rows()) * ROW_BYTES + self.scales_of_a_stage()
    }

    /// A stage. `vectors` says that both operands have scales for each row (wgrad with blocks).
    pub fn stage(&self, machine: &Machine, vectors: bool) -> Stage {
        let arrangement = self.arrangement;
        let scales = self.scales_of_a_stage();
        let copied = self.copied_in_a_stage();
        let read = self.read_of_a_stage();
        let wavefronts = self.scale_wavefronts(vectors);
        let elements = BLOCK_ROWS * TILE_COLUMNS * self.numbers.depth();
        let rate = machine.bf16_flops * 16.0 / self.numbers.bits() as f64;
        Stage {
            copied,
            read,
            scales,
            sums: if arrangement.hides_ends() { self.sums_of_a_stage() } else { 0 },
            multiply: 2.0 * elements as f64 / rate,
            shared: (copied + read + scales) as f64 / machine.shared_bytes,
            l2: copied as f64 / machine.l2_bytes,
            latency: machine.copy_latency / (self.ring() - 1) as f64,
            promotion: if wavefronts == 0.0 { 0.0 } else { wavefronts + SCALE_WAIT },
        }
    }

    /// The end of a tile whose output is written with 16 bits, or read and written with 32.
    pub fn end(&self, machine: &Machine, accumulates: bool) -> End {
        let elements = BLOCK_ROWS * TILE_COLUMNS;
        let from_tensor_memory = self.arrangement.hides_ends();
        let tensor_memory = if from_tensor_memory { elements * SINGLE } else { 0 };
        let reading = if from_tensor_memory {
            tensor_memory as f64 / machine.tensor_memory_bytes
        } else {
            0.0
        };
        let threads = if accumulates { (2 * elements * SINGLE) as f64 / THREAD_BYTES } else { 0.0 };
        // In and out of boxes, or a load and a store of threads, whose L1 cache is the same memory.
        let passing = 2 * elements * if accumulates { SINGLE } else { HALF };
        End {
            tensor_memory,
            shared: passing as f64 / machine.shared_bytes,
            clocks: TILE_END + reading + threads,
        }
    }

    /// Bytes of block scales that the tensor core reads from tensor memory: of the block's rows
    /// and, on either block of a pair, of all columns.
    fn scales_of_a_stage(&self) -> u64 {
        match self.numbers {
            Numbers::Mxfp8 | Numbers::Nvfp4 => {
                self.numbers.scale_bytes((BLOCK_ROWS + TILE_COLUMNS) * self.numbers.depth())
            }
            _ => 0,
        }
    }

    /// Bytes of operands that the tensor core reads. A warpgroup reads for itself: both read the
    /// whole right operand where each has 64 rows, and the whole left one and half of the right
    /// one, the latter for each 64 rows, where each has 128 columns. tcgen05 is assumed to read
    /// each operand once, a pair half of the right one on each multiprocessor.
    fn read_of_a_stage(&self) -> u64 {
        let (left, right) = (BLOCK_ROWS * ROW_BYTES, self.arrangement.right_rows() * ROW_BYTES);
        match self.arrangement {
            Arrangement::Warpgroups if self.numbers.is_promoted() => 2 * left + 2 * right,
            Arrangement::Warpgroups => left + 2 * right,
            Arrangement::Block | Arrangement::Pair => left + right,
        }
    }

    /// An instruction covers 32 bytes of each row, and adds to all sums.
    fn sums_of_a_stage(&self) -> u64 {
        ROW_BYTES / 32 * BLOCK_ROWS * TILE_COLUMNS * SINGLE
    }

    /// Wavefronts in which eight warps read the scales of a stage on Hopper: for each half of the
    /// rows two of 32 bits, and 16 of 64 bits, with two wavefronts each, if columns have scales,
    /// too.
    fn scale_wavefronts(&self, vectors: bool) -> f64 {
        if self.numbers != Numbers::Fp8Block {
            return 0.0;
        }
        let (warps, halves) = (8.0, 2.0);
        warps * halves * (2.0 + if vectors { 2.0 * 16.0 } else { 0.0 })
    }
}

impl Machine {
    /// The products that the model knows of; `block` takes tiles of one block on Blackwell.
    pub fn kernels(&self, block: bool) -> Vec<Kernel> {
        let (arrangement, numbers): (_, &[Numbers]) = match self.generation {
            Generation::Hopper => (
                Arrangement::Warpgroups,
                &[Numbers::Bf16, Numbers::Fp8Fast, Numbers::Fp8Tensor, Numbers::Fp8Block],
            ),
            Generation::Blackwell => (
                if block { Arrangement::Block } else { Arrangement::Pair },
                &[Numbers::Bf16, Numbers::Fp8Tensor, Numbers::Mxfp8, Numbers::Nvfp4],
            ),
        };
        numbers.iter().map(|&numbers| Kernel { numbers, arrangement }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::{B200, H200};
    use super::*;

    fn clocks(numbers: Numbers, vectors: bool) -> f64 {
        let kernel = Kernel { numbers, arrangement: Arrangement::Warpgroups };
        kernel.stage(&H200, vectors).clocks()
    }

    /// Clocks of a stage that counters showed (docs/performance.md).
    #[test]
    fn stages_take_what_counters_showed() {
        for (numbers, vectors, counted) in [
            (Numbers::Fp8Fast, false, 1024.0),
            (Numbers::Fp8Tensor, false, 1152.0),
            (Numbers::Fp8Block, false, 1267.0),
            (Numbers::Fp8Block, true, 1747.0),
        ] {
            let error = clocks(numbers, vectors) / counted - 1.0;
            assert!(error.abs() < 0.015, "{numbers:?} {vectors}: {error}");
        }
    }

    /// Bytes copied, read from shared memory, of scales; clocks of tensor core, shared memory, L2.
    #[test]
    fn stages_of_blackwell() {
        let table = [
            (Numbers::Bf16, Arrangement::Block, (48 << 10, 48 << 10, 0), (512.0, 768.0, 768.0)),
            (Numbers::Bf16, Arrangement::Pair, (32 << 10, 32 << 10, 0), (512.0, 512.0, 512.0)),
            (Numbers::Fp8Tensor, Arrangement::Pair, (32 << 10, 32 << 10, 0), (512.0, 512.0, 512.0)),
            (
                Numbers::Mxfp8,
                Arrangement::Pair,
                (32 * 1024 + 1536, 32 << 10, 1536),
                (512.0, 536.0, 536.0),
            ),
            (
                Numbers::Nvfp4,
                Arrangement::Pair,
                (32 * 1024 + 6144, 32 << 10, 6144),
                (512.0, 608.0, 608.0),
            ),
        ];
        for (numbers, arrangement, bytes, clocks) in table {
            let stage = Kernel { numbers, arrangement }.stage(&B200, false);
            assert_eq!((stage.copied, stage.read, stage.scales), bytes, "{numbers:?}");
            assert_eq!((stage.multiply, stage.shared, stage.l2), clocks, "{numbers:?}");
        }
    }

    /// The scales of NVFP4 take the room of a stage, and so do those of FP8's blocks on Hopper.
    #[test]
    fn rings_have_the_stages_that_fit() {
        let table = [
            (Numbers::Bf16, Arrangement::Warpgroups, 4),
            (Numbers::Fp8Tensor, Arrangement::Warpgroups, 4),
            (Numbers::Fp8Block, Arrangement::Warpgroups, 3),
            (Numbers::Bf16, Arrangement::Block, 4),
            (Numbers::Bf16, Arrangement::Pair, 6),
            (Numbers::Mxfp8, Arrangement::Block, 4),
            (Numbers::Mxfp8, Arrangement::Pair, 6),
            (Numbers::Nvfp4, Arrangement::Block, 3),
            (Numbers::Nvfp4, Arrangement::Pair, 5),
        ];
        for (numbers, arrangement, ring) in table {
            assert_eq!(Kernel { numbers, arrangement }.ring(), ring, "{numbers:?} {arrangement:?}");
        }
    }

    /// By hand: 512 clocks a stage, and 1024 of the output in and out of shared memory, cover 3506
    /// with five stages; 2048 of former and new sums cover 15157 with 26.
    #[test]
    fn stages_that_hide_an_end() {
        let kernel = Kernel { numbers: Numbers::Bf16, arrangement: Arrangement::Pair };
        let stage = kernel.stage(&B200, false);
        for (accumulates, shared, clocks, stages) in
            [(false, 1024.0, 3506.0, 5), (true, 2048.0, 15157.0, 26)]
        {
            let end = kernel.end(&B200, accumulates);
            assert_eq!((end.shared, end.clocks.round()), (shared, clocks));
            assert_eq!(end.hiding_stages(&stage), stages);
        }
    }

    /// A long latency sets the pace: bytes in flight, divided by it.
    #[test]
    fn latency_sets_the_pace_where_the_ring_is_short() {
        let slow = Machine { copy_latency: 4000.0, ..B200 };
        let kernel = Kernel { numbers: Numbers::Bf16, arrangement: Arrangement::Pair };
        assert_eq!(kernel.stage(&B200, false).clocks(), 512.0);
        assert_eq!(kernel.stage(&slow, false).clocks(), 800.0);
    }
}
