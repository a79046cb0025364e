//! The places of `tcgen05` instructions and of launch control.

use std::collections::HashSet;

use super::find::{Finder, Found, number};
use super::{Damage, Purpose};
use crate::module::{Base, Body, Instruction, Operand, Reference};

/// Where `tcgen05.mma` has its operands: D, A, B and the instruction descriptor come first.
const A: usize = 1;
const B: usize = 2;
const DESCRIPTOR: usize = 3;
/// Behind these, for products with scale factors, their addresses.
const SCALES: [usize; 2] = [4, 5];

/// The bits of an instruction descriptor that say along what the rows of A and B run.
const ORDERS: [u32; 2] = [15, 16];
/// Where its number of columns begins, in eights, and the bits it has.
const COLUMNS: u32 = 17;
const COLUMNS_MASK: u64 = 0x3F;
/// The numbers of the scale factors of B and A in their words of tensor memory.
const SCALE_NUMBERS: [u32; 2] = [4, 29];

const GROUPS: [(&str, &str); 2] =
    [("cta_group::1", "cta_group::2"), ("cta_group::2", "cta_group::1")];

impl Finder {
    /// `tcgen05` instructions.
    pub(super) fn tensor(&self, instruction: &Instruction) -> Vec<Found> {
        let opcode = &instruction.opcode;
        let has = |word: &str| opcode.has(word);
        let removed = |purpose: Purpose| vec![(purpose, Damage::Removed)];
        let mut all = if has("fence::before_thread_sync") || has("fence::after_thread_sync") {
            removed(Purpose::Fence)
        } else if has("wait::ld") || has("wait::st") {
            removed(Purpose::Wait)
        } else if has("commit") {
            let mut all = removed(Purpose::Arrive);
            all.extend(self.multicast(instruction));
            all
        } else if has("alloc") || has("dealloc") {
            let mut all = removed(Purpose::Allocation);
            // Fewer than 32 columns are refused by a rule of their own.
            if let Some(from @ 64..) = self.number(instruction, 1) {
                let damage = Damage::Number { operand: 1, from, to: from / 2 };
                all.push((Purpose::Allocation, damage));
            }
            all
        } else if has("mma") {
            let mut all = self.instruction_descriptor(instruction);
            all.extend(self.accumulation(instruction));
            all
        } else {
            Vec::new()
        };
        // Without the permit others wait longer; they do not compute anything else.
        if !has("relinquish_alloc_permit") {
            all.extend(group(instruction));
        }
        all.extend(offsets(instruction));
        all
    }

    /// A commit that reaches one block fewer.
    fn multicast(&self, instruction: &Instruction) -> Option<Found> {
        let from = self.number(instruction, 1)?;
        let to = from & from.wrapping_sub(1);
        (to != 0).then_some((Purpose::Arrive, Damage::Number { operand: 1, from, to }))
    }

    /// Fields of an instruction descriptor that is known.
    fn instruction_descriptor(&self, instruction: &Instruction) -> Vec<Found> {
        let Some(from) = self.number(instruction, DESCRIPTOR) else { return Vec::new() };
        let opcode = &instruction.opcode;
        let change = |purpose: Purpose, bit: u32| {
            (purpose, Damage::Number { operand: DESCRIPTOR, from, to: from ^ (1 << bit) })
        };
        let mut all: Vec<Found> =
            ORDERS.into_iter().map(|bit| change(Purpose::Descriptor, bit)).collect();
        // Sixteen columns fewer.
        if from >> COLUMNS & COLUMNS_MASK > 2 {
            let to = from - (2 << COLUMNS);
            all.push((Purpose::Descriptor, Damage::Number { operand: DESCRIPTOR, from, to }));
        }
        if opcode.has("block_scale") {
            // Where words hold factors for two steps, the numbers are 0 and 2.
            let second = u32::from(!opcode.has("kind::mxf8f6f4"));
            let numbers = SCALE_NUMBERS.into_iter();
            all.extend(numbers.map(|bit| change(Purpose::ScaleNumber, bit + second)));
        }
        all
    }

    /// A product that always adds to D, and one that never does.
    fn accumulation(&self, instruction: &Instruction) -> Vec<Found> {
        let operand = accumulate_operand(instruction);
        let decided = |says: bool| (Purpose::Accumulate, Damage::Predicate { operand, says });
        match self.number(instruction, operand) {
            Some(own) => vec![decided(own == 0)],
            None => [false, true].map(decided).into(),
        }
    }
}

/// Where a product has the predicate: behind the scale factors and the mask of lanes.
fn accumulate_operand(instruction: &Instruction) -> usize {
    let mut operand = DESCRIPTOR + 1;
    if instruction.opcode.has("block_scale") {
        operand += SCALES.len();
    }
    match instruction.operands.get(operand) {
        Some(Operand::Vector(_)) => operand + 1,
        _ => operand,
    }
}

/// The instruction for one block where it is for a pair, and the reverse.
fn group(instruction: &Instruction) -> Option<Found> {
    let (from, to) = GROUPS.into_iter().find(|(from, _)| instruction.opcode.has(from))?;
    Some((Purpose::Group, Damage::Word { from, to }))
}

/// Twice the columns and lanes that are added to addresses in tensor memory.
fn offsets(instruction: &Instruction) -> Vec<Found> {
    let mut all = Vec::new();
    for operand in tensor_operands(instruction) {
        if let Some(Operand::Address(own)) = instruction.operands.get(operand)
            && let Ok(from @ 1..) = u64::try_from(own.offset)
        {
            let damage = Damage::Number { operand, from, to: from * 2 };
            all.push((Purpose::TensorAddress, damage));
        }
    }
    all
}

/// The operands that are addresses in tensor memory.
fn tensor_operands(instruction: &Instruction) -> Vec<usize> {
    let opcode = &instruction.opcode;
    if opcode.mnemonic != "tcgen05" {
        return Vec::new();
    }
    if opcode.has("mma") {
        let scales = SCALES.into_iter().filter(|_| opcode.has("block_scale"));
        return [0, A].into_iter().chain(scales).collect();
    }
    if opcode.has("ld") {
        return vec![1];
    }
    if opcode.has("st") || opcode.has("cp") { vec![0] } else { Vec::new() }
}

/// The registers that hold descriptors of matrices in shared memory.
pub(super) fn descriptors(instruction: &Instruction) -> Vec<Reference> {
    let opcode = &instruction.opcode;
    let operands: &[usize] = match opcode.mnemonic.as_str() {
        "tcgen05" if opcode.has("mma") => &[A, B],
        "tcgen05" if opcode.has("cp") => &[1],
        _ => &[],
    };
    let operands = operands.iter().filter_map(|index| instruction.operands.get(*index));
    let names = operands.filter_map(|operand| match operand {
        Operand::Name(name @ Reference::Register(_)) => Some(*name),
        _ => None,
    });
    names.collect()
}

/// The registers that addresses in tensor memory begin with, and those that these are sums of.
pub(super) fn address_registers(body: &Body) -> HashSet<Reference> {
    let mut found = HashSet::new();
    for instruction in &body.instructions {
        for operand in tensor_operands(instruction) {
            if let Some(Operand::Address(own)) = instruction.operands.get(operand)
                && let Base::Name(name @ Reference::Register(_)) = own.base
            {
                found.insert(name);
            }
        }
    }
    loop {
        let before = found.len();
        for instruction in &body.instructions {
            let [Operand::Name(target), sources @ ..] = &instruction.operands[..] else { continue };
            if !is_sum(instruction) || !found.contains(target) {
                continue;
            }
            for source in sources {
                if let Operand::Name(name @ Reference::Register(_)) = source {
                    found.insert(*name);
                }
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn is_sum(instruction: &Instruction) -> bool {
    matches!(instruction.opcode.mnemonic.as_str(), "add" | "or" | "mov")
}

/// Twice what is added to an address in tensor memory.
pub(super) fn addition(instruction: &Instruction) -> Vec<Found> {
    if instruction.opcode.mnemonic == "mov" {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (operand, own) in instruction.operands.iter().enumerate().skip(1) {
        if let Some(from @ 1..) = number(own) {
            let damage = Damage::Number { operand, from, to: from.wrapping_mul(2) };
            all.push((Purpose::TensorAddress, damage));
        }
    }
    all
}
