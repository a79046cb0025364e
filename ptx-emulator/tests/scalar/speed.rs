//! How fast scalar code is executed. Nothing is asserted; run it with
//! `cargo test --package ptx-emulator --test scalar -- --ignored --nocapture`: the workspace's
//! development profile optimises the emulator fully.

use std::time::Instant;

use crate::lanes::{Widths, load};
use ptx_emulator::{Arch, LaunchConfig, Machine};

const WARPS: u32 = 8;
const TURNS: u32 = 20_000;

#[test]
#[ignore = "takes time and asserts nothing"]
fn loops_of_scalar_instructions() {
    // Name, width and the loop's body; the loop itself adds three instructions.
    let bodies: &[(&str, u32, &str)] = &[
        (
            "add, xor, shl and the like of 32 bits",
            32,
            "add.s32 %x, %x, %a; xor.b32 %x, %x, %b; shl.b32 %a, %x, 3; and.b32 %a, %a, %c;
          sub.s32 %b, %x, %a; or.b32 %c, %b, 5; shr.u32 %x, %x, 1; add.s32 %x, %x, 1;",
        ),
        (
            "mul.lo and mad.lo of 32 bits",
            32,
            "mul.lo.s32 %x, %x, %a; mad.lo.s32 %x, %x, %a, %b; mul.lo.s32 %b, %x, 3;
          mad.lo.s32 %a, %x, %a, %b;",
        ),
        (
            "setp and selp of 32 bits",
            32,
            "setp.lt.s32 %p, %x, %a; selp.b32 %x, %b, %c, %p; setp.eq.s32 %q, %x, %c;
          selp.b32 %a, %x, %b, %q;",
        ),
        (
            "add, shl, setp, selp of 64 bits",
            64,
            "add.s64 %x, %x, %a; shl.b64 %a, %x, 1; setp.lt.u64 %p, %a, %b; selp.b64 %b, %a, %x, %p;",
        ),
        ("mul.lo.s64 and mad.lo.s64", 64, "mul.lo.s64 %x, %x, %a; mad.lo.s64 %x, %x, %a, %b;"),
        ("prmt and lop3", 32, "prmt.b32 %x, %x, %a, %b; lop3.b32 %x, %x, %a, %b, 150;"),
        ("div.s32", 32, "or.b32 %b, %b, 1; div.s32 %x, %a, %b;"),
        (
            "guarded add.s32, half of the lanes",
            32,
            "@%s add.s32 %x, %x, %a; @!%s add.s32 %x, %x, %b;",
        ),
    ];
    for (name, bits, body) in bodies {
        let text = format!(
            ".reg .b32 %i; mov.u32 %i, 0; mov.b{bits} %x, 1; and.b32 %t, %t, 1;
             setp.eq.u32 %s, %t, 0;
             again: {body}
             add.u32 %i, %i, 1; setp.lt.u32 %p, %i, {TURNS}; @%p bra again;"
        );
        let mut machine = Machine::new(Arch::Sm90a);
        let kernel =
            load(&mut machine, Widths::all(*bits), &text).unwrap_or_else(|error| panic!("{error}"));
        let threads = WARPS * 32;
        let input = machine.allocate(u64::from(threads) * 32).unwrap();
        let output = machine.allocate(u64::from(threads) * 8).unwrap();
        machine.write(input, &vec![0x35; threads as usize * 32]).unwrap();
        let config = LaunchConfig {
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared_bytes: 0,
        };
        let parameters: Vec<u8> =
            [input, output].iter().flat_map(|own| own.to_le_bytes()).collect();
        let start = Instant::now();
        machine.launch(kernel, &config, &parameters).unwrap_or_else(|error| panic!("{error}"));
        let seconds = start.elapsed().as_secs_f64();
        let instructions = body.matches(';').count() as u64 + 3;
        let executed = u64::from(threads) * u64::from(TURNS) * instructions;
        let nanoseconds = seconds * 1e9 * 32.0 / executed as f64;
        println!(
            "{:8.0} M thread-instructions/s, {nanoseconds:5.1} ns a warp instruction: {name}",
            executed as f64 / seconds / 1e6
        );
    }
}
