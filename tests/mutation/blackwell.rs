//! What differs for the kernels of Blackwell: the emulated GPU, and shapes for which the library
//! takes the kernel that is broken. One block makes a tile of 128 rows, or a pair of blocks one of
//! 256; which it is follows from the shape and the multiprocessors
//! (`host/src/plan/tensor_cores.rs`). A scenario that reaches the other kernel fails unbroken,
//! since a module is run without its other kernels.

use grouped_linear::Arch;
use grouped_linear::conformance::{Case, Operation, ProductCase, RowPattern};
use grouped_linear::plan::Pass;
use grouped_linear_kernels::variants::{KERNELS, Kernel, Target};

use RowPattern::Listed;

/// Rows of the tile that one block makes.
const BLOCK_ROWS: usize = 128;
/// The most rows of a box of Hopper's operands, whose narrow tiles read those of the others.
const HOPPER_ROWS: u32 = 256;
/// Multiprocessors of the emulated GPU: as many as it has by itself, two pairs of blocks.
pub const MULTIPROCESSORS: u32 = 4;

fn row(kernel: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|row| row.name == kernel)
}

/// The GPU that runs a kernel: Hopper, if it can.
pub fn architecture(kernel: &str) -> Arch {
    match row(kernel) {
        Some(row) if !row.runs_on(Target::Sm90a) => Arch::Sm100a,
        _ => Arch::Sm90a,
    }
}

/// Whether two blocks make each of its tiles.
pub fn is_pair(kernel: &str) -> bool {
    row(kernel).is_some_and(|row| row.cluster == 2)
}

/// The most rows of a box of its operands.
pub fn most_rows(kernel: &Kernel) -> u32 {
    if architecture(kernel.name) == Arch::Sm100a { BLOCK_ROWS as u32 } else { HOPPER_ROWS }
}

/// Whether the library would let pairs of blocks make the tiles of a product: of a group there are
/// rows of the output for both.
fn fills_pairs(is_wgrad: bool, rows: RowPattern, tail: usize, out_features: usize) -> bool {
    if is_wgrad {
        return out_features > BLOCK_ROWS;
    }
    let splits = rows.splits();
    splits.iter().sum::<usize>() + tail > splits.len() * BLOCK_ROWS
}

/// Multiprocessors for a kernel with a product of such a shape: one, where the library would let
/// pairs make the tiles otherwise.
fn multiprocessors(kernel: &str, fills_pairs: bool) -> u32 {
    let alone = architecture(kernel) == Arch::Sm100a && !is_pair(kernel);
    if alone && fills_pairs { 1 } else { MULTIPROCESSORS }
}

/// Multiprocessors for a kernel with a case of the suite.
pub fn of_case(kernel: &str, case: &Case) -> u32 {
    let is_wgrad = case.operation == Operation::Wgrad;
    let fills = fills_pairs(is_wgrad, case.rows, case.tail, case.out_features);
    multiprocessors(kernel, fills)
}

/// Multiprocessors for a kernel with a product in low precision.
pub fn of_product(kernel: &str, case: &ProductCase) -> u32 {
    let is_wgrad = case.pass == Pass::Wgrad;
    let fills = fills_pairs(is_wgrad, case.rows, case.tail, case.out_features);
    multiprocessors(kernel, fills)
}

/// The case with rows for both blocks of a pair.
pub fn paired(case: Case) -> Case {
    if case.operation == Operation::Wgrad {
        return Case { out_features: beyond_a_block(case.out_features), ..case };
    }
    let rows = longer(case.rows);
    Case { rows, tail: case.tail.max(missing(rows)), ..case }
}

/// The same of a product in low precision.
pub fn paired_product(case: ProductCase) -> ProductCase {
    if case.pass == Pass::Wgrad {
        return ProductCase { out_features: beyond_a_block(case.out_features), ..case };
    }
    let rows = longer(case.rows);
    ProductCase { rows, tail: case.tail.max(missing(rows)), ..case }
}

/// Rows of a weight's gradient that end in the second block of a tile, where they ended in the
/// first; and those of so many tiles that they fill more than a band fill one again, of tiles of
/// twice the rows.
fn beyond_a_block(rows: usize) -> usize {
    match rows {
        0..=BLOCK_ROWS => rows + BLOCK_ROWS,
        2000.. => 2 * rows,
        _ => rows,
    }
}

/// The same of the rows of groups.
fn longer(rows: RowPattern) -> RowPattern {
    match rows {
        Listed([12, 0, 0]) => Listed(&[140, 0, 0]),
        Listed([12, 0, 9]) => Listed(&[140, 0, 9]),
        Listed([76, 0, 67]) => Listed(&[204, 0, 67]),
        Listed([129, 0, 65]) => Listed(&[257, 0, 193]),
        Listed([3, 131]) => Listed(&[3, 259]),
        Listed([2100]) => Listed(&[4200]),
        rows => rows,
    }
}

/// Rows of nobody, with which the library takes the groups for ones that fill pairs: it knows their
/// average at most.
fn missing(rows: RowPattern) -> usize {
    let splits = rows.splits();
    (splits.len() * BLOCK_ROWS + 1).saturating_sub(splits.iter().sum())
}

/// The product with groups that end in each of the lower two boxes of a warp's 32 rows, which code
/// of their own stores where sums have left tensor memory; and in columns of all chunks.
pub fn in_lower_boxes(case: ProductCase) -> ProductCase {
    let rows = Listed(&[20, 0, 29]);
    match case.pass {
        Pass::Wgrad => ProductCase { rows, in_features: 368, ..case },
        _ => ProductCase { rows, out_features: 368, ..case },
    }
}
