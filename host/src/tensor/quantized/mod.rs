//! Quantized tensors: codes with their scales, for one or both directions of reduction.

mod experts;
mod spec;

use std::sync::Arc;

pub(crate) use self::experts::check_experts;
pub use self::spec::{CopySpec, Form, QuantizedSpec, SourceShape};
use super::{DType, Tensor, TensorSpec};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::numerics::Direction;

/// One copy: data and scales.
#[derive(Clone, Debug)]
pub struct QuantizedCopy {
    /// Codes or exact numbers, in the shape of [`QuantizedSpec::copy`].
    pub data: Tensor,
    /// An element's value is its number times the `scale_inv` of its block or group. Without elements
    /// where the numbers are exact.
    pub scale_inv: Tensor,
    /// NVFP4: largest magnitudes of groups or rows, FP32; a value is also multiplied by `amax / (6 ·
    /// bound)`.
    pub amax: Option<Tensor>,
}

impl QuantizedCopy {
    /// Data, scales and magnitudes.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        [&self.data, &self.scale_inv].into_iter().chain(&self.amax)
    }
}

/// What the columnwise copy has from the rowwise one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) data: bool,
    pub(crate) scale_inv: bool,
    pub(crate) amax: bool,
}

/// The names of the parts of the two copies, and of the scales.
pub(crate) const ROWWISE: [&str; 3] = ["rowwise.data", "rowwise.scale_inv", "rowwise.amax"];
pub(crate) const COLUMNWISE: [&str; 3] =
    ["columnwise.data", "columnwise.scale_inv", "columnwise.amax"];
pub(crate) const SCALE: &str = "scale";

/// A quantized tensor with its scales. Clones are handles to the same memory.
///
/// ```
/// use grouped_linear::recipe::{Blocks, Format};
/// use grouped_linear::{
///     DType, Device, Direction, Form, QuantizedSpec, QuantizedTensor, SourceShape,
/// };
/// let stream = Device::cpu().stream()?;
/// let spec = QuantizedSpec {
///     groups: 3,
///     source: SourceShape::Tokens { rows: 290, features: 256 },
///     format: Format::fp8(DType::E4m3, Blocks::Vector),
///     rowwise: Some(Form::Codes),
///     columnwise: Some(Form::Codes),
/// };
/// let quantized = QuantizedTensor::empty(&stream, spec)?;
/// let rowwise = quantized.copy(Direction::Rowwise).unwrap();
/// assert_eq!(rowwise.data.shape(), [290, 256]);
/// assert_eq!(rowwise.scale_inv.shape(), [2, 292]);
/// let columnwise = quantized.copy(Direction::Columnwise).unwrap();
/// assert_eq!(columnwise.data.shape(), [256, 640]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizedTensor(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    spec: QuantizedSpec,
    rowwise: Option<QuantizedCopy>,
    columnwise: Option<QuantizedCopy>,
    /// `f32[groups]`, what elements were multiplied by; for one scale per group.
    scale: Option<Tensor>,
}

impl QuantizedTensor {
    /// New memory with unspecified contents.
    ///
    /// # Errors
    /// No groups or more than 4096, no features, features or rows (with every group padded) beyond
    /// 2³¹ - 1, a format that cannot be, no copy, a form that the format does not have; out of memory.
    pub fn empty(stream: &Stream, spec: QuantizedSpec) -> Result<Self> {
        spec.check()?;
        let has_scale = spec.format.is_whole();
        Self::build(stream, spec, spec.shared(), has_scale, |_, part| part.empty(stream))
    }

    /// A quantized tensor whose parts `part` gives for their names and shapes; a part without elements
    /// is made here.
    pub(crate) fn build(
        stream: &Stream,
        spec: QuantizedSpec,
        shared: Shared,
        has_scale: bool,
        mut part: impl FnMut(&'static str, &TensorSpec) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut new = |name, shape: &TensorSpec, other: Option<&Tensor>| match other {
            Some(other) => Ok(other.clone()),
            None if shape.byte_len() == 0 => shape.empty(stream),
            None => part(name, shape),
        };
        let mut copy = |direction, names: [&'static str; 3], other: Option<&QuantizedCopy>| {
            if !spec.has(direction) {
                return Ok(None);
            }
            let shapes = spec.copy(direction);
            let has = |shared: bool| other.filter(|_| shared);
            let data = new(names[0], &shapes.data, has(shared.data).map(|own| &own.data))?;
            let of_rows = has(shared.scale_inv).map(|own| &own.scale_inv);
            let scale_inv = new(names[1], &shapes.scale_inv, of_rows)?;
            let of_rows = has(shared.amax).and_then(|own| own.amax.as_ref());
            let amax = shapes.amax.map(|shape| new(names[2], &shape, of_rows)).transpose()?;
            Ok::<_, Error>(Some(QuantizedCopy { data, scale_inv, amax }))
        };
        let rowwise = copy(Direction::Rowwise, ROWWISE, None)?;
        let columnwise = copy(Direction::Columnwise, COLUMNWISE, rowwise.as_ref())?;
        let per_group = TensorSpec { shape: vec![spec.groups], dtype: DType::F32 };
        let scale = has_scale.then(|| part(SCALE, &per_group)).transpose()?;
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale })))
    }

    /// A quantized tensor over memory that exists, say of another library: `spec` says which copies
    /// there are, and their tensors must have the shapes of [`QuantizedSpec::copy`].
    ///
    /// # Errors
    /// A copy that `spec` has is missing, or one too many is given; shapes, types or devices do not
    /// fit.
    pub fn from_copies(
        stream: &Stream,
        spec: QuantizedSpec,
        rowwise: Option<QuantizedCopy>,
        columnwise: Option<QuantizedCopy>,
    ) -> Result<Self> {
        spec.check()?;
        for (direction, copy, name) in [
            (Direction::Rowwise, &rowwise, ["rowwise data", "rowwise scale_inv", "rowwise amax"]),
            (
                Direction::Columnwise,
                &columnwise,
                ["columnwise data", "columnwise scale_inv", "columnwise amax"],
            ),
        ] {
            if copy.is_some() != spec.has(direction) {
                return Err(Error::invalid(format!(
                    "quantized tensor: the {} is {}, unlike its spec says",
                    name[0],
                    if copy.is_some() { "given" } else { "missing" },
                )));
            }
            let Some(copy) = copy else { continue };
            let want = spec.copy(direction);
            copy.data.check(name[0], &want.data.shape, want.data.dtype, stream)?;
            let TensorSpec { shape, dtype } = &want.scale_inv;
            copy.scale_inv.check(name[1], shape, *dtype, stream)?;
            match (&copy.amax, &want.amax) {
                (Some(amax), Some(want)) => amax.check(name[2], &want.shape, want.dtype, stream)?,
                (None, None) => {}
                (given, _) => {
                    return Err(Error::invalid(format!(
                        "quantized tensor: the {} is {}, unlike its format asks for",
                        name[2],
                        if given.is_some() { "given" } else { "missing" },
                    )));
                }
            }
        }
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale: None })))
    }

    /// Shape and format.
    pub fn spec(&self) -> QuantizedSpec {
        self.0.spec
    }

    /// One copy, if there is one.
    pub fn copy(&self, direction: Direction) -> Option<&QuantizedCopy> {
        match direction {
            Direction::Rowwise => self.0.rowwise.as_ref(),
            Direction::Columnwise => self.0.columnwise.as_ref(),
        }
    }

    /// The directions that there are copies of.
    pub fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        self.spec().directions()
    }

    /// A handle that has one copy only, so that the memory of the other can go.
    ///
    /// # Errors
    /// There is no such copy.
    pub fn only(&self, direction: Direction) -> Result<Self> {
        let Some(copy) = self.copy(direction).cloned() else {
            return Err(missing_copy("quantized tensor", direction));
        };
        let (rowwise, columnwise) = match direction {
            Direction::Rowwise => (Some(copy), None),
            Direction::Columnwise => (None, Some(copy)),
        };
        let form = self.spec().form(direction);
        let (rowwise_form, columnwise_form) = match direction {
            Direction::Rowwise => (form, None),
            Direction::Columnwise => (None, form),
        };
        let spec =
            QuantizedSpec { rowwise: rowwise_form, columnwise: columnwise_form, ..self.spec() };
        let scale = self.0.scale.clone();
        Ok(Self(Arc::new(Parts { spec, rowwise, columnwise, scale })))
    }

    /// Bytes of data and scales.
    pub fn byte_len(&self) -> usize {
        self.tensors().map(Tensor::byte_len).sum()
    }

    /// What elements were multiplied by, `f32[groups]`, where each group has one scale.
    pub fn scale(&self) -> Option<&Tensor> {
        self.0.scale.as_ref()
    }

    /// What the columnwise copy has from the rowwise one: what it should have from there, unless
    /// memory from outside holds it twice.
    pub(crate) fn shared(&self) -> Shared {
        let Parts { rowwise: Some(rowwise), columnwise: Some(columnwise), .. } = &*self.0 else {
            return Shared::default();
        };
        let (ruled, amax) =
            (self.spec().shared(), rowwise.amax.as_ref().zip(columnwise.amax.as_ref()));
        Shared {
            data: ruled.data && rowwise.data.same_as(&columnwise.data),
            scale_inv: ruled.scale_inv && rowwise.scale_inv.same_as(&columnwise.scale_inv),
            amax: ruled.amax
                && amax.is_some_and(|(rowwise, columnwise)| rowwise.same_as(columnwise)),
        }
    }

    /// Every tensor once, by name; what the copies share has the name of the rowwise one.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let shared = self.shared();
        let rowwise = named(ROWWISE, self.copy(Direction::Rowwise), Shared::default());
        let columnwise = named(COLUMNWISE, self.copy(Direction::Columnwise), shared);
        let parts = rowwise.into_iter().chain(columnwise);
        parts.chain([(SCALE, self.scale())]).filter_map(|(name, part)| Some((name, part?)))
    }

    /// The part of a name, whether or not the copies share it.
    pub(crate) fn part(&self, name: &str) -> Option<&Tensor> {
        let rowwise = named(ROWWISE, self.copy(Direction::Rowwise), Shared::default());
        let columnwise = named(COLUMNWISE, self.copy(Direction::Columnwise), Shared::default());
        let parts = rowwise.into_iter().chain(columnwise).chain([(SCALE, self.scale())]);
        parts.filter(|(own, _)| *own == name).find_map(|(_, part)| part)
    }

    /// Every tensor once: copies may share scales, magnitudes, or the data of exact numbers.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.parts().map(|(_, tensor)| tensor)
    }

    /// Refuses to write a tensor whose copies have in memory of their own what they should share, and
    /// what is written once.
    pub(crate) fn check_shared(&self) -> Result<()> {
        let spec = self.spec();
        let (shared, same) = (spec.shared(), self.shared());
        for (shared, same, what) in [
            (shared.data, same.data, "data"),
            (shared.scale_inv, same.scale_inv, "scale_inv"),
            (shared.amax, same.amax, "amax"),
        ] {
            if shared && !same {
                return Err(Error::invalid(format!(
                    "destination: its copies have {what} in memory of their own, which in {} they \
                     share; give from_copies the same tensor twice",
                    spec.format
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn check_device(&self, what: &'static str, stream: &Stream) -> Result<()> {
        self.tensors().try_for_each(|tensor| tensor.check_device(what, stream))
    }
}

/// The parts of a copy by name, without those that are shared.
fn named<'a>(
    names: [&'static str; 3],
    copy: Option<&'a QuantizedCopy>,
    shared: Shared,
) -> [(&'static str, Option<&'a Tensor>); 3] {
    let data = copy.filter(|_| !shared.data).map(|copy| &copy.data);
    let scale_inv = copy.filter(|_| !shared.scale_inv).map(|copy| &copy.scale_inv);
    let amax = copy.filter(|_| !shared.amax).and_then(|copy| copy.amax.as_ref());
    let [first, second, third] = names;
    [(first, data), (second, scale_inv), (third, amax)]
}

/// A product asks for a copy that was not made.
pub(crate) fn missing_copy(what: &'static str, direction: Direction) -> Error {
    let name = match direction {
        Direction::Rowwise => "rowwise",
        Direction::Columnwise => "columnwise",
    };
    Error::invalid(format!("{what}: the {name} copy is needed, it was not made; quantize with it"))
}

#[cfg(test)]
mod tests {
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
                assert_eq!(
                    found,
                    (shape, scale_shape),
                    "{source:?} {format} {direction:?} {form:?}"
                );
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
        let nvfp4 = |blocks, transform| {
            Format::Nvfp4(Nvfp4Format { blocks, transform, ..Nvfp4Format::LINES })
        };
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
            assert_eq!(
                QuantizedTensor::empty(&stream, spec)?.byte_len(),
                bytes,
                "{format} {form:?}"
            );
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
}
