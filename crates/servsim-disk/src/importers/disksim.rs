//! DiskSim's validation traces: `R|W Hit|Miss lba sectors service_us interval_us`, where the interval
//! is the pause from the completion before to this issue (ADR 0505). They were measured with one
//! request on the drive at a time, so service starts at arrival. The first line's interval has no
//! completion before it: the trace begins with its issue.

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
        "DiskSim validation traces (R|W Hit|Miss lba sectors service_us interval_us)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() == 6 && matches!(fields[0], "R" | "W") && matches!(fields[1], "Hit" | "Miss")
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let device = collector.device("disk0");
        let mut completion_ns: Option<i64> = None;
        for_each_line(input, &mut |number, line| {
            collector.report.records += 1;
            let (mut pending, service_ns, pause_ns) = parse(line).ok_or_else(|| ImportError::Malformed {
                format: "disksim",
                place: format!("line {number}"),
                problem: "expected `R|W Hit|Miss lba sectors service_us interval_us`".to_owned(),
            })?;
            if service_ns < 0 || pause_ns < 0 {
                collector.report.negative_times += 1;
                return Ok(());
            }
            let arrival_ns = completion_ns.map_or(0, |before| before.saturating_add(pause_ns));
            let done_ns = arrival_ns.saturating_add(service_ns);
            completion_ns = Some(done_ns);
            (pending.arrival_ns, pending.start_ns) = (arrival_ns, Some(arrival_ns));
            collector.emit(device, &pending, done_ns)
        })
    }
}

/// The request without its times, its service time and the pause before it, ns.
fn parse(line: &[u8]) -> Option<(Pending, i64, i64)> {
    let fields: Vec<&str> = words(line).collect();
    let [op, "Hit" | "Miss", lba, sectors, service, interval] = fields[..] else { return None };
    let op = match op {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return None,
    };
    let pending = Pending {
        arrival_ns: 0,
        start_ns: None,
        lba: lba.parse().ok()?,
        sectors: sectors.parse().ok()?,
        op,
        by_tracer: false,
    };
    Some((pending, scaled(service.as_bytes(), 1000)?, scaled(interval.as_bytes(), 1000)?))
}
