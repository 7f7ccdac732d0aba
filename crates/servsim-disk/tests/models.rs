//! Models against truth: an independently written drive, and what every model must keep.

use servsim_disk::error::ModelError;
use servsim_disk::evaluate::at_load;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::{file, DeviceModel};
use servsim_disk::reorganize::{covered, plan, predict, Policy};
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::Discipline;
use servsim_disk::simulate::{closed_loop, open_loop};
use servsim_oracle::drive::{workload, Drive, Job, Order};

/// What `drive` makes of `jobs` at `load`.
fn truth(drive: &Drive, jobs: &[Job], order: Order, load: f64) -> Vec<Request> {
    let jobs: Vec<Job> =
        jobs.iter().map(|job| Job { arrival_ns: (job.arrival_ns as f64 / load) as u64, ..*job }).collect();
    let done = drive.run(&jobs, order);
    let request = |(job, completion_ns): (&Job, u64)| Request {
        arrival_ns: job.arrival_ns,
        start_ns: NO_START,
        completion_ns,
        lba: job.lba,
        sectors: job.sectors,
        device: 0,
        op: if job.is_write { Op::Write } else { Op::Read },
        by_tracer: false,
    };
    jobs.iter().zip(done).map(request).collect()
}

fn forest(requests: &[Request]) -> DeviceModel {
    fit("forest", requests, &["disk0".to_owned()], &FitOptions::default()).unwrap().remove(0)
}

#[test]
fn a_model_fitted_at_one_load_is_right_at_higher_loads_and_finds_the_scheduler() {
    let drive = Drive::nameless();
    for (order, gap_us, expected) in
        [(Order::Fcfs, 14_000.0, Discipline::Fcfs), (Order::Sstf, 12_000.0, Discipline::Sstf)]
    {
        let jobs = workload(&drive, 20_000, gap_us, 7);
        let base = truth(&drive, &jobs, order, 1.0);
        let model = forest(&base);
        assert_eq!((model.server.discipline, model.server.slots), (expected, 1));
        for (load, mean_limit, d_limit) in [(1.0, 3.0, 6.0), (1.2, 3.0, 6.0), (1.4, 6.0, 9.0)] {
            let real = truth(&drive, &jobs, order, load);
            let seen = at_load(&model, &base, load, Some(&real), 3).unwrap();
            let (mean, d) = (seen.mean_error_percent.unwrap(), seen.d_percent.unwrap());
            assert!(
                mean.abs() <= mean_limit && d <= d_limit,
                "{order:?} x{load}: mean {mean:+.1} %, D {d:.1} %"
            );
        }
    }
}

#[test]
fn a_reorganisation_is_predicted_within_five_points_on_a_drive_never_seen() {
    let drive = Drive { write_behind: false, ..Drive::nameless() };
    let jobs = workload(&drive, 15_000, 20_000.0, 21);
    let base = truth(&drive, &jobs, Order::Fcfs, 1.0);
    let map = plan(&base, 1000, Policy::HotBlock);
    let moved: Vec<Job> = jobs.iter().map(|job| Job { lba: map.sector(job.lba), ..*job }).collect();
    let mean = |requests: &[Request]| {
        requests.iter().map(|r| r.response_ns() as f64).sum::<f64>() / requests.len() as f64
    };
    let real = 100.0 * (mean(&truth(&drive, &moved, Order::Fcfs, 1.0)) / mean(&base) - 1.0);
    let predicted =
        predict(&forest(&base), &base, &map, covered(&base, 1000), 1.0, 1).unwrap().change_percent;
    assert!((predicted - real).abs() < 5.0, "predicted {predicted:+.1} %, truth {real:+.1} %");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_the_file_gives_the_same_model() {
    let drive = Drive::nameless();
    let base = truth(&drive, &workload(&drive, 3000, 14_000.0, 3), Order::Fcfs, 1.0);
    for kind in ["forest", "paper", "unconditional"] {
        let make = || fit(kind, &base, &["disk0".to_owned()], &FitOptions::default()).unwrap();
        let (models, bytes) = (make(), file::to_bytes(&make()));
        assert_eq!(bytes, file::to_bytes(&models), "{kind}");
        let again = file::from_bytes(&bytes).unwrap();
        assert!(again == models, "{kind}");
        assert_eq!(open_loop(&again[0], &base, 5), open_loop(&models[0], &base, 5));
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert!(file::from_bytes(&damaged).unwrap_err().to_string().contains("checksum"), "{kind}");
        for length in [0, 5, 9, 40, bytes.len() - 1] {
            assert!(file::from_bytes(&bytes[..length]).is_err(), "{kind} cut at {length}");
        }
    }
}

#[test]
fn a_short_trace_says_how_many_requests_are_missing_and_a_foreign_model_is_refused() {
    let drive = Drive::nameless();
    let base = truth(&drive, &workload(&drive, 150, 14_000.0, 3), Order::Fcfs, 1.0);
    let short = fit("forest", &base, &[], &FitOptions::default()).unwrap_err();
    assert!(matches!(short, ModelError::TooShort { have: 150, missing: 50, .. }), "{short}");
    let base = truth(&drive, &workload(&drive, 1000, 14_000.0, 3), Order::Fcfs, 1.0);
    let model = forest(&base);
    let mut other = model.inference.clone().unwrap();
    other.server.slots = 8;
    assert!(matches!(model.check_class(&other), Err(ModelError::OtherDevice { .. })));
    assert!(fit("forrest", &base, &[], &FitOptions::default()).unwrap_err().to_string().contains("`forest`"));
    assert!(closed_loop(&model, &base, 0.0, 1).is_err());
}

#[test]
fn a_device_that_overlaps_requests_is_found_to_serve_them_side_by_side() {
    let mut requests = Vec::new();
    let mut words = servsim_oracle::drive::Words(9);
    let mut now = 0;
    for k in 0..5000_u64 {
        now += words.below(200_000);
        let service = 80_000 + words.below(40_000);
        requests.push(Request {
            arrival_ns: now,
            start_ns: NO_START,
            completion_ns: now + service,
            lba: k * 8,
            sectors: 8,
            device: 0,
            op: Op::Read,
            by_tracer: false,
        });
    }
    let model = forest(&requests);
    assert!(model.server.slots >= 3, "{:?}", model.server);
    let seen = at_load(&model, &requests, 1.0, Some(&requests), 1).unwrap();
    assert!(seen.mean_error_percent.unwrap().abs() < 3.0, "{seen:?}");
}
