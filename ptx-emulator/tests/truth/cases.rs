//! What a row of the truth table is made of: a module, its launch, its input, and how two outputs
//! are compared; and the helpers with which the families write their rows.

use std::fmt::Write;

use crate::numbers::{Format, Random};

/// One module with one entry, `test`, and everything needed to run it.
pub struct Case {
    /// `family/form`, unique.
    pub name: String,
    /// The whole module; the entry takes the address of the input, that of the output, and maps.
    pub ptx: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub dynamic_shared_bytes: u32,
    pub input: Vec<u8>,
    /// What the output holds before the launch; its length is the output's.
    pub output: Vec<u8>,
    /// Tensor maps, each a parameter of 128 bytes at an alignment of 64.
    pub maps: Vec<Map>,
    pub compare: Compare,
    /// The GPU stops with an error, and the emulator with a report that contains this.
    pub refused: Option<&'static str>,
}

/// How the emulator's output may differ from the table's.
#[derive(Clone, Copy, Debug)]
pub enum Compare {
    /// Not at all.
    Bits,
    /// Not at all, but one NaN is as good as another.
    Exact(Format),
    /// By a part of the table's value, plus an absolute amount; NaN and infinities agree by class.
    Near { format: Format, relative: f64, absolute: f64 },
}

/// The buffer that a tensor map describes.
#[derive(Clone, Copy)]
pub enum Buffer {
    Input,
    Output,
}

/// The arguments of `cuTensorMapEncodeTiled` in the driver's numbers; dimension 0 is innermost.
#[derive(Clone)]
pub struct Map {
    pub buffer: Buffer,
    /// Bytes from the start of the buffer.
    pub offset: u64,
    pub data_type: u32,
    pub extents: Vec<u64>,
    /// Bytes, one fewer than the dimensions.
    pub strides: Vec<u64>,
    pub tile: Vec<u32>,
    pub element_strides: Vec<u32>,
    pub interleave: u32,
    pub swizzle: u32,
    pub fill: u32,
}

impl Map {
    /// A dense tensor whose innermost rows are padded to 16 bytes.
    pub fn dense(
        buffer: Buffer,
        data_type: u32,
        element: u64,
        extents: &[u64],
        tile: &[u32],
    ) -> Self {
        let mut strides = Vec::new();
        let mut stride = (extents[0] * element).next_multiple_of(16);
        for extent in &extents[1..] {
            strides.push(stride);
            stride *= extent;
        }
        Self {
            buffer,
            offset: 0,
            data_type,
            extents: extents.to_vec(),
            strides,
            tile: tile.to_vec(),
            element_strides: vec![1; extents.len()],
            interleave: 0,
            swizzle: 0,
            fill: 0,
        }
    }

    /// Bytes that the tensor spans in its buffer.
    pub fn bytes(&self, element: u64) -> u64 {
        match (self.strides.last(), self.extents.last()) {
            (Some(stride), Some(extent)) => stride * extent,
            _ => self.extents[0] * element,
        }
    }
}

/// What a module consists of besides the standard prologue.
#[derive(Default)]
pub struct Text<'a> {
    /// Variables and functions of the module.
    pub module: &'a str,
    /// Directives of the entry.
    pub directives: &'a str,
    /// How many maps the entry takes: `map0`, `map1` and on.
    pub maps: usize,
    /// The entry's instructions.
    pub body: &'a str,
}

impl Text<'_> {
    /// The module's text. The body finds the registers `%p0…`, `%h0…`, `%r0…`, `%d0…` (64 bits),
    /// the addresses `%input` and `%output`, and the thread's number in the grid in `%thread`
    /// (and as 64 bits in `%wide`).
    pub fn module(&self) -> String {
        let maps: String = (0..self.maps)
            .map(|map| format!(",\n    .param .align 64 .b8 map{map}[128]"))
            .collect();
        format!(
            ".version 8.7
.target sm_90a
.address_size 64
{}
.visible .entry test(
    .param .u64 input,
    .param .u64 output{maps}
)
{}
{{
    .reg .pred %p0, %p1, %p2, %p3, %p4, %p5, %p6, %p7, %p8, %p9;
    .reg .b16 %h<64>;
    .reg .b32 %r<96>;
    .reg .b64 %d<96>;
    .reg .b32 %thread;
    .reg .b64 %wide, %input, %output;
    ld.param.b64 %input, [input];
    ld.param.b64 %output, [output];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %thread, %r0, %r1, %r2;
    cvt.u64.u32 %wide, %thread;
{}
    ret;
}}
",
            self.module, self.directives, self.body
        )
    }
}

/// One operand of every thread: values of `bytes` bytes each, side by side.
pub struct Column {
    pub bytes: usize,
    pub values: Vec<u64>,
}

impl Column {
    pub fn new(bytes: usize, values: Vec<u64>) -> Self {
        Self { bytes, values }
    }

    /// The values in memory order.
    pub fn encoded(&self) -> Vec<u8> {
        self.values.iter().flat_map(|value| value.to_le_bytes()[..self.bytes].to_vec()).collect()
    }
}

/// A result of every thread: the register that the form's body writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Out {
    B16(&'static str),
    B32(&'static str),
    B64(&'static str),
    /// A predicate, `%p` or `%q`, stored as a byte.
    Pred(&'static str),
}

impl Out {
    const fn bytes(self) -> usize {
        match self {
            Self::Pred(_) => 1,
            Self::B16(_) => 2,
            Self::B32(_) => 4,
            Self::B64(_) => 8,
        }
    }

    /// The usual single result, `%x`.
    pub fn of(bits: u32) -> Self {
        match bits {
            16 => Self::B16("x"),
            32 => Self::B32("x"),
            _ => Self::B64("x"),
        }
    }
}

/// The names of the operands of a form, in order.
const OPERANDS: [&str; 5] = ["a", "b", "c", "e", "f"];

/// A row in which each thread reads its own operands, `%a`, `%b`, `%c`, `%e` and `%f`, executes
/// `body` and writes its results.
pub fn lanes(name: &str, columns: &[Column], results: &[Out], body: &str) -> Case {
    lanes_with(name, columns, results, body, "", Compare::Bits)
}

/// The same with variables of the module and a comparison.
pub fn lanes_with(
    name: &str,
    columns: &[Column],
    results: &[Out],
    body: &str,
    module: &str,
    compare: Compare,
) -> Case {
    let count = columns.iter().map(|column| column.values.len()).min().unwrap_or(32);
    let count = (count / 32 * 32).clamp(32, 256);
    let mut text = String::from("    .reg .pred %p, %q;\n");
    let mut input = Vec::new();
    for (column, operand) in columns.iter().zip(OPERANDS) {
        let (bits, load) =
            if column.bytes == 1 { (16, 8) } else { (column.bytes * 8, column.bytes * 8) };
        // Every column starts at a multiple of 16.
        input.resize(input.len().next_multiple_of(16), 0);
        let bytes = column.bytes;
        let start = input.len();
        let _ = writeln!(
            text,
            "    .reg .b{bits} %{operand};\n    mad.lo.u64 %d0, %wide, {bytes}, %input;\n    \
             ld.global.b{load} %{operand}, [%d0+{start}];"
        );
        input.extend(column.encoded());
    }
    for result in results {
        let (bits, register) = match *result {
            Out::B16(register) => (16, register),
            Out::B32(register) => (32, register),
            Out::B64(register) => (64, register),
            Out::Pred(_) => continue,
        };
        let _ = writeln!(text, "    .reg .b{bits} %{register};");
    }
    let _ = writeln!(text, "    {body}");
    let mut start = 0_usize;
    for result in results {
        let bytes = result.bytes();
        start = start.next_multiple_of(8);
        let _ = writeln!(text, "    mad.lo.u64 %d0, %wide, {bytes}, %output;");
        let _ = match *result {
            Out::Pred(register) => writeln!(
                text,
                "    selp.b32 %r0, 1, 0, %{register};\n    st.global.b8 [%d0+{start}], %r0;"
            ),
            Out::B16(register) | Out::B32(register) | Out::B64(register) => {
                writeln!(text, "    st.global.b{} [%d0+{start}], %{register};", bytes * 8)
            }
        };
        start += bytes * count;
    }
    let mut case = case(name, &Text { module, body: &text, ..Text::default() }, input, start);
    case.block = [count as u32, 1, 1];
    case.compare = compare;
    case
}

/// What outputs hold before the launch, so that a kernel that writes nothing is noticed.
pub const UNWRITTEN: u8 = 0xA5;

/// A row with a body of its own, of one warp.
pub fn case(name: &str, text: &Text, input: Vec<u8>, output_bytes: usize) -> Case {
    Case {
        name: name.to_owned(),
        ptx: text.module(),
        grid: [1; 3],
        block: [32, 1, 1],
        cluster: [1; 3],
        dynamic_shared_bytes: 0,
        input,
        output: vec![UNWRITTEN; output_bytes],
        maps: Vec::new(),
        compare: Compare::Bits,
        refused: None,
    }
}

/// A row in which every thread of a block computes one 32-bit word, `%x`, by a body of its own.
pub fn words(name: &str, threads: u32, module: &str, body: &str) -> Case {
    let body = format!(
        "    .reg .b32 %x;\n{body}\n    mad.lo.u64 %d0, %wide, 4, %output;\n    \
         st.global.b32 [%d0], %x;"
    );
    let text = Text { module, body: &body, ..Text::default() };
    let mut case = case(name, &text, random_bytes(name, 1024), threads as usize * 4);
    case.block = [threads, 1, 1];
    case
}

/// Bytes that depend on the name only.
pub fn random_bytes(name: &str, count: usize) -> Vec<u8> {
    let mut random = Random::of(name);
    (0..count.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(count).collect()
}
