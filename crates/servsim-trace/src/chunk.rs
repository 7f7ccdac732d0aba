//! Framing: the file header and checksummed chunks. See FORMAT.md.

use crate::error::{Fault, TraceError};
use crate::FORMAT_VERSION;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// First bytes of every trace.
pub const FILE_MAGIC: &[u8; 8] = b"servsim\n";
/// First bytes of every chunk.
const CHUNK_MAGIC: u32 = 0x4b48_4356; // "VCHK"
/// Bytes of the file header.
pub const FILE_HEADER: u64 = 16;
/// Bytes of a chunk header.
pub const CHUNK_HEADER: u64 = 24;
/// No chunk is larger, whatever a hostile header says.
pub const MAX_CHUNK: usize = 256 << 20;
/// Compression level: zstd's default, where the capture's second core keeps up with the first.
const ZSTD_LEVEL: i32 = 3;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKind {
    /// [`crate::Meta`] as JSON; first in the file.
    Meta,
    /// Block shapes not seen before.
    Dictionary,
    /// The task table as JSON, whole; the last one counts.
    Tasks,
    /// Streams of all tasks over a stretch of captured time.
    Epoch,
    /// Totals and the offsets of all chunks; last in the file.
    Footer,
}

const KINDS: [ChunkKind; 5] =
    [ChunkKind::Meta, ChunkKind::Dictionary, ChunkKind::Tasks, ChunkKind::Epoch, ChunkKind::Footer];

/// Where a chunk is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLocation {
    pub kind: ChunkKind,
    pub offset: u64,
    pub stored: usize,
    crc: u32,
}

impl ChunkLocation {
    /// Offset of the byte after the chunk.
    pub fn end(&self) -> u64 {
        self.offset + CHUNK_HEADER + self.stored as u64
    }
}

/// Writes the file header.
pub fn write_file_header(out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(FILE_MAGIC)?;
    out.write_all(&FORMAT_VERSION.to_le_bytes())?;
    out.write_all(&crc32c::crc32c(&FORMAT_VERSION.to_le_bytes()).to_le_bytes())
}

/// Writes one chunk and returns its length in the file.
pub fn write_chunk(out: &mut impl Write, kind: ChunkKind, payload: &[u8]) -> std::io::Result<u64> {
    let code = KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u32;
    let mut header = Vec::with_capacity(CHUNK_HEADER as usize);
    header.extend_from_slice(&CHUNK_MAGIC.to_le_bytes());
    header.extend_from_slice(&code.to_le_bytes());
    header.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    header.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
    out.write_all(&header)?;
    out.write_all(payload)?;
    Ok(CHUNK_HEADER + payload.len() as u64)
}

/// Checks the file header.
pub fn read_file_header(file: &mut impl Read, path: &Path) -> Result<(), TraceError> {
    let mut header = [0; FILE_HEADER as usize];
    let not_a_trace = || TraceError::NotATrace(path.to_owned());
    file.read_exact(&mut header).map_err(|_| not_a_trace())?;
    if &header[..8] != FILE_MAGIC {
        return Err(not_a_trace());
    }
    let found = word(&header, 8);
    if word(&header, 12) != crc32c::crc32c(&header[8..12]) {
        let what = "the header's checksum does not hold".to_owned();
        return Err(TraceError::Corrupt { path: path.to_owned(), offset: 8, what });
    }
    if found != FORMAT_VERSION {
        return Err(TraceError::Version { path: path.to_owned(), found, expected: FORMAT_VERSION });
    }
    Ok(())
}

/// What stands at an offset where a chunk may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A chunk, with all its bytes in the file.
    Chunk(ChunkLocation),
    /// The file ends before the chunk does, so that it is not whole.
    CutShort,
    /// The end of the file.
    End,
}

/// Reads the chunk header at `offset`. Whatever is neither a chunk nor the beginning of one is damage: a file
/// that merely ends early has nothing else behind its last chunk.
pub fn read_chunk_header(file: &mut (impl Read + Seek), offset: u64, file_len: u64) -> Result<Found, Fault> {
    let left = file_len.saturating_sub(offset);
    if left < CHUNK_HEADER {
        return Ok(if left == 0 { Found::End } else { Found::CutShort });
    }
    let mut header = [0; CHUNK_HEADER as usize];
    file.seek(SeekFrom::Start(offset))
        .and_then(|_| file.read_exact(&mut header))
        .map_err(|error| Fault(format!("a chunk header cannot be read ({error})")))?;
    if word(&header, 0) != CHUNK_MAGIC || word(&header, 20) != crc32c::crc32c(&header[..20]) {
        return Err(Fault::from("no chunk begins here"));
    }
    let kind = KINDS.get(word(&header, 4) as usize).copied();
    let kind = kind.ok_or_else(|| Fault::from("the chunk is of an unknown kind"))?;
    let stored = u64::from(word(&header, 8)) | u64::from(word(&header, 12)) << 32;
    if stored > MAX_CHUNK as u64 {
        return Err(Fault(format!("a chunk states {stored} bytes")));
    }
    let location = ChunkLocation { kind, offset, stored: stored as usize, crc: word(&header, 16) };
    Ok(if location.end() > file_len { Found::CutShort } else { Found::Chunk(location) })
}

/// Reads and checks the payload of the chunk at `location`.
pub fn read_payload(file: &mut (impl Read + Seek), location: &ChunkLocation) -> Result<Vec<u8>, Fault> {
    let mut payload = vec![0; location.stored];
    file.seek(SeekFrom::Start(location.offset + CHUNK_HEADER))
        .and_then(|_| file.read_exact(&mut payload))
        .map_err(|error| Fault(format!("the chunk cannot be read ({error})")))?;
    if crc32c::crc32c(&payload) != location.crc {
        return Err(Fault::from("the chunk's checksum does not hold"));
    }
    Ok(payload)
}

/// Compresses one column.
pub fn compress(raw: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(raw, ZSTD_LEVEL).expect("compressing from memory to memory cannot fail")
}

/// Decompresses one column of exactly `len` bytes.
pub fn decompress(stored: &[u8], len: usize) -> Result<Vec<u8>, Fault> {
    if len > MAX_CHUNK {
        return Err(Fault(format!("a column states {len} bytes")));
    }
    let raw = zstd::bulk::decompress(stored, len);
    let raw = raw.map_err(|error| Fault(format!("a column does not decompress ({error})")))?;
    if raw.len() == len {
        Ok(raw)
    } else {
        Err(Fault::from("a column has another length than stated"))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
