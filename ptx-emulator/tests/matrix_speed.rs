//! How fast matrix instructions are executed. Nothing is asserted; run it with
//! `cargo test --package ptx-emulator --test matrix_speed -- --ignored --nocapture`: the
//! workspace's development profile optimises the emulator fully.

use ptx_emulator::{Arch, LaunchConfig, Machine};

/// Every thread fills its part of shared memory with the bytes of small numbers, of any format.
const FILL: &str = "mov.u32 %r1, memory; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 16, %r1;
    mov.u32 %r4, 0; mov.u32 %r5, 0x3C203830;
    fill: st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5}; add.u32 %r3, %r3, 2048;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 32; @%p1 bra fill;
    fence.proxy.async; bar.sync 0;";

/// Fragments and accumulators of small numbers.
fn registers(letter: char, count: usize, value: &str) -> String {
    let moves: String = (0..count).map(|at| format!("mov.b32 %{letter}{at}, {value};")).collect();
    format!(".reg .b32 %{letter}<{count}>; {moves}")
}

fn list(letter: char, count: usize) -> String {
    let names: Vec<_> = (0..count).map(|at| format!("%{letter}{at}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// A step of 64 of bf16, or 128 of fp8: four products from tiles in 128-byte swizzle.
fn wgmma(n: usize, k: usize, types: &str, tail: &str) -> (String, String) {
    let d = list('d', n / 2);
    let mut step = "wgmma.fence.sync.aligned;".to_owned();
    for slice in 0..4 {
        step += &format!(
            "add.s64 %rd3, %rd1, {offset}; add.s64 %rd4, %rd2, {offset};
             wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {d}, %rd3, %rd4, 1, 1, 1{tail};",
            offset = 2 * slice
        );
    }
    step += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";
    let descriptors = "shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1;
        or.b64 %rd1, %rd1, 0x4000004000010000; add.s64 %rd2, %rd1, 1024;";
    let before = format!("{FILL} {descriptors} {}", registers('d', n / 2, "0f00000000"));
    (before, step)
}

fn mma(k: usize, a: usize, types: &str) -> (String, String) {
    let before = registers('a', a, "0x38203C30")
        + &registers('b', a / 2, "0x38203C30")
        + &registers('d', 4, "0f00000000");
    let (a, b, d) = (list('a', a), list('b', a / 2), list('d', 4));
    (before, format!("mma.sync.aligned.m16n8k{k}.row.col.{types} {d}, {a}, {b}, {d};"))
}

/// Seconds this thread has had a processor, which other work on the machine does not change.
fn processor_seconds() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = times.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    nanoseconds.expect("the system says how long a thread has run") as f64 / 1e9
}

#[test]
#[ignore = "takes time and asserts nothing"]
fn loops_of_matrix_instructions() {
    let both = ", 0, 0";
    // Name, text before the loop and in it, multiply-adds of a step, warps that share a step,
    // turns.
    let cases = [
        ("wgmma m64n128k16 bf16", wgmma(128, 16, "f32.bf16.bf16", both), 64 * 128 * 64, 4, 400),
        ("wgmma m64n256k16 bf16", wgmma(256, 16, "f32.bf16.bf16", both), 64 * 256 * 64, 4, 200),
        ("wgmma m64n256k16 f16", wgmma(256, 16, "f32.f16.f16", both), 64 * 256 * 64, 4, 200),
        ("wgmma m64n128k32 e4m3", wgmma(128, 32, "f32.e4m3.e4m3", ""), 64 * 128 * 128, 4, 200),
        ("wgmma m64n256k32 e5m2", wgmma(256, 32, "f32.e5m2.e4m3", ""), 64 * 256 * 128, 4, 100),
        ("mma m16n8k16 bf16", mma(16, 4, "f32.bf16.bf16.f32"), 16 * 8 * 16, 1, 20_000),
        ("mma m16n8k32 e4m3", mma(32, 4, "f32.e4m3.e4m3.f32"), 16 * 8 * 32, 1, 10_000),
    ];
    for (name, (before, step), products, warps, turns) in cases {
        let text = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n\
             .visible .entry test(.param .u64 out)\n{{\n\
             .shared .align 1024 .b8 memory[65536]; .reg .pred %p<4>; .reg .b32 %i;
             .reg .b32 %r<8>; .reg .b64 %rd<8>;
             {before}
             mov.u32 %i, 0;
             again: {step}
             add.u32 %i, %i, 1; setp.lt.u32 %p1, %i, {turns}; @%p1 bra again;
             ret;\n}}\n"
        );
        let mut machine = Machine::new(Arch::Sm90a);
        let module = machine.load(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let kernel = machine.kernel(module, "test").unwrap();
        let config = LaunchConfig {
            grid: [1; 3],
            block: [128, 1, 1],
            cluster: [1; 3],
            dynamic_shared_bytes: 0,
        };
        let start = processor_seconds();
        machine.launch(kernel, &config, &[0; 8]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let seconds = processor_seconds() - start;
        let done = (products * turns * 4 / warps) as f64;
        println!("{:6.2} G multiply-adds/s: {name}", done / seconds / 1e9);
    }
}
