//! blkparse's default text: `MAJ,MIN CPU SEQ TIME PID ACTION RWBS SECTOR + COUNT [PROCESS]`.
//!
//! Arrival is the queue event (Q) if there is one, else insertion (I), else issue (D); service
//! starts at D; C completes. Merged requests (M, F) take the time of the request that carries
//! them and are counted. Left out: splits, remaps, plugs and the summary at the end.

use super::text::{first_line, for_each_line, scaled, words};
use super::{Collector, Importer, Pending};
use crate::error::ImportError;
use crate::request::Op;
use std::io::BufRead;

/// blkparse text.
pub struct Blkparse;

impl Importer for Blkparse {
    fn name(&self) -> &'static str {
        "blkparse"
    }

    fn about(&self) -> &'static str {
        "blkparse's default text output"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        first_line(head, |line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.len() >= 7 && fields[0].contains(',') && fields[3].contains('.') && fields[5].len() <= 2
        })
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        for_each_line(input, &mut |number, line| {
            collector.line(number);
            let fields: Vec<&str> = words(line).collect();
            if let Some(event) = parse(&fields) {
                apply(&event, collector)
            } else {
                collector.report.unrecognised_lines += 1;
                Ok(())
            }
        })
    }
}

/// What happened to a request of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Handed to the block layer.
    Queue,
    /// Put into the scheduler's queue.
    Insert,
    /// Sent to the device.
    Issue,
    /// Answered by the device.
    Complete,
    /// Joined to another request.
    Merge,
}

/// One event of the block layer, as blkparse, blktrace and the kernel's trace events tell it.
pub struct Event<'a> {
    /// Device, as the trace names it.
    pub device: &'a str,
    /// Time in ns.
    pub time_ns: i64,
    /// What happened.
    pub action: Action,
    /// `R`, `WS`, `FF`, `D`, …
    pub rwbs: &'a str,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Process that caused it, or empty.
    pub process: &'a str,
}

fn parse<'a>(fields: &[&'a str]) -> Option<Event<'a>> {
    let &[device, _cpu, _sequence, time, _pid, action, rwbs, ref rest @ ..] = fields else { return None };
    if !device.contains(',') {
        return None;
    }
    let action = match action {
        "Q" => Action::Queue,
        "I" => Action::Insert,
        "D" => Action::Issue,
        "C" => Action::Complete,
        "M" | "F" => Action::Merge,
        _ => return None,
    };
    let (sector, sectors) = match rest {
        [sector, "+", count, ..] => (sector.parse().ok()?, count.parse().ok()?),
        // A flush has no place on the disk.
        _ => (0, 0),
    };
    let process = rest.last().and_then(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or("");
    Some(Event {
        device,
        time_ns: scaled(time.as_bytes(), 1_000_000_000)?,
        action,
        rwbs,
        sector,
        sectors,
        process,
    })
}

/// The operation of an `rwbs` word: `None` for discards and the like.
fn operation(rwbs: &str) -> Option<Op> {
    // "FWS" is a write that flushes first; discards (D), secure erases (E) and zone commands (Z) are neither.
    if rwbs.contains(['D', 'E', 'Z']) {
        None
    } else if rwbs.contains('R') {
        Some(Op::Read)
    } else if rwbs.contains('W') {
        Some(Op::Write)
    } else {
        None
    }
}

/// Brings one event of the block layer into the collector.
///
/// # Errors
/// Those of the sink.
pub fn apply(event: &Event<'_>, collector: &mut Collector<'_>) -> Result<(), ImportError> {
    collector.at(event.time_ns);
    let closing = event.action == Action::Complete;
    if event.sectors == 0 {
        collector.report.zero_length += u64::from(closing);
        return Ok(());
    }
    let Some(op) = operation(event.rwbs) else {
        collector.report.other_operations += u64::from(closing);
        return Ok(());
    };
    let device = collector.device(event.device);
    let fresh = Pending {
        arrival_ns: event.time_ns,
        start_ns: None,
        lba: event.sector,
        sectors: event.sectors,
        op,
        by_tracer: collector.is_tracer(event.process),
    };
    match event.action {
        Action::Queue => collector.issue(device, event.sector, fresh),
        Action::Insert => {
            if collector.pending(device, event.sector).is_none() {
                collector.issue(device, event.sector, fresh);
            }
        }
        Action::Issue => match collector.pending(device, event.sector) {
            Some(pending) => {
                // A request sent again after a requeue keeps its arrival and starts anew.
                pending.start_ns = Some(event.time_ns);
                pending.sectors = event.sectors;
            }
            None => collector.issue(device, event.sector, Pending { start_ns: Some(event.time_ns), ..fresh }),
        },
        Action::Complete => return collector.complete(device, event.sector, event.time_ns),
        Action::Merge => collector.merge(device, event.sector),
    }
    Ok(())
}
