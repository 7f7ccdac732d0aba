//! One user's connection: the five prepared calls or the statements in their place, and what comes back.

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Statement};

use super::connect::Server;
use super::request::{Customer, TransactionInput, TransactionKind};
use super::statements::Statements;
use crate::error::Context;
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

/// What a session has prepared.
enum Prepared {
    Calls(Vec<Statement>),
    Statements(Statements),
}

/// A connection with what it has prepared.
pub struct Session {
    client: Client,
    prepared: Prepared,
    /// Process identifier of the server process behind the connection.
    pub backend: u32,
}

/// The calls, in the order of [`TransactionKind::ALL`]. Output parameters need a place holder.
const CALLS: [&str; 5] = [
    "CALL new_order($1::int, $2::int, $3::int, $4::int[], $5::int[], $6::int[], \
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CALL payment($1::int, $2::int, $3::int, $4::int, $5::int, $6::text, $7::int, \
     NULL, NULL, NULL, NULL, NULL, NULL)",
    "CALL order_status($1::int, $2::int, $3::int, $4::text, NULL, NULL, NULL, NULL, NULL)",
    "CALL delivery($1::int, $2::int, $3::int, NULL)",
    "CALL stock_level($1::int, $2::int, $3::int, NULL)",
];

/// Publishes a server process's counts. It reads a table because `PostgreSQL` 15 skips the flush,
/// commit counts included, when the process has no pending table statistics.
pub const FLUSH: &str = "SELECT pg_stat_force_next_flush() FROM servsim_oltp";

impl Session {
    /// Connects and prepares the transactions.
    ///
    /// # Errors
    /// When the server is not reachable or does not know the procedures.
    pub async fn open(server: &Server, round_trip: RoundTrip) -> Result<Self> {
        let client = server.connect().await?;
        let prepared = match round_trip {
            RoundTrip::Transaction => {
                let calls = try_join_all(CALLS.map(|call| client.prepare(call))).await;
                Prepared::Calls(calls.context("preparing the transactions")?)
            }
            RoundTrip::Statement => Prepared::Statements(Statements::prepare(&client).await?),
        };
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await.context("asking for the process")?;
        Ok(Session { client, prepared, backend: row.get::<_, i32>(0) as u32 })
    }

    /// Whether the connection still stands.
    pub fn is_live(&self) -> bool {
        !self.client.is_closed()
    }

    /// Makes the server process publish its commit counts, in one transaction of its own.
    /// See [`FLUSH`].
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn flush_statistics(&self) -> Result<()> {
        self.client.simple_query(FLUSH).await.context("flushing statistics")?;
        Ok(())
    }

    /// Executes one transaction and reads the complete reply.
    ///
    /// # Errors
    /// When the server reports any error, or replies something impossible.
    pub async fn execute(&self, request: &TransactionInput, districts: i32) -> Result<Outcome> {
        let call = match &self.prepared {
            Prepared::Calls(calls) => &calls[request.kind() as usize - 1],
            Prepared::Statements(statements) => {
                return statements.execute(&self.client, request, districts).await
            }
        };
        let reply = match request {
            TransactionInput::NewOrder { warehouse, district, customer, lines, .. } => {
                let supply: Vec<i32> = lines.iter().map(|line| line.0).collect();
                let items: Vec<i32> = lines.iter().map(|line| line.1).collect();
                let quantities: Vec<i32> = lines.iter().map(|line| line.2).collect();
                self.client.query(call, &[warehouse, district, customer, &supply, &items, &quantities]).await
            }
            TransactionInput::Payment { warehouse, district, home, customer, cents } => {
                let (number, name) = columns(customer);
                self.client.query(call, &[warehouse, district, &home.0, &home.1, &number, &name, cents]).await
            }
            TransactionInput::OrderStatus { warehouse, district, customer } => {
                let (number, name) = columns(customer);
                self.client.query(call, &[warehouse, district, &number, &name]).await
            }
            TransactionInput::Delivery { warehouse, carrier } => {
                self.client.query(call, &[warehouse, carrier, &districts]).await
            }
            TransactionInput::StockLevel { warehouse, district, threshold } => {
                self.client.query(call, &[warehouse, district, threshold]).await
            }
        };
        let rows =
            reply.map_err(|source| Error::Database { context: format!("executing {request:?}"), source })?;
        let [row] = rows.as_slice() else {
            return Err(Error::Check(format!("{} reply rows to {request:?}, expected one", rows.len())));
        };
        outcome(request, row)
    }
}

fn columns(customer: &Customer) -> (Option<i32>, Option<&str>) {
    match customer {
        Customer::Number(number) => (Some(*number), None),
        Customer::LastName(name) => (None, Some(name)),
    }
}

/// Reads what the user would see, and checks it as far as the request determines it.
fn outcome(request: &TransactionInput, row: &tokio_postgres::Row) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let plausible = match request {
        TransactionInput::NewOrder { lines, invalid, .. } => {
            outcome.rolled_back = row.get(0);
            let names: Option<Vec<&str>> = row.get(6);
            outcome.rolled_back == *invalid
                && (*invalid || names.is_some_and(|names| names.len() == lines.len()))
        }
        TransactionInput::Payment { customer, .. } => expected_customer(customer, row.get(0)),
        TransactionInput::OrderStatus { customer, .. } => {
            let lines: Vec<&str> = row.get(4);
            expected_customer(customer, row.get(0)) && (5..=15).contains(&lines.len())
        }
        TransactionInput::Delivery { .. } => {
            outcome.delivered = row.get::<_, i32>(0) as u32;
            true
        }
        TransactionInput::StockLevel { .. } => row.get::<_, i32>(0) >= 0,
    };
    if plausible {
        Ok(outcome)
    } else {
        Err(Error::Check(format!("the reply {row:?} does not fit {request:?}")))
    }
}

fn expected_customer(customer: &Customer, replied: i32) -> bool {
    match customer {
        Customer::Number(number) => *number == replied,
        Customer::LastName(_) => replied > 0,
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// Number of the kinds, for arrays indexed by kind.
pub const KINDS: usize = TransactionKind::ALL.len();
