//! Where variables lie.

use std::collections::{BTreeMap, HashMap};

use super::form::Problem;
use crate::machine::window;
use crate::module::{
    Function, Immediate, Initialiser, Module, Reference, ScalarType, StateSpace, Variable,
};

/// A parameter or return value: offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParameterPlace {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// Rounds up to a multiple; an alignment of zero counts as one.
pub(crate) fn align_up(value: u64, alignment: u64) -> u64 {
    value.checked_next_multiple_of(alignment.max(1)).unwrap_or(u64::MAX)
}

/// The alignment of a variable: what it states, else that of an element.
pub(crate) fn alignment<N>(variable: &Variable<N>) -> u64 {
    let element = u64::from(variable.scalar.bytes().unwrap_or(1));
    let vector = variable.vector.map_or(1, |length| length.length().into());
    u64::from(variable.align.unwrap_or(0)).max(element * vector)
}

/// A place at an alignment behind what ends at `end`, and where it ends itself. Where nothing can
/// lie any more, that is `u64::MAX`.
pub(crate) fn place(variable: &Variable, end: u64) -> Result<(u64, u64), Problem> {
    let bytes = variable.bytes().ok_or_else(|| format!("`{}` has no size", variable.name))?;
    let offset = align_up(end, alignment(variable));
    Ok((offset, offset.saturating_add(bytes)))
}

/// The addresses of a module's symbols.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModuleLayout {
    /// For each variable of the module in global or constant memory its address.
    pub(crate) addresses: Vec<Option<u64>>,
    /// The same for those inside functions, by function and index into `Body::variables`.
    pub(crate) inner: BTreeMap<(usize, usize), u64>,
    /// Where constants lie: from, to.
    pub(crate) constants: Vec<(u64, u64)>,
}

/// The address that a function has as a value.
pub(crate) fn function_address(index: usize) -> u64 {
    window::FUNCTION + 16 * index as u64
}

/// The function that an address names.
pub(crate) fn function_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(window::FUNCTION)?;
    (offset % 16 == 0 && offset < window::SHARED - window::FUNCTION)
        .then_some((offset / 16) as usize)
}

impl ModuleLayout {
    /// The bytes a variable starts with; absent ones are zero. The variable's size is known.
    pub(crate) fn initial_bytes(
        &self,
        module: &Module,
        function: Option<usize>,
        variable: &Variable,
        bytes: u64,
    ) -> Result<Vec<u8>, String> {
        let mut contents = vec![0; bytes as usize];
        if let Some(initialiser) = &variable.initialiser {
            // A nested list describes one element of the outermost dimension.
            let strides = strides(variable);
            let owner = Owner { module, function, variable };
            self.fill(owner, initialiser, &mut contents, &strides)?;
        }
        Ok(contents)
    }

    fn fill(
        &self,
        owner: Owner<'_>,
        initialiser: &Initialiser,
        place: &mut [u8],
        strides: &[usize],
    ) -> Result<(), String> {
        let Owner { module, function, variable } = owner;
        let value = match initialiser {
            Initialiser::List(values) => {
                let (stride, inner) = match strides {
                    [] => return Err("more braces than dimensions".to_owned()),
                    [stride] => (*stride, &strides[..0]),
                    [stride, inner @ ..] => (*stride, inner),
                };
                let vector = variable.vector.filter(|_| strides.len() == 1);
                if vector.is_some_and(|vector| values.len() != vector.length() as usize) {
                    return Err("a vector has a value for each element".to_owned());
                }
                for (index, value) in values.iter().enumerate() {
                    let start = index.checked_mul(stride).filter(|start| *start < place.len());
                    let start = start.ok_or("more values than elements")?;
                    let end = (start + stride).min(place.len());
                    self.fill(owner, value, &mut place[start..end], inner)?;
                }
                return Ok(());
            }
            _ if !strides.is_empty() => return Err("a list in braces is wanted".to_owned()),
            Initialiser::Immediate(immediate) if !begins_with(variable.scalar, *immediate) => {
                let scalar = variable.scalar;
                return Err(format!("`{immediate}` is no value of the type `{scalar}`"));
            }
            Initialiser::Immediate(immediate) => match *immediate {
                Immediate::Signed(value) => value as u64,
                Immediate::Unsigned(value) => value,
                Immediate::Single(bits) => bits.into(),
                Immediate::Double(bits) => match variable.scalar.bytes() {
                    Some(4) => (f64::from_bits(bits) as f32).to_bits().into(),
                    _ => bits,
                },
            },
            Initialiser::Symbol { name, offset, mask, .. } => {
                let address = match name {
                    Reference::Variable(index) => self.addresses.get(*index).copied().flatten(),
                    Reference::Local(index) => {
                        function.and_then(|own| self.inner.get(&(own, *index)).copied())
                    }
                    Reference::Function(index) => Some(function_address(defined(module, *index))),
                    _ => None,
                };
                let address = address.ok_or("an address that is not known at load")?;
                let address = address.wrapping_add_signed(*offset);
                mask.map_or(address, |mask| (address & mask) >> mask.trailing_zeros().min(63))
            }
        };
        let element = variable.scalar.bytes().unwrap_or(1) as usize;
        let length = element.min(place.len()).min(8);
        place[..length].copy_from_slice(&value.to_le_bytes()[..length]);
        Ok(())
    }
}

/// A variable, and the function that it is in.
#[derive(Clone, Copy)]
struct Owner<'m> {
    module: &'m Module,
    function: Option<usize>,
    variable: &'m Variable,
}

/// Whether a variable may begin with a literal.
fn begins_with(scalar: ScalarType, immediate: Immediate) -> bool {
    use ScalarType::{B8, B16, B32, B64, B128, F16, F16x2, F32, F64, Pred};
    match (scalar, immediate) {
        (F16 | F16x2 | Pred, _) => false,
        (F32 | F64, Immediate::Single(_) | Immediate::Double(_)) => true,
        (F32 | F64, _) => false,
        (B8 | B16 | B32 | B64 | B128, _) => true,
        (_, immediate) => matches!(immediate, Immediate::Signed(_) | Immediate::Unsigned(_)),
    }
}

/// Bytes from one element to the next, outermost dimension first.
fn strides(variable: &Variable) -> Vec<usize> {
    let element = variable.scalar.bytes().unwrap_or(1) as usize;
    let mut strides = Vec::new();
    let mut stride = element;
    if let Some(vector) = variable.vector {
        strides.push(stride);
        stride *= vector.length() as usize;
    }
    for length in variable.lengths.iter().rev() {
        strides.push(stride);
        stride = stride.saturating_mul(length.unwrap_or(0) as usize);
    }
    strides.reverse();
    strides
}

/// The function with a body that a name stands for: one may be declared first and defined later.
pub(crate) fn defined(module: &Module, index: usize) -> usize {
    let Some(function) = module.functions.get(index) else { return index };
    if function.body.is_some() {
        return index;
    }
    let same = |other: &Function| other.name == function.name && other.body.is_some();
    module.functions.iter().position(same).unwrap_or(index)
}

/// Shared memory of one kernel: each variable it names has a place.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLayout {
    /// By the variable's identity: module-wide or of a function.
    pub(crate) offsets: HashMap<SharedName, u32>,
    /// End of the variables with a size.
    pub(crate) end: u32,
    /// Where dynamic shared memory begins.
    pub(crate) dynamic: u32,
}

/// A shared variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SharedName {
    /// An index into `Module::variables`.
    Module(usize),
    /// A function of the module, and an index into `Body::variables`.
    Function(usize, usize),
}

impl SharedLayout {
    /// Lays out what the functions of a kernel name.
    pub(crate) fn new(module: &Module, functions: &[usize]) -> Option<Self> {
        let mut layout = Self { end: window::RESERVED_SHARED, ..Self::default() };
        let mut dynamic = Vec::new();
        let mut alignments = 1;
        for name in names(module, functions) {
            let Some(variable) = find(module, name) else { continue };
            match variable.bytes() {
                Some(bytes) if variable.linkage != Some(crate::module::Linkage::Extern) => {
                    let offset = align_up(layout.end.into(), alignment(variable));
                    let end = offset.checked_add(bytes)?;
                    layout.end =
                        u32::try_from(end).ok().filter(|end| *end < window::BLOCK_SHARED)?;
                    layout.offsets.insert(name, offset as u32);
                }
                _ => {
                    alignments = alignments.max(alignment(variable));
                    dynamic.push(name);
                }
            }
        }
        // Dynamic shared memory begins at 16 bytes at least, as on hardware.
        let start = align_up(layout.end.into(), alignments.max(16));
        layout.dynamic = u32::try_from(start).ok().filter(|start| *start < window::BLOCK_SHARED)?;
        for name in dynamic {
            layout.offsets.insert(name, layout.dynamic);
        }
        Some(layout)
    }
}

fn find(module: &Module, name: SharedName) -> Option<&Variable> {
    match name {
        SharedName::Module(index) => module.variables.get(index),
        SharedName::Function(function, index) => {
            module.functions.get(function)?.body.as_ref()?.variables.get(index)
        }
    }
}

/// The shared variables that functions name or declare, in order of first appearance.
fn names(module: &Module, functions: &[usize]) -> Vec<SharedName> {
    let mut found = Vec::new();
    let mut add = |name: SharedName| {
        let shared = find(module, name).is_some_and(|own| own.space == StateSpace::Shared);
        if shared && !found.contains(&name) {
            found.push(name);
        }
    };
    for &function in functions {
        let Some(body) = module.functions.get(function).and_then(|own| own.body.as_ref()) else {
            continue;
        };
        for index in 0..body.variables.len() {
            add(SharedName::Function(function, index));
        }
        for instruction in &body.instructions {
            for operand in &instruction.operands {
                super::form::for_each_reference(operand, &mut |reference| {
                    if let Reference::Variable(index) = reference {
                        add(SharedName::Module(index));
                    }
                });
            }
        }
    }
    found
}
