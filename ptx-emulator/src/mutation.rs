//! Breaking a module on purpose, one place at a time.
//!
//! A test suite that runs a kernel in the emulator is worth what it notices. [`sites`] lists the
//! places of a module whose loss a good suite must notice: fences, waits, arrivals, byte counts,
//! barriers, fields of matrix descriptors, and bounds. [`Site::apply`] gives the module with that
//! one place broken.
//!
//! ```
//! use ptx_emulator::{Module, mutation};
//!
//! let text = "
//! .version 8.6
//! .target sm_90a
//! .address_size 64
//! .visible .entry wait()
//! {
//!     bar.sync 0;
//!     ret;
//! }";
//! let module = Module::parse(text)?;
//! let sites = mutation::sites(&module);
//! assert_eq!(sites.len(), 1);
//! assert_eq!(sites[0].to_string(), "line 7 of `wait`: without `bar.sync`");
//! assert!(!sites[0].apply(&module).to_string().contains("bar.sync"));
//! # Ok::<(), ptx_emulator::ParseError>(())
//! ```

use std::collections::HashSet;
use std::fmt;

use crate::module::{Body, Immediate, Instruction, Module, Opcode, Operand, Reference, Statement};

/// Where the swizzle mode stands in a descriptor of a matrix in shared memory.
const SWIZZLE: u32 = 62;
/// Where the stride offset begins.
const STRIDE: u32 = 32;
/// Where the leading offset begins.
const LEADING: u32 = 16;
/// The bits of an offset.
const OFFSET: u64 = 0x3FFF;

/// How an instruction is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It is left out.
    Removed,
    /// It finds at once what it should wait for.
    Satisfied,
    /// An operand that is a number has another value.
    Number {
        /// The operand's index.
        operand: usize,
        /// The value it has now.
        from: u64,
        /// The value it gets.
        to: u64,
    },
    /// A comparison includes what it excluded, or the reverse.
    Comparison {
        /// The word of the opcode.
        from: &'static str,
        /// What it becomes.
        to: &'static str,
    },
    /// The smaller of two numbers is always the first.
    Unbounded,
}

/// What a place is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Memory fences and `wgmma.fence`.
    Fence,
    /// Waits for copies, matrix products and mbarriers.
    Wait,
    /// Arrivals at mbarriers and ends of groups.
    Arrive,
    /// Bytes that an mbarrier is told to expect.
    ExpectedBytes,
    /// Barriers of warps, blocks and clusters, and the counts of all barriers.
    Barrier,
    /// Fields of descriptors of matrices in shared memory.
    Descriptor,
    /// Comparisons and minima.
    Bound,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "fence",
            Self::Wait => "wait",
            Self::Arrive => "arrive",
            Self::ExpectedBytes => "expected bytes",
            Self::Barrier => "barrier",
            Self::Descriptor => "descriptor",
            Self::Bound => "bound",
        })
    }
}

/// A place of a module and how it can be broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// An index into `Module::functions`.
    pub function: usize,
    /// The function's name.
    pub name: String,
    /// An index into the instructions of its body.
    pub instruction: usize,
    /// The line of the PTX text.
    pub line: u32,
    /// The opcode.
    pub opcode: String,
    /// What it is there for.
    pub purpose: Purpose,
    /// What is done to it.
    pub damage: Damage,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, line, opcode, .. } = self;
        write!(f, "line {line} of `{name}`: ")?;
        match &self.damage {
            Damage::Removed => write!(f, "without `{opcode}`"),
            Damage::Satisfied => write!(f, "`{opcode}` does not wait"),
            Damage::Number { from, to, .. } => write!(f, "`{opcode}` with {to:#x} for {from:#x}"),
            Damage::Comparison { from, to } => write!(f, "`{opcode}` with `{to}` for `{from}`"),
            Damage::Unbounded => write!(f, "`{opcode}` takes its first operand"),
        }
    }
}

/// All places of a module that can be broken, in the order of the text.
#[must_use]
pub fn sites(module: &Module) -> Vec<Site> {
    let mut found = Vec::new();
    for (function, own) in module.functions.iter().enumerate() {
        let Some(body) = &own.body else { continue };
        let descriptors = descriptor_registers(body);
        for (index, instruction) in body.instructions.iter().enumerate() {
            for (purpose, damage) in damages(instruction, &descriptors) {
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

/// The registers that hold descriptors of matrices: the operands of `wgmma`, and what they are
/// computed from by additions and combinations.
fn descriptor_registers(body: &Body) -> HashSet<Reference> {
    let mut found = HashSet::new();
    for instruction in &body.instructions {
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
            let combines = matches!(instruction.opcode.mnemonic.as_str(), "add" | "or" | "mov");
            let mut operands = instruction.operands.iter();
            let Some(Operand::Name(target)) = operands.next() else { continue };
            if !combines || !found.contains(target) {
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

fn damages(instruction: &Instruction, descriptors: &HashSet<Reference>) -> Vec<(Purpose, Damage)> {
    let opcode = &instruction.opcode;
    let has = |word: &str| opcode.has(word);
    let removed = |purpose: Purpose| vec![(purpose, Damage::Removed)];
    match opcode.mnemonic.as_str() {
        "fence" | "membar" => removed(Purpose::Fence),
        "bar" | "barrier" => {
            let mut all = removed(Purpose::Barrier);
            if !has("warp") {
                all.extend(changed(instruction, 1, &[32], Purpose::Barrier));
            }
            all
        }
        "wgmma" if has("fence") => removed(Purpose::Fence),
        "wgmma" if has("commit_group") => removed(Purpose::Arrive),
        "cp" if has("commit_group") => removed(Purpose::Arrive),
        "wgmma" | "cp" if has("wait_group") => {
            let mut all = removed(Purpose::Wait);
            all.extend(changed(instruction, 0, &[1], Purpose::Wait));
            all
        }
        "cp" if has("wait_all") => removed(Purpose::Wait),
        "griddepcontrol" if has("wait") => removed(Purpose::Wait),
        "mbarrier" => mbarrier_damages(instruction),
        "add" | "or" | "mov" => match instruction.operands.first() {
            Some(Operand::Name(target)) if descriptors.contains(target) => {
                descriptor_damages(instruction)
            }
            _ => Vec::new(),
        },
        "setp" => comparison(opcode).into_iter().collect(),
        "min" if opcode.modifiers.iter().any(|word| is_integer(word)) => {
            vec![(Purpose::Bound, Damage::Unbounded)]
        }
        _ => Vec::new(),
    }
}

fn mbarrier_damages(instruction: &Instruction) -> Vec<(Purpose, Damage)> {
    let has = |word: &str| instruction.opcode.has(word);
    if has("try_wait") || has("test_wait") {
        return vec![(Purpose::Wait, Damage::Satisfied)];
    }
    if has("init") {
        let mut all = vec![(Purpose::Barrier, Damage::Removed)];
        all.extend(changed(instruction, 1, &[1, u64::MAX], Purpose::Barrier));
        return all;
    }
    if has("arrive") || has("arrive_drop") {
        let mut all = vec![(Purpose::Arrive, Damage::Removed)];
        if has("expect_tx") {
            all.extend(changed(
                instruction,
                2,
                &[16, 16u64.wrapping_neg()],
                Purpose::ExpectedBytes,
            ));
        }
        return all;
    }
    if has("expect_tx") {
        return changed(instruction, 1, &[16, 16u64.wrapping_neg()], Purpose::ExpectedBytes);
    }
    Vec::new()
}

/// The value of an operand that is a number, moved by each of some differences. Zero is left out:
/// counts of zero are refused by rules of their own.
fn changed(
    instruction: &Instruction,
    operand: usize,
    differences: &[u64],
    purpose: Purpose,
) -> Vec<(Purpose, Damage)> {
    let Some(from) = instruction.operands.get(operand).and_then(number) else { return Vec::new() };
    differences
        .iter()
        .map(|difference| from.wrapping_add(*difference))
        .filter(|to| *to != 0)
        .map(|to| (purpose, Damage::Number { operand, from, to }))
        .collect()
}

fn number(operand: &Operand) -> Option<u64> {
    match operand {
        Operand::Immediate(Immediate::Signed(value)) => Some(*value as u64),
        Operand::Immediate(Immediate::Unsigned(value)) => Some(*value),
        _ => None,
    }
}

/// Each field of a descriptor that a constant sets: another swizzle, twice the offsets, another
/// step.
fn descriptor_damages(instruction: &Instruction) -> Vec<(Purpose, Damage)> {
    let mut all = Vec::new();
    for (operand, own) in instruction.operands.iter().enumerate().skip(1) {
        let Some(from) = number(own) else { continue };
        let mut change =
            |to: u64| all.push((Purpose::Descriptor, Damage::Number { operand, from, to }));
        if from >> STRIDE == 0 && instruction.opcode.mnemonic == "add" {
            change(from * 2);
            continue;
        }
        if from >> SWIZZLE != 0 {
            change(from ^ (3 << SWIZZLE));
        }
        for field in [STRIDE, LEADING] {
            let value = from >> field & OFFSET;
            // One unit is what producers write where the field is ignored.
            if value > 1 {
                change((from & !(OFFSET << field)) | (((value * 2) & OFFSET) << field));
            }
        }
    }
    all
}

fn is_integer(word: &str) -> bool {
    matches!(word, "u16" | "u32" | "u64" | "s16" | "s32" | "s64")
}

fn comparison(opcode: &Opcode) -> Option<(Purpose, Damage)> {
    if !opcode.modifiers.iter().any(|word| is_integer(word)) {
        return None;
    }
    const PAIRS: [(&str, &str); 8] = [
        ("lt", "le"),
        ("le", "lt"),
        ("gt", "ge"),
        ("ge", "gt"),
        ("lo", "ls"),
        ("ls", "lo"),
        ("hi", "hs"),
        ("hs", "hi"),
    ];
    let (from, to) = PAIRS.into_iter().find(|(from, _)| opcode.has(from))?;
    Some((Purpose::Bound, Damage::Comparison { from, to }))
}

impl Site {
    /// The module with this one place broken. A site of another module changes nothing.
    #[must_use]
    pub fn apply(&self, module: &Module) -> Module {
        let mut module = module.clone();
        let body = module.functions.get_mut(self.function).and_then(|own| own.body.as_mut());
        if let Some(body) = body {
            self.apply_to(body);
        }
        module
    }

    fn apply_to(&self, body: &mut Body) {
        if self.damage == Damage::Removed {
            // The text keeps its order; the instruction is just not printed.
            body.statements.retain(|own| *own != Statement::Instruction(self.instruction));
            return;
        }
        let Some(instruction) = body.instructions.get_mut(self.instruction) else { return };
        match &self.damage {
            Damage::Removed => {}
            Damage::Satisfied => {
                let target = instruction.operands.first().cloned();
                instruction.opcode = opcode("mov", &["pred"]);
                instruction.operands =
                    target.into_iter().chain([Operand::Immediate(Immediate::Signed(1))]).collect();
            }
            Damage::Number { operand, to, .. } => {
                if let Some(own) = instruction.operands.get_mut(*operand) {
                    *own = Operand::Immediate(Immediate::Signed(*to as i64));
                }
            }
            Damage::Comparison { from, to } => {
                for word in &mut instruction.opcode.modifiers {
                    if word == from {
                        (*to).clone_into(word);
                    }
                }
            }
            Damage::Unbounded => {
                let ty = instruction.opcode.modifiers.iter().find(|word| is_integer(word));
                instruction.opcode = opcode("mov", &[ty.map_or("b32", String::as_str)]);
                instruction.operands.truncate(2);
            }
        }
    }
}

fn opcode(mnemonic: &str, modifiers: &[&str]) -> Opcode {
    let modifiers = modifiers.iter().map(|word| (*word).to_owned()).collect();
    Opcode { mnemonic: mnemonic.to_owned(), modifiers }
}
