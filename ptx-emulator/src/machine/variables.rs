//! Memory of a module's variables, those inside functions included.

use super::Machine;
use super::error::LoadError;
use super::memory::MemoryError;
use crate::module::{Linkage, Module, StateSpace, Variable};
use crate::program::ModuleLayout;

/// Name, address and size of a variable. Those of functions have the function's name before them.
pub(super) type Placed = (String, u64, u64);

impl Machine {
    /// Gives every variable in global or constant memory its place.
    pub(super) fn place_variables(
        &mut self,
        module: &Module,
    ) -> Result<(ModuleLayout, Vec<Placed>), LoadError> {
        let mut layout =
            ModuleLayout { addresses: vec![None; module.variables.len()], ..Default::default() };
        let mut placed = Vec::new();
        match self.place_all(module, &mut layout, &mut placed) {
            Ok(()) => Ok((layout, placed)),
            Err(error) => {
                self.free_variables(&placed)?;
                Err(error)
            }
        }
    }

    fn place_all(
        &mut self,
        module: &Module,
        layout: &mut ModuleLayout,
        placed: &mut Vec<Placed>,
    ) -> Result<(), LoadError> {
        for (index, variable) in module.variables.iter().enumerate() {
            if let Some(address) = self.place(variable, &variable.name, layout, placed)? {
                layout.addresses[index] = Some(address);
            }
        }
        for (index, function) in module.functions.iter().enumerate() {
            let variables = function.body.iter().flat_map(|body| &body.variables).enumerate();
            for (own, variable) in variables {
                let name = format!("{}/{}", function.name, variable.name);
                if let Some(address) = self.place(variable, &name, layout, placed)? {
                    layout.inner.insert((index, own), address);
                }
            }
        }
        Ok(())
    }

    fn place(
        &mut self,
        variable: &Variable,
        name: &str,
        layout: &mut ModuleLayout,
        placed: &mut Vec<Placed>,
    ) -> Result<Option<u64>, LoadError> {
        let is_global = matches!(variable.space, StateSpace::Global | StateSpace::Const);
        if !is_global && variable.initialiser.is_some() {
            return Err(LoadError::initialiser(
                &variable.name,
                "only global memory begins with values",
            ));
        }
        let is_extern = variable.linkage == Some(Linkage::Extern);
        let bytes = match (is_global, variable.bytes()) {
            (false, None) if !is_extern && variable.space == StateSpace::Shared => {
                return Err(LoadError::undefined(&variable.name));
            }
            (false, _) => return Ok(None),
            // Whoever names a variable of another module is refused, not who declares it.
            (true, Some(_)) if is_extern => return Ok(None),
            (true, bytes) => bytes.ok_or_else(|| LoadError::undefined(&variable.name))?,
        };
        let is_constant = variable.space == StateSpace::Const;
        let address = match is_constant {
            true => self.memory.allocate_constant(bytes)?,
            false => self.memory.allocate(bytes)?,
        };
        if is_constant {
            layout.constants.push((address, address.saturating_add(bytes)));
        }
        placed.push((name.to_owned(), address, bytes));
        Ok(Some(address))
    }

    pub(super) fn free_variables(&mut self, placed: &[Placed]) -> Result<(), MemoryError> {
        placed.iter().try_for_each(|(_, address, _)| self.memory.free(*address))
    }

    /// Fills the variables with what they begin with.
    pub(super) fn initialise(
        &mut self,
        module: &Module,
        layout: &ModuleLayout,
    ) -> Result<(), LoadError> {
        for (variable, address) in module.variables.iter().zip(&layout.addresses) {
            if let Some(address) = address {
                self.fill_variable(module, layout, None, variable, *address)?;
            }
        }
        for (function, own) in layout.inner.keys().copied() {
            let body = module.functions.get(function).and_then(|own| own.body.as_ref());
            let variable = body.and_then(|body| body.variables.get(own));
            if let (Some(variable), Some(address)) = (variable, layout.inner.get(&(function, own)))
            {
                self.fill_variable(module, layout, Some(function), variable, *address)?;
            }
        }
        Ok(())
    }

    fn fill_variable(
        &mut self,
        module: &Module,
        layout: &ModuleLayout,
        function: Option<usize>,
        variable: &Variable,
        address: u64,
    ) -> Result<(), LoadError> {
        let Some(bytes) = variable.bytes() else { return Ok(()) };
        let contents = layout
            .initial_bytes(module, function, variable, bytes)
            .map_err(|problem| LoadError::initialiser(&variable.name, &problem))?;
        self.memory.bytes_mut(address, bytes)?.copy_from_slice(&contents);
        Ok(())
    }
}
