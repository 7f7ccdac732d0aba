//! Exact means of one open station, with delays around it: laws that need no state space, whatever the load.
//!
//! - Service in turn with times of any law at one server (Pollaczek 1930), by priority or not, interrupted or not
//!   (Cobham 1954; Kleinrock, "Queueing Systems" II, 1976, chapter 3); exponential times, alike for all, at several
//!   servers (Cobham 1954 and differences of M/M/c).
//! - One server shared by weight, exponential times (Fayolle, Mitrani and Iasnogorodski 1980).
//! - Finite capacity with loss: Erlang's formula and M/M/c/K; any law where nobody waits in turn (insensitivity).

use crate::bands::Accuracy;
use crate::closed::ClosedMeans;
use crate::error::ModelError;
use crate::network::{Discipline, Full, Load, Network, Room, Speed, Station};
use crate::options::Options;
use crate::solution::Solution;
use crate::solvers::mixed;
use crate::special::solve_linear;

/// The station, and how its requests come.
struct Queue<'a> {
    station: &'a Station,
    /// Arrivals of each class, per second.
    rate: Vec<f64>,
    /// Mean time per visit.
    time: Vec<f64>,
    priority: Vec<i32>,
}

/// Mean time at the station per visit and class, and the share that is lost.
type Times = (Vec<f64>, f64);

/// True for the networks that [`solve`] treats.
pub fn suits(network: &Network) -> bool {
    queue(network).and_then(|queue| queue.times()).is_some()
}

/// Solves a network of one open station.
///
/// # Errors
/// [`ModelError::Unstable`]; [`ModelError::Unsupported`] for everything else.
pub fn solve(network: &Network, _: &Options) -> Result<Solution, ModelError> {
    mixed::check_stability(network)?;
    let refuse = || {
        let feature = "anything but one open station that each request visits once and whose law is known,";
        ModelError::unsupported("station", feature, &network.stations[0].name, "use `auto`")
    };
    let queue = queue(network).ok_or_else(refuse)?;
    let (times, lost) = queue.times().ok_or_else(refuse)?;
    let classes = network.classes.len();
    let throughput: Vec<f64> = (0..classes)
        .map(|c| match network.classes[c].load {
            Load::Open { rate } if queue.rate[c] > 0.0 => rate * (1.0 - lost),
            Load::Open { rate } => rate,
            Load::Closed { .. } => 0.0,
        })
        .collect();
    let present = |s: &Station, c: usize| {
        let each = if std::ptr::eq(s, queue.station) { s.visits[c] * times[c] } else { s.demands[c] };
        if s.demands[c] > 0.0 {
            throughput[c] * each
        } else {
            0.0
        }
    };
    let found = network.stations.iter().map(|s| (0..classes).map(|c| present(s, c)).collect()).collect();
    let marginal = vec![None; network.stations.len()];
    let means = ClosedMeans { throughput, queue: found, marginal, iterations: 0, residual: 0.0 };
    let mut solution = mixed::assemble_whole(network, &means);
    if queue.station.room.is_some() {
        for (c, class) in solution.classes.iter_mut().enumerate() {
            class.loss = Some(if queue.rate[c] > 0.0 { lost } else { 0.0 });
        }
    }
    solution.accuracy = Accuracy::Exact;
    Ok(solution)
}

/// The only station where requests can meet, if there is one and it is visited at most once.
fn queue(network: &Network) -> Option<Queue<'_>> {
    let plain = network.pools.is_empty() && network.forks.is_empty() && network.routings.is_empty();
    if !plain || !network.closed().is_empty() {
        return None;
    }
    let mut used = network.stations.iter().filter(|s| s.is_used());
    let meets = |s: &&Station| s.speed != Speed::Delay || s.room.is_some();
    let station = used.clone().find(meets)?;
    let others = used.clone().filter(|s| !std::ptr::eq(*s, station));
    let rest = others.clone().all(|s| s.speed == Speed::Delay && s.room.is_none());
    // Who is lost does not come to what is behind.
    let alone = station.room.is_none() || used.all(|s| std::ptr::eq(s, station));
    if !rest || !alone || station.visits.iter().any(|v| *v > 1.0) {
        return None;
    }
    let rate = |c: usize| match network.classes[c].load {
        Load::Open { rate } if station.demands[c] > 0.0 => rate * station.visits[c],
        _ => 0.0,
    };
    let classes = 0..network.classes.len();
    // A request that may pass the station by is not lost as often as one that comes.
    if station.room.is_some() && station.visits.iter().any(|v| *v < 1.0) {
        return None;
    }
    Some(Queue {
        station,
        rate: classes.clone().map(rate).collect(),
        time: classes.clone().map(|c| station.demands[c] / station.visits[c]).collect(),
        priority: classes.map(|c| network.classes[c].priority).collect(),
    })
}

impl Queue<'_> {
    fn coming(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rate.len()).filter(|&c| self.rate[c] > 0.0)
    }

    /// Load of the classes chosen, in busy servers.
    fn load(&self, chosen: impl Fn(usize) -> bool) -> f64 {
        self.coming().filter(|&c| chosen(c)).map(|c| self.rate[c] * self.time[c]).sum()
    }

    /// The work that an arrival finds in service or coming, of the classes chosen, over what is done meanwhile.
    fn residual(&self, chosen: impl Fn(usize) -> bool) -> f64 {
        let second = |c: usize| self.time[c].powi(2) * (1.0 + self.station.law(c).square_cv());
        self.coming().filter(|&c| chosen(c)).map(|c| 0.5 * self.rate[c] * second(c)).sum()
    }

    /// True where all times are exponential and alike.
    #[allow(clippy::float_cmp)] // whether the model states the same number
    fn alike(&self) -> bool {
        let mut times = self.coming().map(|c| self.time[c]);
        let first = times.next();
        times.all(|t| Some(t) == first) && !self.station.is_general()
    }

    fn times(&self) -> Option<Times> {
        let classes = 0..self.rate.len();
        if let Some(room) = self.station.room {
            return self.with_room(room);
        }
        let before = |c: usize| self.load(|d| self.priority[d] > self.priority[c]);
        let up_to = |c: usize| self.load(|d| self.priority[d] >= self.priority[c]);
        let each: Vec<f64> = match (&self.station.speed, self.station.discipline) {
            (Speed::Servers(1), Discipline::Fcfs) => {
                let wait = self.residual(|_| true) / (1.0 - self.load(|_| true));
                classes.map(|c| wait + self.time[c]).collect()
            }
            (Speed::Servers(1), Discipline::NonPreemptive) => {
                let wait = |c| self.residual(|_| true) / ((1.0 - before(c)) * (1.0 - up_to(c)));
                classes.map(|c| wait(c) + self.time[c]).collect()
            }
            (Speed::Servers(1), Discipline::Priority) => {
                let met = |c: usize| self.residual(|d| self.priority[d] >= self.priority[c]);
                let time = |c| (self.time[c] + met(c) / (1.0 - up_to(c))) / (1.0 - before(c));
                classes.map(time).collect()
            }
            (Speed::Servers(m), Discipline::NonPreemptive) if self.alike() => {
                let (servers, mean) = (*m as f64, self.coming().map(|c| self.time[c]).next()?);
                let busy = erlang_wait(*m, self.load(|_| true));
                let share = |load: f64| 1.0 - load / servers;
                let wait = |c| busy * mean / servers / (share(before(c)) * share(up_to(c)));
                classes.map(|c| wait(c) + self.time[c]).collect()
            }
            (Speed::Servers(m), Discipline::Priority) if self.alike() => {
                // Those of a priority and above do not see the rest, and are together an M/M/c.
                let number = |load: f64| load + erlang_wait(*m, load) * load / (*m as f64 - load);
                let time = |c: usize| match up_to(c) - before(c) {
                    own if own > 0.0 => (number(up_to(c)) - number(before(c))) / own * self.time[c],
                    _ => 0.0,
                };
                classes.map(time).collect()
            }
            (Speed::Servers(1), Discipline::Weighted) if !self.station.is_general() => self.weighted()?,
            _ => return None,
        };
        Some((each, 0.0))
    }

    /// Mean times at one server shared by weight: linear equations in them.
    fn weighted(&self) -> Option<Vec<f64>> {
        let all: Vec<usize> = self.coming().collect();
        let weight = |c: usize| self.station.weight(c);
        // Share of the time in which d is served before c, were they alone.
        let ahead = |c: usize, d: usize| {
            let (own, other) = (weight(c) / self.time[c], weight(d) / self.time[d]);
            self.rate[d] * weight(d) / (own + other)
        };
        let entry = |&c: &usize, &d: &usize| {
            let diagonal = if c == d { 1.0 - all.iter().map(|&e| ahead(c, e)).sum::<f64>() } else { 0.0 };
            diagonal - ahead(c, d)
        };
        let matrix: Vec<Vec<f64>> = all.iter().map(|c| all.iter().map(|d| entry(c, d)).collect()).collect();
        let constant: Vec<f64> = all.iter().map(|&c| self.time[c]).collect();
        let found = solve_linear(&matrix, &constant)?;
        let mut times = vec![0.0; self.rate.len()];
        all.iter().zip(found).for_each(|(&c, time)| times[c] = time);
        Some(times)
    }

    /// Birth and death up to the room there is, where the law of the times does not matter or they are exponential.
    fn with_room(&self, room: Room) -> Option<Times> {
        let speed = &self.station.speed;
        let nobody_waits = matches!(speed, Speed::Servers(m) if *m >= room.most) || *speed == Speed::Delay;
        let in_order = self.station.discipline == Discipline::Fcfs && self.alike();
        let shared = self.station.discipline == Discipline::Ps;
        if room.full != Full::Lose || !(nobody_waits || in_order || shared) {
            return None;
        }
        let load = self.load(|_| true);
        let (mut weight, mut sum, mut number) = (1.0f64, 1.0f64, 0.0f64);
        for n in 1..=room.most {
            weight *= load / speed.at(n);
            sum += weight;
            number += n as f64 * weight;
            if sum > 1e200 {
                (weight, sum, number) = (weight * 1e-200, sum * 1e-200, number * 1e-200);
            }
        }
        let lost = weight / sum;
        // Each class is there in proportion to its load.
        let factor = number / sum / (load * (1.0 - lost));
        Some((self.time.iter().map(|t| t * factor).collect(), lost))
    }
}

/// Probability that an arrival waits at an M/M/c (Erlang's C), by the recursion of his B.
fn erlang_wait(servers: usize, load: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |b, n| load * b / (n as f64 + load * b));
    blocked / (1.0 - load / servers as f64 * (1.0 - blocked))
}
