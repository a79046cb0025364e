//! Emulated machines for scenarios that launch a kernel without the library.

use grouped_linear_kernels::abi::TensorMap;
use grouped_linear_kernels::variants::Kernel;
use ptx_emulator::tensor_map::{
    self, Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TensorDataType, TiledMap,
};
use ptx_emulator::{KernelId, Machine, Options};

use crate::blackwell;
use crate::scenarios::INSTRUCTION_LIMIT;

/// A machine with the text of a module, and its kernel of this name.
///
/// # Errors
/// The text is refused, or lacks the kernel.
pub fn loaded(text: &str, seed: u64, kernel: &str) -> Result<(Machine, KernelId), String> {
    let mut options = Options::new(blackwell::architecture(kernel));
    options.seed = seed;
    options.instruction_limit = INSTRUCTION_LIMIT;
    let mut machine = Machine::with_options(options);
    let module = machine.load(text);
    let module = module.map_err(|error| format!("the emulator refuses it: {error}"))?;
    let id = machine.kernel(module, kernel);
    let id = id.ok_or_else(|| format!("the module lacks {kernel}"))?;
    Ok((machine, id))
}

/// The map of a matrix of lines, of as many groups as there are, `extents` from the innermost on,
/// in boxes of `tile`. Numbers are swizzled, scales, which are FP32, are not. `kernel` is who reads
/// it.
pub fn map(
    kernel: &Kernel,
    data_type: TensorDataType,
    address: u64,
    extents: &[usize],
    tile: [u32; 2],
) -> Result<TensorMap, String> {
    let scales = data_type == TensorDataType::F32;
    let bytes = match data_type {
        TensorDataType::F32 => 4,
        TensorDataType::Bf16 | TensorDataType::F16 => 2,
        _ => 1,
    };
    let mut tile = tile.to_vec();
    tile.resize(extents.len(), 1);
    let map = TiledMap {
        data_type,
        address,
        extents: extents.iter().map(|&extent| extent as u64).collect(),
        strides: (1..extents.len())
            .map(|i| bytes * extents[..i].iter().product::<usize>() as u64)
            .collect(),
        tile,
        element_strides: vec![1; extents.len()],
        interleave: Interleave::None,
        swizzle: if scales { Swizzle::None } else { Swizzle::Bytes128 },
        l2_promotion: L2Promotion::Bytes256,
        fill: OutOfBoundsFill::Zeros,
    };
    let encoded = tensor_map::TensorMap::encode_tiled(&map, blackwell::architecture(kernel.name));
    let encoded = encoded.map_err(|error| error.to_string())?;
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(encoded.as_bytes().as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(TensorMap(words))
}
