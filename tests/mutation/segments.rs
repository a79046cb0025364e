//! `dbias_partial`, launched without the library.

use bytemuck::bytes_of;
use grouped_linear_kernels::abi::{DBIAS_SEGMENT_ROWS, DbiasArgs, ElementType, GroupTable};
use grouped_linear_kernels::variants::{Role, kernel};
use ptx_emulator::LaunchConfig;

use crate::machines::loaded;

/// Rows of the groups: six segments, two of them ragged, and a group without any.
const SPLITS: [usize; 4] = [130, 0, 300, 1];
/// Columns: fewer than a block has.
const COLUMNS: usize = 9;

/// An element of dY; small, so that all sums are exact.
fn element(row: usize, column: usize) -> f32 {
    ((7 * row + 3 * column) % 16) as f32
}

/// Launches `blocks` along y, with room for the partial sums of the segments and no more, and
/// compares the sums.
///
/// # Errors
/// What is wrong, in words.
pub fn run(text: &str, seed: u64, blocks: u32) -> Result<(), String> {
    let own = kernel(Role::DbiasPartial).ok_or("the table lacks dbias_partial")?;
    let (mut machine, id) = loaded(text, seed, own.name)?;

    let layout = GroupTable::layout(SPLITS.len() as u32);
    let mut table = vec![0u8; layout.bytes];
    let (mut rows, mut segments) = (0, 0u32);
    let mut expected = Vec::new();
    for group in 0..=SPLITS.len() {
        let (row, segment) = (layout.row_offsets + 8 * group, layout.tile_prefix + 4 * group);
        table[row..row + 8].copy_from_slice(&(rows as u64).to_le_bytes());
        table[segment..segment + 4].copy_from_slice(&segments.to_le_bytes());
        let end = rows + SPLITS.get(group).copied().unwrap_or(0);
        while rows < end {
            let last = end.min(rows + DBIAS_SEGMENT_ROWS as usize);
            let sum = |column| (rows..last).map(|row| element(row, column)).sum::<f32>();
            expected.extend((0..COLUMNS).map(sum));
            segments += 1;
            rows = last;
        }
    }
    let dy: Vec<f32> =
        (0..rows).flat_map(|row| (0..COLUMNS).map(move |c| element(row, c))).collect();
    let mut place = |bytes: &[u8]| {
        let address = machine.allocate(bytes.len() as u64).map_err(|error| error.to_string())?;
        machine.write(address, bytes).map_err(|error| error.to_string())?;
        Ok::<u64, String>(address)
    };
    let partial = vec![0xFFu8; 4 * expected.len()];
    let args = DbiasArgs {
        table: place(&table)?,
        dy: place(bytemuck::cast_slice(&dy))?,
        partial: place(&partial)?,
        groups: SPLITS.len() as u32,
        n: COLUMNS as u32,
        dy_type: ElementType::F32 as u32,
        db_type: ElementType::F32 as u32,
        tile_columns: 1,
        ..DbiasArgs::default()
    };
    let config = LaunchConfig {
        grid: [1, blocks, 1],
        block: [own.threads, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: own.shared_bytes,
    };
    machine.launch(id, &config, bytes_of(&args)).map_err(|error| format!("failed: {error}"))?;
    let mut bytes = partial;
    machine.read(args.partial, &mut bytes).map_err(|error| error.to_string())?;
    let sums: Vec<f32> = bytes
        .chunks_exact(4)
        .map(|own| f32::from_le_bytes([own[0], own[1], own[2], own[3]]))
        .collect();
    if sums == expected {
        return Ok(());
    }
    Err(format!("the sums of {blocks} blocks are {sums:?} instead of {expected:?}"))
}
