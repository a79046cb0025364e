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
            "gemm_bf16: line 4191 of `gemm_sm90_fprop_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 8240 of `gemm_sm90_wgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 103 of `gemm_sm90_dgrad_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 4192 of `gemm_sm90_fprop_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 8242 of `gemm_sm90_wgrad_f16`: without `fence.mbarrier_init.release.cluster`",
        ],
    },
    Survivors {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        mutants: &[
            "gemm_bf16: line 269 of `gemm_sm90_dgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 4357 of `gemm_sm90_fprop_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 8402 of `gemm_sm90_wgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 269 of `gemm_sm90_dgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 4358 of `gemm_sm90_fprop_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 8404 of `gemm_sm90_wgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
        ],
    },
    Survivors {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        mutants: &[
            "gemm_bf16: line 469 of `gemm_sm90_dgrad_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 4518 of `gemm_sm90_fprop_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 8617 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 469 of `gemm_sm90_dgrad_f16`: without `bar.warp.sync`",
            "gemm_f16: line 4519 of `gemm_sm90_fprop_f16`: without `bar.warp.sync`",
            "gemm_f16: line 8619 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "the two barriers of the block are never in use at one time, so one number would do for both",
        mutants: &[
            "gemm_bf16: line 8250 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x0",
            "gemm_bf16: line 9097 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x1",
            "gemm_f16: line 8252 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x0",
            "gemm_f16: line 9099 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x1",
        ],
    },
    Survivors {
        reason: "the left operand is as wide as one swizzle atom, so that no product steps by this offset",
        mutants: &[
            "gemm_bf16: line 9103 of `gemm_sm90_wgrad_bf16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
            "gemm_f16: line 9105 of `gemm_sm90_wgrad_f16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
        ],
    },
    Survivors {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        mutants: &[
            "gemm_bf16: line 506 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4555 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 8641 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 506 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4556 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 8643 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        mutants: &[
            "gemm_bf16: line 497 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 503 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 4546 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4552 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 8632 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 8638 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 497 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 503 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 4547 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4553 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 8634 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 8640 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "whether a tile begins outside of the output: the scheduler gives out none that does",
        mutants: &[
            "gemm_bf16: line 5135 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 5136 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "the rows of a weight's gradient are a multiple of eight, so that a box has live rows alone, or none",
        mutants: &[
            "gemm_bf16: line 9585 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11469 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11590 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11713 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11833 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 11949 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12065 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12182 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 9588 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11472 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11593 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11716 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11836 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 11952 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12068 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12185 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
    Survivors {
        reason: "threads then store a box that the copy engine could store: the same elements",
        mutants: &[
            "gemm_bf16: line 1422 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3304 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3423 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3544 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3662 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3775 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3888 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 4002 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 5471 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7353 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7472 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7593 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7711 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7824 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7937 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 8051 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 9561 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11445 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11566 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11689 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11809 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 11925 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 12041 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 12158 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_f16: line 1423 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3305 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3424 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3545 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3663 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3776 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3889 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 4003 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 5473 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7355 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7474 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7595 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7713 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7826 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7939 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 8053 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 9564 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11448 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11569 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11692 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11812 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 11928 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 12044 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 12161 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "a whole stage then clears the rows from its last on, which are none: needless work, the same result",
        mutants: &[
            "gemm_bf16: line 9060 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 9062 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
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
