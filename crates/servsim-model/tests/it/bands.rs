//! The bands that approximations state: learnt from exactly solved random models of a kind, and tested on others.
//! `bands::learnt -- --ignored --nocapture` prints the table of `src/bands.rs` anew.

use crate::common::Draw;
use crate::referee::models::{decades, KINDS};
use servsim_model::bands::{band, BANDS};
use servsim_model::solvers::markov;
use servsim_model::{solve, Class, Network, Options, Speed};

/// A random model of a kind that an exact solver answers quickly, with that solver's name; `None` to draw again.
fn exactly_solved(kind: &str, draw: &mut Draw) -> Option<(Network, &'static str)> {
    if kind == "single servers, many classes" {
        return Some((many_classes(draw), "mva"));
    }
    let from = if kind == "several servers" || kind == "single servers" { "crowds" } else { kind };
    let mut network = KINDS.iter().find(|k| k.0 == from)?.1(draw);
    if from == "crowds" {
        // As crowds, but few enough for an exact solution.
        for class in &mut network.classes {
            let people = draw.integer(1, 12);
            *class = Class::closed(&class.name.clone(), people, class.think() * people as f64 / 30.0);
        }
        network.classes.truncate(3);
        network.stations.iter_mut().for_each(|s| s.demands.truncate(3));
        network.stations.iter_mut().for_each(|s| s.visits.truncate(3));
        network.stations.retain(servsim_model::Station::is_used);
        let several = network.stations.iter().any(|s| matches!(s.speed, Speed::Servers(m) if m > 1));
        let wanted = several == (kind == "several servers") && network.check().is_ok();
        return wanted.then_some((network, "convolution"));
    }
    let small = network.open().is_empty() && markov::states(&network).is_ok_and(|states| states < 4_000.0);
    small.then_some((network, "markov"))
}

/// Nine or ten classes of one or two customers.
fn many_classes(draw: &mut Draw) -> Network {
    let count = draw.integer(9, 10);
    let class = |draw: &mut Draw, c: usize| {
        Class::closed(&format!("c{c}"), draw.integer(1, 2), decades(draw, 0.01, 3.0))
    };
    let classes = (0..count).map(|c| class(draw, c)).collect();
    let stations = (0..draw.integer(2, 4)).map(|k| {
        let demands: Vec<f64> = (0..count).map(|_| decades(draw, 0.01, 0.3)).collect();
        servsim_model::Station::queue(&format!("s{k}"), &demands)
    });
    Network::new("many", classes, stations.collect())
}

/// How far the truth is from the figures given, relative to these: throughput and response of the class that fares
/// worst. `None` if either solver refuses.
fn errors(network: &Network, exact: &str, solver: &str) -> Option<(f64, f64)> {
    let truth = solve(network, exact, &Options::default()).ok()?;
    let found = solve(network, solver, &Options::default()).ok()?;
    let relative = |given: f64, truth: f64| if given > 0.0 { (truth / given - 1.0).abs() } else { 0.0 };
    let pairs = found.classes.iter().zip(&truth.classes);
    let worst =
        |(x, r): (f64, f64),
         (a, b): (&servsim_model::solution::ClassResult, &servsim_model::solution::ClassResult)| {
            (x.max(relative(a.throughput, b.throughput)), r.max(relative(a.response, b.response)))
        };
    Some(pairs.fold((0.0, 0.0), worst))
}

/// Errors on `count` models of a kind.
fn sample(solver: &str, kind: &str, count: usize, seed: u64) -> Vec<(f64, f64, Network)> {
    let mut draw = Draw(seed);
    let one = |draw: &mut Draw| loop {
        let Some((network, exact)) = exactly_solved(kind, draw) else { continue };
        if let Some((x, r)) = errors(&network, exact, solver) {
            return (x, r, network);
        }
    };
    (0..count).map(|_| one(&mut draw)).collect()
}

#[test]
#[ignore = "prints the table of bands anew: run with --ignored --nocapture"]
fn learnt() {
    for row in BANDS {
        let found = sample(row.solver, row.kind, if row.kind.contains("many") { 100 } else { 500 }, 1);
        let point = |of: &dyn Fn(&(f64, f64, Network)) -> f64, share: f64| {
            let mut all: Vec<f64> = found.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            100.0 * all[(share * (all.len() - 1) as f64) as usize]
        };
        for share in [0.5, 0.95, 0.97, 1.0] {
            let (x, r) = (point(&|e| e.0, share), point(&|e| e.1, share));
            println!(
                "{} {}: {:.0} % of models within {x:.2} %, {r:.2} %",
                row.solver,
                row.kind,
                100.0 * share
            );
        }
    }
}

#[test]
fn bands_hold_for_models_that_they_were_not_learnt_from() {
    for row in BANDS {
        let count = if row.kind.contains("many") { 30 } else { 120 };
        let found = sample(row.solver, row.kind, count, 2);
        let within = |(x, r, network): &&(f64, f64, Network)| {
            let stated = band(network, row.solver).expect("a band for what the solver treats");
            assert_eq!((stated.solver, stated.kind), (row.solver, row.kind));
            *x <= stated.throughput && *r <= stated.response
        };
        let held = found.iter().filter(within).count();
        println!("{} {}: {held} of {count}", row.solver, row.kind);
        assert!(held * 100 >= 93 * count, "{} {}: {held} of {count}", row.solver, row.kind);
    }
}
