//! Closed models, and open ones of finite capacity, exactly, product form or not: where every request is, and in which order they came where that
//! matters, is a Markov chain, and where it is small its equilibrium is computed. Pools and locks, priorities, first
//! come, first served with unequal times, forks, weights, loss; exponential times or phases. What is served before what is as the simulator
//! has it: outside a pool first, then the pools in the order of the list.

pub mod balance;
pub mod chain;
pub mod moves;
mod orders;
pub mod route;

use crate::closed::Tolerance;
use crate::error::ModelError;
use crate::network::{Load, Network};
use chain::Chain;
use route::{Activity, Route, RoutePlace};

/// States that `auto` takes on: a second at most.
pub const FEW_STATES: f64 = 200_000.0;
/// States beyond which the chain is refused: some hundred megabytes.
pub const MOST_STATES: f64 = 2e6;
/// Largest flow out of balance, over all flow.
const RESIDUAL: f64 = 1e-11;

/// What an equilibrium says.
#[derive(Debug, Clone, Default)]
pub struct ChainMeans {
    /// Requests per second and class.
    pub throughput: Vec<f64>,
    /// Mean number at each station, per class.
    pub queue: Vec<Vec<f64>>,
    /// Mean number waiting per pool.
    pub waiting: Vec<f64>,
    /// Mean number of units held per pool.
    pub held: Vec<f64>,
    /// States of the chain.
    pub states: usize,
    /// Sweeps made.
    pub rounds: usize,
    /// Residual of the last.
    pub residual: f64,
}

/// Solves a network.
///
/// # Errors
/// [`ModelError::Unsupported`] for more than `most` states and for what [`Route::new`] refuses;
/// [`ModelError::NotConverged`].
pub fn solve(network: &Network, tolerance: &Tolerance, most: f64) -> Result<ChainMeans, ModelError> {
    let route = Route::new(network)?;
    let states = count(network, &route);
    let chain = if states <= most { Chain::explore(&route, most as usize) } else { None };
    let Some(chain) = chain else {
        let feature = format!("{states:.2e} states or more, above {most:.0e},");
        let place = &network.classes[0].name;
        let remedy =
            if network.pools.is_empty() { "use `simulation`" } else { "use `layered` or `simulation`" };
        return Err(ModelError::unsupported("markov", feature, place, remedy));
    };
    if chain.size() > 1 && chain.out.contains(&0.0) {
        let feature = "requests that others of higher priority never let be served";
        let place = &network.classes[0].name;
        return Err(ModelError::unsupported("markov", feature, place, "raise their priority"));
    }
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

fn means(network: &Network, route: &Route, chain: &Chain, probability: &[f64]) -> ChainMeans {
    let (pools, classes) = (network.pools.len(), network.classes.len());
    let mut means = ChainMeans {
        throughput: vec![0.0; classes],
        queue: vec![vec![0.0; classes]; network.stations.len()],
        waiting: vec![0.0; pools],
        held: vec![0.0; pools],
        states: chain.size(),
        ..ChainMeans::default()
    };
    for &(state, class, rate) in &chain.ends {
        means.throughput[class as usize] += probability[state as usize] * rate;
    }
    for (state, &weight) in probability.iter().enumerate() {
        let state = chain.at(route, state);
        for (place, &count) in route.places.iter().zip(&state.counts) {
            let number = weight * f64::from(count);
            match &place.kind {
                Activity::Serve(station, _) | Activity::Part(station, _) => {
                    means.queue[*station][place.class] += number;
                }
                Activity::Parts(parts) => {
                    parts.iter().for_each(|part| means.queue[part.0][place.class] += number);
                }
                Activity::Wait(pool) => means.waiting[*pool] += number,
                Activity::Think(_) => {}
            }
        }
        let held = route.held(&state.counts);
        means.held.iter_mut().zip(held).for_each(|(mean, held)| *mean += weight * f64::from(held));
    }
    means
}

/// Whether `auto` tries the chain: what it treats, with [`FEW_STATES`] at most as far as can be told beforehand.
pub fn suits(network: &Network) -> bool {
    states(network).is_ok_and(|states| states <= FEW_STATES)
}

/// Number of states of a network that [`solve`] treats, or a little more.
///
/// # Errors
/// As [`Route::new`].
pub fn states(network: &Network) -> Result<f64, ModelError> {
    Ok(count(network, &Route::new(network)?))
}

fn count(network: &Network, route: &Route) -> f64 {
    let population = |class: usize| route.populations[class];
    let of = |class: usize| {
        if population(class) as f64 > MOST_STATES {
            return population(class) as f64;
        }
        let ways = below(network, route, class, None, population(class));
        match network.classes[class].load {
            Load::Closed { .. } => ways[population(class)],
            Load::Open { .. } => ways.iter().sum(),
        }
    };
    let classes = 0..network.classes.len();
    let numbers: f64 = classes.clone().map(of).product();
    if numbers > MOST_STATES || route.kept.is_empty() || !network.pools.is_empty() {
        return numbers;
    }
    orders::count(route, &classes.map(population).collect::<Vec<_>>())
}

/// Ways in which 0 to `most` requests of a class can be in a level.
fn below(network: &Network, route: &Route, class: usize, level: Option<usize>, most: usize) -> Vec<f64> {
    let here = |place: &&RoutePlace| place.class == class && place.holds.last().copied() == level;
    let mut ways = vec![0.0; most + 1];
    ways[0] = 1.0;
    let mut branches = 0;
    for place in route.places.iter().filter(here) {
        match place.kind {
            Activity::Wait(_) => {}
            Activity::Part(..) => branches += 1,
            _ => (1..=most).for_each(|n| ways[n] += ways[n - 1]),
        }
    }
    if branches > 0 {
        // In a section of m requests the slowest branch has m, the others fewer or as many.
        let least = |m: usize| (m as f64 + 1.0).powi(branches) - (m as f64).powi(branches);
        ways = joined(&ways, &(0..=most).map(least).collect::<Vec<_>>());
    }
    for (index, pool) in network.pools.iter().enumerate().filter(|(_, p)| p.parent == level) {
        let inside = below(network, route, class, Some(index), pool.size.min(most));
        ways = joined(&ways, &inside);
    }
    ways
}

/// Ways in which `n` requests can be in two parts of a level, given those for each part; `other` stays what it is last
/// beyond its end. Where `other` grows for long there are more than [`MOST_STATES`], and no need to know how many.
fn joined(ways: &[f64], other: &[f64]) -> Vec<f64> {
    let last = other[other.len() - 1];
    // Whole numbers, so that any difference is one.
    let grows = other.iter().rposition(|&of| (of - last).abs() > 0.5).map_or(0, |at| at + 1);
    let least: f64 = other[..grows].iter().sum();
    if least > MOST_STATES && ways.iter().all(|&ways| ways >= 1.0) {
        return vec![least; ways.len()];
    }
    let mut steady = 0.0;
    let with = |n: usize| {
        steady += n.checked_sub(grows).map_or(0.0, |n| ways[n]);
        (0..grows.min(n + 1)).map(|m| other[m] * ways[n - m]).sum::<f64>() + steady * last
    };
    (0..ways.len()).map(with).collect()
}
