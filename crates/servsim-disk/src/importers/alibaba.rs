//! Block traces of Alibaba's cloud disks (Li et al., IISWC 2020): `device,R|W,offset,bytes,time`, times of arrival in us
//! since 1970, offsets in bytes. They tell when requests arrive, not when they complete.

use super::arrivals::{read, Arrival};
use super::text::{first_line, scaled};
use super::{sectors_of, Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::{Op, SECTOR_BYTES};
use std::borrow::Cow;
use std::io::BufRead;

const MICROSECOND_NS: i64 = 1000;
/// The first moment of 2001: no trace is older, and no number of a device or offset passes for one.
const EARLIEST_NS: i64 = 978_307_200_000_000_000;

/// Alibaba's lines.
pub struct Alibaba;

impl Importer for Alibaba {
    fn name(&self) -> &'static str {
        "alibaba"
    }

    fn about(&self) -> &'static str {
        "Alibaba cloud disks (device,R|W,offset,bytes,time in us since 1970): arrivals only"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        let is_late = |arrival: &Arrival<'_>| arrival.request.arrival_ns > EARLIEST_NS;
        first_line(head, |line| parse(line.as_bytes()).as_ref().is_some_and(is_late))
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        read(input, collector, "device,R|W,offset,bytes,time in us", parse)
    }
}

fn parse(line: &[u8]) -> Option<Arrival<'_>> {
    let fields: Vec<&str> = std::str::from_utf8(line).ok()?.split(',').collect();
    let [device, op, offset, bytes, time] = fields[..] else { return None };
    let request = Pending {
        arrival_ns: scaled(time.as_bytes(), MICROSECOND_NS)?,
        start_ns: None,
        lba: offset.parse::<u64>().ok()? / SECTOR_BYTES,
        sectors: sectors_of(bytes.parse().ok()?),
        op: match op {
            "R" => Op::Read,
            "W" => Op::Write,
            _ => return None,
        },
        by_tracer: false,
    };
    Some(Arrival { device: Cow::Borrowed(device), process: None, request })
}
