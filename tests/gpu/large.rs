//! Tensors of more than 2³¹ elements: every index on the way must have 64 bits.
//!
//! A block of small integers fills them over and over; its length is prime to all row lengths, so
//! no two rows agree, and an index that wraps around lands on other numbers. Results are exact (see
//! `host.rs`) and checked in samples: first and last rows of all groups, rows around 2³¹ elements
//! of every tensor, and random ones; nothing behind the last group may change.

use std::sync::{Mutex, PoisonError};

use grouped_linear::conformance::Generator;
use grouped_linear::functional::{
    Accumulate, DbiasArgs, DgradArgs, DscalesArgs, FpropArgs, GemmOptions, WgradArgs, dbias, dgrad,
    dscales, fprop, wgrad,
};
use grouped_linear::{DType, Device, GroupedTensor, KernelChoice, Result, Splits, Stream, Tensor};
use half::bf16;

use crate::device::{poison_tensor, tensor_bits, untouched};
use crate::host::{bits, equal_values, poison, small};
use crate::{Check, Outcome};

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// K.
    k: usize,
    /// N.
    n: usize,
    groups: usize,
    rows_of: fn(usize) -> usize,
    /// Rows of the buffer that belong to no group.
    tail: usize,
}

const CASES: &[Case] = &[
    Case {
        name: "x and dx, one group across the border",
        k: 2048,
        n: 8,
        groups: 3,
        // Group 1 ends at row 1 062 144; 2³¹ elements are 1 048 576 rows.
        rows_of: |group| [262_145, 799_999, 37_000][group],
        tail: 856,
    },
    Case {
        name: "y and dy, one group across the border",
        k: 16,
        n: 4096,
        groups: 4,
        // Group 1 ends at row 530 004; 2³¹ elements are 524 288 rows.
        rows_of: |group| [100_003, 430_001, 0, 69_000][group],
        tail: 996,
    },
    Case {
        name: "x and dx, a border of groups on the border",
        k: 4096,
        n: 8,
        groups: 3,
        rows_of: |group| [524_288, 1, 2047][group],
        tail: 1,
    },
    Case {
        name: "weights and dw",
        k: 2048,
        n: 2048,
        // 2³¹ elements are 512 groups.
        groups: 530,
        rows_of: |group| group % 5,
        tail: 3,
    },
];

/// Elements at which 32-bit signed indices end.
const BORDER: usize = 1 << 31;

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for &case in CASES {
        for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
            let name = format!("large: {}, {kernel:?}", case.name);
            checks.push(Check::new(name, move |device| check(device, &case, kernel)));
        }
    }
    checks
}

/// A tensor on the device and the block that fills it.
struct Filled {
    tensor: Tensor,
    block: Vec<f32>,
}

impl Filled {
    fn new(stream: &Stream, shape: &[usize], seed: u64) -> Result<Self> {
        let mut generator = Generator::new(seed);
        // A prime.
        let block: Vec<f32> = (0..16_777_259).map(|_| small(&mut generator)).collect();
        let tensor = Tensor::empty(stream, shape, DType::Bf16)?;
        let values: Vec<bf16> = block.iter().copied().map(bf16::from_f32).collect();
        fill(stream, &tensor, &values)?;
        Ok(Self { tensor, block })
    }

    /// The element at a position counted over the whole tensor.
    fn at(&self, index: usize) -> i64 {
        self.block[index % self.block.len()] as i64
    }
}

/// Repeats the values over the tensor, by copies on the device.
fn fill(stream: &Stream, tensor: &Tensor, values: &[bf16]) -> Result<()> {
    let block = Tensor::from_slice(stream, &[values.len()], values)?;
    let flat = tensor.reshape(&[tensor.len()])?;
    for start in (0..flat.len()).step_by(values.len()) {
        let count = values.len().min(flat.len() - start);
        flat.narrow(start, count)?.copy_from(stream, &block.narrow(0, count)?)?;
    }
    Ok(())
}

fn poisoned(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    let tensor = Tensor::empty(stream, shape, DType::Bf16)?;
    let pattern = bf16::from_bits(poison(DType::Bf16) as u16);
    fill(stream, &tensor, &vec![pattern; 1 << 22])?;
    Ok(tensor)
}

/// The rows of a buffer and their groups.
struct Rows {
    offsets: Vec<usize>,
    rows: usize,
}

impl Rows {
    fn new(case: &Case) -> Self {
        let mut offsets = vec![0];
        for group in 0..case.groups {
            offsets.push(offsets[group] + (case.rows_of)(group));
        }
        let rows = offsets[case.groups] + case.tail;
        Self { offsets, rows }
    }

    fn live(&self) -> usize {
        self.offsets[self.offsets.len() - 1]
    }

    fn group_of(&self, row: usize) -> usize {
        self.offsets.partition_point(|&offset| offset <= row) - 1
    }

    /// Live rows worth a look in a tensor with so many columns.
    fn sample(&self, columns: usize) -> Vec<usize> {
        let border = BORDER / columns;
        let mut rows: Vec<usize> = (border.saturating_sub(2)..border + 3).collect();
        for bounds in self.offsets.windows(2) {
            rows.extend([bounds[0], bounds[1].saturating_sub(1)]);
        }
        let mut generator = Generator::new(columns as u64);
        rows.extend((0..200).map(|_| (generator.next() % self.live() as u64) as usize));
        rows.retain(|&row| row < self.live());
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// Trials take turns, so that 10 GB are enough.
static TURN: Mutex<()> = Mutex::new(());

fn check(device: &Device, case: &Case, kernel: KernelChoice) -> Outcome {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let stream = device.stream()?;
    let rows = Rows::new(case);
    let &Case { k, n, groups, .. } = case;
    let counts: Vec<i64> = (0..groups).map(|group| (case.rows_of)(group) as i64).collect();
    let splits = Splits::device(Tensor::from_slice(&stream, &[groups], &counts)?)?;
    let x = Filled::new(&stream, &[rows.rows, k], 1)?;
    let dy = Filled::new(&stream, &[rows.rows, n], 2)?;
    let w = Filled::new(&stream, &[groups, n, k], 3)?;
    let weights = GroupedTensor::packed(w.tensor.clone())?;
    let options = GemmOptions { kernel, ..GemmOptions::default() };

    let b = Filled::new(&stream, &[groups, n], 4)?;
    let bias = GroupedTensor::packed(b.tensor.clone())?;

    let mut y = poisoned(&stream, &[rows.rows, n])?;
    let args = FpropArgs {
        x: &x.tensor,
        weights: &weights,
        splits: &splits,
        bias: Some(&bias),
        bias_row_scales: None,
        options,
    };
    fprop(&stream, &args, &mut y)?;
    check_rows(&stream, "y", &y, &rows, |row, group, column| {
        let product = |i| x.at(row * k + i) * w.at((group * n + column) * k + i);
        (0..k).map(product).sum::<i64>() + b.at(group * n + column)
    })?;
    drop(y);

    let mut dx = poisoned(&stream, &[rows.rows, k])?;
    let args = DgradArgs { dy: &dy.tensor, weights: &weights, splits: &splits, options };
    dgrad(&stream, &args, &mut dx)?;
    check_rows(&stream, "dx", &dx, &rows, |row, group, column| {
        (0..n).map(|i| dy.at(row * n + i) * w.at((group * n + i) * k + column)).sum()
    })?;
    drop(dx);

    // In FP32 every row counts, where there is room for it.
    let dw = if groups * n * k < 1 << 24 {
        let dw = Tensor::empty(&stream, &[groups, n, k], DType::F32)?;
        poison_tensor(&stream, &dw)?;
        dw
    } else {
        poisoned(&stream, &[groups, n, k])?
    };
    let args = WgradArgs { dy: &dy.tensor, x: &x.tensor, splits: &splits, options };
    wgrad(&stream, &args, &mut GroupedTensor::packed(dw.clone())?)?;
    check_weights(&stream, &dw, &rows, &x, &dy)?;
    if kernel == KernelChoice::Auto {
        check_bias(&stream, &rows, &splits, &dy, &bias, &b)?;
    }
    Ok(stream.synchronize()?)
}

/// Gradients of the bias and of its row scales; they have one kernel each.
fn check_bias(
    stream: &Stream,
    rows: &Rows,
    splits: &Splits,
    dy: &Filled,
    bias: &GroupedTensor,
    b: &Filled,
) -> Outcome {
    let (groups, n) = (bias.groups(), dy.tensor.shape()[1]);
    let db = Tensor::empty(stream, &[groups, n], DType::F32)?;
    poison_tensor(stream, &db)?;
    let accumulate = Accumulate::Overwrite;
    let args = DbiasArgs { dy: &dy.tensor, splits, row_scales: None, accumulate };
    dbias(stream, &args, &mut GroupedTensor::packed(db.clone())?)?;
    let columns = columns(n);
    for (group, bounds) in rows.offsets.windows(2).enumerate() {
        let sum = |column| (bounds[0]..bounds[1]).map(|row| dy.at(row * n + column)).sum();
        let got = tensor_bits(stream, &db.index(group)?)?;
        let got: Vec<u32> = columns.iter().map(|&column| got[column]).collect();
        let want: Vec<u32> = columns.iter().map(|&column| exact(sum(column), DType::F32)).collect();
        equal_values(&format!("db of group {group}"), DType::F32, &got, &want)?;
    }

    let mut gradient = Tensor::empty(stream, &[rows.rows], DType::F32)?;
    poison_tensor(stream, &gradient)?;
    dscales(stream, &DscalesArgs { dy: &dy.tensor, bias, splits }, &mut gradient)?;
    let got = tensor_bits(stream, &gradient)?;
    for row in rows.sample(n) {
        let group = rows.group_of(row);
        let want = (0..n).map(|i| dy.at(row * n + i) * b.at(group * n + i)).sum();
        let want = [exact(want, DType::F32)];
        equal_values(&format!("dscales, row {row}"), DType::F32, &got[row..=row], &want)?;
    }
    untouched("dscales past the last group", &got[rows.live()..], DType::F32)?;
    Ok(())
}

/// At most this many columns of a row are computed.
const COLUMNS: usize = 48;

/// Columns spread over a row, with its ends.
fn columns(width: usize) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..COLUMNS).map(|i| i * (width - 1) / (COLUMNS - 1)).collect();
    columns.dedup();
    columns
}

/// Checks sampled rows of `[rows, columns]`, and that nothing behind the last group was written.
fn check_rows(
    stream: &Stream,
    what: &str,
    result: &Tensor,
    rows: &Rows,
    element: impl Fn(usize, usize, usize) -> i64,
) -> Outcome {
    let width = result.shape()[1];
    let columns = columns(width);
    for row in rows.sample(width) {
        let group = rows.group_of(row);
        let got = tensor_bits(stream, &result.index(row)?)?;
        let got: Vec<u32> = columns.iter().map(|&column| got[column]).collect();
        let want: Vec<u32> =
            columns.iter().map(|&c| exact(element(row, group, c), DType::Bf16)).collect();
        equal_values(&format!("{what}, row {row} of group {group}"), DType::Bf16, &got, &want)?;
    }
    let tail = result.narrow(rows.live(), rows.rows - rows.live())?;
    untouched(&format!("{what} past the last group"), &tensor_bits(stream, &tail)?, DType::Bf16)?;
    Ok(())
}

/// Checks sampled elements of `dw`: all groups at the ends and around the border, a grid in each.
fn check_weights(stream: &Stream, dw: &Tensor, rows: &Rows, x: &Filled, dy: &Filled) -> Outcome {
    let &[groups, n, k] = dw.shape() else { return Err("dw has three dimensions".into()) };
    let border = BORDER / (n * k);
    let is_sampled = |group: usize| group < 8 || group + 8 >= groups || group.abs_diff(border) < 4;
    let grid = |width: usize| -> Vec<usize> { columns(width).into_iter().step_by(3).collect() };
    let (ns, ks) = (grid(n), grid(k));
    for group in (0..groups).filter(|&group| is_sampled(group)) {
        let mut sums = vec![0i64; ns.len() * ks.len()];
        for row in rows.offsets[group]..rows.offsets[group + 1] {
            let xs: Vec<i64> = ks.iter().map(|i| x.at(row * k + i)).collect();
            for (sums, j) in sums.chunks_mut(ks.len()).zip(&ns) {
                let dy = dy.at(row * n + j);
                sums.iter_mut().zip(&xs).for_each(|(sum, x)| *sum += dy * x);
            }
        }
        let held = dw.index(group)?;
        for (sums, &j) in sums.chunks(ks.len()).zip(&ns) {
            let got = tensor_bits(stream, &held.index(j)?)?;
            let got: Vec<u32> = ks.iter().map(|&i| got[i]).collect();
            let want: Vec<u32> = sums.iter().map(|&sum| exact(sum, dw.dtype())).collect();
            equal_values(&format!("dw, row {j} of group {group}"), dw.dtype(), &got, &want)?;
        }
    }
    Ok(())
}

/// The bits of a sum, which FP32 holds exactly, after the rounding to the type.
fn exact(sum: i64, dtype: DType) -> u32 {
    bits(sum as f32, dtype)
}
