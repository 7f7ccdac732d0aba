//! What the workload wants of a database engine, whichever it is: connections of users, a connection that asks between the
//! phases, loading, and what a capture wants besides.
//!
//! Requests, mix, streams, marks, checks and consistency conditions know these traits only.

use serde_json::Value;

use super::request::TransactionInput;
use super::rows::Population;
use crate::cpu;
use crate::{Error, Result};

/// What a transaction did, as far as the reply tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Undone on purpose (New-Order with an invalid item).
    pub rolled_back: bool,
    /// Orders delivered (Delivery only).
    pub delivered: u32,
}

/// How much of a transaction the client sends at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum RoundTrip {
    /// All of it: a call of a stored procedure.
    #[default]
    Transaction,
    /// A statement.
    Statement,
}

impl RoundTrip {
    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RoundTrip::Transaction => "transaction",
            RoundTrip::Statement => "statement",
        }
    }
}

/// Which of its transactions an engine counts, beside those of the users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Whether a transaction that only reads counts as a commit.
    pub reads: bool,
    /// Commits of the driver itself for each user, between two readings.
    pub per_user: u64,
    /// Its further commits between two readings.
    pub control: u64,
}

/// A database engine with the place of a database.
#[allow(async_fn_in_trait)] // each future is awaited on the thread that made it
pub trait Engine: Sync {
    /// A user's connection.
    type Session: Session;
    /// The connection that is idle while users work.
    type Control: Control;
    /// What a capture reads of the engine's memory before the users work.
    type Memory;
    /// Name of the engine in reports.
    const NAME: &'static str;

    /// Opens the connection that is idle while users work.
    ///
    /// # Errors
    /// [`Error::Environment`] when there is no database.
    async fn control(&self) -> Result<Self::Control>;

    /// Opens a user's connection and prepares the transactions.
    ///
    /// # Errors
    /// When the database is not reachable or lacks what the transactions need.
    async fn session(&self, round_trip: RoundTrip) -> Result<Self::Session>;

    /// Creates and fills the database, replacing one of this workload; `progress` is told each step. Returns its bytes.
    ///
    /// # Errors
    /// When the engine refuses a statement.
    async fn fill(&self, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<i64>;

    /// Reads the whole database into memory, so that a warm-up need not.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn prewarm(&self) -> Result<()>;

    /// Reads what lies where in the engine's memory, before the users work.
    ///
    /// # Errors
    /// When the engine refuses.
    async fn memory(&self) -> Result<Self::Memory>;

    /// Describes the engine's memory as a trace does: the program, and named ranges of addresses. Null if it tells nothing.
    ///
    /// # Errors
    /// When the engine refuses.
    async fn describe(&self, control: &Self::Control, before: &Self::Memory) -> Result<Value>;
}

/// A user's connection.
#[allow(async_fn_in_trait)]
pub trait Session: Send {
    /// The process that works for this user.
    fn process(&self) -> u32;

    /// Whose processor time is the server's.
    fn server(&self) -> cpu::Server;

    /// Nanoseconds of processor time that the engine has spent for this user; asked by the user's own thread.
    fn nanoseconds(&self) -> u64;

    /// Whether the connection still stands.
    fn is_live(&self) -> bool;

    /// Makes the engine's counts tell of this user's transactions.
    ///
    /// # Errors
    /// When the engine refuses.
    async fn publish(&self) -> Result<()>;

    /// Executes one transaction and reads the complete reply.
    ///
    /// # Errors
    /// When the engine reports any error, or replies something impossible.
    async fn execute(&self, request: &TransactionInput, districts: i32) -> Result<Outcome>;
}

/// The columns of a row as text; `None` stands for NULL.
pub type TextRow = Vec<Option<String>>;

/// The connection that asks between the phases, for checks and counts.
#[allow(async_fn_in_trait)]
pub trait Control {
    /// Begins a transaction whose statements all see one state of the database.
    const SNAPSHOT: &'static str;
    /// What the engine counts.
    const COUNTING: Counting;

    /// Executes a statement in one round trip, and returns its first row.
    ///
    /// # Errors
    /// When the statement fails.
    async fn row(&self, statement: &str) -> Result<Option<TextRow>>;

    /// Executes statements whose rows nobody wants.
    ///
    /// # Errors
    /// When one fails.
    async fn batch(&self, statements: &str) -> Result<()>;

    /// Commits and rollbacks of the database so far.
    ///
    /// # Errors
    /// When the engine does not tell.
    async fn counts(&self) -> Result<(i64, i64)>;

    /// Whether the engine commits transactions of its own, such as those that clean up.
    ///
    /// # Errors
    /// When the engine does not tell.
    async fn has_others(&self) -> Result<bool>;

    /// The single value of a statement.
    ///
    /// # Errors
    /// When the statement fails or returns no row.
    async fn value(&self, statement: &str) -> Result<String> {
        let row = self.row(statement).await?;
        let row = row.ok_or_else(|| Error::Check(format!("no row from: {statement}")))?;
        Ok(row.into_iter().next().flatten().unwrap_or_default())
    }

    /// The single whole number of a statement.
    ///
    /// # Errors
    /// When the statement fails or returns something else.
    async fn number(&self, statement: &str) -> Result<i64> {
        let text = self.value(statement).await?;
        text.parse().map_err(|_| Error::Check(format!("\"{text}\" is not a whole number, from: {statement}")))
    }
}
