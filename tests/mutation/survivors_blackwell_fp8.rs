//! The same of FP8 operands.

use crate::survivors_blackwell::Places;

/// All of them.
pub const FP8_PLACES: &[Places] = &[
    Places {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 151 fp8_reduction_vector_vector_e5m2 5807 \
            fp8_rows_vector_square_e4m3 23275 fp8_rows_vector_square_e5m2 28710 \
            fp8_reduction_square_vector_e4m3 147 fp8_reduction_square_vector_e5m2 5729 \
            fp8_reduction_vector_square_e4m3 22979 fp8_reduction_vector_square_e5m2 28404 \
            fp8_rows_square_vector_e4m3 45183 fp8_rows_square_vector_e5m2 50787 \
            fp8_rows_vector_vector_e4m3 68107 fp8_rows_vector_vector_e5m2 73789 \
            fp8_reduction_tensor_e4m3 150 fp8_reduction_tensor_e5m2 3374 fp8_rows_tensor_e4m3 \
            13219 fp8_rows_tensor_e5m2 16455",
    },
    Places {
        reason: "the barrier of the cluster behind it releases and acquires by itself what the fence orders",
        damages: &["without `fence.mbarrier_init.release.cluster`"],
        lines: "\
            fp8_reduction_vector_vector_pair_e4m3 11507 fp8_reduction_vector_vector_pair_e5m2 \
            17415 fp8_rows_vector_square_pair_e4m3 34189 fp8_rows_vector_square_pair_e5m2 39876 \
            fp8_reduction_square_vector_pair_e4m3 11355 fp8_reduction_square_vector_pair_e5m2 \
            17189 fp8_reduction_vector_square_pair_e4m3 33873 \
            fp8_reduction_vector_square_pair_e5m2 39550 fp8_rows_square_vector_pair_e4m3 56435 \
            fp8_rows_square_vector_pair_e5m2 62291 fp8_rows_vector_vector_pair_e4m3 79515 \
            fp8_rows_vector_vector_pair_e5m2 85449 fp8_reduction_tensor_pair_e4m3 6619 \
            fp8_reduction_tensor_pair_e5m2 9930 fp8_rows_tensor_pair_e4m3 19712 \
            fp8_rows_tensor_pair_e5m2 23035",
    },
    Places {
        reason: "FP8 weights have one map, so that maps of single experts are never acquired",
        damages: &["without `fence.proxy.tensormap::generic.acquire.sys`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 357 fp8_reduction_vector_vector_e5m2 6013 \
            fp8_reduction_vector_vector_pair_e4m3 11720 fp8_reduction_vector_vector_pair_e5m2 \
            17628 fp8_rows_vector_square_e4m3 23477 fp8_rows_vector_square_e5m2 28912 \
            fp8_rows_vector_square_pair_e4m3 34398 fp8_rows_vector_square_pair_e5m2 40085 \
            fp8_reduction_square_vector_e4m3 352 fp8_reduction_square_vector_e5m2 5934 \
            fp8_reduction_square_vector_pair_e4m3 11567 fp8_reduction_square_vector_pair_e5m2 \
            17401 fp8_reduction_vector_square_e4m3 23184 fp8_reduction_vector_square_e5m2 28609 \
            fp8_reduction_vector_square_pair_e4m3 34085 fp8_reduction_vector_square_pair_e5m2 \
            39762 fp8_rows_square_vector_e4m3 45385 fp8_rows_square_vector_e5m2 50989 \
            fp8_rows_square_vector_pair_e4m3 56644 fp8_rows_square_vector_pair_e5m2 62500 \
            fp8_rows_vector_vector_e4m3 68310 fp8_rows_vector_vector_e5m2 73992 \
            fp8_rows_vector_vector_pair_e4m3 79725 fp8_rows_vector_vector_pair_e5m2 85659 \
            fp8_reduction_tensor_e4m3 339 fp8_reduction_tensor_e5m2 3563 \
            fp8_reduction_tensor_pair_e4m3 9398 fp8_reduction_tensor_pair_e5m2 12709 \
            fp8_rows_tensor_e4m3 13408 fp8_rows_tensor_e5m2 16644 fp8_rows_tensor_pair_e4m3 22492 \
            fp8_rows_tensor_pair_e5m2 25815",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 572 fp8_reduction_vector_vector_e5m2 6228 \
            fp8_reduction_vector_vector_pair_e4m3 11926 fp8_reduction_vector_vector_pair_e5m2 \
            17834 fp8_rows_vector_square_e4m3 23691 fp8_rows_vector_square_e5m2 29126 \
            fp8_rows_vector_square_pair_e4m3 34603 fp8_rows_vector_square_pair_e5m2 40290 \
            fp8_reduction_square_vector_e4m3 555 fp8_reduction_square_vector_e5m2 6137 \
            fp8_reduction_square_vector_pair_e4m3 11761 fp8_reduction_square_vector_pair_e5m2 \
            17595 fp8_reduction_vector_square_e4m3 23387 fp8_reduction_vector_square_e5m2 28812 \
            fp8_reduction_vector_square_pair_e4m3 34279 fp8_reduction_vector_square_pair_e5m2 \
            39956 fp8_rows_square_vector_e4m3 45602 fp8_rows_square_vector_e5m2 51206 \
            fp8_rows_square_vector_pair_e4m3 56852 fp8_rows_square_vector_pair_e5m2 62708 \
            fp8_rows_vector_vector_e4m3 68540 fp8_rows_vector_vector_e5m2 74222 \
            fp8_rows_vector_vector_pair_e4m3 79946 fp8_rows_vector_vector_pair_e5m2 85880 \
            fp8_reduction_tensor_e4m3 527 fp8_reduction_tensor_e5m2 3751 \
            fp8_reduction_tensor_pair_e4m3 9597 fp8_reduction_tensor_pair_e5m2 12908 \
            fp8_rows_tensor_e4m3 13608 fp8_rows_tensor_e5m2 16844 fp8_rows_tensor_pair_e4m3 22703 \
            fp8_rows_tensor_pair_e5m2 26026",
    },
    Places {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 578 fp8_reduction_vector_vector_e5m2 6234 \
            fp8_reduction_vector_vector_pair_e4m3 11932 fp8_reduction_vector_vector_pair_e5m2 \
            17840 fp8_rows_vector_square_e4m3 23697 fp8_rows_vector_square_e5m2 29132 \
            fp8_rows_vector_square_pair_e4m3 34609 fp8_rows_vector_square_pair_e5m2 40296 \
            fp8_reduction_square_vector_e4m3 561 fp8_reduction_square_vector_e5m2 6143 \
            fp8_reduction_square_vector_pair_e4m3 11767 fp8_reduction_square_vector_pair_e5m2 \
            17601 fp8_reduction_vector_square_e4m3 23393 fp8_reduction_vector_square_e5m2 28818 \
            fp8_reduction_vector_square_pair_e4m3 34285 fp8_reduction_vector_square_pair_e5m2 \
            39962 fp8_rows_square_vector_e4m3 45608 fp8_rows_square_vector_e5m2 51212 \
            fp8_rows_square_vector_pair_e4m3 56858 fp8_rows_square_vector_pair_e5m2 62714 \
            fp8_rows_vector_vector_e4m3 68546 fp8_rows_vector_vector_e5m2 74228 \
            fp8_rows_vector_vector_pair_e4m3 79952 fp8_rows_vector_vector_pair_e5m2 85886 \
            fp8_reduction_tensor_e4m3 533 fp8_reduction_tensor_e5m2 3757 \
            fp8_reduction_tensor_pair_e4m3 9603 fp8_reduction_tensor_pair_e5m2 12914 \
            fp8_rows_tensor_e4m3 13614 fp8_rows_tensor_e5m2 16850 fp8_rows_tensor_pair_e4m3 22709 \
            fp8_rows_tensor_pair_e5m2 26032",
    },
    Places {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        damages: &["`min.u32` takes its first operand"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 581 fp8_reduction_vector_vector_e5m2 6237 \
            fp8_reduction_vector_vector_pair_e4m3 11935 fp8_reduction_vector_vector_pair_e5m2 \
            17843 fp8_rows_vector_square_e4m3 23700 fp8_rows_vector_square_e5m2 29135 \
            fp8_rows_vector_square_pair_e4m3 34612 fp8_rows_vector_square_pair_e5m2 40299 \
            fp8_reduction_square_vector_e4m3 564 fp8_reduction_square_vector_e5m2 6146 \
            fp8_reduction_square_vector_pair_e4m3 11770 fp8_reduction_square_vector_pair_e5m2 \
            17604 fp8_reduction_vector_square_e4m3 23396 fp8_reduction_vector_square_e5m2 28821 \
            fp8_reduction_vector_square_pair_e4m3 34288 fp8_reduction_vector_square_pair_e5m2 \
            39965 fp8_rows_square_vector_e4m3 45611 fp8_rows_square_vector_e5m2 51215 \
            fp8_rows_square_vector_pair_e4m3 56861 fp8_rows_square_vector_pair_e5m2 62717 \
            fp8_rows_vector_vector_e4m3 68549 fp8_rows_vector_vector_e5m2 74231 \
            fp8_rows_vector_vector_pair_e4m3 79955 fp8_rows_vector_vector_pair_e5m2 85889 \
            fp8_reduction_tensor_e4m3 536 fp8_reduction_tensor_e5m2 3760 \
            fp8_reduction_tensor_pair_e4m3 9606 fp8_reduction_tensor_pair_e5m2 12917 \
            fp8_rows_tensor_e4m3 13617 fp8_rows_tensor_e5m2 16853 fp8_rows_tensor_pair_e4m3 22712 \
            fp8_rows_tensor_pair_e5m2 26035",
    },
    Places {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 557 fp8_reduction_vector_vector_e5m2 6213 \
            fp8_reduction_vector_vector_pair_e4m3 11911 fp8_reduction_vector_vector_pair_e5m2 \
            17819 fp8_rows_vector_square_e4m3 23663 fp8_rows_vector_square_e5m2 29098 \
            fp8_rows_vector_square_pair_e4m3 34575 fp8_rows_vector_square_pair_e5m2 40262 \
            fp8_reduction_square_vector_e4m3 540 fp8_reduction_square_vector_e5m2 6122 \
            fp8_reduction_square_vector_pair_e4m3 11746 fp8_reduction_square_vector_pair_e5m2 \
            17580 fp8_reduction_vector_square_e4m3 23372 fp8_reduction_vector_square_e5m2 28797 \
            fp8_reduction_vector_square_pair_e4m3 34264 fp8_reduction_vector_square_pair_e5m2 \
            39941 fp8_rows_square_vector_e4m3 45574 fp8_rows_square_vector_e5m2 51178 \
            fp8_rows_square_vector_pair_e4m3 56824 fp8_rows_square_vector_pair_e5m2 62680 \
            fp8_rows_vector_vector_e4m3 68512 fp8_rows_vector_vector_e5m2 74194 \
            fp8_rows_vector_vector_pair_e4m3 79918 fp8_rows_vector_vector_pair_e5m2 85852 \
            fp8_reduction_tensor_e4m3 512 fp8_reduction_tensor_e5m2 3736 \
            fp8_reduction_tensor_pair_e4m3 9582 fp8_reduction_tensor_pair_e5m2 12893 \
            fp8_rows_tensor_e4m3 13580 fp8_rows_tensor_e5m2 16816 fp8_rows_tensor_pair_e4m3 22675 \
            fp8_rows_tensor_pair_e5m2 25998",
    },
    Places {
        reason: "no memory passes between the lanes here, and the barrier that follows lets the warp meet anyway",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5485 fp8_reduction_vector_vector_e5m2 11141 \
            fp8_reduction_vector_vector_pair_e4m3 16873 fp8_reduction_vector_vector_pair_e5m2 \
            22781 fp8_rows_vector_square_e4m3 28392 fp8_rows_vector_square_e5m2 33827 \
            fp8_rows_vector_square_pair_e4m3 39338 fp8_rows_vector_square_pair_e5m2 45025 \
            fp8_reduction_square_vector_e4m3 5411 fp8_reduction_square_vector_e5m2 10993 \
            fp8_reduction_square_vector_pair_e4m3 16651 fp8_reduction_square_vector_pair_e5m2 \
            22485 fp8_reduction_vector_square_e4m3 28086 fp8_reduction_vector_square_e5m2 33511 \
            fp8_reduction_vector_square_pair_e4m3 39012 fp8_reduction_vector_square_pair_e5m2 \
            44689 fp8_rows_square_vector_e4m3 50469 fp8_rows_square_vector_e5m2 56073 \
            fp8_rows_square_vector_pair_e4m3 61753 fp8_rows_square_vector_pair_e5m2 67609 \
            fp8_rows_vector_vector_e4m3 73467 fp8_rows_vector_vector_e5m2 79149 \
            fp8_rows_vector_vector_pair_e4m3 84907 fp8_rows_vector_vector_pair_e5m2 90841 \
            fp8_reduction_tensor_e4m3 3044 fp8_reduction_tensor_e5m2 6268 \
            fp8_reduction_tensor_pair_e4m3 9754 fp8_reduction_tensor_pair_e5m2 13065 \
            fp8_rows_tensor_e4m3 16126 fp8_rows_tensor_e5m2 19362 fp8_rows_tensor_pair_e4m3 22860 \
            fp8_rows_tensor_pair_e5m2 26183",
    },
    Places {
        reason: "no memory passes between the lanes here: it keeps lanes that only wait from falling a phase behind, and under these schedules none did",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 3164 fp8_reduction_tensor_e5m2 6388 \
            fp8_reduction_tensor_pair_e4m3 6769 fp8_reduction_tensor_pair_e5m2 10080 \
            fp8_rows_tensor_e4m3 16246 fp8_rows_tensor_e5m2 19482 fp8_rows_tensor_pair_e4m3 19862 \
            fp8_rows_tensor_pair_e5m2 23185",
    },
    Places {
        reason: "all lanes have read tensor memory in one instruction and waited for it in one, so that the arrival of one comes behind the reads of all",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_tensor_e4m3 2921 fp8_reduction_tensor_e5m2 6145 \
            fp8_reduction_tensor_pair_e4m3 9214 fp8_reduction_tensor_pair_e5m2 12525 \
            fp8_rows_tensor_e4m3 16003 fp8_rows_tensor_e5m2 19239 fp8_rows_tensor_pair_e4m3 22308 \
            fp8_rows_tensor_pair_e5m2 25631",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 3971 4174 4370 4570 4765 4965 5160 5354 \
            fp8_reduction_vector_vector_e5m2 9627 9830 10026 10226 10421 10621 10816 11010 \
            fp8_reduction_vector_vector_pair_e4m3 15329 15532 15728 15928 16123 16323 16518 16712 \
            fp8_reduction_vector_vector_pair_e5m2 21237 21440 21636 21836 22031 22231 22426 22620 \
            fp8_reduction_square_vector_e4m3 3897 4100 4296 4496 4691 4891 5086 5280 \
            fp8_reduction_square_vector_e5m2 9479 9682 9878 10078 10273 10473 10668 10862 \
            fp8_reduction_square_vector_pair_e4m3 15107 15310 15506 15706 15901 16101 16296 16490 \
            fp8_reduction_square_vector_pair_e5m2 20941 21144 21340 21540 21735 21935 22130 22324 \
            fp8_reduction_vector_square_e4m3 26572 26775 26971 27171 27366 27566 27761 27955 \
            fp8_reduction_vector_square_e5m2 31997 32200 32396 32596 32791 32991 33186 33380 \
            fp8_reduction_vector_square_pair_e4m3 37468 37671 37867 38067 38262 38462 38657 38851 \
            fp8_reduction_vector_square_pair_e5m2 43145 43348 43544 43744 43939 44139 44334 44528 \
            fp8_reduction_tensor_e4m3 2707 2894 fp8_reduction_tensor_e5m2 5931 6118 \
            fp8_reduction_tensor_pair_e4m3 9000 9187 fp8_reduction_tensor_pair_e5m2 12311 12498",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 3946 4149 4345 4545 4740 4940 5135 5329 \
            fp8_reduction_vector_vector_e5m2 9602 9805 10001 10201 10396 10596 10791 10985 \
            fp8_reduction_vector_vector_pair_e4m3 15304 15507 15703 15903 16098 16298 16493 16687 \
            fp8_reduction_vector_vector_pair_e5m2 21212 21415 21611 21811 22006 22206 22401 22595 \
            fp8_rows_vector_square_e4m3 26853 27056 27252 27452 27647 27847 28042 28236 \
            fp8_rows_vector_square_e5m2 32288 32491 32687 32887 33082 33282 33477 33671 \
            fp8_rows_vector_square_pair_e4m3 37769 37972 38168 38368 38563 38763 38958 39152 \
            fp8_rows_vector_square_pair_e5m2 43456 43659 43855 44055 44250 44450 44645 44839 \
            fp8_reduction_square_vector_e4m3 3872 4075 4271 4471 4666 4866 5061 5255 \
            fp8_reduction_square_vector_e5m2 9454 9657 9853 10053 10248 10448 10643 10837 \
            fp8_reduction_square_vector_pair_e4m3 15082 15285 15481 15681 15876 16076 16271 16465 \
            fp8_reduction_square_vector_pair_e5m2 20916 21119 21315 21515 21710 21910 22105 22299 \
            fp8_reduction_vector_square_e4m3 26547 26750 26946 27146 27341 27541 27736 27930 \
            fp8_reduction_vector_square_e5m2 31972 32175 32371 32571 32766 32966 33161 33355 \
            fp8_reduction_vector_square_pair_e4m3 37443 37646 37842 38042 38237 38437 38632 38826 \
            fp8_reduction_vector_square_pair_e5m2 43120 43323 43519 43719 43914 44114 44309 44503 \
            fp8_rows_square_vector_e4m3 48930 49133 49329 49529 49724 49924 50119 50313 \
            fp8_rows_square_vector_e5m2 54534 54737 54933 55133 55328 55528 55723 55917 \
            fp8_rows_square_vector_pair_e4m3 60184 60387 60583 60783 60978 61178 61373 61567 \
            fp8_rows_square_vector_pair_e5m2 66040 66243 66439 66639 66834 67034 67229 67423 \
            fp8_rows_vector_vector_e4m3 71928 72131 72327 72527 72722 72922 73117 73311 \
            fp8_rows_vector_vector_e5m2 77610 77813 78009 78209 78404 78604 78799 78993 \
            fp8_rows_vector_vector_pair_e4m3 83338 83541 83737 83937 84132 84332 84527 84721 \
            fp8_rows_vector_vector_pair_e5m2 89272 89475 89671 89871 90066 90266 90461 90655",
    },
    Places {
        reason: "threads then store a box that the copy engine could store: the same elements",
        damages: &["`setp.gt.u32` is always true"],
        lines: "\
            fp8_reduction_tensor_e4m3 1027 1031 fp8_reduction_tensor_e5m2 4251 4255 \
            fp8_reduction_tensor_pair_e4m3 7320 7324 fp8_reduction_tensor_pair_e5m2 10631 10635 \
            fp8_rows_tensor_e4m3 14109 14113 fp8_rows_tensor_e5m2 17345 17349 \
            fp8_rows_tensor_pair_e4m3 20414 20418 fp8_rows_tensor_pair_e5m2 23737 23741",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless work, the same result",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4004 4402 4797 fp8_reduction_vector_vector_e5m2 9660 \
            10058 10453 fp8_reduction_vector_vector_pair_e4m3 15362 15760 16155 \
            fp8_reduction_vector_vector_pair_e5m2 21270 21668 22063 fp8_rows_vector_square_e4m3 \
            26911 27309 27704 fp8_rows_vector_square_e5m2 32346 32744 33139 \
            fp8_rows_vector_square_pair_e4m3 37827 38225 38620 fp8_rows_vector_square_pair_e5m2 \
            43514 43912 44307 fp8_reduction_square_vector_e4m3 3930 4328 4723 \
            fp8_reduction_square_vector_e5m2 9512 9910 10305 fp8_reduction_square_vector_pair_e4m3 \
            15140 15538 15933 fp8_reduction_square_vector_pair_e5m2 20974 21372 21767 \
            fp8_reduction_vector_square_e4m3 26605 27003 27398 fp8_reduction_vector_square_e5m2 \
            32030 32428 32823 fp8_reduction_vector_square_pair_e4m3 37501 37899 38294 \
            fp8_reduction_vector_square_pair_e5m2 43178 43576 43971 fp8_rows_square_vector_e4m3 \
            48988 49386 49781 fp8_rows_square_vector_e5m2 54592 54990 55385 \
            fp8_rows_square_vector_pair_e4m3 60242 60640 61035 fp8_rows_square_vector_pair_e5m2 \
            66098 66496 66891 fp8_rows_vector_vector_e4m3 71986 72384 72779 \
            fp8_rows_vector_vector_e5m2 77668 78066 78461 fp8_rows_vector_vector_pair_e4m3 83396 \
            83794 84189 fp8_rows_vector_vector_pair_e5m2 89330 89728 90123",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless work, the same result",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4216 4611 5006 fp8_reduction_vector_vector_e5m2 9872 \
            10267 10662 fp8_reduction_vector_vector_pair_e4m3 15574 15969 16364 \
            fp8_reduction_vector_vector_pair_e5m2 21482 21877 22272 fp8_rows_vector_square_e4m3 \
            27123 27518 27913 fp8_rows_vector_square_e5m2 32558 32953 33348 \
            fp8_rows_vector_square_pair_e4m3 38039 38434 38829 fp8_rows_vector_square_pair_e5m2 \
            43726 44121 44516 fp8_reduction_square_vector_e4m3 4142 4537 4932 \
            fp8_reduction_square_vector_e5m2 9724 10119 10514 \
            fp8_reduction_square_vector_pair_e4m3 15352 15747 16142 \
            fp8_reduction_square_vector_pair_e5m2 21186 21581 21976 \
            fp8_reduction_vector_square_e4m3 26817 27212 27607 fp8_reduction_vector_square_e5m2 \
            32242 32637 33032 fp8_reduction_vector_square_pair_e4m3 37713 38108 38503 \
            fp8_reduction_vector_square_pair_e5m2 43390 43785 44180 fp8_rows_square_vector_e4m3 \
            49200 49595 49990 fp8_rows_square_vector_e5m2 54804 55199 55594 \
            fp8_rows_square_vector_pair_e4m3 60454 60849 61244 fp8_rows_square_vector_pair_e5m2 \
            66310 66705 67100 fp8_rows_vector_vector_e4m3 72198 72593 72988 \
            fp8_rows_vector_vector_e5m2 77880 78275 78670 fp8_rows_vector_vector_pair_e4m3 83608 \
            84003 84398 fp8_rows_vector_vector_pair_e5m2 89542 89937 90332",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5192 fp8_reduction_vector_vector_e5m2 10848 \
            fp8_reduction_vector_vector_pair_e4m3 16550 fp8_reduction_vector_vector_pair_e5m2 \
            22458 fp8_rows_vector_square_e4m3 28099 fp8_rows_vector_square_e5m2 33534 \
            fp8_rows_vector_square_pair_e4m3 39015 fp8_rows_vector_square_pair_e5m2 44702 \
            fp8_reduction_square_vector_e4m3 5118 fp8_reduction_square_vector_e5m2 10700 \
            fp8_reduction_square_vector_pair_e4m3 16328 fp8_reduction_square_vector_pair_e5m2 \
            22162 fp8_reduction_vector_square_e4m3 27793 fp8_reduction_vector_square_e5m2 33218 \
            fp8_reduction_vector_square_pair_e4m3 38689 fp8_reduction_vector_square_pair_e5m2 \
            44366 fp8_rows_square_vector_e4m3 50176 fp8_rows_square_vector_e5m2 55780 \
            fp8_rows_square_vector_pair_e4m3 61430 fp8_rows_square_vector_pair_e5m2 67286 \
            fp8_rows_vector_vector_e4m3 73174 fp8_rows_vector_vector_e5m2 78856 \
            fp8_rows_vector_vector_pair_e4m3 84584 fp8_rows_vector_vector_pair_e5m2 90518 \
            fp8_reduction_tensor_e4m3 2740 fp8_reduction_tensor_e5m2 5964 \
            fp8_reduction_tensor_pair_e4m3 9033 fp8_reduction_tensor_pair_e5m2 12344",
    },
    Places {
        reason: "the products of the stage are waited for next, and who issued them has waited for the stage: its scales have come, too",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1127 fp8_reduction_square_vector_e5m2 6709 \
            fp8_reduction_square_vector_pair_e4m3 12333 fp8_reduction_square_vector_pair_e5m2 \
            18167 fp8_rows_square_vector_e4m3 46175 fp8_rows_square_vector_e5m2 51779 \
            fp8_rows_square_vector_pair_e4m3 57425 fp8_rows_square_vector_pair_e5m2 63281",
    },
    Places {
        reason: "before the first three boxes of a tile the copy engine has read all others",
        damages: &[
            "`cp.async.bulk.wait_group.read` with 0x3 for 0x2",
            "without `cp.async.bulk.wait_group.read`",
        ],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1909 4010 4211 fp8_reduction_vector_vector_e5m2 7565 \
            9666 9867 fp8_reduction_vector_vector_pair_e4m3 13267 15368 15569 \
            fp8_reduction_vector_vector_pair_e5m2 19175 21276 21477 fp8_rows_vector_square_e4m3 \
            24816 26917 27118 fp8_rows_vector_square_e5m2 30251 32352 32553 \
            fp8_rows_vector_square_pair_e4m3 35732 37833 38034 fp8_rows_vector_square_pair_e5m2 \
            41419 43520 43721 fp8_reduction_square_vector_e4m3 1835 3936 4137 \
            fp8_reduction_square_vector_e5m2 7417 9518 9719 fp8_reduction_square_vector_pair_e4m3 \
            13045 15146 15347 fp8_reduction_square_vector_pair_e5m2 18879 20980 21181 \
            fp8_reduction_vector_square_e4m3 24510 26611 26812 fp8_reduction_vector_square_e5m2 \
            29935 32036 32237 fp8_reduction_vector_square_pair_e4m3 35406 37507 37708 \
            fp8_reduction_vector_square_pair_e5m2 41083 43184 43385 fp8_rows_square_vector_e4m3 \
            46893 48994 49195 fp8_rows_square_vector_e5m2 52497 54598 54799 \
            fp8_rows_square_vector_pair_e4m3 58147 60248 60449 fp8_rows_square_vector_pair_e5m2 \
            64003 66104 66305 fp8_rows_vector_vector_e4m3 69891 71992 72193 \
            fp8_rows_vector_vector_e5m2 75573 77674 77875 fp8_rows_vector_vector_pair_e4m3 81301 \
            83402 83603 fp8_rows_vector_vector_pair_e5m2 87235 89336 89537",
    },
    Places {
        reason: "no copy of the tile reads the box yet, and the barrier of its first box has told the warp that none of the last tile's does",
        damages: &["without `bar.warp.sync`"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4013 4214 fp8_reduction_vector_vector_e5m2 9669 9870 \
            fp8_reduction_vector_vector_pair_e4m3 15371 15572 \
            fp8_reduction_vector_vector_pair_e5m2 21279 21480 fp8_rows_vector_square_e4m3 26920 \
            27121 fp8_rows_vector_square_e5m2 32355 32556 fp8_rows_vector_square_pair_e4m3 37836 \
            38037 fp8_rows_vector_square_pair_e5m2 43523 43724 fp8_reduction_square_vector_e4m3 \
            3939 4140 fp8_reduction_square_vector_e5m2 9521 9722 \
            fp8_reduction_square_vector_pair_e4m3 15149 15350 \
            fp8_reduction_square_vector_pair_e5m2 20983 21184 fp8_reduction_vector_square_e4m3 \
            26614 26815 fp8_reduction_vector_square_e5m2 32039 32240 \
            fp8_reduction_vector_square_pair_e4m3 37510 37711 \
            fp8_reduction_vector_square_pair_e5m2 43187 43388 fp8_rows_square_vector_e4m3 48997 \
            49198 fp8_rows_square_vector_e5m2 54601 54802 fp8_rows_square_vector_pair_e4m3 60251 \
            60452 fp8_rows_square_vector_pair_e5m2 66107 66308 fp8_rows_vector_vector_e4m3 71995 \
            72196 fp8_rows_vector_vector_e5m2 77677 77878 fp8_rows_vector_vector_pair_e4m3 83405 \
            83606 fp8_rows_vector_vector_pair_e5m2 89339 89540",
    },
    Places {
        reason: "at the end all stages are waited for, and products end in order: of two stages the wait for the later one covers the other, and who finishes a tile has waited for its last stage",
        damages: &["`mbarrier.try_wait.parity.acquire.cta.shared::cta.b64` does not wait"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 5433 5448 5463 5478 fp8_reduction_vector_vector_e5m2 \
            11089 11104 11119 11134 fp8_reduction_vector_vector_pair_e4m3 16791 16806 16821 16836 \
            16851 16866 fp8_reduction_vector_vector_pair_e5m2 22699 22714 22729 22744 22759 22774 \
            fp8_rows_vector_square_e4m3 28340 28355 28370 28385 fp8_rows_vector_square_e5m2 33775 \
            33790 33805 33820 fp8_rows_vector_square_pair_e4m3 39256 39271 39286 39301 39316 39331 \
            fp8_rows_vector_square_pair_e5m2 44943 44958 44973 44988 45003 45018 \
            fp8_reduction_square_vector_e4m3 5359 5374 5389 5404 fp8_reduction_square_vector_e5m2 \
            10941 10956 10971 10986 fp8_reduction_square_vector_pair_e4m3 16569 16584 16599 16614 \
            16629 16644 fp8_reduction_square_vector_pair_e5m2 22403 22418 22433 22448 22463 22478 \
            fp8_reduction_vector_square_e4m3 28034 28049 28064 28079 \
            fp8_reduction_vector_square_e5m2 33459 33474 33489 33504 \
            fp8_reduction_vector_square_pair_e4m3 38930 38945 38960 38975 38990 39005 \
            fp8_reduction_vector_square_pair_e5m2 44607 44622 44637 44652 44667 44682 \
            fp8_rows_square_vector_e4m3 50417 50432 50447 50462 fp8_rows_square_vector_e5m2 56021 \
            56036 56051 56066 fp8_rows_square_vector_pair_e4m3 61671 61686 61701 61716 61731 61746 \
            fp8_rows_square_vector_pair_e5m2 67527 67542 67557 67572 67587 67602 \
            fp8_rows_vector_vector_e4m3 73415 73430 73445 73460 fp8_rows_vector_vector_e5m2 79097 \
            79112 79127 79142 fp8_rows_vector_vector_pair_e4m3 84825 84840 84855 84870 84885 84900 \
            fp8_rows_vector_vector_pair_e5m2 90759 90774 90789 90804 90819 90834 \
            fp8_reduction_tensor_e4m3 2992 3007 3022 3037 fp8_reduction_tensor_e5m2 6216 6231 6246 \
            6261 fp8_reduction_tensor_pair_e4m3 9672 9687 9702 9717 9732 9747 \
            fp8_reduction_tensor_pair_e5m2 12983 12998 13013 13028 13043 13058 \
            fp8_rows_tensor_e4m3 16074 16089 16104 16119 fp8_rows_tensor_e5m2 19310 19325 19340 \
            19355 fp8_rows_tensor_pair_e4m3 22778 22793 22808 22823 22838 22853 \
            fp8_rows_tensor_pair_e5m2 26101 26116 26131 26146 26161 26176",
    },
    Places {
        reason: "a box without rows is then written and stored by threads, of which none has a row: needless",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1914 fp8_reduction_vector_vector_e5m2 7570 \
            fp8_reduction_vector_vector_pair_e4m3 13272 fp8_reduction_vector_vector_pair_e5m2 \
            19180 fp8_rows_vector_square_e4m3 24821 fp8_rows_vector_square_e5m2 30256 \
            fp8_rows_vector_square_pair_e4m3 35737 fp8_rows_vector_square_pair_e5m2 41424",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_square_vector_e4m3 3941 fp8_reduction_square_vector_e5m2 9523 \
            fp8_reduction_square_vector_pair_e4m3 15151 fp8_reduction_square_vector_pair_e5m2 \
            20985 fp8_reduction_vector_square_e4m3 26616 fp8_reduction_vector_square_e5m2 32041 \
            fp8_reduction_vector_square_pair_e4m3 37512 fp8_reduction_vector_square_pair_e5m2 \
            43189 fp8_rows_square_vector_e4m3 48999 fp8_rows_square_vector_e5m2 54603 \
            fp8_rows_square_vector_pair_e4m3 60253 fp8_rows_square_vector_pair_e5m2 66109 \
            fp8_rows_vector_vector_e4m3 71997 fp8_rows_vector_vector_e5m2 77679 \
            fp8_rows_vector_vector_pair_e4m3 83407 fp8_rows_vector_vector_pair_e5m2 89341",
    },
    Places {
        reason: "a box beyond the columns is then stored: the copy engine leaves out what is outside of the output, and threads look at each chunk of a row",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 1915 fp8_reduction_vector_vector_e5m2 7571 \
            fp8_reduction_vector_vector_pair_e4m3 13273 fp8_reduction_vector_vector_pair_e5m2 \
            19181 fp8_rows_vector_square_e4m3 24822 fp8_rows_vector_square_e5m2 30257 \
            fp8_rows_vector_square_pair_e4m3 35738 fp8_rows_vector_square_pair_e5m2 41425",
    },
    Places {
        reason: "the box of the output has no rows or columns then: threads look at each chunk, and the copy engine leaves out what is outside",
        damages: &["`setp.ge.u32` is always false"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1840 fp8_reduction_square_vector_e5m2 7422 \
            fp8_reduction_square_vector_pair_e4m3 13050 fp8_reduction_square_vector_pair_e5m2 \
            18884 fp8_reduction_vector_square_e4m3 24515 fp8_reduction_vector_square_e5m2 29940 \
            fp8_reduction_vector_square_pair_e4m3 35411 fp8_reduction_vector_square_pair_e5m2 \
            41088 fp8_rows_square_vector_e4m3 46898 fp8_rows_square_vector_e5m2 52502 \
            fp8_rows_square_vector_pair_e4m3 58152 fp8_rows_square_vector_pair_e5m2 64008 \
            fp8_rows_vector_vector_e4m3 69896 fp8_rows_vector_vector_e5m2 75578 \
            fp8_rows_vector_vector_pair_e4m3 81306 fp8_rows_vector_vector_pair_e5m2 87240",
    },
    Places {
        reason: "the box of the output has no rows or columns then: threads look at each chunk, and the copy engine leaves out what is outside",
        damages: &["`setp.le.u32` is always false"],
        lines: "\
            fp8_reduction_square_vector_e4m3 1841 fp8_reduction_square_vector_e5m2 7423 \
            fp8_reduction_square_vector_pair_e4m3 13051 fp8_reduction_square_vector_pair_e5m2 \
            18885 fp8_reduction_vector_square_e4m3 24516 fp8_reduction_vector_square_e5m2 29941 \
            fp8_reduction_vector_square_pair_e4m3 35412 fp8_reduction_vector_square_pair_e5m2 \
            41089 fp8_rows_square_vector_e4m3 46899 fp8_rows_square_vector_e5m2 52503 \
            fp8_rows_square_vector_pair_e4m3 58153 fp8_rows_square_vector_pair_e5m2 64009 \
            fp8_rows_vector_vector_e4m3 69897 fp8_rows_vector_vector_e5m2 75579 \
            fp8_rows_vector_vector_pair_e4m3 81307 fp8_rows_vector_vector_pair_e5m2 87241",
    },
    Places {
        reason: "the box of the output has no rows or columns then: threads look at each chunk, and the copy engine leaves out what is outside",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_vector_vector_e4m3 4015 fp8_reduction_vector_vector_e5m2 9671 \
            fp8_reduction_vector_vector_pair_e4m3 15373 fp8_reduction_vector_vector_pair_e5m2 \
            21281 fp8_rows_vector_square_e4m3 26922 fp8_rows_vector_square_e5m2 32357 \
            fp8_rows_vector_square_pair_e4m3 37838 fp8_rows_vector_square_pair_e5m2 43525",
    },
    Places {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        damages: &["`setp.lt.u32` is always true"],
        lines: "\
            fp8_reduction_square_vector_e4m3 3889 4092 4288 4488 4683 4883 5078 5272 \
            fp8_reduction_square_vector_e5m2 9471 9674 9870 10070 10265 10465 10660 10854 \
            fp8_reduction_square_vector_pair_e4m3 15099 15302 15498 15698 15893 16093 16288 \
            16482 fp8_reduction_square_vector_pair_e5m2 20933 21136 21332 21532 21727 21927 \
            22122 22316 fp8_reduction_tensor_e4m3 2699 2883 2885 fp8_reduction_tensor_e5m2 5923 \
            6107 6109 fp8_reduction_tensor_pair_e4m3 8992 9176 9178 \
            fp8_reduction_tensor_pair_e5m2 12303 12487 12489 fp8_reduction_vector_square_e4m3 \
            26564 26767 26963 27163 27358 27558 27753 27947 fp8_reduction_vector_square_e5m2 \
            31989 32192 32388 32588 32783 32983 33178 33372 \
            fp8_reduction_vector_square_pair_e4m3 37460 37663 37859 38059 38254 38454 38649 \
            38843 fp8_reduction_vector_square_pair_e5m2 43137 43340 43536 43736 43931 44131 \
            44326 44520 fp8_reduction_vector_vector_e4m3 3963 4166 4362 4562 4757 4957 5152 5346 \
            fp8_reduction_vector_vector_e5m2 9619 9822 10018 10218 10413 10613 10808 11002 \
            fp8_reduction_vector_vector_pair_e4m3 15321 15524 15720 15920 16115 16315 16510 \
            16704 fp8_reduction_vector_vector_pair_e5m2 21229 21432 21628 21828 22023 22223 \
            22418 22612",
    },
];
