//! Percentiles: laws beside textbook formulas and the event simulator, which knows nothing of them; and what
//! is withheld.

use servsim_model::sim::Plan;
use servsim_model::{solve, Class, Discipline, Network, Options, Solution, Speed, Station};

const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

fn solved(network: &Network, solver: &str, requests: f64) -> Solution {
    let simulation = Plan { requests, seed: 11, ..Plan::default() };
    solve(network, solver, &Options { percentiles: PERCENTS.to_vec(), simulation, ..Options::default() })
        .unwrap()
}

fn open(rate: f64, stations: Vec<Station>) -> Network {
    Network::new("open", vec![Class::open("requests", rate)], stations)
}

fn fcfs(name: &str, demand: f64, servers: usize) -> Station {
    Station::queue(name, &[demand]).with_speed(Speed::Servers(servers)).with_discipline(Discipline::Fcfs)
}

fn delay(name: &str, demand: f64) -> Station {
    Station::queue(name, &[demand]).with_speed(Speed::Delay)
}

fn is_exact(solution: &Solution) -> bool {
    solution.notes.iter().any(|n| n == "percentiles: exact")
}

#[test]
fn a_single_server_first_come_first_served_has_an_exponential_response() {
    let solution = solved(&open(0.9, vec![fcfs("cpu", 1.0, 1)]), "auto", 100.0);
    assert!(is_exact(&solution));
    for (percent, time) in &solution.classes[0].percentiles {
        let expected = -(1.0 - percent / 100.0).ln() / 0.1;
        assert!((time / expected - 1.0).abs() < 1e-6, "p{percent}: {time} for {expected}");
    }
}

#[test]
fn four_servers_have_the_response_of_the_textbook() {
    // Gross and Harris, M/M/c: the wait is 0 or exponential with rate c mu - lambda, then comes the service.
    let (rate, servers) = (3.6, 4.0);
    let weights: Vec<f64> = [1.0, 3.6, 6.48, 7.776].to_vec();
    let tail = 3.6f64.powi(4) / 24.0 / (1.0 - rate / servers);
    let wait = tail / (weights.iter().sum::<f64>() + tail);
    let drain = servers - rate;
    let beyond =
        |t: f64| (-t).exp() * (1.0 - wait) + wait * (drain * (-t).exp() - (-drain * t).exp()) / (drain - 1.0);
    let solution = solved(&open(rate, vec![fcfs("cpu", 1.0, 4)]), "auto", 100.0);
    assert!(is_exact(&solution));
    for (percent, time) in &solution.classes[0].percentiles {
        assert!((beyond(*time) - (1.0 - percent / 100.0)).abs() < 1e-6, "p{percent}: {time}");
    }
}

#[test]
fn laws_agree_with_simulations() {
    let closed = |population, think, station: Station| {
        Network::new("closed", vec![Class::closed("users", population, think)], vec![station])
    };
    let ps = |speed| Station::queue("cpu", &[1.0]).with_speed(speed);
    let mut twice = open(0.5, vec![Station::queue("cpu", &[1.0])]);
    twice.classes = vec![Class::open("a", 0.2), Class::open("b", 0.4)];
    twice.stations = vec![Station::queue("cpu", &[1.0, 1.0])];
    for (what, network) in [
        ("shared", open(0.6, vec![ps(Speed::Servers(1))])),
        ("shared by three", open(2.1, vec![ps(Speed::Servers(3))])),
        ("rates", open(1.2, vec![ps(Speed::Rates(vec![1.0, 1.5, 1.8]))])),
        ("two classes alike", twice),
        ("users, shared", closed(12, 10.0, ps(Speed::Servers(1)))),
        ("users in turn", closed(12, 4.0, fcfs("cpu", 1.0, 2))),
        ("in a row", open(0.5, vec![fcfs("a", 1.0, 1), fcfs("b", 1.2, 1), fcfs("c", 2.0, 3)])),
        ("delays around", open(0.6, vec![delay("a", 2.0), ps(Speed::Servers(1)), delay("b", 1.0)])),
    ] {
        let exact = solved(&network, "auto", 100.0);
        assert!(is_exact(&exact), "{what}: {:?}", exact.notes);
        let simulated = solved(&network, "simulation", 20_000.0);
        for (class, other) in exact.classes.iter().zip(&simulated.classes) {
            for ((percent, time), (_, low, high)) in class.percentiles.iter().zip(&other.percentile_intervals)
            {
                // Bins of the simulated times are half a per cent wide.
                let beyond = (time - 0.5 * (low + high)).abs() - 0.005 * time;
                assert!(
                    beyond < high - low,
                    "{what}, p{percent}: {time:.4}, simulated {low:.4} to {high:.4}"
                );
                assert!(high - low < 0.2 * time, "{what}, p{percent}: {low:.4} to {high:.4} tells nothing");
            }
        }
    }
}

#[test]
fn models_without_a_law_are_simulated_with_intervals() {
    // Two shared stations: the 99th percentile lies at three times what a fit to two moments gave (9.6 s); a
    // separate simulator found 26.3 s.
    let solution = solved(&Network::single(60, 5.0, &[0.1, 0.18]), "auto", 20_000.0);
    assert!(!is_exact(&solution));
    let class = &solution.classes[0];
    let (percent, time) = class.percentiles[3];
    assert!(percent > 98.0 && (time / 26.3 - 1.0).abs() < 0.05, "{time}");
    let (_, low, high) = class.percentile_intervals[3];
    assert!(low < time && time < high && high - low < 0.1 * time, "{low} {high}");
}

#[test]
fn what_a_short_simulation_cannot_tell_is_withheld() {
    let network = open(0.999, vec![Station::queue("a", &[1.0]), Station::queue("b", &[1.0])]);
    let solution = solved(&network, "auto", 500.0);
    assert!(solution.classes[0].percentiles.is_empty(), "{:?}", solution.classes[0].percentiles);
    assert!(solution.notes.iter().any(|n| n.contains("withheld")), "{:?}", solution.notes);
}

#[test]
fn a_percentile_that_replications_disagree_on_is_withheld_with_a_remedy_that_works() {
    let network = Network::single(60, 5.0, &[0.1, 0.18]);
    // Two replications tell little of how much they differ.
    let from_two = |requests: f64| {
        let simulation = Plan { requests, replications: 2, ..Plan::default() };
        let options = Options { percentiles: PERCENTS.to_vec(), simulation, ..Options::default() };
        solve(&network, "auto", &options).unwrap()
    };
    let solution = from_two(20.0);
    let given: Vec<f64> = solution.classes[0].percentiles.iter().map(|p| p.0).collect();
    assert!(!given.contains(&99.0), "{given:?}");
    assert!(solution.notes.iter().any(|n| n.contains("p99 of `customers` withheld")), "{:?}", solution.notes);
    assert_eq!(from_two(200_000.0).classes[0].percentiles.len(), 4);
}

#[test]
fn shares_for_percentages_and_precisions_out_of_reach_are_refused() {
    let network = Network::single(3, 1.0, &[0.2]);
    for percent in [0.95, 0.0, 100.0, f64::NAN] {
        let options = Options { percentiles: vec![percent], ..Options::default() };
        for solver in ["auto", "simulation"] {
            assert!(solve(&network, solver, &options).is_err(), "{solver} {percent}");
        }
    }
    for plan in [
        Plan { half_width: Some(0.0), ..Plan::default() },
        Plan { half_width: Some(f64::NAN), ..Plan::default() },
        Plan { warmup: -0.5, ..Plan::default() },
    ] {
        let options = Options { simulation: plan.clone(), ..Options::default() };
        assert!(solve(&network, "simulation", &options).is_err(), "{plan:?}");
    }
}

#[test]
fn a_precision_out_of_reach_is_refused_with_one_that_is_within_it() {
    let network = Network::single(3, 1.0, &[0.2]);
    let with = |half_width| {
        let simulation = Plan { requests: 10.0, half_width: Some(half_width), ..Plan::default() };
        solve(&network, "simulation", &Options { simulation, ..Options::default() })
    };
    let said = with(1e-4).unwrap_err().to_string();
    let advised = said.split("ask for ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(with(advised.parse().unwrap()).is_ok(), "{said}");
}
