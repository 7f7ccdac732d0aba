//! A sweep over load: responses, throughput and use of a device at each factor on its arrivals, the knee,
//! and where throughput stops to follow.
//!
//! The knee is where throughput over mean response is highest (Kleinrock's power, 1979): below it the
//! device is not made use of, above it waits grow faster than what gets done. It is looked for among the loads
//! asked for, in each run by itself. Every run has the same draws at all loads.

use crate::error::ModelError;
use crate::metrics::mean;
use crate::metrics::percentiles::{ByOperation, Percentiles};
use crate::models::DeviceModel;
use crate::request::Request;
use crate::server::station::Started;
use crate::sets::layout::Layout;
use crate::simulate::{check_load, closed_loop, closed_set, responses_us};
use serde::Serialize;

/// Share of the arrivals below which throughput no longer follows them.
const FOLLOWS: f64 = 0.95;

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// Factors on the density of arrivals, ascending.
    pub loads: &'a [f64],
    /// Seed of the first run; the others follow it.
    pub seed: u64,
    /// Runs at each load, with different draws.
    pub runs: u64,
    /// A set of such drives instead of one.
    pub set: Option<Layout>,
    /// Whether to run at loads of which the trace does not tell.
    pub allow_unskilled: bool,
}

/// One run at one load.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Mean response, ms.
    pub mean_ms: f64,
    /// 99th percentile, ms.
    pub p99_ms: f64,
    /// Requests completed a second, until the last was.
    pub throughput_per_second: f64,
    /// Share of time in use; of the busiest drive of a set.
    pub utilization: f64,
}

/// All runs at one load.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Requests arriving a second.
    pub arrivals_per_second: f64,
    /// Mean over the runs.
    pub throughput_per_second: f64,
    /// Mean over the runs.
    pub utilization: f64,
    /// Responses of all runs together.
    pub response: Percentiles,
    /// The same by operation.
    pub by_operation: ByOperation,
    /// The runs.
    pub runs: Vec<Run>,
}

/// One load.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Factor on the density of arrivals.
    pub load: f64,
    /// Why there are no figures, if so.
    pub refused: Option<String>,
    /// What came out.
    pub figures: Option<Figures>,
}

/// Where throughput over mean response is highest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Knee {
    /// The load, of all runs together.
    pub load: f64,
    /// It lies above this load in every run; `None` if it may lie below the first.
    pub above: Option<f64>,
    /// It lies below this load in every run; `None` if it may lie beyond the last.
    pub below: Option<f64>,
    /// Requests completed a second there.
    pub throughput_per_second: f64,
    /// Mean response there, ms.
    pub mean_ms: f64,
}

/// A sweep of one device.
#[derive(Debug, Clone, Serialize)]
pub struct Sweep {
    /// The loads in order.
    pub points: Vec<Point>,
    /// The knee, if any load has figures.
    pub knee: Option<Knee>,
    /// The first load at which less than 95 % of what arrives a second is completed.
    pub saturated_from: Option<f64>,
}

/// Sweeps `plan.loads` with `model` on the arrivals of `requests` (one device, in arrival order).
///
/// # Errors
/// When a load is no positive number, loads do not ascend, or the model cannot be a drive of a set.
pub fn sweep(model: &DeviceModel, requests: &[Request], plan: &Plan<'_>) -> Result<Sweep, ModelError> {
    if plan.loads.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(ModelError::Invalid(
            "the loads of a sweep do not ascend; write for example 0.5:3".to_owned(),
        ));
    }
    let mut points = Vec::new();
    for &load in plan.loads {
        // A set of drives is not what the trace was of, so its explanations are not at stake.
        let refusal = if plan.allow_unskilled || plan.set.is_some() {
            None
        } else {
            match check_load(model, requests, load, plan.seed) {
                Ok(()) => None,
                Err(told @ (ModelError::TraceDoesNotTell { .. } | ModelError::WaitsBeyond { .. })) => {
                    Some(told.to_string())
                }
                Err(other) => return Err(other),
            }
        };
        let figures = if refusal.is_none() { Some(at(model, requests, plan, load)?) } else { None };
        points.push(Point { load, refused: refusal, figures });
    }
    let known: Vec<(f64, &Figures)> =
        points.iter().filter_map(|point| Some((point.load, point.figures.as_ref()?))).collect();
    let slow = |figures: &Figures| figures.throughput_per_second < FOLLOWS * figures.arrivals_per_second;
    let saturated_from = known.iter().find(|(_, figures)| slow(figures)).map(|(load, _)| *load);
    let knee = knee(&known);
    Ok(Sweep { points, knee, saturated_from })
}

/// Runs `requests` `load` times as dense.
fn at(model: &DeviceModel, requests: &[Request], plan: &Plan<'_>, load: f64) -> Result<Figures, ModelError> {
    let (mut times_us, mut runs) = (Vec::new(), Vec::new());
    let mut arriving_ns = 1;
    for run in 0..plan.runs.max(1) {
        let seed = plan.seed.wrapping_add(run);
        let (services, busy_ns) = match plan.set {
            None => {
                let services = closed_loop(model, requests, load, seed)?;
                let busy: u64 = services.iter().map(|service| service.completion_ns - service.start_ns).sum();
                (services, busy as f64 / f64::from(model.places()))
            }
            Some(layout) => {
                let run = closed_set(model, layout, requests, load, seed)?;
                let busiest = run.members.iter().map(|work| work.busy_ns).max().unwrap_or(0);
                (run.services, busiest as f64)
            }
        };
        let first_ns = services.first().map_or(0, |service| service.arrival_ns);
        let span = |end: fn(&Started) -> u64| {
            services.iter().map(end).max().unwrap_or(0).saturating_sub(first_ns).max(1)
        };
        arriving_ns = span(|service| service.arrival_ns);
        let span_ns = span(|service| service.completion_ns) as f64;
        let times = responses_us(&services);
        let Some(of_run) = Percentiles::of(&times) else {
            return Err(ModelError::Invalid("there are no requests to simulate".to_owned()));
        };
        runs.push(Run {
            seed,
            mean_ms: of_run.mean_ms,
            p99_ms: of_run.p99_ms,
            throughput_per_second: services.len() as f64 / span_ns * 1e9,
            utilization: (busy_ns / span_ns).min(1.0),
        });
        times_us.extend(times);
    }
    let over_runs = |figure: fn(&Run) -> f64| mean(&runs.iter().map(figure).collect::<Vec<_>>());
    Ok(Figures {
        arrivals_per_second: requests.len() as f64 / arriving_ns as f64 * 1e9,
        throughput_per_second: over_runs(|run| run.throughput_per_second),
        utilization: over_runs(|run| run.utilization),
        response: Percentiles::of(&times_us).expect("no run is empty"),
        by_operation: ByOperation::of(requests, &times_us),
        runs,
    })
}

/// Index of the greatest; the first of equals.
fn greatest(powers: impl Iterator<Item = f64>) -> usize {
    let better = |best: (usize, f64), (at, power)| if power > best.1 { (at, power) } else { best };
    powers.enumerate().fold((0, f64::NEG_INFINITY), better).0
}

fn knee(known: &[(f64, &Figures)]) -> Option<Knee> {
    let power = |throughput: f64, mean_ms: f64| throughput / mean_ms.max(f64::MIN_POSITIVE);
    let of_all = greatest(known.iter().map(|(_, at)| power(at.throughput_per_second, at.response.mean_ms)));
    let (load, figures) = known.get(of_all)?;
    let of_run = |run: usize| {
        greatest(known.iter().map(|(_, at)| power(at.runs[run].throughput_per_second, at.runs[run].mean_ms)))
    };
    let each = (0..figures.runs.len()).map(of_run).chain([of_all]);
    let (low, high) = each.fold((of_all, of_all), |(low, high), at| (low.min(at), high.max(at)));
    Some(Knee {
        load: *load,
        above: low.checked_sub(1).map(|at| known[at].0),
        below: known.get(high + 1).map(|(load, _)| *load),
        throughput_per_second: figures.throughput_per_second,
        mean_ms: figures.response.mean_ms,
    })
}
