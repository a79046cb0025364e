//! Whether work runs at once or is recorded.

/// When the work of a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// As soon as the device comes to it.
    Eager,
    /// Whenever the graph that records it is replayed. Nothing can be allocated meanwhile.
    Captured,
}
