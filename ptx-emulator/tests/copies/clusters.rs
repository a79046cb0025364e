//! Copies and stores in a cluster: into the memory of other blocks, and what completes there.

use ptx_emulator::tensor_map::{Swizzle, TensorDataType};
use ptx_emulator::{Arch, ReportKind};

use super::{INIT, Setup, WAIT, copy_out, output, reports, rows, word};

#[test]
fn multicast_reaches_every_block_of_a_cluster() {
    let body = format!(
        "{INIT} barrier.cluster.arrive; barrier.cluster.wait;
         mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p2, %r1, 0;
         @!%first bra WAIT;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;
         @!%p2 bra WAIT;
         mov.u16 %h1, 3;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
         [%tile], [%in], 256, [%bar], %h1;
         {WAIT}
         mul.lo.u32 %r1, %r1, 256; cvt.u64.u32 %d1, %r1; add.u64 %out, %out, %d1; {}
         barrier.cluster.arrive; barrier.cluster.wait;",
        copy_out(256, 32)
    );
    let mut setup = Setup::new(32);
    setup.blocks = 2;
    let found = output(&body, &setup);
    assert_eq!(found[..256], setup.input[..256]);
    assert_eq!(found[256..512], setup.input[..256]);
    let body = body.replace("mov.u16 %h1, 3;", "mov.u16 %h1, 5;");
    for kind in reports(&body, &setup) {
        assert!(matches!(kind, Some(ReportKind::Operand(_))), "{kind:?}");
    }
}

#[test]
fn copies_of_a_pair_complete_on_the_mbarrier_of_either_block() {
    // Each block copies four lines of its own; the block `{counter}` counts the bytes of both.
    let body = |counter: u32, group: &str| {
        format!(
            "{INIT} barrier.cluster.arrive; barrier.cluster.wait;
             mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p2, %r1, {counter};
             mov.u32 %r2, 0; shl.b32 %r3, %r1, 2; mapa.shared::cluster.u32 %r4, %bar, {counter};
             @!%first bra ISSUED;
             @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
             cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{group} \
             [%tile], [%map, {{%r2, %r3}}], [%r4];
             ISSUED:
             @!%p2 bra MET;
             {WAIT}
             MET:
             barrier.cluster.arrive; barrier.cluster.wait;
             mul.lo.u32 %r1, %r1, 256; cvt.u64.u32 %d1, %r1; add.u64 %out, %out, %d1; {}",
            copy_out(256, 32)
        )
    };
    let map = Some((rows(TensorDataType::U32, [16, 4], Swizzle::None), false));
    let pair = Setup { arch: Arch::Sm100a, blocks: 2, map, ..Setup::new(32) };
    for counter in [0, 1] {
        let found = output(&body(counter, ".cta_group::2"), &pair);
        for (line, row) in found[..512].chunks(64).enumerate() {
            assert_eq!(row, &pair.input[line * 256..line * 256 + 64], "line {line}");
        }
    }
    // Without it a copy completes where it goes, and with it in the own pair.
    let wrong = |body: &str, setup: &Setup, wanted: &str| {
        for kind in reports(body, setup) {
            let Some(ReportKind::Synchronisation(text)) = kind else { panic!("{kind:?}") };
            assert!(text.contains(wanted), "{text}");
        }
    };
    wrong(&body(0, ""), &pair, "it is in block 0, the copy goes to block 1");
    wrong(&body(0, ".cta_group::1"), &pair, "it is in block 0, the copy goes to block 1");
    let pairs = Setup { blocks: 4, ..pair };
    wrong(&body(0, ".cta_group::2"), &pairs, "which is of another pair");
}

#[test]
fn stores_into_another_block_complete_there() {
    // Each block sends its rank and a sum to the other, and reads what came.
    let body = format!(
        "@%first mbarrier.init.shared::cta.b64 [%bar], 1;
         @%first st.shared.v4.b32 [%tile], {{10, 20, 30, 40}};
         fence.mbarrier_init.release.cluster;
         barrier.cluster.arrive; barrier.cluster.wait;
         mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
         mapa.shared::cluster.u32 %r3, %tile, %r2; mapa.shared::cluster.u32 %r4, %bar, %r2;
         @!%first bra WAIT;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 24;
         add.u32 %r5, %r1, 100;
         st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r3+16], \
         {{%r5, 1, 2, 3}}, [%r4];
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 \
         [%r3], %r5, [%r4];
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 \
         [%r3+4], 20, [%r4];
         {WAIT}
         mul.lo.u32 %r1, %r1, 32; cvt.u64.u32 %d1, %r1; add.u64 %out, %out, %d1; {}
         barrier.cluster.arrive; barrier.cluster.wait;",
        copy_out(32, 32)
    );
    let mut setup = Setup::new(32);
    setup.blocks = 2;
    let found = output(&body, &setup);
    let words: Vec<u32> = (0..16).map(|index| word(&found, index)).collect();
    assert_eq!(words[..8], [111, 0, 30, 40, 101, 1, 2, 3]);
    assert_eq!(words[8..], [110, 0, 30, 40, 100, 1, 2, 3]);
}
