//! Files that do not hold the layer that is asked for: a refusal names the tensor.

use grouped_linear::checkpoint::{self, Layouts, Naming, safetensors};
use grouped_linear::recipe::{Blocks, CurrentScaling, Format};
use grouped_linear::{
    Config, DType, Error, Form, GroupedLinear, GroupedTensor, LayerRecipe, ParamLayout,
    QuantizedSpec, QuantizedTensor, Recipe, Result, SourceShape, Stream,
};
use safetensors::tensor::Dtype::{self, BF16, F8_E4M3, F8_E5M2, F16, F32, I32};
use safetensors::tensor::TensorView;

use crate::fitting::{K, N};
use crate::{INVALID, Refusal, other_device};

const EXPERTS: usize = 8;
const PREFIX: &str = "experts.";

/// Name, element type and shape of each tensor of a file.
type File = Vec<(String, Dtype, Vec<usize>)>;

/// The tensors of a layer, each expert's alone.
fn discrete() -> File {
    let weights = (0..EXPERTS).map(|g| (format!("{PREFIX}weight{g}"), F32, vec![N, K]));
    let biases = (0..EXPERTS).map(|g| (format!("{PREFIX}bias{g}"), F32, vec![N]));
    weights.chain(biases).collect()
}

/// The tensors of a layer, those of all experts in one.
fn packed() -> File {
    vec![
        (format!("{PREFIX}weight"), F32, vec![EXPERTS, N, K]),
        (format!("{PREFIX}bias"), F32, vec![EXPERTS, N]),
    ]
}

/// The bytes of a file with these tensors, all zeros.
fn bytes(file: &File) -> Vec<u8> {
    bytes_with(file, None)
}

/// The same with an entry of metadata.
fn bytes_with(file: &File, metadata: Option<(String, String)>) -> Vec<u8> {
    let zeros = vec![0; 1 << 16];
    let views = file.iter().map(|(name, dtype, shape)| {
        let length = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (name, TensorView::new(*dtype, shape.clone(), &zeros[..length]).unwrap())
    });
    safetensors::serialize(views, metadata.map(|entry| [entry].into())).unwrap()
}

fn config() -> Config {
    Config { groups: EXPERTS, in_features: K, out_features: N, dtype: DType::F32 }
}

fn load_bytes(stream: &Stream, bytes: &[u8], config: Config, has_bias: bool) -> Result<()> {
    let bias = has_bias.then_some(ParamLayout::Discrete);
    let layouts = Layouts { weights: ParamLayout::Packed, bias };
    checkpoint::load(stream, &checkpoint::open(bytes)?, PREFIX, config, layouts).map(drop)
}

/// Attempts to load a file with a change.
fn load(stream: &Stream, mut file: File, change: impl FnOnce(&mut File)) -> Result<()> {
    change(&mut file);
    load_bytes(stream, &bytes(&file), config(), true)
}

/// The entry of a tensor.
fn entry<'a>(file: &'a mut File, name: &str) -> &'a mut (String, Dtype, Vec<usize>) {
    file.iter_mut().find(|entry| entry.0.strip_prefix(PREFIX) == Some(name)).unwrap()
}

fn add(file: &mut File, name: &str, shape: &[usize]) {
    file.push((format!("{PREFIX}{name}"), F32, shape.to_vec()));
}

fn remove(file: &mut File, name: &str) {
    file.retain(|entry| entry.0.strip_prefix(PREFIX) != Some(name));
}

/// A layer over memory that exists, with a bias of this type.
fn layer(stream: &Stream, bias: Option<DType>) -> Result<GroupedLinear> {
    let zeros = |shape: &[usize], dtype| {
        GroupedTensor::zeros(stream, ParamLayout::Discrete, EXPERTS, shape, dtype)
    };
    let bias = bias.map(|dtype| zeros(&[N], dtype)).transpose()?;
    GroupedLinear::new(stream, config(), zeros(&[N, K], DType::F32)?, bias)
}

fn load_into(stream: &Stream, file: &File, layer: &GroupedLinear) -> Result<()> {
    checkpoint::load_into(stream, &checkpoint::open(&bytes(file))?, PREFIX, layer)
}

pub(crate) const CHECKPOINTS: &[Refusal] = &[
    ("the last expert is missing", "weight7 is missing, the layer has 8", INVALID, |s| {
        load(s, discrete(), |file| remove(file, "weight7"))
    }),
    ("an expert between others is missing", "experts.weight1 is missing", INVALID, |s| {
        load(s, discrete(), |file| remove(file, "weight1"))
    }),
    ("a bias is missing", "experts.bias0 is missing", INVALID, |s| {
        load(s, discrete(), |file| remove(file, "bias0"))
    }),
    ("an expert too many", "weight8 was found, but the layer has 8", INVALID, |s| {
        load(s, discrete(), |file| add(file, "weight8", &[N, K]))
    }),
    ("a bias too many", "bias8 was found, but the layer has 8", INVALID, |s| {
        load(s, discrete(), |file| add(file, "bias8", &[N]))
    }),
    ("an expert of a number beyond all", "weight8 is missing, although", INVALID, |s| {
        load(s, discrete(), |file| add(file, "weight99999999999999999999", &[N, K]))
    }),
    ("weights named in both ways", "both experts.weight and experts.weight0", INVALID, |s| {
        load(s, discrete(), |file| add(file, "weight", &[EXPERTS, N, K]))
    }),
    ("biases named in both ways", "both experts.bias and experts.bias3", INVALID, |s| {
        load(s, packed(), |file| add(file, "bias3", &[N]))
    }),
    ("no weights under the prefix", "neither experts.weight nor", INVALID, |s| {
        load(s, packed(), |file| file.iter_mut().for_each(|entry| entry.0.insert(0, 'x')))
    }),
    ("experts of different shapes", "weight5: shape [8, 16]", INVALID, |s| {
        load(s, discrete(), |file| entry(file, "weight5").2 = vec![K, N])
    }),
    ("experts of different types", "weight5: element type I32", INVALID, |s| {
        load(s, discrete(), |file| entry(file, "weight5").1 = I32)
    }),
    ("biases of different types", "bias7: element type BF16", INVALID, |s| {
        load(s, discrete(), |file| entry(file, "bias7").1 = BF16)
    }),
    ("experts of another shape than the layer's", "weight0: shape [16, 9]", INVALID, |s| {
        load(s, discrete(), |file| {
            file.iter_mut().take(EXPERTS).for_each(|entry| entry.2 = vec![N, K + 1]);
        })
    }),
    ("packed weights of two dimensions", "weight: shape [128, 8]", INVALID, |s| {
        load(s, packed(), |file| entry(file, "weight").2 = vec![EXPERTS * N, K])
    }),
    ("packed weights of four dimensions", "weight: shape [8, 16, 8, 1]", INVALID, |s| {
        load(s, packed(), |file| entry(file, "weight").2 = vec![EXPERTS, N, K, 1])
    }),
    ("packed weights, transposed", "[8, 8, 16] was given, [8, 16, 8]", INVALID, |s| {
        load(s, packed(), |file| entry(file, "weight").2 = vec![EXPERTS, K, N])
    }),
    ("packed weights of other groups", "weight: shape [7, 16, 8]", INVALID, |s| {
        load(s, packed(), |file| entry(file, "weight").2 = vec![EXPERTS - 1, N, K])
    }),
    ("a packed bias of one dimension", "bias: shape [128]", INVALID, |s| {
        load(s, packed(), |file| entry(file, "bias").2 = vec![EXPERTS * N])
    }),
    ("a packed bias of other groups", "bias: shape [9, 16]", INVALID, |s| {
        load(s, packed(), |file| entry(file, "bias").2 = vec![EXPERTS + 1, N])
    }),
    ("weights without elements", "a shape without a 0", INVALID, |s| {
        load(s, packed(), |file| entry(file, "weight").2 = vec![usize::MAX, 0, K])
    }),
    ("weights of another type than the layer's", "weight: element type F16", INVALID, |s| {
        load(s, packed(), |file| entry(file, "weight").1 = F16)
    }),
    ("a bias of integers", "bias: element type I32", INVALID, |s| {
        load(s, packed(), |file| entry(file, "bias").1 = I32)
    }),
    ("no bias, though one is wanted", "neither experts.bias nor experts.bias0", INVALID, |s| {
        load(s, packed(), |file| remove(file, "bias"))
    }),
    ("a bias, though none is wanted", "but the layer has none", INVALID, |s| {
        load_bytes(s, &bytes(&discrete()), config(), false)
    }),
    ("more experts than a layer may have", "4097 groups were asked for", INVALID, |s| {
        let file = vec![(format!("{PREFIX}weight"), F32, vec![4097, 1, 1])];
        let config = Config { groups: 4097, in_features: 1, out_features: 1, dtype: DType::F32 };
        load_bytes(s, &bytes(&file), config, false)
    }),
    ("a layer of integers", "element type i32", INVALID, |s| {
        let file = vec![(format!("{PREFIX}weight"), I32, vec![EXPERTS, N, K])];
        load_bytes(s, &bytes(&file), Config { dtype: DType::I32, ..config() }, false)
    }),
    ("a file cut short", "not a whole safetensors file", INVALID, |s| {
        let bytes = bytes(&packed());
        load_bytes(s, &bytes[..bytes.len() - 1], config(), true)
    }),
    ("a file of another kind", "not a whole safetensors file", INVALID, |s| {
        load_bytes(s, b"something else", config(), true)
    }),
    ("a shape that overflows", "overflow", INVALID, |s| {
        let header =
            br#"{"weight":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#;
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header].concat();
        load_bytes(s, &bytes, config(), true)
    }),
    ("into a layer without a bias", "but the layer has none", INVALID, |s| {
        load_into(s, &discrete(), &layer(s, None)?)
    }),
    ("into a bias of another type", "bias: element type F32", INVALID, |s| {
        load_into(s, &packed(), &layer(s, Some(DType::Bf16))?)
    }),
    #[cfg(feature = "emulator")]
    ("into a layer on another device", "weights lies on", INVALID, |s| {
        let layer = layer(&other_device::stream(s).expect("an emulated GPU"), None)?;
        load_into(s, &packed().into_iter().take(1).collect(), &layer)
    }),
    #[cfg(feature = "emulator")]
    ("saving from another device", "tensor lies on", INVALID, |s| {
        let layer = layer(&other_device::stream(s).expect("an emulated GPU"), None)?;
        checkpoint::save(s, &layer, PREFIX, Naming::PACKED).map(drop)
    }),
    ("converting with an expert missing", "weight0 is missing, although", INVALID, |_| {
        let mut file = discrete();
        remove(&mut file, "weight0");
        checkpoint::convert(&bytes(&file), Naming::PACKED, |_| true).map(drop)
    }),
    ("converting a bias of other groups", "bias: shape [9, 16]", INVALID, |_| {
        let mut file = packed();
        entry(&mut file, "bias").2 = vec![EXPERTS + 1, N];
        checkpoint::convert(&bytes(&file), Naming::PACKED, |_| true).map(drop)
    }),
    ("converting a file cut short", "not a whole safetensors file", INVALID, |_| {
        checkpoint::convert(&bytes(&packed())[..100], Naming::PACKED, |_| true).map(drop)
    }),
];

/// Sizes that FP8 can have.
const WIDE: (usize, usize) = (16, 32);

/// The tensors of quantized weights with one scale per expert, rowwise.
fn quantized() -> File {
    let (rows, columns) = WIDE;
    let scales = |name| (format!("{PREFIX}weight.{name}"), F32, vec![EXPERTS]);
    let data = (format!("{PREFIX}weight.rowwise.data"), F8_E4M3, vec![EXPERTS, rows, columns]);
    vec![data, scales("rowwise.scale_inv"), scales("scale")]
}

/// What their file says of them, one text replaced by another.
fn described(from: &str, to: &str) -> Option<(String, String)> {
    let (rows, columns) = WIDE;
    let text = format!(
        r#"{{"version":1,"groups":{EXPERTS},"rows":{rows},"columns":{columns},"format":"fp8",
        "dtype":"e4m3","blocks":"tensor","rowwise":"codes","columnwise":null,"shared":[],
        "scale":true}}"#
    );
    assert!(text.contains(from), "{from}");
    Some((format!("{PREFIX}weight.quantized"), text.replace(from, to)))
}

fn quantized_spec(blocks: Blocks) -> QuantizedSpec {
    let (rows, columns) = WIDE;
    QuantizedSpec {
        groups: EXPERTS,
        source: SourceShape::Weights { rows, columns },
        format: Format::fp8(DType::E4m3, blocks),
        rowwise: Some(Form::Codes),
        columnwise: None,
    }
}

/// Attempts to load quantized weights from a file with a change.
fn load_quantized(
    stream: &Stream,
    metadata: Option<(String, String)>,
    change: impl FnOnce(&mut File),
) -> Result<QuantizedTensor> {
    let mut file = quantized();
    change(&mut file);
    let bytes = bytes_with(&file, metadata);
    let (tensors, metadata) = (checkpoint::open(&bytes)?, checkpoint::metadata(&bytes)?);
    checkpoint::load_quantized(stream, &tensors, &metadata, PREFIX)
}

/// The same into memory on the device of `own`.
fn load_quantized_into(stream: &Stream, own: &Stream, blocks: Blocks) -> Result<()> {
    let bytes = bytes_with(&quantized(), described("", ""));
    let (tensors, metadata) = (checkpoint::open(&bytes)?, checkpoint::metadata(&bytes)?);
    let mut weights = QuantizedTensor::empty(own, quantized_spec(blocks))?;
    checkpoint::load_quantized_into(stream, &tensors, &metadata, PREFIX, &mut weights)
}

pub(crate) const QUANTIZED: &[Refusal] = &[
    ("quantized weights that nothing describes", "weight.quantized are missing", INVALID, |s| {
        load_quantized(s, None, |_| ()).map(drop)
    }),
    ("quantized weights without scales", "rowwise.scale_inv is missing", INVALID, |s| {
        load_quantized(s, described("", ""), |file| remove(file, "weight.rowwise.scale_inv"))
            .map(drop)
    }),
    ("a copy that is not described", "columnwise.data was found", INVALID, |s| {
        load_quantized(s, described("", ""), |file| {
            add(file, "weight.columnwise.data", &[EXPERTS]);
        })
        .map(drop)
    }),
    ("a copy that is not there", "columnwise.data is missing", INVALID, |s| {
        let described = described(r#""columnwise":null"#, r#""columnwise":"codes""#);
        load_quantized(s, described, |_| ()).map(drop)
    }),
    ("codes of another FP8", "rowwise.data: element type F8_E5M2", INVALID, |s| {
        load_quantized(s, described("", ""), |file| {
            entry(file, "weight.rowwise.data").1 = F8_E5M2;
        })
        .map(drop)
    }),
    ("codes of other sizes", "rowwise.data: shape [8, 16, 32]", INVALID, |s| {
        load_quantized(s, described(r#""rows":16"#, r#""rows":32"#), |_| ()).map(drop)
    }),
    ("scales of other blocks", "rowwise.scale_inv: shape [8]", INVALID, |s| {
        let described = described(r#""scale":true"#, r#""scale":false"#);
        let described = described.map(|(key, text)| (key, text.replace("tensor", "1x128")));
        load_quantized(s, described, |file| remove(file, "weight.scale")).map(drop)
    }),
    ("a format that there is not", "format is \"fp6\"", INVALID, |s| {
        load_quantized(s, described("fp8", "fp6"), |_| ()).map(drop)
    }),
    ("a description that is cut short", "no JSON object", INVALID, |s| {
        load_quantized(s, described("}", ""), |_| ()).map(drop)
    }),
    ("a description of a later version", "of version 2", Error::is_unsupported, |s| {
        load_quantized(s, described(r#""version":1"#, r#""version":2"#), |_| ()).map(drop)
    }),
    ("quantized weights for a plain layer", "read them with load_quantized", INVALID, |s| {
        load_bytes(s, &bytes_with(&quantized(), described("", "")), config(), false)
    }),
    ("quantized weights into other blocks", "are needed", INVALID, |s| {
        load_quantized_into(s, s, Blocks::Square)
    }),
    ("quantized weights of a file, for another layer", "quantized weights: ", INVALID, |s| {
        let (groups, (out_features, in_features)) = (EXPERTS - 1, WIDE);
        let config = Config { groups, in_features, out_features, dtype: DType::Bf16 };
        let recipe = LayerRecipe::new(s, config, Recipe::Current(CurrentScaling::default()))?;
        recipe.with_weights(load_quantized(s, described("", ""), |_| ())?).map(drop)
    }),
    ("quantized tokens in a checkpoint", "only weights are saved", INVALID, |s| {
        let tokens = SourceShape::Tokens { rows: 16, features: 32 };
        let spec = QuantizedSpec { source: tokens, ..quantized_spec(Blocks::Tensor) };
        let tokens = QuantizedTensor::empty(s, spec)?;
        checkpoint::save_quantized(s, &tokens, PREFIX).map(drop)
    }),
    #[cfg(feature = "emulator")]
    ("quantized weights into another device's", "quantized weights lies on", INVALID, |s| {
        let other = other_device::stream(s).expect("an emulated GPU");
        load_quantized_into(s, &other, Blocks::Tensor)
    }),
    #[cfg(feature = "emulator")]
    ("saving quantized weights from another device", "tensor lies on", INVALID, |s| {
        let other = other_device::stream(s).expect("an emulated GPU");
        let weights = QuantizedTensor::empty(&other, quantized_spec(Blocks::Tensor))?;
        checkpoint::save_quantized(s, &weights, PREFIX).map(drop)
    }),
];

/// Otherwise the tables above might refuse for a reason that it does not name.
pub(crate) fn files_that_fit(stream: &Stream) -> Result<()> {
    load(stream, packed(), |_| ())?;
    load(stream, discrete(), |_| ())?;
    load_into(stream, &discrete(), &layer(stream, Some(DType::F32))?)?;
    load_quantized(stream, described("", ""), |_| ())?;
    load_quantized_into(stream, stream, Blocks::Tensor)?;
    checkpoint::convert(&bytes(&packed()), Naming::DISCRETE, |_| true).map(drop)
}
