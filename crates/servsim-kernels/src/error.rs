//! Why a kernel does not run, and the exit code of each reason. A check that fails is no error: it
//! stands in the report.

/// The result of whatever can be refused.
pub type Result<T> = std::result::Result<T, Error>;

/// A refusal, as one sentence for the person who asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request makes no sense (exit code 2).
    #[error("{0}")]
    Usage(String),
    /// The host lacks something (exit code 3).
    #[error("{0}")]
    Environment(String),
}

impl Error {
    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Environment(_) => 3,
        }
    }
}

impl From<servsim_driver::Error> for Error {
    fn from(error: servsim_driver::Error) -> Self {
        match error.exit_code() {
            2 => Error::Usage(error.to_string()),
            _ => Error::Environment(error.to_string()),
        }
    }
}
