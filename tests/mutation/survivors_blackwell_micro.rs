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
            mxfp8_dgrad 1312 2671 2790 2903 mxfp8_dgrad_pair 5060 6416 6535 6648 mxfp8_fprop \
            9220 10579 10698 10811 mxfp8_fprop_pair 12964 14320 14439 14552 mxfp8_wgrad 17096 \
            18455 18574 18687 mxfp8_wgrad_pair 21068 22430 22549 22662 nvfp4_dgrad 1309 2671 \
            2790 2903 nvfp4_dgrad_pair 4984 6343 6462 6575 nvfp4_fprop 9177 10539 10658 10771 \
            nvfp4_fprop_pair 12897 14256 14375 14488 nvfp4_wgrad 17021 18383 18502 18615 \
            nvfp4_wgrad_pair 20697 22056 22175 22288",
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
            mxfp8_dgrad 1113 1114 1115 1565 1566 1567 1825 1845 1865 2461 2464 2467 \
            mxfp8_dgrad_pair 4861 4862 4863 5311 5312 5313 6206 6209 6212 mxfp8_fprop 9021 9022 \
            9023 9473 9474 9475 9733 9753 9773 10369 10372 10375 mxfp8_fprop_pair 12765 12766 \
            12767 13215 13216 13217 14110 14113 14116 mxfp8_wgrad 16897 16898 16899 17349 17350 \
            17351 17609 17629 17649 18245 18248 18251 mxfp8_wgrad_pair 20869 20870 20871 21356 \
            21388 21420 21581 21601 21621 21660 21678 21696 22220 22223 22226 nvfp4_dgrad 1110 \
            1111 1112 1597 1629 1661 1822 1842 1862 1901 1919 1937 2461 2464 2467 \
            nvfp4_dgrad_pair 4785 4786 4787 5237 5238 5239 5497 5517 5537 6133 6136 6139 \
            nvfp4_fprop 8978 8979 8980 9465 9497 9529 9690 9710 9730 9769 9787 9805 10329 10332 \
            10335 nvfp4_fprop_pair 12698 12699 12700 13150 13151 13152 13410 13430 13450 14046 \
            14049 14052 nvfp4_wgrad 16822 16823 16824 17309 17341 17373 17534 17554 17574 17613 \
            17631 17649 18173 18176 18179 nvfp4_wgrad_pair 20498 20499 20500 20950 20951 20952 \
            21210 21230 21250 21846 21849 21852",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1310 1311 mxfp8_dgrad_pair 5058 5059 mxfp8_fprop 9218 9219 \
            mxfp8_fprop_pair 12962 12963 mxfp8_wgrad 17094 17095 mxfp8_wgrad_pair 21066 21067 \
            nvfp4_dgrad 1307 1308 nvfp4_dgrad_pair 4982 4983 nvfp4_fprop 9175 9176 \
            nvfp4_fprop_pair 12895 12896 nvfp4_wgrad 17019 17020 nvfp4_wgrad_pair 20695 20696",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            nvfp4_wgrad 18879 19067 nvfp4_wgrad_pair 22552 22739",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            mxfp8_wgrad 18943 19127 19129 mxfp8_wgrad_pair 22918 23102 23104 nvfp4_wgrad 18871 \
            19056 19058 nvfp4_wgrad_pair 22544 22728 22730",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            nvfp4_dgrad 3200 nvfp4_dgrad_pair 6872 nvfp4_fprop 11068 nvfp4_fprop_pair 14785",
    },
];
