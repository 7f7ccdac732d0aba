//! One file per solver, and the registry that names them. To add one: write its file, and one
//! entry in [`SOLVERS`].

mod anderson;
pub mod aql;
pub mod bounds;
pub mod convolution;
mod exact_step;
pub mod forkjoin;
pub mod layered;
pub mod linearizer;
pub mod markov;
pub mod mixed;
pub mod multi_convolution;
pub mod mva;
pub mod priority;
mod rows;
pub mod schweitzer;
pub mod station;
mod whole;

use crate::closed::ClosedSolver;
use crate::error::ModelError;
use crate::network::Network;
pub use crate::options::Options;
use crate::solution::Solution;

/// How a solver's figures relate to the model's true ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Equal but for rounding.
    Exact,
    /// Off by an amount the solver's documentation states.
    Approximate,
    /// Estimated, with an interval.
    Simulated,
}

impl Nature {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Approximate => "approximate",
            Self::Simulated => "simulated",
        }
    }
}

/// How a solver is run.
#[derive(Clone, Copy)]
pub enum Run {
    /// A solver of the closed part; open classes are folded in by `mixed`.
    Closed(ClosedSolver),
    /// A solver of the whole network.
    Whole(fn(&Network, &Options) -> Result<Solution, ModelError>),
}

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct Solver {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Exact, approximate or simulated.
    pub nature: Nature,
    /// How it runs.
    pub run: Run,
}

/// Every solver, in the order of the help text.
pub const SOLVERS: &[Solver] = &[
    Solver {
        name: "mva",
        summary: "exact mean value analysis; single servers and delays, several classes",
        nature: Nature::Exact,
        run: Run::Closed(mva::solve),
    },
    Solver {
        name: "convolution",
        summary: "exact and stable for any rates; thousands of customers and servers",
        nature: Nature::Exact,
        run: Run::Closed(convolution::solve),
    },
    Solver {
        name: "schweitzer",
        summary: "quickest approximation, errors of a few per cent",
        nature: Nature::Approximate,
        run: Run::Closed(schweitzer::solve),
    },
    Solver {
        name: "linearizer",
        summary: "approximation within about 1 % for several classes",
        nature: Nature::Approximate,
        run: Run::Closed(linearizer::solve),
    },
    Solver {
        name: "aql",
        summary: "as linearizer, less memory for many classes",
        nature: Nature::Approximate,
        run: Run::Closed(aql::solve),
    },
    Solver {
        name: "station",
        summary: "exact laws of one open station: any service times, priorities, weights, loss",
        nature: Nature::Exact,
        run: Run::Whole(station::solve),
    },
    Solver {
        name: "markov",
        summary: "exact for any model without blocking while its Markov chain is small",
        nature: Nature::Exact,
        run: Run::Whole(whole::markov),
    },
    Solver {
        name: "layered",
        summary: "thread and connection pools, locks: hierarchical decomposition",
        nature: Nature::Approximate,
        run: Run::Whole(whole::layered),
    },
    Solver {
        name: "forkjoin",
        summary: "fork-join sections: slowest of the branches",
        nature: Nature::Approximate,
        run: Run::Whole(whole::forkjoin),
    },
    Solver {
        name: "priority",
        summary: "preemptive priorities: MVA approximation",
        nature: Nature::Approximate,
        run: Run::Whole(whole::priority),
    },
    Solver {
        name: "simulation",
        summary: "discrete-event simulation of any model, with 95 % intervals",
        nature: Nature::Simulated,
        run: Run::Whole(crate::sim::solve),
    },
];

/// The solver called `name`.
///
/// # Errors
/// [`ModelError::UnknownSolver`] with the known names.
pub fn find(name: &str) -> Result<&'static Solver, ModelError> {
    SOLVERS.iter().find(|s| s.name == name).ok_or_else(|| ModelError::UnknownSolver {
        name: name.into(),
        known: SOLVERS.iter().map(|s| s.name).chain(["auto"]).collect::<Vec<_>>().join(", "),
    })
}
