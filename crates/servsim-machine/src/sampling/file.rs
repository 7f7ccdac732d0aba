//! Live-points as one file: what a functional pass found, and the states it left, each to be read alone.
//!
//! Layout, numbers little-endian: the 8 bytes [`MAGIC`]; the version of the format (4 bytes); the states, one after
//! another, as checkpoints have them; the outline of the trace, packed; the index, JSON: who made it, from which trace,
//! with which settings, the range, and place, length and CRC-32C of the outline and of every state; the length of the index (8 bytes) and its CRC-32C (4 bytes). It is
//! written in one go while the pass goes on, so nothing of it has to be held in memory.

use crate::error::SimulateError;
use crate::warm::checkpoint::{belongs, pack, unpack};
use crate::warm::outline::Outline;
use crate::warm::{Counts, Groups, LivePoint, Range, WarmStart};
use serde_json::{json, Value};
use servsim_files::{AtomicFile, Special, WriteError};
use servsim_import::Budget;
use servsim_mem::snapshot;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// First bytes of the file.
const MAGIC: &[u8; 8] = b"svlivep\n";
/// Version of the format. It also changes when that of checkpoints does.
const VERSION: u32 = 7;
/// Compression level of the outline: the fastest that zstd recommends for general use.
const LEVEL: i32 = 3;
/// Bytes before the states.
const HEAD: u64 = 8 + 4;
/// Bytes behind the index.
const TAIL: u64 = 8 + 4;

/// What live-points belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belongs {
    /// Hash of the trace.
    pub trace: String,
    /// Its file name, for messages.
    pub trace_name: String,
    /// Whatever else decides about them, by name.
    pub settings: BTreeMap<String, String>,
}

/// Why live-points cannot be used, in a sentence without its end, which is the remedy.
pub struct Unfit(pub String);

/// Writes live-points while a pass goes on.
pub struct Writer {
    file: AtomicFile,
    path: PathBuf,
    at: u64,
    states: Vec<Value>,
}

impl Writer {
    /// Begins the file at `path`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self, SimulateError> {
        let file = AtomicFile::create(path, Special::Refuse).map_err(|error| WriteError::new(path, error))?;
        let mut writer = Self { file, path: path.to_owned(), at: 0, states: Vec::new() };
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), SimulateError> {
        self.file.file().write_all(bytes).map_err(|error| WriteError::new(&self.path, error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Keeps a state.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, state: &WarmStart) -> Result<(), SimulateError> {
        let (header, body) = pack(state).map_err(|error| WriteError::new(&self.path, error))?;
        let crc = crc32c::crc32c(&body);
        self.states.push(json!({"offset": self.at, "length": body.len(), "crc": crc, "header": header}));
        self.put(&body)
    }

    /// Finishes the file; a state whose window the range does not hold is not listed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self, owner: &Belongs, range: &Range, outline: &Outline) -> Result<u64, SimulateError> {
        let mut bytes = snapshot::Writer::default();
        outline.save(&mut bytes);
        let bytes = bytes.into_bytes();
        let packed =
            zstd::bulk::compress(&bytes, LEVEL).map_err(|error| WriteError::new(&self.path, error))?;
        let outline = json!({
            "offset": self.at, "length": packed.len(), "crc": crc32c::crc32c(&packed), "bytes": bytes.len(),
        });
        self.put(&packed)?;
        let points: Vec<Value> = range
            .places
            .iter()
            .zip(&self.states)
            .map(|(place, state)| {
                json!({
                    "transactions": place.transactions, "groups": groups_json(&place.groups), "state": state,
                })
            })
            .collect();
        let index = json!({
            "servsim": env!("CARGO_PKG_VERSION"),
            "trace": {"name": owner.trace_name, "hash": owner.trace},
            "settings": owner.settings,
            "range": {
                "transactions": range.transactions, "groups": groups_json(&range.groups), "spacing": range.spacing,
            },
            "points": points, "outline": outline,
        })
        .to_string();
        self.put(index.as_bytes())?;
        self.put(&(index.len() as u64).to_le_bytes())?;
        self.put(&crc32c::crc32c(index.as_bytes()).to_le_bytes())?;
        let path = self.path;
        self.file.commit().map_err(|error| WriteError::new(&path, error).into())
    }
}

/// Live-points opened for reading.
pub struct LivePoints {
    file: File,
    path: PathBuf,
    states: Vec<Value>,
    outline: Value,
    /// What the pass found.
    pub range: Range,
    /// Length of the file.
    pub bytes: u64,
}

impl LivePoints {
    /// Opens the file at `path`; `None` if there is none.
    ///
    /// # Errors
    /// When it is damaged, or belongs to something else.
    pub fn open(path: &Path, owner: &Belongs) -> Result<Option<Self>, Unfit> {
        let name = path.display();
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Unfit(format!("cannot read the live-points {name}: {error}"))),
        };
        let damaged = |why: &str| Unfit(format!("the live-points {name} are damaged: {why}"));
        let bytes = file.metadata().map_err(|error| damaged(&error.to_string()))?.len();
        let read = |at: u64, length: u64| {
            let inside = at.checked_add(length).is_some_and(|end| end <= bytes);
            let mut found = vec![0; if inside { length as usize } else { 0 }];
            match file.read_exact_at(&mut found, at) {
                Ok(()) if inside => Ok(found),
                Ok(()) => Err(damaged("they end too soon")),
                Err(error) => Err(damaged(&error.to_string())),
            }
        };
        let head = read(0, HEAD.min(bytes))?;
        if !head.starts_with(MAGIC) {
            return Err(Unfit(format!("{name} holds no live-points of servsim")));
        }
        let version = u32::from_le_bytes(read(8, 4)?.try_into().unwrap_or_default());
        if version != VERSION {
            return Err(Unfit(format!(
                "the live-points {name} have format {version}, and this servsim reads {VERSION}"
            )));
        }
        let tail = bytes.checked_sub(TAIL).ok_or_else(|| damaged("they end too soon"))?;
        let length = u64::from_le_bytes(read(tail, 8)?.try_into().unwrap_or_default());
        let at = tail.checked_sub(length).filter(|&at| at >= HEAD);
        let index = read(at.ok_or_else(|| damaged("their index is not where it should be"))?, length)?;
        if crc32c::crc32c(&index).to_le_bytes()[..] != read(tail + 8, 4)? {
            return Err(damaged("the checksum of their index is wrong"));
        }
        let index: Value = serde_json::from_slice(&index).map_err(|_| damaged("their index is no JSON"))?;
        belongs(&index, (&owner.trace, &owner.trace_name), &owner.settings)
            .map_err(|why| Unfit(format!("the live-points {name} cannot be used: {why}")))?;
        let (range, states) = range_of(&index).ok_or_else(|| damaged("their index lacks a number"))?;
        let outline = index["outline"].clone();
        Ok(Some(Self { file, path: path.to_owned(), states, outline, range, bytes }))
    }

    /// The state at live-point `number`.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn state(&self, number: usize) -> Result<WarmStart, Unfit> {
        let damaged = |why: &str| self.damaged(&format!("at number {}: {why}", number + 1));
        let state = &self.states[number];
        let body = self.part(state).map_err(damaged)?;
        let budget = Budget::of_environment().map_err(Unfit)?;
        unpack(&state["header"], &body, &budget).map_err(|why| damaged(why.0))
    }

    /// The outline of the trace, which has so many tasks.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn outline(&self, tasks: usize) -> Result<Outline, Unfit> {
        let damaged = |why: &str| self.damaged(&format!("in the outline of the trace: {why}"));
        let packed = self.part(&self.outline).map_err(damaged)?;
        let length = self.outline["bytes"].as_u64().ok_or_else(|| damaged("an absurd length"))?;
        let budget = Budget::of_environment().map_err(Unfit)?;
        // A step takes three bytes at least, and forty in memory.
        let _claim = budget.claim(length.saturating_mul(14)).map_err(Unfit)?;
        let bytes = zstd::bulk::decompress(&packed, length as usize);
        let bytes = bytes.map_err(|_| damaged("it cannot be unpacked"))?;
        let mut reader = snapshot::Reader::new(&bytes);
        let outline = Outline::restore(&mut reader).and_then(|outline| reader.end().map(|()| outline));
        let outline = outline.map_err(|why| damaged(why.0))?;
        let fits = outline.tasks.len() == tasks;
        fits.then_some(outline).ok_or_else(|| damaged("it has other tasks than the trace"))
    }

    fn damaged(&self, why: &str) -> Unfit {
        Unfit(format!("the live-points {} are damaged {why}", self.path.display()))
    }

    /// The bytes of what the index tells of.
    fn part(&self, told: &Value) -> Result<Vec<u8>, &'static str> {
        let number = |key: &str| told[key].as_u64().ok_or("their index lacks a number");
        let (offset, length) = (number("offset")?, number("length")?);
        let end = offset.checked_add(length).ok_or("an absurd length")?;
        if end > self.bytes {
            return Err("they end too soon");
        }
        let mut body = vec![0; length as usize];
        self.file.read_exact_at(&mut body, offset).map_err(|_| "they cannot be read")?;
        if u64::from(crc32c::crc32c(&body)) == number("crc")? {
            Ok(body)
        } else {
            Err("its checksum is wrong")
        }
    }
}

/// Counts by name of tasks, in JSON.
pub fn groups_json(groups: &Groups) -> Value {
    let of = |(name, counts): (&String, &Counts)| (name.clone(), counts_json(counts));
    groups.iter().map(of).collect()
}

/// Counts in JSON.
pub fn counts_json(counts: &Counts) -> Value {
    json!({
        "instructions": counts.instructions, "references": counts.references, "misses": counts.misses,
        "memory_reads": counts.memory_reads,
    })
}

fn groups_of(value: &Value) -> Option<Groups> {
    value.as_object()?.iter().map(|(name, counts)| Some((name.clone(), counts_of(counts)?))).collect()
}

fn counts_of(value: &Value) -> Option<Counts> {
    let number = |key: &str| value[key].as_u64();
    Some(Counts {
        instructions: number("instructions")?,
        references: number("references")?,
        misses: number("misses")?,
        memory_reads: number("memory_reads")?,
    })
}

/// What the index says of the range, and where the states are.
fn range_of(index: &Value) -> Option<(Range, Vec<Value>)> {
    let (range, points) = (&index["range"], index["points"].as_array()?);
    let place = |point: &Value| {
        Some(LivePoint {
            transactions: point["transactions"].as_u64()?,
            groups: groups_of(&point["groups"])?,
        })
    };
    let range = Range {
        transactions: range["transactions"].as_u64()?,
        groups: groups_of(&range["groups"])?,
        spacing: range["spacing"].as_u64()?,
        places: points.iter().map(place).collect::<Option<_>>()?,
    };
    Some((range, points.iter().map(|point| point["state"].clone()).collect()))
}
