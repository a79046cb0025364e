//! The types that instructions name.

/// A type modifier of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DataType {
    B1,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F32x2,
    F64,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    E2m1x2,
    E2m3x2,
    E3m2x2,
    Ue8m0x2,
    U16x2,
    S16x2,
    Predicate,
}

/// How opcodes spell the types.
const WORDS: [(&str, DataType); 33] = [
    ("b1", DataType::B1),
    ("b8", DataType::B8),
    ("b16", DataType::B16),
    ("b32", DataType::B32),
    ("b64", DataType::B64),
    ("b128", DataType::B128),
    ("u8", DataType::U8),
    ("u16", DataType::U16),
    ("u32", DataType::U32),
    ("u64", DataType::U64),
    ("s8", DataType::S8),
    ("s16", DataType::S16),
    ("s32", DataType::S32),
    ("s64", DataType::S64),
    ("f16", DataType::F16),
    ("f16x2", DataType::F16x2),
    ("bf16", DataType::Bf16),
    ("bf16x2", DataType::Bf16x2),
    ("tf32", DataType::Tf32),
    ("f32", DataType::F32),
    ("f32x2", DataType::F32x2),
    ("f64", DataType::F64),
    ("e4m3", DataType::E4m3),
    ("e5m2", DataType::E5m2),
    ("e4m3x2", DataType::E4m3x2),
    ("e5m2x2", DataType::E5m2x2),
    ("e2m1x2", DataType::E2m1x2),
    ("e2m3x2", DataType::E2m3x2),
    ("e3m2x2", DataType::E3m2x2),
    ("ue8m0x2", DataType::Ue8m0x2),
    ("u16x2", DataType::U16x2),
    ("s16x2", DataType::S16x2),
    ("pred", DataType::Predicate),
];

impl DataType {
    /// The type a word of an opcode names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        WORDS.iter().find(|(own, _)| *own == word).map(|(_, ty)| *ty)
    }

    /// The word of an opcode that names the type.
    pub(crate) fn word(self) -> &'static str {
        WORDS.iter().find(|(_, ty)| *ty == self).map_or("", |(word, _)| word)
    }

    /// The size of a value in bits; predicates have one.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::B1 | Self::Predicate => 1,
            Self::B8 | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 | Self::E2m1x2 => 8,
            Self::B16
            | Self::U16
            | Self::S16
            | Self::F16
            | Self::Bf16
            | Self::E4m3x2
            | Self::E5m2x2
            | Self::E2m3x2
            | Self::E3m2x2
            | Self::Ue8m0x2 => 16,
            Self::B32
            | Self::U32
            | Self::S32
            | Self::F16x2
            | Self::Bf16x2
            | Self::Tf32
            | Self::F32
            | Self::U16x2
            | Self::S16x2 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F32x2 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    /// The size of a value in memory, in bytes.
    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Whether a narrower value is extended by its sign.
    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether values are numbers with an exponent.
    pub(crate) fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::F16x2
                | Self::Bf16
                | Self::Bf16x2
                | Self::Tf32
                | Self::F32
                | Self::F32x2
                | Self::F64
        )
    }
}
