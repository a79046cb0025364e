//! Products in BF16, and memory for what products write.

use anyhow::Result;
use grouped_linear::functional::{
    DgradArgs, FpropArgs, GemmOptions, WgradArgs, dgrad, fprop, wgrad,
};
use grouped_linear::plan::KernelChoice;
use grouped_linear::{DType, Error, Factor, GroupedTensor, Stream, Tensor};

use super::Work;
use super::base::Base;
use super::check::{self, Limits, Output};
use super::fill;
use crate::bench::measure::record::{Check, Quantity};
use crate::bench::measure::task::Task;
use crate::bench::model::product::Pass;

/// BF16 keeps 8 bits of a result, so that rounding is off by 2⁻⁸ at most, and by 2⁻⁸ / √3 times the
/// mean of what begins with 1 to 2, 1.6e-3, in the root of the mean of squares; of 48 samples that
/// may be more.
pub const BF16: Limits = Limits { worst: 4e-3, rms: 2e-3 };
/// Sums in FP32 are off by what the tensor cores cut off.
pub const F32: Limits = Limits { worst: 1e-3, rms: 3e-4 };

/// Calls after which a result is compared: what is added to must be seen to be added to.
pub fn calls_to_check(pass: Pass) -> u32 {
    if pass == Pass::Accumulate { 2 } else { 1 }
}

/// Memory for the result of one pass, the one that was opened last.
pub enum Results {
    /// None yet.
    None,
    /// Y or dX.
    Rows(Tensor),
    /// dW.
    Groups(GroupedTensor),
}

impl Results {
    /// Memory for the result of a pass, in place of that of another.
    pub fn open(&mut self, stream: &Stream, base: &Base, pass: Pass) -> grouped_linear::Result<()> {
        *self = Self::None; // what was there goes first
        let (rows, n, k) = (base.rows(), base.n(), base.k());
        let groups =
            |dtype| GroupedTensor::packed(Tensor::zeros(stream, &[base.groups(), n, k], dtype)?);
        *self = match pass {
            Pass::Fprop => Self::Rows(Tensor::zeros(stream, &[rows, n], DType::Bf16)?),
            Pass::Dgrad => Self::Rows(Tensor::zeros(stream, &[rows, k], DType::Bf16)?),
            Pass::Wgrad => Self::Groups(groups(DType::Bf16)?),
            Pass::Accumulate => Self::Groups(groups(DType::F32)?),
        };
        Ok(())
    }

    /// As a pass must have written it, [cleared](Self::clear) before and called [`calls_to_check`]
    /// times.
    pub fn output(&self, pass: Pass) -> Option<Output<'_>> {
        let times = f64::from(calls_to_check(pass));
        match self {
            Self::None => None,
            Self::Rows(tensor) => Some(Output::Rows(tensor)),
            Self::Groups(tensor) => Some(Output::Groups(tensor, times)),
        }
    }

    /// What a pass adds to is zero; what it overwrites is not, so that what it leaves alone is
    /// seen.
    pub fn clear(&self, stream: &Stream, pass: Pass) -> grouped_linear::Result<()> {
        let tensor = match self {
            Self::None => return Err(not_open()),
            Self::Rows(tensor) => tensor,
            Self::Groups(tensor) => packed(tensor)?,
        };
        match pass {
            Pass::Accumulate => tensor.clone().fill_zero(stream),
            Pass::Fprop | Pass::Dgrad | Pass::Wgrad => fill::with_nan(stream, tensor),
        }
    }
}

/// The memory of gradients, all of which are made packed here.
pub fn packed(gradients: &GroupedTensor) -> grouped_linear::Result<&Tensor> {
    gradients.as_packed().ok_or_else(not_open)
}

/// Products in BF16.
pub struct Bf16 {
    base: Base,
    kernel: KernelChoice,
    results: Results,
}

impl Bf16 {
    /// Over operands of a shape.
    pub fn new(base: Base, kernel: KernelChoice) -> Self {
        Self { base, kernel, results: Results::None }
    }

    fn product(&mut self, stream: &Stream, pass: Pass) -> grouped_linear::Result<()> {
        let Base { splits, x, dy, w: weights, .. } = &self.base;
        let options = GemmOptions { kernel: self.kernel, ..GemmOptions::default() };
        match (pass, &mut self.results) {
            (Pass::Fprop, Results::Rows(y)) => {
                let (bias, bias_row_scales) = (None, None);
                let args = FpropArgs { x, weights, splits, bias, bias_row_scales, options };
                fprop(stream, &args, y)
            }
            (Pass::Dgrad, Results::Rows(dx)) => {
                dgrad(stream, &DgradArgs { dy, weights, splits, options }, dx)
            }
            (Pass::Wgrad, Results::Groups(dw)) => {
                wgrad(stream, &WgradArgs { dy, x, splits, options }, dw)
            }
            (Pass::Accumulate, Results::Groups(dw)) => {
                let options = GemmOptions { beta: Factor::Value(1.0), ..options };
                wgrad(stream, &WgradArgs { dy, x, splits, options }, dw)
            }
            _ => Err(not_open()),
        }
    }
}

/// No memory was made for the pass that is asked for.
pub fn not_open() -> Error {
    Error::invalid("the task was not opened, so it has no memory for its result")
}

impl Work for Bf16 {
    fn contenders(&self, _task: Task, _quantity: Quantity) -> Vec<String> {
        vec!["bf16".to_owned()]
    }

    fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()> {
        match task {
            Task::Product(pass) => self.results.open(stream, &self.base, pass),
            _ => Err(not_open()),
        }
    }

    fn run(&mut self, stream: &Stream, task: Task, _name: &str) -> grouped_linear::Result<()> {
        match task {
            Task::Product(pass) => self.product(stream, pass),
            _ => Err(not_open()),
        }
    }

    fn clear(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<u32> {
        let Task::Product(pass) = task else { return Err(not_open()) };
        self.results.clear(stream, pass)?;
        Ok(calls_to_check(pass))
    }

    fn compare(&self, stream: &Stream, task: Task, name: &str) -> Result<Vec<Check>> {
        let Task::Product(pass) = task else { return Err(not_open().into()) };
        let output = self.results.output(pass).ok_or_else(not_open)?;
        let compared = check::product(stream, &self.base, pass, &self.base, output)?;
        let limits = if pass == Pass::Accumulate { F32 } else { BF16 };
        Ok(compared.checks(name, limits))
    }
}

#[cfg(test)]
mod tests {
    use grouped_linear::Device;

    use super::super::super::engine::{Answer, Call, Engine};
    use super::super::super::task::Section;
    use super::super::Ours;
    use super::*;
    use crate::bench::choices::RecipeChoice;
    use crate::bench::suite::{OwnShape, SEED};

    /// Products of which the gradient of an expert stays what it was.
    struct Lazy {
        products: Bf16,
        left_alone: usize,
    }

    impl Work for Lazy {
        fn contenders(&self, task: Task, quantity: Quantity) -> Vec<String> {
            self.products.contenders(task, quantity)
        }

        fn open(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<()> {
            self.products.open(stream, task)
        }

        fn run(&mut self, stream: &Stream, task: Task, name: &str) -> grouped_linear::Result<()> {
            let Results::Groups(dw) = &self.products.results else { return Err(not_open()) };
            let mut gradient = dw.group(self.left_alone)?;
            let before = gradient.to_f32(stream)?;
            self.products.run(stream, task, name)?;
            gradient.write_f32(stream, &before)
        }

        fn clear(&mut self, stream: &Stream, task: Task) -> grouped_linear::Result<u32> {
            self.products.clear(stream, task)
        }

        fn compare(&self, stream: &Stream, task: Task, name: &str) -> Result<Vec<Check>> {
            self.products.compare(stream, task, name)
        }
    }

    /// Whether every check of a gradient passes, and their names.
    fn checked(pass: Pass, left_alone: Option<usize>) -> (bool, Vec<String>) {
        let shape = "3,40,32,16,33:0:7".parse::<OwnShape>().unwrap().shape(0, SEED).unwrap();
        let mut ours = Ours::new(&Device::cpu(), 5, &[RecipeChoice::Bf16], 0).unwrap();
        ours.prepare(Section::Bf16, &shape).unwrap();
        if let Some(left_alone) = left_alone {
            let products = Bf16::new(ours.base.clone().unwrap(), KernelChoice::Auto);
            ours.work = Some(Box::new(Lazy { products, left_alone }));
        }
        let call = Call {
            task: Task::Product(pass),
            contender: "bf16",
            replay: false,
            quantity: Quantity::Gpu,
        };
        let Answer::Done(checks) = ours.check(call).unwrap() else { panic!("a refusal") };
        (checks.iter().all(Check::passes), checks.into_iter().map(|check| check.name).collect())
    }

    #[test]
    fn a_gradient_that_is_not_written_is_found() {
        let names = ["bf16".to_owned(), "bf16 empty expert".to_owned()].to_vec();
        for pass in [Pass::Wgrad, Pass::Accumulate] {
            assert_eq!(checked(pass, None), (true, names.clone()));
            assert!(!checked(pass, Some(0)).0, "{pass:?}, an expert with rows");
        }
        assert!(!checked(Pass::Wgrad, Some(1)).0, "the expert without rows");
    }
}
