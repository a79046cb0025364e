//! What becomes of a finished sum:
//! `D = round(alpha · sum + row_scale · bias + beta · D)`, in FP32 up to the one rounding.
//!
//! The bias is added to the scaled sum, and the former output last; D is not read where beta is
//! zero.

use ptx_std::convert::fma;
use ptx_std::memory::{
    load_constant_f32, load_constant_u64, load_f32x2_if, load_u32_if, store_f32x2_if,
    store_u32x4_if,
};
use ptx_std::thread::shuffle_xor;

use super::element::Kind;
use crate::abi::GemmArgs;
use crate::table::Table;

/// Columns of a slab, the unit in which [`Epilogue::store_slab`] works: four 8-column fragments.
pub const SLAB: u32 = 32;

/// The epilogue of one group.
pub struct Epilogue {
    alpha: f32,
    beta: f32,
    /// First bias of the group; 0: none.
    bias: u64,
    bias_kind: Kind,
    /// Bias factor of the group's first row; 0: all are one.
    row_scales: u64,
    d: u64,
    d_kind: Kind,
    /// Columns of the output.
    pub n: u32,
}

impl Epilogue {
    /// The epilogue of `group`.
    ///
    /// # Safety
    ///
    /// The addresses in `args` are valid for what its fields describe. The other functions rely on
    /// it.
    #[inline(always)]
    pub unsafe fn new(args: &GemmArgs, table: &Table, group: u32) -> Self {
        let bias_kind = Kind(args.bias_type);
        // SAFETY: the caller's group is one of the table's.
        unsafe {
            let bias = if args.bias_array != 0 {
                load_constant_u64(args.bias_array + 8 * u64::from(group))
            } else if args.bias != 0 {
                args.bias + u64::from(group) * u64::from(args.n) * bias_kind.bytes()
            } else {
                0
            };
            let row_scales = if args.bias_row_scales != 0 {
                args.bias_row_scales + 4 * table.row_offset(group) as u64
            } else {
                0
            };
            Self {
                alpha: table.alpha(group),
                beta: table.beta(group),
                bias,
                bias_kind,
                row_scales,
                d: table.d_pointer(group),
                d_kind: Kind(args.d_type),
                n: args.n,
            }
        }
    }

    /// The bias factor of a row of the group.
    ///
    /// # Safety
    ///
    /// The row is one of the group's.
    #[inline(always)]
    pub unsafe fn row_scale(&self, row: u32) -> f32 {
        if self.row_scales == 0 {
            return 1.0;
        }
        // SAFETY: there is a factor for each row.
        unsafe { load_constant_f32(self.row_scales + 4 * u64::from(row)) }
    }

    /// Address of an element of the output.
    #[inline(always)]
    fn address(&self, row: u32, column: u32) -> u64 {
        let index = u64::from(row) * u64::from(self.n) + u64::from(column);
        self.d + index * self.d_kind.bytes()
    }

    /// Finishes one element.
    ///
    /// # Safety
    ///
    /// The element is inside the group's output and belongs to this thread.
    #[inline(always)]
    pub unsafe fn store(&self, row: u32, column: u32, row_scale: f32, sum: f32) {
        let address = self.address(row, column);
        // SAFETY: the caller vouches for the element; the bias has `n` elements.
        unsafe {
            let mut value = self.alpha * sum;
            if self.bias != 0 {
                let at = self.bias + u64::from(column) * self.bias_kind.bytes();
                value = fma(row_scale, self.bias_kind.load_constant(at), value);
            }
            if self.beta != 0.0 {
                value = fma(self.beta, self.d_kind.load(address), value);
            }
            self.d_kind.store(address, value);
        }
    }

    /// Finishes one row of a slab of a wgmma accumulator: `values[j]` are the two neighbours of
    /// fragment `j`, at columns `column + 8 j + 2 (lane % 4)`.
    ///
    /// # Safety
    ///
    /// The whole warp calls it together, with `column` a multiple of eight below `n`. The elements
    /// of `row` at columns below `n` belong to the warp. The number of columns is a multiple of
    /// eight, D is aligned to 16 bytes, the bias to two of its elements. `D` is the kind of the
    /// output, `PLAIN` that of [`Epilogue::is_plain`].
    #[inline(always)]
    pub unsafe fn store_slab<const D: u32, const PLAIN: bool>(
        &self,
        lane: u32,
        row: &Row,
        column: u32,
        values: Fragments,
    ) {
        // A fragment is inside the output or outside as a whole.
        let kind = Kind(D);
        let quad_lane = lane % 4;
        let columns = self.n - column;
        let own_column = column + 2 * quad_lane;

        // SAFETY: the caller keeps the contract above; lanes without a live row load and store
        // nothing.
        unsafe {
            // Scale, add the bias, add the former output.
            let [a, b, c, d] = values;
            let values = [
                self.finish_fragment::<D, PLAIN>(row, own_column, true, a),
                self.finish_fragment::<D, PLAIN>(row, own_column + 8, 8 < columns, b),
                self.finish_fragment::<D, PLAIN>(row, own_column + 16, 16 < columns, c),
                self.finish_fragment::<D, PLAIN>(row, own_column + 24, 24 < columns, d),
            ];

            // Round and store.
            if kind.is_f32() {
                store_pairs(row, own_column, columns, values);
            } else {
                let live = row.live && 8 * quad_lane < columns;
                let address = row.address + 2 * u64::from(column + 8 * quad_lane);
                let packed = transpose_quad(lane, values.map(|pair| kind.pack(pair)));
                store_u32x4_if(live, address, packed);
            }
        }
    }

    /// Whether the output is the scaled sum alone: no bias, nothing of the former output.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.bias == 0 && self.beta == 0.0
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
        // SAFETY: only a live row's factor is read.
        let scale = if live { unsafe { self.row_scale(index) } } else { 0.0 };
        Row { live, scale, address: self.address(index, 0) }
    }

    /// What is stored for the two `sums` at `column` and its right neighbour, if those are inside
    /// the output (`inside`) and the row is live.
    #[inline(always)]
    unsafe fn finish_fragment<const D: u32, const PLAIN: bool>(
        &self,
        row: &Row,
        column: u32,
        inside: bool,
        sums: [f32; 2],
    ) -> [f32; 2] {
        let values = sums.map(|sum| self.alpha * sum);
        if PLAIN {
            return values;
        }
        // SAFETY: only columns inside the output are loaded, of live rows.
        unsafe {
            let has_bias = self.bias != 0 && inside;
            let at = self.bias + u64::from(column) * self.bias_kind.bytes();
            let values = add(values, row.scale, load_pair(self.bias_kind, has_bias, at));
            let has_former = self.beta != 0.0 && inside && row.live;
            let at = row.address + u64::from(column) * Kind(D).bytes();
            add(values, self.beta, load_pair(Kind(D), has_former, at))
        }
    }
}

/// Two neighbours of a kind that may be known at run time only, if `condition` holds, else zeros.
/// No branches: the accumulators leave no registers for the two sides of one.
#[inline(always)]
unsafe fn load_pair(kind: Kind, condition: bool, address: u64) -> [f32; 2] {
    // SAFETY: the caller vouches for the address.
    unsafe {
        let wide = load_f32x2_if(condition && kind.is_f32(), address);
        let narrow = kind.unpack(load_u32_if(condition && !kind.is_f32(), address));
        if kind.is_f32() { wide } else { narrow }
    }
}

/// Stores binary32 results at a thread's columns, of which `columns` are left from the slab's first
/// on.
#[inline(always)]
unsafe fn store_pairs(row: &Row, column: u32, columns: u32, [a, b, c, d]: Fragments) {
    let at = row.address + 4 * u64::from(column);
    let live = |j: u32| row.live && 8 * j < columns;
    // SAFETY: only fragments inside the output are stored, of live rows.
    unsafe {
        store_f32x2_if(live(0), at, a);
        store_f32x2_if(live(1), at + 32, b);
        store_f32x2_if(live(2), at + 64, c);
        store_f32x2_if(live(3), at + 96, d);
    }
}

/// One thread's columns of a slab, in one row: two neighbours in each of four fragments.
pub type Fragments = [[f32; 2]; 4];

/// A row of a group's output.
pub struct Row {
    /// Whether the group has the row.
    live: bool,
    /// Its bias factor.
    scale: f32,
    /// Address of its first element.
    address: u64,
}

/// `values + factor · terms`.
#[inline(always)]
fn add([a, b]: [f32; 2], factor: f32, [s, t]: [f32; 2]) -> [f32; 2] {
    [fma(factor, s, a), fma(factor, t, b)]
}

/// Transposes a 4 × 4 matrix of words over the lanes of a quad: lane `t` gives row `t` and gets
/// column `t`. A thread that held 2 columns of each of 4 fragments then holds the 8 columns of one
/// fragment.
#[inline(always)]
unsafe fn transpose_quad(lane: u32, [a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let odd = lane & 1 != 0;
    let high = lane & 2 != 0;
    // SAFETY: the caller brings the whole warp.
    unsafe {
        // Exchange with the neighbour: each keeps its own column of a 2 × 2 block, and gets the
        // other half.
        let ab = shuffle_xor(if odd { a } else { b }, 1);
        let cd = shuffle_xor(if odd { c } else { d }, 1);
        let (a, b) = if odd { (ab, b) } else { (a, ab) };
        let (c, d) = if odd { (cd, d) } else { (c, cd) };

        // Exchange blocks with the other pair.
        let ac = shuffle_xor(if high { a } else { c }, 2);
        let bd = shuffle_xor(if high { b } else { d }, 2);
        if high { [ac, bd, c, d] } else { [a, b, ac, bd] }
    }
}
