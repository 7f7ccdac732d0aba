//! Why a run has no result, and how it says how far it is.

use servsim_core::SourceError;
use servsim_files::{Blame, WriteError};

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The user's input is wrong.
    #[error("{0}")]
    Usage(String),
    /// The host lacks something: room on a disk, say.
    #[error("{0}")]
    Environment(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A fault of the simulator.
    #[error("{0}")]
    Internal(String),
}

impl From<SourceError> for SimulateError {
    fn from(error: SourceError) -> Self {
        if error.is_stopped() {
            Self::Interrupted
        } else {
            Self::Usage(error.0)
        }
    }
}

impl From<WriteError> for SimulateError {
    fn from(error: WriteError) -> Self {
        match error.blame() {
            Blame::Name => Self::Usage(error.to_string()),
            Blame::Host => Self::Environment(error.to_string()),
        }
    }
}

/// Says how far a simulation is, and asks whether to go on.
pub type Proceed<'a> = dyn FnMut(u64) -> bool + 'a;

/// So many transactions, in words.
pub(crate) fn transactions(number: u64) -> String {
    format!("{number} transaction{}", if number == 1 { "" } else { "s" })
}
