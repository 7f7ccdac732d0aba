//! MSR Cambridge block traces (Narayanan et al., FAST 2008):
//! `timestamp,host,disk,Read|Write,offset_bytes,size_bytes,response`, times in Windows ticks (100 ns
//! since 1601). The response time is end to end, so no start of service is known.

use super::text::{first_line, for_each_line, scaled};
use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, SECTOR_BYTES};
use std::io::BufRead;

/// Windows ticks between 1601 and 1970.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;
const TICK_NS: i64 = 100;

/// MSR Cambridge CSV.
pub struct Msr;

impl Importer for Msr {
    fn name(&self) -> &'static str {
        "msr"
    }

    fn about(&self) -> &'static str {
        "MSR Cambridge CSV (timestamp,host,disk,Read|Write,offset,size,response in 100 ns)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split(',').collect();
            fields.len() == 7 && fields[0].len() >= 16 && matches!(fields[3], "Read" | "Write")
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        for_each_line(input, &mut |number, line| {
            if line.starts_with(b"Timestamp") {
                collector.report.unrecognised_lines += 1;
                return Ok(());
            }
            collector.line(number);
            let fields: Vec<&str> = std::str::from_utf8(line).unwrap_or("").split(',').collect();
            let (pending, response_ns) = parse(&fields).ok_or_else(|| ImportError::Malformed {
                format: "msr",
                place: format!("line {number}"),
                problem: "expected timestamp,host,disk,Read|Write,offset,size,response".to_owned(),
            })?;
            collector.at(pending.arrival_ns);
            let device = collector.device(&format!("{}.{}", fields[1], fields[2]));
            collector.emit(device, &pending, pending.arrival_ns.saturating_add(response_ns))
        })
    }
}

fn parse(fields: &[&str]) -> Option<(Pending, i64)> {
    let &[time, _host, _disk, op, offset, size, response] = fields else { return None };
    let op = match op {
        "Read" => Op::Read,
        "Write" => Op::Write,
        _ => return None,
    };
    let offset: u64 = offset.parse().ok()?;
    let size: u64 = size.parse().ok()?;
    let pending = Pending {
        arrival_ns: scaled(time.as_bytes(), 1)?.checked_sub(UNIX_EPOCH_TICKS)?.checked_mul(TICK_NS)?,
        start_ns: None,
        lba: offset / SECTOR_BYTES,
        sectors: u32::try_from(size.div_ceil(SECTOR_BYTES)).ok()?,
        op,
        by_tracer: false,
    };
    Some((pending, scaled(response.as_bytes(), TICK_NS)?))
}
