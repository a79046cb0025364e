//! How a tensor copy permutes shared memory (PTX ISA 9.1, 5.5.7).

use super::fields::Swizzle;

/// A swizzle ready to be applied: some of the bits from 7 on of an address are exclusive-ored into
/// the bits that number its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    mask: u32,
    shift: u32,
    /// Bytes of a row that is shorter than the swizzle's span; 0 where rows follow each other
    /// without gaps.
    row: u32,
    /// Bytes from one such row to the next.
    pitch: u32,
}

impl Pattern {
    /// The pattern of a mode; `None` for the one that exchanges 8-byte halves, whose formula is
    /// not documented well enough.
    pub(crate) const fn new(mode: Swizzle) -> Option<Self> {
        let (mask, shift) = match mode {
            Swizzle::None => (0, 4),
            Swizzle::Bytes32 => (1, 4),
            Swizzle::Bytes64 => (3, 4),
            Swizzle::Bytes128 => (7, 4),
            Swizzle::Bytes128Atom32 => (3, 5),
            Swizzle::Bytes128Atom64 => (1, 6),
            Swizzle::Bytes128Atom32Flip8 => return None,
        };
        Some(Self { mask, shift, row: 0, pitch: 0 })
    }

    /// The same for rows of so many bytes. Each starts where the swizzle's span does; the manual
    /// does not say so, it is what an H200 does.
    pub(crate) const fn with_rows(self, bytes: u32, span: Option<u32>) -> Self {
        match span {
            Some(span) if bytes < span => Self { row: bytes, pitch: span, ..self },
            _ => self,
        }
    }

    /// Whether the bytes of a box lie side by side before the swizzle.
    pub(crate) const fn is_dense(self) -> bool {
        self.row == 0
    }

    /// Bytes that a box of so many bytes spans in shared memory.
    pub(crate) const fn span(self, bytes: u64) -> u64 {
        if self.row == 0 { bytes } else { bytes.div_ceil(self.row as u64) * self.pitch as u64 }
    }

    /// Where a byte of a dense box lies from the start of the box in shared memory, before the
    /// swizzle.
    pub(crate) const fn spread(self, offset: u32) -> u32 {
        match self.row {
            0 => offset,
            row => (offset / row).wrapping_mul(self.pitch).wrapping_add(offset % row),
        }
    }

    /// How many of `bytes` bytes from `offset` of a dense box on stay together, when the box starts
    /// at a multiple of 128 bytes.
    pub(crate) const fn together(self, offset: u32, bytes: u32) -> u32 {
        let mut together = bytes;
        if self.mask != 0 {
            let chunk = 1 << self.shift;
            let rest = chunk - (self.spread(offset) & (chunk - 1));
            together = if rest < together { rest } else { together };
        }
        if self.row != 0 {
            let rest = self.row - offset % self.row;
            together = if rest < together { rest } else { together };
        }
        together
    }

    /// Where the byte of an address in the shared window goes. Its own inverse.
    pub(crate) const fn apply(self, address: u32) -> u32 {
        address ^ ((address >> 7 & self.mask) << self.shift)
    }

    /// Whether bytes move at all.
    pub(crate) const fn is_plain(self) -> bool {
        self.mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modes with their period and the bytes of their chunks.
    const MODES: [(Swizzle, u32, u32); 5] = [
        (Swizzle::Bytes32, 256, 16),
        (Swizzle::Bytes64, 512, 16),
        (Swizzle::Bytes128, 1024, 16),
        (Swizzle::Bytes128Atom32, 512, 32),
        (Swizzle::Bytes128Atom64, 256, 64),
    ];

    fn pattern(mode: Swizzle) -> Pattern {
        Pattern::new(mode).expect("a mode with a formula")
    }

    #[test]
    fn every_mode_permutes_chunks_within_its_span() {
        for (mode, period, chunk) in MODES {
            let pattern = pattern(mode);
            let span = mode.span().expect("a swizzle spans something");
            assert_eq!(pattern.together(0, 4096), chunk, "{mode:?}");
            let mut hit = vec![false; 4096];
            let mut moved = 0;
            for address in 0..4096u32 {
                let target = pattern.apply(address);
                assert_eq!(target / span, address / span, "{mode:?} leaves the span");
                assert_eq!(target % chunk, address % chunk, "{mode:?} tears a chunk");
                assert_eq!(pattern.apply(target), address, "{mode:?} is no involution");
                let next = pattern.apply(address + period);
                assert_eq!(next, target + period, "{mode:?} has another period");
                assert!(!std::mem::replace(&mut hit[target as usize], true), "{mode:?} collides");
                moved += u32::from(target != address);
            }
            // A period shorter by half would not repeat.
            let half = period / 2;
            assert!((0..period).any(|a| pattern.apply(a + half) != pattern.apply(a) + half));
            assert!(moved > 0);
        }
    }

    #[test]
    fn chunks_of_rows_sit_where_the_manual_draws_them() {
        // Mode, bytes of a row, and how many rows share one step of the exclusive-or.
        let drawn =
            [(Swizzle::Bytes32, 32, 2), (Swizzle::Bytes64, 64, 1), (Swizzle::Bytes128, 128, 0)];
        for (mode, pitch, shift) in drawn {
            let chunks = pitch / 16;
            for row in 0..16u32 {
                for chunk in 0..chunks {
                    let target = pattern(mode).apply(0x4000 + row * pitch + chunk * 16);
                    let expected = chunk ^ ((row >> shift) % chunks);
                    assert_eq!(target, 0x4000 + row * pitch + expected * 16, "{mode:?} {row}");
                }
            }
        }
    }

    #[test]
    fn no_swizzle_moves_nothing_and_the_flip_has_no_pattern() {
        let plain = pattern(Swizzle::None);
        assert_eq!((plain.apply(0xfff8), plain.together(8, 999)), (0xfff8, 999));
        assert_eq!(Pattern::new(Swizzle::Bytes128Atom32Flip8), None);
    }
}
