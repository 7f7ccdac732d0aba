//! Sweeps over load beside queues that are solved: one server, Poisson arrivals, constant service.

use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::DeviceModel;
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::sets::layout::Layout;
use servsim_disk::sweep::{sweep, Plan, Sweep};
use servsim_oracle::drive::Words;

const SERVICE_NS: u64 = 10_000_000;

/// Poisson arrivals at a tenth of what a device that takes 10 ms a request can do.
fn arrivals(count: usize) -> Vec<Request> {
    let (mut words, mut now, mut free) = (Words(3), 0.0, 0);
    let mut request = |at: usize| {
        now -= 10.0 * SERVICE_NS as f64 * (1.0 - words.unit()).ln();
        let arrival_ns = now as u64;
        free = free.max(arrival_ns) + SERVICE_NS;
        let op = if at.is_multiple_of(4) { Op::Write } else { Op::Read };
        let lba = words.below(1 << 20) * 8;
        Request {
            arrival_ns,
            start_ns: NO_START,
            completion_ns: free,
            lba,
            sectors: 8,
            device: 0,
            op,
            by_tracer: false,
        }
    };
    (0..count).map(&mut request).collect()
}

fn constant(requests: &[Request]) -> DeviceModel {
    fit("forest", &requests[..4000], &[], &FitOptions::default()).unwrap().remove(0)
}

fn swept(loads: &[f64], runs: u64) -> Sweep {
    let requests = arrivals(40_000);
    let plan = Plan { loads, seed: 1, runs, set: None, allow_unskilled: false };
    sweep(&constant(&requests), &requests, &plan).unwrap()
}

#[test]
fn the_means_of_a_queue_with_constant_service_are_those_of_its_formula_and_so_is_its_knee() {
    let loads: Vec<f64> = (1..=9).map(f64::from).collect();
    let found = swept(&loads, 2);
    for point in &found.points {
        let (busy, figures) = (point.load / 10.0, point.figures.as_ref().unwrap());
        // Pollaczek and Khinchine, no variance of service.
        let mean_ms = 10.0 * (1.0 + busy / (2.0 * (1.0 - busy)));
        let tolerance = if busy < 0.75 { 0.03 } else { 0.15 };
        assert!(
            (figures.response.mean_ms / mean_ms - 1.0).abs() < tolerance,
            "{busy}: {:?}, {mean_ms}",
            figures.response
        );
        assert!((figures.utilization - busy).abs() < 0.02, "{busy}: {}", figures.utilization);
        let reads = figures.by_operation.read.unwrap();
        assert_eq!((reads.requests, figures.response.requests), (60_000, 80_000));
        assert_eq!(figures.runs.len(), 2);
    }
    // Throughput over response is highest where 2 - busy is the root of 2.
    let knee = found.knee.unwrap();
    assert_eq!((knee.load, knee.above, knee.below), (6.0, Some(5.0), Some(7.0)), "{knee:?}");
    assert_eq!(found.saturated_from, None);
}

#[test]
fn beyond_what_the_device_can_do_it_is_saturated_and_a_knee_at_an_end_is_said_to_lie_there() {
    let found = swept(&[0.5, 1.0, 2.0], 1);
    let knee = found.knee.unwrap();
    assert_eq!((knee.load, knee.above, knee.below), (2.0, Some(1.0), None));
    let found = swept(&[8.0, 9.0, 12.0, 20.0], 1);
    let knee = found.knee.unwrap();
    assert_eq!((knee.load, knee.above, knee.below), (8.0, None, Some(9.0)));
    assert_eq!(found.saturated_from, Some(12.0));
    let busiest = found.points.last().unwrap().figures.as_ref().unwrap();
    assert!(
        (busiest.throughput_per_second - 100.0).abs() < 0.1 && busiest.arrivals_per_second > 190.0,
        "{busiest:?}"
    );
}

#[test]
fn a_mirror_bears_reads_twice_as_dense_and_loads_that_descend_are_refused() {
    let requests: Vec<Request> =
        arrivals(20_000).into_iter().map(|r| Request { op: Op::Read, ..r }).collect();
    let model = constant(&requests);
    let mirror: Layout = "raid1:2".parse::<servsim_disk::sets::spec::SetSpec>().unwrap().layout;
    let loads = [5.0, 8.0, 11.0];
    let plan = Plan { loads: &loads, seed: 1, runs: 1, set: Some(mirror), allow_unskilled: false };
    let found = sweep(&model, &requests, &plan).unwrap();
    assert_eq!(found.saturated_from, None, "{found:?}");
    let one = sweep(&model, &requests, &Plan { set: None, ..plan.clone() }).unwrap();
    assert_eq!(one.saturated_from, Some(11.0));
    let descending = Plan { loads: &[2.0, 1.0], ..plan };
    let said = sweep(&model, &requests, &descending).unwrap_err().to_string();
    assert!(said.contains("do not ascend"), "{said}");
}
