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
            "gemm_bf16: line 4030 of `gemm_sm90_fprop_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 7944 of `gemm_sm90_wgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 103 of `gemm_sm90_dgrad_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 4031 of `gemm_sm90_fprop_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 7946 of `gemm_sm90_wgrad_f16`: without `fence.mbarrier_init.release.cluster`",
        ],
    },
    Survivors {
        reason: "what a descriptor cache keeps of the tensor map that lay there before is not emulated: the emulated copy engine reads the map every time. On a GPU `tests/gpu/maps.rs` fails without the fence",
        mutants: &[
            "gemm_bf16: line 295 of `gemm_sm90_dgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 4222 of `gemm_sm90_fprop_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 295 of `gemm_sm90_dgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 4223 of `gemm_sm90_fprop_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_bf16: line 13168 of `gemm_sm90_wgrad_bf16`: without `fence.proxy.tensormap::generic.acquire.sys`",
            "gemm_f16: line 13171 of `gemm_sm90_wgrad_f16`: without `fence.proxy.tensormap::generic.acquire.sys`",
        ],
    },
    Survivors {
        reason: "whether a block takes its next tile in turn or claims it is a matter of speed: where none claims, each has its turn to the end",
        mutants: &[
            "gemm_bf16: line 287 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 4214 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 287 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 4215 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "a tile without stages asks for the next one at once: the comparison is of a zero, which the compiler shall not know",
        mutants: &[
            "gemm_bf16: line 13226 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 13229 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
    Survivors {
        reason: "when blocks with many tiles start is a matter of speed: whether they sleep before, and for how long, changes no result",
        mutants: &[
            "gemm_bf16: line 7989 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 8008 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 7991 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 8010 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "the barrier of the block is used once, before the roles part, so its number would do for another, and another's for it",
        mutants: &[
            "gemm_bf16: line 7953 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x2 for 0x0",
            "gemm_bf16: line 7953 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x3 for 0x0",
            "gemm_bf16: line 9940 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x3",
            "gemm_bf16: line 9945 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x2",
            "gemm_bf16: line 10479 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x3",
            "gemm_bf16: line 10484 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x2",
            "gemm_bf16: line 10862 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x3",
            "gemm_bf16: line 10867 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x2",
            "gemm_f16: line 7955 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x2 for 0x0",
            "gemm_f16: line 7955 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x3 for 0x0",
            "gemm_f16: line 9943 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x3",
            "gemm_f16: line 9948 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x2",
            "gemm_f16: line 10482 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x3",
            "gemm_f16: line 10487 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x2",
            "gemm_f16: line 10865 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x3",
            "gemm_f16: line 10870 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x2",
        ],
    },
    Survivors {
        reason: "with one number for both a warpgroup that is a whole tile ahead would meet the other at the wrong barrier; in the runs of this check none gets that far ahead",
        mutants: &[
            "gemm_bf16: line 8630 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x2 for 0x1",
            "gemm_bf16: line 8630 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x3 for 0x1",
            "gemm_bf16: line 9940 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x3",
            "gemm_bf16: line 9945 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x2",
            "gemm_bf16: line 10479 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x3",
            "gemm_bf16: line 10484 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x2",
            "gemm_bf16: line 10862 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x3",
            "gemm_bf16: line 10867 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x2",
            "gemm_f16: line 8632 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x2 for 0x1",
            "gemm_f16: line 8632 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x3 for 0x1",
            "gemm_f16: line 9943 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x3",
            "gemm_f16: line 9948 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x2",
            "gemm_f16: line 10482 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x3",
            "gemm_f16: line 10487 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x2",
            "gemm_f16: line 10865 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x3",
            "gemm_f16: line 10870 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x2",
        ],
    },
    Survivors {
        reason: "behind a block's last tile nobody waits for a lent stage, and nothing is written that other lanes read",
        mutants: &[
            "gemm_bf16: line 12921 of `gemm_sm90_wgrad_bf16`: without `mbarrier.arrive.release.cta.shared::cta.b64`",
            "gemm_f16: line 12924 of `gemm_sm90_wgrad_f16`: without `mbarrier.arrive.release.cta.shared::cta.b64`",
            "gemm_bf16: line 13000 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 13003 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        mutants: &[
            "gemm_bf16: line 410 of `gemm_sm90_dgrad_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 4322 of `gemm_sm90_fprop_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 410 of `gemm_sm90_dgrad_f16`: without `bar.warp.sync`",
            "gemm_f16: line 4323 of `gemm_sm90_fprop_f16`: without `bar.warp.sync`",
            "gemm_bf16: line 13325 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 13328 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "the two barriers of the block are never in use at one time, so one number would do for both",
        mutants: &[
            "gemm_bf16: line 7953 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x0",
            "gemm_bf16: line 8630 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x1",
            "gemm_f16: line 7955 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x0",
            "gemm_f16: line 8632 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x1",
        ],
    },
    Survivors {
        reason: "the left operand is as wide as one swizzle atom, so that no product steps by this offset",
        mutants: &[
            "gemm_bf16: line 8636 of `gemm_sm90_wgrad_bf16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
            "gemm_f16: line 8638 of `gemm_sm90_wgrad_f16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
        ],
    },
    Survivors {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        mutants: &[
            "gemm_bf16: line 445 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4357 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 445 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4358 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_bf16: line 13415 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 13418 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        mutants: &[
            "gemm_bf16: line 440 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 442 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 4352 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4354 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 440 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 442 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 4353 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4355 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 13410 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 13413 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
            "gemm_bf16: line 13412 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 13415 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "whether a tile begins outside of the output: the scheduler gives out none that does",
        mutants: &[
            "gemm_bf16: line 1203 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 1805 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 5717 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 10896 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 1203 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 1806 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 5719 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 10899 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 5115 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 5116 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "threads then store a box that the copy engine could store: the same elements",
        mutants: &[
            "gemm_bf16: line 1760 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 3658 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 5672 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 7570 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 9456 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_f16: line 1761 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 3659 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 5674 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 7572 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 9459 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "a whole stage then clears the rows from its last on, which are none: needless work, the same result",
        mutants: &[
            "gemm_bf16: line 8593 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 8595 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
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
        mutants: &["setup: line 611 of `pointer_setup`: without `fence.acq_rel.sys`"],
    },
    Survivors {
        reason: "what comes before a group is asked for with good splits alone, whose sums are far from saturating",
        mutants: &[
            "setup: line 478 of `pointer_setup`: `min.u64` takes its first operand",
            "setup: line 753 of `pointer_setup`: `min.u64` takes its first operand",
        ],
    },
    Survivors {
        reason: "a copy to columns that the output does not have: the copy engine leaves them out",
        mutants: &[
            "gemm_bf16: line 1514 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 1523 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3475 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3484 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3856 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 3865 of `gemm_sm90_dgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 5426 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 5435 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7387 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7396 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7768 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 7777 of `gemm_sm90_fprop_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12562 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_bf16: line 12571 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 1514 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 1523 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3476 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3485 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3857 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 3866 of `gemm_sm90_dgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 5427 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 5436 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7389 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7398 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7770 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 7779 of `gemm_sm90_fprop_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12565 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
            "gemm_f16: line 12574 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
];
