//! A parameter as a file holds it, checked to be one parameter: every expert once, all alike.

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::names::{Names, Part};
use crate::error::{Error, Result};
use crate::tensor::DType;

/// A parameter of a layer in a file.
#[derive(Debug)]
pub(super) struct Stored<'data> {
    part: Part,
    prefix: String,
    groups: usize,
    shape: Vec<usize>, // of one group
    dtype: Dtype,
    data: Data<'data>,
}

#[derive(Debug)]
enum Data<'data> {
    Packed(&'data [u8]),
    Discrete(Vec<&'data [u8]>),
}

impl<'data> Stored<'data> {
    /// The parameter whose tensors have these names, if there are any.
    ///
    /// # Errors
    /// Both namings at once, a missing expert, a packed tensor of other rank, experts of different
    /// shapes or types, dimensions of 0.
    pub(super) fn read(
        tensors: &SafeTensors<'data>,
        prefix: &str,
        part: Part,
        names: &Names<'_>,
    ) -> Result<Option<Self>> {
        let first = names.experts.values().next();
        match (names.packed, first) {
            (None, None) => Ok(None),
            (Some(packed), None) => Self::read_packed(tensors, prefix, part, packed).map(Some),
            (None, Some(_)) => Self::read_discrete(tensors, prefix, part, names).map(Some),
            (Some(packed), Some(first)) => Err(Error::invalid(format!(
                "checkpoint: both {packed} and {first} were found; a layer has either one tensor \
                 for all experts or one for each, so remove one or the other"
            ))),
        }
    }

    fn read_packed(
        tensors: &SafeTensors<'data>,
        prefix: &str,
        part: Part,
        name: &str,
    ) -> Result<Self> {
        let view = view(tensors, name)?;
        let (groups, shape) = match view.shape() {
            [groups, shape @ ..] if shape.len() == part.rank() => (*groups, shape.to_vec()),
            _ => return Err(Error::shape(tensor(name), view.shape(), part.shape_of_all())),
        };
        check_nonzero(name, &view)?;
        let data = Data::Packed(view.data());
        Ok(Self { part, prefix: prefix.to_owned(), groups, shape, dtype: view.dtype(), data })
    }

    fn read_discrete(
        tensors: &SafeTensors<'data>,
        prefix: &str,
        part: Part,
        names: &Names<'_>,
    ) -> Result<Self> {
        for (wanted, (&number, name)) in names.experts.iter().enumerate() {
            if number != wanted {
                let stem = part.stem();
                return Err(Error::invalid(format!(
                    "checkpoint: {prefix}{stem}{wanted} is missing, although {name} is there"
                )));
            }
        }
        let views = names.experts.values().map(|name| Ok((*name, view(tensors, name)?)));
        let views = views.collect::<Result<Vec<_>>>()?;
        let [(first_name, first), ..] = &*views else {
            return Err(Error::invalid("checkpoint: no experts"));
        };
        for (name, view) in &views {
            if view.shape().len() != part.rank() {
                return Err(Error::shape(tensor(name), view.shape(), part.shape_of_one()));
            }
            if view.shape() != first.shape() {
                let want = format!("{:?} as of {first_name}", first.shape());
                return Err(Error::shape(tensor(name), view.shape(), want));
            }
            if view.dtype() != first.dtype() {
                let want = format!("{} as of {first_name}", first.dtype());
                return Err(Error::dtype(tensor(name), view.dtype(), want));
            }
        }
        check_nonzero(first_name, first)?;
        Ok(Self {
            part,
            prefix: prefix.to_owned(),
            groups: views.len(),
            shape: first.shape().to_vec(),
            dtype: first.dtype(),
            data: Data::Discrete(views.iter().map(|(_, view)| view.data()).collect()),
        })
    }

    /// Refuses another number of groups, or another shape of one group.
    pub(super) fn check_shape(&self, groups: usize, shape: &[usize]) -> Result<()> {
        let (prefix, stem) = (&self.prefix, self.part.stem());
        if let Data::Packed(_) = self.data {
            if (self.groups, &*self.shape) == (groups, shape) {
                return Ok(());
            }
            let [got, want] =
                [(self.groups, &*self.shape), (groups, shape)].map(|(g, s)| [&[g], s].concat());
            return Err(Error::shape(self.first_tensor(), &got, format!("{want:?}")));
        }
        if self.groups < groups {
            let missing = self.groups;
            return Err(Error::invalid(format!(
                "checkpoint: {prefix}{stem}{missing} is missing, the layer has {groups} experts"
            )));
        }
        if self.groups > groups {
            return Err(Error::invalid(format!(
                "checkpoint: {prefix}{stem}{groups} was found, but the layer has {groups} experts"
            )));
        }
        if self.shape != shape {
            return Err(Error::shape(self.first_tensor(), &self.shape, format!("{shape:?}")));
        }
        Ok(())
    }

    /// Refuses another element type; nothing is ever cast.
    pub(super) fn check_dtype(&self, want: DType) -> Result<()> {
        if self.dtype == stored_dtype(want) {
            return Ok(());
        }
        let want = format!("{} (values are not converted)", stored_dtype(want));
        Err(Error::dtype(self.first_tensor(), self.dtype, want))
    }

    /// The element type, if a layer can have it.
    pub(super) fn float_dtype(&self) -> Result<DType> {
        let floats = [DType::Bf16, DType::F16, DType::F32];
        let found = floats.into_iter().find(|&dtype| stored_dtype(dtype) == self.dtype);
        found.ok_or_else(|| Error::dtype(self.first_tensor(), self.dtype, "BF16, F16 or F32"))
    }

    pub(super) fn part(&self) -> Part {
        self.part
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Shape of one group.
    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The bytes of all groups, where they lie in one piece.
    pub(super) fn as_packed(&self) -> Option<&'data [u8]> {
        match self.data {
            Data::Packed(bytes) => Some(bytes),
            Data::Discrete(_) => None,
        }
    }

    /// The bytes of each group.
    ///
    /// # Errors
    /// Groups in one tensor do not begin on whole bytes, as with three 4-bit elements each.
    pub(super) fn each(&self) -> Result<Vec<&'data [u8]>> {
        let bytes = match &self.data {
            Data::Discrete(each) => return Ok(each.clone()),
            Data::Packed(bytes) => *bytes,
        };
        if bytes.is_empty() || !bytes.len().is_multiple_of(self.groups) {
            let want = "a type whose experts fill whole bytes";
            return Err(Error::dtype(self.first_tensor(), self.dtype, want));
        }
        Ok(bytes.chunks_exact(bytes.len() / self.groups).collect())
    }

    /// The name of the first tensor, for messages.
    fn first_tensor(&self) -> String {
        let number = if self.as_packed().is_some() { "" } else { "0" };
        tensor(&format!("{}{}{number}", self.prefix, self.part.stem()))
    }
}

/// The file's name of an element type.
pub(super) fn stored_dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::Bf16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::F32 => Dtype::F32,
        DType::E4m3 => Dtype::F8_E4M3,
        DType::E5m2 => Dtype::F8_E5M2,
        DType::U8 => Dtype::U8,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
    }
}

/// What a safetensors error means to a user.
pub(super) fn broken(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("checkpoint: it is not a whole safetensors file: {error}"))
}

pub(super) fn view<'data>(tensors: &SafeTensors<'data>, name: &str) -> Result<TensorView<'data>> {
    tensors.tensor(name).map_err(broken)
}

/// A tensor's name, for messages.
pub(super) fn tensor(name: &str) -> String {
    format!("checkpoint: tensor {name}")
}

/// Without elements a file of a few bytes could have any number of experts.
fn check_nonzero(name: &str, view: &TensorView<'_>) -> Result<()> {
    if view.shape().contains(&0) {
        return Err(Error::shape(tensor(name), view.shape(), "a shape without a 0"));
    }
    Ok(())
}
