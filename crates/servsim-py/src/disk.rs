//! Disks: opens files, calls `servsim-disk`, hands back JSON text and columns of numbers.
//!
//! Work runs on a thread of its own while the calling thread watches for signals, so that Ctrl-C
//! ends a command at once whatever is being computed.
//!
//! Over 400 lines: one function for each disk command, alike in form and without logic.

use crate::errors::usage;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Deserialize;
use serde_json::{json, Value};
use servsim_disk::error::{ImportError, ModelError};
use servsim_disk::evaluate::{at_load, evaluate, Split};
use servsim_disk::importers::{load, stream, write_native, ImportOptions, ImportReport, IMPORTERS};
use servsim_disk::models::fit::{fit, FitOptions, Fitter};
use servsim_disk::models::mechanical::Drive;
use servsim_disk::models::ssd::Ssd;
use servsim_disk::models::{file, kind, DeviceModel, Model, KINDS};
use servsim_disk::reorganize::{covered, plan, predict, BlockMap, Policy};
use servsim_disk::request::{by_device, Request};
use servsim_disk::server::infer::infer;
use servsim_disk::server::{Discipline, Server};
use servsim_disk::simulate::{closed_loop, open_loop};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};

/// Device, policy and text of a map.
type DeviceMap = (String, String, String);

/// A fault to tell the user, or one of ours.
enum Fault {
    Usage(String),
    Interrupted,
}

impl From<ImportError> for Fault {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Interrupted => Fault::Interrupted,
            other => Fault::Usage(other.to_string()),
        }
    }
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        Fault::Usage(error.to_string())
    }
}

type Outcome<T> = Result<T, Fault>;

/// Runs `work` aside ([`crate::interrupt`]) and raises what went wrong.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> PyResult<T> {
    crate::interrupt::interruptible(py, work)?.map_err(|fault| match fault {
        Fault::Usage(message) => usage(message),
        Fault::Interrupted => PyKeyboardInterrupt::new_err("interrupted"),
    })
}

/// How to read a trace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Source {
    path: String,
    format: Option<String>,
    columns: Option<String>,
    tracer: Option<String>,
    exclude_tracer: bool,
    device: Option<String>,
}

impl Source {
    fn options(&self) -> ImportOptions {
        ImportOptions {
            columns: self.columns.clone(),
            tracer: self.tracer.clone(),
            exclude_tracer: self.exclude_tracer,
            device: self.device.clone(),
        }
    }

    fn open(&self) -> Outcome<BufReader<File>> {
        let file = File::open(&self.path)
            .map_err(|error| Fault::Usage(format!("cannot open {}: {error}", self.path)))?;
        Ok(BufReader::with_capacity(1 << 18, file))
    }

    fn named(&self, error: ImportError) -> Fault {
        match Fault::from(error) {
            Fault::Usage(message) => Fault::Usage(format!("{}: {message}", self.path)),
            Fault::Interrupted => Fault::Interrupted,
        }
    }

    fn load(&self) -> Outcome<(Vec<Request>, ImportReport)> {
        load(&mut self.open()?, self.format.as_deref(), &self.options()).map_err(|error| self.named(error))
    }
}

fn options<'a, T: Deserialize<'a>>(text: &'a str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| usage(format!("disk options: {error}")))
}

fn report_json(report: &ImportReport) -> Value {
    let mut value = json!(report);
    value["warnings"] =
        report.warnings().into_iter().map(|(what, count)| json!({"what": what, "count": count})).collect();
    value
}

fn read_models(path: &str) -> Outcome<Vec<DeviceModel>> {
    let bytes = std::fs::read(path).map_err(|error| Fault::Usage(format!("cannot read {path}: {error}")))?;
    file::from_bytes(&bytes).map_err(|error| Fault::Usage(format!("{path}: {error}")))
}

fn write_file(path: &str, bytes: &[u8]) -> Outcome<()> {
    std::fs::write(path, bytes).map_err(|error| Fault::Usage(format!("cannot write {path}: {error}")))
}

/// Formats and kinds of models, as JSON.
#[pyfunction]
fn disk_catalogue() -> String {
    let formats: Vec<Value> = IMPORTERS
        .iter()
        .map(|importer| json!({"name": importer.name(), "about": importer.about()}))
        .collect();
    json!({"formats": formats, "models": KINDS, "drives": ["hp97560", "hp335h", "agrawal2008"]}).to_string()
}

/// Reads a trace; writes it in the project's own form if `output` is given. Returns the report.
#[pyfunction]
fn disk_import(py: Python<'_>, source: &str, output: Option<String>) -> PyResult<String> {
    let source: Source = options(source)?;
    interruptible(py, move || {
        let (requests, report) = source.load()?;
        if let Some(output) = output {
            let failed = |error: std::io::Error| Fault::Usage(format!("cannot write {output}: {error}"));
            let mut writer = BufWriter::new(File::create(&output).map_err(failed)?);
            write_native(&mut writer, &report.devices, &requests)
                .and_then(|()| writer.flush())
                .map_err(failed)?;
        }
        Ok(report_json(&report).to_string())
    })
}

/// The columns of a trace as little-endian bytes: name -> (dtype, bytes).
#[pyfunction]
fn disk_columns<'py>(py: Python<'py>, source: &str) -> PyResult<(Bound<'py, PyDict>, String)> {
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

/// What to fit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FitRequest {
    kind: String,
    drive: Option<String>,
    #[serde(default)]
    seed: u64,
    scheduler: Option<String>,
    slots: Option<u32>,
    train: f64,
}

impl FitRequest {
    fn options(&self) -> Outcome<FitOptions> {
        let discipline = self.scheduler.as_deref().map(str::parse::<Discipline>).transpose()?;
        Ok(FitOptions { seed: self.seed, discipline, slots: self.slots })
    }

    fn check(&self) -> Outcome<()> {
        if self.train > 0.0 && self.train <= 1.0 {
            return Ok(());
        }
        Err(Fault::Usage(format!(
            "train share {} is not above 0 and at most 1; 0.24 is the paper's",
            self.train
        )))
    }

    /// Requests of the training part among `count`.
    fn cut(&self, count: usize) -> usize {
        (count as f64 * self.train).floor() as usize
    }
}

/// A drive that ships, as a model.
fn shipped(kind: &str, drive: Option<&str>, discipline: Option<Discipline>) -> Outcome<DeviceModel> {
    let known = if kind == "ssd" { "agrawal2008" } else { "hp97560, hp335h" };
    let (name, model, slots) = match (kind, drive) {
        ("ssd", None | Some("agrawal2008")) => ("agrawal2008", Model::Ssd(Ssd::agrawal2008()), 64),
        ("mechanical", Some(name)) if Drive::by_name(name).is_some() => {
            (name, Model::Mechanical(Drive::by_name(name).expect("known")), 1)
        }
        _ => return Err(Fault::Usage(format!("a {kind} model needs --drive, one of: {known}"))),
    };
    let server = Server { discipline: discipline.unwrap_or(Discipline::Fcfs), slots, recorded_start: false };
    Ok(DeviceModel { device: name.to_owned(), server, inference: None, training: None, model })
}

/// Fits models to a trace (or takes a drive that ships), writes them, returns their description.
#[pyfunction]
fn disk_fit(py: Python<'_>, source: &str, request: &str, output: Option<String>) -> PyResult<String> {
    let (source, request): (Source, FitRequest) = (options(source)?, options(request)?);
    interruptible(py, move || {
        request.check()?;
        let fit_options = request.options()?;
        let kind = kind(&request.kind)?;
        let (models, report) = if !kind.fitted {
            (vec![shipped(kind.name, request.drive.as_deref(), fit_options.discipline)?], None)
        } else if kind.name == "forest" && request.train >= 1.0 {
            let (models, report) = fit_streaming(&source, fit_options)?;
            (models, Some(report))
        } else {
            let (requests, report) = source.load()?;
            let mut training = Vec::new();
            for (_, part) in by_device(&requests) {
                training.extend_from_slice(&part[..request.cut(part.len())]);
            }
            (fit(kind.name, &training, &report.devices, &fit_options)?, Some(report))
        };
        let bytes = file::to_bytes(&models);
        if let Some(output) = &output {
            write_file(output, &bytes)?;
        }
        let devices: Vec<Value> = models.iter().map(DeviceModel::describe).collect();
        let report = report.as_ref().map(report_json);
        Ok(json!({"schema": "servsim.disk.fit/1", "import": report, "bytes": bytes.len(), "output": output, "devices": devices})
            .to_string())
    })
}

/// Fits the default model without holding the trace in memory, if its requests come nearly in
/// order of arrival (within a window of requests).
fn fit_streaming(source: &Source, fit_options: FitOptions) -> Outcome<(Vec<DeviceModel>, ImportReport)> {
    let mut windows: Vec<Window> = Vec::new();
    let mut late = 0_u64;
    let report = stream(&mut source.open()?, source.format.as_deref(), &source.options(), &mut |request| {
        let device = usize::from(request.device);
        while windows.len() <= device {
            windows.push(Window::new(fit_options));
        }
        late += u64::from(!windows[device].push(request));
        Ok(())
    })
    .map_err(|error| source.named(error))?;
    if late > 0 {
        // Far out of order: sort the whole trace instead.
        let (requests, report) = source.load()?;
        return Ok((fit("forest", &requests, &report.devices, &fit_options)?, report));
    }
    let mut models = Vec::new();
    for (window, name) in windows.into_iter().zip(&report.devices) {
        // A device whose every request was dropped has nothing to fit.
        if let Some(fitter) = window.finish() {
            let mut model = fitter.finish()?;
            model.device.clone_from(name);
            models.push(model);
        }
    }
    Ok((models, report))
}

/// Puts requests that complete out of order back into order of arrival, within a window.
struct Window {
    fitter: Fitter,
    waiting: std::collections::BTreeMap<(u64, u64), Request>,
    count: u64,
    newest_out: u64,
    disorder_seen: bool,
}

impl Window {
    const SIZE: usize = 8192;

    fn new(fit_options: FitOptions) -> Self {
        let waiting = std::collections::BTreeMap::new();
        Window {
            fitter: Fitter::new("", fit_options),
            waiting,
            count: 0,
            newest_out: 0,
            disorder_seen: false,
        }
    }

    /// False if the request comes later than the window can mend.
    fn push(&mut self, request: Request) -> bool {
        self.count += 1;
        let newest = self.newest_out.max(self.waiting.last_key_value().map_or(0, |(key, _)| key.0));
        self.disorder_seen |= request.arrival_ns < newest;
        // While everything has come in order, there is nothing to hold back.
        if !self.disorder_seen && self.waiting.is_empty() && self.count > Self::SIZE as u64 {
            self.newest_out = request.arrival_ns;
            self.fitter.push(request);
            return true;
        }
        if request.arrival_ns < self.newest_out {
            return false;
        }
        self.waiting.insert((request.arrival_ns, self.count), request);
        let limit = if self.disorder_seen || self.count < Self::SIZE as u64 { Self::SIZE } else { 0 };
        while self.waiting.len() > limit {
            let ((arrival_ns, _), first) = self.waiting.pop_first().expect("not empty");
            self.newest_out = arrival_ns;
            self.fitter.push(first);
        }
        true
    }

    fn finish(mut self) -> Option<Fitter> {
        for request in self.waiting.into_values() {
            self.fitter.push(request);
        }
        (self.count > 0).then_some(self.fitter)
    }
}

/// The description of a model file.
#[pyfunction]
fn disk_info(py: Python<'_>, path: String) -> PyResult<String> {
    interruptible(py, move || {
        let bytes = std::fs::metadata(&path).map_or(0, |facts| facts.len());
        let devices: Vec<Value> = read_models(&path)?.iter().map(DeviceModel::describe).collect();
        Ok(json!({"schema": "servsim.disk.info/1", "path": path, "bytes": bytes, "devices": devices})
            .to_string())
    })
}

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

/// The model of a file for the device called `name`: the one of that name, or the only one.
fn model_for(
    models: &[DeviceModel],
    name: &str,
    requests: &[Request],
    allow_other: bool,
) -> Outcome<DeviceModel> {
    let same_name = models.iter().find(|model| model.device == name);
    let model = same_name.or(if models.len() == 1 { models.first() } else { None }).ok_or_else(|| {
        let names: Vec<&str> = models.iter().map(|model| model.device.as_str()).collect();
        Fault::Usage(format!("the model file has no device `{name}`; it has {}", names.join(", ")))
    })?;
    if !allow_other {
        model.check_class(&infer(requests))?;
    }
    Ok(model.clone())
}

/// Evaluates a model file, or a model fitted to the first part of the trace, device by device.
#[pyfunction]
fn disk_evaluate(py: Python<'_>, source: &str, request: &str) -> PyResult<String> {
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
        let mut evaluations = Vec::new();
        for (device, part) in by_device(&requests) {
            let name = &report.devices[usize::from(device)];
            let cut = request.fit.cut(part.len());
            let model = match &models {
                Some(models) => model_for(models, name, &part, request.allow_other_device)?,
                None if kind(&request.fit.kind)?.fitted => {
                    fit(&request.fit.kind, &part[..cut], &report.devices, &fit_options)?.remove(0)
                }
                None => shipped(&request.fit.kind, request.fit.drive.as_deref(), fit_options.discipline)?,
            };
            let mut loads: Vec<(f64, Option<&[Request]>)> =
                request.loads.iter().map(|&load| (load, None)).collect();
            for (load, parts) in &truths {
                let truth =
                    parts.iter().find(|(other, _)| *other == device).map(|(_, truth)| truth.as_slice());
                loads.push((*load, truth));
            }
            let evaluation = evaluate(&model, &part, Split { cut }, &loads, request.fit.seed)?;
            let mut value = json!(evaluation);
            value["server"] = json!(model.server);
            value["inference"] = json!(model.inference);
            evaluations.push(value);
        }
        Ok(json!({"schema": "servsim.disk.evaluate/1", "import": report_json(&report), "train": request.fit.train, "devices": evaluations})
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
    allow_other_device: bool,
}

/// Runs a model on the requests of a trace. Returns a summary and, for each request in arrival order
/// (device by device), arrival and response in ns as little-endian bytes.
#[pyfunction]
fn disk_simulate<'py>(
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
    let (mut arrivals, mut responses, mut devices) = (Vec::new(), Vec::new(), Vec::new());
    for (device, mut part) in by_device(&requests) {
        let name = &report.devices[usize::from(device)];
        let model = model_for(&models, name, &part, request.allow_other_device)?;
        if let Some(map) = &map {
            part = map.apply(&part);
        }
        match request.mode.as_str() {
            "closed" => {
                let services = closed_loop(&model, &part, request.load, request.seed)?;
                arrivals.extend(services.iter().map(|service| service.arrival_ns));
                responses.extend(services.iter().map(|service| service.completion_ns - service.arrival_ns));
                devices.push(json!({"device": name, "requests": part.len(), "figures": at_load(&model, &part, request.load, None, request.seed)?}));
            }
            "open" => {
                let simulated = open_loop(&model, &part, request.seed);
                let mean = simulated.iter().map(|ns| *ns as f64 * 1e-6).sum::<f64>() / simulated.len() as f64;
                arrivals.extend(part.iter().map(|r| r.arrival_ns));
                responses.extend(simulated);
                devices.push(json!({"device": name, "requests": part.len(), "figures": {"load": 1.0, "simulated_mean_ms": mean}}));
            }
            other => {
                return Err(Fault::Usage(format!("no mode is called `{other}`; accepted: open, closed")))
            }
        }
    }
    let summary = json!({"schema": "servsim.disk.simulate/1", "mode": request.mode, "seed": request.seed, "remapped": request.map, "import": report_json(&report), "devices": devices});
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
fn disk_reorganize(py: Python<'_>, source: &str, request: &str) -> PyResult<(String, Vec<DeviceMap>)> {
    let (source, request): (Source, ReorganizeRequest) = (options(source)?, options(request)?);
    interruptible(py, move || {
        request.fit.check()?;
        let (requests, report) = source.load()?;
        let models = request.model.as_deref().map(read_models).transpose()?;
        let (mut results, mut maps) = (Vec::new(), Vec::new());
        for (device, part) in by_device(&requests) {
            let name = &report.devices[usize::from(device)];
            let cut = request.fit.cut(part.len());
            let model = match &models {
                Some(models) => model_for(models, name, &part, request.allow_other_device)?,
                None => {
                    fit(&request.fit.kind, &part[..cut], &report.devices, &request.fit.options()?)?.remove(0)
                }
            };
            for policy in &request.policies {
                let map = plan(&part, request.blocks, policy.parse::<Policy>()?);
                let share = covered(&part, request.blocks);
                let prediction = predict(&model, &part, &map, share, request.load, request.fit.seed)?;
                results.push(json!({"device": name, "policy": policy, "model": model.model.kind(), "prediction": prediction}));
                maps.push((name.clone(), policy.clone(), map.to_text(name)));
            }
        }
        let json = json!({"schema": "servsim.disk.reorganize/1", "import": report_json(&report), "blocks": request.blocks, "load": request.load, "results": results});
        Ok((json.to_string(), maps))
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(disk_catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(disk_import, module)?)?;
    module.add_function(wrap_pyfunction!(disk_columns, module)?)?;
    module.add_function(wrap_pyfunction!(disk_fit, module)?)?;
    module.add_function(wrap_pyfunction!(disk_info, module)?)?;
    module.add_function(wrap_pyfunction!(disk_evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(disk_simulate, module)?)?;
    module.add_function(wrap_pyfunction!(disk_reorganize, module)?)?;
    Ok(())
}
