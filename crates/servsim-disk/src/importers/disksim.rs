//! DiskSim's validation traces: `R|W Hit|Miss lba sectors service_us interarrival_us`, where the
//! interval is from this issue to the next. The service time was measured with one request on the
//! drive, so service starts at arrival here; intervals may be shorter than service times, and then
//! requests overlap on paper that never met on the drive.

use super::text::{first_line, for_each_line, scaled, words};
use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::io::BufRead;

/// DiskSim validation traces.
pub struct Disksim;

impl Importer for Disksim {
    fn name(&self) -> &'static str {
        "disksim"
    }

    fn about(&self) -> &'static str {
        "DiskSim validation traces (R|W Hit|Miss lba sectors service_us interarrival_us)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() == 6 && matches!(fields[0], "R" | "W") && matches!(fields[1], "Hit" | "Miss")
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let device = collector.device("disk0");
        let mut arrival_ns = 0;
        let mut overlapping = 0_u64;
        for_each_line(input, &mut |number, line| {
            collector.report.records += 1;
            let (pending, service_ns, interval_ns) =
                parse(line, arrival_ns).ok_or_else(|| ImportError::Malformed {
                    format: "disksim",
                    place: format!("line {number}"),
                    problem: "expected `R|W Hit|Miss lba sectors service_us interarrival_us`".to_owned(),
                })?;
            overlapping += u64::from(interval_ns < service_ns);
            if service_ns < 0 || interval_ns < 0 {
                collector.report.negative_times += 1;
                return Ok(());
            }
            arrival_ns += interval_ns;
            collector.emit(device, &pending, pending.arrival_ns + service_ns)
        })?;
        if overlapping > 0 {
            collector.report.notes.push(format!(
                "{overlapping} requests are followed by another before their service time is over: \
                 service times were measured one request at a time"
            ));
        }
        Ok(())
    }
}

fn parse(line: &[u8], arrival_ns: i64) -> Option<(Pending, i64, i64)> {
    let fields: Vec<&str> = words(line).collect();
    let [op, "Hit" | "Miss", lba, sectors, service, interval] = fields[..] else { return None };
    let op = match op {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return None,
    };
    let pending = Pending {
        arrival_ns,
        start_ns: Some(arrival_ns),
        lba: lba.parse().ok()?,
        sectors: sectors.parse().ok()?,
        op,
        by_tracer: false,
    };
    Some((pending, scaled(service.as_bytes(), 1000)?, scaled(interval.as_bytes(), 1000)?))
}
