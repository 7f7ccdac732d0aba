//! What can go wrong in a client, and the process exit code of each kind.

/// The result of any operation of a client.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, as one sentence for the person who ran the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A check failed or the run is not valid (exit code 1).
    #[error("{0}")]
    Check(String),
    /// The command line or the data do not fit the request (exit code 2).
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something: the server, a device, a privilege (exit code 3).
    #[error("{0}")]
    Environment(String),
}

impl Error {
    /// The process exit code: 1 a check failed, 2 usage, 3 environment.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Check(_) => 1,
            Error::Usage(_) => 2,
            Error::Environment(_) => 3,
        }
    }
}
