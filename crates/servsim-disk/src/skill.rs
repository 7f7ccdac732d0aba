//! Skill: how much better a model predicts single requests than someone who knows nothing about them.
//!
//! The score is CRPS ([`crate::metrics::crps`]); the yardsticks are a plain histogram of the training
//! part, and its mean. *Free running* is the skill that counts: the model is given arrivals only, and what
//! it got wrong stays wrong for what follows. *One step* gives it the queue and the idle time of the
//! trace at every request.

use crate::error::ModelError;
use crate::metrics::{crps, mean};
use crate::models::DeviceModel;
use crate::request::Request;
use crate::simulate::{closed_loop, open_loop_draws};
use serde::Serialize;

/// Draws a request of one step.
const DRAWS: usize = 32;
/// Free runs, and the requests that all of them simulate together at most.
const RUNS: usize = 16;
const SIMULATED: usize = 3_000_000;
/// Fewest runs: fewer have no spread to speak of.
const FEWEST_RUNS: usize = 4;
/// Requests scored, evenly spread over the part that is judged.
const SCORED: usize = 50_000;

/// Scores of single requests that a model was not fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Skill {
    /// Mean CRPS, ms.
    pub crps_ms: f64,
    /// `1 - CRPS / CRPS of a histogram of the training part`: 0 is no better, 1 perfect.
    pub over_histogram: f64,
    /// `1 - CRPS / mean error of the training part's mean`.
    pub over_mean: f64,
}

fn response_us(request: &Request) -> f64 {
    request.response_ns() as f64 * 1e-3
}

/// The skill of a mean score, in us, on `judged` beside the yardsticks of `training`.
fn skill(score: f64, training: &[Request], judged: &[f64]) -> Skill {
    let known: Vec<f64> = training.iter().map(response_us).collect();
    let known = if known.is_empty() { judged.to_vec() } else { known };
    let average = mean(&known);
    let flat = mean(&judged.iter().map(|real| (real - average).abs()).collect::<Vec<_>>());
    let over = |yardstick: f64| if yardstick > 0.0 { 1.0 - score / yardstick } else { 0.0 };
    Skill {
        crps_ms: score * 1e-3,
        over_histogram: over(crps::unconditional(&known, judged)),
        over_mean: over(flat),
    }
}

/// The skill of one step on `requests` (one device, in arrival order) from `cut` on.
pub fn one_step(model: &DeviceModel, requests: &[Request], cut: usize, seed: u64) -> Skill {
    let real: Vec<f64> = requests.iter().map(response_us).collect();
    let mut scores = Vec::new();
    open_loop_draws(model, requests, DRAWS, seed, &mut |number, draws| {
        if number >= cut {
            scores.push(crps::from_draws(draws, real[number]));
        }
    });
    skill(mean(&scores), &requests[..cut], &real[cut..])
}

/// The skill of free running on `requests` (one device, in arrival order) from `cut` on.
///
/// # Errors
/// Those of [`closed_loop`].
pub fn free_running(
    model: &DeviceModel,
    requests: &[Request],
    cut: usize,
    seed: u64,
) -> Result<Skill, ModelError> {
    let runs = (SIMULATED / requests.len().max(1)).clamp(FEWEST_RUNS, RUNS);
    let stride = (requests.len() - cut).div_ceil(SCORED).max(1);
    let judged: Vec<usize> = (cut..requests.len()).step_by(stride).collect();
    let mut draws = vec![Vec::with_capacity(runs); judged.len()];
    for run in 0..runs as u64 {
        let services = closed_loop(model, requests, 1.0, seed.wrapping_add(run).wrapping_mul(0x9e37_79b9))?;
        for (draws, &at) in draws.iter_mut().zip(&judged) {
            draws.push((services[at].completion_ns - services[at].arrival_ns) as f64 * 1e-3);
        }
    }
    let real: Vec<f64> = judged.iter().map(|&at| response_us(&requests[at])).collect();
    let scores: Vec<f64> =
        draws.iter_mut().zip(&real).map(|(draws, &real)| crps::from_draws(draws, real)).collect();
    Ok(skill(mean(&scores), &requests[..cut], &real))
}
