//! A warm start as a file.
//!
//! Layout, numbers little-endian: the 8 bytes [`MAGIC`]; the version of the format (4 bytes); the
//! lengths of header and body (8 bytes each); the header, JSON: who made it, from which trace, with which
//! settings, how far; the body, zstd: the [`WarmStart`]; the CRC-32C of everything before it (4 bytes).

use super::state::WarmStart;
use super::Amount;
use serde_json::{json, Value};
use servsim_files::{Special, WriteError};
use servsim_import::Budget;
use servsim_mem::snapshot::{Damaged, Reader, Writer};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// First bytes of a checkpoint.
pub const MAGIC: &[u8; 8] = b"svcheck\n";
/// Version of the format. It also changes when the state of any cache, policy or scheduler does.
pub const VERSION: u32 = 6;

/// Bytes before the header.
const FIXED: usize = 8 + 4 + 8 + 8;
/// Bytes of the checksum.
const CHECK: usize = 4;
/// What is said of a checkpoint whose header asks for more memory than one file may take.
const TOO_LARGE: Damaged =
    Damaged("it states more than one file may take of memory (SERVSIM_FILE_MEMORY, 4 GiB if not set)");
/// Compression level: the fastest that zstd recommends for general use.
const LEVEL: i32 = 3;

/// What a checkpoint belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Hash of the trace.
    pub trace: String,
    /// Its file name, for messages.
    pub trace_name: String,
    /// The amount of it that warmed the caches.
    pub amount: Amount,
    /// The settings that it depends on, by key.
    pub settings: BTreeMap<String, String>,
}

/// Writes a checkpoint, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, origin: &Origin, start: &WarmStart) -> Result<(), WriteError> {
    let bytes = encode(origin, start).map_err(|error| WriteError::new(path, error))?;
    servsim_files::write(path, &bytes, Special::Refuse)
}

/// What a header says of a state, and the state, packed.
pub(crate) fn pack(start: &WarmStart) -> std::io::Result<(Value, Vec<u8>)> {
    let mut software = Writer::default();
    start.save(&mut software);
    let mut bytes = software.into_bytes();
    let header = json!({
        "references": start.references,
        "transactions": start.transactions,
        "tasks": start.positions.len(),
        "handlers": start.handlers.len(),
        "processors": start.running.len(),
        "bytes": [bytes.len(), start.caches.len()],
    });
    bytes.extend_from_slice(&start.caches);
    Ok((header, zstd::bulk::compress(&bytes, LEVEL)?))
}

fn encode(origin: &Origin, start: &WarmStart) -> std::io::Result<Vec<u8>> {
    let (mut header, body) = pack(start)?;
    header["servsim"] = json!(env!("CARGO_PKG_VERSION"));
    header["trace"] = json!({"name": origin.trace_name, "hash": origin.trace});
    header["functional_warmup"] = json!(origin.amount.to_string());
    header["settings"] = json!(origin.settings);
    let header = header.to_string();
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(body);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    Ok(bytes)
}

/// Reads the checkpoint at `path` for a run on the trace with this hash and name, on a machine with these
/// settings; also returns the amount that warmed it.
///
/// # Errors
/// One sentence when it cannot be read, is damaged, or belongs to another trace or machine.
pub fn read(
    path: &Path,
    (trace, trace_name): (&str, &str),
    settings: &BTreeMap<String, String>,
) -> Result<(Amount, WarmStart), String> {
    let name = path.display();
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read the checkpoint {name}: {error}"))?;
    let damaged = |why: &str| format!("the checkpoint {name} is damaged: {why}; make it again");
    let (header, body) = open(&bytes).map_err(|why| match why {
        Refusal::Damaged(why) => damaged(why),
        Refusal::Other(why) => format!("{name} {why}"),
    })?;
    belongs(&header, (trace, trace_name), settings).map_err(|why| {
        format!("the checkpoint {name} cannot be used: {why}; warm up by itself with --functional-warm-up")
    })?;
    let amount = header["functional_warmup"].as_str().and_then(|text| text.parse().ok());
    let amount = amount.ok_or_else(|| damaged("its header does not say how far it is"))?;
    let budget = Budget::of_environment()?;
    let start = unpack(&header, body, &budget).map_err(|Damaged(why)| damaged(why))?;
    Ok((amount, start))
}

enum Refusal {
    Damaged(&'static str),
    Other(String),
}

/// Checks the bytes as a whole; the header, and the compressed body.
fn open(bytes: &[u8]) -> Result<(Value, &[u8]), Refusal> {
    if !bytes.starts_with(MAGIC) {
        return Err(Refusal::Other("is no checkpoint of servsim".into()));
    }
    if bytes.len() < FIXED + CHECK {
        return Err(Refusal::Damaged("it ends too soon"));
    }
    let (checked, check) = bytes.split_at(bytes.len() - CHECK);
    let number = |at: usize| u64::from_le_bytes(checked[at..at + 8].try_into().unwrap_or_default());
    let (header, body) = (number(12), number(20));
    if (FIXED as u64).checked_add(header).and_then(|sum| sum.checked_add(body)) != Some(checked.len() as u64)
    {
        return Err(Refusal::Damaged("it is shorter or longer than it says"));
    }
    if crc32c::crc32c(checked).to_le_bytes() != check {
        return Err(Refusal::Damaged("its checksum is wrong"));
    }
    let version = u32::from_le_bytes(checked[8..12].try_into().unwrap_or_default());
    if version != VERSION {
        return Err(Refusal::Other(format!(
            "is a checkpoint of format {version}, and this servsim reads {VERSION}: make it again"
        )));
    }
    let (header, body) = checked[FIXED..].split_at(header as usize);
    let header = serde_json::from_slice(header).map_err(|_| Refusal::Damaged("its header is no JSON"))?;
    Ok((header, body))
}

/// Whether a state with this header may be used here; if not, why.
pub(crate) fn belongs(
    header: &Value,
    (trace, trace_name): (&str, &str),
    settings: &BTreeMap<String, String>,
) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or("nothing").to_owned();
    let maker = text(&header["servsim"]);
    if maker != env!("CARGO_PKG_VERSION") {
        return Err(format!("made by servsim {maker}, and this is {}", env!("CARGO_PKG_VERSION")));
    }
    let made = text(&header["trace"]["hash"]);
    if made != trace {
        return Err(format!(
            "made from the trace {} ({made}), and this is {trace_name} ({trace})",
            text(&header["trace"]["name"])
        ));
    }
    let theirs = header["settings"].as_object().cloned().unwrap_or_default();
    let keys = theirs.keys().chain(settings.keys());
    let differing =
        keys.filter(|key| theirs.get(*key).and_then(Value::as_str) != settings.get(*key).map(String::as_str));
    let mut differing: Vec<String> = differing.cloned().collect();
    differing.sort_unstable();
    differing.dedup();
    let described: Vec<String> = differing
        .iter()
        .map(|key| {
            let mine = settings.get(key).map_or("unknown", String::as_str);
            format!("{key} was {}, and is {mine} here", theirs.get(key).map_or("unknown".into(), text))
        })
        .collect();
    if described.is_empty() {
        return Ok(());
    }
    Err(described.join("; "))
}

/// The state that [`pack`] packed.
pub(crate) fn unpack(header: &Value, body: &[u8], budget: &Arc<Budget>) -> Result<WarmStart, Damaged> {
    let number = |value: &Value| value.as_u64().ok_or(Damaged("its header lacks a number"));
    let software = number(&header["bytes"][0])?;
    let caches = number(&header["bytes"][1])?;
    let whole = software.checked_add(caches).ok_or(Damaged("its header holds an absurd length"))?;
    let _claim = budget.claim(whole).map_err(|_| TOO_LARGE)?;
    let unpack = || {
        let mut bytes = Vec::new();
        zstd::stream::read::Decoder::new(body)?.take(whole.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let mut bytes = unpack().map_err(|_| Damaged("its body cannot be unpacked"))?;
    if bytes.len() as u64 != whole {
        return Err(Damaged("its body has another length than its header says"));
    }
    let caches = bytes.split_off(software as usize);
    let counts = ["tasks", "handlers", "processors"].map(|key| number(&header[key]));
    let [tasks, handlers, processors] = counts;
    let counts = (tasks? as usize, handlers? as usize, processors? as usize);
    let mut reader = Reader::new(&bytes);
    let start = WarmStart::restore(counts, &mut reader)?;
    reader.end()?;
    Ok(WarmStart { caches, ..start })
}
