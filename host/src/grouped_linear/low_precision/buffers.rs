//! Memory for what a layer's recipe quantizes.

use super::super::Config;
use super::contents::{Contents, Writes};
use super::{BackwardPrecision, LayerRecipe, RecipeSpec};
use crate::backend::Stream;
use crate::error::{Error, Result};
use crate::recipe::Role;
use crate::tensor::{Direction, QuantizedSpec, QuantizedTensor, Shared, SourceShape, Tensor};

/// Memory for everything that a layer quantizes in one forward and its backward, for token buffers
/// of as many rows as it was made for, of which any number may belong to groups: nothing can be
/// allocated in a graph. Clones are handles to the same memory.
///
/// What forward keeps for backward lives in it, so forwards whose backwards are still to come need
/// buffers each: backward is refused tokens over which a later call has quantized others. So do
/// delayed gradients of weights: a [`PendingWgrad`](crate::PendingWgrad) reads the tokens and the
/// output gradient in the buffers, and is refused where another forward or backward in the same
/// ones has written over that before. A call counts when it is made or recorded, and when a
/// [`CapturedLayer`](crate::CapturedLayer) replays it. Of the replays of other graphs
/// ([`Stream::capture`]) nothing is known here: what they write over is not seen, nor is what they
/// bring back, so backward is recorded right behind its forward, and calls in between have buffers
/// of their own. Weights are not looked at: buffers are one layer's, and backward reads in them
/// what its last forward has quantized.
///
/// ```
/// use grouped_linear::recipe::CurrentScaling;
/// use grouped_linear::*;
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 1, in_features: 32, out_features: 16, dtype: DType::Bf16 };
/// let ones = Tensor::from_f32(&stream, &[1, 16, 32], DType::Bf16, &[1.0; 512])?;
/// let layer = GroupedLinear::new(&stream, config, GroupedTensor::packed(ones)?, None)?;
/// let recipe = LayerRecipe::new(&stream, config, Recipe::Current(CurrentScaling::default()))?;
/// let buffers = RecipeBuffers::new(&stream, &recipe, 4)?;
/// let recipe = recipe.with_buffers(buffers);
///
/// let options = ForwardOptions { recipe: Some(&recipe), ..ForwardOptions::default() };
/// let x = Tensor::from_f32(&stream, &[4, 32], DType::Bf16, &[1.0; 128])?;
/// let splits = Splits::host(&[4])?;
/// let (_, first) = layer.forward(&stream, &x, &splits, options)?;
/// let (dy, second) = layer.forward(&stream, &x, &splits, options)?;
/// assert!(layer.backward(&stream, first, &dy).is_err()); // its tokens are gone
/// layer.backward(&stream, second, &dy)?;
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// What there is follows from the recipe's form, its precision of backward and its weights, so
/// buffers are made last ([`LayerRecipe::with_buffers`]). Where backward is not in the recipe's
/// precision ([`BackwardPrecision`]), nothing of it is quantized, so of quantized tensors there are
/// rowwise tokens and weights alone; where the recipe has been given weights, there are none here.
/// Where backward restores what forward read ([`BackwardPrecision::Dequantized`]), there are tokens
/// and weights in the layer's type besides, whoever has quantized the weights.
#[derive(Clone, Debug)]
pub struct RecipeBuffers {
    input: QuantizedTensor,
    /// For weights that are quantized in forward.
    weight: Option<QuantizedTensor>,
    /// For [`BackwardPrecision::Recipe`].
    grad_output: Option<QuantizedTensor>,
    /// Tokens and weights in the layer's type, for [`BackwardPrecision::Dequantized`].
    restored: Option<(Tensor, Tensor)>,
    written: Written,
}

/// How often each part has been written: copies of tokens and of output gradients, rowwise and
/// columnwise, and restored tokens.
#[derive(Clone, Debug, Default)]
struct Written {
    input: [Writes; 2],
    grad_output: [Writes; 2],
    restored: Writes,
}

impl RecipeBuffers {
    /// Memory for token buffers of `rows` rows of a layer that follows `recipe`, as it is now:
    /// another form, precision of backward or weights given to it later would want other memory.
    ///
    /// # Errors
    /// More rows than a token buffer can have (with every group padded 2³¹ - 1); out of memory.
    pub fn new(stream: &Stream, recipe: &LayerRecipe, rows: usize) -> Result<Self> {
        let spec = &recipe.spec;
        let empty = |role| QuantizedTensor::empty(stream, spec.tensor(role, rows, spec.used(role)));
        let Config { groups, in_features, out_features, dtype } = spec.config;
        let restored = match spec.backward {
            BackwardPrecision::Dequantized => Some((
                Tensor::empty(stream, &[rows, in_features], dtype)?,
                Tensor::empty(stream, &[groups, out_features, in_features], dtype)?,
            )),
            BackwardPrecision::Recipe | BackwardPrecision::High => None,
        };
        let input = empty(Role::Input)?;
        let weight = spec.weights.is_none().then(|| empty(Role::Weight)).transpose()?;
        let grad_output = spec.in_backward().then(|| empty(Role::GradOutput)).transpose()?;
        Ok(Self { input, weight, grad_output, restored, written: Written::default() })
    }

    /// Bytes of all of it.
    pub fn byte_len(&self) -> usize {
        self.tensors().map(Tensor::byte_len).sum()
    }

    fn of(&self, role: Role) -> Option<&QuantizedTensor> {
        match role {
            Role::Input => Some(&self.input),
            Role::Weight => self.weight.as_ref(),
            Role::GradOutput => self.grad_output.as_ref(),
        }
    }

    /// Room for tokens and weights as backward reads them.
    pub(super) fn restored(&self) -> Option<&(Tensor, Tensor)> {
        self.restored.as_ref()
    }

    /// Notes that these copies, rowwise and columnwise, are being written, and gives what lies
    /// there from then on; nothing of weights.
    fn note(&self, role: Role, copies: [bool; 2]) -> [Option<Contents>; 2] {
        let (buffer, writes) = match role {
            Role::Input => (Some(&self.input), &self.written.input),
            Role::GradOutput => (self.grad_output.as_ref(), &self.written.grad_output),
            Role::Weight => return [None, None],
        };
        let Some(buffer) = buffer else { return [None, None] };
        // Whatever copies share, scales of groups say, is written with either.
        let both = buffer.shared() != Shared::default() && copies != [false, false];
        [0, 1].map(|copy| (both || copies[copy]).then(|| writes[copy].note()))
    }

    /// What there is room for.
    pub(super) fn specs(&self) -> BufferSpecs {
        let spec = |buffer: &Option<QuantizedTensor>| buffer.as_ref().map(QuantizedTensor::spec);
        let restored = self.restored.as_ref().and_then(|(tokens, weights)| {
            let &[rows, in_features] = tokens.shape() else { return None };
            let &[groups, out_features, _] = weights.shape() else { return None };
            Some((rows, Config { groups, in_features, out_features, dtype: weights.dtype() }))
        });
        BufferSpecs {
            input: self.input.spec(),
            weight: spec(&self.weight),
            grad_output: spec(&self.grad_output),
            restored,
        }
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let quantized = [&self.input].into_iter().chain(&self.weight).chain(&self.grad_output);
        let restored = self.restored.iter().flat_map(|(tokens, weights)| [tokens, weights]);
        quantized.flat_map(QuantizedTensor::tensors).chain(restored)
    }
}

/// [`RecipeBuffers`] without memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BufferSpecs {
    input: QuantizedSpec,
    weight: Option<QuantizedSpec>,
    grad_output: Option<QuantizedSpec>,
    /// Token rows, and the layer.
    restored: Option<(usize, Config)>,
}

impl BufferSpecs {
    fn of(&self, role: Role) -> Option<QuantizedSpec> {
        match role {
            Role::Input => Some(self.input),
            Role::Weight => self.weight,
            Role::GradOutput => self.grad_output,
        }
    }
}

impl RecipeSpec {
    /// Refuses buffers that lack room for something of a call with so many token rows, and for its
    /// gradients of tokens and weights.
    pub(in crate::grouped_linear) fn check_buffers(
        &self,
        rows: usize,
        [dx, dw]: [bool; 2],
    ) -> Result<()> {
        self.check_buffer(Role::Input, rows, [true, self.columnwise_tokens(dw)])?;
        if self.weights.is_none() {
            self.check_buffer(Role::Weight, rows, [true, self.columnwise_weights(dx)])?;
        }
        self.check_buffers_of_backward(rows, [dx, dw])
    }

    /// The same of what backward makes.
    pub(in crate::grouped_linear) fn check_buffers_of_backward(
        &self,
        rows: usize,
        [dx, dw]: [bool; 2],
    ) -> Result<()> {
        let Some(buffers) = self.buffers.filter(|_| dx || dw) else { return Ok(()) };
        if self.in_backward() {
            self.check_buffer(Role::GradOutput, rows, [dx, dw])?;
        }
        if !self.dequantizes() {
            return Ok(());
        }
        let what = "the restored tokens and weights";
        let Some((made, config)) = buffers.restored else { return Err(no_room(what)) };
        check_rows(made, rows)?;
        if config == self.config { Ok(()) } else { Err(no_room(what)) }
    }

    /// Refuses buffers without room for a tensor with these copies.
    fn check_buffer(
        &self,
        role: Role,
        rows: usize,
        [rowwise, columnwise]: [bool; 2],
    ) -> Result<()> {
        let Some(buffers) = &self.buffers else { return Ok(()) };
        let want = self.tensor(role, rows, [rowwise, columnwise]);
        let wanted = [(Direction::Rowwise, rowwise), (Direction::Columnwise, columnwise)];
        let has_all = |buffer: &QuantizedSpec| {
            wanted.iter().all(|&(direction, wanted)| !wanted || buffer.has(direction))
        };
        let name = match role {
            Role::Input => "the tokens",
            Role::Weight => "the weights",
            Role::GradOutput => "the output gradients",
        };
        let Some(buffer) = buffers.of(role).filter(has_all) else {
            return Err(no_room(&format!("all copies of {name}")));
        };
        check_room(name, buffer, want)
    }
}

impl LayerRecipe {
    /// Memory for a tensor with these copies: the buffers', if there are any, else new.
    pub(in crate::grouped_linear) fn open(
        &self,
        stream: &Stream,
        role: Role,
        rows: usize,
        copies: [bool; 2],
    ) -> Result<QuantizedTensor> {
        match self.room(role, rows, copies)? {
            Some(room) => Ok(room),
            None => QuantizedTensor::empty(stream, self.spec.tensor(role, rows, copies)),
        }
    }

    /// Notes that forward quantizes tokens into the buffers, if there are any; gives what it keeps
    /// there for the gradient of the weights, if that is wanted (`dw`).
    pub(in crate::grouped_linear) fn note_forward(&self, dw: bool) -> Option<Contents> {
        let buffers = self.buffers.as_ref()?;
        let copies = [true, self.spec.columnwise_tokens(dw)];
        let [rowwise, columnwise] = buffers.note(Role::Input, copies);
        match self.spec.kept_tokens().filter(|_| dw)? {
            Direction::Rowwise => rowwise,
            Direction::Columnwise => columnwise,
        }
    }

    /// Notes that backward quantizes tokens or output gradients into these copies of the buffers;
    /// gives the columnwise one, which the gradient of the weights reads.
    pub(in crate::grouped_linear) fn note_backward(
        &self,
        role: Role,
        copies: [bool; 2],
    ) -> Option<Contents> {
        let [_, columnwise] = self.buffers.as_ref()?.note(role, copies);
        columnwise
    }

    /// Notes that backward restores tokens in the buffers, and gives them.
    pub(in crate::grouped_linear) fn note_restored(&self) -> Option<Contents> {
        let buffers = self.buffers.as_ref().filter(|buffers| buffers.restored.is_some())?;
        Some(buffers.written.restored.note())
    }

    /// The buffers' memory for a tensor with these copies, if there are buffers.
    fn room(&self, role: Role, rows: usize, copies: [bool; 2]) -> Result<Option<QuantizedTensor>> {
        self.spec.check_buffer(role, rows, copies)?;
        let Some(buffer) = self.buffers.as_ref().and_then(|buffers| buffers.of(role)) else {
            return Ok(None);
        };
        match copies {
            [true, true] => Ok(buffer.clone()),
            [true, false] => buffer.only(Direction::Rowwise),
            [false, _] => buffer.only(Direction::Columnwise),
        }
        .map(Some)
    }
}

fn no_room(what: &str) -> Error {
    Error::invalid(format!(
        "the recipe's buffers were made for backward in another precision, or beside given weights, \
         and have no room for {what}; make them with RecipeBuffers::new of the recipe as it is now"
    ))
}

/// Refuses buffers of another number of token rows.
fn check_rows(rows: usize, wanted: usize) -> Result<()> {
    if rows == wanted {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the recipe's buffers were made for {rows} token rows, the token buffer has {wanted} \
         (fewer may belong to groups); make them with RecipeBuffers::new for {wanted} token rows"
    )))
}

/// Refuses buffers that were made for something else.
fn check_room(name: &str, own: QuantizedSpec, want: QuantizedSpec) -> Result<()> {
    if let (SourceShape::Tokens { rows, .. }, SourceShape::Tokens { rows: wanted, .. }) =
        (own.source, want.source)
    {
        check_rows(rows, wanted)?;
    }
    let matrix = |spec: QuantizedSpec| (spec.groups, spec.source, spec.format);
    let other = want.directions().find_map(|direction| {
        let forms = (own.form(direction)?, want.form(direction)?);
        (forms.0 != forms.1).then_some(forms)
    });
    match other {
        _ if matrix(own) != matrix(want) => Err(Error::invalid(format!(
            "the recipe's buffers were made for {} groups with {} columns of {name} in {}, {} with {} \
             in {} are needed; make them with RecipeBuffers::new of this recipe",
            own.groups,
            own.source.columns(),
            own.format,
            want.groups,
            want.source.columns(),
            want.format
        ))),
        Some((made, wanted)) => Err(Error::invalid(format!(
            "the recipe's buffers were made for {name} in Form::{made:?}, the recipe has \
             Form::{wanted:?}; make them with RecipeBuffers::new of the recipe as it is now"
        ))),
        None => Ok(()),
    }
}
