//! What really happened: requests as the drive of `servsim-oracle` serves them. Shared by the tests and
//! the accuracy benchmarks.
#![allow(dead_code)]

use servsim_disk::metrics::autocorrelation::of_logarithms;
use servsim_disk::models::DeviceModel;
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::simulate::{closed_loop, responses_us};
use servsim_oracle::drive::{workload, Drive, Job, Order, Words};
use servsim_oracle::flash::Flash;

/// What `drive` makes of `jobs` at `load`, one request a job.
pub fn truth(drive: &Drive, jobs: &[Job], order: Order, load: f64) -> Vec<Request> {
    let jobs = denser(jobs, load);
    requests(&jobs, drive.run(&jobs, order))
}

/// What a solid-state disk makes of them.
pub fn flash_truth(flash: &Flash, jobs: &[Job], load: f64) -> Vec<Request> {
    let jobs = denser(jobs, load);
    requests(&jobs, flash.run(&jobs))
}

fn denser(jobs: &[Job], load: f64) -> Vec<Job> {
    jobs.iter().map(|job| Job { arrival_ns: (job.arrival_ns as f64 / load) as u64, ..*job }).collect()
}

fn requests(jobs: &[Job], done: Vec<u64>) -> Vec<Request> {
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

/// Jobs of which 60 % go to 600 blocks anywhere, some much hotter than others.
pub fn heated(drive: &Drive, requests: usize, mean_gap_us: f64, seed: u64) -> Vec<Job> {
    let mut words = Words(seed);
    let hot: Vec<u64> = (0..600).map(|_| words.below(drive.sectors() / 8 - 100) * 8).collect();
    let heat = |job: Job| {
        let (is_hot, rank) = (words.unit() < 0.6, words.unit());
        let lba = hot[(rank * rank * 600.0) as usize];
        if is_hot {
            Job { lba, sectors: 8, ..job }
        } else {
            job
        }
    };
    workload(drive, requests, mean_gap_us, seed).into_iter().map(heat).collect()
}

/// Error of the mean of `model`, fitted to `jobs` at load 1, at `load`, percent, and by how much its autocorrelation is off.
pub fn flash_errors(model: &DeviceModel, flash: &Flash, jobs: &[Job], load: f64) -> (f64, f64) {
    let real = flash_truth(flash, jobs, load);
    let real_us: Vec<f64> = real.iter().map(|request| request.response_ns() as f64 * 1e-3).collect();
    let said_us = responses_us(&closed_loop(model, &flash_truth(flash, jobs, 1.0), load, 1).unwrap());
    let said = said_us.iter().sum::<f64>() / said_us.len() as f64;
    let (real_acf, said_acf) = (of_logarithms(&real_us, 1), of_logarithms(&said_us, 1));
    (100.0 * (said / (mean(&real) * 1e-3) - 1.0), (said_acf - real_acf).abs())
}

/// Mean response, ns.
pub fn mean(requests: &[Request]) -> f64 {
    requests.iter().map(|r| r.response_ns() as f64).sum::<f64>() / requests.len() as f64
}
