//! The project's own binary trace, version 2: a header, 40 bytes a request, a checksum; little endian.
//!
//! Header: `SSDISK2\n`, the number of device names and the length of the name block as u32, the number
//! of requests as u64, then the names, each ended by a zero byte. Record: arrival, start, completion,
//! lba as u64, sectors as u32, device as u16, operation and flags (bit 0: made by the tracer) as u8.
//! Last the CRC-32C of everything before it, as u32. Version 1 (`SSDISK1\n`) has neither the number of
//! requests nor the checksum: it is read, with a note that nobody can tell whether it is whole.

use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, Request, NO_START};
use std::io::{BufRead, Write};

const MAGIC: &[u8; 8] = b"SSDISK2\n";
const MAGIC_1: &[u8; 8] = b"SSDISK1\n";
const RECORD_BYTES: usize = 40;
/// More device names than a `u16` can index make no sense; nor do megabytes of them.
const NAME_BLOCK_LIMIT: u32 = 1 << 20;

/// The project's own binary trace.
pub struct Native;

impl Importer for Native {
    fn name(&self) -> &'static str {
        "servsim"
    }

    fn about(&self) -> &'static str {
        "servsim's own binary request records"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        head.starts_with(MAGIC) || head.starts_with(MAGIC_1)
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let Some((count, crc)) = read_header(input, collector)? else {
            let read = records(input, u64::MAX, collector, &mut |_| {})?;
            collector.report.notes.push(format!(
                "written by an older servsim, which kept no checksum: whether these {read} requests are all cannot be \
                 told; import the original trace again to know"
            ));
            return Ok(());
        };
        let mut crc = crc;
        let read = records(input, count, collector, &mut |bytes| crc = crc32c::crc32c_append(crc, bytes))?;
        let mut stored = [0; 4];
        let rest = read == count && input.read_exact(&mut stored).is_ok() && input.fill_buf()?.is_empty();
        if rest && u32::from_le_bytes(stored) == crc {
            return Ok(());
        }
        let problem = if read < count {
            format!("it ends after {read} of {count} requests")
        } else {
            "its checksum does not match".to_owned()
        };
        Err(malformed(
            "its end".to_owned(),
            format!("the file is not whole: {problem}; import the original trace again"),
        ))
    }
}

/// Reads up to `count` records, telling `bytes` what was read; returns how many whole ones there were.
fn records(
    input: &mut dyn BufRead,
    count: u64,
    collector: &mut Collector<'_>,
    bytes: &mut dyn FnMut(&[u8]),
) -> Result<u64, ImportError> {
    let mut read = 0;
    let mut carried: Vec<u8> = Vec::new();
    while read < count {
        let left = (count - read).saturating_mul(RECORD_BYTES as u64) - carried.len() as u64;
        let buffer = input.fill_buf()?;
        let used = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if used == 0 {
            break;
        }
        let mut rest = &buffer[..used];
        bytes(rest);
        if !carried.is_empty() {
            let take = (RECORD_BYTES - carried.len()).min(rest.len());
            carried.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            if let Ok(bytes) = carried.as_slice().try_into() {
                record(bytes, collector)?;
                read += 1;
                carried.clear();
            }
        }
        let mut whole = rest.chunks_exact(RECORD_BYTES);
        for bytes in &mut whole {
            record(bytes.try_into().expect("a whole record"), collector)?;
            read += 1;
        }
        carried.extend_from_slice(whole.remainder());
        input.consume(used);
    }
    if !carried.is_empty() {
        collector.report.notes.push(format!("the file ends within a record; {read} were whole and are kept"));
    }
    Ok(read)
}

fn malformed(place: String, problem: impl Into<String>) -> ImportError {
    ImportError::Malformed { format: "servsim", place, problem: problem.into() }
}

/// Reads the names of the devices; of version 2 returns the number of requests and the checksum so far.
fn read_header(
    input: &mut dyn BufRead,
    collector: &mut Collector<'_>,
) -> Result<Option<(u64, u32)>, ImportError> {
    let mut header = [0; 24];
    let short = |_| {
        malformed("header".to_owned(), "the file ends within its header; import the original trace again")
    };
    input.read_exact(&mut header[..16]).map_err(short)?;
    let counted = &header[..8] == MAGIC;
    if counted {
        input.read_exact(&mut header[16..]).map_err(short)?;
    }
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if !(counted || &header[..8] == MAGIC_1) || word(12) > NAME_BLOCK_LIMIT {
        return Err(malformed("header".to_owned(), "not a servsim disk trace of version 1 or 2"));
    }
    let mut names = vec![0; word(12) as usize];
    input.read_exact(&mut names).map_err(short)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header), &names);
    let names: Vec<&[u8]> = names.split(|&byte| byte == 0).collect();
    if u32::try_from(names.len() - 1) != Ok(word(8)) {
        return Err(malformed("header".to_owned(), "the number of device names does not match"));
    }
    for name in &names[..names.len() - 1] {
        collector.device(&String::from_utf8_lossy(name));
    }
    let count = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
    Ok(counted.then_some((count, crc)))
}

fn record(bytes: &[u8; RECORD_BYTES], collector: &mut Collector<'_>) -> Result<(), ImportError> {
    collector.report.records += 1;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let op = match bytes[38] {
        0 => Op::Read,
        1 => Op::Write,
        _ => {
            return Err(malformed(
                format!("record {}", collector.report.records),
                "operation is neither 0 nor 1",
            ))
        }
    };
    let device = u16::from_le_bytes([bytes[36], bytes[37]]);
    if usize::from(device) >= collector.report.devices.len() {
        return Err(malformed(
            format!("record {}", collector.report.records),
            "device number without a name",
        ));
    }
    let arrival_ns = number(0) as i64;
    collector.at(arrival_ns);
    let pending = Pending {
        arrival_ns,
        start_ns: (number(8) != NO_START).then_some(number(8) as i64),
        lba: number(24),
        sectors: u32::from_le_bytes(bytes[32..36].try_into().expect("four bytes")),
        op,
        by_tracer: bytes[39] & 1 != 0,
    };
    collector.emit(device, &pending, number(16) as i64)
}

/// Writes `requests` in the project's own binary form.
///
/// # Errors
/// Those of `output`.
pub fn write(output: &mut dyn Write, devices: &[String], requests: &[Request]) -> std::io::Result<()> {
    let names: Vec<u8> =
        devices.iter().flat_map(|name| name.bytes().filter(|&b| b != 0).chain([0])).collect();
    let mut crc = 0;
    let mut put = |bytes: &[u8]| {
        crc = crc32c::crc32c_append(crc, bytes);
        output.write_all(bytes)
    };
    put(MAGIC)?;
    put(&(devices.len() as u32).to_le_bytes())?;
    put(&(names.len() as u32).to_le_bytes())?;
    put(&(requests.len() as u64).to_le_bytes())?;
    put(&names)?;
    for request in requests {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0..8].copy_from_slice(&request.arrival_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&request.start_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&request.completion_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&request.lba.to_le_bytes());
        bytes[32..36].copy_from_slice(&request.sectors.to_le_bytes());
        bytes[36..38].copy_from_slice(&request.device.to_le_bytes());
        bytes[38] = request.op as u8;
        bytes[39] = u8::from(request.by_tracer);
        put(&bytes)?;
    }
    output.write_all(&crc.to_le_bytes())
}
