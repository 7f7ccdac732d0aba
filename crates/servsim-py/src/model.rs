//! Bindings of the queueing-network models. A model crosses as text (TOML, or JSON in seconds), an
//! answer as JSON; only the sweep over many small models takes plain arrays.

use crate::errors;
use crate::interrupt::{interruptible, watched};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use servsim_model::fit::kalman::Noise;
use servsim_model::sim::{Plan, Watch};
use servsim_model::solve::solve_quickly;
use servsim_model::solvers::{bounds::bounds, mva, Options, SOLVERS};
use servsim_model::text::{describe, read_allocation, read_measurements, read_network, Problems};
use servsim_model::{allocation, fit, sensitivity, solve, whatif, Load, ModelError, Network, Tolerance};
use std::sync::Arc;

/// Adds the functions of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(model_solvers, module)?)?;
    module.add_function(wrap_pyfunction!(model_describe, module)?)?;
    module.add_function(wrap_pyfunction!(model_solve, module)?)?;
    module.add_function(wrap_pyfunction!(model_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(model_curve, module)?)?;
    module.add_function(wrap_pyfunction!(model_sensitivity, module)?)?;
    module.add_function(wrap_pyfunction!(model_what_if, module)?)?;
    module.add_function(wrap_pyfunction!(model_allocate, module)?)?;
    module.add_function(wrap_pyfunction!(model_fit, module)?)?;
    module.add_function(wrap_pyfunction!(model_sweep, module)?)?;
    Ok(())
}

/// What Python may ask of a solver; absent fields keep their defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Asked {
    solver: Option<String>,
    percentiles: Option<Vec<f64>>,
    tolerance: Option<f64>,
    max_iterations: Option<usize>,
    replications: Option<usize>,
    requests: Option<f64>,
    warmup: Option<f64>,
    seed: Option<u64>,
    half_width: Option<f64>,
}

impl Asked {
    fn parse(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map_err(|error| errors::usage(format!("solver options: {error}")))
    }

    fn solver(&self) -> String {
        self.solver.clone().unwrap_or_else(|| "auto".into())
    }

    fn options(&self) -> Options {
        let defaults = Options::default();
        let tolerance = Tolerance {
            residual: self.tolerance.unwrap_or(defaults.tolerance.residual),
            iterations: self.max_iterations.unwrap_or(defaults.tolerance.iterations),
            ..defaults.tolerance
        };
        let plan = &defaults.simulation;
        let simulation = Plan {
            replications: self.replications.unwrap_or(plan.replications),
            requests: self.requests.unwrap_or(plan.requests),
            warmup: self.warmup.unwrap_or(plan.warmup),
            seed: self.seed.unwrap_or(plan.seed),
            half_width: self.half_width,
            ..Plan::default()
        };
        let percentiles = self.percentiles.clone().unwrap_or_default();
        Options { tolerance, percentiles, simulation, ..defaults }
    }
}

/// Bad input is wrong usage; an answer withheld is a failed check.
fn refused(error: &ModelError) -> PyErr {
    match error {
        ModelError::NotConverged { .. } | ModelError::Numerical { .. } => {
            errors::check_failed(error.to_string())
        }
        ModelError::Unstable { .. } | ModelError::Saturated { .. } => errors::saturated(error.to_string()),
        _ => errors::usage(error.to_string()),
    }
}

fn unreadable(problems: &Problems) -> PyErr {
    errors::usage(problems.to_string())
}

fn text_of(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| errors::internal(error.to_string()))
}

/// Runs `work` without the interpreter lock, abandoned on Ctrl-C, and turns its answer into JSON.
fn run<T: Serialize + Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, ModelError> + Send + 'static,
) -> PyResult<String> {
    let answer = interruptible(py, work)?.map_err(|error| refused(&error))?;
    text_of(&answer)
}

/// The same for work that may simulate: Ctrl-C ends that, too, also where the process goes on, and `progress` is called
/// with requests per replication and the share done of what is simulated.
fn solving<T: Serialize + Send + 'static>(
    py: Python<'_>,
    options: &Options,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Options) -> Result<T, ModelError> + Send + 'static,
) -> PyResult<String> {
    let watch = Arc::new(Watch::default());
    let mut options = options.clone();
    options.simulation.watch = Some(Arc::clone(&watch));
    let look = |_: Python<'_>| match (progress, watch.look()) {
        (Some(progress), Some(far)) => progress.call1(far).map(drop),
        _ => Ok(()),
    };
    let answer = watched(py, move || work(&options), look).inspect_err(|_| watch.stop())?;
    text_of(&answer.map_err(|error| refused(&error))?)
}

fn network(text: &str, is_json: bool) -> PyResult<Network> {
    read_network(text, is_json).map(|model| model.network).map_err(|problems| unreadable(&problems))
}

#[pyfunction]
fn model_solvers() -> PyResult<String> {
    let entry = |s: &servsim_model::solvers::Solver| json!({"name": s.name, "summary": s.summary, "nature": s.nature.name()});
    text_of(&SOLVERS.iter().map(entry).collect::<Vec<_>>())
}

#[pyfunction]
fn model_describe(text: &str, is_json: bool) -> PyResult<String> {
    network(text, is_json).and_then(|network| text_of(&describe(&network)))
}

/// Solves a model; `progress` takes requests per replication and the share done of what is simulated.
#[pyfunction]
#[pyo3(signature = (text, is_json, options, progress=None))]
fn model_solve(
    py: Python<'_>,
    text: &str,
    is_json: bool,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let asked = Asked::parse(options)?;
    let network = network(text, is_json)?;
    solving(py, &asked.options(), progress, move |options| solve(&network, &asked.solver(), options))
}

#[pyfunction]
fn model_bounds(py: Python<'_>, text: &str, is_json: bool) -> PyResult<String> {
    let network = network(text, is_json)?;
    run(py, move || bounds(&network))
}

/// One point of a curve over population.
#[derive(Serialize)]
struct Point {
    population: usize,
    throughput: f64,
    response: f64,
    low: Option<f64>,
    high: Option<f64>,
    solver: String,
}

#[pyfunction]
fn model_curve(
    py: Python<'_>,
    text: &str,
    is_json: bool,
    options: &str,
    populations: Vec<usize>,
) -> PyResult<String> {
    let mut asked = Asked::parse(options)?;
    asked.percentiles = Some(Vec::new());
    let network = network(text, is_json)?;
    solving(py, &asked.options(), None, move |options| {
        let solver = asked.solver();
        populations.iter().map(|&n| point(&network, n, &solver, options)).collect::<Result<Vec<_>, _>>()
    })
}

fn point(network: &Network, population: usize, solver: &str, options: &Options) -> Result<Point, ModelError> {
    let mut network = network.clone();
    let total = network.population() as f64;
    let closed = network.closed();
    if closed.is_empty() || total == 0.0 {
        return Err(ModelError::invalid(
            "a curve over population needs a closed class with customers, whose proportions it keeps",
            "give a class a population of at least 1",
        ));
    }
    for c in closed {
        if let Load::Closed { population: n, .. } = &mut network.classes[c].load {
            *n = (*n as f64 / total * population as f64).round() as usize;
        }
    }
    let solution = solve_quickly(&network, solver, options)?;
    let range = bounds(&network).ok().filter(|b| b.len() == 1).map(|b| {
        let balanced = b[0].balanced.unwrap_or(b[0].throughput);
        (b[0].throughput.low.max(balanced.low), b[0].throughput.high.min(balanced.high))
    });
    Ok(Point {
        population,
        throughput: solution.throughput(),
        response: solution.response(),
        low: range.map(|r| r.0),
        high: range.map(|r| r.1),
        solver: solution.solver,
    })
}

#[pyfunction]
fn model_sensitivity(py: Python<'_>, text: &str, is_json: bool, options: &str) -> PyResult<String> {
    let asked = Asked::parse(options)?;
    let network = network(text, is_json)?;
    run(py, move || sensitivity::sensitivity(&network, &asked.options().tolerance))
}

#[pyfunction]
fn model_what_if(py: Python<'_>, text: &str, is_json: bool, options: &str) -> PyResult<String> {
    let asked = Asked::parse(options)?;
    let model = read_network(text, is_json).map_err(|problems| unreadable(&problems))?;
    solving(py, &asked.options(), None, move |options| {
        whatif::rank(&model.network, &model.what_ifs, &asked.solver(), options)
    })
}

#[pyfunction]
fn model_allocate(py: Python<'_>, text: &str, is_json: bool) -> PyResult<String> {
    let (problem, comparisons) = read_allocation(text, is_json).map_err(|problems| unreadable(&problems))?;
    run(py, move || {
        let best = allocation::allocate(&problem)?;
        let compared = comparisons
            .iter()
            .map(|c| {
                let throughput = allocation::evaluate(&problem, &c.disk_of)?;
                let loss = 1.0 - throughput / best.throughput;
                Ok(json!({"name": c.name, "throughput": throughput, "below_best": loss}))
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        let tables: Vec<&String> = problem.tables.iter().map(|t| &t.name).collect();
        Ok(json!({"best": best, "tables": tables, "compared": compared}))
    })
}

#[pyfunction]
fn model_fit(
    py: Python<'_>,
    text: &str,
    is_json: bool,
    method: String,
    drift: f64,
    measurement: f64,
) -> PyResult<String> {
    let measurements = read_measurements(text, is_json).map_err(|problems| unreadable(&problems))?;
    run(py, move || fit::fit(&measurements, &method, &Noise { drift, measurement }))
}

/// Throughputs of many one-class networks of single servers; model `i` owns `demands[i]`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn model_sweep(
    py: Python<'_>,
    demands: Vec<Vec<f64>>,
    think: Vec<f64>,
    population: Vec<usize>,
) -> PyResult<Vec<f64>> {
    if demands.len() != think.len() || demands.len() != population.len() {
        return Err(errors::usage(
            "demands, think times and populations differ in length; give one each per model",
        ));
    }
    let bad = |d: &f64| !d.is_finite() || *d < 0.0;
    for (i, row) in demands.iter().enumerate() {
        if row.iter().any(bad) || bad(&think[i]) || row.iter().sum::<f64>() + think[i] <= 0.0 {
            return Err(errors::usage(format!(
                "model {i}: demands and think time must be zero or more and not all zero; give seconds"
            )));
        }
    }
    Ok(py.allow_threads(|| {
        let mut queue = Vec::new();
        let one = |(row, (&z, &n)): (&Vec<f64>, (&f64, &usize))| {
            queue.clear();
            queue.resize(row.len(), 0.0);
            mva::recursion(row, z, n, &mut queue, |_, _| ())
        };
        demands.iter().zip(think.iter().zip(&population)).map(one).collect()
    }))
}
