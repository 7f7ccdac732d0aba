//! What `biosnoop` of BCC prints: `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`, one line a completed
//! request, at the time of its completion. The latency begins when the device gets the request; the time in the
//! kernel's queue before is there with `biosnoop -Q` only, and without it requests are taken to arrive at the device.

use super::text::{first_line, for_each_line, scaled, words};
use super::{sectors_of, Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::io::BufRead;

const SECOND_NS: i64 = 1_000_000_000;
const MILLISECOND_NS: i64 = 1_000_000;

/// Listings of biosnoop.
pub struct Biosnoop;

impl Importer for Biosnoop {
    fn name(&self) -> &'static str {
        "biosnoop"
    }

    fn about(&self) -> &'static str {
        "biosnoop of BCC (TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms))"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| line.starts_with("TIME(s)") && line.contains("LAT(ms)"))
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let mut queued = None;
        for_each_line(input, &mut |number, line| {
            if line.starts_with(b"TIME(s)") {
                let told = words(line).any(|word| word == "QUE(ms)");
                queued = Some(told);
                collector.report.unrecognised_lines += u64::from(number > 1);
                if !told {
                    collector
                        .report
                        .notes
                        .push("time in the kernel's queue is not told: record with biosnoop -Q".into());
                }
                return Ok(());
            }
            collector.line(number);
            let wrong = |problem: &str| ImportError::Malformed {
                format: "biosnoop",
                place: format!("line {number}"),
                problem: problem.to_owned(),
            };
            let queued = queued.ok_or_else(|| wrong("no heading TIME(s) ... LAT(ms) before it"))?;
            let event = parse(line, queued)
                .ok_or_else(|| wrong("expected TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)"))?;
            collector.at(event.completion_ns);
            let Some(op) = event.op else {
                collector.report.other_operations += 1;
                return Ok(());
            };
            // The clock starts with the first request that is seen: it may have begun before.
            let start_ns = event.completion_ns.saturating_sub(event.latency_ns).max(0);
            let pending = Pending {
                arrival_ns: start_ns.saturating_sub(event.queued_ns).max(0),
                start_ns: Some(start_ns),
                lba: event.lba,
                sectors: sectors_of(event.bytes),
                op,
                by_tracer: collector.is_tracer(event.process),
            };
            let device = collector.device(event.disk);
            collector.emit(device, &pending, event.completion_ns)
        })
    }
}

struct Event<'a> {
    completion_ns: i64,
    process: &'a str,
    disk: &'a str,
    /// None for flushes and other requests that neither read nor write.
    op: Option<Op>,
    lba: u64,
    bytes: u64,
    queued_ns: i64,
    latency_ns: i64,
}

fn parse(line: &[u8], queued: bool) -> Option<Event<'_>> {
    let fields: Vec<&str> = words(line).collect();
    // Names of processes may hold spaces: what follows them is counted from the end.
    let after = if queued { 7 } else { 6 };
    let split = fields.len().checked_sub(after).filter(|&split| split >= 2)?;
    let (before, rest) = fields.split_at(split);
    let [_pid, disk, op, sector, bytes, times @ ..] = rest else { return None };
    let mut milliseconds = times.iter().map(|time| scaled(time.as_bytes(), MILLISECOND_NS));
    let queued_ns = if queued { milliseconds.next()?? } else { 0 };
    let latency_ns = milliseconds.next()??;
    let sector: i64 = sector.parse().ok()?;
    let op = match *op {
        // A request without a place is a flush.
        _ if sector < 0 => None,
        "R" => Some(Op::Read),
        "W" => Some(Op::Write),
        _ => return None,
    };
    Some(Event {
        completion_ns: scaled(before[0].as_bytes(), SECOND_NS)?,
        process: before[1],
        disk,
        op,
        lba: u64::try_from(sector).unwrap_or(0),
        bytes: bytes.parse().ok()?,
        queued_ns,
        latency_ns,
    })
}
