//! The mutants of the modules of Blackwell that nothing notices, and why that is right. Kernels
//! have the same places, so they are listed by the place: of each kernel the lines.

use ptx_emulator::mutation::Site;

use crate::survivors_blackwell_fp8::FP8_PLACES;
use crate::survivors_blackwell_micro::MICRO_PLACES;

/// What the names of these kernels begin with.
const PREFIX: &str = "gemm_sm100_";

/// A reason, and the mutants for which it holds.
pub struct Places {
    /// Why no check can notice these.
    pub reason: &'static str,
    /// What is done in each of the lines, as the runner prints it.
    pub damages: &'static [&'static str],
    /// Kernels without what their names begin with, each before its lines.
    pub lines: &'static str,
}

impl Places {
    fn has(&self, kernel: &str, line: u32) -> bool {
        let mut is_own = false;
        self.lines.split_whitespace().any(|word| match word.parse::<u32>() {
            Ok(own) => is_own && own == line,
            Err(_) => {
                is_own = word == kernel;
                false
            }
        })
    }
}

/// Why it is right that nobody notices this one, if the list says so.
pub fn reason(site: &Site) -> Option<&'static str> {
    let kernel = site.name.strip_prefix(PREFIX)?;
    let own = site.to_string();
    let (_, damage) = own.split_once("`: ")?;
    let mut places = PLACES
        .iter()
        .chain(FP8_PLACES)
        .chain(MICRO_PLACES)
        .filter(|places| places.damages.contains(&damage));
    places.find(|places| places.has(kernel, site.line)).map(|places| places.reason)
}

/// Those of 16-bit operands.
const PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_bf16 149 fprop_bf16 5544 wgrad_bf16 11861 dgrad_f16 149 fprop_f16 5544 wgrad_f16 \
            11863",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_pair_bf16 2803 fprop_pair_bf16 8652 wgrad_pair_bf16 14582 dgrad_pair_f16 2803 \
            fprop_pair_f16 8653 wgrad_pair_f16 14584",
    },
    Places {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            dgrad_bf16 341 dgrad_pair_bf16 5005 fprop_bf16 5736 fprop_pair_bf16 11334 wgrad_bf16 \
            12056 wgrad_pair_bf16 14784 dgrad_f16 341 dgrad_pair_f16 5005 fprop_f16 5736 \
            fprop_pair_f16 11336 wgrad_f16 12058 wgrad_pair_f16 14786",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 539 dgrad_pair_bf16 5202 fprop_bf16 5908 fprop_pair_bf16 11518 wgrad_bf16 \
            12268 wgrad_pair_bf16 14974 dgrad_f16 539 dgrad_pair_f16 5202 fprop_f16 5908 \
            fprop_pair_f16 11520 wgrad_f16 12270 wgrad_pair_f16 14976",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2453 dgrad_pair_bf16 5390 fprop_bf16 8302 fprop_pair_bf16 11706 wgrad_bf16 \
            14103 wgrad_pair_bf16 16899 dgrad_f16 2453 dgrad_pair_f16 5390 fprop_f16 8303 \
            fprop_pair_f16 11708 wgrad_f16 14105 wgrad_pair_f16 16901",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2573 fprop_bf16 8422 dgrad_f16 2573 fprop_f16 8423",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2386 dgrad_pair_bf16 4820 fprop_bf16 8235 fprop_pair_bf16 11149 wgrad_bf16 \
            14036 wgrad_pair_bf16 16742 dgrad_f16 2386 dgrad_pair_f16 4820 fprop_f16 8236 \
            fprop_pair_f16 11151 wgrad_f16 14038 wgrad_pair_f16 16744",
    },
    Places {
        reason: "at the end all stages are waited for, and under no seed was this one's last arrival the only one to come late; in other kernels the same wait is noticed",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "fprop_pair_f16 11656",
    },
];
