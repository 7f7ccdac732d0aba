//! Loading `PostgreSQL`: tables through COPY in bulk, keys afterwards, statistics and a checkpoint at the end.
//!
//! Each table is created and filled in one transaction with frozen rows, so a server with
//! `wal_level = minimal` writes no log for it and no later query has to set visibility bits.

use std::pin::pin;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::Client;

use super::connect::Server;
use super::procedures::PROCEDURES;
use crate::error::Context;
use crate::oltp::rows::{Population, Table};
use crate::oltp::schema::{KEYS, NAMES, TABLES};
use crate::Result;

/// Bytes handed to the server at a time: large enough to amortise a message, small in cache.
const CHUNK: usize = 256 << 10;

/// Creates and fills the database, replacing one of this workload; `progress` is told each step.
///
/// # Errors
/// When the server is not reachable or refuses a statement.
pub async fn fill(server: &Server, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<()> {
    server.create_database().await?;
    let mut client = server.connect().await?;
    client
        .batch_execute(&format!("DROP TABLE IF EXISTS {}", NAMES.join(", ")))
        .await
        .context("dropping tables")?;
    copy(&mut client, population, progress).await?;
    progress("keys and indexes");
    client.batch_execute("SET maintenance_work_mem = '256MB'").await.context("setting memory")?;
    client.batch_execute(KEYS).await.context("making keys")?;
    client.batch_execute(PROCEDURES).await.context("making procedures")?;
    progress("statistics and checkpoint");
    client.batch_execute("VACUUM (ANALYZE)").await.context("gathering statistics")?;
    client.batch_execute("CHECKPOINT").await.context("writing a checkpoint")
}

async fn copy(client: &mut Client, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<()> {
    let transaction = client.transaction().await.context("starting to load")?;
    transaction.batch_execute(TABLES).await.context("creating tables")?;
    for table in Table::ALL {
        progress(table.name());
        let statement = format!("COPY {} FROM STDIN (FREEZE)", table.name());
        let context = format!("loading {}", table.name());
        let mut sink = pin!(transaction.copy_in::<_, Bytes>(&statement).await.context(&context)?);
        let mut chunk = Vec::with_capacity(CHUNK * 2);
        for part in 1..=population.parts(table) {
            population.append(&mut chunk, table, part);
            while chunk.len() >= CHUNK {
                let rest = chunk.split_off(CHUNK);
                sink.send(Bytes::from(std::mem::replace(&mut chunk, rest))).await.context(&context)?;
            }
        }
        sink.send(Bytes::from(chunk)).await.context(&context)?;
        sink.finish().await.context(&context)?;
    }
    transaction.commit().await.context("committing the load")
}
