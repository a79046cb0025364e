//! Finding the places.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Damage, Purpose, Site, tensor};
use crate::module::{Body, Immediate, Instruction, Module, Opcode, Operand, Reference};

/// Where the swizzle mode stands in a descriptor of a matrix in shared memory.
const SWIZZLE: u32 = 62;
/// Where the stride offset begins.
const STRIDE: u32 = 32;
/// Where the leading offset begins.
const LEADING: u32 = 16;
/// Set in the descriptors of `tcgen05` and never in those of `wgmma`.
const BLACKWELL: u64 = 1 << 46;
/// The bits of an offset, and of the address.
const OFFSET: u64 = 0x3FFF;

/// A kind of damage and what the broken place was there for.
pub(super) type Found = (Purpose, Damage);

/// All places of a module that can be broken, in the order of the text.
#[must_use]
pub fn sites(module: &Module) -> Vec<Site> {
    let mut found = Vec::new();
    for (function, own) in module.functions.iter().enumerate() {
        let Some(body) = &own.body else { continue };
        let finder = Finder::new(body);
        for (index, instruction) in body.instructions.iter().enumerate() {
            for (purpose, damage) in finder.damages(instruction) {
                found.push(Site {
                    function,
                    name: own.name.clone(),
                    instruction: index,
                    line: instruction.line,
                    opcode: instruction.opcode.to_string(),
                    purpose,
                    damage,
                });
            }
        }
    }
    found
}

/// What must be known of a function to judge one of its instructions.
pub(super) struct Finder {
    /// Registers that hold one number all the time.
    constants: HashMap<Reference, u64>,
    /// Registers that hold descriptors of matrices, or what becomes a field of one.
    descriptors: HashSet<Reference>,
    /// Registers that hold addresses in tensor memory, or parts of sums that are ones.
    tensor_addresses: HashSet<Reference>,
    /// The numbers of the barriers that the function uses.
    barriers: BTreeSet<u64>,
}

impl Finder {
    fn new(body: &Body) -> Self {
        let mut own = Self {
            constants: constants(body),
            descriptors: descriptor_registers(body),
            tensor_addresses: tensor::address_registers(body),
            barriers: BTreeSet::new(),
        };
        let barriers = body.instructions.iter().filter(|instruction| is_barrier(instruction));
        own.barriers = barriers.filter_map(|barrier| own.number(barrier, 0)).collect();
        own
    }

    /// The value of an operand that is a number, or a register that holds one.
    pub(super) fn number(&self, instruction: &Instruction, operand: usize) -> Option<u64> {
        match instruction.operands.get(operand)? {
            Operand::Name(name) => self.constants.get(name).copied(),
            operand => number(operand),
        }
    }

    fn damages(&self, instruction: &Instruction) -> Vec<Found> {
        let opcode = &instruction.opcode;
        let has = |word: &str| opcode.has(word);
        let removed = |purpose: Purpose| vec![(purpose, Damage::Removed)];
        match opcode.mnemonic.as_str() {
            "fence" | "membar" => removed(Purpose::Fence),
            "bar" | "barrier" => self.barrier(instruction),
            "wgmma" if has("fence") => removed(Purpose::Fence),
            "wgmma" | "cp" if has("commit_group") => removed(Purpose::Arrive),
            "wgmma" | "cp" if has("wait_group") => {
                let mut all = removed(Purpose::Wait);
                all.extend(self.changed(instruction, 0, &[1], Purpose::Wait));
                all
            }
            "cp" if has("wait_all") => removed(Purpose::Wait),
            "griddepcontrol" if has("wait") => removed(Purpose::Wait),
            "mbarrier" => self.mbarrier(instruction),
            "tcgen05" => self.tensor(instruction),
            // Whether there is another block to compute.
            "clusterlaunchcontrol" if has("is_canceled") => {
                [false, true].map(|says| (Purpose::Bound, Damage::Decided { says })).into()
            }
            "add" | "or" | "mov" | "bfe" => match instruction.operands.first() {
                Some(Operand::Name(target)) if self.descriptors.contains(target) => {
                    descriptor(instruction)
                }
                Some(Operand::Name(target)) if self.tensor_addresses.contains(target) => {
                    tensor::addition(instruction)
                }
                _ => Vec::new(),
            },
            "setp" => comparison(opcode),
            "min" if opcode.modifiers.iter().any(|word| is_integer(word)) => {
                vec![(Purpose::Bound, Damage::Unbounded)]
            }
            _ => Vec::new(),
        }
    }

    fn barrier(&self, instruction: &Instruction) -> Vec<Found> {
        let mut all = vec![(Purpose::Barrier, Damage::Removed)];
        if !is_barrier(instruction) {
            return all;
        }
        all.extend(self.changed(instruction, 1, &[32], Purpose::Barrier));
        // A barrier that is taken for another one; where there is only one, its number is a name.
        if let Some(from) = self.number(instruction, 0) {
            let others = self.barriers.iter().filter(|other| **other != from);
            all.extend(
                others.map(|to| (Purpose::Barrier, Damage::Number { operand: 0, from, to: *to })),
            );
        }
        all
    }

    fn mbarrier(&self, instruction: &Instruction) -> Vec<Found> {
        let has = |word: &str| instruction.opcode.has(word);
        let bytes = |operand: usize| {
            let differences = [16, 16u64.wrapping_neg()];
            self.changed(instruction, operand, &differences, Purpose::ExpectedBytes)
        };
        if has("try_wait") || has("test_wait") {
            return vec![(Purpose::Wait, Damage::Satisfied)];
        }
        if has("init") {
            let mut all = vec![(Purpose::Barrier, Damage::Removed)];
            all.extend(self.changed(instruction, 1, &[1, u64::MAX], Purpose::Barrier));
            return all;
        }
        if has("arrive") || has("arrive_drop") {
            let mut all = vec![(Purpose::Arrive, Damage::Removed)];
            if has("expect_tx") {
                all.extend(bytes(2));
            } else {
                all.extend(self.changed(instruction, 2, &[1], Purpose::Arrive));
            }
            return all;
        }
        if has("expect_tx") { bytes(1) } else { Vec::new() }
    }

    /// The value of an operand that is a number, moved by each of some differences. Zero is left
    /// out: counts of zero are refused by rules of their own.
    fn changed(
        &self,
        instruction: &Instruction,
        operand: usize,
        differences: &[u64],
        purpose: Purpose,
    ) -> Vec<Found> {
        let Some(from) = self.number(instruction, operand) else { return Vec::new() };
        differences
            .iter()
            .map(|difference| from.wrapping_add(*difference))
            .filter(|to| *to != 0)
            .map(|to| (purpose, Damage::Number { operand, from, to }))
            .collect()
    }
}

/// Whether it is a barrier with a number, of a block.
fn is_barrier(instruction: &Instruction) -> bool {
    let opcode = &instruction.opcode;
    matches!(opcode.mnemonic.as_str(), "bar" | "barrier")
        && !opcode.has("warp")
        && !opcode.has("cluster")
}

/// The registers that are written once, by a `mov` of a number, and the predicates that compare
/// such numbers. Optimising compilers put numbers
/// there even where an instruction would take them itself.
fn constants(body: &Body) -> HashMap<Reference, u64> {
    let mut found = HashMap::new();
    let mut writes: HashMap<Reference, u32> = HashMap::new();
    for instruction in &body.instructions {
        // Stores and the like read their first operand; counting it as written is on the safe side.
        let target = instruction.operands.first();
        for name in target.into_iter().flat_map(names) {
            *writes.entry(name).or_default() += 1;
        }
        if instruction.opcode.mnemonic != "mov" || instruction.guard.is_some() {
            continue;
        }
        if let [Operand::Name(name), source] = &instruction.operands[..]
            && let Some(value) = number(source)
        {
            found.insert(*name, value);
        }
    }
    found.retain(|name, _| writes.get(name) == Some(&1));
    // Compilers turn numbers that stand for a condition into predicates right before their use.
    for instruction in &body.instructions {
        let opcode = &instruction.opcode;
        let value = |operand: &Operand| match operand {
            Operand::Name(name) => found.get(name).copied(),
            operand => number(operand),
        };
        if opcode.mnemonic == "setp"
            && opcode.has("ne")
            && instruction.guard.is_none()
            && let [Operand::Name(name), left, right] = &instruction.operands[..]
            && writes.get(name) == Some(&1)
            && let (Some(left), Some(right)) = (value(left), value(right))
        {
            found.insert(*name, u64::from(left != right));
        }
    }
    found
}

/// The names in an operand, those in an address excepted.
fn names(operand: &Operand) -> Vec<Reference> {
    match operand {
        Operand::Name(name) => vec![*name],
        Operand::Pair(pair) => pair.iter().flat_map(names).collect(),
        Operand::Vector(elements) | Operand::Arguments(elements) => {
            elements.iter().flat_map(names).collect()
        }
        _ => Vec::new(),
    }
}

/// The registers that hold descriptors of matrices: the operands of `wgmma` and `tcgen05`, and what
/// they are computed from by additions, combinations and the extraction of fields.
fn descriptor_registers(body: &Body) -> HashSet<Reference> {
    let mut found = HashSet::new();
    for instruction in &body.instructions {
        found.extend(tensor::descriptors(instruction));
        let opcode = &instruction.opcode;
        if opcode.mnemonic != "wgmma" || !opcode.has("mma_async") {
            continue;
        }
        for operand in instruction.operands.iter().skip(1) {
            if let Operand::Name(name @ Reference::Register(_)) = operand {
                found.insert(*name);
            }
        }
    }
    // The chains are short: a base combined with constants, then steps along K.
    loop {
        let before = found.len();
        for instruction in &body.instructions {
            let mut operands = instruction.operands.iter();
            let Some(Operand::Name(target)) = operands.next() else { continue };
            if !makes_descriptors(&instruction.opcode) || !found.contains(target) {
                continue;
            }
            for operand in operands {
                if let Operand::Name(name @ Reference::Register(_)) = operand {
                    found.insert(*name);
                }
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn makes_descriptors(opcode: &Opcode) -> bool {
    matches!(opcode.mnemonic.as_str(), "add" | "or" | "mov" | "cvt" | "bfe")
}

pub(super) fn number(operand: &Operand) -> Option<u64> {
    match operand {
        Operand::Immediate(Immediate::Signed(value)) => Some(*value as u64),
        Operand::Immediate(Immediate::Unsigned(value)) => Some(*value),
        _ => None,
    }
}

/// Each field of a descriptor that a constant sets: another swizzle, twice the offsets, another
/// step; and for the address, which is cut out of one, another place or one bit less.
fn descriptor(instruction: &Instruction) -> Vec<Found> {
    let mut all = Vec::new();
    for (operand, own) in instruction.operands.iter().enumerate().skip(1) {
        let Some(from) = number(own) else { continue };
        let mut change = |purpose: Purpose, to: u64| {
            // Of a number that is added in 32 bits the rest is nothing.
            if (from ^ to) & bits(&instruction.opcode) != 0 {
                all.push((purpose, Damage::Number { operand, from, to }));
            }
        };
        match instruction.opcode.mnemonic.as_str() {
            "bfe" if operand == 2 => change(Purpose::Descriptor, from.wrapping_add(1)),
            "bfe" => change(Purpose::Descriptor, from.saturating_sub(1)),
            "add" if from >> STRIDE == 0 => {
                change(Purpose::Descriptor, from.wrapping_mul(2));
            }
            _ => {
                // With three bits for the mode, this makes one without swizzle of the narrowest,
                // and exchanges the others.
                if from >> SWIZZLE != 0 {
                    change(Purpose::Swizzle, from ^ (3 << SWIZZLE));
                }
                for field in [STRIDE, LEADING] {
                    let value = from >> field & OFFSET;
                    // One unit is what producers write where the field is ignored.
                    if value > 1 {
                        let to = (from & !(OFFSET << field)) | (((value * 2) & OFFSET) << field);
                        change(Purpose::Descriptor, to);
                    }
                }
                // A step along K that the compiler has added to the rest.
                let step = from & OFFSET;
                if from & BLACKWELL != 0 && step != 0 {
                    change(Purpose::Descriptor, (from & !OFFSET) | ((step * 2) & OFFSET));
                }
            }
        }
    }
    all
}

/// The bits that an instruction has of a number.
fn bits(opcode: &Opcode) -> u64 {
    if opcode.has("s32") || opcode.has("u32") || opcode.has("b32") {
        return u64::from(u32::MAX);
    }
    u64::MAX
}

pub(super) fn is_integer(word: &str) -> bool {
    matches!(word, "u16" | "u32" | "u64" | "s16" | "s32" | "s64")
}

/// A comparison for an order that is not made, and off by one.
fn comparison(opcode: &Opcode) -> Vec<Found> {
    const PAIRS: [(&str, &str, bool); 8] = [
        ("lt", "le", true),
        ("le", "lt", false),
        ("gt", "ge", true),
        ("ge", "gt", false),
        ("lo", "ls", true),
        ("ls", "lo", false),
        ("hi", "hs", true),
        ("hs", "hi", false),
    ];
    if !opcode.modifiers.iter().any(|word| is_integer(word)) {
        return Vec::new();
    }
    let Some((from, to, says)) = PAIRS.into_iter().find(|(from, ..)| opcode.has(from)) else {
        return Vec::new();
    };
    vec![
        (Purpose::Bound, Damage::Decided { says }),
        (Purpose::Edge, Damage::Comparison { from, to }),
    ]
}
