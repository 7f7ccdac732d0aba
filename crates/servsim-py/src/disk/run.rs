//! Models judged, and used to plan a reorganisation.

use super::fit::{read_models, shipped, FitRequest, Skipped};
use super::source::{report_json, Source};
use super::{interruptible, options, Fault, Outcome};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use servsim_disk::evaluate::{evaluate, Split};
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::{kind, DeviceModel};
use servsim_disk::moves::{Unmoved, PARTS};
use servsim_disk::reorganize::{covered, plan, Policy};
use servsim_disk::request::{by_device, Request};
use servsim_disk::server::infer::infer;
use servsim_disk::simulate::check_times;

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
pub(super) fn model_for(
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
        check_times(model, requests, name)?;
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
            let unmoved = Unmoved::of(&model, &part, request.load, request.fit.seed)?;
            for policy in &request.policies {
                let how = policy.parse::<Policy>()?;
                let map = plan(&part, request.blocks, how);
                let prediction = unmoved.by_map(&map, covered(&part, request.blocks))?;
                let held_out = unmoved.held_out(request.blocks, how)?;
                results.push(json!({"device": name, "policy": policy, "model": model.model.kind(), "prediction": prediction, "held_out": held_out}));
                maps.push((name.clone(), policy.clone(), map.to_text(name)));
            }
        }
        skipped.unless_all(results.len())?;
        let json = json!({"schema": "servsim.disk.reorganize/1", "import": report_json(&report), "blocks": request.blocks, "load": request.load, "parts": PARTS, "results": results, "skipped": skipped.json()});
        Ok((json.to_string(), maps))
    })
}
