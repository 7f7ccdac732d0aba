//! The twelve-byte records of Thornock et al. (1997, section 2.4): operation, controller, SCSI id
//! and length in sectors (one byte each), block (four bytes), microseconds since the last record
//! (four bytes). The paper does not print byte order or operation codes; this reconstruction takes
//! little endian (the server was a Pentium) and 0 read, 1 write, 2 done. A done record is paired
//! with the oldest request in flight on the same disk and block.

use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::io::{BufRead, Read};

const RECORD_BYTES: usize = 12;

/// The paper's records, reconstructed.
pub struct Byu;

impl Importer for Byu {
    fn name(&self) -> &'static str {
        "byu"
    }

    fn about(&self) -> &'static str {
        "12-byte records of Thornock et al. 1997 (documented reconstruction; never guessed, use --format)"
    }

    fn recognises(&self, _head: &[u8]) -> bool {
        false // twelve bytes without a mark: any binary file would pass
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let mut now_us: i64 = 0;
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        loop {
            bytes.clear();
            Read::take(&mut *input, RECORD_BYTES as u64).read_to_end(&mut bytes)?;
            if bytes.len() < RECORD_BYTES {
                break;
            }
            collector.report.records += 1;
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            now_us = now_us.saturating_add(i64::from(word(8)));
            let device = collector.device(&format!("c{}s{}", bytes[1], bytes[2]));
            let (block, now_ns) = (u64::from(word(4)), now_us.saturating_mul(1000));
            let op = match bytes[0] {
                0 => Op::Read,
                1 => Op::Write,
                2 => {
                    collector.complete(device, block, now_ns)?;
                    continue;
                }
                code => {
                    return Err(ImportError::Malformed {
                        format: "byu",
                        place: format!("record {}", collector.report.records),
                        problem: format!("unknown operation {code}; accepted are 0 read, 1 write, 2 done"),
                    })
                }
            };
            let sectors = u32::from(bytes[3]);
            let pending =
                Pending { arrival_ns: now_ns, start_ns: None, lba: block, sectors, op, by_tracer: false };
            collector.issue(device, block, pending);
        }
        if !bytes.is_empty() {
            collector.report.notes.push("the file ends within a record, which is left out".to_owned());
        }
        Ok(())
    }
}
