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
            dgrad_bf16 149 fprop_bf16 6558 wgrad_bf16 12928 dgrad_f16 149 fprop_f16 6560 wgrad_f16 \
            12932",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_pair_bf16 3338 fprop_pair_bf16 9721 wgrad_pair_bf16 16197 dgrad_pair_f16 3339 \
            fprop_pair_f16 9724 wgrad_pair_f16 16202",
    },
    Places {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            dgrad_bf16 341 dgrad_pair_bf16 6019 fprop_bf16 6750 fprop_pair_bf16 12402 wgrad_bf16 \
            13117 wgrad_pair_bf16 16393 dgrad_f16 341 dgrad_pair_f16 6021 fprop_f16 6752 \
            fprop_pair_f16 12406 wgrad_f16 13121 wgrad_pair_f16 16398",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3ffffffffffffe80 for 0xfffffffffffffe80",
            "`add.s32` with 0xfffffffefffffe80 for 0xfffffffffffffe80",
        ],
        lines: "\
            wgrad_bf16 15920 wgrad_pair_bf16 19364 wgrad_f16 15925 wgrad_pair_f16 19370",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff00 for 0xffffffffffffff00",
            "`add.s32` with 0xfffffffeffffff00 for 0xffffffffffffff00",
        ],
        lines: "\
            wgrad_bf16 15930 wgrad_pair_bf16 19374 wgrad_f16 15935 wgrad_pair_f16 19380",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff80 for 0xffffffffffffff80",
            "`add.s32` with 0xfffffffeffffff80 for 0xffffffffffffff80",
        ],
        lines: "\
            wgrad_bf16 15940 wgrad_pair_bf16 19384 wgrad_f16 15945 wgrad_pair_f16 19390",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 567 dgrad_pair_bf16 6244 fprop_bf16 6950 fprop_pair_bf16 12614 wgrad_bf16 \
            13344 wgrad_pair_bf16 16598 dgrad_f16 567 dgrad_pair_f16 6246 fprop_f16 6952 \
            fprop_pair_f16 12618 wgrad_f16 13348 wgrad_pair_f16 16603",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            dgrad_bf16 569 dgrad_pair_bf16 6246 fprop_bf16 6952 fprop_pair_bf16 12616 wgrad_bf16 \
            13346 wgrad_pair_bf16 16600 dgrad_f16 569 dgrad_pair_f16 6248 fprop_f16 6954 \
            fprop_pair_f16 12620 wgrad_f16 13350 wgrad_pair_f16 16605",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 572 dgrad_pair_bf16 6249 fprop_bf16 6955 fprop_pair_bf16 12619 wgrad_bf16 \
            13349 wgrad_pair_bf16 16603 dgrad_f16 572 dgrad_pair_f16 6251 fprop_f16 6957 \
            fprop_pair_f16 12623 wgrad_f16 13353 wgrad_pair_f16 16608",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 539 dgrad_pair_bf16 6216 fprop_bf16 6922 fprop_pair_bf16 12586 wgrad_bf16 \
            13329 wgrad_pair_bf16 16583 dgrad_f16 539 dgrad_pair_f16 6218 fprop_f16 6924 \
            fprop_pair_f16 12590 wgrad_f16 13333 wgrad_pair_f16 16588",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2988 dgrad_pair_bf16 6404 fprop_bf16 9371 fprop_pair_bf16 12774 wgrad_bf16 \
            15719 wgrad_pair_bf16 19007 dgrad_f16 2989 dgrad_pair_f16 6406 fprop_f16 9374 \
            fprop_pair_f16 12778 wgrad_f16 15724 wgrad_pair_f16 19013",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 3108 fprop_bf16 9491 fprop_pair_bf16 9871 dgrad_f16 3109 fprop_f16 9494 \
            fprop_pair_f16 9874",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2865 dgrad_pair_bf16 5834 fprop_bf16 9248 fprop_pair_bf16 12217 wgrad_bf16 \
            15596 wgrad_pair_bf16 18850 dgrad_f16 2866 dgrad_pair_f16 5836 fprop_f16 9251 \
            fprop_pair_f16 12221 wgrad_f16 15601 wgrad_pair_f16 18856",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 13998 14407 wgrad_pair_bf16 17252 17661 wgrad_f16 14003 14412 \
            wgrad_pair_f16 17258 17667",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            dgrad_bf16 1115 1119 dgrad_pair_bf16 4084 4088 fprop_bf16 7498 7502 fprop_pair_bf16 \
            10467 10471 wgrad_bf16 13846 13850 wgrad_pair_bf16 17100 17104 dgrad_f16 1116 1120 \
            dgrad_pair_f16 4086 4090 fprop_f16 7501 7505 fprop_pair_f16 10471 10475 wgrad_f16 \
            13851 13855 wgrad_pair_f16 17106 17110",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            wgrad_bf16 14325 wgrad_pair_bf16 17579 wgrad_f16 14330 wgrad_pair_f16 17585",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            dgrad_bf16 2936 2951 2966 2981 dgrad_pair_bf16 6322 6337 6352 6367 6382 6397 \
            fprop_bf16 9319 9334 9349 9364 fprop_pair_bf16 12692 12707 12722 12737 12752 12767 \
            wgrad_bf16 15667 15682 15697 15712 wgrad_pair_bf16 18925 18940 18955 18970 18985 19000 \
            dgrad_f16 2937 2952 2967 2982 dgrad_pair_f16 6324 6339 6354 6369 6384 6399 fprop_f16 \
            9322 9337 9352 9367 fprop_pair_f16 12696 12711 12726 12741 12756 12771 wgrad_f16 15672 \
            15687 15702 15717 wgrad_pair_f16 18931 18946 18961 18976 18991 19006",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 13990 14396 14398 wgrad_f16 13995 14401 14403 wgrad_pair_bf16 17244 17650 \
            17652 wgrad_pair_f16 17250 17656 17658",
    },
];
