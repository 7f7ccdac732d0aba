//! How long a model remembers how it began, as far as open classes come to it: in runs much shorter than that no queue has
//! grown. Said before by what open classes offer to stations; and by the runs themselves, which know of all that holds
//! requests back.

use super::engine::{Measured, PARTS};
use super::summary::average;
use crate::network::{Fork, Load, Network, Speed, Station};
use crate::solvers::mixed;

/// Lengths of parts beyond which a memory cannot be told from one without end.
const LONGEST: f64 = 16.0;
/// Steps of a bisection that leave 1e-9 of it.
const HALVINGS: usize = 34;

/// The station that needs longest by what open classes offer alone, and that time, seconds; none where requests are lost.
pub fn of_open_load(network: &Network) -> Option<(&Station, f64)> {
    if network.stations.iter().any(|s| s.room.is_some()) {
        return None;
    }
    let queues = network.stations.iter().enumerate().filter(|(_, s)| s.speed != Speed::Delay);
    let offered = queues.filter(|(_, s)| mixed::offered(network, s) > 0.0);
    offered.map(|(k, s)| (s, relaxation(network, k))).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The time in which a station forgets how it began, seconds: that of a single server with exponential services is their
/// mean over `(1 - sqrt(utilisation))^2` (Cohen, The Single Server Queue, 1982). For the mean stands what is left, when
/// somebody looks, of the work that the request under way brings.
fn relaxation(network: &Network, station: usize) -> f64 {
    let place = &network.stations[station];
    let left = |(class, load): (usize, &Load)| match load {
        Load::Open { rate } => 0.5 * rate * squared_work(network, station, class),
        Load::Closed { .. } => 0.0,
    };
    let left: f64 = network.classes.iter().map(|class| &class.load).enumerate().map(left).sum();
    let work = mixed::offered(network, place);
    let (busy, mean) = (work / place.speed.limit(), left / work / place.speed.limit());
    if busy < 1.0 {
        mean / (1.0 - busy.sqrt()).powi(2)
    } else {
        f64::INFINITY
    }
}

/// Mean square of the work that a request of a class brings to a station in all its visits, seconds squared.
fn squared_work(network: &Network, station: usize, class: usize) -> f64 {
    let place = &network.stations[station];
    if place.demands[class] == 0.0 {
        return 0.0;
    }
    let is_whole =
        !network.pools.is_empty() || network.forks.iter().flat_map(Fork::stations).any(|k| k == station);
    // Where work is not divided into the visits, one is the most that it may vary by.
    let visits = if is_whole { 1.0 } else { place.visits[class] };
    let squared_visits = if network.routing(class).is_some() {
        // As if a request came back with the same chance each time.
        visits * (2.0 * visits.max(1.0) - 1.0)
    } else {
        visits * visits + visits.fract() * (1.0 - visits.fract())
    };
    let service = place.demands[class] / visits;
    service * service * (visits * place.law(class).square_cv() + squared_visits)
}

/// Which of these numbers, as [`Measured::numbers`] has them, was seen to forget most slowly, and the time that takes,
/// seconds.
pub fn as_seen(runs: &[Measured], numbers: &[usize]) -> Option<(usize, f64)> {
    let times = numbers.iter().map(|&number| relaxation_seen(runs, number)).enumerate();
    times.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// From how much less means over parts of the runs scatter than the number itself: the integral of its autocorrelation,
/// once for a number that swings about its mean, and twice for one that comes and goes as the line of a single server
/// does (Abate and Whitt, "Transient Behavior of the M/M/1 Queue", 1987).
fn relaxation_seen(runs: &[Measured], number: usize) -> f64 {
    let part = runs[0].span / PARTS as f64;
    let means: Vec<f64> =
        runs.iter().flat_map(|run| run.numbers.iter().map(|numbers| numbers[number] / part)).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let scatter = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (means.len() - 1) as f64;
    let variance = average(runs, |run| run.squared[number]) - mean * mean;
    if variance > 0.0 {
        part * memory(scatter / variance) * (1.0 + (variance / (mean * mean)).min(1.0))
    } else {
        0.0
    }
}

/// How long the memory of a number is that fades exponentially, in lengths of the parts whose means scatter by `share` of
/// its variance: the `m` of `share = 2 m (1 - m (1 - exp(-1 / m)))`.
fn memory(share: f64) -> f64 {
    let scatters = |m: f64| 2.0 * m * (1.0 + m * (-1.0 / m).exp_m1());
    let (mut low, mut high) = (0.0, LONGEST);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if scatters(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
