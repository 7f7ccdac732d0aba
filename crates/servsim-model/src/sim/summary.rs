//! What replications say together: means with 95 % Student intervals over them, and percentiles of all their requests.

use super::engine::Measured;
use super::quantiles::Quantiles;
use crate::bands::Accuracy;
use crate::error::ModelError;
use crate::network::{Network, Pool, Station};
use crate::solution::{ClassResult, Interval, PoolResult, Solution, StationResult};
use crate::special::student_quantile;

/// Summarises replications of one length.
///
/// # Errors
/// [`ModelError::Invalid`] when a class completed no request in one of them, [`ModelError::Saturated`] if others are
/// served before it.
pub fn of(network: &Network, runs: &[Measured], percents: &[f64]) -> Result<Solution, ModelError> {
    let classes = (0..network.classes.len())
        .map(|c| class_result(network, runs, c, percents))
        .collect::<Result<Vec<_>, _>>()?;
    let station = |(k, station)| station_result(network, station, runs, k, &classes);
    let stations = network.stations.iter().enumerate().map(station).collect();
    let throughput: f64 = classes.iter().map(|c| c.throughput).sum();
    let pools =
        network.pools.iter().enumerate().map(|(p, pool)| pool_result(pool, runs, p, throughput)).collect();
    Ok(Solution {
        solver: "simulation".into(),
        nature: "simulated",
        accuracy: Accuracy::Interval,
        classes,
        stations,
        pools,
        saturated: false,
        iterations: runs.len(),
        residual: 0.0,
        notes: Vec::new(),
    })
}

/// Mean over replications of a time integral divided by the span.
pub fn average(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    mean(&runs.iter().map(|r| of(r) / r.span).collect::<Vec<_>>())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The 95 % interval about a figure of all replications by what each of them says of it. No figure is below zero or above
/// `most`.
fn about(figure: f64, each: &[f64], most: f64) -> Interval {
    let (n, mean) = (each.len() as f64, mean(each));
    let variance = each.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_quantile(n - 1.0, 0.975) * (variance / n).sqrt();
    Interval { low: (figure - half).clamp(0.0, most), high: (figure + half).min(most) }
}

/// A mean over replications, with its interval.
fn estimate(runs: &[Measured], most: f64, of: impl Fn(&Measured) -> f64) -> (f64, Interval) {
    let each: Vec<f64> = runs.iter().map(of).collect();
    let mean = mean(&each);
    (mean, about(mean, &each, most))
}

/// The quotient, or 0 of nothing.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        0.0
    }
}

fn class_result(
    network: &Network,
    runs: &[Measured],
    class: usize,
    percents: &[f64],
) -> Result<ClassResult, ModelError> {
    let name = network.classes[class].name.clone();
    if network.classes[class].is_nobody() {
        return Ok(ClassResult { name, ..ClassResult::default() });
    }
    if runs.iter().any(|r| r.completed[class] == 0) {
        let fault = format!("no request of class `{name}` completed in one of the replications");
        let ranked = network.classes.iter().any(|other| other.priority > network.classes[class].priority);
        return Err(if ranked {
            let why = "classes of higher priority leave it hardly any time";
            ModelError::saturated(fault, format!("{why}: give it a higher one, or lower their load"))
        } else {
            ModelError::invalid(fault, "ask for more requests per replication")
        });
    }
    let completed = |r: &Measured| r.completed[class] as f64;
    let lost = |r: &Measured| r.lost[class] as f64;
    let (throughput, throughput_interval) = estimate(runs, f64::INFINITY, |r| completed(r) / r.span);
    let (response, response_interval) = estimate(runs, f64::INFINITY, |r| r.response[class] / completed(r));
    let lost_rate = average(runs, lost);
    let loss = lost_rate / (throughput + lost_rate);
    let losses: Vec<f64> = runs.iter().map(|r| lost(r) / (completed(r) + lost(r))).collect();
    let times: Vec<_> = runs.iter().map(|run| &run.histogram[class]).collect();
    let quantiles = Quantiles::of(&times, student_quantile(runs.len() as f64 - 1.0, 0.975));
    let known: Vec<_> =
        percents.iter().filter_map(|p| Some((*p, quantiles.as_ref()?.at(p / 100.0)?))).collect();
    Ok(ClassResult {
        name,
        throughput,
        response,
        in_system: throughput * response,
        percentiles: known.iter().map(|(p, q)| (*p, q.value)).collect(),
        beyond: known.iter().map(|(_, q)| q.beyond).collect(),
        percentile_intervals: known.iter().map(|(p, q)| (*p, q.interval.low, q.interval.high)).collect(),
        throughput_interval: Some(throughput_interval),
        response_interval: Some(response_interval),
        loss: network.loses().then_some(loss),
        loss_interval: network.loses().then(|| about(loss, &losses, 1.0)),
    })
}

fn station_result(
    network: &Network,
    station: &Station,
    runs: &[Measured],
    k: usize,
    classes: &[ClassResult],
) -> StationResult {
    let capacity = station.speed.capacity(network.population().max(1 << 20));
    let (utilization, utilization_interval) = if capacity.is_finite() {
        let (mean, interval) = estimate(runs, 1.0, |r| r.work[k] / r.span / capacity);
        (mean, Some(interval))
    } else {
        (0.0, None)
    };
    let offered: Vec<f64> = classes.iter().zip(&station.demands).map(|(c, d)| c.throughput * d).collect();
    let total: f64 = offered.iter().sum();
    let present = |r: &Measured| r.present[k].iter().sum::<f64>() / r.span;
    let of_class = |c| estimate(runs, f64::INFINITY, move |r| r.present[k][c] / r.span);
    let (queue, queue_intervals): (Vec<f64>, Vec<Interval>) = (0..classes.len()).map(of_class).unzip();
    let stay = |(c, class): (usize, &ClassResult)| {
        let each: Vec<f64> = runs.iter().map(|r| share(r.present[k][c], r.completed[c] as f64)).collect();
        let residence = share(queue[c], class.throughput);
        (residence, about(residence, &each, f64::INFINITY))
    };
    let (residence, residence_intervals) = classes.iter().enumerate().map(stay).unzip();
    StationResult {
        name: station.name.clone(),
        utilization,
        utilization_interval,
        present_interval: Some(estimate(runs, f64::INFINITY, present).1),
        residence,
        residence_intervals,
        queue,
        queue_intervals,
        utilization_by_class: offered.iter().map(|o| utilization * share(*o, total)).collect(),
    }
}

fn pool_result(pool: &Pool, runs: &[Measured], p: usize, throughput: f64) -> PoolResult {
    let (utilization, utilization_interval) = estimate(runs, 1.0, |r| r.held[p] / r.span / pool.size as f64);
    let (waiting, waiting_interval) = estimate(runs, f64::INFINITY, |r| r.waiting[p] / r.span);
    let completed = |r: &Measured| r.completed.iter().sum::<u64>() as f64;
    let waits: Vec<f64> = runs.iter().map(|r| share(r.waiting[p], completed(r))).collect();
    let wait = share(waiting, throughput);
    PoolResult {
        name: pool.name.clone(),
        utilization,
        utilization_interval: Some(utilization_interval),
        waiting,
        waiting_interval: Some(waiting_interval),
        wait,
        wait_interval: Some(about(wait, &waits, f64::INFINITY)),
    }
}
