//! What an answer is worth. An approximation has a band: how far the true throughput and response time, of the class
//! that fares worst, were from those given in 97 of 100 random models of a kind. Learnt from 500 exactly solved models of each kind (100 of many classes; seed 1 of
//! `tests/it/bands.rs`, which prints this table), and tested on others. The models have demands over three decades and
//! stations from idle to saturated, but few customers, since they were solved exactly: for a crowd the band is a guide.

use crate::network::{Network, Speed};
use serde::Serialize;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// The approximation.
    pub solver: &'static str,
    /// Which of the models it treats.
    pub kind: &'static str,
    /// Distance of the true throughput from the one given, relative to it.
    pub throughput: f64,
    /// The same of response time.
    pub response: f64,
}

const fn row(solver: &'static str, kind: &'static str, throughput: f64, response: f64) -> Band {
    Band { solver, kind, throughput, response }
}

/// All that is known of errors. Priorities are missing: half of the models are within 13 % of throughput and 26 % of
/// response time, but what a class of low priority gets may be off by any factor.
pub const BANDS: &[Band] = &[
    row("schweitzer", "single servers", 0.15, 0.18),
    row("schweitzer", "several servers", 0.19, 0.18),
    row("linearizer", "single servers", 0.005, 0.01),
    row("linearizer", "several servers", 0.07, 0.11),
    row("aql", "single servers", 0.008, 0.015),
    row("aql", "several servers", 0.07, 0.11),
    row("schweitzer", "single servers, many classes", 0.23, 0.2),
    row("linearizer", "single servers, many classes", 0.015, 0.02),
    row("aql", "single servers, many classes", 0.022, 0.032),
    row("layered", "pools", 0.045, 0.09),
    row("forkjoin", "forks", 0.055, 0.08),
];

/// What an answer is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Accuracy {
    /// Equal to the model's but for rounding.
    Exact,
    /// The truth was within these relative distances of the figures in 97 of 100 models of a kind.
    Band {
        /// Of throughput.
        throughput: f64,
        /// Of response time.
        response: f64,
        /// Which models.
        models: &'static str,
    },
    /// 95 % intervals stand beside the figures.
    Interval,
    /// An approximation without a known error.
    Unknown {
        /// Why it is not known.
        why: &'static str,
    },
}

impl Accuracy {
    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// Of an approximate solver on a network.
    pub fn of(network: &Network, solver: &str) -> Self {
        match band(network, solver) {
            Some(&Band { kind, throughput, response, .. }) => {
                Self::Band { throughput, response, models: kind }
            }
            None if solver == "priority" => {
                Self::Unknown { why: "classes of low priority may be off by any factor" }
            }
            None => Self::Unknown { why: "no models with open classes or such rates were solved exactly" },
        }
    }

    /// True where throughput is within 2.5 % and response time within 5 %, as far as is known.
    pub fn is_small(&self) -> bool {
        match self {
            Self::Exact => true,
            Self::Band { throughput, response, .. } => *throughput <= 0.025 && *response <= 0.05,
            Self::Interval | Self::Unknown { .. } => false,
        }
    }
}

/// Classes that are many: Linearizer and AQL treat more in a quicker way.
pub const MANY: usize = 8;

/// The band of a solver on a network; `None` where no models like it were solved exactly.
pub fn band(network: &Network, solver: &str) -> Option<&'static Band> {
    let several = network.stations.iter().any(|s| matches!(s.speed, Speed::Servers(m) if m > 1));
    if !network.open().is_empty() || network.stations.iter().any(|s| matches!(s.speed, Speed::Rates(_))) {
        return None;
    }
    let kind = match solver {
        "layered" => "pools",
        "forkjoin" => "forks",
        "schweitzer" | "linearizer" | "aql" if several && network.classes.len() <= MANY => "several servers",
        "schweitzer" | "linearizer" | "aql" if several => return None,
        "schweitzer" | "linearizer" | "aql" if network.classes.len() > MANY => "single servers, many classes",
        "schweitzer" | "linearizer" | "aql" => "single servers",
        _ => return None,
    };
    BANDS.iter().find(|row| row.solver == solver && row.kind == kind)
}
