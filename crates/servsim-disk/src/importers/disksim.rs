//! DiskSim's validation traces: `R|W Hit|Miss|Doub|Trip lba sectors service_us interval_us`, where the second word is what the
//! drive's buffer did, as far as who measured could tell. They were measured with one request on the drive at a time, so service
//! starts at arrival.
//!
//! Two families share the form (ADR 0509). In one the interval is the pause from the completion before
//! to this issue; its first line's interval has no completion before it. In the other it is the pause
//! from this completion to the next issue, and the sum of a line's two times is whole ticks of the
//! host's clock: read as the pause before, it would tell the service that follows. Which it is shows in
//! the first lines; too few are read in the second way, in which no interval can tell its own service.

use super::text::{first_line, for_each_line, scaled, words};
use super::{Collector, Importer, Pending};
use crate::clock::{tick, FEWEST};
use crate::error::ImportError;
use crate::request::Op;
use std::io::BufRead;

/// Lines that settle the family.
const ENOUGH: usize = 600;

/// What the buffer may have done; DiskSim counts the four and goes on alike.
const BUFFER: [&str; 4] = ["Hit", "Miss", "Doub", "Trip"];

/// DiskSim validation traces.
pub struct Disksim;

impl Importer for Disksim {
    fn name(&self) -> &'static str {
        "disksim"
    }

    fn about(&self) -> &'static str {
        "DiskSim validation traces (R|W Hit|Miss|Doub|Trip lba sectors service_us interval_us)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() == 6 && matches!(fields[0], "R" | "W") && BUFFER.contains(&fields[1])
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let device = collector.device("disk0");
        let mut held = Vec::new();
        let mut clock: Option<Clock> = None;
        for_each_line(input, &mut |number, line| {
            collector.line(number);
            let line = parse(line).ok_or_else(|| ImportError::Malformed {
                format: "disksim",
                place: format!("line {number}"),
                problem: "expected `R|W Hit|Miss|Doub|Trip lba sectors service_us interval_us`".to_owned(),
            })?;
            if line.service_ns < 0 || line.interval_ns < 0 {
                collector.negative_time();
                return Ok(());
            }
            if let Some(clock) = &mut clock {
                return clock.emit(device, &line, collector);
            }
            held.push(line);
            if held.len() == ENOUGH {
                clock = Some(begin(device, &mut held, collector)?);
            }
            Ok(())
        })?;
        begin(device, &mut held, collector).map(drop)
    }
}

/// Settles the family and hands on the lines held back for it.
fn begin(device: u16, held: &mut Vec<Line>, collector: &mut Collector<'_>) -> Result<Clock, ImportError> {
    let mut clock = Clock { pauses_follow: pauses_follow(held, collector), time_ns: 0, first: true };
    held.drain(..).try_for_each(|line| clock.emit(device, &line, collector))?;
    Ok(clock)
}

/// Whether the interval of a line follows its service; tells the report why.
fn pauses_follow(lines: &[Line], collector: &mut Collector<'_>) -> bool {
    let sums = lines.iter().map(|line| line.service_ns.saturating_add(line.interval_ns) as u64);
    let notes = &mut collector.report.notes;
    if let Some(tick) = tick(sums) {
        notes.push(format!(
            "service and interval of a line add up to ticks of {:.2} ms: intervals follow the service of their line",
            tick.period_ns * 1e-6
        ));
        return true;
    }
    if (1..FEWEST).contains(&lines.len()) {
        notes.push(
            "too few lines to tell: intervals are taken to follow the service of their line".to_owned(),
        );
    }
    lines.len() < FEWEST
}

/// Time as the lines go by.
struct Clock {
    pauses_follow: bool,
    /// The last completion, or where intervals follow the next issue.
    time_ns: i64,
    first: bool,
}

impl Clock {
    fn emit(&mut self, device: u16, line: &Line, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        let before_ns = if self.pauses_follow || self.first { 0 } else { line.interval_ns };
        let after_ns = if self.pauses_follow { line.interval_ns } else { 0 };
        self.first = false;
        let arrival_ns = self.time_ns.saturating_add(before_ns);
        let done_ns = arrival_ns.saturating_add(line.service_ns);
        self.time_ns = done_ns.saturating_add(after_ns);
        let pending = Pending { arrival_ns, start_ns: Some(arrival_ns), ..line.pending };
        collector.emit(device, &pending, done_ns)
    }
}

/// One line.
struct Line {
    /// The request without its times.
    pending: Pending,
    service_ns: i64,
    interval_ns: i64,
}

fn parse(line: &[u8]) -> Option<Line> {
    let fields: Vec<&str> = words(line).collect();
    let [op, buffer, lba, sectors, service, interval] = fields[..] else { return None };
    if !BUFFER.contains(&buffer) {
        return None;
    }
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
    let (service_ns, interval_ns) = (scaled(service.as_bytes(), 1000)?, scaled(interval.as_bytes(), 1000)?);
    Some(Line { pending, service_ns, interval_ns })
}
