//! What lies where in the server's shared memory: its structures, and the relation in each buffer.
//!
//! A capture keeps it, so that misses can be told by table and index. The buffers are read once
//! before the warm-up and once after the measurement; one that changed hands between the two is
//! nobody's. The questions are asked in the database `postgres`, whose transactions the
//! reconciliation of the run does not count.

use std::collections::HashMap;

use serde_json::{json, Value};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::connect::Server;
use crate::error::Context;
use crate::Result;

/// The database that is asked.
const DATABASE: &str = "postgres";
/// Relations of one database and those all databases share, with the file that holds each.
const RELATIONS: &str =
    "SELECT CASE WHEN relisshared THEN 0 ELSE d.oid END, pg_relation_filenode(c.oid), relname \
     FROM pg_class c, pg_database d \
     WHERE datname = current_database() AND pg_relation_filenode(c.oid) IS NOT NULL";
/// Buffers in use.
const BUFFERS: &str = "SELECT bufferid, reldatabase, relfilenode, relforknumber FROM pg_buffercache \
     WHERE relfilenode IS NOT NULL";
/// Structures with a place; what is allocated without a name has none.
const STRUCTURES: &str = "SELECT name, off, allocated_size FROM pg_shmem_allocations \
     WHERE off IS NOT NULL AND name IS NOT NULL ORDER BY off";

/// A relation's file: database (0 for shared catalogues), file number, fork.
type File = (u64, u64, u64);

/// Which file each buffer holds, by number of the buffer from 1.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Buffers(HashMap<u64, File>);

/// Reads which file each buffer holds.
///
/// # Errors
/// When the server refuses, or lacks the extension `pg_buffercache`.
pub async fn buffers(server: &Server) -> Result<Buffers> {
    let client = server.connect_to(DATABASE).await?;
    let make = "CREATE EXTENSION IF NOT EXISTS pg_buffercache";
    client.batch_execute(make).await.context("making the extension pg_buffercache")?;
    let mut found = HashMap::new();
    for row in rows(&client, BUFFERS).await? {
        found.insert(whole(&row, 0), (whole(&row, 1), whole(&row, 2), whole(&row, 3)));
    }
    Ok(Buffers(found))
}

/// Describes the shared memory: structures with offset and size in bytes, relations by name, and
/// runs of buffers, each `[relation or null, how many]`, from buffer 1.
///
/// # Errors
/// When the server refuses.
pub async fn describe(server: &Server, workload: &Client, before: &Buffers) -> Result<Value> {
    let after = buffers(server).await?;
    let names: HashMap<(u64, u64), String> = rows(workload, RELATIONS)
        .await?
        .iter()
        .map(|row| ((whole(row, 0), whole(row, 1)), row.get(2).unwrap_or_default().to_owned()))
        .collect();
    let client = server.connect_to(DATABASE).await?;
    let structures: Vec<Value> = rows(&client, STRUCTURES)
        .await?
        .iter()
        .map(|row| json!([row.get(0), whole(row, 1), whole(row, 2)]))
        .collect();
    let block = super::connect::number(&client, "SELECT current_setting('block_size')::int").await?;
    let (relations, runs) = held(&before.0, &after.0, &names);
    Ok(json!({ "block_bytes": block, "structures": structures, "relations": relations, "buffers": runs }))
}

/// Names of the relations, and the runs of buffers that hold each.
fn held(
    before: &HashMap<u64, File>,
    after: &HashMap<u64, File>,
    names: &HashMap<(u64, u64), String>,
) -> (Vec<String>, Vec<(Option<usize>, u64)>) {
    let mut relations: Vec<String> = Vec::new();
    let mut runs: Vec<(Option<usize>, u64)> = Vec::new();
    for buffer in 1..=after.keys().max().copied().unwrap_or(0) {
        let now = after.get(&buffer).filter(|now| before.get(&buffer).is_none_or(|then| then == *now));
        let name = now.and_then(|(database, file, fork)| {
            names.get(&(*database, *file)).map(|name| format!("{name}{}", suffix(*fork)))
        });
        let relation = name.map(|name| {
            relations.iter().position(|known| *known == name).unwrap_or_else(|| {
                relations.push(name);
                relations.len() - 1
            })
        });
        match runs.last_mut() {
            Some((last, count)) if *last == relation => *count += 1,
            _ => runs.push((relation, 1)),
        }
    }
    (relations, runs)
}

/// What a fork beside the main one adds to the name (PostgreSQL, `common/relpath.h`).
fn suffix(fork: u64) -> &'static str {
    match fork {
        0 => "",
        1 => " (free space map)",
        2 => " (visibility map)",
        _ => " (initialisation fork)",
    }
}

async fn rows(client: &Client, statement: &str) -> Result<Vec<SimpleQueryRow>> {
    let messages = client.simple_query(statement).await.context(statement)?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

fn whole(row: &SimpleQueryRow, column: usize) -> u64 {
    row.get(column).and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_changed_hands_are_nobodys() {
        let names = HashMap::from([((5, 10), "item".to_owned()), ((5, 11), "stock".to_owned())]);
        let before = HashMap::from([(1, (5, 10, 0)), (2, (5, 11, 0)), (4, (5, 10, 0))]);
        let after = HashMap::from([
            (1, (5, 10, 0)),
            (2, (5, 10, 0)),
            (3, (5, 10, 0)),
            (4, (5, 10, 0)),
            (6, (5, 11, 2)),
            (7, (9, 10, 0)),
        ]);
        let (relations, runs) = held(&before, &after, &names);
        assert_eq!(relations, ["item", "stock (visibility map)"]);
        // Buffer 2 held another file before, 5 holds nothing, 7 a file of another database.
        assert_eq!(runs, [(Some(0), 1), (None, 1), (Some(0), 2), (None, 1), (Some(1), 1), (None, 1)]);
    }
}
