//! Which bytes a tensor copy in tile mode moves (PTX ISA 9.1, 5.5 and 9.7.9.25).
//!
//! A box is dense: dimension 0 fastest, then 1 and on. It is walked in runs, stretches that are
//! contiguous both there and in global memory, or that lie outside of the tensor as a whole. Where
//! its bytes lie in shared memory is a [`Pattern`]'s affair.

use super::fields::{OutOfBoundsFill, TensorDataType, TiledMap};
use super::rules::MAX_RANK;
use super::swizzle::Pattern;

/// The most shared memory that a block can have, bytes: no larger box can be copied.
const SHARED_MEMORY: u64 = 227 * 1024;

/// What a box is moved in, bytes.
const UNIT: i64 = 16;

/// A valid map that the emulator cannot copy with, or coordinates that do not fit it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GeometryError {
    /// A type whose copies are not emulated.
    #[error("the emulator does not support tensor copies of {0:?}")]
    DataType(TensorDataType),
    /// A swizzle that is not emulated.
    #[error("the emulator does not support the swizzle that exchanges 8-byte halves")]
    Swizzle,
    /// Interleaving is not emulated.
    #[error("the emulator does not support interleaved tensor maps")]
    Interleave,
    /// A box beyond any shared memory.
    #[error("the box has {bytes} bytes, shared memory has at most {limit}")]
    Box {
        /// Bytes of the box.
        bytes: u64,
        /// Bytes of the largest shared memory.
        limit: u64,
    },
    /// As many coordinates as the instruction has, but not the map.
    #[error("{given} coordinates were given, the tensor map has {rank} dimensions")]
    Coordinates {
        /// The number of coordinates.
        given: usize,
        /// The map's dimensions.
        rank: usize,
    },
    /// An innermost coordinate within a unit of 16 bytes.
    #[error(
        "the innermost coordinate {coordinate} is {bytes} bytes from the tensor's start, which is \
         no multiple of 16 bytes: an illegal instruction on the GPU"
    )]
    Coordinate {
        /// The coordinate.
        coordinate: i32,
        /// The same in bytes.
        bytes: i64,
    },
    /// A negative coordinate of a store or reduction.
    #[error(
        "the coordinate {0} of a store or reduction is negative: an illegal instruction on the GPU"
    )]
    Negative(i32),
}

/// Which way a box is copied. The manual does not tell the differences; an H200 shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From global memory: every element outside of the tensor is filled.
    Load,
    /// To global memory: no coordinate is negative, and of a row's last 16 bytes all are written,
    /// even if the tensor ends within them.
    Store,
}

/// A stretch of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Bytes of the dense box before the run.
    pub(crate) offset: u32,
    /// Length in bytes, at least 1.
    pub(crate) bytes: u32,
    /// Address in global memory, or `None` outside of the tensor.
    pub(crate) global: Option<u64>,
}

/// A part of a run that stays together in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Address in the shared window, after the swizzle.
    pub(crate) shared: u32,
    /// Length in bytes, at least 1.
    pub(crate) bytes: u32,
    /// Address in global memory, or `None` outside of the tensor.
    pub(crate) global: Option<u64>,
}

impl Run {
    /// The pieces of the run when the box starts at `base` in the shared window, a multiple of 128:
    /// all of it without swizzle, otherwise split where the swizzle's chunks end.
    pub(crate) fn pieces(self, base: u32, pattern: Pattern) -> Pieces {
        Pieces { base, rest: self, pattern }
    }
}

/// The pieces of a [`Run`], in its order.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    base: u32,
    rest: Run,
    pattern: Pattern,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.rest.bytes == 0 {
            return None;
        }
        let bytes = self.pattern.together(self.rest.offset, self.rest.bytes);
        let address = self.base.wrapping_add(self.pattern.spread(self.rest.offset));
        let piece = Piece { shared: self.pattern.apply(address), bytes, global: self.rest.global };
        self.rest.offset += bytes;
        self.rest.bytes -= bytes;
        self.rest.global = self.rest.global.map(|address| address.wrapping_add(bytes.into()));
        Some(piece)
    }
}

/// A tensor map prepared for copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    rank: usize,
    data_type: TensorDataType,
    address: u64,
    element_bytes: u32,
    row_bytes: u32,
    bytes: u32,
    pattern: Pattern,
    fill: [u8; 16],
    /// Each dimension from 1 on; those beyond the rank have an extent and a count of 1.
    outer: [Dimension; MAX_RANK - 1],
    /// Extent of the tensor in dimension 0.
    extent: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension {
    extent: i64,
    /// Bytes.
    stride: u64,
    /// Elements from one copied element to the next.
    step: i64,
    /// Copied elements.
    count: u32,
}

impl Geometry {
    /// Prepares a map that [`TensorMap::decode`](super::TensorMap::decode) accepted.
    pub(crate) fn new(map: &TiledMap) -> Result<Self, GeometryError> {
        let element_bytes = element_bytes(map.data_type)?;
        if map.interleave != super::Interleave::None {
            return Err(GeometryError::Interleave);
        }
        let pattern = Pattern::new(map.swizzle).ok_or(GeometryError::Swizzle)?;
        let tile = map.tile.first().copied().unwrap_or(1);
        let row_bytes = tile.saturating_mul(element_bytes);
        let pattern = pattern.with_rows(row_bytes, map.swizzle.span());
        let outer = outer_dimensions(map);
        let bytes = (outer.iter())
            .fold(u64::from(row_bytes), |bytes, outer| bytes.saturating_mul(outer.count.into()));
        let span = pattern.span(bytes);
        if span > SHARED_MEMORY {
            return Err(GeometryError::Box { bytes: span, limit: SHARED_MEMORY });
        }
        Ok(Self {
            rank: map.extents.len(),
            data_type: map.data_type,
            address: map.address,
            element_bytes,
            row_bytes,
            bytes: bytes as u32,
            pattern,
            fill: fill(map.data_type, map.fill),
            outer,
            extent: extent(map, 0),
        })
    }

    /// Bytes of the whole box; what a load reports to its barrier, inside of the tensor or not.
    pub(crate) const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Bytes from the first to the last of the box in shared memory.
    pub(crate) const fn span(&self) -> u32 {
        self.pattern.span(self.bytes as u64) as u32
    }

    /// The type of the elements, for reductions.
    pub(crate) const fn data_type(&self) -> TensorDataType {
        self.data_type
    }

    /// How the box is permuted in shared memory.
    pub(crate) const fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// What loads put outside of the tensor: byte `o` of a box gets `fill()[o % 16]`, `o` counted
    /// before the swizzle.
    pub(crate) const fn fill(&self) -> [u8; 16] {
        self.fill
    }

    /// The runs of the box whose first element has these coordinates, innermost dimension first,
    /// in the order of shared memory. Global addresses that do not fit 64 bits wrap around.
    pub(crate) fn runs(
        &self,
        coordinates: &[i32],
        direction: Direction,
    ) -> Result<Runs<'_>, GeometryError> {
        let &[inner, ref others @ ..] = coordinates else { return Err(self.wrong(0)) };
        if coordinates.len() != self.rank {
            return Err(self.wrong(coordinates.len()));
        }
        let mut first = [0; MAX_RANK - 1];
        for (place, &coordinate) in first.iter_mut().zip(others) {
            *place = i64::from(coordinate);
        }
        let bytes = i64::from(inner) * i64::from(self.element_bytes);
        if bytes % UNIT != 0 {
            return Err(GeometryError::Coordinate { coordinate: inner, bytes });
        }
        let stores = direction == Direction::Store;
        if let Some(&negative) = coordinates.iter().find(|&&own| stores && own < 0) {
            return Err(GeometryError::Negative(negative));
        }
        let inner = i64::from(inner);
        let (row_bytes, element) = (i64::from(self.row_bytes), i64::from(self.element_bytes));
        let end = ((self.extent - inner) * element).clamp(0, row_bytes);
        // Rows are whole units long, so the last one is within the row.
        let end = if stores { (end + UNIT - 1) / UNIT * UNIT } else { end };
        let start = (-inner * element).clamp(0, row_bytes);
        // Byte 0 of the row, possibly before the tensor: only sums that are inside are used.
        let origin = self.address.wrapping_add_signed(inner * element);
        let mut runs = Runs {
            geometry: self,
            first,
            index: [0; MAX_RANK - 1],
            start: start as u32,
            end: end as u32,
            origin,
            row: None,
            row_offset: 0,
            within: 0,
        };
        runs.row = runs.row_address();
        Ok(runs)
    }

    const fn wrong(&self, given: usize) -> GeometryError {
        GeometryError::Coordinates { given, rank: self.rank }
    }
}

/// The runs of one copy.
#[derive(Clone, Debug)]
pub(crate) struct Runs<'a> {
    geometry: &'a Geometry,
    /// Coordinates of the first row in dimension 1 and on.
    first: [i64; MAX_RANK - 1],
    /// Copied elements before this row in dimension 1 and on.
    index: [u32; MAX_RANK - 1],
    /// Bytes of a row that lie before the tensor.
    start: u32,
    /// Bytes of a row up to where the tensor ends; 0 for a row behind it.
    end: u32,
    /// Global address of byte 0 of the row at coordinate 0 in dimension 1 and on.
    origin: u64,
    /// Global address of byte 0 of this row, or `None` if the row lies outside.
    row: Option<u64>,
    /// Bytes of the box before this row.
    row_offset: u32,
    /// Bytes of this row that have been told.
    within: u32,
}

impl Runs<'_> {
    fn row_address(&self) -> Option<u64> {
        let mut address = self.origin;
        let mut inside = true;
        for ((outer, &first), &index) in
            self.geometry.outer.iter().zip(&self.first).zip(&self.index)
        {
            let position = first + i64::from(index) * outer.step;
            inside &= (0..outer.extent).contains(&position);
            address = address.wrapping_add((position as u64).wrapping_mul(outer.stride));
        }
        inside.then_some(address)
    }

    fn advance_row(&mut self) {
        self.within = 0;
        self.row_offset += self.geometry.row_bytes;
        for (index, outer) in self.index.iter_mut().zip(&self.geometry.outer) {
            *index += 1;
            if *index < outer.count {
                break;
            }
            *index = 0;
        }
        self.row = self.row_address();
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.row_offset >= self.geometry.bytes {
            return None;
        }
        let row_bytes = self.geometry.row_bytes;
        let within = self.within;
        let (end, global) = match self.row {
            None => (row_bytes, None),
            Some(_) if within < self.start => (self.start, None),
            Some(row) if within < self.end => (self.end, Some(row.wrapping_add(within.into()))),
            Some(_) => (row_bytes, None),
        };
        let run = Run { offset: self.row_offset + within, bytes: end - within, global };
        self.within = end;
        if end == row_bytes {
            self.advance_row();
        }
        Some(run)
    }
}

/// Bytes of an element. The packed types are not emulated yet.
fn element_bytes(data_type: TensorDataType) -> Result<u32, GeometryError> {
    data_type.bytes().ok_or(GeometryError::DataType(data_type))
}

/// What a load makes of elements inside of the tensor, as an H200 does it; the documents name the
/// types only. TF32 is rounded to nearest even with its subnormals kept, also in the type whose
/// subnormals "become zero", and single precision of that kind stays as it is. Stores convert
/// nothing.
pub(crate) fn convert_loaded(data_type: TensorDataType, elements: &mut [u8]) {
    if !matches!(data_type, TensorDataType::Tf32 | TensorDataType::Tf32Ftz) {
        return;
    }
    for element in elements.as_chunks_mut::<4>().0 {
        let bits = u32::from_le_bytes(*element);
        *element = rounded_to_tf32(bits).to_le_bytes();
    }
}

fn rounded_to_tf32(bits: u32) -> u32 {
    const DROPPED: u32 = (1 << 13) - 1;
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return 0x7fff_ffff & !DROPPED;
    }
    // Half a unit less one, and one more when the last kept bit is odd. A carry out of the largest
    // exponent makes infinity.
    let half = (DROPPED >> 1) + (bits >> 13 & 1);
    bits.wrapping_add(half) & !DROPPED
}

fn extent(map: &TiledMap, dimension: usize) -> i64 {
    map.extents.get(dimension).map_or(1, |&extent| extent as i64)
}

fn outer_dimensions(map: &TiledMap) -> [Dimension; MAX_RANK - 1] {
    std::array::from_fn(|index| {
        let dimension = index + 1;
        let step = map.element_strides.get(dimension).map_or(1, |&step| step.max(1));
        let tile = map.tile.get(dimension).copied().unwrap_or(1);
        Dimension {
            extent: extent(map, dimension),
            stride: map.strides.get(index).copied().unwrap_or(0),
            step: step.into(),
            count: tile.div_ceil(step),
        }
    })
}

/// Sixteen bytes of fill. The documents promise some NaN; an H200 repeats one of 16 bits, which is
/// a NaN in each of the types.
fn fill(data_type: TensorDataType, fill: OutOfBoundsFill) -> [u8; 16] {
    const NAN: [u8; 2] = 0x7ff7u16.to_le_bytes();
    if fill == OutOfBoundsFill::Zeros || !data_type.is_float() {
        return [0; 16];
    }
    std::array::from_fn(|index| NAN[index % 2])
}
