//! blktrace's binary records (`linux/blktrace_api.h`, version 7), as `blkparse -d` or the kernel's
//! `blk` tracer in binary mode write them: 48 bytes, then `pdu_len` bytes of payload. Both byte
//! orders. Per-CPU files must have been merged by time (`blkparse -d`).

use super::blkparse::{apply, Action, Event};
use super::{Collector, Importer};
use crate::error::ImportError;
use std::io::{BufRead, Read};

const MAGIC: u32 = 0x6561_7400;
const RECORD_BYTES: usize = 48;
/// Category bits of the action word (upper half), from `linux/blktrace_api.h`.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

/// blktrace binary.
pub struct Blktrace;

impl Importer for Blktrace {
    fn name(&self) -> &'static str {
        "blktrace"
    }

    fn about(&self) -> &'static str {
        "blktrace binary (blkparse -d, or the kernel's blk tracer in binary mode)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        head.get(..4).is_some_and(|bytes| big_endian(bytes).is_some())
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let mut bytes = [0; RECORD_BYTES];
        loop {
            match read_whole(input, &mut bytes)? {
                0 => return Ok(()),
                RECORD_BYTES => {}
                _ => {
                    collector
                        .report
                        .notes
                        .push("the file ends within a record, which is left out".to_owned());
                    return Ok(());
                }
            }
            collector.report.records += 1;
            let big = big_endian(&bytes[..4]).ok_or_else(|| ImportError::Malformed {
                format: "blktrace",
                place: format!("record {}", collector.report.records),
                problem: "no blktrace mark; the file is damaged or of another version than 7".to_owned(),
            })?;
            let payload = record(&bytes, big, collector)?;
            std::io::copy(&mut Read::take(&mut *input, payload), &mut std::io::sink())?;
        }
    }
}

fn read_whole(input: &mut dyn BufRead, bytes: &mut [u8]) -> Result<usize, ImportError> {
    let mut have = 0;
    while have < bytes.len() {
        match input.read(&mut bytes[have..])? {
            0 => break,
            n => have += n,
        }
    }
    Ok(have)
}

/// Whether a record with these first four bytes is big endian; `None` if it is no record.
fn big_endian(mark: &[u8]) -> Option<bool> {
    let mark: [u8; 4] = mark.try_into().ok()?;
    let ours = |word: u32| word & 0xffff_ff00 == MAGIC && word & 0xff == 7;
    match (ours(u32::from_le_bytes(mark)), ours(u32::from_be_bytes(mark))) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    }
}

/// Applies one record; returns the length of its payload.
fn record(bytes: &[u8], big: bool, collector: &mut Collector<'_>) -> Result<u64, ImportError> {
    let number = |at: usize, width: usize| -> u64 {
        let field = &bytes[at..at + width];
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if big {
            field.iter().fold(0, add)
        } else {
            field.iter().rev().fold(0, add)
        }
    };
    let payload = number(46, 2);
    let word = number(28, 4) as u32;
    if word & NOTIFY != 0 {
        collector.report.unrecognised_lines += 1;
        return Ok(payload);
    }
    // Low half: __BLK_TA_QUEUE 1, BACKMERGE 2, FRONTMERGE 3, ISSUE 7, COMPLETE 8, INSERT 12.
    let action = match word & 0xffff {
        1 => Action::Queue,
        2 | 3 => Action::Merge,
        7 => Action::Issue,
        8 => Action::Complete,
        12 => Action::Insert,
        _ => {
            collector.report.unrecognised_lines += 1;
            return Ok(payload);
        }
    };
    let rwbs = match word {
        word if word & DISCARD != 0 => "D",
        word if word & WRITE != 0 => "W",
        word if word & READ != 0 => "R",
        _ => "N",
    };
    let device = number(36, 4);
    let name = format!("{},{}", device >> 20, device & 0xf_ffff);
    let event = Event {
        device: &name,
        time_ns: number(8, 8) as i64,
        action,
        rwbs,
        sector: number(16, 8),
        sectors: (number(24, 4) / 512) as u32,
        process: "",
    };
    apply(&event, collector)?;
    Ok(payload)
}
