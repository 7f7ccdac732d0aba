//! Where platters stand, found in traces of an independently written drive, and what it is good for.

use crate::truth::truth;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::forest::Forest;
use servsim_disk::models::{file, DeviceModel, Model};
use servsim_disk::order::services;
use servsim_disk::platters::find;
use servsim_disk::request::Request;
use servsim_disk::simulate::{closed_loop, open_loop_draws, responses_us};
use servsim_disk::skill::free_running;
use servsim_oracle::drive::{workload, Drive, Order};

/// Requests of a drive at rest in between, and after how many of them a model must do without.
fn trace(drive: &Drive, seed: u64) -> (Vec<Request>, usize) {
    (truth(drive, &workload(drive, 6000, 20_000.0, seed), Order::Fcfs, 1.0), 3000)
}

fn model(requests: &[Request]) -> DeviceModel {
    fit("forest", requests, &["disk0".to_owned()], &FitOptions::default()).unwrap().remove(0)
}

fn forest(model: &DeviceModel) -> &Forest {
    let Model::Forest(forest) = &model.model else { panic!("another model") };
    forest
}

/// Mean error of the middle of 15 draws for each request from `cut` on, one step at a time, us.
fn error_us(model: &DeviceModel, requests: &[Request], cut: usize) -> f64 {
    let mut errors = Vec::new();
    open_loop_draws(model, requests, 15, 1, &mut |at, draws| {
        draws.sort_by(f64::total_cmp);
        if at >= cut {
            errors.push((draws[7] - requests[at].response_ns() as f64 * 1e-3).abs());
        }
    });
    errors.iter().sum::<f64>() / errors.len() as f64
}

/// Drives with and without write buffer and read-ahead.
fn drives() -> [Drive; 2] {
    let base = Drive::nameless();
    let bare = Drive { write_behind: false, read_ahead: 0, segments: 1, ..base.clone() };
    [base, bare]
}

#[test]
fn turn_and_sectors_to_it_are_those_of_the_drive() {
    for drive in drives() {
        let (requests, cut) = trace(&drive, 5);
        let found = find::infer(&services(&requests[..cut], 1, false)).expect("a drive that turns");
        let off = found.turn_us / drive.revolution_us - 1.0;
        assert!(off.abs() < 1e-6, "{} us", found.turn_us);
        let (mut first, mut right) = (0, 0);
        for (cylinders, per_track) in &drive.zones {
            let sectors = cylinders * per_track * drive.heads;
            let middle = (first + sectors / 2) as f64;
            let zone = found.zones.iter().rfind(|zone| zone.from <= middle).expect("a zone");
            let expected = (1.0 + drive.track_skew) / *per_track as f64;
            right += usize::from((zone.per_sector / expected - 1.0).abs() < 1e-3);
            first += sectors;
        }
        assert_eq!(right, drive.zones.len(), "{:?}", found.zones);
    }
}

#[test]
fn requests_not_seen_are_told_closer_than_angles_drawn_anew_would_allow() {
    for drive in drives() {
        let blind = Drive { forgets_angle: Some(9), ..drive.clone() };
        let ((requests, cut), (blindly, _)) = (trace(&drive, 6), trace(&blind, 6));
        let (known, unknown) = (model(&requests[..cut]), model(&blindly[..cut]));
        assert!(forest(&known).platters.is_some() && forest(&unknown).platters.is_none());
        let errors = (error_us(&known, &requests, cut), error_us(&unknown, &blindly, cut));
        assert!(errors.0 < 0.6 * errors.1, "{errors:?}");
        let skill = |model, requests| free_running(model, requests, cut, 1).unwrap().over_histogram;
        let skills = (skill(&known, &requests), skill(&unknown, &blindly));
        assert!(skills.0 > skills.1 + 0.05, "{skills:?}");
    }
}

#[test]
fn a_model_file_holds_the_platters_and_refuses_impossible_ones() {
    let (requests, cut) = trace(&Drive::nameless(), 7);
    let known = model(&requests[..cut]);
    let bytes = file::to_bytes(std::slice::from_ref(&known));
    let again = file::from_bytes(&bytes).unwrap().remove(0);
    assert!(again == known);
    let run = |model: &DeviceModel| responses_us(&closed_loop(model, &requests, 1.2, 3).unwrap());
    assert!(run(&again) == run(&known));
    let text = b"\"turn_us\":";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap() + text.len();
    let mut impossible = bytes.clone();
    impossible[at] = b'-';
    assert!(file::from_bytes(&impossible).unwrap_err().to_string().contains("impossible"));
}

#[test]
fn platters_that_slip_are_followed_one_step_at_a_time_and_a_free_run_knows_nothing_of_it() {
    let drive = Drive::nameless();
    let (requests, cut) = trace(&drive, 8);
    let known = model(&requests[..cut]);
    let free = |requests: &[Request]| responses_us(&closed_loop(&known, requests, 1.0, 3).unwrap());
    let steady_us = error_us(&known, &requests, cut);
    // As if requests that took some time were missing from the trace.
    let later_ns = (0.4 * drive.revolution_us * 1e3) as u64;
    let mut slipped = requests.clone();
    for request in &mut slipped[cut..] {
        request.arrival_ns += later_ns;
        request.completion_ns += later_ns;
    }
    let followed_us = error_us(&known, &slipped, cut + 600);
    assert!(followed_us < 1.1 * steady_us, "{followed_us}, {steady_us}");
    // Completions are the same, the angles are not: the run is another.
    let moved = free(&slipped)[cut..]
        .iter()
        .zip(&free(&requests)[cut..])
        .filter(|(a, b)| (*a - *b).abs() > 1.0)
        .count();
    assert!(moved > 1000, "{moved}");
}
