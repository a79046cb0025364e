//! The same of codes in MXFP8 and NVFP4.

use crate::survivors_blackwell::Places;

/// All of them.
pub const MICRO_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad 187 mxfp8_fprop 8102 mxfp8_wgrad 15999 nvfp4_dgrad 179 nvfp4_fprop 8009 \
            nvfp4_wgrad 15915",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad_pair 4120 mxfp8_fprop_pair 12026 mxfp8_wgrad_pair 19967 nvfp4_dgrad_pair \
            4070 nvfp4_fprop_pair 11938 nvfp4_wgrad_pair 19783",
    },
    Places {
        reason: "codes of weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            mxfp8_dgrad 403 mxfp8_fprop 8313 mxfp8_wgrad 16199 mxfp8_wgrad_pair 20174 \
            nvfp4_dgrad_pair 7320 nvfp4_fprop_pair 15228 nvfp4_wgrad_pair 23017",
    },
    Places {
        reason: "the wait behind the next load waits for this one, too, and nothing reads its registers before",
        damages: &["without `tcgen05.wait::ld.sync.aligned`"],
        lines: "\
            mxfp8_dgrad 941 mxfp8_dgrad_pair 4685 mxfp8_fprop 8849 mxfp8_fprop_pair 12589 \
            mxfp8_wgrad 16724 mxfp8_wgrad_pair 20690 nvfp4_dgrad 936 nvfp4_dgrad_pair 4607 \
            nvfp4_fprop 8769 nvfp4_fprop_pair 12485 nvfp4_wgrad 16647 nvfp4_wgrad_pair 20319",
    },
    Places {
        reason: "emulated copies to tensor memory come behind the products of the same thread, as they are seen to on hardware; the PTX manual does not promise it, so kernels wait",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            nvfp4_dgrad 480 nvfp4_dgrad_pair 4292 nvfp4_fprop 8303 nvfp4_fprop_pair 12160 \
            nvfp4_wgrad 16202 nvfp4_wgrad_pair 20006",
    },
    Places {
        reason: "at the end all places are waited for, and products end in order: of two places the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            mxfp8_dgrad 3511 3526 3541 3843 3858 3873 3888 mxfp8_dgrad_pair 7750 7765 7780 7795 \
            7810 7843 7858 7873 7888 mxfp8_fprop 11419 11434 11449 11749 11764 11779 11794 \
            mxfp8_fprop_pair 15647 15662 15677 15692 15707 15740 15755 15770 15785 mxfp8_wgrad \
            19295 19310 19325 19667 19682 19697 19712 mxfp8_wgrad_pair 23274 23289 23304 23319 \
            23334 23835 23850 23865 23880 nvfp4_dgrad 3512 3527 3801 3816 3831 3846 \
            nvfp4_dgrad_pair 7680 7695 7710 7725 7758 7773 7788 7803 nvfp4_fprop 11380 11395 \
            11669 11684 11699 11714 nvfp4_fprop_pair 15586 15601 15616 15631 15664 15679 15694 \
            15709 nvfp4_wgrad 19224 19239 19514 19529 19544 19559 nvfp4_wgrad_pair 23254 23269 \
            23284 23299 23332 23347 23362 23377",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3563 3910 mxfp8_dgrad_pair 7832 7910 mxfp8_fprop 11471 11816 \
            mxfp8_fprop_pair 15729 15807 mxfp8_wgrad 19347 19734 mxfp8_wgrad_pair 23356 23902 \
            nvfp4_dgrad 3868 nvfp4_dgrad_pair 7825 nvfp4_fprop 11736 nvfp4_fprop_pair 15731 \
            nvfp4_wgrad 19581 nvfp4_wgrad_pair 23399",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad_pair 7577 nvfp4_fprop_pair 15483 nvfp4_wgrad_pair 23164",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad 947 nvfp4_dgrad_pair 4618 nvfp4_fprop 8780 nvfp4_fprop_pair 12496 \
            nvfp4_wgrad 16658 nvfp4_wgrad_pair 20330",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            mxfp8_dgrad 676 mxfp8_fprop 8584 mxfp8_wgrad 16461 mxfp8_wgrad_pair 20427",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_dgrad 670 mxfp8_fprop 8578 mxfp8_wgrad 16455 mxfp8_wgrad_pair 20421",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            mxfp8_wgrad 18951 19138 mxfp8_wgrad_pair 22926 23113",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1348 1352 mxfp8_dgrad_pair 5096 5100 mxfp8_fprop 9256 9260 \
            mxfp8_fprop_pair 13000 13004 mxfp8_wgrad 17132 17136 mxfp8_wgrad_pair 21104 21108",
    },
    Places {
        reason: "outputs have columns in multiples of 32: where a run of columns begins, more than 16 are left",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1825 2903 mxfp8_dgrad_pair 6648 mxfp8_fprop 9733 10811 mxfp8_fprop_pair \
            14552 mxfp8_wgrad 17609 18687 mxfp8_wgrad_pair 21581 22662 nvfp4_dgrad 1822 \
            nvfp4_dgrad_pair 5497 nvfp4_fprop 9690 nvfp4_fprop_pair 13410 nvfp4_wgrad 17534 \
            nvfp4_wgrad_pair 21210",
    },
    Places {
        reason: "the odd block of a pair multiplies nothing: it only asks whether fewer tokens are left than a stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_wgrad_pair 23663",
    },
    Places {
        reason: "the three stages of a block alone end at 162 KiB, and no operand begins beyond 128 KiB: the bit is zero",
        damages: &["`bfe.u32` with 0xd for 0xe"],
        lines: "\
            nvfp4_dgrad 3713 nvfp4_fprop 11581 nvfp4_wgrad 19426",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            nvfp4_dgrad 1308 1629 1842 nvfp4_dgrad_pair 4983 5517 nvfp4_fprop 9176 9497 9710 \
            nvfp4_fprop_pair 12896 13430 nvfp4_wgrad 17020 17341 17554 nvfp4_wgrad_pair 20696 \
            21230",
    },
];
