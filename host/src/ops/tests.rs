//! When a pipeline lets go of memory, which only this crate can see.

use std::sync::{Arc, Mutex, Weak};

use super::names::X;
use super::{
    ForwardArguments, Function, FunctionSpecs, Gradient, Gradients, InputSpecs, Inputs, Named,
    OpId, Selection, Sequential, Sinks,
};
use crate::plan::{Execution, Target};
use crate::tensor::{HostMemory, Memory};
use crate::{DType, Device, Result, Stream, Tensor};

/// The identity; keeps nothing, and notes the memory of its inputs, of the output gradients in
/// backward.
#[derive(Clone, Debug, Default)]
struct Probe(Arc<Mutex<Vec<Weak<HostMemory>>>>);

impl Probe {
    /// Nothing that any of them noted before is left; notes one more.
    fn note(&self, tensor: &Tensor) {
        let mut noted = self.0.lock().expect("not poisoned");
        assert!(noted.iter().all(|memory| memory.strong_count() == 0), "{noted:?}");
        match tensor.memory() {
            Memory::Host(memory) => noted.push(Arc::downgrade(memory)),
            Memory::Device(_) => panic!("the CPU has host memory"),
        }
    }
}

impl Function for Probe {
    type Saved = ();

    fn kind(&self) -> &'static str {
        "probe"
    }

    fn inputs(&self) -> &'static [&'static str] {
        &[X]
    }

    fn gradients(&self) -> &'static [&'static str] {
        &[X]
    }

    fn infer(&self, inputs: &InputSpecs, needs: &Selection) -> Result<FunctionSpecs> {
        let output = inputs.tensor(X)?.clone();
        let dx = needs.wants(X).then(|| (X, output.clone()));
        Ok(FunctionSpecs { output, saved: Named::new(), gradients: dx.into_iter().collect() })
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
        self.note(inputs.tensor(X)?);
        output.copy_from(stream, inputs.tensor(X)?)
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

    fn backward(&self, stream: &Stream, (): (), dy: &Tensor, _: Sinks<'_>) -> Result<Gradients> {
        self.note(dy);
        let mut dx = Tensor::empty(stream, dy.shape(), dy.dtype())?;
        dx.copy_from(stream, dy)?;
        Ok(Gradients::new().with(X, Gradient::Tensor(dx)))
    }
}

#[test]
fn what_flows_is_released_as_soon_as_it_has_been_read() -> Result<()> {
    let stream = Device::cpu().stream()?;
    let (probe, mut pipeline) = (Probe::default(), Sequential::new());
    let ids: Vec<OpId> = (0..4).map(|_| pipeline.push(probe.clone())).collect();
    let x = || Tensor::from_slice(&stream, &[2], &[1.0f32, 2.0]);
    let (y, saved) = pipeline.forward(&stream, x()?, ForwardArguments::new())?;
    assert_eq!(probe.0.lock().expect("not poisoned").len(), 4);
    drop(y);
    let grads = pipeline.backward(&stream, saved, x()?, Default::default())?;
    assert_eq!(probe.0.lock().expect("not poisoned").len(), 8);
    let dx = grads.get(ids[0], X).and_then(Gradient::tensor).expect("dx");
    assert_eq!((dx.to_f32(&stream)?, dx.dtype()), (vec![1.0, 2.0], DType::F32));
    Ok(())
}

#[test]
fn pipelines_go_from_thread_to_thread() {
    fn sendable<T: Send>() {}
    fn shareable<T: Sync>() {}
    sendable::<Sequential>();
    shareable::<Sequential>();
    sendable::<super::SavedSequence>();
    sendable::<super::SequenceGrads>();
}
