//! Traces: where they are, how they are read, and their columns.

use super::{interruptible, options, Fault, Outcome};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Deserialize;
use serde_json::{json, Value};
use servsim_disk::error::ImportError;
use servsim_disk::importers::captured::{self, Captured};
use servsim_disk::importers::{rebase, stream, write_native, ImportOptions, ImportReport};
use servsim_disk::request::Request;
use servsim_files::{AtomicFile, Special, WriteError};
use servsim_import::input::Input;
use servsim_trace::{epoch_events, TraceError, TraceReader, FILE_MAGIC};
use std::io::{BufRead, BufReader, BufWriter};
use std::path::Path;
use std::sync::mpsc::{channel, sync_channel};

/// How to read a trace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Source {
    path: String,
    format: Option<String>,
    columns: Option<String>,
    tracer: Option<String>,
    exclude_tracer: bool,
    device: Option<String>,
    /// Nothing but arrivals is asked for.
    #[serde(skip)]
    arrivals_only: bool,
}

impl Source {
    pub(super) fn options(&self) -> ImportOptions {
        ImportOptions {
            columns: self.columns.clone(),
            tracer: self.tracer.clone(),
            exclude_tracer: self.exclude_tracer,
            device: self.device.clone(),
            arrivals_only: self.arrivals_only,
        }
    }

    /// The same, where it may be that nothing but arrivals is asked for.
    pub(super) fn arrivals_only(&self, arrivals_only: bool) -> Source {
        Source { arrivals_only, ..self.clone() }
    }

    /// The trace, decompressed while it is read: those of archives are kept compressed.
    pub(super) fn open(&self) -> Outcome<BufReader<Input>> {
        let path = Path::new(&self.path);
        if path.is_dir() {
            return Err(Fault::Usage(format!("{}: a directory; name a trace in it", self.path)));
        }
        let input = Input::open(path).map_err(|error| Fault::Usage(format!("cannot open {}", error.0)))?;
        Ok(BufReader::with_capacity(1 << 18, input))
    }

    pub(super) fn named(&self, error: ImportError) -> Fault {
        match Fault::from(error) {
            Fault::Usage(message) => Fault::Usage(format!("{}: {message}", self.path)),
            other => other,
        }
    }

    /// Whether the file is a trace of a guest, whose disk requests are among its events.
    fn is_guest(&self) -> Outcome<bool> {
        if let Some(format) = &self.format {
            return Ok(format == captured::FORMAT);
        }
        Ok(self.open()?.fill_buf().is_ok_and(|head| head.starts_with(FILE_MAGIC)))
    }

    /// Reads the trace, giving each request to `sink` as soon as it completes.
    pub(super) fn stream(
        &self,
        sink: &mut dyn FnMut(Request) -> Result<(), ImportError>,
    ) -> Outcome<ImportReport> {
        if self.is_guest()? {
            return self.stream_guest(sink);
        }
        let mut input = self.open()?;
        read_ahead(|put| stream(&mut input, self.format.as_deref(), &self.options(), put), sink)
            .map_err(|error| self.named(error))
    }

    /// Reads the disk requests of a guest's trace, epoch by epoch.
    fn stream_guest(
        &self,
        sink: &mut dyn FnMut(Request) -> Result<(), ImportError>,
    ) -> Outcome<ImportReport> {
        let damaged = |error: TraceError| Fault::Usage(error.to_string());
        let reader = TraceReader::open(Path::new(&self.path)).map_err(damaged)?;
        let options = self.options();
        let mut requests = Captured::new(&reader.meta().devices, &options, sink);
        for epoch in 0..reader.epoch_count() {
            for (_, event) in epoch_events(&reader, epoch, captured::concerns_disks).map_err(damaged)? {
                requests.push(&event).map_err(|error| self.named(error))?;
            }
        }
        let mut report = requests.finish().map_err(|error| self.named(error))?;
        report.notes.extend(reader.truncated().map(str::to_owned));
        Ok(report)
    }

    /// Reads the whole trace into memory, in order of arrival, the first at time zero.
    pub(super) fn load(&self) -> Outcome<(Vec<Request>, ImportReport)> {
        let mut requests = Vec::new();
        let report = self.stream(&mut |request| {
            requests.push(request);
            Ok(())
        })?;
        requests.sort_by_key(|request| request.arrival_ns);
        rebase(&mut requests);
        Ok((requests, report))
    }
}

/// Requests that are handed on together: few enough to stay in the nearest caches.
const BATCH: usize = 512;
/// Batches that may have been read and not yet been taken.
const AHEAD: usize = 16;

/// What reads gives requests to, and whether to go on.
type Put<'a> = &'a mut dyn FnMut(Request) -> Result<(), ImportError>;

/// Runs `read` on a thread of its own and gives what it reads to `sink` on this one, in the same order: reading lines and
/// working on requests cost about as much.
fn read_ahead(
    read: impl FnOnce(Put<'_>) -> Result<ImportReport, ImportError> + Send,
    sink: Put<'_>,
) -> Result<ImportReport, ImportError> {
    let (full, batches) = sync_channel::<Vec<Request>>(AHEAD);
    let (taken, empty) = channel::<Vec<Request>>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut batch = Vec::with_capacity(BATCH);
            // Nobody takes it where the sink has failed, and the sink says why.
            let pass = |batch| full.send(batch).map_err(|_| ImportError::Interrupted);
            let report = read(&mut |request| {
                batch.push(request);
                if batch.len() < BATCH {
                    return Ok(());
                }
                let next = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
                pass(std::mem::replace(&mut batch, next))
            });
            pass(batch)?;
            report
        });
        let work = || {
            for mut batch in batches {
                batch.drain(..).try_for_each(&mut *sink)?;
                // The reader may have ended.
                let _ = taken.send(batch);
            }
            Ok(())
        };
        let worked = work();
        let report = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        worked.and(report)
    })
}

pub(super) fn report_json(report: &ImportReport) -> Value {
    let mut value = json!(report);
    value["warnings"] =
        report.warnings().into_iter().map(|(what, count)| json!({"what": what, "count": count})).collect();
    value
}

/// Reads a trace; writes it in the project's own form if `output` is given. Returns the report.
#[pyfunction]
pub(super) fn disk_import(py: Python<'_>, source: &str, output: Option<String>) -> PyResult<String> {
    let source: Source = options(source)?;
    interruptible(py, move || {
        let (requests, report) = source.load()?;
        if let Some(output) = output {
            let output = Path::new(&output);
            write_trace(output, &report.devices, &requests)
                .map_err(|error| WriteError::new(output, error))?;
        }
        Ok(report_json(&report).to_string())
    })
}

fn write_trace(output: &Path, devices: &[String], requests: &[Request]) -> std::io::Result<()> {
    let mut writer = BufWriter::new(AtomicFile::create(output, Special::WriteTo)?);
    write_native(&mut writer, devices, requests)?;
    writer.into_inner()?.commit().map(drop)
}

/// The columns of a trace as little-endian bytes: name -> (dtype, bytes).
#[pyfunction]
pub(super) fn disk_columns<'py>(py: Python<'py>, source: &str) -> PyResult<(Bound<'py, PyDict>, String)> {
    let source: Source = options(source)?;
    let (requests, report) = interruptible(py, move || source.load())?;
    let columns = PyDict::new(py);
    let words =
        |get: fn(&Request) -> u64| requests.iter().flat_map(|r| get(r).to_le_bytes()).collect::<Vec<u8>>();
    let add =
        |name: &str, dtype: &str, bytes: Vec<u8>| columns.set_item(name, (dtype, PyBytes::new(py, &bytes)));
    add("arrival_ns", "<u8", words(|r| r.arrival_ns))?;
    add("start_ns", "<u8", words(|r| r.start_ns))?;
    add("completion_ns", "<u8", words(|r| r.completion_ns))?;
    add("lba", "<u8", words(|r| r.lba))?;
    add("sectors", "<u4", requests.iter().flat_map(|r| r.sectors.to_le_bytes()).collect())?;
    add("device", "<u2", requests.iter().flat_map(|r| r.device.to_le_bytes()).collect())?;
    add("is_write", "|b1", requests.iter().map(|r| r.op as u8).collect())?;
    Ok((columns, report_json(&report).to_string()))
}
