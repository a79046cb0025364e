//! Shapes of quantized tensors, and what is refused.

use super::*;
use crate::backend::Device;
use crate::recipe::{BlockShape, Blocks, Format, Nvfp4Format, Scope, Transform};

const SPEC: QuantizedSpec = QuantizedSpec {
    groups: 3,
    source: SourceShape::Tokens { rows: 290, features: 144 },
    format: Format::fp8(DType::E5m2, Blocks::Tensor),
    rowwise: Some(Form::Codes),
    columnwise: Some(Form::Codes),
};

#[test]
fn shapes_follow_the_table() {
    use Direction::{Columnwise, Rowwise};
    let weights = SourceShape::Weights { rows: 200, columns: 144 };
    let tokens = SPEC.source;
    // In three groups, each padded to 128, 290 rows take five blocks at most: 2 + 144 + 144, say.
    let table = [
        (tokens, Blocks::Tensor, Rowwise, vec![290, 144], vec![3]),
        (tokens, Blocks::Tensor, Columnwise, vec![144, 640], vec![3]),
        (tokens, Blocks::Vector, Rowwise, vec![290, 144], vec![2, 292]),
        (tokens, Blocks::Vector, Columnwise, vec![144, 640], vec![5, 144]),
        (tokens, Blocks::Square, Rowwise, vec![290, 144], vec![5, 4]),
        (tokens, Blocks::Square, Columnwise, vec![144, 640], vec![2, 8]),
        (weights, Blocks::Tensor, Columnwise, vec![3, 144, 200], vec![3]),
        (weights, Blocks::Vector, Rowwise, vec![3, 200, 144], vec![3, 2, 200]),
        (weights, Blocks::Vector, Columnwise, vec![3, 144, 200], vec![3, 2, 144]),
        (weights, Blocks::Square, Rowwise, vec![3, 200, 144], vec![3, 2, 4]),
        (weights, Blocks::Square, Columnwise, vec![3, 144, 200], vec![3, 2, 4]),
    ];
    for (source, blocks, direction, data, scales) in table {
        let format = Format::fp8(DType::E5m2, blocks);
        let copy = QuantizedSpec { source, format, ..SPEC }.copy(direction);
        assert_eq!((copy.data.shape, copy.scale_inv.shape), (data, scales), "{direction:?}");
    }
}

#[test]
fn shapes_of_small_blocks_follow_the_table() {
    use Direction::{Columnwise, Rowwise};
    let weights = SourceShape::Weights { rows: 208, columns: 160 };
    let tokens = SourceShape::Tokens { rows: 290, features: 160 };
    let mxfp8 = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
    let nvfp4 = Format::Nvfp4(Nvfp4Format::LINES);
    let table = [
        (tokens, mxfp8, Rowwise, vec![290, 160], vec![640, 8], vec![290, 160]),
        (tokens, mxfp8, Columnwise, vec![290, 160], vec![20, 256], vec![290, 160]),
        (weights, mxfp8, Rowwise, vec![3, 208, 160], vec![3, 256, 8], vec![3, 208, 160]),
        (weights, mxfp8, Columnwise, vec![3, 208, 160], vec![3, 8, 256], vec![3, 208, 160]),
        (tokens, nvfp4, Rowwise, vec![290, 80], vec![640, 12], vec![290, 160]),
        (tokens, nvfp4, Columnwise, vec![160, 320], vec![40, 256], vec![640, 160]),
        (weights, nvfp4, Rowwise, vec![3, 208, 80], vec![3, 256, 12], vec![3, 208, 160]),
        (weights, nvfp4, Columnwise, vec![3, 160, 104], vec![3, 256, 16], vec![3, 208, 160]),
    ];
    for (source, format, direction, data, scales, exact) in table {
        let spec = QuantizedSpec { source, format, ..SPEC };
        for form in [Form::Codes, Form::Swizzled, Form::Exact] {
            let own = Some(form);
            let copy = QuantizedSpec { rowwise: own, columnwise: own, ..spec }.copy(direction);
            let (shape, scale_shape) = match form {
                Form::Exact => (&exact, vec![0]),
                _ => (&data, scales.clone()),
            };
            let found = (&copy.data.shape, copy.scale_inv.shape);
            assert_eq!(found, (shape, scale_shape), "{source:?} {format} {direction:?} {form:?}");
            assert_eq!(copy.amax.is_some(), format == nvfp4);
        }
    }
}

/// Lengths of tokens and weights about the limits of what kernels, integers and addresses count.
#[test]
fn sizes_that_no_tensor_has_do_not_wrap() {
    const LENGTHS: [usize; 9] = [
        1,
        1 << 12,
        i32::MAX as usize,
        1 << 31,
        u32::MAX as usize,
        1 << 32,
        i64::MAX as usize,
        usize::MAX - 2,
        usize::MAX,
    ];
    let of_lengths = |&rows: &usize| {
        LENGTHS.into_iter().flat_map(move |columns| {
            let tokens = SourceShape::Tokens { rows, features: columns };
            [tokens, SourceShape::Weights { rows, columns }]
        })
    };
    let mxfp8 = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
    let formats = [
        SPEC.format,
        Format::fp8(DType::E4m3, Blocks::Vector),
        Format::fp8(DType::E4m3, Blocks::Square),
        mxfp8,
        Format::Nvfp4(Nvfp4Format::LINES),
    ];
    let product = |lengths: &[usize]| {
        lengths.iter().fold(1u128, |product, &length| product.saturating_mul(length as u128))
    };
    for source in LENGTHS.iter().flat_map(of_lengths) {
        for (groups, format) in LENGTHS.into_iter().flat_map(|own| formats.map(|f| (own, f))) {
            let spec = QuantizedSpec { groups, source, format, ..SPEC };
            assert!(spec.padded_rows() >= source.rows(), "{spec:?}");
            let elements = product(&source.shape(groups));
            for direction in spec.directions() {
                let copy = spec.copy(direction);
                // Half a byte an element is the least, and a scale for 128 × 128 of them.
                let bytes = (elements / 2).min(usize::MAX as u128) as usize;
                assert!(copy.byte_len() >= bytes, "{spec:?}");
                let scaled = product(&copy.scale_inv.shape).saturating_mul(128 * 128);
                assert!(format.is_whole() || scaled >= elements, "{spec:?}");
            }
            let most = source.rows().max(source.columns());
            if groups > 4096 || most > i32::MAX as usize {
                assert!(spec.check().is_err(), "{spec:?}");
            }
        }
    }
}

#[test]
fn what_copies_share_is_counted_once() -> Result<()> {
    let stream = Device::cpu().stream()?;
    let weights = SourceShape::Weights { rows: 32, columns: 64 };
    let nvfp4 =
        |blocks, transform| Format::Nvfp4(Nvfp4Format { blocks, transform, ..Nvfp4Format::LINES });
    let mxfp8 = |blocks| Format::Mxfp8 { dtype: DType::E4m3, blocks };
    let elements = 3 * 32 * 64;
    let (line, square) = (BlockShape::Line, BlockShape::Square);
    for (format, form, bytes) in [
        (mxfp8(square), Form::Exact, 2 * elements),
        (mxfp8(line), Form::Exact, 4 * elements),
        (mxfp8(square), Form::Codes, 2 * elements + 3 * (128 * 4 + 4 * 128)),
        (nvfp4(square, Transform::None), Form::Exact, 2 * elements + 12),
        (nvfp4(line, Transform::None), Form::Exact, 4 * elements + 12),
        (nvfp4(line, Transform::Hadamard), Form::Exact, 4 * elements + 24),
        (nvfp4(square, Transform::None), Form::Codes, elements + 3 * (128 * 4 + 128 * 8) + 12),
    ] {
        let both = Some(form);
        let spec =
            QuantizedSpec { source: weights, format, rowwise: both, columnwise: both, ..SPEC };
        assert_eq!(QuantizedTensor::empty(&stream, spec)?.byte_len(), bytes, "{format} {form:?}");
    }
    Ok(())
}

#[test]
fn forms_that_cannot_be_are_refused() {
    let exact = Some(Form::Exact);
    let rows = Nvfp4Format { scope: Scope::Row, ..Nvfp4Format::LINES };
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES };
    let square = |format| Nvfp4Format { blocks: BlockShape::Square, ..format };
    for (format, rowwise, part) in [
        (SPEC.format, exact, "one form"),
        (Format::Nvfp4(rows), exact, "a scale for each row"),
        (Format::Nvfp4(square(rows)), exact, "a scale for each row"),
        (Format::Nvfp4(square(mixed)), exact, "square blocks"),
        (Format::Mxfp8 { dtype: DType::F16, blocks: BlockShape::Line }, exact, "f16"),
    ] {
        let error = QuantizedSpec { format, rowwise, ..SPEC }.check().expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn features_that_no_kernel_reads_are_refused() {
    let stream = Device::cpu().stream().unwrap();
    let tokens = |features| SourceShape::Tokens { rows: 5, features };
    let weights = |rows, columns| SourceShape::Weights { rows, columns };
    let mxfp8 = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
    let nvfp4 = Format::Nvfp4(Nvfp4Format::LINES);
    for (format, source, part) in [
        (SPEC.format, tokens(24), "features is 24, FP8 needs a multiple of 16"),
        (SPEC.format, weights(32, 24), "in_features is 24, FP8 needs a multiple of 16"),
        (SPEC.format, weights(24, 32), "out_features is 24, FP8 needs a multiple of 16"),
        (mxfp8, tokens(48), "features is 48, MXFP8 needs a multiple of 32"),
        (nvfp4, tokens(17), "features is 17, NVFP4 needs a multiple of 16"),
    ] {
        let spec = QuantizedSpec { format, source, ..SPEC };
        let error = QuantizedTensor::empty(&stream, spec).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn one_scale_per_group_is_shared() -> Result<()> {
    let stream = Device::cpu().stream()?;
    let tensor = QuantizedTensor::empty(&stream, SPEC)?;
    let bytes = 290 * 144 + 144 * 640 + 2 * 4 * 3;
    assert_eq!(tensor.byte_len(), bytes);
    let rowwise = tensor.only(Direction::Rowwise)?;
    assert!(rowwise.copy(Direction::Columnwise).is_none());
    assert!(rowwise.only(Direction::Columnwise).is_err());
    Ok(())
}

#[test]
fn copies_that_do_not_fit_are_refused() -> Result<()> {
    let stream = Device::cpu().stream()?;
    let both = QuantizedTensor::empty(&stream, SPEC)?;
    let copies = || (both.0.rowwise.clone(), both.0.columnwise.clone());
    let (rowwise, columnwise) = copies();
    assert!(QuantizedTensor::from_copies(&stream, SPEC, rowwise, columnwise).is_ok());
    let refused = |spec, rowwise, columnwise, part: &str| {
        let error = QuantizedTensor::from_copies(&stream, spec, rowwise, columnwise);
        let text = error.expect_err(part).to_string();
        assert!(text.contains(part), "{text}");
    };
    let (rowwise, columnwise) = copies();
    refused(SPEC, rowwise.clone(), None, "columnwise data is missing");
    let only = QuantizedSpec { columnwise: None, ..SPEC };
    refused(only, rowwise.clone(), columnwise.clone(), "columnwise data is given");
    refused(QuantizedSpec { groups: 0, ..SPEC }, None, None, "0 groups");
    let neither = QuantizedSpec { rowwise: None, ..only };
    refused(neither, None, None, "neither copy");
    let format = Format::fp8(DType::Bf16, Blocks::Tensor);
    refused(QuantizedSpec { format, ..SPEC }, rowwise.clone(), columnwise.clone(), "bf16");
    refused(SPEC, columnwise, rowwise, "rowwise data");
    Ok(())
}
