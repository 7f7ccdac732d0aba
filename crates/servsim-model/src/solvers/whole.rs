//! Solvers of whole networks made ready for the registry: each refuses what it does not treat, solves, and
//! completes the means to an answer.

use super::layered::LayeredMeans;
use super::{mixed, Options};
use crate::closed::ClosedMeans;
use crate::error::ModelError;
use crate::network::{Network, Pool};
use crate::solution::{PoolResult, Solution};

/// Runs the layered solver.
///
/// # Errors
/// As `solvers::layered`.
pub fn layered(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    one_class_without_forks(network, "layered")?;
    let means = super::layered::solve(network, &options.tolerance)?;
    with_pools(network, "layered", &means, "pools: hierarchical decomposition".into())
}

/// Runs the solver of Markov chains.
///
/// # Errors
/// As `solvers::markov`.
pub fn markov(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    one_class_without_forks(network, "markov")?;
    let means = super::markov::solve(network, &options.tolerance)?;
    let states = super::markov::states(network)?;
    let note = format!("Markov chain of {states:.0} states, exponential times");
    with_pools(network, "markov", &means, note)
}

fn one_class_without_forks(network: &Network, solver: &str) -> Result<(), ModelError> {
    if let Some(fork) = network.forks.first() {
        return Err(ModelError::unsupported(solver, "forks", &fork.name, "use `simulation`"));
    }
    if let Some(class) = network.classes.get(1) {
        let remedy = "merge them, or use `simulation`";
        return Err(ModelError::unsupported(solver, "several classes", &class.name, remedy));
    }
    if let Some(&open) = network.open().first() {
        let place = &network.classes[open].name;
        return Err(ModelError::unsupported(solver, "open classes", place, "use `simulation`"));
    }
    Ok(())
}

/// Completes means of stations and pools to an answer.
fn with_pools(
    network: &Network,
    solver: &str,
    found: &LayeredMeans,
    note: String,
) -> Result<Solution, ModelError> {
    let means = ClosedMeans {
        throughput: vec![found.throughput],
        queue: found.queue.iter().map(|&q| vec![q]).collect(),
        marginal: vec![None; network.stations.len()],
        iterations: found.rounds,
        residual: found.residual,
    };
    let means = mixed::reduce(network).guard(solver, means)?;
    let mut solution = mixed::assemble(network, &means);
    let class = &network.classes[0];
    let x = means.throughput[0];
    let response = network.population() as f64 / x - class.think();
    solution.classes[0].response = response;
    solution.classes[0].in_system = x * response;
    let pool = |(p, pool): (usize, &Pool)| PoolResult {
        name: pool.name.clone(),
        utilization: found.held[p] / pool.size as f64,
        waiting: found.waiting[p],
        wait: found.waiting[p] / x,
    };
    solution.pools = network.pools.iter().enumerate().map(pool).collect();
    solution.notes.push(note);
    Ok(solution)
}

/// Runs the fork-join solver.
///
/// # Errors
/// As `solvers::forkjoin`.
pub fn forkjoin(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    if network.forks.is_empty() {
        let remedy = "use `auto`";
        return Err(ModelError::unsupported("forkjoin", "models without a fork", &network.name, remedy));
    }
    if !network.open().is_empty() {
        let place = &network.classes[network.open()[0]].name;
        return Err(ModelError::unsupported("forkjoin", "open classes", place, "use `simulation`"));
    }
    let closed = mixed::reduce(network);
    let means = super::forkjoin::solve(network, &closed, &options.tolerance)?;
    let mut solution = mixed::assemble(network, &means);
    let response = network.population() as f64 / means.throughput[0] - network.classes[0].think();
    solution.classes[0].response = response;
    solution.classes[0].in_system = means.throughput[0] * response;
    solution
        .notes
        .push("fork-join: slowest of independent exponential branches, Nelson-Tantawi correction".into());
    Ok(solution)
}

/// Runs the priority solver.
///
/// # Errors
/// As `solvers::priority`.
pub fn priority(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    if let Some(pool) = network.pools.first() {
        return Err(ModelError::unsupported("priority", "pools", &pool.name, "use `simulation`"));
    }
    if let Some(fork) = network.forks.first() {
        return Err(ModelError::unsupported("priority", "forks", &fork.name, "use `simulation`"));
    }
    let means = super::priority::solve(network, &options.tolerance)?;
    let mut solution = mixed::assemble_whole(network, &means);
    solution.notes.push("priorities: MVA approximation of Bryant et al. (1984)".into());
    Ok(solution)
}
