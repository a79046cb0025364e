//! Gradients of the layer against finite differences, in FP32 on the CPU.
//!
//! The loss `L = Σ c · y` is linear in x, in the weights, in the bias and in the row scales, each
//! taken alone. So a central difference has no truncation error, and a large step costs nothing.

use grouped_linear::conformance::Generator;
use grouped_linear::{
    BiasUse, Config, DType, Device, ForwardOptions, GroupedLinear, GroupedTensor, Splits, Stream,
    Tensor,
};

const SPLITS: [usize; 4] = [2, 0, 3, 1];
const ROWS: usize = 6;
const N: usize = 5;
const K: usize = 7;
const STEP: f32 = 0.5;

/// What the loss depends on.
#[derive(Clone)]
struct Variables {
    x: Vec<f32>,          // [rows, k]
    weights: Vec<f32>,    // [groups, n, k]
    bias: Vec<f32>,       // [groups, n]
    row_scales: Vec<f32>, // [rows]
}

/// Layer, input and row scales on the device.
struct Model {
    layer: GroupedLinear,
    x: Tensor,
    row_scales: Tensor,
    splits: Splits,
}

impl Model {
    fn new(stream: &Stream, variables: &Variables) -> Self {
        let groups = SPLITS.len();
        let tensor = |shape: &[usize], values: &[f32]| {
            Tensor::from_slice(stream, shape, values).expect("a tensor")
        };
        let config = Config { groups, in_features: K, out_features: N, dtype: DType::F32 };
        let weights = GroupedTensor::packed(tensor(&[groups, N, K], &variables.weights));
        let bias = GroupedTensor::packed(tensor(&[groups, N], &variables.bias));
        let (weights, bias) = (weights.expect("weights"), bias.expect("bias"));
        Self {
            layer: GroupedLinear::new(stream, config, weights, Some(bias)).expect("a layer"),
            x: tensor(&[ROWS, K], &variables.x),
            row_scales: tensor(&[ROWS], &variables.row_scales),
            splits: Splits::host(&SPLITS).expect("splits"),
        }
    }

    fn options(&self) -> ForwardOptions<'_> {
        ForwardOptions { bias: BiasUse::RowScaled(&self.row_scales), ..ForwardOptions::default() }
    }
}

fn loss(stream: &Stream, variables: &Variables, c: &[f32]) -> f64 {
    let model = Model::new(stream, variables);
    let forward = model.layer.forward(stream, &model.x, &model.splits, model.options());
    let y = forward.expect("forward").0.to_f32(stream).expect("y");
    y.iter().zip(c).map(|(&y, &c)| f64::from(y) * f64::from(c)).sum()
}

/// Compares a gradient with differences of the loss; `select` names the variable.
fn check(
    what: &str,
    stream: &Stream,
    variables: &Variables,
    c: &[f32],
    gradient: &[f32],
    select: fn(&mut Variables) -> &mut Vec<f32>,
) {
    let count = select(&mut variables.clone()).len();
    assert_eq!(gradient.len(), count, "{what}");
    let mut largest = 0.0f64;
    for (index, &gradient) in gradient.iter().enumerate() {
        let at = |offset: f32| {
            let mut moved = variables.clone();
            select(&mut moved)[index] += offset;
            loss(stream, &moved, c)
        };
        let difference = (at(STEP) - at(-STEP)) / f64::from(2.0 * STEP);
        let error = (difference - f64::from(gradient)).abs();
        assert!(error < 2e-5, "{what}[{index}] is {gradient}, the loss says {difference}");
        largest = largest.max(difference.abs());
    }
    assert!(largest > 0.1, "{what}: all gradients are tiny, so the comparison says nothing");
}

#[test]
fn gradients_are_those_of_the_loss() {
    let stream = Device::cpu().stream().expect("a stream");
    let mut generator = Generator::new(7);
    let mut values = |count| generator.values(count, DType::F32);
    let groups = SPLITS.len();
    let variables = Variables {
        x: values(ROWS * K),
        weights: values(groups * N * K),
        bias: values(groups * N),
        row_scales: values(ROWS),
    };
    let c = values(ROWS * N);

    let model = Model::new(&stream, &variables);
    let (_, saved) =
        model.layer.forward(&stream, &model.x, &model.splits, model.options()).expect("forward");
    let dy = Tensor::from_slice(&stream, &[ROWS, N], &c).expect("dy");
    let grads = model.layer.backward(&stream, saved, &dy).expect("backward");
    let read = |tensor: &Tensor| tensor.to_f32(&stream).expect("a gradient");
    let packed = |grouped: &GroupedTensor| read(grouped.as_packed().expect("packed"));

    let check = |what, gradient: Vec<f32>, select| {
        check(what, &stream, &variables, &c, &gradient, select);
    };
    check("dx", read(&grads.dx), |variables| &mut variables.x);
    check("dw", packed(&grads.dw), |variables| &mut variables.weights);
    check("db", packed(&grads.db.expect("db")), |variables| &mut variables.bias);
    check("dscales", read(&grads.dscales.expect("dscales")), |v| &mut v.row_scales);
}
