//! What lies where in the server's shared memory, by address: its structures, and the relation in each buffer.
//!
//! The server tells places as distances from the beginning of that memory; where it begins is in the memory map of any
//! of its processes, the same in all. A capture keeps it, so that misses can be told by table and index. The buffers are read once
//! before the warm-up and once after the measurement; one that changed hands between the two is
//! nobody's. The questions are asked in the database `postgres`, whose transactions the
//! reconciliation of the run does not count.

use std::collections::HashMap;

use serde_json::{json, Value};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use super::connect::Server;
use crate::error::Context;
use crate::oltp::engine::Control;
use crate::{Error, Result};

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
/// Name of the structure that holds the buffers (PostgreSQL, `storage/buffer/buf_init.c`).
const BLOCKS: &str = "Buffer Blocks";
/// Buffers begin at a multiple of this many bytes since PostgreSQL 16 (`PG_IO_ALIGN_SIZE`).
const ALIGNMENT: u64 = 4096;
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

/// A named range: name, first address, bytes.
type NamedRange = (String, u64, u64);

/// Describes the shared memory as a trace does: the program, and named ranges of addresses.
///
/// # Errors
/// When the server refuses, or its memory map shows no shared memory.
pub async fn describe(server: &Server, workload: &Client, before: &Buffers) -> Result<Value> {
    let after = buffers(server).await?;
    let names: HashMap<(u64, u64), String> = rows(workload, RELATIONS)
        .await?
        .iter()
        .map(|row| ((whole(row, 0), whole(row, 1)), row.get(2).unwrap_or_default().to_owned()))
        .collect();
    let client = server.connect_to(DATABASE).await?;
    let process = client.number("SELECT pg_backend_pid()").await?;
    let unknown = |why: String| Error::Environment(format!("the server's memory map tells nothing: {why}"));
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"));
    let maps = maps.map_err(|error| unknown(error.to_string()))?;
    let begin = begin_of_shared_memory(&maps).ok_or_else(|| unknown("no shared memory".into()))?;
    let structures: Vec<NamedRange> = rows(&client, STRUCTURES)
        .await?
        .iter()
        .map(|row| (row.get(0).unwrap_or_default().to_owned(), begin + whole(row, 1), whole(row, 2)))
        .collect();
    let block = client.number("SELECT current_setting('block_size')::int").await?;
    let runs = held(&before.0, &after.0, &names);
    Ok(json!({ "program": "postgres", "ranges": ranges(&structures, &runs, block.unsigned_abs()) }))
}

/// Where the shared memory begins: the anonymous shared mapping, the largest of several.
fn begin_of_shared_memory(maps: &str) -> Option<u64> {
    let mapping = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let shared = rest.split(' ').next()?.ends_with('s') && rest.ends_with("/dev/zero (deleted)");
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        shared.then_some((end - start, start))
    };
    maps.lines().filter_map(mapping).max().map(|(_, start)| start)
}

/// Structures, the runs of buffers in the place of the structure that holds them, and between them gaps that are
/// named by what lies before them: the elements of a hash table lie behind its named header, the processes' structures
/// behind `Proc Header` (PostgreSQL, `storage/ipc/shmem.c`).
fn ranges(structures: &[NamedRange], runs: &[(Option<String>, u64)], block: u64) -> Vec<NamedRange> {
    let mut places: Vec<NamedRange> = Vec::new();
    for (name, start, bytes) in structures {
        if let Some((before, first, length)) = places.last() {
            let (end, name) = (first + length, format!("(after {before})"));
            if end < *start {
                places.push((name, end, start - end));
            }
        }
        if name == BLOCKS {
            places.extend(blocks(*start, *bytes, runs, block));
        } else {
            places.push((name.clone(), *start, *bytes));
        }
    }
    places
}

/// A range for each run of buffers that hold one relation, and one for the rest.
fn blocks(start: u64, bytes: u64, runs: &[(Option<String>, u64)], block: u64) -> Vec<NamedRange> {
    let end = start + bytes;
    let mut at = if bytes % block >= ALIGNMENT { start.next_multiple_of(ALIGNMENT) } else { start };
    let mut places = Vec::new();
    for (relation, count) in runs {
        let name = relation.as_deref().unwrap_or("(buffers of no known relation)");
        places.push((name.to_owned(), at, count * block));
        at += count * block;
    }
    if at < end {
        places.push(("(unused buffers)".to_owned(), at, end - at));
    }
    places
}

/// The runs of buffers that hold one relation each, from buffer 1.
fn held(
    before: &HashMap<u64, File>,
    after: &HashMap<u64, File>,
    names: &HashMap<(u64, u64), String>,
) -> Vec<(Option<String>, u64)> {
    let mut runs: Vec<(Option<String>, u64)> = Vec::new();
    for buffer in 1..=after.keys().max().copied().unwrap_or(0) {
        let now = after.get(&buffer).filter(|now| before.get(&buffer).is_none_or(|then| then == *now));
        let relation = now.and_then(|(database, file, fork)| {
            names.get(&(*database, *file)).map(|name| format!("{name}{}", suffix(*fork)))
        });
        match runs.last_mut() {
            Some((last, count)) if *last == relation => *count += 1,
            _ => runs.push((relation, 1)),
        }
    }
    runs
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
        let runs = held(&before, &after, &names);
        let told: Vec<(&str, u64)> =
            runs.iter().map(|(name, count)| (name.as_deref().unwrap_or("-"), *count)).collect();
        // Buffer 2 held another file before, 5 holds nothing, 7 a file of another database.
        assert_eq!(
            told,
            [("item", 1), ("-", 1), ("item", 2), ("-", 1), ("stock (visibility map)", 1), ("-", 1)]
        );
    }

    const MAPS: &str = "\
555555554000-555555609000 r--p 00000000 fe:00 45 /usr/lib/postgresql/15/bin/postgres
7fffec000000-7fffec001000 rw-s 00000000 00:01 9 /dev/zero (deleted)
7fffed000000-7ffff6000000 rw-s 00000000 00:01 8 /dev/zero (deleted)
7ffff6000000-7ffff6001000 rw-s 00000000 00:01 7 /SYSV0001 (deleted)
7ffff7000000-7fffffffff00 rw-p 00000000 00:00 0 /dev/zero (deleted)
";

    #[test]
    fn the_largest_shared_anonymous_mapping_is_it() {
        assert_eq!(begin_of_shared_memory(MAPS), Some(0x7fff_ed00_0000));
        assert_eq!(begin_of_shared_memory(&MAPS.replace("rw-s", "rw-p")), None);
    }

    /// Ranges of a server with `bytes` of buffers of 8 KiB, the first structure at `begin` + 0x80.
    fn told(begin: u64, bytes: u64) -> Vec<(u64, u64, String)> {
        let structures =
            [("LOCK hash".to_owned(), begin + 0x80, 0x40), (BLOCKS.to_owned(), begin + 0x10000, bytes)];
        let runs = [(Some("stock".to_owned()), 2), (None, 1), (Some("item".to_owned()), 1)];
        let found = ranges(&structures, &runs, 8192);
        found.into_iter().map(|(name, start, bytes)| (start, bytes, name)).collect()
    }

    #[test]
    fn structures_gaps_and_runs_of_buffers_get_their_addresses() {
        let expected = [
            (0x10_0080, 0x40, "LOCK hash"),
            (0x10_00c0, 0xff40, "(after LOCK hash)"),
            (0x11_0000, 0x4000, "stock"),
            (0x11_4000, 0x2000, "(buffers of no known relation)"),
            (0x11_6000, 0x2000, "item"),
            (0x11_8000, 0x2000, "(unused buffers)"),
        ];
        assert_eq!(
            told(0x10_0000, 5 * 8192),
            expected.map(|(start, bytes, name)| (start, bytes, name.to_owned()))
        );
    }

    #[test]
    fn buffers_that_begin_at_a_multiple_leave_the_room_before_them_out() {
        // The structure has room for the alignment; its own place is 0x100 behind such a multiple.
        let found = told(0x10_0100, 4 * 8192 + 4096);
        assert_eq!(found[2], (0x11_1000, 0x4000, "stock".to_owned()));
        assert_eq!(found[4], (0x11_7000, 0x2000, "item".to_owned()));
    }
}
