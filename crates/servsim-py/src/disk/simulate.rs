//! Models run on the arrivals of a trace: once, or over a range of loads.

mod one_by_one;

use super::fit::read_models;
use super::run::model_for;
use super::source::{report_json, Source};
use super::written::Written;
use super::{interruptible, options, Fault, Outcome};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::json;
use servsim_disk::evaluate::figures;
use servsim_disk::importers::ImportReport;
use servsim_disk::metrics::percentiles::ByOperation;
use servsim_disk::metrics::{mean, quantile, sorted};
use servsim_disk::models::calibrate::most_in_tenth;
use servsim_disk::models::{DeviceModel, Model};
use servsim_disk::reorganize::BlockMap;
use servsim_disk::request::{into_devices, Request};
use servsim_disk::sets::array::MemberWork;
use servsim_disk::sets::layout::Layout;
use servsim_disk::sets::spec::SetSpec;
use servsim_disk::simulate::{check_load, closed_loop, closed_set, open_loop, responses_us, SetRun};
use servsim_disk::sweep::{sweep, Plan};

/// The model to run, and what stands in its way.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Using {
    model: String,
    seed: u64,
    map: Option<String>,
    sets: Vec<String>,
    allow_other_device: bool,
    allow_unskilled: bool,
}

/// What to simulate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SimulateRequest {
    using: Using,
    mode: String,
    load: f64,
    /// Whether arrivals and responses of all requests are to be handed back.
    #[serde(default = "yes")]
    times: bool,
    /// Where to write them as CSV.
    #[serde(default)]
    output: Option<String>,
}

fn yes() -> bool {
    true
}

/// What to sweep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepRequest {
    using: Using,
    loads: Vec<f64>,
    /// Runs at each load.
    runs: u64,
}

/// The set that stands for the device called `name`: its own, else the one without a name.
fn set_for<'a>(sets: &'a [SetSpec], name: &str) -> Option<&'a SetSpec> {
    let own = sets.iter().find(|set| set.device.as_deref() == Some(name));
    own.or_else(|| sets.iter().find(|set| set.device.is_none()))
}

/// Reads the sets, which must name devices of the trace.
fn parse_sets(texts: &[String], devices: &[String]) -> Outcome<Vec<SetSpec>> {
    let sets = texts.iter().map(|text| text.parse()).collect::<Result<Vec<SetSpec>, _>>()?;
    for name in sets.iter().filter_map(|set| set.device.as_ref()) {
        if !devices.contains(name) {
            let all = devices.join(", ");
            return Err(Fault::Usage(format!("a set is given for `{name}`, but the trace has {all}")));
        }
    }
    Ok(sets)
}

/// Share of time in use beyond which small errors of service times become large ones of waits: drives
/// with write buffers were predicted 8 to 15 % too fast there.
const NEAR_SATURATION: f64 = 0.85;

fn near_saturation(utilization: f64) -> Option<String> {
    (utilization > NEAR_SATURATION).then(|| {
        format!(
            "busy {:.0} %: near saturation an error of 1 % in service times is one of {:.0} % or more in waits, and drives \
             with write buffers have been predicted 8 to 15 % too fast",
            100.0 * utilization,
            (1.0 / (1.0 - utilization.min(0.99))).round()
        )
    })
}

/// Limits that a trace cannot have shown, because it was never so busy.
fn denser_than_seen(model: &DeviceModel, arrivals_ns: impl Iterator<Item = u64>) -> Option<String> {
    let Model::Parallel(parallel) = &model.model else { return None };
    let seen = parallel.seen_in_tenth;
    let most = most_in_tenth(arrivals_ns);
    (most > seen && parallel.throttle.is_none()).then(|| {
        format!(
            "up to {most} requests arrive within 0.1 s; at most {seen} did where the model was fitted: a limit of the host between \
             the two (requests or bytes a second) would not have shown"
        )
    })
}

fn of_another(model: &DeviceModel, name: &str) -> Option<String> {
    (model.training.is_some() && model.device != name).then(|| {
        format!(
            "the model is of `{}`, the only one in its file: right only if that is this device or one like it",
            model.device
        )
    })
}

fn knows_places(model: &DeviceModel) -> bool {
    matches!(&model.model, Model::Forest(forest) if forest.uses_place())
}

/// Figures of a set, times in ms, as of a single drive, and what each of its drives did.
fn set_figures(run: &SetRun, requests: &[Request], load: f64) -> serde_json::Value {
    let of_requests = responses_us(&run.services);
    let times = sorted(&of_requests);
    let span_ns = run.services.iter().map(|service| service.completion_ns).max().unwrap_or(1).max(1);
    let busy = |work: &MemberWork| work.busy_ns as f64 / span_ns as f64;
    let members: Vec<_> = run
        .members
        .iter()
        .map(|work| json!({"reads": work.reads, "writes": work.writes, "sectors": work.sectors, "utilization": busy(work)}))
        .collect();
    json!({
        "load": load,
        "simulated_mean_ms": mean(&times) * 1e-3,
        "simulated_p99_ms": quantile(&times, 0.99) * 1e-3,
        "utilization": run.members.iter().map(busy).sum::<f64>() / run.members.len() as f64,
        "by_operation": ByOperation::of(requests, &of_requests),
        "members": members,
    })
}

/// Runs a model on the requests of a trace. Returns a summary and, for each request in arrival order
/// (device by device), arrival and response in ns as little-endian bytes.
#[pyfunction]
pub(super) fn disk_simulate<'py>(
    py: Python<'py>,
    source: &str,
    request: &str,
) -> PyResult<(String, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (source, request): (Source, SimulateRequest) = (options(source)?, options(request)?);
    let (summary, arrivals, responses) = interruptible(py, move || simulate_all(&source, &request))?;
    let bytes = |words: &[u64]| {
        PyBytes::new_with(py, 8 * words.len(), |bytes| {
            bytes
                .chunks_exact_mut(8)
                .zip(words)
                .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
            Ok(())
        })
    };
    Ok((summary, bytes(&arrivals)?, bytes(&responses)?))
}

/// One device of a trace, and the model to run on it.
struct Prepared {
    name: String,
    model: DeviceModel,
    set: Option<Layout>,
    /// Its requests, moved if there is a map.
    part: Vec<Request>,
    warnings: Vec<String>,
}

impl Using {
    fn map(&self) -> Outcome<Option<BlockMap>> {
        let Some(path) = &self.map else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| {
            Fault::Usage(format!(
                "cannot read {path}: {error}; name a map that `servsim disk reorganize` wrote"
            ))
        })?;
        Ok(Some(BlockMap::from_text(&text)?))
    }

    /// Finds a model for each device of `source`.
    fn prepare(&self, source: &Source) -> Outcome<(Vec<Prepared>, ImportReport)> {
        let (requests, report) = source.load()?;
        let models = read_models(&self.model)?;
        let map = self.map()?;
        let sets = parse_sets(&self.sets, &report.devices)?;
        let mut prepared = Vec::new();
        for (device, mut part) in into_devices(requests) {
            let name = &report.devices[usize::from(device)];
            let set = set_for(&sets, name);
            // The trace of a set's requests says nothing of the class of its drives.
            let any_class = self.allow_other_device || set.is_some() || report.arrivals_only;
            let model = model_for(&models, name, &report.devices, &part, any_class)?;
            if !self.allow_unskilled {
                model.check_worth()?;
            }
            let mut warnings = Vec::new();
            warnings.extend(of_another(&model, name));
            if let Some(map) = &map {
                part = map.apply(&part);
                if knows_places(&model) {
                    warnings.push("the model knows blocks by their place, which a map changes: ask `disk reorganize` for the change, without --model-file".to_owned());
                }
            }
            prepared.push(Prepared {
                name: name.clone(),
                model,
                set: set.map(|set| set.layout),
                part,
                warnings,
            });
        }
        Ok((prepared, report))
    }
}

/// The summary, and of each request the arrival and the response, ns.
type Simulated = (String, Vec<u64>, Vec<u64>);

fn simulate_all(source: &Source, request: &SimulateRequest) -> Outcome<Simulated> {
    let (using, seed) = (&request.using, request.using.seed);
    if !using.sets.is_empty() && request.mode != "closed" {
        return Err(Fault::Usage(
            "a set has a queue of its own: leave --mode out, or write --mode closed".to_owned(),
        ));
    }
    let mut written = request.output.as_deref().map(Written::create).transpose()?;
    if written.as_ref().is_none_or(Written::can_be_undone) {
        if let Some(done) = one_by_one::simulate(source, request, written.as_mut())? {
            written.map_or(Ok(()), Written::commit)?;
            return Ok(done);
        }
        written = written.map(Written::again).transpose()?;
    }
    let (prepared, report) = using.prepare(&source.arrivals_only(request.mode == "closed"))?;
    let is_named = prepared.len() > 1;
    if let Some(written) = &mut written {
        written.heading(is_named);
    }
    let (mut arrivals, mut responses, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    for Prepared { name, model, set, part, mut warnings } in prepared {
        let told = match (request.mode.as_str(), set) {
            ("closed", Some(layout)) => {
                let run = closed_set(&model, layout, &part, request.load, seed)?;
                arrivals.extend(run.services.iter().map(|service| service.arrival_ns));
                responses
                    .extend(run.services.iter().map(|service| service.completion_ns - service.arrival_ns));
                let told = set_figures(&run, &part, request.load);
                let members = told["members"].as_array().into_iter().flatten();
                let busiest = members.filter_map(|member| member["utilization"].as_f64()).fold(0.0, f64::max);
                warnings.extend(near_saturation(busiest));
                told
            }
            ("closed", None) => {
                if !using.allow_unskilled {
                    check_load(&model, &part, request.load, seed)?;
                }
                let run = [closed_loop(&model, &part, request.load, seed)?];
                let [services] = &run;
                warnings.extend(denser_than_seen(&model, services.iter().map(|service| service.arrival_ns)));
                arrivals.extend(services.iter().map(|service| service.arrival_ns));
                responses.extend(services.iter().map(|service| service.completion_ns - service.arrival_ns));
                let told = figures(&model, request.load, &run, None);
                warnings.extend(near_saturation(told.utilization));
                let mut told = json!(told);
                told["by_operation"] = json!(ByOperation::of(&part, &responses_us(services)));
                told
            }
            ("open", _) => {
                let simulated = open_loop(&model, &part, seed);
                let mean = simulated.iter().map(|ns| *ns as f64 * 1e-6).sum::<f64>() / simulated.len() as f64;
                arrivals.extend(part.iter().map(|r| r.arrival_ns));
                responses.extend(simulated);
                json!({"load": 1.0, "simulated_mean_ms": mean})
            }
            (other, _) => {
                return Err(Fault::Usage(format!("no mode is called `{other}`; accepted: open, closed")))
            }
        };
        if let Some(written) = &mut written {
            if is_named {
                written.device(&name);
            }
            let served = arrivals.len() - part.len();
            let times = arrivals[served..].iter().zip(&responses[served..]);
            times.for_each(|(arrival_ns, response_ns)| written.push(*arrival_ns, *response_ns));
        }
        if !request.times {
            (arrivals, responses) = (Vec::new(), Vec::new());
        }
        devices.push(json!({"device": name, "requests": part.len(), "figures": told, "warnings": warnings}));
    }
    written.map_or(Ok(()), Written::commit)?;
    Ok((summary(request, &report, &devices), arrivals, responses))
}

fn summary(request: &SimulateRequest, report: &ImportReport, devices: &[serde_json::Value]) -> String {
    let using = &request.using;
    json!({"schema": "servsim.disk.simulate/1", "mode": request.mode, "seed": using.seed, "remapped": using.map, "sets": using.sets, "import": report_json(report), "devices": devices}).to_string()
}

/// Runs a model on the requests of a trace at each of several loads. Returns JSON.
#[pyfunction]
pub(super) fn disk_sweep(py: Python<'_>, source: &str, request: &str) -> PyResult<String> {
    let (source, request): (Source, SweepRequest) = (options(source)?, options(request)?);
    interruptible(py, move || {
        let using = &request.using;
        let (prepared, report) = using.prepare(&source.arrivals_only(true))?;
        let mut devices = Vec::new();
        for Prepared { name, model, set, part, mut warnings } in prepared {
            let plan = Plan {
                loads: &request.loads,
                seed: using.seed,
                runs: request.runs,
                set,
                allow_unskilled: using.allow_unskilled,
            };
            let swept = sweep(&model, &part, &plan)?;
            let near = swept
                .points
                .iter()
                .find_map(|point| Some((point.load, near_saturation(point.figures.as_ref()?.utilization)?)));
            let densest = request.loads.last().copied().unwrap_or(1.0);
            let arrivals = part.iter().map(|request| (request.arrival_ns as f64 / densest) as u64);
            warnings.extend(
                denser_than_seen(&model, arrivals).map(|said| format!("at load x{densest:.3}: {said}")),
            );
            warnings.extend(near.map(|(load, said)| format!("from load x{load:.3} on: {said}")));
            devices.push(json!({"device": name, "model": model.model.kind(), "requests": part.len(), "sweep": swept, "warnings": warnings}));
        }
        Ok(json!({"schema": "servsim.disk.sweep/1", "seed": using.seed, "remapped": using.map, "sets": using.sets, "import": report_json(&report), "devices": devices}).to_string())
    })
}
