//! Quantizations under splits that only the device knows to be wrong: they write nothing.

use grouped_linear::functional::{DbiasSink, QuantizeArgs, QuantizeSource, amax, quantize};
use grouped_linear::recipe::{BlockShape, DelayedScaling, Format, Nvfp4Format, Scope, Transform};
use grouped_linear::{
    Accumulate, DType, DelayedState, Direction, Form, GroupedTensor, QuantizedSpec,
    QuantizedTensor, RandomState, Result, SourceShape, Splits, Stream, Tensor,
};

use super::{BOTH, E4M3, K, ROWWISE, SQUARES, VECTORS};
use crate::fitting::{GROUPS, ROWS};

const MXFP8: Format = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
const NVFP4: Format = Format::Nvfp4(Nvfp4Format::LINES);
const NVFP4_SQUARES: Format =
    Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..Nvfp4Format::LINES });
const TRANSFORMED: Format =
    Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES });
const OF_ROWS: Format = Format::Nvfp4(Nvfp4Format { scope: Scope::Row, ..Nvfp4Format::LINES });

/// Where scales come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scales {
    /// From the source, which is rounded to nearest.
    Own,
    /// From magnitudes that are given.
    Given,
    /// From a history, which notes the source's magnitudes.
    History,
    /// From the source, which is rounded at random.
    Random,
}

use Scales::{Given, History, Own, Random};

const QUANTIZATIONS: &[(Format, Form, [bool; 2], &[Scales])] = &[
    (E4M3, Form::Codes, BOTH, &[Own, Given, History]),
    (E4M3, Form::Codes, ROWWISE, &[Own, Given, History]),
    (VECTORS, Form::Codes, BOTH, &[Own]),
    (SQUARES, Form::Codes, BOTH, &[Own]),
    (MXFP8, Form::Codes, BOTH, &[Own]),
    (MXFP8, Form::Swizzled, BOTH, &[Own]),
    (MXFP8, Form::Exact, BOTH, &[Own]),
    (NVFP4, Form::Codes, BOTH, &[Own, Given, Random]),
    (NVFP4, Form::Swizzled, BOTH, &[Own, Given, Random]),
    (NVFP4, Form::Exact, BOTH, &[Own, Given, Random]),
    (NVFP4_SQUARES, Form::Exact, BOTH, &[Own, Given]),
    (TRANSFORMED, Form::Codes, BOTH, &[Own, Random]),
    (TRANSFORMED, Form::Exact, BOTH, &[Own, Random]),
    (OF_ROWS, Form::Exact, ROWWISE, &[Own]),
];

/// All that a quantization may write.
struct Written {
    to: QuantizedTensor,
    db: Tensor,
    history: DelayedState,
    random: RandomState,
    measured: Tensor,
}

impl Written {
    fn new(stream: &Stream, spec: QuantizedSpec) -> Result<Self> {
        Ok(Self {
            to: QuantizedTensor::empty(stream, spec)?,
            db: Tensor::zeros(stream, &[GROUPS, K], DType::F32)?,
            history: DelayedState::new(stream, DelayedScaling::default(), GROUPS, DType::E4m3)?,
            random: RandomState::new(stream, 5)?,
            measured: Tensor::zeros(stream, &[GROUPS], DType::F32)?,
        })
    }

    /// Quantizes tokens of this magnitude, sums their columns, and finds their magnitudes.
    fn run(&mut self, stream: &Stream, scales: Scales, splits: &Splits, size: f32) -> Result<()> {
        let values: Vec<f32> = (0..ROWS * K).map(|at| size * (1 + at % 7) as f32).collect();
        let x = Tensor::from_f32(stream, &[ROWS, K], DType::Bf16, &values)?;
        let given = Tensor::from_slice(stream, &[GROUPS], &[8.0 * size; GROUPS])?;
        let mut db = GroupedTensor::packed(self.db.clone())?;
        let source = QuantizeSource::Tokens(&x, splits);
        let args = QuantizeArgs {
            delayed: (scales == History).then_some(&self.history),
            amax: (scales == Given).then_some(&given),
            random: (scales == Random).then_some(&self.random),
            dbias: Some(DbiasSink { db: &mut db, accumulate: Accumulate::Overwrite }),
            ..QuantizeArgs::new(source)
        };
        quantize(stream, args, &mut self.to)?;
        amax(stream, source, None, &mut self.measured)
    }

    /// Everything, by name, in bits.
    fn contents(&self, stream: &Stream) -> Result<Vec<(&'static str, Vec<u64>)>> {
        let mut all = Vec::new();
        for direction in self.to.directions() {
            let copy = self.to.copy(direction).expect("the direction is one of the tensor's own");
            let names = match direction {
                Direction::Rowwise => ["rowwise data", "rowwise scale_inv", "rowwise amax"],
                Direction::Columnwise => {
                    ["columnwise data", "columnwise scale_inv", "columnwise amax"]
                }
            };
            all.push((names[0], bits(stream, &copy.data)?));
            all.push((names[1], bits(stream, &copy.scale_inv)?));
            if let Some(amax) = &copy.amax {
                all.push((names[2], bits(stream, amax)?));
            }
        }
        if let Some(scale) = self.to.scale() {
            all.push(("scale", bits(stream, scale)?));
        }
        all.push(("dbias", bits(stream, &self.db)?));
        all.push(("history", bits(stream, self.history.history())?));
        all.push(("the history's scale", bits(stream, self.history.scale())?));
        let (seed, offset) = self.random.read(stream)?;
        all.push(("random state", vec![seed, offset]));
        all.push(("magnitudes", bits(stream, &self.measured)?));
        Ok(all)
    }
}

fn bits(stream: &Stream, tensor: &Tensor) -> Result<Vec<u64>> {
    Ok(match tensor.dtype() {
        DType::U8 => tensor.to_vec::<u8>(stream)?.into_iter().map(u64::from).collect(),
        _ => tensor.to_f32(stream)?.into_iter().map(|value| value.to_bits().into()).collect(),
    })
}

pub(super) fn write_nothing(engine: &str, stream: &Stream) {
    let device_splits = |counts: [i64; GROUPS]| {
        Splits::device(Tensor::from_slice(stream, &[GROUPS], &counts).unwrap()).unwrap()
    };
    for &(format, form, copies, scales) in QUANTIZATIONS {
        let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(form));
        let source = SourceShape::Tokens { rows: ROWS, features: K };
        let spec = QuantizedSpec { groups: GROUPS, source, format, rowwise, columnwise };
        for &scales in scales {
            let case = format!("{engine}: {format}, {form:?}, {copies:?}, {scales:?}");
            let mut written = Written::new(stream, spec).expect(&case);
            written.run(stream, scales, &device_splits([2, 3]), 1.0).expect(&case);
            let before = written.contents(stream).expect(&case);
            for bad in [[-1, 3], [3, 4]] {
                written.run(stream, scales, &device_splits(bad), 3.0).expect(&case);
                let error = stream.synchronize().expect_err(&case);
                assert!(error.is_bad_splits(), "{case}: {error}");
                let after = written.contents(stream).expect(&case);
                for ((name, before), (_, after)) in before.iter().zip(&after) {
                    assert_eq!(before, after, "{case}, {bad:?}: the {name} was written");
                }
            }
            // Or nothing would have been seen above.
            written.run(stream, scales, &device_splits([3, 2]), 3.0).expect(&case);
            assert_ne!(written.contents(stream).expect(&case), before, "{case}");
        }
    }
}
