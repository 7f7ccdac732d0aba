//! How long the station that takes longest needs to forget how it began, as far as open classes come to it: in runs much
//! shorter than that its queue has not grown.

use crate::network::{Load, Network, Speed, Station};
use crate::solution::Solution;
use crate::solvers::mixed;

/// A station and the time in which it forgets how it began, seconds.
type Settling<'a> = (&'a Station, f64);

/// The slowest station by what open classes offer alone; none where requests are lost.
pub fn of_open_load(network: &Network) -> Option<Settling<'_>> {
    let rates: Vec<(usize, f64)> = network.open().into_iter().map(|c| (c, rate(network, c, 0.0))).collect();
    let offered = lossless(network).filter(|(_, s)| mixed::offered(network, s) > 0.0);
    slowest(offered.map(|(_, s)| (s, Asked::of(s, &rates).relaxation())))
}

/// The slowest station of an open class with all who are served before or beside it, these as `solution` has them; none
/// where requests are lost.
pub fn as_loaded<'a>(network: &'a Network, solution: &Solution) -> Option<Settling<'a>> {
    let of = |class: usize, (k, station): (usize, &'a Station)| {
        let is_ranked = station.discipline.is_ranked();
        let own = network.classes[class].priority;
        let is_beside = |c: &usize| !is_ranked || network.classes[*c].priority == own;
        let before = if is_ranked { mixed::not_after(network, class) } else { network.open() };
        let seen = |c: usize| (c, rate(network, c, solution.classes[c].throughput));
        let asked = Asked::of(station, &before.into_iter().map(seen).collect::<Vec<_>>());
        let waiting = |c: usize| {
            // Who shares is as fast as others let it; who takes turns waits for what they have to do.
            let served = if station.discipline.is_sharing() { class } else { c };
            let weight = station.weight(c) / station.weight(class);
            solution.stations[k].queue[c] * weight * station.demands[served] / station.visits[served]
        };
        let beside = network.closed().into_iter().filter(is_beside).map(waiting).sum();
        (station, asked.relaxation() + asked.pushed_back(beside))
    };
    let of = &of;
    slowest(network.open().into_iter().flat_map(|class| {
        lossless(network).filter(move |(_, s)| s.demands[class] > 0.0).map(move |at| of(class, at))
    }))
}

fn slowest<'a>(all: impl Iterator<Item = Settling<'a>>) -> Option<Settling<'a>> {
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Requests per second of a class, a closed one having been seen to complete so many.
fn rate(network: &Network, class: usize, seen: f64) -> f64 {
    match network.classes[class].load {
        Load::Open { rate } => rate,
        Load::Closed { .. } => seen,
    }
}

/// The stations with queues, by number; none where requests are lost.
fn lossless(network: &Network) -> impl Iterator<Item = (usize, &Station)> {
    let is_lossless = network.stations.iter().all(|s| s.room.is_none());
    let queues = move |(_, s): &(usize, &Station)| is_lossless && s.speed != Speed::Delay;
    network.stations.iter().enumerate().filter(queues)
}

/// What classes ask of a station.
struct Asked {
    /// Of what it can do.
    busy: f64,
    /// What is left of the service under way when somebody looks, of all servers together, seconds.
    left: f64,
    limit: f64,
}

impl Asked {
    /// With so many requests of these classes per second.
    fn of(station: &Station, rates: &[(usize, f64)]) -> Self {
        let (mut work, mut left, limit) = (0.0, 0.0, station.speed.limit());
        for &(class, rate) in rates.iter().filter(|(class, _)| station.demands[*class] > 0.0) {
            let load = rate * station.demands[class];
            let service = station.demands[class] / station.visits[class];
            work += load;
            left += load * service * 0.5 * (1.0 + station.law(class).square_cv());
        }
        Self { busy: work / limit, left: left / work / limit, limit }
    }

    /// The time in which a station forgets how it began, seconds: that of a single server with exponential services is
    /// their mean over `(1 - sqrt(utilisation))^2` (Cohen, The Single Server Queue, 1982). For the mean of several services
    /// stands what is left of the one under way.
    fn relaxation(&self) -> f64 {
        if self.busy < 1.0 {
            self.left / (1.0 - self.busy.sqrt()).powi(2)
        } else {
            f64::INFINITY
        }
    }

    /// How much longer that takes beside closed requests with so much work waiting, seconds. A longer queue of open ones
    /// gets a larger part of the station: `n` of them `n s / (n s + waiting)`, which answers to a change of `n` with
    /// `(1 - utilisation)^2 / waiting` of it per second.
    fn pushed_back(&self, waiting: f64) -> f64 {
        if self.busy < 1.0 {
            waiting / self.limit / (1.0 - self.busy).powi(2)
        } else {
            f64::INFINITY
        }
    }
}
