//! Which tensor-core kernel a role names, and the boxes in which it reads its operands.

use grouped_linear_kernels::abi::{SM90_D_BOX_ROWS, SM100_D_BOX_ROWS};
use grouped_linear_kernels::variants::{Role, Sm90Gemm, Sm100Gemm, Sm100Product};

use crate::plan::{KernelTarget, Pass};

/// Which operand of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The left one, of the output's rows.
    Left,
    /// The right one, of the output's columns.
    Right,
}

/// What the lines of an operand in memory are, one of them beside the other in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Rows or columns of the output; the reduction runs along them (K-major).
    Outer,
    /// Steps of the reduction, which rows or columns of the output run along (MN-major).
    Reduction,
}

/// Lines of a box; each has 128 bytes, the span of the swizzle. Of the reduction a box has one step
/// of the ring. Of rows and columns it has what one block reads in a step: the rows of a tile; on
/// Hopper all 256 columns of a tile, and 16 more than a narrow one multiplies, since weights in
/// tensors of their own have one map for both; on Blackwell 128, twice for a block alone, once for
/// each block of a pair, since a pair's blocks read half of the right operand each.
pub(crate) fn box_lines(target: KernelTarget, side: Side, lines: Lines) -> u32 {
    match (lines, target, side) {
        (Lines::Reduction, ..) => 64,
        (Lines::Outer, KernelTarget::Sm90a, Side::Right) => 256,
        (Lines::Outer, ..) => 128,
    }
}

/// Rows of a box of the output, of 128 bytes each.
pub(crate) fn output_rows(target: KernelTarget) -> u32 {
    match target {
        KernelTarget::Sm90a => SM90_D_BOX_ROWS,
        KernelTarget::Sm100a => SM100_D_BOX_ROWS,
    }
}

/// What the lines of an operand in 16 bits are, or of one in MXFP8, which lies as its source does,
/// too.
pub(crate) fn source_lines(pass: Pass, side: Side) -> Lines {
    match (pass, side) {
        // dY is [rows, N], X is [rows, K], and the rows are summed; W is [N, K], and dgrad sums N.
        (Pass::Wgrad, _) | (Pass::Dgrad, Side::Right) => Lines::Reduction,
        (Pass::Fprop, _) | (Pass::Dgrad, Side::Left) => Lines::Outer,
    }
}

/// Architecture and pass of a tensor-core product of 16-bit operands.
pub(crate) fn sixteen(role: Role) -> Option<(KernelTarget, Pass)> {
    match role {
        Role::GemmSm90(Sm90Gemm { pass, .. }) => Some((KernelTarget::Sm90a, pass)),
        Role::GemmSm100(Sm100Gemm { product: Sm100Product::Sixteen(pass, _), .. }) => {
            Some((KernelTarget::Sm100a, pass))
        }
        _ => None,
    }
}

/// Architecture of a tensor-core product of FP8 operands.
pub(crate) fn fp8(role: Role) -> Option<KernelTarget> {
    match role {
        Role::GemmFp8(_) => Some(KernelTarget::Sm90a),
        Role::GemmSm100(Sm100Gemm { product: Sm100Product::Fp8(_), .. }) => {
            Some(KernelTarget::Sm100a)
        }
        _ => None,
    }
}

/// The boxes in which a product of codes in MXFP8 or NVFP4 reads its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MicroBoxes {
    /// Lines of the left operand, and of the right one.
    pub(crate) lines: [u32; 2],
    /// Tiles of block scales.
    pub(crate) scale_tiles: u32,
}

/// Those of a tensor-core product of codes in MXFP8 or NVFP4.
pub(crate) fn micro(role: Role) -> Option<MicroBoxes> {
    let Role::GemmSm100(Sm100Gemm { product, .. }) = role else { return None };
    // A step of the ring has 128 bytes of each line: as many lines of the reduction in MXFP8, of
    // which a tile has the scales. Of NVFP4 they are 256 elements, and a tile has the scales of 64.
    let of = |side| match product {
        Sm100Product::Mxfp8(pass) if source_lines(pass, side) == Lines::Reduction => Some(128),
        Sm100Product::Mxfp8(_) | Sm100Product::Nvfp4(_) => {
            Some(box_lines(KernelTarget::Sm100a, side, Lines::Outer))
        }
        Sm100Product::Sixteen(..) | Sm100Product::Fp8(_) => None,
    };
    let scale_tiles = if matches!(product, Sm100Product::Nvfp4(_)) { 4 } else { 1 };
    Some(MicroBoxes { lines: [of(Side::Left)?, of(Side::Right)?], scale_tiles })
}

#[cfg(test)]
mod tests {
    use grouped_linear_kernels::variants::KERNELS;

    use super::*;

    /// The kernel's tile says what a block and a step of its ring have.
    #[test]
    fn boxes_are_what_the_kernels_of_the_table_read() {
        let mut products = 0;
        for kernel in KERNELS {
            let Some(target) = sixteen(kernel.role).map(|(target, _)| target).or(fp8(kernel.role))
            else {
                continue;
            };
            products += 1;
            assert!(kernel.runs_on(target), "{}", kernel.name);
            let [left, right] =
                [Side::Left, Side::Right].map(|side| box_lines(target, side, Lines::Outer));
            let reduction = box_lines(target, Side::Left, Lines::Reduction);
            let (tile, blocks) = (kernel.tile, kernel.cluster);
            assert_eq!(tile.m, left * blocks, "{}", kernel.name);
            match target {
                KernelTarget::Sm90a => {
                    let narrow =
                        matches!(kernel.role, Role::GemmSm90(Sm90Gemm { narrow: true, .. }));
                    assert_eq!(tile.n, right - if narrow { 16 } else { 0 }, "{}", kernel.name);
                }
                KernelTarget::Sm100a => assert_eq!(tile.n, 2 * right, "{}", kernel.name),
            }
            // 128 bytes of the reduction, whichever way an operand lies.
            let bytes = if fp8(kernel.role).is_some() { 1 } else { 2 };
            assert_eq!(tile.k * bytes, 2 * reduction, "{}", kernel.name);
        }
        assert!(products >= 26, "{products} products");
    }

    #[test]
    fn boxes_of_codes_have_a_step_of_the_ring_and_its_scales() {
        let mut products = 0;
        for kernel in KERNELS {
            let Some(boxes) = micro(kernel.role) else { continue };
            products += 1;
            // Rows or columns of a block, or 128 steps of the reduction, a byte each.
            assert_eq!(boxes.lines, [128; 2], "{}", kernel.name);
            let of_a_tile = if kernel.name.contains("nvfp4") { 4 * 16 } else { 4 * 32 };
            assert_eq!(boxes.scale_tiles * of_a_tile, kernel.tile.k, "{}", kernel.name);
            assert!(sixteen(kernel.role).is_none() && fp8(kernel.role).is_none());
        }
        assert_eq!(products, 12);
    }

    #[test]
    fn wgrad_and_the_weights_of_dgrad_are_read_across_the_reduction() {
        for (pass, left, right) in [
            (Pass::Fprop, Lines::Outer, Lines::Outer),
            (Pass::Dgrad, Lines::Outer, Lines::Reduction),
            (Pass::Wgrad, Lines::Reduction, Lines::Reduction),
        ] {
            assert_eq!(source_lines(pass, Side::Left), left);
            assert_eq!(source_lines(pass, Side::Right), right);
        }
    }
}
