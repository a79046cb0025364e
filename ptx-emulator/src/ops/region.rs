//! The part of a memory that lanes of an instruction access: what they do there is recorded and
//! compared with what others did.

use super::access::Addresses;
use crate::execute::Outcome;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::race::{self, LaneAccess, Overlap, RaceKind, Races, Shadow, Stored, Strength, WarpId};

/// The bytes of one memory, the lanes that access it and where in it.
pub(crate) struct Region<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) mask: u32,
    /// Offsets in `bytes` of the lanes of the mask; they are in bounds.
    pub(crate) offsets: Addresses,
    /// The state space, for reports.
    pub(crate) space: &'static str,
    /// What must be added to an offset to get an address in the space, for reports.
    pub(crate) base: u64,
    /// What must be added to an offset to get a number that no other memory has.
    pub(crate) key: u64,
    /// Absent for memory that no other thread can reach, and when checks are off.
    pub(crate) shadow: Option<&'a mut Shadow>,
    pub(crate) races: &'a mut Races,
    pub(super) warp: WarpId,
    pub(super) line: u32,
    pub(super) size: u32,
    /// What this is called if it cannot be written.
    pub(super) constant: Option<&'static str>,
}

/// What a region's accesses do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Read,
    Write,
    /// Lanes write the same byte, but the same value.
    WriteSame,
    /// Read, changed and written as one.
    Update,
}

impl Region<'_> {
    /// Records the accesses and compares them with earlier ones.
    pub(crate) fn note(&mut self, effect: Effect, strength: Strength) -> Outcome {
        if effect != Effect::Read {
            self.check_writable()?;
        }
        self.record(effect, strength, None)
    }

    fn check_writable(&self) -> Outcome {
        match self.constant {
            Some(name) => Err(Fault::operand(format!("{name} cannot be written"))),
            None => Ok(()),
        }
    }

    /// As [`note`](Self::note) for a store before it is carried out. `data` holds the bytes of all
    /// lanes, each as far from the one before. Lanes that store the same value to the same place
    /// do not race.
    pub(crate) fn note_store(&mut self, strength: Strength, data: &[u8]) -> Outcome {
        self.check_writable()?;
        if self.shadow.is_none() {
            return Ok(());
        }
        let same = strength == Strength::Weak && self.is_one_value(data);
        let effect = if same { Effect::WriteSame } else { Effect::Write };
        self.record(effect, strength, Some(data))
    }

    /// Whether all lanes write the same to the same place.
    fn is_one_value(&self, data: &[u8]) -> bool {
        let (stride, size) = (data.len() / 32, self.size as usize);
        let bytes = |lane: usize| &data[lane * stride..lane * stride + size];
        let mut rest = lanes(self.mask);
        let Some(first) = rest.next() else { return true };
        rest.all(|lane| self.offsets[lane] == self.offsets[first] && bytes(lane) == bytes(first))
    }

    fn record(&mut self, effect: Effect, strength: Strength, data: Option<&[u8]>) -> Outcome {
        let Some(shadow) = self.shadow.as_deref_mut() else { return Ok(()) };
        let access = LaneAccess {
            warp: self.warp,
            mask: self.mask,
            addresses: &self.offsets,
            bytes: self.size,
            strength,
            site: self.line,
        };
        let stored = data.map(|after| Stored { before: self.bytes, after });
        let races = &mut *self.races;
        let checked = match effect {
            Effect::Read => races.read_lanes(shadow, &access),
            Effect::Write => races.write_lanes(shadow, &access, Overlap::Report, stored),
            Effect::WriteSame => races.write_lanes(shadow, &access, Overlap::SameValue, stored),
            Effect::Update => races.atomic_lanes(shadow, &access),
        };
        checked.map_err(|report| race_fault(self.races, &report, self.space, self.base))
    }

    /// Copies the bytes of each lane to the front of its place in `data`.
    pub(crate) fn read<const WIDEST: usize>(&self, data: &mut [[u8; WIDEST]; 32]) {
        match self.size {
            1 => self.read_exact::<1, WIDEST>(data),
            2 => self.read_exact::<2, WIDEST>(data),
            4 => self.read_exact::<4, WIDEST>(data),
            8 => self.read_exact::<8, WIDEST>(data),
            16 => self.read_exact::<16, WIDEST>(data),
            size => {
                for lane in lanes(self.mask) {
                    data[lane][..size as usize].copy_from_slice(self.lane(lane));
                }
            }
        }
    }

    /// Copies of a constant size need no call.
    #[inline(always)]
    fn read_exact<const N: usize, const WIDEST: usize>(&self, data: &mut [[u8; WIDEST]; 32]) {
        for lane in lanes(self.mask) {
            let bytes = self.bytes.get(self.offsets[lane] as usize..);
            let bytes = bytes.and_then(|own| own.first_chunk::<N>());
            if let (Some(to), Some(bytes)) = (data[lane].first_chunk_mut::<N>(), bytes) {
                *to = *bytes;
            }
        }
    }

    /// Copies the front of each lane's place in `data` to its bytes.
    pub(crate) fn write<const WIDEST: usize>(&mut self, data: &[[u8; WIDEST]; 32]) {
        match self.size {
            1 => self.write_exact::<1, WIDEST>(data),
            2 => self.write_exact::<2, WIDEST>(data),
            4 => self.write_exact::<4, WIDEST>(data),
            8 => self.write_exact::<8, WIDEST>(data),
            16 => self.write_exact::<16, WIDEST>(data),
            size => {
                for lane in lanes(self.mask) {
                    self.lane_mut(lane).copy_from_slice(&data[lane][..size as usize]);
                }
            }
        }
    }

    #[inline(always)]
    fn write_exact<const N: usize, const WIDEST: usize>(&mut self, data: &[[u8; WIDEST]; 32]) {
        for lane in lanes(self.mask) {
            let bytes = self.bytes.get_mut(self.offsets[lane] as usize..);
            let bytes = bytes.and_then(|own| own.first_chunk_mut::<N>());
            if let (Some(bytes), Some(from)) = (bytes, data[lane].first_chunk::<N>()) {
                *bytes = *from;
            }
        }
    }

    /// The bytes of a lane.
    pub(crate) fn lane(&self, lane: usize) -> &[u8] {
        let start = self.offsets[lane] as usize;
        &self.bytes[start..start + self.size as usize]
    }

    /// The bytes of a lane.
    pub(crate) fn lane_mut(&mut self, lane: usize) -> &mut [u8] {
        let start = self.offsets[lane] as usize;
        &mut self.bytes[start..start + self.size as usize]
    }
}

/// What a report of the race checker means here.
pub(crate) fn race_fault(
    races: &Races,
    report: &race::Report,
    space: &'static str,
    base: u64,
) -> Fault {
    let address = base + report.address;
    let detail = match &report.earlier {
        Some(who) => {
            let earlier = races.describe(who);
            let wanted = match report.kind {
                RaceKind::Race => races.wanted_wait(who),
                _ => "",
            };
            let relation = match report.kind {
                RaceKind::Unchanging => "it takes the memory for unchanging, but there was the",
                _ => "nothing orders it after the",
            };
            format!("{relation} {earlier}, in PTX line {}{wanted}", who.site)
        }
        None => "nobody has written it".to_owned(),
    };
    let kind = match report.kind {
        RaceKind::Uninitialised => ReportKind::Uninitialised { address, detail },
        RaceKind::Unchanging => ReportKind::Unchanging { address, detail },
        RaceKind::MissingProxyFence => ReportKind::MissingProxyFence { space, address, detail },
        RaceKind::Race | RaceKind::SameInstruction => ReportKind::Race { space, address, detail },
    };
    Fault { kind: Box::new(kind), lane: Some(report.lane) }
}
