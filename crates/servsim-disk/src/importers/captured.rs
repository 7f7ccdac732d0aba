//! The disk requests of a captured guest, straight from the events of a servsim trace.
//!
//! A servsim trace is no stream of bytes to read from end to end, so this is not one of the importers:
//! whoever has opened the trace hands its events over, in order of time. Times are guest time; a
//! request arrives when the guest's driver gives it to the device, and completes when its interrupt is
//! handled. Flushes carry no data and are counted as zero-length requests.

use super::{Collector, ImportOptions, ImportReport, Pending};
use crate::error::ImportError;
use crate::request::{Op, Request, SECTOR_BYTES};
use servsim_trace::{Event, EventKind};
use std::collections::HashMap;

/// Name of this source among the formats.
pub const FORMAT: &str = "svt";

/// Whether `event` says anything about a disk.
pub fn concerns_disks(event: &Event) -> bool {
    matches!(event.kind, EventKind::IoSubmit { .. } | EventKind::IoComplete { .. })
}

/// Pairs submissions and completions; memory grows with the requests in flight.
pub struct Captured<'a> {
    collector: Collector<'a>,
    /// Device of each request in flight: a completion does not name it.
    device_of: HashMap<u64, u16>,
}

impl<'a> Captured<'a> {
    /// Reads events of a trace whose block devices are called `devices`.
    pub fn new(
        devices: &[String],
        options: &'a ImportOptions,
        sink: &'a mut dyn FnMut(Request) -> Result<(), ImportError>,
    ) -> Self {
        let mut collector = Collector::new(FORMAT, options, sink);
        for name in devices {
            collector.device(name);
        }
        Captured { collector, device_of: HashMap::new() }
    }

    /// The next event in order of time; those that do not concern disks are passed over.
    ///
    /// # Errors
    /// Those of the sink, and when an event names a device that the trace does not have.
    pub fn push(&mut self, event: &Event) -> Result<(), ImportError> {
        let collector = &mut self.collector;
        match event.kind {
            EventKind::IoSubmit { request, device, sector, bytes, write } => {
                collector.report.records += 1;
                collector.at(event.time_ns as i64);
                let known = usize::try_from(device).is_ok_and(|at| at < collector.report.devices.len());
                if !known {
                    return Err(ImportError::Malformed {
                        format: FORMAT,
                        place: format!("request {request}"),
                        problem: format!("device {device} is not in the trace's list of devices"),
                    });
                }
                let pending = Pending {
                    arrival_ns: event.time_ns as i64,
                    start_ns: None,
                    lba: sector,
                    sectors: u64::from(bytes).div_ceil(SECTOR_BYTES) as u32,
                    op: if write { Op::Write } else { Op::Read },
                    by_tracer: false,
                };
                self.device_of.insert(request, device as u16);
                collector.issue(device as u16, request, pending);
            }
            EventKind::IoComplete { request } => {
                collector.report.records += 1;
                collector.at(event.time_ns as i64);
                // Without a submission there is no device either; any will do to count it.
                let device = self.device_of.remove(&request).unwrap_or(0);
                collector.complete(device, request, event.time_ns as i64)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The end of the trace.
    ///
    /// # Errors
    /// [`ImportError::Empty`] when no request was complete.
    pub fn finish(self) -> Result<ImportReport, ImportError> {
        let report = self.collector.finish();
        if report.requests == 0 {
            return Err(ImportError::Empty(report.losses()));
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(time_ns: u64, request: u64, sector: u64, bytes: u32, write: bool) -> Event {
        Event { time_ns, kind: EventKind::IoSubmit { request, device: 0, sector, bytes, write } }
    }

    fn complete(time_ns: u64, request: u64) -> Event {
        Event { time_ns, kind: EventKind::IoComplete { request } }
    }

    #[test]
    fn submissions_and_completions_become_requests_and_flushes_are_counted() {
        let (options, mut seen) = (ImportOptions::default(), Vec::new());
        let mut sink = |request: Request| {
            seen.push((request.arrival_ns, request.completion_ns, request.lba, request.sectors, request.op));
            Ok(())
        };
        let mut captured = Captured::new(&["vda".to_owned()], &options, &mut sink);
        for event in [
            submit(10, 1, 800, 4096, true),
            submit(20, 2, 16, 8192, false),
            submit(30, 3, 0, 0, true),
            complete(40, 2),
            complete(50, 3),
            complete(60, 1),
            complete(70, 9),
            submit(80, 4, 0, 512, false),
        ] {
            captured.push(&event).unwrap();
        }
        let report = captured.finish().unwrap();
        assert_eq!(seen, [(20, 40, 16, 16, Op::Read), (10, 60, 800, 8, Op::Write)]);
        assert_eq!((report.zero_length, report.without_completion), (1, 1));
        assert_eq!((report.completion_without_issue, report.records), (1, 8));
    }

    #[test]
    fn a_device_that_the_trace_does_not_list_and_a_trace_without_requests_are_refused() {
        let (options, mut sink) = (ImportOptions::default(), |_: Request| Ok(()));
        let mut captured = Captured::new(&[], &options, &mut sink);
        assert!(captured.push(&submit(1, 1, 0, 512, true)).unwrap_err().to_string().contains("device 0"));
        assert!(matches!(captured.finish(), Err(ImportError::Empty(_))));
    }
}
