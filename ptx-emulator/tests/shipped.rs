//! Real modules: what the parser counts agrees with counts made another way, printing loses
//! nothing, and no mutation of them makes the parser panic.

use std::path::Path;

use ptx_emulator::Module;
use ptx_emulator::module::FunctionKind;

const NAMES: [&str; 6] = ["gemm_bf16", "gemm_f16", "quantize", "reduce", "setup", "simt"];

fn text(name: &str) -> String {
    let path = format!("{}/../host/ptx/sm_90a/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(Path::new(&path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Instructions and labels by cutting the text at semicolons, without any parser.
fn count(text: &str) -> (usize, usize) {
    let bare: String =
        text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
    let (mut instructions, mut labels) = (0, 0);
    for piece in bare.split(';') {
        // What precedes an instruction in its piece: braces, directives without semicolon, labels.
        for line in piece.lines().map(str::trim).filter(|line| line.ends_with(':')) {
            assert!(line.starts_with('$'), "{line}");
            labels += 1;
        }
        // An instruction may go on over lines, and counts once.
        let starts = |line: &str| {
            let first = line.trim_start_matches(['{', '}', ' ']).chars().next();
            first.is_some_and(|first| first == '@' || first.is_ascii_lowercase())
        };
        instructions += usize::from(piece.lines().map(str::trim).any(starts));
    }
    (instructions, labels)
}

#[test]
fn counts_agree() {
    let mut total = 0;
    for name in NAMES {
        let text = text(name);
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let entries: Vec<_> = module.entries().collect();
        assert_eq!(entries.len(), text.matches(".visible .entry").count(), "{name}");
        assert!(entries.iter().all(|entry| entry.kind == FunctionKind::Entry), "{name}");
        let parameters: usize = entries.iter().map(|entry| entry.parameters.len()).sum();
        assert_eq!(parameters, text.matches("\t.param ").count(), "{name}");
        let bodies = || module.functions.iter().filter_map(|function| function.body.as_ref());
        let instructions: usize = bodies().map(|body| body.instructions.len()).sum();
        let labels: usize = bodies().map(|body| body.labels.len()).sum();
        assert_eq!((instructions, labels), count(&text), "{name}");
        // The word of each family counted in the text, and as a mnemonic.
        for family in ["wgmma.mma_async", "shfl.sync", "bra", "mbarrier.try_wait"] {
            let spelled = |line: &str| {
                line.split("//").next().is_some_and(|code| {
                    code.split_whitespace().any(|word| {
                        word.trim_end_matches(';') == family
                            || word.starts_with(&format!("{family}."))
                    })
                })
            };
            let expected = text.lines().filter(|line| spelled(line)).count();
            let found = bodies().flat_map(|body| &body.instructions).filter(|instruction| {
                let opcode = instruction.opcode.to_string();
                opcode == family || opcode.starts_with(&format!("{family}."))
            });
            assert_eq!(found.count(), expected, "{name}: {family}");
        }
        total += instructions;
    }
    assert!(total > 15_000, "only {total} instructions: were the modules read?");
}

#[test]
fn lines_and_labels_lead_to_the_text() {
    let text = text("gemm_bf16");
    let lines: Vec<&str> = text.lines().collect();
    for function in Module::parse(&text).unwrap().functions {
        assert!(lines[function.line as usize - 1].contains(&function.name));
        let body = function.body.unwrap();
        for instruction in &body.instructions {
            let line = lines[instruction.line as usize - 1];
            assert!(line.contains(&instruction.opcode.to_string()), "{line}");
        }
        for label in &body.labels {
            let before =
                label.instruction.checked_sub(1).map_or(0, |index| body.instructions[index].line);
            let after = body.instructions[label.instruction].line;
            let between = &lines[before as usize..after as usize];
            assert!(between.contains(&&*format!("{}:", label.name)), "{}", label.name);
        }
    }
}

#[test]
fn printing_loses_nothing() {
    for name in NAMES {
        let mut module = Module::parse(&text(name)).unwrap();
        let printed = module.to_string();
        let mut again = Module::parse(&printed).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.to_string(), printed, "{name}");
        module.forget_lines();
        again.forget_lines();
        assert!(again == module, "{name}");
    }
}

/// The splitmix generator: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}

fn mutate(source: &str, random: &mut Random) -> String {
    const PIECES: [&str; 16] = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ";",
        ":",
        ",",
        ".",
        "%",
        "\"",
        "/*",
        "-",
        "é",
        "99999999999",
    ];
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        let line_start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line_end = bytes[at..].iter().position(|byte| *byte == b'\n');
        let line_end = line_end.map_or(bytes.len(), |length| at + length + 1);
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(line_start..line_end)),
            3 => {
                let line = bytes[line_start..line_end].to_vec();
                bytes.splice(line_start..line_start, line);
            }
            _ => drop(bytes.splice(at..at, PIECES[random.below(PIECES.len())].bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn mutations_end_in_a_module_or_a_place() {
    // Whole modules would take minutes; the shortest and a hand-written one have every form.
    let long = text("setup");
    let forms = include_str!("forms.ptx");
    let mut random = Random(1);
    let (mut parsed, mut refused) = (0, 0);
    for case in 0..6000 {
        let mutated = mutate(if case % 20 == 0 { &long } else { forms }, &mut random);
        match Module::parse(&mutated) {
            Ok(module) => {
                parsed += 1;
                let again = Module::parse(&module.to_string());
                assert!(again.is_ok(), "case {case}: {}\n{mutated}", again.unwrap_err());
            }
            Err(error) => {
                refused += 1;
                let line = mutated.split('\n').nth(error.line() as usize - 1);
                let line = line.unwrap_or_else(|| panic!("case {case}: no line {}", error.line()));
                assert_eq!(line.trim_end_matches('\r'), error.text(), "case {case}");
                let columns = line.chars().count() as u32 + 1;
                assert!((1..=columns).contains(&error.column()), "case {case}: {error}");
                assert!(error.to_string().ends_with('^'), "case {case}");
            }
        }
    }
    assert!(parsed > 500 && refused > 2000, "{parsed} parsed, {refused} refused");
}

/// The other compiler whose PTX is at hand: it declares, names and initialises in other ways.
#[test]
fn modules_of_triton_print_and_parse_again() {
    let folder = format!("{}/tests/triton", env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut module = Module::parse(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let mut again = Module::parse(&module.to_string()).unwrap();
        module.forget_lines();
        again.forget_lines();
        assert!(module == again, "{path:?} prints as another module");
        assert_eq!(module.entries().count(), 1, "{path:?}");
        count += 1;
    }
    assert_eq!(count, 12);
}
