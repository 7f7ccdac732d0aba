//! Response times whose distribution is known: what one request meets is a small Markov chain, given what it
//! finds on arrival. Poisson arrivals find what is there on average; of N customers who think, one finds what
//! N - 1 leave (Lavenberg and Reiser 1980; Sevcik and Mitrani 1981).
//!
//! Known are one queueing station between delays, and open stations in a row that nobody can be overtaken in
//! (Reich 1957; Burke 1969): first come, first served with one server each, several at the first and the last.
//! Elsewhere the times at two stations depend on one another, and no law is used.

// Whether what the model states is the same number, not whether computed figures are near.
#![allow(clippy::float_cmp)]

use super::phases::Phases;
use crate::network::{Discipline, Load, Network, Speed, Station};

/// A share of all arrivals that finds more requests than a chain has, neglected.
const NEGLECTED: f64 = 1e-12;
/// Requests found that a chain can have.
const MOST_FOUND: usize = 200_000;

/// The other requests of a model in which all are alike.
#[derive(Clone, Copy)]
enum Others {
    /// They come this often a second.
    Open(f64),
    /// There are this many, who think this long, seconds.
    Closed(usize, f64),
}

impl Others {
    /// How often one comes to the only queue while `present` are there, per second.
    fn rate(self, present: usize) -> f64 {
        match self {
            Self::Open(rate) => rate,
            Self::Closed(count, think) => (count - present) as f64 / think,
        }
    }
}

/// The response time of each request, if its law is known; the same for all classes.
pub fn response(network: &Network) -> Option<Phases> {
    let others = alike(network)?;
    let used: Vec<&Station> = network.stations.iter().filter(|s| s.demands[0] > 0.0).collect();
    let plain = network.pools.is_empty() && network.forks.is_empty() && network.routings.is_empty();
    let plain = plain && !used.iter().any(|s| s.is_general() || s.room.is_some());
    let once = |s: &&Station| s.visits[0] == 1.0 || (s.speed == Speed::Delay && s.visits[0].fract() == 0.0);
    if !plain || used.is_empty() || !used.iter().all(once) {
        return None;
    }
    let queues = used.iter().filter(|s| s.speed != Speed::Delay).count();
    let delays = used.len() - queues;
    let known = match others {
        Others::Open(_) => queues <= 1 || in_a_row(&used),
        Others::Closed(_, think) => queues == 0 || (queues == 1 && delays == 0 && think > 0.0),
    };
    if !known {
        return None;
    }
    let mut all: Option<Phases> = None;
    for station in used {
        let here = at(station, others)?;
        all = Some(match all {
            None => here,
            Some(before) => before.then(&here),
        });
    }
    all
}

/// Who else is there, if the classes differ in name only.
fn alike(network: &Network) -> Option<Others> {
    let same = |s: &Station| {
        s.demands.iter().all(|d| *d == s.demands[0]) && s.visits.iter().all(|v| *v == s.visits[0])
    };
    if !network.stations.iter().all(same) {
        return None;
    }
    let mut rate = 0.0;
    for class in &network.classes {
        match class.load {
            Load::Open { rate: own } => rate += own,
            Load::Closed { population, think } if network.classes.len() == 1 && population > 0 => {
                return Some(Others::Closed(population - 1, think));
            }
            Load::Closed { .. } => return None,
        }
    }
    Some(Others::Open(rate))
}

/// True where no request can overtake another but at the first and the last station.
fn in_a_row(stations: &[&Station]) -> bool {
    let inner = 1..stations.len() - 1;
    stations.iter().enumerate().all(|(i, s)| match s.speed {
        Speed::Delay => !inner.contains(&i),
        Speed::Servers(servers) => s.discipline == Discipline::Fcfs && (servers == 1 || !inner.contains(&i)),
        Speed::Rates(_) => false,
    })
}

/// The time at one station.
fn at(station: &Station, others: Others) -> Option<Phases> {
    let visit = station.demands[0] / station.visits[0];
    match (&station.speed, station.discipline) {
        (Speed::Delay, _) => {
            let stages = station.visits[0] as usize;
            let mut phases = Phases::new((0..stages).map(|i| f64::from(u8::from(i == 0))).collect());
            (1..stages).for_each(|i| phases.go(i - 1, i, 1.0 / visit));
            phases.finish(stages - 1, 1.0 / visit);
            Some(phases)
        }
        (speed, Discipline::Ps) => Some(shared(speed, visit, others, found(speed, visit, others)?)),
        (Speed::Servers(servers), Discipline::Fcfs) => {
            let found = found(&station.speed, visit, others)?;
            Some(in_turn(*servers, visit, &found))
        }
        // One class has nobody to give way to, but several have; rates serve as one shared server.
        _ => None,
    }
}

/// Probability of finding each number of others at the only queue, or at one fed by Poisson arrivals.
fn found(speed: &Speed, visit: f64, others: Others) -> Option<Vec<f64>> {
    let most = match others {
        Others::Open(_) => MOST_FOUND,
        Others::Closed(count, _) => count,
    };
    let (mut weights, mut sum) = (vec![1.0], 1.0);
    while weights.len() <= most {
        let n = weights.len();
        let ratio = others.rate(n - 1) * visit / speed.at(n);
        let weight = weights[n - 1] * ratio;
        weights.push(weight);
        sum += weight;
        if sum > 1e200 {
            weights.iter_mut().for_each(|w| *w *= 1e-200);
            sum *= 1e-200;
        }
        // Beyond, each is at most `ratio` times the one before: the rates of arrival fall, those of service
        // have reached their limit.
        if speed.at(n) >= speed.limit() && ratio < 1.0 && weight * ratio / (1.0 - ratio) < NEGLECTED * sum {
            break;
        }
        if matches!(others, Others::Open(_)) && n == MOST_FOUND {
            return None;
        }
    }
    weights.iter_mut().for_each(|w| *w /= sum);
    Some(weights)
}

/// The server is shared equally by all who are there. State: others present.
fn shared(speed: &Speed, visit: f64, others: Others, found: Vec<f64>) -> Phases {
    let most = found.len() - 1;
    let mut phases = Phases::new(found);
    for n in 0..=most {
        let each = speed.at(n + 1) / (n + 1) as f64 / visit;
        phases.finish(n, each);
        if n < most {
            phases.go(n, n + 1, others.rate(n));
        }
        if n > 0 {
            phases.go(n, n - 1, n as f64 * each);
        }
    }
    phases
}

/// Whoever came earlier is served earlier. State 0: in service; `i`: `i` must leave before service begins.
fn in_turn(servers: usize, visit: f64, found: &[f64]) -> Phases {
    let at_once: f64 = found.iter().take(servers).sum();
    let start = std::iter::once(at_once).chain(found.iter().skip(servers).copied()).collect::<Vec<_>>();
    let longest = start.len();
    let mut phases = Phases::new(start);
    phases.finish(0, 1.0 / visit);
    (1..longest).for_each(|i| phases.go(i, i - 1, servers as f64 / visit));
    phases
}
