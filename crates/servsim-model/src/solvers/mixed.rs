//! Open and mixed networks by exact reduction (Sauer and Chandy 1981; Bruell, Balbo and Afshari
//! 1984): open work at a station slows it for the closed classes, who are then solved alone, and
//! the open classes meet the closed queue. At a single server the reduction is the factor
//! `1 / (1 - rho)`; elsewhere the effective rates are ratios of positive series.

use crate::bands::Accuracy;
use crate::closed::{Closed, ClosedMeans, ClosedSolver, Tolerance};
use crate::error::ModelError;
use crate::network::{Load, Network, Speed, Station};
use crate::solution::{ClassResult, Solution, StationResult};

/// Load of all open classes per station, in busy servers.
pub fn offered(network: &Network, station: &Station) -> f64 {
    let of = |(class, demand): (&crate::network::Class, &f64)| match class.load {
        Load::Open { rate } => rate * demand,
        Load::Closed { .. } => 0.0,
    };
    network.classes.iter().zip(&station.demands).map(of).sum()
}

/// Refuses open load at or above the capacity of any station.
///
/// # Errors
/// [`ModelError::Unstable`] for the most overloaded station.
pub fn check_stability(network: &Network) -> Result<(), ModelError> {
    // What is lost offers nothing; the simulator looks whether the rest keeps up.
    if network.stations.iter().any(|s| s.room.is_some()) {
        return Ok(());
    }
    let relative = |s: &&Station| offered(network, s) / s.speed.limit();
    let Some(worst) = network.stations.iter().max_by(|a, b| relative(a).total_cmp(&relative(b))) else {
        return Ok(());
    };
    let (offered, capacity) = (offered(network, worst), worst.speed.limit());
    if offered < capacity {
        return Ok(());
    }
    let factor = 0.95 * capacity / offered;
    Err(ModelError::Unstable { station: worst.name.clone(), offered, capacity, factor })
}

/// What a class and those that are served before it ask of every station that ranks them, as shares of what it can do.
/// An open class falls behind where that is 1 or more.
///
/// `rate` gives the requests per second of a class by its number.
pub fn asked_of_ranked<'a>(
    network: &'a Network,
    class: usize,
    rate: impl Fn(usize) -> f64 + 'a,
) -> impl Iterator<Item = (&'a Station, f64)> {
    let before = not_after(network, class);
    let ranked = move |s: &&Station| s.discipline.is_ranked() && s.room.is_none() && s.demands[class] > 0.0;
    network.stations.iter().filter(ranked).map(move |s| {
        let load: f64 = before.iter().map(|&c| rate(c) * s.demands[c]).sum();
        (s, load / s.speed.capacity(network.population().max(1 << 20)))
    })
}

/// A class, those served before it, and open ones of its own rank: closed ones of that only share with it.
pub fn not_after(network: &Network, class: usize) -> Vec<usize> {
    let own = network.classes[class].priority;
    let is_before = |c: &usize| match network.classes[*c].load {
        Load::Open { .. } => network.classes[*c].priority >= own,
        Load::Closed { .. } => network.classes[*c].priority > own,
    };
    (0..network.classes.len()).filter(is_before).collect()
}

/// The logarithm of `sum over l of C(n+l, l) rho^l / prod_{j=n+1..n+l} alpha(j)` and the mean of `l` under it:
/// the weight and number of open customers while `n` closed ones are present. With hundreds of busy servers the
/// terms grow beyond any number before they fall, so all are scaled down on the way.
fn open_series(speed: &Speed, rho: f64, n: usize) -> (f64, f64) {
    const LARGE: f64 = 1e200;
    let (mut term, mut sum, mut first, mut scale) = (1.0, 1.0, 0.0, 0.0);
    let mut l = 0usize;
    loop {
        let ratio = (n + l + 1) as f64 / (l + 1) as f64 * rho / speed.at(n + l + 1);
        term *= ratio;
        l += 1;
        sum += term;
        first += l as f64 * term;
        // The ratios fall towards rho / limit < 1, so the rest is a shrinking geometric tail.
        if ratio < 1.0 && term * l as f64 <= 1e-18 * (1.0 - ratio) * first.max(1e-300) {
            return (scale + f64::ln(sum), first / sum);
        }
        if sum > LARGE {
            (term, sum, first) = (term / LARGE, sum / LARGE, first / LARGE);
            scale += LARGE.ln();
        }
    }
}

/// The closed classes, each station slowed by the open work it also does.
pub fn reduce(network: &Network) -> Closed {
    let closed = network.closed();
    let population = network.population();
    let mut result = Closed {
        names: Vec::new(),
        demands: Vec::new(),
        speeds: Vec::new(),
        population: Vec::new(),
        think: Vec::new(),
    };
    for &c in &closed {
        if let Load::Closed { population, think } = network.classes[c].load {
            result.population.push(population);
            result.think.push(think);
        }
    }
    for station in &network.stations {
        let rho = offered(network, station);
        let slow = if station.speed.is_single() { 1.0 / (1.0 - rho) } else { 1.0 };
        result.names.push(station.name.clone());
        result.demands.push(closed.iter().map(|&c| station.demands[c] * slow).collect());
        result.speeds.push(if rho == 0.0 || station.speed.is_single() || station.speed == Speed::Delay {
            station.speed.clone()
        } else {
            effective(&station.speed, rho, population)
        });
    }
    result
}

/// Rates that the closed classes see: `alpha'(n) = alpha(n) s(n-1) / s(n)`.
fn effective(speed: &Speed, rho: f64, population: usize) -> Speed {
    let series: Vec<f64> = (0..=population).map(|n| open_series(speed, rho, n).0).collect();
    let rate = |n: usize| speed.at(n) * (series[n - 1] - series[n]).exp();
    Speed::Rates((1..=population.max(1)).map(|n| if n <= population { rate(n) } else { 1.0 }).collect())
}

/// Solves closed, open or mixed networks, the closed part by `solver`.
///
/// # Errors
/// [`ModelError::Unstable`], or whatever the closed solver reports.
pub fn solve(
    network: &Network,
    solver: ClosedSolver,
    tolerance: &Tolerance,
) -> Result<(Solution, ClosedMeans), ModelError> {
    check_stability(network)?;
    let closed = reduce(network);
    let means = if closed.classes() == 0 { closed.empty_means() } else { solver(&closed, tolerance)? };
    Ok((assemble(network, &means), means))
}

/// Mean number of open customers of all classes at a station.
fn open_number(station: &Station, rho: f64, closed_queue: f64, marginal: Option<&Vec<f64>>) -> f64 {
    if rho == 0.0 {
        return 0.0;
    }
    match &station.speed {
        Speed::Delay => rho,
        Speed::Servers(1) => rho * (1.0 + closed_queue) / (1.0 - rho),
        speed => match marginal {
            Some(p) => p.iter().enumerate().map(|(n, p)| p * open_series(speed, rho, n).1).sum(),
            None => open_series(speed, rho, 0).1,
        },
    }
}

/// Combines closed means and open classes into a full answer.
pub fn assemble(network: &Network, means: &ClosedMeans) -> Solution {
    let count = network.classes.len();
    let mut throughput = vec![0.0; count];
    for (index, c) in network.closed().into_iter().enumerate() {
        throughput[c] = means.throughput[index];
    }
    for c in network.open() {
        if let Load::Open { rate } = network.classes[c].load {
            throughput[c] = rate;
        }
    }
    let queues = (0..network.stations.len()).map(|k| queues(network, k, means, &throughput)).collect();
    complete(network, &throughput, queues, means)
}

/// As [`assemble`], for means that already cover open and closed classes in the network's order.
pub fn assemble_whole(network: &Network, means: &ClosedMeans) -> Solution {
    complete(network, &means.throughput, means.queue.clone(), means)
}

fn complete(network: &Network, throughput: &[f64], queues: Vec<Vec<f64>>, means: &ClosedMeans) -> Solution {
    let stations: Vec<StationResult> = network
        .stations
        .iter()
        .zip(queues)
        .map(|(station, queue)| station_result(network, station, queue, throughput))
        .collect();
    let classes = (0..throughput.len())
        .map(|c| {
            let response: f64 = stations.iter().map(|s| s.residence[c]).sum();
            ClassResult {
                name: network.classes[c].name.clone(),
                throughput: throughput[c],
                response,
                in_system: throughput[c] * response,
                ..ClassResult::default()
            }
        })
        .collect();
    Solution {
        solver: String::new(),
        nature: "exact",
        accuracy: Accuracy::Exact,
        classes,
        stations,
        pools: Vec::new(),
        saturated: false,
        iterations: means.iterations,
        residual: means.residual,
        notes: Vec::new(),
    }
}

/// Mean number present per class, open ones included.
fn queues(network: &Network, k: usize, means: &ClosedMeans, throughput: &[f64]) -> Vec<f64> {
    let station = &network.stations[k];
    let rho = offered(network, station);
    let mut queue = vec![0.0; throughput.len()];
    let mut closed_queue = 0.0;
    for (index, c) in network.closed().into_iter().enumerate() {
        queue[c] = means.queue[k][index];
        closed_queue += queue[c];
    }
    let open = open_number(station, rho, closed_queue, means.marginal[k].as_ref());
    for c in network.open() {
        if rho > 0.0 {
            queue[c] = open * throughput[c] * station.demands[c] / rho;
        }
    }
    queue
}

fn station_result(
    network: &Network,
    station: &Station,
    queue: Vec<f64>,
    throughput: &[f64],
) -> StationResult {
    let capacity = station.speed.capacity(network.population().max(1 << 20));
    let utilization_by_class: Vec<f64> =
        throughput.iter().zip(&station.demands).map(|(x, d)| x * d / capacity).collect();
    let residence = |c: usize| if throughput[c] > 0.0 { queue[c] / throughput[c] } else { 0.0 };
    StationResult {
        name: station.name.clone(),
        utilization: utilization_by_class.iter().sum(),
        residence: (0..queue.len()).map(residence).collect(),
        queue,
        utilization_by_class,
        ..StationResult::default()
    }
}
