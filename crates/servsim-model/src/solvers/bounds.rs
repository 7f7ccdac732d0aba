//! Bounds that hold without solving: asymptotic (Muntz and Wong 1974) for every class, balanced-job
//! (Zahorjan, Sevcik, Eager and Galler, CACM 25(2), 1982) for one closed class with think time.
//!
//! Stations with other speeds enter each side by the monotonicity of product-form networks: on the
//! optimistic side as a delay with the station's best speed per customer, on the pessimistic side
//! as a single server at its slowest speed.
//!
//! Pools and forks: a pool lets no more through than its units over the shortest time that one is held (Little's law), a
//! fork takes at least as long as its longest branch. Alone in the system, a class is served somewhere whenever somebody is
//! there, whatever waits for what: as little as one request at a time is its lower bound.

use crate::error::ModelError;
use crate::network::{Discipline, Fork, Load, Network, Part, Speed, Station};
use crate::solvers::mixed::asked_of_ranked;
use serde::Serialize;

/// Lower and upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// Bounds of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassBounds {
    /// Class name.
    pub name: String,
    /// Asymptotic bounds on throughput, per second.
    pub throughput: Range,
    /// Balanced-job bounds on throughput (one closed class only).
    pub balanced: Option<Range>,
    /// Bounds on the mean response time, seconds, from the tightest throughput bounds.
    pub response: Range,
    /// The station or pool that limits the class.
    pub bottleneck: String,
    /// Population at which the asymptotes cross; `None` for an open class.
    pub knee: Option<f64>,
}

/// Best speed per customer present: what an optimist may assume without queueing.
fn best_per_customer(speed: &Speed, population: usize) -> f64 {
    match speed {
        Speed::Delay | Speed::Servers(_) => 1.0,
        Speed::Rates(_) => (1..=population.max(1)).map(|n| speed.at(n) / n as f64).fold(0.0, f64::max),
    }
}

fn slowest(speed: &Speed, population: usize) -> f64 {
    match speed {
        Speed::Rates(_) => (1..=population.max(1)).map(|n| speed.at(n)).fold(f64::INFINITY, f64::min),
        _ => 1.0,
    }
}

/// Sums over stations that every bound needs, for one class.
struct Sums {
    /// Shortest response time, nobody waiting.
    optimistic: f64,
    pessimistic: f64,
    pessimistic_max: f64,
    delays: f64,
    single: f64,
    single_count: f64,
    limit: f64,
    bottleneck: String,
}

fn sums(network: &Network, class: usize) -> Sums {
    let population = network.population();
    let mut sums = Sums {
        optimistic: shortest(network, class),
        pessimistic: 0.0,
        pessimistic_max: 0.0,
        delays: 0.0,
        single: 0.0,
        single_count: 0.0,
        limit: f64::INFINITY,
        bottleneck: String::new(),
    };
    for station in network.stations.iter().filter(|s| s.demands[class] > 0.0) {
        let demand = station.demands[class];
        let limit = remaining(network, station) / demand;
        if limit < sums.limit {
            sums.limit = limit;
            sums.bottleneck.clone_from(&station.name);
        }
        match station.speed {
            Speed::Delay => sums.delays += demand,
            Speed::Servers(1) => {
                sums.single += demand;
                sums.single_count += 1.0;
            }
            _ => {}
        }
        if station.speed != Speed::Delay {
            let slow = demand / slowest(&station.speed, population);
            sums.pessimistic += slow;
            sums.pessimistic_max = sums.pessimistic_max.max(slow);
        }
    }
    for (index, pool) in network.pools.iter().enumerate() {
        let limit = pool_limit(network, index, class);
        if limit < sums.limit {
            sums.limit = limit;
            sums.bottleneck.clone_from(&pool.name);
        }
    }
    sums
}

/// Shortest mean time in which a station serves a demand, seconds both.
fn shortest_stay(network: &Network, station: usize, demand: f64) -> f64 {
    demand / best_per_customer(&network.stations[station].speed, network.population())
}

/// Shortest mean response time of a class, nobody waiting, seconds: what it needs of stations one after the other, and
/// the longest branch of each fork.
fn shortest(network: &Network, class: usize) -> f64 {
    let forked: Vec<usize> = network.forks.iter().flat_map(Fork::stations).collect();
    let inner: Vec<usize> = network.forks.iter().flat_map(Fork::inner).collect();
    let alone = (0..network.stations.len()).filter(|k| !forked.contains(k));
    let stay = |k: usize| shortest_stay(network, k, network.stations[k].demands[class]);
    let outer = (0..network.forks.len()).filter(|f| !inner.contains(f));
    alone.map(stay).sum::<f64>() + outer.map(|f| shortest_fork(network, f, class)).sum::<f64>()
}

fn shortest_fork(network: &Network, fork: usize, class: usize) -> f64 {
    let part = |part: &Part| match *part {
        Part::Station(k) => shortest_stay(network, k, network.stations[k].demands[class]),
        Part::Fork(inner) => shortest_fork(network, inner, class),
    };
    network.forks[fork].branches.iter().map(|branch| branch.iter().map(part).sum()).fold(0.0, f64::max)
}

/// Shortest mean time that a request holds a unit of a pool, pools within included, seconds.
fn shortest_hold(network: &Network, pool: usize, class: usize) -> f64 {
    let own = |k| shortest_stay(network, k, network.held(&network.pools[pool], k, class));
    let within = (0..network.pools.len()).filter(|&p| network.pools[p].parent == Some(pool));
    (0..network.stations.len()).map(own).sum::<f64>()
        + within.map(|p| shortest_hold(network, p, class)).sum::<f64>()
}

/// Requests per second of a class that a pool lets through at most.
fn pool_limit(network: &Network, pool: usize, class: usize) -> f64 {
    network.pools[pool].size as f64 / shortest_hold(network, pool, class)
}

/// Longest mean response time of a class that is alone in the system, seconds. Whenever somebody is neither thinking nor at
/// a delay that nobody waits for, some station works at its slowest speed at least: who waits for a unit of a pool or for
/// another branch waits for somebody who is served.
fn longest_alone(network: &Network, class: usize) -> f64 {
    let population = network.population();
    let awaited = |k: usize| {
        network.forks.iter().any(|fork| fork.stations().any(|s| s == k))
            || network.pools.iter().any(|pool| network.held(pool, k, class) > 0.0)
    };
    let of = |(k, station): (usize, &Station)| match station.speed {
        Speed::Delay if !awaited(k) => station.demands[class],
        _ => population as f64 * station.demands[class] / slowest(&station.speed, population),
    };
    network.stations.iter().enumerate().map(of).sum()
}

/// True where no finite wait follows from demands alone: a class meets others that are served before it, however many
/// come, or services whose remaining time is longer than a whole one.
fn gives_way(network: &Network, class: usize) -> bool {
    let uncertain = |s: &Station| {
        // What is met in service may have longer left than a whole service, and weights and lines out of order favour.
        s.demands[class] > 0.0
            && (matches!(s.discipline, Discipline::Weighted | Discipline::NonPreemptive)
                || (s.in_turn() && s.is_general()))
    };
    if network.stations.iter().any(uncertain) {
        return true;
    }
    let own = network.classes[class].priority;
    let first = |s: &Station, c: usize| s.demands[c] > 0.0 && network.classes[c].priority > own;
    let ranked = |s: &&Station| s.discipline == Discipline::Priority && s.demands[class] > 0.0;
    network.stations.iter().filter(ranked).any(|s| (0..network.classes.len()).any(|c| first(s, c)))
}

/// The longest mean time in all visits to queues, seconds. Where service is shared, everyone else is there all the
/// time; elsewhere everyone is there and served first, with times of their own.
fn longest_waits(network: &Network, class: usize) -> f64 {
    let everyone = network.population();
    let people = |c: usize| match network.classes[c].load {
        Load::Closed { population, .. } => population as f64,
        Load::Open { .. } => 0.0,
    };
    let ahead = |s: &Station| -> f64 {
        (0..network.classes.len())
            .filter(|&c| s.demands[c] > 0.0)
            .map(|c| people(c) * s.demands[c] / s.visits[c])
            .sum()
    };
    let of = |s: &Station| {
        let work = match s.discipline {
            Discipline::Ps | Discipline::Weighted => everyone as f64 * s.demands[class],
            Discipline::Fcfs | Discipline::Priority | Discipline::NonPreemptive => s.visits[class] * ahead(s),
        };
        work / slowest(&s.speed, everyone)
    };
    network.stations.iter().filter(|s| s.speed != Speed::Delay && s.demands[class] > 0.0).map(of).sum()
}

/// The rate at which requests of a class come: of an open class as stated, of a closed one at most.
fn greatest_rate(network: &Network, class: usize) -> f64 {
    match network.classes[class].load {
        Load::Open { rate } => rate,
        Load::Closed { population, think } => population as f64 / (think + shortest(network, class)),
    }
}

/// Whether an open class keeps up whatever the closed classes do that are served before it: these leave it enough of
/// every station even if they never wait. Whether there are units enough of a pool, demands alone do not tell.
fn keeps_up(network: &Network, class: usize) -> bool {
    let holds = |pool| shortest_hold(network, pool, class) > 0.0;
    !(0..network.pools.len()).any(holds)
        && asked_of_ranked(network, class, |c| greatest_rate(network, c)).all(|(_, share)| share < 1.0)
}

/// Capacity that open classes leave: those that are sure to keep up, for the others may bring less than comes.
fn remaining(network: &Network, station: &Station) -> f64 {
    let open: f64 = network
        .open()
        .into_iter()
        .filter(|&c| station.demands[c] > 0.0 && keeps_up(network, c))
        .map(|c| greatest_rate(network, c) * station.demands[c])
        .sum();
    station.speed.capacity(network.population().max(1 << 20)) - open
}

/// Bounds of every class.
///
/// # Errors
/// [`ModelError::Unstable`] when open load alone exceeds a capacity; [`ModelError::Unsupported`]
/// for stations of finite capacity, whose losses and blocking these bounds do not cover.
pub fn bounds(network: &Network) -> Result<Vec<ClassBounds>, ModelError> {
    network.check()?;
    super::mixed::check_stability(network)?;
    if let Some(station) = network.stations.iter().find(|s| s.room.is_some()) {
        let remedy = "solve it with `auto`, or remove the limit";
        return Err(ModelError::unsupported("bounds", "finite capacity", &station.name, remedy));
    }
    Ok((0..network.classes.len()).map(|c| class_bounds(network, c)).collect())
}

fn class_bounds(network: &Network, class: usize) -> ClassBounds {
    let sums = sums(network, class);
    let name = network.classes[class].name.clone();
    let Load::Closed { population, think } = network.classes[class].load else {
        let Load::Open { rate } = network.classes[class].load else { unreachable!("two kinds of load") };
        return ClassBounds {
            name,
            throughput: Range {
                low: if keeps_up(network, class) { rate } else { 0.0 },
                high: (0..network.pools.len()).map(|p| pool_limit(network, p, class)).fold(rate, f64::min),
            },
            balanced: None,
            response: Range { low: sums.optimistic, high: f64::INFINITY },
            bottleneck: sums.bottleneck,
            knee: None,
        };
    };
    let n = population as f64;
    let has_open = !network.open().is_empty();
    let high = greatest_rate(network, class).min(sums.limit);
    // With open classes present no finite pessimistic bound follows from demands alone.
    let alone = network.classes.len() == 1;
    let simple = network.pools.is_empty() && network.forks.is_empty();
    let low = if population == 0 {
        0.0
    } else if alone {
        n / (think + longest_alone(network, class))
    } else if has_open || !simple || gives_way(network, class) {
        0.0
    } else {
        n / (think + sums.delays + longest_waits(network, class))
    };
    let exponential = !network.stations.iter().any(|s| s.in_turn() && s.is_general());
    let balanced = (alone && simple && population > 0 && exponential).then(|| balanced(&sums, n, think));
    let tight =
        balanced.map_or(Range { low, high }, |b| Range { low: b.low.max(low), high: b.high.min(high) });
    let response = |x: f64| if x > 0.0 { (n / x - think).max(0.0) } else { f64::INFINITY };
    ClassBounds {
        name,
        throughput: Range { low, high },
        balanced,
        response: Range { low: response(tight.high), high: response(tight.low) },
        bottleneck: sums.bottleneck,
        knee: Some((think + sums.optimistic) * sums.limit),
    }
}

/// Balanced-job bounds with think time (Lazowska et al. 1984, table 5.2).
fn balanced(sums: &Sums, n: f64, think: f64) -> Range {
    let delay = think + sums.delays;
    let pessimistic = sums.pessimistic;
    let low = if pessimistic > 0.0 {
        n / (delay + pessimistic + (n - 1.0) * sums.pessimistic_max / (1.0 + delay / (n * pessimistic)))
    } else {
        n / delay
    };
    // Optimist: everything but single servers is delay.
    let others = think + sums.optimistic - sums.single;
    let high = if sums.single > 0.0 {
        let average = sums.single / sums.single_count;
        n / (others + sums.single + (n - 1.0) * average / (1.0 + others / sums.single))
    } else {
        n / others
    };
    Range { low, high: high.min(sums.limit) }
}
