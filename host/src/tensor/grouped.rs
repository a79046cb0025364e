//! A parameter or gradient per group: packed in one tensor, or one tensor each.

use std::sync::Arc;

use super::{DType, Memory, Tensor, TensorSpec};
use crate::backend::Stream;
use crate::error::{Error, Result};

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

    /// Whether all groups lie in one tensor.
    pub fn is_packed(&self) -> bool {
        matches!(self.parts, Parts::Packed(_))
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
