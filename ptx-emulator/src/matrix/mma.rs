//! `mma.sync`: 16 rows by 8 columns, multiplied out of a warp's registers (PTX ISA 9.7.14.5).

use super::block::{self, Bytes, Precision};
use super::element::ROW_BYTES;
use super::fp8::{self, Fp8Accumulation};
use super::wgmma::fragment_rows;
use super::{AccumulatorType, ElementType, MatrixError, Row};

/// A valid `mma.sync.aligned` with A by rows and B by columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mma {
    k: u32,
    a: ElementType,
    b: ElementType,
    d: AccumulatorType,
    saturate: bool,
}

impl Mma {
    /// Checks shape (M, N, K), types and `.satfinite`. C has the type of D.
    pub(crate) fn new(
        shape: (u32, u32, u32),
        a: ElementType,
        b: ElementType,
        d: AccumulatorType,
        saturate: bool,
    ) -> Result<Self, MatrixError> {
        let (m, n, k) = shape;
        let refuse = |why: &str| {
            Err(MatrixError::Form(format!("mma m{m}n{n}k{k} {d:?}.{a:?}.{b:?}: {why}")))
        };
        if !types_match(a, b, d) {
            return refuse(match d {
                AccumulatorType::F32 => {
                    "sums of f32 take bf16, f16 or tf32 for both A and B, or e4m3 and e5m2"
                }
                AccumulatorType::F16 => "sums of f16 take f16 for both A and B, or e4m3 and e5m2",
                AccumulatorType::S32 => "sums of s32 take s8 and u8",
            });
        }
        let full = a.per_row();
        if (m, n) != (16, 8) || k != full && k != full / 2 {
            return refuse(&format!("these types take m16n8k{} and m16n8k{full}", full / 2));
        }
        if saturate && d != AccumulatorType::S32 {
            return refuse(".satfinite is for sums of s32");
        }
        Ok(Self { k, a, b, d, saturate })
    }

    /// Registers of A.
    pub(crate) fn a_registers(&self) -> usize {
        2 * self.b_registers()
    }

    /// Registers of B.
    pub(crate) fn b_registers(&self) -> usize {
        if self.k == self.a.per_row() { 2 } else { 1 }
    }

    /// Registers of C and of D.
    pub(crate) fn accumulator_registers(&self) -> usize {
        if self.d == AccumulatorType::F16 { 2 } else { 4 }
    }

    /// Executes the instruction; `d` holds C before and D after.
    pub(crate) fn execute(
        &self,
        a: &[Row],
        b: &[Row],
        d: &mut [Row],
        fp8: Fp8Accumulation,
    ) -> Result<(), MatrixError> {
        let counts = [
            ("A", self.a_registers(), a.len()),
            ("B", self.b_registers(), b.len()),
            ("D", self.accumulator_registers(), d.len()),
        ];
        for (operand, expected, found) in counts {
            if expected != found {
                return Err(MatrixError::Registers { operand, expected, found });
            }
        }
        // The half of K that a short shape lacks is zero on both sides and adds nothing.
        let mut rows = [[0; ROW_BYTES]; 16];
        fragment_rows(a, &mut rows);
        let columns = fragment_columns(b);
        match self.a.per_row() {
            8 => self.exact::<8>(&rows, &columns, d),
            16 => self.exact::<16>(&rows, &columns, d),
            _ if self.a.is_fp8() && fp8 == Fp8Accumulation::Hardware => {
                self.reduced(&rows, &columns, d);
            }
            _ if self.a.is_fp8() && self.d == AccumulatorType::F16 => {
                self.in_halves(&rows, &columns, d);
            }
            _ => self.exact::<32>(&rows, &columns, d),
        }
        Ok(())
    }

    /// FP8 with f16 sums as an H200 has it: the products of the lower two of every four neighbours
    /// are added up and rounded to f16, those of the upper two are added to that and rounded, and
    /// the whole is added to C and rounded.
    fn in_halves(&self, rows: &Bytes<16>, columns: &Bytes<8>, d: &mut [Row]) {
        let kind = AccumulatorType::F16;
        let mut products = [[0; 32]; 2];
        for upper in [false, true] {
            let a = block::rows::<32>(self.a, &half(rows, upper));
            let b = block::panel::<32>(self.b, &half(columns, upper));
            let mut sums = block::load(kind, &products);
            block::multiply(&block::widen(&a), &block::widen(&b), &mut sums);
            block::store(kind, Precision::Single, false, &sums, &mut products);
        }
        let mut sums = block::load(kind, &products);
        for (sums, c) in sums.iter_mut().zip(block::load(kind, d)) {
            for (sum, c) in sums.iter_mut().zip(c) {
                *sum += c;
            }
        }
        block::store(kind, Precision::Single, false, &sums, d);
    }

    fn exact<const K: usize>(&self, rows: &Bytes<16>, columns: &Bytes<8>, d: &mut [Row]) {
        let a = block::widen(&block::rows::<K>(self.a, rows));
        let b = block::widen(&block::panel::<K>(self.b, columns));
        let mut sums = block::load(self.d, d);
        block::multiply(&a, &b, &mut sums);
        block::store(self.d, Precision::Single, self.saturate, &sums, d);
    }

    fn reduced(&self, rows: &Bytes<16>, columns: &Bytes<8>, d: &mut [Row]) {
        let a = fp8::Operand::new(self.a, block::rows::<32>(self.a, rows));
        let b = fp8::Operand::new(self.b, block::columns(self.b, columns));
        let mut sums = block::load(self.d, d);
        fp8::accumulate(&a, &b, &mut sums);
        block::store(self.d, Precision::Reduced, false, &sums, d);
    }
}

/// The lower or the upper two of every four bytes, zeros for the others.
fn half<const ROWS: usize>(bytes: &Bytes<ROWS>, upper: bool) -> Bytes<ROWS> {
    let mut half = [[0; ROW_BYTES]; ROWS];
    for (half, bytes) in half.iter_mut().zip(bytes) {
        for (place, byte) in bytes.iter().enumerate() {
            if (place % 4 >= 2) == upper {
                half[place] = *byte;
            }
        }
    }
    half
}

/// Whether the types make an instruction; bits are left out.
fn types_match(a: ElementType, b: ElementType, d: AccumulatorType) -> bool {
    use ElementType::{Bf16, F16, S8, Tf32, U8};
    match d {
        AccumulatorType::F32 => {
            a.is_fp8() && b.is_fp8() || a == b && matches!(a, Bf16 | F16 | Tf32)
        }
        AccumulatorType::F16 => a.is_fp8() && b.is_fp8() || (a, b) == (F16, F16),
        AccumulatorType::S32 => matches!(a, S8 | U8) && matches!(b, S8 | U8),
    }
}

/// The columns of B: register r of lane 4g + t has bytes `4t + 16r..` of column g.
fn fragment_columns(registers: &[Row]) -> Bytes<8> {
    let mut columns = [[0; ROW_BYTES]; 8];
    for (index, register) in registers.iter().enumerate() {
        for (column, words) in columns.iter_mut().zip(register.as_chunks::<4>().0) {
            let bytes = column.as_chunks_mut::<4>().0.iter_mut().skip(4 * index);
            for (bytes, word) in bytes.zip(words) {
                *bytes = word.to_le_bytes();
            }
        }
    }
    columns
}

/// `mma.sync` of doubles: m16n8k4, m16n8k8 and m16n8k16, and m8n8k4, all `.rn`.
///
/// Registers of 64 bits: register i of A is row `g + 8 * (i % 2)`, k `t + 4 * (i / 2)` (of
/// m8n8k4, whose only register is row g, k t), register i of B is k `t + 4i`, column g; C and D
/// are as for `f32`. Adds the products to C in the order of k, each with one rounding; the manual
/// leaves the order open.
pub(crate) fn multiply_doubles(
    a: &[[u64; 32]],
    b: &[[u64; 32]],
    d: &mut [[u64; 32]],
) -> Result<(), MatrixError> {
    let groups = match (a.len(), b.len(), d.len()) {
        (1, 1, 2) => 1,
        (2, 1, 4) | (4, 2, 4) | (8, 4, 4) => 2,
        (a, b, d) => {
            let text = format!(
                "mma of f64 with {a} registers of A, {b} of B and {d} of D; 1, 1, 2 are possible, \
                 2, 1, 4 and 4, 2, 4 and 8, 4, 4"
            );
            return Err(MatrixError::Form(text));
        }
    };
    for (index, register) in d.iter_mut().enumerate() {
        for (lane, word) in register.iter_mut().enumerate() {
            let row = lane / 4;
            let column = 2 * (lane % 4) + index % 2;
            let mut sum = f64::from_bits(*word);
            let steps = a.chunks_exact(groups).zip(b);
            for (a, b) in steps.filter_map(|(a, b)| Some((a.get(index / 2)?, b))) {
                for k in 0..4 {
                    let factor = f64::from_bits(a[4 * row + k]);
                    sum = factor.mul_add(f64::from_bits(b[4 * column + k]), sum);
                }
            }
            *word = sum.to_bits();
        }
    }
    Ok(())
}
