//! Traces of Florida International University (Koller and Rangaswami, FAST 2010), as SNIA keeps them:
//! `ns pid process sector sectors R|W major minor [digest]`. They tell when requests arrive, not when they complete.

use super::text::{first_line, for_each_line, scaled, words};
use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::io::BufRead;

/// FIU text.
pub struct Fiu;

impl Importer for Fiu {
    fn name(&self) -> &'static str {
        "fiu"
    }

    fn about(&self) -> &'static str {
        "Florida International University (ns pid process sector sectors R|W major minor digest): arrivals only"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| parse(line.as_bytes()).is_some())
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        collector.arrivals_only()?;
        for_each_line(input, &mut |number, line| {
            collector.line(number);
            let (disk, process, mut pending) = parse(line).ok_or_else(|| ImportError::Malformed {
                format: "fiu",
                place: format!("line {number}"),
                problem: "expected ns pid process sector sectors R|W major minor".to_owned(),
            })?;
            pending.by_tracer = collector.is_tracer(process);
            collector.at(pending.arrival_ns);
            let device = collector.device(&disk);
            collector.emit(device, &pending, pending.arrival_ns)
        })
    }
}

/// The device as `major,minor`, the process, and the request.
fn parse(line: &[u8]) -> Option<(String, &str, Pending)> {
    let fields: Vec<&str> = words(line).take(9).collect();
    let &[time, pid, process, sector, sectors, op, major, minor, ..] = &fields[..] else { return None };
    pid.parse::<u32>().ok()?;
    let op = match op {
        "R" | "r" => Op::Read,
        "W" | "w" => Op::Write,
        _ => return None,
    };
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let pending = Pending {
        arrival_ns: scaled(time.as_bytes(), 1)?,
        start_ns: None,
        lba: sector.parse().ok()?,
        sectors: sectors.parse().ok()?,
        op,
        by_tracer: false,
    };
    Some((format!("{major},{minor}"), process, pending))
}
