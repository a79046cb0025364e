//! The same of FP8 operands.

use crate::survivors_blackwell::Places;

/// All of them.
pub const FP8_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 153 fp8_reduction_vector_vector_e5m2 5809 \
            fp8_rows_vector_square_e4m3 23187 fp8_rows_vector_square_e5m2 28622 \
            fp8_reduction_square_vector_e4m3 149 fp8_reduction_square_vector_e5m2 5731 \
            fp8_reduction_vector_square_e4m3 22891 fp8_reduction_vector_square_e5m2 28316 \
            fp8_rows_square_vector_e4m3 45005 fp8_rows_square_vector_e5m2 50609 \
            fp8_rows_vector_vector_e4m3 67839 fp8_rows_vector_vector_e5m2 73521 \
            fp8_reduction_tensor_e4m3 152 fp8_reduction_tensor_e5m2 3383 fp8_rows_tensor_e4m3 \
            13211 fp8_rows_tensor_e5m2 16454",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 11469 fp8_reduction_vector_vector_pair_e5m2 \
            17332 fp8_rows_vector_square_pair_e4m3 34061 fp8_rows_vector_square_pair_e5m2 39703 \
            fp8_reduction_square_vector_pair_e4m3 11317 fp8_reduction_square_vector_pair_e5m2 \
            17106 fp8_reduction_vector_square_pair_e4m3 33745 \
            fp8_reduction_vector_square_pair_e5m2 39377 fp8_rows_square_vector_pair_e4m3 56217 \
            fp8_rows_square_vector_pair_e5m2 62028 fp8_rows_vector_vector_pair_e4m3 79207 \
            fp8_rows_vector_vector_pair_e5m2 85096 fp8_reduction_tensor_pair_e4m3 6619 \
            fp8_reduction_tensor_pair_e5m2 9918 fp8_rows_tensor_pair_e4m3 19702 \
            fp8_rows_tensor_pair_e5m2 23013",
    },
    Places {
        reason: "FP8 weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 362 fp8_reduction_vector_vector_e5m2 6018 \
            fp8_reduction_vector_vector_pair_e4m3 11685 fp8_reduction_vector_vector_pair_e5m2 \
            17548 fp8_rows_vector_square_e4m3 23392 fp8_rows_vector_square_e5m2 28827 \
            fp8_rows_vector_square_pair_e4m3 34273 fp8_rows_vector_square_pair_e5m2 39915 \
            fp8_reduction_square_vector_e4m3 357 fp8_reduction_square_vector_e5m2 5939 \
            fp8_reduction_square_vector_pair_e4m3 11532 fp8_reduction_square_vector_pair_e5m2 \
            17321 fp8_reduction_vector_square_e4m3 23099 fp8_reduction_vector_square_e5m2 28524 \
            fp8_reduction_vector_square_pair_e4m3 33960 fp8_reduction_vector_square_pair_e5m2 \
            39592 fp8_rows_square_vector_e4m3 45210 fp8_rows_square_vector_e5m2 50814 \
            fp8_rows_square_vector_pair_e4m3 56429 fp8_rows_square_vector_pair_e5m2 62240 \
            fp8_rows_vector_vector_e4m3 68045 fp8_rows_vector_vector_e5m2 73727 \
            fp8_rows_vector_vector_pair_e4m3 79420 fp8_rows_vector_vector_pair_e5m2 85309 \
            fp8_reduction_tensor_e4m3 344 fp8_reduction_tensor_e5m2 3575 \
            fp8_reduction_tensor_pair_e4m3 9400 fp8_reduction_tensor_pair_e5m2 12699 \
            fp8_rows_tensor_e4m3 13403 fp8_rows_tensor_e5m2 16646 fp8_rows_tensor_pair_e4m3 22484 \
            fp8_rows_tensor_pair_e5m2 25795",
    },
    Places {
        reason: "the emulator lets a block end while the copy engine still reads its boxes of the output; a GPU may then give the shared memory to another block",
        damages: &[
            "`cp.async.bulk.wait_group.read` with 0x1 for 0x0",
            "without `cp.async.bulk.wait_group.read`",
        ],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5384 fp8_reduction_vector_vector_e5m2 11040 \
            fp8_reduction_vector_vector_pair_e4m3 16702 fp8_reduction_vector_vector_pair_e5m2 \
            22565 fp8_rows_vector_square_e4m3 28201 fp8_rows_vector_square_e5m2 33636 \
            fp8_rows_vector_square_pair_e4m3 39077 fp8_rows_vector_square_pair_e5m2 44719 \
            fp8_reduction_square_vector_e4m3 5310 fp8_reduction_square_vector_e5m2 10892 \
            fp8_reduction_square_vector_pair_e4m3 16480 fp8_reduction_square_vector_pair_e5m2 \
            22269 fp8_reduction_vector_square_e4m3 27895 fp8_reduction_vector_square_e5m2 33320 \
            fp8_reduction_vector_square_pair_e4m3 38751 fp8_reduction_vector_square_pair_e5m2 \
            44383 fp8_rows_square_vector_e4m3 50188 fp8_rows_square_vector_e5m2 55792 \
            fp8_rows_square_vector_pair_e4m3 61402 fp8_rows_square_vector_pair_e5m2 67213 \
            fp8_rows_vector_vector_e4m3 73096 fp8_rows_vector_vector_e5m2 78778 \
            fp8_rows_vector_vector_pair_e4m3 84466 fp8_rows_vector_vector_pair_e5m2 90355 \
            fp8_reduction_tensor_e4m3 2943 fp8_reduction_tensor_e5m2 6174 \
            fp8_reduction_tensor_pair_e4m3 9238 fp8_reduction_tensor_pair_e5m2 12537 \
            fp8_rows_tensor_e4m3 16015 fp8_rows_tensor_e5m2 19258 fp8_rows_tensor_pair_e4m3 22322 \
            fp8_rows_tensor_pair_e5m2 25633",
    },
    Places {
        reason: "the barriers' places are known numbers and never none, so that the loop over them goes round at least once",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 69 81 93 105 117 129 141 \
            fp8_reduction_vector_vector_e5m2 5725 5737 5749 5761 5773 5785 5797 \
            fp8_reduction_vector_vector_pair_e4m3 11385 11397 11409 11421 11433 11445 11457 \
            fp8_reduction_vector_vector_pair_e5m2 17248 17260 17272 17284 17296 17308 17320 \
            fp8_rows_vector_square_e4m3 23103 23115 23127 23139 23151 23163 23175 \
            fp8_rows_vector_square_e5m2 28538 28550 28562 28574 28586 28598 28610 \
            fp8_rows_vector_square_pair_e4m3 33977 33989 34001 34013 34025 34037 34049 \
            fp8_rows_vector_square_pair_e5m2 39619 39631 39643 39655 39667 39679 39691 \
            fp8_reduction_square_vector_e4m3 65 77 89 101 113 125 137 \
            fp8_reduction_square_vector_e5m2 5647 5659 5671 5683 5695 5707 5719 \
            fp8_reduction_square_vector_pair_e4m3 11233 11245 11257 11269 11281 11293 11305 \
            fp8_reduction_square_vector_pair_e5m2 17022 17034 17046 17058 17070 17082 17094 \
            fp8_reduction_vector_square_e4m3 22807 22819 22831 22843 22855 22867 22879 \
            fp8_reduction_vector_square_e5m2 28232 28244 28256 28268 28280 28292 28304 \
            fp8_reduction_vector_square_pair_e4m3 33661 33673 33685 33697 33709 33721 33733 \
            fp8_reduction_vector_square_pair_e5m2 39293 39305 39317 39329 39341 39353 39365 \
            fp8_rows_square_vector_e4m3 44921 44933 44945 44957 44969 44981 44993 \
            fp8_rows_square_vector_e5m2 50525 50537 50549 50561 50573 50585 50597 \
            fp8_rows_square_vector_pair_e4m3 56133 56145 56157 56169 56181 56193 56205 \
            fp8_rows_square_vector_pair_e5m2 61944 61956 61968 61980 61992 62004 62016 \
            fp8_rows_vector_vector_e4m3 67755 67767 67779 67791 67803 67815 67827 \
            fp8_rows_vector_vector_e5m2 73437 73449 73461 73473 73485 73497 73509 \
            fp8_rows_vector_vector_pair_e4m3 79123 79135 79147 79159 79171 79183 79195 \
            fp8_rows_vector_vector_pair_e5m2 85012 85024 85036 85048 85060 85072 85084 \
            fp8_reduction_tensor_e4m3 68 80 92 104 116 128 140 fp8_reduction_tensor_e5m2 3299 3311 \
            3323 3335 3347 3359 3371 fp8_reduction_tensor_pair_e4m3 6535 6547 6559 6571 6583 6595 \
            6607 fp8_reduction_tensor_pair_e5m2 9834 9846 9858 9870 9882 9894 9906 \
            fp8_rows_tensor_e4m3 13127 13139 13151 13163 13175 13187 13199 fp8_rows_tensor_e5m2 \
            16370 16382 16394 16406 16418 16430 16442 fp8_rows_tensor_pair_e4m3 19618 19630 19642 \
            19654 19666 19678 19690 fp8_rows_tensor_pair_e5m2 22929 22941 22953 22965 22977 22989 \
            23001",
    },
    Places {
        reason: "the barriers by which the odd block of a pair says that its stages are ready: these kernels have none to wait for",
        damages: &[
            "`mbarrier.init.shared::cta.b64` with 0x2 for 0x1",
            "without `mbarrier.init.shared::cta.b64`",
        ],
        lines: "\
            fp8_reduction_vector_vector_e4m3 98 fp8_reduction_vector_vector_e5m2 5754 \
            fp8_rows_vector_square_e4m3 23132 fp8_rows_vector_square_e5m2 28567 \
            fp8_reduction_square_vector_e4m3 94 fp8_reduction_square_vector_e5m2 5676 \
            fp8_reduction_vector_square_e4m3 22836 fp8_reduction_vector_square_e5m2 28261 \
            fp8_rows_square_vector_e4m3 44950 fp8_rows_square_vector_e5m2 50554 \
            fp8_rows_vector_vector_e4m3 67784 fp8_rows_vector_vector_e5m2 73466 \
            fp8_reduction_tensor_e4m3 97 fp8_reduction_tensor_e5m2 3328 \
            fp8_reduction_tensor_pair_e4m3 6564 fp8_reduction_tensor_pair_e5m2 9863 \
            fp8_rows_tensor_e4m3 13156 fp8_rows_tensor_e5m2 16399 fp8_rows_tensor_pair_e4m3 19647 \
            fp8_rows_tensor_pair_e5m2 22958",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 576 fp8_reduction_vector_vector_e5m2 6232 \
            fp8_reduction_vector_vector_pair_e4m3 11890 fp8_reduction_vector_vector_pair_e5m2 \
            17753 fp8_rows_vector_square_e4m3 23605 fp8_rows_vector_square_e5m2 29040 \
            fp8_rows_vector_square_pair_e4m3 34477 fp8_rows_vector_square_pair_e5m2 40119 \
            fp8_reduction_square_vector_e4m3 559 fp8_reduction_square_vector_e5m2 6141 \
            fp8_reduction_square_vector_pair_e4m3 11725 fp8_reduction_square_vector_pair_e5m2 \
            17514 fp8_reduction_vector_square_e4m3 23301 fp8_reduction_vector_square_e5m2 28726 \
            fp8_reduction_vector_square_pair_e4m3 34153 fp8_reduction_vector_square_pair_e5m2 \
            39785 fp8_rows_square_vector_e4m3 45426 fp8_rows_square_vector_e5m2 51030 \
            fp8_rows_square_vector_pair_e4m3 56636 fp8_rows_square_vector_pair_e5m2 62447 \
            fp8_rows_vector_vector_e4m3 68274 fp8_rows_vector_vector_e5m2 73956 \
            fp8_rows_vector_vector_pair_e4m3 79640 fp8_rows_vector_vector_pair_e5m2 85529 \
            fp8_reduction_tensor_e4m3 531 fp8_reduction_tensor_e5m2 3762 \
            fp8_reduction_tensor_pair_e4m3 9599 fp8_reduction_tensor_pair_e5m2 12898 \
            fp8_rows_tensor_e4m3 13602 fp8_rows_tensor_e5m2 16845 fp8_rows_tensor_pair_e4m3 22695 \
            fp8_rows_tensor_pair_e5m2 26006",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 582 fp8_reduction_vector_vector_e5m2 6238 \
            fp8_reduction_vector_vector_pair_e4m3 11896 fp8_reduction_vector_vector_pair_e5m2 \
            17759 fp8_rows_vector_square_e4m3 23611 fp8_rows_vector_square_e5m2 29046 \
            fp8_rows_vector_square_pair_e4m3 34483 fp8_rows_vector_square_pair_e5m2 40125 \
            fp8_reduction_square_vector_e4m3 565 fp8_reduction_square_vector_e5m2 6147 \
            fp8_reduction_square_vector_pair_e4m3 11731 fp8_reduction_square_vector_pair_e5m2 \
            17520 fp8_reduction_vector_square_e4m3 23307 fp8_reduction_vector_square_e5m2 28732 \
            fp8_reduction_vector_square_pair_e4m3 34159 fp8_reduction_vector_square_pair_e5m2 \
            39791 fp8_rows_square_vector_e4m3 45432 fp8_rows_square_vector_e5m2 51036 \
            fp8_rows_square_vector_pair_e4m3 56642 fp8_rows_square_vector_pair_e5m2 62453 \
            fp8_rows_vector_vector_e4m3 68280 fp8_rows_vector_vector_e5m2 73962 \
            fp8_rows_vector_vector_pair_e4m3 79646 fp8_rows_vector_vector_pair_e5m2 85535 \
            fp8_reduction_tensor_e4m3 537 fp8_reduction_tensor_e5m2 3768 \
            fp8_reduction_tensor_pair_e4m3 9605 fp8_reduction_tensor_pair_e5m2 12904 \
            fp8_rows_tensor_e4m3 13608 fp8_rows_tensor_e5m2 16851 fp8_rows_tensor_pair_e4m3 22701 \
            fp8_rows_tensor_pair_e5m2 26012",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 585 fp8_reduction_vector_vector_e5m2 6241 \
            fp8_reduction_vector_vector_pair_e4m3 11899 fp8_reduction_vector_vector_pair_e5m2 \
            17762 fp8_rows_vector_square_e4m3 23614 fp8_rows_vector_square_e5m2 29049 \
            fp8_rows_vector_square_pair_e4m3 34486 fp8_rows_vector_square_pair_e5m2 40128 \
            fp8_reduction_square_vector_e4m3 568 fp8_reduction_square_vector_e5m2 6150 \
            fp8_reduction_square_vector_pair_e4m3 11734 fp8_reduction_square_vector_pair_e5m2 \
            17523 fp8_reduction_vector_square_e4m3 23310 fp8_reduction_vector_square_e5m2 28735 \
            fp8_reduction_vector_square_pair_e4m3 34162 fp8_reduction_vector_square_pair_e5m2 \
            39794 fp8_rows_square_vector_e4m3 45435 fp8_rows_square_vector_e5m2 51039 \
            fp8_rows_square_vector_pair_e4m3 56645 fp8_rows_square_vector_pair_e5m2 62456 \
            fp8_rows_vector_vector_e4m3 68283 fp8_rows_vector_vector_e5m2 73965 \
            fp8_rows_vector_vector_pair_e4m3 79649 fp8_rows_vector_vector_pair_e5m2 85538 \
            fp8_reduction_tensor_e4m3 540 fp8_reduction_tensor_e5m2 3771 \
            fp8_reduction_tensor_pair_e4m3 9608 fp8_reduction_tensor_pair_e5m2 12907 \
            fp8_rows_tensor_e4m3 13611 fp8_rows_tensor_e5m2 16854 fp8_rows_tensor_pair_e4m3 22704 \
            fp8_rows_tensor_pair_e5m2 26015",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 561 fp8_reduction_vector_vector_e5m2 6217 \
            fp8_reduction_vector_vector_pair_e4m3 11875 fp8_reduction_vector_vector_pair_e5m2 \
            17738 fp8_rows_vector_square_e4m3 23577 fp8_rows_vector_square_e5m2 29012 \
            fp8_rows_vector_square_pair_e4m3 34449 fp8_rows_vector_square_pair_e5m2 40091 \
            fp8_reduction_square_vector_e4m3 544 fp8_reduction_square_vector_e5m2 6126 \
            fp8_reduction_square_vector_pair_e4m3 11710 fp8_reduction_square_vector_pair_e5m2 \
            17499 fp8_reduction_vector_square_e4m3 23286 fp8_reduction_vector_square_e5m2 28711 \
            fp8_reduction_vector_square_pair_e4m3 34138 fp8_reduction_vector_square_pair_e5m2 \
            39770 fp8_rows_square_vector_e4m3 45398 fp8_rows_square_vector_e5m2 51002 \
            fp8_rows_square_vector_pair_e4m3 56608 fp8_rows_square_vector_pair_e5m2 62419 \
            fp8_rows_vector_vector_e4m3 68246 fp8_rows_vector_vector_e5m2 73928 \
            fp8_rows_vector_vector_pair_e4m3 79612 fp8_rows_vector_vector_pair_e5m2 85501 \
            fp8_reduction_tensor_e4m3 516 fp8_reduction_tensor_e5m2 3747 \
            fp8_reduction_tensor_pair_e4m3 9584 fp8_reduction_tensor_pair_e5m2 12883 \
            fp8_rows_tensor_e4m3 13574 fp8_rows_tensor_e5m2 16817 fp8_rows_tensor_pair_e4m3 22667 \
            fp8_rows_tensor_pair_e5m2 25978",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5489 fp8_reduction_vector_vector_e5m2 11145 \
            fp8_reduction_vector_vector_pair_e4m3 16837 fp8_reduction_vector_vector_pair_e5m2 \
            22700 fp8_rows_vector_square_e4m3 28306 fp8_rows_vector_square_e5m2 33741 \
            fp8_rows_vector_square_pair_e4m3 39212 fp8_rows_vector_square_pair_e5m2 44854 \
            fp8_reduction_square_vector_e4m3 5415 fp8_reduction_square_vector_e5m2 10997 \
            fp8_reduction_square_vector_pair_e4m3 16615 fp8_reduction_square_vector_pair_e5m2 \
            22404 fp8_reduction_vector_square_e4m3 28000 fp8_reduction_vector_square_e5m2 33425 \
            fp8_reduction_vector_square_pair_e4m3 38886 fp8_reduction_vector_square_pair_e5m2 \
            44518 fp8_rows_square_vector_e4m3 50293 fp8_rows_square_vector_e5m2 55897 \
            fp8_rows_square_vector_pair_e4m3 61537 fp8_rows_square_vector_pair_e5m2 67348 \
            fp8_rows_vector_vector_e4m3 73201 fp8_rows_vector_vector_e5m2 78883 \
            fp8_rows_vector_vector_pair_e4m3 84601 fp8_rows_vector_vector_pair_e5m2 90490 \
            fp8_reduction_tensor_e4m3 3048 fp8_reduction_tensor_e5m2 6279 \
            fp8_reduction_tensor_pair_e4m3 9756 fp8_reduction_tensor_pair_e5m2 13055 \
            fp8_rows_tensor_e4m3 16120 fp8_rows_tensor_e5m2 19363 fp8_rows_tensor_pair_e4m3 22852 \
            fp8_rows_tensor_pair_e5m2 26163",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 3161 fp8_reduction_tensor_e5m2 6392 \
            fp8_reduction_tensor_pair_e4m3 6762 fp8_reduction_tensor_pair_e5m2 10061 \
            fp8_rows_tensor_e4m3 16233 fp8_rows_tensor_e5m2 19476 fp8_rows_tensor_pair_e4m3 19845 \
            fp8_rows_tensor_pair_e5m2 23156",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2925 fp8_reduction_tensor_e5m2 6156 \
            fp8_reduction_tensor_pair_e4m3 9216 fp8_reduction_tensor_pair_e5m2 12515 \
            fp8_rows_tensor_e4m3 15997 fp8_rows_tensor_e5m2 19240 fp8_rows_tensor_pair_e4m3 22300 \
            fp8_rows_tensor_pair_e5m2 25611",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 3975 4178 4374 4574 4769 4969 5164 5358 \
            fp8_reduction_vector_vector_e5m2 9631 9834 10030 10230 10425 10625 10820 11014 \
            fp8_reduction_vector_vector_pair_e4m3 15293 15496 15692 15892 16087 16287 16482 16676 \
            fp8_reduction_vector_vector_pair_e5m2 21156 21359 21555 21755 21950 22150 22345 22539 \
            fp8_reduction_square_vector_e4m3 3901 4104 4300 4500 4695 4895 5090 5284 \
            fp8_reduction_square_vector_e5m2 9483 9686 9882 10082 10277 10477 10672 10866 \
            fp8_reduction_square_vector_pair_e4m3 15071 15274 15470 15670 15865 16065 16260 16454 \
            fp8_reduction_square_vector_pair_e5m2 20860 21063 21259 21459 21654 21854 22049 22243 \
            fp8_reduction_vector_square_e4m3 26486 26689 26885 27085 27280 27480 27675 27869 \
            fp8_reduction_vector_square_e5m2 31911 32114 32310 32510 32705 32905 33100 33294 \
            fp8_reduction_vector_square_pair_e4m3 37342 37545 37741 37941 38136 38336 38531 38725 \
            fp8_reduction_vector_square_pair_e5m2 42974 43177 43373 43573 43768 43968 44163 44357 \
            fp8_reduction_tensor_e4m3 2711 2898 fp8_reduction_tensor_e5m2 5942 6129 \
            fp8_reduction_tensor_pair_e4m3 9002 9189 fp8_reduction_tensor_pair_e5m2 12301 12488",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 3950 4153 4349 4549 4744 4944 5139 5333 \
            fp8_reduction_vector_vector_e5m2 9606 9809 10005 10205 10400 10600 10795 10989 \
            fp8_reduction_vector_vector_pair_e4m3 15268 15471 15667 15867 16062 16262 16457 16651 \
            fp8_reduction_vector_vector_pair_e5m2 21131 21334 21530 21730 21925 22125 22320 22514 \
            fp8_rows_vector_square_e4m3 26767 26970 27166 27366 27561 27761 27956 28150 \
            fp8_rows_vector_square_e5m2 32202 32405 32601 32801 32996 33196 33391 33585 \
            fp8_rows_vector_square_pair_e4m3 37643 37846 38042 38242 38437 38637 38832 39026 \
            fp8_rows_vector_square_pair_e5m2 43285 43488 43684 43884 44079 44279 44474 44668 \
            fp8_reduction_square_vector_e4m3 3876 4079 4275 4475 4670 4870 5065 5259 \
            fp8_reduction_square_vector_e5m2 9458 9661 9857 10057 10252 10452 10647 10841 \
            fp8_reduction_square_vector_pair_e4m3 15046 15249 15445 15645 15840 16040 16235 16429 \
            fp8_reduction_square_vector_pair_e5m2 20835 21038 21234 21434 21629 21829 22024 22218 \
            fp8_reduction_vector_square_e4m3 26461 26664 26860 27060 27255 27455 27650 27844 \
            fp8_reduction_vector_square_e5m2 31886 32089 32285 32485 32680 32880 33075 33269 \
            fp8_reduction_vector_square_pair_e4m3 37317 37520 37716 37916 38111 38311 38506 38700 \
            fp8_reduction_vector_square_pair_e5m2 42949 43152 43348 43548 43743 43943 44138 44332 \
            fp8_rows_square_vector_e4m3 48754 48957 49153 49353 49548 49748 49943 50137 \
            fp8_rows_square_vector_e5m2 54358 54561 54757 54957 55152 55352 55547 55741 \
            fp8_rows_square_vector_pair_e4m3 59968 60171 60367 60567 60762 60962 61157 61351 \
            fp8_rows_square_vector_pair_e5m2 65779 65982 66178 66378 66573 66773 66968 67162 \
            fp8_rows_vector_vector_e4m3 71662 71865 72061 72261 72456 72656 72851 73045 \
            fp8_rows_vector_vector_e5m2 77344 77547 77743 77943 78138 78338 78533 78727 \
            fp8_rows_vector_vector_pair_e4m3 83032 83235 83431 83631 83826 84026 84221 84415 \
            fp8_rows_vector_vector_pair_e5m2 88921 89124 89320 89520 89715 89915 90110 90304",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            fp8_reduction_tensor_e4m3 1031 1035 fp8_reduction_tensor_e5m2 4262 4266 \
            fp8_reduction_tensor_pair_e4m3 7322 7326 fp8_reduction_tensor_pair_e5m2 10621 10625 \
            fp8_rows_tensor_e4m3 14103 14107 fp8_rows_tensor_e5m2 17346 17350 \
            fp8_rows_tensor_pair_e4m3 20406 20410 fp8_rows_tensor_pair_e5m2 23717 23721",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless work, the same result",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4008 4406 4801 fp8_reduction_vector_vector_e5m2 9664 \
            10062 10457 fp8_reduction_vector_vector_pair_e4m3 15326 15724 16119 \
            fp8_reduction_vector_vector_pair_e5m2 21189 21587 21982 fp8_rows_vector_square_e4m3 \
            26825 27223 27618 fp8_rows_vector_square_e5m2 32260 32658 33053 \
            fp8_rows_vector_square_pair_e4m3 37701 38099 38494 fp8_rows_vector_square_pair_e5m2 \
            43343 43741 44136 fp8_reduction_square_vector_e4m3 3934 4332 4727 \
            fp8_reduction_square_vector_e5m2 9516 9914 10309 fp8_reduction_square_vector_pair_e4m3 \
            15104 15502 15897 fp8_reduction_square_vector_pair_e5m2 20893 21291 21686 \
            fp8_reduction_vector_square_e4m3 26519 26917 27312 fp8_reduction_vector_square_e5m2 \
            31944 32342 32737 fp8_reduction_vector_square_pair_e4m3 37375 37773 38168 \
            fp8_reduction_vector_square_pair_e5m2 43007 43405 43800 fp8_rows_square_vector_e4m3 \
            48812 49210 49605 fp8_rows_square_vector_e5m2 54416 54814 55209 \
            fp8_rows_square_vector_pair_e4m3 60026 60424 60819 fp8_rows_square_vector_pair_e5m2 \
            65837 66235 66630 fp8_rows_vector_vector_e4m3 71720 72118 72513 \
            fp8_rows_vector_vector_e5m2 77402 77800 78195 fp8_rows_vector_vector_pair_e4m3 83090 \
            83488 83883 fp8_rows_vector_vector_pair_e5m2 88979 89377 89772",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless work, the same result",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4220 4615 5010 fp8_reduction_vector_vector_e5m2 9876 \
            10271 10666 fp8_reduction_vector_vector_pair_e4m3 15538 15933 16328 \
            fp8_reduction_vector_vector_pair_e5m2 21401 21796 22191 fp8_rows_vector_square_e4m3 \
            27037 27432 27827 fp8_rows_vector_square_e5m2 32472 32867 33262 \
            fp8_rows_vector_square_pair_e4m3 37913 38308 38703 fp8_rows_vector_square_pair_e5m2 \
            43555 43950 44345 fp8_reduction_square_vector_e4m3 4146 4541 4936 \
            fp8_reduction_square_vector_e5m2 9728 10123 10518 \
            fp8_reduction_square_vector_pair_e4m3 15316 15711 16106 \
            fp8_reduction_square_vector_pair_e5m2 21105 21500 21895 \
            fp8_reduction_vector_square_e4m3 26731 27126 27521 fp8_reduction_vector_square_e5m2 \
            32156 32551 32946 fp8_reduction_vector_square_pair_e4m3 37587 37982 38377 \
            fp8_reduction_vector_square_pair_e5m2 43219 43614 44009 fp8_rows_square_vector_e4m3 \
            49024 49419 49814 fp8_rows_square_vector_e5m2 54628 55023 55418 \
            fp8_rows_square_vector_pair_e4m3 60238 60633 61028 fp8_rows_square_vector_pair_e5m2 \
            66049 66444 66839 fp8_rows_vector_vector_e4m3 71932 72327 72722 \
            fp8_rows_vector_vector_e5m2 77614 78009 78404 fp8_rows_vector_vector_pair_e4m3 83302 \
            83697 84092 fp8_rows_vector_vector_pair_e5m2 89191 89586 89981",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5196 fp8_reduction_vector_vector_e5m2 10852 \
            fp8_reduction_vector_vector_pair_e4m3 16514 fp8_reduction_vector_vector_pair_e5m2 \
            22377 fp8_rows_vector_square_e4m3 28013 fp8_rows_vector_square_e5m2 33448 \
            fp8_rows_vector_square_pair_e4m3 38889 fp8_rows_vector_square_pair_e5m2 44531 \
            fp8_reduction_square_vector_e4m3 5122 fp8_reduction_square_vector_e5m2 10704 \
            fp8_reduction_square_vector_pair_e4m3 16292 fp8_reduction_square_vector_pair_e5m2 \
            22081 fp8_reduction_vector_square_e4m3 27707 fp8_reduction_vector_square_e5m2 33132 \
            fp8_reduction_vector_square_pair_e4m3 38563 fp8_reduction_vector_square_pair_e5m2 \
            44195 fp8_rows_square_vector_e4m3 50000 fp8_rows_square_vector_e5m2 55604 \
            fp8_rows_square_vector_pair_e4m3 61214 fp8_rows_square_vector_pair_e5m2 67025 \
            fp8_rows_vector_vector_e4m3 72908 fp8_rows_vector_vector_e5m2 78590 \
            fp8_rows_vector_vector_pair_e4m3 84278 fp8_rows_vector_vector_pair_e5m2 90167 \
            fp8_reduction_tensor_e4m3 2744 fp8_reduction_tensor_e5m2 5975 \
            fp8_reduction_tensor_pair_e4m3 9035 fp8_reduction_tensor_pair_e5m2 12334",
    },
    Places {
        reason: "the products of the stage are waited for next, and who issued them has waited for the stage: its scales have come, too",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1131 fp8_reduction_square_vector_e5m2 6713 \
            fp8_reduction_square_vector_pair_e4m3 12297 fp8_reduction_square_vector_pair_e5m2 \
            18086 fp8_rows_square_vector_e4m3 45999 fp8_rows_square_vector_e5m2 51603 \
            fp8_rows_square_vector_pair_e4m3 57209 fp8_rows_square_vector_pair_e5m2 63020",
    },
    Places {
        reason: "before the first three boxes of a tile the copy engine has read all others",
        damages: &[
            "`cp.async.bulk.wait_group.read` with 0x3 for 0x2",
            "without `cp.async.bulk.wait_group.read`",
        ],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1913 4014 4215 fp8_reduction_vector_vector_e5m2 7569 \
            9670 9871 fp8_reduction_vector_vector_pair_e4m3 13231 15332 15533 \
            fp8_reduction_vector_vector_pair_e5m2 19094 21195 21396 fp8_rows_vector_square_e4m3 \
            24730 26831 27032 fp8_rows_vector_square_e5m2 30165 32266 32467 \
            fp8_rows_vector_square_pair_e4m3 35606 37707 37908 fp8_rows_vector_square_pair_e5m2 \
            41248 43349 43550 fp8_reduction_square_vector_e4m3 1839 3940 4141 \
            fp8_reduction_square_vector_e5m2 7421 9522 9723 fp8_reduction_square_vector_pair_e4m3 \
            13009 15110 15311 fp8_reduction_square_vector_pair_e5m2 18798 20899 21100 \
            fp8_reduction_vector_square_e4m3 24424 26525 26726 fp8_reduction_vector_square_e5m2 \
            29849 31950 32151 fp8_reduction_vector_square_pair_e4m3 35280 37381 37582 \
            fp8_reduction_vector_square_pair_e5m2 40912 43013 43214 fp8_rows_square_vector_e4m3 \
            46717 48818 49019 fp8_rows_square_vector_e5m2 52321 54422 54623 \
            fp8_rows_square_vector_pair_e4m3 57931 60032 60233 fp8_rows_square_vector_pair_e5m2 \
            63742 65843 66044 fp8_rows_vector_vector_e4m3 69625 71726 71927 \
            fp8_rows_vector_vector_e5m2 75307 77408 77609 fp8_rows_vector_vector_pair_e4m3 80995 \
            83096 83297 fp8_rows_vector_vector_pair_e5m2 86884 88985 89186",
    },
    Places {
        reason: "no copy of the tile reads the box yet, and the barrier of its first box has told the warp that none of the last tile's does",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4017 4218 fp8_reduction_vector_vector_e5m2 9673 9874 \
            fp8_reduction_vector_vector_pair_e4m3 15335 15536 \
            fp8_reduction_vector_vector_pair_e5m2 21198 21399 fp8_rows_vector_square_e4m3 26834 \
            27035 fp8_rows_vector_square_e5m2 32269 32470 fp8_rows_vector_square_pair_e4m3 37710 \
            37911 fp8_rows_vector_square_pair_e5m2 43352 43553 fp8_reduction_square_vector_e4m3 \
            3943 4144 fp8_reduction_square_vector_e5m2 9525 9726 \
            fp8_reduction_square_vector_pair_e4m3 15113 15314 \
            fp8_reduction_square_vector_pair_e5m2 20902 21103 fp8_reduction_vector_square_e4m3 \
            26528 26729 fp8_reduction_vector_square_e5m2 31953 32154 \
            fp8_reduction_vector_square_pair_e4m3 37384 37585 \
            fp8_reduction_vector_square_pair_e5m2 43016 43217 fp8_rows_square_vector_e4m3 48821 \
            49022 fp8_rows_square_vector_e5m2 54425 54626 fp8_rows_square_vector_pair_e4m3 60035 \
            60236 fp8_rows_square_vector_pair_e5m2 65846 66047 fp8_rows_vector_vector_e4m3 71729 \
            71930 fp8_rows_vector_vector_e5m2 77411 77612 fp8_rows_vector_vector_pair_e4m3 83099 \
            83300 fp8_rows_vector_vector_pair_e5m2 88988 89189",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5437 5452 5467 5482 fp8_reduction_vector_vector_e5m2 \
            11093 11108 11123 11138 fp8_reduction_vector_vector_pair_e4m3 16755 16770 16785 16800 \
            16815 16830 fp8_reduction_vector_vector_pair_e5m2 22618 22633 22648 22663 22678 22693 \
            fp8_rows_vector_square_e4m3 28254 28269 28284 28299 fp8_rows_vector_square_e5m2 33689 \
            33704 33719 33734 fp8_rows_vector_square_pair_e4m3 39130 39145 39160 39175 39190 39205 \
            fp8_rows_vector_square_pair_e5m2 44772 44787 44802 44817 44832 44847 \
            fp8_reduction_square_vector_e4m3 5363 5378 5393 5408 fp8_reduction_square_vector_e5m2 \
            10945 10960 10975 10990 fp8_reduction_square_vector_pair_e4m3 16533 16548 16563 16578 \
            16593 16608 fp8_reduction_square_vector_pair_e5m2 22322 22337 22352 22367 22382 22397 \
            fp8_reduction_vector_square_e4m3 27948 27963 27978 27993 \
            fp8_reduction_vector_square_e5m2 33373 33388 33403 33418 \
            fp8_reduction_vector_square_pair_e4m3 38804 38819 38834 38849 38864 38879 \
            fp8_reduction_vector_square_pair_e5m2 44436 44451 44466 44481 44496 44511 \
            fp8_rows_square_vector_e4m3 50241 50256 50271 50286 fp8_rows_square_vector_e5m2 55845 \
            55860 55875 55890 fp8_rows_square_vector_pair_e4m3 61455 61470 61485 61500 61515 61530 \
            fp8_rows_square_vector_pair_e5m2 67266 67281 67296 67311 67326 67341 \
            fp8_rows_vector_vector_e4m3 73149 73164 73179 73194 fp8_rows_vector_vector_e5m2 78831 \
            78846 78861 78876 fp8_rows_vector_vector_pair_e4m3 84519 84534 84549 84564 84579 84594 \
            fp8_rows_vector_vector_pair_e5m2 90408 90423 90438 90453 90468 90483 \
            fp8_reduction_tensor_e4m3 2996 3011 3026 3041 fp8_reduction_tensor_e5m2 6227 6242 6257 \
            6272 fp8_reduction_tensor_pair_e4m3 9674 9689 9704 9719 9734 9749 \
            fp8_reduction_tensor_pair_e5m2 12973 12988 13003 13018 13033 13048 \
            fp8_rows_tensor_e4m3 16068 16083 16098 16113 fp8_rows_tensor_e5m2 19311 19326 19341 \
            19356 fp8_rows_tensor_pair_e4m3 22770 22785 22800 22815 22830 22845 \
            fp8_rows_tensor_pair_e5m2 26081 26096 26111 26126 26141 26156",
    },
];
