//! What a first pass found of a captured trace, kept for the next run on it.
//!
//! The pass reads the whole trace and learns the same whatever the machine: who has which page, who waits for whom. So its
//! plan is kept in a folder, in a file named by the hash of the trace. One that is not there, damaged, of another trace
//! or of another build is made anew without a word; so is one that cannot be read, and where it cannot be written there
//! is none. Nothing of a result depends on it.
//!
//! Layout, numbers little-endian: the 8 bytes [`MAGIC`]; the build (4 bytes); the lengths of the trace's hash and of the
//! tables (8 bytes each); the hash; the tables, zstd; the CRC-32C of everything before it (4 bytes).

use servsim_files::Special;
use servsim_trace::{Claim, TraceReader};
use std::path::{Path, PathBuf};

/// First bytes of the file.
const MAGIC: &[u8; 8] = b"svfound\n";
/// Bytes before the trace's hash.
const FIXED: usize = 8 + 4 + 8 + 8;
/// Bytes of the checksum.
const CHECK: usize = 4;
/// The fastest level that zstd recommends for general use.
const LEVEL: i32 = 3;
/// Bytes of a trace below which the pass is as quick as the file.
const LEAST: u64 = 1 << 20;

/// Whatever decides what a pass finds: the file belongs to just this. Better made once too often than kept wrong.
const SOURCES: [&str; 8] = [
    include_str!("contention.rs"),
    include_str!("findings.rs"),
    include_str!("locks.rs"),
    include_str!("packed.rs"),
    include_str!("pages.rs"),
    include_str!("pages/kept.rs"),
    include_str!("plan.rs"),
    include_str!("plan/kept.rs"),
];

/// Where what was found of one trace is kept.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The folder; it is made when there is something to keep.
    pub folder: &'a Path,
    /// Hash of the trace's bytes.
    pub trace_hash: &'a str,
}

impl Findings<'_> {
    /// The file. Hashes are `ALGORITHM:HEX`; what else a name could hold is left out of it.
    fn file(&self) -> PathBuf {
        let name: String = self.trace_hash.chars().filter(char::is_ascii_alphanumeric).collect();
        self.folder.join(format!("{name}.found"))
    }

    /// The tables that are kept of `reader`'s trace, if they are of this build; with the memory that they take.
    pub(super) fn load(&self, reader: &TraceReader) -> Option<(Vec<u8>, Claim)> {
        if reader.file_bytes() < LEAST {
            return None;
        }
        let bytes = std::fs::read(self.file()).ok()?;
        let (length, packed) = self.body(&bytes)?;
        let claim = reader.budget().claim(length).ok()?;
        Some((zstd::bulk::decompress(packed, usize::try_from(length).ok()?).ok()?, claim))
    }

    /// Length of the tables, and the tables, packed; `None` if they do not belong here.
    fn body<'b>(&self, bytes: &'b [u8]) -> Option<(u64, &'b [u8])> {
        let (checked, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
        let (head, rest) = checked.split_at_checked(FIXED)?;
        let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let (hash, body) = rest.split_at_checked(usize::try_from(number(12)?).ok()?)?;
        let fits = head.starts_with(MAGIC)
            && head[8..12] == build().to_le_bytes()
            && hash == self.trace_hash.as_bytes()
            && crc32c::crc32c(checked).to_le_bytes() == check;
        fits.then_some((number(20)?, body))
    }

    /// Keeps `tables`, whole or not at all; a folder that cannot be written keeps nothing.
    pub(super) fn keep(&self, tables: &[u8], reader: &TraceReader) {
        if reader.file_bytes() < LEAST {
            return;
        }
        let Ok(body) = zstd::bulk::compress(tables, LEVEL) else { return };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(build().to_le_bytes());
        bytes.extend((self.trace_hash.len() as u64).to_le_bytes());
        bytes.extend((tables.len() as u64).to_le_bytes());
        bytes.extend(self.trace_hash.as_bytes());
        bytes.extend(body);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        // The run has its plan: that the next one has to make it again is no fault of this one.
        let _ = std::fs::create_dir_all(self.folder);
        let _ = servsim_files::write(&self.file(), &bytes, Special::Refuse);
    }
}

/// A number of this build's first pass.
fn build() -> u32 {
    let mut number = crc32c::crc32c(env!("CARGO_PKG_VERSION").as_bytes());
    for source in SOURCES {
        number = crc32c::crc32c_append(number, source.as_bytes());
    }
    crc32c::crc32c_append(number, &servsim_trace::FORMAT_VERSION.to_le_bytes())
}
