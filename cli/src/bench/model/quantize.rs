//! Quantizers: time of the bytes they move, or of NVFP4's instructions.

use super::fitted::{
    BOTH_SHARE, COLUMN_SHARE, MORE_KERNELS, MXFP8_CODES, MXFP8_EXACT, NVFP4_BOTH, NVFP4_COLUMN,
    NVFP4_ROW, ONCE_BOTH_SHARE, ONCE_COLUMN_SHARE, ONCE_ROW_SHARE, QUANTIZE_EDGES, ROW_SHARE,
    SQUARE_SHARE,
};
use super::machine::{Generation, Machine};
use super::{Bound, setup_seconds};
use crate::bench::suite::Shape;

/// Rows and columns of the kernels' tiles.
const TILE: u64 = 128;

/// Which copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// The rowwise one.
    Row,
    /// The columnwise one.
    Column,
    /// Both, from one read.
    Both,
}

/// What becomes of a BF16 tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// FP8 with scales of 1 × 128.
    Vector,
    /// FP8 with scales of 128 × 128: of weights, without set-up.
    Square,
    /// FP8 with a scale per group; magnitudes of large groups take a read of their own.
    Group,
    /// MXFP8, a byte an element.
    Mxfp8,
    /// MXFP8 as exact numbers in BF16.
    Mxfp8Exact,
    /// NVFP4 as exact numbers in BF16; the columnwise copy is transformed. Magnitudes take a read
    /// of their own.
    Nvfp4Exact,
}

/// A quantizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantizer {
    /// What it makes.
    pub format: Format,
    /// In which orders.
    pub copies: Copies,
}

/// Those that were measured, with the name that tables have.
pub const QUANTIZERS: &[(&str, Quantizer)] = &[
    ("vector.row", Quantizer { format: Format::Vector, copies: Copies::Row }),
    ("vector.column", Quantizer { format: Format::Vector, copies: Copies::Column }),
    ("vector.both", Quantizer { format: Format::Vector, copies: Copies::Both }),
    ("square.both", Quantizer { format: Format::Square, copies: Copies::Both }),
    ("group.row", Quantizer { format: Format::Group, copies: Copies::Row }),
    ("group.column", Quantizer { format: Format::Group, copies: Copies::Column }),
    ("group.both", Quantizer { format: Format::Group, copies: Copies::Both }),
    ("mxfp8.row", Quantizer { format: Format::Mxfp8, copies: Copies::Row }),
    ("mxfp8.both", Quantizer { format: Format::Mxfp8, copies: Copies::Both }),
    ("mxfp8-exact.row", Quantizer { format: Format::Mxfp8Exact, copies: Copies::Row }),
    ("mxfp8-exact.column", Quantizer { format: Format::Mxfp8Exact, copies: Copies::Column }),
    ("mxfp8-exact.both", Quantizer { format: Format::Mxfp8Exact, copies: Copies::Both }),
    ("nvfp4-exact.row", Quantizer { format: Format::Nvfp4Exact, copies: Copies::Row }),
    ("nvfp4-exact.column", Quantizer { format: Format::Nvfp4Exact, copies: Copies::Column }),
    ("nvfp4-exact.both", Quantizer { format: Format::Nvfp4Exact, copies: Copies::Both }),
];

/// A prediction of a quantizer's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds, set-up and launch included.
    pub seconds: f64,
    /// What sets the pace.
    pub bound: Bound,
    /// Bytes of one read and of the data written, without scales: what tables count.
    pub counted_bytes: u64,
}

impl Quantizer {
    /// Whether its copies are for products that the model has of this machine: of Blackwell it has
    /// none of exact numbers or of blocks in FP32. How Blackwell's kernels quantize to NVFP4 is not
    /// modelled.
    pub fn is_for(self, machine: &Machine) -> bool {
        machine.generation == Generation::Hopper
            || matches!(self.format, Format::Group | Format::Mxfp8)
    }

    /// What features must be multiples of: lines of 16 bytes, and whole blocks.
    pub fn multiple(self) -> u64 {
        match self.format {
            Format::Vector | Format::Square | Format::Group | Format::Nvfp4Exact => 16,
            Format::Mxfp8 | Format::Mxfp8Exact => 32,
        }
    }

    /// Whether it is for weights.
    pub fn is_of_weights(self) -> bool {
        self.format == Format::Square
    }

    /// Bytes written for each element of the source.
    fn written(self) -> u64 {
        let copies = if self.copies == Copies::Both { 2 } else { 1 };
        match self.format {
            Format::Mxfp8Exact | Format::Nvfp4Exact => 2 * copies,
            _ => copies,
        }
    }

    /// Whether a scale per group takes one read: where a group has no more tiles on average than
    /// blocks run at once, as the library decides it.
    pub fn reads_once(self, machine: &Machine, shape: &Shape) -> bool {
        let tiles = shape.rows().div_ceil(TILE) * shape.k.div_ceil(TILE);
        let blocks = 2 * u64::from(machine.multiprocessors);
        self.format == Format::Group && tiles <= blocks * shape.groups()
    }

    /// Share of a copy's bandwidth.
    fn share(self, once: bool) -> f64 {
        let copies = match (self.copies, once) {
            (Copies::Row, false) => ROW_SHARE,
            (Copies::Column, false) => COLUMN_SHARE,
            (Copies::Both, false) => BOTH_SHARE,
            (Copies::Row, true) => ONCE_ROW_SHARE,
            (Copies::Column, true) => ONCE_COLUMN_SHARE,
            (Copies::Both, true) => ONCE_BOTH_SHARE,
        };
        match self.format {
            Format::Square => SQUARE_SHARE,
            Format::Mxfp8 => copies * MXFP8_CODES,
            Format::Mxfp8Exact => copies * MXFP8_EXACT,
            Format::Vector | Format::Group | Format::Nvfp4Exact => copies,
        }
    }

    /// Clocks of a multiprocessor for each element, where they may count.
    fn clocks(self) -> f64 {
        match (self.format, self.copies) {
            (Format::Nvfp4Exact, Copies::Row) => NVFP4_ROW,
            (Format::Nvfp4Exact, Copies::Column) => NVFP4_COLUMN,
            (Format::Nvfp4Exact, Copies::Both) => NVFP4_BOTH,
            _ => 0.0,
        }
    }

    /// Predicts it for X of the shape, W for squares.
    pub fn predict(self, machine: &Machine, shape: &Shape) -> Prediction {
        let of_weights = self.is_of_weights();
        let rows = if of_weights { shape.groups() * shape.n } else { shape.rows() };
        let elements = rows * shape.k;
        let counted_bytes = elements * (2 + self.written());
        // Zeros that fill up a group of the transposed copy are written, too.
        let pads = matches!(self.format, Format::Vector | Format::Group);
        let padding = if pads && self.copies != Copies::Row {
            (shape.padded_rows() - shape.rows()) * shape.k
        } else {
            0
        };
        let bytes = (counted_bytes + padding) as f64;
        let once = self.reads_once(machine, shape);
        let memory = bytes / (machine.copy_bandwidth * self.share(once));
        let multiprocessors = f64::from(machine.multiprocessors);
        let instructions = elements as f64 * self.clocks() / (multiprocessors * machine.clock.most);
        let has_more_kernels = matches!(self.format, Format::Group | Format::Nvfp4Exact);
        let twice = has_more_kernels && !once;
        let first_read = if twice { 2.0 * elements as f64 / machine.read_bandwidth } else { 0.0 };
        let setup = if of_weights { 0.0 } else { setup_seconds(shape.groups()) };
        let edges = QUANTIZE_EDGES + setup + if has_more_kernels { MORE_KERNELS } else { 0.0 };
        let work = first_read + memory.max(instructions);
        let bound = if edges > work {
            Bound::Edges
        } else if instructions > memory {
            Bound::Instructions
        } else {
            Bound::DeviceMemory
        };
        Prediction { seconds: work + edges, bound, counted_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::H200;
    use super::*;

    /// 2²⁰ elements of BF16, 3 or 6 bytes each, by hand.
    #[test]
    fn bytes_and_bounds_by_hand() {
        let shape = Shape::unnamed(vec![1024, 1024], 512, 512);
        let of = |format, copies| Quantizer { format, copies }.predict(&H200, &shape);
        let row = of(Format::Vector, Copies::Row);
        assert_eq!((row.counted_bytes, row.bound), (3 << 20, Bound::Edges));
        assert_eq!(of(Format::Mxfp8Exact, Copies::Both).counted_bytes, 6 << 20);
        assert_eq!(of(Format::Square, Copies::Both).counted_bytes, 4 << 19);

        let large = Shape::unnamed(vec![1 << 16; 8], 512, 4096);
        let of = |format, copies| Quantizer { format, copies }.predict(&H200, &large);
        let [row, both] = [Copies::Row, Copies::Both].map(|copies| of(Format::Vector, copies));
        assert_eq!((row.bound, both.bound), (Bound::DeviceMemory, Bound::DeviceMemory));
        let floor = (3u64 << 31) as f64 / 4.24e12 / 0.983;
        assert!((row.seconds - floor - 11e-6).abs() < 1e-9, "{}", row.seconds);
        assert_eq!(of(Format::Nvfp4Exact, Copies::Row).bound, Bound::Instructions);
        let reads = of(Format::Group, Copies::Row).seconds - row.seconds;
        assert!((reads - 8e-6 - (2u64 << 31) as f64 / 4.8e12).abs() < 1e-9, "{reads}");
    }

    /// 256 tiles a group, of which all blocks together hold the magnitudes: no second read.
    #[test]
    fn small_groups_are_read_once() {
        let small = Shape::unnamed(vec![1024; 64], 512, 4096);
        let of = |format| Quantizer { format, copies: Copies::Both }.predict(&H200, &small);
        let [vector, group] = [Format::Vector, Format::Group].map(|format| of(format).seconds);
        let bytes = (4u64 << 28) as f64 / 4.24e12;
        let waits = 8e-6 + bytes / 0.82 - bytes / 0.915;
        assert!((group - vector - waits).abs() < 1e-9, "{group} {vector}");
    }

    /// Rows that are no multiple of 128 cost the columnwise copy their padding.
    #[test]
    fn padding_is_written() {
        let ragged = Shape::unnamed(vec![129; 8192], 512, 512);
        let whole = Shape::unnamed(vec![129 * 64; 128], 512, 512);
        let of = |copies, shape| {
            let quantizer = Quantizer { format: Format::Vector, copies };
            quantizer.predict(&H200, shape).seconds - setup_seconds(Shape::groups(shape))
        };
        let rows = of(Copies::Row, &ragged) / of(Copies::Row, &whole);
        assert!((rows - 1.0).abs() < 1e-9, "{rows}");
        assert!(of(Copies::Column, &ragged) > 1.2 * of(Copies::Column, &whole));
    }
}
