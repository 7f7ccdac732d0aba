//! What a request of each class does, in order: the itinerary the simulator follows. Visits are
//! interleaved over stations; a fractional visit happens with that probability. Inside a pool the
//! work of each station is one visit.

use crate::error::ModelError;
use crate::network::Network;

/// Visits per station beyond which a description is certainly wrong.
const MOST_VISITS: f64 = 10_000.0;

/// One step of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Exponential service with this mean, taken with this probability.
    Serve {
        /// Station.
        station: usize,
        /// Mean, seconds.
        mean: f64,
        /// Probability that the visit happens.
        probability: f64,
    },
    /// Wait for a unit of a pool.
    Acquire(usize),
    /// Give it back.
    Release(usize),
    /// One task per branch, then wait for all.
    Fork(Vec<(usize, f64)>),
}

/// The steps of one class.
///
/// # Errors
/// [`ModelError::Invalid`] for absurd visit counts.
pub fn compile(network: &Network, class: usize) -> Result<Vec<Step>, ModelError> {
    let mut steps = Vec::new();
    let forked: Vec<usize> = network.forks.iter().flat_map(|f| f.branches.clone()).collect();
    let plain: Vec<usize> = (0..network.stations.len()).filter(|k| !forked.contains(k)).collect();
    if network.pools.is_empty() {
        visits(network, class, &plain, &mut steps)?;
    } else {
        for &k in &plain {
            let held: f64 = network.pools.iter().map(|p| p.holds[k]).sum();
            serve_once(k, network.stations[k].demands[class] - held, &mut steps);
        }
        inside(network, None, &mut steps);
    }
    for fork in &network.forks {
        let branch = |&k: &usize| (k, network.stations[k].demands[class]);
        steps.push(Step::Fork(fork.branches.iter().map(branch).filter(|b| b.1 > 0.0).collect()));
    }
    Ok(steps)
}

fn serve_once(station: usize, mean: f64, steps: &mut Vec<Step>) {
    if mean > 1e-15 {
        steps.push(Step::Serve { station, mean, probability: 1.0 });
    }
}

fn visits(
    network: &Network,
    class: usize,
    stations: &[usize],
    steps: &mut Vec<Step>,
) -> Result<(), ModelError> {
    let mut round = 0.0;
    loop {
        let mut any = false;
        for &k in stations {
            let station = &network.stations[k];
            let count = station.visits[class];
            if count > MOST_VISITS {
                return Err(ModelError::invalid(
                    format!("station `{}` has {count} visits per request", station.name),
                    "the simulator follows at most 10,000; merge visits into longer ones",
                ));
            }
            let probability = (count - round).min(1.0);
            if station.demands[class] > 0.0 && probability > 1e-12 {
                any = true;
                let mean = station.demands[class] / count;
                steps.push(Step::Serve { station: k, mean, probability });
            }
        }
        if !any {
            return Ok(());
        }
        round += 1.0;
    }
}

/// The pools directly inside `level`, each acquired, used and released in turn.
fn inside(network: &Network, level: Option<usize>, steps: &mut Vec<Step>) {
    for (index, pool) in network.pools.iter().enumerate().filter(|(_, p)| p.parent == level) {
        steps.push(Step::Acquire(index));
        for (station, &mean) in pool.holds.iter().enumerate() {
            serve_once(station, mean, steps);
        }
        inside(network, Some(index), steps);
        steps.push(Step::Release(index));
    }
}
