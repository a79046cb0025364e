//! What becomes of a finished sum:
//! `D = round(alpha · sum + bias_scale · bias + beta · D)`, in FP32 up to the one rounding. Alpha
//! and `bias_scale` may have a factor for each row.
//!
//! The bias is added to the scaled sum, and the former output last; D is not read where beta is
//! zero.
//!
//! An accumulator is finished by one of three roads. A *plain* output of the operands' type (of 16
//! bits, where theirs has 8), the scaled sum alone, is rounded and goes through shared memory in
//! straight code, which the kernel has (`sm90/boxes.rs`, `sm100/staging.rs`). FP32 gradients of
//! weights in one piece go through stages of Hopper's ring, by tensor copies both ways
//! (`sm90/lent.rs`). All else goes chunk by chunk through one piece of code with branches for what
//! there is to add and for the types ([`Epilogue::store_chunk`]): a copy for every combination
//! would be faster by little, and slow to load by a lot.

use ptx_std::convert::fma;
use ptx_std::memory::{
    load_constant_f32, load_constant_f32x2_if, load_constant_u32_if, load_constant_u64,
    load_u32x2_if, load_u32x4_if, store_f32x4_if, store_u32x2_if,
};
use ptx_std::thread::shuffle_xor_f32;

use super::element::Kind;
use crate::abi::GemmArgs;
use crate::table::Table;

/// Columns of a chunk, the unit of [`Epilogue::store_chunk`]: four pairs of fragments.
pub const CHUNK: u32 = 64;

/// What a kernel knows of its outputs at compile time. Code for what they cannot have is left out.
#[derive(Clone, Copy)]
pub struct Known {
    /// Whether there may be a bias.
    pub bias: bool,
    /// Whether alpha may have a factor for each row.
    pub row_scales: bool,
    /// What the columns are a multiple of: 8, or 32, the half of a chunk.
    pub column_unit: u32,
}

/// The epilogue of one group.
pub struct Epilogue {
    alpha: f32,
    beta: f32,
    /// First bias of the group; 0: none.
    bias: u64,
    bias_kind: Kind,
    /// Bias factor of the group's first row; 0: all are one.
    bias_scales: u64,
    /// Factor of alpha of the group's first row; 0: all are one.
    row_scales: u64,
    row_scale_factor: f32,
    d: u64,
    d_kind: Kind,
    /// Columns of the output.
    pub n: u32,
    /// The first column that is not to be touched.
    end: u32,
    /// [`Known::column_unit`].
    column_unit: u32,
}

impl Epilogue {
    /// The epilogue of `group`, with what is known of the output.
    ///
    /// # Safety
    ///
    /// The addresses in `args` are valid for what its fields describe, and what is known is so. The
    /// other functions rely on it.
    #[inline(always)]
    pub unsafe fn new(args: &GemmArgs, table: &Table, group: u32, known: Known) -> Self {
        let bias_kind = Kind(args.bias_type);
        // SAFETY: the caller's group is one of the table's.
        unsafe {
            let bias = if !known.bias {
                0
            } else if args.bias_array != 0 {
                load_constant_u64(args.bias_array + 8 * u64::from(group))
            } else if args.bias != 0 {
                args.bias + u64::from(group) * u64::from(args.n) * bias_kind.bytes()
            } else {
                0
            };
            let bias_scales = if known.bias && args.bias_row_scales != 0 {
                args.bias_row_scales + 4 * table.row_offset(group) as u64
            } else {
                0
            };
            let row_scales = if known.row_scales && args.row_scales != 0 {
                args.row_scales + 4 * table.row_offset(group) as u64
            } else {
                0
            };
            Self {
                alpha: table.alpha(group),
                beta: table.beta(group),
                bias,
                bias_kind,
                bias_scales,
                row_scales,
                row_scale_factor: args.row_scale_factor,
                d: table.d_pointer(group),
                d_kind: Kind(args.d_type),
                n: args.n,
                end: args.n,
                column_unit: known.column_unit,
            }
        }
    }

    /// Leaves the columns from `end` on to others.
    #[inline(always)]
    pub fn until(self, end: u32) -> Self {
        Self { end: self.n.min(end), ..self }
    }

    /// The first column that is not to be touched.
    #[inline(always)]
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The bias factor of a row of the group.
    ///
    /// # Safety
    ///
    /// The row is one of the group's.
    #[inline(always)]
    pub unsafe fn bias_scale(&self, row: u32) -> f32 {
        if self.bias_scales == 0 {
            return 1.0;
        }
        // SAFETY: there is a factor for each row.
        unsafe { load_constant_f32(self.bias_scales + 4 * u64::from(row)) }
    }

    /// Alpha of a row of the group, which is live or not.
    ///
    /// # Safety
    ///
    /// A live row is one of the group's.
    #[inline(always)]
    pub unsafe fn row_alpha(&self, row: u32, live: bool) -> f32 {
        if self.row_scales == 0 || !live {
            return self.alpha;
        }
        // SAFETY: there is a factor for each row.
        let scale = unsafe { load_constant_f32(self.row_scales + 4 * u64::from(row)) };
        self.alpha * (scale * self.row_scale_factor)
    }

    /// Address of an element of the output.
    #[inline(always)]
    pub fn address(&self, row: u32, column: u32) -> u64 {
        let index = u64::from(row) * u64::from(self.n) + u64::from(column);
        self.d + index * self.d_kind.bytes()
    }

    /// Finishes one element, with its row's alpha and bias factor.
    ///
    /// # Safety
    ///
    /// The element is inside the group's output and belongs to this thread.
    #[inline(always)]
    pub unsafe fn store(&self, row: u32, column: u32, [alpha, bias_scale]: [f32; 2], sum: f32) {
        let address = self.address(row, column);
        // SAFETY: the caller vouches for the element; the bias has `n` elements.
        unsafe {
            let mut value = alpha * sum;
            if self.bias != 0 {
                let at = self.bias + u64::from(column) * self.bias_kind.bytes();
                value = fma(bias_scale, self.bias_kind.load_constant(at), value);
            }
            if self.beta != 0.0 {
                value = fma(self.beta, self.d_kind.load(address), value);
            }
            self.d_kind.store(address, value);
        }
    }

    /// Asks for the former output of a chunk, if it is to be added, without waiting for it.
    ///
    /// # Safety
    ///
    /// The elements of both rows at columns below `n` belong to the warp. The number of columns is
    /// a multiple of eight, D is aligned to 16 bytes, `column` is a multiple of eight.
    #[inline(always)]
    pub unsafe fn load_former(&self, lane: u32, rows: &[Row; 2], column: u32) -> Former {
        let nothing = [[[0; 4]; 4]; 2];
        if self.beta == 0.0 || column >= self.end {
            return nothing;
        }
        let columns = Columns::new(lane, column, self);
        let [upper, lower] = rows;
        // SAFETY: only runs inside the output are loaded, of live rows.
        unsafe {
            if self.d_kind.is_f32() {
                [upper.load::<4>(&columns), lower.load::<4>(&columns)]
            } else {
                [upper.load::<2>(&columns), lower.load::<2>(&columns)]
            }
        }
    }

    /// The numbers in what [`Epilogue::load_former`] loaded.
    #[inline(always)]
    fn unpack_former(&self, former: &Former) -> [Runs; 2] {
        match self.d_kind.0 {
            Kind::BF16 => former.map(unpack_runs::<{ Kind::BF16 }>),
            Kind::F16 => former.map(unpack_runs::<{ Kind::F16 }>),
            _ => former.map(unpack_runs::<{ Kind::F32 }>),
        }
    }

    /// Finishes a chunk of a wgmma accumulator, of which `sums` are a thread's 32, in two rows.
    /// `former` comes from [`Epilogue::load_former`]. Returns that of the chunk at `next_column`,
    /// asked for as soon as the registers of `former` are free.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, with `column` a multiple of eight below `n`. The elements
    /// of both rows at columns below `n` belong to the warp. The number of columns is a multiple of
    /// eight, D is aligned to 16 bytes, the bias to two of its elements.
    #[inline(always)]
    pub unsafe fn store_chunk(
        &self,
        lane: u32,
        rows: &[Row; 2],
        column: u32,
        sums: &Chunk,
        former: &Former,
        next_column: u32,
    ) -> Former {
        let columns = Columns::new(lane, column, self);
        let [upper, lower] = rows;
        // SAFETY: the caller keeps the contract above; only runs inside the output are loaded and
        // stored, of live rows.
        unsafe {
            // Collect runs and scale them.
            let scale = |runs: Runs, factor: f32| runs.map(|run| run.map(|sum| factor * sum));
            let mut above = scale(gather_runs(lane, sums, 0), upper.alpha);
            let mut below = scale(gather_runs(lane, sums, 2), lower.alpha);

            // Add the bias.
            if self.bias != 0 {
                let bias = self.load_bias(&columns);
                above = add_runs(above, upper.scale, bias);
                below = add_runs(below, lower.scale, bias);
            }

            // Add the former output.
            if self.beta != 0.0 {
                let [former_above, former_below] = self.unpack_former(former);
                above = add_runs(above, self.beta, former_above);
                below = add_runs(below, self.beta, former_below);
            }

            // Ask for the next chunk's former output, which comes while this chunk is stored.
            let next_former = self.load_former(lane, rows, next_column);

            // Round and store.
            match self.d_kind.0 {
                Kind::BF16 => {
                    upper.store::<{ Kind::BF16 }>(&columns, above);
                    lower.store::<{ Kind::BF16 }>(&columns, below);
                }
                Kind::F16 => {
                    upper.store::<{ Kind::F16 }>(&columns, above);
                    lower.store::<{ Kind::F16 }>(&columns, below);
                }
                _ => {
                    upper.store::<{ Kind::F32 }>(&columns, above);
                    lower.store::<{ Kind::F32 }>(&columns, below);
                }
            }
            next_former
        }
    }

    /// The bias of a thread's columns, zeros outside the output.
    #[inline(always)]
    unsafe fn load_bias(&self, columns: &Columns) -> Runs {
        // SAFETY: handed to the caller.
        unsafe {
            match self.bias_kind.0 {
                Kind::BF16 => self.load_bias_of::<{ Kind::BF16 }>(columns),
                Kind::F16 => self.load_bias_of::<{ Kind::F16 }>(columns),
                _ => self.load_bias_of::<{ Kind::F32 }>(columns),
            }
        }
    }

    /// [`Epilogue::load_bias`] of the kind `B`, in pairs: it need not be aligned to more.
    #[inline(always)]
    unsafe fn load_bias_of<const B: u32>(&self, columns: &Columns) -> Runs {
        let kind = Kind(B);
        let first = self.bias + u64::from(columns.first) * kind.bytes();
        let load = |inside: bool, address: u64| {
            // SAFETY: handed to the caller.
            unsafe {
                if kind.is_f32() {
                    load_constant_f32x2_if(inside, address)
                } else {
                    kind.unpack(load_constant_u32_if(inside, address))
                }
            }
        };
        [0, 1, 2, 3].map(|run| {
            let address = first + 16 * u64::from(run) * kind.bytes();
            let [a, b] = load(columns.inside(run), address);
            let [c, d] = load(columns.inside(run), address + 2 * kind.bytes());
            [a, b, c, d]
        })
    }

    /// Whether the output is the scaled sum alone: no bias, nothing of the former output.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.bias == 0 && self.beta == 0.0
    }

    /// Factor of the group's sums.
    #[inline(always)]
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// Factor of the former output.
    #[inline(always)]
    pub fn beta(&self) -> f32 {
        self.beta
    }

    /// The kind of the output.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.d_kind
    }

    /// The row `index` of the group, of which `rows` are live.
    ///
    /// # Safety
    ///
    /// `rows` is at most the number of the output's rows.
    #[inline(always)]
    pub unsafe fn row(&self, index: u32, rows: u32) -> Row {
        let live = index < rows;
        // SAFETY: only a live row's factors are read.
        let scale = if live { unsafe { self.bias_scale(index) } } else { 0.0 };
        // SAFETY: a live row is one of the group's.
        let alpha = unsafe { self.row_alpha(index, live) };
        Row { live, alpha, scale, address: self.address(index, 0) }
    }
}

/// One thread's sums of a chunk: fragment `j` has `4 j` and `4 j + 1` in the upper row, `4 j + 2`
/// and `4 j + 3` in the lower.
pub type Chunk = [f32; 32];

/// Four neighbours in a row.
type Run = [f32; 4];

/// One thread's columns of a chunk, in one row.
type Runs = [Run; 4];

/// The bits of [`Runs`]: 16-bit numbers fill the first two words of a run.
type Words = [[u32; 4]; 4];

/// One thread's former output in a chunk: the upper row's and the lower's.
pub type Former = [Words; 2];

/// Which columns a thread's runs have: run `i` starts at `first + 16 i`.
struct Columns {
    first: u32,
    /// Columns that may be touched from the first run's fragment on, perhaps none.
    left: u32,
    /// [`Known::column_unit`].
    unit: u32,
}

impl Columns {
    /// The columns of `lane` in the chunk at `column`, as [`gather_run`] gives them out.
    #[inline(always)]
    fn new(lane: u32, column: u32, epilogue: &Epilogue) -> Self {
        let fragment = column + 8 * (lane & 1);
        let first = fragment + 2 * (lane & 2);
        Self { first, left: epilogue.end - fragment, unit: epilogue.column_unit }
    }

    /// Whether a run is inside the output, where its fragment is as a whole, and what comes with
    /// it.
    #[inline(always)]
    fn inside(&self, run: u32) -> bool {
        let column = 16 * run;
        column - column % self.unit.max(16) < self.left
    }
}

/// A row of a group's output.
pub struct Row {
    /// Whether the group has the row.
    live: bool,
    /// Factor of its sums.
    alpha: f32,
    /// Its bias factor.
    scale: f32,
    /// Address of its first element.
    address: u64,
}

impl Row {
    /// Factor of its sums.
    #[inline(always)]
    pub fn alpha(&self) -> f32 {
        self.alpha
    }

    /// Loads a thread's columns, of `BYTES` each; zeros outside the output.
    #[inline(always)]
    unsafe fn load<const BYTES: u32>(&self, columns: &Columns) -> Words {
        let first = self.address + u64::from(columns.first) * u64::from(BYTES);
        [0, 1, 2, 3].map(|run| {
            let live = self.live && columns.inside(run);
            let address = first + u64::from(16 * run * BYTES);
            // SAFETY: handed to the caller.
            unsafe {
                if BYTES == 4 {
                    load_u32x4_if(live, address)
                } else {
                    let [low, high] = load_u32x2_if(live, address);
                    [low, high, 0, 0]
                }
            }
        })
    }

    /// Rounds and stores a thread's columns, of kind `D`, as far as they are inside the output.
    #[inline(always)]
    unsafe fn store<const D: u32>(&self, columns: &Columns, [a, b, c, d]: Runs) {
        let kind = Kind(D);
        let first = self.address + u64::from(columns.first) * kind.bytes();
        let store = |run: u32, values: Run| {
            let live = self.live && columns.inside(run);
            let address = first + 16 * u64::from(run) * kind.bytes();
            // SAFETY: handed to the caller.
            unsafe {
                if kind.is_f32() {
                    store_f32x4_if(live, address, values);
                } else {
                    let [a, b, c, d] = values;
                    store_u32x2_if(live, address, [kind.pack([a, b]), kind.pack([c, d])]);
                }
            }
        };
        store(0, a);
        store(1, b);
        store(2, c);
        store(3, d);
    }
}

/// The numbers of kind `D` in a thread's columns of a row.
#[inline(always)]
fn unpack_runs<const D: u32>(words: Words) -> Runs {
    words.map(|[a, b, c, d]| {
        if Kind(D).is_f32() {
            [a, b, c, d].map(f32::from_bits)
        } else {
            let ([a, b], [c, d]) = (Kind(D).unpack(a), Kind(D).unpack(b));
            [a, b, c, d]
        }
    })
}

/// `values + factor · terms`.
#[inline(always)]
fn add_runs([a, b, c, d]: Runs, factor: f32, [p, q, r, s]: Runs) -> Runs {
    [add(a, factor, p), add(b, factor, q), add(c, factor, r), add(d, factor, s)]
}

/// `values + factor · terms`.
#[inline(always)]
fn add([a, b, c, d]: Run, factor: f32, [p, q, r, s]: Run) -> Run {
    [fma(factor, p, a), fma(factor, q, b), fma(factor, r, c), fma(factor, s, d)]
}

/// A thread's runs of a chunk, in the upper row (`row` 0) or the lower (2).
#[inline(always)]
unsafe fn gather_runs(lane: u32, sums: &Chunk, row: usize) -> Runs {
    // SAFETY: the caller brings the whole warp.
    unsafe {
        [
            gather_run(lane, [sums[row], sums[row + 1]], [sums[row + 4], sums[row + 5]]),
            gather_run(lane, [sums[row + 8], sums[row + 9]], [sums[row + 12], sums[row + 13]]),
            gather_run(lane, [sums[row + 16], sums[row + 17]], [sums[row + 20], sums[row + 21]]),
            gather_run(lane, [sums[row + 24], sums[row + 25]], [sums[row + 28], sums[row + 29]]),
        ]
    }
}

/// Exchanges two columns of each of two fragments for four of one: the even lanes of a quad get the
/// halves of the left fragment, the odd lanes those of the right. What a quad then stores is 64
/// contiguous bytes in pieces of 16 (binary32).
#[inline(always)]
unsafe fn gather_run(lane: u32, left: [f32; 2], right: [f32; 2]) -> Run {
    let odd = lane & 1 != 0;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        let a = shuffle_xor_f32(if odd { left[0] } else { right[0] }, 1);
        let b = shuffle_xor_f32(if odd { left[1] } else { right[1] }, 1);
        if odd { [a, b, right[0], right[1]] } else { [left[0], left[1], a, b] }
    }
}
