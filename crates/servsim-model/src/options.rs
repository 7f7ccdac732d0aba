//! What may be asked of a solver.

use crate::closed::Tolerance;
use crate::error::ModelError;
use crate::sim::Plan;
use crate::solvers::markov;

/// What may be asked of a solver.
#[derive(Debug, Clone)]
pub struct Options {
    /// When iterations stop, and sizes that are refused.
    pub tolerance: Tolerance,
    /// Response-time percentiles wanted, in per cent; most models are simulated for them.
    pub percentiles: Vec<f64>,
    /// Simulation: length, replications, seed.
    pub simulation: Plan,
    /// States that a Markov chain may have.
    pub states: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tolerance: Tolerance::default(),
            percentiles: Vec::new(),
            simulation: Plan::default(),
            states: markov::MOST_STATES,
        }
    }
}

impl Options {
    /// Refuses percentiles outside 1 to 100, and shares written for percentages.
    ///
    /// # Errors
    /// [`ModelError::Invalid`].
    pub fn check_percentiles(&self) -> Result<(), ModelError> {
        match self.percentiles.iter().find(|p| !(1.0..100.0).contains(*p)) {
            None => Ok(()),
            Some(share) if *share > 0.0 && *share < 1.0 => Err(ModelError::invalid(
                format!("percentile {share} looks like a share"),
                format!("write {} for that many per cent", share * 100.0),
            )),
            Some(bad) => Err(ModelError::invalid(
                format!("percentile {bad} is not between 1 and 100"),
                "ask for values such as 50, 90, 99",
            )),
        }
    }
}
