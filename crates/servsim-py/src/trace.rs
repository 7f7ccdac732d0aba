//! Bindings of `servsim-trace`: what a trace holds, and traces made from traces.

use crate::errors::{environment, unwritable, usage};
use crate::interrupt::interruptible;
use crate::simulate::{attended, raised, referenced};
use pyo3::prelude::*;
use serde_json::json;
use servsim_import::export::{export, target_of, ExportError, Only, TARGETS};
use servsim_import::footprint::{footprints, Footprint};
use servsim_import::{captured, open_in_order, TraceFile, FORMATS};
use servsim_machine::SimulateError;
use servsim_trace::{Meta, Selection, TraceError, TraceReader, WriterTotals};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A trace that cannot be read is the user's input; a refusing operating system is the environment,
/// unless the file simply is not there.
fn raise(error: &TraceError) -> PyErr {
    match error {
        TraceError::Io { source, .. } if source.kind() != std::io::ErrorKind::NotFound => {
            environment(error.to_string())
        }
        TraceError::Write(error) => unwritable(error),
        _ => usage(error.to_string()),
    }
}

fn open(path: &Path) -> Result<Arc<TraceReader>, TraceError> {
    TraceReader::open(path).map(Arc::new)
}

/// Runs `work` off the interpreter's thread and turns its result into JSON text.
fn answer(
    py: Python<'_>,
    work: impl FnOnce() -> Result<serde_json::Value, TraceError> + Send + 'static,
) -> PyResult<String> {
    interruptible(py, work)?.map(|value| value.to_string()).map_err(|error| raise(&error))
}

fn totals_json(totals: &WriterTotals) -> serde_json::Value {
    json!({
        "counts": totals.counts,
        "data_references": totals.counts.data_references(),
        "instructions": totals.counts.instructions(),
        "transactions": totals.transactions,
        "file_bytes": totals.file_bytes,
        "epochs": totals.epochs,
    })
}

/// What the tables of a trace say, without walking it.
#[pyfunction]
fn trace_info(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    answer(py, move || {
        let reader = open(&path)?;
        // The symbols are megabytes of text that nobody reads here.
        let symbols = reader.meta().kernel_symbols.lines().count();
        let shared = reader.meta().shared_data.lines().count().saturating_sub(1);
        let named = reader.meta().files.lines().filter_map(|line| line.split(' ').nth(4));
        let relations: std::collections::BTreeSet<&str> = named.collect();
        let none = String::new;
        let meta =
            Meta { kernel_symbols: none(), shared_data: none(), files: none(), ..reader.meta().clone() };
        Ok(json!({
            "schema": "servsim.trace.info/1",
            "path": path.display().to_string(),
            "meta": meta,
            "kernel_symbols": symbols,
            "shared_data_ranges": shared,
            "relations": relations,
            "file_bytes": reader.file_bytes(),
            "truncated": reader.truncated(),
            "epochs": reader.epoch_count(),
            "block_shapes": reader.dictionary().len(),
            "tasks": reader.tasks(),
            "totals": reader.totals().map(totals_json),
        }))
    })
}

/// Figures found by walking the whole trace.
#[pyfunction]
fn trace_stats(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    answer(py, move || {
        let reader = open(&path)?;
        let statistics = servsim_trace::statistics(&reader)?;
        Ok(json!({
            "schema": "servsim.trace.stats/1",
            "path": path.display().to_string(),
            "truncated": reader.truncated(),
            "file_bytes": reader.file_bytes(),
            "statistics": statistics,
        }))
    })
}

/// Everything that is wrong with a trace.
#[pyfunction]
fn trace_check(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    answer(py, move || {
        let report = servsim_trace::check(&path)?;
        let mut document = json!({"schema": "servsim.trace.check/1", "path": path.display().to_string()});
        if let (Some(document), Ok(serde_json::Value::Object(report))) =
            (document.as_object_mut(), serde_json::to_value(&report))
        {
            document.extend(report);
        }
        Ok(document)
    })
}

/// Per group of tasks: its references, and the blocks of `line` bytes that they touch; `progress` is called a few times a second with
/// the references so far.
#[pyfunction]
#[pyo3(signature = (path, line, groups, progress=None))]
#[allow(clippy::needless_pass_by_value)] // Python gives it
fn trace_footprints(
    py: Python<'_>,
    path: PathBuf,
    line: u64,
    groups: Vec<Vec<usize>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let of = |f: &Footprint| {
        json!({
            "fetches": f.fetches,
            "loads": f.loads,
            "stores": f.stores,
            "blocks": f.blocks,
            "shared_blocks": f.shared_blocks,
            "shared_accesses": f.shared_accesses,
            "shared_stores": f.shared_stores,
        })
    };
    let work = move |goes_on: &mut dyn FnMut(u64) -> bool| {
        open_in_order(&TraceFile::new(&path, None), 1, false)
            .and_then(|mut source| footprints(source.as_mut(), line.max(1), &groups, goes_on))
            .map(|found| found.iter().map(of).collect())
            .map_err(|error| SimulateError::Usage(error.to_string()))
    };
    attended(py, &Arc::default(), work, referenced(progress.as_ref()))?
        .map(|found| found.to_string())
        .map_err(raised)
}

/// Half-open ranges from Python, in transactions and nanoseconds.
type Range = Option<(u64, u64)>;

#[pyfunction]
#[pyo3(signature = (path, output, transactions=None, time_ns=None, pids=None, load=Vec::new(), references=None))]
#[allow(clippy::too_many_arguments)] // one Python function
fn trace_cut(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    transactions: Range,
    time_ns: Range,
    pids: Option<Vec<u32>>,
    load: Vec<String>,
    references: Option<u64>,
) -> PyResult<String> {
    let range = |range: Range| range.map(|(start, end)| start..end);
    let selection = Selection {
        transactions: range(transactions),
        time_ns: range(time_ns),
        references,
        pids,
        windows: None,
        load,
    };
    answer(py, move || {
        servsim_trace::cut(&open(&path)?, &output, &selection).map(|totals| totals_json(&totals))
    })
}

#[pyfunction]
fn trace_sample(py: Python<'_>, path: PathBuf, output: PathBuf, keep: u64, of: u64) -> PyResult<String> {
    answer(py, move || {
        servsim_trace::sample(&open(&path)?, &output, keep, of).map(|totals| totals_json(&totals))
    })
}

#[pyfunction]
fn trace_merge(py: Python<'_>, paths: Vec<PathBuf>, output: PathBuf) -> PyResult<String> {
    if paths.is_empty() {
        return Err(usage("name at least one trace to merge"));
    }
    answer(py, move || {
        let readers = paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
        servsim_trace::merge(&readers, &output).map(|totals| totals_json(&totals))
    })
}

/// Gives a trace what it says of its programs' shared memory.
#[pyfunction]
fn trace_describe_shared_data(py: Python<'_>, path: PathBuf, text: String) -> PyResult<()> {
    let done = interruptible(py, move || servsim_trace::annotate(&path, |meta| meta.shared_data = text))?;
    done.map_err(|error| raise(&error))
}

/// Every readable format: extensions, what it holds and lacks, whether it is written.
#[pyfunction]
fn trace_formats() -> String {
    let own = json!({
        "name": captured::NAME,
        "extensions": [captured::EXTENSION],
        "about": "servsim's captured traces, docs/parts/capture.md",
        "holds": "all that a capture sees: references of tasks, kernel mode, blocks, wake-ups, disk requests, transactions",
        "lacks": "nothing that is simulated; other formats cannot be turned into it",
        "written": false,
    });
    let foreign = FORMATS.iter().map(|format| {
        json!({
            "name": format.name,
            "extensions": format.extensions,
            "about": format.about,
            "holds": format.holds,
            "lacks": format.lacks,
            "written": TARGETS.iter().any(|target| target.name == format.name),
        })
    });
    let compressions = servsim_import::input::EXTENSIONS;
    let formats: Vec<_> = std::iter::once(own).chain(foreign).collect();
    json!({"schema": "servsim.trace.formats/1", "formats": formats, "compressions": compressions}).to_string()
}

/// Writes any readable trace in a foreign format; `only` is `all`, `fetch` or `data`.
#[pyfunction]
#[pyo3(signature = (path, output, target, source=None, only="all", processors=1))]
fn trace_export(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    target: &str,
    source: Option<String>,
    only: &str,
    processors: usize,
) -> PyResult<String> {
    let only = match only {
        "all" => Only::All,
        "fetch" => Only::Fetch,
        "data" => Only::Data,
        other => return Err(usage(format!("--only {other}: accepted are all, fetch, data"))),
    };
    let target = target_of(target).map_err(|error| usage(error.0))?;
    let done = interruptible(py, move || {
        let mut trace = open_in_order(&TraceFile::new(&path, source.as_deref()), processors, false)?;
        export(trace.as_mut(), target, only, processors, &output)
    })?;
    let done = done.map_err(|error| match error {
        ExportError::Source(error) => usage(error.0),
        ExportError::Write(error) => unwritable(&error),
    })?;
    Ok(json!({
        "schema": "servsim.trace.export/1",
        "references": done.references,
        "file_bytes": done.bytes,
        "lost": done.lost,
        "notes": done.notes,
    })
    .to_string())
}

/// Adds this part's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(trace_stats, module)?)?;
    module.add_function(wrap_pyfunction!(trace_check, module)?)?;
    module.add_function(wrap_pyfunction!(trace_footprints, module)?)?;
    module.add_function(wrap_pyfunction!(trace_cut, module)?)?;
    module.add_function(wrap_pyfunction!(trace_sample, module)?)?;
    module.add_function(wrap_pyfunction!(trace_merge, module)?)?;
    module.add_function(wrap_pyfunction!(trace_describe_shared_data, module)?)?;
    module.add_function(wrap_pyfunction!(trace_formats, module)?)?;
    module.add_function(wrap_pyfunction!(trace_export, module)?)
}
