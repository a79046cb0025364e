//! Files are put together here by hand, tensor by tensor, so that neither direction checks itself.

mod quantized;

use std::collections::HashMap;

use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};

use super::*;
use crate::backend::{Device, Stream};
use crate::conformance::Generator;
use crate::grouped_linear::{Config, GroupedLinear};
use crate::tensor::{DType, GroupedTensor, Tensor};

const LAYOUTS: [ParamLayout; 2] = [ParamLayout::Packed, ParamLayout::Discrete];
const BIAS_LAYOUTS: [Option<ParamLayout>; 3] =
    [None, Some(ParamLayout::Packed), Some(ParamLayout::Discrete)];
const PREFIX: &str = "layers.3.experts.";

fn namings() -> impl Iterator<Item = Naming> {
    LAYOUTS.into_iter().flat_map(|weights| LAYOUTS.map(|bias| Naming { weights, bias }))
}

fn all_layouts() -> impl Iterator<Item = Layouts> {
    LAYOUTS.into_iter().flat_map(|weights| BIAS_LAYOUTS.map(|bias| Layouts { weights, bias }))
}

fn streams() -> Vec<Stream> {
    let mut devices = vec![Device::cpu()];
    #[cfg(feature = "emulator")]
    devices.push(Device::emulated(ptx_emulator::Arch::Sm90a).unwrap());
    devices.iter().map(|device| device.stream().unwrap()).collect()
}

/// Tensors of a file by name.
type File = Vec<(String, Dtype, Vec<usize>, Vec<u8>)>;

fn write(file: &File, metadata: Option<HashMap<String, String>>) -> Vec<u8> {
    let views = file
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        })
        .collect::<Vec<_>>();
    safetensors::serialize(views, metadata).unwrap()
}

/// The bits of a layer's parameters, NaN of any kind among them.
#[derive(Clone, Debug)]
struct Bits {
    groups: usize,
    n: usize,
    k: usize,
    weights: (Dtype, Vec<u8>),
    bias: Option<(Dtype, Vec<u8>)>,
}

impl Bits {
    fn new((groups, n, k): (usize, usize, usize), weights: Dtype, bias: Option<Dtype>) -> Self {
        let mut generator = Generator::new((groups * 1000 + n * 30 + k) as u64);
        let mut bits = |dtype: Dtype, count: usize| {
            let bytes = count * dtype.bitsize() / 8;
            (dtype, (0..bytes).map(|_| generator.next() as u8).collect())
        };
        let weights = bits(weights, groups * n * k);
        Self { groups, n, k, weights, bias: bias.map(|bias| bits(bias, groups * n)) }
    }

    /// The tensors as `naming` names them.
    fn file(&self, prefix: &str, naming: Naming) -> File {
        let &Self { groups, n, k, .. } = self;
        let mut file = File::new();
        let mut add = |stem, layout, shape: &[usize], (dtype, bytes): &(Dtype, Vec<u8>)| {
            if layout == ParamLayout::Packed {
                let shape = [&[groups], shape].concat();
                file.push((format!("{prefix}{stem}"), *dtype, shape, bytes.clone()));
                return;
            }
            for (g, bytes) in bytes.chunks(bytes.len() / groups).enumerate() {
                file.push((format!("{prefix}{stem}{g}"), *dtype, shape.to_vec(), bytes.to_vec()));
            }
        };
        add("weight", naming.weights, &[n, k], &self.weights);
        if let Some(bias) = &self.bias {
            add("bias", naming.bias, &[n], bias);
        }
        file
    }
}

/// Asserts that a layer holds these bits in these layouts.
fn assert_holds(stream: &Stream, layer: &GroupedLinear, bits: &Bits, layouts: Layouts, case: &str) {
    let got = Layouts {
        weights: layer.weights().layout(),
        bias: layer.bias().map(GroupedTensor::layout),
    };
    assert_eq!(got, layouts, "{case}");
    let parameters =
        [(Some(layer.weights()), Some(&bits.weights)), (layer.bias(), bits.bias.as_ref())];
    for (parameter, bits) in parameters {
        let (Some(parameter), Some((_, bytes))) = (parameter, bits) else {
            assert_eq!((parameter.is_none(), bits.is_none()), (true, true), "{case}");
            continue;
        };
        for (group, want) in bytes.chunks(bytes.len() / parameter.groups()).enumerate() {
            let mut got = vec![0; want.len()];
            parameter.group(group).unwrap().read_bytes(stream, &mut got).unwrap();
            assert_eq!(got, want, "{case}: group {group}");
        }
    }
}

fn dtypes() -> [(DType, Dtype); 3] {
    [(DType::Bf16, Dtype::BF16), (DType::F16, Dtype::F16), (DType::F32, Dtype::F32)]
}

/// Every type, number of groups, layout in memory and naming in the file.
fn table(stream: &Stream, mut check: impl FnMut(&str, Config, &Bits, Layouts, Naming)) {
    for (dtype, stored) in dtypes() {
        for (groups, out_features, in_features) in [(1, 3, 5), (2, 16, 8), (11, 2, 3)] {
            for layouts in all_layouts() {
                let sizes = (groups, out_features, in_features);
                let bits = Bits::new(sizes, stored, layouts.bias.map(|_| stored));
                let config = Config { groups, in_features, out_features, dtype };
                for naming in namings() {
                    let device = stream.device_id();
                    let case = format!("{device}: {config:?}, {layouts:?}, {naming:?}");
                    check(&case, config, &bits, layouts, naming);
                }
            }
        }
    }
}

#[test]
fn either_naming_loads_into_every_layout() {
    for stream in &streams() {
        table(stream, |case, config, bits, layouts, naming| {
            let mut file = bits.file(PREFIX, naming);
            // Another layer, and what is not a layer's, are not looked at.
            file.extend(Bits::new((1, 2, 2), Dtype::F64, None).file("layers.31.experts.", naming));
            file.push((format!("{PREFIX}norm.weight"), Dtype::F32, vec![1], vec![0; 4]));
            file.push((format!("{PREFIX}weight_scale"), Dtype::U8, vec![1], vec![0]));
            let file = write(&file, None);
            let layer = load(stream, &open(&file).unwrap(), PREFIX, config, layouts).expect(case);
            assert_holds(stream, &layer, bits, layouts, case);
        });
    }
}

#[test]
fn every_layout_is_saved_under_either_naming() {
    for stream in &streams() {
        table(stream, |case, config, bits, layouts, naming| {
            let other = write(&bits.file("", Naming::PACKED), None);
            let layer = load(stream, &open(&other).unwrap(), "", config, layouts).expect(case);
            let saved = save(stream, &layer, PREFIX, naming).expect(case);
            let want = write(&bits.file(PREFIX, naming), None);
            // A clone is a handle, so one can be written more than once.
            assert_eq!(safetensors::serialize(saved.clone(), None).unwrap(), want, "{case}");
            assert_eq!(safetensors::serialize(saved, None).unwrap(), want, "{case}");
        });
    }
}

/// Parameters that are pieces of the caller's own tensor, the experts backwards.
fn adopted(
    stream: &Stream,
    layout: ParamLayout,
    groups: usize,
    shape: &[usize],
    dtype: DType,
) -> (Tensor, GroupedTensor) {
    let arena = Tensor::zeros(stream, &[&[groups + 2], shape].concat(), dtype).unwrap();
    let grouped = match layout {
        ParamLayout::Packed => GroupedTensor::packed(arena.narrow(1, groups).unwrap()),
        ParamLayout::Discrete => {
            let backwards = (1..=groups).rev().map(|entry| arena.index(entry).unwrap());
            GroupedTensor::discrete(stream, backwards.collect())
        }
    };
    (arena, grouped.unwrap())
}

#[test]
fn parameters_that_exist_are_filled_where_they_lie() {
    for stream in &streams() {
        table(stream, |case, config, bits, layouts, naming| {
            let Config { groups, in_features, out_features, dtype } = config;
            let shape = [out_features, in_features];
            let (arena, weights) = adopted(stream, layouts.weights, groups, &shape, dtype);
            let bias = layouts.bias.map(|bias| adopted(stream, bias, groups, &shape[..1], dtype).1);
            let layer = GroupedLinear::new(stream, config, weights, bias).expect(case);
            let file = write(&bits.file(PREFIX, naming), None);
            load_into(stream, &open(&file).unwrap(), PREFIX, &layer).expect(case);
            assert_holds(stream, &layer, bits, layouts, case);

            let mut held = vec![0; arena.byte_len()];
            arena.read_bytes(stream, &mut held).unwrap();
            let each = held.len() / (groups + 2);
            let backwards = layouts.weights == ParamLayout::Discrete;
            let last = if backwards { 1 } else { groups } * each;
            let want = &bits.weights.1[(groups - 1) * each..];
            assert_eq!(&held[last..][..each], want, "{case}: the caller's memory");
            let around = [&held[..each], &held[(groups + 1) * each..]].concat();
            assert_eq!(around, vec![0; 2 * each], "{case}: around the parameters");
        });
    }
}

#[test]
fn a_bias_keeps_its_own_type() {
    for stream in &streams() {
        let bits = Bits::new((2, 4, 3), Dtype::BF16, Some(Dtype::F32));
        let config = Config { groups: 2, in_features: 3, out_features: 4, dtype: DType::Bf16 };
        let file = write(&bits.file("", Naming::DISCRETE), None);
        for layouts in all_layouts().filter(|layouts| layouts.bias.is_some()) {
            let layer = load(stream, &open(&file).unwrap(), "", config, layouts).unwrap();
            assert_eq!(layer.bias().unwrap().dtype(), DType::F32);
            assert_holds(stream, &layer, &bits, layouts, "mixed");
            load_into(stream, &open(&file).unwrap(), "", &layer).unwrap();
            let saved = save(stream, &layer, "", Naming::DISCRETE).unwrap();
            assert_eq!(safetensors::serialize(saved, None).unwrap(), file);
        }
    }
}

/// Whatever is wrong is found before the first byte is written, in the bias too.
#[test]
fn a_refused_file_leaves_the_layer_alone() {
    for stream in &streams() {
        let bits = Bits::new((2, 4, 3), Dtype::F32, Some(Dtype::F32));
        let spoil: [fn(&mut File); 6] = [
            |file| drop(file.pop()),                        // bias1
            |file| file.last_mut().unwrap().1 = Dtype::I32, // mixed
            |file| file.iter_mut().skip(2).for_each(|tensor| tensor.1 = Dtype::U32),
            |file| file.iter_mut().skip(2).for_each(|tensor| tensor.2 = vec![4, 1]),
            |file| file.truncate(2), // no bias
            |file| drop(file.remove(0)),
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let config = Config { groups: 2, in_features: 3, out_features: 4, dtype: DType::F32 };
            let zeros = |shape: &[usize]| {
                GroupedTensor::zeros(stream, ParamLayout::Packed, 2, shape, DType::F32)
            };
            let bias = zeros(&[4]).unwrap();
            let layer =
                GroupedLinear::new(stream, config, zeros(&[4, 3]).unwrap(), Some(bias)).unwrap();
            let mut file = bits.file("", Naming::DISCRETE);
            spoil(&mut file);
            let file = write(&file, None);
            let error = load_into(stream, &open(&file).unwrap(), "", &layer).unwrap_err();
            assert!(error.is_invalid_argument(), "{number}: {error}");
            let weights = layer.weights().as_packed().unwrap().to_f32(stream).unwrap();
            assert_eq!(weights, [0.0; 24], "{number}: {error}");
        }
    }
}

#[test]
fn a_converted_file_keeps_all_else() {
    let first = Bits::new((11, 2, 3), Dtype::BF16, Some(Dtype::F32));
    let second = Bits::new((2, 4, 4), Dtype::F8_E4M3, None);
    let third = Bits::new((3, 2, 2), Dtype::F16, Some(Dtype::F16));
    let others: File = vec![
        ("norm.weight".into(), Dtype::F32, vec![2], vec![7; 8]),
        ("dense.weight".into(), Dtype::BF16, vec![2, 1], vec![1; 4]),
        ("dense.bias".into(), Dtype::BF16, vec![2], vec![2; 4]),
        ("convolution.weight".into(), Dtype::F32, vec![2, 1, 1], vec![3; 8]),
        ("convolution.bias".into(), Dtype::F32, vec![2], vec![4; 8]),
        ("table.bias".into(), Dtype::F32, vec![2, 2], vec![5; 16]),
        ("a.experts._extra_state".into(), Dtype::U8, vec![0], vec![]),
        ("a.experts.weight07".into(), Dtype::U8, vec![1], vec![6]),
        ("scalar".into(), Dtype::I64, vec![], vec![9; 8]),
    ];
    let metadata = || Some(HashMap::from([("format".to_owned(), "pt\n\"ü\"".to_owned())]));
    let file = |first_naming, second_naming, third_naming| {
        let layers = [
            first.file("a.experts.", first_naming),
            second.file("", second_naming),
            third.file("left.", third_naming),
            others.clone(),
        ];
        write(&layers.concat(), metadata())
    };
    let select = |prefix: &str| prefix != "left.";
    for from in namings() {
        for to in namings() {
            for second_from in namings() {
                let got = convert(&file(from, second_from, from), to, select).unwrap();
                assert_eq!(got.layers, ["", "a.experts."], "{from:?} to {to:?}");
                assert_eq!(got.file, file(to, to, from), "{from:?} to {to:?}");
            }
        }
    }
}

#[test]
fn metadata_with_many_entries_are_kept() {
    let entries: HashMap<_, _> = (0..9).map(|i| (format!("key {i}"), format!("{i}"))).collect();
    let bits = Bits::new((2, 1, 1), Dtype::F32, None);
    for entries in [None, Some(HashMap::new()), Some(entries)] {
        let file = write(&bits.file("", Naming::PACKED), entries.clone());
        let converted = convert(&file, Naming::DISCRETE, |_| true).unwrap();
        assert_eq!(metadata_of(&converted.file).unwrap(), entries);
    }
}

/// A file with this header and as many bytes of tensors.
fn with_header(header: &str, bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; bytes]].concat()
}

/// Nothing panics, and no more memory is asked for than the file has.
#[test]
fn damaged_files_are_refused() {
    let whole = write(&Bits::new((2, 2, 2), Dtype::F32, None).file("", Naming::PACKED), None);
    for length in 0..whole.len() {
        assert!(open(&whole[..length]).is_err(), "{length} bytes");
        assert!(convert(&whole[..length], Naming::DISCRETE, |_| true).is_err(), "{length} bytes");
    }
    let longer = [&*whole, &[0]].concat();
    assert!(open(&longer).is_err());
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            // Some damage is in the values, or gives another sound file.
            if let Ok(converted) = convert(&damaged, Naming::DISCRETE, |_| true) {
                assert!(open(&converted.file).is_ok(), "bit {bit} of byte {at}");
            }
        }
    }
}

/// Sizes that are each in range, but whose sum, with that of the header, is not.
#[test]
fn sizes_that_overflow_are_refused() {
    let piece = (1u64 << 61) - 1; // so many bytes have just fewer than 2^64 bits
    let tensors = (0..9).map(|number| {
        let (from, length) = (number * piece, if number < 8 { piece } else { 7 });
        let to = from + length;
        format!(r#""w{number}":{{"dtype":"U8","shape":[{length}],"data_offsets":[{from},{to}]}}"#)
    });
    let header = format!("{{{}}}", tensors.collect::<Vec<_>>().join(","));
    let error = open(&with_header(&header, 0)).unwrap_err().to_string();
    assert!(error.contains("its tensors have 18446744073709551615 bytes"), "{error}");

    let product =
        r#"{"weight":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,0]}}"#;
    assert!(open(&with_header(product, 0)).unwrap_err().to_string().contains("overflow"));
    let nothing =
        r#"{"weight":{"dtype":"F32","shape":[18446744073709551615,0,7],"data_offsets":[0,0]}}"#;
    let error = convert(&with_header(nothing, 0), Naming::DISCRETE, |_| true).unwrap_err();
    assert_eq!(error.given_shape(), Some(&[usize::MAX, 0, 7][..]));
}

/// What is refused in a file that is whole, and a part of the message.
#[test]
fn layers_that_are_none_are_not_converted() {
    type Entry = (&'static str, Dtype, &'static [usize]);
    use Dtype::{F4, F16, F32};
    let cases: &[(&[Entry], &str)] = &[
        (&[("a.weight1", F32, &[2, 2])], "a.weight0 is missing, although a.weight1 is there"),
        (
            &[("weight0", F32, &[2, 2]), ("weight2", F32, &[2, 2])],
            "weight1 is missing, although weight2 is there",
        ),
        (
            &[("weight0", F32, &[2, 2]), ("weight99999999999999999999", F32, &[2, 2])],
            "weight1 is missing, although weight99999999999999999999 is there",
        ),
        (
            &[("weight", F32, &[1, 2, 2]), ("weight0", F32, &[2, 2])],
            "both weight and weight0 were found",
        ),
        (
            &[("weight0", F32, &[2, 2]), ("bias", F32, &[1, 2]), ("bias0", F32, &[2])],
            "both bias and bias0 were found",
        ),
        (&[("weight0", F32, &[2])], "weight0: shape [2] was given, [N, K] is needed"),
        (
            &[("weight0", F32, &[2, 3]), ("weight1", F32, &[3, 2])],
            "weight1: shape [3, 2] was given, [2, 3] as of weight0",
        ),
        (
            &[("weight0", F32, &[2, 3]), ("weight1", F16, &[2, 3])],
            "weight1: element type F16 was given, F32 as of weight0",
        ),
        (&[("weight", F32, &[2, 0, 2])], "weight: shape [2, 0, 2]"),
        (&[("weight0", F32, &[0, 2])], "weight0: shape [0, 2]"),
        (
            &[("weight", F4, &[2, 1, 3])],
            "weight: element type F4 was given, a type whose experts fill whole bytes",
        ),
        (
            &[("weight", F32, &[2, 3, 4]), ("bias", F32, &[3, 3])],
            "bias: shape [3, 3] was given, [2, 3] is needed",
        ),
        (
            &[("weight", F32, &[2, 3, 4]), ("bias", F32, &[2, 3, 1])],
            "bias: shape [2, 3, 1] was given, [G, N] is needed",
        ),
        (
            &[("weight", F32, &[2, 3, 4]), ("bias0", F32, &[3])],
            "bias1 is missing, the layer has 2 experts",
        ),
        (
            &[("weight", F32, &[1, 3, 4]), ("bias0", F32, &[3]), ("bias1", F32, &[3])],
            "bias1 was found, but the layer has 1 experts",
        ),
        (
            &[("weight", F32, &[1, 3, 4]), ("bias0", F32, &[4])],
            "bias0: shape [4] was given, [3] is needed",
        ),
    ];
    for (entries, part) in cases {
        let file = entries.iter().map(|&(name, dtype, shape)| {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            (name.to_owned(), dtype, shape.to_vec(), vec![0; bytes])
        });
        let file = write(&file.collect(), None);
        let error = convert(&file, Naming::DISCRETE, |_| true).expect_err(part);
        assert!(error.is_invalid_argument(), "{error:?}");
        assert!(error.to_string().contains(part), "{error}, not: {part}");
        let kept = convert(&file, Naming::DISCRETE, |_| false).expect("no layer was selected");
        assert_eq!((kept.file, kept.layers), (file, vec![]));
    }
}

fn layouts() -> impl Strategy<Value = ParamLayout> {
    prop_oneof![Just(ParamLayout::Packed), Just(ParamLayout::Discrete)]
}

fn random_namings() -> impl Strategy<Value = Naming> {
    (layouts(), layouts()).prop_map(|(weights, bias)| Naming { weights, bias })
}

proptest! {
    /// Conversion to any naming and back, and a layer loaded from either file, saved as the first.
    #[test]
    fn there_and_back_is_the_same_file(
        sizes in (1usize..30, 1usize..6, 1usize..6),
        dtype in 0usize..3,
        bias in prop::option::of(0usize..3),
        prefix in "([a-z0-9_]{0,3}\\.){0,3}",
        (from, to) in (random_namings(), random_namings()),
        layouts in (layouts(), layouts()),
    ) {
        let (dtype, stored) = dtypes()[dtype];
        let bits = Bits::new(sizes, stored, bias.map(|bias| dtypes()[bias].1));
        let file = write(&bits.file(&prefix, from), None);
        let there = convert(&file, to, |found| found == prefix).unwrap().file;
        prop_assert_eq!(&there, &write(&bits.file(&prefix, to), None));
        let back = convert(&there, from, |found| found == prefix).unwrap().file;
        prop_assert_eq!(&back, &file);

        let stream = Device::cpu().stream().unwrap();
        let (groups, out_features, in_features) = sizes;
        let config = Config { groups, in_features, out_features, dtype };
        let layouts = Layouts { weights: layouts.0, bias: bias.map(|_| layouts.1) };
        let layer = load(&stream, &open(&there).unwrap(), &prefix, config, layouts).unwrap();
        let saved = save(&stream, &layer, &prefix, from).unwrap();
        prop_assert_eq!(&safetensors::serialize(saved, None).unwrap(), &file);
    }
}
