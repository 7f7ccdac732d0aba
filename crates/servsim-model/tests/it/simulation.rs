//! The simulator against exact answers, and its intervals against their promise.

use std::sync::Arc;
use std::thread;

use crate::common::{fresh_seed, relative};
use servsim_model::sim::{Plan, Watch};
use servsim_model::solution::Interval;
use servsim_model::{
    solve, Class, Discipline, Fork, ModelError, Network, Options, Pool, Solution, Speed, Station,
};

fn simulated(network: &Network, requests: f64, seed: u64) -> Solution {
    let simulation = Plan { requests, seed, ..Plan::default() };
    solve(network, "simulation", &Options { simulation, ..Options::default() }).unwrap()
}

#[test]
fn closed_networks_of_every_station_kind_match_the_exact_solution() {
    let mut network = Network::single(20, 3.0, &[0.2, 0.5, 0.12, 0.3]);
    network.stations[1].speed = Speed::Servers(3);
    network.stations[1].discipline = Discipline::Fcfs;
    network.stations[2].speed = Speed::Rates(vec![1.0, 1.5, 1.8]);
    network.stations[3].speed = Speed::Delay;
    network.stations[0].visits = vec![2.5];
    let exact = solve(&network, "convolution", &Options::default()).unwrap();
    let measured = simulated(&network, 40_000.0, 11);
    assert!(relative(measured.throughput(), exact.throughput()) < 0.01);
    assert!(relative(measured.response(), exact.response()) < 0.02);
    for (a, b) in measured.stations.iter().zip(&exact.stations) {
        assert!(
            (a.utilization - b.utilization).abs() < 0.01,
            "{}: {} {}",
            a.name,
            a.utilization,
            b.utilization
        );
        assert!(relative(a.queue[0], b.queue[0]) < 0.04, "{}", a.name);
    }
}

#[test]
fn mixed_classes_match_the_exact_solution() {
    let stations = vec![Station::queue("cpu", &[0.4, 0.2]), Station::queue("disk", &[0.6, 0.3])];
    let classes = vec![Class::closed("batch", 4, 1.0), Class::open("web", 1.1)];
    let network = Network::new("mixed", classes, stations);
    let exact = solve(&network, "mva", &Options::default()).unwrap();
    let measured = simulated(&network, 40_000.0, 5);
    for (a, b) in measured.classes.iter().zip(&exact.classes) {
        assert!(relative(a.throughput, b.throughput) < 0.02, "{}", a.name);
        assert!(relative(a.response, b.response) < 0.05, "{}", a.name);
    }
}

#[test]
fn priorities_are_exact_for_one_open_queue_and_near_the_simulation_when_closed() {
    let station = |d: &[f64]| Station::queue("cpu", d).with_discipline(Discipline::Priority);
    let mut classes = vec![Class::open("urgent", 0.5), Class::open("batch", 0.3)];
    classes[0].priority = 1;
    let network = Network::new("open", classes, vec![station(&[0.8, 1.0])]);
    let solution = solve(&network, "priority", &Options::default()).unwrap();
    assert!(relative(solution.classes[0].response, 0.8 / 0.6) < 1e-6);
    let measured = simulated(&network, 100_000.0, 3);
    assert!(relative(measured.classes[0].response, 0.8 / 0.6) < 0.02);
    assert!(relative(measured.classes[1].response, solution.classes[1].response) < 0.05);

    let mut classes = vec![Class::closed("urgent", 5, 8.0), Class::closed("batch", 3, 0.0)];
    classes[0].priority = 1;
    let stations = vec![station(&[0.8, 1.0]), Station::queue("disk", &[0.5, 0.7])];
    let network = Network::new("closed", classes, stations);
    let solution = solve(&network, "priority", &Options::default()).unwrap();
    let measured = simulated(&network, 40_000.0, 4);
    for (a, b) in solution.classes.iter().zip(&measured.classes) {
        println!(
            "{}: X {:.4} simulated {:.4}; R {:.4} simulated {:.4}",
            a.name, a.throughput, b.throughput, a.response, b.response
        );
        // Bryant's approximation overstates the wait of the low class in closed networks.
        assert!(relative(a.throughput, b.throughput) < 0.15, "{}", a.name);
        assert!(relative(a.response, b.response) < 0.15, "{}", a.name);
    }
}

#[test]
fn priorities_at_several_servers_are_simulated_as_their_chain_says() {
    let mut classes = vec![Class::closed("urgent", 4, 1.0), Class::closed("batch", 5, 0.5)];
    classes[0].priority = 1;
    let cpu = Station::queue("cpu", &[0.8, 1.0]).with_discipline(Discipline::Priority);
    let stations = vec![cpu.with_speed(Speed::Servers(2)), Station::queue("disk", &[0.2, 0.3])];
    let network = Network::new("ranked", classes, stations);
    let exact = solve(&network, "auto", &Options::default()).unwrap();
    assert_eq!(exact.solver, "markov");
    let measured = simulated(&network, 40_000.0, 6);
    for (a, b) in measured.classes.iter().zip(&exact.classes) {
        assert!(relative(a.throughput, b.throughput) < 0.01, "{}: {a:?} {b:?}", a.name);
        assert!(relative(a.response, b.response) < 0.015, "{}: {a:?} {b:?}", a.name);
    }
    let refused = solve(&network, "priority", &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("priorities at several servers (at `cpu`); use `auto`"), "{refused}");
}

#[test]
fn fork_join_is_within_fifteen_per_cent_of_the_simulation() {
    let mut worst: (f64, f64) = (0.0, 0.0);
    for (population, think, demands) in [
        (1, 0.0, vec![0.1, 1.0, 1.0]),
        (10, 5.0, vec![0.1, 1.0, 1.0]),
        (20, 5.0, vec![0.3, 0.5, 0.8, 0.2]),
        (30, 40.0, vec![0.2, 1.0, 1.0, 1.0, 1.0]),
        (8, 1.0, vec![0.9, 1.0, 0.4]),
    ] {
        let mut network = Network::single(population, think, &demands);
        network.forks = vec![Fork::to_stations("join", &(1..demands.len()).collect::<Vec<_>>())];
        let solution = solve(&network, "forkjoin", &Options::default()).unwrap();
        let measured = simulated(&network, 20_000.0, 8);
        let x = relative(solution.throughput(), measured.throughput());
        let r = relative(solution.response(), measured.response());
        println!(
            "fork-join N={population} Z={think} {demands:?}: X {:.2} %, R {:.2} %",
            x * 100.0,
            r * 100.0
        );
        worst = (worst.0.max(x), worst.1.max(r));
    }
    assert!(worst.0 < 0.05 && worst.1 < 0.15, "{worst:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let network = Network::single(5, 1.0, &[0.2, 0.3]);
    let text = |seed| serde_json::to_string(&simulated(&network, 500.0, seed)).unwrap();
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn a_wanted_half_width_is_reached() {
    let network = Network::single(10, 1.0, &[0.1, 0.15]);
    let simulation = Plan { requests: 200.0, half_width: Some(0.01), ..Plan::default() };
    let solution = solve(&network, "simulation", &Options { simulation, ..Options::default() }).unwrap();
    let interval = solution.classes[0].throughput_interval.unwrap();
    assert!((interval.high - interval.low) / 2.0 <= 0.01 * solution.throughput());
}

/// A figure's interval, if it has one, and its true value.
type Told = (Option<Interval>, f64);

/// Share of intervals of a plan, over seeds that follow `first`, that hold the truth, per cent, for each figure that
/// `tell` takes from a solution.
fn coverage(
    network: &Network,
    plan: &Plan,
    (seeds, first): (u64, u64),
    tell: impl Fn(&Solution) -> Vec<Told>,
) -> Vec<f64> {
    let mut held: Vec<u64> = Vec::new();
    for seed in 0..seeds {
        let simulation = Plan { seed: first.wrapping_add(seed), ..plan.clone() };
        let found = solve(network, "simulation", &Options { simulation, ..Options::default() }).unwrap();
        let told = tell(&found);
        held.resize(told.len(), 0);
        for (held, (interval, truth)) in held.iter_mut().zip(told) {
            *held += u64::from(interval.is_some_and(|i| i.low <= truth && truth <= i.high));
        }
    }
    held.iter().map(|&n| 100.0 * n as f64 / seeds as f64).collect()
}

/// Of users and three stations: throughput and response time, then utilisation, number present and residence at the
/// busiest station.
fn of_stations(plan: &Plan, seeds: u64, first: u64) -> Vec<f64> {
    let network = Network::single(12, 2.0, &[0.2, 0.3, 0.1]);
    let exact = solve(&network, "mva", &Options::default()).unwrap();
    let truth = &exact.stations[1];
    coverage(&network, plan, (seeds, first), |found| {
        let (class, station) = (&found.classes[0], &found.stations[1]);
        vec![
            (class.throughput_interval, exact.throughput()),
            (class.response_interval, exact.response()),
            (station.utilization_interval, truth.utilization),
            (station.present_interval, truth.queue[0]),
            (station.residence_intervals.first().copied(), truth.residence[0]),
        ]
    })
}

/// Of users and a lock around a delay, which is a queue: utilisation of the lock, number that wait for it, and wait.
fn of_a_pool(plan: &Plan, seeds: u64, first: u64) -> Vec<f64> {
    let exact = solve(&Network::single(12, 2.0, &[0.2]), "mva", &Options::default()).unwrap();
    let truth = &exact.stations[0];
    let waiting = truth.queue[0] - truth.utilization;
    let mut network = Network::single(12, 2.0, &[0.2]);
    network.stations[0].speed = Speed::Delay;
    network.pools = vec![Pool { name: "lock".into(), size: 1, parent: None, holds: vec![0.2], calls: 1.0 }];
    coverage(&network, plan, (seeds, first), |found| {
        let pool = &found.pools[0];
        vec![
            (pool.utilization_interval, truth.utilization),
            (pool.waiting_interval, waiting),
            (pool.wait_interval, waiting / exact.throughput()),
        ]
    })
}

#[test]
fn a_wanted_half_width_does_not_stop_where_chance_has_made_the_interval_narrow() {
    // Few replications, so that their spread is often too small by chance.
    let plan = Plan { replications: 3, requests: 60.0, half_width: Some(0.1), ..Plan::default() };
    let covered = of_stations(&plan, 400, 1);
    println!("{covered:?}");
    assert!(covered.iter().all(|share| (91.0..=98.0).contains(share)), "{covered:?}");
}

#[test]
fn stations_and_pools_have_intervals_that_hold_the_truth() {
    let plan = Plan { requests: 500.0, ..Plan::default() };
    let covered = [of_stations(&plan, 300, 1), of_a_pool(&plan, 300, 1)].concat();
    println!("{covered:?}");
    assert!(covered.iter().all(|share| (91.0..=98.5).contains(share)), "{covered:?}");
    let network = Network::single(12, 2.0, &[0.2]);
    assert!(solve(&network, "mva", &Options::default()).unwrap().stations[0].present_interval.is_none());
}

/// Share of intervals that hold the true value; some minutes, run by `make acceptance`.
#[test]
#[ignore = "2,000 seeds: run with --ignored"]
fn intervals_cover_the_truth_in_95_per_cent_of_2000_fresh_seeds() {
    let first = fresh_seed();
    let given = Plan { requests: 2_000.0, ..Plan::default() };
    let wanted = Plan { requests: 500.0, half_width: Some(0.02), ..Plan::default() };
    for plan in [given, wanted] {
        let covered = [of_stations(&plan, 2_000, first), of_a_pool(&plan, 2_000, first)].concat();
        println!("coverage over 2,000 seeds from {first}: {covered:?} %");
        assert!(covered.iter().all(|share| (93.5..=96.5).contains(share)), "{covered:?}");
    }
}

#[test]
fn a_simulation_that_is_stopped_ends_on_all_threads_and_so_do_those_that_follow() {
    let network = Network::single(20, 3.0, &[0.2, 0.5]);
    let watch = Arc::new(Watch::default());
    // Hours, were it not stopped.
    let simulation = Plan { requests: 1e10, watch: Some(Arc::clone(&watch)), ..Plan::default() };
    let options = Options { simulation, ..Options::default() };
    let stopped = thread::scope(|scope| {
        let run = scope.spawn(|| solve(&network, "simulation", &options));
        while watch.look().is_none() {
            thread::yield_now();
        }
        watch.stop();
        run.join().unwrap()
    });
    assert!(matches!(stopped, Err(ModelError::Interrupted)), "{stopped:?}");
    let next = solve(&network, "simulation", &options);
    assert!(matches!(next, Err(ModelError::Interrupted)), "{next:?}");
}
