//! Buffers: their memory and what it holds at first.

use std::path::Path;

use ptx_emulator::{Arch, Machine, ModuleId};
use toml::Spanned;

use crate::description::{Buffer, Description, Init, Random, Sequence};
use crate::failure::{Failure, Result};
use crate::numbers::{Number, Type};
use crate::random::Random as Generator;
use crate::tensor_map;

/// A buffer in memory.
pub struct Placed {
    pub name: String,
    pub dtype: Type,
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// The buffers of a description.
pub struct Buffers<'d> {
    description: &'d Description,
    all: Vec<Placed>,
}

impl<'d> Buffers<'d> {
    /// Gives every buffer its memory, then its contents, which may be addresses of other buffers.
    pub fn place(
        description: &'d Description,
        folder: &Path,
        machine: &mut Machine,
        module: ModuleId,
    ) -> Result<Self> {
        let mut own = Self { description, all: Vec::new() };
        for buffer in &description.buffers {
            let name = buffer.name.get_ref();
            if own.all.iter().any(|known| known.name == *name) {
                let text = format!("two buffers have the name `{name}`");
                return Err(description.wrong(&buffer.name, text));
            }
            let (address, bytes) = own.allocate(buffer, folder, machine, module)?;
            own.all.push(Placed { name: name.clone(), dtype: buffer.dtype, address, bytes });
        }
        let arch = machine.options().arch;
        for (buffer, placed) in description.buffers.iter().zip(&own.all) {
            if let Some(bytes) = own.contents(buffer, placed.bytes, folder, arch)? {
                machine
                    .write(placed.address, &bytes)
                    .map_err(|error| description.wrong(&buffer.name, error))?;
            }
        }
        Ok(own)
    }

    /// All buffers, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Placed> {
        self.all.iter()
    }

    /// A buffer by its name.
    pub fn find(&self, name: &Spanned<String>) -> Result<&Placed> {
        self.named(name.get_ref())
            .ok_or_else(|| self.description.wrong(name, unknown(name.get_ref())))
    }

    /// A buffer by its name, if there is one.
    pub fn named(&self, name: &str) -> Option<&Placed> {
        self.all.iter().find(|buffer| buffer.name == name)
    }

    fn allocate(
        &self,
        buffer: &Buffer,
        folder: &Path,
        machine: &mut Machine,
        module: ModuleId,
    ) -> Result<(u64, u64)> {
        let wrong = |text: String| self.description.wrong(&buffer.name, text);
        let wanted = match buffer.count {
            Some(count) => {
                let bytes = count.checked_mul(buffer.dtype.bytes() as u64);
                Some(bytes.ok_or_else(|| wrong(format!("{count} elements are too many")))?)
            }
            None => implied_bytes(buffer, folder)?,
        };
        if let Some(symbol) = &buffer.symbol {
            let name = symbol.get_ref();
            let found = machine.global(module, name).ok_or_else(|| {
                let text = format!("the PTX has no variable `{name}` in global or constant memory");
                self.description.wrong(symbol, text)
            })?;
            return match wanted {
                Some(bytes) if bytes != found.1 => {
                    Err(wrong(format!("`{name}` has {} bytes, {bytes} are described", found.1)))
                }
                _ => Ok(found),
            };
        }
        let name = buffer.name.get_ref();
        let bytes = wanted.ok_or_else(|| {
            wrong(format!("buffer `{name}` needs a `count`, its contents have no length"))
        })?;
        let address = machine.allocate(bytes).map_err(|error| wrong(error.to_string()))?;
        Ok((address, bytes))
    }

    /// The bytes of a buffer before the first launch; none if it is left as it is.
    fn contents(
        &self,
        buffer: &Buffer,
        length: u64,
        folder: &Path,
        arch: Arch,
    ) -> Result<Option<Vec<u8>>> {
        let wrong = |text: String| self.description.wrong(&buffer.name, text);
        let length = length as usize;
        let count = length / buffer.dtype.bytes();
        let bytes = match &buffer.init {
            Init::Uninitialised => return Ok(None),
            Init::Zeros => vec![0; length],
            Init::Fill(byte) => vec![*byte; length],
            Init::Values(values) => repeat(buffer.dtype, values, count).map_err(wrong)?,
            Init::Sequence(Sequence { start, step }) => {
                encode_all(buffer.dtype, (0..count).map(|index| start + step * index as f64))
                    .map_err(wrong)?
            }
            Init::File(path) => read_file(&folder.join(path))?,
            Init::Random(random) => random_bytes(buffer.dtype, random, count).map_err(wrong)?,
            Init::Addresses(references) => {
                let mut bytes = Vec::new();
                for reference in references {
                    let target = self.find(&reference.buffer)?;
                    bytes.extend(target.address.wrapping_add(reference.offset).to_le_bytes());
                }
                bytes
            }
            Init::TensorMaps(maps) => {
                let mut bytes = Vec::new();
                for map in maps {
                    let map = tensor_map::encode(map, self, self.description, arch)?;
                    bytes.extend(map.as_bytes());
                }
                bytes
            }
        };
        let (name, given) = (buffer.name.get_ref(), bytes.len());
        if given != length {
            return Err(wrong(format!("buffer `{name}` has {length} bytes, its contents {given}")));
        }
        Ok(Some(bytes))
    }
}

/// What to say of a name that no buffer has.
pub fn unknown(name: &str) -> String {
    format!("no buffer has the name `{name}`")
}

/// The bytes of a file.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))
}

/// The size that a buffer's contents have.
fn implied_bytes(buffer: &Buffer, folder: &Path) -> Result<Option<u64>> {
    Ok(match &buffer.init {
        Init::Values(values) => Some((values.len() * buffer.dtype.bytes()) as u64),
        Init::File(path) => Some(read_file(&folder.join(path))?.len() as u64),
        Init::Addresses(references) => Some(8 * references.len() as u64),
        Init::TensorMaps(maps) => Some(128 * maps.len() as u64),
        _ => None,
    })
}

/// The bytes of `count` elements: these values, again and again.
pub fn repeat(
    dtype: Type,
    values: &[Number],
    count: usize,
) -> std::result::Result<Vec<u8>, String> {
    if values.is_empty() && count > 0 || values.len() > count {
        return Err(format!("{} values for {count} elements", values.len()));
    }
    let mut bytes = Vec::with_capacity(count * dtype.bytes());
    for value in values {
        append(dtype, dtype.encode(value)?, &mut bytes);
    }
    let period = bytes.len();
    while bytes.len() < count * dtype.bytes() {
        let rest = (count * dtype.bytes() - bytes.len()).min(period);
        bytes.extend_from_within(..rest);
    }
    Ok(bytes)
}

fn encode_all(
    dtype: Type,
    values: impl Iterator<Item = f64>,
) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for value in values {
        append(dtype, dtype.encode_float(value)?, &mut bytes);
    }
    Ok(bytes)
}

/// Adds the bytes of an element.
pub fn append(dtype: Type, bits: u64, bytes: &mut Vec<u8>) {
    bytes.extend(&bits.to_le_bytes()[..dtype.bytes()]);
}

fn random_bytes(
    dtype: Type,
    random: &Random,
    count: usize,
) -> std::result::Result<Vec<u8>, String> {
    let (Random::Bits { seed }
    | Random::Uniform { seed, .. }
    | Random::Integers { seed, .. }
    | Random::Normal { seed, .. }) = random;
    let mut generator = Generator::new(*seed);
    let mut bytes = Vec::new();
    for _ in 0..count {
        let bits = match *random {
            Random::Bits { .. } => generator.next(),
            Random::Uniform { low, high, .. } => {
                dtype.encode_float(rounded(dtype, low + (high - low) * unit(&mut generator)))?
            }
            Random::Integers { low, high, .. } => {
                let span = (i128::from(high) - i128::from(low) + 1).max(1) as u128;
                let step = match u64::try_from(span) {
                    Ok(span) => generator.below(span),
                    // All numbers of 64 bits.
                    Err(_) => generator.next(),
                };
                dtype.encode_integer(i128::from(low) + i128::from(step))?
            }
            Random::Normal { mean, deviation, .. } => {
                // Box and Muller; the logarithm's argument is never zero.
                let radius = (-2.0 * (1.0 - unit(&mut generator)).ln()).sqrt();
                let angle = std::f64::consts::TAU * unit(&mut generator);
                dtype.encode_float(rounded(dtype, mean + deviation * radius * angle.cos()))?
            }
        };
        append(dtype, bits, &mut bytes);
    }
    Ok(bytes)
}

/// Integers get the nearest whole number.
fn rounded(dtype: Type, value: f64) -> f64 {
    if dtype.bounds().is_some() { value.round() } else { value }
}

/// A number from 0, below 1.
fn unit(generator: &mut Generator) -> f64 {
    (generator.next() >> 11) as f64 / (1u64 << 53) as f64
}
