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
            dgrad_bf16 149 fprop_bf16 6547 wgrad_bf16 12906 dgrad_f16 149 fprop_f16 6549 wgrad_f16 \
            12910",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_pair_bf16 3332 fprop_pair_bf16 9704 wgrad_pair_bf16 16169 dgrad_pair_f16 3333 \
            fprop_pair_f16 9707 wgrad_pair_f16 16174",
    },
    Places {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            dgrad_bf16 338 dgrad_pair_bf16 6012 fprop_bf16 6736 fprop_pair_bf16 12384 wgrad_bf16 \
            13092 wgrad_pair_bf16 16362 dgrad_f16 338 dgrad_pair_f16 6014 fprop_f16 6738 \
            fprop_pair_f16 12388 wgrad_f16 13096 wgrad_pair_f16 16367",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3ffffffffffffe80 for 0xfffffffffffffe80",
            "`add.s32` with 0xfffffffefffffe80 for 0xfffffffffffffe80",
        ],
        lines: "\
            wgrad_bf16 15892 wgrad_pair_bf16 19330 wgrad_f16 15897 wgrad_pair_f16 19336",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff00 for 0xffffffffffffff00",
            "`add.s32` with 0xfffffffeffffff00 for 0xffffffffffffff00",
        ],
        lines: "\
            wgrad_bf16 15902 wgrad_pair_bf16 19340 wgrad_f16 15907 wgrad_pair_f16 19346",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff80 for 0xffffffffffffff80",
            "`add.s32` with 0xfffffffeffffff80 for 0xffffffffffffff80",
        ],
        lines: "\
            wgrad_bf16 15912 wgrad_pair_bf16 19350 wgrad_f16 15917 wgrad_pair_f16 19356",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 564 dgrad_pair_bf16 6236 fprop_bf16 6936 fprop_pair_bf16 12595 wgrad_bf16 \
            13319 wgrad_pair_bf16 16567 dgrad_f16 564 dgrad_pair_f16 6238 fprop_f16 6938 \
            fprop_pair_f16 12599 wgrad_f16 13323 wgrad_pair_f16 16572",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            dgrad_bf16 570 dgrad_pair_bf16 6242 fprop_bf16 6942 fprop_pair_bf16 12601 wgrad_bf16 \
            13325 wgrad_pair_bf16 16573 dgrad_f16 570 dgrad_pair_f16 6244 fprop_f16 6944 \
            fprop_pair_f16 12605 wgrad_f16 13329 wgrad_pair_f16 16578",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 573 dgrad_pair_bf16 6245 fprop_bf16 6945 fprop_pair_bf16 12604 wgrad_bf16 \
            13328 wgrad_pair_bf16 16576 dgrad_f16 573 dgrad_pair_f16 6247 fprop_f16 6947 \
            fprop_pair_f16 12608 wgrad_f16 13332 wgrad_pair_f16 16581",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 536 dgrad_pair_bf16 6208 fprop_bf16 6908 fprop_pair_bf16 12567 wgrad_bf16 \
            13304 wgrad_pair_bf16 16552 dgrad_f16 536 dgrad_pair_f16 6210 fprop_f16 6910 \
            fprop_pair_f16 12571 wgrad_f16 13308 wgrad_pair_f16 16557",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2982 dgrad_pair_bf16 6393 fprop_bf16 9354 fprop_pair_bf16 12752 wgrad_bf16 \
            15691 wgrad_pair_bf16 18973 dgrad_f16 2983 dgrad_pair_f16 6395 fprop_f16 9357 \
            fprop_pair_f16 12756 wgrad_f16 15696 wgrad_pair_f16 18979",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 3102 fprop_bf16 9474 fprop_pair_bf16 9854 dgrad_f16 3103 fprop_f16 9477 \
            fprop_pair_f16 9857",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2859 dgrad_pair_bf16 5828 fprop_bf16 9231 fprop_pair_bf16 12200 wgrad_bf16 \
            15568 wgrad_pair_bf16 18816 dgrad_f16 2860 dgrad_pair_f16 5830 fprop_f16 9234 \
            fprop_pair_f16 12204 wgrad_f16 15573 wgrad_pair_f16 18822",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 13970 14379 wgrad_pair_bf16 17218 17627 wgrad_f16 13975 14384 \
            wgrad_pair_f16 17224 17633",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            dgrad_bf16 1109 1113 dgrad_pair_bf16 4078 4082 fprop_bf16 7481 7485 fprop_pair_bf16 \
            10450 10454 wgrad_bf16 13818 13822 wgrad_pair_bf16 17066 17070 dgrad_f16 1110 1114 \
            dgrad_pair_f16 4080 4084 fprop_f16 7484 7488 fprop_pair_f16 10454 10458 wgrad_f16 \
            13823 13827 wgrad_pair_f16 17072 17076",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            wgrad_bf16 14297 wgrad_pair_bf16 17545 wgrad_f16 14302 wgrad_pair_f16 17551",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            dgrad_bf16 2930 2945 2960 2975 dgrad_pair_bf16 6311 6326 6341 6356 6371 6386 \
            fprop_bf16 9302 9317 9332 9347 fprop_pair_bf16 12670 12685 12700 12715 12730 12745 \
            wgrad_bf16 15639 15654 15669 15684 wgrad_pair_bf16 18891 18906 18921 18936 18951 18966 \
            dgrad_f16 2931 2946 2961 2976 dgrad_pair_f16 6313 6328 6343 6358 6373 6388 fprop_f16 \
            9305 9320 9335 9350 fprop_pair_f16 12674 12689 12704 12719 12734 12749 wgrad_f16 15644 \
            15659 15674 15689 wgrad_pair_f16 18897 18912 18927 18942 18957 18972",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 13962 14368 14370 wgrad_f16 13967 14373 14375 wgrad_pair_bf16 17210 17616 \
            17618 wgrad_pair_f16 17216 17622 17624",
    },
];
