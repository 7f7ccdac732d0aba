//! Fitting models, taking drives that ship, and describing model files.

use super::source::{report_json, Source};
use super::{interruptible, options, Fault, Outcome};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{json, Value};
use servsim_disk::error::ModelError;
use servsim_disk::importers::ImportReport;
use servsim_disk::models::fit::{fit, FitOptions, Fitter};
use servsim_disk::models::mechanical::{Drive, WriteCache};
use servsim_disk::models::ssd::Ssd;
use servsim_disk::models::{file, kind, DeviceModel, Model};
use servsim_disk::request::{by_device, Request};
use servsim_disk::server::{Discipline, Server};
use servsim_disk::trial::try_out;
use servsim_files::Special;
use std::path::Path;

pub(super) fn read_models(path: &str) -> Outcome<Vec<DeviceModel>> {
    let bytes = std::fs::read(path).map_err(|error| {
        Fault::Usage(format!(
            "cannot read {path}: {error}; name a file of models that `servsim disk fit` wrote"
        ))
    })?;
    file::from_bytes(&bytes).map_err(|error| Fault::Usage(format!("{path}: {error}")))
}

pub(super) fn write_file(path: &str, bytes: &[u8]) -> Outcome<()> {
    Ok(servsim_files::write(Path::new(path), bytes, Special::WriteTo)?)
}

/// What to fit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FitRequest {
    pub(super) kind: String,
    pub(super) drive: Option<String>,
    #[serde(default)]
    pub(super) seed: u64,
    scheduler: Option<String>,
    slots: Option<u32>,
    /// Of a mechanical drive: `write-back` or `write-through`.
    #[serde(default)]
    write_cache: Option<String>,
    /// Of a mechanical drive: whether it reads ahead.
    #[serde(default)]
    read_ahead: Option<bool>,
    pub(super) train: f64,
}

impl FitRequest {
    pub(super) fn options(&self) -> Outcome<FitOptions> {
        let discipline = self.scheduler.as_deref().map(str::parse::<Discipline>).transpose()?;
        Ok(FitOptions {
            seed: self.seed,
            discipline,
            slots: self.slots,
            movable: false,
            try_out: Some(try_out),
        })
    }

    pub(super) fn check(&self) -> Outcome<()> {
        if (self.write_cache.is_some() || self.read_ahead.is_some()) && self.kind != "mechanical" {
            return Err(Fault::Usage("only a mechanical model has cache settings".to_owned()));
        }
        let fitted = kind(&self.kind)?.fitted;
        if let Some(name) = self.drive.as_deref().filter(|_| fitted) {
            return Err(Fault::Usage(format!(
                "a {} model is fitted to the trace, and no drive that ships: leave out --drive {name}, or use --model \
                 mechanical or ssd",
                self.kind
            )));
        }
        if self.train > 0.0 && self.train <= 1.0 {
            return Ok(());
        }
        Err(Fault::Usage(format!(
            "train share {} is not above 0 and at most 1; 0.24 is the paper's",
            self.train
        )))
    }

    /// Requests of the training part among `count`: one at least, which whoever fits finds too few.
    pub(super) fn cut(&self, count: usize) -> usize {
        ((count as f64 * self.train).floor() as usize).max(1)
    }
}

/// A drive that ships, as a model.
pub(super) fn shipped(request: &FitRequest, discipline: Option<Discipline>) -> Outcome<DeviceModel> {
    let (kind, drive) = (request.kind.as_str(), request.drive.as_deref());
    let known = if kind == "ssd" { "agrawal2008" } else { "hp97560, hp335h" };
    let (name, model, slots) = match (kind, drive) {
        ("ssd", None | Some("agrawal2008")) => ("agrawal2008", Model::Ssd(Ssd::agrawal2008()), 64),
        ("mechanical", Some(name)) if Drive::by_name(name).is_some() => {
            let mut drive = Drive::by_name(name).expect("known");
            if let Some(cache) = &request.write_cache {
                drive.write_cache = cache.parse()?;
            }
            drive.read_ahead = request.read_ahead.unwrap_or(drive.read_ahead);
            if drive.cache_bytes == 0 && (drive.read_ahead || drive.write_cache == WriteCache::WriteBack) {
                return Err(Fault::Usage(format!(
                    "{name} has no cache: it neither reads ahead nor writes back"
                )));
            }
            (name, Model::Mechanical(drive), 1)
        }
        _ => return Err(Fault::Usage(format!("a {kind} model needs --drive, one of: {known}"))),
    };
    let server = Server { discipline: discipline.unwrap_or(Discipline::Fcfs), slots, ..Server::FCFS };
    Ok(DeviceModel { device: name.to_owned(), server, inference: None, training: None, model })
}

/// Fits models to a trace (or takes a drive that ships), writes them, returns their description.
#[pyfunction]
pub(super) fn disk_fit(
    py: Python<'_>,
    source: &str,
    request: &str,
    output: Option<String>,
) -> PyResult<String> {
    let (source, request): (Source, FitRequest) = (options(source)?, options(request)?);
    interruptible(py, move || {
        request.check()?;
        let fit_options = request.options()?;
        let kind = kind(&request.kind)?;
        let mut skipped = Skipped::default();
        let (models, report) = if !kind.fitted {
            (vec![shipped(&request, fit_options.discipline)?], None)
        } else if kind.name == "forest" && request.train >= 1.0 {
            let (models, report) = fit_streaming(&source, fit_options, &mut skipped)?;
            (models, Some(report))
        } else {
            let (requests, report) = source.load()?;
            let models = fit_parts(&requests, &report.devices, &request, &fit_options, &mut skipped)?;
            (models, Some(report))
        };
        skipped.unless_all(models.len())?;
        let bytes = file::to_bytes(&models);
        if let Some(output) = &output {
            write_file(output, &bytes)?;
        }
        let devices: Vec<Value> = models.iter().map(DeviceModel::describe).collect();
        let report = report.as_ref().map(report_json);
        Ok(json!({"schema": "servsim.disk.fit/1", "import": report, "bytes": bytes.len(), "output": output, "devices": devices, "skipped": skipped.json()})
            .to_string())
    })
}

/// Devices that a command left out, with the reason: one of several with too few requests, say, must
/// not spoil the answer for the others.
#[derive(Default)]
pub(super) struct Skipped(Vec<(String, ModelError)>);

impl Skipped {
    /// What was made for the device called `name`, or nothing if it is no use for that.
    pub(super) fn keep<T>(&mut self, name: &str, made: Result<T, ModelError>) -> Outcome<Option<T>> {
        match made {
            Ok(made) => Ok(Some(made)),
            Err(error @ ModelError::TooShort { .. }) => {
                self.0.push((name.to_owned(), error));
                Ok(None)
            }
            Err(ModelError::NoTime { .. }) => {
                self.0.push((name.to_owned(), ModelError::NoTime { device: name.to_owned() }));
                Ok(None)
            }
            Err(other) => Err(other.into()),
        }
    }

    /// The first reason as an error, if it was so for all devices.
    pub(super) fn unless_all(&mut self, kept: usize) -> Outcome<()> {
        if kept > 0 || self.0.is_empty() {
            return Ok(());
        }
        let (name, error) = self.0.swap_remove(0);
        Err(Fault::Usage(if self.0.is_empty() { error.to_string() } else { format!("{name}: {error}") }))
    }

    pub(super) fn json(&self) -> Vec<Value> {
        self.0.iter().map(|(name, error)| json!({"device": name, "reason": error.to_string()})).collect()
    }
}

/// Fits the training part of every device.
fn fit_parts(
    requests: &[Request],
    devices: &[String],
    request: &FitRequest,
    fit_options: &FitOptions,
    skipped: &mut Skipped,
) -> Outcome<Vec<DeviceModel>> {
    let mut models = Vec::new();
    for (device, part) in by_device(requests) {
        let made = fit(&request.kind, &part[..request.cut(part.len())], devices, fit_options);
        let name = devices.get(usize::from(device)).map_or("disk", String::as_str);
        models.extend(skipped.keep(name, made)?.into_iter().flatten());
    }
    Ok(models)
}

/// Fits the default model without holding the trace in memory, if its requests come nearly in
/// order of arrival (within a window of requests).
pub(super) fn fit_streaming(
    source: &Source,
    fit_options: FitOptions,
    skipped: &mut Skipped,
) -> Outcome<(Vec<DeviceModel>, ImportReport)> {
    let mut windows: Vec<Window> = Vec::new();
    let mut late = 0_u64;
    let report = source.stream(&mut |request| {
        let device = usize::from(request.device);
        while windows.len() <= device {
            windows.push(Window::new(fit_options));
        }
        late += u64::from(!windows[device].push(request));
        Ok(())
    })?;
    if late > 0 {
        // Far out of order: sort the whole trace instead.
        let (requests, report) = source.load()?;
        let mut models = Vec::new();
        for (device, part) in by_device(&requests) {
            let made = fit("forest", &part, &report.devices, &fit_options);
            models.extend(skipped.keep(&report.devices[usize::from(device)], made)?.into_iter().flatten());
        }
        return Ok((models, report));
    }
    let mut models = Vec::new();
    for (window, name) in windows.into_iter().zip(&report.devices) {
        // A device whose every request was dropped has nothing to fit.
        if let Some(fitter) = window.finish() {
            if let Some(mut model) = skipped.keep(name, fitter.finish())? {
                model.device.clone_from(name);
                models.push(model);
            }
        }
    }
    Ok((models, report))
}

/// Puts requests that complete out of order back into order of arrival, within a window.
pub(super) struct Window {
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
pub(super) fn disk_info(py: Python<'_>, path: String) -> PyResult<String> {
    interruptible(py, move || {
        let bytes = std::fs::metadata(&path).map_or(0, |facts| facts.len());
        let devices: Vec<Value> = read_models(&path)?.iter().map(DeviceModel::describe).collect();
        Ok(json!({"schema": "servsim.disk.info/1", "path": path, "bytes": bytes, "devices": devices})
            .to_string())
    })
}
