//! Properties of the CPU engine on random sizes and splits, and of layers in low precision on every
//! engine.

mod recipes;

use grouped_linear::conformance::{Generator, Location, compare};
use grouped_linear::functional::{self, DbiasArgs, DgradArgs, DscalesArgs, FpropArgs, WgradArgs};
use grouped_linear::reference::plain::{self, Groups};
use grouped_linear::{
    Accumulate, DType, Device, GemmOptions, GroupedTensor, Result, Splits, Stream, Tensor,
};
use proptest::prelude::*;

/// Sizes and data of one random problem, in FP32.
#[derive(Clone, Debug)]
struct Problem {
    splits: Vec<usize>,
    tail: usize,
    n: usize,
    k: usize,
    seed: u64,
}

fn problems() -> impl Strategy<Value = Problem> {
    let split = prop_oneof![2 => Just(0usize), 5 => 1usize..20, 1 => 60usize..140];
    let sizes = (1usize..40, 1usize..40);
    (prop::collection::vec(split, 1..7), 0usize..4, sizes, any::<u64>())
        .prop_map(|(splits, tail, (n, k), seed)| Problem { splits, tail, n, k, seed })
}

/// Random numbers for a problem.
struct Data {
    offsets: Vec<usize>,
    rows: usize,
    x: Vec<f32>,
    dy: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Data {
    fn new(problem: &Problem) -> Self {
        let Problem { splits, tail, n, k, seed } = problem;
        let mut offsets = vec![0];
        for split in splits {
            offsets.push(offsets[offsets.len() - 1] + split);
        }
        let rows = offsets[splits.len()] + tail;
        let mut generator = Generator::new(*seed);
        let mut values = |count: usize| generator.values(count, DType::F32);
        Self {
            rows,
            x: values(rows * k),
            dy: values(rows * n),
            weights: values(splits.len() * n * k),
            bias: values(splits.len() * n),
            offsets,
        }
    }
}

/// Results of all operations, live elements only.
#[derive(Debug, PartialEq)]
struct Results {
    y: Vec<f32>,
    dx: Vec<f32>,
    dw: Vec<f32>,
    db: Vec<f32>,
    dscales: Vec<f32>,
}

fn run(stream: &Stream, problem: &Problem, data: &Data) -> Result<Results> {
    let Problem { ref splits, n, k, .. } = *problem;
    let (groups, rows) = (splits.len(), data.rows);
    let live: usize = splits.iter().sum();
    let tensor = |shape: &[usize], values: &[f32]| Tensor::from_slice(stream, shape, values);
    let x = tensor(&[rows, k], &data.x)?;
    let dy = tensor(&[rows, n], &data.dy)?;
    let weights = GroupedTensor::packed(tensor(&[groups, n, k], &data.weights)?)?;
    let bias = GroupedTensor::packed(tensor(&[groups, n], &data.bias)?)?;
    let splits = Splits::host(splits)?;
    let options = GemmOptions::default();

    let zeros = |shape: &[usize]| Tensor::zeros(stream, shape, DType::F32);
    let mut y = zeros(&[rows, n])?;
    let (x, dy, weights, splits) = (&x, &dy, &weights, &splits);
    let args = FpropArgs { x, weights, splits, bias: None, bias_row_scales: None, options };
    functional::fprop(stream, &args, &mut y)?;
    let mut dx = zeros(&[rows, k])?;
    functional::dgrad(stream, &DgradArgs { dy, weights, splits, options }, &mut dx)?;
    let mut dw = GroupedTensor::packed(zeros(&[groups, n, k])?)?;
    functional::wgrad(stream, &WgradArgs { dy, x, splits, options }, &mut dw)?;
    let mut db = GroupedTensor::packed(zeros(&[groups, n])?)?;
    let accumulate = Accumulate::Overwrite;
    functional::dbias(stream, &DbiasArgs { dy, splits, row_scales: None, accumulate }, &mut db)?;
    let mut dscales = zeros(&[rows])?;
    functional::dscales(stream, &DscalesArgs { dy, bias: &bias, splits }, &mut dscales)?;

    let read = |tensor: &Tensor, count: usize| -> Result<Vec<f32>> {
        let mut values = tensor.to_f32(stream)?;
        values.truncate(count);
        Ok(values)
    };
    let packed = |grouped: &GroupedTensor| match grouped.as_packed() {
        Some(tensor) => read(tensor, tensor.len()),
        None => Ok(Vec::new()),
    };
    Ok(Results {
        y: read(&y, live * n)?,
        dx: read(&dx, live * k)?,
        dw: packed(&dw)?,
        db: packed(&db)?,
        dscales: read(&dscales, live)?,
    })
}

/// The operations in FP64, on what `convert` makes of the data.
fn oracle(problem: &Problem, data: &Data, convert: fn(f32) -> f64) -> Result<[Vec<f64>; 5]> {
    let Problem { ref splits, n, k, .. } = *problem;
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().map(|&v| convert(v)).collect() };
    let (x, dy, w, b) = (wide(&data.x), wide(&data.dy), wide(&data.weights), wide(&data.bias));
    let groups = Groups { row_offsets: &data.offsets, out_features: n, in_features: k };
    let (count, live) = (splits.len(), data.offsets[splits.len()]);
    let mut results =
        [live * n, live * k, count * n * k, count * n, live].map(|length| vec![0.0; length]);
    let [y, dx, dw, db, dscales] = &mut results;
    plain::fprop(&groups, &x, &w, y)?;
    plain::dgrad(&groups, &dy, &w, dx)?;
    plain::wgrad(&groups, &dy, &x, dw)?;
    plain::dbias(&groups, &dy, None, db)?;
    plain::dscales(&groups, &dy, &b, dscales)?;
    Ok(results)
}

fn stream() -> Stream {
    Device::cpu().stream().expect("the CPU always has a stream")
}

/// The problem of one group alone.
fn alone(problem: &Problem, data: &Data, group: usize) -> (Problem, Data) {
    let Problem { ref splits, n, k, .. } = *problem;
    let rows = data.offsets[group]..data.offsets[group + 1];
    let problem = Problem { splits: vec![splits[group]], tail: 0, ..problem.clone() };
    let data = Data {
        offsets: vec![0, rows.len()],
        rows: rows.len(),
        x: data.x[rows.start * k..rows.end * k].to_vec(),
        dy: data.dy[rows.start * n..rows.end * n].to_vec(),
        weights: data.weights[group * n * k..][..n * k].to_vec(),
        bias: data.bias[group * n..][..n].to_vec(),
    };
    (problem, data)
}

/// The results of single groups one after the other.
fn joined(parts: Vec<Results>) -> Results {
    let join = |part: fn(&Results) -> &Vec<f32>| parts.iter().flat_map(part).copied().collect();
    Results {
        y: join(|results| &results.y),
        dx: join(|results| &results.dx),
        dw: join(|results| &results.dw),
        db: join(|results| &results.db),
        dscales: join(|results| &results.dscales),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn results_are_those_of_the_oracle(problem in problems()) {
        let data = Data::new(&problem);
        let got = run(&stream(), &problem, &data).unwrap();
        let want = oracle(&problem, &data, f64::from).unwrap();
        let magnitude = oracle(&problem, &data, |value| f64::from(value).abs()).unwrap();
        let got = [got.y, got.dx, got.dw, got.db, got.dscales];
        for (index, what) in ["y", "dx", "dw", "db", "dscales"].into_iter().enumerate() {
            let locate = |element| Location { expert: 0, row: 0, column: element };
            let (want, magnitude) = (&want[index], &magnitude[index]);
            let outcome = compare(what, DType::F32, &got[index], want, magnitude, &locate);
            prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
        }
    }

    /// A group does not notice its neighbours, to the bit.
    #[test]
    fn one_launch_per_group_gives_the_same_bits(problem in problems()) {
        let (stream, data) = (stream(), Data::new(&problem));
        let together = run(&stream, &problem, &data).unwrap();
        let parts = (0..problem.splits.len())
            .map(|group| {
                let (problem, data) = alone(&problem, &data, group);
                run(&stream, &problem, &data).unwrap()
            })
            .collect();
        prop_assert_eq!(together, joined(parts));
    }

    /// Reversing the order of the experts reverses the results, to the bit.
    #[test]
    fn the_order_of_experts_does_not_matter(problem in problems()) {
        let (stream, data) = (stream(), Data::new(&problem));
        let groups: Vec<usize> = (0..problem.splits.len()).collect();
        let parts: Vec<_> = groups.iter().map(|&group| alone(&problem, &data, group)).collect();
        let mut reversed = Problem { tail: 0, ..problem.clone() };
        reversed.splits.reverse();
        let mut shuffled = Data::new(&reversed);
        let gather = |part: fn(&Data) -> &Vec<f32>| -> Vec<f32> {
            parts.iter().rev().flat_map(|(_, data)| part(data)).copied().collect()
        };
        shuffled.x = gather(|data| &data.x);
        shuffled.dy = gather(|data| &data.dy);
        shuffled.weights = gather(|data| &data.weights);
        shuffled.bias = gather(|data| &data.bias);

        let backwards = run(&stream, &reversed, &shuffled).unwrap();
        let each = parts
            .iter()
            .rev()
            .map(|(problem, data)| run(&stream, problem, data).unwrap())
            .collect();
        prop_assert_eq!(backwards, joined(each));
    }

    /// The rows past the last expert do not matter, whatever they hold.
    #[test]
    fn the_tail_does_not_matter(problem in problems()) {
        let stream = stream();
        let problem = Problem { tail: problem.tail + 1, ..problem };
        let mut data = Data::new(&problem);
        let with_numbers = run(&stream, &problem, &data).unwrap();
        let live: usize = problem.splits.iter().sum();
        data.x[live * problem.k..].fill(f32::NAN);
        data.dy[live * problem.n..].fill(f32::INFINITY);
        prop_assert_eq!(with_numbers, run(&stream, &problem, &data).unwrap());
    }
}

/// Input and output may share an allocation, as long as they do not overlap.
#[test]
fn input_and_output_may_share_an_allocation() -> Result<()> {
    let stream = stream();
    let arena =
        Tensor::from_slice(&stream, &[3, 4, 4], &(0..48).map(|v| v as f32).collect::<Vec<_>>())?;
    let (x, mut y) = (arena.index(0)?, arena.index(2)?);
    let weights = GroupedTensor::packed(arena.narrow(1, 1)?)?;
    let splits = Splits::host(&[3])?;
    let options = GemmOptions::default();
    let args = FpropArgs {
        x: &x,
        weights: &weights,
        splits: &splits,
        bias: None,
        bias_row_scales: None,
        options,
    };
    functional::fprop(&stream, &args, &mut y)?;
    let all = arena.to_f32(&stream)?;
    let dot = |row: usize, column: usize| -> f32 {
        (0..4).map(|i| (row * 4 + i) as f32 * (16 + column * 4 + i) as f32).sum()
    };
    let expected: Vec<f32> = (0..12).map(|i| dot(i / 4, i % 4)).collect();
    assert_eq!(all[32..44], expected);
    assert_eq!(all[44..], [44.0, 45.0, 46.0, 47.0], "the row of no expert is not written");
    assert_eq!(all[..32], (0..32).map(|v| v as f32).collect::<Vec<_>>());
    Ok(())
}

/// Streams on several threads at once, each with tensors of its own.
#[test]
fn streams_on_many_threads_give_the_same_bits() {
    let problem = Problem { splits: vec![40, 0, 90], tail: 2, n: 33, k: 65, seed: 3 };
    let data = Data::new(&problem);
    let alone = run(&stream(), &problem, &data).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(run(&stream(), &problem, &data).unwrap(), alone);
                }
            });
        }
    });
}
