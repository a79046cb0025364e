//! The grouped GEMMs, launched without the library: with a bias of every type where the kernel
//! takes one (the library gives it to fprop only, and of two types), and with a factor for each
//! token row.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{ElementType, GemmArgs, GroupTable, Pass, TensorMap};
use grouped_linear_kernels::variants::{Kernel, Role, kernel};
use half::{bf16, f16};
use ptx_emulator::tensor_map::TensorDataType;
use ptx_emulator::{LaunchConfig, Machine};

use crate::blackwell;
use crate::machines::{self, loaded};

/// Rows of the groups.
pub const SPLITS: [usize; 2] = [12, 9];
/// All of them.
pub const ROWS: usize = 21;
/// The reduction of fprop and dgrad.
const REDUCTION: usize = 8;
/// Rows of a weight gradient.
pub const GRADIENT_ROWS: usize = 72;

/// Factors of the groups' products; what they and those of rows are multiplied by is rounded, so
/// that the order shows.
pub const ALPHA: [f32; 2] = [0.7, 2.9];
/// What the factors of rows are multiplied by.
const ROW_SCALE_FACTOR: f32 = 1.0 / 2688.0;

/// A map that no kernel looks at.
pub const NO_MAP: TensorMap = TensorMap([0; 16]);

/// What is launched.
#[derive(Clone, Copy, Debug)]
pub struct Biased {
    /// Which product.
    pub pass: Pass,
    /// The kernel.
    pub role: Role,
    /// The type of the operands.
    pub operands: ElementType,
    /// The type of the bias, in a product that may have one.
    pub bias: Option<ElementType>,
    /// Whether the former output is added.
    pub accumulates: bool,
    /// Whether token rows have factors. Those of a weight gradient are not read.
    pub row_scaled: bool,
    /// The type of the output.
    pub output: ElementType,
    /// Columns of the output, a multiple of 8.
    pub columns: usize,
}

/// A small whole number; all sums of products of two are exact.
pub fn number(seed: usize, index: usize) -> f32 {
    ((index * 7 + index / 5 + seed * 3) % 5) as f32 - 2.0
}

/// The factor of a token row.
fn row_scale(row: usize) -> f32 {
    (row * 37 % 64) as f32 * 7.1 + 0.3
}

pub fn bytes(dtype: ElementType, values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    let values = values.into_iter();
    match dtype {
        ElementType::Bf16 => values.flat_map(|v| bf16::from_f32(v).to_le_bytes()).collect(),
        ElementType::F16 => values.flat_map(|v| f16::from_f32(v).to_le_bytes()).collect(),
        ElementType::F32 => values.flat_map(f32::to_le_bytes).collect(),
        ElementType::E4m3 | ElementType::E5m2 => {
            unreachable!("kernels with a bias have outputs of 16 or 32 bits")
        }
    }
}

pub fn size(dtype: ElementType) -> usize {
    if dtype == ElementType::F32 { 4 } else { 2 }
}

pub fn place(machine: &mut Machine, bytes: &[u8]) -> Result<u64, String> {
    let address = machine.allocate(bytes.len() as u64).map_err(|error| error.to_string())?;
    machine.write(address, bytes).map_err(|error| error.to_string())?;
    Ok(address)
}

/// The map of 16-bit elements, `extents` from the innermost on, boxes of 64 elements in `rows`
/// rows, or in as many as the kernel has.
fn map(
    kernel: &Kernel,
    operands: ElementType,
    address: u64,
    extents: &[usize],
    rows: u32,
) -> Result<TensorMap, String> {
    let bf16 = operands == ElementType::Bf16;
    let data_type = if bf16 { TensorDataType::Bf16 } else { TensorDataType::F16 };
    machines::map(kernel, data_type, address, extents, [64, rows.min(blackwell::most_rows(kernel))])
}

impl Biased {
    /// Runs it with the text of a module.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, text: &str, seed: u64) -> Result<(), String> {
        let kernel = kernel(self.role).ok_or("the table lacks the kernel")?;
        let (mut machine, id) = loaded(text, seed, kernel.name)?;
        let former: Vec<f32> = (0..self.rows() * self.columns).map(|i| number(3, i)).collect();
        let output = place(&mut machine, &bytes(self.output, former.iter().copied()))?;
        let args = self.args(&mut machine, kernel, output)?;
        let config = LaunchConfig {
            grid: [SPLITS.len() as u32 * kernel.cluster, 1, 1],
            block: [kernel.threads, 1, 1],
            cluster: [kernel.cluster, 1, 1],
            dynamic_shared_bytes: kernel.shared_bytes,
        };
        machine.launch(id, &config, bytes_of(&args)).map_err(|error| format!("failed: {error}"))?;
        let expected = bytes(self.output, self.expected(&former));
        let mut got = vec![0; expected.len()];
        machine.read(output, &mut got).map_err(|error| error.to_string())?;
        match (0..got.len()).find(|&at| got[at] != expected[at]) {
            None => Ok(()),
            Some(at) => Err(format!("element {} is wrong", at / size(self.output))),
        }
    }

    /// Rows of the output, of all groups.
    fn rows(&self) -> usize {
        if self.pass == Pass::Wgrad { SPLITS.len() * GRADIENT_ROWS } else { ROWS }
    }

    fn args(
        &self,
        machine: &mut Machine,
        kernel: &Kernel,
        output: u64,
    ) -> Result<GemmArgs, String> {
        let (columns, operands, groups) = (self.columns, self.operands, SPLITS.len());
        let simt = matches!(self.role, Role::GemmSimt(_));
        let ragged = self.pass == Pass::Wgrad;
        let left = if ragged { GRADIENT_ROWS } else { REDUCTION };
        let right = if ragged { ROWS } else { groups * REDUCTION };
        let a = place(machine, &bytes(operands, (0..ROWS * left).map(|i| number(1, i))))?;
        let b = place(machine, &bytes(operands, (0..right * columns).map(|i| number(2, i))))?;
        // One factor per row of the output, counted from the group's first token.
        let scaled = if ragged { SPLITS[0] + GRADIENT_ROWS } else { ROWS };
        let scales = bytes(ElementType::F32, (0..scaled).map(|i| number(5, i)));
        let token_box = if ragged { kernel.tile.k } else { kernel.tile.m };
        let (mut bias, mut bias_row_scales) = (0, 0);
        if let Some(dtype) = self.bias {
            bias = place(machine, &bytes(dtype, (0..groups * columns).map(|i| number(4, i))))?;
            bias_row_scales = place(machine, &scales)?;
        }
        let row_scales = bytes(ElementType::F32, (0..ROWS).map(row_scale));
        let row_scales = if self.row_scaled { place(machine, &row_scales)? } else { 0 };
        let b_map = match self.pass {
            _ if simt => NO_MAP,
            Pass::Fprop => {
                let rows = blackwell::most_rows(kernel);
                map(kernel, operands, b, &[REDUCTION, columns, groups], rows)?
            }
            Pass::Dgrad => map(kernel, operands, b, &[columns, REDUCTION, groups], kernel.tile.k)?,
            Pass::Wgrad => map(kernel, operands, b, &[columns, ROWS], kernel.tile.k)?,
        };
        let a_map = if simt { NO_MAP } else { map(kernel, operands, a, &[left, ROWS], token_box)? };
        // Elements from one output column of the right operand, and reduction index, to the next.
        let [b_column_stride, b_reduction_stride] = match self.pass {
            Pass::Fprop => [REDUCTION, 1],
            Pass::Dgrad | Pass::Wgrad => [1, columns],
        };
        let [a_row_stride, a_reduction_stride] = if ragged { [1, left] } else { [left, 1] };
        Ok(GemmArgs {
            a_map,
            b_map,
            d_map: NO_MAP,
            b_maps: 0,
            table: place(machine, &self.table(kernel, [a, b, output]))?,
            bias,
            bias_array: 0,
            bias_row_scales,
            a_row_stride: a_row_stride as u64,
            a_reduction_stride: a_reduction_stride as u64,
            b_column_stride: b_column_stride as u64,
            b_reduction_stride: b_reduction_stride as u64,
            groups: groups as u32,
            ragged: ragged.into(),
            m: if ragged { GRADIENT_ROWS as u32 } else { 0 },
            n: columns as u32,
            k: if ragged { 0 } else { REDUCTION as u32 },
            d_type: self.output as u32,
            bias_type: self.bias.map_or(0, |dtype| dtype as u32),
            row_scale_factor: ROW_SCALE_FACTOR,
            row_scales,
            has_d_map: 0,
            has_feature_blocks: 0,
            lends_stages: 0,
            reserved: 0,
        })
    }

    /// The group table, of operands and an output at these addresses.
    fn table(&self, kernel: &Kernel, [a, b, output]: [u64; 3]) -> Vec<u8> {
        let layout = GroupTable::layout(SPLITS.len() as u32);
        let mut table = vec![0u8; layout.bytes];
        let mut put = |at: usize, bytes: &[u8]| table[at..at + bytes.len()].copy_from_slice(bytes);
        let ragged = self.pass == Pass::Wgrad;
        let beta = if self.accumulates { 1f32 } else { 0.0 };
        let (mut token, mut tiles) = (0, 0u32);
        for group in 0..=SPLITS.len() {
            put(layout.row_offsets + 8 * group, &(token as u64).to_le_bytes());
            put(layout.tile_prefix + 4 * group, &tiles.to_le_bytes());
            let (Some(&rows), Some(alpha)) = (SPLITS.get(group), ALPHA.get(group)) else { break };
            // The last group is the first to be multiplied.
            put(layout.order + 4 * group, &((SPLITS.len() - 1 - group) as u32).to_le_bytes());
            let (m, k) = if ragged { (GRADIENT_ROWS, rows) } else { (rows, REDUCTION) };
            let (left, right) = if ragged {
                (token * GRADIENT_ROWS, token * self.columns)
            } else {
                (token * REDUCTION, group * REDUCTION * self.columns)
            };
            let row = if ragged { group * GRADIENT_ROWS } else { token };
            let places = [
                (layout.a_pointers, a + (left * size(self.operands)) as u64),
                (layout.b_pointers, b + (right * size(self.operands)) as u64),
                (layout.d_pointers, output + (row * self.columns * size(self.output)) as u64),
            ];
            for (array, address) in places {
                put(array + 8 * group, &address.to_le_bytes());
            }
            put(layout.m + 4 * group, &(m as u32).to_le_bytes());
            put(layout.n + 4 * group, &(self.columns as u32).to_le_bytes());
            put(layout.k + 4 * group, &(k as u32).to_le_bytes());
            put(layout.alpha + 4 * group, &alpha.to_le_bytes());
            put(layout.beta + 4 * group, &beta.to_le_bytes());
            let tile = kernel.tile;
            tiles += (m as u32).div_ceil(tile.m) * (self.columns as u32).div_ceil(tile.n);
            token += rows;
        }
        table
    }

    /// The output, from its definition.
    fn expected(&self, former: &[f32]) -> Vec<f32> {
        let columns = self.columns;
        let mut all = Vec::new();
        let mut token = 0;
        for (group, &rows) in SPLITS.iter().enumerate() {
            let live = if self.pass == Pass::Wgrad { GRADIENT_ROWS } else { rows };
            for (row, column) in (0..live).flat_map(|row| (0..columns).map(move |c| (row, c))) {
                let product: f32 = match self.pass {
                    Pass::Wgrad => (token..token + rows)
                        .map(|t| {
                            number(1, t * GRADIENT_ROWS + row) * number(2, t * columns + column)
                        })
                        .sum(),
                    pass => (0..REDUCTION)
                        .map(|k| {
                            let b = match pass {
                                Pass::Fprop => (group * columns + column) * REDUCTION + k,
                                _ => (group * REDUCTION + k) * columns + column,
                            };
                            number(1, (token + row) * REDUCTION + k) * number(2, b)
                        })
                        .sum(),
                };
                let mut alpha = ALPHA[group];
                if self.row_scaled && self.pass != Pass::Wgrad {
                    let factor = row_scale(token + row) * ROW_SCALE_FACTOR;
                    alpha *= factor;
                }
                let mut value = alpha * product;
                if self.bias.is_some() {
                    // The product of whole numbers is exact, so that this is the fused sum.
                    value += number(5, token + row) * number(4, group * columns + column);
                }
                if self.accumulates {
                    value += former[all.len()];
                }
                all.push(value);
            }
            token += rows;
        }
        all
    }
}
