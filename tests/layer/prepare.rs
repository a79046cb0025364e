//! A way to prepare weights that a program adds: copies in two precisions, held by one cache.

use grouped_linear::functional::{CastArgs, cast};
use grouped_linear::{
    DType, GroupedTensor, ParamLayout, Prepare, Refresh, Result, Stream, Tensor, WeightCache,
};

use crate::engines::Test;
use crate::exact::{K, N, same};

pub(crate) const TESTS: &[(&str, Test)] =
    &[("a cache holds what a program's own preparation makes", |e, s| two_copies(s).expect(e))];

const GROUPS: usize = 3;
const COUNT: usize = GROUPS * N * K;

/// In BF16 and in FP16.
#[derive(Debug)]
struct BothHalves;

impl Prepare for BothHalves {
    type Prepared = [Tensor; 2];

    fn allocate(&self, stream: &Stream) -> Result<[Tensor; 2]> {
        let copy = |dtype| Tensor::empty(stream, &[GROUPS, N, K], dtype);
        Ok([copy(DType::Bf16)?, copy(DType::F16)?])
    }

    fn fill(
        &self,
        stream: &Stream,
        master: &GroupedTensor,
        skip: &Tensor,
        prepared: &mut [Tensor; 2],
    ) -> Result<()> {
        let args = CastArgs { source: master, skip: Some(skip) };
        prepared.iter_mut().try_for_each(|copy| cast(stream, &args, copy))
    }
}

fn two_copies(stream: &Stream) -> Result<()> {
    let master = |value: f32| {
        let (layout, values) = (ParamLayout::Discrete, [value; COUNT]);
        GroupedTensor::from_slice(stream, layout, GROUPS, &[N, K], &values)
    };
    let mut cache = WeightCache::new(stream, BothHalves)?;
    let copies = cache.prepared().clone();
    let hold = |what: &str, want: [f32; 2]| -> Result<()> {
        for (copy, want) in copies.iter().zip(want) {
            same(what, &copy.to_f32(stream)?, &[want; COUNT]);
        }
        Ok(())
    };
    assert_eq!(cache.refresh(stream, &master(1.001)?, 1)?, Refresh::Launched);
    hold("each rounded in its own way", [1.0, 1.000_976_6])?;
    assert_eq!(cache.refresh(stream, &master(2.5)?, 1)?, Refresh::Held);
    hold("the same version", [1.0, 1.000_976_6])?;
    assert_eq!(cache.refresh(stream, &master(2.5)?, 2)?, Refresh::Launched);
    hold("another version, in the same memory", [2.5; 2])?;
    // The flag on the device holds for both.
    cache.update(stream, &master(4.0)?)?;
    hold("an update of what is present", [2.5; 2])?;

    // What its preparation refuses is the cache's refusal, and does not count as done.
    let transposed = GroupedTensor::packed(Tensor::zeros(stream, &[GROUPS, K, N], DType::F32)?)?;
    let error = cache.refresh(stream, &transposed, 3).expect_err("transposed");
    assert!(error.is_invalid_argument(), "{error:?}");
    assert_eq!(cache.refresh(stream, &master(4.0)?, 3)?, Refresh::Launched);
    hold("after a refusal", [4.0; 2])
}
