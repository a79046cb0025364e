//! `ldmatrix`, `stmatrix` and `movmatrix`: tiles of 8 by 8 elements of 16 bits between memory and
//! the registers of a warp (PTX ISA 9.7.14.5.15 to 9.7.14.5.17).

use super::access::{Access, Addresses, Effect, Space, addresses, visit};
use super::wgmma::take_aligned;
use crate::execute::registers::lanes;
use crate::execute::report::Fault;
use crate::execute::{Context, Flow, Outcome, Wait};
use crate::machine::window::{self, Window};
use crate::matrix::tiles::{self, Spread, Tile};
use crate::ops::Operation;
use crate::program::operand::{Address, Destination, Source32};
use crate::program::types::DataType;
use crate::program::{Form, Problem};
use crate::race::Strength;

/// A movement of tiles.
#[derive(Clone, Debug)]
pub(crate) enum Tiles {
    Load(Box<Load>),
    Store(Box<Store>),
    /// `movmatrix.trans`.
    Transpose(Destination, Source32),
}

/// `ldmatrix`: a register for each tile.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    space: Space,
    spread: Spread,
    to: Box<[Destination]>,
    from: Address,
}

/// `stmatrix`: a register for each tile.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    space: Space,
    spread: Spread,
    to: Address,
    from: Box<[Source32]>,
}

/// Bytes of a row of a tile.
const ROW_BYTES: u32 = 16;

/// Lowers the three instructions.
pub(crate) fn lower(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    take_aligned(form)?;
    if !form.take("m8n8") {
        return Err("`.m8n8` is missing".to_owned());
    }
    let spread = if form.take("trans") { Spread::Columns } else { Spread::Rows };
    if form.mnemonic() == "movmatrix" {
        if spread == Spread::Rows {
            return Err("`.trans` is missing".to_owned());
        }
        take_element(form)?;
        form.expect(2)?;
        let from = form.source32(1, DataType::B32)?;
        let operation = Tiles::Transpose(form.destination(0, DataType::B32)?, from);
        form.emit(Operation::Tiles(operation));
        return Ok(());
    }
    let count = form.take_one(&[("x1", 1), ("x2", 2), ("x4", 4)]);
    let count: usize = count.ok_or("the number of tiles is missing")?;
    let space = Space::take(form);
    if !matches!(space, Space::Generic | Space::Shared) {
        return Err("tiles are in shared memory of the own block".to_owned());
    }
    take_element(form)?;
    form.expect(2)?;
    let store = form.mnemonic() == "stmatrix";
    let address = space.address(form, usize::from(!store))?;
    let elements = form.elements(usize::from(store))?;
    if elements.len() != count {
        return Err(format!("{count} registers are wanted, not {}", elements.len()));
    }
    let operation = if store {
        let from = elements
            .iter()
            .map(|own| form.source32_of(own, DataType::B32))
            .collect::<Result<_, Problem>>()?;
        Tiles::Store(Box::new(Store { space, spread, to: address, from }))
    } else {
        let to = elements
            .iter()
            .map(|own| form.destination_of(own, DataType::B32))
            .collect::<Result<_, Problem>>()?;
        Tiles::Load(Box::new(Load { space, spread, to, from: address }))
    };
    form.emit(Operation::Tiles(operation));
    Ok(())
}

fn take_element(form: &mut Form<'_, '_>) -> Result<(), Problem> {
    if form.take_type()? != DataType::B16 {
        return Err("tiles have elements of type b16".to_owned());
    }
    form.finish()
}

/// The whole warp must be at an instruction that works on its registers; otherwise it waits.
pub(super) fn gather(context: &Context<'_>) -> Outcome<Option<Flow>> {
    if !context.is_aligned() {
        return Ok(Some(Flow::Wait(Wait::Lanes(context.warp.live), None)));
    }
    if context.mask == u32::MAX {
        return Ok(None);
    }
    let text = format!("a warp with {} threads; it needs 32", context.mask.count_ones());
    Err(Fault::synchronisation(text))
}

/// Executes a movement of tiles.
pub(crate) fn execute(own: &Tiles, context: &mut Context<'_>) -> Outcome<Flow> {
    if let Some(flow) = gather(context)? {
        return Ok(flow);
    }
    match own {
        Tiles::Load(load) => execute_load(load, context)?,
        Tiles::Store(store) => execute_store(store, context)?,
        Tiles::Transpose(to, from) => {
            let result = tiles::transpose(&context.frame.registers.words(*from));
            context.frame.registers.set_words(*to, u32::MAX, &result);
        }
    }
    Ok(Flow::Next)
}

/// The lanes that give addresses of the rows of `count` tiles.
fn owners(count: usize) -> u32 {
    u32::MAX >> (32 - 8 * count.clamp(1, 4))
}

/// Offsets in the shared window of the rows, which the first lanes give.
fn rows(space: Space, address: Address, mask: u32, context: &Context<'_>) -> Outcome<Addresses> {
    let given = addresses(address, context);
    if space != Space::Generic {
        return Ok(given);
    }
    for lane in lanes(mask) {
        if window::window(given[lane]) != Window::Shared {
            let text = format!("a tile at {:#x}, which is not shared memory", given[lane]);
            return Err(Fault::operand(text));
        }
    }
    Ok(given.map(|own| own.wrapping_sub(window::SHARED)))
}

fn access(name: &'static str) -> Access {
    Access { space: Space::Shared, name, bytes: ROW_BYTES, alignment: ROW_BYTES }
}

fn execute_load(load: &Load, context: &mut Context<'_>) -> Outcome {
    let mask = owners(load.to.len());
    let addresses = rows(load.space, load.from, mask, context)?;
    let mut data = [[0; ROW_BYTES as usize]; 32];
    visit(context, access("ldmatrix"), &addresses, mask, |region| {
        region.note(Effect::Read, Strength::Weak)?;
        region.read(&mut data);
        Ok(())
    })?;
    let tiles: &[Tile] = data.as_chunks::<8>().0;
    for (to, tile) in load.to.iter().zip(tiles) {
        let values = tiles::load(tile, load.spread);
        context.frame.registers.set_words(*to, u32::MAX, &values);
    }
    Ok(())
}

fn execute_store(store: &Store, context: &mut Context<'_>) -> Outcome {
    let mask = owners(store.from.len());
    let addresses = rows(store.space, store.to, mask, context)?;
    let mut data = [[0; ROW_BYTES as usize]; 32];
    for (tile, from) in data.as_chunks_mut::<8>().0.iter_mut().zip(&store.from) {
        *tile = tiles::store(&context.frame.registers.words(*from), store.spread);
    }
    context.grid.progress += 1;
    visit(context, access("stmatrix"), &addresses, mask, |region| {
        region.note_store(Strength::Weak, data.as_flattened())?;
        region.write(&data);
        Ok(())
    })
}
