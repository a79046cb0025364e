//! What threads do together: collectives of a warp, atomics, fences, register claims and the
//! shared memory of other blocks.

mod atomic;
mod collective;
mod fence;
mod misc;
mod rules;

use ptx_emulator::{Arch, Checks, LaunchConfig, LaunchError, Machine, Options};

/// A kernel that stores the word `%x` of every thread, and its launch.
#[derive(Clone, Copy)]
struct Kernel<'a> {
    /// Variables of the module.
    module: &'a str,
    /// Directives of the entry.
    directives: &'a str,
    body: &'a str,
    blocks: u32,
    threads: u32,
    /// Blocks of a cluster.
    cluster: u32,
    seed: u64,
}

/// One block of one warp.
const WARP: Kernel<'static> =
    Kernel { module: "", directives: "", body: "", blocks: 1, threads: 32, cluster: 1, seed: 0 };

impl Kernel<'_> {
    /// The body finds the registers `%p0…`, `%h0…`, `%r0…`, `%d0…`, the thread's index in its
    /// block in `%lane`, and sets `%x`.
    fn text(&self) -> String {
        let Self { module, directives, body, .. } = self;
        format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n{module}\n\
             .visible .entry test(.param .u64 out)\n{directives}\n{{
             .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<16>;
             .reg .b32 %x, %lane, %place; .reg .b64 %out;
             ld.param.u64 %out, [out];
             mov.u32 %lane, %tid.x;
             mov.u32 %x, 0;
             {body}
             mov.u32 %r31, %ctaid.x;
             mov.u32 %r30, %ntid.x;
             mad.lo.u32 %place, %r31, %r30, %lane;
             mad.wide.u32 %d15, %place, 4, %out;
             st.global.b32 [%d15], %x;
             ret;\n}}\n"
        )
    }

    fn try_run(&self) -> Result<Vec<u32>, LaunchError> {
        self.try_run_with(Checks::On)
    }

    fn try_run_with(&self, checks: Checks) -> Result<Vec<u32>, LaunchError> {
        let options = Options { checks, seed: self.seed, ..Options::new(Arch::Sm90a) };
        let mut machine = Machine::with_options(options);
        let module = machine.load(&self.text()).unwrap_or_else(|error| panic!("{error}"));
        let kernel = machine.kernel(module, "test").unwrap();
        let bytes = self.blocks as usize * self.threads as usize * 4;
        let out = machine.allocate(bytes as u64).unwrap();
        let config = LaunchConfig {
            grid: [self.blocks, 1, 1],
            block: [self.threads, 1, 1],
            cluster: [self.cluster, 1, 1],
            dynamic_shared_bytes: 0,
        };
        machine.launch(kernel, &config, &out.to_le_bytes())?;
        let mut result = vec![0; bytes];
        machine.read(out, &mut result).unwrap();
        let words = result.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        Ok(words.collect())
    }

    fn run(&self) -> Vec<u32> {
        self.try_run().unwrap_or_else(|error| panic!("{}\n{error}", self.body))
    }

    /// The launch fails with a report that contains `part`.
    fn fails(&self, part: &str) {
        let error = self.try_run().expect_err(self.body).to_string();
        assert!(error.contains(part), "{}\n{error}", self.body);
    }
}

/// One warp executes a body.
fn warp(body: &str) -> Vec<u32> {
    Kernel { body, ..WARP }.run()
}

/// A module is refused with an error that contains `part`.
fn refused(body: &str, part: &str) {
    let mut machine = Machine::new(Arch::Sm90a);
    let error = machine.load(&Kernel { body, ..WARP }.text()).expect_err(body).to_string();
    assert!(error.contains(part), "{body}\n{error}");
}

/// The words a function of the lane gives.
fn by_lane(of: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(of).collect()
}
