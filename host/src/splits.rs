//! How many rows each group has: known to the host, or to the device alone.

use std::sync::{Arc, Mutex};

use crate::backend::Stream;
use crate::error::{Error, Kind, Result};
use crate::tensor::{DType, Tensor};

/// Rows per group, in order (`m_splits`). Group `g` owns `m_g` consecutive rows of the token
/// matrix.
///
/// ```
/// use grouped_linear::{Device, Splits, Tensor};
/// let stream = Device::cpu().stream()?;
/// let host = Splits::host(&[3, 0, 5])?;
/// let device = Splits::device(Tensor::from_slice(&stream, &[3], &[3i32, 0, 5])?)?;
/// assert_eq!(host.groups(), device.groups());
/// # Ok::<(), grouped_linear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Splits(Source);

/// Streams whose copies are kept; the oldest goes first, so that splits that live long do not keep
/// the memory of every stream that ever used them.
const MOST_UPLOADS: usize = 4;

/// Why splits that the host knows cannot be recorded.
pub(crate) const HOST_SPLITS_IN_GRAPH: &str = "splits on the host cannot be captured in a graph, \
     since a replay would not see new ones; pass Splits::device";

#[derive(Clone, Debug)]
enum Source {
    Host(Arc<HostSplits>),
    Device(Tensor),
}

#[derive(Debug)]
struct HostSplits {
    counts: Vec<i64>,
    total: i64,
    /// Copies on devices, by the stream that made them: forward and backward share one upload.
    uploads: Mutex<Vec<(u64, Tensor)>>,
}

impl Splits {
    /// Splits that the host knows; they are checked before any launch.
    ///
    /// # Errors
    /// The sum exceeds `i64`.
    pub fn host(counts: &[usize]) -> Result<Self> {
        let too_large = || Error::invalid("splits: their sum exceeds 2^63");
        let counts: Vec<i64> = counts
            .iter()
            .map(|&count| i64::try_from(count).map_err(|_| too_large()))
            .collect::<Result<_>>()?;
        let total = counts
            .iter()
            .try_fold(0i64, |sum, &count| sum.checked_add(count))
            .ok_or_else(too_large)?;
        Ok(Self(Source::Host(Arc::new(HostSplits { counts, total, uploads: Mutex::default() }))))
    }

    /// Splits in device memory, `i32` or `i64`, one per group. The host never reads them; the
    /// device checks them on every use, and [`Stream::synchronize`] reports what it found.
    ///
    /// # Errors
    /// Not a vector of `i32` or `i64`.
    pub fn device(counts: Tensor) -> Result<Self> {
        if counts.shape().len() != 1 {
            return Err(Error::shape("splits", counts.shape(), "[groups]"));
        }
        if !matches!(counts.dtype(), DType::I32 | DType::I64) {
            return Err(Error::dtype("splits", counts.dtype(), "i32 or i64"));
        }
        Ok(Self(Source::Device(counts)))
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        match &self.0 {
            Source::Host(splits) => splits.counts.len(),
            Source::Device(counts) => counts.len(),
        }
    }

    /// The counts, where the host knows them.
    pub fn counts(&self) -> Option<&[i64]> {
        match &self.0 {
            Source::Host(splits) => Some(&splits.counts),
            Source::Device(_) => None,
        }
    }

    /// Whether the two always give the same counts.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Host(a), Source::Host(b)) => Arc::ptr_eq(a, b) || a.counts == b.counts,
            (Source::Device(a), Source::Device(b)) => a.same_as(b) && a.dtype() == b.dtype(),
            _ => false,
        }
    }

    /// Bytes of one split as the kernels read it.
    pub(crate) fn bytes_each(&self) -> u32 {
        match &self.0 {
            Source::Host(_) => 8,
            Source::Device(counts) => counts.dtype().bytes() as u32,
        }
    }

    /// Everything the host can check: number of groups, device, and the sum where it is known.
    pub(crate) fn check(&self, groups: usize, rows: usize, stream: &Stream) -> Result<()> {
        if self.groups() != groups {
            let got = self.groups();
            return Err(Error::invalid(format!(
                "splits: {got} were given, the operation has {groups} groups"
            )));
        }
        match &self.0 {
            Source::Host(splits) if splits.total > rows as i64 => {
                Err(Kind::TooManyRows { value: splits.total, rows: rows as i64 }.into())
            }
            Source::Host(_) => Ok(()),
            Source::Device(counts) => counts.check_device("splits", stream),
        }
    }

    /// The splits in the memory of the queue's device.
    pub(crate) fn on_device(&self, queue: &dyn crate::backend::Launcher) -> Result<Tensor> {
        let splits = match &self.0 {
            Source::Device(counts) => return Ok(counts.clone()),
            Source::Host(splits) => splits,
        };
        if queue.is_capturing() {
            return Err(Error::unsupported(HOST_SPLITS_IN_GRAPH));
        }
        let mut uploads = splits.uploads.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = queue.queue_number();
        if let Some((_, tensor)) = uploads.iter().find(|(queue, _)| *queue == number) {
            return Ok(tensor.clone());
        }
        let memory = queue.allocate(8 * splits.counts.len())?;
        queue.upload(&memory, 0, bytemuck::cast_slice(&splits.counts))?;
        let shape = [splits.counts.len()];
        let tensor = Tensor::from_memory(memory, 0, &shape, DType::I64, queue.device_id());
        let oldest = (uploads.len() == MOST_UPLOADS).then(|| uploads.remove(0));
        uploads.push((number, tensor.clone()));
        // Freed behind the lock: it may be the last that holds another stream.
        drop(uploads);
        drop(oldest);
        Ok(tensor)
    }

    pub(crate) fn device_tensor(&self) -> Option<&Tensor> {
        match &self.0 {
            Source::Host(_) => None,
            Source::Device(counts) => Some(counts),
        }
    }
}
