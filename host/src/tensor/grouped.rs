//! A parameter or gradient per group: packed in one tensor, or one tensor each.

use std::fmt;
use std::sync::Arc;

use super::{DType, Element, Memory, Tensor, TensorSpec, check_count};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::plan::MAX_GROUPS;

/// How the tensors of the groups lie in memory, and how a checkpoint names them.
///
/// A layer's weights and its bias have a layout each, so there are six layers of the same values:
///
/// ```
/// use grouped_linear::{Config, DType, Device, GroupedLinear, GroupedTensor, ParamLayout};
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 4, in_features: 8, out_features: 16, dtype: DType::Bf16 };
/// let layouts = [ParamLayout::Packed, ParamLayout::Discrete];
/// for weights in layouts {
///     for bias in layouts.map(Some).into_iter().chain([None]) {
///         let bias = bias
///             .map(|bias| GroupedTensor::zeros(&stream, bias, 4, &[16], DType::Bf16))
///             .transpose()?;
///         let weights = GroupedTensor::zeros(&stream, weights, 4, &[16, 8], DType::Bf16)?;
///         let layer = GroupedLinear::new(&stream, config, weights, bias)?;
///         assert_eq!(layer.weights().group(3)?.shape(), [16, 8]);
///     }
/// }
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamLayout {
    /// One tensor, `[groups, …]`.
    Packed,
    /// One tensor per group.
    Discrete,
}

impl fmt::Display for ParamLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packed => "packed",
            Self::Discrete => "discrete",
        })
    }
}

/// One matrix (weights `[n, k]`) or vector (biases `[n]`) per group.
///
/// ```
/// use grouped_linear::{DType, Device, GroupedTensor, Tensor};
/// let stream = Device::cpu().stream()?;
/// let packed = GroupedTensor::packed(Tensor::zeros(&stream, &[4, 16, 8], DType::F32)?)?;
/// let each: Vec<_> = (0..4).map(|g| packed.group(g)).collect::<Result<_, _>>()?;
/// let discrete = GroupedTensor::discrete(&stream, each)?;
/// assert_eq!((discrete.groups(), discrete.shape()), (4, &[16, 8][..]));
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupedTensor {
    parts: Parts,
    groups: usize,
    shape: Vec<usize>, // of one group
}

#[derive(Clone, Debug)]
pub(crate) enum Parts {
    /// `[groups, …]` in one tensor.
    Packed(Tensor),
    /// One tensor per group, and what a launching backend needs to find them.
    Discrete(Arc<[Tensor]>, Option<Arc<AddressTable>>),
}

/// Addresses of discrete tensors in device memory, made once when the tensors are attached.
#[derive(Debug)]
pub(crate) struct AddressTable {
    /// `u64[groups]`.
    pub pointers: Memory,
    /// `TensorMap[groups]` for each pass that reads the tensors as weights; `None` for vectors and
    /// for element types without tensor-core kernels.
    pub maps: Option<PassMaps>,
}

impl AddressTable {
    /// All memory of the table.
    pub(crate) fn memories(&self) -> impl Iterator<Item = &Memory> {
        let maps = self.maps.iter().flat_map(|maps| [&maps.fprop, &maps.dgrad]);
        std::iter::once(&self.pointers).chain(maps)
    }
}

/// Tensor maps of discrete weights; the passes read different boxes.
#[derive(Debug)]
pub(crate) struct PassMaps {
    pub fprop: Memory,
    pub dgrad: Memory,
}

impl GroupedTensor {
    /// All groups in one tensor whose first dimension is the group.
    ///
    /// # Errors
    /// The tensor has fewer than two dimensions.
    pub fn packed(tensor: Tensor) -> Result<Self> {
        let [groups, ref shape @ ..] = *tensor.shape() else {
            return Err(Error::shape("packed tensor", tensor.shape(), "[groups, …]"));
        };
        if shape.is_empty() {
            return Err(Error::shape("packed tensor", tensor.shape(), "[groups, …]"));
        }
        let shape = shape.to_vec();
        Ok(Self { parts: Parts::Packed(tensor), groups, shape })
    }

    /// One tensor per group, all of one shape, type and device.
    ///
    /// # Errors
    /// No tensors; shapes, types or devices differ; a driver failure while their addresses are
    /// stored on the device.
    pub fn discrete(stream: &Stream, tensors: Vec<Tensor>) -> Result<Self> {
        let Some(first) = tensors.first() else {
            return Err(Error::invalid(
                "discrete tensors: none were given, one per group is needed",
            ));
        };
        for tensor in &tensors {
            tensor.check("discrete tensor", first.shape(), first.dtype(), stream)?;
        }
        let (groups, shape) = (tensors.len(), first.shape().to_vec());
        let table = stream.queue().address_table(&tensors)?.map(Arc::new);
        Ok(Self { parts: Parts::Discrete(tensors.into(), table), groups, shape })
    }

    /// New memory of this layout with unspecified contents; `shape` is that of one group.
    ///
    /// # Errors
    /// No groups or more than 4096, if discrete; a packed tensor of scalars; out of memory; a size
    /// beyond the address space.
    pub fn empty(
        stream: &Stream,
        layout: ParamLayout,
        groups: usize,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Self> {
        match layout {
            ParamLayout::Packed => {
                Self::packed(Tensor::empty(stream, &whole_shape(groups, shape), dtype)?)
            }
            // Tensors without elements would be no limit to their number.
            ParamLayout::Discrete if groups > MAX_GROUPS => Err(Error::invalid(format!(
                "discrete tensors: {groups} were asked for, 1 to {MAX_GROUPS} are possible"
            ))),
            ParamLayout::Discrete => {
                let each = (0..groups).map(|_| Tensor::empty(stream, shape, dtype));
                Self::discrete(stream, each.collect::<Result<_>>()?)
            }
        }
    }

    /// New memory of this layout, all zeros; `shape` is that of one group.
    ///
    /// # Errors
    /// As [`GroupedTensor::empty`].
    pub fn zeros(
        stream: &Stream,
        layout: ParamLayout,
        groups: usize,
        shape: &[usize],
        dtype: DType,
    ) -> Result<Self> {
        let grouped = Self::empty(stream, layout, groups, shape, dtype)?;
        for tensor in &mut grouped.handles() {
            tensor.fill_zero(stream)?;
        }
        Ok(grouped)
    }

    /// New memory of this layout with the elements of `values`, group after group; `shape` is that
    /// of one group.
    ///
    /// ```
    /// use grouped_linear::{Device, GroupedTensor, ParamLayout};
    /// let stream = Device::cpu().stream()?;
    /// let values = [1.0f32, 2.0, 3.0, 4.0];
    /// let bias = GroupedTensor::from_slice(&stream, ParamLayout::Discrete, 2, &[2], &values)?;
    /// assert_eq!(bias.group(1)?.to_f32(&stream)?, [3.0, 4.0]);
    /// # Ok::<(), grouped_linear::Error>(())
    /// ```
    ///
    /// # Errors
    /// The number of values is not that of all groups' elements; otherwise as
    /// [`GroupedTensor::empty`].
    pub fn from_slice<T: Element>(
        stream: &Stream,
        layout: ParamLayout,
        groups: usize,
        shape: &[usize],
        values: &[T],
    ) -> Result<Self> {
        let write = |tensor: &mut Tensor, values: &[T]| tensor.write(stream, values);
        Self::empty_for(stream, layout, groups, shape, T::DTYPE, values.len())?.fill(values, write)
    }

    /// As [`GroupedTensor::from_slice`], with FP32 values rounded to nearest even.
    ///
    /// # Errors
    /// `dtype` is not BF16, FP16 or FP32; otherwise as [`GroupedTensor::from_slice`].
    pub fn from_f32(
        stream: &Stream,
        layout: ParamLayout,
        groups: usize,
        shape: &[usize],
        dtype: DType,
        values: &[f32],
    ) -> Result<Self> {
        let write = |tensor: &mut Tensor, values: &[f32]| tensor.write_f32(stream, values);
        Self::empty_for(stream, layout, groups, shape, dtype, values.len())?.fill(values, write)
    }

    /// As [`GroupedTensor::empty`], for a number of values that must be right.
    fn empty_for(
        stream: &Stream,
        layout: ParamLayout,
        groups: usize,
        shape: &[usize],
        dtype: DType,
        values: usize,
    ) -> Result<Self> {
        check_count(&whole_shape(groups, shape), values)?;
        Self::empty(stream, layout, groups, shape, dtype)
    }

    /// Writes as many values as there are elements.
    fn fill<T>(
        self,
        mut values: &[T],
        write: impl Fn(&mut Tensor, &[T]) -> Result<()>,
    ) -> Result<Self> {
        for tensor in &mut self.handles() {
            let (first, others) = values.split_at(tensor.len());
            write(tensor, first)?;
            values = others;
        }
        Ok(self)
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Shape of one group.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.first().dtype()
    }

    /// Whether the groups lie in one tensor or in one each.
    pub fn layout(&self) -> ParamLayout {
        match self.parts {
            Parts::Packed(_) => ParamLayout::Packed,
            Parts::Discrete(..) => ParamLayout::Discrete,
        }
    }

    /// Whether all groups lie in one tensor.
    pub fn is_packed(&self) -> bool {
        self.layout() == ParamLayout::Packed
    }

    /// The one tensor of a packed group, `[groups, …]`.
    pub fn as_packed(&self) -> Option<&Tensor> {
        match &self.parts {
            Parts::Packed(tensor) => Some(tensor),
            Parts::Discrete(..) => None,
        }
    }

    /// The tensor of one group, sharing the memory.
    ///
    /// # Errors
    /// `group` is not below [`GroupedTensor::groups`].
    pub fn group(&self, group: usize) -> Result<Tensor> {
        match &self.parts {
            Parts::Packed(tensor) => tensor.index(group),
            Parts::Discrete(tensors, _) => tensors.get(group).cloned().ok_or_else(|| {
                Error::invalid(format!("group {group} was asked for, there are {}", self.groups))
            }),
        }
    }

    /// Bytes of the elements of all groups.
    pub fn byte_len(&self) -> usize {
        self.tensors().iter().map(Tensor::byte_len).sum()
    }

    /// Elements of one group.
    pub(crate) fn group_len(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Every tensor that holds a part.
    pub(crate) fn tensors(&self) -> &[Tensor] {
        match &self.parts {
            Parts::Packed(tensor) => std::slice::from_ref(tensor),
            Parts::Discrete(tensors, _) => tensors,
        }
    }

    /// A handle to every tensor that holds a part, in the order of the groups.
    pub(crate) fn handles(&self) -> Vec<Tensor> {
        self.tensors().to_vec()
    }

    /// Checks groups, shape of one group and device; the type is the caller's to judge.
    pub(crate) fn check(
        &self,
        what: &'static str,
        groups: usize,
        shape: &[usize],
        stream: &Stream,
    ) -> Result<()> {
        if self.groups != groups {
            let got = self.groups;
            return Err(Error::invalid(format!(
                "{what}: {got} groups were given, {groups} needed"
            )));
        }
        if self.shape != shape {
            return Err(Error::shape(what, &self.shape, format!("{shape:?} per group")));
        }
        self.check_device(what, stream)
    }

    pub(crate) fn check_device(&self, what: &'static str, stream: &Stream) -> Result<()> {
        self.first().check_device(what, stream)
    }

    /// As [`GroupedTensor::check`], against the packed form of what is needed.
    pub(crate) fn check_packed(
        &self,
        what: &'static str,
        want: &TensorSpec,
        stream: &Stream,
    ) -> Result<()> {
        let [groups, ref shape @ ..] = *want.shape else {
            return Err(Error::shape(what, &self.shape, "a part per group"));
        };
        self.check(what, groups, shape, stream)
    }

    fn first(&self) -> &Tensor {
        &self.tensors()[0]
    }
}

/// Shape of all groups in one tensor.
fn whole_shape(groups: usize, shape: &[usize]) -> Vec<usize> {
    [&[groups], shape].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Device;

    #[test]
    fn values_lie_where_the_layout_says() {
        let stream = Device::cpu().stream().unwrap();
        let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        for layout in [ParamLayout::Packed, ParamLayout::Discrete] {
            let (groups, shape) = (3, [1, 2]);
            let zeros = GroupedTensor::zeros(&stream, layout, groups, &shape, DType::F32).unwrap();
            let exact = GroupedTensor::from_slice(&stream, layout, groups, &shape, &values);
            let rounded =
                GroupedTensor::from_f32(&stream, layout, groups, &shape, DType::Bf16, &values);
            let all = [(zeros, [0.0; 6]), (exact.unwrap(), values), (rounded.unwrap(), values)];
            for (grouped, want) in &all {
                assert_eq!((grouped.layout(), grouped.groups()), (layout, 3));
                assert_eq!(grouped.is_packed(), layout == ParamLayout::Packed);
                assert_eq!(grouped.tensors().len(), if grouped.is_packed() { 1 } else { 3 });
                for (group, want) in want.chunks(2).enumerate() {
                    let tensor = grouped.group(group).unwrap();
                    assert_eq!(
                        (tensor.shape(), &*tensor.to_f32(&stream).unwrap()),
                        (&shape[..], want)
                    );
                }
            }
            assert_eq!(all[2].0.dtype(), DType::Bf16);
        }
    }
}
