//! NVFP4.

use super::float8::swizzled;
use super::*;
use crate::numerics::hadamard::transform_bf16;
use crate::numerics::philox::StochasticBits;
use crate::numerics::scale::{ScaleBound, TensorScale};
use crate::numerics::{E2m1, E4m3};
use crate::reference::quantize::nvfp4::{
    ErrorMeasure, Recipe, Rounding, Scope, Target, Transform, amax, dequantize, quantize, scale_len,
};
use crate::reference::quantize::{BlockShape, ScaleOrder};

const UNTOUCHED: u8 = 0xaa;
const COLUMNS: [usize; 2] = [16, 208];

/// What a copy must be.
struct Want {
    /// FP32 largest magnitudes of groups.
    amax: Vec<f32>,
    /// Codes, one in each byte.
    codes: Vec<Option<u8>>,
    scales: Vec<Option<u8>>,
    /// By what codes are multiplied to restore values.
    factors: Vec<f32>,
}

/// One block scale for each block, without the choice of four.
fn want(source: &Source, recipe: &Recipe, direction: Direction) -> Want {
    let columns = source.columns;
    let rowwise = direction == Direction::Rowwise;
    let line = if rowwise { (1, 16) } else { (16, 1) };
    let size = if recipe.shape == BlockShape::Square { (16, 16) } else { line };
    let codes = if rowwise { source.rows * columns } else { source.transposed_len() };
    let scales = match direction {
        Direction::Rowwise => source.padded_rows * up(columns / 16, 4),
        Direction::Columnwise => source.padded_rows / 16 * up(columns, 128),
    };
    let mut want = Want {
        amax: Vec::new(),
        codes: vec![None; codes],
        scales: vec![None; scales],
        factors: vec![0.0; codes],
    };
    for (index, group) in source.groups.iter().enumerate() {
        let whole = (usize::MAX / 2, usize::MAX / 2);
        let tensor_amax = source.block_amax(group, (0, 0), whole);
        want.amax.push(tensor_amax);
        let padded = group.padded_rows();
        // Rowwise [padded rows, column blocks], columnwise [padded columns, row blocks].
        let (base, lines, pitch) = match direction {
            Direction::Rowwise => {
                (group.padded_first * up(columns / 16, 4), padded, up(columns / 16, 4))
            }
            Direction::Columnwise => {
                (group.padded_first / 16 * up(columns, 128), up(columns, 128), padded / 16)
            }
        };
        want.scales[base..base + lines * pitch].fill(Some(0));
        if !rowwise {
            for row in 0..source.line_length(group) {
                for column in 0..columns {
                    want.codes[source.transposed(index, row, column)] = Some(0);
                }
            }
        }
        let tensor_scale = TensorScale::new(tensor_amax, ScaleBound::Full);
        for row in 0..group.rows {
            for column in 0..columns {
                let block_amax = source.block_amax(group, (row, column), size);
                let scale = tensor_scale.block_scale(block_amax);
                let (i, j) = if rowwise { (row, column / 16) } else { (column, row / 16) };
                let place = match recipe.order {
                    ScaleOrder::Compact => i * pitch + j,
                    ScaleOrder::Swizzled => swizzled(i, j, pitch / 4),
                };
                want.scales[base + place] = Some(scale.0);
                let place = match direction {
                    Direction::Rowwise => (group.first + row) * columns + column,
                    Direction::Columnwise => source.transposed(index, row, column),
                };
                let value = source.at(group, row, column) * tensor_scale.element_factor(scale);
                let code = match recipe.rounding {
                    Rounding::Nearest => E2m1::from_f32(value),
                    Rounding::Stochastic { seed, offset } => {
                        let bits = StochasticBits { seed, offset, direction };
                        let bits = bits.element(match direction {
                            Direction::Rowwise => Place::new(group.first, row, columns, column),
                            Direction::Columnwise => source.transposed_place(index, row, column),
                        });
                        E2m1::from_f32_stochastic(value, bits)
                    }
                };
                want.codes[place] = Some(code.0);
                want.factors[place] = tensor_scale.restoring_factor(scale);
            }
        }
    }
    want
}

/// Quantizes `source`, and compares with what is wanted of it, or of its transform.
fn check(source: &Source, recipe: &Recipe, direction: Direction, want: &Want) {
    let what = format!("{recipe:?} {direction:?}, {} columns", source.columns);
    let (layout, values) = (&source.layout, &source.values);
    let amax = amax(layout, values, recipe, direction).unwrap();
    assert_eq!(amax, want.amax, "{what}");
    assert_eq!(scale_len(layout, recipe, direction), want.scales.len(), "{what}");
    let mut data = vec![UNTOUCHED; want.codes.len().div_ceil(2)];
    let mut scales = vec![UNTOUCHED; want.scales.len()];
    quantize(layout, values, recipe, direction, &amax, &mut data, &mut scales).unwrap();
    let codes: Vec<_> = data.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect();
    assert_written(&what, &codes, &want.codes, UNTOUCHED & 15);
    assert_written(&what, &scales, &want.scales, UNTOUCHED);
    let mut restored = vec![-7.0; want.codes.len()];
    dequantize(layout, &data, &scales, recipe, direction, &amax, &mut restored).unwrap();
    let pairs = want.codes.iter().zip(&want.factors);
    let want: Vec<_> =
        pairs.map(|(code, factor)| code.map(|code| E2m1(code).to_f32() * factor)).collect();
    assert_written(&what, &restored, &want, -7.0);
}

#[test]
fn scales_of_blocks_of_16() {
    for source in Source::all(&COLUMNS) {
        for direction in directions() {
            for (shape, order) in [
                (BlockShape::Line, ScaleOrder::Compact),
                (BlockShape::Line, ScaleOrder::Swizzled),
                (BlockShape::Square, ScaleOrder::Compact),
            ] {
                let recipe = Recipe { shape, order, ..Recipe::NEAREST };
                check(&source, &recipe, direction, &want(&source, &recipe, direction));
            }
        }
    }
}

#[test]
fn random_bits_go_by_the_place_of_the_element() {
    let rounding = Rounding::Stochastic { seed: 0x1234_5678_9abc_def0, offset: 17 };
    let recipe = Recipe { rounding, ..Recipe::NEAREST };
    for source in Source::all(&COLUMNS) {
        for direction in directions() {
            check(&source, &recipe, direction, &want(&source, &recipe, direction));
        }
    }
}

#[test]
fn random_rounding_has_the_right_mean() {
    let mut source = Source::tokens(&Tokens { splits: &[48], first: 0, tail: 0 }, 64);
    // All blocks have the same largest value, whose scale is exact, so that nothing saturates.
    for (index, value) in source.values.iter_mut().enumerate() {
        *value = if index % 16 == 0 { 96.0 } else { (index * 37 % 191) as f32 - 95.0 };
    }
    let nearest = restore(&source, &Recipe::NEAREST);
    let count = 400;
    let mut sums = vec![0.0; source.values.len()];
    for offset in 0..count {
        let rounding = Rounding::Stochastic { seed: 3, offset };
        let restored = restore(&source, &Recipe { rounding, ..Recipe::NEAREST });
        sums.iter_mut().zip(restored).for_each(|(sum, value)| *sum += f64::from(value));
    }
    let error = |restored: &dyn Fn(usize) -> f64| {
        let square = |i: usize| (restored(i) - f64::from(source.values[i])).powi(2);
        (0..source.values.len()).map(square).sum::<f64>().sqrt()
    };
    let of_nearest = error(&|i| f64::from(nearest[i]));
    let of_mean = error(&|i| sums[i] / count as f64);
    // The error of a mean falls with the root of the count; that of the nearest would stay.
    assert!(of_mean < of_nearest / 8.0, "{of_mean} {of_nearest}");
}

fn restore(source: &Source, recipe: &Recipe) -> Vec<f32> {
    let (layout, direction) = (&source.layout, Direction::Rowwise);
    let amax = amax(layout, &source.values, recipe, direction).unwrap();
    let mut data = vec![0; source.values.len() / 2];
    let mut scales = vec![0; scale_len(layout, recipe, direction)];
    quantize(layout, &source.values, recipe, direction, &amax, &mut data, &mut scales).unwrap();
    let mut restored = vec![0.0; source.values.len()];
    dequantize(layout, &data, &scales, recipe, direction, &amax, &mut restored).unwrap();
    restored
}

/// The transformed source, whose groups go on to a multiple of 16. Places stay what they were.
fn transformed(source: &Source) -> Source {
    let columns = source.columns;
    let (mut values, mut groups) = (Vec::new(), Vec::new());
    for group in &source.groups {
        let rows = up(group.rows, 16);
        groups.push(Group { first: values.len() / columns, rows, ..*group });
        for first in (0..rows).step_by(16) {
            let mut block = vec![0.0; 16 * columns];
            for column in 0..columns {
                let value =
                    |i| if first + i < group.rows { (group, first + i) } else { (group, 0) };
                let sixteen = std::array::from_fn(|i| {
                    let (group, row) = value(i);
                    if first + i < group.rows { source.at(group, row, column) } else { 0.0 }
                });
                for (i, mixed) in transform_bf16(&sixteen).into_iter().enumerate() {
                    block[i * columns + column] = mixed;
                }
            }
            values.extend(block);
        }
    }
    Source {
        layout: source.layout.clone(),
        rows: values.len() / columns,
        values,
        columns,
        groups,
        padded_rows: source.padded_rows,
        weights: source.weights,
    }
}

#[test]
fn columnwise_copies_are_those_of_the_transform() {
    let recipe = Recipe { transform: Transform::Hadamard, ..Recipe::NEAREST };
    for source in Source::all(&COLUMNS) {
        let want_columnwise = want(&transformed(&source), &recipe, Direction::Columnwise);
        check(&source, &recipe, Direction::Columnwise, &want_columnwise);
        check(&source, &recipe, Direction::Rowwise, &want(&source, &recipe, Direction::Rowwise));
    }
}

#[test]
fn rows_have_scales_of_their_own() {
    let recipe = Recipe { scope: Scope::Row, ..Recipe::NEAREST };
    for source in Source::all(&COLUMNS) {
        // The same as if each row were a group, but for the padding of block scales.
        let offsets: Vec<_> =
            (source.layout.live_rows().start..=source.layout.live_rows().end).collect();
        let rows = Layout::tokens(&offsets, source.rows, source.columns).unwrap();
        let direction = Direction::Rowwise;
        let amax_of_rows = amax(&rows, &source.values, &Recipe::NEAREST, direction).unwrap();
        let got = amax(&source.layout, &source.values, &recipe, direction).unwrap();
        assert_eq!(got.len(), source.rows);
        assert_eq!(got[source.layout.live_rows()], amax_of_rows[..]);
        let quantized = |layout: &Layout, recipe: &Recipe, amax: &[f32]| {
            let mut data = vec![UNTOUCHED; source.values.len() / 2];
            let mut scales = vec![UNTOUCHED; scale_len(layout, recipe, direction)];
            quantize(layout, &source.values, recipe, direction, amax, &mut data, &mut scales)
                .unwrap();
            let mut restored = vec![-7.0; source.values.len()];
            dequantize(layout, &data, &scales, recipe, direction, amax, &mut restored).unwrap();
            (data, restored)
        };
        let want = quantized(&rows, &Recipe::NEAREST, &amax_of_rows);
        assert_eq!(quantized(&source.layout, &recipe, &got), want);
    }
}

/// The error with which a block is restored, in FP64, for one scale.
fn block_error(values: &[f32], tensor: &TensorScale, scale: E4m3, error: ErrorMeasure) -> f64 {
    let of = |value: &f32| {
        let code = E2m1::from_f32(value * tensor.element_factor(scale));
        let restored = f64::from(code.to_f32()) * f64::from(tensor.restoring_factor(scale));
        let difference = restored - f64::from(*value);
        match error {
            ErrorMeasure::Absolute => difference.abs(),
            ErrorMeasure::Squared => difference * difference,
        }
    };
    values.iter().map(of).sum()
}

#[test]
fn four_over_six_takes_the_smaller_error() {
    for (error, bound) in
        [(ErrorMeasure::Absolute, ScaleBound::Reduced), (ErrorMeasure::Squared, ScaleBound::Full)]
    {
        for direction in directions() {
            for shape in [BlockShape::Line, BlockShape::Square] {
                let target = Target::FourOverSix { error, bound };
                check_choice(&Recipe { shape, target, ..Recipe::NEAREST }, error, direction);
            }
        }
    }
}

fn check_choice(recipe: &Recipe, error: ErrorMeasure, direction: Direction) {
    let source = Source::tokens(&Tokens { splits: &[96, 32], first: 0, tail: 0 }, 64);
    let (layout, values) = (&source.layout, &source.values);
    let amax = amax(layout, values, recipe, direction).unwrap();
    let mut data = vec![0; layout.data_len(direction).div_ceil(2)];
    let mut scales = vec![0; scale_len(layout, recipe, direction)];
    quantize(layout, values, recipe, direction, &amax, &mut data, &mut scales).unwrap();
    let size = match (recipe.shape, direction) {
        (BlockShape::Square, _) => (16, 16),
        (BlockShape::Line, Direction::Rowwise) => (1, 16),
        (BlockShape::Line, Direction::Columnwise) => (16, 1),
    };
    let mut chosen = [0, 0];
    for (index, group) in source.groups.iter().enumerate() {
        let tensor = TensorScale::new(amax[index], recipe.target.bound());
        for row in (0..group.rows).step_by(size.0) {
            for column in (0..source.columns).step_by(size.1) {
                let at = |i: usize| source.at(group, row + i / size.1, column + i % size.1);
                let block: Vec<_> = (0..size.0 * size.1).map(at).collect();
                let candidates =
                    tensor.block_scales_six_four(source.block_amax(group, (row, column), size));
                let errors = candidates.map(|scale| block_error(&block, &tensor, scale, error));
                // FP32, which rounds restored values, may decide otherwise where the errors are
                // nearly the same.
                let largest = block.iter().fold(0f32, |largest, value| largest.max(value.abs()));
                let margin = 1e-4 * errors[0] + 1e-6 * f64::from(largest);
                if (errors[0] - errors[1]).abs() < margin {
                    continue;
                }
                let choice = usize::from(errors[1] < errors[0]);
                chosen[choice] += 1;
                let place = match direction {
                    Direction::Rowwise => (group.padded_first + row) * 4 + column / 16,
                    Direction::Columnwise => {
                        let base = group.padded_first / 16 * up(source.columns, 128);
                        base + column * (group.padded_rows() / 16) + row / 16
                    }
                };
                assert_eq!(scales[place], candidates[choice].0, "{recipe:?} {direction:?}");
                let factor = tensor.element_factor(candidates[choice]);
                let place = match direction {
                    Direction::Rowwise => (group.first + row) * source.columns + column,
                    Direction::Columnwise => source.transposed(index, row, column),
                };
                let code = data[place / 2] >> (4 * (place % 2)) & 15;
                assert_eq!(code, E2m1::from_f32(block[0] * factor).0);
            }
        }
    }
    assert!(chosen[0] > 5 && chosen[1] > 5, "{chosen:?}");
}

#[test]
fn squares_have_the_same_values_in_both_copies() {
    let error = ErrorMeasure::Squared;
    for target in [Target::Six, Target::FourOverSix { error, bound: ScaleBound::Reduced }] {
        let recipe = Recipe { shape: BlockShape::Square, target, ..Recipe::NEAREST };
        for source in Source::all(&COLUMNS) {
            let [rowwise, columnwise] = directions().map(|direction| {
                let layout = &source.layout;
                let amax = amax(layout, &source.values, &recipe, direction).unwrap();
                let codes = layout.data_len(direction);
                let mut data = vec![0; codes.div_ceil(2)];
                let mut scales = vec![0; scale_len(layout, &recipe, direction)];
                quantize(layout, &source.values, &recipe, direction, &amax, &mut data, &mut scales)
                    .unwrap();
                let mut restored = vec![0.0; codes];
                dequantize(layout, &data, &scales, &recipe, direction, &amax, &mut restored)
                    .unwrap();
                restored
            });
            for (index, row, column) in source.elements() {
                let place = (source.groups[index].first + row) * source.columns + column;
                assert_eq!(rowwise[place], columnwise[source.transposed(index, row, column)]);
            }
        }
    }
}
