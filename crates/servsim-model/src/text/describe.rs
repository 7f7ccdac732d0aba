//! A network written back as the JSON that [`super::read_network`] reads, in seconds: what a caller that takes a text
//! apart or changes it needs. Routes keep their service times; other classes have demands and visits.

use crate::network::{Discipline, Fork, Full, Load, Network, Part, Pool, Speed, Station};
use crate::routing::Routing;
use crate::service::Law;
use serde_json::{json, Map, Value};

/// The description of a network.
pub fn describe(network: &Network) -> Value {
    json!({
        "name": network.name,
        "class": (0..network.classes.len()).map(|c| class(network, c)).collect::<Vec<_>>(),
        "station": (0..network.stations.len()).map(|k| station(network, k)).collect::<Vec<_>>(),
        "pool": network.pools.iter().map(|p| pool(network, p)).collect::<Vec<_>>(),
        "fork": network.forks.iter().map(|f| fork(network, f)).collect::<Vec<_>>(),
        "route": network.routings.iter().flat_map(|r| routes(network, r)).collect::<Vec<_>>(),
    })
}

fn class(network: &Network, index: usize) -> Value {
    let class = &network.classes[index];
    let mut entry = match class.load {
        Load::Closed { population, think } => {
            json!({"name": class.name, "population": population, "think": think})
        }
        Load::Open { rate } => json!({"name": class.name, "rate": rate}),
    };
    entry["priority"] = json!(class.priority);
    if let Some(routing) = network.routing(index).filter(|r| r.phases.len() > 1) {
        entry["phases"] = json!(routing.phases);
    }
    entry
}

/// A table of values by class, of those that come.
fn by_class(network: &Network, station: &Station, value: impl Fn(usize) -> Value) -> Value {
    let coming = (0..network.classes.len()).filter(|&c| station.demands[c] > 0.0);
    Value::Object(coming.map(|c| (network.classes[c].name.clone(), value(c))).collect::<Map<_, _>>())
}

fn station(network: &Network, index: usize) -> Value {
    let station = &network.stations[index];
    let discipline = match station.discipline {
        Discipline::Ps => "ps",
        Discipline::Fcfs => "fcfs",
        Discipline::Priority => "priority",
        Discipline::NonPreemptive => "non-preemptive",
        Discipline::Weighted => "weighted",
    };
    let mut entry = json!({"name": station.name, "discipline": discipline});
    let plain = |c: usize| network.routing(c).is_none();
    let unrouted = by_class(network, station, |c| if plain(c) { json!(station.visits[c]) } else { json!(1) });
    if network.routings.is_empty() {
        entry["demands"] = by_class(network, station, |c| json!(station.demands[c]));
    } else {
        entry["service"] = by_class(network, station, |c| match network.routing(c) {
            None => json!(station.demands[c] / station.visits[c]),
            Some(routing) => service(routing, index),
        });
    }
    entry["visits"] = unrouted;
    match &station.speed {
        Speed::Delay => entry["kind"] = json!("delay"),
        Speed::Servers(servers) => entry["servers"] = json!(servers),
        Speed::Rates(rates) => {
            (entry["kind"], entry["rates"]) = (json!("rates"), json!(rates));
        }
    }
    law(network, station, &mut entry);
    if !station.weights.is_empty() {
        entry["weights"] = by_class(network, station, |c| json!(station.weight(c)));
    }
    if let Some(room) = station.room {
        entry["capacity"] = json!(room.most);
        entry["when_full"] = json!(if room.full == Full::Lose { "lose" } else { "block" });
    }
    entry
}

/// Time per visit: one, or by phase where there are several.
fn service(routing: &Routing, station: usize) -> Value {
    if routing.phases.len() == 1 {
        return json!(routing.service[0][station]);
    }
    let times = routing.phases.iter().zip(&routing.service).filter(|(_, row)| row[station] > 0.0);
    Value::Object(times.map(|(phase, row)| (phase.clone(), json!(row[station]))).collect::<Map<_, _>>())
}

/// How the service times of a station are spread, where that is not exponentially.
fn law(network: &Network, station: &Station, entry: &mut Value) {
    let Some(first) = station.laws.first() else { return };
    let alike = station.laws.iter().all(|other| other == first);
    match first {
        Law::Phases(phases) if alike => {
            entry["phases"] = json!({"start": phases.start, "means": phases.means, "next": phases.next});
        }
        Law::Histogram(histogram) if alike => {
            let (borders, counts) = histogram.bins_and_weights();
            entry["histogram"] = json!({"borders": borders, "counts": counts});
        }
        _ => entry["cv"] = by_class(network, station, |c| json!(station.law(c).square_cv().sqrt())),
    }
}

fn pool(network: &Network, pool: &Pool) -> Value {
    let held = |k: usize| {
        let here = (0..network.classes.len()).filter(move |&c| network.held(pool, k, c) > 0.0);
        let times = here.map(move |c| (network.classes[c].name.clone(), json!(network.held(pool, k, c))));
        times.collect::<Map<_, _>>()
    };
    let stations = (0..network.stations.len()).map(|k| (network.stations[k].name.clone(), held(k)));
    let holds = stations.filter(|(_, held)| !held.is_empty()).map(|(k, held)| (k, Value::Object(held)));
    let holds = Value::Object(holds.collect::<Map<_, _>>());
    let mut entry = json!({"name": pool.name, "size": pool.size, "holds": holds, "calls": pool.calls});
    if let Some(parent) = pool.parent {
        entry["inside"] = json!(network.pools[parent].name);
    }
    entry
}

fn fork(network: &Network, fork: &Fork) -> Value {
    let name = |part: &Part| match *part {
        Part::Station(k) => network.stations[k].name.clone(),
        Part::Fork(f) => network.forks[f].name.clone(),
    };
    let branches: Vec<Vec<String>> = fork.branches.iter().map(|b| b.iter().map(name).collect()).collect();
    json!({"name": fork.name, "branches": branches})
}

/// One entry per place and phase after it, in the order of the matrix.
fn routes(network: &Network, routing: &Routing) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    for hop in &routing.hops {
        let before = hop.from.map_or(0, |from| from.0);
        let after = hop.to.map_or(before, |to| to.0);
        let from = hop.from.map_or("start", |from| &network.stations[from.1].name);
        let mut entry = json!({"class": network.classes[routing.class].name, "from": from});
        if routing.phases.len() > 1 {
            entry["phase"] = json!(routing.phases[before]);
        }
        if after != before {
            entry["becomes"] = json!(routing.phases[after]);
        }
        let same = |row: &Value| ["from", "phase", "becomes"].iter().all(|key| row[*key] == entry[*key]);
        let at = rows.iter().position(same).unwrap_or_else(|| {
            rows.push(entry.clone());
            rows.len() - 1
        });
        let to = hop.to.map_or("end", |to| &network.stations[to.1].name);
        rows[at]["to"][to] = json!(hop.probability);
    }
    rows
}
