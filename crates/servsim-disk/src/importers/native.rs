//! The project's own binary trace: a 16-byte header, then 40 bytes a request, little endian.
//!
//! Header: `SSDISK1\n`, then the number of device names as u32 and the length of the name block as
//! u32, then the names, each ended by a zero byte. Record: arrival, start, completion, lba as u64,
//! sectors as u32, device as u16, operation and flags (bit 0: made by the tracer) as u8.

use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, Request, NO_START};
use std::io::{BufRead, Write};

const MAGIC: &[u8; 8] = b"SSDISK1\n";
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
        head.starts_with(MAGIC)
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        read_names(input, collector)?;
        let mut carried: Vec<u8> = Vec::new();
        loop {
            let buffer = input.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let used = buffer.len();
            let mut rest = buffer;
            if !carried.is_empty() {
                let take = (RECORD_BYTES - carried.len()).min(rest.len());
                carried.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
                if let Ok(bytes) = carried.as_slice().try_into() {
                    record(bytes, collector)?;
                    carried.clear();
                }
            }
            let mut records = rest.chunks_exact(RECORD_BYTES);
            for bytes in &mut records {
                record(bytes.try_into().expect("a whole record"), collector)?;
            }
            carried.extend_from_slice(records.remainder());
            input.consume(used);
        }
        if !carried.is_empty() {
            let message = format!(
                "the file ends within a record; {} were whole and are kept",
                collector.report.records
            );
            collector.report.notes.push(message);
        }
        Ok(())
    }
}

fn malformed(place: String, problem: &str) -> ImportError {
    ImportError::Malformed { format: "servsim", place, problem: problem.to_owned() }
}

fn read_names(input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
    let mut header = [0; 16];
    input.read_exact(&mut header)?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if &header[..8] != MAGIC || word(12) > NAME_BLOCK_LIMIT {
        return Err(malformed("header".to_owned(), "not a servsim disk trace of version 1"));
    }
    let mut names = vec![0; word(12) as usize];
    input.read_exact(&mut names)?;
    let names: Vec<&[u8]> = names.split(|&byte| byte == 0).collect();
    if names.len() != word(8) as usize + 1 {
        return Err(malformed("header".to_owned(), "the number of device names does not match"));
    }
    for name in &names[..names.len() - 1] {
        collector.device(&String::from_utf8_lossy(name));
    }
    Ok(())
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
    output.write_all(MAGIC)?;
    output.write_all(&(devices.len() as u32).to_le_bytes())?;
    output.write_all(&(names.len() as u32).to_le_bytes())?;
    output.write_all(&names)?;
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
        output.write_all(&bytes)?;
    }
    Ok(())
}
