//! The same of FP8 operands.

use crate::survivors_blackwell::Places;

/// All of them.
pub const FP8_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 151 fp8_reduction_vector_vector_e5m2 5813 \
            fp8_rows_vector_square_e4m3 23299 fp8_rows_vector_square_e5m2 28740 \
            fp8_reduction_square_vector_e4m3 147 fp8_reduction_square_vector_e5m2 5735 \
            fp8_reduction_vector_square_e4m3 23003 fp8_reduction_vector_square_e5m2 28434 \
            fp8_rows_square_vector_e4m3 45231 fp8_rows_square_vector_e5m2 50841 \
            fp8_rows_vector_vector_e4m3 68179 fp8_rows_vector_vector_e5m2 73867 \
            fp8_reduction_tensor_e4m3 150 fp8_reduction_tensor_e5m2 3380 fp8_rows_tensor_e4m3 \
            13241 fp8_rows_tensor_e5m2 16483",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 11519 fp8_reduction_vector_vector_pair_e5m2 \
            17433 fp8_rows_vector_square_pair_e4m3 34225 fp8_rows_vector_square_pair_e5m2 39918 \
            fp8_reduction_square_vector_pair_e4m3 11367 fp8_reduction_square_vector_pair_e5m2 \
            17207 fp8_reduction_vector_square_pair_e4m3 33909 \
            fp8_reduction_vector_square_pair_e5m2 39592 fp8_rows_square_vector_pair_e4m3 56495 \
            fp8_rows_square_vector_pair_e5m2 62357 fp8_rows_vector_vector_pair_e4m3 79599 \
            fp8_rows_vector_vector_pair_e5m2 85539 fp8_reduction_tensor_pair_e4m3 6631 \
            fp8_reduction_tensor_pair_e5m2 9947 fp8_rows_tensor_pair_e4m3 19746 \
            fp8_rows_tensor_pair_e5m2 23074",
    },
    Places {
        reason: "FP8 weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 360 fp8_reduction_vector_vector_e5m2 6022 \
            fp8_reduction_vector_vector_pair_e4m3 11735 fp8_reduction_vector_vector_pair_e5m2 \
            17649 fp8_rows_vector_square_e4m3 23504 fp8_rows_vector_square_e5m2 28945 \
            fp8_rows_vector_square_pair_e4m3 34437 fp8_rows_vector_square_pair_e5m2 40130 \
            fp8_reduction_square_vector_e4m3 355 fp8_reduction_square_vector_e5m2 5943 \
            fp8_reduction_square_vector_pair_e4m3 11582 fp8_reduction_square_vector_pair_e5m2 \
            17422 fp8_reduction_vector_square_e4m3 23211 fp8_reduction_vector_square_e5m2 28642 \
            fp8_reduction_vector_square_pair_e4m3 34124 fp8_reduction_vector_square_pair_e5m2 \
            39807 fp8_rows_square_vector_e4m3 45436 fp8_rows_square_vector_e5m2 51046 \
            fp8_rows_square_vector_pair_e4m3 56707 fp8_rows_square_vector_pair_e5m2 62569 \
            fp8_rows_vector_vector_e4m3 68385 fp8_rows_vector_vector_e5m2 74073 \
            fp8_rows_vector_vector_pair_e4m3 79812 fp8_rows_vector_vector_pair_e5m2 85752 \
            fp8_reduction_tensor_e4m3 342 fp8_reduction_tensor_e5m2 3572 \
            fp8_reduction_tensor_pair_e4m3 9411 fp8_reduction_tensor_pair_e5m2 12727 \
            fp8_rows_tensor_e4m3 13433 fp8_rows_tensor_e5m2 16675 fp8_rows_tensor_pair_e4m3 22527 \
            fp8_rows_tensor_pair_e5m2 25855",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 575 fp8_reduction_vector_vector_e5m2 6237 \
            fp8_reduction_vector_vector_pair_e4m3 11941 fp8_reduction_vector_vector_pair_e5m2 \
            17855 fp8_rows_vector_square_e4m3 23718 fp8_rows_vector_square_e5m2 29159 \
            fp8_rows_vector_square_pair_e4m3 34642 fp8_rows_vector_square_pair_e5m2 40335 \
            fp8_reduction_square_vector_e4m3 558 fp8_reduction_square_vector_e5m2 6146 \
            fp8_reduction_square_vector_pair_e4m3 11776 fp8_reduction_square_vector_pair_e5m2 \
            17616 fp8_reduction_vector_square_e4m3 23414 fp8_reduction_vector_square_e5m2 28845 \
            fp8_reduction_vector_square_pair_e4m3 34318 fp8_reduction_vector_square_pair_e5m2 \
            40001 fp8_rows_square_vector_e4m3 45653 fp8_rows_square_vector_e5m2 51263 \
            fp8_rows_square_vector_pair_e4m3 56915 fp8_rows_square_vector_pair_e5m2 62777 \
            fp8_rows_vector_vector_e4m3 68615 fp8_rows_vector_vector_e5m2 74303 \
            fp8_rows_vector_vector_pair_e4m3 80033 fp8_rows_vector_vector_pair_e5m2 85973 \
            fp8_reduction_tensor_e4m3 530 fp8_reduction_tensor_e5m2 3760 \
            fp8_reduction_tensor_pair_e4m3 9611 fp8_reduction_tensor_pair_e5m2 12927 \
            fp8_rows_tensor_e4m3 13633 fp8_rows_tensor_e5m2 16875 fp8_rows_tensor_pair_e4m3 22739 \
            fp8_rows_tensor_pair_e5m2 26067",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 577 fp8_reduction_vector_vector_e5m2 6239 \
            fp8_reduction_vector_vector_pair_e4m3 11943 fp8_reduction_vector_vector_pair_e5m2 \
            17857 fp8_rows_vector_square_e4m3 23720 fp8_rows_vector_square_e5m2 29161 \
            fp8_rows_vector_square_pair_e4m3 34644 fp8_rows_vector_square_pair_e5m2 40337 \
            fp8_reduction_square_vector_e4m3 560 fp8_reduction_square_vector_e5m2 6148 \
            fp8_reduction_square_vector_pair_e4m3 11778 fp8_reduction_square_vector_pair_e5m2 \
            17618 fp8_reduction_vector_square_e4m3 23416 fp8_reduction_vector_square_e5m2 28847 \
            fp8_reduction_vector_square_pair_e4m3 34320 fp8_reduction_vector_square_pair_e5m2 \
            40003 fp8_rows_square_vector_e4m3 45655 fp8_rows_square_vector_e5m2 51265 \
            fp8_rows_square_vector_pair_e4m3 56917 fp8_rows_square_vector_pair_e5m2 62779 \
            fp8_rows_vector_vector_e4m3 68617 fp8_rows_vector_vector_e5m2 74305 \
            fp8_rows_vector_vector_pair_e4m3 80035 fp8_rows_vector_vector_pair_e5m2 85975 \
            fp8_reduction_tensor_e4m3 532 fp8_reduction_tensor_e5m2 3762 \
            fp8_reduction_tensor_pair_e4m3 9613 fp8_reduction_tensor_pair_e5m2 12929 \
            fp8_rows_tensor_e4m3 13635 fp8_rows_tensor_e5m2 16877 fp8_rows_tensor_pair_e4m3 22741 \
            fp8_rows_tensor_pair_e5m2 26069",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 580 fp8_reduction_vector_vector_e5m2 6242 \
            fp8_reduction_vector_vector_pair_e4m3 11946 fp8_reduction_vector_vector_pair_e5m2 \
            17860 fp8_rows_vector_square_e4m3 23723 fp8_rows_vector_square_e5m2 29164 \
            fp8_rows_vector_square_pair_e4m3 34647 fp8_rows_vector_square_pair_e5m2 40340 \
            fp8_reduction_square_vector_e4m3 563 fp8_reduction_square_vector_e5m2 6151 \
            fp8_reduction_square_vector_pair_e4m3 11781 fp8_reduction_square_vector_pair_e5m2 \
            17621 fp8_reduction_vector_square_e4m3 23419 fp8_reduction_vector_square_e5m2 28850 \
            fp8_reduction_vector_square_pair_e4m3 34323 fp8_reduction_vector_square_pair_e5m2 \
            40006 fp8_rows_square_vector_e4m3 45658 fp8_rows_square_vector_e5m2 51268 \
            fp8_rows_square_vector_pair_e4m3 56920 fp8_rows_square_vector_pair_e5m2 62782 \
            fp8_rows_vector_vector_e4m3 68620 fp8_rows_vector_vector_e5m2 74308 \
            fp8_rows_vector_vector_pair_e4m3 80038 fp8_rows_vector_vector_pair_e5m2 85978 \
            fp8_reduction_tensor_e4m3 535 fp8_reduction_tensor_e5m2 3765 \
            fp8_reduction_tensor_pair_e4m3 9616 fp8_reduction_tensor_pair_e5m2 12932 \
            fp8_rows_tensor_e4m3 13638 fp8_rows_tensor_e5m2 16880 fp8_rows_tensor_pair_e4m3 22744 \
            fp8_rows_tensor_pair_e5m2 26072",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 560 fp8_reduction_vector_vector_e5m2 6222 \
            fp8_reduction_vector_vector_pair_e4m3 11926 fp8_reduction_vector_vector_pair_e5m2 \
            17840 fp8_rows_vector_square_e4m3 23690 fp8_rows_vector_square_e5m2 29131 \
            fp8_rows_vector_square_pair_e4m3 34614 fp8_rows_vector_square_pair_e5m2 40307 \
            fp8_reduction_square_vector_e4m3 543 fp8_reduction_square_vector_e5m2 6131 \
            fp8_reduction_square_vector_pair_e4m3 11761 fp8_reduction_square_vector_pair_e5m2 \
            17601 fp8_reduction_vector_square_e4m3 23399 fp8_reduction_vector_square_e5m2 28830 \
            fp8_reduction_vector_square_pair_e4m3 34303 fp8_reduction_vector_square_pair_e5m2 \
            39986 fp8_rows_square_vector_e4m3 45625 fp8_rows_square_vector_e5m2 51235 \
            fp8_rows_square_vector_pair_e4m3 56887 fp8_rows_square_vector_pair_e5m2 62749 \
            fp8_rows_vector_vector_e4m3 68587 fp8_rows_vector_vector_e5m2 74275 \
            fp8_rows_vector_vector_pair_e4m3 80005 fp8_rows_vector_vector_pair_e5m2 85945 \
            fp8_reduction_tensor_e4m3 515 fp8_reduction_tensor_e5m2 3745 \
            fp8_reduction_tensor_pair_e4m3 9596 fp8_reduction_tensor_pair_e5m2 12912 \
            fp8_rows_tensor_e4m3 13605 fp8_rows_tensor_e5m2 16847 fp8_rows_tensor_pair_e4m3 22711 \
            fp8_rows_tensor_pair_e5m2 26039",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5491 fp8_reduction_vector_vector_e5m2 11153 \
            fp8_reduction_vector_vector_pair_e4m3 16891 fp8_reduction_vector_vector_pair_e5m2 \
            22805 fp8_rows_vector_square_e4m3 28422 fp8_rows_vector_square_e5m2 33863 \
            fp8_rows_vector_square_pair_e4m3 39380 fp8_rows_vector_square_pair_e5m2 45073 \
            fp8_reduction_square_vector_e4m3 5417 fp8_reduction_square_vector_e5m2 11005 \
            fp8_reduction_square_vector_pair_e4m3 16669 fp8_reduction_square_vector_pair_e5m2 \
            22509 fp8_reduction_vector_square_e4m3 28116 fp8_reduction_vector_square_e5m2 33547 \
            fp8_reduction_vector_square_pair_e4m3 39054 fp8_reduction_vector_square_pair_e5m2 \
            44737 fp8_rows_square_vector_e4m3 50523 fp8_rows_square_vector_e5m2 56133 \
            fp8_rows_square_vector_pair_e4m3 61819 fp8_rows_square_vector_pair_e5m2 67681 \
            fp8_rows_vector_vector_e4m3 73545 fp8_rows_vector_vector_e5m2 79233 \
            fp8_rows_vector_vector_pair_e4m3 84997 fp8_rows_vector_vector_pair_e5m2 90937 \
            fp8_reduction_tensor_e4m3 3050 fp8_reduction_tensor_e5m2 6280 \
            fp8_reduction_tensor_pair_e4m3 9771 fp8_reduction_tensor_pair_e5m2 13087 \
            fp8_rows_tensor_e4m3 16154 fp8_rows_tensor_e5m2 19396 fp8_rows_tensor_pair_e4m3 22899 \
            fp8_rows_tensor_pair_e5m2 26227",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 3170 fp8_reduction_tensor_e5m2 6400 \
            fp8_reduction_tensor_pair_e4m3 6781 fp8_reduction_tensor_pair_e5m2 10097 \
            fp8_rows_tensor_e4m3 16274 fp8_rows_tensor_e5m2 19516 fp8_rows_tensor_pair_e4m3 19896 \
            fp8_rows_tensor_pair_e5m2 23224",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2927 fp8_reduction_tensor_e5m2 6157 \
            fp8_reduction_tensor_pair_e4m3 9226 fp8_reduction_tensor_pair_e5m2 12542 \
            fp8_rows_tensor_e4m3 16031 fp8_rows_tensor_e5m2 19273 fp8_rows_tensor_pair_e4m3 22342 \
            fp8_rows_tensor_pair_e5m2 25670",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 3977 4180 4376 4576 4771 4971 5166 5360 \
            fp8_reduction_vector_vector_e5m2 9639 9842 10038 10238 10433 10633 10828 11022 \
            fp8_reduction_vector_vector_pair_e4m3 15347 15550 15746 15946 16141 16341 16536 16730 \
            fp8_reduction_vector_vector_pair_e5m2 21261 21464 21660 21860 22055 22255 22450 22644 \
            fp8_reduction_square_vector_e4m3 3903 4106 4302 4502 4697 4897 5092 5286 \
            fp8_reduction_square_vector_e5m2 9491 9694 9890 10090 10285 10485 10680 10874 \
            fp8_reduction_square_vector_pair_e4m3 15125 15328 15524 15724 15919 16119 16314 16508 \
            fp8_reduction_square_vector_pair_e5m2 20965 21168 21364 21564 21759 21959 22154 22348 \
            fp8_reduction_vector_square_e4m3 26602 26805 27001 27201 27396 27596 27791 27985 \
            fp8_reduction_vector_square_e5m2 32033 32236 32432 32632 32827 33027 33222 33416 \
            fp8_reduction_vector_square_pair_e4m3 37510 37713 37909 38109 38304 38504 38699 38893 \
            fp8_reduction_vector_square_pair_e5m2 43193 43396 43592 43792 43987 44187 44382 44576 \
            fp8_reduction_tensor_e4m3 2713 2900 fp8_reduction_tensor_e5m2 5943 6130 \
            fp8_reduction_tensor_pair_e4m3 9012 9199 fp8_reduction_tensor_pair_e5m2 12328 12515",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 3952 4155 4351 4551 4746 4946 5141 5335 \
            fp8_reduction_vector_vector_e5m2 9614 9817 10013 10213 10408 10608 10803 10997 \
            fp8_reduction_vector_vector_pair_e4m3 15322 15525 15721 15921 16116 16316 16511 16705 \
            fp8_reduction_vector_vector_pair_e5m2 21236 21439 21635 21835 22030 22230 22425 22619 \
            fp8_rows_vector_square_e4m3 26883 27086 27282 27482 27677 27877 28072 28266 \
            fp8_rows_vector_square_e5m2 32324 32527 32723 32923 33118 33318 33513 33707 \
            fp8_rows_vector_square_pair_e4m3 37811 38014 38210 38410 38605 38805 39000 39194 \
            fp8_rows_vector_square_pair_e5m2 43504 43707 43903 44103 44298 44498 44693 44887 \
            fp8_reduction_square_vector_e4m3 3878 4081 4277 4477 4672 4872 5067 5261 \
            fp8_reduction_square_vector_e5m2 9466 9669 9865 10065 10260 10460 10655 10849 \
            fp8_reduction_square_vector_pair_e4m3 15100 15303 15499 15699 15894 16094 16289 16483 \
            fp8_reduction_square_vector_pair_e5m2 20940 21143 21339 21539 21734 21934 22129 22323 \
            fp8_reduction_vector_square_e4m3 26577 26780 26976 27176 27371 27571 27766 27960 \
            fp8_reduction_vector_square_e5m2 32008 32211 32407 32607 32802 33002 33197 33391 \
            fp8_reduction_vector_square_pair_e4m3 37485 37688 37884 38084 38279 38479 38674 38868 \
            fp8_reduction_vector_square_pair_e5m2 43168 43371 43567 43767 43962 44162 44357 44551 \
            fp8_rows_square_vector_e4m3 48984 49187 49383 49583 49778 49978 50173 50367 \
            fp8_rows_square_vector_e5m2 54594 54797 54993 55193 55388 55588 55783 55977 \
            fp8_rows_square_vector_pair_e4m3 60250 60453 60649 60849 61044 61244 61439 61633 \
            fp8_rows_square_vector_pair_e5m2 66112 66315 66511 66711 66906 67106 67301 67495 \
            fp8_rows_vector_vector_e4m3 72006 72209 72405 72605 72800 73000 73195 73389 \
            fp8_rows_vector_vector_e5m2 77694 77897 78093 78293 78488 78688 78883 79077 \
            fp8_rows_vector_vector_pair_e4m3 83428 83631 83827 84027 84222 84422 84617 84811 \
            fp8_rows_vector_vector_pair_e5m2 89368 89571 89767 89967 90162 90362 90557 90751",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            fp8_reduction_tensor_e4m3 1033 1037 fp8_reduction_tensor_e5m2 4263 4267 \
            fp8_reduction_tensor_pair_e4m3 7332 7336 fp8_reduction_tensor_pair_e5m2 10648 10652 \
            fp8_rows_tensor_e4m3 14137 14141 fp8_rows_tensor_e5m2 17379 17383 \
            fp8_rows_tensor_pair_e4m3 20448 20452 fp8_rows_tensor_pair_e5m2 23776 23780",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless work, the same result",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4010 4408 4803 fp8_reduction_vector_vector_e5m2 9672 \
            10070 10465 fp8_reduction_vector_vector_pair_e4m3 15380 15778 16173 \
            fp8_reduction_vector_vector_pair_e5m2 21294 21692 22087 fp8_rows_vector_square_e4m3 \
            26941 27339 27734 fp8_rows_vector_square_e5m2 32382 32780 33175 \
            fp8_rows_vector_square_pair_e4m3 37869 38267 38662 fp8_rows_vector_square_pair_e5m2 \
            43562 43960 44355 fp8_reduction_square_vector_e4m3 3936 4334 4729 \
            fp8_reduction_square_vector_e5m2 9524 9922 10317 fp8_reduction_square_vector_pair_e4m3 \
            15158 15556 15951 fp8_reduction_square_vector_pair_e5m2 20998 21396 21791 \
            fp8_reduction_vector_square_e4m3 26635 27033 27428 fp8_reduction_vector_square_e5m2 \
            32066 32464 32859 fp8_reduction_vector_square_pair_e4m3 37543 37941 38336 \
            fp8_reduction_vector_square_pair_e5m2 43226 43624 44019 fp8_rows_square_vector_e4m3 \
            49042 49440 49835 fp8_rows_square_vector_e5m2 54652 55050 55445 \
            fp8_rows_square_vector_pair_e4m3 60308 60706 61101 fp8_rows_square_vector_pair_e5m2 \
            66170 66568 66963 fp8_rows_vector_vector_e4m3 72064 72462 72857 \
            fp8_rows_vector_vector_e5m2 77752 78150 78545 fp8_rows_vector_vector_pair_e4m3 83486 \
            83884 84279 fp8_rows_vector_vector_pair_e5m2 89426 89824 90219",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless work, the same result",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4222 4617 5012 fp8_reduction_vector_vector_e5m2 9884 \
            10279 10674 fp8_reduction_vector_vector_pair_e4m3 15592 15987 16382 \
            fp8_reduction_vector_vector_pair_e5m2 21506 21901 22296 fp8_rows_vector_square_e4m3 \
            27153 27548 27943 fp8_rows_vector_square_e5m2 32594 32989 33384 \
            fp8_rows_vector_square_pair_e4m3 38081 38476 38871 fp8_rows_vector_square_pair_e5m2 \
            43774 44169 44564 fp8_reduction_square_vector_e4m3 4148 4543 4938 \
            fp8_reduction_square_vector_e5m2 9736 10131 10526 \
            fp8_reduction_square_vector_pair_e4m3 15370 15765 16160 \
            fp8_reduction_square_vector_pair_e5m2 21210 21605 22000 \
            fp8_reduction_vector_square_e4m3 26847 27242 27637 fp8_reduction_vector_square_e5m2 \
            32278 32673 33068 fp8_reduction_vector_square_pair_e4m3 37755 38150 38545 \
            fp8_reduction_vector_square_pair_e5m2 43438 43833 44228 fp8_rows_square_vector_e4m3 \
            49254 49649 50044 fp8_rows_square_vector_e5m2 54864 55259 55654 \
            fp8_rows_square_vector_pair_e4m3 60520 60915 61310 fp8_rows_square_vector_pair_e5m2 \
            66382 66777 67172 fp8_rows_vector_vector_e4m3 72276 72671 73066 \
            fp8_rows_vector_vector_e5m2 77964 78359 78754 fp8_rows_vector_vector_pair_e4m3 83698 \
            84093 84488 fp8_rows_vector_vector_pair_e5m2 89638 90033 90428",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5198 fp8_reduction_vector_vector_e5m2 10860 \
            fp8_reduction_vector_vector_pair_e4m3 16568 fp8_reduction_vector_vector_pair_e5m2 \
            22482 fp8_rows_vector_square_e4m3 28129 fp8_rows_vector_square_e5m2 33570 \
            fp8_rows_vector_square_pair_e4m3 39057 fp8_rows_vector_square_pair_e5m2 44750 \
            fp8_reduction_square_vector_e4m3 5124 fp8_reduction_square_vector_e5m2 10712 \
            fp8_reduction_square_vector_pair_e4m3 16346 fp8_reduction_square_vector_pair_e5m2 \
            22186 fp8_reduction_vector_square_e4m3 27823 fp8_reduction_vector_square_e5m2 33254 \
            fp8_reduction_vector_square_pair_e4m3 38731 fp8_reduction_vector_square_pair_e5m2 \
            44414 fp8_rows_square_vector_e4m3 50230 fp8_rows_square_vector_e5m2 55840 \
            fp8_rows_square_vector_pair_e4m3 61496 fp8_rows_square_vector_pair_e5m2 67358 \
            fp8_rows_vector_vector_e4m3 73252 fp8_rows_vector_vector_e5m2 78940 \
            fp8_rows_vector_vector_pair_e4m3 84674 fp8_rows_vector_vector_pair_e5m2 90614 \
            fp8_reduction_tensor_e4m3 2746 fp8_reduction_tensor_e5m2 5976 \
            fp8_reduction_tensor_pair_e4m3 9045 fp8_reduction_tensor_pair_e5m2 12361",
    },
    Places {
        reason: "the products of the stage are waited for next, and who issued them has waited for the stage: its scales have come, too",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1133 fp8_reduction_square_vector_e5m2 6721 \
            fp8_reduction_square_vector_pair_e4m3 12351 fp8_reduction_square_vector_pair_e5m2 \
            18191 fp8_rows_square_vector_e4m3 46229 fp8_rows_square_vector_e5m2 51839 \
            fp8_rows_square_vector_pair_e4m3 57491 fp8_rows_square_vector_pair_e5m2 63353",
    },
    Places {
        reason: "before the first three boxes of a tile the copy engine has read all others",
        damages: &[
            "`cp.async.bulk.wait_group.read` with 0x3 for 0x2",
            "without `cp.async.bulk.wait_group.read`",
        ],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1915 4016 4217 fp8_reduction_vector_vector_e5m2 7577 \
            9678 9879 fp8_reduction_vector_vector_pair_e4m3 13285 15386 15587 \
            fp8_reduction_vector_vector_pair_e5m2 19199 21300 21501 fp8_rows_vector_square_e4m3 \
            24846 26947 27148 fp8_rows_vector_square_e5m2 30287 32388 32589 \
            fp8_rows_vector_square_pair_e4m3 35774 37875 38076 fp8_rows_vector_square_pair_e5m2 \
            41467 43568 43769 fp8_reduction_square_vector_e4m3 1841 3942 4143 \
            fp8_reduction_square_vector_e5m2 7429 9530 9731 fp8_reduction_square_vector_pair_e4m3 \
            13063 15164 15365 fp8_reduction_square_vector_pair_e5m2 18903 21004 21205 \
            fp8_reduction_vector_square_e4m3 24540 26641 26842 fp8_reduction_vector_square_e5m2 \
            29971 32072 32273 fp8_reduction_vector_square_pair_e4m3 35448 37549 37750 \
            fp8_reduction_vector_square_pair_e5m2 41131 43232 43433 fp8_rows_square_vector_e4m3 \
            46947 49048 49249 fp8_rows_square_vector_e5m2 52557 54658 54859 \
            fp8_rows_square_vector_pair_e4m3 58213 60314 60515 fp8_rows_square_vector_pair_e5m2 \
            64075 66176 66377 fp8_rows_vector_vector_e4m3 69969 72070 72271 \
            fp8_rows_vector_vector_e5m2 75657 77758 77959 fp8_rows_vector_vector_pair_e4m3 81391 \
            83492 83693 fp8_rows_vector_vector_pair_e5m2 87331 89432 89633",
    },
    Places {
        reason: "no copy of the tile reads the box yet, and the barrier of its first box has told the warp that none of the last tile's does",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4019 4220 fp8_reduction_vector_vector_e5m2 9681 9882 \
            fp8_reduction_vector_vector_pair_e4m3 15389 15590 \
            fp8_reduction_vector_vector_pair_e5m2 21303 21504 fp8_rows_vector_square_e4m3 26950 \
            27151 fp8_rows_vector_square_e5m2 32391 32592 fp8_rows_vector_square_pair_e4m3 37878 \
            38079 fp8_rows_vector_square_pair_e5m2 43571 43772 fp8_reduction_square_vector_e4m3 \
            3945 4146 fp8_reduction_square_vector_e5m2 9533 9734 \
            fp8_reduction_square_vector_pair_e4m3 15167 15368 \
            fp8_reduction_square_vector_pair_e5m2 21007 21208 fp8_reduction_vector_square_e4m3 \
            26644 26845 fp8_reduction_vector_square_e5m2 32075 32276 \
            fp8_reduction_vector_square_pair_e4m3 37552 37753 \
            fp8_reduction_vector_square_pair_e5m2 43235 43436 fp8_rows_square_vector_e4m3 49051 \
            49252 fp8_rows_square_vector_e5m2 54661 54862 fp8_rows_square_vector_pair_e4m3 60317 \
            60518 fp8_rows_square_vector_pair_e5m2 66179 66380 fp8_rows_vector_vector_e4m3 72073 \
            72274 fp8_rows_vector_vector_e5m2 77761 77962 fp8_rows_vector_vector_pair_e4m3 83495 \
            83696 fp8_rows_vector_vector_pair_e5m2 89435 89636",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5439 5454 5469 5484 fp8_reduction_vector_vector_e5m2 \
            11101 11116 11131 11146 fp8_reduction_vector_vector_pair_e4m3 16809 16824 16839 16854 \
            16869 16884 fp8_reduction_vector_vector_pair_e5m2 22723 22738 22753 22768 22783 22798 \
            fp8_rows_vector_square_e4m3 28370 28385 28400 28415 fp8_rows_vector_square_e5m2 33811 \
            33826 33841 33856 fp8_rows_vector_square_pair_e4m3 39298 39313 39328 39343 39358 39373 \
            fp8_rows_vector_square_pair_e5m2 44991 45006 45021 45036 45051 45066 \
            fp8_reduction_square_vector_e4m3 5365 5380 5395 5410 fp8_reduction_square_vector_e5m2 \
            10953 10968 10983 10998 fp8_reduction_square_vector_pair_e4m3 16587 16602 16617 16632 \
            16647 16662 fp8_reduction_square_vector_pair_e5m2 22427 22442 22457 22472 22487 22502 \
            fp8_reduction_vector_square_e4m3 28064 28079 28094 28109 \
            fp8_reduction_vector_square_e5m2 33495 33510 33525 33540 \
            fp8_reduction_vector_square_pair_e4m3 38972 38987 39002 39017 39032 39047 \
            fp8_reduction_vector_square_pair_e5m2 44655 44670 44685 44700 44715 44730 \
            fp8_rows_square_vector_e4m3 50471 50486 50501 50516 fp8_rows_square_vector_e5m2 56081 \
            56096 56111 56126 fp8_rows_square_vector_pair_e4m3 61737 61752 61767 61782 61797 61812 \
            fp8_rows_square_vector_pair_e5m2 67599 67614 67629 67644 67659 67674 \
            fp8_rows_vector_vector_e4m3 73493 73508 73523 73538 fp8_rows_vector_vector_e5m2 79181 \
            79196 79211 79226 fp8_rows_vector_vector_pair_e4m3 84915 84930 84945 84960 84975 84990 \
            fp8_rows_vector_vector_pair_e5m2 90855 90870 90885 90900 90915 90930 \
            fp8_reduction_tensor_e4m3 2998 3013 3028 3043 fp8_reduction_tensor_e5m2 6228 6243 6258 \
            6273 fp8_reduction_tensor_pair_e4m3 9689 9704 9719 9734 9749 9764 \
            fp8_reduction_tensor_pair_e5m2 13005 13020 13035 13050 13065 13080 \
            fp8_rows_tensor_e4m3 16102 16117 16132 16147 fp8_rows_tensor_e5m2 19344 19359 19374 \
            19389 fp8_rows_tensor_pair_e4m3 22817 22832 22847 22862 22877 22892 \
            fp8_rows_tensor_pair_e5m2 26145 26160 26175 26190 26205 26220",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1920 fp8_reduction_vector_vector_e5m2 7582 \
            fp8_reduction_vector_vector_pair_e4m3 13290 fp8_reduction_vector_vector_pair_e5m2 \
            19204 fp8_rows_vector_square_e4m3 24851 fp8_rows_vector_square_e5m2 30292 \
            fp8_rows_vector_square_pair_e4m3 35779 fp8_rows_vector_square_pair_e5m2 41472",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_square_vector_e4m3 3947 fp8_reduction_square_vector_e5m2 9535 \
            fp8_reduction_square_vector_pair_e4m3 15169 fp8_reduction_square_vector_pair_e5m2 \
            21009 fp8_reduction_vector_square_e4m3 26646 fp8_reduction_vector_square_e5m2 32077 \
            fp8_reduction_vector_square_pair_e4m3 37554 fp8_reduction_vector_square_pair_e5m2 \
            43237 fp8_rows_square_vector_e4m3 49053 fp8_rows_square_vector_e5m2 54663 \
            fp8_rows_square_vector_pair_e4m3 60319 fp8_rows_square_vector_pair_e5m2 66181 \
            fp8_rows_vector_vector_e4m3 72075 fp8_rows_vector_vector_e5m2 77763 \
            fp8_rows_vector_vector_pair_e4m3 83497 fp8_rows_vector_vector_pair_e5m2 89437",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1921 fp8_reduction_vector_vector_e5m2 7583 \
            fp8_reduction_vector_vector_pair_e4m3 13291 fp8_reduction_vector_vector_pair_e5m2 \
            19205 fp8_rows_vector_square_e4m3 24852 fp8_rows_vector_square_e5m2 30293 \
            fp8_rows_vector_square_pair_e4m3 35780 fp8_rows_vector_square_pair_e5m2 41473",
    },
    Places {
        reason: "the box of the output has no rows or columns then: threads look at each chunk, and the copy engine leaves out what is outside",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1846 fp8_reduction_square_vector_e5m2 7434 \
            fp8_reduction_square_vector_pair_e4m3 13068 fp8_reduction_square_vector_pair_e5m2 \
            18908 fp8_reduction_vector_square_e4m3 24545 fp8_reduction_vector_square_e5m2 29976 \
            fp8_reduction_vector_square_pair_e4m3 35453 fp8_reduction_vector_square_pair_e5m2 \
            41136 fp8_rows_square_vector_e4m3 46952 fp8_rows_square_vector_e5m2 52562 \
            fp8_rows_square_vector_pair_e4m3 58218 fp8_rows_square_vector_pair_e5m2 64080 \
            fp8_rows_vector_vector_e4m3 69974 fp8_rows_vector_vector_e5m2 75662 \
            fp8_rows_vector_vector_pair_e4m3 81396 fp8_rows_vector_vector_pair_e5m2 87336",
    },
    Places {
        reason: "the box of the output has no rows or columns then: threads look at each chunk, and the copy engine leaves out what is outside",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1847 fp8_reduction_square_vector_e5m2 7435 \
            fp8_reduction_square_vector_pair_e4m3 13069 fp8_reduction_square_vector_pair_e5m2 \
            18909 fp8_reduction_vector_square_e4m3 24546 fp8_reduction_vector_square_e5m2 29977 \
            fp8_reduction_vector_square_pair_e4m3 35454 fp8_reduction_vector_square_pair_e5m2 \
            41137 fp8_rows_square_vector_e4m3 46953 fp8_rows_square_vector_e5m2 52563 \
            fp8_rows_square_vector_pair_e4m3 58219 fp8_rows_square_vector_pair_e5m2 64081 \
            fp8_rows_vector_vector_e4m3 69975 fp8_rows_vector_vector_e5m2 75663 \
            fp8_rows_vector_vector_pair_e4m3 81397 fp8_rows_vector_vector_pair_e5m2 87337",
    },
    Places {
        reason: "the box of the output has no rows or columns then: threads look at each chunk, and the copy engine leaves out what is outside",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4021 fp8_reduction_vector_vector_e5m2 9683 \
            fp8_reduction_vector_vector_pair_e4m3 15391 fp8_reduction_vector_vector_pair_e5m2 \
            21305 fp8_rows_vector_square_e4m3 26952 fp8_rows_vector_square_e5m2 32393 \
            fp8_rows_vector_square_pair_e4m3 37880 fp8_rows_vector_square_pair_e5m2 43573",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_square_vector_e4m3 3895 4098 4294 4494 4689 4889 5084 5278 \
            fp8_reduction_square_vector_e5m2 9483 9686 9882 10082 10277 10477 10672 10866 \
            fp8_reduction_square_vector_pair_e4m3 15117 15320 15516 15716 15911 16111 16306 16500 \
            fp8_reduction_square_vector_pair_e5m2 20957 21160 21356 21556 21751 21951 22146 22340 \
            fp8_reduction_tensor_e4m3 2705 2889 2891 fp8_reduction_tensor_e5m2 5935 6119 6121 \
            fp8_reduction_tensor_pair_e4m3 9004 9188 9190 fp8_reduction_tensor_pair_e5m2 12320 \
            12504 12506 fp8_reduction_vector_square_e4m3 26594 26797 26993 27193 27388 27588 27783 \
            27977 fp8_reduction_vector_square_e5m2 32025 32228 32424 32624 32819 33019 33214 33408 \
            fp8_reduction_vector_square_pair_e4m3 37502 37705 37901 38101 38296 38496 38691 38885 \
            fp8_reduction_vector_square_pair_e5m2 43185 43388 43584 43784 43979 44179 44374 44568 \
            fp8_reduction_vector_vector_e4m3 3969 4172 4368 4568 4763 4963 5158 5352 \
            fp8_reduction_vector_vector_e5m2 9631 9834 10030 10230 10425 10625 10820 11014 \
            fp8_reduction_vector_vector_pair_e4m3 15339 15542 15738 15938 16133 16333 16528 16722 \
            fp8_reduction_vector_vector_pair_e5m2 21253 21456 21652 21852 22047 22247 22442 22636",
    },
];
