//! What a GPU can do, as numbers. Each says where it comes from: *specified* by its maker,
//! *measured* here, *derived* from other numbers, or *assumed*.

use super::fitted::{BUSY_AT_REFERENCE, STILL};

/// Which instructions multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// wgmma, sums in registers.
    Hopper,
    /// tcgen05, sums in tensor memory.
    Blackwell,
}

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Name in tables.
    pub name: &'static str,
    /// Which instructions multiply.
    pub generation: Generation,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Dense BF16 FLOPs of one multiprocessor a clock. FP8 has twice, FP4 four times as many.
    pub bf16_flops: f64,
    /// Bytes of shared memory a clock and multiprocessor. Copies into it, reads of the tensor core
    /// and the threads' accesses share them.
    pub shared_bytes: f64,
    /// Bytes from L2 a clock and multiprocessor.
    pub l2_bytes: f64,
    /// Bytes of tensor memory that the warps of a block read a clock; 0 without tensor memory.
    pub tensor_memory_bytes: f64,
    /// Clocks from the issue of a tensor copy to its last byte.
    pub copy_latency: f64,
    /// Bytes a second of a copy in device memory, reads and writes added.
    pub copy_bandwidth: f64,
    /// Bytes a second of reads alone.
    pub read_bandwidth: f64,
    /// Clocks a second.
    pub clock: Clock,
}

/// The clock of a card at its power limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// The highest, Hz.
    pub most: f64,
    /// When the tensor cores multiply FP8 in [`BUSY_AT_REFERENCE`] of the clocks, Hz.
    pub reference: f64,
}

impl Clock {
    /// Hz when the tensor cores are busy in `busy` of the clocks, weighted by the energy of what
    /// they multiply. Power is the limit: energy a clock goes as the square of the voltage, the
    /// voltage about as the clock, so the clock goes as the cube root of what is done in a clock.
    pub fn at(self, busy: f64) -> f64 {
        let more_than_reference = (BUSY_AT_REFERENCE + STILL) / (busy + STILL);
        self.most.min(self.reference * more_than_reference.cbrt())
    }
}

/// H200 SXM, power limit 700 W.
pub const H200: Machine = Machine {
    name: "h200",
    generation: Generation::Hopper,
    // Specified.
    multiprocessors: 132,
    // Derived from the specified 989 TFLOP/s at 1.83 GHz; wgmma of 64 × 256 × 16 takes 128 clocks.
    bf16_flops: 4096.0,
    // Measured: stages that move 144 KiB take 1152 clocks (docs/performance.md).
    shared_bytes: 128.0,
    // Assumed: the width of a multiprocessor's port. Measured is only that 48 are no bound.
    l2_bytes: 64.0,
    tensor_memory_bytes: 0.0,
    // Assumed. The ring covers three times as many, so that these kernels do not tell.
    copy_latency: 1000.0,
    // Measured, copies of 2 GiB (docs/benchmarks.md).
    copy_bandwidth: 4.24e12,
    // Specified; reading quantizers come close to it.
    read_bandwidth: 4.8e12,
    clock: Clock {
        // Assumed; no counted run was faster than 1.73 GHz.
        most: 1.98e9,
        // Measured: 1.48 GHz by counters (docs/performance.md), 1.49 fits four of them best.
        reference: 1.49e9,
    },
};

/// B200, power limit 1000 W. Nothing here is measured by this project.
pub const B200: Machine = Machine {
    name: "b200",
    generation: Generation::Blackwell,
    // Specified.
    multiprocessors: 148,
    // Derived from the specified 2.25 PFLOP/s at 1.86 GHz: twice Hopper's.
    bf16_flops: 8192.0,
    // Assumed to be as on Hopper, and to be shared in the same way.
    shared_bytes: 128.0,
    // Assumed to be as on Hopper.
    l2_bytes: 64.0,
    // Assumed: four bytes of each of 128 lanes.
    tensor_memory_bytes: 512.0,
    // Assumed: Hopper's and a fifth more, for two dies.
    copy_latency: 1200.0,
    // Derived: 8 TB/s specified, of which copies get the same share as on H200. Others published
    // 7 TB/s for elementwise work (arXiv 2606.15991).
    copy_bandwidth: 7.07e12,
    // Specified.
    read_bandwidth: 8.0e12,
    clock: Clock {
        // Derived from the specified 2.25 PFLOP/s.
        most: 1.86e9,
        // Derived from a published survey: 1745 TFLOP/s of dense BF16 at best, and 794.5 on H200
        // (stas00/ml-engineering). With the tensor cores busy in 0.96 of the clocks the latter are
        // 1.53 GHz, which is what this law gives for H200; the former are 1.50 GHz on B200. Others
        // published 2070 TFLOP/s (arXiv 2606.15991), which would be a clock 1.19 times as high.
        reference: 1.47e9,
    },
};

/// All machines.
pub const MACHINES: [Machine; 2] = [H200, B200];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::model::fitted::BF16_ENERGY;

    /// The clocks that counters showed (docs/performance.md), by the tensor core's share of busy
    /// clocks.
    #[test]
    fn the_clock_follows_the_counters() {
        for (busy, counted) in [(0.89, 1.48e9), (0.80, 1.51e9), (0.73, 1.55e9), (0.53, 1.73e9)] {
            let error = H200.clock.at(busy) / counted - 1.0;
            assert!(error.abs() < 0.025, "{busy}: {error}");
        }
        assert_eq!(H200.clock.at(0.0), H200.clock.most);
    }

    #[test]
    fn specified_rates_follow_from_clocks_and_widths() {
        for (machine, tflops, clock) in [(H200, 989.0, 1.83e9), (B200, 2250.0, 1.856e9)] {
            let rate = f64::from(machine.multiprocessors) * machine.bf16_flops * clock / 1e12;
            assert!((rate / tflops - 1.0).abs() < 0.005, "{}: {rate}", machine.name);
        }
    }

    /// One survey has both cards' best dense BF16 product.
    #[test]
    fn one_law_of_the_clock_explains_the_surveyed_rates() {
        for (machine, tflops) in [(H200, 794.5), (B200, 1745.0)] {
            let busy = 0.96;
            let clock = machine.clock.at(busy * BF16_ENERGY);
            let width = f64::from(machine.multiprocessors) * machine.bf16_flops;
            let rate = busy * width * clock / 1e12;
            assert!((rate / tflops - 1.0).abs() < 0.01, "{}: {rate}", machine.name);
        }
    }
}
