//! The text: where it comes from, which part is held out, and which bytes make a batch.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::random::Random;

/// The project's documentation and sources, gathered by the build script.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/text.bin"));

/// A text whose last tenth is held out.
pub struct Text {
    bytes: Vec<u8>,
    context: usize,
    /// Where it comes from, for people.
    pub source: String,
}

/// Tells one text from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextIdentity {
    /// Length in bytes.
    pub bytes: usize,
    /// CRC-32.
    pub checksum: u32,
}

/// Bytes to predict, each with the bytes before it.
pub struct Batch {
    /// `[rows, context]`, oldest byte first.
    pub contexts: Vec<u8>,
    /// `[rows]`.
    pub targets: Vec<u8>,
}

impl Text {
    /// The files one after the other, or the project's own text where there are none.
    pub fn load(files: &[PathBuf], context: usize) -> Result<Self> {
        if files.is_empty() {
            let source = "the project's documentation and sources".to_owned();
            return Self::new(EMBEDDED.to_vec(), context, source);
        }
        let mut bytes = Vec::new();
        for file in files {
            bytes.extend(
                std::fs::read(file).with_context(|| format!("--input {}", file.display()))?,
            );
        }
        let names: Vec<_> = files.iter().map(|file| file_name(file)).collect();
        Self::new(bytes, context, names.join(", "))
    }

    /// A text whose bytes are predicted from the `context` bytes before them.
    pub fn new(bytes: Vec<u8>, context: usize, source: String) -> Result<Self> {
        let least = 20 * (context + 1);
        ensure!(
            bytes.len() >= least,
            "the text has {} bytes; with --context {context} at least {least} are needed",
            bytes.len()
        );
        Ok(Self { bytes, context, source })
    }

    /// Tells this text from another.
    pub fn identity(&self) -> TextIdentity {
        TextIdentity { bytes: self.bytes.len(), checksum: crc32fast::hash(&self.bytes) }
    }

    /// The part that training sees.
    pub fn training_bytes(&self) -> &[u8] {
        &self.bytes[..self.held_out_start()]
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes held out.
    pub fn held_out_len(&self) -> usize {
        self.bytes.len() - self.held_out_start()
    }

    fn held_out_start(&self) -> usize {
        self.bytes.len() - self.bytes.len() / 10
    }

    /// Positions of held-out bytes, evenly spread, at most `most` of them.
    pub fn held_out_positions(&self, most: usize) -> Vec<usize> {
        let (start, available) = (self.held_out_start(), self.held_out_len());
        let count = available.min(most);
        (0..count).map(|index| start + index * available / count).collect()
    }

    /// The bytes at these positions and the bytes before them.
    pub fn batch(&self, positions: &[usize]) -> Batch {
        let mut contexts = Vec::with_capacity(positions.len() * self.context);
        for &position in positions {
            contexts.extend(&self.bytes[position - self.context..position]);
        }
        let targets = positions.iter().map(|&position| self.bytes[position]).collect();
        Batch { contexts, targets }
    }
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Chooses the training batches: every position once per epoch, in an order that depends on the
/// seed and the epoch alone, so that a resumed run needs no more than its step.
pub struct Sampler {
    seed: u64,
    order: Vec<usize>,
    epoch: Option<usize>,
}

impl Sampler {
    /// The batches of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, order: Vec::new(), epoch: None }
    }

    /// Batch number `step`.
    pub fn batch(&mut self, text: &Text, step: usize, rows: usize) -> Batch {
        let available = text.held_out_start() - text.context;
        let positions: Vec<usize> = (step * rows..(step + 1) * rows)
            .map(|index| {
                self.enter(index / available, text);
                self.order[index % available]
            })
            .collect();
        text.batch(&positions)
    }

    fn enter(&mut self, epoch: usize, text: &Text) {
        if self.epoch != Some(epoch) {
            self.order = (text.context..text.held_out_start()).collect();
            Random::new(self.seed, 1 + epoch as u64).shuffle(&mut self.order);
            self.epoch = Some(epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize, context: usize) -> Text {
        Text::new((0..length).map(|i| (i % 251) as u8).collect(), context, "test".into()).unwrap()
    }

    #[test]
    fn the_default_text_is_there() {
        let text = Text::load(&[], 16).unwrap();
        assert!(text.bytes().len() > 10_000);
    }

    #[test]
    fn an_epoch_sees_every_training_byte_once_and_no_held_out_one() {
        let text = text(200, 4);
        let mut sampler = Sampler::new(5);
        let mut seen: Vec<u8> = (0..8).flat_map(|s| sampler.batch(&text, s, 22).targets).collect();
        seen.sort_unstable();
        assert_eq!(seen, (4..180).map(|i| i as u8).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_depends_on_seed_and_step_alone() {
        let text = text(200, 4);
        let mut straight = Sampler::new(5);
        for step in 0..30 {
            let expected = Sampler::new(5).batch(&text, step, 22).contexts;
            assert_eq!(straight.batch(&text, step, 22).contexts, expected, "step {step}");
        }
    }

    #[test]
    fn contexts_are_the_bytes_before_the_target() {
        let text = text(200, 4);
        let batch = text.batch(&[10, 181]);
        assert_eq!(batch.contexts, [6, 7, 8, 9, 177, 178, 179, 180]);
        assert_eq!(batch.targets, [10, 181]);
        assert_eq!(text.held_out_positions(4), [180, 185, 190, 195]);
    }

    #[test]
    fn a_text_too_short_is_refused() {
        let error = Text::new(vec![0; 50], 16, "test".into()).err().unwrap().to_string();
        assert!(error.contains("has 50 bytes") && error.contains("340"), "{error}");
    }
}
