//! Reads a queueing network. See `docs/parts/model.md` for the keys.

use super::details::{self, Kind};
use super::node::{Node, Problems, Reader, Value};
use super::what_ifs;
use crate::network::{Class, Discipline, Fork, Load, Network, Part, Pool, Speed, Station};
use crate::whatif::WhatIf;

/// A network and the questions asked about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// The network.
    pub network: Network,
    /// Its `[[what_if]]` entries.
    pub what_ifs: Vec<WhatIf>,
}

const ROOT: &[&str] = &["name", "class", "station", "pool", "fork", "route", "what_if"];
const CLASS: &[&str] = &["name", "population", "think", "rate", "priority", "phases"];
const STATION: &[&str] =
    &["name", "kind", "servers", "rates", "discipline", "demand", "demands", "visits", "service"];
const POOL: &[&str] = &["name", "size", "inside", "stations", "holds", "calls"];
const FORK: &[&str] = &["name", "branches"];

/// Reads a model from TOML, or from JSON when `json`.
///
/// # Errors
/// All problems found, with their lines.
pub fn read_network(text: &str, json: bool) -> Result<Model, Problems> {
    let mut reader = Reader::default();
    let Some(root) = reader.parse(text, json) else { return reader.finish(None) };
    reader.only(&root, "the model", ROOT);
    let mut network = Network { name: reader.text(&root, "name").unwrap_or_default(), ..Network::default() };
    classes(&mut reader, &root, &mut network);
    stations(&mut reader, &root, &mut network);
    pools(&mut reader, &root, &mut network);
    forks(&mut reader, &root, &mut network);
    details::routes(&mut reader, &root, &mut network);
    let what_ifs = what_ifs::read(&mut reader, &root, &network);
    if reader.problems.is_empty() {
        if let Err(error) = network.check() {
            reader.problem(0, error.to_string());
        }
    }
    reader.finish(Some(Model { network, what_ifs }))
}

fn classes(reader: &mut Reader, root: &Node, network: &mut Network) {
    let nodes = reader.tables(root, "class");
    if nodes.is_empty() {
        reader.problem(0, "the model has no class; add [[class]] with a population or a rate");
    }
    for node in &nodes {
        let name = reader.name(node, "this class");
        reader.only(node, &format!("class `{name}`"), CLASS);
        let population = reader.count(node, "population", 0);
        let think = reader.time(node, "think");
        let rate = reader.rate(node, "rate");
        let load = match (node.get("population").is_some(), node.get("rate").is_some()) {
            (true, false) => {
                Load::Closed { population: population.unwrap_or(1), think: think.unwrap_or(0.0) }
            }
            (false, true) => Load::Open { rate: rate.unwrap_or(1.0) },
            _ => {
                let message = format!("class `{name}` needs either a population (closed) or a rate (open)");
                reader.problem(node.line, message);
                Load::Open { rate: 1.0 }
            }
        };
        if node.get("rate").is_some() && node.get("think").is_some() {
            reader.problem(node.line, format!("class `{name}` is open and cannot think; remove `think`"));
        }
        let priority = reader.integer(node, "priority").unwrap_or(0);
        network.classes.push(Class { name, load, priority });
    }
    let names: Vec<String> = network.classes.iter().map(|c| c.name.clone()).collect();
    reader.unique(&nodes, &names, "class");
}

fn stations(reader: &mut Reader, root: &Node, network: &mut Network) {
    let nodes = reader.tables(root, "station");
    if nodes.is_empty() {
        reader.problem(0, "the model has no station; add [[station]] with a demand");
    }
    let classes: Vec<String> = network.classes.iter().map(|c| c.name.clone()).collect();
    for node in &nodes {
        let name = reader.name(node, "this station");
        reader.only(node, &format!("station `{name}`"), &[STATION, details::STATION].concat());
        let speed = speed(reader, node, &name);
        let discipline = discipline(reader, node);
        let visits =
            per_class(reader, node, "visits", &classes, &name, Kind::Visits)
                .unwrap_or(vec![1.0; classes.len()]);
        let demands = demands(reader, node, &classes, &name, &visits);
        // A class that does not come still needs a positive count.
        let visits = visits.iter().map(|v| if *v > 0.0 { *v } else { 1.0 }).collect();
        let station = Station { speed, discipline, visits, ..Station::queue(&name, &demands) };
        network.stations.push(details::add(reader, node, station, &classes));
    }
    let names: Vec<String> = network.stations.iter().map(|s| s.name.clone()).collect();
    reader.unique(&nodes, &names, "station");
}

fn speed(reader: &mut Reader, node: &Node, name: &str) -> Speed {
    let kind = reader.text(node, "kind").map(|text| text.to_ascii_lowercase());
    let servers = reader.count(node, "servers", 1);
    let rates = reader.numbers(node, "rates");
    if let (Some(rates), Some(found)) = (&rates, node.get("rates")) {
        if rates.is_empty() || rates.iter().any(|r| *r <= 0.0) {
            reader.problem(found.line, format!("station `{name}`: rates must be positive, at least one"));
            return Speed::Servers(1);
        }
    }
    let excess = |reader: &mut Reader, key: &str| {
        if let Some(found) = node.get(key) {
            reader.problem(
                found.line,
                format!("station `{name}`: `{key}` does not go with this kind; remove it"),
            );
        }
    };
    match kind.as_deref() {
        Some("delay") => {
            excess(reader, "servers");
            excess(reader, "rates");
            Speed::Delay
        }
        Some("rates") if rates.is_none() => {
            reader.problem(node.line, format!("station `{name}` of kind \"rates\" needs rates = [1.0, ...]"));
            Speed::Servers(1)
        }
        None | Some("queue" | "rates") => match rates {
            Some(rates) => {
                excess(reader, "servers");
                Speed::Rates(rates)
            }
            None => Speed::Servers(servers.unwrap_or(1)),
        },
        Some(other) => {
            let line = node.get("kind").map_or(node.line, |n| n.line);
            reader.problem(line, details::unknown("kind", other, &["queue", "delay", "rates"]));
            Speed::Servers(1)
        }
    }
}

fn discipline(reader: &mut Reader, node: &Node) -> Discipline {
    match reader.text(node, "discipline").map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("ps") => Discipline::Ps,
        Some("fcfs") => Discipline::Fcfs,
        Some("priority") => Discipline::Priority,
        Some("non-preemptive") => Discipline::NonPreemptive,
        Some("weighted") => Discipline::Weighted,
        Some(other) => {
            let line = node.get("discipline").map_or(node.line, |n| n.line);
            let known = ["ps", "fcfs", "priority", "non-preemptive", "weighted"];
            reader.problem(line, details::unknown("discipline", other, &known));
            Discipline::Ps
        }
    }
}

/// Demand per class from `demand`, `demands`, or `visits` x `service`.
fn demands(reader: &mut Reader, node: &Node, classes: &[String], name: &str, visits: &[f64]) -> Vec<f64> {
    let given: Vec<&str> =
        ["demand", "demands", "service"].into_iter().filter(|key| node.get(key).is_some()).collect();
    if given.is_empty() && node.get("histogram").is_some() {
        let mean = details::histogram(reader, node, name).map_or(0.0, |found| found.1);
        return visits.iter().map(|v| v * mean).collect();
    }
    if given.len() != 1 {
        let found = if given.is_empty() { "none".into() } else { given.join(" and ") };
        let message = format!(
            "station `{name}` needs exactly one of demand = \"12 ms\", demands = {{ class = \"12 ms\" }} or service (with visits); found {found}"
        );
        reader.problem(node.line, message);
        return vec![0.0; classes.len()];
    }
    let key = given[0];
    let known = reader.problems.len();
    let times = per_class(reader, node, key, classes, name, Kind::Time).unwrap_or_default();
    if reader.problems.len() == known && times.iter().all(|&time| time == 0.0) {
        let line = node.get(key).map_or(node.line, |n| n.line);
        let message = format!(
            "station `{name}`: its {key} is zero for every class, so nobody comes; give a time above zero, or leave the station out"
        );
        reader.problem(line, message);
    }
    if key == "service" {
        return times.iter().zip(visits).map(|(s, v)| s * v).collect();
    }
    times
}

/// One value for all classes, or a table by class. Those left out do not come, or have the common value.
pub(super) fn per_class(
    reader: &mut Reader,
    node: &Node,
    key: &str,
    classes: &[String],
    station: &str,
    kind: Kind,
) -> Option<Vec<f64>> {
    let found = node.get(key)?;
    let one = |reader: &mut Reader, node: &Node| {
        if key == "service" && !node.entries().is_empty() {
            // By phase: only whether the class comes is asked here.
            return node.entries().iter().map(|(_, time)| reader.time_of(time, key).unwrap_or(0.0)).sum();
        }
        if kind == Kind::Time {
            return reader.time_of(node, key).unwrap_or(0.0);
        }
        match node.value {
            Value::Number(x) if kind.accepts(x) => x,
            _ => {
                let message = format!("station `{station}`: `{key}` must be {}", kind.wanted());
                reader.problem(node.line, message);
                1.0
            }
        }
    };
    if found.entries().is_empty() {
        if let Value::List(items) = &found.value {
            if items.len() == classes.len() {
                return Some(items.iter().map(|n| one(reader, n)).collect());
            }
            let message = format!(
                "station `{station}`: `{key}` lists {} values for {} classes",
                items.len(),
                classes.len()
            );
            reader.problem(found.line, message);
            return Some(vec![0.0; classes.len()]);
        }
        return Some(vec![one(reader, found); classes.len()]);
    }
    let mut values = vec![kind.absent(); classes.len()];
    for (class, value) in found.entries() {
        if let Some(index) = reader.index(value.line, class, "class", classes) {
            values[index] = one(reader, value);
        }
    }
    Some(values)
}

fn pools(reader: &mut Reader, root: &Node, network: &mut Network) {
    let stations: Vec<String> = network.stations.iter().map(|s| s.name.clone()).collect();
    let classes: Vec<String> = network.classes.iter().map(|c| c.name.clone()).collect();
    let nodes = reader.tables(root, "pool");
    let mut names: Vec<String> = Vec::new();
    for node in &nodes {
        let name = reader.name(node, "this pool");
        reader.only(node, &format!("pool `{name}`"), POOL);
        if node.get("size").is_none() {
            reader
                .problem(node.line, format!("pool `{name}` needs size = the number of units (1 is a lock)"));
        }
        let size = reader.count(node, "size", 1).unwrap_or(1);
        let calls = reader.number(node, "calls").unwrap_or(1.0);
        let inside = reader.text(node, "inside");
        let line = node.get("inside").map_or(node.line, |n| n.line);
        let parent =
            inside.and_then(|outer| reader.index(line, &outer, "outer pool (list it first)", &names));
        let encloses = |inner: &&Node| matches!(inner.get("inside").map(|n| &n.value), Some(Value::Text(outer)) if *outer == name);
        let holds = holds(reader, node, network, &classes, &stations);
        if holds.is_none() && !nodes.iter().any(encloses) {
            let message = format!("pool `{name}` is held nowhere; add stations = [\"...\"], or holds");
            reader.problem(node.line, message);
        }
        let holds = holds.unwrap_or(vec![0.0; stations.len() * classes.len()]);
        names.push(name.clone());
        network.pools.push(Pool { name, size, parent, holds, calls });
    }
    reader.unique(&nodes, &names, "pool");
}

/// Seconds by station and class for which a pool is held; `None` where nothing is said of it.
fn holds(
    reader: &mut Reader,
    node: &Node,
    network: &Network,
    classes: &[String],
    stations: &[String],
) -> Option<Vec<f64>> {
    let count = classes.len();
    let mut holds = vec![0.0; stations.len() * count];
    let known = reader.problems.len();
    let table = reader.entries(node, "holds", "{ station = \"12 ms\" }");
    for (station, value) in table {
        let Some(k) = reader.index(value.line, station, "station", stations) else { continue };
        if value.entries().is_empty() {
            let time = reader.time_of(value, "holds").unwrap_or(0.0);
            let comes = |c: usize| if network.stations[k].demands[c] > 0.0 { time } else { 0.0 };
            (0..count).for_each(|c| holds[k * count + c] = comes(c));
        }
        for (class, time) in value.entries() {
            if let Some(c) = reader.index(time.line, class, "class", classes) {
                holds[k * count + c] = reader.time_of(time, "holds").unwrap_or(0.0);
            }
        }
    }
    let whole = reader.texts(node, "stations").unwrap_or_default();
    for (line, station) in &whole {
        let Some(k) = reader.index(*line, station, "station", stations) else { continue };
        for c in 0..count {
            let taken: f64 = network.pools.iter().map(|p| network.held(p, k, c)).sum();
            holds[k * count + c] = (network.stations[k].demands[c] - taken).max(0.0);
        }
    }
    let says_nothing = table.is_empty() && whole.is_empty() && reader.problems.len() == known;
    (!says_nothing).then_some(holds)
}

fn forks(reader: &mut Reader, root: &Node, network: &mut Network) {
    let stations: Vec<String> = network.stations.iter().map(|s| s.name.clone()).collect();
    let mut names: Vec<String> = Vec::new();
    for node in reader.tables(root, "fork") {
        let name = reader.name(node, "this fork");
        reader.only(node, &format!("fork `{name}`"), FORK);
        let known: Vec<String> = stations.iter().chain(&names).cloned().collect();
        let part = |reader: &mut Reader, node: &Node| {
            let Value::Text(name) = &node.value else {
                let message = "a branch is a station, a fork listed before, or a list of these";
                reader.problem(node.line, message);
                return None;
            };
            let index = reader.index(node.line, name, "station or fork listed before", &known)?;
            Some(if index < stations.len() {
                Part::Station(index)
            } else {
                Part::Fork(index - stations.len())
            })
        };
        let mut branches = Vec::new();
        match node.get("branches").map(|n| &n.value) {
            Some(Value::List(items)) => {
                for item in items {
                    branches.push(match &item.value {
                        Value::List(parts) => parts.iter().filter_map(|p| part(reader, p)).collect(),
                        _ => part(reader, item).into_iter().collect(),
                    });
                }
            }
            _ => reader.problem(node.line, format!("fork `{name}` needs branches = [\"a\", [\"b\", \"c\"]]")),
        }
        names.push(name.clone());
        network.forks.push(Fork { name, branches });
    }
}
