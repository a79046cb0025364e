//! Asynchronous copies and mbarriers: what arrives, and what is reported of kernels that forget to
//! wait, to announce or to fence.

mod clusters;

use ptx_emulator::tensor_map::{OutOfBoundsFill, Swizzle, TensorDataType};
use ptx_emulator::{
    Arch, LaunchConfig, LaunchError, Machine, Options, ReportKind, Statistics, TensorMap, TiledMap,
};

/// Orders of events that each kernel is run in.
const SEEDS: u64 = 12;
/// Bytes of input and output.
const BYTES: usize = 1 << 16;

/// What a kernel is run with.
#[derive(Clone)]
struct Setup {
    arch: Arch,
    blocks: u32,
    threads: u32,
    input: Vec<u8>,
    /// A tensor map over the input or, second, the output; its address is set before use.
    map: Option<(TiledMap, bool)>,
    seed: u64,
}

impl Setup {
    fn new(threads: u32) -> Self {
        let input = (0..BYTES).map(|index| (index * 7 + index / 251) as u8).collect();
        Self { arch: Arch::Sm90a, blocks: 1, threads, input, map: None, seed: 0 }
    }
}

/// Runs the kernel `test(input, output, map)` as one cluster. Registers: `%in` and `%out` are the
/// two addresses, `%map` that of the tensor map, `%bar` that of 64 bytes for mbarriers, `%tile` of
/// 32 KiB of shared memory, `%t` the thread; `%first` is true in thread 0.
fn launch(body: &str, setup: &Setup) -> Result<(Vec<u8>, Statistics), LaunchError> {
    let target = match setup.arch {
        Arch::Sm90a => "sm_90a",
        _ => "sm_100a",
    };
    let text = format!(
        ".version 8.7\n.target {target}\n.address_size 64\n\
         .visible .entry test(.param .u64 input, .param .u64 output, .param .align 64 .b8 map[128])
         {{
         .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .pred %p<16>; .reg .b16 %h<4>;
         .reg .b32 %bar, %tile, %t; .reg .b64 %in, %out, %map; .reg .pred %first;
         .shared .align 8 .b8 bars[64]; .shared .align 1024 .b8 tile[32768];
         ld.param.u64 %in, [input]; ld.param.u64 %out, [output];
         mov.b64 %map, map; cvta.param.u64 %map, %map;
         mov.u32 %bar, bars; mov.u32 %tile, tile; mov.u32 %t, %tid.x;
         setp.eq.u32 %first, %t, 0;
         {body}
         ret;
         }}"
    );
    let mut options = Options::new(setup.arch);
    (options.seed, options.instruction_limit) = (setup.seed, 3_000_000);
    let mut machine = Machine::with_options(options);
    let module = machine.load(&text).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let kernel = machine.kernel(module, "test").unwrap();
    let (input, output) =
        (machine.allocate(BYTES as u64).unwrap(), machine.allocate(BYTES as u64).unwrap());
    machine.write(input, &setup.input).unwrap();
    machine.fill(output, 0, BYTES as u64).unwrap();
    let mut parameters = vec![0; 192];
    parameters[..8].copy_from_slice(&input.to_le_bytes());
    parameters[8..16].copy_from_slice(&output.to_le_bytes());
    if let Some((map, of_output)) = &setup.map {
        let address = if *of_output { output } else { input };
        let map = TiledMap { address, ..map.clone() };
        let encoded = TensorMap::encode_tiled(&map, setup.arch).unwrap();
        parameters[64..].copy_from_slice(encoded.as_bytes());
    }
    let config = LaunchConfig {
        grid: [setup.blocks, 1, 1],
        block: [setup.threads, 1, 1],
        cluster: [setup.blocks, 1, 1],
        dynamic_shared_bytes: 0,
    };
    let statistics = machine.launch(kernel, &config, &parameters)?;
    let mut found = vec![0; BYTES];
    machine.read(output, &mut found).unwrap();
    Ok((found, statistics))
}

/// The output for every seed, which must not differ.
fn output(body: &str, setup: &Setup) -> Vec<u8> {
    let mut found = None;
    for seed in 0..SEEDS {
        let setup = Setup { seed, ..setup.clone() };
        let (own, _) = launch(body, &setup).unwrap_or_else(|error| panic!("{error}\n{body}"));
        assert!(found.get_or_insert(own.clone()) == &own, "seed {seed} differs\n{body}");
    }
    found.unwrap()
}

/// The reports for every seed; `None` where there was none.
fn reports(body: &str, setup: &Setup) -> Vec<Option<ReportKind>> {
    let kinds = (0..SEEDS).map(|seed| match launch(body, &Setup { seed, ..setup.clone() }) {
        Ok(_) => None,
        Err(LaunchError::Report(report)) => Some(report.kind().clone()),
        Err(error) => panic!("{error}\n{body}"),
    });
    kinds.collect()
}

fn word(bytes: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap())
}

/// One thread initialises the mbarrier for one arrival; all threads know it.
const INIT: &str = "@%first mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster; fence.proxy.async; bar.sync 0;";
/// All threads wait for phase 0.
const WAIT: &str = "WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
    @!%p1 bra WAIT;";

/// Every thread copies its 4-byte words of the first `bytes` of the tile into the output.
fn copy_out(bytes: usize, threads: u32) -> String {
    format!(
        "mul.lo.u32 %r20, %t, 4;
        OUT:
        setp.ge.u32 %p9, %r20, {bytes};
        @%p9 bra OUT_END;
        add.u32 %r21, %tile, %r20;
        ld.shared.b32 %r22, [%r21];
        cvt.u64.u32 %d20, %r20;
        add.u64 %d20, %out, %d20;
        st.global.b32 [%d20], %r22;
        add.u32 %r20, %r20, {};
        bra OUT;
        OUT_END:",
        threads * 4
    )
}

/// The opposite: the input goes into the tile, for the async proxy to see.
fn copy_in(bytes: usize, threads: u32) -> String {
    format!(
        "mul.lo.u32 %r20, %t, 4;
        IN:
        setp.ge.u32 %p9, %r20, {bytes};
        @%p9 bra IN_END;
        add.u32 %r21, %tile, %r20;
        cvt.u64.u32 %d20, %r20;
        add.u64 %d20, %in, %d20;
        ld.global.b32 %r22, [%d20];
        st.shared.b32 [%r21], %r22;
        add.u32 %r20, %r20, {};
        bra IN;
        IN_END: fence.proxy.async.shared::cta; bar.sync 0;",
        threads * 4
    )
}

#[test]
fn bulk_copies_arrive() {
    let setup = Setup::new(64);
    for (copy, expected) in [
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%in], \
             4096, [%bar];",
            4096,
        ),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%tile], [%in], \
             2048, [%bar]; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes\
             .L2::cache_hint [%tile+2048], [%in+2048], 2048, [%bar], %d1;",
            4096,
        ),
    ] {
        let body = format!(
            "{INIT} mov.b64 %d1, 0x12F0000000000000;
             @!%first bra WAIT;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {expected};
             cp.async.bulk.prefetch.L2.global [%in], 4096;
             cp.async.bulk.prefetch.L2.global [%in+65520], 32;
             {copy}
             {WAIT} {}",
            copy_out(4096, 64)
        );
        let (found, statistics) = launch(&body, &setup).unwrap();
        assert!(found[..4096] == setup.input[..4096], "{copy}");
        assert_eq!(statistics.prefetched_bytes, 4096 + 32, "{copy}");
    }
    let body = format!(
        "{} @!%first bra END;
         cp.async.bulk.global.shared::cta.bulk_group [%out], [%tile], 4096;
         cp.async.bulk.commit_group;
         cp.async.bulk.wait_group.read 0;
         st.shared.b32 [%tile], 1;
         fence.proxy.async.shared::cta;
         cp.async.bulk.global.shared::cta.bulk_group [%out+4096], [%tile], 4096;
         cp.async.bulk.commit_group;
         cp.async.bulk.wait_group.read 0;
         END:",
        copy_in(4096, 64)
    );
    let found = output(&body, &setup);
    assert_eq!(found[..4096], setup.input[..4096]);
    assert_eq!((word(&found, 1024), &found[4100..8192]), (1, &setup.input[4..4096]));
    let (_, statistics) = launch(&body, &setup).unwrap();
    assert_eq!(statistics.copied_bytes, 8192);
}

#[test]
fn a_ring_of_two_places_hands_over_every_tile() {
    // Warp 0 produces 8 tiles of 128 bytes, warp 1 consumes; full barriers at 0, empty at 16.
    let body = "@!%first bra READY;
         mbarrier.init.shared::cta.b64 [%bar], 1; mbarrier.init.shared::cta.b64 [%bar+8], 1;
         mbarrier.init.shared::cta.b64 [%bar+16], 32; mbarrier.init.shared::cta.b64 [%bar+24], 32;
         fence.mbarrier_init.release.cluster; fence.proxy.async;
         READY: bar.sync 0;
         mov.u32 %r1, 0; mov.u32 %r10, 0; and.b32 %r11, %t, 31;
         setp.ge.u32 %p2, %t, 32;
         setp.eq.u32 %p3, %r11, 0;
         ROUND:
         and.b32 %r2, %r1, 1; shr.u32 %r3, %r1, 1; and.b32 %r3, %r3, 1;
         mad.lo.u32 %r4, %r2, 8, %bar; mad.lo.u32 %r5, %r2, 128, %tile;
         @%p2 bra CONSUME;
         @!%p3 bra NEXT;
         xor.b32 %r6, %r3, 1;
         FREE: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r4+16], %r6, 1000;
         @!%p1 bra FREE;
         mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r4], 128;
         mul.lo.u32 %r7, %r1, 128; cvt.u64.u32 %d1, %r7; add.u64 %d1, %in, %d1;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d1], 128, [%r4];
         bra NEXT;
         CONSUME: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], %r3;
         @!%p1 bra CONSUME;
         mad.lo.u32 %r8, %r11, 4, %r5; ld.shared.b32 %r9, [%r8];
         mad.lo.u32 %r10, %r10, 3, %r9;
         mbarrier.arrive.shared::cta.b64 _, [%r4+16];
         NEXT: add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 8; @%p4 bra ROUND;
         @!%p2 bra END;
         mul.lo.u32 %r11, %r11, 4; cvt.u64.u32 %d1, %r11; add.u64 %d1, %out, %d1;
         st.global.b32 [%d1], %r10;
         END:";
    let setup = Setup::new(64);
    let found = output(body, &setup);
    for lane in 0..32 {
        let expected = (0..8).fold(0u32, |sum, tile| {
            sum.wrapping_mul(3).wrapping_add(word(&setup.input, 32 * tile + lane))
        });
        assert_eq!(word(&found, lane), expected, "lane {lane}");
    }
    // A consumer that frees a place before it has read it, and one that never does.
    let early = body
        .replace(
            "mad.lo.u32 %r8, %r11",
            "mbarrier.arrive.shared::cta.b64 _, [%r4+16]; \
        mad.lo.u32 %r8, %r11",
        )
        .replacen("mbarrier.arrive.shared::cta.b64 _, [%r4+16];\n", "", 1);
    for kind in reports(&early, &setup) {
        assert!(matches!(kind, Some(ReportKind::Race { space: "shared", .. })), "{kind:?}");
    }
    let never = body.replace("mbarrier.arrive.shared::cta.b64 _, [%r4+16];", "");
    for kind in reports(&never, &setup) {
        let Some(ReportKind::Deadlock(text)) = kind else { panic!("{kind:?}") };
        assert!(text.contains("phase 0, 32 of 32 arrivals pending, 0 bytes pending"), "{text}");
    }
}

/// A map of 40 rows of 50 numbers of `data_type`, rows 256 bytes apart.
fn rows(data_type: TensorDataType, tile: [u32; 2], swizzle: Swizzle) -> TiledMap {
    TiledMap {
        data_type,
        address: 0,
        extents: vec![50, 40],
        strides: vec![256],
        tile: tile.to_vec(),
        element_strides: vec![1, 1],
        interleave: Default::default(),
        swizzle,
        l2_promotion: Default::default(),
        fill: OutOfBoundsFill::Zeros,
    }
}

/// Swizzle, bytes of a row of the box, and the exclusive-or of a byte address.
type Mode = (Swizzle, u32, fn(usize) -> usize);
const MODES: [Mode; 4] = [
    (Swizzle::None, 48, |address| address),
    (Swizzle::Bytes32, 32, |address| address ^ ((address >> 7 & 1) << 4)),
    (Swizzle::Bytes64, 64, |address| address ^ ((address >> 7 & 3) << 4)),
    (Swizzle::Bytes128, 128, |address| address ^ ((address >> 7 & 7) << 4)),
];

#[test]
fn boxes_are_loaded_with_every_swizzle() {
    for (swizzle, row, moved) in MODES {
        for (data_type, size) in [(TensorDataType::U16, 2), (TensorDataType::F32, 4)] {
            for (x, y) in [(0, 0), (8, 5), (-8, -3), (40, 35), (200, 0)] {
                let tile = [row / size, 20];
                let bytes = (row * 20) as usize;
                let body = format!(
                    "{INIT} @!%first bra WAIT;
                     mov.u32 %r1, {x}; mov.u32 %r2, {y};
                     mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes};
                     cp.async.bulk.tensor.2d.shared::cluster.global.tile\
                     .mbarrier::complete_tx::bytes [%tile], [%map, {{%r1, %r2}}], [%bar];
                     {WAIT} {}",
                    copy_out(bytes, 64)
                );
                let mut setup = Setup::new(64);
                setup.map = Some((rows(data_type, tile, swizzle), false));
                setup.seed = (x + y) as u64;
                let (found, _) = launch(&body, &setup).unwrap_or_else(|error| panic!("{error}"));
                for row_index in 0..20 {
                    for byte in 0..row as usize {
                        let column = x * size as i32 + byte as i32;
                        let line = y + row_index as i32;
                        let inside =
                            (0..50 * size as i32).contains(&column) && (0..40).contains(&line);
                        let expected = match inside {
                            true => setup.input[line as usize * 256 + column as usize],
                            false => 0,
                        };
                        let place = moved(row_index * row as usize + byte);
                        assert_eq!(found[place], expected, "{swizzle:?} {x} {y} {place}");
                    }
                }
            }
        }
    }
}

#[test]
fn boxes_are_stored_with_every_swizzle() {
    for (swizzle, row, moved) in MODES {
        for (x, y) in [(0, 0), (8, 5), (32, 35)] {
            let bytes = (row * 20) as usize;
            let body = format!(
                "{} @!%first bra END;
                 mov.u32 %r1, {x}; mov.u32 %r2, {y};
                 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{%r1, %r2}}], [%tile];
                 cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
                 END:",
                copy_in(bytes, 64)
            );
            let mut setup = Setup::new(64);
            setup.map = Some((rows(TensorDataType::Bf16, [row / 2, 20], swizzle), true));
            let found = output(&body, &setup);
            let mut expected = vec![0; BYTES];
            for line in 0..20 {
                for byte in 0..row as usize {
                    let (column, target) = (2 * x + byte, y + line);
                    // The tensor ends within a unit of 16 bytes, which is stored as a whole.
                    if column < 112 && target < 40 {
                        let place = moved(line * row as usize + byte);
                        expected[target * 256 + column] = setup.input[place];
                    }
                }
            }
            assert!(found == expected, "{swizzle:?} {x} {y}");
        }
    }
}

#[test]
fn reductions_add_to_what_is_there() {
    let mut setup = Setup::new(32);
    setup.map = Some((rows(TensorDataType::U32, [16, 8], Swizzle::None), true));
    let body = format!(
        "{} @!%first bra END;
         cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%tile], 1024;
         cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%tile], 512;
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
         mov.u32 %r1, 0; mov.u32 %r2, 8;
         cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group \
         [%map, {{%r1, %r2}}], [%tile];
         cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
         END:",
        copy_in(1024, 32)
    );
    let found = output(&body, &setup);
    for index in 0..256 {
        let times = if index < 128 { 2 } else { 1 };
        let expected = word(&setup.input, index).wrapping_mul(times);
        assert_eq!(word(&found, index), expected, "{index}");
    }
    for line in 0..8 {
        for column in 0..16 {
            let expected = word(&setup.input, line * 16 + column);
            assert_eq!(word(&found, (8 + line) * 64 + column), expected);
        }
    }
}

#[test]
fn threads_copy_in_groups() {
    // Each of 32 threads copies 16 bytes three times; the second lacks its last 12.
    let copies = "mul.lo.u32 %r1, %t, 16; cvt.u64.u32 %d1, %r1; add.u64 %d1, %in, %d1;
         add.u32 %r2, %tile, %r1; mov.u32 %r3, 4; setp.lt.u32 %p2, %t, 16;
         cp.async.cg.shared.global.L2::128B [%r2], [%d1], 16;
         cp.async.commit_group;
         cp.async.ca.shared.global [%r2+512], [%d1+512], 16, %r3;
         cp.async.ca.shared::cta.global [%r2+1024], [%d1+1024], 16, %p2;";
    let setup = Setup::new(32);
    let out = copy_out(1536, 32);
    let mut expected = setup.input[..1536].to_vec();
    for (index, byte) in expected.iter_mut().enumerate().take(1024).skip(512) {
        *byte *= u8::from(index % 16 < 4);
    }
    expected[1024..1024 + 256].fill(0);
    for wait in [
        "cp.async.wait_all; bar.sync 0;",
        "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;",
        "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;",
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];
         WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0; @!%p1 bra WAIT;",
        "cp.async.mbarrier.arrive.shared.b64 [%bar]; mbarrier.arrive.shared::cta.b64 _, [%bar];
         WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0; @!%p1 bra WAIT;",
    ] {
        let init = "@%first mbarrier.init.shared::cta.b64 [%bar], 32; bar.sync 0;";
        let body = format!("{init} {copies} {wait} {out}");
        assert!(output(&body, &setup)[..1536] == expected, "{wait}");
    }
    for wait in [
        "bar.sync 0;",
        "cp.async.wait_group 0; bar.sync 0;",
        "cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;",
    ] {
        for kind in reports(&format!("{copies} {wait} {out}"), &setup) {
            let seen =
                matches!(kind, Some(ReportKind::Race { .. } | ReportKind::Uninitialised { .. }));
            assert!(seen, "{wait} {kind:?}");
        }
    }
}

#[test]
fn a_kernel_makes_and_changes_tensor_maps() {
    // A map of 40 rows of 50 words made from zeros in shared memory, published to the output's end.
    let body = format!(
        "{INIT} mul.lo.u32 %r1, %t, 4; add.u32 %r1, %tile, %r1; add.u32 %r1, %r1, 16384;
         st.shared.b32 [%r1], 0; bar.warp.sync 0xffffffff;
         add.u32 %r2, %tile, 16384; add.u64 %d2, %out, 32768; mov.u64 %d3, 256;
         @!%first bra PUBLISH;
         tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r2], %in;
         tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r2], 1;
         tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 0, 16;
         tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 1, 8;
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 0, 50;
         tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 1, 40;
         tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r2], 0, %d3;
         tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 0, 1;
         tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 1, 1;
         tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r2], 2;
         tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r2], 0;
         PUBLISH: bar.warp.sync 0xffffffff;
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
         [%d2], [%r2], 128;
         fence.proxy.tensormap::generic.acquire.gpu [%d2], 128;
         @!%first bra WAIT;
         mov.u32 %r1, 8; mov.u32 %r3, 4;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
         cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes \
         [%tile], [%d2, {{%r1, %r3}}], [%bar];
         {WAIT} {}",
        copy_out(512, 32)
    );
    let setup = Setup::new(32);
    let found = output(&body, &setup);
    for line in 0..8 {
        for column in 0..16 {
            let expected = word(&setup.input, (4 + line) * 64 + 8 + column);
            assert_eq!(word(&found, line * 16 + column), expected);
        }
    }
    let body = body.replace("[%r2], 1, 8;", "[%r2], 1, 300;");
    for kind in reports(&body, &setup) {
        assert!(
            matches!(&kind, Some(ReportKind::Operand(text)) if text.contains("300")),
            "{kind:?}"
        );
    }
}

#[test]
fn what_is_forgotten_is_reported() {
    let setup = Setup::new(64);
    let load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \
                [%tile], [%in], 1024, [%bar];";
    let expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;";
    let store = "cp.async.bulk.global.shared::cta.bulk_group [%out], [%tile], 1024; \
                 cp.async.bulk.commit_group;";
    let read = "cp.async.bulk.wait_group.read 0;";
    let (out, into) = (copy_out(1024, 64), copy_in(1024, 64));
    let unfenced = into.replace("fence.proxy.async.shared::cta;", "");
    type Expected = fn(&ReportKind) -> bool;
    let race: Expected =
        |kind| matches!(kind, ReportKind::Race { .. } | ReportKind::Uninitialised { .. });
    let unread: Expected = |kind| {
        matches!(kind, ReportKind::Synchronisation(text)
            if text.contains("has not waited until this copy has read its shared memory"))
    };
    let table: &[(&str, String, Expected)] = &[
        ("no wait", format!("{INIT} @%first {expect} @%first {load} {out}"), race),
        (
            "the data is not announced",
            format!(
                "{INIT} @%first {load} @%first mbarrier.arrive.shared::cta.b64 _, [%bar]; {WAIT} {out}"
            ),
            |kind| match kind {
                ReportKind::Deadlock(text) => {
                    text.contains("-1024 bytes pending (so many more have come")
                }
                // The phase ended before the data came.
                ReportKind::Race { .. } | ReportKind::Uninitialised { .. } => true,
                _ => false,
            },
        ),
        (
            "too little is announced",
            format!(
                "{INIT} @%first {} @%first {load} {WAIT} {out}",
                expect.replace("1024", "1040")
            ),
            |kind| {
                matches!(kind, ReportKind::Deadlock(text) if text.contains("mbarrier 0x400: \
                phase 0, 0 of 1 arrivals pending, 16 bytes pending"))
            },
        ),
        ("nobody arrives", format!("{INIT} {WAIT}"), |kind| {
            matches!(kind, ReportKind::Deadlock(text) if text.contains("waits for phase 0 \
                of the mbarrier at 0x400") && text.contains("1 of 1 arrivals pending"))
        }),
        (
            "no fence before a store",
            format!("{unfenced} @!%first bra END; {store} {read} END:"),
            |kind| matches!(kind, ReportKind::MissingProxyFence { .. }),
        ),
        (
            "the source is written again too early",
            format!("{into} @!%first bra END; {store} st.shared.b32 [%tile], 1; {read} END:"),
            race,
        ),
        (
            "the target is read too early",
            format!(
                "{into} @!%first bra END; {store} cp.async.bulk.wait_group.read 0; \
                 ld.global.b32 %r1, [%out]; END:"
            ),
            race,
        ),
        (
            "a group too few is waited for",
            format!(
                "{into} @!%first bra END; {store} cp.async.bulk.wait_group 1; \
                st.shared.b32 [%tile], 1; {read} END:"
            ),
            race,
        ),
        (
            "the block ends before the source has been read",
            format!("{into} @!%first bra END; {store} END:"),
            unread,
        ),
        (
            "the block ends, and another thread has waited",
            format!("{into} @%first bra STORE; {read} bra END; STORE: {store} END:"),
            unread,
        ),
        (
            "a wait for groups does not wait for a copy that is in none",
            format!(
                "{into} @!%first bra END; {} {read} END:",
                store.replace("cp.async.bulk.commit_group;", "")
            ),
            unread,
        ),
    ];
    for (name, body, expected) in table {
        for kind in reports(body, &setup) {
            assert!(kind.as_ref().is_some_and(expected), "{name}: {kind:?}");
        }
    }
}

#[test]
fn mbarriers_are_used_by_their_rules() {
    let setup = Setup::new(1);
    let init = "mbarrier.init.shared::cta.b64 [%bar], 2;";
    // Instructions and a part of the report.
    let table = [
        ("mbarrier.arrive.shared::cta.b64 _, [%bar];", "not initialised"),
        (
            "{init} mbarrier.inval.shared::cta.b64 [%bar]; mbarrier.test_wait.parity.shared::cta.b64 %p1, [%bar], 0;",
            "not initialised",
        ),
        (
            "{init} mbarrier.arrive.shared::cta.b64 _, [%bar], 3;",
            "3 more arrive than are expected: phase 0, 2 of 2",
        ),
        ("{init} mbarrier.arrive.shared::cta.b64 _, [%bar]; {init}", "without `mbarrier.inval`"),
        ("mbarrier.init.shared::cta.b64 [%bar], 0;", "1 to 1048575"),
        ("mbarrier.init.shared::cta.b64 [%bar], 1048576;", "1 to 1048575"),
        ("{init} mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%bar], 2;", "noComplete"),
        ("{init} mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bar], 1048576;", "±1048575"),
        ("{init} mbarrier.arrive.shared::cta.b64 _, [%bar+4];", "aligned to 8"),
        ("mov.b64 %d1, %out; mbarrier.arrive.b64 _, [%d1];", "another window"),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%tile], [%in], 16, [%bar];",
            "not initialised",
        ),
        (
            "{init} cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%tile], [%in], 24, [%bar];",
            "multiple of 16",
        ),
        (
            "{init} cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%tile], [%in+8], 16, [%bar];",
            "not aligned to 16",
        ),
        (
            "{init} cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%tile], [%in+65536], 16, [%bar];",
            "out of bounds",
        ),
        (
            "{init} cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%tile+32768], [%in], 16, [%bar];",
            "out of bounds",
        ),
        (
            "mov.u32 %r1, 0; cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%map, {%r1}];",
            "tensor map at",
        ),
    ];
    for (body, part) in table {
        let body = body.replace("{init}", init);
        let error = launch(&body, &setup).expect_err(&body).to_string();
        assert!(error.contains(part), "{body}\n{error}");
    }
}

#[test]
fn states_tell_the_phase_and_the_pending_count() {
    let body = "mbarrier.init.shared::cta.b64 [%bar], 9;
        mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%bar], 2;
        mbarrier.arrive.shared::cta.b64 %d2, [%bar], 3;
        mbarrier.arrive_drop.shared::cta.b64 %d3, [%bar];
        mbarrier.test_wait.shared::cta.b64 %p1, [%bar], %d3; selp.b32 %r5, 1, 0, %p1;
        mbarrier.arrive.shared::cta.b64 %d4, [%bar], 3;
        mbarrier.test_wait.shared::cta.b64 %p1, [%bar], %d3; selp.b32 %r6, 1, 0, %p1;
        mbarrier.arrive.shared::cta.b64 %d5, [%bar];
        mbarrier.pending_count.b64 %r1, %d1; mbarrier.pending_count.b64 %r2, %d3;
        mbarrier.pending_count.b64 %r3, %d4; mbarrier.pending_count.b64 %r4, %d5;
        st.global.v4.b32 [%out], {%r1, %r2, %r3, %r4}; st.global.v2.b32 [%out+16], {%r5, %r6};";
    let found = output(body, &Setup::new(1));
    let words: Vec<u32> = (0..6).map(|index| word(&found, index)).collect();
    assert_eq!(words, [9, 4, 3, 8, 0, 1]);
}
