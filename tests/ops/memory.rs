//! What a pipeline keeps, and when it lets go of it.

use std::sync::Arc;

use grouped_linear::ops::{
    BackwardArguments, ForwardArguments, Function, FunctionSpecs, Gradient, Gradients, InputSpecs,
    Inputs, Kept, Named, SavedState, Selection, Sequential, Sinks, names,
};
use grouped_linear::plan::{Execution, Target};
use grouped_linear::{Result, Stream, Tensor, TensorSpec};

use crate::engines::Test;
use crate::pipeline::Mlp;
use crate::relu::Relu;
use crate::{ROWS, splits};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("only what is needed is kept", |e, s| kept(s).expect(e)),
    ("an output that cannot be allocated is refused with its operation", |e, s| {
        too_large(s).expect(e)
    }),
    ("what is kept is released as backward goes", |e, s| released(s).expect(e)),
];

const K: usize = 8;
const H: usize = 16;

fn kept(stream: &Stream) -> Result<()> {
    let mlp = Mlp::new(stream)?;
    let [up, _, down] = mlp.ids;
    let bytes = |arguments| {
        let (_, saved) = mlp.pipeline.forward(stream, Mlp::x(stream)?, arguments)?;
        Ok::<_, grouped_linear::Error>(saved.activation_bytes())
    };
    let (x, active) = (4 * ROWS * K, 4 * ROWS * H);
    // Relu and the layer after it keep one tensor.
    assert_eq!(bytes(mlp.arguments())?, x + active);
    let only = |name| Selection::Only(vec![name]);
    // The first layer keeps no tokens for its bias.
    assert_eq!(bytes(mlp.arguments().needs(up, only(names::BIAS)))?, active);
    let frozen = mlp.arguments().needs(up, Selection::none());
    assert_eq!(bytes(frozen.needs(down, only(names::WEIGHTS)))?, active);
    let inference =
        ForwardArguments::without_gradients().splits(up, &splits()).splits(down, &splits());
    assert_eq!(bytes(inference)?, 0);
    let all_frozen = mlp.arguments().needs(up, Selection::none()).needs(down, Selection::none());
    assert_eq!(bytes(all_frozen)?, 0);
    Ok(())
}

/// The identity, which sees in backward whether what the next one kept is gone.
#[derive(Debug)]
struct Watch {
    own: Arc<()>,
    next: Option<Arc<()>>,
}

#[derive(Debug)]
struct Token(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl SavedState for Token {
    fn kept(&self) -> Kept<'_> {
        Kept::default()
    }
}

impl Function for Watch {
    type Saved = Token;

    fn kind(&self) -> &'static str {
        "watch"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn gradients(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs> {
        Relu.infer(inputs, needs)
    }

    fn unsupported_reason(
        &self,
        _: Target,
        _: &InputSpecs,
        _: &Selection,
        _: Execution,
    ) -> Option<String> {
        None
    }

    fn forward(&self, stream: &Stream, inputs: &Inputs, output: &mut Tensor) -> Result<()> {
        output.copy_from(stream, inputs.tensor(names::X)?)
    }

    fn save(&self, _: &Inputs, _: &Tensor, _: &Selection) -> Result<Token> {
        Ok(Token(self.own.clone()))
    }

    fn check_backward(
        &self,
        _: &Stream,
        _: &Token,
        _: Option<&Tensor>,
        _: &mut Sinks<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn backward(&self, _: &Stream, _: Token, dy: &Tensor, _: Sinks<'_>) -> Result<Gradients> {
        if let Some(next) = &self.next {
            assert_eq!(Arc::strong_count(next), 2, "the operation's, and this one's");
        }
        Ok(Gradients::new().with(names::X, Gradient::Tensor(dy.clone())))
    }
}

fn released(stream: &Stream) -> Result<()> {
    let (first, second) = (Arc::new(()), Arc::new(()));
    let mut pipeline = Sequential::new();
    let id = pipeline.push(Watch { own: first.clone(), next: Some(second.clone()) });
    drop(first);
    pipeline.push(Watch { own: second, next: None });
    let x = Mlp::x(stream)?;
    let (y, saved) = pipeline.forward(stream, x.clone(), ForwardArguments::new())?;
    let grads = pipeline.backward(stream, saved, y, BackwardArguments::new())?;
    let dx = grads.get(id, names::X).and_then(Gradient::tensor).expect("dx");
    assert_eq!(dx.to_f32(stream)?, x.to_f32(stream)?);
    Ok(())
}

/// Its output has more elements than there are addresses.
#[derive(Debug)]
struct Endless;

impl Function for Endless {
    type Saved = ();

    fn kind(&self) -> &'static str {
        "endless"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &[names::X]
    }

    fn gradients(&self) -> &'static [&'static str] {
        &[]
    }

    fn infer(&self, inputs: &InputSpecs, _: &Selection) -> Result<FunctionSpecs> {
        let output = TensorSpec { shape: vec![usize::MAX], ..inputs.tensor(names::X)?.clone() };
        Ok(FunctionSpecs { output, saved: Named::new(), gradients: Named::new() })
    }

    fn unsupported_reason(
        &self,
        _: Target,
        _: &InputSpecs,
        _: &Selection,
        _: Execution,
    ) -> Option<String> {
        None
    }

    fn forward(&self, _: &Stream, _: &Inputs, _: &mut Tensor) -> Result<()> {
        panic!("there is no output")
    }

    fn save(&self, _: &Inputs, _: &Tensor, _: &Selection) -> Result<()> {
        Ok(())
    }

    fn check_backward(
        &self,
        _: &Stream,
        (): &(),
        _: Option<&Tensor>,
        _: &mut Sinks<'_>,
    ) -> Result<()> {
        Ok(())
    }

    fn backward(&self, _: &Stream, (): (), _: &Tensor, _: Sinks<'_>) -> Result<Gradients> {
        Ok(Gradients::new())
    }
}

fn too_large(stream: &Stream) -> Result<()> {
    let mut pipeline = Sequential::new();
    pipeline.push(Relu);
    pipeline.push(Endless);
    let arguments = ForwardArguments::without_gradients();
    let error = pipeline.forward(stream, Mlp::x(stream)?, arguments).unwrap_err();
    assert!(error.to_string().starts_with("operation 1 (endless): tensor: shape"), "{error}");
    Ok(())
}
