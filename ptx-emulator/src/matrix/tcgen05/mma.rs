//! `tcgen05.mma` as a whole.

use super::element::Packing;
use super::form::MmaForm;
use super::instruction::Instruction;
use super::layout::Layout;
use super::product::{Decoding, Target};
use super::scale::Factors;
use super::shared::SharedMatrix;
use super::{Address, Cells, Footprint, Memory, SHIFTED_LANES, SharedRange, problem, shifted};
use crate::matrix::MatrixError;
use crate::matrix::element::ROW_BYTES;
use crate::matrix::wgmma::Scale;
use std::ops::Range;

/// Columns of tensor memory that a row of A takes.
const A_COLUMNS: u32 = ROW_BYTES as u32 / 4;

/// What the registers hold when a `tcgen05.mma` is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operands {
    /// The address of D.
    pub(crate) d: u32,
    /// The descriptor of A, or its address in tensor memory.
    pub(crate) a: u64,
    /// The descriptor of B.
    pub(crate) b: u64,
    /// The instruction descriptor.
    pub(crate) instruction: u32,
    /// The addresses of the scale factors of A and B, for kinds with some.
    pub(crate) scales: [u32; 2],
    /// `enable-input-d`.
    pub(crate) accumulate: Scale,
    /// Lanes of each block whose D is not written; a `disable-output-lane` vector, or zero.
    pub(crate) disabled: [u128; 2],
}

/// A valid product: everything but the contents of memory.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    form: MmaForm,
    instruction: Instruction,
    a: Source,
    b: SharedMatrix,
    target: Target,
    scales: Option<Scales>,
}

/// Where A comes from.
#[derive(Clone, Debug)]
enum Source {
    Shared(SharedMatrix),
    /// The columns of tensor memory; lanes are those of D.
    Tensor(Range<u32>),
}

/// The scale factors of A, one entry a block, and of B, one entry for each part of its columns that
/// has lanes of its own.
#[derive(Clone, Debug)]
struct Scales {
    a: Vec<Factors>,
    b: Vec<Factors>,
}

impl Mma {
    /// Decodes the descriptors and checks all that does not depend on memory.
    pub(crate) fn new(form: &MmaForm, operands: &Operands) -> Result<Self, MatrixError> {
        let instruction = Instruction::decode(operands.instruction, form)?;
        let d = Address::new(operands.d);
        let Instruction { m, n, elements, majors, .. } = instruction;
        let layout = Layout::new(m, form.group, form.weight_stationary, d.lane);
        if !layout.begins_at(d.lane) {
            return Err(problem(format!("D of {m} rows cannot begin at lane {}", d.lane)));
        }
        let d_columns = d.columns("D", n / layout.parts())?;
        let a = if form.a_in_tensor_memory {
            let address = Address::new(operands.a as u32);
            if address.lane != d.lane {
                let lane = address.lane;
                return Err(problem(format!(
                    "A begins at lane {lane} and D at lane {}: they must be the same",
                    d.lane
                )));
            }
            let columns = address.columns("A", A_COLUMNS)?;
            if form.shift_a && columns.start < d_columns.end && d_columns.start < columns.end {
                return Err(problem("D has columns of an A whose rows move"));
            }
            Source::Tensor(columns)
        } else {
            Source::Shared(SharedMatrix::decode("A", operands.a, majors[0], elements[0].bits())?)
        };
        let keep = match operands.accumulate {
            Scale::Overwrite => None,
            Scale::Accumulate => Some(0.5f64.powi(form.scale_input_d.unwrap_or(0) as i32)),
        };
        let target = Target {
            kind: instruction.d,
            saturate: instruction.saturate,
            keep,
            layout,
            column: d.column,
            n,
            group: form.group,
            disabled: operands.disabled,
        };
        let b = SharedMatrix::decode("B", operands.b, majors[1], elements[1].bits())?;
        let mut own = Self { form: *form, instruction, a, b, target, scales: None };
        if instruction.scales.is_some() {
            own.scales = Some(own.locate_scales(operands.scales)?);
        }
        Ok(own)
    }

    /// M, N and K, of both blocks together.
    pub(crate) fn shape(&self) -> (u32, u32, u32) {
        (self.instruction.m, self.instruction.n, self.form.kind.k())
    }

    /// What the product reads and writes.
    pub(crate) fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::default();
        let layout = self.target.layout;
        let columns = self.instruction.n / layout.parts();
        for block in 0..self.form.group.blocks() {
            let mut chunks = Vec::new();
            match &self.a {
                Source::Shared(a) => a.footprint(layout.rows(), &mut chunks),
                Source::Tensor(columns) => footprint.read.push(Cells {
                    block,
                    lanes: layout.lanes(),
                    columns: columns.clone(),
                }),
            }
            self.b.footprint(self.columns_of_block(), &mut chunks);
            merge(block, chunks, &mut footprint.shared);
            let d = Cells {
                block,
                lanes: self.target.lanes(block),
                columns: self.target.column..self.target.column + columns,
            };
            if self.target.keep.is_some() {
                footprint.read.push(d.clone());
            }
            footprint.written.push(d);
            if let Some(columns) = self.shifted_columns() {
                footprint.written.push(Cells { block, lanes: SHIFTED_LANES, columns });
            }
        }
        for factors in self.scales.iter().flat_map(|scales| scales.a.iter().chain(&scales.b)) {
            factors.footprint(&mut footprint.read);
        }
        footprint
    }

    /// Executes the product. An error leaves D as it was.
    pub(crate) fn execute(&self, memory: &mut impl Memory) -> Result<(), MatrixError> {
        match self.form.kind.k() {
            8 => self.run::<8>(memory),
            16 => self.run::<16>(memory),
            32 => self.run::<32>(memory),
            _ => self.run::<64>(memory),
        }
    }

    fn run<const K: usize>(&self, memory: &mut impl Memory) -> Result<(), MatrixError> {
        let blocks = self.form.group.blocks();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for block in 0..blocks {
            match &self.a {
                Source::Shared(matrix) => {
                    matrix.gather(memory.shared(block), self.target.layout.rows(), &mut a)?;
                }
                Source::Tensor(columns) => {
                    a.extend(self.rows_in_tensor_memory(memory, block, columns.clone())?);
                }
            }
            self.b.gather(memory.shared(block), self.columns_of_block(), &mut b)?;
        }
        let [a_factors, b_factors] = self.read_scales(memory)?;
        let a = self.decoding(0).panels::<K>(&a, &a_factors);
        let b = self.decoding(1).columns::<K>(&b, &b_factors);
        self.target.accumulate(&a, &b, memory);
        for block in 0..blocks {
            for column in self.shifted_columns().into_iter().flatten() {
                let words = shifted(&memory.column(block, column));
                memory.set_column(block, column, SHIFTED_LANES, &words);
            }
        }
        Ok(())
    }

    /// The columns of an A whose rows move. M is such that A has all lanes.
    fn shifted_columns(&self) -> Option<Range<u32>> {
        match &self.a {
            Source::Tensor(columns) if self.form.shift_a => Some(columns.clone()),
            _ => None,
        }
    }

    /// How many columns of B each block has in its shared memory.
    fn columns_of_block(&self) -> u32 {
        self.instruction.n / self.form.group.blocks() as u32
    }

    /// A (0) or B (1) as numbers.
    fn decoding(&self, operand: usize) -> Decoding {
        let Instruction { elements, negated, scales, .. } = self.instruction;
        let kind = self.form.kind;
        let packing: Packing = match &self.a {
            Source::Tensor(_) if operand == 0 => Instruction::packing_in_tensor_memory(kind),
            _ => Instruction::packing_in_shared_memory(kind),
        };
        Decoding {
            element: elements[operand],
            packing,
            negated: negated[operand],
            scales: scales.map(|scales| (scales.element, scales.vector)),
        }
    }

    /// The rows of A of a block. Where lanes have copies of others, they must be the same.
    fn rows_in_tensor_memory(
        &self,
        memory: &impl Memory,
        block: usize,
        columns: Range<u32>,
    ) -> Result<Vec<[u8; ROW_BYTES]>, MatrixError> {
        let layout = self.target.layout;
        let mut rows = vec![[0; ROW_BYTES]; layout.rows() as usize];
        for (place, column) in columns.enumerate() {
            let words = memory.column(block, column);
            for unit in layout.units(self.instruction.n) {
                let lanes = unit.lane as usize..unit.lane as usize + 8;
                for (row, lane) in (unit.row as usize..).zip(lanes) {
                    let bytes = words[lane].to_le_bytes();
                    let own = &mut rows[row].as_chunks_mut::<4>().0[place];
                    if unit.first > 0 && *own != bytes {
                        return Err(problem(format!(
                            "lane {lane} of column {column} has another A than lane {row}, of \
                             which it needs a copy"
                        )));
                    }
                    *own = bytes;
                }
            }
        }
        Ok(rows)
    }

    /// Where the scale factors are, if they fit into tensor memory.
    fn locate_scales(&self, addresses: [u32; 2]) -> Result<Scales, MatrixError> {
        let blocks = self.form.group.blocks();
        let layout = self.target.layout;
        let parts = layout.parts();
        let rows = [layout.rows(), self.instruction.n / parts];
        let mut columns = [0, 0];
        for (operand, address) in addresses.into_iter().enumerate() {
            let name = ["the scale factors of A", "the scale factors of B"][operand];
            // Libraries keep the byte in the two highest bits; hardware must ignore those.
            let address = Address::new(address & 0x3FFF_FFFF);
            if address.lane != 0 {
                return Err(problem(format!("{name} cannot begin at lane {}", address.lane)));
            }
            columns[operand] = address.columns(name, Factors::columns(rows[operand]))?.start;
        }
        let a = (0..blocks).map(|block| Factors {
            blocks: block..block + 1,
            column: columns[0],
            rows: rows[0],
            quarters: 0..4,
        });
        let b = (0..parts).map(|part| Factors {
            blocks: 0..blocks,
            column: columns[1],
            rows: rows[1],
            quarters: 4 / parts * part..4 / parts * (part + 1),
        });
        Ok(Scales { a: a.collect(), b: b.collect() })
    }

    /// The words of the scale factors of A and B, theirs lowest.
    fn read_scales(&self, memory: &impl Memory) -> Result<[Vec<u32>; 2], MatrixError> {
        let (Some(scales), Some(form)) = (&self.scales, self.instruction.scales) else {
            return Ok([Vec::new(), Vec::new()]);
        };
        let mask = u32::MAX >> (32 - 8 * form.vector.factors());
        let mut words = [Vec::new(), Vec::new()];
        let operands = [("A", &scales.a), ("B", &scales.b)].into_iter().zip(form.bytes);
        for (((name, factors), byte), words) in operands.zip(&mut words) {
            for factors in factors {
                words.extend(factors.words(memory, name, byte, mask)?);
            }
        }
        Ok(words)
    }
}

/// Appends chunks of 16 bytes as ranges that neither touch nor overlap.
fn merge(block: usize, mut chunks: Vec<u32>, ranges: &mut Vec<SharedRange>) {
    chunks.sort_unstable();
    let first = ranges.len();
    for start in chunks {
        match ranges[first..].last_mut() {
            Some(last) if start <= last.start.saturating_add(last.bytes) => {
                last.bytes = last.bytes.max((start - last.start).saturating_add(16));
            }
            _ => ranges.push(SharedRange { block, start, bytes: 16 }),
        }
    }
}
