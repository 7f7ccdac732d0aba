//! Models at work: judged, simulated, used to plan a reorganisation.

use super::fit::{read_models, shipped, FitRequest, Skipped};
use super::source::{report_json, Source};
use super::{interruptible, options, Fault, Outcome};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::json;
use servsim_disk::evaluate::{at_load, evaluate, Split};
use servsim_disk::metrics::{mean, quantile, sorted};
use servsim_disk::models::calibrate::most_in_tenth;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::{kind, DeviceModel, Model};
use servsim_disk::reorganize::{covered, plan, predict, BlockMap, Policy};
use servsim_disk::request::{by_device, Op, Request};
use servsim_disk::server::infer::infer;
use servsim_disk::server::station::Started;
use servsim_disk::sets::array::MemberWork;
use servsim_disk::sets::spec::SetSpec;
use servsim_disk::simulate::{check_load, closed_loop, closed_set, open_loop, responses_us, SetRun};

/// Device, policy and text of a map.
type DeviceMap = (String, String, String);

/// What to judge a model by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvaluateRequest {
    fit: FitRequest,
    model: Option<String>,
    loads: Vec<f64>,
    truths: Vec<(f64, Source)>,
    allow_other_device: bool,
}

/// The model of a file for the device called `name` among `devices`: the one of that name, or the only one.
fn model_for(
    models: &[DeviceModel],
    name: &str,
    devices: &[String],
    requests: &[Request],
    allow_other: bool,
) -> Outcome<DeviceModel> {
    let same_name = models.iter().find(|model| model.device == name);
    let model = same_name.or(if models.len() == 1 { models.first() } else { None }).ok_or_else(|| {
        let names: Vec<&str> = models.iter().map(|model| model.device.as_str()).collect();
        Fault::Usage(format!("the model file has no device `{name}`; it has {}", names.join(", ")))
    })?;
    if same_name.is_none() && devices.len() > 1 && model.training.is_some() && !allow_other {
        return Err(Fault::Usage(format!(
            "the model file knows `{}` alone, and the trace has {}: keep one with --device, fit a model of all, or pass --allow-other-device to take it for `{name}` too",
            model.device,
            devices.join(", ")
        )));
    }
    if !allow_other {
        model.check_class(&infer(requests))?;
    }
    Ok(model.clone())
}

/// Evaluates a model file, or a model fitted to the first part of the trace, device by device.
#[pyfunction]
pub(super) fn disk_evaluate(py: Python<'_>, source: &str, request: &str) -> PyResult<String> {
    let (source, request): (Source, EvaluateRequest) = (options(source)?, options(request)?);
    interruptible(py, move || {
        request.fit.check()?;
        let fit_options = request.fit.options()?;
        let (requests, report) = source.load()?;
        let models = request.model.as_deref().map(read_models).transpose()?;
        let mut truths = Vec::new();
        for (load, source) in &request.truths {
            truths.push((*load, by_device(&source.load()?.0)));
        }
        let (mut evaluations, mut skipped) = (Vec::new(), Skipped::default());
        for (device, part) in by_device(&requests) {
            let name = &report.devices[usize::from(device)];
            let cut = request.fit.cut(part.len());
            let model = match &models {
                Some(models) => model_for(models, name, &report.devices, &part, request.allow_other_device)?,
                None if kind(&request.fit.kind)?.fitted => {
                    let made = fit(&request.fit.kind, &part[..cut], &report.devices, &fit_options);
                    let Some(mut made) = skipped.keep(name, made)? else { continue };
                    made.remove(0)
                }
                None => shipped(&request.fit, fit_options.discipline)?,
            };
            let mut loads: Vec<(f64, Option<&[Request]>)> =
                request.loads.iter().map(|&load| (load, None)).collect();
            for (load, parts) in &truths {
                let truth =
                    parts.iter().find(|(other, _)| *other == device).map(|(_, truth)| truth.as_slice());
                loads.push((*load, truth));
            }
            let judged = evaluate(&model, &part, Split { cut }, &loads, request.fit.seed);
            let Some(evaluation) = skipped.keep(name, judged)? else { continue };
            let mut value = json!(evaluation);
            value["server"] = json!(model.server);
            value["inference"] = json!(model.inference);
            evaluations.push(value);
        }
        skipped.unless_all(evaluations.len())?;
        Ok(json!({"schema": "servsim.disk.evaluate/1", "import": report_json(&report), "train": request.fit.train, "devices": evaluations, "skipped": skipped.json()})
            .to_string())
    })
}

/// What to simulate.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SimulateRequest {
    model: String,
    mode: String,
    load: f64,
    seed: u64,
    map: Option<String>,
    #[serde(default)]
    sets: Vec<String>,
    allow_other_device: bool,
    #[serde(default)]
    allow_unskilled: bool,
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
fn denser_than_seen(model: &DeviceModel, services: &[Started]) -> Option<String> {
    let Model::Parallel(parallel) = &model.model else { return None };
    let seen = parallel.seen_in_tenth;
    let most = most_in_tenth(services.iter().map(|service| service.arrival_ns));
    (most > seen && parallel.throttle.is_none()).then(|| {
        format!(
            "up to {most} requests arrive within 0.1 s; at most {seen} did where the model was fitted: a limit of the host between \
             the two (requests or bytes a second) would not have shown"
        )
    })
}

/// Mean and percentiles of the responses of reads and of writes, ms.
fn by_operation(requests: &[Request], services: &[Started]) -> serde_json::Value {
    let times = responses_us(services);
    let of = |op: Op| {
        let of_op = requests.iter().zip(&times).filter(|(request, _)| request.op == op);
        let of_op = sorted(&of_op.map(|(_, us)| us * 1e-3).collect::<Vec<f64>>());
        (!of_op.is_empty()).then(|| {
            json!({"requests": of_op.len(), "mean_ms": mean(&of_op), "p50_ms": quantile(&of_op, 0.5),
                "p95_ms": quantile(&of_op, 0.95), "p99_ms": quantile(&of_op, 0.99), "p999_ms": quantile(&of_op, 0.999)})
        })
    };
    json!({"read": of(Op::Read), "write": of(Op::Write)})
}

fn knows_places(model: &DeviceModel) -> bool {
    matches!(&model.model, Model::Forest(forest) if forest.uses_place())
}

/// Figures of a set, times in ms, as of a single drive, and what each of its drives did.
fn set_figures(run: &SetRun, load: f64) -> serde_json::Value {
    let times = sorted(&responses_us(&run.services));
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
    let bytes = |words: Vec<u64>| words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    Ok((summary, PyBytes::new(py, &bytes(arrivals)), PyBytes::new(py, &bytes(responses))))
}

fn simulate_all(source: &Source, request: &SimulateRequest) -> Outcome<(String, Vec<u64>, Vec<u64>)> {
    let source = source.arrivals_only(request.mode == "closed");
    let (requests, report) = source.load()?;
    let models = read_models(&request.model)?;
    let map = match &request.map {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Fault::Usage(format!("cannot read {path}: {error}")))?;
            Some(BlockMap::from_text(&text)?)
        }
        None => None,
    };
    let sets = parse_sets(&request.sets, &report.devices)?;
    if !sets.is_empty() && request.mode != "closed" {
        return Err(Fault::Usage(
            "a set has a queue of its own: leave --mode out, or write --mode closed".to_owned(),
        ));
    }
    let (mut arrivals, mut responses, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    for (device, mut part) in by_device(&requests) {
        let name = &report.devices[usize::from(device)];
        let set = set_for(&sets, name);
        // The trace of a set's requests says nothing of the class of its drives.
        let any_class = request.allow_other_device || set.is_some() || report.arrivals_only;
        let model = model_for(&models, name, &report.devices, &part, any_class)?;
        if !request.allow_unskilled {
            model.check_worth()?;
        }
        let mut warnings = Vec::new();
        if model.training.is_some() && model.device != *name {
            warnings.push(format!(
                "the model is of `{}`, the only one in its file: right only if that is this device or one like it",
                model.device
            ));
        }
        if let Some(map) = &map {
            part = map.apply(&part);
            if knows_places(&model) {
                warnings.push("the model knows blocks by their place, which a map changes: ask `disk reorganize` for the change, without --model-file".to_owned());
            }
        }
        if let Some(set) = set {
            let run = closed_set(&model, set.layout, &part, request.load, request.seed)?;
            arrivals.extend(run.services.iter().map(|service| service.arrival_ns));
            responses.extend(run.services.iter().map(|service| service.completion_ns - service.arrival_ns));
            let figures = set_figures(&run, request.load);
            let members = figures["members"].as_array().into_iter().flatten();
            let busiest = members.filter_map(|member| member["utilization"].as_f64()).fold(0.0, f64::max);
            warnings.extend(near_saturation(busiest));
            devices.push(
                json!({"device": name, "requests": part.len(), "figures": figures, "warnings": warnings}),
            );
            continue;
        }
        match request.mode.as_str() {
            "closed" => {
                if !request.allow_unskilled {
                    check_load(&model, &part, request.load, request.seed)?;
                }
                let services = closed_loop(&model, &part, request.load, request.seed)?;
                warnings.extend(denser_than_seen(&model, &services));
                arrivals.extend(services.iter().map(|service| service.arrival_ns));
                responses.extend(services.iter().map(|service| service.completion_ns - service.arrival_ns));
                let figures = at_load(&model, &part, request.load, None, request.seed)?;
                warnings.extend(near_saturation(figures.utilization));
                let mut figures = json!(figures);
                figures["by_operation"] = by_operation(&part, &services);
                devices.push(
                    json!({"device": name, "requests": part.len(), "figures": figures, "warnings": warnings}),
                );
            }
            "open" => {
                let simulated = open_loop(&model, &part, request.seed);
                let mean = simulated.iter().map(|ns| *ns as f64 * 1e-6).sum::<f64>() / simulated.len() as f64;
                arrivals.extend(part.iter().map(|r| r.arrival_ns));
                responses.extend(simulated);
                devices.push(json!({"device": name, "requests": part.len(), "figures": {"load": 1.0, "simulated_mean_ms": mean}, "warnings": warnings}));
            }
            other => {
                return Err(Fault::Usage(format!("no mode is called `{other}`; accepted: open, closed")))
            }
        }
    }
    let summary = json!({"schema": "servsim.disk.simulate/1", "mode": request.mode, "seed": request.seed, "remapped": request.map, "sets": request.sets, "import": report_json(&report), "devices": devices});
    Ok((summary.to_string(), arrivals, responses))
}

/// What to move.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReorganizeRequest {
    fit: FitRequest,
    model: Option<String>,
    policies: Vec<String>,
    blocks: usize,
    load: f64,
    allow_other_device: bool,
}

/// Plans and predicts moves. Returns JSON and the maps as text, `(device, policy, text)`.
#[pyfunction]
pub(super) fn disk_reorganize(
    py: Python<'_>,
    source: &str,
    request: &str,
) -> PyResult<(String, Vec<DeviceMap>)> {
    let (source, request): (Source, ReorganizeRequest) = (options(source)?, options(request)?);
    interruptible(py, move || {
        request.fit.check()?;
        let (requests, report) = source.load()?;
        let models = request.model.as_deref().map(read_models).transpose()?;
        let (mut results, mut maps, mut skipped) = (Vec::new(), Vec::new(), Skipped::default());
        for (device, part) in by_device(&requests) {
            let name = &report.devices[usize::from(device)];
            let cut = request.fit.cut(part.len());
            let model = if let Some(models) = &models {
                model_for(models, name, &report.devices, &part, request.allow_other_device)?
            } else {
                let options = FitOptions { movable: true, ..request.fit.options()? };
                let made = fit(&request.fit.kind, &part[..cut], &report.devices, &options);
                let Some(mut made) = skipped.keep(name, made)? else { continue };
                made.remove(0)
            };
            for policy in &request.policies {
                let map = plan(&part, request.blocks, policy.parse::<Policy>()?);
                let share = covered(&part, request.blocks);
                let prediction = predict(&model, &part, &map, share, request.load, request.fit.seed)?;
                results.push(json!({"device": name, "policy": policy, "model": model.model.kind(), "prediction": prediction}));
                maps.push((name.clone(), policy.clone(), map.to_text(name)));
            }
        }
        skipped.unless_all(results.len())?;
        let json = json!({"schema": "servsim.disk.reorganize/1", "import": report_json(&report), "blocks": request.blocks, "load": request.load, "results": results, "skipped": skipped.json()});
        Ok((json.to_string(), maps))
    })
}
