//! The entry points: the device's expansion of [`variants!`](crate::variants).
//!
//! Each is its row's function, applied to the argument and to the address of the argument in
//! parameter memory, which is how the instructions name the tensor maps inside it.

#![allow(unused_imports)] // A build has one module's entry points.

use ptx_std::param_address;
use ptx_std::tcgen05::{One, Two};

use crate::abi::mx::{
    MxDequantizeArgs, Mxfp8Args, Nvfp4Args, Nvfp4GroupAmaxArgs, Nvfp4RowAmaxArgs,
    Nvfp4TileAmaxArgs, SwizzleArgs,
};
use crate::abi::pad::PadArgs;
use crate::abi::quantize::{DequantizeArgs, QuantizeArgs, ScaleArgs, UpdateScalesArgs};
use crate::abi::scaled::{AlignArgs, MxGemmArgs, ScaledGemmArgs};
use crate::abi::{CastArgs, DbiasArgs, DscalesArgs, GemmArgs, SetupArgs};
use crate::gemm::element::{Bf16, E4m3, E5m2, F16, F32};
use crate::gemm::product::{Dgrad, Fprop, Mxfp8, Nvfp4, Reduction, Rows, Wgrad};
use crate::gemm::scales::{Aligned, Square, Tensor, Vector};
use crate::quantize::mx::nvfp4::General;
use crate::quantize::mx::nvfp4::lines::{Exact, InCodes};

ptx_std::declare_shared_memory!();

macro_rules! entries {
    ($($feature:literal $module:literal $name:ident($args:ident) = $body:expr,
        role: $role:expr, threads: $threads:expr, cluster: $cluster:expr, shared: $shared:expr,
        tile: ($m:expr, $n:expr, $k:expr);)*) => {
        $(
            /// Kernel entry point.
            ///
            /// # Safety
            ///
            /// Launched as its row in [`KERNELS`](crate::variants::KERNELS) says; every address in
            /// the argument is valid for what its field describes.
            #[cfg(feature = $feature)]
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $name(args: $args) {
                // SAFETY: handed to the launcher; the address is of this kernel's parameter.
                unsafe { $body(&args, param_address!($name)) }
            }
        )*
    };
}

crate::variants!(entries);
