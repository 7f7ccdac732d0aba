//! Skill is that of free running, beside yardsticks that know nothing of single requests; and a model
//! that fails its trial refuses to be run.

use crate::truth::truth;
use servsim_disk::evaluate::{evaluate, Evaluation, Split};
use servsim_disk::models::file;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::infer::infer;
use servsim_disk::simulate::{closed_loop, responses_us};
use servsim_disk::trial::{trial, try_out};
use servsim_oracle::drive::{workload, Drive, Order, Words};

fn judged(kind: &str, requests: &[Request]) -> Evaluation {
    let cut = requests.len() / 2;
    let names = ["disk0".to_owned()];
    let model = fit(kind, &requests[..cut], &names, &FitOptions::default()).unwrap().remove(0);
    evaluate(&model, requests, Split { cut }, &[], 0).unwrap()
}

fn is_worthless(evaluation: &Evaluation) -> bool {
    evaluation.verdict.iter().any(|line| line.starts_with("not worth using"))
}

#[test]
fn a_histogram_has_no_skill_over_a_histogram_and_a_drives_model_has() {
    let drive = Drive::nameless();
    let requests = truth(&drive, &workload(&drive, 6000, 16_000.0, 21), Order::Fcfs, 1.0);
    let flat = judged("unconditional", &requests);
    assert!(flat.skill.over_histogram.abs() < 0.02, "{:?}", flat.skill);
    assert!(is_worthless(&flat), "{:?}", flat.verdict);
    let forest = judged("forest", &requests);
    assert!(forest.skill.over_histogram > 0.4 && forest.skill.over_mean > 0.5, "{:?}", forest.skill);
    assert!(!is_worthless(&forest), "{:?}", forest.verdict);
    // One step is given the waits of the trace, free running has to find them.
    assert!(forest.skill.over_histogram < forest.one_step_skill.over_histogram, "{forest:?}");
}

/// A device that serves side by side; the last `slow` requests take three times as long.
fn side_by_side(count: u64, slow: u64) -> Vec<Request> {
    let mut words = Words(31);
    let mut now = 0;
    let mut request = |at: u64| {
        now += 1 + words.below(60_000);
        let (sectors, op) = (8 << words.below(4), [Op::Read, Op::Write][words.below(2) as usize]);
        let base_ns = 30_000 + 9000 * sectors + words.below(9000);
        Request {
            arrival_ns: now,
            start_ns: NO_START,
            completion_ns: now + if at < count - slow { base_ns } else { 3 * base_ns },
            lba: words.below(1 << 20) * 8,
            sectors: sectors as u32,
            device: 0,
            op,
            by_tracer: false,
        }
    };
    (0..count).map(&mut request).collect()
}

#[test]
fn a_trial_judges_the_whole_trace_too_for_its_end_may_be_calm() {
    // The host stands still for 30 ms at the beginning: what is asked meanwhile is answered at its end.
    let mut requests = side_by_side(4000, 0);
    let end = requests[0].arrival_ns + 30_000_000;
    for request in requests.iter_mut().take_while(|request| request.arrival_ns < end) {
        request.completion_ns = request.completion_ns.max(end);
    }
    let options = FitOptions { slots: Some(8), ..FitOptions::default() };
    let found = trial("unconditional", &requests, &options).unwrap().unwrap();
    let model = fit("unconditional", &requests[..3000], &[], &options).unwrap().remove(0);
    let free = responses_us(&closed_loop(&model, &requests, 1.0, options.seed).unwrap());
    let real: f64 = requests.iter().map(|request| request.response_ns() as f64 * 1e-3).sum();
    let whole = 100.0 * (free.iter().sum::<f64>() / real - 1.0);
    let told = found.whole_mean_error_percent.unwrap();
    assert!((told - whole).abs() < 1e-6, "{told} {whole}");
    assert!((told - found.mean_error_percent).abs() > 20.0, "the end is unlike the whole: {found:?}");
}

#[test]
fn a_device_that_changed_since_it_was_fitted_fails_the_trial_and_a_steady_one_passes() {
    let options = FitOptions { try_out: Some(try_out), ..FitOptions::default() };
    let fitted = |requests: &[Request]| fit("forest", requests, &[], &options).unwrap().remove(0);
    let steady = fitted(&side_by_side(6000, 0));
    // Some ten are always in service: too few requests find the device free, which alone would tell.
    assert!(
        steady.inference.as_ref().unwrap().inconclusive && steady.server.slots > 8,
        "{:?}",
        steady.server
    );
    let found = steady.training.as_ref().unwrap().trial.unwrap();
    assert_eq!((found.problem(), found.requests), (None, 1500), "{found:?}");
    assert!(found.skill > 0.5 && found.mean_error_percent.abs() < 3.0, "{found:?}");
    steady.check_worth().unwrap();
    // Nor does what cannot tell speak against the model.
    steady.check_class(&infer(&side_by_side(6000, 0))).unwrap();
    let changed = fitted(&side_by_side(8000, 2000));
    let refused = changed.check_worth().unwrap_err().to_string();
    assert!(refused.contains("is not worth using") && refused.contains("--allow-unskilled"), "{refused}");
    // The verdict of the trial is kept in the file.
    let kept = file::from_bytes(&file::to_bytes(&[changed])).unwrap().remove(0);
    assert!(kept.check_worth().is_err());
    assert!(trial("forest", &side_by_side(100, 0), &options).unwrap().is_none());
}
