//! What the kernels of a run moved. Nobody can measure the products of Blackwell on a GPU here, so
//! a broken one is also noticed if it moves other data than the unbroken one, though it computes
//! the same.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use grouped_linear::Statistics;

/// What does not depend on the order in which warps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that threads read and wrote in global memory.
    global: u64,
    /// Bytes that threads read and wrote in shared memory.
    shared: u64,
    /// Bytes that the copy engine wrote.
    copied: u64,
    /// Copies and groups of them, by threads.
    copies: u64,
    /// Bytes that are prefetched.
    prefetched: u64,
}

impl From<&Statistics> for Traffic {
    fn from(own: &Statistics) -> Self {
        let count = |mnemonic: &str| {
            let named = own.instructions.iter().filter(|(name, _)| name.starts_with(mnemonic));
            named.map(|(_, executions)| executions.threads).sum()
        };
        Self {
            global: own.global_bytes,
            shared: own.shared_bytes,
            copied: own.copied_bytes,
            copies: count("cp."),
            prefetched: own.prefetched_bytes,
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { global, shared, copied, copies, prefetched } = self;
        write!(
            f,
            "threads move {global} bytes of global and {shared} of shared memory, {copies} copies \
             {copied}, and prefetch {prefetched}"
        )
    }
}

/// Whether the traffic of a kernel is compared: of the products of Blackwell. Those of Hopper claim
/// their tiles, and are measured.
pub fn is_compared(kernel: &str) -> bool {
    kernel.starts_with("gemm_sm100_")
}

/// What is known of a kernel and the number of one of its scenarios.
type Known = HashMap<(String, usize), Option<Traffic>>;

/// What the unbroken kernels move.
static EXPECTED: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// What the unbroken kernel moves in a scenario, which `measure` finds out the first time.
///
/// # Errors
/// Those of `measure`.
pub fn expected(
    kernel: &str,
    scenario: usize,
    measure: impl FnOnce() -> Result<Option<Traffic>, String>,
) -> Result<Option<Traffic>, String> {
    let key = (kernel.to_owned(), scenario);
    let known = EXPECTED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    if let Some(known) = known {
        return Ok(known);
    }
    let measured = measure()?;
    EXPECTED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, measured);
    Ok(measured)
}
