//! Devices that serve requests side by side: models fitted at one load, asked about others.
//!
//! Truth is the solid-state disk of `servsim-oracle`, which shares nothing with the models.

use crate::truth::{flash_errors, flash_truth};
use servsim_disk::models::file;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::parallel::{Parallel, Unit};
use servsim_disk::models::{DeviceModel, Model, Trial};
use servsim_disk::request::Request;
use servsim_disk::simulate::check_load;
use servsim_disk::trial::try_out;
use servsim_oracle::flash::{workload, Bucket, Flash};

fn fitted(requests: &[Request]) -> DeviceModel {
    fit("parallel", requests, &[], &FitOptions::default()).unwrap().remove(0)
}

/// Whether a model of `flash`, fitted at load 1, is within 10 % at three times that, and its autocorrelation
/// within .1; and whether it refuses that load.
fn right_and_refused(flash: &Flash, gap_us: f64, writes: f64) -> (DeviceModel, bool, bool) {
    let jobs = workload(flash.sectors(), 12_000, gap_us, writes, 5);
    let before = flash_truth(flash, &jobs, 1.0);
    let model = fitted(&before);
    let (own, _) = flash_errors(&model, flash, &jobs, 1.0);
    assert!(own.abs() < 8.0, "at its own load {own:+.1} %");
    let (error, acf) = flash_errors(&model, flash, &jobs, 3.0);
    let refused = check_load(&model, &before, 3.0, 0);
    println!("x3: {error:+.1} %, autocorrelation off by {acf:.3}, {refused:?}");
    check_load(&model, &before, 1.0, 0).expect("the load of the trace itself is known");
    (model, error.abs() < 10.0 && acf < 0.1, refused.is_err())
}

#[test]
fn reads_wait_for_channels_at_three_times_the_load_as_they_do() {
    let (model, right, refused) = right_and_refused(&Flash::mqsim(), 60.0, 0.0);
    assert!(right && !refused);
    let Model::Parallel(found) = &model.model else { panic!("{}", model.model.kind()) };
    assert!(found.throttle.is_none() && (20..=45).contains(&found.channels), "{found:?}");
    // Nobody else explains the trace, but at twelve times the load waits are all that is left.
    let alone = Parallel { rivals: Vec::new(), ..found.clone() };
    let alone = DeviceModel { model: Model::Parallel(alone), ..model.clone() };
    let jobs = workload(Flash::mqsim().sectors(), 12_000, 60.0, 0.0, 5);
    let trace = flash_truth(&Flash::mqsim(), &jobs, 1.0);
    check_load(&alone, &trace, 3.0, 0).unwrap();
    let said = check_load(&alone, &trace, 12.0, 0).unwrap_err().to_string();
    assert!(said.contains("would wait longer for channels") && said.contains("--allow-unskilled"), "{said}");
    // Pages of 8 KiB, sensed in 75 us and moved in 25.
    assert!(found.piece_sectors == 16 && (75.0..125.0).contains(&found.read_us), "{found:?}");
}

#[test]
fn the_limit_of_a_host_is_found_and_holds_at_three_times_the_load() {
    let bucket = Some(Bucket { per_second: 3000.0, burst: 100.0 });
    let flash = Flash { bucket, spare: 0.4, ..Flash::mqsim() };
    let (model, right, refused) = right_and_refused(&flash, 500.0, 0.2);
    assert!(right && !refused);
    let Model::Parallel(found) = &model.model else { panic!("{}", model.model.kind()) };
    let throttle = found.throttle.expect("a throttle");
    assert!(
        throttle.unit == Unit::Requests && (throttle.per_second / 3000.0 - 1.0).abs() < 0.02,
        "{throttle:?}"
    );
    assert!((throttle.burst / 100.0 - 1.0).abs() < 0.25, "{throttle:?}");
    let kept = file::from_bytes(&file::to_bytes(std::slice::from_ref(&model))).unwrap();
    assert_eq!(kept, [model]);
}

#[test]
fn a_buffer_that_the_trace_never_filled_is_not_taken_for_one_that_never_fills() {
    let flash = Flash { buffer: 64, spare: 0.4, ..Flash::mqsim() };
    let (model, right, refused) = right_and_refused(&flash, 250.0, 0.5);
    assert!(!right && refused);
    let jobs = workload(flash.sectors(), 12_000, 250.0, 0.5, 5);
    let said = check_load(&model, &flash_truth(&flash, &jobs, 1.0), 3.0, 0).unwrap_err().to_string();
    assert!(said.contains("a write buffer of") && said.contains("--allow-unskilled"), "{said}");
}

#[test]
fn the_default_fit_takes_the_mechanism_where_trees_run_freely_are_no_better() {
    let flash = Flash::mqsim();
    let requests = flash_truth(&flash, &workload(flash.sectors(), 6000, 25.0, 0.0, 6), 1.0);
    let options = FitOptions { try_out: Some(try_out), ..FitOptions::default() };
    let model = fit("forest", &requests, &[], &options).unwrap().remove(0);
    assert_eq!(model.model.kind(), "parallel", "{:?}", model.training);
    // Hardly a request waits, so that next to nothing tells one from another: as good as it gets, and refused.
    let trial = model.training.as_ref().and_then(|training| training.trial).expect("tried");
    assert!(trial.skill > 0.1 && trial.mean_error_percent.abs() < 5.0, "{trial:?}");
    let refused = model.check_worth().unwrap_err().to_string();
    assert!(
        refused.contains("hardly better than a histogram") && refused.contains("0.3 wanted"),
        "{refused}"
    );
}

#[test]
fn a_trial_needs_skill_and_the_mean_and_neighbours_as_alike_as_they_are() {
    let good = Trial {
        requests: 1000,
        skill: 0.31,
        mean_error_percent: -4.9,
        autocorrelation_error: Some(0.09),
        whole_mean_error_percent: Some(9.9),
    };
    assert_eq!(good.problem(), None);
    let older = Trial { autocorrelation_error: None, whole_mean_error_percent: None, ..good };
    assert_eq!(older.problem(), None);
    for (bad, said) in [
        (Trial { skill: 0.29, ..good }, "skill 0.29, at least 0.3 wanted"),
        (Trial { mean_error_percent: -5.6, ..good }, "off by -6 % (at most 5 % wanted)"),
        (
            Trial { whole_mean_error_percent: Some(-87.2), ..good },
            "through what it was fitted to, its mean response is off by -87 % (at most 10 % wanted)",
        ),
        (
            Trial { autocorrelation_error: Some(-0.39), ..good },
            "less alike than they are (autocorrelation off by -0.39",
        ),
        (
            Trial { autocorrelation_error: Some(0.11), ..good },
            "more alike than they are (autocorrelation off by +0.11",
        ),
    ] {
        let problem = bad.problem().expect("a problem");
        assert!(problem.contains(said), "{problem}");
    }
}
