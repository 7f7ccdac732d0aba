//! Preemptive-resume priorities by the MVA approximation of Bryant, Krzesinski, Lakshmi and Chandy
//! (ACM TOCS 2(4), 1984): at a priority station a request waits for the work found of its own and
//! higher priority, stretched by the share that higher priorities take while it is there:
//! `R = (D + sum over r >= c of D_r Q_r) / (1 - sum over h > c of U_h)`. The queue found on arrival
//! is Schweitzer's estimate. Exact for open single-station M/M/1; elsewhere errors of some per cent
//! (the simulator gives the truth). Closed and open classes may be mixed.

use crate::closed::{ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::{Class, Discipline, Load, Network, Speed, Station};

/// Relative weight of the new estimate: plain iteration can oscillate near saturation.
const DAMPING: f64 = 0.5;

/// Residence of class `c` at `station`, given throughputs and queues.
fn residence(station: &Station, classes: &[Class], c: usize, throughput: &[f64], queue: &[f64]) -> f64 {
    let demand = station.demands[c];
    if demand == 0.0 || station.speed == Speed::Delay {
        return demand;
    }
    let servers = match station.speed {
        Speed::Servers(m) => m as f64,
        _ => 1.0,
    };
    let found = |r: usize| match classes[r].load {
        Load::Closed { population, .. } if r == c => queue[r] * (1.0 - 1.0 / population.max(1) as f64),
        _ => queue[r],
    };
    let by_priority = station.discipline == Discipline::Priority;
    let (mut waiting, mut taken) = (0.0, 0.0);
    for r in 0..classes.len() {
        if by_priority && classes[r].priority > classes[c].priority {
            taken += throughput[r] * station.demands[r];
        }
        if !by_priority {
            waiting += demand * found(r);
        } else if classes[r].priority >= classes[c].priority {
            waiting += station.demands[r] * found(r);
        }
    }
    let own = demand / servers;
    let stretched = (own + waiting / servers) / (1.0 - taken).max(1e-12);
    stretched + demand * (servers - 1.0) / servers
}

/// Solves the whole network, classes in the order of `network.classes`.
///
/// # Errors
/// [`ModelError::NotConverged`]; [`ModelError::Unstable`]; [`ModelError::Unsupported`] for
/// load-dependent rates.
pub fn solve(network: &Network, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    super::mixed::check_stability(network)?;
    if let Some(station) = network.stations.iter().find(|s| matches!(s.speed, Speed::Rates(_))) {
        let remedy = "use servers = n, or `simulation`";
        return Err(ModelError::unsupported("priority", "load-dependent rates", &station.name, remedy));
    }
    let by_rank = |s: &&Station| s.discipline == Discipline::Priority && !s.speed.is_single();
    if let Some(station) = network.stations.iter().find(by_rank) {
        let feature = "priorities at several servers";
        return Err(ModelError::unsupported(
            "priority",
            feature,
            &station.name,
            "use `auto` or `simulation`",
        ));
    }
    let (stations, classes) = (network.stations.len(), network.classes.len());
    let mut queue = vec![vec![0.0; classes]; stations];
    let mut throughput: Vec<f64> = network.classes.iter().map(initial_throughput).collect();
    let mut last = (f64::INFINITY, 0);
    for iteration in 1..=tolerance.iterations {
        last = step(network, &mut throughput, &mut queue);
        if last.0 <= tolerance.residual {
            let marginal = vec![None; stations];
            let means = ClosedMeans { throughput, queue, marginal, iterations: iteration, residual: last.0 };
            return guard(network, means);
        }
    }
    let station = network.stations[last.1].name.clone();
    Err(ModelError::NotConverged {
        solver: "priority".into(),
        residual: last.0,
        iterations: tolerance.iterations,
        station,
    })
}

fn initial_throughput(class: &Class) -> f64 {
    match class.load {
        Load::Open { rate } => rate,
        Load::Closed { .. } => 0.0,
    }
}

/// One damped step; the largest relative change and where.
fn step(network: &Network, throughput: &mut [f64], queue: &mut [Vec<f64>]) -> (f64, usize) {
    let mut change = (0.0, 0);
    for c in 0..network.classes.len() {
        let times: Vec<f64> = network
            .stations
            .iter()
            .zip(queue.iter())
            .map(|(s, q)| residence(s, &network.classes, c, throughput, q))
            .collect();
        if let Load::Closed { population, think } = network.classes[c].load {
            let target = population as f64 / (think + times.iter().sum::<f64>());
            throughput[c] += DAMPING * (target - throughput[c]);
        }
        for (k, r) in times.iter().enumerate() {
            let target = throughput[c] * r;
            let moved = (target - queue[k][c]).abs() / target.max(1.0);
            if moved > change.0 {
                change = (moved, k);
            }
            queue[k][c] += DAMPING * (target - queue[k][c]);
        }
    }
    change
}

/// Withholds answers that use more than a station has (the approximation can, when a closed class
/// of high priority saturates a station).
fn guard(network: &Network, means: ClosedMeans) -> Result<ClosedMeans, ModelError> {
    for station in &network.stations {
        let load: f64 = means.throughput.iter().zip(&station.demands).map(|(x, d)| x * d).sum();
        let excess = load / station.speed.limit() - 1.0;
        if excess > 1e-9 {
            return Err(ModelError::Numerical {
                solver: "priority".into(),
                law: "the utilisation bound X D <= capacity",
                station: station.name.clone(),
                excess,
            });
        }
    }
    Ok(means)
}
