//! The grouped GEMMs of FP8 operands, launched without the library: with a bias of every type,
//! which the library gives to fprop only.

use bytemuck::{bytes_of, cast_slice};
use grouped_linear::numerics::{E4m3, E5m2};
use grouped_linear_kernels::abi::quantize::{Blocks, ScaleLayout};
use grouped_linear_kernels::abi::scaled::{
    A_SCALE_BOX, B_SCALE_BOX, OperandScales, ScaledGemmArgs,
};
use grouped_linear_kernels::abi::{ElementType, GemmArgs, GroupTable, Ragged, TensorMap};
use grouped_linear_kernels::variants::{Fp8Gemm, KERNELS, Kernel, Role, Sm100Gemm, Sm100Product};
use ptx_emulator::tensor_map::TensorDataType;
use ptx_emulator::{LaunchConfig, Machine};

use crate::biased::{ALPHA, GRADIENT_ROWS, NO_MAP, ROWS, SPLITS, bytes, number, place, size};
use crate::blackwell;
use crate::machines::{loaded, map};

/// What the rows of a group are padded to where they are reduced, and a block of scales.
const BLOCK: usize = 128;
/// Rows of all groups with their padding.
const PADDED_ROWS: usize = SPLITS.len() * BLOCK;
/// The reduction where rows are ragged.
const REDUCTION: usize = 16;

/// What is launched.
#[derive(Clone, Copy, Debug)]
pub struct BiasedFp8 {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// Which product it computes.
    product: Fp8Gemm,
    /// The type of the bias, in a product that may have one.
    pub bias: Option<ElementType>,
    /// Whether the former output is added.
    pub accumulates: bool,
    /// The type of the output.
    pub output: ElementType,
    /// Columns of the output, a multiple of 8.
    pub columns: usize,
}

/// A bias of each type with an output of each, added to the former output, and outputs of each that
/// are the product alone. Blackwell's gradients of weights have no bias.
pub fn of_kernel(name: &str) -> impl Iterator<Item = BiasedFp8> {
    let types = [ElementType::Bf16, ElementType::F16, ElementType::F32];
    let found = KERNELS.iter().find(|row| row.name == name);
    let found = found.and_then(|kernel| match kernel.role {
        Role::GemmFp8(product)
        | Role::GemmSm100(Sm100Gemm { product: Sm100Product::Fp8(product), .. }) => {
            Some((kernel, product))
        }
        _ => None,
    });
    found.into_iter().flat_map(move |(kernel, product)| {
        let with_bias = [24, 88, 152].into_iter().enumerate().map(move |(index, columns)| {
            let takes_bias =
                product.ragged != Ragged::Reduction || matches!(kernel.role, Role::GemmFp8(_));
            let bias = takes_bias.then_some(types[index]);
            let output = types[(index + 1) % 3];
            BiasedFp8 { kernel, product, bias, accumulates: true, output, columns }
        });
        let plain = types.into_iter().map(move |output| {
            let (bias, accumulates, columns) = (None, false, 40);
            BiasedFp8 { kernel, product, bias, accumulates, output, columns }
        });
        with_bias.chain(plain)
    })
}

/// A matrix of scales, `[outer, pitch]`, of one group or of all.
struct Scales {
    outer: usize,
    pitch: usize,
    groups: usize,
}

impl BiasedFp8 {
    /// Runs it with the text of a module.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, text: &str, seed: u64) -> Result<(), String> {
        let (mut machine, id) = loaded(text, seed, self.kernel.name)?;
        let rows = if self.is_reduction() { SPLITS.len() * GRADIENT_ROWS } else { ROWS };
        let former: Vec<f32> = (0..rows * self.columns).map(|i| number(3, i)).collect();
        let output = place(&mut machine, &bytes(self.output, former.iter().copied()))?;
        let args = self.args(&mut machine, output)?;
        let config = LaunchConfig {
            // The last has no tile: the library launches such only where splits are bad.
            grid: [(SPLITS.len() as u32 + 1) * self.kernel.cluster, 1, 1],
            block: [self.kernel.threads, 1, 1],
            cluster: [self.kernel.cluster, 1, 1],
            dynamic_shared_bytes: self.kernel.shared_bytes,
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

    fn is_reduction(&self) -> bool {
        self.product.ragged == Ragged::Reduction
    }

    /// First token of a group.
    fn first_row(group: usize) -> usize {
        SPLITS[..group].iter().sum()
    }

    /// A number of the left or the right operand, by its line and its place along the reduction;
    /// lines of the right operand go on from group to group, and padding is zero.
    fn element(&self, operand: usize, line: usize, place: usize) -> f32 {
        if !self.is_reduction() {
            return number(1 + operand, line * REDUCTION + place);
        }
        let rows = SPLITS.get(place / BLOCK).copied().unwrap_or(0);
        if place % BLOCK < rows { number(1 + operand, line * PADDED_ROWS + place) } else { 0.0 }
    }

    /// An operand's map of data and, if it has any, of scales, and where its scales lie.
    fn operand(
        &self,
        machine: &mut Machine,
        operand: usize,
    ) -> Result<(TensorMap, TensorMap, OperandScales), String> {
        let (reduction, groups, columns) = (self.is_reduction(), SPLITS.len(), self.columns);
        let length = if reduction { PADDED_ROWS } else { REDUCTION };
        let lines = match (operand, reduction) {
            (0, false) => ROWS,
            (0, true) => GRADIENT_ROWS,
            (_, false) => groups * columns,
            (_, true) => columns,
        };
        let dtype = if operand == 0 { self.product.a } else { ElementType::E4m3 };
        let elements = (0..lines).flat_map(|line| (0..length).map(move |place| (line, place)));
        let data: Vec<u8> = elements
            .map(|(line, place)| self.element(operand, line, place))
            .map(|value| match dtype {
                ElementType::E5m2 => E5m2::from_f32(value).0,
                _ => E4m3::from_f32(value).0,
            })
            .collect();
        let address = place(machine, &data)?;
        let tile = self.kernel.tile;
        let extents = if operand == 1 && !reduction {
            vec![length, columns, groups]
        } else {
            vec![length, lines]
        };
        let box_lines = if operand == 0 { tile.m } else { tile.n };
        let data_box = [BLOCK as u32, box_lines.min(blackwell::most_rows(self.kernel))];
        let data_map = map(self.kernel, TensorDataType::U8, address, &extents, data_box)?;

        let weights = operand == 1 && !reduction;
        let scaling = self.product.scaling;
        let blocks = if operand == 0 { scaling.a } else { scaling.b };
        let of_group = if weights { columns } else { lines };
        let stages = length.div_ceil(BLOCK);
        let scales = match blocks {
            Blocks::Tensor => return Ok((data_map, NO_MAP, OperandScales::default())),
            Blocks::Vector => Scales {
                outer: stages,
                pitch: of_group.next_multiple_of(4),
                groups: if weights { groups } else { 1 },
            },
            // Tokens are padded where 128 of them share a scale.
            Blocks::Square => Scales {
                outer: match (operand, reduction) {
                    (0, false) => groups,
                    _ => of_group.div_ceil(BLOCK),
                },
                pitch: stages.next_multiple_of(4),
                groups: if weights { groups } else { 1 },
            },
        };
        let Scales { outer, pitch, groups } = scales;
        let ones = vec![1f32; outer * pitch * groups];
        let scale_inv = place(machine, cast_slice(&ones))?;
        let scale_box = if operand == 0 { A_SCALE_BOX } else { B_SCALE_BOX };
        let scale_map = match blocks {
            Blocks::Vector => {
                let extents = [pitch, outer * groups];
                map(self.kernel, TensorDataType::F32, scale_inv, &extents, [scale_box, 1])?
            }
            _ => NO_MAP,
        };
        let group_pitch = if groups > 1 { outer * pitch } else { 0 };
        let layout = ScaleLayout { pitch: pitch as u64, group_pitch: group_pitch as u64 };
        Ok((data_map, scale_map, OperandScales { scale_inv, layout, line_scales: 0 }))
    }

    fn args(&self, machine: &mut Machine, output: u64) -> Result<ScaledGemmArgs, String> {
        let (columns, groups, reduction) = (self.columns, SPLITS.len(), self.is_reduction());
        let (a_map, a_scale_map, a_scales) = self.operand(machine, 0)?;
        let (b_map, b_scale_map, b_scales) = self.operand(machine, 1)?;
        let (mut bias, mut bias_row_scales) = (0, 0);
        if let Some(dtype) = self.bias {
            bias = place(machine, &bytes(dtype, (0..groups * columns).map(|i| number(4, i))))?;
            // One factor per row of the output, counted from the group's first token.
            let factors = if reduction { SPLITS[0] + GRADIENT_ROWS } else { ROWS };
            let factors = bytes(ElementType::F32, (0..factors).map(|i| number(5, i)));
            bias_row_scales = place(machine, &factors)?;
        }
        let gemm = GemmArgs {
            a_map,
            b_map,
            d_map: NO_MAP,
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
            ragged: reduction.into(),
            m: if reduction { GRADIENT_ROWS as u32 } else { 0 },
            n: columns as u32,
            k: if reduction { 0 } else { REDUCTION as u32 },
            d_type: self.output as u32,
            bias_type: self.bias.map_or(0, |dtype| dtype as u32),
            row_scale_factor: 0.0,
            row_scales: 0,
            has_d_map: 0,
            has_feature_blocks: 0,
            lends_stages: 0,
            reserved: 0,
        };
        Ok(ScaledGemmArgs { gemm, a_scale_map, b_scale_map, a_scales, b_scales })
    }

    /// The group table, of an output at this address.
    fn table(&self, output: u64) -> Vec<u8> {
        let layout = GroupTable::layout(SPLITS.len() as u32);
        let mut table = vec![0u8; layout.bytes];
        let mut put = |at: usize, bytes: &[u8]| table[at..at + bytes.len()].copy_from_slice(bytes);
        let beta = if self.accumulates { 1f32 } else { 0.0 };
        let mut tiles = 0u32;
        for group in 0..=SPLITS.len() {
            let row = Self::first_row(group);
            put(layout.row_offsets + 8 * group, &(row as u64).to_le_bytes());
            put(layout.padded_offsets + 8 * group, &((group * BLOCK) as u64).to_le_bytes());
            put(layout.tile_prefix + 4 * group, &tiles.to_le_bytes());
            let (Some(&rows), Some(alpha)) = (SPLITS.get(group), ALPHA.get(group)) else { break };
            put(layout.order + 4 * group, &((SPLITS.len() - 1 - group) as u32).to_le_bytes());
            let (m, k, first) = if self.is_reduction() {
                (GRADIENT_ROWS, rows, group * GRADIENT_ROWS)
            } else {
                (rows, REDUCTION, row)
            };
            let address = output + (first * self.columns * size(self.output)) as u64;
            put(layout.d_pointers + 8 * group, &address.to_le_bytes());
            put(layout.m + 4 * group, &(m as u32).to_le_bytes());
            put(layout.n + 4 * group, &(self.columns as u32).to_le_bytes());
            put(layout.k + 4 * group, &(k as u32).to_le_bytes());
            put(layout.alpha + 4 * group, &alpha.to_le_bytes());
            put(layout.beta + 4 * group, &beta.to_le_bytes());
            let tile = self.kernel.tile;
            tiles += (m as u32).div_ceil(tile.m) * (self.columns as u32).div_ceil(tile.n);
        }
        table
    }

    /// The output, from its definition. All sums are of whole numbers, and exact.
    fn expected(&self, former: &[f32]) -> Vec<f32> {
        let columns = self.columns;
        let mut all = Vec::new();
        for (group, &rows) in SPLITS.iter().enumerate() {
            let (first, reduction) = (Self::first_row(group), self.is_reduction());
            let live = if reduction { GRADIENT_ROWS } else { rows };
            for (row, column) in (0..live).flat_map(|row| (0..columns).map(move |c| (row, c))) {
                let product: f32 = if reduction {
                    let places = group * BLOCK..group * BLOCK + rows;
                    places.map(|t| self.element(0, row, t) * self.element(1, column, t)).sum()
                } else {
                    let (left, right) = (first + row, group * columns + column);
                    let places = 0..REDUCTION;
                    places.map(|k| self.element(0, left, k) * self.element(1, right, k)).sum()
                };
                let mut value = ALPHA[group] * product;
                if self.bias.is_some() {
                    // The product of whole numbers is exact, so that this is the fused sum.
                    value += number(5, first + row) * number(4, group * columns + column);
                }
                if self.accumulates {
                    value += former[all.len()];
                }
                all.push(value);
            }
        }
        all
    }
}
