//! Layers that follow a recipe, in graphs: everything that they quantize lies in buffers of their
//! own.

mod captured;
mod gone;
mod step;
mod sums;
mod variants;
mod weights;

use grouped_linear::{DType, Device};

use self::step::{Step, compare, same_states};
use self::variants::{Variant, defaults, variants};
use crate::device::Layout;
use crate::host::Sizes;
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 3, rows: 200, k: 96, n: 160, dtype: DType::Bf16 };

/// Splits of successive calls; some leave a tail, some groups are empty.
const SPLITS: &[[usize; 3]] = &[[65, 0, 130], [0, 200, 0], [1, 63, 64], [0, 0, 0]];

/// Sizes of what is run in many variants: more than a block along the reductions of fprop and
/// wgrad.
const SMALL: Sizes = Sizes { groups: 3, rows: 136, k: 160, n: 32, dtype: DType::Bf16 };

/// As [`SPLITS`], of as many rows.
const SMALL_SPLITS: &[[usize; 3]] = &[[33, 0, 98], [0, 136, 0], [1, 64, 63], [0, 0, 0]];

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, recipe) in defaults() {
        for layout in [Layout::Packed, Layout::Discrete] {
            let variant = Variant::new(name, recipe, layout);
            let name = format!("recipes: a graph with other splits, {name} {layout:?}");
            checks.push(Check::new(name, move |device| graph(device, &variant, SIZES, SPLITS)));
        }
    }
    for variant in variants() {
        let name = format!("recipes: a graph with other splits, {variant}");
        let check = Check::new(name, move |device| graph(device, &variant, SMALL, SMALL_SPLITS));
        checks.push(check.blackwell_if(variant.blackwell));
    }
    checks.extend(captured::checks());
    checks.extend(gone::checks());
    checks.extend(sums::checks());
    checks.extend(weights::checks());
    checks.into_iter().map(|check| check.emulated_if(true)).collect()
}

/// Replayed as often as there are splits, beside a layer without buffers that runs as often, so
/// that delayed scales have seen the same.
fn graph(device: &Device, variant: &Variant, sizes: Sizes, all: &[[usize; 3]]) -> Outcome {
    let stream = device.stream()?;
    let mut eager = Step::new(&stream, variant, sizes)?;
    let mut recorded = Step::new(&stream, variant, sizes)?;
    let buffers = recorded.buffers(&stream)?;
    recorded.recipe = recorded.recipe.with_buffers(buffers);
    for step in [&mut eager, &mut recorded] {
        step.write(&stream, &all[0], 60)?;
        step.run(&stream)?;
    }
    compare(&stream, "before", &recorded.outputs, &eager.outputs)?;
    let graph = stream.capture(|stream| recorded.run(stream))?;
    for turn in (1..all.len()).chain([0]) {
        for step in [&mut eager, &mut recorded] {
            step.write(&stream, &all[turn], 60 + turn as u64)?;
        }
        graph.launch(&stream)?;
        eager.run(&stream)?;
        let what = format!("replay with {:?}", all[turn]);
        compare(&stream, &what, &recorded.outputs, &eager.outputs)?;
        same_states(&stream, &what, &recorded.recipe, &eager.recipe)?;
    }
    Ok(())
}
