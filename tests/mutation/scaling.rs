//! Scales that the cases do not lead to: magnitudes in one place of many, and steps whose margin
//! leaves no scale.

use grouped_linear::functional::{QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::{Blocks, DelayedScaling, Format};
use grouped_linear::{
    DType, DelayedState, Device, Direction, Form, QuantizedSpec, QuantizedTensor, Result,
    SourceShape, Splits, Stream, Tensor,
};

/// Rows of the one group: more than a band of tiles has.
const ROWS: usize = 2200;
/// Columns: two tiles side by side.
const COLUMNS: usize = 144;
/// Where the number is that is not zero: in the last tile of the first band.
const PEAK: [usize; 2] = [2040, 143];

/// Groups of one tile each, several for every block of the emulated GPU.
const GROUPS: usize = 60;
/// Rows of each.
const FEW_ROWS: usize = 3;
/// Columns of each.
const FEW_COLUMNS: usize = 16;

/// What is scaled.
#[derive(Clone, Copy, Debug)]
pub enum Scaling {
    /// A group of zeros of this type, with one number among them, what shares scales, and which
    /// copies there are: rowwise and columnwise.
    Peak(DType, f32, Blocks, [bool; 2]),
    /// Many small groups, each zeros of this type and one number, of which a group scales all.
    Peaks(DType, f32, [bool; 2]),
    /// A step of delayed scaling, with this margin.
    Margin(i32),
}

impl Scaling {
    /// Runs it, here and on the CPU.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self, device: &Device) -> std::result::Result<(), String> {
        let scales = |device: &Device| device.stream().and_then(|stream| self.scales(&stream));
        let want = scales(&Device::cpu()).map_err(|error| format!("the CPU failed: {error}"))?;
        let got = scales(device).map_err(|error| format!("failed: {error}"))?;
        if got == want {
            return Ok(());
        }
        Err(format!("the scales are {got:?} instead of {want:?}"))
    }

    fn scales(&self, stream: &Stream) -> Result<Vec<f32>> {
        match *self {
            Self::Peak(dtype, value, blocks, copies) => {
                let mut values = vec![0f32; ROWS * COLUMNS];
                values[PEAK[0] * COLUMNS + PEAK[1]] = value;
                let x = Tensor::from_f32(stream, &[ROWS, COLUMNS], dtype, &values)?;
                scales_of(stream, &x, &[ROWS], blocks, copies)
            }
            Self::Peaks(dtype, value, copies) => {
                let rows = GROUPS * FEW_ROWS;
                let mut values = vec![0f32; rows * FEW_COLUMNS];
                for (group, values) in values.chunks_mut(FEW_ROWS * FEW_COLUMNS).enumerate() {
                    values[7 * group % values.len()] = value;
                }
                let x = Tensor::from_f32(stream, &[rows, FEW_COLUMNS], dtype, &values)?;
                scales_of(stream, &x, &[FEW_ROWS; GROUPS], Blocks::Tensor, copies)
            }
            Self::Margin(margin) => {
                let recipe = DelayedScaling { margin, ..Default::default() };
                let mut state = DelayedState::new(stream, recipe, 3, DType::E4m3)?;
                state.amax()?.write(stream, &[1.5f32, 1e-30, 3e38])?;
                state.update(stream)?;
                state.scale().to_f32(stream)
            }
        }
    }
}

/// Quantizes to E4M3, and gives the inverse scales of the rowwise copy.
fn scales_of(
    stream: &Stream,
    x: &Tensor,
    splits: &[usize],
    blocks: Blocks,
    copies: [bool; 2],
) -> Result<Vec<f32>> {
    let [rows, features] = [x.shape()[0], x.shape()[1]];
    let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(Form::Codes));
    let spec = QuantizedSpec {
        groups: splits.len(),
        source: SourceShape::Tokens { rows, features },
        format: Format::fp8(DType::E4m3, blocks),
        rowwise,
        columnwise,
    };
    let mut quantized = QuantizedTensor::empty(stream, spec)?;
    let splits = Splits::host(splits)?;
    quantize(stream, QuantizeArgs::new(QuantizeSource::Tokens(x, &splits)), &mut quantized)?;
    let copy = quantized.copy(Direction::Rowwise);
    copy.map_or(Ok(Vec::new()), |copy| copy.scale_inv.to_f32(stream))
}
