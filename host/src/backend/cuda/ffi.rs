//! The driver's types and numbers, as its documentation states them. Sizes, offsets and numbers are
//! compared with those of another binding in `tests/abi.rs`.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

/// What every driver function returns. Never an enum: a newer driver may return codes unknown here.
pub(super) type Code = u32;

/// An opaque object of the driver; `T` only tells the kinds apart.
#[repr(transparent)]
pub(super) struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

pub(super) enum ContextTag {}
pub(super) enum PoolTag {}
pub(super) enum StreamTag {}
pub(super) enum EventTag {}
pub(super) enum ModuleTag {}
pub(super) enum FunctionTag {}
pub(super) enum GraphTag {}
pub(super) enum GraphExecTag {}
pub(super) enum GraphNodeTag {}

pub(super) type CuContext = Handle<ContextTag>;
pub(super) type CuPool = Handle<PoolTag>;
pub(super) type CuStream = Handle<StreamTag>;
pub(super) type CuEvent = Handle<EventTag>;
pub(super) type CuModule = Handle<ModuleTag>;
pub(super) type CuFunction = Handle<FunctionTag>;
pub(super) type CuGraph = Handle<GraphTag>;
pub(super) type CuGraphExec = Handle<GraphExecTag>;
pub(super) type CuGraphNode = Handle<GraphNodeTag>;

// SAFETY: a handle is a name that only the driver dereferences, and the driver documents its
// functions as callable from any thread; owners of handles destroy them once, in `Drop`.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as for `Send`; nothing is reachable through `&Handle` without a driver call.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(super) const NULL: Self = Self(ptr::null_mut(), PhantomData);

    pub(super) fn from_raw(raw: *mut c_void) -> Self {
        Self(raw, PhantomData)
    }

    pub(super) fn raw(self) -> *mut c_void {
        self.0
    }

    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub stream: CuStream,
    pub attributes: *mut LaunchAttribute,
    pub attribute_count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
pub(super) struct LaunchAttribute {
    pub id: u32,
    pub pad: u32,
    pub value: LaunchAttributeValue,
}

/// `CUlaunchAttributeValue`, which nodes of graphs take, too (`CUkernelNodeAttrValue`): the union
/// as numbers; a cluster's x, y and z are the first three.
#[repr(C, align(8))]
pub(super) struct LaunchAttributeValue(pub [u32; 16]);

impl LaunchAttribute {
    /// Of a kernel whose clusters have so many blocks, in x; none where blocks stand alone.
    pub(super) fn cluster(blocks: u32) -> Option<Self> {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&[blocks, 1, 1]);
        let (id, value) = (launch_attribute::CLUSTER_DIMENSION, LaunchAttributeValue(value));
        (blocks > 1).then_some(Self { id, pad: 0, value })
    }
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub(super) struct KernelNodeParams {
    pub function: CuFunction,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub parameters: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    /// A `CUkernel`, where there is no function.
    pub kernel: *mut c_void,
    /// The current context if null.
    pub context: CuContext,
}

/// `CUmemPoolProps`.
#[repr(C)]
pub(super) struct MemPoolProps {
    pub allocation_type: u32,
    pub handle_types: u32,
    pub location_type: u32,
    pub location_id: i32,
    pub security_attributes: *mut c_void,
    pub max_size: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

/// `CUtensorMap`; 64-byte aligned until CUDA 12, 128-byte aligned from CUDA 13 on.
#[repr(C, align(128))]
pub(super) struct CuTensorMap(pub [u64; 16]);

pub(super) mod code {
    use super::Code;
    pub const SUCCESS: Code = 0;
    pub const OUT_OF_MEMORY: Code = 2;
    pub const STUB_LIBRARY: Code = 34;
    pub const NO_DEVICE: Code = 100;
    pub const NOT_READY: Code = 600;
}

pub(super) mod device_attribute {
    pub const MULTIPROCESSOR_COUNT: u32 = 16;
    pub const COMPUTE_CAPABILITY_MAJOR: u32 = 75;
    pub const COMPUTE_CAPABILITY_MINOR: u32 = 76;
    pub const MEMORY_POOLS_SUPPORTED: u32 = 115;
}

pub(super) mod function_attribute {
    pub const MAX_THREADS_PER_BLOCK: u32 = 0;
    pub const SHARED_SIZE_BYTES: u32 = 1;
    pub const LOCAL_SIZE_BYTES: u32 = 3;
    pub const NUM_REGS: u32 = 4;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: u32 = 8;
}

pub(super) mod jit {
    pub const INFO_LOG_BUFFER: u32 = 3;
    pub const INFO_LOG_BUFFER_SIZE_BYTES: u32 = 4;
    pub const ERROR_LOG_BUFFER: u32 = 5;
    pub const ERROR_LOG_BUFFER_SIZE_BYTES: u32 = 6;
    pub const LOG_VERBOSE: u32 = 12;
}

pub(super) mod flag {
    pub const STREAM_NON_BLOCKING: u32 = 1;
    /// `CU_STREAM_PER_THREAD`, a handle.
    pub const STREAM_PER_THREAD: usize = 2;
    pub const EVENT_DEFAULT: u32 = 0;
    pub const EVENT_DISABLE_TIMING: u32 = 2;
    pub const HOST_ALLOC_PORTABLE: u32 = 1;
    pub const HOST_ALLOC_DEVICE_MAP: u32 = 2;
    pub const ALLOCATION_TYPE_PINNED: u32 = 1;
    pub const HANDLE_TYPE_NONE: u32 = 0;
    pub const LOCATION_TYPE_DEVICE: u32 = 1;
    pub const POOL_RELEASE_THRESHOLD: u32 = 4;
    pub const CAPTURE_THREAD_LOCAL: u32 = 1;
    pub const CAPTURE_RELAXED: u32 = 2;
    pub const CAPTURE_STATUS_NONE: u32 = 0;
    pub const CAPTURE_SET_DEPENDENCIES: u32 = 1;
}

pub(super) mod launch_attribute {
    pub const CLUSTER_DIMENSION: u32 = 4;
}

pub(super) mod tensor_map {
    pub const UINT8: u32 = 0;
    pub const FLOAT16: u32 = 6;
    pub const FLOAT32: u32 = 7;
    pub const BFLOAT16: u32 = 9;
    pub const INTERLEAVE_NONE: u32 = 0;
    pub const SWIZZLE_NONE: u32 = 0;
    pub const SWIZZLE_128B: u32 = 3;
    pub const L2_PROMOTION_256B: u32 = 3;
    pub const OOB_FILL_ZERO: u32 = 0;
}
