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
            "gemm_bf16: line 104 of `gemm_sm90_dgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 4100 of `gemm_sm90_fprop_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_bf16: line 8056 of `gemm_sm90_wgrad_bf16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 104 of `gemm_sm90_dgrad_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 4101 of `gemm_sm90_fprop_f16`: without `fence.mbarrier_init.release.cluster`",
            "gemm_f16: line 8058 of `gemm_sm90_wgrad_f16`: without `fence.mbarrier_init.release.cluster`",
        ],
    },
    Survivors {
        reason: "no memory passes between the lanes here, and the shuffle that follows lets the warp meet anyway",
        mutants: &[
            "gemm_bf16: line 413 of `gemm_sm90_dgrad_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 4370 of `gemm_sm90_fprop_bf16`: without `bar.warp.sync`",
            "gemm_bf16: line 8379 of `gemm_sm90_wgrad_bf16`: without `bar.warp.sync`",
            "gemm_f16: line 413 of `gemm_sm90_dgrad_f16`: without `bar.warp.sync`",
            "gemm_f16: line 4371 of `gemm_sm90_fprop_f16`: without `bar.warp.sync`",
            "gemm_f16: line 8381 of `gemm_sm90_wgrad_f16`: without `bar.warp.sync`",
        ],
    },
    Survivors {
        reason: "the two barriers of the block are never in use at one time, so one number would do for both",
        mutants: &[
            "gemm_bf16: line 8066 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x1 for 0x0",
            "gemm_bf16: line 8928 of `gemm_sm90_wgrad_bf16`: `bar.sync` with 0x0 for 0x1",
            "gemm_f16: line 8068 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x1 for 0x0",
            "gemm_f16: line 8930 of `gemm_sm90_wgrad_f16`: `bar.sync` with 0x0 for 0x1",
        ],
    },
    Survivors {
        reason: "the left operand is as wide as one swizzle atom, so that no product steps by this offset",
        mutants: &[
            "gemm_bf16: line 8934 of `gemm_sm90_wgrad_bf16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
            "gemm_f16: line 8936 of `gemm_sm90_wgrad_f16`: `or.b64` with 0x4000004004000000 for 0x4000004002000000",
        ],
    },
    Survivors {
        reason: "a prefetch for more columns than the tile has, inside the row: a hint, the results are the same",
        mutants: &[
            "gemm_bf16: line 436 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4393 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 8400 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_f16: line 436 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4394 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 8402 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
        ],
    },
    Survivors {
        reason: "a prefetch of rows behind the group's last, or of those of a tile that is none: a hint, which may name what is not allocated; the results are the same",
        mutants: &[
            "gemm_bf16: line 427 of `gemm_sm90_dgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 433 of `gemm_sm90_dgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 4384 of `gemm_sm90_fprop_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 4390 of `gemm_sm90_fprop_bf16`: `setp.ge.u32` is always false",
            "gemm_bf16: line 8391 of `gemm_sm90_wgrad_bf16`: `min.u32` takes its first operand",
            "gemm_bf16: line 8397 of `gemm_sm90_wgrad_bf16`: `setp.ge.u32` is always false",
            "gemm_f16: line 427 of `gemm_sm90_dgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 433 of `gemm_sm90_dgrad_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 4385 of `gemm_sm90_fprop_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 4391 of `gemm_sm90_fprop_f16`: `setp.ge.u32` is always false",
            "gemm_f16: line 8393 of `gemm_sm90_wgrad_f16`: `min.u32` takes its first operand",
            "gemm_f16: line 8399 of `gemm_sm90_wgrad_f16`: `setp.ge.u32` is always false",
        ],
    },
    Survivors {
        reason: "whether a tile begins outside of the output: the scheduler gives out none that does",
        mutants: &[
            "gemm_bf16: line 1072 of `gemm_sm90_dgrad_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 5029 of `gemm_sm90_fprop_bf16`: `setp.le.u32` is always false",
            "gemm_bf16: line 9083 of `gemm_sm90_wgrad_bf16`: `setp.le.u32` is always false",
            "gemm_f16: line 1072 of `gemm_sm90_dgrad_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 5030 of `gemm_sm90_fprop_f16`: `setp.le.u32` is always false",
            "gemm_f16: line 9085 of `gemm_sm90_wgrad_f16`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "a whole stage then clears the rows from its last on, which are none: needless work, the same result",
        mutants: &[
            "gemm_bf16: line 8891 of `gemm_sm90_wgrad_bf16`: `setp.lt.u32` is always true",
            "gemm_f16: line 8893 of `gemm_sm90_wgrad_f16`: `setp.lt.u32` is always true",
        ],
    },
    Survivors {
        reason: "the last eight columns of a row are then loaded one by one, as unaligned ones are: slower, the same result",
        mutants: &[
            "reduce: line 159 of `dbias_partial`: `setp.le.u32` is always false",
            "reduce: line 1060 of `dscales`: `setp.le.u32` is always false",
        ],
    },
    Survivors {
        reason: "the store behind it releases all that the thread has written, so the fence says it twice",
        mutants: &["setup: line 1290 of `pointer_setup`: without `fence.acq_rel.sys`"],
    },
    Survivors {
        reason: "it frees the shared memory of a scan for the next, and this scan is the last",
        mutants: &["setup: line 930 of `pointer_setup`: without `bar.sync`"],
    },
];
