//! Why a tensor map is refused.

use super::fields::{Interleave, OutOfBoundsFill, Swizzle, TensorDataType};
use crate::arch::Arch;

/// A tensor map breaks a rule of `cuTensorMapEncodeTiled`, or is none at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// The number of dimensions.
    #[error("a tensor map of {rank} dimensions was asked for, 1 to 5 are possible")]
    Rank {
        /// The number of extents.
        rank: usize,
    },
    /// A list whose length does not fit the number of dimensions.
    #[error("{given} {list} were given, a map of {rank} dimensions needs {needed}")]
    Length {
        /// Which list.
        list: &'static str,
        /// Its length.
        given: usize,
        /// The length that would fit.
        needed: usize,
        /// The number of extents.
        rank: usize,
    },
    /// The alignment of the tensor.
    #[error("the tensor's address is {address:#x}, a multiple of {alignment} is needed")]
    Address {
        /// The address.
        address: u64,
        /// What it has to be a multiple of.
        alignment: u64,
    },
    /// An extent of the tensor.
    #[error("extent {dimension} is {extent}, 1 to 2^32 is possible")]
    Extent {
        /// Which dimension.
        dimension: usize,
        /// The extent.
        extent: u64,
    },
    /// The innermost extent of a packed type.
    #[error("extent 0 is {extent}, {data_type:?} needs a multiple of {multiple}")]
    PackedExtent {
        /// The extent.
        extent: u64,
        /// What it has to be a multiple of.
        multiple: u64,
        /// The type.
        data_type: TensorDataType,
    },
    /// The alignment of a stride.
    #[error(
        "the stride of dimension {dimension} is {stride} bytes, a multiple of {multiple} is needed"
    )]
    StrideAlignment {
        /// Which dimension, 1 and on.
        dimension: usize,
        /// The stride in bytes.
        stride: u64,
        /// What it has to be a multiple of.
        multiple: u64,
    },
    /// The size of a stride.
    #[error("the stride of dimension {dimension} is {stride} bytes, less than 2^40 is possible")]
    StrideSize {
        /// Which dimension, 1 and on.
        dimension: usize,
        /// The stride in bytes.
        stride: u64,
    },
    /// An extent of the box.
    #[error("box extent {dimension} is {tile}, 1 to 256 is possible")]
    Tile {
        /// Which dimension.
        dimension: usize,
        /// The extent.
        tile: u32,
    },
    /// The innermost extent of the box of a packed type.
    #[error("box extent 0 is {tile}, {data_type:?} needs 128")]
    PackedTile {
        /// The extent.
        tile: u32,
        /// The type.
        data_type: TensorDataType,
    },
    /// The alignment of a row of the box.
    #[error("a row of the box has {bytes} bytes, a multiple of 16 is needed")]
    RowAlignment {
        /// The bytes of a row.
        bytes: u64,
    },
    /// The length of a row of the box.
    #[error("a row of the box has {bytes} bytes, at most {span} are possible with {swizzle:?}")]
    RowLength {
        /// The bytes of a row.
        bytes: u64,
        /// The bytes that the swizzle spans.
        span: u32,
        /// The swizzle.
        swizzle: Swizzle,
    },
    /// A stride between copied elements.
    #[error("element stride {dimension} is {stride}, 1 to 8 is possible")]
    ElementStride {
        /// Which dimension.
        dimension: usize,
        /// The stride in elements.
        stride: u32,
    },
    /// Interleaving with too few dimensions.
    #[error("{interleave:?} with {rank} dimensions was asked for, at least 3 are needed")]
    InterleaveRank {
        /// The layout.
        interleave: Interleave,
        /// The number of dimensions.
        rank: usize,
    },
    /// Interleaving by 32 bytes with a swizzle other than that of 32 bytes.
    #[error("interleaving by 32 bytes needs the swizzle of 32 bytes, {swizzle:?} was asked for")]
    InterleaveSwizzle {
        /// The swizzle.
        swizzle: Swizzle,
    },
    /// A swizzle that a packed type does not have.
    #[error("{data_type:?} cannot be copied with swizzle {swizzle:?}")]
    PackedSwizzle {
        /// The type.
        data_type: TensorDataType,
        /// The swizzle.
        swizzle: Swizzle,
    },
    /// A fill that the type does not have.
    #[error("{data_type:?} cannot be filled with {fill:?}, a floating-point type is needed")]
    Fill {
        /// The type.
        data_type: TensorDataType,
        /// The fill.
        fill: OutOfBoundsFill,
    },
    /// A type of another architecture.
    #[error("{data_type:?} needs sm_100a, the map is for {arch}")]
    ArchDataType {
        /// The type.
        data_type: TensorDataType,
        /// The architecture.
        arch: Arch,
    },
    /// A swizzle of another architecture.
    #[error("swizzle {swizzle:?} needs sm_100a, the map is for {arch}")]
    ArchSwizzle {
        /// The swizzle.
        swizzle: Swizzle,
        /// The architecture.
        arch: Arch,
    },
    /// Legal on the device, but not emulated.
    #[error("the emulator does not support {0}")]
    Unsupported(&'static str),
    /// Bytes of somebody else.
    #[error("these 128 bytes are not a tensor map made by this crate's encoder")]
    NotATensorMap,
    /// A field whose number means nothing.
    #[error("the tensor map's {field} is {number}, which means nothing")]
    Number {
        /// Which field.
        field: &'static str,
        /// Its number.
        number: u8,
    },
    /// An atomicity without the swizzle that has it.
    #[error("swizzle atomicity {atomicity} needs the swizzle of 128 bytes, its mode is {mode}")]
    Atomicity {
        /// The atomicity in PTX's numbering.
        atomicity: u8,
        /// The swizzle mode in PTX's numbering.
        mode: u8,
    },
}
