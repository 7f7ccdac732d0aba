//! Why a run has no result, and how it says how far it is.

use servsim_core::SourceError;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The user's input is wrong.
    #[error("{0}")]
    Usage(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A fault of the simulator.
    #[error("{0}")]
    Internal(String),
}

impl From<SourceError> for SimulateError {
    fn from(error: SourceError) -> Self {
        Self::Usage(error.0)
    }
}

/// Says how far a simulation is, and asks whether to go on.
pub type Proceed<'a> = dyn FnMut(u64) -> bool + 'a;
