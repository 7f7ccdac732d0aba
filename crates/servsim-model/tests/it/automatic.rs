//! What `auto` does with models that no solver treats exactly, and what bounds and extremes must hold.

use crate::common::Draw;
use servsim_model::bands::Accuracy;
use servsim_model::network::Part;
use servsim_model::service::Law;
use servsim_model::sim::Plan;
use servsim_model::solvers::bounds::bounds;
use servsim_model::{
    solve, Class, Discipline, Fork, Load, ModelError, Network, Options, Pool, Solution, Speed, Station,
};

fn auto(network: &Network) -> Solution {
    solve(network, "auto", &Options::default()).unwrap()
}

fn two(discipline: Discipline) -> Network {
    let mut classes = vec![Class::closed("a", 8, 1.0), Class::closed("b", 5, 2.0)];
    classes[1].priority = 1;
    let stations = vec![
        Station::queue("cpu", &[0.05, 0.8]).with_discipline(discipline),
        Station::queue("disk", &[0.1, 0.2]),
    ];
    Network::new("two", classes, stations)
}

#[test]
fn small_models_are_exact_whatever_their_discipline_and_others_simulated_to_a_stated_precision() {
    for discipline in [Discipline::Ps, Discipline::Priority, Discipline::Fcfs] {
        assert_eq!(auto(&two(discipline)).nature, "exact", "{discipline:?}");
    }
    let mut large = two(Discipline::Fcfs);
    large.classes = vec![Class::closed("a", 80, 10.0), Class::closed("b", 50, 20.0)];
    for discipline in [Discipline::Priority, Discipline::Fcfs] {
        large.stations.iter_mut().for_each(|s| s.discipline = discipline);
        let solution = auto(&large);
        assert_eq!((solution.solver.as_str(), solution.nature), ("simulation", "simulated"));
        for class in &solution.classes {
            let (x, r) = (class.throughput_interval.unwrap(), class.response_interval.unwrap());
            let widest = ((x.high - x.low) / class.throughput).max((r.high - r.low) / class.response) / 2.0;
            let said = solution.notes.iter().any(|n| n.contains("the widest interval"));
            assert!(widest <= 0.01 || (said && widest < 0.05), "{class:?} {:?}", solution.notes);
        }
    }
}

#[test]
fn an_answer_says_what_it_is_worth_and_why_it_was_chosen() {
    let answer = |network: &Network, worth: &str, why: &str| {
        let solution = auto(network);
        let text = serde_json::to_value(&solution).unwrap()["accuracy"].to_string();
        assert!(text.contains(worth), "{text}");
        assert!(solution.notes[0].contains(why), "{:?}", solution.notes);
    };
    answer(&two(Discipline::Ps), r#""exact""#, "product form");
    answer(&two(Discipline::Priority), r#""exact""#, "few enough states");
    // Six classes of fifty: no exact solver; several servers widen the band beyond what `auto` accepts.
    let classes = (0..6).map(|c| Class::closed(&format!("c{c}"), 50, 5.0 + f64::from(c))).collect();
    let demands = |first: f64| (0..6).map(|c| first * (1.0 + f64::from(c))).collect::<Vec<f64>>();
    let stations = vec![Station::queue("cpu", &demands(0.01)), Station::queue("disk", &demands(0.012))];
    let mut crowd = Network::new("crowd", classes, stations);
    answer(
        &crowd,
        r#""single servers, crowd, busiest above 99 %""#,
        "`linearizer`: too large for an exact solver, and the band is narrow",
    );
    crowd.stations[0].speed = Speed::Servers(4);
    answer(&crowd, r#""interval""#, "`linearizer` may be off by 2.20 % of throughput");
    // Rates that no approximation treats: no remedy is named that refuses as well.
    crowd.stations[0].speed = Speed::Rates(vec![1.0, 1.6, 2.0]);
    answer(&crowd, r#""interval""#, "the error of `linearizer` is not known");
}

/// Three classes of 150 and one station at 97 %: the lattice is large, and an approximation errs here.
#[test]
fn a_crowd_that_nearly_saturates_a_station_is_solved_exactly_if_that_takes_a_second() {
    let classes = (0..3).map(|c| Class::closed(&format!("c{c}"), 150, 8.2 + f64::from(c))).collect();
    let stations =
        vec![Station::queue("cpu", &[0.02, 0.03, 0.01]), Station::queue("disk", &[0.022, 0.01, 0.03])];
    let network = Network::new("crowd", classes, stations);
    let found = auto(&network);
    assert_eq!((found.solver.as_str(), found.nature), ("mva", "exact"));
    let near = solve(&network, "linearizer", &Options::default()).unwrap();
    let Accuracy::Band { response, .. } = near.accuracy else { panic!("{:?}", near.accuracy) };
    let off = near.classes.iter().zip(&found.classes).map(|(a, b)| (b.response / a.response - 1.0).abs());
    let off = off.fold(0.0, f64::max);
    assert!(0.01 < off && off <= response, "{off} of {response}");
}

#[test]
fn a_crowd_whose_approximation_is_withheld_is_simulated() {
    let mut draw = Draw(388);
    let classes = (0..25).map(|c| Class::closed(&format!("c{c}"), draw.integer(1, 40), 1.0)).collect();
    let station = |k| Station::queue(&format!("s{k}"), &[0; 25].map(|_| draw.between(0.001, 0.1)));
    let network = Network::new("crowd", classes, (0..20).map(station).collect());
    let withheld = solve(&network, "linearizer", &Options::default()).unwrap_err();
    assert!(matches!(withheld, ModelError::Numerical { .. }), "{withheld}");
    let short = Plan { replications: 2, requests: 2000.0, half_width: Some(0.9), ..Plan::default() };
    let options = Options { simulation: short, ..Options::default() };
    assert_eq!(solve(&network, "auto", &options).unwrap().solver, "simulation");
}

#[test]
fn a_crowd_too_large_to_simulate_is_approximated_with_a_note() {
    let mut network = two(Discipline::Priority);
    network.classes[0] = Class::closed("a", 3_000_000, 1e6);
    let solution = auto(&network);
    assert_eq!(solution.solver, "priority");
    assert!(matches!(solution.accuracy, Accuracy::Unknown { .. }), "{:?}", solution.accuracy);
    assert!(solution.notes.iter().any(|n| n.contains("too many customers")), "{:?}", solution.notes);
}

#[test]
fn bounds_hold_for_priorities_and_for_unequal_times_in_turn() {
    for discipline in [Discipline::Priority, Discipline::Fcfs] {
        let network = two(discipline);
        for (bound, class) in bounds(&network).unwrap().iter().zip(auto(&network).classes) {
            let x = class.throughput;
            assert!(bound.throughput.low <= x && x <= bound.throughput.high, "{bound:?} {x:?}");
        }
    }
    // One request of `a` at a time behind many long ones of `b`: the truth lies far below a shared server's.
    let stations = vec![Station::queue("cpu", &[0.01, 10.0]).with_discipline(Discipline::Fcfs)];
    let network = Network::new("n", vec![Class::closed("a", 1, 0.0), Class::closed("b", 20, 0.0)], stations);
    let x = auto(&network).classes[0].throughput;
    let bound = bounds(&network).unwrap()[0].throughput;
    // One cycle is everyone's service once: 200.01 s, which the bound states exactly.
    assert!((bound.low - 1.0 / 200.01).abs() < 1e-12, "{bound:?}");
    assert!((x / bound.low - 1.0).abs() < 1e-8, "{bound:?} {x}");
}

#[test]
fn hundreds_of_busy_servers_have_the_queue_of_erlang() {
    let station = Station::queue("pool", &[1.0]).with_speed(Speed::Servers(800));
    let solution = auto(&Network::new("n", vec![Class::open("calls", 760.0)], vec![station]));
    // Erlang's formulas by their recursion (Cooper 1981): blocking, then delay, then the mean wait.
    let blocking = (1..=800).fold(1.0, |b, n| 760.0 * b / (f64::from(n) + 760.0 * b));
    let delay = blocking / (1.0 - 0.95 * (1.0 - blocking));
    let expected = 1.0 + delay / (800.0 - 760.0);
    assert!((solution.response() / expected - 1.0).abs() < 1e-9, "{} {expected}", solution.response());
}

#[test]
fn a_class_of_nobody_is_answered_where_priorities_are() {
    let mut network = two(Discipline::Priority);
    network.classes[1] = Class::closed("b", 0, 2.0);
    let solution = solve(&network, "priority", &Options::default()).unwrap();
    assert!(solution.classes[0].throughput > 0.0 && solution.classes[1].throughput == 0.0, "{solution:?}");
    // Nor does it stand in the way of what is simulated for the others.
    let options = Options { percentiles: vec![95.0], ..Options::default() };
    for solver in ["auto", "simulation"] {
        let [some, nobody] = &solve(&network, solver, &options).unwrap().classes[..] else { panic!() };
        assert!(some.percentiles.len() == 1 && nobody.percentiles.is_empty(), "{solver}: {some:?}");
        assert_eq!((nobody.throughput, nobody.response), (0.0, 0.0), "{solver}");
    }
}

/// Of the processor, web needs 74.6 % and batch, which is served first and hardly waits, 26.3 %.
fn hardly_too_much() -> Network {
    let mut classes = vec![Class::open("web", 6.534), Class::closed("batch", 1, 0.4389)];
    classes[1].priority = 1;
    let stations = vec![
        Station::queue("cpu", &[0.11425, 0.16273]).with_discipline(Discipline::Priority),
        Station::queue("disk", &[0.04123, 0.01818]).with_discipline(Discipline::Priority),
    ];
    Network::new("n", classes, stations)
}

#[test]
fn an_open_class_that_is_left_a_hundredth_too_little_is_refused_too() {
    let text = solve(&hardly_too_much(), "simulation", &Options::default()).unwrap_err().to_string();
    assert!(text.contains("class `web` does not keep up") && text.contains("it asks for 100."), "{text}");
    let mut less = hardly_too_much();
    less.classes[0] = Class::open("web", 6.2);
    assert!(solve(&less, "simulation", &Options::default()).is_ok());
}

#[test]
fn bounds_of_a_class_that_is_served_first_do_not_count_on_what_gives_way_to_it() {
    let [web, batch] = &bounds(&hardly_too_much()).unwrap()[..] else { panic!() };
    assert!((batch.throughput.high - 1.0 / (0.4389 + 0.16273 + 0.01818)).abs() < 1e-9, "{batch:?}");
    assert_eq!((web.throughput.low, web.throughput.high), (0.0, 6.534));
    let mut less = hardly_too_much();
    less.classes[0] = Class::open("web", 6.2);
    assert!(bounds(&less).unwrap()[0].throughput.low > 6.19);
}

#[test]
fn an_open_class_that_closed_ones_leave_too_little_is_refused_with_the_reason() {
    // Batch is served first and never thinks: of the processor a third is left, and web needs 45 %.
    let mut classes = vec![Class::open("web", 4.5), Class::closed("batch", 1, 0.0)];
    classes[1].priority = 1;
    let stations = vec![
        Station::queue("cpu", &[0.1, 0.2]).with_discipline(Discipline::Priority),
        Station::queue("disk", &[0.0, 0.1]),
    ];
    let network = Network::new("n", classes, stations);
    let text = solve(&network, "auto", &Options::default()).unwrap_err().to_string();
    assert!(text.contains("class `web` does not keep up") && text.contains("lower its rate"), "{text}");
}

#[test]
fn a_class_that_others_let_nothing_through_is_refused_with_that_reason() {
    // One customer of class b is always in service, and is served first: the approximation would print nonsense.
    let mut classes = vec![Class::open("a", 127.0), Class::closed("b", 1, 0.0)];
    classes[1].priority = 1;
    let cpu = Station::queue("cpu", &[0.0046, 0.00365]).with_discipline(Discipline::Priority);
    let network = Network::new("starved", classes, vec![cpu]);
    let refused = solve(&network, "auto", &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("class `a` completes 0 of"), "{refused}");
    // Where the approximation keeps the laws, nobody knows its error: it answers whoever asks for it alone.
    let mut closed = network.clone();
    closed.classes[0] = Class::closed("a", 4, 1.0);
    let refused_too = solve(&closed, "auto", &Options::default()).unwrap_err().to_string();
    assert!(refused_too.contains("class `a` completes 0 of"), "{refused_too}");
    assert!(matches!(
        solve(&closed, "priority", &Options::default()).unwrap().accuracy,
        Accuracy::Unknown { .. }
    ));
    // What breaks a law names a remedy that says why.
    let broken = solve(&network, "priority", &Options::default()).unwrap_err().to_string();
    assert!(broken.contains("use `simulation`"), "{broken}");
    let simulated = solve(&network, "simulation", &Options::default()).unwrap_err().to_string();
    assert_eq!(simulated, refused);
}

#[test]
fn a_rare_class_is_simulated_for_longer_and_one_too_rare_refused() {
    let with = |rate: f64| {
        let classes = vec![Class::open("web", 8.0), Class::open("report", rate)];
        Network::new("n", classes, vec![Station::queue("cpu", &[0.1, 0.1])])
    };
    // Of 20,000 requests of a replication 2 would be reports, and of one in eight replications none.
    let found = solve(&with(0.0008), "simulation", &Options::default()).unwrap();
    let report = found.classes[1].response_interval.unwrap();
    let expected = 0.1 / (1.0 - 0.80008);
    assert!(report.low < expected && expected < report.high, "{report:?}");
    assert!(report.high < 1.3 * expected, "{report:?}");
    let fault = solve(&with(0.0001), "simulation", &Options::default()).unwrap_err().to_string();
    assert!(fault.contains("class `report` completes") && fault.contains("comes too seldom"), "{fault}");
    assert!(fault.contains("leave it out"), "{fault}");
}

#[test]
fn a_class_that_others_hardly_let_through_is_not_simulated_for_hours() {
    // The first class alone takes all of the station but a share of exp(-50) or so.
    let mut classes = vec![Class::closed("before", 100, 50.0), Class::closed("behind", 20, 1.0)];
    classes[0].priority = 1;
    let cpu = Station::queue("cpu", &[1.0, 1.0]).with_discipline(Discipline::Priority);
    let network = Network::new("crowded out", classes, vec![cpu]);
    let fault = solve(&network, "simulation", &Options::default()).unwrap_err().to_string();
    assert!(fault.contains("class `behind` completes") && fault.contains("lower the load"), "{fault}");
    // Small enough, it is exact; otherwise an approximation answers whoever asks for one of unknown error.
    assert!(matches!(auto(&network).accuracy, Accuracy::Exact));
    let mut large = network;
    large.classes[1] = Class::closed("behind", 3000, 1.0);
    let fault = solve(&large, "auto", &Options::default()).unwrap_err().to_string();
    assert!(
        fault.contains("class `behind` completes") && fault.contains("`priority` answers too"),
        "{fault}"
    );
    assert!(matches!(
        solve(&large, "priority", &Options::default()).unwrap().accuracy,
        Accuracy::Unknown { .. }
    ));
    // With several servers there is no approximation: the reason is said, not a solver that refuses as well.
    large.stations[0].speed = Speed::Servers(2);
    large.classes[0] = Class { priority: 1, ..Class::closed("before", 200, 50.0) };
    let fault = solve(&large, "auto", &Options::default()).unwrap_err().to_string();
    assert!(fault.contains("class `behind` completes"), "{fault}");
}

#[test]
fn rates_of_a_crowd_are_exact_and_a_remedy_is_only_named_if_it_treats_the_model() {
    // One station beside thinking is a chain of births and deaths: an oracle of one line per number present.
    let (people, think, demand, rates) = (100_000usize, 1000.0, 0.02, [1.0, 1.9, 2.7]);
    let rate = |n: usize| rates[n.min(3) - 1] / demand;
    let mut log = vec![0.0f64];
    for n in 1..=people {
        log.push(log[n - 1] + ((people - n + 1) as f64 / think / rate(n)).ln());
    }
    let most = log.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = log.iter().map(|l| (l - most).exp()).collect();
    let served: f64 = (1..=people).map(|n| weights[n] * rate(n)).sum();
    let expected = served / weights.iter().sum::<f64>();
    let station = Station::queue("cpu", &[demand]).with_speed(Speed::Rates(rates.to_vec()));
    let one = Network::new("n", vec![Class::closed("a", people, think)], vec![station]);
    let found = solve(&one, "convolution", &Options::default()).unwrap().throughput();
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    assert_eq!(auto(&one).nature, "exact");
    // Of several classes, many users' rates are too much for an exact solver: simulated.
    let mut two = one;
    two.classes.push(Class::closed("b", 2000, think));
    two.stations[0] = Station::queue("cpu", &[demand, demand]).with_speed(Speed::Rates(rates.to_vec()));
    two.classes[0] = Class::closed("a", 2000, think);
    for solver in ["convolution", "linearizer"] {
        let text = solve(&two, solver, &Options::default()).unwrap_err().to_string();
        assert!(text.contains("use `simulation`"), "{text}");
    }
    assert_eq!(solve(&two, "simulation", &Options::default()).unwrap().nature, "simulated");
}

#[test]
fn a_saturated_chain_is_not_withheld_for_what_its_iteration_left() {
    // Completions of the chain exceeded the station's capacity by 2e-11 here.
    let (think, demand) = (0.268_465_679_234_793_6, 0.009_646_022_937_209_201);
    let mut network =
        Network::new("pool", vec![Class::closed("users", 79, think)], vec![Station::queue("cpu", &[demand])]);
    let holds = vec![0.004_823_011_468_604_601];
    network.pools = vec![Pool { name: "threads".into(), size: 4, parent: None, holds, calls: 1.0 }];
    let busy = auto(&network).throughput() * demand;
    assert!((0.999..=1.0).contains(&busy), "{busy}");
}

/// No solver but simulation treats open classes that fork; that `forkjoin` does not is not what helps.
#[test]
fn a_fork_that_is_too_near_saturation_is_refused_for_that() {
    let stations = vec![Station::queue("a", &[0.1]), Station::queue("b", &[0.1])];
    let mut network = Network::new("forked", vec![Class::open("web", 9.9999)], stations);
    let branches = vec![vec![Part::Station(0)], vec![Part::Station(1)]];
    network.forks = vec![Fork { name: "f".into(), branches }];
    let refused = solve(&network, "auto", &Options::default()).unwrap_err();
    assert!(matches!(&refused, ModelError::Saturated { .. }), "{refused}");
}

#[test]
fn a_pool_bounds_by_how_long_it_is_held_and_nobody_waits_for_a_plain_delay() {
    let mut network = Network::single(20, 1.0, &[0.1, 0.02, 0.3]);
    network.stations[0].speed = Speed::Delay;
    network.stations[2].speed = Speed::Delay;
    let outer =
        Pool { name: "threads".into(), size: 3, parent: None, holds: vec![0.1, 0.0, 0.0], calls: 1.0 };
    let holds = vec![0.0, 0.02, 0.0];
    network.pools = vec![outer, Pool { name: "lock".into(), size: 1, parent: Some(0), holds, calls: 1.0 }];
    let [bound] = &bounds(&network).unwrap()[..] else { panic!() };
    assert_eq!((bound.bottleneck.as_str(), bound.balanced), ("threads", None));
    assert!((bound.throughput.high - (20.0f64 / 1.42).min(3.0 / 0.12)).abs() < 1e-12, "{bound:?}");
    // One after the other through what is held, side by side elsewhere.
    assert!((bound.throughput.low - 20.0 / (1.3 + 20.0 * 0.12)).abs() < 1e-12, "{bound:?}");
    // With one unit and nothing beside they meet.
    network.pools[0].size = 1;
    network.stations[2].demands = vec![0.0];
    network.classes[0].load = Load::Closed { population: 20, think: 0.0 };
    let [bound] = &bounds(&network).unwrap()[..] else { panic!() };
    assert!((bound.throughput.low - bound.throughput.high).abs() < 1e-12, "{bound:?}");
    assert!((bound.throughput.low - auto(&network).throughput()).abs() < 1e-6 * bound.throughput.low);
}

#[test]
fn a_fork_takes_as_long_as_its_longest_branch_at_least() {
    let mut network = Network::single(1, 0.0, &[0.1, 0.2, 0.25, 0.05]);
    network.forks = vec![
        Fork { name: "inner".into(), branches: vec![vec![Part::Station(0)], vec![Part::Station(1)]] },
        Fork { name: "outer".into(), branches: vec![vec![Part::Fork(0)], vec![Part::Station(2)]] },
    ];
    network.stations = network.stations.into_iter().map(|s| s.with_law(&Law::Constant)).collect();
    let [bound] = &bounds(&network).unwrap()[..] else { panic!() };
    // 250 ms beside 200 ms, and 50 ms more; at worst all four one after the other.
    assert!(
        (bound.response.low - 0.3).abs() < 1e-12 && (bound.response.high - 0.6).abs() < 1e-12,
        "{bound:?}"
    );
    assert!((auto(&network).classes[0].response - 0.3).abs() < 1e-6);
}
