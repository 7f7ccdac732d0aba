//! Percentiles of models without a law: simulated, each with an interval over replications. The simulation is
//! lengthened until all are known to [`WANTED`] or it has reached its bound. What is then known to
//! [`TOLERATED`] only is given with its interval; the rest is withheld.
//!
//! The simulated mean is compared with the solver's. Beside an exact one it shows whether the run was long
//! enough: near saturation, intervals over runs that all began empty agree on a wrong figure. Beside an
//! approximate one it shows the approximation's error.

use crate::error::ModelError;
use crate::network::Network;
use crate::options::Options;
use crate::sim::{Plan, Simulation, MOST_VISITS};
use crate::solution::{ClassResult, Solution};

/// Relative half-width at which a percentile is known well enough.
const WANTED: f64 = 0.025;
/// Relative half-width beyond which it is withheld.
const TOLERATED: f64 = 0.1;
/// Relative difference between the simulated mean and an exact one beyond which percentiles are withheld.
const BIASED: f64 = 0.03;
/// The first simulation is as many times shorter than the plan.
const SHORTER: f64 = 4.0;
/// The last is as many times longer than the plan.
const LONGER: f64 = 2.0;

/// Adds percentiles to a solution whose means are known.
///
/// # Errors
/// As [`crate::sim::solve`], but what only makes percentiles impossible becomes a note.
pub fn add(network: &Network, options: &Options, solution: &mut Solution) -> Result<(), ModelError> {
    let exact = solution.nature == "exact";
    let runs = options.simulation.replications;
    let asked = options.simulation.requests;
    let first = Plan { requests: asked / SHORTER, ..options.simulation.clone() };
    let ready = Simulation::new(network, &first).and_then(|ready| Ok((ready.effort(&first)?, ready)));
    let (mut requests, ready) = match ready {
        Err(ModelError::Interrupted) => return Err(ModelError::Interrupted),
        Ok(((requests, visits), ready)) if visits <= MOST_VISITS => (requests, ready),
        refused => {
            solution.saturated = matches!(refused, Err(ModelError::Saturated { .. }));
            let why = refused.map_or_else(
                |error| error.to_string(),
                |((_, visits), _)| {
                    format!("simulating them takes {visits:.0e} visits or more; use `simulation`")
                },
            );
            solution.notes.push(format!("percentiles withheld: {why}"));
            return Ok(());
        }
    };
    let longest = requests.max(asked * LONGER);
    let measured = loop {
        match ready.at_least(options, requests) {
            Err(ModelError::Interrupted) => return Err(ModelError::Interrupted),
            // Too near saturation, or too few requests of a rare class.
            Err(error) if requests >= longest => {
                solution.saturated = matches!(error, ModelError::Saturated { .. });
                solution.notes.push(format!("percentiles withheld: {error}"));
                return Ok(());
            }
            Err(_) => requests = longest,
            Ok((simulated, found)) => {
                requests = simulated;
                let known = |(a, b): (&ClassResult, &ClassResult)| {
                    widest(a) <= WANTED && (!exact || bias(a, b) <= WANTED)
                };
                if requests >= longest || found.classes.iter().zip(&solution.classes).all(known) {
                    break found;
                }
                let needed = found.classes.iter().map(|class| (widest(class) / WANTED).powi(2));
                requests *= needed.fold(2.0, f64::max);
            }
        }
        requests = requests.min(longest);
    };
    solution.notes.extend(measured.notes);
    let mut given = false;
    for (class, simulated) in solution.classes.iter_mut().zip(&measured.classes) {
        let off = bias(simulated, class);
        if exact && off > BIASED {
            solution.saturated = true;
            solution.notes.push(format!(
                "percentiles of `{}` withheld: the simulated mean response time is {:.0} % off the exact one after {requests:.0} requests in each of {runs} runs, so the model is too near saturation; simulate longer with `requests` above {requests:.0}",
                class.name, off * 100.0
            ));
            continue;
        }
        for (&(percent, low, high), &(_, time)) in
            simulated.percentile_intervals.iter().zip(&simulated.percentiles)
        {
            if high - low <= 2.0 * TOLERATED * time {
                class.percentiles.push((percent, time));
                class.percentile_intervals.push((percent, low, high));
                given = true;
            } else {
                solution.notes.push(format!(
                    "p{percent} of `{}` withheld: known to {:.0} % only after {requests:.0} requests in each of {runs} runs; simulate longer with `requests` above {requests:.0}",
                    class.name, (high - low) / time * 50.0
                ));
            }
        }
        if !exact && off > WANTED {
            solution.notes.push(format!(
                "`{}`: response time simulated for the percentiles {:.4} s, {:.1} % from the approximate one",
                class.name,
                simulated.response,
                off * 100.0
            ));
        }
    }
    if given {
        solution.notes.push(format!(
            "percentiles: simulated, {requests:.0} requests in each of {runs} runs, with 95 % intervals"
        ));
    }
    Ok(())
}

/// The largest relative half-width of a class's percentiles.
fn widest(class: &ClassResult) -> f64 {
    let pairs = class.percentile_intervals.iter().zip(&class.percentiles);
    pairs.map(|(&(_, low, high), &(_, time))| (high - low) / (2.0 * time)).fold(0.0, f64::max)
}

/// Relative difference of the mean response times.
fn bias(simulated: &ClassResult, solved: &ClassResult) -> f64 {
    (simulated.response - solved.response).abs() / solved.response.max(f64::MIN_POSITIVE)
}
