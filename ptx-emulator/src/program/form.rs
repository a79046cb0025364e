//! One instruction while it is lowered: its modifiers, and its operands as sources, destinations
//! and addresses.

mod address;
mod destination;
mod literal;
mod source;

use std::borrow::Cow;

use super::fit;
use super::lower::Lowering;
use super::operand::File;
use super::types::DataType;
use crate::arch::Arch;
use crate::module::{
    Base, Component, Immediate, Instruction, Operand, Reference, ScalarType, StateSpace,
};
use crate::ops::Operation;

/// Why an instruction cannot be lowered.
pub(crate) type Problem = String;

/// Calls `visit` with every name in an operand.
pub(crate) fn for_each_reference(operand: &Operand, visit: &mut impl FnMut(Reference)) {
    match operand {
        Operand::Name(name)
        | Operand::Not(name)
        | Operand::Component(name, _)
        | Operand::Offset(name, _) => visit(*name),
        Operand::Immediate(_) | Operand::Sink => {}
        Operand::Pair(pair) => pair.iter().for_each(|own| for_each_reference(own, visit)),
        Operand::Vector(list) | Operand::Arguments(list) => {
            list.iter().for_each(|own| for_each_reference(own, visit));
        }
        Operand::Address(address) => {
            if let Base::Name(name) = address.base {
                visit(name);
            }
            address.coordinates.iter().for_each(|own| for_each_reference(own, visit));
        }
    }
}

/// An instruction being lowered.
pub(crate) struct Form<'f, 'm> {
    instruction: &'f Instruction,
    /// The modifiers, and whether somebody has understood them.
    modifiers: Vec<(&'f str, bool)>,
    lowering: &'f mut Lowering<'m>,
}

impl<'f, 'm> Form<'f, 'm> {
    pub(crate) fn new(instruction: &'f Instruction, lowering: &'f mut Lowering<'m>) -> Self {
        let modifiers = instruction.opcode.modifiers.iter().map(|word| (word.as_str(), false));
        Self { instruction, modifiers: modifiers.collect(), lowering }
    }

    /// The word before the first dot.
    pub(crate) fn mnemonic(&self) -> &'f str {
        &self.instruction.opcode.mnemonic
    }

    /// Whether the module is for this architecture and whatever only that has.
    pub(crate) fn is_for(&self, arch: Arch) -> bool {
        self.lowering.is_for(arch)
    }

    /// The number of the architecture that the module is for.
    pub(crate) fn generation(&self) -> u32 {
        self.lowering.generation()
    }

    /// Whether the module is for an architecture from sm_100 on with the features of its family.
    pub(crate) fn has_family_features(&self) -> bool {
        self.lowering.has_family_features()
    }

    /// Whether the module is for an architecture with tensor memory.
    pub(crate) fn has_tensor_memory(&self) -> bool {
        self.lowering.has_tensor_memory()
    }

    /// Whether a modifier is given; it counts as understood.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self.modifiers.iter_mut().find(|(own, taken)| !*taken && *own == word);
        found.map(|(_, taken)| *taken = true).is_some()
    }

    /// Whether a modifier is given; it does not count as understood by this.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.modifiers.iter().any(|(own, _)| *own == word)
    }

    /// Whether two modifiers are given, one before the other.
    pub(crate) fn is_before(&self, first: &str, second: &str) -> bool {
        let place = |word: &str| self.modifiers.iter().position(|(own, _)| *own == word);
        matches!((place(first), place(second)), (Some(first), Some(second)) if first < second)
    }

    /// The value of the first given modifier that a table knows.
    pub(crate) fn take_one<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        for (own, taken) in &mut self.modifiers {
            let found = table.iter().find(|(word, _)| !*taken && word == own);
            if let Some((_, value)) = found {
                *taken = true;
                return Some(*value);
            }
        }
        None
    }

    /// The next modifier nobody has understood yet, if `understand` does.
    pub(crate) fn take_with<T>(&mut self, understand: impl Fn(&str) -> Option<T>) -> Option<T> {
        for (own, taken) in &mut self.modifiers {
            if *taken {
                continue;
            }
            if let Some(value) = understand(own) {
                *taken = true;
                return Some(value);
            }
        }
        None
    }

    /// The next type among the modifiers.
    pub(crate) fn take_type(&mut self) -> Result<DataType, Problem> {
        self.take_with(DataType::from_word).ok_or_else(|| "a type is missing".to_owned())
    }

    /// The state space, if one is given; `shared::cta` and the like are the caller's.
    pub(crate) fn take_space(&mut self) -> Option<StateSpace> {
        self.take_one(&[
            ("const", StateSpace::Const),
            ("global", StateSpace::Global),
            ("local", StateSpace::Local),
            ("param", StateSpace::Param),
            ("shared", StateSpace::Shared),
        ])
    }

    /// Takes what only tells caches something, one of each kind. Returns how many trailing operands
    /// belong to it.
    pub(crate) fn take_cache_hints(&mut self) -> usize {
        const KINDS: [&[&str]; 5] = [
            &["ca", "cg", "cs", "lu", "cv", "wb", "wt"],
            &["nc"],
            &[
                "L1::evict_normal",
                "L1::evict_unchanged",
                "L1::evict_first",
                "L1::evict_last",
                "L1::no_allocate",
            ],
            &["L2::64B", "L2::128B", "L2::256B"],
            &["L2::evict_normal", "L2::evict_first", "L2::evict_last"],
        ];
        for kind in KINDS {
            self.take_with(|word| kind.contains(&word).then_some(()));
        }
        usize::from(self.take("L2::cache_hint"))
    }

    /// All modifiers must have been understood. Some may be repeated: they promise no more then.
    pub(crate) fn finish(&self) -> Result<(), Problem> {
        let known = |word: &str| self.modifiers.iter().any(|(own, taken)| *taken && *own == word);
        let repeats = |word: &str| matches!(word, "sync" | "uni") && known(word);
        match self.modifiers.iter().find(|(word, taken)| !taken && !repeats(word)) {
            Some((word, _)) if known(word) => Err(format!("modifier `.{word}` is given twice")),
            Some((word, _)) => Err(format!("modifier `.{word}` is not supported here")),
            None => Ok(()),
        }
    }

    /// Whether a predicate decides who executes the instruction.
    pub(crate) fn is_guarded(&self) -> bool {
        self.instruction.guard.is_some()
    }

    /// How many operands there are.
    pub(crate) fn count(&self) -> usize {
        self.instruction.operands.len()
    }

    /// Exactly this many operands must be there.
    pub(crate) fn expect(&self, count: usize) -> Result<(), Problem> {
        if self.count() == count {
            return Ok(());
        }
        Err(format!("takes {count} operands here, not {}", self.count()))
    }

    pub(crate) fn operand(&self, index: usize) -> Result<&'f Operand, Problem> {
        let operand = self.instruction.operands.get(index);
        operand.ok_or_else(|| format!("operand {} is missing", index + 1))
    }

    /// The elements of `{…}`; a single operand counts as a vector of one.
    pub(crate) fn elements(&self, index: usize) -> Result<&'f [Operand], Problem> {
        Ok(match self.operand(index)? {
            Operand::Vector(list) => list,
            operand => std::slice::from_ref(operand),
        })
    }

    /// The elements of `{…}` or of a vector register; other operands count as a vector of one.
    pub(crate) fn vector(&self, index: usize) -> Result<Cow<'f, [Operand]>, Problem> {
        let elements = self.elements(index)?;
        let [Operand::Name(Reference::Register(own))] = elements else {
            return Ok(Cow::Borrowed(elements));
        };
        let Some(length) = self.lowering.register_elements(*own) else {
            return Ok(Cow::Borrowed(elements));
        };
        let components = [Component::X, Component::Y, Component::Z, Component::W];
        let named = components.into_iter().take(length as usize);
        Ok(named.map(|place| Operand::Component(Reference::Register(*own), place)).collect())
    }

    /// The two operands of `a|b`; a single one is the first.
    pub(crate) fn pair(&self, index: usize) -> Result<(&'f Operand, Option<&'f Operand>), Problem> {
        Ok(match self.operand(index)? {
            Operand::Pair(pair) => (&pair[0], Some(&pair[1])),
            operand => (operand, None),
        })
    }

    /// What an instruction does becomes part of the function.
    pub(crate) fn emit(&mut self, operation: Operation) {
        self.lowering.emit(operation);
    }

    /// Access to the function.
    pub(crate) fn lowering(&mut self) -> &mut Lowering<'m> {
        self.lowering
    }

    /// The register an operand names: its file and row.
    fn register(&self, operand: &Operand) -> Option<(File, u32)> {
        match operand {
            Operand::Name(Reference::Register(index)) => self.lowering.register(*index),
            Operand::Component(Reference::Register(index), component) => {
                let (file, row) = self.lowering.register(*index)?;
                Some((file, row + element(*component)))
            }
            _ => None,
        }
    }

    /// The declared width in bits of the register that operand `index` names, and 32 for `_`.
    /// Rows of words do not tell registers of 8 and 16 bits from those of 32.
    pub(crate) fn register_bits(&self, index: usize) -> Result<u32, Problem> {
        Ok(self.register_bits_of(self.operand(index)?))
    }

    /// The same of an operand.
    pub(crate) fn register_bits_of(&self, operand: &Operand) -> u32 {
        let (Operand::Name(Reference::Register(own))
        | Operand::Component(Reference::Register(own), _)) = operand
        else {
            return 32;
        };
        self.lowering.register_bits(*own).unwrap_or(32)
    }

    /// Whether the declared type of a register goes with the instruction's.
    fn check_fit(
        &self,
        operand: &Operand,
        ty: DataType,
        fits: fn(ScalarType, DataType) -> bool,
    ) -> Result<(), Problem> {
        let (Operand::Name(Reference::Register(own))
        | Operand::Component(Reference::Register(own), _)) = operand
        else {
            return Ok(());
        };
        match self.lowering.register_name(*own) {
            Some((name, declared)) if !fits(declared, ty) => {
                let wanted = ty.word();
                Err(format!("`{name}` is a register of type `{declared}`, not for `.{wanted}`"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an operand may stand for a value of exactly the type. It becomes no operand by this.
    pub(crate) fn check_exact(&self, operand: &Operand, ty: DataType) -> Result<(), Problem> {
        match operand {
            Operand::Immediate(value) if ty.bits() <= 32 => {
                literal::immediate32(*value, ty).map(|_| ())
            }
            Operand::Immediate(value) => literal::immediate64(*value, ty).map(|_| ()),
            _ => self.check_fit(operand, ty, fit::fits),
        }
    }

    /// A literal that must be known at load, such as a barrier's count.
    pub(crate) fn constant(&self, index: usize) -> Result<i64, Problem> {
        constant(self.operand(index)?)
    }
}

/// A literal integer.
pub(crate) fn constant(operand: &Operand) -> Result<i64, Problem> {
    match operand {
        Operand::Immediate(Immediate::Signed(value)) => Ok(*value),
        Operand::Immediate(Immediate::Unsigned(value)) => Ok(*value as i64),
        _ => Err("a literal integer is wanted".to_owned()),
    }
}

/// The element of a vector register that a component names.
fn element(component: Component) -> u32 {
    match component {
        Component::X | Component::R => 0,
        Component::Y | Component::G => 1,
        Component::Z | Component::B => 2,
        Component::W | Component::A => 3,
    }
}

/// The file whose rows hold registers of a declared type.
pub(crate) fn file_of(scalar: ScalarType) -> File {
    match scalar {
        ScalarType::Pred => File::Predicate,
        _ => File::of_bits(scalar.bits()),
    }
}
