//! Judging a model on requests it was not fitted to: distribution, slices, single requests, memory
//! of bursts, other loads; and a verdict that says where it must not be trusted.

use crate::error::ModelError;
use crate::features::Command;
use crate::metrics::demerit::{demerit, demerit_percent, floor_percent};
use crate::metrics::percentiles::{ByOperation, Percentiles};
use crate::metrics::slices::{slice_error, Key, SliceError};
use crate::metrics::{autocorrelation, mean, quantile, sorted};
use crate::models::fit::response_contexts;
use crate::models::{DeviceModel, Model, SKILL_FLOOR};
use crate::order::services;
use crate::request::Request;
use crate::server::station::Started;
use crate::simulate::{closed_loop, open_loop, responses_us};
use crate::skill::{self, Skill};
use serde::Serialize;

/// Requests simulated at another load, over all replications, at most.
const POOLED: usize = 160_000;
/// Share of requests outside the support beyond which a verdict warns.
const UNKNOWN_SHARE: f64 = 0.02;

/// Replications of a load: few where the trace itself is long enough to average.
pub fn replications(requests: usize) -> u64 {
    (POOLED / requests.max(1)).clamp(1, 8) as u64
}

/// Which requests test and which trained.
#[derive(Debug, Clone, Copy)]
pub struct Split {
    /// Requests of the device that belong to the training part, from the first.
    pub cut: usize,
}

/// Error of simulated against real response times of the requests after the cut.
#[derive(Debug, Clone, Serialize)]
pub struct Distribution {
    /// Mean real response, ms.
    pub real_mean_ms: f64,
    /// Mean simulated response, ms.
    pub simulated_mean_ms: f64,
    /// Bias of the mean, percent.
    pub mean_error_percent: f64,
    /// D over all requests, the training part included, as the paper does; percent of the mean.
    pub d_all_percent: f64,
    /// The same in ms.
    pub d_all_ms: f64,
    /// D over the requests after the cut, percent.
    pub d_rest_percent: f64,
    /// D up to the 99th percentile, percent.
    pub d99_percent: f64,
    /// What chance gives for D, percent.
    pub floor_percent: f64,
    /// What chance gives for D99, percent.
    pub floor99_percent: f64,
    /// Error within slices.
    pub slice: SliceError,
    /// Autocorrelation of log response, real, at lags 1 and 10.
    pub acf_real: [f64; 2],
    /// The same, simulated.
    pub acf_simulated: [f64; 2],
}

/// Agreement with a truth at some load.
#[derive(Debug, Clone, Serialize)]
pub struct ClosedLoop {
    /// Load factor of the arrivals.
    pub load: f64,
    /// Mean simulated response, ms.
    pub simulated_mean_ms: f64,
    /// 99th percentile, ms.
    pub simulated_p99_ms: f64,
    /// Share of time the device is busy (slots or channels in use, on average; at most 1).
    pub utilization: f64,
    /// Mean of the truth, ms, if there is one.
    pub real_mean_ms: Option<f64>,
    /// 99th percentile of the truth, ms.
    pub real_p99_ms: Option<f64>,
    /// Error of the mean, percent.
    pub mean_error_percent: Option<f64>,
    /// D, percent of the true mean.
    pub d_percent: Option<f64>,
}

/// Response times at the same probabilities.
#[derive(Debug, Clone, Serialize)]
pub struct Quantiles {
    /// Probabilities.
    pub probability: Vec<f64>,
    /// Real, ms.
    pub real_ms: Vec<f64>,
    /// Queue from the trace, ms.
    pub one_step_ms: Vec<f64>,
    /// Queue from the simulation, ms.
    pub free_running_ms: Vec<f64>,
}

/// Quantiles of three samples in us at 0.005, 0.010, … 0.995 and 0.999.
fn quantiles(real: &[f64], one_step: &[f64], free_running: &[f64]) -> Quantiles {
    let probability: Vec<f64> = (1..200).map(|k| f64::from(k) * 0.005).chain([0.999]).collect();
    let at = |sample: &[f64]| {
        let sample = sorted(sample);
        probability.iter().map(|&p| quantile(&sample, p) * 1e-3).collect::<Vec<_>>()
    };
    Quantiles { real_ms: at(real), one_step_ms: at(one_step), free_running_ms: at(free_running), probability }
}

/// Percentiles of the requests after the cut, real and simulated.
#[derive(Debug, Clone, Serialize)]
pub struct RealAndSimulated<T> {
    /// As they were.
    pub real: T,
    /// As free running has them.
    pub free_running: T,
}

/// All there is to say about a model on a trace of one device.
#[derive(Debug, Clone, Serialize)]
pub struct Evaluation {
    /// Device.
    pub device: String,
    /// Kind of model.
    pub model: &'static str,
    /// Requests of the device.
    pub requests: usize,
    /// Requests in the training part.
    pub trained_on: usize,
    /// Queue produced by the simulation, from arrivals alone.
    pub free_running: Distribution,
    /// Queue and wait from the trace, as in the paper.
    pub one_step: Distribution,
    /// Single requests after the cut, run freely: the skill that counts.
    pub skill: Skill,
    /// The same one step at a time, with the queue and the idle times of the trace.
    pub one_step_skill: Skill,
    /// Share of requests after the cut that are unlike any in the training part.
    pub outside_support: f64,
    /// Quantiles of the response times after the cut, for plots.
    pub quantiles: Quantiles,
    /// Mean and percentiles after the cut, by operation.
    pub by_operation: RealAndSimulated<ByOperation>,
    /// Other loads.
    pub closed_loop: Vec<ClosedLoop>,
    /// What to believe and what not.
    pub verdict: Vec<String>,
}

/// Evaluates `model`, fitted to the first `split.cut` of `requests` (one device, in arrival order).
/// `truths` are load factors with the requests as they really went at that load.
///
/// # Errors
/// When nothing is left to test on, or a load is no positive number.
pub fn evaluate(
    model: &DeviceModel,
    requests: &[Request],
    split: Split,
    truths: &[(f64, Option<&[Request]>)],
    seed: u64,
) -> Result<Evaluation, ModelError> {
    if split.cut >= requests.len() {
        return Err(ModelError::Invalid(
            "no requests are left to test on; train on a smaller share".to_owned(),
        ));
    }
    let real: Vec<f64> = requests.iter().map(|request| request.response_ns() as f64 * 1e-3).collect();
    if mean(&real[split.cut..]) == 0.0 {
        return Err(ModelError::NoTime { device: model.device.clone() });
    }
    let open: Vec<f64> = open_loop(model, requests, seed).iter().map(|ns| *ns as f64 * 1e-3).collect();
    let free = responses_us(&closed_loop(model, requests, 1.0, seed)?);
    let keys = slice_keys(requests);
    let one_step = distribution(&keys, &open, &real, split.cut, seed);
    let free_running = distribution(&keys, &free, &real, split.cut, seed);
    let outside_support = outside(model, requests, split.cut);
    let mut at_loads = Vec::new();
    for (load, truth) in truths {
        at_loads.push(at_load_pooled(model, requests, *load, *truth, seed, replications(requests.len()))?);
    }
    let mut evaluation = Evaluation {
        device: model.device.clone(),
        model: model.model.kind(),
        requests: requests.len(),
        trained_on: split.cut,
        free_running,
        one_step,
        skill: skill::free_running(model, requests, split.cut, seed)?,
        one_step_skill: skill::one_step(model, requests, split.cut, seed),
        outside_support,
        quantiles: quantiles(&real[split.cut..], &open[split.cut..], &free[split.cut..]),
        by_operation: RealAndSimulated {
            real: ByOperation::of(&requests[split.cut..], &real[split.cut..]),
            free_running: ByOperation::of(&requests[split.cut..], &free[split.cut..]),
        },
        closed_loop: at_loads,
        verdict: Vec::new(),
    };
    evaluation.verdict = verdict(&evaluation, model);
    Ok(evaluation)
}

fn slice_keys(requests: &[Request]) -> Vec<Key> {
    let contexts = response_contexts(requests).into_iter();
    contexts.map(|c| Key { is_write: c.is_write, queue: c.queue, seek: c.seek, sectors: c.sectors }).collect()
}

fn distribution(keys: &[Key], simulated: &[f64], real: &[f64], cut: usize, seed: u64) -> Distribution {
    let (rest, real_rest) = (&simulated[cut..], &real[cut..]);
    let lags = |times: &[f64]| [1, 10].map(|lag| autocorrelation::of_logarithms(times, lag));
    Distribution {
        real_mean_ms: mean(real_rest) * 1e-3,
        simulated_mean_ms: mean(rest) * 1e-3,
        mean_error_percent: 100.0 * (mean(rest) / mean(real_rest) - 1.0),
        d_all_percent: demerit_percent(simulated, real, 1.0),
        d_all_ms: demerit(simulated, real, 1.0) * 1e-3,
        d_rest_percent: demerit_percent(rest, real_rest, 1.0),
        d99_percent: demerit_percent(rest, real_rest, 0.99),
        floor_percent: floor_percent(real_rest, 1.0, seed),
        floor99_percent: floor_percent(real_rest, 0.99, seed),
        slice: in_ms(slice_error(&keys[cut..], rest, real_rest, seed)),
        acf_real: lags(real_rest),
        acf_simulated: lags(rest),
    }
}

/// The means of slices in ms, from us.
fn in_ms(mut error: SliceError) -> SliceError {
    for slice in &mut error.each {
        slice.real_mean *= 1e-3;
        slice.simulated_mean *= 1e-3;
    }
    error
}

/// Share of the requests from `cut` on that are unlike any the model was fitted to.
pub fn outside(model: &DeviceModel, requests: &[Request], cut: usize) -> f64 {
    let total = requests.len().saturating_sub(cut).max(1) as f64;
    if let Some(response) = model.model.as_response() {
        let contexts = response_contexts(requests);
        return contexts[cut.min(contexts.len())..].iter().filter(|context| !response.knows(context)).count()
            as f64
            / total;
    }
    let Model::Forest(forest) = &model.model else { return 0.0 };
    let mut history = forest.history();
    let mut unknown = 0_usize;
    for served in services(requests, model.server.slots as usize, model.server.recorded_start) {
        let command = Command::from(&served.request);
        let features = history.features(&served.start());
        unknown += usize::from(served.number >= cut && !forest.support.knows(&features));
        history.advance(&command, served.request.completion_ns);
    }
    unknown as f64 / total
}

/// Simulates `requests` at `load` and compares with `truth`, the requests as they went at that load.
///
/// # Errors
/// When `load` is no positive number.
pub fn at_load(
    model: &DeviceModel,
    requests: &[Request],
    load: f64,
    truth: Option<&[Request]>,
    seed: u64,
) -> Result<ClosedLoop, ModelError> {
    at_load_pooled(model, requests, load, truth, seed, 1)
}

/// [`at_load`] over several replications with consecutive seeds, pooled: near saturation a single run
/// differs from the next by more than a model errs.
///
/// # Errors
/// When `load` is no positive number.
pub fn at_load_pooled(
    model: &DeviceModel,
    requests: &[Request],
    load: f64,
    truth: Option<&[Request]>,
    seed: u64,
    replications: u64,
) -> Result<ClosedLoop, ModelError> {
    let runs = (0..replications.max(1))
        .map(|replication| closed_loop(model, requests, load, seed.wrapping_add(replication)))
        .collect::<Result<Vec<_>, ModelError>>()?;
    Ok(figures(model, load, &runs, truth))
}

/// Figures of `runs`, simulated at `load`, pooled; beside `truth`, if there is one.
pub fn figures(
    model: &DeviceModel,
    load: f64,
    runs: &[Vec<Started>],
    truth: Option<&[Request]>,
) -> ClosedLoop {
    let mut simulated = Vec::with_capacity(runs.iter().map(Vec::len).sum());
    runs.iter().for_each(|services| simulated.extend(responses_us(services)));
    let services = runs.iter().flatten();
    let busy_ns: u64 = services.map(|service| service.completion_ns - service.start_ns).sum();
    let end_ns = |services: &Vec<Started>| services.iter().map(|service| service.completion_ns).max();
    let span_ns: u64 = runs.iter().map(|services| end_ns(services).unwrap_or(1).max(1)).sum();
    let p99 = |times: &[f64]| Percentiles::of(times).map_or(0.0, |all| all.p99_ms);
    let real: Option<Vec<f64>> =
        truth.map(|truth| truth.iter().map(|request| request.response_ns() as f64 * 1e-3).collect());
    ClosedLoop {
        load,
        simulated_mean_ms: mean(&simulated) * 1e-3,
        simulated_p99_ms: p99(&simulated),
        utilization: (busy_ns as f64 / span_ns as f64 / f64::from(model.places())).min(1.0),
        real_mean_ms: real.as_ref().map(|real| mean(real) * 1e-3),
        real_p99_ms: real.as_ref().map(|real| p99(real)),
        mean_error_percent: real.as_ref().map(|real| 100.0 * (mean(&simulated) / mean(real) - 1.0)),
        d_percent: real.as_ref().map(|real| demerit_percent(&simulated, real, 1.0)),
    }
}

/// What the figures of free running allow one to believe.
fn verdict(evaluation: &Evaluation, model: &DeviceModel) -> Vec<String> {
    let mut verdict = Vec::new();
    let (free, skill) = (&evaluation.free_running, &evaluation.skill);
    let least = skill.over_histogram.min(skill.over_mean);
    if least < SKILL_FLOOR {
        let yardstick = if skill.over_histogram <= skill.over_mean {
            "histogram of the training part"
        } else {
            "mean of the training part"
        };
        let how = if least <= 0.0 { "no better than" } else { "hardly better than" };
        verdict.push(format!(
            "not worth using for single requests: run freely it predicts them {how} the plain {yardstick} (skill {least:.2})"
        ));
    }
    let allowed = (1.5 * free.floor99_percent).max(2.0);
    let within = if free.d99_percent <= allowed { "within" } else { "beyond" };
    verdict.push(format!(
        "distribution, run freely: D99 {:.1} % is {within} what chance allows ({allowed:.1} %)",
        free.d99_percent
    ));
    let allowed = (1.5 * free.slice.floor_percent).max(8.0);
    if free.slice.percent > allowed {
        verdict.push(format!(
            "do not trust it for one kind of request: within slices the error is {:.1} % (chance and tolerance: {allowed:.1} %)",
            free.slice.percent
        ));
    }
    if evaluation.outside_support > UNKNOWN_SHARE {
        verdict.push(format!(
            "{:.1} % of the requests are unlike any in the training part: there the model extrapolates",
            100.0 * evaluation.outside_support
        ));
    }
    if free.mean_error_percent.abs() > 5.0 {
        verdict.push(format!(
            "do not trust it at another load: free-running at the load given its mean is off by {:+.1} %",
            free.mean_error_percent
        ));
    }
    if model.model.as_response().is_some() {
        verdict.push(
            "response times by queue length carry no server: do not use this model at another load or layout"
                .to_owned(),
        );
    }
    verdict
}
