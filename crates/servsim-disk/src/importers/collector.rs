//! Pairs issues with completions and counts every event that does not become a request.
//!
//! A loss is a number in the report, never a silence: the caller prints what is not zero.

use super::ImportOptions;
use crate::error::ImportError;
use crate::request::{Op, Request, DEVICE_SECTORS, NO_START};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A backward step of the trace clock beyond this is a jump (less is the skew between processors).
const BACKWARD_JUMP_NS: i64 = 1_000_000_000;
/// A forward step beyond this (one day) is a jump, or two traces in one file.
const FORWARD_JUMP_NS: i64 = 86_400 * 1_000_000_000;

/// Times in ns since 1970 end here, in the year 2116: differences and sums of two cannot overflow.
const LAST_NS: i64 = i64::MAX / 2;
/// No device keeps a request longer: kernels give up after minutes.
const LONGEST_NS: i64 = 3600 * 1_000_000_000;
/// No request is longer than the 4 GiB that a kernel counts with 32 bits.
const REQUEST_SECTORS: u32 = 1 << 23;
/// Fewest requests whose order tells anything.
const FEWEST_IN_ORDER: u64 = 8;
/// What [`Collector::device`] returns when names can no longer be told apart by 16 bits.
const TOO_MANY_DEVICES: u16 = u16::MAX;

/// What is said of a trace that does not tell when requests complete.
pub(super) const ARRIVALS_ONLY: &str = "no completions: only the arrivals of the trace are used";

const NEGATIVE: &str = "negative_times";
const ENDLESS: &str = "endless";
const INSTANT: &str = "instant";
const IMPOSSIBLE: &str = "impossible_places";
const BACKWARD: &str = "backward";

/// What an import kept, and what it could not keep and why.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportReport {
    /// Format read.
    pub format: &'static str,
    /// Lines or records read.
    pub records: u64,
    /// Complete requests handed on.
    pub requests: u64,
    /// Device names; a request's `device` is an index into these.
    pub devices: Vec<String>,
    /// Issues that never completed (dropped).
    pub without_completion: u64,
    /// Completions whose issue is not in the trace (dropped).
    pub completion_without_issue: u64,
    /// Issues of an id already in flight; the older completes first.
    pub duplicate_ids: u64,
    /// Steps of the trace clock backward by more than 1 s or forward by more than a day.
    pub clock_jumps: u64,
    /// Requests that complete before they arrive, or lie before time zero or too far after it (dropped).
    pub negative_times: u64,
    /// Requests that take more than an hour (dropped).
    pub endless: u64,
    /// Requests that take no time at all.
    pub instant: u64,
    /// Requests beyond the end of any device, or longer than any request can be (dropped).
    pub impossible_places: u64,
    /// Requests that both arrive and complete before the one told before them.
    pub backward: u64,
    /// Flushes and other requests without data (dropped).
    pub zero_length: u64,
    /// Discards, formats and other operations that neither read nor write (dropped).
    pub other_operations: u64,
    /// Requests merged into another before they were issued (their time is the other's).
    pub merged: u64,
    /// Events the tracer says it lost.
    pub lost_events: u64,
    /// Lines of another kind, such as headings and summaries (skipped).
    pub unrecognised_lines: u64,
    /// Requests of the tracer itself.
    pub by_tracer: u64,
    /// Requests of devices that were not asked for.
    pub other_devices: u64,
    /// Where the first request of a count was found, by the name of the count.
    pub first: BTreeMap<&'static str, String>,
    /// Whether the trace does not tell when requests complete.
    pub arrivals_only: bool,
    /// Assumptions made while reading.
    pub notes: Vec<String>,
}

impl ImportReport {
    /// The counts of what was not kept or is suspect, by name and with the first place, zeros left out.
    pub fn warnings(&self) -> Vec<(String, u64)> {
        let place = |count: &str| {
            self.first.get(count).map_or(String::new(), |place| format!(", the first at {place}"))
        };
        [
            ("", "requests without completion (dropped)", self.without_completion),
            ("", "completions without issue (dropped)", self.completion_without_issue),
            ("", "ids issued again while in flight", self.duplicate_ids),
            ("", "clock jumps", self.clock_jumps),
            (NEGATIVE, "requests with negative times (dropped)", self.negative_times),
            (ENDLESS, "requests of more than an hour (dropped)", self.endless),
            (INSTANT, "requests that took no time", self.instant),
            (
                IMPOSSIBLE,
                "requests beyond the end of any device, or longer than any (dropped)",
                self.impossible_places,
            ),
            ("", "zero-length requests such as flushes (dropped)", self.zero_length),
            ("", "operations that neither read nor write (dropped)", self.other_operations),
            ("", "requests merged into others", self.merged),
            ("", "events lost by the tracer", self.lost_events),
            ("", "lines of another kind (skipped)", self.unrecognised_lines),
        ]
        .into_iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(name, what, count)| (format!("{what}{}", place(name)), count))
        .collect()
    }

    /// Requests whose times or places no device has.
    pub fn implausible(&self) -> u64 {
        self.negative_times + self.endless + self.impossible_places
    }

    /// Whether the trace is told from its end to its beginning, and where that shows first.
    pub fn runs_backward(&self) -> Option<&str> {
        // Lines in no order at all would be half.
        let most = self.requests >= FEWEST_IN_ORDER && 4 * self.backward > 3 * self.requests;
        self.first.get(BACKWARD).filter(|_| most).map(String::as_str)
    }

    /// The warnings in one line.
    pub fn losses(&self) -> String {
        let parts: Vec<String> =
            self.warnings().iter().map(|(what, count)| format!("{count} {what}")).collect();
        if parts.is_empty() {
            format!("{} records read", self.records)
        } else {
            parts.join(", ")
        }
    }
}

/// A request that has been issued, or at least queued, and not yet completed. Times in ns.
#[derive(Debug, Clone, Copy)]
pub struct Pending {
    /// Arrival at the queue.
    pub arrival_ns: i64,
    /// Start of service, when the trace has it.
    pub start_ns: Option<i64>,
    /// First 512-byte sector.
    pub lba: u64,
    /// Sectors of 512 bytes.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
    /// Made by the tracer itself.
    pub by_tracer: bool,
}

/// Where importers put what they read.
pub struct Collector<'a> {
    /// What has been counted so far; importers add to it directly.
    pub report: ImportReport,
    options: &'a ImportOptions,
    sink: &'a mut dyn FnMut(Request) -> Result<(), ImportError>,
    device_ids: HashMap<String, u16>,
    in_flight: HashMap<(u16, u64), VecDeque<Pending>>,
    last_event_ns: Option<i64>,
    /// Arrival and completion of the request told last.
    last_ns: (i64, i64),
    /// The line being read, of formats that have lines.
    line: Option<u64>,
}

impl<'a> Collector<'a> {
    /// A collector that hands requests to `sink`.
    pub fn new(
        format: &'static str,
        options: &'a ImportOptions,
        sink: &'a mut dyn FnMut(Request) -> Result<(), ImportError>,
    ) -> Self {
        Collector {
            report: ImportReport { format, ..ImportReport::default() },
            options,
            sink,
            device_ids: HashMap::new(),
            in_flight: HashMap::new(),
            last_event_ns: None,
            last_ns: (0, 0),
            line: None,
        }
    }

    /// The options of this import.
    pub fn options(&self) -> &ImportOptions {
        self.options
    }

    /// Line `number` holds the next record.
    pub fn line(&mut self, number: u64) {
        self.line = Some(number);
        self.report.records += 1;
    }

    /// Notes where the first request of the count called `name` was found.
    #[cold]
    fn found(&mut self, name: &'static str) {
        let records = self.report.records;
        let place = || self.line.map_or_else(|| format!("record {records}"), |line| format!("line {line}"));
        self.report.first.entry(name).or_insert_with(place);
    }

    /// A request with a time that cannot be: it is not kept.
    pub fn negative_time(&mut self) {
        self.report.negative_times += 1;
        self.found(NEGATIVE);
    }

    /// The index of the device called `name`, a new one if need be.
    pub fn device(&mut self, name: &str) -> u16 {
        if let Some(&id) = self.device_ids.get(name) {
            return id;
        }
        // One number is never given out, so that a trace with too many names is known by it.
        let Some(id) = u16::try_from(self.report.devices.len()).ok().filter(|&id| id < TOO_MANY_DEVICES)
        else {
            return TOO_MANY_DEVICES;
        };
        self.report.devices.push(name.to_owned());
        self.device_ids.insert(name.to_owned(), id);
        id
    }

    /// Whether `process` is the tracer named in the options.
    pub fn is_tracer(&self, process: &str) -> bool {
        self.options.tracer.as_deref().is_some_and(|tracer| tracer == process)
    }

    /// Notes the time of an event, to find clock jumps.
    pub fn at(&mut self, time_ns: i64) {
        if let Some(last) = self.last_event_ns {
            let step = time_ns.saturating_sub(last);
            if !(-BACKWARD_JUMP_NS..=FORWARD_JUMP_NS).contains(&step) {
                self.report.clock_jumps += 1;
            }
        }
        self.last_event_ns = Some(time_ns);
    }

    /// A request with identity `id` on `device` has arrived or been issued.
    pub fn issue(&mut self, device: u16, id: u64, pending: Pending) {
        let queue = self.in_flight.entry((device, id)).or_default();
        if !queue.is_empty() {
            self.report.duplicate_ids += 1;
        }
        queue.push_back(pending);
    }

    /// The request in flight with identity `id` on `device`, the oldest if there are several.
    pub fn pending(&mut self, device: u16, id: u64) -> Option<&mut Pending> {
        self.in_flight.get_mut(&(device, id)).and_then(VecDeque::front_mut)
    }

    /// Forgets the request in flight with identity `id`, because another carries it.
    pub fn merge(&mut self, device: u16, id: u64) {
        if self.take(device, id).is_some() {
            self.report.merged += 1;
        }
    }

    fn take(&mut self, device: u16, id: u64) -> Option<Pending> {
        let queue = self.in_flight.get_mut(&(device, id))?;
        let oldest = queue.pop_front();
        if queue.is_empty() {
            self.in_flight.remove(&(device, id));
        }
        oldest
    }

    /// The request with identity `id` on `device` has completed.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn complete(&mut self, device: u16, id: u64, completion_ns: i64) -> Result<(), ImportError> {
        if let Some(pending) = self.take(device, id) {
            self.emit(device, &pending, completion_ns)
        } else {
            self.report.completion_without_issue += 1;
            Ok(())
        }
    }

    /// Says that the format tells arrivals only.
    ///
    /// # Errors
    /// [`ImportError::NoCompletions`] where completions are needed.
    pub fn arrivals_only(&mut self) -> Result<(), ImportError> {
        if !self.options.arrivals_only {
            return Err(ImportError::NoCompletions { format: self.report.format });
        }
        self.report.arrivals_only = true;
        self.report.notes.push(ARRIVALS_ONLY.to_owned());
        Ok(())
    }

    /// Hands on a request that is complete, or counts why it cannot be one.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn emit(&mut self, device: u16, pending: &Pending, completion_ns: i64) -> Result<(), ImportError> {
        let report = &mut self.report;
        let start_ns = pending.start_ns;
        if pending.sectors == 0 {
            report.zero_length += 1;
            return Ok(());
        }
        let ordered = start_ns.is_none_or(|start| pending.arrival_ns <= start && start <= completion_ns);
        if pending.arrival_ns < 0 || completion_ns < pending.arrival_ns || completion_ns > LAST_NS || !ordered
        {
            self.negative_time();
            return Ok(());
        }
        if completion_ns - pending.arrival_ns > LONGEST_NS {
            report.endless += 1;
            self.found(ENDLESS);
            return Ok(());
        }
        if pending.sectors > REQUEST_SECTORS || pending.lba > DEVICE_SECTORS {
            report.impossible_places += 1;
            self.found(IMPOSSIBLE);
            return Ok(());
        }
        if completion_ns == pending.arrival_ns && !report.arrivals_only {
            report.instant += 1;
            self.found(INSTANT);
        }
        if pending.arrival_ns < self.last_ns.0 && completion_ns < self.last_ns.1 {
            self.report.backward += 1;
            self.found(BACKWARD);
        }
        self.last_ns = (pending.arrival_ns, completion_ns);
        let report = &mut self.report;
        if device == TOO_MANY_DEVICES {
            return Err(ImportError::Malformed {
                format: report.format,
                place: format!("record {}", report.records),
                problem: "more than 65,535 devices: import them in parts".to_owned(),
            });
        }
        let command = self.options.device.as_ref();
        if command.is_some_and(|name| report.devices.get(usize::from(device)) != Some(name)) {
            report.other_devices += 1;
            return Ok(());
        }
        if pending.by_tracer {
            report.by_tracer += 1;
            if self.options.exclude_tracer {
                return Ok(());
            }
        }
        report.requests += 1;
        (self.sink)(Request {
            arrival_ns: pending.arrival_ns as u64,
            start_ns: start_ns.map_or(NO_START, |start| start as u64),
            completion_ns: completion_ns as u64,
            lba: pending.lba,
            sectors: pending.sectors,
            device,
            op: pending.op,
            by_tracer: pending.by_tracer,
        })
    }

    /// Ends the import: what is still in flight never completed.
    pub fn finish(mut self) -> ImportReport {
        self.report.without_completion +=
            self.in_flight.values().map(|queue| queue.len() as u64).sum::<u64>();
        let (named, excluded) = (self.options.tracer.as_deref(), self.options.exclude_tracer);
        if self.report.by_tracer == 0 && (named.is_some() || excluded) {
            let did = if excluded { "left out" } else { "flagged" };
            let tracer = named.unwrap_or("any tracer");
            self.report.notes.push(format!("no request of {tracer} was found, so none was {did}"));
        }
        self.report
    }
}
