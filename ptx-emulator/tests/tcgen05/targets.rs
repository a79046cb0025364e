//! For which targets the instructions of Blackwell load. Every row is what ptxas says; where
//! `PTXAS` has the program's path, it is asked.

use std::io::Write;

use ptx_emulator::{Arch, Machine};

use super::forms::{assembles, text};

/// The targets of the rows. A machine of sm_100a runs all but the first.
const TARGETS: [&str; 4] = ["sm_90a", "sm_100", "sm_100f", "sm_100a"];

/// From a target on.
const SINCE_100: [bool; 4] = [false, true, true, true];
const FAMILY: [bool; 4] = [false, false, true, true];
const HOPPER: [bool; 4] = [true, false, false, false];
const OWN: [bool; 4] = [false, false, false, true];

/// What each takes and what it says of the others.
const ROWS: &[(&str, [bool; 4], &str)] = &[
    ("wgmma.fence.sync.aligned;", HOPPER, "sm_90a"),
    ("add.f32x2 %d1, %d2, %d3;", SINCE_100, "`.f32x2`"),
    ("sub.rz.f32x2 %d1, %d2, %d3;", SINCE_100, "`.f32x2`"),
    ("mul.rm.ftz.f32x2 %d1, %d2, %d3;", SINCE_100, "`.f32x2`"),
    ("fma.rp.f32x2 %d1, %d2, %d3, %d4;", SINCE_100, "`.f32x2`"),
    ("cvt.rn.satfinite.tf32.f32 %r1, %f1;", SINCE_100, "sm_100"),
    (
        "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1];",
        SINCE_100,
        "from sm_100 on",
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 \
         [%r1], [%d1, {%r2, %r3}], [%r4];",
        FAMILY,
        "`.cta_group`",
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes.cta_group::1 \
         [%r1], [%d1, {%r2, %r3}], [%r4];",
        FAMILY,
        "`.cta_group`",
    ),
    ("redux.sync.min.f32 %f1, %f2, -1;", FAMILY, "sm_100f"),
    ("tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%d1], 1;", FAMILY, "sm_100f"),
    ("cvt.rn.satfinite.e2m1x2.f32 %c1, %f1, %f2;", FAMILY, "sm_100f"),
    ("cvt.rn.satfinite.relu.e2m3x2.f32 %h1, %f1, %f2;", FAMILY, "sm_100f"),
    ("cvt.rn.satfinite.e3m2x2.f32 %h1, %f1, %f2;", FAMILY, "sm_100f"),
    ("cvt.rn.satfinite.e2m1x2.f16x2 %c1, %r1;", FAMILY, "sm_100f"),
    ("cvt.rn.satfinite.e4m3x2.bf16x2 %h1, %r1;", FAMILY, "sm_100f"),
    ("cvt.rn.f16x2.e2m1x2 %r1, %c1;", FAMILY, "sm_100f"),
    ("cvt.rn.bf16x2.e5m2x2 %r1, %h1;", FAMILY, "sm_100f"),
    ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2 %r1, %h1, %h2;", FAMILY, "sm_100f"),
    ("cvt.rp.ue8m0x2.f32 %h1, %f1, %f2;", FAMILY, "sm_100f"),
    ("cvt.rz.satfinite.ue8m0x2.bf16x2 %h1, %r1;", FAMILY, "sm_100f"),
    ("cvt.rn.bf16x2.ue8m0x2 %r1, %h1;", FAMILY, "sm_100f"),
    ("cvt.rs.bf16x2.f32 %r1, %f1, %f2, %r2;", OWN, "sm_100a"),
    ("cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;", OWN, "sm_100a"),
    ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1, 3;", FAMILY, "sm_100a"),
    ("tcgen05.mma.cta_group::1.kind::f16.ashift [%r1], [%r3], %d2, %r2, %p1;", FAMILY, "sm_100a"),
    ("tcgen05.shift.cta_group::1.down [%r1];", OWN, "sm_100a"),
    ("tcgen05.mma.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %p1;", OWN, "sm_100a"),
    ("tcgen05.mma.ws.cta_group::1.kind::i8 [%r1], %d1, %d2, %r2, %p1;", OWN, "sm_100a"),
    (
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r1], %d1, %d2, %r2, [%r3], \
         [%r4], %p1;",
        FAMILY,
        "sm_100a",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%r1], %d1, %d2, %r2, \
         [%r3], [%r4], %p1;",
        OWN,
        "sm_100a",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r1], %d1, %d2, %r2, [%r3], \
         [%r4], %p1;",
        FAMILY,
        "sm_100a",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%r1], %d1, %d2, %r2, \
         [%r3], [%r4], %p1;",
        OWN,
        "sm_100a",
    ),
];

/// What no target takes.
const REFUSED: &[(&str, &str)] = &[
    (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [%r1], \
         [%d1], 16, [%r4];",
        "`.cta_group::2`",
    ),
    ("add.sat.f32x2 %d1, %d2, %d3;", "`.sat`"),
    ("fma.f32x2 %d1, %d2, %d3, %d4;", "`.rn`"),
    ("fma.rn.relu.f32x2 %d1, %d2, %d3, %d4;", "`.relu`"),
    ("mad.rn.f32x2 %d1, %d2, %d3, %d4;", "no `mad`"),
    ("neg.f32x2 %d1, %d2;", "no `neg`"),
    ("max.f32x2 %d1, %d2, %d3;", "no `max`"),
    ("rcp.rn.f32x2 %d1, %d2;", "no `rcp`"),
    ("add.f32x2 %d1, %d2, 0f3F800000;", "literals of two numbers"),
    ("add.f32x2 %d1, %d2, %r1;", "not for `.f32x2`"),
    ("add.f32x2 %g1, %d2, %d3;", "not for `.f32x2`"),
    ("add.f32x2 %ud1, %d2, %d3;", "not for `.f32x2`"),
    ("add.f32x2 %d1, {%f1, %f2}, %d3;", "a 64-bit source"),
];

#[test]
fn targets_of_instructions() {
    for (body, takes, part) in ROWS {
        for (target, is_taken) in TARGETS.into_iter().zip(takes) {
            let arch = if target == "sm_90a" { Arch::Sm90a } else { Arch::Sm100a };
            match Machine::new(arch).load(&text("9.2", target, body)) {
                Ok(_) => assert!(is_taken, "taken for {target}: {body}"),
                Err(error) => {
                    assert!(!is_taken, "{target}: {error}");
                    assert!(error.to_string().contains(part), "{target}, not {part}: {error}");
                }
            }
        }
    }
    for (body, part) in REFUSED {
        let Err(error) = Machine::new(Arch::Sm100a).load(&text("9.2", "sm_100a", body)) else {
            panic!("taken: {body}");
        };
        assert!(error.to_string().contains(part), "not {part}: {error}");
    }
}

#[test]
fn ptxas_agrees_on_targets() {
    let Some(program) = std::env::var_os("PTXAS") else {
        // Past the capture of the output, so that whoever reads it knows what has not been asked.
        let _ = writeln!(std::io::stderr(), "skipped: `PTXAS` names no assembler to agree with");
        return;
    };
    for (body, takes, _) in ROWS {
        for (target, is_taken) in TARGETS.into_iter().zip(takes) {
            let found = assembles(&program, target, &text("9.2", target, body));
            assert_eq!(found, *is_taken, "{target}: {body}");
        }
    }
    for (body, _) in REFUSED {
        assert!(!assembles(&program, "sm_100a", &text("9.2", "sm_100a", body)), "{body}");
    }
}
