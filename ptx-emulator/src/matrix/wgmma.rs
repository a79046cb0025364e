//! `wgmma.mma_async`: 64 rows by N columns, multiplied out of shared memory (PTX ISA 9.7.15.5).

use super::block::{self, Bytes, Precision};
use super::descriptor::{Descriptor, Major, chunk};
use super::element::ROW_BYTES;
use super::fp8::{self, Fp8Accumulation};
use super::{AccumulatorType, ElementType, MatrixError, Row};

/// What an instruction says about itself, before anything is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WgmmaForm {
    /// The shape's M, N and K.
    pub(crate) shape: (u32, u32, u32),
    /// The element type of A.
    pub(crate) a: ElementType,
    /// The element type of B.
    pub(crate) b: ElementType,
    /// The type of the accumulator.
    pub(crate) d: AccumulatorType,
    /// Whether A comes from registers.
    pub(crate) a_in_registers: bool,
    /// `imm-scale-a` is -1.
    pub(crate) negate_a: bool,
    /// `imm-scale-b` is -1.
    pub(crate) negate_b: bool,
    /// `imm-trans-a` is 1: A lies in shared memory with M contiguous.
    pub(crate) transpose_a: bool,
    /// `imm-trans-b` is 1: B lies in shared memory with N contiguous.
    pub(crate) transpose_b: bool,
    /// `.satfinite`.
    pub(crate) saturate: bool,
}

/// A valid `wgmma.mma_async`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wgmma {
    form: WgmmaForm,
}

/// Where A comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// Shared memory, by its descriptor.
    Shared(u64),
    /// Registers: `[warp][register]`.
    Registers(&'a [[Row; 4]; 4]),
}

/// How a warpgroup's instruction meets its accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// D = A * B: what D held does not matter.
    Overwrite,
    /// D = A * B + D.
    Accumulate,
}

impl WgmmaForm {
    /// Everything the manual's tables of shapes and types refuse, in words.
    fn problem(&self) -> Option<String> {
        let (m, n, k) = self.shape;
        let types = format!("{:?}.{:?}.{:?}", self.d, self.a, self.b);
        if !types_match(self.a, self.b, self.d) {
            return Some(format!("wgmma has no types {types}"));
        }
        if m != 64 || k != self.a.per_row() {
            let right = self.a.per_row();
            return Some(format!("wgmma {types} has the shape m64nNk{right}, not m{m}nNk{k}"));
        }
        let columns = 8..=256;
        if !n.is_multiple_of(8) || !columns.contains(&n) {
            return Some(format!("wgmma has no N of {n}: 8 to 256 in steps of 8"));
        }
        if self.a.is_integer() && n > 32 && !n.is_multiple_of(16) {
            return Some(format!("wgmma {types} has no N of {n}: above 32 in steps of 16"));
        }
        let halves = matches!(self.a, ElementType::Bf16 | ElementType::F16);
        if (self.transpose_a || self.transpose_b) && !halves {
            return Some(format!("wgmma {types} takes no transposed operands"));
        }
        if self.transpose_a && self.a_in_registers {
            return Some("wgmma cannot transpose an A that is in registers".to_owned());
        }
        if (self.negate_a || self.negate_b) && self.a.is_integer() {
            return Some(format!("wgmma {types} cannot negate operands"));
        }
        if self.saturate && (!self.a.is_integer() || self.a == ElementType::B1) {
            return Some(format!("wgmma {types} has no .satfinite"));
        }
        None
    }
}

/// Whether two element types may be multiplied into an accumulator.
fn types_match(a: ElementType, b: ElementType, d: AccumulatorType) -> bool {
    use ElementType::{B1, Bf16, F16, S8, Tf32, U8};
    match d {
        AccumulatorType::F32 => {
            a.is_fp8() && b.is_fp8() || a == b && matches!(a, Bf16 | F16 | Tf32)
        }
        AccumulatorType::F16 => a.is_fp8() && b.is_fp8() || (a, b) == (F16, F16),
        AccumulatorType::S32 => matches!(a, S8 | U8) && matches!(b, S8 | U8) || (a, b) == (B1, B1),
    }
}

impl Wgmma {
    /// Checks a form.
    pub(crate) fn new(form: WgmmaForm) -> Result<Self, MatrixError> {
        match form.problem() {
            Some(problem) => Err(MatrixError::Form(problem)),
            None => Ok(Self { form }),
        }
    }

    /// The form it was made of.
    pub(crate) fn form(&self) -> &WgmmaForm {
        &self.form
    }

    /// How many registers D has in each thread: N/2, or N/4 for `f16`.
    pub(crate) fn accumulator_registers(&self) -> usize {
        self.form.shape.1 as usize / 8 * self.block_registers()
    }

    /// Executes the instruction for all four warps at once.
    ///
    /// `shared` is the shared window from offset 0. `d` holds `accumulator_registers` rows for
    /// warp 0, then as many for warp 1, 2 and 3.
    pub(crate) fn execute(
        &self,
        a: Source<'_>,
        b: u64,
        scale: Scale,
        shared: &[u8],
        d: &mut [Row],
        fp8: Fp8Accumulation,
    ) -> Result<(), MatrixError> {
        let expected = 4 * self.accumulator_registers();
        if d.len() != expected {
            return Err(MatrixError::Registers { operand: "D", expected, found: d.len() });
        }
        let a = self.gather_a(a, shared)?;
        let b = Descriptor::decode(b)?;
        let context = Context { wgmma: self, a: &a, b, scale, shared };
        match self.form.a {
            ElementType::B1 => context.bits(d),
            ElementType::Tf32 => context.exact::<8>(d),
            ElementType::Bf16 | ElementType::F16 => context.exact::<16>(d),
            ElementType::S8 | ElementType::U8 => context.exact::<32>(d),
            ElementType::E4m3 | ElementType::E5m2 => match fp8 {
                Fp8Accumulation::Exact => context.exact::<32>(d),
                Fp8Accumulation::Hardware => context.reduced(d),
            },
        }
    }

    /// Appends the offsets of the 16-byte chunks of A that a warp (0 to 3) reads: its 16 rows.
    pub(crate) fn footprint_a(
        &self,
        a: u64,
        warp: u32,
        chunks: &mut Vec<u32>,
    ) -> Result<(), MatrixError> {
        let a = Descriptor::decode(a)?;
        let first = warp % 4 * 2;
        (first..first + 2).for_each(|group| footprint(&a, self.major_a(), group, chunks));
        Ok(())
    }

    /// Appends the offsets of the 16-byte chunks of B that every warp reads.
    pub(crate) fn footprint_b(&self, b: u64, chunks: &mut Vec<u32>) -> Result<(), MatrixError> {
        let b = Descriptor::decode(b)?;
        let groups = self.form.shape.1 / 8;
        (0..groups).for_each(|group| footprint(&b, self.major_b(), group, chunks));
        Ok(())
    }

    fn major_a(&self) -> Major {
        if self.form.transpose_a { Major::Mn } else { Major::K }
    }

    fn major_b(&self) -> Major {
        if self.form.transpose_b { Major::Mn } else { Major::K }
    }

    /// Registers of a block of eight columns.
    fn block_registers(&self) -> usize {
        if self.form.d == AccumulatorType::F16 { 2 } else { 4 }
    }

    /// The rows of A, 16 a warp.
    fn gather_a(&self, a: Source<'_>, shared: &[u8]) -> Result<[Bytes<16>; 4], MatrixError> {
        let mut rows = [[[0; ROW_BYTES]; 16]; 4];
        match (a, self.form.a_in_registers) {
            (Source::Registers(warps), true) => {
                for (rows, registers) in rows.iter_mut().zip(warps) {
                    fragment_rows(registers, rows);
                }
            }
            (Source::Shared(bits), false) => {
                let a = Descriptor::decode(bits)?;
                for (warp, rows) in (0..).zip(&mut rows) {
                    for (half, rows) in (0..).zip(rows.as_chunks_mut::<8>().0) {
                        gather(&a, self.major_a(), 2 * warp + half, shared, rows)?;
                    }
                }
            }
            (Source::Registers(_), false) | (Source::Shared(_), true) => {
                let problem = "A comes from elsewhere than the form of the wgmma says";
                return Err(MatrixError::Form(problem.to_owned()));
            }
        }
        Ok(rows)
    }
}

/// The rows of 32 bytes (or 16, with two registers) that a warp's fragment of A holds.
///
/// Register r of lane 4g + t has bytes `4t + 16 * (r / 2)..` of row `g + 8 * (r % 2)`, whatever
/// the type (PTX ISA 9.7.15.5.1.1, the same for `mma`).
pub(super) fn fragment_rows(registers: &[Row], rows: &mut Bytes<16>) {
    for (index, register) in registers.iter().enumerate() {
        for (lane, word) in register.iter().enumerate() {
            let first = 4 * (lane % 4) + 16 * (index / 2);
            let row = &mut rows[(lane / 4 + 8 * (index % 2)) % 16];
            if let Some(bytes) = row.get_mut(first..first + 4) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Reads eight rows of A or columns of B, number `8 * group..`.
fn gather(
    descriptor: &Descriptor,
    major: Major,
    group: u32,
    shared: &[u8],
    rows: &mut Bytes<8>,
) -> Result<(), MatrixError> {
    match major {
        Major::K => {
            for (row, bytes) in (8 * group..).zip(rows) {
                for (half, bytes) in (0..).zip(bytes.as_chunks_mut::<16>().0) {
                    *bytes = *chunk(shared, descriptor.k_major_chunk(row, half))?;
                }
            }
        }
        Major::Mn => {
            for k in 0..16 {
                let elements = chunk(shared, descriptor.mn_major_chunk(group, k))?;
                for (row, element) in rows.iter_mut().zip(elements.as_chunks::<2>().0) {
                    row.as_chunks_mut::<2>().0[k as usize] = *element;
                }
            }
        }
    }
    Ok(())
}

/// The chunks that `gather` reads.
fn footprint(descriptor: &Descriptor, major: Major, group: u32, chunks: &mut Vec<u32>) {
    match major {
        Major::K => chunks.extend(
            (0..16).map(|index| descriptor.k_major_chunk(8 * group + index / 2, index % 2)),
        ),
        Major::Mn => chunks.extend((0..16).map(|k| descriptor.mn_major_chunk(group, k))),
    }
}

/// One execution.
struct Context<'a> {
    wgmma: &'a Wgmma,
    a: &'a [Bytes<16>; 4],
    b: Descriptor,
    scale: Scale,
    shared: &'a [u8],
}

impl Context<'_> {
    /// All types whose values are numbers, summed exactly.
    fn exact<const K: usize>(&self, d: &mut [Row]) -> Result<(), MatrixError> {
        let form = self.wgmma.form;
        let a = self.decode_a::<K>().map(|rows| block::widen(&rows));
        self.for_each_block(d, |columns| {
            let b = block::widen(&block::panel::<K>(form.b, columns));
            let a = &a;
            move |warp, registers: &mut [Row]| {
                let mut sums = self.load(registers);
                block::multiply(&a[warp], &b, &mut sums);
                block::store(form.d, Precision::Single, form.saturate, &sums, registers);
            }
        })
    }

    /// 8-bit floating point the way the tensor cores add it.
    fn reduced(&self, d: &mut [Row]) -> Result<(), MatrixError> {
        let form = self.wgmma.form;
        let a = self.decode_a::<32>().map(|rows| fp8::Operand::new(form.a, rows));
        self.for_each_block(d, |columns| {
            let b = fp8::Operand::new(form.b, block::columns(form.b, columns));
            let a = &a;
            move |warp, registers: &mut [Row]| {
                let mut sums = self.load(registers);
                fp8::accumulate(&a[warp], &b, &mut sums);
                block::store(form.d, Precision::Reduced, false, &sums, registers);
            }
        })
    }

    /// Single bits.
    fn bits(&self, d: &mut [Row]) -> Result<(), MatrixError> {
        self.for_each_block(d, |columns| {
            let columns = *columns;
            move |warp, registers: &mut [Row]| {
                let mut sums = self.load(registers);
                block::count_common_bits(&self.a[warp], &columns, &mut sums);
                block::store(AccumulatorType::S32, Precision::Single, false, &sums, registers);
            }
        })
    }

    /// The rows of A as numbers, negated where the product is.
    fn decode_a<const K: usize>(&self) -> [[[f32; K]; 16]; 4] {
        let form = self.wgmma.form;
        let sign = if form.negate_a == form.negate_b { 1.0 } else { -1.0 };
        self.a
            .each_ref()
            .map(|bytes| block::rows::<K>(form.a, bytes).map(|row| row.map(|value| value * sign)))
    }

    fn load(&self, registers: &[Row]) -> block::Sums {
        match self.scale {
            Scale::Overwrite => [[0.0; 8]; 16],
            Scale::Accumulate => block::load(self.wgmma.form.d, registers),
        }
    }

    /// Gathers each group of eight columns, prepares it once and uses it for all four warps.
    ///
    /// All of B is gathered before D changes, so that an error leaves D as it was.
    fn for_each_block<U: FnMut(usize, &mut [Row])>(
        &self,
        d: &mut [Row],
        mut prepare: impl FnMut(&Bytes<8>) -> U,
    ) -> Result<(), MatrixError> {
        let groups = self.wgmma.form.shape.1 / 8;
        let mut columns = [[[0; ROW_BYTES]; 8]; 32];
        for (group, columns) in (0..groups).zip(&mut columns) {
            gather(&self.b, self.wgmma.major_b(), group, self.shared, columns)?;
        }
        let size = self.wgmma.block_registers();
        let registers = self.wgmma.accumulator_registers();
        for (group, columns) in (0..groups as usize).zip(&columns) {
            let mut use_block = prepare(columns);
            for (warp, d) in d.chunks_exact_mut(registers).enumerate() {
                use_block(warp, &mut d[group * size..(group + 1) * size]);
            }
        }
        Ok(())
    }
}
