//! What a GPU has no more of, and what the driver would refuse.

use super::{LaunchConfig, LaunchError, LoadError, window};
use crate::execute::grid::LOCAL_BYTES;
use crate::module::{Module, StateSpace};
use crate::program::{Kernel, align_up, alignment};

/// Shared memory a block can have, the system's share included.
const SHARED_BYTES: u32 = 228 << 10;
/// Threads a block can have.
const BLOCK_THREADS: u32 = 1024;
/// Blocks a cluster can have, also where more than the portable eight are asked for.
pub(crate) const CLUSTER_BLOCKS: u32 = 16;
/// Bytes of constant variables a module can have.
const CONSTANT_BYTES: u64 = 64 << 10;

/// What a module's constant variables need together.
pub(super) fn check_constants(module: &Module) -> Result<(), LoadError> {
    let inner = module.functions.iter().flat_map(|function| &function.body);
    let variables = module.variables.iter().chain(inner.flat_map(|body| &body.variables));
    let constants = variables.filter(|own| own.space == StateSpace::Const);
    let bytes = constants.fold(0u64, |end, variable| {
        align_up(end, alignment(variable)).saturating_add(variable.bytes().unwrap_or(0))
    });
    if bytes <= CONSTANT_BYTES {
        return Ok(());
    }
    Err(LoadError::limit("the constant variables", bytes, CONSTANT_BYTES))
}

/// What a thread needs for the local variables of one function.
pub(super) fn check_local(kernels: Vec<Kernel>) -> Result<Vec<Kernel>, LoadError> {
    let functions = kernels.iter().flat_map(|kernel| &kernel.functions);
    match functions.into_iter().find(|code| code.local_bytes > LOCAL_BYTES) {
        None => Ok(kernels),
        Some(code) => {
            let what = format!("the local variables of `{}`", code.name);
            Err(LoadError::limit(&what, code.local_bytes, LOCAL_BYTES))
        }
    }
}

/// Checks what the driver would check. Returns the shared memory of a block, in bytes.
pub(super) fn check_launch(
    kernel: &Kernel,
    config: &LaunchConfig,
    parameters: &[u8],
) -> Result<u32, LaunchError> {
    let refuse = |text: String| Err(LaunchError::Refused(text));
    let LaunchConfig { grid, block, cluster, dynamic_shared_bytes } = *config;
    let threads = block.iter().try_fold(1u32, |product, value| product.checked_mul(*value));
    if threads.is_none_or(|threads| threads == 0 || threads > BLOCK_THREADS) || block[2] > 64 {
        return refuse(format!(
            "a block of {block:?} threads; at most {BLOCK_THREADS} are possible"
        ));
    }
    if grid.contains(&0) || grid[0] > i32::MAX as u32 || grid[1] > 65_535 || grid[2] > 65_535 {
        return refuse(format!(
            "a grid of {grid:?} blocks; 1 to (2³¹-1, 65535, 65535) are possible"
        ));
    }
    let blocks = cluster.iter().try_fold(1u32, |product, value| product.checked_mul(*value));
    if blocks.is_none_or(|blocks| blocks == 0 || blocks > CLUSTER_BLOCKS) {
        return refuse(format!(
            "a cluster of {cluster:?} blocks; 1 to {CLUSTER_BLOCKS} are possible"
        ));
    }
    if grid.iter().zip(cluster).any(|(grid, cluster)| grid % cluster != 0) {
        return refuse(format!(
            "a grid of {grid:?} blocks is no multiple of clusters of {cluster:?}"
        ));
    }
    if let Some(required) = kernel.required_block
        && required != block
    {
        return refuse(format!("a block of {block:?} threads; the kernel requires {required:?}"));
    }
    if let (Some(most), Some(threads)) = (kernel.maximum_threads, threads)
        && threads > most
    {
        return refuse(format!("a block of {threads} threads; the kernel allows {most}"));
    }
    if let Some(required) = kernel.required_cluster
        && required != cluster
    {
        return refuse(format!(
            "a cluster of {cluster:?} blocks; the kernel requires {required:?}"
        ));
    }
    let wanted = kernel.parameter_bytes as usize;
    if parameters.len() != wanted {
        let given = parameters.len();
        return refuse(format!("{given} bytes of parameters; the kernel has {wanted}"));
    }
    let shared = kernel.dynamic_shared_offset.checked_add(dynamic_shared_bytes);
    match shared {
        Some(shared) if shared <= SHARED_BYTES => {
            Ok(if dynamic_shared_bytes == 0 { kernel.static_shared_bytes } else { shared })
        }
        _ => refuse(format!(
            "{dynamic_shared_bytes} bytes of dynamic shared memory behind {} static ones; a block \
             has at most {SHARED_BYTES}, of which {} are the system's",
            kernel.static_shared_bytes - window::RESERVED_SHARED,
            window::RESERVED_SHARED
        )),
    }
}
