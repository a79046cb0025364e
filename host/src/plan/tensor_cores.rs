//! What tensor cores take, Hopper's with wgmma and Blackwell's with tcgen05.

use grouped_linear_kernels::abi::scaled::Scaling;
use grouped_linear_kernels::variants::Fp8Gemm;

use super::target::{KernelTarget, Target};
use crate::recipe::{Accumulation, Blocks, Format};
use crate::tensor::Form;

/// What features are multiples of where tensor copies read or write 16-bit elements: their lines
/// have multiples of 16 bytes.
pub(super) const FEATURES: usize = 8;

/// What features are multiples of where NVFP4 is multiplied in codes: tensor copies take lines of
/// 16 bytes and more. Those of MXFP8 are anyway.
const CODED_FEATURES: usize = 32;

/// How MXFP8 and NVFP4 are stored for products, unless asked otherwise: in codes, with their scales
/// as the tensor cores of Blackwell read them; Hopper's have no such products.
pub(crate) fn micro_form(target: KernelTarget, features: [usize; 2]) -> Form {
    let fit = features.into_iter().all(|features| features.is_multiple_of(CODED_FEATURES));
    match target {
        KernelTarget::Sm100a if fit => Form::Swizzled,
        KernelTarget::Sm100a | KernelTarget::Sm90a => Form::Exact,
    }
}

impl Target {
    /// How a layer stores what it quantizes to `format` for products on this device, unless it is
    /// asked otherwise ([`LayerRecipe::with_form`](crate::LayerRecipe::with_form)); `features` are
    /// K and N.
    ///
    /// ```
    /// use grouped_linear::plan::{GpuTarget, Target};
    /// use grouped_linear::recipe::{BlockShape, Format};
    /// use grouped_linear::{DType, Form};
    /// let mxfp8 = Format::Mxfp8 { dtype: DType::E4m3, blocks: BlockShape::Line };
    /// let gpu = GpuTarget { compute_capability: (10, 0), multiprocessors: 148 };
    /// assert_eq!(Target { gpu: Some(gpu) }.form(mxfp8, [64, 96]), Form::Swizzled);
    /// assert_eq!(Target::CPU.form(mxfp8, [64, 96]), Form::Exact);
    /// ```
    pub fn form(&self, format: Format, features: [usize; 2]) -> Form {
        if !format.is_micro() {
            return Form::Codes;
        }
        self.kernels().map_or(Form::Exact, |own| micro_form(own, features))
    }
}

/// Tensor memory holds sums in FP32, while wgmma keeps fewer bits of sums of FP8 products and needs
/// them promoted. So where each group has one scale, one kernel serves both kinds of accumulation,
/// that of [`Accumulation::Fast`]; blocks are scaled while sums are promoted, on either.
pub(super) fn in_tensor_memory(product: Fp8Gemm) -> Fp8Gemm {
    let Scaling { a, b, accumulation } = product.scaling;
    let accumulation = match (a, b) {
        (Blocks::Tensor, Blocks::Tensor) => Accumulation::Fast,
        _ => accumulation,
    };
    Fp8Gemm { scaling: Scaling { a, b, accumulation }, ..product }
}

#[cfg(test)]
mod tests {
    use grouped_linear_kernels::abi::ElementType;
    use grouped_linear_kernels::variants::{Role, Sm90Gemm, Sm100Gemm, Sm100Product};

    use super::*;
    use crate::error::Result;
    use crate::plan::{BiasKind, GemmProblem, GpuTarget, KernelChoice, Pass, ScaledGemmProblem};
    use crate::tensor::DType;

    const HOPPER: GpuTarget = GpuTarget { compute_capability: (9, 0), multiprocessors: 132 };
    const BLACKWELL: GpuTarget = GpuTarget { compute_capability: (10, 0), multiprocessors: 148 };

    const PRODUCT: GemmProblem = GemmProblem {
        pass: Pass::Fprop,
        groups: 4,
        rows: 513,
        in_features: 64,
        out_features: 136,
        input: DType::F16,
        output: DType::F16,
        bias: BiasKind::None,
        kernel: KernelChoice::Auto,
    };

    fn sixteen(pass: Pass, pair: bool) -> Role {
        let product = Sm100Product::Sixteen(pass, ElementType::F16);
        Role::GemmSm100(Sm100Gemm { product, pair })
    }

    #[test]
    fn the_architecture_chooses_the_kernel() -> Result<()> {
        for pass in [Pass::Fprop, Pass::Dgrad, Pass::Wgrad] {
            let problem = GemmProblem { pass, ..PRODUCT };
            let sm90 = Sm90Gemm { pass, element: ElementType::F16, narrow: false };
            assert_eq!(problem.choose(HOPPER)?.role, Role::GemmSm90(sm90));
            assert_eq!(problem.choose(BLACKWELL)?.role, sixteen(pass, true));
        }
        let simt = GemmProblem { kernel: KernelChoice::Simt, ..PRODUCT };
        for gpu in [HOPPER, BLACKWELL] {
            assert_eq!(simt.choose(gpu)?.role, Role::GemmSimt(ElementType::F16));
        }
        let older = GpuTarget { compute_capability: (8, 0), ..HOPPER };
        assert!(PRODUCT.choose(older).is_err_and(|error| error.is_unsupported()));
        Ok(())
    }

    #[test]
    fn pairs_need_two_multiprocessors_and_rows_for_both_blocks() -> Result<()> {
        let small = GemmProblem { rows: 512, ..PRODUCT };
        let narrow = GemmProblem { pass: Pass::Wgrad, out_features: 128, ..PRODUCT };
        let alone = GpuTarget { multiprocessors: 1, ..BLACKWELL };
        let two = GpuTarget { multiprocessors: 2, ..BLACKWELL };
        for (problem, gpu, pair) in [
            (PRODUCT, BLACKWELL, true),
            (PRODUCT, two, true),
            (PRODUCT, alone, false),
            (small, BLACKWELL, false),
            (GemmProblem { pass: Pass::Dgrad, ..small }, BLACKWELL, false),
            (narrow, BLACKWELL, false),
            // The columns of wgrad and the rows of tokens that it sums do not matter.
            (GemmProblem { out_features: 136, rows: 8, ..narrow }, BLACKWELL, true),
        ] {
            assert_eq!(
                problem.choose(gpu)?.role,
                sixteen(problem.pass, pair),
                "{problem:?} {gpu:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn codes_need_tensor_cores_that_apply_their_scales_and_whole_lines() {
        let form = |features| KernelTarget::ALL.map(|target| micro_form(target, features));
        assert_eq!(form([64, 160]), [Form::Exact, Form::Swizzled]);
        for features in [[48, 64], [64, 48], [16, 16]] {
            assert_eq!(form(features), [Form::Exact; 2], "{features:?}");
        }
    }

    #[test]
    fn sums_of_one_scale_for_each_group_have_one_kernel() -> Result<()> {
        use Accumulation::{Fast, Promoted};
        use Blocks::{Square, Tensor, Vector};
        for (a, b, asked, kernel) in [
            (Tensor, Tensor, Fast, Fast),
            (Tensor, Tensor, Promoted, Fast),
            (Vector, Square, Promoted, Promoted),
            (Vector, Vector, Promoted, Promoted),
        ] {
            let problem = ScaledGemmProblem {
                pass: Pass::Wgrad,
                groups: 2,
                rows: 300,
                in_features: 256,
                out_features: 128,
                a: Format::Fp8 { dtype: DType::E5m2, blocks: a },
                b: Format::Fp8 { dtype: DType::E4m3, blocks: b },
                forms: [Form::Codes; 2],
                accumulation: asked,
                output: DType::Bf16,
                bias: BiasKind::None,
                power_of_two_scales: true,
                kernel: KernelChoice::Auto,
            };
            let product = |accumulation| Fp8Gemm {
                ragged: grouped_linear_kernels::abi::Ragged::Reduction,
                a: ElementType::E5m2,
                scaling: Scaling { a, b, accumulation },
                aligned: false,
            };
            assert_eq!(problem.choose(HOPPER)?.role, Role::GemmFp8(product(asked)));
            let blackwell = Sm100Gemm { product: Sm100Product::Fp8(product(kernel)), pair: false };
            assert_eq!(problem.choose(BLACKWELL)?.role, Role::GemmSm100(blackwell));
        }
        Ok(())
    }
}
