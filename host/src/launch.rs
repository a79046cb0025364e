//! Carries out a plan on an engine that launches kernels: setup, where there are splits, then
//! quantize, gemm or the epilogue's reductions, in stream order.

pub(crate) mod batch;

use grouped_linear_kernels::variants::{KERNELS, Kernel};

use crate::backend::Launcher;
use crate::epilogue;
use crate::error::{Error, Result};
use crate::gemm::{self, scaled};
use crate::plan::{Operands, Plan};
use crate::tensor::Tensor;
use crate::{quantize, setup};

/// Runs `plan` on the queue. Nothing waits; scratch memory is the queue's. All launches are
/// prepared before the first is handed over.
pub(crate) fn run(launcher: &dyn Launcher, plan: &Plan, operands: &Operands<'_>) -> Result<()> {
    let Some(launch) = &plan.launch else {
        return Err(Error::unsupported("a plan made for the CPU cannot run on a GPU; plan again"));
    };
    operands.note_use(launcher.queue_number());
    let mut launches = Launches::default();
    let map = launch.workspace;
    let workspace = if map.bytes == 0 { 0 } else { launcher.workspace(map.bytes)? };
    let table = workspace + map.table as u64;
    let partial = workspace + map.partial as u64;

    if operands.splits().is_some() {
        setup::prepare(launcher, plan, launch, operands, table, &mut launches)?;
    }
    match operands {
        Operands::Cast(cast) => quantize::prepare_cast(plan, launch, cast, &mut launches)?,
        Operands::Amax(amax) => {
            let table = if amax.splits.is_some() { table } else { 0 };
            let tiles = workspace + map.amax as u64;
            quantize::micro::prepare_amax(plan, launch, amax, (table, tiles), &mut launches)?;
        }
        Operands::Quantize(quantize) => {
            let table = if quantize.splits.is_some() { table } else { 0 };
            let [amax, random] = [map.amax, map.random].map(|offset| workspace + offset as u64);
            let scratch = quantize::Scratch { table, amax, random, partial };
            quantize::prepare_quantize(plan, launch, quantize, scratch, &mut launches)?;
        }
        Operands::Dequantize(dequantize) => {
            let table = if dequantize.splits.is_some() { table } else { 0 };
            quantize::prepare_dequantize(plan, launch, dequantize, table, &mut launches)?;
        }
        Operands::Swizzle(swizzle) => {
            let table = if swizzle.splits.is_some() { table } else { 0 };
            quantize::micro::prepare_swizzle(plan, launch, swizzle, table, &mut launches)?;
        }
        Operands::Pad(pad) => quantize::prepare_pad(plan, launch, pad, table, &mut launches)?,
        Operands::UpdateScales(update) => {
            quantize::prepare_update(plan, launch, update, &mut launches)?;
        }
        Operands::ScaledGemm(gemm) => {
            let aligned = workspace + map.aligned as u64;
            let scratch = scaled::Scratch { table, aligned };
            scaled::prepare(launcher, plan, launch, gemm, scratch, &mut launches)?;
        }
        Operands::Gemm(gemm) => gemm::prepare(launcher, plan, launch, gemm, table, &mut launches)?,
        Operands::Dbias(dbias) => {
            epilogue::prepare_dbias(plan, launch, dbias, table, partial, &mut launches)?;
        }
        Operands::Dscales(dscales) => {
            epilogue::prepare_dscales(plan, launch, dscales, table, &mut launches)?;
        }
    }
    launcher.submit(&launches)
}

/// The plan and the operands were made for different operations.
pub(crate) fn mismatch() -> Error {
    Error::invalid("the plan was made for another operation than its operands")
}

/// The most kernels that one operation launches.
pub(crate) const MOST: usize = 6;

/// Bytes of the largest argument struct in the kernel table.
const ARGS_BYTES: usize = {
    let (mut row, mut most) = (0, 0);
    while row < KERNELS.len() {
        if KERNELS[row].args_bytes > most {
            most = KERNELS[row].args_bytes;
        }
        row += 1;
    }
    most
};

/// The launches of one operation, in order.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    launches: [Option<Launch>; MOST],
    /// What they read, and nobody else may hold.
    held: Option<Tensor>,
}

/// A kernel, its grid, and its one by-value argument struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub kernel: &'static Kernel,
    /// Blocks in x and y.
    pub grid: [u32; 2],
    /// Whether it reads nothing that other operations handed over with it write.
    pub early: bool,
    args: [u8; ARGS_BYTES],
}

impl Launches {
    /// Adds a launch; a grid without blocks is no work.
    pub(crate) fn push(
        &mut self,
        kernel: &'static Kernel,
        grid: [u32; 2],
        args: &[u8],
    ) -> Result<()> {
        if args.len() != kernel.args_bytes {
            return Err(Error::invalid(format!(
                "kernel {} takes {} bytes of arguments, {} were given",
                kernel.name,
                kernel.args_bytes,
                args.len()
            )));
        }
        if grid.contains(&0) {
            return Ok(());
        }
        let Some(place) = self.launches.iter_mut().find(|place| place.is_none()) else {
            return Err(Error::invalid(format!(
                "kernel {} would be launch {} of one operation, which has room for {MOST}",
                kernel.name,
                MOST + 1
            )));
        };
        let mut bytes = [0; ARGS_BYTES];
        let Some(room) = bytes.get_mut(..args.len()) else {
            return Err(Error::invalid(format!(
                "kernel {} takes {} bytes of arguments, a launch has room for {ARGS_BYTES}",
                kernel.name,
                args.len()
            )));
        };
        room.copy_from_slice(args);
        *place = Some(Launch { kernel, grid, early: false, args: bytes });
        Ok(())
    }

    /// The launch added last reads nothing that other operations handed over with it write.
    pub(crate) fn last_is_early(&mut self) {
        if let Some(last) = self.launches.iter_mut().flatten().last() {
            last.early = true;
        }
    }

    /// Holds a tensor until they have been handed over.
    pub(crate) fn hold(&mut self, tensor: Tensor) {
        self.held = Some(tensor);
    }

    pub(crate) fn held(&self) -> Option<&Tensor> {
        self.held.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Launch> {
        self.launches.iter().flatten()
    }
}

impl Launch {
    /// The argument struct, as the kernel reads it; the address has no alignment.
    pub(crate) fn args(&self) -> &[u8] {
        &self.args[..self.kernel.args_bytes.min(ARGS_BYTES)]
    }
}

#[cfg(test)]
mod tests {
    use grouped_linear_kernels::variants::{Role, kernel};

    use super::*;

    /// Pushes the kernel so often, with as many bytes of arguments as given.
    fn refusal(kernel: &'static Kernel, args_bytes: usize, times: usize) -> String {
        let mut launches = Launches::default();
        let mut push = |_| launches.push(kernel, [1, 1], &vec![0; args_bytes]);
        let error = (0..times).find_map(|time| push(time).err()).expect("one too many");
        assert!(error.is_invalid_argument(), "{error}");
        error.to_string()
    }

    #[test]
    fn refusals_say_what_was_given_and_what_there_is_room_for() {
        let setup = kernel(Role::PointerSetup).expect("the table has pointer_setup");
        let (bytes, name) = (setup.args_bytes, setup.name);
        let text = refusal(setup, bytes - 8, 1);
        let given = bytes - 8;
        assert_eq!(
            text,
            format!("kernel {name} takes {bytes} bytes of arguments, {given} were given")
        );

        // No row of the table is so large: the room is made for the largest.
        let large = ARGS_BYTES + 16;
        let row: &Kernel = Box::leak(Box::new(Kernel { args_bytes: large, ..*setup }));
        let text = refusal(row, large, 1);
        assert!(text.contains(name), "{text}");
        assert!(text.contains(&format!("{large} bytes of arguments")), "{text}");
        assert!(text.contains(&format!("room for {ARGS_BYTES}")), "{text}");

        let text = refusal(setup, bytes, MOST + 1);
        assert!(text.contains(name) && text.contains(&format!("room for {MOST}")), "{text}");
    }
}
