//! Arguments of the kernels that pad groups of tokens.

/// Arguments of `pad_rows` and `unpad_rows`: tokens `[rows, row_bytes]` to
/// `[padded rows, row_bytes]` or back.
///
/// The group table comes from a set-up whose `row_align` is what groups are padded to. Rows that
/// pad a group become zeros; rows behind the last group are not written.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::NoUninit))]
pub struct PadArgs {
    /// Device address of the group table.
    pub table: u64,
    /// Device address of the rows that are read.
    pub source: u64,
    /// Device address of the rows that are written.
    pub destination: u64,
    /// Bytes of a row, on both sides.
    pub row_bytes: u64,
    /// Number of groups.
    pub groups: u32,
    /// Zero.
    pub reserved: u32,
    /// Zero; keeps the size a multiple of the alignment.
    pub reserved2: u64,
}

const _: () = assert!(size_of::<PadArgs>() == 48);
