//! Random models of each kind, as users have them: demands over three decades, populations over two, stations from
//! nearly idle to nearly saturated. Over 400 lines because each kind is a few lines of its own.

use crate::common::Draw;
use servsim_model::network::Part;
use servsim_model::routing::{apply, Hop, Routing};
use servsim_model::service::{Histogram, Law};
use servsim_model::{Class, Discipline, Fork, Full, Network, Pool, Speed, Station};

/// A kind of model and how one is drawn.
pub type Kind = (&'static str, fn(&mut Draw) -> Network);

/// All kinds.
pub const KINDS: [Kind; 13] = [
    ("product form", product_form),
    ("crowds", crowds),
    ("fcfs unequal", fcfs_unequal),
    ("priorities", priorities),
    ("forks", forks),
    ("pools", pools),
    ("open", open),
    ("mixed", mixed),
    ("laws", laws),
    ("rooms", rooms),
    ("routes", routes),
    ("nested forks", nested_forks),
    ("shared pools", shared_pools),
];

/// From `low` to `high`, every decade as likely as another.
pub fn decades(draw: &mut Draw, low: f64, high: f64) -> f64 {
    10f64.powf(draw.between(low.log10(), high.log10()))
}

fn chance(draw: &mut Draw, probability: f64) -> bool {
    draw.unit() < probability
}

/// Up to `most` customers, small numbers as likely as large ones.
fn people(draw: &mut Draw, most: f64) -> usize {
    decades(draw, 1.0, most + 0.99) as usize
}

/// Closed classes whose users think for as long as makes anything from an idle to a saturated server.
fn closed(draw: &mut Draw, count: usize, most: f64, typical: f64) -> Vec<Class> {
    let class = |draw: &mut Draw, c: usize| {
        let population = people(draw, most);
        let think =
            if chance(draw, 0.2) { 0.0 } else { typical * decades(draw, 0.3, 3.0) * population as f64 };
        Class::closed(&format!("c{c}"), population, think)
    };
    (0..count).map(|c| class(draw, c)).collect()
}

/// Demands of `classes` at one station, seconds; a class may leave it out.
fn demands(draw: &mut Draw, classes: usize, first: bool) -> Vec<f64> {
    let base = decades(draw, 0.002, 0.2);
    let of = |draw: &mut Draw| base * decades(draw, 0.3, 3.0);
    (0..classes).map(|_| if !first && chance(draw, 0.2) { 0.0 } else { of(draw) }).collect()
}

fn stations(draw: &mut Draw, count: usize, classes: usize) -> Vec<Station> {
    let station =
        |draw: &mut Draw, k: usize| Station::queue(&format!("s{k}"), &demands(draw, classes, k == 0));
    (0..count).map(|k| station(draw, k)).filter(Station::is_used).collect()
}

/// Some stations have several servers, none, or rates of their own.
fn speeds(draw: &mut Draw, stations: &mut [Station], rates: bool) {
    for station in stations {
        station.speed = match draw.integer(0, 9) {
            0 | 1 => Speed::Servers(draw.integer(2, 8)),
            2 => Speed::Delay,
            3 if rates => Speed::Rates((1..=draw.integer(2, 6)).map(|n| (n as f64).powf(0.7)).collect()),
            _ => Speed::Servers(1),
        };
    }
}

fn total(stations: &[Station]) -> f64 {
    stations.iter().flat_map(|s| &s.demands).copied().fold(0.0, f64::max)
}

fn product_form(draw: &mut Draw) -> Network {
    let classes = draw.integer(1, 3);
    let count = draw.integer(1, 6);
    let mut stations = stations(draw, count, classes);
    speeds(draw, &mut stations, true);
    let most = [100.0, 30.0, 12.0][classes - 1];
    let typical = total(&stations);
    Network::new("product form", closed(draw, classes, most, typical), stations)
}

/// Several classes of many customers: too many combinations for an exact solver.
fn crowds(draw: &mut Draw) -> Network {
    let classes = draw.integer(3, 6);
    let count = draw.integer(2, 8);
    let mut stations = stations(draw, count, classes);
    for station in &mut stations {
        if chance(draw, 0.2) {
            station.speed = Speed::Servers(draw.integer(2, 4));
        }
    }
    let mut population = closed(draw, classes, 10.0, total(&stations));
    for class in &mut population {
        let (think, people) = (class.think(), draw.integer(10, 60));
        *class = Class::closed(&class.name.clone(), people, think * draw.between(1.0, 10.0));
    }
    Network::new("crowds", population, stations)
}

fn fcfs_unequal(draw: &mut Draw) -> Network {
    let classes = draw.integer(2, 3);
    let count = draw.integer(1, 4);
    let mut stations = stations(draw, count, classes);
    for (k, station) in stations.iter_mut().enumerate() {
        if k == 0 || chance(draw, 0.5) {
            station.discipline = Discipline::Fcfs;
            if chance(draw, 0.2) {
                station.speed = Speed::Servers(draw.integer(2, 4));
            }
            for c in 0..classes {
                station.visits[c] = if chance(draw, 0.7) { 1.0 } else { draw.integer(2, 4) as f64 };
            }
        }
    }
    let typical = total(&stations);
    Network::new("in turn", closed(draw, classes, 20.0, typical), stations)
}

fn priorities(draw: &mut Draw) -> Network {
    let classes = draw.integer(2, 3);
    let count = draw.integer(1, 4);
    let mut stations = stations(draw, count, classes);
    for (k, station) in stations.iter_mut().enumerate() {
        if k == 0 || chance(draw, 0.4) {
            station.discipline = Discipline::Priority;
            if chance(draw, 0.3) {
                station.speed = Speed::Servers(draw.integer(2, 4));
            }
        }
    }
    let mut population = closed(draw, classes, 20.0, total(&stations));
    for (c, class) in population.iter_mut().enumerate() {
        class.priority = c as i32;
    }
    let mut network = Network::new("priorities", population, stations);
    if chance(draw, 0.3) {
        open_classes(draw, &mut network, 0..1);
    }
    network
}

fn forks(draw: &mut Draw) -> Network {
    let branches = draw.integer(2, 4);
    let others = draw.integer(0, 3);
    let mut stations = stations(draw, branches + others, 1);
    let balanced = chance(draw, 0.5);
    for k in 1..stations.len().min(branches) {
        if balanced {
            let first = stations[0].demands.clone();
            stations[k].demands = first;
        }
    }
    if chance(draw, 0.5) {
        stations.iter_mut().for_each(|s| s.discipline = Discipline::Fcfs);
    }
    let all = total(&stations);
    let mut network = Network::new("forks", closed(draw, 1, 40.0, all), stations);
    let used = network.stations.len().min(branches);
    if used < 2 {
        return forks(draw);
    }
    network.forks = vec![Fork::to_stations("fork", &(0..used).collect::<Vec<_>>())];
    network
}

fn pools(draw: &mut Draw) -> Network {
    let count = draw.integer(1, 4);
    let mut stations = stations(draw, count, 1);
    if chance(draw, 0.3) {
        stations[0].speed = Speed::Servers(draw.integer(2, 4));
    }
    let all = total(&stations);
    let mut network = Network::new("pools", closed(draw, 1, 100.0, all), stations);
    let nested = chance(draw, 0.5);
    let mut left: Vec<f64> = network.stations.iter().map(|s| s.demands[0]).collect();
    let locks = draw.integer(1, 3);
    for index in 0..locks {
        let mut holds: Vec<f64> = left
            .iter()
            .map(|d| match draw.integer(0, 2) {
                0 => 0.0,
                1 => *d,
                _ => d * draw.between(0.1, 0.6),
            })
            .collect();
        if holds.iter().sum::<f64>() == 0.0 {
            holds[0] = 0.5 * left[0];
        }
        left.iter_mut().zip(&holds).for_each(|(l, h)| *l = (*l - h).max(0.0));
        let parent = (nested && index > 0).then(|| index - 1);
        let size = people(draw, 25.0);
        if holds.iter().any(|&h| h > 0.0) {
            network.pools.push(Pool { name: format!("p{index}"), size, parent, holds, calls: 1.0 });
        } else {
            break;
        }
    }
    network
}

/// Makes some classes open, at rates that leave every station below 95 % busy.
fn open_classes(draw: &mut Draw, network: &mut Network, which: std::ops::Range<usize>) {
    let load = draw.between(0.1, 0.95);
    let share = |s: &Station, weights: &[f64]| -> f64 {
        which.clone().map(|c| weights[c] * s.demands[c]).sum::<f64>() / s.speed.limit()
    };
    let weights: Vec<f64> = network.classes.iter().map(|_| decades(draw, 0.2, 1.0)).collect();
    let busiest = network.stations.iter().map(|s| share(s, &weights)).fold(0.0, f64::max);
    // Delays alone never saturate: any rate will do.
    let scale = if busiest > 0.0 { load / busiest } else { 10.0 };
    for c in which {
        let class = &mut network.classes[c];
        let rate = weights[c] * scale;
        if network.stations.iter().any(|s| s.demands[c] > 0.0) {
            *class = Class { priority: class.priority, ..Class::open(&class.name, rate) };
        }
    }
}

fn open(draw: &mut Draw) -> Network {
    let classes = draw.integer(1, 3);
    let count = draw.integer(1, 5);
    let mut stations = stations(draw, count, classes);
    speeds(draw, &mut stations, false);
    if classes == 1 && chance(draw, 0.5) {
        stations.iter_mut().for_each(|s| s.discipline = Discipline::Fcfs);
    }
    let names = (0..classes).map(|c| Class::open(&format!("c{c}"), 1.0)).collect();
    let mut network = Network::new("open", names, stations);
    open_classes(draw, &mut network, 0..classes);
    network
}

fn mixed(draw: &mut Draw) -> Network {
    let classes = draw.integer(2, 3);
    let count = draw.integer(1, 4);
    let mut stations = stations(draw, count, classes);
    speeds(draw, &mut stations, false);
    let typical = total(&stations);
    let mut network = Network::new("mixed", closed(draw, classes, 30.0, typical), stations);
    open_classes(draw, &mut network, 0..1);
    network
}

fn law(draw: &mut Draw) -> Law {
    match draw.integer(0, 4) {
        0 => Law::Constant,
        1 => Law::Histogram(Histogram::new(&[0.0, 1.0, 2.0, 10.0], &[6.0, 3.0, 1.0]).unwrap().0),
        2 => Law::of_cv(draw.between(0.3, 0.9)).unwrap(),
        _ => Law::of_cv(draw.between(1.2, 3.0)).unwrap(),
    }
}

/// Any law, in any order of service, priorities and weights.
fn laws(draw: &mut Draw) -> Network {
    let classes = draw.integer(1, 3);
    let count = draw.integer(1, 3);
    let mut stations = stations(draw, count, classes);
    for station in &mut stations {
        let shape = law(draw);
        *station = station.clone().with_law(&shape);
        station.discipline = match draw.integer(0, 4) {
            0 => Discipline::Ps,
            1 => Discipline::Fcfs,
            2 => Discipline::Priority,
            3 => Discipline::NonPreemptive,
            _ => Discipline::Weighted,
        };
        match station.discipline {
            Discipline::Weighted => {
                station.weights = (0..classes).map(|_| decades(draw, 1.0, 10.0)).collect();
            }
            _ if chance(draw, 0.2) => station.speed = Speed::Servers(2),
            _ => {}
        }
    }
    let typical = total(&stations);
    let mut network = Network::new("laws", closed(draw, classes, 12.0, typical), stations);
    for class in &mut network.classes {
        class.priority = draw.integer(0, 2) as i32;
    }
    if chance(draw, 0.4) {
        open_classes(draw, &mut network, 0..classes);
    }
    network
}

/// Stations with room for few: some lose, or some block.
fn rooms(draw: &mut Draw) -> Network {
    let classes = draw.integer(1, 2);
    let count = draw.integer(1, 4);
    let mut stations = stations(draw, count, classes);
    let blocks = chance(draw, 0.5);
    for (k, station) in stations.iter_mut().enumerate() {
        station.discipline = Discipline::Fcfs;
        if chance(draw, 0.3) {
            station.speed = Speed::Servers(2);
        }
        if chance(draw, 0.3) {
            let shape = law(draw);
            *station = station.clone().with_law(&shape);
        }
        if k + 1 == count || chance(draw, 0.3) {
            let full = if blocks { Full::Block } else { Full::Lose };
            *station = station.clone().with_room(draw.integer(2, 8), full);
        }
    }
    let typical = total(&stations);
    let mut network = Network::new("rooms", closed(draw, classes, 12.0, typical), stations);
    for class in &mut network.classes {
        *class =
            Class::closed(&class.name.clone(), 1 + network.stations.len(), class.think() + 0.1 * typical);
    }
    if !blocks && chance(draw, 0.5) {
        open_classes(draw, &mut network, 0..classes);
    }
    network
}

/// A class that goes by chance and may change its phase.
fn routes(draw: &mut Draw) -> Network {
    let count = draw.integer(1, 4);
    let all = stations(draw, count, 1);
    let mut network = Network::new("routes", closed(draw, 1, 12.0, 3.0 * total(&all)), all);
    let count = network.stations.len();
    let phases = draw.integer(1, 2);
    let service =
        (0..phases).map(|_| network.stations.iter().map(|_| decades(draw, 0.01, 0.2)).collect()).collect();
    let mut hops = vec![Hop { from: None, to: Some((0, 0)), probability: 1.0 }];
    for from in (0..phases).flat_map(|p| (0..count).map(move |k| (p, k))) {
        let weights: Vec<f64> = (0..=phases * count).map(|_| draw.unit()).collect();
        let sum: f64 = weights.iter().sum();
        let to = |i: usize| (i < phases * count).then_some((i / count, i % count));
        let hop = |(i, w): (usize, &f64)| Hop { from: Some(from), to: to(i), probability: w / sum };
        hops.extend(weights.iter().enumerate().map(hop));
    }
    let names = (0..phases).map(|p| format!("phase {p}")).collect();
    network.routings = vec![Routing { class: 0, phases: names, service, hops }];
    apply(&mut network).unwrap();
    if chance(draw, 0.5) {
        network.stations[0].discipline = Discipline::Fcfs;
    }
    if chance(draw, 0.3) {
        open_classes(draw, &mut network, 0..1);
    }
    network
}

/// Forks within forks, branches of several stations, one or two classes, open or closed.
fn nested_forks(draw: &mut Draw) -> Network {
    let classes = draw.integer(1, 2);
    let mut all = Vec::new();
    while all.len() < 5 {
        all = stations(draw, 6, classes);
    }
    if chance(draw, 0.5) {
        all[1].discipline = Discipline::Priority;
    }
    let typical = total(&all);
    let mut network = Network::new("nested", closed(draw, classes, 12.0, typical), all);
    network.forks = vec![
        Fork::to_stations("inner", &[0, 1]),
        Fork {
            name: "outer".into(),
            branches: vec![vec![Part::Fork(0), Part::Station(2)], vec![Part::Station(3)]],
        },
    ];
    if chance(draw, 0.4) {
        open_classes(draw, &mut network, 0..classes);
    }
    network
}

/// Pools of two classes, one within the other, called more than once; sometimes open.
fn shared_pools(draw: &mut Draw) -> Network {
    let count = draw.integer(1, 3);
    let all = stations(draw, count, 2);
    let typical = total(&all);
    let mut network = Network::new("shared", closed(draw, 2, 8.0, typical), all);
    let part = |draw: &mut Draw, s: &Station, share: f64| -> Vec<f64> {
        s.demands.iter().map(|d| d * share * draw.unit()).collect()
    };
    for (index, parent) in [None, Some(0)].into_iter().enumerate() {
        let holds = network.stations.iter().flat_map(|s| part(draw, s, 0.5)).collect();
        let (size, calls) = (draw.integer(1, 3), [1.0, 2.0, 1.5][draw.integer(0, 2)]);
        network.pools.push(Pool { name: format!("p{index}"), size, parent, holds, calls });
    }
    network
}
