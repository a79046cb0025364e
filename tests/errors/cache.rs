//! What casts and cached weights refuse, and that a refresh which was refused is not taken for
//! done.

use grouped_linear::functional::{CastArgs, cast};
use grouped_linear::{
    CastWeights, Config, DType, GroupedTensor, Refresh, Result, Stream, Tensor, WeightCache,
};

use crate::engines::Test;
use crate::fitting::{GROUPS, K, N, packed};
use crate::{INVALID, Refusal, refused};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("casts that do not fit are refused", |e, s| refused(CASTS, e, s)),
    ("caches that do not fit are refused", |e, s| refused(CACHES, e, s)),
    ("a refused refresh is not counted", |engine, s| not_counted(s).expect(engine)),
];

const SHAPE: [usize; 3] = [GROUPS, N, K];

/// Casts fitting weights to a destination.
fn cast_to(stream: &Stream, shape: &[usize], dtype: DType) -> Result<()> {
    let source = packed(stream, &SHAPE)?;
    let args = CastArgs { source: &source, skip: None };
    cast(stream, &args, &mut Tensor::zeros(stream, shape, dtype)?)
}

/// Casts a source to a fitting destination.
fn cast_from(stream: &Stream, source: &GroupedTensor) -> Result<()> {
    let shape = [&[source.groups()], source.shape()].concat();
    let args = CastArgs { source, skip: None };
    cast(stream, &args, &mut Tensor::zeros(stream, &shape, DType::Bf16)?)
}

fn cast_under(stream: &Stream, flag: &Tensor) -> Result<()> {
    let source = packed(stream, &SHAPE)?;
    let args = CastArgs { source: &source, skip: Some(flag) };
    cast(stream, &args, &mut Tensor::zeros(stream, &SHAPE, DType::F16)?)
}

const CASTS: &[Refusal] = &[
    ("to FP32", "destination: element type f32", INVALID, |s| cast_to(s, &SHAPE, DType::F32)),
    ("to integers", "destination: element type i32", INVALID, |s| cast_to(s, &SHAPE, DType::I32)),
    ("to fewer groups", "destination: shape [1, 16, 8]", INVALID, |s| {
        cast_to(s, &[1, N, K], DType::Bf16)
    }),
    ("to the transposed shape", "destination: shape [2, 8, 16]", INVALID, |s| {
        cast_to(s, &[GROUPS, K, N], DType::Bf16)
    }),
    ("to the same number of elements", "destination: shape [32, 8]", INVALID, |s| {
        cast_to(s, &[GROUPS * N, K], DType::Bf16)
    }),
    ("from FP16", "source: element type f16", INVALID, |s| {
        cast_from(s, &GroupedTensor::packed(Tensor::zeros(s, &SHAPE, DType::F16)?)?)
    }),
    ("from 4097 tensors", "a cast of 4097 tensors was asked for, 1 to 4096", INVALID, |s| {
        let one = Tensor::zeros(s, &[8], DType::F32)?;
        cast_from(s, &GroupedTensor::discrete(s, vec![one; 4097])?)
    }),
    ("under two flags", "skip: shape [2]", INVALID, |s| {
        cast_under(s, &Tensor::zeros(s, &[2], DType::I32)?)
    }),
    ("under a flag of 64 bits", "skip: element type i64", INVALID, |s| {
        cast_under(s, &Tensor::zeros(s, &[1], DType::I64)?)
    }),
];

fn cache(stream: &Stream, dtype: DType) -> Result<WeightCache> {
    let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype };
    WeightCache::new(stream, CastWeights { config })
}

/// Refreshes from master weights of this shape and type.
fn refresh(stream: &Stream, shape: &[usize], dtype: DType) -> Result<()> {
    let master = GroupedTensor::packed(Tensor::zeros(stream, shape, dtype)?)?;
    cache(stream, DType::Bf16)?.refresh(stream, &master, 1).map(drop)
}

const CACHES: &[Refusal] = &[
    ("copies in FP32", "cached weights: element type f32", INVALID, |s| {
        cache(s, DType::F32).map(drop)
    }),
    ("copies of integers", "cached weights: element type i64", INVALID, |s| {
        cache(s, DType::I64).map(drop)
    }),
    ("copies beyond all memory", "fewer than 2^63 bytes", INVALID, |s| {
        let config =
            Config { groups: 2, in_features: usize::MAX, out_features: 1, dtype: DType::F16 };
        WeightCache::new(s, CastWeights { config }).map(drop)
    }),
    ("master weights for more groups", "master weights: 3 groups", INVALID, |s| {
        refresh(s, &[GROUPS + 1, N, K], DType::F32)
    }),
    ("transposed master weights", "master weights: shape [8, 16]", INVALID, |s| {
        refresh(s, &[GROUPS, K, N], DType::F32)
    }),
    ("master weights in BF16", "source: element type bf16", INVALID, |s| {
        refresh(s, &SHAPE, DType::Bf16)
    }),
];

fn not_counted(stream: &Stream) -> Result<()> {
    let mut cache = cache(stream, DType::F16)?;
    let ones = |shape: &[usize]| -> Result<GroupedTensor> {
        let ones = vec![1.0f32; shape.iter().product()];
        GroupedTensor::packed(Tensor::from_slice(stream, shape, &ones)?)
    };
    let (master, wrong) = (ones(&SHAPE)?, ones(&[GROUPS, K, N])?);
    for version in [5, 6] {
        assert!(cache.refresh(stream, &wrong, version).is_err());
        assert_eq!(cache.refresh(stream, &master, version)?, Refresh::Launched);
        assert_eq!(cache.refresh(stream, &master, version)?, Refresh::Held);
        assert_eq!(cache.version(), Some(version));
    }
    let copies = cache.weights().group(1)?.to_f32(stream)?;
    assert_eq!(copies, vec![1.0; N * K]);
    Ok(())
}
