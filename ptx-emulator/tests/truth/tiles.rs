//! Tiles of 8 × 8 between shared memory and the registers of a warp.

use crate::cases::{Case, Text, case, random_bytes};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (count, name) in [(1, "x1"), (2, "x2"), (4, "x4")] {
        for transposed in ["", ".trans"] {
            load(&mut cases, count, name, transposed);
            store(&mut cases, count, name, transposed);
        }
    }
    let body = "    mad.lo.u64 %d1, %wide, 4, %input;
    ld.global.b32 %r3, [%d1];
    movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r3;
    mad.lo.u64 %d1, %wide, 4, %output;
    st.global.b32 [%d1], %r4;";
    let text = Text { body, ..Text::default() };
    let name = "tiles/movmatrix.sync.aligned.m8n8.trans.b16";
    cases.push(case(name, &text, random_bytes(name, 128), 128));
    cases
}

/// Lane l gives row (11 × l + 3) mod 32, so that the tiles are scattered.
const ROW: &str = "    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %thread, 11, 3;
    and.b32 %r4, %r4, 31;
    mad.lo.u32 %r4, %r4, 16, %r3;
";

fn registers(count: usize) -> String {
    let names: Vec<_> = (0..count).map(|at| format!("%r{}", at + 10)).collect();
    format!("{{{}}}", names.join(", "))
}

fn load(cases: &mut Vec<Case>, count: usize, tiles: &str, transposed: &str) {
    let form = format!("ldmatrix.sync.aligned.m8n8.{tiles}{transposed}.shared.b16");
    let stores: String = (0..count)
        .map(|at| format!("    st.global.b32 [%d2+{}], %r{};\n", at * 128, at + 10))
        .collect();
    let body = format!(
        "    .shared .align 128 .b8 tile[512];
{ROW}    mad.lo.u64 %d1, %wide, 16, %input;
    ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%d1];
    mad.lo.u32 %r9, %thread, 16, %r3;
    st.shared.v4.b32 [%r9], {{%r5, %r6, %r7, %r8}};
    bar.sync 0;
    {form} {}, [%r4];
    mad.lo.u64 %d2, %wide, 4, %output;
{stores}",
        registers(count)
    );
    let text = Text { body: &body, ..Text::default() };
    let name = format!("tiles/{form}");
    cases.push(case(&name, &text, random_bytes(&name, 512), 128 * count));
}

fn store(cases: &mut Vec<Case>, count: usize, tiles: &str, transposed: &str) {
    let form = format!("stmatrix.sync.aligned.m8n8.{tiles}{transposed}.shared.b16");
    let loads: String = (0..count)
        .map(|at| format!("    ld.global.b32 %r{}, [%d1+{}];\n", at + 10, at * 128))
        .collect();
    let body = format!(
        "    .shared .align 128 .b8 tile[512];
{ROW}    mad.lo.u64 %d1, %wide, 4, %input;
{loads}    mad.lo.u32 %r9, %thread, 16, %r3;
    st.shared.v4.b32 [%r9], {{1, 2, 3, 4}};
    bar.sync 0;
    {form} [%r4], {};
    bar.sync 0;
    ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r9];
    mad.lo.u64 %d2, %wide, 16, %output;
    st.global.v4.b32 [%d2], {{%r5, %r6, %r7, %r8}};",
        registers(count)
    );
    let text = Text { body: &body, ..Text::default() };
    let name = format!("tiles/{form}");
    cases.push(case(&name, &text, random_bytes(&name, 512), 512));
}
