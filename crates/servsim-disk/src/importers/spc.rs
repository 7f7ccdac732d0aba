//! Storage Performance Council traces (SPC-1 text form, as the University of Massachusetts keeps them):
//! `unit,block,bytes,R|W,seconds[,…]`, blocks of 512 bytes within a unit. They tell when requests arrive, not when
//! they complete.

use super::arrivals::{read, Arrival};
use super::text::{first_line, scaled};
use super::{sectors_of, Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::borrow::Cow;
use std::io::BufRead;

const SECOND_NS: i64 = 1_000_000_000;

/// SPC text.
pub struct Spc;

impl Importer for Spc {
    fn name(&self) -> &'static str {
        "spc"
    }

    fn about(&self) -> &'static str {
        "Storage Performance Council text (unit,block,bytes,R|W,seconds): arrivals only"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| parse(line.as_bytes()).is_some())
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        read(input, collector, "unit,block,bytes,R|W,seconds", parse)
    }
}

fn parse(line: &[u8]) -> Option<Arrival<'_>> {
    let mut fields = std::str::from_utf8(line).ok()?.split(',').map(str::trim);
    let mut next = || fields.next();
    let unit = next()?;
    unit.parse::<u32>().ok()?;
    let (lba, bytes): (u64, u64) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let op = match next()? {
        "R" | "r" => Op::Read,
        "W" | "w" => Op::Write,
        _ => return None,
    };
    let arrival_ns = scaled(next()?.as_bytes(), SECOND_NS)?;
    let request =
        Pending { arrival_ns, start_ns: None, lba, sectors: sectors_of(bytes), op, by_tracer: false };
    Some(Arrival { device: Cow::Borrowed(unit), process: None, request })
}
