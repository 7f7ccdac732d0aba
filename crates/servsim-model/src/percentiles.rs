//! Response-time percentiles. The mean and variance of the time a request spends at each station
//! are found, the stations are taken as independent, and a gamma distribution is fitted to the two
//! moments of the sum. For one closed class the variance follows exactly from the queue an arrival
//! finds (arrival theorem: the network with one customer fewer), first come first served; for
//! several classes, and open ones, a visit is taken as exponential, which is exact for M/M/1.
//! The simulator gives percentiles without these assumptions.

use crate::closed::{Closed, Tolerance};
use crate::error::ModelError;
use crate::network::{Network, Speed};
use crate::solution::Solution;
use crate::special::gamma_quantile;

/// Adds percentiles (in per cent, e.g. 95) to every class of `solution`.
///
/// # Errors
/// Whatever the exact solver of the reduced population reports.
pub fn add(
    network: &Network,
    closed: Option<&Closed>,
    solution: &mut Solution,
    percents: &[f64],
    tolerance: &Tolerance,
) -> Result<(), ModelError> {
    if let Some(bad) = percents.iter().find(|p| !(0.0..100.0).contains(*p) || **p == 0.0) {
        return Err(ModelError::invalid(
            format!("percentile {bad} is not between 0 and 100"),
            "ask for values such as 50, 90, 99",
        ));
    }
    if percents.is_empty() {
        return Ok(());
    }
    let variances = match closed {
        Some(closed) if network.classes.len() == 1 && closed.population[0] > 0 => {
            match arrival_variance(network, closed, tolerance) {
                Ok(variance) => vec![variance],
                // The means stand; only the exact variance is out of reach.
                Err(ModelError::TooLarge { .. }) => vec![exponential_variance(network, solution, 0)],
                Err(error) => return Err(error),
            }
        }
        _ => (0..network.classes.len()).map(|c| exponential_variance(network, solution, c)).collect(),
    };
    for (class, variance) in solution.classes.iter_mut().zip(variances) {
        let quantile = |p: &f64| (*p, gamma_quantile(class.response, variance, p / 100.0));
        class.percentiles = percents.iter().map(quantile).collect();
    }
    solution.notes.push("percentiles: independent stations, gamma distribution fitted to two moments".into());
    Ok(())
}

/// Each visit exponential with its mean residence.
fn exponential_variance(network: &Network, solution: &Solution, class: usize) -> f64 {
    let of = |(station, result): (&crate::network::Station, &crate::solution::StationResult)| {
        result.residence[class].powi(2) / station.visits[class]
    };
    network.stations.iter().zip(&solution.stations).map(of).sum()
}

/// Sum over stations of the variance of an Erlang mixture over the queue found on arrival.
fn arrival_variance(network: &Network, closed: &Closed, tolerance: &Tolerance) -> Result<f64, ModelError> {
    let found = crate::solvers::convolution::solve(&closed.without_one(0), tolerance)?;
    let mut total = 0.0;
    for (k, station) in network.stations.iter().enumerate() {
        let visits = station.visits[0];
        let service = closed.demands[k][0] / visits;
        let variance = match (&station.speed, &found.marginal[k]) {
            (Speed::Delay, _) | (_, None) => service * service,
            (speed, Some(p)) => sojourn_variance(speed, service, p),
        };
        total += visits * variance;
    }
    Ok(total)
}

/// Variance of waiting for the requests found plus the own service.
fn sojourn_variance(speed: &Speed, service: f64, found: &[f64]) -> f64 {
    let (mut first, mut second) = (0.0, 0.0);
    for (n, p) in found.iter().enumerate() {
        let servers = speed.limit();
        let ahead = (n as f64 + 1.0 - servers).max(0.0);
        let (wait, wait_variance, own) = if let Speed::Servers(_) = speed {
            (ahead * service / servers, ahead * (service / servers).powi(2), service)
        } else {
            let step = service / speed.at(n + 1);
            (n as f64 * step, n as f64 * step * step, step)
        };
        let mean = wait + own;
        first += p * mean;
        second += p * (mean * mean + wait_variance + own * own);
    }
    (second - first * first).max(0.0)
}
