//! The layer and the quantizers against outputs of TransformerEngine 2.20.2 on an H200; see
//! `fixtures/README.md`.

mod quantizers;

use std::process::ExitCode;

use grouped_linear::conformance::engines;
use grouped_linear::recipe::{BlockScaling, CurrentScaling};
use grouped_linear::reference::plain::{self, Groups};
use grouped_linear::{
    Config, DType, ForwardOptions, GroupedLinear, GroupedTensor, KernelChoice, LayerRecipe, Recipe,
    Splits, Stream, Tensor,
};
use half::bf16;
use libtest_mimic::{Arguments, Completion, Trial};
use safetensors::SafeTensors;

const FIXTURE: &[u8] = include_bytes!("../fixtures/te_golden.safetensors");

const GROUPS: usize = 4;
const ROWS: usize = 256;
const N: usize = 256;
const K: usize = 384;

/// The bytes of an array of the fixture.
fn array(name: &str) -> Vec<u8> {
    let file = SafeTensors::deserialize(FIXTURE).expect("the fixture is a safetensors file");
    file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data().to_vec()
}

fn bf16s(name: &str) -> Vec<bf16> {
    array(name).chunks_exact(2).map(|c| bf16::from_le_bytes([c[0], c[1]])).collect()
}

fn splits(name: &str) -> Vec<usize> {
    let bytes = array(name);
    bytes
        .chunks_exact(8)
        .map(|c| i64::from_le_bytes(c.try_into().expect("eight bytes")) as usize)
        .collect()
}

/// The first row of each group, then the number of rows.
fn row_offsets(splits: &[usize]) -> Vec<usize> {
    let mut row_offsets = vec![0];
    for split in splits {
        row_offsets.push(row_offsets[row_offsets.len() - 1] + split);
    }
    row_offsets
}

/// Position among all BF16 values in ascending order; neighbours differ by one.
fn rank(value: bf16) -> i32 {
    let bits = i32::from(value.to_bits() & 0x7fff);
    if value.is_sign_negative() { -bits } else { bits }
}

/// What the layer of the fixture was computed in.
#[derive(Clone, Copy)]
struct Precision {
    /// Name in the fixture.
    name: &'static str,
    recipe: Option<Recipe>,
    kernel: KernelChoice,
    /// What one side can lose to the order of accumulation, as a factor of `Σ|a·b|`: FP32 keeps 24
    /// bits of a sum, the FP8 tensor cores of Hopper about 14.
    accumulation: f64,
    /// How many values are equal to the bit at least.
    least_equal: f64,
}

/// Both sides round nearly the same value to BF16, so they differ by one unit in the last place at
/// most, unless the value cancels: then the order of accumulation shows, on each side. Most values
/// must be equal to the bit.
fn check(what: &str, got: &[bf16], want: &[bf16], magnitude: &[f64], precision: &Precision) {
    let Precision { accumulation, least_equal, .. } = *precision;
    assert_eq!((got.len(), want.len()), (magnitude.len(), magnitude.len()), "{what}");
    let mut equal = 0;
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        equal += usize::from(got == want);
        let difference = (got.to_f64() - want.to_f64()).abs();
        let accumulation = 2.0 * accumulation * magnitude[index];
        assert!(
            (rank(got) - rank(want)).abs() <= 1 || difference <= accumulation,
            "{what}: element {index} is {got}, TransformerEngine has {want}"
        );
    }
    let equal = equal as f64 / want.len() as f64;
    println!("{what}: {:.3} % of the elements are equal to the bit", 100.0 * equal);
    assert!(equal >= least_equal, "{what}: only {equal} of the elements are equal to the bit");
}

/// The sums of absolute products, which the oracle gives for absolute operands.
struct Magnitudes {
    y: Vec<f64>,
    dx: Vec<f64>,
    dw: Vec<f64>,
    db: Vec<f64>,
}

fn magnitudes(splits: &[usize]) -> Magnitudes {
    let wide = |name| -> Vec<f64> { bf16s(name).iter().map(|v| v.to_f64().abs()).collect() };
    let (x, w, b, dy) = (wide("q.x"), wide("g.w"), wide("g.b"), wide("g.dy"));
    let row_offsets = row_offsets(splits);
    let groups = Groups { row_offsets: &row_offsets, out_features: N, in_features: K };
    let mut y = vec![0.0; ROWS * N];
    plain::fprop(&groups, &x, &w, &mut y).expect("sizes fit");
    for group in 0..GROUPS {
        for row in row_offsets[group]..row_offsets[group + 1] {
            (0..N).for_each(|column| y[row * N + column] += b[group * N + column]);
        }
    }
    let mut dx = vec![0.0; ROWS * K];
    plain::dgrad(&groups, &dy, &w, &mut dx).expect("sizes fit");
    let mut dw = vec![0.0; GROUPS * N * K];
    plain::wgrad(&groups, &dy, &x, &mut dw).expect("sizes fit");
    let mut db = vec![0.0; GROUPS * N];
    plain::dbias(&groups, &dy, None, &mut db).expect("sizes fit");
    Magnitudes { y, dx, dw, db }
}

fn compare(name: &str, stream: &Stream, precision: &Precision) {
    let counts = splits(&format!("g.{}.splits", precision.name));
    assert_eq!(counts[1], 0, "expert 1 of the fixture has no rows");
    let tensor = |name, shape: &[usize]| {
        Tensor::from_slice(stream, shape, &bf16s(name)).expect("a tensor of the fixture")
    };
    let packed = |tensor| GroupedTensor::packed(tensor).expect("groups come first");
    let config = Config { groups: GROUPS, in_features: K, out_features: N, dtype: DType::Bf16 };
    let weights = packed(tensor("g.w", &[GROUPS, N, K]));
    let bias = packed(tensor("g.b", &[GROUPS, N]));
    let layer = GroupedLinear::new(stream, config, weights, Some(bias)).expect("a layer");
    let (x, dy) = (tensor("q.x", &[ROWS, K]), tensor("g.dy", &[ROWS, N]));
    let splits = Splits::host(&counts).expect("splits");
    let recipe = precision.recipe.map(|recipe| LayerRecipe::new(stream, config, recipe));
    let recipe = recipe.transpose().expect("a recipe for the layer");
    let (kernel, recipe) = (precision.kernel, recipe.as_ref());
    let options = ForwardOptions { kernel, recipe, ..ForwardOptions::default() };
    let (y, saved) = layer.forward(stream, &x, &splits, options).expect("forward");
    let grads = layer.backward(stream, saved, &dy).expect("backward");

    let read = |tensor: &Tensor| tensor.to_vec::<bf16>(stream).expect("a result");
    let read_packed = |grouped: &GroupedTensor| read(grouped.as_packed().expect("packed"));
    let magnitudes = magnitudes(&counts);
    let dw = read_packed(&grads.dw);
    let db = read_packed(&grads.db.expect("the layer has a bias"));
    let check = |what: &str, got: &[bf16], magnitude: &[f64]| {
        let want = bf16s(&format!("g.{}.{what}", precision.name));
        check(&format!("{name}: {what}"), got, &want, magnitude, precision);
    };
    check("y", &read(&y), &magnitudes.y);
    check("dx", &read(&grads.dx), &magnitudes.dx);
    check("dw", &dw, &magnitudes.dw);
    check("db", &db, &magnitudes.db);
    // Expert 1 has no rows: its gradients are zeros, not small numbers.
    assert!(dw[N * K..2 * N * K].iter().all(|v| v.to_bits() == 0), "dw of the empty expert");
    assert!(db[N..2 * N].iter().all(|v| v.to_bits() == 0), "db of the empty expert");
}

fn precisions() -> [Precision; 4] {
    let (kernel, accumulation) = (KernelChoice::Auto, 2f64.powi(-22));
    let plain = Precision { name: "bf16", recipe: None, kernel, accumulation, least_equal: 0.998 };
    let fp8 = Precision { accumulation: 2f64.powi(-13), least_equal: 0.9, ..plain };
    let current = Some(Recipe::Current(CurrentScaling::default()));
    let block = Some(Recipe::Block(BlockScaling::default()));
    [
        plain,
        Precision { kernel: KernelChoice::Simt, ..plain },
        Precision { name: "current", recipe: current, ..fp8 },
        Precision { name: "block", recipe: block, ..fp8 },
    ]
}

fn main() -> ExitCode {
    let mut trials = quantizers::trials();
    for engine in engines() {
        for precision in precisions() {
            let name = format!("{}, {}, {:?}", engine.name, precision.name, precision.kernel);
            let title = format!("{name}: agrees with TransformerEngine");
            let device = engine.device.clone();
            trials.push(Trial::ignorable_test(title, move || match device {
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(device) => {
                    compare(&name, &device.stream()?, &precision);
                    Ok(Completion::Completed)
                }
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
