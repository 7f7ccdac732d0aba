//! HP Labs SRT 1.3 traces (Ruemmler & Wilkes 1993): a 2204-byte text header, then 14 big-endian
//! 32-bit words a request: size, id, seconds, microseconds (arrival), start and stop relative to
//! it, bytes, block (256-byte sectors), device, driver, cylinder, flags (bit 0: read), info, queue
//! length. Blocks count from the start of the disk, not of the section: in `hplajw` each section's
//! lowest block lies just above the section's offset in the header, and block / (113 x 8) is the
//! recorded cylinder. Left out: section, driver, cylinder, info and the recorded queue length.

use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::io::BufRead;

const HEADER_BYTES: usize = 2204;
const RECORD_WORDS: usize = 14;
const RECORD_ID: u32 = 0x0004_0001;
/// SRT counts sectors of 256 bytes; a request record counts 512.
const SRT_SECTORS_PER_SECTOR: u64 = 2;

/// HP Labs SRT 1.3.
pub struct Srt;

impl Importer for Srt {
    fn name(&self) -> &'static str {
        "srt"
    }

    fn about(&self) -> &'static str {
        "HP Labs SRT 1.3 (hplajw, cello, snake; SNIA IOTTA)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        head.starts_with(b"$$TR_IOREC-1.")
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let mut header = vec![0; HEADER_BYTES];
        input.read_exact(&mut header).map_err(|_| malformed(0, "the header is shorter than 2204 bytes"))?;
        let mut bytes = [0; RECORD_WORDS * 4];
        while fill(input, &mut bytes, collector)? {
            record(&bytes, collector)?;
        }
        Ok(())
    }
}

fn malformed(record: u64, problem: &str) -> ImportError {
    ImportError::Malformed { format: "srt", place: format!("record {record}"), problem: problem.to_owned() }
}

/// Reads one record; false at the end. A partial last record is noted.
fn fill(
    input: &mut dyn BufRead,
    bytes: &mut [u8],
    collector: &mut Collector<'_>,
) -> Result<bool, ImportError> {
    let command = bytes.len();
    let mut have = 0;
    while have < command {
        match input.read(&mut bytes[have..])? {
            0 => break,
            n => have += n,
        }
    }
    if have > 0 && have < command {
        collector.report.notes.push("the file ends within a record, which is left out".to_owned());
    }
    Ok(have == command)
}

fn record(bytes: &[u8], collector: &mut Collector<'_>) -> Result<(), ImportError> {
    collector.report.records += 1;
    let number = collector.report.records;
    let word = |at: usize| u32::from_be_bytes(bytes[at * 4..at * 4 + 4].try_into().expect("four bytes"));
    if word(0) != 56 || word(1) != RECORD_ID {
        return Err(malformed(number, "not a 56-byte I/O record (id 0x00040001)"));
    }
    let disk = (word(8) >> 8) & 255;
    let arrival_ns = i64::from(word(2)) * 1_000_000_000 + i64::from(word(3)) * 1000;
    collector.at(arrival_ns);
    let device = collector.device(&format!("disk{disk}"));
    let since = |at: usize| arrival_ns + i64::from(word(at) as i32) * 1000;
    let pending = Pending {
        arrival_ns,
        start_ns: Some(since(4)),
        lba: u64::from(word(7)) / SRT_SECTORS_PER_SECTOR,
        sectors: word(6).div_ceil(512),
        op: if word(11) & 1 == 1 { Op::Read } else { Op::Write },
        by_tracer: false,
    };
    collector.emit(device, &pending, since(5))
}
