//! The instruction descriptor of `tcgen05.mma` (PTX ISA 9.7.16.4.2) and the shapes that there are
//! (table 39).

use super::element::{Element, Packing};
use super::form::{Group, Kind, MmaForm, ScaleVector};
use super::problem;
use super::scale::ScaleType;
use crate::matrix::descriptor::Major;
use crate::matrix::{AccumulatorType, ElementType, MatrixError};

/// A decoded descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Rows of A and D, of both blocks together.
    pub(super) m: u32,
    /// Columns of B and D, of both blocks together.
    pub(super) n: u32,
    /// The elements of A and of B.
    pub(super) elements: [Element; 2],
    /// The elements of D.
    pub(super) d: AccumulatorType,
    /// Whether A, whether B is negated.
    pub(super) negated: [bool; 2],
    /// Which dimension of A and of B is contiguous.
    pub(super) majors: [Major; 2],
    /// Sums beyond 32 bits become the nearest number of 32 bits.
    pub(super) saturate: bool,
    /// What the scale factors are, where there are some.
    pub(super) scales: Option<ScaleForm>,
}

/// The type of the scale factors and where they are in the words of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScaleForm {
    /// How a factor is encoded.
    pub(super) element: ScaleType,
    /// How many a row has.
    pub(super) vector: ScaleVector,
    /// The first byte of A's and of B's factors in their word.
    pub(super) bytes: [u32; 2],
}

/// A descriptor's bits, with what the opcode says.
struct Decoder<'a> {
    bits: u32,
    form: &'a MmaForm,
}

impl Instruction {
    /// Takes a descriptor apart and checks everything the form and the descriptor decide.
    pub(super) fn decode(bits: u32, form: &MmaForm) -> Result<Self, MatrixError> {
        form.check()?;
        let decoder = Decoder { bits, form };
        let decoded = decoder.instruction();
        decoded.map_err(|text| problem(format!("the instruction descriptor {bits:#010x} {text}")))
    }

    /// How elements of less than a byte lie in shared memory.
    pub(super) fn packing_in_shared_memory(kind: Kind) -> Packing {
        if kind.is_dense_fp4() { Packing::Dense } else { Packing::Padded }
    }

    /// How they lie in tensor memory.
    pub(super) fn packing_in_tensor_memory(kind: Kind) -> Packing {
        if kind.is_dense_fp4() { Packing::Dense } else { Packing::Bytes }
    }
}

impl Decoder<'_> {
    fn field(&self, lowest: u32, width: u32) -> u32 {
        self.bits >> lowest & ((1 << width) - 1)
    }

    fn flag(&self, bit: u32) -> bool {
        self.field(bit, 1) == 1
    }

    fn instruction(&self) -> Result<Instruction, String> {
        let kind = self.form.kind;
        if self.flag(2) {
            return Err("asks for a sparse A, which is not emulated".to_owned());
        }
        self.check_reserved()?;
        let (m, n) = (16 * self.field(24, 5), 8 * self.field(17, 6));
        self.check_shape(m, n)?;
        let elements = [self.element("A", 7)?, self.element("B", 10)?];
        let d = self.accumulator(elements)?;
        let negated = [self.flag(13), self.flag(14)];
        if kind == Kind::I8 && negated != [false; 2] {
            return Err("negates an operand, which `.kind::i8` cannot".to_owned());
        }
        let saturate = !kind.is_scaled() && self.flag(3);
        let majors = [self.major(elements[0], 15)?, self.major(elements[1], 16)?];
        if self.form.a_in_tensor_memory && majors[0] == Major::Mn {
            return Err("transposes an A that is in tensor memory".to_owned());
        }
        let step = 16 * self.form.group.blocks() as u32;
        if majors[1] == Major::Mn && elements[1].bits() == 8 && !n.is_multiple_of(step) {
            return Err(format!("has N = {n}: a transposed B of 8 bits takes steps of {step}"));
        }
        let scales = self.form.scale_vector.map(|vector| self.scales(vector)).transpose()?;
        Ok(Instruction { m, n, elements, d, negated, majors, saturate, scales })
    }

    /// Bits that are zero for the kind.
    fn check_reserved(&self) -> Result<(), String> {
        let kind = self.form.kind;
        let zero: u32 = match kind {
            // The sparsity selector; then what is reserved; then how far `.ws` may shift.
            Kind::I8 => 0b11 | 1 << 6 | 1 << 23 | 1 << 29 | 0b11 << 30,
            Kind::F16 | Kind::Tf32 | Kind::F8f6f4 => {
                0b11 | 1 << 3 | 1 << 6 | 1 << 23 | 1 << 29 | 0b11 << 30
            }
            Kind::Mxf8f6f4 => 0b11 | 1 << 3 | 1 << 6 | 0b111 << 24 | 1 << 31,
            Kind::Mxf4 | Kind::Mxf4nvf4 => 0b11 | 1 << 3 | 1 << 6 | 1 << 12 | 0b111 << 24,
        };
        if kind.is_dense_fp4() && self.flag(31) {
            return Err("asks for K = 96, which sm_103a alone has".to_owned());
        }
        match self.bits & zero {
            0 => Ok(()),
            set => {
                let kind = kind.word();
                Err(format!("has bits {set:#010x} set, which are zero for `.kind::{kind}`"))
            }
        }
    }

    fn check_shape(&self, m: u32, n: u32) -> Result<(), String> {
        let MmaForm { kind, group, weight_stationary, .. } = *self.form;
        let rows: &[u32] = match (group, kind.is_scaled(), weight_stationary) {
            (_, _, true) => &[32, 64, 128],
            (Group::One, true, _) => &[128],
            (Group::One, false, _) => &[64, 128],
            (Group::Two, ..) => &[128, 256],
        };
        let columns = match (group, kind, weight_stationary) {
            (_, _, true) => matches!(n, 64 | 128 | 256),
            (Group::One, Kind::I8, _) => n <= 32 && n.is_multiple_of(8) || n.is_multiple_of(16),
            (Group::One, ..) => n.is_multiple_of(8),
            (Group::Two, Kind::I8, _) => n.is_multiple_of(32),
            (Group::Two, ..) => n.is_multiple_of(16),
        };
        let is_shape = rows.contains(&m) && columns && (8..=256).contains(&n);
        if is_shape && self.form.shift_a && m < 128 {
            return Err(format!("has M = {m}: `.ashift` takes 128 or 256"));
        }
        if is_shape {
            return Ok(());
        }
        let (kind, blocks) = (kind.word(), group.blocks());
        let stationary = if weight_stationary { ".ws" } else { "" };
        Err(format!(
            "has the shape {m}x{n}, which tcgen05.mma{stationary}.cta_group::{blocks}.kind::{kind} \
             has not"
        ))
    }

    /// The type of A's or B's elements, whose code is three bits from `lowest` on.
    fn element(&self, operand: &str, lowest: u32) -> Result<Element, String> {
        let kind = self.form.kind;
        let code = self.field(lowest, 3);
        let element = match (kind, code) {
            (Kind::F16, 0) => Element::Whole(ElementType::F16),
            (Kind::F16, 1) => Element::Whole(ElementType::Bf16),
            (Kind::Tf32, 2) => Element::Whole(ElementType::Tf32),
            (Kind::I8, 0) => Element::Whole(ElementType::U8),
            (Kind::I8, 1) => Element::Whole(ElementType::S8),
            (Kind::F8f6f4 | Kind::Mxf8f6f4, 0) => Element::Whole(ElementType::E4m3),
            (Kind::F8f6f4 | Kind::Mxf8f6f4, 1) => Element::Whole(ElementType::E5m2),
            (Kind::F8f6f4 | Kind::Mxf8f6f4, 3) => Element::E2m3,
            (Kind::F8f6f4 | Kind::Mxf8f6f4, 4) => Element::E3m2,
            (Kind::F8f6f4 | Kind::Mxf8f6f4, 5) => Element::E2m1,
            (Kind::Mxf4 | Kind::Mxf4nvf4, 1) => Element::E2m1,
            _ => {
                let kind = kind.word();
                return Err(format!("has type {code} for {operand}, unknown to `.kind::{kind}`"));
            }
        };
        Ok(element)
    }

    /// The type of D; scaled kinds have but one, and no field for it.
    fn accumulator(&self, elements: [Element; 2]) -> Result<AccumulatorType, String> {
        let kind = self.form.kind;
        if kind.is_scaled() {
            return Ok(AccumulatorType::F32);
        }
        let bf16 = Element::Whole(ElementType::Bf16);
        match (kind, self.field(4, 2)) {
            (Kind::I8, 2) => Ok(AccumulatorType::S32),
            (Kind::F16, 0) if elements.contains(&bf16) => {
                Err("has a D of f16, which products of bf16 cannot have".to_owned())
            }
            (Kind::F16 | Kind::F8f6f4, 0) => Ok(AccumulatorType::F16),
            (Kind::F16 | Kind::F8f6f4 | Kind::Tf32, 1) => Ok(AccumulatorType::F32),
            (_, code) => {
                let kind = kind.word();
                Err(format!("has type {code} for D, unknown to `.kind::{kind}`"))
            }
        }
    }

    fn major(&self, element: Element, bit: u32) -> Result<Major, String> {
        if !self.flag(bit) {
            return Ok(Major::K);
        }
        if element.bits() < 8 {
            return Err("transposes an operand of less than 8 bits".to_owned());
        }
        Ok(Major::Mn)
    }

    /// Tables 43, 44 and 57, and 9.7.16.10.7.2 for the bytes.
    fn scales(&self, vector: ScaleVector) -> Result<ScaleForm, String> {
        let kind = self.form.kind;
        let element = if self.flag(23) { ScaleType::Ue8m0 } else { ScaleType::Ue4m3 };
        let quarter = kind == Kind::Mxf4nvf4 && vector == ScaleVector::X4;
        if element == ScaleType::Ue4m3 && !quarter {
            let (kind, factors) = (kind.word(), vector.factors());
            return Err(format!(
                "has scale factors of ue4m3, which `.kind::{kind}.scale_vec::{factors}X` has not"
            ));
        }
        let bytes = [self.field(29, 2), self.field(4, 2)];
        let factors = vector.factors() as u32;
        for (operand, byte) in ["A", "B"].into_iter().zip(bytes) {
            if !byte.is_multiple_of(factors) {
                return Err(format!(
                    "lets the {factors} scale factors of {operand} begin at byte {byte}: \
                     a multiple of {factors} is needed"
                ));
            }
        }
        Ok(ScaleForm { element, vector, bytes })
    }
}
