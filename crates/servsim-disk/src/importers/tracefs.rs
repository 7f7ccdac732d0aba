//! The kernel's block trace events as text, from tracefs' `trace` file or `perf script`:
//! `PROCESS-PID [CPU] FLAGS SECONDS: block_rq_issue: MAJ,MIN RWBS BYTES (CMD) SECTOR + COUNT … [PROCESS]`.
//!
//! Reads `block_bio_queue`, `block_rq_insert`, `block_rq_issue`, `block_rq_requeue` (counted) and
//! `block_rq_complete`; lost events are taken from the tracer's own notices.

use super::blkparse::{apply, Action, Event};
use super::text::{for_each_line, scaled, words};
use super::{Collector, Importer};
use crate::error::ImportError;
use std::io::BufRead;

/// Kernel block events as text.
pub struct Tracefs;

impl Importer for Tracefs {
    fn name(&self) -> &'static str {
        "tracefs"
    }

    fn about(&self) -> &'static str {
        "kernel block events as text (tracefs, trace-cmd report, perf script)"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        ["block_rq_issue:", "block_rq_complete:", "block_rq_insert:", "block_bio_queue:"]
            .iter()
            .any(|event| text.contains(event))
    }

    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError> {
        for_each_line(input, &mut |number, line| {
            collector.line(number);
            let fields: Vec<&str> = words(line).collect();
            if let Some(lost) = lost_events(&fields) {
                collector.report.lost_events += lost;
                return Ok(());
            }
            if let Some(event) = parse(&fields) {
                apply(&event, collector)
            } else {
                collector.report.unrecognised_lines += 1;
                Ok(())
            }
        })
    }
}

/// `CPU:1 [LOST 123 EVENTS]`.
fn lost_events(fields: &[&str]) -> Option<u64> {
    let at = fields.iter().position(|field| *field == "[LOST")?;
    fields.get(at + 1)?.parse().ok()
}

fn parse<'a>(fields: &[&'a str]) -> Option<Event<'a>> {
    let (at, action) = fields.iter().enumerate().find_map(|(at, field)| {
        let name = field.strip_suffix(':')?;
        let action = match name.strip_prefix("block:").unwrap_or(name) {
            "block_bio_queue" => Action::Queue,
            "block_rq_insert" => Action::Insert,
            "block_rq_issue" => Action::Issue,
            "block_rq_complete" => Action::Complete,
            _ => return None,
        };
        Some((at, action))
    })?;
    let time = fields.get(at.checked_sub(1)?)?.strip_suffix(':')?;
    let rest = &fields[at + 1..];
    let plus = rest.iter().position(|field| *field == "+")?;
    let process = rest.last().and_then(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or("");
    Some(Event {
        device: rest.first()?,
        time_ns: scaled(time.as_bytes(), 1_000_000_000)?,
        action,
        rwbs: rest.get(1)?,
        sector: rest.get(plus.checked_sub(1)?)?.parse().unwrap_or(0),
        sectors: rest.get(plus + 1)?.parse().ok()?,
        process,
    })
}
