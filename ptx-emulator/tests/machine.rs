//! Kernels of a few lines, run from their text.

use ptx_emulator::{Arch, LaunchConfig, Machine};

/// Runs the kernel `test(out)` with blocks of `threads` and returns `words` words of output.
fn run(body: &str, blocks: u32, threads: u32, words: usize) -> Vec<u32> {
    let text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n\
         .visible .entry test(.param .u64 out)\n{{\n{body}\n}}\n"
    );
    let mut machine = Machine::new(Arch::Sm90a);
    let module = machine.load(&text).unwrap_or_else(|error| panic!("{error}"));
    let kernel = machine.kernel(module, "test").unwrap();
    let out = machine.allocate(words as u64 * 4).unwrap();
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared_bytes: 0,
    };
    machine.launch(kernel, &config, &out.to_le_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = vec![0; words * 4];
    machine.read(out, &mut bytes).unwrap();
    bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn a_thread_stores_its_index() {
    let words = run(
        ".reg .b32 %r<4>; .reg .b64 %rd<4>;
         ld.param.u64 %rd1, [out];
         mov.u32 %r1, %tid.x;
         mov.b64 %rd2, {%r1, 0};
         mov.b64 {%r2, %r3}, %rd2;
         st.global.v2.b32 [%rd1], {%r2, 7};
         ret;",
        1,
        1,
        2,
    );
    assert_eq!(words, [0, 7]);
}

#[test]
fn machines_can_go_to_other_threads() {
    fn check<T: Send>() {}
    check::<Machine>();
}
