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
            "gemm_bf16: line 3985 of `gemm_sm90_fprop_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 7854 of `gemm_sm90_wgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 103 of `gemm_sm90_dgrad_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 3986 of `gemm_sm90_fprop_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 7856 of `gemm_sm90_wgrad_f16`: without `fence.mbarrier_init.release.cluster`",
        ],
    },
    Survivors {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        mutants: &[
            "gemm_bf16: line 267 of `gemm_sm90_dgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 4149 of `gemm_sm90_fprop_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 267 of `gemm_sm90_dgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 4150 of `gemm_sm90_fprop_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 13059 of `gemm_sm90_wgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 13062 of `gemm_sm90_wgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
        ],
    },
    Survivors {
        reason: "when blocks with many tiles start is a matter of speed: whether they sleep before, and for how long, changes no result",
        mutants: &[
            "gemm_bf16: line 7900 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7919 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 7902 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7921 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "the barrier of the block is used once, before the roles part, so its number would do for another, and another's for it",
        mutants: &[
            "gemm_bf16: line 7864 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x2 for 0x0",
            "gemm_bf16: line 7864 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x3 for 0x0",
            "gemm_bf16: line 9851 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x3",
            "gemm_bf16: line 9856 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x2",
            "gemm_bf16: line 10390 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x3",
            "gemm_bf16: line 10395 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x2",
            "gemm_bf16: line 10773 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x3",
            "gemm_bf16: line 10778 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x2",
            "gemm_f16: line 7866 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x2 for 0x0",
            "gemm_f16: line 7866 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x3 for 0x0",
            "gemm_f16: line 9854 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x3",
            "gemm_f16: line 9859 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x2",
            "gemm_f16: line 10393 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x3",
            "gemm_f16: line 10398 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x2",
            "gemm_f16: line 10776 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x3",
            "gemm_f16: line 10781 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x2",
        ],
    },
    Survivors {
        reason: "with one number for both a warpgroup that is a whole tile ahead would meet the other at the wrong barrier; in the runs of this check none gets that far ahead",
        mutants: &[
            "gemm_bf16: line 8541 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x2 for 0x1",
            "gemm_bf16: line 8541 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x3 for 0x1",
            "gemm_bf16: line 9851 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x3",
            "gemm_bf16: line 9856 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x2",
            "gemm_bf16: line 10390 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x3",
            "gemm_bf16: line 10395 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x2",
            "gemm_bf16: line 10773 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x3",
            "gemm_bf16: line 10778 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x2",
            "gemm_f16: line 8543 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x2 for 0x1",
            "gemm_f16: line 8543 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x3 for 0x1",
            "gemm_f16: line 9854 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x3",
            "gemm_f16: line 9859 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x2",
            "gemm_f16: line 10393 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x3",
            "gemm_f16: line 10398 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x2",
            "gemm_f16: line 10776 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x3",
            "gemm_f16: line 10781 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x2",
        ],
    },
    Survivors {
        reason: "behind a block's last tile nobody waits for a lent stage, and nothing is written that other lanes read",
        mutants: &[
            "gemm_bf16: line 12832 of `gemm_sm90_wgrad_bf16`: without `mbarrier.arrive.release.cta.shared::cta.b64`",
            "gemm_f16: line 12835 of `gemm_sm90_wgrad_f16`: without `mbarrier.arrive.release.cta.shared::cta.b64`",
            "gemm_bf16: line 12911 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 12914 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        mutants: &[
            "gemm_bf16: line 380 of `gemm_sm90_dgrad_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 4247 of `gemm_sm90_fprop_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 380 of `gemm_sm90_dgrad_f16`: without `bar.warp.sync`",
            "gemm_f16: line 4248 of `gemm_sm90_fprop_f16`: without `bar.warp.sync`",
            "gemm_bf16: line 13190 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 13193 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "the two barriers of the block are never in use at one time, so one number would do for both",
        mutants: &[
            "gemm_bf16: line 7864 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x0",
            "gemm_bf16: line 8541 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x1",
            "gemm_f16: line 7866 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x0",
            "gemm_f16: line 8543 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x1",
        ],
    },
    Survivors {
        reason: "the left operand is as wide as one swizzle atom, so that no product steps by this offset",
        mutants: &[
            "gemm_bf16: line 8547 of `gemm_sm90_wgrad_bf16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
            "gemm_f16: line 8549 of `gemm_sm90_wgrad_f16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
        ],
    },
    Survivors {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        mutants: &[
            "gemm_bf16: line 415 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4282 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 415 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4283 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_bf16: line 13278 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 13281 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        mutants: &[
            "gemm_bf16: line 410 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 412 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 4277 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4279 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 410 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 412 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 4278 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4280 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 13273 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 13276 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
            "gemm_bf16: line 13275 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 13278 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "whether a tile begins outside of the output: the scheduler gives out none that does",
        mutants: &[
            "gemm_bf16: line 1160 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 1762 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 5629 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 10807 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 1160 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 1763 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 5631 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 10810 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 5027 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 5028 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "threads then store a box that the copy engine could store: the same elements",
        mutants: &[
            "gemm_bf16: line 1717 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3615 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 5584 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7482 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 9367 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_f16: line 1718 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3616 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 5586 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7484 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 9370 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "a whole stage then clears the rows from its last on, which are none: needless work, the same result",
        mutants: &[
            "gemm_bf16: line 8504 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 8506 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
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
    Survivors {
        reason: "a copy to columns that the output does not have: the copy engine leaves them out",
        mutants: &[
            "gemm_bf16: line 1471 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 1480 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3432 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3441 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3813 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3822 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 5338 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 5347 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7299 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7308 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7680 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7689 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12473 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12482 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 1471 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 1480 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3433 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3442 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3814 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3823 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 5339 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 5348 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7301 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7310 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7682 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7691 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12476 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12485 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
];
