//! What is run on a broken module: small shapes that between them reach every path of a kernel.

use grouped_linear::conformance::{
    BiasCase, Case, CastCase, Factors, LayerUse, Layout, LowPrecisionCase, Operation, Outcome,
    RowPattern, SplitSource, cast_cases, low_precision_cases, run_case_once, run_cast,
    run_low_precision,
};
use grouped_linear::{DType, Device, EmulatorOptions, KernelChoice};

use grouped_linear_kernels::abi::{ElementType, Pass};
use grouped_linear_kernels::variants::{KERNELS, Role, Sm90Gemm, Sm100Gemm, Sm100Product};

use crate::bad_splits::BadSplits;
use crate::biased::Biased;
use crate::biased_fp8::BiasedFp8;
use crate::blackwell;
use crate::companions;
use crate::low_precision;
use crate::padding::Padded;
use crate::scaling::Scaling;
use crate::segments;
use crate::tables::Tables;
use crate::traffic::Traffic;

use DType::{Bf16, F16, F32};
use Operation::{Dbias, Dgrad, Dscales, Fprop, Wgrad};

/// Instructions of a launch, in warps, that no unbroken kernel needs in these scenarios.
pub const INSTRUCTION_LIMIT: u64 = 2_000_000;

/// Something that goes wrong if the kernel does.
#[derive(Clone, Debug)]
pub enum Scenario {
    /// A case of the conformance suite, against its oracle.
    Case(Case),
    /// A cast.
    Cast(CastCase),
    /// A case in low precision: groups that are padded, scales of operands, tables with columns of
    /// tiles.
    LowPrecision(LowPrecisionCase),
    /// Rows of any length, padded and restored.
    Padded(Padded),
    /// Scales of magnitudes that no case has.
    Scaling(Scaling),
    /// Splits in device memory that are wrong.
    Bad(BadSplits),
    /// `dbias_partial` on a grid of its own: so many blocks share the segments. Through the library
    /// a block has several only beyond 65535 segments, which are 8 million rows.
    Segments(u32),
    /// A product with a bias or factors of rows that the library would not give it.
    Biased(Biased),
    /// The same, of FP8 operands.
    BiasedFp8(BiasedFp8),
    /// A set-up of operands that the library does not describe.
    Tables(Tables),
}

impl Scenario {
    /// Runs it with the text of a module that has this kernel, under a seed of the scheduler. Gives
    /// what its launches moved, if the library launched them.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(
        &self,
        [module, kernel]: [&str; 2],
        text: &str,
        seed: u64,
    ) -> Result<Option<Traffic>, String> {
        let device = || {
            let mut options = EmulatorOptions::new(blackwell::architecture(kernel));
            options.seed = seed;
            options.multiprocessors = self.multiprocessors(kernel);
            options.instruction_limit = Some(INSTRUCTION_LIMIT);
            options.replaced_modules = vec![(module.to_owned(), text.to_owned())];
            options.replaced_modules.extend_from_slice(companions::beside(module));
            Device::emulated_with(options).map_err(|error| error.to_string())
        };
        let run = |act: &dyn Fn(&Device) -> Result<(), String>| {
            let device = device()?;
            act(&device)?;
            Ok(device.statistics().as_ref().map(Traffic::from))
        };
        match self {
            Self::Case(case) => run(&|device| passed(run_case_once(case, device)?)),
            Self::Cast(case) => run(&|device| run_cast(case, device)),
            Self::LowPrecision(case) => run(&|device| passed(run_low_precision(case, device)?)),
            Self::Padded(padded) => run(&|device| padded.run(device)),
            Self::Scaling(scaling) => run(&|device| scaling.run(device)),
            Self::Bad(bad) => run(&|device| bad.run(device)),
            Self::Segments(blocks) => segments::run(text, seed, *blocks).map(|()| None),
            Self::BiasedFp8(biased) => biased.run(text, seed).map(|()| None),
            Self::Biased(biased) => biased.run(text, seed).map(|()| None),
            Self::Tables(tables) => tables.run(text, seed).map(|()| None),
        }
    }

    /// Multiprocessors of the GPU on which the library takes the kernel.
    fn multiprocessors(&self, kernel: &str) -> u32 {
        match self {
            Self::Case(case) => blackwell::of_case(kernel, case),
            Self::LowPrecision(LowPrecisionCase::Product(case)) => {
                blackwell::of_product(kernel, case)
            }
            _ => blackwell::MULTIPROCESSORS,
        }
    }
}

/// The first case in low precision whose name contains all of these.
fn named(parts: &[&str]) -> Option<Scenario> {
    let mut cases = low_precision_cases().into_iter();
    let is_named = |case: &LowPrecisionCase| {
        let name = case.to_string();
        parts.iter().all(|part| name.contains(part))
    };
    cases.find(is_named).map(Scenario::LowPrecision)
}

/// A plain case; the lists below vary it.
const fn case(
    operation: Operation,
    input: DType,
    rows: &'static [usize],
    k: usize,
    n: usize,
) -> Case {
    let output = match operation {
        Dscales => F32,
        _ => input,
    };
    Case {
        operation,
        input,
        output,
        rows: RowPattern::Listed(rows),
        tail: 1,
        in_features: k,
        out_features: n,
        layout: Layout::Packed,
        bias: BiasCase::None,
        factors: Factors::Plain,
        splits: SplitSource::Host,
        kernel: KernelChoice::Auto,
        layer: LayerUse::PLAIN,
    }
}

/// The scenarios that reach a kernel, the ones that notice most for their time first.
pub fn of_kernel(name: &str) -> Vec<Scenario> {
    match KERNELS.iter().find(|row| row.name == name).map(|row| row.role) {
        Some(role @ Role::GemmSm90(Sm90Gemm { pass, element, .. })) => {
            return sixteen(role, pass, element);
        }
        Some(
            role @ Role::GemmSm100(Sm100Gemm {
                product: Sm100Product::Sixteen(pass, operands), ..
            }),
        ) => return sixteen(role, pass, operands),
        _ => {}
    }
    let cases = match name {
        "gemm_simt_bf16" => simt(Bf16, F16),
        "gemm_simt_f16" => simt(F16, Bf16),
        "gemm_simt_f32" => simt(F32, F32),
        "dbias_partial" => {
            let cases = dbias().into_iter().map(Scenario::Case);
            return cases.chain([1, 2, 3, 7].map(Scenario::Segments)).collect();
        }
        "dbias_reduce" => {
            let several_columns_of_tiles = named(&["x 208", "db f32 Add"]);
            let cases = dbias().into_iter().map(Scenario::Case);
            return cases.chain(several_columns_of_tiles).collect();
        }
        "dscales" => dscales(),
        "cast_bf16" => return casts(Bf16),
        "cast_f16" => return casts(F16),
        "pointer_setup" => {
            // Groups padded to 128 and to 48 rows, and scales of both operands.
            let padded = named(&["quantize Tokens(Many", "Tensor"]);
            let scaled = named(&["Wgrad Edges", "Tensor"]);
            // One warp has all groups, or many; they are put in order, or are too many for it, or
            // have as many tiles as need none.
            let tables = [
                (true, [true, true], 5, false, 0),
                (false, [true, false], 5, true, 132),
                (true, [false, true], 5, true, 1),
                (false, [false; 2], 4, false, 1),
                (false, [false; 2], 83, true, 132),
                (false, [false; 2], 256, true, 132),
                (false, [false; 2], 257, true, 132),
                (false, [false; 2], 1030, true, 132),
            ];
            let tables = tables.map(|(padded, scaled, groups, factors, workers)| {
                Scenario::Tables(Tables { padded, scaled, groups, factors, workers })
            });
            return setup().into_iter().chain(padded).chain(scaled).chain(tables).collect();
        }
        _ => return low_precision::of_kernel(name),
    };
    let mut all: Vec<Scenario> = cases.into_iter().map(Scenario::Case).collect();
    let types = [(Bf16, ElementType::Bf16), (F16, ElementType::F16), (F32, ElementType::F32)];
    for (dtype, operands) in types {
        if name == format!("gemm_simt_{dtype}") {
            all.extend(
                [Pass::Fprop, Pass::Dgrad, Pass::Wgrad]
                    .into_iter()
                    .flat_map(|pass| biased(pass, operands, Role::GemmSimt(operands))),
            );
        }
    }
    all
}

/// The scenarios of a tensor-core kernel of 16-bit operands.
fn sixteen(role: Role, pass: Pass, operands: ElementType) -> Vec<Scenario> {
    let (input, other) = if operands == ElementType::F16 { (F16, Bf16) } else { (Bf16, F16) };
    let mut cases = match pass {
        Pass::Fprop => fprop(input, other),
        Pass::Dgrad => dgrad(input, other),
        Pass::Wgrad => wgrad(input, other),
    };
    if let (Role::GemmSm100(_), Pass::Wgrad) = (role, pass) {
        // Two and three steps of a stage are multiplied.
        cases.push(case(Wgrad, input, &[30, 0, 111], 40, 80));
    }
    if let (Role::GemmSm90(..), Pass::Wgrad) = (role, pass) {
        // Stages that a tile has lent come back while a tile of several stages is multiplied.
        let (output, factors) = (F32, Factors::Accumulate);
        cases.push(Case { output, factors, ..case(Wgrad, input, &[130, 70], 520, 264) });
    }
    if let (Role::GemmSm90(..), Pass::Fprop | Pass::Dgrad) = (role, pass) {
        // So many stages that copies hold back.
        let long = |operation, k, n| case(operation, input, &[130, 0, 3], k, n);
        let is_fprop = pass == Pass::Fprop;
        cases.push(if is_fprop { long(Fprop, 3080, 264) } else { long(Dgrad, 264, 3080) });
    }
    if let (Role::GemmSm90(Sm90Gemm { narrow, .. }), Pass::Fprop) = (role, pass) {
        let kernel = if narrow { KernelChoice::Narrow } else { KernelChoice::Block };
        cases = cases.into_iter().map(|case| Case { kernel, ..case }).collect();
    }
    let pair = matches!(role, Role::GemmSm100(Sm100Gemm { pair: true, .. }));
    if pair {
        cases = cases.into_iter().map(blackwell::paired).collect();
    }
    let cases = cases.into_iter().map(Scenario::Case);
    let more_blocks = (pass == Pass::Wgrad && !pair).then(|| more_blocks_than_tiles(input));
    cases.chain(biased(pass, operands, role)).chain(more_blocks).collect()
}

/// A bias of each type, with an output of each, added to the former output, and outputs of each
/// that are the product alone; both with factors of rows and without. Blackwell's kernels know that
/// gradients have no bias.
fn biased(pass: Pass, operands: ElementType, role: Role) -> impl Iterator<Item = Scenario> {
    let types = [ElementType::Bf16, ElementType::F16, ElementType::F32];
    let with_bias = [24, 88, 152].into_iter().enumerate().map(move |(index, columns)| {
        let takes_bias = pass == Pass::Fprop || !matches!(role, Role::GemmSm100(_));
        let (bias, output) = (takes_bias.then_some(types[index]), types[(index + 1) % 3]);
        let row_scaled = index != 1;
        Biased { pass, role, operands, bias, accumulates: true, row_scaled, output, columns }
    });
    let plain = types.into_iter().map(move |output| Biased {
        pass,
        role,
        operands,
        bias: None,
        accumulates: false,
        row_scaled: true,
        output,
        columns: 40,
    });
    with_bias.chain(plain).map(Scenario::Biased)
}

/// Only bad splits give the kernel of a weight gradient more blocks than tiles.
fn more_blocks_than_tiles(operands: DType) -> Scenario {
    let (product, splits) = (Some(operands), vec![vec![-1, 3]]);
    let message = "group 0 has -1 rows";
    Scenario::Bad(BadSplits { product, dtype: DType::I64, splits, message })
}

/// Widths of an output, one that ends in each slab of 32 columns.
pub const WIDTHS: [usize; 8] = [16, 48, 80, 112, 144, 176, 208, 240];

/// What the epilogue of a product can do, on outputs whose last columns fall on all runs of a
/// chunk.
fn epilogues(
    base: Case,
    other: DType,
    widths: &[usize],
    set_width: fn(Case, usize) -> Case,
) -> Vec<Case> {
    let bias = |bias| if base.operation == Fprop { bias } else { BiasCase::None };
    let mut all = Vec::new();
    for (index, &width) in widths.iter().enumerate() {
        let base = set_width(Case { tail: index % 2, ..base }, width);
        let (discrete, per_group) = (Layout::Discrete, Factors::PerGroup);
        all.extend([
            Case { output: F32, factors: per_group, bias: bias(BiasCase::AddF32), ..base },
            Case { factors: Factors::Accumulate, bias: bias(BiasCase::RowScaled), ..base },
            Case { output: other, factors: per_group, layout: discrete, ..base },
        ]);
    }
    if base.operation == Fprop {
        all.push(Case { bias: BiasCase::Add, layout: Layout::Discrete, ..base });
        all.push(Case { bias: BiasCase::RowScaledF32, ..base });
    }
    if base.input == F32 {
        all.retain(|case| case.output == F32);
    }
    all
}

/// The shapes of the tensor-core kernels: `of` makes a case of a reduction and of the rows and
/// columns of the output, where the rows are given by `rows` unless they are features.
fn tensor_cores(base: Case, other: DType, of: fn(Case, [usize; 3]) -> Case) -> Vec<Case> {
    let listed = |rows: &'static [usize]| Case { rows: RowPattern::Listed(rows), ..base };
    let few = listed(&[12, 0, 9]);
    let mut all =
        vec![of(listed(&[12, 0, 0]), [8, 72, 40]), of(listed(&[129, 0, 65]), [72, 136, 264])];
    for (index, width) in WIDTHS.into_iter().enumerate() {
        all.push(of(Case { tail: index % 2, ..few }, [8, [72, 80][index % 2], width]));
    }
    all.push(of(listed(&[70, 390]), [392, 72, 520]));
    all.extend(epilogues(
        of(few, [8, 72, 40]),
        other,
        &[24, 88, 296],
        match base.operation {
            Fprop => |case, width| Case { out_features: width, ..case },
            _ => |case, width| Case { in_features: width, ..case },
        },
    ));
    all.push(of(listed(if base.operation == Wgrad { &[3] } else { &[2100] }), [8, 2104, 264]));
    let (rows, factors) = (RowPattern::Drawn(70), Factors::Accumulate);
    all.push(of(Case { rows, factors, ..base }, [8, 8, 40]));
    all
}

fn fprop(input: DType, other: DType) -> Vec<Case> {
    tensor_cores(case(Fprop, input, &[], 0, 0), other, |case, [reduction, _, columns]| Case {
        in_features: reduction,
        out_features: columns,
        ..case
    })
}

fn dgrad(input: DType, other: DType) -> Vec<Case> {
    tensor_cores(case(Dgrad, input, &[], 0, 0), other, |case, [reduction, _, columns]| Case {
        in_features: columns,
        out_features: reduction,
        ..case
    })
}

fn wgrad(input: DType, other: DType) -> Vec<Case> {
    tensor_cores(case(Wgrad, input, &[], 0, 0), other, |case, [_, rows, columns]| Case {
        in_features: columns,
        out_features: rows,
        ..case
    })
}

fn simt(input: DType, other: DType) -> Vec<Case> {
    let kernel = KernelChoice::Simt;
    let mut all = vec![Case { kernel, ..case(Fprop, input, &[2, 0, 0], 3, 5) }];
    for width in 5..=8 {
        all.push(Case { kernel, tail: 0, ..case(Fprop, input, &[5, 6, 7, 8], 16, width) });
    }
    for operation in [Fprop, Dgrad, Wgrad] {
        let base = Case { kernel, tail: 0, ..case(operation, input, &[65, 0, 3, 20], 33, 67) };
        all.push(base);
        let base = Case { rows: RowPattern::Listed(&[6, 0, 13]), in_features: 18, ..base };
        all.extend(epilogues(
            base,
            other,
            &[65, 6],
            match operation {
                Fprop => |case, width| Case { out_features: width, ..case },
                _ => |case, width| Case { in_features: width, ..case },
            },
        ));
        all.push(Case { rows: RowPattern::Drawn(70), in_features: 5, out_features: 6, ..base });
    }
    all.push(Case { kernel, ..case(Fprop, input, &[1100], 3, 67) });
    all
}

/// Lengths of rows that end at each place of a run of eight columns.
const ENDS: std::ops::RangeInclusive<usize> = 65..=71;

fn dbias() -> Vec<Case> {
    let of = |input, rows, n| Case { tail: 0, ..case(Dbias, input, rows, 8, n) };
    let mut all = vec![
        Case { bias: BiasCase::RowScaled, ..of(Bf16, &[129, 0, 300, 1], 72) },
        Case {
            factors: Factors::Accumulate,
            layout: Layout::Discrete,
            ..of(F16, &[3, 0, 129], 67)
        },
        Case { output: Bf16, ..of(F32, &[129, 0, 33, 1], 264) },
    ];
    all.extend(ENDS.map(|n| of([Bf16, F16, F32][n % 3], &[3, 1], n)));
    all.push(Case { output: F32, factors: Factors::Accumulate, ..of(Bf16, &[512, 0, 140], 9) });
    all.push(of(F32, &[1100, 900], 9));
    all
}

fn dscales() -> Vec<Case> {
    let of = |input, rows, n| Case { tail: 0, ..case(Dscales, input, rows, 8, n) };
    let f32_bias = BiasCase::RowScaledF32;
    let mut all = vec![of(Bf16, &[9, 0, 20, 1], 264), of(F16, &[5, 3], 520)];
    for n in ENDS {
        all.push(of([F32, Bf16, F16][n % 3], &[3, 1], n));
        all.push(Case { bias: f32_bias, layout: Layout::Discrete, ..of(F16, &[2, 0, 1], n + 256) });
    }
    all.push(Case { tail: 9, bias: f32_bias, ..of(Bf16, &[9, 0, 20, 1], 40) });
    all
}

fn casts(output: DType) -> Vec<Scenario> {
    let own = cast_cases().into_iter().filter(|case| case.output == output);
    own.map(Scenario::Cast).collect()
}

fn setup() -> Vec<Scenario> {
    let simt = |case: Case| Scenario::Case(Case { kernel: KernelChoice::Simt, ..case });
    let many = |groups: usize, operation| {
        let base = case(operation, F32, &[], 1, 1);
        Case { rows: RowPattern::Sparse(groups), splits: SplitSource::DeviceI64, ..base }
    };
    // Each thread of the kernel has four groups.
    let all_negative: Vec<i64> = (1..=4096).map(|rows| -rows).collect();
    let bad = |dtype, splits: &[&[i64]], message| {
        let splits = splits.iter().map(|own| own.to_vec()).collect();
        Scenario::Bad(BadSplits { product: None, dtype, splits, message })
    };
    // Two numbers meet in one step of the scan; what comes to an unsaturated sum afterwards makes
    // it small. The scan of a warp, then that of the warps.
    let meets = [1, 2, 4, 8, 16].map(|distance| {
        let mut splits = vec![0; 32];
        (splits[0], splits[distance]) = (i64::MAX, i64::MAX);
        if let Some(split) = splits.get_mut(2 * distance) {
            *split = 4;
        }
        splits
    });
    let wide = meets.clone().map(|lanes| {
        let groups = (0..1024).map(|group| if group % 32 == 0 { lanes[group / 32] } else { 0 });
        groups.collect::<Vec<i64>>()
    });
    let mut of_one_thread = vec![0; 4096];
    of_one_thread[..3].copy_from_slice(&[i64::MAX, i64::MAX, 4]);
    let overflows = meets.into_iter().chain(wide).chain([of_one_thread]);
    let overflows = overflows.map(|own| bad(DType::I64, &[&own], "9223372036854775807 rows"));
    let cases = vec![
        simt(Case { factors: Factors::PerGroup, tail: 0, ..case(Fprop, F32, &[65, 0, 3], 5, 6) }),
        simt(Case {
            splits: SplitSource::DeviceI32,
            layout: Layout::Discrete,
            ..case(Wgrad, F32, &[3, 0, 7], 65, 66)
        }),
        bad(DType::I64, &[&[-1, 3]], "group 0 has -1 rows"),
        bad(DType::I32, &[&[7, -7]], "group 1 has -7 rows"),
        bad(DType::I64, &[&[3, 4]], "7 rows, but the token buffer has 6"),
        bad(DType::I32, &[&[9, 9], &[-1, 3]], "18 rows, but the token buffer has 6"),
        bad(DType::I64, &[&[i64::MAX, i64::MAX]], "9223372036854775807 rows"),
        bad(DType::I64, &[&all_negative], "group 0 has -1 rows"),
        simt(many(300, Fprop)),
        simt(many(1500, Wgrad)),
        simt(many(2500, Dgrad)),
        simt(many(4096, Fprop)),
    ];
    cases.into_iter().chain(overflows).collect()
}

/// A scenario that is refused runs nothing, so it shows nothing.
fn passed(outcome: Outcome) -> Result<(), String> {
    match outcome {
        Outcome::Passed => Ok(()),
        Outcome::Refused(reason) => Err(format!("refused: {reason}")),
    }
}
