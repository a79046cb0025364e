//! One checkpoint, both namings: written with a tensor per expert, loaded into packed parameters,
//! and converted as a file.
//!
//! Runs on the first GPU, if there are kernels for it, else on the CPU. Needs the feature
//! `safetensors`, a default one.

use std::error::Error;

use grouped_linear::checkpoint::{self, Layouts, Naming, safetensors};
use grouped_linear::{Config, DType, Device, GroupedLinear, GroupedTensor, ParamLayout};

fn main() -> Result<(), Box<dyn Error>> {
    let stream = Device::best_available().stream()?;
    let (groups, n, k) = (3, 4, 8);
    let config = Config { groups, in_features: k, out_features: n, dtype: DType::Bf16 };

    // A layer whose experts have a weight tensor each, and one bias tensor together.
    let values: Vec<f32> = (0..groups * n * k).map(|i| (i / (n * k)) as f32).collect();
    let layer = GroupedLinear::new(
        &stream,
        config,
        GroupedTensor::from_f32(
            &stream,
            ParamLayout::Discrete,
            groups,
            &[n, k],
            DType::Bf16,
            &values,
        )?,
        Some(GroupedTensor::zeros(&stream, ParamLayout::Packed, groups, &[n], DType::Bf16)?),
    )?;

    // How the file names them is another choice. `serialize_to_file` would write to disk.
    let tensors = checkpoint::save(&stream, &layer, "layers.0.experts.", Naming::DISCRETE)?;
    let file = safetensors::serialize(tensors, None)?;
    list("saved", &file)?;

    // Whatever the names are, the layouts in memory are those that are asked for.
    let layouts = Layouts { weights: ParamLayout::Packed, bias: Some(ParamLayout::Discrete) };
    let tensors = checkpoint::open(&file)?;
    let loaded = checkpoint::load(&stream, &tensors, "layers.0.experts.", config, layouts)?;
    let last = loaded.weights().group(groups - 1)?.to_f32(&stream)?;
    println!("loaded: {} weights, expert 2 has {}", loaded.weights().layout(), last[0]);

    // A whole file, without a device: every layer, and everything else as it is.
    let converted = checkpoint::convert(&file, Naming::PACKED, |_prefix| true)?;
    list("converted", &converted.file)?;
    let back = checkpoint::convert(&converted.file, Naming::DISCRETE, |_prefix| true)?;
    assert_eq!(back.file, file);
    Ok(())
}

fn list(title: &str, file: &[u8]) -> Result<(), Box<dyn Error>> {
    println!("{title}:");
    let tensors = checkpoint::open(file)?;
    let mut names = tensors.names();
    names.sort_unstable();
    for name in names {
        println!("  {name} {:?}", tensors.tensor(name)?.shape());
    }
    Ok(())
}
