//! Bytes of an epoch: a directory of streams, the captured order, then the compressed columns.

use crate::budget::{Budget, Claim};
use crate::chunk::{compress, decompress};
use crate::decode::{Columns, StreamDecoder};
use crate::dictionary::take;
use crate::encode::StreamEncoder;
use crate::error::Fault;
use crate::model::{Counts, Segment, TaskId};
use crate::varint::{get, get_length, put};
use std::sync::Arc;

/// Streams of all tasks between two points of captured time, still uncompressed.
#[derive(Debug, Default)]
pub struct RawEpoch {
    pub start_ns: u64,
    pub streams: Vec<(TaskId, StreamEncoder)>,
    pub segments: Vec<Segment>,
}

/// One stream's entry in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    pub task: TaskId,
    pub items: u64,
    pub counts: Counts,
    columns: [ColumnLocation; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ColumnLocation {
    raw: usize,
    start: usize,
    stored: usize,
}

/// An epoch's directory and the bytes of its columns.
#[derive(Debug)]
pub struct Epoch {
    pub start_ns: u64,
    pub entries: Vec<StreamEntry>,
    pub segments: Vec<Segment>,
    payload: Vec<u8>,
    budget: Arc<Budget>,
    /// Memory of the order.
    _order: Claim,
}

/// More tasks than this in one epoch is not a trace.
const MAX_STREAMS: usize = 1 << 20;

impl RawEpoch {
    /// The payload of the epoch's chunk.
    pub fn encode(&self) -> Vec<u8> {
        let mut blobs = Vec::new();
        let mut head = Vec::new();
        put(&mut head, self.start_ns);
        put(&mut head, self.streams.len() as u64);
        for (task, stream) in &self.streams {
            put(&mut head, u64::from(*task));
            put(&mut head, stream.items);
            stream.counts.to_array().iter().for_each(|count| put(&mut head, *count));
            for column in [&stream.tokens, &stream.addresses, &stream.pages, &stream.events] {
                blob(column, &mut head, &mut blobs);
            }
        }
        let mut order = Vec::new();
        for segment in &self.segments {
            put(&mut order, u64::from(segment.task));
            put(&mut order, segment.items);
        }
        put(&mut head, self.segments.len() as u64);
        blob(&order, &mut head, &mut blobs);
        head.extend_from_slice(&blobs);
        head
    }
}

/// Appends the compressed `column` to `blobs` and its two lengths to `head`.
fn blob(column: &[u8], head: &mut Vec<u8>, blobs: &mut Vec<u8>) {
    let stored = compress(column);
    put(head, column.len() as u64);
    put(head, stored.len() as u64);
    blobs.extend_from_slice(&stored);
}

impl Epoch {
    /// Reads the directory of an epoch's payload.
    pub fn decode(payload: Vec<u8>, budget: Arc<Budget>) -> Result<Self, Fault> {
        let mut at = 0;
        let start_ns = get(&payload, &mut at)?;
        let count = get_length(&payload, &mut at, MAX_STREAMS, "the number of streams")?;
        let mut next_blob = 0;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(decode_entry(&payload, &mut at, &mut next_blob)?);
        }
        let segment_count = get_length(&payload, &mut at, payload.len() << 12, "the number of segments")?;
        let mut order = decode_location(&payload, &mut at, &mut next_blob)?;
        // Blob offsets were relative to the end of the directory, which is known only now.
        for column in entries.iter_mut().flat_map(|entry| &mut entry.columns) {
            column.start += at;
        }
        order.start += at;
        if at + next_blob != payload.len() {
            return Err(Fault::from("the epoch's columns do not fill its chunk"));
        }
        let memory = order.raw + segment_count * size_of::<Segment>();
        let claim = budget.claim(memory as u64).map_err(Fault)?;
        let segments = decode_segments(&column(&payload, &order)?, segment_count)?;
        Ok(Epoch { start_ns, entries, segments, payload, budget, _order: claim })
    }

    /// The decompressed columns of a stream.
    pub fn columns(&self, entry: &StreamEntry) -> Result<Columns, Fault> {
        let memory: usize = entry.columns.iter().map(|column| column.raw).sum();
        let claim = self.budget.claim(memory as u64 + StreamDecoder::MEMORY).map_err(Fault)?;
        let read = |i: usize| column(&self.payload, &entry.columns[i]);
        Ok(Columns::new([read(0)?, read(1)?, read(2)?, read(3)?], claim))
    }

    /// The decompressed tokens and events of a stream.
    pub fn tokens_and_events(&self, entry: &StreamEntry) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        Ok((column(&self.payload, &entry.columns[0])?, column(&self.payload, &entry.columns[3])?))
    }

    /// The directory entry of `task`, if it ran in this epoch.
    pub fn entry(&self, task: TaskId) -> Option<&StreamEntry> {
        self.entries.iter().find(|entry| entry.task == task)
    }
}

fn decode_entry(payload: &[u8], at: &mut usize, next_blob: &mut usize) -> Result<StreamEntry, Fault> {
    let task = get_length(payload, at, u32::MAX as usize, "a task number")? as TaskId;
    let items = get(payload, at)?;
    let mut counts = [0; 6];
    for count in &mut counts {
        *count = get(payload, at)?;
    }
    let mut columns = [ColumnLocation { raw: 0, start: 0, stored: 0 }; 4];
    for column in &mut columns {
        *column = decode_location(payload, at, next_blob)?;
    }
    Ok(StreamEntry { task, items, counts: Counts::from_array(counts), columns })
}

fn decode_location(payload: &[u8], at: &mut usize, next_blob: &mut usize) -> Result<ColumnLocation, Fault> {
    let raw = get_length(payload, at, crate::chunk::MAX_CHUNK, "the length of a column")?;
    let stored = get_length(payload, at, payload.len(), "the stored length of a column")?;
    let start = *next_blob;
    *next_blob += stored;
    Ok(ColumnLocation { raw, start, stored })
}

fn column(payload: &[u8], location: &ColumnLocation) -> Result<Vec<u8>, Fault> {
    let mut at = location.start;
    decompress(take(payload, &mut at, location.stored)?, location.raw)
}

fn decode_segments(order: &[u8], count: usize) -> Result<Vec<Segment>, Fault> {
    let mut at = 0;
    let mut segments = Vec::new();
    for _ in 0..count {
        let task = get_length(order, &mut at, u32::MAX as usize, "a task number")? as TaskId;
        segments.push(Segment { task, items: get(order, &mut at)? });
    }
    Ok(segments)
}
