//! What can go wrong in a driver, and the process exit code of each kind.

use crate::oltp::postgres::calls::CallError;

/// The result of any driver operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, as one sentence for the person who ran the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A check failed or the run is not valid (exit code 1).
    #[error("{0}")]
    Check(String),
    /// The command line or the database does not fit the request (exit code 2).
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something: the server, a device, a privilege (exit code 3).
    #[error("{0}")]
    Environment(String),
    /// The engine refused a statement or the connection broke (exit code 1: the run is void).
    #[error("{context}: {}", source.says())]
    Database {
        /// What the driver was doing.
        context: String,
        /// The client library's error.
        source: DatabaseError,
    },
}

/// What the library of a database engine reports.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// `PostgreSQL`'s client.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// A transaction's own messages to it.
    #[error(transparent)]
    Call(#[from] CallError),
    /// `SQLite`.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl From<servsim_driver::Error> for Error {
    fn from(error: servsim_driver::Error) -> Self {
        match error {
            servsim_driver::Error::Check(said) => Error::Check(said),
            servsim_driver::Error::Usage(said) => Error::Usage(said),
            servsim_driver::Error::Environment(said) => Error::Environment(said),
        }
    }
}

impl Error {
    /// The process exit code: 1 a check failed, 2 usage, 3 environment.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Check(_) | Error::Database { .. } => 1,
            Error::Usage(_) => 2,
            Error::Environment(_) => 3,
        }
    }
}

impl DatabaseError {
    /// Whether the engine answered, and refused; otherwise it was not reached.
    pub fn is_refusal(&self) -> bool {
        match self {
            DatabaseError::Postgres(error) => error.as_db_error().is_some(),
            DatabaseError::Call(error) => matches!(error, CallError::Refused { .. }),
            DatabaseError::Sqlite(_) => true,
        }
    }

    /// The server's own message where there is one, the client library's otherwise.
    fn says(&self) -> String {
        let refusal = match self {
            DatabaseError::Postgres(error) => error.as_db_error(),
            DatabaseError::Call(_) | DatabaseError::Sqlite(_) => None,
        };
        match refusal {
            Some(server) => {
                format!("the server says \"{}\" (SQLSTATE {})", server.message(), server.code().code())
            }
            None => self.to_string(),
        }
    }
}

/// Adds what the driver was doing to a database error.
pub trait Context<T> {
    /// Wraps the error with `context`.
    ///
    /// # Errors
    /// The original error, as [`Error::Database`].
    fn context(self, context: &str) -> Result<T>;

    /// The same, for a context that costs something to write and is wanted for an error only.
    ///
    /// # Errors
    /// The original error, as [`Error::Database`].
    fn context_of(self, context: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<DatabaseError>> Context<T> for std::result::Result<T, E> {
    fn context(self, context: &str) -> Result<T> {
        self.context_of(|| context.to_owned())
    }

    fn context_of(self, context: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Database { context: context(), source: source.into() })
    }
}
