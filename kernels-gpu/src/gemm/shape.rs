//! What the tensor-core kernels have in common, whatever the architecture: blocks of three
//! warpgroups, of which the first copies and the others finish tiles, and rows of 128 bytes.

use crate::abi::GemmArgs;

/// Rows of a block's tile.
pub const TILE_M: u32 = 128;
/// Columns of a tile.
pub const TILE_N: u32 = 256;
/// Columns of a tile of Hopper's narrow kernels.
pub const NARROW_N: u32 = 240;
/// Bytes of a swizzled row of a box.
pub const ROW_BYTES: u32 = 128;
/// Bytes of a box of 64 rows.
pub const BLOCK_BYTES: u32 = 64 * ROW_BYTES;

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Warpgroups that finish tiles.
pub const CONSUMERS: u32 = 2;
/// Warps that finish tiles.
pub const CONSUMER_WARPS: u32 = CONSUMERS * WARPGROUP / 32;
/// Registers of each thread of a block, which the roles share out anew: what the register file of
/// 65,536 has for 384 threads, in units of 8. Asking for one more would wait without end.
pub const REGISTERS: u32 = 65_536 / (WARPGROUP * (1 + CONSUMERS)) / 8 * 8;

/// Offset of the left operand's map in the argument.
pub const A_MAP: u64 = core::mem::offset_of!(GemmArgs, a_map) as u64;
/// Offset of the right operand's map in the argument.
pub const B_MAP: u64 = core::mem::offset_of!(GemmArgs, b_map) as u64;
/// Offset of the output's map in the argument.
pub const D_MAP: u64 = core::mem::offset_of!(GemmArgs, d_map) as u64;

const _: () = assert!(A_MAP.is_multiple_of(64) && B_MAP.is_multiple_of(64));
const _: () = assert!(D_MAP.is_multiple_of(64));
