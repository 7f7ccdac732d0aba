//! One user's connection: the five prepared calls or the statements in their place, and what comes back.

use tokio_postgres::types::Type;
use tokio_postgres::Client;

use super::calls::{Calls, Row, Statement};
use super::connect::Server;
use crate::cpu::{self, ProcessTime};
use crate::error::Context;
use crate::oltp::engine::{Outcome, RoundTrip, Session};
use crate::oltp::request::{Customer, TransactionInput};
use crate::oltp::statements::{self, Arguments, Columns, Connection, Sql, STATEMENTS};
use crate::{Error, Result};

/// What a session has prepared.
enum Prepared {
    Calls(Vec<Statement>),
    Statements(Vec<Statement>),
}

/// A connection with what it has prepared.
pub struct PostgresSession {
    client: Client,
    /// Over the client's own socket.
    calls: Calls,
    prepared: Prepared,
    /// Process identifier of the server process behind the connection.
    backend: u32,
    /// Its processor time.
    time: ProcessTime,
}

/// The calls, in the order of `TransactionKind::ALL`. Output parameters need a place holder.
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

impl PostgresSession {
    /// Connects and prepares the transactions.
    ///
    /// # Errors
    /// When the server is not reachable or does not know the procedures.
    pub async fn open(server: &Server, round_trip: RoundTrip) -> Result<Self> {
        let (client, calls) = server.connect_for_calls().await?;
        let prepared = match round_trip {
            RoundTrip::Transaction => {
                let each = CALLS.iter().map(|call| calls.prepare(call).context("preparing the transactions"));
                Prepared::Calls(each.collect::<Result<_>>()?)
            }
            RoundTrip::Statement => {
                let each =
                    STATEMENTS.iter().map(|sql| calls.prepare(sql).context("preparing the statements"));
                Prepared::Statements(each.collect::<Result<_>>()?)
            }
        };
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await.context("asking for the process")?;
        let backend = row.get::<_, i32>(0) as u32;
        Ok(PostgresSession { client, calls, prepared, backend, time: ProcessTime::of(backend) })
    }
}

impl Session for PostgresSession {
    fn process(&self) -> u32 {
        self.backend
    }

    fn server(&self) -> cpu::Server {
        cpu::Server::Siblings(self.backend)
    }

    fn nanoseconds(&self) -> u64 {
        self.time.nanoseconds()
    }

    fn is_live(&self) -> bool {
        !self.client.is_closed() && !self.calls.is_broken()
    }

    /// In one transaction of its own. See [`FLUSH`].
    async fn publish(&self) -> Result<()> {
        self.client.simple_query(FLUSH).await.context("flushing statistics")?;
        Ok(())
    }

    async fn execute(&self, request: &TransactionInput, districts: i32) -> Result<Outcome> {
        let call = match &self.prepared {
            Prepared::Calls(calls) => &calls[request.kind() as usize - 1],
            Prepared::Statements(prepared) => {
                return statements::execute(&OneByOne { calls: &self.calls, prepared }, request, districts)
                    .await
            }
        };
        let reply = match request {
            TransactionInput::NewOrder { warehouse, district, customer, lines, .. } => {
                let supply: Vec<i32> = lines.iter().map(|line| line.0).collect();
                let items: Vec<i32> = lines.iter().map(|line| line.1).collect();
                let quantities: Vec<i32> = lines.iter().map(|line| line.2).collect();
                self.calls.execute(call, &[warehouse, district, customer, &supply, &items, &quantities])
            }
            TransactionInput::Payment { warehouse, district, home, customer, cents } => {
                let (number, name) = columns(customer);
                self.calls.execute(call, &[warehouse, district, &home.0, &home.1, &number, &name, cents])
            }
            TransactionInput::OrderStatus { warehouse, district, customer } => {
                let (number, name) = columns(customer);
                self.calls.execute(call, &[warehouse, district, &number, &name])
            }
            TransactionInput::Delivery { warehouse, carrier } => {
                self.calls.execute(call, &[warehouse, carrier, &districts])
            }
            TransactionInput::StockLevel { warehouse, district, threshold } => {
                self.calls.execute(call, &[warehouse, district, threshold])
            }
        };
        let rows = reply.context_of(|| format!("executing {request:?}"))?;
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
fn outcome(request: &TransactionInput, row: &Row) -> Result<Outcome> {
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
            outcome.delivered = row.get::<i32>(0) as u32;
            true
        }
        TransactionInput::StockLevel { .. } => row.get::<i32>(0) >= 0,
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

/// A connection that is sent one statement at a time.
struct OneByOne<'a> {
    calls: &'a Calls,
    prepared: &'a [Statement],
}

impl Connection for OneByOne<'_> {
    type Row = Row;

    async fn begin(&self, _writes: bool) -> Result<()> {
        self.calls.batch("BEGIN").context("beginning a transaction")
    }

    async fn roll_back(&self) -> Result<()> {
        self.calls.batch("ROLLBACK").context("rolling back")
    }

    async fn rows(&self, sql: Sql, arguments: Arguments<'_>) -> Result<Vec<Row>> {
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.for_postgres()).collect();
        let reply = self.calls.execute(&self.prepared[sql as usize], &arguments);
        reply.context_of(|| format!("executing {sql:?}"))
    }
}

impl Columns for Row {
    fn integer(&self, column: usize) -> i64 {
        match *self.kind(column) {
            Type::INT8 => self.get(column),
            _ => self.get::<i32>(column).into(),
        }
    }

    fn real(&self, column: usize) -> f64 {
        self.get(column)
    }

    fn text(&self, column: usize) -> &str {
        self.get(column)
    }
}

impl std::fmt::Debug for PostgresSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresSession").field("backend", &self.backend).finish_non_exhaustive()
    }
}
