//! What a file's metadata say of quantized weights: a line of JSON, read as strictly as it is
//! written.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::recipe::{BlockShape, Blocks, Format, Nvfp4Format, ScaleBound, Scope, Transform};
use crate::tensor::{
    COLUMNWISE, CopySpec, DType, Direction, Form, QuantizedSpec, ROWWISE, SCALE, Shared,
    SourceShape, TensorSpec,
};

/// The version of the description; another one would say other things.
const VERSION: u64 = 1;

/// The rows and columns of one expert lie below it, as those of every layer.
const MAX_FEATURES: u64 = 1 << 31;

type Names<T> = &'static [(&'static str, T)];

const FORMS: Names<Form> =
    &[("codes", Form::Codes), ("swizzled", Form::Swizzled), ("exact", Form::Exact)];
const TYPES: Names<DType> = &[("e4m3", DType::E4m3), ("e5m2", DType::E5m2)];
const BLOCKS: Names<Blocks> =
    &[("tensor", Blocks::Tensor), ("1x128", Blocks::Vector), ("128x128", Blocks::Square)];
const SHAPES: Names<BlockShape> = &[("line", BlockShape::Line), ("square", BlockShape::Square)];
const SCOPES: Names<Scope> = &[("group", Scope::Group), ("row", Scope::Row)];
const BOUNDS: Names<ScaleBound> = &[("448", ScaleBound::Full), ("256", ScaleBound::Reduced)];
const TRANSFORMS: Names<Transform> =
    &[("none", Transform::None), ("hadamard", Transform::Hadamard)];
const SHARED: [&str; 3] = ["data", "scale_inv", "amax"];

/// Quantized weights without their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Description {
    /// Of weights.
    pub(super) spec: QuantizedSpec,
    /// What of the columnwise copy stands in the file under the name of the rowwise one.
    pub(super) shared: Shared,
    /// Whether there are the factors that elements were multiplied by.
    pub(super) has_scale: bool,
}

impl Description {
    /// The tensors that the file has for it.
    pub(super) fn parts(&self) -> Vec<(&'static str, TensorSpec)> {
        let Self { spec, shared, has_scale } = *self;
        let mut parts = Vec::new();
        for (direction, names) in
            [(Direction::Rowwise, ROWWISE), (Direction::Columnwise, COLUMNWISE)]
        {
            if !spec.has(direction) {
                continue;
            }
            let CopySpec { data, scale_inv, amax } = spec.copy(direction);
            let again = direction == Direction::Columnwise;
            let shared = [shared.data, shared.scale_inv, shared.amax];
            for ((name, part), shared) in
                names.into_iter().zip([Some(data), Some(scale_inv), amax]).zip(shared)
            {
                parts.extend(part.filter(|_| !(again && shared)).map(|part| (name, part)));
            }
        }
        if has_scale {
            parts.push((SCALE, TensorSpec { shape: vec![spec.groups], dtype: DType::F32 }));
        }
        // Exact numbers have no scales of blocks.
        parts.retain(|(_, part)| part.byte_len() > 0);
        parts
    }

    /// Under which name the file has a part.
    pub(super) fn name_of(&self, part: &'static str) -> &'static str {
        let Shared { data, scale_inv, amax } = self.shared;
        let index = COLUMNWISE.iter().position(|own| *own == part);
        match index.filter(|&index| [data, scale_inv, amax][index]) {
            Some(index) => ROWWISE[index],
            None => part,
        }
    }

    pub(super) fn to_text(self) -> String {
        let Self { spec, shared, has_scale } = self;
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        add("version", VERSION.into());
        add("groups", spec.groups.into());
        add("rows", spec.source.rows().into());
        add("columns", spec.source.columns().into());
        match spec.format {
            Format::Fp8 { dtype, blocks } => {
                add("format", "fp8".into());
                add("dtype", name(TYPES, dtype));
                add("blocks", name(BLOCKS, blocks));
            }
            Format::Mxfp8 { dtype, blocks } => {
                add("format", "mxfp8".into());
                add("dtype", name(TYPES, dtype));
                add("blocks", name(SHAPES, blocks));
            }
            Format::Nvfp4(Nvfp4Format { blocks, scope, bound, transform }) => {
                add("format", "nvfp4".into());
                add("blocks", name(SHAPES, blocks));
                add("scope", name(SCOPES, scope));
                add("bound", name(BOUNDS, bound));
                add("transform", name(TRANSFORMS, transform));
            }
        }
        add("rowwise", spec.rowwise.map_or(Value::Null, |form| name(FORMS, form)));
        add("columnwise", spec.columnwise.map_or(Value::Null, |form| name(FORMS, form)));
        let flags = [shared.data, shared.scale_inv, shared.amax];
        let shared = SHARED.iter().zip(flags).filter(|(_, shared)| *shared);
        add("shared", shared.map(|(name, _)| *name).collect());
        add("scale", has_scale.into());
        Value::Object(fields).to_string()
    }

    /// Reads what [`Description::to_text`] has written; `key` is the entry, for messages.
    ///
    /// # Errors
    /// A field that is missing, unknown or has an unknown value; a tensor that cannot be.
    pub(super) fn of_text(key: &str, text: &str) -> Result<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
            return Err(wrong(key, "it is no JSON object"));
        };
        let mut fields = Fields { key, fields };
        let version = fields.number("version")?;
        if version != VERSION {
            return Err(Error::unsupported(format!(
                "checkpoint: metadata {key} are of version {version}, this library reads version \
                 {VERSION}; use the library that has written the file, or a newer one"
            )));
        }
        let groups = fields.number("groups")? as usize;
        let [rows, columns] = [fields.number("rows")?, fields.number("columns")?];
        let features = 1..MAX_FEATURES;
        if !(features.contains(&rows) && features.contains(&columns)) {
            let what = format!("rows and columns are {rows} and {columns}, 1 to 2^31 - 1 can be");
            return Err(wrong(key, what));
        }
        let format = fields.format()?;
        let rowwise = fields.optional("rowwise", FORMS)?;
        let columnwise = fields.optional("columnwise", FORMS)?;
        let source = SourceShape::Weights { rows: rows as usize, columns: columns as usize };
        let spec = QuantizedSpec { groups, source, format, rowwise, columnwise };
        let shared = fields.shared()?;
        let has_scale = fields.take("scale")?.as_bool();
        let has_scale = has_scale.ok_or_else(|| wrong(key, "scale is neither true nor false"))?;
        if let Some(unknown) = fields.fields.keys().next() {
            return Err(wrong(key, format!("{unknown} is unknown")));
        }
        spec.check().map_err(|error| wrong(key, error))?;
        let own = Self { spec, shared, has_scale };
        own.check_shared(key)?;
        Ok(own)
    }

    /// Refuses to share what copies of the format do not, and factors where a group has no one
    /// scale.
    fn check_shared(&self, key: &str) -> Result<()> {
        let Self { spec, shared, has_scale } = self;
        if *has_scale && !spec.format.is_whole() {
            return Err(wrong(key, "scale is true, but no group has one scale"));
        }
        let ruled = spec.shared();
        for (what, shared, possible) in [
            (SHARED[0], shared.data, ruled.data),
            (SHARED[1], shared.scale_inv, ruled.scale_inv),
            (SHARED[2], shared.amax, ruled.amax),
        ] {
            if shared && !possible {
                return Err(wrong(key, format!("the copies cannot share {what}")));
            }
        }
        Ok(())
    }
}

fn name<T: PartialEq>(names: Names<T>, value: T) -> Value {
    names.iter().find(|(_, own)| *own == value).map_or(Value::Null, |(name, _)| (*name).into())
}

fn wrong(key: &str, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!(
        "checkpoint: metadata {key} do not describe quantized weights: {why}; the file is damaged, or \
         another library's"
    ))
}

/// The fields that have not been read so far.
struct Fields<'a> {
    key: &'a str,
    fields: Map<String, Value>,
}

impl Fields<'_> {
    fn take(&mut self, name: &str) -> Result<Value> {
        self.fields.remove(name).ok_or_else(|| wrong(self.key, format!("{name} is missing")))
    }

    fn number(&mut self, name: &str) -> Result<u64> {
        let value = self.take(name)?;
        // Every count is far below, and fits where `usize` has 32 bits.
        let number = value.as_u64().filter(|&number| number <= u64::from(u32::MAX));
        number.ok_or_else(|| wrong(self.key, format!("{name} is {value}, a count is needed")))
    }

    fn one<T: Copy>(&mut self, name: &str, names: Names<T>) -> Result<T> {
        self.optional(name, names)?.ok_or_else(|| wrong(self.key, format!("{name} is null")))
    }

    fn optional<T: Copy>(&mut self, name: &str, names: Names<T>) -> Result<Option<T>> {
        let value = self.take(name)?;
        if value.is_null() {
            return Ok(None);
        }
        let known = value.as_str().and_then(|text| names.iter().find(|(own, _)| *own == text));
        let known = known.map(|(_, value)| Some(*value));
        known.ok_or_else(|| wrong(self.key, format!("{name} is {value}")))
    }

    fn format(&mut self) -> Result<Format> {
        let format = self.take("format")?;
        match format.as_str() {
            Some("fp8") => {
                let dtype = self.one("dtype", TYPES)?;
                Ok(Format::Fp8 { dtype, blocks: self.one("blocks", BLOCKS)? })
            }
            Some("mxfp8") => {
                let dtype = self.one("dtype", TYPES)?;
                Ok(Format::Mxfp8 { dtype, blocks: self.one("blocks", SHAPES)? })
            }
            Some("nvfp4") => Ok(Format::Nvfp4(Nvfp4Format {
                blocks: self.one("blocks", SHAPES)?,
                scope: self.one("scope", SCOPES)?,
                bound: self.one("bound", BOUNDS)?,
                transform: self.one("transform", TRANSFORMS)?,
            })),
            _ => Err(wrong(self.key, format!("format is {format}"))),
        }
    }

    fn shared(&mut self) -> Result<Shared> {
        let value = self.take("shared")?;
        let Some(names) = value.as_array() else {
            return Err(wrong(self.key, format!("shared is {value}, a list is needed")));
        };
        let unknown = names.iter().find(|name| !SHARED.iter().any(|own| *name == own));
        if let Some(unknown) = unknown {
            return Err(wrong(self.key, format!("shared has {unknown}")));
        }
        let [data, scale_inv, amax] = SHARED.map(|own| names.iter().any(|name| name == own));
        Ok(Shared { data, scale_inv, amax })
    }
}
