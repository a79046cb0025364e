//! The mutants of the modules of Blackwell that nothing notices, and why that is right. Kernels have the
//! same places, so they are listed by the place: of each kernel the lines.

use ptx_emulator::mutation::Site;

use crate::survivors_blackwell_fp8::FP8_PLACES;

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
    let mut places =
        PLACES.iter().chain(FP8_PLACES).filter(|places| places.damages.contains(&damage));
    places.find(|places| places.has(kernel, site.line)).map(|places| places.reason)
}

/// Those of 16-bit operands.
const PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_bf16 151 fprop_bf16 6544 wgrad_bf16 12898 dgrad_f16 151 fprop_f16 6546 wgrad_f16 \
            12902",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_pair_bf16 3325 fprop_pair_bf16 9692 wgrad_pair_bf16 16128 dgrad_pair_f16 3326 \
            fprop_pair_f16 9695 wgrad_pair_f16 16133",
    },
    Places {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            dgrad_bf16 343 dgrad_pair_bf16 6007 fprop_bf16 6736 fprop_pair_bf16 12374 wgrad_bf16 \
            13087 wgrad_pair_bf16 16324 dgrad_f16 343 dgrad_pair_f16 6009 fprop_f16 6738 \
            fprop_pair_f16 12378 wgrad_f16 13091 wgrad_pair_f16 16329",
    },
    Places {
        reason: "the emulator lets a block end while the copy engine still reads its boxes of the output; a GPU may then give the shared memory to another block",
        damages: &[
            "`cp.async.bulk.wait_group.read` with 0x1 for 0x0",
            "without `cp.async.bulk.wait_group.read`",
        ],
        lines: "\
            dgrad_bf16 2881 dgrad_pair_bf16 5845 fprop_bf16 9248 fprop_pair_bf16 12212 wgrad_bf16 \
            15580 wgrad_pair_bf16 18799 dgrad_f16 2882 dgrad_pair_f16 5847 fprop_f16 9251 \
            fprop_pair_f16 12216 wgrad_f16 15585 wgrad_pair_f16 18805",
    },
    Places {
        reason: "the barriers' places are known numbers and never none, so that the loop over them goes round at least once",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            dgrad_bf16 67 79 91 103 115 127 139 dgrad_pair_bf16 3241 3253 3265 3277 3289 3301 3313 \
            fprop_bf16 6460 6472 6484 6496 6508 6520 6532 fprop_pair_bf16 9608 9620 9632 9644 9656 \
            9668 9680 wgrad_bf16 12814 12826 12838 12850 12862 12874 12886 wgrad_pair_bf16 16044 \
            16056 16068 16080 16092 16104 16116 dgrad_f16 67 79 91 103 115 127 139 dgrad_pair_f16 \
            3242 3254 3266 3278 3290 3302 3314 fprop_f16 6462 6474 6486 6498 6510 6522 6534 \
            fprop_pair_f16 9611 9623 9635 9647 9659 9671 9683 wgrad_f16 12818 12830 12842 12854 \
            12866 12878 12890 wgrad_pair_f16 16049 16061 16073 16085 16097 16109 16121",
    },
    Places {
        reason: "the barriers by which the odd block of a pair says that its stages are ready: these kernels have none to wait for",
        damages: &[
            "`mbarrier.init.shared::cta.b64` with 0x2 for 0x1",
            "without `mbarrier.init.shared::cta.b64`",
        ],
        lines: "\
            dgrad_bf16 96 dgrad_pair_bf16 3270 fprop_bf16 6489 fprop_pair_bf16 9637 wgrad_bf16 \
            12843 dgrad_f16 96 dgrad_pair_f16 3271 fprop_f16 6491 fprop_pair_f16 9640 wgrad_f16 \
            12847",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3ffffffffffffe80 for 0xfffffffffffffe80",
            "`add.s32` with 0xfffffffefffffe80 for 0xfffffffffffffe80",
        ],
        lines: "\
            wgrad_bf16 15880 wgrad_pair_bf16 19282 wgrad_f16 15885 wgrad_pair_f16 19288",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff00 for 0xffffffffffffff00",
            "`add.s32` with 0xfffffffeffffff00 for 0xffffffffffffff00",
        ],
        lines: "\
            wgrad_bf16 15890 wgrad_pair_bf16 19292 wgrad_f16 15895 wgrad_pair_f16 19298",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff80 for 0xffffffffffffff80",
            "`add.s32` with 0xfffffffeffffff80 for 0xffffffffffffff80",
        ],
        lines: "\
            wgrad_bf16 15900 wgrad_pair_bf16 19302 wgrad_f16 15905 wgrad_pair_f16 19308",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 568 dgrad_pair_bf16 6231 fprop_bf16 6935 fprop_pair_bf16 12585 wgrad_bf16 \
            13313 wgrad_pair_bf16 16528 dgrad_f16 568 dgrad_pair_f16 6233 fprop_f16 6937 \
            fprop_pair_f16 12589 wgrad_f16 13317 wgrad_pair_f16 16533",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            dgrad_bf16 574 dgrad_pair_bf16 6237 fprop_bf16 6941 fprop_pair_bf16 12591 wgrad_bf16 \
            13319 wgrad_pair_bf16 16534 dgrad_f16 574 dgrad_pair_f16 6239 fprop_f16 6943 \
            fprop_pair_f16 12595 wgrad_f16 13323 wgrad_pair_f16 16539",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 577 dgrad_pair_bf16 6240 fprop_bf16 6944 fprop_pair_bf16 12594 wgrad_bf16 \
            13322 wgrad_pair_bf16 16537 dgrad_f16 577 dgrad_pair_f16 6242 fprop_f16 6946 \
            fprop_pair_f16 12598 wgrad_f16 13326 wgrad_pair_f16 16542",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 540 dgrad_pair_bf16 6203 fprop_bf16 6907 fprop_pair_bf16 12557 wgrad_bf16 \
            13298 wgrad_pair_bf16 16513 dgrad_f16 540 dgrad_pair_f16 6205 fprop_f16 6909 \
            fprop_pair_f16 12561 wgrad_f16 13302 wgrad_pair_f16 16518",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2986 dgrad_pair_bf16 6388 fprop_bf16 9353 fprop_pair_bf16 12742 wgrad_bf16 \
            15685 wgrad_pair_bf16 18934 dgrad_f16 2987 dgrad_pair_f16 6390 fprop_f16 9356 \
            fprop_pair_f16 12746 wgrad_f16 15690 wgrad_pair_f16 18940",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 3099 fprop_bf16 9466 fprop_pair_bf16 9835 dgrad_f16 3100 fprop_f16 9469 \
            fprop_pair_f16 9838",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2863 dgrad_pair_bf16 5823 fprop_bf16 9230 fprop_pair_bf16 12190 wgrad_bf16 \
            15562 wgrad_pair_bf16 18777 dgrad_f16 2864 dgrad_pair_f16 5825 fprop_f16 9233 \
            fprop_pair_f16 12194 wgrad_f16 15567 wgrad_pair_f16 18783",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 13964 14373 wgrad_pair_bf16 17179 17588 wgrad_f16 13969 14378 \
            wgrad_pair_f16 17185 17594",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            dgrad_bf16 1113 1117 dgrad_pair_bf16 4073 4077 fprop_bf16 7480 7484 fprop_pair_bf16 \
            10440 10444 wgrad_bf16 13812 13816 wgrad_pair_bf16 17027 17031 dgrad_f16 1114 1118 \
            dgrad_pair_f16 4075 4079 fprop_f16 7483 7487 fprop_pair_f16 10444 10448 wgrad_f16 \
            13817 13821 wgrad_pair_f16 17033 17037",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            wgrad_bf16 14291 wgrad_pair_bf16 17506 wgrad_f16 14296 wgrad_pair_f16 17512",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            dgrad_bf16 2934 2949 2964 2979 dgrad_pair_bf16 6306 6321 6336 6351 6366 6381 \
            fprop_bf16 9301 9316 9331 9346 fprop_pair_bf16 12660 12675 12690 12705 12720 12735 \
            wgrad_bf16 15633 15648 15663 15678 wgrad_pair_bf16 18852 18867 18882 18897 18912 18927 \
            dgrad_f16 2935 2950 2965 2980 dgrad_pair_f16 6308 6323 6338 6353 6368 6383 fprop_f16 \
            9304 9319 9334 9349 fprop_pair_f16 12664 12679 12694 12709 12724 12739 wgrad_f16 15638 \
            15653 15668 15683 wgrad_pair_f16 18858 18873 18888 18903 18918 18933",
    },
];
