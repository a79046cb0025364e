//! Products that are executed: operands as they lie in global memory are copied to shared memory,
//! multiplied, and D is written out.
//!
//! ```text
//! shared memory      0: where tensor memory was allocated   8, 16: barriers
//!                 1024: A, 128 rows of 128 bytes; B; scales of A; scales of B: the image
//! tensor memory      0: D, 64 columns   64: scales of A, or A   96: scales of B
//! ```

use ptx_std::mbarrier::Barrier;
use ptx_std::tcgen05::*;
use ptx_std::{cluster, memory, sync, thread, tma};

ptx_std::declare_shared_memory!();

/// Bytes of a block's image.
const IMAGE: u32 = 28 * 1024;
/// Where B, the scales of A and those of B begin in it.
const PARTS: [u32; 3] = [16 * 1024, 24 * 1024, 26 * 1024];
/// Columns of D.
const N: u32 = 64;

/// K-major operands.
type Along<E> = Matrix<E, KMajor>;

macro_rules! products {
    ($($name:ident: $kind:ty, $group:ty, $a:ty, $b:ty, $m:literal;)+) => {$(
        /// A product with 64 columns.
        #[derive(Clone, Copy)]
        struct $name;
        impl Product for $name {
            type Kind = $kind;
            type Group = $group;
            type A = $a;
            type B = $b;
            const M: u32 = $m;
            const N: u32 = N;
        }
    )+};
}

products!(
    Brains: F16, One, Along<Brain>, Along<Brain>, 128;
    BrainsAcross: F16, One, Along<Brain>, Matrix<Brain, MnMajor>, 128;
    BrainsPair: F16, Two, Along<Brain>, Along<Brain>, 256;
    Eights: F8f6f4, One, Along<E4m3>, Along<E5m2>, 128;
    ScaledEights: Mxf8f6f4, One, Along<E4m3>, Along<E4m3>, 128;
    ScaledFours: Mxfp4, One, Along<E2m1>, Along<E2m1>, 128;
    FinerFours: Nvfp4, One, Along<E2m1>, Along<E2m1>, 128;
);

/// Where the block's things are.
#[derive(Clone, Copy)]
struct Place {
    done: Barrier,
    image: u32,
    tensor: Address,
}

/// Allocates tensor memory and loads the image. Ends with all threads of the group together.
#[inline(always)]
unsafe fn begin<G: Group>(image: u64) -> Place {
    // SAFETY: all threads come here; one warp allocates, one thread initialises and copies.
    unsafe {
        let slot = memory::shared_base();
        let (loaded, done) = (Barrier { address: slot + 8 }, Barrier { address: slot + 16 });
        if thread::thread_index() == 0 {
            loaded.init(1);
            done.init(1);
            sync::fence_mbarrier_init();
        }
        meet::<G>();
        if thread::warp_index() == 0 {
            allocate::<G>(slot, Columns::C128);
            relinquish::<G>();
        }
        if thread::thread_index() == 0 {
            loaded.arrive_expect(IMAGE);
            tma::load_bytes(slot + 1024, image, IMAGE, loaded);
        }
        loaded.wait(0);
        fence_before();
        meet::<G>();
        fence_after();
        Place { done, image: slot + 1024, tensor: allocated(slot) }
    }
}

/// The barrier of the block, or of a pair.
#[inline(always)]
unsafe fn meet<G: Group>() {
    // SAFETY: all threads come here.
    unsafe {
        if G::BLOCKS == 1 {
            sync::block_barrier();
        } else {
            sync::cluster_arrive();
            sync::cluster_wait();
        }
    }
}

/// Waits for D, writes this block's 128 rows of it, and gives the tensor memory back.
#[inline(always)]
unsafe fn end<G: Group>(place: Place, out: u64) {
    // SAFETY: all threads come here, after one of the group has committed; each writes a row.
    unsafe {
        place.done.wait_cluster(0);
        fence_after();
        let row = thread::thread_index();
        let first = place.tensor.lanes(32 * thread::warp_index());
        let at = out + u64::from(4 * N * row);
        let low = load_32x32b::<32>(first);
        let high = load_32x32b::<32>(first.columns(32));
        for index in 0..32 {
            memory::store_u32(at + 4 * index as u64, low[index]);
            memory::store_u32(at + 128 + 4 * index as u64, high[index]);
        }
        fence_before();
        meet::<G>();
        if thread::warp_index() == 0 {
            fence_after();
            release::<G>(place.tensor, Columns::C128);
        }
    }
}

/// Four steps along K without scales.
#[inline(always)]
unsafe fn unscaled<P>(image: u64, out: u64, b: fn(u32) -> Descriptor<P::B>)
where
    P: Product<Kind: Unscaled, A: KMajorOperand>,
{
    // SAFETY: one thread issues what the others wait for.
    unsafe {
        let place = begin::<P::Group>(image);
        if thread::thread_index() == 0 && cluster::block_rank() == 0 {
            let (a, b) = (P::A::at(place.image), b(place.image + PARTS[0]));
            for step in 0..4 {
                multiply::<P>(place.tensor, a.steps(step), b.steps(step), step > 0);
            }
            commit_multicast::<P::Group>(place.done, (1 << P::Group::BLOCKS) - 1);
        }
        end::<P::Group>(place, out);
    }
}

/// Four steps along K with scales.
#[inline(always)]
unsafe fn scaled<P>(image: u64, out: u64)
where
    P: Product<Kind: BlockScaled, A: KMajorOperand, B: KMajorOperand>,
{
    // SAFETY: one thread issues what the others wait for.
    unsafe {
        let place = begin::<P::Group>(image);
        if thread::thread_index() == 0 {
            let scales = [place.tensor.columns(64), place.tensor.columns(96)];
            let (a, b) = (P::A::at(place.image), P::B::at(place.image + PARTS[0]));
            for step in 0..4 {
                let chunk = step / Instruction::<P>::STEPS_PER_COLUMN;
                let columns = scales.map(|scales| scales.columns(4 * chunk));
                if step % Instruction::<P>::STEPS_PER_COLUMN == 0 {
                    for (part, destination) in columns.into_iter().enumerate() {
                        let source = place.image + PARTS[1 + part] + 512 * chunk;
                        copy_32x128b_warpx4::<P::Group>(destination, CopySource::scales(source));
                    }
                }
                multiply_scaled::<P>(
                    place.tensor,
                    a.steps(step),
                    b.steps(step),
                    Instruction::at_step(step),
                    columns,
                    step > 0,
                );
            }
            commit::<P::Group>(place.done);
        }
        end::<P::Group>(place, out);
    }
}

/// Operands with one way to be described.
trait KMajorOperand: Operand {
    fn at(address: u32) -> Descriptor<Self>;
}

impl<E: Element> KMajorOperand for Along<E> {
    #[inline(always)]
    fn at(address: u32) -> Descriptor<Self> {
        Descriptor::k_major(address)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn brains(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe { unscaled::<Brains>(image, out, KMajorOperand::at) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn brains_across(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe { unscaled::<BrainsAcross>(image, out, |address| Descriptor::mn_major(address, 8192)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn eights(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe { unscaled::<Eights>(image, out, KMajorOperand::at) }
}

/// Of the images and the outputs, each block of the pair has its own.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn brains_pair(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe {
        let rank = u64::from(cluster::block_rank());
        let rows = out + rank * 128 * 4 * u64::from(N);
        unscaled::<BrainsPair>(image + rank * u64::from(IMAGE), rows, KMajorOperand::at);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scaled_eights(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe { scaled::<ScaledEights>(image, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scaled_fours(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe { scaled::<ScaledFours>(image, out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn finer_fours(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory.
    unsafe { scaled::<FinerFours>(image, out) }
}

/// A goes to tensor memory, each thread storing a row; in the image its rows have no swizzle.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn brains_from_tensor(image: u64, out: u64) {
    // SAFETY: the launcher vouches for the memory; one thread issues what the others wait for.
    unsafe {
        let place = begin::<One>(image);
        let mut row: [u32; 32] = core::mem::zeroed();
        let at = image + u64::from(128 * thread::thread_index());
        for index in 0..32 {
            row[index] = memory::load_u32(at + 4 * index as u64);
        }
        let a = place.tensor.columns(64);
        store_32x32b(a.lanes(32 * thread::warp_index()), &row);
        wait_stores();
        fence_before();
        sync::block_barrier();
        if thread::thread_index() == 0 {
            fence_after();
            let b = Descriptor::k_major(place.image + PARTS[0]);
            for step in 0..4 {
                let left = a.columns(8 * step);
                multiply_from_tensor::<Brains>(place.tensor, left, b.steps(step), step > 0);
            }
            commit::<One>(place.done);
        }
        end::<One>(place, out);
    }
}
