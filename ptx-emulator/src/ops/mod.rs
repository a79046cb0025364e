//! The instructions, one file a family. Each family lowers its mnemonics to an operation and
//! executes it for the lanes of a warp at once.

pub(crate) mod access;
pub(crate) mod atomic;
pub(crate) mod barrier;
pub(crate) mod claims;
pub(crate) mod collective;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod fence;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod lanewise;
pub(crate) mod logic;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod misc;
pub(crate) mod mma;
pub(crate) mod mov;
pub(crate) mod region;
pub(crate) mod special;
pub(crate) mod tcgen05;
pub(crate) mod tiles;
pub(crate) mod wgmma;

use crate::execute::{Context, Flow, Outcome};
use crate::program::{Form, Problem};

/// What an instruction does.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Something without an effect here, such as a prefetch.
    Nothing,
    Atomic(Box<atomic::Atomic>),
    Barrier(barrier::Barrier),
    Collective(collective::Collective),
    Control(control::Control),
    Convert(convert::Convert),
    Copy(Box<copy::Copy>),
    Integer(integer::Integer),
    Lanewise(lanewise::Lanewise),
    Logic(logic::Logic),
    Float(float::Float),
    Fence(fence::Fence),
    Mbarrier(Box<mbarrier::Mbarrier>),
    Memory(memory::Memory),
    Misc(Box<misc::Misc>),
    Mma(Box<mma::Product>),
    Mov(mov::Mov),
    Special(special::Fetch),
    Tensor(Box<tcgen05::Operation>),
    Tiles(tiles::Tiles),
    Wgmma(Box<wgmma::Operation>),
}

impl Operation {
    /// Replaces the labels of branches by positions.
    pub(crate) fn place_labels(&mut self, positions: &[u32]) {
        if let Self::Control(control) = self {
            control.place_labels(positions);
        }
    }
}

/// Lowers an instruction. Whatever no family knows is refused here.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    match form.mnemonic() {
        "mov" | "cvta" => mov::lower(form),
        "st" | "red" if form.has("async") => copy::lower(form),
        "st" if form.has("bulk") => {
            Err("`st.bulk` is not emulated; store element by element".into())
        }
        "ld" | "st" | "ldu" => memory::lower(form),
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" => {
            control::lower(form)
        }
        "abs" | "add" | "div" | "fma" | "mad" | "max" | "min" | "mul" | "neg" | "sub"
            if float::is_float(form) =>
        {
            float::lower(form)
        }
        "cos" | "ex2" | "lg2" | "rcp" | "rsqrt" | "sin" | "sqrt" | "tanh" => float::lower(form),
        "cvt" => convert::lower(form),
        "activemask" | "elect" | "match" | "redux" | "shfl" | "vote" => collective::lower(form),
        "atom" | "red" => atomic::lower(form),
        "bar" | "barrier" => barrier::lower(form),
        "mbarrier" => mbarrier::lower(form),
        "cp" => copy::lower(form),
        "tensormap" => copy::lower_map(form),
        "clusterlaunchcontrol" => copy::lower_cancel(form),
        "fence" | "membar" => fence::lower(form),
        "applypriority" | "createpolicy" | "discard" | "getctarank" | "griddepcontrol"
        | "isspacep" | "mapa" | "pmevent" | "prefetch" | "prefetchu" | "setmaxnreg" => {
            misc::lower(form)
        }
        "ldmatrix" | "movmatrix" | "stmatrix" => tiles::lower(form),
        "mma" => mma::lower(form),
        "wgmma" => wgmma::lower(form),
        "tcgen05" => tcgen05::lower(form),
        "add" | "sub" | "mul" | "mad" | "div" | "min" | "max" | "neg" | "abs"
            if integer::is_integer(form) =>
        {
            integer::lower(form)
        }
        "addc" | "subc" | "madc" | "mul24" | "mad24" | "rem" | "sad" | "dp4a" | "dp2a" => {
            integer::lower(form)
        }
        "clz" | "popc" | "brev" | "bfind" | "fns" | "bfe" | "bfi" | "bmsk" | "szext" => {
            integer::lower(form)
        }
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" => {
            logic::lower(form)
        }
        "selp" | "slct" | "set" | "setp" | "testp" | "copysign" => logic::lower(form),
        mnemonic => Err(format!("instruction `{mnemonic}` is not supported")),
    }
}

/// Executes an operation for the lanes of the context.
#[inline]
pub(crate) fn execute(operation: &Operation, context: &mut Context<'_>) -> Outcome<Flow> {
    match operation {
        Operation::Nothing => {}
        Operation::Lanewise(own) => lanewise::execute(own, context),
        Operation::Logic(own) => logic::execute(own, context),
        Operation::Integer(own) => integer::execute(own, context)?,
        Operation::Convert(own) => convert::execute(own, context),
        Operation::Float(own) => float::execute(own, context),
        Operation::Mov(own) => mov::execute(own, context),
        Operation::Special(own) => special::execute(own, context),
        Operation::Memory(own) => memory::execute(own, context)?,
        Operation::Control(own) => return control::execute(own, context),
        Operation::Atomic(own) => atomic::execute(own, context)?,
        Operation::Collective(own) => return collective::execute(own, context),
        Operation::Fence(own) => fence::execute(own, context)?,
        Operation::Misc(own) => return misc::execute(own, context),
        Operation::Barrier(own) => return barrier::execute(own, context),
        Operation::Mma(own) => return mma::execute(own, context),
        Operation::Tiles(own) => return tiles::execute(own, context),
        Operation::Mbarrier(own) => return mbarrier::execute(own, context),
        Operation::Copy(own) => return copy::execute(own, context),
        Operation::Wgmma(own) => return wgmma::execute(own, context),
        Operation::Tensor(own) => return tcgen05::execute(own, context),
    }
    Ok(Flow::Next)
}
