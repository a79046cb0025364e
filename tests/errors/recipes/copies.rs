//! Memory of quantized tensors.

use grouped_linear::recipe::{Blocks, Format};
use grouped_linear::{
    DType, Direction, QuantizedCopy, QuantizedSpec, QuantizedTensor, Result, SourceShape, Stream,
    Tensor,
};

use super::{BOTH, COLUMNWISE, E4M3, K, ROWWISE, SQUARES, VECTORS, spec, tokens, zeros};
use crate::fitting::ROWS;
use crate::{INVALID, Refusal};

/// Memory for one copy of tokens, changed.
pub(super) fn from_copy(
    stream: &Stream,
    copies: [bool; 2],
    change: impl FnOnce(&mut QuantizedCopy) -> Result<()>,
) -> Result<()> {
    let own = tokens(stream, K, VECTORS, ROWWISE)?;
    let mut copy = own.copy(Direction::Rowwise).expect("rowwise").clone();
    change(&mut copy)?;
    let spec = spec(own.spec().source, VECTORS, copies);
    QuantizedTensor::from_copies(stream, spec, Some(copy), None).map(drop)
}

pub(super) const COPIES: &[Refusal] = &[
    ("no groups to quantize", "0 groups were asked for", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let spec = QuantizedSpec { groups: 0, ..spec(source, E4M3, BOTH) };
        QuantizedTensor::empty(s, spec).map(drop)
    }),
    ("4097 groups to quantize", "4097 groups were asked for, 1 to 4096", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let spec = QuantizedSpec { groups: 4097, ..spec(source, E4M3, BOTH) };
        QuantizedTensor::empty(s, spec).map(drop)
    }),
    ("all groups that can be counted, to quantize", "groups were asked for", INVALID, |s| {
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let spec = QuantizedSpec { groups: usize::MAX, ..spec(source, E4M3, BOTH) };
        QuantizedTensor::empty(s, spec).map(drop)
    }),
    ("all rows that can be counted, to quantize", "rows were given, at most", INVALID, |s| {
        let source = SourceShape::Tokens { rows: usize::MAX, features: K };
        QuantizedTensor::empty(s, spec(source, VECTORS, BOTH)).map(drop)
    }),
    ("2^31 - 1 rows to quantize, before padding", "2147483776 rows are needed", INVALID, |s| {
        let source = SourceShape::Tokens { rows: i32::MAX as usize, features: K };
        QuantizedTensor::empty(s, spec(source, VECTORS, ROWWISE)).map(drop)
    }),
    ("no features to quantize", "features is 0, 1 to 2147483647", INVALID, |s| {
        tokens(s, 0, E4M3, BOTH).map(drop)
    }),
    ("all features that can be counted, to quantize", "1 to 2147483647 are", INVALID, |s| {
        tokens(s, usize::MAX, VECTORS, BOTH).map(drop)
    }),
    ("weights of 2^31 rows to quantize", "out_features is 2147483648", INVALID, |s| {
        let source = SourceShape::Weights { rows: 1 << 31, columns: K };
        QuantizedTensor::empty(s, spec(source, SQUARES, BOTH)).map(drop)
    }),
    ("weights of more bytes than addresses, to quantize", "fewer than 2^63", INVALID, |s| {
        let most = i32::MAX as usize / 16 * 16;
        let source = SourceShape::Weights { rows: most, columns: most };
        let spec = QuantizedSpec { groups: 4096, ..spec(source, SQUARES, BOTH) };
        QuantizedTensor::empty(s, spec).map(drop)
    }),
    ("quantized to BF16", "quantized tensor: element type bf16", INVALID, |s| {
        tokens(s, K, Format::fp8(DType::Bf16, Blocks::Tensor), BOTH).map(drop)
    }),
    ("neither copy", "neither copy was asked for", INVALID, |s| {
        tokens(s, K, E4M3, [false; 2]).map(drop)
    }),
    ("a copy that was not made", "the columnwise copy is needed", INVALID, |s| {
        tokens(s, K, E4M3, ROWWISE)?.only(Direction::Columnwise).map(drop)
    }),
    ("a copy too few", "the columnwise data is missing", INVALID, |s| {
        from_copy(s, BOTH, |_| Ok(()))
    }),
    ("a copy too many", "the rowwise data is given", INVALID, |s| {
        from_copy(s, COLUMNWISE, |_| Ok(()))
    }),
    ("data of fewer rows", "rowwise data: shape [5, 32]", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.data = copy.data.narrow(0, ROWS - 1)?;
            Ok(())
        })
    }),
    ("data of another FP8", "rowwise data: element type e5m2", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.data = Tensor::empty(s, &[ROWS, K], DType::E5m2)?;
            Ok(())
        })
    }),
    ("scales of other length", "rowwise scale_inv: shape [1, 6]", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.scale_inv = Tensor::zeros(s, &[1, ROWS], DType::F32)?;
            Ok(())
        })
    }),
    ("scales in BF16", "rowwise scale_inv: element type bf16", INVALID, |s| {
        from_copy(s, ROWWISE, |copy| {
            copy.scale_inv = zeros(s, copy.scale_inv.shape())?;
            Ok(())
        })
    }),
];
