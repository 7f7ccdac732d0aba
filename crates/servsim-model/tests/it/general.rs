//! What goes beyond exponential times and fixed visits: laws of service times, priorities that do not interrupt, weights,
//! finite capacity, routes, forks within forks, pools of several classes. Against closed formulas, against chains written
//! out by hand, and one solver against another that shares nothing with it.

use crate::common::relative;
use servsim_model::network::Part;
use servsim_model::service::{Law, Phases};
use servsim_model::sim::Plan;
use servsim_model::text::read_network;
use servsim_model::{
    solve, Class, Discipline, Fork, Full, Load, ModelError, Network, Options, Pool, Solution, Speed, Station,
};

fn by(network: &Network, solver: &str) -> Solution {
    solve(network, solver, &Options::default()).unwrap()
}

fn simulated(network: &Network, requests: f64) -> Solution {
    let simulation = Plan { requests, seed: 3, ..Plan::default() };
    solve(network, "simulation", &Options { simulation, ..Options::default() }).unwrap()
}

/// Both solvers, told apart by what `auto` takes; all figures of all classes within these shares.
fn agree(network: &Network, chosen: &str, requests: f64, share: f64) {
    let exact = by(network, "auto");
    assert_eq!(exact.solver, chosen, "{:?}", exact.notes);
    let other = simulated(network, requests);
    for (a, b) in exact.classes.iter().zip(&other.classes) {
        let (x, r) = (relative(b.throughput, a.throughput), relative(b.response, a.response));
        assert!(
            x < share && r < 2.0 * share,
            "{}: {} {} {} {}",
            a.name,
            a.throughput,
            b.throughput,
            a.response,
            b.response
        );
        if let (Some(a), Some(b)) = (a.loss, b.loss) {
            assert!((a - b).abs() < share, "lost {a} {b}");
        }
    }
    for (a, b) in exact.stations.iter().zip(&other.stations) {
        assert!(
            (a.utilization - b.utilization).abs() < 2.0 * share,
            "{}: {} {}",
            a.name,
            a.utilization,
            b.utilization
        );
    }
}

fn ranked(mut classes: Vec<Class>) -> Vec<Class> {
    let most = classes.len() as i32;
    classes.iter_mut().enumerate().for_each(|(i, class)| class.priority = most - i as i32);
    classes
}

/// Two open classes at one station.
fn two(discipline: Discipline, law: &Law) -> Network {
    let classes = ranked(vec![Class::open("short", 0.9), Class::open("long", 0.2)]);
    let station = Station::queue("cpu", &[0.4, 1.5]).with_discipline(discipline).with_law(law);
    Network::new("two", classes, vec![station])
}

#[test]
fn one_open_station_is_as_pollaczek_and_cobham_say() {
    let wide = Law::of_cv(2.0).unwrap();
    // Residual work .5 (.9 x .16 + .2 x 2.25) x 5 = 1.485; loads .36 and .3.
    let residual = 0.5 * (0.9 * 0.16 + 0.2 * 2.25) * 5.0;
    let response = |discipline| by(&two(discipline, &wide), "auto").classes.map_response();
    let fcfs = response(Discipline::Fcfs);
    assert!(
        relative(fcfs[0], residual / 0.34 + 0.4) < 1e-12 && relative(fcfs[1], residual / 0.34 + 1.5) < 1e-12
    );
    let waits = response(Discipline::NonPreemptive);
    assert!(relative(waits[0], residual / 0.64 + 0.4) < 1e-12);
    assert!(relative(waits[1], residual / (0.64 * 0.34) + 1.5) < 1e-12);
    let interrupted = response(Discipline::Priority);
    assert!(relative(interrupted[0], 0.4 + 0.5 * 0.9 * 0.16 * 5.0 / 0.64) < 1e-12);
    for discipline in [Discipline::Fcfs, Discipline::NonPreemptive, Discipline::Priority] {
        agree(&two(discipline, &wide), "station", 200_000.0, 0.03);
        agree(&two(discipline, &Law::Constant), "station", 100_000.0, 0.02);
    }
}

trait Responses {
    fn map_response(&self) -> Vec<f64>;
}

impl Responses for Vec<servsim_model::solution::ClassResult> {
    fn map_response(&self) -> Vec<f64> {
        self.iter().map(|c| c.response).collect()
    }
}

#[test]
fn equal_classes_at_several_servers_are_ranked_as_the_simulator_ranks_them() {
    for discipline in [Discipline::NonPreemptive, Discipline::Priority] {
        let classes =
            ranked(vec![Class::open("first", 1.2), Class::open("second", 0.9), Class::open("third", 0.4)]);
        let station =
            Station::queue("cpu", &[1.0; 3]).with_discipline(discipline).with_speed(Speed::Servers(3));
        agree(&Network::new("ranked", classes, vec![station]), "station", 100_000.0, 0.02);
    }
}

#[test]
fn weights_share_a_server_as_their_equations_and_the_simulator_say() {
    let mut network = two(Discipline::Weighted, &Law::Exponential);
    // Weights that are alike are processor sharing.
    let even = by(&network, "station");
    network.stations[0].discipline = Discipline::Ps;
    let shared = by(&network, "mva");
    for (a, b) in even.classes.iter().zip(&shared.classes) {
        assert!(relative(a.response, b.response) < 1e-12);
    }
    network.stations[0].discipline = Discipline::Weighted;
    network.stations[0].weights = vec![5.0, 1.0];
    let weighed = by(&network, "station");
    assert!(weighed.classes[0].response < 0.8 * even.classes[0].response);
    agree(&network, "station", 100_000.0, 0.02);
    let mut closed = network.clone();
    closed.classes = vec![Class::closed("short", 4, 1.0), Class::closed("long", 3, 2.0)];
    closed.stations.push(Station::queue("disk", &[0.3, 0.2]));
    agree(&closed, "markov", 40_000.0, 0.01);
}

#[test]
fn loss_is_as_erlang_says_whatever_the_law_of_the_times() {
    // Erlang's table: 3 servers offered 2 lose .2105.
    for law in [Law::Exponential, Law::of_cv(2.0).unwrap(), Law::of_cv(0.5).unwrap(), Law::Constant] {
        let station = Station::queue("trunk", &[2.0]).with_speed(Speed::Servers(3)).with_law(&law);
        let station = station.with_discipline(Discipline::Fcfs).with_room(3, Full::Lose);
        let network = Network::new("loss", vec![Class::open("calls", 1.0)], vec![station]);
        let exact = by(&network, "auto");
        assert_eq!(exact.solver, "station");
        assert!((exact.classes[0].loss.unwrap() - 4.0 / 19.0).abs() < 1e-12);
        assert!(relative(exact.classes[0].response, 2.0) < 1e-12);
        let found = simulated(&network, 50_000.0);
        assert!((found.classes[0].loss.unwrap() - 4.0 / 19.0).abs() < 0.004, "{law:?}");
        assert!(relative(found.throughput(), exact.throughput()) < 0.01);
    }
}

#[test]
fn a_queue_with_little_room_is_birth_and_death_also_in_the_chain() {
    let station =
        Station::queue("web", &[1.0]).with_discipline(Discipline::Fcfs).with_speed(Speed::Servers(2));
    let network =
        Network::new("room", vec![Class::open("hits", 2.4)], vec![station.with_room(5, Full::Lose)]);
    let closed_form = by(&network, "station");
    let weights = [1.0, 2.4, 2.88, 2.88 * 1.2, 2.88 * 1.44, 2.88 * 1.728];
    let sum: f64 = weights.iter().sum();
    assert!(relative(closed_form.classes[0].loss.unwrap(), weights[5] / sum) < 1e-12);
    let chain = by(&network, "markov");
    assert!(relative(chain.throughput(), closed_form.throughput()) < 1e-9);
    assert!(relative(chain.response(), closed_form.response()) < 1e-9);
    assert!(relative(chain.classes[0].loss.unwrap(), weights[5] / sum) < 1e-9);
    let mut wide = network.clone();
    wide.stations[0] = wide.stations[0].clone().with_law(&Law::of_cv(1.8).unwrap());
    agree(&wide, "markov", 100_000.0, 0.01);
    // Customers who are lost think again.
    let mut few = wide;
    few.classes[0] = Class::closed("users", 12, 3.0);
    agree(&few, "markov", 40_000.0, 0.01);
}

#[test]
fn small_chains_know_phases_and_ranks_that_do_not_interrupt() {
    let classes = ranked(vec![Class::closed("urgent", 3, 2.0), Class::closed("batch", 3, 1.0)]);
    let stations = vec![
        Station::queue("cpu", &[0.5, 0.9])
            .with_discipline(Discipline::NonPreemptive)
            .with_law(&Law::of_cv(0.6).unwrap()),
        Station::queue("disk", &[0.4, 0.3]).with_law(&Law::of_cv(3.0).unwrap()),
    ];
    agree(&Network::new("both", classes.clone(), stations.clone()), "markov", 40_000.0, 0.01);
    let mut interrupted = Network::new("interrupted", classes, stations);
    interrupted.stations[0].discipline = Discipline::Priority;
    agree(&interrupted, "markov", 40_000.0, 0.01);
    // Shared times of any law are as exponential ones where all is product form.
    let plain = Network::single(6, 2.0, &[0.4, 0.5]);
    let mut wide = plain.clone();
    wide.stations[0] = wide.stations[0].clone().with_law(&Law::of_cv(2.0).unwrap());
    assert_eq!(by(&wide, "auto").solver, "mva");
    assert!(relative(by(&wide, "markov").throughput(), by(&plain, "mva").throughput()) < 1e-9);
    // One server, first come, first served, phases that repeat: against the simulator.
    let loops = Phases::new(vec![1.0, 0.0], vec![1.0, 2.0], vec![vec![0.0, 0.5], vec![0.4, 0.0]]).unwrap();
    let mut line = plain;
    line.stations[0].discipline = Discipline::Fcfs;
    line.stations[0] = line.stations[0].clone().with_law(&Law::Phases(loops));
    agree(&line, "markov", 40_000.0, 0.01);
    line.stations[0] = line.stations[0].clone().with_law(&Law::Constant);
    assert_eq!(by(&line, "auto").solver, "simulation");
}

#[test]
fn blocking_after_service_is_birth_and_death_for_two_stations_in_a_circle() {
    // So many at the second or blocked at the first; births at 1/.5, deaths at 1/.8 a second.
    let (customers, room) = (6, 3);
    let mut network = Network::single(customers, 0.0, &[0.5, 0.8]);
    network.stations.iter_mut().for_each(|s| s.discipline = Discipline::Fcfs);
    network.stations[1] = network.stations[1].clone().with_room(room, Full::Block);
    let weights: Vec<f64> = (0..=room + 1).map(|n| (0.8f64 / 0.5).powi(n as i32)).collect();
    let sum: f64 = weights.iter().sum();
    let throughput = (1.0 - weights[0] / sum) / 0.8;
    let at_second: f64 = weights.iter().enumerate().map(|(n, w)| n.min(room) as f64 * w / sum).sum();
    let found = by(&network, "auto");
    assert_eq!(found.solver, "simulation");
    let longer = simulated(&network, 100_000.0);
    assert!(relative(longer.throughput(), throughput) < 0.005, "{} {throughput}", longer.throughput());
    assert!(relative(longer.stations[1].queue[0], at_second) < 0.01);
    assert!(relative(longer.stations[0].queue[0], customers as f64 - at_second) < 0.01);
    assert!(relative(longer.stations[0].utilization, throughput * 0.5) < 0.01, "a kept server does not work");
    // Two that block each other would stop for ever.
    network.stations[0] = network.stations[0].clone().with_room(3, Full::Block);
    let refused = solve(&network, "auto", &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("circle of stations with room for 6 that block"), "{refused}");
    let Load::Closed { population, .. } = &mut network.classes[0].load else { panic!() };
    *population = 5;
    // Seen from either side, 5 in a circle with room for 6: the number at one is birth and death.
    let found = simulated(&network, 100_000.0);
    // n at the second from 2 to 3, and blocked on either side.
    let weights: Vec<f64> = (0..4).map(|n| (0.8f64 / 0.5).powi(n)).collect();
    let throughput = (1.0 - weights[0] / weights.iter().sum::<f64>()) / 0.8;
    assert!(relative(found.throughput(), throughput) < 0.005, "{} {throughput}", found.throughput());
    let mut row = Network::new("row", vec![Class::open("jobs", 0.7)], Vec::new());
    row.stations =
        (0..2).map(|k| Station::queue(&format!("s{k}"), &[1.0]).with_discipline(Discipline::Fcfs)).collect();
    row.stations[1] = row.stations[1].clone().with_room(1, Full::Block);
    let error = solve(&row, "auto", &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("does not keep up"),
        "two without a place between them pass 2/3 a second: {error}"
    );
}

const ROUTES: &str = r#"
[[class]]
name = "shop"
population = 5
think = "3 s"
phases = ["browse", "buy"]

[[station]]
name = "web"
service = { shop = { browse = "100 ms", buy = "300 ms" } }

[[station]]
name = "disk"
service = "200 ms"

[[route]]
from = "start"
to = { web = 1.0 }
[[route]]
from = "web"
to = { disk = 0.6, end = 0.3 }
[[route]]
from = "web"
becomes = "buy"
to = { web = 0.1 }
[[route]]
from = "disk"
to = { web = 1.0 }
[[route]]
phase = "buy"
from = "web"
to = { disk = 0.5, end = 0.5 }
[[route]]
phase = "buy"
from = "disk"
to = { end = 1.0 }
"#;

#[test]
fn routes_are_visits_to_product_form_and_steps_to_chain_and_simulator() {
    let network = read_network(ROUTES, false).unwrap().network;
    // Browsing web: v = 1 + .6 v, so 2.5; buying .25; disk 1.5 browsing and .125 buying.
    let (web, disk) = (&network.stations[0], &network.stations[1]);
    assert!((web.visits[0] - 2.75).abs() < 1e-12 && (web.demands[0] - 0.325).abs() < 1e-12);
    assert!((disk.visits[0] - 1.625).abs() < 1e-12 && (disk.demands[0] - 0.325).abs() < 1e-12);
    let exact = by(&network, "auto");
    assert_eq!(exact.solver, "mva");
    let chain = by(&network, "markov");
    assert!(relative(chain.throughput(), exact.throughput()) < 1e-9);
    assert!(relative(chain.stations[0].queue[0], exact.stations[0].queue[0]) < 1e-8);
    agree(&network, "mva", 40_000.0, 0.01);
    // In turn, phases of unequal times have no product form.
    let text = ROUTES.replace("name = \"web\"", "name = \"web\"\ndiscipline = \"fcfs\"");
    agree(&read_network(&text, false).unwrap().network, "markov", 40_000.0, 0.01);
}

#[test]
fn a_fork_of_two_steps_beside_one_lasts_as_long_as_the_slower() {
    // Alone: the later of Erlang-2 (mean 2) and an exponential of mean 1, by hand: 2.25.
    let mut network = Network::single(1, 1.0, &[1.0, 1.0, 1.0]);
    network.stations.iter_mut().for_each(|s| s.speed = Speed::Delay);
    let branch = |stations: &[usize]| stations.iter().map(|&k| Part::Station(k)).collect::<Vec<_>>();
    network.forks = vec![Fork { name: "f".into(), branches: vec![branch(&[0, 1]), branch(&[2])] }];
    assert!(relative(simulated(&network, 100_000.0).response(), 2.25) < 0.005);
    // A fork within a fork: the later of an exponential and of (the later of two and then one more).
    let mut nested = Network::single(1, 1.0, &[1.0, 1.0, 1.0, 1.0]);
    nested.stations.iter_mut().for_each(|s| s.speed = Speed::Delay);
    nested.forks = vec![
        Fork::to_stations("inner", &[0, 1]),
        Fork { name: "outer".into(), branches: vec![vec![Part::Fork(0), Part::Station(2)], branch(&[3])] },
    ];
    // The inner way has distribution of Exp(2) + Exp(1) + Exp(1); the later of it and Exp(1) has mean
    // 2.5 + 1 - E min, E min = 1/3 + 2/3 x 1/2 + 2/3 x 1/2 x 1/2 = 5/6.
    assert!(relative(simulated(&nested, 100_000.0).response(), 3.5 - 5.0 / 6.0) < 0.005);
}

#[test]
fn open_requests_in_a_pool_are_an_mmc_and_classes_share_pools() {
    let mut network = Network::new(
        "pool",
        vec![Class::open("requests", 1.5)],
        vec![Station::queue("work", &[1.0]).with_speed(Speed::Delay)],
    );
    network.pools =
        vec![Pool { name: "threads".into(), size: 2, parent: None, holds: vec![1.0], calls: 1.0 }];
    // M/M/2 at 75 %: C = 9/14, wait C / (2 - 1.5) = 9/7.
    let found = simulated(&network, 200_000.0);
    assert!(relative(found.response(), 1.0 + 9.0 / 7.0) < 0.02, "{}", found.response());
    assert!(relative(found.pools[0].utilization, 0.75) < 0.01);
    let classes = vec![Class::closed("a", 3, 1.0), Class::closed("b", 2, 0.5)];
    let stations = vec![Station::queue("cpu", &[0.4, 0.3]), Station::queue("disk", &[0.5, 0.2])];
    let mut shared = Network::new("shared", classes, stations);
    let holds = vec![0.3, 0.1, 0.5, 0.2];
    shared.pools = vec![
        Pool { name: "threads".into(), size: 2, parent: None, holds, calls: 1.0 },
        Pool { name: "lock".into(), size: 1, parent: Some(0), holds: vec![0.05, 0.1, 0.0, 0.0], calls: 2.5 },
    ];
    shared.pools[0].holds = vec![0.25, 0.1, 0.5, 0.2];
    agree(&shared, "markov", 60_000.0, 0.01);
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let refused = |text: &str| read_network(text, false).unwrap_err().to_string();
    let base = "[[class]]\nname = \"a\"\nrate = \"1 /s\"\n[[station]]\nname = \"s\"\ndemand = \"1 ms\"\n";
    for (more, part) in [
        ("capacity = 3\n", "say when_full = \"lose\" or \"block\""),
        ("when_full = \"lose\"\n", "never full; add capacity"),
        ("cv = 0.05\n", "`cv` must be 0 (constant times), or a number from 0.1 to 100"),
        ("cv = 2\nhistogram = {borders = [\"0 ms\", \"1 ms\"], counts = [1]}\n", "cv and histogram"),
        ("phases = {start = [0.5, 0.4], means = [1, 2]}\n", "do not sum to 1"),
        ("weights = 2\n", "set discipline = \"weighted\""),
        ("discipline = \"weighted\"\nservers = 2\n", "shares by weight and is not one server"),
        ("discipline = \"wieghted\"\n", "did you mean `weighted`"),
        ("[[fork]]\nname = \"f\"\nbranches = [\"s\", \"t\"]\n", "unknown station or fork listed before `t`"),
        ("[[route]]\nfrom = \"start\"\nto = { s = 1.0 }\n", "give station `s` a service time per visit"),
    ] {
        let found = refused(&format!("{base}{more}"));
        assert!(found.contains(part), "{more}: {found}");
    }
    let routed = base.replace("demand", "service");
    for (more, part) in [
        ("[[route]]\nfrom = \"start\"\nto = { s = 0.9 }\n", "sum to 0.9, not to 1"),
        (
            "[[route]]\nfrom = \"start\"\nto = { s = 1.0 }\n[[route]]\nfrom = \"s\"\nto = { s = 1.0 }\n",
            "never come to their end",
        ),
        (
            "[[route]]\nfrom = \"start\"\nto = { end = 1.0 }\n[[route]]\nfrom = \"s\"\nto = { end = 1.0 }\n",
            "from start",
        ),
        ("[[route]]\nfrom = \"strat\"\nto = { s = 1.0 }\n", "did you mean `start`"),
    ] {
        let found = refused(&format!("{routed}{more}"));
        assert!(found.contains(part), "{more}: {found}");
    }
    let blocked = Network::single(3, 1.0, &[0.1, 0.2]);
    let mut shared = blocked.clone();
    shared.stations[1] = shared.stations[1].clone().with_room(2, Full::Block);
    let error = solve(&shared, "auto", &Options::default()).unwrap_err();
    assert!(
        matches!(&error, ModelError::Invalid { what, .. } if what.contains("is shared in a model that blocks")),
        "{error}"
    );
    let mut weighted = blocked;
    weighted.stations[0].discipline = Discipline::Weighted;
    for solver in ["mva", "linearizer", "priority", "layered"] {
        let error = solve(&weighted, solver, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("weight") || error.contains("pool"), "{solver}: {error}");
    }
}
