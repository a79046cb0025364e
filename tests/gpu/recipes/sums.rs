//! Where a recipe accumulates the sums of a pass changes that pass's numbers, and no other's.

use grouped_linear::recipe::{Accumulation, CurrentScaling, Recipe, Sums};
use grouped_linear::{DType, Device};

use super::step::{Sinks, Step};
use super::variants::Variant;
use crate::device::Layout;
use crate::host::{RESULTS, Sizes};
use crate::{Check, Outcome};

/// Every reduction has more than the 128 products after which sums are promoted.
const LONG: Sizes = Sizes { groups: 2, rows: 400, k: 272, n: 288, dtype: DType::F32 };
const LONG_SPLITS: [usize; 2] = [176, 224];

pub fn checks() -> Vec<Check> {
    vec![Check::new("recipes: sums of each pass are its own", sums_of_each_pass)]
}

fn sums_of_each_pass(device: &Device) -> Outcome {
    let stream = device.stream()?;
    let run = |sums| -> grouped_linear::Result<[Vec<u32>; 5]> {
        let recipe = Recipe::Current(CurrentScaling { sums, ..CurrentScaling::default() });
        let variant = Variant::new("", recipe, Layout::Packed);
        let variant = variant.of(DType::F32, Layout::Packed, Sinks::Own);
        let mut step = Step::new(&stream, &variant, LONG)?;
        step.write(&stream, &LONG_SPLITS, 61)?;
        step.microbatch(&stream)?;
        step.outputs.bits(&stream)
    };
    let usual = Sums::default();
    let before = run(usual)?;
    // Tensor memory sums in FP32 either way.
    let gpu = device.target().gpu.ok_or("no GPU")?;
    let is_hopper = gpu.compute_capability == (9, 0);
    for (sums, changed) in [
        (Sums { fprop: Accumulation::Promoted, ..usual }, "y"),
        (Sums { dgrad: Accumulation::Fast, ..usual }, "dx"),
        (Sums { wgrad: Accumulation::Fast, ..usual }, "dw"),
    ] {
        let after = run(sums)?;
        for (index, name) in RESULTS.iter().enumerate() {
            let is_other = before[index] != after[index];
            if is_other != (is_hopper && *name == changed) {
                return Err(format!("{name} with {sums:?}: other numbers: {is_other}").into());
            }
        }
    }
    Ok(())
}
