//! The quantizers, byte for byte, and products of what they restore.

use grouped_linear::numerics::scale::{Fp8ScaleRule, ScaleKind, scale_inverse};
use grouped_linear::numerics::{Direction, E4m3, E5m2, Float8Format};
use grouped_linear::reference::plain::{self, Groups};
use grouped_linear::reference::quantize::{BlockShape, Layout, block, per_tensor};
use half::bf16;
use libtest_mimic::Trial;

use super::{GROUPS, K, N, ROWS, array, bf16s, row_offsets, splits};

const FORMATS: [(Float8Format, &str); 2] =
    [(Float8Format::E4m3, "e4m3"), (Float8Format::E5m2, "e5m2")];
const DIRECTIONS: [Direction; 2] = [Direction::Rowwise, Direction::Columnwise];

pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, run: fn()| {
        Trial::test(format!("quantizers: {name}"), move || {
            run();
            Ok(())
        })
    };
    vec![
        trial("every BF16 number becomes the code of TransformerEngine", casts),
        trial("one scale per tensor", current_scaling),
        trial("scales of blocks", blocks),
        trial("the layer with one scale per tensor is the product of restored operands", || {
            check_layer("current")
        }),
        trial("the layer with scales of blocks is the product of restored operands", || {
            check_layer("block")
        }),
    ]
}

fn f32s(name: &str) -> Vec<f32> {
    let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    array(name).chunks_exact(4).map(value).collect()
}

/// A BF16 array, as numbers.
fn values(name: &str) -> Vec<f32> {
    bf16s(name).into_iter().map(f32::from).collect()
}

fn casts() {
    for (format, name) in FORMATS {
        let want = array(&format!("q.casttable.{name}"));
        assert_eq!(want.len(), 1 << 16);
        for (bits, want) in (0..=u16::MAX).zip(want) {
            let value = bf16::from_bits(bits).to_f32();
            let code = match format {
                Float8Format::E4m3 => E4m3::from_f32(value).0,
                Float8Format::E5m2 => E5m2::from_f32(value).0,
            };
            assert_eq!(code, want, "{name} of BF16 pattern {bits:#06x}, {value:e}");
        }
    }
}

fn one_group() -> Layout {
    Layout::tokens(&[0, ROWS], ROWS, K).expect("a layout")
}

fn current_scaling() {
    let layout = one_group();
    for (format, name) in FORMATS {
        for source in ["x", "xedge"] {
            let stored = |what| format!("q.current.{name}.f32.{source}.{what}");
            let values = values(&format!("q.{source}"));
            let amax = per_tensor::amax(&layout, &values).expect("amax");
            let scale = Fp8ScaleRule::new(format.max(), ScaleKind::Fp32).scale(amax[0]);
            assert_eq!([scale_inverse(scale)][..], f32s(&stored("scale_inv")), "{name} {source}");
            let want = array(&stored("data"));
            for direction in DIRECTIONS {
                let mut data = vec![0xaa; want.len()];
                per_tensor::quantize(&layout, &values, format, &[scale], direction, &mut data)
                    .expect("codes");
                let want = match direction {
                    Direction::Rowwise => want.clone(),
                    Direction::Columnwise => transpose(&want),
                };
                assert!(data == want, "{name} {source} {direction:?}");
            }
        }
    }
}

fn transpose(data: &[u8]) -> Vec<u8> {
    (0..ROWS * K).map(|index| data[index % ROWS * K + index / ROWS]).collect()
}

/// The rule of the recorded recipes; the largest BF16 number is the ceiling of their scales.
fn block_recipe(shape: BlockShape) -> block::Recipe {
    let ceiling = bf16::MAX.to_f32();
    let rule = Fp8ScaleRule { ceiling, ..Fp8ScaleRule::new(E4m3::MAX, ScaleKind::PowerOfTwo) };
    block::Recipe { format: Float8Format::E4m3, rule, shape }
}

fn blocks() {
    let layout = one_group();
    let line = (BlockShape::Line, "block1x128");
    for ((shape, name), source) in
        [(line, "x"), (line, "xedge"), ((BlockShape::Square, "block128x128"), "x")]
    {
        let values = values(&format!("q.{source}"));
        for (direction, side) in DIRECTIONS.into_iter().zip(["row", "col"]) {
            let stored = |what| format!("q.{name}.e4m3.pow2.{source}.{side}_{what}");
            let (want, want_scales) = (array(&stored("data")), f32s(&stored("scale_inv")));
            let mut data = vec![0xaa; layout.data_len(direction)];
            let mut scales = vec![-1.0; block::scale_len(&layout, shape, direction)];
            let recipe = block_recipe(shape);
            block::quantize(&layout, &values, &recipe, direction, &mut data, &mut scales)
                .expect("codes");
            assert!(data == want, "{name} {source} {side}: data");
            // The recording pads lines of 3 or 2 scales to 4 with what was in memory.
            let live = match (shape, direction) {
                (BlockShape::Line, _) => usize::MAX,
                (BlockShape::Square, Direction::Rowwise) => K / 128,
                (BlockShape::Square, Direction::Columnwise) => ROWS / 128,
            };
            assert_eq!(scales.len(), want_scales.len(), "{name} {source} {side}: scales");
            for (index, (scale, want)) in scales.iter().zip(want_scales).enumerate() {
                if live == usize::MAX || index % 4 < live {
                    assert_eq!(*scale, want, "{name} {source} {side}: scale {index}");
                }
            }
        }
    }
}

/// An operand of a recorded layer: its layout, its values and how it is quantized.
struct Operand {
    layout: Layout,
    values: Vec<f32>,
    format: Float8Format,
    shape: Option<BlockShape>,
}

impl Operand {
    /// Quantizes and restores; the result lies as the copy does.
    fn restored(&self, direction: Direction) -> Vec<f64> {
        let (layout, values) = (&self.layout, &self.values);
        let len = layout.data_len(direction);
        let (mut data, mut restored) = (vec![0; len], vec![0.0; len]);
        if let Some(shape) = self.shape {
            let recipe = block_recipe(shape);
            let mut scales = vec![0.0; block::scale_len(layout, shape, direction)];
            block::quantize(layout, values, &recipe, direction, &mut data, &mut scales)
                .expect("codes");
            block::dequantize(layout, &data, &scales, &recipe, direction, &mut restored)
                .expect("values");
        } else {
            let rule = Fp8ScaleRule::new(self.format.max(), ScaleKind::Fp32);
            let amax = per_tensor::amax(layout, values).expect("amax");
            let scales: Vec<_> = amax.into_iter().map(|amax| rule.scale(amax)).collect();
            let inverses: Vec<_> = scales.iter().map(|&scale| scale_inverse(scale)).collect();
            per_tensor::quantize(layout, values, self.format, &scales, direction, &mut data)
                .expect("codes");
            let format = self.format;
            per_tensor::dequantize(layout, &data, format, &inverses, direction, &mut restored)
                .expect("values");
        }
        restored.into_iter().map(f64::from).collect()
    }

    /// The columnwise copy of tokens, `[padded rows, columns]` again.
    fn restored_columns(&self, columns: usize) -> Vec<f64> {
        let restored = self.restored(Direction::Columnwise);
        let rows = self.layout.transposed_pitch();
        (0..rows * columns).map(|i| restored[i % columns * rows + i / columns]).collect()
    }
}

/// Exact products of restored operands differ from what was recorded by the rounding to BF16 alone.
fn check_layer(recipe: &str) {
    let splits = splits(&format!("g.{recipe}.splits"));
    let offsets = row_offsets(&splits);
    let tokens = |columns| Layout::tokens(&offsets, ROWS, columns).expect("a layout");
    let is_block = recipe == "block";
    let shape = |shape| is_block.then_some(shape);
    let gradients = if is_block { Float8Format::E4m3 } else { Float8Format::E5m2 };
    let operand =
        |layout, name, format, shape| Operand { layout, values: values(name), format, shape };
    let x = operand(tokens(K), "q.x", Float8Format::E4m3, shape(BlockShape::Line));
    let dy = operand(tokens(N), "g.dy", gradients, shape(BlockShape::Line));
    let weights = Layout::weights(GROUPS, N, K).expect("a layout");
    let w = operand(weights, "g.w", Float8Format::E4m3, shape(BlockShape::Square));

    let groups = Groups { row_offsets: &offsets, out_features: N, in_features: K };
    let bias = values("g.b");
    let mut y = vec![0.0; ROWS * N];
    let rowwise = Direction::Rowwise;
    plain::fprop(&groups, &x.restored(rowwise), &w.restored(rowwise), &mut y).expect("y");
    for (group, rows) in offsets.windows(2).enumerate() {
        for row in rows[0]..rows[1] {
            for column in 0..N {
                y[row * N + column] += f64::from(bias[group * N + column]);
            }
        }
    }
    check_norm(&format!("g.{recipe}.y"), &y);

    // The columnwise copy of the weights is [groups, K, N].
    let transposed = w.restored(Direction::Columnwise);
    let columnwise: Vec<_> = (0..GROUPS * N * K)
        .map(|i| transposed[(i / (N * K) * K + i % K) * N + i / K % N])
        .collect();
    let mut dx = vec![0.0; ROWS * K];
    plain::dgrad(&groups, &dy.restored(rowwise), &columnwise, &mut dx).expect("dx");
    check_norm(&format!("g.{recipe}.dx"), &dx);

    // Groups begin at multiples of 128 there, and zeros fill them up.
    let padded: Vec<_> = splits.iter().map(|rows| rows.next_multiple_of(128)).collect();
    let groups = Groups { row_offsets: &row_offsets(&padded), ..groups };
    let mut dw = vec![0.0; GROUPS * N * K];
    plain::wgrad(&groups, &dy.restored_columns(N), &x.restored_columns(K), &mut dw).expect("dw");
    check_norm(&format!("g.{recipe}.dw"), &dw);
}

fn check_norm(name: &str, got: &[f64]) {
    let want = values(name);
    assert_eq!(got.len(), want.len(), "{name}");
    let square = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|n| n * n).sum::<f64>();
    let difference = square(&mut got.iter().zip(&want).map(|(got, want)| got - f64::from(*want)));
    let error = (difference / square(&mut got.iter().copied())).sqrt();
    println!("{name}: relative error {error:.3e}");
    assert!(error < 1.75e-3, "{name}: relative error {error:e}");
}
