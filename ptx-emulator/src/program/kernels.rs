//! From a [`Module`](crate::Module) to kernels that can be executed.

use std::collections::HashMap;

use super::Kernel;
use super::form::for_each_reference;
use super::layout::{ModuleLayout, SharedLayout, defined};
use super::lower::{Lowering, Target};
use super::rows::Rows;
use crate::machine::LoadError;
use crate::module::{Function, FunctionKind, Initialiser, Module, Reference};

/// Lowers every entry of a module, and for their errors the functions that none reaches.
pub(crate) fn lower_kernels(
    module: &Module,
    layout: &ModuleLayout,
    text: &str,
) -> Result<Vec<Kernel>, LoadError> {
    let mut kernels = Vec::new();
    let mut reached = vec![false; module.functions.len()];
    for (index, function) in module.functions.iter().enumerate() {
        if function.kind == FunctionKind::Entry && function.body.is_some() {
            let kernel = lower_kernel(module, layout, text, index)?;
            for (flag, own) in reached.iter_mut().zip(&kernel.function_indices) {
                *flag |= own.is_some();
            }
            kernels.push(kernel);
        }
    }
    for (index, function) in module.functions.iter().enumerate() {
        if function.body.is_some() && !reached[index] {
            lower_kernel(module, layout, text, index)?;
        }
    }
    Ok(kernels)
}

/// The functions an entry can reach, itself first.
fn reachable(module: &Module, entry: usize) -> Vec<usize> {
    let mut found = vec![entry];
    let mut next = 0;
    while let Some(&index) = found.get(next) {
        next += 1;
        let mut add = |reference: Reference| {
            if let Reference::Function(function) = reference {
                let function = defined(module, function);
                if !found.contains(&function) {
                    found.push(function);
                }
            }
        };
        let Some(body) = module.functions.get(index).and_then(|own| own.body.as_ref()) else {
            continue;
        };
        let mut indirect = false;
        for instruction in &body.instructions {
            for operand in &instruction.operands {
                for_each_reference(operand, &mut |reference| {
                    indirect |=
                        matches!(reference, Reference::Prototype(_) | Reference::CallTargets(_));
                    add(reference);
                });
            }
        }
        if indirect {
            let bodies = module.functions.iter().filter_map(|own| own.body.as_ref());
            let inner = bodies.flat_map(|body| &body.variables);
            let variables = module.variables.iter().chain(inner);
            for initialiser in variables.filter_map(|own| own.initialiser.as_ref()) {
                functions_in(initialiser, &mut add);
            }
        }
    }
    found
}

fn functions_in(initialiser: &Initialiser, add: &mut impl FnMut(Reference)) {
    match initialiser {
        Initialiser::Immediate(_) => {}
        Initialiser::Symbol { name, .. } => add(*name),
        Initialiser::List(values) => values.iter().for_each(|value| functions_in(value, add)),
    }
}

fn lower_kernel(
    module: &Module,
    layout: &ModuleLayout,
    text: &str,
    entry: usize,
) -> Result<Kernel, LoadError> {
    let function = &module.functions[entry];
    let functions = reachable(module, entry);
    let refuse = |function: &Function, problem: &str| {
        LoadError::unsupported(text, function.line, &function.name, problem)
    };
    let shared = SharedLayout::new(module, &functions)
        .ok_or_else(|| refuse(function, "its shared variables are too large"))?;
    let mut function_indices = vec![None; module.functions.len()];
    for (own, index) in functions.iter().enumerate() {
        function_indices[*index] = Some(own);
    }
    let mut kinds = Kinds::default();
    let mut codes = Vec::with_capacity(functions.len());
    for &index in &functions {
        let own = &module.functions[index];
        let Some(body) = &own.body else {
            return Err(refuse(own, "it is called but has no body"));
        };
        let target = Target { module, layout, shared: &shared, indices: &function_indices };
        let mut lower = |rows| {
            let lowering = Lowering::new(target, index, own, body, rows);
            lowering.map_err(|problem| refuse(own, &problem))?.run(text, &mut kinds)
        };
        let (mut code, uses) = lower(Rows::declared(body))?;
        // Other functions have registers that their callers fill; they are short.
        if own.kind == FunctionKind::Entry {
            (code, _) = lower(Rows::shared(body, &uses))?;
        }
        codes.push(code);
    }
    let directive = |word: &str| {
        function.directives.iter().find(|own| own.word == word).map(|own| {
            let mut values = own.values.iter().copied().chain([1; 3]);
            [(); 3].map(|()| values.next().unwrap_or(1))
        })
    };
    let number = |word: &str| directive(word).map(|[value, ..]| value);
    let parameter_bytes = codes[0].parameters.last().map_or(0, |last| last.offset + last.bytes);
    Ok(Kernel {
        name: function.name.clone(),
        functions: codes,
        function_indices,
        parameter_bytes,
        static_shared_bytes: shared.end,
        dynamic_shared_offset: shared.dynamic,
        required_block: directive(".reqntid"),
        maximum_threads: directive(".maxntid")
            .map(|own| own.iter().fold(1u32, |product, value| product.saturating_mul(*value))),
        required_cluster: directive(".reqnctapercluster"),
        maximum_registers: number(".maxnreg"),
        blocks_per_multiprocessor: number(".minnctapersm").unwrap_or(1),
        kinds: kinds.names,
    })
}

/// Opcodes as they are counted.
#[derive(Default)]
pub(super) struct Kinds {
    names: Vec<String>,
    indices: HashMap<String, u32>,
}

impl Kinds {
    /// The index of an opcode, which is new if it has none.
    pub(super) fn index(&mut self, name: String) -> u32 {
        if let Some(index) = self.indices.get(&name) {
            return *index;
        }
        let index = self.names.len() as u32;
        self.names.push(name.clone());
        self.indices.insert(name, index);
        index
    }
}
