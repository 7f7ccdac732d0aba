//! Simulation of a trace on a described machine, figures, protocol tables.

use crate::errors;
use pyo3::prelude::*;
use servsim_machine::registry::{self, Entry};
use servsim_machine::sampling::{sample as run_windows, Paces, Store, Wish};
use servsim_machine::{
    simulate as run, simulate_each as run_each, NodeOptions, RunSpec, SimulateError, Stage, Start, TextFile,
    Transactions, Watch,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often signals are looked for; short, since it also delays the end of a quick run.
const POLL: Duration = Duration::from_millis(10);

/// Adds this part's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_each, module)?)?;
    module.add_function(wrap_pyfunction!(sample, module)?)?;
    module.add_function(wrap_pyfunction!(figure, module)?)?;
    module.add_function(wrap_pyfunction!(figures, module)?)?;
    module.add_function(wrap_pyfunction!(protocol_table, module)?)?;
    Ok(())
}

/// How many transactions a caller wants: a number, or `"all"`.
#[derive(FromPyObject)]
pub enum Wished {
    Number(u64),
    Word(String),
}

/// The transactions that a caller wants.
pub fn wished(transactions: Option<Wished>) -> PyResult<Transactions> {
    match transactions {
        None => Ok(Transactions::Chosen),
        Some(Wished::Number(number)) => Ok(Transactions::Number(number)),
        Some(Wished::Word(word)) if word == "all" => Ok(Transactions::All),
        Some(Wished::Word(word)) => Err(errors::usage(format!(
            "{word} transactions cannot be measured: give a number from 1, or `all`"
        ))),
    }
}

/// Runs a simulation; `progress` is called a few times a second with the references so far.
#[pyfunction]
#[pyo3(signature = (
    trace, machine, *, machine_file, trace_hash, findings=None, format=None, overrides=Vec::new(),
    engine="timing", transactions=None, warmup=None, replications=1, seed=1, threads=None, progress=None,
    functional_warmup=None, save_checkpoint=None, from_checkpoint=None, users=None, placement=None,
    monitor=None, references=None
))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // one Python function
fn simulate(
    py: Python<'_>,
    trace: PathBuf,
    machine: String,
    machine_file: String,
    trace_hash: String,
    findings: Option<PathBuf>,
    format: Option<String>,
    overrides: Vec<String>,
    engine: &str,
    transactions: Option<Wished>,
    warmup: Option<u64>,
    replications: u32,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
    functional_warmup: Option<String>,
    save_checkpoint: Option<PathBuf>,
    from_checkpoint: Option<PathBuf>,
    users: Option<u32>,
    placement: Option<(String, String)>,
    monitor: Option<(String, String)>,
    references: Option<u64>,
) -> PyResult<String> {
    let transactions = match (references, transactions) {
        (Some(_), Some(_)) => return Err(errors::usage(
            "--references and --transactions are two ways to say how much is measured: leave one of them out",
        )),
        (Some(number), None) => Transactions::References(number),
        (None, transactions) => wished(transactions)?,
    };
    let functional = match engine {
        "functional" => true,
        "timing" => false,
        other => {
            return Err(errors::usage(format!("unknown engine `{other}`: accepted are timing, functional")))
        }
    };
    // A functional run reads on one thread and simulates on another; shards, on more, cost more than they gain.
    let unasked = || if functional { all_cores().min(2) } else { all_cores() };
    let start = Start::of(functional_warmup.as_deref(), save_checkpoint, from_checkpoint).map_err(raised)?;
    let file = |(name, text)| TextFile { name, text };
    let request = RunSpec {
        trace,
        format,
        trace_hash,
        findings,
        machine,
        machine_file,
        overrides,
        functional,
        transactions,
        warmup,
        start,
        users,
        nodes: NodeOptions { placement: placement.map(file), monitor: monitor.map(file) },
        replications,
        seed,
        threads: threads.unwrap_or_else(unasked),
        watch: Arc::default(),
    };
    let watch = request.watch.clone();
    let work = move |proceed: &mut dyn FnMut(u64) -> bool| run(&request, proceed);
    let document = attended(py, &watch, work, referenced(progress.as_ref()))?;
    document.map(|document| document.to_string()).map_err(raised)
}

/// Runs a trace functionally on several machines in one pass: the described one with each of `variants`.
#[pyfunction]
#[pyo3(signature = (
    trace, machine, variants, *, machine_file, trace_hash, findings=None, format=None, overrides=Vec::new(), seed=1, progress=None,
    transactions=None, users=None, threads=None
))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // one Python function
fn simulate_each(
    py: Python<'_>,
    trace: PathBuf,
    machine: String,
    variants: Vec<Vec<String>>,
    machine_file: String,
    trace_hash: String,
    findings: Option<PathBuf>,
    format: Option<String>,
    overrides: Vec<String>,
    seed: u64,
    progress: Option<Py<PyAny>>,
    transactions: Option<Wished>,
    users: Option<u32>,
    threads: Option<usize>,
) -> PyResult<String> {
    let request = RunSpec {
        trace,
        format,
        trace_hash,
        findings,
        machine,
        machine_file,
        overrides,
        functional: true,
        transactions: wished(transactions)?,
        warmup: None,
        start: Start::Cold,
        users,
        nodes: NodeOptions::default(),
        replications: 1,
        seed,
        threads: threads.unwrap_or_else(all_cores),
        watch: Arc::default(),
    };
    let watch = request.watch.clone();
    let work = move |proceed: &mut dyn FnMut(u64) -> bool| run_each(&request, &variants, proceed);
    let document = attended(py, &watch, work, referenced(progress.as_ref()))?;
    document.map(|document| document.to_string()).map_err(raised)
}

/// What Python says of a coarse run: seed, jitter, and the paces of its groups.
type Asked = (u64, f64, BTreeMap<String, [f64; 2]>);

/// Times windows of a trace, from live-points in `file` or, if that is a folder, in a file there. `choose` is given
/// what is known as JSON and returns the numbers of the windows to time next, and the coarse runs to make then; nothing
/// ends it.
#[pyfunction]
#[pyo3(signature = (
    trace, machine, choose, file, *, is_folder, machine_file, trace_hash, findings=None, format=None, overrides=Vec::new(),
    transactions=None, warmup=None, users=None, seed=1, threads=None, progress=None
))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // one Python function
fn sample(
    py: Python<'_>,
    trace: PathBuf,
    machine: String,
    choose: Py<PyAny>,
    file: PathBuf,
    is_folder: bool,
    machine_file: String,
    trace_hash: String,
    findings: Option<PathBuf>,
    format: Option<String>,
    overrides: Vec<String>,
    transactions: Option<Wished>,
    warmup: Option<u64>,
    users: Option<u32>,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let request = RunSpec {
        trace,
        format,
        trace_hash,
        findings,
        machine,
        machine_file,
        overrides,
        functional: false,
        transactions: wished(transactions)?,
        warmup,
        start: Start::Cold,
        users,
        nodes: NodeOptions::default(),
        replications: 1,
        seed,
        threads: threads.unwrap_or_else(all_cores),
        watch: Arc::default(),
    };
    let store = if is_folder { Store::Folder(file) } else { Store::File(file) };
    let failed: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let told = failed.clone();
    let watch = request.watch.clone();
    let work = move |proceed: &mut dyn FnMut(u64) -> bool| {
        let mut chosen = |known: &serde_json::Value| {
            let asked: PyResult<(Vec<usize>, Vec<Asked>)> =
                Python::with_gil(|py| choose.call1(py, (known.to_string(),))?.extract(py));
            let (windows, coarse) = asked.map_err(|raised| {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised);
                SimulateError::Internal("the choice of windows failed".into())
            })?;
            let paces = |(seed, jitter, groups)| Paces { seed, jitter, groups };
            Ok(Wish { windows, coarse: coarse.into_iter().map(paces).collect() })
        };
        run_windows(&request, &store, &mut chosen, proceed)
    };
    let told = |py: Python<'_>, stage: Stage| match &progress {
        Some(call) => call.call1(py, (stage.what, stage.done, stage.of)).map(|_| ()),
        None => Ok(()),
    };
    let document = attended(py, &watch, work, told)?;
    let raised_by_choice = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (document, raised_by_choice) {
        (Err(_), Some(error)) => Err(error),
        (document, _) => document.map(|document| document.to_string()).map_err(raised),
    }
}

/// The host's cores.
fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The exception that an error becomes.
pub fn raised(error: SimulateError) -> PyErr {
    match error {
        SimulateError::Usage(message) => errors::usage(message),
        SimulateError::Environment(message) => errors::environment(message),
        SimulateError::Internal(message) => errors::internal(message),
        SimulateError::Interrupted => errors::internal("the simulation stopped unasked"),
    }
}

/// What tells Python the references so far: none of them while a trace is opened.
pub fn referenced(progress: Option<&Py<PyAny>>) -> impl Fn(Python<'_>, Stage) -> PyResult<()> + '_ {
    move |py, stage| {
        let references = if stage.what.is_empty() { stage.done } else { 0 };
        progress.map_or(Ok(()), |call| call.call1(py, (references,)).map(|_| ()))
    }
}

/// Works on another thread while this one looks for signals and reports progress, so that
/// Ctrl-C ends the command at once whatever the simulation is doing. What can still be kept then is waited for, until a
/// second Ctrl-C.
pub fn attended(
    py: Python<'_>,
    watch: &Arc<Watch>,
    work: impl FnOnce(&mut dyn FnMut(u64) -> bool) -> Result<serde_json::Value, SimulateError> + Send + 'static,
    told: impl Fn(Python<'_>, Stage) -> PyResult<()>,
) -> PyResult<Result<serde_json::Value, SimulateError>> {
    let working = watch.clone();
    let work = std::thread::spawn(move || work(&mut |done| working.tell(done)));
    let mut interrupted = None;
    while !work.is_finished() {
        py.allow_threads(|| std::thread::sleep(POLL));
        if let Err(raised) = py.check_signals() {
            watch.stop();
            interrupted = Some(raised);
        }
        if let (Err(raised), None) = (told(py, watch.stage()), &interrupted) {
            watch.stop();
            interrupted = Some(raised);
        }
    }
    let result = work.join().map_err(|_| errors::internal("the simulation ended without a result"));
    match (interrupted, result) {
        // Replications and windows that ended before the interruption are not lost.
        (Some(_), Ok(Ok(document))) if document["interrupted"] == true => Ok(Ok(document)),
        (Some(raised), _) => Err(raised),
        (None, result) => result,
    }
}

/// What the registry knows of every number of a result, as JSON.
#[pyfunction]
fn figures() -> String {
    registry::entries().iter().map(Entry::to_json).collect::<serde_json::Value>().to_string()
}

/// What the registry says of the number with this full path, as JSON; none for others.
#[pyfunction]
fn figure(path: &str) -> Option<String> {
    registry::entry(path).map(|found| found.to_json().to_string())
}

/// A protocol's table as Markdown, from the object that the simulator executes.
#[pyfunction]
fn protocol_table(name: &str) -> PyResult<String> {
    let options = servsim_mem::protocol::Options::default();
    servsim_mem::protocol::by_name(name, &options)
        .map(|table| table.to_markdown())
        .ok_or_else(|| errors::usage(format!("unknown protocol `{name}`")))
}
