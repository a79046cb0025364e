//! What tests use to go wrong with devices.

use grouped_linear::{Device, DeviceKind, Stream};

/// A stream of another device: of the CPU, and for the CPU of an emulated GPU, where there are any.
pub(crate) fn stream(of: &Stream) -> Option<Stream> {
    if of.device().id().kind != DeviceKind::Cpu {
        return Device::cpu().stream().ok();
    }
    #[cfg(feature = "emulator")]
    let other = Device::emulated(grouped_linear::Arch::Sm90a);
    #[cfg(not(feature = "emulator"))]
    let other = Device::cuda(0);
    other.and_then(|device| device.stream()).ok()
}
