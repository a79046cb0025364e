//! Kernels that Triton compiled (see `triton/README.md`), against the same sums in `f64`.
//!
//! Nobody wrote these texts with this emulator in mind, and together they hold most of what
//! compilers emit for `sm_90a`: tensor maps made by the host and by the kernel, pipelined `wgmma`,
//! warps of different roles, `cp.async` with `mma.sync`, clusters, reductions through shuffles.
//!
//! Those for `sm_100a`, with tensor memory, are in `triton/sm100/`.
//!
//! All memory behind an output and between its rows is checked to be left alone, and the padding
//! of inputs is NaN.

use ptx_emulator::LaunchError;

#[path = "triton/launch.rs"]
mod launch;
#[path = "triton/numbers.rs"]
mod numbers;
#[path = "triton/sm100/tests.rs"]
mod sm100;

use launch::{Kernel, Matrix, Parameters, SM_90A};
use numbers::{Element, Random};

/// The ways the matrices get to a kernel.
#[derive(Clone, Copy)]
enum Access {
    /// Tensor maps made by the host, with the rows and columns of their boxes.
    Maps([[u32; 2]; 3]),
    /// Pointers; rows are not padded, and are multiples of 16 elements.
    Pointers,
}

/// A product of matrices.
struct Matmul<'a> {
    kernel: Kernel<'a>,
    access: Access,
    /// The type of a and b, and that of c.
    elements: [Element; 2],
    /// Whether b is stored as [columns, depth].
    transposed: bool,
    /// Rows and columns of one program's part of c.
    tile: [usize; 2],
    /// How many programs there are, if they take parts in turn.
    programs: Option<usize>,
    /// Whether there is a factor.
    scaled: bool,
    /// By how much a sum may differ, in units of the sum of the absolute products.
    precision: f64,
}

impl Matmul<'_> {
    fn run(&self, [rows, columns, depth]: [usize; 3], seed: u64) -> Result<(), LaunchError> {
        let [element, output] = self.elements;
        let pitch = |columns: usize, element: Element| match self.access {
            Access::Pointers => columns,
            // Rows of a tensor map start at multiples of 16 bytes.
            Access::Maps(_) => (columns + 1).next_multiple_of(16 / element.bytes()),
        };
        let mut random = Random(seed);
        let mut matrix = |rows, columns| {
            Matrix::random(&mut random, element, [rows, columns, pitch(columns, element)])
        };
        let a = matrix(rows, depth);
        let b = if self.transposed { matrix(columns, depth) } else { matrix(depth, columns) };
        let mut c = Matrix::output(output, [rows, columns, pitch(columns, output)]);
        let mut machine = self.kernel.machine(seed);
        let mut parameters = Parameters::default();
        let matrices = [&a, &b, &c];
        let addresses = matrices.map(|matrix| matrix.upload(&mut machine));
        for (index, matrix) in matrices.into_iter().enumerate() {
            match self.access {
                Access::Maps(tiles) => {
                    parameters.descriptor(matrix, addresses[index], tiles[index]);
                }
                Access::Pointers => parameters.pointer(addresses[index]),
            }
        }
        let scale = if self.scaled { 0.375 } else { 1.0 };
        if self.scaled {
            parameters.float(scale as f32);
        }
        for size in [rows, columns, depth] {
            parameters.word(size);
        }
        let tiles = rows.div_ceil(self.tile[0]) * columns.div_ceil(self.tile[1]);
        self.kernel.launch(&mut machine, self.programs.unwrap_or(tiles), parameters)?;
        let what = format!("{rows}×{columns}×{depth}, seed {seed}");
        c.check(&mut machine, addresses[2], &what, |row, column| {
            let right = |k| if self.transposed { b.get(column, k) } else { b.get(k, column) };
            let products = (0..depth).map(|k| a.get(row, k) * right(k) * scale);
            let (sum, absolute) =
                products.fold((0.0, 0.0), |(sum, all), own: f64| (sum + own, all + own.abs()));
            (sum, sum.abs() * output.rounding() + absolute * self.precision)
        });
        Ok(())
    }

    fn check(&self, sizes: &[[usize; 3]]) {
        for size in sizes {
            for seed in [1, 20, 300] {
                self.run(*size, seed)
                    .unwrap_or_else(|error| panic!("{size:?}, seed {seed}: {error}"));
            }
        }
    }
}

/// Tiles cut by every edge, exact ones in depth, and a single element.
const PADDED: [[usize; 3]; 3] = [[200, 130, 150], [129, 257, 128], [1, 1, 1]];
/// The same in multiples of 16 where a kernel counts on them.
const MULTIPLES: [[usize; 3]; 3] = [[200, 144, 176], [129, 272, 128], [1, 16, 16]];

const BRAIN: [Element; 2] = [Element::Brain, Element::Brain];
/// Sums of at most a few hundred products, each addition exact to 22 bits of the largest term.
const FINE: f64 = 1.0 / (1 << 17) as f64;
/// The tensor cores keep about 13 bits of sums of FP8 products.
const COARSE: f64 = 1.0 / (1 << 10) as f64;

#[test]
fn matmul_with_tensor_maps() {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text: include_str!("triton/matmul_bf16.ptx"),
            entry: "matmul_bf16",
            threads: 128,
            shared: 98328,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Maps([[128, 64], [64, 64], [128, 64]]),
        elements: BRAIN,
        transposed: false,
        tile: [128, 128],
        programs: None,
        scaled: false,
        precision: FINE,
    }
    .check(&PADDED);
}

#[test]
fn matmul_persistent() {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text: include_str!("triton/matmul_bf16_persistent.ptx"),
            entry: "matmul_bf16_persistent",
            threads: 256,
            shared: 163872,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Maps([[128, 64], [128, 64], [128, 64]]),
        elements: BRAIN,
        transposed: true,
        tile: [128, 128],
        programs: Some(4),
        scaled: false,
        precision: FINE,
    }
    // Six parts for four programs, then more programs than parts.
    .check(&[[300, 200, 130], [64, 64, 64], [1, 1, 1]]);
}

#[test]
fn matmul_with_warps_of_different_roles() {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text: include_str!("triton/matmul_bf16_specialised.ptx"),
            entry: "matmul_bf16_specialised",
            threads: 384,
            shared: 106656,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Maps([[64, 64], [128, 64], [64, 64]]),
        elements: BRAIN,
        transposed: true,
        tile: [64, 128],
        programs: None,
        scaled: false,
        precision: FINE,
    }
    .check(&PADDED);
}

#[test]
fn matmul_that_makes_its_tensor_maps() {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text: include_str!("triton/matmul_bf16_device_descriptor.ptx"),
            entry: "matmul_bf16_device_descriptor",
            threads: 128,
            shared: 98328,
            cluster: 1,
            scratch: 384,
        },
        access: Access::Pointers,
        elements: BRAIN,
        transposed: true,
        tile: [128, 128],
        programs: None,
        scaled: false,
        precision: FINE,
    }
    .check(&MULTIPLES);
}

fn matmul_fp8(text: &str) -> Matmul<'_> {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text,
            entry: "matmul_fp8",
            threads: 256,
            shared: 98328,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Maps([[128, 128], [128, 128], [128, 64]]),
        elements: [Element::E4m3, Element::Brain],
        transposed: true,
        tile: [128, 128],
        programs: None,
        scaled: true,
        precision: COARSE,
    }
}

#[test]
fn matmul_of_fp8() {
    matmul_fp8(include_str!("triton/matmul_fp8.ptx")).check(&PADDED);
}

#[test]
fn sums_read_while_wgmma_writes_them_are_reported() {
    // Triton 3.9.0 adds up the sums before it waits for them. ptxas sees that and waits itself
    // (C7517), so that it works on a GPU, but the PTX is wrong.
    let matmul = matmul_fp8(include_str!("triton/matmul_fp8_promoted.ptx"));
    let error = matmul.run([128, 128, 256], 1).unwrap_err().to_string();
    assert!(error.contains("wgmma"), "{error}");
}

#[test]
fn matmul_through_pointers() {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text: include_str!("triton/matmul_pointers.ptx"),
            entry: "matmul_pointers",
            threads: 128,
            shared: 24576,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Pointers,
        elements: [Element::Half, Element::Single],
        transposed: false,
        tile: [64, 64],
        programs: None,
        scaled: false,
        precision: FINE,
    }
    .check(&MULTIPLES);
}

#[test]
fn matmul_of_small_tiles() {
    Matmul {
        kernel: Kernel {
            setting: SM_90A,
            text: include_str!("triton/matmul_small.ptx"),
            entry: "matmul_pointers",
            threads: 64,
            shared: 8192,
            cluster: 1,
            scratch: 0,
        },
        access: Access::Pointers,
        elements: [Element::Half, Element::Single],
        transposed: false,
        tile: [32, 32],
        programs: None,
        scaled: false,
        precision: FINE,
    }
    .check(&[[70, 48, 80], [32, 96, 32], [1, 16, 16]]);
}

fn check_softmax(kernel: &Kernel, lengths: &[usize]) {
    for &columns in lengths {
        for seed in [4, 50] {
            let shape = [5, columns, columns.next_multiple_of(16) + 16];
            let x = Matrix::random(&mut Random(seed), Element::Single, shape);
            let mut y = Matrix::output(Element::Single, shape);
            let mut machine = kernel.machine(seed);
            let mut parameters = Parameters::default();
            parameters.pointer(x.upload(&mut machine));
            let result = y.upload(&mut machine);
            parameters.pointer(result);
            parameters.word(shape[2]);
            parameters.word(columns);
            let what = format!("{columns} columns, seed {seed}");
            kernel
                .launch(&mut machine, shape[0], parameters)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let rows: Vec<(f64, f64)> = (0..shape[0])
                .map(|row| {
                    let values = (0..columns).map(|column| x.get(row, column));
                    let greatest = values.clone().fold(f64::NEG_INFINITY, f64::max);
                    (greatest, values.map(|value| (value - greatest).exp()).sum())
                })
                .collect();
            y.check(&mut machine, result, &what, |row, column| {
                let value = (x.get(row, column) - rows[row].0).exp() / rows[row].1;
                (value, value * 1e-5 + 1e-30)
            });
        }
    }
}

#[test]
fn softmax() {
    let kernel = Kernel {
        setting: SM_90A,
        text: include_str!("triton/softmax.ptx"),
        entry: "softmax",
        threads: 128,
        shared: 16,
        cluster: 1,
        scratch: 0,
    };
    check_softmax(&kernel, &[1, 777, 1024]);
}

#[test]
fn softmax_in_clusters() {
    let kernel = Kernel {
        setting: SM_90A,
        text: include_str!("triton/softmax_cluster.ptx"),
        entry: "softmax",
        threads: 128,
        shared: 16,
        cluster: 2,
        scratch: 0,
    };
    check_softmax(&kernel, &[1, 1025, 2048]);
}

#[test]
fn layer_norm() {
    let kernel = Kernel {
        setting: SM_90A,
        text: include_str!("triton/layer_norm.ptx"),
        entry: "layer_norm",
        threads: 256,
        shared: 32,
        cluster: 1,
        scratch: 0,
    };
    let epsilon = 1e-5_f32;
    for (columns, seed) in [(1500_usize, 6), (1024, 7), (3, 8)] {
        let shape = [4, columns, columns.next_multiple_of(16) + 16];
        let mut random = Random(seed);
        let x = Matrix::random(&mut random, Element::Half, shape);
        let weight = Matrix::random(&mut random, Element::Single, [1, columns, columns]);
        let bias = Matrix::random(&mut random, Element::Single, [1, columns, columns]);
        let mut outputs = [
            Matrix::output(Element::Half, shape),
            Matrix::output(Element::Single, [shape[0], 1, 1]),
            Matrix::output(Element::Single, [shape[0], 1, 1]),
        ];
        let mut machine = kernel.machine(seed);
        let mut parameters = Parameters::default();
        parameters.pointer(x.upload(&mut machine));
        let results = outputs.each_ref().map(|output| output.upload(&mut machine));
        parameters.pointer(results[0]);
        parameters.pointer(weight.upload(&mut machine));
        parameters.pointer(bias.upload(&mut machine));
        parameters.pointer(results[1]);
        parameters.pointer(results[2]);
        parameters.word(shape[2]);
        parameters.word(columns);
        parameters.float(epsilon);
        let what = format!("{columns} columns, seed {seed}");
        kernel
            .launch(&mut machine, shape[0], parameters)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let moments: Vec<(f64, f64)> = (0..shape[0])
            .map(|row| {
                let values = (0..columns).map(|column| x.get(row, column));
                let mean = values.clone().sum::<f64>() / columns as f64;
                let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>();
                (mean, (variance / columns as f64 + f64::from(epsilon)).sqrt().recip())
            })
            .collect();
        let [y, mean, factor] = &mut outputs;
        y.check(&mut machine, results[0], &what, |row, column| {
            let (mean, factor) = moments[row];
            let scaled = (x.get(row, column) - mean) * factor * weight.get(0, column);
            let value = scaled + bias.get(0, column);
            (value, value.abs() * Element::Half.rounding() + scaled.abs() * 1e-5 + 1e-5)
        });
        mean.check(&mut machine, results[1], &what, |row, _| (moments[row].0, 1e-5));
        factor.check(&mut machine, results[2], &what, |row, _| {
            (moments[row].1, moments[row].1 * 1e-5)
        });
    }
}

/// Attention of a head whose queries a program takes `queries` at a time, and whose keys 64.
fn check_attention(kernel: &Kernel<'_>, queries: u32) {
    const WIDTH: usize = 64;
    let scale = 0.03125_f64;
    for (length, seed) in [(200, 9), (128, 10), (1, 11)] {
        let mut random = Random(seed);
        let [q, k, v] = [(); 3]
            .map(|()| Matrix::random(&mut random, Element::Brain, [length, WIDTH, WIDTH + 8]));
        let mut out = Matrix::output(Element::Brain, [length, WIDTH, WIDTH + 8]);
        let mut machine = kernel.machine(seed);
        let mut parameters = Parameters::default();
        let mut result = 0;
        for (matrix, rows) in [(&q, queries), (&k, 64), (&v, 64), (&out, queries)] {
            result = matrix.upload(&mut machine);
            parameters.descriptor(matrix, result, [rows, 64]);
        }
        parameters.float(scale as f32);
        parameters.word(length);
        let what = format!("{length} keys, seed {seed}");
        kernel
            .launch(&mut machine, length.div_ceil(queries as usize), parameters)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let weights: Vec<Vec<f64>> = (0..length)
            .map(|row| {
                let score = |key| (0..WIDTH).map(|c| q.get(row, c) * k.get(key, c)).sum::<f64>();
                let powers: Vec<f64> = (0..length).map(|key| (score(key) * scale).exp2()).collect();
                let total = powers.iter().sum::<f64>();
                powers.into_iter().map(|power| power / total).collect()
            })
            .collect();
        out.check(&mut machine, result, &what, |row, column| {
            let terms = (0..length).map(|key| weights[row][key] * v.get(key, column));
            let (sum, absolute) =
                terms.fold((0.0, 0.0), |(sum, all), own: f64| (sum + own, all + own.abs()));
            // Each weight is rounded to bf16 before the second product.
            (sum, (sum.abs() + absolute) * Element::Brain.rounding() + 1e-6)
        });
    }
}

#[test]
fn attention() {
    let kernel = Kernel {
        setting: SM_90A,
        text: include_str!("triton/attention.ptx"),
        entry: "attention",
        threads: 128,
        shared: 40992,
        cluster: 1,
        scratch: 0,
    };
    check_attention(&kernel, 64);
}
