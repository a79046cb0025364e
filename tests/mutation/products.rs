//! Products of FP8 operands: shapes that between them reach every path of a kernel.

use grouped_linear::DType;
use grouped_linear::conformance::{Layout, ProductCase, RowPattern};
use grouped_linear::plan::Pass;
use grouped_linear::recipe::{Accumulation, Blocks, Format};

use crate::scenarios::WIDTHS;

use DType::{Bf16, E4m3, E5m2, F16, F32};
use RowPattern::{AllEmpty, Drawn, Listed};

/// The cases of the kernel `gemm_fp8_` and this: `rows_vector_square_e4m3`, `rows_tensor_fast_e5m2`.
pub fn of_kernel(name: &str) -> Vec<ProductCase> {
    let mut words = name.split('_');
    let reduction = words.next() == Some("reduction");
    let scales = |word| match word {
        Some("vector") => Blocks::Vector,
        Some("square") => Blocks::Square,
        _ => Blocks::Tensor,
    };
    let (a, b) = (scales(words.next()), scales(words.clone().next()));
    let fast = name.contains("fast");
    let dtype = if name.ends_with("e5m2") { E5m2 } else { E4m3 };
    let base = ProductCase {
        pass: if reduction { Pass::Wgrad } else { Pass::Fprop },
        rows: Listed(&[12, 0, 9]),
        tail: 1,
        in_features: 16,
        out_features: 16,
        a: Format::fp8(dtype, a),
        b: Format::fp8(E4m3, b),
        accumulation: if fast { Accumulation::Fast } else { Accumulation::Promoted },
        output: Bf16,
        factors: (1.0, 0.0),
        bias: false,
        four_over_six: false,
        weights: Layout::Packed,
    };
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
        let bias = base.pass == Pass::Fprop;
        all.extend([
            ProductCase { output: F32, factors: (-0.75, 0.0), bias, ..own },
            ProductCase { output: F16, factors: (0.5, 1.0), ..own },
            ProductCase { output: Bf16, factors: (1.0, 1.0), bias, ..own },
        ]);
    }
    all.push(sized(rows(if reduction { &[3] } else { &[2100] }), [16, 2112, 272]));
    all.push(sized(ProductCase { rows: Drawn(70), factors: (1.0, 1.0), ..base }, [16, 16, 48]));
    all.push(sized(ProductCase { rows: AllEmpty, ..base }, [16, 16, 48]));
    if reduction {
        // Without a map of the output, threads store its boxes.
        let discrete = ProductCase { weights: Layout::Discrete, ..rows(&[129, 0, 65]) };
        all.push(sized(discrete, [0, 144, 272]));
    } else {
        let dgrad = ProductCase { pass: Pass::Dgrad, ..rows(&[129, 0, 65]) };
        all.push(sized(dgrad, [272, 0, 144]));
    }
    all
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
