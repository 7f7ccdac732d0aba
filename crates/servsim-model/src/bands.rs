//! What an answer is worth. An approximation has a band: how far the true throughput and response time, of the class
//! that fares worst, and the true number of requests at a station were from those given in 97 of 100 random models of a
//! kind. Learnt from 500 exactly solved models of each kind (100 of many classes, 1,500 with forks; seed 1 of
//! `tests/it/bands.rs`, which prints this table), and tested on others. The models have demands over a decade or more
//! and stations from idle to saturated. Crowds, and models with pools or forks, are told apart by how busy they keep
//! their busiest station: approximations err where it is nearly saturated, and less elsewhere. Models with pools or
//! forks have 1,000 to 200,000 states of a chain, up to 100 customers among them.

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
    /// The same of the number of requests at a station.
    pub present: f64,
}

const fn row(solver: &'static str, kind: &'static str, [throughput, response, present]: [f64; 3]) -> Band {
    Band { solver, kind, throughput, response, present }
}

/// All that is known of errors. Priorities are missing: half of the models are within 13 % of throughput and 26 % of
/// response time, but what a class of low priority gets may be off by any factor.
pub const BANDS: &[Band] = &[
    row("schweitzer", "single servers", [0.19, 0.19, 0.18]),
    row("schweitzer", "several servers", [0.23, 0.2, 0.19]),
    row("linearizer", "single servers", [0.008, 0.015, 0.015]),
    row("linearizer", "several servers", [0.11, 0.13, 0.13]),
    row("aql", "single servers", [0.0098, 0.019, 0.027]),
    row("aql", "several servers", [0.11, 0.13, 0.13]),
    row("schweitzer", "single servers, many classes", [0.26, 0.22, 0.13]),
    row("linearizer", "single servers, many classes", [0.016, 0.02, 0.013]),
    row("aql", "single servers, many classes", [0.025, 0.034, 0.025]),
    row("layered", "pools, busiest below 80 %", [0.066, 0.25, 0.54]),
    row("layered", "pools, busiest 80 to 90 %", [0.13, 0.37, 0.72]),
    row("layered", "pools, busiest 90 to 99 %", [0.094, 0.21, 0.58]),
    row("layered", "pools, busiest above 99 %", [0.013, 0.039, 0.28]),
    row("forkjoin", "forks, busiest below 80 %", [0.049, 0.12, 0.097]),
    row("forkjoin", "forks, busiest 80 to 90 %", [0.076, 0.13, 0.23]),
    row("forkjoin", "forks, busiest 90 to 99 %", [0.049, 0.089, 0.23]),
    row("forkjoin", "forks, busiest above 99 %", [0.0095, 0.016, 0.14]),
    row("schweitzer", "single servers, crowd, busiest below 80 %", [0.049, 0.088, 0.09]),
    row("schweitzer", "single servers, crowd, busiest 80 to 90 %", [0.22, 0.22, 0.16]),
    row("schweitzer", "single servers, crowd, busiest 90 to 99 %", [0.16, 0.19, 0.2]),
    row("schweitzer", "single servers, crowd, busiest above 99 %", [0.052, 0.073, 0.21]),
    row("schweitzer", "several servers, crowd", [0.083, 0.18, 0.2]),
    row("schweitzer", "many classes, crowd, busiest below 80 %", [0.039, 0.092, 0.098]),
    row("schweitzer", "many classes, crowd, busiest 80 to 90 %", [0.12, 0.19, 0.16]),
    row("schweitzer", "many classes, crowd, busiest 90 to 99 %", [0.098, 0.19, 0.21]),
    row("schweitzer", "many classes, crowd, busiest above 99 %", [0.052, 0.068, 0.2]),
    row("linearizer", "single servers, crowd, busiest below 80 %", [0.0004, 0.0038, 0.0059]),
    row("linearizer", "single servers, crowd, busiest 80 to 90 %", [0.0044, 0.028, 0.031]),
    row("linearizer", "single servers, crowd, busiest 90 to 99 %", [0.014, 0.086, 0.09]),
    row("linearizer", "single servers, crowd, busiest above 99 %", [0.0053, 0.013, 0.032]),
    row("linearizer", "several servers, crowd", [0.022, 0.12, 0.14]),
    row("linearizer", "many classes, crowd, busiest below 80 %", [0.0012, 0.0075, 0.011]),
    row("linearizer", "many classes, crowd, busiest 80 to 90 %", [0.01, 0.042, 0.041]),
    row("linearizer", "many classes, crowd, busiest 90 to 99 %", [0.013, 0.091, 0.11]),
    row("linearizer", "many classes, crowd, busiest above 99 %", [0.0068, 0.021, 0.038]),
    row("aql", "single servers, crowd, busiest below 80 %", [0.0008, 0.0061, 0.0081]),
    row("aql", "single servers, crowd, busiest 80 to 90 %", [0.011, 0.042, 0.041]),
    row("aql", "single servers, crowd, busiest 90 to 99 %", [0.021, 0.089, 0.11]),
    row("aql", "single servers, crowd, busiest above 99 %", [0.011, 0.029, 0.054]),
    row("aql", "several servers, crowd", [0.021, 0.12, 0.14]),
    row("aql", "many classes, crowd, busiest below 80 %", [0.0025, 0.013, 0.018]),
    row("aql", "many classes, crowd, busiest 80 to 90 %", [0.021, 0.066, 0.07]),
    row("aql", "many classes, crowd, busiest 90 to 99 %", [0.033, 0.11, 0.12]),
    row("aql", "many classes, crowd, busiest above 99 %", [0.013, 0.035, 0.062]),
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
        /// Of requests at a station.
        present: f64,
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

    /// Of an approximate solver on a network, whose busiest station it finds so busy; see [`band`].
    pub fn of(network: &Network, solver: &str, busiest: Option<f64>) -> Self {
        match band(network, solver, busiest) {
            Some(&Band { kind, throughput, response, present, .. }) => {
                Self::Band { throughput, response, present, models: kind }
            }
            None if solver == "priority" => {
                Self::Unknown { why: "classes of low priority may be off by any factor" }
            }
            None => Self::Unknown { why: "no models with open classes or such rates were solved exactly" },
        }
    }

    /// True where throughput is within 2.5 %, response time and requests at a station within 5 %, as far as is known.
    pub fn is_small(&self) -> bool {
        match self {
            Self::Exact => true,
            Self::Band { throughput, response, present, .. } => {
                *throughput <= 0.025 && *response <= 0.05 && *present <= 0.05
            }
            Self::Interval | Self::Unknown { .. } => false,
        }
    }
}

/// Classes that are many: Linearizer and AQL treat more in a quicker way.
pub const MANY: usize = 8;

/// Customers above which a network is a crowd: as many as the others that were solved exactly have at most.
pub const CROWD: usize = 36;

/// Utilisations below which the busiest station lies, as the names of kinds end that are told apart by it.
const BUSIEST: [(f64, &str); 4] = [
    (0.8, ", busiest below 80 %"),
    (0.9, ", busiest 80 to 90 %"),
    (0.99, ", busiest 90 to 99 %"),
    (f64::INFINITY, ", busiest above 99 %"),
];

/// The band of a solver on a network whose busiest station it finds so busy, which most kinds go by; `None` where no
/// models like it were solved exactly.
pub fn band(network: &Network, solver: &str, busiest: Option<f64>) -> Option<&'static Band> {
    let several = network.stations.iter().any(|s| matches!(s.speed, Speed::Servers(m) if m > 1));
    if !network.open().is_empty() || network.stations.iter().any(|s| matches!(s.speed, Speed::Rates(_))) {
        return None;
    }
    let (many, crowd) = (network.classes.len() > MANY, network.population() > CROWD);
    let kind = match solver {
        "layered" => "pools",
        "forkjoin" => "forks",
        "schweitzer" | "linearizer" | "aql" => match (several, many, crowd) {
            (true, true, _) => return None,
            (true, false, true) => "several servers, crowd",
            (true, false, false) => "several servers",
            (false, true, true) => "many classes, crowd",
            (false, false, true) => "single servers, crowd",
            (false, true, false) => "single servers, many classes",
            (false, false, false) => "single servers",
        },
        _ => return None,
    };
    let level = busiest.and_then(|busiest| BUSIEST.iter().find(|(below, _)| busiest < *below));
    let is_of = |row: &&Band| match row.kind.strip_prefix(kind) {
        Some("") => true,
        Some(rest) => level.is_some_and(|(_, level)| rest == *level),
        None => false,
    };
    BANDS.iter().find(|row| row.solver == solver && is_of(row))
}
