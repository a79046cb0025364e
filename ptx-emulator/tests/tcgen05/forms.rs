//! Which forms load and which are refused. Every row is what ptxas says for sm_100a, but for
//! those that are not emulated; where `PTXAS` has the program's path, it is asked.

use std::io::Write;
use std::process::{Command, Stdio};

use ptx_emulator::{Arch, Machine};

/// A module with an instruction.
pub(super) fn text(version: &str, target: &str, body: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .shared .align 16 .b8 shared[4096];\n\
         .visible .entry test()\n{{\n\
         .reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<300>;\n\
         .reg .b64 %d<9>; .reg .f32 %f<9>; .reg .f64 %g<9>; .reg .u64 %ud<9>;\n\
         {body}\nret;\n}}\n"
    )
}

const TAKEN: &[&str] = &[
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;",
    "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [shared], %r1;",
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d3], 32;",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 512;",
    "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r0];",
    "tcgen05.ld.sync.aligned.16x64b.x2.b32 {%r1, %r2}, [%r0+4];",
    "tcgen05.ld.sync.aligned.16x128b.x1.pack::16b.b32 {%r1, %r2}, [%r0];",
    "tcgen05.ld.sync.aligned.16x256b.x1.b32 {%r1, %r2, %r3, %r4}, [%r0];",
    "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r1, %r2}, [%r0], 8;",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%f1, %f2}, [%r0];",
    "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r0], {%r1, %f2};",
    "tcgen05.st.sync.aligned.16x128b.x1.unpack::16b.b32 [%r0], {%r1, %r1};",
    "tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r0], 8, {%r1};",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st.sync.aligned;",
    "tcgen05.fence::before_thread_sync;",
    "tcgen05.fence::after_thread_sync;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%d3];",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];",
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \
     [%r1], %h1;",
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.multicast::cluster.b64 [%d1], %h1;",
    "tcgen05.cp.cta_group::1.128x256b [%r5], %d3;",
    "tcgen05.cp.cta_group::2.4x256b [%r5], %d3;",
    "tcgen05.cp.cta_group::1.128x128b.b8x16.b6x16_p32 [%r5], %d3;",
    "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [%r5], %d3;",
    "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23.b8x16.b4x16_p64 [%r5], %d3;",
    "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5], %d3;",
    "tcgen05.shift.cta_group::1.down [%r5];",
    "@%p1 tcgen05.shift.down.cta_group::2 [%r5+8];",
    "tcgen05.mma.cta_group::1.kind::f16 [%r5], %d3, %d4, %r6, %p0;",
    "tcgen05.mma.cta_group::2.kind::f16 [%r5], [%r7], %d4, %r6, !%p0;",
    "tcgen05.mma.cta_group::1.kind::tf32 [%r5], %d3, %d4, %r6, {%r1, %r2, %r3, %r4}, %p0, 2;",
    "@%p1 tcgen05.mma.cta_group::1.kind::i8.collector::a::lastuse [%r5], %d3, %d4, %r6, 1;",
    "tcgen05.mma.cta_group::2.kind::f8f6f4 [%r5], %d3, %d4, %r6, \
     {%r1, %r2, %r3, %r4, %r11, %r12, %r13, %r14}, %p0;",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r5], %d3, %d4, %r6, [%r7], [%r8], %p0;",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32.collector::a::fill [%r5], %d3, \
     %d4, %r6, [%r7], [%r8], %p0;",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r5], [%r9], %d4, %r6, [%r7], \
     [%r8], %p0;",
    "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X [%r5], %d3, %d4, %r6, \
     [%r7], [%r8], %p0;",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r5], %d3, %d4, %r6, [%r7], \
     [%r8], %p0;",
    "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b2::fill [%r5], %d3, %d4, %r6, %p0;",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [%r5], [%r7], %d4, %r6, %p0;",
    "tcgen05.mma.cta_group::2.kind::i8.collector::a::lastuse.ashift [%r5], [%r7], %d4, %r6, %p0;",
    "tcgen05.mma.cta_group::1.kind::tf32.ashift.collector::a::discard [%r5], [%r7], %d4, %r6, \
     {%r1, %r2, %r3, %r4}, %p0, 2;",
    "tcgen05.mma.cta_group::2.kind::f8f6f4.ashift [%r5], [%r7], %d4, %r6, \
     {%r1, %r2, %r3, %r4, %r11, %r12, %r13, %r14}, %p0;",
];

const REFUSED: &[(&str, &str)] = &[
    ("tcgen05.alloc.sync.aligned.shared::cta.b32 [%r1], 512;", "`.cta_group::1` or `::2`"),
    ("tcgen05.alloc.cta_group::1.shared::cta.b32 [%r1], 512;", "`.sync.aligned` is missing"),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta [%r1], 512;", "`.b32` is missing"),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 96;", "32, 64, 128, 256"),
    ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 16;", "32, 64, 128, 256"),
    ("tcgen05.st.sync.aligned.32x32b.x1.b32 [0], {%r1};", "a register of 32 bits"),
    ("tcgen05.cp.cta_group::1.128x256b [0], %d3;", "a register of 32 bits"),
    ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 [%r5], 512;", "32-bit source"),
    ("tcgen05.ld.sync.aligned.32x32b.b32 {%r1}, [%r0];", "a repetition"),
    ("tcgen05.ld.sync.aligned.32x32b.x3.b32 {%r1, %r2, %r3}, [%r0];", "a repetition"),
    ("tcgen05.ld.sync.aligned.32x32b.x1.b32 %r1, [%r0];", "in braces"),
    ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%r0];", "2 registers are wanted"),
    ("tcgen05.ld.sync.aligned.32x32b.x1.unpack::16b.b32 {%r1}, [%r0];", "`.unpack::16b`"),
    ("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r0];", "takes 3 operands"),
    ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d1}, [%r0];", "not for `.b32`"),
    ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%d0];", "register"),
    ("tcgen05.wait::ld;", "`.sync.aligned` is missing"),
    ("tcgen05.fence::before_thread_sync.sync.aligned;", "`.sync` is not supported"),
    ("tcgen05.commit.cta_group::1.b64 [%d3];", "`.mbarrier::arrive::one` is missing"),
    ("tcgen05.cp.cta_group::1.32x128b [%r5], %d3;", "takes `.warpx4`"),
    ("tcgen05.cp.cta_group::1.64x128b [%r5], %d3;", "takes `.warpx2"),
    ("tcgen05.cp.cta_group::1.128x256b.warpx4 [%r5], %d3;", "`.warpx4` is not supported here"),
    ("tcgen05.cp.cta_group::1.128x256b.b8x16 [%r5], %d3;", "the format of the source"),
    ("tcgen05.shift.cta_group::1 [%r5];", "`.down` is missing"),
    ("tcgen05.shift.cta_group::1.up [%r5];", "`.down` is missing"),
    ("tcgen05.shift.down [%r5];", "`.cta_group::1` or `::2`"),
    ("tcgen05.shift.cta_group::1.down %r5;", "address"),
    ("tcgen05.shift.cta_group::1.down [%d5];", "register"),
    ("tcgen05.shift.cta_group::1.down [%r5], 8;", "takes 1 operand"),
    ("tcgen05.mma.cta_group::1.kind::f16.ashift [%r5], %d3, %d4, %r6, %p0;", "in tensor memory"),
    (
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.ashift [%r5], [%r9], %d4, %r6, \
         [%r7], [%r8], %p0;",
        "`.kind::mxf8f6f4` has no `.ashift`",
    ),
    ("tcgen05.mma.ws.cta_group::1.kind::f16.ashift [%r5], [%r7], %d4, %r6, %p0;", "`.ws` has no"),
    (
        "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::fill [%r5], [%r7], %d4, %r6, %p0;",
        "cannot be with `.collector::a::fill`",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::use.ashift [%r5], [%r7], %d4, %r6, %p0;",
        "cannot be with `.collector::a::use`",
    ),
    ("tcgen05.mma.cta_group::1 [%r5], %d3, %d4, %r6, %p0;", "a `.kind` is missing"),
    ("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r5], %d3, %d4, %r6, %p0, 2;", "cannot scale D"),
    ("tcgen05.mma.cta_group::1.kind::f16 [%r5], %d3, %d4, %r6, %p0, 16;", "0 to 15"),
    (
        "tcgen05.mma.cta_group::2.kind::f16 [%r5], %d3, %d4, %r6, {%r1, %r2, %r3, %r4}, %p0;",
        "8 reg",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::2X [%r5], %d3, %d4, %r6, \
         [%r7], [%r8], %p0;",
        "has no `.scale_vec::2X`",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r5], %d3, %d4, %r6, [%r7], [%r8], \
         %p0;",
        "`.scale_vec` or `.block16` is missing",
    ),
    (
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4 [%r5], %d3, %d4, %r6, [%r7], [%r8], %p0;",
        "`.block_scale` is missing",
    ),
    ("tcgen05.mma.ws.cta_group::2.kind::f16 [%r5], %d3, %d4, %r6, %p0;", "cta_group"),
    ("tcgen05.mma.ws.cta_group::1.kind::f16.collector::a::fill [%r5], %d3, %d4, %r6, %p0;", "coll"),
];

/// What the assembler takes and this crate refuses: generic addresses have 64 bits.
const NOT_EMULATED: &[(&str, &str)] = &[
    ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r1], 32;", "64 bits"),
    ("tcgen05.mma.sp.cta_group::1.kind::f16 [%r5], %d3, %d4, [%r7], %r6, %p0;", "`.sp`"),
    ("tcgen05.mma.ws.cta_group::1.kind::f16 [%r5], %d3, %d4, %r6, %p0, %d0;", "mask of columns"),
];

fn refusal(text: &str) -> String {
    match Machine::new(Arch::Sm100a).load(text) {
        Ok(_) => panic!("taken: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn forms() {
    for body in TAKEN {
        if let Err(error) = Machine::new(Arch::Sm100a).load(&text("8.8", "sm_100a", body)) {
            panic!("{error}");
        }
    }
    for (body, part) in REFUSED.iter().chain(NOT_EMULATED) {
        let error = refusal(&text("8.8", "sm_100a", body));
        assert!(error.contains(part), "{body}\n{error}");
    }
}

/// Targets, whether a machine of sm_100a runs them, and whether the assembler takes them.
const TARGETS: [(&str, &str, Option<&str>, bool); 7] = [
    ("8.6", "sm_100a", None, true),
    ("8.8", "sm_100f", None, true),
    ("8.6", "sm_100", Some("tensor memory is for targets such as sm_100a"), false),
    ("8.6", "sm_90", Some("tensor memory is for targets such as sm_100a"), false),
    ("8.8", "sm_103a", Some("sm_103a"), true),
    ("9.0", "sm_110a", Some("sm_110a"), true),
    ("8.8", "sm_120a", Some("sm_120a"), false),
];

const ANY: &str = "tcgen05.wait::ld.sync.aligned;";

#[test]
fn targets() {
    for (version, target, part, _) in TARGETS {
        let text = text(version, target, ANY);
        match part {
            None => drop(Machine::new(Arch::Sm100a).load(&text).unwrap()),
            Some(part) => {
                let error = refusal(&text);
                assert!(error.contains(part), "{target}: {error}");
            }
        }
    }
}

/// Whether the assembler takes a module.
pub(super) fn assembles(program: &std::ffi::OsStr, target: &str, text: &str) -> bool {
    let mut child = Command::new(program)
        .args([&format!("-arch={target}"), "-", "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("PTXAS names a program");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait().unwrap().success()
}

#[test]
fn ptxas_agrees() {
    let Some(program) = std::env::var_os("PTXAS") else {
        // Past the capture of the output, so that whoever reads it knows what has not been asked.
        let _ = writeln!(std::io::stderr(), "skipped: `PTXAS` names no assembler to agree with");
        return;
    };
    let takes = |body: &str| assembles(&program, "sm_100a", &text("8.8", "sm_100a", body));
    let taken = TAKEN.iter().map(|body| (body, true));
    let refused = REFUSED.iter().map(|(body, _)| (body, false));
    let missing = NOT_EMULATED.iter().map(|(body, _)| (body, true));
    let all = taken.chain(refused).chain(missing);
    let wrong: Vec<_> = all.filter(|(body, is_taken)| takes(body) != *is_taken).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for (version, target, _, is_taken) in TARGETS {
        let found = assembles(&program, target, &text(version, target, ANY));
        assert_eq!(found, is_taken, "{target}");
    }
}
