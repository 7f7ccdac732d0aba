//! What really happened: requests as the drive of `servsim-oracle` serves them. Shared by the tests and
//! the accuracy benchmark.

use servsim_disk::request::{Op, Request, NO_START};
use servsim_oracle::drive::{Drive, Job, Order};

/// What `drive` makes of `jobs` at `load`, one request a job.
pub fn truth(drive: &Drive, jobs: &[Job], order: Order, load: f64) -> Vec<Request> {
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
