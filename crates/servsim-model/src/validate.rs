//! What a network must satisfy before any solver sees it. The text reader collects all problems of
//! a file; this is the second line, for networks built in code.

use crate::error::ModelError;
use crate::network::{Class, Discipline, Full, Load, Network, Speed, Station};

/// Checks the whole network; the first problem wins.
///
/// # Errors
/// [`ModelError::Invalid`] or [`ModelError::BadDemand`], naming the place.
pub fn check(network: &Network) -> Result<(), ModelError> {
    if network.classes.is_empty() {
        return Err(ModelError::invalid(
            "the model has no class of customers",
            "add a [[class]] with a population or a rate",
        ));
    }
    if network.stations.is_empty() {
        return Err(ModelError::invalid("the model has no station", "add a [[station]] with a demand"));
    }
    network.classes.iter().try_for_each(check_class)?;
    network.stations.iter().try_for_each(|station| check_station(network, station))?;
    check_work(network)?;
    check_pools(network)?;
    check_forks(network)?;
    check_rooms(network)
}

fn check_class(class: &Class) -> Result<(), ModelError> {
    match class.load {
        Load::Closed { population, .. } if population > 100_000_000 => Err(ModelError::invalid(
            format!("class `{}` has a population of {population}", class.name),
            "use at most 100,000,000 customers",
        )),
        Load::Closed { think, .. } if !think.is_finite() || think < 0.0 => Err(ModelError::invalid(
            format!("class `{}` has a think time of {think} s", class.name),
            "give a think time of zero or more, such as \"12 s\"",
        )),
        Load::Open { rate } if !rate.is_finite() || rate <= 0.0 => Err(ModelError::invalid(
            format!("class `{}` has an arrival rate of {rate} per second", class.name),
            "give a positive rate such as \"12 /s\"",
        )),
        _ => Ok(()),
    }
}

fn check_station(network: &Network, station: &Station) -> Result<(), ModelError> {
    if station.demands.len() != network.classes.len() || station.visits.len() != network.classes.len() {
        return Err(ModelError::invalid(
            format!(
                "station `{}` has {} demands for {} classes",
                station.name,
                station.demands.len(),
                network.classes.len()
            ),
            "give one demand per class; write 0 where a class does not come",
        ));
    }
    for (class, &demand) in network.classes.iter().zip(&station.demands) {
        if !demand.is_finite() || demand < 0.0 {
            let problem = if demand < 0.0 { "negative" } else { "not a number" };
            let (station, class) = (station.name.clone(), class.name.clone());
            return Err(ModelError::BadDemand { station, class, demand, problem });
        }
    }
    let classes = network.classes.len();
    let given = |list: usize| list == 0 || list == classes;
    let positive = station.weights.iter().all(|w| w.is_finite() && *w > 0.0);
    if !given(station.laws.len()) || !given(station.weights.len()) || !positive {
        return Err(ModelError::invalid(
            format!("station `{}` has weights that are not positive, or not one per class", station.name),
            "give one positive weight, and one law of service times, per class",
        ));
    }
    if station.visits.iter().any(|v| !v.is_finite() || *v <= 0.0) {
        return Err(ModelError::invalid(
            format!("station `{}` has a visit count that is not positive", station.name),
            "give a positive number of visits",
        ));
    }
    check_speed(station)
}

fn check_speed(station: &Station) -> Result<(), ModelError> {
    let bad = match &station.speed {
        Speed::Delay => false,
        Speed::Servers(servers) => *servers == 0,
        Speed::Rates(rates) => rates.is_empty() || rates.iter().any(|r| !r.is_finite() || *r <= 0.0),
    };
    if bad {
        return Err(ModelError::invalid(
            format!("station `{}` has no server or a rate that is not positive", station.name),
            "give servers = 1 or more, or a list of positive rates",
        ));
    }
    let ranked = station.discipline.is_ranked();
    if station.discipline == Discipline::Weighted && !station.speed.is_single() {
        return Err(ModelError::invalid(
            format!("station `{}` shares by weight and is not one server", station.name),
            "give servers = 1: who gets more than one of several servers is not said by weights",
        ));
    }
    if ranked && !matches!(station.speed, Speed::Servers(_)) {
        return Err(ModelError::invalid(
            format!("station `{}` has priorities and no servers to give by them", station.name),
            "give servers = 1 or more, or discipline = \"ps\"",
        ));
    }
    Ok(())
}

/// Every class must need service or think somewhere, or its throughput would be infinite.
fn check_work(network: &Network) -> Result<(), ModelError> {
    for (index, class) in network.classes.iter().enumerate() {
        let demand = network.total_demand(index);
        if demand > 0.0 || (class.is_closed() && class.think() > 0.0) {
            continue;
        }
        let station = network.stations[0].name.clone();
        return Err(ModelError::BadDemand {
            station,
            class: class.name.clone(),
            demand: 0.0,
            problem: "zero, as everywhere else, so the throughput has no bound",
        });
    }
    Ok(())
}

fn check_pools(network: &Network) -> Result<(), ModelError> {
    for (index, pool) in network.pools.iter().enumerate() {
        if pool.size == 0 {
            return Err(ModelError::invalid(
                format!("pool `{}` has size 0, so nothing could ever pass", pool.name),
                "give it at least one unit",
            ));
        }
        if !pool.calls.is_finite() || pool.calls <= 0.0 {
            return Err(ModelError::invalid(
                format!("pool `{}` is called {} times", pool.name, pool.calls),
                "give a positive number of calls per request",
            ));
        }
        if pool.holds.len() != network.stations.len() * network.classes.len()
            || pool.parent.is_some_and(|p| p >= index)
        {
            return Err(ModelError::invalid(
                format!("pool `{}` is out of order or names unknown stations", pool.name),
                "list an outer pool before the pools inside it",
            ));
        }
    }
    if network.pools.is_empty() {
        return Ok(());
    }
    if let Some(routing) = network.routings.first() {
        return Err(ModelError::invalid(
            format!("class `{}` has routes in a model with pools", network.classes[routing.class].name),
            "give its demands instead of routes: where on its way a request asks for a pool is not said",
        ));
    }
    for (k, station) in network.stations.iter().enumerate() {
        for (c, class) in network.classes.iter().enumerate() {
            let held: f64 = network.pools.iter().map(|pool| network.held(pool, k, c)).sum();
            let excess = held - station.demands[c];
            if excess > 1e-9 * held || network.pools.iter().any(|p| network.held(p, k, c) < 0.0) {
                return Err(ModelError::invalid(
                    format!(
                        "station `{}`, class `{}`: pools hold {held} s of service, more than its demand of {} s",
                        station.name, class.name, station.demands[c]
                    ),
                    "the demand is the total; what pools hold is part of it",
                ));
            }
        }
    }
    Ok(())
}

fn check_forks(network: &Network) -> Result<(), ModelError> {
    let mut used = vec![false; network.stations.len()];
    let mut within = vec![false; network.forks.len()];
    for (index, fork) in network.forks.iter().enumerate() {
        if fork.branches.len() < 2 || fork.branches.iter().any(Vec::is_empty) {
            return Err(ModelError::invalid(
                format!("fork `{}` has fewer than two branches, or an empty one", fork.name),
                "list at least two branches, each a station, a fork listed before, or a list of these",
            ));
        }
        for station in fork.stations() {
            if station >= used.len() || used[station] {
                return Err(ModelError::invalid(
                    format!("fork `{}` uses a station twice or an unknown one", fork.name),
                    "each station may be in a branch of one fork, once",
                ));
            }
            used[station] = true;
        }
        for inner in fork.inner() {
            if inner >= index || within[inner] {
                return Err(ModelError::invalid(
                    format!(
                        "fork `{}` holds a fork that is not listed before it, or is held twice",
                        fork.name
                    ),
                    "list inner forks first, each in one branch",
                ));
            }
            within[inner] = true;
        }
    }
    let alone = network.pools.is_empty() && network.routings.is_empty();
    if !alone && !network.forks.is_empty() {
        return Err(ModelError::invalid(
            "forks are not treated together with pools or routes",
            "replace the fork by one station with the mean of the slowest branch, or remove the others",
        ));
    }
    Ok(())
}

/// Rooms: combinations whose meaning is not settled are refused. Circles that block are looked for by the simulator.
fn check_rooms(network: &Network) -> Result<(), ModelError> {
    let Some(first) = network.stations.iter().find(|s| s.room.is_some()) else { return Ok(()) };
    if network.stations.iter().any(|s| s.room.is_some_and(|room| room.most == 0)) {
        return Err(ModelError::invalid(
            format!("station `{}` has room for nobody", first.name),
            "give a capacity of at least 1, those in service included",
        ));
    }
    if !network.pools.is_empty() || !network.forks.is_empty() {
        return Err(ModelError::invalid(
            format!("station `{}` has a capacity in a model with pools or forks", first.name),
            "remove one of them: whether a request that is lost or blocked gives back what it holds is not said",
        ));
    }
    let blocks = |s: &Station| s.room.is_some_and(|room| room.full == Full::Block);
    if network.stations.iter().any(blocks) {
        let shared = |s: &&Station| s.is_used() && s.speed != Speed::Delay && !s.in_turn();
        if let Some(station) = network.stations.iter().find(shared) {
            return Err(ModelError::invalid(
                format!("station `{}` is shared in a model that blocks", station.name),
                "set discipline = \"fcfs\": a blocked request keeps the server it has, and one that is shared has none",
            ));
        }
        let ranked = |s: &&Station| s.discipline == Discipline::Priority;
        if let Some(station) = network.stations.iter().find(ranked) {
            return Err(ModelError::invalid(
                format!("station `{}` interrupts in a model that blocks", station.name),
                "set discipline = \"non-preemptive\" or \"fcfs\"",
            ));
        }
    }
    let thinks = |c: usize| network.classes[c].think() > 0.0 || !network.classes[c].is_closed();
    for station in network.stations.iter().filter(|s| s.room.is_some_and(|r| r.full == Full::Lose)) {
        if let Some(c) = (0..network.classes.len()).find(|&c| station.demands[c] > 0.0 && !thinks(c)) {
            return Err(ModelError::invalid(
                format!(
                    "class `{}` is lost at `{}` and comes again at once",
                    network.classes[c].name, station.name
                ),
                "give it a think time",
            ));
        }
    }
    Ok(())
}
