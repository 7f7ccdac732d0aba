//! Loading: tables through COPY in bulk, keys afterwards, statistics and a checkpoint at the end.
//!
//! Each table is created and filled in one transaction with frozen rows, so a server with
//! `wal_level = minimal` writes no log for it and no later query has to set visibility bits.

use std::pin::pin;
use std::time::Instant;

use bytes::Bytes;
use futures_util::SinkExt;
use serde_json::json;
use tokio_postgres::Client;

use super::connect::{number, Server};
use super::procedures::{KEYS, NAMES, PROCEDURES, TABLES};
use super::rows::{Population, Table};
use super::scale::{Constants, Scale};
use crate::error::Context;
use crate::{Error, Result};

/// Version of the database layout; a run refuses any other.
pub const VERSION: i64 = 1;
/// Bytes handed to the server at a time: large enough to amortise a message, small in cache.
const CHUNK: usize = 256 << 10;

/// What the database says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its size.
    pub scale: Scale,
    /// The seed of its rows.
    pub seed: u64,
    /// The constants C of its last names, items and customers.
    pub c_load: Constants,
}

/// Creates and fills the database, replacing one of this workload; `progress` is told each step.
///
/// # Errors
/// When the server is not reachable or refuses a statement.
pub async fn load(
    server: &Server,
    scale: Scale,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<serde_json::Value> {
    scale.validate()?;
    let begin = Instant::now();
    server.create_database().await?;
    let mut client = server.connect().await?;
    let population = Population::new(scale, seed);
    client
        .batch_execute(&format!("DROP TABLE IF EXISTS {}", NAMES.join(", ")))
        .await
        .context("dropping tables")?;
    fill(&mut client, &population, progress).await?;
    progress("keys and indexes");
    client.batch_execute("SET maintenance_work_mem = '256MB'").await.context("setting memory")?;
    client.batch_execute(KEYS).await.context("making keys")?;
    client.batch_execute(PROCEDURES).await.context("making procedures")?;
    progress("statistics and checkpoint");
    client.batch_execute("VACUUM (ANALYZE)").await.context("gathering statistics")?;
    record(&client, &population).await?;
    client.batch_execute("CHECKPOINT").await.context("writing a checkpoint")?;
    let bytes = number(&client, "SELECT pg_database_size(current_database())").await?;
    Ok(json!({
        "schema": "servsim.workload.load/1",
        "workload": "oltp",
        "notice": super::NOTICE,
        "scale": scale,
        "seed": seed,
        "c_load": population.c,
        "database_bytes": bytes,
        "seconds": begin.elapsed().as_secs_f64(),
    }))
}

async fn fill(client: &mut Client, population: &Population, progress: &mut dyn FnMut(&str)) -> Result<()> {
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

/// Records how the database was made; the last step, so that an interrupted load is never used.
async fn record(client: &Client, population: &Population) -> Result<()> {
    let scale = json!(population.scale).to_string();
    let c_load = json!(population.c).to_string();
    client
        .execute(
            "INSERT INTO servsim_oltp VALUES ($1::bigint::integer, $2, $3, $4)",
            &[&VERSION, &population.seed.to_string(), &scale, &c_load],
        )
        .await
        .context("recording the scale")?;
    Ok(())
}

/// Reads how the database was made.
///
/// # Errors
/// [`Error::Usage`] when it holds no finished load of this version.
pub async fn made(client: &Client) -> Result<Made> {
    let unloaded =
        || Error::Usage("this database holds no OLTP workload of this version; run `load` first".to_owned());
    let row = client
        .query_opt("SELECT version::bigint, seed, scale, c_load FROM servsim_oltp", &[])
        .await
        .map_err(|error| if error.as_db_error().is_some() { unloaded() } else { lost(&error) })?
        .ok_or_else(unloaded)?;
    if row.get::<_, i64>(0) != VERSION {
        return Err(unloaded());
    }
    let seed = row.get::<_, &str>(1).parse().map_err(|_| unloaded())?;
    let scale = serde_json::from_str(row.get(2)).map_err(|_| unloaded())?;
    let c_load = serde_json::from_str(row.get(3)).map_err(|_| unloaded())?;
    Ok(Made { scale, seed, c_load })
}

fn lost(error: &tokio_postgres::Error) -> Error {
    Error::Environment(format!("the connection was lost: {error}"))
}
