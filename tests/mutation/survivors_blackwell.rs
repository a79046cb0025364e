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
            dgrad_bf16 149 fprop_bf16 6559 wgrad_bf16 12930 dgrad_f16 149 fprop_f16 6561 wgrad_f16 \
            12934",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            dgrad_pair_bf16 3338 fprop_pair_bf16 9722 wgrad_pair_bf16 16199 dgrad_pair_f16 3339 \
            fprop_pair_f16 9725 wgrad_pair_f16 16204",
    },
    Places {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            dgrad_bf16 341 dgrad_pair_bf16 6021 fprop_bf16 6751 fprop_pair_bf16 12405 wgrad_bf16 \
            13119 wgrad_pair_bf16 16395 dgrad_f16 341 dgrad_pair_f16 6023 fprop_f16 6753 \
            fprop_pair_f16 12409 wgrad_f16 13123 wgrad_pair_f16 16400",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3ffffffffffffe80 for 0xfffffffffffffe80",
            "`add.s32` with 0xfffffffefffffe80 for 0xfffffffffffffe80",
        ],
        lines: "\
            wgrad_bf16 15922 wgrad_pair_bf16 19366 wgrad_f16 15927 wgrad_pair_f16 19372",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff00 for 0xffffffffffffff00",
            "`add.s32` with 0xfffffffeffffff00 for 0xffffffffffffff00",
        ],
        lines: "\
            wgrad_bf16 15932 wgrad_pair_bf16 19376 wgrad_f16 15937 wgrad_pair_f16 19382",
    },
    Places {
        reason: "the instruction adds 32 bits, and only higher ones differ: the same program",
        damages: &[
            "`add.s32` with 0x3fffffffffffff80 for 0xffffffffffffff80",
            "`add.s32` with 0xfffffffeffffff80 for 0xffffffffffffff80",
        ],
        lines: "\
            wgrad_bf16 15942 wgrad_pair_bf16 19386 wgrad_f16 15947 wgrad_pair_f16 19392",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 567 dgrad_pair_bf16 6245 fprop_bf16 6951 fprop_pair_bf16 12616 wgrad_bf16 \
            13346 wgrad_pair_bf16 16600 dgrad_f16 567 dgrad_pair_f16 6247 fprop_f16 6953 \
            fprop_pair_f16 12620 wgrad_f16 13350 wgrad_pair_f16 16605",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            dgrad_bf16 569 dgrad_pair_bf16 6247 fprop_bf16 6953 fprop_pair_bf16 12618 wgrad_bf16 \
            13348 wgrad_pair_bf16 16602 dgrad_f16 569 dgrad_pair_f16 6249 fprop_f16 6955 \
            fprop_pair_f16 12622 wgrad_f16 13352 wgrad_pair_f16 16607",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            dgrad_bf16 572 dgrad_pair_bf16 6250 fprop_bf16 6956 fprop_pair_bf16 12621 wgrad_bf16 \
            13351 wgrad_pair_bf16 16605 dgrad_f16 572 dgrad_pair_f16 6252 fprop_f16 6958 \
            fprop_pair_f16 12625 wgrad_f16 13355 wgrad_pair_f16 16610",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 539 dgrad_pair_bf16 6217 fprop_bf16 6923 fprop_pair_bf16 12588 wgrad_bf16 \
            13331 wgrad_pair_bf16 16585 dgrad_f16 539 dgrad_pair_f16 6219 fprop_f16 6925 \
            fprop_pair_f16 12592 wgrad_f16 13335 wgrad_pair_f16 16590",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2988 dgrad_pair_bf16 6405 fprop_bf16 9372 fprop_pair_bf16 12776 wgrad_bf16 \
            15721 wgrad_pair_bf16 19009 dgrad_f16 2989 dgrad_pair_f16 6407 fprop_f16 9375 \
            fprop_pair_f16 12780 wgrad_f16 15726 wgrad_pair_f16 19015",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 3108 fprop_bf16 9492 fprop_pair_bf16 9872 dgrad_f16 3109 fprop_f16 9495 \
            fprop_pair_f16 9875",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            dgrad_bf16 2865 dgrad_pair_bf16 5834 fprop_bf16 9249 fprop_pair_bf16 12218 wgrad_bf16 \
            15598 wgrad_pair_bf16 18852 dgrad_f16 2866 dgrad_pair_f16 5836 fprop_f16 9252 \
            fprop_pair_f16 12222 wgrad_f16 15603 wgrad_pair_f16 18858",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 14000 14409 wgrad_pair_bf16 17254 17663 wgrad_f16 14005 14414 \
            wgrad_pair_f16 17260 17669",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            dgrad_bf16 1115 1119 dgrad_pair_bf16 4084 4088 fprop_bf16 7499 7503 fprop_pair_bf16 \
            10468 10472 wgrad_bf16 13848 13852 wgrad_pair_bf16 17102 17106 dgrad_f16 1116 1120 \
            dgrad_pair_f16 4086 4090 fprop_f16 7502 7506 fprop_pair_f16 10472 10476 wgrad_f16 \
            13853 13857 wgrad_pair_f16 17108 17112",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            wgrad_bf16 14327 wgrad_pair_bf16 17581 wgrad_f16 14332 wgrad_pair_f16 17587",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            dgrad_bf16 2936 2951 2966 2981 dgrad_pair_bf16 6323 6338 6353 6368 6383 6398 \
            fprop_bf16 9320 9335 9350 9365 fprop_pair_bf16 12694 12709 12724 12739 12754 12769 \
            wgrad_bf16 15669 15684 15699 15714 wgrad_pair_bf16 18927 18942 18957 18972 18987 19002 \
            dgrad_f16 2937 2952 2967 2982 dgrad_pair_f16 6325 6340 6355 6370 6385 6400 fprop_f16 \
            9323 9338 9353 9368 fprop_pair_f16 12698 12713 12728 12743 12758 12773 wgrad_f16 15674 \
            15689 15704 15719 wgrad_pair_f16 18933 18948 18963 18978 18993 19008",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            wgrad_bf16 13992 14398 14400 wgrad_f16 13997 14403 14405 wgrad_pair_bf16 17246 17652 \
            17654 wgrad_pair_f16 17252 17658 17660",
    },
];
