//! Everything but products.

use ptx_std::cluster;
use ptx_std::convert_blocks::*;
use ptx_std::launch_control::{Response, try_cancel, try_cancel_multicast};
use ptx_std::mbarrier::Barrier;
use ptx_std::memory;
use ptx_std::tcgen05::*;
use ptx_std::{sync, tma};

ptx_std::declare_shared_memory!();

/// Allocation, copies and commits.
#[inline(always)]
unsafe fn tensor_memory<G: Group>(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let slot = memory::shared_base();
        allocate::<G>(slot, Columns::C512);
        relinquish::<G>();
        fence_before();
        sync::block_barrier();
        fence_after();
        let base = allocated(slot);
        copy_32x128b_warpx4::<G>(base, CopySource::scales(slot + 1024));
        copy_128x256b::<G>(base, CopySource::plain(slot + 1024, 2048, 128));
        copy_128x128b::<G>(base, CopySource::plain(slot + 1024, 2048, 128));
        copy_4x256b::<G>(base, CopySource::plain(slot + 1024, 2048, 128));
        copy_64x128b_warpx2_02_13::<G>(base, CopySource::plain(slot + 1024, 2048, 128));
        copy_64x128b_warpx2_01_23::<G>(base, CopySource::plain(slot + 1024, 2048, 128));
        let barrier = Barrier { address: slot + 8 };
        commit::<G>(barrier);
        commit_multicast::<G>(barrier, memory::load_u32(out) as u16);
        release::<G>(base, Columns::C512);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn tensor_memory_alone(out: u64) {
    // SAFETY: the text is not run.
    unsafe { tensor_memory::<One>(out) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn tensor_memory_pair(out: u64) {
    // SAFETY: the text is not run.
    unsafe { tensor_memory::<Two>(out) }
}

/// Moves a window to other columns.
#[inline(always)]
unsafe fn window<const N: usize>(address: Address)
where
    [u32; N]: Window,
{
    // SAFETY: the text is not run.
    unsafe { store_32x32b(address.columns(128), &load_32x32b::<N>(address)) }
}

/// Moves a fragment to other columns.
#[inline(always)]
unsafe fn fragment<const N: usize>(address: Address)
where
    [u32; N]: Fragment,
{
    // SAFETY: the text is not run.
    unsafe { store_16x256b(address.columns(128), &load_16x256b::<N>(address)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn windows(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let address = Address::from_bits(memory::load_u32(out));
        window::<1>(address);
        window::<2>(address);
        window::<4>(address);
        window::<8>(address);
        window::<16>(address);
        window::<32>(address);
        window::<64>(address);
        window::<128>(address);
        wait_stores();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn fragments(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let address = Address::from_bits(memory::load_u32(out));
        fragment::<4>(address);
        fragment::<8>(address);
        fragment::<16>(address);
        fragment::<32>(address);
        fragment::<64>(address);
        fragment::<128>(address);
        wait_stores();
    }
}

/// An epilogue's loop: each turn loads 32 columns, adds and stores.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn load_in_a_loop(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let [first, turns, ..] = memory::load_constant_u32x4(out);
        // An array that a loop initialises would not stay in registers.
        let mut sums: [f32; 32] = core::mem::zeroed();
        for turn in 0..turns {
            let values = load_32x32b::<32>(Address::from_bits(first).columns(32 * turn));
            for index in 0..32 {
                sums[index] += f32::from_bits(values[index]);
            }
        }
        for index in 0..32 {
            memory::store_f32(out + 4 * index as u64, sums[index]);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn clusters(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let base = memory::shared_base();
        let barrier = Barrier { address: base };
        let leader = barrier.of_block(cluster::block_rank() & !1);
        leader.arrive_expect(8192);
        barrier.in_cluster().arrive();
        tma::load_2d_pair(base + 1024, out, cluster::index(), 0, leader);
        tma::load_3d_pair(base + 1024, out, 0, 1, cluster::grid_clusters(), leader);
        tma::load_2d_multicast(base + 1024, out, 0, 0, barrier, (1 << cluster::blocks()) - 1);
        tma::load_bytes(base + 1024, out, 512, barrier);
        barrier.wait_cluster(0);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn launch_control(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let base = memory::shared_base();
        let (response, barrier) = (Response { address: base }, Barrier { address: base + 16 });
        try_cancel(response, barrier);
        try_cancel_multicast(response, barrier);
        barrier.wait(0);
        if let Some([x, y, z]) = response.first_block() {
            memory::store_u32x4(out, [x, y, z, 1]);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn conversions(out: u64) {
    // SAFETY: the text is not run.
    unsafe {
        let [a, b, c, d] = memory::load_constant_u32x4(out).map(f32::from_bits);
        let packed = f32x8_to_e2m1x8([a, b, c, d, d, c, b, a]);
        memory::store_u32x4(out, e2m1x8_to_f16x8(packed));
        let random = f32x4_to_e2m1x4_random([a, b, c, d], packed);
        let scales = [f32x2_to_ue8m0x2_up(a, b), f32x2_to_ue8m0x2_down(c, d)];
        let values = scales.map(ue8m0x2_to_bf16x2);
        memory::store_u32x4(out + 16, [packed, u32::from(random), values[0], values[1]]);
    }
}
