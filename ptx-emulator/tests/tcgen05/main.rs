//! Kernels with tensor memory: what `tcgen05` instructions do, and what is reported of wrong ones.

mod allocation;
mod copies;
mod forms;
mod launch_control;
mod order;
mod products;
mod shifts;
mod targets;
mod transfers;

use ptx_emulator::{Arch, Checks, LaunchConfig, LaunchError, Machine, Options, Parameters};

/// Words that each thread stores.
const WORDS: usize = 128;
/// Bytes of the input that each block finds in its shared memory.
const IMAGE: usize = 16 << 10;

/// A kernel of blocks of four warps, and its launch.
#[derive(Clone)]
struct Kernel<'a> {
    body: &'a str,
    /// Blocks of the grid, all in one cluster.
    blocks: u32,
    threads: u32,
    input: Vec<u8>,
    checks: Checks,
    seed: u64,
}

impl<'a> Kernel<'a> {
    fn new(body: &'a str) -> Self {
        let (input, checks) = (vec![0; IMAGE], Checks::On);
        Self { body, blocks: 1, threads: 128, input, checks, seed: 1 }
    }

    /// The body finds its thread in `%thread`, the warp in `%warp`, the block in `%rank`, a row of
    /// [`WORDS`] words of its own behind `%out`, and the input behind `%input`. There are
    /// mbarriers for one arrival, initialised, at `barriers`, and a word `slot` for an address.
    fn text(&self) -> String {
        format!(
            ".version 8.8\n.target sm_100a\n.address_size 64\n\
             .shared .align 1024 .b8 image[{IMAGE}];\n.shared .align 8 .b64 barriers[8];\n\
             .shared .align 4 .b32 slot;\n\
             .visible .entry test(.param .u64 out, .param .u64 input)\n{{
             .reg .pred %p<8>; .reg .b32 %r<400>; .reg .b64 %d<32>; .reg .b16 %h<4>;
             .reg .b32 %thread, %warp, %rank, %tensor; .reg .b64 %out, %input;
             mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5; mov.u32 %rank, %ctaid.x;
             ld.param.u64 %out, [out]; ld.param.u64 %input, [input];
             mov.u32 %r399, %ntid.x; mad.lo.u32 %r398, %rank, %r399, %thread;
             mul.wide.u32 %d31, %r398, {}; add.u64 %out, %out, %d31;
             setp.ne.u32 %p7, %thread, 0; @%p7 bra READY;
             mbarrier.init.shared.b64 [barriers], 1;
             mbarrier.init.shared.b64 [barriers+8], 1;
             mbarrier.init.shared.b64 [barriers+16], 1;
             fence.mbarrier_init.release.cluster;
             READY:
             bar.sync 0;
             {}
             ret;\n}}\n",
            4 * WORDS,
            self.body
        )
    }

    fn try_run(&self) -> Result<Vec<u32>, LaunchError> {
        let options =
            Options { checks: self.checks, seed: self.seed, ..Options::new(Arch::Sm100a) };
        let mut machine = Machine::with_options(options);
        let module = machine.load(&self.text()).unwrap_or_else(|error| panic!("{error}"));
        let kernel = machine.kernel(module, "test").unwrap();
        let count = self.blocks as usize * self.threads as usize * WORDS;
        let out = machine.upload(&vec![0_u32; count]).unwrap();
        let input = machine.upload(&self.input).unwrap();
        let config = LaunchConfig {
            grid: [self.blocks, 1, 1],
            block: [self.threads, 1, 1],
            cluster: [self.blocks, 1, 1],
            dynamic_shared_bytes: 0,
        };
        machine.launch(kernel, &config, Parameters::new().value(out).value(input).as_bytes())?;
        Ok(machine.read_values(out, count).unwrap())
    }

    fn run(&self) -> Vec<u32> {
        self.try_run().unwrap_or_else(|error| panic!("{error}\n{}", self.body))
    }

    /// The launch ends well under several seeds.
    fn passes(&self) {
        for seed in 0..6 {
            Kernel { seed, ..self.clone() }.run();
        }
    }

    /// The launch fails with a report that contains `part`, whatever the seed.
    fn fails(&self, part: &str) {
        for seed in 0..6 {
            let result = Kernel { seed, ..self.clone() }.try_run();
            let Err(error) = result else { panic!("seed {seed}, not {part}\n{}", self.body) };
            let error = error.to_string();
            assert!(error.contains(part), "seed {seed}: {error}\n{}", self.body);
        }
    }
}

/// Warp 0 allocates so many columns; their address is in `%tensor` for all.
fn allocate(columns: u32) -> String {
    format!(
        "setp.ne.u32 %p6, %warp, 0; @%p6 bra ALLOCATED;
         tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {columns};
         tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
         ALLOCATED: bar.sync 0;
         ld.shared.u32 %tensor, [slot];\n"
    )
}

/// Warp 0 gives them back when all threads have come.
fn free(columns: u32) -> String {
    format!(
        "bar.sync 0; setp.ne.u32 %p6, %warp, 0; @%p6 bra FREED;
         tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tensor, {columns};
         FREED:\n"
    )
}

/// All threads wait for the first phase of an mbarrier.
fn wait(barrier: u32) -> String {
    format!(
        "WAIT{barrier}: mbarrier.try_wait.parity.shared::cta.b64 %p5, [barriers+{}], 0;
         @!%p5 bra WAIT{barrier};\n",
        8 * barrier
    )
}

/// Registers `%r` from one on, in braces.
fn registers(first: usize, count: usize) -> String {
    let list: Vec<String> = (first..first + count).map(|index| format!("%r{index}")).collect();
    format!("{{{}}}", list.join(", "))
}

/// Stores registers to the thread's row.
fn store(first: usize, count: usize) -> String {
    (0..count).map(|at| format!("st.global.b32 [%out+{}], %r{};\n", 4 * at, first + at)).collect()
}

/// Every thread writes its lane times 2¹⁶ plus the column into all columns of its lane.
fn fill(columns: usize) -> String {
    let mut text = "shl.b32 %r300, %thread, 16;\n".to_owned();
    for first in (0..columns).step_by(32) {
        for at in 0..32 {
            text += &format!("add.u32 %r{at}, %r300, {};\n", first + at);
        }
        let list = registers(0, 32);
        text += &format!("tcgen05.st.sync.aligned.32x32b.x32.b32 [%tensor+{first}], {list};\n");
    }
    text + "tcgen05.wait::st.sync.aligned;\n"
}
