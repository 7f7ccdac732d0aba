//! Trace importers: one file per format, registered in [`IMPORTERS`].
//!
//! An importer turns bytes into [`Request`]s through a [`Collector`], which pairs issues with
//! completions and counts everything that could not become a request. Importers read from
//! `BufRead` only, keep no more than the requests in flight, and so take traces of any size.

mod alibaba;
mod arrivals;
mod biosnoop;
mod blkparse;
mod blktrace;
mod byu;
pub mod captured;
mod collector;
mod columns;
mod csv;
mod disksim;
mod etw;
mod fio;
mod fiu;
mod msr;
mod native;
mod nbdkit;
mod spc;
mod srt;
mod text;
mod tracefs;

pub use collector::{Collector, ImportReport, Pending};
pub use native::write as write_native;

use crate::error::{suggestion, ImportError};
use crate::request::{Request, SECTOR_BYTES};
use std::io::BufRead;

/// What a person can choose about an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// CSV only: column names with their units, comma separated, in order.
    pub columns: Option<String>,
    /// Process whose requests are the tracer's own; they are flagged, and counted.
    pub tracer: Option<String>,
    /// Leave the tracer's own requests out (they are still counted).
    pub exclude_tracer: bool,
    /// Keep one device only, by the name it has in the trace.
    pub device: Option<String>,
    /// Completions are of no interest: a CSV trace may lack them.
    pub arrivals_only: bool,
}

/// One trace format.
pub trait Importer: Sync {
    /// Short lower-case name, used by `--format`.
    fn name(&self) -> &'static str;
    /// One line for people: what writes this format.
    fn about(&self) -> &'static str;
    /// Whether `head`, the first few KiB of the input, looks like this format.
    fn recognises(&self, head: &[u8]) -> bool;
    /// Reads `input` to its end.
    ///
    /// # Errors
    /// When the input cannot be read, or a line or record has not the form of the format.
    fn read(&self, input: &mut dyn BufRead, collector: &mut Collector<'_>) -> Result<(), ImportError>;
}

/// All formats, in the order in which they are tried.
pub const IMPORTERS: &[&dyn Importer] = &[
    &native::Native,
    &srt::Srt,
    &blktrace::Blktrace,
    &disksim::Disksim,
    &tracefs::Tracefs,
    &blkparse::Blkparse,
    &nbdkit::Nbdkit,
    &biosnoop::Biosnoop,
    &etw::Etw,
    &fiu::Fiu,
    &spc::Spc,
    &alibaba::Alibaba,
    &msr::Msr,
    &fio::Fio,
    &csv::Csv,
    &byu::Byu,
];

/// Where a tar archive says what it is (POSIX.1-1988, ustar).
const TAR_MAGIC_AT: usize = 257;
/// A format shows within so many bytes, however many are in memory.
const HEAD_BYTES: usize = 1 << 16;

fn known() -> String {
    IMPORTERS.iter().map(|importer| importer.name()).collect::<Vec<_>>().join(", ")
}

/// The importer called `name`.
///
/// # Errors
/// When no format has that name; the message suggests the nearest.
pub fn by_name(name: &str) -> Result<&'static dyn Importer, ImportError> {
    IMPORTERS.iter().find(|importer| importer.name() == name).copied().ok_or_else(|| {
        let names: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name()).collect();
        ImportError::UnknownFormat {
            name: name.to_owned(),
            nearest: suggestion(name, &names),
            known: known(),
        }
    })
}

/// Reads a whole trace, giving each request to `sink` as soon as it completes.
///
/// Times are those of the trace; [`rebase`] makes them start at zero.
///
/// # Errors
/// See [`ImportError`]; a trace without any complete request is an error.
pub fn stream(
    input: &mut dyn BufRead,
    format: Option<&str>,
    options: &ImportOptions,
    sink: &mut dyn FnMut(Request) -> Result<(), ImportError>,
) -> Result<ImportReport, ImportError> {
    let importer = if let Some(name) = format {
        by_name(name)?
    } else {
        let head = input.fill_buf()?;
        let head = &head[..head.len().min(HEAD_BYTES)];
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            return Err(ImportError::Utf16);
        }
        if head.get(TAR_MAGIC_AT..).is_some_and(|rest| rest.starts_with(b"ustar")) {
            return Err(ImportError::Tar);
        }
        *IMPORTERS
            .iter()
            .find(|importer| importer.recognises(head))
            .ok_or_else(|| ImportError::Unrecognised { known: known() })?
    };
    let mut collector = Collector::new(importer.name(), options, sink);
    importer.read(input, &mut collector)?;
    let report = collector.finish();
    if 2 * report.implausible() > report.records {
        return Err(ImportError::Implausible(report.losses()));
    }
    if report.requests == 0 {
        return Err(ImportError::Empty(report.losses()));
    }
    if let Some(place) = report.runs_backward() {
        return Err(ImportError::Backward { backward: report.backward, place: place.to_owned() });
    }
    Ok(report)
}

/// Reads a whole trace into memory, in arrival order, with the first arrival at time zero.
///
/// # Errors
/// See [`stream`].
pub fn load(
    input: &mut dyn BufRead,
    format: Option<&str>,
    options: &ImportOptions,
) -> Result<(Vec<Request>, ImportReport), ImportError> {
    let mut requests = Vec::new();
    let report = stream(input, format, options, &mut |request| {
        requests.push(request);
        Ok(())
    })?;
    requests.sort_by_key(|request| request.arrival_ns);
    rebase(&mut requests);
    Ok((requests, report))
}

/// Sectors that so many bytes take; more than any request has if they do not fit.
fn sectors_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR_BYTES)).unwrap_or(u32::MAX)
}

/// Shifts all times so that the first arrival is at zero; `requests` are in arrival order.
pub fn rebase(requests: &mut [Request]) {
    let Some(base) = requests.first().map(|request| request.arrival_ns) else { return };
    for request in requests {
        request.arrival_ns -= base;
        request.completion_ns -= base;
        request.start_ns =
            request.recorded_start_ns().map_or(crate::request::NO_START, |start| start.saturating_sub(base));
    }
}
