//! Sensitivity, allocation and what-ifs.

use crate::common::{random_single, random_two_class, relative, Draw};
use servsim_model::allocation::{
    allocate, evaluate, network as allocated, Allocation, Fixed, Problem, Table,
};
use servsim_model::sensitivity::sensitivity;
use servsim_model::whatif::{rank, Change, WhatIf};
use servsim_model::{solve, Class, Discipline, Load, Network, Options, Speed, Station, Tolerance};

fn perturbed(network: &Network, station: &str, class: &str, step: f64) -> Network {
    let mut changed = network.clone();
    let c = network.classes.iter().position(|x| x.name == class).unwrap();
    match network.stations.iter().position(|s| s.name == station) {
        Some(k) => changed.stations[k].demands[c] += step,
        None => {
            if let Load::Closed { think, .. } = &mut changed.classes[c].load {
                *think += step;
            }
        }
    }
    changed
}

#[test]
fn derivatives_agree_with_finite_differences_and_elasticities_sum_to_minus_one() {
    let mut draw = Draw(5);
    let (mut worst, mut sums): (f64, f64) = (0.0, 0.0);
    for case in 0..40 {
        let network =
            if case % 2 == 0 { random_two_class(&mut draw) } else { random_single(&mut draw, true) };
        let result = sensitivity(&network, &Tolerance::default()).unwrap();
        for sum in &result.sums {
            sums = sums.max((sum + 1.0).abs());
        }
        for e in result.elasticities.iter().filter(|e| e.value > 0.0) {
            let of = network.classes.iter().position(|c| c.name == e.of).unwrap();
            let x = |step: f64| {
                let changed = perturbed(&network, &e.station, &e.class, step);
                solve(&changed, "convolution", &Options::default()).unwrap().classes[of].throughput
            };
            let h = e.value * 1e-3;
            // Richardson: fourth-order central difference.
            let numeric = (8.0 * (x(h) - x(-h)) - (x(2.0 * h) - x(-2.0 * h))) / (12.0 * h);
            let scale = x(0.0) / e.value;
            worst = worst.max((e.derivative.unwrap() - numeric).abs() / scale);
        }
    }
    println!(
        "derivatives within {worst:.1e} of finite differences; elasticities sum to -1 within {sums:.1e}"
    );
    assert!(worst <= 1e-6 && sums <= 1e-9, "{worst:e} {sums:e}");
}

fn du_like(cpu: f64) -> Problem {
    let shares = [0.0907, 0.1129, 0.2157, 0.1108, 0.2937, 0.0246, 0.0202, 0.1278, 0.0036];
    let tables = shares.iter().enumerate().map(|(i, &share)| Table { name: (i + 1).to_string(), share });
    let fixed =
        |name: &str, demand: f64, rates: &[f64]| Fixed { name: name.into(), demand, rates: rates.to_vec() };
    Problem {
        population: 48,
        think: 17.504,
        fixed: vec![fixed("cpu", cpu, &[1.0, 1.939]), fixed("memory", 0.3473, &[1.0])],
        tables: tables.collect(),
        disks_per_bus: vec![2, 2],
        disk_demand: 0.3619,
        bus_demand: 0.2619,
        reconnect: false,
    }
}

/// {8 4} {9} | {6} {1 2 3 5 7}: the paper's allocation E.
const PAPER_E: [usize; 9] = [3, 3, 3, 0, 3, 2, 3, 0, 1];

#[test]
fn the_exact_allocation_is_never_worse_than_the_papers_and_matches_brute_force() {
    for cpu in [1.0976, 0.10976] {
        let problem = du_like(cpu);
        let best = allocate(&problem).unwrap();
        let paper = evaluate(&problem, &PAPER_E).unwrap();
        println!(
            "cpu {cpu} s: best {:.4}, E {paper:.4}, {} evaluated, {:?}",
            best.throughput, best.evaluated, best.disk_of
        );
        assert!(best.exhaustive && best.gap == 0.0 && best.throughput >= paper);
        let again = solve(&allocated(&problem, &best), "convolution", &Options::default()).unwrap();
        assert!(relative(again.throughput(), best.throughput) < 1e-10);
    }
    // Brute force over all 4^6 placements of six tables.
    let mut problem = du_like(0.2);
    problem.tables.truncate(6);
    let best = allocate(&problem).unwrap();
    let brute = (0..4usize.pow(6)).map(|code| {
        let disk_of: Vec<usize> = (0..6).map(|t| code / 4usize.pow(t) % 4).collect();
        evaluate(&problem, &disk_of).unwrap()
    });
    assert!(relative(best.throughput, brute.fold(0.0, f64::max)) < 1e-12);
}

#[test]
fn reconnecting_disks_to_buses_never_loses() {
    let mut problem = du_like(0.1);
    let kept = allocate(&problem).unwrap();
    problem.reconnect = true;
    let free = allocate(&problem).unwrap();
    assert!(free.throughput >= kept.throughput && free.exhaustive);
}

#[test]
fn two_hundred_tables_on_sixteen_disks_are_within_one_per_cent_of_the_bound() {
    let mut draw = Draw(6);
    for _ in 0..3 {
        let mut problem = du_like(0.05);
        problem.population = 64;
        problem.disks_per_bus = vec![4; 4];
        problem.tables = (0..200)
            .map(|i| Table { name: format!("t{i}"), share: draw.between(0.0, 1.0).powi(3) })
            .collect();
        let found = allocate(&problem).unwrap();
        println!("200 x 16: X {:.5}, bound {:.5}, gap {:.2e}", found.throughput, found.bound, found.gap);
        assert!(!found.exhaustive && found.gap <= 0.01 && found.throughput <= found.bound);
    }
}

#[test]
fn no_random_allocation_exceeds_the_bound() {
    let mut draw = Draw(8);
    for layout in [vec![2, 2], vec![3, 1], vec![1, 1, 2]] {
        let mut problem = du_like(draw.between(0.05, 1.0));
        problem.disks_per_bus.clone_from(&layout);
        problem.bus_demand = draw.between(0.1, 0.5);
        let best = allocate(&problem).unwrap();
        let mut many = problem.clone();
        many.tables = (0..30).map(|i| Table { name: format!("t{i}"), share: draw.unit() }).collect();
        let large: Allocation = allocate(&many).unwrap();
        for _ in 0..200 {
            let disk_of: Vec<usize> = (0..9).map(|_| draw.integer(0, 3)).collect();
            assert!(evaluate(&problem, &disk_of).unwrap() <= best.throughput * (1.0 + 1e-12));
            let disk_of: Vec<usize> = (0..30).map(|_| draw.integer(0, 3)).collect();
            assert!(evaluate(&many, &disk_of).unwrap() <= large.bound * (1.0 + 1e-12), "{layout:?}");
        }
    }
}

/// Two classes in turn with unequal times are simulated, and a hundredth of a per cent is not seen to gain anything.
#[test]
fn a_gain_that_is_simulated_has_an_interval() {
    let classes = vec![Class::closed("a", 80, 4.0), Class::closed("b", 50, 8.0)];
    let in_turn = Station::queue("cpu", &[0.05, 0.08]).with_discipline(Discipline::Fcfs);
    let network = Network::new("two", classes, vec![in_turn, Station::queue("disk", &[0.02, 0.03])]);
    let what_if = |name: &str, factor| WhatIf {
        name: name.into(),
        cost: None,
        changes: vec![Change::Scale(0, factor)],
    };
    let asked = [what_if("hardly", 0.9999), what_if("twice", 0.5)];
    let effects = rank(&network, &asked, "auto", &Options::default()).unwrap();
    assert_eq!((effects[0].name.as_str(), effects[0].solver.as_str()), ("twice", "simulation"));
    let [twice, hardly] = [&effects[0], &effects[1]].map(|effect| effect.gain_interval.unwrap());
    assert!(0.05 < twice.low && twice.low < effects[0].gain && effects[0].gain < twice.high, "{effects:?}");
    assert!(hardly.low < 0.0 && hardly.high > 0.0 && hardly.high - hardly.low < 0.06, "{effects:?}");
}

#[test]
fn what_ifs_are_ranked_by_gain_and_priced() {
    let mut network = Network::single(40, 5.0, &[0.2, 0.05]);
    network.stations[0].speed = Speed::Servers(2);
    let what_if =
        |name: &str, cost, change| WhatIf { name: name.into(), cost: Some(cost), changes: vec![change] };
    let questions = [
        what_if("faster disk", 10.0, Change::Scale(1, 0.5)),
        what_if("four processors", 100.0, Change::Servers(0, 4)),
        what_if("second disk", 20.0, Change::Split(1, 2)),
    ];
    let effects = rank(&network, &questions, "auto", &Options::default()).unwrap();
    assert_eq!(effects[0].name, "four processors");
    assert!(effects.windows(2).all(|w| w[0].gain >= w[1].gain) && effects[0].gain > 0.0);
    assert!(relative(effects[0].gain_per_cost.unwrap(), effects[0].gain / 100.0) < 1e-12);
}

#[test]
fn a_class_left_out_of_a_station_gets_no_residence_there() {
    let stations = vec![Station::queue("cpu", &[0.1, 0.1]), Station::queue("disk", &[0.3, 0.0])];
    let classes = vec![Class::closed("a", 3, 1.0), Class::closed("b", 2, 1.0)];
    let solution = solve(&Network::new("n", classes, stations), "auto", &Options::default()).unwrap();
    assert!(solution.stations[1].residence[1].abs() < 1e-300);
}
