//! Every kind of product, alone and in pairs.

use core::marker::PhantomData;

use ptx_std::memory;
use ptx_std::tcgen05::*;

/// A product of a group's usual size.
#[derive(Clone, Copy)]
struct Of<K, G, A, B>(PhantomData<(K, G, A, B)>);

impl<K, G, A, B> Product for Of<K, G, A, B>
where
    K: Kind,
    G: Group,
    A: Operand<Element: ElementOf<K>>,
    B: Operand<Element: ElementOf<K>>,
{
    type Kind = K;
    type Group = G;
    type A = A;
    type B = B;
    const M: u32 = 128 * G::BLOCKS;
    const N: u32 = 128;
}

type Along<E> = Matrix<E, KMajor>;
type Across<E> = Matrix<E, MnMajor>;

/// Four steps along K of a row of 128 bytes; operands at a word of memory, so that they are
/// unknown.
#[inline(always)]
unsafe fn unscaled<G: Group>(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let [at, column, first, lane] = memory::load_constant_u32x4(out);
        let d = Address::from_bits(column);
        let brain = Descriptor::k_major(at);
        let half = Descriptor::mn_major(at, 8192);
        for step in 0..4 {
            let accumulate = step > 0 || first != 0;
            multiply::<Of<F16, G, Along<Brain>, Along<Brain>>>(
                d,
                brain.steps(step),
                brain.steps(step),
                accumulate,
            );
        }
        multiply::<Of<F16, G, Across<Half>, Across<Half>>>(d, half, half.steps(1), true);
        multiply_from_tensor::<Of<F16, G, Along<Brain>, Along<Brain>>>(
            d,
            d.lanes(lane).columns(128),
            brain,
            true,
        );
        let eight = Descriptor::k_major(at);
        let other = Descriptor::mn_major(at, 4096);
        multiply::<Of<F8f6f4, G, Along<E4m3>, Across<E5m2>>>(d, eight, other, false);
    }
}

/// One product of each kind with scales, and of each step that has a descriptor of its own.
#[inline(always)]
unsafe fn scaled<G: Group>(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let [at, column, scale, _] = memory::load_constant_u32x4(out);
        let d = Address::from_bits(column);
        let scales = [Address::from_bits(scale), Address::from_bits(scale).columns(4)];
        let eight = Descriptor::k_major(at);
        for step in 0..4 {
            multiply_scaled::<Of<Mxf8f6f4, G, Along<E4m3>, Along<E4m3>>>(
                d,
                eight.steps(step),
                eight.steps(step),
                Instruction::at_step(step),
                scales,
                step > 0,
            );
        }
        let four = Descriptor::k_major(at);
        let instruction = Instruction::at_step(1);
        multiply_scaled::<Of<Mxfp4, G, Along<E2m1>, Along<E2m1>>>(
            d,
            four,
            four,
            instruction,
            scales,
            true,
        );
        let instruction = Instruction::new();
        multiply_scaled::<Of<Nvfp4, G, Along<E2m1>, Along<E2m1>>>(
            d,
            four,
            four,
            instruction,
            scales,
            true,
        );
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn unscaled_alone(out: u64) {
    // SAFETY: the text is not run.
    unsafe { unscaled::<One>(out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn unscaled_pair(out: u64) {
    // SAFETY: the text is not run.
    unsafe { unscaled::<Two>(out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scaled_alone(out: u64) {
    // SAFETY: the text is not run.
    unsafe { scaled::<One>(out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scaled_pair(out: u64) {
    // SAFETY: the text is not run.
    unsafe { scaled::<Two>(out) }
}
