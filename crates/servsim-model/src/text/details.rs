//! What a station may say beside its speed and demands: law of its service times, weights, room; and the routes of
//! classes that go by chance.

use super::network::per_class;
use super::node::{nearest, Node, Reader, Value};
use crate::network::{Discipline, Full, Network, Room, Station};
use crate::routing::{Hop, Routing, Stage};
use crate::service::{Histogram, Law, Phases};

/// Keys of a station that are read here.
pub(super) const STATION: &[&str] = &["capacity", "when_full", "cv", "phases", "histogram", "weights"];
const ROUTE: &[&str] = &["class", "phase", "from", "to", "becomes"];

/// The station with its law, weights and room.
pub(super) fn add(reader: &mut Reader, node: &Node, mut station: Station, classes: &[String]) -> Station {
    let name = station.name.clone();
    let laws: Vec<&str> =
        ["cv", "phases", "histogram"].into_iter().filter(|k| node.get(k).is_some()).collect();
    if laws.len() > 1 {
        let both = laws.join(" and ");
        reader.problem(
            node.line,
            format!("station `{name}` gives {both}; one of them says how its times are spread"),
        );
    }
    if node.get("cv").is_some() {
        let each = per_class(reader, node, "cv", classes, &name, Kind::Spread).unwrap_or_default();
        let law = |cv: &f64| Law::of_cv(*cv).unwrap_or_default();
        station.laws = each.iter().map(law).collect();
    } else if let Some(found) = node.get("phases") {
        reader.only(found, "phases", &["start", "means", "next"]);
        let start = reader.numbers(found, "start").unwrap_or_default();
        let means = reader.numbers(found, "means").unwrap_or_default();
        let next = reader.rows(found, "next").unwrap_or(vec![vec![0.0; means.len()]; means.len()]);
        match Phases::new(start, means, next) {
            Ok(law) => station = station.with_law(&Law::Phases(law)),
            Err(error) => reader.problem(found.line, format!("station `{name}`: {error}")),
        }
    } else if let Some((law, _)) = histogram(reader, node, &name) {
        station = station.with_law(&Law::Histogram(law));
    }
    if node.get("weights").is_some() {
        station.weights =
            per_class(reader, node, "weights", classes, &name, Kind::Weight).unwrap_or_default();
        if station.discipline != Discipline::Weighted {
            let message =
                format!("station `{name}` has weights that nothing goes by; set discipline = \"weighted\"");
            reader.problem(node.line, message);
        }
    }
    station.room = room(reader, node, &name);
    station
}

/// A value per class that is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Time,
    Visits,
    Weight,
    Spread,
}

impl Kind {
    /// The number, if it is one that may stand here.
    pub(super) fn accepts(self, number: f64) -> bool {
        match self {
            Self::Spread => Law::of_cv(number).is_ok(),
            Self::Time | Self::Visits | Self::Weight => number.is_finite() && number > 0.0,
        }
    }

    /// Of a class that is not named.
    pub(super) fn absent(self) -> f64 {
        match self {
            Self::Time | Self::Visits => 0.0,
            Self::Weight | Self::Spread => 1.0,
        }
    }

    pub(super) fn wanted(self) -> &'static str {
        match self {
            Self::Spread => "0 (constant times), or a number from 0.1 to 100",
            _ => "a positive number",
        }
    }
}

/// The histogram of a station, and its mean in seconds.
pub(super) fn histogram(reader: &mut Reader, node: &Node, name: &str) -> Option<(Histogram, f64)> {
    let found = node.get("histogram")?;
    reader.only(found, "histogram", &["borders", "counts"]);
    let counts = reader.numbers(found, "counts").unwrap_or_default();
    let borders = match found.get("borders").map(|n| &n.value) {
        Some(Value::List(items)) => items.iter().filter_map(|n| reader.time_of(n, "borders")).collect(),
        _ => Vec::new(),
    };
    Histogram::new(&borders, &counts)
        .map_err(|error| reader.problem(found.line, format!("station `{name}`: {error}")))
        .ok()
}

fn room(reader: &mut Reader, node: &Node, name: &str) -> Option<Room> {
    let capacity = reader.count(node, "capacity", 1);
    let when = reader.text(node, "when_full");
    if let (None, Some(found)) = (capacity, node.get("when_full")) {
        reader
            .problem(found.line, format!("station `{name}` is never full; add capacity = the most it takes"));
    }
    let full = match when.as_deref() {
        Some("lose") => Full::Lose,
        Some("block") => Full::Block,
        other => {
            if let (Some(_), line) = (capacity, node.get("when_full").map_or(node.line, |n| n.line)) {
                let found = other.map_or(String::new(), |o| format!(", not \"{o}\""));
                let message =
                    format!("station `{name}` has a capacity: say when_full = \"lose\" or \"block\"{found}");
                reader.problem(line, message);
            }
            Full::Lose
        }
    };
    capacity.map(|most| Room { most, full })
}

/// Reads `[[route]]` and puts what follows from them into the stations.
pub(super) fn routes(reader: &mut Reader, root: &Node, network: &mut Network) {
    let nodes = reader.tables(root, "route");
    let (classes, stations) = (reader.tables(root, "class"), reader.tables(root, "station"));
    for (c, class) in classes.iter().enumerate() {
        let phases: Vec<String> = reader.texts(class, "phases").map_or_else(
            || vec![network.classes[c].name.clone()],
            |all| all.into_iter().map(|(_, name)| name).collect(),
        );
        let own = |node: &&&Node| match node.get("class").map(|n| &n.value) {
            Some(Value::Text(name)) => *name == network.classes[c].name,
            _ => network.classes.len() == 1,
        };
        let mine: Vec<&Node> = nodes.iter().filter(own).copied().collect();
        if mine.is_empty() {
            if class.get("phases").is_some() {
                let name = &network.classes[c].name;
                reader.problem(
                    class.line,
                    format!("class `{name}` has phases and no [[route]] that leads to them"),
                );
            }
            no_phases(reader, &stations, &network.classes[c].name);
            continue;
        }
        let service = service(reader, &stations, network, c, &phases);
        let hops = mine.iter().flat_map(|node| hops(reader, node, network, &phases)).collect();
        network.routings.push(Routing { class: c, phases, service, hops });
    }
    let names: Vec<String> = network.classes.iter().map(|class| class.name.clone()).collect();
    for node in nodes {
        reader.only(node, "this route", ROUTE);
        match reader.text(node, "class") {
            Some(name) => drop(reader.index(node.line, &name, "class", &names)),
            None if names.len() > 1 => reader.problem(node.line, "this route says no class"),
            None => {}
        }
    }
    if reader.problems.is_empty() {
        if let Err(error) = crate::routing::apply(network) {
            reader.problem(0, error.to_string());
        }
    }
}

/// A class without routes has one service time at a station.
fn no_phases(reader: &mut Reader, stations: &[&Node], name: &str) {
    let own = |station: &&Node| station.get("service").and_then(|found| found.get(name)).cloned();
    for found in stations.iter().filter_map(own).filter(|found| !found.entries().is_empty()) {
        let message = format!("class `{name}` has no [[route]], so no phases: give one `service` time");
        reader.problem(found.line, message);
    }
}

/// Service time per visit of a class by phase and station.
fn service(
    reader: &mut Reader,
    stations: &[&Node],
    network: &Network,
    class: usize,
    phases: &[String],
) -> Vec<Vec<f64>> {
    let mut times = vec![vec![0.0; stations.len()]; phases.len()];
    let name = &network.classes[class].name;
    for (k, station) in stations.iter().enumerate() {
        if network.stations[k].demands[class] == 0.0 {
            continue;
        }
        let Some(found) = station.get("service") else {
            if station.get("histogram").is_none() {
                let message = format!("class `{name}` goes by routes: give station `{}` a service time per visit (`service`) instead of a demand", network.stations[k].name);
                reader.problem(station.line, message);
            } else {
                times.iter_mut().for_each(|row| row[k] = network.stations[k].demands[class]);
            }
            continue;
        };
        let own = found.get(name).unwrap_or(found);
        if own.entries().is_empty() {
            let visits = network.stations[k].visits[class];
            times.iter_mut().for_each(|row| row[k] = network.stations[k].demands[class] / visits);
            continue;
        }
        for (phase, value) in own.entries() {
            if let Some(p) = reader.index(value.line, phase, "phase", phases) {
                times[p][k] = reader.time_of(value, "service").unwrap_or(0.0);
            }
        }
    }
    times
}

fn hops(reader: &mut Reader, node: &Node, network: &Network, phases: &[String]) -> Vec<Hop> {
    let stations: Vec<String> = network.stations.iter().map(|s| s.name.clone()).collect();
    let phase = |reader: &mut Reader, key: &str| {
        let name = reader.text(node, key)?;
        reader.index(node.line, &name, "phase", phases)
    };
    let before = phase(reader, "phase").unwrap_or(0);
    let after = phase(reader, "becomes").unwrap_or(before);
    let known = |end: &str| -> Vec<String> { stations.iter().cloned().chain([end.to_string()]).collect() };
    let place =
        |reader: &mut Reader, line: usize, name: &str, phase: usize, end: &str| -> Option<Option<Stage>> {
            let all = known(end);
            let index = reader.index(line, name, "place", &all)?;
            Some((index < stations.len()).then_some((phase, index)))
        };
    let Some(from) = reader.text(node, "from") else {
        reader.problem(node.line, "this route has no `from`; name a station, or \"start\"");
        return Vec::new();
    };
    let Some(from) = place(reader, node.line, &from, before, "start") else { return Vec::new() };
    let example = "{ station = 0.4, end = 0.6 }";
    let to = reader.entries(node, "to", example);
    // What is no table has been said.
    if to.is_empty() && node.get("to").is_none_or(|found| matches!(found.value, Value::Table(_))) {
        reader.problem(node.line, format!("this route leads nowhere; write for example to = {example}"));
    }
    let mut all = Vec::new();
    for (name, value) in to {
        let Some(to) = place(reader, value.line, name, after, "end") else { continue };
        match value.value {
            Value::Number(probability) if (0.0..=1.0).contains(&probability) => {
                all.push(Hop { from, to, probability });
            }
            _ => reader.problem(value.line, format!("`to.{name}` must be a probability from 0 to 1")),
        }
    }
    all
}

/// The nearest of these names, as a hint.
pub(super) fn unknown(kind: &str, found: &str, known: &[&str]) -> String {
    let hint = nearest(found, known.iter().copied());
    format!("unknown {kind} `{found}`{hint}; accepted: {}", known.join(", "))
}
