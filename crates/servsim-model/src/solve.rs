//! The one entry point: picks a solver (or takes the one named), refuses features it does not
//! treat, and completes the answer with percentiles and notes.

use crate::agreement::{self, MOST_CORRECTED};
use crate::bands::Accuracy;
use crate::error::ModelError;
use crate::network::{Discipline, Network, Speed};
use crate::percentiles;
use crate::presumed;
use crate::product_form;
use crate::sim::{self, Plan, Simulation};
use crate::solution::Solution;
use crate::solvers::{find, markov, mixed, station, Nature, Options, Run};

/// Lattice points times stations up to which `auto` solves exactly: some milliseconds.
const QUICKLY_EXACT: f64 = 2e6;
/// The same where no approximation is known to be near: a second, and a quarter of a gigabyte.
const PATIENTLY_EXACT: f64 = 3e7;

/// Solves `network` with the solver called `name`; `"auto"` picks an exact one where it can.
///
/// # Errors
/// Every [`ModelError`]; see there.
pub fn solve(network: &Network, name: &str, options: &Options) -> Result<Solution, ModelError> {
    network.check()?;
    if name == "auto" {
        return automatic(network, options);
    }
    figures(network, name, options).and_then(|solution| completed(network, options, solution))
}

/// The answer of one solver, without percentiles.
fn figures(network: &Network, name: &str, options: &Options) -> Result<Solution, ModelError> {
    let mut solution = means(network, name, options)?;
    if let Some(fellow) = agreement::fellow(network, &solution) {
        match means(network, fellow, options) {
            Ok(other) => solution.accuracy = agreement::accuracy(&solution, &other),
            Err(error) if another_may(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(solution)
}

/// The means by one solver, which has looked at no other.
fn means(network: &Network, name: &str, options: &Options) -> Result<Solution, ModelError> {
    let solver = find(name)?;
    let mut solution = match solver.run {
        Run::Whole(run) => run(network, options)?,
        Run::Closed(run) => {
            product_form::require(network, name, None)?;
            let (mut solution, _) = mixed::solve(network, run, &options.tolerance)?;
            if solver.nature == Nature::Approximate {
                note_servers(network, &mut solution);
            }
            solution
        }
    };
    solution.solver = name.into();
    solution.nature = solver.nature.name();
    solution.accuracy = match solver.nature {
        Nature::Exact => Accuracy::Exact,
        Nature::Approximate => Accuracy::of(network, name, Some(solution.busiest())),
        Nature::Simulated => Accuracy::Interval,
    };
    Ok(solution)
}

/// The answer with percentiles, which a simulation has already, and what is presumed of its stations.
fn completed(network: &Network, options: &Options, mut solution: Solution) -> Result<Solution, ModelError> {
    if solution.accuracy != Accuracy::Interval {
        percentiles::add(network, options, &mut solution)?;
    }
    presumed::note(network, &mut solution);
    Ok(solution)
}

/// Relative half-width that `auto` simulates to.
const AUTO_HALF_WIDTH: f64 = 0.01;
/// Visits after which `auto` is content with less: about two seconds.
const AUTO_VISITS: f64 = 4e6;

/// Exact where a solver is, and quick; else approximated where the band is narrow; else exact if that takes a second;
/// else simulated, with intervals; else, with too many customers to simulate, approximated with whatever band is
/// known. The answer says why. What cannot be simulated, and has an approximation of unknown error only, is refused.
fn automatic(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    let mut name = choose(network);
    if name == "markov" {
        // The number of states was only estimated, and a class may starve.
        let few = Options { states: markov::FEW_STATES, ..options.clone() };
        match solve(network, name, &few) {
            Err(error) if another_may(&error) => name = approximate(network),
            other => return other.map(|solution| chosen(solution, "exact: few enough states")),
        }
    }
    if matches!(name, "mva" | "convolution" | "station") {
        let why = if name == "station" { "exact: one open station" } else { "exact: product form" };
        return solve(network, name, options).map(|solution| chosen(solution, why));
    }
    let simulation = Plan {
        half_width: options.simulation.half_width.or(Some(AUTO_HALF_WIDTH)),
        visits: Some(AUTO_VISITS),
        ..options.simulation.clone()
    };
    let options = &Options { simulation, ..options.clone() };
    let mut approximated = None;
    if matches!(name, "linearizer" | "aql") {
        // How near these are, their answer tells.
        match figures(network, name, options) {
            Ok(found) if found.accuracy.is_small() => {
                let why = "too large for an exact solver, and the band is narrow";
                return completed(network, options, found).map(|solution| chosen(solution, why));
            }
            Err(error) if !another_may(&error) => return Err(error),
            other => approximated = Some(other),
        }
        if let Some(exact) = exact(network, PATIENTLY_EXACT) {
            match solve(network, exact, options) {
                Err(error) if another_may(&error) => {}
                other => return other.map(|solution| chosen(solution, "exact: product form")),
            }
        }
    }
    let accuracy = match &approximated {
        Some(Ok(found)) => found.accuracy.clone(),
        _ => Accuracy::of(network, name, None),
    };
    let complete = |found: Result<_, _>| found.and_then(|solution| completed(network, options, solution));
    let mut simulated = None;
    let ready = match Simulation::new(network, &options.simulation) {
        Err(ModelError::Interrupted) => return Err(ModelError::Interrupted),
        ready => ready,
    };
    if let Ok(ready) = &ready {
        if ready.effort(&options.simulation).is_ok_and(|(_, visits)| visits <= sim::MOST_VISITS) {
            let why = match (name, &accuracy) {
                ("simulation", _) => "neither exact nor approximate solvers treat it".into(),
                (_, Accuracy::Band { throughput, response, .. }) => format!(
                    "too large for an exact solver, and `{name}` may be off by {:.2} % of throughput and {:.2} % of response time",
                    throughput * 100.0,
                    response * 100.0
                ),
                _ => format!("too large for an exact solver, and the error of `{name}` is not known"),
            };
            simulated = Some(complete(ready.solve(options)).map(|solution| chosen(solution, &why)));
        }
    }
    match simulated {
        Some(found) => found,
        None if name == "simulation" => solve(network, name, options),
        None => match (approximated.map_or_else(|| solve(network, name, options), complete), ready) {
            // No solver is left: why it cannot be simulated is the reason that helps.
            (Err(error), Err(refused)) if another_may(&error) => Err(refused),
            (Err(error), Ok(ready)) if another_may(&error) => {
                ready.effort(&options.simulation).and(Err(error))
            }
            (Ok(_), Err(refused @ (ModelError::Invalid { .. } | ModelError::Saturated { .. })))
                if accuracy.is_unknown() =>
            {
                Err(refused.or(&format!("`{name}` answers too, with an error that is not known")))
            }
            (found, Err(refused)) => found.map(|s| chosen(s, &format!("it is not simulated, for {refused}"))),
            (found, _) => {
                found.map(|s| chosen(s, "too many customers for an exact solver and to simulate unasked"))
            }
        },
    }
}

/// Whether a solver's error is its own, so that another may answer.
fn another_may(error: &ModelError) -> bool {
    matches!(
        error,
        ModelError::Unsupported { .. } | ModelError::NotConverged { .. } | ModelError::Numerical { .. }
    )
}

/// The solution with the reason why its solver was chosen.
fn chosen(mut solution: Solution, why: &str) -> Solution {
    solution.notes.insert(0, format!("auto chose `{}`: {why}", solution.solver));
    solution
}

/// As [`solve`], for one of many points: with `"auto"` chains and simulations give way to approximations, and to
/// simulation only what has none.
///
/// # Errors
/// As [`solve`].
pub fn solve_quickly(network: &Network, name: &str, options: &Options) -> Result<Solution, ModelError> {
    if name != "auto" {
        return solve(network, name, options);
    }
    let quick = match choose(network) {
        "markov" => approximate(network),
        other => other,
    };
    match solve(network, quick, options) {
        Err(ModelError::Unsupported { .. }) => solve(network, name, options),
        other => other,
    }
}

/// The solver that suits a network: exact where there is one, else approximate, else `simulation`.
pub fn choose(network: &Network) -> &'static str {
    let name = approximate(network);
    let product_form = !matches!(name, "simulation" | "layered" | "forkjoin" | "priority");
    match name {
        _ if product_form => name,
        "simulation" | "priority" if station::suits(network) => "station",
        _ if markov::suits(network) => "markov",
        _ => name,
    }
}

/// The solver that suits a network, chains apart.
fn approximate(network: &Network) -> &'static str {
    if product_form::irregular(network).is_some() {
        return "simulation";
    }
    if !network.pools.is_empty() {
        return "layered";
    }
    if !network.forks.is_empty() {
        return "forkjoin";
    }
    if network.stations.iter().any(|s| s.discipline == Discipline::Priority) {
        return "priority";
    }
    exact(network, QUICKLY_EXACT).unwrap_or_else(|| {
        let corrections = network.closed().len().pow(2) * network.stations.len();
        if corrections > MOST_CORRECTED {
            "aql"
        } else {
            "linearizer"
        }
    })
}

/// The exact solver of a network of product form, if it is one class or its lattice, times the stations, has no more
/// points than this.
fn exact(network: &Network, limit: f64) -> Option<&'static str> {
    let closed = network.closed();
    let simple = network.stations.iter().all(|s| s.speed.is_single() || s.speed == Speed::Delay);
    let of = |c: &usize| match network.classes[*c].load {
        crate::network::Load::Closed { population, .. } => population as f64 + 1.0,
        crate::network::Load::Open { .. } => 1.0,
    };
    let points: f64 = closed.iter().map(of).product();
    let states = if simple || closed.len() == 1 { points } else { points * points / 100.0 };
    let few = states * network.stations.len() as f64 <= limit || closed.len() <= 1;
    few.then_some(if simple { "mva" } else { "convolution" })
}

fn note_servers(network: &Network, solution: &mut Solution) {
    if network.stations.iter().any(|s| matches!(s.speed, Speed::Servers(m) if m > 1)) {
        solution.notes.push(
            "several servers: Seidmann's split into a fast server and a delay; `convolution` is exact".into(),
        );
    }
}
