//! The mutants that nothing notices, and why that is right. Lines are those of the shipped PTX: a
//! rebuild moves them, and the run of all mutants then says which.

/// A reason, and the mutants for which it holds.
pub struct Survivors {
    /// Why no check can notice these.
    pub reason: &'static str,
    /// Their names, as the runner prints them.
    pub mutants: &'static [&'static str],
}

/// All of them.
pub const SURVIVORS: &[Survivors] = &[
    Survivors {
        reason: "`fence.mbarrier_init` tells other blocks of the cluster, and these blocks are alone: the barrier of the block behind it orders the initialisation for all its threads",
        mutants: &[
            "gemm_bf16: line 103 of `gemm_sm90_dgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 4195 of `gemm_sm90_fprop_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 8248 of `gemm_sm90_wgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 103 of `gemm_sm90_dgrad_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 4196 of `gemm_sm90_fprop_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 8250 of `gemm_sm90_wgrad_f16`: without `fence.mbarrier_init.release.cluster`",
        ],
    },
    Survivors {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        mutants: &[
            "gemm_bf16: line 269 of `gemm_sm90_dgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 4361 of `gemm_sm90_fprop_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 8410 of `gemm_sm90_wgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 269 of `gemm_sm90_dgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 4362 of `gemm_sm90_fprop_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 8412 of `gemm_sm90_wgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
        ],
    },
    Survivors {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        mutants: &[
            "gemm_bf16: line 469 of `gemm_sm90_dgrad_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 4522 of `gemm_sm90_fprop_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 8625 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 469 of `gemm_sm90_dgrad_f16`: without `bar.warp.sync`",
            "gemm_f16: line 4523 of `gemm_sm90_fprop_f16`: without `bar.warp.sync`",
            "gemm_f16: line 8627 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "the two barriers of the block are never in use at one time, so one number would do for both",
        mutants: &[
            "gemm_bf16: line 8258 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x0",
            "gemm_bf16: line 9106 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x1",
            "gemm_f16: line 8260 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x0",
            "gemm_f16: line 9108 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x1",
        ],
    },
    Survivors {
        reason: "the left operand is as wide as one swizzle atom, so that no product steps by this offset",
        mutants: &[
            "gemm_bf16: line 9112 of `gemm_sm90_wgrad_bf16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
            "gemm_f16: line 9114 of `gemm_sm90_wgrad_f16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
        ],
    },
    Survivors {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        mutants: &[
            "gemm_bf16: line 506 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4559 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 8649 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 506 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4560 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 8651 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        mutants: &[
            "gemm_bf16: line 497 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 503 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 4550 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4556 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 8640 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 8646 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 497 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 503 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 4551 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4557 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 8642 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 8648 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "whether a tile begins outside of the output: the scheduler gives out none that does",
        mutants: &[
            "gemm_bf16: line 5140 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 5141 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        mutants: &[
            "gemm_bf16: line 9596 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11480 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11601 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11724 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11844 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11960 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12076 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12193 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 9599 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11483 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11604 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11727 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11847 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11963 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12079 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12196 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
    Survivors {
        reason: "which dimension is ragged is asked of the argument: that of a product with weights never says the reduction",
        mutants: &[
            "gemm_bf16: line 1355 of `gemm_sm90_dgrad_bf16`: `setp.lt.u64` is always true",
            "gemm_bf16: line 5408 of `gemm_sm90_fprop_bf16`: `setp.lt.u64` is always true",
            "gemm_f16: line 1356 of `gemm_sm90_dgrad_f16`: `setp.lt.u64` is always true",
            "gemm_f16: line 5410 of `gemm_sm90_fprop_f16`: `setp.lt.u64` is always true",
        ],
    },
    Survivors {
        reason: "threads then store a box that the copy engine could store: the same elements",
        mutants: &[
            "gemm_bf16: line 1426 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3308 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3427 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3548 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3666 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3779 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3892 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 4006 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 5479 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7361 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7480 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7601 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7719 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7832 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7945 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 8059 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 9572 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11456 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11577 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11700 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11820 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11936 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 12052 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 12169 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_f16: line 1427 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3309 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3428 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3549 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3667 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3780 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3893 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 4007 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 5481 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7363 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7482 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7603 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7721 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7834 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7947 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 8061 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 9575 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11459 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11580 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11703 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11823 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11939 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 12055 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 12172 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "a whole stage then clears the rows from its last on, which are none: needless work, the same result",
        mutants: &[
            "gemm_bf16: line 9069 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 9071 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
    Survivors {
        reason: "the last eight columns of a row are then loaded one by one, as unaligned ones are: slower, the same result",
        mutants: &[
            "reduce: line 162 of `dbias_partial`: `setp.le.u32` is always false",
            "reduce: line 1083 of `dscales`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "the store behind it releases all that the thread has written, so the fence says it twice",
        mutants: &["setup: line 992 of `pointer_setup`: without `fence.acq_rel.sys`"],
    },
    Survivors {
        reason: "warps without groups then stay, and have nothing to write",
        mutants: &["setup: line 42 of `pointer_setup`: `setp.ge.u32` is always false"],
    },
    Survivors {
        reason: "what comes before a group is asked for with good splits alone, whose sums are far from saturating",
        mutants: &[
            "setup: line 608 of `pointer_setup`: `min.u64` takes its first operand",
            "setup: line 769 of `pointer_setup`: `min.u64` takes its first operand",
        ],
    },
];
