//! One instruction while it is lowered: its modifiers, and its operands as sources, destinations
//! and addresses.

use std::borrow::Cow;

use super::fit;
use super::lower::Lowering;
use super::operand::{
    Address, AddressBase, Any, Destination, File, Source32, Source64, Source128, SourcePredicate,
    Wide,
};
use super::types::DataType;
use crate::arch::Arch;
use crate::module::{
    self, Base, Component, Immediate, Instruction, Operand, Reference, ScalarType, StateSpace,
};
use crate::ops::Operation;
use crate::ops::special::Special;

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

/// What an operand that names a symbol, or a symbol with an offset, stands for.
enum Symbol {
    /// A fixed address in the symbol's space.
    Constant(u64),
    /// An offset in the shared memory of the executing block.
    Shared(u32),
    /// An offset in the frame's local memory.
    Frame(u64),
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

    /// The state space of the symbol that operand `index` is.
    pub(crate) fn symbol_of(&self, index: usize) -> Option<StateSpace> {
        match self.operand(index) {
            Ok(Operand::Name(name) | Operand::Offset(name, _)) => self.lowering.space_of(*name),
            _ => None,
        }
    }

    /// The state space of the symbol that operand `index` names between brackets.
    pub(crate) fn symbol_space(&self, index: usize) -> Option<StateSpace> {
        match self.operand(index) {
            Ok(Operand::Address(module::Address { base: Base::Name(name), .. })) => {
                self.lowering.space_of(*name)
            }
            _ => None,
        }
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

    fn symbol(&self, operand: &Operand) -> Result<Option<Symbol>, Problem> {
        let (name, offset) = match operand {
            Operand::Name(name) => (*name, 0),
            Operand::Offset(name, offset) => (*name, *offset),
            _ => return Ok(None),
        };
        let found = self.resolve(name, offset)?;
        if found.is_some() {
            self.only_for(&["mov", "cvta", "mapa", "getctarank"], "the address of a symbol")?;
        }
        Ok(found)
    }

    /// Some sources are for a few instructions; others want what these have put into a register.
    fn only_for(&self, mnemonics: &[&str], source: &str) -> Result<(), Problem> {
        if mnemonics.contains(&self.mnemonic()) {
            return Ok(());
        }
        Err(format!("{source} is a source of `mov`, not of this"))
    }

    fn resolve(&self, name: Reference, offset: i64) -> Result<Option<Symbol>, Problem> {
        let moved = |address: u64| address.wrapping_add_signed(offset);
        let shared = |found: Option<u32>| {
            let base = found.ok_or("a shared variable without a place")?;
            Ok::<_, Problem>(Symbol::Shared(base.wrapping_add(offset as u32)))
        };
        Ok(Some(match name {
            Reference::Variable(index) => match self.lowering.variable_address(index) {
                Some(address) => Symbol::Constant(moved(address)),
                None if self.lowering.space_of(name) == Some(StateSpace::Shared) => {
                    shared(self.lowering.shared_variable(index))?
                }
                None => {
                    let name = self.lowering.variable_name(index);
                    return Err(format!("`{name}` is declared but not defined"));
                }
            },
            Reference::Function(index) => Symbol::Constant(self.lowering.function_address(index)),
            Reference::Local(index) => match self.lowering.local_space(index) {
                Some(StateSpace::Shared) => shared(self.lowering.shared_local(index))?,
                Some(StateSpace::Local) => {
                    Symbol::Frame(moved(self.lowering.frame_offset(index).unwrap_or(0)))
                }
                Some(StateSpace::Global | StateSpace::Const) => {
                    let place = self.lowering.inner_address(index);
                    Symbol::Constant(moved(place.ok_or("a variable without a place")?))
                }
                _ => return Err("the address of a parameter variable cannot be taken".to_owned()),
            },
            Reference::Parameter(index) if self.lowering.is_entry() => {
                Symbol::Constant(moved(self.lowering.parameter(index)?.offset.into()))
            }
            Reference::Parameter(index) => match self.lowering.copied(index) {
                Some(place) => Symbol::Frame(moved(place)),
                None => return Err("a parameter without an address".to_owned()),
            },
            Reference::Return(_) => {
                return Err("the address of what a function returns is not supported".to_owned());
            }
            _ => return Ok(None),
        }))
    }

    /// A special register becomes an instruction of its own that fills a temporary one.
    fn special32(&mut self, operand: &Operand) -> Result<Option<u32>, Problem> {
        let special = match operand {
            Operand::Name(Reference::Special(name)) => Special::word(name, None),
            Operand::Component(Reference::Special(name), component) => {
                Special::word(name, Some(*component))
            }
            _ => return Ok(None),
        };
        let special = special.ok_or_else(|| special_problem(operand))?;
        if special != Special::WarpSize {
            self.only_for(&["mov", "cvt"], "a special register")?;
        }
        let row = self.lowering.temporary(File::Word);
        self.emit(Operation::Special(special.into_word(Destination(Some(row)))));
        Ok(Some(row))
    }

    /// A source of up to 32 bits whose literals are of type `data_type`.
    pub(crate) fn source32_of(
        &mut self,
        operand: &Operand,
        data_type: DataType,
    ) -> Result<Source32, Problem> {
        if let Operand::Immediate(immediate) = operand {
            return Ok(Source32::Immediate(immediate32(*immediate, data_type)?));
        }
        if let Some((file, row)) = self.register(operand) {
            self.check_fit(operand, data_type, fit::fits)?;
            return self.word_row(file, row);
        }
        if let Some(row) = self.special32(operand)? {
            return Ok(Source32::Register(row));
        }
        match self.symbol(operand)? {
            Some(Symbol::Constant(address)) => Ok(Source32::Immediate(address as u32)),
            Some(symbol) => {
                let row = self.lowering.temporary(File::Word);
                let destination = Destination(Some(row));
                self.emit(Operation::Special(match symbol {
                    Symbol::Frame(offset) => Special::Frame(offset).into_word(destination),
                    Symbol::Shared(offset) => Special::Shared(offset).into_word(destination),
                    Symbol::Constant(_) => return Err("a constant".to_owned()),
                }));
                Ok(Source32::Register(row))
            }
            None => Err("a 32-bit source is wanted".to_owned()),
        }
    }

    /// Operand `index` as a source of up to 32 bits.
    pub(crate) fn source32(&mut self, index: usize, ty: DataType) -> Result<Source32, Problem> {
        let operand = self.operand(index)?;
        self.source32_of(operand, ty)
    }

    /// A source of 64 bits whose literals are of type `data_type`.
    pub(crate) fn source64_of(
        &mut self,
        operand: &Operand,
        data_type: DataType,
    ) -> Result<Source64, Problem> {
        if let Operand::Immediate(immediate) = operand {
            return Ok(Source64::Immediate(immediate64(*immediate, data_type)?));
        }
        if let Some((file, row)) = self.register(operand) {
            self.check_fit(operand, data_type, fit::fits)?;
            return match file {
                File::Double => Ok(Source64::Register(row)),
                _ => Err("a source register of another width".to_owned()),
            };
        }
        let special = match operand {
            Operand::Name(Reference::Special(name)) => {
                self.only_for(&["mov", "cvt"], "a special register")?;
                Some(Special::double(name).ok_or_else(|| special_problem(operand))?)
            }
            _ => None,
        };
        let special = match (special, self.symbol(operand)?) {
            (Some(special), _) => special,
            (None, Some(Symbol::Constant(address))) => return Ok(Source64::Immediate(address)),
            (None, Some(Symbol::Frame(offset))) => Special::Frame(offset),
            (None, Some(Symbol::Shared(offset))) => Special::Shared(offset),
            (None, None) => return Err("a 64-bit source is wanted".to_owned()),
        };
        let row = self.lowering.temporary(File::Double);
        self.emit(Operation::Special(special.into_double(Destination(Some(row)))));
        Ok(Source64::Register(row))
    }

    /// Operand `index` as a source of 64 bits.
    pub(crate) fn source64(&mut self, index: usize, ty: DataType) -> Result<Source64, Problem> {
        let operand = self.operand(index)?;
        self.source64_of(operand, ty)
    }

    /// Operand `index` as a source of 128 bits.
    pub(crate) fn source128(&mut self, index: usize) -> Result<Source128, Problem> {
        self.source128_of(self.operand(index)?)
    }

    fn source128_of(&self, operand: &Operand) -> Result<Source128, Problem> {
        match (operand, self.register(operand)) {
            (_, Some((File::Quad, row))) => Ok(Source128::Register(row)),
            (Operand::Immediate(value), None) => {
                Ok(Source128::Immediate(immediate64(*value, DataType::B64)?.into()))
            }
            _ => Err("a 128-bit source is wanted".to_owned()),
        }
    }

    /// A source whose register may be wider than the type.
    pub(crate) fn any_of(&mut self, operand: &Operand, ty: DataType) -> Result<Any, Problem> {
        if self.register(operand).is_some() {
            self.check_fit(operand, ty, fit::holds)?;
        }
        match self.register(operand) {
            Some((File::Double, row)) => Ok(Any::Double(Source64::Register(row))),
            Some((File::Quad, row)) => Ok(Any::Quad(Source128::Register(row))),
            Some((File::Word, row)) => Ok(Any::Word(self.word_row(File::Word, row)?)),
            Some((File::Predicate, _)) => Err("a predicate is no source here".to_owned()),
            None if ty.bits() <= 32 => Ok(Any::Word(self.source32_of(operand, ty)?)),
            None => Ok(Any::Double(self.source64_of(operand, ty)?)),
        }
    }

    /// A source of exactly the type.
    pub(crate) fn exact_of(&mut self, operand: &Operand, ty: DataType) -> Result<Any, Problem> {
        Ok(match ty.bits() {
            128 => Any::Quad(self.source128_of(operand)?),
            64 => Any::Double(self.source64_of(operand, ty)?),
            _ => Any::Word(self.source32_of(operand, ty)?),
        })
    }

    /// Operand `index` as a source whose register may be wider than the type.
    pub(crate) fn any(&mut self, index: usize, ty: DataType) -> Result<Any, Problem> {
        let operand = self.operand(index)?;
        self.any_of(operand, ty)
    }

    pub(crate) fn predicate_of(&self, operand: &Operand) -> Result<SourcePredicate, Problem> {
        match operand {
            Operand::Not(Reference::Register(index)) => match self.lowering.register(*index) {
                Some((File::Predicate, row)) => Ok(SourcePredicate::Negated(row)),
                _ => Err("a predicate is wanted".to_owned()),
            },
            Operand::Immediate(Immediate::Signed(value)) => {
                Ok(SourcePredicate::Constant(*value != 0))
            }
            Operand::Immediate(Immediate::Unsigned(value)) => {
                Ok(SourcePredicate::Constant(*value != 0))
            }
            // Launches without a cluster have one block a cluster; the register tells them apart.
            Operand::Name(Reference::Special("%is_explicit_cluster")) => {
                Ok(SourcePredicate::Constant(self.lowering.is_explicit_cluster()))
            }
            _ => match self.register(operand) {
                Some((File::Predicate, row)) => Ok(SourcePredicate::Register(row)),
                _ => Err("a predicate is wanted".to_owned()),
            },
        }
    }

    /// Operand `index` as a source predicate: `%p`, `!%p`, 0 or 1.
    pub(crate) fn predicate(&self, index: usize) -> Result<SourcePredicate, Problem> {
        self.predicate_of(self.operand(index)?)
    }

    /// The row of a register of words, which is read.
    fn word_row(&mut self, file: File, row: u32) -> Result<Source32, Problem> {
        if file != File::Word {
            return Err("a source register of another width".to_owned());
        }
        self.lowering.note_read(row);
        Ok(Source32::Register(row))
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

    /// A destination register for a value of a type.
    pub(crate) fn destination_of(
        &mut self,
        operand: &Operand,
        ty: DataType,
    ) -> Result<Destination, Problem> {
        self.checked_destination(operand, ty, fit::fits)
    }

    fn checked_destination(
        &mut self,
        operand: &Operand,
        ty: DataType,
        fits: fn(ScalarType, DataType) -> bool,
    ) -> Result<Destination, Problem> {
        if *operand == Operand::Sink {
            return Ok(Destination(None));
        }
        let found = self.register(operand);
        let (file, row) = found.ok_or("a register is wanted as destination")?;
        self.check_fit(operand, ty, fits)?;
        if file == File::Word {
            self.lowering.note_write(row);
        }
        Ok(Destination(Some(row)))
    }

    /// Operand `index` as a destination of a type.
    pub(crate) fn destination(
        &mut self,
        index: usize,
        ty: DataType,
    ) -> Result<Destination, Problem> {
        self.destination_of(self.operand(index)?, ty)
    }

    /// Operand `index` as a destination predicate.
    pub(crate) fn destination_predicate(&mut self, index: usize) -> Result<Destination, Problem> {
        self.destination(index, DataType::Predicate)
    }

    /// A destination whose register may be wider than the value.
    pub(crate) fn wide_of(&mut self, operand: &Operand, ty: DataType) -> Result<Wide, Problem> {
        let destination = self.checked_destination(operand, ty, fit::holds)?;
        Ok(match self.register(operand) {
            Some((File::Double, _)) => Wide::Double(destination),
            Some((File::Quad, _)) => Wide::Quad(destination),
            None if ty.bits() == 64 => Wide::Double(destination),
            None if ty.bits() == 128 => Wide::Quad(destination),
            _ => Wide::Word(destination),
        })
    }

    /// Operand `index` as a destination whose register may be wider than the value.
    pub(crate) fn wide(&mut self, index: usize, ty: DataType) -> Result<Wide, Problem> {
        self.wide_of(self.operand(index)?, ty)
    }

    /// The brackets of operand `index`, for coordinates.
    pub(crate) fn bracket(&self, index: usize) -> Result<&'f module::Address, Problem> {
        match self.operand(index)? {
            Operand::Address(address) => Ok(address),
            _ => Err(format!("operand {} must be an address in brackets", index + 1)),
        }
    }

    /// Operand `index` as an address. In the space of a shared or local variable the address is
    /// that of the space; a generic instruction that names such a variable is refused.
    pub(crate) fn address(
        &mut self,
        index: usize,
        space: Option<StateSpace>,
    ) -> Result<Address, Problem> {
        let address = self.bracket(index)?;
        self.address_of(address, space)
    }

    pub(crate) fn address_of(
        &mut self,
        address: &module::Address,
        space: Option<StateSpace>,
    ) -> Result<Address, Problem> {
        let offset = address.offset;
        let name = match address.base {
            Base::Immediate(value) => {
                return Ok(Address { base: AddressBase::Constant(value), offset });
            }
            Base::Name(name) => name,
        };
        if let Reference::Register(index) = name {
            if self.lowering.register_name(index).is_some_and(|(_, own)| fit::is_float(own)) {
                return Err("an address register holds no floating-point number".to_owned());
            }
            let base = match self.lowering.register(index) {
                Some((File::Word, row)) => {
                    self.lowering.note_read(row);
                    AddressBase::Word(row)
                }
                Some((File::Double, row)) => AddressBase::Double(row),
                _ => return Err("an address register has 32 or 64 bits".to_owned()),
            };
            return Ok(Address { base, offset });
        }
        if space == Some(StateSpace::Param)
            && let Some(place) = self.lowering.call_parameter(name)?
        {
            return Ok(Address { base: AddressBase::Parameter(place.offset.into()), offset });
        }
        let wrong = || "the symbol lies in another state space".to_owned();
        // Constants and parameters have no generic address that an instruction could name.
        let fits = match (space, self.lowering.space_of(name)) {
            (None, own) => !matches!(own, Some(StateSpace::Const | StateSpace::Param)),
            (wanted, own) => wanted == own || own.is_none(),
        };
        if !fits {
            return Err(wrong());
        }
        let base = match self.resolve(name, 0)? {
            Some(Symbol::Constant(value)) => AddressBase::Constant(value),
            Some(Symbol::Shared(value)) => match space {
                Some(StateSpace::Shared) => AddressBase::Shared(value),
                // A generic access by name: the address is completed at run time.
                None => {
                    let row = self.lowering.temporary(File::Double);
                    let special = Special::GenericShared(value);
                    self.emit(Operation::Special(special.into_double(Destination(Some(row)))));
                    AddressBase::Double(row)
                }
                _ => return Err(wrong()),
            },
            Some(Symbol::Frame(value)) => match space {
                Some(StateSpace::Local) => AddressBase::Frame(value),
                None => {
                    let row = self.lowering.temporary(File::Double);
                    let special = Special::GenericFrame(value);
                    self.emit(Operation::Special(special.into_double(Destination(Some(row)))));
                    AddressBase::Double(row)
                }
                _ => return Err(wrong()),
            },
            None => return Err("an address is wanted".to_owned()),
        };
        Ok(Address { base, offset })
    }

    /// A literal that must be known at load, such as a barrier's count.
    pub(crate) fn constant(&self, index: usize) -> Result<i64, Problem> {
        constant(self.operand(index)?)
    }
}

/// The error that an instruction has no such special register.
fn special_problem(operand: &Operand) -> Problem {
    match operand {
        Operand::Name(Reference::Special(name)) => {
            format!("the special register `{name}` is not supported here")
        }
        Operand::Component(Reference::Special(name), component) => {
            format!("the special register `{name}{component}` is not supported here")
        }
        _ => "a special register is wanted".to_owned(),
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

fn immediate32(immediate: Immediate, ty: DataType) -> Result<u32, Problem> {
    check_literal(immediate, ty)?;
    let bits = match immediate {
        Immediate::Signed(value) => value as u32,
        Immediate::Unsigned(value) => value as u32,
        Immediate::Single(bits) => bits,
        Immediate::Double(bits) => (f64::from_bits(bits) as f32).to_bits(),
    };
    Ok(if ty.bits() < 32 { bits & ((1 << ty.bits()) - 1) } else { bits })
}

fn immediate64(immediate: Immediate, ty: DataType) -> Result<u64, Problem> {
    check_literal(immediate, ty)?;
    Ok(match immediate {
        Immediate::Signed(value) => value as u64,
        Immediate::Unsigned(value) => value,
        Immediate::Single(bits) if ty == DataType::F64 => f64::from(f32::from_bits(bits)).to_bits(),
        Immediate::Single(bits) => bits.into(),
        Immediate::Double(bits) => bits,
    })
}

/// Floating-point literals are for floating-point types and for bits of their own width; others
/// are not for floating-point types.
fn check_literal(immediate: Immediate, ty: DataType) -> Result<(), Problem> {
    let right = match immediate {
        Immediate::Signed(_) | Immediate::Unsigned(_) => !ty.is_float(),
        Immediate::Single(_) => matches!(ty, DataType::F32 | DataType::F64 | DataType::B32),
        Immediate::Double(_) => matches!(ty, DataType::F32 | DataType::F64 | DataType::B64),
    };
    if right {
        Ok(())
    } else {
        Err(format!("`{immediate}` is no literal of type `.{}`", ty.word()))
    }
}

/// The file whose rows hold registers of a declared type.
pub(crate) fn file_of(scalar: ScalarType) -> File {
    match scalar.bytes() {
        None => File::Predicate,
        Some(0..=4) => File::Word,
        Some(8) => File::Double,
        Some(_) => File::Quad,
    }
}
