//! A fit tried on what it has not seen: the first three quarters train, the last is run freely.
//!
//! How many requests a device serves at a time, and whether a model of it is worth anything, does not show in
//! the fit itself: models of devices that serve requests side by side can be right one step at a time and
//! wrong when left alone. So where inference finds several slots, or cannot tell, each number is tried. A
//! model that fails is written with its figures, and refuses to be run
//! ([`crate::models::DeviceModel::check_worth`]).

use crate::error::ModelError;
use crate::metrics::autocorrelation::of_logarithms;
use crate::metrics::mean;
use crate::models::fit::{fit, FitOptions, Tried, SIDE_BY_SIDE};
use crate::models::{Trial, SKILL_FLOOR};
use crate::request::Request;
use crate::server::infer::depth;
use crate::simulate::{closed_loop, responses_us};
use crate::skill::free_running;

/// Requests that a trial uses; every number of slots tried costs a fit to three quarters of them.
const TRIED: usize = 16_000;
/// Numbers of slots tried, beside the one inferred and the deepest queue of the trace.
const SLOTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Skill by which another number must beat the inferred one.
const MUST_GAIN: f64 = 0.02;
/// Error of the mean, percent, up to which a mechanism explains a trace.
const PLAUSIBLE_MEAN: f64 = 10.0;

/// Tries a fit of the model called `kind` to `requests` (one device, in arrival order). `None` if
/// three quarters are too short for one, or what is left takes no time.
///
/// # Errors
/// Those of a fit, but for a trace that is too short.
pub fn trial(kind: &str, requests: &[Request], options: &FitOptions) -> Result<Option<Trial>, ModelError> {
    let cut = requests.len() * 3 / 4;
    let options = FitOptions { try_out: None, ..*options };
    let model = match fit(kind, &requests[..cut], &[], &options) {
        Ok(mut models) if models.len() == 1 => models.remove(0),
        Ok(_) | Err(ModelError::TooShort { .. }) => return Ok(None),
        Err(other) => return Err(other),
    };
    let mut all_real = requests.iter().map(|r| r.response_ns() as f64 * 1e-3).collect::<Vec<_>>();
    let mut all_simulated = responses_us(&closed_loop(&model, requests, 1.0, options.seed)?);
    let whole = 100.0 * (mean(&all_simulated) / mean(&all_real) - 1.0);
    let (real, simulated) = (all_real.split_off(cut), all_simulated.split_off(cut));
    if mean(&real) == 0.0 {
        return Ok(None);
    }
    Ok(Some(Trial {
        requests: real.len() as u64,
        skill: free_running(&model, requests, cut, options.seed)?.over_histogram,
        mean_error_percent: 100.0 * (mean(&simulated) / mean(&real) - 1.0),
        autocorrelation_error: Some(of_logarithms(&simulated, 1) - of_logarithms(&real, 1)),
        whole_mean_error_percent: Some(whole),
    }))
}

/// The server whose trial shows most skill: the mechanism of a parallel device, which carries over to other
/// loads, unless slots with trees are clearly better; of those the number `inferred`, with the same proviso.
pub fn try_out(requests: &[Request], options: &FitOptions, inferred: u32) -> Option<Tried> {
    let requests = &requests[..requests.len().min(TRIED)];
    let with = |slots: u32| {
        let options = FitOptions { slots: Some(slots), ..*options };
        trial("forest", requests, &options).ok().flatten().map(|trial| Tried {
            slots,
            parallel: false,
            trial,
        })
    };
    let first = with(inferred)?;
    let deepest = depth(requests);
    let others = SLOTS.into_iter().filter(|&slots| slots < deepest).chain([deepest]);
    let others = if options.slots.is_some() { None } else { Some(others) };
    let tried = others.into_iter().flatten().filter(|&slots| slots != inferred).filter_map(with);
    let best = tried.max_by(|a, b| a.trial.skill.total_cmp(&b.trial.skill));
    let slots = best.filter(|best| best.trial.skill > first.trial.skill + MUST_GAIN).unwrap_or(first);
    if options.slots.is_some() {
        return Some(slots);
    }
    let mechanism = trial("parallel", requests, options).ok().flatten();
    let mechanism = mechanism.map(|trial| Tried { slots: SIDE_BY_SIDE, parallel: true, trial });
    // Which explains the trace better is one question; whether that is good enough to be run, `Trial::problem` says.
    let explains = |tried: &Tried| {
        tried.trial.skill >= SKILL_FLOOR && tried.trial.mean_error_percent.abs() <= PLAUSIBLE_MEAN
    };
    mechanism
        .filter(|tried| tried.trial.skill + MUST_GAIN >= slots.trial.skill || !explains(&slots))
        .filter(explains)
        .or(Some(slots))
}
