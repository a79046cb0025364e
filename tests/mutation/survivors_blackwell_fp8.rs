//! The same of FP8 operands.

use crate::survivors_blackwell::Places;

/// All of them.
pub const FP8_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 151 fp8_reduction_vector_vector_e5m2 5275 \
            fp8_rows_vector_square_e4m3 21259 fp8_rows_vector_square_e5m2 26684 \
            fp8_reduction_square_vector_e4m3 147 fp8_reduction_square_vector_e5m2 5197 \
            fp8_reduction_vector_square_e4m3 20963 fp8_reduction_vector_square_e5m2 25856 \
            fp8_rows_square_vector_e4m3 41151 fp8_rows_square_vector_e5m2 46745 \
            fp8_rows_vector_vector_e4m3 64147 fp8_rows_vector_vector_e5m2 69819 \
            fp8_reduction_tensor_e4m3 150 fp8_reduction_tensor_e5m2 2835 fp8_rows_tensor_e4m3 \
            11169 fp8_rows_tensor_e5m2 14356",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 10443 fp8_reduction_vector_vector_pair_e5m2 \
            15875 fp8_rows_vector_square_pair_e4m3 32153 fp8_rows_vector_square_pair_e5m2 37886 \
            fp8_reduction_square_vector_pair_e4m3 10291 fp8_reduction_square_vector_pair_e5m2 \
            15649 fp8_reduction_vector_square_pair_e4m3 30793 \
            fp8_reduction_vector_square_pair_e5m2 35994 fp8_rows_square_vector_pair_e4m3 52383 \
            fp8_rows_square_vector_pair_e5m2 58285 fp8_rows_vector_vector_pair_e4m3 75535 \
            fp8_rows_vector_vector_pair_e5m2 81515 fp8_reduction_tensor_pair_e4m3 5541 \
            fp8_reduction_tensor_pair_e5m2 8366 fp8_rows_tensor_pair_e4m3 17564 \
            fp8_rows_tensor_pair_e5m2 20893",
    },
    Places {
        reason: "FP8 weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 369 fp8_reduction_vector_vector_e5m2 5493 \
            fp8_reduction_vector_vector_pair_e4m3 10668 fp8_reduction_vector_vector_pair_e5m2 \
            16100 fp8_rows_vector_square_e4m3 21464 fp8_rows_vector_square_e5m2 26889 \
            fp8_rows_vector_square_pair_e4m3 32365 fp8_rows_vector_square_pair_e5m2 38098 \
            fp8_reduction_square_vector_e4m3 364 fp8_reduction_square_vector_e5m2 5414 \
            fp8_reduction_square_vector_pair_e4m3 10515 fp8_reduction_square_vector_pair_e5m2 \
            15873 fp8_reduction_vector_square_e4m3 21180 fp8_reduction_vector_square_e5m2 26073 \
            fp8_reduction_vector_square_pair_e4m3 31017 fp8_reduction_vector_square_pair_e5m2 \
            36218 fp8_rows_square_vector_e4m3 41356 fp8_rows_square_vector_e5m2 46950 \
            fp8_rows_square_vector_pair_e4m3 52595 fp8_rows_square_vector_pair_e5m2 58497 \
            fp8_rows_vector_vector_e4m3 64353 fp8_rows_vector_vector_e5m2 70025 \
            fp8_rows_vector_vector_pair_e4m3 75748 fp8_rows_vector_vector_pair_e5m2 81728 \
            fp8_reduction_tensor_e4m3 351 fp8_reduction_tensor_e5m2 3036 \
            fp8_reduction_tensor_pair_e4m3 7830 fp8_reduction_tensor_pair_e5m2 10655 \
            fp8_rows_tensor_e4m3 11361 fp8_rows_tensor_e5m2 14548 fp8_rows_tensor_pair_e4m3 20346 \
            fp8_rows_tensor_pair_e5m2 23675",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 569 fp8_reduction_vector_vector_e5m2 5693 \
            fp8_reduction_vector_vector_pair_e4m3 10859 fp8_reduction_vector_vector_pair_e5m2 \
            16291 fp8_rows_vector_square_e4m3 21650 fp8_rows_vector_square_e5m2 27075 \
            fp8_rows_vector_square_pair_e4m3 32542 fp8_rows_vector_square_pair_e5m2 38275 \
            fp8_reduction_square_vector_e4m3 552 fp8_reduction_square_vector_e5m2 5602 \
            fp8_reduction_square_vector_pair_e4m3 10694 fp8_reduction_square_vector_pair_e5m2 \
            16052 fp8_reduction_vector_square_e4m3 21368 fp8_reduction_vector_square_e5m2 26261 \
            fp8_reduction_vector_square_pair_e4m3 31196 fp8_reduction_vector_square_pair_e5m2 \
            36397 fp8_rows_square_vector_e4m3 41545 fp8_rows_square_vector_e5m2 47139 \
            fp8_rows_square_vector_pair_e4m3 52775 fp8_rows_square_vector_pair_e5m2 58677 \
            fp8_rows_vector_vector_e4m3 64555 fp8_rows_vector_vector_e5m2 70227 \
            fp8_rows_vector_vector_pair_e4m3 75941 fp8_rows_vector_vector_pair_e5m2 81921 \
            fp8_reduction_tensor_e4m3 524 fp8_reduction_tensor_e5m2 3209 \
            fp8_reduction_tensor_pair_e4m3 8015 fp8_reduction_tensor_pair_e5m2 10840 \
            fp8_rows_tensor_e4m3 11533 fp8_rows_tensor_e5m2 14720 fp8_rows_tensor_pair_e4m3 20530 \
            fp8_rows_tensor_pair_e5m2 23859",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4953 fp8_reduction_vector_vector_e5m2 10077 \
            fp8_reduction_vector_vector_pair_e4m3 15333 fp8_reduction_vector_vector_pair_e5m2 \
            20765 fp8_rows_vector_square_e4m3 26366 fp8_rows_vector_square_e5m2 31791 \
            fp8_rows_vector_square_pair_e4m3 37348 fp8_rows_vector_square_pair_e5m2 43081 \
            fp8_reduction_square_vector_e4m3 4879 fp8_reduction_square_vector_e5m2 9929 \
            fp8_reduction_square_vector_pair_e4m3 15111 fp8_reduction_square_vector_pair_e5m2 \
            20469 fp8_reduction_vector_square_e4m3 25538 fp8_reduction_vector_square_e5m2 30431 \
            fp8_reduction_vector_square_pair_e4m3 35456 fp8_reduction_vector_square_pair_e5m2 \
            40657 fp8_rows_square_vector_e4m3 46427 fp8_rows_square_vector_e5m2 52021 \
            fp8_rows_square_vector_pair_e4m3 57747 fp8_rows_square_vector_pair_e5m2 63649 \
            fp8_rows_vector_vector_e4m3 69497 fp8_rows_vector_vector_e5m2 75169 \
            fp8_rows_vector_vector_pair_e4m3 80973 fp8_rows_vector_vector_pair_e5m2 86953 \
            fp8_reduction_tensor_e4m3 2505 fp8_reduction_tensor_e5m2 5190 \
            fp8_reduction_tensor_pair_e4m3 8190 fp8_reduction_tensor_pair_e5m2 11015 \
            fp8_rows_tensor_e4m3 14027 fp8_rows_tensor_e5m2 17214 fp8_rows_tensor_pair_e4m3 20718 \
            fp8_rows_tensor_pair_e5m2 24047",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2625 fp8_reduction_tensor_e5m2 5310 fp8_rows_tensor_e4m3 \
            14147 fp8_rows_tensor_e5m2 17334 fp8_rows_tensor_pair_e4m3 17714 \
            fp8_rows_tensor_pair_e5m2 21043 fp8_rows_square_vector_e5m2 52187",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2438 fp8_reduction_tensor_e5m2 5123 \
            fp8_reduction_tensor_pair_e4m3 7636 fp8_reduction_tensor_pair_e5m2 10461 \
            fp8_rows_tensor_e4m3 13960 fp8_rows_tensor_e5m2 17147 fp8_rows_tensor_pair_e4m3 20161 \
            fp8_rows_tensor_pair_e5m2 23490",
    },
    Places {
        reason: "the products of the stage are waited for next, and who issued them has waited for the stage: its scales have come, too",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1123 fp8_reduction_square_vector_e5m2 6173 \
            fp8_reduction_square_vector_pair_e4m3 11265 fp8_reduction_square_vector_pair_e5m2 \
            16623 fp8_rows_square_vector_e4m3 42135 fp8_rows_square_vector_e5m2 47729 \
            fp8_rows_square_vector_pair_e4m3 53365 fp8_rows_square_vector_pair_e5m2 59267",
    },
    Places {
        reason: "at the end all stages are waited for, and under no seed was this one's last arrival the only one to come late; in other kernels the same wait is noticed",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_rows_square_vector_pair_e4m3 57695 fp8_rows_square_vector_pair_e5m2 63597",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_rows_square_vector_e4m3 44964 fp8_rows_square_vector_e5m2 50558 \
            fp8_rows_square_vector_pair_e4m3 56198 fp8_rows_square_vector_pair_e5m2 62100 \
            fp8_rows_vector_vector_e4m3 68034 fp8_rows_vector_vector_e5m2 73706 \
            fp8_rows_vector_vector_pair_e4m3 79424 fp8_rows_vector_vector_pair_e5m2 85404",
    },
];
