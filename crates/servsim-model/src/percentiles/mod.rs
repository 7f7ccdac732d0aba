//! Response-time percentiles: by a law where one is known ([`laws`]), else by simulation, with intervals, and
//! withheld where a simulation of bounded length leaves them too uncertain. Fitting a distribution to means
//! and variances was tried and given up: outside a single queue the tail was wrong by tens of per cent.

pub mod laws;
pub mod phases;
mod simulated;

use crate::error::ModelError;
use crate::network::{Discipline, Network};
use crate::options::Options;
use crate::solution::Solution;

/// Adds the percentiles asked for to every class of a solution whose means are known.
///
/// # Errors
/// [`ModelError::Invalid`] for percentages that are none; [`ModelError::Interrupted`].
pub fn add(network: &Network, options: &Options, solution: &mut Solution) -> Result<(), ModelError> {
    options.check_percentiles()?;
    if options.percentiles.is_empty() {
        return Ok(());
    }
    let shares: Vec<f64> = options.percentiles.iter().map(|p| p / 100.0).collect();
    let Some(times) = laws::response(network).and_then(|phases| phases.quantiles(&shares)) else {
        return simulated::add(network, options, solution);
    };
    for class in &mut solution.classes {
        class.percentiles = options.percentiles.iter().copied().zip(times.iter().copied()).collect();
    }
    solution.notes.push("percentiles: exact".into());
    Ok(())
}

/// Utilisation from which it shows in percentiles in what order a station serves.
const BUSY: f64 = 0.1;
/// Stations that a note names.
const NAMED: usize = 4;

/// Says at which stations percentiles presume that requests share the servers. They do where a description does not say
/// otherwise, and means often are the same: of a disk at 84 % the 99th percentile is 1.6 times that of first come, first
/// served.
pub fn note_sharing(network: &Network, solution: &mut Solution) {
    let alone = network.open().is_empty() && network.population() <= 1;
    if alone || solution.classes.iter().all(|class| class.percentiles.is_empty()) {
        return;
    }
    let stations = network.stations.iter().zip(&solution.stations);
    let sharing = stations.filter(|(s, found)| s.discipline == Discipline::Ps && found.utilization >= BUSY);
    let mut names: Vec<String> = sharing.map(|(station, _)| format!("`{}`", station.name)).collect();
    if names.is_empty() {
        return;
    }
    if names.len() > NAMED {
        let others = names.split_off(NAMED - 1).len();
        names.push(format!("{others} more"));
    }
    solution.notes.push(format!(
        "percentiles presume that requests share {} (discipline = \"ps\"); a station that serves in turn, as a disk does, is \"fcfs\"",
        names.join(", ")
    ));
}
