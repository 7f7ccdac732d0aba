//! Every way a model can be refused. Each error names the offending station, class or pool, says
//! what was found, and ends with the remedy. A solver never clamps a value into range: it either
//! returns a number it can stand behind or one of these.

/// Why a model has no answer, or why an answer was withheld.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The description contradicts itself or lacks something.
    #[error("{what}; {remedy}")]
    Invalid {
        /// What is wrong, naming the station or class.
        what: String,
        /// What to change.
        remedy: String,
    },
    /// A demand is negative, not finite, or zero where work is needed.
    #[error(
        "station `{station}`, class `{class}`: service demand {demand} s is {problem}; give a positive, finite time such as \"12 ms\", or leave the class out of this station"
    )]
    BadDemand {
        /// The station.
        station: String,
        /// The class.
        class: String,
        /// The demand in seconds.
        demand: f64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Open work arrives faster than a station can serve it.
    #[error(
        "station `{station}` is unstable: open classes offer {offered:.4} of its capacity {capacity:.4}; lower the arrival rate by a factor of {factor:.3}, or make the station faster"
    )]
    Unstable {
        /// The first station whose capacity is exceeded.
        station: String,
        /// Offered load, in busy servers.
        offered: f64,
        /// Capacity, in servers.
        capacity: f64,
        /// Factor by which the load must fall to reach 95 % of the capacity.
        factor: f64,
    },
    /// A class is not served as fast as it comes, or so nearly not that its figures take too long to simulate.
    #[error("{what}; {remedy}")]
    Saturated {
        /// Which class or station, and by how much.
        what: String,
        /// What to change.
        remedy: String,
    },
    /// The exact solver would need too much memory or time.
    #[error(
        "populations [{populations}] need {states:.3e} states at station `{station}`, more than the limit {limit:.0e}; {remedy}, or smaller populations"
    )]
    TooLarge {
        /// Populations, comma separated.
        populations: String,
        /// The station whose table is largest.
        station: String,
        /// States needed.
        states: f64,
        /// States allowed.
        limit: f64,
        /// What treats the same model.
        remedy: &'static str,
    },
    /// An iteration stopped before its residual fell below the tolerance.
    #[error(
        "`{solver}` did not converge: residual {residual:.3e} after {iterations} iterations, largest at station `{station}`; raise `max_iterations`, loosen `tolerance`, or use `simulation`"
    )]
    NotConverged {
        /// The solver.
        solver: String,
        /// Largest relative change in the last iteration.
        residual: f64,
        /// Iterations made.
        iterations: usize,
        /// Where the change was largest.
        station: String,
    },
    /// A computed figure broke a law that every answer must satisfy.
    #[error(
        "`{solver}` broke {law} at station `{station}` by a relative {excess:.3e}, so its answer is withheld; use `simulation`, and please report the model"
    )]
    Numerical {
        /// The solver.
        solver: String,
        /// The law.
        law: &'static str,
        /// The station.
        station: String,
        /// Relative excess.
        excess: f64,
    },
    /// The solver does not treat a feature of this model.
    #[error("solver `{solver}` does not treat {feature} (at `{place}`); {remedy}")]
    Unsupported {
        /// The solver.
        solver: String,
        /// The feature.
        feature: String,
        /// Station, class or pool.
        place: String,
        /// What to use.
        remedy: String,
    },
    /// No solver has this name.
    #[error("unknown solver `{name}`; choose one of {known}")]
    UnknownSolver {
        /// The name asked for.
        name: String,
        /// The registry's names.
        known: String,
    },
    /// Measurements that no network can produce.
    #[error("measurements contradict each other at `{station}`: {what}; {remedy}")]
    Contradiction {
        /// The station (or `system`).
        station: String,
        /// The contradiction, with the figures.
        what: String,
        /// What to check.
        remedy: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ModelError {
    /// An [`ModelError::Invalid`] from its two halves.
    pub fn invalid(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), remedy: remedy.into() }
    }

    /// The same with one remedy more, where it has any.
    #[must_use]
    pub fn or(mut self, another: &str) -> Self {
        if let Self::Invalid { remedy, .. } | Self::Saturated { remedy, .. } = &mut self {
            *remedy = format!("{remedy}; {another}");
        }
        self
    }

    /// An [`ModelError::Saturated`] from its two halves.
    pub fn saturated(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Saturated { what: what.into(), remedy: remedy.into() }
    }

    /// An [`ModelError::Unsupported`].
    pub fn unsupported(
        solver: &str,
        feature: impl Into<String>,
        place: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Unsupported {
            solver: solver.into(),
            feature: feature.into(),
            place: place.into(),
            remedy: remedy.into(),
        }
    }
}
