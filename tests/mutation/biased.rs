//! The tensor-core kernels with a bias of every type, launched without the library, which gives a
//! bias to fprop only and that of two types. The kernels share their epilogue, so all can add one.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{ElementType, GemmArgs, GroupTable, Pass, TensorMap};
use grouped_linear_kernels::variants::{Kernel, Role, kernel};
use half::{bf16, f16};
use ptx_emulator::tensor_map::{
    self, Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap,
};
use ptx_emulator::{Arch, LaunchConfig, Machine, Options};

use crate::scenarios::INSTRUCTION_LIMIT;

/// Rows of the groups.
const SPLITS: [usize; 2] = [12, 9];
/// All of them.
const ROWS: usize = 21;
/// The reduction of fprop and dgrad.
const REDUCTION: usize = 8;
/// Rows of a weight gradient.
const GRADIENT_ROWS: usize = 72;

/// What is launched.
#[derive(Clone, Copy, Debug)]
pub struct Biased {
    /// Which kernel.
    pub pass: Pass,
    /// The type of the operands.
    pub operands: ElementType,
    /// The type of the bias.
    pub bias: ElementType,
    /// The type of the output.
    pub output: ElementType,
    /// Columns of the output, a multiple of 8.
    pub columns: usize,
}

/// A small whole number; all sums of them are exact in every type.
fn number(seed: usize, index: usize) -> f32 {
    ((index * 7 + index / 5 + seed * 3) % 5) as f32 - 2.0
}

fn bytes(dtype: ElementType, values: impl IntoIterator<Item = f32>) -> Vec<u8> {
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

fn size(dtype: ElementType) -> usize {
    if dtype == ElementType::F32 { 4 } else { 2 }
}

fn place(machine: &mut Machine, bytes: &[u8]) -> Result<u64, String> {
    let address = machine.allocate(bytes.len() as u64).map_err(|error| error.to_string())?;
    machine.write(address, bytes).map_err(|error| error.to_string())?;
    Ok(address)
}

/// The map of 16-bit elements, `extents` from the innermost on, boxes of 64 elements in `rows`
/// rows.
fn map(
    operands: ElementType,
    address: u64,
    extents: &[usize],
    rows: u32,
) -> Result<TensorMap, String> {
    let bf16 = operands == ElementType::Bf16;
    let mut tile = vec![64, rows];
    tile.resize(extents.len(), 1);
    let map = TiledMap {
        data_type: if bf16 { TensorDataType::Bf16 } else { TensorDataType::F16 },
        address,
        extents: extents.iter().map(|&extent| extent as u64).collect(),
        strides: (1..extents.len())
            .map(|i| 2 * extents[..i].iter().product::<usize>() as u64)
            .collect(),
        tile,
        element_strides: vec![1; extents.len()],
        interleave: Interleave::None,
        swizzle: Swizzle::Bytes128,
        l2_promotion: L2Promotion::Bytes256,
        fill: OutOfBoundsFill::Zeros,
    };
    let encoded = tensor_map::TensorMap::encode_tiled(&map, Arch::Sm90a);
    let encoded = encoded.map_err(|error| error.to_string())?;
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(encoded.as_bytes().as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(TensorMap(words))
}

impl Biased {
    /// Runs it with the text of a module.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, text: &str, seed: u64) -> Result<(), String> {
        let role = Role::GemmSm90(self.pass, self.operands);
        let kernel = kernel(role).ok_or("the table lacks the kernel")?;
        let mut options = Options::new(Arch::Sm90a);
        options.seed = seed;
        options.instruction_limit = INSTRUCTION_LIMIT;
        let mut machine = Machine::with_options(options);
        let module = machine.load(text);
        let module = module.map_err(|error| format!("the emulator refuses it: {error}"))?;
        let id = machine.kernel(module, kernel.name).ok_or("the module lacks the kernel")?;
        let former: Vec<f32> = (0..self.rows() * self.columns).map(|i| number(3, i)).collect();
        let output = place(&mut machine, &bytes(self.output, former.iter().copied()))?;
        let args = self.args(&mut machine, kernel, output)?;
        let config = LaunchConfig {
            grid: [SPLITS.len() as u32, 1, 1],
            block: [kernel.threads, 1, 1],
            cluster: [1, 1, 1],
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
        let ragged = self.pass == Pass::Wgrad;
        let left = if ragged { GRADIENT_ROWS } else { REDUCTION };
        let right = if ragged { ROWS } else { groups * REDUCTION };
        let a = place(machine, &bytes(operands, (0..ROWS * left).map(|i| number(1, i))))?;
        let b = place(machine, &bytes(operands, (0..right * columns).map(|i| number(2, i))))?;
        let bias = bytes(self.bias, (0..groups * columns).map(|i| number(4, i)));
        // One factor per row of the output, counted from the group's first token.
        let scaled = if ragged { SPLITS[0] + GRADIENT_ROWS } else { ROWS };
        let scales = bytes(ElementType::F32, (0..scaled).map(|i| number(5, i)));
        let token_box = if ragged { kernel.tile.k } else { kernel.tile.m };
        let (bias, bias_row_scales) = (place(machine, &bias)?, place(machine, &scales)?);
        let b_map = match self.pass {
            Pass::Fprop => map(operands, b, &[REDUCTION, columns, groups], kernel.tile.n)?,
            Pass::Dgrad => map(operands, b, &[columns, REDUCTION, groups], kernel.tile.k)?,
            Pass::Wgrad => map(operands, b, &[columns, ROWS], kernel.tile.k)?,
        };
        Ok(GemmArgs {
            a_map: map(operands, a, &[left, ROWS], token_box)?,
            b_map,
            b_maps: 0,
            table: place(machine, &self.table(output))?,
            bias,
            bias_array: 0,
            bias_row_scales,
            a_row_stride: 0,
            a_reduction_stride: 0,
            b_column_stride: 0,
            b_reduction_stride: 0,
            groups: groups as u32,
            ragged: ragged.into(),
            m: if ragged { GRADIENT_ROWS as u32 } else { 0 },
            n: columns as u32,
            k: if ragged { 0 } else { REDUCTION as u32 },
            d_type: self.output as u32,
            bias_type: self.bias as u32,
            reserved: 0,
            reserved2: 0,
        })
    }

    /// The group table; every group has one tile.
    fn table(&self, output: u64) -> Vec<u8> {
        let layout = GroupTable::layout(SPLITS.len() as u32);
        let mut table = vec![0u8; layout.bytes];
        let mut put = |at: usize, bytes: &[u8]| table[at..at + bytes.len()].copy_from_slice(bytes);
        let mut token = 0;
        for group in 0..=SPLITS.len() {
            put(layout.row_offsets + 8 * group, &(token as u64).to_le_bytes());
            put(layout.tile_prefix + 4 * group, &(group as u32).to_le_bytes());
            let Some(rows) = SPLITS.get(group) else { break };
            let row = if self.pass == Pass::Wgrad { group * GRADIENT_ROWS } else { token };
            let address = output + (row * self.columns * size(self.output)) as u64;
            put(layout.d_pointers + 8 * group, &address.to_le_bytes());
            put(layout.alpha + 4 * group, &1f32.to_le_bytes());
            put(layout.beta + 4 * group, &1f32.to_le_bytes());
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
                let bias = number(5, token + row) * number(4, group * columns + column);
                all.push(product + bias + former[all.len()]);
            }
            token += rows;
        }
        all
    }
}
