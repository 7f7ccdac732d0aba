//! Pools, locks and everything else of one closed class exactly: the numbers of requests at each place
//! are a Markov chain, and where it is small its equilibrium is computed. What is served before what
//! is as the simulator has it: outside a pool first, then the pools in the order of the list.

pub mod balance;
pub mod chain;

use super::layered::LayeredMeans;
use crate::closed::Tolerance;
use crate::error::ModelError;
use crate::network::Network;
use chain::{Activity, Chain, Route, RoutePlace};

/// States that `auto` takes on: a second at most.
pub const FEW_STATES: f64 = 200_000.0;
/// States beyond which the chain is refused: some hundred megabytes.
pub const MOST_STATES: f64 = 2e6;
/// Largest flow out of balance, over all flow.
const RESIDUAL: f64 = 1e-11;

/// Solves a network of one closed class.
///
/// # Errors
/// [`ModelError::Unsupported`] for more than [`MOST_STATES`] states and for what [`Route::new`] refuses;
/// [`ModelError::NotConverged`].
pub fn solve(network: &Network, tolerance: &Tolerance) -> Result<LayeredMeans, ModelError> {
    let route = Route::new(network)?;
    let states = count(network, &route);
    let chain = if states <= MOST_STATES { Chain::explore(&route, MOST_STATES as usize) } else { None };
    let Some(chain) = chain else {
        let feature = format!("{states:.2e} states, more than {MOST_STATES:.0e},");
        let place = &network.classes[0].name;
        return Err(ModelError::unsupported("markov", feature, place, "use `layered` or `simulation`"));
    };
    let found = balance::equilibrium(&chain, RESIDUAL.max(tolerance.residual * 1e-2), tolerance.iterations);
    if found.residual > tolerance.residual {
        return Err(ModelError::NotConverged {
            solver: "markov".into(),
            residual: found.residual,
            iterations: found.rounds,
            station: network.stations[0].name.clone(),
        });
    }
    let mut means = means(network, &route, &chain, &found.probability);
    (means.rounds, means.residual) = (found.rounds, found.residual);
    Ok(means)
}

fn means(network: &Network, route: &Route, chain: &Chain, probability: &[f64]) -> LayeredMeans {
    let pools = network.pools.len();
    let mut means = LayeredMeans {
        queue: vec![0.0; network.stations.len()],
        waiting: vec![0.0; pools],
        held: vec![0.0; pools],
        ..LayeredMeans::default()
    };
    // Every request passes the first place once.
    for (state, &weight) in probability.iter().enumerate() {
        let counts = chain.at(state);
        means.throughput += weight * route.rate(route.first(), &counts);
        for (place, &count) in route.places.iter().zip(&counts) {
            match place.kind {
                Activity::Serve(station, _) => means.queue[station] += weight * f64::from(count),
                Activity::Wait(pool) => means.waiting[pool] += weight * f64::from(count),
                Activity::Think(_) => {}
            }
        }
        let held = route.held(&counts);
        means.held.iter_mut().zip(held).for_each(|(mean, held)| *mean += weight * f64::from(held));
    }
    means
}

/// Whether `auto` takes the chain: pools it treats, and [`FEW_STATES`] at most.
pub fn suits(network: &Network) -> bool {
    let treated = network.forks.is_empty() && network.classes.len() == 1 && network.open().is_empty();
    treated && states(network).is_ok_and(|states| states <= FEW_STATES)
}

/// Number of states of a network that [`solve`] treats, counted level by level.
///
/// # Errors
/// As [`Route::new`].
pub fn states(network: &Network) -> Result<f64, ModelError> {
    Ok(count(network, &Route::new(network)?))
}

fn count(network: &Network, route: &Route) -> f64 {
    let n = network.population();
    below(network, route, None, n)[n]
}

/// Ways in which 0 to `most` requests can be in a level.
fn below(network: &Network, route: &Route, level: Option<usize>, most: usize) -> Vec<f64> {
    let here = |place: &&RoutePlace| {
        place.holds.last().copied() == level && !matches!(place.kind, Activity::Wait(_))
    };
    let mut ways = vec![0.0; most + 1];
    ways[0] = 1.0;
    for _ in route.places.iter().filter(here) {
        (1..=most).for_each(|n| ways[n] += ways[n - 1]);
    }
    for (index, pool) in network.pools.iter().enumerate().filter(|(_, p)| p.parent == level) {
        let inside = below(network, route, Some(index), pool.size.min(most));
        let of = |n: usize| inside[n.min(inside.len() - 1)];
        ways = (0..=most).map(|n| (0..=n).map(|m| of(m) * ways[n - m]).sum()).collect();
    }
    ways
}
