//! The solver of Markov chains against closed forms, against product form, and against a slow chain that
//! follows every request by itself.

use crate::common::{relative, Draw};
use servsim_model::{solve, Class, Discipline, Fork, Network, Options, Pool, Speed, Station};
use std::collections::HashMap;

fn markov(network: &Network) -> servsim_model::Solution {
    solve(network, "markov", &Options::default()).unwrap()
}

/// Up to three locks and connection pools, one inside another at times, around shared stations.
fn random(draw: &mut Draw, population: usize) -> Network {
    let demands: Vec<f64> = (0..2).map(|_| draw.between(0.05, 0.4)).collect();
    let mut stations: Vec<Station> =
        demands.iter().enumerate().map(|(k, &d)| Station::queue(&format!("s{k}"), &[d])).collect();
    match draw.integer(0, 3) {
        0 => stations[0].speed = Speed::Servers(2),
        1 => stations[1].speed = Speed::Delay,
        2 => stations[1].speed = Speed::Rates(vec![1.0, 1.5, 1.7]),
        _ => {}
    }
    let think = if draw.unit() < 0.4 { 0.0 } else { draw.between(0.1, 2.0) };
    let mut network = Network::new("random", vec![Class::closed("users", population, think)], stations);
    for index in 0..draw.integer(1, 3) {
        let holds = demands.iter().map(|d| d * draw.between(0.1, 0.3)).collect();
        let parent = (index > 0 && draw.unit() < 0.5).then(|| draw.integer(0, index - 1));
        let size = draw.integer(1, 2);
        network.pools.push(Pool { name: format!("p{index}"), size, parent, holds, calls: 1.0 });
    }
    network
}

/// What a request does next: serve at a station with a mean, ask for a pool, or give it back.
#[derive(Clone, Copy)]
enum Next {
    Serve(usize, f64),
    Ask(usize),
    Give(usize),
}

/// The work of a level, then that of its pools, as the model's text says.
fn itinerary(network: &Network, level: Option<usize>) -> Vec<Next> {
    let held = |k: usize| network.pools.iter().map(|p| p.holds[k]).sum::<f64>();
    let own: Vec<f64> = match level {
        Some(pool) => network.pools[pool].holds.clone(),
        None => network.stations.iter().enumerate().map(|(k, s)| s.demands[0] - held(k)).collect(),
    };
    let mut all: Vec<Next> =
        own.iter().enumerate().filter(|(_, d)| **d > 1e-12).map(|(k, d)| Next::Serve(k, *d)).collect();
    for pool in (0..network.pools.len()).filter(|&p| network.pools[p].parent == level) {
        all.push(Next::Ask(pool));
        all.extend(itinerary(network, Some(pool)));
        all.push(Next::Give(pool));
    }
    all
}

/// Every request by itself: its place in the itinerary (0 thinks), and the line of each pool in order.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Each {
    at: Vec<usize>,
    lines: Vec<Vec<usize>>,
    free: Vec<usize>,
}

fn go_on(each: &mut Each, request: usize, steps: &[Next], thinks: bool) {
    loop {
        // Place p > 0 is step p - 1.
        each.at[request] =
            if each.at[request] == steps.len() { usize::from(!thinks) } else { each.at[request] + 1 };
        if each.at[request] == 0 {
            return;
        }
        match steps[each.at[request] - 1] {
            Next::Serve(..) => return,
            Next::Ask(pool) if each.free[pool] > 0 => each.free[pool] -= 1,
            Next::Ask(pool) => {
                each.lines[pool].push(request);
                return;
            }
            Next::Give(pool) if each.lines[pool].is_empty() => each.free[pool] += 1,
            Next::Give(pool) => {
                let first = each.lines[pool].remove(0);
                go_on(each, first, steps, thinks);
            }
        }
    }
}

/// Throughput by power iteration over all states of all requests.
fn slowly(network: &Network) -> f64 {
    let steps = itinerary(network, None);
    let (n, think) = (network.population(), network.classes[0].think());
    let thinks = think > 0.0;
    let sizes: Vec<usize> = network.pools.iter().map(|p| p.size).collect();
    let mut start = Each { at: vec![0; n], lines: vec![Vec::new(); sizes.len()], free: sizes };
    if !thinks {
        start.at = vec![steps.len(); n];
        (0..n).for_each(|request| go_on(&mut start, request, &steps, thinks));
    }
    let rate = |each: &Each, request: usize| {
        let station_of = |at: usize| match at.checked_sub(1).map(|step| steps[step]) {
            Some(Next::Serve(station, mean)) => Some((station, mean)),
            _ => None,
        };
        match (each.at[request], station_of(each.at[request])) {
            (0, _) => 1.0 / think,
            (_, Some((station, mean))) => {
                let here =
                    each.at.iter().filter(|&&at| station_of(at).is_some_and(|s| s.0 == station)).count();
                network.stations[station].speed.at(here) / here as f64 / mean
            }
            _ => 0.0,
        }
    };
    let mut known = HashMap::from([(start.clone(), 0)]);
    let (mut states, mut moves) = (vec![start], Vec::new());
    let mut index = 0;
    while index < states.len() {
        for request in 0..n {
            let speed = rate(&states[index], request);
            if speed > 0.0 {
                let mut next = states[index].clone();
                go_on(&mut next, request, &steps, thinks);
                let to = *known.entry(next.clone()).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                });
                // The first step that is served is passed once by every request.
                let counted = states[index].at[request] == usize::from(!thinks);
                moves.push((index, to, speed, counted));
            }
        }
        index += 1;
    }
    let mut out = vec![0.0; states.len()];
    moves.iter().for_each(|m| out[m.0] += m.2);
    let step = 0.9 / out.iter().fold(0.0, |a: f64, b| a.max(*b));
    let mut p = vec![1.0 / states.len() as f64; states.len()];
    loop {
        let mut next: Vec<f64> = p.iter().zip(&out).map(|(p, o)| p * (1.0 - step * o)).collect();
        moves.iter().for_each(|m| next[m.1] += step * m.2 * p[m.0]);
        let change: f64 = next.iter().zip(&p).map(|(a, b)| (a - b).abs()).sum();
        p = next;
        if change < 1e-14 {
            return moves.iter().filter(|m| m.3).map(|m| p[m.0] * m.2).sum();
        }
    }
}

#[test]
fn requests_followed_one_by_one_give_the_same_throughput() {
    let mut draw = Draw(2026);
    for case in 0..40 {
        let network = random(&mut draw, 1 + case % 4);
        let (found, slow) = (markov(&network).throughput(), slowly(&network));
        assert!(relative(found, slow) < 1e-8, "case {case}: {found} {slow} {network:?}");
    }
}

#[test]
fn without_pools_it_is_product_form() {
    let mut draw = Draw(5);
    for case in 0..20 {
        let demands: Vec<f64> = (0..draw.integer(1, 4)).map(|_| draw.between(0.01, 1.0)).collect();
        let mut network = Network::single(draw.integer(1, 12), draw.between(0.0, 3.0), &demands);
        if draw.unit() < 0.5 {
            network.stations[0].speed = Speed::Servers(3);
        }
        let exact = solve(&network, "convolution", &Options::default()).unwrap();
        let found = markov(&network);
        assert!(relative(found.throughput(), exact.throughput()) < 1e-9, "case {case}");
        for (a, b) in found.stations.iter().zip(&exact.stations) {
            assert!(relative(a.queue[0], b.queue[0]) < 1e-8, "case {case} {}", a.name);
        }
    }
}

#[test]
fn a_lock_around_everything_holds_and_makes_wait_as_one_server_does() {
    let mut network = Network::single(6, 1.0, &[0.5]);
    network.pools = vec![Pool { name: "giant".into(), size: 1, parent: None, holds: vec![0.5], calls: 1.0 }];
    let serial = solve(&Network::single(6, 1.0, &[0.5]), "mva", &Options::default()).unwrap();
    let found = markov(&network);
    assert!(relative(found.throughput(), serial.throughput()) < 1e-10);
    let (busy, present) = (serial.stations[0].utilization, serial.stations[0].queue[0]);
    assert!(relative(found.pools[0].utilization, busy) < 1e-9);
    assert!(relative(found.pools[0].waiting, present - busy) < 1e-9);
    // Without thinking all but one wait all the time.
    let mut busy = Network::single(5, 0.0, &[0.2, 0.3]);
    busy.pools =
        vec![Pool { name: "giant".into(), size: 1, parent: None, holds: vec![0.2, 0.3], calls: 1.0 }];
    assert!(relative(markov(&busy).throughput(), 2.0) < 1e-10);
    assert!(relative(markov(&busy).pools[0].waiting, 4.0) < 1e-10);
}

#[test]
fn a_chain_whose_groupings_undo_each_other_converges() {
    let mut network = Network::single(45, 17.922_444_066_220_58, &[0.350_786_152_196_707_56]);
    network.pools = vec![Pool {
        name: "lock".into(),
        size: 1,
        parent: None,
        holds: vec![0.105_235_845_659_012_27],
        calls: 1.0,
    }];
    let found = markov(&network);
    assert!(found.residual < 1e-11 && found.iterations < 1_000, "{} {}", found.residual, found.iterations);
}

#[test]
fn states_that_hardly_ever_occur_do_not_spoil_the_rest() {
    // That all of 600 users wait at once has a probability of about 1e-1592.
    let mut network = Network::single(600, 1e4, &[0.1]);
    network.pools = vec![Pool { name: "lock".into(), size: 1, parent: None, holds: vec![0.1], calls: 1.0 }];
    let serial = solve(&Network::single(600, 1e4, &[0.1]), "mva", &Options::default()).unwrap();
    assert!(relative(markov(&network).throughput(), serial.throughput()) < 1e-9);
    assert!(relative(markov(&network).pools[0].utilization, serial.stations[0].utilization) < 1e-9);
    // The same where the chain has other ways to go, which takes rounds.
    let tiers = nested(Network::single(294, 78.9, &[0.18, 0.064, 0.116, 0.02]), [16, 10, 4]);
    let near = solve(&tiers, "layered", &Options::default()).unwrap().throughput();
    assert!(relative(markov(&tiers).throughput(), near) < 0.01, "{} {near}", markov(&tiers).throughput());
    // A pool that is never empty, so that ten or more always wait.
    let mut busy = Network::single(30, 0.0, &[0.2, 0.3, 0.1]);
    busy.pools =
        vec![Pool { name: "pool".into(), size: 20, parent: None, holds: vec![0.2, 0.3, 0.1], calls: 1.0 }];
    let inside = solve(&Network::single(20, 0.0, &[0.2, 0.3, 0.1]), "mva", &Options::default()).unwrap();
    let found = markov(&busy);
    assert!(
        relative(found.throughput(), inside.throughput()) < 1e-9 && found.iterations < 150,
        "{}",
        found.iterations
    );
}

#[test]
fn what_is_not_such_a_chain_is_refused_and_auto_takes_another_solver() {
    use servsim_model::solvers::markov::states;
    let refused = |network: &Network| solve(network, "markov", &Options::default()).unwrap_err().to_string();
    let mut large = Network::single(3_000, 1.0, &[0.1, 0.2, 0.3]);
    large.pools =
        vec![Pool { name: "pool".into(), size: 900, parent: None, holds: vec![0.1, 0.1, 0.0], calls: 1.0 }];
    assert!(refused(&large).contains("states") && refused(&large).contains("`layered`"));
    assert_eq!(solve::choose(&large), "layered");

    let open = Network::new("open", vec![Class::open("a", 2.0)], vec![Station::queue("cpu", &[0.1])]);
    assert!(refused(&open).contains("open classes where any number may be (at `a`)"), "{}", refused(&open));
    // Thirty who stand in line in any order: far more states than numbers tell.
    let classes = vec![Class::closed("a", 15, 1.0), Class::closed("b", 15, 1.0)];
    let line = Station::queue("cpu", &[0.1, 0.2]).with_discipline(Discipline::Fcfs);
    let long = Network::new("long", classes, vec![line]);
    assert!(
        states(&long).unwrap() > 1e8 && refused(&long).contains("use `simulation`"),
        "{}",
        refused(&long)
    );
    assert_eq!(solve(&long, "auto", &Options::default()).unwrap().solver, "simulation");
}

#[test]
fn the_number_of_states_is_known_before_they_are_followed() {
    use servsim_model::solvers::markov::{chain, route, states};
    let mut draw = Draw(8);
    for case in 0..30 {
        let network = random(&mut draw, case % 6 + 1);
        let route = route::Route::new(&network).unwrap();
        let found = chain::Chain::explore(&route, 1_000_000).unwrap().size();
        let counted = states(&network).unwrap();
        assert!(found as f64 <= counted, "case {case}: {found}, counted {counted}");
        assert!(found as f64 >= 0.5 * counted, "case {case}: {found}, counted {counted}");
    }
    // Two classes that stand in line at two stations.
    for populations in [[3, 2], [4, 4], [0, 5]] {
        let classes = vec![Class::closed("a", populations[0], 1.0), Class::closed("b", populations[1], 0.0)];
        let line = |name| Station::queue(name, &[0.1, 0.2]).with_discipline(Discipline::Fcfs);
        // One of them visits the first line twice, and so stands there at two places.
        let mut first = line("one");
        first.visits = vec![2.0, 1.0];
        let network = Network::new("lines", classes, vec![first, line("two")]);
        let found = chain::Chain::explore(&route::Route::new(&network).unwrap(), 1_000_000).unwrap().size();
        assert!(relative(states(&network).unwrap(), found as f64) < 1e-12, "{populations:?} {found}");
    }
}

#[test]
fn points_of_a_curve_are_quick_and_what_ifs_compare_like_with_like() {
    use servsim_model::whatif::{rank, Change, WhatIf};
    let pools = nested(Network::single(25, 3.0, &[0.1, 0.2, 0.1, 0.1]), [40, 20, 10]);
    let options = Options::default();
    let quick = solve::solve_quickly(&pools, "auto", &options).unwrap();
    assert_eq!((quick.solver.as_str(), solve::choose(&pools)), ("layered", "markov"));
    // Twenty times the users: too many states for the chain.
    let crowd = WhatIf { name: "crowd".into(), cost: None, changes: vec![Change::Population(20.0)] };
    let disk = WhatIf { name: "disk".into(), cost: None, changes: vec![Change::Scale(1, 0.9)] };
    let one = std::slice::from_ref(&disk);
    let gain = |all: &[WhatIf], solver| {
        let found = rank(&pools, all, solver, &options).unwrap();
        found.into_iter().find(|effect| effect.name == "disk").unwrap().gain
    };
    let (exact, decomposed) = (gain(one, "markov"), gain(one, "layered"));
    assert!((exact - decomposed).abs() > 1e-6, "{exact} {decomposed}");
    assert!((gain(one, "auto") - exact).abs() < 1e-12);
    assert!((gain(&[disk.clone(), crowd], "auto") - decomposed).abs() < 1e-12);
}

#[test]
fn lines_of_several_classes_with_equal_times_are_product_form() {
    let mut draw = Draw(12);
    for case in 0..20 {
        let classes =
            vec![Class::closed("a", draw.integer(1, 4), 0.3), Class::closed("b", draw.integer(1, 3), 0.0)];
        let time = draw.between(0.1, 0.5);
        let mut line = Station::queue("line", &[time, 2.5 * time]).with_discipline(Discipline::Fcfs);
        line.visits = vec![1.0, 2.5];
        line.speed = Speed::Servers(draw.integer(1, 3));
        let disk = Station::queue("disk", &[draw.between(0.1, 0.5), draw.between(0.1, 0.5)]);
        let network = Network::new("lines", classes, vec![line, disk]);
        let exact = solve(&network, "convolution", &Options::default()).unwrap();
        let found = markov(&network);
        for (a, b) in found.classes.iter().zip(&exact.classes) {
            assert!(relative(a.throughput, b.throughput) < 1e-8, "case {case} {}", a.name);
            assert!(relative(a.response, b.response) < 1e-7, "case {case} {}", a.name);
        }
        for (a, b) in found.stations.iter().zip(&exact.stations) {
            assert!(relative(a.queue[1], b.queue[1]) < 1e-7, "case {case} {}", a.name);
        }
    }
}

#[test]
fn one_request_alone_takes_as_long_as_the_slowest_of_its_parts() {
    for discipline in [Discipline::Ps, Discipline::Fcfs] {
        let mut network = Network::single(1, 0.0, &[0.3, 0.6]);
        network.stations.iter_mut().for_each(|s| s.discipline = discipline);
        network.forks = vec![Fork::to_stations("both", &[0, 1])];
        // Mean of the larger of two exponential times: the sum less the mean of the smaller.
        let expected = 0.3 + 0.6 - 0.2;
        assert!(relative(markov(&network).response(), expected) < 1e-9, "{discipline:?}");
    }
}

#[test]
fn small_models_of_every_kind_are_as_slowly_simulated() {
    use crate::referee::{models::KINDS, truth};
    let mut compared = 0;
    for (name, kind) in
        KINDS.iter().filter(|k| ["fcfs unequal", "priorities", "forks", "pools"].contains(&k.0))
    {
        let mut draw = Draw(41);
        for case in 0..28 {
            let network = kind(&mut draw);
            if !network.open().is_empty() || network.population() > 12 || !states_below(&network, 5_000.0) {
                continue;
            }
            let found = match solve(&network, "markov", &Options::default()) {
                Ok(found) => found,
                // A class that thinks nowhere and is served first everywhere.
                Err(error) if error.to_string().contains("never let be served") => continue,
                Err(error) => panic!("{name} {case}: {error} {network:?}"),
            };
            for (class, known) in found.classes.iter().zip(truth(&network, case, 1e6).classes) {
                let Some(known) = known else { continue };
                let near =
                    |found: f64, mean: f64, error: f64| (found - mean).abs() <= 5.0 * error + 0.002 * mean;
                let (x, r) = (known.throughput, known.response);
                assert!(near(class.throughput, x.mean, x.error), "{name} {case} {class:?} {x:?} {network:?}");
                assert!(near(class.response, r.mean, r.error), "{name} {case} {class:?} {r:?} {network:?}");
                compared += 1;
            }
        }
    }
    println!("{compared} classes compared");
    assert!(compared > 50, "{compared}");
}

fn states_below(network: &Network, most: f64) -> bool {
    servsim_model::solvers::markov::states(network).is_ok_and(|states| states < most)
}

/// Pools of these sizes, each inside the one before, around the first station, the second, and the others.
fn nested(mut network: Network, sizes: [usize; 3]) -> Network {
    let demand = |k: usize| network.stations[k].demands[0];
    let holds = [
        vec![demand(0), 0.0, 0.0, 0.0],
        vec![0.0, demand(1), 0.0, 0.0],
        vec![0.0, 0.0, demand(2), demand(3)],
    ];
    let pool = |(index, (size, holds)): (usize, (usize, Vec<f64>))| Pool {
        name: format!("pool {index}"),
        size,
        parent: index.checked_sub(1),
        holds,
        calls: 1.0,
    };
    network.pools = sizes.into_iter().zip(holds).enumerate().map(pool).collect();
    network
}
