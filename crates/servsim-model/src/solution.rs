//! What a solver answers: means per class and station, percentiles, intervals when simulated, and
//! the notes that say which approximation was made. Serialised as `servsim.model.solve/1`.

use crate::bands::Accuracy;
use serde::Serialize;

/// A figure with its 95 % interval (simulation only).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Results of one class.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct ClassResult {
    /// Class name.
    pub name: String,
    /// Requests per second.
    pub throughput: f64,
    /// Mean response time without thinking, seconds.
    pub response: f64,
    /// Mean number of requests in the system (not thinking).
    pub in_system: f64,
    /// Response-time percentiles `(percent, seconds)`; empty when not computed.
    pub percentiles: Vec<(f64, f64)>,
    /// 95 % intervals of the percentiles `(percent, low, high)`, seconds; empty where they are exact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percentile_intervals: Vec<(f64, f64, f64)>,
    /// Simulated requests of a run that take longer than each percentile, as many as if such came alone.
    #[serde(skip)]
    pub beyond: Vec<f64>,
    /// 95 % interval of the throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_interval: Option<Interval>,
    /// 95 % interval of the response time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_interval: Option<Interval>,
    /// Share of the requests that find no room and are lost; `None` where none can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// 95 % interval of that share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_interval: Option<Interval>,
}

/// Results of one station, with one entry per class; 95 % intervals where they are simulated.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct StationResult {
    /// Station name.
    pub name: String,
    /// Fraction of capacity in use, all classes; for a delay station 0.
    pub utilization: f64,
    /// Its interval; none for a delay station.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_interval: Option<Interval>,
    /// Mean number present per class.
    pub queue: Vec<f64>,
    /// Its intervals per class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue_intervals: Vec<Interval>,
    /// Interval of the number present of all classes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present_interval: Option<Interval>,
    /// Mean time per request per class, all visits, seconds.
    pub residence: Vec<f64>,
    /// Its intervals per class, seconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub residence_intervals: Vec<Interval>,
    /// Share of `utilization` per class.
    pub utilization_by_class: Vec<f64>,
}

impl Solution {
    /// Utilisation of the busiest station.
    pub fn busiest(&self) -> f64 {
        self.stations.iter().map(|station| station.utilization).fold(0.0, f64::max)
    }
}

/// The answer of one solver to one network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Solution {
    /// Solver that ran.
    pub solver: String,
    /// `exact`, `approximate` or `simulated`.
    pub nature: &'static str,
    /// What the figures are worth.
    pub accuracy: Accuracy,
    /// One entry per class.
    pub classes: Vec<ClassResult>,
    /// One entry per station.
    pub stations: Vec<StationResult>,
    /// Pools: utilisation, mean number waiting or holding, and waiting time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolResult>,
    /// Percentiles are withheld because the model is too near saturation to simulate them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub saturated: bool,
    /// Iterations made; 0 for a direct method.
    pub iterations: usize,
    /// Residual of the last iteration; 0 for a direct method.
    pub residual: f64,
    /// Approximations made and other remarks.
    pub notes: Vec<String>,
}

/// Results of one pool; 95 % intervals where they are simulated.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct PoolResult {
    /// Pool name.
    pub name: String,
    /// Fraction of units held.
    pub utilization: f64,
    /// Its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_interval: Option<Interval>,
    /// Mean number waiting for a unit.
    pub waiting: f64,
    /// Its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_interval: Option<Interval>,
    /// Mean wait per request, seconds.
    pub wait: f64,
    /// Its interval, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_interval: Option<Interval>,
}

impl Solution {
    /// Throughput of all classes together, per second.
    pub fn throughput(&self) -> f64 {
        self.classes.iter().map(|c| c.throughput).sum()
    }

    /// Throughput-weighted mean response time, seconds.
    pub fn response(&self) -> f64 {
        let weighted: f64 = self.classes.iter().map(|c| c.throughput * c.response).sum();
        weighted / self.throughput()
    }
}
