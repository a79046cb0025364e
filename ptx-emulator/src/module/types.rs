//! Types, state spaces and linkage.

use std::fmt;

/// Declares an enumeration whose values are words of PTX, with both directions of the spelling.
macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$inner])* $variant,)* }

        impl $name {
            /// The value a dotted word stands for; the word includes its dot.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }

            /// The dotted word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// The type a register, variable or parameter is declared with.
    ScalarType {
        /// Untyped, 8 bits.
        B8 = ".b8",
        /// Untyped, 16 bits.
        B16 = ".b16",
        /// Untyped, 32 bits.
        B32 = ".b32",
        /// Untyped, 64 bits.
        B64 = ".b64",
        /// Untyped, 128 bits.
        B128 = ".b128",
        /// Unsigned, 8 bits.
        U8 = ".u8",
        /// Unsigned, 16 bits.
        U16 = ".u16",
        /// Unsigned, 32 bits.
        U32 = ".u32",
        /// Unsigned, 64 bits.
        U64 = ".u64",
        /// Signed, 8 bits.
        S8 = ".s8",
        /// Signed, 16 bits.
        S16 = ".s16",
        /// Signed, 32 bits.
        S32 = ".s32",
        /// Signed, 64 bits.
        S64 = ".s64",
        /// IEEE half.
        F16 = ".f16",
        /// Two IEEE halves.
        F16x2 = ".f16x2",
        /// IEEE single.
        F32 = ".f32",
        /// IEEE double.
        F64 = ".f64",
        /// One bit, for guards and conditions.
        Pred = ".pred",
    }
}

impl ScalarType {
    /// The size in bytes of a value in memory; predicates have none.
    #[must_use]
    pub fn bytes(self) -> Option<u32> {
        match self {
            Self::B8 | Self::U8 | Self::S8 => Some(1),
            Self::B16 | Self::U16 | Self::S16 | Self::F16 => Some(2),
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 => Some(4),
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => Some(8),
            Self::B128 => Some(16),
            Self::Pred => None,
        }
    }

    /// The size of a value in bits; predicates have one.
    pub(crate) fn bits(self) -> u32 {
        self.bytes().map_or(1, |bytes| bytes * 8)
    }
}

words! {
    /// How many elements a vector register or variable has.
    VectorLength {
        /// Two.
        Two = ".v2",
        /// Four.
        Four = ".v4",
        /// Eight.
        Eight = ".v8",
    }
}

impl VectorLength {
    /// The number of elements.
    #[must_use]
    pub fn length(self) -> u32 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

words! {
    /// Where a variable lies.
    StateSpace {
        /// Constant memory.
        Const = ".const",
        /// Device memory.
        Global = ".global",
        /// Memory of one thread.
        Local = ".local",
        /// Parameters of entries and of calls.
        Param = ".param",
        /// Memory of a block.
        Shared = ".shared",
    }
}

words! {
    /// Who can see a symbol.
    Linkage {
        /// Defined elsewhere.
        Extern = ".extern",
        /// Seen by other modules.
        Visible = ".visible",
        /// Seen by other modules, unless one of them defines it too.
        Weak = ".weak",
        /// Defined by several modules, and the same in all.
        Common = ".common",
    }
}

words! {
    /// An element of a vector.
    Component {
        /// The first.
        X = ".x",
        /// The second.
        Y = ".y",
        /// The third.
        Z = ".z",
        /// The fourth.
        W = ".w",
        /// The first, of a colour.
        R = ".r",
        /// The second, of a colour.
        G = ".g",
        /// The third, of a colour.
        B = ".b",
        /// The fourth, of a colour.
        A = ".a",
    }
}
