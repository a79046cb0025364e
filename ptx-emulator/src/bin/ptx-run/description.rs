//! The launch description: what the TOML file may say.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::failure::{Failure, Result};
use crate::numbers::{Number, Type};

/// A whole description. Paths are relative to its folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The PTX file.
    pub ptx: Option<PathBuf>,
    /// The architecture; without it, the oldest one that runs the PTX.
    pub arch: Option<Spanned<String>>,
    /// Seed of the order of events.
    pub seed: Option<u64>,
    /// Multiprocessors of the machine.
    pub multiprocessors: Option<u32>,
    /// Warp instructions after which a launch is reported as endless.
    pub instruction_limit: Option<u64>,
    /// Memory that exists before the first launch, and variables of the module.
    #[serde(default, rename = "buffer")]
    pub buffers: Vec<Buffer>,
    /// What is run, one after another.
    #[serde(rename = "launch")]
    pub launches: Vec<Launch>,
    /// What is printed after the last launch.
    #[serde(default, rename = "print")]
    pub prints: Vec<Print>,
    /// What is written to files after the last launch.
    #[serde(default, rename = "dump")]
    pub dumps: Vec<Dump>,
    /// What must hold after the last launch.
    #[serde(default, rename = "expect")]
    pub expectations: Vec<Expect>,
    /// The text of the file, to find lines in.
    #[serde(skip)]
    source: Source,
}

/// Where the description comes from.
#[derive(Default)]
struct Source {
    path: PathBuf,
    text: String,
}

/// Memory with a name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// What the rest of the description calls it.
    pub name: Spanned<String>,
    /// What its elements are.
    pub dtype: Type,
    /// How many elements; without it, as many as the contents have.
    pub count: Option<u64>,
    /// What it holds before the first launch.
    #[serde(default)]
    pub init: Init,
    /// The variable of the module that it stands for; without one it is memory of its own.
    pub symbol: Option<Spanned<String>>,
}

/// What a buffer holds at first.
#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// The machine's pattern for new memory, 0xA5 in every byte; a variable keeps its initialiser.
    #[default]
    Uninitialised,
    /// Zero bytes.
    Zeros,
    /// This byte everywhere.
    Fill(u8),
    /// These elements, again and again if the buffer is longer.
    Values(Vec<Number>),
    /// 0, 1, 2 and on, times `step`, plus `start`.
    Sequence(Sequence),
    /// The bytes of a file.
    File(PathBuf),
    /// Random elements.
    Random(Random),
    /// Addresses, 8 bytes each.
    Addresses(Vec<Reference>),
    /// Tensor maps, 128 bytes each.
    TensorMaps(Vec<TensorMap>),
}

/// An arithmetic sequence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    #[serde(default)]
    pub start: f64,
    #[serde(default = "one")]
    pub step: f64,
}

fn one() -> f64 {
    1.0
}

/// Random elements. Equal seeds give equal elements; the order of events has a seed of its own.
#[derive(Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case", deny_unknown_fields)]
pub enum Random {
    /// Any bits.
    Bits {
        #[serde(default)]
        seed: u64,
    },
    /// From `low` to `high`, rounded to the type.
    Uniform {
        #[serde(default)]
        seed: u64,
        low: f64,
        high: f64,
    },
    /// Whole numbers from `low` to `high`, both possible.
    Integers {
        #[serde(default)]
        seed: u64,
        low: i64,
        high: i64,
    },
    /// Around `mean`, rounded to the type.
    Normal {
        #[serde(default)]
        seed: u64,
        mean: f64,
        deviation: f64,
    },
}

/// A place in a buffer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub buffer: Spanned<String>,
    /// Bytes from the start of the buffer.
    #[serde(default)]
    pub offset: u64,
}

/// A kernel and its launch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    pub kernel: Spanned<String>,
    pub grid: Shape,
    pub block: Shape,
    #[serde(default)]
    pub cluster: Shape,
    #[serde(default)]
    pub dynamic_shared_bytes: u32,
    #[serde(default)]
    pub parameters: Vec<Spanned<Parameter>>,
}

/// Lengths along x, y and z; those not given are 1.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list of one to three")]
pub enum Shape {
    Line(u32),
    Lengths1([u32; 1]),
    Lengths2([u32; 2]),
    Lengths3([u32; 3]),
}

impl Default for Shape {
    fn default() -> Self {
        Self::Line(1)
    }
}

impl Shape {
    /// The lengths.
    pub fn lengths(&self) -> [u32; 3] {
        match *self {
            Self::Line(x) | Self::Lengths1([x]) => [x, 1, 1],
            Self::Lengths2([x, y]) => [x, y, 1],
            Self::Lengths3(lengths) => lengths,
        }
    }
}

/// A parameter of a kernel: `buffer`, `value`, `bytes` or `tensor_map`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The address of a buffer.
    pub buffer: Option<String>,
    /// Bytes to add to the address.
    pub offset: Option<u64>,
    /// A number of the type `dtype`, or of several.
    pub value: Option<Number>,
    /// Several numbers.
    pub values: Option<Vec<Number>>,
    pub dtype: Option<Type>,
    /// Bytes in hexadecimal digits.
    pub bytes: Option<String>,
    pub tensor_map: Option<TensorMap>,
}

/// The arguments of `cuTensorMapEncodeTiled`; dimension 0 is the innermost one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorMap {
    pub buffer: Spanned<String>,
    /// Bytes from the start of the buffer.
    #[serde(default)]
    pub offset: u64,
    pub data_type: Spanned<String>,
    /// Elements in each dimension.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next in dimension 1 and on; without them, elements lie dense.
    pub strides: Option<Vec<u64>>,
    /// Elements of the box in each dimension.
    pub tile: Vec<u32>,
    /// Ones if not given.
    pub element_strides: Option<Vec<u32>>,
    pub interleave: Option<Spanned<String>>,
    pub swizzle: Option<Spanned<String>>,
    pub l2_promotion: Option<Spanned<String>>,
    pub fill: Option<Spanned<String>>,
}

/// What is printed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Print {
    pub buffer: Spanned<String>,
    /// What the elements are taken for, instead of the buffer's type.
    pub dtype: Option<Type>,
    /// The first element, and the one behind the last.
    pub range: Option<[u64; 2]>,
    /// Elements in a line.
    pub columns: Option<usize>,
}

/// What is written to a file, as it lies in memory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dump {
    pub buffer: Spanned<String>,
    /// What the elements are taken for, instead of the buffer's type.
    pub dtype: Option<Type>,
    /// The first element, and the one behind the last.
    pub range: Option<[u64; 2]>,
    pub file: PathBuf,
}

/// What must hold: elements differ by no more than `absolute + relative · |expected|`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub buffer: Spanned<String>,
    /// What the elements are taken for, instead of the buffer's type.
    pub dtype: Option<Type>,
    /// The first element, and the one behind the last.
    pub range: Option<[u64; 2]>,
    /// The elements, again and again if there are fewer.
    pub values: Option<Vec<Number>>,
    /// The elements as bytes.
    pub file: Option<PathBuf>,
    /// Another buffer, from its start.
    pub equals: Option<Spanned<String>>,
    #[serde(default)]
    pub absolute: f64,
    #[serde(default)]
    pub relative: f64,
}

impl Description {
    /// Reads a description.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))?;
        let mut own: Self = toml::from_str(&text).map_err(|error| {
            // The error says line and column, and shows the line.
            Failure::wrong(format!("{}: {error}", path.display()))
        })?;
        own.source = Source { path: path.to_owned(), text };
        Ok(own)
    }

    /// A text with the line of the description that it concerns.
    pub fn at<T>(&self, place: &Spanned<T>, text: impl std::fmt::Display) -> String {
        let before = self.source.text.get(..place.span().start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("{}, line {line}: {text}", self.source.path.display())
    }

    /// Something is wrong at a place of the description.
    pub fn wrong<T>(&self, place: &Spanned<T>, text: impl std::fmt::Display) -> Failure {
        Failure::wrong(self.at(place, text))
    }
}
