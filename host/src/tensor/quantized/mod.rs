//! Quantized tensors: codes with their scales, for one or both directions of reduction.

mod experts;
mod spec;
#[cfg(test)]
mod tests;

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
    /// An element's value is its number times the `scale_inv` of its block or group. Without
    /// elements where the numbers are exact.
    pub scale_inv: Tensor,
    /// NVFP4: largest magnitudes of groups or rows, FP32; a value is also multiplied by
    /// `amax / (6 · bound)`.
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
    /// 2³¹ - 1, features that are no multiples of 16 (MXFP8: of 32), a format that cannot be, no
    /// copy, a form that the format does not have; out of memory.
    pub fn empty(stream: &Stream, spec: QuantizedSpec) -> Result<Self> {
        spec.check()?;
        let has_scale = spec.format.is_whole();
        Self::build(stream, spec, spec.shared(), has_scale, |_, part| part.empty(stream))
    }

    /// A quantized tensor whose parts `part` gives for their names and shapes; a part without
    /// elements is made here.
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
    /// there are, and their tensors must have the shapes of [`QuantizedSpec::copy`], with zeros
    /// where it asks for them: splits may be known to the device alone, so nobody looks.
    ///
    /// # Errors
    /// A specification that [`QuantizedTensor::empty`] refuses; a copy that it has is missing, or
    /// one too many is given; shapes, types or devices that do not fit.
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

    /// Refuses a tensor, by its `name`, whose copies have in memory of their own what they should
    /// share, and what is read or written once.
    pub(crate) fn check_shared(&self, name: &'static str) -> Result<()> {
        let spec = self.spec();
        let (shared, same) = (spec.shared(), self.shared());
        for (shared, same, what) in [
            (shared.data, same.data, "data"),
            (shared.scale_inv, same.scale_inv, "scale_inv"),
            (shared.amax, same.amax, "amax"),
        ] {
            if shared && !same {
                return Err(Error::invalid(format!(
                    "{name}: its copies have {what} in memory of their own, which in {} they share; give \
                     from_copies the same tensor twice, or take one copy at a time",
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
