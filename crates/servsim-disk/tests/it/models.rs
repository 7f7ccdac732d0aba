//! Models against truth: an independently written drive, and what every model must keep.

#![allow(clippy::float_cmp)] // Values that are computed in two ways, exactly.

use crate::truth::truth;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use servsim_disk::error::ModelError;
use servsim_disk::evaluate::{at_load, at_load_pooled, replications};
use servsim_disk::features::{Command, History, Start};
use servsim_disk::models::bulk::Walker;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::grow::Node;
use servsim_disk::models::{file, DeviceModel, Model};
use servsim_disk::moves::predict;
use servsim_disk::reorganize::{covered, plan, Policy};
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::station::{Device, Station};
use servsim_disk::server::Discipline;
use servsim_disk::simulate::{check_times, closed_loop, open_loop};
use servsim_oracle::drive::{workload, Drive, Job, Order};

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
            let seen = at_load_pooled(&model, &base, load, Some(&real), 3, replications(base.len())).unwrap();
            let (mean, d) = (seen.mean_error_percent.unwrap(), seen.d_percent.unwrap());
            assert!(
                mean.abs() <= mean_limit && d <= d_limit,
                "{order:?} x{load}: mean {mean:+.1} %, D {d:.1} %"
            );
        }
    }
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
fn trees_of_another_device_are_refused_by_the_times_of_a_trace_and_other_loads_and_places_are_not() {
    let drive = Drive::nameless();
    let jobs = workload(&drive, 4000, 14_000.0, 3);
    let base = truth(&drive, &jobs, Order::Fcfs, 1.0);
    let model = forest(&base);
    let near: Vec<_> = jobs.iter().map(|job| Job { lba: job.lba / 16, ..*job }).collect();
    for same in [&base, &truth(&drive, &jobs, Order::Fcfs, 1.4), &truth(&drive, &near, Order::Sstf, 1.0)] {
        check_times(&model, same, "sda").unwrap();
    }
    let slower = |factor: u64| -> Vec<Request> {
        let slow = |r: &Request| Request {
            arrival_ns: factor * r.arrival_ns,
            completion_ns: factor * r.completion_ns,
            ..*r
        };
        base.iter().map(slow).collect()
    };
    let said = check_times(&model, &slower(3), "sda").unwrap_err().to_string();
    assert!(said.contains("of `sda` took") && said.contains("another device"), "{said}");
    check_times(&forest(&slower(3)), &base, "sda").unwrap_err();
    // Models of whole responses hold queues, which other loads change.
    for kind in ["unconditional", "paper"] {
        let other = fit(kind, &base, &[], &FitOptions::default()).unwrap().remove(0);
        check_times(&other, &slower(3), "sda").unwrap();
    }
}

#[test]
fn a_scheduler_that_goes_by_cylinders_is_found_to_and_holds_at_higher_loads() {
    // Two seeds and a drive with a write buffer, which keeps its arm busy after it has answered.
    let drive = Drive { zones: vec![(4000, 250)], heads: 8, revolution_us: 5555.0, ..Drive::nameless() };
    for seed in [31, 32] {
        let jobs = workload(&drive, 15_000, 10_000.0, seed);
        let base = truth(&drive, &jobs, Order::Sstf, 1.0);
        let model = forest(&base);
        let inference = model.inference.as_ref().unwrap();
        let place = inference.server.place_sectors;
        assert_eq!(model.server.discipline, Discipline::Sstf);
        assert!((1000..=4000).contains(&place), "a cylinder has 2000 sectors, found {place}");
        assert!(inference.agreement[1] > 0.96, "{inference:?}");
        for (load, limit) in [(1.0, 3.0), (1.2, 3.0), (1.4, 6.0)] {
            let real = truth(&drive, &jobs, Order::Sstf, load);
            let seen = at_load_pooled(&model, &base, load, Some(&real), 3, replications(base.len())).unwrap();
            let error = seen.mean_error_percent.unwrap();
            assert!(error.abs() <= limit, "seed {seed} x{load}: {error:+.1} %");
        }
    }
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

#[test]
fn drawing_in_step_is_drawing_one_by_one() {
    let drive = Drive::nameless();
    // Few enough that no tail is fitted, which draws from the same stream at other moments.
    let base = truth(&drive, &workload(&drive, 3005, 9000.0, 3), Order::Fcfs, 1.0);
    let model = forest(&base);
    let Model::Forest(trees) = &model.model else { panic!("a forest") };
    assert!(trees.tail.is_none());
    let mut history = History::default();
    let mut rows = Vec::new();
    for request in &base {
        let command = Command::from(request);
        rows.push(history.features(&Start { command, start_ns: request.arrival_ns, idle_ns: 7, others: 0 }));
        history.advance(&command, request.completion_ns);
    }
    let (mut one, mut other) = (Pcg64Mcg::seed_from_u64(8), Pcg64Mcg::seed_from_u64(8));
    let mut draws = vec![0.0; rows.len()];
    Walker::new(trees).draw_many_us(&rows, &mut one, &mut draws);
    assert!(rows.iter().zip(&draws).all(|(row, draw)| trees.draw_us(row, &mut other) == *draw));
}

#[test]
fn the_short_way_of_a_device_that_serves_in_order_is_the_general_one() {
    let drive = Drive::nameless();
    for (count, idle) in [(3005, true), (2000, false)] {
        let base = truth(&drive, &workload(&drive, count, 9000.0, 5), Order::Fcfs, 1.0);
        let mut model = forest(&base);
        model.server.discipline = Discipline::Fcfs;
        if let (Model::Forest(trees), true) = (&mut model.model, idle) {
            // Ask for the time since a write, and for idleness, in every other node.
            for node in trees.nodes.iter_mut().step_by(2).filter(|node| node.feature() < 16) {
                let feature = if node.child() % 4 < 2 { 4 } else { 12 };
                *node = Node::new(feature, 3000.0, node.child());
            }
        }
        let service = model.model.as_service().unwrap();
        let mut station = Station::new(&model.server, service, Pcg64Mcg::seed_from_u64(4));
        let mut general = Vec::new();
        for (id, request) in base.iter().enumerate() {
            let each = &mut |started| general.push(started);
            station.submit(id as u64, Command::from(request), request.arrival_ns, each);
        }
        station.advance(u64::MAX, &mut |started| general.push(started));
        assert!(closed_loop(&model, &base, 1.0, 4).unwrap() == general);
    }
}

#[test]
fn a_model_for_moves_knows_no_block_by_its_place() {
    // Most requests go to 300 blocks far in; what lies at the edge is slow for reasons of its own.
    let mut words = servsim_oracle::drive::Words(4);
    let mut now_ns = 0;
    let requests: Vec<Request> = (0..4000)
        .map(|_| {
            now_ns += 60_000_000 + words.below(80_000_000);
            let at_edge = words.below(100) < 15;
            let lba = if at_edge { words.below(500) * 8 } else { 1_000_000 + words.below(300) * 8 };
            let service_ns = 3_000_000 + words.below(4_000_000) + if at_edge { 40_000_000 } else { 0 };
            Request {
                arrival_ns: now_ns,
                start_ns: NO_START,
                completion_ns: now_ns + service_ns,
                lba,
                sectors: 8,
                device: 0,
                op: Op::Read,
                by_tracer: false,
            }
        })
        .collect();
    let map = plan(&requests, 300, Policy::HotBlock);
    let predicted = |movable| {
        let options = FitOptions { movable, ..FitOptions::default() };
        let model = fit("forest", &requests, &["disk0".to_owned()], &options).unwrap().remove(0);
        predict(&model, &requests, &map, covered(&requests, 300), 1.0, 1).unwrap()
    };
    let (bound, free) = (predicted(false), predicted(true));
    assert!(bound.bound_to_place && !free.bound_to_place);
    assert!(bound.change_percent > 100.0 && free.change_percent < 20.0, "{bound:?} {free:?}");
}
