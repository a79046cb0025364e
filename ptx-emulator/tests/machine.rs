//! Kernels of a few lines, run from their text: what they store, and what is reported of them.

use ptx_emulator::{
    Arch, LaunchConfig, LaunchError, Machine, MemoryError, Options, ReportKind, Statistics,
};

/// A module with the kernel `test(out)`, and functions before it.
fn module(functions: &str, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n{functions}\n\
         .visible .entry test(.param .u64 out)\n{{\n\
         .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<4>; .shared .align 8 .b8 shared[64];\n\
         ld.param.u64 %rd1, [out];\n{body}\nret;\n}}\n"
    )
}

/// Runs a module's kernel with one block of `threads` and returns eight words of output.
fn launch(text: &str, threads: u32, seed: u64) -> Result<([u32; 8], Statistics), LaunchError> {
    let mut options = Options::new(Arch::Sm90a);
    (options.seed, options.instruction_limit) = (seed, 10_000);
    let mut machine = Machine::with_options(options);
    let module = machine.load(text).unwrap_or_else(|error| panic!("{error}"));
    let kernel = machine.kernel(module, "test").unwrap();
    let out = machine.allocate(32).unwrap();
    let (block, cluster) = ([threads, 1, 1], [1, 1, 1]);
    let config = LaunchConfig { grid: [1, 1, 1], block, cluster, dynamic_shared_bytes: 0 };
    let statistics = machine.launch(kernel, &config, &out.to_le_bytes())?;
    let mut bytes = [0; 32];
    machine.read(out, &mut bytes).unwrap();
    let words = std::array::from_fn(|word| {
        u32::from_le_bytes(bytes[4 * word..4 * word + 4].try_into().unwrap())
    });
    Ok((words, statistics))
}

#[test]
fn kernels_store_what_they_should() {
    const DOUBLE: &str = ".func (.param .b64 pair) twice(.param .b32 value)
        {
            .reg .b32 %r<2>; .reg .b64 %rd<2>;
            ld.param.b32 %r1, [value];
            mov.b64 %rd1, {%r1, %r1};
            st.param.b64 [pair], %rd1;
            ret;
        }";
    // Functions, body, threads, and the first words of the output.
    let table: &[(&str, &str, u32, &[u32])] = &[
        ("", "mov.u32 %r1, %ntid.x; st.global.v2.b32 [%rd1], {%r1, 7};", 1, &[1, 7]),
        (
            "",
            "mov.b32 %r1, 0x8001FFFE; st.global.b16 [%rd1], %r1; mov.b32 %r2, {1, 2};
              ld.global.s16 %r3, [%rd1]; st.global.v2.b32 [%rd1], {%r2, %r3};",
            1,
            &[0x2_0001, 0xFFFF_FFFE],
        ),
        // Generic addresses of shared memory.
        (
            "",
            "mov.u64 %rd2, shared; cvta.shared.u64 %rd3, %rd2; st.b32 [%rd3+8], 5;
              ld.shared.b32 %r1, [shared+8]; st.global.b32 [%rd1], %r1;",
            1,
            &[5],
        ),
        (
            DOUBLE,
            "{ .param .b32 a; .param .b64 r; st.param.b32 [a], 9;
              call.uni (r), twice, (a); ld.param.b64 %rd2, [r]; }
              st.global.b64 [%rd1], %rd2;",
            1,
            &[9, 9],
        ),
        // The lanes part at the branch and store one word each.
        (
            "",
            "mov.u32 %r1, %tid.x; list: .branchtargets $a, $b, $a;
              brx.idx %r1, list;
              $a: st.global.b32 [%rd1], 1; bra $end;
              $b: st.global.b32 [%rd1+4], 2;
              $end: bar.warp.sync 7;
              mov.u32 %r2, %laneid; st.shared.b32 [shared], 3;
              ld.global.b32 %r3, [%rd1+4]; st.global.b32 [%rd1+8], %r3;",
            3,
            &[1, 2, 2],
        ),
        // What one warp wrote, the other reads behind the barrier.
        (
            "",
            "mov.u32 %r1, %warpid; list: .branchtargets $a, $b;
              brx.idx %r1, list;
              $a: st.shared.b32 [shared], 11; bar.sync 0; bra $end;
              $b: bar.sync 0; ld.shared.b32 %r2, [shared]; st.global.b32 [%rd1], %r2;
              $end:",
            64,
            &[11],
        ),
        // Both warps store the same to the same place, which does no harm.
        (
            "",
            "st.shared.v2.b32 [shared+8], {6, 7}; bar.sync 0;
              ld.shared.v2.b32 {%r1, %r2}, [shared+8];
              mov.u32 %r3, %tid.x; setp.eq.u32 %p1, %r3, 40;
              @%p1 st.global.v2.b32 [%rd1], {%r1, %r2};",
            64,
            &[6, 7],
        ),
    ];
    for (functions, body, threads, expected) in table {
        for seed in 0..5 {
            let (words, _) = launch(&module(functions, body), *threads, seed)
                .unwrap_or_else(|error| panic!("{body}\n{error}"));
            assert_eq!(&words[..expected.len()], *expected, "{body}");
        }
    }
}

#[test]
fn executions_are_counted() {
    let text = module("", "ld.global.b32 %r1, [%rd1]; bar.sync 0;");
    let (_, statistics) = launch(&text, 40, 0).unwrap();
    let loads = statistics.instructions["ld.global.b32"];
    assert_eq!((loads.warps, loads.threads), (2, 40));
    assert_eq!(statistics.instructions["bar.sync"].warps, 2);
    assert_eq!(statistics.global_bytes, 160);
}

#[test]
fn faults_are_reported_where_they_are() {
    // Body, threads, a word of the report's kind, and a word of its text.
    let table: &[(&str, u32, &str, &str)] = &[
        ("st.global.b32 [%rd1+32], 1;", 1, "OutOfBounds", "32 before"),
        ("ld.global.b64 %rd2, [%rd1+4];", 1, "Misaligned", "not aligned to 8 bytes"),
        ("ld.shared.b32 %r1, [shared];", 1, "Uninitialised", "nobody has written"),
        ("st.shared.b32 [shared+64], 1;", 1, "OutOfBounds", "shared memory"),
        ("mov.u32 %r1, %tid.x; st.global.b32 [%rd1], %r1;", 2, "Race", "global memory"),
        ("mov.u32 %r1, %warpid; st.shared.b32 [shared], %r1;", 64, "Race", "shared memory"),
        ("mov.u32 %r1, %warpid; st.shared.v2.b32 [shared], {6, %r1};", 64, "Race", "shared memory"),
        ("bar.sync 1, 96;", 64, "Deadlock", "barrier 1: 64 of 96 threads"),
        ("bar.sync 1, 32;", 64, "Synchronisation", ""),
        ("bar.sync 1, 33;", 32, "Synchronisation", "multiple of 32"),
        ("bar.sync 17;", 32, "Operand", "barrier 17"),
        ("trap;", 1, "Trap", "trap"),
        ("$again: bra $again;", 1, "InstructionLimit", "has not ended"),
        ("barrier.cluster.wait;", 1, "Synchronisation", "without having arrived"),
        ("mov.b64 %rd2, 64; st.local.b32 [%rd2], 1;", 1, "OutOfBounds", "local memory"),
    ];
    for (body, threads, kind, words) in table {
        if words.is_empty() {
            // Two warps use the barrier one after the other, which is right.
            launch(&module("", body), *threads, 0).unwrap();
            continue;
        }
        for seed in 0..5 {
            let error = launch(&module("", body), *threads, seed).unwrap_err();
            let report = error.report().unwrap_or_else(|| panic!("{body}: {error}"));
            assert!(format!("{:?}", report.kind()).starts_with(kind), "{body}: {report}");
            assert!(report.to_string().contains(words), "{body}: {report}");
            let whole = matches!(
                report.kind(),
                ReportKind::Deadlock(_) | ReportKind::InstructionLimit { .. }
            );
            assert_eq!(report.place().map(|place| place.line), (!whole).then_some(9), "{report}");
        }
    }
}

#[test]
fn unknown_instructions_are_refused_at_load() {
    let mut machine = Machine::new(Arch::Sm90a);
    let error = machine.load(&module("", "frobnicate.b32 %r1, %r2;")).unwrap_err();
    assert!(error.is_unsupported());
    assert_eq!(error.line(), Some(9));
    assert!(error.to_string().contains("`frobnicate`"), "{error}");
    let error = machine.load(&module("", "ld.global.loudly.b32 %r1, [%rd1];")).unwrap_err();
    assert!(error.to_string().contains("`.loudly`"), "{error}");
    let other = module("", "").replace("sm_90a", "sm_100a");
    assert!(machine.load(&other).unwrap_err().to_string().contains("sm_100a"));
}

#[test]
fn impossible_launches_are_refused() {
    let mut machine = Machine::new(Arch::Sm90a);
    let module = machine.load(&module("", "")).unwrap();
    let kernel = machine.kernel(module, "test").unwrap();
    let right = LaunchConfig {
        grid: [2, 1, 1],
        block: [32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    assert!(machine.launch(kernel, &right, &[0; 8]).is_ok());
    let table = [
        (LaunchConfig { grid: [0, 1, 1], ..right }, 8, "grid"),
        (LaunchConfig { block: [1025, 1, 1], ..right }, 8, "1025"),
        (LaunchConfig { cluster: [3, 1, 1], ..right }, 8, "no multiple"),
        (LaunchConfig { cluster: [17, 1, 1], ..right }, 8, "cluster"),
        (LaunchConfig { dynamic_shared_bytes: 1 << 18, ..right }, 8, "dynamic"),
        (right, 4, "4 bytes of parameters"),
    ];
    for (config, bytes, words) in table {
        let error = machine.launch(kernel, &config, &vec![0; bytes]).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    machine.unload(module).unwrap();
    assert_eq!(machine.launch(kernel, &right, &[0; 8]), Err(LaunchError::UnknownKernel));
}

#[test]
fn a_module_without_variables_is_loaded_once_for_all_machines() {
    let launch = |machine: &mut Machine, module| {
        let kernel = machine.kernel(module, "test").unwrap();
        let out = machine.allocate(4).unwrap();
        let ones = [1; 3];
        let config =
            LaunchConfig { grid: ones, block: ones, cluster: ones, dynamic_shared_bytes: 0 };
        machine.launch(kernel, &config, &out.to_le_bytes()).unwrap();
        machine.read_values::<u32>(out, 1).unwrap()
    };
    let body = "mov.b32 %r1, 7; st.shared.b32 [shared+4], %r1; st.global.b32 [%rd1], %r1;";
    let mut first = Machine::new(Arch::Sm90a);
    let own = first.load(&module("", body)).unwrap();
    let shared = first.share(own).unwrap();
    assert_eq!(launch(&mut first, own), [7]);
    // It outlives the machine that has loaded it.
    first.unload(own).unwrap();
    assert!(first.share(own).is_none());
    drop(first);
    let copy = shared.clone();
    let found = std::thread::spawn(move || {
        let mut second = Machine::new(Arch::Sm90a);
        let own = second.load_shared(&copy).unwrap();
        launch(&mut second, own)
    });
    assert_eq!(found.join().unwrap(), [7]);
    let refused = Machine::new(Arch::Sm100a).load_shared(&shared).unwrap_err();
    assert!(refused.to_string().contains("sm_90a"), "{refused}");

    for variable in [".global .b32 variable;", ".const .b32 variable = 7;"] {
        let mut machine = Machine::new(Arch::Sm90a);
        let own = machine.load(&module(variable, "")).unwrap();
        assert!(machine.share(own).is_none(), "{variable}");
    }
}

#[test]
fn machines_can_go_to_other_threads() {
    fn check<T: Send>() {}
    check::<Machine>();
}

#[test]
fn memory_runs_out_where_the_options_say() {
    let options = Options { memory_bytes: 1000, ..Options::new(Arch::Sm90a) };
    let mut machine = Machine::with_options(options);
    let first = machine.allocate(600).unwrap();
    let error = machine.allocate(401).unwrap_err();
    let (requested, available, capacity) = (401, 400, 1000);
    assert_eq!(error, MemoryError::OutOfMemory { requested, available, capacity });
    assert_eq!(error.to_string(), "401 bytes cannot be allocated: 400 of 1000 bytes are free");
    machine.allocate(400).unwrap();
    machine.free(first).unwrap();
    machine.allocate(600).unwrap();
}
