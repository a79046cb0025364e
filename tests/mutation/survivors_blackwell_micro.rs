//! The same of codes in MXFP8 and NVFP4.

use crate::survivors_blackwell::Places;

/// All of them.
pub const MICRO_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad 187 mxfp8_fprop 7913 mxfp8_wgrad 15621 nvfp4_dgrad 179 nvfp4_fprop 7835 \
            nvfp4_wgrad 15567",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad_pair 3998 mxfp8_fprop_pair 11715 mxfp8_wgrad_pair 19458 nvfp4_dgrad_pair \
            3963 nvfp4_fprop_pair 11657 nvfp4_wgrad_pair 19320",
    },
    Places {
        reason: "codes of weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            mxfp8_dgrad 406 mxfp8_dgrad_pair 7273 mxfp8_fprop 8127 mxfp8_fprop_pair 14983 \
            mxfp8_wgrad 15824 mxfp8_wgrad_pair 19668 nvfp4_dgrad 398 nvfp4_dgrad_pair 7215 \
            nvfp4_fprop 8049 nvfp4_fprop_pair 14949 nvfp4_wgrad 15770 nvfp4_wgrad_pair 22547",
    },
    Places {
        reason: "the wait behind the next load waits for this one, too, and nothing reads its registers before",
        damages: &["without `tcgen05.wait::ld.sync.aligned`"],
        lines: "\
            mxfp8_dgrad 948 mxfp8_dgrad_pair 4564 mxfp8_fprop 8667 mxfp8_fprop_pair 12279 \
            mxfp8_wgrad 16353 mxfp8_wgrad_pair 20188 nvfp4_dgrad 943 nvfp4_dgrad_pair 4501 \
            nvfp4_fprop 8602 nvfp4_fprop_pair 12205 nvfp4_wgrad 16306 nvfp4_wgrad_pair 19857",
    },
    Places {
        reason: "emulated copies to tensor memory come behind the products of the same thread, as they are seen to on hardware; the PTX manual does not promise it, so kernels wait",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            nvfp4_dgrad 3691 nvfp4_dgrad_pair 4185 nvfp4_fprop 11385 nvfp4_fprop_pair 11879 \
            nvfp4_wgrad 19048 nvfp4_wgrad_pair 19543",
    },
    Places {
        reason: "at the end all places are waited for, and products end in order: of two places the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            mxfp8_dgrad_pair 7634 7664 7694 mxfp8_fprop_pair 15342 15357 15387 mxfp8_wgrad_pair \
            22763 22778 nvfp4_dgrad_pair 7579 7594 7609 nvfp4_fprop_pair 15311 nvfp4_wgrad_pair \
            22788 22803 22818 22833",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3514 3788 mxfp8_dgrad_pair 7716 7721 mxfp8_fprop 11233 11505 \
            mxfp8_fprop_pair 15424 15429 mxfp8_wgrad 18911 19225 mxfp8_wgrad_pair 22845 23317 \
            nvfp4_dgrad 3761 nvfp4_dgrad_pair 7651 nvfp4_fprop 11455 nvfp4_fprop_pair 15383 \
            nvfp4_wgrad 19118 nvfp4_wgrad_pair 22860",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad_pair 7473 nvfp4_fprop_pair 15205 nvfp4_wgrad_pair 22695",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3448 mxfp8_fprop 11167 mxfp8_wgrad 18845 nvfp4_dgrad 954 nvfp4_dgrad_pair \
            4512 nvfp4_fprop 8613 nvfp4_fprop_pair 12216 nvfp4_wgrad 16317 nvfp4_wgrad_pair 19868",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            mxfp8_wgrad 16082 mxfp8_wgrad_pair 19917",
    },
    Places {
        reason: "outputs have columns in multiples of 32: where a run of columns begins, more than 16 are left",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1317 2676 2795 2908 mxfp8_dgrad_pair 4937 6293 6412 6525 mxfp8_fprop 9036 \
            10395 10514 10627 mxfp8_fprop_pair 12652 14008 14127 14240 mxfp8_wgrad 16723 18075 \
            18194 18307 mxfp8_wgrad_pair 20564 21919 22038 22151 nvfp4_dgrad 1314 2676 2795 2908 \
            nvfp4_dgrad_pair 4876 6235 6354 6467 nvfp4_fprop 9008 10370 10489 10602 \
            nvfp4_fprop_pair 12615 13974 14093 14206 nvfp4_wgrad 16678 18032 18151 18264 \
            nvfp4_wgrad_pair 20233 21585 21704 21817",
    },
    Places {
        reason: "the odd block of a pair multiplies nothing: it only asks whether fewer tokens are left than a stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_wgrad_pair 23152",
    },
    Places {
        reason: "the three stages of a block alone end at 162 KiB, and no operand begins beyond 128 KiB: the bit is zero",
        damages: &["`bfe.u32` with 0xd for 0xe"],
        lines: "\
            nvfp4_dgrad 3679 nvfp4_fprop 11373 nvfp4_wgrad 19036",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1120 1570 1571 1572 1830 1850 1870 2466 2469 2472 mxfp8_dgrad_pair 4740 \
            5188 5189 5190 6083 6086 6089 mxfp8_fprop 8839 9289 9549 9569 9589 10185 10188 10191 \
            mxfp8_fprop_pair 12455 12903 13798 13801 13804 mxfp8_wgrad 16526 16969 16970 16971 \
            17229 17249 17269 17865 17868 17871 mxfp8_wgrad_pair 20367 20845 20877 20909 21070 \
            21090 21110 21149 21167 21185 21709 21712 21715 nvfp4_dgrad 1117 1602 1634 1666 1827 \
            1847 1867 1906 1924 1942 2466 2469 2472 nvfp4_dgrad_pair 4679 5129 5130 5131 5389 5409 \
            5429 6025 6028 6031 nvfp4_fprop 8811 9296 9328 9360 9521 9541 9561 9600 10160 10163 \
            10166 nvfp4_fprop_pair 12418 12868 12869 12870 13128 13148 13168 13764 13767 13770 \
            nvfp4_wgrad 16480 16481 16958 16990 17022 17183 17203 17223 17262 17280 17298 17822 \
            17825 17828 nvfp4_wgrad_pair 20035 20036 20479 20480 20481 20739 20759 20779 21375 \
            21378 21381",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1315 1316 mxfp8_dgrad_pair 4935 4936 mxfp8_fprop 9034 9035 \
            mxfp8_fprop_pair 12650 12651 mxfp8_wgrad 16721 16722 mxfp8_wgrad_pair 20562 20563 \
            nvfp4_dgrad 1312 1313 nvfp4_dgrad_pair 4874 4875 nvfp4_fprop 9006 9007 \
            nvfp4_fprop_pair 12613 12614 nvfp4_wgrad 16676 16677 nvfp4_wgrad_pair 20231 20232",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            nvfp4_wgrad_pair 22274",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3676 mxfp8_fprop 11395 mxfp8_wgrad 19118",
    },
    Places {
        reason: "this copy of the number only says whether the stage has a step, and every stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_dgrad 3681 mxfp8_fprop 11400",
    },
];
