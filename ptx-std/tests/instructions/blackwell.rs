//! What needs `sm_100a`, compiled for it and assembled.
//!
//! `device/` calls every such function; here its text is made by `ptx-build`, instructions are
//! counted in it, and `ptxas` assembles it. Without a compiler for kernels, or without `ptxas`, the
//! test says what it did not do.

use std::collections::HashMap;
use std::path::Path;

use ptx_build::{Build, Compiler, Ptxas, Target, compile, count, entry_bodies};

const SM_100A: Target = Target { cpu: "sm_100a", ptx: "ptx87" };

/// Entry point, beginning of an instruction, how often it stands there.
const COUNTS: &[(&str, &str, usize)] = &[
    ("unscaled_alone", "tcgen05.mma.cta_group::1.kind::f16 [", 6),
    ("unscaled_alone", "tcgen05.mma.cta_group::1.kind::f8f6f4 [", 1),
    ("unscaled_pair", "tcgen05.mma.cta_group::2.kind::f16 [", 6),
    ("unscaled_pair", "tcgen05.mma.cta_group::2.kind::f8f6f4 [", 1),
    ("scaled_alone", "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [", 4),
    ("scaled_alone", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::2X [", 1),
    ("scaled_alone", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [", 1),
    ("scaled_pair", "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X [", 4),
    ("scaled_pair", "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::2X [", 1),
    ("scaled_pair", "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [", 1),
    ("tensor_memory_alone", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [", 1),
    ("tensor_memory_alone", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 ", 1),
    ("tensor_memory_alone", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", 1),
    ("tensor_memory_alone", "tcgen05.cp.cta_group::1.32x128b.warpx4 [", 1),
    ("tensor_memory_alone", "tcgen05.cp.cta_group::1.128x256b [", 1),
    ("tensor_memory_alone", "tcgen05.cp.cta_group::1.128x128b [", 1),
    ("tensor_memory_alone", "tcgen05.cp.cta_group::1.4x256b [", 1),
    ("tensor_memory_alone", "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [", 1),
    ("tensor_memory_alone", "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [", 1),
    ("tensor_memory_alone", "tcgen05.commit.cta_group::1.", 2),
    ("tensor_memory_alone", "tcgen05.fence::before_thread_sync;", 1),
    ("tensor_memory_alone", "tcgen05.fence::after_thread_sync;", 1),
    ("tensor_memory_pair", "tcgen05.alloc.cta_group::2.", 1),
    ("tensor_memory_pair", "tcgen05.dealloc.cta_group::2.", 1),
    ("tensor_memory_pair", "tcgen05.relinquish_alloc_permit.cta_group::2.", 1),
    ("tensor_memory_pair", "tcgen05.cp.cta_group::2.", 6),
    ("tensor_memory_pair", "tcgen05.commit.cta_group::2.", 2),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x1.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x1.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x2.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x2.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x4.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x4.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x8.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x8.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x16.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x16.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x32.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x32.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x64.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x64.b32 ", 1),
    ("windows", "tcgen05.ld.sync.aligned.32x32b.x128.b32 ", 1),
    ("windows", "tcgen05.st.sync.aligned.32x32b.x128.b32 ", 1),
    ("windows", "tcgen05.wait::ld.sync.aligned;", 8),
    ("windows", "tcgen05.wait::st.sync.aligned;", 1),
    ("fragments", "tcgen05.ld.sync.aligned.16x256b.x1.b32 ", 1),
    ("fragments", "tcgen05.st.sync.aligned.16x256b.x1.b32 ", 1),
    ("fragments", "tcgen05.ld.sync.aligned.16x256b.x2.b32 ", 1),
    ("fragments", "tcgen05.st.sync.aligned.16x256b.x2.b32 ", 1),
    ("fragments", "tcgen05.ld.sync.aligned.16x256b.x4.b32 ", 1),
    ("fragments", "tcgen05.st.sync.aligned.16x256b.x4.b32 ", 1),
    ("fragments", "tcgen05.ld.sync.aligned.16x256b.x8.b32 ", 1),
    ("fragments", "tcgen05.st.sync.aligned.16x256b.x8.b32 ", 1),
    ("fragments", "tcgen05.ld.sync.aligned.16x256b.x16.b32 ", 1),
    ("fragments", "tcgen05.st.sync.aligned.16x256b.x16.b32 ", 1),
    ("fragments", "tcgen05.ld.sync.aligned.16x256b.x32.b32 ", 1),
    ("fragments", "tcgen05.st.sync.aligned.16x256b.x32.b32 ", 1),
    ("fragments", "tcgen05.wait::ld.sync.aligned;", 6),
    ("load_in_a_loop", "tcgen05.ld.sync.aligned.32x32b.x32.b32 ", 1),
    ("clusters", "mapa.shared::cluster.u32 ", 1),
    ("clusters", "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [", 1),
    ("clusters", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [", 1),
    ("clusters", "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ", 1),
    ("clusters", "cp.async.bulk.tensor.2d.", 2),
    ("clusters", "cp.async.bulk.tensor.3d.", 1),
    ("clusters", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [", 1),
    ("launch_control", "clusterlaunchcontrol.try_cancel.async.", 2),
    ("launch_control", "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 ", 1),
    ("launch_control", "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", 1),
    ("conversions", "cvt.rn.satfinite.e2m1x2.f32 ", 4),
    ("conversions", "cvt.rn.f16x2.e2m1x2 ", 4),
    ("conversions", "cvt.rs.satfinite.e2m1x4.f32 ", 1),
    ("conversions", "cvt.rp.satfinite.ue8m0x2.f32 ", 1),
    ("conversions", "cvt.rz.satfinite.ue8m0x2.f32 ", 1),
    ("conversions", "cvt.rn.bf16x2.ue8m0x2 ", 2),
];

#[test]
fn everything_compiles_and_assembles() {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(error) => return println!("skipped: {error}"),
    };
    let build = Build {
        crate_dir: &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device"),
        features: &[],
        target: SM_100A,
        target_dir: &Path::new(env!("CARGO_TARGET_TMPDIR")).join("device"),
    };
    let text = compile(&compiler, &build).unwrap_or_else(|error| panic!("{error}"));
    let bodies: HashMap<String, String> = entry_bodies(&text).into_iter().collect();
    for (entry, instruction, times) in COUNTS {
        let found = count(&bodies[*entry], instruction);
        assert_eq!(found, *times, "{entry}: {instruction}");
    }
    for (entry, body) in &bodies {
        assert!(COUNTS.iter().any(|(counted, ..)| counted == entry), "{entry} is not counted");
        assert_eq!(count(body, ".local"), 0, "{entry}: an array left the registers");
        check_loads(entry, body);
    }
    assemble(&text, bodies.len());
}

/// The wait stands behind its load, with nothing between.
fn check_loads(entry: &str, body: &str) {
    let loads = body.split("tcgen05.ld.").skip(1);
    for load in loads {
        let behind = load.split_once(';').map(|(_, rest)| rest.trim_start());
        let waited = behind.is_some_and(|rest| rest.starts_with("tcgen05.wait::ld"));
        assert!(waited, "{entry}: a load without its wait: {load}");
    }
}

fn assemble(text: &str, entries: usize) {
    let ptxas = match Ptxas::find() {
        Ok(ptxas) => ptxas,
        Err(error) => return println!("not assembled: {error}"),
    };
    let report = ptxas.check(text, SM_100A.cpu).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.remarks, Vec::<String>::new());
    let functions = report.functions.iter().filter(|function| function.registers.is_some());
    assert_eq!(functions.clone().count(), entries);
    for function in functions {
        let own = (function.stack_bytes, function.spill_bytes);
        assert_eq!(own, (0, 0), "{}: bytes on the stack, bytes spilled", function.name);
    }
}
