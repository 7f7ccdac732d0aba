//! Queues that take long to grow: simulated until they have, or refused, whatever holds the requests back. Runs begin
//! empty, so that short ones agree on too little.

use servsim_model::network::Full;
use servsim_model::sim::Plan;
use servsim_model::solution::Interval;
use servsim_model::{solve, Class, Discipline, ModelError, Network, Options, Pool, Solution, Speed, Station};

fn simulated(network: &Network) -> Result<Solution, ModelError> {
    solve(network, "simulation", &Options::default())
}

/// One open class at these stations.
fn web(rate: f64, stations: Vec<Station>) -> Network {
    Network::new("web", vec![Class::open("web", rate)], stations)
}

/// The 95 % interval of the only class's response holds what it should, and is narrow enough to say something.
fn holds(network: &Network, expected: f64) {
    let found = simulated(network).unwrap().classes[0].response_interval.unwrap();
    assert!(found.low < expected && expected < found.high, "{found:?} {expected}");
    assert!(found.high < 1.25 * expected, "{found:?} {expected}");
}

#[test]
fn a_run_too_short_to_fill_a_busy_queue_is_lengthened_or_refused() {
    let at = |rate: f64, requests: f64| {
        let network = Network::new("n", vec![Class::open("web", rate)], vec![Station::queue("cpu", &[1.0])]);
        let simulation = Plan { requests, ..Plan::default() };
        solve(&network, "simulation", &Options { simulation, ..Options::default() })
    };
    // The mean of 20 was simulated as 15.8 in runs of 400 requests.
    let response = at(0.95, 400.0).unwrap().classes[0].response_interval.unwrap();
    assert!(response.low < 20.0 && 20.0 < response.high, "{response:?}");
    let text = at(0.999, 20_000.0).unwrap_err().to_string();
    assert!(text.contains("`cpu` is so near saturation") && text.contains("simulate "), "{text}");
}

/// A closed request that is served first half of the time interrupts a single server: its queue is that of a server that
/// breaks down (White and Christie, Operations Research 6, 1958), with means of 1 s between and of breakdowns.
#[test]
fn an_open_class_behind_a_closed_one_is_simulated_until_it_settles_or_refused() {
    let behind = |rate: f64| {
        let mut classes = vec![Class::closed("batch", 1, 1.0), Class::open("web", rate)];
        classes[0].priority = 1;
        let cpu = Station::queue("cpu", &[1.0, 0.1]).with_discipline(Discipline::Priority);
        simulated(&Network::new("n", classes, vec![cpu]))
    };
    let expected = 3.5 / (5.0 - 4.7);
    let web = behind(4.7).unwrap().classes[1].response_interval.unwrap();
    assert!(0.8 * expected < web.low && web.low < expected && expected < web.high, "{web:?} {expected}");
    let fault = behind(4.99).unwrap_err().to_string();
    assert!(fault.contains("class `web` is so near saturation") && fault.contains("simulate "), "{fault}");
}

/// What the open class leaves of a station that is never idle is the closed class's; their queue takes hours to grow.
#[test]
fn an_open_class_beside_many_closed_requests_is_simulated_until_it_settles() {
    let classes = vec![Class::closed("batch", 100, 1.0), Class::open("web", 8.0)];
    let cpu = Station::queue("cpu", &[1.0, 0.1]).with_discipline(Discipline::Fcfs);
    let found = simulated(&Network::new("n", classes, vec![cpu])).unwrap();
    let batch = &found.classes[0];
    let contains =
        |interval: Option<Interval>, value| interval.unwrap().low < value && value < interval.unwrap().high;
    assert!(contains(batch.throughput_interval, 0.2), "{batch:?}");
    assert!(contains(batch.response_interval, 100.0 / 0.2 - 1.0), "{batch:?}");
}

/// A lock around a delay is a server. What it is asked for is in the load of no station.
#[test]
fn a_lock_that_is_hardly_ever_free_is_simulated_until_its_line_has_grown_or_refused() {
    let behind = |rate: f64| {
        let mut network = web(rate, vec![Station::queue("io", &[0.1]).with_speed(Speed::Delay)]);
        network.pools =
            vec![Pool { name: "lock".into(), size: 1, parent: None, holds: vec![0.1], calls: 1.0 }];
        network
    };
    holds(&behind(9.8), 0.1 / (1.0 - 0.98));
    let fault = simulated(&behind(9.97)).unwrap_err();
    assert!(matches!(fault, ModelError::Saturated { .. }), "{fault}");
    let fault = fault.to_string();
    assert!(fault.contains("class `web` is so near saturation") && fault.contains("simulate "), "{fault}");
    let fault = simulated(&behind(12.0)).unwrap_err();
    assert!(matches!(fault, ModelError::Saturated { .. }), "{fault}");
    // Its line grew until the host's memory was full.
    let fault = simulated(&behind(1e8)).unwrap_err();
    assert!(matches!(fault, ModelError::Saturated { .. }), "{fault}");
    assert!(fault.to_string().contains("more than 10000000 of its requests"), "{fault}");
}

/// With as many requests as it can serve a station's room is filled by chance: any number present is as likely.
#[test]
fn a_large_room_is_simulated_until_it_has_filled_or_refused() {
    let room = |most: usize| {
        let cpu = Station::queue("cpu", &[0.1]).with_discipline(Discipline::Fcfs);
        web(10.0, vec![cpu.with_room(most, Full::Lose)])
    };
    holds(&room(300), 0.1 * 301.0 / 2.0);
    let fault = simulated(&room(3000)).unwrap_err().to_string();
    assert!(fault.contains("class `web` is so near saturation"), "{fault}");
}

/// A queue in front of a station that requests visit ten times is as slow as one of ten times as long services.
#[test]
fn requests_that_come_back_are_simulated_for_longer() {
    let mut cpu = Station::queue("cpu", &[0.1]).with_discipline(Discipline::Fcfs);
    cpu.visits = vec![10.0];
    holds(&web(9.7, vec![cpu]), 0.1 / (1.0 - 0.97));
}

/// Where closed requests are spread as likely over two stations in one way as in another, they begin at the
/// first, and move on by chance.
#[test]
fn closed_requests_are_simulated_until_they_have_spread_or_said_not_to_have() {
    let two = |population| Network::single(population, 0.0, &[0.1, 0.1]);
    let spread = simulated(&two(200)).unwrap();
    let first = spread.stations[0].queue[0];
    assert!((88.0..=112.0).contains(&first), "{first} of 200");
    let said = |solution: &Solution| solution.notes.iter().any(|note| note.contains("changes so slowly"));
    assert!(!said(&spread), "{:?}", spread.notes);
    assert!(said(&simulated(&two(2000)).unwrap()));
}
