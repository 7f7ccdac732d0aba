//! Exact solvers against printed results, closed forms and an oracle of unbounded range.

use crate::common::{oracle_throughput, random_single, random_two_class, relative, Draw};
use servsim_model::solvers::{convolution, mixed, multi_convolution, mva};
use servsim_model::{solve, Class, Network, Options, Pool, Speed, Station, Tolerance};

fn throughput(network: &Network, solver: &str) -> f64 {
    solve(network, solver, &Options::default()).unwrap().throughput()
}

#[test]
fn two_classes_of_lazowska_give_three_and_two_nineteenths() {
    let stations = vec![Station::queue("cpu", &[1.0, 2.0]), Station::queue("disk", &[3.0, 4.0])];
    let classes = vec![Class::closed("a", 1, 0.0), Class::closed("b", 1, 0.0)];
    let network = Network::new("lazowska", classes, stations);
    for solver in ["mva", "convolution"] {
        let solution = solve(&network, solver, &Options::default()).unwrap();
        assert!(relative(solution.classes[0].throughput, 3.0 / 19.0) < 1e-14, "{solver}");
        assert!(relative(solution.classes[1].throughput, 2.0 / 19.0) < 1e-14, "{solver}");
    }
}

#[test]
fn mva_and_convolution_agree_with_the_oracle_on_200_random_networks() {
    let mut draw = Draw(1);
    let mut worst: f64 = 0.0;
    for case in 0..200 {
        let network = random_single(&mut draw, case % 2 == 1);
        let exact = oracle_throughput(&network);
        worst = worst.max(relative(throughput(&network, "convolution"), exact));
        if case % 2 == 0 {
            worst = worst.max(relative(throughput(&network, "mva"), exact));
        }
    }
    println!("largest relative difference on 200 networks: {worst:.2e}");
    assert!(worst <= 1e-9, "{worst:e}");
}

#[test]
fn queue_lengths_of_mva_and_convolution_agree_on_200_random_two_class_networks() {
    let mut draw = Draw(2);
    let mut worst: f64 = 0.0;
    for _ in 0..200 {
        let closed = mixed::reduce(&random_two_class(&mut draw));
        let a = mva::solve(&closed, &Tolerance::default()).unwrap();
        let b = multi_convolution::solve(&closed, &Tolerance::default()).unwrap();
        for c in 0..2 {
            worst = worst.max(relative(a.throughput[c], b.throughput[c]));
            for k in 0..closed.stations() {
                worst = worst.max(relative(a.queue[k][c], b.queue[k][c]));
            }
        }
    }
    println!("largest relative difference on 200 two-class networks: {worst:.2e}");
    assert!(worst <= 1e-9, "{worst:e}");
}

#[test]
fn several_classes_at_stations_with_several_servers_agree_with_one_merged_class() {
    // Two identical classes are one class of the summed population.
    for speed in [Speed::Servers(3), Speed::Rates(vec![1.0, 1.7, 2.1, 1.9])] {
        let station = |d: f64| vec![d, d];
        let stations = vec![
            Station::queue("cpu", &station(0.4)).with_speed(speed.clone()),
            Station::queue("disk", &station(0.15)),
            Station::queue("lan", &station(0.3)).with_speed(Speed::Delay),
        ];
        let classes = vec![Class::closed("a", 5, 2.0), Class::closed("b", 7, 2.0)];
        let both = solve(&Network::new("two", classes, stations.clone()), "convolution", &Options::default())
            .unwrap();
        let one: Vec<Station> = stations
            .into_iter()
            .map(|s| Station { demands: vec![s.demands[0]], visits: vec![1.0], ..s })
            .collect();
        let merged = solve(
            &Network::new("one", vec![Class::closed("c", 12, 2.0)], one),
            "convolution",
            &Options::default(),
        )
        .unwrap();
        assert!(relative(both.throughput(), merged.throughput()) < 1e-12);
        let queue: f64 = both.stations[0].queue.iter().sum();
        assert!(relative(queue, merged.stations[0].queue[0]) < 1e-12);
    }
}

/// Machine repairman in closed form: `p(n+1)/p(n)` walked from the mode, all terms positive.
fn repairman(population: usize, servers: usize, demand: f64, think: f64) -> f64 {
    let ratio = |n: usize| (population - n) as f64 / think * demand / (n + 1).min(servers) as f64;
    let mode = (0..population).find(|&n| ratio(n) < 1.0).unwrap_or(population);
    let (mut sum, mut rate) = (0.0, 0.0);
    let mut add = |n: usize, p: f64| {
        sum += p;
        rate += p * n.min(servers) as f64 / demand;
    };
    let mut p = 1.0;
    add(mode, p);
    for n in mode..population {
        p *= ratio(n);
        add(n + 1, p);
    }
    p = 1.0;
    for n in (0..mode).rev() {
        p /= ratio(n);
        add(n, p);
    }
    rate / sum
}

#[test]
fn a_thousand_servers_and_five_thousand_customers_match_the_closed_form() {
    let mut worst: f64 = 0.0;
    for (servers, population, demand, think) in [
        (1024, 5000, 1.0, 3.9),
        (1024, 5000, 1.0, 0.5),
        (1024, 5000, 1.0, 30.0),
        (64, 500, 1.0, 0.1),
        (7, 5000, 0.3, 200.0),
        // Just below and above what the servers can do, and hardly at work: there the tails are far away.
        (64, 200_000, 0.01, 32.0),
        (64, 200_000, 0.01, 31.0),
        (300, 400_000, 0.1, 100.0),
        (2, 3_000_000, 1e-9, 0.5),
    ] {
        let mut network = Network::single(population, think, &[demand]);
        network.stations[0].speed = Speed::Servers(servers);
        let got = throughput(&network, "convolution");
        let exact = repairman(population, servers, demand, think);
        println!("m={servers} N={population} Z={think}: {got:.12} against {exact:.12}");
        worst = worst.max(relative(got, exact));
        assert!(got <= servers as f64 / demand, "above 1/Dmax");
    }
    assert!(worst <= 1e-8, "{worst:e}");
}

#[test]
fn many_users_of_a_lock_are_as_quick_to_balance_as_few() {
    // Groups by the number at a place are as many as states here; each is next to two others.
    let mut locked = Network::single(30_000, 36.0, &[0.001]);
    locked.stations[0].speed = Speed::Servers(16);
    let single = Network::single(30_000, 36.0, &[0.001]);
    locked.pools.push(Pool { name: "lock".into(), size: 1, parent: None, holds: vec![0.001], calls: 1.0 });
    let exact = solve(&single, "mva", &Options::default()).unwrap();
    for solver in ["markov", "auto"] {
        let found = solve(&locked, solver, &Options::default()).unwrap();
        assert_eq!(found.solver, "markov");
        let (got, wanted) = (&found.classes[0], &exact.classes[0]);
        assert!(relative(got.throughput, wanted.throughput) < 1e-9, "{}", got.throughput);
        assert!(relative(got.response, wanted.response) < 1e-6, "{} {}", got.response, wanted.response);
    }
}

#[test]
fn a_large_network_of_unequal_stations_matches_the_oracle() {
    let mut network = Network::single(5000, 3.0, &[0.9, 0.000_8, 0.000_9]);
    network.stations[0].speed = Speed::Servers(1024);
    network.stations[1].speed = Speed::Rates(vec![1.0, 1.2, 0.9]);
    let (got, exact) = (throughput(&network, "convolution"), oracle_throughput(&network));
    println!("m=1024, N=5000, three stations: relative difference {:.2e}", relative(got, exact));
    assert!(relative(got, exact) <= 1e-8, "{got} against {exact}");
}

#[test]
fn the_case_on_which_two_peers_fail_is_solved() {
    // 64 servers, 500 customers: the naive recursion yields -19.2, 38.6 or 73.4; the answer is 64.
    let mut network = Network::single(500, 0.1, &[1.0]);
    network.stations[0].speed = Speed::Servers(64);
    assert!(relative(throughput(&network, "convolution"), 64.0) < 1e-12);
}

#[test]
fn throughput_never_exceeds_the_bottleneck_even_by_one_rounding() {
    for population in [1, 10, 100, 1000, 5000] {
        for solver in ["mva", "convolution", "schweitzer", "linearizer", "aql"] {
            let network = Network::single(population, 0.0, &[0.3, 0.1, 0.7 / 3.0]);
            let x = throughput(&network, solver);
            assert!(x <= 1.0 / 0.3 && x * 0.3 <= 1.0, "{solver} N={population}: {x:?}");
        }
    }
}

#[test]
fn the_throughput_curve_agrees_with_single_populations() {
    let mut network = Network::single(600, 2.0, &[0.5, 0.02, 0.01]);
    network.stations[0].speed = Speed::Servers(40);
    let closed = mixed::reduce(&network);
    let curve = convolution::throughput_curve(&closed);
    for population in [1, 2, 37, 150, 599, 600] {
        let mut one = closed.clone();
        one.population = vec![population];
        let x = convolution::solve(&one, &Tolerance::default()).unwrap().throughput[0];
        assert!(relative(curve[population - 1], x) < 1e-11, "{population}");
    }
}

#[test]
fn open_stations_follow_the_formulas_of_erlang() {
    let stations = vec![
        Station::queue("one", &[0.5]),
        Station::queue("four", &[2.0]).with_speed(Speed::Servers(4)),
        Station::queue("lan", &[3.0]).with_speed(Speed::Delay),
    ];
    let network = Network::new("open", vec![Class::open("web", 1.5)], stations);
    let solution = solve(&network, "mva", &Options::default()).unwrap();
    assert!(relative(solution.stations[0].residence[0], 0.5 / 0.25) < 1e-12);
    // Erlang C with a = 3, m = 4: C = (a^4/4!/(1-a/4)) / (sum a^n/n! + same) = 13.5 / (13 + 13.5)
    let waiting = 13.5 / 26.5 * 2.0 / (4.0 - 3.0);
    assert!(relative(solution.stations[1].residence[0], 2.0 + waiting) < 1e-9);
    assert!(relative(solution.stations[2].residence[0], 3.0) < 1e-12);
}

#[test]
fn a_mixed_network_slows_the_closed_class_by_the_open_load() {
    let stations = vec![Station::queue("cpu", &[0.4, 0.25]), Station::queue("disk", &[0.7, 0.1])];
    let classes = vec![Class::closed("batch", 6, 1.0), Class::open("web", 1.2)];
    let both = solve(&Network::new("mixed", classes, stations), "mva", &Options::default()).unwrap();
    let slowed = Network::single(6, 1.0, &[0.4 / (1.0 - 0.3), 0.7 / (1.0 - 0.12)]);
    let alone = solve(&slowed, "mva", &Options::default()).unwrap();
    assert!(relative(both.classes[0].throughput, alone.throughput()) < 1e-12);
    let queue = alone.stations[0].queue[0];
    assert!(relative(both.stations[0].queue[1], 0.3 * (1.0 + queue) / 0.7) < 1e-12);
}

#[test]
fn mixed_stations_with_several_servers_agree_with_a_long_truncated_chain() {
    // One closed customer and open arrivals at two servers: solve the two-dimensional chain.
    let (rate, think, demand) = (0.9, 2.0, 1.0);
    let stations = vec![Station::queue("cpu", &[demand, demand]).with_speed(Speed::Servers(2))];
    let classes = vec![Class::closed("c", 1, think), Class::open("o", rate)];
    let solution =
        solve(&Network::new("mixed", classes, stations), "convolution", &Options::default()).unwrap();
    let size = 400;
    let mut p = vec![[1.0f64; 2]; size];
    for _ in 0..40_000 {
        let mut next = vec![[0.0f64; 2]; size];
        let step = 0.2;
        for l in 0..size {
            for n in 0..2 {
                let present = (l + n) as f64;
                let speed = present.min(2.0) / demand;
                let up = if l + 1 < size { rate } else { 0.0 };
                let served = if present > 0.0 { speed / present } else { 0.0 };
                let (down, done) = (l as f64 * served, n as f64 * served);
                let begin = if n == 0 { 1.0 / think } else { 0.0 };
                let stay = 1.0 - step * (up + down + done + begin);
                next[l][n] += p[l][n] * stay;
                if l + 1 < size {
                    next[l + 1][n] += p[l][n] * step * up;
                }
                if l > 0 {
                    next[l - 1][n] += p[l][n] * step * down;
                }
                next[l][1 - n] += p[l][n] * step * if n == 0 { begin } else { done };
            }
        }
        p = next;
    }
    let total: f64 = p.iter().flatten().sum();
    let open: f64 = p.iter().enumerate().map(|(l, x)| l as f64 * (x[0] + x[1])).sum::<f64>() / total;
    let thinking: f64 = p.iter().map(|x| x[0]).sum::<f64>() / total;
    assert!(relative(solution.classes[0].throughput, thinking / think) < 1e-6);
    assert!(relative(solution.stations[0].queue[1], open) < 1e-6);
}
