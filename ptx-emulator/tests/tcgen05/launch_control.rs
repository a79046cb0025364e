//! `clusterlaunchcontrol`: blocks that take over the work of blocks that have not started.

use ptx_emulator::{Arch, LaunchConfig, LaunchError, Machine, Options, Parameters};

/// Blocks of the grid along x and y.
const GRID: [u32; 2] = [10, 5];

/// A persistent kernel: adds one to the word of each block whose work it does.
struct Kernel {
    /// What the text has instead of its own.
    changes: &'static [(&'static str, &'static str)],
    cluster: u32,
    multicast: bool,
    seed: u64,
}

const PLAIN: Kernel = Kernel { changes: &[], cluster: 1, multicast: false, seed: 0 };

impl Kernel {
    fn text(&self) -> String {
        let multicast = if self.multicast { ".multicast::cluster::all" } else { "" };
        let mut text = format!(
            ".version 8.6\n.target sm_100a\n.address_size 64\n\
             .visible .entry test(.param .u64 out)\n{{
             .shared .align 16 .b8 response[16]; .shared .align 8 .b64 barrier;
             .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .b128 %q;
             ld.param.u64 %d1, [out];
             mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r9, %cluster_ctaid.x;
             mov.u32 %r5, 0; mov.u32 %r12, %tid.x;
             setp.eq.u32 %p3, %r12, 0;
             @%p3 mbarrier.init.shared.b64 [barrier], 1;
             fence.mbarrier_init.release.cluster;
             barrier.cluster.arrive; barrier.cluster.wait;
             LOOP:
             mad.lo.u32 %r3, %r2, {}, %r1;
             mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d2, %d1;
             @%p3 red.global.add.u32 [%d2], 1;
             barrier.cluster.arrive; barrier.cluster.wait;
             @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 16;
             setp.eq.u32 %p4, %r9, 0; and.pred %p4, %p4, %p3;
             barrier.cluster.arrive; barrier.cluster.wait;
             @%p4 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes\
             {multicast}.b128 [response], [barrier];
             WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [barrier], %r5;
             @!%p1 bra WAIT;
             xor.b32 %r5, %r5, 1;
             ld.shared.b128 %q, [response];
             clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q;
             @!%p2 bra END;
             clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r1, %r2, %r7, _}}, %q;
             clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r8, %q;
             setp.ne.u32 %p5, %r8, %r1; @%p5 trap;
             add.u32 %r1, %r1, %r9;
             bra LOOP;
             END:
             barrier.cluster.arrive; barrier.cluster.wait;
             ret;\n}}\n",
            GRID[0]
        );
        for (from, to) in self.changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        text
    }

    fn run(&self) -> Result<Vec<u32>, LaunchError> {
        let options = Options { seed: self.seed, multiprocessors: 4, ..Options::new(Arch::Sm100a) };
        let mut machine = Machine::with_options(options);
        let module = machine.load(&self.text()).unwrap_or_else(|error| panic!("{error}"));
        let kernel = machine.kernel(module, "test").unwrap();
        let count = (GRID[0] * GRID[1]) as usize;
        let out = machine.upload(&vec![0_u32; count]).unwrap();
        let config = LaunchConfig {
            grid: [GRID[0], GRID[1], 1],
            block: [64, 1, 1],
            cluster: [self.cluster, 1, 1],
            dynamic_shared_bytes: 0,
        };
        machine.launch(kernel, &config, Parameters::new().value(out).as_bytes())?;
        Ok(machine.read_values(out, count).unwrap())
    }

    fn fails(self, part: &str) {
        let error = self.run().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn every_block_is_done_once() {
    for seed in 0..8 {
        for cluster in [1, 2, 5] {
            let multicast = cluster > 1;
            let found = Kernel { cluster, multicast, seed, ..PLAIN }.run().unwrap();
            assert!(found.iter().all(|count| *count == 1), "{cluster} {seed}: {found:?}");
        }
    }
}

/// Without a request every block starts.
#[test]
fn blocks_start_otherwise() {
    let changes = &[
        ("LOOP:", "LOOP: mov.u32 %r10, 1;"),
        ("@%p3 mbarrier.arrive", "bra END;\n@%p3 mbarrier.arrive"),
    ];
    let found = Kernel { changes, ..PLAIN }.run().unwrap();
    assert!(found.iter().all(|count| *count == 1), "{found:?}");
}

#[test]
fn reports() {
    // What a refused request does not have.
    let changes = &[("@!%p2 bra END;", "")];
    Kernel { changes, ..PLAIN }.fails("the first block of a request that was refused");
    // A second request after a refusal.
    let changes = &[("@!%p2 bra END;", "@!%p2 bra LOOP;")];
    Kernel { changes, ..PLAIN }.fails("it must not ask again");
    let changes = &[("ld.shared.b128 %q, [response];", "mov.b128 %q, {%d1, %d2};")];
    Kernel { changes, ..PLAIN }.fails("no response of clusterlaunchcontrol");
    // The response is not waited for.
    let changes = &[("@!%p1 bra WAIT;", "")];
    let error = Kernel { changes, ..PLAIN }.run().unwrap_err().to_string();
    assert!(error.contains("uninitialised") || error.contains("data race"), "{error}");
    let changes = &[("[response], [barrier];", "[response+8], [barrier];")];
    Kernel { changes, ..PLAIN }.fails("not aligned to 16");
    let changes = &[("mbarrier.init.shared.b64 [barrier], 1;", "nanosleep.u32 1;")];
    Kernel { changes, ..PLAIN }.fails("not initialised");
    // Bytes that were not announced come too early for the next phase.
    let changes = &[("[barrier], 16;", "[barrier], 32;")];
    Kernel { changes, ..PLAIN }.fails("deadlock");
}

#[test]
fn targets() {
    let load = |target: &str, multicast| {
        let text = Kernel { multicast, ..PLAIN }.text().replace("sm_100a", target);
        Machine::new(Arch::Sm100a).load(&text).map_err(|error| error.to_string())
    };
    assert!(load("sm_100", false).is_ok());
    assert!(load("sm_100a", true).is_ok());
    let error = load("sm_100", true).unwrap_err();
    assert!(error.contains("is for targets such as sm_100a"), "{error}");
    let error = load("sm_90", false).unwrap_err();
    assert!(error.contains("from sm_100 on"), "{error}");
}
