//! The one entry point: picks a solver (or takes the one named), refuses features it does not
//! treat, and completes the answer with percentiles and notes.

use crate::closed::ClosedMeans;
use crate::error::ModelError;
use crate::network::{Discipline, Network, Pool, Speed};
use crate::percentiles;
use crate::solution::{PoolResult, Solution};
use crate::solvers::layered::LayeredMeans;
use crate::solvers::{
    find, forkjoin as forkjoin_solver, layered as layered_solver, markov as markov_solver, mixed, Nature,
    Options, Run,
};

/// Lattice points times stations up to which `auto` still solves exactly.
const AUTO_EXACT_LIMIT: f64 = 2e6;

/// Solves `network` with the solver called `name`; `"auto"` picks an exact one where it can.
///
/// # Errors
/// Every [`ModelError`]; see there.
pub fn solve(network: &Network, name: &str, options: &Options) -> Result<Solution, ModelError> {
    network.check()?;
    let name = if name == "auto" { choose(network) } else { name };
    let solver = find(name)?;
    let mut solution = match solver.run {
        Run::Whole(run) => run(network, options)?,
        Run::Closed(run) => {
            refuse_beyond_product_form(network, name)?;
            let (mut solution, _) = mixed::solve(network, run, &options.tolerance)?;
            let reduced = mixed::reduce(network);
            let closed = network.open().is_empty().then_some(&reduced);
            percentiles::add(network, closed, &mut solution, &options.percentiles, &options.tolerance)?;
            if solver.nature == Nature::Approximate {
                note_servers(network, &mut solution);
            }
            solution
        }
    };
    solution.solver = name.into();
    solution.nature = solver.nature.name();
    Ok(solution)
}

/// As [`solve`], for one of many points: with `"auto"` a chain gives way to the quicker decomposition.
///
/// # Errors
/// As [`solve`].
pub fn solve_quickly(network: &Network, name: &str, options: &Options) -> Result<Solution, ModelError> {
    if name == "auto" && choose(network) == "markov" {
        match solve(network, "layered", options) {
            Err(ModelError::Unsupported { .. }) => {}
            other => return other,
        }
    }
    solve(network, name, options)
}

/// The solver that `auto` stands for.
pub fn choose(network: &Network) -> &'static str {
    if !network.pools.is_empty() {
        return if markov_solver::suits(network) { "markov" } else { "layered" };
    }
    if !network.forks.is_empty() {
        return "forkjoin";
    }
    if network.stations.iter().any(|s| s.discipline == Discipline::Priority) {
        return "priority";
    }
    let closed = network.closed();
    let simple = network.stations.iter().all(|s| s.speed.is_single() || s.speed == Speed::Delay);
    let of = |c: &usize| match network.classes[*c].load {
        crate::network::Load::Closed { population, .. } => population as f64 + 1.0,
        crate::network::Load::Open { .. } => 1.0,
    };
    let points: f64 = closed.iter().map(of).product();
    let states = if simple || closed.len() == 1 { points } else { points * points / 100.0 };
    match (states * network.stations.len() as f64 <= AUTO_EXACT_LIMIT || closed.len() <= 1, simple) {
        (true, true) => "mva",
        (true, false) => "convolution",
        (false, _) => "linearizer",
    }
}

/// Product-form solvers refuse pools, forks, priorities, and FCFS with unequal times per visit.
fn refuse_beyond_product_form(network: &Network, solver: &str) -> Result<(), ModelError> {
    if let Some(pool) = network.pools.first() {
        let remedy = "use `layered` or `simulation`";
        return Err(ModelError::unsupported(solver, "pools", &pool.name, remedy));
    }
    if let Some(fork) = network.forks.first() {
        return Err(ModelError::unsupported(solver, "forks", &fork.name, "use `forkjoin` or `simulation`"));
    }
    for station in network.stations.iter().filter(|s| s.speed != Speed::Delay) {
        if station.discipline == Discipline::Priority {
            let remedy = "use `priority` or `simulation`";
            return Err(ModelError::unsupported(solver, "priorities", &station.name, remedy));
        }
        let times: Vec<f64> = station
            .demands
            .iter()
            .zip(&station.visits)
            .filter(|(d, _)| **d > 0.0)
            .map(|(d, v)| d / v)
            .collect();
        let unequal = times.iter().any(|t| (t - times[0]).abs() > 1e-9 * times[0]);
        if station.discipline == Discipline::Fcfs && unequal {
            let remedy = "set discipline = \"ps\", give visits that make the times per visit equal, or use `simulation`";
            let feature = "first come, first served with unequal service times per visit";
            return Err(ModelError::unsupported(solver, feature, &station.name, remedy));
        }
    }
    Ok(())
}

fn note_servers(network: &Network, solution: &mut Solution) {
    if network.stations.iter().any(|s| matches!(s.speed, Speed::Servers(m) if m > 1)) {
        solution.notes.push(
            "several servers: Seidmann's split into a fast server and a delay; `convolution` is exact".into(),
        );
    }
}

/// Runs the layered solver.
///
/// # Errors
/// As `solvers::layered`.
pub fn layered(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    one_class_without_forks(network, "layered")?;
    let means = layered_solver::solve(network, &options.tolerance)?;
    let note = "pools: hierarchical decomposition; percentiles need `simulation`";
    with_pools(network, "layered", &means, note.into())
}

/// Runs the solver of Markov chains.
///
/// # Errors
/// As `solvers::markov`.
pub fn markov(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    one_class_without_forks(network, "markov")?;
    let means = markov_solver::solve(network, &options.tolerance)?;
    let states = markov_solver::states(network)?;
    let note =
        format!("Markov chain of {states:.0} states, exponential times; percentiles need `simulation`");
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
    let means = forkjoin_solver::solve(network, &closed, &options.tolerance)?;
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
    let means = crate::solvers::priority::solve(network, &options.tolerance)?;
    let mut solution = mixed::assemble_whole(network, &means);
    percentiles::add(network, None, &mut solution, &options.percentiles, &options.tolerance)?;
    solution.notes.push("priorities: MVA approximation of Bryant et al. (1984)".into());
    Ok(solution)
}
