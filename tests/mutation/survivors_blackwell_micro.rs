//! The same of codes in MXFP8 and NVFP4.

use crate::survivors_blackwell::Places;

/// All of them.
pub const MICRO_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad 187 mxfp8_fprop 8113 mxfp8_wgrad 16021 nvfp4_dgrad 179 nvfp4_fprop 8020 \
            nvfp4_wgrad 15937",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            mxfp8_dgrad_pair 4126 mxfp8_fprop_pair 12043 mxfp8_wgrad_pair 19995 nvfp4_dgrad_pair \
            4076 nvfp4_fprop_pair 11955 nvfp4_wgrad_pair 19811",
    },
    Places {
        reason: "codes of weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            mxfp8_dgrad 406 mxfp8_fprop 8327 mxfp8_wgrad 16224 mxfp8_wgrad_pair 20205 \
            nvfp4_dgrad_pair 7327 nvfp4_fprop_pair 15246 nvfp4_wgrad_pair 23046",
    },
    Places {
        reason: "the wait behind the next load waits for this one, too, and nothing reads its registers before",
        damages: &["without `tcgen05.wait::ld.sync.aligned`"],
        lines: "\
            mxfp8_dgrad 947 mxfp8_dgrad_pair 4691 mxfp8_fprop 8866 mxfp8_fprop_pair 12606 \
            mxfp8_wgrad 16752 mxfp8_wgrad_pair 20724 nvfp4_dgrad 942 nvfp4_dgrad_pair 4613 \
            nvfp4_fprop 8786 nvfp4_fprop_pair 12502 nvfp4_wgrad 16675 nvfp4_wgrad_pair 20347",
    },
    Places {
        reason: "emulated copies to tensor memory come behind the products of the same thread, as they are seen to on hardware; the PTX manual does not promise it, so kernels wait",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            nvfp4_dgrad 483 nvfp4_dgrad_pair 4298 nvfp4_fprop 8317 nvfp4_fprop_pair 12177 \
            nvfp4_wgrad 16227 nvfp4_wgrad_pair 20034",
    },
    Places {
        reason: "at the end all places are waited for, and products end in order: of two places the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            mxfp8_dgrad 3517 3532 3547 3849 3864 3879 3894 mxfp8_dgrad_pair 7761 7776 7791 7806 \
            7821 7854 7869 7884 7899 mxfp8_fprop 11436 11451 11466 11766 11781 11796 11811 \
            mxfp8_fprop_pair 15669 15684 15699 15714 15729 15762 15777 15792 15807 mxfp8_wgrad \
            19323 19338 19353 19695 19710 19725 19740 mxfp8_wgrad_pair 23308 23323 23338 23353 \
            23368 23869 23884 23899 23914 nvfp4_dgrad 3518 3533 3807 3822 3837 3852 \
            nvfp4_dgrad_pair 7691 7706 7721 7736 7769 7784 7799 7814 nvfp4_fprop 11397 11412 11686 \
            11701 11716 11731 nvfp4_fprop_pair 15608 15623 15638 15653 15686 15701 15716 15731 \
            nvfp4_wgrad 19252 19267 19542 19557 19572 19587 nvfp4_wgrad_pair 23287 23302 23317 \
            23332 23365 23380 23395 23410",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            mxfp8_dgrad 3569 3916 mxfp8_dgrad_pair 7843 7921 mxfp8_fprop 11488 11833 \
            mxfp8_fprop_pair 15751 15829 mxfp8_wgrad 19375 19762 mxfp8_wgrad_pair 23390 23936 \
            nvfp4_dgrad 3874 nvfp4_dgrad_pair 7836 nvfp4_fprop 11753 nvfp4_fprop_pair 15753 \
            nvfp4_wgrad 19609 nvfp4_wgrad_pair 23432",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad_pair 7585 nvfp4_fprop_pair 15502 nvfp4_wgrad_pair 23194",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            nvfp4_dgrad 953 nvfp4_dgrad_pair 4624 nvfp4_fprop 8797 nvfp4_fprop_pair 12513 \
            nvfp4_wgrad 16686 nvfp4_wgrad_pair 20358",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            mxfp8_dgrad 675 mxfp8_fprop 8594 mxfp8_wgrad 16482 mxfp8_wgrad_pair 20454",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_dgrad 673 mxfp8_fprop 8592 mxfp8_wgrad 16480 mxfp8_wgrad_pair 20452",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            mxfp8_wgrad 18979 19166 mxfp8_wgrad_pair 22960 23147",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1354 1358 mxfp8_dgrad_pair 5102 5106 mxfp8_fprop 9273 9277 \
            mxfp8_fprop_pair 13017 13021 mxfp8_wgrad 17160 17164 mxfp8_wgrad_pair 21138 21142",
    },
    Places {
        reason: "outputs have columns in multiples of 32: where a run of columns begins, more than 16 are left",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1318 2677 2796 2909 mxfp8_dgrad_pair 5066 6422 6541 6654 mxfp8_fprop 9237 \
            10596 10715 10828 mxfp8_fprop_pair 12981 14337 14456 14569 mxfp8_wgrad 17124 18483 \
            18602 18715 mxfp8_wgrad_pair 21102 22464 22583 22696 nvfp4_dgrad 1315 2677 2796 2909 \
            nvfp4_dgrad_pair 4990 6349 6468 6581 nvfp4_fprop 9194 10556 10675 10788 \
            nvfp4_fprop_pair 12914 14273 14392 14505 nvfp4_wgrad 17049 18411 18530 18643 \
            nvfp4_wgrad_pair 20725 22084 22203 22316",
    },
    Places {
        reason: "the odd block of a pair multiplies nothing: it only asks whether fewer tokens are left than a stage has",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            mxfp8_wgrad_pair 23697",
    },
    Places {
        reason: "the three stages of a block alone end at 162 KiB, and no operand begins beyond 128 KiB: the bit is zero",
        damages: &["`bfe.u32` with 0xd for 0xe"],
        lines: "\
            nvfp4_dgrad 3719 nvfp4_fprop 11598 nvfp4_wgrad 19454",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1119 1120 1121 1571 1572 1573 1831 1851 1871 2467 2470 2473 \
            mxfp8_dgrad_pair 4867 4868 4869 5317 5318 5319 6212 6215 6218 mxfp8_fprop 9038 9039 \
            9040 9490 9491 9492 9750 9770 9790 10386 10389 10392 mxfp8_fprop_pair 12782 12783 \
            12784 13232 13233 13234 14127 14130 14133 mxfp8_wgrad 16925 16926 16927 17377 17378 \
            17379 17637 17657 17677 18273 18276 18279 mxfp8_wgrad_pair 20903 20904 20905 21390 \
            21422 21454 21615 21635 21655 21694 21712 21730 22254 22257 22260 nvfp4_dgrad 1116 \
            1117 1118 1603 1635 1667 1828 1848 1868 1907 1925 1943 2467 2470 2473 nvfp4_dgrad_pair \
            4791 4792 4793 5243 5244 5245 5503 5523 5543 6139 6142 6145 nvfp4_fprop 8995 8996 8997 \
            9482 9514 9546 9707 9727 9747 9786 9804 9822 10346 10349 10352 nvfp4_fprop_pair 12715 \
            12716 12717 13167 13168 13169 13427 13447 13467 14063 14066 14069 nvfp4_wgrad 16850 \
            16851 16852 17337 17369 17401 17562 17582 17602 17641 17659 17677 18201 18204 18207 \
            nvfp4_wgrad_pair 20526 20527 20528 20978 20979 20980 21238 21258 21278 21874 21877 \
            21880",
    },
    Places {
        reason: "threads then ask for numbers of columns beyond the output, of which nothing is made; they lie in the next row or group, or where allocations are rounded up",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            mxfp8_dgrad 1316 1317 mxfp8_dgrad_pair 5064 5065 mxfp8_fprop 9235 9236 \
            mxfp8_fprop_pair 12979 12980 mxfp8_wgrad 17122 17123 mxfp8_wgrad_pair 21100 21101 \
            nvfp4_dgrad 1313 1314 nvfp4_dgrad_pair 4988 4989 nvfp4_fprop 9192 9193 \
            nvfp4_fprop_pair 12912 12913 nvfp4_wgrad 17047 17048 nvfp4_wgrad_pair 20723 20724",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            nvfp4_wgrad 18907 19095 nvfp4_wgrad_pair 22580 22767",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            mxfp8_wgrad 18971 19155 19157 mxfp8_wgrad_pair 22952 23136 23138 nvfp4_wgrad 18899 \
            19084 19086 nvfp4_wgrad_pair 22572 22756 22758",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            nvfp4_dgrad 3206 nvfp4_dgrad_pair 6878 nvfp4_fprop 11085 nvfp4_fprop_pair 14802",
    },
];
