//! The same of codes in MXFP8 and NVFP4.

use crate::survivors_blackwell::Places;

/// All of them.
pub const MICRO_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad 187 mxfp8_fprop 6814 mxfp8_wgrad 14368 nvfp4_dgrad 179 nvfp4_fprop 6728 \
            nvfp4_wgrad 14302",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad_pair 3448 mxfp8_fprop_pair 10538 mxfp8_wgrad_pair 17664 nvfp4_dgrad_pair \
            3408 nvfp4_fprop_pair 10470 nvfp4_wgrad_pair 17509",
    },
    Places {
        reason: "codes of weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            mxfp8_dgrad 406 mxfp8_dgrad_pair 6174 mxfp8_fprop 7028 mxfp8_fprop_pair 13730 \
            mxfp8_wgrad 14580 mxfp8_wgrad_pair 17883 nvfp4_dgrad 398 nvfp4_dgrad_pair 6108 \
            nvfp4_fprop 6942 nvfp4_fprop_pair 13684 nvfp4_wgrad 14514 nvfp4_wgrad_pair 20193",
    },
    Places {
        reason: "the wait behind the next load waits for this one, too, and nothing reads its registers before",
        damages: &["without `tcgen05.wait::ld.sync.aligned`"],
        lines: "\
            mxfp8_dgrad 910 mxfp8_dgrad_pair 3976 mxfp8_fprop 7568 mxfp8_fprop_pair 11102 \
            mxfp8_wgrad 15071 mxfp8_wgrad_pair 18365 nvfp4_dgrad 905 nvfp4_dgrad_pair 3908 \
            nvfp4_fprop 7495 nvfp4_fprop_pair 11018 nvfp4_wgrad 15012 nvfp4_wgrad_pair 18008",
    },
    Places {
        reason: "emulated copies to tensor memory come behind the products of the same thread, as they are seen to on hardware; the PTX manual does not promise it, so kernels wait",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            nvfp4_dgrad 3136 nvfp4_dgrad_pair 3630 nvfp4_fprop 10198 nvfp4_fprop_pair 10692 \
            nvfp4_wgrad 17237 nvfp4_wgrad_pair 17732",
    },
    Places {
        reason: "at the end all places are waited for, and under no seed was this one's last arrival the only one to come late; in other kernels the same wait is noticed",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            mxfp8_dgrad_pair 6535 nvfp4_fprop_pair 14046",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 2964 3238 mxfp8_dgrad_pair 6617 6622 mxfp8_fprop 10056 10328 \
            mxfp8_fprop_pair 14171 14176 mxfp8_wgrad 17117 17431 mxfp8_wgrad_pair 20505 20977 \
            nvfp4_dgrad 3206 nvfp4_dgrad_pair 6544 nvfp4_fprop 10268 nvfp4_fprop_pair 14118 \
            nvfp4_wgrad 17307 nvfp4_wgrad_pair 20506",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad_pair 6366 nvfp4_fprop_pair 13940 nvfp4_wgrad_pair 20341",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "nvfp4_dgrad_pair 3606",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 2898 mxfp8_fprop 9990 mxfp8_wgrad 17051 nvfp4_dgrad 916 nvfp4_dgrad_pair \
            3919 nvfp4_fprop 7506 nvfp4_fprop_pair 11029 nvfp4_wgrad 15023 nvfp4_wgrad_pair 18019",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            mxfp8_wgrad 14838 mxfp8_wgrad_pair 18132",
    },
    Places {
        reason: "the odd block of a pair multiplies nothing: it only asks whether fewer tokens are left than a stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_wgrad_pair 20812",
    },
    Places {
        reason: "the three stages of a block alone end at 162 KiB, and no operand begins beyond 128 KiB: the bit is zero",
        damages: &["`bfe.u32` with 0xd for 0xe"],
        lines: "\
            nvfp4_dgrad 3124 nvfp4_fprop 10186 nvfp4_wgrad 17225",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1958 mxfp8_dgrad_pair 5028 mxfp8_fprop 8440 9052 mxfp8_fprop_pair 12589 \
            mxfp8_wgrad 16113 mxfp8_wgrad_pair 19411 nvfp4_dgrad 1953 nvfp4_dgrad_pair 4960 \
            nvfp4_fprop 8195 8404 9017 nvfp4_fprop_pair 11657 11931 12543 nvfp4_wgrad 15155 16053 \
            nvfp4_wgrad_pair 18155 19054",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1236 mxfp8_dgrad_pair 4306 mxfp8_fprop 7921 mxfp8_fprop_pair 11459 \
            mxfp8_wgrad 15398 mxfp8_wgrad_pair 18696 nvfp4_dgrad 1231 nvfp4_dgrad_pair 4238 \
            nvfp4_fprop 7885 nvfp4_fprop_pair 11412 nvfp4_wgrad 15339 nvfp4_wgrad_pair 18339",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            nvfp4_wgrad_pair 19911",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3126 mxfp8_fprop 10218 mxfp8_wgrad 17324",
    },
    Places {
        reason: "this copy of the number only says whether the stage has a step, and every stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_dgrad 3131 mxfp8_fprop 10223",
    },
    Places {
        reason: "a stage has four steps at most, and the loop over them ends at the fourth, however many are left",
        damages: &["`min.u32` takes its first operand"],
        lines: "mxfp8_wgrad 17281",
    },
    Places {
        reason: "the rows of a tile are one block of 128, so that the distance to the next one is not used",
        damages: &["`or.b64` with 0x4000404008000000 for 0x4000404004000000"],
        lines: "mxfp8_wgrad 17333",
    },
];
