//! `tcgen05.mma`: from its text to a product under way (PTX ISA 9.1, 9.7.16.10). The arithmetic is
//! in `matrix/tcgen05`.

use std::ops::Range;

use super::engine::{Task, Work, check_product, issue as enqueue};
use super::lower::{take_group, tensor_address};
use super::memory::{Cells, Effect};
use super::pipeline::Accumulator;
use super::{Group, Operation, address, check_issue, ranks};
use crate::arch::Arch;
use crate::execute::block::{Block, Cluster};
use crate::execute::grid::GridState;
use crate::execute::registers::lanes;
use crate::execute::report::{Fault, ReportKind};
use crate::execute::{Context, Outcome};
use crate::matrix::MatrixError;
use crate::matrix::tcgen05::{
    Cells as ProductCells, Footprint, Kind, LANES, Memory, Mma, MmaForm, Operands, ScaleVector,
};
use crate::matrix::wgmma::Scale;
use crate::module::Operand;
use crate::ops::access::race_fault;
use crate::ops::mbarrier::SharedPlace;
use crate::program::operand::{Address, Source32, Source64, SourcePredicate};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::Proxy;

/// `tcgen05.mma`.
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    form: MmaForm,
    d: Address,
    a: SourceA,
    b: Source64,
    instruction: Source32,
    /// Where the scale factors of A and B are.
    scales: Option<[Address; 2]>,
    /// A bit for each lane whose D stays as it is, 32 lanes a register.
    disabled: Box<[Source32]>,
    accumulate: SourcePredicate,
}

/// Where A comes from.
#[derive(Clone, Copy, Debug)]
enum SourceA {
    Shared(Source64),
    Tensor(Address),
}

const KINDS: [(&str, Kind); 7] = [
    ("kind::f16", Kind::F16),
    ("kind::tf32", Kind::Tf32),
    ("kind::f8f6f4", Kind::F8f6f4),
    ("kind::i8", Kind::I8),
    ("kind::mxf8f6f4", Kind::Mxf8f6f4),
    ("kind::mxf4", Kind::Mxf4),
    ("kind::mxf4nvf4", Kind::Mxf4nvf4),
];

/// Lowers `tcgen05.mma`.
pub(super) fn lower(form: &mut Form<'_, '_>) -> Result<Operation, Problem> {
    if form.has("sp") {
        return Err("products with `.sp` are not emulated".to_owned());
    }
    let weight_stationary = form.take("ws");
    let group = take_group(form)?;
    let kind = form.take_one(&KINDS).ok_or("a `.kind` is missing")?;
    if kind == Kind::I8 && !form.is_for(Arch::Sm100a) {
        return Err("`.kind::i8` needs the target sm_100a".to_owned());
    }
    let scale_vector = take_scale_vector(form, kind)?;
    let shift_a = form.take("ashift");
    let usage = take_collector(form, weight_stationary);
    if let Some(usage @ ("fill" | "use")) = usage.filter(|_| shift_a) {
        return Err(format!("`.ashift` cannot be with `.collector::a::{usage}`"));
    }
    form.finish()?;
    let a_in_tensor_memory = matches!(form.operand(1)?, Operand::Address(_));
    let mut next = 4;
    let scales = match scale_vector {
        None => None,
        Some(_) => {
            next += 2;
            Some([tensor_address(form, 4)?, tensor_address(form, 5)?])
        }
    };
    let disabled: Box<[Source32]> = match form.operand(next)? {
        Operand::Vector(list) => {
            let count = if group == Group::One { 4 } else { 8 };
            if list.len() != count {
                return Err(format!("{count} registers of disabled lanes are wanted here"));
            }
            next += 1;
            let sources = list.iter().map(|own| form.source32_of(own, DataType::B32));
            sources.collect::<Result<_, _>>()?
        }
        _ => Box::default(),
    };
    let accumulate = form.predicate(next)?;
    let last = next + 1;
    let scale_input_d = match form.count() == last + 1 {
        true if weight_stationary => {
            return Err("the mask of columns of `.ws` is not emulated".to_owned());
        }
        true => Some(u32::try_from(form.constant(last)?).map_err(|_| "a negative scale of D")?),
        false => {
            form.expect(last)?;
            None
        }
    };
    let mma = MmaForm {
        kind,
        group,
        scale_vector,
        a_in_tensor_memory,
        weight_stationary,
        masked: !disabled.is_empty(),
        shift_a,
        scale_input_d,
    };
    mma.check().map_err(|error| error.to_string())?;
    let a = match a_in_tensor_memory {
        true => SourceA::Tensor(tensor_address(form, 1)?),
        false => SourceA::Shared(form.source64(1, DataType::B64)?),
    };
    Ok(Operation::Multiply(Box::new(Multiply {
        form: mma,
        d: tensor_address(form, 0)?,
        a,
        b: form.source64(2, DataType::B64)?,
        instruction: form.source32(3, DataType::B32)?,
        scales,
        disabled,
        accumulate,
    })))
}

/// How many scale factors a row has in a slice of K, for kinds with some.
fn take_scale_vector(form: &mut Form<'_, '_>, kind: Kind) -> Result<Option<ScaleVector>, Problem> {
    let blocks = match kind {
        Kind::Mxf8f6f4 => ScaleVector::X1,
        Kind::Mxf4 | Kind::Mxf4nvf4 => ScaleVector::X2,
        _ => return Ok(None),
    };
    if !form.take("block_scale") {
        return Err("`.block_scale` is missing".to_owned());
    }
    let vectors = [
        ("scale_vec::1X", ScaleVector::X1),
        ("scale_vec::2X", ScaleVector::X2),
        ("scale_vec::4X", ScaleVector::X4),
        ("block32", blocks),
        ("block16", ScaleVector::X4),
    ];
    // The words that name a number of factors are those of one architecture; its family names
    // the length of a block.
    let counts = ["scale_vec::1X", "scale_vec::2X", "scale_vec::4X"];
    if counts.into_iter().any(|word| form.has(word)) && !form.is_for(Arch::Sm100a) {
        return Err("`.scale_vec` needs the target sm_100a; others have `.block16` and `.block32`"
            .to_owned());
    }
    match form.take_one(&vectors) {
        Some(own) => Ok(Some(own)),
        None if kind == Kind::Mxf4nvf4 => Err("`.scale_vec` or `.block16` is missing".to_owned()),
        None => Ok(Some(blocks)),
    }
}

/// The collector buffers hold what was read before; that they are used changes no result.
/// Returns how they are used.
fn take_collector(form: &mut Form<'_, '_>, weight_stationary: bool) -> Option<&'static str> {
    let buffers: &[&str] = match weight_stationary {
        true => &["collector::b0", "collector::b1", "collector::b2", "collector::b3"],
        false => &["collector::a"],
    };
    form.take_with(|word| {
        let (buffer, usage) = word.rsplit_once("::")?;
        let usages = ["fill", "use", "lastuse", "discard"];
        let usage = usages.into_iter().find(|known| *known == usage)?;
        buffers.contains(&buffer).then_some(usage)
    })
}

/// A product under way.
#[derive(Debug)]
pub(super) struct Product {
    mma: Mma,
    /// The ranks of its blocks.
    ranks: Vec<usize>,
    /// Rank, start and length of what is read of shared memory.
    shared: Vec<(usize, u64, u64)>,
    read: Vec<Cells>,
    written: Vec<Cells>,
    accumulator: Accumulator,
}

/// Issues the products of the executing threads.
pub(super) fn issue(own: &Multiply, context: &mut Context<'_>) -> Outcome {
    check_issue(own.form.group, context)?;
    let ranks = ranks(own.form.group, context.rank);
    let operands = operands(own, context);
    for lane in lanes(context.mask) {
        let mma = Mma::new(&own.form, &operands[lane])
            .map_err(|error| Fault::at_lane(lane, ReportKind::Operand(error.to_string())))?;
        let product = Product::new(mma, operands[lane].d, ranks.clone());
        for cells in product.read.iter().chain(&product.written) {
            let memory = &context.cluster.blocks[cells.rank].tensor.memory;
            let checked = memory.check(&cells.columns);
            checked.map_err(|fault| Fault { lane: Some(lane as u32), ..fault })?;
        }
        let checked = check_product(context, lane, &product);
        checked.map_err(|fault| Fault { lane: Some(lane as u32), ..fault })?;
        enqueue(context, lane, Work::Multiply(Box::new(product)));
    }
    Ok(())
}

/// What the lanes give.
fn operands(own: &Multiply, context: &Context<'_>) -> [Operands; 32] {
    let registers = &context.frame.registers;
    let d = address(own.d, context);
    let a = match own.a {
        SourceA::Shared(source) => registers.doubles(source),
        SourceA::Tensor(own) => address(own, context).map(u64::from),
    };
    let b = registers.doubles(own.b);
    let instruction = registers.words(own.instruction);
    let scales = own.scales.map_or([[0; 32]; 2], |own| own.map(|own| address(own, context)));
    let disabled: Vec<[u32; 32]> = own.disabled.iter().map(|own| registers.words(*own)).collect();
    let accumulate = registers.predicate(own.accumulate);
    std::array::from_fn(|lane| {
        let masks = |block: usize| {
            let words = disabled.iter().skip(4 * block).take(4).zip([0, 32, 64, 96]);
            words.fold(0, |all, (words, shift)| all | u128::from(words[lane]) << shift)
        };
        Operands {
            d: d[lane],
            a: a[lane],
            b: b[lane],
            instruction: instruction[lane],
            scales: scales.map(|own| own[lane]),
            accumulate: match accumulate >> lane & 1 {
                0 => Scale::Overwrite,
                _ => Scale::Accumulate,
            },
            disabled: [masks(0), masks(1)],
        }
    })
}

impl Product {
    fn new(mma: Mma, d: u32, ranks: Vec<usize>) -> Self {
        let (m, n, _) = mma.shape();
        let Footprint { shared, read, written } = mma.footprint();
        let rank = |block: usize| ranks.get(block).copied().unwrap_or_default();
        let cells = |list: Vec<ProductCells>| -> Vec<Cells> {
            let list = list.into_iter();
            list.map(|ProductCells { block, lanes, columns }| Cells {
                rank: rank(block),
                lanes,
                columns,
            })
            .collect()
        };
        let (read, written) = (cells(read), cells(written));
        let shared = shared.iter();
        let shared =
            shared.map(|own| (rank(own.block), own.start.into(), own.bytes.into())).collect();
        Self { mma, ranks, shared, read, written, accumulator: (d, m, n) }
    }

    /// Its accumulator, and what it reads and writes of tensor memory.
    pub(super) fn cells(&self) -> (Accumulator, &[Cells], &[Cells]) {
        (self.accumulator, &self.read, &self.written)
    }

    /// Whether it may touch columns of a block.
    pub(super) fn uses(&self, rank: usize, columns: &Range<u32>) -> bool {
        self.read.iter().chain(&self.written).any(|own| own.touches(rank, columns))
    }

    /// Reads, multiplies and writes.
    pub(super) fn perform(
        &self,
        task: &Task,
        cluster: &mut Cluster,
        grid: &mut GridState,
    ) -> Outcome {
        for rank in &self.ranks {
            let block = &mut cluster.blocks[*rank];
            if block.live_threads == 0 {
                let text = format!("block {rank} has exited while a tcgen05.mma was running");
                return Err(Fault::synchronisation(text));
            }
            self.note_shared(task, block, grid)?;
        }
        self.note_tensor(task, cluster, grid)?;
        let blocks = &mut *cluster.blocks;
        self.mma.execute(&mut Memories { blocks, ranks: &self.ranks }).map_err(
            |error| match error {
                MatrixError::OutsideShared { offset, length } => {
                    outside(self.ranks[0], offset.into(), 16, length)
                }
                error => Fault::operand(error.to_string()),
            },
        )?;
        let (m, n, k) = self.mma.shape();
        grid.statistics.multiply_adds += u64::from(m) * u64::from(n) * u64::from(k);
        Ok(())
    }

    /// Checks and records what is read of a block's shared memory.
    fn note_shared(&self, task: &Task, block: &mut Block, grid: &mut GridState) -> Outcome {
        let rank = block.rank as usize;
        let own = self.shared.iter().filter(|(own, ..)| *own == rank);
        let ranges = own.map(|(_, start, length)| (*start, *length));
        let size = block.shared.len();
        if let Some((start, length)) = ranges.clone().find(|(at, own)| at + own > size as u64) {
            return Err(outside(rank, start, length, size));
        }
        let Some(access) = task.access(Proxy::Async) else { return Ok(()) };
        let base = SharedPlace { rank, offset: 0 }.address();
        grid.races
            .async_read_all(&mut block.shadow, &access, ranges)
            .map_err(|report| race_fault(&grid.races, &report, "shared", base))
    }

    /// Checks and records what is read and written of tensor memory.
    fn note_tensor(&self, task: &Task, cluster: &mut Cluster, grid: &mut GridState) -> Outcome {
        let Some(access) = task.access(Proxy::Tensor) else { return Ok(()) };
        // Writes come first: one reader is kept of each place, and must be another's.
        for (list, effect) in [(&self.written, Effect::Write), (&self.read, Effect::Read)] {
            for cells in list {
                let memory = &mut cluster.blocks[cells.rank].tensor.memory;
                memory.note(&mut grid.races, &access, cells, effect)?;
                if effect == Effect::Read {
                    memory.check_written(cells)?;
                }
            }
        }
        Ok(())
    }
}

fn outside(rank: usize, start: u64, bytes: u64, length: usize) -> Fault {
    let kind = ReportKind::OutOfBounds {
        access: "tcgen05.mma",
        space: "shared",
        address: SharedPlace { rank, offset: 0 }.address() + start,
        bytes,
        hint: format!("; a descriptor leads there, and the block has up to {length:#x}"),
    };
    kind.into()
}

/// The memories of the blocks of a product.
struct Memories<'a> {
    blocks: &'a mut [Block],
    ranks: &'a [usize],
}

impl Memories<'_> {
    fn block(&self, block: usize) -> Option<&Block> {
        self.blocks.get(*self.ranks.get(block)?)
    }
}

impl Memory for Memories<'_> {
    fn shared(&self, block: usize) -> &[u8] {
        self.block(block).map_or(&[], |own| &own.shared)
    }

    fn column(&self, block: usize, column: u32) -> [u32; LANES] {
        self.block(block).map_or([0; LANES], |own| own.tensor.memory.column(column))
    }

    fn set_column(&mut self, block: usize, column: u32, lanes: u128, words: &[u32; LANES]) {
        let rank = self.ranks.get(block).copied();
        if let Some(own) = rank.and_then(|rank| self.blocks.get_mut(rank)) {
            own.tensor.memory.set_column(column, lanes, words);
        }
    }
}
