//! The parameter block of a launch.

use ptx_emulator::{Arch, KernelInfo};
use toml::Spanned;

use crate::buffers::{Buffers, append, unknown};
use crate::description::{Description, Launch, Parameter};
use crate::failure::Result;
use crate::numbers::Number;
use crate::tensor_map;

/// The bytes of all parameters, each at the offset that the kernel gives it.
pub fn block(
    launch: &Launch,
    info: &KernelInfo,
    buffers: &Buffers<'_>,
    description: &Description,
    arch: Arch,
) -> Result<Vec<u8>> {
    let (given, needed) = (launch.parameters.len(), info.parameters.len());
    if given != needed {
        let names: Vec<&str> = info.parameters.iter().map(|own| own.name.as_str()).collect();
        let text = format!(
            "{given} parameters are given, `{}` has {needed}: {}",
            info.name,
            names.join(", ")
        );
        return Err(description.wrong(&launch.kernel, text));
    }
    let mut block = vec![0; info.parameter_bytes as usize];
    for (own, place) in launch.parameters.iter().zip(&info.parameters) {
        let bytes = encode(own, buffers, description, arch)?;
        let start = place.offset as usize;
        match block.get_mut(start..start + place.bytes as usize) {
            Some(slot) if slot.len() == bytes.len() => slot.copy_from_slice(&bytes),
            _ => {
                let text = format!(
                    "{} bytes are given, parameter `{}` has {}",
                    bytes.len(),
                    place.name,
                    place.bytes
                );
                return Err(description.wrong(own, text));
            }
        }
    }
    Ok(block)
}

fn encode(
    own: &Spanned<Parameter>,
    buffers: &Buffers<'_>,
    description: &Description,
    arch: Arch,
) -> Result<Vec<u8>> {
    let wrong = |text: String| description.wrong(own, text);
    let parameter = own.get_ref();
    if parameter.offset.is_some() && parameter.buffer.is_none() {
        return Err(wrong("`offset` goes with `buffer`".to_owned()));
    }
    match parameter {
        Parameter {
            buffer: Some(name),
            offset,
            value: None,
            values: None,
            dtype: None,
            bytes: None,
            tensor_map: None,
        } => {
            let buffer = buffers.named(name).ok_or_else(|| wrong(unknown(name)))?;
            Ok(buffer.address.wrapping_add(offset.unwrap_or(0)).to_le_bytes().to_vec())
        }
        Parameter {
            buffer: None,
            value: Some(value),
            values: None,
            bytes: None,
            tensor_map: None,
            ..
        } => numbers(parameter, std::slice::from_ref(value)).map_err(wrong),
        Parameter {
            buffer: None,
            value: None,
            values: Some(values),
            bytes: None,
            tensor_map: None,
            ..
        } => numbers(parameter, values).map_err(wrong),
        Parameter {
            buffer: None,
            value: None,
            values: None,
            dtype: None,
            bytes: Some(digits),
            tensor_map: None,
            ..
        } => hexadecimal(digits).ok_or_else(|| wrong(format!("`{digits}` is no bytes"))),
        Parameter {
            buffer: None,
            value: None,
            values: None,
            dtype: None,
            bytes: None,
            tensor_map: Some(map),
            ..
        } => Ok(tensor_map::encode(map, buffers, description, arch)?.as_bytes().to_vec()),
        _ => Err(wrong(
            "a parameter is one of `buffer` (with `offset`), `value` or `values` with `dtype`, \
             `bytes`, `tensor_map`"
                .to_owned(),
        )),
    }
}

fn numbers(parameter: &Parameter, values: &[Number]) -> std::result::Result<Vec<u8>, String> {
    let dtype = parameter.dtype.ok_or("a value needs its `dtype`")?;
    let mut bytes = Vec::new();
    for value in values {
        append(dtype, dtype.encode(value)?, &mut bytes);
    }
    Ok(bytes)
}

/// Bytes from pairs of digits; spaces may part them.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|character| *character != ' ')
        .map(|character| character.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    Some(pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}
