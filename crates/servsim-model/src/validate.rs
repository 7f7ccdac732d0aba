//! What a network must satisfy before any solver sees it. The text reader collects all problems of
//! a file; this is the second line, for networks built in code.

use crate::error::ModelError;
use crate::network::{Class, Discipline, Load, Network, Speed, Station};

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
    check_forks(network)
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
    if station.discipline == Discipline::Priority && !matches!(station.speed, Speed::Servers(_)) {
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
        if pool.holds.len() != network.stations.len() || pool.parent.is_some_and(|p| p >= index) {
            return Err(ModelError::invalid(
                format!("pool `{}` is out of order or names unknown stations", pool.name),
                "list an outer pool before the pools inside it",
            ));
        }
    }
    if network.pools.is_empty() {
        return Ok(());
    }
    if network.classes.len() != 1 || !network.classes[0].is_closed() {
        return Err(ModelError::invalid(
            "pools need exactly one class, closed",
            "merge the classes into one, or use the simulator per class",
        ));
    }
    for (k, station) in network.stations.iter().enumerate() {
        let held: f64 = network.pools.iter().map(|pool| pool.holds[k]).sum();
        let excess = held - station.demands[0];
        if excess > 1e-9 * held || network.pools.iter().any(|p| p.holds[k] < 0.0) {
            return Err(ModelError::invalid(
                format!(
                    "station `{}`: pools hold {held} s of service, more than its demand of {} s",
                    station.name, station.demands[0]
                ),
                "the demand is the total; what pools hold is part of it",
            ));
        }
    }
    Ok(())
}

fn check_forks(network: &Network) -> Result<(), ModelError> {
    let mut used = vec![false; network.stations.len()];
    for fork in &network.forks {
        if fork.branches.len() < 2 {
            return Err(ModelError::invalid(
                format!("fork `{}` has fewer than two branches", fork.name),
                "list at least two stations",
            ));
        }
        for &branch in &fork.branches {
            if branch >= used.len() || used[branch] {
                return Err(ModelError::invalid(
                    format!("fork `{}` uses a station twice or an unknown one", fork.name),
                    "each station may be a branch of one fork, once",
                ));
            }
            used[branch] = true;
        }
    }
    if !network.forks.is_empty() && !network.pools.is_empty() {
        return Err(ModelError::invalid(
            "forks and pools in one model are not treated",
            "replace the fork by one station with the mean of the slowest branch, or remove the pools",
        ));
    }
    Ok(())
}
