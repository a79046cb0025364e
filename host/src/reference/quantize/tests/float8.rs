//! FP8: one scale for each group, for blocks of 128, and MXFP8.

use super::*;
use crate::numerics::scale::scale_inverse;
use crate::numerics::{E4m3, E5m2, Float8Format};
use crate::reference::quantize::{BlockShape, ScaleOrder, block, mxfp8, per_tensor};

const UNTOUCHED: u8 = 0xaa;
const COLUMNS: [usize; 3] = [32, 160, 288];

fn code(format: Float8Format, value: f32) -> u8 {
    match format {
        Float8Format::E4m3 => E4m3::from_f32(value).0,
        Float8Format::E5m2 => E5m2::from_f32(value).0,
    }
}

fn value_of(format: Float8Format, code: u8) -> f32 {
    match format {
        Float8Format::E4m3 => E4m3(code).to_f32(),
        Float8Format::E5m2 => E5m2(code).to_f32(),
    }
}

/// The data of a copy, transposed where it is columnwise, of elements with these scales.
fn want_data(
    source: &Source,
    format: Float8Format,
    direction: Direction,
    scale: impl Fn(usize, usize, usize) -> f32,
) -> Vec<Option<u8>> {
    let transposed = direction == Direction::Columnwise;
    let len = if transposed { source.transposed_len() } else { source.rows * source.columns };
    let mut want = vec![None; len];
    if transposed {
        for (index, group) in source.groups.iter().enumerate() {
            for row in 0..source.line_length(group) {
                for column in 0..source.columns {
                    want[source.transposed(index, row, column)] = Some(0);
                }
            }
        }
    }
    for (index, row, column) in source.elements() {
        let group = &source.groups[index];
        let place = match direction {
            Direction::Rowwise => (group.first + row) * source.columns + column,
            Direction::Columnwise => source.transposed(index, row, column),
        };
        let value = source.at(group, row, column) * scale(index, row, column);
        want[place] = Some(code(format, value));
    }
    want
}

/// What a copy is restored to: each element by its code and its factor, zeros in padding.
fn assert_restored(
    source: &Source,
    format: Float8Format,
    direction: Direction,
    data: &[Option<u8>],
    factor: impl Fn(usize, usize, usize) -> f32,
    restored: &[f32],
) {
    let mut want: Vec<_> = data.iter().map(|code| code.map(|_| 0.0)).collect();
    for (index, row, column) in source.elements() {
        let place = match direction {
            Direction::Rowwise => (source.groups[index].first + row) * source.columns + column,
            Direction::Columnwise => source.transposed(index, row, column),
        };
        let value = value_of(format, data[place].unwrap());
        want[place] = Some(value * factor(index, row, column));
    }
    assert_written("restored", restored, &want, -7.0);
}

#[test]
fn per_tensor_scales_are_of_groups() {
    for source in Source::all(&COLUMNS) {
        let amax = per_tensor::amax(&source.layout, &source.values).unwrap();
        let whole = (usize::MAX / 2, usize::MAX / 2);
        let want: Vec<_> =
            source.groups.iter().map(|group| source.block_amax(group, (0, 0), whole)).collect();
        assert_eq!(amax, want);
        for (format, direction) in
            [Float8Format::E4m3, Float8Format::E5m2].into_iter().zip(directions())
        {
            let rule = Fp8ScaleRule::new(format.max(), ScaleKind::Fp32);
            let scales: Vec<_> = amax.iter().map(|&amax| rule.scale(amax)).collect();
            let inverses: Vec<_> = scales.iter().map(|&scale| scale_inverse(scale)).collect();
            let want = want_data(&source, format, direction, |index, _, _| scales[index]);
            assert_eq!(source.layout.data_len(direction), want.len());
            let mut data = vec![UNTOUCHED; want.len()];
            let (layout, values) = (&source.layout, &source.values);
            per_tensor::quantize(layout, values, format, &scales, direction, &mut data).unwrap();
            assert_written("data", &data, &want, UNTOUCHED);
            let mut restored = vec![-7.0; want.len()];
            per_tensor::dequantize(layout, &data, format, &inverses, direction, &mut restored)
                .unwrap();
            let inverse = |index: usize, _, _| inverses[index];
            assert_restored(&source, format, direction, &want, inverse, &restored);
        }
    }
}

/// Where the scale of an element lies, and the length of the array.
fn block_scale_place(
    source: &Source,
    shape: BlockShape,
    direction: Direction,
    (index, row, column): (usize, usize, usize),
) -> (usize, usize) {
    let group = source.groups.get(index).copied();
    let group = group.unwrap_or(Group { first: 0, rows: 0, padded_first: 0 });
    let column_blocks = source.columns.div_ceil(128);
    let row_block = row / 128;
    let (i, j, outer, inner) = match (shape, direction) {
        (BlockShape::Line, Direction::Rowwise) => match source.weights {
            None => (column / 128, group.first + row, column_blocks, source.rows),
            Some(rows) => (column / 128, row, column_blocks, rows),
        },
        (BlockShape::Line, Direction::Columnwise) => match source.weights {
            None => {
                let first = group.padded_first / 128;
                (first + row_block, column, source.padded_rows / 128, source.columns)
            }
            Some(rows) => (row_block, column, rows.div_ceil(128), source.columns),
        },
        (BlockShape::Square, direction) => {
            let (first, blocks) = match source.weights {
                None => (group.padded_first / 128, source.padded_rows / 128),
                Some(rows) => (0, rows.div_ceil(128)),
            };
            match direction {
                Direction::Rowwise => (first + row_block, column / 128, blocks, column_blocks),
                Direction::Columnwise => (column / 128, first + row_block, column_blocks, blocks),
            }
        }
    };
    let matrix = outer * up(inner, 4);
    match source.weights {
        None => (i * up(inner, 4) + j, matrix),
        Some(_) => (index * matrix + i * up(inner, 4) + j, matrix * source.groups.len()),
    }
}

#[test]
fn scales_of_blocks_of_128() {
    for source in Source::all(&COLUMNS) {
        for direction in directions() {
            for shape in [BlockShape::Line, BlockShape::Square] {
                check_blocks(&source, shape, direction);
            }
        }
    }
}

fn check_blocks(source: &Source, shape: BlockShape, direction: Direction) {
    let format = Float8Format::E4m3;
    let rule = power_of_two_rule(E4m3::MAX);
    let recipe = block::Recipe { format, rule, shape };
    let size = match (shape, direction) {
        (BlockShape::Square, _) => (128, 128),
        (BlockShape::Line, Direction::Rowwise) => (1, 128),
        (BlockShape::Line, Direction::Columnwise) => (128, 1),
    };
    let scale = |index: usize, row: usize, column: usize| {
        rule.scale(source.block_amax(&source.groups[index], (row, column), size))
    };
    // Filled block by block, which the amax of every element would take too long for.
    let (_, len) = block_scale_place(source, shape, direction, (0, 0, 0));
    let mut want_scales: Vec<Option<f32>> = vec![None; len];
    let mut scales = std::collections::HashMap::new();
    for (index, group) in source.groups.iter().enumerate() {
        for row in (0..group.rows).step_by(size.0) {
            for column in (0..source.columns).step_by(size.1) {
                let scale = scale(index, row, column);
                scales.insert((index, row / size.0, column / size.1), scale);
                let place = block_scale_place(source, shape, direction, (index, row, column)).0;
                assert_eq!(want_scales[place].replace(1.0 / scale), None, "two at one place");
            }
        }
    }
    let scale = |index, row: usize, column: usize| scales[&(index, row / size.0, column / size.1)];
    let want = want_data(source, format, direction, scale);

    let layout = &source.layout;
    assert_eq!(block::scale_len(layout, shape, direction), len);
    let mut data = vec![UNTOUCHED; want.len()];
    let mut got_scales = vec![-1.0; len];
    block::quantize(layout, &source.values, &recipe, direction, &mut data, &mut got_scales)
        .unwrap();
    let what = format!("{shape:?} {direction:?}");
    assert_written(&what, &data, &want, UNTOUCHED);
    for (index, (got, want)) in got_scales.iter().zip(&want_scales).enumerate() {
        // Padding of a group's scales is zero; what belongs to no group is not written.
        let padding = want.is_none() && *got == 0.0;
        assert!(padding || *got == want.unwrap_or(-1.0), "{what}: scale {index} is {got}");
    }
    let zeros = got_scales.iter().filter(|&&scale| scale == 0.0).count();
    assert_eq!(zeros, padding_of_blocks(source, shape, direction), "{what}");

    let mut restored = vec![-7.0; want.len()];
    block::dequantize(layout, &data, &got_scales, &recipe, direction, &mut restored).unwrap();
    let factor = |index, row, column| 1.0 / scale(index, row, column);
    assert_restored(source, format, direction, &want, factor, &restored);
}

/// Zeros that pad the scales of groups: lines of scales that are one group's alone are filled up.
fn padding_of_blocks(source: &Source, shape: BlockShape, direction: Direction) -> usize {
    let pad = |length: usize| up(length, 4) - length;
    let column_blocks = source.columns.div_ceil(128);
    let groups = source.groups.iter().filter(|group| group.rows > 0);
    let of_group = |group: &Group| match (shape, direction) {
        (BlockShape::Line, Direction::Rowwise) => {
            source.weights.map_or(0, |rows| column_blocks * pad(rows))
        }
        (BlockShape::Line, Direction::Columnwise) => group.rows.div_ceil(128) * pad(source.columns),
        (BlockShape::Square, Direction::Rowwise) => group.rows.div_ceil(128) * pad(column_blocks),
        (BlockShape::Square, Direction::Columnwise) => {
            source.weights.map_or(0, |rows| column_blocks * pad(rows.div_ceil(128)))
        }
    };
    groups.map(of_group).sum()
}

#[test]
fn exponents_of_blocks_of_32() {
    for source in Source::all(&COLUMNS) {
        for direction in directions() {
            for shape in [BlockShape::Line, BlockShape::Square] {
                for order in [ScaleOrder::Compact, ScaleOrder::Swizzled] {
                    check_mxfp8(&source, shape, order, direction);
                }
            }
        }
    }
}

fn check_mxfp8(source: &Source, shape: BlockShape, order: ScaleOrder, direction: Direction) {
    let format = Float8Format::E5m2;
    let recipe = mxfp8::Recipe { format, shape, order };
    let columns = source.columns;
    let rowwise = direction == Direction::Rowwise;
    let line = if rowwise { (1, 32) } else { (32, 1) };
    let size = if shape == BlockShape::Square { (32, 32) } else { line };
    // [padded rows, column blocks] or [row blocks, padded columns], group after group.
    let (pitch, side) = if rowwise { (up(columns / 32, 4), 1) } else { (up(columns, 128), 32) };
    let mut want_scales = vec![None; source.padded_rows / side * pitch];
    let mut factors = vec![0.0; source.rows * columns];
    for group in &source.groups {
        let base = group.padded_first / side * pitch;
        let rows = group.padded_rows() / side;
        want_scales[base..base + rows * pitch].fill(Some(0));
        for row in (0..group.rows).step_by(line.0) {
            for column in (0..columns).step_by(line.1) {
                let amax = source.block_amax(group, (row, column), size);
                let exponent = crate::numerics::scale::mxfp8_exponent(amax, format.max());
                let (i, j) = (row / line.0, column / line.1);
                let place = match (order, rowwise) {
                    (ScaleOrder::Compact, _) => i * pitch + j,
                    (ScaleOrder::Swizzled, true) => swizzled(i, j, pitch / 4),
                    (ScaleOrder::Swizzled, false) => swizzled(j, i, rows / 4),
                };
                assert_eq!(want_scales[base + place].replace(exponent.0), Some(0));
                for row in row..(row + line.0).min(group.rows) {
                    let first = (group.first + row) * columns + column;
                    factors[first..first + line.1].fill(exponent.reciprocal());
                }
            }
        }
    }
    let first_of = |index: usize, row: usize| (source.groups[index].first + row) * columns;
    let scale = |index, row, column| factors[first_of(index, row) + column];
    let want = want_data(source, format, Direction::Rowwise, scale);

    let layout = &source.layout;
    assert_eq!(mxfp8::scale_len(layout, &recipe, direction), want_scales.len());
    let mut data = vec![UNTOUCHED; want.len()];
    let mut scales = vec![UNTOUCHED; want_scales.len()];
    mxfp8::quantize(layout, &source.values, &recipe, direction, &mut data, &mut scales).unwrap();
    let what = format!("{shape:?} {order:?} {direction:?}");
    assert_written(&what, &data, &want, UNTOUCHED);
    assert_written(&what, &scales, &want_scales, UNTOUCHED);
    let mut restored = vec![-7.0; want.len()];
    mxfp8::dequantize(layout, &data, &scales, &recipe, direction, &mut restored).unwrap();
    let factor = |index, row, column| 1.0 / scale(index, row, column);
    assert_restored(source, format, Direction::Rowwise, &want, factor, &restored);
}

/// Bit by bit: the lowest two bits of the block, two of the row within 128, the lowest five of the
/// row, then the tile.
pub(super) fn swizzled(row: usize, block: usize, tiles: usize) -> usize {
    let tile = (row >> 7) * tiles + (block >> 2);
    tile << 9 | (row & 31) << 4 | (row >> 5 & 3) << 2 | block & 3
}

#[test]
fn swizzled_places_that_are_known() {
    use crate::reference::quantize::scales;
    // row, block along the contraction, place where two tiles stand along the contraction
    let cases = [
        (0, 0, 0),
        (1, 0, 16),
        (32, 0, 4),
        (0, 1, 1),
        (127, 3, 511),
        (0, 4, 512),
        (128, 0, 1024),
        (200, 6, 1674),
        (37, 2, 86),
        (130, 5, 1569),
    ];
    for (row, block, place) in cases {
        assert_eq!(scales::swizzled(row, block, 2), place);
        assert_eq!(swizzled(row, block, 2), place);
    }
}
