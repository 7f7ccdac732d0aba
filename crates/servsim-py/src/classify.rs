//! Which data miss, and why.

use crate::simulate;
use pyo3::prelude::*;
use servsim_machine::classify::{classify as run, named, Grouping, Question, Symbols, ORDERS};
use servsim_machine::{NodeOptions, RunSpec, SimulateError};
use std::path::PathBuf;
use std::sync::Arc;

/// Adds this part's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(classify, module)?)
}

/// Classifies misses and coherence transactions, or watches one line.
#[pyfunction]
#[pyo3(signature = (
    trace, machine, *, machine_file, trace_hash, findings=None, format=None, overrides=Vec::new(), by=None,
    order="total", top=20, watch=None, symbols=None, symbols_file="symbols", transactions=None, warmup=None,
    progress=None
))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // one Python function
fn classify(
    py: Python<'_>,
    trace: PathBuf,
    machine: String,
    machine_file: String,
    trace_hash: String,
    findings: Option<PathBuf>,
    format: Option<String>,
    overrides: Vec<String>,
    by: Option<&str>,
    order: &str,
    top: usize,
    watch: Option<u64>,
    symbols: Option<&str>,
    symbols_file: &str,
    transactions: Option<simulate::Wished>,
    warmup: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let question = Question {
        by: by.map(Grouping::named).transpose().map_err(simulate::raised)?,
        order: named(&ORDERS, "--sort", order).map_err(simulate::raised)?,
        top,
        watch,
        symbols: symbols
            .map(|text| Symbols::parse(text, symbols_file).map_err(SimulateError::Usage))
            .transpose()
            .map_err(simulate::raised)?,
    };
    let request = RunSpec {
        trace,
        format,
        trace_hash,
        findings,
        machine,
        machine_file,
        overrides,
        functional: true,
        transactions: simulate::wished(transactions)?,
        warmup,
        start: servsim_machine::Start::Cold,
        users: None,
        nodes: NodeOptions::default(),
        replications: 1,
        seed: 1,
        threads: 1,
        watch: Arc::default(),
    };
    let watch = request.watch.clone();
    let work = move |proceed: &mut dyn FnMut(u64) -> bool| run(&request, &question, proceed);
    let document = simulate::attended(py, &watch, work, simulate::referenced(progress.as_ref()))?;
    document.map(|document| document.to_string()).map_err(simulate::raised)
}
