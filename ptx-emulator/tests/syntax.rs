//! Small texts: what becomes of each form, and where each error points.

use ptx_emulator::Module;
use ptx_emulator::module::{Body, Initialiser, Reference, Statement};

const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";

/// A function with a few declarations around the statements, which start on line 8.
fn wrap(statements: &str) -> String {
    format!(
        "{HEAD}.global .b32 g;\n.func f;\n.entry e(.param .b64 a) {{\n\
         .reg .pred %p<3>; .reg .b32 %r<4>; .reg .v2 .f32 %v;\n{statements}\n}}\n"
    )
}

fn body(statements: &str) -> Body {
    let module = Module::parse(&wrap(statements)).unwrap_or_else(|error| panic!("{error}"));
    module.functions.into_iter().find_map(|function| function.body).unwrap()
}

#[test]
fn operands() {
    // %p0 to %p2 have the indices 0 to 2, %r0 to %r3 3 to 6, %v 7.
    let cases = [
        ("0x10", "Immediate(Signed(16))"),
        ("0x10U", "Immediate(Unsigned(16))"),
        ("017", "Immediate(Signed(15))"),
        ("0b101U", "Immediate(Unsigned(5))"),
        ("-5", "Immediate(Signed(-5))"),
        ("(7*3+1)", "Immediate(Signed(22))"),
        ("7 % 4 << 2 | 1", "Immediate(Signed(13))"),
        ("-7 / 2", "Immediate(Signed(-3))"),
        ("-1 >> 70", "Immediate(Signed(-1))"),
        ("(.u64)-1 >> 60", "Immediate(Unsigned(15))"),
        ("(.s64)(~0 ^ 0xF)", "Immediate(Signed(-16))"),
        ("-(~0)", "Immediate(Unsigned(1))"),
        ("-(-9223372036854775808)", "Immediate(Signed(-9223372036854775808))"),
        ("!5 == 0 && 2 <= 2", "Immediate(Signed(1))"),
        ("(3 > 4U) ? 10 : 2 < 3 ? 20 : 30", "Immediate(Signed(20))"),
        ("-1 < 1U", "Immediate(Signed(0))"),
        ("[%r1+4*8]", "Address(Address { base: Name(Register(4)), offset: 32, coordinates: [] })"),
        ("0xffffffffffffffff", "Immediate(Unsigned(18446744073709551615))"),
        ("-9223372036854775808", "Immediate(Signed(-9223372036854775808))"),
        ("0f3F800000", "Immediate(Single(1065353216))"),
        ("-0f3F800000", "Immediate(Single(3212836864))"),
        ("0D3ff0000000000000", "Immediate(Double(4607182418800017408))"),
        ("1.0", "Immediate(Double(4607182418800017408))"),
        ("10e-1", "Immediate(Double(4607182418800017408))"),
        ("%r3", "Name(Register(6))"),
        ("!%p2", "Not(Register(2))"),
        ("%tid.x", "Component(Special(\"%tid\"), X)"),
        ("%v.y", "Component(Register(7), Y)"),
        ("WARP_SZ", "Name(Special(\"WARP_SZ\"))"),
        ("g", "Name(Variable(0))"),
        ("g+4", "Offset(Variable(0), 4)"),
        ("f", "Name(Function(0))"),
        ("a", "Name(Parameter(0))"),
        ("L", "Name(Label(0))"),
        ("_", "Sink"),
        ("%r1|%p1", "Pair([Name(Register(4)), Name(Register(1))])"),
        ("_|%p1", "Pair([Sink, Name(Register(1))])"),
        ("{%r1, _, 2}", "Vector([Name(Register(4)), Sink, Immediate(Signed(2))])"),
        ("()", "Arguments([])"),
        ("(%r1, a)", "Arguments([Name(Register(4)), Name(Parameter(0))])"),
        ("[%r1]", "Address(Address { base: Name(Register(4)), offset: 0, coordinates: [] })"),
        ("[%r1+-8]", "Address(Address { base: Name(Register(4)), offset: -8, coordinates: [] })"),
        ("[%r1-8]", "Address(Address { base: Name(Register(4)), offset: -8, coordinates: [] })"),
        ("[g+0x10]", "Address(Address { base: Name(Variable(0)), offset: 16, coordinates: [] })"),
        ("[64]", "Address(Address { base: Immediate(64), offset: 0, coordinates: [] })"),
        (
            "[%r1, {%r2, 3}]",
            "Address(Address { base: Name(Register(4)), offset: 0, coordinates: \
             [Vector([Name(Register(5)), Immediate(Signed(3))])] })",
        ),
    ];
    for (text, expected) in cases {
        let body = body(&format!("L: any.x::y.2d {text};"));
        let instruction = &body.instructions[0];
        assert_eq!(format!("{:?}", instruction.operands), format!("[{expected}]"), "{text}");
        assert_eq!(instruction.opcode.modifiers, ["x::y", "2d"]);
    }
}

#[test]
fn blocks_have_names_of_their_own() {
    let body = body(
        "mov %r1;\nL: bra L;\n{ .reg .b32 %r1; mov %r1; bra L; L: { mov %r1; } }\n\
         { .reg .b32 %r1; mov %r1; bra L; }\nmov %r1; bra L;",
    );
    let operands: Vec<_> =
        body.instructions.iter().map(|own| format!("{:?}", own.operands[0])).collect();
    let (outer, first, second) = ("Name(Register(4))", "Name(Register(8))", "Name(Register(9))");
    let (here, inner) = ("Name(Label(0))", "Name(Label(1))");
    assert_eq!(operands, [outer, here, first, inner, first, second, here, outer, here]);
    assert_eq!(body.labels.iter().map(|own| own.instruction).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(body.register_count, 10);
    assert_eq!(body.register(5).map(|(group, number)| (&*group.name, number)), Some(("%r", 2)));
    assert_eq!(body.register(10), None);
    assert_eq!(body.statements.iter().filter(|own| **own == Statement::Open).count(), 3);
}

#[test]
fn lines_count_through_comments() {
    let body = body("/* one\ntwo\r\n*/ ret; // three\nret;");
    assert_eq!(body.instructions.iter().map(|own| own.line).collect::<Vec<_>>(), [10, 11]);
}

#[test]
fn instructions_of_both_architectures_parse() {
    let statements = [
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%r0, %r1}, {%r2, %r3}, g, !%p1, 1, 1;",
        "wgmma.wait_group.sync.aligned 0;",
        "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r2;",
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], %r2, 100;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster\
         .L2::cache_hint [%r1], [a], 16, [%r2], %r3, %r0;",
        "cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes \
         [%r1], [a, {%r1, %r2, %r3}], [%r2];",
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%r1], [a, {%r0, %r1, %r2, %r3}], [%r2], {%r0, %r1};",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [a], [%r1], 16;",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, %r2;",
        "fence.proxy.tensormap::generic.acquire.gpu [a], 128;",
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 512;",
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [%r1], [%r2], a, %r3, \
         {%r0, %r1, %r2, %r3}, !%p1, 4;",
        "tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r1], a;",
        "tcgen05.st.sync.aligned.16x64b.x1.unpack::16b.b32 [%r1+8], {%r2};",
        "tcgen05.wait::ld.sync.aligned;",
        "ld.global.L1::no_allocate.L2::256B.v4.b32 {%r0, _, %r1, %r2}, [a+16];",
    ];
    for statement in statements {
        let body = body(statement);
        assert_eq!(body.instructions.len(), 1);
        let opcode = statement.split(' ').next().unwrap().trim_end_matches(';');
        assert_eq!(body.instructions[0].opcode.to_string(), opcode);
    }
}

#[test]
fn every_form_is_understood() {
    let mut module = Module::parse(include_str!("forms.ptx")).unwrap_or_else(|e| panic!("{e}"));
    let symbol = |name, generic, offset| Initialiser::Symbol { name, generic, offset, mask: None };
    let Some(Initialiser::List(table)) = &module.variables[1].initialiser else { panic!() };
    assert_eq!(table[0], symbol(Reference::Variable(2), true, 0));
    assert_eq!(table[1], symbol(Reference::Variable(2), false, 8));
    // The definition, not the declaration before it.
    assert_eq!(table[2], symbol(Reference::Function(2), false, 0));
    assert_eq!(module.variables[3].bytes(), Some(16));
    assert_eq!(module.variables[0].bytes(), None);
    let main = module.entries().next().unwrap();
    assert_eq!(main.directives[0].values, [128, 2]);
    assert_eq!(main.parameters[0].pointee.unwrap().align, Some(16));
    let body = main.body.as_ref().unwrap();
    let labels = &body.branch_targets[0].labels;
    let names: Vec<&str> = labels.iter().map(|index| &*body.labels[*index].name).collect();
    assert_eq!(names, ["$L_end", "$L_other"]);
    assert_eq!(body.call_targets[0].functions, [2, 1]);
    assert!(body.prototypes[0].noreturn);
    let call = body.instructions.iter().rfind(|own| own.opcode.mnemonic == "call").unwrap();
    assert_eq!(
        format!("{:?}", call.operands),
        "[Arguments([Name(Local(6))]), Name(Register(33)), \
         Arguments([Name(Local(4)), Name(Local(5))]), Name(Prototype(0))]"
    );
    assert_eq!(body.instructions[0].location, Some(0));
    assert_eq!(body.locations[call.location.unwrap()].inlined_at.as_ref().unwrap().line, 11);
    assert_eq!(body.labels.last().unwrap().instruction, body.instructions.len());

    let mut again = Module::parse(&module.to_string()).unwrap_or_else(|error| panic!("{error}"));
    again.forget_lines();
    module.forget_lines();
    assert_eq!(again, module);
}

#[test]
fn errors_name_the_place() {
    let cases = [
        ("mov %r4, 1;", 5, "unknown register `%r4`"),
        ("mov %r01, 1;", 5, "unknown register `%r01`"),
        // The last number of 32 bits, in a group whose first register is not the function's first.
        ("mov %r4294967295, 1;", 5, "unknown register `%r4294967295`"),
        ("bra $L_x;", 5, "unknown label `$L_x`"),
        ("bra out;", 5, "unknown label `out`"),
        ("bra g;", 5, "`g` is not a label of an instruction"),
        ("mov %r1, h;", 10, "unknown symbol `h`"),
        ("{ L: } bra L;", 12, "unknown label `L`"),
        ("@%r1 ret;", 2, "`%r1` is not a predicate register"),
        ("mov %r1, !%r2;", 11, "`%r2` is not a predicate register"),
        ("mov %r1, %r2.x;", 10, "`%r2` is not a vector, which `.x` needs"),
        ("mov %r1, %r2+4;", 10, "`%r2` is not a symbol, which `+` outside brackets needs"),
        (
            "mov %r1, %r2 .x;",
            14,
            "expected `,`, `;` or one of `.x`, `.y`, `.z` and `.w`, found `.x`",
        ),
        (".sreg x;", 1, "unknown directive `.sreg`"),
        (".reg .b32 %r<9>;", 11, "`%r` is declared twice in this scope"),
        (".reg .b32 %r2;", 11, "`%r2` is declared twice in this scope"),
        ("L: L: ret;", 4, "`L` is declared twice in this scope"),
        (".reg .b32 x<4000000000>;", 11, "more than 16777216 registers in a function"),
        ("add..s32 %r1;", 5, "expected a word of letters, digits and `_` after `.` or `::`"),
        ("ld.shared:: %r1;", 12, "expected a word of letters, digits and `_` after `.` or `::`"),
        ("mov %r1 %r2;", 9, "expected `,` or `;`, found `%r2`"),
        ("mov %r1,;", 9, "expected an operand, found `;`"),
        ("ret", 1, "expected an operand or `;`, found `}`"),
        ("mov {};", 6, "expected an operand, found `}`"),
        ("mov {%r1, {%r2}};", 11, "expected an operand, found `{`"),
        ("ld %r1, [%r2;", 13, "expected `+`, `,` or `]`, found `;`"),
        ("ld %r1, [%r2+%r3];", 14, "expected a literal, found `%r3`"),
        ("mov %r1|{%r2};", 9, "expected a register or `_`, found `{`"),
        (
            "mov %r1, 0f3F8;",
            10,
            "`0f3F8` is not a valid literal: 0f needs exactly eight hexadecimal digits",
        ),
        ("mov %r1, 09;", 10, "`09` is not a valid literal: a digit does not belong to its base"),
        ("mov %r1, 1x;", 10, "`1x` is not a valid literal: a digit does not belong to its base"),
        (
            "mov %r1, 18446744073709551616;",
            10,
            "`18446744073709551616` is not a valid literal: it does not fit 64 bits",
        ),
        ("mov %r1, #;", 10, "unexpected character '#'"),
        ("/* é */ mov é;", 13, "unexpected character 'é'"),
        (".pragma \"x;", 9, "this string does not end"),
        ("  /* x", 3, "this comment does not end"),
        (
            ".local .align 3 .b8 x;",
            15,
            "`3` is not a valid literal: an alignment is a power of two",
        ),
        (
            ".branchtargets L;",
            1,
            "expected a label and `:` before this directive, found `.branchtargets`",
        ),
        ("T: .branchtargets U;", 19, "unknown label `U`"),
        ("T: .calltargets g;", 17, "`g` is not a function"),
    ];
    for (statements, column, message) in cases {
        let error = Module::parse(&wrap(statements)).unwrap_err();
        // A missing semicolon is noticed at the brace on the next line.
        let line = if statements == "ret" { 9 } else { 8 };
        assert_eq!(error.reason().to_string(), message, "{statements}");
        assert_eq!((error.line(), error.column()), (line, column), "{statements}");
    }
}

#[test]
fn errors_at_the_top_level() {
    let cases = [
        (".globl x", 4, 1, "unknown directive `.globl`"),
        (".entry e() .fast {}", 4, 12, "unknown directive `.fast`"),
        (".entry e() .reqntid {}", 4, 21, "expected a number, found `{`"),
        (
            ".entry e() {",
            5,
            1,
            "expected an instruction, a label, a directive or `}`, found the end of the text",
        ),
        (".func f {}\n.func f {}", 5, 7, "`f` is declared twice in this scope"),
        (".global .b64 x = y;", 4, 18, "unknown symbol `y`"),
        (
            ".entry e(.reg .b32 %r) {}",
            4,
            10,
            "`%r` is not a parameter of an entry, which needs `.param`",
        ),
        (
            ".func (.param .b32 a, .param .b32 b) f() {}",
            4,
            8,
            "`a` is not one of several results, which need `.reg`",
        ),
        (".visible x", 4, 10, "expected `.entry`, `.func` or a state space, found `x`"),
    ];
    for (text, line, column, message) in cases {
        let error = Module::parse(&format!("{HEAD}{text}\n")).unwrap_err();
        let found = (error.line(), error.column(), error.reason().to_string());
        assert_eq!(found, (line, column, message.into()), "{text}");
    }
    let error = Module::parse(".target sm_90a").unwrap_err();
    assert_eq!(error.reason().to_string(), "expected `.version`, found `.target`");
}

#[test]
fn errors_print_a_caret() {
    let error = Module::parse(&wrap("\tmov %r1, %r9;")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 8, column 11: unknown register `%r9`\n  | \tmov %r1, %r9;\n  | \t         ^"
    );
    let long = format!("mov %r1, {{{}%r9}};", "%r1, ".repeat(1000));
    let printed = Module::parse(&wrap(&long)).unwrap_err().to_string();
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[1].chars().count() < 200, "{printed}");
    assert_eq!(&lines[1][lines[2].len() - 1..][..3], "%r9");
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = |depth: usize| wrap(&format!("{}{}", "{".repeat(depth), "}".repeat(depth)));
    assert!(Module::parse(&deep(64)).is_ok());
    assert!(Module::parse(&deep(65)).is_err());
    let error = Module::parse(&deep(100_000)).unwrap_err();
    assert_eq!(error.reason().to_string(), "more than 64 nested blocks");
    let braces = format!("{HEAD}.global .b32 x[1] = {}", "{".repeat(100_000));
    let error = Module::parse(&braces).unwrap_err();
    assert_eq!(error.reason().to_string(), "more than 16 nested braces");
    for expression in ["(".repeat(100_000), "-".repeat(100_000), "1?1:".repeat(100_000)] {
        let error = Module::parse(&wrap(&format!("mov.u32 %r1, {expression}1;"))).unwrap_err();
        assert_eq!(error.reason().to_string(), "more than 64 nested operators");
    }
    let long = format!("mov.u32 %r1, 1{};", "+1".repeat(100_000));
    assert!(Module::parse(&wrap(&long)).is_ok());
    for wrong in ["1/0", "5 % (3-3)", "1.0+1", "(1", "1 ? 2", "1 <"] {
        assert!(Module::parse(&wrap(&format!("mov.u32 %r1, {wrong};"))).is_err(), "{wrong}");
    }
    // A name of many digits, many labels, many blocks: each must take linear time.
    let digits = format!("mov %r1, %r{};", "1".repeat(1_000_000));
    assert!(Module::parse(&wrap(&digits)).is_err());
    let labels: String =
        (0..50_000).map(|index| format!("L{index}: bra L{index}; {{}}\n")).collect();
    assert_eq!(body(&labels).labels.len(), 50_000);
}
