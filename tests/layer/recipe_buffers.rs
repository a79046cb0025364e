//! Memory for what a layer quantizes: what a precision of backward needs, and no more.

use grouped_linear::recipe::{CurrentScaling, Mxfp8Scaling, Recipe};
use grouped_linear::{
    BackwardPrecision, BiasUse, Config, DType, Form, ForwardOptions, LayerRecipe, QuantizeWeights,
    RecipeBuffers, Result, Stream, Tensor, WeightCache,
};

use crate::engines::Test;
use crate::recipes::{GROUPS, K, Model, N, PADDED, ROWS, same_results};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes: buffers are as large as what is quantized", |e, s| sizes(s).expect(e)),
    ("recipes: buffers for backward in high precision", |e, s| high(s).expect(e)),
    ("recipes: buffers beside given weights have no room for others", given_weights),
    ("recipes: buffers in another form are refused", |e, s| forms(s).expect(e)),
];

/// There are more forms.
pub(crate) const ON_BLACKWELL: &[(&str, Test)] =
    &[("recipes: buffers in another form are refused", |e, s| forms(s).expect(e))];

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

/// The layer's results are the same; without the weights there is nowhere to put them.
fn given_weights(engine: &str, stream: &Stream) {
    let outcome = || -> Result<()> {
        let model = Model::new(stream, DType::Bf16, 23)?;
        let own = model.recipe(stream, Recipe::Current(CurrentScaling::default()))?;
        let want = model.step(stream, BiasUse::Add, Some(&own))?;
        let prepare = QuantizeWeights { recipe: own.clone(), master: DType::Bf16 };
        let mut cache = WeightCache::new(stream, prepare)?;
        cache.refresh(stream, model.layer.weights(), 1)?;
        let bytes = |own: &LayerRecipe| -> Result<usize> {
            Ok(RecipeBuffers::new(stream, own, ROWS)?.byte_len())
        };
        let given = own.clone().with_weights(cache.prepared().clone())?;
        // Both copies with their scale and its inverse.
        assert_eq!(bytes(&own)? - bytes(&given)?, 2 * GROUPS * N * K + 2 * GROUPS * 4);
        let buffers = RecipeBuffers::new(stream, &given, ROWS)?;
        let given = given.with_buffers(buffers.clone());
        same_results("given weights", &model.step(stream, BiasUse::Add, Some(&given))?, &want);
        let own = own.with_buffers(buffers);
        let error = model.forward(stream, BiasUse::Add, Some(&own)).expect_err("no room");
        let message = error.to_string();
        assert!(error.is_invalid_argument() && message.contains("the weights"), "{message}");
        assert!(message.contains("RecipeBuffers::new"), "{message}");
        Ok(())
    };
    outcome().expect(engine);
}

/// Nothing has been written then. Whatever the device does not multiply is refused before.
fn forms(stream: &Stream) -> Result<()> {
    let model = Model::new(stream, DType::Bf16, 24)?;
    let own = model.recipe(stream, Recipe::Mxfp8(Mxfp8Scaling::default()))?;
    let all = [Form::Codes, Form::Swizzled, Form::Exact];
    let all: Vec<LayerRecipe> =
        all.into_iter().filter_map(|form| own.clone().with_form(stream, form).ok()).collect();
    for made_for in &all {
        let buffers = RecipeBuffers::new(stream, made_for, ROWS)?;
        for own in &all {
            let (made, wanted) = (made_for.form(), own.form());
            let own = own.clone().with_buffers(buffers.clone());
            let sevens = vec![7.0; ROWS * N];
            let mut y = Tensor::from_f32(stream, &[ROWS, N], DType::Bf16, &sevens)?;
            let options = ForwardOptions { recipe: Some(&own), ..ForwardOptions::default() };
            let outcome =
                model.layer.forward_into(stream, &model.x, &model.splits, options, &mut y);
            assert_eq!(outcome.is_ok(), made == wanted, "{made:?} for {wanted:?}");
            let Err(error) = outcome else { continue };
            let message = error.to_string();
            assert!(error.is_invalid_argument(), "{message}");
            for part in [&format!("{made:?}"), &format!("{wanted:?}"), "RecipeBuffers::new"] {
                assert!(message.contains(part), "{message}");
            }
            assert_eq!(y.to_f32(stream)?, sevens, "{made:?} for {wanted:?}");
        }
    }
    Ok(())
}
