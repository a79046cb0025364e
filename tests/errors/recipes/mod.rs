//! What recipes, quantization and products of quantized tensors refuse.

mod bad_splits;
mod copies;
mod exact;
mod experts;
mod forms;
mod halfway;
mod layers;
mod products;
mod quantizations;
mod small_blocks;

use grouped_linear::recipe::{
    Accumulation, Blocks, CurrentScaling, Format, Fp8Types, Recipe, ScaleRule, Sums,
};
use grouped_linear::{
    Config, DType, Error, Factor, Form, GroupedTensor, QuantizedSpec, QuantizedTensor,
    RecipeBuffers, Result, SourceShape, Stream, Tensor,
};

use self::copies::{COPIES, from_copy};
use self::layers::{
    LAYERS, RECIPES, WEIGHTS, block, current, delayed, forward, nothing_written, of_config, refresh,
};
use self::products::{FAST, PRODUCTS, PROMOTED, Products};
use self::quantizations::{
    QUANTIZATIONS, misplaced, quantize_all_under, quantize_delayed, quantize_summing,
    quantize_tokens, quantize_under,
};
use crate::engines::Test;
use crate::fitting::{GROUPS, ROWS};
use crate::{Question, refused};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("recipes that cannot be are refused", |e, s| refused(RECIPES, e, s)),
    ("what does not fit the recipe is refused", |e, s| refused(LAYERS, e, s)),
    ("tokens that do not fit the recipe are refused", |e, s| refused(layers::KEPT, e, s)),
    ("quantized weights that do not fit are refused", |e, s| refused(WEIGHTS, e, s)),
    ("quantized experts that do not fit are refused", |e, s| refused(experts::EXPERTS, e, s)),
    ("quantizations under bad splits write nothing", bad_splits::write_nothing),
    ("quantizations that do not fit are refused", |e, s| refused(QUANTIZATIONS, e, s)),
    ("quantized operands that do not fit are refused", |e, s| refused(PRODUCTS, e, s)),
    ("quantized memory that does not fit is refused", |e, s| refused(COPIES, e, s)),
    ("quantized operands that fit are not refused", |engine, s| fitting(s).expect(engine)),
    ("a refused recipe writes nothing", |engine, s| nothing_written(s).expect(engine)),
    ("a forward refused half-way has changed nothing", |e, s| halfway::forward(s).expect(e)),
    ("forward refuses what backward could not restore", |e, s| halfway::restored(s).expect(e)),
    ("scales are refused where four at once are misplaced", |e, s| {
        halfway::late_scales(s).expect(e);
    }),
    ("copies that no gradient reads may lie anywhere", |e, s| halfway::unread(s).expect(e)),
    ("a backward refused half-way has changed nothing", |e, s| halfway::kernels(s).expect(e)),
    ("a misplaced output gradient has changed nothing", |e, s| {
        halfway::late_gradient(s).expect(e);
    }),
    ("a quantization between 16 bytes is refused by kernels only", misplaced),
    ("blocks between 16 bytes are not aligned", |e, s| products::misplaced(s).expect(e)),
    ("recipes of small blocks that cannot be are refused", |e, s| {
        refused(small_blocks::RECIPES, e, s)
    }),
    ("quantizations to small blocks that do not fit are refused", |e, s| {
        refused(small_blocks::QUANTIZATIONS, e, s)
    }),
    ("memory of small blocks that does not fit is refused", |e, s| {
        refused(small_blocks::COPIES, e, s)
    }),
    ("small blocks between 16 bytes are refused by kernels only", small_blocks::misplaced),
    ("products of small blocks that do not fit are refused", |e, s| refused(exact::PRODUCTS, e, s)),
    ("codes beside exact numbers are multiplied by the CPU only", exact::codes),
    ("codes are multiplied where tensor cores apply their scales", exact::both_in_codes),
    ("weights in another form are multiplied by the CPU only", exact::weights_in_another_form),
    ("exact numbers that cannot be made are refused", |e, s| refused(forms::EXACT_NUMBERS, e, s)),
    ("orders of scales that do not fit are refused", |e, s| refused(forms::ORDERS, e, s)),
    ("codes that cannot be restored are refused", |e, s| refused(forms::RESTORED, e, s)),
    ("exact numbers are refused before any is written", |e, s| {
        forms::restored_half_way(s).expect(e);
    }),
    ("FP8 has one form", |e, s| forms::fp8(s).expect(e)),
    ("copies are refused before tokens are restored for them", |e, s| {
        quantizations::requantized_half_way(s).expect(e);
    }),
    ("small blocks that fit are not refused", |engine, s| {
        small_blocks::fitting(s).expect(engine);
        exact::fitting(s).expect(engine);
        experts::fitting(s).expect(engine);
        forms::fitting(s).expect(engine);
    }),
];

/// What depends on the products that Blackwell has.
pub(crate) const ON_BLACKWELL: &[(&str, Test)] = &[
    ("codes beside exact numbers are multiplied by the CPU only", exact::codes),
    ("codes are multiplied where tensor cores apply their scales", exact::both_in_codes),
    ("weights in another form are multiplied by the CPU only", exact::weights_in_another_form),
];

const UNSUPPORTED: Question = Error::is_unsupported;
const K: usize = 32;
const N: usize = 48;
const CONFIG: Config =
    Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::Bf16 };
const CURRENT: Recipe = Recipe::Current(CurrentScaling {
    types: Fp8Types::Hybrid,
    scale: ScaleRule { power_of_two: false, epsilon: 0.0 },
    sums: Sums {
        fprop: Accumulation::Fast,
        dgrad: Accumulation::Promoted,
        wgrad: Accumulation::Promoted,
    },
});

fn zeros(stream: &Stream, shape: &[usize]) -> Result<Tensor> {
    Tensor::zeros(stream, shape, DType::Bf16)
}

fn grouped(stream: &Stream, shape: &[usize]) -> Result<GroupedTensor> {
    GroupedTensor::packed(zeros(stream, shape)?)
}

const E4M3: Format = Format::fp8(DType::E4m3, Blocks::Tensor);
const VECTORS: Format = Format::fp8(DType::E4m3, Blocks::Vector);
const SQUARES: Format = Format::fp8(DType::E4m3, Blocks::Square);
const E5M2: Format = Format::fp8(DType::E5m2, Blocks::Tensor);
const BOTH: [bool; 2] = [true; 2];
const ROWWISE: [bool; 2] = [true, false];
const COLUMNWISE: [bool; 2] = [false, true];

fn spec(source: SourceShape, format: Format, copies: [bool; 2]) -> QuantizedSpec {
    let [rowwise, columnwise] = copies.map(|wanted| wanted.then_some(Form::Codes));
    QuantizedSpec { groups: GROUPS, source, format, rowwise, columnwise }
}

/// Contents unspecified; refused before they are read.
fn tokens(
    stream: &Stream,
    features: usize,
    format: Format,
    copies: [bool; 2],
) -> Result<QuantizedTensor> {
    let source = SourceShape::Tokens { rows: ROWS, features };
    QuantizedTensor::empty(stream, spec(source, format, copies))
}

fn weights(stream: &Stream, format: Format, copies: [bool; 2]) -> Result<QuantizedTensor> {
    let source = SourceShape::Weights { rows: N, columns: K };
    QuantizedTensor::empty(stream, spec(source, format, copies))
}

/// Otherwise the tables might refuse for a reason that they do not name.
fn fitting(stream: &Stream) -> Result<()> {
    for (side, other) in [(E4M3, E4M3), (VECTORS, SQUARES), (VECTORS, VECTORS)] {
        let own = Products::of(stream, side, other, BOTH)?;
        own.fprop(stream, PROMOTED)?;
        own.dgrad(stream)?;
        own.wgrad(stream)?;
    }
    let (own, alpha) = (Products::new(stream)?, Tensor::zeros(stream, &[GROUPS], DType::F32)?);
    own.fprop(stream, FAST)?;
    products::plan_wgrad(i32::MAX as usize - 127 * 4096)?;
    let dw = grouped(stream, &[GROUPS, N, K])?;
    own.wgrad_into(stream, dw, Factor::PerGroup(&alpha))?;
    quantize_tokens(stream, &zeros(stream, &[ROWS, K])?, tokens(stream, K, VECTORS, BOTH)?)?;
    let flag = Tensor::zeros(stream, &[1], DType::I32)?;
    quantize_under(stream, &flag)?;
    quantize_all_under(stream, &flag)?;
    quantize_delayed(stream, E4M3, GROUPS, DType::E4m3)?;
    quantize_summing(stream, grouped(stream, &[GROUPS, K])?)?;
    refresh(stream, &[GROUPS, N, K], DType::F32)?;
    from_copy(stream, ROWWISE, |_| Ok(()))?;
    of_config(stream, |_| ())?;
    block(stream, |_| ())?;
    forward(stream, &delayed(stream)?)?;
    let buffers = RecipeBuffers::new(stream, &current(stream)?, ROWS)?;
    forward(stream, &current(stream)?.with_buffers(buffers))?;
    layers::fitting_tokens(stream)
}
