//! Quantized weights in files, which are put together here by hand, too.

use serde_json::{Value, json};

use super::*;
use crate::error::Result;
use crate::recipe::{BlockShape, Blocks, Format, Nvfp4Format, ScaleBound, Transform};
use crate::tensor::{Form, QuantizedSpec, QuantizedTensor, SourceShape};

type Metadata = HashMap<String, String>;

/// Weights of two experts, `[64, 96]` each: what they are, and how a file holds them.
struct Case {
    name: &'static str,
    format: Format,
    copies: [Option<Form>; 2],
    /// Beside groups, rows, columns and version.
    description: Value,
    tensors: &'static [(&'static str, Dtype, &'static [usize])],
}

fn cases() -> Vec<Case> {
    use Dtype::{BF16, F8_E4M3, F8_E5M2, F32, U8};
    let (codes, swizzled, exact) = (Some(Form::Codes), Some(Form::Swizzled), Some(Form::Exact));
    let mxfp8 = |blocks| Format::Mxfp8 { dtype: DType::E4m3, blocks };
    let mixed = Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES };
    let (blocks, bound) = (BlockShape::Square, ScaleBound::Reduced);
    let squares = Nvfp4Format { blocks, bound, ..Nvfp4Format::LINES };
    vec![
        Case {
            name: "one scale",
            format: Format::fp8(DType::E4m3, Blocks::Tensor),
            copies: [codes, codes],
            description: json!({
                "format": "fp8", "dtype": "e4m3", "blocks": "tensor", "rowwise": "codes",
                "columnwise": "codes", "shared": ["scale_inv"], "scale": true,
            }),
            tensors: &[
                ("rowwise.data", F8_E4M3, &[2, 64, 96]),
                ("rowwise.scale_inv", F32, &[2]),
                ("columnwise.data", F8_E4M3, &[2, 96, 64]),
                ("scale", F32, &[2]),
            ],
        },
        Case {
            name: "vectors, rowwise",
            format: Format::fp8(DType::E5m2, Blocks::Vector),
            copies: [codes, None],
            description: json!({
                "format": "fp8", "dtype": "e5m2", "blocks": "1x128", "rowwise": "codes",
                "columnwise": null, "shared": [], "scale": false,
            }),
            tensors: &[
                ("rowwise.data", F8_E5M2, &[2, 64, 96]),
                ("rowwise.scale_inv", F32, &[2, 1, 64]),
            ],
        },
        Case {
            name: "squares, columnwise",
            format: Format::fp8(DType::E4m3, Blocks::Square),
            copies: [None, codes],
            description: json!({
                "format": "fp8", "dtype": "e4m3", "blocks": "128x128", "rowwise": null,
                "columnwise": "codes", "shared": [], "scale": false,
            }),
            tensors: &[
                ("columnwise.data", F8_E4M3, &[2, 96, 64]),
                ("columnwise.scale_inv", F32, &[2, 1, 4]),
            ],
        },
        Case {
            name: "MXFP8",
            format: mxfp8(BlockShape::Line),
            copies: [codes, codes],
            description: json!({
                "format": "mxfp8", "dtype": "e4m3", "blocks": "line", "rowwise": "codes",
                "columnwise": "codes", "shared": [], "scale": false,
            }),
            tensors: &[
                ("rowwise.data", F8_E4M3, &[2, 64, 96]),
                ("rowwise.scale_inv", U8, &[2, 128, 4]),
                ("columnwise.data", F8_E4M3, &[2, 64, 96]),
                ("columnwise.scale_inv", U8, &[2, 4, 128]),
            ],
        },
        Case {
            name: "MXFP8, exact squares",
            format: mxfp8(BlockShape::Square),
            copies: [exact, exact],
            description: json!({
                "format": "mxfp8", "dtype": "e4m3", "blocks": "square", "rowwise": "exact",
                "columnwise": "exact", "shared": ["data"], "scale": false,
            }),
            tensors: &[("rowwise.data", BF16, &[2, 64, 96])],
        },
        Case {
            name: "NVFP4, exact and swizzled",
            format: Format::Nvfp4(mixed),
            copies: [exact, swizzled],
            description: json!({
                "format": "nvfp4", "blocks": "line", "scope": "group", "bound": "448",
                "transform": "hadamard", "rowwise": "exact", "columnwise": "swizzled",
                "shared": [], "scale": false,
            }),
            tensors: &[
                ("rowwise.data", BF16, &[2, 64, 96]),
                ("rowwise.amax", F32, &[2]),
                ("columnwise.data", U8, &[2, 96, 32]),
                ("columnwise.scale_inv", U8, &[2, 128, 8]),
                ("columnwise.amax", F32, &[2]),
            ],
        },
        Case {
            name: "NVFP4 squares",
            format: Format::Nvfp4(squares),
            copies: [codes, codes],
            description: json!({
                "format": "nvfp4", "blocks": "square", "scope": "group", "bound": "256",
                "transform": "none", "rowwise": "codes", "columnwise": "codes",
                "shared": ["amax"], "scale": false,
            }),
            tensors: &[
                ("rowwise.data", U8, &[2, 64, 48]),
                ("rowwise.scale_inv", U8, &[2, 128, 8]),
                ("rowwise.amax", F32, &[2]),
                ("columnwise.data", U8, &[2, 96, 32]),
                ("columnwise.scale_inv", U8, &[2, 128, 8]),
            ],
        },
    ]
}

impl Case {
    fn spec(&self) -> QuantizedSpec {
        let [rowwise, columnwise] = self.copies;
        let source = SourceShape::Weights { rows: 64, columns: 96 };
        QuantizedSpec { groups: 2, source, format: self.format, rowwise, columnwise }
    }

    fn description(&self) -> Value {
        let mut description = self.description.clone();
        for (name, value) in [("groups", 2), ("rows", 64), ("columns", 96), ("version", 1)] {
            description[name] = value.into();
        }
        description
    }

    /// Any bits, those of NaN among them.
    fn file(&self) -> File {
        let mut generator = Generator::named(self.name);
        let tensor = |&(name, dtype, shape): &(&str, Dtype, &[usize])| {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            let bytes = (0..bytes).map(|_| generator.next() as u8).collect();
            (format!("{PREFIX}weight.{name}"), dtype, shape.to_vec(), bytes)
        };
        self.tensors.iter().map(tensor).collect()
    }
}

fn entry(description: &Value) -> Metadata {
    [(format!("{PREFIX}weight.quantized"), description.to_string())].into()
}

/// Loads a file as users do.
fn load_file(stream: &Stream, file: &File, description: &Value) -> Result<QuantizedTensor> {
    let file = write(file, Some(entry(description)));
    load_quantized(stream, &open(&file)?, &metadata(&file)?, PREFIX)
}

fn load_file_into(
    stream: &Stream,
    file: &File,
    description: &Value,
    weights: &mut QuantizedTensor,
) -> Result<()> {
    let file = write(file, Some(entry(description)));
    load_quantized_into(stream, &open(&file)?, &metadata(&file)?, PREFIX, weights)
}

fn bytes_of(stream: &Stream, tensor: &Tensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.byte_len()];
    tensor.read_bytes(stream, &mut bytes).unwrap();
    bytes
}

#[track_caller]
fn assert_quantized(stream: &Stream, weights: &QuantizedTensor, file: &File, case: &Case) {
    assert_eq!(weights.spec(), case.spec(), "{}", case.name);
    let parts: Vec<_> = weights.parts().filter(|(_, part)| !part.is_empty()).collect();
    assert_eq!(parts.len(), file.len(), "{}", case.name);
    for (name, part) in parts {
        let full = format!("{PREFIX}weight.{name}");
        let stored = file.iter().find(|(name, ..)| *name == full).expect("a part of the file");
        assert!(bytes_of(stream, part) == stored.3, "{}: {name}", case.name);
    }
}

#[test]
fn quantized_weights_come_and_go_bit_for_bit() {
    for stream in &streams() {
        for case in cases() {
            let file = case.file();
            let weights = load_file(stream, &file, &case.description()).expect(case.name);
            assert_quantized(stream, &weights, &file, &case);
            let ruled = case.spec().shared();
            let shared = weights.shared();
            assert_eq!((shared.data, shared.amax), (ruled.data, ruled.amax), "{}", case.name);

            let saved = save_quantized(stream, &weights, PREFIX).expect(case.name);
            let (name, text) = saved.metadata.clone();
            assert_eq!(name, format!("{PREFIX}weight.quantized"));
            let written: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(written, case.description(), "{}", case.name);
            let again = safetensors::serialize(saved.tensors, Some([(name, text)].into())).unwrap();
            let tensors = open(&again).unwrap();
            assert_eq!(tensors.len(), file.len(), "{}", case.name);
            for (name, dtype, shape, bytes) in &file {
                let found = tensors.tensor(name).expect(name);
                assert_eq!((found.dtype(), found.shape()), (*dtype, &**shape), "{name}");
                assert!(found.data() == bytes, "{}: {name}", case.name);
            }
        }
    }
}

/// Those of memory from outside.
#[test]
fn copies_that_share_nothing_are_both_in_the_file() {
    for stream in &streams() {
        let case = &cases()[0];
        let (mut file, mut description) = (case.file(), case.description());
        file.retain(|(name, ..)| !name.ends_with(".scale"));
        let one = (format!("{PREFIX}weight.columnwise.scale_inv"), Dtype::F32, vec![2], vec![7; 8]);
        file.push(one);
        (description["shared"], description["scale"]) = (json!([]), json!(false));
        let weights = load_file(stream, &file, &description).unwrap();
        assert_quantized(stream, &weights, &file, case);
        let saved = save_quantized(stream, &weights, PREFIX).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&saved.metadata.1).unwrap(), description);

        // Into what shares: only if it is the same twice, and if there is the scale.
        let mut sharing = load_file(stream, &case.file(), &case.description()).unwrap();
        let error = load_file_into(stream, &file, &description, &mut sharing).unwrap_err();
        assert!(error.to_string().contains("weight.scale is missing"), "{error}");
        file.push(case.file().pop().unwrap());
        description["scale"] = json!(true);
        let error = load_file_into(stream, &file, &description, &mut sharing).unwrap_err();
        assert!(error.to_string().contains("differ"), "{error}");
        assert_quantized(stream, &sharing, &case.file(), case);
        file[1].3 = vec![7; 8];
        load_file_into(stream, &file, &description, &mut sharing).unwrap();
        let scale_inv = sharing.part("columnwise.scale_inv").unwrap();
        assert_eq!(bytes_of(stream, scale_inv), [7; 8]);
    }
}

#[test]
fn quantized_weights_are_filled_where_they_lie() {
    for stream in &streams() {
        for case in cases() {
            let (file, description) = (case.file(), case.description());
            let mut weights = QuantizedTensor::empty(stream, case.spec()).unwrap();
            load_file_into(stream, &file, &description, &mut weights).expect(case.name);
            assert_quantized(stream, &weights, &file, &case);

            // One expert, from a file of one, into the last one of these.
            let saved = save_quantized(stream, &weights.group(0).unwrap(), "one.").unwrap();
            let one = safetensors::serialize(saved.tensors, Some([saved.metadata].into())).unwrap();
            let (tensors, found) = (open(&one).unwrap(), metadata(&one).unwrap());
            let mut last = weights.group(1).unwrap();
            load_quantized_into(stream, &tensors, &found, "one.", &mut last).expect(case.name);
            for (name, part) in weights.parts().filter(|(_, part)| !part.is_empty()) {
                let bytes = bytes_of(stream, part);
                let stored = file.iter().find(|(full, ..)| full.ends_with(name)).unwrap();
                let first = &stored.3[..bytes.len() / 2];
                assert!(bytes == [first, first].concat(), "{}: {name}", case.name);
            }
        }
    }
}

/// Nothing that is missing, too much or of another kind is taken for weights.
#[test]
fn damaged_files_are_refused() {
    let stream = &Device::cpu().stream().unwrap();
    for case in cases() {
        let (file, description) = (case.file(), case.description());
        let mut weights = load_file(stream, &file, &description).unwrap();
        let mut refused = |file: &File, description: &Value, part: &str| {
            let what = format!("{}: {part}", case.name);
            let error = load_file(stream, file, description).map(drop).expect_err(&what);
            assert!(error.is_invalid_argument() || error.is_unsupported(), "{what}: {error}");
            assert!(error.to_string().contains(part), "{what}: {error}");
            load_file_into(stream, file, description, &mut weights).expect_err(&what);
        };
        for index in 0..file.len() {
            let name = &file[index].0;
            let mut damaged = file.clone();
            damaged.remove(index);
            refused(&damaged, &description, &format!("{name} is missing"));
            let mut damaged = file.clone();
            damaged[index].2.push(1);
            refused(&damaged, &description, &format!("{name}: shape"));
            let mut damaged = file.clone();
            let one = file[index].1.bitsize() / 8;
            damaged[index].1 = [Dtype::I8, Dtype::I16, Dtype::I16, Dtype::I32][one - 1];
            refused(&damaged, &description, &format!("{name}: element type"));
        }
        for name in ["rowwise.data", "rowwise.amax", "columnwise.data", "scale"] {
            if case.tensors.iter().all(|(own, ..)| *own != name) {
                let mut damaged = file.clone();
                let full = format!("{PREFIX}weight.{name}");
                damaged.push((full.clone(), Dtype::U8, vec![1], vec![0]));
                refused(&damaged, &description, &format!("{full} was found"));
            }
        }
        let fields: Vec<String> = description.as_object().unwrap().keys().cloned().collect();
        for field in fields {
            let mut damaged = description.clone();
            damaged.as_object_mut().unwrap().remove(&field);
            refused(&file, &damaged, &format!("{field} is missing"));
            let values = [
                json!(null),
                json!(true),
                json!(false),
                json!(-1),
                json!(0),
                json!(3),
                json!(95),
                json!(4097),
                json!(1u64 << 31),
                json!(u32::MAX),
                json!(1u64 << 32),
                json!(u64::MAX),
                json!(1e300),
                json!("x"),
                json!([]),
                json!(["x"]),
                json!({}),
                json!(["data", "scale_inv", "amax"]),
            ];
            for value in values.into_iter().filter(|value| *value != description[&field]) {
                let mut damaged = description.clone();
                damaged[&field] = value;
                refused(&file, &damaged, "checkpoint: ");
            }
        }
        // As if the copies shared what they cannot.
        for part in ["data", "scale_inv", "amax"] {
            let full = format!("{PREFIX}weight.columnwise.{part}");
            let Some(index) = file.iter().position(|own| own.0 == full) else { continue };
            let (mut claimed, mut damaged) = (description.clone(), file.clone());
            claimed["shared"].as_array_mut().unwrap().push(json!(part));
            damaged.remove(index);
            refused(&damaged, &claimed, &format!("the copies cannot share {part}"));
        }
        let mut damaged = description.clone();
        damaged["more"] = json!(1);
        refused(&file, &damaged, "more is unknown");
        refused(&file, &json!([description]), "it is no JSON object");
        assert_quantized(stream, &weights, &file, &case);

        let bytes = write(&file, None);
        let (tensors, none) = (open(&bytes).unwrap(), metadata(&bytes).unwrap());
        let error = load_quantized(stream, &tensors, &none, PREFIX).expect_err("no metadata");
        assert!(error.to_string().contains("weight.quantized are missing"), "{error}");
    }
}

/// The other copy, another format, other sizes.
#[test]
fn other_weights_are_refused_before_anything_is_written() {
    for stream in &streams() {
        let cases = cases();
        for case in &cases {
            let (file, description) = (case.file(), case.description());
            for other in cases.iter().filter(|other| other.name != case.name) {
                let mut weights =
                    load_file(stream, &other.file(), &other.description()).expect(other.name);
                let error = load_file_into(stream, &file, &description, &mut weights);
                let text = error.expect_err(case.name).to_string();
                assert!(text.contains("are needed"), "{text}");
                assert_quantized(stream, &weights, &other.file(), other);
            }
        }
        let tokens = SourceShape::Tokens { rows: 4, features: 96 };
        let tokens = QuantizedSpec { source: tokens, ..cases[0].spec() };
        let tokens = QuantizedTensor::empty(stream, tokens).unwrap();
        let error = save_quantized(stream, &tokens, PREFIX).unwrap_err();
        assert!(error.to_string().contains("only weights are saved"), "{error}");
    }
}

/// Neither way of naming plain weights takes quantized ones for its own.
#[test]
fn plain_layers_and_quantized_ones_lie_side_by_side() {
    let stream = &Device::cpu().stream().unwrap();
    let config = Config { groups: 2, in_features: 2, out_features: 4, dtype: DType::Bf16 };
    let layouts = Layouts { weights: ParamLayout::Packed, bias: None };
    for case in cases() {
        let bits = Bits::new((2, 4, 2), Dtype::BF16, None);
        for naming in [Naming::PACKED, Naming::DISCRETE] {
            let mut file = bits.file(PREFIX, naming);
            file.extend(case.file());
            let file = write(&file, Some(entry(&case.description())));
            for file in [convert(&file, Naming::PACKED, |_| true).unwrap().file, file] {
                let tensors = open(&file).unwrap();
                let layer = load(stream, &tensors, PREFIX, config, layouts).expect(case.name);
                assert_holds(stream, &layer, &bits, layouts, case.name);
                let found = metadata(&file).unwrap();
                let weights = load_quantized(stream, &tensors, &found, PREFIX).expect(case.name);
                assert_quantized(stream, &weights, &case.file(), &case);
            }
        }
        // Without plain ones, a plain layer says what to do.
        let alone = write(&case.file(), Some(entry(&case.description())));
        let error = load(stream, &open(&alone).unwrap(), PREFIX, config, layouts).unwrap_err();
        assert!(error.to_string().contains("read them with load_quantized"), "{error}");
    }
}
