//! What a grant brings.

use servsim_core::CpuId;
use servsim_mem::Origin;

/// An access that was performed at a grant, and when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Whose it is.
    pub cpu: CpuId,
    /// What of the processor asked.
    pub origin: Origin,
    /// When it was granted.
    pub granted: u64,
    /// When its data are there, or everybody has seen it.
    pub complete: u64,
    /// Whether it is done; otherwise it has to ask again.
    pub done: bool,
}
