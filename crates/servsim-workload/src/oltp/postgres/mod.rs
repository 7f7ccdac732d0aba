//! `PostgreSQL` under the workload.

pub mod bulk;
pub mod calls;
pub mod connect;
pub mod procedures;
pub mod session;
pub mod shared_memory;
pub mod stream;

use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

pub use connect::Server;
use session::{PostgresSession, FLUSH};
use shared_memory::Buffers;

use super::engine::{Control, Counting, Engine, RoundTrip, TextRow};
use super::rows::Population;
use crate::error::Context;
use crate::Result;

/// Reads every table and index into the server's buffers, or into the page cache where the buffers
/// do not hold the database.
const PREWARM: &str = "SELECT sum(pg_prewarm(c.oid, CASE WHEN pg_database_size(current_database()) < \
     pg_size_bytes(current_setting('shared_buffers')) THEN 'buffer' ELSE 'read' END)) \
     FROM pg_class c WHERE relkind IN ('r', 'i', 't', 'm')";

impl Engine for Server {
    type Session = PostgresSession;
    type Control = Client;
    type Memory = Buffers;
    const NAME: &'static str = "PostgreSQL";

    async fn control(&self) -> Result<Client> {
        self.connect().await
    }

    async fn session(&self, round_trip: RoundTrip) -> Result<PostgresSession> {
        PostgresSession::open(self, round_trip).await
    }

    async fn fill(&self, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<i64> {
        bulk::fill(self, population, progress).await?;
        self.connect().await?.number("SELECT pg_database_size(current_database())").await
    }

    async fn prewarm(&self) -> Result<()> {
        let statements = format!("CREATE EXTENSION IF NOT EXISTS pg_prewarm; {PREWARM}");
        let client = self.connect().await?;
        client.batch_execute(&statements).await.context("reading the database into memory")
    }

    async fn memory(&self) -> Result<Buffers> {
        shared_memory::buffers(self).await
    }

    async fn describe(&self, control: &Client, before: &Buffers) -> Result<Value> {
        shared_memory::describe(self, control, before).await
    }
}

impl Control for Client {
    // The sums over all order lines sort or hash millions of rows: give them memory.
    const SNAPSHOT: &'static str =
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL work_mem = '128MB'";
    // Each user publishes its counts; the control connection does, and reads them.
    const COUNTING: Counting = Counting { reads: true, per_user: 1, control: 2 };

    async fn row(&self, statement: &str) -> Result<Option<TextRow>> {
        let messages = self.simple_query(statement).await.context(statement)?;
        Ok(messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        }))
    }

    async fn batch(&self, statements: &str) -> Result<()> {
        self.batch_execute(statements).await.context(statements)
    }

    async fn counts(&self) -> Result<(i64, i64)> {
        self.value(FLUSH).await?;
        let counts = "SELECT xact_commit || ' ' || xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        let counts = self.value(counts).await?;
        let (commits, rollbacks) = counts.split_once(' ').unwrap_or_default();
        Ok((commits.parse().unwrap_or_default(), rollbacks.parse().unwrap_or_default()))
    }

    async fn has_others(&self) -> Result<bool> {
        Ok(self.value("SHOW autovacuum").await? == "on")
    }
}
