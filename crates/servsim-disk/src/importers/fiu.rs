//! Traces of Florida International University (Koller and Rangaswami, FAST 2010), as SNIA keeps them:
//! `ns pid process sector sectors R|W major minor [digest]`. They tell when requests arrive, not when they complete.

use super::arrivals::{read, Arrival};
use super::text::{first_line, scaled, words};
use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::borrow::Cow;
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
        read(input, collector, "ns pid process sector sectors R|W major minor", parse)
    }
}

/// What a line says, the device as `major,minor`.
fn parse(line: &[u8]) -> Option<Arrival<'_>> {
    let fields: Vec<&str> = words(line).take(9).collect();
    let &[time, pid, process, sector, sectors, op, major, minor, ..] = &fields[..] else { return None };
    pid.parse::<u32>().ok()?;
    let op = match op {
        "R" | "r" => Op::Read,
        "W" | "w" => Op::Write,
        _ => return None,
    };
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let request = Pending {
        arrival_ns: scaled(time.as_bytes(), 1)?,
        start_ns: None,
        lba: sector.parse().ok()?,
        sectors: sectors.parse().ok()?,
        op,
        by_tracer: false,
    };
    Some(Arrival { device: Cow::Owned(format!("{major},{minor}")), process: Some(process), request })
}
