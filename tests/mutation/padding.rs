//! Tokens with padded groups and back, with rows of any length: those of the quantizers' cases are
//! multiples of 16 bytes.

use grouped_linear::functional::{pad, unpad};
use grouped_linear::plan::{PadProblem, Padding};
use grouped_linear::{DType, Device, Result, Splits, Tensor};

/// Rows of the groups.
const SPLITS: [i32; 4] = [3, 0, 50, 1];
/// Rows of nobody.
const TAIL: usize = 4;
/// What groups are padded to.
const ALIGN: usize = 24;
/// What results hold before.
const HELD: f32 = 7.0;

/// Rows that are padded, and restored from there.
#[derive(Clone, Copy, Debug)]
pub struct Padded {
    /// The type of the elements.
    pub dtype: DType,
    /// Elements of a row.
    pub columns: usize,
}

impl Padded {
    /// Runs it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, device: &Device) -> std::result::Result<(), String> {
        let [padded, restored] =
            self.outputs(device).map_err(|error| format!("failed: {error}"))?;
        let (mut expected, mut live) = (Vec::new(), 0);
        for split in SPLITS {
            let rows = split as usize;
            expected.extend((live..live + rows).flat_map(|row| self.row(row)));
            let pad = rows.next_multiple_of(ALIGN) - rows;
            expected.extend(std::iter::repeat_n(0.0, pad * self.columns));
            live += rows;
        }
        expected.resize(padded.len(), HELD);
        if padded != expected {
            return Err("the padded rows are wrong".to_owned());
        }
        let mut expected: Vec<f32> = (0..live).flat_map(|row| self.row(row)).collect();
        expected.resize(restored.len(), HELD);
        if restored != expected {
            return Err("the rows are not restored".to_owned());
        }
        Ok(())
    }

    /// Small whole numbers, none of them zero.
    fn row(&self, row: usize) -> impl Iterator<Item = f32> {
        (0..self.columns).map(move |column| (1 + (7 * row + 3 * column) % 100) as f32)
    }

    /// The padded rows, and those taken from them.
    fn outputs(&self, device: &Device) -> Result<[Vec<f32>; 2]> {
        let Self { dtype, columns } = *self;
        let stream = &device.stream()?;
        let rows = SPLITS.iter().map(|&split| split as usize).sum::<usize>() + TAIL;
        let values: Vec<f32> = (0..rows).flat_map(|row| self.row(row)).collect();
        let x = Tensor::from_f32(stream, &[rows, columns], dtype, &values)?;
        let splits = Splits::device(Tensor::from_slice(stream, &[SPLITS.len()], &SPLITS)?)?;
        let held = |rows: usize| {
            Tensor::from_f32(stream, &[rows, columns], dtype, &vec![HELD; rows * columns])
        };
        let way = Padding::Pad;
        let problem =
            PadProblem { way, groups: SPLITS.len(), rows, columns, dtype, row_align: ALIGN };
        let mut padded = held(problem.padded_rows())?;
        pad(stream, &x, &splits, ALIGN, &mut padded)?;
        let mut restored = held(rows)?;
        unpad(stream, &padded, &splits, ALIGN, &mut restored)?;
        Ok([padded.to_f32(stream)?, restored.to_f32(stream)?])
    }
}
