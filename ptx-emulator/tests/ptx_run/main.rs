//! `ptx-run` over small PTX files: what it prints, and its exit codes.

use std::path::{Path, PathBuf};
use std::process::Command;

const KERNELS: &str = include_str!("kernels.ptx");

/// A description that is right in every part; cases change it.
const ADD: &str = r#"
ptx = "kernel.ptx"
seed = 3

[[buffer]]
name = "in"
dtype = "f32"
init = { values = [1, 2.5, "0x40400000", nan] }

[[buffer]]
name = "out"
dtype = "f32"
count = 8
init = "zeros"

[[launch]]
kernel = "add"
grid = 1
block = [32, 1]
parameters = [
    { value = 4, dtype = "u32" },
    { buffer = "in" },
    { buffer = "out", offset = 4 },
    { value = 0.5, dtype = "f32" },
]

[[print]]
buffer = "out"
columns = 5

[[expect]]
buffer = "out"
values = [0, 1.5, 3, 3.5, nan, 0, 0, 0]
"#;

/// A launch of `kernel` over one buffer of words.
fn over_words(kernel: &str, threads: u32, rest: &str) -> String {
    format!(
        "ptx = 'kernel.ptx'\n\
         [[buffer]]\nname = 'out'\ndtype = 'u32'\ncount = 16\ninit = 'zeros'\n\
         [[launch]]\nkernel = '{kernel}'\ngrid = 1\nblock = {threads}\n\
         parameters = [{{ buffer = 'out' }}]\n{rest}\n"
    )
}

/// A folder of its own for a case, with its files.
fn folder(case: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptx-run").join(case);
    std::fs::create_dir_all(&folder).unwrap();
    for (name, contents) in files {
        std::fs::write(folder.join(name), contents).unwrap();
    }
    folder
}

/// Runs the program; returns its exit code, what it printed, and its errors.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptx-run"));
    let output = command.arg("run.toml").args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Runs a description; the texts must all be in what is printed, or in the errors.
fn check(
    (name, description): (&str, &str),
    ptx: &str,
    arguments: &[&str],
    code: i32,
    printed: &[&str],
    errors: &[&str],
) {
    let files = [("kernel.ptx", ptx.as_bytes()), ("run.toml", description.as_bytes())];
    let (found, output, messages) = run(&folder(name, &files), arguments);
    let context = format!("case {name}, exit code {found}\n{output}\n{messages}");
    assert_eq!(found, code, "{context}");
    for text in printed {
        assert!(output.contains(text), "`{text}` is not printed by {context}");
    }
    for text in errors {
        assert!(messages.contains(text), "`{text}` is no error of {context}");
    }
    assert_eq!(messages.is_empty(), errors.is_empty(), "{context}");
}

/// A description with one part replaced.
fn with(from: &str, to: &str) -> String {
    assert!(ADD.contains(from), "{from}");
    ADD.replacen(from, to, 1)
}

#[test]
fn a_right_description_runs() {
    check(
        ("right", ADD),
        KERNELS,
        &[],
        0,
        &["out, f32:", "0: 0 1.5 3 3.5 NaN\n", "5: 0 0 0\n"],
        &[],
    );
    let statistics = ["launch 1, `add`:", "ld.global.f32", "in all", "bytes of global memory"];
    check(("statistics", ADD), KERNELS, &["--statistics"], 0, &statistics, &[]);
    check(("seeds", ADD), KERNELS, &["--seeds", "5"], 0, &["5 of 5 seeds ended well"], &[]);
    check(("plain", ADD), KERNELS, &["--no-checks"], 0, &["NaN"], &[]);
}

#[test]
fn wrong_descriptions_say_where() {
    // What is replaced by what, and what the error says.
    let table: &[(&str, &str, &[&str])] = &[
        ("seed = 3", "sed = 3", &["line 3", "unknown field `sed`"]),
        ("seed = 3", "seed = ", &["line 3"]),
        ("count = 8", "count = -8", &["line 13"]),
        ("dtype = \"f32\"\ncount", "dtype = \"f31\"\ncount", &["line 12", "f31"]),
        ("count = 8\n", "", &["line 11", "`out` needs a `count`"]),
        ("name = \"out\"", "name = \"in\"", &["line 11", "two buffers"]),
        ("kernel = \"add\"", "kernel = \"sub\"", &["line 17", "no kernel `sub`", "add, race"]),
        ("block = [32, 1]", "block = [32, 32, 2]", &["line 17", "at most 1024"]),
        ("block = [32, 1]", "block = [1, 1, 1, 1]", &["line 19", "one to three"]),
        ("    { buffer = \"in\" },\n", "", &["line 17", "3 parameters", "count, in, out, amount"]),
        ("{ buffer = \"in\" }", "{ buffer = \"inn\" }", &["line 22", "no buffer", "`inn`"]),
        ("{ value = 4, dtype = \"u32\" }", "{ value = 4 }", &["line 21", "dtype"]),
        ("value = 4, dtype = \"u32\"", "value = 4, dtype = \"u64\"", &["line 21", "`count` has 4"]),
        ("value = 4,", "value = 4.5,", &["line 21", "4.5 is no u32"]),
        ("value = 4,", "value = 4, buffer = \"in\",", &["line 21", "one of"]),
        ("value = 4, dtype = \"u32\"", "bytes = \"04 00 00 0\"", &["line 21", "no bytes"]),
        ("init = \"zeros\"", "init = { file = \"none.bin\" }", &["none.bin"]),
        (
            "init = \"zeros\"",
            "init = { values = [1, 2, 3, 4, 5, 6, 7, 8, 9] }",
            &["9 values for 8"],
        ),
        ("init = \"zeros\"", "symbol = \"zeros\"", &["line 14", "no variable `zeros`"]),
        ("columns = 5", "range = [4, 9]", &["line 28", "8 elements"]),
        ("values = [0, 1.5", "equals = \"in\"\nvalues = [0, 1.5", &["line 32", "one of"]),
        ("ptx = \"kernel.ptx\"", "ptx = \"none.ptx\"", &["none.ptx"]),
        ("ptx = \"kernel.ptx\"", "", &["--ptx"]),
        ("seed = 3", "arch = \"sm_90\"", &["line 3", "unknown architecture `sm_90`"]),
    ];
    for (number, (from, to, errors)) in table.iter().enumerate() {
        check((&format!("wrong-{number}"), &with(from, to)), KERNELS, &[], 2, &[], errors);
    }
    let (code, _, errors) = run(&folder("nothing", &[]), &["--seeds", "0"]);
    assert_eq!(code, 2, "{errors}");
    let (code, _, errors) = run(&folder("missing", &[]), &[]);
    assert!(code == 2 && errors.contains("run.toml"), "{errors}");
}

#[test]
fn expectations_that_do_not_hold_are_listed() {
    let wrong = with("3.5, nan", "3.25, 7");
    let errors = ["line 32: 2 of 8 elements of `out`", "element 3 is 3.5, expected 3.25", "is NaN"];
    check(("unexpected", &wrong), KERNELS, &[], 1, &["3.5 NaN"], &errors);
    let tolerant = with("3.5, nan", "3.25, nan") + "absolute = 0.25";
    check(("tolerant", &tolerant), KERNELS, &[], 0, &[], &[]);
    let strict = with("3.5, nan", "3.25, nan") + "relative = 0.076";
    check(("strict", &strict), KERNELS, &[], 1, &[], &["1 of 8"]);
    // A part of a buffer, and another buffer.
    let parts = with("values = [0, 1.5, 3, 3.5, nan, 0, 0, 0]", "range = [5, 8]\nvalues = [0]")
        + "[[expect]]\nbuffer = 'out'\nrange = [1, 5]\nequals = 'in'\nabsolute = 0.5\n";
    check(("parts", &parts), KERNELS, &[], 0, &[], &[]);
}

#[test]
fn ptx_that_cannot_be_loaded_is_shown() {
    let broken = KERNELS.replacen("mov.u32 %r1, %tid.x;", "mov.u32 %r1 %tid.x;", 1);
    check(("parse", ADD), &broken, &[], 3, &[], &["kernel.ptx: line 12, column 17: expected"]);
    let unknown = KERNELS.replacen("add.rn.f32", "frobnicate", 1);
    check(("unknown", ADD), &unknown, &[], 3, &[], &["line 23: ", "`frobnicate`"]);
    let bulk = "mov.u32 %r1, %tid.x; st.bulk.weak.shared::cta [%r1], 64, 0;";
    let bulk = KERNELS.replacen("mov.u32 %r1, %tid.x;", bulk, 1);
    check(("bulk", ADD), &bulk, &[], 3, &[], &["`st.bulk` is not emulated"]);
    let other = KERNELS.replacen("sm_90a", "sm_120a", 1);
    check(("target", ADD), &other, &[], 3, &[], &["sm_120a", "sm_90a and sm_100a are emulated"]);
    let newer = KERNELS.replacen("sm_90a", "sm_100a", 1);
    let older = format!("arch = 'sm_90a'\n{ADD}");
    check(("newer", &older), &newer, &[], 3, &[], &["the machine is sm_90a; sm_100a runs it"]);
    // What the command line names is run instead.
    let folder =
        folder("other", &[("run.toml", ADD.as_bytes()), ("other.ptx", KERNELS.as_bytes())]);
    assert_eq!(run(&folder, &["--ptx", "other.ptx"]).0, 0);
}

#[test]
fn reports_are_printed_whole() {
    let race = over_words("race", 64, "");
    let errors = ["kernel `race`: data race in global memory", "block (0, 0, 0)", "PTX line 34"];
    check(("race", &race), KERNELS, &[], 4, &[], &errors);
    check(("unchecked", &race), KERNELS, &["--no-checks"], 0, &[], &[]);
    let bounds = with("{ buffer = \"out\", offset = 4 }", "{ buffer = \"out\", offset = 20 }");
    check(("bounds", &bounds), KERNELS, &[], 4, &[], &["out of bounds", "thread (3, 0, 0)"]);
    let endless = "ptx = 'kernel.ptx'\n[[launch]]\nkernel = 'endless'\ngrid = 1\nblock = 32\n";
    let limit = ["--instruction-limit", "500"];
    check(("endless", endless), KERNELS, &limit, 4, &[], &["500 warp instructions"]);
    // With several seeds each one that fails is named, and how many did.
    let seeds = ["--seeds", "3", "--seed", "7"];
    let printed = ["0 of 3 seeds ended well"];
    check(("seeded", &race), KERNELS, &seeds, 4, &printed, &["seed 7: ", "seed 9: kernel `race`"]);
}

#[test]
fn what_depends_on_the_order_is_seen_under_several_seeds() {
    let last = over_words("last", 64, "");
    let printed = ["buffer `out` ends otherwise than under seed 0", "16 of 16 seeds"];
    check(("order", &last), KERNELS, &["--seeds", "16"], 0, &printed, &[]);
    let expecting =
        over_words("last", 64, "[[expect]]\nbuffer = 'out'\nrange = [0, 1]\nvalues = [1]");
    check(
        ("expected", &expecting),
        KERNELS,
        &["--seeds", "16"],
        1,
        &[],
        &["element 0 is 0, expected 1"],
    );
}

#[test]
fn buffers_hold_what_is_described() {
    let description = r#"
ptx = "kernel.ptx"
[[buffer]]
name = "file"
dtype = "u16"
init = { file = "in.bin" }
[[buffer]]
name = "sequence"
dtype = "i32"
count = 5
init = { sequence = { start = -2, step = 2 } }
[[buffer]]
name = "filled"
dtype = "u32"
count = 2
init = { fill = 0x11 }
[[buffer]]
name = "new"
dtype = "u8"
count = 3
[[buffer]]
name = "again"
dtype = "e4m3"
count = 5
init = { values = [1, -1.5] }
[[buffer]]
name = "table"
dtype = "u64"
init = { addresses = [{ buffer = "file" }, { buffer = "sequence", offset = 16 }] }
[[buffer]]
name = "total"
symbol = "total"
dtype = "u32"
init = { values = [1000] }
[[buffer]]
name = "weights"
symbol = "weights"
dtype = "u32"
[[buffer]]
name = "bits"
dtype = "u64"
count = 2
init = { random = { distribution = "bits", seed = 1 } }
[[buffer]]
name = "uniform"
dtype = "f32"
count = 1000
init = { random = { distribution = "uniform", low = 2, high = 4 } }
[[buffer]]
name = "integers"
dtype = "i8"
count = 1000
init = { random = { distribution = "integers", low = -3, high = 3 } }
[[buffer]]
name = "normal"
dtype = "f64"
count = 1000
init = { random = { distribution = "normal", mean = 5, deviation = 0.5 } }
# Twice, so that the sum shows both launches.
[[launch]]
kernel = "gather"
grid = 1
block = 2
parameters = [{ buffer = "table" }]
[[launch]]
kernel = "gather"
grid = [1, 1, 1]
block = 2
parameters = [{ buffer = "table" }]
[[dump]]
buffer = "sequence"
range = [3, 5]
file = "out.bin"
[[print]]
buffer = "again"
[[print]]
buffer = "filled"
dtype = "u8"
range = [6, 8]
[[print]]
buffer = "bits"
[[expect]]
buffer = "total"
values = [13013]
[[expect]]
buffer = "weights"
values = [1, 2, 3, 4]
[[expect]]
buffer = "new"
values = [0xA5]
[[expect]]
buffer = "uniform"
values = [3]
absolute = 1
[[expect]]
buffer = "integers"
values = [0]
absolute = 3
[[expect]]
buffer = "normal"
values = [5]
absolute = 2.5
"#;
    // 0x1770 = 6000 and, from the sequence, 6: twice each on top of 1000 make 13012; the sequence
    // has -2, 0, 2, 4, 6 from its first element on.
    let expected = description.replace("13013", "13012");
    let files = [
        ("kernel.ptx", KERNELS.as_bytes()),
        ("in.bin", &[0x70, 0x17, 0, 0]),
        ("run.toml", expected.as_bytes()),
    ];
    let folder = folder("buffers", &files);
    let (code, output, errors) = run(&folder, &[]);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("again, e4m3:\n       0: 1 -1.5 1 -1.5 1\n"), "{output}");
    assert!(output.contains("filled, u8:\n       6: 17 17\n"), "{output}");
    // The first numbers of splitmix64 from 1, which its authors publish.
    assert!(output.contains("0: 10451216379200822465 13757245211066428519"), "{output}");
    let dumped = std::fs::read(folder.join("out.bin")).unwrap();
    assert_eq!(dumped, [4, 0, 0, 0, 6, 0, 0, 0]);
    std::fs::write(folder.join("run.toml"), description).unwrap();
    assert_eq!(run(&folder, &[]).0, 1);
}

#[test]
fn tensor_maps_are_parameters_and_contents() {
    let map = "{ buffer = 'tensor', data_type = 'u32', extents = [16, 8], tile = [4, 4] }";
    let words = "[20, 21, 22, 23, 36, 37, 38, 39, 52, 53, 54, 55, 68, 69, 70, 71]";
    let description = format!(
        "ptx = 'kernel.ptx'\n\
         [[buffer]]\nname = 'tensor'\ndtype = 'u32'\ncount = 128\n\
         init = {{ sequence = {{}} }}\n\
         [[buffer]]\nname = 'maps'\ndtype = 'u8'\ninit = {{ tensor_maps = [{map}] }}\n\
         [[buffer]]\nname = 'out'\ndtype = 'u32'\ncount = 16\n\
         [[launch]]\nkernel = 'box'\ngrid = 1\nblock = 1\n\
         parameters = [{{ tensor_map = {map} }}, {{ buffer = 'out' }}]\n\
         [[expect]]\nbuffer = 'out'\nvalues = {words}\n\
         [[expect]]\nbuffer = 'maps'\ndtype = 'u8'\nrange = [0, 4]\nvalues = [80, 84, 88, 69]\n"
    );
    check(("box", &description), KERNELS, &["--seeds", "4"], 0, &["4 of 4"], &[]);
    // With gaps between the rows, and a box that leaves the tensor.
    let rows = description.replace("[16, 8]", "[7, 3], strides = [64], fill = 'zeros'");
    let some = rows.replace(words, "[20, 21, 22, 0, 36, 37, 38, 0, 0, 0, 0, 0, 0, 0, 0, 0]");
    check(("rows", &some), KERNELS, &[], 0, &[], &[]);
    let table = [
        ("tile = [4, 4]", "tile = [3, 4]", "a multiple of 16 is needed"),
        (
            "tile = [4, 4]",
            "tile = [4, 4], swizzle = '256'",
            "unknown `256`; known are none, 32, 64",
        ),
        ("data_type = 'u32'", "data_type = 'f99'", "unknown `f99`"),
        ("tile = [4, 4]", "tile = [4]", "1 box extents were given"),
    ];
    for (from, to, error) in table {
        let wrong = description.replace(from, to);
        check(("box-wrong", &wrong), KERNELS, &[], 2, &[], &["line 10", error]);
    }
}

#[test]
fn sums_of_fp8_can_be_exact() {
    let exact = over_words(
        "fp8",
        128,
        "[[expect]]\nbuffer = 'out'\ndtype = 'f32'\nrange = [0, 1]\nvalues = [802820]",
    );
    check(("exact", &exact), KERNELS, &["--exact-fp8"], 0, &[], &[]);
    check(("hardware", &exact), KERNELS, &[], 1, &[], &["element 0 is 80281"]);
}

/// The part of a text between two others.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let start = text.find(before).unwrap_or_else(|| panic!("{before}")) + before.len();
    let length = text[start..].find(after).unwrap_or_else(|| panic!("{after}"));
    &text[start..start + length]
}

#[test]
fn the_example_of_the_readme_runs() {
    let readme = include_str!("../../README.md");
    let ptx = between(readme, "let ptx = \"", "\";");
    let description = between(readme, "```toml\n", "```");
    let files = [("add_one.ptx", ptx.as_bytes()), ("run.toml", description.as_bytes())];
    let folder = folder("readme", &files);
    let (code, output, errors) = run(&folder, &["--seeds", "3"]);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("3 of 3 seeds ended well"), "{output}");
}
