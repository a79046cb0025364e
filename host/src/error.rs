//! One error type. Its message says what was asked, what the limit is and what to do; its questions
//! (`is_unsupported`, `is_no_driver`, …) let a program react without matching on text.

use std::borrow::Cow;
use std::fmt;

/// Shorthand for a result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The driver's own memory ran out, not a tensor's: `CUDA_ERROR_OUT_OF_MEMORY`.
const DRIVER_OUT_OF_MEMORY: u32 = 2;

/// Why an operation was refused or failed.
///
/// ```
/// use grouped_linear::{Device, DType, Tensor};
/// let stream = Device::cpu().stream()?;
/// let error = Tensor::from_f32(&stream, &[2, 3], DType::F32, &[1.0; 5]).unwrap_err();
/// assert!(error.is_invalid_argument());
/// # Ok::<(), grouped_linear::Error>(())
/// ```
pub struct Error(Box<Kind>);

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("{0}")]
    Invalid(String),
    #[error("{what}: shape {got:?} was given, {want} is needed")]
    Shape { what: Cow<'static, str>, got: Vec<usize>, want: String },
    #[error(
        "{what}: shape {shape:?} with strides {strides:?} (in elements) was given, contiguous rows \
         with strides {want:?} are needed; make the buffer contiguous where it is allocated (its \
         owner would not see a copy), or lend its contiguous parts one by one"
    )]
    Strides { what: &'static str, shape: Vec<usize>, strides: Vec<isize>, want: Vec<isize> },
    #[error("{what}: element type {got} was given, {want} is needed")]
    DType { what: Cow<'static, str>, got: String, want: String },
    #[error(
        "{what} lies on {got}, but the stream belongs to {want}; copy it with Tensor::to_stream"
    )]
    WrongDevice { what: &'static str, got: String, want: String },
    #[error("{0}")]
    Unsupported(String),
    #[error("operation {index} ({kind}): {source}")]
    InOperation { index: usize, kind: &'static str, source: Error },
    #[error("what was asked for is computed, but not recorded for the calls to come: {source}")]
    NotRecorded { source: Error },
    #[error("splits: group {group} has {value} rows; every split must be 0 or more")]
    NegativeSplit { group: u32, value: i64 },
    #[error(
        "splits: they add up to {value} rows, but the token buffer has {rows}; \
         nothing was written, pass a larger buffer or smaller splits"
    )]
    TooManyRows { value: i64, rows: i64 },
    #[error("no CUDA driver: {0}; install the NVIDIA driver, or use Device::cpu()")]
    NoDriver(String),
    #[error("the CUDA driver {found} is too old: {needed} or newer is needed ({why}); update it")]
    OldDriver { found: String, needed: String, why: String },
    #[error(
        "out of memory: {bytes} bytes were asked for on {device}: {detail}; \
         free tensors, or use fewer rows at a time"
    )]
    OutOfMemory { bytes: usize, device: String, detail: String },
    #[error(
        "CUDA call {call} failed with code {code} ({name}): {detail}; check the GPU and its \
         free memory with nvidia-smi, and restart the process if a kernel has failed"
    )]
    Driver { call: &'static str, code: u32, name: String, detail: String },
    #[error("PTX module {module} could not be loaded: {detail}\n{log}")]
    ModuleLoad { module: String, detail: String, log: String },
    #[error(
        "{work} failed on the emulated GPU {device}, which runs nothing any more; \
         mend the kernel or its arguments and make a new device. The emulator reports:\n{report}"
    )]
    #[cfg_attr(not(feature = "emulator"), expect(dead_code, reason = "only emulated GPUs report"))]
    Emulated { device: String, work: String, report: String },
}

impl Error {
    /// An argument is wrong. The message says what was given, what is needed and what to do; for
    /// operations that are added to this crate's ([`ops::Function`](crate::ops::Function)).
    pub fn invalid(message: impl Into<String>) -> Self {
        Kind::Invalid(message.into()).into()
    }

    /// What was asked is sound, but cannot be done here. As [`Error::invalid`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Kind::Unsupported(message.into()).into()
    }

    /// The same error, with the operation of a pipeline where it arose.
    pub(crate) fn in_operation(self, index: usize, kind: &'static str) -> Self {
        Kind::InOperation { index, kind, source: self }.into()
    }

    /// The same error, of the recording of what has been computed.
    pub(crate) fn not_recorded(self) -> Self {
        Kind::NotRecorded { source: self }.into()
    }

    /// Why, wherever it arose.
    fn kind(&self) -> &Kind {
        match &*self.0 {
            Kind::InOperation { source, .. } | Kind::NotRecorded { source } => source.kind(),
            kind => kind,
        }
    }

    pub(crate) fn shape(
        what: impl Into<Cow<'static, str>>,
        got: &[usize],
        want: impl Into<String>,
    ) -> Self {
        Kind::Shape { what: what.into(), got: got.to_vec(), want: want.into() }.into()
    }

    pub(crate) fn dtype(
        what: impl Into<Cow<'static, str>>,
        got: impl fmt::Display,
        want: impl Into<String>,
    ) -> Self {
        Kind::DType { what: what.into(), got: got.to_string(), want: want.into() }.into()
    }

    /// An argument is wrong: shape, element type, device, overlap or value.
    pub fn is_invalid_argument(&self) -> bool {
        let is_invalid = matches!(
            self.kind(),
            Kind::Invalid(_)
                | Kind::Shape { .. }
                | Kind::Strides { .. }
                | Kind::DType { .. }
                | Kind::WrongDevice { .. }
                | Kind::NegativeSplit { .. }
                | Kind::TooManyRows { .. }
        );
        is_invalid && !self.is_not_recorded()
    }

    /// The splits are wrong: negative, or more rows than the buffer has.
    pub fn is_bad_splits(&self) -> bool {
        matches!(self.kind(), Kind::NegativeSplit { .. } | Kind::TooManyRows { .. })
    }

    /// What was asked is sound, but this device or version cannot do it.
    pub fn is_unsupported(&self) -> bool {
        let is_unsupported = matches!(self.kind(), Kind::Unsupported(_) | Kind::OldDriver { .. });
        is_unsupported && !self.is_not_recorded()
    }

    /// No CUDA driver, or no GPU, was found.
    pub fn is_no_driver(&self) -> bool {
        matches!(self.kind(), Kind::NoDriver(_))
    }

    /// The device had not enough memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self.kind(),
            Kind::OutOfMemory { .. } | Kind::Driver { code: DRIVER_OUT_OF_MEMORY, .. }
        )
    }

    /// A [`CapturedLayer`](crate::CapturedLayer) has computed what was asked for, but could not
    /// record it for the calls to come; asked again, it computes again. After its other errors
    /// nothing has been computed, unless the driver failed half-way. Such an error is neither of an
    /// [argument](Self::is_invalid_argument) nor of what is [not supported](Self::is_unsupported),
    /// after which another way may be tried.
    pub fn is_not_recorded(&self) -> bool {
        match &*self.0 {
            Kind::InOperation { source, .. } => source.is_not_recorded(),
            kind => matches!(kind, Kind::NotRecorded { .. }),
        }
    }

    /// The shape that was given, where a shape or its strides are what is wrong.
    pub fn given_shape(&self) -> Option<&[usize]> {
        match self.kind() {
            Kind::Shape { got: shape, .. } | Kind::Strides { shape, .. } => Some(shape),
            _ => None,
        }
    }

    /// The strides that were given, in elements, where they are what is wrong.
    pub fn given_strides(&self) -> Option<&[isize]> {
        match self.kind() {
            Kind::Strides { strides, .. } => Some(strides),
            _ => None,
        }
    }

    /// The emulator's report, where work on an emulated GPU failed.
    pub fn emulator_report(&self) -> Option<&str> {
        match self.kind() {
            Kind::Emulated { report, .. } => Some(report),
            _ => None,
        }
    }

    /// The driver's code, where a driver call failed.
    pub fn driver_code(&self) -> Option<u32> {
        match *self.kind() {
            Kind::Driver { code, .. } => Some(code),
            _ => None,
        }
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {}
