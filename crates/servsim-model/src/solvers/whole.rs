//! Solvers of whole networks made ready for the registry: each refuses what it does not treat, solves, and
//! completes the means to an answer.

use super::{mixed, Options};
use crate::closed::ClosedMeans;
use crate::error::ModelError;
use crate::network::{Class, Discipline, Load, Network, Pool};
use crate::solution::{ClassResult, PoolResult, Solution};

/// Approximations for exponential times know nothing of other laws, rooms and repeated calls.
fn refuse_general(network: &Network, solver: &str) -> Result<(), ModelError> {
    let remedy = "use `auto` or `simulation`";
    let refuse = |feature: &str, place: &str| Err(ModelError::unsupported(solver, feature, place, remedy));
    for s in &network.stations {
        match s.discipline {
            _ if s.room.is_some() => return refuse("finite capacity", &s.name),
            Discipline::NonPreemptive => return refuse("non-preemptive priorities", &s.name),
            Discipline::Weighted => return refuse("sharing by weight", &s.name),
            _ if s.is_general() => return refuse("times that are not exponential", &s.name),
            _ => {}
        }
    }
    match network.pools.iter().find(|pool| (pool.calls - 1.0).abs() > 1e-12) {
        Some(pool) => refuse("repeated calls", &pool.name),
        None => Ok(()),
    }
}

/// Runs the layered solver.
///
/// # Errors
/// As `solvers::layered`.
pub fn layered(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    refuse_general(network, "layered")?;
    one_class_without_forks(network, "layered")?;
    let found = super::layered::solve(network, &options.tolerance)?;
    let means = ClosedMeans {
        throughput: vec![found.throughput],
        queue: found.queue.iter().map(|&q| vec![q]).collect(),
        marginal: vec![None; network.stations.len()],
        iterations: found.rounds,
        residual: found.residual,
    };
    let pools = (found.held.as_slice(), found.waiting.as_slice());
    with_pools(network, "layered", means, pools, "pools: hierarchical decomposition".into())
}

/// Runs the solver of Markov chains.
///
/// # Errors
/// As `solvers::markov`.
pub fn markov(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    let found = super::markov::solve(network, &options.tolerance, options.states)?;
    let means = ClosedMeans {
        throughput: found.throughput,
        queue: found.queue,
        marginal: vec![None; network.stations.len()],
        iterations: found.rounds,
        residual: found.residual,
    };
    let note = format!("Markov chain of {} states", found.states);
    if network.open().is_empty() {
        return with_pools(network, "markov", means, (&found.held, &found.waiting), note)
            .map(|solution| with_loss(network, solution));
    }
    let mut solution = mixed::assemble_whole(network, &means);
    for (class, result) in network.classes.iter().zip(&mut solution.classes) {
        respond_by_little(class, result);
    }
    solution.notes.push(note);
    Ok(with_loss(network, solution))
}

/// Says which share of each class's requests is lost; customers come as often as those who think leave it.
fn with_loss(network: &Network, mut solution: Solution) -> Solution {
    if !network.loses() {
        return solution;
    }
    for (c, (class, result)) in network.classes.iter().zip(&mut solution.classes).enumerate() {
        let present: f64 = solution.stations.iter().map(|s| s.queue[c]).sum();
        let come = match class.load {
            Load::Open { rate } => rate,
            Load::Closed { population, think } if think > 0.0 => (population as f64 - present) / think,
            Load::Closed { .. } => result.throughput,
        };
        result.response = if result.throughput > 0.0 { present / result.throughput } else { 0.0 };
        result.in_system = present;
        result.loss = Some(if come > 0.0 { (1.0 - result.throughput / come).max(0.0) } else { 0.0 });
    }
    solution
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

/// Completes means of stations, and of units held and requests waiting at pools, to an answer.
fn with_pools(
    network: &Network,
    solver: &str,
    means: ClosedMeans,
    (held, waiting): (&[f64], &[f64]),
    note: String,
) -> Result<Solution, ModelError> {
    let means = mixed::reduce(network).guard(solver, means)?;
    let mut solution = mixed::assemble(network, &means);
    for (class, result) in network.classes.iter().zip(&mut solution.classes) {
        respond_by_little(class, result);
    }
    let x = solution.throughput();
    let pool = |(p, pool): (usize, &Pool)| PoolResult {
        name: pool.name.clone(),
        utilization: held[p] / pool.size as f64,
        waiting: waiting[p],
        wait: waiting[p] / x,
        ..PoolResult::default()
    };
    solution.pools = network.pools.iter().enumerate().map(pool).collect();
    solution.notes.push(note);
    Ok(solution)
}

/// The response time that population, think time and throughput leave (Little's law).
fn respond_by_little(class: &Class, result: &mut ClassResult) {
    let Load::Closed { population, think } = class.load else { return };
    result.response = if population > 0 { population as f64 / result.throughput - think } else { 0.0 };
    result.in_system = result.throughput * result.response;
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
    refuse_general(network, "forkjoin")?;
    let closed = mixed::reduce(network);
    let means = super::forkjoin::solve(network, &closed, &options.tolerance)?;
    let mut solution = mixed::assemble(network, &means);
    respond_by_little(&network.classes[0], &mut solution.classes[0]);
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
    refuse_general(network, "priority")?;
    let means = super::priority::solve(network, &options.tolerance)?;
    let mut solution = mixed::assemble_whole(network, &means);
    solution.notes.push("priorities: MVA approximation of Bryant et al. (1984)".into());
    Ok(solution)
}
