//! Sizes, offsets and numbers against cudarc's, which are generated from the driver's headers.

use std::mem::{align_of, offset_of, size_of};

use cudarc::driver::sys;

use super::super::ffi;

#[test]
fn structs_have_the_drivers_layout() {
    use sys::CUDA_KERNEL_NODE_PARAMS_v2 as Node;
    assert_eq!(size_of::<ffi::LaunchConfig>(), size_of::<sys::CUlaunchConfig>());
    assert_eq!(align_of::<ffi::LaunchConfig>(), align_of::<sys::CUlaunchConfig>());
    let offsets = [
        (offset_of!(ffi::LaunchConfig, grid), offset_of!(sys::CUlaunchConfig, gridDimX)),
        (offset_of!(ffi::LaunchConfig, block), offset_of!(sys::CUlaunchConfig, blockDimX)),
        (
            offset_of!(ffi::LaunchConfig, shared_bytes),
            offset_of!(sys::CUlaunchConfig, sharedMemBytes),
        ),
        (offset_of!(ffi::LaunchConfig, stream), offset_of!(sys::CUlaunchConfig, hStream)),
        (offset_of!(ffi::LaunchConfig, attributes), offset_of!(sys::CUlaunchConfig, attrs)),
        (offset_of!(ffi::LaunchConfig, attribute_count), offset_of!(sys::CUlaunchConfig, numAttrs)),
        (offset_of!(ffi::KernelNodeParams, function), offset_of!(Node, func)),
        (offset_of!(ffi::KernelNodeParams, grid), offset_of!(Node, gridDimX)),
        (offset_of!(ffi::KernelNodeParams, block), offset_of!(Node, blockDimX)),
        (offset_of!(ffi::KernelNodeParams, shared_bytes), offset_of!(Node, sharedMemBytes)),
        (offset_of!(ffi::KernelNodeParams, parameters), offset_of!(Node, kernelParams)),
        (offset_of!(ffi::KernelNodeParams, extra), offset_of!(Node, extra)),
        (offset_of!(ffi::KernelNodeParams, kernel), offset_of!(Node, kern)),
        (offset_of!(ffi::KernelNodeParams, context), offset_of!(Node, ctx)),
        (size_of::<ffi::KernelNodeParams>(), size_of::<Node>()),
        (offset_of!(ffi::LaunchAttribute, id), offset_of!(sys::CUlaunchAttribute, id)),
        (offset_of!(ffi::LaunchAttribute, value), offset_of!(sys::CUlaunchAttribute, value)),
        (size_of::<ffi::LaunchAttributeValue>(), size_of::<sys::CUlaunchAttributeValue>()),
        (align_of::<ffi::LaunchAttributeValue>(), align_of::<sys::CUlaunchAttributeValue>()),
        (size_of::<ffi::LaunchAttributeValue>(), size_of::<sys::CUkernelNodeAttrValue>()),
        (size_of::<u32>(), size_of::<sys::CUkernelNodeAttrID>()),
        (0, offset_of!(sys::CUlaunchAttributeValue, clusterDim)),
        (0, offset_of!(sys::CUlaunchAttributeValue_union__bindgen_ty_1, x)),
        (4, offset_of!(sys::CUlaunchAttributeValue_union__bindgen_ty_1, y)),
        (8, offset_of!(sys::CUlaunchAttributeValue_union__bindgen_ty_1, z)),
        (
            offset_of!(ffi::MemPoolProps, allocation_type),
            offset_of!(sys::CUmemPoolProps, allocType),
        ),
        (offset_of!(ffi::MemPoolProps, handle_types), offset_of!(sys::CUmemPoolProps, handleTypes)),
        (offset_of!(ffi::MemPoolProps, location_type), offset_of!(sys::CUmemPoolProps, location)),
        (
            offset_of!(ffi::MemPoolProps, location_id),
            offset_of!(sys::CUmemPoolProps, location) + offset_of!(sys::CUmemLocation, id),
        ),
        (
            offset_of!(ffi::MemPoolProps, security_attributes),
            offset_of!(sys::CUmemPoolProps, win32SecurityAttributes),
        ),
        (offset_of!(ffi::MemPoolProps, max_size), offset_of!(sys::CUmemPoolProps, maxSize)),
        (offset_of!(ffi::MemPoolProps, usage), offset_of!(sys::CUmemPoolProps, usage)),
    ];
    for (index, (ours, theirs)) in offsets.into_iter().enumerate() {
        assert_eq!(ours, theirs, "row {index}");
    }
    assert_eq!(size_of::<ffi::LaunchAttribute>(), size_of::<sys::CUlaunchAttribute>());
    assert_eq!(align_of::<ffi::LaunchAttribute>(), align_of::<sys::CUlaunchAttribute>());
    assert_eq!(size_of::<ffi::MemPoolProps>(), size_of::<sys::CUmemPoolProps>());
    assert_eq!(size_of::<ffi::CuTensorMap>(), size_of::<sys::CUtensorMap>());
    // Aligned at least as much: CUDA 13 asks for 128, CUDA 12 for 64.
    assert_eq!(align_of::<ffi::CuTensorMap>() % align_of::<sys::CUtensorMap>(), 0);
    assert_eq!(size_of::<ffi::CuStream>(), size_of::<sys::CUstream>());
    assert_eq!(size_of::<ffi::Code>(), size_of::<sys::CUresult>());
}

#[test]
fn numbers_are_the_drivers() {
    use ffi::{code, device_attribute as device, flag, function_attribute as function, jit};
    use sys::{
        CUdevice_attribute_enum as Device, CUfunction_attribute_enum as Function,
        CUjit_option_enum as Jit, CUstreamCaptureMode_enum as Mode,
    };
    let numbers = [
        (code::SUCCESS, sys::CUresult::CUDA_SUCCESS as u32),
        (code::OUT_OF_MEMORY, sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32),
        (code::STUB_LIBRARY, sys::CUresult::CUDA_ERROR_STUB_LIBRARY as u32),
        (code::NO_DEVICE, sys::CUresult::CUDA_ERROR_NO_DEVICE as u32),
        (code::NOT_READY, sys::CUresult::CUDA_ERROR_NOT_READY as u32),
        (device::MULTIPROCESSOR_COUNT, Device::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as u32),
        (
            device::COMPUTE_CAPABILITY_MAJOR,
            Device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as u32,
        ),
        (
            device::COMPUTE_CAPABILITY_MINOR,
            Device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as u32,
        ),
        (device::MEMORY_POOLS_SUPPORTED, Device::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED as u32),
        (function::MAX_THREADS_PER_BLOCK, Function::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as u32),
        (function::SHARED_SIZE_BYTES, Function::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32),
        (function::LOCAL_SIZE_BYTES, Function::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES as u32),
        (function::NUM_REGS, Function::CU_FUNC_ATTRIBUTE_NUM_REGS as u32),
        (
            function::MAX_DYNAMIC_SHARED_SIZE_BYTES,
            Function::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32,
        ),
        (jit::INFO_LOG_BUFFER, Jit::CU_JIT_INFO_LOG_BUFFER as u32),
        (jit::INFO_LOG_BUFFER_SIZE_BYTES, Jit::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES as u32),
        (jit::ERROR_LOG_BUFFER, Jit::CU_JIT_ERROR_LOG_BUFFER as u32),
        (jit::ERROR_LOG_BUFFER_SIZE_BYTES, Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as u32),
        (jit::LOG_VERBOSE, Jit::CU_JIT_LOG_VERBOSE as u32),
        (flag::STREAM_NON_BLOCKING, sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32),
        (flag::EVENT_DEFAULT, sys::CUevent_flags_enum::CU_EVENT_DEFAULT as u32),
        (flag::EVENT_DISABLE_TIMING, sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32),
        (flag::HOST_ALLOC_PORTABLE, sys::CU_MEMHOSTALLOC_PORTABLE),
        (flag::HOST_ALLOC_DEVICE_MAP, sys::CU_MEMHOSTALLOC_DEVICEMAP),
        (
            flag::ALLOCATION_TYPE_PINNED,
            sys::CUmemAllocationType_enum::CU_MEM_ALLOCATION_TYPE_PINNED as u32,
        ),
        (
            flag::LOCATION_TYPE_DEVICE,
            sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE as u32,
        ),
        (
            flag::POOL_RELEASE_THRESHOLD,
            sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32,
        ),
        (
            ffi::launch_attribute::CLUSTER_DIMENSION,
            sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as u32,
        ),
        (flag::CAPTURE_THREAD_LOCAL, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as u32),
        (flag::CAPTURE_RELAXED, Mode::CU_STREAM_CAPTURE_MODE_RELAXED as u32),
        (
            flag::CAPTURE_STATUS_NONE,
            sys::CUstreamCaptureStatus_enum::CU_STREAM_CAPTURE_STATUS_NONE as u32,
        ),
        (
            flag::CAPTURE_SET_DEPENDENCIES,
            sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32,
        ),
    ];
    for (index, (ours, theirs)) in numbers.into_iter().enumerate() {
        assert_eq!(ours, theirs, "row {index}");
    }
}

#[test]
fn tensor_map_numbers_are_the_drivers() {
    use ffi::tensor_map;
    use sys::CUtensorMapDataType_enum as Type;
    let numbers = [
        (tensor_map::UINT8, Type::CU_TENSOR_MAP_DATA_TYPE_UINT8 as u32),
        (tensor_map::FLOAT32, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32 as u32),
        (tensor_map::FLOAT16, Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16 as u32),
        (tensor_map::BFLOAT16, Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 as u32),
        (
            tensor_map::INTERLEAVE_NONE,
            sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE as u32,
        ),
        (tensor_map::SWIZZLE_NONE, sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_NONE as u32),
        (tensor_map::SWIZZLE_128B, sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B as u32),
        (
            tensor_map::L2_PROMOTION_256B,
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B as u32,
        ),
        (
            tensor_map::OOB_FILL_ZERO,
            sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as u32,
        ),
    ];
    for (index, (ours, theirs)) in numbers.into_iter().enumerate() {
        assert_eq!(ours, theirs, "row {index}");
    }
}
