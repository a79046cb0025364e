//! Bytes in and out of memory for copies, with bounds and races checked.

use super::engine::Issuer;
use crate::execute::Outcome;
use crate::execute::block::{Block, Cluster};
use crate::execute::grid::GridState;
use crate::execute::report::{Fault, ReportKind};
use crate::ops::access::race_fault;
use crate::ops::mbarrier::SharedPlace;
use crate::race::{Agent, AsyncAccess, Proxy, Stored, Strength};
use crate::tensor_map::TensorDataType;
use crate::tensor_map::geometry::Run;
use crate::tensor_map::reduce::{ReduceOp, reduce};
use crate::tensor_map::swizzle::Pattern;

/// Under whose name and clock a copy's accesses become known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) agent: Agent,
    pub(super) lanes: u32,
    pub(super) clock: u32,
    pub(super) strength: Strength,
    pub(super) proxy: Proxy,
}

impl Known {
    /// The access as the race checker takes it; nothing if accesses are not checked.
    pub(super) fn access<'a>(&self, issuer: &'a Issuer) -> Option<AsyncAccess<'a>> {
        let Self { agent, lanes, clock, strength, proxy } = *self;
        let origin = issuer.origins.iter().find(|origin| origin.lanes() & lanes != 0)?;
        Some(AsyncAccess { origin, agent, lanes, clock, strength, proxy, site: issuer.line })
    }
}

/// Bytes of shared memory inside of which swizzles exchange pieces; boxes are aligned to it.
const LINE: usize = 128;
/// The smallest piece that swizzles exchange, in bytes.
const PIECE: usize = 16;
const PIECES: usize = LINE / PIECE;

/// How data changes what is there.
pub(super) type Reduction = Option<(ReduceOp, TensorDataType)>;

fn out_of_bounds(access: &'static str, address: u64, bytes: usize, hint: String) -> Fault {
    let bytes = bytes as u64;
    ReportKind::OutOfBounds { access, space: "global", address, bytes, hint }.into()
}

/// Checks the bytes of a copy in global memory.
pub(super) fn check_global(
    grid: &mut GridState,
    access: &'static str,
    address: u64,
    bytes: u64,
) -> Result<(), ReportKind> {
    if bytes == 0 || grid.memory.find(address, bytes).is_some() {
        return Ok(());
    }
    let hint = grid.memory.hint(address);
    Err(ReportKind::OutOfBounds { access, space: "global", address, bytes, hint })
}

/// Reads global memory.
pub(super) fn read_global(
    grid: &mut GridState,
    access: Option<&AsyncAccess<'_>>,
    address: u64,
    into: &mut [u8],
) -> Outcome {
    let length = into.len();
    if length == 0 {
        return Ok(());
    }
    let Some((allocation, offset)) = grid.memory.find(address, length as u64) else {
        let hint = grid.memory.hint(address);
        return Err(out_of_bounds("copy", address, length, hint));
    };
    if let Some(access) = access {
        let checked =
            grid.races.async_read(&mut allocation.shadow, access, offset as u64, length as u64);
        checked.map_err(|report| race_fault(&grid.races, &report, "global", allocation.base))?;
    }
    if let Some(bytes) = allocation.bytes.get(offset..offset + length) {
        into.copy_from_slice(bytes);
    }
    Ok(())
}

/// Writes global memory, or reduces into it.
pub(super) fn write_global(
    grid: &mut GridState,
    access: Option<&AsyncAccess<'_>>,
    address: u64,
    data: &[u8],
    reduction: Reduction,
) -> Outcome {
    if data.is_empty() {
        return Ok(());
    }
    let Some((allocation, offset)) = grid.memory.find(address, data.len() as u64) else {
        let hint = grid.memory.hint(address);
        return Err(out_of_bounds("copy", address, data.len(), hint));
    };
    if allocation.is_constant() {
        return Err(Fault::operand("constant memory cannot be written"));
    }
    if let Some(access) = access {
        let stored = Some(Stored { before: &allocation.bytes, after: data });
        let (start, length) = (offset as u64, data.len() as u64);
        let shadow = &mut allocation.shadow;
        let checked = grid.races.async_write(shadow, access, start, length, stored);
        checked.map_err(|report| race_fault(&grid.races, &report, "global", allocation.base))?;
    }
    match allocation.bytes.get_mut(offset..offset + data.len()) {
        Some(bytes) => combine(bytes, data, reduction),
        None => Ok(()),
    }
}

/// A copy must leave mbarriers alone.
fn check_mbarriers(block: &Block, start: u32, bytes: u32) -> Outcome {
    block.mbarriers.check_access("copy", start, bytes).map_err(Fault::synchronisation)
}

/// Notes that bytes of shared memory are read; they are in bounds.
pub(super) fn note_shared_read(
    cluster: &mut Cluster,
    grid: &mut GridState,
    access: Option<&AsyncAccess<'_>>,
    place: SharedPlace,
    bytes: u32,
) -> Outcome {
    let Some(block) = cluster.blocks.get_mut(place.rank) else { return Ok(()) };
    check_mbarriers(block, place.offset, bytes)?;
    let Some(access) = access else { return Ok(()) };
    let checked =
        grid.races.async_read(&mut block.shadow, access, place.offset.into(), bytes.into());
    checked.map_err(|report| race_fault(&grid.races, &report, "shared", base(place)))
}

/// Writes shared memory, or reduces into it. The pattern permutes the chunks of the range, which
/// is aligned to 128 bytes if there is one.
pub(super) fn write_shared(
    cluster: &mut Cluster,
    grid: &mut GridState,
    access: Option<&AsyncAccess<'_>>,
    place: SharedPlace,
    (data, pattern): (&[u8], Pattern),
    reduction: Reduction,
) -> Outcome {
    let Some(block) = cluster.blocks.get_mut(place.rank) else { return Ok(()) };
    let start = place.offset as usize;
    let mut note = |start: usize, length: usize| {
        check_mbarriers(block, start as u32, length as u32)?;
        let Some(access) = access else { return Ok(()) };
        let (start, length) = (start as u64, length as u64);
        let checked = grid.races.async_write(&mut block.shadow, access, start, length, None);
        checked.map_err(|report| race_fault(&grid.races, &report, "shared", base(place)))
    };
    if pattern.is_dense() {
        note(start, data.len())?;
    } else {
        // What lies between the rows stays as it is.
        for (_, to, length) in chunks(place.offset, pattern, data.len()) {
            note(start + to, length)?;
        }
    }
    let span = pattern.span(data.len() as u64) as usize;
    let Some(target) = block.shared.get_mut(start..start + span) else { return Ok(()) };
    if pattern.is_plain() {
        return combine(target, data, reduction);
    }
    if pattern.is_dense() {
        let lines = target.chunks_mut(LINE).zip(data.chunks(LINE));
        for (address, (target, data)) in (place.offset..).step_by(LINE).zip(lines) {
            copy_line(target, data, address, pattern);
        }
        return Ok(());
    }
    for (from, to, length) in chunks(place.offset, pattern, data.len()) {
        if let (Some(target), Some(data)) =
            (target.get_mut(to..to + length), data.get(from..from + length))
        {
            target.copy_from_slice(data);
        }
    }
    Ok(())
}

/// Copies bytes out of shared memory, undoing the pattern.
pub(super) fn copy_shared(
    cluster: &Cluster,
    place: SharedPlace,
    pattern: Pattern,
    into: &mut [u8],
) {
    let start = place.offset as usize;
    let source = cluster.blocks.get(place.rank);
    let span = pattern.span(into.len() as u64) as usize;
    let source = source.and_then(|block| block.shared.get(start..start + span));
    let Some(source) = source else { return };
    if pattern.is_plain() {
        return into.copy_from_slice(source);
    }
    if pattern.is_dense() {
        let lines = into.chunks_mut(LINE).zip(source.chunks(LINE));
        for (address, (target, source)) in (place.offset..).step_by(LINE).zip(lines) {
            copy_line(target, source, address, pattern);
        }
        return;
    }
    for (to, from, length) in chunks(place.offset, pattern, into.len()) {
        if let (Some(target), Some(data)) =
            (into.get_mut(to..to + length), source.get(from..from + length))
        {
            target.copy_from_slice(data);
        }
    }
}

/// The place of each chunk in the dense box, its place in the range of shared memory, and its
/// length.
fn chunks(
    base: u32,
    pattern: Pattern,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize, usize)> {
    let run = Run { offset: 0, bytes: bytes as u32, global: None };
    let mut dense = 0;
    run.pieces(base, pattern).map(move |piece| {
        let length = piece.bytes as usize;
        let place = (dense, piece.shared.wrapping_sub(base) as usize, length);
        dense += length;
        place
    })
}

/// Copies the line at an address in shared memory from or to its place there. Every pattern is
/// an exchange of pieces of 16 bytes inside of a line, so it is its own inverse.
fn copy_line(target: &mut [u8], source: &[u8], address: u32, pattern: Pattern) {
    let moved = (pattern.apply(address) ^ address) as usize / PIECE;
    let (targets, _) = target.as_chunks_mut::<PIECE>();
    let (sources, _) = source.as_chunks::<PIECE>();
    if let (Ok(targets), Ok(sources)) =
        (<&mut [_; PIECES]>::try_from(&mut *targets), <&[_; PIECES]>::try_from(sources))
    {
        for index in 0..PIECES {
            targets[(index ^ moved) % PIECES] = sources[index];
        }
        return;
    }
    for (index, piece) in sources.iter().enumerate() {
        if let Some(target) = targets.get_mut(index ^ moved) {
            *target = *piece;
        }
    }
}

fn combine(target: &mut [u8], data: &[u8], reduction: Reduction) -> Outcome {
    let Some((op, data_type)) = reduction else {
        target.copy_from_slice(data);
        return Ok(());
    };
    reduce(op, data_type, target, data).map_err(|error| Fault::operand(error.to_string()))
}

/// What must be added to an offset in a block to get an address of the cluster.
pub(super) fn base(place: SharedPlace) -> u64 {
    SharedPlace { offset: 0, ..place }.address()
}
