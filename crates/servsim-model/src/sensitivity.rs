//! Exact sensitivities of closed product-form networks. From `ln X_r = ln G(N - 1_r) - ln G(N)` and
//! `d ln G(N) / d ln D_kc = Q_kc(N)` follows the elasticity of the throughput of class `r` with
//! respect to any demand or think time (de Souza e Silva and Muntz, IEEE Trans. Comput. 37(9),
//! 1988): `E = Q_kc(N - 1_r) - Q_kc(N)`. No step size, no truncation error. Over all demands and
//! think times the elasticities of one throughput sum to `(|N| - 1) - |N| = -1`, which is also
//! returned as a check.

use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::{Network, Speed};
use crate::product_form;
use crate::solvers::{convolution, mixed, mva};
use serde::Serialize;

/// What else to ask where there are none.
const WHAT_IFS: &str = "elasticities are exact: describe changes as [[what_if]] and ask with --what-if";

/// Sensitivity of one class to one parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elasticity {
    /// Class whose throughput and response are meant.
    pub of: String,
    /// Station, or `think`.
    pub station: String,
    /// Class whose demand (or think time) changes.
    pub class: String,
    /// Value of the parameter, seconds.
    pub value: f64,
    /// Relative change of throughput per relative change of the parameter.
    pub throughput: f64,
    /// Relative change of the response time per relative change of the parameter; `None` of a class that only thinks.
    pub response: Option<f64>,
    /// Derivative of throughput, requests per second per second of demand; `None` at value 0.
    pub derivative: Option<f64>,
}

/// All sensitivities of a network.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensitivity {
    /// One entry per class, station and class changed; the largest effects first.
    pub elasticities: Vec<Elasticity>,
    /// Sum of throughput elasticities per class: -1 but for rounding.
    pub sums: Vec<f64>,
    /// Throughput per class.
    pub throughput: Vec<f64>,
    /// Throughput that one more customer of its own class adds.
    pub per_customer: Vec<f64>,
}

/// Means by the exact solver that suits the stations.
///
/// # Errors
/// [`ModelError::TooLarge`].
pub fn exact(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    if closed.speeds.iter().all(|s| s.is_single() || *s == Speed::Delay) {
        mva::solve(closed, tolerance)
    } else {
        convolution::solve(closed, tolerance)
    }
}

/// Elasticities of every class.
///
/// # Errors
/// [`ModelError::Unsupported`] for open classes, and for what has no product form; [`ModelError::TooLarge`].
pub fn sensitivity(network: &Network, tolerance: &Tolerance) -> Result<Sensitivity, ModelError> {
    network.check()?;
    refuse(network)?;
    let closed = mixed::reduce(network);
    let exact = |closed: &Closed| exact(closed, tolerance).map_err(with_what_ifs);
    let full = exact(&closed)?;
    let mut result = Sensitivity {
        elasticities: Vec::new(),
        sums: Vec::new(),
        throughput: full.throughput.clone(),
        per_customer: Vec::new(),
    };
    for r in 0..closed.classes() {
        if closed.population[r] == 0 {
            return Err(ModelError::invalid(
                format!(
                    "class `{}` has no customers, so its throughput has no sensitivity",
                    network.classes[r].name
                ),
                "give it a population of at least 1, or remove it",
            ));
        }
        let fewer = exact(&closed.without_one(r))?;
        let entries = class_elasticities(network, &closed, r, &full, &fewer);
        result.sums.push(entries.iter().map(|e| e.throughput).sum());
        result.elasticities.extend(entries);
        let mut more = closed.clone();
        more.population[r] += 1;
        result.per_customer.push(exact(&more)?.throughput[r] - full.throughput[r]);
    }
    result.elasticities.sort_by(|a, b| a.throughput.total_cmp(&b.throughput));
    Ok(result)
}

/// What is too large for elasticities, which no approximation gives, can be asked step by step.
fn with_what_ifs(error: ModelError) -> ModelError {
    match error {
        ModelError::TooLarge { populations, station, states, limit, .. } => {
            ModelError::TooLarge { populations, station, states, limit, remedy: WHAT_IFS }
        }
        other => other,
    }
}

fn class_elasticities(
    network: &Network,
    closed: &Closed,
    r: usize,
    full: &ClosedMeans,
    fewer: &ClosedMeans,
) -> Vec<Elasticity> {
    let x = full.throughput[r];
    let cycle = closed.population[r] as f64 / x;
    let response = Some(cycle - closed.think[r]).filter(|_| network.total_demand(r) > 0.0);
    let entry = |station: &str, c: usize, value: f64, throughput: f64, is_own_think: bool| Elasticity {
        of: network.classes[r].name.clone(),
        station: station.into(),
        class: network.classes[c].name.clone(),
        value,
        throughput,
        // R = N/X - Z
        response: response
            .map(|response| (-cycle * throughput - if is_own_think { value } else { 0.0 }) / response),
        derivative: (value > 0.0).then(|| throughput * x / value),
    };
    let mut entries = Vec::new();
    for c in 0..closed.classes() {
        for k in 0..closed.stations() {
            let change = fewer.queue[k][c] - full.queue[k][c];
            entries.push(entry(&closed.names[k], c, closed.demands[k][c], change, false));
        }
        let think = closed.think[c];
        let change = think * (fewer.throughput[c] - full.throughput[c]);
        entries.push(entry("think", c, think, change, c == r));
    }
    entries
}

fn refuse(network: &Network) -> Result<(), ModelError> {
    match network.open().first() {
        Some(&c) => {
            let class = &network.classes[c].name;
            Err(ModelError::unsupported("sensitivity", "open classes", class, WHAT_IFS))
        }
        None => product_form::require(network, "sensitivity", Some(WHAT_IFS)),
    }
}
