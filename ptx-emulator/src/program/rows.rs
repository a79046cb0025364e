//! Which row of which register file each register of a function gets.
//!
//! Compilers name a register for each value, thousands in a kernel, of which a few hundred are
//! needed at a time. With a row for each, a warp would have up to 1.4 MB that every block fills
//! with noise and that no cache holds; so registers that are never needed at the same time share a
//! row. Threads see nothing of it: each lane of a row belongs to one thread, a thread follows the
//! paths that are gone through here, and those whose registers others read are at the same
//! instruction.
//!
//! It is a linear scan (Poletto and Sarkar, *Linear Scan Register Allocation*, 1999) over the
//! intervals in which registers are needed. Without a bound on the rows, none is spilled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fixedbitset::FixedBitSet;

use super::form::{file_of, for_each_reference};
use super::operand::File;
use crate::execute::registers::RegisterCounts;
use crate::module::{Body, Instruction, Reference};

/// Where a function's registers lie.
pub(super) struct Rows {
    /// File and row, or the first of its rows, of each register by its dense index.
    pub(super) of: Vec<(File, u32)>,
    pub(super) counts: RegisterCounts,
}

/// What lowering finds out about a function's registers.
#[derive(Default)]
pub(super) struct Uses {
    /// For each instruction of the text, the registers that are its destinations.
    pub(super) written: Vec<Vec<u32>>,
    /// Those that are read or written at a later moment than that of the instruction.
    pub(super) owned: Vec<u32>,
}

impl Rows {
    /// A row for each register, or as many as its vector has elements.
    pub(super) fn declared(body: &Body) -> Self {
        let mut rows = Self { of: Vec::new(), counts: RegisterCounts::default() };
        for group in &body.registers {
            let file = file_of(group.scalar);
            let elements = group.vector.map_or(1, |length| length.length());
            for _ in 0..group.length() {
                let place = rows.add(file, elements);
                rows.of.push(place);
            }
        }
        rows
    }

    /// A row for all registers of a file that are needed one after the other. Vectors and what
    /// [`Uses::owned`] lists keep rows of their own, as all registers do where too much would have
    /// to be noted.
    pub(super) fn shared(body: &Body, uses: &Uses) -> Self {
        let Some(needed) = intervals(body, uses) else { return Self::declared(body) };
        let mut apart = vec![false; body.register_count as usize];
        for group in body.registers.iter().filter(|group| group.vector.is_some()) {
            apart[group.first as usize..][..group.length() as usize].fill(true);
        }
        for register in &uses.owned {
            apart[*register as usize] = true;
        }
        let mut rows = Self::declared(body);
        let files: Vec<File> = rows.of.iter().map(|place| place.0).collect();
        rows.counts = RegisterCounts::default();
        for group in &body.registers {
            let elements = group.vector.map_or(1, |length| length.length());
            for register in group.first..group.first + group.length() {
                if apart[register as usize] {
                    rows.of[register as usize] = rows.add(files[register as usize], elements);
                }
            }
        }
        let mut order: Vec<usize> = (0..needed.len()).filter(|own| !apart[*own]).collect();
        order.sort_unstable_by_key(|own| needed[*own]);
        for file in [File::Predicate, File::Word, File::Double, File::Quad] {
            // The rows in use, the one that is free first on top; then those that are free, of
            // which the last used is the likeliest to be in a cache.
            let mut taken = BinaryHeap::new();
            let mut free = Vec::new();
            for &register in order.iter().filter(|own| files[**own] == file) {
                let (from, to) = needed[register];
                while let Some(Reverse((end, row))) = taken.peek().copied()
                    && end < from
                {
                    taken.pop();
                    free.push(row);
                }
                let row = free.pop().unwrap_or_else(|| rows.add(file, 1).1);
                taken.push(Reverse((to, row)));
                rows.of[register] = (file, row);
            }
        }
        rows
    }

    fn add(&mut self, file: File, elements: u32) -> (File, u32) {
        let count = self.counts.of_mut(file);
        *count += elements;
        (file, *count - elements)
    }
}

/// From the first to the last instruction at which each register holds something that may be read,
/// or is named. Two that overlap in one instruction may both be written while the other is read.
/// What the text never names counts as named by its first instruction. `None` of too large a text.
fn intervals(body: &Body, uses: &Uses) -> Option<Vec<(usize, usize)>> {
    let registers = body.register_count as usize;
    let blocks = blocks(body);
    let mut named = vec![(usize::MAX, 0); registers];
    let mut extend = |register: usize, at: usize| {
        let (from, to) = &mut named[register];
        (*from, *to) = ((*from).min(at), (*to).max(at));
    };
    for block in &blocks {
        for at in block.instructions.clone() {
            for_each_register(&body.instructions[at], &mut |own| extend(own as usize, at));
        }
    }
    let Crossing { registers, blocks: needed } = crossing(body, uses, &blocks, MOST_BITS)?;
    for (block, needed) in blocks.iter().zip(&needed) {
        let range = &block.instructions;
        needed.before.ones().for_each(|own| extend(registers[own], range.start));
        needed.behind.ones().for_each(|own| extend(registers[own], range.end - 1));
    }
    let seen = |(from, to)| if from > to { (0, 0) } else { (from, to) };
    Some(named.into_iter().map(seen).collect())
}

/// Instructions of which all are executed if the first is.
struct Block {
    instructions: std::ops::Range<usize>,
    /// The blocks that may be next.
    next: Vec<usize>,
}

fn blocks(body: &Body) -> Vec<Block> {
    let count = body.instructions.len();
    let mut starts = vec![false; count + 1];
    starts[0] = true;
    for label in &body.labels {
        starts[label.instruction.min(count)] = true;
    }
    for (at, instruction) in body.instructions.iter().enumerate() {
        if is_end(instruction) {
            starts[at + 1] = true;
        }
    }
    starts[count] = true;
    let starts: Vec<usize> = (0..=count).filter(|at| starts[*at]).collect();
    let block_of = |at: usize| starts.partition_point(|start| *start <= at) - 1;
    let ranges = starts.windows(2).map(|pair| pair[0]..pair[1]);
    let next = |last: usize| {
        let instruction = &body.instructions[last];
        let mut places = targets(body, instruction);
        if !is_end(instruction) || instruction.guard.is_some() {
            places.push(last + 1);
        }
        places.retain(|at| *at < count);
        places.into_iter().map(block_of).collect()
    };
    ranges.map(|own| Block { next: next(own.end - 1), instructions: own }).collect()
}

/// Whether what stands behind an instruction is not next, or not for all.
fn is_end(instruction: &Instruction) -> bool {
    matches!(instruction.opcode.mnemonic.as_str(), "bra" | "brx" | "exit" | "ret")
}

/// The instructions to which one may branch.
fn targets(body: &Body, instruction: &Instruction) -> Vec<usize> {
    let mut found = Vec::new();
    for operand in &instruction.operands {
        for_each_reference(operand, &mut |name| match name {
            Reference::Label(label) => found.push(label),
            Reference::BranchTargets(list) => {
                found.extend(body.branch_targets.get(list).into_iter().flat_map(|own| &own.labels));
            }
            _ => {}
        });
    }
    found.iter().filter_map(|label| body.labels.get(*label)).map(|own| own.instruction).collect()
}

/// Calls `visit` with the register of each place of an instruction that names one.
fn for_each_register(instruction: &Instruction, visit: &mut impl FnMut(u32)) {
    let mut visit = |name| {
        if let Reference::Register(register) = name {
            visit(register);
        }
    };
    if let Some(guard) = &instruction.guard {
        visit(guard.predicate);
    }
    for operand in &instruction.operands {
        for_each_reference(operand, &mut visit);
    }
}

/// What may be read in another block than the one that wrote it.
struct Crossing {
    /// The registers that some block reads before it writes them: few, beside all that are named.
    registers: Vec<usize>,
    blocks: Vec<Needed>,
}

/// Of [`Crossing::registers`], by their places in it, those of which something may be read before
/// it is written again.
struct Needed {
    before: FixedBitSet,
    behind: FixedBitSet,
}

/// The most bits of one set of each block: 64 MiB. A text of ten megabytes can have a hundred
/// thousand blocks and as many registers that cross them.
const MOST_BITS: usize = 1 << 29;

/// `None` if that takes more than `most_bits` for each of three sets of a block.
fn crossing(body: &Body, uses: &Uses, blocks: &[Block], most_bits: usize) -> Option<Crossing> {
    let mut read = vec![Vec::new(); blocks.len()];
    let mut written = vec![Vec::new(); blocks.len()];
    // The last block that wrote each register.
    let mut writer = vec![usize::MAX; body.register_count as usize];
    let mut names = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        for at in block.instructions.clone() {
            let instruction = &body.instructions[at];
            names.clear();
            for_each_register(instruction, &mut |own| names.push(own));
            // A destination that is named once is not read, and has a new value in every thread,
            // unless a guard keeps some from it.
            let is_new = |register: u32| {
                instruction.guard.is_none()
                    && uses.written[at].contains(&register)
                    && names.iter().filter(|own| **own == register).count() == 1
            };
            for &register in names.iter().filter(|own| !is_new(**own)) {
                if writer[register as usize] != index {
                    read[index].push(register as usize);
                }
            }
            for &register in names.iter().filter(|own| is_new(**own)) {
                writer[register as usize] = index;
                written[index].push(register as usize);
            }
        }
    }
    let mut registers = read.concat();
    registers.sort_unstable();
    registers.dedup();
    if registers.len().saturating_mul(blocks.len()) > most_bits {
        return None;
    }
    let set = |of: &Vec<usize>| {
        let mut set = FixedBitSet::with_capacity(registers.len());
        set.extend(of.iter().filter_map(|own| registers.binary_search(own).ok()));
        set
    };
    let written: Vec<FixedBitSet> = written.iter().map(set).collect();
    let empty = set(&Vec::new());
    let mut all: Vec<Needed> =
        read.iter().map(|read| Needed { before: set(read), behind: empty.clone() }).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for index in (0..blocks.len()).rev() {
            let mut behind = empty.clone();
            for next in &blocks[index].next {
                behind.union_with(&all[*next].before);
            }
            if behind != all[index].behind {
                changed = true;
                all[index].before.extend(behind.difference(&written[index]));
                all[index].behind = behind;
            }
        }
    }
    Some(Crossing { registers, blocks: all })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{Module, Operand};

    /// What a text does in which first operands are destinations but for those of branches, and
    /// `%r0` is an owned register.
    fn uses(body: &Body) -> Uses {
        let written = body.instructions.iter().map(|own| match own.operands.first() {
            Some(Operand::Name(Reference::Register(register))) if !is_end(own) => vec![*register],
            _ => Vec::new(),
        });
        Uses { written: written.collect(), owned: vec![0] }
    }

    /// Pairs of `%r1`, `%r2` and so on that are needed at the same time must be in
    /// rows of their own. As rows may differ by chance, their intervals must meet, too.
    fn check(text: &str, together: &[(usize, usize)], most_rows: u32) {
        let text = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n\
             .entry k() {{ .reg .b32 %r<6>; .reg .pred %p, %q; {text} ret; }}"
        );
        let module = Module::parse(&text).unwrap();
        let body = module.functions[0].body.as_ref().unwrap();
        let uses = uses(body);
        let Rows { of: rows, counts } = Rows::shared(body, &uses);
        let needed = intervals(body, &uses).unwrap();
        for &(first, second) in together {
            assert_ne!(rows[first], rows[second], "%r{first}, %r{second} in {text}");
            let meet = needed[first].0 <= needed[second].1 && needed[second].0 <= needed[first].1;
            assert!(meet, "{:?}, {:?} in {text}", needed[first], needed[second]);
        }
        assert!(!rows[1..6].contains(&rows[0]), "the owned register's row is another's: {text}");
        assert!(counts.words <= most_rows, "{} rows, not {most_rows}: {text}", counts.words);
    }

    #[test]
    fn what_is_needed_one_after_the_other_shares_a_row() {
        let text = "mov.b32 %r1, 1; mov.b32 %r2, %r1; mov.b32 %r3, %r2; mov.b32 %r4, %r3; \
                    mov.b32 %r5, %r4; mov.b32 %r0, %r5;";
        check(text, &[(1, 2), (2, 3), (3, 4), (4, 5)], 3);
    }

    #[test]
    fn a_loop_keeps_what_it_reads_again() {
        let text = "mov.b32 %r1, 0; mov.b32 %r2, 1; AGAIN: add.s32 %r3, %r1, %r2; \
                    mov.b32 %r1, %r3; mov.b32 %r4, 5; setp.lt.s32 %p, %r1, %r4; \
                    @%p bra AGAIN; mov.b32 %r5, %r1;";
        check(text, &[(1, 2), (1, 3), (2, 3), (2, 4), (1, 4), (1, 5)], 4);
    }

    #[test]
    fn a_branch_keeps_what_its_other_side_reads() {
        let text = "mov.b32 %r1, 0; mov.b32 %r2, 1; setp.lt.s32 %p, %r1, 3; @%p bra OTHER; \
                    mov.b32 %r3, 2; mov.b32 %r4, %r3; bra END; OTHER: mov.b32 %r3, %r2; \
                    END: mov.b32 %r5, %r3;";
        check(text, &[(2, 3), (2, 4), (3, 4)], 4);
    }

    #[test]
    fn a_list_of_targets_keeps_what_each_of_them_reads() {
        let text = "mov.b32 %r1, 0; AGAIN: mov.b32 %r3, %r1; mov.b32 %r4, 5; mov.b32 %r2, %r4; \
                    LIST: .branchtargets AGAIN, END; brx.idx %r2, LIST; END: mov.b32 %r5, 1;";
        check(text, &[(1, 2), (1, 3), (1, 4)], 4);
    }

    #[test]
    fn behind_a_guarded_end_others_go_on() {
        let text = "bra NEXT; AGAIN: mov.b32 %r3, 5; mov.b32 %r4, %r3; setp.lt.s32 %p, %r4, 3; \
                    @%p exit; mov.b32 %r5, %r1; NEXT: mov.b32 %r1, 7; bra AGAIN;";
        check(text, &[(1, 3), (1, 4)], 5);
    }

    #[test]
    fn a_guarded_write_leaves_others_what_was_there() {
        let text = "mov.b32 %r1, 1; mov.b32 %r2, %r1; setp.lt.s32 %p, %r2, 3; \
                    mov.b32 %r3, 7; @%p mov.b32 %r2, 5; mov.b32 %r4, %r2;";
        check(text, &[(2, 3), (1, 2), (2, 4)], 4);
        // Nothing was there: what is read is the noise of a row that is nobody else's until then.
        let text = "mov.b32 %r1, 1; mov.b32 %r3, %r1; setp.lt.s32 %p, %r3, 3; \
                    @%p mov.b32 %r2, 5; mov.b32 %r4, %r2;";
        check(text, &[(1, 2), (3, 2)], 4);
    }

    #[test]
    fn sets_hold_what_crosses_blocks_alone() {
        let text = ".version 8.6\n.target sm_90a\n.address_size 64\n\
                    .entry k() { .reg .b32 %r<1000000>; .reg .pred %p; mov.b32 %r7, 0; \
                    AGAIN: mov.b32 %r999999, %r7; add.s32 %r5, %r999999, 1; mov.b32 %r7, %r5; \
                    setp.lt.s32 %p, %r7, 9; @%p bra AGAIN; ret; }";
        let module = Module::parse(text).unwrap();
        let body = module.functions[0].body.as_ref().unwrap();
        let all = |most_bits| crossing(body, &uses(body), &blocks(body), most_bits);
        // One register, and three blocks: before the loop, in it, and behind it.
        assert!(all(2).is_none());
        let crossing = all(3).unwrap();
        assert_eq!(crossing.registers, [7]);
        let sets = crossing.blocks.iter().map(|own| [own.before.len(), own.behind.len()]);
        assert!(sets.flatten().all(|length| length == 1));
        let inside: Vec<_> = crossing.blocks.iter().map(|own| own.before.contains(0)).collect();
        assert_eq!(inside, [false, true, false]);
    }

    #[test]
    fn a_destination_that_is_also_read_is_needed_before() {
        let text = "mov.b32 %r1, 0; AGAIN: add.s32 %r1, %r1, 1; setp.lt.s32 %p, %r1, 9; \
                    mov.b32 %r2, 5; setp.lt.s32 %q, %r2, 3; @%p bra AGAIN;";
        check(text, &[(1, 2)], 6);
    }
}
