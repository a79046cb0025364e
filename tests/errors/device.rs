//! Splits that only the device knows to be wrong: nothing is written, and the next synchronisation
//! or download says so, once.

use grouped_linear::{DType, GroupedTensor, Result, Splits, Stream, Tensor, functional};

use crate::engines::Test;
use crate::fitting::{Fitting, GROUPS, K, N, ROWS, floats};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("bad splits are reported once and write nothing", bad_splits_are_reported_once),
    ("after bad splits the stream works on", after_bad_splits_the_stream_works_on),
    ("a download reports bad splits, the first first", a_download_reports_bad_splits),
    ("another stream does not hear of bad splits", another_stream_does_not_hear_of_bad_splits),
];

/// Splits in device memory that are wrong, and the message.
const BAD_SPLITS: &[([i64; GROUPS], &str)] = &[
    ([-1, 3], "group 0 has -1 rows"),
    ([7, -7], "group 1 has -7 rows"),
    ([3, 4], "7 rows, but the token buffer has 6"),
    ([i32::MAX as i64, i32::MAX as i64], "4294967294 rows, but the token buffer has 6"),
];

/// Runs every operation once over outputs of sevens; returns what the outputs hold, unread until
/// the stream's failures have been looked at.
fn run_all(stream: &Stream, splits: &Splits) -> Result<Vec<Tensor>> {
    let sevens =
        |shape: &[usize]| Tensor::from_slice(stream, shape, &vec![7.0f32; shape.iter().product()]);
    let fitting = Fitting { splits: splits.clone(), ..Fitting::new(stream)? };
    let (mut y, mut dx) = (sevens(&[ROWS, N])?, sevens(&[ROWS, K])?);
    let (dw, db) = (sevens(&[GROUPS, N, K])?, sevens(&[GROUPS, N])?);
    let mut dscales = sevens(&[ROWS])?;
    functional::fprop(stream, &fitting.fprop(), &mut y)?;
    functional::dgrad(stream, &fitting.dgrad(), &mut dx)?;
    functional::wgrad(stream, &fitting.wgrad(), &mut GroupedTensor::packed(dw.clone())?)?;
    functional::dbias(stream, &fitting.dbias(), &mut GroupedTensor::packed(db.clone())?)?;
    functional::dscales(stream, &fitting.dscales(), &mut dscales)?;
    Ok(vec![y, dx, dw, db, dscales])
}

fn device_splits(stream: &Stream, dtype: DType, counts: [i64; GROUPS]) -> Result<Splits> {
    Splits::device(match dtype {
        DType::I32 => Tensor::from_slice(stream, &[GROUPS], &counts.map(|count| count as i32))?,
        _ => Tensor::from_slice(stream, &[GROUPS], &counts)?,
    })
}

fn bad_splits_are_reported_once(engine: &str, stream: &Stream) {
    for &(counts, part) in BAD_SPLITS {
        for dtype in [DType::I32, DType::I64] {
            let case = format!("{engine}: {counts:?} in {dtype}");
            let splits = device_splits(stream, dtype, counts).unwrap();
            let outputs = run_all(stream, &splits).expect("the host cannot see the splits");
            let error = stream.synchronize().expect_err(&case);
            assert!(error.is_bad_splits(), "{case}: {error:?}");
            assert!(error.to_string().contains(part), "{case}: {error}");
            stream.synchronize().expect("an error is reported once");
            for output in outputs {
                let values = output.to_f32(stream).unwrap();
                assert!(values.iter().all(|&value| value == 7.0), "{case}: {values:?}");
            }
        }
    }
}

fn after_bad_splits_the_stream_works_on(engine: &str, stream: &Stream) {
    let bad = device_splits(stream, DType::I64, [-1, 3]).unwrap();
    run_all(stream, &bad).unwrap();
    // Not asked in between: the good operation must run, and the error must still be told.
    let good = device_splits(stream, DType::I64, [2, 3]).unwrap();
    let outputs = run_all(stream, &good).expect(engine);
    assert!(stream.synchronize().expect_err(engine).is_bad_splits());
    for output in outputs {
        let values = output.to_f32(stream).unwrap();
        assert_eq!(values[0], 0.0, "{engine}: the product of zeros was written");
    }
}

fn a_download_reports_bad_splits(engine: &str, stream: &Stream) {
    for counts in [[-1, 3], [9, 9]] {
        run_all(stream, &device_splits(stream, DType::I64, counts).unwrap()).unwrap();
    }
    let tensor = floats(stream, &[2]).unwrap();
    let error = tensor.to_f32(stream).expect_err(engine);
    assert!(error.to_string().contains("group 0 has -1 rows"), "{engine}: {error}");
    assert_eq!(tensor.to_f32(stream).expect(engine), [0.0, 0.0]);
}

fn another_stream_does_not_hear_of_bad_splits(engine: &str, stream: &Stream) {
    let other = stream.device().stream().unwrap();
    run_all(stream, &device_splits(stream, DType::I32, [-1, 3]).unwrap()).unwrap();
    other.synchronize().expect(engine);
    assert!(stream.synchronize().expect_err(engine).is_bad_splits());
}
