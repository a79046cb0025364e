//! What a function is given: values, and the same without memory.

use super::named::Named;
use crate::error::{Error, Result};
use crate::grouped_linear::{LayerRecipe, RecipeSpec};
use crate::splits::Splits;
use crate::tensor::{DType, Tensor, TensorSpec};

/// An input of one call of a function: a handle, so a clone costs little.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Rows per group.
    Splits(Splits),
    /// One of the choices that the function offers.
    Choice(&'static str),
    /// What a layer computes in low precision by.
    Recipe(Box<LayerRecipe>),
}

/// A [`Value`] without memory: what can be inferred and planned from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueSpec {
    /// A tensor.
    Tensor(TensorSpec),
    /// Rows per group.
    Splits(SplitsSpec),
    /// One of the choices that the function offers.
    Choice(&'static str),
    /// What a layer computes in low precision by.
    Recipe(Box<RecipeSpec>),
}

/// [`Splits`] without the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitsSpec {
    /// Number of groups.
    pub groups: usize,
    /// Type of the counts in device memory; `None` for counts that the host holds.
    pub on_device: Option<DType>,
}

/// The inputs of one call.
pub type Inputs = Named<Value>;

/// The inputs of one call, without memory.
pub type InputSpecs = Named<ValueSpec>;

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<Splits> for Value {
    fn from(splits: Splits) -> Self {
        Self::Splits(splits)
    }
}

impl From<&'static str> for Value {
    fn from(choice: &'static str) -> Self {
        Self::Choice(choice)
    }
}

impl From<LayerRecipe> for Value {
    fn from(recipe: LayerRecipe) -> Self {
        Self::Recipe(Box::new(recipe))
    }
}

impl From<TensorSpec> for ValueSpec {
    fn from(spec: TensorSpec) -> Self {
        Self::Tensor(spec)
    }
}

impl From<RecipeSpec> for ValueSpec {
    fn from(spec: RecipeSpec) -> Self {
        Self::Recipe(Box::new(spec))
    }
}

impl From<&Value> for ValueSpec {
    fn from(value: &Value) -> Self {
        match value {
            Value::Tensor(tensor) => Self::Tensor(tensor.into()),
            Value::Splits(splits) => Self::Splits(SplitsSpec {
                groups: splits.groups(),
                on_device: splits.device_tensor().map(Tensor::dtype),
            }),
            Value::Choice(choice) => Self::Choice(choice),
            Value::Recipe(recipe) => (*recipe.spec()).into(),
        }
    }
}

impl Named<Value> {
    /// The tensor of this name.
    ///
    /// # Errors
    /// There is none, or it is no tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.optional_tensor(name)?.ok_or_else(|| missing(name, "a tensor"))
    }

    /// The tensor of this name, if one was given.
    ///
    /// # Errors
    /// It is no tensor.
    pub fn optional_tensor(&self, name: &str) -> Result<Option<&Tensor>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Tensor(tensor)) => Ok(Some(tensor)),
            Some(_) => Err(other_kind(name, "a tensor")),
        }
    }

    /// The splits of this name.
    ///
    /// # Errors
    /// There are none, or it is something else.
    pub fn splits(&self, name: &str) -> Result<&Splits> {
        match self.get(name) {
            None => Err(missing(name, "splits")),
            Some(Value::Splits(splits)) => Ok(splits),
            Some(_) => Err(other_kind(name, "splits")),
        }
    }

    /// The recipe of this name, if one was given.
    ///
    /// # Errors
    /// It is no recipe.
    pub fn recipe(&self, name: &str) -> Result<Option<&LayerRecipe>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Recipe(recipe)) => Ok(Some(recipe)),
            Some(_) => Err(other_kind(name, "a recipe")),
        }
    }

    /// The inputs without memory.
    pub fn specs(&self) -> InputSpecs {
        self.iter().map(|(name, value)| (name, value.into())).collect()
    }
}

impl Named<ValueSpec> {
    /// The tensor of this name.
    ///
    /// # Errors
    /// There is none, or it is no tensor.
    pub fn tensor(&self, name: &str) -> Result<&TensorSpec> {
        self.optional_tensor(name)?.ok_or_else(|| missing(name, "a tensor"))
    }

    /// The tensor of this name, if one is given.
    ///
    /// # Errors
    /// It is no tensor.
    pub fn optional_tensor(&self, name: &str) -> Result<Option<&TensorSpec>> {
        match self.get(name) {
            None => Ok(None),
            Some(ValueSpec::Tensor(tensor)) => Ok(Some(tensor)),
            Some(_) => Err(other_kind(name, "a tensor")),
        }
    }

    /// The splits of this name.
    ///
    /// # Errors
    /// There are none, or it is something else.
    pub fn splits(&self, name: &str) -> Result<SplitsSpec> {
        match self.get(name) {
            None => Err(missing(name, "splits")),
            Some(ValueSpec::Splits(splits)) => Ok(*splits),
            Some(_) => Err(other_kind(name, "splits")),
        }
    }

    /// The recipe of this name, if one is given.
    ///
    /// # Errors
    /// It is no recipe.
    pub fn recipe(&self, name: &str) -> Result<Option<&RecipeSpec>> {
        match self.get(name) {
            None => Ok(None),
            Some(ValueSpec::Recipe(recipe)) => Ok(Some(recipe)),
            Some(_) => Err(other_kind(name, "a recipe")),
        }
    }

    /// Which of `offered` was chosen; the first where nothing was said.
    ///
    /// # Errors
    /// Something else was given.
    pub fn choice<'a>(&self, name: &str, offered: &[&'a str]) -> Result<&'a str> {
        let chosen = match self.get(name) {
            None => offered.first(),
            Some(ValueSpec::Choice(choice)) => offered.iter().find(|&offer| offer == choice),
            Some(_) => None,
        };
        let offers = || Error::invalid(format!("{name}: choose one of {}", offered.join(", ")));
        chosen.copied().ok_or_else(offers)
    }
}

fn missing(name: &str, kind: &str) -> Error {
    Error::invalid(format!("{name} is needed: give {kind} as the input of this name"))
}

fn other_kind(name: &str, kind: &str) -> Error {
    Error::invalid(format!(
        "{name} must be {kind}, something else was given; check the name of the input"
    ))
}
