//! A small reverse-mode engine that knows nothing of layers: it holds tensors and drives functions
//! by the names of their inputs and gradients.

use grouped_linear::ops::{Function, Gradient, Gradients, Inputs, Selection, Sinks, names};
use grouped_linear::{
    Config, DType, GroupedLinear, GroupedTensor, Result, Stream, Tensor, TensorSpec,
};

use crate::engines::Test;
use crate::relu::Relu;
use crate::{GROUPS, ROWS, SPLITS, splits, tensor};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a tape differentiates two layers that share their weights", |e, s| {
        shared_weights(s).expect(e)
    }),
    ("a tape drives other functions, too", |e, s| relu_between(s).expect(e)),
];

/// A tensor that the tape knows.
#[derive(Clone, Copy, Debug)]
struct Variable(usize);

type Backward<'f> = Box<dyn FnOnce(&Stream, &Tensor) -> Result<Gradients> + 'f>;

struct Node<'f> {
    output: Variable,
    variables: Vec<(&'static str, Variable)>,
    inferred: Vec<TensorSpec>,
    backward: Backward<'f>,
}

#[derive(Default)]
struct Tape<'f> {
    tensors: Vec<Tensor>,
    nodes: Vec<Node<'f>>,
}

impl<'f> Tape<'f> {
    fn variable(&mut self, tensor: &Tensor) -> Variable {
        self.tensors.push(tensor.clone());
        Variable(self.tensors.len() - 1)
    }

    /// Applies a function; `variables` are its inputs and parameters that are differentiated.
    fn apply<F: Function>(
        &mut self,
        stream: &Stream,
        function: &'f F,
        mut inputs: Inputs,
        variables: &[(&'static str, Variable)],
    ) -> Result<Variable>
    where
        F::Saved: 'f,
    {
        for &(name, variable) in variables {
            if function.inputs().contains(&name) {
                inputs.insert(name, self.tensors[variable.0].clone().into());
            }
        }
        let needs = Selection::Only(variables.iter().map(|&(name, _)| name).collect());
        let specs = function.infer(&inputs.specs(), &needs)?;
        let mut tensor = specs.output.empty(stream)?;
        let saved = function.forward_and_save(stream, &inputs, &mut tensor, &needs)?;
        let output = self.variable(&tensor);
        let inferred = |&(name, _): &_| specs.gradients.get(name).expect("it was wanted").clone();
        self.nodes.push(Node {
            output,
            variables: variables.to_vec(),
            inferred: variables.iter().map(inferred).collect(),
            backward: Box::new(move |stream, dy| {
                function.backward(stream, saved, dy, Sinks::new())
            }),
        });
        Ok(output)
    }

    /// Gradients of all variables, added up over their uses.
    fn gradients(
        self,
        stream: &Stream,
        output: Variable,
        seed: &Tensor,
    ) -> Result<Vec<Option<Vec<f32>>>> {
        let mut gradients = vec![None; self.tensors.len()];
        gradients[output.0] = Some(seed.to_f32(stream)?);
        for node in self.nodes.into_iter().rev() {
            let Some(dy) = &gradients[node.output.0] else { continue };
            let shape = self.tensors[node.output.0].shape();
            let dy = Tensor::from_slice(stream, shape, dy)?;
            let mut given = (node.backward)(stream, &dy)?;
            for ((name, variable), inferred) in node.variables.into_iter().zip(node.inferred) {
                let tensor = match given.take(name).expect("a gradient that was asked for") {
                    Gradient::Tensor(tensor) => tensor,
                    Gradient::Grouped(grouped) => grouped.as_packed().expect("packed").clone(),
                    other => panic!("{name}: {other:?}"),
                };
                assert_eq!(TensorSpec::from(&tensor), inferred, "{name}: as inferred");
                let new = tensor.to_f32(stream)?;
                let sum = gradients[variable.0].get_or_insert_with(|| vec![0.0; new.len()]);
                sum.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
            }
            assert!(given.is_empty(), "nobody asked for {given:?}");
        }
        Ok(gradients)
    }
}

const K: usize = 7;

/// What the loss depends on: tokens, shared weights, bias and row scales of the first layer.
#[derive(Clone)]
struct Point {
    x: Vec<f64>,       // [rows, k]
    weights: Vec<f64>, // [groups, k, k]
    bias: Vec<f64>,    // [groups, k]
    scales: Vec<f64>,  // [rows]
}

/// `L = Σ c · f(f(x))` in FP64, in plain loops; `f` adds the bias the first time.
fn loss(point: &Point, c: &[f32]) -> f64 {
    let group_of = |row: usize| (0..GROUPS).find(|&g| row < SPLITS[..=g].iter().sum()).unwrap();
    let mut loss = 0.0;
    for row in 0..ROWS {
        let group = group_of(row);
        let product = |input: &[f64], j: usize| -> f64 {
            (0..K).map(|k| point.weights[(group * K + j) * K + k] * input[k]).sum()
        };
        let bias = |j: usize| point.scales[row] * point.bias[group * K + j];
        let x = &point.x[row * K..][..K];
        let hidden: Vec<f64> = (0..K).map(|j| product(x, j) + bias(j)).collect();
        loss += (0..K).map(|j| f64::from(c[row * K + j]) * product(&hidden, j)).sum::<f64>();
    }
    loss
}

/// The loss is at most quadratic in each variable, so central differences are exact.
fn check(what: &str, gradient: &[f32], point: &Point, c: &[f32], of: fn(&mut Point) -> &mut [f64]) {
    let count = of(&mut point.clone()).len();
    assert_eq!(gradient.len(), count, "{what}");
    let mut largest = 0.0f64;
    for (index, &gradient) in gradient.iter().enumerate() {
        let at = |offset: f64| {
            let mut moved = point.clone();
            of(&mut moved)[index] += offset;
            loss(&moved, c)
        };
        let difference = (at(0.5) - at(-0.5)) / 1.0;
        let error = (difference - f64::from(gradient)).abs();
        assert!(error < 1e-4, "{what}[{index}] is {gradient}, the loss says {difference}");
        largest = largest.max(difference.abs());
    }
    assert!(largest > 0.1, "{what}: all gradients are tiny, so the comparison says nothing");
}

fn shared_weights(stream: &Stream) -> Result<()> {
    let weights = tensor(stream, &[GROUPS, K, K], 1)?;
    let bias = tensor(stream, &[GROUPS, K], 2)?;
    let (x, scales) = (tensor(stream, &[ROWS, K], 3)?, tensor(stream, &[ROWS], 4)?);
    let c = tensor(stream, &[ROWS, K], 5)?;
    let config = Config { groups: GROUPS, in_features: K, out_features: K, dtype: DType::F32 };
    let shared = GroupedTensor::packed(weights.clone())?;
    let own_bias = GroupedTensor::packed(bias.clone())?;
    let first = GroupedLinear::new(stream, config, shared.clone(), Some(own_bias))?;
    let second = GroupedLinear::new(stream, config, shared, None)?;

    let mut tape = Tape::default();
    let [vx, vw, vb, vs] = [&x, &weights, &bias, &scales].map(|tensor| tape.variable(tensor));
    let constants = || Inputs::new().with(names::SPLITS, splits().into());
    let of_first =
        [(names::X, vx), (names::WEIGHTS, vw), (names::BIAS, vb), (names::BIAS_ROW_SCALES, vs)];
    let hidden = tape.apply(stream, &first, constants(), &of_first)?;
    let of_second = [(names::X, hidden), (names::WEIGHTS, vw)];
    let y = tape.apply(stream, &second, constants(), &of_second)?;
    let gradients = tape.gradients(stream, y, &c)?;

    let read = |tensor: &Tensor| -> Result<Vec<f64>> {
        Ok(tensor.to_f32(stream)?.into_iter().map(f64::from).collect())
    };
    let (x, weights) = (read(&x)?, read(&weights)?);
    let point = Point { x, weights, bias: read(&bias)?, scales: read(&scales)? };
    let c = c.to_f32(stream)?;
    let gradient = |variable: Variable| gradients[variable.0].as_deref().expect("a gradient");
    check("dx", gradient(vx), &point, &c, |point| &mut point.x);
    check("dw of both layers", gradient(vw), &point, &c, |point| &mut point.weights);
    check("db", gradient(vb), &point, &c, |point| &mut point.bias);
    check("dscales", gradient(vs), &point, &c, |point| &mut point.scales);
    Ok(())
}

/// A function of the test's own, and a variable that nothing depends on.
fn relu_between(stream: &Stream) -> Result<()> {
    let x = Tensor::from_slice(stream, &[2, 2], &[1.0f32, -2.0, 3.0, -4.0])?;
    let mut tape = Tape::default();
    let (vx, unused) = (tape.variable(&x), tape.variable(&x));
    let once = tape.apply(stream, &Relu, Inputs::new(), &[(names::X, vx)])?;
    let twice = tape.apply(stream, &Relu, Inputs::new(), &[(names::X, once)])?;
    let gradients = tape.gradients(stream, twice, &x)?;
    assert_eq!(gradients[vx.0].as_deref(), Some(&[1.0, 0.0, 3.0, 0.0][..]));
    assert_eq!(gradients[unused.0], None);
    Ok(())
}
