//! What a tensor map says, as typed data. The numbers are those of the CUDA driver API 13.1.

/// The type of a tensor's elements, numbered as `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TensorDataType {
    /// 8-bit integers; FP8 uses it too.
    U8 = 0,
    /// 16-bit integers.
    U16 = 1,
    /// 32-bit integers without sign.
    U32 = 2,
    /// 32-bit integers with sign.
    I32 = 3,
    /// 64-bit integers without sign.
    U64 = 4,
    /// 64-bit integers with sign.
    I64 = 5,
    /// IEEE half precision.
    F16 = 6,
    /// IEEE single precision.
    F32 = 7,
    /// IEEE double precision.
    F64 = 8,
    /// bfloat16.
    Bf16 = 9,
    /// Single precision whose subnormals become zero.
    F32Ftz = 10,
    /// TF32, stored as single precision.
    Tf32 = 11,
    /// TF32 whose subnormals become zero.
    Tf32Ftz = 12,
    /// Sixteen 4-bit values in 8 bytes, without gaps in shared memory.
    Packed4Align8 = 13,
    /// Sixteen 4-bit values in 8 bytes, 8 bytes of gap behind them in shared memory.
    Packed4Align16 = 14,
    /// Sixteen 6-bit values in 12 bytes, 4 bytes of gap behind them in shared memory.
    Packed6Align16 = 15,
}

impl TensorDataType {
    /// Every type in the order of the driver's numbers.
    pub const ALL: [Self; 16] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F32Ftz,
        Self::Tf32,
        Self::Tf32Ftz,
        Self::Packed4Align8,
        Self::Packed4Align16,
        Self::Packed6Align16,
    ];

    /// The driver's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The type with a number of the driver.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Bytes of one element; `None` for the packed types, whose elements are not whole bytes.
    pub const fn bytes(self) -> Option<u32> {
        match self {
            Self::U8 => Some(1),
            Self::U16 | Self::F16 | Self::Bf16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::Packed4Align8 | Self::Packed4Align16 | Self::Packed6Align16 => None,
        }
    }

    /// Whether an element can be NaN.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F32
                | Self::F64
                | Self::Bf16
                | Self::F32Ftz
                | Self::Tf32
                | Self::Tf32Ftz
        )
    }

    /// Whether the type has gaps in shared memory, which brings stricter alignment.
    pub(crate) const fn is_padded(self) -> bool {
        matches!(self, Self::Packed4Align16 | Self::Packed6Align16)
    }

    /// Bytes that `elements` of the type take in shared memory.
    pub(crate) const fn shared_bytes(self, elements: u32) -> u64 {
        let elements = elements as u64;
        match self.bytes() {
            Some(bytes) => elements * bytes as u64,
            None if self.is_padded() => elements,
            None => elements / 2,
        }
    }
}

/// How the channels of an image lie in memory, numbered as `CUtensorMapInterleave`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Interleave {
    /// Plain rows.
    #[default]
    None = 0,
    /// Slices of 16 bytes of channels.
    Bytes16 = 1,
    /// Slices of 32 bytes of channels.
    Bytes32 = 2,
}

impl Interleave {
    /// Every layout in the order of the driver's numbers.
    pub const ALL: [Self; 3] = [Self::None, Self::Bytes16, Self::Bytes32];

    /// The driver's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The layout with a number of the driver.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// How the chunks of a box are permuted in shared memory, numbered as `CUtensorMapSwizzle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Swizzle {
    /// Not at all.
    #[default]
    None = 0,
    /// 16-byte chunks within 32 bytes.
    Bytes32 = 1,
    /// 16-byte chunks within 64 bytes.
    Bytes64 = 2,
    /// 16-byte chunks within 128 bytes.
    Bytes128 = 3,
    /// 32-byte chunks within 128 bytes; `sm_100a`.
    Bytes128Atom32 = 4,
    /// 32-byte chunks within 128 bytes, with 8-byte halves exchanged; `sm_100a`.
    Bytes128Atom32Flip8 = 5,
    /// 64-byte chunks within 128 bytes; `sm_100a`.
    Bytes128Atom64 = 6,
}

impl Swizzle {
    /// Every mode in the order of the driver's numbers.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Bytes32,
        Self::Bytes64,
        Self::Bytes128,
        Self::Bytes128Atom32,
        Self::Bytes128Atom32Flip8,
        Self::Bytes128Atom64,
    ];

    /// The driver's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The mode with a number of the driver.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The longest row of a box, bytes; `None` without swizzle.
    pub const fn span(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Bytes32 => Some(32),
            Self::Bytes64 => Some(64),
            _ => Some(128),
        }
    }
}

/// How much of the surroundings the L2 cache fetches, numbered as `CUtensorMapL2promotion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum L2Promotion {
    /// Nothing.
    #[default]
    None = 0,
    /// 64 bytes.
    Bytes64 = 1,
    /// 128 bytes.
    Bytes128 = 2,
    /// 256 bytes.
    Bytes256 = 3,
}

impl L2Promotion {
    /// Every size in the order of the driver's numbers.
    pub const ALL: [Self; 4] = [Self::None, Self::Bytes64, Self::Bytes128, Self::Bytes256];

    /// The driver's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The size with a number of the driver.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What a load puts where a box leaves the tensor, numbered as `CUtensorMapFloatOOBfill`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OutOfBoundsFill {
    /// Zero.
    #[default]
    Zeros = 0,
    /// NaN; for floating-point types.
    Nan = 1,
}

impl OutOfBoundsFill {
    /// Every fill in the order of the driver's numbers.
    pub const ALL: [Self; 2] = [Self::Zeros, Self::Nan];

    /// The driver's number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The fill with a number of the driver.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A tensor in global memory and the box of it that one copy moves: the arguments of
/// `cuTensorMapEncodeTiled`. Dimension 0 is the innermost one, whose elements are contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledMap {
    /// The type of the elements.
    pub data_type: TensorDataType,
    /// Global address of the tensor's first element.
    pub address: u64,
    /// Elements of the tensor in each of the 1 to 5 dimensions.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next in dimension 1 and on: one fewer than the dimensions.
    pub strides: Vec<u64>,
    /// Elements that the box spans in each dimension.
    pub tile: Vec<u32>,
    /// Every how manyth element of the box's span is copied; that of dimension 0 has no effect.
    pub element_strides: Vec<u32>,
    /// How the channels lie in memory.
    pub interleave: Interleave,
    /// How the box is permuted in shared memory.
    pub swizzle: Swizzle,
    /// What the L2 cache fetches besides.
    pub l2_promotion: L2Promotion,
    /// What loads put outside of the tensor.
    pub fill: OutOfBoundsFill,
}
