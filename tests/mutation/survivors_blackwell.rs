//! The mutants of the modules of Blackwell that nothing notices, and why that is right. Kernels have the
//! same places, so they are listed by the place: of each kernel the lines.

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
            dgrad_bf16 149 fprop_bf16 6504 wgrad_bf16 12820 dgrad_f16 149 fprop_f16 6506 wgrad_f16 \
            12824",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_pair_bf16 3283 fprop_pair_bf16 9612 wgrad_pair_bf16 16024 dgrad_pair_f16 3284 \
            fprop_pair_f16 9615 wgrad_pair_f16 16029",
    },
    Places {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            dgrad_bf16 341 dgrad_pair_bf16 5965 fprop_bf16 6696 fprop_pair_bf16 12294 wgrad_bf16 \
            13009 wgrad_pair_bf16 16220 dgrad_f16 341 dgrad_pair_f16 5967 fprop_f16 6698 \
            fprop_pair_f16 12298 wgrad_f16 13013 wgrad_pair_f16 16225",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 539 dgrad_pair_bf16 6162 fprop_bf16 6868 fprop_pair_bf16 12478 wgrad_bf16 \
            13221 wgrad_pair_bf16 16410 dgrad_f16 539 dgrad_pair_f16 6164 fprop_f16 6870 \
            fprop_pair_f16 12482 wgrad_f16 13225 wgrad_pair_f16 16415",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2933 dgrad_pair_bf16 6350 fprop_bf16 9262 fprop_pair_bf16 12666 wgrad_bf16 \
            15546 wgrad_pair_bf16 18825 dgrad_f16 2934 dgrad_pair_f16 6352 fprop_f16 9265 \
            fprop_pair_f16 12670 wgrad_f16 15551 wgrad_pair_f16 18831",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 3053 fprop_bf16 9382 dgrad_f16 3054 fprop_f16 9385",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2866 dgrad_pair_bf16 5780 fprop_bf16 9195 fprop_pair_bf16 12109 wgrad_bf16 \
            15479 wgrad_pair_bf16 18668 dgrad_f16 2867 dgrad_pair_f16 5782 fprop_f16 9198 \
            fprop_pair_f16 12113 wgrad_f16 15484 wgrad_pair_f16 18674",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            dgrad_pair_bf16 6268 fprop_pair_bf16 12584 dgrad_pair_f16 6270 fprop_pair_f16 12588",
    },
];
