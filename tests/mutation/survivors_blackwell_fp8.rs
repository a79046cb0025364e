//! The same of FP8 operands.

use crate::survivors_blackwell::Places;

/// All of them.
pub const FP8_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 151 fp8_reduction_vector_vector_e5m2 5750 \
            fp8_rows_vector_square_e4m3 23159 fp8_rows_vector_square_e5m2 28584 \
            fp8_reduction_square_vector_e4m3 147 fp8_reduction_square_vector_e5m2 5672 \
            fp8_reduction_vector_square_e4m3 22863 fp8_reduction_vector_square_e5m2 28231 \
            fp8_rows_square_vector_e4m3 44951 fp8_rows_square_vector_e5m2 50545 \
            fp8_rows_vector_vector_e4m3 67947 fp8_rows_vector_vector_e5m2 73619 \
            fp8_reduction_tensor_e4m3 150 fp8_reduction_tensor_e5m2 3316 fp8_rows_tensor_e4m3 \
            13093 fp8_rows_tensor_e5m2 16280",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 11393 fp8_reduction_vector_vector_pair_e5m2 \
            17300 fp8_rows_vector_square_pair_e4m3 34053 fp8_rows_vector_square_pair_e5m2 39786 \
            fp8_reduction_square_vector_pair_e4m3 11241 fp8_reduction_square_vector_pair_e5m2 \
            17074 fp8_reduction_vector_square_pair_e4m3 33643 \
            fp8_reduction_vector_square_pair_e5m2 39319 fp8_rows_square_vector_pair_e4m3 56183 \
            fp8_rows_square_vector_pair_e5m2 62085 fp8_rows_vector_vector_pair_e4m3 79335 \
            fp8_rows_vector_vector_pair_e5m2 85315 fp8_reduction_tensor_pair_e4m3 6503 \
            fp8_reduction_tensor_pair_e5m2 9809 fp8_rows_tensor_pair_e4m3 19488 \
            fp8_rows_tensor_pair_e5m2 22817",
    },
    Places {
        reason: "FP8 weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 360 fp8_reduction_vector_vector_e5m2 5959 \
            fp8_reduction_vector_vector_pair_e4m3 11609 fp8_reduction_vector_vector_pair_e5m2 \
            17516 fp8_rows_vector_square_e4m3 23364 fp8_rows_vector_square_e5m2 28789 \
            fp8_rows_vector_square_pair_e4m3 34265 fp8_rows_vector_square_pair_e5m2 39998 \
            fp8_reduction_square_vector_e4m3 355 fp8_reduction_square_vector_e5m2 5880 \
            fp8_reduction_square_vector_pair_e4m3 11456 fp8_reduction_square_vector_pair_e5m2 \
            17289 fp8_reduction_vector_square_e4m3 23071 fp8_reduction_vector_square_e5m2 28439 \
            fp8_reduction_vector_square_pair_e4m3 33858 fp8_reduction_vector_square_pair_e5m2 \
            39534 fp8_rows_square_vector_e4m3 45156 fp8_rows_square_vector_e5m2 50750 \
            fp8_rows_square_vector_pair_e4m3 56395 fp8_rows_square_vector_pair_e5m2 62297 \
            fp8_rows_vector_vector_e4m3 68153 fp8_rows_vector_vector_e5m2 73825 \
            fp8_rows_vector_vector_pair_e4m3 79548 fp8_rows_vector_vector_pair_e5m2 85528 \
            fp8_reduction_tensor_e4m3 342 fp8_reduction_tensor_e5m2 3508 \
            fp8_reduction_tensor_pair_e4m3 9273 fp8_reduction_tensor_pair_e5m2 12579 \
            fp8_rows_tensor_e4m3 13285 fp8_rows_tensor_e5m2 16472 fp8_rows_tensor_pair_e4m3 22270 \
            fp8_rows_tensor_pair_e5m2 25599",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 560 fp8_reduction_vector_vector_e5m2 6159 \
            fp8_reduction_vector_vector_pair_e4m3 11800 fp8_reduction_vector_vector_pair_e5m2 \
            17707 fp8_rows_vector_square_e4m3 23550 fp8_rows_vector_square_e5m2 28975 \
            fp8_rows_vector_square_pair_e4m3 34442 fp8_rows_vector_square_pair_e5m2 40175 \
            fp8_reduction_square_vector_e4m3 543 fp8_reduction_square_vector_e5m2 6068 \
            fp8_reduction_square_vector_pair_e4m3 11635 fp8_reduction_square_vector_pair_e5m2 \
            17468 fp8_reduction_vector_square_e4m3 23259 fp8_reduction_vector_square_e5m2 28627 \
            fp8_reduction_vector_square_pair_e4m3 34037 fp8_reduction_vector_square_pair_e5m2 \
            39713 fp8_rows_square_vector_e4m3 45345 fp8_rows_square_vector_e5m2 50939 \
            fp8_rows_square_vector_pair_e4m3 56575 fp8_rows_square_vector_pair_e5m2 62477 \
            fp8_rows_vector_vector_e4m3 68355 fp8_rows_vector_vector_e5m2 74027 \
            fp8_rows_vector_vector_pair_e4m3 79741 fp8_rows_vector_vector_pair_e5m2 85721 \
            fp8_reduction_tensor_e4m3 515 fp8_reduction_tensor_e5m2 3681 \
            fp8_reduction_tensor_pair_e4m3 9458 fp8_reduction_tensor_pair_e5m2 12764 \
            fp8_rows_tensor_e4m3 13457 fp8_rows_tensor_e5m2 16644 fp8_rows_tensor_pair_e4m3 22454 \
            fp8_rows_tensor_pair_e5m2 25783",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5428 fp8_reduction_vector_vector_e5m2 11027 \
            fp8_reduction_vector_vector_pair_e4m3 16758 fp8_reduction_vector_vector_pair_e5m2 \
            22665 fp8_rows_vector_square_e4m3 28266 fp8_rows_vector_square_e5m2 33691 \
            fp8_rows_vector_square_pair_e4m3 39248 fp8_rows_vector_square_pair_e5m2 44981 \
            fp8_reduction_square_vector_e4m3 5354 fp8_reduction_square_vector_e5m2 10879 \
            fp8_reduction_square_vector_pair_e4m3 16536 fp8_reduction_square_vector_pair_e5m2 \
            22369 fp8_reduction_vector_square_e4m3 27913 fp8_reduction_vector_square_e5m2 33281 \
            fp8_reduction_vector_square_pair_e4m3 38781 fp8_reduction_vector_square_pair_e5m2 \
            44457 fp8_rows_square_vector_e4m3 50227 fp8_rows_square_vector_e5m2 55821 \
            fp8_rows_square_vector_pair_e4m3 61547 fp8_rows_square_vector_pair_e5m2 67449 \
            fp8_rows_vector_vector_e4m3 73297 fp8_rows_vector_vector_e5m2 78969 \
            fp8_rows_vector_vector_pair_e4m3 84773 fp8_rows_vector_vector_pair_e5m2 90753 \
            fp8_reduction_tensor_e4m3 2986 fp8_reduction_tensor_e5m2 6152 \
            fp8_reduction_tensor_pair_e4m3 9633 fp8_reduction_tensor_pair_e5m2 12939 \
            fp8_rows_tensor_e4m3 15951 fp8_rows_tensor_e5m2 19138 fp8_rows_tensor_pair_e4m3 22642 \
            fp8_rows_tensor_pair_e5m2 25971",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 3106 fp8_reduction_tensor_e5m2 6272 fp8_rows_tensor_e4m3 \
            16071 fp8_rows_tensor_e5m2 19258 fp8_rows_tensor_pair_e4m3 19638 \
            fp8_rows_tensor_pair_e5m2 22967",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2919 fp8_reduction_tensor_e5m2 6085 \
            fp8_reduction_tensor_pair_e4m3 9088 fp8_reduction_tensor_pair_e5m2 12394 \
            fp8_rows_tensor_e4m3 15884 fp8_rows_tensor_e5m2 19071 fp8_rows_tensor_pair_e4m3 22085 \
            fp8_rows_tensor_pair_e5m2 25414",
    },
    Places {
        reason: "the products of the stage are waited for next, and who issued them has waited for the stage: its scales have come, too",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1119 fp8_reduction_square_vector_e5m2 6644 \
            fp8_reduction_square_vector_pair_e4m3 12211 fp8_reduction_square_vector_pair_e5m2 \
            18044 fp8_rows_square_vector_e4m3 45935 fp8_rows_square_vector_e5m2 51529 \
            fp8_rows_square_vector_pair_e4m3 57165 fp8_rows_square_vector_pair_e5m2 63067",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 16676 fp8_reduction_vector_vector_pair_e5m2 \
            22583 fp8_reduction_square_vector_pair_e4m3 16484 \
            fp8_reduction_square_vector_pair_e5m2 22317 fp8_reduction_vector_square_pair_e4m3 \
            38729 fp8_reduction_vector_square_pair_e5m2 44405 fp8_rows_square_vector_pair_e4m3 \
            61495 61525 fp8_rows_square_vector_pair_e5m2 67397 67427 \
            fp8_reduction_tensor_pair_e4m3 9566 9596 fp8_reduction_tensor_pair_e5m2 12872 12902 \
            fp8_rows_tensor_pair_e4m3 22590 22605 22620 fp8_rows_tensor_pair_e5m2 25919 25934 \
            25949",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_rows_square_vector_e4m3 48764 fp8_rows_square_vector_e5m2 54358 \
            fp8_rows_square_vector_pair_e4m3 59998 fp8_rows_square_vector_pair_e5m2 65900 \
            fp8_rows_vector_vector_e4m3 71834 fp8_rows_vector_vector_e5m2 77506 \
            fp8_rows_vector_vector_pair_e4m3 83224 fp8_rows_vector_vector_pair_e5m2 89204",
    },
];
