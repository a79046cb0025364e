//! Boxes of tensors: from a tensor map and coordinates to bytes in global memory.

use std::rc::Rc;

use super::transfer::{Reduction, read_global, write_global};
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome, check_alignment};
use crate::machine::window::{self, Window};
use crate::ops::access::{addresses, race_fault};
use crate::program::operand::{Address, Source32};
use crate::race::{AsyncAccess, LaneAccess, Strength};
use crate::tensor_map::TensorMap;
use crate::tensor_map::geometry::{Direction, Geometry, Run, convert_loaded};

/// The dimensions of a tensor at most.
const RANK: usize = 5;
/// The alignment of tensor maps in memory.
const ALIGNMENT: u64 = 64;

/// The operands that name a box: a tensor map and coordinates, innermost first.
#[derive(Clone, Debug)]
pub(crate) struct TensorOperand {
    pub(super) map: Address,
    pub(super) coordinates: Box<[Source32]>,
}

/// A box of a tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorBox {
    pub(super) geometry: Rc<Geometry>,
    coordinates: [i32; RANK],
    rank: usize,
    direction: Direction,
}

impl TensorBox {
    /// The boxes that the executing lanes name.
    pub(super) fn of_lanes(
        operand: &TensorOperand,
        context: &mut Context<'_>,
        direction: Direction,
    ) -> Outcome<Vec<(usize, Self)>> {
        let maps = addresses(operand.map, context);
        let registers = &context.frame.registers;
        let rows: Vec<_> = operand.coordinates.iter().map(|own| registers.words(*own)).collect();
        let mut boxes = Vec::new();
        for lane in lanes(context.mask) {
            let geometry = geometry(context, lane, maps[lane])?;
            let mut coordinates = [0; RANK];
            for (place, row) in coordinates.iter_mut().zip(&rows) {
                *place = row[lane] as i32;
            }
            let own = Self { geometry, coordinates, rank: rows.len(), direction };
            own.runs().map(drop).map_err(|fault| Fault { lane: Some(lane as u32), ..fault })?;
            boxes.push((lane, own));
        }
        Ok(boxes)
    }

    fn runs(&self) -> Outcome<impl Iterator<Item = Run>> {
        let coordinates = self.coordinates.get(..self.rank).unwrap_or_default();
        let runs = self.geometry.runs(coordinates, self.direction);
        runs.map_err(|error| Fault::operand(format!("tensor copy: {error}")))
    }

    /// Stretches of the box: offset in the dense box, length, and address if they are inside of
    /// the tensor. Neighbouring rows are joined where they are neighbours in global memory too.
    pub(super) fn stretches(&self) -> Outcome<Vec<(usize, usize, Option<u64>)>> {
        let mut list: Vec<(usize, usize, Option<u64>)> = Vec::new();
        for run in self.runs()? {
            let bytes = run.bytes as usize;
            if let Some((_, length, global)) = list.last_mut() {
                let next = global.map(|address| address.wrapping_add(*length as u64));
                if next == run.global {
                    *length += bytes;
                    continue;
                }
            }
            list.push((run.offset as usize, bytes, run.global));
        }
        Ok(list)
    }

    /// Reads the box as it lies in shared memory without swizzle, with the fill outside.
    pub(super) fn read(
        &self,
        grid: &mut GridState,
        access: Option<&AsyncAccess<'_>>,
    ) -> Outcome<Vec<u8>> {
        let mut data = vec![0; self.geometry.bytes() as usize];
        let fill = self.geometry.fill();
        for (offset, length, global) in self.stretches()? {
            let Some(part) = data.get_mut(offset..offset + length) else { continue };
            match global {
                Some(address) => {
                    read_global(grid, access, address, part)?;
                    convert_loaded(self.geometry.data_type(), part);
                }
                None if fill == [0; 16] => {}
                None => {
                    for (index, byte) in part.iter_mut().enumerate() {
                        *byte = fill[(offset + index) % 16];
                    }
                }
            }
        }
        Ok(data)
    }

    /// Writes or reduces the part of the box that is inside of the tensor.
    pub(super) fn write(
        &self,
        grid: &mut GridState,
        access: Option<&AsyncAccess<'_>>,
        data: &[u8],
        reduction: Reduction,
    ) -> Outcome {
        for (offset, length, global) in self.stretches()? {
            if let (Some(address), Some(part)) = (global, data.get(offset..offset + length)) {
                write_global(grid, access, address, part, reduction)?;
            }
        }
        Ok(())
    }
}

/// Reads the tensor map at a generic address and prepares it.
fn geometry(context: &mut Context<'_>, lane: usize, address: u64) -> Outcome<Rc<Geometry>> {
    let at_lane = |kind| Fault::at_lane(lane, kind);
    let refuse = |problem: String| {
        at_lane(ReportKind::Operand(format!("tensor map at {address:#x}: {problem}")))
    };
    check_alignment("tensor map", "generic", address, ALIGNMENT).map_err(at_lane)?;
    let bytes = map_bytes(context, lane, address)?;
    let engine = &mut context.cluster.engine;
    if let Some((_, known)) = engine.maps.iter().find(|(own, _)| **own == bytes) {
        return Ok(Rc::clone(known));
    }
    let map = TensorMap::decode(&bytes, context.grid.arch);
    let map = map.map_err(|error| refuse(error.to_string()))?;
    let geometry = Geometry::new(&map).map_err(|error| refuse(error.to_string()))?;
    let geometry = Rc::new(geometry);
    engine.remember(bytes, &geometry);
    Ok(geometry)
}

fn map_bytes(context: &mut Context<'_>, lane: usize, address: u64) -> Outcome<[u8; 128]> {
    let outside = |space, hint| {
        let access = "read of a tensor map";
        let kind = ReportKind::OutOfBounds { access, space, address, bytes: 128, hint };
        Fault::at_lane(lane, kind)
    };
    let grid = &mut *context.grid;
    let checked = grid.is_checked();
    let found = match window::window(address) {
        Window::Global => {
            let Some((allocation, offset)) = grid.memory.find(address, 128) else {
                return Err(outside("global", grid.memory.hint(address)));
            };
            if checked {
                let mut offsets = [0; 32];
                offsets[lane] = offset as u64;
                // Strong, as the fences of the tensormap proxy order it, which are not followed.
                let access = LaneAccess {
                    warp: context.warp.id,
                    mask: 1 << lane,
                    addresses: &offsets,
                    bytes: 128,
                    strength: Strength::Strong,
                    site: context.line,
                };
                let noted = grid.races.read_lanes(&mut allocation.shadow, &access);
                noted.map_err(|report| {
                    race_fault(&grid.races, &report, "global", allocation.base)
                })?;
            }
            allocation.bytes.get(offset..offset + 128)
        }
        Window::Parameter => {
            let start = (address - window::PARAMETER) as usize;
            grid.parameters.get(start..start.saturating_add(128))
        }
        _ => {
            let hint = "; it must be in global, constant or parameter memory".to_owned();
            return Err(outside("generic", hint));
        }
    };
    let found = found.and_then(|bytes| bytes.try_into().ok());
    found.ok_or_else(|| outside("parameter", String::new()))
}
