//! The same of FP8 operands.

use crate::survivors_blackwell::Places;

/// All of them.
pub const FP8_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 151 fp8_reduction_vector_vector_e5m2 5266 \
            fp8_rows_vector_square_e4m3 21223 fp8_rows_vector_square_e5m2 26648 \
            fp8_reduction_square_vector_e4m3 147 fp8_reduction_square_vector_e5m2 5188 \
            fp8_reduction_vector_square_e4m3 20927 fp8_reduction_vector_square_e5m2 25811 \
            fp8_rows_square_vector_e4m3 41079 fp8_rows_square_vector_e5m2 46673 \
            fp8_rows_vector_vector_e4m3 64075 fp8_rows_vector_vector_e5m2 69747 \
            fp8_reduction_tensor_e4m3 150 fp8_reduction_tensor_e5m2 2826 fp8_rows_tensor_e4m3 \
            11133 fp8_rows_tensor_e5m2 14320",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 10425 fp8_reduction_vector_vector_pair_e5m2 \
            15848 fp8_rows_vector_square_pair_e4m3 32117 fp8_rows_vector_square_pair_e5m2 37850 \
            fp8_reduction_square_vector_pair_e4m3 10273 fp8_reduction_square_vector_pair_e5m2 \
            15622 fp8_reduction_vector_square_pair_e4m3 30739 \
            fp8_reduction_vector_square_pair_e5m2 35931 fp8_rows_square_vector_pair_e4m3 52311 \
            fp8_rows_square_vector_pair_e5m2 58213 fp8_rows_vector_vector_pair_e4m3 75463 \
            fp8_rows_vector_vector_pair_e5m2 81443 fp8_reduction_tensor_pair_e4m3 5523 \
            fp8_reduction_tensor_pair_e5m2 8339 fp8_rows_tensor_pair_e4m3 17528 \
            fp8_rows_tensor_pair_e5m2 20857",
    },
    Places {
        reason: "FP8 weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 360 fp8_reduction_vector_vector_e5m2 5475 \
            fp8_reduction_vector_vector_pair_e4m3 10641 fp8_reduction_vector_vector_pair_e5m2 \
            16064 fp8_rows_vector_square_e4m3 21428 fp8_rows_vector_square_e5m2 26853 \
            fp8_rows_vector_square_pair_e4m3 32329 fp8_rows_vector_square_pair_e5m2 38062 \
            fp8_reduction_square_vector_e4m3 355 fp8_reduction_square_vector_e5m2 5396 \
            fp8_reduction_square_vector_pair_e4m3 10488 fp8_reduction_square_vector_pair_e5m2 \
            15837 fp8_reduction_vector_square_e4m3 21135 fp8_reduction_vector_square_e5m2 26019 \
            fp8_reduction_vector_square_pair_e4m3 30954 fp8_reduction_vector_square_pair_e5m2 \
            36146 fp8_rows_square_vector_e4m3 41284 fp8_rows_square_vector_e5m2 46878 \
            fp8_rows_square_vector_pair_e4m3 52523 fp8_rows_square_vector_pair_e5m2 58425 \
            fp8_rows_vector_vector_e4m3 64281 fp8_rows_vector_vector_e5m2 69953 \
            fp8_rows_vector_vector_pair_e4m3 75676 fp8_rows_vector_vector_pair_e5m2 81656 \
            fp8_reduction_tensor_e4m3 342 fp8_reduction_tensor_e5m2 3018 \
            fp8_reduction_tensor_pair_e4m3 7803 fp8_reduction_tensor_pair_e5m2 10619 \
            fp8_rows_tensor_e4m3 11325 fp8_rows_tensor_e5m2 14512 fp8_rows_tensor_pair_e4m3 20310 \
            fp8_rows_tensor_pair_e5m2 23639",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 560 fp8_reduction_vector_vector_e5m2 5675 \
            fp8_reduction_vector_vector_pair_e4m3 10832 fp8_reduction_vector_vector_pair_e5m2 \
            16255 fp8_rows_vector_square_e4m3 21614 fp8_rows_vector_square_e5m2 27039 \
            fp8_rows_vector_square_pair_e4m3 32506 fp8_rows_vector_square_pair_e5m2 38239 \
            fp8_reduction_square_vector_e4m3 543 fp8_reduction_square_vector_e5m2 5584 \
            fp8_reduction_square_vector_pair_e4m3 10667 fp8_reduction_square_vector_pair_e5m2 \
            16016 fp8_reduction_vector_square_e4m3 21323 fp8_reduction_vector_square_e5m2 26207 \
            fp8_reduction_vector_square_pair_e4m3 31133 fp8_reduction_vector_square_pair_e5m2 \
            36325 fp8_rows_square_vector_e4m3 41473 fp8_rows_square_vector_e5m2 47067 \
            fp8_rows_square_vector_pair_e4m3 52703 fp8_rows_square_vector_pair_e5m2 58605 \
            fp8_rows_vector_vector_e4m3 64483 fp8_rows_vector_vector_e5m2 70155 \
            fp8_rows_vector_vector_pair_e4m3 75869 fp8_rows_vector_vector_pair_e5m2 81849 \
            fp8_reduction_tensor_e4m3 515 fp8_reduction_tensor_e5m2 3191 \
            fp8_reduction_tensor_pair_e4m3 7988 fp8_reduction_tensor_pair_e5m2 10804 \
            fp8_rows_tensor_e4m3 11497 fp8_rows_tensor_e5m2 14684 fp8_rows_tensor_pair_e4m3 20494 \
            fp8_rows_tensor_pair_e5m2 23823",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4944 fp8_reduction_vector_vector_e5m2 10059 \
            fp8_reduction_vector_vector_pair_e4m3 15306 fp8_reduction_vector_vector_pair_e5m2 \
            20729 fp8_rows_vector_square_e4m3 26330 fp8_rows_vector_square_e5m2 31755 \
            fp8_rows_vector_square_pair_e4m3 37312 fp8_rows_vector_square_pair_e5m2 43045 \
            fp8_reduction_square_vector_e4m3 4870 fp8_reduction_square_vector_e5m2 9911 \
            fp8_reduction_square_vector_pair_e4m3 15084 fp8_reduction_square_vector_pair_e5m2 \
            20433 fp8_reduction_vector_square_e4m3 25493 fp8_reduction_vector_square_e5m2 30377 \
            fp8_reduction_vector_square_pair_e4m3 35393 fp8_reduction_vector_square_pair_e5m2 \
            40585 fp8_rows_square_vector_e4m3 46355 fp8_rows_square_vector_e5m2 51949 \
            fp8_rows_square_vector_pair_e4m3 57675 fp8_rows_square_vector_pair_e5m2 63577 \
            fp8_rows_vector_vector_e4m3 69425 fp8_rows_vector_vector_e5m2 75097 \
            fp8_rows_vector_vector_pair_e4m3 80901 fp8_rows_vector_vector_pair_e5m2 86881 \
            fp8_reduction_tensor_e4m3 2496 fp8_reduction_tensor_e5m2 5172 \
            fp8_reduction_tensor_pair_e4m3 8163 fp8_reduction_tensor_pair_e5m2 10979 \
            fp8_rows_tensor_e4m3 13991 fp8_rows_tensor_e5m2 17178 fp8_rows_tensor_pair_e4m3 20682 \
            fp8_rows_tensor_pair_e5m2 24011",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2616 fp8_reduction_tensor_e5m2 5292 fp8_rows_tensor_e4m3 \
            14111 fp8_rows_tensor_e5m2 17298 fp8_rows_tensor_pair_e4m3 17678 \
            fp8_rows_tensor_pair_e5m2 21007 fp8_rows_square_vector_e5m2 52115",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2429 fp8_reduction_tensor_e5m2 5105 \
            fp8_reduction_tensor_pair_e4m3 7618 fp8_reduction_tensor_pair_e5m2 10434 \
            fp8_rows_tensor_e4m3 13924 fp8_rows_tensor_e5m2 17111 fp8_rows_tensor_pair_e4m3 20125 \
            fp8_rows_tensor_pair_e5m2 23454",
    },
    Places {
        reason: "the products of the stage are waited for next, and who issued them has waited for the stage: its scales have come, too",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1114 fp8_reduction_square_vector_e5m2 6155 \
            fp8_reduction_square_vector_pair_e4m3 11238 fp8_reduction_square_vector_pair_e5m2 \
            16587 fp8_rows_square_vector_e4m3 42063 fp8_rows_square_vector_e5m2 47657 \
            fp8_rows_square_vector_pair_e4m3 53293 fp8_rows_square_vector_pair_e5m2 59195",
    },
    Places {
        reason: "at the end all stages are waited for, and under no seed was this one's last arrival the only one to come late; in other kernels the same wait is noticed",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_rows_square_vector_pair_e4m3 57623 fp8_rows_square_vector_pair_e5m2 63525",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_rows_square_vector_e4m3 44892 fp8_rows_square_vector_e5m2 50486 \
            fp8_rows_square_vector_pair_e4m3 56126 fp8_rows_square_vector_pair_e5m2 62028 \
            fp8_rows_vector_vector_e4m3 67962 fp8_rows_vector_vector_e5m2 73634 \
            fp8_rows_vector_vector_pair_e4m3 79352 fp8_rows_vector_vector_pair_e5m2 85332",
    },
];
