//! Kernels that Triton compiled for `sm_100a`: sums in tensor memory.
//!
//! Triton writes no `tcgen05.fence`, without which the PTX manual promises no order between tensor
//! memory and barriers, and in `matmul_pair` no `fence.proxy.async` behind `cp.async`; it relies on
//! what the hardware does. So each text is executed twice: as it is, with the checkers off, and
//! with them on after the fences have been added at each point where threads meet.

use ptx_emulator::{Arch, Checks};

use super::launch::{Kernel, Setting};
use super::numbers::Element;
use super::{
    Access, BRAIN, COARSE, FINE, MULTIPLES, Matmul, PADDED, check_attention, check_softmax,
};

#[path = "blocks.rs"]
mod blocks;
#[path = "fences.rs"]
mod fences;

use fences::fenced;

/// Blackwell, for the text as it is.
const UNCHECKED: Setting = Setting { arch: Arch::Sm100a, checks: Checks::Off };
/// Blackwell, for the text with fences.
const CHECKED: Setting = Setting { arch: Arch::Sm100a, checks: Checks::On };

/// Hands the kernel to `run` as it is, and with fences.
fn both_ways(kernel: Kernel<'_>, run: impl Fn(&Kernel<'_>)) {
    let text = fenced(kernel.text);
    run(&Kernel { setting: UNCHECKED, ..kernel });
    run(&Kernel { setting: CHECKED, text: &text, ..kernel });
}

fn check(matmul: &Matmul<'_>, sizes: &[[usize; 3]]) {
    both_ways(matmul.kernel, |kernel| Matmul { kernel: *kernel, ..*matmul }.check(sizes));
}

/// A product with tensor maps and a factor.
fn with_maps(text: &'static str, entry: &'static str, shared: u32) -> Matmul<'static> {
    Matmul {
        kernel: Kernel {
            setting: CHECKED,
            text,
            entry,
            threads: 128,
            shared,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Maps([[128, 64], [64, 64], [128, 64]]),
        elements: BRAIN,
        transposed: false,
        tile: [128, 64],
        programs: None,
        scaled: true,
        precision: FINE,
    }
}

#[test]
fn matmul_with_rows_of_b_along_its_columns() {
    let text = include_str!("matmul_bf16.ptx");
    check(&with_maps(text, "matmul", 73776), &PADDED);
}

#[test]
fn matmul_of_64_rows() {
    let matmul = Matmul {
        access: Access::Maps([[64, 64], [64, 64], [64, 64]]),
        transposed: true,
        tile: [64, 64],
        ..with_maps(include_str!("matmul_bf16_low.ptx"), "matmul", 32800)
    };
    check(&matmul, &PADDED);
}

#[test]
fn matmul_with_warps_of_different_roles() {
    let text = include_str!("matmul_bf16_specialised.ptx");
    let mut matmul = Matmul {
        transposed: true,
        programs: Some(3),
        scaled: false,
        ..with_maps(text, "matmul_specialised", 90212)
    };
    matmul.kernel.threads = 256;
    // Fifteen tiles for three programs, then more programs than tiles.
    check(&matmul, &[[300, 300, 130], [64, 64, 64], [1, 1, 1]]);
}

#[test]
fn matmul_of_singles() {
    let matmul = Matmul {
        access: Access::Maps([[128, 32], [64, 32], [128, 32]]),
        elements: [Element::Tensor, Element::Single],
        transposed: true,
        ..with_maps(include_str!("matmul_tf32.ptx"), "matmul", 49184)
    };
    check(&matmul, &PADDED);
}

#[test]
fn matmul_of_fp8() {
    let mut matmul = Matmul {
        access: Access::Maps([[128, 128], [128, 128], [128, 64]]),
        elements: [Element::E4m3, Element::Brain],
        transposed: true,
        tile: [128, 128],
        precision: COARSE,
        ..with_maps(include_str!("matmul_fp8.ptx"), "matmul", 98352)
    };
    matmul.kernel.threads = 256;
    check(&matmul, &PADDED);
}

#[test]
fn matmul_of_fp8_with_rows_of_b_along_its_columns() {
    let matmul = Matmul {
        access: Access::Maps([[128, 128], [128, 64], [128, 64]]),
        elements: [Element::E4m3, Element::Brain],
        precision: COARSE,
        ..with_maps(include_str!("matmul_fp8_across.ptx"), "matmul", 49184)
    };
    check(&matmul, &PADDED);
}

/// A product of halves through plain pointers.
fn through_pointers(text: &'static str, shared: u32, rows: usize) -> Matmul<'static> {
    Matmul {
        access: Access::Pointers,
        elements: [Element::Half, Element::Single],
        tile: [rows, 64],
        scaled: false,
        ..with_maps(text, "matmul_pointers", shared)
    }
}

#[test]
fn matmul_through_pointers() {
    check(&through_pointers(include_str!("matmul_pointers.ptx"), 24592, 128), &MULTIPLES);
}

#[test]
fn matmul_by_pairs_of_blocks() {
    let mut matmul = through_pointers(include_str!("matmul_pair.ptx"), 20496, 256);
    matmul.kernel.cluster = 2;
    check(&matmul, &[[300, 144, 176], [129, 80, 128], [1, 16, 16]]);
}

#[test]
fn softmax() {
    let kernel = Kernel {
        setting: CHECKED,
        text: include_str!("softmax.ptx"),
        entry: "softmax",
        threads: 128,
        shared: 16,
        cluster: 1,
        scratch: 0,
    };
    check_softmax(&kernel, &[1, 777, 1024]);
}

/// Attention by blocks of 128 queries and 64 keys.
fn attention_kernel(text: &'static str, threads: u32, shared: u32) -> Kernel<'static> {
    let entry = "attention";
    Kernel { setting: CHECKED, text, entry, threads, shared, cluster: 1, scratch: 0 }
}

#[test]
fn attention() {
    let kernel = attention_kernel(include_str!("attention.ptx"), 128, 24584);
    both_ways(kernel, |kernel| check_attention(kernel, 128));
}

#[test]
fn attention_with_warps_of_different_roles() {
    let kernel = attention_kernel(include_str!("attention_specialised.ptx"), 384, 50768);
    both_ways(kernel, |kernel| check_attention(kernel, 128));
}
