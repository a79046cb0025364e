//! A grouped product: its tiles on the multiprocessors, and its time.

use super::fitted::{OVERLAP, PRODUCT_EDGES};
use super::kernel::{End, Kernel, Stage, TILE_COLUMNS};
use super::machine::Machine;
use super::{Bound, setup_seconds};
use crate::bench::suite::Shape;

/// Which product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Y = X · Wᵀ, written in BF16.
    Fprop,
    /// dX = dY · W, written in BF16.
    Dgrad,
    /// dW = dYᵀ · X, written in BF16.
    Wgrad,
    /// The same, added to an FP32 gradient.
    Accumulate,
}

impl Pass {
    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fprop => "fprop",
            Self::Dgrad => "dgrad",
            Self::Wgrad => "wgrad",
            Self::Accumulate => "accumulate",
        }
    }

    /// Whether a group's rows are the reduction.
    fn reduces_rows(self) -> bool {
        matches!(self, Self::Wgrad | Self::Accumulate)
    }
}

/// A prediction of a product's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds, set-up and launch included.
    pub seconds: f64,
    /// What sets the pace.
    pub bound: Bound,
    /// Clocks of the busiest multiprocessor.
    pub clocks: f64,
    /// Hz, at the power limit.
    pub clock: f64,
    /// Seconds that device memory needs alone.
    pub memory_seconds: f64,
    /// Tiles of all groups.
    pub tiles: u64,
    /// Tiles that the block, or pair of blocks, with most of them makes.
    pub rounds: u64,
    /// Clocks of the mean multiprocessor in those of the busiest: what the last round wastes.
    pub balance: f64,
}

/// Predicts `pass` over `shape`.
pub fn predict(machine: &Machine, kernel: Kernel, pass: Pass, shape: &Shape) -> Prediction {
    let stage = kernel.stage(machine, pass.reduces_rows());
    let end = kernel.end(machine, pass == Pass::Accumulate);
    let walk = Walk::new(machine, kernel, pass, shape, &TileClocks { kernel, stage, end });
    let memory_seconds = bytes(kernel, pass, shape) as f64 / machine.copy_bandwidth;

    let (busiest, multiply) = (walk.busiest(), walk.mean_stages() * stage.multiply);
    let chip_and_memory = |clock: f64| {
        let chip = busiest / clock;
        (chip.powi(OVERLAP) + memory_seconds.powi(OVERLAP)).powf(1.0 / f64::from(OVERLAP))
    };
    // A lower clock leaves the tensor core busier in each: halfway to what the law says, again and
    // again, is where both agree.
    let mut clock = machine.clock.reference;
    for _ in 0..60 {
        let busy = multiply / (chip_and_memory(clock) * clock);
        clock = (clock + machine.clock.at(busy * kernel.numbers.energy())) / 2.0;
    }
    let edges = setup_seconds(shape.groups()) + PRODUCT_EDGES;
    let work = chip_and_memory(clock);
    let bound = if edges > work {
        Bound::Edges
    } else if memory_seconds * clock > busiest {
        Bound::DeviceMemory
    } else {
        walk.bound(&stage)
    };
    Prediction {
        seconds: work + edges,
        bound,
        clocks: busiest,
        clock,
        memory_seconds,
        tiles: walk.tiles,
        rounds: walk.tiles.div_ceil(walk.workers.len() as u64),
        balance: walk.mean() / busiest,
    }
}

/// Bytes of device memory, everything read once and written once.
fn bytes(kernel: Kernel, pass: Pass, shape: &Shape) -> u64 {
    let numbers = kernel.numbers;
    let stored = |elements: u64| elements * numbers.bits() / 8 + numbers.scale_bytes(elements);
    let (x, y) = (shape.rows() * shape.k, shape.rows() * shape.n);
    let live_weights = shape.live_groups() * shape.n * shape.k;
    let weights = shape.groups() * shape.n * shape.k;
    match pass {
        Pass::Fprop => stored(x) + stored(live_weights) + 2 * y,
        Pass::Dgrad => stored(y) + stored(live_weights) + 2 * x,
        Pass::Wgrad => stored(x) + stored(y) + 2 * weights,
        Pass::Accumulate => stored(x) + stored(y) + 8 * weights,
    }
}

/// Clocks of a tile.
struct TileClocks {
    kernel: Kernel,
    stage: Stage,
    end: End,
}

impl TileClocks {
    /// Those that a tile of so many stages adds to its multiprocessor, and how many of them its end
    /// sets the pace in.
    fn of(&self, stages: u64) -> (f64, f64) {
        let products = stages as f64 * self.stage.clocks();
        if !self.kernel.arrangement.hides_ends() {
            return (products + self.end.clocks, self.end.clocks);
        }
        let main = self.end.hidden_by(&self.stage, stages);
        if self.end.clocks > main { (self.end.clocks, self.end.clocks) } else { (main, 0.0) }
    }
}

/// The tiles of every worker: a block, or a pair of blocks.
struct Walk {
    workers: Vec<f64>,
    tiles: u64,
    /// Stages of all tiles.
    stages: u64,
    /// Clocks of all tiles in which an end sets the pace.
    ends: f64,
}

impl Walk {
    /// Deals out tiles group after group, in turns, as the kernels' scheduler does.
    fn new(
        machine: &Machine,
        kernel: Kernel,
        pass: Pass,
        shape: &Shape,
        clocks: &TileClocks,
    ) -> Self {
        let arrangement = kernel.arrangement;
        let count = (u64::from(machine.multiprocessors) / arrangement.blocks()).max(1);
        let mut walk = Self { workers: vec![0.0; count as usize], tiles: 0, stages: 0, ends: 0.0 };
        for &rows in &shape.splits {
            let (m, n, reduction) = match pass {
                Pass::Fprop => (rows, shape.n, shape.k),
                Pass::Dgrad => (rows, shape.k, shape.n),
                Pass::Wgrad | Pass::Accumulate => (shape.n, shape.k, rows),
            };
            let tiles = m.div_ceil(arrangement.rows()) * n.div_ceil(TILE_COLUMNS);
            let stages = reduction.div_ceil(kernel.numbers.depth());
            let (clocks_of_tile, end) = clocks.of(stages);
            let first = walk.tiles % count;
            for (worker, sum) in walk.workers.iter_mut().enumerate() {
                let turn = (worker as u64 + count - first) % count;
                let own = tiles / count + u64::from(turn < tiles % count);
                *sum += own as f64 * clocks_of_tile;
            }
            walk.tiles += tiles;
            walk.stages += tiles * stages;
            walk.ends += tiles as f64 * end;
        }
        if arrangement.hides_ends() {
            // Nothing hides the last.
            for sum in &mut walk.workers {
                *sum += clocks.end.clocks;
            }
        }
        walk
    }

    fn busiest(&self) -> f64 {
        self.workers.iter().copied().fold(1.0, f64::max)
    }

    fn mean(&self) -> f64 {
        self.workers.iter().sum::<f64>() / self.workers.len() as f64
    }

    fn mean_stages(&self) -> f64 {
        self.stages as f64 / self.workers.len() as f64
    }

    /// What sets the pace on the chip: the ends of tiles if they do so in most clocks, else the
    /// slowest unit of a stage.
    fn bound(&self, stage: &Stage) -> Bound {
        if 2.0 * self.ends > self.workers.iter().sum() {
            return Bound::Epilogue;
        }
        let slowest = stage.clocks() - stage.promotion;
        if stage.promotion > slowest - stage.multiply && stage.promotion > 0.0 {
            Bound::Promotion
        } else if slowest == stage.multiply {
            Bound::TensorCore
        } else if slowest == stage.shared {
            Bound::SharedMemory
        } else if slowest == stage.l2 {
            Bound::L2
        } else {
            Bound::Latency
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{Arrangement, Numbers};
    use super::super::machine::{B200, Clock, H200};
    use super::*;

    const BF16: Kernel = Kernel { numbers: Numbers::Bf16, arrangement: Arrangement::Warpgroups };
    const PAIR: Kernel = Kernel { numbers: Numbers::Bf16, arrangement: Arrangement::Pair };

    fn shape(splits: &[u64], n: u64, k: u64) -> Shape {
        Shape::unnamed(splits.to_vec(), n, k)
    }

    /// One tile more than there are multiprocessors costs a whole round.
    #[test]
    fn a_tile_more_is_a_round_more() {
        let full = predict(&H200, BF16, Pass::Fprop, &shape(&[132 * 128], 256, 4096));
        let more = predict(&H200, BF16, Pass::Fprop, &shape(&[132 * 128 + 1], 256, 4096));
        assert_eq!((full.tiles, full.rounds, more.tiles, more.rounds), (132, 1, 133, 2));
        assert_eq!(more.clocks, 2.0 * full.clocks);
        assert_eq!(full.balance, 1.0);
        assert!((more.balance - 133.0 / 264.0).abs() < 1e-12);
    }

    /// 64 stages of 1024 clocks and an end, by hand.
    #[test]
    fn clocks_of_one_round_by_hand() {
        let one = predict(&H200, BF16, Pass::Fprop, &shape(&[128], 256, 4096));
        assert_eq!(one.clocks, 64.0 * 1024.0 + 3250.0);
        // Two tiles a pair, one after the other: the second's end is the one that shows.
        let two = predict(&B200, PAIR, Pass::Fprop, &shape(&[256 * 74 * 2], 256, 4096));
        assert_eq!(two.rounds, 2);
        // A tile's output passes through shared memory in 1024 clocks, which the ring needs, too.
        assert_eq!(two.clocks, 2.0 * (64.0 * 512.0 + 1024.0) + 3250.0 + 256.0);
    }

    /// Empty groups and products: the edges are left, and an end of a tile of zeros in wgrad.
    #[test]
    fn nothing_to_multiply() {
        let empty = shape(&[0, 0], 256, 256);
        let fprop = predict(&H200, BF16, Pass::Fprop, &empty);
        assert_eq!((fprop.tiles, fprop.bound), (0, Bound::Edges));
        assert!(fprop.seconds.is_finite() && fprop.seconds > 11e-6);
        let wgrad = predict(&H200, BF16, Pass::Wgrad, &empty);
        assert_eq!((wgrad.tiles, wgrad.clocks), (4, 3250.0));
        let none = predict(&B200, PAIR, Pass::Wgrad, &shape(&[], 0, 0));
        assert!(none.seconds.is_finite());
    }

    #[test]
    fn bounds_are_named() {
        let kernel = |numbers| Kernel { numbers, arrangement: Arrangement::Warpgroups };
        let large = shape(&[8192; 4], 4096, 4096);
        let few = shape(&[8; 32], 4096, 4096);
        let table = [
            (H200, BF16, Pass::Fprop, &large, Bound::TensorCore),
            (H200, kernel(Numbers::Fp8Tensor), Pass::Fprop, &large, Bound::SharedMemory),
            (H200, kernel(Numbers::Fp8Block), Pass::Wgrad, &large, Bound::Promotion),
            (H200, BF16, Pass::Fprop, &few, Bound::DeviceMemory),
            (H200, BF16, Pass::Wgrad, &shape(&[8; 128], 256, 256), Bound::Edges),
            (H200, BF16, Pass::Wgrad, &shape(&[192; 32], 8192, 2048), Bound::Epilogue),
            (B200, PAIR, Pass::Fprop, &large, Bound::TensorCore),
            (
                B200,
                Kernel { arrangement: Arrangement::Block, ..PAIR },
                Pass::Fprop,
                &large,
                Bound::SharedMemory,
            ),
            // 26 stages hide an end that accumulates; 25 do not.
            (B200, PAIR, Pass::Accumulate, &shape(&[1664; 8], 4096, 4096), Bound::TensorCore),
            (B200, PAIR, Pass::Accumulate, &shape(&[1600; 8], 4096, 4096), Bound::Epilogue),
        ];
        for (machine, kernel, pass, shape, bound) in table {
            let is = predict(&machine, kernel, pass, shape).bound;
            assert_eq!(is, bound, "{} {kernel:?} {pass:?}", machine.name);
        }
    }

    /// What docs/performance-model.md says that an assumption about B200 is worth: s01, BF16,
    /// fprop, in microseconds.
    #[test]
    fn what_assumptions_are_worth() {
        let s01 = shape(&[4096; 8], 4096, 7168);
        let block = Kernel { arrangement: Arrangement::Block, ..PAIR };
        let clock = |reference| Clock { reference, ..B200.clock };
        let table = [
            (B200, PAIR, 1107.0),
            (B200, block, 1484.0),
            (Machine { clock: clock(1.47e9 * 1.19), ..B200 }, PAIR, 932.0),
            (Machine { l2_bytes: 48.0, ..B200 }, PAIR, 1348.0),
            (Machine { shared_bytes: 96.0, ..B200 }, PAIR, 1365.0),
            (Machine { shared_bytes: 256.0, l2_bytes: 128.0, ..B200 }, block, 1093.0),
            (Machine { copy_latency: 2400.0, ..B200 }, PAIR, 1107.0),
            (Machine { copy_latency: 3600.0, ..B200 }, PAIR, 1402.0),
        ];
        for (machine, kernel, microseconds) in table {
            let is = (predict(&machine, kernel, Pass::Fprop, &s01).seconds * 1e6).round();
            assert_eq!(is, microseconds, "{machine:?} {kernel:?}");
        }
    }
}
