//! Response-time percentiles: by a law where one is known ([`laws`]), else by simulation, with intervals, and
//! withheld where a simulation of bounded length leaves them too uncertain. Fitting a distribution to means
//! and variances was tried and given up: outside a single queue the tail was wrong by tens of per cent.

pub mod laws;
pub mod phases;
mod simulated;

use crate::error::ModelError;
use crate::network::Network;
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
