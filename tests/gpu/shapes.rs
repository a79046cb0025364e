//! Many groups, most of them small or empty: exact results of every operation.

use grouped_linear::{DType, Device, KernelChoice};

use crate::device::{Inputs, Layout, Outputs, run_all};
use crate::host::{Host, Sizes};
use crate::{Check, Outcome};

/// A number of groups and the rows of each.
#[derive(Clone, Copy)]
struct Pattern {
    name: &'static str,
    groups: usize,
    rows_of: fn(usize) -> usize,
    /// Rows of the buffer that belong to no group.
    tail: usize,
}

const PATTERNS: &[Pattern] = &[
    pattern("300 groups, four busy", 300, |g| if g % 97 == 5 { 150 + g } else { 0 }, 3),
    pattern("300 groups, one row each", 300, |_| 1, 0),
    pattern("300 groups, only the first", 300, |g| if g == 0 { 700 } else { 0 }, 0),
    pattern("300 groups, only the last", 300, |g| if g == 299 { 700 } else { 0 }, 129),
    pattern("33 groups, all empty", 33, |_| 0, 260),
    pattern("4096 groups, one row each", 4096, |_| 1, 0),
    pattern("4096 groups, one row in every other", 4096, |g| g % 2, 1),
    pattern("4096 groups, mostly empty", 4096, |g| if g % 511 == 510 { 130 } else { 0 }, 0),
    pattern("4096 groups, only the last", 4096, |g| if g == 4095 { 513 } else { 0 }, 5),
    pattern("4096 groups, all empty", 4096, |_| 0, 8),
    // The scheduler walks in windows of 32 groups; each thread of the set-up has 4 of 4096 groups.
    pattern("4096 groups, edges of windows", 4096, |g| if g % 32 < 2 { 1 + g % 3 } else { 0 }, 0),
];

const fn pattern(
    name: &'static str,
    groups: usize,
    rows_of: fn(usize) -> usize,
    tail: usize,
) -> Pattern {
    Pattern { name, groups, rows_of, tail }
}

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for &pattern in PATTERNS {
        for (layout, counts) in [(Layout::Packed, DType::I64), (Layout::Discrete, DType::I32)] {
            for kernel in [KernelChoice::Auto, KernelChoice::Simt] {
                let name = format!("shapes: {}, {layout:?}, {kernel:?}", pattern.name);
                let check =
                    Check::new(name, move |device| check(device, &pattern, layout, counts, kernel));
                checks.push(check.emulated_if(pattern.groups == 33));
            }
        }
    }
    checks
}

fn check(
    device: &Device,
    pattern: &Pattern,
    layout: Layout,
    counts: DType,
    kernel: KernelChoice,
) -> Outcome {
    let stream = device.stream()?;
    let splits: Vec<usize> = (0..pattern.groups).map(pattern.rows_of).collect();
    let rows = splits.iter().sum::<usize>() + pattern.tail;
    let sizes = Sizes { groups: pattern.groups, rows, k: 40, n: 24, dtype: DType::Bf16 };
    let host = Host::exact(sizes, &splits, 600);
    let inputs = Inputs::of(&stream, &host, layout, counts)?;
    let mut outputs = Outputs::new(&stream, sizes, layout)?;
    run_all(&stream, &inputs, &mut outputs, kernel)?;
    stream.synchronize()?;
    outputs.check(&stream, &host, pattern.name)?;
    Ok(())
}
