//! The same of codes in MXFP8 and NVFP4.

use crate::survivors_blackwell::Places;

/// All of them.
pub const MICRO_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad 187 mxfp8_fprop 8114 mxfp8_wgrad 16023 nvfp4_dgrad 179 nvfp4_fprop 8021 \
            nvfp4_wgrad 15939",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad_pair 4126 mxfp8_fprop_pair 12044 mxfp8_wgrad_pair 19997 nvfp4_dgrad_pair \
            4076 nvfp4_fprop_pair 11956 nvfp4_wgrad_pair 19813",
    },
    Places {
        reason: "codes of weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            mxfp8_dgrad 406 mxfp8_fprop 8328 mxfp8_wgrad 16226 mxfp8_wgrad_pair 20207 \
            nvfp4_dgrad_pair 7329 nvfp4_fprop_pair 15249 nvfp4_wgrad_pair 23050",
    },
    Places {
        reason: "the wait behind the next load waits for this one, too, and nothing reads its registers before",
        damages: &["without `tcgen05.wait::ld.sync.aligned`"],
        lines: "\
            mxfp8_dgrad 947 mxfp8_dgrad_pair 4691 mxfp8_fprop 8867 mxfp8_fprop_pair 12607 \
            mxfp8_wgrad 16754 mxfp8_wgrad_pair 20726 nvfp4_dgrad 942 nvfp4_dgrad_pair 4613 \
            nvfp4_fprop 8787 nvfp4_fprop_pair 12503 nvfp4_wgrad 16677 nvfp4_wgrad_pair 20349",
    },
    Places {
        reason: "emulated copies to tensor memory come behind the products of the same thread, as they are seen to on hardware; the PTX manual does not promise it, so kernels wait",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            nvfp4_dgrad 483 nvfp4_dgrad_pair 4298 nvfp4_fprop 8318 nvfp4_fprop_pair 12178 \
            nvfp4_wgrad 16229 nvfp4_wgrad_pair 20036",
    },
    Places {
        reason: "at the end all places are waited for, and products end in order: of two places the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            mxfp8_dgrad 3517 3532 3547 3849 3864 3879 3894 mxfp8_dgrad_pair 7762 7777 7792 7807 \
            7822 7855 7870 7885 7900 mxfp8_fprop 11437 11452 11467 11767 11782 11797 11812 \
            mxfp8_fprop_pair 15671 15686 15701 15716 15731 15764 15779 15794 15809 mxfp8_wgrad \
            19325 19340 19355 19697 19712 19727 19742 mxfp8_wgrad_pair 23310 23325 23340 23355 \
            23370 23871 23886 23901 23916 nvfp4_dgrad 3518 3533 3807 3822 3837 3852 \
            nvfp4_dgrad_pair 7692 7707 7722 7737 7770 7785 7800 7815 nvfp4_fprop 11398 11413 11687 \
            11702 11717 11732 nvfp4_fprop_pair 15610 15625 15640 15655 15688 15703 15718 15733 \
            nvfp4_wgrad 19254 19269 19544 19559 19574 19589 nvfp4_wgrad_pair 23290 23305 23320 \
            23335 23368 23383 23398 23413",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3569 3916 mxfp8_dgrad_pair 7844 7922 mxfp8_fprop 11489 11834 \
            mxfp8_fprop_pair 15753 15831 mxfp8_wgrad 19377 19764 mxfp8_wgrad_pair 23392 23938 \
            nvfp4_dgrad 3874 nvfp4_dgrad_pair 7837 nvfp4_fprop 11754 nvfp4_fprop_pair 15755 \
            nvfp4_wgrad 19611 nvfp4_wgrad_pair 23435",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad_pair 7586 nvfp4_fprop_pair 15504 nvfp4_wgrad_pair 23197",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad 953 nvfp4_dgrad_pair 4624 nvfp4_fprop 8798 nvfp4_fprop_pair 12514 \
            nvfp4_wgrad 16688 nvfp4_wgrad_pair 20360",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            mxfp8_dgrad 675 mxfp8_fprop 8595 mxfp8_wgrad 16484 mxfp8_wgrad_pair 20456",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_dgrad 673 mxfp8_fprop 8593 mxfp8_wgrad 16482 mxfp8_wgrad_pair 20454",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            mxfp8_wgrad 18981 19168 mxfp8_wgrad_pair 22962 23149",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1354 1358 mxfp8_dgrad_pair 5102 5106 mxfp8_fprop 9274 9278 \
            mxfp8_fprop_pair 13018 13022 mxfp8_wgrad 17162 17166 mxfp8_wgrad_pair 21140 21144",
    },
    Places {
        reason: "outputs have columns in multiples of 32: where a run of columns begins, more than 16 are left",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1318 2677 2796 2909 mxfp8_dgrad_pair 5066 6422 6541 6654 mxfp8_fprop 9238 \
            10597 10716 10829 mxfp8_fprop_pair 12982 14338 14457 14570 mxfp8_wgrad 17126 18485 \
            18604 18717 mxfp8_wgrad_pair 21104 22466 22585 22698 nvfp4_dgrad 1315 2677 2796 2909 \
            nvfp4_dgrad_pair 4990 6349 6468 6581 nvfp4_fprop 9195 10557 10676 10789 \
            nvfp4_fprop_pair 12915 14274 14393 14506 nvfp4_wgrad 17051 18413 18532 18645 \
            nvfp4_wgrad_pair 20727 22086 22205 22318",
    },
    Places {
        reason: "the odd block of a pair multiplies nothing: it only asks whether fewer tokens are left than a stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_wgrad_pair 23699",
    },
    Places {
        reason: "the three stages of a block alone end at 162 KiB, and no operand begins beyond 128 KiB: the bit is zero",
        damages: &["`bfe.u32` with 0xd for 0xe"],
        lines: "\
            nvfp4_dgrad 3719 nvfp4_fprop 11599 nvfp4_wgrad 19456",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1119 1120 1121 1571 1572 1573 1831 1851 1871 2467 2470 2473 \
            mxfp8_dgrad_pair 4867 4868 4869 5317 5318 5319 6212 6215 6218 mxfp8_fprop 9039 9040 \
            9041 9491 9492 9493 9751 9771 9791 10387 10390 10393 mxfp8_fprop_pair 12783 12784 \
            12785 13233 13234 13235 14128 14131 14134 mxfp8_wgrad 16927 16928 16929 17379 17380 \
            17381 17639 17659 17679 18275 18278 18281 mxfp8_wgrad_pair 20905 20906 20907 21392 \
            21424 21456 21617 21637 21657 21696 21714 21732 22256 22259 22262 nvfp4_dgrad 1116 \
            1117 1118 1603 1635 1667 1828 1848 1868 1907 1925 1943 2467 2470 2473 nvfp4_dgrad_pair \
            4791 4792 4793 5243 5244 5245 5503 5523 5543 6139 6142 6145 nvfp4_fprop 8996 8997 8998 \
            9483 9515 9547 9708 9728 9748 9787 9805 9823 10347 10350 10353 nvfp4_fprop_pair 12716 \
            12717 12718 13168 13169 13170 13428 13448 13468 14064 14067 14070 nvfp4_wgrad 16852 \
            16853 16854 17339 17371 17403 17564 17584 17604 17643 17661 17679 18203 18206 18209 \
            nvfp4_wgrad_pair 20528 20529 20530 20980 20981 20982 21240 21260 21280 21876 21879 \
            21882",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1316 1317 mxfp8_dgrad_pair 5064 5065 mxfp8_fprop 9236 9237 \
            mxfp8_fprop_pair 12980 12981 mxfp8_wgrad 17124 17125 mxfp8_wgrad_pair 21102 21103 \
            nvfp4_dgrad 1313 1314 nvfp4_dgrad_pair 4988 4989 nvfp4_fprop 9193 9194 \
            nvfp4_fprop_pair 12913 12914 nvfp4_wgrad 17049 17050 nvfp4_wgrad_pair 20725 20726",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            nvfp4_wgrad 18909 19097 nvfp4_wgrad_pair 22582 22769",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            mxfp8_wgrad 18973 19157 19159 mxfp8_wgrad_pair 22954 23138 23140 nvfp4_wgrad 18901 \
            19086 19088 nvfp4_wgrad_pair 22574 22758 22760",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            nvfp4_dgrad 3206 nvfp4_dgrad_pair 6878 nvfp4_fprop 11086 nvfp4_fprop_pair 14803",
    },
];
