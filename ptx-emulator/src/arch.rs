//! The architectures whose rules the emulator knows.

use std::fmt;
use std::str::FromStr;

/// An architecture with the features that only it has (the `a` of the target's name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// Hopper, `sm_90a`.
    Sm90a,
    /// Blackwell for data centres, `sm_100a`.
    Sm100a,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: [Self; 2] = [Self::Sm90a, Self::Sm100a];

    /// The name that `.target` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sm90a => "sm_90a",
            Self::Sm100a => "sm_100a",
        }
    }

    /// Whether modules for a `.target` run on it: its own, that of its family (the same with `f`),
    /// and those of older architectures without a suffix.
    ///
    /// ```
    /// use ptx_emulator::Arch;
    ///
    /// let runs = |target| Arch::Sm90a.runs(target);
    /// assert!(runs("sm_90a") && runs("sm_80") && !runs("sm_100") && !runs("sm_100a"));
    /// assert!(Arch::Sm100a.runs("sm_100f") && !runs("sm_100f") && !runs("sm_90f"));
    /// ```
    #[must_use]
    pub fn runs(self, target: &str) -> bool {
        let number = |name: &str| name.strip_prefix("sm_")?.parse::<u32>().ok();
        let own = self.name();
        let plain = own.trim_end_matches('a');
        // Families begin with Blackwell.
        let family = self != Self::Sm90a && target.strip_suffix('f') == Some(plain);
        target == own
            || family
            || matches!((number(target), number(plain)), (Some(theirs), Some(own)) if theirs <= own)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A target's name that is none of [`Arch::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture `{0}`; known are sm_90a and sm_100a")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let found = Self::ALL.into_iter().find(|arch| arch.name() == text);
        found.ok_or_else(|| UnknownArch(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_target() {
        for (name, arch) in [("sm_90a", Arch::Sm90a), ("sm_100a", Arch::Sm100a)] {
            assert_eq!(arch.to_string(), name);
            assert_eq!(name.parse(), Ok(arch));
        }
        for name in ["sm_90", "SM_90A", "sm_100", ""] {
            assert_eq!(name.parse::<Arch>(), Err(UnknownArch(name.to_owned())));
        }
    }
}
