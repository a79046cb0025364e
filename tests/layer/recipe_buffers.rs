//! Memory for what a layer quantizes: what a precision of backward needs, and no more.

use grouped_linear::recipe::{CurrentScaling, Mxfp8Scaling, Recipe};
use grouped_linear::{
    BackwardPrecision, BiasUse, Config, DType, LayerRecipe, RecipeBuffers, Result, Stream,
};

use crate::engines::Test;
use crate::recipes::{GROUPS, K, Model, N, PADDED, ROWS, same_results};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes: buffers are as large as what is quantized", |e, s| sizes(s).expect(e)),
    ("recipes: buffers for backward in high precision", |e, s| high(s).expect(e)),
];

/// Bytes: rowwise tokens and weights; what backward in the recipe's precision needs more.
fn sizes(stream: &Stream) -> Result<()> {
    let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::Bf16 };
    let (x, w, dy) = (ROWS * K, GROUPS * N * K, ROWS * N);
    // Scales and their inverses, one each for a group, which both copies share.
    let scales = 2 * GROUPS * 4;
    let current = Recipe::Current(CurrentScaling::default());
    // The padding of columnwise tokens.
    let (padded_x, padded_dy) = (PADDED * K, PADDED * N);
    let cases = [
        (current, x + w + 2 * scales, padded_x + w + dy + padded_dy + scales),
        // Two bytes for each number of each copy.
        (Recipe::Mxfp8(Mxfp8Scaling::default()), 2 * (x + w), 2 * (x + w + 2 * dy)),
    ];
    for (recipe, forward, backward) in cases {
        let own = LayerRecipe::new(stream, config, recipe)?;
        let bytes = |precision| -> Result<usize> {
            let own = own.clone().with_backward(precision)?;
            Ok(RecipeBuffers::new(stream, &own, ROWS)?.byte_len())
        };
        let restored = 2 * (x + w);
        assert_eq!(bytes(BackwardPrecision::High)?, forward, "{recipe:?}");
        assert_eq!(bytes(BackwardPrecision::Dequantized)?, forward + restored, "{recipe:?}");
        assert_eq!(bytes(BackwardPrecision::Recipe)?, forward + backward, "{recipe:?}");
    }
    Ok(())
}

/// They change nothing; nor do those that have room for backward in the recipe's precision.
fn high(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 12)?;
    let own = model.recipe(stream, Recipe::Current(CurrentScaling::default()))?;
    let large = RecipeBuffers::new(stream, &own, ROWS)?;
    let own = own.with_backward(BackwardPrecision::High)?;
    let small = RecipeBuffers::new(stream, &own, ROWS)?;
    let want = model.step(stream, BiasUse::Add, Some(&own))?;
    for (name, buffers) in [("small", small), ("large", large)] {
        let own = own.clone().with_buffers(buffers);
        same_results(name, &model.step(stream, BiasUse::Add, Some(&own))?, &want);
    }
    Ok(())
}
