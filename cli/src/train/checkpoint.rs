//! Checkpoints: weights, moments, what recipes remember, step and settings in one safetensors file
//! that is checked in full before anything of it is used: a checksum covers the settings and the
//! tensors, and what the settings ask for must be what the file holds before any memory is asked
//! for.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};

use super::args::Config;
use super::data::TextIdentity;
use super::files;
use super::memories::{Memories, Memory, Values};
use super::parameter::Parameter;

const PROGRAM: &str = "grouped-linear train";
const FORMAT: &str = "2";
const ADVICE: &str = "resume from another checkpoint, or start anew without --resume \
                      (the file will be kept beside the new one)";

// Tensors are copied as bytes, and safetensors files are little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

/// What a checkpoint says besides its tensors. Batches follow from the seed and the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: usize,
    /// Settings of the run.
    pub config: Config,
    /// The text that it learned from.
    pub text: TextIdentity,
}

/// Replaces the checkpoint at `path`.
pub fn save(
    path: &Path,
    state: &State,
    parameters: &[&mut Parameter],
    memories: &Memories,
) -> Result<()> {
    let parameters = parameters.iter().flat_map(|parameter| {
        parts(parameter).map(|(name, values)| {
            (name, Dtype::F32, &*parameter.shape, bytemuck::cast_slice(values))
        })
    });
    let memories = memories.iter().map(|(name, Memory { shape, values })| {
        (name.clone(), stored_dtype(values), &**shape, values.bytes())
    });
    let mut tensors: Vec<(String, Dtype, &[usize], &[u8])> = parameters.chain(memories).collect();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            Ok((name.as_str(), TensorView::new(*dtype, shape.to_vec(), bytes)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let state = serde_json::to_string(state)?;
    let checksum = checksum(&state, &views);
    let metadata = HashMap::from([
        ("program".to_owned(), PROGRAM.to_owned()),
        ("format".to_owned(), FORMAT.to_owned()),
        ("state".to_owned(), state),
        ("checksum".to_owned(), checksum),
    ]);
    files::replace(path, &serialize(views, Some(metadata))?)
}

/// The first tensor that holds NaN or infinity: a checkpoint with it is refused when it is read.
pub fn not_finite(parameters: &[&mut Parameter]) -> Option<String> {
    let mut tensors = parameters.iter().flat_map(|parameter| parts(parameter));
    tensors.find(|(_, values)| !all_finite(values)).map(|(name, _)| name)
}

fn all_finite(values: &[f32]) -> bool {
    values.par_iter().all(|value| value.is_finite())
}

/// A checkpoint whose header and checksum have been checked.
pub struct Checkpoint {
    bytes: Vec<u8>,
    /// What it says besides its tensors.
    pub state: State,
}

impl Checkpoint {
    /// Reads and checks the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| {
            format!("--resume: no checkpoint could be read from {}", path.display())
        })?;
        let checked = Self::check(&bytes).and_then(|state| {
            check_size(&bytes, &state.config)?;
            Ok(state)
        });
        let state = checked.map_err(|error| refusal(path, &error))?;
        Ok(Self { bytes, state })
    }

    fn check(bytes: &[u8]) -> Result<State> {
        let broken = |error| anyhow!("it is not a whole safetensors file ({error})");
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        ensure!(
            metadata.get("program").map(String::as_str) == Some(PROGRAM),
            "it is a safetensors file, but `{PROGRAM}` did not write it"
        );
        let format = metadata.get("format").map_or("none", String::as_str);
        ensure!(
            format == FORMAT,
            "its format version is {format}, this program reads version {FORMAT}"
        );
        let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
        let mut views: Vec<(&str, TensorView<'_>)> = tensors.iter().collect();
        views.sort_by_key(|(name, _)| *name);
        let state = metadata.get("state").context("it is damaged: it has no settings")?;
        let found = checksum(state, &views);
        ensure!(
            metadata.get("checksum") == Some(&found),
            "it is damaged: its settings and tensors have checksum {found}, {} was written",
            metadata.get("checksum").map_or("none", String::as_str)
        );
        let state: State = serde_json::from_str(state)
            .map_err(|error| anyhow!("its settings cannot be read ({error})"))?;
        state.config.validate().map_err(|error| anyhow!("its settings are invalid: {error}"))?;
        Ok(state)
    }

    /// Fills weights and moments of a model made from the checkpoint's settings, and what its
    /// recipes remember.
    pub fn restore(
        &self,
        path: &Path,
        parameters: &mut [&mut Parameter],
        memories: &mut Memories,
    ) -> Result<()> {
        self.fill(parameters, memories).map_err(|error| refusal(path, &error))
    }

    fn fill(&self, parameters: &mut [&mut Parameter], memories: &mut Memories) -> Result<()> {
        let tensors = SafeTensors::deserialize(&self.bytes)?;
        let mut left: BTreeSet<&str> = tensors.names().into_iter().collect();
        for parameter in parameters {
            let [values, first, second] = parts(parameter).map(|(name, _)| name);
            parameter.values = read_finite(&tensors, &values, &parameter.shape)?;
            parameter.first_moment = read_finite(&tensors, &first, &parameter.shape)?;
            parameter.second_moment = read_finite(&tensors, &second, &parameter.shape)?;
            for name in [values, first, second] {
                left.remove(name.as_str());
            }
        }
        for (name, Memory { shape, values }) in memories {
            let dtype = stored_dtype(values);
            match values {
                // A history may hold infinity: what a tensor with it leaves behind.
                Values::F32(values) => *values = read(&tensors, name, dtype, shape)?,
                Values::I64(values) => *values = read(&tensors, name, dtype, shape)?,
            }
            left.remove(name.as_str());
        }
        if let Some(name) = left.first() {
            bail!("it has a tensor {name}, which the model of its settings has not");
        }
        Ok(())
    }
}

/// Refuses settings that ask for more or less than the file has.
fn check_size(bytes: &[u8], config: &Config) -> Result<()> {
    let found: usize =
        SafeTensors::deserialize(bytes)?.iter().map(|(_, tensor)| tensor.data().len()).sum();
    // Each weight has two moments.
    let weights = config.weight_count();
    let (found, needed) = (found as u64, weights * 3 * size_of::<f32>() as u64);
    let memories = config.memory_bytes();
    ensure!(
        memories == 0 || found != needed,
        "it does not hold what its recipe remembers from step to step, which has {memories} bytes"
    );
    ensure!(
        found == needed + memories,
        "its settings ask for {weights} weights, whose tensors have {needed} bytes, and {memories} \
         bytes that recipes remember; those of the file have {found}"
    );
    Ok(())
}

fn refusal(path: &Path, reason: &anyhow::Error) -> anyhow::Error {
    anyhow!("the checkpoint {} was refused: {reason}; {ADVICE}", path.display())
}

fn parts(parameter: &Parameter) -> [(String, &[f32]); 3] {
    let name = &parameter.name;
    [
        (name.clone(), &parameter.values),
        (format!("{name}.first_moment"), &parameter.first_moment),
        (format!("{name}.second_moment"), &parameter.second_moment),
    ]
}

fn stored_dtype(values: &Values) -> Dtype {
    match values {
        Values::F32(_) => Dtype::F32,
        Values::I64(_) => Dtype::I64,
    }
}

fn read_finite(tensors: &SafeTensors<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let values: Vec<f32> = read(tensors, name, Dtype::F32, shape)?;
    ensure!(all_finite(&values), "tensor {name} holds NaN or infinity");
    Ok(values)
}

/// Elements of the Rust type that is `dtype`.
fn read<T: bytemuck::Pod>(
    tensors: &SafeTensors<'_>,
    name: &str,
    dtype: Dtype,
    shape: &[usize],
) -> Result<Vec<T>> {
    let tensor = tensors.tensor(name).map_err(|_| anyhow!("tensor {name} is missing"))?;
    ensure!(
        tensor.dtype() == dtype,
        "tensor {name} has element type {:?}, {dtype:?} is needed",
        tensor.dtype()
    );
    ensure!(
        tensor.shape() == shape,
        "tensor {name} has shape {:?}, {shape:?} is needed",
        tensor.shape()
    );
    Ok(bytemuck::pod_collect_to_vec(tensor.data()))
}

/// CRC-32 of the settings and the tensors, which are sorted by name. Lengths stand between the
/// parts, so that no byte can move from one to the next.
fn checksum(state: &str, tensors: &[(&str, TensorView<'_>)]) -> String {
    let mut hasher = crc32fast::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(state.as_bytes());
    for (name, tensor) in tensors {
        part(name.as_bytes());
        part(format!("{:?} {:?}", tensor.dtype(), tensor.shape()).as_bytes());
        part(tensor.data());
    }
    format!("{:08x}", hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::parse;
    use super::super::parameter::Decay;
    use super::*;

    fn state() -> State {
        let text = TextIdentity { bytes: 9, checksum: 7 };
        State { step: 3, config: parse(&[]).config, text }
    }

    fn parameter(shape: &[usize]) -> Parameter {
        let count = shape.iter().product::<usize>();
        let mut parameter = Parameter::constant("w".into(), shape, Decay::No, 0.5);
        parameter.first_moment = (0..count).map(|i| i as f32 - 1.5).collect();
        parameter.second_moment = (0..count).map(|i| i as f32 * 1e-20).collect();
        parameter
    }

    /// What a recipe could remember: infinity, and a seed above all `i64`.
    fn memories() -> Memories {
        let values = [Values::F32(vec![f32::INFINITY, 0.5]), Values::I64(vec![-7, 1 << 40])];
        let [scales, random] = values.map(|values| Memory { shape: vec![2], values });
        [("l.scale".to_owned(), scales), ("l.random".to_owned(), random)].into()
    }

    fn empty_memories() -> Memories {
        let mut memories = memories();
        for memory in memories.values_mut() {
            memory.values = match memory.values {
                Values::F32(_) => Values::F32(vec![]),
                Values::I64(_) => Values::I64(vec![]),
            };
        }
        memories
    }

    fn saved(parameter: &mut Parameter) -> Vec<u8> {
        saved_with(parameter, &memories())
    }

    fn saved_with(parameter: &mut Parameter, memories: &Memories) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        save(&path, &state(), &[parameter], memories).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn what_was_saved_comes_back() {
        let mut parameter = parameter(&[2, 3]);
        let bytes = saved(&mut parameter);
        let checkpoint = Checkpoint { state: Checkpoint::check(&bytes).unwrap(), bytes };
        assert_eq!(checkpoint.state, state());
        let mut other = Parameter::constant("w".into(), &[2, 3], Decay::No, 0.0);
        let mut others = empty_memories();
        checkpoint.restore(Path::new("c"), &mut [&mut other], &mut others).unwrap();
        assert_eq!(others, memories());
        assert_eq!(other.values, parameter.values);
        assert_eq!(other.first_moment, parameter.first_moment);
        assert_eq!(other.second_moment, parameter.second_moment);
    }

    /// Wherever it lies: in a tensor, a setting, the structure of the header or its padding.
    #[test]
    fn every_flipped_bit_and_every_cut_is_refused_with_the_reason() {
        let bytes = saved(&mut parameter(&[2, 3]));
        let reason = |bytes: &[u8]| Checkpoint::check(bytes).unwrap_err().to_string();
        let reasons =
            ["not a whole safetensors file", "did not write it", "format version is", "is damaged"];
        for at in 0..bytes.len() {
            let flips = (0..8).map(|bit| 1 << bit).chain([0x41, 0xff]);
            for flip in flips {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let found = reason(&damaged);
                assert!(reasons.iter().any(|r| found.contains(r)), "byte {at} ^ {flip}: {found}");
            }
            assert!(reason(&bytes[..at]).contains(reasons[0]), "cut at {at}");
        }
    }

    #[test]
    fn no_byte_moves_between_settings_and_tensors() {
        let view = || TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
        let other = TensorView::new(Dtype::F32, vec![1, 1], &[0; 4]).unwrap();
        let sums = [
            checksum("ab", &[("c", view())]),
            checksum("a", &[("bc", view())]),
            checksum("ab", &[("c", other)]),
            checksum("ab", &[("c", view()), ("", view())]),
        ];
        assert_eq!(sums.iter().collect::<BTreeSet<_>>().len(), sums.len(), "{sums:?}");
    }

    /// A file that is whole, but whose settings ask for more than it has, or than any machine has.
    #[test]
    fn settings_are_compared_with_the_file_before_memory_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        for flags in [&["--hidden=16384", "--experts=4096", "--blocks=256"][..], &[]] {
            let state = State { config: parse(flags).config, ..state() };
            save(&path, &state, &[&mut parameter(&[2, 3])], &Memories::new()).unwrap();
            let error = Checkpoint::read(&path).err().unwrap().to_string();
            assert!(
                error.contains("those of the file have 72") && error.contains(ADVICE),
                "{error}"
            );
        }
    }

    #[test]
    fn foreign_files_are_refused_with_the_reason() {
        let reason = |bytes: &[u8]| Checkpoint::check(bytes).unwrap_err().to_string();
        assert!(reason(b"not a checkpoint").contains("not a whole safetensors file"));
        let view = TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
        let foreign = serialize([("w", &view)], None).unwrap();
        assert!(reason(&foreign).contains("did not write it"));
        let metadata = HashMap::from([
            ("program".to_owned(), PROGRAM.to_owned()),
            ("format".to_owned(), "3".to_owned()),
        ]);
        let newer = serialize([("w", &view)], Some(metadata)).unwrap();
        assert!(reason(&newer).contains("format version is 3"));
    }

    #[test]
    fn tensors_that_do_not_fit_are_refused_with_the_reason() {
        let reason = |mut saved_one: Parameter, mut wanted: Vec<Parameter>| {
            let bytes = saved(&mut saved_one);
            let checkpoint = Checkpoint { state: Checkpoint::check(&bytes).unwrap(), bytes };
            let mut wanted: Vec<&mut Parameter> = wanted.iter_mut().collect();
            let restored = checkpoint.restore(Path::new("c"), &mut wanted, &mut memories());
            let error = restored.unwrap_err().to_string();
            assert!(error.contains("was refused") && error.contains(ADVICE), "{error}");
            error
        };
        let other = Parameter::constant("v".into(), &[6], Decay::No, 0.0);
        assert!(reason(parameter(&[6]), vec![parameter(&[2, 3])]).contains("shape [6], [2, 3]"));
        assert!(reason(parameter(&[6]), vec![other]).contains("tensor v is missing"));
        assert!(reason(parameter(&[6]), vec![]).contains("has a tensor w"));
        let mut infinite = parameter(&[6]);
        infinite.values[4] = f32::INFINITY;
        assert!(reason(infinite, vec![parameter(&[6])]).contains("w holds NaN or infinity"));
    }

    /// What reading refuses is found before it is saved.
    #[test]
    fn numbers_that_are_not_finite_are_found_in_weights_and_moments() {
        let found = |change: fn(&mut Parameter)| {
            let mut parameter = parameter(&[2, 3]);
            change(&mut parameter);
            not_finite(&[
                &mut Parameter::constant("v".into(), &[2], Decay::No, 1.0),
                &mut parameter,
            ])
        };
        assert_eq!(found(|_| {}), None);
        let name = |change| found(change).unwrap();
        assert_eq!(name(|w| w.values[5] = f32::NAN), "w");
        assert_eq!(name(|w| w.first_moment[0] = f32::NEG_INFINITY), "w.first_moment");
        assert_eq!(name(|w| w.second_moment[3] = f32::INFINITY), "w.second_moment");
        // Of a gradient nothing is kept.
        assert_eq!(found(|w| w.gradient[0] = f32::NAN), None);
    }

    #[test]
    fn memories_that_do_not_fit_are_refused_with_the_reason() {
        let reason = |change: fn(&mut Memories)| {
            let mut memories = memories();
            change(&mut memories);
            let bytes = saved_with(&mut parameter(&[6]), &memories);
            let checkpoint = Checkpoint { state: Checkpoint::check(&bytes).unwrap(), bytes };
            let (mut parameter, mut wanted) = (parameter(&[6]), empty_memories());
            let restored = checkpoint.restore(Path::new("c"), &mut [&mut parameter], &mut wanted);
            let error = restored.unwrap_err().to_string();
            assert!(error.contains("was refused") && error.contains(ADVICE), "{error}");
            error
        };
        let missing = reason(|memories| drop(memories.remove("l.random")));
        assert!(missing.contains("tensor l.random is missing"), "{missing}");
        let other = reason(|memories| {
            memories.insert("k.scale".to_owned(), memories["l.scale"].clone());
        });
        assert!(other.contains("has a tensor k.scale, which the model"), "{other}");
        let shape = reason(|memories| {
            memories.insert(
                "l.scale".to_owned(),
                Memory { shape: vec![1, 2], values: Values::F32(vec![1.0; 2]) },
            );
        });
        assert!(shape.contains("tensor l.scale has shape [1, 2], [2] is needed"), "{shape}");
        let dtype = reason(|memories| {
            memories.insert(
                "l.scale".to_owned(),
                Memory { shape: vec![2], values: Values::I64(vec![1; 2]) },
            );
        });
        assert!(dtype.contains("l.scale has element type I64, F32 is needed"), "{dtype}");
    }

    /// As those of earlier versions.
    #[test]
    fn a_checkpoint_without_memories_is_refused_where_its_recipe_has_some() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.safetensors");
        let cases = [
            ("none", None),
            ("mxfp8", None),
            ("delayed", Some(2 * 2 * 3 * 1025 * 4 * 4)),
            ("nvfp4", Some(64)),
        ];
        for (recipe, bytes) in cases {
            let flags = ["--hidden=32", "--experts=4", "--context=2", "--embedding=16"];
            let config = parse(&[&flags[..], &["--recipe", recipe]].concat()).config;
            let mut parameter = parameter(&[config.weight_count() as usize]);
            save(&path, &State { config, ..state() }, &[&mut parameter], &Memories::new()).unwrap();
            let read = Checkpoint::read(&path);
            let Some(bytes) = bytes else {
                assert!(read.is_ok(), "{recipe}");
                continue;
            };
            let error = read.err().unwrap().to_string();
            let reason = format!("its recipe remembers from step to step, which has {bytes} bytes");
            assert!(error.contains(&reason) && error.contains(ADVICE), "{error}");
        }
    }
}
