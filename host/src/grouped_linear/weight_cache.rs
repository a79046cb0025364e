//! Copies of master weights in the form that products read, made anew when the weights change.

use super::Config;
use super::functional::{CastArgs, cast};
use crate::backend::{Event, Stream};
use crate::error::{Error, Result};
use crate::plan::{CastProblem, Plan};
use crate::tensor::{DType, GroupedTensor, Tensor};

/// How weights are prepared for products, and what a [`WeightCache`] holds of them.
pub trait Prepare {
    /// What is held: handles to memory on a device.
    type Prepared;

    /// Memory for the prepared weights, on the stream's device; its addresses are those of every
    /// later [`Prepare::fill`]. Refuses what could not be filled there.
    ///
    /// # Errors
    /// Sizes or types that cannot be prepared on the device; out of memory.
    fn allocate(&self, stream: &Stream) -> Result<Self::Prepared>;

    /// Adds work to the stream that prepares `master` anew in the same memory, unless the flag
    /// `skip` (`i32`, `[1]`, on the device) is not zero when the work runs. Must allow to be
    /// recorded in a graph: it neither allocates nor waits.
    ///
    /// # Errors
    /// `master` does not fit; a driver failure. What is held is then unspecified.
    fn fill(
        &self,
        stream: &Stream,
        master: &GroupedTensor,
        skip: &Tensor,
        prepared: &mut Self::Prepared,
    ) -> Result<()>;
}

/// Casts master weights in FP32, packed or discrete, to the type of a layer, BF16 or FP16; the
/// copies are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastWeights {
    /// The layer that reads the copies.
    pub config: Config,
}

impl Prepare for CastWeights {
    type Prepared = GroupedTensor;

    fn allocate(&self, stream: &Stream) -> Result<GroupedTensor> {
        let output = self.config.dtype;
        if !matches!(output, DType::Bf16 | DType::F16) {
            let want = "bf16 or f16; a layer in f32 reads its master weights";
            return Err(Error::dtype("cached weights", output, want));
        }
        // A device without kernels refuses.
        let any = CastProblem { parts: 1, part_len: 1, input: DType::F32, output };
        Plan::new(any.into(), stream.device().target())?;
        GroupedTensor::packed(self.config.weights().empty(stream)?)
    }

    fn fill(
        &self,
        stream: &Stream,
        master: &GroupedTensor,
        skip: &Tensor,
        prepared: &mut GroupedTensor,
    ) -> Result<()> {
        let Config { groups, in_features, out_features, .. } = self.config;
        master.check("master weights", groups, &[out_features, in_features], stream)?;
        let Some(packed) = prepared.as_packed() else {
            return Err(Error::invalid(
                "prepared weights: discrete tensors were given; give those of CastWeights::allocate",
            ));
        };
        cast(stream, &CastArgs { source: master, skip: Some(skip) }, &mut packed.clone())
    }
}

/// What [`WeightCache::refresh`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// Work was added that makes the copies anew: no refresh had added any for this version.
    Launched,
    /// A refresh for this version has been here already: nothing was launched.
    Held,
}

/// Prepared copies of master weights, made anew only when the weights' version moves: in training,
/// once per step of the optimiser, however many microbatches and passes read them.
///
/// The copies have the same addresses as long as the cache lives. A layer over
/// [`WeightCache::weights`] sees every refresh without being built anew, and so does a graph that
/// has recorded it.
///
/// ```
/// use grouped_linear::{
///     CastWeights, Config, DType, Device, GroupedLinear, GroupedTensor, Refresh, Tensor,
///     WeightCache,
/// };
/// let stream = Device::cpu().stream()?;
/// let config = Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::Bf16 };
/// let mut master = Tensor::zeros(&stream, &[2, 4, 8], DType::F32)?;
/// let mut cache = WeightCache::new(&stream, CastWeights { config })?;
/// let layer = GroupedLinear::new(&stream, config, cache.weights().clone(), None)?;
///
/// let parameters = GroupedTensor::packed(master.clone())?;
/// assert_eq!(cache.refresh(&stream, &parameters, 0)?, Refresh::Launched);
/// assert_eq!(cache.refresh(&stream, &parameters, 0)?, Refresh::Held);
/// master.write_f32(&stream, &[1.5; 64])?; // a step of the optimiser
/// assert_eq!(cache.refresh(&stream, &parameters, 1)?, Refresh::Launched);
/// assert_eq!(layer.weights().group(1)?.to_f32(&stream)?, [1.5; 32]);
/// # Ok::<(), grouped_linear::Error>(())
/// ```
///
/// # Versions
///
/// A version names contents of the master weights; the caller counts. Versions are compared for
/// equality alone, and only with the last one given, so they may wrap around, go back or be hashes.
/// Weights that change under one version, as when a checkpoint of the same step is loaded, need
/// [`WeightCache::forget`].
///
/// # Graphs
///
/// [`WeightCache::update`] can be recorded. It is governed by a flag on the device, which says
/// whether the copies are of the present version: where they are, the recorded work writes nothing;
/// where they are not, it makes them anew and sets the flag. Before a replay, outside of the graph,
/// [`WeightCache::set_version`] clears the flag if the version has moved. So the first replay after
/// that prepares, the others skip, and replays that never happen are not counted.
///
/// # Failures
///
/// A refresh that was refused or could not be launched leaves the copies stale, whatever they hold:
/// the next one prepares. A kernel that fails on a device stops the device, and every later call
/// there says so.
///
/// # Streams
///
/// Work that [`WeightCache::refresh`], [`WeightCache::set_version`] and, outside of graphs,
/// [`WeightCache::update`] add waits for that of earlier calls of the three, on whichever stream;
/// once `refresh` has returned, work added to its stream reads the copies that were asked for. What
/// the cache cannot see must be ordered with [`Stream::wait`], as for any tensor: the former
/// copies' readers on other streams before a version that has moved, the optimiser that writes the
/// master weights, and replays. Replay on the stream that `set_version` was given, or on one that
/// waits for it.
#[derive(Debug)]
pub struct WeightCache<P: Prepare = CastWeights> {
    prepare: P,
    prepared: P::Prepared,
    /// `i32[1]`: not zero where `prepared` is of the present version. The truth, in stream order:
    /// only the device knows which replays have run.
    current: Tensor,
    /// `i32[1]`: one, to be copied to `current`.
    one: Tensor,
    /// The version given last; the flag speaks of it.
    version: Option<u64>,
    /// Whether this side has launched what sets the flag for that version. Replays may have set it
    /// without.
    launched: bool,
    /// Behind the last work that was added outside of graphs.
    last: Option<Event>,
}

impl<P: Prepare> WeightCache<P> {
    /// Memory for the prepared weights; what it holds is unspecified before the first refresh.
    ///
    /// # Errors
    /// Sizes or types that cannot be prepared on the stream's device; out of memory; work is being
    /// recorded.
    pub fn new(stream: &Stream, prepare: P) -> Result<Self> {
        let prepared = prepare.allocate(stream)?;
        let current = Tensor::zeros(stream, &[1], DType::I32)?;
        let one = Tensor::from_slice(stream, &[1], &[1i32])?;
        Ok(Self { prepare, prepared, current, one, version: None, launched: false, last: None })
    }

    /// The prepared weights; clones are handles to the same memory.
    pub fn prepared(&self) -> &P::Prepared {
        &self.prepared
    }

    /// The version given last.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// Prepares `master` unless that has been done for this version; then launches nothing.
    ///
    /// # Errors
    /// `master` does not fit; work is being recorded, see [`WeightCache::update`]; a driver
    /// failure.
    pub fn refresh(
        &mut self,
        stream: &Stream,
        master: &GroupedTensor,
        version: u64,
    ) -> Result<Refresh> {
        self.set_version(stream, version)?;
        self.wait(stream)?;
        if self.launched {
            return Ok(Refresh::Held);
        }
        self.update(stream, master)?;
        self.launched = true;
        Ok(Refresh::Launched)
    }

    /// Says that the copies shall be of this version: where it has moved, the next
    /// [`WeightCache::update`] on the device prepares anew, recorded or not. Launches at most the
    /// clearing of a flag.
    ///
    /// # Errors
    /// Work is being recorded: the graph would clear the flag at every replay; the stream belongs
    /// to another device; a driver failure.
    pub fn set_version(&mut self, stream: &Stream, version: u64) -> Result<()> {
        if stream.queue().is_capturing() {
            return Err(Error::unsupported(
                "the version of cached weights cannot be recorded in a graph; record \
                 WeightCache::update, and give the version before each replay",
            ));
        }
        self.current.check_device("cached weights", stream)?;
        if self.version == Some(version) {
            return Ok(());
        }
        self.wait(stream)?;
        // If the flag cannot be cleared, it speaks of no version.
        self.forget();
        self.current.fill_zero(stream)?;
        self.last = Some(stream.record()?);
        self.version = Some(version);
        Ok(())
    }

    /// Adds work that prepares `master` if, when it runs, the copies are not of the present
    /// version. The host decides nothing, so that this can be recorded in a graph.
    ///
    /// # Errors
    /// `master` does not fit; a driver failure.
    pub fn update(&mut self, stream: &Stream, master: &GroupedTensor) -> Result<()> {
        let eager = !stream.queue().is_capturing();
        if eager {
            self.wait(stream)?;
        }
        self.prepare.fill(stream, master, &self.current, &mut self.prepared)?;
        self.current.copy_from(stream, &self.one)?;
        if eager {
            self.last = Some(stream.record()?);
        }
        Ok(())
    }

    /// Forgets which version the copies are of: the next one given counts as moved, even if it is
    /// the same.
    pub fn forget(&mut self) {
        self.version = None;
        self.launched = false;
    }

    /// Orders the stream behind the last work that this cache has added.
    fn wait(&self, stream: &Stream) -> Result<()> {
        self.last.as_ref().map_or(Ok(()), |event| stream.wait(event))
    }
}

impl WeightCache<CastWeights> {
    /// The copies, packed, for [`GroupedLinear::new`](super::GroupedLinear::new).
    pub fn weights(&self) -> &GroupedTensor {
        &self.prepared
    }
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use ptx_emulator::Arch;

    use super::*;
    use crate::backend::{Device, EmulatorOptions};
    use crate::plan::KernelTarget;
    use crate::ptx;

    const CONFIG: Config =
        Config { groups: 2, in_features: 8, out_features: 4, dtype: DType::Bf16 };

    fn master(stream: &Stream) -> Result<GroupedTensor> {
        GroupedTensor::packed(Tensor::from_f32(stream, &[2, 4, 8], DType::F32, &[1.5; 64])?)
    }

    #[test]
    fn addresses_stay() -> Result<()> {
        let stream = Device::emulated(Arch::Sm90a)?.stream()?;
        let mut cache = WeightCache::new(&stream, CastWeights { config: CONFIG })?;
        let before = (cache.weights().addresses(), cache.current.address());
        for version in 0..4 {
            cache.refresh(&stream, &master(&stream)?, version)?;
            cache.forget();
        }
        assert_ne!(before.0, (0, 0));
        assert_eq!((cache.weights().addresses(), cache.current.address()), before);
        Ok(())
    }

    /// The kernel fails only when it runs; what was launched is known to have failed by the next
    /// call.
    #[test]
    fn a_cast_that_fails_is_not_counted() -> Result<()> {
        let module = ptx::module(KernelTarget::Sm90a, "quantize")?;
        let broken = module.ptx.replacen("\tld.param", "\ttrap;\n\tld.param", 1);
        let mut options = EmulatorOptions::new(Arch::Sm90a);
        options.replaced_modules = vec![("quantize".to_owned(), broken)];
        let stream = Device::emulated_with(options)?.stream()?;
        let mut cache = WeightCache::new(&stream, CastWeights { config: CONFIG })?;
        let master = master(&stream)?;
        for _ in 0..2 {
            let error = cache.refresh(&stream, &master, 1).expect_err("the kernel traps");
            assert!(error.emulator_report().is_some(), "{error}");
            assert!(!cache.launched);
        }
        Ok(())
    }

    #[test]
    fn streams_of_other_devices_are_refused() -> Result<()> {
        let (own, other) = (Device::cpu().stream()?, Device::emulated(Arch::Sm90a)?.stream()?);
        let mut cache = WeightCache::new(&own, CastWeights { config: CONFIG })?;
        let error = cache.refresh(&other, &master(&other)?, 1).expect_err("not its device");
        assert!(error.is_invalid_argument() && error.to_string().contains("cached weights"));
        let error = cache.refresh(&own, &master(&other)?, 1).expect_err("not its device");
        assert!(error.is_invalid_argument() && error.to_string().contains("master weights"));
        Ok(())
    }
}
