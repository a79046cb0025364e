//! The 64-bit description of a matrix in shared memory, and where its 16-byte chunks lie.
//!
//! PTX ISA 9.7.15.5.1 ("Matrix descriptor format", "Strides"). A chunk is what one row of a core
//! matrix is: 16 contiguous bytes, which every swizzle moves as a whole.

use super::MatrixError;

/// Bits 15:14, 31:30, 48:46 and 61:52, zero on sm_90.
const RESERVED: u64 = 0b11 << 14 | 0b11 << 30 | 0b111 << 46 | 0x3FF << 52;

/// Which dimension is contiguous in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    /// K: the usual form, possible for every type.
    K,
    /// M of A or N of B: the transposed form of the 16-bit types.
    Mn,
}

/// How the bits of an address are mixed; the number is the width of the atom in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swizzle {
    /// Addresses stay as they are.
    None,
    /// Bit 7 onto bit 4.
    Bytes32,
    /// Bits 8:7 onto bits 5:4.
    Bytes64,
    /// Bits 9:7 onto bits 6:4.
    Bytes128,
}

impl Swizzle {
    /// Which bits of `address >> 7` take part.
    fn mask(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Bytes32 => 1,
            Self::Bytes64 => 3,
            Self::Bytes128 => 7,
        }
    }

    /// Bytes of one row of the atom.
    fn width(self) -> u32 {
        16 * (self.mask() + 1)
    }
}

/// A decoded descriptor; all lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The first byte, as an offset in the shared window.
    pub(crate) start: u32,
    /// The leading byte offset (LBO).
    pub(crate) leading: u32,
    /// The stride byte offset (SBO).
    pub(crate) stride: u32,
    /// Where the pattern of the swizzle starts: bits 9:7 of that address.
    pub(crate) base: u32,
    /// How addresses are mixed.
    pub(crate) swizzle: Swizzle,
}

impl Descriptor {
    /// Takes a descriptor apart; refuses reserved bits, among them the marks of sm_100.
    pub(crate) fn decode(bits: u64) -> Result<Self, MatrixError> {
        let reserved = bits & RESERVED;
        if reserved != 0 {
            return Err(MatrixError::ReservedBits { descriptor: bits, reserved });
        }
        let field = |shift: u32| ((bits >> shift) as u32 & 0x3FFF) << 4;
        Ok(Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (bits >> 49) as u32 & 7,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::Bytes128,
                2 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
        })
    }

    /// Where the chunk with bytes `16 * half..` of the K slice of row (A) or column (B) `mn` lies.
    ///
    /// Groups of eight rows are one stride apart. Inside a group the pitch of the rows is the width
    /// of the swizzle; the leading offset matters without one only, where the halves of a slice
    /// lie in different core matrices.
    pub(crate) fn k_major_chunk(&self, mn: u32, half: u32) -> u32 {
        let step = if self.swizzle == Swizzle::None { self.leading } else { 16 };
        let within = (mn % 8) * self.swizzle.width() + half * step;
        self.mix(self.start.wrapping_add((mn / 8).wrapping_mul(self.stride)).wrapping_add(within))
    }

    /// Where the chunk with the 16-bit elements `8 * mn_chunk..` of row `k` lies.
    ///
    /// Eight rows of k make an atom as wide as the swizzle: the stride leads to the next eight k,
    /// the leading offset to the next atom along MN. Without a swizzle the roles are exchanged.
    pub(crate) fn mn_major_chunk(&self, mn_chunk: u32, k: u32) -> u32 {
        let width = self.swizzle.width();
        let (mn_step, k_step) = match self.swizzle {
            Swizzle::None => (self.stride, self.leading),
            _ => (self.leading, self.stride),
        };
        let chunks = width / 16;
        let atom = (mn_chunk / chunks).wrapping_mul(mn_step).wrapping_add((k / 8) * k_step);
        let within = (k % 8) * width + (mn_chunk % chunks) * 16;
        self.mix(self.start.wrapping_add(atom).wrapping_add(within))
    }

    /// Swizzles an address by its own bits, counted from where the pattern starts.
    ///
    /// The manual defines the base offset as bits 9:7 of the pattern's start and leaves its use to
    /// the reader: here it is subtracted, so that the first row of the pattern is the unmixed one.
    fn mix(&self, address: u32) -> u32 {
        let row = (address >> 7).wrapping_sub(self.base) & self.swizzle.mask();
        address ^ (row << 4)
    }
}

/// The 16 bytes at an offset of the shared window.
pub(super) fn chunk(shared: &[u8], offset: u32) -> Result<&[u8; 16], MatrixError> {
    shared
        .get(offset as usize..)
        .and_then(|rest| rest.first_chunk::<16>())
        .ok_or(MatrixError::OutsideShared { offset, length: shared.len() })
}
