//! Approximations against exact answers, and their refusal to answer without converging.

use crate::common::{self, random_two_class, relative, Draw};
use servsim_model::solvers::{bounds::bounds, mixed};
use servsim_model::{solve, Class, ModelError, Network, Options, Speed, Station, Tolerance};

/// Median, 95th percentile and maximum of the relative throughput and response errors.
fn errors(solver: &str, seed: u64) -> (f64, f64, f64) {
    let mut draw = Draw(seed);
    let mut worst = Vec::new();
    for _ in 0..60 {
        let network = random_two_class(&mut draw);
        let exact = solve(&network, "mva", &Options::default()).unwrap();
        let approximate = solve(&network, solver, &Options::default()).unwrap();
        for c in 0..2 {
            worst.push(relative(approximate.classes[c].throughput, exact.classes[c].throughput));
        }
    }
    worst.sort_by(f64::total_cmp);
    let at = |p: f64| worst[((worst.len() - 1) as f64 * p).round() as usize] * 100.0;
    (at(0.5), at(0.95), at(1.0))
}

/// A network of many classes, some of which make several stations nearly full.
fn crowd(size: usize) -> Network {
    let mut draw = Draw(21);
    let classes = (0..size).map(|c| Class::closed(&format!("c{c}"), 1 + c % 3, draw.between(0.0, 5.0)));
    let classes = classes.collect();
    let stations = (0..size).map(|k| {
        let demands: Vec<f64> = (0..size).map(|_| draw.between(0.001, 0.1)).collect();
        Station::queue(&format!("s{k}"), &demands)
    });
    Network::new("crowd", classes, stations.collect())
}

#[test]
fn many_classes_take_tens_of_rounds_and_the_same_fixed_point_as_small_steps() {
    for (solver, size, rounds) in [("linearizer", 40, 60), ("aql", 40, 60), ("aql", 120, 60)] {
        let found = solve(&crowd(size), solver, &Options::default()).unwrap();
        println!("{solver} {size}: {} rounds, {:?}", found.iterations, found.throughput());
        assert!(found.iterations <= rounds, "{solver} {size}: {} rounds", found.iterations);
        let tolerance = Tolerance { residual: 1e-13, ..Tolerance::default() };
        let closer = solve(&crowd(size), solver, &Options { tolerance, ..Options::default() }).unwrap();
        assert!(relative(found.throughput(), closer.throughput()) < 1e-7);
    }
}

#[test]
fn linearizer_and_aql_err_less_than_one_per_cent_on_60_random_two_class_networks() {
    for seed in [2001, 2002, 2003] {
        for solver in ["schweitzer", "linearizer", "aql"] {
            let (median, p95, max) = errors(solver, seed);
            println!("seed {seed} {solver}: median {median:.3} %, p95 {p95:.3} %, max {max:.3} %");
            if solver != "schweitzer" {
                assert!(p95 <= 0.5 && max <= 1.0, "{solver}: p95 {p95} %, max {max} %");
            }
        }
    }
}

#[test]
fn an_iteration_cut_short_is_an_error_with_its_residual() {
    let mut draw = Draw(4);
    let network = random_two_class(&mut draw);
    let tolerance = Tolerance { iterations: 3, ..Tolerance::default() };
    let options = Options { tolerance, ..Options::default() };
    for solver in ["schweitzer", "linearizer", "aql"] {
        match solve(&network, solver, &options) {
            Err(ModelError::NotConverged { residual, iterations, .. }) => {
                assert!(residual > 0.0 && residual.is_finite() && iterations <= 3, "{solver}");
            }
            other => panic!("{solver}: {other:?}"),
        }
    }
}

#[test]
fn seidmanns_split_is_near_the_exact_answer_and_says_so() {
    let mut network = Network::single(40, 5.0, &[0.6, 0.1]);
    network.stations[0].speed = Speed::Servers(4);
    let exact = solve(&network, "convolution", &Options::default()).unwrap();
    let split = solve(&network, "linearizer", &Options::default()).unwrap();
    assert!(relative(split.throughput(), exact.throughput()) < 0.05);
    assert!(split.notes.iter().any(|n| n.contains("Seidmann")), "{:?}", split.notes);
}

#[test]
fn a_converged_schweitzer_answer_satisfies_littles_law() {
    let mut draw = Draw(9);
    for _ in 0..20 {
        let network = random_two_class(&mut draw);
        let closed = mixed::reduce(&network);
        let means = servsim_model::solvers::schweitzer::solve(&closed, &Tolerance::default()).unwrap();
        for c in 0..2 {
            let present: f64 =
                means.queue.iter().map(|q| q[c]).sum::<f64>() + means.throughput[c] * closed.think[c];
            assert!(relative(present, closed.population[c] as f64) < 1e-6);
        }
    }
}

#[test]
fn bounds_bracket_every_exact_result() {
    let mut draw = Draw(77);
    for case in 0..300 {
        let network = if case % 3 == 0 {
            random_two_class(&mut draw)
        } else {
            common::random_single(&mut draw, case % 3 == 1)
        };
        let solution = solve(&network, "convolution", &Options::default()).unwrap();
        for (bound, class) in bounds(&network).unwrap().iter().zip(&solution.classes) {
            let x = class.throughput;
            let slack = 1e-9 * x;
            assert!(
                bound.throughput.low <= x + slack && x <= bound.throughput.high + slack,
                "case {case}: {bound:?} {x}"
            );
            if let Some(balanced) = bound.balanced {
                assert!(
                    balanced.low <= x + slack && x <= balanced.high + slack,
                    "case {case}: {bound:?} {x}"
                );
            }
            let r = class.response;
            assert!(
                bound.response.low <= r * (1.0 + 1e-6) + 1e-9
                    && r <= bound.response.high * (1.0 + 1e-6) + 1e-9
            );
        }
    }
}
