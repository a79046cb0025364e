//! What a kernel needs of a launch.

use super::window;
use crate::module::{FunctionKind, Module};
use crate::program::{Kernel, alignment};

/// What a kernel needs of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<ParameterInfo>,
    /// The size of the parameter block in bytes.
    pub parameter_bytes: u32,
    /// Bytes of shared memory of a block that have a fixed size, without the system's 1024.
    pub static_shared_bytes: u32,
    /// The shape a block must have, in threads (`.reqntid`).
    pub required_block: Option<[u32; 3]>,
    /// The most threads a block may have (`.maxntid`).
    pub maximum_threads: Option<u32>,
    /// The shape a cluster must have, in blocks (`.reqnctapercluster`).
    pub required_cluster: Option<[u32; 3]>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParameterInfo {
    /// Its name.
    pub name: String,
    /// Where it lies in the parameter block, in bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u32,
    /// What its offset is a multiple of, in bytes.
    pub alignment: u32,
}

impl KernelInfo {
    pub(super) fn new(kernel: &Kernel, module: &Module) -> Self {
        let entry = module.functions.iter().find(|function| {
            let defined = function.kind == FunctionKind::Entry && function.body.is_some();
            defined && function.name == kernel.name
        });
        let variables = entry.map_or(&[][..], |entry| entry.parameters.as_slice());
        let places = kernel.functions.first().map_or(&[][..], |code| code.parameters.as_slice());
        let parameters = variables.iter().zip(places).map(|(variable, place)| ParameterInfo {
            name: variable.name.clone(),
            offset: place.offset,
            bytes: place.bytes,
            alignment: u32::try_from(alignment(variable)).unwrap_or(u32::MAX),
        });
        Self {
            name: kernel.name.clone(),
            parameters: parameters.collect(),
            parameter_bytes: kernel.parameter_bytes,
            static_shared_bytes: kernel.static_shared_bytes.saturating_sub(window::RESERVED_SHARED),
            required_block: kernel.required_block,
            maximum_threads: kernel.maximum_threads,
            required_cluster: kernel.required_cluster,
        }
    }
}
