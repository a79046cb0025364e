//! What a recorded call was given, to be compared with what the next one is.

use super::super::forward::BiasMode;
use super::super::low_precision::{LayerRecipe, RecipeSpec};
use super::super::operands::ProductRules;
use super::super::saved::Weights;
use super::super::sink::GradSink;
use super::super::{Config, Needs};
use crate::backend::DeviceId;
use crate::plan::KernelChoice;
use crate::tensor::{DType, GroupedTensor, Tensor};

/// All that a graph has in it, and what else a call is refused for, by name.
pub(super) type Signature = Vec<(&'static str, Part)>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Sizes(Config, usize),
    Tensor(Option<Place>),
    Tensors(Vec<Place>),
    Recipe(Option<Box<Rules>>),
    Product(Option<ProductRules>),
    Groups(Option<Groups>),
    Bias(BiasMode),
    Needs(Needs),
    Kernel(KernelChoice),
    Sink(Way),
}

/// What a layer's recipe says, and where its memory lies. Two that differ in what backward does may
/// share all of their memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rules {
    spec: RecipeSpec,
    memory: Vec<Place>,
}

/// What happens to a gradient of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    New,
    Overwrite,
    Accumulate,
    Delayed,
    Skip,
}

/// Where a tensor lies. Graphs keep the memory, so an address of a device means the same memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    device: DeviceId,
    address: Option<u64>,
    dtype: DType,
    rank: usize,
    /// The first dimensions; operands have no more.
    shape: [usize; 3],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Groups {
    groups: usize,
    /// Base and array of addresses, one of them 0.
    addresses: (u64, u64),
    first: Place,
}

/// The name of the first part that differs.
pub(super) fn difference(old: &Signature, new: &Signature) -> &'static str {
    old.iter().zip(new).find(|(old, new)| old != new).map_or("nothing", |((name, _), _)| name)
}

impl Way {
    pub(super) fn of(sink: &GradSink<'_>) -> Self {
        match sink {
            GradSink::New => Self::New,
            GradSink::Overwrite(_) => Self::Overwrite,
            GradSink::Accumulate(_) => Self::Accumulate,
        }
    }
}

impl Part {
    pub(super) fn tensors<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Self {
        Self::Tensors(tensors.into_iter().map(Place::of).collect())
    }

    pub(super) fn weights(weights: Option<&Weights>) -> Self {
        match weights {
            Some(Weights::Quantized(weights)) => Self::tensors(weights.tensors()),
            Some(Weights::Plain(weights)) => Self::groups(Some(weights)),
            None => Self::groups(None),
        }
    }

    pub(super) fn recipe(recipe: Option<&LayerRecipe>) -> Self {
        Self::Recipe(recipe.map(|own| {
            let memory = own.memory().into_iter().map(Place::of).collect();
            Box::new(Rules { spec: *own.spec(), memory })
        }))
    }

    pub(super) fn tensor(tensor: Option<&Tensor>) -> Self {
        Self::Tensor(tensor.map(Place::of))
    }

    pub(super) fn groups(tensor: Option<&GroupedTensor>) -> Self {
        Self::Groups(tensor.map(|tensor| Groups {
            groups: tensor.groups(),
            addresses: tensor.addresses(),
            first: Place::of(&tensor.tensors()[0]),
        }))
    }
}

impl Place {
    fn of(tensor: &Tensor) -> Self {
        let (rank, mut shape) = (tensor.shape().len(), [0; 3]);
        for (own, length) in shape.iter_mut().zip(tensor.shape()) {
            *own = *length;
        }
        let (device, address, dtype) = (tensor.device_id(), tensor.address(), tensor.dtype());
        Self { device, address, dtype, rank, shape }
    }
}
