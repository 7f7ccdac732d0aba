//! What may be asked of a solver.

use crate::closed::Tolerance;
use crate::sim::Plan;

/// What may be asked of a solver.
#[derive(Debug, Clone)]
pub struct Options {
    /// When iterations stop, and sizes that are refused.
    pub tolerance: Tolerance,
    /// Response-time percentiles wanted, in per cent.
    pub percentiles: Vec<f64>,
    /// Simulation: length, replications, seed.
    pub simulation: Plan,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tolerance: Tolerance::default(),
            percentiles: vec![50.0, 90.0, 95.0, 99.0],
            simulation: Plan::default(),
        }
    }
}
