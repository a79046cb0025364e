//! What is refused, and numbers at the ends of the range.

use super::*;
use crate::numerics::{E4m3, Float8Format};
use crate::reference::quantize::nvfp4::{self, Rounding, Scope, Target, Transform};
use crate::reference::quantize::{BlockShape, ScaleOrder, block, mxfp8, per_tensor};

#[test]
fn layouts_that_cannot_be() {
    for (offsets, rows) in [(&[][..], 4), (&[0, 3, 2], 4), (&[0, 5], 4), (&[1, 0], 4)] {
        assert!(Layout::tokens(offsets, rows, 8).unwrap_err().is_invalid_argument(), "{offsets:?}");
    }
    let most = usize::MAX;
    assert!(Layout::tokens(&[0, 1], most, 1).is_err());
    assert!(Layout::tokens(&[0, 1], most / 2, 4).is_err());
    assert!(Layout::tokens(&[0, 1], 1, most).is_err());
    assert!(Layout::weights(most, 1, 1).is_err());
    assert!(Layout::weights(most, 0, 0).is_err());
    assert!(Layout::weights(1 << 61, 0, 16).is_err());
    assert!(Layout::weights(4096, 0, 16).is_ok());
    assert!(Layout::weights(4097, 0, 16).is_err());
    assert!(Layout::weights(1, most, 0).is_err());
    assert!(Layout::weights(1 << 40, 1 << 20, 1 << 10).is_err());
}

#[test]
fn slices_that_are_too_short() {
    let layout = Layout::tokens(&[0, 3], 3, 32).unwrap();
    let (values, format) = (vec![1.0; 96], Float8Format::E4m3);
    let recipe = block::Recipe { format, rule: power_of_two_rule(448.0), shape: BlockShape::Line };
    let mx = mxfp8::Recipe { format, shape: BlockShape::Line, order: ScaleOrder::Compact };
    let nv = nvfp4::Recipe::NEAREST;
    for direction in directions() {
        let codes = layout.data_len(direction);
        let mut data = vec![0; codes];
        let scales = block::scale_len(&layout, BlockShape::Line, direction);
        let mut f32s = vec![0.0; scales];
        let bytes = mxfp8::scale_len(&layout, &mx, direction);
        let nv_bytes = nvfp4::scale_len(&layout, &nv, direction);
        let mut exponents = vec![0; bytes.max(nv_bytes)];
        assert!(per_tensor::amax(&layout, &values[1..]).is_err());
        let quantize = |values: &[f32], scales: &[f32], data: &mut [u8]| {
            per_tensor::quantize(&layout, values, format, scales, direction, data)
        };
        quantize(&values, &[1.0], &mut data).unwrap();
        assert!(quantize(&values[1..], &[1.0], &mut data).is_err());
        assert!(quantize(&values, &[], &mut data).is_err());
        assert!(quantize(&values, &[1.0], &mut data[1..]).is_err());

        let quantize = |values: &[f32], data: &mut [u8], scales: &mut [f32]| {
            block::quantize(&layout, values, &recipe, direction, data, scales)
        };
        quantize(&values, &mut data, &mut f32s).unwrap();
        assert!(quantize(&values[1..], &mut data, &mut f32s).is_err());
        assert!(quantize(&values, &mut data[1..], &mut f32s).is_err());
        assert!(quantize(&values, &mut data, &mut f32s[1..]).is_err());

        let quantize = |values: &[f32], data: &mut [u8], scales: &mut [u8]| {
            mxfp8::quantize(&layout, values, &mx, direction, data, scales)
        };
        quantize(&values, &mut data[..96], &mut exponents[..bytes]).unwrap();
        assert!(quantize(&values[1..], &mut data[..96], &mut exponents[..bytes]).is_err());
        assert!(quantize(&values, &mut data[..95], &mut exponents[..bytes]).is_err());
        assert!(quantize(&values, &mut data[..96], &mut exponents[..bytes - 1]).is_err());

        let quantize = |values: &[f32], amax: &[f32], data: &mut [u8], scales: &mut [u8]| {
            nvfp4::quantize(&layout, values, &nv, direction, amax, data, scales)
        };
        let (half, nv_bytes) = (codes / 2, nv_bytes);
        quantize(&values, &[1.0], &mut data[..half], &mut exponents[..nv_bytes]).unwrap();
        assert!(quantize(&values, &[], &mut data[..half], &mut exponents[..nv_bytes]).is_err());
        assert!(quantize(&values[1..], &[1.0], &mut data, &mut exponents).is_err());
        assert!(quantize(&values, &[1.0], &mut data[..half - 1], &mut exponents).is_err());
        let short = &mut exponents[..nv_bytes - 1];
        assert!(quantize(&values, &[1.0], &mut data[..half], short).is_err());

        let mut restored = vec![0.0; codes];
        let dequantize = |data: &[u8], scales: &[f32], restored: &mut [f32]| {
            block::dequantize(&layout, data, scales, &recipe, direction, restored)
        };
        dequantize(&data, &f32s, &mut restored).unwrap();
        assert!(dequantize(&data[1..], &f32s, &mut restored).is_err());
        assert!(dequantize(&data, &f32s[1..], &mut restored).is_err());
        assert!(dequantize(&data, &f32s, &mut restored[1..]).is_err());
    }
}

#[test]
fn combinations_that_do_not_exist() {
    let layout = Layout::tokens(&[0, 3], 3, 32).unwrap();
    let values = vec![1.0; 96];
    let base = nvfp4::Recipe::NEAREST;
    let stochastic = Rounding::Stochastic { seed: 0, offset: 0 };
    let four = Target::FourOverSix {
        error: nvfp4::ErrorMeasure::Absolute,
        bound: crate::numerics::scale::ScaleBound::Full,
    };
    let refused = [
        nvfp4::Recipe { scope: Scope::Row, shape: BlockShape::Square, ..base },
        nvfp4::Recipe { scope: Scope::Row, rounding: stochastic, ..base },
        nvfp4::Recipe { scope: Scope::Row, transform: Transform::Hadamard, ..base },
        nvfp4::Recipe { target: four, rounding: stochastic, ..base },
        nvfp4::Recipe { target: four, transform: Transform::Hadamard, ..base },
        nvfp4::Recipe { shape: BlockShape::Square, transform: Transform::Hadamard, ..base },
    ];
    let error = |recipe: &nvfp4::Recipe, layout: &Layout, direction| {
        nvfp4::amax(layout, &values, recipe, direction).err()
    };
    for recipe in &refused {
        let error = error(recipe, &layout, Direction::Rowwise).unwrap();
        assert!(error.is_unsupported(), "{error}");
    }
    let row = nvfp4::Recipe { scope: Scope::Row, ..base };
    assert!(error(&row, &layout, Direction::Columnwise).unwrap().is_unsupported());
    assert!(error(&row, &layout, Direction::Rowwise).is_none());
    let columns = Layout::tokens(&[0, 3], 3, 24).unwrap();
    assert!(error(&base, &columns, Direction::Rowwise).unwrap().is_unsupported());
    let weights = Layout::weights(1, 3, 32).unwrap();
    assert!(error(&base, &weights, Direction::Columnwise).unwrap().is_unsupported());
    assert!(error(&base, &weights, Direction::Rowwise).is_none());
    let format = Float8Format::E4m3;
    let mx = mxfp8::Recipe { format, shape: BlockShape::Line, order: ScaleOrder::Compact };
    let refused =
        mxfp8::quantize(&columns, &values, &mx, Direction::Rowwise, &mut [0; 96], &mut [0; 1024]);
    assert!(refused.unwrap_err().is_unsupported());
}

#[test]
fn without_columns_there_is_nothing_to_do() {
    let layout = Layout::tokens(&[0, 300], 300, 0).unwrap();
    let (format, direction) = (Float8Format::E4m3, Direction::Columnwise);
    let recipe = block::Recipe { format, rule: power_of_two_rule(448.0), shape: BlockShape::Line };
    assert_eq!(per_tensor::amax(&layout, &[]).unwrap(), [0.0]);
    for direction in directions() {
        block::quantize(&layout, &[], &recipe, direction, &mut [], &mut []).unwrap();
        let nv = nvfp4::Recipe::NEAREST;
        nvfp4::quantize(&layout, &[], &nv, direction, &[0.0], &mut [], &mut []).unwrap();
    }
    let row = nvfp4::Recipe { scope: Scope::Row, ..nvfp4::Recipe::NEAREST };
    assert_eq!(nvfp4::amax(&layout, &[], &row, Direction::Rowwise).unwrap(), [0.0; 300]);
    per_tensor::quantize(&layout, &[], format, &[1.0], direction, &mut []).unwrap();
}

#[test]
fn nans_infinities_and_zeros() {
    let layout = Layout::tokens(&[0, 1], 1, 384).unwrap();
    let mut values = vec![0.0; 384];
    (values[0], values[1], values[2]) = (f32::NAN, 2.0, -1.0); // NaNs do not count
    (values[128], values[129]) = (f32::INFINITY, 3.0); // scale 1
    let (format, direction) = (Float8Format::E4m3, Direction::Rowwise);
    let rule = power_of_two_rule(448.0);
    let recipe = block::Recipe { format, rule, shape: BlockShape::Line };
    let (mut data, mut scales) = (vec![1; 384], vec![7.0; 12]);
    block::quantize(&layout, &values, &recipe, direction, &mut data, &mut scales).unwrap();
    assert_eq!([scales[0], scales[4], scales[8]], [1.0 / 128.0, 1.0, 1.0]);
    let code = |value| E4m3::from_f32(value).0;
    assert_eq!(data[..4], [0x7f, code(256.0), code(-128.0), 0]);
    assert_eq!(data[128..131], [code(448.0), code(3.0), 0]);

    let mx = mxfp8::Recipe { format, shape: BlockShape::Line, order: ScaleOrder::Compact };
    let mut exponents = vec![0; mxfp8::scale_len(&layout, &mx, direction)];
    mxfp8::quantize(&layout, &values, &mx, direction, &mut data, &mut exponents).unwrap();
    assert_eq!([exponents[0], exponents[1], exponents[4]], [120, 0, 254]);
    // An infinity stays one when it is scaled by 2⁻¹²⁷, and saturates; all else becomes zero.
    assert_eq!(data[..3], [0x7f, code(256.0), code(-128.0)]);
    assert_eq!(data[128..131], [code(448.0), 0, 0]);

    let nv = nvfp4::Recipe::NEAREST;
    let amax = nvfp4::amax(&layout, &values, &nv, direction).unwrap();
    assert_eq!(amax, [f32::INFINITY]);
    let mut scales = vec![0; nvfp4::scale_len(&layout, &nv, direction)];
    let mut packed = vec![0; 192];
    nvfp4::quantize(&layout, &values, &nv, direction, &amax, &mut packed, &mut scales).unwrap();
    // With scale 1, 2 has the block scale 2 / 6, and the infinity the largest.
    assert_eq!([scales[0], scales[8]], [code(1.0 / 3.0), code(448.0)]);
    assert_eq!([packed[0], packed[64]], [0x77, 0x07]);
}
