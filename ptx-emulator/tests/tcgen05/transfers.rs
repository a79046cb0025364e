//! `tcgen05.ld` and `tcgen05.st` in every shape.

use super::{Kernel, WORDS, allocate, fill, free, registers, store};

/// Shapes, registers of a repetition, columns of a repetition, and the most repetitions.
const SHAPES: [(&str, usize, usize, usize); 5] = [
    ("32x32b", 1, 1, 128),
    ("16x64b", 1, 2, 128),
    ("16x128b", 2, 4, 64),
    ("16x256b", 4, 8, 32),
    ("16x32bx2", 1, 1, 128),
];

/// How many columns further right the upper half of a `.16x32bx2` is.
const FURTHER: usize = 136;

/// The row and the column of a matrix of 32-bit elements that a register holds: written from the
/// figures of the manual, which draw for each row and each 32 bits the thread and the register.
fn element(shape: &str, register: usize, thread: usize) -> (usize, usize) {
    match shape {
        "32x32b" => (thread, register),
        // Row r has threads 4(r % 8) and 4(r % 8) + 2 in its first half, the odd ones in its
        // second.
        "16x64b" => {
            let row = (0..16).find(|row| thread / 4 == row % 8 && thread % 2 == row / 8);
            let row = row.unwrap();
            (row, 2 * register + (thread % 4) / 2)
        }
        // A row has four threads; the upper eight rows are in the odd registers.
        "16x128b" => (thread / 4 + 8 * (register % 2), register / 2 * 4 + thread % 4),
        // As the accumulators of `mma.sync`.
        "16x256b" => {
            let (pair, upper) = (register % 2, register % 4 / 2);
            (thread / 4 + 8 * upper, register / 4 * 8 + thread % 4 * 2 + pair)
        }
        _ => (thread % 16, register),
    }
}

/// Lane and columns in tensor memory: one, or two of which each has a half.
fn cell(shape: &str, packed: bool, register: usize, thread: usize) -> (usize, Vec<usize>) {
    let (row, column) = element(shape, register, thread);
    let further = if shape == "16x32bx2" && thread >= 16 { FURTHER } else { 0 };
    match packed {
        false => (row, vec![column + further]),
        true => (row, vec![2 * column + further, 2 * column + 1 + further]),
    }
}

struct Case {
    shape: &'static str,
    repetitions: usize,
    count: usize,
    packed: bool,
    /// The first lane among those of the warp, and the first column.
    lane: usize,
    column: usize,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (shape, registers, columns, most) in SHAPES {
        for repetitions in [1, 2, 4, 8, most / 2, most] {
            for packed in [false, true] {
                let width = (repetitions * columns) << usize::from(packed);
                let further = if shape == "16x32bx2" { FURTHER } else { 0 };
                let lane = if shape == "32x32b" { 0 } else { repetitions % 2 * 16 };
                let column = if width + further + 7 <= 512 { 7 } else { 0 };
                if further == 0 || width <= further {
                    let count = repetitions * registers;
                    cases.push(Case { shape, repetitions, count, packed, lane, column });
                }
            }
        }
    }
    cases
}

impl Case {
    /// The warp's lanes are named in the address, as the manual wants it.
    fn address(&self) -> String {
        format!(
            "shl.b32 %r301, %warp, 21; add.u32 %r301, %r301, %tensor;
             add.u32 %r301, %r301, {};\n",
            self.lane << 16 | self.column
        )
    }

    fn offset(&self) -> String {
        if self.shape == "16x32bx2" { format!(", {FURTHER}") } else { String::new() }
    }

    fn name(&self) -> String {
        format!("{}.x{} packed {}", self.shape, self.repetitions, self.packed)
    }
}

#[test]
fn loads_of_every_shape() {
    for case in cases() {
        let Case { shape, repetitions, count, packed, lane, column } = case;
        let pack = if packed { ".pack::16b" } else { "" };
        let (list, offset) = (registers(128, count), case.offset());
        let body = format!(
            "{}{}{}tcgen05.ld.sync.aligned.{shape}.x{repetitions}{pack}.b32 {list}, [%r301]{offset};
             tcgen05.wait::ld.sync.aligned;\n{}{}",
            allocate(512),
            fill(512),
            case.address(),
            store(128, count),
            free(512)
        );
        let found = Kernel::new(&body).run();
        for (thread, row) in found.chunks(WORDS).enumerate() {
            for (register, value) in row.iter().take(count).enumerate() {
                let (own, columns) = cell(shape, packed, register, thread % 32);
                let lane = thread / 32 * 32 + lane + own;
                let words: Vec<u32> =
                    columns.iter().map(|own| (lane << 16 | (column + own)) as u32).collect();
                let expected = match *words {
                    [low, high] => low & 0xFFFF | high << 16,
                    _ => words[0],
                };
                assert_eq!(*value, expected, "{} register {register} of {thread}", case.name());
            }
        }
    }
}

#[test]
fn stores_of_every_shape() {
    for case in cases() {
        let Case { shape, repetitions, count, packed, lane, column } = case;
        let unpack = if packed { ".unpack::16b" } else { "" };
        let (list, offset) = (registers(128, count), case.offset());
        // Columns 0 to 128 of what is there afterwards.
        let mut body = format!("{}{}{}", allocate(512), fill(512), case.address());
        for at in 0..count {
            body += &format!("mad.lo.u32 %r{}, %thread, 65537, {};\n", 128 + at, 0x8000_4000 + at);
        }
        body += &format!(
            "tcgen05.st.sync.aligned.{shape}.x{repetitions}{unpack}.b32 [%r301]{offset}, {list};
             tcgen05.wait::st.sync.aligned;
             tcgen05.ld.sync.aligned.32x32b.x128.b32 {}, [%tensor];
             tcgen05.wait::ld.sync.aligned;\n{}{}",
            registers(0, 128),
            store(0, 128),
            free(512)
        );
        let found = Kernel::new(&body).run();
        let mut expected: Vec<u32> =
            (0..128 * WORDS as u32).map(|at| ((at / 128) << 16) | (at % 128)).collect();
        for thread in 0..128 {
            for register in 0..count {
                let value = (thread as u32 * 65537).wrapping_add(0x8000_4000 + register as u32);
                let (own, columns) = cell(shape, packed, register, thread % 32);
                let halves = [value & 0xFFFF, value >> 16];
                for (own_column, half) in columns.iter().zip(halves) {
                    let lane = thread / 32 * 32 + lane + own;
                    let column = column + own_column;
                    if column < 128 {
                        expected[lane * WORDS + column] = if packed { half } else { value };
                    }
                }
            }
        }
        assert_eq!(found, expected, "{}", case.name());
    }
}

/// A body between allocation and deallocation of 64 columns.
fn with_columns(body: &str) -> String {
    format!("{}{}{body}{}", allocate(64), fill(64), free(64))
}

const LOAD: &str = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0, %r1}, [%tensor];\n";
const WAIT: &str = "tcgen05.wait::ld.sync.aligned;\n";

#[test]
fn registers_belong_to_a_load() {
    let cases = [
        ("add.u32 %r5, %r1, 1;", "a register is read that the tcgen05.ld in PTX line"),
        ("mov.u32 %r0, 1;", "a register is written that the tcgen05.ld"),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor+9], {%r0};", "is read that"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%tensor+9];", "is written that"),
        ("exit;", "the function ends while the tcgen05.ld"),
    ];
    for (touch, part) in cases {
        Kernel::new(&with_columns(&format!("{LOAD}{touch}{WAIT}"))).fails(part);
        if touch != "exit;" {
            let right = format!("{LOAD}{WAIT}{touch}{WAIT}tcgen05.wait::st.sync.aligned;");
            Kernel::new(&with_columns(&right)).passes();
        }
    }
    // Other registers may be used meanwhile.
    Kernel::new(&with_columns(&format!("{LOAD}mov.u32 %r5, %r3;{WAIT}"))).passes();
}

/// What a load gives depends on nothing but what was stored, also without checks.
#[test]
fn loads_are_late() {
    let body = with_columns(&format!("mov.u32 %r0, 77;{LOAD}{WAIT}{}", store(0, 2)));
    for checks in [ptx_emulator::Checks::On, ptx_emulator::Checks::Off] {
        for seed in 0..4 {
            let found = Kernel { checks, seed, ..Kernel::new(&body) }.run();
            for (thread, row) in found.chunks(WORDS).enumerate() {
                assert_eq!(row[..2], [(thread << 16) as u32, (thread << 16) as u32 + 1]);
            }
        }
    }
}

#[test]
fn what_cannot_be_reached() {
    let load = |address: &str| {
        let text = format!("{address}tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r0, %r1}}, [%r9];");
        with_columns(&format!("{text}{WAIT}"))
    };
    let lane = "shl.b32 %r9, %warp, 21; add.u32 %r9, %r9, %tensor;";
    Kernel::new(&load(lane)).passes();
    let cases = [
        (
            "add.u32 %r8, %warp, 1; shl.b32 %r8, %r8, 21; add.u32 %r9, %r8, %tensor;",
            "which reaches lanes",
        ),
        ("add.u32 %r9, %tensor, 0x100000;", "which reaches lanes"),
        ("add.u32 %r9, %tensor, 63;", "are not allocated: its block has columns"),
        ("add.u32 %r9, %tensor, 600;", "are not allocated"),
        ("add.u32 %r9, %tensor, 0x80000000;", "which reaches lanes"),
        ("add.u32 %r9, %tensor, %thread;", "the threads of a warp give different"),
    ];
    for (address, part) in cases {
        Kernel::new(&load(address)).fails(part);
    }
    // Shapes of 16 lanes reach either half.
    for (half, is_right) in [(0, true), (16, true), (8, false), (48, false)] {
        let body = with_columns(&format!(
            "add.u32 %r9, %tensor, {};
             tcgen05.ld.sync.aligned.16x64b.x2.b32 {{%r0, %r1}}, [%r9];{WAIT}",
            half << 16
        ));
        let kernel = Kernel { threads: 32, ..Kernel::new(&body) };
        if is_right { kernel.passes() } else { kernel.fails("in its first or its second half") }
    }
}

#[test]
fn what_was_not_written() {
    let body = |first: u32| {
        format!(
            "{}mov.u32 %r1, 5;
             tcgen05.st.sync.aligned.32x32b.x1.b32 [%tensor+1], {{%r1}};
             tcgen05.wait::st.sync.aligned;
             tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r0}}, [%tensor+{first}];{WAIT}{}",
            allocate(32),
            free(32)
        )
    };
    Kernel::new(&body(1)).passes();
    Kernel::new(&body(0)).fails("read of uninitialised tensor memory");
    let unchecked = Kernel { checks: ptx_emulator::Checks::Off, ..Kernel::new("") };
    Kernel { body: &body(0), ..unchecked }.passes();
}

#[test]
fn warps_transfer_as_a_whole() {
    let body = format!("{}setp.eq.u32 %p1, %thread, 5; @%p1 ret; {LOAD}", allocate(32));
    Kernel { threads: 32, ..Kernel::new(&body) }.fails("of which only 31 threads are left");
}
