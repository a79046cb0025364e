//! Products of FP8 operands: shapes that between them reach every path of a kernel.

use grouped_linear::conformance::{
    DrawnScales, Layout, NanIn, ProductBias, ProductCase, RowPattern,
};
use grouped_linear::plan::{KernelChoice, Pass};
use grouped_linear::recipe::{Accumulation, BlockShape, Blocks, Format, Nvfp4Format, Scope};
use grouped_linear::{DType, Form};

use crate::scenarios::WIDTHS;

use DType::{Bf16, E4m3, E5m2, F16, F32};
use RowPattern::{AllEmpty, Drawn, Listed};

/// The cases of the kernel `gemm_fp8_` and this: `rows_vector_square_e4m3`,
/// `rows_tensor_fast_e5m2`.
pub fn of_kernel(name: &str) -> Vec<ProductCase> {
    let base = base(name);
    if base.kernel == KernelChoice::Aligned {
        let near = ProductCase { scales: DrawnScales::Near, ..base };
        return arranged(near).into_iter().chain(of_halves(base)).chain(of_align(base)).collect();
    }
    arranged(base)
}

/// The cases of `align`, with gradients in E4M3.
pub fn of_align_alone() -> Vec<ProductCase> {
    of_align(base("reduction_vector_aligned_e4m3"))
}

/// A small product of the kernel.
fn base(name: &str) -> ProductCase {
    let mut words = name.split('_');
    let reduction = words.next() == Some("reduction");
    let scales = |word| match word {
        Some("vector" | "aligned") => Blocks::Vector,
        Some("square") => Blocks::Square,
        _ => Blocks::Tensor,
    };
    let (a, b) = (scales(words.next()), scales(words.clone().next()));
    let fast = name.contains("fast");
    let dtype = if name.ends_with("e5m2") { E5m2 } else { E4m3 };
    let is_aligned = name.contains("aligned");
    ProductCase {
        pass: if reduction { Pass::Wgrad } else { Pass::Fprop },
        rows: Listed(&[12, 0, 9]),
        tail: 1,
        in_features: 16,
        out_features: 16,
        a: Format::fp8(dtype, a),
        b: Format::fp8(E4m3, b),
        form: Form::Codes,
        accumulation: if fast { Accumulation::Fast } else { Accumulation::Promoted },
        output: Bf16,
        factors: (1.0, 0.0),
        per_group: false,
        bias: ProductBias::None,
        four_over_six: false,
        weights: Layout::Packed,
        scales: if is_aligned { DrawnScales::Mixed } else { DrawnScales::Any },
        nan: NanIn::Nothing,
        kernel: if is_aligned { KernelChoice::Aligned } else { KernelChoice::Auto },
    }
}

/// The cases of `align`: lines of all kinds, a group of several windows, windows of several groups,
/// and strips of 128 lines and fewer.
fn of_align(base: ProductCase) -> Vec<ProductCase> {
    let rows = |rows: &'static [usize]| ProductCase { rows: Listed(rows), ..base };
    vec![
        sized(rows(&[300, 0, 65, 129]), [0, 16, 48]),
        sized(rows(&[1300, 9, 0, 784]), [0, 16, 16]),
        sized(rows(&[4400]), [0, 16, 16]),
        sized(ProductCase { scales: DrawnScales::Peaks, ..rows(&[4400]) }, [0, 16, 48]),
        sized(rows(&[129, 0, 65]), [0, 16, 272]),
        sized(ProductCase { scales: DrawnScales::Any, ..rows(&[129, 3]) }, [0, 16, 32]),
        sized(ProductCase { scales: DrawnScales::Near, ..rows(&[129, 300]) }, [0, 16, 144]),
        sized(ProductCase { scales: DrawnScales::Near, ..rows(&[3, 1, 900]) }, [0, 16, 160]),
        sized(ProductCase { rows: Drawn(70), ..base }, [0, 16, 32]),
        // More windows than run at once: what the last, of one block, writes behind its end is not
        // written over by the first.
        sized(ProductCase { scales: DrawnScales::Near, ..rows(&[16_484]) }, [0, 16, 64]),
    ]
}

/// What a tile's halves are told apart by, factors in one of them, in one group, in its first or
/// last window; and a row's last columns loaded and stored by threads, which no product with a bias
/// does here.
fn of_halves(base: ProductCase) -> Vec<ProductCase> {
    let ends = ProductCase { scales: DrawnScales::Ends, ..base };
    let mut all = vec![
        sized(ProductCase { rows: Listed(&[300, 9, 0, 784]), ..ends }, [0, 16, 400]),
        sized(ProductCase { rows: Listed(&[16_484]), ..ends }, [0, 16, 144]),
    ];
    let near = ProductCase { scales: DrawnScales::Near, ..base };
    for (output, beta) in [(F32, 1.0), (F32, 0.5), (F32, 0.0), (F16, 1.0), (Bf16, 1.0)] {
        let weights = if beta == 0.0 { Layout::Discrete } else { Layout::Packed };
        let case = ProductCase { output, factors: (0.5, beta), weights, ..near };
        all.extend([sized(case, [0, 80, 80]), sized(case, [0, 128, 48])]);
    }
    all
}

/// What every product of low precision can be asked for, beginning with `base`.
fn arranged(base: ProductCase) -> Vec<ProductCase> {
    let reduction = base.pass == Pass::Wgrad;
    let rows = |rows: &'static [usize]| ProductCase { rows: Listed(rows), ..base };
    let mut all = vec![
        sized(rows(&[12, 0, 0]), [16, 80, 112]),
        sized(rows(&[129, 0, 65]), [144, 144, 368]),
        sized(
            ProductCase { output: F32, ..rows(if reduction { &[3, 600] } else { &[3, 131] }) },
            [608, 272, 304],
        ),
    ];
    // Rows below the first 64 of a tile are stored by code of their own.
    for (index, width) in WIDTHS.into_iter().enumerate() {
        let case = ProductCase { tail: index % 2, ..rows(&[76, 0, 67]) };
        all.push(sized(case, [[16, 272][index % 2], [80, 208][index % 2], width]));
    }
    for width in [32, 112, 304] {
        let own = sized(base, [16, 80, width]);
        let bias = ProductBias::in_fprop(base.pass);
        all.extend([
            ProductCase { output: F32, factors: (-0.75, 0.0), bias, ..own },
            ProductCase { output: F16, factors: (0.5, 1.0), ..own },
            ProductCase { output: F32, factors: (0.5, 1.0), ..own },
            ProductCase { output: Bf16, factors: (1.0, 1.0), bias, ..own },
        ]);
    }
    all.push(sized(rows(if reduction { &[3] } else { &[2100] }), [16, 2112, 272]));
    all.push(sized(ProductCase { rows: Drawn(70), factors: (1.0, 1.0), ..base }, [16, 16, 48]));
    all.push(sized(ProductCase { rows: AllEmpty, ..base }, [16, 16, 48]));
    if reduction {
        // Tiles of several stages, one behind the other: what is left of one leaves while the next
        // is multiplied.
        all.push(sized(rows(&[300, 260]), [0, 272, 272]));
        // Without a map of the output, threads store its boxes.
        let discrete = ProductCase { weights: Layout::Discrete, ..rows(&[129, 0, 65]) };
        // The last columns end in the first box of a row, and in the second.
        all.extend([272, 368].map(|columns| sized(discrete, [0, 144, columns])));
    } else {
        // The same of whole tiles, of one stage and of several; below them, rows that copies store
        // in part.
        let several = rows(&[300, 228]);
        all.extend([16, 272].map(|features| sized(several, [features, 0, 272])));
        let dgrad = ProductCase { pass: Pass::Dgrad, ..rows(&[129, 0, 65]) };
        all.push(sized(dgrad, [272, 0, 144]));
    }
    all
}

/// The scenarios of a product of codes in MXFP8 or NVFP4: `nvfp4_fprop`, say, of a pair or not.
pub fn of_micro_kernel(name: &str) -> Vec<ProductCase> {
    let pass = match name {
        _ if name.contains("fprop") => Pass::Fprop,
        _ if name.contains("dgrad") => Pass::Dgrad,
        _ => Pass::Wgrad,
    };
    let mxfp8 = |dtype| Format::Mxfp8 { dtype, blocks: BlockShape::Line };
    let lines = Nvfp4Format::LINES;
    let (a, b) = match name.starts_with("mxfp8") {
        true => (mxfp8(if pass == Pass::Fprop { E4m3 } else { E5m2 }), mxfp8(E4m3)),
        false => (Format::Nvfp4(lines), Format::Nvfp4(lines)),
    };
    let base = ProductCase {
        pass,
        rows: Listed(&[12, 0, 9]),
        tail: 1,
        in_features: 32,
        out_features: 32,
        a,
        b,
        form: Form::Swizzled,
        accumulation: Accumulation::Promoted,
        output: Bf16,
        factors: (1.0, 0.0),
        per_group: false,
        bias: ProductBias::None,
        four_over_six: false,
        weights: Layout::Packed,
        scales: DrawnScales::Any,
        nan: NanIn::Nothing,
        kernel: KernelChoice::Auto,
    };
    // The other pass has another kernel here.
    let mut all: Vec<ProductCase> =
        arranged(base).into_iter().filter(|case| case.pass == pass).collect();
    // Every place of the rings and of tensor memory again: along the reduction, then tile by tile.
    let deep = if pass == Pass::Wgrad { &[9, 1180] } else { &[9, 40] };
    all.push(sized(ProductCase { rows: Listed(deep), ..base }, [1184, 64, 288]));
    let many = ProductCase { rows: Listed(&[130, 3, 257]), ..base };
    all.push(sized(many, [32, 160, 800]));
    if pass == Pass::Fprop && !name.starts_with("mxfp8") {
        let of_rows = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..lines });
        all.push(ProductCase { a: of_rows, output: F32, ..all[1] });
        all.push(ProductCase { a: of_rows, ..all[0] });
    }
    if name.starts_with("mxfp8") {
        all.push(ProductCase { b: mxfp8(E5m2), ..all[1] });
    }
    all
}

/// The product with features that its kernel takes.
pub fn whole(case: ProductCase) -> ProductCase {
    let multiple = if case.form == Form::Swizzled { 32 } else { case.a.multiple() };
    let whole = |features: usize| features.next_multiple_of(multiple);
    let (in_features, out_features) = (whole(case.in_features), whole(case.out_features));
    ProductCase { in_features, out_features, ..case }
}

/// A product, of three sizes: the reduction (of rows alone), the features that are rows of a
/// weight's gradient, and the columns of the output.
fn sized(case: ProductCase, [reduction, rows, columns]: [usize; 3]) -> ProductCase {
    let (in_features, out_features) = match case.pass {
        Pass::Fprop => (reduction, columns),
        Pass::Dgrad => (columns, reduction),
        Pass::Wgrad => (columns, rows),
    };
    ProductCase { in_features, out_features, ..case }
}
