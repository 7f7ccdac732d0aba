//! Disk events of Windows as `xperf -a dumper` writes them, and as SNIA keeps Microsoft's production servers (MSPS):
//! `DiskRead, TimeStamp, Process Name ( PID), …, ByteOffset, IOSize, ElapsedTime, DiskNum, …`.
//!
//! The event is written when the request completes, and `ElapsedTime` is the time since it was initiated
//! (Microsoft's documentation of `DiskIo_TypeGroup1`); both are in us. The file's own heading says which column is which,
//! since later versions have more. `DiskSvcTime` is computed from the order of completions, and not read. Events of
//! other kinds, of which a dump may be full, are passed over.

use super::text::{first_line, for_each_line, scaled};
use super::{sectors_of, Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, SECTOR_BYTES};
use std::io::BufRead;

const MICROSECOND_NS: i64 = 1000;

/// Windows disk events as text.
pub struct Etw;

impl Importer for Etw {
    fn name(&self) -> &'static str {
        "etw"
    }

    fn about(&self) -> &'static str {
        "Windows disk events as xperf dumps them (DiskRead, TimeStamp, ...), such as SNIA's MSPS"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| line == "BeginHeader" || Places::of(&fields(line)).is_some())
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let mut places = None;
        for_each_line(input, &mut |number, line| {
            let line = std::str::from_utf8(line).unwrap_or("").trim();
            let Some(event) = line.split(',').next().map(str::trim) else { return Ok(()) };
            let op = match event {
                "DiskRead" => Op::Read,
                "DiskWrite" => Op::Write,
                "DiskFlush" => {
                    collector.report.zero_length +=
                        u64::from(places.is_some() && !line.contains("TimeStamp"));
                    return Ok(());
                }
                _ => return Ok(()),
            };
            let fields = fields(line);
            if let Some(heading) = Places::of(&fields) {
                places = Some(heading);
                return Ok(());
            }
            collector.line(number);
            let wrong = |problem: &str| ImportError::Malformed {
                format: "etw",
                place: format!("line {number}"),
                problem: problem.to_owned(),
            };
            let places = places.ok_or_else(|| wrong("no heading `DiskRead, TimeStamp, ...` before it"))?;
            let process = fields.get(places.process).copied().unwrap_or("");
            let done = places.parse(&fields, op, collector.is_tracer(process));
            let (pending, completion_ns, disk) = done.ok_or_else(|| {
                wrong("expected TimeStamp, ByteOffset, IOSize, ElapsedTime and DiskNum as in the heading")
            })?;
            collector.at(completion_ns);
            let device = collector.device(disk);
            collector.emit(device, &pending, completion_ns)
        })
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

/// Where a heading puts what is read.
#[derive(Debug, Clone, Copy)]
struct Places {
    stamp: usize,
    process: usize,
    offset: usize,
    bytes: usize,
    elapsed: usize,
    disk: usize,
}

impl Places {
    /// Those of a line, if it is the heading of reads or writes.
    fn of(fields: &[&str]) -> Option<Places> {
        if !matches!(fields.first(), Some(&("DiskRead" | "DiskWrite"))) {
            return None;
        }
        let find = |name: &str| fields.iter().position(|field| *field == name);
        Some(Places {
            stamp: find("TimeStamp")?,
            process: fields.iter().position(|field| field.starts_with("Process Name"))?,
            offset: find("ByteOffset")?,
            bytes: find("IOSize")?,
            elapsed: find("ElapsedTime")?,
            disk: find("DiskNum")?,
        })
    }

    /// A request, when it completed, and its disk.
    fn parse<'a>(&self, fields: &[&'a str], op: Op, by_tracer: bool) -> Option<(Pending, i64, &'a str)> {
        let time = |at: usize| scaled(fields.get(at)?.as_bytes(), MICROSECOND_NS);
        let count = |at: usize| {
            let text = fields.get(at)?;
            text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
        };
        let completion_ns = time(self.stamp)?;
        let pending = Pending {
            arrival_ns: completion_ns.checked_sub(time(self.elapsed)?)?,
            start_ns: None,
            lba: count(self.offset)? / SECTOR_BYTES,
            sectors: sectors_of(count(self.bytes)?),
            op,
            by_tracer,
        };
        Some((pending, completion_ns, fields.get(self.disk)?))
    }
}
