//! Service demands from measurements: the utilisation law `U_k = sum over classes of X_c D_kc`
//! (Lazowska et al. 1984, chapter 3) applied to many observations at once, with a constant where the
//! station is busy without requests.
//!
//! `nnls` regresses utilisations on throughputs with demands kept non-negative; `kalman` follows
//! demands that drift. Both give intervals, and demands that the observations cannot tell
//! apart are flagged instead of guessed. Demands known directly (visits and time per visit, as a
//! simulation reports them) need no estimation: [`from_visits`].

mod beside;
pub mod kalman;
pub mod linear;
pub mod nnls;

use crate::error::ModelError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One interval of observation.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Requests per second, per class.
    pub throughput: Vec<f64>,
    /// Fraction of capacity in use, per station.
    pub utilization: Vec<f64>,
    /// Mean response time of all classes, seconds, where it was measured.
    #[serde(default)]
    pub response: Option<f64>,
}

/// Observations of one system.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    /// Class names.
    pub classes: Vec<String>,
    /// Station names.
    pub stations: Vec<String>,
    /// Servers per station; one each when empty.
    #[serde(default)]
    pub servers: Vec<usize>,
    /// Closed customers of all classes, for the check by Little's law.
    #[serde(default)]
    pub population: Option<f64>,
    /// Mean think time, seconds.
    #[serde(default)]
    pub think: f64,
    /// Observations in order of time.
    pub samples: Vec<Sample>,
}

/// An estimated demand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Demand {
    /// Station.
    pub station: String,
    /// Class.
    pub class: String,
    /// Estimate, seconds; `None` when the observations do not determine it.
    pub demand: Option<f64>,
    /// Interval, seconds.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Level of the interval: .95, and .99 where the station was proven to be busy without requests.
    pub confidence: Option<f64>,
    /// False when it cannot be told apart from others.
    pub identifiable: bool,
    /// Why not, or a warning about precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a station does that no request asks for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Background {
    /// Station.
    pub station: String,
    /// Utilisation without requests.
    pub utilization: f64,
    /// Interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Level of the interval.
    pub confidence: f64,
}

/// A sample that the others do not explain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outlier {
    /// Which, counted from 1.
    pub sample: usize,
    /// At this station.
    pub station: String,
    /// Utilisation measured.
    pub measured: f64,
    /// What the other samples make one expect.
    pub fitted: f64,
}

/// A station whose samples are farther from what is expected than the stated drift and error allow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scatter {
    /// Station.
    pub station: String,
    /// How many times as far, root mean square.
    pub times: f64,
}

/// The result of an estimation.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Fit {
    /// Method used.
    pub method: String,
    /// Servers by station, as measured; one each of stations that are left out.
    pub servers: BTreeMap<String, usize>,
    /// One entry per station and class.
    pub demands: Vec<Demand>,
    /// Work that is not for requests, where there is any.
    pub background: Vec<Background>,
    /// Stations whose few samples do not tell whether there is any: demands presume that there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub presumed: Vec<String>,
    /// Samples that the others do not explain; they take part in the estimate (`nnls` only).
    pub outliers: Vec<Outlier>,
    /// Stations whose samples scatter more than was said (`kalman` only).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scatter: Vec<Scatter>,
    /// Root-mean-square relative residual of the utilisations, per station.
    pub residual: Vec<f64>,
    /// Condition number of the throughputs, columns scaled; large means classes move together.
    pub condition: f64,
    /// Estimates over time (Kalman only): `[sample][station][class]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Vec<Vec<f64>>>,
}

impl Measurements {
    /// Servers of station `k`.
    pub fn servers_of(&self, k: usize) -> f64 {
        self.servers.get(k).map_or(1.0, |&m| m as f64)
    }

    /// Refuses observations that no system can produce.
    ///
    /// # Errors
    /// [`ModelError::Contradiction`] naming the station and the sample (counted from 1).
    pub fn check(&self) -> Result<(), ModelError> {
        if self.samples.is_empty() || self.classes.is_empty() || self.stations.is_empty() {
            return Err(ModelError::invalid(
                "there are no measurements to fit",
                "give at least one sample, class and station",
            ));
        }
        if !self.servers.is_empty()
            && (self.servers.len() != self.stations.len() || self.servers.contains(&0))
        {
            return Err(ModelError::invalid(
                "servers must be given for every station, at least 1",
                "list one count per station, or none",
            ));
        }
        for (index, sample) in self.samples.iter().enumerate() {
            self.check_sample(index + 1, sample)?;
        }
        Ok(())
    }

    fn check_sample(&self, number: usize, sample: &Sample) -> Result<(), ModelError> {
        let contradiction = |station: &str, what: String, remedy: &str| {
            Err(ModelError::Contradiction { station: station.into(), what, remedy: remedy.into() })
        };
        if sample.throughput.len() != self.classes.len() || sample.utilization.len() != self.stations.len() {
            return Err(ModelError::invalid(
                format!(
                    "sample {number} has {} throughputs for {} classes and {} utilisations for {} stations",
                    sample.throughput.len(),
                    self.classes.len(),
                    sample.utilization.len(),
                    self.stations.len()
                ),
                "give one value per class and per station",
            ));
        }
        if let Some(c) = sample.throughput.iter().position(|x| !x.is_finite() || *x < 0.0) {
            let what = format!(
                "sample {number}: class `{}` has throughput {}",
                self.classes[c], sample.throughput[c]
            );
            return contradiction("system", what, "throughputs are requests per second, zero or more");
        }
        for (name, &u) in self.stations.iter().zip(&sample.utilization) {
            if !(0.0..=1.0).contains(&u) {
                let what = format!("sample {number}: utilisation {u} is not between 0 and 1");
                return contradiction(name, what, "give fractions of capacity (0.63, not 63), per server");
            }
        }
        self.check_little(number, sample)
    }

    /// Refuses a station that works where no class does, for a method that knows no background.
    fn check_idle(&self, k: usize) -> Result<(), ModelError> {
        let idle = |s: &&Sample| s.throughput.iter().all(|x| *x == 0.0) && s.utilization[k] > 0.05;
        let Some((index, sample)) = self.samples.iter().enumerate().find(|(_, s)| idle(s)) else {
            return Ok(());
        };
        Err(ModelError::Contradiction {
            station: self.stations[k].clone(),
            what: format!(
                "sample {}: utilisation {} with no throughput of any class",
                index + 1,
                sample.utilization[k]
            ),
            remedy: "add the class that does this work, or drop the sample".into(),
        })
    }

    /// `N = X (R + Z)` within 20 %: beyond that something was counted differently.
    fn check_little(&self, number: usize, sample: &Sample) -> Result<(), ModelError> {
        let (Some(population), Some(response)) = (self.population, sample.response) else { return Ok(()) };
        let x: f64 = sample.throughput.iter().sum();
        let implied = x * (response + self.think);
        if (implied / population - 1.0).abs() <= 0.2 {
            return Ok(());
        }
        Err(ModelError::Contradiction {
            station: "system".into(),
            what: format!(
                "sample {number}: X (R + Z) = {implied:.3} customers, but the population is {population}"
            ),
            remedy: "check the units of response and think time, and what the throughput counts".into(),
        })
    }
}

/// Demand = visits x time per visit; the way from a simulation, which reports both.
///
/// # Errors
/// [`ModelError::BadDemand`].
pub fn from_visits(station: &str, class: &str, visits: f64, service: f64) -> Result<f64, ModelError> {
    let demand = visits * service;
    if demand.is_finite() && visits >= 0.0 && service >= 0.0 {
        return Ok(demand);
    }
    let problem = "not visits x time with both zero or more";
    Err(ModelError::BadDemand { station: station.into(), class: class.into(), demand, problem })
}

/// Estimates demands; `method` is `nnls` or `kalman`.
///
/// # Errors
/// [`ModelError::Contradiction`], [`ModelError::Invalid`].
pub fn fit(measurements: &Measurements, method: &str, kalman: &kalman::Noise) -> Result<Fit, ModelError> {
    measurements.check()?;
    let found = match method {
        "nnls" => nnls::fit(measurements),
        "kalman" => kalman::fit(measurements, kalman),
        _ => Err(ModelError::invalid(
            format!("unknown estimation method `{method}`"),
            "use `nnls` (constant demands) or `kalman` (drifting demands)",
        )),
    }?;
    let servers = measurements.stations.iter().cloned().zip(measurements.servers.iter().copied());
    Ok(Fit { servers: servers.collect(), ..found })
}
